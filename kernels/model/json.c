/* Parsing JSON that may be hostile.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "json.h"
#include "config.h"

#include <stdlib.h>
#include <string.h>

/* What 200,000 tensors of 8 dimensions need, and some metadata. */
#define MAX_CONTAINERS 601000
#define MAX_COMMAS 3000000

/* Names of one object with the same hash: of 200,000 honest ones hardly two. */
#define MAX_ALIKE 1000

static gboolean
fail (GError **error, const gchar *message)
{
  g_set_error_literal (
      error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE, message);
  return FALSE;
}

static gint
compare_hashes (gconstpointer a, gconstpointer b)
{
  guint32 x = *(const guint32 *)a, y = *(const guint32 *)b;

  return x < y ? -1 : x > y;
}

/* Whether no value is among `hashes` from `first` on too often. */
static gboolean
check_alike (GArray *hashes, guint first)
{
  guint32 *h;
  guint i;

  if (hashes->len - first <= MAX_ALIKE)
    return TRUE;
  h = &g_array_index (hashes, guint32, 0);
  qsort (h + first, hashes->len - first, sizeof *h, compare_hashes);
  for (i = first + MAX_ALIKE; i < hashes->len; i++) {
    if (h[i] == h[i - MAX_ALIKE])
      return FALSE;
  }
  return TRUE;
}

/* Tables of names that all have one hash take time without end. `hashes` is for
 * those of the objects that are open. */
static gboolean
check_names (const gchar *json, gsize length, GArray *hashes, GError **error)
{
  guint firsts[MIMI_MAX_CONFIG_DEPTH + 1], depth = 0;
  guint32 hash = 0;
  gsize i;

  for (i = 0; i < length; i++) {
    if (json[i] == '"') {
      gboolean escaped = FALSE;

      /* g_str_hash(); what has escapes counts as alike */
      for (hash = 5381, i++; i < length && json[i] != '"'; i++) {
        escaped |= json[i] == '\\';
        hash = hash * 33 + (guint32)(signed char)json[i];
        i += json[i] == '\\';
      }
      hash = escaped ? 0 : hash;
    } else if (json[i] == ':') {
      g_array_append_val (hashes, hash);
    } else if (json[i] == '{' || json[i] == '[') {
      firsts[depth++] = hashes->len;
    } else if (json[i] == '}' || json[i] == ']') {
      if (!check_alike (hashes, firsts[--depth]))
        return fail (error, "it has too many names with one hash");
      g_array_set_size (hashes, firsts[depth]);
    }
  }
  return TRUE;
}

/* json-glib descends by recursion, and leaks the first of two values: deep
 * nesting, and anything after the object, has to be refused first. So have the
 * comments and single quotes that it knows and JSON does not: they would hide
 * brackets from this function. And so have more parts than anybody needs: each
 * object takes 300 bytes of memory, be it "{}", each value 40. */
static gboolean
check_outline (const gchar *json, gsize length, guint max_depth, GError **error)
{
  gboolean in_string = FALSE, done = FALSE;
  guint depth = 0, containers = 0, commas = 0;
  gsize i;

  for (i = 0; i < length; i++) {
    gchar c = json[i];

    if (in_string) {
      if (c == '\\')
        i++;
      else if (c == '"')
        in_string = FALSE;
    } else if (g_ascii_isspace (c)) {
      continue;
    } else if (done) {
      return fail (error, "something follows after its end");
    } else if (depth == 0 && c != '{') {
      return fail (error, "it is not an object");
    } else if (c == '"') {
      in_string = TRUE;
    } else if (c == '{' || c == '[') {
      if (++depth > max_depth)
        return fail (error, "it is nested too deep");
      if (++containers > MAX_CONTAINERS)
        return fail (error, "it has too many objects and lists");
    } else if (c == ',') {
      if (++commas > MAX_COMMAS)
        return fail (error, "it has too many values");
    } else if (c == '}' || c == ']') {
      done = --depth == 0;
    } else if (!g_ascii_isalnum (c) && !strchr ("+-.:", c)) {
      return fail (error, "it is not JSON");
    }
  }
  return done || fail (error, "it is cut short");
}

/* json-glib keeps the last of several members of one name; they are noticed
 * while it parses. One set of names for each object that is open. */
typedef struct {
  GPtrArray *sets; /* the first `open` are in use, the rest are empty */
  guint open;
  gchar *duplicate;
} Names;

static void
object_start (JsonParser *parser G_GNUC_UNUSED, gpointer user_data)
{
  Names *names = user_data;

  if (names->open == names->sets->len)
    g_ptr_array_add (names->sets,
        g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL));
  names->open++;
}

static void
object_member (JsonParser *parser G_GNUC_UNUSED,
    JsonObject *object G_GNUC_UNUSED, const gchar *name, gpointer user_data)
{
  Names *names = user_data;
  GHashTable *seen = g_ptr_array_index (names->sets, names->open - 1);

  if (!g_hash_table_add (seen, g_strdup (name)) && !names->duplicate)
    names->duplicate =
        g_utf8_substring (name, 0, MIN (g_utf8_strlen (name, -1), 200));
}

static void
object_end (JsonParser *parser G_GNUC_UNUSED, JsonObject *object G_GNUC_UNUSED,
    gpointer user_data)
{
  Names *names = user_data;

  g_hash_table_remove_all (g_ptr_array_index (names->sets, --names->open));
}

JsonNode *
mimi_json_parse (
    const gchar *text, gsize length, guint max_depth, GError **error)
{
  JsonParser *parser;
  JsonNode *root = NULL;
  Names names = { NULL, 0, NULL };
  GArray *hashes;
  gboolean ok;

  if (!g_utf8_validate_len (text, length, NULL)) {
    g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_INVALID_DATA,
        "it is not UTF-8");
    return NULL;
  }
  g_return_val_if_fail (max_depth <= MIMI_MAX_CONFIG_DEPTH, NULL);
  if (!check_outline (text, length, max_depth, error))
    return NULL;
  hashes = g_array_new (FALSE, FALSE, sizeof (guint32));
  ok = check_names (text, length, hashes, error);
  g_array_unref (hashes);
  if (!ok)
    return NULL;

  names.sets =
      g_ptr_array_new_with_free_func ((GDestroyNotify)g_hash_table_unref);
  parser = json_parser_new ();
  g_signal_connect (parser, "object-start", G_CALLBACK (object_start), &names);
  g_signal_connect (
      parser, "object-member", G_CALLBACK (object_member), &names);
  g_signal_connect (parser, "object-end", G_CALLBACK (object_end), &names);

  if (json_parser_load_from_data (parser, text, length, error)) {
    root = json_parser_steal_root (parser);
    if (names.duplicate) {
      g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_INVALID_DATA,
          "'%s' is there twice", names.duplicate);
      g_clear_pointer (&root, json_node_unref);
    }
  }
  g_object_unref (parser);
  g_ptr_array_unref (names.sets);
  g_free (names.duplicate);
  return root;
}
