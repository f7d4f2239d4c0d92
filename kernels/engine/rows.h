/* From the caller's rows to what a backend takes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "backend.h"

G_BEGIN_DECLS

typedef enum {
  MIMI_ROW_GOOD,
  MIMI_ROW_EMPTY, /* "no token yet" */
  MIMI_ROW_BAD
} MimiRowState;

/* Whether `network` can take such rows; if so, what they are to a backend. */
gboolean mimi_rows_check (const MimiRows *rows, const MimiNetwork *network,
    MimiStepKind *kind, GError **error);

/* Converts one row, at any alignment, to `values` or `codes`. `reason` gets why
 * a row is bad. */
MimiRowState mimi_rows_read (const MimiRows *rows, const MimiNetwork *network,
    gconstpointer row, gfloat *values, guint16 *codes, gchar *reason,
    gsize reason_size);

G_END_DECLS
