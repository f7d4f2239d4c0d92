/* A backend that only takes notes, in the place of the CPU's.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "checkpoint.h"
#include "engine/decoder.h"

typedef struct {
  gint opened, open, slots; /* atomic */
  gulong delay;             /* of opening, microseconds */
  gboolean fails;           /* opening does */

  guint steps; /* calls, whatever number of items they had */
  MimiStepItem last;
  guint16 codes[MIMI_MAX_CODEBOOKS];
} Notes;

extern Notes notes;

/* A frame's samples are all the sum of its values[0] (or codes) and of the
 * number of frames since the state was zero, over 1024. The network overflows
 * beyond 1e30, and the device fails at 666. */
extern const MimiBackendOps notes_backend;

/* CPU, fp32 */
extern const MimiDecoderOptions notes_options;

MimiModel *notes_open_model (const gchar *path, const gchar *config);
MimiDecoder *notes_get_decoder (const gchar *path, const gchar *config);
