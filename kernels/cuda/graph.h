/* One batch size: its buffers, and the graph of a frame for all its entries.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "frame.h"

G_BEGIN_DECLS

typedef struct {
  MimiCudaBatch device;
  CUgraphExec exec;
  CUdeviceptr memory; /* activations, entries and status */
  guint8 *pinned;     /* entries, rows, overflow, PCM: */
  MimiEntry *entries;
  guint8 *rows; /* [entry][frame->row_bytes] */
  guint32 *overflow;
  guint8 *pcm;        /* [entry][MIMI_CUDA_PCM_BYTES] */
  CUevent begin, end; /* nodes of the graph; NULL: nobody wants to know */
} MimiCudaGraph;

/* Allocates and captures, with the context current, on a stream of its own, so
 * that others may be decoding meanwhile. `timed` puts two events around the
 * kernels. */
MimiCudaGraph *mimi_cuda_graph_new (
    const MimiCudaFrame *frame, guint entries, gboolean timed, GError **error);
void mimi_cuda_graph_free (MimiCudaGraph *self, const MimiCuda *cuda);

/* One launch, one wait. `time` gets the nanoseconds from the first kernel's
 * start to the last one's end, 0 if the graph is not timed. */
gboolean mimi_cuda_graph_run (MimiCudaGraph *self, const MimiCuda *cuda,
    CUstream stream, guint64 *time, GError **error);

G_END_DECLS
