/* The machine that runs decoded PTX: a warp at a time, 32 lanes as arrays
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 *   fatbin, ptx-*   bytes to a tree
 *   decode, regs    a tree to an array of instructions
 *   exec-*          what each instruction does to the 32 lanes of a warp
 *   sched           blocks, clusters and warps of a launch, in random order
 *   memory, race    the device's memory and who touched it when
 *   api-*, stream   the driver API on top
 */
#pragma once

#include <glib.h>

#include "cuda-abi.h"
#include "ptx.h"

#define SIM_LANES 32
#define SIM_ROW 128 /* bytes of a register of 32 bits in all lanes */
#define SIM_FULL 0xffffffffu

/* Generic addresses: windows that no host address falls into. Global memory
 * is one reserved range, so that device and host address differ by a
 * constant. */
#define SIM_GLOBAL_BASE 0x100000000000ull
#define SIM_GLOBAL_SIZE 0x004000000000ull /* 256 GiB of addresses */
#define SIM_SHARED_BASE 0x020000000000ull
#define SIM_LOCAL_BASE 0x030000000000ull
#define SIM_PARAM_BASE 0x040000000000ull
/* A 32-bit shared address: 0 or 1 + rank of the block in its cluster above,
 * the offset below. */
#define SIM_RANK_SHIFT 24
#define SIM_SHARED_MAX (227 * 1024)

typedef struct _SimIns SimIns;
typedef struct _SimWarp SimWarp;
typedef struct _SimBlock SimBlock;
typedef struct _SimLaunch SimLaunch;
typedef struct _SimKernel SimKernel;
typedef struct _SimModule SimModule;
typedef struct _SimAllocation SimAllocation;
typedef void (*SimExec) (SimWarp *warp, const SimIns *ins);

/* What an instruction is, for counting. */
typedef enum {
  SIM_KIND_ALU,
  SIM_KIND_FMA,
  SIM_KIND_SFU,
  SIM_KIND_F64,
  SIM_KIND_CONTROL,
  SIM_KIND_MOVE,
  SIM_KIND_LOAD_GLOBAL,
  SIM_KIND_STORE_GLOBAL,
  SIM_KIND_LOAD_SHARED,
  SIM_KIND_STORE_SHARED,
  SIM_KIND_REMOTE,
  SIM_KIND_LOCAL,
  SIM_KIND_PARAM,
  SIM_KIND_ATOMIC,
  SIM_KIND_ASYNC,
  SIM_KIND_SHUFFLE,
  SIM_KIND_MMA,
  SIM_KIND_BARRIER,
  SIM_KIND_FENCE,
  SIM_N_KINDS
} SimKind;

/* Operand codes: twice the byte offset of a row, plus 1 if it is a row of
 * constants and not of registers. While decoding: a register's or constant's
 * number instead of the offset. */
struct _SimIns {
  SimExec exec;
  gint32 o[4]; /* result, operands; -1 before, a row of zeros after */
  gint32 *x;   /* more operands (vectors, fragments): x_out results, then... */
  guint8 nx, x_out;
  guint8 has_out; /* o[0] is written */
  guint8 also_in; /* ...and read (a packed half is kept) */
  guint8 size;    /* bytes of one element of a memory access */
  guint8 n;       /* elements of a memory access, registers of a fragment */
  guint8 space;   /* PtxSpace */
  guint8 wide;    /* the address register has 64 bits */
  guint8 sub;     /* the instruction's own flags */
  guint8 kind;    /* SimKind */
  guint8 sem;     /* SIM_SEM_ */
  guint16 op;
  gint32 target; /* of a branch */
  gint64 imm;    /* offset of an address, ... */
  guint line;
};

enum {
  SIM_SEM_WEAK = 0,
  SIM_SEM_STRONG = 1, /* relaxed, volatile: no race with other strong ones */
  SIM_SEM_ACQUIRE = 2,
  SIM_SEM_RELEASE = 4,
  SIM_SEM_BLOCK = 8,    /* scope: this block only */
  SIM_SEM_CLUSTER = 16, /* scope: the cluster only */
  SIM_SEM_NC = 32       /* ld.global.nc: must not be written in the launch */
};

