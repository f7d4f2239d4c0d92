/* Loads an image for every capability: test-load IMAGE
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "test.h"

static const gchar *path;

static void
test_load (gconstpointer capability)
{
  CUcontext context;
  CUmodule module;
  gchar *image;
  GError *error = NULL;

  g_file_get_contents (path, &image, NULL, &error);
  g_assert_no_error (error);
  cudasim_set ("cc", capability);
  OK (cuInit (0));
  OK (cuDevicePrimaryCtxRetain (&context, 0));
  OK (cuCtxPushCurrent_v2 (context));
  OK (cuModuleLoadData (&module, image));
  OK (cuModuleUnload (module));
  OK (cuCtxPopCurrent_v2 (&context));
  OK (cuDevicePrimaryCtxRelease_v2 (0));
  g_free (image);
}

int
main (int argc, char **argv)
{
  static const gchar *const capabilities[] = { "7.5", "8.0", "8.6", "8.9",
    "9.0", "10.0", "12.0" };
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  path = argv[1];
  for (guint i = 0; i < G_N_ELEMENTS (capabilities); i++) {
    gchar *name = g_strconcat ("/load/", capabilities[i], NULL);
    g_test_add_data_func (name, capabilities[i], test_load);
    g_free (name);
  }
  return g_test_run ();
}
