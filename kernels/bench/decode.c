/* mimi-bench --input: a file of latents or codes to a file of PCM.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

#define MAX_TRACED 64

/* One file a stage, numbered in the order of the network:
 * DIR/NN-stage.f32, [time][channel]. */
typedef struct {
  const gchar *dir;
  gchar *names[MAX_TRACED];
  FILE *files[MAX_TRACED];
  guint n;
  gboolean failed;
} Trace;

static void
trace_stage (const gchar *stage, const gfloat *values, guint times,
    guint channels, gpointer user_data)
{
  Trace *trace = user_data;
  gsize n = (gsize)times * channels;
  guint i;

  for (i = 0; i < trace->n; i++)
    if (strcmp (trace->names[i], stage) == 0)
      break;
  if (i == trace->n) {
    gchar *path;

    if (trace->n == MAX_TRACED) {
      trace->failed = TRUE;
      return;
    }
    path = g_strdup_printf ("%s/%02u-%s.f32", trace->dir, i, stage);
    trace->names[i] = g_strdup (stage);
    trace->files[i] = fopen (path, "wb");
    trace->n++;
    g_free (path);
  }
  if (trace->files[i] == NULL ||
      fwrite (values, sizeof (gfloat), n, trace->files[i]) != n)
    trace->failed = TRUE;
}

static gboolean
trace_close (Trace *trace, GError **error)
{
  for (guint i = 0; i < trace->n; i++) {
    if (trace->files[i] && fclose (trace->files[i]) != 0)
      trace->failed = TRUE;
    g_free (trace->names[i]);
  }
  if (trace->failed)
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_OPEN_READ,
        "%s: cannot write the trace; is it a folder, and is there room?",
        trace->dir);
  return !trace->failed;
}

static gboolean
write_all (FILE *out, const gchar *path, gconstpointer data, gsize size,
    GError **error)
{
  if (fwrite (data, 1, size, out) == size)
    return TRUE;
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_OPEN_READ, "%s: cannot write: %s",
      path, g_strerror (errno));
  return FALSE;
}

static gboolean
decode_rows (const BenchOptions *options, MimiStream *stream, const gchar *data,
    gsize n_rows, gsize row_size, FILE *out, GError **error)
{
  guint chunk = MAX (options->chunk, 1);
  gsize sample = options->s16 ? sizeof (gint16) : sizeof (gfloat);
  gchar *pcm = g_malloc (chunk * MIMI_FRAME_SAMPLES * sample);
  gboolean good = TRUE;

  for (gsize i = 0; i < n_rows && good; i += chunk) {
    MimiResult result;

    good = mimi_stream_decode (stream, data + i * row_size,
               MIN (chunk, n_rows - i), pcm, &result, error) &&
           write_all (out, options->output, pcm,
               result.written * MIMI_FRAME_SAMPLES * sample, error);
    if (good && result.concealed)
      g_printerr (
          "%u frames became silence: %s\n", result.concealed, result.reason);
  }
  g_free (pcm);
  return good;
}

gboolean
bench_decode (const BenchOptions *options, MimiDecoder *decoder, GError **error)
{
  MimiRows rows;
  MimiStream *stream = NULL;
  Trace trace = { options->trace };
  gchar *data = NULL;
  gsize length, row_size;
  FILE *out = NULL;
  gboolean good = FALSE;

  if (!bench_find_rows (options, mimi_decoder_get_network (decoder),
          options->input, &rows, error) ||
      !g_file_get_contents (options->input, &data, &length, error))
    return FALSE;
  row_size = mimi_rows_get_size (&rows);
  if (length % row_size != 0) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "%s: %" G_GSIZE_FORMAT
        " bytes are not a whole number of rows of %" G_GSIZE_FORMAT
        " (see --codebooks and --dims)",
        options->input, length, row_size);
    goto out;
  }
  stream = mimi_stream_new (decoder, options->threads, error);
  if (stream == NULL || !mimi_stream_set_rows (stream, &rows, error))
    goto out;
  mimi_stream_set_pcm (stream, options->s16 ? MIMI_PCM_S16 : MIMI_PCM_F32);
  if (options->trace && !mimi_stream_set_trace (stream, trace_stage, &trace)) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_UNSUPPORTED,
        "--trace: this backend cannot; use --backend cpu");
    goto out;
  }
  out = fopen (options->output, "wb");
  if (out == NULL) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_OPEN_READ,
        "%s: cannot write: %s", options->output, g_strerror (errno));
    goto out;
  }
  good = decode_rows (
      options, stream, data, length / row_size, row_size, out, error);
  if (fclose (out) != 0 && good) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_OPEN_READ,
        "%s: cannot write: %s", options->output, g_strerror (errno));
    good = FALSE;
  }
  if (!trace_close (&trace, good ? error : NULL))
    good = FALSE;

out:
  if (stream)
    mimi_stream_free (stream);
  g_free (data);
  return good;
}
