/* Barriers of a block, and of a cluster
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "timing.h"

#include <string.h>

/* Cycles from the last arrival to the first that goes on; with the 200 that
 * stores to other blocks take, what a release and acquire was seen to cost. */
#define CLUSTER_BARRIER 180

static void
join (guint32 *into, const guint32 *from, guint n)
{
  for (guint i = 0; i < n; i++)
    into[i] = MAX (into[i], from[i]);
}

/* The warps that a barrier lets go have seen all that any of them has. */
static void
barrier_done (SimBlock *b, guint id, SimBarrier *bar)
{
  guint n = b->cluster->n_agents, grid = b->launch->n_agents;
  g_autofree guint32 *seen = g_new0 (guint32, n);
  guint32 *far = NULL;
  gboolean waited = FALSE;
  for (guint i = 0; i < b->n_warps; i++) {
    SimWarp *w = &b->warps[i];
    gboolean joined =
        w->barrier == (gint)id || (bar->joined && i < bar->joined->len &&
                                      g_array_index (bar->joined, guint32, i));
    if (!joined)
      continue;
    waited |= w->at_wait;
    if (!w->launch->check)
      continue;
    join (seen, w->seen, n);
    if (w->far) {
      if (!far)
        far = g_new0 (guint32, grid);
      join (far, w->far, grid);
    }
  }
  for (guint i = 0; i < b->n_warps; i++) {
    SimWarp *w = &b->warps[i];
    if (w->barrier != (gint)id)
      continue;
    w->barrier = -1;
    w->at_wait |= waited;
    w->now = MAX (w->now, bar->horizon);
    if (!w->launch->check)
      continue;
    join (w->seen, seen, n);
    if (far) {
      if (!w->far)
        w->far = g_new0 (guint32, grid);
      join (w->far, far, grid);
    }
  }
  g_free (far);
  if (bar->joined)
    g_array_set_size (bar->joined, 0);
  bar->arrived = bar->expected = 0;
  bar->horizon = 0;
}

static void
write_votes (SimBlock *b, guint id, SimBarrier *bar, const SimIns *ins)
{
  guint32 result = ins->sub == 0   ? bar->red_sum
                   : ins->sub == 1 ? (bar->red_and ? ~0u : 0)
                                   : (bar->red_or ? ~0u : 0);
  for (guint i = 0; i < b->n_warps; i++) {
    SimWarp *w = &b->warps[i];
    if (w->barrier != (gint)id)
      continue;
    guint32 *row = (guint32 *)(void *)(w->base[0] + (ins->o[0] >> 1));
    for (guint l = 0; l < SIM_LANES; l++)
      if (w->mask >> l & 1)
        row[l] = result;
  }
}

void
sim_barrier (SimWarp *w, const SimIns *ins, guint id, guint threads,
    gboolean wait, guint32 votes)
{
  SimBlock *b = w->block;
  if (id > 15 || threads % SIM_LANES) {
    sim_fault (w, ins, -1, id, CUDA_ERROR_ILLEGAL_INSTRUCTION,
        "barrier %u of %u threads", id, threads);
    return;
  }
  SimBarrier *bar = &b->barriers[id];
  if (bar->arrived == 0) {
    bar->red_or = bar->red_sum = 0;
    bar->red_and = 1;
    bar->expected = threads;
  } else if (bar->expected != threads) {
    sim_fault (w, ins, -1, id, CUDA_ERROR_ILLEGAL_INSTRUCTION,
        "barrier %u is used with %u and %u threads", id, bar->expected,
        threads);
    return;
  }
  guint voted = (guint)__builtin_popcount (votes & w->mask);
  bar->red_or |= voted != 0;
  bar->red_and &= voted == (guint)__builtin_popcount (w->mask);
  bar->red_sum += voted;
  if (w->trace)
    sim_trace_step (
        w, STEP_BARRIER, (guint8)(id | (wait ? 0 : 16)), threads / SIM_LANES);
  /* With a number of threads, whole warps are counted. */
  bar->arrived += threads ? SIM_LANES : (guint)__builtin_popcount (w->mask);
  /* Loads on their way to registers hold nobody up. */
  bar->horizon = MAX (bar->horizon, w->now + 22 + 2 * b->n_warps);
  if (w->launch->check)
    w->seen[w->agent - b->cluster->first * b->n_warps] = w->clock++;
  if (wait) {
    w->barrier = (gint)id;
    w->stop = SIM_STOP_BARRIER;
  } else {
    if (!bar->joined)
      bar->joined = g_array_new (FALSE, TRUE, sizeof (guint32));
    if (bar->joined->len < b->n_warps)
      g_array_set_size (bar->joined, b->n_warps);
    g_array_index (bar->joined, guint32, w->id) = 1;
  }
  if (bar->arrived >= (threads ? threads : b->n_live)) {
    if (ins->op == OP_bar_red)
      write_votes (b, id, bar, ins);
    if (bar->arrived > (threads ? threads : b->n_live)) {
      sim_fault (w, ins, -1, id, CUDA_ERROR_LAUNCH_FAILED,
          "%u threads came to barrier %u of %u", bar->arrived, id,
          threads ? threads : b->n_live);
      return;
    }
    barrier_done (b, id, bar);
  }
}

