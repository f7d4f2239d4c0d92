/* NVIDIA's driver library, opened at run time.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "driver.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"
#define MINIMUM_MAJOR 7
#define MINIMUM_MINOR 5

/* The image's machine code needs a driver of at least the compiler's major
 * version, whatever the minor one. */
#ifndef MIMI_CUDA_TOOLKIT
#define MIMI_CUDA_TOOLKIT 13
#endif
#define REQUIRED_VERSION (MIMI_CUDA_TOOLKIT * 1000)
#define REQUIRED_DRIVER \
  (MIMI_CUDA_TOOLKIT >= 13 ? "580" : MIMI_CUDA_TOOLKIT == 12 ? "525" : "450")

static MimiCuda cuda;
static gboolean loaded;
static GMutex lock;

static gboolean
load (GError **error)
{
  const gchar *missing = NULL;
  gpointer library = dlopen (LIBRARY, RTLD_NOW | RTLD_LOCAL);
  CUresult result;

  if (!library) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE,
        "no NVIDIA driver, so no CUDA: %s; install driver %s or newer, or use "
        "the CPU",
        dlerror (), REQUIRED_DRIVER);
    return FALSE;
  }

#define LOAD(name, symbol, arguments) \
  *(gpointer *)&cuda.name = dlsym (library, symbol); \
  if (!cuda.name && !missing) \
    missing = symbol;
  MIMI_CUDA_SYMBOLS (LOAD)
#undef LOAD

  /* The version first: an old driver is why a symbol would be missing. */
  if (cuda.DriverGetVersion &&
      cuda.DriverGetVersion (&cuda.version) == CUDA_SUCCESS &&
      cuda.version < REQUIRED_VERSION) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE,
        "the NVIDIA driver is too old: it knows CUDA %d.%d and this build "
        "needs %d.0; install driver %s or newer, or use the CPU",
        cuda.version / 1000, cuda.version % 1000 / 10, MIMI_CUDA_TOOLKIT,
        REQUIRED_DRIVER);
  } else if (missing) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE,
        LIBRARY " has no %s; install NVIDIA driver %s or newer, or use the CPU",
        missing, REQUIRED_DRIVER);
  } else if ((result = cuda.Init (0)) != CUDA_SUCCESS) {
    const gchar *text = NULL;
    cuda.GetErrorString (result, &text);
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE,
        "the NVIDIA driver does not start: %s (%d)%s", text ? text : "unknown",
        result,
        result == CUDA_ERROR_NO_DEVICE
            ? "; check nvidia-smi and, in a container, that the GPU is passed"
        : result == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
            ? "; its kernel module and library differ: restart the machine"
            : "; check nvidia-smi");
  } else {
    return TRUE;
  }
  dlclose (library);
  memset (&cuda, 0, sizeof cuda);
  return FALSE;
}

const MimiCuda *
mimi_cuda_get (GError **error)
{
  g_mutex_lock (&lock);
  if (!loaded)
    loaded = load (error);
  g_mutex_unlock (&lock);
  return loaded ? &cuda : NULL;
}

gboolean
mimi_cuda_check (
    const MimiCuda *self, CUresult result, const gchar *what, GError **error)
{
  const gchar *name = NULL, *text = NULL;

  if (result == CUDA_SUCCESS)
    return TRUE;
  self->GetErrorName (result, &name);
  self->GetErrorString (result, &text);
  g_set_error (error, MIMI_ERROR,
      result == CUDA_ERROR_OUT_OF_MEMORY ? MIMI_ERROR_NO_MEMORY
                                         : MIMI_ERROR_DEVICE,
      "%s failed: %s (%s, %d)", what, text ? text : "unknown error",
      name ? name : "unnamed", result);
  return FALSE;
}

gboolean
mimi_cuda_upload (const MimiCuda *self, CUdeviceptr to, gconstpointer from,
    gsize size, GError **error)
{
  return CHECK (self, error, MemcpyHtoD, (to, from, size)) &&
         CHECK (self, error, StreamSynchronize, (NULL));
}

gboolean
mimi_cuda_clear (const MimiCuda *self, CUdeviceptr to, gsize n, GError **error)
{
  return CHECK (self, error, MemsetD32, (to, 0, n)) &&
         CHECK (self, error, StreamSynchronize, (NULL));
}

/* NULL if the device can be used, else why not. */
static const gchar *
examine (const MimiCuda *self, gint ordinal, MimiCudaDevice *device)
{
  gint mode = 0, maps = 0;

  memset (device, 0, sizeof *device);
  device->ordinal = ordinal;
#define GET(attribute, value) \
  (self->DeviceGetAttribute (&value, CU_DEVICE_ATTRIBUTE_##attribute, \
       device->device) == CUDA_SUCCESS)
  if (self->DeviceGet (&device->device, ordinal) != CUDA_SUCCESS ||
      self->DeviceGetName (device->name, sizeof device->name, device->device) !=
          CUDA_SUCCESS ||
      !GET (COMPUTE_CAPABILITY_MAJOR, device->major) ||
      !GET (COMPUTE_CAPABILITY_MINOR, device->minor) ||
      !GET (MULTIPROCESSOR_COUNT, device->processors) ||
      !GET (MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device->shared) ||
      !GET (COMPUTE_MODE, mode) || !GET (CAN_MAP_HOST_MEMORY, maps))
    return "it does not answer";
#undef GET
  device->name[sizeof device->name - 1] = 0;
  if (device->major < MINIMUM_MAJOR ||
      (device->major == MINIMUM_MAJOR && device->minor < MINIMUM_MINOR))
    return "it is too old: compute capability 7.5 (Turing) or newer is needed";
  if (mode == CU_COMPUTEMODE_PROHIBITED)
    return "its compute mode is Prohibited (nvidia-smi -c 0 allows it)";
  if (!maps)
    return "it cannot map host memory";
  return NULL;
}

gboolean
mimi_cuda_find_device (
    const MimiCuda *self, gint ordinal, MimiCudaDevice *device, GError **error)
{
  gint count = 0, i;
  GString *passed;

  if (!CHECK (self, error, DeviceGetCount, (&count)))
    return FALSE;
  if (ordinal >= count || count == 0) {
    if (count == 0)
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE,
          "the NVIDIA driver sees no GPU");
    else
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE,
          "there is no CUDA device %d: the driver sees %d, counted from 0",
          ordinal, count);
    return FALSE;
  }

  passed = g_string_new (NULL);
  for (i = MAX (ordinal, 0); i < (ordinal < 0 ? count : ordinal + 1); i++) {
    const gchar *reason = examine (self, i, device);
    if (!reason) {
      g_string_free (passed, TRUE);
      return TRUE;
    }
    g_string_append_printf (passed, "%sCUDA device %d (%s, %d.%d): %s",
        passed->len ? "; " : "", i, device->name, device->major, device->minor,
        reason);
  }
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE, "no usable GPU: %s",
      passed->str);
  g_string_free (passed, TRUE);
  return FALSE;
}
