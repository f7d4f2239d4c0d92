/* What LayerNorm needs to know of its input.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Whoever makes the residual stream leaves mean and sum of squared distances
 * of each slice of its channels, for each time, which come from those of its
 * halves and so on; whoever normalises puts the slices together (Chan, Golub,
 * LeVeque 1983: as exact as two passes over all channels, which the stream's
 * outliers need). So no block has to look at channels that it does not multiply.
 */
#pragma once

#include "common.cuh"

/* A value behind LayerNorm. */
static __device__ float
normalize (float x, float mean, float scale, float gain, float offset)
{
  return fmaf ((x - mean) * scale, gain, offset);
}

/* The moments of two groups of as many channels together, na and nb of which are
 * there. Both lanes of a pair have the same: what is rounded does not depend on
 * which of them is which. */
static __device__ void
join_two (float2 &m, float2 other, unsigned na, unsigned nb)
{
  const float share = 1.0f / max (na + nb, 1);
  const float d = m.x - other.x;
  m.x = m.x * (na * share) + other.x * (nb * share);
  m.y = fmaf (d * (na * nb * share), d, m.y + other.y);
}

/* Of the `rows` (a power of two) lanes that hold the channels of one slice at
 * one time, of which the first `n` exist: each lane gets both moments, of each
 * of its N values.
 * full: all of them exist, in all slices of the warp */
template <int N>
static __device__ void
slice_moments (const float (&y)[N], unsigned rows, const unsigned (&n)[N],
    bool full, float2 (&m)[N])
{
  const int row = threadIdx.x % rows;

#pragma unroll
  for (int i = 0; i < N; i++)
    m[i] = make_float2 (row < n[i] ? y[i] : 0.0f, 0.0f);
#pragma unroll
  for (int half = 1; half < 32; half *= 2) {
    float2 other[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
      other[i].x = __shfl_xor_sync (FULL_WARP, m[i].x, half);
      other[i].y = __shfl_xor_sync (FULL_WARP, m[i].y, half);
    }
    if (half >= rows)
      continue;
#pragma unroll
    for (int i = 0; i < N; i++) {
      const int own = row & -half;
      if (full)
        join_two (m[i], other[i], half, half);
      else
        join_two (m[i], other[i], min (max ((int)n[i] - own, 0), half),
            min (max ((int)n[i] - (own ^ half), 0), half));
    }
  }
}

/* 2 N slices of a time: lanes 0 to 15 take the even ones from `first` on, lanes
 * 16 to 31 the odd ones. */
template <int N> struct Slices {
  float2 m[N];
  float count[N]; /* channels; 0 where there is no slice */

  /* How many channels they have. */
  __device__ void
  begin (unsigned channels, unsigned slice_log2, unsigned first)
  {
    const unsigned rows = 1u << slice_log2;
#pragma unroll
    for (int i = 0; i < N; i++) {
      const unsigned begin = first + threadIdx.x % 32 / TILE + 2 * i
                             << slice_log2;
      count[i] = begin < channels ? min (rows, channels - begin) : 0;
    }
  }

  /* n: slices that there are */
  __device__ void
  load (const float2 *moments, unsigned n, unsigned first)
  {
    const unsigned lane = threadIdx.x % 32;
    const float2 *own = moments + first * TILE + lane; /* the first of them */
    if (first + 2 * N <= n) {
#pragma unroll
      for (int i = 0; i < N; i++)
        m[i] = own[2 * i * TILE];
    } else {
#pragma unroll
      for (int i = 0; i < N; i++)
        m[i] = moments[min (first + lane / TILE + 2 * i, n - 1) * TILE +
                       lane % TILE];
    }
    ask_first ();
  }

  /* Both go on with the sum of the slices before, so that N changes no bit. */
  __device__ float
  sum (float sum) const
  {
#pragma unroll
    for (int i = 0; i < N; i++)
      sum = fmaf (m[i].x, count[i], sum);
    return sum;
  }

  __device__ float
  squares (float mean, float sum) const
  {
#pragma unroll
    for (int i = 0; i < N; i++) {
      const float d = m[i].x - mean;
      sum += count[i] > 0.0f ? fmaf (d * d, count[i], m[i].y) : 0.0f;
    }
    return sum;
  }

  /* The same where all slices are there, and full. */
  __device__ float
  sum_full (float rows) const
  {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < N; i++)
      sum = fmaf (m[i].x, rows, sum);
    return sum;
  }

  __device__ float
  squares_full (float mean, float rows) const
  {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < N; i++) {
      const float d = m[i].x - mean;
      sum += fmaf (d * d, rows, m[i].y);
    }
    return sum;
  }
};

/* Mean and 1 / standard deviation of all channels, for time lane % 16. All lanes
 * of the warp take part. N says only how many slices are loaded at once. */
template <int N> struct Moments {
  const unsigned channels, slice_log2, n;
  const bool full; /* 2 N slices are all, and have all their channels */
  float share, rows;
  Slices<N> first;

  __device__
  Moments (unsigned n_channels, unsigned log2_of_slice)
      : channels (n_channels), slice_log2 (log2_of_slice),
        n ((n_channels - 1 >> log2_of_slice) + 1),
        full (n_channels == 2 * N << log2_of_slice), share (1.0f / n_channels),
        rows (1u << log2_of_slice)
  {
    settle (share);
    settle (rows);
  }

  /* moments: [slice][16] of one entry */
  __device__ void
  load (const float2 *moments)
  {
    first.load (moments, n, 0);
  }

  __device__ void
  join (const float2 *moments, float eps, float &mean, float &scale)
  {
    Slices<N> more;
    float sum, squares;

    if (full) {
      sum = first.sum_full (rows);
    } else {
      first.begin (channels, slice_log2, 0);
      sum = first.sum (0.0f);
      for (unsigned s = 2 * N; s < n; s += 2 * N) {
        more.begin (channels, slice_log2, s);
        more.load (moments, n, s);
        sum = more.sum (sum);
      }
    }
    sum += __shfl_xor_sync (FULL_WARP, sum, TILE);
    mean = sum * share;
    if (full) {
      squares = first.squares_full (mean, rows);
    } else {
      squares = first.squares (mean, 0.0f);
      for (unsigned s = 2 * N; s < n; s += 2 * N) {
        more.begin (channels, slice_log2, s);
        more.load (moments, n, s);
        squares = more.squares (mean, squares);
      }
    }
    squares += __shfl_xor_sync (FULL_WARP, squares, TILE);
    scale = rsqrtf (fmaf (squares, share, eps));
  }
};

/* Of each lane's time, for the four times that begin at 4 (lane % 4). */
static __device__ void
take_four (float middle, float unit, float (&mean)[4], float (&scale)[4])
{
#pragma unroll
  for (int j = 0; j < 4; j++) {
    mean[j] = __shfl_sync (FULL_WARP, middle, threadIdx.x % 4 * 4 + j);
    scale[j] = __shfl_sync (FULL_WARP, unit, threadIdx.x % 4 * 4 + j);
  }
}

/* For the four times that begin at 4 (lane % 4). */
template <int N>
static __device__ void
join_moments (const float2 *moments, unsigned channels, unsigned slice_log2,
    float eps, float (&mean)[4], float (&scale)[4])
{
  Moments<N> all (channels, slice_log2);
  float middle, unit;

  all.load (moments);
  all.join (moments, eps, middle, unit);
  take_four (middle, unit, mean, scale);
}
