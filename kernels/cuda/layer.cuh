/* What a block of layer.cu has of all layers, apart from their products.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "cluster.cuh"
#include "epilogue.cuh"
#include "mma.cuh"
#include "moments.cuh"
#include "window.cuh"

/* Keys that a block has room for, and a warp's share of them in a softmax. */
#define LAYERS_KEYS (MIMI_CUDA_LAYERS_WINDOW + TILE)

/* Shared memory. */
template <int WIDTH, int DIM> struct LayersRoom {
  static constexpr unsigned SHARE = DIM / 16;     /* blocks of a head */
  static constexpr unsigned TAKEN = TILE / SHARE; /* queries of each */
  static constexpr unsigned STEPS = WIDTH / 64;   /* of 8 channels, of a part */
  static constexpr unsigned HIDDEN = 32 * STEPS;  /* a block's, of the FFN */

  /* Rows are four floats longer than needed: then what a lane of multiply()
   * reads, of column lane / 4 and channel lane % 4, is in a bank of its own. */
  union {
    float x[TILE][WIDTH + 4];
    float partial[WARPS][TAKEN][DIM]; /* sums of values */
  };
  float2 hidden[TILE][HIDDEN + 4];     /* high and low, see mma.cuh */
  float2 mixed[TAKEN][DIM + 4];        /* the same */
  float2 handed[4][2][8][32];          /* see multiply_pair() */
  float2 sums[MIMI_CUDA_RANKS][WIDTH]; /* from each rank, of our two times */
  float2 moments[2][WIDTH / 32];
  float query[TAKEN / 4][DIM][4];
  float inverse[TAKEN];
  float2 turns[2][4][32]; /* sine and cosine, see begin_frame() */
  /* then scores [query / 4][key][4], and the window's keys and values */
};

static_assert (sizeof (LayersRoom<128, 32>) <= MIMI_CUDA_LAYERS_ROOM &&
                   sizeof (LayersRoom<64, 64>) <= MIMI_CUDA_LAYERS_ROOM,
    "what launch.c takes it for");

/* Loads that stay where they are: before barriers and the dependency wait. */
static __device__ void
load_now (const uint4 *from, uint4 &to)
{
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w)
               : "l"(from));
}

static __device__ void
load_now (const uint2 *from, uint2 &to)
{
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(to.x), "=r"(to.y)
               : "l"(from));
}

static __device__ void
load_now (const float *from, float &to)
{
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(to) : "l"(from));
}

static __device__ float2
split (float x)
{
  const float high = tf32 (x);
  return make_float2 (high, x - high);
}

/* An integer that is larger if the float is, and back. */
static __device__ int
to_order (float x)
{
  const int bits = __float_as_int (x);
  return bits ^ (bits >> 31 & 0x7fffffff);
}

static __device__ float
from_order (int order)
{
  return __int_as_float (order ^ (order >> 31 & 0x7fffffff));
}

