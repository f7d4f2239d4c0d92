/* Barriers, fences, shuffles, votes, the end
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "decode.h"

/* sub of bar: 0 sync, 1 arrive; wide: .aligned; o[1] id, o[2] threads or -1,
 * imm 1: a number of threads was given. bar_red besides: o[3] the vote, sub
 * 0 popc, 1 and, 2 or. */
static void
decode_barrier (Decoder *d, const gchar *base)
{
  gboolean aligned = strcmp (base, "bar") == 0 || decode_has (d, "aligned");
  if (decode_has (d, "cluster")) {
    gboolean arrive = decode_has (d, "arrive");
    SimIns *ins = decode_emit (d, arrive ? OP_cluster_arrive : OP_cluster_wait);
    ins->wide = decode_has (d, "aligned");
    ins->sub = !decode_has (d, "relaxed");
    return;
  }
  if (decode_has (d, "warp")) {
    gint32 a = decode_src (d, decode_operand (d, 0), 4);
    decode_emit (d, OP_bar_warp)->o[1] = a;
    return;
  }
  gboolean red = decode_has (d, "red");
  guint i = red ? 1 : 0, n = d->at->n_operands - (red ? 1 : 0);
  gint32 id = decode_src (d, decode_operand (d, i++), 4);
  gint32 threads = -1, vote = -1, out = -1;
  if (n - i > 0 && (!red || n - i == 1))
    threads = decode_src (d, decode_operand (d, i++), 4);
  if (red) {
    const PtxOperand *p = decode_operand (d, d->at->n_operands - 1);
    if (d->at->n_operands == 4)
      threads = decode_src (d, decode_operand (d, 2), 4);
    else
      threads = -1;
    vote = decode_pred (d, p);
    out = decode_dst (d, decode_operand (d, 0), 4);
  }
  SimIns *ins = decode_emit (d, red ? OP_bar_red : OP_bar);
  ins->o[0] = out;
  ins->has_out = red;
  ins->o[1] = id;
  ins->o[2] = threads;
  ins->o[3] = vote;
  ins->imm = threads >= 0;
  ins->wide = aligned;
  ins->sub = red ? (decode_has (d, "popc")     ? 0
                       : decode_has (d, "and") ? 1
                                               : 2)
                 : decode_has (d, "arrive");
}

/* sub 0 up, 1 down, 2 bfly, 3 idx; x: a, b, c, members [, predicate out]. */
static void
decode_shuffle (Decoder *d)
{
  static const gchar *const modes[] = { "up", "down", "bfly", "idx", NULL };
  guint mode = 0;
  const PtxOperand *dst = decode_operand (d, 0);
  while (modes[mode] && !decode_has (d, modes[mode]))
    mode++;
  if (!modes[mode] || !decode_has (d, "sync") || !decode_has (d, "b32")) {
    decode_fail (d, "shuffle unknown to the simulator");
    return;
  }
  gboolean pair = dst->pair >= 0;
  guint n = pair ? 5 : 4;
  gint32 *x = decode_array (d, n);
  for (guint i = 0; i < 4; i++)
    x[n - 4 + i] = decode_src (d, decode_operand (d, i + 1), 4);
  if (pair)
    x[0] = decode_reg (d, dst->pair);
  gint32 out = decode_dst (d, dst, 4);
  SimIns *ins = decode_emit (d, OP_shfl);
  ins->o[0] = out;
  ins->has_out = TRUE;
  ins->x = x;
  ins->nx = (guint8)n;
  ins->x_out = pair;
  ins->sub = (guint8)mode;
}

