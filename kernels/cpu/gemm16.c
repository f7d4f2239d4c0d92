/* The product for the layers of 16 positions, [channel][16].
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A tile is a panel's outputs x 16 positions; a channel's 16 positions are one
 * or two vectors and the weights are broadcast. So each weight is read once, in
 * order, and everything between two products (norm, softmax, GELU, rotation)
 * works on whole vectors. Sums of 256 are formed apart and then added: that
 * costs nothing and keeps three more decibels.
 */
#include "kernels.h"
#include "vmath.h"

#define BLOCK_K 256
INLINE void
step (guint rows, const gfloat *w, const gfloat *x, vf acc[TILE_ROWS][VG])
{
  vf xv[VG];

  UNROLL for (guint v = 0; v < VG; v++) xv[v] = v_load (x + v * VL);
  UNROLL for (guint r = 0; r < rows; r++)
  {
    vf wv = v_set1 (w[r]);

    UNROLL for (guint v = 0; v < VG; v++) acc[r][v] =
        v_fma (wv, xv[v], acc[r][v]);
  }
}

INLINE void
tile (guint rows, const gfloat *w, const gfloat *x, gsize x_stride, guint taps,
    guint channels, gfloat *sums, gboolean first)
{
  vf acc[TILE_ROWS][VG];

  UNROLL for (guint r = 0; r < rows; r++) UNROLL for (guint v = 0; v < VG; v++)
      acc[r][v] = (vf){ 0 };
  for (guint c = 0; c < channels; c++, x += x_stride)
    for (guint tap = 0; tap < taps; tap++, w += rows) {
      v_prefetch (w);
      step (rows, w, x + tap, acc);
    }
  UNROLL for (guint r = 0; r < rows; r++) UNROLL for (guint v = 0; v < VG; v++)
  {
    gfloat *sum = sums + r * 16 + v * VL;

    if (!first)
      acc[r][v] += v_load (sum);
    v_store (sum, acc[r][v]);
  }
}

#define TILE(name, rows, taps) \
  TILE_FUNCTION \
  name (const gfloat *w, const gfloat *x, gsize x_stride, guint n_taps, \
      guint channels, gfloat *sums, gboolean first) \
  { \
    (void)n_taps; \
    tile (rows, w, x, x_stride, taps, channels, sums, first); \
  }

TILE (tile_linear, TILE_ROWS, 1)
TILE (tile_taps, TILE_ROWS, n_taps)
TILE (tile_four, MIN (4, TILE_ROWS), n_taps)

static void
tile_panel (guint rows, const gfloat *w, const gfloat *x, gsize x_stride,
    guint taps, guint channels, gfloat *sums, gboolean first)
{
  if (rows != TILE_ROWS)
    tile_four (w, x, x_stride, taps, channels, sums, first);
  else if (taps == 1)
    tile_linear (w, x, x_stride, taps, channels, sums, first);
  else
    tile_taps (w, x, x_stride, taps, channels, sums, first);
}

INLINE void
finish (const MimiCpuGemm16 *g, MimiCpuEpilogue epilogue, guint n, guint rows,
    const gfloat *sums)
{
  for (guint r = 0; r < rows; r++) {
    gfloat *y = g->y + (n + r) * g->y_stride;
    vf bias = g->w->bias ? v_set1 (g->w->bias[n + r]) : (vf){ 0 };
    vf scale = (vf){ 0 };

    if (epilogue == MIMI_CPU_SCALE_ADD)
      scale = v_set1 (g->scale[n + r]);
    UNROLL for (guint v = 0; v < VG; v++)
    {
      vf sum = v_load (sums + r * 16 + v * VL) + bias;

      if (epilogue == MIMI_CPU_SCALE_ADD)
        sum = v_fma (scale, sum, v_load (y + v * VL));
      else if (epilogue == MIMI_CPU_GELU_ERF)
        sum = v_gelu_erf (sum);
      else if (epilogue == MIMI_CPU_GELU_TANH)
        sum = v_gelu_tanh (sum);
      else if (epilogue == MIMI_CPU_ELU) {
        if (g->raw)
          v_store (g->raw + (n + r) * 16 + v * VL, sum);
        sum = v_elu (sum);
      }
      v_store (y + v * VL, sum);
    }
  }
}

static void
finish_panel (const MimiCpuGemm16 *g, guint n, guint rows, const gfloat *sums)
{
  switch (g->epilogue) {
    case MIMI_CPU_GELU_ERF:
      finish (g, MIMI_CPU_GELU_ERF, n, rows, sums);
      break;
    case MIMI_CPU_GELU_TANH:
      finish (g, MIMI_CPU_GELU_TANH, n, rows, sums);
      break;
    case MIMI_CPU_SCALE_ADD:
      finish (g, MIMI_CPU_SCALE_ADD, n, rows, sums);
      break;
    case MIMI_CPU_ELU:
      finish (g, MIMI_CPU_ELU, n, rows, sums);
      break;
    default:
      finish (g, MIMI_CPU_STORE, n, rows, sums);
      break;
  }
}

void
mimi_cpu_gemm16 (const MimiCpuGemm16 *g, MimiCpuShare share)
{
  gfloat sums[TILE_ROWS * 16] __attribute__ ((aligned (64)));
  guint channels = g->w->k / g->taps, block = MAX (BLOCK_K / g->taps, 1);
  guint first, end;

  mimi_cpu_share (&share, g->w->sixes + g->w->fours, &first, &end);
  for (guint panel = first; panel < end; panel++) {
    guint short_before = panel > g->w->sixes ? panel - g->w->sixes : 0;
    guint n = (panel - short_before) * TILE_ROWS + short_before * 4;
    guint rows = panel < g->w->sixes ? TILE_ROWS : 4;
    const gfloat *w = (const gfloat *)g->w->panels + (gsize)n * g->w->k;

    for (guint c = 0; c < channels; c += block)
      tile_panel (rows, w + (gsize)c * g->taps * rows, g->x + c * g->x_stride,
          g->x_stride, g->taps, MIN (block, channels - c), sums, c == 0);
    finish_panel (g, n, MIN (rows, g->w->n - n), sums);
  }
}
