/* Files that are no model, and settings that no machine here has
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * With the plugin. What each of the many ways to spoil a file gives is tested
 * with the reader; here it is what reaches the application.
 */
#include "decoding.h"

#include <glib/gstdio.h>
#include <unistd.h>

static gchar *folder;

static void
setup (void)
{
  folder = g_dir_make_tmp ("mimidec-XXXXXX", NULL);
  fail_unless (folder != NULL);
}

static void
teardown (void)
{
  GDir *dir = g_dir_open (folder, 0, NULL);
  const gchar *name;

  while ((name = g_dir_read_name (dir)) != NULL) {
    gchar *path = g_build_filename (folder, name, NULL);

    g_remove (path);
    g_free (path);
  }
  g_dir_close (dir);
  g_rmdir (folder);
  g_free (folder);
}

static gchar *
write_file (const gchar *name, gconstpointer data, gssize size)
{
  gchar *path = g_build_filename (folder, name, NULL);

  fail_unless (g_file_set_contents (path, data, size, NULL));
  return path;
}

/* Opening must fail with this error, which names `text`, and no other first. */
static void
expect_failure (
    GstElement *element, GQuark domain, gint code, const gchar *text)
{
  fail_unless_equals_int (gst_element_set_state (element, GST_STATE_PLAYING),
      GST_STATE_CHANGE_FAILURE);
  expect_error (element, domain, code, text);
  expect_error (element, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT, NULL);
  expect_no_message (element);
  mimi_element_free (element);
}

static void
expect_bad_model (
    const gchar *path, GQuark domain, gint code, const gchar *text)
{
  expect_failure (mimi_element_new ("model", path, NULL), domain, code, text);
}

GST_START_TEST (no_file)
{
  expect_bad_model ("/nowhere/model.safetensors", GST_RESOURCE_ERROR,
      GST_RESOURCE_ERROR_NOT_FOUND, "/nowhere/model.safetensors");
}
GST_END_TEST;

GST_START_TEST (no_checkpoint_in_the_folder)
{
  expect_bad_model (
      folder, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND, folder);
}
GST_END_TEST;

GST_START_TEST (not_a_checkpoint)
{
  static const gchar lfs[] = "version https://git-lfs.github.com/spec/v1\n"
                             "oid sha256:0123\nsize 123\n";
  gchar *text = write_file ("model.safetensors", "Hello, world!\n", -1);

  expect_bad_model (text, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, text);
  g_free (text);
  text = write_file ("model.safetensors", lfs, -1);
  expect_bad_model (text, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, "LFS");
  g_free (text);
  text = write_file ("model.safetensors", "", 0);
  expect_bad_model (text, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, text);
  g_free (text);
}
GST_END_TEST;

GST_START_TEST (half_a_checkpoint)
{
  GBytes *file = read_file ("MIMI_DEMO", "mimi-demo.safetensors");
  gchar *path = write_file ("model.safetensors", g_bytes_get_data (file, NULL),
      g_bytes_get_size (file) / 2);

  expect_bad_model (path, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, path);
  g_free (path);
  g_bytes_unref (file);
}
GST_END_TEST;

GST_START_TEST (a_weight_that_is_not_a_number)
{
  GBytes *file = read_file ("MIMI_DEMO", "mimi-demo.safetensors");
  gsize size;
  guint8 *data = g_bytes_unref_to_data (file, &size);
  GBytes *config = read_file ("MIMI_DEMO", "config.json");
  gchar *path;

  /* The last float16 of the file: the demo's last tensor is the decoder's last bias. */
  data[size - 2] = 0x00;
  data[size - 1] = 0x7e;
  path = write_file ("model.safetensors", data, size);
  g_free (write_file ("config.json", g_bytes_get_data (config, NULL),
      g_bytes_get_size (config)));
  expect_bad_model (
      path, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, "conv.bias|NaN");
  g_free (path);
  g_bytes_unref (config);
  g_free (data);
}
GST_END_TEST;

