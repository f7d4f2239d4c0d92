/* What goes into a backend and what comes out: rows, PCM, times.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "engine/rows.h"
#include "engine/stats.h"

#include <math.h>
#include <string.h>

/* ----------------------------------------------------------------- PCM --- */

static void
test_s16 (void)
{
  static const gfloat edges[] = { 0, -0.0f, 1, -1, 1.0001f, -1.0001f, 1e30f,
    -1e30f, 0.5f, -0.5f, 1e-40f, 0.99998f, 1.5f / 32767, 2.5f / 32767,
    -1.5f / 32767, -2.5f / 32767, 0x1.fffffep-1f };
  gfloat samples[MIMI_FRAME_SAMPLES];
  gint16 out[MIMI_FRAME_SAMPLES];
  MimiStepItem item = { .pcm = out, .format = MIMI_PCM_S16 };
  GRand *rand = g_rand_new_with_seed (2);
  guint round, i;

  for (round = 0; round < 50; round++) {
    for (i = 0; i < MIMI_FRAME_SAMPLES; i++)
      samples[i] = g_rand_double_range (rand, -1.2, 1.2);
    /* halfway between two integers */
    for (i = 0; i < 200; i++)
      samples[i] = (i + 0.5f) / 32767.0f;
    memcpy (samples + 300, edges, sizeof edges);
    mimi_pcm_write (&item, samples);
    for (i = 0; i < MIMI_FRAME_SAMPLES; i++) {
      gfloat clipped = CLAMP (samples[i], -1.0f, 1.0f);

      g_assert_cmpint (out[i], ==, (gint)nearbyintf (clipped * 32767.0f));
    }
  }
  g_assert_cmpint (out[302], ==, 32767);
  g_assert_cmpint (out[303], ==, -32767);
  g_assert_cmpint (out[308], ==, 16384); /* 16383.5: to the even one */
  g_rand_free (rand);
}

static void
test_f32 (void)
{
  gfloat samples[MIMI_FRAME_SAMPLES], out[MIMI_FRAME_SAMPLES];
  MimiStepItem item = {
    .pcm = out, .format = MIMI_PCM_F32, .position = 120, .fade_in = 120
  };
  guint i;

  for (i = 0; i < MIMI_FRAME_SAMPLES; i++)
    samples[i] = i * 0.01f - 7;
  mimi_pcm_write (&item, samples);
  g_assert_cmpmem (out, sizeof out, samples, sizeof samples);
}

/* The factor of sample i is i / (n - 1): linspace (0, 1, n). */
static void
test_fade (void)
{
  static const guint64 lengths[] = { 1, 2, 120, 1920, 1921, 5000 };
  gfloat samples[MIMI_FRAME_SAMPLES], out[MIMI_FRAME_SAMPLES];
  guint l, i;

  for (i = 0; i < MIMI_FRAME_SAMPLES; i++)
    samples[i] = 0.5f;
  for (l = 0; l < G_N_ELEMENTS (lengths); l++) {
    MimiStepItem item = {
      .pcm = out, .format = MIMI_PCM_F32, .fade_in = lengths[l]
    };

    for (; item.position < 8000; item.position += MIMI_FRAME_SAMPLES) {
      mimi_pcm_write (&item, samples);
      for (i = 0; i < MIMI_FRAME_SAMPLES; i++) {
        guint64 at = item.position + i;
        gdouble factor = at >= lengths[l]  ? 1
                         : lengths[l] == 1 ? 0
                                           : at / (gdouble)(lengths[l] - 1);

        g_assert_cmpfloat_with_epsilon (out[i], 0.5 * factor, 1e-7);
      }
    }
  }
}

/* ---------------------------------------------------------------- rows --- */

static const MimiNetwork pocket = {
  .latent_dim = 32, .has_statistics = TRUE, .width = 512
};
static const MimiNetwork codec = { .latent_dim = 32, .width = 512 };
static const MimiNetwork full = {
  .codebooks = 8, .codebook_size = 2048, .width = 512
};

static void
assert_rows (const MimiNetwork *net, MimiRowFormat format, guint length,
    gboolean normalized, gint kind, const gchar *says, const gchar *also)
{
  MimiRows rows = { format, length, normalized };
  MimiStepKind got;
  GError *error = NULL;

  if (mimi_rows_check (&rows, net, &got, &error)) {
    g_assert_cmpint (got, ==, kind);
    return;
  }
  g_assert_cmpint (kind, ==, -1);
  g_assert_true (g_error_matches (error, MIMI_ERROR, MIMI_ERROR_INPUT));
  if (!strstr (error->message, says) || !strstr (error->message, also))
    g_error ("'%s' does not say '%s' and '%s'", error->message, says, also);
  g_error_free (error);
}

