/* The container: names, types, shapes and places of a file's tensors.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "safetensors.h"
#include "json.h"

#include <string.h>

#define U64 G_GUINT64_FORMAT

static const struct {
  const gchar *name;
  guint bits;
} dtypes[] = {
  { "F32", 32 },
  { "BF16", 16 },
  { "F16", 16 },
  { "F64", 64 },
  { "I8", 8 },
  { "U8", 8 },
  { "I16", 16 },
  { "U16", 16 },
  { "I32", 32 },
  { "U32", 32 },
  { "I64", 64 },
  { "U64", 64 },
  { "BOOL", 8 },
  { "F8_E4M3", 8 },
  { "F8_E5M2", 8 },
  { "F8_E8M0", 8 },
  { "F4", 4 },
  { "C64", 64 },
};

static gboolean G_GNUC_PRINTF (3, 4)
    corrupt (const MimiFile *file, GError **error, const gchar *format, ...)
{
  va_list args;
  gchar *message;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (
      error, MIMI_ERROR, MIMI_ERROR_CORRUPT, "%s: %s", file->path, message);
  g_free (message);
  return FALSE;
}

static void
free_entry (gpointer data)
{
  MimiEntry *entry = data;

  g_free (entry->name);
  g_free (entry);
}

GHashTable *
mimi_safetensors_new_table (void)
{
  /* The key is the entry's name. */
  return g_hash_table_new_full (g_str_hash, g_str_equal, NULL, free_entry);
}

/* --------------------------------------------------------- one tensor --- */

/* Non-negative integers of the array `member`: their number, or -1. */
static gint
get_integers (
    JsonObject *object, const gchar *member, guint64 *values, guint max)
{
  JsonNode *node = json_object_get_member (object, member);
  JsonArray *array;
  guint i, n;

  if (!node || !JSON_NODE_HOLDS_ARRAY (node))
    return -1;
  array = json_node_get_array (node);
  n = json_array_get_length (array);
  if (n > max)
    return -1;
  for (i = 0; i < n; i++) {
    JsonNode *element = json_array_get_element (array, i);

    if (!JSON_NODE_HOLDS_VALUE (element) ||
        json_node_get_value_type (element) != G_TYPE_INT64 ||
        json_node_get_int (element) < 0 ||
        /* what newer versions of json-glib make of a larger number */
        json_node_get_int (element) == G_MAXINT64)
      return -1;
    values[i] = json_node_get_int (element);
  }
  return n;
}

/* Fills in what the header says of `entry` and checks it against the file, whose
 * data begin at `begin`. */
static gboolean
read_entry (MimiEntry *entry, JsonNode *node, guint64 begin, GError **error)
{
  const MimiFile *file = entry->file;
  guint64 size = file->size - begin;
  JsonObject *object;
  JsonNode *dtype;
  guint64 offsets[2], elements = 1, bytes;
  gint n;
  guint i;

  if (!JSON_NODE_HOLDS_OBJECT (node))
    return corrupt (
        file, error, "tensor '%s' is not described by an object", entry->name);
  object = json_node_get_object (node);

  dtype = json_object_get_member (object, "dtype");
  if (!dtype || !JSON_NODE_HOLDS_VALUE (dtype) ||
      json_node_get_value_type (dtype) != G_TYPE_STRING)
    return corrupt (file, error, "tensor '%s' has no dtype", entry->name);
  if (g_strlcpy (entry->dtype, json_node_get_string (dtype),
          sizeof entry->dtype) >= sizeof entry->dtype)
    return corrupt (
        file, error, "tensor '%s' has a dtype that is none", entry->name);

  n = get_integers (object, "shape", entry->shape, MIMI_MAX_DIMS);
  if (n < 0)
    return corrupt (file, error,
        "tensor '%s': its shape is not a list of at most %d sizes", entry->name,
        MIMI_MAX_DIMS);
  entry->n_dims = n;
  for (i = 0; i < entry->n_dims; i++) {
    if (!g_uint64_checked_mul (&elements, elements, entry->shape[i]))
      return corrupt (file, error,
          "tensor '%s': the product of its shape overflows", entry->name);
  }

  if (get_integers (object, "data_offsets", offsets, 2) != 2)
    return corrupt (file, error,
        "tensor '%s': its data_offsets are not two offsets", entry->name);
  if (offsets[0] > offsets[1] || offsets[1] > size)
    return corrupt (file, error,
        "tensor '%s' lies at bytes %" U64 " to %" U64 " of %" U64
        " bytes of data; the file is truncated or damaged, download it again",
        entry->name, offsets[0], offsets[1], size);
  entry->offset = begin + offsets[0];
  entry->size = offsets[1] - offsets[0];

  for (i = 0; i < G_N_ELEMENTS (dtypes); i++) {
    if (strcmp (dtypes[i].name, entry->dtype) != 0)
      continue;
    if (!g_uint64_checked_mul (&bytes, elements, dtypes[i].bits) ||
        bytes / 8 != entry->size || bytes % 8 != 0)
      return corrupt (file, error,
          "tensor '%s' has %" U64 " bytes of data, which does not fit %" U64
          " elements of %s",
          entry->name, entry->size, elements, entry->dtype);
  }
  return TRUE;
}

