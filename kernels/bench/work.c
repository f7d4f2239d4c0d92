/* How much arithmetic a frame is.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <stdlib.h>

#include "bench.h"

/* Weights that a layer multiplies with, and how often a frame does. */
typedef struct {
  guint64 weights, times;
} Work;

#define MAX_WORK (5 + 3 * MIMI_MAX_STAGES)

static guint
list_work (const MimiNetwork *net, guint codebooks, Work *work)
{
  guint n = 0;
  guint64 width = net->width, times = net->upsample;

  if (net->latent_dim)
    work[n++] = (Work){ width * net->latent_dim, 1 };
  if (codebooks)
    work[n++] =
        (Work){ width * net->codebook_dim * (codebooks > 1 ? 2 : 1), 1 };
  work[n++] = (Work){ 2 * width * times, 1 };
  work[n++] =
      (Work){ net->layers * (4 * width * width + 2 * width * net->ffn), times };
  work[n++] = (Work){ width * net->first_kernel * net->channels[0], times };
  for (guint i = 0; i < net->stages; i++) {
    guint64 in = net->channels[i], out = net->channels[i + 1];
    guint64 hidden = net->hidden[i];

    work[n++] = (Work){ 2 * in * out * net->ratios[i], times };
    times *= net->ratios[i];
    work[n++] = (Work){ net->residual_kernel * out * hidden, times };
    work[n++] = (Work){ hidden * out, times };
  }
  work[n++] = (Work){ net->last_kernel * net->channels[net->stages], times };
  return n;
}

guint64
bench_count_flops (const MimiNetwork *net, guint codebooks)
{
  Work work[MAX_WORK];
  guint n = list_work (net, codebooks, work);
  guint64 sum =
      (guint64)net->layers * net->upsample * net->window * net->width * 2;

  for (guint i = 0; i < n; i++)
    sum += work[i].weights * work[i].times;
  return 2 * sum;
}

guint64
bench_count_weights (const MimiNetwork *net, guint codebooks)
{
  Work work[MAX_WORK];
  guint n = list_work (net, codebooks, work);
  guint64 sum = 0;

  for (guint i = 0; i < n; i++)
    sum += work[i].weights;
  return sum;
}

static gint
compare (gconstpointer a, gconstpointer b)
{
  gdouble x = *(const gdouble *)a, y = *(const gdouble *)b;

  return (x > y) - (x < y);
}

gdouble
bench_quantile (gdouble *values, guint n, gdouble q)
{
  qsort (values, n, sizeof *values, compare);
  return values[MIN ((guint)(q * n), n - 1)];
}
