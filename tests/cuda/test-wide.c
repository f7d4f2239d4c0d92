/* A batch in which every layer has the shape for many tiles.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * From 9.0 on, few tiles and many are kernels of their own (spread.cuh and
 * many.cuh), which have to give the same bits: the network is wide enough for
 * sixteen streams to fill a GPU with the transformer's layers, and for a
 * LayerNorm of more slices than a warp loads at once.
 */
#include "common.h"

#include <string.h>

#define STREAMS 16
#define KINDS 2 /* of input */

static const Network pocket = { "pocket-pocket", "pocket.f32", "pocket.oracle",
  NULL, KINDS, 0, FALSE };

static void
test_wide (void)
{
  MimiModel *model = network_open (&pocket);
  MimiDecoder *decoder =
      network_get_decoder (&pocket, MIMI_BACKEND_CUDA, MIMI_PRECISION_FP32);
  gfloat *want = g_new (gfloat, KINDS * SAMPLES);
  gfloat *got = g_new (gfloat, STREAMS * SAMPLES);
  MimiStream *streams[STREAMS];
  gconstpointer row[STREAMS];
  gpointer pcm[STREAMS];
  MimiResult results[STREAMS];
  GError *error = NULL;
  MimiRows format;
  guint8 *rows = network_read_rows (&pocket, model, KINDS, &format);
  gsize size = mimi_rows_get_size (&format);
  guint s;

  for (s = 0; s < KINDS; s++) {
    streams[s] = stream_new (decoder, &format);
    mimi_stream_decode (
        streams[s], rows + s * size, 1, want + s * SAMPLES, results, &error);
    g_assert_no_error (error);
    g_assert_cmpuint (results->written, ==, 1);
    mimi_stream_reset (streams[s]);
  }
  for (s = 0; s < STREAMS; s++) {
    if (s >= KINDS)
      streams[s] = stream_new (decoder, &format);
    row[s] = rows + s % KINDS * size;
    pcm[s] = got + s * SAMPLES;
  }
  mimi_streams_decode (streams, STREAMS, row, pcm, results, &error);
  g_assert_no_error (error);
  for (s = 0; s < STREAMS; s++) {
    const gfloat *alone = want + s % KINDS * SAMPLES;

    g_assert_cmpuint (results[s].written, ==, 1);
    if (memcmp (alone, pcm[s], SAMPLES * sizeof *alone))
      g_error ("stream %u: %.1f dB to the stream alone", s,
          snr (alone, pcm[s], SAMPLES));
    mimi_stream_free (streams[s]);
  }
  g_free (rows);
  g_free (got);
  g_free (want);
  mimi_decoder_unref (decoder);
  mimi_model_unref (model);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/wide", test_wide);
  return g_test_run ();
}
