/* A stream's state outside of its backend.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "../mimi.h"

G_BEGIN_DECLS

/* Where everything that a network remembers is, in floats, [time][channel],
 * oldest first: the same for all backends. A convolution's memory is its last
 * inputs, after ELU where it has one. Keys are rotated. What lies before the
 * start of the utterance is zero. */
typedef struct {
  gsize front;                /* [width]: of the upsampling */
  gsize first;                /* [first_kernel - 1][width] */
  gsize up[MIMI_MAX_STAGES];  /* [channels before] */
  gsize res[MIMI_MAX_STAGES]; /* [residual_kernel - 1][channels] */
  gsize last;                 /* [last_kernel - 1][channels] */
  gsize keys, values;         /* [layer][window - 1][width] */
  gsize length;
} MimiStateLayout;

void mimi_state_lay_out (MimiStateLayout *layout, const MimiNetwork *network);

/* The blob of mimi_stream_save(): a header of 128 bytes, then the floats. */
gsize mimi_state_blob_size (const MimiNetwork *network);
void mimi_state_blob_write_header (
    gpointer blob, const MimiNetwork *network, guint64 frames);
/* Checks header, size and values. */
gboolean mimi_state_blob_check (gconstpointer blob, gsize size,
    const MimiNetwork *network, guint64 *frames, GError **error);
gfloat *mimi_state_blob_get_values (gpointer blob);

G_END_DECLS
