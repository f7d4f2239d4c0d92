/* Errors of the decoder as errors of GStreamer
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

/* Posts `error`, of MIMI_ERROR or of one of GStreamer's domains, as an error
 * message of `element`; `context` says what was being done. Takes `error`. */
void gst_mimi_post_error (
    GstElement *element, GError *error, const gchar *context);

G_END_DECLS
