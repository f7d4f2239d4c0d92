/* The last convolution, straight into the host's PCM.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "common.cuh"

#define SAMPLES 1920
#define BLOCK_SAMPLES 64
#define GROUPS (MIMI_CUDA_THREADS / BLOCK_SAMPLES)

/* 64 samples a block; four groups of threads share the channels. The input
 * has been through ELU already. Writes fade-in, clipping and rounding too, so
 * that nothing but finished PCM crosses the bus.
 * Grid: (1920 / 64, entries). */
extern "C" __global__ void
__launch_bounds__ (MIMI_CUDA_THREADS)
    mimi_output (const __grid_constant__ MimiOutputArgs p)
{
  __shared__ float partial[GROUPS][BLOCK_SAMPLES];

  launch_dependents ();
  wait_for_inputs ();
  const MimiEntry entry = p.entries[blockIdx.y];
  if (entry.state == 0)
    return;

  const unsigned column = threadIdx.x % BLOCK_SAMPLES;
  const unsigned group = threadIdx.x / BLOCK_SAMPLES;
  const int sample = blockIdx.x * BLOCK_SAMPLES + column;
  const unsigned before = p.taps - 1, length = p.inputs * before;
  const float *in = p.in + (size_t)blockIdx.y * p.in_stride;
  const float *old = history_read (entry, p.history, length);
  float *kept = history_write (entry, p.history, length);

  float sum = 0.0f;
  for (unsigned c = group; c < p.inputs; c += GROUPS) {
    for (unsigned tap = 0; tap < p.taps; tap++) {
      const int t = sample - (int)(before - tap);
      float x = 0.0f;
      if (t >= 0)
        x = in[(t / TILE * p.inputs + c) * TILE + t % TILE];
      else if (entry.frame > 0)
        x = old[c * before + before + t];
      sum = fmaf (x, __ldg (p.weights + c * p.taps + tap), sum);
      /* The last column's window is the memory of the next frame. */
      if (sample == SAMPLES - 1 && tap > 0)
        kept[c * before + tap - 1] = x;
    }
  }
  partial[group][column] = sum;
  __syncthreads ();
  if (group > 0)
    return;

  sum = __ldg (p.weights + p.inputs * p.taps);
#pragma unroll
  for (unsigned g = 0; g < GROUPS; g++)
    sum += partial[g][column];

  const unsigned long long at = entry.fade_position + sample;
  if (at < entry.fade_in)
    sum *= (float)at / (float)max (entry.fade_in - 1, 1ull);

  unsigned char *pcm = p.pcm + (size_t)blockIdx.y * p.pcm_bytes;
  if (entry.s16) { /* two samples a thread: whole words cross the bus */
    const float clipped = fminf (fmaxf (sum, -1.0f), 1.0f);
    const int own = __float2int_rn (clipped * 32767.0f) & 0xffff;
    const int next = __shfl_down_sync (FULL_WARP, own, 1);
    if (sample % 2 == 0)
      ((int *)pcm)[sample / 2] = own | next << 16;
  } else {
    ((float *)pcm)[sample] = sum;
  }
  if (sample == 0)
    p.overflow[blockIdx.y] = p.status[blockIdx.y];
}
