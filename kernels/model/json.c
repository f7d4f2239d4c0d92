/* Parsing JSON that may be hostile.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "json.h"

#include <string.h>

/* What 200,000 tensors of 8 dimensions need, and some metadata. */
#define MAX_CONTAINERS 601000
#define MAX_COMMAS 3000000

static gboolean
fail (GError **error, const gchar *message)
{
  g_set_error_literal (
      error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE, message);
  return FALSE;
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

  if (!g_utf8_validate_len (text, length, NULL)) {
    g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_INVALID_DATA,
        "it is not UTF-8");
    return NULL;
  }
  if (!check_outline (text, length, max_depth, error))
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
