/* Every dense layer again, spread wide for few tiles, from 9.0 on.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One stream is a matter of latency: all weights of a layer are in registers
 * before the kernel's input is there, and each warp has few channels to sum.
 * Sums are those of gemm.cuh and many.cuh, part by part.
 *
 * The eight blocks of a cluster share the input channels of a layer of one tile,
 * and each finishes two times of it. What has a LayerNorm in front is as wide as
 * it is deep: there a warp has all of its block's channels, of 16 outputs, and
 * sends its sums to their owners (spread_norm). Elsewhere the warps of a block
 * share its channels too; then the block adds up its parts first, and sends
 * less (spread_parts). Layers of more tiles do without clusters. A part that has
 * more channels than fit in registers is many.cuh's (shape.c knows).
 */
#pragma once

#include "cluster.cuh"
#include "epilogue.cuh"
#include "moments.cuh"
#include "pairs.cuh"
#include "product.cuh"

/* Grid: (blocks of outputs times eight; entries). */
template <typename Raw, int PRODUCTS, Epilogue EPILOGUE>
static __device__ void
spread_norm (const MimiGemmArgs &p)
{
  extern __shared__ __align__ (16) float shared[];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned rank = blockIdx.x % MIMI_CUDA_RANKS;
  const unsigned block = blockIdx.x / MIMI_CUDA_RANKS, index = blockIdx.y;
  const unsigned subs_log2 = p.subs_log2;
  const unsigned part = (rank << subs_log2) + warp % (1u << subs_log2);
  const unsigned group = warp >> subs_log2; /* of 16 outputs, in the block */
  const unsigned rows = 16 * WARPS >> subs_log2, row0 = block * rows;
  const unsigned columns = min (p.times, TILE);

  /* The channels of the block. */
  const unsigned channel0 = rank * p.part_rows << subs_log2;
  const unsigned n_units = (p.part_rows << subs_log2) / 8;

  cluster_begin ();

  /* All that the kernels before do not write. */
  const bool second = EPILOGUE == QKV && p.second;
  MimiEntry entry = {};
  if (!second)
    entry = p.entries[index];
  Product<Raw, PRODUCTS, 1, 8, 1, 2, true> product (
      p.weights, p.inputs, p.outputs, p.part_rows, part);
  product.load (row0 / 16 + group);

  /* What the thread finishes: neighbours are neighbours in time, or where the
   * output runs along channels, channels. */
  const bool along = EPILOGUE == QKV && row0 >= p.outputs / 3 * 2;
  const unsigned row =
      along ? threadIdx.x % rows : min (threadIdx.x / 2, rows - 1);
  const unsigned time = along ? threadIdx.x / rows % 2 : threadIdx.x % 2;
  const unsigned n = min (row0 + row, p.outputs - 1), t = 2 * rank + time;
  const bool exists =
      threadIdx.x < 2 * rows && row0 + row < p.outputs && t < columns;
  Place place = {};
  if (!second)
    place = find_place<EPILOGUE> (p, entry, index, 0, n, t);

  const Pairs<0> x = { (float4 *)shared };
  float2 *received = (float2 *)(x.x + n_units * Pairs<0>::COLUMNS * 4);
  const float *in = p.in + (size_t)index * p.in_stride;
  const float2 *moments =
      (const float2 *)(p.moments + (size_t)index * p.in_stride);
  Moments<8> all (p.inputs, p.slice_log2);
  const float *share = get_share (in, channel0 + warp * 8);
  Unit unit;
  unit.load_norm (p.norm, p.inputs, channel0 + warp * 8);

  /* Where the warp's sums go, and the thread's come from: [rank][warp][16
   * outputs] pairs of times. A lane has times 2 (lane % 4) and the next of each
   * half, of outputs lane / 4 and 8 more. */
  unsigned mine = (rank * WARPS + warp) * 16 + lane / 4;
  unsigned from = ((row / 16 << subs_log2) * 16 + row % 16) * 2 + time;
  settle (mine);
  settle (from);
  settle (share);
  settle (moments);
  if (!second)
    settle<EPILOGUE> (place);

  hold (product.mix (), p.n_entries == 0, p.status);
  wait_for_inputs ();
  /* Who comes next reads its entry before it waits. */
  launch_dependents ();
  if (second)
    entry = p.entries[index];
  /* A launch of one entry has no empty place. */
  if (p.n_entries > 1 && entry.state == 0) {
    cluster_wait ();
    return;
  }
  all.load (moments);
  if (channel0 + warp * 8 < p.inputs)
    unit.load (share);
  ask_first ();
  product.prepare (); /* there is time */
  __syncwarp ();      /* and not when moments have come */
  float middle, deviation, mean[2], scale[2];
  all.join (moments, p.norm_eps, middle, deviation);
#pragma unroll
  for (int h = 0; h < 2; h++) {
    mean[h] = __shfl_sync (FULL_WARP, middle, lane / 4 + 8 * h);
    scale[h] = __shfl_sync (FULL_WARP, deviation, lane / 4 + 8 * h);
  }
  for (unsigned u = warp; u < n_units && channel0 + u * 8 < p.inputs;) {
    unit.normalise (mean, scale);
    unit.store (x, u);
    u += WARPS;
    if (u >= n_units || channel0 + u * 8 >= p.inputs)
      break;
    unit.load_norm (p.norm, p.inputs, channel0 + u * 8);
    unit.load (get_share (in, channel0 + u * 8));
  }
  __syncthreads ();

  const unsigned step0 = warp % (1u << subs_log2) * p.part_rows / 8;
  product.run_once ([&] (unsigned s, unsigned,
                        unsigned h) { return x.get (step0 + s, h * 8); },
      columns > 8 ? 2 : 1);

  /* Every sum to whoever finishes it. */
  cluster_wait ();
#pragma unroll
  for (int h = 0; h < 2; h++)
#pragma unroll
    for (int i = 0; i < 2; i++)
      store_at (received + mine + i * 8, h * 4 + lane % 4, rank,
          product.sums[0][h].get_two (i));
  cluster_arrive ();
  if (second) /* there is time again */
    place = find_place<EPILOGUE> (p, entry, index, 0, n, t);
  cluster_wait ();

  const float *terms = (const float *)received + from;
  const auto add = [&] (float sum, auto place_of) {
    float v[PARTS]; /* on their way at once */
#pragma unroll
    for (unsigned j = 0; j < PARTS; j++)
      v[j] = terms[place_of (j) * 32];
    ask_first ();
#pragma unroll
    for (unsigned j = 0; j < PARTS; j++)
      sum += v[j];
    return sum;
  };
  float sum = 0.0f;
  if (subs_log2 == 0)
    sum = add (sum, [] (unsigned s) { return s * WARPS; });
  else
    for (unsigned s0 = 0; s0 < PARTS << subs_log2; s0 += PARTS)
      sum = add (sum, [&] (unsigned j) {
        const unsigned s = s0 + j;
        return (s >> subs_log2) * WARPS + s % (1u << subs_log2);
      });
  const float partner =
      EPILOGUE == QKV ? __shfl_xor_sync (FULL_WARP, sum, along ? 1 : 2) : 0.0f;
  if (exists)
    finish<EPILOGUE> (p, index, place, sum, partner, 0.0f);
}

