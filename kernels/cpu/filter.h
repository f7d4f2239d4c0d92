/* Minimal filtering: causal convolutions of two and three taps with fewer
 * products than outputs x taps.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * F(m, r) gives m outputs of r taps, y[i] = sum over j of d[i + j] g[j], from
 * m + r - 1 products: each is a sum of inputs times a sum of taps. The taps'
 * sums are formed once, in double, when weights are packed. (Winograd,
 * "Arithmetic Complexity of Computations", 1980.)
 */
#pragma once

#include <glib.h>

typedef enum {
  MIMI_CPU_DIRECT, /* no filter */
  MIMI_CPU_F22,    /* 3 products for 4 */
  MIMI_CPU_F42,    /* 5 for 8 */
  MIMI_CPU_F23,    /* 4 for 6 */
  MIMI_CPU_F43     /* 6 for 12 */
} MimiCpuFilter;

#define MIMI_CPU_MAX_OUTPUTS 4
#define MIMI_CPU_MAX_PRODUCTS 6

static inline guint
mimi_cpu_filter_outputs (MimiCpuFilter filter)
{
  return filter == MIMI_CPU_F42 || filter == MIMI_CPU_F43 ? 4 : 2;
}

static inline guint
mimi_cpu_filter_taps (MimiCpuFilter filter)
{
  return filter == MIMI_CPU_F22 || filter == MIMI_CPU_F42 ? 2 : 3;
}

/* Inputs that a group of outputs is made of, and the products. */
static inline guint
mimi_cpu_filter_products (MimiCpuFilter filter)
{
  return mimi_cpu_filter_outputs (filter) + mimi_cpu_filter_taps (filter) - 1;
}

/* A product's factor: a sum of taps, the oldest first. */
static inline gdouble
mimi_cpu_filter_weight (MimiCpuFilter filter, guint product, const gfloat *taps)
{
  static const gdouble factors[][MIMI_CPU_MAX_PRODUCTS][3] = {
    [MIMI_CPU_F22] = { { 1, 0 }, { 1, 1 }, { 0, 1 } },
    [MIMI_CPU_F42] = { { 1. / 2, 0 }, { -1. / 2, -1. / 2 }, { -1. / 6, 1. / 6 },
        { 1. / 6, 1. / 3 }, { 0, 1 } },
    [MIMI_CPU_F23] = { { 1, 0, 0 }, { 0.5, 0.5, 0.5 }, { 0.5, -0.5, 0.5 },
        { 0, 0, 1 } },
    [MIMI_CPU_F43] = { { 1. / 4, 0, 0 }, { -1. / 6, -1. / 6, -1. / 6 },
        { -1. / 6, 1. / 6, -1. / 6 }, { 1. / 24, 1. / 12, 1. / 6 },
        { 1. / 24, -1. / 12, 1. / 6 }, { 0, 0, 1 } },
  };
  gdouble sum = 0;

  for (guint i = 0; i < mimi_cpu_filter_taps (filter); i++)
    sum += factors[filter][product][i] * taps[i];
  return sum;
}
