/* Reading stored numbers as float32.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "tensor.h"
#include "file.h"

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

gboolean
mimi_tensor_exists (const MimiTensor *tensor)
{
  return tensor->file || tensor->made;
}

void
mimi_tensor_copy (
    const MimiTensor *tensor, guint64 first, guint64 n, gpointer out)
{
  gsize size = mimi_dtype_get_size (tensor->dtype);

  if (tensor->made)
    memcpy (out, (const guint8 *)tensor->made + first * size, n * size);
  else
    mimi_file_read (tensor->file, tensor->offset + first * size, n * size, out);
}

void
mimi_tensor_read (
    const MimiTensor *tensor, guint64 first, guint64 n, gfloat *out)
{
  guint16 halves[4096];
  guint64 i, some;

  if (tensor->dtype == MIMI_DTYPE_F32) {
    mimi_tensor_copy (tensor, first, n, out);
    return;
  }
  for (; n > 0; first += some, n -= some, out += some) {
    some = MIN (n, G_N_ELEMENTS (halves));
    mimi_tensor_copy (tensor, first, some, halves);
    if (tensor->dtype == MIMI_DTYPE_F16) {
      for (i = 0; i < some; i++)
        out[i] = mimi_half_to_float (halves[i]);
    } else {
      for (i = 0; i < some; i++)
        out[i] = float_from_bits ((guint32)halves[i] << 16);
    }
  }
}
