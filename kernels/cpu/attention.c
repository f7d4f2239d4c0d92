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

static void
attend (const gfloat *q, const gfloat *keys, const gfloat *values, guint dim,
    guint blocks, guint64 position, guint window, gfloat *weights, gfloat *out)
{
  guint64 oldest = position + 1 > window ? position + 1 - window : 0;
  guint64 first = oldest / 16, last = position / 16;
  guint n = (guint)(last - first + 1);
  gfloat scale = 1 / sqrtf (dim), sum = 0, top = -G_MAXFLOAT;

  for (guint b = 0; b < n; b++) {
    const gfloat *k = keys + ((first + b) % blocks) * dim * 16;
    vf acc[VG] = { { 0 } };

    for (guint d = 0; d < dim; d++)
      for (guint v = 0; v < VG; v++)
        acc[v] = v_fma (v_set1 (q[d]), v_load (k + d * 16 + v * VL), acc[v]);
    for (guint v = 0; v < VG; v++)
      v_store (weights + b * 16 + v * VL, acc[v] * v_set1 (scale));
  }
  for (guint i = 0; i < n * 16; i++) {
    guint64 p = first * 16 + i;

    if (p < oldest || p > position)
      weights[i] = -G_MAXFLOAT;
    else
      top = MAX (top, weights[i]);
  }
  for (guint i = 0; i < n * 16; i += VL) {
    vf e = v_exp (v_load (weights + i) - v_set1 (top));

    v_store (weights + i, e);
  }
  for (guint i = 0; i < n * 16; i++) {
    guint64 p = first * 16 + i;

    if (p < oldest || p > position)
      weights[i] = 0;
    sum += weights[i];
  }
  for (guint d = 0; d < dim; d++) {
    vf acc[VG] = { { 0 } };

    for (guint b = 0; b < n; b++) {
      const gfloat *u = values + ((first + b) % blocks) * dim * 16 + d * 16;

      for (guint v = 0; v < VG; v++)
        acc[v] = v_fma (
            v_load (weights + b * 16 + v * VL), v_load (u + v * VL), acc[v]);
    }
    for (guint v = 1; v < VG; v++)
      acc[0] += acc[v];
    out[d] = v_sum (acc[0]) / sum;
  }
}

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
      attend (q, keys, values, dim, cpu->blocks, p, cpu->net.window, weights,
          s->mixed + (gsize)t * width + h * dim);
    }
  }
  return bad;
}
