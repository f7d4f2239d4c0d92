/* The last convolution's samples, as the host wants them.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A sample is the bias and 16 sums, in order: sum i is over the channels i,
 * i + 16, and so on, three taps each.
 */
#pragma once

#include "common.cuh"

#define SAMPLES 1920
#define LAST_TAPS 3
#define SAMPLE_PARTS MIMI_CUDA_SAMPLE_PARTS

/* Fade-in, clipping and rounding, so that nothing but finished PCM crosses the
 * bus. All lanes of a warp take part, with samples in a row; those from `end`
 * on are not written. */
static __device__ void
write_sample (const MimiOutputArgs &p, const MimiEntry &entry, unsigned index,
    int sample, int end, float x)
{
  const unsigned long long at = entry.fade_position + sample;
  if (at < entry.fade_in)
    x *= (float)at / (float)max (entry.fade_in - 1, 1ull);

  unsigned char *pcm = p.pcm + (size_t)index * p.pcm_bytes;
  if (entry.s16) { /* two samples a thread: whole words cross the bus */
    const float clipped = fminf (fmaxf (x, -1.0f), 1.0f);
    const int own = __float2int_rn (clipped * 32767.0f) & 0xffff;
    const int next = __shfl_down_sync (FULL_WARP, own, 1);
    if (sample % 2 == 0 && sample < end)
      ((int *)pcm)[sample / 2] = own | next << 16;
  } else if (sample < end) {
    ((float *)pcm)[sample] = x;
  }
}
