/* exp, ELU and GELU of the CPU kernels against libm in double; compiled for
 * each instruction set, as the kernels are.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "cpu/vmath.h"

#include <math.h>
#include <stdio.h>

static double
ref_elu (double x)
{
  return x > 0 ? x : expm1 (x);
}

static double
ref_gelu_erf (double x)
{
  return 0.5 * x * erfc (-x / sqrt (2));
}

static double
ref_gelu_tanh (double x)
{
  return 0.5 * x *
         (1 + tanh (sqrt (2 / 3.14159265358979323846) *
                    (x + 0.044715 * x * x * x)));
}

typedef vf (*Func) (vf);
typedef double (*Reference) (double);

static gboolean failed;

static gfloat
call (Func func, gfloat x)
{
  vf y = func (v_set1 (x));

  return y[VL - 1];
}

/* Errors are counted in units of float32's last place at the larger of the
 * result and `floor`: what is smaller is added to something of that size. */
static void
check (const gchar *name, Func func, Reference reference, double low,
    double high, double floor, double gate)
{
  double worst = 0, where = 0;

  for (int i = 0; i <= 400000; i++) {
    gfloat x = (gfloat)(low + (high - low) * i / 400000);
    double want = reference (x);
    double unit = fmax (fabs (want), floor) * 0x1p-23;
    double error = fabs (call (func, x) - want) / unit;

    if (error > worst) {
      worst = error;
      where = x;
    }
  }
  if (!(worst <= gate))
    failed = TRUE;
  printf ("%s %s: %.2f units in the last place at %g, gate %g\n",
      worst <= gate ? "ok" : "FAILED", name, worst, where, gate);
}

static void
check_nan (const gchar *name, Func func)
{
  gfloat y = call (func, NAN);

  if (!isnan (y))
    failed = TRUE;
  printf ("%s %s: NaN stays NaN\n", isnan (y) ? "ok" : "FAILED", name);
}

static vf
exp_func (vf x)
{
  return v_exp (x);
}

static vf
elu_func (vf x)
{
  return v_elu (x);
}

static vf
gelu_erf_func (vf x)
{
  return v_gelu_erf (x);
}

static vf
gelu_tanh_func (vf x)
{
  return v_gelu_tanh (x);
}

int
main (void)
{
#if defined(__AVX512F__)
  if (!__builtin_cpu_supports ("avx512f") ||
      !__builtin_cpu_supports ("avx512dq"))
    return 77;
#elif defined(__AVX2__)
  if (!__builtin_cpu_supports ("avx2") || !__builtin_cpu_supports ("fma"))
    return 77;
#endif
  check ("exp", exp_func, exp, -20, 20, 0, 4);
  check ("elu near 0", elu_func, ref_elu, -0.01, 0.01, 0, 2);
  check ("elu", elu_func, ref_elu, -100, 20, 0, 2);
  /* x Phi (x) of a large negative x is next to nothing */
  check ("gelu erf", gelu_erf_func, ref_gelu_erf, -20, 20, 0.01, 6);
  check ("gelu tanh", gelu_tanh_func, ref_gelu_tanh, -20, 20, 0.01, 6);
  check ("gelu erf near 0", gelu_erf_func, ref_gelu_erf, -0.1, 0.1, 0, 4);
  check ("gelu tanh near 0", gelu_tanh_func, ref_gelu_tanh, -0.1, 0.1, 0, 4);
  check_nan ("exp", exp_func);
  check_nan ("elu", elu_func);
  check_nan ("gelu erf", gelu_erf_func);
  check_nan ("gelu tanh", gelu_tanh_func);
  return failed ? 1 : 0;
}
