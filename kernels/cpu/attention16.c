/* Rotation and attention for 16 positions, [channel][16].
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The ring's blocks, [dim][16 positions], are the product's output as it
 * stands: 16 new keys are one block, and the 16 queries are the vectors. Only
 * the oldest block and the newest hold positions that some query must not see.
 */
#include <math.h>

#include "kernels.h"
#include "vmath.h"

/* Turns rows 2i and 2i + 1 of `from` and puts them into `to`; NaN if a result
 * is not finite, else 0. */
static gfloat
rotate (const gfloat *from, const gfloat *cosines, const gfloat *sines,
    guint pairs, gfloat *to)
{
  vf bad = { 0 };

  for (guint i = 0; i < pairs; i++)
    UNROLL for (guint v = 0; v < VG; v++)
    {
      vf c = v_load (cosines + i * 16 + v * VL);
      vf s = v_load (sines + i * 16 + v * VL);
      vf re = v_load (from + i * 32 + v * VL);
      vf im = v_load (from + i * 32 + 16 + v * VL);
      vf a = v_fma (re, c, -(im * s)), b = v_fma (re, s, im * c);

      v_store (to + i * 32 + v * VL, a);
      v_store (to + i * 32 + 16 + v * VL, b);
      bad = v_fma (a + b, (vf){ 0 }, bad);
    }
  return v_sum (bad);
}

static gfloat
move (const gfloat *from, guint rows, gfloat *to)
{
  vf bad = { 0 };

  for (guint i = 0; i < rows * 16; i += VL) {
    vf x = v_load (from + i);

    v_store (to + i, x);
    bad = v_fma (x, (vf){ 0 }, bad);
  }
  return v_sum (bad);
}

/* Scores of `rows` keys of a block, all queries: [key][16]. Meanwhile asks for
 * the values that belong to them. */
INLINE void
score (guint rows, const gfloat *keys, const gfloat *values, const gfloat *q,
    guint dim, gfloat *scores)
{
  vf acc[TILE_ROWS][VG];

  UNROLL for (guint r = 0; r < rows; r++) UNROLL for (guint v = 0; v < VG; v++)
      acc[r][v] = (vf){ 0 };
  for (guint d = 0; d < dim; d++) {
    vf qv[VG];

    __builtin_prefetch (values + d * 16, 0, 3);
    UNROLL for (guint v = 0; v < VG; v++) qv[v] = v_load (q + d * 16 + v * VL);
    UNROLL for (guint r = 0; r < rows; r++)
    {
      vf kv = v_set1 (keys[d * 16 + r]);

      UNROLL for (guint v = 0; v < VG; v++) acc[r][v] =
          v_fma (kv, qv[v], acc[r][v]);
    }
  }
  UNROLL for (guint r = 0; r < rows; r++) UNROLL for (guint v = 0; v < VG; v++)
      v_store (scores + r * 16 + v * VL, acc[r][v]);
}

/* The blocks that one head's queries see, oldest first. */
typedef struct {
  const gfloat *keys, *values, *next_keys; /* this head's; the next one's */
  guint dim, ring, first, blocks;
  guint skip; /* keys of the oldest block that nobody sees, a multiple of 4 */
} View;

/* `rows` channels of the result, from channel d on: sum over all positions of
 * value times weight, times `factor`. Meanwhile asks for the next head's keys.
 */
INLINE void
mix (guint rows, const View *view, guint d, const gfloat *weights,
    const vf *factor, gfloat *out)
{
  vf acc[TILE_ROWS][VG];
  guint block = view->first, j = view->skip;

  UNROLL for (guint r = 0; r < rows; r++) UNROLL for (guint v = 0; v < VG; v++)
      acc[r][v] = (vf){ 0 };
  for (guint b = 0; b < view->blocks; b++, j = 0) {
    gsize at = ((gsize)block * view->dim + d) * 16;
    const gfloat *u = view->values + at;

    block = block + 1 == view->ring ? 0 : block + 1;
    for (; j < 16; j++, weights += 16) {
      vf wv[VG];

      __builtin_prefetch (view->next_keys + at + MIN (j, rows - 1) * 16, 0, 3);
      UNROLL for (guint v = 0; v < VG; v++) wv[v] = v_load (weights + v * VL);
      UNROLL for (guint r = 0; r < rows; r++)
      {
        vf uv = v_set1 (u[r * 16 + j]);

        UNROLL for (guint v = 0; v < VG; v++) acc[r][v] =
            v_fma (uv, wv[v], acc[r][v]);
      }
    }
  }
  UNROLL for (guint r = 0; r < rows; r++) UNROLL for (guint v = 0; v < VG; v++)
      v_store (out + (d + r) * 16 + v * VL, acc[r][v] * factor[v]);
}

#define FOUR MIN (4, TILE_ROWS)

#define TILES(name, rows) \
  TILE_FUNCTION \
  score_##name (const gfloat *keys, const gfloat *values, const gfloat *q, \
      guint dim, gfloat *scores) \
  { \
    score (rows, keys, values, q, dim, scores); \
  } \
  TILE_FUNCTION \
  mix_##name (const View *view, guint d, const gfloat *weights, \
      const vf *factor, gfloat *out) \
  { \
    mix (rows, view, d, weights, factor, out); \
  }

