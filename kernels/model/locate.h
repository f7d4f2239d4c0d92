/* From a path to the file or files that hold a checkpoint.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "safetensors.h"

G_BEGIN_DECLS

/* Opens the safetensors file `path`, adds it to `files` and its tensors to
 * `entries`. If `path` is a folder: its model.safetensors if that holds a Mimi
 * decoder, else all shards of a *.safetensors.index.json, else the only
 * *.safetensors that has one. The root of a repository in Hugging Face's cache
 * stands for the snapshot of its main branch.
 *
 * Returns the first of the files (free it); NULL with `error` set:
 * MIMI_ERROR_NOT_FOUND if the folder has no such file, _WRONG_TYPE if there is
 * not one decoder in them, or what is wrong with the file. */
gchar *mimi_locate (
    const gchar *path, GPtrArray *files, GHashTable *entries, GError **error);

G_END_DECLS
