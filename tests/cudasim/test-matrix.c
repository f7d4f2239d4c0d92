/* Tensor cores and clusters against plain C
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "test.h"

#include <math.h>
#include <string.h>

static gfloat
from_bits (guint32 bits)
{
  gfloat f;
  memcpy (&f, &bits, 4);
  return f;
}

static guint32
to_bits (gfloat f)
{
  guint32 bits;
  memcpy (&bits, &f, 4);
  return bits;
}

static gfloat
noise (guint i)
{
  return (gfloat)(gint)(i * 2654435761u >> 8) / 4194304 - 2;
}

static void
test_tf32 (gconstpointer unused)
{
  gfloat a[16][8], b[8][8], c[16][8];
  (void)unused;
  gpu_open ("8.0");
  for (guint i = 0; i < 128; i++) {
    (&a[0][0])[i] = noise (i);
    (&c[0][0])[i] = noise (i + 1000);
    if (i < 64)
      (&b[0][0])[i] = noise (i + 2000);
  }
  CUmodule module = gpu_module ("matrix");
  CUdeviceptr da = gpu_upload (a, sizeof a), db = gpu_upload (b, sizeof b);
  CUdeviceptr dc = gpu_upload (c, sizeof c), dd = gpu_empty (2 * sizeof c);
  OK (gpu_run (
      gpu_function (module, "tf32"), 1, 32, 0, &da, &db, &dc, &dd, NULL));
  gfloat *got = gpu_download (dd, 2 * sizeof c);
  for (guint m = 0; m < 16; m++)
    for (guint n = 0; n < 8; n++) {
      gdouble sum = (gdouble)c[m][n], half = 0;
      for (guint k = 0; k < 8; k++) {
        gfloat x = from_bits ((to_bits (a[m][k]) + 0x1000) & 0xffffe000u);
        gfloat y = from_bits ((to_bits (b[k][n]) + 0x1000) & 0xffffe000u);
        sum += (gdouble)x * (gdouble)y;
        if (k == 3)
          half = sum;
      }
      g_assert_cmpfloat_with_epsilon ((gdouble)got[m * 8 + n], sum, 1e-5);
      g_assert_cmpfloat_with_epsilon (
          (gdouble)got[128 + m * 8 + n], half, 1e-5);
    }
  g_free (got);
  OK (cuModuleUnload (module));
  gpu_close ();
}

static void
test_truncation (void)
{
  cudasim_set ("mma", "truncate");
  test_tf32 (NULL);
  cudasim_set ("mma", "round");
}

static void
test_bf16 (gconstpointer unused)
{
  guint16 a[16][16], b[16][8];
  (void)unused;
  gpu_open ("8.0");
  for (guint i = 0; i < 256; i++) {
    (&a[0][0])[i] = (guint16)(to_bits (noise (i)) >> 16);
    if (i < 128)
      (&b[0][0])[i] = (guint16)(to_bits (noise (i + 500)) >> 16);
  }
  CUmodule module = gpu_module ("matrix");
  CUdeviceptr da = gpu_upload (a, sizeof a), db = gpu_upload (b, sizeof b);
  CUdeviceptr dd = gpu_empty (256 * 4);
  OK (gpu_run (gpu_function (module, "bf16"), 1, 32, 0, &da, &db, &dd, NULL));
  gfloat *got = gpu_download (dd, 256 * 4);
  for (guint m = 0; m < 16; m++)
    for (guint n = 0; n < 8; n++) {
      gdouble sum = 0, half = 0;
      for (guint k = 0; k < 16; k++) {
        sum += (gdouble)from_bits ((guint32)a[m][k] << 16) *
               (gdouble)from_bits ((guint32)b[k][n] << 16);
        if (k == 7)
          half = sum;
      }
      g_assert_cmpfloat_with_epsilon ((gdouble)got[m * 8 + n], sum, 1e-5);
      g_assert_cmpfloat_with_epsilon (
          (gdouble)got[128 + m * 8 + n], half, 1e-5);
    }
  g_free (got);
  OK (cuModuleUnload (module));
  gpu_close ();
}

static void
test_cluster (gconstpointer unused)
{
  gfloat in[16 * 32], sum[16] = { 0 };
  (void)unused;
  for (guint i = 0; i < 16 * 32; i++)
    sum[i / 32] += in[i] = (gfloat)(i * 7 % 11);
  gpu_open ("9.0");
  CUmodule module = gpu_module ("cluster");
  for (guint size = 2; size <= 8; size *= 2) {
    CUdeviceptr din = gpu_upload (in, sizeof in), out = gpu_empty (sizeof in);
    void *arguments[] = { &din, &out };
    OK (gpu_launch (gpu_function (module, "exchange"), 16, 32, 0, size, FALSE,
        NULL, arguments));
    OK (cuCtxSynchronize ());
    gfloat *got = gpu_download (out, sizeof in);
    for (guint i = 0; i < 16 * 32; i++) {
      guint block = i / 32, first = block / size * size;
      gfloat all = 0;
      for (guint b = first; b < first + size; b++)
        all += sum[b];
      g_assert_cmpfloat (
          got[i], ==, all * 1000 + sum[first + (block - first + 1) % size]);
    }
    g_free (got);
  }
  OK (cuModuleUnload (module));
  gpu_close ();
}

static void
test_dependent (gconstpointer unused)
{
  gfloat x[256], w[256];
  CUstream stream;
  (void)unused;
  for (guint i = 0; i < 256; i++) {
    x[i] = (gfloat)i;
    w[i] = (gfloat)(i % 3);
  }
  gpu_open ("9.0");
  CUmodule module = gpu_module ("cluster");
  CUdeviceptr dx = gpu_upload (x, sizeof x), dw = gpu_upload (w, sizeof w);
  CUfunction f = gpu_function (module, "dependent");
  void *arguments[] = { &dx, &dw };
  OK (cuStreamCreate (&stream, 1));
  for (guint k = 0; k < 4; k++)
    OK (gpu_launch (f, 2, 128, 0, 1, TRUE, stream, arguments));
  OK (cuStreamSynchronize (stream));
  gfloat *got = gpu_download (dx, sizeof x);
  for (guint i = 0; i < 256; i++) {
    gfloat want = x[i];
    for (guint k = 0; k < 4; k++)
      want = want * w[i] + 1;
    g_assert_cmpfloat (got[i], ==, want);
  }
  g_free (got);
  OK (cuStreamDestroy_v2 (stream));
  OK (cuModuleUnload (module));
  gpu_close ();
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
  g_test_add_data_func ("/matrix/tf32", (gpointer)test_tf32, each_seed);
  g_test_add_func ("/matrix/truncation", test_truncation);
  g_test_add_data_func ("/matrix/bf16", (gpointer)test_bf16, each_seed);
  g_test_add_data_func ("/matrix/cluster", (gpointer)test_cluster, each_seed);
  g_test_add_data_func (
      "/matrix/dependent", (gpointer)test_dependent, each_seed);
  return g_test_run ();
}
