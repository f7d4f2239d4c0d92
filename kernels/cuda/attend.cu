/* Attention on tensor cores, of eight queries of a head.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * For few streams, from 9.0 on, a block of a cluster is a rank of attend.cuh: half
 * of its warps have keys in registers, the others values, before the queries
 * are there. Else a warp is a rank.
 */
#include "attend.cuh"
#include "cluster.cuh"

/* Warps of a block that make scores; the others have values. */
#define KEY_WARPS (WARPS / 2)

static_assert (MIMI_CUDA_RANKS == ATTEND_QUERIES, "each finishes one");
static_assert (MIMI_CUDA_RANKS == WARPS, "either can be a rank");

/* Steps of a block of keys, or two of each block of values. */
#define RING (2 * ATTEND_AHEAD > STEPS ? 2 * ATTEND_AHEAD : STEPS)

/* Of which head, and which eight of its queries. */
struct Which {
  unsigned head, half;

  __device__
  Which (const MimiAttentionArgs &p, unsigned index)
      : head (p.times > ATTEND_QUERIES ? index / 2 : index),
        half (p.times > ATTEND_QUERIES ? index % 2 : 0)
  {
  }
};

/* The newest block's scores are made in as many pieces, by warps that have to
 * wait for it. */
#define KEY_PIECES 4

/* The blocks that a rank has, and how many of them are in registers. */
template <int N, bool IS_NEWEST> struct Blocks {
  static constexpr int n = N, ahead = N < ATTEND_AHEAD ? N : ATTEND_AHEAD;
  static constexpr bool is_newest = IS_NEWEST;
};

/* Calls function (Blocks) for the n blocks of a rank, if any, without a loop: of
 * one size after the other, the usual ones first. */
template <typename Function>
static __device__ void
with_blocks (unsigned rank, unsigned n, Function function)
{
  static_assert (ATTEND_BLOCKS == 5, "all of them");
  if (rank == 0)
    function (Blocks<1, true> ());
  else if (n == 3)
    function (Blocks<3, false> ());
  else if (n == 2)
    function (Blocks<2, false> ());
  else if (n == 1)
    function (Blocks<1, false> ());
  else if (n == 4)
    function (Blocks<4, false> ());
  else if (n == 5)
    function (Blocks<5, false> ());
}

