/* Attention on tensor cores: the products, and which rank has which keys.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Eight ranks share what eight queries of a head can see, by blocks of 16
 * positions as the ring has them. Rank 0 has the block that the frame itself
 * adds to, the newest; the others take turns with those before it, by their age
 * in blocks:
 *
 *   age   0   1  2  3  4  5  6  7   8  9 10 ...
 *   rank  0   1  2  3  4  5  6  7   1  2  3 ...
 *
 * Each rank makes its own softmax, by its own largest score, and in the end the
 * ranks' sums are joined in their order. So what a query comes to depends on its
 * position and the window alone: a rank may be a block of a cluster or a warp.
 *
 * The ring holds keys [head][block][dim][16] and values [head][block][16][dim].
 * Both are the left side of a product, of two neighbouring columns a load:
 *
 *   scores [16 keys][8 queries]  = keys [16][dim]  x queries [dim][8]
 *   sums   [16 of dim][8 queries] = values [16][16] x weights [16 keys][8]
 *
 * Rows l and l + 8 of a product are columns 2 l and 2 l + 1 of the ring.
 */
#pragma once

#include "mma.cuh"

#define ATTEND_QUERIES 8
/* Blocks that a rank other than the first can have, and those whose values are
 * in registers at once. */
#define ATTEND_BLOCKS \
  (((MIMI_CUDA_MAX_WINDOW + TILE - 2) / TILE + MIMI_CUDA_RANKS - 2) / \
      (MIMI_CUDA_RANKS - 1))
#define ATTEND_AHEAD 3

/* Scores of a block of keys, and later their weights: [row][query]. */
typedef float Scores[TILE][ATTEND_QUERIES];

/* A chain of products that add to the same sums is slow: large products and two
 * kinds of small ones, of even and of odd steps, are summed apart. */
struct Chains {
  float sum[2][3][4];

  __device__ void
  add (int step, const Weights &w, const Inputs &x)
  {
    multiply (sum[step % 2][0], w.a, x.high);
    multiply (sum[step % 2][1], w.a, x.low);
    multiply (sum[step % 2][2], w.rest, x.high);
  }

  __device__ float
  get (int i) const
  {
    return (sum[0][0][i] + sum[1][0][i]) +
           ((sum[0][1][i] + sum[1][1][i]) + (sum[0][2][i] + sum[1][2][i]));
  }
};

/* A lane's two columns in each of two rows of the ring. */
struct Pair {
  float2 upper, lower;
};

template <int N>
static __device__ void
split_pairs (const Pair *x, Weights *to)
{
#pragma unroll
  for (int i = 0; i < N; i++)
    to[i] = split_weights<3> (make_uint4 (__float_as_uint (x[i].upper.x),
        __float_as_uint (x[i].upper.y), __float_as_uint (x[i].lower.x),
        __float_as_uint (x[i].lower.y)));
}