/* Special registers. */
typedef enum {
  SIM_SR_TID_X,
  SIM_SR_TID_Y,
  SIM_SR_TID_Z,
  SIM_SR_NTID_X,
  SIM_SR_NTID_Y,
  SIM_SR_NTID_Z,
  SIM_SR_CTAID_X,
  SIM_SR_CTAID_Y,
  SIM_SR_CTAID_Z,
  SIM_SR_NCTAID_X,
  SIM_SR_NCTAID_Y,
  SIM_SR_NCTAID_Z,
  SIM_SR_LANEID,
  SIM_SR_WARPID,
  SIM_SR_NWARPID,
  SIM_SR_LANEMASK_EQ,
  SIM_SR_LANEMASK_LT,
  SIM_SR_LANEMASK_LE,
  SIM_SR_LANEMASK_GT,
  SIM_SR_LANEMASK_GE,
  SIM_SR_CLUSTERID_X,
  SIM_SR_CLUSTERID_Y,
  SIM_SR_CLUSTERID_Z,
  SIM_SR_NCLUSTERID_X,
  SIM_SR_NCLUSTERID_Y,
  SIM_SR_NCLUSTERID_Z,
  SIM_SR_CLUSTER_CTAID_X,
  SIM_SR_CLUSTER_CTAID_Y,
  SIM_SR_CLUSTER_CTAID_Z,
  SIM_SR_CLUSTER_NCTAID_X,
  SIM_SR_CLUSTER_NCTAID_Y,
  SIM_SR_CLUSTER_NCTAID_Z,
  SIM_SR_CLUSTER_CTARANK,
  SIM_SR_CLUSTER_NCTARANK,
  SIM_SR_IS_EXPLICIT_CLUSTER,
  SIM_SR_SMID,
  SIM_SR_NSMID,
  SIM_SR_GRIDID,
  SIM_SR_DYNAMIC_SMEM_SIZE,
  SIM_SR_TOTAL_SMEM_SIZE,
  SIM_N_SR
} SimSpecial;

typedef struct {
  SimSpecial which;
  guint32 offset; /* of its row */
} SimSpecialRow;

typedef struct {
  guint64 runs[SIM_N_KINDS];         /* warp instructions */
  guint64 bytes_in[7], bytes_out[7]; /* by PtxSpace, active lanes only */
  guint64 requests, sectors;         /* global memory */
  /* What is done before griddepcontrol.wait, while the kernel before still
   * runs: instructions, sectors, and the cycles of its longest chain. */
  guint64 early_runs, early_sectors, early_chain;
  guint64 conflicts; /* extra cycles in shared memory */
  guint64 mapped_read, mapped_written, mapped_again; /* see mapped.c */
  guint64 launches, blocks, warps;
  guint64 lane_slots, lanes; /* lanes that could and did run */
  guint64 chain;             /* cycles of the longest dependent chain, from
                                the dependency wait if there is one, summed
                                over launches */
  guint64 max_chain;
} SimCounts;

struct _SimKernel {
  gchar *name;
  SimModule *module;
  const PtxFunction *function;
  SimIns *code;
  guint n_code;
  guint n_calls;
  guint8 *consts;
  gsize reg_bytes; /* of a warp */
  guint n_rows;
  gsize local_bytes, shared_bytes, param_bytes;
  gsize max_dynamic; /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
  gboolean nonportable_cluster;
  guint max_threads;
  SimSpecialRow special[SIM_N_SR];
  guint n_special;
  gboolean uses_wait, uses_trigger;
  gchar *error;      /* why it cannot be run, in place of code */
  guint64 *executed; /* for each instruction */
  SimCounts counts;
  GPtrArray *arrays; /* what decoding allocated */
};

struct _SimModule {
  PtxModule *ptx;
  GPtrArray *kernels; /* SimKernel */
  gint device;
};

/* ---- a launch ---- */

typedef struct {
  guint32 pc, mask;
  gboolean parked; /* waits at a barrier or shuffle for other lanes */
  guint32 leaving; /* parked: those that were about to exit then */
} SimGroup;

