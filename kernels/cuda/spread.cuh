/* Every dense layer again, spread wide for few tiles, from 9.0 on.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One stream is a matter of latency: all weights of a layer are in registers
 * before the kernel's input is there, and each warp has few channels to sum.
 * Sums are those of gemm.cuh, part by part.
 *
 *   CLUSTER  layers of one tile: the eight blocks of a cluster share the input
 *            channels, a warp has one part of 16 outputs. Every warp sends its
 *            sums to the blocks that own their times, two each.
 *   else     layers of more tiles: the eight warps of a block share the
 *            channels, for 32 outputs.
 */
#pragma once

#include "cluster.cuh"
#include "epilogue.cuh"
#include "moments.cuh"
#include "product.cuh"
#include "staging.cuh"

#define ALONE_OUTPUTS 32
#define ALONE_STRIDE 20

/* Grid: (blocks of outputs, times eight in a cluster; tiles of all entries). */
template <typename Raw, int PRODUCTS, int TAPS, bool CLUSTER, Prologue PROLOGUE,
    Epilogue EPILOGUE>
static __device__ void
spread (const MimiGemmArgs &p)
{
  constexpr int H = TAPS - 1, GROUPS = CLUSTER ? 1 : ALONE_OUTPUTS / 16;
  /* Outputs a thread finishes; steps of 8 channels whose weights it keeps. */
  constexpr int VALUES = CLUSTER ? 1 : ALONE_OUTPUTS * TILE / MIMI_CUDA_THREADS;
  constexpr int STEPS = TAPS == 1 ? 8 : TAPS == 7 ? 2 : 4;
  extern __shared__ __align__ (16) float shared[];

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned rank = CLUSTER ? blockIdx.x % MIMI_CUDA_RANKS : 0;
  const unsigned block = CLUSTER ? blockIdx.x / MIMI_CUDA_RANKS : blockIdx.x;
  /* What ends a layer has 32 parts, so that a block's rows are a slice. */
  const unsigned subs_log2 = !CLUSTER               ? 3
                             : EPILOGUE == RESIDUAL ? 2
                                                    : p.subs_log2;
  const unsigned part = (rank << subs_log2) + warp % (1u << subs_log2);
  const unsigned group = warp >> subs_log2; /* of 16 outputs, in the block */
  const unsigned rows = CLUSTER ? 16 * WARPS >> subs_log2 : ALONE_OUTPUTS;
  const unsigned row0 = block * rows;
  const unsigned index = blockIdx.y / p.tiles, tile = blockIdx.y % p.tiles;
  const unsigned columns = min (p.times, TILE);

  /* The channels of the block. */
  const unsigned channel0 = rank * p.part_rows << subs_log2;
  const unsigned n_channels = p.part_rows << subs_log2;

  if (CLUSTER)
    cluster_begin ();

  /* All that the kernels before do not write. */
  const bool second = EPILOGUE == QKV && p.second;
  MimiEntry entry = {};
  if (!second)
    entry = p.entries[index];
  Product<Raw, PRODUCTS, TAPS, STEPS, GROUPS, 2> product (
      p.weights, p.inputs, p.outputs, p.part_rows, part);
  product.load (row0 / 16 + group);

  /* What the thread finishes: neighbours are neighbours in time, or where the
   * output runs along channels (and for moments), channels. */
  const bool along = !CLUSTER || EPILOGUE == RESIDUAL || EPILOGUE == UP ||
                     (EPILOGUE == QKV && row0 >= p.outputs / 3 * 2);
  constexpr unsigned TIMES = CLUSTER ? 2 : TILE; /* that the block finishes */
  unsigned row[VALUES], time[VALUES];
  bool exists[VALUES];
  Place place[VALUES];
  float old[VALUES] = {};
#pragma unroll
  for (int i = 0; i < VALUES; i++) {
    const unsigned at = threadIdx.x + i * MIMI_CUDA_THREADS;
    row[i] = along ? at % rows : min (at / TIMES, rows - 1);
    time[i] = (along ? at / rows : at) % TIMES;
    const unsigned t = CLUSTER ? 2 * rank + time[i] : time[i];
    exists[i] = at < rows * TIMES && row0 + row[i] < p.outputs && t < columns;
    if (CLUSTER && !second)
      place[i] = find_place<EPILOGUE> (
          p, entry, index, tile, min (row0 + row[i], p.outputs - 1), t);
  }

  float *x = shared, *received = shared + n_channels * STAGED_STRIDE;
  const float *in =
      p.in + (size_t)index * p.in_stride + (size_t)tile * p.inputs * TILE;
  Staged staged;
  if (PROLOGUE == NORM)
    staged.load_norm (p.norm, p.inputs, channel0, n_channels);
  const Past past (entry, in, tile, p.tiles, p.times, p.inputs, p.in_stride);
  if (H > 0 && entry.state != 0)
    stage_history<H> (
        entry, past, p.history, p.inputs, channel0, n_channels, x);

  hold (product.mix (), p.n_entries == 0, p.status);
  wait_for_inputs ();
  /* Who comes next reads its entry before it waits. */
  launch_dependents ();
  if (second)
    entry = p.entries[index];
  if (entry.state == 0) {
    if (CLUSTER)
      cluster_wait ();
    return;
  }
  if (EPILOGUE == RESIDUAL)
    old[0] = *place[0].to;
  staged.load (in, p.inputs, channel0, n_channels);
  if (second)
    place[0] = find_place<EPILOGUE> (p, entry, index, tile,
        min (row0 + row[0], p.outputs - 1), 2 * rank + time[0]);
  if (H > 0)
    stage_past<H, false> (past, p.inputs, channel0, n_channels, x);
  float mean[4], scale[4];
  if (PROLOGUE == NORM)
    join_moments<8> ((const float2 *)(p.moments + (size_t)index * p.in_stride),
        p.inputs, p.slice_log2, p.norm_eps, mean, scale);
  for (unsigned first = 0;;) {
    if (PROLOGUE == NORM)
      staged.normalise (mean, scale, n_channels - first);
    staged.store (x, p.inputs, channel0, n_channels, first);
    first += Staged::CHANNELS;
    if (first >= n_channels)
      break;
    if (PROLOGUE == NORM)
      staged.load_norm (p.norm, p.inputs, channel0 + first, n_channels - first);
    staged.load (in, p.inputs, channel0 + first, n_channels - first);
  }
  __syncthreads ();
  if (H > 0 && block == 0 && tile == p.tiles - 1)
    keep_history<H> (
        entry, p.history, p.inputs, channel0, n_channels, columns, x);

  product.run (x - channel0 * STAGED_STRIDE, STAGED_STRIDE, STAGED_PAST - H,
      columns > 8 ? 2 : 1);

  /* Every sum to whoever finishes it: [rank][warp][16 outputs][2 times], or
   * [warp][32 outputs][16 times]. A lane has times 2 (lane % 4) and the next
   * of each half, of outputs lane / 4 and 8 more. */
  if (CLUSTER) {
    cluster_wait ();
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const unsigned place =
          remote (received + ((rank * WARPS + warp) * 16 + lane / 4) * 2,
              h * 4 + lane % 4);
      const Sums &sums = product.sums[0][h];
#pragma unroll
      for (int i = 0; i < 2; i++)
        store_remote (place + i * 8 * 2 * sizeof (float),
            sums.large[2 * i] + sums.small[2 * i],
            sums.large[2 * i + 1] + sums.small[2 * i + 1]);
    }
    cluster_arrive ();
    cluster_wait ();
  } else {
    product.leave (received, ALONE_STRIDE, ALONE_OUTPUTS, warp, 0);
    __syncthreads ();
  }

