/* A decoder that fails on demand, in the place of kernels/
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What a healthy machine never shows (a GPU that dies, memory that runs out)
 * can only be tested with a decoder that does it when told to. Its "network"
 * gives every sample of a frame the value of the row's first element plus the
 * number of frames since the state was zero: any lost, doubled or misplaced
 * reset or row is visible.
 */
#include "fake.h"

#include <math.h>
#include <string.h>

struct _MimiModel {
  gint refs;
  gchar *path;
};

struct _MimiDecoder {
  gint refs;
  guint streams;
};

struct _MimiStream {
  MimiDecoder *decoder;
  MimiRows rows;
  MimiPcm pcm;
  guint age;
  guint bad;
  MimiStreamStats stats;
};

static FakeFault fault;
static MimiError fault_code;
static const gchar *model_warning;
static gint alive; /* atomic */
static guint resets, largest_call, opened, last_threads;
static guint64 last_fade_in;
static MimiDecoderOptions last_options;

static const MimiNetwork network = { .latent_dim = 32,
  .has_statistics = TRUE,
  .codebooks = 8,
  .codebook_size = 2048,
  .codebook_dim = 256,
  .width = 512,
  .upsample = 16 };

void
fake_init (void)
{
  fault = FAKE_NOTHING;
  model_warning = NULL;
  resets = largest_call = opened = last_threads = 0;
  last_fade_in = 0;
}

void
fake_fail (FakeFault where, MimiError code)
{
  fault = where;
  fault_code = code;
}

void
fake_set_warning (const gchar *warning)
{
  model_warning = warning;
}

guint
fake_get_alive (void)
{
  return g_atomic_int_get (&alive);
}

guint
fake_get_resets (void)
{
  return resets;
}

guint
fake_get_largest_call (void)
{
  return largest_call;
}

guint
fake_get_opened (void)
{
  return opened;
}

const MimiDecoderOptions *
fake_get_options (void)
{
  return &last_options;
}

guint64
fake_get_fade_in (void)
{
  return last_fade_in;
}

guint
fake_get_threads (void)
{
  return last_threads;
}

static gboolean
fails (FakeFault where, GError **error)
{
  if (fault != where)
    return FALSE;
  g_set_error (error, MIMI_ERROR, fault_code, "fault %d of the fake", where);
  return TRUE;
}

GQuark
mimi_error_quark (void)
{
  return g_quark_from_static_string ("mimi-error-quark");
}

MimiModel *
mimi_model_open (const gchar *path, const gchar *config, GError **error)
{
  MimiModel *model;

  if (fails (FAKE_MODEL_OPEN, error))
    return NULL;
  model = g_new0 (MimiModel, 1);
  model->refs = 1;
  model->path = g_strconcat (path, config, NULL);
  g_atomic_int_inc (&alive);
  return model;
}

MimiModel *
mimi_model_ref (MimiModel *model)
{
  model->refs++;
  return model;
}

void
mimi_model_unref (MimiModel *model)
{
  if (--model->refs > 0)
    return;
  g_free (model->path);
  g_free (model);
  g_atomic_int_add (&alive, -1);
}

const MimiNetwork *
mimi_model_get_network (const MimiModel *model)
{
  return model != NULL ? &network : NULL;
}

const gchar *
mimi_model_get_path (const MimiModel *model)
{
  return model->path;
}

const gchar *
mimi_model_describe (const MimiModel *model)
{
  return model != NULL ? "fake" : NULL;
}

const gchar *
mimi_model_get_warning (const MimiModel *model)
{
  return model != NULL ? model_warning : NULL;
}

MimiDecoder *
mimi_decoder_get (
    MimiModel *model, const MimiDecoderOptions *options, GError **error)
{
  MimiDecoder *decoder;

  if (model == NULL || fails (FAKE_DECODER_GET, error))
    return NULL;
  opened++;
  last_options = *options;
  decoder = g_new0 (MimiDecoder, 1);
  decoder->refs = 1;
  g_atomic_int_inc (&alive);
  return decoder;
}

MimiDecoder *
mimi_decoder_ref (MimiDecoder *decoder)
{
  g_atomic_int_inc (&decoder->refs);
  return decoder;
}

void
mimi_decoder_unref (MimiDecoder *decoder)
{
  if (!g_atomic_int_dec_and_test (&decoder->refs))
    return;
  g_free (decoder);
  g_atomic_int_add (&alive, -1);
}

const MimiNetwork *
mimi_decoder_get_network (const MimiDecoder *decoder)
{
  return decoder != NULL ? &network : NULL;
}

