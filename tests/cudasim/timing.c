/* How a card's processors issue the instructions of a trace, cycle by cycle
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A warp belongs to a quarter of a processor, its number modulo four. Each
 * quarter issues one instruction a cycle, of the warp that has waited longest
 * of those whose next one (in the order of order.c) has its operands and its
 * pipe. When a result will be there is known when it is issued: latency, behind
 * what is in the queue of its unit.
 */
#include "player.h"

#include <string.h>

const gchar *const sim_cause_names[SIM_N_CAUSES] = { "issue", "math", "pipe",
  "sfu", "shuffle", "mma", "tensor", "shared", "conflict", "l2", "bandwidth",
  "remote", "barrier", "cluster", "fence", "early" };

const gchar *const sim_pipe_names[SIM_N_PIPES] = { "none", "fma", "alu",
  "either", "xu", "tensor", "lsu" };

/* ---- results ---- */

static void
wait_for (Warp *w, const Value *v)
{
  if (v->time > w->ready) {
    w->ready = v->time;
    w->cause = v->cause;
    w->queued = v->queued;
  }
}

static Value
latest (const Warp *w, const SimRun *r, guint node)
{
  Value v = { 0, CAUSE_MATH, 0 };
  for (guint k = r->first[node]; k < r->first[node + 1]; k++) {
    gint32 dep = r->deps[k];
    const Value *d = dep < 0 ? &w->rows[~dep] : &w->done[dep];
    if (d->time > v.time)
      v = *d;
  }
  return v;
}

static SimRun *
run_of (Player *p, const SimKernel *k, guint32 pc, guint32 n)
{
  gchar key[64];
  g_snprintf (key, sizeof key, "%p %u %u", (gconstpointer)k, pc, n);
  SimRun *r = g_hash_table_lookup (p->runs, key);
  if (!r) {
    r = sim_order (k, pc, n, p->card, sim_config.times_as_written);
    g_hash_table_insert (p->runs, g_strdup (key), r);
  }
  return r;
}

