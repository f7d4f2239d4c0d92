/* The format of the input, the format of the output, and their changes
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "gstmimiformat.h"

#include "gstmimicaps.h"
#include "gstmimierror.h"

GST_DEBUG_CATEGORY_EXTERN (gst_mimi_dec_debug);
#define GST_CAT_DEFAULT gst_mimi_dec_debug

/* Takes the first of our formats that downstream accepts. */
static gboolean
choose_output (GstMimiDec *self)
{
  GstAudioDecoder *decoder = GST_AUDIO_DECODER (self);
  GstCaps *caps = gst_pad_get_allowed_caps (GST_AUDIO_DECODER_SRC_PAD (self));
  GstAudioInfo info;
  GstAudioFormat format = GST_AUDIO_FORMAT_S16LE;

  if (caps != NULL && !gst_caps_is_empty (caps)) {
    caps = gst_caps_fixate (caps);
    if (gst_audio_info_from_caps (&info, caps))
      format = GST_AUDIO_INFO_FORMAT (&info);
  }
  gst_clear_caps (&caps);

  gst_audio_info_set_format (&info, format, MIMI_SAMPLE_RATE, 1, NULL);
  self->sample_size = GST_AUDIO_INFO_BPF (&info);
  mimi_stream_set_pcm (self->stream,
      format == GST_AUDIO_FORMAT_F32LE ? MIMI_PCM_F32 : MIMI_PCM_S16);
  return gst_audio_decoder_set_output_format (decoder, &info);
}

void
gst_mimi_dec_report_leftover (GstMimiDec *self, const gchar *where)
{
  if (self->leftover == 0)
    return;
  GST_ELEMENT_WARNING (self, STREAM, DECODE,
      ("Dropped an unfinished frame %s: %" G_GSIZE_FORMAT
       " bytes of the %" G_GSIZE_FORMAT " that a frame has.",
          where, self->leftover, self->row_size),
      ("the input was cut short, or its caps do not fit it"));
}

/* Where the format of the input ends. All whole frames of it are decoded; what
 * is left of it in the base class's adapter is not of the next one. */
static void
leave_format (GstMimiDec *self)
{
  if (self->row_size == 0)
    return;
  gst_mimi_dec_report_leftover (self, "where the caps changed");
  gst_mimi_dec_reset (self);
  self->obsolete += self->leftover;
  self->leftover = 0;
}

gboolean
gst_mimi_dec_set_format (GstAudioDecoder *decoder, GstCaps *caps)
{
  GstMimiDec *self = GST_MIMI_DEC (decoder);
  GstMimiNormalized normalized;
  MimiRows rows;
  GError *error = NULL;

  GST_OBJECT_LOCK (self);
  normalized = self->settings.normalized;
  GST_OBJECT_UNLOCK (self);

  if (!gst_mimi_caps_parse (caps, mimi_decoder_get_network (self->decoder),
          normalized, &rows, &error))
    goto failed;

  if (self->row_size == 0 || rows.format != self->rows.format ||
      rows.length != self->rows.length ||
      rows.normalized != self->rows.normalized) {
    if (!mimi_stream_set_rows (self->stream, &rows, &error))
      goto failed;
    leave_format (self);
    self->rows = rows;
    self->row_size = mimi_rows_get_size (&rows);
  }
  gst_clear_caps (&self->refused);
  GST_INFO_OBJECT (self,
      "%" GST_PTR_FORMAT ": %" G_GSIZE_FORMAT " bytes a frame, %snormalised",
      caps, self->row_size, rows.normalized ? "" : "not ");
  return choose_output (self);

failed:
  /* Upstream sends refused caps again with whatever it has next. */
  if (self->refused != NULL && gst_caps_is_equal (self->refused, caps))
    g_error_free (error);
  else
    gst_mimi_post_error (GST_ELEMENT (self), error, "reading the caps");
  gst_caps_replace (&self->refused, caps);
  /* The format stays: should the caps before these come again, the base class
   * takes them for those that it has, and does not ask. */
  leave_format (self);
  return FALSE;
}

/* The base class would renegotiate too, but only with the format it has. */
GstFlowReturn
gst_mimi_dec_renegotiate (GstMimiDec *self)
{
  GstPad *pad = GST_AUDIO_DECODER_SRC_PAD (self);

  if (!gst_pad_check_reconfigure (pad))
    return GST_FLOW_OK;
  if (choose_output (self) &&
      gst_audio_decoder_negotiate (GST_AUDIO_DECODER (self)))
    return GST_FLOW_OK;
  gst_pad_mark_reconfigure (pad);
  return GST_PAD_IS_FLUSHING (pad) ? GST_FLOW_FLUSHING
                                   : GST_FLOW_NOT_NEGOTIATED;
}

GstCaps *
gst_mimi_dec_getcaps (GstAudioDecoder *decoder, GstCaps *filter)
{
  GstCaps *caps =
      gst_pad_get_pad_template_caps (GST_AUDIO_DECODER_SINK_PAD (decoder));

  if (filter != NULL) {
    GstCaps *all = caps;

    caps = gst_caps_intersect_full (filter, all, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref (all);
  }
  return caps;
}
