/* Multiplying on tensor cores, for gemm.cuh.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "gemm.cuh"
#include "mma.cuh"

/* Raw: the four weights of a lane, uint4 (float32) or uint2 (bf16). A warp
 * takes 16 or 32 outputs x 16 times, 8 channels a step. */
template <typename Raw, int PRODUCTS, int TAPS_, typename S = Sums>
struct Matrix {
  static constexpr int TAPS = TAPS_;
  /* Channels a warp stages at once, and then its sums. */
  static constexpr int SLAB = 32, SUMS = SLAB * SLAB_STRIDE, ROWS = 32;
  /* 16 outputs each, and steps between whose loads nothing waits. */
  static constexpr int BLOCKS = TAPS > 2 ? 1 : 2,
                       ROUND = TAPS == 1 && PRODUCTS < 3 ? 2 : 1;

  const MimiGemmArgs &p;
  const unsigned blocks, steps; /* of 16 outputs; of 8 inputs in all */
  const Raw *weights;
  unsigned step; /* the next to be added */
  Raw now[ROUND][TAPS][BLOCKS];
  S sums[BLOCKS][2];
  float total[BLOCKS][2][4]; /* of parts */

  __device__
  Matrix (const MimiGemmArgs &args, unsigned part)
      : p (args), blocks (1u << (args.rows_log2 - 4)),
        steps ((args.inputs + 7) / 8),
        weights ((const Raw *)args.weights + threadIdx.x % 32), total{}
  {
    seek (part);
  }

  static __device__ unsigned
  count_parts (const MimiGemmArgs &p)
  {
    return PARTS << p.subs_log2;
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
    for (int b = 0; b < BLOCKS; b++)
      sums[b][0] = sums[b][1] = S{};
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

#pragma unroll 1 /* registers are few */
    for (unsigned i = 0; i < n; i += 8 * ROUND) {
      Raw next[ROUND][TAPS][BLOCKS];

      load<N> (next, step + ROUND);
#pragma unroll
      for (int r = 0; r < ROUND; r++)
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
          Inputs inputs[2];
#pragma unroll
          for (int h = 0; h < 2; h++)
            inputs[h] =
                split_inputs (column[(i + 8 * r) * SLAB_STRIDE + tap + h * 8],
                    column[(i + 8 * r + 4) * SLAB_STRIDE + tap + h * 8]);
#pragma unroll
          for (int b = 0; b < N; b++)
            add_products<PRODUCTS> (
                sums[b], split_weights<PRODUCTS> (now[r][tap][b]), inputs);
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
  end (unsigned, float *)
  {
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          total[b][h][i] += sums[b][h].get (i);
  }

  /* The parts since the last time to the sums, and begin again. */
  __device__ void
  close (float *sums, bool is_first)
  {
    each_sum (sums, [&] (float *to, float &sum) {
      *to = (is_first ? 0.0f : *to) + sum;
      sum = 0.0f;
    });
  }

  __device__ void
  leave (float *sums)
  {
    each_sum (sums, [] (float *to, float &sum) { *to = sum; });
  }

  template <typename Function>
  __device__ void
  each_sum (float *sums, Function function)
  {
    const unsigned row = threadIdx.x % 32 / 4, t = threadIdx.x % 4 * 2;
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          if (b < blocks)
            function (
                sums + (b * 16 + i / 2 * 8 + row) * TILE + h * 8 + t + i % 2,
                total[b][h][i]);
  }
};
