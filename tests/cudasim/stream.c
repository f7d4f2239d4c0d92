/* Queues of work, and running it
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "api.h"
#include "timing.h"

SimNode *
node_new (NodeType type)
{
  SimNode *n = g_new0 (SimNode, 1);
  n->refs = 1;
  n->type = type;
  return n;
}

SimNode *
node_ref (SimNode *n)
{
  n->refs++;
  return n;
}

void
node_unref (gpointer data)
{
  SimNode *n = data;
  if (--n->refs)
    return;
  g_free (n->launch.params);
  g_free (n->staged);
  if (n->graph)
    g_ptr_array_unref (n->graph);
  g_free (n);
}

SimNode *
node_copy (const SimNode *from)
{
  SimNode *n = g_memdup2 (from, sizeof *n);
  n->refs = 1;
  n->launch.params = g_memdup2 (from->launch.params,
      from->type == NODE_KERNEL ? MAX (from->launch.kernel->param_bytes, 1)
                                : 0);
  n->staged = g_memdup2 (from->staged, from->staged ? from->size : 0);
  if (n->graph)
    g_ptr_array_ref (n->graph);
  return n;
}

GPtrArray *
nodes_new (void)
{
  return g_ptr_array_new_with_free_func (node_unref);
}

SimStream *
stream_new (struct SimContext *context, guint flags)
{
  SimStream *s = g_new0 (SimStream, 1);
  s->context = context;
  s->flags = flags;
  s->queue = g_queue_new ();
  g_ptr_array_add (context->streams, s);
  return s;
}

void
stream_free (SimStream *s)
{
  g_ptr_array_remove (s->context->streams, s);
  g_queue_free_full (s->queue, node_unref);
  if (s->capture)
    g_ptr_array_unref (s->capture);
  g_free (s);
}

SimStream *
stream_of (CUstream handle)
{
  if ((gintptr)handle >= 0 && (gintptr)handle <= 2)
    return api_context ()->legacy;
  return handle;
}

gboolean
stream_valid (SimStream *s)
{
  struct SimContext *c = api_context ();
  return c && g_ptr_array_find (c->streams, s, NULL);
}

/* Work for the default stream would wait for a stream that captures. */
static gboolean
disturbs_capture (SimStream *s)
{
  gboolean found = FALSE;
  for (guint i = 0; s == s->context->legacy && i < s->context->streams->len;
       i++) {
    SimStream *other = s->context->streams->pdata[i];
    if (other->capture && !(other->flags & 1)) {
      other->invalid = TRUE;
      found = TRUE;
    }
  }
  return found;
}

