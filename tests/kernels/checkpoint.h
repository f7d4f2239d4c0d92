/* Checkpoints that a test can damage, and walking over a model's weights.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "model/model.h"

#include <json-glib/json-glib.h>

/* A safetensors file in memory. */
typedef struct {
  JsonObject *header;
  GByteArray *data;
} Checkpoint;

/* The path of one of the checkpoints that the build made, or of another file
 * of the tests' data; free it. */
gchar *checkpoint_path (const gchar *name);

/* `name`: one that the build made, as "tiny-pocket". */
Checkpoint *checkpoint_load (const gchar *name);
void checkpoint_free (Checkpoint *c);

/* The description of a tensor: dtype, shape, data_offsets. */
JsonObject *checkpoint_get (Checkpoint *c, const gchar *tensor);
/* Its data. */
guint8 *checkpoint_get_data (Checkpoint *c, const gchar *tensor);
void checkpoint_set_shape (
    Checkpoint *c, const gchar *tensor, guint n_dims, const guint64 *shape);
/* Adds a tensor of zeros. */
void checkpoint_add (Checkpoint *c, const gchar *tensor, const gchar *dtype,
    guint64 elements, guint size);
void checkpoint_rename (Checkpoint *c, const gchar *from, const gchar *to);

/* The bytes of the file. */
GBytes *checkpoint_write (Checkpoint *c);
void checkpoint_save (Checkpoint *c, const gchar *path);

/* Opens its bytes under the name "test". */
MimiModel *checkpoint_open (Checkpoint *c, GError **error);

/* Fails the test unless opening fails with `code` and a message that begins
 * with "test: " and holds all of the NULL-terminated strings. */
void checkpoint_assert_bad (
    Checkpoint *c, gint code, ...) G_GNUC_NULL_TERMINATED;
/* The same for bytes that are no checkpoint any more. */
void bytes_assert_bad (
    gconstpointer data, gsize size, gint code, ...) G_GNUC_NULL_TERMINATED;
/* Checks and frees an error. */
void error_assert (GError *error, gint code, ...) G_GNUC_NULL_TERMINATED;

typedef void (*TensorFunc) (
    const gchar *what, const MimiTensor *tensor, gpointer user_data);
/* All tensors that the network has, in one fixed order. */
void weights_foreach (const MimiModel *model, TensorFunc func, gpointer data);

/* A new empty folder, and its removal with all that is in it. */
gchar *folder_new (void);
void folder_remove (gchar *folder);
void file_write (const gchar *folder, const gchar *name, const gchar *text);
