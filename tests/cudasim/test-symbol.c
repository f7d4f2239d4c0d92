/* A symbol that the driver shall not have is not found by dlsym()
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <dlfcn.h>
#include <glib.h>

static void
test_hidden (void)
{
  g_setenv ("CUDASIM_FAIL", "symbol:cuGraphLaunch,symbol:cuMemAlloc_v2", TRUE);
  void *library = dlopen (g_getenv ("CUDASIM_LIBRARY"), RTLD_NOW);
  g_assert_nonnull (library);
  g_assert_null (dlsym (library, "cuGraphLaunch"));
  g_assert_null (dlsym (library, "cuMemAlloc_v2"));
  g_assert_nonnull (dlsym (library, "cuMemFree_v2"));
  int (*find) (const char *, void **, int, guint64, int *) =
      (int (*) (const char *, void **, int, guint64, int *)) (gintptr)dlsym (
          library, "cuGetProcAddress_v2");
  void *address;
  int status;
  g_assert_cmpint (find ("cuMemAlloc", &address, 12000, 0, &status), !=, 0);
  g_assert_cmpint (find ("cuMemFree", &address, 12000, 0, &status), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/symbol/hidden", test_hidden);
  return g_test_run ();
}
