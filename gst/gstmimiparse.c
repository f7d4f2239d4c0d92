/* mimiparse: the element
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

/**
 * SECTION:element-mimiparse
 * @title: mimiparse
 * @short_description: cuts Mimi latents and codes into frames with timestamps
 *
 * mimiparse makes of bytes (a file, a pipe) one buffer for each frame, 80 ms
 * apart. mimidec needs no such thing. It is for what stands between them and
 * needs to know when a frame is due: a payloader, a queue that counts time, a
 * recording; and for seeking in a file, which lands on the beginning of a frame.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 filesrc location=codes.u16 ! audio/x-mimi,rate=24000,channels=1,codebooks=8 ! mimiparse ! rtpgstpay config-interval=1 ! udpsink host=127.0.0.1 port=5004
 * ]| Codes in RTP, a frame a packet, in real time.
 * |[
 * gst-launch-1.0 udpsrc port=5004 caps=application/x-rtp,media=application,clock-rate=90000,encoding-name=X-GST ! rtpjitterbuffer ! rtpgstdepay ! mimidec model=mimi ! audioconvert ! audioresample ! autoaudiosink
 * ]| The other side, which decodes them.
 *
 * Since: 0.1
 */

#include "gstmimiparse.h"

#include "gstmimicaps.h"
#include "gstmimierror.h"

GST_DEBUG_CATEGORY_STATIC (gst_mimi_parse_debug);
#define GST_CAT_DEFAULT gst_mimi_parse_debug

#define FRAME_DURATION (80 * GST_MSECOND)

static GstStaticPadTemplate src_template = GST_STATIC_PAD_TEMPLATE (
    "src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_MIMI_INPUT_CAPS));

G_DEFINE_TYPE (GstMimiParse, gst_mimi_parse, GST_TYPE_BASE_PARSE);
GST_ELEMENT_REGISTER_DEFINE (
    mimiparse, "mimiparse", GST_RANK_NONE, GST_TYPE_MIMI_PARSE);

/* An unfinished row will not be finished. Its bytes are still in the base
 * class's adapter, in front of those that come. */
static void
drop_leftover (GstMimiParse *self, const gchar *where)
{
  if (self->leftover == 0)
    return;
  GST_ELEMENT_WARNING (self, STREAM, FORMAT,
      ("Dropped an unfinished frame %s: %" G_GSIZE_FORMAT
       " bytes of the %" G_GSIZE_FORMAT " that a frame has.",
          where, self->leftover, self->row_size),
      ("the input was cut short, or its caps do not fit it"));
  self->obsolete += self->leftover;
  self->leftover = 0;
}

static gboolean
gst_mimi_parse_start (GstBaseParse *parse)
{
  GstMimiParse *self = GST_MIMI_PARSE (parse);

  self->row_size = self->leftover = self->obsolete = 0;
  /* All that there is, be it less than a row: how much is left is reported. */
  gst_base_parse_set_min_frame_size (parse, 1);
  gst_base_parse_set_frame_rate (parse, 25, 2, 0, 0);
  return TRUE;
}

static gboolean
gst_mimi_parse_stop (GstBaseParse *parse)
{
  gst_clear_caps (&GST_MIMI_PARSE (parse)->refused);
  return TRUE;
}

/* What the caps leave open makes no difference to the size of a row; whether a
 * network can take them is for the decoder to say. */
static gboolean
gst_mimi_parse_set_sink_caps (GstBaseParse *parse, GstCaps *caps)
{
  static const MimiNetwork any = { 0 };
  GstMimiParse *self = GST_MIMI_PARSE (parse);
  MimiRows rows;
  GError *error = NULL;
  gsize row_size;
  gint64 bytes;
  gboolean set;

  if (!gst_mimi_caps_parse (
          caps, &any, GST_MIMI_NORMALIZED_AUTO, &rows, &error)) {
    /* Upstream sends refused caps again with whatever it has next. */
    if (self->refused != NULL && gst_caps_is_equal (self->refused, caps))
      g_error_free (error);
    else
      gst_mimi_post_error (GST_ELEMENT (self), error, "reading the caps");
    gst_caps_replace (&self->refused, caps);
    return FALSE;
  }
  gst_clear_caps (&self->refused);

  row_size = mimi_rows_get_size (&rows);
  if (row_size != self->row_size)
    drop_leftover (self, "where the caps changed");
  self->row_size = row_size;
  gst_base_parse_set_average_bitrate (parse, row_size * 8 * 25 / 2);

  if (gst_pad_peer_query_duration (
          GST_BASE_PARSE_SINK_PAD (parse), GST_FORMAT_BYTES, &bytes) &&
      bytes > 0)
    gst_base_parse_set_duration (
        parse, GST_FORMAT_TIME, bytes / row_size * FRAME_DURATION, 0);

  caps = gst_caps_copy (caps);
  gst_caps_set_simple (caps, "framerate", GST_TYPE_FRACTION, 25, 2, NULL);
  set = gst_pad_set_caps (GST_BASE_PARSE_SRC_PAD (parse), caps);
  gst_caps_unref (caps);
  return set;
}

static GstFlowReturn
gst_mimi_parse_handle_frame (
    GstBaseParse *parse, GstBaseParseFrame *frame, gint *skip)
{
  GstMimiParse *self = GST_MIMI_PARSE (parse);
  gsize size = gst_buffer_get_size (frame->buffer);

  if (self->row_size == 0) {
    GST_ELEMENT_ERROR (self, CORE, NEGOTIATION,
        ("The input does not say what it holds. Put its caps before mimiparse, "
         "such as audio/x-mimi,rate=24000,channels=1,codebooks=8."),
        ("data without caps"));
    return GST_FLOW_NOT_NEGOTIATED;
  }
  if (self->obsolete > 0) {
    *skip = MIN (self->obsolete, size);
    self->obsolete = 0;
    return GST_FLOW_OK;
  }
  if (size < self->row_size) {
    self->leftover = size;
    return GST_FLOW_OK;
  }
  self->leftover = 0;
  return gst_base_parse_finish_frame (parse, frame, self->row_size);
}

/* Exact, and to the beginning of a frame, so that a seek lands on one. */
static gboolean
gst_mimi_parse_convert (GstBaseParse *parse, GstFormat from, gint64 value,
    GstFormat to, gint64 *result)
{
  GstMimiParse *self = GST_MIMI_PARSE (parse);
  gsize row_size = self->row_size;

  if (row_size > 0 && value >= 0) {
    if (from == GST_FORMAT_TIME && to == GST_FORMAT_BYTES) {
      *result = value / FRAME_DURATION * row_size;
      return TRUE;
    }
    if (from == GST_FORMAT_BYTES && to == GST_FORMAT_TIME) {
      *result = value / row_size * FRAME_DURATION;
      return TRUE;
    }
  }
  return gst_base_parse_convert_default (parse, from, value, to, result);
}

static gboolean
gst_mimi_parse_sink_event (GstBaseParse *parse, GstEvent *event)
{
  GstMimiParse *self = GST_MIMI_PARSE (parse);

  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_EOS:
      drop_leftover (self, "at the end");
      break;
    case GST_EVENT_FLUSH_STOP:
      self->leftover = self->obsolete = 0;
      break;
    default:
      break;
  }
  return GST_BASE_PARSE_CLASS (gst_mimi_parse_parent_class)
      ->sink_event (parse, event);
}

