/* Attention for GPUs without tensor cores: blocks share a head's window.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Each takes some blocks of 16 positions for all queries of the head, makes a
 * softmax of its own, and leaves sums, largest scores and sums of weights; the
 * last to come puts them together, in order. Which positions are whose follows
 * from the frame's number alone, so a stream's sums do not depend on others.
 *
 * Both products are those of part.cuh: keys lie in the ring as weights of [dim]
 * [position] do, values as weights of [position][dim].
 */
#include "last.cuh"
#include "part.cuh"

#define SHARE MIMI_CUDA_ATTENTION_SHARE
#define RANKS MIMI_CUDA_ATTENTION_RANKS

/* The blocks of the ring that a frame's queries see, and those of a rank. */
struct View {
  unsigned long long now, begin; /* first query, oldest key */
  unsigned query, last;          /* from the first block on: query, block */
  unsigned ring0, ring_blocks;

  __device__
  View (const MimiAttentionArgs &p, const MimiEntry &entry)
      : now (entry.frame * p.times),
        begin (now + 1 > p.window ? now + 1 - p.window : 0),
        query ((unsigned)(now - begin / TILE * TILE)),
        last ((query + p.times - 1) / TILE),
        ring0 ((unsigned)(begin / TILE % p.ring_blocks)),
        ring_blocks (p.ring_blocks)
  {
  }

  __device__ unsigned
  slot (unsigned b) const
  {
    return ring0 + b < ring_blocks ? ring0 + b : ring0 + b - ring_blocks;
  }
};

/* The largest, or the sum, of what the lanes with the same lane % 4 have. */
template <typename Function>
static __device__ void
join_rows (float (&x)[4], Function function)
{
#pragma unroll
  for (int other = 4; other < 32; other *= 2)
#pragma unroll
    for (int i = 0; i < 4; i++)
      x[i] = function (x[i], __shfl_xor_sync (FULL_WARP, x[i], other));
}

/* Of what each warp has for 16 times, the largest or the sum, for four times. */
template <typename Function>
static __device__ void
join_warps (const float (&of_warps)[WARPS][TILE], unsigned t0, float (&to)[4],
    Function function)
{
  const unsigned lane = threadIdx.x % 32;
  float x = of_warps[lane / TILE][lane % TILE];

#pragma unroll
  for (int i = 2; i < WARPS; i += 2)
    x = function (x, of_warps[i + lane / TILE][lane % TILE]);
  x = function (x, __shfl_xor_sync (FULL_WARP, x, TILE));
#pragma unroll
  for (int i = 0; i < 4; i++)
    to[i] = __shfl_sync (FULL_WARP, x, t0 + i);
}

