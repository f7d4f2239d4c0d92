/* Upsampling of many tiles, dealt out in columns instead of tiles.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * As split.cuh does it, but that a block has 24 columns of 64 outputs or 40 of 32, all
 * channels of them: where that gives no processor more than its share, while
 * blocks of 1024 sums would be some more than there are processors. Sums
 * are the same.
 */
#include "epilogue.cuh"
#include "part.cuh"

template <typename Weight, int TIMES> struct Columns {
  typedef LanePart<Weight, 2, TIMES> Part;
  static constexpr int SPANS = TIMES == 12 ? 2 : 4; /* lanes side by side */
  static constexpr int N = SPANS * TIMES, ROWS = 32 / SPANS * 4;
  static constexpr int BEFORE = 4; /* columns in front, of which 1 is used */
  static constexpr int STRIDE = BEFORE + N;
};

static_assert (WARPS * Columns<float, 12>::Part::PAIRS * 4 ==
                       MIMI_CUDA_COLUMNS_BYTES (24) &&
                   WARPS * Columns<float, 10>::Part::PAIRS * 4 ==
                       MIMI_CUDA_COLUMNS_BYTES (40),
    "told the host");

/* Grid: (times / N, outputs / ROWS, entries). */
template <typename Weight, int TIMES>
static __device__ void
columns (const MimiGemmArgs &p)
{
  typedef Columns<Weight, TIMES> C;
  typedef typename C::Part Part;
  constexpr int PIECES = C::STRIDE / 4, LOADS = 8;
  extern __shared__ __align__ (16) float shared[];

  const unsigned tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const unsigned index = blockIdx.z, row0 = blockIdx.y * C::ROWS;
  const unsigned start = blockIdx.x * C::N;

  launch_dependents ();
  Part part (p.weights, p.outputs, p.inputs, p.part_rows,
      row0 + lane / C::SPANS * 4, warp * p.part_rows);
  wait_for_inputs ();
  const MimiEntry entry = p.entries[index];
  /* The columns, four at a time, out of this frame, the one before it in this
   * launch, or the state. */
  const float *in = p.in + (size_t)index * p.in_stride;
  const unsigned n_pieces = PARTS * p.part_rows * PIECES;
  float4 loaded[LOADS];
  auto load = [&] (unsigned first) {
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
      const unsigned at = first + i * MIMI_CUDA_THREADS;
      const unsigned k = at / PIECES, column = start + at % PIECES * 4 - 4;
      loaded[i] = make_float4 (0, 0, 0, 0);
      if (k < p.inputs && (int)column >= 0)
        loaded[i] =
            *(const float4 *)(in + (column / TILE * p.inputs + k) * TILE +
                              column % TILE);
    }
    ask_first ();
  };
  load (tid);
  if (entry.state == 0)
    return;
  part.ask_sooner ();
  for (unsigned first = tid; first < n_pieces;) {
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
      const unsigned at = first + i * MIMI_CUDA_THREADS;
      if (at < n_pieces)
        *(float4 *)(shared + at * 4) = loaded[i];
    }
    first += LOADS * MIMI_CUDA_THREADS;
    if (first < n_pieces)
      load (first);
  }
  if (start == 0) {
    __syncthreads (); /* zeros were there */
    const float *kept = history_read (entry, p.history, p.inputs);
    for (unsigned k = tid; k < p.inputs; k += MIMI_CUDA_THREADS)
      shared[k * C::STRIDE + C::BEFORE - 1] =
          entry.follows > 0
              ? *(in - p.in_stride + ((p.tiles - 1) * p.inputs + k) * TILE +
                    TILE - 1)
          : remembers (entry) ? kept[k]
                              : 0.0f;
  }
  __syncthreads ();
  if (blockIdx.y == 0 && start + C::N == p.times && entry.ends)
    for (unsigned k = tid; k < p.inputs; k += MIMI_CUDA_THREADS)
      history_write (entry, p.history, p.inputs)[k] =
          shared[k * C::STRIDE + C::STRIDE - 1];

  part.ask_later ();
  part.run (shared + warp * p.part_rows * C::STRIDE + C::BEFORE +
                lane % C::SPANS * TIMES,
      C::STRIDE);
  __syncthreads (); /* sums take the place of inputs */
  part.leave_pairs (shared + warp * Part::PAIRS);
  __syncthreads ();

  /* What a thread finishes: pairs of times of an output. */
  constexpr int VALUES = C::ROWS * C::N / 2;
  const unsigned output = tid % 4, other = tid / 4 % 32;
  const unsigned n = row0 + other / C::SPANS * 4 + output;
  const unsigned c = n / p.ratio, channels = p.outputs / p.ratio;
  const unsigned phase = n - c * p.ratio;
  const float bias = __ldg (p.bias + c);
  float *out = p.out + (size_t)index * p.out_stride + c * TILE;
  bool overflow = false;
#pragma unroll
  for (int i = 0; i < VALUES; i += MIMI_CUDA_THREADS) {
    const unsigned pair = (i + tid) / 128;
    if (i + MIMI_CUDA_THREADS > VALUES && pair >= TIMES / 2)
      break;
    const float2 sum =
        Part::template sum_pairs<PARTS> (shared, other, output, pair);
    const unsigned t = start + other % C::SPANS * TIMES + 2 * pair;
    const unsigned first = t * p.ratio + phase, second = first + p.ratio;
    const float y0 = sum.x + bias, y1 = sum.y + bias;
    out[first / TILE * channels * TILE + first % TILE] = y0;
    out[second / TILE * channels * TILE + second % TILE] = y1;
    overflow |= overflows (y0) | overflows (y1);
  }
  if (overflow)
    atomicOr (p.status + index, 1u);
}

#define COLUMNS(name, ...) \
  extern "C" __global__ void __launch_bounds__ (MIMI_CUDA_THREADS, 2) \
      mimi_##name (const __grid_constant__ MimiGemmArgs p) \
  { \
    columns<__VA_ARGS__> (p); \
  }

COLUMNS (split_up24_f32, float, 12)
COLUMNS (split_up24_bf16, unsigned short, 12)
COLUMNS (split_up40_f32, float, 10)
COLUMNS (split_up40_bf16, unsigned short, 10)
