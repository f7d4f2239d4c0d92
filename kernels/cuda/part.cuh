/* A warp's part of a product in float32, its weights loaded ahead.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A warp makes 64 outputs x 16 times, or 32 x 32 or 16 x 64: a lane 4 x 8 of
 * them, so 32 FMA for each weight's load, and two or more loads of inputs. Or a
 * lane has 10 or 12 times, where that deals a layer out better.
 */
#pragma once

#include "common.cuh"

/* Sums of a warp in shared memory: eight float4 of each lane, [j][i] for output
 * j of four and half i of the eight times, so far apart that 32 lanes which
 * read 16 times of two outputs have 32 banks; or WIDE_SLOT, for 32 of one. */
#define WIDE_SLOT 144
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

/* Sums of 4 outputs x N times of a lane: one channel more. */
template <int N>
static __device__ void
add_channel (float (&acc)[4 * N], const float4 &weight, const float *x)
{
#pragma unroll
  for (int t = 0; t < N; t++) {
    acc[t] = fmaf (weight.x, x[t], acc[t]);
    acc[N + t] = fmaf (weight.y, x[t], acc[N + t]);
    acc[2 * N + t] = fmaf (weight.z, x[t], acc[2 * N + t]);
    acc[3 * N + t] = fmaf (weight.w, x[t], acc[3 * N + t]);
  }
}

/* sums: of this warp, in shared memory */
template <int SLOT = SPLIT_SLOT>
static __device__ void
leave_sums (const float (&acc)[32], float *sums)
{
#pragma unroll
  for (int i = 0; i < 8; i++)
    *(float4 *)(sums + i * SLOT + threadIdx.x % 32 * 4) = make_float4 (
        acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]);
}

/* One part of the channels: 4 outputs x TIMES of a lane. */
template <typename Weight, int TAPS, int TIMES = 8> struct LanePart {
  typedef decltype (load_raw ((const Weight *)nullptr)) Raw;
  /* Inputs are read four at once, or two: from a multiple of that on. */
  static constexpr int VECTOR = TIMES % 4 ? 2 : 4;
  static constexpr int H = TAPS - 1, LEAD = (H + VECTOR - 1) / VECTOR * VECTOR;
  /* Channels whose weights are on their way, and between two branches. */
  static constexpr int HELD = (TAPS < 3       ? 8
                                  : TAPS == 3 ? 4
                                              : 2) /
                              (TIMES > 8 ? 2 : 1);
  static constexpr int STEP = MIMI_CUDA_SPLIT_STEP (TAPS);

  const Weight *next; /* the weights to be asked for */
  const unsigned stride, n;
  Raw w[HELD][TAPS];
  float acc[4 * TIMES];

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
    float window[LEAD + TIMES];
#pragma unroll
    for (int i = 0; i < LEAD + TIMES; i += VECTOR)
      if (VECTOR == 4)
        *(float4 *)(window + i) = *(const float4 *)(x - LEAD + i);
      else
        *(float2 *)(window + i) = *(const float2 *)(x - LEAD + i);
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
      add_channel<TIMES> (acc, to_floats (raw[tap]), window + LEAD - H + tap);
  }

  /* x: [channel][x_stride]: the part's first channel, at the lane's first
   * time */
  __device__ void
  run (const float *x, unsigned x_stride)
  {
#pragma unroll
    for (int i = 0; i < 4 * TIMES; i++)
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

  template <int SLOT = SPLIT_SLOT>
  __device__ void
  leave (float *sums) const
  {
    leave_sums<SLOT> (acc, sums);
  }

  /* The same of any number of times: two of them of each lane side by side, and
   * so far apart that lanes which read the four outputs of four lanes, one after
   * the other, have all banks. */
  static constexpr int PAIR = TIMES % 4 ? 72 : 76, PAIRS = 2 * TIMES * PAIR;

  __device__ void
  leave_pairs (float *sums) const
  {
#pragma unroll
    for (int i = 0; i < 2 * TIMES; i++)
      *(float2 *)(sums + i * PAIR + threadIdx.x % 32 * 2) =
          make_float2 (acc[2 * i], acc[2 * i + 1]);
  }

  /* What N warps have left of one output and two times of a lane, in order. */
  template <int N>
  static __device__ float2
  sum_pairs (const float *sums, unsigned lane, unsigned output, unsigned pair)
  {
    const float *from = sums + (output * (TIMES / 2) + pair) * PAIR + lane * 2;
    float2 v[N], sum = make_float2 (0.0f, 0.0f);
#pragma unroll
    for (int i = 0; i < N; i++)
      v[i] = *(const float2 *)(from + i * PAIRS);
#pragma unroll
    for (int i = 0; i < N; i++)
      sum.x += v[i].x, sum.y += v[i].y;
    return sum;
  }
};

static __device__ void
add4 (float (&sum)[4], const float4 &more)
{
  sum[0] += more.x, sum[1] += more.y, sum[2] += more.z, sum[3] += more.w;
}

/* What all warps have left of output `row` at four times from t0 on, in order; a
 * warp makes 8 `halves` times. */
static __device__ void
sum_four (const float *sums, unsigned row, unsigned t0, unsigned halves,
    float (&sum)[4])
{
  const float *from = sums + (row % 4 * 2 + t0 % 8 / 4) * SPLIT_SLOT +
                      (row / 4 * halves + t0 / 8) * 4;
  float4 v[WARPS];

#pragma unroll
  for (int i = 0; i < 4; i++)
    sum[i] = 0.0f;
#pragma unroll
  for (int s = 0; s < WARPS; s++)
    v[s] = *(const float4 *)(from + s * SPLIT_WARP);
#pragma unroll
  for (int s = 0; s < WARPS; s++)
    add4 (sum, v[s]);
}

/* What N warps have left of output `row` at `time`, in order; a warp makes
 * 8 `halves` times. */
template <int N, int SLOT = SPLIT_SLOT>
static __device__ float
sum_warps (const float *sums, unsigned row, unsigned time, unsigned halves)
{
  const float *from = sums + (row % 4 * 2 + time % 8 / 4) * SLOT +
                      (row / 4 * halves + time / 8) * 4 + time % 4;
  float v[N], sum = 0.0f;
#pragma unroll
  for (int i = 0; i < N; i++)
    v[i] = from[i * 8 * SLOT];
#pragma unroll
  for (int i = 0; i < N; i++)
    sum += v[i];
  return sum;
}
