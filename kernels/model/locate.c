/* From a path to the file or files that hold a checkpoint.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "locate.h"

gchar *
mimi_locate (
    const gchar *path, GPtrArray *files, GHashTable *entries, GError **error)
{
  gchar *name = g_file_test (path, G_FILE_TEST_IS_DIR)
                    ? g_build_filename (path, "model.safetensors", NULL)
                    : g_strdup (path);
  MimiFile *file = mimi_file_open (name, error);

  if (file) {
    g_ptr_array_add (files, file);
    if (mimi_safetensors_read (file, entries, error))
      return name;
  }
  g_free (name);
  return NULL;
}
