/* Arithmetic against plain C
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "test.h"

#include <math.h>
#include <string.h>

#define N 500

static guint64 state = 1;

static guint32
random_bits (void)
{
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (guint32)(state >> 32);
}

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

/* The result `got` of case k on (x, y): equal, or within a relative error. */
static void
near (guint k, gdouble x, gdouble y, gdouble got, gdouble want, gdouble ulps)
{
  if (got == want || (isnan (got) && isnan (want)))
    return;
  gdouble scale = fmax (fabs (want), 1e-30) * 6e-8 * ulps;
  if (!(fabs (got - want) <= scale))
    g_error ("case %u of %.9g, %.9g: %.9g, expected %.9g", k, x, y, got, want);
}

static gfloat
bf16 (gfloat x)
{
  guint32 bits = to_bits (x);
  return from_bits ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

static gfloat
directed (gdouble exact, int down_or_up)
{
  gfloat f = (gfloat)exact;
  if (down_or_up < 0 && (gdouble)f > exact)
    f = nextafterf (f, -INFINITY);
  if (down_or_up > 0 && (gdouble)f < exact)
    f = nextafterf (f, INFINITY);
  return f;
}

static void
check_floats (guint i, const gfloat *out, gfloat x, gfloat y, gfloat z)
{
  guint k = 0;
  gfloat r = 0;
#define IS(want, ulps) \
  do { \
    near (k, x, y, out[k * N + i], want, ulps); \
    k++; \
  } while (0)
  IS (x + y, 0);
  IS (x * y - z, 0);
  IS (fmaf (x, y, z), 0);
  IS (x / y, 0);
  IS (sqrtf (fabsf (x)), 0);
  IS (1.0f / x, 0);
  IS (1.0 / sqrt (fabs ((gdouble)x)), 2);
  IS (fminf (x, y), 0);
  IS (fmaxf (x, z), 0);
  IS (exp (x), 3);
  IS (exp2 (x), 3);
  IS (expm1 (x), 3);
  IS (log (fabs ((gdouble)x)), 3);
  IS (sin (x * 100), 3);
  IS (cos (x * 1e6f), 3);
  IS (sin ((gdouble)x * G_PI), 4);
  IS (tanh (x), 4);
  IS (erf (x), 4);
  IS (floorf (x * 10), 0);
  IS (rintf (x * 10), 0);
  IS (truncf (x * 10), 0);
  IS (ceilf (x * 10), 0);
  IS (copysignf (x, y), 0);
  IS (x > y ? x : z, 0);
  IS (exp (x), 40);
  IS (x / y, 4);
  IS (fminf (fmaxf (x, 0), 1), 0);
  IS (pow (fabs ((gdouble)x), y), 16);
  IS ((gfloat)(gint)(x * 1000), 0);
  IS (rintf (x * 1000), 0);
  IS (floorf (x * 1000), 0);
  IS ((gfloat)(gint16)(gint)rintf (x * 40000), 0);
  IS ((gfloat)(guint)fabsf (x * 1e9f), 0);
  IS ((gfloat)(gint64)(x * 1e12f), 0);
  IS (bf16 (x), 0);
  IS ((gfloat)((gdouble)x * (gdouble)y + 1e-9), 0);
  gdouble sum = (gdouble)x + (gdouble)y;
  IS (directed (sum, sum > 0 ? -1 : 1), 0);
  IS (directed ((gdouble)x * (gdouble)y, -1), 0);
  IS (fmaf (x, y, z), 2); /* upwards: at most one step off */
  IS (fabsf (y), 1);
  for (guint j = 0; j < (i & 15); j++)
    r = fmaf (r, x, j & 1 ? y : z);
  IS (r, 0);
  IS (2.0f, 0);
  IS (fmodf (x * 100, fabsf (y) + 1), 0);
  IS (from_bits (to_bits (x) & 0xffffe000u), 0);
#undef IS
}

static void
test_floats (void)
{
  gfloat a[N], b[N], c[N];
  guint n = N, cases = 44;
  gpu_open ("7.5");
  for (guint i = 0; i < N; i++) {
    a[i] = (gfloat)((gint32)random_bits () / 2147483648.0 * 3);
    b[i] = (gfloat)((gint32)random_bits () / 2147483648.0 * 2);
    c[i] = (gfloat)((gint32)random_bits () / 2147483648.0);
  }
  CUmodule module = gpu_module ("arith");
  CUdeviceptr da = gpu_upload (a, sizeof a), db = gpu_upload (b, sizeof b);
  CUdeviceptr dc = gpu_upload (c, sizeof c);
  CUdeviceptr out = gpu_empty (cases * N * 4);
  OK (gpu_run (gpu_function (module, "floats"), (N + 127) / 128, 128, 0, &da,
      &db, &dc, &out, &n, NULL));
  gfloat *result = gpu_download (out, cases * N * 4);
  for (guint i = 0; i < N; i++)
    check_floats (i, result, a[i], b[i], c[i]);
  g_free (result);
  OK (cuMemFree_v2 (da));
  OK (cuMemFree_v2 (db));
  OK (cuMemFree_v2 (dc));
  OK (cuMemFree_v2 (out));
  OK (cuModuleUnload (module));
  gpu_close ();
}

static guint32
permute (guint32 x, guint32 y, guint32 s)
{
  guint64 both = (guint64)y << 32 | x;
  guint32 r = 0;
  for (guint i = 0; i < 4; i++)
    r |= (guint32)(both >> (8 * (s >> (4 * i) & 7)) & 255) << (8 * i);
  return r;
}

static guint32
reverse (guint32 x)
{
  guint32 r = 0;
  for (guint i = 0; i < 32; i++)
    r |= (x >> i & 1) << (31 - i);
  return r;
}

static void
check_integers (guint i, const gint64 *out, gint32 x, gint32 y)
{
  guint32 ux = (guint32)x, uy = (guint32)y;
  gint64 lx = (gint64)((guint64)(gint64)x << 20) ^ y;
  gint64 ly = (gint64)((guint64)(gint64)y << 3) + 1;
  guint k = 0;
#define IS(want) \
  do { \
    if (out[k * N + i] != (gint64)(want)) \
      g_error ("case %u of %d, %d: %" G_GINT64_FORMAT \
               ", expected %" G_GINT64_FORMAT, \
          k, x, y, out[k * N + i], (gint64)(want)); \
    k++; \
  } while (0)
  IS ((gint32)(ux + uy));
  IS ((gint32)(ux * uy));
  IS ((gint32)(((gint64)x * y) >> 32));
  IS ((guint32)(((guint64)ux * uy) >> 32));
  IS ((gint64)(((__int128)lx * ly) >> 64));
  IS ((gint64)x * y);
  IS ((guint64)ux * uy + 5);
  IS (x / (y | 1));
  IS (x % (y | 1));
  IS (ux / (uy | 1));
  IS (ux % (uy | 1));
  IS (lx / ly);
  IS (lx % ly);
  IS ((guint64)lx / (guint64)ly);
  IS ((gint32)(ux << (y & 31)));
  IS (x >> (y & 31));
  IS (ux >> (y & 31));
  IS ((guint64)lx << (y & 63));
  IS (lx >> (y & 63));
  IS ((x & y) | (x ^ ~y));
  IS (__builtin_popcount (ux));
  IS (__builtin_popcountll ((guint64)lx));
  IS (ux ? __builtin_clz (ux) : 32);
  IS (lx ? __builtin_clzll ((guint64)lx) : 64);
  IS (reverse (ux));
  IS (__builtin_ffs (x));
  IS (permute (ux, uy, 0x5410));
  IS (permute (ux, uy, 0x7362));
  IS (permute (ux, uy, uy & 0x7777));
  IS ((guint32)((((guint64)uy << 32 | ux) << 9) >> 32));
  IS ((guint32)(((guint64)uy << 32 | ux) >> (uy & 31)));
  IS (MIN (x, y));
  IS (MAX (ux, uy));
  IS (x == G_MININT32 ? x : ABS (x));
  IS ((gint16)x * (gint16)y);
  IS ((gint16)((gint16)x + (gint16)y));
  IS ((guint8)(ux + 200));
  IS ((gint8)x);
  IS (x < y ? lx : ly);
  IS (ux < uy);
  IS (ux >> 5 & 0x3ff);
  IS ((gint32)(ux << 12) >> 20);
  IS ((ux > uy ? ux - uy : uy - ux) + 3);
  IS (((ux & 0xff00) | (uy & 0x00ff)) ^ 0x1234);
  switch (x & 7) {
    case 0:
      IS (11);
      break;
    case 1:
      IS (y);
      break;
    case 2:
      IS ((gint32)(ux - uy));
      break;
    case 5:
      IS ((gint32)(ux * 3));
      break;
    default:
      IS (-1);
  }
#undef IS
}

static void
fill_bits (guint32 *a, guint32 *b)
{
  for (guint i = 0; i < N; i++) {
    a[i] = random_bits () >> (random_bits () & 31);
    b[i] = random_bits () >> (random_bits () & 31);
    if (i & 1)
      a[i] = -a[i];
  }
  a[0] = 0;
  a[1] = 0x80000000u;
  b[1] = 0xffffffffu;
}

static void
test_integers (void)
{
  guint32 a[N], b[N];
  guint n = N, cases = 45;
  gpu_open ("7.5");
  fill_bits (a, b);
  b[1] = 5; /* INT_MIN / -1 is nobody's business */
  CUmodule module = gpu_module ("arith");
  CUdeviceptr da = gpu_upload (a, sizeof a), db = gpu_upload (b, sizeof b);
  CUdeviceptr out = gpu_empty (cases * N * 8);
  OK (gpu_run (gpu_function (module, "integers"), (N + 127) / 128, 128, 0, &da,
      &db, &out, &n, NULL));
  gint64 *result = gpu_download (out, cases * N * 8);
  for (guint i = 0; i < N; i++)
    check_integers (i, result, (gint32)a[i], (gint32)b[i]);
  g_free (result);
  OK (cuModuleUnload (module));
  gpu_close ();
}

static guint32
field (guint32 x, guint32 pos, guint32 len, gboolean is_signed)
{
  guint32 r = 0, msb = 31, sign;
  sign = is_signed && len ? x >> MIN (pos + len - 1, msb) & 1 : 0;
  for (guint i = 0; i < 32; i++)
    r |= (i < len && pos + i < 32 ? x >> (pos + i) & 1 : sign) << i;
  return r;
}

static guint32
insert (guint32 a, guint32 b, guint32 pos, guint32 len)
{
  for (guint i = 0; i < len && pos + i < 32; i++)
    b = (b & ~(1u << (pos + i))) | (a >> i & 1) << (pos + i);
  return b;
}

static gint64
clamped (gdouble x, gdouble low, gdouble high)
{
  return isnan (x) ? 0 : (gint64)fmin (fmax (x, low), high);
}

static void
check_forms (guint i, const guint32 *out, guint32 x, guint32 y)
{
  guint k = 0;
  gfloat fx = from_bits (x), fy = from_bits (y);
#define IS(want) \
  do { \
    if (out[k * N + i] != (guint32)(want)) \
      g_error ("case %u of %08x, %08x: %08x, expected %08x", k, x, y, \
          out[k * N + i], (guint32)(want)); \
    k++; \
  } while (0)
  IS (field (x, y & 63, y >> 8 & 63, FALSE));
  IS (field (x, y & 63, y >> 8 & 63, TRUE));
  IS (insert (x, y, y & 63, x >> 8 & 63));
  IS (x ^ y ^ i);
  IS ((x & y) | (~x & i));
  guint32 signs = 0;
  for (guint b = 0; b < 4; b++)
    signs |= (x >> (8 * b + 7) & 1 ? 255u : 0u) << (8 * b);
  IS (signs);
  IS (x ? 31 - __builtin_clz (x) : -1);
  IS ((x < y ? 1 : 2) + (x < y ? 0 : 10));
  IS (x);
  IS ((guint32)(((guint64)y << 32 | x) >> 16));
  IS (x << 16 | x >> 16);
  IS (CLAMP ((gint32)x >> 20, 0, 255));
  IS ((gint32)clamped (rint (fx), -2147483648.0, 2147483647.0));
  IS ((guint32)clamped (trunc (fx), 0, 4294967295.0));
  IS ((y & 63) >= 32 ? x
                     : (guint32)((((guint64)y << 32 | x) << (y & 63)) >> 32));
  IS (fx < fy ? 0xffffffffu : 0);
  IS (isfinite (fx) ? 1 : 0);
  IS ((guint16)((gint16)x >> MIN (y & 31, 15)));
  IS ((guint16)((guint32)(guint16)x * (guint16)y >> 16));
  IS ((guint16)((gint16)x * (gint16)y >> 16));
#undef IS
}

static void
test_forms (void)
{
  guint32 a[N], b[N];
  guint n = N, cases = 20;
  gpu_open ("7.5");
  fill_bits (a, b);
  for (guint i = 0; i < N; i += 3) /* floats of a size that is near integers */
    a[i] = to_bits ((gfloat)((gint32)a[i] / 1000.0));
  CUmodule module = gpu_module ("arith");
  CUdeviceptr da = gpu_upload (a, sizeof a), db = gpu_upload (b, sizeof b);
  CUdeviceptr out = gpu_empty (cases * N * 4);
  OK (gpu_run (gpu_function (module, "forms"), (N + 127) / 128, 128, 0, &da,
      &db, &out, &n, NULL));
  guint32 *result = gpu_download (out, cases * N * 4);
  for (guint i = 0; i < N; i++)
    check_forms (i, result, a[i], b[i]);
  g_free (result);
  OK (cuModuleUnload (module));
  gpu_close ();
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/arith/floats", test_floats);
  g_test_add_func ("/arith/integers", test_integers);
  g_test_add_func ("/arith/forms", test_forms);
  return g_test_run ();
}
