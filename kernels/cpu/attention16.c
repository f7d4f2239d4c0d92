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

#define HIDDEN -1e30f /* a score whose weight comes out as nothing */

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

/* Scores of `rows` keys of a block, all queries: [key][16]. */
INLINE void
score (
    guint rows, const gfloat *keys, const gfloat *q, guint dim, gfloat *scores)
{
  vf acc[TILE_ROWS][VG];

  UNROLL for (guint r = 0; r < rows; r++) UNROLL for (guint v = 0; v < VG; v++)
      acc[r][v] = (vf){ 0 };
  for (guint d = 0; d < dim; d++) {
    vf qv[VG];

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

/* `rows` channels of the result: sum over all blocks' positions of value times
 * weight, over `sum`. */
INLINE void
mix (guint rows, const gfloat *values, guint dim, guint ring, guint first,
    guint blocks, const gfloat *weights, const vf *factor, gfloat *out)
{
  vf acc[TILE_ROWS][VG];

  UNROLL for (guint r = 0; r < rows; r++) UNROLL for (guint v = 0; v < VG; v++)
      acc[r][v] = (vf){ 0 };
  for (guint b = 0; b < blocks; b++) {
    const gfloat *u = values + (gsize)first * dim * 16;

    first = first + 1 == ring ? 0 : first + 1;
    for (guint j = 0; j < 16; j++, weights += 16) {
      vf wv[VG];

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
      v_store (out + r * 16 + v * VL, acc[r][v] * factor[v]);
}

TILE_FUNCTION
score_tile (const gfloat *keys, const gfloat *q, guint dim, gfloat *scores)
{
  score (TILE_ROWS, keys, q, dim, scores);
}

TILE_FUNCTION
mix_tile (const gfloat *values, guint dim, guint ring, guint first,
    guint blocks, const gfloat *weights, const vf *factor, gfloat *out)
{
  mix (TILE_ROWS, values, dim, ring, first, blocks, weights, factor, out);
}

#if 16 % TILE_ROWS
TILE_FUNCTION
score_rest (const gfloat *keys, const gfloat *q, guint dim, gfloat *scores)
{
  score (16 % TILE_ROWS, keys, q, dim, scores);
}
#endif

TILE_FUNCTION
mix_pair (const gfloat *values, guint dim, guint ring, guint first,
    guint blocks, const gfloat *weights, const vf *factor, gfloat *out)
{
  mix (2, values, dim, ring, first, blocks, weights, factor, out);
}

/* Adds HIDDEN to the scores of one block that query t must not see: key j is
 * `distance` + t - j positions back. */
static void
hide (gfloat *scores, gint distance, gint window)
{
  for (gint j = 0; j < 16; j++)
    for (gint t = 0; t < 16; t++)
      if (distance + t - j < 0 || distance + t - j >= window)
        scores[j * 16 + t] = HIDDEN;
}

/* Scores to weights, not yet divided by their sum; returns its inverse. */
static void
soften (gfloat *scores, guint keys, guint dim, vf *factor)
{
  vf scale = v_set1 (1 / sqrtf (dim));

  UNROLL for (guint v = 0; v < VG; v++)
  {
    gfloat *s = scores + v * VL;
    vf top = v_load (s), sum = { 0 };

    for (guint j = 1; j < keys; j++)
      top = v_at_least (v_load (s + j * 16), top);
    top *= -scale;
    for (guint j = 0; j < keys; j++) {
      vf e = v_exp (v_fma (v_load (s + j * 16), scale, top));

      v_store (s + j * 16, e);
      sum += e;
    }
    factor[v] = v_set1 (1.0f) / sum;
  }
}

static void
attend (const gfloat *q, const gfloat *keys, const gfloat *values, guint dim,
    guint ring, guint64 block, guint window, gfloat *scores, gfloat *out)
{
  /* the first query sees the oldest positions */
  guint reach = MIN ((window - 1 + 15) / 16, block);
  guint blocks = reach + 1, first = (guint)((block - reach) % ring);
  vf factor[VG];
  guint d;

  for (guint b = 0, at = first; b < blocks; b++) {
    const gfloat *k = keys + (gsize)at * dim * 16;
    guint j;

    at = at + 1 == ring ? 0 : at + 1;
    for (j = 0; j + TILE_ROWS <= 16; j += TILE_ROWS)
      score_tile (k + j, q, dim, scores + (b * 16 + j) * 16);
#if 16 % TILE_ROWS
    score_rest (k + j, q, dim, scores + (b * 16 + j) * 16);
#endif
  }
  for (guint b = 0; b < blocks; b++) {
    gint distance = (gint)(reach - b) * 16;

    if (distance == 0 || distance + 15 >= (gint)window)
      hide (scores + b * 256, distance, window);
  }
  soften (scores, blocks * 16, dim, factor);
  for (d = 0; d + TILE_ROWS <= dim; d += TILE_ROWS)
    mix_tile (values + d * 16, dim, ring, first, blocks, scores, factor,
        out + d * 16);
  for (; d + 2 <= dim; d += 2)
    mix_pair (values + d * 16, dim, ring, first, blocks, scores, factor,
        out + d * 16);
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
    attend (q, keys, values, dim, cpu->blocks, block, cpu->net.window, scores,
        s->mixed + (gsize)h * dim * 16);
  }
  return bad;
}
