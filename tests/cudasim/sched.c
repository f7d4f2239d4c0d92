/* Runs a launch: clusters in random order, their blocks and warps interleaved
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A warp runs until it waits, ends, or has used its turn. A cluster whose
 * warps all wait is a deadlock. Where a kernel takes very long, more clusters
 * are let in beside those that run: one may be waiting for a flag that
 * another sets.
 */
#include "sim.h"
#include "ops-list.h"

#include <stdio.h>
#include <string.h>

#define TURN 4096                  /* warp instructions */
#define PATIENCE (2 * 1000 * 1000) /* warp instructions until more are let in */
#define MAX_REPORTS 8

void
sim_fault (SimWarp *w, const SimIns *ins, gint lane, guint64 address,
    CUresult error, const gchar *format, ...)
{
  SimLaunch *launch = w->launch;
  w->stop = SIM_STOP_FAULT;
  if (!launch->error)
    launch->error = error;
  if (launch->n_faults++ >= MAX_REPORTS || sim_config.quiet)
    return;
  va_list args;
  va_start (args, format);
  gchar *text = g_strdup_vprintf (format, args);
  va_end (args);
  GString *where = g_string_new (NULL);
  g_string_append_printf (where, "cudasim: %s, PTX line %u",
      launch->kernel->name, ins ? ins->line : 0);
  if (ins)
    g_string_append_printf (where, " (%s)", sim_ops[ins->op].name);
  g_string_append_printf (where, ", block (%u, %u, %u)", w->block->index[0],
      w->block->index[1], w->block->index[2]);
  if (lane >= 0) {
    guint t = w->id * SIM_LANES + (guint)lane;
    g_string_append_printf (where, " thread (%u, %u, %u)", t % launch->block[0],
        t / launch->block[0] % launch->block[1],
        t / launch->block[0] / launch->block[1]);
  } else {
    g_string_append_printf (where, " warp %u", w->id);
  }
  fprintf (stderr, "%s, address 0x%" G_GINT64_MODIFIER "x: %s\n", where->str,
      address, text);
  g_string_free (where, TRUE);
  g_free (text);
}

/* ---- lanes of a warp ---- */

void
sim_set_mask (SimWarp *w, guint32 mask)
{
  w->mask = mask;
  for (guint l = 0; l < SIM_LANES; l++)
    w->lane[l] = -(mask >> l & 1);
}

/* Runs on with the group that is furthest behind, joined by those that have
 * come to the same place. Parked groups wait for others to come. */
static void
regroup (SimWarp *w)
{
  if (w->mask) {
    w->group[w->n_groups].pc = w->pc;
    w->group[w->n_groups].mask = w->mask;
    w->group[w->n_groups].parked = FALSE;
    w->group[w->n_groups].leaving = 0;
    w->n_groups++;
  }
  for (guint i = 0; i < w->n_groups; i++)
    for (guint j = i + 1; j < w->n_groups;) {
      if (w->group[i].pc == w->group[j].pc) {
        w->group[i].mask |= w->group[j].mask;
        w->group[i].parked = FALSE;
        w->group[j] = w->group[--w->n_groups];
      } else {
        j++;
      }
    }
  gint best = -1;
  for (guint i = 0; i < w->n_groups; i++)
    if (!w->group[i].parked && (best < 0 || w->group[i].pc < w->group[best].pc))
      best = (gint)i;
  if (best < 0) { /* all wait for each other: look again, and fail */
    for (guint i = 0; i < w->n_groups; i++) {
      w->group[i].parked = FALSE;
      if (best < 0 || w->group[i].pc < w->group[best].pc)
        best = (gint)i;
    }
    if (best < 0)
      return;
  }
  w->pc = w->group[best].pc;
  sim_set_mask (w, w->group[best].mask);
  w->group[best] = w->group[--w->n_groups];
  w->next_pc = G_MAXUINT32;
  for (guint i = 0; i < w->n_groups; i++)
    w->next_pc = MIN (w->next_pc, w->group[i].parked ? 0 : w->group[i].pc);
}

void
sim_branch (SimWarp *w, guint32 taken, guint32 target)
{
  w->group[w->n_groups++] = (SimGroup){ target, taken, FALSE, 0 };
  w->mask &= ~taken;
  regroup (w);
}

void
sim_exit (SimWarp *w, guint32 lanes)
{
  const SimIns *code = w->launch->kernel->code;
  /* To leave before a barrier is fine, to go around it is not. */
  for (guint i = 0; i < w->n_groups; i++) {
    const SimIns *at = &code[w->group[i].pc];
    if (w->group[i].parked && at->kind == SIM_KIND_BARRIER &&
        lanes & ~w->group[i].leaving) {
      sim_fault (w, at, __builtin_ctz (w->group[i].mask), 0,
          CUDA_ERROR_LAUNCH_FAILED,
          "divergent: lanes %08x wait here, %08x went around it",
          w->group[i].mask, lanes);
      return;
    }
  }
  w->live &= ~lanes;
  w->block->n_live -= (guint)__builtin_popcount (lanes);
  w->mask = 0;
  /* Parked groups may have waited for these lanes. */
  for (guint i = 0; i < w->n_groups; i++)
    w->group[i].parked = FALSE;
  if (w->n_groups)
    regroup (w);
  else
    w->stop = SIM_STOP_EXIT;
}

