/* Blocks and clusters: their memory, their warps, their special registers
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "timing.h"

#include <string.h>

static void
fill_specials (SimWarp *w)
{
  SimKernel *k = w->launch->kernel;
  SimLaunch *launch = w->launch;
  SimBlock *b = w->block;
  const guint *g = launch->grid, *c = launch->cluster, *n = launch->block;
  for (guint i = 0; i < k->n_special; i++) {
    guint32 *row = (guint32 *)(void *)(w->base[0] + k->special[i].offset);
    SimSpecial which = k->special[i].which;
    for (guint l = 0; l < SIM_LANES; l++) {
      guint t = w->id * SIM_LANES + l;
      guint32 v = 0;
      switch (which) {
        case SIM_SR_TID_X:
          v = t % n[0];
          break;
        case SIM_SR_TID_Y:
          v = t / n[0] % n[1];
          break;
        case SIM_SR_TID_Z:
          v = t / n[0] / n[1];
          break;
        case SIM_SR_NTID_X:
        case SIM_SR_NTID_Y:
        case SIM_SR_NTID_Z:
          v = n[which - SIM_SR_NTID_X];
          break;
        case SIM_SR_CTAID_X:
        case SIM_SR_CTAID_Y:
        case SIM_SR_CTAID_Z:
          v = b->index[which - SIM_SR_CTAID_X];
          break;
        case SIM_SR_NCTAID_X:
        case SIM_SR_NCTAID_Y:
        case SIM_SR_NCTAID_Z:
          v = g[which - SIM_SR_NCTAID_X];
          break;
        case SIM_SR_LANEID:
          v = l;
          break;
        case SIM_SR_WARPID:
          v = w->id;
          break;
        case SIM_SR_NWARPID:
          v = b->n_warps;
          break;
        case SIM_SR_LANEMASK_EQ:
          v = 1u << l;
          break;
        case SIM_SR_LANEMASK_LT:
          v = (1u << l) - 1;
          break;
        case SIM_SR_LANEMASK_LE:
          v = (2u << l) - 1;
          break;
        case SIM_SR_LANEMASK_GT:
          v = ~((2u << l) - 1);
          break;
        case SIM_SR_LANEMASK_GE:
          v = ~((1u << l) - 1);
          break;
        case SIM_SR_CLUSTERID_X:
        case SIM_SR_CLUSTERID_Y:
        case SIM_SR_CLUSTERID_Z:
          v = b->index[which - SIM_SR_CLUSTERID_X] /
              c[which - SIM_SR_CLUSTERID_X];
          break;
        case SIM_SR_NCLUSTERID_X:
        case SIM_SR_NCLUSTERID_Y:
        case SIM_SR_NCLUSTERID_Z:
          v = g[which - SIM_SR_NCLUSTERID_X] / c[which - SIM_SR_NCLUSTERID_X];
          break;
        case SIM_SR_CLUSTER_CTAID_X:
        case SIM_SR_CLUSTER_CTAID_Y:
        case SIM_SR_CLUSTER_CTAID_Z:
          v = b->index[which - SIM_SR_CLUSTER_CTAID_X] %
              c[which - SIM_SR_CLUSTER_CTAID_X];
          break;
        case SIM_SR_CLUSTER_NCTAID_X:
        case SIM_SR_CLUSTER_NCTAID_Y:
        case SIM_SR_CLUSTER_NCTAID_Z:
          v = c[which - SIM_SR_CLUSTER_NCTAID_X];
          break;
        case SIM_SR_CLUSTER_CTARANK:
          v = b->rank;
          break;
        case SIM_SR_CLUSTER_NCTARANK:
          v = c[0] * c[1] * c[2];
          break;
        case SIM_SR_IS_EXPLICIT_CLUSTER:
          v = c[0] * c[1] * c[2] > 1 ? ~0u : 0;
          break;
        case SIM_SR_SMID:
          v = b->linear % 132;
          break;
        case SIM_SR_NSMID:
          v = 132;
          break;
        case SIM_SR_GRIDID:
          v = (guint32)launch->serial;
          break;
        case SIM_SR_DYNAMIC_SMEM_SIZE:
          v = (guint32)launch->dynamic;
          break;
        case SIM_SR_TOTAL_SMEM_SIZE:
          v = b->shared_size;
          break;
        case SIM_N_SR:
          break;
      }
      row[l] = v;
    }
  }
}

static gsize
shared_of (const SimLaunch *launch)
{
  gsize fixed = launch->kernel->shared_bytes;
  return launch->dynamic ? (fixed + 15) / 16 * 16 + launch->dynamic : fixed;
}

SimCluster *
sim_cluster_new (SimLaunch *launch)
{
  SimKernel *k = launch->kernel;
  SimCluster *c = g_new0 (SimCluster, 1);
  gsize shared = shared_of (launch);
  c->launch = launch;
  c->n_blocks = launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
  c->n_agents = c->n_blocks * launch->warps_per_block;
  c->blocks = g_new0 (SimBlock, c->n_blocks);
  c->joined = g_new0 (guint32, c->n_agents);
  c->joined_last = g_new0 (guint32, c->n_agents);
  for (guint i = 0; i < c->n_blocks; i++) {
    SimBlock *b = &c->blocks[i];
    b->launch = launch;
    b->cluster = c;
    b->rank = i;
    b->shared_size = (guint32)shared;
    b->shared = g_aligned_alloc (shared + 64, 1, 128);
    b->shadow = launch->check ? g_new (SimShadow, shared / 4 + 8) : NULL;
    b->n_warps = launch->warps_per_block;
    b->warps = g_aligned_alloc0 (b->n_warps, sizeof (SimWarp), 64);
    for (guint j = 0; j < b->n_warps; j++) {
      SimWarp *w = &b->warps[j];
      w->launch = launch;
      w->block = b;
      w->id = j;
      w->base[0] = g_aligned_alloc0 (k->reg_bytes + 64, 1, 64);
      w->base[1] = k->consts;
      if (k->local_bytes)
        w->local = g_malloc (k->local_bytes * SIM_LANES);
      if (launch->check)
        w->seen = g_new0 (guint32, c->n_agents);
      if (launch->count)
        w->ready = g_new0 (guint64, k->n_rows + 1);
    }
  }
  return c;
}

void
sim_cluster_free (SimCluster *c)
{
  for (guint i = 0; i < c->n_blocks; i++) {
    SimBlock *b = &c->blocks[i];
    for (guint j = 0; j < b->n_warps; j++) {
      SimWarp *w = &b->warps[j];
      g_aligned_free (w->base[0]);
      g_free (w->local);
      g_free (w->seen);
      g_free (w->ready);
      if (w->async)
        g_array_unref (w->async);
    }
    for (guint j = 0; j < G_N_ELEMENTS (b->barriers); j++)
      if (b->barriers[j].joined)
        g_array_unref (b->barriers[j].joined);
    g_aligned_free (b->warps);
    g_aligned_free (b->shared);
    g_free (b->shadow);
  }
  g_free (c->blocks);
  g_free (c->joined);
  g_free (c->joined_last);
  g_free (c);
}

static void
warp_start (SimWarp *w, guint threads)
{
  guint first = w->id * SIM_LANES;
  guint n = MIN (threads - first, SIM_LANES);
  w->live = n == SIM_LANES ? SIM_FULL : (1u << n) - 1;
  sim_set_mask (w, w->live);
  w->pc = 0;
  w->next_pc = G_MAXUINT32;
  w->n_groups = 0;
  w->barrier = -1;
  w->cluster_wait = w->done = w->at_wait = FALSE;
  w->cluster_phase = 0;
  w->agent = w->block->linear * w->block->n_warps + w->id;
  w->checked = w->block->checked;
  w->alloc_lo = w->alloc_hi = 0;
  w->async_group = 0;
  if (w->async)
    g_array_set_size (w->async, 0);
  w->trace = w->launch->timed
                 ? &((SimTimed *)w->launch->timed)->traces[w->agent]
                 : NULL;
  w->now = w->horizon = w->stored = w->issued = w->n_run = 0;
  if (w->ready)
    memset (w->ready, 0, w->launch->kernel->n_rows * sizeof (guint64));
  if (w->local)
    memset (w->local, 0xff, w->launch->kernel->local_bytes * SIM_LANES);
  fill_specials (w);
  if (w->launch->check)
    sim_race_init (w);
}

/* Sets a cluster to the blocks of number `index`. */
void
sim_cluster_start (SimCluster *c, guint index)
{
  SimLaunch *launch = c->launch;
  const guint *d = launch->cluster;
  guint n[3], at[3];
  guint total = launch->grid[0] * launch->grid[1] * launch->grid[2];
  for (guint i = 0; i < 3; i++)
    n[i] = launch->grid[i] / d[i];
  at[0] = index % n[0];
  at[1] = index / n[0] % n[1];
  at[2] = index / n[0] / n[1];
  c->first = index * c->n_blocks;
  c->arrived = c->phase = c->n_done = 0;
  memset (c->joined, 0, c->n_agents * sizeof (guint32));
  for (guint i = 0; i < c->n_blocks; i++) {
    SimBlock *b = &c->blocks[i];
    b->index[0] = at[0] * d[0] + i % d[0];
    b->index[1] = at[1] * d[1] + i / d[0] % d[1];
    b->index[2] = at[2] * d[2] + i / d[0] / d[1];
    b->linear = c->first + i;
    b->n_done = 0;
    b->waited = b->triggered = FALSE;
    b->n_live = launch->block[0] * launch->block[1] * launch->block[2];
    b->checked = launch->check && (launch->check_all || c->first == 0 ||
                                      c->first + c->n_blocks == total);
    memset (b->shared, 0xff, b->shared_size);
    if (b->shadow)
      memset (b->shadow, 0, (b->shared_size / 4 + 8) * sizeof (SimShadow));
    for (guint j = 0; j < G_N_ELEMENTS (b->barriers); j++)
      b->barriers[j].arrived = 0;
    for (guint j = 0; j < b->n_warps; j++)
      warp_start (&b->warps[j], b->n_live);
  }
}
