/* One batch size: its buffers, and the graph of a frame for all its entries.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "graph.h"

#include <string.h>

void
mimi_cuda_graph_free (MimiCudaGraph *self, const MimiCuda *cuda)
{
  if (self->exec)
    cuda->GraphExecDestroy (self->exec);
  if (self->begin)
    cuda->EventDestroy (self->begin);
  if (self->end)
    cuda->EventDestroy (self->end);
  if (self->memory)
    cuda->MemFree (self->memory);
  if (self->pinned)
    cuda->MemFreeHost (self->pinned);
  g_free (self);
}

static gboolean
allocate (MimiCudaGraph *self, const MimiCudaFrame *frame, guint entries,
    GError **error)
{
  const MimiCuda *cuda = frame->cuda;
  gsize activations = (gsize)entries * frame->scratch_length * sizeof (gfloat);
  gsize rows_at = entries * sizeof (MimiEntry);
  gsize overflow_at = rows_at + (gsize)entries * frame->row_bytes;
  gsize pcm_at = (overflow_at + entries * sizeof (guint32) + 127) / 128 * 128;
  gsize pinned = pcm_at + entries * MIMI_CUDA_PCM_BYTES;
  MimiCudaBatch *device = &self->device;
  CUdeviceptr host;

  if (!CHECK (cuda, error, MemAlloc,
          (&self->memory, activations + entries * sizeof (MimiEntry) +
                              entries * sizeof (guint32))) ||
      !CHECK (cuda, error, MemHostAlloc,
          ((gpointer *)&self->pinned, pinned,
              CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)) ||
      !CHECK (cuda, error, MemHostGetDevicePointer, (&host, self->pinned, 0)) ||
      /* Columns that a small layer does not fill are read, if not used. */
      !mimi_cuda_clear (cuda, self->memory, activations / 4, error))
    return FALSE;

  memset (self->pinned, 0, pinned);
  self->entries = (MimiEntry *)self->pinned;
  self->rows = self->pinned + rows_at;
  self->overflow = (guint32 *)(self->pinned + overflow_at);
  self->pcm = self->pinned + pcm_at;

  device->entries = entries;
  device->scratch = self->memory;
  device->device_entry = self->memory + activations;
  device->status = device->device_entry + entries * sizeof (MimiEntry);
  device->host_entry = host;
  device->host_rows = host + rows_at;
  device->host_overflow = host + overflow_at;
  device->host_pcm = host + pcm_at;
  return TRUE;
}

/* Events recorded from outside a graph would time its launch as well. */
static gboolean
launch (MimiCudaGraph *self, const MimiCudaFrame *frame, CUstream stream,
    GError **error)
{
  const MimiCuda *cuda = frame->cuda;

  return (!self->begin ||
             CHECK (cuda, error, EventRecordWithFlags,
                 (self->begin, stream, CU_EVENT_RECORD_EXTERNAL))) &&
         mimi_cuda_frame_launch (frame, &self->device, stream, error) &&
         (!self->end || CHECK (cuda, error, EventRecordWithFlags,
                            (self->end, stream, CU_EVENT_RECORD_EXTERNAL)));
}

static gboolean
capture (MimiCudaGraph *self, const MimiCudaFrame *frame, CUstream stream,
    GError **error)
{
  const MimiCuda *cuda = frame->cuda;
  CUgraph graph = NULL;
  gboolean ok;

  if (!CHECK (cuda, error, StreamBeginCapture,
          (stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)))
    return FALSE;
  ok = launch (self, frame, stream, error);
  /* A capture has to be ended even when it failed. */
  ok = CHECK (cuda, ok ? error : NULL, StreamEndCapture, (stream, &graph)) &&
       ok && CHECK (cuda, error, GraphInstantiate, (&self->exec, graph, 0));
  if (graph)
    cuda->GraphDestroy (graph);
  return ok;
}

MimiCudaGraph *
mimi_cuda_graph_new (
    const MimiCudaFrame *frame, guint entries, gboolean timed, GError **error)
{
  const MimiCuda *cuda = frame->cuda;
  MimiCudaGraph *self = g_new0 (MimiCudaGraph, 1);
  CUstream stream = NULL;
  gboolean ok;

  ok = allocate (self, frame, entries, error) &&
       (!timed || (CHECK (cuda, error, EventCreate, (&self->begin, 0)) &&
                      CHECK (cuda, error, EventCreate, (&self->end, 0)))) &&
       CHECK (cuda, error, StreamCreate, (&stream, CU_STREAM_NON_BLOCKING)) &&
       capture (self, frame, stream, error);
  if (stream)
    cuda->StreamDestroy (stream);
  if (ok)
    return self;
  mimi_cuda_graph_free (self, cuda);
  return NULL;
}

gboolean
mimi_cuda_graph_run (MimiCudaGraph *self, const MimiCuda *cuda, CUstream stream,
    guint64 *time, GError **error)
{
  gfloat ms = 0;

  *time = 0;
  if (!CHECK (cuda, error, GraphLaunch, (self->exec, stream)) ||
      !CHECK (cuda, error, StreamSynchronize, (stream)))
    return FALSE;
  if (self->begin &&
      !CHECK (cuda, error, EventElapsedTime, (&ms, self->begin, self->end)))
    return FALSE;
  *time = (guint64)(ms * 1e6);
  return TRUE;
}
