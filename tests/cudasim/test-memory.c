/* Memory, lanes, divergence and blocks against plain C
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "test.h"

#include <string.h>

#define N 300

typedef struct {
  CUdeviceptr in[2], out;
  gint n, which;
} Params;

static gint
noise (guint i)
{
  return (gint)(i * 2654435761u >> 13 & 1023);
}

static gfloat
expected (const gfloat *in, guint i)
{
  static const gint16 constants[8] = { 10, -11, 12, -13, 14, -15, 16, -17 };
  const gint8 *bytes = (const gint8 *)in;
  const guint16 *halves = (const guint16 *)(const void *)in;
  gfloat local[8];
  for (guint j = 0; j < 8; j++)
    local[j] = in[4 * i] * (gfloat)j + in[4 * i + 1];
  local[i & 7] += in[4 * i + 2];
  gfloat r = local[(i * 3) & 7] + local[i & 7] * in[4 * i + 3] + in[2 * i] -
             in[2 * i + 1];
  return r + (gfloat)(bytes[i] + halves[i] + constants[i & 7]) - 2;
}

static void
test_mixed (gconstpointer unused)
{
  (void)unused;
  gdouble wide[2][2 * N];
  for (guint i = 0; i < 2; i++)
    for (guint j = 0; j < 2 * N; j++) {
      gfloat pair[2] = { (gfloat)noise (4 * j + i) / 64,
        (gfloat)noise (4 * j + 2 + i) / 32 + 1 };
      memcpy (&wide[i][j], pair, 8);
    }
  gpu_open ("7.5");
  CUmodule module = gpu_module ("memory");
  Params p = { { gpu_upload (wide[0], sizeof wide[0]),
                   gpu_upload (wide[1], sizeof wide[1]) },
    gpu_empty (8 * N), N, 1 };
  OK (gpu_run (gpu_function (module, "mixed"), 3, 128, 0, &p, NULL));
  gfloat *out = gpu_download (p.out, 8 * N);
  for (guint i = 0; i < N; i++) {
    const gdouble *in = wide[(i + 1) & 1];
    gfloat want = expected ((const gfloat *)(const void *)in, i);
    g_assert_cmpfloat_with_epsilon (out[2 * i], want, 1e-2);
    g_assert_cmpfloat (out[2 * i + 1], ==, (gfloat)in[i]);
  }
  g_free (out);
  OK (cuModuleUnload (module));
  gpu_close ();
}

static void
test_sums (gconstpointer unused)
{
  (void)unused;
  guint n = N, blocks = (N + 63) / 64, extra = blocks * 8;
  gint in[N], *zero = g_new0 (gint, extra + 5);
  for (guint i = 0; i < N; i++)
    in[i] = noise (i);
  gpu_open ("7.5");
  CUmodule module = gpu_module ("memory");
  CUdeviceptr din = gpu_upload (in, sizeof in);
  CUdeviceptr out = gpu_upload (zero, (extra + 5) * 4);
  OK (gpu_run (
      gpu_function (module, "sums"), blocks, 64, 0, &din, &out, &n, NULL));
  gint *got = gpu_download (out, (extra + 5) * 4), down = 0, largest = 0;
  for (guint b = 0; b < blocks; b++) {
    gint x[64], sum = 0, upper = 0, odd = 0, any = 0;
    guint ballot = 0;
    for (guint i = 0; i < 64; i++) {
      x[i] = b * 64 + i < N ? in[b * 64 + i] : 0;
      sum += x[i];
      upper += i >= 32 ? x[i] : 0;
      odd += x[i] & 1;
      any |= x[i] > 995;
      if (i >= 32)
        ballot |= (guint)(x[i] & 1) << (i - 32);
      largest = MAX (largest, x[i]);
    }
    for (guint i = 0; i < 64; i++)
      down += x[(i & 7) + 5 < 8 ? i + 5 : i];
    g_assert_cmpint (got[b * 8], ==, sum);
    g_assert_cmpint (got[b * 8 + 1], ==, sum);
    g_assert_cmpint (got[b * 8 + 2], ==, upper);
    g_assert_cmpint (got[b * 8 + 3], ==, upper);
    g_assert_cmpint (got[b * 8 + 4], ==, x[0] > 0);
    g_assert_cmpint (got[b * 8 + 5], ==, odd);
    g_assert_cmpint (got[b * 8 + 6], ==, any * 2 + 1);
    g_assert_cmpuint ((guint)got[b * 8 + 7], ==, ballot);
  }
  g_assert_cmpint (got[extra], ==, down);
  g_assert_cmpint (got[extra + 1], ==, largest);
  g_assert_cmpint (got[extra + 2], ==, (gint)blocks * 64);
  g_assert_cmpint (got[extra + 3], !=, 0);
  g_assert_cmpint (got[extra + 4], ==, 7);
  g_free (got);
  g_free (zero);
  OK (cuModuleUnload (module));
  gpu_close ();
}

static gint
wander (gint x)
{
  gint steps = 0, r = 0;
  for (gint y = x; y != 1 && steps < 500; steps++)
    y = y & 1 ? 3 * y + 1 : y / 2;
  for (gint j = 0; j < (x & 15); j++) {
    if (j == (x >> 4 & 7))
      continue;
    switch ((x + j) % 5) {
      case 0:
        r += 3;
        break;
      case 1:
        r ^= j;
        r -= x & 3;
        break;
      case 2:
        r -= x & 3;
        break;
      case 3:
        if (r > 100)
          goto out;
        r *= 2;
        break;
      default:
        r++;
    }
  }
out:
  return (r + 32) * 1000 + steps;
}

static void
test_diverge (gconstpointer unused)
{
  (void)unused;
  gint in[1024];
  for (guint i = 0; i < 1024; i++)
    in[i] = noise (i * 7 + 1) + 1;
  gpu_open ("7.5");
  CUmodule module = gpu_module ("memory");
  CUdeviceptr din = gpu_upload (in, sizeof in), out = gpu_empty (sizeof in);
  OK (gpu_run (gpu_function (module, "diverge"), 8, 128, 0, &din, &out, NULL));
  gint *got = gpu_download (out, sizeof in);
  for (guint i = 0; i < 1024; i++)
    g_assert_cmpint (got[i], ==, wander (in[i]));
  g_free (got);
  OK (cuModuleUnload (module));
  gpu_close ();
}

static void
test_between_blocks (gconstpointer unused)
{
  (void)unused;
  gfloat in[32 * 20], sum = 0;
  for (guint i = 0; i < G_N_ELEMENTS (in); i++)
    sum += in[i] = (gfloat)noise (i);
  gpu_open ("7.5");
  CUmodule module = gpu_module ("memory");
  CUdeviceptr din = gpu_upload (in, sizeof in), part = gpu_empty (20 * 4);
  CUdeviceptr out = gpu_empty (4);
  for (guint again = 0; again < 2; again++) {
    OK (gpu_run (gpu_function (module, "last_block"), 20, 32, 0, &din, &part,
        &out, NULL));
    gfloat *got = gpu_download (out, 4);
    g_assert_cmpfloat (*got, ==, sum);
    g_free (got);
  }
  gint zero[9] = { 0 };
  CUdeviceptr flag = gpu_upload (zero, sizeof zero);
  CUdeviceptr data = gpu_upload (zero, sizeof zero);
  OK (gpu_run (gpu_function (module, "flags"), 9, 64, 0, &flag, &data, NULL));
  gint *total = gpu_download (data, 4);
  g_assert_cmpint (*total, ==, 36 * 3);
  g_free (total);
  OK (cuModuleUnload (module));
  gpu_close ();
}

static void
test_counts (void)
{
  gint in[64] = { 0 }, zero[13] = { 0 };
  guint n = 64;
  CudasimKernel k;
  cudasim_set ("count", "1");
  cudasim_reset ();
  gpu_open ("7.5");
  CUmodule module = gpu_module ("memory");
  CUdeviceptr din = gpu_upload (in, sizeof in);
  CUdeviceptr out = gpu_upload (zero, sizeof zero);
  OK (gpu_run (gpu_function (module, "sums"), 1, 64, 0, &din, &out, &n, NULL));
  g_assert_cmpint (cudasim_kernel ("sums", &k), ==, 0);
  g_assert_cmpuint (k.launches, ==, 1);
  g_assert_cmpuint (k.blocks, ==, 1);
  g_assert_cmpuint (k.warps, ==, 2);
  g_assert_cmpuint (k.global_loads, ==, 2);
  g_assert_cmpuint (k.bank_conflicts, ==, 0);
  g_assert_cmpint (cudasim_kernel ("nothing", &k), ==, -1);
  CudasimCounters c;
  cudasim_counters (&c);
  g_assert_cmpuint (c.copies_up, ==, 2);
  g_assert_cmpuint (c.bytes_up, ==, sizeof in + sizeof zero);
  g_assert_cmpuint (c.launches, ==, 1);
  g_assert_cmpuint (c.live_allocations, >=, 2);
  OK (cuModuleUnload (module));
  gpu_close ();
  cudasim_set ("count", "0");
}

static void
each_seed (gconstpointer func)
{
  gpu_each_seed ((GTestDataFunc)func, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/memory/mixed", (gpointer)test_mixed, each_seed);
  g_test_add_data_func ("/memory/sums", (gpointer)test_sums, each_seed);
  g_test_add_data_func ("/memory/diverge", (gpointer)test_diverge, each_seed);
  g_test_add_data_func (
      "/memory/between-blocks", (gpointer)test_between_blocks, each_seed);
  g_test_add_func ("/memory/counts", test_counts);
  return g_test_run ();
}
