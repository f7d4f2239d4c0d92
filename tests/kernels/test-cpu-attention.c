/* Attention of few positions a frame against a plain one in double.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The ring turns more than once; the numbers of positions do and do not divide
 * its blocks of 16. Compiled for each instruction set, as the kernels are.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/kernels.h"

#define POSITIONS 700 /* at least two turns of every ring below */

typedef struct {
  guint dim, upsample, window, heads;
} Shape;

/* Output `d` of position p's query: rows are q, k, v of all heads. */
static void
attend (const Shape *s, const gfloat *rows, gsize p, guint head, gdouble *out)
{
  gsize width = s->dim * s->heads;
  gsize oldest = p + 1 > s->window ? p + 1 - s->window : 0;
  const gfloat *q = rows + p * 3 * width + head * s->dim;
  gdouble sum = 0;

  for (guint d = 0; d < s->dim; d++)
    out[d] = 0;
  for (gsize j = oldest; j <= p; j++) {
    const gfloat *k = rows + j * 3 * width + width + head * s->dim;
    gdouble score = 0, weight;

    for (guint d = 0; d < s->dim; d++)
      score += (gdouble)q[d] * k[d];
    weight = exp (score / sqrt (s->dim));
    sum += weight;
    for (guint d = 0; d < s->dim; d++)
      out[d] += weight * k[width + d];
  }
  for (guint d = 0; d < s->dim; d++)
    out[d] /= sum;
}

static gboolean
check (const Shape *s)
{
  guint width = s->dim * s->heads, frames = POSITIONS / s->upsample;
  guint extra = 16 % s->upsample == 0 ? 1 : (s->upsample + 30) / 16;
  MimiCpu cpu = { .net = { .head_dim = s->dim,
                      .width = width,
                      .heads = s->heads,
                      .upsample = s->upsample,
                      .window = s->window },
    .blocks = (s->window + 14) / 16 + extra };
  MimiCpuSlot slot = { .cpu = &cpu, .threads = 1 };
  gsize ring = (gsize)width * cpu.blocks * 16, row = 3 * width;
  gsize angles = s->upsample * s->dim / 2;
  gfloat *rows = g_new (gfloat, frames * s->upsample * row);
  gfloat *keys = g_new (gfloat, ring), *values = g_new (gfloat, ring);
  gdouble *wanted = g_new (gdouble, s->dim), worst = 0;
  GRand *random = g_rand_new_with_seed (1);
  MimiCpuScratch *scratch = &slot.scratch;

  scratch->qkv = g_new (gfloat, s->upsample * row);
  scratch->mixed = g_new (gfloat, s->upsample * width);
  scratch->weights = g_new (gfloat, cpu.blocks * 256);
  scratch->cosines = g_new (gfloat, angles);
  scratch->sines = g_new0 (gfloat, angles); /* no rotation */
  for (gsize i = 0; i < angles; i++)
    scratch->cosines[i] = 1;
  /* what nobody wrote must not count, nor what the ring held before */
  for (gsize i = 0; i < ring; i++) {
    keys[i] = 1e30f;
    values[i] = NAN;
  }
  slot.state.keys = keys;
  slot.state.values = values;
  for (gsize i = 0; i < frames * s->upsample * row; i++)
    rows[i] = (gfloat)g_rand_double_range (random, -2, 2);
  for (guint f = 0; f < frames; f++) {
    const gfloat *new_rows = rows + f * s->upsample * row;

    memcpy (scratch->qkv, new_rows, s->upsample * row * sizeof (gfloat));
    if (!(mimi_cpu_attention (&slot, 0, (MimiCpuShare){ 0, 1 }) == 0))
      worst = INFINITY;
    for (guint t = 0; t < s->upsample; t++)
      for (guint h = 0; h < s->heads; h++) {
        attend (s, rows, slot.state.position + t, h, wanted);
        for (guint d = 0; d < s->dim; d++) {
          gdouble is = scratch->mixed[t * width + h * s->dim + d];
          gdouble error = fabs (is - wanted[d]);

          /* NaN too, and it stays */
          if (!(error <= worst) && !isnan (worst))
            worst = error;
        }
      }
    slot.state.position += s->upsample;
  }
  printf ("dim %u, %u positions a frame, window %u, %u heads: off by %.1e\n",
      s->dim, s->upsample, s->window, s->heads, worst);
  g_rand_free (random);
  g_free (rows);
  g_free (keys);
  g_free (values);
  g_free (wanted);
  g_free (scratch->qkv);
  g_free (scratch->mixed);
  g_free (scratch->weights);
  g_free (scratch->cosines);
  g_free (scratch->sines);
  return worst < 1e-5;
}

int
main (void)
{
  static const Shape shapes[] = { { 64, 2, 250, 2 }, { 64, 1, 16, 3 },
    { 64, 3, 250, 1 }, { 10, 2, 20, 2 }, { 6, 5, 33, 3 }, { 8, 17, 40, 1 } };
  gboolean good = TRUE;

#if defined(__AVX512F__)
  if (!__builtin_cpu_supports ("avx512f") ||
      !__builtin_cpu_supports ("avx512dq"))
    return 77;
#elif defined(__AVX2__)
  if (!__builtin_cpu_supports ("avx2") || !__builtin_cpu_supports ("fma"))
    return 77;
#endif
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    good &= check (&shapes[i]);
  return good ? 0 : 1;
}