static void
decode_vote (Decoder *d, gint op, const gchar *const *modes)
{
  guint mode = 0;
  while (modes[mode] && !decode_has (d, modes[mode]))
    mode++;
  if (!modes[mode] || !decode_has (d, "sync")) {
    decode_fail (d, "form unknown to the simulator");
    return;
  }
  guint width = op == OP_match && decode_has (d, "b64") ? 8 : 4;
  gint32 a = op == OP_vote ? decode_pred (d, decode_operand (d, 1))
                           : decode_src (d, decode_operand (d, 1), width);
  gint32 members = decode_src (d, decode_operand (d, 2), 4);
  gint32 out = decode_dst (d, decode_operand (d, 0), 4);
  SimIns *ins = decode_emit (d, op);
  ins->o[0] = out;
  ins->has_out = TRUE;
  ins->o[1] = a;
  ins->o[2] = members;
  ins->sub = (guint8)mode;
  ins->size = (guint8)width;
  ins->wide = decode_has (d, "s32");
}

static void
decode_fence (Decoder *d, const gchar *base)
{
  guint8 sem = SIM_SEM_ACQUIRE | SIM_SEM_RELEASE;
  if (decode_has (d, "cta"))
    sem |= SIM_SEM_BLOCK;
  if (decode_has (d, "cluster"))
    sem |= SIM_SEM_CLUSTER;
  if (decode_has (d, "proxy") || decode_has (d, "mbarrier_init") ||
      decode_has (d, "proxy::async")) {
    decode_emit (d, OP_nop);
    return;
  }
  (void)base;
  decode_emit (d, OP_fence)->sem = sem;
}

gboolean
decode_control (Decoder *d, const gchar *base)
{
  static const gchar *const votes[] = { "ballot", "all", "any", "uni", NULL };
  static const gchar *const matches[] = { "any", NULL };
  static const gchar *const reds[] = { "add", "min", "max", "and", "or", "xor",
    NULL };

  if (strcmp (base, "bar") == 0 || strcmp (base, "barrier") == 0) {
    decode_barrier (d, base);
  } else if (strcmp (base, "shfl") == 0) {
    decode_shuffle (d);
  } else if (strcmp (base, "vote") == 0) {
    decode_vote (d, OP_vote, votes);
  } else if (strcmp (base, "match") == 0) {
    decode_vote (d, OP_match, matches);
  } else if (strcmp (base, "redux") == 0) {
    decode_vote (d, OP_redux, reds);
  } else if (strcmp (base, "activemask") == 0) {
    decode_emit1 (d, OP_activemask, decode_dst (d, decode_operand (d, 0), 4),
        decode_const (d, 4, 0));
  } else if (strcmp (base, "elect") == 0) {
    const PtxOperand *dst = decode_operand (d, 0);
    gint32 *x = decode_array (d, 2);
    x[1] = decode_src (d, decode_operand (d, 1), 4);
    gint32 leader =
        dst->kind == PTX_SINK ? decode_temp (d, 4) : decode_dst (d, dst, 4);
    x[0] = dst->pair >= 0 ? decode_reg (d, dst->pair) : decode_temp (d, 4);
    SimIns *ins = decode_emit (d, OP_elect);
    ins->o[0] = leader;
    ins->has_out = TRUE;
    ins->x = x;
    ins->nx = 2;
    ins->x_out = 1;
  } else if (strcmp (base, "fence") == 0 || strcmp (base, "membar") == 0) {
    decode_fence (d, base);
  } else if (strcmp (base, "griddepcontrol") == 0) {
    decode_emit (d, decode_has (d, "wait") ? OP_grid_wait : OP_grid_trigger);
  } else if (strcmp (base, "ret") == 0 || strcmp (base, "exit") == 0) {
    decode_emit (d, OP_exit);
  } else if (strcmp (base, "trap") == 0) {
    decode_emit (d, OP_trap);
  } else if (strcmp (base, "nanosleep") == 0) {
    decode_emit (d, OP_nanosleep);
  } else if (strcmp (base, "brkpt") == 0 || strcmp (base, "pmevent") == 0 ||
             strcmp (base, "setmaxnreg") == 0) {
    decode_emit (d, OP_nop);
  } else {
    return FALSE;
  }
  return TRUE;
}