CUresult
stream_add (SimStream *s, SimNode *node)
{
  SimStream *origin = s->origin ? s->origin : s;
  if (origin->capture) {
    if (origin->capture_mode != 2 &&
        origin->capture_thread != g_thread_self ()) {
      node_unref (node);
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    if (origin->invalid) {
      node_unref (node);
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    s->joined = FALSE;
    g_ptr_array_add (origin->capture, node);
    return CUDA_SUCCESS;
  }
  if (disturbs_capture (s)) {
    node_unref (node);
    api_log ("work for the default stream during a capture");
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  g_queue_push_tail (s->queue, node);
  return CUDA_SUCCESS;
}

/* ---- running ---- */

static guint64 last_serial;

/* What is known to be complete when a kernel starts, and when it has waited.
 * `last_floor` is what was complete at the start of the launch before,
 * `last_done` what is once that one is. */
static CUresult
run_kernel (SimStream *s, const SimLaunch *from)
{
  SimLaunch launch = *from;
  CUresult r;
  if (sim_fails (&sim_fail.lost))
    return CUDA_ERROR_UNKNOWN;
  if (sim_fails (&sim_fail.sticky)) {
    api_log ("an illegal address, on demand");
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  launch.serial = ++last_serial;
  if (!s->last_is_kernel)
    launch.programmatic = FALSE;
  if (launch.programmatic) {
    launch.previous = s->last_serial;
    launch.floor =
        s->last_early ? s->last_floor : MIN (s->last_done, launch.serial - 2);
    launch.floor_after = s->last_done;
  } else {
    launch.floor = launch.serial - 1;
    launch.floor_after = launch.previous = launch.serial - 1;
  }
  sim_race_launch_begin (&launch);
  r = sim_run (&launch);
  sim_stats.launches++;
  sim_stats.faults += launch.n_faults;
  s->last_is_kernel = TRUE;
  s->last_early = launch.early_trigger;
  s->last_serial = launch.serial;
  s->last_floor = launch.floor;
  s->last_done = !launch.programmatic                    ? launch.serial
                 : !launch.waits_all                     ? launch.floor
                 : launch.floor_after == launch.previous ? launch.serial
                                                         : launch.floor_after;
  return r;
}

static CUresult run_node (SimStream *s, SimNode *n);

static CUresult
run_list (SimStream *s, GPtrArray *nodes)
{
  CUresult r = CUDA_SUCCESS;
  for (guint i = 0; i < nodes->len && !r; i++)
    r = run_node (s, nodes->pdata[i]);
  return r;
}

static CUresult
run_copy (SimNode *n)
{
  if (!sim_range_ok (n->device, n->size) ||
      (n->copy == COPY_ACROSS && !sim_range_ok (n->source, n->size))) {
    api_log ("a copy of %" G_GSIZE_FORMAT " bytes at 0x%" G_GINT64_MODIFIER
             "x leaves its allocation",
        n->size, n->device);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  guint8 *device = sim_host (n->device);
  switch (n->copy) {
    case COPY_UP:
      memcpy (device, n->staged ? n->staged : n->host, n->size);
      sim_host_write (n->device, n->size);
      break;
    case COPY_DOWN:
      memcpy (n->host, device, n->size);
      break;
    case COPY_ACROSS:
      memmove (device, sim_host (n->source), n->size);
      sim_host_write (n->device, n->size);
      break;
  }
  return CUDA_SUCCESS;
}

static CUresult
run_node (SimStream *s, SimNode *n)
{
  CUresult r = CUDA_SUCCESS;
  if (n->type != NODE_KERNEL && n->type != NODE_GRAPH &&
      n->type != NODE_EMPTY && n->type != NODE_RECORD)
    s->last_is_kernel = FALSE;
  switch (n->type) {
    case NODE_KERNEL:
      if (sim_config.times && !s->in_graph)
        sim_times_begin ();
      r = run_kernel (s, &n->launch);
      if (sim_config.times && !s->in_graph)
        sim_times_end ();
      break;
    case NODE_COPY:
      r = run_copy (n);
      break;
    case NODE_SET:
      if (!sim_range_ok (n->device, n->size))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
      for (gsize i = 0; i < n->size; i += n->width)
        memcpy (sim_host (n->device) + i, &n->value, n->width);
      sim_host_write (n->device, n->size);
      break;
    case NODE_RECORD:
      /* a graph's node has no number of its own: it runs again and again */
      n->event->done =
          n->sequence ? MAX (n->event->done, n->sequence) : n->event->done + 1;
      n->event->time = g_get_monotonic_time ();
      break;
    case NODE_WAIT:
      r = stream_run_until (n->event, n->sequence);
      break;
    case NODE_HOST:
      n->func (n->data);
      break;
    case NODE_GRAPH: /* starts after all before it is complete */
      s->last_is_kernel = FALSE;
      s->in_graph = TRUE;
      if (sim_config.times_left && !--sim_config.times_left)
        sim_times_begin ();
      r = run_list (s, n->graph);
      s->in_graph = FALSE;
      sim_times_end ();
      s->last_is_kernel = FALSE;
      break;
    case NODE_EMPTY:
      break;
  }
  return r;
}

CUresult
stream_step (SimStream *s)
{
  SimNode *n = g_queue_pop_head (s->queue);
  if (!n)
    return CUDA_SUCCESS;
  CUresult r = run_node (s, n);
  node_unref (n);
  return r;
}

CUresult
stream_run (SimStream *s)
{
  CUresult r = CUDA_SUCCESS;
  while (!r && !g_queue_is_empty (s->queue))
    r = stream_step (s);
  return r;
}

CUresult
stream_run_until (SimEvent *event, guint64 sequence)
{
  CUresult r = CUDA_SUCCESS;
  while (!r && event->done < sequence && event->stream &&
         !g_queue_is_empty (event->stream->queue))
    r = stream_step (event->stream);
  return r;
}

/* In a random order that the queues allow. */
static CUresult
run_some (struct SimContext *c, gboolean blocking_only)
{
  static guint64 rng;
  CUresult r = CUDA_SUCCESS;
  GPtrArray *busy = g_ptr_array_new ();
  rng += sim_config.seed;
  while (!r) {
    g_ptr_array_set_size (busy, 0);
    for (guint i = 0; i < c->streams->len; i++) {
      SimStream *s = c->streams->pdata[i];
      if (!g_queue_is_empty (s->queue) && !(blocking_only && s->flags & 1))
        g_ptr_array_add (busy, s);
    }
    if (!busy->len)
      break;
    r = stream_step (busy->pdata[sim_random (&rng) % busy->len]);
  }
  g_ptr_array_unref (busy);
  return r;
}

CUresult
streams_run_all (struct SimContext *c)
{
  return run_some (c, FALSE);
}

CUresult
streams_run_blocking (struct SimContext *c)
{
  return run_some (c, TRUE);
}
