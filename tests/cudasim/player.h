/* What timing.c and play.c keep of warps, blocks, processors and launches
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "config.h"
#include "timing.h"

#include <string.h>

#define L2_LATENCY 270
#define L1_LATENCY 33
#define CLUSTER_BARRIER 180 /* as in barrier.c */
#define PORT 64             /* bytes a cycle from L2 into a processor */
#define REMOTE 12.5         /* and to other blocks of its cluster */
#define QUARTER_WARPS 16
#define ASYNC_GROUPS 32

typedef struct {
  guint64 time;
  SimCause cause;
  guint32 queued;
} Value;

typedef struct _LaunchState LaunchState;
typedef struct _BlockState BlockState;
typedef struct _ClusterState ClusterState;

typedef struct {
  LaunchState *launch;
  BlockState *block;
  guint processor, quarter;
  const SimTrace *trace;
  guint next_step;
  const SimStep *step;
  SimRun *run; /* NULL: the step is none */
  guint at;    /* in its order */
  Value *rows; /* registers, when the run began */
  Value *done; /* of this run */
  guint n_done;
  SimCost cost;  /* of the next instruction */
  guint64 floor; /* it cannot be issued before */
  guint64 ready; /* nor before this, because of: */
  SimCause cause;
  guint32 queued;
  gboolean by_pipe;
  guint64 issued, last; /* the last issue; up to where `spent` goes */
  guint64 spent[SIM_N_CAUSES];
  guint64 arrived; /* where it is parked */
  gboolean parked, waited, is_over;
  gint at_barrier;
  guint phase;
  guint64 stored; /* when all stores to other blocks have arrived */
  guint64 copying, group[ASYNC_GROUPS];
  guint n_groups;
} Warp;

typedef struct {
  guint n, wanted;
  Warp *latest;
  guint64 latest_at;
} BarrierState;

struct _BlockState {
  LaunchState *launch;
  ClusterState *cluster;
  guint processor, n_live;
  guint64 begun;
  gboolean triggered;
  Warp *warps;
  BarrierState barriers[16];
};

struct _ClusterState {
  guint n_live, arrived, phase, n_waiting;
  Warp **waiting;
  guint64 latest_at, opens, spent[SIM_N_CAUSES];
};

typedef struct {
  guint64 issued, tensor, lsu, bytes;
  guint n_blocks; /* that are there */
} Use;

/* Sectors that a processor has in L1: when they arrived. */
typedef struct {
  guint64 *keys, *values;
  gsize n, mask;
} Sectors;

struct _LaunchState {
  SimTimed *timed;
  SimTimes *times;
  gboolean programmatic, may_begin, is_released;
  guint64 begins, edge, last_end;
  gdouble room; /* part of a processor's registers that a block takes */
  guint n_begun, n_ended, n_triggered;
  BlockState *blocks;
  ClusterState *clusters;
  Use *use; /* of each processor */
  GPtrArray *waiting;
  Sectors *sectors;
};

typedef struct {
  gdouble room;
  gsize shared;
  guint threads, n_blocks;
  guint64 lsu;
  gdouble port, remote;
} Processor;

typedef struct {
  guint n;
  Warp *warps[QUARTER_WARPS];
  guint64 next, tensor, pipe[SIM_N_PIPES];
} Quarter;

typedef struct {
  const SimCard *card;
  guint n_launches, turn;
  guint64 now, timer;
  gboolean check_launches, is_stuck;
  gdouble l2;
  Processor *processors;
  Quarter *quarters;
  LaunchState *launches;
  SimTimes *times;
  GHashTable *runs;
} Player;

/* timing.c */
/* Looks for the warp's next instruction that has to be issued, and when that
 * can be. FALSE: there is none any more. */
gboolean sim_advance (Player *player, Warp *warp);
void sim_wake (Player *player, Warp *warp);
void sim_end_warp (Player *player, Warp *warp, guint64 now);
/* The launches before have ended. */
void sim_release (Player *player, Warp *warp, guint64 when);
void sim_step_quarter (Player *player, Quarter *quarter);

static inline Sectors *
sectors_new (void)
{
  Sectors *s = g_new0 (Sectors, 1);
  s->mask = 1023;
  s->keys = g_new0 (guint64, s->mask + 1);
  s->values = g_new0 (guint64, s->mask + 1);
  return s;
}

static inline void
sectors_free (Sectors *s)
{
  g_free (s->keys);
  g_free (s->values);
  g_free (s);
}

/* Where the value of a key is; it is 0 at first. */
static inline guint64 *
sectors_at (Sectors *s, guint64 key)
{
  if (s->n * 2 > s->mask) {
    Sectors old = *s;
    s->mask = 2 * old.mask + 1;
    s->keys = g_new0 (guint64, s->mask + 1);
    s->values = g_new0 (guint64, s->mask + 1);
    s->n = 0;
    for (gsize i = 0; i <= old.mask; i++)
      if (old.keys[i])
        *sectors_at (s, old.keys[i]) = old.values[i];
    g_free (old.keys);
    g_free (old.values);
  }
  guint64 hash = key * 0x9e3779b97f4a7c15ull;
  gsize i = (gsize)(hash >> 32) & s->mask;
  while (s->keys[i] && s->keys[i] != key)
    i = (i + 1) & s->mask;
  if (!s->keys[i]) {
    s->keys[i] = key;
    s->n++;
  }
  return &s->values[i];
}