typedef enum {
  SIM_STOP_NO,
  SIM_STOP_YIELD,
  SIM_STOP_BARRIER,
  SIM_STOP_CLUSTER,
  SIM_STOP_EXIT,
  SIM_STOP_FAULT,
  SIM_STOP_REGROUP, /* this group is parked: take another */
  SIM_STOP_WAIT     /* griddepcontrol.wait */
} SimStop;

typedef struct {
  guint32 mask;
  guint32 dst[SIM_LANES];
  guint64 src[SIM_LANES];
  guint8 size, copy[SIM_LANES];
  guint group;
  guint line;
} SimAsync;

struct _SimWarp {
  guint8 *base[2]; /* rows of registers, rows of constants */
  guint32 mask;    /* lanes that run now */
  guint32 live;    /* lanes that have not exited */
  guint32 pc, next_pc;
  gint32 stop; /* SimStop */
  gint64 budget;
  guint32 lane[SIM_LANES] __attribute__ ((aligned (64))); /* mask as 0, ~0 */
  SimGroup group[SIM_LANES + 1];
  guint n_groups; /* besides the running one */
  SimBlock *block;
  SimLaunch *launch;
  guint id;            /* in its block */
  guint agent;         /* in its grid */
  gint barrier;        /* where it waits, -1: nowhere */
  guint cluster_phase; /* 0, or 1 + the phase that it arrived in */
  gboolean cluster_wait, at_wait;
  gboolean done, checked;
  guint32 barrier_red_row; /* bar.red: operand code of result */
  guint8 *local;
  guint64 alloc_lo, alloc_hi; /* the allocation used last */
  SimAllocation *near;        /* the same for the race check */
  GArray *async;              /* SimAsync */
  guint async_group;
  guint32 clock;                /* of its own, for the race check */
  guint32 *seen;                /* clocks of the warps of its cluster */
  guint32 *far;                 /* NULL, or clocks of all warps of the grid */
  guint32 *acquired, *released; /* NULL, or waiting for a fence */
  guint64 *ready;               /* chain: when each row is there */
  guint64 now, horizon;  /* this run's begin; when all results are there */
  guint64 issued, n_run; /* the last issue; instructions in this run */
  guint64 stored;        /* when all stores to other blocks have arrived */
  guint64 rng;
  struct _SimTrace *trace; /* trace.c, or NULL */
};

typedef struct {
  guint expected, arrived; /* threads */
  guint32 red_or, red_and, red_sum;
  GArray *joined; /* clocks of those that arrived */
  guint64 horizon;
} SimBarrier;

struct _SimBlock {
  SimLaunch *launch;
  guint index[3], linear, rank;
  struct _SimCluster *cluster;
  guint8 *shared;
  guint32 shared_size;
  struct _SimShadow *shadow;
  SimWarp *warps;
  guint n_warps, n_done, n_live; /* warps, warps ended, threads */
  SimBarrier barriers[16];
  gboolean waited, triggered; /* griddepcontrol */
  gboolean checked;           /* by the race check */
};

typedef struct _SimCluster {
  SimLaunch *launch;
  SimBlock *blocks;
  guint n_blocks, first;   /* linear id of the first block, in cluster order */
  guint arrived, expected; /* warps */
  guint phase;
  guint n_done;
  guint32 *joined; /* clocks at the arrivals of this phase */
  guint32 *joined_last;
  guint64 horizon, horizon_last;
  guint n_agents;
} SimCluster;

struct _SimLaunch {
  SimKernel *kernel;
  guint grid[3], block[3], cluster[3];
  gsize dynamic;
  gboolean cooperative, programmatic;
  guint8 *params; /* SimKernel.param_bytes */
  guint64 serial;
  /* Launches that are known to be complete: all up to `floor`, and after the
   * dependency wait all up to floor_after and `previous` itself. */
  guint64 floor, floor_after, previous;
  gboolean waits_all;     /* every thread waited for its dependencies */
  gboolean early_trigger; /* dependents may start before that */
  guint id;               /* of stamps: serial, but small */
  GHashTable *objects;    /* flags and counters: clocks that they carry */
  guint64 deadline;       /* warp instructions left */
  CUresult error;
  guint n_faults, n_agents;
  guint warps_per_block;
  gboolean check, check_all, count;
  guint64 rng;
  GPtrArray *resident; /* SimCluster */
  guint64 chain, early_chain;
  gpointer timed; /* SimTimed, or NULL */
};

