/* exp, ELU and GELU on vectors, to float32's accuracy.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * NaN goes through each of them: it must be seen at the end of the frame.
 * The polynomials are weighted minimax fits made for this project, with their
 * error beside them; tests/kernels/test-cpu-math.c holds the functions against
 * libm in double.
 */
#pragma once

#include "simd.h"

/* (exp (r) - 1 - r) / r^2 for |r| <= ln(2)/2: 1.4e-8 of exp (r) - 1. */
INLINE vf
v_expm1_poly (vf r)
{
  vf p = v_set1 (1.394642534e-3f);

  p = v_fma (p, r, v_set1 (8.366571480e-3f));
  p = v_fma (p, r, v_set1 (4.166628249e-2f));
  p = v_fma (p, r, v_set1 (1.666654312e-1f));
  return v_fma (p, r, v_set1 (5.000000062e-1f));
}

/* x = n ln(2) + r with |r| <= ln(2)/2: returns exp (r) - 1 and sets 2^n.
 * |x| < 88. */
INLINE vf
v_expm1_reduced (vf x, vf *power)
{
  const vf magic = v_set1 (12582912.0f); /* 1.5 * 2^23: rounds to integer */
  vf t = v_fma (x, v_set1 (1.44269504f), magic);
  vf n = t - magic;
#if defined(__FMA__) || defined(__aarch64__)
  /* the float32 nearest to ln(2) is only 2e-9 off */
  vf r = v_fma (n, v_set1 (-0.693147181f), x);
#else
  /* in two parts, of which n times the first is exact */
  vf r = x + n * v_set1 (-0.693359375f) + n * v_set1 (2.12194440e-4f);
#endif

  *power = (vf)(((vu)t << 23) + (vu)v_set1 (1.0f));
  return v_fma (v_expm1_poly (r), r * r, r);
}

/* exp (x) for x of -87 to 88; beyond, its value there. */
INLINE vf
v_exp (vf x)
{
  vf power, p;

  x = v_at_most (v_at_least (x, v_set1 (-87.0f)), v_set1 (88.0f));
  p = v_expm1_reduced (x, &power);
  return v_fma (p, power, power);
}

/* x > 0 ? x : exp (x) - 1, as a sum of two parts of which one is exactly 0.
 * Near 0, n is 0 and nothing cancels. */
INLINE vf
v_elu (vf x)
{
  const vf zero = { 0 };
  vf power, p;
  vf negative = v_at_least (v_at_most (x, zero), v_set1 (-30.0f));

  p = v_expm1_reduced (negative, &power);
  return v_fma (p, power, power - v_set1 (1.0f)) + v_at_least (x, zero);
}

/* 0.5 x (1 + tanh (sqrt (2/pi) (x + 0.044715 x^3))) = x / (1 + exp (-2 u)) */
INLINE vf
v_gelu_tanh (vf x)
{
  vf u = v_fma (x * x, v_set1 (-0.0713548163f), v_set1 (-1.5957691216f));

  return x / (v_set1 (1.0f) + v_exp (u * x));
}

/* 0.5 x (1 + erf (x / sqrt (2))) = x Phi (x). The tail beyond a = |x| is
 * exp (-a^2 / 2) times a polynomial in t = 1 / (1 + 0.3 a), 4e-10 off. */
INLINE vf
v_gelu_erf (vf x)
{
  vf a = (vf)((vi)x & 0x7fffffff);
  vf t = v_set1 (1.0f) / v_fma (a, v_set1 (0.3f), v_set1 (1.0f));
  vf p = v_set1 (2.478759526e-2f);

  p = v_fma (p, t, v_set1 (-9.783690744e-2f));
  p = v_fma (p, t, v_set1 (6.829945468e-2f));
  p = v_fma (p, t, v_set1 (1.247443889e-1f));
  p = v_fma (p, t, v_set1 (-1.123344766e-2f));
  p = v_fma (p, t, v_set1 (1.676546844e-1f));
  p = v_fma (p, t, v_set1 (1.010281484e-1f));
  p = v_fma (p, t, v_set1 (1.227610128e-1f));
  p = v_fma (p, t, v_set1 (-2.049216491e-4f));
  p = p * v_exp (a * a * v_set1 (-0.5f));
  return x * v_if_positive (x, v_set1 (1.0f) - p, p);
}
