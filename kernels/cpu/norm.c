/* LayerNorm over channels, in both layouts, and the check for NaN and Inf.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <math.h>

#include "kernels.h"
#include "simd.h"

gfloat
mimi_cpu_layer_norm (const gfloat *x, guint rows, guint width,
    const gfloat *weight, const gfloat *bias, gfloat eps, gfloat *y,
    MimiCpuShare share)
{
  guint first, end;
  gfloat bad = 0;

  mimi_cpu_share (&share, rows, &first, &end);
  for (guint t = first; t < end; t++) {
    const gfloat *row = x + (gsize)t * width;
    gfloat *out = y + (gsize)t * width;
    vf sum = { 0 }, squares = { 0 };
    gfloat mean, variance, factor;

    for (guint c = 0; c < width; c += VL)
      sum += v_load_part (row + c, MIN (VL, width - c));
    mean = v_sum (sum) / width;
    for (guint c = 0; c < width; c += VL) {
      guint part = MIN (VL, width - c);
      vf d = v_load_part (row + c, part) - v_set1 (mean);

      for (guint i = part; i < VL; i++)
        d[i] = 0;
      squares = v_fma (d, d, squares);
    }
    variance = v_sum (squares) / width;
    factor = 1 / sqrtf (variance + eps);
    /* an overflow would be hidden: x / Inf = 0 */
    bad += variance * 0;
    for (guint c = 0; c < width; c += VL) {
      guint part = MIN (VL, width - c);
      vf d = (v_load_part (row + c, part) - v_set1 (mean)) * v_set1 (factor);

      d = v_fma (
          d, v_load_part (weight + c, part), v_load_part (bias + c, part));
      v_store_part (out + c, d, part);
    }
  }
  return bad;
}

gfloat
mimi_cpu_layer_norm16 (const gfloat *x, guint width, const gfloat *weight,
    const gfloat *bias, gfloat eps, gfloat *y)
{
  gfloat bad = 0;

  UNROLL for (guint v = 0; v < VG; v++)
  {
    const gfloat *in = x + v * VL;
    gfloat *out = y + v * VL;
    /* four sums at a time: one would wait for itself */
    vf sum[4] = { { 0 } }, squares[4] = { { 0 } }, mean, variance, factor;
    guint c, whole = width & ~3u;

    for (c = 0; c < whole; c += 4)
      UNROLL for (guint i = 0; i < 4; i++) sum[i] += v_load (in + (c + i) * 16);
    for (; c < width; c++)
      sum[0] += v_load (in + c * 16);
    mean = ((sum[0] + sum[1]) + (sum[2] + sum[3])) / v_set1 (width);
    for (c = 0; c < whole; c += 4)
      UNROLL for (guint i = 0; i < 4; i++)
      {
        vf d = v_load (in + (c + i) * 16) - mean;

        squares[i] = v_fma (d, d, squares[i]);
      }
    for (; c < width; c++) {
      vf d = v_load (in + c * 16) - mean;

      squares[0] = v_fma (d, d, squares[0]);
    }
    variance = ((squares[0] + squares[1]) + (squares[2] + squares[3])) /
               v_set1 (width);
    /* an overflow would be hidden: x / Inf = 0 */
    bad += v_sum (variance * (vf){ 0 });
    factor = v_set1 (1.0f) / v_sqrt (variance + v_set1 (eps));
    for (c = 0; c < width; c++)
      v_store (out + c * 16, v_fma ((v_load (in + c * 16) - mean) * factor,
                                 v_set1 (weight[c]), v_set1 (bias[c])));
  }
  return bad;
}

gfloat
mimi_cpu_check (const gfloat *x, gsize n)
{
  vf zero = { 0 }, acc = { 0 };
  gfloat sum;
  gsize i;

  /* 0 times Inf or NaN is NaN, and a sum keeps it */
  for (i = 0; i + VL <= n; i += VL)
    acc = v_fma (v_load (x + i), zero, acc);
  sum = v_sum (acc);
  for (; i < n; i++)
    sum += x[i] * 0;
  return sum;
}
