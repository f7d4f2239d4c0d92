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

/* Grid: (ranks; blocks of outputs; tiles of all entries, over those of a
 * block). */
template <typename Weight, int TAPS, Prologue PROLOGUE, Epilogue EPILOGUE>
static __device__ void
split (const MimiGemmArgs &p)
{
  constexpr int H = TAPS - 1, VALUES = SPLIT_SUMS / MIMI_CUDA_THREADS;
  extern __shared__ __align__ (16) float shared[];

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned n_tiles = 1u << p.tiles_log2, rows = 64 >> p.tiles_log2;
  const unsigned rank = blockIdx.x, block = blockIdx.y;
  const unsigned row0 = block * rows;
  unsigned index = 0, tile0 = blockIdx.z << p.tiles_log2;
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
  if (WAITS)
    part.ask_sooner ();
  Staged staged;
  if (PROLOGUE == NORM)
    staged.load_norm (p.norm, p.inputs, channel0, n_channels);
  wait_for_inputs ();
  MimiEntry entry = p.entries[0]; /* on its way before the branch */
  ask_first ();
  if (p.n_entries > 1) {
    index = tile0 / p.tiles;
    tile0 -= index * p.tiles;
    entry = p.entries[index];
    if (entry.state == 0)
      return;
  }

  /* Everything is asked for at once: first what is staged, then the weights,
   * which are more. */
  const float *in =
      p.in + (size_t)index * p.in_stride + (size_t)tile0 * p.inputs * TILE;
  float mean[4], scale[4];
  staged.load (in, p.inputs, channel0, n_channels);
  if constexpr (H > 0) {
    const Past past (entry, in, tile0, p.tiles, p.times, p.inputs, p.in_stride);
    const float *kept = history_read (entry, p.history, p.inputs * H);
    for (unsigned k = threadIdx.x;; k += MIMI_CUDA_THREADS) {
      const unsigned channel = min (channel0 + k, p.inputs - 1);
      float before[H];
      past.each<H> (channel, [&] (int j, const float *place) {
        const float *there = kept + channel * H + past.reach + j;
        before[j] = *(H - j <= past.reach ? place : there);
      });
      ask_first ();
      if (!WAITS && k == threadIdx.x)
        part.ask_sooner ();
      if (k >= n_channels)
        break;
#pragma unroll
      for (int j = 0; j < H; j++) {
        const bool made = H - j <= past.reach;
        const bool exists =
            channel0 + k < p.inputs && (made || remembers (entry));
        if (PROLOGUE == ELU && made)
          before[j] = elu (before[j]);
        shared[k * STAGED_STRIDE + STAGED_PAST - H + j] =
            exists ? before[j] : 0.0f;
      }
    }
  } else if (PROLOGUE == NORM) {
    const float2 *moments =
        (const float2 *)(p.moments + (size_t)index * p.in_stride);
    Moments<8> all (p.inputs, p.slice_log2);
    float middle, unit;
    all.load (moments);
    if (!WAITS)
      part.ask_sooner ();
    all.join (moments, p.norm_eps, middle, unit);
    take_four (middle, unit, mean, scale);
  } else if (!WAITS) {
    part.ask_sooner ();
  }
  for (unsigned i = 0; i < n_tiles; i++) {
    float *x = shared + i * room;
    const float *from = in + (size_t)i * p.inputs * TILE;
    Staged next;
    if (i + 1 < n_tiles)
      next.load (from + p.inputs * TILE, p.inputs, channel0, n_channels);
    for (unsigned first = 0;;) {
      if (PROLOGUE == NORM)
        staged.normalise (mean, scale, n_channels - first);
      if (PROLOGUE == ELU)
        staged.apply_elu (n_channels - first);
      staged.store (x, p.inputs, channel0, n_channels, first);
      /* The last columns are the next tile's past. */
      if (H > 0 && i + 1 < n_tiles && threadIdx.x % 4 == 3)
        staged.store (x + room - TILE, p.inputs, channel0, n_channels, first);
      first += Staged::CHANNELS;
      if (first >= n_channels)
        break;
      if (PROLOGUE == NORM)
        staged.load_norm (
            p.norm, p.inputs, channel0 + first, n_channels - first);
      staged.load (from, p.inputs, channel0 + first, n_channels - first);
    }
    staged = next;
  }
  __syncthreads ();
  if (H > 0 && block == 0 && tile0 + n_tiles == p.tiles)
    keep_history<H> (entry, p.history, p.inputs, channel0, n_channels, columns,
        shared + (n_tiles - 1) * room);

  part.ask_later ();
  part.run (shared + half / 2 * room + warp * p.part_rows * STAGED_STRIDE +
                STAGED_PAST + half % 2 * 8,
      STAGED_STRIDE);
  __syncthreads (); /* the sums take the place of the inputs */
  part.leave (shared + warp * SPLIT_WARP);
  __syncthreads ();

  /* What a thread finishes: four times of an output. */
  const unsigned row = threadIdx.x / 4 % rows, other = threadIdx.x / 4 / rows;
  const unsigned t0 = threadIdx.x % 4 * 4;
  const unsigned n = row0 + row, tile = tile0 + other;
  const bool exists = n < p.outputs;
  float sum[VALUES];
  sum_four (shared, row, t0 + other * TILE, 2 * n_tiles, sum);

  const unsigned area = (tile0 >> p.tiles_log2) * gridDim.y + block;
  float *sums = p.partial + (size_t)index * p.in_stride +
                (size_t)area * p.ranks * SPLIT_SUMS + threadIdx.x * VALUES;
  Arrival arrival (p.arrived + (size_t)index * p.in_stride + area, p.ranks);
  if (p.ranks > 1) {
    store_four (sums + rank * SPLIT_SUMS, sum);
    arrival.count ();
  } else if (EPILOGUE == RESIDUAL) {
    __syncthreads (); /* outputs are to take the sums' place */
  }
  /* In the meantime. */
  Place place[VALUES];
  float old[VALUES] = {};
  find_places<EPILOGUE> (
      p, entry, index, tile, min (n, p.outputs - 1), t0, place);
  if (p.ranks > 1 && !arrival.is_last ())
    return;
  if (EPILOGUE == RESIDUAL || EPILOGUE == SKIP) {
    if (columns == TILE)
      add4 (old, __ldcg ((const float4 *)place[0].to));
    else
#pragma unroll
      for (int i = 0; i < VALUES; i++)
        if (t0 + i < columns)
          old[i] = *place[i].to;
  }
  if (p.ranks > 1) {
    constexpr int N = 8; /* ranks whose sums are on their way at once */
#pragma unroll
    for (int i = 0; i < VALUES; i++)
      sum[i] = 0.0f;
    for (unsigned r0 = 0; r0 < p.ranks; r0 += N) {
      float4 v[N];
#pragma unroll
      for (int r = 0; r < N; r++)
        v[r] = r0 + r < p.ranks
                   ? __ldcg ((const float4 *)(sums + (r0 + r) * SPLIT_SUMS))
                   : make_float4 (0, 0, 0, 0);
      ask_first ();
#pragma unroll
      for (int r = 0; r < N; r++)
        add4 (sum, v[r]);
    }
  }
  float y[VALUES];
  bool overflow = false;
  auto finish_all = [&] (bool gelu_tanh) {
#pragma unroll
    for (int i = 0; i < VALUES; i++) {
      const float partner =
          EPILOGUE == QKV ? __shfl_xor_sync (FULL_WARP, sum[i], 4) : 0.0f;
      const Output output =
          complete<EPILOGUE> (p, place[i], sum[i], partner, old[i], gelu_tanh);
      y[i] = output.value;
      overflow |= exists & t0 + i < columns & overflows (output.before);
    }
  };
  if (EPILOGUE == GELU && p.gelu_tanh) /* one branch for all */
    finish_all (true);
  else
    finish_all (false);
  if (exists) {
    if (columns == TILE && /* side by side */
        (EPILOGUE == QKV ? n < p.outputs / 3 * 2 : EPILOGUE != UP)) {
      store_four (place[0].to, y);
    } else {
#pragma unroll
      for (int i = 0; i < VALUES; i++)
        if (t0 + i < columns)
          *place[i].to = y[i];
    }
  }
  if (overflow)
    atomicOr (p.status + index, 1u);

  /* Slices of 32 outputs: a warp takes one time's of four. */
  if (EPILOGUE == RESIDUAL) {
#pragma unroll
    for (int i = 0; i < VALUES; i++)
      shared[row * (TILE + 1) + t0 + i] = y[i];
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
