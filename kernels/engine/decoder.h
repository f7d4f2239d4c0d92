/* What a stream knows of its decoder.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "backend.h"

G_BEGIN_DECLS

struct _MimiDecoder {
  guint refs; /* of the registry's lock, as is all but streams */
  gchar *key; /* NULL: not shared */
  const MimiBackendOps *ops;
  gpointer backend;
  GError *error; /* why it could not be opened */
  gboolean opened;
  gboolean failed; /* its device failed: nobody else is to get it */

  MimiNetwork network;
  gchar *note;
  gint streams; /* atomic */
};

/* Gives the decoder to nobody else: its device has failed. */
void mimi_decoder_retire (MimiDecoder *decoder);

/* For tests: takes `ops` in the place of the CPU backend; NULL: no longer. */
void mimi_decoder_replace_backend (const MimiBackendOps *ops);

G_END_DECLS
