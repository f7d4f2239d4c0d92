/* The last convolution, straight into the host's PCM.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "sample.cuh"

#define BLOCK_SAMPLES 64
#define SAMPLE_QUARTERS (BLOCK_SAMPLES / 4)
#define AHEAD 4 /* channels that are on their way at once */

static_assert (SAMPLE_PARTS * SAMPLE_QUARTERS == MIMI_CUDA_THREADS,
    "a thread has one part of four samples");

/* 64 samples a block. A thread has four of them and the channels of one of their
 * 16 sums, 16 threads in a row have the same channels: the two columns before its
 * own are the neighbour's. The input has been through ELU already.
 * Grid: (1920 / 64, entries). */
extern "C" __global__ void
__launch_bounds__ (MIMI_CUDA_THREADS)
    mimi_output (const __grid_constant__ MimiOutputArgs p)
{
  __shared__ __align__ (16) float partial[SAMPLE_PARTS][BLOCK_SAMPLES];

  launch_dependents ();
  wait_for_inputs ();
  const MimiEntry entry = p.entries[blockIdx.y];
  if (entry.state == 0)
    return;

  const unsigned quarter = threadIdx.x % SAMPLE_QUARTERS,
                 part = threadIdx.x / SAMPLE_QUARTERS;
  const unsigned tile = blockIdx.x * (BLOCK_SAMPLES / TILE);
  const unsigned length = p.inputs * (LAST_TAPS - 1);
  const unsigned plane = p.inputs * TILE;
  const float *in = p.in + (size_t)blockIdx.y * p.in_stride;
  const float *from = in + (tile + quarter / 4) * plane + quarter % 4 * 4;

  /* The two columns before the block's: of the tile before, of the frame before,
   * here or in the state, or zero. */
  const bool made = tile > 0 || entry.follows > 0;
  const bool first = quarter == 0 && (made || remembers (entry));
  const float *before =
      made ? (tile > 0 ? in + (tile - 1) * plane
                       : in - p.in_stride + (SAMPLES / TILE - 1) * plane) +
                 TILE - (LAST_TAPS - 1)
           : history_read (entry, p.history, length);
  const unsigned step = made ? TILE : LAST_TAPS - 1;
  float sums[4] = {};

  for (unsigned k = 0; k < p.inputs; k += SAMPLE_PARTS * AHEAD) {
    const unsigned c0 = k + part;
    float4 x[AHEAD];
    float2 past[AHEAD];
    float w[AHEAD][LAST_TAPS];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      const unsigned c = min (c0 + i * SAMPLE_PARTS, p.inputs - 1);
      x[i] = *(const float4 *)(from + c * TILE);
      past[i] = make_float2 (0.0f, 0.0f);
      if (first)
        past[i] = *(const float2 *)(before + c * step);
#pragma unroll
      for (int tap = 0; tap < LAST_TAPS; tap++)
        w[i][tap] = __ldg (p.weights + c * LAST_TAPS + tap);
    }
    ask_first ();
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      const float left = __shfl_up_sync (FULL_WARP, x[i].z, 1, SAMPLE_QUARTERS);
      const float near = __shfl_up_sync (FULL_WARP, x[i].w, 1, SAMPLE_QUARTERS);
      const float v[6] = { quarter ? left : past[i].x,
        quarter ? near : past[i].y, x[i].x, x[i].y, x[i].z, x[i].w };
      if (c0 + i * SAMPLE_PARTS < p.inputs)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
          for (int tap = 0; tap < LAST_TAPS; tap++)
            sums[j] = fmaf (v[j + tap], w[i][tap], sums[j]);
    }
  }
  *(float4 *)&partial[part][quarter * 4] =
      make_float4 (sums[0], sums[1], sums[2], sums[3]);
  __syncthreads ();

  /* The last columns are the memory of the next launch. */
  if (blockIdx.x == gridDim.x - 1 && entry.ends) {
    float *kept = history_write (entry, p.history, length);
    const float *last = in + (SAMPLES / TILE - 1) * p.inputs * TILE;
    for (unsigned i = threadIdx.x; i < length; i += MIMI_CUDA_THREADS)
      kept[i] = last[i / (LAST_TAPS - 1) * TILE + TILE - (LAST_TAPS - 1) +
                     i % (LAST_TAPS - 1)];
  }
  if (threadIdx.x >= BLOCK_SAMPLES)
    return;

  const int sample = blockIdx.x * BLOCK_SAMPLES + threadIdx.x;
  float sum = __ldg (p.weights + p.inputs * LAST_TAPS);
#pragma unroll
  for (unsigned i = 0; i < SAMPLE_PARTS; i++)
    sum += partial[i][threadIdx.x];
  write_sample (p, entry, blockIdx.y, sample, SAMPLES, sum);
  if (sample == 0 && p.status[blockIdx.y])
    p.overflow[blockIdx.y] = 1;
}
