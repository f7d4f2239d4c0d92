/* Checkpoints that a test can damage, and walking over a model's weights.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "checkpoint.h"

#include <glib/gstdio.h>
#include <string.h>

gchar *
checkpoint_path (const gchar *name)
{
  const gchar *folder = g_getenv ("MIMI_TEST_CHECKPOINTS");

  g_assert_nonnull (folder);
  return g_strdup_printf ("%s/%s.safetensors", folder, name);
}

Checkpoint *
checkpoint_load (const gchar *name)
{
  Checkpoint *c = g_new0 (Checkpoint, 1);
  gchar *path = checkpoint_path (name), *text;
  JsonParser *parser = json_parser_new ();
  guint64 header;
  gsize size;

  g_assert_true (g_file_get_contents (path, &text, &size, NULL));
  memcpy (&header, text, 8);
  g_assert_true (json_parser_load_from_data (parser, text + 8, header, NULL));
  c->header =
      json_object_ref (json_node_get_object (json_parser_get_root (parser)));
  c->data = g_byte_array_new ();
  g_byte_array_append (c->data, (guint8 *)text + 8 + header, size - 8 - header);
  g_object_unref (parser);
  g_free (text);
  g_free (path);
  return c;
}

void
checkpoint_free (Checkpoint *c)
{
  json_object_unref (c->header);
  g_byte_array_unref (c->data);
  g_free (c);
}

JsonObject *
checkpoint_get (Checkpoint *c, const gchar *tensor)
{
  if (!json_object_has_member (c->header, tensor))
    g_error ("the checkpoint has no %s", tensor);
  return json_object_get_object_member (c->header, tensor);
}

guint8 *
checkpoint_get_data (Checkpoint *c, const gchar *tensor)
{
  JsonArray *offsets =
      json_object_get_array_member (checkpoint_get (c, tensor), "data_offsets");

  return c->data->data + json_array_get_int_element (offsets, 0);
}

static void
set_list (
    JsonObject *object, const gchar *member, guint n, const guint64 *values)
{
  JsonArray *array = json_array_new ();
  guint i;

  for (i = 0; i < n; i++)
    json_array_add_int_element (array, values[i]);
  json_object_set_array_member (object, member, array);
}

void
checkpoint_set_shape (
    Checkpoint *c, const gchar *tensor, guint n_dims, const guint64 *shape)
{
  set_list (checkpoint_get (c, tensor), "shape", n_dims, shape);
}

void
checkpoint_add (Checkpoint *c, const gchar *tensor, const gchar *dtype,
    guint64 elements, guint size)
{
  JsonObject *object = json_object_new ();
  guint64 offsets[2] = { c->data->len, c->data->len + elements * size };

  json_object_set_string_member (object, "dtype", dtype);
  set_list (object, "shape", 1, &elements);
  set_list (object, "data_offsets", 2, offsets);
  json_object_set_object_member (c->header, tensor, object);
  g_byte_array_set_size (c->data, offsets[1]);
  memset (c->data->data + offsets[0], 0, offsets[1] - offsets[0]);
}

void
checkpoint_rename (Checkpoint *c, const gchar *from, const gchar *to)
{
  JsonObject *object = json_object_ref (checkpoint_get (c, from));

  json_object_remove_member (c->header, from);
  json_object_set_object_member (c->header, to, object);
}

GBytes *
checkpoint_write (Checkpoint *c)
{
  GByteArray *out = g_byte_array_new ();
  JsonNode *root = json_node_init_object (json_node_alloc (), c->header);
  gchar *json = json_to_string (root, FALSE);
  guint64 length = strlen (json);

  g_byte_array_append (out, (guint8 *)&length, 8);
  g_byte_array_append (out, (guint8 *)json, length);
  g_byte_array_append (out, c->data->data, c->data->len);
  json_node_unref (root);
  g_free (json);
  return g_byte_array_free_to_bytes (out);
}

void
checkpoint_save (Checkpoint *c, const gchar *path)
{
  GBytes *bytes = checkpoint_write (c);
  gsize size;
  const gchar *data = g_bytes_get_data (bytes, &size);

  g_assert_true (g_file_set_contents (path, data, size, NULL));
  g_bytes_unref (bytes);
}

/* ------------------------------------------------------------- opening --- */

/* The bytes have to live as long as the model. */
static void
keep (MimiModel *model, GBytes *bytes)
{
  static GHashTable *kept;

  if (!kept)
    kept =
        g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify)g_bytes_unref);
  g_hash_table_insert (kept, model, bytes);
}

MimiModel *
checkpoint_open (Checkpoint *c, GError **error)
{
  GBytes *bytes = checkpoint_write (c);
  gsize size;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  MimiModel *model = mimi_model_open_bytes ("test", data, size, error);

  if (model)
    keep (model, bytes);
  else
    g_bytes_unref (bytes);
  return model;
}