void
mimi_decoder_get_info (MimiDecoder *decoder, MimiDecoderInfo *info)
{
  *info = (MimiDecoderInfo){ .backend = "cpu",
    .device = "fake",
    .note = "the fake has no GPU",
    .weights_bytes = 1000,
    .state_bytes = 100,
    .streams = decoder->streams };
}

gsize
mimi_rows_get_size (const MimiRows *rows)
{
  static const gsize sizes[] = { 4, 2, 2, 4, 8 };

  return sizes[rows->format] * rows->length;
}

MimiStream *
mimi_stream_new (MimiDecoder *decoder, guint threads, GError **error)
{
  MimiStream *stream;

  if (fails (FAKE_STREAM_NEW, error))
    return NULL;
  stream = g_new0 (MimiStream, 1);
  stream->decoder = mimi_decoder_ref (decoder);
  decoder->streams++;
  last_threads = threads;
  g_atomic_int_inc (&alive);
  return stream;
}

void
mimi_stream_free (MimiStream *stream)
{
  stream->decoder->streams--;
  mimi_decoder_unref (stream->decoder);
  g_free (stream);
  g_atomic_int_add (&alive, -1);
}

gboolean
mimi_stream_set_rows (MimiStream *stream, const MimiRows *rows, GError **error)
{
  if (fails (FAKE_SET_ROWS, error))
    return FALSE;
  if ((rows->format <= MIMI_ROW_F16 && rows->length != network.latent_dim &&
          rows->length != network.width) ||
      (rows->format > MIMI_ROW_F16 && rows->length > network.codebooks)) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "%u values a row where %u or %u are expected", rows->length,
        rows->format <= MIMI_ROW_F16 ? network.latent_dim : network.codebooks,
        network.width);
    return FALSE;
  }
  stream->rows = *rows;
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
  (void)stream;
  last_fade_in = samples;
}

void
mimi_stream_reset (MimiStream *stream)
{
  resets++;
  stream->bad = 0;
  if (stream->age > 0)
    stream->stats.resets++;
  stream->age = 0;
}

/* The first element of a row; NAN: a bad row, -1: no token yet. */
static gfloat
first_value (const MimiRows *rows, const guint8 *row)
{
  gfloat value;
  guint16 code;
  gint32 code32;

  switch (rows->format) {
    case MIMI_ROW_F32:
      memcpy (&value, row, sizeof value);
      return isfinite (value) ? value : NAN;
    case MIMI_ROW_U16:
      memcpy (&code, row, sizeof code);
      return code == 65535 ? -1 : code < 2048 ? code : NAN;
    case MIMI_ROW_S32:
    case MIMI_ROW_S64:
      memcpy (&code32, row, sizeof code32);
      return code32 < -1 || code32 > 2047 ? NAN : code32;
    default:
      return 0;
  }
}

gboolean
mimi_stream_decode (MimiStream *stream, gconstpointer rows, guint n,
    gpointer pcm, MimiResult *result, GError **error)
{
  const guint8 *row = rows;
  gint16 *s16 = pcm;
  gfloat *f32 = pcm;
  gboolean codes = stream->rows.format >= MIMI_ROW_U16;

  memset (result, 0, sizeof *result);
  largest_call = MAX (largest_call, n);
  if (fails (FAKE_DECODE, error))
    return FALSE;
  for (guint i = 0; i < n; i++, row += mimi_rows_get_size (&stream->rows)) {
    gfloat value = first_value (&stream->rows, row);

    if (codes && value == -1) {
      result->skipped++;
      continue;
    }
    if (isnan (value)) {
      result->concealed++;
      result->runs += stream->bad++ == 0;
      result->longest = MAX (result->longest, stream->bad);
      g_strlcpy (result->reason, "a bad row", sizeof result->reason);
      stream->age = 0;
      value = 0;
    } else {
      value += ++stream->age;
      stream->bad = 0;
    }
    for (guint j = 0; j < MIMI_FRAME_SAMPLES; j++) {
      guint at = result->written * MIMI_FRAME_SAMPLES + j;

      if (stream->pcm == MIMI_PCM_S16)
        s16[at] = (gint16)value;
      else
        f32[at] = value;
    }
    result->written++;
  }
  stream->stats.frames += result->written;
  stream->stats.concealed += result->concealed;
  stream->stats.skipped += result->skipped;
  return TRUE;
}

void
mimi_stream_get_stats (MimiStream *stream, MimiStreamStats *stats)
{
  *stats = stream->stats;
}

gboolean
mimi_stream_set_trace (
    MimiStream *stream, MimiTraceFunc func, gpointer user_data)
{
  (void)stream;
  (void)func;
  (void)user_data;
  return FALSE;
}
