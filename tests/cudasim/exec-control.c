/* Branches, barriers, the end, and a few that are easier in C
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "exec.h"
#include "timing.h"

#include <fenv.h>
#include <time.h>

void
DO (bra) (SimWarp *w, const SimIns *i)
{
  u32 taken = sim_bits_of (sim_row (w, i->o[1]));
  taken = (i->sub ? ~taken : taken) & w->mask;
  if (taken == w->mask)
    w->pc = (u32)i->target;
  else if (taken)
    sim_branch (w, taken, (u32)i->target);
}

void
DO (bra_uni) (SimWarp *w, const SimIns *i)
{
  w->pc = (u32)i->target;
}

void
DO (exit) (SimWarp *w, const SimIns *i)
{
  (void)i;
  sim_exit (w, w->mask);
}

void
DO (trap) (SimWarp *w, const SimIns *i)
{
  sim_fault (
      w, i, __builtin_ctz (w->mask), 0, CUDA_ERROR_LAUNCH_FAILED, "trap");
}

void
DO (nop) (SimWarp *w, const SimIns *i)
{
  (void)w;
  (void)i;
}

void
DO (nanosleep) (SimWarp *w, const SimIns *i)
{
  (void)i;
  w->stop = SIM_STOP_YIELD;
}

/* The value that all lanes have, or the first one's. */
static u32
first (SimWarp *w, gint32 code)
{
  return ((const u32 *)sim_row (w, code))[__builtin_ctz (w->mask)];
}

void
DO (bar) (SimWarp *w, const SimIns *i)
{
  if (sim_gather (w, i, w->live))
    sim_barrier (
        w, i, first (w, i->o[1]), i->imm ? first (w, i->o[2]) : 0, !i->sub, 0);
}

void
DO (bar_red) (SimWarp *w, const SimIns *i)
{
  if (sim_gather (w, i, w->live))
    sim_barrier (w, i, first (w, i->o[1]), i->imm ? first (w, i->o[2]) : 0,
        TRUE, sim_bits_of (sim_row (w, i->o[3])));
}

void
DO (bar_warp) (SimWarp *w, const SimIns *i)
{
  if (sim_gather (w, i, first (w, i->o[1])))
    sim_race_warp (w);
}

void
DO (cluster_arrive) (SimWarp *w, const SimIns *i)
{
  if (sim_gather (w, i, w->live))
    sim_cluster_arrive (w, i, i->sub);
}

void
DO (cluster_wait) (SimWarp *w, const SimIns *i)
{
  if (sim_gather (w, i, w->live))
    sim_cluster_wait (w, i, i->sub);
}

void
DO (fence) (SimWarp *w, const SimIns *i)
{
  if (w->launch->check)
    sim_race_fence (w, i);
}

void
DO (grid_wait) (SimWarp *w, const SimIns *i)
{
  (void)i;
  sim_chain_restart (w);
  if (w->trace)
    sim_trace_step (w, STEP_DEPENDENCY, 0, 1);
  w->at_wait = TRUE;
  w->block->waited = TRUE;
}

void
DO (grid_trigger) (SimWarp *w, const SimIns *i)
{
  (void)i;
  w->block->triggered = TRUE;
  if (!w->at_wait)
    w->launch->early_trigger = TRUE;
}

