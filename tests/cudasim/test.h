/* What the tests of the simulator share
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <glib.h>

#include "cuda-abi.h"
#include "cudasim.h"

CUresult cuInit (unsigned int flags);
CUresult cuDriverGetVersion (int *version);
CUresult cuGetErrorName (CUresult code, const char **name);
CUresult cuDeviceGet (CUdevice *device, int ordinal);
CUresult cuDeviceGetAttribute (int *value, int which, CUdevice device);
CUresult cuDevicePrimaryCtxRetain (CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2 (CUdevice device);
CUresult cuCtxPushCurrent_v2 (CUcontext context);
CUresult cuCtxPopCurrent_v2 (CUcontext *context);
CUresult cuCtxSynchronize (void);
CUresult cuModuleLoadData (CUmodule *module, const void *image);
CUresult cuModuleUnload (CUmodule module);
CUresult cuModuleGetFunction (
    CUfunction *function, CUmodule module, const char *name);
CUresult cuModuleGetGlobal_v2 (
    CUdeviceptr *address, size_t *size, CUmodule module, const char *name);
CUresult cuFuncSetAttribute (CUfunction function, int which, int value);
CUresult cuMemAlloc_v2 (CUdeviceptr *address, size_t size);
CUresult cuMemFree_v2 (CUdeviceptr address);
CUresult cuMemHostAlloc (void **memory, size_t size, unsigned int flags);
CUresult cuMemFreeHost (void *memory);
CUresult cuMemHostGetDevicePointer_v2 (
    CUdeviceptr *address, void *memory, unsigned int flags);
CUresult cuMemcpyHtoD_v2 (CUdeviceptr to, const void *from, size_t size);
CUresult cuMemcpyDtoH_v2 (void *to, CUdeviceptr from, size_t size);
CUresult cuMemcpyDtoD_v2 (CUdeviceptr to, CUdeviceptr from, size_t size);
CUresult cuMemcpyHtoDAsync_v2 (
    CUdeviceptr to, const void *from, size_t size, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2 (
    void *to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemsetD32_v2 (CUdeviceptr to, unsigned int value, size_t n);
CUresult cuMemsetD8Async (
    CUdeviceptr to, unsigned char value, size_t n, CUstream stream);
CUresult cuStreamCreate (CUstream *stream, unsigned int flags);
CUresult cuStreamDestroy_v2 (CUstream stream);
CUresult cuStreamSynchronize (CUstream stream);
CUresult cuStreamQuery (CUstream stream);
CUresult cuStreamWaitEvent (CUstream stream, CUevent event, unsigned int flags);
CUresult cuStreamBeginCapture_v2 (CUstream stream, int mode);
CUresult cuStreamEndCapture (CUstream stream, CUgraph *graph);
CUresult cuStreamIsCapturing (CUstream stream, int *status);
CUresult cuEventCreate (CUevent *event, unsigned int flags);
CUresult cuEventDestroy_v2 (CUevent event);
CUresult cuEventRecord (CUevent event, CUstream stream);
CUresult cuEventRecordWithFlags (
    CUevent event, CUstream stream, unsigned int flags);
CUresult cuEventSynchronize (CUevent event);
CUresult cuEventQuery (CUevent event);
CUresult cuEventElapsedTime (float *ms, CUevent start, CUevent end);
CUresult cuGraphInstantiateWithFlags (
    CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch (CUgraphExec exec, CUstream stream);
CUresult cuGraphDestroy (CUgraph graph);
CUresult cuGraphExecDestroy (CUgraphExec exec);
CUresult cuGraphExecUpdate_v2 (CUgraphExec exec, CUgraph graph, void *result);
CUresult cuLaunchKernel (CUfunction function, unsigned int gx, unsigned int gy,
    unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
    unsigned int shared, CUstream stream, void **arguments, void **extra);
CUresult cuLaunchKernelEx (const CUlaunchConfig *config, CUfunction function,
    void **arguments, void **extra);
CUresult cuGetProcAddress_v2 (const char *symbol, void **address, int version,
    uint64_t flags, int *status);

#define OK(call) g_assert_cmpint (call, ==, CUDA_SUCCESS)

/* Begins with a fresh context on a card of this capability. */
void gpu_open (const gchar *capability);
void gpu_close (void);
/* name.fatbin of the build. */
CUmodule gpu_module (const gchar *name);
CUfunction gpu_function (CUmodule module, const gchar *name);
/* Memory with these bytes, or with nothing written to it. */
CUdeviceptr gpu_upload (gconstpointer data, gsize size);
CUdeviceptr gpu_empty (gsize size);
/* Into memory of g_malloc(). */
gpointer gpu_download (CUdeviceptr from, gsize size);
/* gpu_run (f, grid, block, shared, &a, &b, NULL): launches and waits. */
CUresult gpu_run (CUfunction function, guint grid, guint block, guint shared,
    ...) G_GNUC_NULL_TERMINATED;
/* With a cluster and, in the stream, programmatic launch. */
CUresult gpu_launch (CUfunction function, guint grid, guint block, guint shared,
    guint cluster, gboolean programmatic, CUstream stream, void **arguments);

/* Runs it for several seeds. */
void gpu_each_seed (GTestDataFunc func, gconstpointer data);
