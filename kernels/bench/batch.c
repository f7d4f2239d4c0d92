/* mimi-bench --batch: many streams of one decoder, stepping together.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Every step gives each stream its next frame, or with --chunk its next frames,
 * through the calls that any program has. The wall's time is taken without timing the device; the device's
 * time comes from a second decoder, whose graphs begin and end with an event.
 */
#include <string.h>

#include "bench.h"

#define MAX_STREAMS 1024
#define MAX_CHUNK 64
#define WARM_STEPS 8
#define ROWS 64 /* each stream begins with another of these */
#define FRAME_SECONDS ((gdouble)MIMI_FRAME_SAMPLES / MIMI_SAMPLE_RATE)

typedef struct {
  guint n, chunk; /* streams; frames of each, a step */
  MimiStream **streams;
  /* Of each frame of a step, a stream's side by side. */
  MimiStream **whose;
  gconstpointer *rows;
  gpointer *pcm;
  MimiResult *results;
  gpointer *blobs; /* NULL, or a state for each stream */
  gsize blob_size;
} Crowd;

/* Of one crowd: seconds of each step. */
typedef struct {
  gdouble *wall, *device;
  guint steps;
  gdouble total; /* wall, all steps */
  MimiDecoderInfo before, after;
} Steps;

static void
crowd_clear (Crowd *crowd)
{
  for (guint i = 0; i < crowd->n; i++) {
    if (crowd->streams[i])
      mimi_stream_free (crowd->streams[i]);
    if (crowd->blobs)
      g_free (crowd->blobs[i]);
  }
  for (guint i = 0; i < crowd->n * crowd->chunk; i++)
    g_free (crowd->pcm[i]);
  g_free (crowd->streams);
  g_free (crowd->whose);
  g_free (crowd->rows);
  g_free (crowd->pcm);
  g_free (crowd->blobs);
  g_free (crowd->results);
}

static gboolean
crowd_init (Crowd *crowd, const BenchOptions *options, MimiDecoder *decoder,
    const MimiRows *rows, guint n, gboolean host, GError **error)
{
  guint chunk = (guint)MAX (options->chunk, 1), all = n * chunk;

  *crowd =
      (Crowd){ n, chunk, g_new0 (MimiStream *, n), g_new0 (MimiStream *, all),
        g_new0 (gconstpointer, all), g_new0 (gpointer, all),
        g_new0 (MimiResult, all), host ? g_new0 (gpointer, n) : NULL, 0 };

  for (guint i = 0; i < n; i++) {
    MimiStream *stream = mimi_stream_new (decoder, options->threads, error);

    crowd->streams[i] = stream;
    for (guint j = i * chunk; j < (i + 1) * chunk; j++) {
      crowd->whose[j] = stream;
      crowd->pcm[j] = g_new (gfloat, MIMI_FRAME_SAMPLES);
    }
    if (!stream || !mimi_stream_set_rows (stream, rows, error))
      return FALSE;
    mimi_stream_set_pcm (stream, options->s16 ? MIMI_PCM_S16 : MIMI_PCM_F32);
    crowd->blob_size = mimi_stream_get_state_size (stream);
    if (host) {
      crowd->blobs[i] = g_malloc (crowd->blob_size);
      if (!mimi_stream_save (stream, crowd->blobs[i], error))
        return FALSE;
    }
  }
  return TRUE;
}

/* The next frames of each stream; with blobs, its state comes and goes. */
static gboolean
crowd_step (Crowd *crowd, GError **error)
{
  guint i;

  for (i = 0; crowd->blobs && i < crowd->n; i++)
    if (!mimi_stream_restore (
            crowd->streams[i], crowd->blobs[i], crowd->blob_size, error))
      return FALSE;
  if (!mimi_streams_decode (crowd->whose, crowd->n * crowd->chunk, crowd->rows,
          (gpointer const *)crowd->pcm, crowd->results, error))
    return FALSE;
  for (i = 0; crowd->blobs && i < crowd->n; i++)
    if (!mimi_stream_save (crowd->streams[i], crowd->blobs[i], error))
      return FALSE;
  return TRUE;
}

static gboolean
is_over (const BenchOptions *options, gdouble begin)
{
  return options->seconds > 0 && bench_now () - begin > options->seconds;
}

static void
give_rows (Crowd *crowd, const gchar *data, gsize row_size, guint i)
{
  for (guint s = 0; s < crowd->n; s++)
    for (guint j = 0; j < crowd->chunk; j++)
      crowd->rows[s * crowd->chunk + j] =
          data + (i * crowd->chunk + j + s) % ROWS * row_size;
}

