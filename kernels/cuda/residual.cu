/* A residual block in one kernel, from 9.0 on.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * y = elu (x + skip (elu (residual (elu (x))))): each block of a cluster makes
 * 16 hidden channels of a tile (or 16 more, and 16 more), sends them to all of
 * the cluster, and makes its share of the output. The warps of a block share
 * the channels that are summed, as in gemm.cuh.
 */
#include "cluster.cuh"
#include "product.cuh"
#include "staging.cuh"

/* Outputs of the second product, at once. */
#define OUTPUTS 32
#define PARTIAL_STRIDE 20

/* Grid: (ranks, tiles of all entries); a cluster a tile. */
template <typename Raw, int PRODUCTS>
static __device__ void
residual (const MimiResidualArgs &p)
{
  constexpr int TAPS = 3, H = TAPS - 1, STEPS1 = 4, STEPS2 = 2;
  constexpr int VALUES = OUTPUTS * TILE / MIMI_CUDA_THREADS;
  extern __shared__ __align__ (16) float shared[];

  const unsigned warp = threadIdx.x / 32;
  const unsigned rank = blockIdx.x;
  const unsigned index = blockIdx.y / p.tiles, tile = blockIdx.y % p.tiles;
  const unsigned n_channels = 8 * p.part_rows1, n_hidden = 8 * p.part_rows2;
  const unsigned hidden_groups = (p.hidden + 15) / 16;
  float *x = shared, *hidden = x + n_channels * STAGED_STRIDE;
  float *partial = hidden + n_hidden * STAGED_STRIDE;

  cluster_begin ();
  Product<Raw, PRODUCTS, TAPS, STEPS1, 1, 2> first (
      p.weights1, p.channels, p.hidden, p.part_rows1, warp);
  Product<Raw, PRODUCTS, 1, STEPS2, OUTPUTS / 16, 2> second (
      p.weights2, p.hidden, p.channels, p.part_rows2, warp);
  first.load (rank);
  second.load (rank * (OUTPUTS / 16));
  const unsigned row = threadIdx.x / TILE, t = threadIdx.x % TILE;
  float bias1 = __ldg (p.bias1 + min (rank * 16 + row, p.hidden - 1));
  const MimiEntry entry = p.entries[index];
  const float *in =
      p.in + (size_t)index * p.stride + (size_t)tile * p.channels * TILE;
  const Past past (entry, in, tile, p.tiles, TILE, p.channels, p.stride);
  if (entry.state != 0)
    stage_history<H> (entry, past, p.history, p.channels, 0, n_channels, x);

  hold (first.mix () ^ second.mix (), p.tiles == 0, p.status);
  wait_for_inputs ();
  launch_dependents ();
  if (entry.state == 0) {
    cluster_wait ();
    return;
  }
  float *out =
      p.out + (size_t)index * p.stride + (size_t)tile * p.channels * TILE;
  bool overflow = false;
  Staged staged;
  staged.load (in, p.channels, 0, n_channels);
  stage_past<H, true> (past, p.channels, 0, n_channels, x);
  for (unsigned from = 0;;) {
    staged.apply_elu (n_channels - from);
    staged.store (x, p.channels, 0, n_channels, from);
    from += Staged::CHANNELS;
    if (from >= n_channels)
      break;
    staged.load (in, p.channels, from, n_channels - from);
  }
  __syncthreads ();
  if (rank == 0 && tile == p.tiles - 1)
    keep_history<H> (entry, p.history, p.channels, 0, n_channels, TILE, x);

  /* The hidden channels: 16 at a time, to everybody. */
  cluster_wait ();
  for (unsigned group = rank; group * 16 < n_hidden; group += p.ranks) {
    if (group != rank) {
      first.load (group);
      bias1 = __ldg (p.bias1 + min (group * 16 + row, p.hidden - 1));
      __syncthreads (); /* the sums have been read */
    }
    if (group < hidden_groups)
      first.run (x, STAGED_STRIDE, STAGED_PAST - H, 2);
    first.leave (partial, PARTIAL_STRIDE, 16, warp, 0);
    __syncthreads ();
    float y = sum_parts<WARPS> (
                  partial + row * PARTIAL_STRIDE + t, 16 * PARTIAL_STRIDE) +
              bias1;
    /* Channels that do not exist are a bias, and their weights zero. */
    overflow |= overflows (y);
    y = elu (y);
    const float *place =
        hidden + (group * 16 + row) * STAGED_STRIDE + STAGED_PAST + t;
    if (group * 16 + row < n_hidden)
      for (unsigned other = 0; other < p.ranks; other++)
        store_remote (remote (place, other), y);
  }
  cluster_arrive ();
  for (unsigned row0 = rank * OUTPUTS;; row0 += p.ranks * OUTPUTS) {
    float bias2[VALUES], old[VALUES];
#pragma unroll
    for (int i = 0; i < VALUES; i++) {
      const unsigned n = min (row0 + row + i * 16, p.channels - 1);
      bias2[i] = __ldg (p.bias2 + n);
      old[i] = in[n * TILE + t];
    }
    ask_first ();
    /* Even who has nothing left to do must not leave while others write. */
    if (row0 == rank * OUTPUTS)
      cluster_wait ();
    if (row0 >= p.channels)
      break;
    if (row0 != rank * OUTPUTS) {
      second.load (row0 / 16);
      __syncthreads ();
    }
    second.run (hidden, STAGED_STRIDE, STAGED_PAST, 2);
    second.leave (partial, PARTIAL_STRIDE, OUTPUTS, warp, 0);
    __syncthreads ();
#pragma unroll
    for (int i = 0; i < VALUES; i++) {
      const unsigned n = row0 + row + i * 16;
      const float y =
          old[i] +
          sum_parts<WARPS> (partial + (row + i * 16) * PARTIAL_STRIDE + t,
              OUTPUTS * PARTIAL_STRIDE) +
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

KERNEL_RESIDUAL (f32, uint4, 3)
KERNEL_RESIDUAL (tf32, uint4, 2)
KERNEL_RESIDUAL (bf16, uint2, 2)
