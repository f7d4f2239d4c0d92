/* mimidec: the element
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

/**
 * SECTION:element-mimidec
 * @title: mimidec
 * @short_description: decodes Mimi speech latents and codes to PCM
 *
 * mimidec is the last stage of a neural speech synthesizer: it turns what a
 * language model of speech produces (one latent vector, or one row of codes,
 * for each 80 ms) into 24 kHz mono PCM, as it comes, with the network's state
 * kept from the first frame of an utterance to its last.
 *
 * ## Input
 *
 * * `audio/x-mimi-latent, rate=24000, channels=1, dims=32`: latents, `format`
 *   F32LE (default) or F16LE; `normalized` (boolean) says whether the
 *   checkpoint's statistics have still to be applied, see
 *   #GstMimiDec:normalized. `dims` may also be the network's width: vectors as
 *   they leave the quantizer.
 * * `audio/x-mimi, rate=24000, channels=1, codebooks=8`: codes, one row a
 *   frame, `format` U16LE (default), S32LE or S64LE. Fewer codebooks than the
 *   checkpoint has are fine. A row that holds "no token yet" (-1, or 65535 in
 *   U16LE) gives no audio and is counted.
 * * `other/tensors, num_tensors=1, types=float32, dimensions=32`: the same as
 *   NNStreamer writes it; float32 and float16 are latents; uint16, int32 and
 *   int64 are codes. `32:1:1:1` and `1:32:1` are the same as `32`.
 *
 * `framerate` is 25/2 or not there. A buffer may hold any number of frames, and
 * a frame may be spread over buffers. Up to eight of a buffer are decoded
 * together, which takes a GPU less time than one by one.
 *
 * ## Utterances
 *
 * The state starts from zero at STREAM_START, FLUSH_STOP and a buffer flagged
 * DISCONT, at the signal #GstMimiDec::reset and where the caps begin to mean
 * something else; nothing else touches it. The best mark between utterances is
 * DISCONT and a timestamp on the first buffer, and no timestamps on the others.
 *
 * A GAP is forwarded. It moves no timestamp and, unless
 * #GstMimiDec:reset-on-gap is set, changes no state; nothing is made up for what
 * is lost, whatever the property plc of the base class says. A frame needs
 * nothing that comes after it, so the element adds no latency.
 *
 * ## Bad input
 *
 * A frame that cannot be decoded (NaN, infinity, a code out of range) becomes
 * 80 ms of silence, the state starts from zero, and a warning is posted. An
 * unfinished frame at the end of the stream, at a DISCONT or at new caps is
 * dropped and reported by a warning.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 filesrc location=sentence-1.f32 ! audio/x-mimi-latent,rate=24000,channels=1,dims=32 ! mimidec model=mimi-demo.safetensors ! wavenc ! filesink location=sentence-1.wav
 * ]| Latents of a file to a WAV file.
 * |[
 * my-speech-model | gst-launch-1.0 fdsrc ! audio/x-mimi,rate=24000,channels=1,codebooks=8 ! mimidec model=mimi ! audioconvert ! audioresample ! autoaudiosink
 * ]| Codes of another process to the speaker.
 *
 * Since: 0.1
 */

#include "gstmimidec.h"

#include "gstmimicaps.h"
#include "gstmimierror.h"
#include "gstmimiformat.h"
#include "gstmimiframes.h"
#include "gstmimiopen.h"
#include "gstmimiproperties.h"

GST_DEBUG_CATEGORY (gst_mimi_dec_debug);
#define GST_CAT_DEFAULT gst_mimi_dec_debug

/* Half a frame: less is jitter of the sender, and following it would put
 * clicks between frames that belong together. */
#define TOLERANCE (40 * GST_MSECOND)

enum { SIGNAL_RESET, N_SIGNALS };

static guint signals[N_SIGNALS];

G_DEFINE_TYPE (GstMimiDec, gst_mimi_dec, GST_TYPE_AUDIO_DECODER);
GST_ELEMENT_REGISTER_DEFINE (
    mimidec, "mimidec", GST_RANK_PRIMARY, GST_TYPE_MIMI_DEC);