static void
test_formats (void)
{
  assert_rows (&pocket, MIMI_ROW_F32, 32, TRUE, MIMI_STEP_NORMALIZED, "", "");
  assert_rows (&pocket, MIMI_ROW_F16, 32, FALSE, MIMI_STEP_LATENT, "", "");
  assert_rows (&pocket, MIMI_ROW_F16, 512, TRUE, MIMI_STEP_EMBEDDING, "", "");
  assert_rows (&pocket, MIMI_ROW_F32, 64, TRUE, -1, "64 values", "takes 32");
  assert_rows (&pocket, MIMI_ROW_F32, 0, TRUE, -1, "0 values", "takes 32");
  assert_rows (&pocket, MIMI_ROW_S64, 8, FALSE, -1, "codes", "32");
  assert_rows (&codec, MIMI_ROW_F32, 32, FALSE, MIMI_STEP_LATENT, "", "");
  assert_rows (&codec, MIMI_ROW_F32, 32, TRUE, -1, "emb_mean", "emb_std");
  assert_rows (&codec, MIMI_ROW_F32, 512, TRUE, MIMI_STEP_EMBEDDING, "", "");
  assert_rows (&full, MIMI_ROW_U16, 1, FALSE, MIMI_STEP_CODES, "", "");
  assert_rows (&full, MIMI_ROW_S32, 8, TRUE, MIMI_STEP_CODES, "", "");
  assert_rows (&full, MIMI_ROW_S64, 9, FALSE, -1, "9 codes", "8 codebooks");
  assert_rows (&full, MIMI_ROW_S64, 0, FALSE, -1, "0 codes", "8 codebooks");
  assert_rows (&full, MIMI_ROW_F32, 512, FALSE, MIMI_STEP_EMBEDDING, "", "");
  assert_rows (&full, MIMI_ROW_F32, 32, FALSE, -1, "32 values", "512");
}

/* Reads the row at an odd address. */
static MimiRowState
read_row (const MimiRows *rows, gconstpointer row, gfloat *values,
    guint16 *codes, gchar *reason, gsize size)
{
  guint8 block[1 + 8 * 512];

  memcpy (block + 1, row, mimi_rows_get_size (rows));
  return mimi_rows_read (rows, &full, block + 1, values, codes, reason, size);
}

static void
test_latents (void)
{
  MimiRows f32 = { MIMI_ROW_F32, 4, FALSE }, f16 = { MIMI_ROW_F16, 4, FALSE };
  gfloat row[4] = { 1, -2, 3e38f, 1e-40f }, values[4];
  guint16 halves[4] = { 0x3c00, 0xc000, 0x0001, 0x7bff };
  gchar reason[100];

  g_assert_cmpuint (mimi_rows_get_size (&f32), ==, 16);
  g_assert_cmpuint (mimi_rows_get_size (&f16), ==, 8);
  g_assert_cmpint (read_row (&f32, row, values, NULL, reason, sizeof reason),
      ==, MIMI_ROW_GOOD);
  g_assert_cmpmem (values, sizeof values, row, sizeof row);
  g_assert_cmpint (read_row (&f16, halves, values, NULL, reason, sizeof reason),
      ==, MIMI_ROW_GOOD);
  g_assert_cmpfloat (values[0], ==, 1);
  g_assert_cmpfloat (values[1], ==, -2);
  g_assert_cmpfloat (values[2], ==, 0x1p-24f);
  g_assert_cmpfloat (values[3], ==, 65504);

  row[2] = NAN;
  g_assert_cmpint (read_row (&f32, row, values, NULL, reason, sizeof reason),
      ==, MIMI_ROW_BAD);
  g_assert_cmpstr (reason, ==, "value 2 of the latent is NaN");
  halves[3] = 0xfc00;
  g_assert_cmpint (read_row (&f16, halves, values, NULL, reason, sizeof reason),
      ==, MIMI_ROW_BAD);
  g_assert_cmpstr (reason, ==, "value 3 of the latent is infinite");
}

