/* Registers to rows: those that are never alive together share one
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * PTX has a new register for almost every value. Liveness is computed over
 * the basic blocks (which are in no particular order), a register's interval
 * is the hull of where it is alive, and intervals take rows in the order in
 * which they begin. Writes are blended by lane, so lanes that have gone
 * different ways do not disturb each other.
 */
#include "ops-list.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  guint start, end; /* instructions */
  gint next[2];     /* blocks */
} Block;

typedef struct {
  guint reg, from, to;
} Interval;

typedef void (*Visit) (gint32 code, gboolean is_out, gpointer data);

static void
visit (const SimIns *ins, Visit func, gpointer data)
{
  for (guint j = 0; j < 4; j++)
    if (ins->o[j] >= 0 && !(ins->o[j] & 1) && !(j == 0 && ins->has_out))
      func (ins->o[j], FALSE, data);
  for (guint j = ins->x_out; j < ins->nx; j++)
    if (!(ins->x[j] & 1))
      func (ins->x[j], FALSE, data);
  if (ins->has_out && ins->o[0] >= 0)
    func (ins->o[0], TRUE, data);
  for (guint j = 0; j < ins->x_out; j++)
    func (ins->x[j], TRUE, data);
}

#define BIT(set, i) ((set)[(i) / 64] >> ((i) % 64) & 1)
#define SET(set, i) ((set)[(i) / 64] |= (guint64)1 << ((i) % 64))

typedef struct {
  guint64 *use, *def;
} Effect;

static void
note_effect (gint32 code, gboolean is_out, gpointer data)
{
  Effect *e = data;
  guint reg = (guint)code >> 1;
  if (is_out)
    SET (e->def, reg);
  else if (!BIT (e->def, reg))
    SET (e->use, reg);
}

typedef struct {
  Interval *intervals;
  guint at;
} Touch;

static void
extend (Interval *i, guint at)
{
  i->from = MIN (i->from, at);
  i->to = MAX (i->to, at);
}

static void
note_touch (gint32 code, gboolean is_out, gpointer data)
{
  Touch *t = data;
  (void)is_out;
  extend (&t->intervals[code >> 1], t->at);
}

static GArray *
find_blocks (const SimKernel *k)
{
  GArray *blocks = g_array_new (FALSE, TRUE, sizeof (Block));
  guint8 *leader = g_malloc0 (k->n_code + 1);
  gint *block_of = g_new0 (gint, k->n_code + 1);
  leader[0] = 1;
  for (guint i = 0; i < k->n_code; i++)
    if (k->code[i].target >= 0 &&
        (k->code[i].op == OP_bra || k->code[i].op == OP_bra_uni)) {
      leader[k->code[i].target] = 1;
      leader[i + 1] = 1;
    } else if (k->code[i].op == OP_exit) {
      leader[i + 1] = 1;
    }
  for (guint i = 0; i < k->n_code; i++) {
    if (leader[i]) {
      Block b = { i, i, { -1, -1 } };
      g_array_append_val (blocks, b);
    }
    g_array_index (blocks, Block, blocks->len - 1).end = i;
    block_of[i] = (gint)blocks->len - 1;
  }
  for (guint i = 0; i < blocks->len; i++) {
    Block *b = &g_array_index (blocks, Block, i);
    const SimIns *last = &k->code[b->end];
    if (last->op == OP_bra || last->op == OP_bra_uni)
      b->next[0] = block_of[last->target];
    if (last->op != OP_bra_uni && last->op != OP_exit && i + 1 < blocks->len)
      b->next[1] = (gint)i + 1;
  }
  g_free (leader);
  g_free (block_of);
  return blocks;
}

static gint
by_start (gconstpointer a, gconstpointer b)
{
  const Interval *x = a, *y = b;
  return x->from != y->from ? (x->from < y->from ? -1 : 1)
                            : (x->reg < y->reg ? -1 : x->reg > y->reg);
}

