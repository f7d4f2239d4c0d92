/* Multiplying on tensor cores, in float32 as nearly as it is wanted.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A float is split into two tf32 numbers, of 11 bits each: x = high + low. The
 * products of the low halves with each other are left out, the others make
 *   3 products  float32 weights
 *   2 products  bf16 weights, which are tf32 numbers already: exact in them;
 *               or float32 weights rounded to tf32, for precision tf32
 * Large and small products are summed apart.
 */
#pragma once

#include "gemm.cuh"

/* The nearest tf32 (ties away): hardware ignores the bits that are cleared. */
static __device__ float
tf32 (float x)
{
  return __uint_as_float ((__float_as_uint (x) + 0x1000u) & 0xffffe000u);
}

/* c += a b, a [16][8], b [8][8]: lane l holds rows l / 4 and 8 more, and
 * columns l % 4 and 4 more of a, the transpose of that of b, and columns
 * 2 (l % 4) and 1 more of c. */
static __device__ void
multiply (float (&c)[4], const float (&a)[4], const float (&b)[2])
{
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint (a[0])), "r"(__float_as_uint (a[1])),
      "r"(__float_as_uint (a[2])), "r"(__float_as_uint (a[3])),
      "r"(__float_as_uint (b[0])), "r"(__float_as_uint (b[1])));
#endif
}

static __device__ void
unpack (const uint4 &raw, float (&a)[4])
{
  a[0] = __uint_as_float (raw.x);
  a[1] = __uint_as_float (raw.y);
  a[2] = __uint_as_float (raw.z);
  a[3] = __uint_as_float (raw.w);
}

static __device__ void
unpack (const uint2 &raw, float (&a)[4])
{
  a[0] = __uint_as_float (raw.x << 16);
  a[1] = __uint_as_float (raw.x & 0xffff0000u);
  a[2] = __uint_as_float (raw.y << 16);
  a[3] = __uint_as_float (raw.y & 0xffff0000u);
}

/* Raw: the four weights of a lane, uint4 (float32) or uint2 (bf16). A warp
 * takes 16 or 32 outputs x 16 times, 8 channels a step.
 * Weights: [16 outputs][8 inputs][tap][lane], zero where there are none. */
template <typename Raw, int PRODUCTS, int TAPS_> struct Matrix {
  static constexpr int TAPS = TAPS_;
  /* 16 outputs each, and steps between whose loads nothing waits. */
  static constexpr int BLOCKS = TAPS > 2 ? 1 : 2, ROUND = TAPS == 1 ? 2 : 1;

  const MimiGemmArgs &p;
  const unsigned blocks, steps; /* of 16 outputs; of 8 inputs in all */
  const Raw *weights;
  unsigned step; /* the next to be added */
  Raw now[ROUND][TAPS][BLOCKS];
  float large[BLOCKS][2][4], small[BLOCKS][2][4], total[BLOCKS][2][4];

  __device__
  Matrix (const MimiGemmArgs &args, unsigned part)
      : p (args), blocks (1u << (args.rows_log2 - 4)),
        steps ((args.inputs + 7) / 8),
        weights ((const Raw *)args.weights + threadIdx.x % 32), total{}
  {
    seek (part);
  }

  /* To the start of a part, its first weights on their way. */
  __device__ void
  seek (unsigned part)
  {
    step = part * p.part_rows / 8;
    load<BLOCKS> (now, step);
  }

  /* Of what is not there, the last that is: it meets inputs that are zero, or
   * belongs to outputs that nobody stores. */
  template <int N>
  __device__ void
  load (Raw (&to)[ROUND][TAPS][BLOCKS], unsigned from) const
  {
#pragma unroll
    for (int b = 0; b < N; b++) {
      const unsigned block =
          min (blockIdx.x * blocks + min (b, blocks - 1), p.stride / 16 - 1);
#pragma unroll
      for (int r = 0; r < ROUND; r++)
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++)
          to[r][tap][b] = __ldg (
              weights +
              ((block * steps + min (from + r, steps - 1)) * TAPS + tap) * 32);
    }
  }

  __device__ void
  begin (unsigned part)
  {
    if (step != part * p.part_rows / 8)
      seek (part);
#pragma unroll
    for (int i = 0; i < BLOCKS * 8; i++)
      (&large[0][0][0])[i] = (&small[0][0][0])[i] = 0.0f;
  }

  __device__ void
  add (const float *x, unsigned, unsigned n)
  {
    if (blocks == 1)
      add_blocks<1> (x, n);
    else
      add_blocks<BLOCKS> (x, n);
  }

  template <int N>
  __device__ void
  add_blocks (const float *x, unsigned n)
  {
    const float *column = x + threadIdx.x % 4 * SLAB_STRIDE + PAST -
                          (TAPS - 1) + threadIdx.x % 32 / 4;

    for (unsigned i = 0; i < n; i += 8 * ROUND) {
      Raw next[ROUND][TAPS][BLOCKS];

      load<N> (next, step + ROUND);
      float v[ROUND][TAPS][4];
#pragma unroll
      for (int r = 0; r < ROUND; r++)
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
          for (int j = 0; j < 4; j++)
            v[r][tap][j] =
                column[(i + 8 * r + j % 2 * 4) * SLAB_STRIDE + tap + j / 2 * 8];
      ask_first ();
#pragma unroll
      for (int r = 0; r < ROUND; r++)
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
          float high[2][2], low[2][2];
#pragma unroll
          for (int j = 0; j < 4; j++) {
            high[j / 2][j % 2] = tf32 (v[r][tap][j]);
            low[j / 2][j % 2] = v[r][tap][j] - high[j / 2][j % 2];
          }
#pragma unroll
          for (int b = 0; b < N; b++) {
            float a[4], rest[4];
            unpack (now[r][tap][b], a);
#pragma unroll
            for (int j = 0; j < 4; j++)
              if (PRODUCTS > 2) {
                rest[j] = a[j] - tf32 (a[j]);
                a[j] = tf32 (a[j]);
              }
#pragma unroll
            for (int h = 0; h < 2; h++) {
              multiply (large[b][h], a, high[h]);
              multiply (small[b][h], a, low[h]);
              if (PRODUCTS > 2)
                multiply (small[b][h], rest, high[h]);
            }
          }
        }
#pragma unroll
      for (int r = 0; r < ROUND; r++)
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
          for (int b = 0; b < N; b++)
            now[r][tap][b] = next[r][tap][b];
      step += ROUND;
    }
  }

  __device__ void
  end ()
  {
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          total[b][h][i] += large[b][h][i] + small[b][h][i];
  }

  __device__ void
  leave (float *sums) const
  {
    const unsigned row = threadIdx.x % 32 / 4, t = threadIdx.x % 4 * 2;
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          if (b < blocks)
            sums[(b * 16 + i / 2 * 8 + row) * TILE + h * 8 + t + i % 2] =
                total[b][h][i];
  }
};
