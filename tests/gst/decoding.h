/* Whole utterances through the element
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "common.h"

#define S16 "audio/x-raw,format=S16LE"
#define F32 "audio/x-raw,format=F32LE"

/* A checkpoint that checkpoints.py made, or the demo's ("demo"). */
gchar *model_path (const gchar *name);

/* mimidec with this model and fade-in 0 in a harness, giving `format`. */
GstHarness *decoder_new (
    const gchar *model, const gchar *caps, const gchar *format);

/* Pushes `data`, `chunk` bytes at a time (0: at once), and returns the PCM. */
GByteArray *decode (GstHarness *h, gconstpointer data, gsize size, gsize chunk);

/* The same with an element of its own. */
GByteArray *decode_alone (const gchar *model, const gchar *caps,
    const gchar *format, gconstpointer data, gsize size, gsize chunk);

/* Sentence 1 to 8 of the demo, as latents; its speech, as samples of S16. */
GBytes *demo_latents (guint sentence);
GBytes *demo_speech (guint sentence);

void expect_same_bytes (const GByteArray *a, const GByteArray *b);
/* As many samples of S16, none of them off by more than one. */
void expect_same_speech (gconstpointer a, gsize a_size, GBytes *b);
