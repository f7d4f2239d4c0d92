/* Streams, capture, graphs, pinned memory, failures on demand
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "test.h"

#include <string.h>

static CUmodule module;
static CUfunction add, copy;

static void
open_api (void)
{
  gpu_open ("9.0");
  module = gpu_module ("api");
  add = gpu_function (module, "add");
  copy = gpu_function (module, "copy");
}

static void
close_api (void)
{
  OK (cuModuleUnload (module));
  gpu_close ();
}

static CUresult
launch_add (CUdeviceptr x, gint value, CUstream stream)
{
  void *arguments[] = { &x, &value };
  return cuLaunchKernel (add, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}

static gint
first (CUdeviceptr x)
{
  gint value;
  OK (cuMemcpyDtoH_v2 (&value, x, 4));
  return value;
}

/* Nothing happens before somebody waits for it. */
static void
test_lazy (void)
{
  gint zero[32] = { 0 }, *pinned;
  CUstream stream;
  open_api ();
  CUdeviceptr x = gpu_upload (zero, sizeof zero);
  OK (cuStreamCreate (&stream, 1));
  OK (launch_add (x, 3, stream));
  g_assert_cmpint (first (x), ==, 0); /* the stream is a non-blocking one */
  OK (cuStreamSynchronize (stream));
  g_assert_cmpint (first (x), ==, 3);

  /* Nor do fills, and copies of other memory than pinned, and such a stream does
   * not wait for them. */
  OK (cuMemsetD32_v2 (x, 7, 32));
  zero[0] = 8;
  OK (cuMemcpyHtoD_v2 (x + 4, zero, 4));
  zero[0] = 0;
  OK (launch_add (x, 1, stream));
  OK (cuStreamSynchronize (stream));
  g_assert_cmpint (first (x), ==, 7); /* the fill came after the sum */
  g_assert_cmpint (first (x + 4), ==, 8);

  /* Pinned memory is read when the copy runs, and written then. */
  OK (cuMemHostAlloc ((void **)&pinned, 128, 0));
  memset (pinned, 0, 128);
  pinned[0] = 10;
  OK (cuMemcpyHtoDAsync_v2 (x, pinned, 128, stream));
  pinned[0] = 20; /* the mistake */
  OK (cuStreamSynchronize (stream));
  g_assert_cmpint (first (x), ==, 20);
  OK (cuMemcpyDtoHAsync_v2 (pinned + 1, x, 4, stream));
  g_assert_cmpint (pinned[1], ==, 0);
  OK (cuStreamSynchronize (stream));
  g_assert_cmpint (pinned[1], ==, 20);
  OK (cuMemFreeHost (pinned));
  OK (cuStreamDestroy_v2 (stream));
  OK (cuMemFree_v2 (x));
  close_api ();
}

static void
test_events (void)
{
  gint zero[32] = { 0 };
  CUstream a, b;
  CUevent event, end;
  gfloat ms;
  open_api ();
  CUdeviceptr x = gpu_upload (zero, sizeof zero);
  CUdeviceptr y = gpu_upload (zero, sizeof zero);
  void *arguments[] = { &y, &x };
  OK (cuStreamCreate (&a, 1));
  OK (cuStreamCreate (&b, 1));
  OK (cuEventCreate (&event, 0));
  OK (cuEventCreate (&end, 0));
  OK (launch_add (x, 1, a));
  OK (cuEventRecord (event, a));
  OK (launch_add (x, 1, a));
  OK (cuStreamWaitEvent (b, event, 0));
  OK (cuLaunchKernel (copy, 1, 1, 1, 32, 1, 1, 0, b, arguments, NULL));
  OK (cuEventRecord (end, b));
  g_assert_cmpint (cuEventQuery (end), ==, CUDA_ERROR_NOT_READY);
  OK (cuEventSynchronize (end));
  OK (cuEventQuery (end));
  OK (cuEventElapsedTime (&ms, event, end));
  g_assert_cmpfloat (ms, >=, 0);
  g_assert_cmpint (first (y), ==, 1 + 5);
  g_assert_cmpint (first (x), ==, 1); /* a's second is still to come */
  OK (cuCtxSynchronize ());
  g_assert_cmpint (first (x), ==, 2);
  while (cuStreamQuery (a) == CUDA_ERROR_NOT_READY)
    ;
  OK (cuEventDestroy_v2 (event));
  OK (cuEventDestroy_v2 (end));
  OK (cuStreamDestroy_v2 (a));
  OK (cuStreamDestroy_v2 (b));
  OK (cuMemFree_v2 (x));
  OK (cuMemFree_v2 (y));
  close_api ();
}

