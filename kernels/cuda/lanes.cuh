/* Multiplying in float32, on any GPU.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "gemm.cuh"

static __device__ float4
load4 (const float *p)
{
  return __ldg ((const float4 *)p);
}

/* bf16 is the upper half of a float. */
static __device__ float4
load4 (const unsigned short *p)
{
  const uint2 u = __ldg ((const uint2 *)p);
  return make_float4 (__uint_as_float (u.x << 16),
      __uint_as_float (u.x & 0xffff0000u), __uint_as_float (u.y << 16),
      __uint_as_float (u.y & 0xffff0000u));
}

/* Adds the lanes that hold other channels of the same outputs: each gives away
 * one half of its values and keeps the sum of the other, so that of 32 values
 * `count` from `first` on are left in v[0..count). */
template <int HALF>
static __device__ void
sum_groups (float (&v)[32], unsigned other, unsigned &first, unsigned &count)
{
  if (other >= 32)
    return;
  const bool upper = threadIdx.x & other;
#pragma unroll
  for (int i = 0; i < HALF; i++) {
    const float keep = upper ? v[i + HALF] : v[i];
    const float give = upper ? v[i] : v[i + HALF];
    v[i] = keep + __shfl_xor_sync (FULL_WARP, give, other);
  }
  first += upper ? HALF : 0;
  count = HALF;
}

/* A lane holds 4 outputs x 8 times; the lanes beyond the tile's outputs take
 * every second, fourth or eighth channel and are summed by shuffles.
 * Weights: [input][tap][stride]. */
template <typename Weight, int TAPS_> struct Lanes {
  static constexpr int TAPS = TAPS_, H = TAPS - 1, LEAD = (H + 3) / 4 * 4;
  /* Channels whose weights are on their way while as many are added; a slab is
   * a multiple of what a warp takes at once. */
#if __CUDA_ARCH__ >= 1000 /* the same registers, and ptxas spills them */
  static constexpr int UNROLL = 1;
#else
  static constexpr int UNROLL = TAPS == 1 ? 2 : 1;
#endif

  const MimiGemmArgs &p;
  const unsigned rows, group, groups, quad, half;
  const Weight *weights;
  float acc[32], total[32];
  unsigned first, count;

  __device__
  Lanes (const MimiGemmArgs &args, unsigned)
      : p (args), rows (1u << args.rows_log2),
        group (threadIdx.x % 32 >> (args.rows_log2 - 1)), groups (64 / rows),
        quad (threadIdx.x % (rows / 2) / 2 * 4), half (threadIdx.x % 2 * 8),
        weights ((const Weight *)args.weights +
                 min (blockIdx.x * rows + quad, args.stride - 4)),
        total{}, first (0), count (32)
  {
  }

  __device__ void
  begin (unsigned)
  {
#pragma unroll
    for (int i = 0; i < 32; i++)
      acc[i] = 0.0f;
  }

  /* Of the next UNROLL channels from k on; of what is not there, the last that
   * is: it meets inputs that are zero. */
  __device__ void
  load (float4 (&w)[UNROLL][TAPS], unsigned k) const
  {
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
#pragma unroll
      for (int tap = 0; tap < TAPS; tap++)
        w[u][tap] =
            load4 (weights +
                   (min (k + u * groups + group, p.inputs - 1) * TAPS + tap) *
                       p.stride);
  }

  __device__ void
  add (const float *x, unsigned k0, unsigned n)
  {
    float4 w[UNROLL][TAPS];

    load (w, k0);
#pragma unroll 1
    for (unsigned r0 = 0; r0 < n; r0 += UNROLL * groups) {
      float4 next[UNROLL][TAPS];
      load (next, k0 + r0 + UNROLL * groups);
      ask_first ();
#pragma unroll
      for (int u = 0; u < UNROLL; u++) {
        const float *row = x + (r0 + u * groups + group) * SLAB_STRIDE;
        float window[LEAD + 8];
#pragma unroll
        for (int i = 0; i < LEAD + 8; i += 4)
          *(float4 *)(window + i) =
              *(const float4 *)(row + PAST - LEAD + half + i);
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
          for (int t = 0; t < 8; t++) {
            const float v = window[LEAD - H + tap + t];
            acc[t] = fmaf (w[u][tap].x, v, acc[t]);
            acc[8 + t] = fmaf (w[u][tap].y, v, acc[8 + t]);
            acc[16 + t] = fmaf (w[u][tap].z, v, acc[16 + t]);
            acc[24 + t] = fmaf (w[u][tap].w, v, acc[24 + t]);
          }
      }
#pragma unroll
      for (int u = 0; u < UNROLL; u++)
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++)
          w[u][tap] = next[u][tap];
    }
  }

  __device__ void
  end ()
  {
    first = 0;
    sum_groups<16> (acc, rows / 2, first, count);
    sum_groups<8> (acc, rows, first, count);
    sum_groups<4> (acc, rows * 2, first, count);
#pragma unroll
    for (int i = 0; i < 32; i++)
      total[i] += acc[i];
  }

  __device__ void
  leave (float *sums) const
  {
#pragma unroll
    for (unsigned i = 0; i < 32; i++)
      if (i < count)
        sums[(quad + (first + i) / 8) * TILE + half + (first + i) % 8] =
            total[i];
  }
};
