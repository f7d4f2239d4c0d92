/* Saving a stream and going on elsewhere.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * MIMI_TEST_CUDA=1: with the CUDA backend too, and between both.
 */
#include "checkpoint.h"

#include <math.h>
#include <string.h>

#define SAMPLES MIMI_FRAME_SAMPLES

static gboolean with_cuda;

static MimiStream *
open_stream (const gchar *name, MimiBackend backend)
{
  MimiDecoderOptions options = { backend, -1, MIMI_PRECISION_FP32 };
  gchar *path = checkpoint_path (name);
  GError *error = NULL;
  MimiModel *model = mimi_model_open (path, NULL, &error);
  const MimiNetwork *network;
  MimiRows rows = { MIMI_ROW_F32, 0, FALSE };
  MimiDecoder *decoder;
  MimiStream *stream;

  g_assert_no_error (error);
  network = mimi_model_get_network (model);
  if (network->codebooks) {
    rows.format = MIMI_ROW_U16;
    rows.length = network->codebooks;
  } else {
    rows.length = network->latent_dim;
  }
  decoder = mimi_decoder_get (model, &options, &error);
  g_assert_no_error (error);
  stream = mimi_stream_new (decoder, 1, &error);
  g_assert_no_error (error);
  mimi_stream_set_rows (stream, &rows, &error);
  g_assert_no_error (error);
  mimi_stream_set_pcm (stream, MIMI_PCM_F32);
  mimi_decoder_unref (decoder);
  mimi_model_unref (model);
  g_free (path);
  return stream;
}

