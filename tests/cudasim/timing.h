/* How long launches would take on a card, from a trace of what they did
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 *   trace.c   while a launch runs: what each warp did, in steps
 *   order.c   an assembler's order for the instructions of a step
 *   timing.c  how warps share a processor
 *   play.c    the traces of a few launches on all processors of a card
 *   card.c    the cards, and what an instruction costs
 *
 * Times are cycles of a processor. docs/cudasim.md says what is modelled.
 */
#pragma once

#include "ops-list.h"

typedef enum {
  PIPE_NONE,
  PIPE_FMA,
  PIPE_ALU,
  PIPE_EITHER, /* an integer's addition, on whichever of the two is free */
  PIPE_XU,     /* special functions */
  PIPE_TENSOR,
  PIPE_LSU,
  SIM_N_PIPES
} SimPipe;

extern const gchar *const sim_pipe_names[SIM_N_PIPES];

/* What a warp waits for. */
typedef enum {
  CAUSE_ISSUE,     /* its own instructions, and those of other warps */
  CAUSE_MATH,      /* a result of arithmetic */
  CAUSE_PIPE,      /* a busy pipe that is not the tensor pipe */
  CAUSE_SFU,       /* a special function */
  CAUSE_SHUFFLE,   /* another lane's value */
  CAUSE_MMA,       /* a product */
  CAUSE_TENSOR,    /* the tensor pipe */
  CAUSE_SHARED,    /* shared memory */
  CAUSE_CONFLICT,  /* its queue */
  CAUSE_L2,        /* global memory */
  CAUSE_BANDWIDTH, /* its queue */
  CAUSE_REMOTE,    /* shared memory of another block */
  CAUSE_BARRIER,
  CAUSE_CLUSTER,
  CAUSE_FENCE,
  CAUSE_EARLY, /* what should have been done before the dependency wait */
  SIM_N_CAUSES
} SimCause;
extern const gchar *const sim_cause_names[SIM_N_CAUSES];

typedef struct {
  const gchar *name;
  guint capability, processors, mhz;
  guint mma;    /* 1/64 cycles of a quarter for m16n8k8 of tf32 */
  guint fma;    /* cycles of a quarter for 32 lanes of float32 */
  guint l2;     /* bytes a cycle, all processors */
  guint shared; /* bytes of a processor */
  guint threads;
  /* ns from the end of a kernel to the next, low and high: plain edge of a
   * graph, and with programmatic dependent launch */
  guint edge[2], overlap[2];
} SimCard;

const SimCard *sim_card_find (const gchar *name);
/* By CUDASIM_CARD, or by the capability. */
const SimCard *sim_card (void);

typedef struct {
  gboolean is_free; /* machine code has no such instruction */
  guint8 pipe, cause;
  guint8 slots; /* of the scheduler */
  guint16 busy; /* cycles of the pipe; of the tensor pipe 1/64 */
  guint16 latency;
} SimCost;

SimCost sim_cost (const SimIns *ins, const SimCard *card);

/* ---- a trace ---- */

typedef enum {
  STEP_RUN,        /* instructions in a row */
  STEP_BARRIER,    /* arg: number, + 16 if it only arrives; n: warps or 0 */
  STEP_ARRIVE,     /* at the cluster's barrier */
  STEP_CLUSTER,    /* waits for it */
  STEP_DEPENDENCY, /* griddepcontrol.wait */
  STEP_TRIGGER,    /* griddepcontrol.launch_dependents */
  STEP_ASYNC       /* waits for all but the last n groups of copies */
} SimStepType;

typedef struct {
  guint32 pc, n;
  guint32 mem, n_mem;
  guint8 type, arg;
} SimStep;

/* An access that was made by the instruction `at` of its run. */
typedef struct {
  guint32 at;
  guint32 sector, n_sectors; /* global memory */
  guint16 waves;             /* cycles of the load and store unit */
  guint16 bytes;
  gboolean is_cached;
} SimTouch;

typedef struct _SimTrace {
  GArray *steps, *touches, *sectors; /* SimStep, SimTouch, guint64 */
  guint32 start, next, skip;
  gboolean is_open;
} SimTrace;

typedef struct {
  SimKernel *kernel;
  guint n_blocks, cluster, warps; /* blocks a cluster, warps a block */
  guint per;                      /* blocks that fit a processor */
  gsize shared;
  gboolean programmatic;
  SimTrace *traces; /* of all warps */
} SimTimed;

typedef struct {
  gchar *name;
  guint blocks, cluster;
  guint64 begin;   /* the first block begins */
  guint64 release; /* the kernels before are done, and their edge is over */
  guint64 end;
  guint64 early;               /* the longest time of a block until it waits */
  guint64 exposed;             /* ...what of that was after the release */
  guint64 spent[SIM_N_CAUSES]; /* of the warp that ends last, since then */
  /* The busiest processor, after its waits: a part of the time. */
  gdouble issue, tensor, lsu, l2;
} SimTimes;

/* trace.c */
SimTimed *sim_timed_new (SimLaunch *launch);
void sim_timed_free (gpointer timed);
/* Launches from here to the end are played together. */
void sim_times_begin (void);
void sim_times_end (void);
extern GPtrArray *sim_timed; /* of SimTimed, or NULL: none are wanted */

/* order.c: a run, in the order in which it is issued. */
typedef struct {
  guint32 n;
  guint32 *order; /* nodes, free ones too */
  SimCost *cost;  /* of each node */
  guint32 *first; /* deps of a node: [first[i], first[i + 1]) */
  gint32 *deps;   /* a node, or ~row */
  guint32 n_outs;
  guint32 *out_row, *out_node;
} SimRun;
SimRun *sim_order (const SimKernel *kernel, guint32 pc, guint32 n,
    const SimCard *card, gboolean as_written);
void sim_run_free (gpointer run);
gint32 sim_row_of (gint32 code); /* -1: a constant */

/* play.c: NULL if the launches wait for each other for ever. Of which: 0 the
 * low, 1 the high edge. */
SimTimes *sim_play (GPtrArray *timed, const SimCard *card, guint which);

typedef struct {
  guint n;
  SimTimes *times;
  guint64 total[2]; /* cycles to the end, with either edge */
} SimPlayed;
extern SimPlayed sim_played; /* the last */
void sim_times_write (gpointer file);
