/* Configurations that describe a Mimi decoder.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Three kinds are understood: transformers' config.json of the model types mimi
 * and pocket_tts_audio_tokenizer, also as a part of another model's (CSM,
 * Moshi); the YAML of pocket-tts; and the "mimi" part of Phonon's config.json.
 */
#pragma once

#include "../mimi.h"

G_BEGIN_DECLS

#define MIMI_MAX_CONFIG (4u << 20) /* bytes */
#define MIMI_MAX_CONFIG_DEPTH 32

/* What shapes do not tell. */
typedef enum {
  MIMI_SAYS_HEADS = 1 << 0,
  MIMI_SAYS_WINDOW = 1 << 1,
  MIMI_SAYS_GELU = 1 << 2,
  MIMI_SAYS_THETA = 1 << 3,
  MIMI_SAYS_EPS = 1 << 4
} MimiSays;

typedef enum {
  MIMI_CONFIG_APPLIED,
  MIMI_CONFIG_OTHER,      /* it describes something else */
  MIMI_CONFIG_UNREADABLE, /* `error` says why */
  MIMI_CONFIG_WRONG       /* it contradicts the tensors; `error` says how */
} MimiConfigResult;

/* Takes from the file `path` what it says beyond `network`, of which it must
 * contradict nothing. `named`: the user says that it describes the decoder, so
 * it need not say so itself. `says`: of what it told; only then are heads,
 * window and so on of `network` changed. */
MimiConfigResult mimi_config_apply (const gchar *path, gboolean named,
    MimiNetwork *network, guint *says, GError **error);

G_END_DECLS
