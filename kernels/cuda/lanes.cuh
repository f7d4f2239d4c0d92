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

/* A warp takes 64 outputs x 16 times, a lane 4 x 8 of them. Weights:
 * [inputs rounded up to 4][tap][outputs rounded up to 4], zero where there are
 * none. */
template <typename Weight, int TAPS_> struct Lanes {
  static constexpr int TAPS = TAPS_, H = TAPS - 1, LEAD = (H + 3) / 4 * 4;
  /* Channels a warp stages at once, and then its sums. */
  static constexpr int SLAB = 16, SUMS = SLAB * SLAB_STRIDE, ROWS = 64;
  /* Channels whose weights are on their way while as many are added. */
#if __CUDA_ARCH__ >= 1000 /* the same registers, and ptxas spills them */
  static constexpr int UNROLL = 1;
#else
  static constexpr int UNROLL = TAPS == 1 ? 2 : 1;
#endif

  const MimiGemmArgs &p;
  const unsigned quad, half;
  const Weight *weights;
  float acc[32], total[32];

  __device__
  Lanes (const MimiGemmArgs &args, unsigned)
      : p (args), quad (threadIdx.x % 32 / 2 * 4), half (threadIdx.x % 2 * 8),
        weights ((const Weight *)args.weights +
                 min (blockIdx.x * 64 + quad, args.stride - 4)),
        total{}
  {
  }

  static __device__ unsigned
  count_parts (const MimiGemmArgs &p)
  {
    return PARTS * p.ranks;
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
        w[u][tap] = load4 (
            weights + (min (k + u, p.inputs - 1) * TAPS + tap) * p.stride);
  }

  __device__ void
  add (const float *x, unsigned k0, unsigned n)
  {
    float4 w[UNROLL][TAPS];

    load (w, k0);
#pragma unroll 1
    for (unsigned r0 = 0; r0 < n; r0 += UNROLL) {
      float4 next[UNROLL][TAPS];
      load (next, k0 + r0 + UNROLL);
      ask_first ();
#pragma unroll
      for (int u = 0; u < UNROLL; u++) {
        const float *row = x + (r0 + u) * SLAB_STRIDE;
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

  /* Eight parts are what a block of split.cuh sums, before the blocks' sums are
   * added to each other. */
  __device__ void
  end (unsigned part, float *sums)
  {
#pragma unroll
    for (int i = 0; i < 32; i++)
      total[i] += acc[i];
    if (part % PARTS != PARTS - 1)
      return;
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
      float4 *to = (float4 *)(sums + (quad + i / 8) * TILE + half + i % 8);
      float4 sum = part < PARTS ? make_float4 (0, 0, 0, 0) : *to;
      sum.x += total[i];
      sum.y += total[i + 1];
      sum.z += total[i + 2];
      sum.w += total[i + 3];
      *to = sum;
      total[i] = total[i + 1] = total[i + 2] = total[i + 3] = 0.0f;
    }
  }

  __device__ void
  close (float *, bool)
  {
  }

  __device__ void
  leave (float *)
  {
  }
};
