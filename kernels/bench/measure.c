/* mimi-bench: how fast a decoder is, beside how fast this machine multiplies
 * and reads memory at that very moment.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A machine's clock and its neighbours change from second to second, so the
 * three are measured in turn, a few milliseconds each, and their medians are
 * compared.
 */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "../cpu/cpu.h"
#include "bench.h"

#define WARM_FRAMES 8
#define BURST_FLOPS 40000000 /* about half a millisecond */
#define READ_EVERY 16        /* frames: a read takes long */
#define READ_BYTES (192 << 20)

static gdouble
now (void)
{
  struct timespec t;

  clock_gettime (CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static gint
compare (gconstpointer a, gconstpointer b)
{
  gdouble x = *(const gdouble *)a, y = *(const gdouble *)b;

  return (x > y) - (x < y);
}

static gdouble
quantile (gdouble *values, guint n, gdouble q)
{
  qsort (values, n, sizeof *values, compare);
  return values[MIN ((guint)(q * n), n - 1)];
}

/* Rows that look like speech latents, or codes; reproducible. */
static gpointer
make_rows (const MimiRows *rows, const MimiNetwork *net, guint n)
{
  gsize length = (gsize)n * rows->length;
  gfloat *latents = g_new (gfloat, length);
  guint16 *codes = (guint16 *)latents;
  GRand *random = g_rand_new_with_seed (1);

  for (gsize i = 0; i < length; i++)
    if (rows->format == MIMI_ROW_F32)
      latents[i] = (gfloat)g_rand_double_range (random, -1.7, 1.7);
    else
      codes[i] = (guint16)g_rand_int_range (random, 0, net->codebook_size);
  g_rand_free (random);
  return latents;
}

static void
print_machine (const MimiDecoderInfo *info, gdouble rate, gdouble bandwidth)
{
  g_print ("machine      %.1f GFLOP/s multiply-add, one thread (%s); reads "
           "%.1f GB/s\n",
      rate * 1e-9, info->device, bandwidth * 1e-9);
}

gboolean
bench_measure (
    const BenchOptions *options, MimiDecoder *decoder, GError **error)
{
  const MimiNetwork *net = mimi_decoder_get_network (decoder);
  const MimiCpuKernels *machine = mimi_cpu_detect (error);
  guint n = MAX (options->frames, 1), reads = 0;
  gdouble *frames, *rates, *bandwidths, median, rate, bandwidth, flops, pure;
  gfloat *memory, sink = 0;
  gfloat pcm[MIMI_FRAME_SAMPLES];
  gchar *data;
  MimiRows rows;
  MimiStream *stream;
  MimiDecoderInfo info;
  gboolean good = TRUE;

  if (machine == NULL || !bench_find_rows (options, net, NULL, &rows, error))
    return FALSE;
  stream = mimi_stream_new (decoder, options->threads, error);
  if (stream == NULL)
    return FALSE;
  if (!mimi_stream_set_rows (stream, &rows, error)) {
    mimi_stream_free (stream);
    return FALSE;
  }
  mimi_stream_set_pcm (stream, MIMI_PCM_F32);
  frames = g_new (gdouble, n);
  rates = g_new (gdouble, n);
  bandwidths = g_new (gdouble, n);
  memory = g_malloc0 (READ_BYTES);
  data = make_rows (&rows, net, n + WARM_FRAMES);

  for (guint i = 0; i < n + WARM_FRAMES && good; i++) {
    guint at = i < WARM_FRAMES ? 0 : i - WARM_FRAMES;
    MimiResult result;
    gdouble start, done;

    if (i % READ_EVERY == 0) {
      start = now ();
      sink += machine->read (memory, READ_BYTES / sizeof (gfloat));
      bandwidths[reads++] = READ_BYTES / (now () - start);
      /* the weights are back in the caches before a frame counts */
      good = mimi_stream_decode (stream, data + i * mimi_rows_get_size (&rows),
          1, pcm, &result, error);
    }
    start = now ();
    done = machine->multiply (BURST_FLOPS);
    rates[at] = done / (now () - start);
    start = now ();
    good = good &&
           mimi_stream_decode (stream, data + i * mimi_rows_get_size (&rows), 1,
               pcm, &result, error);
    frames[at] = now () - start;
  }
  if (good) {
    mimi_decoder_get_info (decoder, &info);
    flops = (gdouble)bench_count_flops (
        net, rows.format == MIMI_ROW_U16 ? rows.length : 0);
    rate = quantile (rates, n, 0.5) + 0 * sink;
    bandwidth = quantile (bandwidths, reads, 0.5);
    median = quantile (frames, n, 0.5);
    pure = flops / rate;
    print_machine (&info, rate, bandwidth);
    g_print ("network      %.1f MFLOP a frame; weights %.1f MB, state of a "
             "stream %.3f MB\n",
        flops * 1e-6, info.weights_bytes * 1e-6, info.state_bytes * 1e-6);
    g_print ("frame        median %.3f ms, p99 %.3f, min %.3f, max %.3f "
             "(%u frames, %d threads, %s)\n",
        median * 1e3, quantile (frames, n, 0.99) * 1e3,
        quantile (frames, n, 0) * 1e3, quantile (frames, n, 1) * 1e3, n,
        MAX (options->threads, 1), info.backend);
    g_print ("real time    %.0f times faster\n", 0.080 / median);
    g_print ("arithmetic   %.3f ms alone: the frame is %.2f times that\n",
        pure * 1e3, median / pure);
    g_print ("memory       %.3f ms to read the frame's weights once (%.1f MB "
             "as float32)\n",
        bench_count_weights (net) / bandwidth * 1e3,
        bench_count_weights (net) * 1e-6);
  }
  mimi_stream_free (stream);
  g_free (frames);
  g_free (rates);
  g_free (bandwidths);
  g_free (memory);
  g_free (data);
  return good;
}
