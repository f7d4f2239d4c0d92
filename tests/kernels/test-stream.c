/* Streams: rows in, PCM out, and what is counted.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "notes.h"

#include <math.h>
#include <string.h>

static MimiStream *
stream_new (const gchar *checkpoint, MimiRows rows)
{
  gchar *path = checkpoint_path (checkpoint);
  MimiDecoder *decoder = notes_get_decoder (path, NULL);
  GError *error = NULL;
  MimiStream *stream = mimi_stream_new (decoder, 0, &error);

  g_assert_no_error (error);
  mimi_stream_set_rows (stream, &rows, &error);
  g_assert_no_error (error);
  mimi_decoder_unref (decoder);
  g_free (path);
  return stream;
}

static void
decode (MimiStream *stream, gconstpointer rows, guint n, gpointer pcm,
    MimiResult *result)
{
  GError *error = NULL;
  gboolean ok = mimi_stream_decode (stream, rows, n, pcm, result, &error);

  g_assert_no_error (error);
  g_assert_true (ok);
}

static const MimiRows latents = { MIMI_ROW_F32, 32, FALSE };

/* Rows of which the first value is `values[i]`. */
static gfloat *
make_rows (const gfloat *values, guint n)
{
  gfloat *rows = g_new0 (gfloat, 32 * n);
  guint i;

  for (i = 0; i < n; i++)
    rows[32 * i] = values[i];
  return rows;
}

static void
assert_frame (const gint16 *pcm, guint frame, gdouble value)
{
  guint i;

  for (i = 0; i < MIMI_FRAME_SAMPLES; i++)
    g_assert_cmpint (pcm[frame * MIMI_FRAME_SAMPLES + i], ==,
        (gint)nearbyint (value / 1024 * 32767));
}

static void
test_reset (void)
{
  static const gfloat values[] = { 1, 2, 3, 4, 5, 6 };
  MimiStream *stream = stream_new ("tiny-pocket", latents);
  gfloat *rows = make_rows (values, 6);
  gint16 *pcm = g_new (gint16, 6 * MIMI_FRAME_SAMPLES);
  MimiStreamStats stats;
  MimiResult result;

  /* idempotent, and nothing to do yet */
  mimi_stream_reset (stream);
  decode (stream, rows, 3, pcm, &result);
  g_assert_cmpuint (result.written, ==, 3);
  assert_frame (pcm, 0, 1);
  assert_frame (pcm, 1, 3);
  assert_frame (pcm, 2, 5);
  g_assert_false (notes.last.reset);
  g_assert_cmpuint (notes.last.position, ==, 2 * MIMI_FRAME_SAMPLES);
  decode (stream, rows, 0, pcm, &result);
  g_assert_cmpuint (result.written, ==, 0);

  mimi_stream_reset (stream);
  mimi_stream_reset (stream);
  decode (stream, rows + 3 * 32, 1, pcm, &result);
  assert_frame (pcm, 0, 4);
  g_assert_true (notes.last.reset);
  g_assert_cmpuint (notes.last.position, ==, 0);
  decode (stream, rows + 4 * 32, 2, pcm, &result);
  assert_frame (pcm, 0, 6);
  assert_frame (pcm, 1, 8);

  mimi_stream_get_stats (stream, &stats);
  g_assert_cmpuint (stats.frames, ==, 6);
  g_assert_cmpuint (stats.resets, ==, 1);
  g_assert_cmpuint (stats.concealed, ==, 0);
  g_assert_cmpuint (stats.median_ns, >, 0);
  g_assert_cmpuint (stats.median_ns, <=, stats.p99_ns);
  g_assert_cmpuint (stats.p99_ns, <=, stats.max_ns);
  g_free (pcm);
  g_free (rows);
  mimi_stream_free (stream);
}

