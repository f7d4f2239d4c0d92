/* Streams: one utterance in progress.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "decoder.h"
#include "rows.h"
#include "state.h"
#include "stats.h"

#include <string.h>
#include <time.h>

struct _MimiStream {
  MimiDecoder *decoder;
  gpointer slot;

  MimiRows rows;
  MimiStepKind kind;
  gboolean has_rows;
  MimiPcm pcm;
  guint64 fade_in;

  gboolean fresh;   /* the next frame starts from zero */
  guint bad;        /* rows in a row that could not be decoded */
  gboolean listed;  /* check_streams() has seen it */
  guint64 position; /* samples since then */

  gfloat *values; /* [MIMI_LONGEST_RUN][values_length] */
  guint values_length;
  guint16 codes[MIMI_LONGEST_RUN][MIMI_MAX_CODEBOOKS];
  gfloat samples[MIMI_FRAME_SAMPLES]; /* for a caller that is not aligned */
  gchar reason[160];                  /* why a row is bad */

  /* Written by the thread that decodes, read by any. */
  guint64 frames, concealed, skipped, resets;
  MimiTimes times;
};

#define LOAD(p) __atomic_load_n ((p), __ATOMIC_RELAXED)
#define COUNT(p) __atomic_store_n ((p), *(p) + 1, __ATOMIC_RELAXED)

MimiStream *
mimi_stream_new (MimiDecoder *decoder, guint threads, GError **error)
{
  MimiStream *stream;
  guint length = MAX (decoder->network.width, decoder->network.latent_dim);
  gfloat *values = g_try_new (gfloat, MIMI_LONGEST_RUN * length);
  gpointer slot;

  if (!values) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY,
        "no memory for a stream's rows of %u values", length);
    return NULL;
  }
  slot = decoder->ops->slot_new (decoder->backend, MAX (threads, 1), error);
  if (!slot) {
    g_free (values);
    return NULL;
  }
  stream = g_new0 (MimiStream, 1);
  stream->decoder = mimi_decoder_ref (decoder);
  stream->slot = slot;
  stream->fresh = TRUE;
  stream->values_length = length;
  stream->values = values;
  g_atomic_int_inc (&decoder->streams);
  return stream;
}

void
mimi_stream_free (MimiStream *stream)
{
  MimiDecoder *decoder = stream->decoder;

  decoder->ops->slot_free (decoder->backend, stream->slot);
  g_atomic_int_add (&decoder->streams, -1);
  g_free (stream->values);
  g_free (stream);
  mimi_decoder_unref (decoder);
}

gboolean
mimi_stream_set_rows (MimiStream *stream, const MimiRows *rows, GError **error)
{
  MimiStepKind kind;

  if (!mimi_rows_check (rows, &stream->decoder->network, &kind, error))
    return FALSE;
  stream->rows = *rows;
  stream->kind = kind;
  stream->has_rows = TRUE;
  return TRUE;
}

void
mimi_stream_set_pcm (MimiStream *stream, MimiPcm format)
{
  stream->pcm = format;
}

void
mimi_stream_set_fade_in (MimiStream *stream, guint64 samples)
{
  stream->fade_in = samples;
}

static void
start_afresh (MimiStream *stream)
{
  if (stream->fresh)
    return;
  stream->fresh = TRUE;
  stream->position = 0;
  COUNT (&stream->resets);
}

void
mimi_stream_reset (MimiStream *stream)
{
  stream->bad = 0;
  start_afresh (stream);
}

gsize
mimi_stream_get_state_size (MimiStream *stream)
{
  return mimi_state_blob_size (&stream->decoder->network);
}

gboolean
mimi_stream_save (MimiStream *stream, gpointer blob, GError **error)
{
  MimiDecoder *decoder = stream->decoder;
  gfloat *values = mimi_state_blob_get_values (blob);

  mimi_state_blob_write_header (blob, &decoder->network,
      stream->fresh ? 0 : stream->position / MIMI_FRAME_SAMPLES);
  if (stream->fresh) {
    memset (values, 0,
        mimi_stream_get_state_size (stream) -
            ((guint8 *)values - (guint8 *)blob));
    return TRUE;
  }
  if (decoder->ops->state_read (decoder->backend, stream->slot, values, error))
    return TRUE;
  mimi_decoder_retire (decoder);
  return FALSE;
}

gboolean
mimi_stream_restore (
    MimiStream *stream, gconstpointer blob, gsize size, GError **error)
{
  MimiDecoder *decoder = stream->decoder;
  guint64 frames;

  if (!mimi_state_blob_check (blob, size, &decoder->network, &frames, error))
    return FALSE;
  if (frames > 0 &&
      !decoder->ops->state_write (decoder->backend, stream->slot, frames,
          mimi_state_blob_get_values ((gpointer)blob), error)) {
    mimi_decoder_retire (decoder);
    return FALSE;
  }
  stream->fresh = frames == 0;
  stream->position = frames * MIMI_FRAME_SAMPLES;
  return TRUE;
}