TILES (tile, TILE_ROWS)
TILES (four, FOUR)
TILES (two, 2)

static void
score_all (const View *view, const gfloat *q, gfloat *scores)
{
  guint block = view->first, j = view->skip;

  for (guint b = 0; b < view->blocks; b++, j = 0) {
    gsize at = (gsize)block * view->dim * 16;
    const gfloat *k = view->keys + at, *u = view->values + at;

    block = block + 1 == view->ring ? 0 : block + 1;
    for (; j + TILE_ROWS <= 16; j += TILE_ROWS, scores += TILE_ROWS * 16)
      score_tile (k + j, u, q, view->dim, scores);
    for (; j < 16; j += FOUR, scores += FOUR * 16)
      score_four (k + j, u, q, view->dim, scores);
  }
}

static void
mix_all (const View *view, const gfloat *weights, const vf *factor, gfloat *out)
{
  guint d = 0;

  for (; d + TILE_ROWS <= view->dim; d += TILE_ROWS)
    mix_tile (view, d, weights, factor, out);
  for (; d + FOUR <= view->dim; d += FOUR)
    mix_four (view, d, weights, factor, out);
  for (; d < view->dim; d += 2)
    mix_two (view, d, weights, factor, out);
}

/* Scores to weights, not yet divided by their sum: `factor` does that. */
static void
soften (gfloat *scores, guint keys, guint dim, vf *factor)
{
  vf scale = v_set1 (1 / sqrtf (dim));

  UNROLL for (guint v = 0; v < VG; v++)
  {
    gfloat *s = scores + v * VL;
    vf top = v_load (s), other = v_load (s + 16), sum = { 0 };

    for (guint j = 2; j < keys; j += 2) {
      top = v_at_least (v_load (s + j * 16), top);
      other = v_at_least (v_load (s + j * 16 + 16), other);
    }
    top = v_at_least (top, other) * -scale;
    for (guint j = 0; j < keys; j++) {
      vf e = v_exp (v_fma (v_load (s + j * 16), scale, top));

      v_store (s + j * 16, e);
      sum += e;
    }
    factor[v] = v_set1 (1.0f) / sum;
  }
}

/* Lowers n scores to the mask's. */
static void
hide (gfloat *scores, const gfloat *mask, guint n)
{
  for (guint i = 0; i < n; i += VL)
    v_store (scores + i, v_at_most (v_load (scores + i), v_load (mask + i)));
}

static void
attend (const View *view, const MimiCpu *cpu, const gfloat *q, gfloat *scores,
    gfloat *out)
{
  guint keys = view->blocks * 16 - view->skip;
  vf factor[VG];

  score_all (view, q, scores);
  /* masks[0] is for the newest block; the others for the oldest ones of a
   * whole window */
  hide (scores + (keys - 16) * 16, cpu->masks, 256);
  if (view->blocks == cpu->blocks) {
    hide (scores, cpu->masks + 256 + view->skip * 16, 256 - view->skip * 16);
    if (view->blocks > 2)
      hide (scores + (16 - view->skip) * 16, cpu->masks + 512, 256);
  } else if (view->blocks + 1 == cpu->blocks && view->blocks > 1) {
    hide (scores, cpu->masks + 512, 256);
  }
  soften (scores, keys, view->dim, factor);
  mix_all (view, scores, factor, out);
}

gfloat
mimi_cpu_attention16 (MimiCpuSlot *slot, guint layer, MimiCpuShare share)
{
  const MimiCpu *cpu = slot->cpu;
  const MimiCpuScratch *s = &slot->scratch;
  guint dim = cpu->net.head_dim, width = cpu->net.width, first, end;
  guint64 block = slot->state.position / 16;
  gsize head_size = (gsize)cpu->blocks * dim * 16;
  gsize at = (gsize)(block % cpu->blocks) * dim * 16;
  gfloat *scores = s->weights + (gsize)share.thread * cpu->blocks * 256;
  guint reach = (guint)MIN (cpu->blocks - 1, block);
  View view = { .dim = dim,
    .ring = cpu->blocks,
    .blocks = reach + 1,
    .first = (guint)((block - reach) % cpu->blocks),
    .skip = reach + 1 == cpu->blocks ? cpu->skip : 0 };
  gfloat bad = 0;

  mimi_cpu_share (&share, cpu->net.heads, &first, &end);
  for (guint h = first; h < end; h++) {
    gsize ring = (gsize)(layer * cpu->net.heads + h) * head_size;
    gfloat *keys = slot->state.keys + ring, *values = slot->state.values + ring;
    gfloat *q = s->qkv + (gsize)h * dim * 16;

    bad += rotate (q, s->cosines, s->sines, dim / 2, q);
    bad += rotate (
        q + (gsize)width * 16, s->cosines, s->sines, dim / 2, keys + at);
    bad += move (q + (gsize)2 * width * 16, dim, values + at);
    view.keys = keys;
    view.values = values;
    view.next_keys = h + 1 < end ? keys + head_size : keys;
    attend (&view, cpu, q, scores, s->mixed + (gsize)h * dim * 16);
  }
  return bad;
}
