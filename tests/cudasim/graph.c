/* Graphs: what was captured, with its parameters frozen
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "api.h"

static GPtrArray *
freeze (const GPtrArray *nodes)
{
  GPtrArray *copy = nodes_new ();
  for (guint i = 0; i < nodes->len; i++)
    g_ptr_array_add (copy, node_copy (nodes->pdata[i]));
  return copy;
}

static CUresult
instantiate (CUgraphExec *exec, CUgraph graph)
{
  if (!exec || !graph)
    return CUDA_ERROR_INVALID_VALUE;
  *exec = g_new0 (struct _SimGraphExec, 1);
  (*exec)->nodes = freeze (graph->nodes);
  return CUDA_SUCCESS;
}

API (cuGraphInstantiateWithFlags, CUgraphExec *exec, CUgraph graph,
    unsigned long long flags)
{
  ENTER ();
  SYNCHRONOUS ();
  (void)flags;
  RETURN (instantiate (exec, graph));
}

API (cuGraphInstantiate_v2, CUgraphExec *exec, CUgraph graph, CUgraphNode *bad,
    char *log, size_t size)
{
  ENTER ();
  SYNCHRONOUS ();
  if (bad)
    *bad = NULL;
  if (log && size)
    *log = 0;
  RETURN (instantiate (exec, graph));
}

API (cuGraphCreate, CUgraph *graph, unsigned int flags)
{
  ENTER ();
  if (!graph || flags)
    RETURN (CUDA_ERROR_INVALID_VALUE);
  *graph = g_new0 (struct _SimGraph, 1);
  (*graph)->nodes = nodes_new ();
  RETURN (CUDA_SUCCESS);
}

API (cuGraphDestroy, CUgraph graph)
{
  CUresult r = api_enter (TRUE);
  if (r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_INVALID_CONTEXT)
    RETURN (r);
  if (!graph)
    RETURN (CUDA_ERROR_INVALID_VALUE);
  g_ptr_array_unref (graph->nodes);
  g_free (graph);
  RETURN (r);
}

/* A launch that is queued keeps its nodes. */
API (cuGraphExecDestroy, CUgraphExec exec)
{
  CUresult r = api_enter (TRUE);
  if (r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_INVALID_CONTEXT)
    RETURN (r);
  if (!exec)
    RETURN (CUDA_ERROR_INVALID_VALUE);
  g_ptr_array_unref (exec->nodes);
  g_free (exec);
  RETURN (r);
}

/* What is counted, or not done, as soon as a graph is launched. */
static void
enqueue (const GPtrArray *nodes, SimStream *s)
{
  for (guint i = 0; i < nodes->len; i++) {
    const SimNode *n = nodes->pdata[i];
    if (n->type == NODE_RECORD) {
      n->event->recorded++;
      n->event->stream = s;
      n->event->captured = NULL;
    }
    if (n->type == NODE_COPY) {
      if (n->copy == COPY_UP) {
        sim_stats.copies_up++;
        sim_stats.bytes_up += n->size;
      } else if (n->copy == COPY_DOWN) {
        sim_stats.copies_down++;
        sim_stats.bytes_down += n->size;
      } else {
        sim_stats.copies_across++;
        sim_stats.bytes_across += n->size;
      }
    } else if (n->type == NODE_SET) {
      sim_stats.memsets++;
    }
  }
}

API (cuGraphLaunch, CUgraphExec exec, CUstream stream)
{
  ENTER ();
  SimStream *s = stream_of (stream);
  if (!exec || !stream_valid (s))
    RETURN (CUDA_ERROR_INVALID_HANDLE);
  if (sim_fails (&sim_fail.launch)) {
    api_log ("graph launch fails, on demand");
    RETURN (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  }
  SimNode *n = node_new (NODE_GRAPH);
  n->graph = g_ptr_array_ref (exec->nodes);
  sim_stats.graph_launches++;
  enqueue (exec->nodes, s);
  RETURN (stream_add (s, n));
}

API (cuGraphUpload, CUgraphExec exec, CUstream stream)
{
  ENTER ();
  (void)stream;
  RETURN (exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* The result is a structure of the caller's: a code, and two nodes. */
typedef struct {
  int result;
  CUgraphNode error, from;
} UpdateResult;

static gboolean
same_shape (const GPtrArray *a, const GPtrArray *b)
{
  if (a->len != b->len)
    return FALSE;
  for (guint i = 0; i < a->len; i++) {
    const SimNode *x = a->pdata[i], *y = b->pdata[i];
    if (x->type != y->type || (x->type == NODE_COPY && x->copy != y->copy) ||
        (x->type == NODE_KERNEL &&
            (x->launch.kernel->module != y->launch.kernel->module ||
                memcmp (x->launch.cluster, y->launch.cluster,
                    sizeof x->launch.cluster) != 0 ||
                x->launch.cooperative != y->launch.cooperative)))
      return FALSE;
  }
  return TRUE;
}

API (
    cuGraphExecUpdate_v2, CUgraphExec exec, CUgraph graph, UpdateResult *result)
{
  ENTER ();
  SYNCHRONOUS ();
  if (!exec || !graph)
    RETURN (CUDA_ERROR_INVALID_VALUE);
  gboolean ok = same_shape (exec->nodes, graph->nodes);
  if (result)
    *result = (UpdateResult){ ok ? 0 : 2, NULL, NULL };
  if (!ok)
    RETURN (CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  g_ptr_array_unref (exec->nodes);
  exec->nodes = freeze (graph->nodes);
  RETURN (CUDA_SUCCESS);
}

/* Nodes of a graph, in the order in which they were captured. */
API (cuGraphGetNodes, CUgraph graph, CUgraphNode *nodes, size_t *n)
{
  ENTER ();
  if (!graph || !n)
    RETURN (CUDA_ERROR_INVALID_VALUE);
  if (nodes)
    for (gsize i = 0; i < MIN (*n, graph->nodes->len); i++)
      nodes[i] = graph->nodes->pdata[i];
  *n = graph->nodes->len;
  RETURN (CUDA_SUCCESS);
}
