/* The last convolution: all channels of three positions to one sample.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "kernels.h"
#include "simd.h"

void
mimi_cpu_last (MimiCpuSlot *slot, MimiCpuShare share)
{
  const MimiCpu *cpu = slot->cpu;
  guint channels = cpu->net.channels[cpu->net.stages];
  guint k = cpu->net.last_kernel * channels, first, end;

  mimi_cpu_share (&share, MIMI_FRAME_SAMPLES, &first, &end);
  for (guint t = first; t < end; t++) {
    const gfloat *x = slot->scratch.last + (gsize)t * channels;
    vf acc = { 0 };

    for (guint i = 0; i < k; i += VL) {
      guint part = MIN (VL, k - i);

      acc = v_fma (
          v_load_part (x + i, part), v_load_part (cpu->last + i, part), acc);
    }
    slot->scratch.pcm[t] = v_sum (acc) + cpu->last_bias;
  }
}