/* Frame `index` of an endless input. */
static void
decode (MimiStream *stream, gboolean codes, guint index, gfloat *pcm)
{
  GRand *rand = g_rand_new_with_seed (index + 1);
  gfloat values[64];
  guint16 numbers[MIMI_MAX_CODEBOOKS];
  GError *error = NULL;
  MimiResult result;
  guint i;

  for (i = 0; i < 64; i++)
    values[i] = g_rand_double_range (rand, -2, 2);
  for (i = 0; i < MIMI_MAX_CODEBOOKS; i++)
    numbers[i] = g_rand_int_range (rand, 0, 64);
  g_rand_free (rand);
  mimi_stream_decode (stream, codes ? (gpointer)numbers : (gpointer)values, 1,
      pcm, &result, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (result.written, ==, 1);
  g_assert_cmpuint (result.concealed, ==, 0);
}

static gdouble
snr (const gfloat *ref, const gfloat *x)
{
  gdouble signal = 0, noise = 0;
  guint i;

  for (i = 0; i < SAMPLES; i++) {
    signal += (gdouble)ref[i] * ref[i];
    noise += ((gdouble)ref[i] - x[i]) * ((gdouble)ref[i] - x[i]);
  }
  return noise > 0 ? 10 * log10 (signal / noise) : INFINITY;
}

/* One stream goes on; what it left is taken up by another, which was in the
 * middle of something else, at frames before and after the ring has come
 * round. */
static void
hand_over (const gchar *name, gboolean codes, MimiBackend from, MimiBackend to,
    guint last)
{
  MimiStream *a = open_stream (name, from), *b = open_stream (name, to);
  gsize size = mimi_stream_get_state_size (a);
  gpointer blob = g_malloc (size), again = g_malloc (size);
  gfloat want[SAMPLES], got[SAMPLES];
  GError *error = NULL;
  guint i;

  g_assert_cmpuint (size, ==, mimi_stream_get_state_size (b));
  decode (b, codes, 1000, got);
  for (i = 0; i < last; i++) {
    gboolean now = i < 3 || i == last - 2;

    if (now) {
      mimi_stream_save (a, blob, &error);
      g_assert_no_error (error);
      mimi_stream_restore (b, blob, size, &error);
      g_assert_no_error (error);
      mimi_stream_save (b, again, &error);
      g_assert_no_error (error);
      g_assert_cmpmem (blob, size, again, size);
    }
    decode (a, codes, i, want);
    if (!now && i != last - 1 && i != 3)
      continue;
    decode (b, codes, i, got);
    if (from == to)
      g_assert_cmpmem (want, sizeof want, got, sizeof got);
    else
      g_assert_cmpfloat (snr (want, got), >=, 100);
  }
  g_free (again);
  g_free (blob);
  mimi_stream_free (a);
  mimi_stream_free (b);
}

static void
test_cpu (void)
{
  hand_over ("tiny-pocket", FALSE, MIMI_BACKEND_CPU, MIMI_BACKEND_CPU, 40);
  hand_over ("tinyfull-moshi", TRUE, MIMI_BACKEND_CPU, MIMI_BACKEND_CPU, 140);
  hand_over ("pocket2m-pocket", FALSE, MIMI_BACKEND_CPU, MIMI_BACKEND_CPU, 12);
}

static void
test_cuda (void)
{
  if (!with_cuda) {
    g_test_skip ("no CUDA backend, or no GPU");
    return;
  }
  hand_over ("tiny-pocket", FALSE, MIMI_BACKEND_CUDA, MIMI_BACKEND_CUDA, 21);
  hand_over ("tiny-pocket", FALSE, MIMI_BACKEND_CUDA, MIMI_BACKEND_CPU, 21);
  hand_over ("tiny-pocket", FALSE, MIMI_BACKEND_CPU, MIMI_BACKEND_CUDA, 21);
  hand_over ("pocket2m-pocket", FALSE, MIMI_BACKEND_CPU, MIMI_BACKEND_CUDA, 8);
  hand_over ("tinyfull-moshi", TRUE, MIMI_BACKEND_CUDA, MIMI_BACKEND_CPU, 12);
}

static void
assert_refused (
    MimiStream *stream, gconstpointer blob, gsize size, const gchar *why)
{
  GError *error = NULL;

  g_assert_false (mimi_stream_restore (stream, blob, size, &error));
  g_assert_error (error, MIMI_ERROR, MIMI_ERROR_INPUT);
  if (!strstr (error->message, why))
    g_error ("\"%s\" does not say \"%s\"", error->message, why);
  g_error_free (error);
}

static void
test_refusals (void)
{
  MimiStream *a = open_stream ("tiny-pocket", MIMI_BACKEND_CPU);
  MimiStream *b = open_stream ("tiny-pocket", MIMI_BACKEND_CPU);
  MimiStream *other = open_stream ("pocket2m-pocket", MIMI_BACKEND_CPU);
  gsize size = mimi_stream_get_state_size (a);
  guint8 *blob = g_malloc (size), *bad = g_malloc (size);
  gfloat want[SAMPLES], got[SAMPLES], nan = NAN;
  GError *error = NULL;

  decode (a, FALSE, 0, want);
  decode (b, FALSE, 0, want);
  mimi_stream_save (a, blob, &error);
  g_assert_no_error (error);

  assert_refused (b, blob, 0, "not a saved stream");
  assert_refused (b, blob, 100, "not a saved stream");
  assert_refused (b, blob, size - 4, "was cut");
  assert_refused (other, blob, size, "another network");
  memcpy (bad, blob, size);
  bad[0] ^= 1;
  assert_refused (b, bad, size, "not a saved stream");
  memcpy (bad, blob, size);
  bad[8]++;
  assert_refused (b, bad, size, "version 2");
  memcpy (bad, blob, size);
  memcpy (bad + size - 4, &nan, 4);
  assert_refused (b, bad, size, "not finite");

  /* and goes on as if nothing had been */
  decode (a, FALSE, 1, want);
  decode (b, FALSE, 1, got);
  g_assert_cmpmem (want, sizeof want, got, sizeof got);

  g_free (bad);
  g_free (blob);
  mimi_stream_free (a);
  mimi_stream_free (b);
  mimi_stream_free (other);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  with_cuda = g_getenv ("MIMI_TEST_CUDA") != NULL;
  g_test_add_func ("/state/cpu", test_cpu);
  g_test_add_func ("/state/cuda", test_cuda);
  g_test_add_func ("/state/refusals", test_refusals);
  return g_test_run ();
}