gboolean
mimi_stream_set_trace (
    MimiStream *stream, MimiTraceFunc func, gpointer user_data)
{
  const MimiBackendOps *ops = stream->decoder->ops;

  if (!ops->set_trace)
    return FALSE;
  ops->set_trace (stream->decoder->backend, stream->slot, func, user_data);
  return TRUE;
}

/* ------------------------------------------------------------ decoding --- */

static guint64
now (void)
{
  struct timespec t;

  clock_gettime (CLOCK_MONOTONIC, &t);
  return t.tv_sec * G_GUINT64_CONSTANT (1000000000) + t.tv_nsec;
}

static gsize
get_frame_size (const MimiStream *stream)
{
  return MIMI_FRAME_SAMPLES *
         (stream->pcm == MIMI_PCM_S16 ? sizeof (gint16) : sizeof (gfloat));
}

/* Rows of one stream that go through a step together: good ones, between them
 * such as say "no token yet", and at the end perhaps a bad one. */
typedef struct {
  MimiStream *stream;
  guint n, good;
  MimiRowState states[MIMI_LONGEST_RUN];
  gpointer pcm[MIMI_LONGEST_RUN];
  MimiStepItem *items; /* of the good ones */
} Run;

/* Adds a row if there is room for it; `items` must have it too. */
static gboolean
run_add (Run *run, gconstpointer row, gpointer pcm)
{
  MimiStream *stream = run->stream;
  gfloat *values = stream->values + run->good * stream->values_length;
  guint16 *codes = stream->codes[run->good];
  gboolean aligned = (guintptr)pcm % sizeof (gfloat) == 0;
  MimiRowState state;

  if (run->n == MIMI_LONGEST_RUN ||
      (run->n > 0 && run->states[run->n - 1] == MIMI_ROW_BAD))
    return FALSE;
  /* There is one frame's room for callers that are not aligned. */
  if (run->good > 0 &&
      (!aligned || run->items[run->good - 1].pcm == stream->samples))
    return FALSE;
  state = mimi_rows_read (&stream->rows, &stream->decoder->network, row, values,
      codes, stream->reason, sizeof stream->reason);
  if (state == MIMI_ROW_GOOD)
    run->items[run->good] = (MimiStepItem){
      .slot = stream->slot,
      .reset = stream->fresh && run->good == 0,
      .kind = stream->kind,
      .values = values,
      .codes = codes,
      .n_codes = stream->kind == MIMI_STEP_CODES ? stream->rows.length : 0,
      .pcm = aligned ? pcm : (gpointer)stream->samples,
      .format = stream->pcm,
      .fade_in = stream->fade_in,
      .position = stream->position + run->good * (guint64)MIMI_FRAME_SAMPLES,
      .finite = TRUE,
    };
  run->good += state == MIMI_ROW_GOOD;
  run->pcm[run->n] = pcm;
  run->states[run->n++] = state;
  return TRUE;
}

static gboolean
step (MimiDecoder *decoder, MimiStepItem *items, guint n, guint64 *ns,
    GError **error)
{
  guint64 start = now ();

  if (n == 0)
    return TRUE;
  if (!decoder->ops->step (decoder->backend, items, n, error)) {
    mimi_decoder_retire (decoder);
    return FALSE;
  }
  *ns = now () - start;
  return TRUE;
}

/* A frame that was decoded, in `ns` nanoseconds, or silence: FALSE. */
static gboolean
finish (MimiStream *stream, const MimiStepItem *item, guint64 ns, gpointer pcm,
    MimiResult *result)
{
  gsize frame_size = get_frame_size (stream);
  gboolean good = item && item->finite;

  if (item) {
    mimi_times_add (&stream->times, ns);
    stream->fresh = FALSE;
    stream->position += MIMI_FRAME_SAMPLES;
    if (!good)
      g_snprintf (stream->reason, sizeof stream->reason,
          "the network overflows, its values are too large");
  }
  if (good) {
    stream->bad = 0;
    if (item->pcm != pcm)
      memcpy (pcm, item->pcm, frame_size);
  } else {
    if (result->concealed++ == 0)
      g_snprintf (result->reason, sizeof result->reason,
          "frame %" G_GUINT64_FORMAT ": %s", stream->frames, stream->reason);
    result->runs += stream->bad++ == 0;
    result->longest = MAX (result->longest, stream->bad);
    COUNT (&stream->concealed);
    memset (pcm, 0, frame_size);
    start_afresh (stream);
  }
  COUNT (&stream->frames);
  result->written++;
  return good;
}

/* After the step, which took `ns` nanoseconds. Row i's result is results[i *
 * apart]. Returns how many rows are done with: what follows a frame that could not
 * be decoded has to be decoded again, from a fresh state. */
