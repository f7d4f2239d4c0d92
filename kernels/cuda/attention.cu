/* Attention over the window, out of the ring of keys and values.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * For GPUs without tensor cores for it, and where layer.cu can be used, which
 * sums in the same order; otherwise attend.cu.
 */
#include "common.cuh"

#define QUERIES MIMI_CUDA_QUERIES
#define MAX_KEYS (MIMI_CUDA_MAX_WINDOW + 2 * TILE) /* 17 x 32 */

/* A row of four, at once. */
static __device__ void
get_row (const float (&row)[QUERIES], float (&x)[QUERIES])
{
  const float4 all = *(const float4 *)row;
  x[0] = all.x, x[1] = all.y, x[2] = all.z, x[3] = all.w;
}

/* Four queries of one head. The ring holds blocks of 16 positions, keys
 * [head][block][dim][16] as the product writes them, values [head][block][16]
 * [dim] so that lanes read along dim; position p sits in block p / 16 modulo
 * the number of blocks. Which positions count follows from the frame number
 * alone: whatever else the ring holds is never weighed, so a fresh stream
 * needs no clearing. Entries of a run have all put theirs there before the first
 * of them looks: the ring has room for them.
 * Grid: (heads, times / 4, entries). */
template <int DIM>
static __device__ void
attention (const MimiAttentionArgs &p)
{
  __shared__ __align__ (16) float query[DIM][QUERIES];
  __shared__ __align__ (16) float score[MAX_KEYS][QUERIES];
  __shared__ float partial[WARPS][QUERIES][DIM];
  __shared__ float inverse[QUERIES];

  launch_dependents ();
  wait_for_inputs ();
  const MimiEntry entry = p.entries[blockIdx.z];
  if (entry.state == 0)
    return;

  const unsigned tid = threadIdx.x, lane = tid & 31, warp = tid / 32;
  const unsigned head = blockIdx.x, first = blockIdx.y * QUERIES;
  const unsigned last = min (first + QUERIES, p.times) - 1;
  const unsigned long long now = entry.frame * p.times;
  const unsigned long long end = now + last; /* the newest key of all */
  const unsigned long long begin =
      now + first + 1 > p.window ? now + first + 1 - p.window : 0;
  const unsigned long long block0 = begin / TILE;
  const unsigned n_blocks = (unsigned)(end / TILE - block0) + 1;
  const unsigned ring0 = (unsigned)(block0 % p.ring_blocks);
  const unsigned newest = ring0 + n_blocks - 1 < p.ring_blocks
                              ? ring0 + n_blocks - 1
                              : ring0 + n_blocks - 1 - p.ring_blocks;
  const unsigned ring_length = p.heads * p.ring_blocks * DIM * TILE;
  const float *keys =
      (const float *)entry.state + p.ring + head * p.ring_blocks * DIM * TILE;
  const float *values = keys + ring_length;
  const float *queries =
      p.query + (size_t)blockIdx.z * p.stride + head * DIM * TILE;

  auto slot_of = [&] (unsigned b) {
    return ring0 + b < p.ring_blocks ? ring0 + b : ring0 + b - p.ring_blocks;
  };
  float own = 0.0f;
  if (tid < DIM * QUERIES)
    own = queries[(tid / QUERIES) * TILE + min (first + tid % QUERIES, last)];
  /* Scores are kept in powers of two: exp2 is what the hardware has. */
  if (tid < DIM * QUERIES)
    query[tid / QUERIES][tid % QUERIES] =
        1.44269504f * rsqrtf ((float)DIM) * own;
  __syncthreads ();

  /* Scores: a warp takes a block of 16 keys, each half of it half of dim. */
  const unsigned half = lane / TILE * (DIM / 2);
  for (unsigned b = warp; b < n_blocks; b += WARPS) {
    const unsigned slot = slot_of (b);
    const unsigned long long position = (block0 + b) * TILE + lane % TILE;
    /* A column that nobody sees may never have been written: look at the
     * newest instead. */
    const bool wanted = begin <= position && position <= end;
    const unsigned place = wanted
                               ? slot * DIM * TILE + lane % TILE
                               : newest * DIM * TILE + (unsigned)(end % TILE);
    const float *k = keys + place + half * TILE;
    float sum[QUERIES] = {};
    float x[DIM / 2]; /* on their way at once */
#pragma unroll
    for (unsigned d = 0; d < DIM / 2; d++)
      x[d] = k[d * TILE];
    ask_first ();
#pragma unroll
    for (unsigned d = 0; d < DIM / 2; d++) {
      float q[QUERIES];
      get_row (query[half + d], q);
#pragma unroll
      for (int i = 0; i < QUERIES; i++)
        sum[i] = fmaf (q[i], x[d], sum[i]);
    }
#pragma unroll
    for (unsigned i = 0; i < QUERIES; i++) {
      const unsigned long long at = now + min (first + i, last);
      const bool seen = position <= at && position + p.window > at;
      sum[i] += __shfl_xor_sync (FULL_WARP, sum[i], TILE);
      if (lane < TILE)
        score[b * TILE + lane][i] = seen ? sum[i] : -INFINITY;
    }
  }
  __syncthreads ();

  /* Softmax, a warp a query; the division waits for the end. */
  const unsigned n_keys = n_blocks * TILE;
  if (warp < QUERIES) {
    float x[MAX_KEYS / 32], most = -INFINITY, sum = 0.0f;
#pragma unroll
    for (unsigned j = 0; j < MAX_KEYS / 32; j++)
      x[j] = j * 32 + lane < n_keys ? score[j * 32 + lane][warp] : -INFINITY;
#pragma unroll
    for (unsigned j = 0; j < MAX_KEYS / 32; j++)
      most = fmaxf (most, x[j]);
#pragma unroll
    for (unsigned other = 16; other > 0; other >>= 1)
      most = fmaxf (most, __shfl_xor_sync (FULL_WARP, most, other));
#pragma unroll
    for (unsigned j = 0; j < MAX_KEYS / 32; j++)
      if (j * 32 < n_keys) { /* all others would add nothing */
        const float e = exp2f (x[j] - most);
        if (j * 32 + lane < n_keys)
          score[j * 32 + lane][warp] = e;
        sum += e;
      }
#pragma unroll
    for (unsigned other = 16; other > 0; other >>= 1)
      sum += __shfl_xor_sync (FULL_WARP, sum, other);
    if (lane == 0)
      inverse[warp] = 1.0f / sum;
  }
  __syncthreads ();

  /* Values: warps share the positions, lanes run along dim. Only positions
   * that some query sees are read: the others may hold anything. */
  float sum[QUERIES][DIM / 32] = {};
  constexpr unsigned AHEAD = 16; /* positions on their way at once */
  const unsigned stop = (unsigned)(end - block0 * TILE);
#pragma unroll 1
  for (unsigned i0 = (unsigned)(begin - block0 * TILE) + warp; i0 <= stop;
       i0 += AHEAD * WARPS) {
    float x[AHEAD][DIM / 32];
#pragma unroll
    for (unsigned j = 0; j < AHEAD; j++) {
      const unsigned i = min (i0 + j * WARPS, stop);
      const float *v =
          values + (slot_of (i / TILE) * TILE + i % TILE) * DIM + lane;
#pragma unroll
      for (unsigned d = 0; d < DIM / 32; d++)
        x[j][d] = v[d * 32];
    }
    ask_first ();
#pragma unroll
    for (unsigned j = 0; j < AHEAD; j++) {
      float weight[QUERIES] = {};
      if (i0 + j * WARPS <= stop)
        get_row (score[i0 + j * WARPS], weight);
#pragma unroll
      for (unsigned d = 0; d < DIM / 32; d++) {
#pragma unroll
        for (int q = 0; q < QUERIES; q++)
          sum[q][d] = fmaf (weight[q], x[j][d], sum[q][d]);
      }
    }
  }
#pragma unroll
  for (unsigned i = 0; i < QUERIES; i++)
#pragma unroll
    for (unsigned d = 0; d < DIM / 32; d++)
      partial[warp][i][d * 32 + lane] = sum[i][d];
  __syncthreads ();

  const unsigned i = tid % QUERIES, d = tid / QUERIES;
  if (tid < DIM * QUERIES && first + i <= last) {
    float total = 0.0f;
#pragma unroll
    for (unsigned w = 0; w < WARPS; w++)
      total += partial[w][i][d];
    p.out[(size_t)blockIdx.z * p.stride + (head * DIM + d) * TILE + first + i] =
        total * inverse[i];
  }
}

#define ATTENTION(dim) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS) \
      mimi_attention_##dim (const __grid_constant__ MimiAttentionArgs p) \
  { \
    attention<dim> (p); \
  }

ATTENTION (32)
ATTENTION (64)
#undef QUERIES
