/* What each warp of a launch did, in steps
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A run is a range of the code that was gone through without a jump, up to a
 * branch, a barrier or a fence: what an assembler may reorder. Instructions
 * under a guard belong to it whether they ran or not, as they do in machine
 * code.
 */
#include "config.h"
#include "timing.h"

#include <stdio.h>
#include <string.h>

GPtrArray *sim_timed;

/* Of a thread, as ptxas -v said of the newest code that the card can run; 0: not
 * known. */
static guint
registers_of (const gchar *name)
{
  static gchar *text;
  guint best = 0, registers = 0;
  if (!sim_config.registers)
    return 0;
  if (!text && !g_file_get_contents (sim_config.registers, &text, NULL, NULL))
    text = g_strdup ("");
  g_autofree gchar *begin =
      g_strdup_printf ("entry function '%s' for 'sm_", name);
  for (const gchar *p = text; (p = strstr (p, begin)); p++) {
    guint arch = (guint)g_ascii_strtoull (p + strlen (begin), NULL, 10);
    const gchar *used = strstr (p, "Used ");
    if (used && arch <= sim_config.capability && arch > best) {
      best = arch;
      registers = (guint)g_ascii_strtoull (used + 5, NULL, 10);
    }
  }
  return registers;
}

SimTimed *
sim_timed_new (SimLaunch *l)
{
  SimTimed *t = g_new0 (SimTimed, 1);
  guint limit = l->kernel->function->min_blocks;
  guint threads = l->warps_per_block * SIM_LANES;
  const SimCard *card = sim_card ();
  t->kernel = l->kernel;
  t->n_blocks = l->grid[0] * l->grid[1] * l->grid[2];
  t->cluster = l->cluster[0] * l->cluster[1] * l->cluster[2];
  t->warps = l->warps_per_block;
  t->programmatic = l->programmatic;
  /* What the runtime keeps for itself is 1 KiB. */
  t->shared = l->kernel->shared_bytes + l->dynamic + 1024;
  /* Registers, in eights; or as many blocks as it was compiled for. */
  guint registers = (registers_of (l->kernel->name) + 7) / 8 * 8;
  t->per = registers ? 65536 / (registers * threads) : MAX (limit, 1);
  t->per = MAX (MIN (t->per, card->threads / threads), 1);
  t->traces = g_new0 (SimTrace, l->n_agents);
  for (guint i = 0; i < l->n_agents; i++) {
    t->traces[i].steps = g_array_new (FALSE, TRUE, sizeof (SimStep));
    t->traces[i].touches = g_array_new (FALSE, TRUE, sizeof (SimTouch));
    t->traces[i].sectors = g_array_new (FALSE, FALSE, sizeof (guint64));
  }
  return t;
}

void
sim_timed_free (gpointer data)
{
  SimTimed *t = data;
  for (guint i = 0; i < t->n_blocks * t->warps; i++) {
    g_array_unref (t->traces[i].steps);
    g_array_unref (t->traces[i].touches);
    g_array_unref (t->traces[i].sectors);
  }
  g_free (t->traces);
  g_free (t);
}

static void
add (SimTrace *t, guint8 type, guint8 arg, guint pc, guint n)
{
  SimStep step = { .pc = pc, .n = n, .type = type, .arg = arg };
  step.mem = t->touches->len;
  g_array_append_val (t->steps, step);
}

static void
close (SimTrace *t)
{
  t->is_open = FALSE;
}

void
sim_trace (SimWarp *w, const SimIns *ins, guint pc)
{
  SimTrace *t = w->trace;
  gboolean is_guard = ins->op == OP_bra && ins->n;
  if (t->is_open && pc != t->next && pc != t->skip)
    close (t);
  t->next = pc + 1;
  t->skip = is_guard ? (guint)ins->target : G_MAXUINT;
  if ((ins->kind == SIM_KIND_BARRIER && ins->op != OP_bar_warp) ||
      ins->op == OP_grid_trigger || ins->op == OP_cp_async_wait) {
    close (t);
    if (ins->op == OP_grid_trigger)
      add (t, STEP_TRIGGER, 0, pc, 1);
    else if (ins->op == OP_cp_async_wait)
      add (t, STEP_ASYNC, 0, pc, ins->sub ? 0 : (guint)ins->imm);
    return;
  }
  if (!t->is_open) {
    add (t, STEP_RUN, 0, pc, 0);
    t->start = pc;
    t->is_open = TRUE;
  }
  SimStep *step = &g_array_index (t->steps, SimStep, t->steps->len - 1);
  step->n = pc - t->start + 1;
  if ((ins->kind == SIM_KIND_CONTROL && !is_guard) ||
      ins->kind == SIM_KIND_FENCE || ins->op == OP_bar_warp)
    close (t);
}

