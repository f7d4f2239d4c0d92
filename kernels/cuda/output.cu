/* The last convolution, straight into the host's PCM.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "sample.cuh"

#define BLOCK_SAMPLES 64
#define AHEAD 4 /* that are on their way at once */
#define THREAD_PARTS (SAMPLE_PARTS * BLOCK_SAMPLES / MIMI_CUDA_THREADS)

/* 64 samples a block; four groups of threads share the sums. The input has
 * been through ELU already.
 * Grid: (1920 / 64, entries). */
extern "C" __global__ void
__launch_bounds__ (MIMI_CUDA_THREADS)
    mimi_output (const __grid_constant__ MimiOutputArgs p)
{
  __shared__ float partial[SAMPLE_PARTS][BLOCK_SAMPLES];

  launch_dependents ();
  wait_for_inputs ();
  const MimiEntry entry = p.entries[blockIdx.y];
  if (entry.state == 0)
    return;

  const unsigned column = threadIdx.x % BLOCK_SAMPLES;
  const unsigned group = threadIdx.x / BLOCK_SAMPLES;
  const int sample = blockIdx.x * BLOCK_SAMPLES + column;
  const unsigned length = p.inputs * (LAST_TAPS - 1);
  const float *in = p.in + (size_t)blockIdx.y * p.in_stride;
  const float *old = history_read (entry, p.history, length);
  const float *from[LAST_TAPS];
  unsigned stride[LAST_TAPS];
  bool exists[LAST_TAPS];

  /* Each tap's sample of channel 0, and how far it is to the next one's. Before
   * the frame's first it is one of the frame before, here or in the state. */
#pragma unroll
  for (int tap = 0; tap < LAST_TAPS; tap++) {
    int t = sample - (LAST_TAPS - 1 - tap);
    const bool made = t >= 0 || entry.follows > 0;
    const float *frame = t >= 0 ? in : in - p.in_stride;
    const float *kept = old + LAST_TAPS - 1 + t;
    t = t >= 0 ? t : t + SAMPLES;
    from[tap] = made ? frame + t / TILE * p.inputs * TILE + t % TILE : kept;
    stride[tap] = made ? TILE : LAST_TAPS - 1;
    exists[tap] = made || remembers (entry);
  }
#pragma unroll
  for (unsigned j = 0; j < THREAD_PARTS; j++) {
    const unsigned part = group * THREAD_PARTS + j;
    float sum = 0.0f;
    for (unsigned c0 = part; c0 < p.inputs; c0 += SAMPLE_PARTS * AHEAD) {
      float x[AHEAD][LAST_TAPS], w[AHEAD][LAST_TAPS];
#pragma unroll
      for (int i = 0; i < AHEAD; i++)
#pragma unroll
        for (int tap = 0; tap < LAST_TAPS; tap++) {
          const unsigned c = min (c0 + i * SAMPLE_PARTS, p.inputs - 1);
          x[i][tap] = from[tap][c * stride[tap]];
          w[i][tap] = __ldg (p.weights + c * LAST_TAPS + tap);
        }
      ask_first ();
#pragma unroll
      for (int i = 0; i < AHEAD; i++)
#pragma unroll
        for (int tap = 0; tap < LAST_TAPS; tap++)
          if (exists[tap] && c0 + i * SAMPLE_PARTS < p.inputs)
            sum = fmaf (x[i][tap], w[i][tap], sum);
    }
    partial[part][column] = sum;
  }
  __syncthreads ();

  /* The last columns are the memory of the next launch. */
  if (blockIdx.x == gridDim.x - 1 && entry.ends) {
    float *kept = history_write (entry, p.history, length);
    const float *last = in + (SAMPLES / TILE - 1) * p.inputs * TILE;
    for (unsigned i = threadIdx.x; i < length; i += MIMI_CUDA_THREADS)
      kept[i] = last[i / (LAST_TAPS - 1) * TILE + TILE - (LAST_TAPS - 1) +
                     i % (LAST_TAPS - 1)];
  }
  if (group > 0)
    return;

  float sum = __ldg (p.weights + p.inputs * LAST_TAPS);
#pragma unroll
  for (unsigned i = 0; i < SAMPLE_PARTS; i++)
    sum += partial[i][column];
  write_sample (p, entry, blockIdx.y, sample, SAMPLES, sum);
  if (sample == 0 && p.status[blockIdx.y])
    p.overflow[blockIdx.y] = 1;
}
