/* The last convolution: all channels of some positions to one sample.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "kernels.h"
#include "simd.h"

/* Samples at a time: their sums over lanes are formed together. */
#define TOGETHER VL

#if VL >= 8
INLINE __m256
sum_eight (const __m256 *acc)
{
  __m256 a = _mm256_hadd_ps (
      _mm256_hadd_ps (acc[0], acc[1]), _mm256_hadd_ps (acc[2], acc[3]));
  __m256 b = _mm256_hadd_ps (
      _mm256_hadd_ps (acc[4], acc[5]), _mm256_hadd_ps (acc[6], acc[7]));

  return _mm256_add_ps (
      _mm256_permute2f128_ps (a, b, 0x20), _mm256_permute2f128_ps (a, b, 0x31));
}
#endif

/* The sum over lanes of each of TOGETHER vectors. */
INLINE vf
sum_lanes (const vf *acc)
{
#if VL == 16
  __m256 half[16];

  UNROLL for (guint i = 0; i < 16; i++) half[i] = _mm256_add_ps (
      _mm512_castps512_ps256 (acc[i]), _mm512_extractf32x8_ps (acc[i], 1));
  return _mm512_insertf32x8 (
      _mm512_castps256_ps512 (sum_eight (half)), sum_eight (half + 8), 1);
#elif VL == 8
  return sum_eight (acc);
#else
  vf sums;

  for (guint i = 0; i < TOGETHER; i++)
    sums[i] = v_sum (acc[i]);
  return sums;
#endif
}

void
mimi_cpu_last (const MimiCpu *cpu, const gfloat *x, guint rows, gfloat *pcm)
{
  guint channels = cpu->net.channels[cpu->net.stages];
  guint k = cpu->net.last_kernel * channels;

  for (guint t = 0; t < rows; t += TOGETHER) {
    guint n = MIN (TOGETHER, rows - t);
    vf acc[TOGETHER], sums;

    UNROLL for (guint i = 0; i < TOGETHER; i++)
    {
      /* the last rows may be fewer: repeat one */
      const gfloat *row = x + (gsize)(t + MIN (i, n - 1)) * channels;
      guint j = 0;

      acc[i] = (vf){ 0 };
      for (; j + VL <= k; j += VL)
        acc[i] = v_fma (v_load (row + j), v_load (cpu->last + j), acc[i]);
      if (j < k)
        acc[i] = v_fma (v_load_part (row + j, k - j),
            v_load_part (cpu->last + j, k - j), acc[i]);
    }
    sums = sum_lanes (acc) + v_set1 (cpu->last_bias);
    v_store_part (pcm + t, sums, n);
  }
}