#pragma unroll
  for (int i = 0; i < VALUES; i++) {
    const float *from =
        CLUSTER
            ? received + ((row[i] / 16 << subs_log2) * 16 + row[i] % 16) * 2 +
                  time[i]
            : received + row[i] * ALONE_STRIDE + time[i];
    float sum = 0.0f, y = 0.0f;
    if (CLUSTER) {
      constexpr unsigned N = EPILOGUE == RESIDUAL ? 4 * PARTS : PARTS;
      for (unsigned s0 = 0; s0 < PARTS << subs_log2; s0 += N) {
        float v[N]; /* on their way at once */
#pragma unroll
        for (unsigned j = 0; j < N; j++) {
          const unsigned s = s0 + j;
          v[j] = from[((s >> subs_log2) * WARPS + s % (1u << subs_log2)) * 32];
        }
        ask_first ();
        if (EPILOGUE == RESIDUAL) { /* a rank's parts by themselves first */
#pragma unroll
          for (unsigned j = 0; j < N; j += 4)
            sum += 0.0f + v[j] + v[j + 1] + v[j + 2] + v[j + 3];
        } else {
#pragma unroll
          for (unsigned j = 0; j < N; j++)
            sum += v[j];
        }
      }
    } else {
      sum = sum_parts<PARTS> (from, ALONE_OUTPUTS * ALONE_STRIDE);
    }
    const float partner = EPILOGUE == QKV
                              ? __shfl_xor_sync (FULL_WARP, sum, along ? 1 : 2)
                              : 0.0f;
    if (!CLUSTER) /* no room for them earlier */
      place[i] = find_place<EPILOGUE> (
          p, entry, index, tile, min (row0 + row[i], p.outputs - 1), time[i]);
    if (exists[i])
      y = finish<EPILOGUE> (p, index, place[i], sum, partner, old[i]);
    /* A block's rows, 32 of them, are a slice: a warp has one time's. */
    if (EPILOGUE == RESIDUAL && warp < 2) {
      const float value[] = { y };
      float2 moments[1];
      slice_moments (value, 32, { min (p.outputs - row0, 32) }, moments);
      float *to = p.moments + (size_t)index * p.out_stride;
      if (lane == 0)
        ((float2 *)to)[block * TILE + 2 * rank + warp] = moments[0];
    }
  }
}