static gboolean
run (Crowd *crowd, const BenchOptions *options, MimiDecoder *decoder,
    const gchar *data, gsize row_size, Steps *steps, GError **error)
{
  guint most = MAX (options->frames, 1), i;
  gdouble begin = bench_now ();
  guint64 device_ns;

  *steps = (Steps){ g_new (gdouble, most), g_new (gdouble, most), 0 };
  for (i = 0; i < WARM_STEPS && !(i > 0 && is_over (options, begin)); i++) {
    give_rows (crowd, data, row_size, i);
    if (!crowd_step (crowd, error))
      return FALSE;
  }
  mimi_decoder_get_info (decoder, &steps->before);
  device_ns = steps->before.device_ns;
  begin = bench_now ();
  for (i = 0; i < most && !(i > 0 && is_over (options, begin)); i++) {
    gdouble start = bench_now ();

    give_rows (crowd, data, row_size, i);
    if (!crowd_step (crowd, error))
      return FALSE;
    steps->wall[i] = bench_now () - start;
    mimi_decoder_get_info (decoder, &steps->after);
    steps->device[i] = (steps->after.device_ns - device_ns) * 1e-9;
    device_ns = steps->after.device_ns;
  }
  steps->steps = i;
  steps->total = bench_now () - begin;
  return TRUE;
}

static void
steps_clear (Steps *steps)
{
  g_free (steps->wall);
  g_free (steps->device);
}

static gboolean
measure (const BenchOptions *options, MimiDecoder *decoder, guint n,
    gboolean host, Steps *steps, GError **error)
{
  const MimiNetwork *net = mimi_decoder_get_network (decoder);
  Crowd crowd;
  MimiRows rows;
  gchar *data;
  gboolean good;

  memset (steps, 0, sizeof *steps);
  if (!bench_find_rows (options, net, NULL, &rows, error))
    return FALSE;
  data = bench_make_rows (&rows, net, ROWS);
  good = crowd_init (&crowd, options, decoder, &rows, n, host, error) &&
         run (&crowd, options, decoder, data, mimi_rows_get_size (&rows), steps,
             error);
  crowd_clear (&crowd);
  g_free (data);
  return good;
}

/* A row of the table; it is Markdown, to be kept as it is. `chunk` frames of each
 * stream a step. */
static void
report (guint n, guint chunk, gboolean host, Steps *wall, Steps *device)
{
  gdouble frames = (gdouble)n * chunk * wall->steps;
  gdouble rate = frames / wall->total;
  gchar *device_times =
      device ? g_strdup_printf ("%.4f | %.4f",
                   bench_quantile (device->device, device->steps, 0.5) * 1e3,
                   bench_quantile (device->device, device->steps, 0.99) * 1e3)
             : g_strdup ("- | -");

#define EACH(what) ((gdouble)(wall->after.what - wall->before.what))
  g_print ("| %u | %s | %s | %.4f | %.4f | %.0f | %.0f | %.2f | %.2f | %.0f | "
           "%.0f | %u |\n",
      n, host ? "host" : "device", device_times,
      bench_quantile (wall->wall, wall->steps, 0.5) * 1e3,
      bench_quantile (wall->wall, wall->steps, 0.99) * 1e3, rate,
      rate * FRAME_SECONDS, EACH (launches) / wall->steps,
      EACH (waits) / wall->steps, EACH (bytes_up) / frames,
      EACH (bytes_down) / frames, wall->steps);
#undef EACH
  g_free (device_times);
}

static gboolean
measure_both (const BenchOptions *options, MimiDecoder *decoder,
    MimiDecoder *timed, guint n, gboolean host, GError **error)
{
  Steps wall = { 0 }, device = { 0 };
  gboolean good = measure (options, decoder, n, host, &wall, error) &&
                  (!timed || measure (options, timed, n, host, &device, error));

  if (good)
    report (
        n, (guint)MAX (options->chunk, 1), host, &wall, timed ? &device : NULL);
  steps_clear (&wall);
  steps_clear (&device);
  return good;
}

/* The launches are shared by chance, so there is no step whose device time
 * could be told. */
static gboolean
measure_apart (
    const BenchOptions *options, MimiDecoder *decoder, guint n, GError **error)
{
  const MimiNetwork *net = mimi_decoder_get_network (decoder);
  Crowd crowd;
  BenchApart apart;
  MimiRows rows;
  gchar *data;
  gboolean good;

  if (!bench_find_rows (options, net, NULL, &rows, error))
    return FALSE;
  data = bench_make_rows (&rows, net, ROWS);
  good = crowd_init (&crowd, options, decoder, &rows, n, FALSE, error) &&
         bench_apart (options, decoder, crowd.streams, n, data,
             mimi_rows_get_size (&rows), &apart, error);
  crowd_clear (&crowd);
  g_free (data);
  if (!good)
    return FALSE;

#define EACH(what) ((gdouble)(apart.after.what - apart.before.what))
  g_print ("| %u | threads | - | - | %.4f | %.4f | %.0f | %.0f | %.2f | %.2f | "
           "%.0f | %.0f | %u |\n",
      n, apart.median * 1e3, apart.p99 * 1e3, apart.frames / apart.total,
      apart.frames / apart.total * FRAME_SECONDS,
      EACH (launches) * n / apart.frames, EACH (waits) * n / apart.frames,
      EACH (bytes_up) / apart.frames, EACH (bytes_down) / apart.frames,
      apart.frames / n);
#undef EACH
  return TRUE;
}