void
gst_mimi_dec_reset (GstMimiDec *self)
{
  GST_DEBUG_OBJECT (self, "the next frame starts from zero");
  g_atomic_int_set (&self->reset_pending, TRUE);
}

/* -------------------------------------------------------------- states --- */

static void
gst_mimi_dec_take_decoder (GstMimiDec *self, MimiDecoder *decoder)
{
  MimiDecoder *old;

  GST_OBJECT_LOCK (self);
  old = self->decoder;
  self->decoder = decoder;
  GST_OBJECT_UNLOCK (self);
  if (old != NULL)
    mimi_decoder_unref (old);
  if (old != decoder)
    gst_mimi_dec_notify_active_backend (self);
}

/* NULL -> READY: everything that takes long. */
static gboolean
gst_mimi_dec_open (GstAudioDecoder *decoder)
{
  GstMimiDec *self = GST_MIMI_DEC (decoder);
  GstMimiSettings settings;
  MimiDecoder *loaded;
  GError *error = NULL;

  GST_OBJECT_LOCK (self);
  gst_mimi_settings_copy (&settings, &self->settings);
  self->reopen = FALSE;
  GST_OBJECT_UNLOCK (self);

  loaded = gst_mimi_open (GST_ELEMENT (self), &settings, &error);
  gst_mimi_settings_clear (&settings);
  if (loaded == NULL) {
    gst_mimi_post_error (GST_ELEMENT (self), error, "opening the model");
    return FALSE;
  }
  gst_mimi_dec_take_decoder (self, loaded);
  return TRUE;
}

static gboolean
gst_mimi_dec_close (GstAudioDecoder *decoder)
{
  gst_mimi_dec_take_decoder (GST_MIMI_DEC (decoder), NULL);
  return TRUE;
}

/* Forgets the bytes and timestamps that wait for more input. */
static void
gst_mimi_dec_forget_input (GstMimiDec *self)
{
  self->leftover = 0;
  self->obsolete = 0;
  self->pending_pts = GST_CLOCK_TIME_NONE;
}

/* READY -> PAUSED: a state of our own. */
static gboolean
gst_mimi_dec_start (GstAudioDecoder *decoder)
{
  GstMimiDec *self = GST_MIMI_DEC (decoder);
  MimiStream *stream;
  GError *error = NULL;
  gboolean reopen;
  guint threads;

  /* The base class has just cleared these; set in init() they would be lost.
   * Mimi is causal: a frame needs nothing that comes after it. */
  gst_audio_decoder_set_estimate_rate (decoder, TRUE);
  gst_audio_decoder_set_plc_aware (decoder, FALSE);
  gst_audio_decoder_set_latency (decoder, 0, 0);

  GST_OBJECT_LOCK (self);
  reopen = self->reopen;
  threads = self->settings.threads;
  GST_OBJECT_UNLOCK (self);
  if (reopen && !gst_mimi_dec_open (decoder))
    return FALSE;

  stream = mimi_stream_new (self->decoder, threads, &error);
  if (stream == NULL) {
    gst_mimi_post_error (GST_ELEMENT (self), error, "making a stream");
    return FALSE;
  }
  gst_mimi_dec_forget_input (self);
  self->row_size = 0;
  self->fresh = TRUE;
  g_atomic_int_set (&self->reset_pending, FALSE);
  GST_OBJECT_LOCK (self);
  self->stream = stream;
  GST_OBJECT_UNLOCK (self);
  return TRUE;
}

static gboolean
gst_mimi_dec_stop (GstAudioDecoder *decoder)
{
  GstMimiDec *self = GST_MIMI_DEC (decoder);
  MimiStream *stream;

  GST_OBJECT_LOCK (self);
  stream = self->stream;
  self->stream = NULL;
  if (stream != NULL)
    mimi_stream_get_stats (stream, &self->stats);
  GST_OBJECT_UNLOCK (self);
  g_clear_pointer (&stream, mimi_stream_free);
  gst_clear_caps (&self->refused);
  return TRUE;
}

/* -------------------------------------------------------------- events --- */