/* Grid: (heads, times / 8; times eight, in a cluster; entries) */
template <int DIM>
static __device__ void
spread_attention (const MimiAttentionArgs &p)
{
  constexpr int STEPS = Attend<DIM>::STEPS, QUARTERS = Attend<DIM>::QUARTERS;
  __shared__ __align__ (16) Scores scores[ATTEND_BLOCKS];
  /* Of the query that this block finishes. */
  __shared__ __align__ (16) float sums[MIMI_CUDA_RANKS][DIM];
  __shared__ __align__ (16) Found found[MIMI_CUDA_RANKS];

  cluster_begin ();
  const unsigned lane = threadIdx.x % 32;
  /* so that the compiler knows it to be the same in all lanes */
  const unsigned warp = __shfl_sync (FULL_WARP, threadIdx.x / 32, 0);
  const unsigned rank = blockIdx.x % MIMI_CUDA_RANKS;
  const Which which (p, blockIdx.x / MIMI_CUDA_RANKS);
  const MimiEntry entry = p.entries[blockIdx.y];
  const Attend<DIM> attend (p, entry, which.head, which.half);
  const unsigned n = entry.state == 0 ? 0 : attend.count_blocks (rank);
  const unsigned quarter = warp - KEY_WARPS; /* of a warp that has values */
  unsigned has_keys = warp < min (rank == 0 ? KEY_PIECES : n, KEY_WARPS);
  const bool has_values = quarter < QUARTERS;

  /* Where things are, and where they go: the newest block, which all wait for,
   * queries, scores, and who finishes the lane's two queries. Before the
   * branches below, or ptxas takes it past the wait. */
  constexpr int PIECE = STEPS / KEY_PIECES;
  const float *newest = has_keys ? attend.find_keys (0, warp * PIECE)
                                 : attend.find_values (0, quarter % QUARTERS);
  size_t from = (size_t)blockIdx.y * p.stride + which.head * DIM * TILE +
                (rank == 0 ? warp * PIECE * 8 * TILE : 0) +
                attend.find_query ();
  unsigned at = has_keys ? warp * (sizeof (Scores) / sizeof (float)) +
                               attend.find_score ()
                         : attend.find_weight ();
  unsigned to[2], to_found = remote (&found[rank], lane / 4);
#pragma unroll
  for (int j = 0; j < 2; j++) {
    to[j] = remote (
        &sums[rank][quarter % QUARTERS * 16 + lane / 4 * 2], lane % 4 * 2 + j);
    settle (to[j]);
  }
  settle (newest), settle (from), settle (at), settle (to_found),
      settle (has_keys);

  /* Keys of one block, or values of three: those that the run does not add to
   * before the wait, the others after it. */
  Weights ring[RING];
  auto load = [&] (bool of_run) {
    Pair pairs[RING];
    auto wanted = [&] (unsigned i) {
      return i < n && (attend.get_age (rank, i) <= attend.n_run) == of_run;
    };

    if (has_keys && wanted (warp)) {
      const unsigned age = attend.get_age (rank, warp);
      attend.template load_keys<STEPS> (attend.find_keys (age, 0), age, pairs);
      split_pairs<STEPS> (pairs, ring);
    } else if (has_values) {
#pragma unroll
      for (unsigned i = 0; i < ATTEND_AHEAD; i++)
        if (wanted (i)) {
          const unsigned age = attend.get_age (rank, i);
          attend.load_values (
              attend.find_values (age, quarter), age, pairs + 2 * i);
        }
#pragma unroll
      for (unsigned i = 0; i < ATTEND_AHEAD; i++)
        if (wanted (i))
          split_pairs<2> (pairs + 2 * i, ring + 2 * i);
    }
  };

  if (rank > 0) {
    load (false);
#pragma unroll
    for (int i = 0; i < RING; i++)
#pragma unroll
      for (int j = 0; j < 4; j++)
        settle (ring[i].a[j]), settle (ring[i].rest[j]);
  }

  wait_for_inputs ();
  /* Who comes next reads its entry before it waits. */
  launch_dependents ();
  if (entry.state == 0) {
    cluster_wait ();
    return;
  }
  float *place = &scores[0][0][0] + at;
  if (rank == 0) {
    Pair pairs[PIECE > 2 ? PIECE : 2];
    if (has_keys) {
      float query[PIECE][2];
      attend.load_query (p.query + from, query);
      attend.template load_keys<PIECE> (newest, 0, pairs);
      split_pairs<PIECE> (pairs, ring);
      attend.score (0, ring, query, place);
    } else if (has_values) {
      attend.load_values (newest, 0, pairs);
      split_pairs<2> (pairs, ring);
    }
  } else {
    float query[STEPS][2];
    if (has_keys)
      attend.load_query (p.query + from, query);
    if (rank <= attend.n_run)
      load (true);
    if (has_keys) {
      attend.score (attend.get_age (rank, warp), ring, query, place);
      for (unsigned i = warp + KEY_WARPS; i < n; i += KEY_WARPS) {
        const unsigned age = attend.get_age (rank, i);
        Pair pairs[STEPS];
        attend.template load_keys<STEPS> (
            attend.find_keys (age, 0), age, pairs);
        split_pairs<STEPS> (pairs, ring);
        attend.score (
            age, ring, query, &scores[i][0][0] + attend.find_score ());
      }
    }
  }
  __syncthreads ();

  if (has_values) {
    Chains chains = {};
    Found own = { -INFINITY, 0.0f };
    with_blocks (rank, n, [&] (auto blocks) {
      float weight[blocks.n][4];
      own = attend.template weigh<blocks.n, blocks.is_newest> (place, weight);
      attend.template add_values<blocks.n> (
          weight, rank, quarter, ring, chains);
    });
    const unsigned t = attend.first + lane % 4 * 2;
    cluster_wait ();
#pragma unroll
    for (int j = 0; j < 2; j++)
      if (t + j < p.times)
        store_remote (to[j], chains.get (j), chains.get (2 + j));
    if (quarter == 0 && lane % 4 == 0)
      store_remote (to_found, own.most, own.sum);
  } else {
    cluster_wait ();
  }
  cluster_arrive ();
  const unsigned t = attend.first + rank;
  unsigned out = (which.head * DIM + threadIdx.x) * TILE + t;
  settle (out);
  cluster_wait ();

  if (threadIdx.x < DIM && t < p.times)
    p.out[(size_t)blockIdx.y * p.stride + out] =
        join_ranks (&sums[0][threadIdx.x], DIM, found);
}

