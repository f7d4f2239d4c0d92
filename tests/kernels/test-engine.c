/* Decoders and streams, over a backend that only takes notes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "checkpoint.h"
#include "engine/decoder.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>
#include <utime.h>

/* ---------------------------------------------------------- the backend --- */

static struct {
  gint opened, open, slots; /* atomic */
  gulong delay;
  gboolean fails;

  MimiStepItem last;
  guint16 codes[MIMI_MAX_CODEBOOKS];
  guint steps;
} notes;

static gpointer
fake_open (MimiModel *model, const MimiDecoderOptions *options, GError **error)
{
  g_assert_nonnull (mimi_model_get_weights (model));
  g_assert_cmpint (options->cuda_device, ==, -1);
  g_atomic_int_inc (&notes.opened);
  g_usleep (notes.delay);
  if (notes.fails) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY, "no memory");
    return NULL;
  }
  g_atomic_int_inc (&notes.open);
  return &notes;
}

static void
fake_close (gpointer self)
{
  g_assert_true (self == &notes);
  g_atomic_int_add (&notes.open, -1);
}

static void
fake_get_info (gpointer self G_GNUC_UNUSED, MimiDecoderInfo *info)
{
  info->backend = "fake";
  info->weights_bytes = 1000;
  info->state_bytes = 10;
}

/* A slot counts the frames of an utterance. */
static gpointer
fake_slot_new (gpointer self G_GNUC_UNUSED, guint threads, GError **error)
{
  if (threads == 99) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY, "no memory");
    return NULL;
  }
  g_assert_cmpuint (threads, >=, 1);
  g_atomic_int_inc (&notes.slots);
  return g_new0 (guint, 1);
}

static void
fake_slot_free (gpointer self G_GNUC_UNUSED, gpointer slot)
{
  g_atomic_int_add (&notes.slots, -1);
  g_free (slot);
}

/* A frame's samples are all the sum of its values (or codes) and of the
 * number of frames since the state was zero. */
static gboolean
fake_step (
    gpointer self G_GNUC_UNUSED, MimiStepItem *items, guint n, GError **error)
{
  guint *count = items->slot, i;
  gfloat samples[MIMI_FRAME_SAMPLES], sum;

  g_assert_cmpuint (n, ==, 1);
  g_assert_cmpuint ((guintptr)items->pcm % sizeof (gfloat), ==, 0);
  *count = items->reset ? 0 : *count + 1;
  if (items->kind == MIMI_STEP_CODES) {
    memcpy (notes.codes, items->codes, sizeof (guint16) * items->n_codes);
    for (sum = 0, i = 0; i < items->n_codes; i++)
      sum += items->codes[i];
  } else {
    sum = items->values[0];
    if (sum == 666) {
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_DEVICE, "it burns");
      return FALSE;
    }
  }
  for (i = 0; i < MIMI_FRAME_SAMPLES; i++)
    samples[i] = (sum + *count) / 1024;
  items->finite = !(fabsf (sum) > 1e30f);
  mimi_pcm_write (items, samples);
  notes.last = *items;
  notes.steps++;
  return TRUE;
}

static const MimiBackendOps fake = { "fake", fake_open, fake_close,
  fake_get_info, fake_slot_new, fake_slot_free, fake_step, NULL };

/* ------------------------------------------------------------- helpers --- */

static const MimiDecoderOptions on_cpu = { MIMI_BACKEND_CPU, -1,
  MIMI_PRECISION_FP32 };

static MimiModel *
open_path (const gchar *path, const gchar *config)
{
  GError *error = NULL;
  MimiModel *model = mimi_model_open (path, config, &error);

  g_assert_no_error (error);
  return model;
}

static MimiDecoder *
get_path (const gchar *path, const gchar *config)
{
  MimiModel *model = open_path (path, config);
  GError *error = NULL;
  MimiDecoder *decoder = mimi_decoder_get (model, &on_cpu, &error);

  g_assert_no_error (error);
  mimi_model_unref (model);
  return decoder;
}

