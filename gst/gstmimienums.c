/* The enumerations of mimidec's properties
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "gstmimienums.h"

#include "mimi.h"

static GType
register_enum (const gchar *name, const GEnumValue *values)
{
  GType type = g_enum_register_static (name, values);

  gst_type_mark_as_plugin_api (type, 0);
  return type;
}

GType
gst_mimi_normalized_get_type (void)
{
  static const GEnumValue values[] = {
    { GST_MIMI_NORMALIZED_AUTO,
        "Normalised when the checkpoint holds the statistics", "auto" },
    { GST_MIMI_NORMALIZED_YES, "Normalised: undo it with the statistics",
        "yes" },
    { GST_MIMI_NORMALIZED_NO, "Not normalised: decode them as they are", "no" },
    { 0, NULL, NULL }
  };
  static gsize type = 0;

  if (g_once_init_enter (&type))
    g_once_init_leave (&type, register_enum ("GstMimiNormalized", values));
  return type;
}

GType
gst_mimi_backend_get_type (void)
{
  static const GEnumValue values[] = {
    { MIMI_BACKEND_AUTO, "A usable NVIDIA GPU, else the CPU", "auto" },
    { MIMI_BACKEND_CUDA, "An NVIDIA GPU", "cuda" },
    { MIMI_BACKEND_CPU, "The CPU", "cpu" }, { 0, NULL, NULL }
  };
  static gsize type = 0;

  if (g_once_init_enter (&type))
    g_once_init_leave (&type, register_enum ("GstMimiBackend", values));
  return type;
}

GType
gst_mimi_precision_get_type (void)
{
  static const GEnumValue values[] = { { MIMI_PRECISION_FP32,
                                           "32-bit floats throughout", "fp32" },
    { MIMI_PRECISION_TF32, "convolutions in TF32, 60 dB (CUDA only)", "tf32" },
    { MIMI_PRECISION_BF16,
        "convolutions' weights in bfloat16, 40 dB (CUDA only)", "bf16" },
    { 0, NULL, NULL } };
  static gsize type = 0;

  if (g_once_init_enter (&type))
    g_once_init_leave (&type, register_enum ("GstMimiPrecision", values));
  return type;
}