static CUgraphExec
capture_add (CUstream stream, CUdeviceptr x, gint *value)
{
  CUgraph graph;
  CUgraphExec exec;
  int status;
  OK (cuStreamBeginCapture_v2 (stream, 1));
  OK (cuStreamIsCapturing (stream, &status));
  g_assert_cmpint (status, ==, 1);
  OK (launch_add (x, *value, stream));
  OK (launch_add (x, *value, stream));
  OK (cuStreamEndCapture (stream, &graph));
  OK (cuGraphInstantiateWithFlags (&exec, graph, 0));
  OK (cuGraphDestroy (graph));
  return exec;
}

/* A graph keeps the arguments of its capture: the classic mistake. */
static void
test_frozen (void)
{
  gint zero[32] = { 0 }, value = 1;
  CUstream stream;
  CUgraph graph;
  open_api ();
  CUdeviceptr x = gpu_upload (zero, sizeof zero);
  OK (cuStreamCreate (&stream, 1));
  CUgraphExec exec = capture_add (stream, x, &value);
  g_assert_cmpint (first (x), ==, 0); /* capturing runs nothing */
  for (guint i = 0; i < 3; i++) {
    value = 100;
    OK (cuGraphLaunch (exec, stream));
  }
  OK (cuStreamSynchronize (stream));
  g_assert_cmpint (first (x), ==, 6);

  /* Update takes the parameters of another graph of the same shape. */
  OK (cuStreamBeginCapture_v2 (stream, 1));
  OK (launch_add (x, 10, stream));
  OK (launch_add (x, 10, stream));
  OK (cuStreamEndCapture (stream, &graph));
  OK (cuGraphLaunch (exec, stream));
  OK (cuGraphExecUpdate_v2 (exec, graph, NULL)); /* not of what is queued */
  OK (cuStreamSynchronize (stream));
  g_assert_cmpint (first (x), ==, 8);
  OK (cuGraphLaunch (exec, stream));
  OK (cuStreamSynchronize (stream));
  g_assert_cmpint (first (x), ==, 28);
  OK (cuGraphDestroy (graph));
  OK (cuStreamBeginCapture_v2 (stream, 1));
  OK (launch_add (x, 10, stream));
  OK (cuStreamEndCapture (stream, &graph));
  g_assert_cmpint (cuGraphExecUpdate_v2 (exec, graph, NULL), ==,
      CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  OK (cuGraphDestroy (graph));
  OK (cuGraphExecDestroy (exec));
  OK (cuStreamDestroy_v2 (stream));
  OK (cuMemFree_v2 (x));
  close_api ();
}

/* Memory that a graph points to is freed: its addresses are not used again. */
static void
test_stale (void)
{
  gint zero[32] = { 0 }, value = 1;
  CUstream stream;
  open_api ();
  CUdeviceptr x = gpu_upload (zero, sizeof zero);
  OK (cuStreamCreate (&stream, 1));
  CUgraphExec exec = capture_add (stream, x, &value);
  OK (cuMemFree_v2 (x));
  CUdeviceptr y = gpu_upload (zero, sizeof zero);
  OK (cuGraphLaunch (exec, stream));
  g_assert_cmpint (
      cuStreamSynchronize (stream), ==, CUDA_ERROR_ILLEGAL_ADDRESS);
  /* From now on everything fails, except giving up what there is. */
  g_assert_cmpint (
      cuStreamSynchronize (stream), ==, CUDA_ERROR_ILLEGAL_ADDRESS);
  g_assert_cmpint (cuMemFree_v2 (y), ==, CUDA_ERROR_ILLEGAL_ADDRESS);
  g_assert_cmpint (cuGraphExecDestroy (exec), ==, CUDA_ERROR_ILLEGAL_ADDRESS);
  gpu_close ();
}

static void
test_capture_refuses (void)
{
  gint zero[32] = { 0 };
  CUdeviceptr more;
  CUstream stream;
  CUgraph graph;
  open_api ();
  CUdeviceptr x = gpu_upload (zero, sizeof zero);
  OK (cuStreamCreate (&stream, 1));
  for (guint i = 0; i < 4; i++) {
    OK (cuStreamBeginCapture_v2 (stream, 1));
    OK (launch_add (x, 1, stream));
    CUresult r = i == 0   ? cuStreamSynchronize (stream)
                 : i == 1 ? cuMemAlloc_v2 (&more, 4)
                 : i == 2 ? cuMemcpyHtoD_v2 (x, zero, 4)
                          : cuCtxSynchronize ();
    g_assert_cmpint (r, ==, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    g_assert_cmpint (cuStreamEndCapture (stream, &graph), ==,
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    g_assert_null (graph);
  }
  OK (cuMemFree_v2 (x));
  OK (cuStreamDestroy_v2 (stream));
  close_api ();
}

/* Work of two streams in one graph; what was forked has to come back. */
static void
test_fork (void)
{
  gint zero[32] = { 0 };
  CUstream a, b;
  CUevent fork, join;
  CUgraph graph;
  CUgraphExec exec;
  open_api ();
  CUdeviceptr x = gpu_upload (zero, sizeof zero);
  OK (cuStreamCreate (&a, 1));
  OK (cuStreamCreate (&b, 1));
  OK (cuEventCreate (&fork, 2));
  OK (cuEventCreate (&join, 2));
  for (guint i = 0; i < 2; i++) {
    OK (cuStreamBeginCapture_v2 (a, 1));
    OK (cuEventRecord (fork, a));
    OK (cuStreamWaitEvent (b, fork, 0));
    OK (launch_add (x, 4, b));
    if (i == 0) {
      OK (cuEventRecord (join, b));
      OK (cuStreamWaitEvent (a, join, 0));
      OK (launch_add (x, 1, a));
      OK (cuStreamEndCapture (a, &graph));
      OK (cuGraphInstantiateWithFlags (&exec, graph, 0));
      OK (cuGraphLaunch (exec, a));
      OK (cuStreamSynchronize (a));
      g_assert_cmpint (first (x), ==, 5);
      OK (cuGraphExecDestroy (exec));
      OK (cuGraphDestroy (graph));
    } else {
      g_assert_cmpint (cuStreamEndCapture (a, &graph), ==,
          CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    }
  }
  OK (cuEventDestroy_v2 (fork));
  OK (cuEventDestroy_v2 (join));
  OK (cuStreamDestroy_v2 (a));
  OK (cuStreamDestroy_v2 (b));
  OK (cuMemFree_v2 (x));
  close_api ();
}

/* Events that are nodes of a graph are recorded anew each time it runs. */
static void
test_graph_events (void)
{
  gint zero[32] = { 0 };
  CUstream stream;
  CUevent start, end;
  CUgraph graph;
  CUgraphExec exec;
  gfloat ms;
  open_api ();
  CUdeviceptr x = gpu_upload (zero, sizeof zero);
  OK (cuStreamCreate (&stream, 1));
  OK (cuEventCreate (&start, 0));
  OK (cuEventCreate (&end, 0));
  OK (cuStreamBeginCapture_v2 (stream, 1));
  OK (cuEventRecordWithFlags (start, stream, 1));
  OK (launch_add (x, 1, stream));
  OK (cuEventRecordWithFlags (end, stream, 1));
  OK (cuStreamEndCapture (stream, &graph));
  OK (cuGraphInstantiateWithFlags (&exec, graph, 0));
  OK (cuGraphDestroy (graph));
  g_assert_cmpint (
      cuEventElapsedTime (&ms, start, end), ==, CUDA_ERROR_INVALID_HANDLE);
  for (gint i = 1; i <= 2; i++) {
    OK (cuGraphLaunch (exec, stream));
    g_assert_cmpint (
        cuEventElapsedTime (&ms, start, end), ==, CUDA_ERROR_NOT_READY);
    OK (cuEventSynchronize (end));
    OK (cuEventElapsedTime (&ms, start, end));
    g_assert_cmpfloat (ms, >=, 0);
    g_assert_cmpint (first (x), ==, i);
  }
  OK (cuGraphLaunch (exec, stream));
  OK (cuGraphLaunch (exec, stream)); /* two are under way */
  OK (cuStreamSynchronize (stream));
  OK (cuEventQuery (end));
  g_assert_cmpint (first (x), ==, 4);
  OK (cuGraphExecDestroy (exec));
  OK (cuEventDestroy_v2 (start));
  OK (cuEventDestroy_v2 (end));
  OK (cuStreamDestroy_v2 (stream));
  OK (cuMemFree_v2 (x));
  close_api ();
}

/* Mapped memory: the kernel's address is not the host's. */
static void
test_mapped (void)
{
  gint *host;
  CUdeviceptr device;
  open_api ();
  OK (cuMemHostAlloc ((void **)&host, 128, 2));
  OK (cuMemHostGetDevicePointer_v2 (&device, host, 0));
  g_assert_true (device != (CUdeviceptr)(gintptr)host);
  for (guint i = 0; i < 32; i++)
    host[i] = (gint)i;
  OK (launch_add (device, 7, NULL));
  OK (cuCtxSynchronize ());
  g_assert_cmpint (host[31], ==, 38);
  OK (cuMemFreeHost (host));
  close_api ();
}

/* What crosses the bus: once for all lanes of a warp, again for another warp;
 * the device's own memory does not count. */
static void
test_crossing (void)
{
  gint *host, zero[32] = { 0 };
  CUdeviceptr device;
  CudasimCounters before, after;
  open_api ();
  CUdeviceptr x = gpu_upload (zero, sizeof zero);
  CUfunction same = gpu_function (module, "same");
  OK (cuMemHostAlloc ((void **)&host, 256, 2));
  OK (cuMemHostGetDevicePointer_v2 (&device, host, 0));
  memset (host, 0, 256);
  g_assert_cmpint (cudasim_set ("count", "1"), ==, 0);
  cudasim_counters (&before);
  OK (launch_add (device, 7, NULL));
  OK (launch_add (x, 7, NULL));
  OK (cuCtxSynchronize ());
  cudasim_counters (&after);
  g_assert_cmpuint (after.mapped_read - before.mapped_read, ==, 128);
  g_assert_cmpuint (after.mapped_written - before.mapped_written, ==, 128);
  g_assert_cmpuint (after.mapped_again - before.mapped_again, ==, 0);

  /* two warps read the same word */
  before = after;
  OK (gpu_run (same, 1, 64, 0, &device, &device, NULL));
  cudasim_counters (&after);
  g_assert_cmpuint (after.mapped_read - before.mapped_read, ==, 8);
  g_assert_cmpuint (after.mapped_again - before.mapped_again, ==, 4);
  g_assert_cmpuint (after.mapped_written - before.mapped_written, ==, 0);

  CudasimKernel kernel;
  g_assert_cmpint (cudasim_kernel ("same", &kernel), ==, 0);
  g_assert_cmpuint (kernel.mapped_read, ==, 8);
  g_assert_cmpuint (kernel.mapped_again, ==, 4);
  g_assert_cmpint (cudasim_set ("count", "0"), ==, 0);
  OK (cuMemFreeHost (host));
  OK (cuMemFree_v2 (x));
  close_api ();
}

static void
test_host_pointer (void)
{
  gint host[32];
  open_api ();
  OK (launch_add ((CUdeviceptr)(gintptr)host, 1, NULL));
  g_assert_cmpint (cuCtxSynchronize (), ==, CUDA_ERROR_ILLEGAL_ADDRESS);
  gpu_close ();
}

static void
test_refusals (void)
{
  gint zero[32] = { 0 };
  open_api ();
  CUdeviceptr x = gpu_upload (zero, sizeof zero);
  gint value = 1;
  void *arguments[] = { &x, &value };
  /* more threads than __launch_bounds__, dynamic memory not asked for */
  g_assert_cmpint (
      cuLaunchKernel (add, 1, 1, 1, 512, 1, 1, 0, NULL, arguments, NULL), ==,
      CUDA_ERROR_INVALID_VALUE);
  g_assert_cmpint (
      cuLaunchKernel (add, 1, 1, 1, 32, 1, 1, 65536, NULL, arguments, NULL), ==,
      CUDA_ERROR_INVALID_VALUE);
  OK (cuFuncSetAttribute (add, 8, 65536));
  OK (cuLaunchKernel (add, 1, 1, 1, 32, 1, 1, 65536, NULL, arguments, NULL));
  g_assert_cmpint (gpu_launch (add, 3, 32, 0, 2, FALSE, NULL, arguments), ==,
      CUDA_ERROR_INVALID_VALUE); /* not a multiple of the cluster */
  g_assert_cmpint (gpu_launch (add, 32, 32, 0, 16, FALSE, NULL, arguments), ==,
      CUDA_ERROR_INVALID_CLUSTER_SIZE);
  /* copies beyond an allocation */
  g_assert_cmpint (
      cuMemcpyHtoD_v2 (x, zero, 129), ==, CUDA_ERROR_INVALID_VALUE);
  g_assert_cmpint (
      cuMemcpyDtoH_v2 (zero, x + 4, 128), ==, CUDA_ERROR_INVALID_VALUE);
  g_assert_cmpint (cuMemFree_v2 (x + 4), ==, CUDA_ERROR_INVALID_VALUE);
  OK (cuMemFree_v2 (x));
  g_assert_cmpint (cuMemFree_v2 (x), ==, CUDA_ERROR_INVALID_VALUE);
  close_api ();
}

static void
test_no_context (void)
{
  CUdeviceptr x;
  CUcontext popped;
  gpu_open ("9.0");
  OK (cuCtxPopCurrent_v2 (&popped));
  g_assert_cmpint (cuMemAlloc_v2 (&x, 4), ==, CUDA_ERROR_INVALID_CONTEXT);
  OK (cuCtxPushCurrent_v2 (popped));
  gpu_close ();
}

static void
test_global (void)
{
  CUdeviceptr address;
  size_t size;
  gint zero[32] = { 0 }, nine = 9;
  open_api ();
  OK (cuModuleGetGlobal_v2 (&address, &size, module, "offset"));
  g_assert_cmpuint (size, ==, 4);
  g_assert_cmpint (first (address), ==, 5);
  OK (cuMemcpyHtoD_v2 (address, &nine, 4));
  CUdeviceptr x = gpu_upload (zero, sizeof zero), y = gpu_empty (128);
  OK (gpu_run (copy, 1, 32, 0, &y, &x, NULL));
  g_assert_cmpint (first (y), ==, 9);
  OK (cuMemFree_v2 (x));
  OK (cuMemFree_v2 (y));
  close_api ();
}

static void
test_failures (void)
{
  gint zero[32] = { 0 };
  CUdeviceptr a, b;
  open_api ();
  g_assert_cmpint (cudasim_set ("fail", "nonsense"), ==, -1);

  g_assert_cmpint (cudasim_set ("fail", "alloc:2"), ==, 0);
  OK (cuMemAlloc_v2 (&a, 128));
  g_assert_cmpint (cuMemAlloc_v2 (&b, 4), ==, CUDA_ERROR_OUT_OF_MEMORY);
  OK (cuMemAlloc_v2 (&b, 128));
  OK (cuMemcpyHtoD_v2 (a, zero, 128));

  g_assert_cmpint (cudasim_set ("fail", "launch:1,symbol:cuFoo"), ==, 0);
  g_assert_cmpint (
      launch_add (a, 1, NULL), ==, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  OK (launch_add (a, 1, NULL));
  OK (cuCtxSynchronize ());

  g_assert_cmpint (cudasim_set ("fail", "sticky:2"), ==, 0);
  OK (launch_add (a, 1, NULL));
  OK (cuCtxSynchronize ());
  OK (launch_add (a, 1, NULL));
  g_assert_cmpint (cuCtxSynchronize (), ==, CUDA_ERROR_ILLEGAL_ADDRESS);
  g_assert_cmpint (cuMemAlloc_v2 (&b, 4), ==, CUDA_ERROR_ILLEGAL_ADDRESS);
  cudasim_set ("fail", "");
  gpu_close ();

  g_assert_cmpint (cudasim_set ("fail", "no-device"), ==, 0);
  g_assert_cmpint (cuInit (0), ==, CUDA_ERROR_NO_DEVICE);
  g_assert_cmpint (cudasim_set ("fail", "old-driver"), ==, 0);
  int version;
  OK (cuDriverGetVersion (&version));
  g_assert_cmpint (version, <, 12000);
  cudasim_set ("fail", "");
}

static void
test_leaks (void)
{
  CudasimCounters before, after;
  cudasim_counters (&before);
  open_api ();
  gpu_empty (16); /* never freed; the module neither */
  gpu_close ();
  cudasim_counters (&after);
  g_assert_cmpuint (after.leaks - before.leaks, ==, 2);
  g_assert_cmpuint (after.live_allocations, ==, 0);
}

static void
test_proc_address (void)
{
  void *address;
  int status;
  OK (cuGetProcAddress_v2 ("cuMemAlloc", &address, 12000, 0, &status));
  g_assert_true (address == (void *)(gintptr)cuMemAlloc_v2);
  g_assert_cmpint (status, ==, 0);
  g_assert_cmpint (
      cuGetProcAddress_v2 ("cuNothing", &address, 12000, 0, &status), ==,
      CUDA_ERROR_NOT_FOUND);
}

/* After this the device is gone for good. */
static void
test_lost (void)
{
  gint zero[32] = { 0 };
  open_api ();
  CUdeviceptr x = gpu_upload (zero, sizeof zero);
  cudasim_set ("fail", "lost:1");
  OK (launch_add (x, 1, NULL));
  g_assert_cmpint (cuCtxSynchronize (), ==, CUDA_ERROR_UNKNOWN);
  g_assert_cmpint (cuCtxSynchronize (), ==, CUDA_ERROR_UNKNOWN);
  g_assert_cmpint (cuInit (0), ==, CUDA_ERROR_UNKNOWN);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/api/lazy", test_lazy);
  g_test_add_func ("/api/events", test_events);
  g_test_add_func ("/api/frozen", test_frozen);
  g_test_add_func ("/api/stale", test_stale);
  g_test_add_func ("/api/capture-refuses", test_capture_refuses);
  g_test_add_func ("/api/fork", test_fork);
  g_test_add_func ("/api/graph-events", test_graph_events);
  g_test_add_func ("/api/mapped", test_mapped);
  g_test_add_func ("/api/crossing", test_crossing);
  g_test_add_func ("/api/host-pointer", test_host_pointer);
  g_test_add_func ("/api/refusals", test_refusals);
  g_test_add_func ("/api/no-context", test_no_context);
  g_test_add_func ("/api/global", test_global);
  g_test_add_func ("/api/failures", test_failures);
  g_test_add_func ("/api/leaks", test_leaks);
  g_test_add_func ("/api/proc-address", test_proc_address);
  g_test_add_func ("/api/lost", test_lost);
  return g_test_run ();
}
