/* What the engine and the tests know of a model beyond mimi.h.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "weights.h"

G_BEGIN_DECLS

/* Says which file this is, in which state, and what the network is taken to
 * be: models of which this is equal decode alike. NULL where that cannot be
 * said (bytes in memory). */
const gchar *mimi_model_get_identity (const MimiModel *model);

/* Opens the bytes of a safetensors file, which have to outlive the model.
 * `name` stands for the path in messages. No configuration is looked for. */
MimiModel *mimi_model_open_bytes (
    const gchar *name, gconstpointer data, gsize size, GError **error);

G_END_DECLS
