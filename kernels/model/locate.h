/* From a path to the file or files that hold a checkpoint.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "safetensors.h"

G_BEGIN_DECLS

/* Opens the safetensors file `path`, or the one in the folder `path` that holds
 * a Mimi decoder, adds it to `files` and its tensors to `entries`. Returns what
 * to call it in messages (free it), NULL with `error` set. */
gchar *mimi_locate (
    const gchar *path, GPtrArray *files, GHashTable *entries, GError **error);

G_END_DECLS
