/* A warp's part of a product in float32, its weights loaded ahead.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A warp makes 64 outputs x 16 times, or 32 x 32 or 16 x 64: a lane 4 x 8 of
 * them, so 32 FMA for each weight's load, and two or more loads of inputs.
 */
#pragma once

#include "common.cuh"

/* Sums of a warp in shared memory: eight float4 of each lane, [j][i] for output
 * j of four and half i of the eight times, so far apart that 32 lanes which
 * read 16 times of two outputs have 32 banks. */
#define SPLIT_SLOT 136
#define SPLIT_WARP (8 * SPLIT_SLOT)
#define SPLIT_SUMS MIMI_CUDA_SPLIT_SUMS

static __device__ float4
load_raw (const float *p)
{
  return __ldg ((const float4 *)p);
}

static __device__ uint2
load_raw (const unsigned short *p)
{
  return __ldg ((const uint2 *)p);
}

static __device__ float4
to_floats (const float4 &raw)
{
  return raw;
}

/* bf16 is the upper half of a float. */
static __device__ float4
to_floats (const uint2 &raw)
{
  return make_float4 (__uint_as_float (raw.x << 16),
      __uint_as_float (raw.x & 0xffff0000u), __uint_as_float (raw.y << 16),
      __uint_as_float (raw.y & 0xffff0000u));
}

/* One part of the channels: 4 outputs x 8 times of a lane. */
template <typename Weight, int TAPS> struct LanePart {
  typedef decltype (load_raw ((const Weight *)nullptr)) Raw;
  static constexpr int H = TAPS - 1, LEAD = (H + 3) / 4 * 4;
  /* Channels whose weights are on their way, and between two branches. */
  static constexpr int HELD = TAPS < 3 ? 8 : TAPS == 3 ? 4 : 2;
  static constexpr int STEP = MIMI_CUDA_SPLIT_STEP (TAPS);

  const Weight *next; /* the weights to be asked for */
  const unsigned stride, n;
  Raw w[HELD][TAPS];
  float acc[32];

  /* Of `inputs` channels the `rows` from `first` on; quad: the lane's first
   * output. Weights that there are for no channel meet inputs that are zero. */
  __device__
  LanePart (const void *weights, unsigned outputs, unsigned inputs,
      unsigned rows, unsigned quad, unsigned first)
      : next ((const Weight *)weights +
              (size_t)first * TAPS * ((outputs + 3) / 4 * 4) +
              min (quad, (outputs - 1) / 4 * 4)),
        stride ((outputs + 3) / 4 * 4),
        n (first < inputs
                ? min (rows, (inputs - first + STEP - 1) / STEP * STEP)
                : 0)
  {
  }

  /* Asks for the weights of channels FIRST up to END, of those that are held. */
  template <int FIRST, int END>
  __device__ void
  ask ()
  {
#pragma unroll
    for (int k0 = FIRST; k0 < END; k0 += STEP)
      if (k0 < n)
#pragma unroll
        for (int k = k0; k < k0 + STEP; k++)
          load (k);
  }

  /* Where nobody is waited for, half of them before the input is there, which
   * would have to queue behind them, and half after it. */
  static constexpr int SOONER = WAITS ? HELD : HELD / 2;

  __device__ void
  ask_sooner ()
  {
    ask<0, SOONER> ();
  }

  __device__ void
  ask_later ()
  {
    ask<SOONER, HELD> ();
  }

  __device__ void
  load (int to)
  {
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
      w[to][tap] = load_raw (next);
      next += stride;
    }
  }

  __device__ void
  add (const Raw (&raw)[TAPS], const float *x)
  {
    float window[LEAD + 8];
#pragma unroll
    for (int i = 0; i < LEAD + 8; i += 4)
      *(float4 *)(window + i) = *(const float4 *)(x - LEAD + i);
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
      const float4 v = to_floats (raw[tap]);
#pragma unroll
      for (int t = 0; t < 8; t++) {
        const float y = window[LEAD - H + tap + t];
        acc[t] = fmaf (v.x, y, acc[t]);
        acc[8 + t] = fmaf (v.y, y, acc[8 + t]);
        acc[16 + t] = fmaf (v.z, y, acc[16 + t]);
        acc[24 + t] = fmaf (v.w, y, acc[24 + t]);
      }
    }
  }

  /* x: [channel][x_stride]: the part's first channel, at the lane's first
   * time */
  __device__ void
  run (const float *x, unsigned x_stride)
  {
#pragma unroll
    for (int i = 0; i < 32; i++)
      acc[i] = 0.0f;
#pragma unroll 1
    for (unsigned k0 = 0; k0 < n; k0 += HELD)
#pragma unroll
      for (int k1 = 0; k1 < HELD; k1 += STEP) {
        if (k0 + k1 >= n)
          break;
        const float *from = x + (k0 + k1) * x_stride;
        if (k0 + k1 + HELD <
            n) { /* one branch for all: they are put in order */
#pragma unroll
          for (int k = 0; k < STEP; k++) {
            add (w[k1 + k], from + k * x_stride);
            load (k1 + k);
          }
        } else {
#pragma unroll
          for (int k = 0; k < STEP; k++)
            add (w[k1 + k], from + k * x_stride);
        }
      }
  }

  __device__ void
  leave (float *sums) const
  {
#pragma unroll
    for (int i = 0; i < 8; i++)
      *(float4 *)(sums + i * SPLIT_SLOT + threadIdx.x % 32 * 4) = make_float4 (
          acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]);
  }
};

/* What N warps have left of output `row` at `time`, in order; a warp makes
 * 8 `halves` times. */
template <int N>
static __device__ float
sum_warps (const float *sums, unsigned row, unsigned time, unsigned halves)
{
  const float *from = sums + (row % 4 * 2 + time % 8 / 4) * SPLIT_SLOT +
                      (row / 4 * halves + time / 8) * 4 + time % 4;
  float v[N], sum = 0.0f;
#pragma unroll
  for (int i = 0; i < N; i++)
    v[i] = from[i * SPLIT_WARP];
#pragma unroll
  for (int i = 0; i < N; i++)
    sum += v[i];
  return sum;
}
