/* A residual block in one kernel, from 9.0 on.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * y = elu (x + skip (elu (residual (elu (x))))): each block of a cluster makes
 * 16 hidden channels of a tile (or 16 more, and 16 more), sends them to all of
 * the cluster, and makes its share of the output. The warps of a block share
 * the channels that are summed, as in gemm.cuh. Where there are processors for
 * it a cluster has half a tile: twice as many blocks, each with half to do.
 */
#include "cluster.cuh"
#include "product.cuh"
#include "staging.cuh"

/* Outputs of the second product, at once. */
#define OUTPUTS 32

/* Grid: (ranks, pieces of 8 HALVES columns of all entries); a cluster a piece. */
template <typename Raw, int PRODUCTS, int HALVES>
static __device__ void
residual (const MimiResidualArgs &p)
{
  constexpr int TAPS = 3, H = TAPS - 1, STEPS1 = 4, STEPS2 = 2;
  constexpr unsigned COLUMNS = 8 * HALVES, PIECES = TILE / COLUMNS;
  constexpr int VALUES = OUTPUTS * COLUMNS / MIMI_CUDA_THREADS;
  extern __shared__ __align__ (16) float shared[];

  const unsigned tid = threadIdx.x, warp = tid / 32;
  const unsigned rank = blockIdx.x;
  const unsigned column0 = blockIdx.y % PIECES * COLUMNS;
  const unsigned tile = blockIdx.y / PIECES % p.tiles;
  const unsigned index = blockIdx.y / PIECES / p.tiles;
  const unsigned n_channels = 8 * p.part_rows1, n_hidden = 8 * p.part_rows2;
  const unsigned hidden_groups = (p.hidden + 15) / 16;
  float *x = shared, *hidden = x + n_channels * STAGED_STRIDE;
  float *partial = hidden + n_hidden * STAGED_STRIDE;

  cluster_begin ();
  Product<Raw, PRODUCTS, TAPS, STEPS1, 1, HALVES, false, ThreeSums> first (
      p.weights1, p.channels, p.hidden, p.part_rows1, warp);
  Product<Raw, PRODUCTS, 1, STEPS2, OUTPUTS / 16, HALVES, false, ThreeSums>
      second (p.weights2, p.hidden, p.channels, p.part_rows2, warp);
  first.load (rank);
  second.load (rank * (OUTPUTS / 16));
  const unsigned row = tid / COLUMNS, t = tid % COLUMNS;
  float bias1 = __ldg (p.bias1 + min (rank * 16 + row, p.hidden - 1));
  float bias2[VALUES], old[VALUES];
  const auto each_output = [&] (unsigned row0, auto function) {
#pragma unroll
    for (int i = 0; i < VALUES; i++)
      function (i, min (row0 + row + i * 16, p.channels - 1));
  };
  const auto load_bias = [&] (int i, unsigned n) {
    bias2[i] = __ldg (p.bias2 + n);
  };
  each_output (rank * OUTPUTS, load_bias);
  const MimiEntry entry = p.entries[index];
  const size_t place0 =
      (size_t)index * p.stride + (size_t)tile * p.channels * TILE + column0;
  const float *in = p.in + place0, *from = p.elu + place0;
  const Past past (
      entry, from - column0, tile, p.tiles, TILE, p.channels, p.stride);
  /* The columns before these have been made by this launch. */
  const bool made = column0 > 0 || past.reach >= H;
  if (!made && entry.state != 0)
    stage_history<H> (entry, past, p.history, p.channels, 0, n_channels, x);

  hold (first.mix () ^ second.mix (), p.tiles == 0, p.status);
  wait_for_inputs ();
  launch_dependents ();
  if (entry.state == 0) {
    cluster_wait ();
    return;
  }
  /* Channels that do not exist are copies of the last: their weights are 0. */
  for (unsigned i = tid; i < n_channels * 2 * HALVES; i += MIMI_CUDA_THREADS) {
    const unsigned k = i / (2 * HALVES), part = i % (2 * HALVES) * 4;
    copy_to_shared (x + k * STAGED_STRIDE + STAGED_PAST + part,
        (const float4 *)(from + min (k, p.channels - 1) * TILE + part));
  }
  if (made) {
    const float *before = column0 > 0 ? from - H : past.tile + TILE - H;
    for (unsigned k = tid; k < n_channels; k += MIMI_CUDA_THREADS)
      copy_to_shared (x + k * STAGED_STRIDE + STAGED_PAST - H,
          (const float2 *)(before + min (k, p.channels - 1) * TILE));
  }
  const auto load_old = [&] (int i, unsigned n) { old[i] = in[n * TILE + t]; };
  each_output (rank * OUTPUTS, load_old);
  float *out = p.out + place0;
  bool overflow = false;
  wait_for_copies ();
  __syncthreads ();

  /* The hidden channels: 16 at a time, to everybody. */
  cluster_wait ();
  for (unsigned group = rank; group * 16 < n_hidden; group += p.ranks) {
    if (group != rank) {
      first.load (group);
      bias1 = __ldg (p.bias1 + min (group * 16 + row, p.hidden - 1));
      __syncthreads (); /* the sums have been read */
    }
    if (group < hidden_groups)
      first.run (x, STAGED_STRIDE, STAGED_PAST - H, HALVES);
    first.leave_close (partial, 16, warp);
    __syncthreads ();
    if (row < 16) {
      float y =
          sum_parts<WARPS> (partial + first.find_close (row, t), 16 * COLUMNS) +
          bias1;
      /* Channels that do not exist are a bias, and their weights zero. */
      overflow |= overflows (y);
      y = elu (y);
      float *place =
          hidden + (group * 16 + row) * STAGED_STRIDE + STAGED_PAST + t;
      if (group * 16 + row < n_hidden) {
        *place = y;
        for (unsigned i = 1; i < p.ranks; i++) /* a power of two of them */
          store_remote (remote (place, rank ^ i), y);
      }
    }
  }
  cluster_arrive ();
  /* Not sooner: what all wait for comes first. */
  if (rank == 0 && tile == p.tiles - 1 && column0 + COLUMNS == TILE)
    keep_history<H> (entry, p.history, p.channels, 0, n_channels, COLUMNS, x);
  /* Even who has nothing left to do must not leave while others write. */
  cluster_wait ();
  for (unsigned row0 = rank * OUTPUTS; row0 < p.channels;
       row0 += p.ranks * OUTPUTS) {
    if (row0 != rank * OUTPUTS) {
      each_output (row0, load_bias);
      each_output (row0, load_old);
      second.load (row0 / 16);
      __syncthreads ();
    }
    second.run (hidden, STAGED_STRIDE, STAGED_PAST, HALVES);
    second.leave_close (partial, OUTPUTS, warp);
    __syncthreads ();
#pragma unroll
    for (int i = 0; i < VALUES; i++) {
      const unsigned n = row0 + row + i * 16;
      const float y =
          old[i] +
          sum_parts<WARPS> (partial + second.find_close (row + i * 16, t),
              OUTPUTS * COLUMNS) +
          bias2[i];
      if (n < p.channels) {
        overflow |= overflows (y);
        out[n * TILE + t] = elu (y);
      }
    }
  }
  if (overflow)
    atomicOr (p.status + index, 1u);
}

#define KERNEL_RESIDUAL(name, ...) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS, 2) \
      mimi_spread_residual_##name (const __grid_constant__ MimiResidualArgs p) \
  { \
    residual<__VA_ARGS__> (p); \
  }

KERNEL_RESIDUAL (f32, uint4, 3, 2)
KERNEL_RESIDUAL (tf32, uint4, 2, 2)
KERNEL_RESIDUAL (bf16, uint2, 2, 2)
KERNEL_RESIDUAL (half_f32, uint4, 3, 1)
KERNEL_RESIDUAL (half_tf32, uint4, 2, 1)
KERNEL_RESIDUAL (half_bf16, uint2, 2, 1)
