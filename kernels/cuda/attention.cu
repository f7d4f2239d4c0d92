/* Attention over the window, out of the ring of keys and values.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "window.cuh"

#define MAX_KEYS (MIMI_CUDA_MAX_WINDOW + 2 * TILE) /* 17 x 32 */

/* A row of two or four floats, at once. */
static __device__ void
get_row (const float (&row)[4], float (&x)[4])
{
  const float4 all = *(const float4 *)row;
  x[0] = all.x, x[1] = all.y, x[2] = all.z, x[3] = all.w;
}

static __device__ void
get_row (const float (&row)[2], float (&x)[2])
{
  const float2 all = *(const float2 *)row;
  x[0] = all.x, x[1] = all.y;
}

/* QUERIES of one head, four or two. The ring holds blocks of 16 positions, keys
 * [head][block][dim][16] as the product writes them, values [head][block][16]
 * [dim] so that lanes read along dim; position p sits in block p / 16 modulo
 * the number of blocks. Which positions count follows from the frame number
 * alone: whatever else the ring holds is never weighed, so a fresh stream
 * needs no clearing. Entries of a run have all put theirs there before the first
 * of them looks: the ring has room for them.
 * Sums are in the order of the positions that four queries see, so that two are
 * summed as four are.
 * STAGED: by way of shared memory, for few streams; from 9.0 on.
 * Grid: (heads, times / QUERIES, entries). */
