/* Every dense layer for few tiles, on any GPU.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What spread.cuh does with tensor cores and clusters, with float32 FMA and
 * without clusters: the channels of a layer are shared by `ranks` blocks and
 * their eight warps, a warp has all weights of its part on their way before it
 * looks at the input, and the last block to come adds what all of them have.
 *
 * Sums are those of gemm.cuh with lanes.cuh: the channels of a part in order,
 * the eight parts of a block, then the blocks.
 */
#pragma once

#include "epilogue.cuh"
#include "last.cuh"
#include "moments.cuh"
#include "part.cuh"
#include "staging.cuh"

/* Grid: (blocks of outputs, times ranks; tiles of all entries, over those of a
 * block). */
template <typename Weight, int TAPS, Prologue PROLOGUE, Epilogue EPILOGUE>
static __device__ void
split (const MimiGemmArgs &p)
{
  constexpr int H = TAPS - 1, VALUES = SPLIT_SUMS / MIMI_CUDA_THREADS;
  extern __shared__ __align__ (16) float shared[];

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned n_tiles = 1u << p.tiles_log2, rows = 64 >> p.tiles_log2;
  const unsigned rank = blockIdx.x % p.ranks, block = blockIdx.x / p.ranks;
  const unsigned row0 = block * rows;
  const unsigned index = (blockIdx.y << p.tiles_log2) / p.tiles;
  const unsigned tile0 = (blockIdx.y << p.tiles_log2) % p.tiles;
  const unsigned columns = min (p.times, TILE);
  /* The lane's outputs, and its half of a tile. */
  const unsigned quad = lane >> (p.tiles_log2 + 1) << 2;
  const unsigned half = lane & (2 * n_tiles - 1);

  /* The channels of the block, and their room in shared memory. */
  const unsigned channel0 = rank * PARTS * p.part_rows;
  const unsigned n_channels = PARTS * p.part_rows;
  const unsigned room = n_channels * STAGED_STRIDE;

  launch_dependents ();
  LanePart<Weight, TAPS> part (p.weights, p.outputs, p.inputs, p.part_rows,
      row0 + quad, channel0 + warp * p.part_rows);
  Staged staged;
  if (PROLOGUE == NORM)
    staged.load_norm (p.norm, p.inputs, channel0, n_channels);
  ask_first ();
  wait_for_inputs ();
  if (p.n_entries > 1 && p.entries[index].state == 0)
    return;

  /* Everything is asked for at once. */
  const float *in =
      p.in + (size_t)index * p.in_stride + (size_t)tile0 * p.inputs * TILE;
  const MimiEntry entry = p.entries[index];
  float mean[4], scale[4];
  for (unsigned i = 0; i < n_tiles; i++) {
    float *x = shared + i * room;
    const float *from = in + (size_t)i * p.inputs * TILE;
    staged.load (from, p.inputs, channel0, n_channels);
    if (PROLOGUE == NORM)
      join_moments<8> (
          (const float2 *)(p.moments + (size_t)index * p.in_stride), p.inputs,
          p.slice_log2, p.norm_eps, mean, scale);
    if constexpr (H > 0) {
      const Past past (
          entry, from, tile0 + i, p.tiles, p.times, p.inputs, p.in_stride);
      stage_history<H> (
          entry, past, p.history, p.inputs, channel0, n_channels, x);
      stage_past<H, PROLOGUE == ELU> (past, p.inputs, channel0, n_channels, x);
    }
    for (unsigned first = 0;;) {
      if (PROLOGUE == NORM)
        staged.normalise (mean, scale, n_channels - first);
      if (PROLOGUE == ELU)
        staged.apply_elu (n_channels - first);
      staged.store (x, p.inputs, channel0, n_channels, first);
      first += Staged::CHANNELS;
      if (first >= n_channels)
        break;
      if (PROLOGUE == NORM)
        staged.load_norm (
            p.norm, p.inputs, channel0 + first, n_channels - first);
      staged.load (from, p.inputs, channel0 + first, n_channels - first);
    }
  }
  __syncthreads ();
  if (H > 0 && block == 0 && tile0 + n_tiles == p.tiles)
    keep_history<H> (entry, p.history, p.inputs, channel0, n_channels, columns,
        shared + (n_tiles - 1) * room);

  part.run (shared + half / 2 * room + warp * p.part_rows * STAGED_STRIDE +
                STAGED_PAST + half % 2 * 8,
      STAGED_STRIDE);
  __syncthreads (); /* the sums take the place of the inputs */
  part.leave (shared + warp * SPLIT_WARP);
  __syncthreads ();

  /* What a thread finishes: neighbours are neighbours in time. */
  unsigned n[VALUES], tile[VALUES];
  const unsigned t = threadIdx.x % TILE;
  float sum[VALUES];
#pragma unroll
  for (int i = 0; i < VALUES; i++) {
    const unsigned at = threadIdx.x / TILE + i * (MIMI_CUDA_THREADS / TILE);
    const unsigned row = at % rows, other = at / rows;
    n[i] = row0 + row;
    tile[i] = tile0 + other;
    const float *from = shared + (row % 4 * 2 + t % 8 / 4) * SPLIT_SLOT +
                        (row / 4 * 2 * n_tiles + other * 2 + t / 8) * 4 + t % 4;
    sum[i] = 0.0f;
    float v[PARTS];
#pragma unroll
    for (int s = 0; s < PARTS; s++)
      v[s] = from[s * SPLIT_WARP];
#pragma unroll
    for (int s = 0; s < PARTS; s++)
      sum[i] += v[s];
  }

  const unsigned blocks = gridDim.x / p.ranks;
  const unsigned area = (tile0 >> p.tiles_log2) * blocks + block;
  if (p.ranks > 1) {
    float *sums = p.partial + (size_t)index * p.in_stride +
                  (size_t)area * p.ranks * SPLIT_SUMS + threadIdx.x;
#pragma unroll
    for (int i = 0; i < VALUES; i++)
      sums[rank * SPLIT_SUMS + i * MIMI_CUDA_THREADS] = sum[i];
    if (!comes_last (p.arrived + (size_t)index * p.in_stride + area, p.ranks))
      return;
  } else if (EPILOGUE == RESIDUAL) {
    __syncthreads (); /* outputs are to take the sums' place */
  }
  Place place[VALUES];
  bool exists[VALUES];
  float old[VALUES] = {};
#pragma unroll
  for (int i = 0; i < VALUES; i++) {
    exists[i] = n[i] < p.outputs && t < columns;
    place[i] = find_place<EPILOGUE> (
        p, entry, index, tile[i], min (n[i], p.outputs - 1), t);
    if ((EPILOGUE == RESIDUAL || EPILOGUE == SKIP) && exists[i])
      old[i] = *place[i].to;
  }
  if (p.ranks > 1) {
    const float *sums = p.partial + (size_t)index * p.in_stride +
                        (size_t)area * p.ranks * SPLIT_SUMS + threadIdx.x;
    constexpr int N = 4; /* ranks whose sums are on their way at once */
#pragma unroll
    for (int i = 0; i < VALUES; i++)
      sum[i] = 0.0f;
    for (unsigned r0 = 0; r0 < p.ranks; r0 += N) {
      float v[N][VALUES];
#pragma unroll
      for (int r = 0; r < N; r++)
#pragma unroll
        for (int i = 0; i < VALUES; i++)
          v[r][i] = r0 + r < p.ranks ? __ldcg (sums + (r0 + r) * SPLIT_SUMS +
                                               i * MIMI_CUDA_THREADS)
                                     : 0.0f;
      ask_first ();
#pragma unroll
      for (int r = 0; r < N; r++)
#pragma unroll
        for (int i = 0; i < VALUES; i++)
          sum[i] += v[r][i];
    }
  }
#pragma unroll
  for (int i = 0; i < VALUES; i++) {
    const float partner =
        EPILOGUE == QKV ? __shfl_xor_sync (FULL_WARP, sum[i], TILE) : 0.0f;
    float y = 0.0f;
    if (exists[i])
      y = finish<EPILOGUE> (p, index, place[i], sum[i], partner, old[i]);
    if (EPILOGUE == RESIDUAL)
      shared[(n[i] - row0) * (TILE + 1) + t] = y;
  }

  /* Slices of 32 outputs: a warp takes one time's of four. */
  if (EPILOGUE == RESIDUAL) {
    __syncthreads ();
    float value[VALUES];
    unsigned exist[VALUES];
    float2 moments[VALUES];
#pragma unroll
    for (int i = 0; i < VALUES; i++) {
      const unsigned which = warp + i * WARPS, slice = which / TILE;
      value[i] = shared[(slice * 32 + lane) * (TILE + 1) + which % TILE];
      exist[i] = min (p.outputs - min (row0 + slice * 32, p.outputs - 1), 32);
    }
    slice_moments (value, 32, exist, p.outputs % 32 == 0, moments);
    float2 *to = (float2 *)(p.moments + (size_t)index * p.out_stride);
#pragma unroll
    for (int i = 0; i < VALUES; i++) {
      const unsigned which = warp + i * WARPS, slice = which / TILE;
      if (lane == 0 && row0 + slice * 32 < p.outputs)
        to[(row0 / 32 + slice) * TILE + which % TILE] = moments[i];
    }
  }
}
