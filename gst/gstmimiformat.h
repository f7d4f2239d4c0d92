/* The format of the input, the format of the output, and their changes
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * All of it under the stream lock.
 */
#pragma once

#include "gstmimidec.h"

G_BEGIN_DECLS

/* Virtual functions of the base class. Where new caps mean something else than
 * those before, what is left of an unfinished frame is dropped and reported, and
 * the state starts from zero; caps that do not fit the model are refused with an
 * error, once. */
gboolean gst_mimi_dec_set_format (GstAudioDecoder *decoder, GstCaps *caps);
GstCaps *gst_mimi_dec_getcaps (GstAudioDecoder *decoder, GstCaps *filter);

/* Before a frame: downstream may have changed its mind about the format of the
 * samples. GST_FLOW_OK, or why nothing can be pushed. */
GstFlowReturn gst_mimi_dec_renegotiate (GstMimiDec *self);

/* Warns of the bytes of an unfinished frame, if there are any; `where` is the
 * place in the stream, for people. */
void gst_mimi_dec_report_leftover (GstMimiDec *self, const gchar *where);

G_END_DECLS
