/* Reading stored numbers as float32.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "tensor.h"

#include <string.h>

gsize
mimi_dtype_get_size (MimiDtype dtype)
{
  return dtype == MIMI_DTYPE_F32 ? 4 : 2;
}

guint64
mimi_tensor_get_length (const MimiTensor *tensor)
{
  guint64 n = 1;
  guint i;

  for (i = 0; i < tensor->n_dims; i++)
    n *= tensor->shape[i];
  return n;
}

static inline gfloat
float_from_bits (guint32 bits)
{
  gfloat value;

  memcpy (&value, &bits, 4);
  return value;
}

/* Rebiases the exponent; what is subnormal as a half is an integer times 2^-24,
 * and is never a subnormal float32, which some threads flush to zero. */
gfloat
mimi_half_to_float (guint16 half)
{
  guint32 sign = (guint32)(half & 0x8000) << 16;
  guint32 magnitude = half & 0x7fff, bits;
  gfloat small = (gfloat)magnitude * 0x1p-24f;

  memcpy (&bits, &small, 4);
  if (magnitude >= 0x400)
    bits = (magnitude << 13) + ((127 - 15) << 23);
  if (magnitude >= 0x7c00)
    bits += (255 - 31 - 127 + 15) << 23;
  return float_from_bits (sign | bits);
}

void
mimi_tensor_read (
    const MimiTensor *tensor, guint64 first, guint64 n, gfloat *out)
{
  const guint8 *in = (const guint8 *)tensor->data +
                     first * mimi_dtype_get_size (tensor->dtype);
  guint16 half;
  guint64 i;

  switch (tensor->dtype) {
    case MIMI_DTYPE_F32:
      memcpy (out, in, n * sizeof *out);
      break;
    case MIMI_DTYPE_F16:
      for (i = 0; i < n; i++) {
        memcpy (&half, in + 2 * i, 2);
        out[i] = mimi_half_to_float (half);
      }
      break;
    case MIMI_DTYPE_BF16:
      for (i = 0; i < n; i++) {
        memcpy (&half, in + 2 * i, 2);
        out[i] = float_from_bits ((guint32)half << 16);
      }
      break;
  }
}
