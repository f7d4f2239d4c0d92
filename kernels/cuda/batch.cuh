/* Products of many tiles, on tensor cores.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One stream is a matter of latency, many are one of instructions and of bytes
 * from L2: a float that is split for the tensor cores costs as much as half a
 * product. So a warp takes 16 or 32 outputs of two tiles, and splits each weight
 * for 32 columns, each input for all taps and outputs.
 *
 * Column j of the warp's quarter h (of 8 columns) is time 4 (j % 4) + h of tile
 * j / 4: what a lane needs of a channel, for all taps, are neighbours in shared
 * memory, and its sums are eight times in a row.
 *
 * Sums are those of spread.cuh and gemm.cuh, part by part; where they have ranks,
 * those are added up by themselves first.
 */
#pragma once

#include "feed.cuh"
#include "mma.cuh"

/* Where sums of parts are. */
enum Totals {
  HELD, /* in registers, all of them */
  EACH, /* in shared memory, for want of registers */
  RANKS /* those of a rank in registers, of all ranks in shared memory */
};

/* A warp's 16 GROUPS outputs of two tiles. */
template <typename Raw, int PRODUCTS, int TAPS, int GROUPS, Totals TOTALS,
    typename S>
struct ManyProduct {
  static constexpr int H = TAPS - 1, STEPS = MANY_SLAB / 8;
  static constexpr int VALUES = H + 4; /* of a channel, that a lane needs */
  /* Weights that are on their way, and steps without a branch between them. */
  static constexpr int DEPTH = TAPS > 1 ? 1 : 2;
  static constexpr int UNROLL = TAPS > 1 ? (TAPS > 3 ? 2 : 1) : 2;
  static constexpr int QUARTERS = GROUPS * 4;
  const Raw *weights[GROUPS]; /* of this slab's first step */
  unsigned left, subs;        /* steps of the part, parts of the rank to come */
  Raw w[DEPTH][GROUPS];
  S sums[GROUPS][4];
  float4 held[TOTALS == EACH ? 1 : QUARTERS];
  float4 *total; /* [QUARTERS][threads] */

  /* row0: the warp's */
  __device__
  ManyProduct (
      const MimiGemmArgs &p, unsigned row0, unsigned n_subs, float *place)
      : left (p.part_rows / 8), subs (n_subs), sums{}, held{},
        total ((float4 *)place + threadIdx.x)
  {
    const unsigned steps = (p.inputs + 7) / 8;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      const unsigned group = min (row0 / 16 + g, p.stride / 16 - 1);
      weights[g] = (const Raw *)p.weights + threadIdx.x % 32 +
                   (size_t)group * steps * TAPS * 32;
      settle (weights[g]);
#pragma unroll
      for (int i = 0; i < DEPTH; i++)
        w[i][g] = __ldg (weights[g] + i * 32);
    }
    if (TOTALS != HELD)
#pragma unroll
      for (int q = 0; q < QUARTERS; q++)
        total[q * MANY_THREADS] = make_float4 (0, 0, 0, 0);
  }

  /* What a lane needs of a channel, for all taps. */
  static __device__ void
  fetch (const float *x, float (&to)[VALUES])
  {
    float v[12];
    if (H > 4)
      *(float4 *)(v + 4) = *(const float4 *)(x - 4);
    if (H == 1)
      to[0] = x[-1];
    else if (H > 1)
      *(float2 *)v = *(const float2 *)(x - H);
    *(float4 *)(v + 8) = *(const float4 *)x;
#pragma unroll
    for (int c = 0; c < VALUES; c++)
      if (c >= H)
        to[c] = v[8 + c - H];
      else if (H > 1)
        to[c] = v[c < 2 ? c : c + 2];
  }

  /* x: of the first of the warp's tiles. Channels that do not exist are zero, so
   * parts that do not exist change nothing. */
  __device__ void
  run (const float *x, unsigned part_steps, unsigned n_subs)
  {
    const unsigned lane = threadIdx.x % 32;

    x += lane / 16 * MANY_PLANE + lane % 4 * MANY_STRIDE + MANY_PAST +
         lane / 4 % 4 * 4;
    /* The usual case without a branch between the steps. */
    if (TAPS == 1 && part_steps % UNROLL == 0)
      run_steps<UNROLL> (x, part_steps, n_subs);
    else
      run_steps<1> (x, part_steps, n_subs);
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
      weights[g] += STEPS * TAPS * 32;
  }

  /* UNIT: steps that are of one part for sure */
  template <int UNIT>
  __device__ __forceinline__ void
  run_steps (const float *x, unsigned part_steps, unsigned n_subs)
  {
#pragma unroll UNROLL
    for (int s = 0; s < STEPS; s++) {
      float high[2][VALUES], low[2][VALUES];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        fetch (x + (s * 8 + i * 4) * MANY_STRIDE, low[i]);
#pragma unroll
        for (int c = 0; c < VALUES; c++) {
          high[i][c] = tf32 (low[i][c]);
          low[i][c] -= high[i][c];
        }
      }
#pragma unroll
      for (int tap = 0; tap < TAPS; tap++) {
        const int at = s * TAPS + tap;
        Inputs inputs[4];
#pragma unroll
        for (int h = 0; h < 4; h++)
#pragma unroll
          for (int i = 0; i < 2; i++) {
            inputs[h].high[i] = high[i][h + tap];
            inputs[h].low[i] = low[i][h + tap];
          }
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
          Raw &raw = w[(TAPS % DEPTH ? at : tap) % DEPTH][g];
          const Weights now = split_weights<PRODUCTS> (raw);
          /* Beyond the last there is something: pack.c sees to that. It meets
           * zeros. */
          raw = __ldg (weights[g] + (at + DEPTH) * 32);
          add_products<PRODUCTS> (sums[g], now, inputs);
        }
      }
      if ((s + 1) % UNIT == 0 && (left -= UNIT) == 0) {
        left = part_steps;
        end_part (n_subs);
      }
    }
  }

  /* Closes the part: adds it to its rank, and that to all if it is complete. */
  __device__ void
  end_part (unsigned n_subs, bool is_last = false)
  {
    const bool ends = TOTALS == RANKS && (--subs == 0 || is_last);

#pragma unroll
    for (int q = 0; q < QUARTERS; q++) {
      S &sum = sums[q / 4][q % 4];
      float4 v =
          make_float4 (sum.get (0), sum.get (1), sum.get (2), sum.get (3));
      float4 &all = total[q * MANY_THREADS];
      sum = S{};
      if (TOTALS != EACH)
        v = held[q] = add (held[q], v);
      if (TOTALS == EACH || ends)
        all = add (all, v);
      if (ends)
        held[q] = make_float4 (0, 0, 0, 0);
    }
    if (ends)
      subs = n_subs;
  }

  static __device__ float4
  add (const float4 &a, const float4 &b)
  {
    return make_float4 (a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
  }

  __device__ void
  finish (unsigned n_subs)
  {
    end_part (n_subs, true);
  }

  /* The lane's eight times of outputs lane / 4 and 8 more, of group g. */
  __device__ void
  get (int g, float (&v)[2][8]) const
  {
#pragma unroll
    for (int h = 0; h < 4; h++) {
      const float4 sum =
          TOTALS == HELD ? held[g * 4 + h] : total[(g * 4 + h) * MANY_THREADS];
      v[0][h] = sum.x;
      v[0][4 + h] = sum.y;
      v[1][h] = sum.z;
      v[1][4 + h] = sum.w;
    }
  }
};