/* Grid: (ranks, heads, entries). */
template <int DIM>
static __device__ void
split_attention (const MimiAttentionArgs &p)
{
  constexpr int DIMS = DIM / WARPS, SUMS = DIM * TILE;
  constexpr int AREA = MIMI_CUDA_ATTENTION_SUMS (DIM);
  __shared__ __align__ (16) float query[DIM * TILE];
  __shared__ __align__ (16) float sums[WARPS * SPLIT_WARP];
  __shared__ __align__ (16) float weight[SHARE * TILE * TILE];
  __shared__ __align__ (16) float most_of[WARPS][TILE], total_of[WARPS][TILE];

  const unsigned tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const unsigned rank = blockIdx.x, head = blockIdx.y, index = blockIdx.z;
  const unsigned quad = lane / 2 * 4, half = lane % 2 * 8;
  /* What a thread has of scores and outputs: four times of one. */
  const unsigned row = tid / 4, t0 = tid % 4 * 4;

  auto larger = [] (float a, float b) { return fmaxf (a, b); };
  auto both = [] (float a, float b) { return a + b; };

  launch_dependents ();
  wait_for_inputs ();
  const MimiEntry entry = p.entries[index];
  /* A warp's part of the dimensions, four times a lane. */
  const unsigned own = min (lane / 4, DIMS - 1), column = lane % 4 * 4;
  const float *queries = p.query + (size_t)index * p.stride +
                         (head * DIM + warp * DIMS + own) * TILE;
  float4 q;
  if (p.times == TILE)
    q = *(const float4 *)(queries + column);
  else
#pragma unroll
    for (int i = 0; i < 4; i++)
      (&q.x)[i] = queries[min (column + i, p.times - 1)];
  ask_first ();
  if (entry.state == 0)
    return;

  const View view (p, entry);
  const unsigned first = rank * p.share;
  if (first > view.last)
    return;
  const unsigned ring_length = p.heads * p.ring_blocks * DIM * TILE;
  const float *keys =
      (const float *)entry.state + p.ring + head * p.ring_blocks * DIM * TILE;
  const float *values = keys + ring_length;

  /* Keys: a lane has four positions. Of the newest block some may never have been
   * written: a lane looks at the last of them instead. */
  const unsigned newest = (view.query + p.times - 1) % TILE;
  const unsigned block = min (first + quad / TILE, view.last);
  const unsigned limit = block == view.last ? newest : TILE - 1;
  const float *k = keys + (view.slot (block) * DIM + warp * DIMS) * TILE;
  float4 key[DIMS];
  if (p.times == TILE) {
#pragma unroll
    for (int d = 0; d < DIMS; d++)
      key[d] = *(const float4 *)(k + d * TILE + quad % TILE);
  } else {
#pragma unroll
    for (int d = 0; d < DIMS; d++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        (&key[d].x)[i] = k[d * TILE + min (quad % TILE + i, limit)];
  }
  /* Values: each warp has two positions of every block, a lane four of dim; of
   * what nobody sees, the nearest that somebody does. */
  const unsigned oldest = (unsigned)(view.begin % TILE);
  float4 value[SHARE][2];
#pragma unroll
  for (unsigned b = 0; b < SHARE; b++) {
    const unsigned which = min (first + min (b, p.share - 1), view.last);
    const float *v =
        values + view.slot (which) * TILE * DIM + min (quad, DIM - 4);
    const unsigned low = which == 0 ? oldest : 0;
    const unsigned high = which == view.last ? newest : TILE - 1;
#pragma unroll
    for (int i = 0; i < 2; i++)
      value[b][i] =
          *(const float4 *)(v + min (max (2 * warp + i, low), high) * DIM);
  }
  ask_first ();
  /* Scores are kept in powers of two: exp2 is what the hardware has. */
  float *part = query + warp * DIMS * TILE;
  const float unit = 1.44269504f * rsqrtf ((float)DIM);
  if (lane / 4 < DIMS)
    *(float4 *)(part + lane * 4) =
        make_float4 (unit * q.x, unit * q.y, unit * q.z, unit * q.w);
  __syncwarp ();

  float acc[32] = {};
#pragma unroll
  for (int d = 0; d < DIMS; d++) {
    float x[8];
    *(float4 *)x = *(const float4 *)(part + d * TILE + half);
    *(float4 *)(x + 4) = *(const float4 *)(part + d * TILE + half + 4);
    add_channel<8> (acc, key[d], x);
  }
  leave_sums (acc, sums + warp * SPLIT_WARP);
  __syncthreads ();

  float score[4], most[4], total[4];
  sum_four (sums, row, t0, 2, score);
  const unsigned position = first * TILE + row;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const unsigned at = view.query + t0 + i;
    const bool seen = position <= at && position + p.window > at &&
                      row < p.share * TILE && t0 + i < p.times;
    score[i] = most[i] = seen ? score[i] : -INFINITY;
  }
  join_rows (most, larger);
  if (lane < 4)
    *(float4 *)(most_of[warp] + t0) =
        make_float4 (most[0], most[1], most[2], most[3]);
  __syncthreads ();
  join_warps (most_of, t0, most, larger);
#pragma unroll
  for (int i = 0; i < 4; i++) /* a query may see none of these positions */
    total[i] = score[i] =
        exp2f (score[i] - (most[i] == -INFINITY ? 0.0f : most[i]));
  *(float4 *)(weight + row * TILE + t0) =
      make_float4 (score[0], score[1], score[2], score[3]);
  join_rows (total, both);
  if (lane < 4)
    *(float4 *)(total_of[warp] + t0) =
        make_float4 (total[0], total[1], total[2], total[3]);
  __syncthreads ();

#pragma unroll
  for (int i = 0; i < 32; i++)
    acc[i] = 0.0f;
#pragma unroll
  for (unsigned b = 0; b < SHARE; b++)
    if (b < p.share)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const float *from = weight + (b * TILE + 2 * warp + i) * TILE + half;
        float x[8];
        *(float4 *)x = *(const float4 *)from;
        *(float4 *)(x + 4) = *(const float4 *)(from + 4);
        add_channel<8> (acc, value[b][i], x);
      }
  leave_sums (acc, sums + warp * SPLIT_WARP);
  __syncthreads ();

  /* [dim][16], then what there is of each query: largest score, sum of weights */
  const unsigned ranks = view.last / p.share + 1;
  float *areas =
      p.partial + (size_t)index * p.stride + (size_t)head * gridDim.x * AREA;
  float *mine = areas + rank * AREA;
  float sum[4];
  if (row < DIM) {
    sum_four (sums, row, t0, 2, sum);
    store_four (mine + tid * 4, sum);
  }
  join_warps (total_of, t0, total, both);
  if (row == 0) {
    store_four (mine + SUMS + t0, most);
    store_four (mine + SUMS + TILE + t0, total);
  }
  Arrival arrival (p.arrived + (size_t)index * p.stride + head, ranks);
  arrival.count ();
  if (!arrival.is_last () || row >= DIM)
    return;

  constexpr int N = 8; /* ranks whose sums are on their way at once */
  float4 s[N];
  auto load = [&] (unsigned r0) {
#pragma unroll
    for (int r = 0; r < N; r++)
      s[r] = r0 + r < ranks
                 ? __ldcg ((const float4 *)(areas + (r0 + r) * AREA + tid * 4))
                 : make_float4 (0, 0, 0, 0);
    ask_first ();
  };
  /* Each warp finds out for itself what a rank's sums count: half of a warp has
   * every other rank. */
  float *scales = sums + warp * SPLIT_WARP;
  {
    const unsigned odd = lane / TILE, time = lane % TILE;
    float m[RANKS / 2], l[RANKS / 2], highest = -INFINITY, all = 0.0f;
#pragma unroll
    for (unsigned r = 0; r < RANKS / 2; r++) {
      const float *from = areas + (2 * r + odd) * AREA + SUMS + time;
      m[r] = -INFINITY;
      l[r] = 0.0f;
      if (2 * r + odd < ranks) {
        m[r] = __ldcg (from);
        l[r] = __ldcg (from + TILE);
      }
    }
    load (0); /* behind what is needed first */
#pragma unroll
    for (unsigned r = 0; r < RANKS / 2; r++)
      highest = fmaxf (highest, m[r]);
    highest = fmaxf (highest, __shfl_xor_sync (FULL_WARP, highest, TILE));
#pragma unroll
    for (unsigned r = 0; r < RANKS / 2; r++)
      if (2 * r < ranks) {
        m[r] = exp2f (m[r] - highest);
        all = fmaf (m[r], l[r], all);
      }
    all += __shfl_xor_sync (FULL_WARP, all, TILE);
    const float unit = 1.0f / all;
#pragma unroll
    for (unsigned r = 0; r < RANKS / 2; r++)
      if (2 * r < ranks)
        scales[(2 * r + odd) * TILE + time] = m[r] * unit;
  }
  __syncwarp ();