static MimiStream *
stream_new (const gchar *checkpoint, MimiRows rows)
{
  gchar *path = checkpoint_path (checkpoint);
  MimiDecoder *decoder = get_path (path, NULL);
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

/* ------------------------------------------------------------ registry --- */

static void
test_shared (void)
{
  gchar *folder = folder_new ();
  gchar *path = g_build_filename (folder, "model.safetensors", NULL);
  gchar *other = g_build_filename (folder, "other.safetensors", NULL);
  gchar *link = g_build_filename (folder, "link", NULL);
  gchar *config = g_build_filename (folder, "mine.json", NULL);
  Checkpoint *c = checkpoint_load ("tiny-pocket");
  MimiDecoder *a, *b;
  MimiDecoderInfo info;
  MimiStream *stream;
  struct utimbuf times = { 1000, 1000 };
  gint opened = notes.opened;

  checkpoint_save (c, path);
  checkpoint_save (c, other);
  g_assert_cmpint (symlink ("model.safetensors", link), ==, 0);
  file_write (folder, "mine.json", "{\"num_attention_heads\":2}");

  a = get_path (path, NULL);
  b = get_path (path, NULL);
  g_assert_true (a == b);
  mimi_decoder_unref (b);
  b = get_path (folder, NULL);
  g_assert_true (a == b);
  mimi_decoder_unref (b);
  b = get_path (link, NULL);
  g_assert_true (a == b);
  g_assert_cmpint (notes.opened, ==, opened + 1);
  g_assert_cmpuint (mimi_decoder_get_network (a)->width, ==, 64);

  stream = mimi_stream_new (b, 1, NULL);
  mimi_decoder_unref (b);
  mimi_decoder_get_info (a, &info);
  g_assert_cmpstr (info.backend, ==, "fake");
  g_assert_cmpuint (info.weights_bytes, ==, 1000);
  g_assert_cmpuint (info.streams, ==, 1);
  g_assert_null (info.note);

  /* the same bytes in another file, another view of them, a newer file */
  b = get_path (other, NULL);
  g_assert_true (a != b);
  mimi_decoder_unref (b);
  b = get_path (path, config);
  g_assert_true (a != b);
  g_assert_cmpuint (mimi_decoder_get_network (b)->heads, ==, 2);
  mimi_decoder_unref (b);
  g_assert_cmpint (utime (path, &times), ==, 0);
  b = get_path (path, NULL);
  g_assert_true (a != b);
  mimi_decoder_unref (b);
  g_assert_cmpint (notes.opened, ==, opened + 4);
  g_assert_cmpint (notes.open, ==, 1);

  /* a stream keeps its decoder */
  mimi_decoder_unref (a);
  g_assert_cmpint (notes.open, ==, 1);
  mimi_stream_free (stream);
  g_assert_cmpint (notes.open, ==, 0);
  g_assert_cmpint (notes.slots, ==, 0);
  checkpoint_free (c);
  g_free (path);
  g_free (other);
  g_free (link);
  g_free (config);
  folder_remove (folder);
}

static gpointer
get_in_thread (gpointer path)
{
  MimiModel *model = open_path (path, NULL);
  GError *error = NULL;
  MimiDecoder *decoder = mimi_decoder_get (model, &on_cpu, &error);

  mimi_model_unref (model);
  g_assert_true ((decoder == NULL) == (error != NULL));
  if (error)
    error_assert (error, MIMI_ERROR_NO_MEMORY, "no memory", NULL);
  return decoder;
}

/* Many ask at once: one opens it. */
static void
test_concurrent (void)
{
  gchar *path = checkpoint_path ("tiny-pocket");
  gint opened = notes.opened;
  GThread *threads[16];
  gpointer first = NULL;
  guint i;

  notes.delay = 100000;
  for (i = 0; i < 16; i++)
    threads[i] = g_thread_new ("get", get_in_thread, path);
  for (i = 0; i < 16; i++) {
    gpointer decoder = g_thread_join (threads[i]);

    g_assert_nonnull (decoder);
    g_assert_true (!first || first == decoder);
    first = decoder;
  }
  g_assert_cmpint (notes.opened, ==, opened + 1);
  for (i = 0; i < 16; i++)
    mimi_decoder_unref (first);
  g_assert_cmpint (notes.open, ==, 0);

  /* they share a failure, and the next one tries again */
  notes.fails = TRUE;
  for (i = 0; i < 16; i++)
    threads[i] = g_thread_new ("get", get_in_thread, path);
  for (i = 0; i < 16; i++)
    g_assert_null (g_thread_join (threads[i]));
  notes.fails = FALSE;
  notes.delay = 0;
  mimi_decoder_unref (get_path (path, NULL));
  g_free (path);
}

static gpointer
churn (gpointer path)
{
  guint i;

  for (i = 0; i < 200; i++) {
    MimiDecoder *decoder = get_path (path, NULL);

    g_assert_cmpint (g_atomic_int_get (&notes.open), >=, 1);
    mimi_decoder_unref (mimi_decoder_ref (decoder));
    mimi_decoder_unref (decoder);
  }
  return NULL;
}

static void
test_churn (void)
{
  gchar *path = checkpoint_path ("tiny-pocket");
  GThread *threads[4];
  guint i;

  for (i = 0; i < 4; i++)
    threads[i] = g_thread_new ("churn", churn, path);
  for (i = 0; i < 4; i++)
    g_thread_join (threads[i]);
  g_assert_cmpint (notes.open, ==, 0);
  g_free (path);
}

/* NaN in a weight is found before a backend sees it. */
static void
test_values (void)
{
  Checkpoint *c = checkpoint_load ("tiny-pocket");
  gint opened = notes.opened;
  GError *error = NULL;
  MimiDecoder *decoder, *other;
  MimiModel *model;

  /* bytes in memory have no identity to share by */
  model = checkpoint_open (c, &error);
  decoder = mimi_decoder_get (model, &on_cpu, &error);
  other = mimi_decoder_get (model, &on_cpu, &error);
  g_assert_no_error (error);
  g_assert_true (decoder != other);
  mimi_decoder_unref (decoder);
  mimi_decoder_unref (other);
  mimi_model_unref (model);
  g_assert_cmpint (notes.opened, ==, opened + 2);

  memset (checkpoint_get_data (c, "mimi.decoder.model.0.conv.bias"), 0xff, 4);
  model = checkpoint_open (c, &error);
  g_assert_null (mimi_decoder_get (model, &on_cpu, &error));
  error_assert (error, MIMI_ERROR_TENSOR, "mimi.decoder.model.0.conv.bias",
      "NaN at element 0", NULL);
  g_assert_cmpint (notes.opened, ==, opened + 2);
  mimi_model_unref (model);
  checkpoint_free (c);
}

/* Without a GPU: CUDA is refused, `auto` takes the CPU and says why. */
static void
test_no_gpu (void)
{
  gchar *path = checkpoint_path ("tiny-pocket");
  MimiModel *model = open_path (path, NULL);
  MimiDecoderOptions options = { MIMI_BACKEND_CUDA, 3, MIMI_PRECISION_TF32 };
  MimiDecoderInfo info;
  GError *error = NULL;
  MimiDecoder *decoder = mimi_decoder_get (model, &options, &error);

  if (decoder) {
    g_test_skip ("there is a GPU");
    mimi_decoder_unref (decoder);
  } else {
    error_assert (error, MIMI_ERROR_NO_DEVICE, "CUDA", NULL);
    error = NULL;
    options.backend = MIMI_BACKEND_AUTO;
    decoder = mimi_decoder_get (model, &options, &error);
    g_assert_no_error (error);
    mimi_decoder_get_info (decoder, &info);
    g_assert_cmpstr (info.backend, ==, "fake");
    g_assert_nonnull (info.note);
    mimi_decoder_unref (decoder);
  }
  mimi_model_unref (model);
  g_free (path);
}

/* ------------------------------------------------------------- streams --- */

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
  MimiDecoder *decoder = get_path (path, NULL);
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

/* A device that fails is given to nobody else. */
static void
test_device (void)
{
  static const gfloat values[] = { 1, 666, 2 };
  gchar *path = checkpoint_path ("tiny-pocket");
  MimiStream *stream = stream_new ("tiny-pocket", latents);
  MimiDecoder *old = get_path (path, NULL), *new;
  gfloat *rows = make_rows (values, 3);
  gint16 *pcm = g_new (gint16, 3 * MIMI_FRAME_SAMPLES);
  MimiResult result;
  GError *error = NULL;

  g_assert_false (mimi_stream_decode (stream, rows, 3, pcm, &result, &error));
  error_assert (error, MIMI_ERROR_DEVICE, "it burns", NULL);
  g_assert_cmpuint (result.written, ==, 1);
  new = get_path (path, NULL);
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

int
main (int argc, char **argv)
{
  int status;

  g_test_init (&argc, &argv, NULL);
  mimi_decoder_replace_backend (&fake);
  g_test_add_func ("/decoder/shared", test_shared);
  g_test_add_func ("/decoder/concurrent", test_concurrent);
  g_test_add_func ("/decoder/churn", test_churn);
  g_test_add_func ("/decoder/values", test_values);
  g_test_add_func ("/decoder/no-gpu", test_no_gpu);
  g_test_add_func ("/stream/reset", test_reset);
  g_test_add_func ("/stream/concealed", test_concealed);
  g_test_add_func ("/stream/fade", test_fade);
  g_test_add_func ("/stream/alignment", test_alignment);
  g_test_add_func ("/stream/codes", test_codes);
  g_test_add_func ("/stream/refused", test_refused);
  g_test_add_func ("/stream/device", test_device);
  status = g_test_run ();
  g_assert_cmpint (notes.open, ==, 0);
  g_assert_cmpint (notes.slots, ==, 0);
  return status;
}