/* NULL: this one does not measure it. */
static MimiDecoder *
get_timed (const BenchOptions *options, MimiModel *model)
{
  MimiDecoderOptions timed = options->decoder;
  GError *error = NULL;
  MimiDecoder *decoder;

  timed.backend = MIMI_BACKEND_CUDA;
  timed.timed = TRUE;
  decoder = mimi_decoder_get (model, &timed, &error);
  if (!decoder) {
    g_printerr ("no device times: %s\n", error->message);
    g_error_free (error);
  }
  return decoder;
}

/* ------------------------------------------------------------- options --- */

static gboolean
parse_size (const gchar *text, guint *n, GError **error)
{
  guint64 value;

  if (!g_ascii_string_to_unsigned (text, 10, 1, MAX_STREAMS, &value, NULL)) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "--batch: \"%s\" is not a number of streams from 1 to %d; give one or "
        "more, with commas between them",
        text, MAX_STREAMS);
    return FALSE;
  }
  *n = (guint)value;
  return TRUE;
}

static gboolean
parse_state (const gchar *text, gboolean *host, GError **error)
{
  *host = g_str_equal (text, "host");
  if (*host || g_str_equal (text, "device"))
    return TRUE;
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
      "--state: expected device, host or device,host, not \"%s\"", text);
  return FALSE;
}

static gchar **
split (const gchar *list, const gchar *otherwise)
{
  return g_strsplit (list ? list : otherwise, ",", -1);
}

gboolean
bench_check_batches (const BenchOptions *options, GError **error)
{
  gchar **sizes = split (options->batch, "1");
  gchar **states = split (options->state, "device");
  gboolean good = TRUE, host;
  guint n, i;

  for (i = 0; good && (sizes[i] || i == 0); i++)
    good = parse_size (sizes[i] ? sizes[i] : "", &n, error);
  for (i = 0; good && (states[i] || i == 0); i++)
    good = parse_state (states[i] ? states[i] : "", &host, error);
  if (good && options->apart && (!options->batch || options->state)) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "--apart needs --batch, and leaves the state on the device");
    good = FALSE;
  }
  if (good && options->batch &&
      (options->chunk < 1 || options->chunk > MAX_CHUNK ||
          (options->chunk > 1 && options->apart))) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "--chunk %d: with --batch from 1 to %d frames a step, and with --apart "
        "one",
        options->chunk, MAX_CHUNK);
    good = FALSE;
  }
  if (good && !options->batch && i > 1) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "--state %s: both in one run need --batch", options->state);
    good = FALSE;
  }
  g_strfreev (sizes);
  g_strfreev (states);
  return good;
}

gboolean
bench_batches (const BenchOptions *options, MimiModel *model,
    MimiDecoder *decoder, GError **error)
{
  gchar **sizes = split (options->batch, "1");
  gchar **states = split (options->state, "device");
  MimiDecoder *timed = NULL;
  MimiDecoderInfo info;
  gboolean good = TRUE, host;
  guint n;

  mimi_decoder_get_info (decoder, &info);
  if (g_str_equal (info.backend, "cuda") && !options->apart)
    timed = get_timed (options, model);
  g_print ("decodes on   %s, %s; weights %.1f MB, state of a stream %.3f MB; "
           "a step is %d frames of each stream\n\n"
           "| streams | state | device ms | p99 | wall ms | p99 | frames/s | "
           "in real time | launches | waits | bytes up | bytes down | steps |\n"
           "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
      info.backend, info.device, info.weights_bytes * 1e-6,
      info.state_bytes * 1e-6, MAX (options->chunk, 1));
  for (guint i = 0; good && sizes[i]; i++)
    for (guint j = 0; good && states[j]; j++)
      good = parse_size (sizes[i], &n, error) &&
             parse_state (states[j], &host, error) &&
             (options->apart
                     ? measure_apart (options, decoder, n, error)
                     : measure_both (options, decoder, timed, n, host, error));
  if (timed)
    mimi_decoder_unref (timed);
  g_strfreev (sizes);
  g_strfreev (states);
  return good;
}