/* exec-*.c, compiled once for each instruction set. */
extern const SimExec sim_exec_v1[], sim_exec_v3[];
const SimExec *sim_exec_table (void);

/* decode.c */
SimKernel *sim_decode (SimModule *module, const PtxFunction *function);
void sim_kernel_free (SimKernel *kernel);
/* regs.c: gives registers that are never alive together the same row. */
void sim_allocate (SimKernel *kernel, const guint8 *widths, guint n_regs);

/* module.c */
SimModule *sim_module_load (
    const void *image, guint capability, CUresult *result, gchar **log);
void sim_module_free (SimModule *module);
SimKernel *sim_module_find (SimModule *module, const gchar *name);
PtxVar *sim_module_var (SimModule *module, const gchar *name);
/* fatbin.c: a copy of the best PTX for the capability, or NULL. */
gchar *sim_fatbin_ptx (
    const void *image, guint capability, CUresult *result, gchar **log);

/* A warp's turn, in instructions. */
#define SIM_TURN 4096

/* sched.c: runs a launch to its end. */
CUresult sim_run (SimLaunch *launch);

/* warp.c */
void sim_warp_run (SimWarp *warp);
void sim_set_mask (SimWarp *warp, guint32 mask);
void sim_branch (SimWarp *warp, guint32 taken, guint32 target);
void sim_exit (SimWarp *warp, guint32 lanes);
/* The instruction needs the lanes of `wanted`: TRUE if all run now. Otherwise
 * the group is parked at it, or the launch fails. */
gboolean sim_gather (SimWarp *warp, const SimIns *ins, guint32 wanted);

/* barrier.c */
void sim_barrier (SimWarp *warp, const SimIns *ins, guint id, guint threads,
    gboolean wait, guint32 votes);
void sim_cluster_arrive (SimWarp *warp, const SimIns *ins, gboolean release);
void sim_cluster_wait (SimWarp *warp, const SimIns *ins, gboolean acquire);
/* When a warp has ended it is not waited for any longer. */
void sim_barriers_recheck (SimBlock *block);
void sim_cluster_recheck (SimCluster *cluster);

/* block.c: blocks of one cluster, used for one cluster after another. */
SimCluster *sim_cluster_new (SimLaunch *launch);
void sim_cluster_start (SimCluster *cluster, guint index);
void sim_cluster_free (SimCluster *cluster);

/* memory.c */
struct _SimAllocation {
  guint64 address;
  gsize size;   /* as asked for */
  gsize mapped; /* as taken */
  gboolean is_host, is_module;
  struct _SimShadow *shadow; /* a word each */
  guint8 *crossed;           /* mapped.c: a byte each, or NULL */
  guint64 crossed_in;        /* serial of the launch it is about */
};

/* Global address + sim_bias is where it lies in this process. */
extern gint64 sim_bias;

static inline guint8 *
sim_host (guint64 address)
{
  return (guint8 *)(gintptr)((gint64)address + sim_bias);
}

SimAllocation *sim_alloc (gsize size, gboolean is_host);
gboolean sim_free (guint64 address);
SimAllocation *sim_find (guint64 address); /* the one that contains it */
SimAllocation *sim_find_host (const void *pointer);
gboolean sim_range_ok (guint64 address, gsize size);
/* The host writes, or copies over, this range. */
void sim_host_write (guint64 address, gsize size);
void sim_memory_foreach (void (*func) (SimAllocation *, gpointer), gpointer);
gsize sim_memory_used (void);

/* Reports; the launch fails. lane: -1 none. Reports past the first few of a
 * launch are counted only. */
void sim_fault (SimWarp *warp, const SimIns *ins, gint lane, guint64 address,
    CUresult error, const gchar *format, ...) G_GNUC_PRINTF (6, 7);

