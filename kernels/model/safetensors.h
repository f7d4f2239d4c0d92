/* The container: names, types, shapes and places of a file's tensors.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The format: a little-endian 64-bit length, that many bytes of JSON, then the
 * data. The JSON maps names to { dtype, shape, data_offsets }, offsets being
 * relative to the data; "__metadata__" is ours to ignore.
 */
#pragma once

#include "file.h"

G_BEGIN_DECLS

/* Limits. Headers of large language models take a few hundred kilobytes. */
#define MIMI_MAX_HEADER (32u << 20) /* bytes */
#define MIMI_MAX_TENSORS 200000
#define MIMI_MAX_DIMS 8
#define MIMI_MAX_NAME 512 /* bytes; names end up in messages */
#define MIMI_MAX_DEPTH 8  /* of nesting; a header needs 3 */

typedef struct {
  gchar *name;
  gchar dtype[16]; /* as written: "F32", "BF16" ... */
  guint n_dims;
  guint64 shape[MIMI_MAX_DIMS];
  guint64 offset, size; /* bytes of the file */
  MimiFile *file;
} MimiEntry;

/* Adds the tensors of `file` to `entries` (names to MimiEntry, see
 * mimi_safetensors_new_table()). On an error, which names the file and where
 * possible the tensor, `entries` is to be thrown away.
 *
 * Every tensor lies inside the file, none overlaps another, none is there
 * twice, and the size of each agrees with its shape and dtype. Nothing but the
 * header is read. */
gboolean mimi_safetensors_read (
    MimiFile *file, GHashTable *entries, GError **error);

GHashTable *mimi_safetensors_new_table (void);

G_END_DECLS