/* The base class would put what comes after a gap behind the half row that came
 * before it. */
static GstFlowReturn
gst_mimi_parse_chain (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  GstMimiParse *self = GST_MIMI_PARSE (parent);

  if (GST_BUFFER_IS_DISCONT (buffer))
    drop_leftover (self, "at a gap");
  return self->base_chain (pad, parent, buffer);
}

/* Nothing but caps says how large a row is, and they come with what is pushed. */
static gboolean
gst_mimi_parse_activate (GstPad *pad, GstObject *parent)
{
  (void)parent;
  return gst_pad_activate_mode (pad, GST_PAD_MODE_PUSH, TRUE);
}

static void
gst_mimi_parse_class_init (GstMimiParseClass *klass)
{
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);
  GstBaseParseClass *parse_class = GST_BASE_PARSE_CLASS (klass);

  GST_DEBUG_CATEGORY_INIT (
      gst_mimi_parse_debug, "mimiparse", 0, "parser of Mimi latents and codes");

  parse_class->start = GST_DEBUG_FUNCPTR (gst_mimi_parse_start);
  parse_class->stop = GST_DEBUG_FUNCPTR (gst_mimi_parse_stop);
  parse_class->set_sink_caps = GST_DEBUG_FUNCPTR (gst_mimi_parse_set_sink_caps);
  parse_class->handle_frame = GST_DEBUG_FUNCPTR (gst_mimi_parse_handle_frame);
  parse_class->convert = GST_DEBUG_FUNCPTR (gst_mimi_parse_convert);
  parse_class->sink_event = GST_DEBUG_FUNCPTR (gst_mimi_parse_sink_event);

  gst_element_class_add_static_pad_template (
      element_class, &gst_mimi_sink_template);
  gst_element_class_add_static_pad_template (element_class, &src_template);
  gst_element_class_set_static_metadata (element_class, "Mimi parser",
      "Codec/Parser/Audio",
      "Cuts Mimi speech latents and codes into frames of 80 ms with timestamps",
      "The mimidec authors");
}

static void
gst_mimi_parse_init (GstMimiParse *self)
{
  GstPad *pad = GST_BASE_PARSE_SINK_PAD (self);

  self->base_chain = GST_PAD_CHAINFUNC (pad);
  gst_pad_set_chain_function (pad, gst_mimi_parse_chain);
  gst_pad_set_activate_function (pad, gst_mimi_parse_activate);
}
