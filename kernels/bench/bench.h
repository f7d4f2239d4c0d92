/* mimi-bench: what its files share.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "../mimi.h"

typedef struct {
  gchar *config, *backend, *input, *output, *trace, *state;
  gint threads, frames, codebooks, chunk, cpu, dims;
  gboolean denormalized, s16;
} BenchOptions;

/* work.c: multiply-adds of one frame, times two, by the shapes alone; attention
 * counts the positions of the window, not what a kernel touches beside them. */
guint64 bench_count_flops (const MimiNetwork *net, guint codebooks);

/* rows.c: what the input's rows are. */
gboolean bench_find_rows (const BenchOptions *options, const MimiNetwork *net,
    const gchar *input, MimiRows *rows, GError **error);

/* decode.c: a file of rows to a file of PCM. */
gboolean bench_decode (
    const BenchOptions *options, MimiDecoder *decoder, GError **error);

/* measure.c: the machine and the decoder in one run. */
gboolean bench_measure (
    const BenchOptions *options, MimiDecoder *decoder, GError **error);
