/* What a backend (CPU, CUDA) gives the engine.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "../model/weights.h"

G_BEGIN_DECLS

/* What a row is when it reaches a backend. */
typedef enum {
  MIMI_STEP_NORMALIZED, /* values[latent_dim], emb_mean/std to be applied */
  MIMI_STEP_LATENT,     /* values[latent_dim], as they are */
  MIMI_STEP_EMBEDDING,  /* values[width]: as they leave the quantizer */
  MIMI_STEP_CODES       /* codes[n_codes], each in 0..codebook_size-1 */
} MimiStepKind;

/* One frame of one stream. */
typedef struct {
  gpointer slot;  /* of slot_new() */
  gboolean reset; /* start this frame from zero state */
  MimiStepKind kind;
  const gfloat *values; /* finite; see kind */
  const guint16 *codes;
  guint n_codes;

  gpointer pcm; /* 1920 samples, aligned for its type */
  MimiPcm format;
  guint64 fade_in;  /* samples, see mimi_stream_set_fade_in() */
  guint64 position; /* samples of this utterance before this frame */

  gboolean finite; /* out: FALSE if NaN or Inf turned up on the way; PCM and
                      state are then worthless, and so are those of the slot's
                      items that follow, up to one that starts from zero */
  gboolean taken;  /* the backend's own */
} MimiStepItem;

typedef struct _MimiBackendOps {
  const gchar *name;
  /* Lays the weights out (model->weights may be dropped afterwards), finds the
   * device, warms up. Thread-safe against everything else here. */
  gpointer (*open) (
      MimiModel *model, const MimiDecoderOptions *options, GError **error);
  void (*close) (gpointer self);
  /* Fills all but streams and note. */
  void (*get_info) (gpointer self, MimiDecoderInfo *info);
  gpointer (*slot_new) (gpointer self, guint threads, GError **error);
  void (*slot_free) (gpointer self, gpointer slot);
  /* One frame for each item; those of one slot stand side by side and are its
   * next frames, in order. May be called by several threads at once as long as
   * their slots differ. FALSE: the device failed and every later call will. In
   * the steady state it neither allocates, locks nor enters the kernel (CPU, one
   * thread). */
  gboolean (*step) (
      gpointer self, MimiStepItem *items, guint n_items, GError **error);
  /* A slot's state in the order of engine/state.h, and back; `frames` were
   * decoded since it was fresh. FALSE: the device failed, or there is no memory. */
  gboolean (*state_read) (
      gpointer self, gpointer slot, gfloat *values, GError **error);
  gboolean (*state_write) (gpointer self, gpointer slot, guint64 frames,
      const gfloat *values, GError **error);
  /* NULL where there is none. */
  void (*set_trace) (
      gpointer self, gpointer slot, MimiTraceFunc func, gpointer user_data);
} MimiBackendOps;

extern const MimiBackendOps mimi_backend_cpu;
/* Only where the CUDA backend was built (HAVE_CUDA). */
extern const MimiBackendOps mimi_backend_cuda;

/* Writes 1920 samples of one frame as `item` wants them: fade-in, then
 * clipping and rounding for S16 (engine/pcm.c). */
void mimi_pcm_write (const MimiStepItem *item, const gfloat *samples);

G_END_DECLS
