/* Plays traces on a card: which blocks run where, and when launches begin
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Blocks go to the processor that has the fewest, clusters at once. A launch
 * begins, with programmatic dependent launch, once all blocks of the one before
 * have let it, and waits for that one's end; else when it has ended.
 */
#include "player.h"

static void
begin_block (Player *p, LaunchState *l, ClusterState *c, guint index, guint at)
{
  const SimTimed *t = l->timed;
  BlockState *b = &l->blocks[index];
  Processor *m = &p->processors[at];
  b->launch = l;
  b->cluster = c;
  b->processor = at;
  b->begun = p->now;
  b->n_live = t->warps;
  b->warps = g_new0 (Warp, t->warps);
  m->room -= l->room;
  m->threads += t->warps * SIM_LANES;
  m->shared += t->shared;
  m->n_blocks++;
  l->use[at].n_blocks++;
  for (guint i = 0; i < t->warps; i++) {
    Warp *w = &b->warps[i];
    w->launch = l;
    w->block = b;
    w->processor = at;
    w->quarter = at * 4 + i % 4;
    w->trace = &t->traces[index * t->warps + i];
    w->rows = g_new0 (Value, t->kernel->n_rows + 1);
    w->at_barrier = -1;
    w->floor = w->last = p->now;
    w->waited = !l->programmatic;
    Quarter *q = &p->quarters[w->quarter];
    if (q->n == QUARTER_WARPS) {
      p->is_stuck = TRUE;
      return;
    }
    q->warps[q->n++] = w;
  }
  for (guint i = 0; i < t->warps; i++)
    if (sim_advance (p, &b->warps[i])) {
      sim_wake (p, &b->warps[i]);
      p->quarters[b->warps[i].quarter].next = p->now;
    } else {
      sim_end_warp (p, &b->warps[i], p->now);
    }
}

/* Of those that have the fewest, the next after the last that was found. */
static gint
find_processor (Player *p, const LaunchState *l)
{
  const SimTimed *t = l->timed;
  gint best = -1;
  for (guint k = 0; k < p->card->processors; k++) {
    guint i = (p->turn + k) % p->card->processors;
    const Processor *m = &p->processors[i];
    if (m->room + 1e-6 < l->room || m->shared + t->shared > p->card->shared ||
        m->threads + t->warps * SIM_LANES > p->card->threads ||
        (sim_config.times_apart && t->n_blocks <= p->card->processors &&
            l->use[i].n_blocks))
      continue;
    if (best < 0 || m->n_blocks < p->processors[best].n_blocks)
      best = (gint)i;
  }
  if (best >= 0)
    p->turn = (guint)best + 1;
  return best;
}

/* All blocks of a cluster, or none. */
static gboolean
begin_cluster (Player *p, LaunchState *l)
{
  const SimTimed *t = l->timed;
  guint first = l->n_begun, n = 0;
  Processor *saved =
      g_memdup2 (p->processors, p->card->processors * sizeof *p->processors);
  guint *where = g_new (guint, t->cluster);
  gboolean fits = TRUE;
  for (guint i = 0; i < t->cluster && fits; i++) {
    gint at = find_processor (p, l);
    fits = at >= 0;
    if (!fits)
      break;
    where[n++] = (guint)at;
    p->processors[at].room -= l->room;
    p->processors[at].threads += t->warps * SIM_LANES;
    p->processors[at].shared += t->shared;
    p->processors[at].n_blocks++;
    l->use[at].n_blocks++;
  }
  memcpy (p->processors, saved, p->card->processors * sizeof *saved);
  for (guint i = 0; i < n; i++)
    l->use[where[i]].n_blocks--;
  g_free (saved);
  if (fits) {
    ClusterState *c = &l->clusters[first / t->cluster];
    c->n_live = t->cluster * t->warps;
    c->waiting = g_new (Warp *, c->n_live);
    if (!first)
      l->times->begin = p->now;
    l->n_begun += t->cluster;
    for (guint i = 0; i < t->cluster; i++)
      begin_block (p, l, c, first + i, where[i]);
  }
  g_free (where);
  return fits;
}

/* Which launches may begin or go on, and when the next one might. */
static void
check_launches (Player *p)
{
  p->check_launches = FALSE;
  p->timer = G_MAXUINT64;
  for (guint i = 0; i < p->n_launches; i++) {
    LaunchState *l = &p->launches[i], *before = i ? l - 1 : NULL;
    guint64 edge = before ? l->edge : 0;
    if (l->n_ended == l->timed->n_blocks)
      continue;
    if (before && before->n_ended == before->timed->n_blocks &&
        !l->is_released) {
      guint64 at = before->times->end + edge;
      l->times->release = at;
      if (at <= p->now) {
        l->is_released = TRUE;
        for (guint k = 0; k < l->waiting->len; k++)
          sim_release (p, l->waiting->pdata[k], at);
        g_ptr_array_set_size (l->waiting, 0);
      } else {
        p->timer = MIN (p->timer, at);
      }
    }
    if (before && !l->may_begin) {
      gboolean free_to = l->programmatic
                             ? before->n_triggered == before->timed->n_blocks
                             : before->n_ended == before->timed->n_blocks;
      if (!free_to)
        return;
      if (!l->begins)
        l->begins = MAX (p->now, before->times->end) + edge;
      if (l->begins > p->now) {
        p->timer = MIN (p->timer, l->begins);
        return;
      }
      l->may_begin = TRUE;
    }
    while (l->n_begun < l->timed->n_blocks)
      if (!begin_cluster (p, l))
        break;
    if (l->n_begun < l->timed->n_blocks)
      return;
  }
}

