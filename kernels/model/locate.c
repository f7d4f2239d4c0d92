/* From a path to the file or files that hold a checkpoint.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "locate.h"
#include "config.h"
#include "json.h"
#include "layout.h"

#include <string.h>

#define MAX_FILES 256 /* looked at in a folder */

static gboolean
read_file (
    const gchar *path, GPtrArray *files, GHashTable *entries, GError **error)
{
  MimiFile *file = mimi_file_open (path, error);

  if (!file)
    return FALSE;
  g_ptr_array_add (files, file);
  return mimi_safetensors_read (file, entries, error);
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *)a, *(const gchar *const *)b);
}

/* The paths in `folder` that end with `suffix`, sorted; NULL with `error` set
 * if it cannot be listed. */
static GPtrArray *
list (const gchar *folder, const gchar *suffix, GError **error)
{
  GPtrArray *paths;
  GError *err = NULL;
  GDir *dir = g_dir_open (folder, 0, &err);
  const gchar *name;

  if (!dir) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_OPEN_READ,
        "%s: cannot be listed: %s", folder, err->message);
    g_error_free (err);
    return NULL;
  }
  paths = g_ptr_array_new_with_free_func (g_free);
  while ((name = g_dir_read_name (dir)) && paths->len < MAX_FILES) {
    if (g_str_has_suffix (name, suffix))
      g_ptr_array_add (paths, g_build_filename (folder, name, NULL));
  }
  g_dir_close (dir);
  g_ptr_array_sort (paths, compare_names);
  return paths;
}

/* Whether the file `path` holds a decoder; if not, `error` says why. */
static gboolean
has_decoder (const gchar *path, GError **error)
{
  GPtrArray *files =
      g_ptr_array_new_with_free_func ((GDestroyNotify)mimi_file_free);
  GHashTable *entries = mimi_safetensors_new_table ();
  MimiNames names = { .entries = entries, .path = path };
  gboolean ok = read_file (path, files, entries, error) &&
                mimi_names_detect (&names, error);

  mimi_names_clear (&names);
  g_hash_table_unref (entries);
  g_ptr_array_unref (files);
  return ok;
}

/* ------------------------------------------------------------- shards --- */

/* The names of the shards that the index `path` lists, as a set. */
static GHashTable *
read_index (const gchar *path)
{
  GHashTable *shards =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  MimiFile *file = mimi_file_open (path, NULL);
  gchar *text = NULL;
  JsonNode *root = NULL, *map = NULL;
  JsonObjectIter iter;
  JsonNode *shard;

  if (file && file->size <= MIMI_MAX_HEADER)
    text = mimi_file_read_all (file, NULL);
  if (text)
    root = mimi_json_parse (text, file->size, MIMI_MAX_CONFIG_DEPTH, NULL);
  if (root)
    map = json_object_get_member (json_node_get_object (root), "weight_map");
  if (map && JSON_NODE_HOLDS_OBJECT (map)) {
    json_object_iter_init (&iter, json_node_get_object (map));
    while (json_object_iter_next (&iter, NULL, &shard)) {
      const gchar *name =
          JSON_NODE_HOLDS_VALUE (shard) &&
                  json_node_get_value_type (shard) == G_TYPE_STRING
              ? json_node_get_string (shard)
              : "";

      if (*name && !strchr (name, '/') &&
          g_hash_table_size (shards) < MAX_FILES)
        g_hash_table_add (shards, g_strdup (name));
    }
  }
  g_clear_pointer (&root, json_node_unref);
  g_free (text);
  g_clear_pointer (&file, mimi_file_free);
  return shards;
}

/* Reads all shards of the index `path` that are there: those that are missing
 * may hold nothing of the decoder's. Returns the first; NULL if there is no
 * decoder in them or, with `error` set, if one is damaged. */
static gchar *
read_shards (const gchar *folder, const gchar *path, GPtrArray *files,
    GHashTable *entries, GError **error)
{
  GHashTable *shards = read_index (path);
  GList *names =
      g_list_sort (g_hash_table_get_keys (shards), (GCompareFunc)strcmp);
  MimiNames detected = { .entries = entries, .path = path };
  gchar *first = NULL;
  gboolean ok = TRUE;
  GList *l;

  for (l = names; l && ok; l = l->next) {
    gchar *shard = g_build_filename (folder, l->data, NULL);

    if (g_file_test (shard, G_FILE_TEST_EXISTS)) {
      ok = read_file (shard, files, entries, error);
      if (!first)
        first = g_strdup (shard);
    }
    g_free (shard);
  }
  if (!ok || !first || !mimi_names_detect (&detected, NULL))
    g_clear_pointer (&first, g_free);
  mimi_names_clear (&detected);
  g_list_free (names);
  g_hash_table_unref (shards);
  return first;
}

