/* The same weights sound the same in every layout, decoded by the CPU; and
 * decoding neither allocates nor depends on how rows are split into calls.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "checkpoint.h"

#include <math.h>
#include <string.h>

#define FRAMES 24

/* ---------------------------------------------------------- allocations --- */

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#define COUNT_ALLOCATIONS 1
#define EXPORTED __attribute__ ((visibility ("default")))
static gint allocations; /* atomic */

/* Stands before the C library's for the whole program. */
void *__libc_malloc (size_t size);
void *__libc_calloc (size_t n, size_t size);
void *__libc_realloc (void *block, size_t size);

EXPORTED void *
malloc (size_t size)
{
  g_atomic_int_inc (&allocations);
  return __libc_malloc (size);
}

EXPORTED void *
calloc (size_t n, size_t size)
{
  g_atomic_int_inc (&allocations);
  return __libc_calloc (n, size);
}

EXPORTED void *
realloc (void *block, size_t size)
{
  g_atomic_int_inc (&allocations);
  return __libc_realloc (block, size);
}
#endif

/* -------------------------------------------------------------- decoding --- */

static MimiStream *
stream_new (const gchar *checkpoint, const gchar *config, guint threads)
{
  static const MimiDecoderOptions options = { MIMI_BACKEND_CPU, -1,
    MIMI_PRECISION_FP32 };
  gchar *path = checkpoint_path (checkpoint);
  GError *error = NULL;
  MimiModel *model = mimi_model_open (path, config, &error);
  MimiDecoder *decoder;
  MimiStream *stream;

  g_assert_no_error (error);
  decoder = mimi_decoder_get (model, &options, &error);
  g_assert_no_error (error);
  mimi_model_unref (model);
  stream = mimi_stream_new (decoder, threads, &error);
  g_assert_no_error (error);
  mimi_decoder_unref (decoder);
  mimi_stream_set_pcm (stream, MIMI_PCM_F32);
  g_free (path);
  return stream;
}

/* All FRAMES rows, `chunk` to a call. */
static gfloat *
decode (MimiStream *stream, MimiRows rows, const guint8 *data, guint chunk)
{
  gfloat *pcm = g_new (gfloat, FRAMES * MIMI_FRAME_SAMPLES);
  gsize size = mimi_rows_get_size (&rows);
  MimiResult result;
  GError *error = NULL;
  guint i, n;

  mimi_stream_set_rows (stream, &rows, &error);
  g_assert_no_error (error);
  for (i = 0; i < FRAMES; i += n) {
    n = MIN (chunk, FRAMES - i);
    mimi_stream_decode (stream, data + i * size, n,
        pcm + i * MIMI_FRAME_SAMPLES, &result, &error);
    g_assert_no_error (error);
    g_assert_cmpuint (result.written, ==, n);
    g_assert_cmpuint (result.concealed, ==, 0);
  }
  return pcm;
}

/* dB; infinite if they are the same */
static gdouble
compare (const gfloat *a, const gfloat *b)
{
  gdouble signal = 0, noise = 0;
  guint i;

  for (i = 0; i < FRAMES * MIMI_FRAME_SAMPLES; i++) {
    signal += (gdouble)a[i] * a[i];
    noise += ((gdouble)a[i] - b[i]) * ((gdouble)a[i] - b[i]);
  }
  g_assert_cmpfloat (signal, >, 1);
  return noise > 0 ? 10 * log10 (signal / noise) : INFINITY;
}

static gfloat *
make_latents (void)
{
  GRand *rand = g_rand_new_with_seed (4);
  gfloat *rows = g_new (gfloat, 32 * FRAMES);
  guint i;

  for (i = 0; i < 32 * FRAMES; i++)
    rows[i] = g_rand_double_range (rand, -2, 2);
  g_rand_free (rand);
  return rows;
}

/* Decodes the same latents with `checkpoint` and with `other`. */
static gdouble
compare_layouts (const gchar *checkpoint, const gchar *other)
{
  static const MimiRows rows = { MIMI_ROW_F32, 32, FALSE };
  gchar *folder = folder_new ();
  gchar *config = g_build_filename (folder, "config.json", NULL);
  gfloat *latents = make_latents (), *a, *b;
  MimiStream *stream;
  gdouble snr;

  /* the form of GELU is what their layouts do not agree on */
  file_write (folder, "config.json", "{\"hidden_act\":\"gelu\"}");
  stream = stream_new (checkpoint, config, 1);
  a = decode (stream, rows, (guint8 *)latents, FRAMES);
  mimi_stream_free (stream);
  stream = stream_new (other, config, 1);
  b = decode (stream, rows, (guint8 *)latents, 5);
  mimi_stream_free (stream);
  snr = compare (a, b);
  g_test_message ("%s and %s: %.1f dB", checkpoint, other, snr);
  g_free (a);
  g_free (b);
  g_free (latents);
  g_free (config);
  folder_remove (folder);
  return snr;
}

