/* What is wrong has to be caught, what is right to be let through
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "test.h"

#include <math.h>
#include <string.h>

typedef struct {
  const gchar *name;
  guint grid, block, cluster;
  gboolean twice; /* launched twice, the second programmatically */
  const gchar *capability;
} Case;

static const Case cases[] = {
  { "missing_barrier", 1, 64, 1, FALSE, "7.5" },
  { "missing_second_barrier", 1, 64, 1, FALSE, "7.5" },
  { "missing_syncwarp", 1, 32, 1, FALSE, "7.5" },
  { "race_between_blocks", 8, 1, 1, FALSE, "7.5" },
  { "race_of_writers", 8, 1, 1, FALSE, "7.5" },
  { "race_in_block", 1, 64, 1, FALSE, "7.5" },
  { "lost_update", 4, 32, 1, FALSE, "7.5" },
  { "missing_fence", 8, 32, 1, FALSE, "7.5" },
  { "beyond_the_end", 1, 64, 1, FALSE, "7.5" },
  { "before_the_start", 1, 64, 1, FALSE, "7.5" },
  { "far_away", 1, 64, 1, FALSE, "7.5" },
  { "misaligned", 1, 1, 1, FALSE, "7.5" },
  { "beyond_shared", 1, 64, 1, FALSE, "7.5" },
  { "beyond_local", 1, 4, 1, FALSE, "7.5" },
  { "uninitialised", 1, 64, 1, FALSE, "7.5" },
  { "divergent_barrier", 1, 64, 1, FALSE, "7.5" },
  { "different_barriers", 1, 64, 1, FALSE, "7.5" },
  { "barrier_in_one_warp", 1, 64, 1, FALSE, "7.5" },
  { "shuffle_of_absent", 1, 32, 1, FALSE, "7.5" },
  { "shuffle_from_absent", 1, 32, 1, FALSE, "7.5" },
  { "missing_async_wait", 1, 64, 1, FALSE, "9.0" },
  { "no_coherence", 1, 64, 1, FALSE, "7.5" },
  { "endless", 1, 32, 1, FALSE, "7.5" },
  { "half_a_warp_multiplies", 1, 32, 1, FALSE, "9.0" },
  { "stack_trap", 1, 32, 1, FALSE, "7.5" },
  { "missing_cluster_barrier", 2, 32, 2, FALSE, "9.0" },
  { "leaves_the_cluster", 2, 32, 2, FALSE, "9.0" },
  { "relaxed_arrival", 2, 32, 2, FALSE, "9.0" },
  { "early_read", 1, 64, 1, TRUE, "9.0" },
  { "no_wait", 1, 64, 1, TRUE, "9.0" },
  { "early_write", 1, 64, 1, TRUE, "9.0" },
};

/* x has 128 floats, or 256 of which the second half is not written to. */
static CUresult
run (const Case *c, gint bad)
{
  gfloat x[192] = { 0 };
  gboolean longer = strcmp (c->name, "uninitialised") == 0 || c->twice;
  gpu_open (c->capability);
  CUmodule module = gpu_module ("teeth");
  CUfunction f = gpu_function (module, c->name);
  CUdeviceptr address = gpu_empty (longer ? 768 : 512);
  OK (cuMemcpyHtoD_v2 (address, x, 512));
  void *arguments[] = { &address, &bad };
  guint dynamic = strcmp (c->name, "beyond_shared") == 0 ? 256 : 0;
  OK (gpu_launch (
      f, c->grid, c->block, dynamic, c->cluster, FALSE, NULL, arguments));
  if (c->twice)
    OK (gpu_launch (
        f, c->grid, c->block, dynamic, c->cluster, TRUE, NULL, arguments));
  CUresult r = cuCtxSynchronize ();
  gpu_close ();
  return r;
}

static void
test_case (gconstpointer data)
{
  const Case *c = data;
  guint caught = 0;
  cudasim_set ("budget", "100000");
  for (guint seed = 1; seed <= 8; seed++) {
    gchar *text = g_strdup_printf ("%u", seed);
    cudasim_set ("seed", text);
    g_free (text);
    cudasim_set ("quiet", "0");
    OK (run (c, 0));
    cudasim_set ("quiet", seed == 1 ? "0" : "1");
    CUresult r = run (c, 1);
    if (r)
      caught++;
  }
  /* Whether a block has ended when another looks depends on the order. */
  if (strcmp (c->name, "leaves_the_cluster") == 0)
    g_assert_cmpuint (caught, >, 0);
  else
    g_assert_cmpuint (caught, ==, 8);
}

static void
test_uninitialised_shared (void)
{
  gfloat x[64];
  gpu_open ("7.5");
  CUmodule module = gpu_module ("teeth");
  CUfunction f = gpu_function (module, "uninitialised_shared");
  for (gint bad = 0; bad < 2; bad++) {
    CUdeviceptr address = gpu_upload (x, sizeof x);
    CudasimCounters before, after;
    cudasim_counters (&before);
    OK (gpu_run (f, 1, 64, 0, &address, &bad, NULL));
    cudasim_counters (&after);
    gfloat *got = gpu_download (address, sizeof x);
    g_assert_cmpint (isnan (got[63]) != 0, ==, bad);
    g_assert_cmpuint (
        after.uninitialised - before.uninitialised, ==, (guint)bad);
    g_free (got);
  }
  gpu_close ();
}

/* Races can be counted instead. */
static void
test_count_only (void)
{
  CudasimCounters before, after;
  cudasim_set ("races", "count");
  cudasim_set ("quiet", "1");
  cudasim_counters (&before);
  OK (run (&cases[0], 1));
  cudasim_counters (&after);
  g_assert_cmpuint (after.races - before.races, >, 0);
  cudasim_set ("races", "fail");
}

/* The same in fast mode, for the first block; and nothing when off. */
static void
test_levels (void)
{
  cudasim_set ("quiet", "1");
  cudasim_set ("check", "fast");
  OK (run (&cases[0], 0));
  g_assert_cmpint (run (&cases[0], 1), !=, CUDA_SUCCESS);
  cudasim_set ("check", "off");
  OK (run (&cases[0], 1));
  cudasim_set ("check", "full");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    gchar *path = g_strconcat ("/teeth/", cases[i].name, NULL);
    g_test_add_data_func (path, &cases[i], test_case);
    g_free (path);
  }
  g_test_add_func ("/teeth/uninitialised_shared", test_uninitialised_shared);
  g_test_add_func ("/teeth/count-only", test_count_only);
  g_test_add_func ("/teeth/levels", test_levels);
  return g_test_run ();
}
