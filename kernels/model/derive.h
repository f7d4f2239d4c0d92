/* Weights that are not stored as they are used.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "network.h"

G_BEGIN_DECLS

/* Makes the data of `derived->target` from its parts: a buffer to be freed with
 * g_free(), NULL if there is no memory.
 *
 * NORM: g v / |v|, the norm taken over all but the first dimension (PyTorch's
 * weight_norm with dim 0), computed in double, as float32.
 * IN_PROJ: q, k and v one below the other, the rows of q and k put back from
 * two halves a head to neighbouring pairs, in the dtype of the file. */
gpointer mimi_derive (const MimiDerived *derived, guint heads);

G_END_DECLS
