/* Memory: allocation, copies, filling
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "api.h"

static CUresult
allocate (guint64 *address, gsize size, gboolean is_host)
{
  if (!address || !size)
    return CUDA_ERROR_INVALID_VALUE;
  sim_stats.allocations++;
  if (sim_fails (&sim_fail.alloc)) {
    api_log ("out of memory, on demand (%" G_GSIZE_FORMAT " bytes)", size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  SimAllocation *a = sim_alloc (size, is_host);
  if (!a)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *address = a->address;
  return CUDA_SUCCESS;
}

/* Freeing waits for all that may use the memory. */
static CUresult
release (guint64 address)
{
  CUresult r = streams_run_all (api_context ());
  if (!sim_free (address)) {
    api_log (
        "0x%" G_GINT64_MODIFIER "x is freed, but was never allocated", address);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return r;
}

API (cuMemAlloc_v2, CUdeviceptr *address, size_t size)
{
  ENTER ();
  SYNCHRONOUS ();
  guint64 a = 0;
  CUresult r = allocate (&a, address ? size : 0, FALSE);
  if (!r)
    *address = a;
  RETURN (r);
}

API (cuMemFree_v2, CUdeviceptr address)
{
  CUresult r = api_enter (TRUE);
  if (r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_INVALID_CONTEXT)
    RETURN (r);
  if (r) { /* after an error memory still goes, so that leaks are seen */
    sim_free (address);
    RETURN (r);
  }
  SYNCHRONOUS ();
  RETURN (address ? release (address) : CUDA_SUCCESS);
}

API (cuMemAllocAsync, CUdeviceptr *address, size_t size, CUstream stream)
{
  ENTER ();
  SYNCHRONOUS ();
  (void)stream;
  guint64 a = 0;
  CUresult r = allocate (&a, address ? size : 0, FALSE);
  if (!r)
    *address = a;
  RETURN (r);
}

API (cuMemFreeAsync, CUdeviceptr address, CUstream stream)
{
  ENTER ();
  SYNCHRONOUS ();
  (void)stream;
  RETURN (release (address));
}

static CUresult
host_alloc (void **memory, gsize size)
{
  guint64 a = 0;
  CUresult r = allocate (&a, memory ? size : 0, TRUE);
  if (!r)
    *memory = sim_host (a);
  return r;
}

API (cuMemHostAlloc, void **memory, size_t size, unsigned int flags)
{
  ENTER ();
  SYNCHRONOUS ();
  if (flags & ~7u)
    RETURN (CUDA_ERROR_INVALID_VALUE);
  RETURN (host_alloc (memory, size));
}

API (cuMemAllocHost_v2, void **memory, size_t size)
{
  ENTER ();
  SYNCHRONOUS ();
  RETURN (host_alloc (memory, size));
}

API (cuMemFreeHost, void *memory)
{
  CUresult r = api_enter (TRUE);
  if (r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_INVALID_CONTEXT)
    RETURN (r);
  SimAllocation *a = sim_find_host (memory);
  if (r) {
    if (a)
      sim_free (a->address);
    RETURN (r);
  }
  SYNCHRONOUS ();
  RETURN (a ? release (a->address) : CUDA_ERROR_INVALID_VALUE);
}

API (cuMemHostGetDevicePointer_v2, CUdeviceptr *address, void *memory,
    unsigned int flags)
{
  ENTER ();
  SimAllocation *a = sim_find_host (memory);
  if (!address || flags || !a)
    RETURN (CUDA_ERROR_INVALID_VALUE);
  *address = a->address + (guint64)((guint8 *)memory - sim_host (a->address));
  RETURN (CUDA_SUCCESS);
}

API (cuMemGetInfo_v2, size_t *available, size_t *total)
{
  ENTER ();
  *available = sim_config.memory - sim_memory_used ();
  *total = sim_config.memory;
  RETURN (CUDA_SUCCESS);
}

API (cuMemGetAddressRange_v2, CUdeviceptr *base, size_t *size,
    CUdeviceptr address)
{
  ENTER ();
  SimAllocation *a = sim_find (address);
  if (!a)
    RETURN (CUDA_ERROR_NOT_FOUND);
  if (base)
    *base = a->address;
  if (size)
    *size = a->size;
  RETURN (CUDA_SUCCESS);
}

/* ---- copies ---- */

static gboolean
device_ok (guint64 address, gsize size)
{
  if (sim_range_ok (address, size))
    return TRUE;
  api_log ("a copy of %" G_GSIZE_FORMAT
           " bytes at device address 0x%" G_GINT64_MODIFIER
           "x is not inside an allocation",
      size, address);
  return FALSE;
}

static void
count_copy (CopyKind kind, gsize size)
{
  guint64 *bytes[] = { &sim_stats.bytes_up, &sim_stats.bytes_down,
    &sim_stats.bytes_across };
  guint64 *copies[] = { &sim_stats.copies_up, &sim_stats.copies_down,
    &sim_stats.copies_across };
  *bytes[kind] += size;
  *copies[kind] += 1;
}

static CUresult
copy (CopyKind kind, guint64 device, guint64 source, void *host, gsize size,
    SimStream *stream, gboolean wait)
{
  if (!size)
    return CUDA_SUCCESS;
  if (!stream_valid (stream))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!device_ok (device, size) ||
      (kind == COPY_ACROSS ? !device_ok (source, size) : !host))
    return CUDA_ERROR_INVALID_VALUE;
  gboolean captured =
      stream->capture || (stream->origin && stream->origin->capture);
  SimNode *n = node_new (NODE_COPY);
  n->copy = kind;
  n->device = device;
  n->source = source;
  n->host = host;
  n->size = size;
  /* Pinned memory is read when the copy runs, other memory at the call. */
  if (kind == COPY_UP && !captured && !sim_find_host (host))
    n->staged = g_memdup2 (host, size);
  if (!captured)
    count_copy (kind, size);
  gboolean staged = n->staged != NULL;
  CUresult r = stream_add (stream, n);
  if (r)
    return r;
  /* A copy up returns as soon as other memory than pinned has been read. */
  if (wait && !staged) {
    r = stream == stream->context->legacy
            ? streams_run_blocking (stream->context)
            : stream_run (stream);
    sim_stats.waits++;
  } else if (kind == COPY_DOWN && !captured && !sim_find_host (host)) {
    r = stream_run (stream); /* to pageable memory it is synchronous */
  }
  return r;
}

