/* Parsing JSON and YAML that may be hostile.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <json-glib/json-glib.h>

G_BEGIN_DECLS

/* Parses an object, nested at most `max_depth` deep, in which no name is there
 * twice. Free the result with json_node_unref(); NULL with `error`, of the
 * domain JSON_PARSER_ERROR and a message without a file's name. */
JsonNode *mimi_json_parse (
    const gchar *text, gsize length, guint max_depth, GError **error);

/* The same for YAML, as the tree that the JSON of the same meaning makes.
 * Aliases count as null. */
JsonNode *mimi_yaml_parse (
    const gchar *text, gsize length, guint max_depth, GError **error);

G_END_DECLS