/* DISCONT and FLUSH_STOP; the base class leaves it out before the first
 * output, when there is no state yet. */
static void
gst_mimi_dec_flush (GstAudioDecoder *decoder, gboolean hard)
{
  GstMimiDec *self = GST_MIMI_DEC (decoder);

  GST_DEBUG_OBJECT (self, "%s", hard ? "flush" : "new utterance");
  gst_mimi_dec_forget_input (self);
  gst_mimi_dec_reset (self);
}

/* The segment of a file or a pipe counts bytes. In time they follow what came
 * before them, whatever their number: the base class would estimate that, and
 * clip what its estimate says was earlier. */
static GstEvent *
gst_mimi_dec_take_segment (GstMimiDec *self, GstEvent *event)
{
  const GstSegment *bytes;
  GstSegment segment;
  GstEvent *timed;

  gst_event_parse_segment (event, &bytes);
  self->untimed = bytes->format == GST_FORMAT_BYTES;
  if (!self->untimed)
    return event;

  gst_segment_init (&segment, GST_FORMAT_TIME);
  segment.flags = bytes->flags;
  segment.rate = bytes->rate;
  segment.applied_rate = bytes->applied_rate;
  timed = gst_event_new_segment (&segment);
  gst_event_set_seqnum (timed, gst_event_get_seqnum (event));
  gst_event_unref (event);
  return timed;
}

/* Sources of bytes stamp their first buffer with 0 and mean nothing by it: it may
 * be the second file of several. The base class would go back to 0. */
static GstFlowReturn
gst_mimi_dec_chain (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  GstMimiDec *self = GST_MIMI_DEC (parent);

  if (self->untimed && GST_BUFFER_PTS (buffer) == 0) {
    buffer = gst_buffer_make_writable (buffer);
    GST_BUFFER_PTS (buffer) = GST_CLOCK_TIME_NONE;
  }
  return self->base_chain (pad, parent, buffer);
}

static gboolean
gst_mimi_dec_sink_event (GstAudioDecoder *decoder, GstEvent *event)
{
  GstMimiDec *self = GST_MIMI_DEC (decoder);
  GstEventType type = GST_EVENT_TYPE (event);
  gboolean handled, reset_on_gap;

  if (type == GST_EVENT_SEGMENT)
    event = gst_mimi_dec_take_segment (self, event);
  /* First the old utterance is drained, then its state forgotten. */
  handled = GST_AUDIO_DECODER_CLASS (gst_mimi_dec_parent_class)
                ->sink_event (decoder, event);
  switch (type) {
    case GST_EVENT_STREAM_START:
    case GST_EVENT_FLUSH_STOP:
      GST_AUDIO_DECODER_STREAM_LOCK (self);
      gst_mimi_dec_flush (decoder, type == GST_EVENT_FLUSH_STOP);
      GST_AUDIO_DECODER_STREAM_UNLOCK (self);
      break;
    case GST_EVENT_GAP:
      GST_OBJECT_LOCK (self);
      reset_on_gap = self->settings.reset_on_gap;
      GST_OBJECT_UNLOCK (self);
      if (reset_on_gap)
        gst_mimi_dec_reset (self);
      break;
    default:
      break;
  }
  return handled;
}

/* The base class's estimate of a byte position does not know about frames and
 * lands elsewhere than it says; only the beginning is safe. */
static gboolean
gst_mimi_dec_src_event (GstAudioDecoder *decoder, GstEvent *event)
{
  if (GST_EVENT_TYPE (event) == GST_EVENT_SEEK) {
    GstSeekType type;
    gint64 start;

    gst_event_parse_seek (event, NULL, NULL, NULL, &type, &start, NULL, NULL);
    if (type != GST_SEEK_TYPE_SET || start != 0)
      return gst_pad_push_event (GST_AUDIO_DECODER_SINK_PAD (decoder), event);
  }
  return GST_AUDIO_DECODER_CLASS (gst_mimi_dec_parent_class)
      ->src_event (decoder, event);
}

/* --------------------------------------------------------------- class --- */

