/* What mimidec takes and gives
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <gst/gst.h>

#include "gstmimienums.h"
#include "mimi.h"

G_BEGIN_DECLS

extern GstStaticPadTemplate gst_mimi_sink_template;
extern GstStaticPadTemplate gst_mimi_src_template;

/* Reads what the rows of a stream with these caps hold. `network` and
 * `normalized` answer what the caps leave open. Whether the network can take
 * such rows is for mimi_stream_set_rows() to say.
 *
 * Returns FALSE with `error` set (GST_CORE_ERROR_NEGOTIATION), naming the field
 * and what it may be. */
gboolean gst_mimi_caps_parse (const GstCaps *caps, const MimiNetwork *network,
    GstMimiNormalized normalized, MimiRows *rows, GError **error);

G_END_DECLS
