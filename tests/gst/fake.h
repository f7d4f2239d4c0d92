/* A decoder that fails on demand, in the place of kernels/
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "mimi.h"

/* Where the next call fails; it stays so until it is set to FAKE_NOTHING. */
typedef enum {
  FAKE_NOTHING,
  FAKE_MODEL_OPEN,
  FAKE_DECODER_GET,
  FAKE_STREAM_NEW,
  FAKE_SET_ROWS,
  FAKE_DECODE
} FakeFault;

/* As at the start of the process. */
void fake_init (void);
void fake_fail (FakeFault fault, MimiError code);
/* What mimi_model_get_warning() says. */
void fake_set_warning (const gchar *warning);
/* References that are alive: models, decoders and streams. */
guint fake_get_alive (void);
/* mimi_stream_reset() so far. */
guint fake_get_resets (void);
/* The most rows that one mimi_stream_decode() was given. */
guint fake_get_largest_call (void);
/* mimi_decoder_get() so far, and what the last one was asked for. */
guint fake_get_opened (void);
const MimiDecoderOptions *fake_get_options (void);
/* What mimi_stream_set_fade_in() and mimi_stream_new() were given last. */
guint64 fake_get_fade_in (void);
guint fake_get_threads (void);
