/* What the tests of the simulator share
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "test.h"

static CUcontext context;

void
gpu_open (const gchar *capability)
{
  CUdevice device;
  g_assert_cmpint (cudasim_set ("cc", capability), ==, 0);
  OK (cuInit (0));
  OK (cuDeviceGet (&device, 0));
  OK (cuDevicePrimaryCtxRetain (&context, device));
  OK (cuCtxPushCurrent_v2 (context));
}

void
gpu_close (void)
{
  CUcontext popped;
  OK (cuCtxPopCurrent_v2 (&popped));
  g_assert_true (popped == context);
  OK (cuDevicePrimaryCtxRelease_v2 (0));
}

CUmodule
gpu_module (const gchar *name)
{
  gchar *file = g_strconcat (name, ".fatbin", NULL);
  gchar *path = g_build_filename (g_getenv ("CUDASIM_KERNELS"), file, NULL);
  gchar *image = NULL;
  GError *error = NULL;
  CUmodule module;

  g_file_get_contents (path, &image, NULL, &error);
  g_assert_no_error (error);
  OK (cuModuleLoadData (&module, image));
  g_free (image);
  g_free (path);
  g_free (file);
  return module;
}

CUfunction
gpu_function (CUmodule module, const gchar *name)
{
  CUfunction function;
  OK (cuModuleGetFunction (&function, module, name));
  return function;
}

CUdeviceptr
gpu_empty (gsize size)
{
  CUdeviceptr address;
  OK (cuMemAlloc_v2 (&address, size));
  return address;
}

CUdeviceptr
gpu_upload (gconstpointer data, gsize size)
{
  CUdeviceptr address = gpu_empty (size);
  OK (cuMemcpyHtoD_v2 (address, data, size));
  OK (cuStreamSynchronize (NULL));
  return address;
}

gpointer
gpu_download (CUdeviceptr from, gsize size)
{
  gpointer data = g_malloc (size);
  OK (cuMemcpyDtoH_v2 (data, from, size));
  return data;
}

CUresult
gpu_run (CUfunction function, guint grid, guint block, guint shared, ...)
{
  void *arguments[16];
  guint n = 0;
  va_list list;
  va_start (list, shared);
  while (n < 15 && (arguments[n] = va_arg (list, void *)))
    n++;
  va_end (list);
  CUresult r = cuLaunchKernel (
      function, grid, 1, 1, block, 1, 1, shared, NULL, arguments, NULL);
  return r ? r : cuCtxSynchronize ();
}

CUresult
gpu_launch (CUfunction function, guint grid, guint block, guint shared,
    guint cluster, gboolean programmatic, CUstream stream, void **arguments)
{
  CUlaunchAttribute attributes[2];
  CUlaunchConfig config = { { grid, 1, 1 }, { block, 1, 1 }, shared, stream,
    attributes, 0 };
  if (cluster > 1) {
    CUlaunchAttribute *a = &attributes[config.n_attributes++];
    a->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a->value.cluster.x = cluster;
    a->value.cluster.y = a->value.cluster.z = 1;
  }
  if (programmatic) {
    CUlaunchAttribute *a = &attributes[config.n_attributes++];
    a->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a->value.programmatic = 1;
  }
  return cuLaunchKernelEx (&config, function, arguments, NULL);
}

void
gpu_each_seed (GTestDataFunc func, gconstpointer data)
{
  for (guint seed = 1; seed <= 5; seed++) {
    gchar *text = g_strdup_printf ("%u", seed * 77);
    cudasim_set ("seed", text);
    g_free (text);
    func (data);
  }
}
