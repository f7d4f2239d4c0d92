/* The tiles of the products: some positions x some panels of 16 outputs.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Their sums stay in registers while k runs, a position's value is broadcast, a
 * panel's 16 weights are one or two vectors.
 */
#include "tile.h"

#define ROWS MIMI_CPU_ROWS
#define PANELS MIMI_CPU_PANELS

/* Half panels that a tile may have. */
#if VL == 16
#define MAX_HALVES 3
#else
#define MAX_HALVES 2
#endif

/* The panels are `apart` floats from each other; sums are [panel][row][16]. */
INLINE void
tile (guint rows, guint panels, const gfloat *x, gsize x_stride,
    const gfloat *w, gsize apart, guint k, gfloat *sums, gboolean first)
{
  vf acc[PANELS][ROWS][VG];

  UNROLL for (guint p = 0; p < panels; p++)
      UNROLL for (guint r = 0; r < rows; r++)
          UNROLL for (guint v = 0; v < VG; v++) acc[p][r][v] = (vf){ 0 };
  for (guint i = 0; i < k; i++) {
    vf wv[PANELS][VG];

    UNROLL for (guint p = 0; p < panels; p++)
    {
      v_prefetch (w + p * apart + i * 16);
      UNROLL for (guint v = 0; v < VG; v++) wv[p][v] =
          v_load (w + p * apart + i * 16 + v * VL);
    }
    UNROLL for (guint r = 0; r < rows; r++)
    {
      vf xv = v_set1 (x[r * x_stride + i]);

      UNROLL for (guint p = 0; p < panels; p++)
          UNROLL for (guint v = 0; v < VG; v++) acc[p][r][v] =
              v_fma (xv, wv[p][v], acc[p][r][v]);
    }
  }
  UNROLL for (guint p = 0; p < panels; p++)
      UNROLL for (guint r = 0; r < rows; r++)
          UNROLL for (guint v = 0; v < VG; v++)
  {
    gfloat *sum = sums + (p * ROWS + r) * 16 + v * VL;

    if (!first)
      acc[p][r][v] += v_load (sum);
    v_store (sum, acc[p][r][v]);
  }
}

/* The last panels where they are not enough for the above: `halves` times 8
 * outputs. With AVX-512 these are vectors of 8, because two values can be
 * broadcast to such in the time of one to 16. */
INLINE void
tile_halves (guint rows, guint halves, const gfloat *x, gsize x_stride,
    const gfloat *w, gsize apart, guint k, gfloat *sums, gboolean first)
{
  vh acc[ROWS][MAX_HALVES * VH];

  UNROLL for (guint r = 0; r < rows; r++)
      UNROLL for (guint v = 0; v < halves * VH; v++) acc[r][v] = (vh){ 0 };
  for (guint i = 0; i < k; i++) {
    vh wv[MAX_HALVES * VH];

    UNROLL for (guint v = 0; v < halves * VH; v++) wv[v] =
        h_load (w + v / (2 * VH) * apart + i * 16 + v % (2 * VH) * (8 / VH));
    UNROLL for (guint r = 0; r < rows; r++)
    {
      vh xv = h_set1 (x[r * x_stride + i]);

      UNROLL for (guint v = 0; v < halves * VH; v++) acc[r][v] =
          h_fma (xv, wv[v], acc[r][v]);
    }
  }
  UNROLL for (guint r = 0; r < rows; r++)
      UNROLL for (guint v = 0; v < halves * VH; v++)
  {
    gfloat *sum =
        sums + (v / (2 * VH) * ROWS + r) * 16 + v % (2 * VH) * (8 / VH);

    if (!first)
      acc[r][v] += h_load (sum);
    h_store (sum, acc[r][v]);
  }
}

#define ARGUMENTS \
  const gfloat *x, gsize x_stride, const gfloat *w, gsize apart, guint k, \
      gfloat *sums, gboolean first

#define TILES(rows) \
  TILE_FUNCTION tile_##rows (ARGUMENTS) \
  { \
    tile (rows, PANELS, x, x_stride, w, apart, k, sums, first); \
  } \
  TILE_FUNCTION half_##rows (ARGUMENTS) \
  { \
    tile_halves (rows, 1, x, x_stride, w, apart, k, sums, first); \
  } \
  TILE_FUNCTION halves_##rows (ARGUMENTS) \
  { \
    tile_halves (rows, 2, x, x_stride, w, apart, k, sums, first); \
  } \
  TILE_FUNCTION most_##rows (ARGUMENTS) \
  { \
    tile_halves (rows, MAX_HALVES, x, x_stride, w, apart, k, sums, first); \
  }

TILES (1)
TILES (2)
#if ROWS >= 6
TILES (3)
TILES (4)
TILES (5)
TILES (6)
#endif
#if ROWS >= 8
TILES (7)
TILES (8)
#endif

/* By the number of rows: as many panels as fit; 8, 16 and 24 outputs. */
static const struct {
  MimiCpuTileFunc panels, halves[3];
} tiles[ROWS + 1] = {
#define ENTRY(n) \
  { \
    tile_##n, \
    { \
      half_##n, halves_##n, most_##n \
    } \
  }
  { NULL, { NULL, NULL, NULL } },
  ENTRY (1),
  ENTRY (2),
#if ROWS >= 6
  ENTRY (3),
  ENTRY (4),
  ENTRY (5),
  ENTRY (6),
#endif
#if ROWS >= 8
  ENTRY (7),
  ENTRY (8),
#endif
};

MimiCpuTileFunc
mimi_cpu_find_tile (guint rows, guint left, guint *panels)
{
  guint halves = left <= 8 ? 1 : left > 16 && left <= MAX_HALVES * 8 ? 3 : 2;

  *panels = PANELS;
  if (left > PANELS * 16 - 8)
    return tiles[rows].panels;
  *panels = (halves + 1) / 2;
  return tiles[rows].halves[halves - 1];
}
