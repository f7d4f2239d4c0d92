/* Opening a checkpoint
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "gstmimiopen.h"

GST_DEBUG_CATEGORY_EXTERN (gst_mimi_dec_debug);
#define GST_CAT_DEFAULT gst_mimi_dec_debug

static MimiDecoder *
load (GstElement *element, const GstMimiSettings *settings, const gchar *path,
    GError **error)
{
  MimiModel *model = mimi_model_open (path, settings->config, error);
  MimiDecoder *decoder;
  MimiDecoderInfo info;

  if (model == NULL)
    return NULL;
  GST_INFO_OBJECT (element, "%s: %s", mimi_model_get_path (model),
      mimi_model_describe (model));
  if (mimi_model_get_warning (model) != NULL)
    GST_ELEMENT_WARNING (element, LIBRARY, SETTINGS,
        ("%s", mimi_model_get_warning (model)),
        ("set the property config to say what the checkpoint does not"));

  decoder = mimi_decoder_get (model, &settings->options, error);
  mimi_model_unref (model);
  if (decoder == NULL)
    return NULL;

  mimi_decoder_get_info (decoder, &info);
  GST_INFO_OBJECT (element,
      "decoding on %s (%s), weights %" G_GUINT64_FORMAT
      " bytes, state %" G_GUINT64_FORMAT " bytes%s%s",
      info.backend, info.device, info.weights_bytes, info.state_bytes,
      info.note != NULL ? ": " : "", info.note != NULL ? info.note : "");
  if (settings->options.precision != MIMI_PRECISION_FP32 &&
      g_str_equal (info.backend, "cpu"))
    GST_ELEMENT_WARNING (element, LIBRARY, SETTINGS,
        ("Decoding in fp32: only a GPU has another precision."),
        ("%s", info.note != NULL ? info.note : "the CPU was asked for"));
  return decoder;
}

MimiDecoder *
gst_mimi_open (
    GstElement *element, const GstMimiSettings *settings, GError **error)
{
  const gchar *path = settings->model;

  if (path == NULL)
    path = g_getenv ("MIMIDEC_MODEL");
  if (path == NULL || *path == '\0') {
    g_set_error (error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
        "No model is set. Set the property \"model\" or the environment "
        "variable MIMIDEC_MODEL to a checkpoint: a safetensors file or the "
        "folder that holds it, such as kyutai/pocket-tts-without-voice-cloning "
        "downloaded from huggingface.co, or pipelines/demo of mimidec's "
        "source.");
    return NULL;
  }
  return load (element, settings, path, error);
}
