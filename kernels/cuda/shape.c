/* What shape a launch has.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "shape.h"

/* Shared memory of a block of split.cuh: every GPU can hold two of them but those
 * of 7.5, which can hold one. */
#define MOST_SPLIT_SHARED (47 * 1024)

guint
mimi_cuda_choose_rows (
    const MimiCudaFrame *f, MimiCudaKernel kernel, guint outputs, guint tiles)
{
  /* matrix.cuh has no room for 32 outputs of more than two taps. */
  guint most =
      kernel == MIMI_CUDA_FIRST || kernel == MIMI_CUDA_RESIDUAL ? 4 : 5;
  guint rows_log2;

  if (!f->weights->matrix)
    return 6;
  for (rows_log2 = most; rows_log2 > 4; rows_log2--) {
    guint blocks = ((outputs - 1) >> rows_log2) + 1;
    if (blocks * tiles * 5 >= (guint)f->processors * 3)
      break;
  }
  return rows_log2;
}

guint
mimi_cuda_choose_slice (const MimiCudaFrame *self)
{
  if (self->spread || !self->weights->matrix)
    return 5;
  return MIN (
      mimi_cuda_choose_rows (self, MIMI_CUDA_PROJECT, self->network->width, 1),
      5);
}

guint
mimi_cuda_get_split_shared (guint part_rows, guint tiles_log2)
{
  guint inputs = (8 * part_rows * STAGED_BYTES) << tiles_log2;

  return MAX (inputs, 8 * 8 * 136 * sizeof (gfloat));
}

void
mimi_cuda_share (const MimiCudaFrame *self, guint taps, guint inputs,
    guint outputs, guint times, MimiCudaShares *shares)
{
  guint step = MIMI_CUDA_SPLIT_STEP (taps), tiles_log2, ranks, columns;
  guint tiles = divide_up (times, MIMI_CUDA_TILE);
  gdouble least = G_MAXDOUBLE;

  for (tiles_log2 = 0; tiles_log2 < 3; tiles_log2++)
    for (ranks = 1; ranks <= 16; ranks++) {
      guint rows = 64u >> tiles_log2;
      guint part = divide_up (divide_up (inputs, 8 * ranks), step) * step;
      guint areas = divide_up (outputs, rows) * (tiles >> tiles_log2);
      guint each = divide_up (areas * ranks, self->processors);
      /* Cycles: what each of two warps of a quarter of a processor issues; bytes
       * that a block brings from L2 and takes there; what a warp has to wait for
       * besides, again where not all blocks find a place at once. */
      guint rounds = divide_up (areas * ranks, 2 * self->processors);
      gdouble run = part * (taps * 33.0 + 3);
      /* Another tile waits for its inputs once more. */
      gdouble stage = part * (8 << tiles_log2) + 600 * ((1 << tiles_log2) - 1);
      gdouble bytes = 4.0 * 8 * part * (taps * rows + (16 << tiles_log2)) +
                      4096 * (ranks > 1 ? 4 : 2);
      gdouble cost = 2 * each * (run + stage + 700) +
                     bytes * areas * ranks / (19.0 * self->processors) +
                     rounds * (run + 1500) + (ranks > 1 ? 900 + 40 * ranks : 0);

      if (tiles % (1u << tiles_log2) || cost >= least ||
          (ranks > 1 && (ranks - 1) * 8 * part >= inputs) ||
          mimi_cuda_get_split_shared (part, tiles_log2) > MOST_SPLIT_SHARED)
        continue;
      least = cost;
      *shares = (MimiCudaShares){ ranks, part, tiles_log2, areas, 0 };
    }
  if (taps == 2)
    for (columns = 24; columns <= 40; columns += 16) {
      guint rows = MIMI_CUDA_COLUMNS_ROWS (columns);
      guint part = divide_up (divide_up (inputs, 8), step) * step;
      guint areas = outputs / rows * (times / columns);
      /* Of 24 one block fits a processor, of 40 two do. */
      guint rounds =
          divide_up (areas, (columns == 40 ? 2 : 1) * self->processors);
      gdouble run = part * (rows * columns / 16.0 + 5);
      gdouble bytes =
          4.0 * (8 * part * (2 * rows + columns) + 2 * rows * columns);
      gdouble cost = 2 * divide_up (areas, self->processors) *
                         (run + part * columns / 2.0 + 700) +
                     bytes * areas / (19.0 * self->processors) +
                     rounds * (run + 1500);

      if (outputs % rows || times % columns || cost >= least ||
          8 * part * (columns + 4) * sizeof (gfloat) >
              MIMI_CUDA_COLUMNS_BYTES (columns))
        continue;
      least = cost;
      *shares = (MimiCudaShares){ 1, part, 0, areas, columns };
    }
  if (least == G_MAXDOUBLE) /* so many inputs that only gemm.cuh can do it */
    *shares = (MimiCudaShares){ 1,
      divide_up (divide_up (inputs, 8), step) * step, 0, 0, 0 };
}

