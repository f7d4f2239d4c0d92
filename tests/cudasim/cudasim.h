/* What tests may ask of the simulated GPU
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * tests/cudasim builds a libcuda.so.1 that interprets PTX. A program under
 * test needs to know nothing of it; a test finds these by dlsym() in it.
 * Settings can be made by the environment as well, see docs/cudasim.md.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint64_t bytes_up, bytes_down, bytes_across;    /* by copies */
  uint64_t copies_up, copies_down, copies_across; /* host to device, back,
                                                     within the device */
  uint64_t memsets;
  uint64_t launches; /* kernels that ran, those of graphs too */
  uint64_t graph_launches;
  uint64_t waits;       /* calls that synchronise */
  uint64_t allocations; /* calls that allocate */
  uint64_t live_allocations, live_bytes;
  uint64_t live_host_allocations;
  uint64_t faults; /* all reports of all launches: */
  uint64_t races, uninitialised, early_reads;
  uint64_t leaks; /* allocations, streams, modules that were left when the last
                     user of the context released it */
  /* Bytes of mapped host memory that kernels read and wrote, each counted once
   * an instruction; `again`: those of them that the same launch had read, or
   * written, before. Need cudasim_set ("count", "1"). */
  uint64_t mapped_read, mapped_written, mapped_again;
} CudasimCounters;

typedef struct {
  uint64_t launches, blocks, warps;
  uint64_t instructions; /* of warps */
  uint64_t fma, mma, shared_loads, shared_stores, global_loads, global_stores,
      barriers;
  uint64_t bytes_read, bytes_written; /* of global memory, by active lanes */
  uint64_t sectors;                   /* of 32 bytes, global */
  uint64_t bank_conflicts;            /* extra cycles of shared memory */
  uint64_t chain; /* cycles of the longest dependent chain, all launches */
  uint64_t mapped_read, mapped_written, mapped_again; /* as above */
} CudasimKernel;

/* Cycles of a processor that a launch would take, see docs/cudasim.md. */
typedef struct {
  uint64_t begin;   /* its first block begins */
  uint64_t release; /* the launch before has ended, and the edge after it */
  uint64_t end;
  uint64_t early;   /* the longest that a block took to come to its wait */
  uint64_t exposed; /* ...of that, after the release */
} CudasimTimes;

void cudasim_counters (CudasimCounters *counters);
void cudasim_reset (void); /* all counters, kernels' too, to zero */
/* 0 if a kernel of that name has been loaded; all but launches and
 * instructions need cudasim_set ("count", "1"). */
int cudasim_kernel (const char *name, CudasimKernel *kernel);

/* The launches that were timed last: with cudasim_set ("times", "N"), those of
 * the N-th launch of a graph, or one that is part of none. 0 if there is such a
 * launch. */
int cudasim_times (unsigned int launch, CudasimTimes *times);

/* "cc" 9.0, "seed" 1, "check" off|fast|full, "fail" as CUDASIM_FAIL, "count"
 * 0|1, "races" fail|count, "mma" round|truncate, "budget" warp instructions,
 * "quiet" 0|1, "memory" GiB, "times" 0|N, "card" H200|L4|RTX4060. 0 if understood. Capability, memory and failures
 * of cuInit() count from the next cuInit() and module on. */
int cudasim_set (const char *name, const char *value);

/* Writes the report (JSON) now. 0 if it could be written. */
int cudasim_report (const char *path);

#ifdef __cplusplus
}
#endif