/* -------------------------------------------------------------- a file --- */

static gint
compare_places (gconstpointer a, gconstpointer b)
{
  const MimiEntry *x = *(MimiEntry *const *)a, *y = *(MimiEntry *const *)b;

  if (x->offset != y->offset)
    return x->offset < y->offset ? -1 : 1;
  return x->size < y->size ? -1 : x->size > y->size;
}

static gboolean
check_overlap (const MimiFile *file, GPtrArray *places, GError **error)
{
  guint i;

  g_ptr_array_sort (places, compare_places);
  for (i = 1; i < places->len; i++) {
    const MimiEntry *a = g_ptr_array_index (places, i - 1);
    const MimiEntry *b = g_ptr_array_index (places, i);

    if (a->offset + a->size > b->offset)
      return corrupt (file, error, "the data of tensors '%s' and '%s' overlap",
          a->name, b->name);
  }
  return TRUE;
}

static gboolean
read_entries (MimiFile *file, JsonObject *root, guint64 header,
    GHashTable *entries, GError **error)
{
  GPtrArray *places;
  JsonObjectIter iter;
  const gchar *name;
  JsonNode *node;
  gboolean ok = TRUE;

  if (json_object_get_size (root) > MIMI_MAX_TENSORS)
    return corrupt (file, error,
        "the header lists %u tensors, at most %d are "
        "supported",
        json_object_get_size (root), MIMI_MAX_TENSORS);

  places = g_ptr_array_new ();
  json_object_iter_init (&iter, root);
  while (ok && json_object_iter_next (&iter, &name, &node)) {
    MimiEntry *entry;

    if (strcmp (name, "__metadata__") == 0)
      continue;
    if (strlen (name) > MIMI_MAX_NAME) {
      ok = corrupt (file, error,
          "a tensor's name has %u bytes, at most %d are "
          "supported",
          (guint)strlen (name), MIMI_MAX_NAME);
      break;
    }
    entry = g_new0 (MimiEntry, 1);
    entry->name = g_strdup (name);
    entry->file = file;
    ok = read_entry (entry, node, 8 + header, error);
    if (ok && g_hash_table_contains (entries, name))
      ok = corrupt (file, error, "tensor '%s' is also in another shard", name);
    if (!ok) {
      free_entry (entry);
      break;
    }
    g_hash_table_insert (entries, entry->name, entry);
    if (entry->size > 0)
      g_ptr_array_add (places, entry);
  }
  ok = ok && check_overlap (file, places, error);
  g_ptr_array_unref (places);
  return ok;
}

gboolean
mimi_safetensors_read (MimiFile *file, GHashTable *entries, GError **error)
{
  guint8 head[9] = { 0 };
  guint64 header;
  GError *err = NULL;
  gchar *text;
  JsonNode *root;
  gboolean ok;

  if (file->size == 0) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_WRONG_TYPE,
        "%s: is empty, expected a safetensors file; download it again",
        file->path);
    return FALSE;
  }
  if (!mimi_file_read (file, 0, MIN (file->size, sizeof head), head))
    return mimi_file_check_unchanged (file, error);
  memcpy (&header, head, 8);
  header = GUINT64_FROM_LE (header);
  /* A header begins with a brace. Only where this does not look like one is
   * it worth asking what else the file may be. */
  if (file->size < 10 || header > MIMI_MAX_HEADER || head[8] != '{') {
    const gchar *what = mimi_file_guess_type (file);

    if (what) {
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_WRONG_TYPE,
          "%s: is not a safetensors file; it is %s", file->path, what);
      return FALSE;
    }
  }
  if (file->size < 10)
    return corrupt (file, error,
        "has %" U64 " bytes, too few for a safetensors file; download it again",
        file->size);
  if (head[8] != '{') {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_WRONG_TYPE,
        "%s: is not a safetensors file (no JSON header at byte 8)", file->path);
    return FALSE;
  }
  if (header > file->size - 8)
    return corrupt (file, error,
        "its header should have %" U64 " bytes, and the file ends after %" U64
        "; it is truncated, download it again",
        header, file->size - 8);
  if (header > MIMI_MAX_HEADER)
    return corrupt (file, error,
        "its header has %" U64 " bytes, at most %u are supported", header,
        MIMI_MAX_HEADER);

  text = g_try_malloc (header);
  if (!text) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY,
        "%s: no memory for its header of %" U64 " bytes", file->path, header);
    return FALSE;
  }
  if (!mimi_file_read (file, 8, header, text)) {
    g_free (text);
    return mimi_file_check_unchanged (file, error);
  }
  root = mimi_json_parse (text, header, MIMI_MAX_DEPTH, &err);
  g_free (text);
  if (!root) {
    corrupt (file, error, "its header is damaged: %s", err->message);
    g_error_free (err);
    return FALSE;
  }
  ok = read_entries (file, json_node_get_object (root), header, entries, error);
  json_node_unref (root);
  return ok;
}