GST_START_TEST (no_configuration)
{
  gchar *model = model_path ("demo");

  expect_failure (
      mimi_element_new ("model", model, "config", "/nowhere.json", NULL),
      GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND, "/nowhere.json");
  g_free (model);
}
GST_END_TEST;

GST_START_TEST (a_configuration_that_contradicts_the_tensors)
{
  gchar *model = model_path ("demo");
  gchar *config = write_file ("config.json",
      "{\"hidden_size\": 512, \"num_attention_heads\": 8,"
      " \"num_hidden_layers\": 2}",
      -1);

  expect_failure (mimi_element_new ("model", model, "config", config, NULL),
      GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS, "512");
  g_free (config);
  g_free (model);
}
GST_END_TEST;

GST_START_TEST (half_precision_on_the_cpu)
{
  gchar *model = model_path ("demo");
  GstElement *element = mimi_element_new ("model", model, NULL);

  gst_util_set_object_arg (G_OBJECT (element), "backend", "cpu");
  gst_util_set_object_arg (G_OBJECT (element), "precision", "bf16");
  expect_failure (
      element, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS, "fp32");
  g_free (model);
}
GST_END_TEST;

/* Only where there is no GPU. */
GST_START_TEST (no_gpu)
{
  gchar *model = model_path ("demo");
  GstElement *element = mimi_element_new ("model", model, NULL);
  gchar *backend;

  gst_util_set_object_arg (G_OBJECT (element), "backend", "cuda");
  expect_failure (
      element, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND, NULL);

  /* It is no error where it was not asked for. */
  element = mimi_element_new ("model", model, NULL);
  fail_unless_equals_int (gst_element_set_state (element, GST_STATE_PAUSED),
      GST_STATE_CHANGE_SUCCESS);
  g_object_get (element, "active-backend", &backend, NULL);
  fail_unless_equals_string (backend, "cpu");
  g_free (backend);
  mimi_element_free (element);
  g_free (model);
}
GST_END_TEST;

GST_START_TEST (a_folder_is_a_model_too)
{
  GBytes *file = read_file ("MIMI_DEMO", "mimi-demo.safetensors");
  GBytes *config = read_file ("MIMI_DEMO", "config.json");
  gchar *blob = write_file (
      "blob", g_bytes_get_data (file, NULL), g_bytes_get_size (file));
  gchar *model = g_build_filename (folder, "model.safetensors", NULL);
  GstElement *element = mimi_element_new ("model", folder, NULL);

  g_free (write_file ("config.json", g_bytes_get_data (config, NULL),
      g_bytes_get_size (config)));
  fail_unless_equals_int (symlink ("blob", model), 0);
  fail_unless_equals_int (gst_element_set_state (element, GST_STATE_PAUSED),
      GST_STATE_CHANGE_SUCCESS);
  mimi_element_free (element);
  g_free (blob);
  g_free (model);
  g_bytes_unref (file);
  g_bytes_unref (config);
}
GST_END_TEST;

static Suite *
models_suite (void)
{
  Suite *suite = suite_create ("models");
  TCase *tcase = tcase_create ("all");

  tcase_add_checked_fixture (tcase, setup, teardown);
  suite_add_tcase (suite, tcase);
  tcase_add_test (tcase, no_file);
  tcase_add_test (tcase, no_checkpoint_in_the_folder);
  tcase_add_test (tcase, not_a_checkpoint);
  tcase_add_test (tcase, half_a_checkpoint);
  tcase_add_test (tcase, a_weight_that_is_not_a_number);
  tcase_add_test (tcase, no_configuration);
  tcase_add_test (tcase, a_configuration_that_contradicts_the_tensors);
  tcase_add_test (tcase, half_precision_on_the_cpu);
  if (!g_file_test ("/dev/nvidiactl", G_FILE_TEST_EXISTS))
    tcase_add_test (tcase, no_gpu);
  tcase_add_test (tcase, a_folder_is_a_model_too);
  return suite;
}

GST_CHECK_MAIN (models);
