/* Kernels whose time can be told with a pencil
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "test.h"

#define N 128 /* what the second form of a kernel has more than the first */
#define WAVE 132
#define MMA (406.0 / 64)

static guint64
cycles_of (const gchar *kernel, guint form, guint grid, guint block,
    guint cluster, gint first)
{
  gpu_open ("9.0");
  OK (cudasim_set ("times", "1"));
  OK (cudasim_set ("check", "off"));
  gchar *name = g_strdup_printf ("%s_%u", kernel, form);
  CUmodule module = gpu_module ("timing");
  gsize size = 64 * 1024 * 1024;
  gint *data = g_malloc0 (size);
  data[0] = first;
  CUdeviceptr x = gpu_upload (data, size);
  void *arguments[] = { &x };
  CudasimTimes t;
  OK (gpu_launch (gpu_function (module, name), grid, block,
      cluster > 1 ? 32 * 1024 : 0, cluster, FALSE, NULL, arguments));
  OK (cuCtxSynchronize ());
  g_assert_cmpint (cudasim_times (0, &t), ==, 0);
  g_assert_cmpint (cudasim_times (1, &t), ==, -1);
  OK (cudasim_set ("times", "0"));
  gpu_close ();
  g_free (name);
  g_free (data);
  return t.end - t.begin;
}

/* What N more of something take. */
static guint64
more (const gchar *kernel, guint grid, guint block, gint first)
{
  return cycles_of (kernel, 2, grid, block, 1, first) -
         cycles_of (kernel, 1, grid, block, 1, first);
}

static void
near (guint64 got, gdouble wanted, gdouble percent)
{
  g_test_message ("%.0f cycles, expected %.0f", (gdouble)got, wanted);
  g_assert_cmpfloat_with_epsilon (
      (gdouble)got, wanted, wanted * percent / 100 + 0.001);
}

static void
test_chain (void)
{
  near (more ("chain", 1, 32, 0), N * 4, 0);
  /* Others do not disturb it while they have slots of their own. */
  near (more ("chain", 1, 4 * 4 * 32, 0), N * 4, 1);
}

static void
test_issue (void)
{
  near (more ("apart", 1, 32, 0), N, 2);
  near (more ("apart", 1, 16 * 32, 0), N * 4, 2);
  near (more ("integers", 1, 32, 0), N * 2, 2);
}

static void
test_blocks (void)
{
  guint64 one = more ("apart", 1, 16 * 32, 0);
  near (more ("apart", WAVE, 16 * 32, 0), (gdouble)one, 2);
  near (more ("apart", 2 * WAVE, 16 * 32, 0), 2 * (gdouble)one, 3);
  /* Nothing is known of its registers: one block has a processor to itself. */
  near (more ("chain", 2 * WAVE, 32, 0), 2 * N * 4, 0);
  near (more ("apart", WAVE + 1, 16 * 32, 0), 2 * (gdouble)one, 3);
}

static void
test_products (void)
{
  near (more ("product_chain", 1, 32, 0), N * 33, 0);
  near (more ("products_apart", 1, 4 * 32, 0), N * MMA, 2);
  near (more ("products_apart", 1, 8 * 32, 0), 2 * N * MMA, 2);
}

static void
test_barriers (void)
{
  near (more ("barriers", 1, 8 * 32, 0), N * (22 + 2 * 8 + 1), 4);
}

static void
test_shared (void)
{
  /* With a shift and an addition for the address. */
  near (more ("loads", 1, 32, 1), N * (29 + 4 + 4), 0);
  guint64 quick = more ("loads", 1, 32, 1);
  near (more ("loads", 1, 32, 8) - quick, N * 7, 2);
  near (more ("loads", 1, 32, 32) - quick, N * 31, 2);
}

static void
test_bandwidth (void)
{
  /* One processor has its port, all together what L2 has. */
  near (more ("reads", 1, 256, 0), N * 1024 / 64.0, 10);
  near (more ("reads", WAVE, 256, 0), WAVE * N * 1024 / 2800.0, 10);
}

static void
test_remote (void)
{
  guint64 two = cycles_of ("sends", 2, 2, 256, 2, 0);
  near (two - cycles_of ("sends", 1, 2, 256, 2, 0), N / 8 * 1024 / 12.5, 3);
}

/* The end of the second of two launches of a graph. */
static void
play_two (const gchar *first, const gchar *second, CudasimTimes t[2])
{
  gpu_open ("9.0");
  OK (cudasim_set ("times", "1"));
  OK (cudasim_set ("check", "off"));
  CUmodule module = gpu_module ("timing");
  gpointer zeros = g_malloc0 (64 << 20);
  CUdeviceptr x = gpu_upload (zeros, 64 << 20),
              y = gpu_upload (zeros, 64 << 20);
  g_free (zeros);
  void *a[] = { &x }, *b[] = { &y };
  CUstream stream;
  CUgraph graph;
  CUgraphExec exec;
  OK (cuStreamCreate (&stream, 1));
  OK (cuStreamBeginCapture_v2 (stream, 2));
  OK (gpu_launch (gpu_function (module, first), 1, 32, 0, 1, FALSE, stream, a));
  OK (gpu_launch (gpu_function (module, second), 1, 32, 0, 1, TRUE, stream, b));
  OK (cuStreamEndCapture (stream, &graph));
  OK (cuGraphInstantiateWithFlags (&exec, graph, 0));
  OK (cuGraphLaunch (exec, stream));
  OK (cuStreamSynchronize (stream));
  for (guint i = 0; i < 2; i++)
    g_assert_cmpint (cudasim_times (i, &t[i]), ==, 0);
  g_assert_cmpint (cudasim_times (2, &t[1]), ==, -1);
  OK (cudasim_set ("times", "0"));
  OK (cuGraphExecDestroy (exec));
  OK (cuGraphDestroy (graph));
  OK (cuStreamDestroy_v2 (stream));
  gpu_close ();
}

static void
test_overlap (void)
{
  CudasimTimes t[2];
  const guint64 edge = 350 * 1980 / 1000;
  /* What is done early is hidden behind the launch before... */
  play_two ("waits_late", "waits_early", t);
  g_assert_cmpuint (t[1].begin, <, t[0].end);
  g_assert_cmpuint (t[1].release, ==, t[0].end + edge);
  near (t[1].early, 2048 * 4, 1);
  g_assert_cmpuint (t[1].exposed, ==, 0);
  near (t[1].end - t[1].release, 128 * 4, 3);
  /* ...if that lets others begin before it ends. */
  play_two ("chain_1", "waits_early", t);
  g_assert_cmpuint (t[1].begin, ==, t[0].end + edge);
  near (t[1].exposed, 2048 * 4, 1);
  near (t[1].end - t[1].release, (2048 + 128) * 4, 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/timing/chain", test_chain);
  g_test_add_func ("/timing/issue", test_issue);
  g_test_add_func ("/timing/blocks", test_blocks);
  g_test_add_func ("/timing/products", test_products);
  g_test_add_func ("/timing/barriers", test_barriers);
  g_test_add_func ("/timing/shared", test_shared);
  g_test_add_func ("/timing/bandwidth", test_bandwidth);
  g_test_add_func ("/timing/remote", test_remote);
  g_test_add_func ("/timing/overlap", test_overlap);
  return g_test_run ();
}
