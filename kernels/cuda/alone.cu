/* Rows from the host, and the way to the transformer's width, by one block.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Without clusters nobody can share out what crosses the bus but by way of
 * another launch. For latents, which are few, a block can do all of it: what it
 * reads of weights is on its way while it waits for the bus. Warps share the
 * channels, 64 each, and meet only for the row.
 */
#include "common.cuh"

#define ALONE_LATENTS MIMI_CUDA_ALONE_LATENTS
#define ALONE_ENTRY_WORDS (sizeof (MimiEntry) / 4)

/* 64 channels of a warp. */
struct Alone {
  static constexpr int N = 64, LOADS = N / 4, STEPS = N / 8;
  const MimiFrontArgs &p;
  const unsigned first, lane;
  float4 weight[LOADS], filter[STEPS][2];

  __device__
  Alone (const MimiFrontArgs &args, unsigned first_channel)
      : p (args), first (first_channel), lane (threadIdx.x % 32)
  {
    const float *from = p.projection + (first + lane / 8) * p.length +
                        min (lane % 8 * 4, p.length - 4);
#pragma unroll
    for (int i = 0; i < LOADS; i++)
      weight[i] = __ldg ((const float4 *)(from + i * 4 * p.length));
    ask_first ();
  }

  __device__ void
  ask_filter ()
  {
    const float *from =
        p.upsample + (first + lane / 4) * 2 * TILE + lane % 4 * 4;
#pragma unroll
    for (int i = 0; i < STEPS; i++)
#pragma unroll
      for (int j = 0; j < 2; j++)
        filter[i][j] = __ldg ((const float4 *)(from + (i * 16 + j) * TILE));
    ask_first ();
  }

  /* The two channels that a lane has the sums of. */
  __device__ unsigned
  own (int j) const
  {
    return first + 32 * j + lane % 8 * 4 + lane / 8;
  }

  /* vector: of latents, with zeros up to ALONE_LATENTS */
  __device__ void
  project (const float *vector, float (&to)[2]) const
  {
    const float4 x = *(const float4 *)(vector + lane % 8 * 4);
    float sum[LOADS];

#pragma unroll
    for (int i = 0; i < LOADS; i++)
      sum[i] = fmaf (weight[i].w, x.w,
          fmaf (weight[i].z, x.z, fmaf (weight[i].y, x.y, weight[i].x * x.x)));
    /* Eight lanes have a part of 16 channels each: of two at a time, a lane keeps
     * one. */
    float eight[8], four[4];
    halve<1, 8> (sum, eight);
    halve<2, 4> (eight, four);
    halve<4, 2> (four, to);
  }

  template <int OTHER, int M>
  __device__ void
  halve (const float (&sum)[2 * M], float (&to)[M]) const
  {
    const bool odd = lane & OTHER;
#pragma unroll
    for (int i = 0; i < M; i++) {
      const float away = odd ? sum[2 * i] : sum[2 * i + 1];
      const float kept = odd ? sum[2 * i + 1] : sum[2 * i];
      to[i] = kept + __shfl_xor_sync (FULL_WARP, away, OTHER);
    }
  }

  /* now, before: of the lane's own channels */
  __device__ void
  finish (unsigned index, const float (&now)[2], const float (&before)[2]) const
  {
    float *out = p.out + (size_t)index * p.out_stride +
                 (first + lane / 4) * TILE + lane % 4 * 4;
    float *moments = p.moments + (size_t)index * p.out_stride;
    float a[STEPS], b[STEPS], y[STEPS][4];

#pragma unroll
    for (int i = 0; i < STEPS; i++) {
      const unsigned channel = i * 8 + lane / 4;
      const unsigned owner = channel % 4 * 8 + channel % 32 / 4;
      a[i] = __shfl_sync (FULL_WARP, now[i / 4], owner);
      b[i] = __shfl_sync (FULL_WARP, before[i / 4], owner);
    }
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
      y[i][0] = fmaf (a[i], filter[i][0].x, b[i] * filter[i][1].x);
      y[i][1] = fmaf (a[i], filter[i][0].y, b[i] * filter[i][1].y);
      y[i][2] = fmaf (a[i], filter[i][0].z, b[i] * filter[i][1].z);
      y[i][3] = fmaf (a[i], filter[i][0].w, b[i] * filter[i][1].w);
      store_four (out + i * 8 * TILE, y[i]);
    }