template <int WIDTH, int DIM> struct LayersBlock {
  using Room = LayersRoom<WIDTH, DIM>;
  static constexpr unsigned SHARE = Room::SHARE, TAKEN = Room::TAKEN,
                            GROUPS = TAKEN / MIMI_CUDA_QUERIES,
                            STEPS = Room::STEPS, HIDDEN = Room::HIDDEN;

  /* Two warps that share 16 outputs: see multiply_pair(). */
  struct Pair {
    unsigned group;    /* of 16 outputs, of the block's */
    bool exists, last; /* last: has the last four parts of the channels */

    __device__
    Pair (unsigned warp, unsigned groups, bool wanted)
        : group (warp % groups), exists (wanted && warp < 2 * groups),
          last (warp >= groups)
    {
    }
  };

  const MimiLayersArgs &p;
  Room &room;
  const unsigned rank, lane, warp;
  /* The head of the block, its first rank, and the first of our queries. */
  const unsigned head, rank0, query0;
  const bool attends, expands, owns;
  const Pair qkv, ffn1;
  const unsigned room_blocks; /* for the window */
  float4 *scores[GROUPS];     /* [position in the window] */
  Window<DIM> window;

  /* Of the frame: where the ring is, and in it the window's first block, and
   * ours; how many blocks the window has of earlier frames; which position, from
   * the window's first, is the first that a group of four queries sees. */
  float *ring;
  unsigned ring0, ring1, blocks, begin[GROUPS];

  float gain, offset, scale; /* of the channel that the thread owns */
  float y[2];                /* of the residual stream, two times */
  bool overflow;

  __device__
  LayersBlock (const MimiLayersArgs &args, float *shared)
      : p (args), room (*(Room *)shared), rank (blockIdx.x),
        lane (threadIdx.x % 32),
        /* so that the compiler knows it to be the same in all lanes */
        warp (__shfl_sync (FULL_WARP, threadIdx.x / 32, 0)),
        head (rank / SHARE), rank0 (head * SHARE),
        query0 (rank % SHARE * TAKEN), attends (rank < WIDTH / 16),
        expands (rank * HIDDEN < args.ffn), owns (warp < WIDTH / 32),
        qkv (warp, 3, attends), ffn1 (warp, HIDDEN / 16, expands),
        room_blocks ((args.window + TILE - 2) / TILE + 1), overflow (false)
  {
#pragma unroll
    for (unsigned g = 0; g < GROUPS; g++)
      scores[g] = (float4 *)(&room + 1) + g * room_blocks * TILE;
    window.keys = (float *)(scores[0] + GROUPS * room_blocks * TILE);
    window.values = window.keys + room_blocks * Window<DIM>::KEYS;
  }

  /* What the frame's number says. */
  __device__ void
  begin_frame (const MimiEntry &entry)
  {
    const unsigned long long now = entry.frame * TILE;
    auto oldest = [&] (unsigned query) {
      return now + query + 1 > p.window ? now + query + 1 - p.window : 0;
    };
    const unsigned long long base = oldest (0) / TILE;

    ring = (float *)entry.state + p.ring;
    ring0 = (unsigned)(base % p.ring_blocks);
    ring1 = (unsigned)(entry.frame % p.ring_blocks);
    blocks = (unsigned)(entry.frame - base);
#pragma unroll
    for (unsigned g = 0; g < GROUPS; g++)
      begin[g] =
          (unsigned)(oldest (query0 + g * MIMI_CUDA_QUERIES) - base * TILE);

    /* Queries' and keys' rotation is the same in all layers. */
    if (qkv.group == 0 && qkv.exists)
#pragma unroll
      for (unsigned i = 0; i < 4; i++) {
        const unsigned d = rank % SHARE * 16 + lane / 4 + i / 2 * 8;
        const unsigned long long position =
            now + qkv.last * 8 + lane % 4 * 2 + i % 2;
        const int turn = (int)(position * __ldg (p.rope + d / 2) >> 32);
        float sine, cosine;
        sincospif (turn * 0x1p-31f, &sine, &cosine);
        room.turns[qkv.last][i][lane] =
            make_float2 (d % 2 ? sine : -sine, cosine);
      }
  }

  template <typename T>
  __device__ const T *
  in_layer (const T *of_first, unsigned layer) const
  {
    return (const T *)((const char *)of_first + layer * p.layer_bytes);
  }

  __device__ void
  load_norm (const float *of_first, unsigned layer)
  {
    const float *from = in_layer (of_first + threadIdx.x, layer);
    if (owns) {
      load_now (from, gain);
      load_now (from + WIDTH, offset);
    }
  }

  __device__ void
  load_scale (const float *of_first, unsigned layer)
  {
    if (owns)
      load_now (in_layer (of_first + threadIdx.x, layer), scale);
  }

  /* The keys and values of earlier frames. */
  __device__ void
  load_window (unsigned layer) const
  {
    const unsigned length = p.ring_blocks * DIM * TILE;
    const float *keys = ring + layer * p.ring_floats + head * length;

    if (attends)
#pragma unroll 1
      for (unsigned i = 0; i < blocks; i++)
        window.begin (keys, keys + WIDTH / DIM * length, i,
            ring0 + i < p.ring_blocks ? ring0 + i : ring0 + i - p.ring_blocks);
  }

  /* Keys and values to the ring. */
  __device__ void
  keep (unsigned layer, const float (&value)[2][2]) const
  {
    const unsigned t = qkv.last * 8 + lane % 4 * 2;
    float *keys = ring + layer * p.ring_floats +
                  (head * p.ring_blocks + ring1) * DIM * TILE;
    float *values = keys + WIDTH * p.ring_blocks * TILE;

    if (!qkv.exists || qkv.group == 0)
      return;
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
      const unsigned d = rank % SHARE * 16 + lane / 4 + 8 * i;
      if (qkv.group == 1)
        *(float2 *)(keys + d * TILE + t) =
            make_float2 (value[i][0], value[i][1]);
      else
#pragma unroll
        for (unsigned j = 0; j < 2; j++)
          values[(t + j) * DIM + d] = value[i][j];
    }
  }

  /* LayerNorm of the times that the block owns, to the first n blocks. */
  __device__ void
  normalise (unsigned n)
  {
    if (owns) {
      float2 m[2];
      slice_moments (y, 32, { 32, 32 }, true, m);
      if (lane == 0)
        room.moments[0][warp] = m[0], room.moments[1][warp] = m[1];
    }
    __syncthreads ();
    if (!owns)
      return;
#pragma unroll
    for (unsigned j = 0; j < 2; j++) {
      float2 m[WIDTH / 32];
      float sum[2] = {}, squares[2] = {};
#pragma unroll
      for (unsigned s = 0; s < WIDTH / 32; s++) {
        m[s] = room.moments[j][s];
        sum[s % 2] = fmaf (m[s].x, 32.0f, sum[s % 2]);
      }
      const float mean = (sum[0] + sum[1]) * (1.0f / WIDTH);
#pragma unroll
      for (unsigned s = 0; s < WIDTH / 32; s++) {
        const float d = m[s].x - mean;
        squares[s % 2] += fmaf (d * d, 32.0f, m[s].y);
      }
      const float all =
          rsqrtf (fmaf (squares[0] + squares[1], 1.0f / WIDTH, p.norm_eps));
      const float z = normalize (y[j], mean, all, gain, offset);
      float *place = &room.x[2 * rank + j][threadIdx.x];
      *place = z;
#pragma unroll
      for (unsigned i = 1; i < MIMI_CUDA_RANKS; i++) {
        const unsigned other = (rank + i) % MIMI_CUDA_RANKS;
        if (other < n)
          store_remote (remote (place, other), z);
      }
    }
  }

  /* A warp takes two blocks of 16 keys and four queries: a lane has two keys, and
   * half of dim. */
  __device__ void
  score ()
  {
    const unsigned first = begin[0] / TILE, last = begin[GROUPS - 1] / TILE;
    const unsigned n = (blocks - first) / 2 + 1;
    const unsigned all = n + (GROUPS > 1 ? (blocks - last) / 2 + 1 : 0);

#pragma unroll 1
    for (unsigned i = warp; i < all; i += WARPS) {
      const bool second = i >= n;
      const unsigned block = second ? last + (i - n) * 2 : first + i * 2;
      const unsigned half = lane / TILE * (DIM / 2);
      /* Where there is but one block, it counts twice. */
      const unsigned own = min (block + lane / 8 % 2, blocks);
      const float *k = window.keys + own * Window<DIM>::KEYS +
                       Window<DIM>::key_place (half, lane % 8 * 2);
      const float4 *query = (const float4 *)room.query[second] + half;
      float sum[2][4] = {};
#pragma unroll 1 /* registers are few */
      for (unsigned d0 = 0; d0 < DIM / 2; d0 += 16)
#pragma unroll
        for (unsigned d = d0; d < d0 + 16; d++) {
          const float4 q = query[d];
          const float2 x = *(const float2 *)(k + d * TILE);
          sum[0][0] = fmaf (q.x, x.x, sum[0][0]);
          sum[0][1] = fmaf (q.y, x.x, sum[0][1]);
          sum[0][2] = fmaf (q.z, x.x, sum[0][2]);
          sum[0][3] = fmaf (q.w, x.x, sum[0][3]);
          sum[1][0] = fmaf (q.x, x.y, sum[1][0]);
          sum[1][1] = fmaf (q.y, x.y, sum[1][1]);
          sum[1][2] = fmaf (q.z, x.y, sum[1][2]);
          sum[1][3] = fmaf (q.w, x.y, sum[1][3]);
        }
      /* A query sees as many positions, up to its own. */
      const unsigned position = own * TILE + lane % 8 * 2;
      const unsigned at = blocks * TILE + query0 + second * MIMI_CUDA_QUERIES;
#pragma unroll
      for (unsigned j = 0; j < 2; j++)
#pragma unroll
        for (unsigned q = 0; q < 4; q++) {
          sum[j][q] += __shfl_xor_sync (FULL_WARP, sum[j][q], TILE);
          if (at + q - (position + j) >= p.window) /* or is less than 0 */
            sum[j][q] = -INFINITY;
        }
      /* Each half stores one key's. */
      const bool odd = lane >= TILE;
      scores[0][second * room_blocks * TILE + position + odd] =
          make_float4 (odd ? sum[1][0] : sum[0][0], odd ? sum[1][1] : sum[0][1],
              odd ? sum[1][2] : sum[0][2], odd ? sum[1][3] : sum[0][3]);
    }
  }

  /* Of the warp's query; the division waits for the end. */
  template <unsigned N>
  __device__ void
  softmax (float *score, unsigned n)
  {
    float x[N], most = -INFINITY, sum = 0.0f;

#pragma unroll
    for (unsigned j = 0; j < N; j++)
      x[j] = j * 32 + lane < n ? score[(j * 32 + lane) * 4] : -INFINITY;
#pragma unroll
    for (unsigned j = 0; j < N; j++)
      most = fmaxf (most, x[j]);
    most = from_order (__reduce_max_sync (FULL_WARP, to_order (most)));
#pragma unroll
    for (unsigned j = 0; j < N; j++) {
      const float e = exp2f (x[j] - most);
      if (j * 32 + lane < n)
        score[(j * 32 + lane) * 4] = e;
      sum += e;
    }
#pragma unroll
    for (unsigned other = 16; other > 0; other >>= 1)
      sum += __shfl_xor_sync (FULL_WARP, sum, other);
    if (lane == 0)
      room.inverse[warp] = 1.0f / sum;
  }

  /* Every eighth position is summed apart, counted from the first that a group
   * of queries sees; with them go some that it does not see, which weigh
   * nothing. A half of a warp takes an eighth, a lane four of dim and four
   * queries. */
  __device__ void
  add_values ()
  {
    constexpr unsigned LANES = DIM / 4;
    static_assert (GROUPS * LANES == TILE, "half a warp");

    if (warp >= WARPS / 2)
      return;
    const unsigned g = lane % TILE / LANES, d = lane % LANES * 4;
    const unsigned residue = warp * 2 + lane / TILE;
    const unsigned from = g > 0 ? begin[GROUPS - 1] : begin[0];
    const float4 *weights = scores[0] + g * room_blocks * TILE + residue;
    const float *values = window.values + residue * DIM + d;
    float sum[4][4] = {};
#pragma unroll 2
    for (unsigned i = begin[0] / TILE * TILE; i <= blocks * TILE; i += TILE)
#pragma unroll
      for (unsigned j = i; j < i + TILE; j += WARPS) {
        float4 weight = make_float4 (0, 0, 0, 0);
        if (GROUPS == 1 || i + TILE > from)
          weight = weights[j];
        const float4 x = *(const float4 *)(values + j * DIM);
#pragma unroll
        for (unsigned q = 0; q < 4; q++)
#pragma unroll
          for (unsigned k = 0; k < 4; k++)
            sum[q][k] = fmaf ((&weight.x)[q], (&x.x)[k], sum[q][k]);
      }
#pragma unroll
    for (unsigned q = 0; q < 4; q++)
      *(float4 *)&room
           .partial[(residue - from) % WARPS][g * MIMI_CUDA_QUERIES + q][d] =
          make_float4 (sum[q][0], sum[q][1], sum[q][2], sum[q][3]);
  }

  __device__ void
  attend ()
  {
    score ();
    __syncthreads ();
    if (warp < TAKEN) {
      const unsigned from =
          (warp < 4 ? begin[0] : begin[GROUPS - 1]) / TILE * TILE;
      const unsigned n = (blocks + 1) * TILE - from;
      float *score =
          (float *)(scores[0] + warp / 4 * room_blocks * TILE + from) +
          warp % 4;
      if (n <= 96) /* windows of 50 are as wide as that */
        softmax<3> (score, n);
      else
        softmax<(LAYERS_KEYS + 31) / 32> (score, n);
    }
    __syncthreads ();
    add_values ();
    __syncthreads ();
    const unsigned q = threadIdx.x / DIM, d = threadIdx.x % DIM;
    float total = 0.0f;
#pragma unroll
    for (unsigned w = 0; w < WARPS; w++)
      total += room.partial[w][q][d];
    room.mixed[q][d] = split (total * room.inverse[q]);
    __syncthreads ();
  }

  /* To who owns these times: the sums of 16 outputs of what a rank of
   * spread.cuh has, the which-th of these; the thread has the times from t on. */
  __device__ void
  send (const float (&sum)[4], unsigned which, unsigned t)
  {
#pragma unroll
    for (unsigned i = 0; i < 2; i++)
      store_remote (
          remote (&room.sums[which][warp * 16 + lane / 4 + 8 * i], t / 2),
          sum[2 * i], sum[2 * i + 1]);
  }

  /* The first n sums, in order, to the residual stream. */
  __device__ void
  add (unsigned n)
  {
    float2 v[MIMI_CUDA_RANKS];
    float sum[2] = {};

    if (!owns)
      return;
#pragma unroll
    for (unsigned i = 0; i < MIMI_CUDA_RANKS; i++)
      v[i] = i < n ? room.sums[i][threadIdx.x] : make_float2 (0, 0);
#pragma unroll
    for (unsigned i = 0; i < MIMI_CUDA_RANKS; i++) {
      sum[0] += v[i].x;
      sum[1] += v[i].y;
    }
#pragma unroll
    for (unsigned j = 0; j < 2; j++) {
      y[j] = fmaf (scale, sum[j], y[j]);
      overflow |= overflows (y[j]);
    }
  }
};