gboolean
sim_gather (SimWarp *w, const SimIns *ins, guint32 wanted)
{
  if (G_LIKELY ((w->mask & wanted) == wanted))
    return TRUE;
  if (wanted & ~w->live) {
    sim_fault (w, ins, __builtin_ctz (wanted & ~w->live), 0,
        CUDA_ERROR_LAUNCH_FAILED,
        "waits for lanes %08x, which have exited or never were",
        wanted & ~w->live);
    return FALSE;
  }
  const SimIns *code = w->launch->kernel->code;
  gboolean others = FALSE;
  guint32 leaving = 0;
  for (guint i = 0; i < w->n_groups; i++) {
    others |= !w->group[i].parked;
    if (code[w->group[i].pc].op == OP_exit)
      leaving |= w->group[i].mask;
  }
  if (!others) {
    sim_fault (w, ins, __builtin_ctz (w->mask), 0, CUDA_ERROR_LAUNCH_FAILED,
        "divergent: lanes %08x are here, %08x were to come and are elsewhere",
        w->mask, wanted & ~w->mask);
    return FALSE;
  }
  w->group[w->n_groups++] = (SimGroup){ w->pc - 1, w->mask, TRUE, leaving };
  w->mask = 0;
  w->stop = SIM_STOP_REGROUP;
  return FALSE;
}

void
sim_warp_run (SimWarp *w)
{
  const SimIns *code = w->launch->kernel->code;
  guint64 *executed = w->launch->kernel->executed;
  gboolean slow = w->launch->count;
  gint64 budget = TURN;

  w->stop = SIM_STOP_NO;
  for (;;) {
    const SimIns *ins = &code[w->pc];
    executed[w->pc]++;
    w->pc++;
    if (G_UNLIKELY (slow))
      sim_chain (w, ins);
    ins->exec (w, ins);
    if (G_UNLIKELY (w->stop)) {
      if (w->stop != SIM_STOP_REGROUP)
        break;
      w->stop = SIM_STOP_NO;
      regroup (w);
    } else if (G_UNLIKELY (w->pc >= w->next_pc)) {
      regroup (w);
    }
    if (G_UNLIKELY (--budget <= 0)) {
      w->stop = SIM_STOP_YIELD;
      break;
    }
  }
  w->budget += TURN - budget;
}

/* ---- barriers ---- */

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
  /* With a number of threads, whole warps are counted. */
  bar->arrived += threads ? SIM_LANES : (guint)__builtin_popcount (w->mask);
  bar->horizon = MAX (bar->horizon, w->horizon);
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
static void
barriers_recheck (SimBlock *b)
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

static void
cluster_recheck (SimCluster *c)
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
  if (w->launch->check && release) {
    w->seen[w->agent - c->first * w->block->n_warps] = w->clock++;
    join (c->joined, w->seen, c->n_agents);
  }
  c->horizon = MAX (c->horizon, w->horizon);
  c->arrived++;
  cluster_recheck (c);
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
  w->now = MAX (w->now, c->horizon_last);
  if (w->launch->check && acquire)
    join (w->seen, c->joined_last, c->n_agents);
}

/* ---- blocks ---- */

static gboolean
runnable (const SimWarp *w)
{
  if (w->done || w->barrier >= 0)
    return FALSE;
  return !w->cluster_wait || w->block->cluster->phase >= w->cluster_phase;
}

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

static SimCluster *
cluster_new (SimLaunch *launch)
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

static void
cluster_free (SimCluster *c)
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
  w->now = w->horizon = 0;
  if (w->ready)
    memset (w->ready, 0, w->launch->kernel->n_rows * sizeof (guint64));
  if (w->local)
    memset (w->local, 0xff, w->launch->kernel->local_bytes * SIM_LANES);
  fill_specials (w);
  if (w->launch->check)
    sim_race_init (w);
}

/* Sets a cluster to the blocks of number `index`. */
static void
cluster_start (SimCluster *c, guint index)
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
  barriers_recheck (b);
  cluster_recheck (b->cluster);
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
      g_ptr_array_new_with_free_func ((GDestroyNotify)cluster_free);
  guint64 last = launch->deadline = sim_config.budget;

  launch->warps_per_block =
      (launch->block[0] * launch->block[1] * launch->block[2] + 31) / 32;
  for (guint i = 0; i < 3; i++)
    n_clusters *= launch->grid[i] / launch->cluster[i];
  launch->n_agents = launch->grid[0] * launch->grid[1] * launch->grid[2] *
                     launch->warps_per_block;
  launch->check = sim_config.check != SIM_CHECK_OFF;
  launch->check_all = sim_config.check == SIM_CHECK_FULL;
  launch->count = sim_config.count;
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
                          : cluster_new (launch);
      cluster_start (c, order[next++]);
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
  k->counts.max_chain = MAX (k->counts.max_chain, launch->chain);
  sim_race_launch_end (launch);
  g_free (order);
  for (guint i = 0; i < launch->resident->len; i++)
    cluster_free (launch->resident->pdata[i]);
  g_ptr_array_unref (launch->resident);
  g_ptr_array_unref (spare);
  return launch->error;
}
