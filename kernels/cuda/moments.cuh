/* What LayerNorm needs to know of its input.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Whoever makes the residual stream leaves mean and sum of squared distances
 * of each slice of its channels, for each time; whoever normalises puts the
 * slices together (Chan, Golub, LeVeque 1983: as exact as two passes over all
 * channels, which the stream's outliers need). So no block has to look at
 * channels that it does not multiply.
 */
#pragma once

#include "common.cuh"

/* Of the `rows` (a power of two) lanes that hold the channels of one slice at
 * one time, of which the first `n` exist: each lane gets both moments, of each
 * of its N values. */
template <int N>
static __device__ void
slice_moments (
    const float (&y)[N], unsigned rows, const unsigned (&n)[N], float2 (&m)[N])
{
  const unsigned row = threadIdx.x % rows;
  float sum[N], squares[N];

#pragma unroll
  for (int i = 0; i < N; i++)
    sum[i] = row < n[i] ? y[i] : 0.0f;
#pragma unroll
  for (unsigned other = 1; other < 32; other *= 2)
#pragma unroll
    for (int i = 0; i < N; i++) {
      const float more = __shfl_xor_sync (FULL_WARP, sum[i], other);
      sum[i] += other < rows ? more : 0.0f;
    }
#pragma unroll
  for (int i = 0; i < N; i++) {
    m[i].x = sum[i] * (1.0f / n[i]);
    const float d = row < n[i] ? y[i] - m[i].x : 0.0f;
    squares[i] = d * d;
  }
#pragma unroll
  for (unsigned other = 1; other < 32; other *= 2)
#pragma unroll
    for (int i = 0; i < N; i++) {
      const float more = __shfl_xor_sync (FULL_WARP, squares[i], other);
      squares[i] += other < rows ? more : 0.0f;
    }
#pragma unroll
  for (int i = 0; i < N; i++)
    m[i].y = squares[i];
}

/* 2 N slices of a time: lanes 0 to 15 take the even ones from `first` on, lanes
 * 16 to 31 the odd ones. */
template <int N> struct Slices {
  float2 m[N];
  float count[N]; /* channels; 0 where there is no slice */

  __device__ void
  load (const float2 *moments, unsigned channels, unsigned slice_log2,
      unsigned first)
  {
    const unsigned lane = threadIdx.x % 32, rows = 1u << slice_log2;
    const unsigned n = (channels + rows - 1) >> slice_log2;
#pragma unroll
    for (int i = 0; i < N; i++) {
      const unsigned slice = first + lane / TILE + 2 * i;
      m[i] = moments[min (slice, n - 1) * TILE + lane % TILE];
      count[i] = slice < n ? min (rows, channels - (slice << slice_log2)) : 0;
    }
    ask_first ();
  }

  /* Both go on with the sum of the slices before, so that N changes no bit. */
  __device__ float
  sum (float sum) const
  {
#pragma unroll
    for (int i = 0; i < N; i++)
      sum += m[i].x * count[i];
    return sum;
  }

  __device__ float
  squares (float mean, float sum) const
  {
#pragma unroll
    for (int i = 0; i < N; i++) {
      const float d = m[i].x - mean;
      sum += count[i] > 0.0f ? m[i].y + d * d * count[i] : 0.0f;
    }
    return sum;
  }
};

/* Mean and 1 / standard deviation of all channels, for the four times that
 * begin at 4 (lane % 4). All lanes of the warp take part. N says only how many
 * slices are loaded at once.
 * moments: [slice][16] of one entry */
template <int N>
static __device__ void
join_moments (const float2 *moments, unsigned channels, unsigned slice_log2,
    float eps, float (&mean)[4], float (&scale)[4])
{
  const unsigned lane = threadIdx.x % 32;
  const unsigned n = (channels - 1 >> slice_log2) + 1;
  const float share = 1.0f / channels;
  Slices<N> first, more;

  first.load (moments, channels, slice_log2, 0);
  float sum = first.sum (0.0f);
  for (unsigned s = 2 * N; s < n; s += 2 * N) {
    more.load (moments, channels, slice_log2, s);
    sum = more.sum (sum);
  }
  sum += __shfl_xor_sync (FULL_WARP, sum, TILE);
  const float middle = sum * share;
  float squares = first.squares (middle, 0.0f);
  for (unsigned s = 2 * N; s < n; s += 2 * N) {
    more.load (moments, channels, slice_log2, s);
    squares = more.squares (middle, squares);
  }
  squares += __shfl_xor_sync (FULL_WARP, squares, TILE);
  const float all = rsqrtf (squares * share + eps);
#pragma unroll
  for (int j = 0; j < 4; j++) {
    mean[j] = __shfl_sync (FULL_WARP, middle, lane % 4 * 4 + j);
    scale[j] = __shfl_sync (FULL_WARP, all, lane % 4 * 4 + j);
  }
}
