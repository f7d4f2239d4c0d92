/* The product that all linear layers and convolutions are, time-major.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A tile's positions stay in the first cache while all panels pass in order.
 * Sums of 256 are formed apart and then added, in the same order whatever the
 * tile, so that neither the shape of a tile nor the number of threads changes a
 * bit.
 */
#include "tile.h"
#include "vmath.h"

#define BLOCK_K MIMI_CPU_BLOCK_K
#define ROWS MIMI_CPU_ROWS

/* One or two positions have so few sums that these would wait for themselves:
 * FEW sums each of every FEW-th k. */
#if VL == 16
#define FEW 4
#else
#define FEW 2
#endif

INLINE vf
load_weights (gconstpointer w, gsize i, gboolean bf16)
{
  return bf16 ? v_load_bf16 ((const uint16_t *)w + i)
              : v_load ((const gfloat *)w + i);
}

/* A block of one panel for one or two positions: as fast as memory gives the
 * weights. The processor sees by itself what comes next; asking as well makes
 * it up to a tenth slower, but for bfloat16 with AVX2, where widening takes as
 * long as reading: 3 % faster. */
#define BF16_AHEAD (VL == 8 ? 5120 : 0) /* weights */

INLINE void
tile_few (guint rows, gboolean bf16, const gfloat *x, gsize x_stride,
    gconstpointer w, guint k, gfloat *sums, gboolean first)
{
  vf acc[FEW][2][VG];
  guint i = 0;

  UNROLL for (guint f = 0; f < FEW; f++) UNROLL for (guint r = 0; r < rows; r++)
      UNROLL for (guint v = 0; v < VG; v++) acc[f][r][v] = (vf){ 0 };
  for (; i + FEW <= k; i += FEW) {
    UNROLL for (guint f = 0; f < FEW; f++) UNROLL for (guint v = 0; v < VG; v++)
    {
      vf wv = load_weights (w, (i + f) * 16 + v * VL, bf16);

      if (BF16_AHEAD && bf16 && v == 0 && f % 2 == 0) /* once a line */
        __builtin_prefetch (
            (const guint16 *)w + (i + f) * 16 + BF16_AHEAD, 0, 3);
      UNROLL for (guint r = 0; r < rows; r++) acc[f][r][v] =
          v_fma (v_set1 (x[r * x_stride + i + f]), wv, acc[f][r][v]);
    }
  }
  for (; i < k; i++)
    UNROLL for (guint v = 0; v < VG; v++)
    {
      vf wv = load_weights (w, i * 16 + v * VL, bf16);

      UNROLL for (guint r = 0; r < rows; r++) acc[0][r][v] =
          v_fma (v_set1 (x[r * x_stride + i]), wv, acc[0][r][v]);
    }
  UNROLL for (guint r = 0; r < rows; r++) UNROLL for (guint v = 0; v < VG; v++)
  {
    gfloat *sum = sums + r * 16 + v * VL;

    UNROLL for (guint f = 1; f < FEW; f++) acc[0][r][v] += acc[f][r][v];
    if (!first)
      acc[0][r][v] += v_load (sum);
    v_store (sum, acc[0][r][v]);
  }
}

#define TILE_FEW(name, rows, bf16) \
  TILE_FUNCTION \
  few_##name (const gfloat *x, gsize x_stride, gconstpointer w, guint k, \
      gfloat *sums, gboolean first) \
  { \
    tile_few (rows, bf16, x, x_stride, w, k, sums, first); \
  }

TILE_FEW (1, 1, FALSE)
TILE_FEW (2, 2, FALSE)
TILE_FEW (1_bf16, 1, TRUE)
TILE_FEW (2_bf16, 2, TRUE)

/* [bf16][rows - 1] */
static void (*const few[2][2]) (const gfloat *, gsize, gconstpointer, guint,
    gfloat *, gboolean) = { { few_1, few_2 }, { few_1_bf16, few_2_bf16 } };