static gchar *
try_indices (
    const gchar *folder, GPtrArray *files, GHashTable *entries, GError **error)
{
  GPtrArray *indices = list (folder, ".safetensors.index.json", NULL);
  GError *err = NULL;
  gchar *found = NULL;
  guint i;

  for (i = 0; indices && i < indices->len && !found && !err; i++) {
    found = read_shards (
        folder, g_ptr_array_index (indices, i), files, entries, &err);
    if (!found) {
      g_hash_table_remove_all (entries);
      g_ptr_array_set_size (files, 0);
    }
  }
  g_clear_pointer (&indices, g_ptr_array_unref);
  if (err)
    g_propagate_error (error, err);
  return found;
}

/* ------------------------------------------------------------- folders --- */

/* Of `paths`, the only one with a decoder; NULL with `error` set if there is
 * not one, then saying what is wrong with the first. */
static gchar *
choose (const gchar *folder, GPtrArray *paths, GError **error)
{
  GString *all = g_string_new (NULL);
  GError *first = NULL;
  gchar *found = NULL;
  guint i, n = 0;

  for (i = 0; i < paths->len && all->len < 1000; i++) {
    const gchar *path = g_ptr_array_index (paths, i);

    if (!has_decoder (path, first ? NULL : &first))
      continue;
    g_string_append_printf (all, "%s%s", n ? ", " : "", path);
    if (n++ == 0)
      found = g_strdup (path);
  }
  if (n > 1) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_WRONG_TYPE,
        "%s: holds several Mimi decoders: name one of %s", folder, all->str);
    g_clear_pointer (&found, g_free);
  } else if (n == 0 && first) {
    g_propagate_error (error, g_steal_pointer (&first));
  } else if (n == 0) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NOT_FOUND,
        "%s: is a folder without a checkpoint: it has no *.safetensors",
        folder);
  }
  g_clear_error (&first);
  g_string_free (all, TRUE);
  return found;
}

static gchar *
locate_in_folder (
    const gchar *folder, GPtrArray *files, GHashTable *entries, GError **error)
{
  gchar *usual = g_build_filename (folder, "model.safetensors", NULL);
  gchar *found = NULL;
  GPtrArray *paths;
  GError *err = NULL;

  if (g_file_test (usual, G_FILE_TEST_EXISTS)) {
    if (has_decoder (usual, &err))
      found = g_strdup (usual);
    /* A damaged file is not passed over: it is the one that was meant. */
    else if (err->code == MIMI_ERROR_WRONG_TYPE)
      g_clear_error (&err);
  }
  g_free (usual);

  if (!found && !err) {
    found = try_indices (folder, files, entries, &err);
    if (found)
      return found;
  }
  if (!found && !err && (paths = list (folder, ".safetensors", &err))) {
    found = choose (folder, paths, &err);
    g_ptr_array_unref (paths);
  }
  if (found && !read_file (found, files, entries, &err))
    g_clear_pointer (&found, g_free);
  if (err)
    g_propagate_error (error, err);
  return found;
}

/* The folder of the main branch's files if `path` is the root of a repository
 * in Hugging Face's cache, else NULL. */
static gchar *
get_snapshot (const gchar *path)
{
  gchar *ref = g_build_filename (path, "refs", "main", NULL);
  gchar *folder = NULL, *commit = NULL;

  if (g_file_test (ref, G_FILE_TEST_IS_REGULAR) &&
      g_file_get_contents (ref, &commit, NULL, NULL)) {
    g_strstrip (commit);
    folder = g_build_filename (path, "snapshots", commit, NULL);
    if (strchr (commit, '/') || !g_file_test (folder, G_FILE_TEST_IS_DIR))
      g_clear_pointer (&folder, g_free);
  }
  g_free (commit);
  g_free (ref);
  return folder;
}

gchar *
mimi_locate (
    const gchar *path, GPtrArray *files, GHashTable *entries, GError **error)
{
  gchar *snapshot, *found;

  if (!g_file_test (path, G_FILE_TEST_IS_DIR))
    return read_file (path, files, entries, error) ? g_strdup (path) : NULL;

  snapshot = get_snapshot (path);
  found = locate_in_folder (snapshot ? snapshot : path, files, entries, error);
  g_free (snapshot);
  return found;
}
