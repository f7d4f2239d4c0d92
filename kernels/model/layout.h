/* How each public layout names the decoder's tensors.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * In a name, '#' stands for a number, '|' separates alternatives of which the
 * first is the usual one. Names of convolutions lack the last part: ".weight",
 * or ".weight_g" and ".weight_v", and ".bias" are added.
 */
#pragma once

#include "safetensors.h"

G_BEGIN_DECLS

typedef struct {
  const gchar *name;     /* for people */
  const gchar *prefixes; /* of all names but the statistics' */
  MimiGelu gelu;         /* where no configuration says it */

  const gchar *latent_proj, *first_proj, *rest_proj;
  const gchar *first_book, *rest_book; /* '#': which */
  const gchar *sum, *usage;            /* of a codebook */
  const gchar *upsample;

  const gchar *transformer; /* everything there belongs to the decoder */
  const gchar *layer;       /* '#': which; the names below follow it */
  const gchar *in_proj;     /* NULL: q, k and v apart, q and k permuted */
  const gchar *q_proj, *k_proj, *v_proj;
  const gchar *out_proj, *norm1, *norm2, *linear1, *linear2, *scale1, *scale2;

  const gchar *seanet; /* everything there belongs to the decoder */
  const gchar *conv, *convtr, *res1, *res2; /* '#': the module's number */
} MimiLayout;

/* The tensors of a checkpoint and the layout that was found in it. */
typedef struct {
  GHashTable *entries;
  GHashTable *used; /* names that were looked up and found */
  const MimiLayout *layout;
  gchar *prefix;
  const gchar *path; /* for messages */
} MimiNames;

/* Finds the layout by the tensors that are there. Fails with
 * MIMI_ERROR_WRONG_TYPE, saying what was looked for and what came nearest. */
gboolean mimi_names_detect (MimiNames *names, GError **error);

/* The tensor called `scope` `name` `suffix` (with `index` for '#'), or NULL;
 * `name` alone may have alternatives, and may be NULL. */
const MimiEntry *mimi_names_find (MimiNames *names, const gchar *scope,
    const gchar *name, guint index, const gchar *suffix);

/* A name that mimi_names_find() looks for, for messages: the alternative that
 * the file has for another index, or else the first. Free it. */
gchar *mimi_names_spell (const MimiNames *names, const gchar *scope,
    const gchar *name, guint index, const gchar *suffix);

/* The greatest number that the file has in the place of '#' at the end of
 * `scope`; -1 if there is none. */
gint mimi_names_get_last (const MimiNames *names, const gchar *scope);

/* A tensor of the decoder that nobody asked for, or NULL: the network has
 * parts that we do not know. */
const gchar *mimi_names_find_unused (const MimiNames *names);

void mimi_names_clear (MimiNames *names);

G_END_DECLS