guint
mimi_cuda_count_blocks (const MimiNetwork *n, guint length)
{
  guint past = n->window - 1, blocks = 0, at;

  for (at = 0; at < MIMI_CUDA_TILE; at += n->upsample)
    blocks = MAX (
        blocks, (at + length - 1) / MIMI_CUDA_TILE + 1 +
                    (past > at ? divide_up (past - at, MIMI_CUDA_TILE) : 0));
  return blocks;
}

MimiCudaWindow
mimi_cuda_share_window (const MimiCudaFrame *self)
{
  const MimiNetwork *n = self->network;
  guint blocks = mimi_cuda_count_blocks (n, n->upsample);
  MimiCudaWindow window = { 0, 0 };

  /* As few each as there are processors for. */
  do {
    window.share++;
    window.ranks = divide_up (blocks, window.share);
  } while (window.share < MIMI_CUDA_ATTENTION_SHARE &&
           (n->heads * window.ranks > (guint)self->processors ||
               window.ranks > MIMI_CUDA_ATTENTION_RANKS));
  return window;
}

guint
mimi_cuda_get_taps (const MimiCudaFrame *f, MimiCudaKernel kernel)
{
  switch (kernel) {
    case MIMI_CUDA_FIRST:
      return f->network->first_kernel;
    case MIMI_CUDA_UP:
      return 2;
    case MIMI_CUDA_RESIDUAL:
      return f->network->residual_kernel;
    default:
      return 1;
  }
}

MimiCudaKernel
mimi_cuda_get_split_kernel (MimiCudaKernel kernel)
{
  switch (kernel) {
    case MIMI_CUDA_QKV:
      return MIMI_CUDA_SPLIT_QKV;
    case MIMI_CUDA_PROJECT:
      return MIMI_CUDA_SPLIT_PROJECT;
    case MIMI_CUDA_EXPAND:
      return MIMI_CUDA_SPLIT_EXPAND;
    case MIMI_CUDA_FIRST:
      return MIMI_CUDA_SPLIT_FIRST;
    case MIMI_CUDA_UP:
      return MIMI_CUDA_SPLIT_UP;
    case MIMI_CUDA_RESIDUAL:
      return MIMI_CUDA_SPLIT_RESIDUAL;
    default:
      return MIMI_CUDA_SPLIT_SKIP;
  }
}

MimiCudaKernel
mimi_cuda_get_spread_kernel (
    const MimiCudaFrame *f, MimiCudaKernel kernel, guint tiles)
{
  if (!f->spread)
    return MIMI_CUDA_N_KERNELS;
  switch (kernel) {
    case MIMI_CUDA_QKV:
      return MIMI_CUDA_SPREAD_QKV;
    case MIMI_CUDA_PROJECT:
      return MIMI_CUDA_SPREAD_PROJECT;
    case MIMI_CUDA_EXPAND:
      return MIMI_CUDA_SPREAD_EXPAND;
    case MIMI_CUDA_FIRST:
      return MIMI_CUDA_SPREAD_FIRST;
    case MIMI_CUDA_UP:
      return tiles > 1 ? MIMI_CUDA_SPREAD_UP_TILES : MIMI_CUDA_SPREAD_UP;
    default:
      return MIMI_CUDA_N_KERNELS;
  }
}

/* What spread.cu says of a kernel: steps of 8 channels whose weights a warp
 * keeps, groups of 16 outputs that it takes; and the least subs, with which a
 * thread has one output to finish. */
typedef struct {
  guint steps, groups, least_subs;
} Spread;

static Spread
get_spread (MimiCudaKernel kernel)
{
  switch (kernel) {
    case MIMI_CUDA_SPREAD_PROJECT:
      return (Spread){ 8, 1, 2 };
    case MIMI_CUDA_SPREAD_FIRST:
      return (Spread){ 1, 2, 1 };
    case MIMI_CUDA_SPREAD_UP:
      return (Spread){ 2, 3, 2 };
    case MIMI_CUDA_SPREAD_UP_TILES:
      return (Spread){ 4, 2, 0 };
    default:
      return (Spread){ 8, 1, 0 };
  }
}

gboolean
mimi_cuda_is_tail (const MimiCudaFrame *self, guint stage)
{
  const MimiNetwork *n = self->network;

  return self->spread && stage + 1 == n->stages &&
         n->channels[stage + 1] <= MIMI_CUDA_TAIL_CHANNELS &&
         n->hidden[stage] <= MIMI_CUDA_TAIL_HIDDEN;
}

guint
mimi_cuda_choose_subs (MimiCudaKernel spread, guint inputs)
{
  Spread s = get_spread (spread);
  guint subs = s.least_subs;

  if (spread == MIMI_CUDA_N_KERNELS || spread == MIMI_CUDA_SPREAD_UP_TILES)
    return 0;
  while (spread != MIMI_CUDA_SPREAD_PROJECT && subs < 3 &&
         divide_up (inputs, 64u << subs) > s.steps)
    subs++;
  return subs;
}

/* Cycles of launches for few tiles and for many, as docs/cuda.md has them played:
 * what a block takes besides its products, and each step of 8 channels and a tap
 * of one of its warps. */
