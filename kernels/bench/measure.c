/* mimi-bench: how fast a decoder is, beside how fast this machine multiplies
 * and reads memory at that very moment.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A machine's clock and its neighbours change from second to second, so the
 * three are measured in turn, a few milliseconds each, and their medians are
 * compared. With one CPU thread they are compared by the time that the thread
 * ran, which leaves out when it had to make room for other programs.
 */
#include <time.h>

#include "../cpu/cpu.h"
#include "bench.h"

#define WARM_FRAMES 8
#define BURST_FLOPS 40000000 /* about half a millisecond */
#define READ_EVERY 16        /* frames: a read takes long */
#define READ_FLOATS (48 << 20)

/* Seconds of n runs: by the clock on the wall, and as the thread ran. */
typedef struct {
  gdouble *wall, *ran;
  guint n;
} Times;

typedef struct {
  gdouble wall, ran;
} Moment;

static gdouble
read_clock (clockid_t clock)
{
  struct timespec t;

  clock_gettime (clock, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

gdouble
bench_now (void)
{
  return read_clock (CLOCK_MONOTONIC);
}

static Moment
now (void)
{
  Moment m = { read_clock (CLOCK_MONOTONIC),
    read_clock (CLOCK_THREAD_CPUTIME_ID) };

  return m;
}

static Times
times_new (guint n)
{
  return (Times){ g_new (gdouble, n), g_new (gdouble, n), 0 };
}

static void
times_clear (Times *times)
{
  g_free (times->wall);
  g_free (times->ran);
}

/* The time since `start` that one of `amount` parts of the work took. */
static void
times_add (Times *times, Moment start, gdouble amount)
{
  Moment end = now ();

  times->wall[times->n] = (end.wall - start.wall) / amount;
  times->ran[times->n++] = (end.ran - start.ran) / amount;
}

typedef struct {
  Times frames, flop, bytes; /* a frame, a FLOP, a byte read */
} Measured;

/* A frame; `blob`: NULL, or the stream's state, which comes from there and goes
 * back. */
static gboolean
decode (MimiStream *stream, gconstpointer row, gpointer blob, gfloat *pcm,
    GError **error)
{
  MimiResult result;

  return (!blob || mimi_stream_restore (stream, blob,
                       mimi_stream_get_state_size (stream), error)) &&
         mimi_stream_decode (stream, row, 1, pcm, &result, error) &&
         (!blob || mimi_stream_save (stream, blob, error));
}

static gboolean
run (MimiStream *stream, const MimiRows *rows, const gchar *data, guint n,
    const MimiCpuKernels *machine, const gfloat *memory, gpointer blob,
    Measured *measured, GError **error)
{
  gfloat pcm[MIMI_FRAME_SAMPLES];
  gsize row_size = mimi_rows_get_size (rows);
  volatile gfloat sink;

  if (blob && !mimi_stream_save (stream, blob, error))
    return FALSE;

  for (guint i = 0; i < n + WARM_FRAMES; i++) {
    const gchar *row = data + i * row_size;
    Moment start = now ();
    gdouble flops;

    if (i % READ_EVERY == 0) {
      sink = machine->read (memory, READ_FLOATS);
      (void)sink;
      times_add (
          &measured->bytes, start, (gdouble)READ_FLOATS * sizeof (gfloat));
      /* this frame brings back into the caches what reading threw out */
      if (!decode (stream, row, blob, pcm, error))
        return FALSE;
    }
    start = now ();
    flops = machine->multiply (BURST_FLOPS);
    times_add (&measured->flop, start, flops);
    start = now ();
    if (!decode (stream, row, blob, pcm, error))
      return FALSE;
    if (i >= WARM_FRAMES)
      times_add (&measured->frames, start, 1);
  }
  return TRUE;
}

static void
report (const BenchOptions *options, MimiDecoder *decoder, guint codebooks,
    Measured *m)
{
  const MimiNetwork *net = mimi_decoder_get_network (decoder);
  gdouble flops = (gdouble)bench_count_flops (net, codebooks);
  gdouble books = (gdouble)net->codebooks * net->codebook_size *
                  net->codebook_dim * sizeof (gfloat);
  gdouble weights =
      (gdouble)bench_count_weights (net, codebooks) * sizeof (gfloat);
  gdouble *frames = m->frames.wall, *compared, read_bytes;
  guint n = m->frames.n;
  gdouble flop, byte, frame, arithmetic, memory;
  MimiDecoderInfo info;
  gboolean alone;

  mimi_decoder_get_info (decoder, &info);
  alone = options->threads <= 1 && g_str_equal (info.backend, "cpu");
  compared = alone ? m->frames.ran : frames;
  flop = bench_quantile (alone ? m->flop.ran : m->flop.wall, m->flop.n, 0.5);
  byte = bench_quantile (alone ? m->bytes.ran : m->bytes.wall, m->bytes.n, 0.5);
  frame = bench_quantile (compared, n, 0.5);
  /* each weight once: fewer bytes where they are kept as bfloat16, and no more
   * where sums of them are kept, as for filters */
  read_bytes = MIN (info.weights_bytes - books, weights);
  arithmetic = flops * flop;
  memory = read_bytes * byte;

  g_print ("machine      %.1f GFLOP/s of multiply-add, reads %.1f GB/s, one "
           "thread; decodes on %s, %s\n",
      1e-9 / flop, 1e-9 / byte, info.backend, info.device);
  g_print ("network      %.1f MFLOP a frame; weights %.1f MB, of which a frame "
           "reads %.1f; state of a stream %.3f MB\n",
      flops * 1e-6, info.weights_bytes * 1e-6, read_bytes * 1e-6,
      info.state_bytes * 1e-6);
  g_print ("frame        median %.3f ms, p99 %.3f, min %.3f, max %.3f (%u "
           "frames, threads: %d)\n",
      bench_quantile (frames, n, 0.5) * 1e3,
      bench_quantile (frames, n, 0.99) * 1e3,
      bench_quantile (frames, n, 0) * 1e3, bench_quantile (frames, n, 1) * 1e3,
      n, MAX (options->threads, 1));
  if (alone)
    g_print ("running      median %.3f ms, p99 %.3f, min %.3f, max %.3f: "
             "without the time that others ran\n",
        frame * 1e3, bench_quantile (compared, n, 0.99) * 1e3,
        bench_quantile (compared, n, 0) * 1e3,
        bench_quantile (compared, n, 1) * 1e3);
  g_print ("real time    %.0f times faster\n", 0.080 / frame);
  g_print ("arithmetic   %.3f ms alone; the frame is %.2f times that\n",
      arithmetic * 1e3, frame / arithmetic);
  g_print ("memory       %.3f ms to read the weights once; the frame is %.2f "
           "times the larger of both\n",
      memory * 1e3, frame / MAX (arithmetic, memory));
}

gboolean
bench_measure (
    const BenchOptions *options, MimiDecoder *decoder, GError **error)
{
  const MimiNetwork *net = mimi_decoder_get_network (decoder);
  const MimiCpuKernels *machine = mimi_cpu_detect (error);
  guint n = MAX (options->frames, 1), all = n + WARM_FRAMES;
  MimiCpuArena memory = { .used = READ_FLOATS };
  MimiStream *stream = NULL;
  gpointer blob = NULL;
  MimiRows rows;
  Measured measured;
  gboolean good = FALSE;
  gchar *data;

  if (machine == NULL || !bench_find_rows (options, net, NULL, &rows, error) ||
      !mimi_cpu_arena_open (&memory, TRUE, "measuring memory", error))
    return FALSE;
  measured = (Measured){ times_new (n), times_new (all), times_new (all) };
  data = bench_make_rows (&rows, net, all);
  stream = mimi_stream_new (decoder, options->threads, error);
  if (stream && mimi_stream_set_rows (stream, &rows, error)) {
    mimi_stream_set_pcm (stream, MIMI_PCM_F32);
    if (g_strcmp0 (options->state, "host") == 0)
      blob = g_malloc (mimi_stream_get_state_size (stream));
    good = run (
        stream, &rows, data, n, machine, memory.base, blob, &measured, error);
    g_free (blob);
  }
  if (good)
    report (options, decoder, rows.format == MIMI_ROW_U16 ? rows.length : 0,
        &measured);
  if (stream)
    mimi_stream_free (stream);
  times_clear (&measured.frames);
  times_clear (&measured.flop);
  times_clear (&measured.bytes);
  mimi_cpu_arena_close (&memory);
  g_free (data);
  return good;
}
