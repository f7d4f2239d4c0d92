/* Products for convolutions with fewer multiplications: see filter.h.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A tile is some groups of 2 or 4 positions. Their inputs are turned into what
 * the products take, once for all outputs; each product is a tile as in
 * gemm.c; and the products of a group are added up to its positions' sums. A
 * group starts at a multiple of its size from the frame's first position,
 * whoever computes it, so that its bits are always the same.
 */
#include "tile.h"
#include "vmath.h"

/* Groups that are computed together, whole tiles of them: they meet each panel
 * while it is in the caches. Where there are no more than ROWS, all. */
#define TOGETHER (MIMI_CPU_MAX_ROWS / MIMI_CPU_ROWS * MIMI_CPU_ROWS)
#define ROWS MIMI_CPU_MAX_ROWS
#define TILE_SUMS (MIMI_CPU_PANELS * ROWS * 16)
G_STATIC_ASSERT (MIMI_CPU_PANELS == 1 || MIMI_CPU_ROWS == ROWS);

/* Inputs of a group -> what each product takes. */
INLINE void
transform (MimiCpuFilter filter, vf *d)
{
  if (filter == MIMI_CPU_F22) {
    d[0] -= d[1];
    d[2] -= d[1];
  } else if (filter == MIMI_CPU_F42) {
    const vf two = v_set1 (2), minus_two = -two, minus_three = v_set1 (-3);
    vf a = d[3] - d[1], b = d[0] - d[2], c = d[4] - d[2], e = d[3] - d[2];

    d[0] = v_fma (two, b, a);
    d[4] = v_fma (minus_two, a, c);
    d[2] = v_fma (two, d[1], v_fma (minus_three, d[2], d[3]));
    d[1] = v_fma (minus_two, d[1], e);
    d[3] = a;
  } else if (filter == MIMI_CPU_F23) {
    vf even = d[2];

    d[0] -= d[2];
    d[2] -= d[1];
    d[3] -= d[1];
    d[1] += even;
  } else {
    const vf four = v_set1 (4), minus_four = v_set1 (-4);
    const vf minus_five = v_set1 (-5), two = v_set1 (2), minus_two = -two;
    vf a = v_fma (minus_four, d[2], d[4]), b = v_fma (minus_four, d[1], d[3]);
    vf c = d[4] - d[2], e = d[3] - d[1];

    d[0] = v_fma (four, d[0], v_fma (minus_five, d[2], d[4]));
    d[5] = v_fma (four, d[1], v_fma (minus_five, d[3], d[5]));
    d[1] = a + b;
    d[2] = a - b;
    d[3] = v_fma (two, e, c);
    d[4] = v_fma (minus_two, e, c);
  }
}

/* Products -> outputs, without bias. */
INLINE void
combine (MimiCpuFilter filter, vf *m)
{
  if (filter == MIMI_CPU_F22) {
    m[0] += m[1];
    m[1] += m[2];
  } else if (filter == MIMI_CPU_F42) {
    vf even = m[1] + m[2], odd = m[1] - m[2];

    m[0] += even + m[3];
    m[1] = v_fma (v_set1 (2), m[3], odd);
    m[2] = v_fma (v_set1 (4), m[3], even);
    m[3] = v_fma (v_set1 (8), m[3], odd) + m[4];
  } else if (filter == MIMI_CPU_F23) {
    m[0] += m[1] + m[2];
    m[1] = m[1] - m[2] + m[3];
  } else {
    vf even = m[1] + m[2], odd = m[1] - m[2];
    vf even2 = m[3] + m[4], odd2 = m[3] - m[4];

    m[0] += even + even2;
    m[1] = v_fma (v_set1 (2), odd2, odd);
    m[2] = v_fma (v_set1 (4), even2, even);
    m[3] = v_fma (v_set1 (8), odd2, odd) + m[5];
  }
}

/* One group, of which `valid` inputs exist: beyond the last, that one stands
 * for what nobody asks for. Row `row` of each product's [ROWS][in]. */
INLINE void
transform_group (MimiCpuFilter filter, const MimiCpuGemm *g, guint first,
    guint valid, guint in, gfloat *to)
{
  const guint products = mimi_cpu_filter_products (filter);
  const gfloat *from[MIMI_CPU_MAX_PRODUCTS];

  UNROLL for (guint i = 0; i < products; i++) from[i] =
      g->x + (first + MIN (i, valid - 1)) * g->x_stride;
  for (guint c = 0; c < in; c += VL) {
    guint part = MIN (VL, in - c);
    vf d[MIMI_CPU_MAX_PRODUCTS];

    UNROLL for (guint i = 0; i < products; i++) d[i] =
        v_load_part (from[i] + c, part);
    transform (filter, d);
    UNROLL for (guint i = 0; i < products; i++)
        v_store_part (to + i * ROWS * in + c, d[i], part);
  }
}

