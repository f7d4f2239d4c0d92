/* A checkpoint's decoder.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "model.h"
#include "derive.h"
#include "layout.h"
#include "locate.h"
#include "network.h"
#include "settle.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

struct _MimiModel {
  gint refs;
  gchar *path;
  GPtrArray *files; /* of MimiFile: more than one if the file is in shards */
  MimiNetwork network;
  gchar *identity, *description, *warning;

  MimiWeights weights;
  GArray *bound;   /* of MimiBound */
  GArray *derived; /* of MimiDerived */
  gsize derived_once;
  gint checked; /* atomic: its values are finite */
};

G_DEFINE_QUARK (mimi - error - quark, mimi_error)

static void
clear_bound (gpointer data)
{
  g_free (((MimiBound *)data)->name);
}

static MimiModel *
new_model (const gchar *path)
{
  MimiModel *model = g_new0 (MimiModel, 1);

  model->refs = 1;
  model->path = g_strdup (path);
  model->files =
      g_ptr_array_new_with_free_func ((GDestroyNotify)mimi_file_free);
  model->bound = g_array_new (FALSE, FALSE, sizeof (MimiBound));
  g_array_set_clear_func (model->bound, clear_bound);
  model->derived = g_array_new (FALSE, FALSE, sizeof (MimiDerived));
  return model;
}

MimiModel *
mimi_model_ref (MimiModel *model)
{
  g_atomic_int_inc (&model->refs);
  return model;
}

void
mimi_model_unref (MimiModel *model)
{
  guint i;

  if (!g_atomic_int_dec_and_test (&model->refs))
    return;
  for (i = 0; i < model->derived->len; i++)
    g_free (
        (gpointer)g_array_index (model->derived, MimiDerived, i).target->made);
  g_array_unref (model->derived);
  g_array_unref (model->bound);
  g_free (model->weights.layers);
  g_ptr_array_unref (model->files);
  g_free (model->identity);
  g_free (model->description);
  g_free (model->warning);
  g_free (model->path);
  g_free (model);
}

/* ------------------------------------------------------------- opening --- */

static const gchar *const gelu_names[] = { "erf", "tanh" };

static gchar *
identify (const MimiModel *model)
{
  const MimiNetwork *net = &model->network;
  GString *id = g_string_new (NULL);
  guint i;

  for (i = 0; i < model->files->len; i++) {
    const MimiFile *file = g_ptr_array_index (model->files, i);

    if (file->fd < 0) {
      g_string_free (id, TRUE);
      return NULL;
    }
    g_string_append_printf (id,
        "%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT
        ":%" G_GINT64_FORMAT ".%09" G_GINT64_FORMAT " ",
        file->device, file->inode, file->size, file->mtime_s, file->mtime_ns);
  }
  /* The file fixes all the rest. */
  g_string_append_printf (id, "heads %u window %u gelu %s eps %a theta %a",
      net->heads, net->window, gelu_names[net->gelu], net->norm_eps,
      net->rope_theta);
  return g_string_free (id, FALSE);
}

static gchar *
describe (const MimiModel *model, const MimiLayout *layout, const gchar *rules)
{
  static const gchar *const dtypes[] = { "F32", "F16", "BF16" };
  const MimiNetwork *net = &model->network;
  GString *text = g_string_new (NULL);
  guint64 bytes = 0, values = 0;
  gboolean used[3] = { FALSE };
  guint i;

  for (i = 0; i < model->bound->len; i++) {
    const MimiTensor *t = &g_array_index (model->bound, MimiBound, i).tensor;
    guint64 n = mimi_tensor_get_length (t);

    values += n;
    bytes += n * mimi_dtype_get_size (t->dtype);
    used[t->dtype] = TRUE;
  }
  g_string_append_printf (text, "layout %s, ", layout->name);
  for (i = 0; i < 3; i++) {
    if (used[i])
      g_string_append_printf (text, "%s ", dtypes[i]);
  }
  g_string_append_printf (
      text, "%.3f M values, %.1f MB; ", values / 1e6, bytes / 1e6);
  if (net->codebooks)
    g_string_append_printf (
        text, "%u codebooks of %u", net->codebooks, net->codebook_size);
  if (net->latent_dim)
    g_string_append_printf (text, "%slatents of %u%s",
        net->codebooks ? ", " : "", net->latent_dim,
        net->has_statistics ? " with statistics" : "");
  g_string_append_printf (text,
      "; width %u, %u layers, FFN %u, %u positions a frame, channels %u to %u; "
      "%s",
      net->width, net->layers, net->ffn, net->upsample, net->channels[0],
      net->channels[net->stages], rules);
  return g_string_free (text, FALSE);
}

/* Makes `model` of the tensors of its files. `beside`: a configuration may lie
 * beside them. */
static gboolean
build (MimiModel *model, GHashTable *entries, gboolean beside,
    const gchar *config, GError **error)
{
  MimiNames names = { .entries = entries, .path = model->path };
  gchar *rules = NULL;
  gboolean ok;

  ok = mimi_names_detect (&names, error) &&
       mimi_network_bind (&names, &model->network, &model->weights,
           model->bound, model->derived, error) &&
       mimi_settle (&model->network, names.layout->gelu, model->path, beside,
           config, &rules, &model->warning, error);
  if (ok) {
    model->identity = identify (model);
    model->description = describe (model, names.layout, rules);
  }
  g_free (rules);
  mimi_names_clear (&names);
  return ok;
}