/* The sum of a block's first N parts of two times; then, in a cluster, they are
 * one of the terms of a sum. */
template <int N>
static __device__ float2
add_parts (const float2 *from, unsigned stride)
{
  float2 v[N], sum = make_float2 (0.0f, 0.0f);
#pragma unroll
  for (int i = 0; i < N; i++)
    v[i] = from[i * stride];
#pragma unroll
  for (int i = 0; i < N; i++) {
    sum.x += v[i].x;
    sum.y += v[i].y;
  }
  return sum;
}

static __device__ float2
add_parts (const float2 *from, unsigned stride, unsigned n_log2)
{
  return n_log2 == 3   ? add_parts<8> (from, stride)
         : n_log2 == 2 ? add_parts<4> (from, stride)
         : n_log2 == 1 ? add_parts<2> (from, stride)
                       : add_parts<1> (from, stride);
}

/* N steps of a warp's part, whose inputs go through shared memory but concern no
 * other warp: half of them are multiplied while the other half may still be on
 * their way.
 * share: of the part, in global memory */
template <int N, typename Product, typename Past, int H>
static __device__ void
run_own (Product &product, const float *share, Past &past, const Pairs<H> &x)
{
  constexpr int HALF = (N + 1) / 2;
  const auto get = [&] (unsigned s, unsigned tap, unsigned h) {
    return x.get (s, h * 8 + tap);
  };
  Unit units[N];

  past.load (true);
#pragma unroll
  for (int i = 0; i < N; i++)
    units[i].load (share + i * 8 * TILE);
  ask_first ();
  past.store (true, x);
#pragma unroll
  for (int i = 0; i < HALF; i++)
    units[i].store (x, i);
  __syncwarp ();
  product.template run_steps<HALF> (get, 2, HALF);
#pragma unroll
  for (int i = HALF; i < N; i++)
    units[i].store (x, i);
  __syncwarp ();
  product.template run_steps<N - HALF, HALF> (get, 2, N - HALF);
}

/* Grid: (blocks of outputs, times eight in a cluster; tiles of all entries).
 * A warp takes 16 GROUPS outputs; STEPS of 8 channels have their weights loaded
 * ahead. */