static void
find_intervals (const SimKernel *k, Interval *intervals, guint n_regs)
{
  GArray *blocks = find_blocks (k);
  guint n = blocks->len, words = n_regs / 64 + 1;
  guint64 *use = g_new0 (guint64, (gsize)n * words);
  guint64 *def = g_new0 (guint64, (gsize)n * words);
  guint64 *in = g_new0 (guint64, (gsize)n * words);
  guint64 *out = g_new0 (guint64, (gsize)n * words);
  gboolean changed = TRUE;

  for (guint i = 0; i < n; i++) {
    Block *b = &g_array_index (blocks, Block, i);
    Effect e = { use + (gsize)i * words, def + (gsize)i * words };
    for (guint j = b->start; j <= b->end; j++)
      visit (&k->code[j], note_effect, &e);
  }
  while (changed) {
    changed = FALSE;
    for (guint i = n; i-- > 0;) {
      Block *b = &g_array_index (blocks, Block, i);
      guint64 *o = out + (gsize)i * words, *v = in + (gsize)i * words;
      for (guint s = 0; s < 2; s++)
        if (b->next[s] >= 0)
          for (guint w = 0; w < words; w++)
            o[w] |= in[(gsize)b->next[s] * words + w];
      for (guint w = 0; w < words; w++) {
        guint64 now =
            use[(gsize)i * words + w] | (o[w] & ~def[(gsize)i * words + w]);
        changed |= now != v[w];
        v[w] = now;
      }
    }
  }
  for (guint i = 0; i < n; i++) {
    Block *b = &g_array_index (blocks, Block, i);
    for (guint r = 0; r < n_regs; r++) {
      if (BIT (in + (gsize)i * words, r))
        extend (&intervals[r], b->start);
      if (BIT (out + (gsize)i * words, r))
        extend (&intervals[r], b->end + 1);
    }
    for (guint j = b->start; j <= b->end; j++) {
      Touch t = { intervals, j };
      visit (&k->code[j], note_touch, &t);
    }
  }
  g_free (use);
  g_free (def);
  g_free (in);
  g_free (out);
  g_array_unref (blocks);
}

/* A register written and read by the same instruction may share the row of
 * one that ends there only if the instruction reads a lane before it writes
 * it. Those that do not (mma, shuffles, loads of several registers) keep
 * their operands alive through it. */
static gboolean
is_lanewise (const SimIns *ins)
{
  return sim_ops[ins->op].n > 0;
}

void
sim_allocate (SimKernel *k, const guint8 *widths, guint n_regs)
{
  Interval *intervals = g_new (Interval, n_regs + 1);
  guint32 *rows = g_new0 (guint32, n_regs + 1);
  GArray *free_rows[2];
  guint n_rows = 0;

  for (guint r = 0; r < n_regs; r++)
    intervals[r] = (Interval){ r, G_MAXUINT, 0 };
  find_intervals (k, intervals, n_regs);
  for (guint i = 0; i < k->n_special; i++) { /* set before the first */
    Interval *s = &intervals[k->special[i].offset];
    s->from = 0;
    s->to = k->n_code;
  }
  Interval *sorted = g_memdup2 (intervals, n_regs * sizeof *intervals);
  if (n_regs)
    qsort (sorted, n_regs, sizeof *sorted, by_start);

  /* Rows of 64 bits are pairs; each kind has its own free list. */
  free_rows[0] = g_array_new (FALSE, FALSE, sizeof (guint32));
  free_rows[1] = g_array_new (FALSE, FALSE, sizeof (guint32));
  GArray *active = g_array_new (FALSE, FALSE, sizeof (Interval));
  for (guint i = 0; i < n_regs; i++) {
    Interval *now = &sorted[i];
    if (now->from == G_MAXUINT)
      continue;
    for (guint a = 0; a < active->len;) {
      Interval *old = &g_array_index (active, Interval, a);
      gboolean over =
          old->to < now->from ||
          (old->to == now->from && old->from < old->to &&
              now->from < k->n_code && is_lanewise (&k->code[now->from]) &&
              widths[old->reg] == widths[now->reg]);
      if (over) {
        g_array_append_val (free_rows[widths[old->reg] == 8], rows[old->reg]);
        g_array_remove_index_fast (active, a);
      } else {
        a++;
      }
    }
    GArray *list = free_rows[widths[now->reg] == 8];
    if (list->len) {
      rows[now->reg] = g_array_index (list, guint32, list->len - 1);
      g_array_set_size (list, list->len - 1);
    } else {
      rows[now->reg] = n_rows;
      n_rows += widths[now->reg] == 8 ? 2 : 1;
    }
    g_array_append_val (active, *now);
  }
  for (guint i = 0; i < k->n_code; i++) {
    SimIns *ins = &k->code[i];
    for (guint j = 0; j < 4; j++)
      if (ins->o[j] >= 0 && !(ins->o[j] & 1))
        ins->o[j] = (gint32)(rows[ins->o[j] >> 1] * SIM_ROW) << 1;
    for (guint j = 0; j < ins->nx; j++)
      if (!(ins->x[j] & 1))
        ins->x[j] = (gint32)(rows[ins->x[j] >> 1] * SIM_ROW) << 1;
  }
  for (guint i = 0; i < k->n_special; i++)
    k->special[i].offset = rows[k->special[i].offset] * SIM_ROW;
  k->n_rows = n_rows + 1;
  k->reg_bytes = (gsize)(n_rows + 1) * SIM_ROW;
  g_array_unref (active);
  g_array_unref (free_rows[0]);
  g_array_unref (free_rows[1]);
  g_free (sorted);
  g_free (intervals);
  g_free (rows);
}