void
DO (clock) (SimWarp *w, const SimIns *i)
{
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  u64 now = (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
  u64 wide[SIM_LANES];
  u32 narrow[SIM_LANES];
  LANES
  {
    wide[l] = now;
    narrow[l] = (u32)now;
  }
  if (i->size == 8)
    sim_put64 (w, i->o[0], wide);
  else
    sim_put32 (w, i->o[0], narrow);
}

void
DO (lop3) (SimWarp *w, const SimIns *i)
{
  const u32 *a = sim_row (w, i->x[0]), *b = sim_row (w, i->x[1]);
  const u32 *c = sim_row (w, i->x[2]);
  u32 table = *(const u32 *)sim_row (w, i->x[3]), value[SIM_LANES];
  memset (value, 0, sizeof value);
  for (guint bit = 0; bit < 8; bit++)
    if (table >> bit & 1)
      LANES value[l] |= (bit & 4 ? a[l] : ~a[l]) & (bit & 2 ? b[l] : ~b[l]) &
                        (bit & 1 ? c[l] : ~c[l]);
  sim_put32 (w, i->o[0], value);
}

static u64
insert (u64 a, u64 b, u32 pos, u32 len, u32 width)
{
  pos &= 255;
  len &= 255;
  if (pos >= width || len == 0)
    return b;
  if (len > width - pos)
    len = width - pos;
  u64 mask = (len >= 64 ? ~(u64)0 : ((u64)1 << len) - 1) << pos;
  return (b & ~mask) | (a << pos & mask);
}

void
DO (bfi_b32) (SimWarp *w, const SimIns *i)
{
  const u32 *a = sim_row (w, i->x[0]), *b = sim_row (w, i->x[1]);
  const u32 *p = sim_row (w, i->x[2]), *n = sim_row (w, i->x[3]);
  u32 value[SIM_LANES];
  LANES value[l] = (u32)insert (a[l], b[l], p[l], n[l], 32);
  sim_put32 (w, i->o[0], value);
}

void
DO (bfi_b64) (SimWarp *w, const SimIns *i)
{
  const u64 *a = sim_row (w, i->x[0]), *b = sim_row (w, i->x[1]);
  const u32 *p = sim_row (w, i->x[2]), *n = sim_row (w, i->x[3]);
  u64 value[SIM_LANES];
  LANES value[l] = insert (a[l], b[l], p[l], n[l], 64);
  sim_put64 (w, i->o[0], value);
}

void
DO (carry) (SimWarp *w, const SimIns *i)
{
  sim_fault (w, i, -1, 0, CUDA_ERROR_ILLEGAL_INSTRUCTION, "carry");
}

/* Arithmetic in another rounding mode: the processor's own. */
#define ROUNDED(T, fma, root) \
  static void rounded_##T (SimWarp *w, const SimIns *i, T *value) \
  { \
    const volatile T *a = sim_row (w, i->o[1]); \
    const volatile T *b = sim_row (w, i->o[2]); \
    const volatile T *c = sim_row (w, i->o[3]); \
    volatile T *v = value; \
    switch (i->sub >> 2) { \
      case 0: \
        LANES v[l] = a[l] + b[l]; \
        break; \
      case 1: \
        LANES v[l] = a[l] - b[l]; \
        break; \
      case 2: \
        LANES v[l] = a[l] * b[l]; \
        break; \
      case 3: \
      case 7: \
        LANES v[l] = fma (a[l], b[l], c[l]); \
        break; \
      case 4: \
        LANES v[l] = a[l] / b[l]; \
        break; \
      case 5: \
        LANES v[l] = root (a[l]); \
        break; \
      default: \
        LANES v[l] = 1 / a[l]; \
        break; \
    } \
  }
ROUNDED (f32, fmaf, sqrtf)
ROUNDED (f64, fma, sqrt)

void
DO (rounded) (SimWarp *w, const SimIns *i)
{
  static const int modes[] = { FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD,
    FE_UPWARD };
  union {
    f32 single[SIM_LANES];
    f64 twice[SIM_LANES];
    u32 bits[SIM_LANES];
    u64 wide[SIM_LANES];
  } value;
  memset (&value, 0, sizeof value);
  int before = fegetround ();
  fesetround (modes[i->sub & 3]);
  if (i->size == 8)
    rounded_f64 (w, i, value.twice);
  else
    rounded_f32 (w, i, value.single);
  fesetround (before);
  if (i->size == 8)
    sim_put64 (w, i->o[0], value.wide);
  else
    sim_put32 (w, i->o[0], value.bits);
}
