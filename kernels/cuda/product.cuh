/* A warp's part of a product, its weights loaded ahead.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "mma.cuh"

/* 16 GROUPS outputs x 8 HALVES times, of one part of the channels. The weights
 * of its first STEPS of 8 channels are loaded ahead, the others (of networks
 * larger than ours) when it is their turn. PREPARED: prepare() splits them before their
 * inputs are there, which takes twice the registers. */
template <typename Raw, int PRODUCTS, int TAPS, int STEPS, int GROUPS,
    int HALVES, bool PREPARED = false, typename S = Sums>
struct Product {
  static constexpr int FEW = STEPS > 2 ? 2 : 1; /* of smaller networks */

  const Raw *weights;
  const unsigned all_steps, all_groups, begin, n_steps;
  unsigned group;
  Raw w[STEPS][TAPS][GROUPS];
  Weights ready[PREPARED ? STEPS : 1][TAPS][GROUPS];
  S sums[GROUPS][HALVES];

  __device__
  Product (const void *from, unsigned inputs, unsigned outputs,
      unsigned rows_of_part, unsigned part)
      : weights ((const Raw *)from + threadIdx.x % 32),
        all_steps ((inputs + 7) / 8), all_groups ((outputs + 15) / 16),
        begin (min (part * rows_of_part, inputs)),
        n_steps ((min (begin + rows_of_part, inputs) - begin + 7) / 8)
  {
  }

  __device__ void
  load_from (unsigned from, int begin_tap = 0, int end_tap = TAPS)
  {
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
      for (int g = 0; g < GROUPS; g++) {
        const unsigned step = min (begin / 8 + from + s, all_steps - 1);
        const unsigned b = min (group + g, all_groups - 1);
#pragma unroll
        for (int tap = begin_tap; tap < end_tap; tap++)
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
    load_taps (first, 0, TAPS);
  }

  /* Some of its taps, the first of them first. */
  __device__ __forceinline__ void
  load_taps (unsigned first, int begin_tap, int end_tap)
  {
    group = first;
    load_from (0, begin_tap, end_tap);
    if (begin_tap > 0)
      return;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
      for (int h = 0; h < HALVES; h++)
        sums[g][h] = S{};
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

  __device__ void
  prepare ()
  {
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
      for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
          ready[s][tap][g] = split_weights<PRODUCTS> (w[s][tap][g]);
  }

  /* What a lane's inputs are: get (step, tap, half) of the part; only the first
   * `halves` have times. */
  template <typename Source>
  __device__ void
  run (const Source &get, unsigned halves)
  {
    for (unsigned from = 0; from < n_steps; from += STEPS) {
      if (from > 0)
        load_from (from);
      run_some ([&] (unsigned s, unsigned tap,
                    unsigned h) { return get (from + s, tap, h); },
          halves, n_steps - from);
    }
  }

  /* The same where no part has more than STEPS: fewer registers. */
  template <typename Source>
  __device__ void
  run_once (const Source &get, unsigned halves)
  {
    if (n_steps > 0)
      run_some (get, halves, n_steps);
  }

  /* x: [channel][stride], the first tap's first column at `lead` */
  __device__ void
  run (const float *x, unsigned stride, unsigned lead, unsigned halves)
  {
    const unsigned lane = threadIdx.x % 32;
    const float *column = x + (begin + lane % 4) * stride + lead + lane / 4;

    run (
        [&] (unsigned s, unsigned tap, unsigned h) {
          const float *at = column + s * 8 * stride + tap + h * 8;
          return split_inputs (at[0], at[4 * stride]);
        },
        halves);
  }

  /* share: of the part's first channels in global memory, see pairs.cuh; a lane
   * asks for all that it multiplies at once; as run_once() */
  __device__ void
  run_straight (const float *share, unsigned halves)
  {
    if (n_steps == STEPS && halves == HALVES)
      run_loaded<STEPS> (share, HALVES, STEPS);
    else if (n_steps == FEW && halves == HALVES)
      run_loaded<FEW> (share, HALVES, FEW);
    else if (n_steps > 0)
      run_loaded<STEPS> (share, halves, n_steps);
  }

  template <int N>
  __device__ __forceinline__ void
  run_loaded (const float *share, unsigned halves, unsigned n)
  {
    float v[N][HALVES][2] = {};

#pragma unroll
    for (int s = 0; s < N; s++)
      if (s < n)
#pragma unroll
        for (int h = 0; h < HALVES; h++)
#pragma unroll
          for (int i = 0; i < 2; i++)
            v[s][h][i] = share[(s * 8 + i * 4) * TILE + h * 8];
    ask_first ();
    run_steps<N> (
        [&] (unsigned s, unsigned, unsigned h) {
          return split_inputs (v[s][h][0], v[s][h][1]);
        },
        halves, n);
  }

  /* The usual cases without a branch between the steps. */
  template <typename Source>
  __device__ __forceinline__ void
  run_some (const Source &get, unsigned halves, unsigned n)
  {
    if (n >= STEPS && halves == HALVES)
      run_steps<STEPS> (get, HALVES, STEPS);
    else if (n == FEW && halves == HALVES)
      run_steps<FEW> (get, HALVES, FEW);
    else
      run_steps<STEPS> (get, halves, n);
  }

  /* N of them, or n, from step FIRST on. */
  template <int N, int FIRST = 0, typename Source>
  __device__ __forceinline__ void
  run_steps (const Source &get, unsigned halves, unsigned n)
  {
#pragma unroll
    for (int s = FIRST; s < FIRST + N; s++)
      if (s < FIRST + n)
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
          Inputs inputs[HALVES];
#pragma unroll
          for (int h = 0; h < HALVES; h++)
            inputs[h] = get (s, tap, h);
#pragma unroll
          for (int g = 0; g < GROUPS; g++)
            add_products<PRODUCTS> (sums[g],
                PREPARED ? ready[PREPARED ? s : 0][tap][g]
                         : split_weights<PRODUCTS> (w[s][tap][g]),
                inputs, halves);
        }
  }

  /* to: [pair of times][stride], the lane's first place */
  __device__ void
  leave_pairs (float2 *to, unsigned stride) const
  {
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
      for (int h = 0; h < HALVES; h++)
#pragma unroll
        for (int i = 0; i < 2; i++)
          to[h * 4 * stride + g * 16 + i * 8] = sums[g][h].get_two (i);
  }

  /* to: [part][rows][8 HALVES], as the other leave(); of every other two rows the
   * halves have changed places (find_close()), so that neither writing nor reading
   * one row after the other meets a bank twice. */
  __device__ void
  leave_close (float *to, unsigned rows, unsigned part) const
  {
    static_assert (HALVES < 3, "two may change places");
    const unsigned lane = threadIdx.x % 32, turned = lane / 8 % HALVES;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
      for (int h = 0; h < HALVES; h++)
#pragma unroll
        for (int i = 0; i < 2; i++)
          *(float2 *)(to +
                      (part * rows + g * 16 + i * 8 + lane / 4) * 8 * HALVES +
                      (h ^ turned) * 8 + lane % 4 * 2) = sums[g][h].get_two (i);
  }

  /* Where leave_close() puts time t of a row. */
  static __device__ unsigned
  find_close (unsigned row, unsigned t)
  {
    return row * 8 * HALVES + (t ^ row / 2 % HALVES * 8);
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
                      h * 8 + lane % 4 * 2) = sums[g][h].get_two (i);
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
