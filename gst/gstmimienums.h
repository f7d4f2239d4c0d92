/* The enumerations of mimidec's properties
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

/**
 * GstMimiNormalized:
 * @GST_MIMI_NORMALIZED_AUTO: normalised when the checkpoint holds the
 *     statistics to undo it
 * @GST_MIMI_NORMALIZED_YES: normalised
 * @GST_MIMI_NORMALIZED_NO: as they are
 *
 * What latents are whose caps do not say.
 *
 * Since: 0.1
 */
typedef enum {
  GST_MIMI_NORMALIZED_AUTO,
  GST_MIMI_NORMALIZED_YES,
  GST_MIMI_NORMALIZED_NO
} GstMimiNormalized;

#define GST_TYPE_MIMI_NORMALIZED (gst_mimi_normalized_get_type ())
#define GST_TYPE_MIMI_BACKEND (gst_mimi_backend_get_type ())
#define GST_TYPE_MIMI_PRECISION (gst_mimi_precision_get_type ())

GType gst_mimi_normalized_get_type (void);
/* The values of MimiBackend and MimiPrecision. */
GType gst_mimi_backend_get_type (void);
GType gst_mimi_precision_get_type (void);

G_END_DECLS
