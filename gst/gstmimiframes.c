/* Frames: bytes to rows, rows to PCM
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "gstmimiframes.h"

#include "gstmimierror.h"
#include "gstmimiformat.h"

GST_DEBUG_CATEGORY_EXTERN (gst_mimi_dec_debug);
#define GST_CAT_DEFAULT gst_mimi_dec_debug

/* Frames decoded in one go: as many as share a launch on a GPU, and so few (0.64 s
 * of speech) that they are on their way soon, and that a flush never waits long
 * for the streaming thread. */
#define MAX_FRAMES MIMI_LONGEST_RUN

/* Data came before caps that fit: those that did not were reported. */
static GstFlowReturn
miss_caps (GstMimiDec *self)
{
  if (!gst_pad_has_current_caps (GST_AUDIO_DECODER_SINK_PAD (self)) &&
      self->refused == NULL)
    GST_ELEMENT_ERROR (self, CORE, NEGOTIATION,
        ("The input does not say what it holds. Put its caps before mimidec, "
         "such as audio/x-mimi-latent,rate=24000,channels=1,dims=32."),
        ("data without caps"));
  return GST_FLOW_NOT_NEGOTIATED;
}

GstFlowReturn
gst_mimi_dec_parse (
    GstAudioDecoder *decoder, GstAdapter *adapter, gint *offset, gint *length)
{
  GstMimiDec *self = GST_MIMI_DEC (decoder);
  gsize available = gst_adapter_available (adapter);
  gsize obsolete = MIN (self->obsolete, available);
  gsize frames;
  gboolean draining;

  if (self->row_size == 0)
    return miss_caps (self);

  gst_clear_caps (&self->refused); /* others came: they count again */
  self->obsolete = 0;
  *offset = obsolete;
  available -= obsolete;
  frames = MIN (available / self->row_size, MAX_FRAMES);
  if (frames > 0) {
    self->leftover = 0;
    *length = frames * self->row_size;
    return GST_FLOW_OK;
  }

  self->leftover = available;
  gst_audio_decoder_get_parse_state (decoder, NULL, &draining);
  if (draining) {
    /* The base class is about to drop it. */
    gst_mimi_dec_report_leftover (self, "at the end");
    self->leftover = 0;
  }
  return GST_FLOW_EOS;
}

/* Applies a reset that somebody asked for. */
static void
apply_reset (GstMimiDec *self)
{
  GstClockTime fade_in;

  if (g_atomic_int_compare_and_exchange (&self->reset_pending, TRUE, FALSE)) {
    mimi_stream_reset (self->stream);
    self->fresh = TRUE;
  }
  if (!self->fresh)
    return;

  GST_OBJECT_LOCK (self);
  fade_in = self->settings.fade_in;
  GST_OBJECT_UNLOCK (self);
  mimi_stream_set_fade_in (self->stream,
      gst_util_uint64_scale_round (fade_in, MIMI_SAMPLE_RATE, GST_SECOND));
  self->fresh = FALSE;
}

/* Decodes the `n` rows of `in` into `out`. */
static gboolean
decode (GstMimiDec *self, GstBuffer *in, guint n, GstBuffer *out,
    MimiResult *result, GError **error)
{
  GstMapInfo rows, pcm;
  gboolean decoded;

  if (!gst_buffer_map (in, &rows, GST_MAP_READ)) {
    g_set_error (error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ,
        "Cannot map the input buffer.");
    return FALSE;
  }
  if (!gst_buffer_map (out, &pcm, GST_MAP_WRITE)) {
    gst_buffer_unmap (in, &rows);
    g_set_error (error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_WRITE,
        "Cannot map the output buffer.");
    return FALSE;
  }
  decoded =
      mimi_stream_decode (self->stream, rows.data, n, pcm.data, result, error);
  gst_buffer_unmap (out, &pcm);
  gst_buffer_unmap (in, &rows);
  return decoded;
}

/* Says that frames were replaced by silence: on the bus where a run of them
 * begins. The property max-errors limits a run; the base class itself would
 * count calls, and so depend on how the input is cut into buffers: it is told
 * only so that it marks the next buffer. */
static GstFlowReturn
report_concealed (GstMimiDec *self, const MimiResult *result)
{
  gint max = gst_audio_decoder_get_max_errors (GST_AUDIO_DECODER (self));
  GstFlowReturn ret = GST_FLOW_OK;

  if (result->runs > 0)
    GST_ELEMENT_WARNING (self, STREAM, DECODE,
        ("Replaced a frame that cannot be decoded by silence: %s",
            result->reason),
        ("%u of %u frames; the state starts from zero, and following bad "
         "frames are only counted",
            result->concealed, result->written));
  if (max >= 0 && result->longest > (guint)max) {
    GST_ELEMENT_ERROR (self, STREAM, DECODE, ("%s", result->reason),
        ("%u bad frames in a row, and max-errors is %d", result->longest, max));
    return GST_FLOW_ERROR;
  }
  GST_AUDIO_DECODER_ERROR (self, 0, STREAM, DECODE, ("%s", result->reason),
      ("%u bad frames in a row", result->longest), ret);
  return ret;
}

GstFlowReturn
gst_mimi_dec_handle_frame (GstAudioDecoder *decoder, GstBuffer *in)
{
  GstMimiDec *self = GST_MIMI_DEC (decoder);
  MimiResult result = { 0 };
  GstBuffer *out;
  GstFlowReturn ret;
  GError *error = NULL;
  gsize frame_size;
  guint n;

  if (in == NULL) /* draining: we keep nothing back */
    return GST_FLOW_OK;

  ret = gst_mimi_dec_renegotiate (self);
  if (ret != GST_FLOW_OK)
    return ret;

  n = gst_buffer_get_size (in) / self->row_size;
  frame_size = MIMI_FRAME_SAMPLES * self->sample_size;
  out = gst_audio_decoder_allocate_output_buffer (decoder, n * frame_size);
  if (out == NULL)
    goto no_buffer;

  apply_reset (self);
  if (!decode (self, in, n, out, &result, &error))
    goto failed;
  GST_LOG_OBJECT (self, "%u rows: %u frames, %u concealed, %u skipped", n,
      result.written, result.concealed, result.skipped);

  if (result.concealed > 0)
    ret = report_concealed (self, &result);
  if (ret != GST_FLOW_OK) {
    gst_buffer_unref (out);
    return ret;
  }

  /* The first audio that follows belongs where the rows without any were. */
  if (GST_BUFFER_PTS_IS_VALID (in))
    self->pending_pts = GST_BUFFER_PTS (in);
  if (result.written == 0) {
    gst_buffer_unref (out);
    return gst_audio_decoder_finish_frame (decoder, NULL, 1);
  }
  GST_BUFFER_PTS (in) = self->pending_pts;
  self->pending_pts = GST_CLOCK_TIME_NONE;
  gst_buffer_set_size (out, result.written * frame_size);
  return gst_audio_decoder_finish_frame (decoder, out, 1);

no_buffer:
  GST_ELEMENT_ERROR (self, RESOURCE, NO_SPACE_LEFT, (NULL),
      ("cannot allocate %u frames of PCM", n));
  return GST_FLOW_ERROR;

failed:
  gst_buffer_unref (out);
  gst_mimi_post_error (GST_ELEMENT (self), error, "decoding");
  return GST_FLOW_ERROR;
}