    /* A slice of moments is four steps; a lane has four times of each. */
    float mean[2][4], squares[2][4];
    add_up (y, mean, [] (float sum, float x, int, int) { return sum + x; });
#pragma unroll
    for (int j = 0; j < 8; j++)
      mean[j / 4][j % 4] *= 1.0f / 32;
    add_up (y, squares, [&] (float sum, float x, int slice, int t) {
      const float d = x - mean[slice][t];
      return fmaf (d, d, sum);
    });
#pragma unroll
    for (int j = 0; j < 2; j++)
      if (lane < 4) {
        float4 *to =
            (float4 *)(moments + ((first / 32 + j) * TILE + lane * 4) * 2);
        to[0] =
            make_float4 (mean[j][0], squares[j][0], mean[j][1], squares[j][1]);
        to[1] =
            make_float4 (mean[j][2], squares[j][2], mean[j][3], squares[j][3]);
      }
  }

  /* Of both slices, sums: of function (sum so far, value, slice, time). */
  template <typename Function>
  __device__ void
  add_up (
      const float (&y)[STEPS][4], float (&sum)[2][4], Function function) const
  {
#pragma unroll
    for (int j = 0; j < 8; j++)
      sum[j / 4][j % 4] = 0.0f;
#pragma unroll
    for (int i = 0; i < STEPS; i++)
#pragma unroll
      for (int t = 0; t < 4; t++)
        sum[i / 4][t] = function (sum[i / 4][t], y[i][t], i / 4, t);
#pragma unroll
    for (int other = 4; other < 32; other *= 2)
#pragma unroll
      for (int j = 0; j < 8; j++)
        sum[j / 4][j % 4] +=
            __shfl_xor_sync (FULL_WARP, sum[j / 4][j % 4], other);
  }
};

/* Grid: (1, entries); for latents of at most 32 values, 16 times, and a width of
 * 64 or some times that. */
extern "C" __global__ void
__launch_bounds__ (MIMI_CUDA_THREADS)
    mimi_enter_alone (const __grid_constant__ MimiEnterArgs args)
{
  __shared__ __align__ (16) unsigned received[ALONE_ENTRY_WORDS];
  /* Latents of this frame, and of the one before if that is here too. */
  __shared__ __align__ (16) float vector[2][ALONE_LATENTS];

  const MimiInputArgs &p = args.input;
  const unsigned index = blockIdx.y, tid = threadIdx.x;
  const unsigned *from = (const unsigned *)(p.from + index);
  const float *row =
      (const float *)((const char *)p.rows + (size_t)index * p.row_bytes);
  const float *last = row - p.row_bytes / 4;

  launch_dependents ();
  wait_for_inputs ();
  /* As mimi_enter does it: the only row of a step is asked for before its kind is
   * known. */
  const unsigned usual = p.usual_bytes / 4, mine = tid % 32;
  unsigned word = 0;
  float value = 0.0f;
  if (tid < ALONE_ENTRY_WORDS)
    word = from[tid];
  else if (tid >= 32 && tid < 64 && mine < usual)
    value = row[mine];
  const float std = p.std ? __ldg (p.std + min (mine, p.latent - 1)) : 1.0f;
  const float mean = p.mean ? __ldg (p.mean + min (mine, p.latent - 1)) : 0.0f;
  ask_first ();
  const unsigned width = args.front.width, first = tid / 32 * Alone::N;
  Alone alone (args.front, min (first, width - Alone::N));
  if (tid < ALONE_ENTRY_WORDS)
    ((unsigned *)(p.entries + index))[tid] = received[tid] = word;
  if (tid == 0)
    p.status[index] = 0;
  __syncthreads ();
  alone.ask_filter ();
  const MimiEntry entry = *(const MimiEntry *)received;
  if (entry.state == 0)
    return;

  const bool projected = entry.kind != MIMI_CUDA_EMBEDDING;
  if (tid >= 32 && tid < 96) {
    const bool older = tid >= 64, exists = projected && mine < p.latent;
    if (exists && (older ? entry.follows > 0 : mine >= usual))
      value = older ? last[mine] : row[mine];
    vector[older][mine] = exists && entry.kind == MIMI_CUDA_NORMALIZED
                              ? fmaf (value, std, mean)
                              : value;
  }
  __syncthreads ();

  const float *history = history_read (entry, args.front.history, width);
  float *kept = history_write (entry, args.front.history, width);
  auto finish = [&] (const Alone &a) {
    float now[2], before[2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
      const unsigned channel = a.own (j);
      before[j] = 0.0f;
      if (entry.follows == 0 && remembers (entry))
        before[j] = history[channel];
      if (!projected && entry.follows)
        before[j] = last[channel];
      if (!projected)
        now[j] = channel < usual ? vector[0][channel] : row[channel];
    }
    if (projected && entry.follows)
      a.project (vector[1], before);
    if (projected)
      a.project (vector[0], now);
#pragma unroll
    for (int j = 0; j < 2; j++)
      if (entry.ends)
        kept[a.own (j)] = now[j];
    a.finish (index, now, before);
  };
  if (first < width)
    finish (alone);
  for (unsigned more = first + WARPS * Alone::N; more < width;
       more += WARPS * Alone::N) {
    Alone again (args.front, more);
    again.ask_filter ();
    finish (again);
  }
}