static void
gst_mimi_dec_finalize (GObject *object)
{
  gst_mimi_settings_clear (&GST_MIMI_DEC (object)->settings);
  G_OBJECT_CLASS (gst_mimi_dec_parent_class)->finalize (object);
}

static void
gst_mimi_dec_class_init (GstMimiDecClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);
  GstAudioDecoderClass *decoder_class = GST_AUDIO_DECODER_CLASS (klass);

  GST_DEBUG_CATEGORY_INIT (
      gst_mimi_dec_debug, "mimidec", 0, "decoder of Mimi latents and codes");

  object_class->finalize = gst_mimi_dec_finalize;
  gst_mimi_dec_install_properties (object_class);

  /**
   * GstMimiDec::reset:
   * @mimidec: the element
   *
   * The next frame that is decoded starts a new utterance: from zero state,
   * with a fade-in. From any thread, in any state; timestamps go on.
   *
   * Since: 0.1
   */
  signals[SIGNAL_RESET] = g_signal_new_class_handler ("reset",
      G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION,
      G_CALLBACK (gst_mimi_dec_reset), NULL, NULL, NULL, G_TYPE_NONE, 0);

  decoder_class->open = GST_DEBUG_FUNCPTR (gst_mimi_dec_open);
  decoder_class->close = GST_DEBUG_FUNCPTR (gst_mimi_dec_close);
  decoder_class->start = GST_DEBUG_FUNCPTR (gst_mimi_dec_start);
  decoder_class->stop = GST_DEBUG_FUNCPTR (gst_mimi_dec_stop);
  decoder_class->set_format = GST_DEBUG_FUNCPTR (gst_mimi_dec_set_format);
  decoder_class->getcaps = GST_DEBUG_FUNCPTR (gst_mimi_dec_getcaps);
  decoder_class->parse = GST_DEBUG_FUNCPTR (gst_mimi_dec_parse);
  decoder_class->handle_frame = GST_DEBUG_FUNCPTR (gst_mimi_dec_handle_frame);
  decoder_class->flush = GST_DEBUG_FUNCPTR (gst_mimi_dec_flush);
  decoder_class->sink_event = GST_DEBUG_FUNCPTR (gst_mimi_dec_sink_event);
  decoder_class->src_event = GST_DEBUG_FUNCPTR (gst_mimi_dec_src_event);

  gst_element_class_add_static_pad_template (
      element_class, &gst_mimi_sink_template);
  gst_element_class_add_static_pad_template (
      element_class, &gst_mimi_src_template);
  gst_element_class_set_static_metadata (element_class, "Mimi decoder",
      "Codec/Decoder/Audio",
      "Decodes Mimi speech latents (Pocket TTS) and codes (Moshi, CSM) to "
      "24 kHz PCM, on the CPU or an NVIDIA GPU. Caps may also have format "
      "(latents: F32LE, F16LE; codes: U16LE, S32LE, S64LE; the first is meant "
      "where it is missing), framerate (25/2), normalized (boolean, latents), "
      "codebook-size, and dimensions (tensors, innermost first as in 32:1:1:1)",
      "The mimidec authors");
}

static void
gst_mimi_dec_init (GstMimiDec *self)
{
  GstAudioDecoder *decoder = GST_AUDIO_DECODER (self);

  gst_mimi_settings_init (&self->settings);
  gst_mimi_dec_forget_input (self);
  self->base_chain = GST_PAD_CHAINFUNC (GST_AUDIO_DECODER_SINK_PAD (decoder));
  gst_pad_set_chain_function (
      GST_AUDIO_DECODER_SINK_PAD (decoder), gst_mimi_dec_chain);

  /* Not set_needs_format(): its error does not say what to do, ours does. */
  gst_audio_decoder_set_tolerance (decoder, TOLERANCE);
  /* Fields that the template does not name may be there or not. */
  gst_audio_decoder_set_use_default_pad_acceptcaps (decoder, TRUE);
  GST_PAD_SET_ACCEPT_TEMPLATE (GST_AUDIO_DECODER_SINK_PAD (decoder));
  GST_PAD_SET_ACCEPT_INTERSECT (GST_AUDIO_DECODER_SINK_PAD (decoder));
}