static guint
run_finish (Run *run, guint64 ns, MimiResult *results, guint apart)
{
  MimiStream *stream = run->stream;
  const MimiStepItem *item = run->items;
  guint i;

  ns /= MAX (run->good, 1);
  for (i = 0; i < run->n; i++) {
    MimiResult *result = results + i * apart;

    if (run->states[i] == MIMI_ROW_EMPTY) {
      COUNT (&stream->skipped);
      result->skipped++;
    } else if (run->states[i] == MIMI_ROW_BAD) {
      finish (stream, NULL, 0, run->pcm[i], result);
    } else if (!finish (stream, item++, ns, run->pcm[i], result)) {
      return i + 1;
    }
  }
  return run->n;
}

static gboolean
check_rows (const MimiStream *stream, GError **error)
{
  if (stream->has_rows)
    return TRUE;
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
      "the format of the input was never set");
  return FALSE;
}

gboolean
mimi_stream_decode (MimiStream *stream, gconstpointer rows, guint n,
    gpointer pcm, MimiResult *result, GError **error)
{
  gsize row_size, frame_size = get_frame_size (stream);
  const guint8 *row = rows;
  guint done = 0;

  memset (result, 0, sizeof *result);
  if (!check_rows (stream, error))
    return FALSE;
  row_size = mimi_rows_get_size (&stream->rows);

  while (done < n) {
    MimiStepItem items[MIMI_LONGEST_RUN];
    Run run = { .stream = stream, .items = items };
    guint8 *out = (guint8 *)pcm + result->written * frame_size;
    guint64 ns = 0;

    while (done + run.n < n && run_add (&run, row + (done + run.n) * row_size,
                                   out + run.good * frame_size))
      ;
    if (!step (stream->decoder, items, run.good, &ns, error))
      return FALSE;
    done += run_finish (&run, ns, result, 0);
  }
  return TRUE;
}

/* They have one decoder and formats, and each stands in one place. */
static gboolean
check_streams (MimiStream *const *streams, guint n, GError **error)
{
  gboolean good = TRUE;
  guint i, looked;

  for (i = 0; i < n && good; i++) {
    MimiStream *stream = streams[i];

    good = FALSE;
    if (stream->decoder != streams[0]->decoder)
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
          "streams %u and 0 have different decoders: only those of one can be "
          "decoded together",
          i);
    else if (stream->listed && stream != streams[i - 1])
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
          "stream %u is also further up: rows of one have to stand side by "
          "side",
          i);
    else
      good = check_rows (stream, error);
    stream->listed = TRUE;
  }
  for (looked = i, i = 0; i < looked; i++)
    streams[i]->listed = FALSE;
  return good;
}

gboolean
mimi_streams_decode (MimiStream *const *streams, guint n,
    gconstpointer const *rows, gpointer const *pcm, MimiResult *results,
    GError **error)
{
  MimiStepItem *items;
  Run *runs;
  guint *next; /* of each stream, the first of its rows that is not done */
  guint i, good, left = n;
  gboolean ok = TRUE;

  if (n == 0)
    return TRUE;
  memset (results, 0, n * sizeof *results);
  if (!check_streams (streams, n, error))
    return FALSE;

  items = g_new (MimiStepItem, n);
  runs = g_new (Run, n);
  next = g_new0 (guint, n);
  while (left > 0 && ok) {
    guint64 ns = 0;
    guint r = 0, end;

    /* runs[r], next[r]: of the r-th stream */
    for (i = 0, good = 0; i < n; i = end, r++) {
      Run *run = &runs[r];

      *run = (Run){ .stream = streams[i], .items = items + good };
      for (end = i; end < n && streams[end] == streams[i]; end++)
        if (end == i + next[r] + run->n)
          run_add (run, rows[end], pcm[end]);
      good += run->good;
    }
    ok = step (streams[0]->decoder, items, good, &ns, error);
    for (i = 0, r = 0; i < n && ok; i = end, r++) {
      guint done = run_finish (&runs[r], ns, results + i + next[r], 1);

      next[r] += done;
      left -= done;
      for (end = i; end < n && streams[end] == streams[i]; end++)
        ;
    }
  }
  g_free (next);
  g_free (runs);
  g_free (items);
  return ok;
}

void
mimi_stream_get_stats (MimiStream *stream, MimiStreamStats *stats)
{
  stats->frames = LOAD (&stream->frames);
  stats->concealed = LOAD (&stream->concealed);
  stats->skipped = LOAD (&stream->skipped);
  stats->resets = LOAD (&stream->resets);
  stats->median_ns = mimi_times_get_quantile (&stream->times, 0.5);
  stats->p99_ns = mimi_times_get_quantile (&stream->times, 0.99);
  stats->max_ns = mimi_times_get_max (&stream->times);
}
