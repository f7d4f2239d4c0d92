/* A residual block in one kernel, on any GPU, and with it the output.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * y = elu (x + skip (elu (residual (elu (x))))): a block makes 16 times of all
 * channels by itself; or of the last stage 24 samples, and what the last
 * convolution needs of the 8 times before them once again. It is for the small
 * residual blocks of the later stages: what is between the products stays in
 * shared memory.
 */
#include "part.cuh"
#include "sample.cuh"

template <bool TAIL> struct Whole {
  static constexpr int COLUMNS = TAIL ? 32 : 16; /* that are made */
  static constexpr int FRESH = TAIL ? 24 : 16; /* of them, for the first time */
  static constexpr int BEFORE = 8; /* columns in front, of which 2 are used */
  static constexpr int STRIDE = BEFORE + COLUMNS;
  static constexpr int ROWS = 1024 / COLUMNS; /* of a warp; hidden at most */
  static constexpr int CHANNELS = 2 * ROWS;   /* at most */

  static constexpr int SLOT = TAIL ? WIDE_SLOT : SPLIT_SLOT, WARP = 8 * SLOT;

  union {                       /* never at the same time */
    float x[CHANNELS * STRIDE]; /* after ELU */
    float sums[WARPS * WARP];
  };
  union {
    float hidden[ROWS * STRIDE];
    float y[CHANNELS * STRIDE]; /* after ELU */
  };
  float bias1[ROWS], bias2[CHANNELS],
      last[(TAIL ? CHANNELS * LAST_TAPS : 0) + 4];
};

static_assert (sizeof (Whole<true>) == MIMI_CUDA_WHOLE_BYTES (32) &&
                   sizeof (Whole<false>) == MIMI_CUDA_WHOLE_BYTES (16),
    "told the host");

/* Grid: (times / FRESH, entries). */
template <typename Weight, bool TAIL>
static __device__ void
whole (const MimiTailArgs &args)
{
  typedef Whole<TAIL> W;
  constexpr int TAPS = 3, H = TAPS - 1, PIECES = W::STRIDE / 4;
  constexpr int LOADS =
      (W::CHANNELS * PIECES + MIMI_CUDA_THREADS - 1) / MIMI_CUDA_THREADS;
  constexpr int HALVES = W::COLUMNS / 8, PARTS2 = 4;
  constexpr int VALUES = 1024 / MIMI_CUDA_THREADS;
  extern __shared__ __align__ (16) float dynamic[];
  W &s = *(W *)dynamic;

  const MimiResidualArgs &p = args.block;
  const MimiOutputArgs &o = args.output;
  const unsigned tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const unsigned quad = lane / HALVES * 4, half = lane % HALVES;
  const unsigned index = blockIdx.y, times = p.tiles * TILE;
  const int start = (int)blockIdx.x * W::FRESH - (W::COLUMNS - W::FRESH);
  const bool is_last = start + W::COLUMNS == (int)times;

  launch_dependents ();
  LanePart<Weight, TAPS> first (p.weights1, p.hidden, p.channels, p.part_rows1,
      quad, warp * p.part_rows1);
  if (WAITS)
    first.ask_sooner ();
  ask_first ();
  wait_for_inputs ();
  const MimiEntry entry = p.entries[index];
  if (entry.state == 0)
    return;

  /* The columns, four at a time, out of this frame, the one before it in this
   * launch, or the state. */
  const float *in = p.in + (size_t)index * p.stride;
  const float *kept = history_read (entry, p.history, p.channels * H);
  auto place = [&] (unsigned c, int column) {
    const unsigned at = column >= 0 ? column : column + times;
    return (column >= 0 ? in : in - p.stride) +
           (at / TILE * p.channels + c) * TILE + at % TILE;
  };
  float4 loaded[LOADS];
  auto load = [&] (auto there) { /* there (column): whether it was made */
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
      const unsigned at = tid + i * MIMI_CUDA_THREADS;
      const unsigned c = min (at / PIECES, p.channels - 1);
      const int column = start - W::BEFORE + (int)(at % PIECES * 4);
      if (there (column)) {
        loaded[i] = *(const float4 *)place (c, column);
        continue;
      }
      loaded[i] = make_float4 (0, 0, 0, 0);
      if (column == -4 && remembers (entry)) {
        loaded[i].z = kept[c * H];
        loaded[i].w = kept[c * H + 1];
      }
    }
  };
  if (start >= W::BEFORE || entry.follows > 0) /* without a branch each */
    load ([] (int) { return true; });
  else
    load ([] (int column) { return column >= 0; });
  /* What is needed later, and asked for then would be waited for. */
  const float bias1 = __ldg (p.bias1 + min (tid, p.hidden - 1));
  const float bias2 = __ldg (p.bias2 + min (tid, p.channels - 1));
  float last = 0.0f;
  unsigned status = 0;
  if (TAIL) {
    last = __ldg (o.weights + min (tid, o.inputs * LAST_TAPS));
    status = p.status[index];
  }
  ask_first ();
  if (!WAITS)
    first.ask_sooner ();