template <typename Raw, int PRODUCTS, int TAPS, int STEPS, int GROUPS,
    bool CLUSTER, Epilogue EPILOGUE>
static __device__ void
spread_parts (const MimiGemmArgs &p)
{
  constexpr int H = TAPS - 1;
  extern __shared__ __align__ (16) float shared[];

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned rank = CLUSTER ? blockIdx.x % MIMI_CUDA_RANKS : 0;
  const unsigned block = CLUSTER ? blockIdx.x / MIMI_CUDA_RANKS : blockIdx.x;
  /* What ends a layer has 32 parts, so that a block's rows are a slice. */
  const unsigned subs_log2 = !CLUSTER               ? 3
                             : EPILOGUE == RESIDUAL ? 2
                                                    : p.subs_log2;
  const unsigned sub = warp % (1u << subs_log2);
  const unsigned rows = 16 * GROUPS * WARPS >> subs_log2, row0 = block * rows;
  const unsigned index = CLUSTER ? blockIdx.y : blockIdx.y / p.tiles;
  const unsigned tile = CLUSTER ? 0 : blockIdx.y % p.tiles;
  const unsigned columns = min (p.times, TILE);

  /* The channels of the block, and of those the ones that the warp stages: in
   * turns in a cluster, else those that only it multiplies. */
  const unsigned channel0 = rank * p.part_rows << subs_log2;
  const unsigned n_channels = p.part_rows << subs_log2;
  const unsigned first = CLUSTER ? 0 : warp * p.part_rows;
  const unsigned n_own = CLUSTER ? n_channels : p.part_rows;
  const unsigned thread = CLUSTER ? threadIdx.x : lane;
  constexpr unsigned THREADS = CLUSTER ? MIMI_CUDA_THREADS : 32;

  if (CLUSTER)
    cluster_begin ();

  /* All that the kernels before do not write. */
  const MimiEntry entry = p.entries[index];
  Product<Raw, PRODUCTS, TAPS, STEPS, GROUPS, 2> product (
      p.weights, p.inputs, p.outputs, p.part_rows, (rank << subs_log2) + sub);
  const unsigned group = row0 / 16 + (warp >> subs_log2) * GROUPS;
  product.load_taps (group, 0, TAPS > 1 ? TAPS / 2 : 1);

  /* What the thread finishes: neighbours are neighbours in time, or where the
   * output runs along channels (and for moments), channels. */
  const bool along = !CLUSTER || EPILOGUE == RESIDUAL || EPILOGUE == UP;
  const unsigned row = !CLUSTER ? lane
                       : along  ? threadIdx.x % rows
                                : min (threadIdx.x / 2, rows - 1);
  const unsigned time = !CLUSTER ? 2 * warp
                        : along  ? threadIdx.x / rows % 2
                                 : threadIdx.x % 2;
  const unsigned t = 2 * rank + time;
  const bool exists = (!CLUSTER || threadIdx.x < 2 * rows) &&
                      row0 + row < p.outputs && t < columns;
  Place place = {};
  const auto find = [&] (unsigned time) {
    return find_place<EPILOGUE> (
        p, entry, index, tile, min (row0 + row, p.outputs - 1), time);
  };
  if (CLUSTER) /* else there is no room for it yet */
    place = find (t);

  /* Inputs; sums of a block's parts: [part][pair of times][row]; and of all
   * blocks: [rank][row] pairs of times. */
  const unsigned stride = rows + 4; /* no two lanes in one bank */
  const Pairs<H> x = { (float4 *)shared };
  float2 *sums =
      (float2 *)(x.x + (TAPS > 1 ? n_channels / 8 * Pairs<H>::COLUMNS * 4 : 0));
  float2 *received = sums + (TILE / 2 * stride << subs_log2);
  const float *in =
      p.in + (size_t)index * p.in_stride + (size_t)tile * p.inputs * TILE;
  /* Of what the warp stages, or multiplies as it is. */
  const float *share = get_share (
      in, TAPS == 1 ? product.begin : channel0 + (CLUSTER ? warp * 8 : first));
  const Past past (entry, in, tile, p.tiles, p.times, p.inputs, p.in_stride);
  const Pairs<H> own = { x.x + first / 8 * Pairs<H>::COLUMNS * 4 };
  PairPast<(H > 0 ? H : 1), (CLUSTER && H > 0 ? (H + 3) / 4 : 1)> before (entry,
      past, p.history, p.inputs, channel0 + first, n_own, thread, THREADS);
  if constexpr (H > 0) {
    ask_first ();
    if (entry.state != 0)
      before.load (false);
    /* The queue of all weights would be in its way. */
    product.load_taps (group, TAPS / 2, TAPS);
    if (entry.state != 0)
      before.store (false, own);
  }

  /* Where the warp leaves its sums, a thread adds them up, and finishes one. */
  unsigned left = (sub * (TILE / 2) + lane % 4) * stride +
                  (warp >> subs_log2) * 16 * GROUPS + lane / 4;
  unsigned added = warp * stride + lane, last = row * 2 + time;
  settle (share);
  if (CLUSTER) { /* else registers are few */
    settle (left);
    settle (added);
    settle (last);
    settle<EPILOGUE> (place);
  }

  hold (product.mix (), p.n_entries == 0, p.status);
  wait_for_inputs ();
  launch_dependents ();
  if (entry.state == 0) {
    if (CLUSTER)
      cluster_wait ();
    return;
  }
  float old = 0.0f;
  if (EPILOGUE == RESIDUAL && exists)
    old = *place.to;
  const unsigned halves = columns > 8 ? 2 : 1;
  if constexpr (TAPS == 1) {
    product.run_straight (share, halves);
  } else if constexpr (CLUSTER) {
    before.load (true);
    for (unsigned unit = warp; unit < n_channels / 8; unit += WARPS)
      if (channel0 + unit * 8 < p.inputs) {
        Unit one;
        one.load (share + (unit - warp) * 8 * TILE);
        one.store (x, unit);
      }
    before.store (true, x);
    __syncthreads ();
    const unsigned step0 = sub * p.part_rows / 8;
    product.run_once (
        [&] (unsigned s, unsigned tap, unsigned h) {
          return x.get (step0 + s, h * 8 + tap);
        },
        halves);
  } else {
    switch (product.n_steps) {
      case 4:
        run_own<4> (product, share, before, own);
        break;
      case 3:
        run_own<3> (product, share, before, own);
        break;
      case 2:
        run_own<2> (product, share, before, own);
        break;
      case 1:
        run_own<1> (product, share, before, own);
        break;
    }
  }

  product.leave_pairs (sums + left, stride);
  __syncthreads ();
  if (CLUSTER)
    cluster_wait ();

  /* A warp adds up the parts of two times, and sends them to their owner. */
  const auto keep = [&] {
    if constexpr (H > 0)
      if (block == 0 && tile == p.tiles - 1) /* read again: registers are few */
        keep_pairs<H> (p.entries[index], p.history, p.inputs, channel0 + first,
            n_own, thread, THREADS, columns, own);
  };
  if (!CLUSTER) {
    const float2 sum = add_parts<WARPS> (sums + added, TILE / 2 * stride);
    if (exists) {
      finish<EPILOGUE> (p, index, find (t), sum.x, 0.0f, 0.0f);
      finish<EPILOGUE> (p, index, find (t + 1), sum.y, 0.0f, 0.0f);
    }
    keep ();
    return;
  }
  /* 32 outputs at a time, but as many as are usual without a branch. */
  constexpr int N = EPILOGUE == UP ? 3 : 1;
  for (unsigned r = 0; r < rows && 2 * warp < columns; r += 32 * N)
#pragma unroll
    for (int i = 0; i < N; i++) {
      const unsigned one =
          EPILOGUE == RESIDUAL ? 0 : min (r + i * 32, rows - 1 - lane);
      const float2 sum =
          add_parts (sums + added + one, TILE / 2 * stride, subs_log2);
      float2 *to = received + rank * rows + lane + one;
      if (warp == rank)
        *to = sum;
      else
        store_remote (remote (to, warp), sum.x, sum.y);
    }
  cluster_arrive ();
  keep ();
  cluster_wait ();

  if (threadIdx.x >= (rows * 2 + 31) / 32 * 32)
    return;
  const float *all = (const float *)received + last;
  float v[MIMI_CUDA_RANKS], sum = 0.0f, y = 0.0f;
#pragma unroll
  for (int i = 0; i < MIMI_CUDA_RANKS; i++)
    v[i] = all[i * rows * 2];
  ask_first ();
#pragma unroll
  for (int i = 0; i < MIMI_CUDA_RANKS; i++)
    sum += v[i];
  if (exists)
    y = finish<EPILOGUE> (p, index, place, sum, 0.0f, old);
  /* A block's rows, 32 of them, are a slice: a warp has one time's. */
  if (EPILOGUE == RESIDUAL) {
    const float value[] = { y };
    float2 moments[1];
    slice_moments (value, 32, { min (p.outputs - row0, 32) },
        p.outputs % 32 == 0, moments);
    float *to = p.moments + (size_t)index * p.out_stride;
    if (lane == 0)
      ((float2 *)to)[block * TILE + 2 * rank + warp] = moments[0];
  }
}
