/* Attention over the ring of keys and values, time-major.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The ring is [layer][head][block][dim][16 positions]; position p lies in
 * block p / 16 modulo the number of blocks, lane p % 16. A query sees the
 * positions p - window + 1 .. p: blocks that hold one of them are used, and the
 * lanes that it must not see get the weight 0. A block of values is cleared
 * when it is entered, so that nothing stale is ever multiplied by that 0.
 */
#include <math.h>

#include "kernels.h"
#include "vmath.h"

/* Rotates neighbouring pairs by the position's angle. */
static void
rotate (gfloat *x, const gfloat *cosines, const gfloat *sines, guint pairs)
{
  for (guint i = 0; i < pairs; i++) {
    gfloat re = x[2 * i], im = x[2 * i + 1];

    x[2 * i] = re * cosines[i] - im * sines[i];
    x[2 * i + 1] = re * sines[i] + im * cosines[i];
  }
}

/* Two positions at a time read each key and value once. And so many blocks of
 * keys, or dims of values, at a time that sums need not wait for themselves. */
#define QUERIES 2
#define AT_ONCE (4 / VG > 0 ? 4 / VG : 1)

/* What queries of one head look at: `n` blocks of the ring from `first` on. */
typedef struct {
  const gfloat *keys, *values; /* [block][dim][16] */
  guint dim, blocks, first, n;
  const gfloat *next_keys; /* the head's that comes next, or NULL */
} Ring;

/* The block after this one; no division, of which there would be thousands. */
INLINE guint
next_block (const Ring *ring, guint block)
{
  return block + 1 == ring->blocks ? 0 : block + 1;
}

/* Queries of which the first is at q times the keys of `count` blocks. Asks
 * for the values of these, which are not read in order. */
INLINE guint
score (const Ring *ring, guint block, guint count, guint queries,
    const gfloat *q, gsize q_stride, gfloat scale, gfloat *weights)
{
  vf acc[AT_ONCE][QUERIES][VG] = { { { { 0 } } } };
  const gfloat *keys[AT_ONCE], *values[AT_ONCE];

  UNROLL for (guint b = 0; b < count; b++)
  {
    keys[b] = ring->keys + (gsize)block * ring->dim * 16;
    values[b] = ring->values + (gsize)block * ring->dim * 16;
    block = next_block (ring, block);
  }
  for (guint d = 0; d < ring->dim; d++)
    UNROLL for (guint t = 0; t < queries; t++)
    {
      vf qv = v_set1 (q[t * q_stride + d]);

      UNROLL for (guint b = 0; b < count; b++)
      {
        if (t == 0)
          __builtin_prefetch (values[b] + d * 16, 0, 2);
        UNROLL for (guint v = 0; v < VG; v++) acc[b][t][v] =
            v_fma (qv, v_load (keys[b] + d * 16 + v * VL), acc[b][t][v]);
      }
    }
  UNROLL for (guint t = 0; t < queries; t++)
      UNROLL for (guint b = 0; b < count; b++)
          UNROLL for (guint v = 0; v < VG; v++)
              v_store (weights + ((gsize)t * ring->n + b) * 16 + v * VL,
                  acc[b][t][v] * v_set1 (scale));
  return block;
}

/* The scores of keys older than `oldest` or newer than `newest`, counted from
 * the first block's first, become `hidden`. */
static void
hide (gfloat *weights, guint n, guint oldest, guint newest, gfloat hidden)
{
  for (guint i = 0; i < oldest; i++)
    weights[i] = hidden;
  for (guint i = newest + 1; i < n; i++)
    weights[i] = hidden;
}

/* Scores -> weights, not yet divided by their sum, which is returned. */
static gfloat
soften (gfloat *weights, guint n, guint oldest, guint newest)
{
  vf top = v_set1 (-G_MAXFLOAT), sum = { 0 };
  gfloat highest;

  hide (weights, n, oldest, newest, -G_MAXFLOAT);
  for (guint i = 0; i < n; i += VL)
    top = v_at_least (v_load (weights + i), top);
  highest = top[0];
  for (guint i = 1; i < VL; i++)
    highest = MAX (highest, top[i]);
  for (guint i = 0; i < n; i += VL)
    v_store (weights + i, v_exp (v_load (weights + i) - v_set1 (highest)));
  hide (weights, n, oldest, newest, 0);
  for (guint i = 0; i < n; i += VL)
    sum += v_load (weights + i);
  return v_sum (sum);
}

/* `count` dims of the weighted sums of values, divided by the weights' sums.
 * Asks for the keys of the next head. */
