/* mimidec: the element
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <gst/audio/gstaudiodecoder.h>

#include "gstmimienums.h"
#include "mimi.h"

G_BEGIN_DECLS

#define GST_TYPE_MIMI_DEC (gst_mimi_dec_get_type ())
G_DECLARE_FINAL_TYPE (GstMimiDec, gst_mimi_dec, GST, MIMI_DEC, GstAudioDecoder)

/* What the properties say. */
typedef struct {
  gchar *model, *config;
  MimiDecoderOptions options;
  guint threads;
  GstMimiNormalized normalized;
  GstClockTime fade_in;
  gboolean reset_on_gap;
} GstMimiSettings;

struct _GstMimiDec {
  GstAudioDecoder parent;
  GstPadChainFunction base_chain; /* of the parent's sink pad */

  /* Under the object lock: any thread may read or write properties. */
  GstMimiSettings settings;
  gboolean reopen;       /* what `decoder` was made from has changed since */
  MimiDecoder *decoder;  /* from READY on */
  MimiStream *stream;    /* from PAUSED on; decoding takes no lock */
  MimiStreamStats stats; /* of the last stream, when there is none */

  /* Set by any thread, atomically: the next frame starts from zero. */
  gint reset_pending;

  /* Of the streaming thread, under the stream lock. */
  MimiRows rows;
  gsize row_size;   /* bytes; 0 before caps */
  GstCaps *refused; /* an error was posted about these */
  gsize sample_size;
  gboolean fresh;   /* no frame yet since the state is zero */
  gsize leftover;   /* bytes of an unfinished frame, waiting for the rest */
  gsize obsolete;   /* of these, in front, from before the caps changed */
  gboolean untimed; /* the segment counts bytes */
  GstClockTime pending_pts; /* of input that gave no output yet */
};

/* The next frame starts from zero. From any thread. */
void gst_mimi_dec_reset (GstMimiDec *self);

GST_ELEMENT_REGISTER_DECLARE (mimidec);

G_END_DECLS
