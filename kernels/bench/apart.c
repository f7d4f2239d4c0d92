/* mimi-bench --batch --apart: many streams, each in a thread of its own.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * This is what a program with many elements does: threads that know nothing of
 * each other, whose frames share launches only because they come at the same
 * time.
 */
#include "bench.h"

#define WARM_FRAMES 8
#define ROWS 64

typedef struct {
  const BenchOptions *options;
  GMutex lock;
  GCond changed;
  guint ready; /* threads that are warm */
  gboolean go;
  gint over; /* atomic: somebody's time is up */
} Start;

typedef struct {
  Start *start;
  MimiStream *stream;
  const gchar *data;
  gsize row_size;
  guint first; /* row */
  gdouble *seconds;
  guint frames;
  gdouble end;
  GError *error;
} Caller;

static gboolean
decode (Caller *self, guint i, gfloat *pcm)
{
  MimiResult result;

  return mimi_stream_decode (self->stream,
      self->data + (self->first + i) % ROWS * self->row_size, 1, pcm, &result,
      &self->error);
}

static gpointer
call (gpointer data)
{
  Caller *self = data;
  Start *start = self->start;
  const BenchOptions *options = start->options;
  guint most = MAX (options->frames, 1), i;
  gfloat *pcm = g_new (gfloat, MIMI_FRAME_SAMPLES);
  gdouble begin;

  for (i = 0; i < WARM_FRAMES && decode (self, i, pcm); i++)
    ;
  g_mutex_lock (&start->lock);
  start->ready++;
  g_cond_broadcast (&start->changed);
  while (!start->go)
    g_cond_wait (&start->changed, &start->lock);
  g_mutex_unlock (&start->lock);

  begin = bench_now ();
  /* All stop together: the last ones would have the device for themselves. */
  for (i = 0; i < most && !self->error && !g_atomic_int_get (&start->over);
       i++) {
    gdouble from = bench_now ();

    if (!decode (self, i, pcm))
      break;
    self->seconds[self->frames++] = bench_now () - from;
    if (options->seconds > 0 && bench_now () - begin > options->seconds)
      g_atomic_int_set (&start->over, TRUE);
  }
  g_atomic_int_set (&start->over, TRUE);
  self->end = bench_now ();
  g_free (pcm);
  return NULL;
}

static void
gather (const Caller *callers, guint n, gdouble begin, BenchApart *apart)
{
  gdouble *all;
  guint i, j, at = 0;

  apart->frames = 0;
  apart->total = 0;
  for (i = 0; i < n; i++) {
    apart->frames += callers[i].frames;
    apart->total = MAX (apart->total, callers[i].end - begin);
  }
  all = g_new (gdouble, MAX (apart->frames, 1));
  for (i = 0; i < n; i++)
    for (j = 0; j < callers[i].frames; j++)
      all[at++] = callers[i].seconds[j];
  apart->median = at ? bench_quantile (all, at, 0.5) : 0;
  apart->p99 = at ? bench_quantile (all, at, 0.99) : 0;
  g_free (all);
}

gboolean
bench_apart (const BenchOptions *options, MimiDecoder *decoder,
    MimiStream *const *streams, guint n, const gchar *data, gsize row_size,
    BenchApart *apart, GError **error)
{
  Start start = { .options = options };
  Caller *callers = g_new0 (Caller, n);
  GThread **threads = g_new0 (GThread *, n);
  GError *first = NULL;
  gdouble begin;

  g_mutex_init (&start.lock);
  g_cond_init (&start.changed);
  for (guint i = 0; i < n; i++) {
    callers[i] = (Caller){ &start, streams[i], data, row_size, i,
      g_new (gdouble, MAX (options->frames, 1)), 0, 0, NULL };
    threads[i] = g_thread_new ("decode", call, &callers[i]);
  }
  g_mutex_lock (&start.lock);
  while (start.ready < n)
    g_cond_wait (&start.changed, &start.lock);
  mimi_decoder_get_info (decoder, &apart->before);
  begin = bench_now ();
  start.go = TRUE;
  g_cond_broadcast (&start.changed);
  g_mutex_unlock (&start.lock);

  for (guint i = 0; i < n; i++)
    g_thread_join (threads[i]);
  mimi_decoder_get_info (decoder, &apart->after);
  gather (callers, n, begin, apart);
  for (guint i = 0; i < n; i++) {
    if (callers[i].error && !first)
      first = callers[i].error;
    else
      g_clear_error (&callers[i].error);
    g_free (callers[i].seconds);
  }
  g_mutex_clear (&start.lock);
  g_cond_clear (&start.changed);
  g_free (threads);
  g_free (callers);
  if (first)
    g_propagate_error (error, first);
  return !first;
}
