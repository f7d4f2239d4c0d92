/* mimi-bench: what its files share.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "../mimi.h"

typedef struct {
  gchar *config, *backend, *precision, *input, *output, *trace, *state, *batch;
  gint cuda_device, threads, frames, codebooks, chunk, cpu, dims;
  gdouble seconds;
  gboolean denormalized, s16, apart;

  MimiDecoderOptions decoder; /* what the names above say */
} BenchOptions;

/* work.c: multiply-adds of one frame, times two, by the shapes alone; attention
 * counts the positions of the window, not what a kernel touches beside them. */
guint64 bench_count_flops (const MimiNetwork *net, guint codebooks);
/* The weights that they are multiplied with. */
guint64 bench_count_weights (const MimiNetwork *net, guint codebooks);
/* The least of `values` that a share q of them does not exceed; sorts them. */
gdouble bench_quantile (gdouble *values, guint n, gdouble q);

/* rows.c: what the input's rows are. */
gboolean bench_find_rows (const BenchOptions *options, const MimiNetwork *net,
    const gchar *input, MimiRows *rows, GError **error);
/* n rows that look like speech latents (float32), or codes; reproducible. */
gpointer bench_make_rows (
    const MimiRows *rows, const MimiNetwork *net, guint n);

/* decode.c: a file of rows to a file of PCM. */
gboolean bench_decode (
    const BenchOptions *options, MimiDecoder *decoder, GError **error);

/* measure.c: seconds on a clock that only goes forward. */
gdouble bench_now (void);
/* The machine and the decoder in one run. */
gboolean bench_measure (
    const BenchOptions *options, MimiDecoder *decoder, GError **error);

/* batch.c: many streams stepping together. `model` to open a second decoder,
 * which measures the device's time. */
gboolean bench_batches (const BenchOptions *options, MimiModel *model,
    MimiDecoder *decoder, GError **error);
/* apart.c: the same, each stream in a thread of its own. */
typedef struct {
  guint frames;        /* of all streams */
  gdouble total;       /* seconds */
  gdouble median, p99; /* seconds that a caller waited for a frame */
  MimiDecoderInfo before, after;
} BenchApart;
gboolean bench_apart (const BenchOptions *options, MimiDecoder *decoder,
    MimiStream *const *streams, guint n, const gchar *data, gsize row_size,
    BenchApart *apart, GError **error);
/* Whether a list of sizes, or of places for the state, can be read. */
gboolean bench_check_batches (const BenchOptions *options, GError **error);
