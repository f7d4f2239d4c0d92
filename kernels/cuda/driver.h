/* NVIDIA's driver library, opened at run time.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Nothing is linked and no CUDA header is needed: the few types and numbers of
 * the driver API's binary interface that are used here are declared below.
 * Nothing is loaded until somebody opens a decoder, so a plugin scan never
 * touches a GPU.
 */
#pragma once

#include "../mimi.h"

G_BEGIN_DECLS

typedef gint CUdevice;
typedef guint64 CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

typedef enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803
} CUresult;

enum {
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
  CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_COMPUTEMODE_PROHIBITED = 2,
  CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
  CU_STREAM_NON_BLOCKING = 1,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_EVENT_RECORD_EXTERNAL = 1,
  CU_MEMHOSTALLOC_PORTABLE = 1,
  CU_MEMHOSTALLOC_DEVICEMAP = 2
};

typedef struct {
  guint id;
  guint reserved;
  union {
    gchar room[64];
    guint cluster[3];
    gint programmatic;
  } value;
} CUlaunchAttribute;

typedef struct {
  guint grid[3], block[3];
  guint shared;
  CUstream stream;
  CUlaunchAttribute *attributes;
  guint n_attributes;
} CUlaunchConfig;

/* Every function that is used: result is always a CUresult. The second column
 * is the symbol, with the version of the interface we were written for. */
#define MIMI_CUDA_SYMBOLS(S) \
  S (Init, "cuInit", (guint flags)) \
  S (DriverGetVersion, "cuDriverGetVersion", (gint * version)) \
  S (GetErrorName, "cuGetErrorName", (CUresult result, const gchar **text)) \
  S (GetErrorString, "cuGetErrorString", \
      (CUresult result, const gchar **text)) \
  S (DeviceGetCount, "cuDeviceGetCount", (gint * count)) \
  S (DeviceGet, "cuDeviceGet", (CUdevice * device, gint ordinal)) \
  S (DeviceGetName, "cuDeviceGetName", \
      (gchar * name, gint length, CUdevice device)) \
  S (DeviceGetAttribute, "cuDeviceGetAttribute", \
      (gint * value, gint attribute, CUdevice device)) \
  S (DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", \
      (CUcontext * context, CUdevice device)) \
  S (DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", \
      (CUdevice device)) \
  S (CtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context)) \
  S (CtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext * context)) \
  S (ModuleLoadData, "cuModuleLoadData", \
      (CUmodule * module, gconstpointer image)) \
  S (ModuleUnload, "cuModuleUnload", (CUmodule module)) \
  S (ModuleGetFunction, "cuModuleGetFunction", \
      (CUfunction * function, CUmodule module, const gchar *name)) \
  S (FuncGetAttribute, "cuFuncGetAttribute", \
      (gint * value, gint attribute, CUfunction function)) \
  S (FuncSetAttribute, "cuFuncSetAttribute", \
      (CUfunction function, gint attribute, gint value)) \
  S (MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * address, gsize size)) \
  S (MemFree, "cuMemFree_v2", (CUdeviceptr address)) \
  S (MemHostAlloc, "cuMemHostAlloc", \
      (gpointer * memory, gsize size, guint flags)) \
  S (MemFreeHost, "cuMemFreeHost", (gpointer memory)) \
  S (MemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", \
      (CUdeviceptr * address, gpointer memory, guint flags)) \
  S (MemsetD32, "cuMemsetD32_v2", (CUdeviceptr to, guint value, gsize n)) \
  S (MemcpyHtoD, "cuMemcpyHtoD_v2", \
      (CUdeviceptr to, gconstpointer from, gsize size)) \
  S (MemcpyDtoH, "cuMemcpyDtoH_v2", \
      (gpointer to, CUdeviceptr from, gsize size)) \
  S (StreamCreate, "cuStreamCreate", (CUstream * stream, guint flags)) \
  S (StreamDestroy, "cuStreamDestroy_v2", (CUstream stream)) \
  S (StreamSynchronize, "cuStreamSynchronize", (CUstream stream)) \
  S (StreamBeginCapture, "cuStreamBeginCapture_v2", \
      (CUstream stream, gint mode)) \
  S (StreamEndCapture, "cuStreamEndCapture", \
      (CUstream stream, CUgraph * graph)) \
  S (EventCreate, "cuEventCreate", (CUevent * event, guint flags)) \
  S (EventDestroy, "cuEventDestroy_v2", (CUevent event)) \
  S (EventRecordWithFlags, "cuEventRecordWithFlags", \
      (CUevent event, CUstream stream, guint flags)) \
  S (EventElapsedTime, "cuEventElapsedTime", \
      (gfloat * ms, CUevent begin, CUevent end)) \
  S (LaunchKernelEx, "cuLaunchKernelEx", \
      (const CUlaunchConfig *config, CUfunction function, gpointer *arguments, \
          gpointer *extra)) \
  S (GraphInstantiate, "cuGraphInstantiateWithFlags", \
      (CUgraphExec * exec, CUgraph graph, guint64 flags)) \
  S (GraphDestroy, "cuGraphDestroy", (CUgraph graph)) \
  S (GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec)) \
  S (GraphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))

typedef struct {
#define MIMI_CUDA_MEMBER(name, symbol, arguments) CUresult (*name) arguments;
  MIMI_CUDA_SYMBOLS (MIMI_CUDA_MEMBER)
#undef MIMI_CUDA_MEMBER
  gint version; /* of the newest CUDA the driver knows: 13000 is 13.0 */
} MimiCuda;

/* The driver, initialised; it stays loaded for the life of the process. Fails
 * with MIMI_ERROR_NO_DEVICE, saying what is missing; a failure is not
 * remembered, so that a driver installed later is found. */
const MimiCuda *mimi_cuda_get (GError **error);

typedef struct {
  CUdevice device;
  gint ordinal;
  gint major, minor; /* compute capability */
  gint processors;
  gint shared; /* bytes of shared memory that a block can have */
  gchar name[128];
} MimiCudaDevice;

/* Finds device `ordinal`, or the first usable one if it is -1. MIMI_ERROR_
 * NO_DEVICE names each device that was passed over, and why. */
gboolean mimi_cuda_find_device (
    const MimiCuda *cuda, gint ordinal, MimiCudaDevice *device, GError **error);

/* Turns a result other than CUDA_SUCCESS into an error: what was being done,
 * and the driver's words for it. Out of memory becomes MIMI_ERROR_NO_MEMORY,
 * all else MIMI_ERROR_DEVICE. */
gboolean mimi_cuda_check (
    const MimiCuda *cuda, CUresult result, const gchar *what, GError **error);

/* Copies `size` bytes to the device, or clears `n` words there, and waits until
 * that is done. The driver's own calls may return before: the copy once `from` has
 * been read, and our streams do not wait for the default one, on which both are. */
gboolean mimi_cuda_upload (const MimiCuda *cuda, CUdeviceptr to,
    gconstpointer from, gsize size, GError **error);
gboolean mimi_cuda_clear (
    const MimiCuda *cuda, CUdeviceptr to, gsize n, GError **error);

/* CHECK (cuda, error, MemAlloc, (&address, size)): FALSE with `error` set if
 * the call failed. */
#define CHECK(cuda, error, name, arguments) \
  mimi_cuda_check (cuda, (cuda)->name arguments, "cu" #name, error)

G_END_DECLS