template <int DIM, int QUERIES, bool STAGED>
static __device__ void
attention (const MimiAttentionArgs &p)
{
  /* Out of L2 all of a key's half is asked for at once, and more values. */
  constexpr unsigned AHEAD_KEYS = STAGED ? 16 : DIM / 2;
  constexpr unsigned AHEAD_VALUES = STAGED ? 8 : 16;
  __shared__ __align__ (16) float query[DIM][QUERIES];
  __shared__ __align__ (16) float score[MAX_KEYS][QUERIES];
  __shared__ float partial[WARPS][QUERIES][DIM];
  __shared__ float inverse[QUERIES];

  extern __shared__ __align__ (16) float window[];

  if (!STAGED) {
    launch_dependents ();
    wait_for_inputs ();
  }
  const MimiEntry entry = p.entries[blockIdx.z];
  if (entry.state == 0) {
    if (STAGED)
      wait_for_inputs ();
    return;
  }

  const unsigned tid = threadIdx.x, lane = tid & 31, warp = tid / 32;
  const unsigned head = blockIdx.x, first = blockIdx.y * QUERIES;
  const unsigned four = first / MIMI_CUDA_QUERIES * MIMI_CUDA_QUERIES;
  const unsigned last = min (first + QUERIES, p.times) - 1;
  const unsigned long long now = entry.frame * p.times;
  const unsigned long long end = now + last; /* the newest key of all */
  const unsigned long long begin =
      now + four + 1 > p.window ? now + four + 1 - p.window : 0;
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

  const Window<DIM> staged = { window,
    window + p.window_blocks * Window<DIM>::KEYS };
  auto slot_of = [&] (unsigned b) {
    return ring0 + b < p.ring_blocks ? ring0 + b : ring0 + b - p.ring_blocks;
  };
  /* Blocks that no entry of the run adds to. */
  const unsigned long long run = (entry.frame - entry.follows) * p.times / TILE;
  const unsigned n_old = run > block0 ? (unsigned)(run - block0) : 0;
  if (STAGED) {
    for (unsigned b = 0; b < n_old; b++)
      staged.begin (keys, values, b, slot_of (b));
    wait_for_inputs ();
    launch_dependents ();
  }
  float own = 0.0f;
  if (tid < DIM * QUERIES)
    own = queries[(tid / QUERIES) * TILE + min (first + tid % QUERIES, last)];
  if (STAGED) {
    for (unsigned b = n_old; b + 1 < n_blocks; b++)
      staged.begin (keys, values, b, slot_of (b));
    staged.add (keys, values, n_blocks - 1, slot_of (n_blocks - 1),
        (unsigned)(end % TILE) + 1);
    staged.end ();
  }

  /* Scores are kept in powers of two: exp2 is what the hardware has. */
  if (tid < DIM * QUERIES)
    query[tid / QUERIES][tid % QUERIES] =
        1.44269504f * rsqrtf ((float)DIM) * own;
  __syncthreads ();

  /* Scores: a warp takes a block of 16 keys, each half of it half of dim. Two
   * queries fit into registers: all lanes at once would read them again for each
   * block, as slowly as all of its keys. */
  constexpr bool KEPT = QUERIES < 4;
  const unsigned half = lane / TILE * (DIM / 2);
  float q[KEPT ? DIM / 2 : 1][QUERIES];
  if (KEPT)
#pragma unroll
    for (int d = 0; d < (KEPT ? DIM / 2 : 1); d++)
      get_row (query[half + d], q[d]);
  for (unsigned b = warp; b < n_blocks; b += WARPS) {
    const unsigned slot = slot_of (b);
    const unsigned long long position = (block0 + b) * TILE + lane % TILE;
    /* A column that nobody sees may never have been written: look at the
     * newest instead. */
    const bool wanted = begin <= position && position <= end;
    const unsigned place = wanted
                               ? slot * DIM * TILE + lane % TILE
                               : newest * DIM * TILE + (unsigned)(end % TILE);
    const float *k = STAGED ? staged.keys + b * Window<DIM>::KEYS +
                                  Window<DIM>::key_place (half, lane % TILE)
                            : keys + place + half * TILE;
    float sum[QUERIES] = {};
#pragma unroll
    for (unsigned d0 = 0; d0 < DIM / 2; d0 += AHEAD_KEYS) {
      float x[AHEAD_KEYS]; /* on their way at once */
#pragma unroll
      for (unsigned d = 0; d < AHEAD_KEYS; d++)
        x[d] = k[(d0 + d) * TILE];
      ask_first ();
#pragma unroll
      for (unsigned d = 0; d < AHEAD_KEYS; d++) {
        if (!KEPT)
          get_row (query[half + d0 + d], q[0]);
#pragma unroll
        for (int i = 0; i < QUERIES; i++)
          sum[i] = fmaf (q[KEPT ? d0 + d : 0][i], x[d], sum[i]);
      }
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
  const unsigned stop = (unsigned)(end - block0 * TILE);
#pragma unroll 1
  for (unsigned i0 = (unsigned)(begin - block0 * TILE) + warp; i0 <= stop;
       i0 += AHEAD_VALUES * WARPS) {
    float x[AHEAD_VALUES][DIM / 32]; /* on their way at once */
#pragma unroll
    for (unsigned j = 0; j < AHEAD_VALUES; j++) {
      const unsigned i = min (i0 + j * WARPS, stop);
      const float *v =
          STAGED ? staged.values + i * DIM + lane
                 : values + (slot_of (i / TILE) * TILE + i % TILE) * DIM + lane;
#pragma unroll
      for (unsigned d = 0; d < DIM / 32; d++)
        x[j][d] = v[d * 32];
    }
    ask_first ();
#pragma unroll
    for (unsigned j = 0; j < AHEAD_VALUES; j++) {
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

#define ATTENTION(name, dim, queries, staged) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS) \
      mimi_##name##_##dim (const __grid_constant__ MimiAttentionArgs p) \
  { \
    attention<dim, queries, staged> (p); \
  }

ATTENTION (attention, 32, MIMI_CUDA_QUERIES, false)
ATTENTION (attention, 64, MIMI_CUDA_QUERIES, false)
#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
ATTENTION (spread_attention, 32, MIMI_CUDA_QUERIES, true)
ATTENTION (spread_attention, 64, MIMI_CUDA_QUERIES, true)
ATTENTION (spread_attention_two, 32, 2, true)
ATTENTION (spread_attention_two, 64, 2, true)
#endif