void
sim_trace_step (SimWarp *w, guint8 type, guint8 arg, guint n)
{
  add (w->trace, type, arg, w->pc, n);
}

void
sim_trace_touch (SimWarp *w, const SimIns *ins, guint waves, guint bytes,
    const guint64 *sectors, guint n)
{
  SimTrace *t = w->trace;
  if (!t->steps->len)
    return;
  SimStep *step = &g_array_index (t->steps, SimStep, t->steps->len - 1);
  SimTouch touch = {
    .at = (guint)(ins - w->launch->kernel->code) - step->pc,
    .sector = t->sectors->len,
    .n_sectors = n,
    .waves = (guint16)waves,
    .bytes = (guint16)bytes,
    .is_cached = ins->kind == SIM_KIND_LOAD_GLOBAL &&
                 !(ins->sem & (SIM_SEM_STRONG | SIM_SEM_ACQUIRE)),
  };
  g_array_append_vals (t->sectors, sectors, n);
  g_array_append_val (t->touches, touch);
  step->n_mem++;
}

/* Traces are wanted of the launches of one graph, or of each that is no part of
 * one. */
void
sim_times_begin (void)
{
  if (!sim_timed)
    sim_timed = g_ptr_array_new_with_free_func (sim_timed_free);
}

void
sim_times_end (void)
{
  const SimCard *card = sim_card ();
  if (!sim_timed)
    return;
  for (guint i = 0; i < sim_played.n; i++)
    g_free (sim_played.times[i].name);
  g_free (sim_played.times);
  sim_played.n = sim_timed->len;
  sim_played.times = sim_play (sim_timed, card, 0);
  if (sim_played.times) {
    SimTimes *high = sim_play (sim_timed, card, 1);
    guint last = sim_played.n - 1;
    sim_played.total[0] = sim_played.times[last].end;
    sim_played.total[1] = high ? high[last].end : 0;
    for (guint i = 0; high && i < sim_played.n; i++)
      g_free (high[i].name);
    g_free (high);
  } else {
    sim_played.n = 0;
  }
  g_clear_pointer (&sim_timed, g_ptr_array_unref);
}

SimPlayed sim_played;

void
sim_times_write (gpointer file)
{
  FILE *f = file;
  const SimCard *card = sim_card ();
#define N(x) (unsigned long long)(x)
  fprintf (f,
      ",\n  \"scheduled\": {\"card\": \"%s\", \"mhz\": %u, "
      "\"total\": [%llu, %llu], \"launches\": [\n",
      card->name, card->mhz, N (sim_played.total[0]), N (sim_played.total[1]));
  for (guint i = 0; i < sim_played.n; i++) {
    const SimTimes *t = &sim_played.times[i];
    fprintf (f,
        "    {\"kernel\": \"%s\", \"blocks\": %u, \"cluster\": %u, "
        "\"begin\": %llu, \"release\": %llu, \"end\": %llu,\n"
        "      \"early\": %llu, \"exposed\": %llu, \"issue\": %.3f, "
        "\"tensor\": %.3f, \"lsu\": %.3f, \"l2\": %.3f,\n      \"spent\": {",
        t->name, t->blocks, t->cluster, N (t->begin), N (t->release),
        N (t->end), N (t->early), N (t->exposed), t->issue, t->tensor, t->lsu,
        t->l2);
    for (guint c = 0; c < SIM_N_CAUSES; c++)
      fprintf (f, "%s\"%s\": %llu", c ? ", " : "", sim_cause_names[c],
          N (t->spent[c]));
    fprintf (f, "}}%s\n", i + 1 < sim_played.n ? "," : "");
  }
  fprintf (f, "  ]}");
}