#pragma unroll
  for (int i = 0; i < 4; i++)
    sum[i] = 0.0f;
  for (unsigned r0 = 0;;) {
#pragma unroll
    for (int r = 0; r < N; r++)
      if (r0 + r < ranks) {
        const float4 scale = *(const float4 *)(scales + (r0 + r) * TILE + t0);
        sum[0] = fmaf (scale.x, s[r].x, sum[0]);
        sum[1] = fmaf (scale.y, s[r].y, sum[1]);
        sum[2] = fmaf (scale.z, s[r].z, sum[2]);
        sum[3] = fmaf (scale.w, s[r].w, sum[3]);
      }
    r0 += N;
    if (r0 >= ranks)
      break;
    load (r0);
  }
  float *out =
      p.out + (size_t)index * p.stride + (head * DIM + row) * TILE + t0;
  if (p.times == TILE)
    store_four (out, sum);
  else
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (t0 + i < p.times)
        out[i] = sum[i];
}

#define SPLIT_ATTENTION(dim) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS, 2) \
      mimi_split_attention_##dim (const __grid_constant__ MimiAttentionArgs p) \
  { \
    split_attention<dim> (p); \
  }

SPLIT_ATTENTION (32)
SPLIT_ATTENTION (64)
#undef SHARE
#undef RANKS