/* 2 to the power of x; what is as good as nothing is nothing. */
static __device__ float
power (float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* What one rank finds, relative to 2 to the power of `most`. */
struct Found {
  float most, sum;
};

/* Eight queries of a head, of one entry. */
template <int DIM> struct Attend {
  static constexpr int STEPS = DIM / 8, QUARTERS = DIM / 16;

  const MimiAttentionArgs &p;
  const unsigned lane, first; /* first: time of the first query */
  const float *keys, *values; /* of the head */
  unsigned newest;            /* slot of the newest block in the ring */
  unsigned n_old;             /* blocks before it that can be seen */
  unsigned n_run;             /* of these, those that the run adds to */
  /* Columns of the newest block: of the first query, and of the frame's last. */
  unsigned at, end;

  __device__
  Attend (const MimiAttentionArgs &args, const MimiEntry &entry, unsigned head,
      unsigned half)
      : p (args), lane (threadIdx.x % 32), first (half * ATTEND_QUERIES)
  {
    const unsigned long long now = entry.frame * p.times;
    const unsigned long long past = p.window - 1;
    const unsigned long long block = now / TILE;

    keys =
        (const float *)entry.state + p.ring + head * p.ring_blocks * DIM * TILE;
    values = keys + p.heads * p.ring_blocks * DIM * TILE;
    newest = (unsigned)(block % p.ring_blocks);
    n_old = (unsigned)(block - (now > past ? now - past : 0) / TILE);
    n_run = (unsigned)(block - (entry.frame - entry.follows) * p.times / TILE);
    at = (unsigned)(now % TILE) + first;
    end = (unsigned)(now % TILE) + p.times - 1;
  }

  __device__ unsigned
  count_blocks (unsigned rank) const
  {
    constexpr unsigned N = MIMI_CUDA_RANKS - 1;
    return rank == 0 ? 1 : (n_old + N - rank) / N;
  }

  /* Of the i-th block of a rank. */
  static __device__ unsigned
  get_age (unsigned rank, unsigned i)
  {
    return rank + i * (MIMI_CUDA_RANKS - 1);
  }

  __device__ const float *
  find_block (const float *ring, unsigned age) const
  {
    const unsigned slot =
        newest >= age ? newest - age : newest - age + p.ring_blocks;
    return ring + slot * DIM * TILE;
  }

  /* Columns to come are not looked at: nobody may have written there yet. Those
   * that the window has left behind are still there, and weigh nothing. */
  __device__ unsigned
  get_last (unsigned age) const
  {
    return end + age * TILE;
  }

  /* The first of the two columns of a block of keys that a lane loads. */
  __device__ unsigned
  get_column (unsigned age) const
  {
    const unsigned column = lane / 4 * 2;
    return column <= get_last (age) ? column : 0;
  }

  /* Where it begins to load them, at a step of dim. */
  __device__ const float *
  find_keys (unsigned age, unsigned step) const
  {
    return find_block (keys, age) + (step * 8 + lane % 4) * TILE +
           get_column (age);
  }

  /* N steps of dim.
   * from: of find_keys() */
  template <int N>
  __device__ void
  load_keys (const float *from, unsigned age, Pair *to) const
  {
    if (get_column (age) < get_last (age)) {
#pragma unroll
      for (int s = 0; s < N; s++)
        to[s] = { *(const float2 *)(from + s * 8 * TILE),
          *(const float2 *)(from + (s * 8 + 4) * TILE) };
    } else { /* the second one is still to come */
#pragma unroll
      for (int s = 0; s < N; s++)
        to[s] = { { from[s * 8 * TILE], 0.0f },
          { from[(s * 8 + 4) * TILE], 0.0f } };
    }
    ask_first ();
  }

  /* Where a lane begins to load the values of a block, 16 of dim: rows 2 l of the
   * first step, 2 l + 1 of the second. */
  __device__ const float *
  find_values (unsigned age, unsigned quarter) const
  {
    return find_block (values, age) + quarter * 16 + lane / 4 * 2;
  }

  /* from: of find_values() */
  __device__ void
  load_values (const float *from, unsigned age, Pair *to) const
  {
#pragma unroll
    for (int s = 0; s < 2; s++) {
      const unsigned column = lane % 4 * 2 + s, last = get_last (age);
      to[s] = { *(const float2 *)(from + min (column, last) * DIM),
        *(const float2 *)(from + min (column + 8, last) * DIM) };
    }
    ask_first ();
  }

  /* Where the lane's query begins in the head's, or if there is none, another
   * one. */
  __device__ unsigned
  find_query () const
  {
    return lane % 4 * TILE + min (first + lane / 4, p.times - 1);
  }

  template <int N>
  static __device__ void
  load_query (const float *from, float (&to)[N][2])
  {
#pragma unroll
    for (int s = 0; s < N; s++)
#pragma unroll
      for (int i = 0; i < 2; i++)
        to[s][i] = from[(s * 8 + i * 4) * TILE];
    ask_first ();
  }

  /* Where a lane puts its first score, and where it finds its first weight. */
  __device__ unsigned
  find_score () const
  {
    return lane / 4 * ATTEND_QUERIES + lane % 4 * 2;
  }

  __device__ unsigned
  find_weight () const
  {
    return lane % 4 * ATTEND_QUERIES + lane / 4;
  }

  /* Of N steps.
   * to: of find_score() */
  template <int N>
  __device__ void
  score (unsigned age, const Weights *key, const float (&query)[N][2],
      float *to) const
  {
    Chains chains = {};
    /* How far back from the query the key is. */
    const unsigned back = at + lane % 4 * 2 - lane / 4 * 2 + age * TILE;

#pragma unroll
    for (int s = 0; s < N; s++)
      chains.add (s, key[s], split_inputs (query[s][0], query[s][1]));
#pragma unroll
    for (int i = 0; i < 2; i++) {
      float x[2];
#pragma unroll
      for (int j = 0; j < 2; j++)
        x[j] = back - i + j < p.window ? chains.get (2 * i + j) : -INFINITY;
      *(float2 *)(to + i * 8 * ATTEND_QUERIES) = make_float2 (x[0], x[1]);
    }
  }

  /* The weights of N blocks of keys, a query in four lanes. Scores are sums of
   * four pieces where IN_PIECES says so.
   * from: of find_weight() */
  template <int N, bool IN_PIECES>
  static __device__ Found
  weigh (const float *from, float (&weight)[N][4])
  {
    static_assert (DIM == 64 || DIM == 32, "roots");
    static_assert (!IN_PIECES || N == 1, "of the newest alone");
    /* Of a score, in powers of two: that is what the hardware has. */
    constexpr float UNIT = 1.44269504f * (DIM == 64 ? 0.125f : 0.176776695f);
    constexpr unsigned STRIDE = sizeof (Scores) / sizeof (float);
    float most[4] = { -INFINITY, -INFINITY, -INFINITY, -INFINITY };
    float sum[4] = {};

#pragma unroll
    for (int b = 0; b < N; b++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const float *x = from + b * STRIDE + i * 4 * ATTEND_QUERIES;
        weight[b][i] =
            IN_PIECES ? (x[0] + x[STRIDE]) + (x[2 * STRIDE] + x[3 * STRIDE])
                      : x[0];
      }
#pragma unroll
    for (int b = 0; b < N; b++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        most[i] = b == 0 ? weight[b][i] : fmaxf (most[i], weight[b][i]);
    float all = fmaxf (fmaxf (most[0], most[1]), fmaxf (most[2], most[3]));
    all = fmaxf (all, __shfl_xor_sync (FULL_WARP, all, 1));
    all = fmaxf (all, __shfl_xor_sync (FULL_WARP, all, 2));
    /* A rank may have nothing that the query sees. */
    const float base = all == -INFINITY ? 0.0f : -UNIT * all;
#pragma unroll
    for (int b = 0; b < N; b++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        weight[b][i] = power (fmaf (UNIT, weight[b][i], base));
        sum[i] += weight[b][i];
      }
    float total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    total += __shfl_xor_sync (FULL_WARP, total, 1);
    total += __shfl_xor_sync (FULL_WARP, total, 2);
    return { UNIT * all, total };
  }

  /* Values of a rank's N blocks, of which the first are there already. */
  template <int N>
  __device__ void
  add_values (const float (&weight)[N][4], unsigned rank, unsigned quarter,
      Weights *value, Chains &chains) const
  {
#pragma unroll
    for (int b = 0; b < N; b++) {
      const int place = b % ATTEND_AHEAD * 2;
      if (b >= ATTEND_AHEAD) {
        Pair late[2];
        const unsigned age = get_age (rank, b);
        load_values (find_values (age, quarter), age, late);
        split_pairs<2> (late, value + place);
      }
#pragma unroll
      for (int s = 0; s < 2; s++)
        chains.add (s, value[place + s],
            split_inputs (weight[b][2 * s], weight[b][2 * s + 1]));
    }
  }
};

/* What all ranks have found for a query: `sums` of one of dim are `stride`
 * apart, `found` are neighbours. */
static __device__ float
join_ranks (const float *sums, unsigned stride, const Found *found)
{
  constexpr int N = MIMI_CUDA_RANKS;
  float x[N], most[N], all = 0.0f, sum = 0.0f;
  Found f[N];

#pragma unroll
  for (int r = 0; r < N; r++) {
    f[r] = found[r];
    x[r] = sums[r * stride];
    most[r] = f[r].most;
  }
#pragma unroll
  for (int n = N / 2; n > 0; n /= 2)
#pragma unroll
    for (int r = 0; r < n; r++)
      most[r] = fmaxf (most[r], most[r + n]);
#pragma unroll
  for (int r = 0; r < N; r++) {
    const float weight = power (f[r].most - most[0]);
    all = fmaf (weight, x[r], all);
    sum = fmaf (weight, f[r].sum, sum);
  }
  return __fdividef (all, sum);
}
