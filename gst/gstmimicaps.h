/* What mimidec takes and gives
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <gst/gst.h>

#include "gstmimienums.h"
#include "mimi.h"

G_BEGIN_DECLS

/* Only what a stream must say is in the template. Whatever has a default
 * (format, framerate, normalized, codebook-size, the dimensions of a tensor) is
 * checked by gst_mimi_caps_parse(), for two reasons: a field of the template
 * that is not a single value would have to be spelt out in every launch line,
 * since a capsfilter after filesrc has nothing else to fix it; and a wrong
 * value gets an error that says what is wrong, where a failed link would not.
 */
#define GST_MIMI_INPUT_CAPS \
  "audio/x-mimi-latent, rate = (int) 24000, channels = (int) 1, " \
  "dims = (int) [ 1, MAX ]; " \
  "audio/x-mimi, rate = (int) 24000, channels = (int) 1, " \
  "codebooks = (int) [ 1, 32 ]; " \
  "other/tensors, format = (string) static, num_tensors = (int) 1, " \
  "types = (string) { float32, float16, uint16, int32, int64 }"

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
