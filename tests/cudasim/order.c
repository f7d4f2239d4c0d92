/* The order in which an assembler puts the instructions of a run
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A list scheduler, as ptxas is one: of those whose operands are there, the one
 * that most is still to follow on, one a cycle, no pipe twice at once. Loads
 * stay after the stores before them, stores after all accesses before them.
 */
#include "timing.h"

#include <string.h>

typedef struct {
  guint32 from, to;
  gboolean is_data;
} Edge;

typedef struct {
  SimRun *run;
  GArray *edges; /* Edge, by `to` */
  GArray *deps;
  gint32 *writer; /* of a row: node + 1 */
} Builder;

gint32
sim_row_of (gint32 code)
{
  return code & 1 ? -1 : (code >> 1) / SIM_ROW;
}

void
sim_run_free (gpointer data)
{
  SimRun *r = data;
  g_free (r->order);
  g_free (r->cost);
  g_free (r->first);
  g_free (r->deps);
  g_free (r->out_row);
  g_free (r->out_node);
  g_free (r);
}

static void
edge (Builder *b, guint from, guint to, gboolean is_data)
{
  Edge e = { from, to, is_data };
  g_array_append_val (b->edges, e);
}

static void
need (Builder *b, gint32 row, guint node)
{
  if (row < 0)
    return;
  gint32 dep = b->writer[row] ? b->writer[row] - 1 : ~row;
  g_array_append_val (b->deps, dep);
  if (dep >= 0)
    edge (b, (guint)dep, node, TRUE);
}

/* 1: shared memory, 2: global; 4: it writes; 0: no access that has an order. */
static guint
access_of (const SimIns *ins)
{
  switch ((SimKind)ins->kind) {
    case SIM_KIND_LOAD_SHARED:
      return 1;
    case SIM_KIND_STORE_SHARED:
      return 1 | 4;
    case SIM_KIND_REMOTE:
      return 1 | (ins->has_out || ins->x_out ? 0 : 4);
    case SIM_KIND_LOAD_GLOBAL:
      return ins->sem & SIM_SEM_NC ? 0 : 2;
    case SIM_KIND_STORE_GLOBAL:
      return 2 | 4;
    case SIM_KIND_ASYNC:
      return 1 | 4;
    case SIM_KIND_ATOMIC:
      return 3 | 4;
    case SIM_KIND_FENCE:
    case SIM_KIND_BARRIER:
      return 3 | 4;
    default:
      return 0;
  }
}

static void
order_accesses (Builder *b, const SimIns *code, guint n)
{
  guint store[3] = { 0 };
  for (guint i = 0; i < n; i++) {
    guint a = access_of (&code[i]);
    for (guint space = 1; space <= 2; space++) {
      if (!(a & space))
        continue;
      if (store[space])
        edge (b, store[space] - 1, i, FALSE);
      if (a & 4) {
        for (guint j = store[space]; j < i; j++)
          if (access_of (&code[j]) & space)
            edge (b, j, i, FALSE);
        store[space] = i + 1;
      }
    }
  }
}

static void
find_edges (Builder *b, const SimIns *code, guint pc, guint n)
{
  gint32 guard = -1, guard_end = -1;
  for (guint i = 0; i < n; i++) {
    const SimIns *ins = &code[i];
    b->run->first[i] = b->deps->len;
    for (guint j = 0; j < 4; j++)
      if (!(j == 0 && ins->has_out && !ins->also_in))
        need (b, sim_row_of (ins->o[j]), i);
    for (guint j = ins->x_out; j < ins->nx; j++)
      need (b, sim_row_of (ins->x[j]), i);
    if ((gint32)i < guard_end) {
      g_array_append_val (b->deps, guard);
      edge (b, (guint)guard, i, TRUE);
      if (ins->has_out) /* lanes that do not run keep theirs */
        need (b, sim_row_of (ins->o[0]), i);
    }
    if (ins->op == OP_bra && ins->n) {
      guard = (gint32)i;
      guard_end = ins->target - (gint32)pc;
    }
    if (ins->has_out && sim_row_of (ins->o[0]) >= 0)
      b->writer[sim_row_of (ins->o[0])] = (gint32)i + 1;
    for (guint j = 0; j < ins->x_out; j++)
      if (sim_row_of (ins->x[j]) >= 0)
        b->writer[sim_row_of (ins->x[j])] = (gint32)i + 1;
  }
  b->run->first[n] = b->deps->len;
  /* What ends a run is last. */
  if (n && (code[n - 1].kind == SIM_KIND_CONTROL ||
               code[n - 1].kind == SIM_KIND_FENCE ||
               code[n - 1].kind == SIM_KIND_BARRIER))
    for (guint i = 0; i + 1 < n; i++)
      edge (b, i, n - 1, FALSE);
}

static void
find_outs (Builder *b, guint n_rows)
{
  SimRun *r = b->run;
  for (guint row = 0; row < n_rows; row++)
    r->n_outs += b->writer[row] > 0;
  r->out_row = g_new (guint32, MAX (r->n_outs, 1));
  r->out_node = g_new (guint32, MAX (r->n_outs, 1));
  for (guint row = 0, k = 0; row < n_rows; row++)
    if (b->writer[row]) {
      r->out_row[k] = row;
      r->out_node[k++] = (guint32)b->writer[row] - 1;
    }
}