INLINE void
mix (const Ring *ring, guint d, guint count, guint queries,
    const gfloat *weights, const gfloat *sums, gfloat *out, gsize out_stride)
{
  vf acc[AT_ONCE][QUERIES][VG] = { { { { 0 } } } };
  guint block = ring->first;
  for (guint b = 0; b < ring->n; b++) {
    gsize at = ((gsize)block * ring->dim + d) * 16;
    const gfloat *u = ring->values + at;

    UNROLL for (guint t = 0; t < queries; t++)
        UNROLL for (guint v = 0; v < VG; v++)
    {
      vf w = v_load (weights + ((gsize)t * ring->n + b) * 16 + v * VL);

      UNROLL for (guint i = 0; i < count; i++) acc[i][t][v] =
          v_fma (w, v_load (u + i * 16 + v * VL), acc[i][t][v]);
    }
    if (ring->next_keys)
      UNROLL for (guint i = 0; i < count; i++)
          __builtin_prefetch (ring->next_keys + at + i * 16, 0, 2);
    block = next_block (ring, block);
  }
  UNROLL for (guint t = 0; t < queries; t++)
      UNROLL for (guint i = 0; i < count; i++)
  {
    UNROLL for (guint v = 1; v < VG; v++) acc[i][t][0] += acc[i][t][v];
    out[t * out_stride + d + i] = v_sum (acc[i][t][0]) / sums[t];
  }
}

/* Queries at `position` and after it. What one of them must not see has no
 * weight, so that looking at the same blocks changes no bit of any. */
INLINE void
attend (Ring *ring, guint queries, const gfloat *q, gsize q_stride,
    guint64 position, guint window, gfloat *weights, gfloat *out,
    gsize out_stride)
{
  guint64 oldest = position + 1 > window ? position + 1 - window : 0;
  guint64 start = oldest / 16 * 16;
  guint n = (guint)((position + queries - 1) / 16 - oldest / 16 + 1);
  guint block = (guint)(oldest / 16 % ring->blocks), b = 0, d = 0;
  gfloat scale = 1 / sqrtf (ring->dim), sums[QUERIES];

  ring->first = block;
  ring->n = n;
  for (; b + AT_ONCE <= n; b += AT_ONCE)
    block = score (
        ring, block, AT_ONCE, queries, q, q_stride, scale, weights + b * 16);
  for (; b < n; b++)
    block =
        score (ring, block, 1, queries, q, q_stride, scale, weights + b * 16);
  for (guint t = 0; t < queries; t++) {
    guint64 p = position + t;
    guint64 from = p + 1 > window ? p + 1 - window : 0;

    sums[t] = soften (weights + (gsize)t * n * 16, n * 16,
        (guint)(from - start), (guint)(p - start));
  }
  for (; d + AT_ONCE <= ring->dim; d += AT_ONCE)
    mix (ring, d, AT_ONCE, queries, weights, sums, out, out_stride);
  for (; d < ring->dim; d++)
    mix (ring, d, 1, queries, weights, sums, out, out_stride);
}

#define ATTEND(queries) \
  TILE_FUNCTION \
  attend_##queries (Ring *ring, const gfloat *q, gsize q_stride, \
      guint64 position, guint window, gfloat *weights, gfloat *out, \
      gsize out_stride) \
  { \
    attend (ring, queries, q, q_stride, position, window, weights, out, \
        out_stride); \
  }

ATTEND (1)
ATTEND (2)

gfloat
mimi_cpu_attention (MimiCpuSlot *slot, guint layer, MimiCpuShare share)
{
  const MimiCpu *cpu = slot->cpu;
  const MimiCpuScratch *s = &slot->scratch;
  guint dim = cpu->net.head_dim, width = cpu->net.width;
  guint positions = cpu->net.upsample, first, end;
  gsize head_size = (gsize)cpu->blocks * dim * 16;
  gfloat *weights = s->weights + (gsize)share.thread * cpu->blocks * 256;
  gfloat bad = 0;

  mimi_cpu_share (&share, cpu->net.heads, &first, &end);
  for (guint h = first; h < end; h++) {
    gsize at = (gsize)(layer * cpu->net.heads + h) * head_size;
    gfloat *keys = slot->state.keys + at, *values = slot->state.values + at;
    Ring ring = { keys, values, dim, cpu->blocks, 0, 0,
      h + 1 < end ? keys + head_size : NULL };

    for (guint t = 0; t < positions; t++) {
      guint64 p = slot->state.position + t;
      gfloat *q = s->qkv + (gsize)t * 3 * width + h * dim;
      gsize block = (p / 16 % cpu->blocks) * dim * 16;
      const gfloat *cosines = s->cosines + t * dim / 2;
      const gfloat *sines = s->sines + t * dim / 2;

      rotate (q, cosines, sines, dim / 2);
      rotate (q + width, cosines, sines, dim / 2);
      bad += mimi_cpu_check (q, dim) + mimi_cpu_check (q + width, dim);
      if (p % 16 == 0)
        memset (values + block, 0, dim * 16 * sizeof (gfloat));
      for (guint d = 0; d < dim; d++) {
        keys[block + d * 16 + p % 16] = q[width + d];
        values[block + d * 16 + p % 16] = q[2 * width + d];
      }
    }
    for (guint t = 0; t < positions; t += QUERIES)
      (t + 1 < positions ? attend_2 : attend_1) (&ring,
          s->qkv + (gsize)t * 3 * width + h * dim, 3 * width,
          slot->state.position + t, cpu->net.window, weights,
          s->mixed + (gsize)t * width + h * dim, width);
  }
  return bad;
}