#define COPY_SYNC(kind, device, source, host, size) \
  do { \
    ENTER (); \
    SYNCHRONOUS (); \
    RETURN (copy ( \
        kind, device, source, host, size, api_context ()->legacy, TRUE)); \
  } while (0)

API (cuMemcpyHtoD_v2, CUdeviceptr to, const void *from, size_t size)
{
  COPY_SYNC (COPY_UP, to, 0, (void *)from, size);
}

API (cuMemcpyDtoH_v2, void *to, CUdeviceptr from, size_t size)
{
  COPY_SYNC (COPY_DOWN, from, 0, to, size);
}

API (cuMemcpyDtoD_v2, CUdeviceptr to, CUdeviceptr from, size_t size)
{
  COPY_SYNC (COPY_ACROSS, to, from, NULL, size);
}

API (cuMemcpyHtoDAsync_v2, CUdeviceptr to, const void *from, size_t size,
    CUstream stream)
{
  ENTER ();
  RETURN (copy (COPY_UP, to, 0, (void *)from, size, stream_of (stream), FALSE));
}

API (cuMemcpyDtoHAsync_v2, void *to, CUdeviceptr from, size_t size,
    CUstream stream)
{
  ENTER ();
  RETURN (copy (COPY_DOWN, from, 0, to, size, stream_of (stream), FALSE));
}

API (cuMemcpyDtoDAsync_v2, CUdeviceptr to, CUdeviceptr from, size_t size,
    CUstream stream)
{
  ENTER ();
  RETURN (copy (COPY_ACROSS, to, from, NULL, size, stream_of (stream), FALSE));
}

/* One address space: which way follows from the addresses. */
static CUresult
copy_any (
    guint64 to, guint64 from, gsize size, SimStream *stream, gboolean wait)
{
  gboolean up = sim_find (from) == NULL, down = sim_find (to) == NULL;
  if (up && down) {
    memmove ((void *)(gintptr)to, (void *)(gintptr)from, size);
    return CUDA_SUCCESS;
  }
  return up ? copy (COPY_UP, to, 0, (void *)(gintptr)from, size, stream, wait)
         : down ? copy (COPY_DOWN, from, 0, (void *)(gintptr)to, size, stream,
                      wait)
                : copy (COPY_ACROSS, to, from, NULL, size, stream, wait);
}

API (cuMemcpy, CUdeviceptr to, CUdeviceptr from, size_t size)
{
  ENTER ();
  SYNCHRONOUS ();
  RETURN (copy_any (to, from, size, api_context ()->legacy, TRUE));
}

API (cuMemcpyAsync, CUdeviceptr to, CUdeviceptr from, size_t size,
    CUstream stream)
{
  ENTER ();
  RETURN (copy_any (to, from, size, stream_of (stream), FALSE));
}

/* ---- filling ---- */

/* None of these waits for the device: cuMemset is in order with what is on the
 * default stream, and with nothing else. */

static CUresult
set (guint64 device, guint32 value, guint width, gsize n, SimStream *stream)
{
  if (!n)
    return CUDA_SUCCESS;
  if (!stream_valid (stream))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!device_ok (device, n * width) || device % width)
    return CUDA_ERROR_INVALID_VALUE;
  SimNode *node = node_new (NODE_SET);
  node->device = device;
  node->value = value;
  node->width = width;
  node->size = n * width;
  if (!stream->capture)
    sim_stats.memsets++;
  return stream_add (stream, node);
}

#define SET(name, type, width) \
  API (name##_v2, CUdeviceptr to, type value, size_t n) \
  { \
    ENTER (); \
    SYNCHRONOUS (); \
    RETURN (set (to, value, width, n, api_context ()->legacy)); \
  } \
  API (name##Async, CUdeviceptr to, type value, size_t n, CUstream stream) \
  { \
    ENTER (); \
    RETURN (set (to, value, width, n, stream_of (stream))); \
  }
SET (cuMemsetD8, unsigned char, 1)
SET (cuMemsetD16, unsigned short, 2)
SET (cuMemsetD32, unsigned int, 4)
