/* The CUDA backend against the float64 oracle, on a simulated GPU.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * CUDASIM_CC says which GPU: 75 takes the portable kernels, 90 the ones for
 * tensor cores.
 */
#include "common.h"

#include <string.h>

static const Network networks[] = {
  { "tiny-pocket", "tiny.f32", "tiny.oracle", NULL, 40, 0, FALSE },
  { "tiny-pocket-BF16", "tiny.f32", "tiny-BF16.oracle", NULL, 20, 0, FALSE },
  { "pocket2m-pocket", "pocket2m.f32", "pocket2m.oracle", NULL, 10, 0, FALSE },
  { "pocket18m-pocket", "pocket18m.f32", "pocket18m.oracle", NULL, 8, 0,
      FALSE },
  { "tinyfull-moshi", "tinyfull-8.u16", "tinyfull.oracle", NULL, 140, 8,
      FALSE },
  { "pocket-pocket", "pocket.f32", "pocket.oracle", NULL, 20, 0, FALSE },
};

/* The same codes, five a frame: an odd number ends in half a word. */
static const Network five = { "tinyfull-moshi", "tinyfull-8.u16",
  "tinyfull-5.oracle", NULL, 6, 5, FALSE };

/* Frame by frame: other kernels than for several at once, and the same PCM. */
static void
check_alone (MimiDecoder *decoder, const MimiRows *format, const guint8 *rows,
    gsize row_size, guint n, const gfloat *pcm)
{
  GError *error = NULL;
  MimiStream *stream = stream_new (decoder, format);
  gfloat own[SAMPLES];
  guint i;

  for (i = 0; i < n; i++) {
    MimiResult result;

    mimi_stream_decode (stream, rows + i * row_size, 1, own, &result, &error);
    g_assert_no_error (error);
    if (memcmp (own, pcm + i * SAMPLES, sizeof own))
      g_error ("frame %u: %.1f dB to the same of several at once", i,
          snr (pcm + i * SAMPLES, own, SAMPLES));
  }
  mimi_stream_free (stream);
}

static void
check (const Network *network, MimiPrecision precision, gdouble gate)
{
  MimiModel *model = network_open (network);
  MimiDecoder *decoder =
      network_get_decoder (network, MIMI_BACKEND_CUDA, precision);
  guint n = network->frames, i;
  MimiRows format;
  guint8 *rows = network_read_rows (network, model, n, &format);
  MimiStream *stream = stream_new (decoder, &format);
  GError *error = NULL;
  gfloat *oracle = network_read_oracle (network, n);
  gfloat *pcm = g_new (gfloat, n * SAMPLES);
  gdouble all;
  MimiResult result;

  mimi_stream_decode (stream, rows, n, pcm, &result, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (result.written, ==, n);
  g_assert_cmpuint (result.concealed, ==, 0);

  all = snr (oracle, pcm, n * SAMPLES);
  g_test_message ("%s: %.1f dB over %u frames", network->name, all, n);
  if (all < gate)
    for (i = 0; i < n; i++)
      g_test_message ("frame %u: %.1f dB", i,
          snr (oracle + i * SAMPLES, pcm + i * SAMPLES, SAMPLES));
  g_assert_cmpfloat (all, >=, gate);
  check_alone (decoder, &format, rows, mimi_rows_get_size (&format), n, pcm);

  g_free (pcm);
  g_free (oracle);
  g_free (rows);
  mimi_stream_free (stream);
  mimi_decoder_unref (decoder);
  mimi_model_unref (model);
}

/* Other windows: the widest; wider than layer.cu has room for, with heads of 32;
 * and narrower than a block of the ring. And a network in which a block has more
 * than 64 channels of LayerNorm, not all of them full. With as many frames that the
 * ring of keys comes round. */
static const Network told[] = {
  { "tiny-pocket", "tiny.f32", "tiny-512.oracle", "tiny-512.json", 48, 0,
      FALSE },
  { "pocket2m-pocket", "pocket2m.f32", "pocket2m-300.oracle",
      "pocket2m-300.json", 36, 0, FALSE },
  { "tinyfull-moshi", "tinyfull-8.u16", "tinyfull-10.oracle",
      "tinyfull-10.json", 40, 8, FALSE },
  { "broad-pocket", "tiny.f32", "broad-50.oracle", "broad-50.json", 20, 0,
      FALSE },
};

static void
test_fp32 (gconstpointer network)
{
  check (network, MIMI_PRECISION_FP32, 100);
}

static void
test_tf32 (gconstpointer network)
{
  check (network, MIMI_PRECISION_TF32, 60);
}

static void
test_bf16 (gconstpointer network)
{
  check (network, MIMI_PRECISION_BF16, 40);
}

/* Weights that are stored as bf16 are rounded by nothing. */
static void
test_stored (gconstpointer network)
{
  check (network, MIMI_PRECISION_TF32, 100);
  check (network, MIMI_PRECISION_BF16, 100);
}

int
main (int argc, char **argv)
{
  guint i;

  g_test_init (&argc, &argv, NULL);
  for (i = 0; i < G_N_ELEMENTS (networks); i++) {
    gchar *path = g_strconcat ("/cuda/fp32/", networks[i].name, NULL);
    g_test_add_data_func (path, &networks[i], test_fp32);
    g_free (path);
  }
  g_test_add_data_func ("/cuda/fp32/five-codes", &five, test_fp32);
  g_test_add_data_func ("/cuda/window/512", &told[0], test_fp32);
  g_test_add_data_func ("/cuda/window/300", &told[1], test_fp32);
  g_test_add_data_func ("/cuda/window/10", &told[2], test_fp32);
  g_test_add_data_func ("/cuda/broad", &told[3], test_fp32);
  g_test_add_data_func ("/cuda/tf32/tiny", &networks[0], test_tf32);
  g_test_add_data_func ("/cuda/bf16/tiny", &networks[0], test_bf16);
  /* twelve layers, which amplify what is lost in the first of them */
  g_test_add_data_func ("/cuda/tf32/pocket18m", &networks[3], test_tf32);
  g_test_add_data_func ("/cuda/bf16/pocket18m", &networks[3], test_bf16);
  g_test_add_data_func ("/cuda/stored/tiny-BF16", &networks[1], test_stored);
  return g_test_run ();
}
