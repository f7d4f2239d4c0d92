/* What the tests of the CUDA backend share.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "engine/backend.h"

#define SAMPLES MIMI_FRAME_SAMPLES

/* A network, its input, and what the float64 oracle makes of it. */
typedef struct {
  const gchar *name;     /* of the checkpoint that the build made */
  const gchar *input;    /* in tests/reference/goldens */
  const gchar *oracle;   /* in the build */
  const gchar *config;   /* NULL, or config.json in the build */
  guint frames;          /* enough for the ring to come round */
  guint codebooks;       /* 0: latents */
  gboolean denormalized; /* the checkpoint has no statistics */
} Network;

MimiModel *network_open (const Network *network);
MimiDecoder *network_get_decoder (
    const Network *network, MimiBackend backend, MimiPrecision precision);
/* n rows, and how they are written. */
guint8 *network_read_rows (
    const Network *network, const MimiModel *model, guint n, MimiRows *rows);
gfloat *network_read_oracle (const Network *network, guint n);
/* A stream that reads such rows and gives float32. */
MimiStream *stream_new (MimiDecoder *decoder, const MimiRows *format);

/* A file of the build, or of the goldens; free it. */
gchar *build_path (const gchar *name);
gchar *golden_path (const gchar *name);

/* 10 log10 of the power of `ref` over that of the difference. */
gdouble snr (const gfloat *ref, const gfloat *x, gsize n);
