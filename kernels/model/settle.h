/* What no tensor's shape tells: heads, window, GELU, RoPE period, norm epsilon.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "../mimi.h"

G_BEGIN_DECLS

/* Limits. */
#define MIMI_MAX_WINDOW 65536
#define MIMI_MAX_HEAD_DIM 512

/* Completes `network`. Each of the values comes from the configuration that
 * `config` names, or else (if `beside`) from one that lies beside the checkpoint
 * `path`; or else from the table of published decoders; or else heads = width / 64,
 * window 250 and, with `gelu`, what is usual in the checkpoint's layout.
 *
 * rules    which of these it was, for people
 * warning  NULL, or that the last rule was used
 * Fails with MIMI_ERROR_CONFIG if the configuration contradicts the tensors, or
 * if `config` cannot be read or describes no Mimi decoder. */
gboolean mimi_settle (MimiNetwork *network, MimiGelu gelu, const gchar *path,
    gboolean beside, const gchar *config, gchar **rules, gchar **warning,
    GError **error);

G_END_DECLS