/* A bad row is silence, a fresh state after it, and no error. */
static void
test_concealed (void)
{
  static const gfloat values[] = { 1, 2, NAN, INFINITY, 3, 1e35f, 4, 5 };
  MimiStream *stream = stream_new ("tiny-pocket", latents);
  gfloat *rows = make_rows (values, 8);
  gint16 *pcm = g_new (gint16, 8 * MIMI_FRAME_SAMPLES);
  MimiStreamStats stats;
  MimiResult result;

  memset (pcm, 0x55, 2 * 8 * MIMI_FRAME_SAMPLES);
  decode (stream, rows, 8, pcm, &result);
  g_assert_cmpuint (result.written, ==, 8);
  g_assert_cmpuint (result.concealed, ==, 3);
  g_assert_cmpstr (result.reason, ==, "frame 2: value 0 of the latent is NaN");
  assert_frame (pcm, 0, 1);
  assert_frame (pcm, 1, 3);
  assert_frame (pcm, 2, 0);
  assert_frame (pcm, 3, 0);
  assert_frame (pcm, 4, 3);
  assert_frame (pcm, 5, 0);
  assert_frame (pcm, 6, 4);
  assert_frame (pcm, 7, 6);
  mimi_stream_get_stats (stream, &stats);
  g_assert_cmpuint (stats.frames, ==, 8);
  g_assert_cmpuint (stats.concealed, ==, 3);
  g_assert_cmpuint (stats.resets, ==, 2);

  /* each call tells its own first reason */
  decode (stream, rows + 5 * 32, 1, pcm, &result);
  g_assert_cmpuint (result.concealed, ==, 1);
  g_assert_nonnull (strstr (result.reason, "frame 8: the network overflows"));
  decode (stream, rows, 1, pcm, &result);
  g_assert_cmpuint (result.concealed, ==, 0);
  g_assert_cmpstr (result.reason, ==, "");
  g_free (pcm);
  g_free (rows);
  mimi_stream_free (stream);
}

/* Silence is silence in both formats; fade-in begins again after it. */
static void
test_fade (void)
{
  static const gfloat values[] = { 512, 512, NAN, 512 };
  MimiStream *stream = stream_new ("tiny-pocket", latents);
  gfloat *rows = make_rows (values, 4);
  gfloat *pcm = g_new (gfloat, 4 * MIMI_FRAME_SAMPLES);
  MimiResult result;

  mimi_stream_set_pcm (stream, MIMI_PCM_F32);
  mimi_stream_set_fade_in (stream, 120);
  decode (stream, rows, 4, pcm, &result);
  g_assert_cmpfloat (pcm[0], ==, 0);
  g_assert_cmpfloat (pcm[1], >, 0);
  g_assert_cmpfloat (pcm[119], ==, 0.5);
  g_assert_cmpfloat (pcm[MIMI_FRAME_SAMPLES], >, 0.5);
  g_assert_cmpfloat (pcm[2 * MIMI_FRAME_SAMPLES], ==, 0);
  g_assert_cmpfloat (pcm[3 * MIMI_FRAME_SAMPLES - 1], ==, 0);
  g_assert_cmpfloat (pcm[3 * MIMI_FRAME_SAMPLES], ==, 0);
  g_assert_cmpfloat (pcm[3 * MIMI_FRAME_SAMPLES + 119], ==, 0.5);
  g_free (pcm);
  g_free (rows);
  mimi_stream_free (stream);
}

/* Rows and PCM at any address. */
static void
test_alignment (void)
{
  static const gfloat values[] = { 1, NAN, 7 };
  gfloat *rows = make_rows (values, 3);
  guint8 *in = g_malloc (3 * 128 + 8), *out = g_malloc (3 * 7680 + 8);
  gint16 expected[3 * MIMI_FRAME_SAMPLES];
  MimiResult result;
  guint shift;

  for (shift = 0; shift < 8; shift++) {
    MimiStream *stream = stream_new ("tiny-pocket", latents);

    memcpy (in + shift, rows, 3 * 128);
    decode (stream, in + shift, 3, shift ? out + shift : (guint8 *)expected,
        &result);
    if (shift)
      g_assert_cmpmem (out + shift, sizeof expected, expected, sizeof expected);
    mimi_stream_free (stream);
  }
  assert_frame (expected, 2, 7);
  g_free (in);
  g_free (out);
  g_free (rows);
}

