/* How a frame flows through the kernels.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "kernels.h"
#include "pack.h"

G_BEGIN_DECLS

typedef enum {
  MIMI_CUDA_INPUT,
  MIMI_CUDA_FRONT,
  MIMI_CUDA_QKV,
  MIMI_CUDA_ATTENTION,
  MIMI_CUDA_PROJECT,
  MIMI_CUDA_EXPAND,
  MIMI_CUDA_FIRST,
  MIMI_CUDA_UP,
  MIMI_CUDA_RESIDUAL,
  MIMI_CUDA_SKIP,
  MIMI_CUDA_OUTPUT,
  /* For few streams, on what has clusters. */
  MIMI_CUDA_ENTER,
  MIMI_CUDA_SPREAD_QKV,
  MIMI_CUDA_SPREAD_ATTENTION,
  MIMI_CUDA_SPREAD_PROJECT,
  MIMI_CUDA_SPREAD_EXPAND,
  MIMI_CUDA_SPREAD_FIRST,
  MIMI_CUDA_SPREAD_UP,
  MIMI_CUDA_SPREAD_UP_TILES,
  MIMI_CUDA_SPREAD_RESIDUAL,
  MIMI_CUDA_SPREAD_RESIDUAL_HALF,
  MIMI_CUDA_SPREAD_TAIL,
  /* For one stream of a small network. */
  MIMI_CUDA_LAYERS,
  /* For many streams, on tensor cores. */
  MIMI_CUDA_MANY_QKV,
  MIMI_CUDA_MANY_PROJECT,
  MIMI_CUDA_MANY_EXPAND,
  MIMI_CUDA_MANY_FIRST,
  MIMI_CUDA_MANY_UP,
  MIMI_CUDA_MANY_RESIDUAL,
  MIMI_CUDA_MANY_SKIP,
  MIMI_CUDA_MANY_BLOCK,
  /* For few streams, without tensor cores. */
  MIMI_CUDA_SPLIT_QKV,
  MIMI_CUDA_SPLIT_ATTENTION,
  MIMI_CUDA_SPLIT_PROJECT,
  MIMI_CUDA_SPLIT_EXPAND,
  MIMI_CUDA_SPLIT_FIRST,
  MIMI_CUDA_SPLIT_UP,
  MIMI_CUDA_SPLIT_UP24,
  MIMI_CUDA_SPLIT_UP40,
  MIMI_CUDA_SPLIT_RESIDUAL,
  MIMI_CUDA_SPLIT_SKIP,
  MIMI_CUDA_SPLIT_BLOCK,
  MIMI_CUDA_SPLIT_TAIL,
  MIMI_CUDA_ENTER_ALONE,
  MIMI_CUDA_N_KERNELS
} MimiCudaKernel;

/* All that does not depend on the batch. Lengths and offsets in floats. */
typedef struct {
  const MimiCuda *cuda;
  const MimiNetwork *network;
  const MimiCudaWeights *weights;
  gint processors, shared; /* see MimiCudaDevice */
  gboolean overlap;        /* programmatic dependent launch */
  gboolean spread;         /* clusters, and the kernels that use them */
  gboolean alone;          /* the first two launches are one, see alone.cu */
  guint layers_shared;     /* bytes that layer.cu needs; 0: it cannot be used */
  gboolean
      attends_matrix; /* by attend.cu; layer.cu sums as attention.cu does */
  CUmodule module;
  CUfunction kernels[MIMI_CUDA_N_KERNELS];

  /* A stream's state. */
  guint ring_blocks; /* of a head */
  guint front_history, first_history, last_history;
  guint *rings; /* of each layer: keys, then values */
  guint up_history[MIMI_MAX_STAGES], res_history[MIMI_MAX_STAGES];
  guint state_length;

  /* An entry's activations. `wide` are two buffers that the stages use in
   * turn. */
  guint vector, residual, moments, query, mixed, ffn, first, wide[2], hidden;
  guint slice_log2;       /* channels of a slice of moments */
  guint partial, arrived; /* see split.cuh */
  guint scratch_length;

  guint row_bytes; /* room for a row of input */
} MimiCudaFrame;

/* Where one batch size's buffers are. The host's are mapped into the device:
 * a frame needs no copies. */
typedef struct {
  guint entries;
  CUdeviceptr scratch;      /* [entries][scratch_length] */
  CUdeviceptr device_entry; /* MimiEntry[entries] */
  CUdeviceptr status;       /* guint32[entries] */
  CUdeviceptr host_entry, host_rows, host_overflow, host_pcm;
} MimiCudaBatch;

#define MIMI_CUDA_PCM_BYTES (MIMI_FRAME_SAMPLES * sizeof (gfloat))

/* launch.c: of what kernel wants its name in an error. */
extern const gchar *const mimi_cuda_kernel_names[MIMI_CUDA_N_KERNELS];

/* Works out the layout, loads the module and finds the kernels. Fails with
 * MIMI_ERROR_UNSUPPORTED when the network has sizes no kernel can do. */
gboolean mimi_cuda_frame_init (MimiCudaFrame *self, const MimiCuda *cuda,
    const MimiCudaDevice *device, const MimiNetwork *network,
    const MimiCudaWeights *weights, GError **error);
void mimi_cuda_frame_clear (MimiCudaFrame *self);

/* Whether the kernels can do this network; before anything is allocated. */
gboolean mimi_cuda_frame_check (const MimiNetwork *network, GError **error);

/* Whether tensor cores are the faster way to the wanted precision. */
gboolean mimi_cuda_frame_wants_matrix (
    const MimiCudaDevice *device, MimiPrecision precision);

/* launch.c: launches all kernels of one frame for batch->entries streams. */
gboolean mimi_cuda_frame_launch (const MimiCudaFrame *self,
    const MimiCudaBatch *batch, CUstream stream, GError **error);

G_END_DECLS
