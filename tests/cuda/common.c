/* What the tests of the CUDA backend share.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "common.h"

#include <math.h>
#include <string.h>

gchar *
build_path (const gchar *name)
{
  gchar *path = g_build_filename (g_getenv ("MIMI_TEST_ORACLES"), name, NULL);

  if (g_file_test (path, G_FILE_TEST_EXISTS))
    return path;
  g_free (path);
  return g_build_filename (g_getenv ("MIMI_TEST_CHECKPOINTS"), name, NULL);
}

gchar *
golden_path (const gchar *name)
{
  return g_build_filename (g_getenv ("MIMI_TEST_GOLDENS"), name, NULL);
}

MimiModel *
network_open (const Network *network)
{
  gchar *file = g_strconcat (network->name, ".safetensors", NULL);
  gchar *path = build_path (file);
  gchar *config = network->config ? build_path (network->config) : NULL;
  GError *error = NULL;
  MimiModel *model = mimi_model_open (path, config, &error);

  g_assert_no_error (error);
  g_free (config);
  g_free (path);
  g_free (file);
  return model;
}

MimiDecoder *
network_get_decoder (
    const Network *network, MimiBackend backend, MimiPrecision precision)
{
  MimiDecoderOptions options = { backend, -1, precision };
  MimiModel *model = network_open (network);
  GError *error = NULL;
  MimiDecoder *decoder = mimi_decoder_get (model, &options, &error);

  g_assert_no_error (error);
  mimi_model_unref (model);
  return decoder;
}

static guint8 *
read_file (gchar *path, gsize least)
{
  gchar *data;
  gsize size;
  GError *error = NULL;

  g_file_get_contents (path, &data, &size, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (size, >=, least);
  g_free (path);
  return (guint8 *)data;
}

guint8 *
network_read_rows (
    const Network *network, const MimiModel *model, guint n, MimiRows *rows)
{
  const MimiNetwork *net = mimi_model_get_network (model);

  memset (rows, 0, sizeof *rows);
  if (network->codebooks) {
    rows->format = MIMI_ROW_U16;
    rows->length = network->codebooks;
  } else {
    rows->format = MIMI_ROW_F32;
    rows->length = net->latent_dim;
    rows->normalized = !network->denormalized;
  }
  return read_file (
      golden_path (network->input), n * mimi_rows_get_size (rows));
}

gfloat *
network_read_oracle (const Network *network, guint n)
{
  return (gfloat *)read_file (
      build_path (network->oracle), n * SAMPLES * sizeof (gfloat));
}

gdouble
snr (const gfloat *ref, const gfloat *x, gsize n)
{
  gdouble signal = 0, noise = 0;
  gsize i;

  for (i = 0; i < n; i++) {
    gdouble d = (gdouble)ref[i] - x[i];
    signal += (gdouble)ref[i] * ref[i];
    noise += d * d;
  }
  if (!isfinite (noise))
    return -INFINITY;
  return noise > 0 ? 10 * log10 (signal / noise) : INFINITY;
}

MimiStream *
stream_new (MimiDecoder *decoder, const MimiRows *format)
{
  GError *error = NULL;
  MimiStream *stream = mimi_stream_new (decoder, 1, &error);

  g_assert_no_error (error);
  mimi_stream_set_rows (stream, format, &error);
  g_assert_no_error (error);
  mimi_stream_set_pcm (stream, MIMI_PCM_F32);
  return stream;
}
