/* Decoders, and the registry through which they are shared.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "decoder.h"
#include "../model/model.h"

#include <string.h>

static GMutex lock;
static GCond opened;
static GHashTable *registry; /* keys to decoders: no reference */
static const MimiBackendOps *cpu = &mimi_backend_cpu;

void
mimi_decoder_replace_backend (const MimiBackendOps *ops)
{
  cpu = ops ? ops : &mimi_backend_cpu;
}

/* Both with the lock. */
static void
forget (MimiDecoder *decoder)
{
  if (decoder->key && g_hash_table_lookup (registry, decoder->key) == decoder)
    g_hash_table_remove (registry, decoder->key);
}

static gboolean
drop (MimiDecoder *decoder)
{
  if (--decoder->refs > 0)
    return FALSE;
  forget (decoder);
  return TRUE;
}

static void
destroy (MimiDecoder *decoder)
{
  if (decoder->backend)
    decoder->ops->close (decoder->backend);
  g_clear_error (&decoder->error);
  g_free (decoder->key);
  g_free (decoder->note);
  g_free (decoder);
}

MimiDecoder *
mimi_decoder_ref (MimiDecoder *decoder)
{
  g_mutex_lock (&lock);
  decoder->refs++;
  g_mutex_unlock (&lock);
  return decoder;
}

void
mimi_decoder_unref (MimiDecoder *decoder)
{
  gboolean last;

  g_mutex_lock (&lock);
  last = drop (decoder);
  g_mutex_unlock (&lock);
  if (last)
    destroy (decoder);
}

void
mimi_decoder_retire (MimiDecoder *decoder)
{
  g_mutex_lock (&lock);
  forget (decoder);
  g_mutex_unlock (&lock);
}

/* ------------------------------------------------------------- getting --- */

static gpointer
open_backend (const MimiBackendOps *ops, MimiModel *model,
    const MimiDecoderOptions *options, GError **error)
{
  gpointer backend;

  if (!mimi_model_check_values (model, error))
    return NULL;
  backend = ops->open (model, options, error);
  /* Laying the weights out has read the files once more. */
  if (backend && !mimi_model_check_unchanged (model, error)) {
    ops->close (backend);
    return NULL;
  }
  return backend;
}

/* The decoder of `model` on one backend, shared where it can be. Whoever asks
 * first opens it; the others wait, and share its failure too. */
static MimiDecoder *
get (const MimiBackendOps *ops, MimiModel *model,
    const MimiDecoderOptions *options, GError **error)
{
  const gchar *identity = mimi_model_get_identity (model);
  gchar *key =
      identity ? g_strdup_printf ("%s %s %d %d %d", identity, ops->name,
                     options->cuda_device, options->precision, options->timed)
               : NULL;
  MimiDecoder *decoder = NULL;
  gboolean last;

  g_mutex_lock (&lock);
  if (!registry)
    registry = g_hash_table_new (g_str_hash, g_str_equal);
  if (key)
    decoder = g_hash_table_lookup (registry, key);
  if (decoder) {
    g_free (key);
    decoder->refs++;
    while (!decoder->opened)
      g_cond_wait (&opened, &lock);
  } else {
    decoder = g_new0 (MimiDecoder, 1);
    decoder->refs = 1;
    decoder->key = key;
    decoder->ops = ops;
    decoder->network = *mimi_model_get_network (model);
    if (key)
      g_hash_table_insert (registry, key, decoder);
    g_mutex_unlock (&lock);

    decoder->backend = open_backend (ops, model, options, &decoder->error);

    g_mutex_lock (&lock);
    decoder->opened = TRUE;
    if (!decoder->backend)
      forget (decoder);
    g_cond_broadcast (&opened);
  }
  if (decoder->backend) {
    g_mutex_unlock (&lock);
    return decoder;
  }
  if (error)
    *error = g_error_copy (decoder->error);
  last = drop (decoder);
  g_mutex_unlock (&lock);
  if (last)
    destroy (decoder);
  return NULL;
}

static MimiDecoder *
get_cuda (MimiModel *model, const MimiDecoderOptions *options, GError **error)
{
#ifdef HAVE_CUDA
  return get (&mimi_backend_cuda, model, options, error);
#else
  (void)model;
  (void)options;
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE,
      "the CUDA backend was asked for, and this build has none: build with "
      "nvcc installed and -Dcuda=enabled, or use the CPU");
  return NULL;
#endif
}

static MimiDecoder *
get_cpu (MimiModel *model, const MimiDecoderOptions *options, GError **error)
{
  MimiDecoderOptions cpu_options = *options;

  /* so that nothing that means nothing here keeps weights from being shared */
  cpu_options.cuda_device = -1;
  cpu_options.timed = FALSE;
  return get (cpu, model, &cpu_options, error);
}

/* Errors that say something of the device, not of the model. */
static gboolean
is_device_error (const GError *error)
{
  return error->domain == MIMI_ERROR &&
         (error->code == MIMI_ERROR_NO_DEVICE ||
             error->code == MIMI_ERROR_DEVICE ||
             error->code == MIMI_ERROR_NO_MEMORY ||
             error->code == MIMI_ERROR_UNSUPPORTED);
}

static MimiDecoder *
get_auto (MimiModel *model, const MimiDecoderOptions *options, GError **error)
{
  MimiDecoderOptions cpu_options = *options;
  GError *err = NULL;
  MimiDecoder *decoder = get_cuda (model, options, &err);

  if (decoder)
    return decoder;
  if (!is_device_error (err)) {
    g_propagate_error (error, err);
    return NULL;
  }
  /* more exact than what was asked for, if that was another precision */
  cpu_options.precision = MIMI_PRECISION_FP32;
  decoder = get_cpu (model, &cpu_options, error);
  if (decoder) {
    g_mutex_lock (&lock);
    if (!decoder->note)
      decoder->note = g_strdup (err->message);
    g_mutex_unlock (&lock);
  }
  g_error_free (err);
  return decoder;
}

MimiDecoder *
mimi_decoder_get (
    MimiModel *model, const MimiDecoderOptions *options, GError **error)
{
  switch (options->backend) {
    case MIMI_BACKEND_CPU:
      return get_cpu (model, options, error);
    case MIMI_BACKEND_CUDA:
      return get_cuda (model, options, error);
    default:
      return get_auto (model, options, error);
  }
}

const MimiNetwork *
mimi_decoder_get_network (const MimiDecoder *decoder)
{
  return &decoder->network;
}

void
mimi_decoder_get_info (MimiDecoder *decoder, MimiDecoderInfo *info)
{
  memset (info, 0, sizeof *info);
  decoder->ops->get_info (decoder->backend, info);
  info->streams = g_atomic_int_get (&decoder->streams);
  g_mutex_lock (&lock);
  info->note = decoder->note;
  g_mutex_unlock (&lock);
}