/* Products of some groups -> their positions' ELU, for 16 outputs from n on. */
INLINE void
finish_groups (MimiCpuFilter filter, const MimiCpuGemm *g, guint position,
    guint groups, guint n, const gfloat *sums)
{
  const guint products = mimi_cpu_filter_products (filter);
  const guint outputs = mimi_cpu_filter_outputs (filter);
  guint valid = MIN (16, g->w->n - n);

  for (guint v = 0; v * VL < valid; v++) {
    guint at = n + v * VL, part = MIN (VL, valid - v * VL);
    vf bias = g->w->bias ? v_load (g->w->bias + at) : (vf){ 0 };

    for (guint r = 0; r < groups; r++) {
      guint first = position + r * outputs;
      gsize index = first * g->y_stride + at;
      vf m[MIMI_CPU_MAX_PRODUCTS];

      UNROLL for (guint i = 0; i < products; i++) m[i] =
          v_load (sums + i * TILE_SUMS + r * 16 + v * VL);
      combine (filter, m);
      UNROLL for (guint i = 0; i < outputs; i++)
      {
        if (first + i == g->rows)
          break;
        m[i] += bias;
        if (g->raw)
          v_store_part (g->raw + index, m[i], part);
        v_store_part (g->y + index, v_elu (m[i]), part);
        index += g->y_stride;
      }
    }
  }
}

/* Groups from `group` on times panels first to end. */
INLINE void
run_tile (MimiCpuFilter filter, const MimiCpuGemm *g, guint group, guint groups,
    guint first, guint end)
{
  const guint products = mimi_cpu_filter_products (filter);
  const guint outputs = mimi_cpu_filter_outputs (filter);
  guint in = g->w->k / products, position = group * outputs;
  guint tiles = (groups + MIMI_CPU_ROWS - 1) / MIMI_CPU_ROWS;
  guint rows = (groups + tiles - 1) / tiles;
  gsize apart = (gsize)g->w->k * 16;
  gfloat sums[MIMI_CPU_MAX_PRODUCTS * TILE_SUMS] __attribute__ ((aligned (64)));

  for (guint r = 0; r < groups; r++) {
    guint at = position + r * outputs;

    transform_group (filter, g, at,
        g->rows - at + mimi_cpu_filter_taps (filter) - 1, in,
        g->scratch + r * in);
  }
  while (first < end) {
    guint left = MIN (g->w->n, end * 16) - first * 16, panels = 0;
    const gfloat *w = (const gfloat *)g->w->panels + first * apart;

    for (guint i = 0; i < products; i++)
      for (guint k = 0; k < in; k += MIMI_CPU_BLOCK_K)
        for (guint r = 0; r < groups; r += rows) {
          MimiCpuTileFunc func =
              mimi_cpu_find_tile (MIN (rows, groups - r), left, &panels);

          func (g->scratch + (i * ROWS + r) * in + k, in,
              w + ((gsize)i * in + k) * 16, apart,
              MIN (MIMI_CPU_BLOCK_K, in - k), sums + i * TILE_SUMS + r * 16,
              k == 0);
        }
    for (guint p = 0; p < panels; p++, first++)
      finish_groups (
          filter, g, position, groups, first * 16, sums + p * ROWS * 16);
  }
}

void
mimi_cpu_filter (const MimiCpuGemm *g, MimiCpuShare share)
{
  guint outputs = mimi_cpu_filter_outputs (g->w->filter);
  guint first = 0, end = (g->w->n + 15) / 16, group = 0;
  guint groups = (g->rows + outputs - 1) / outputs;

  if (g->rows >= MIMI_CPU_MANY_ROWS)
    mimi_cpu_share (&share, groups, &group, &groups);
  else
    mimi_cpu_share (&share, end, &first, &end);
  for (guint n; group < groups; group += n) {
    guint left = groups - group;

    n = left <= ROWS ? left : left / ((left + TOGETHER - 1) / TOGETHER);

    if (g->w->filter == MIMI_CPU_F22)
      run_tile (MIMI_CPU_F22, g, group, n, first, end);
    else if (g->w->filter == MIMI_CPU_F42)
      run_tile (MIMI_CPU_F42, g, group, n, first, end);
    else if (g->w->filter == MIMI_CPU_F23)
      run_tile (MIMI_CPU_F23, g, group, n, first, end);
    else
      run_tile (MIMI_CPU_F43, g, group, n, first, end);
  }
}