static void
test_latents (void)
{
  g_assert_cmpfloat (
      compare_layouts ("tiny-pocket", "tiny-phonon"), ==, INFINITY);
  g_assert_cmpfloat (
      compare_layouts ("tiny-pocket", "tiny-hfpocket"), ==, INFINITY);
  g_assert_cmpfloat (
      compare_layouts ("pocket2m-pocket", "pocket2m-hfpocket"), ==, INFINITY);
  g_assert_cmpfloat (
      compare_layouts ("tiny-pocket-BF16", "tiny-hfpocket-BF16"), ==, INFINITY);
  /* folding rounds */
  g_assert_cmpfloat (compare_layouts ("tiny-pocket", "tiny-rawnorm"), >, 100);
  g_assert_cmpfloat (
      compare_layouts ("pocket2m-pocket", "pocket2m-rawnorm"), >, 100);
  /* other numbers are noticed */
  g_assert_cmpfloat (
      compare_layouts ("tiny-pocket", "tiny-pocket-BF16"), <, 80);
}

static void
test_codes (void)
{
  static const gchar *const others[] = { "tinyfull-hf", "tinyfull-csm",
    "tinyfull-moshi" };
  MimiRows u16 = { MIMI_ROW_U16, 8, FALSE }, s32 = { MIMI_ROW_S32, 8, FALSE },
           s64 = { MIMI_ROW_S64, 8, FALSE };
  guint16 a[8 * FRAMES];
  gint32 b[8 * FRAMES];
  gint64 c[8 * FRAMES];
  MimiStream *stream = stream_new ("tinyfull-moshi", NULL, 1);
  gfloat *expected, *pcm;
  guint i;

  for (i = 0; i < 8 * FRAMES; i++)
    a[i] = b[i] = c[i] = i * 7919 % 64;
  expected = decode (stream, u16, (guint8 *)a, 1);
  mimi_stream_free (stream);
  for (i = 0; i < G_N_ELEMENTS (others); i++) {
    stream = stream_new (others[i], NULL, 1);
    pcm = i % 2 ? decode (stream, s32, (guint8 *)b, 3)
                : decode (stream, s64, (guint8 *)c, 7);
    g_assert_cmpfloat (compare (expected, pcm), ==, INFINITY);
    g_free (pcm);
    /* an utterance after another is what it is alone */
    mimi_stream_reset (stream);
    pcm = decode (stream, u16, (guint8 *)a, FRAMES);
    g_assert_cmpfloat (compare (expected, pcm), ==, INFINITY);
    g_free (pcm);
    mimi_stream_free (stream);
  }
  /* folded */
  stream = stream_new ("tinyfull-rawnorm", NULL, 1);
  pcm = decode (stream, u16, (guint8 *)a, 4);
  g_assert_cmpfloat (compare (expected, pcm), >, 100);
  g_free (pcm);
  mimi_stream_free (stream);
  g_free (expected);
}

static void
test_allocations (void)
{
#ifdef COUNT_ALLOCATIONS
  MimiStream *stream = stream_new ("pocket2m-pocket", NULL, 1);
  MimiRows rows = { MIMI_ROW_F32, 32, TRUE };
  gfloat *latents = make_latents ();
  gfloat *pcm = g_new (gfloat, FRAMES * MIMI_FRAME_SAMPLES);
  MimiResult result;
  gint before;

  latents[5 * 32] = NAN; /* concealment does not either */
  mimi_stream_set_rows (stream, &rows, NULL);
  before = g_atomic_int_get (&allocations);
  g_assert_cmpint (before, >, 0);
  mimi_stream_decode (stream, latents, FRAMES, pcm, &result, NULL);
  mimi_stream_reset (stream);
  mimi_stream_decode (stream, latents, FRAMES, pcm, &result, NULL);
  g_assert_cmpint (g_atomic_int_get (&allocations), ==, before);
  g_assert_cmpuint (result.concealed, ==, 1);
  g_free (latents);
  g_free (pcm);
  mimi_stream_free (stream);
#else
  g_test_skip ("the sanitizer allocates in its own way");
#endif
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/layouts/latents", test_latents);
  g_test_add_func ("/layouts/codes", test_codes);
  g_test_add_func ("/layouts/allocations", test_allocations);
  return g_test_run ();
}