static void
test_codes (void)
{
  static const MimiRows codes = { MIMI_ROW_S32, 3, FALSE };
  static const gint32 rows[] = { -1, -1, -1, 5, -1, -1, 1, 2, 3, 7, 0, 63, 1,
    64, 2, -1, 5, 5, 10, 20, 30 };
  MimiStream *stream = stream_new ("tinyfull-moshi", codes);
  gint16 *pcm = g_new (gint16, 7 * MIMI_FRAME_SAMPLES);
  MimiRows two = { MIMI_ROW_U16, 2, FALSE };
  static const guint16 short_rows[] = { 1, 2, 65535, 3, 4, 5 };
  MimiStreamStats stats;
  MimiResult result;
  GError *error = NULL;

  decode (stream, rows, 7, pcm, &result);
  g_assert_cmpuint (result.written, ==, 4);
  g_assert_cmpuint (result.skipped, ==, 3);
  g_assert_cmpuint (result.concealed, ==, 1);
  g_assert_nonnull (strstr (result.reason, "code 64 of codebook 1"));
  assert_frame (pcm, 0, 6);
  assert_frame (pcm, 1, 71);
  assert_frame (pcm, 2, 0);
  assert_frame (pcm, 3, 60); /* fresh; the row without a token is nothing */
  g_assert_cmpint (notes.last.kind, ==, MIMI_STEP_CODES);
  g_assert_cmpuint (notes.last.n_codes, ==, 3);
  g_assert_cmpuint (notes.codes[2], ==, 30);

  /* another number of codebooks: no reset by itself */
  mimi_stream_set_rows (stream, &two, &error);
  g_assert_no_error (error);
  decode (stream, short_rows, 3, pcm, &result);
  g_assert_cmpuint (result.written, ==, 2);
  g_assert_cmpuint (result.skipped, ==, 1);
  assert_frame (pcm, 0, 4);
  assert_frame (pcm, 1, 11);
  mimi_stream_get_stats (stream, &stats);
  g_assert_cmpuint (stats.skipped, ==, 4);
  g_assert_cmpuint (stats.frames, ==, 6);
  g_assert_cmpuint (stats.concealed, ==, 1);

  /* what does not fit changes nothing */
  two.length = 9;
  g_assert_false (mimi_stream_set_rows (stream, &two, &error));
  error_assert (error, MIMI_ERROR_INPUT, "9", "8", NULL);
  decode (stream, short_rows, 1, pcm, &result);
  g_assert_cmpuint (result.written, ==, 1);
  g_free (pcm);
  mimi_stream_free (stream);
}

static void
test_refused (void)
{
  gchar *path = checkpoint_path ("tiny-hfpocket");
  MimiDecoder *decoder = notes_get_decoder (path, NULL);
  MimiStream *stream;
  MimiRows normalized = { MIMI_ROW_F32, 32, TRUE };
  MimiResult result;
  GError *error = NULL;
  gfloat row[32] = { 0 };
  gint16 pcm[MIMI_FRAME_SAMPLES];

  g_assert_null (mimi_stream_new (decoder, 99, &error));
  error_assert (error, MIMI_ERROR_NO_MEMORY, NULL);
  error = NULL;
  stream = mimi_stream_new (decoder, 4, &error);
  g_assert_false (mimi_stream_decode (stream, row, 1, pcm, &result, &error));
  error_assert (error, MIMI_ERROR_INPUT, NULL);
  error = NULL;
  g_assert_false (mimi_stream_set_rows (stream, &normalized, &error));
  error_assert (error, MIMI_ERROR_INPUT, "emb_mean", NULL);
  g_assert_false (mimi_stream_set_trace (stream, NULL, NULL));
  mimi_decoder_unref (decoder);
  mimi_stream_free (stream);
  g_free (path);
}

