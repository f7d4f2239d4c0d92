/* Frames: bytes to rows, rows to PCM
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * All of it under the stream lock.
 */
#pragma once

#include "gstmimidec.h"

G_BEGIN_DECLS

/* Virtual functions of the base class. Whole rows are taken together, as many as
 * there are up to a limit; what is left waits for more, and is reported where
 * none will come. */
GstFlowReturn gst_mimi_dec_parse (
    GstAudioDecoder *decoder, GstAdapter *adapter, gint *offset, gint *length);

/* `in` is whole rows, or NULL to drain. Pushes as many frames of PCM, without
 * those of rows that say "no token yet"; silence and a warning take the place of
 * a row that cannot be decoded. An error only when the device fails, memory runs
 * out, or more bad rows follow each other than the property max-errors allows. */
GstFlowReturn gst_mimi_dec_handle_frame (
    GstAudioDecoder *decoder, GstBuffer *in);

G_END_DECLS
