/* Parsing YAML that may be hostile into a JSON tree.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "json.h"

#include <errno.h>
#include <string.h>
#include <yaml.h>

/* Of a configuration; those of pocket-tts have a hundred. */
#define MAX_NODES 10000

typedef struct {
  yaml_parser_t parser;
  guint depth, nodes;
  GError **error;
} Reader;

static gboolean
next_event (Reader *reader, yaml_event_t *event)
{
  if (yaml_parser_parse (&reader->parser, event))
    return TRUE;
  g_set_error (reader->error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE,
      "line %u: %s", (guint)reader->parser.problem_mark.line + 1,
      reader->parser.problem ? reader->parser.problem : "it is not YAML");
  return FALSE;
}

/* A plain scalar is a number where all of it is one, as in YAML's core schema;
 * its other forms (octal, sexagesimal) are strings here. */
static JsonNode *
make_scalar (const yaml_event_t *event)
{
  const gchar *text = (const gchar *)event->data.scalar.value;
  JsonNode *node = json_node_alloc ();
  gchar *end;
  gint64 i;
  gdouble d;

  if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
    return json_node_init_string (node, text);
  if (*text == '\0' || strcmp (text, "~") == 0 || strcmp (text, "null") == 0)
    return json_node_init_null (node);
  if (strcmp (text, "true") == 0 || strcmp (text, "false") == 0)
    return json_node_init_boolean (node, *text == 't');

  errno = 0;
  i = g_ascii_strtoll (text, &end, 10);
  if (*end == '\0' && errno == 0)
    return json_node_init_int (node, i);
  d = g_ascii_strtod (text, &end);
  if (*end == '\0' && strspn (text, "+-.0123456789eE") == strlen (text))
    return json_node_init_double (node, d);
  return json_node_init_string (node, text);
}

static JsonNode *read_node (Reader *reader, yaml_event_t *event);

static JsonNode *
read_mapping (Reader *reader)
{
  JsonObject *object = json_object_new ();
  JsonNode *node = json_node_init_object (json_node_alloc (), object);
  yaml_event_t event;

  json_object_unref (object);
  while (next_event (reader, &event)) {
    JsonNode *value = NULL;
    gchar *name;

    if (event.type == YAML_MAPPING_END_EVENT) {
      yaml_event_delete (&event);
      return node;
    }
    if (event.type != YAML_SCALAR_EVENT) {
      g_set_error (reader->error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE,
          "line %u: a key is not a word", (guint)event.start_mark.line + 1);
      yaml_event_delete (&event);
      break;
    }
    name = g_strdup ((const gchar *)event.data.scalar.value);
    yaml_event_delete (&event);
    if (next_event (reader, &event))
      value = read_node (reader, &event);
    if (value && json_object_has_member (object, name)) {
      g_set_error (reader->error, JSON_PARSER_ERROR,
          JSON_PARSER_ERROR_INVALID_DATA, "'%s' is there twice", name);
      g_clear_pointer (&value, json_node_unref);
    }
    if (value)
      json_object_set_member (object, name, value);
    g_free (name);
    if (!value)
      break;
  }
  json_node_unref (node);
  return NULL;
}

static JsonNode *
read_sequence (Reader *reader)
{
  JsonArray *array = json_array_new ();
  JsonNode *node = json_node_init_array (json_node_alloc (), array);
  yaml_event_t event;

  json_array_unref (array);
  while (next_event (reader, &event)) {
    JsonNode *value;

    if (event.type == YAML_SEQUENCE_END_EVENT) {
      yaml_event_delete (&event);
      return node;
    }
    value = read_node (reader, &event);
    if (!value)
      break;
    json_array_add_element (array, value);
  }
  json_node_unref (node);
  return NULL;
}

/* Takes `event`, which begins a node, and all that belongs to it; on an error
 * reader->error is set. Recursion: libyaml itself limits nothing, so we do. */
static JsonNode *
read_node (Reader *reader, yaml_event_t *event)
{
  yaml_event_type_t type = event->type;
  JsonNode *node = NULL;

  if (++reader->nodes > MAX_NODES) {
    g_set_error (reader->error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE,
        "it has more than %d values", MAX_NODES);
    yaml_event_delete (event);
    return NULL;
  }

  if (type == YAML_SCALAR_EVENT)
    node = make_scalar (event);
  else if (type == YAML_ALIAS_EVENT)
    node = json_node_init_null (json_node_alloc ());
  yaml_event_delete (event);
  if (node)
    return node;

  if (reader->depth == 0) {
    g_set_error (reader->error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE,
        "it is nested too deep");
    return NULL;
  }
  reader->depth--;
  node = type == YAML_MAPPING_START_EVENT ? read_mapping (reader)
                                          : read_sequence (reader);
  reader->depth++;
  return node;
}

JsonNode *
mimi_yaml_parse (
    const gchar *text, gsize length, guint max_depth, GError **error)
{
  Reader reader = { .depth = max_depth, .error = error };
  JsonNode *root = NULL;
  yaml_event_t event;
  gboolean begun = FALSE, ok;

  if (!yaml_parser_initialize (&reader.parser)) {
    g_set_error (
        error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_UNKNOWN, "no memory");
    return NULL;
  }
  yaml_parser_set_input_string (&reader.parser, (const guchar *)text, length);

  /* what comes before the first document's content */
  while (!begun && (ok = next_event (&reader, &event))) {
    begun = event.type != YAML_STREAM_START_EVENT &&
            event.type != YAML_DOCUMENT_START_EVENT;
    if (!begun)
      yaml_event_delete (&event);
  }
  if (begun && event.type == YAML_MAPPING_START_EVENT) {
    root = read_node (&reader, &event);
  } else if (begun) {
    yaml_event_delete (&event);
    g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_INVALID_DATA,
        "it is not a mapping");
  }
  yaml_parser_delete (&reader.parser);
  return root;
}