MimiModel *
mimi_model_open (const gchar *path, const gchar *config, GError **error)
{
  GHashTable *entries = mimi_safetensors_new_table ();
  MimiModel *model = new_model (path);
  gchar *found = mimi_locate (path, model->files, entries, error);
  gboolean ok = found != NULL;

  if (ok) {
    g_free (model->path);
    model->path = found;
    ok = build (model, entries, TRUE, config, error);
  }
  g_hash_table_unref (entries);
  if (ok)
    return model;
  mimi_model_unref (model);
  return NULL;
}

MimiModel *
mimi_model_open_bytes (
    const gchar *name, gconstpointer data, gsize size, GError **error)
{
  GHashTable *entries = mimi_safetensors_new_table ();
  MimiModel *model = new_model (name);
  MimiFile *file = mimi_file_new_from_memory (name, data, size);
  gboolean ok;

  g_ptr_array_add (model->files, file);
  ok = mimi_safetensors_read (file, entries, error) &&
       build (model, entries, FALSE, NULL, error);
  g_hash_table_unref (entries);
  if (ok)
    return model;
  mimi_model_unref (model);
  return NULL;
}

/* ------------------------------------------------------------- reading --- */

const MimiNetwork *
mimi_model_get_network (const MimiModel *model)
{
  return &model->network;
}

const gchar *
mimi_model_get_path (const MimiModel *model)
{
  return model->path;
}

const gchar *
mimi_model_describe (const MimiModel *model)
{
  return model->description;
}

const gchar *
mimi_model_get_warning (const MimiModel *model)
{
  return model->warning;
}

const gchar *
mimi_model_get_identity (const MimiModel *model)
{
  return model->identity;
}

const MimiWeights *
mimi_model_get_weights (const MimiModel *model)
{
  /* Nothing that can be seen changes: what is derived is only made late, so
   * that opening a model reads no weight. */
  MimiModel *self = (MimiModel *)model;

  if (g_once_init_enter (&self->derived_once)) {
    guint i;

    for (i = 0; i < self->derived->len; i++) {
      MimiDerived *d = &g_array_index (self->derived, MimiDerived, i);

      d->target->made = mimi_derive (d, self->network.heads);
    }
    g_once_init_leave (&self->derived_once, 1);
  }
  return &self->weights;
}

/* The index of the first NaN or Inf, or -1. */
static gint64
find_not_finite (const MimiTensor *tensor, gfloat *value)
{
  guint64 length = mimi_tensor_get_length (tensor), first;
  gfloat values[4096];

  for (first = 0; first < length; first += G_N_ELEMENTS (values)) {
    guint n = MIN (length - first, G_N_ELEMENTS (values)), i;
    gfloat zero = 0;

    mimi_tensor_read (tensor, first, n, values);
    for (i = 0; i < n; i++)
      zero += values[i] * 0;
    if (zero == 0)
      continue;
    for (i = 0; i < n; i++) {
      if (!isfinite (values[i])) {
        *value = values[i];
        return first + i;
      }
    }
  }
  return -1;
}

static gboolean
check_tensor (const MimiModel *model, const MimiTensor *tensor,
    const gchar *name, GError **error)
{
  gfloat value;
  gint64 index = find_not_finite (tensor, &value);

  if (index < 0)
    return TRUE;
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_TENSOR,
      "%s: tensor '%s' holds %s at element %" G_GINT64_FORMAT
      ", expected finite numbers; the file is damaged or was badly converted",
      model->path, name, isnan (value) ? "NaN" : "Inf", index);
  return FALSE;
}

/* Every tensor that the file holds, and those that are made of them. */
static gboolean
check_tensors (const MimiModel *model, GError **error)
{
  guint i, j;

  for (i = 0; i < model->bound->len; i++) {
    const MimiBound *bound = &g_array_index (model->bound, MimiBound, i);

    if (!check_tensor (model, &bound->tensor, bound->name, error))
      return FALSE;
  }
  mimi_model_get_weights (model);
  for (i = 0; i < model->derived->len; i++) {
    const MimiDerived *d = &g_array_index (model->derived, MimiDerived, i);

    if (!d->target->made) {
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY,
          "%s: no memory for its weights", model->path);
      return FALSE;
    }
    /* 0/0 where a norm is 0; its parts are finite, so name one of them */
    if (d->kind != MIMI_DERIVED_NORM)
      continue;
    for (j = 0; j < model->bound->len; j++) {
      const MimiBound *bound = &g_array_index (model->bound, MimiBound, j);

      if (bound->tensor.file == d->parts[1].file &&
          bound->tensor.offset == d->parts[1].offset &&
          !check_tensor (model, d->target, bound->name, error))
        return FALSE;
    }
  }
  return TRUE;
}

gboolean
mimi_model_check_unchanged (const MimiModel *model, GError **error)
{
  guint i;

  for (i = 0; i < model->files->len; i++) {
    if (!mimi_file_check_unchanged (g_ptr_array_index (model->files, i), error))
      return FALSE;
  }
  return TRUE;
}

gboolean
mimi_model_check_values (const MimiModel *model, GError **error)
{
  GError *unsound = NULL;

  if (!mimi_model_check_unchanged (model, error))
    return FALSE;
  if (g_atomic_int_get (&model->checked))
    return TRUE;
  check_tensors (model, &unsound);
  /* What is not sound may be so because the file is not there any more. */
  if (!mimi_model_check_unchanged (model, error)) {
    g_clear_error (&unsound);
    return FALSE;
  }
  if (unsound) {
    g_propagate_error (error, unsound);
    return FALSE;
  }
  g_atomic_int_set (&((MimiModel *)model)->checked, TRUE);
  return TRUE;
}