typedef struct {
  guint *left;                /* edges into a node that are not there yet */
  guint64 *earliest, *height; /* cycles: it can begin; are still to follow */
  guint *begin;               /* of a node's edges out, in `out` */
  Edge *out;
} Graph;

static void
sort_edges (Graph *g, const Builder *b, guint n)
{
  g->left = g_new0 (guint, n + 1);
  g->begin = g_new0 (guint, n + 2);
  g->out = g_new (Edge, MAX (b->edges->len, 1));
  g->earliest = g_new0 (guint64, n + 1);
  g->height = g_new0 (guint64, n + 1);
  for (guint i = 0; i < b->edges->len; i++)
    g->begin[g_array_index (b->edges, Edge, i).from + 2]++;
  for (guint i = 0; i < n; i++)
    g->begin[i + 2] += g->begin[i + 1];
  for (guint i = 0; i < b->edges->len; i++) {
    Edge e = g_array_index (b->edges, Edge, i);
    g->out[g->begin[e.from + 1]++] = e;
    g->left[e.to]++;
  }
  for (guint i = n; i-- > 0;) {
    guint64 most = 0;
    for (guint k = g->begin[i]; k < g->begin[i + 1]; k++)
      most = MAX (most, g->height[g->out[k].to] +
                            (g->out[k].is_data ? b->run->cost[i].latency : 0));
    g->height[i] = most + (b->run->cost[i].is_free ? 0 : 1);
  }
}

static SimPipe
pipe_of (const SimCost *c, const guint64 *pipe)
{
  return c->pipe != PIPE_EITHER            ? c->pipe
         : pipe[PIPE_FMA] < pipe[PIPE_ALU] ? PIPE_FMA
                                           : PIPE_ALU;
}

static void
list_schedule (Graph *g, SimRun *r, guint n)
{
  guint *ready = g_new (guint, n + 1);
  guint n_ready = 0, done = 0;
  guint64 now = 0, pipe[SIM_N_PIPES] = { 0 };
  for (guint i = 0; i < n; i++)
    if (!g->left[i])
      ready[n_ready++] = i;
  while (done < n && n_ready) {
    guint best = 0;
    guint64 soonest = G_MAXUINT64;
    gboolean found = FALSE;
    for (guint k = 0; k < n_ready; k++) {
      guint i = ready[k], at = ready[best];
      guint64 t = g->earliest[i];
      if (!r->cost[i].is_free)
        t = MAX (t, pipe[pipe_of (&r->cost[i], pipe)]);
      soonest = MIN (soonest, t);
      if (t > now && !r->cost[i].is_free)
        continue;
      if (!found || r->cost[i].is_free ||
          (!r->cost[at].is_free &&
              (g->height[i] > g->height[at] ||
                  (g->height[i] == g->height[at] && i < at))))
        best = k;
      found = TRUE;
    }
    if (!found) {
      now = soonest;
      continue;
    }
    guint i = ready[best];
    const SimCost *c = &r->cost[i];
    guint64 begin = c->is_free ? g->earliest[i] : now;
    ready[best] = ready[--n_ready];
    r->order[done++] = i;
    for (guint k = g->begin[i]; k < g->begin[i + 1]; k++) {
      Edge e = g->out[k];
      g->earliest[e.to] =
          MAX (g->earliest[e.to], begin + (e.is_data ? c->latency : 0));
      if (!--g->left[e.to])
        ready[n_ready++] = e.to;
    }
    if (c->is_free)
      continue;
    if (c->pipe != PIPE_NONE)
      pipe[pipe_of (c, pipe)] =
          now + (c->pipe == PIPE_TENSOR ? c->busy / 64 : c->busy);
    now += c->slots;
  }
  g_free (ready);
}

SimRun *
sim_order (const SimKernel *kernel, guint32 pc, guint32 n, const SimCard *card,
    gboolean as_written)
{
  const SimIns *code = &kernel->code[pc];
  SimRun *r = g_new0 (SimRun, 1);
  Builder b = { r, g_array_new (FALSE, FALSE, sizeof (Edge)),
    g_array_new (FALSE, FALSE, sizeof (gint32)),
    g_new0 (gint32, kernel->n_rows + 1) };
  r->n = n;
  r->order = g_new (guint32, n + 1);
  r->cost = g_new (SimCost, n + 1);
  r->first = g_new (guint32, n + 1);
  for (guint i = 0; i < n; i++) {
    r->cost[i] = sim_cost (&code[i], card);
    r->order[i] = i;
  }
  find_edges (&b, code, pc, n);
  if (!as_written) {
    Graph g;
    order_accesses (&b, code, n);
    sort_edges (&g, &b, n);
    list_schedule (&g, r, n);
    g_free (g.left);
    g_free (g.begin);
    g_free (g.out);
    g_free (g.earliest);
    g_free (g.height);
  }
  find_outs (&b, kernel->n_rows + 1);
  r->deps = (gint32 *)(gpointer)g_array_free (b.deps, FALSE);
  g_array_unref (b.edges);
  g_free (b.writer);
  return r;
}
