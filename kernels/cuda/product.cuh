/* A warp's part of a product, its weights loaded ahead.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "mma.cuh"

/* 16 GROUPS outputs x 8 HALVES times, of one part of the channels. The weights
 * of its first STEPS of 8 channels are loaded ahead, the others (of networks
 * larger than ours) when it is their turn. */
template <typename Raw, int PRODUCTS, int TAPS, int STEPS, int GROUPS,
    int HALVES>
struct Product {
  const Raw *weights;
  const unsigned all_steps, all_groups, part_rows, begin, n_steps;
  unsigned group;
  Raw w[STEPS][TAPS][GROUPS];
  Sums sums[GROUPS][HALVES];

  __device__
  Product (const void *from, unsigned inputs, unsigned outputs,
      unsigned rows_of_part, unsigned part)
      : weights ((const Raw *)from + threadIdx.x % 32),
        all_steps ((inputs + 7) / 8), all_groups ((outputs + 15) / 16),
        part_rows (rows_of_part), begin (min (part * rows_of_part, inputs)),
        n_steps ((min (begin + rows_of_part, inputs) - begin + 7) / 8)
  {
  }

  __device__ void
  load_from (unsigned from)
  {
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
      for (int g = 0; g < GROUPS; g++) {
        const unsigned step = min (begin / 8 + from + s, all_steps - 1);
        const unsigned b = min (group + g, all_groups - 1);
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++)
          w[s][tap][g] =
              TAPS > 1 || from + s < n_steps
                  ? __ldg (weights + ((b * all_steps + step) * TAPS + tap) * 32)
                  : Raw{};
      }
  }

  /* first: the first group of 16 outputs */
  __device__ void
  load (unsigned first)
  {
    group = first;
    load_from (0);
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
      for (int h = 0; h < HALVES; h++)
        sums[g][h] = Sums{};
  }

  /* Something of each weight that was loaded: see hold(). */
  __device__ unsigned
  mix () const
  {
    unsigned all = 0;
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
      for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
          all ^= w[s][tap][g].x;
    return all;
  }

  /* x: [channel][stride], the first tap's first column at `lead`; only the
   * first `halves` have times */
  __device__ void
  run (const float *x, unsigned stride, unsigned lead, unsigned halves)
  {
    const unsigned lane = threadIdx.x % 32;
    const float *column = x + (begin + lane % 4) * stride + lead + lane / 4;

    for (unsigned from = 0; from < n_steps; from += STEPS) {
      if (from > 0)
        load_from (from);
      /* The usual case without a branch between the steps. */
      if (n_steps - from >= STEPS && halves == HALVES)
        run_steps (column + from * 8 * stride, stride, HALVES, STEPS);
      else
        run_steps (column + from * 8 * stride, stride, halves, n_steps - from);
    }
  }

  __device__ __forceinline__ void
  run_steps (const float *column, unsigned stride, unsigned halves, unsigned n)
  {
#pragma unroll
    for (int s = 0; s < STEPS; s++)
      if (s < n)
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
          const float *at = column + s * 8 * stride + tap;
          Inputs inputs[HALVES];
#pragma unroll
          for (int h = 0; h < HALVES; h++)
            inputs[h] = split_inputs (at[h * 8], at[h * 8 + 4 * stride]);
#pragma unroll
          for (int g = 0; g < GROUPS; g++)
            add_products<PRODUCTS> (sums[g],
                split_weights<PRODUCTS> (w[s][tap][g]), inputs, halves);
        }
  }

  /* to: [part][rows][stride], rows a part's outputs; first: of ours */
  __device__ void
  leave (float *to, unsigned stride, unsigned rows, unsigned part,
      unsigned first) const
  {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
      for (int h = 0; h < HALVES; h++)
#pragma unroll
        for (int i = 0; i < 2; i++)
          *(float2 *)(to +
                      (part * rows + first + g * 16 + i * 8 + lane / 4) *
                          stride +
                      h * 8 + lane % 4 * 2) =
              make_float2 (sums[g][h].large[2 * i] + sums[g][h].small[2 * i],
                  sums[g][h].large[2 * i + 1] + sums[g][h].small[2 * i + 1]);
  }
};

/* The parts of one output, in order; of parts that do not exist, nothing. */
template <int N>
static __device__ float
sum_parts (const float *from, unsigned stride)
{
  float v[N], sum = 0.0f;
#pragma unroll
  for (int i = 0; i < N; i++)
    v[i] = from[i * stride];
#pragma unroll
  for (int i = 0; i < N; i++)
    sum += v[i];
  return sum;
}
