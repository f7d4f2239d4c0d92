/* Runs a launch: clusters in random order, their blocks and warps interleaved
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A warp runs until it waits, ends, or has used its turn. A cluster whose
 * warps all wait is a deadlock. Where a kernel takes very long, more clusters
 * are let in beside those that run: one may be waiting for a flag that
 * another sets.
 */
#include "sim.h"
#include "timing.h"

#define PATIENCE (2 * 1000 * 1000) /* warp instructions until more are let in */

static gboolean
runnable (const SimWarp *w)
{
  if (w->done || w->barrier >= 0)
    return FALSE;
  return !w->cluster_wait || w->block->cluster->phase >= w->cluster_phase;
}

static void
warp_end (SimWarp *w)
{
  SimBlock *b = w->block;
  SimLaunch *launch = w->launch;
  w->done = TRUE;
  b->n_done++;
  if (w->async && w->async->len)
    g_array_set_size (w->async, 0);
  launch->chain = MAX (launch->chain, w->horizon);
  if (w->launch->check)
    sim_race_clear (w);
  if (!w->at_wait)
    launch->waits_all = FALSE;
  sim_barriers_recheck (b);
  sim_cluster_recheck (b->cluster);
  if (b->n_done == b->n_warps)
    b->cluster->n_done++;
}

static void
report_deadlock (SimCluster *c)
{
  for (guint i = 0; i < c->n_blocks; i++)
    for (guint j = 0; j < c->blocks[i].n_warps; j++) {
      SimWarp *w = &c->blocks[i].warps[j];
      if (w->done)
        continue;
      const SimIns *ins =
          &w->launch->kernel->code[w->cluster_wait ? w->pc : w->pc - 1];
      if (w->cluster_wait)
        sim_fault (w, ins, -1, 0, CUDA_ERROR_LAUNCH_TIMEOUT,
            "waits for ever at the cluster barrier: %u warps arrived",
            c->arrived);
      else
        sim_fault (w, ins, -1, (guint64)w->barrier, CUDA_ERROR_LAUNCH_TIMEOUT,
            "waits for ever at barrier %d: %u threads came", w->barrier,
            c->blocks[i].barriers[w->barrier].arrived);
    }
}

/* Gives one warp of the cluster its turn. FALSE: nothing can run. */
static gboolean
cluster_turn (SimCluster *c)
{
  SimLaunch *launch = c->launch;
  guint64 r = sim_random (&launch->rng);
  guint n = c->n_agents, start = (guint)(r % n), per = launch->warps_per_block;
  for (guint k = 0; k < n; k++) {
    guint at = start + k < n ? start + k : start + k - n;
    SimWarp *w = &c->blocks[at / per].warps[at % per];
    if (!runnable (w))
      continue;
    w->budget = 0;
    sim_warp_run (w);
    guint64 spent = (guint64)w->budget;
    if (w->stop == SIM_STOP_EXIT)
      warp_end (w);
    if (spent >= launch->deadline) {
      launch->deadline = 0;
      sim_fault (w, &launch->kernel->code[w->pc ? w->pc - 1 : 0], -1, 0,
          CUDA_ERROR_LAUNCH_TIMEOUT,
          "the budget of %" G_GUINT64_FORMAT " warp instructions is spent",
          sim_config.budget);
    } else {
      launch->deadline -= spent;
    }
    return TRUE;
  }
  return FALSE;
}

CUresult
sim_run (SimLaunch *launch)
{
  SimKernel *k = launch->kernel;
  guint n_clusters = 1, next = 0, want;
  GPtrArray *spare =
      g_ptr_array_new_with_free_func ((GDestroyNotify)sim_cluster_free);
  guint64 last = launch->deadline = sim_config.budget;

  launch->warps_per_block =
      (launch->block[0] * launch->block[1] * launch->block[2] + 31) / 32;
  for (guint i = 0; i < 3; i++)
    n_clusters *= launch->grid[i] / launch->cluster[i];
  launch->n_agents = launch->grid[0] * launch->grid[1] * launch->grid[2] *
                     launch->warps_per_block;
  launch->check = sim_config.check != SIM_CHECK_OFF;
  launch->check_all = sim_config.check == SIM_CHECK_FULL;
  launch->timed = sim_timed ? sim_timed_new (launch) : NULL;
  launch->count = sim_config.count || launch->timed;
  launch->waits_all = TRUE;
  launch->rng = sim_config.seed * 0x9e3779b97f4a7c15ull + launch->serial;
  launch->resident = g_ptr_array_new ();

  guint *order = g_new (guint, n_clusters);
  for (guint i = 0; i < n_clusters; i++) {
    guint j = (guint)(sim_random (&launch->rng) % (i + 1));
    order[i] = order[j];
    order[j] = i;
  }
  want = launch->cooperative ? n_clusters
         : launch->check     ? 1 + (guint)(sim_random (&launch->rng) % 3)
                             : 1;
  while ((launch->resident->len || next < n_clusters) && !launch->error) {
    while (launch->resident->len < want && next < n_clusters) {
      SimCluster *c = spare->len
                          ? g_ptr_array_steal_index_fast (spare, spare->len - 1)
                          : sim_cluster_new (launch);
      sim_cluster_start (c, order[next++]);
      g_ptr_array_add (launch->resident, c);
    }
    guint pick =
        launch->resident->len == 1
            ? 0
            : (guint)(sim_random (&launch->rng) % launch->resident->len);
    SimCluster *c = launch->resident->pdata[pick];
    if (!cluster_turn (c))
      report_deadlock (c);
    if (c->n_done == c->n_blocks) {
      g_ptr_array_remove_index_fast (launch->resident, pick);
      g_ptr_array_add (spare, c);
      last = launch->deadline;
    } else if (last - launch->deadline > PATIENCE) {
      want = launch->resident->len + 1;
      last = launch->deadline;
    }
  }
  k->counts.launches++;
  k->counts.blocks += next * (guint64)launch->cluster[0] * launch->cluster[1] *
                      launch->cluster[2];
  k->counts.warps += launch->n_agents;
  k->counts.chain += launch->chain;
  k->counts.early_chain += launch->early_chain;
  k->counts.max_chain = MAX (k->counts.max_chain, launch->chain);
  sim_race_launch_end (launch);
  g_free (order);
  for (guint i = 0; i < launch->resident->len; i++)
    sim_cluster_free (launch->resident->pdata[i]);
  g_ptr_array_unref (launch->resident);
  g_ptr_array_unref (spare);
  if (launch->timed)
    g_ptr_array_add (sim_timed, launch->timed);
  return launch->error;
}
