/* The full-size Mimi on the CUDA backend: codes, vectors, a batch, its state.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Few frames, each of which takes long on a simulated GPU; tinyfull, of the
 * same shape at an eighth of the width, is tested until its window slides.
 */
#include "common.h"

#include <string.h>

#define FRAMES 4
#define STREAMS 3

static const Network full = { "full-moshi", "full-8.u16", "full.oracle", NULL,
  FRAMES, 8, FALSE };

static gfloat *oracle;
/* Codes, and what the oracle's quantizer makes of them: vectors of the
 * network's width. */
static MimiRows codes, vectors;
static guint8 *rows[2];
/* What a stream of each gives by itself. */
static gfloat alone[2][FRAMES * SAMPLES];

static MimiStream *
full_stream_new (MimiBackend backend, const MimiRows *format)
{
  MimiDecoder *decoder =
      network_get_decoder (&full, backend, MIMI_PRECISION_FP32);
  MimiStream *stream = stream_new (decoder, format);

  mimi_decoder_unref (decoder);
  return stream;
}

/* Frames `first` to `first` + n of the codes. */
static void
decode (MimiStream *stream, guint first, guint n, gfloat *pcm)
{
  MimiResult result;
  GError *error = NULL;

  mimi_stream_decode (stream, rows[0] + first * mimi_rows_get_size (&codes), n,
      pcm, &result, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (result.written, ==, n);
  g_assert_cmpuint (result.concealed, ==, 0);
}

static void
assert_oracle (const gchar *what, guint first, guint n, const gfloat *pcm)
{
  gdouble db = snr (oracle + first * SAMPLES, pcm, n * SAMPLES);

  g_test_message (
      "%s, frames %u to %u: %.1f dB", what, first, first + n - 1, db);
  g_assert_cmpfloat (db, >=, 100);
}

/* Two streams of codes and one of vectors, each a frame behind the one before,
 * so that positions differ and the batch has an empty place: the oracle's PCM,
 * and bit for bit that of the stream alone. */
static void
test_batch (void)
{
  const MimiRows *format[STREAMS] = { &codes, &vectors, &codes };
  MimiStream *streams[STREAMS];
  gfloat pcm[STREAMS][SAMPLES];
  GError *error = NULL;
  guint step, s;

  for (s = 0; s < STREAMS; s++)
    streams[s] = full_stream_new (MIMI_BACKEND_CUDA, format[s]);
  for (step = 0; step < STREAMS + 1; step++) {
    MimiStream *stepped[STREAMS];
    gconstpointer row[STREAMS];
    gpointer out[STREAMS];
    MimiResult results[STREAMS];
    guint n = MIN (step + 1, STREAMS);

    for (s = 0; s < n; s++) {
      stepped[s] = streams[s];
      row[s] = rows[s % 2] + (step - s) * mimi_rows_get_size (format[s]);
      out[s] = pcm[s];
    }
    mimi_streams_decode (stepped, n, row, out, results, &error);
    g_assert_no_error (error);
    for (s = 0; s < n; s++) {
      g_assert_cmpuint (results[s].written, ==, 1);
      g_assert_cmpuint (results[s].concealed, ==, 0);
      g_assert_cmpmem (pcm[s], sizeof pcm[s],
          alone[s % 2] + (step - s) * SAMPLES, sizeof pcm[s]);
    }
  }
  for (s = 0; s < STREAMS; s++)
    mimi_stream_free (streams[s]);
}

/* One stream of each kind, from its first frame on. */
static void
test_alone (gconstpointer kind)
{
  gboolean is_vectors = kind != NULL;
  MimiStream *stream =
      full_stream_new (MIMI_BACKEND_CUDA, is_vectors ? &vectors : &codes);
  gfloat *pcm = alone[is_vectors];
  MimiResult result;
  GError *error = NULL;

  mimi_stream_decode (stream, rows[is_vectors], FRAMES, pcm, &result, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (result.written, ==, FRAMES);
  g_assert_cmpuint (result.concealed, ==, 0);
  assert_oracle (is_vectors ? "vectors" : "codes", 0, FRAMES, pcm);
  mimi_stream_free (stream);
}

/* A stream that begins on the CPU goes on there, on the GPU, in another place
 * of the GPU, and ends on the CPU. */
static void
test_state (void)
{
  static const MimiBackend where[FRAMES] = { MIMI_BACKEND_CPU,
    MIMI_BACKEND_CUDA, MIMI_BACKEND_CUDA, MIMI_BACKEND_CPU };
  MimiStream *stream = full_stream_new (MIMI_BACKEND_CPU, &codes);
  gsize size = mimi_stream_get_state_size (stream);
  gpointer blob = g_malloc (size);
  gfloat pcm[SAMPLES];
  GError *error = NULL;
  guint i;

  for (i = 0; i < FRAMES; i++) {
    MimiStream *next = full_stream_new (where[i], &codes);

    mimi_stream_save (stream, blob, &error);
    g_assert_no_error (error);
    g_assert_cmpuint (mimi_stream_get_state_size (next), ==, size);
    mimi_stream_restore (next, blob, size, &error);
    g_assert_no_error (error);
    mimi_stream_free (stream);
    stream = next;
    decode (stream, i, 1, pcm);
    assert_oracle (
        where[i] == MIMI_BACKEND_CPU ? "on the CPU" : "on the GPU", i, 1, pcm);
  }
  mimi_stream_free (stream);
  g_free (blob);
}

int
main (int argc, char **argv)
{
  MimiDecoder *decoder[2];
  MimiModel *model;
  const MimiNetwork *network;
  gchar *path;
  gsize size;
  GError *error = NULL;
  gint status;

  g_test_init (&argc, &argv, NULL);
  model = network_open (&full);
  network = mimi_model_get_network (model);
  rows[0] = network_read_rows (&full, model, FRAMES, &codes);
  vectors = (MimiRows){ MIMI_ROW_F32, network->width, FALSE };
  path = build_path ("full.trace/00-quantized.f32");
  g_file_get_contents (path, (gchar **)&rows[1], &size, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (size, >=, FRAMES * mimi_rows_get_size (&vectors));
  oracle = network_read_oracle (&full, FRAMES);

  /* Kept, so that the weights are laid out once for all tests. */
  decoder[0] =
      network_get_decoder (&full, MIMI_BACKEND_CPU, MIMI_PRECISION_FP32);
  decoder[1] =
      network_get_decoder (&full, MIMI_BACKEND_CUDA, MIMI_PRECISION_FP32);
  g_test_add_data_func ("/cuda/full/codes", NULL, test_alone);
  g_test_add_data_func ("/cuda/full/vectors", &vectors, test_alone);
  g_test_add_func ("/cuda/full/batch", test_batch);
  g_test_add_func ("/cuda/full/state", test_state);
  status = g_test_run ();

  mimi_decoder_unref (decoder[0]);
  mimi_decoder_unref (decoder[1]);
  mimi_model_unref (model);
  g_free (path);
  g_free (rows[0]);
  g_free (rows[1]);
  g_free (oracle);
  return status;
}
