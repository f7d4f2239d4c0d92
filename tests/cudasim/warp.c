/* The lanes of a warp: groups that went different ways, and running them
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "ops-list.h"

#include <stdio.h>

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
  gint64 budget = SIM_TURN;

  w->stop = SIM_STOP_NO;
  for (;;) {
    const SimIns *ins = &code[w->pc];
    executed[w->pc]++;
    w->pc++;
    if (G_UNLIKELY (slow))
      sim_chain (w, ins);
    if (G_UNLIKELY (w->trace != NULL))
      sim_trace (w, ins, w->pc - 1);
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
  w->budget += SIM_TURN - budget;
}
