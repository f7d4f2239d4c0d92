/* What a kernel did, for the time model and for tests
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "sim.h"
#include "ops-list.h"

#include <string.h>

SimStats sim_stats;

/* Cycles from an instruction to one that needs its result, roughly, on
 * Hopper (docs/cudasim.md has the sources). */
static const guint16 latency[SIM_N_KINDS] = {
  [SIM_KIND_ALU] = 4,
  [SIM_KIND_FMA] = 4,
  [SIM_KIND_SFU] = 24,
  [SIM_KIND_F64] = 8,
  [SIM_KIND_CONTROL] = 4,
  [SIM_KIND_MOVE] = 4,
  [SIM_KIND_LOAD_GLOBAL] = 270,
  [SIM_KIND_STORE_GLOBAL] = 4,
  [SIM_KIND_LOAD_SHARED] = 29,
  [SIM_KIND_STORE_SHARED] = 4,
  [SIM_KIND_REMOTE] = 200,
  [SIM_KIND_LOCAL] = 35,
  [SIM_KIND_PARAM] = 8,
  [SIM_KIND_ATOMIC] = 300,
  [SIM_KIND_ASYNC] = 4,
  [SIM_KIND_SHUFFLE] = 24,
  [SIM_KIND_MMA] = 33,
  [SIM_KIND_BARRIER] = 22, /* and 2 a warp */
  [SIM_KIND_FENCE] = 100,
};

static guint64 *
ready_of (SimWarp *w, gint32 code)
{
  return code & 1 ? NULL : &w->ready[(code >> 1) / SIM_ROW];
}

/* Until the next branch or barrier the assembler puts instructions in the best
 * order, which is: each when its operands are there, one a cycle. Nothing else
 * is in a warp's way. */
void
sim_chain (SimWarp *w, const SimIns *ins)
{
  SimCounts *c = &w->launch->kernel->counts;
  gboolean ends_run =
      ins->kind == SIM_KIND_CONTROL || ins->kind == SIM_KIND_BARRIER;
  guint64 start = w->now;
  for (guint j = 0; j < 4; j++) {
    guint64 *r = ready_of (w, ins->o[j]);
    if (r && !(j == 0 && ins->has_out))
      start = MAX (start, *r);
  }
  for (guint j = ins->x_out; j < ins->nx; j++) {
    guint64 *r = ready_of (w, ins->x[j]);
    if (r)
      start = MAX (start, *r);
  }
  guint64 done = start + latency[ins->kind];
  if (ins->has_out && ready_of (w, ins->o[0]))
    *ready_of (w, ins->o[0]) = done;
  for (guint j = 0; j < ins->x_out; j++)
    if (ready_of (w, ins->x[j]))
      *ready_of (w, ins->x[j]) = done;
  w->issued = MAX (w->issued, start);
  w->n_run++;
  if (ends_run) {
    w->now = MAX (w->issued, w->now + w->n_run);
    w->n_run = 0;
  }
  w->horizon = MAX (w->horizon, done);
  if (ins->kind == SIM_KIND_REMOTE)
    w->stored = MAX (w->stored, done);
  c->runs[ins->kind]++;
  c->early_runs += sim_is_early (w);
  c->lane_slots += SIM_LANES;
  c->lanes += (guint)__builtin_popcount (w->mask);
}

gboolean
sim_is_early (const SimWarp *w)
{
  return w->launch->programmatic && !w->at_wait;
}

/* Where a warp waits for the kernels before its own. These take longer than
 * what it has done until now, which is what it was done early for: whatever it
 * asked for is there, and its time begins here. */
void
sim_chain_restart (SimWarp *w)
{
  if (!w->launch->count || !sim_is_early (w))
    return;
  w->launch->early_chain = MAX (w->launch->early_chain, w->horizon);
  w->now = w->horizon = w->stored = w->issued = w->n_run = 0;
  memset (w->ready, 0, w->launch->kernel->n_rows * sizeof (guint64));
}

static guint
distinct (guint64 *values, guint n)
{
  guint count = 0;
  for (guint i = 0; i < n; i++) {
    guint j = 0;
    while (j < count && values[j] != values[i])
      j++;
    if (j == count)
      values[count++] = values[i];
  }
  return count;
}

static guint
lines_of (const guint64 *sectors, guint n)
{
  guint64 lines[SIM_LANES];
  for (guint i = 0; i < n; i++)
    lines[i] = sectors[i] / 4;
  return distinct (lines, n);
}

void
sim_count_access (SimWarp *w, const SimIns *ins, PtxSpace space,
    const guint64 *addresses, guint size, gboolean write)
{
  SimCounts *c = &w->launch->kernel->counts;
  guint lanes = (guint)__builtin_popcount (w->mask);
  guint64 sectors[SIM_LANES * 4];
  guint waves = 1, n_sectors = 0;
  if (space == PTX_SPACE_GENERIC) {
    guint64 window = addresses[0] >> 40;
    space = window == SIM_SHARED_BASE >> 40  ? PTX_SPACE_SHARED
            : window == SIM_LOCAL_BASE >> 40 ? PTX_SPACE_LOCAL
                                             : PTX_SPACE_GLOBAL;
  }
  (write ? c->bytes_out : c->bytes_in)[space] += lanes * (guint64)size;
  if (space == PTX_SPACE_GLOBAL) {
    guint n = 0;
    for (guint l = 0; l < SIM_LANES; l++)
      if (w->mask >> l & 1)
        sectors[n++] = addresses[l] / 32;
    n = n_sectors = distinct (sectors, n);
    waves = lines_of (sectors, n);
    c->requests++;
    c->sectors += n;
    c->early_sectors += sim_is_early (w) ? n : 0;
    sim_count_mapped (w, addresses, size, write);
  } else if (space == PTX_SPACE_SHARED) {
    /* A phase serves 128 bytes: 32 lanes of 4, 16 of 8, 8 of 16. Its cycles
     * are the largest number of different words in a bank. */
    guint per = size <= 4 ? 32 : size == 8 ? 16 : 8;
    waves = 0;
    for (guint first = 0; first < SIM_LANES; first += per) {
      guint64 words[SIM_LANES * 4];
      guint n = 0, banks[32] = { 0 }, worst = 0;
      for (guint l = first; l < first + per; l++)
        if (w->mask >> l & 1)
          for (guint b = 0; b < MAX (size, 4); b += 4)
            words[n++] = (addresses[l] + b) / 4;
      n = distinct (words, n);
      for (guint i = 0; i < n; i++) {
        guint bank = ++banks[words[i] % 32];
        worst = MAX (worst, bank);
      }
      c->conflicts += worst > 1 ? worst - 1 : 0;
      waves += worst;
    }
  }
  if (w->trace)
    sim_trace_touch (w, ins, waves, lanes * size, sectors, n_sectors);
}
