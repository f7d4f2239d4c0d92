/* The properties of mimidec
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "gstmimiproperties.h"

#define DEFAULT_BACKEND MIMI_BACKEND_AUTO
#define DEFAULT_CUDA_DEVICE_ID -1
#define DEFAULT_PRECISION MIMI_PRECISION_FP32
#define DEFAULT_THREADS 1
#define MAX_THREADS 64
#define DEFAULT_NORMALIZED GST_MIMI_NORMALIZED_AUTO
#define DEFAULT_FADE_IN (5 * GST_MSECOND)
#define DEFAULT_RESET_ON_GAP FALSE

enum {
  PROP_0,
  PROP_MODEL,
  PROP_CONFIG,
  PROP_BACKEND,
  PROP_ACTIVE_BACKEND,
  PROP_CUDA_DEVICE_ID,
  PROP_PRECISION,
  PROP_THREADS,
  PROP_NORMALIZED,
  PROP_FADE_IN,
  PROP_RESET_ON_GAP,
  PROP_STATS,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

/* ------------------------------------------------------------ settings --- */

void
gst_mimi_settings_init (GstMimiSettings *settings)
{
  *settings = (GstMimiSettings){
    .options = { .backend = DEFAULT_BACKEND,
        .cuda_device = DEFAULT_CUDA_DEVICE_ID,
        .precision = DEFAULT_PRECISION },
    .threads = DEFAULT_THREADS,
    .normalized = DEFAULT_NORMALIZED,
    .fade_in = DEFAULT_FADE_IN,
    .reset_on_gap = DEFAULT_RESET_ON_GAP,
  };
}

void
gst_mimi_settings_copy (GstMimiSettings *to, const GstMimiSettings *from)
{
  *to = *from;
  to->model = g_strdup (from->model);
  to->config = g_strdup (from->config);
}

void
gst_mimi_settings_clear (GstMimiSettings *settings)
{
  g_clear_pointer (&settings->model, g_free);
  g_clear_pointer (&settings->config, g_free);
}

/* --------------------------------------------------------------- stats --- */

static MimiDecoder *
ref_decoder (GstMimiDec *self)
{
  MimiDecoder *decoder = NULL;

  GST_OBJECT_LOCK (self);
  if (self->decoder != NULL)
    decoder = mimi_decoder_ref (self->decoder);
  GST_OBJECT_UNLOCK (self);
  return decoder;
}

static gchar *
get_active_backend (GstMimiDec *self)
{
  MimiDecoder *decoder = ref_decoder (self);
  MimiDecoderInfo info;

  if (decoder == NULL)
    return NULL;
  mimi_decoder_get_info (decoder, &info);
  mimi_decoder_unref (decoder);
  return g_strdup (info.backend);
}

static GstStructure *
get_stats (GstMimiDec *self)
{
  MimiDecoder *decoder = ref_decoder (self);
  MimiDecoderInfo info = { 0 };
  MimiStreamStats stats;
  GstStructure *s;

  GST_OBJECT_LOCK (self);
  if (self->stream != NULL)
    mimi_stream_get_stats (self->stream, &stats);
  else
    stats = self->stats;
  GST_OBJECT_UNLOCK (self);
  if (decoder != NULL)
    mimi_decoder_get_info (decoder, &info);

  s = gst_structure_new ("application/x-mimidec-stats", "frames", G_TYPE_UINT64,
      stats.frames, "resets", G_TYPE_UINT64, stats.resets, "concealed",
      G_TYPE_UINT64, stats.concealed, "skipped", G_TYPE_UINT64, stats.skipped,
      "decode-time-median", G_TYPE_UINT64, stats.median_ns, "decode-time-p99",
      G_TYPE_UINT64, stats.p99_ns, "decode-time-max", G_TYPE_UINT64,
      stats.max_ns, "state-bytes", G_TYPE_UINT64, info.state_bytes,
      "weights-bytes", G_TYPE_UINT64, info.weights_bytes, "shared",
      G_TYPE_BOOLEAN, info.streams > 1, "streams", G_TYPE_UINT, info.streams,
      "backend", G_TYPE_STRING, info.backend, "device", G_TYPE_STRING,
      info.device, NULL);
  if (decoder != NULL)
    mimi_decoder_unref (decoder);
  return s;
}

/* -------------------------------------------------------- set and get --- */

