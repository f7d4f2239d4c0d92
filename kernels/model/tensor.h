/* Reading stored numbers as float32.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "weights.h"

G_BEGIN_DECLS

gsize mimi_dtype_get_size (MimiDtype dtype); /* bytes */

/* `n` elements from index `first` on as they are stored. */
void mimi_tensor_copy (
    const MimiTensor *tensor, guint64 first, guint64 n, gpointer out);

/* The value of an IEEE half; exact. */
gfloat mimi_half_to_float (guint16 half);

G_END_DECLS
