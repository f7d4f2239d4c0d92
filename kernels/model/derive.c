/* Weights that are not stored as they are used.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "derive.h"
#include "tensor.h"

#include <math.h>

static gpointer
fold_norm (const MimiTensor *g, const MimiTensor *v)
{
  guint64 rows = v->shape[0];
  guint64 n = mimi_tensor_get_length (v) / rows, row, i;
  gfloat *out = g_try_new (gfloat, rows * n);

  for (row = 0; out && row < rows; row++) {
    gfloat *w = out + row * n;
    gdouble sum = 0, scale;
    gfloat magnitude;

    mimi_tensor_read (g, row, 1, &magnitude);
    mimi_tensor_read (v, row * n, n, w);
    for (i = 0; i < n; i++)
      sum += (gdouble)w[i] * w[i];
    scale = magnitude / sqrt (sum);
    for (i = 0; i < n; i++)
      w[i] = w[i] * scale;
  }
  return out;
}

/* transformers stores row h*d + 2*i + j of Kyutai's q and k as row
 * h*d + j*d/2 + i. */
static gpointer
join_in_proj (const MimiTensor *parts, guint heads)
{
  gsize width = parts[0].shape[0], dim = width / heads, part, h, i;
  gsize length = parts[0].shape[1];
  gsize row = length * mimi_dtype_get_size (parts[0].dtype);
  guint8 *out = g_try_malloc (3 * width * row);

  for (part = 0; out && part < 3; part++) {
    guint8 *to = out + part * width * row;

    if (part == 2) {
      mimi_tensor_copy (&parts[part], 0, width * length, to);
      break;
    }
    for (h = 0; h < heads; h++) {
      for (i = 0; i < dim; i++)
        mimi_tensor_copy (&parts[part],
            (h * dim + i % 2 * (dim / 2) + i / 2) * length, length,
            to + (h * dim + i) * row);
    }
  }
  return out;
}

gpointer
mimi_derive (const MimiDerived *derived, guint heads)
{
  if (derived->kind == MIMI_DERIVED_NORM)
    return fold_norm (&derived->parts[0], &derived->parts[1]);
  return join_in_proj (derived->parts, heads);
}