static void
gst_mimi_dec_set_property (
    GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  GstMimiDec *self = GST_MIMI_DEC (object);
  GstMimiSettings *settings = &self->settings;

  GST_OBJECT_LOCK (self);
  switch (id) {
    case PROP_MODEL:
      g_free (settings->model);
      settings->model = g_value_dup_string (value);
      self->reopen = TRUE;
      break;
    case PROP_CONFIG:
      g_free (settings->config);
      settings->config = g_value_dup_string (value);
      self->reopen = TRUE;
      break;
    case PROP_BACKEND:
      settings->options.backend = g_value_get_enum (value);
      self->reopen = TRUE;
      break;
    case PROP_CUDA_DEVICE_ID:
      settings->options.cuda_device = g_value_get_int (value);
      self->reopen = TRUE;
      break;
    case PROP_PRECISION:
      settings->options.precision = g_value_get_enum (value);
      self->reopen = TRUE;
      break;
    case PROP_THREADS:
      settings->threads = g_value_get_uint (value);
      break;
    case PROP_NORMALIZED:
      settings->normalized = g_value_get_enum (value);
      break;
    case PROP_FADE_IN:
      settings->fade_in = g_value_get_uint64 (value);
      break;
    case PROP_RESET_ON_GAP:
      settings->reset_on_gap = g_value_get_boolean (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK (self);
}

static void
gst_mimi_dec_get_property (
    GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  GstMimiDec *self = GST_MIMI_DEC (object);
  const GstMimiSettings *settings = &self->settings;

  switch (id) {
    case PROP_ACTIVE_BACKEND:
      g_value_take_string (value, get_active_backend (self));
      return;
    case PROP_STATS:
      g_value_take_boxed (value, get_stats (self));
      return;
    default:
      break;
  }

  GST_OBJECT_LOCK (self);
  switch (id) {
    case PROP_MODEL:
      g_value_set_string (value, settings->model);
      break;
    case PROP_CONFIG:
      g_value_set_string (value, settings->config);
      break;
    case PROP_BACKEND:
      g_value_set_enum (value, settings->options.backend);
      break;
    case PROP_CUDA_DEVICE_ID:
      g_value_set_int (value, settings->options.cuda_device);
      break;
    case PROP_PRECISION:
      g_value_set_enum (value, settings->options.precision);
      break;
    case PROP_THREADS:
      g_value_set_uint (value, settings->threads);
      break;
    case PROP_NORMALIZED:
      g_value_set_enum (value, settings->normalized);
      break;
    case PROP_FADE_IN:
      g_value_set_uint64 (value, settings->fade_in);
      break;
    case PROP_RESET_ON_GAP:
      g_value_set_boolean (value, settings->reset_on_gap);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK (self);
}

void
gst_mimi_dec_notify_active_backend (GstMimiDec *self)
{
  g_object_notify_by_pspec (G_OBJECT (self), props[PROP_ACTIVE_BACKEND]);
}

/* ------------------------------------------------------- installation --- */

void
gst_mimi_dec_install_properties (GObjectClass *klass)
{
  const GParamFlags live =
      G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;
  const GParamFlags ready =
      G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;
  const GParamFlags read = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  klass->set_property = gst_mimi_dec_set_property;
  klass->get_property = gst_mimi_dec_get_property;

  /**
   * GstMimiDec:model:
   *
   * The checkpoint: a safetensors file, or a folder that holds one (the links
   * of a Hugging Face cache are followed). %NULL stands for what the
   * environment variable `MIMIDEC_MODEL` names. Pocket TTS, transformers,
   * Phonon, Moshi and CSM layouts are told apart by their tensors; only the
   * decoder's tensors are read.
   *
   * Loaded between NULL and READY. A change in PAUSED or PLAYING is kept and
   * takes effect when the element leaves READY the next time; so do changes of
   * the properties config, backend, cuda-device-id and precision.
   *
   * Since: 0.1
   */
  props[PROP_MODEL] = g_param_spec_string ("model", "Model",
      "Checkpoint: a safetensors file or the folder that holds one, such as "
      "kyutai/pocket-tts-without-voice-cloning from huggingface.co "
      "(NULL = the environment variable MIMIDEC_MODEL)",
      NULL, ready);

  /**
   * GstMimiDec:config:
   *
   * What the shapes of the tensors cannot say (number of heads, attention
   * window, form of GELU): a `config.json` or a Pocket TTS YAML. %NULL looks
   * for one beside the checkpoint, then in a table of the published decoders.
   *
   * Since: 0.1
   */
  props[PROP_CONFIG] = g_param_spec_string ("config", "Config",
      "config.json or Pocket TTS YAML that says what the checkpoint does not: "
      "heads, attention window, form of GELU "
      "(NULL = look beside the checkpoint, then in a table of known ones)",
      NULL, ready);

  /**
   * GstMimiDec:backend:
   *
   * Where to decode. `auto` takes a usable NVIDIA GPU and else the CPU;
   * `cuda` fails where there is none. See #GstMimiDec:active-backend for what
   * it became.
   *
   * Since: 0.1
   */
  props[PROP_BACKEND] = g_param_spec_enum ("backend", "Backend",
      "Where to decode; active-backend says what it became",
      GST_TYPE_MIMI_BACKEND, DEFAULT_BACKEND, ready);

  /**
   * GstMimiDec:active-backend:
   *
   * What decodes: `cpu` or `cuda`; %NULL below READY.
   *
   * Since: 0.1
   */
  props[PROP_ACTIVE_BACKEND] =
      g_param_spec_string ("active-backend", "Active backend",
          "What decodes: cpu or cuda (NULL = not open)", NULL, read);

  /**
   * GstMimiDec:cuda-device-id:
   *
   * The GPU to use, counted as CUDA does; -1 takes the first usable one.
   *
   * Since: 0.1
   */
  props[PROP_CUDA_DEVICE_ID] = g_param_spec_int ("cuda-device-id",
      "CUDA device", "GPU to decode on (-1 = the first usable one)", -1,
      G_MAXINT, DEFAULT_CUDA_DEVICE_ID, ready);

  /**
   * GstMimiDec:precision:
   *
   * The arithmetic of the matrix products on a GPU. The CPU has only `fp32`:
   * `backend=cpu` refuses the others, `auto` decodes in `fp32` with a warning
   * where there is no GPU. State, softmax and normalisations are 32-bit floats
   * in each of them.
   *
   * Since: 0.1
   */
  props[PROP_PRECISION] = g_param_spec_enum ("precision", "Precision",
      "Arithmetic of the matrix products (the CPU has only fp32)",
      GST_TYPE_MIMI_PRECISION, DEFAULT_PRECISION, ready);

  /**
   * GstMimiDec:threads:
   *
   * CPU threads that share the work of one frame; 0 is 1. The PCM does not
   * depend on it. Takes effect between READY and PAUSED.
   *
   * Since: 0.1
   */
  props[PROP_THREADS] = g_param_spec_uint ("threads", "Threads",
      "CPU threads that share the work of a frame (0 = 1)", 0, MAX_THREADS,
      DEFAULT_THREADS, ready);

  /**
   * GstMimiDec:normalized:
   *
   * Whether latents whose caps have no `normalized` field are normalised, that
   * is, whether they must be multiplied by the checkpoint's `emb_std` and
   * shifted by its `emb_mean` first. `auto`: yes when the checkpoint holds
   * these. Takes effect with the next caps.
   *
   * Since: 0.1
   */
  props[PROP_NORMALIZED] = g_param_spec_enum ("normalized", "Normalized",
      "Whether latents whose caps have no field normalized are to be "
      "multiplied by the checkpoint's emb_std and shifted by its emb_mean",
      GST_TYPE_MIMI_NORMALIZED, DEFAULT_NORMALIZED, ready);

  /**
   * GstMimiDec:fade-in:
   *
   * Every utterance starts from an empty state, which can click. The first
   * nanoseconds of each are faded in, as Pocket TTS does; 0 gives exactly what
   * the network computes. A change takes effect at the next fresh state.
   *
   * Since: 0.1
   */
  props[PROP_FADE_IN] = g_param_spec_uint64 ("fade-in", "Fade-in",
      "Nanoseconds faded in after every fresh state (0 = the exact output)", 0,
      10 * GST_SECOND, DEFAULT_FADE_IN, live);

  /**
   * GstMimiDec:reset-on-gap:
   *
   * A GAP event is forwarded and changes nothing by default: a pause inside an
   * utterance, or a lost packet, is not the end of it. Where GAP is all that
   * separates two utterances, this makes the next frame start from zero.
   *
   * Since: 0.1
   */
  props[PROP_RESET_ON_GAP] = g_param_spec_boolean ("reset-on-gap",
      "Reset on gap", "Start from an empty state after a GAP event",
      DEFAULT_RESET_ON_GAP, live);

  /**
   * GstMimiDec:stats:
   *
   * #GstStructure `application/x-mimidec-stats`, counted since the element
   * went to PAUSED:
   *
   * * #guint64 `frames`: frames of PCM given, silent ones included
   * * #guint64 `resets`: times that the state was set to zero
   * * #guint64 `concealed`: frames of silence in the place of bad input
   * * #guint64 `skipped`: rows of codes that said "no token yet"
   * * #guint64 `decode-time-median`, `decode-time-p99`, `decode-time-max`:
   *   nanoseconds spent on a frame
   * * #guint64 `state-bytes`: memory of this stream
   * * #guint64 `weights-bytes`: memory of the weights, once for all streams
   * * #gboolean `shared`: other streams use the same weights now
   * * #guint `streams`: streams that use the weights now
   * * #gchararray `backend`, `device`: what decodes
   *
   * Since: 0.1
   */
  props[PROP_STATS] = g_param_spec_boxed ("stats", "Stats",
      "Counters and decode times in nanoseconds since the element went to "
      "PAUSED (application/x-mimidec-stats)",
      GST_TYPE_STRUCTURE, read);

  g_object_class_install_properties (klass, N_PROPS, props);
}