/* A warp that ends may be the last that a barrier waits for. */
void
sim_barriers_recheck (SimBlock *b)
{
  for (guint id = 0; id < G_N_ELEMENTS (b->barriers); id++) {
    SimBarrier *bar = &b->barriers[id];
    if (bar->arrived && !bar->expected && bar->arrived >= b->n_live)
      barrier_done (b, id, bar);
  }
}

static void
cluster_phase_end (SimCluster *c)
{
  c->arrived = 0;
  c->phase++;
  guint32 *swap = c->joined_last;
  c->joined_last = c->joined;
  c->joined = swap;
  memset (c->joined, 0, c->n_agents * sizeof (guint32));
  c->horizon_last = c->horizon;
  c->horizon = 0;
}

void
sim_cluster_recheck (SimCluster *c)
{
  guint live = 0;
  for (guint i = 0; i < c->n_blocks; i++)
    live += c->blocks[i].n_warps - c->blocks[i].n_done;
  if (c->arrived && c->arrived >= live)
    cluster_phase_end (c);
}

void
sim_cluster_arrive (SimWarp *w, const SimIns *ins, gboolean release)
{
  SimCluster *c = w->block->cluster;
  if (w->cluster_phase) {
    sim_fault (w, ins, -1, 0, CUDA_ERROR_LAUNCH_FAILED,
        "arrives at the cluster barrier again without having waited");
    return;
  }
  w->cluster_phase = c->phase + 1;
  if (w->trace)
    sim_trace_step (w, STEP_ARRIVE, 0, 1);
  if (w->launch->check && release) {
    w->seen[w->agent - c->first * w->block->n_warps] = w->clock++;
    join (c->joined, w->seen, c->n_agents);
  }
  if (!sim_is_early (w))
    c->horizon = MAX (c->horizon, MAX (w->now, w->stored) + CLUSTER_BARRIER);
  c->arrived++;
  sim_cluster_recheck (c);
}

void
sim_cluster_wait (SimWarp *w, const SimIns *ins, gboolean acquire)
{
  SimCluster *c = w->block->cluster;
  if (w->cluster_phase == 0) {
    sim_fault (w, ins, -1, 0, CUDA_ERROR_LAUNCH_FAILED,
        "waits at the cluster barrier without having arrived");
    return;
  }
  if (c->phase < w->cluster_phase) { /* again when the others are there */
    w->pc--;
    w->cluster_wait = TRUE;
    w->stop = SIM_STOP_CLUSTER;
    return;
  }
  w->cluster_wait = FALSE;
  w->cluster_phase = 0;
  if (w->trace)
    sim_trace_step (w, STEP_CLUSTER, 0, 1);
  w->now = MAX (w->now, c->horizon_last);
  if (w->launch->check && acquire)
    join (w->seen, c->joined_last, c->n_agents);
}
