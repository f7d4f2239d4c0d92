/* Convolutions with fewer products against plain ones in double.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Every filter, with numbers of positions that its groups do and do not divide,
 * widths that vectors do and do not, and any number of threads, whose bits must
 * be the same. Compiled for each instruction set, as the kernels are.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/kernels.h"

typedef struct {
  guint in, n, rows;
  gboolean bias;
} Shape;

static gfloat *
make_random (GRand *random, gsize n)
{
  gfloat *x = g_new (gfloat, n);

  for (gsize i = 0; i < n; i++)
    x[i] = (gfloat)g_rand_double_range (random, -1, 1);
  return x;
}

/* taps [n][tap][in] -> panels [n / 16][product][in][16] */
static gfloat *
pack (const Shape *s, MimiCpuFilter filter, const gfloat *taps)
{
  guint n_taps = mimi_cpu_filter_taps (filter);
  guint k = mimi_cpu_filter_products (filter) * s->in;
  gfloat *panels = g_new0 (gfloat, (s->n + 15) / 16 * 16 * (gsize)k);

  for (guint n = 0; n < s->n; n++)
    for (guint j = 0; j < k; j++) {
      gfloat g[3];

      for (guint tap = 0; tap < n_taps; tap++)
        g[tap] = taps[((gsize)n * n_taps + tap) * s->in + j % s->in];
      panels[((gsize)(n / 16) * k + j) * 16 + n % 16] =
          (gfloat)mimi_cpu_filter_weight (filter, j / s->in, g);
    }
  return panels;
}

static gdouble
elu (gdouble x)
{
  return x > 0 ? x : expm1 (x);
}

/* In decibels, of y and of what it is before ELU together. */
static gdouble
compare (const Shape *s, guint taps, const gfloat *x, const gfloat *w,
    const gfloat *bias, const gfloat *y, const gfloat *raw)
{
  gdouble signal = 0, noise = 0;

  for (guint t = 0; t < s->rows; t++)
    for (guint n = 0; n < s->n; n++) {
      gdouble sum = s->bias ? bias[n] : 0;
      gsize at = (gsize)t * s->n + n;

      for (guint j = 0; j < taps * s->in; j++)
        sum += (gdouble)x[t * s->in + j] * w[(gsize)n * taps * s->in + j];
      signal += sum * sum + elu (sum) * elu (sum);
      noise += (raw[at] - sum) * (raw[at] - sum) +
               (y[at] - elu (sum)) * (y[at] - elu (sum));
    }
  return 10 * log10 (signal / noise);
}

static gboolean
check (const Shape *s, MimiCpuFilter filter, GRand *random)
{
  guint taps = mimi_cpu_filter_taps (filter);
  guint products = mimi_cpu_filter_products (filter);
  gsize outputs = (gsize)s->rows * s->n;
  gfloat *x = make_random (random, (s->rows + taps - 1) * s->in);
  gfloat *w = make_random (random, (gsize)s->n * taps * s->in);
  gfloat *bias = make_random (random, (s->n + 15) / 16 * 16);
  gfloat *scratch = g_new (gfloat, products * s->in * MIMI_CPU_MAX_ROWS);
  gfloat *panels = pack (s, filter, w), *first = NULL;
  MimiCpuMatrix matrix = { .n = s->n,
    .k = products * s->in,
    .filter = filter,
    .panels = panels,
    .bias = s->bias ? bias : NULL };
  gboolean good = TRUE;

  for (guint threads = 1; threads <= 5; threads++) {
    /* one more: nobody may write behind the last */
    gfloat *y = g_new (gfloat, 2 * (outputs + 1)), *raw = y + outputs + 1;
    MimiCpuGemm gemm = { .w = &matrix,
      .x = x,
      .x_stride = s->in,
      .rows = s->rows,
      .epilogue = MIMI_CPU_ELU,
      .y = y,
      .y_stride = s->n,
      .raw = raw,
      .scratch = scratch };

    y[outputs] = raw[outputs] = 7;
    for (guint i = 0; i < threads; i++)
      mimi_cpu_gemm (&gemm, (MimiCpuShare){ i, threads });
    if (threads == 1) {
      gdouble db = compare (s, taps, x, w, bias, y, raw);

      good = db >= 118;
      printf ("# %u of %u taps: %u to %u, %u positions: %.1f dB\n",
          mimi_cpu_filter_outputs (filter), taps, s->in, s->n, s->rows, db);
      first = y;
      good = good && y[outputs] == 7 && raw[outputs] == 7;
      continue;
    }
    if (memcmp (y, first, 2 * (outputs + 1) * sizeof *y) != 0) {
      printf ("# %u threads: other bits\n", threads);
      good = FALSE;
    }
    g_free (y);
  }
  g_free (x);
  g_free (w);
  g_free (bias);
  g_free (scratch);
  g_free (panels);
  g_free (first);
  return good;
}

int
main (void)
{
  static const Shape shapes[] = {
    { 64, 32, 96, TRUE },
    { 24, 12, 100, TRUE },
    { 8, 4, 97, FALSE },
    { 12, 24, 103, TRUE },
    { 20, 40, 130, TRUE },
    { 300, 48, 16, TRUE }, /* more than one block of k */
    { 256, 80, 3, FALSE },
    { 16, 64, 1, TRUE },
    { 33, 17, 18, TRUE },
  };
  static const MimiCpuFilter filters[] = { MIMI_CPU_F22, MIMI_CPU_F42,
    MIMI_CPU_F23, MIMI_CPU_F43 };
  GRand *random = g_rand_new_with_seed (1);
  guint failed = 0;

#if defined(__AVX512F__)
  if (!__builtin_cpu_supports ("avx512f") ||
      !__builtin_cpu_supports ("avx512dq"))
    return 77;
#elif defined(__AVX2__)
  if (!__builtin_cpu_supports ("avx2") || !__builtin_cpu_supports ("fma"))
    return 77;
#endif
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    for (guint f = 0; f < G_N_ELEMENTS (filters); f++)
      failed += !check (&shapes[i], filters[f], random);
  g_rand_free (random);
  printf ("%u failed\n", failed);
  return failed > 0;
}
