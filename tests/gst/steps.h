/* Frames of the fake decoder, in and out
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The fake gives all samples of a frame the value of the row plus the number of
 * frames since its state was zero. With rows of 0 the output counts 1 2 3 ...
 * and starts again with 1 at every reset.
 */
#pragma once

#include "common.h"

#define NONE GST_CLOCK_TIME_NONE

/* `n` rows of zeros as latents of 32. */
GstBuffer *rows_new (guint n, GstClockTime pts);
void push_rows (GstHarness *h, guint n, GstClockTime pts);
void push_discont (GstHarness *h, guint n, GstClockTime pts);
void push_bytes (GstHarness *h, gsize size); /* of zeros */

/* The next buffer holds the frames first, first + 1, ... of an utterance, `n`
 * of them, and is stamped `pts`; returns its flags. */
guint pull_frames (GstHarness *h, guint n, gint first, GstClockTime pts);
void pull_nothing (GstHarness *h);

/* Forgets what the harness has received; then the next of that type. */
void drop_events (GstHarness *h);
GstEvent *pull_event_of (GstHarness *h, GstEventType type);

void push_segment (GstHarness *h, GstFormat format, gdouble rate,
    GstSegmentFlags flags, guint64 start);