/* A device that fails is given to nobody else; what it did before is there. */
static void
test_device (void)
{
  static const gfloat values[MIMI_LONGEST_RUN + 2] = { 1,
    [MIMI_LONGEST_RUN + 1] = 666 };
  guint n = G_N_ELEMENTS (values);
  gchar *path = checkpoint_path ("tiny-pocket");
  MimiStream *stream = stream_new ("tiny-pocket", latents);
  MimiDecoder *old = notes_get_decoder (path, NULL), *new;
  gfloat *rows = make_rows (values, n);
  gint16 *pcm = g_new (gint16, n * MIMI_FRAME_SAMPLES);
  MimiResult result;
  GError *error = NULL;

  g_assert_false (mimi_stream_decode (stream, rows, n, pcm, &result, &error));
  error_assert (error, MIMI_ERROR_DEVICE, "it burns", NULL);
  g_assert_cmpuint (result.written, ==, MIMI_LONGEST_RUN);
  assert_frame (pcm, 0, 1);
  new = notes_get_decoder (path, NULL);
  g_assert_true (new != old);
  mimi_decoder_unref (old);
  mimi_stream_free (stream);
  g_assert_cmpint (notes.open, ==, 1);
  mimi_decoder_unref (new);
  g_assert_cmpint (notes.open, ==, 0);
  g_free (rows);
  g_free (pcm);
  g_free (path);
}

/* Several streams at once give what each gives alone: bad rows among them,
 * both formats, any alignment, one of them reset; in one step. */
static void
test_together (void)
{
  static const gfloat values[] = { 1, NAN, 3, 1e35f, 5, 6, 7, NAN, 9, 10 };
  enum { N = 5, FRAMES = 6 };
  gfloat *rows = make_rows (values, 10);
  guint8 *one = g_malloc (N * 8192), *all = g_malloc (N * 8192);
  MimiStream *alone[N], *together[N];
  gconstpointer row[N];
  gpointer pcm[N];
  MimiResult want, results[N];
  GError *error = NULL;
  guint i, frame;

  for (i = 0; i < N; i++) {
    alone[i] = stream_new ("tiny-pocket", latents);
    together[i] = stream_new ("tiny-pocket", latents);
    mimi_stream_set_pcm (alone[i], i % 2 ? MIMI_PCM_F32 : MIMI_PCM_S16);
    mimi_stream_set_pcm (together[i], i % 2 ? MIMI_PCM_F32 : MIMI_PCM_S16);
    pcm[i] = all + i * 8192 + i / 2; /* one of them aligned by nothing */
  }
  for (frame = 0; frame < FRAMES; frame++) {
    memset (one, 0x55, N * 8192);
    memset (all, 0x55, N * 8192);
    if (frame == 3) {
      mimi_stream_reset (alone[2]);
      mimi_stream_reset (together[2]);
    }
    for (i = 0; i < N; i++)
      row[i] = rows + 32 * (i + frame);
    notes.steps = 0;
    g_assert_true (mimi_streams_decode (
        together, N, row, (gpointer const *)pcm, results, &error));
    g_assert_no_error (error);
    g_assert_cmpuint (notes.steps, ==, 1);
    for (i = 0; i < N; i++) {
      decode (alone[i], row[i], 1, one + i * 8192 + i / 2, &want);
      g_assert_cmpmem (&results[i], sizeof want, &want, sizeof want);
    }
    g_assert_cmpmem (all, N * 8192, one, N * 8192);
  }
  g_assert_true (mimi_streams_decode (together, 0, NULL, NULL, NULL, &error));
  for (i = 0; i < N; i++) {
    mimi_stream_free (alone[i]);
    mimi_stream_free (together[i]);
  }
  g_free (all);
  g_free (one);
  g_free (rows);
}

/* None has a good row: nothing for the backend to do. One has no token: no PCM,
 * while the others go on. */