static void
test_codes (void)
{
  static const struct {
    gint64 codes[3];
    MimiRowState u16, s32, s64;
  } cases[] = {
    { { 0, 2047, 5 }, MIMI_ROW_GOOD, MIMI_ROW_GOOD, MIMI_ROW_GOOD },
    { { 0, 2048, 5 }, MIMI_ROW_BAD, MIMI_ROW_BAD, MIMI_ROW_BAD },
    { { 0, 5, -1 }, MIMI_ROW_EMPTY, MIMI_ROW_EMPTY, MIMI_ROW_EMPTY },
    /* "no token yet" anywhere in the row says more than what else it holds */
    { { 9999, 5, -1 }, MIMI_ROW_EMPTY, MIMI_ROW_EMPTY, MIMI_ROW_EMPTY },
    { { 65535, 5, 5 }, MIMI_ROW_EMPTY, MIMI_ROW_BAD, MIMI_ROW_BAD },
    { { -2, 5, 5 }, MIMI_ROW_BAD, MIMI_ROW_BAD, MIMI_ROW_BAD },
    { { 1, 5, G_MAXINT32 }, MIMI_ROW_EMPTY, MIMI_ROW_BAD, MIMI_ROW_BAD },
    { { 1, G_GINT64_CONSTANT (0x100000001), 2 }, MIMI_ROW_GOOD, MIMI_ROW_GOOD,
        MIMI_ROW_BAD },
    { { 1, G_MININT64, 2 }, MIMI_ROW_GOOD, MIMI_ROW_GOOD, MIMI_ROW_BAD },
  };
  guint i, j;

  for (i = 0; i < G_N_ELEMENTS (cases); i++) {
    MimiRows u16 = { MIMI_ROW_U16, 3, FALSE }, s32 = { MIMI_ROW_S32, 3, FALSE },
             s64 = { MIMI_ROW_S64, 3, FALSE };
    guint16 a[3], out[3];
    gint32 b[3];
    gchar reason[100];

    for (j = 0; j < 3; j++) {
      a[j] = cases[i].codes[j];
      b[j] = cases[i].codes[j];
    }
    g_assert_cmpint (
        read_row (&u16, a, NULL, out, reason, sizeof reason), ==, cases[i].u16);
    g_assert_cmpint (
        read_row (&s32, b, NULL, out, reason, sizeof reason), ==, cases[i].s32);
    g_assert_cmpint (
        read_row (&s64, cases[i].codes, NULL, out, reason, sizeof reason), ==,
        cases[i].s64);
    if (cases[i].s64 == MIMI_ROW_GOOD) {
      for (j = 0; j < 3; j++)
        g_assert_cmpuint (out[j], ==, cases[i].codes[j]);
    }
    if (i == 1)
      g_assert_cmpstr (reason, ==, "code 2048 of codebook 1 is not in 0..2047");
  }
}

/* --------------------------------------------------------------- times --- */

static gint
compare_times (gconstpointer a, gconstpointer b)
{
  guint64 x = *(const guint64 *)a, y = *(const guint64 *)b;

  return x < y ? -1 : x > y;
}

static void
test_times (void)
{
  MimiTimes *times = g_new0 (MimiTimes, 1);
  GRand *rand = g_rand_new_with_seed (3);
  guint64 all[10001];
  guint i;

  g_assert_cmpuint (mimi_times_get_quantile (times, 0.5), ==, 0);
  for (i = 0; i < 10001; i++) {
    all[i] = exp (g_rand_double_range (rand, 0, 25)); /* 1 ns to 72 s */
    mimi_times_add (times, all[i]);
  }
  qsort (all, 10001, sizeof *all, compare_times);
  for (i = 1; i < 100; i++) {
    guint64 exact = all[(guint)ceil (i * 100.01) - 1];
    guint64 got = mimi_times_get_quantile (times, i / 100.0);

    g_assert_cmpfloat (fabs ((gdouble)got - exact), <=, 0.016 * exact);
  }
  g_assert_cmpuint (mimi_times_get_max (times), ==, all[10000]);

  /* beyond all buckets */
  mimi_times_add (times, G_MAXUINT64);
  g_assert_cmpuint (mimi_times_get_max (times), ==, G_MAXUINT64);
  g_assert_cmpuint (mimi_times_get_quantile (times, 1), >, 1000000000000);
  g_rand_free (rand);
  g_free (times);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/pcm/s16", test_s16);
  g_test_add_func ("/pcm/f32", test_f32);
  g_test_add_func ("/pcm/fade", test_fade);
  g_test_add_func ("/rows/formats", test_formats);
  g_test_add_func ("/rows/latents", test_latents);
  g_test_add_func ("/rows/codes", test_codes);
  g_test_add_func ("/times", test_times);
  return g_test_run ();
}
