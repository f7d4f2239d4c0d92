/* The last residual block and the output in one kernel, from 9.0 on.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A block makes the 16 samples of a tile, all of it by itself. The last
 * convolution looks back two samples: the block computes the eight columns
 * before its own again, be they of the frame before, or takes the two out of the
 * state.
 *
 * Arrays are [channel][40]: 16 columns of the past, of which the last 10 are
 * used, and 16 of now; 40 is 8 modulo 32, so 8 columns of 4 channels are in 32
 * different banks.
 */
#include "cluster.cuh"
#include "product.cuh"
#include "sample.cuh"

#define CHANNELS_MOST MIMI_CUDA_TAIL_CHANNELS
#define HIDDEN_MOST MIMI_CUDA_TAIL_HIDDEN
#define TAIL_PAST 16
#define TAIL_STRIDE 40
#define TAIL_COLUMNS 24 /* from 8 before the tile on */
/* So many floats are also the rows of partial sums: they are read one after the
 * other, and eight columns of four of them are in 32 different banks. */

struct TailShared {
  float raw[CHANNELS_MOST][TAIL_STRIDE];
  float x[CHANNELS_MOST][TAIL_STRIDE]; /* after ELU; then y, after ELU */
  float hidden[HIDDEN_MOST][TAIL_STRIDE];
  float partial[WARPS * HIDDEN_MOST * TAIL_COLUMNS];
  float weights[CHANNELS_MOST * LAST_TAPS]; /* of channels that exist, or 0 */
};

static_assert (sizeof (TailShared) == MIMI_CUDA_TAIL_BYTES, "told the host");

/* Grid: (120 tiles, entries). */
template <typename Raw, int PRODUCTS>
static __device__ void
tail (const MimiTailArgs &args)
{
  constexpr int TAPS = 3, H = TAPS - 1, L = LAST_TAPS - 1;
  constexpr int PARTS2 = HIDDEN_MOST / 8, GROUPS = 2;
  /* Threads to a row of sums, and columns that each of them finishes. */
  constexpr unsigned THREADS1 = MIMI_CUDA_THREADS / HIDDEN_MOST;
  constexpr unsigned THREADS2 = MIMI_CUDA_THREADS / CHANNELS_MOST;
  constexpr unsigned VALUES1 = TAIL_COLUMNS / THREADS1;
  constexpr unsigned VALUES2 = TAIL_COLUMNS / THREADS2;
  constexpr int FIRST = TAIL_PAST - 8; /* where the columns begin */
  extern __shared__ __align__ (16) float dynamic[];
  TailShared &s = *(TailShared *)dynamic;

  const MimiResidualArgs &p = args.block;
  const MimiOutputArgs &o = args.output;
  const unsigned tid = threadIdx.x, warp = tid / 32;
  const unsigned tile = blockIdx.x, index = blockIdx.y;
  const unsigned part2 = warp % PARTS2, group2 = warp / PARTS2 * GROUPS;

  /* One group of outputs after the other: there are not registers for the sums of
   * both at once. */
  Product<Raw, PRODUCTS, TAPS, 1, 1, 3, false, ThreeSums> first (
      p.weights1, p.channels, p.hidden, p.part_rows1, warp),
      other (p.weights1, p.channels, p.hidden, p.part_rows1, warp);
  Product<Raw, PRODUCTS, 1, 1, GROUPS, 3, false, ThreeSums> second (
      p.weights2, p.hidden, p.channels, p.part_rows2, part2);
  first.load (0);
  other.load (1);
  /* Of the hidden channel, and of the channel, that the thread finishes. */
  const unsigned row1 = tid / THREADS1, row2 = tid / THREADS2;
  const float bias1 = __ldg (p.bias1 + min (row1, p.hidden - 1));
  const float bias2 = __ldg (p.bias2 + min (row2, p.channels - 1));
  const float last_bias = __ldg (o.weights + o.inputs * LAST_TAPS);
  const float weight = __ldg (o.weights + min (tid, o.inputs * LAST_TAPS));
  /* The two columns before the frame, of the block and of the output. */
  constexpr int LOADS = CHANNELS_MOST * 8 / MIMI_CUDA_THREADS;
  const MimiEntry entry = p.entries[index];
  const unsigned length = o.inputs * L, piece = tid % 8;
  /* Or this launch has made them. */
  const bool made = tile > 0 || entry.follows > 0;
  const bool continued = !made && entry.state != 0 && remembers (entry);
  float2 past[LOADS] = {};
  float past_last = 0.0f;
  if (continued && piece == 3)
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
      const unsigned c =
          min ((tid + i * MIMI_CUDA_THREADS) / 8, p.channels - 1);
      past[i] =
          ((const float2 *)history_read (entry, p.history, p.channels * H))[c];
    }
  if (continued && tid < length)
    past_last = history_read (entry, o.history, length)[tid];
  if (tid < CHANNELS_MOST * LAST_TAPS)
    s.weights[tid] = tid < o.inputs * LAST_TAPS ? weight : 0.0f;

  hold (first.mix () ^ other.mix (), p.tiles == 0, p.status);
  wait_for_inputs ();
  launch_dependents ();
  if (entry.state == 0)
    return;

  bool overflow = tid == 0 && p.status[index] != 0;
  /* x: the tile, and 16 columns before it, in pieces of four columns. */
  const float *in =
      p.in + (size_t)index * p.stride + (size_t)tile * p.channels * TILE;
  const Past before (
      entry, in, tile, SAMPLES / TILE, TILE, p.channels, p.stride);
  const float *from = (piece < 4 && made ? before.tile : in) + piece % 4 * 4;
  float4 loaded[LOADS];
