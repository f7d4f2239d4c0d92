/* The product that all linear layers and convolutions are, time-major.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A tile is TILE_ROWS positions x 16 outputs: their sums stay in registers while k
 * runs, a position's value is broadcast, a panel's 16 weights are one or two
 * vectors. Panels are taken in blocks of K so that one stays in the first
 * cache while all positions pass; sums of a block are formed apart and added in
 * `sums`. Each is formed in the same order whatever the tile, so that neither
 * the shape of a tile nor the number of threads changes a bit.
 */
#include "kernels.h"
#include "vmath.h"

#define BLOCK_K 256
#define BLOCK_ROWS 96

INLINE void
tile (guint rows, const gfloat *x, gsize x_stride, const gfloat *w, guint k,
    gfloat *sums, gboolean first)
{
  vf acc[TILE_ROWS][VG];

  UNROLL for (guint r = 0; r < rows; r++) UNROLL for (guint v = 0; v < VG; v++)
      acc[r][v] = (vf){ 0 };
  for (guint i = 0; i < k; i++) {
    vf wv[VG];

    UNROLL for (guint v = 0; v < VG; v++) wv[v] = v_load (w + i * 16 + v * VL);
    UNROLL for (guint r = 0; r < rows; r++)
    {
      vf xv = v_set1 (x[r * x_stride + i]);

      UNROLL for (guint v = 0; v < VG; v++) acc[r][v] =
          v_fma (xv, wv[v], acc[r][v]);
    }
  }
  UNROLL for (guint r = 0; r < rows; r++) UNROLL for (guint v = 0; v < VG; v++)
  {
    gfloat *sum = sums + r * 16 + v * VL;

    if (!first)
      acc[r][v] += v_load (sum);
    v_store (sum, acc[r][v]);
  }
}

#define TILE_CASE(n) \
  case n: \
    tile (n, x, x_stride, w, k, sums, first); \
    break

static void
tile_rows (guint rows, const gfloat *x, gsize x_stride, const gfloat *w,
    guint k, gfloat *sums, gboolean first)
{
  switch (rows) {
    TILE_CASE (1);
    TILE_CASE (2);
#if TILE_ROWS >= 6
    TILE_CASE (3);
    TILE_CASE (4);
    TILE_CASE (5);
    TILE_CASE (6);
#endif
#if TILE_ROWS >= 16
    TILE_CASE (7);
    TILE_CASE (8);
    TILE_CASE (9);
    TILE_CASE (10);
    TILE_CASE (11);
    TILE_CASE (12);
    TILE_CASE (13);
    TILE_CASE (14);
    TILE_CASE (15);
    TILE_CASE (16);
#endif
  }
}

INLINE void
finish (const MimiCpuGemm *g, MimiCpuEpilogue epilogue, guint row, guint rows,
    guint n, const gfloat *sums)
{
  guint valid = MIN (16, g->w->n - n);

  for (guint v = 0; v * VL < valid; v++) {
    guint part = MIN (VL, valid - v * VL);
    guint at = n + v * VL;
    vf bias = g->w->bias ? v_load (g->w->bias + at) : (vf){ 0 };
    vf scale = (vf){ 0 };

    if (epilogue == MIMI_CPU_SCALE_ADD)
      scale = v_load_part (g->scale + at, part);
    for (guint r = 0; r < rows; r++) {
      gsize index = (row + r) * g->y_stride + at;
      gfloat *y = g->y + index;
      vf sum = v_load (sums + r * 16 + v * VL) + bias;

      if (epilogue == MIMI_CPU_SCALE_ADD)
        sum = v_fma (scale, sum, v_load_part (y, part));
      else if (epilogue == MIMI_CPU_GELU_ERF)
        sum = v_gelu_erf (sum);
      else if (epilogue == MIMI_CPU_GELU_TANH)
        sum = v_gelu_tanh (sum);
      if (epilogue == MIMI_CPU_ADD_ELU)
        sum += v_load_part (g->residual + index, part);
      if (epilogue == MIMI_CPU_ELU || epilogue == MIMI_CPU_ADD_ELU) {
        if (g->raw)
          v_store_part (g->raw + index, sum, part);
        sum = v_elu (sum);
      }
      v_store_part (y, sum, part);
    }
  }
}

static void
finish_rows (
    const MimiCpuGemm *g, guint row, guint rows, guint n, const gfloat *sums)
{
  switch (g->epilogue) {
    case MIMI_CPU_STORE:
      finish (g, MIMI_CPU_STORE, row, rows, n, sums);
      break;
    case MIMI_CPU_GELU_ERF:
      finish (g, MIMI_CPU_GELU_ERF, row, rows, n, sums);
      break;
    case MIMI_CPU_GELU_TANH:
      finish (g, MIMI_CPU_GELU_TANH, row, rows, n, sums);
      break;
    case MIMI_CPU_SCALE_ADD:
      finish (g, MIMI_CPU_SCALE_ADD, row, rows, n, sums);
      break;
    case MIMI_CPU_ELU:
      finish (g, MIMI_CPU_ELU, row, rows, n, sums);
      break;
    case MIMI_CPU_ADD_ELU:
      finish (g, MIMI_CPU_ADD_ELU, row, rows, n, sums);
      break;
  }
}

void
mimi_cpu_gemm (const MimiCpuGemm *g, MimiCpuShare share)
{
  gfloat sums[BLOCK_ROWS * 16] __attribute__ ((aligned (64)));
  guint first = 0, end = (g->w->n + 15) / 16, row = 0, last_row = g->rows;

  /* many positions share few weights; few positions share many */
  if (g->rows >= BLOCK_ROWS)
    mimi_cpu_share (&share, g->rows, &row, &last_row);
  else
    mimi_cpu_share (&share, end, &first, &end);
  for (; row < last_row; row += BLOCK_ROWS) {
    guint rows = MIN (BLOCK_ROWS, last_row - row);

    for (guint panel = first; panel < end; panel++) {
      const gfloat *w = g->w->panels + (gsize)panel * g->w->k * 16;

      for (guint k = 0; k < g->w->k; k += BLOCK_K)
        for (guint r = 0; r < rows; r += TILE_ROWS)
          tile_rows (MIN (TILE_ROWS, rows - r),
              g->x + (row + r) * g->x_stride + k, g->x_stride, w + k * 16,
              MIN (BLOCK_K, g->w->k - k), sums + r * 16, k == 0);
      finish_rows (g, row, rows, panel * 16, sums);
    }
  }
}
