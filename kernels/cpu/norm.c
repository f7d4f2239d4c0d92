/* LayerNorm over channels, time-major, and the check for NaN and Inf.
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