static guint64
cycles (const SimCard *card, guint ns)
{
  return (guint64)ns * card->mhz / 1000;
}

static void
init_launch (Player *p, guint i, SimTimed *t, guint which)
{
  LaunchState *l = &p->launches[i];
  l->timed = t;
  l->times = &p->times[i];
  l->programmatic = t->programmatic && i > 0;
  l->room = 1.0 / t->per;
  l->edge = sim_config.times_no_edge ? 0
            : l->programmatic        ? cycles (p->card, p->card->overlap[which])
                                     : cycles (p->card, p->card->edge[which]);
  l->may_begin = i == 0;
  l->is_released = i == 0;
  l->blocks = g_new0 (BlockState, t->n_blocks);
  l->clusters = g_new0 (ClusterState, t->n_blocks / t->cluster);
  l->use = g_new0 (Use, p->card->processors);
  l->waiting = g_ptr_array_new ();
  l->sectors = sectors_new ();
  l->times->name = g_strdup (t->kernel->name);
  l->times->blocks = t->n_blocks;
  l->times->cluster = t->cluster;
}

static void
finish_launch (Player *p, LaunchState *l)
{
  SimTimes *t = l->times;
  if (!l->programmatic)
    t->release = t->begin;
  gdouble span = MAX ((gdouble)(t->end - t->release), 1);
  for (guint i = 0; i < p->card->processors; i++) {
    const Use *u = &l->use[i];
    t->issue = MAX (t->issue, (gdouble)u->issued / 4 / span);
    t->tensor = MAX (t->tensor, (gdouble)u->tensor / 4 / 64 / span);
    t->lsu = MAX (t->lsu, (gdouble)u->lsu / span);
    t->l2 += (gdouble)u->bytes / p->card->l2 / span;
  }
  for (guint i = 0; i < l->timed->n_blocks; i++) {
    for (guint k = 0; l->blocks[i].warps && k < l->timed->warps; k++) {
      g_free (l->blocks[i].warps[k].rows);
      g_free (l->blocks[i].warps[k].done);
    }
    g_free (l->blocks[i].warps);
  }
  for (guint i = 0; i < l->timed->n_blocks / l->timed->cluster; i++)
    g_free (l->clusters[i].waiting);
  g_free (l->blocks);
  g_free (l->clusters);
  g_free (l->use);
  sectors_free (l->sectors);
  g_ptr_array_unref (l->waiting);
}

SimTimes *
sim_play (GPtrArray *timed, const SimCard *card, guint which)
{
  guint n_quarters = card->processors * 4;
  Player player = { .card = card, .n_launches = timed->len }, *p = &player;
  p->processors = g_new0 (Processor, card->processors);
  p->quarters = g_new0 (Quarter, n_quarters);
  p->launches = g_new0 (LaunchState, timed->len + 1);
  p->times = g_new0 (SimTimes, timed->len + 1);
  p->runs =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, sim_run_free);
  for (guint i = 0; i < card->processors; i++)
    p->processors[i].room = 1;
  for (guint i = 0; i < n_quarters; i++)
    p->quarters[i].next = G_MAXUINT64;
  for (guint i = 0; i < timed->len; i++)
    init_launch (p, i, timed->pdata[i], which);

  p->check_launches = TRUE;
  while (!p->is_stuck) {
    if (p->check_launches || p->timer <= p->now)
      check_launches (p);
    guint64 next = p->timer;
    for (guint i = 0; i < n_quarters; i++) {
      if (p->quarters[i].next <= p->now)
        sim_step_quarter (p, &p->quarters[i]);
      next = MIN (next, p->quarters[i].next);
    }
    if (p->check_launches)
      next = p->now + 1;
    if (next == G_MAXUINT64)
      break;
    p->now = MAX (next, p->now + 1);
  }
  gboolean ok = TRUE;
  for (guint i = 0; i < timed->len; i++) {
    ok &= p->launches[i].n_ended == p->launches[i].timed->n_blocks;
    finish_launch (p, &p->launches[i]);
  }
  g_hash_table_unref (p->runs);
  g_free (p->processors);
  g_free (p->quarters);
  g_free (p->launches);
  if (ok)
    return p->times;
  for (guint i = 0; i < timed->len; i++)
    g_free (p->times[i].name);
  g_free (p->times);
  return NULL;
}
