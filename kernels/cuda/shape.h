/* What shape a launch has: blocks, parts, shared memory.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "frame.h"

G_BEGIN_DECLS

/* Shared memory that a kernel of spread.cuh may ask for: what every GPU with
 * clusters has; those of 9.0 and 10.0 have room for two such blocks. */
#define MOST_SHARED (96 * 1024)
/* A channel as staging.cuh has it. */
#define STAGED_BYTES (24 * sizeof (gfloat))

static inline guint
divide_up (guint n, guint by)
{
  return (n + by - 1) / by;
}

/* Outputs a block, as a power of two: with tensor cores the most that still
 * give a single stream blocks for half of the GPU and more. */
guint mimi_cuda_choose_rows (const MimiCudaFrame *frame, MimiCudaKernel kernel,
    guint outputs, guint tiles);

/* Outputs of one block of the product that ends a layer, as a power of two: they are
 * a slice of moments or two, and a warp looks at one. */
guint mimi_cuda_choose_slice (const MimiCudaFrame *frame);

/* Eight parts (0), or where a cluster shares the channels as many more, as a power
 * of two, as let a warp have all weights of its part in registers. What ends a
 * layer always has 32, so that a cluster's outputs are a slice.
 * spread: of mimi_cuda_get_spread_kernel() */
guint mimi_cuda_choose_subs (MimiCudaKernel spread, guint inputs);

/* A block of spread.cuh. */
typedef struct {
  guint rows;   /* outputs */
  guint shared; /* bytes */
  gboolean cluster;
} MimiCudaBlock;

/* Returns whether there are registers and shared memory for it. */
gboolean mimi_cuda_get_block (MimiCudaKernel spread, guint taps,
    guint part_rows, guint subs_log2, MimiCudaBlock *block);

/* Whether so many blocks of eight tiles fill the GPU: then a warp of lanes.cuh
 * takes a tile and all of its channels, and weights are read once for eight. */
gboolean mimi_cuda_fills (
    const MimiCudaFrame *frame, guint blocks, guint tiles, guint times_over);

/* The kernel of spread.cuh for a layer, or MIMI_CUDA_N_KERNELS. */
MimiCudaKernel mimi_cuda_get_spread_kernel (
    const MimiCudaFrame *frame, MimiCudaKernel kernel, guint tiles);

/* How long a launch takes that has so many blocks, of whose warps each makes so
 * many steps of 8 channels and a tap (spread.cuh and its like); and a layer by
 * many.cuh, for all tiles, whose blocks then ask for so much shared memory, or
 * NULL. Cycles. */
gdouble mimi_cuda_cost_few (
    const MimiCudaFrame *frame, guint blocks, guint steps);
gdouble mimi_cuda_cost_many (const MimiCudaFrame *frame, guint taps,
    guint inputs, guint outputs, guint tiles, guint *shared);
/* The same of block.cuh, of tail.cu, and of output.cu. */
gdouble mimi_cuda_cost_block (
    const MimiCudaFrame *frame, guint channels, guint hidden, guint tiles);
gdouble mimi_cuda_cost_tail (const MimiCudaFrame *frame, guint tiles);
gdouble mimi_cuda_cost_output (guint entries);

/* The kernel of many.cuh for a layer. */
MimiCudaKernel mimi_cuda_get_many_kernel (MimiCudaKernel kernel);

/* Taps of a layer's convolution, or 1. */
guint mimi_cuda_get_taps (const MimiCudaFrame *frame, MimiCudaKernel kernel);

/* The kernel of split.cuh for a layer. */
MimiCudaKernel mimi_cuda_get_split_kernel (MimiCudaKernel kernel);

/* Whether tail.cu can make the residual block of a stage, and the output. */
gboolean mimi_cuda_is_tail (const MimiCudaFrame *frame, guint stage);

/* Bytes of shared memory of a block of split.cuh: inputs, and then sums. */
guint mimi_cuda_get_split_shared (guint part_rows, guint tiles_log2);

/* How the blocks of split.cuh share a layer. */
typedef struct {
  guint ranks;      /* blocks that share the channels */
  guint part_rows;  /* channels of each of their eight warps */
  guint tiles_log2; /* tiles a block */
  guint areas;      /* blocks besides, for one stream */
  guint columns;    /* a block of split_up.cu, or 0 for split.cuh */
} MimiCudaShares;

/* How they share a window of attention: its blocks of 16 positions. */
typedef struct {
  guint ranks, share; /* blocks of a head, and what each of them takes */
} MimiCudaWindow;

/* Blocks of 16 positions from the oldest that the first of `length` positions
 * sees up to the last of them, wherever the first is. */
guint mimi_cuda_count_blocks (const MimiNetwork *network, guint length);

/* For one stream, and for any: sums must not depend on the batch. */
MimiCudaWindow mimi_cuda_share_window (const MimiCudaFrame *frame);

/* The shares that are fastest by docs/cuda.md, for one stream: sums must not
 * depend on the batch. */
void mimi_cuda_share (const MimiCudaFrame *frame, guint taps, guint inputs,
    guint outputs, guint times, MimiCudaShares *shares);

G_END_DECLS