gdouble
mimi_cuda_cost_few (const MimiCudaFrame *f, guint blocks, guint steps)
{
  gdouble each = 2000 + 230.0 * steps;

  return MAX (each, each * blocks / f->processors);
}

/* Of many.cuh's blocks two or three meet on a processor, as registers have it. Two
 * are chosen where the third leaves the fourth alone. */
gdouble
mimi_cuda_cost_many (const MimiCudaFrame *f, guint taps, guint inputs,
    guint outputs, guint tiles, guint *shared)
{
  static const gdouble cycles[] = { 0, 400, 470, 660 };
  guint steps = divide_up (inputs, 8) * taps;
  guint blocks = divide_up (outputs, MIMI_CUDA_MANY_ROWS) *
                 divide_up (tiles, MIMI_CUDA_MANY_TILES);
  guint each = divide_up (blocks, f->processors);
  guint most = taps > 2 ? 2 : 3, n;
  gdouble least = G_MAXDOUBLE;

  for (n = most; n > 1; n--) {
    guint rest = each % n;
    gdouble cost = each / n * (3000 + 2000.0 * n + cycles[n] * steps);

    if (rest)
      cost += 3000 + 2000.0 * rest + cycles[rest] * steps;
    if (cost >= least)
      continue;
    least = cost;
    if (shared)
      *shared =
          n == most ? MIMI_CUDA_MANY_BYTES : (guint)f->shared / (n + 1) + 1024;
  }
  return least;
}

gdouble
mimi_cuda_cost_block (
    const MimiCudaFrame *f, guint channels, guint hidden, guint tiles)
{
  guint n = f->shared / MIMI_CUDA_MANY_BLOCK_BYTES (channels, hidden);
  guint each =
      divide_up (divide_up (tiles, MIMI_CUDA_MANY_TILES), f->processors);
  /* Of 16 outputs of two tiles. */
  guint steps = divide_up (hidden, 32) * divide_up (channels, 32) * 4 * 3 +
                divide_up (channels, 32) * divide_up (hidden, 32) * 4;

  if (n < 2 || f->network->residual_kernel != 3)
    return G_MAXDOUBLE;
  n = MIN (n, 3);
  /* Four warps wait for each other, so the second and third cost little. */
  return each / n * (7000 + (275 + 35.0 * n) * steps) +
         (each % n ? 7000 + (275 + 35.0 * (each % n)) * steps : 0);
}

gdouble
mimi_cuda_cost_tail (const MimiCudaFrame *f, guint tiles)
{
  return 4300.0 * MAX (tiles, (guint)f->processors) / f->processors;
}

gdouble
mimi_cuda_cost_output (guint entries)
{
  return 15000 + 240.0 * entries;
}

MimiCudaKernel
mimi_cuda_get_many_kernel (MimiCudaKernel kernel)
{
  switch (kernel) {
    case MIMI_CUDA_QKV:
      return MIMI_CUDA_MANY_QKV;
    case MIMI_CUDA_PROJECT:
      return MIMI_CUDA_MANY_PROJECT;
    case MIMI_CUDA_EXPAND:
      return MIMI_CUDA_MANY_EXPAND;
    case MIMI_CUDA_FIRST:
      return MIMI_CUDA_MANY_FIRST;
    case MIMI_CUDA_UP:
      return MIMI_CUDA_MANY_UP;
    case MIMI_CUDA_RESIDUAL:
      return MIMI_CUDA_MANY_RESIDUAL;
    default:
      return MIMI_CUDA_MANY_SKIP;
  }
}

gboolean
mimi_cuda_get_block (MimiCudaKernel spread, guint taps, guint part_rows,
    guint subs_log2, MimiCudaBlock *block)
{
  Spread s = get_spread (spread);
  gboolean is_norm =
      spread == MIMI_CUDA_SPREAD_QKV || spread == MIMI_CUDA_SPREAD_EXPAND;
  guint channels, pairs; /* of floats */

  block->cluster = spread != MIMI_CUDA_SPREAD_UP_TILES;
  if (!block->cluster)
    subs_log2 = 3;
  channels = part_rows << subs_log2;
  block->rows = (8 * 16 * s.groups) >> subs_log2;
  /* Of times: what the warps of a cluster send, or the parts of a block, and
   * what a cluster's blocks send. Inputs are high and low; spread_project has
   * them from global memory. */
  pairs = is_norm ? 8 * 8 * 16
                  : ((block->rows + 4) * 8 << subs_log2) +
                        (block->cluster ? block->rows * 8 : 0);
  if (is_norm || taps > 1)
    pairs += channels * MIMI_CUDA_PAIRS_COLUMNS (taps - 1);
  block->shared = pairs * 2 * sizeof (gfloat);
  return part_rows <= 8 * s.steps && block->shared <= MOST_SHARED;
}

gboolean
mimi_cuda_fills (
    const MimiCudaFrame *f, guint blocks, guint tiles, guint times_over)
{
  return (guint64)blocks * (tiles / 8) >= (guint64)times_over * f->processors;
}