/* One vector of outputs, `part` of them, for all rows. */
INLINE void
finish_vector (const MimiCpuGemm *g, MimiCpuEpilogue epilogue, guint row,
    guint rows, guint at, guint part, const gfloat *sums)
{
  vf bias = g->w->bias ? v_load (g->w->bias + at) : (vf){ 0 };
  vf scale = (vf){ 0 };

  if (epilogue == MIMI_CPU_SCALE_ADD)
    scale = v_load_part (g->scale + at, part);
  for (guint r = 0; r < rows; r++) {
    gsize index = (row + r) * g->y_stride + at;
    gfloat *y = g->y + index;
    vf sum = v_load (sums + r * 16) + bias;

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

INLINE void
finish (const MimiCpuGemm *g, MimiCpuEpilogue epilogue, guint row, guint rows,
    guint n, const gfloat *sums)
{
  guint valid = MIN (16, g->w->n - n), v = 0;

  for (; (v + 1) * VL <= valid; v++)
    finish_vector (g, epilogue, row, rows, n + v * VL, VL, sums + v * VL);
  if (v * VL < valid)
    finish_vector (
        g, epilogue, row, rows, n + v * VL, valid - v * VL, sums + v * VL);
}

void
mimi_cpu_finish (
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

/* Panels first to end for one or two positions. */
static void
run_few (const MimiCpuGemm *g, guint first, guint end)
{
  gfloat sums[MIMI_CPU_FEW_PANELS][2 * 16] __attribute__ ((aligned (64)));
  guint size = g->w->bf16 ? 2 : 4;

  while (first < end) {
    guint group = first / MIMI_CPU_FEW_PANELS;
    guint last = MIN (end, (group + 1) * MIMI_CPU_FEW_PANELS);

    for (guint k = 0; k < g->w->k; k += BLOCK_K)
      for (guint p = first; p < last; p++) {
        const gchar *w = (const gchar *)g->w->panels +
                         mimi_cpu_few_index (g->w, p, k) * size;

        few[g->w->bf16][g->rows - 1](g->x + k, g->x_stride, w,
            MIN (BLOCK_K, g->w->k - k), sums[p % MIMI_CPU_FEW_PANELS], k == 0);
      }
    for (; first < last; first++)
      mimi_cpu_finish (
          g, 0, g->rows, first * 16, sums[first % MIMI_CPU_FEW_PANELS]);
  }
}

/* Positions row to last_row times panels first to end. */
static void
run_many (
    const MimiCpuGemm *g, guint row, guint last_row, guint first, guint end)
{
  gfloat sums[2 * ROWS * 16] __attribute__ ((aligned (64)));
  gsize apart = (gsize)g->w->k * 16;

  for (; row < last_row; row += ROWS) {
    guint rows = MIN (ROWS, last_row - row);
    const gfloat *x = g->x + row * g->x_stride;

    for (guint panel = first; panel < end;) {
      guint panels;
      MimiCpuTileFunc func = mimi_cpu_find_tile (
          rows, MIN (g->w->n, end * 16) - panel * 16, &panels);
      const gfloat *w = (const gfloat *)g->w->panels + panel * apart;

      for (guint k = 0; k < g->w->k; k += BLOCK_K)
        func (x + k, g->x_stride, w + (gsize)k * 16, apart,
            MIN (BLOCK_K, g->w->k - k), sums, k == 0);
      for (guint p = 0; p < panels; p++, panel++)
        mimi_cpu_finish (g, row, rows, panel * 16, sums + p * ROWS * 16);
    }
  }
}

void
mimi_cpu_gemm (const MimiCpuGemm *g, MimiCpuShare share)
{
  guint panels = (g->w->n + 15) / 16, first, end;

  if (g->w->filter) {
    mimi_cpu_filter (g, share);
    return;
  }
  if (g->rows >= MIMI_CPU_MANY_ROWS) {
    mimi_cpu_share (&share, g->rows, &first, &end);
    run_many (g, first, end, 0, panels);
    return;
  }
  mimi_cpu_share (&share, panels, &first, &end);
  if (g->w->few)
    run_few (g, first, end);
  else
    run_many (g, 0, g->rows, first, end);
}