/* Where `size` bytes at the address lie in this process: inside one live
 * allocation of the space, and aligned. NULL after a fault. */
guint8 *sim_resolve (SimWarp *warp, const SimIns *ins, guint lane,
    guint64 address, PtxSpace space, guint size, gboolean write);

/* race.c */
typedef struct _SimShadow {
  guint64 write, read, other; /* stamps; read and other: of two threads */
} SimShadow;

/* ISSUE and LAND: the two ends of an asynchronous copy into shared memory. */
typedef enum { SIM_READ, SIM_WRITE, SIM_ATOMIC, SIM_ISSUE, SIM_LAND } SimAccess;

/* `value`: what is about to be written, or NULL; writing what is already there
 * is no race. */
void sim_race_shared (SimWarp *warp, const SimIns *ins, SimBlock *owner,
    guint lane, guint32 offset, guint size, SimAccess access,
    const void *value);
void sim_race_global (SimWarp *warp, const SimIns *ins, guint lane,
    guint64 address, guint size, SimAccess access, const void *value);
/* By the window that the address is in. */
void sim_race (SimWarp *warp, const SimIns *ins, guint lane, guint64 address,
    PtxSpace space, guint size, SimAccess access, const void *value);
void sim_race_fence (SimWarp *warp, const SimIns *ins);
void sim_race_sync (
    SimWarp *warp, const SimIns *ins, guint lane, guint64 address);
void sim_race_warp (SimWarp *warp);
void sim_race_init (SimWarp *warp);
void sim_race_clear (SimWarp *warp);
void sim_race_launch_begin (SimLaunch *launch);
void sim_race_launch_end (SimLaunch *launch);

/* counters.c */
typedef struct {
  guint64 bytes_up, bytes_down, bytes_across, copies_up, copies_down,
      copies_across, memsets;
  guint64 launches, graph_launches, waits, allocations;
  guint64 faults, races, uninitialised, early_reads, leaks;
  guint64 mapped_read, mapped_written, mapped_again;
} SimStats;
extern SimStats sim_stats;
/* Before a module goes: its kernels' counts stay, by name. */
void sim_counts_keep (SimModule *module);
void sim_counts_watch (SimModule *module);

void sim_count_access (SimWarp *warp, const SimIns *ins, PtxSpace space,
    const guint64 *addresses, guint size, gboolean write);
void sim_chain (SimWarp *warp, const SimIns *ins);
void sim_chain_restart (SimWarp *warp);
gboolean sim_is_early (const SimWarp *warp);

/* trace.c */
void sim_trace (SimWarp *warp, const SimIns *ins, guint pc);
void sim_trace_step (SimWarp *warp, guint8 type, guint8 arg, guint n);
void sim_trace_touch (SimWarp *warp, const SimIns *ins, guint waves,
    guint bytes, const guint64 *sectors, guint n);

/* mapped.c */
void sim_count_mapped (
    SimWarp *warp, const guint64 *addresses, guint size, gboolean write);

/* config.c */
typedef struct {
  guint capability; /* 90 */
  guint64 seed;
  enum { SIM_CHECK_OFF, SIM_CHECK_FAST, SIM_CHECK_FULL } check;
  gboolean count;
  gboolean races_fail;  /* a race is a launch error */
  gboolean shared_init; /* reading unwritten shared memory is an error */
  gboolean mma_truncates;
  guint64 budget; /* warp instructions a launch */
  guint devices;
  guint processors; /* 0: what is usual */
  gsize memory;
  gboolean quiet;
  guint64 times;      /* the launch of a graph to time, and all kernels else */
  guint64 times_left; /* launches of graphs until then */
  gboolean times_as_written; /* nothing is put in another order */
  gboolean times_no_edge;
  gboolean times_apart;        /* no two blocks of a small launch meet */
  gboolean times_late_trigger; /* launches trigger after their wait */
  gconstpointer card;          /* SimCard */
  const gchar *registers;      /* a log of ptxas, or NULL */
  const gchar *report, *dump, *lines, *image; /* files */
} SimConfig;

extern SimConfig sim_config;

static inline guint64
sim_random (guint64 *state)
{
  guint64 x = *state += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
