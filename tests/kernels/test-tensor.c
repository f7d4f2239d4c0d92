/* Reading stored numbers: every half and every bfloat16.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "model/tensor.h"

#include <math.h>
#include <string.h>

static gdouble
half (guint bits)
{
  gint exponent = bits >> 10 & 31, mantissa = bits & 1023;
  gdouble value;

  if (exponent == 31)
    value = mantissa ? NAN : INFINITY;
  else if (exponent == 0)
    value = ldexp (mantissa, -24);
  else
    value = ldexp (1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

static gdouble
bfloat (guint bits)
{
  gint exponent = bits >> 7 & 255, mantissa = bits & 127;
  gdouble value;

  if (exponent == 255)
    value = mantissa ? NAN : INFINITY;
  else if (exponent == 0)
    value = ldexp (mantissa, -133);
  else
    value = ldexp (128 + mantissa, exponent - 134);
  return bits & 0x8000 ? -value : value;
}

static void
check (MimiDtype dtype, gdouble (*value) (guint))
{
  /* at an odd address */
  guint8 *block = g_malloc (1 + 2 * 65536);
  MimiTensor tensor = {
    .made = block + 1, .dtype = dtype, .n_dims = 2, .shape = { 256, 256 }
  };
  gfloat *out = g_new (gfloat, 65536);
  guint i;

  for (i = 0; i < 65536; i++) {
    guint16 bits = i;

    memcpy (block + 1 + 2 * i, &bits, 2);
  }
  g_assert_cmpuint (mimi_tensor_get_length (&tensor), ==, 65536);
  mimi_tensor_read (&tensor, 0, 65536, out);
  for (i = 0; i < 65536; i++) {
    gdouble expected = value (i);

    g_assert_true (isnan (expected) ? isnan (out[i]) : out[i] == expected);
    g_assert_true (
        isnan (expected) || !signbit (expected) == !signbit (out[i]));
  }
  /* a part of it */
  mimi_tensor_read (&tensor, 1000, 5, out + 7);
  g_assert_cmpfloat (out[7], ==, value (1000));
  g_assert_cmpfloat (out[11], ==, value (1004));
  g_free (out);
  g_free (block);
}

static void
test_half (void)
{
  check (MIMI_DTYPE_F16, half);
}

static void
test_bfloat (void)
{
  check (MIMI_DTYPE_BF16, bfloat);
}

static void
test_float (void)
{
  gfloat values[4] = { 1, -2.5f, 1e-40f, 3e38f }, out[2];
  guint8 block[17];
  MimiTensor tensor = {
    .made = block + 1, .dtype = MIMI_DTYPE_F32, .n_dims = 1, .shape = { 4 }
  };

  memcpy (block + 1, values, sizeof values);
  mimi_tensor_read (&tensor, 2, 2, out);
  g_assert_cmpmem (out, sizeof out, values + 2, sizeof out);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/tensor/half", test_half);
  g_test_add_func ("/tensor/bfloat16", test_bfloat);
  g_test_add_func ("/tensor/float", test_float);
  return g_test_run ();
}
