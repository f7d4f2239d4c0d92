/* From tensors to dimensions: binds the decoder's weights to their names and
 * works out the network from their shapes.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "layout.h"
#include "weights.h"

G_BEGIN_DECLS

/* Limits; they keep a hostile file from making us allocate without end. */
#define MIMI_MAX_LAYERS 64
#define MIMI_MAX_CHANNELS 16384 /* also the width */
#define MIMI_MAX_FFN 65536
#define MIMI_MAX_KERNEL 64
#define MIMI_MAX_WEIGHTS ((guint64)4 << 30) /* bytes of the decoder's tensors */

/* Weights that are not stored as they are used: they are made from several
 * tensors when they are first needed. */
typedef enum {
  MIMI_DERIVED_NORM,   /* weight_g and weight_v: see fold.h */
  MIMI_DERIVED_IN_PROJ /* q, k and v apart, q and k permuted */
} MimiDerivedKind;

typedef struct {
  MimiDerivedKind kind;
  MimiTensor *target;  /* its shape and dtype are known, its data is not */
  MimiTensor parts[3]; /* g, v; or q, k, v */
} MimiDerived;

/* A tensor of the file that the decoder uses. */
typedef struct {
  MimiTensor tensor;
  gchar *name;
} MimiBound;

/* Fills `network` (all but heads, head_dim, window, gelu, norm_eps and
 * rope_theta) and `weights`, whose layers are to be freed with g_free().
 * `bound` (of MimiBound, whose names are to be freed) gets all tensors that are
 * used, `derived` (of MimiDerived) what has still to be made of them. */
gboolean mimi_network_bind (MimiNames *names, MimiNetwork *network,
    MimiWeights *weights, GArray *bound, GArray *derived, GError **error);

/* For messages: "[512, ?, 3]", 0 being unknown; free it. */
gchar *mimi_shape_to_string (const guint64 *shape, guint n_dims);

G_END_DECLS