#pragma unroll
  for (int i = 0; i < LOADS; i++) {
    const unsigned at = tid + i * MIMI_CUDA_THREADS;
    const int column = start - W::BEFORE + (int)(at % PIECES * 4);
    if (column >= 0 || entry.follows > 0) /* the state has it after ELU */
      loaded[i] = make_float4 (elu (loaded[i].x), elu (loaded[i].y),
          elu (loaded[i].z), elu (loaded[i].w));
    if (at < W::CHANNELS * PIECES)
      *(float4 *)(s.x + at * 4) =
          at / PIECES < p.channels ? loaded[i] : make_float4 (0, 0, 0, 0);
  }
  if (tid < W::ROWS)
    s.bias1[tid] = bias1;
  if (tid < W::CHANNELS)
    s.bias2[tid] = bias2;
  if (TAIL && tid <= W::CHANNELS * LAST_TAPS)
    s.last[tid] = last;
  __syncthreads ();
  if (is_last && entry.ends)
    for (unsigned i = tid; i < p.channels * H; i += MIMI_CUDA_THREADS)
      history_write (entry, p.history, p.channels * H)[i] =
          s.x[i / H * W::STRIDE + W::STRIDE - H + i % H];

  first.ask_later ();
  first.run (
      s.x + warp * p.part_rows1 * W::STRIDE + W::BEFORE + half * 8, W::STRIDE);
  __syncthreads (); /* sums take the place of inputs */
  first.template leave<W::SLOT> (s.sums + warp * W::WARP);
  const unsigned part2 = warp % PARTS2, group = warp / PARTS2;
  LanePart<Weight, 1> second (p.weights2, p.channels, p.hidden, p.part_rows2,
      group * W::ROWS + quad, part2 * p.part_rows2);
  second.ask_sooner ();
  second.ask_later ();
  __syncthreads ();

  /* A thread has one column, of channels that are so far apart. */
  constexpr unsigned APART = MIMI_CUDA_THREADS / W::COLUMNS;
  const unsigned t = tid % W::COLUMNS, n0 = tid / W::COLUMNS;
  const int column = start + (int)t;
  /* Of a column that nobody has made any value will do. */
  const float *of_column =
      column >= 0 || entry.follows > 0 ? place (0, column) : in;
  bool overflow = false;
  /* All of them before any of them is looked at, and then without a branch. */
  float y1[VALUES], y2[2 * VALUES];
#pragma unroll
  for (int i = 0; i < VALUES; i++) {
    const unsigned n = n0 + i * APART;
    y1[i] = sum_warps<WARPS, W::SLOT> (s.sums, n, t, HALVES) + s.bias1[n];
  }
#pragma unroll
  for (int i = 0; i < VALUES; i++) {
    const unsigned n = n0 + i * APART;
    float x = elu (y1[i]);
    settle (x);
    overflow |= n < p.hidden & overflows (y1[i]);
    s.hidden[n * W::STRIDE + t] = n < p.hidden ? x : 0.0f;
  }
  float old[2 * VALUES];
