/* Opening a checkpoint
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "gstmimidec.h"

G_BEGIN_DECLS

/* The decoder that `settings` ask for: of the property `model`, else of what
 * MIMIDEC_MODEL names. Takes as long as reading the weights does. Says on the
 * bus of `element` what the checkpoint left open, and what was asked for and is
 * not to be had on a CPU.
 *
 * Returns a reference, or NULL with `error` set (MIMI_ERROR or
 * GST_RESOURCE_ERROR_NOT_FOUND). */
MimiDecoder *gst_mimi_open (
    GstElement *element, const GstMimiSettings *settings, GError **error);

G_END_DECLS