/* Grid: (heads, times / 8; entries) */
template <int DIM>
static __device__ void
attention_matrix (const MimiAttentionArgs &p)
{
  constexpr int STEPS = Attend<DIM>::STEPS, QUARTERS = Attend<DIM>::QUARTERS;
  constexpr int PIECE = STEPS / KEY_PIECES;
  /* Rows of neighbouring queries begin four banks apart. */
  constexpr int ROW = DIM + 4;
  __shared__ __align__ (16) Scores scores[WARPS][ATTEND_BLOCKS];
  __shared__ __align__ (16) float sums[WARPS][ATTEND_QUERIES][ROW];
  __shared__ __align__ (16) Found found[ATTEND_QUERIES][WARPS];

  launch_dependents ();
  wait_for_inputs ();
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = __shfl_sync (FULL_WARP, threadIdx.x / 32, 0);
  const Which which (p, blockIdx.x);
  const MimiEntry entry = p.entries[blockIdx.y];
  if (entry.state == 0)
    return;
  const Attend<DIM> attend (p, entry, which.head, which.half);
  const unsigned n = attend.count_blocks (warp);
  const float *queries = p.query + (size_t)blockIdx.y * p.stride +
                         which.head * DIM * TILE + attend.find_query ();

  if (n > 0) {
    float query[STEPS][2];
    attend.load_query (queries, query);
#pragma unroll 1
    for (unsigned i = 0; i < n; i++) {
      const unsigned age = attend.get_age (warp, i);
      Pair pairs[STEPS];
      Weights ring[STEPS];
#pragma unroll
      for (int s = 0; s < STEPS; s++) /* split again: registers are few */
        settle (query[s][0]), settle (query[s][1]);
      attend.template load_keys<STEPS> (attend.find_keys (age, 0), age, pairs);
      float *to = &scores[warp][i][0][0] + attend.find_score ();
      if (warp > 0) {
        split_pairs<STEPS> (pairs, ring);
        attend.score (age, ring, query, to);
      } else {
#pragma unroll
        for (int i = 0; i < STEPS; i += PIECE) {
          split_pairs<PIECE> (pairs + i, ring);
          attend.score (0, ring, (float (&)[PIECE][2])query[i],
              to + i / PIECE * TILE * ATTEND_QUERIES);
        }
      }
    }
  }
  __syncwarp ();
  const unsigned q = lane % 4 * 2;
  Found own = { -INFINITY, 0.0f };
  if (n == 0)
    for (unsigned d = 0; d < DIM; d += 16)
#pragma unroll
      for (int j = 0; j < 2; j++)
        *(float2 *)&sums[warp][q + j][d + lane / 4 * 2] = make_float2 (0, 0);
  with_blocks (warp, n, [&] (auto blocks) {
    float weight[blocks.n][4];
    own = attend.template weigh<blocks.n, blocks.is_newest> (
        &scores[warp][0][0][0] + attend.find_weight (), weight);
#pragma unroll 1
    for (unsigned quarter = 0; quarter < QUARTERS; quarter++) {
      Pair pairs[2 * blocks.ahead];
      Weights ring[2 * blocks.ahead];
      Chains chains = {};
#pragma unroll
      for (int i = 0; i < blocks.ahead; i++) {
        const unsigned age = attend.get_age (warp, i);
        attend.load_values (
            attend.find_values (age, quarter), age, pairs + 2 * i);
      }
      split_pairs<2 * blocks.ahead> (pairs, ring);
      attend.template add_values<blocks.n> (
          weight, warp, quarter, ring, chains);
#pragma unroll
      for (int j = 0; j < 2; j++)
        *(float2 *)&sums[warp][q + j][quarter * 16 + lane / 4 * 2] =
            make_float2 (chains.get (j), chains.get (2 + j));
    }
  });
  if (lane % 4 == 0)
    found[lane / 4][warp] = own;
  __syncthreads ();

  const unsigned i = threadIdx.x % ATTEND_QUERIES;
  if (attend.first + i < p.times)
    for (unsigned d = threadIdx.x / ATTEND_QUERIES; d < DIM;
         d += MIMI_CUDA_THREADS / ATTEND_QUERIES)
      p.out[(size_t)blockIdx.y * p.stride + (which.head * DIM + d) * TILE +
            attend.first + i] =
          join_ranks (&sums[0][i][d], ATTEND_QUERIES * ROW, found[i]);
}

#define ATTEND(kernel, name) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS, 2) \
      mimi_##name (const __grid_constant__ MimiAttentionArgs p) \
  { \
    kernel (p); \
  }

#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
ATTEND (attention_matrix<32>, attention_32_matrix)
ATTEND (attention_matrix<64>, attention_64_matrix)
#endif
#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
ATTEND (spread_attention<32>, spread_attention_32)
ATTEND (spread_attention<64>, spread_attention_64)
#endif
