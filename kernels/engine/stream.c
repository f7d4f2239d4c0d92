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
  guint64 position; /* samples since then */

  gfloat *values;
  guint16 codes[MIMI_MAX_CODEBOOKS];
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
  gpointer slot =
      decoder->ops->slot_new (decoder->backend, MAX (threads, 1), error);

  if (!slot)
    return NULL;
  stream = g_new0 (MimiStream, 1);
  stream->decoder = mimi_decoder_ref (decoder);
  stream->slot = slot;
  stream->fresh = TRUE;
  stream->values =
      g_new (gfloat, MAX (decoder->network.width, decoder->network.latent_dim));
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

/* Reads a row; what the backend is to do with a good one is in `item`. */
static MimiRowState
begin (MimiStream *stream, gconstpointer row, gpointer pcm, MimiStepItem *item)
{
  gboolean aligned = (guintptr)pcm % sizeof (gfloat) == 0;

  *item = (MimiStepItem){
    .slot = stream->slot,
    .reset = stream->fresh,
    .kind = stream->kind,
    .values = stream->values,
    .codes = stream->codes,
    .n_codes = stream->kind == MIMI_STEP_CODES ? stream->rows.length : 0,
    .pcm = aligned ? pcm : (gpointer)stream->samples,
    .format = stream->pcm,
    .fade_in = stream->fade_in,
    .position = stream->position,
    .finite = TRUE,
  };
  return mimi_rows_read (&stream->rows, &stream->decoder->network, row,
      stream->values, stream->codes, stream->reason, sizeof stream->reason);
}

static gboolean
step (MimiDecoder *decoder, MimiStepItem *items, guint n, guint64 *ns,
    GError **error)
{
  guint64 start = now ();

  if (!decoder->ops->step (decoder->backend, items, n, error)) {
    mimi_decoder_retire (decoder);
    return FALSE;
  }
  *ns = now () - start;
  return TRUE;
}

/* The other end of begin(), and of step() where the row was a good one. */
static void
finish (MimiStream *stream, MimiRowState state, const MimiStepItem *item,
    guint64 ns, gpointer pcm, MimiResult *result)
{
  gsize frame_size = get_frame_size (stream);

  if (state == MIMI_ROW_EMPTY) {
    COUNT (&stream->skipped);
    result->skipped++;
    return;
  }
  if (state == MIMI_ROW_GOOD) {
    mimi_times_add (&stream->times, ns);
    stream->fresh = FALSE;
    stream->position += MIMI_FRAME_SAMPLES;
    if (!item->finite)
      g_snprintf (stream->reason, sizeof stream->reason,
          "the network overflows, its values are too large");
  }
  if (state == MIMI_ROW_BAD || !item->finite) {
    if (result->concealed++ == 0)
      g_snprintf (result->reason, sizeof result->reason,
          "frame %" G_GUINT64_FORMAT ": %s", stream->frames, stream->reason);
    result->runs += stream->bad++ == 0;
    result->longest = MAX (result->longest, stream->bad);
    COUNT (&stream->concealed);
    memset (item->pcm, 0, frame_size);
    start_afresh (stream);
  } else {
    stream->bad = 0;
  }
  if (item->pcm != pcm)
    memcpy (pcm, item->pcm, frame_size);
  COUNT (&stream->frames);
  result->written++;
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
  guint i;

  memset (result, 0, sizeof *result);
  if (!check_rows (stream, error))
    return FALSE;
  row_size = mimi_rows_get_size (&stream->rows);

  for (i = 0; i < n; i++) {
    guint8 *out = (guint8 *)pcm + result->written * frame_size;
    MimiStepItem item;
    guint64 ns = 0;
    MimiRowState state =
        begin (stream, (const guint8 *)rows + i * row_size, out, &item);

    if (state == MIMI_ROW_GOOD && !step (stream->decoder, &item, 1, &ns, error))
      return FALSE;
    finish (stream, state, &item, ns, out, result);
  }
  return TRUE;
}

gboolean
mimi_streams_decode (MimiStream *const *streams, guint n,
    gconstpointer const *rows, gpointer const *pcm, MimiResult *results,
    GError **error)
{
  MimiStepItem *items;
  MimiRowState *states;
  guint64 ns = 0;
  guint i, good = 0;
  gboolean ok = TRUE;

  if (n == 0)
    return TRUE;
  memset (results, 0, n * sizeof *results);
  for (i = 0; i < n; i++) {
    if (streams[i]->decoder != streams[0]->decoder) {
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
          "streams %u and 0 have different decoders: only those of one can be "
          "decoded together",
          i);
      return FALSE;
    }
    if (!check_rows (streams[i], error))
      return FALSE;
  }

  /* Good rows' items lie side by side in front; a stream whose row is not one
   * has its item, with the address of its PCM, at the back. */
  items = g_new (MimiStepItem, 2 * n);
  states = g_new (MimiRowState, n);
  for (i = 0; i < n; i++) {
    states[i] = begin (streams[i], rows[i], pcm[i], &items[n + i]);
    if (states[i] == MIMI_ROW_GOOD)
      items[good++] = items[n + i];
  }
  if (good > 0)
    ok = step (streams[0]->decoder, items, good, &ns, error);
  for (i = 0, good = 0; i < n && ok; i++)
    finish (streams[i], states[i],
        states[i] == MIMI_ROW_GOOD ? &items[good++] : &items[n + i], ns, pcm[i],
        &results[i]);
  g_free (states);
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