static void
assert_error (GError *error, gint code, const gchar *prefix, va_list args)
{
  const gchar *part;

  g_assert_nonnull (error);
  if (error->domain != MIMI_ERROR || error->code != code)
    g_error ("expected code %d, got %d: %s", code, error->code, error->message);
  if (prefix && !g_str_has_prefix (error->message, prefix))
    g_error ("'%s' does not begin with '%s'", error->message, prefix);
  while ((part = va_arg (args, const gchar *))) {
    if (!strstr (error->message, part))
      g_error ("'%s' does not say '%s'", error->message, part);
  }
  g_error_free (error);
}

void
error_assert (GError *error, gint code, ...)
{
  va_list args;

  va_start (args, code);
  assert_error (error, code, NULL, args);
  va_end (args);
}

void
checkpoint_assert_bad (Checkpoint *c, gint code, ...)
{
  GError *error = NULL;
  va_list args;

  g_assert_null (checkpoint_open (c, &error));
  va_start (args, code);
  assert_error (error, code, "test: ", args);
  va_end (args);
}

void
bytes_assert_bad (gconstpointer data, gsize size, gint code, ...)
{
  /* a block of its own, so that reading beyond it is noticed */
  gpointer copy = g_memdup2 (data, size);
  GError *error = NULL;
  va_list args;

  g_assert_null (mimi_model_open_bytes ("test", copy, size, &error));
  va_start (args, code);
  assert_error (error, code, "test: ", args);
  va_end (args);
  g_free (copy);
}

/* ------------------------------------------------------------- walking --- */

void
weights_foreach (const MimiModel *model, TensorFunc func, gpointer data)
{
  const MimiNetwork *net = mimi_model_get_network (model);
  const MimiWeights *w = mimi_model_get_weights (model);
  guint i;

#define VISIT(tensor) \
  G_STMT_START \
  { \
    gchar *what_ = g_strdup_printf ("%s %u", #tensor, i); \
    func (what_, &w->tensor, data); \
    g_free (what_); \
  } \
  G_STMT_END

  i = 0;
  if (net->has_statistics) {
    VISIT (emb_mean);
    VISIT (emb_std);
  }
  if (net->latent_dim)
    VISIT (latent_proj);
  if (net->codebooks)
    VISIT (first_proj);
  if (net->codebooks > 1)
    VISIT (rest_proj);
  VISIT (upsample);
  VISIT (first.weight);
  VISIT (first.bias);
  VISIT (last.weight);
  VISIT (last.bias);
  for (i = 0; i < net->codebooks; i++) {
    VISIT (codebooks[i].sum);
    VISIT (codebooks[i].usage);
  }
  for (i = 0; i < net->layers; i++) {
    VISIT (layers[i].norm1_weight);
    VISIT (layers[i].norm1_bias);
    VISIT (layers[i].in_proj);
    VISIT (layers[i].out_proj);
    VISIT (layers[i].norm2_weight);
    VISIT (layers[i].norm2_bias);
    VISIT (layers[i].linear1);
    VISIT (layers[i].linear2);
    VISIT (layers[i].scale1);
    VISIT (layers[i].scale2);
  }
  for (i = 0; i < net->stages; i++) {
    VISIT (stages[i].up.weight);
    VISIT (stages[i].up.bias);
    VISIT (stages[i].res1.weight);
    VISIT (stages[i].res1.bias);
    VISIT (stages[i].res2.weight);
    VISIT (stages[i].res2.bias);
  }
#undef VISIT
}

/* ------------------------------------------------------------- folders --- */

gchar *
folder_new (void)
{
  GError *error = NULL;
  gchar *folder = g_dir_make_tmp ("mimidec-XXXXXX", &error);

  g_assert_no_error (error);
  return folder;
}

static void
remove_all (const gchar *path)
{
  if (g_file_test (path, G_FILE_TEST_IS_DIR) &&
      !g_file_test (path, G_FILE_TEST_IS_SYMLINK)) {
    GDir *dir = g_dir_open (path, 0, NULL);
    const gchar *name;

    while (dir && (name = g_dir_read_name (dir))) {
      gchar *child = g_build_filename (path, name, NULL);

      remove_all (child);
      g_free (child);
    }
    g_clear_pointer (&dir, g_dir_close);
  }
  g_remove (path);
}

void
folder_remove (gchar *folder)
{
  remove_all (folder);
  g_free (folder);
}

void
file_write (const gchar *folder, const gchar *name, const gchar *text)
{
  gchar *path = g_build_filename (folder, name, NULL);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  g_free (path);
}
