/* How fast this machine multiplies and reads: what mimi-bench compares with.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "kernels.h"
#include "simd.h"

/* Enough independent sums to hide the latency of any machine, few enough for
 * 16 registers. */
#define CHAINS 12

gdouble
mimi_cpu_multiply (guint64 flops)
{
  vf acc[CHAINS], a = v_set1 (0.999f), b = v_set1 (0.001f);
  guint64 rounds = flops / (2 * VL * CHAINS) + 1;

  UNROLL for (guint i = 0; i < CHAINS; i++) acc[i] = v_set1 (i);
  for (guint64 n = 0; n < rounds; n++) {
    UNROLL for (guint i = 0; i < CHAINS; i++)
    {
      acc[i] = v_fma (acc[i], a, b);
      /* so that no compiler merges or hoists */
#if defined(__x86_64__)
      __asm__ volatile("" : "+x"(acc[i]));
#else
      __asm__ volatile("" : "+w"(acc[i]));
#endif
    }
  }
  UNROLL for (guint i = 1; i < CHAINS; i++) acc[0] += acc[i];
  return (gdouble)rounds * 2 * VL * CHAINS + 1e-30 * v_sum (acc[0]);
}

gfloat
mimi_cpu_read (const gfloat *data, gsize n)
{
  vf acc[8] = { { 0 } };

  for (gsize i = 0; i + 8 * VL <= n; i += 8 * VL) {
    UNROLL for (guint v = 0; v < 8; v++) acc[v] += v_load (data + i + v * VL);
  }
  UNROLL for (guint v = 1; v < 8; v++) acc[0] += acc[v];
  return v_sum (acc[0]);
}
