/* What the time-major products share: tiles (tile.c), and what becomes of their
 * sums (gemm.c).
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "kernels.h"
#include "simd.h"

/* Positions and panels of a tile: 12 to 16 vectors of sums. */
#if VL == 16
#define MIMI_CPU_ROWS 8
#define MIMI_CPU_PANELS 2
#else
#define MIMI_CPU_ROWS TILE_ROWS
#define MIMI_CPU_PANELS 1
#endif

/* So many positions share few weights: threads divide the positions. */
#define MIMI_CPU_MANY_ROWS 96

/* k products for each sum, [panel][MIMI_CPU_ROWS][16], which are added to what
 * is there unless they are the first. x: rows; w: panels `apart` floats from
 * each other. */
typedef void (*MimiCpuTileFunc) (const gfloat *x, gsize x_stride,
    const gfloat *w, gsize apart, guint k, gfloat *sums, gboolean first);

#define mimi_cpu_find_tile MIMI_CPU_NAME (mimi_cpu_find_tile)
/* The tile for so many rows, 1 to MIMI_CPU_ROWS, where so many outputs are
 * left; and how many panels it takes. */
MimiCpuTileFunc mimi_cpu_find_tile (guint rows, guint left, guint *panels);

#define mimi_cpu_finish MIMI_CPU_NAME (mimi_cpu_finish)
/* The epilogue of the sums, [rows][16], of 16 outputs from n on. */
void mimi_cpu_finish (
    const MimiCpuGemm *g, guint row, guint rows, guint n, const gfloat *sums);

#define mimi_cpu_filter MIMI_CPU_NAME (mimi_cpu_filter)
/* filter.c: mimi_cpu_gemm() for matrices that have a filter. */
void mimi_cpu_filter (const MimiCpuGemm *g, MimiCpuShare share);