static void
test_together_codes (void)
{
  static const MimiRows codes = { MIMI_ROW_S32, 3, FALSE };
  static const gint32 rows[] = { -1, -1, -1, 5, 6, 7, 64, 1, 1 };
  MimiStream *streams[3];
  gconstpointer row[3];
  gint16 pcm[3][MIMI_FRAME_SAMPLES] = { { 0 } };
  gpointer out[3];
  MimiResult results[3];
  GError *error = NULL;
  guint i;

  for (i = 0; i < 3; i++) {
    streams[i] = stream_new ("tinyfull-moshi", codes);
    row[i] = rows + 3 * i;
    out[i] = pcm[i];
  }
  g_assert_true (mimi_streams_decode (
      streams, 3, row, (gpointer const *)out, results, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (results[0].skipped, ==, 1);
  g_assert_cmpuint (results[0].written, ==, 0);
  g_assert_cmpuint (results[1].written, ==, 1);
  g_assert_cmpuint (results[1].concealed, ==, 0);
  g_assert_cmpuint (results[2].concealed, ==, 1);
  g_assert_nonnull (strstr (results[2].reason, "code 64 of codebook 0"));
  assert_frame (pcm[1], 0, 18);

  notes.steps = 0;
  row[1] = row[2];
  g_assert_true (mimi_streams_decode (
      streams, 3, row, (gpointer const *)out, results, &error));
  g_assert_cmpuint (notes.steps, ==, 0);
  g_assert_cmpuint (results[1].concealed, ==, 1);
  for (i = 0; i < 3; i++)
    mimi_stream_free (streams[i]);
}

/* Streams of two decoders, or without a format, do not go together. */
static void
test_together_refused (void)
{
  static const gfloat values[] = { 1, 666 };
  MimiStream *streams[2] = { stream_new ("tiny-pocket", latents),
    stream_new ("tiny-phonon", latents) };
  gfloat *rows = make_rows (values, 2);
  gint16 pcm[2][MIMI_FRAME_SAMPLES];
  gconstpointer row[2] = { rows, rows };
  gpointer const out[2] = { pcm[0], pcm[1] };
  MimiResult results[2];
  MimiStreamStats stats;
  gchar *path;
  MimiDecoder *decoder;
  GError *error = NULL;

  g_assert_false (mimi_streams_decode (streams, 2, row, out, results, &error));
  error_assert (error, MIMI_ERROR_INPUT, "streams 1 and 0", NULL);
  error = NULL;
  mimi_stream_get_stats (streams[0], &stats);
  g_assert_cmpuint (stats.frames, ==, 0);
  mimi_stream_free (streams[1]);

  path = checkpoint_path ("tiny-pocket");
  decoder = notes_get_decoder (path, NULL);
  streams[1] = mimi_stream_new (decoder, 1, &error);
  g_assert_false (mimi_streams_decode (streams, 2, row, out, results, &error));
  error_assert (error, MIMI_ERROR_INPUT, "never set", NULL);
  error = NULL;

  /* the device fails: nobody gets this decoder any more */
  mimi_stream_set_rows (streams[1], &latents, &error);
  row[1] = rows + 32;
  g_assert_false (mimi_streams_decode (streams, 2, row, out, results, &error));
  error_assert (error, MIMI_ERROR_DEVICE, "it burns", NULL);
  mimi_decoder_unref (decoder);
  decoder = notes_get_decoder (path, NULL);
  mimi_stream_free (streams[0]);
  mimi_stream_free (streams[1]);
  g_assert_cmpint (notes.open, ==, 1);
  mimi_decoder_unref (decoder);
  g_free (path);
  g_free (rows);
}

int
main (int argc, char **argv)
{
  int status;

  g_test_init (&argc, &argv, NULL);
  mimi_decoder_replace_backend (&notes_backend);
  g_test_add_func ("/stream/reset", test_reset);
  g_test_add_func ("/stream/concealed", test_concealed);
  g_test_add_func ("/stream/fade", test_fade);
  g_test_add_func ("/stream/alignment", test_alignment);
  g_test_add_func ("/stream/codes", test_codes);
  g_test_add_func ("/stream/refused", test_refused);
  g_test_add_func ("/stream/device", test_device);
  g_test_add_func ("/stream/together", test_together);
  g_test_add_func ("/stream/together/codes", test_together_codes);
  g_test_add_func ("/stream/together/refused", test_together_refused);
  status = g_test_run ();
  g_assert_cmpint (notes.open, ==, 0);
  g_assert_cmpint (notes.slots, ==, 0);
  return status;
}
