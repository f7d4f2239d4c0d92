/* The last convolution, straight into the host's PCM.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "common.cuh"

#define SAMPLES 1920
#define BLOCK_SAMPLES 64
#define TAPS 3
#define CHANNELS 8 /* that are on their way at once */
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
  const unsigned length = p.inputs * (TAPS - 1);
  const float *in = p.in + (size_t)blockIdx.y * p.in_stride;
  const float *old = history_read (entry, p.history, length);
  const float *from[TAPS];
  unsigned stride[TAPS];
  bool exists[TAPS];

  /* Each tap's sample of channel 0, and how far it is to the next one's. */
#pragma unroll
  for (int tap = 0; tap < TAPS; tap++) {
    const int t = sample - (TAPS - 1 - tap);
    from[tap] = t >= 0 ? in + t / TILE * p.inputs * TILE + t % TILE
                       : old + TAPS - 1 + t;
    stride[tap] = t >= 0 ? TILE : TAPS - 1;
    exists[tap] = t >= 0 || entry.frame > 0;
  }
  float sum = 0.0f;
  for (unsigned c0 = group; c0 < p.inputs; c0 += GROUPS * CHANNELS) {
    float x[CHANNELS][TAPS], w[CHANNELS][TAPS];
#pragma unroll
    for (int i = 0; i < CHANNELS; i++)
#pragma unroll
      for (int tap = 0; tap < TAPS; tap++) {
        const unsigned c = min (c0 + i * GROUPS, p.inputs - 1);
        x[i][tap] = from[tap][c * stride[tap]];
        w[i][tap] = __ldg (p.weights + c * TAPS + tap);
      }
    ask_first ();
#pragma unroll
    for (int i = 0; i < CHANNELS; i++)
#pragma unroll
      for (int tap = 0; tap < TAPS; tap++)
        if (exists[tap] && c0 + i * GROUPS < p.inputs)
          sum = fmaf (x[i][tap], w[i][tap], sum);
  }
  partial[group][column] = sum;
  __syncthreads ();

  /* The last columns are the memory of the next frame. */
  if (blockIdx.x == gridDim.x - 1) {
    float *kept = history_write (entry, p.history, length);
    const float *last = in + (SAMPLES / TILE - 1) * p.inputs * TILE;
    for (unsigned i = threadIdx.x; i < length; i += MIMI_CUDA_THREADS)
      kept[i] =
          last[i / (TAPS - 1) * TILE + TILE - (TAPS - 1) + i % (TAPS - 1)];
  }
  if (group > 0)
    return;

  sum = __ldg (p.weights + p.inputs * TAPS);
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