static const SimTouch *
touch_of (const Warp *w, guint node)
{
  const SimTouch *t = (const SimTouch *)(gpointer)w->trace->touches->data;
  guint low = w->step->mem, high = low + w->step->n_mem;
  while (low < high) {
    guint middle = (low + high) / 2;
    if (t[middle].at == node)
      return &t[middle];
    if (t[middle].at < node)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

/* ---- what comes next ---- */

static void
run_over (Warp *w)
{
  const SimRun *r = w->run;
  for (guint k = 0; k < r->n_outs; k++)
    w->rows[r->out_row[k]] = w->done[r->out_node[k]];
  w->run = NULL;
  w->next_step++;
}

gboolean
sim_advance (Player *p, Warp *w)
{
  w->ready = w->floor;
  w->cause = CAUSE_ISSUE;
  w->queued = 0;
  for (;;) {
    if (!w->run) {
      if (w->next_step >= w->trace->steps->len)
        return FALSE;
      w->step = &g_array_index (w->trace->steps, SimStep, w->next_step);
      if (w->step->type != STEP_RUN) {
        w->cost = (SimCost){ FALSE, PIPE_NONE, CAUSE_ISSUE, 1, 1, 4 };
        return TRUE;
      }
      w->run = run_of (p, w->launch->timed->kernel, w->step->pc, w->step->n);
      w->at = 0;
      if (w->n_done < w->run->n) {
        w->n_done = w->run->n;
        w->done = g_renew (Value, w->done, w->n_done);
      }
    }
    if (w->at == w->run->n) {
      run_over (w);
      continue;
    }
    guint node = w->run->order[w->at];
    Value v = latest (w, w->run, node);
    if (w->run->cost[node].is_free) {
      v.time += w->run->cost[node].latency;
      w->done[node] = v;
      w->at++;
      continue;
    }
    w->cost = w->run->cost[node];
    wait_for (w, &v);
    return TRUE;
  }
}

void
sim_wake (Player *p, Warp *w)
{
  Quarter *q = &p->quarters[w->quarter];
  q->next = MIN (q->next, MAX (w->ready, p->now + 1));
}

/* ---- memory ---- */

/* When a sector that is asked for now is in the processor. */
static guint64
fetch (Player *p, Processor *m, gdouble now, guint64 sector, Warp *w,
    gboolean cached, gdouble *queued)
{
  guint64 *there = NULL;
  if (cached) {
    there = sectors_at (w->launch->sectors, sector << 8 | w->processor);
    if (*there)
      return MAX (*there, (guint64)now + L1_LATENCY);
  }
  m->port = MAX (m->port, now) + 32.0 / PORT;
  p->l2 = MAX (p->l2, now) + 32.0 / p->card->l2;
  gdouble at = MAX (m->port, p->l2);
  *queued = MAX (*queued, at - now);
  guint64 arrives = (guint64)(at + L2_LATENCY);
  if (there)
    *there = arrives;
  return arrives;
}

static Value
access_memory (Player *p, Warp *w, const SimTouch *t, guint64 now)
{
  Processor *m = &p->processors[w->processor];
  const SimCost *c = &w->cost;
  Value v = { now + 4, c->cause, 0 };
  if (!t && c->cause != CAUSE_SHUFFLE)
    return v; /* no lane was to make it */
  guint64 begin = MAX (now, m->lsu);
  guint waves = t ? MAX (t->waves, 1) : 1;
  gdouble queued = (gdouble)(begin - now) + waves - 1;
  m->lsu = begin + waves;
  v.time = begin + waves - 1 + c->latency;
  if (w->waited)
    w->launch->use[w->processor].lsu += waves;
  if (c->cause == CAUSE_REMOTE) {
    m->remote = MAX (m->remote, (gdouble)begin) + t->bytes / REMOTE;
    queued = MAX (queued, m->remote - (gdouble)now);
    v.time = MAX (v.time, (guint64)m->remote + c->latency);
    w->stored = MAX (w->stored, v.time);
  } else if (t && t->n_sectors) {
    const guint64 *sectors =
        &g_array_index (w->trace->sectors, guint64, t->sector);
    v.time = 0;
    for (guint i = 0; i < t->n_sectors; i++) {
      guint64 at =
          fetch (p, m, (gdouble)begin, sectors[i], w, t->is_cached, &queued);
      v.time = MAX (v.time, at);
    }
    v.time += c->latency > L2_LATENCY ? c->latency - L2_LATENCY : 0;
    if (w->waited)
      w->launch->use[w->processor].bytes += 32 * (guint64)t->n_sectors;
  }
  v.queued = (guint32)queued;
  return v;
}

/* ---- steps that are no instructions of a run ---- */

static void
go_on (Player *p, Warp *w, guint64 when)
{
  w->floor = when;
  w->last = when;
  w->parked = FALSE;
  w->next_step++;
  sim_advance (p, w);
  sim_wake (p, w);
}

/* The path to here is the one of whoever came last. */
static void
inherit (Warp *w, const guint64 *spent, SimCause cause, guint64 cycles)
{
  if (w->spent != spent)
    memcpy (w->spent, spent, sizeof w->spent);
  w->spent[cause] += cycles;
}

static void
check_barrier (Player *p, BlockState *b, guint id)
{
  BarrierState *bar = &b->barriers[id];
  guint wanted = bar->wanted ? bar->wanted : b->n_live;
  if (!bar->n || bar->n < wanted)
    return;
  guint64 cost = 22 + 2 * b->launch->timed->warps;
  guint64 spent[SIM_N_CAUSES];
  memcpy (spent, bar->latest->spent, sizeof spent);
  bar->n = 0;
  for (guint i = 0; i < b->launch->timed->warps; i++) {
    Warp *w = &b->warps[i];
    if (w->parked && w->at_barrier == (gint)id) {
      w->at_barrier = -1;
      inherit (w, spent, CAUSE_BARRIER, cost);
      go_on (p, w, bar->latest_at + cost);
    }
  }
}

static void
check_cluster (Player *p, ClusterState *c)
{
  if (!c->arrived || c->arrived < c->n_live)
    return;
  c->arrived = 0;
  c->phase++;
  c->opens = c->latest_at + CLUSTER_BARRIER;
  for (guint i = 0; i < c->n_waiting; i++) {
    Warp *w = c->waiting[i];
    inherit (w, c->spent, CAUSE_CLUSTER, CLUSTER_BARRIER);
    go_on (p, w, c->opens);
  }
  c->n_waiting = 0;
  c->latest_at = 0;
}

static void
trigger (Player *p, BlockState *b)
{
  if (b->triggered)
    return;
  b->triggered = TRUE;
  b->launch->n_triggered++;
  p->check_launches = TRUE;
}

static void
end_block (Player *p, BlockState *b, guint64 now)
{
  LaunchState *l = b->launch;
  Processor *m = &p->processors[b->processor];
  m->room += l->room;
  m->threads -= l->timed->warps * SIM_LANES;
  m->shared -= l->timed->shared;
  m->n_blocks--;
  l->use[b->processor].n_blocks--;
  l->n_ended++;
  trigger (p, b);
  p->check_launches = TRUE;
  l->times->end = MAX (l->times->end, now);
}

void
sim_end_warp (Player *p, Warp *w, guint64 now)
{
  BlockState *b = w->block;
  LaunchState *l = w->launch;
  w->is_over = TRUE;
  if (now >= l->last_end) {
    l->last_end = now;
    memcpy (l->times->spent, w->spent, sizeof w->spent);
  }
  Quarter *q = &p->quarters[w->quarter];
  for (guint i = 0; i < q->n; i++)
    if (q->warps[i] == w) {
      memmove (
          &q->warps[i], &q->warps[i + 1], (q->n - i - 1) * sizeof *q->warps);
      q->n--;
      break;
    }
  g_clear_pointer (&w->rows, g_free);
  g_clear_pointer (&w->done, g_free);
  b->n_live--;
  b->cluster->n_live--;
  for (guint i = 0; i < 16; i++)
    check_barrier (p, b, i);
  check_cluster (p, b->cluster);
  if (!b->n_live)
    end_block (p, b, now);
}

void
sim_release (Player *p, Warp *w, guint64 when)
{
  LaunchState *l = w->launch;
  memset (w->spent, 0, sizeof w->spent);
  if (w->arrived > when) {
    w->spent[CAUSE_EARLY] = w->arrived - when;
    l->times->exposed = MAX (l->times->exposed, w->arrived - when);
  }
  w->waited = TRUE;
  if (sim_config.times_late_trigger)
    trigger (p, w->block);
  go_on (p, w, MAX (when, w->arrived));
}

static void
do_step (Player *p, Warp *w, guint64 now)
{
  BlockState *b = w->block;
  const SimStep *s = w->step;
  w->arrived = now;
  w->parked = TRUE;
  switch ((SimStepType)s->type) {
    case STEP_BARRIER: {
      guint id = s->arg & 15;
      BarrierState *bar = &b->barriers[id];
      bar->n++;
      bar->wanted = s->n;
      bar->latest = w;
      bar->latest_at = now;
      w->at_barrier = s->arg & 16 ? -1 : (gint)id;
      if (s->arg & 16)
        go_on (p, w, now + 1);
      check_barrier (p, b, id);
      break;
    }
    case STEP_ARRIVE:
      b->cluster->arrived++;
      if (MAX (now, w->stored) >= b->cluster->latest_at) {
        ClusterState *c = b->cluster;
        c->latest_at = MAX (now, w->stored);
        memcpy (c->spent, w->spent, sizeof c->spent);
        c->spent[CAUSE_REMOTE] += c->latest_at - now;
      }
      w->phase = b->cluster->phase + 1;
      go_on (p, w, now + 1);
      check_cluster (p, b->cluster);
      break;
    case STEP_CLUSTER:
      if (b->cluster->phase >= w->phase) {
        if (b->cluster->opens > now)
          inherit (w, b->cluster->spent, CAUSE_CLUSTER, CLUSTER_BARRIER);
        go_on (p, w, MAX (now, b->cluster->opens));
      } else
        b->cluster->waiting[b->cluster->n_waiting++] = w;
      break;
    case STEP_DEPENDENCY:
      w->launch->times->early = MAX (w->launch->times->early, now - b->begun);
      if (w->waited) /* of a launch that has nothing to wait for */
        go_on (p, w, now + 1);
      else if (w->launch->is_released)
        sim_release (p, w, w->launch->times->release);
      else
        g_ptr_array_add (w->launch->waiting, w);
      break;
    case STEP_TRIGGER:
      if (!sim_config.times_late_trigger)
        trigger (p, b);
      go_on (p, w, now + 1);
      break;
    case STEP_ASYNC: {
      guint n = w->n_groups + (w->copying > 0), skip = s->n;
      guint64 until = now + 1;
      if (n > skip)
        until = MAX (until, w->group[MIN (n - skip, ASYNC_GROUPS) - 1]);
      if (!skip)
        until = MAX (until, w->copying);
      w->spent[CAUSE_L2] += until - now;
      go_on (p, w, until);
      break;
    }
    case STEP_RUN:
      break;
  }
}

/* ---- issue ---- */

static void
account (Warp *w, guint64 now)
{
  guint64 stalled = w->ready > w->last ? w->ready - w->last : 0;
  guint64 queued = MIN (stalled, w->queued);
  SimCause queue = w->cause == CAUSE_L2       ? CAUSE_BANDWIDTH
                   : w->cause == CAUSE_SHARED ? CAUSE_CONFLICT
                                              : w->cause;
  w->spent[queue] += queued;
  w->spent[w->cause] += stalled - queued;
  if (now > w->last + stalled)
    w->spent[w->cost.pipe == PIPE_TENSOR && w->by_pipe ? CAUSE_TENSOR
             : w->by_pipe                              ? CAUSE_PIPE
                          : CAUSE_ISSUE] += now - w->last - stalled;
  w->by_pipe = FALSE;
  w->last = now;
}

static SimPipe
either (const Quarter *q)
{
  return q->pipe[PIPE_FMA] < q->pipe[PIPE_ALU] ? PIPE_FMA : PIPE_ALU;
}

static void
issue (Player *p, Quarter *q, Warp *w, guint64 now)
{
  const SimCost *c = &w->cost;
  Use *use = &w->launch->use[w->processor];
  account (w, now);
  w->issued = now;
  w->floor = now + c->slots;
  if (w->waited)
    use->issued += c->slots;
  if (!w->run) {
    do_step (p, w, now);
    return;
  }
  guint node = w->run->order[w->at];
  const SimIns *ins = &w->launch->timed->kernel->code[w->step->pc + node];
  Value v = { now + c->latency, c->cause, 0 };
  if (c->pipe == PIPE_TENSOR) {
    q->tensor = MAX (q->tensor, now * 64) + c->busy;
    if (w->waited)
      use->tensor += c->busy;
  } else if (c->pipe == PIPE_LSU) {
    if (ins->op == OP_cp_async_commit) {
      if (w->n_groups < ASYNC_GROUPS)
        w->group[w->n_groups] =
            MAX (w->copying, w->n_groups ? w->group[w->n_groups - 1] : 0);
      w->n_groups++;
      w->copying = 0;
    } else {
      v = access_memory (p, w, touch_of (w, node), now);
      if (ins->op == OP_cp_async)
        w->copying = MAX (w->copying, v.time);
    }
  } else if (c->pipe == PIPE_EITHER) {
    q->pipe[either (q)] = now + c->busy;
  } else if (c->pipe != PIPE_NONE) {
    q->pipe[c->pipe] = now + c->busy;
  }
  if (ins->kind == SIM_KIND_FENCE || ins->kind == SIM_KIND_CONTROL) {
    w->floor = now + c->latency;
    if (ins->kind == SIM_KIND_FENCE)
      w->spent[CAUSE_FENCE] += c->latency - 1, w->last = w->floor - 1;
  }
  w->done[node] = v;
  w->at++;
  if (!sim_advance (p, w))
    sim_end_warp (p, w, w->floor);
}

static guint64
pipe_free (const Quarter *q, const Warp *w)
{
  return w->cost.pipe == PIPE_TENSOR   ? q->tensor / 64
         : w->cost.pipe == PIPE_EITHER ? q->pipe[either (q)]
                                       : q->pipe[w->cost.pipe];
}

void
sim_step_quarter (Player *p, Quarter *q)
{
  guint64 now = p->now, soonest = G_MAXUINT64;
  Warp *best = NULL;
  for (guint i = 0; i < q->n; i++) {
    Warp *w = q->warps[i];
    if (w->parked)
      continue;
    guint64 at = MAX (w->ready, pipe_free (q, w));
    if (at > now) {
      w->by_pipe |= w->ready <= now;
      soonest = MIN (soonest, at);
    } else if (!best || w->issued < best->issued) {
      best = w;
    }
  }
  q->next = best ? now + best->cost.slots : soonest;
  if (best)
    issue (p, q, best, now);
}