#pragma unroll
  for (int i = 0; i < LOADS; i++)
    loaded[i] = *(const float4 *)(from + min ((tid + i * MIMI_CUDA_THREADS) / 8,
                                             p.channels - 1) *
                                             TILE);
  ask_first ();
#pragma unroll
  for (int i = 0; i < LOADS; i++) {
    const unsigned c = (tid + i * MIMI_CUDA_THREADS) / 8;
    *(float4 *)&s.raw[c][piece * 4] = loaded[i];
    float4 x = make_float4 (elu (loaded[i].x), elu (loaded[i].y),
        elu (loaded[i].z), elu (loaded[i].w));
    if (!made && piece < 4)
      x = make_float4 (0, 0, past[i].x, past[i].y);
    if (c >= p.channels)
      x = make_float4 (0, 0, 0, 0);
    *(float4 *)&s.x[c][piece * 4] = x;
  }
  __syncthreads ();
  const bool ends = tile == SAMPLES / TILE - 1 && entry.ends;
  if (ends)
    for (unsigned i = tid; i < p.channels * H; i += MIMI_CUDA_THREADS)
      history_write (entry, p.history, p.channels * H)[i] =
          s.x[i / H][TAIL_PAST + TILE - H + i % H];

  first.run (&s.x[0][0], TAIL_STRIDE, FIRST - H, 3);
  first.leave (s.partial, TAIL_COLUMNS, HIDDEN_MOST, warp, 0);
  other.run (&s.x[0][0], TAIL_STRIDE, FIRST - H, 3);
  other.leave (s.partial, TAIL_COLUMNS, HIDDEN_MOST, warp, 16);
  /* There was no room for them before; the barriers hide it. */
  second.load (group2);
  ask_first ();
  __syncthreads ();
  const unsigned column1 = tid % THREADS1 * VALUES1;
#pragma unroll
  for (int i = 0; i < VALUES1; i++) {
    const float y = sum_parts<WARPS> (s.partial + tid * VALUES1 + i,
                        HIDDEN_MOST * TAIL_COLUMNS) +
                    bias1;
    overflow |= overflows (y);
    s.hidden[row1][FIRST + column1 + i] = elu (y);
  }
  __syncthreads ();
  second.run (&s.hidden[0][0], TAIL_STRIDE, FIRST, 3);
  second.leave (s.partial, TAIL_COLUMNS, CHANNELS_MOST, part2, group2 * 16);
  __syncthreads ();
  const unsigned column2 = tid % THREADS2 * VALUES2;
#pragma unroll
  for (int i = 0; i < VALUES2; i += 2) {
    const float2 old = *(const float2 *)&s.raw[row2][FIRST + column2 + i];
    float2 y = make_float2 (0, 0);
#pragma unroll
    for (int j = 0; j < PARTS2; j++) {
      const float2 v =
          *(const float2 *)&s
               .partial[j * CHANNELS_MOST * TAIL_COLUMNS + tid * VALUES2 + i];
      y = make_float2 (y.x + v.x, y.y + v.y);
    }
    y = make_float2 (old.x + y.x + bias2, old.y + y.y + bias2);
    overflow |= overflows (y.x) || overflows (y.y);
    if (made || column2 + i >= 8)
      *(float2 *)&s.x[row2][FIRST + column2 + i] =
          make_float2 (elu (y.x), elu (y.y));
  }
  if (!made && tid < length)
    s.x[tid / L][TAIL_PAST - L + tid % L] = past_last;
  __syncthreads ();
  if (ends)
    for (unsigned i = tid; i < length; i += MIMI_CUDA_THREADS)
      history_write (entry, o.history, length)[i] =
          s.x[i / L][TAIL_PAST + TILE - L + i % L];

  /* A warp has two parts whose channels are in different banks. */
  const unsigned sample_part = warp / 2 * 4 + warp % 2 + tid / TILE % 2 * 2;
  const unsigned column = tid % TILE;
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < CHANNELS_MOST / SAMPLE_PARTS; i++) {
    const unsigned c = sample_part + i * SAMPLE_PARTS;
#pragma unroll
    for (int tap = 0; tap < LAST_TAPS; tap++)
      sum = fmaf (s.x[c][TAIL_PAST - L + column + tap],
          s.weights[c * LAST_TAPS + tap], sum);
  }
  s.partial[sample_part * TILE + column] = sum;
  __syncthreads ();
  if (overflow)
    o.overflow[index] = 1;
  if (warp > 0)
    return;
  sum = last_bias;
#pragma unroll
  for (unsigned i = 0; i < SAMPLE_PARTS; i++)
    sum += s.partial[i * TILE + column];
  write_sample (o, entry, index, tile * TILE + tid, (tile + 1) * TILE, sum);
}

/* Blocks of a processor: 12.0 has shared memory for one. */
#if __CUDA_ARCH__ >= 1200
#define TAIL_BLOCKS 1
#else
#define TAIL_BLOCKS 2
#endif

#define KERNEL_TAIL(name, ...) \
  extern "C" __global__ void __launch_bounds__ ( \
      MIMI_CUDA_THREADS, TAIL_BLOCKS) \
      mimi_spread_tail_##name (const __grid_constant__ MimiTailArgs p) \
  { \
    tail<__VA_ARGS__> (p); \
  }

KERNEL_TAIL (f32, uint4, 3)
KERNEL_TAIL (tf32, uint4, 2)
KERNEL_TAIL (bf16, uint2, 2)