#pragma unroll
  for (int i = 0; i < 2 * VALUES; i++)
    old[i] = of_column[min (n0 + i * APART, p.channels - 1) * TILE];
  ask_first ();
  __syncthreads ();
  second.run (
      s.hidden + part2 * p.part_rows2 * W::STRIDE + half * 8, W::STRIDE);
  second.template leave<W::SLOT> (s.sums + warp * W::WARP);
  __syncthreads ();
#pragma unroll
  for (int i = 0; i < 2 * VALUES; i++)
    y2[i] = old[i] +
            sum_warps<PARTS2, W::SLOT> (s.sums + i / VALUES * PARTS2 * W::WARP,
                n0 + i % VALUES * APART, t, HALVES) +
            s.bias2[n0 + i * APART];
#pragma unroll
  for (int i = 0; i < 2 * VALUES; i++) {
    const unsigned n = n0 + i * APART;
    float x = elu (y2[i]);
    settle (x);
    overflow |= n < p.channels & overflows (y2[i]);
    if (TAIL) /* there is room for all, and nobody reads what does not exist */
      s.y[n * W::STRIDE + W::BEFORE + t] = x;
    else if (n < p.channels)
      p.out[(size_t)index * p.stride +
            ((size_t)blockIdx.x * p.channels + n) * TILE + t] = x;
  }
  if (!TAIL) {
    if (overflow)
      atomicOr (p.status + index, 1u);
    return;
  }

  /* The last convolution; of what the frame before made, its end is in the
   * state, unless that frame is here too. */
  constexpr int L = LAST_TAPS - 1, EACH = SAMPLE_PARTS / WARPS;
  constexpr int FRESH_AT = W::STRIDE - W::FRESH;
  const unsigned length = o.inputs * L;
  float *partial = s.sums;
  __syncthreads ();
  if (start < 0 && entry.follows == 0 && tid < length)
    s.y[tid / L * W::STRIDE + FRESH_AT - L + tid % L] =
        remembers (entry) ? history_read (entry, o.history, length)[tid] : 0.0f;
  __syncthreads ();
  if (is_last && entry.ends)
    for (unsigned i = tid; i < length; i += MIMI_CUDA_THREADS)
      history_write (entry, o.history, length)[i] =
          s.y[i / L * W::STRIDE + W::STRIDE - L + i % L];
  const unsigned sampled = min (lane, W::FRESH - 1);
#pragma unroll
  for (int j = 0; j < EACH; j++) {
    const unsigned part = warp * EACH + j;
    float sum = 0.0f;
#pragma unroll 4
    for (unsigned c = part; c < o.inputs; c += SAMPLE_PARTS)
#pragma unroll
      for (int tap = 0; tap < LAST_TAPS; tap++)
        sum = fmaf (s.y[c * W::STRIDE + FRESH_AT - L + sampled + tap],
            s.last[c * LAST_TAPS + tap], sum);
    partial[part * 32 + lane] = sum;
  }
  __syncthreads ();
  if (overflow || (tid == 0 && status != 0))
    o.overflow[index] = 1;
  if (warp > 0)
    return;
  float sum = s.last[o.inputs * LAST_TAPS];
#pragma unroll
  for (unsigned i = 0; i < SAMPLE_PARTS; i++)
    sum += partial[i * 32 + lane];
  const int sample = (int)blockIdx.x * W::FRESH + (int)lane;
  write_sample (o, entry, index, sample, (int)(blockIdx.x + 1) * W::FRESH, sum);
}

#define WHOLE(name, ...) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS, 2) \
      mimi_##name (const __grid_constant__ MimiTailArgs p) \
  { \
    whole<__VA_ARGS__> (p); \
  }

WHOLE (split_block_f32, float, false)
WHOLE (split_block_bf16, unsigned short, false)
WHOLE (split_tail_f32, float, true)
WHOLE (split_tail_bf16, unsigned short, true)
