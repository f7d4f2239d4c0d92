/* What the tests of the element share
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <gst/check/gstcheck.h>
#include <gst/check/gstharness.h>

#define LATENT "audio/x-mimi-latent,rate=24000,channels=1,dims=32"
#define CODES "audio/x-mimi,rate=24000,channels=1,codebooks=8"
#define FRAME (80 * GST_MSECOND)
#define FRAME_SAMPLES 1920

/* mimidec with these properties (NULL-terminated name and value pairs) in a
 * harness, PLAYING, with a bus of its own. */
GstHarness *mimi_harness_new (
    const gchar *first_property, ...) G_GNUC_NULL_TERMINATED;
/* Also lets go of the bus; fails if an error or a warning was not looked at. */
void mimi_harness_free (GstHarness *h);

/* mimidec outside a harness, in NULL, with a bus of its own. */
GstElement *mimi_element_new (
    const gchar *first_property, ...) G_GNUC_NULL_TERMINATED;
void mimi_element_free (GstElement *element);

/* The next error or warning on the element's bus is of this type, domain and
 * code, and its text has each of the words in `text` in it, which are
 * separated by '|'. */
void expect_message (GstElement *element, GstMessageType type, GQuark domain,
    gint code, const gchar *text);
void expect_error (
    GstElement *element, GQuark domain, gint code, const gchar *text);
void expect_warning (
    GstElement *element, GQuark domain, gint code, const gchar *text);
void expect_no_message (GstElement *element);
void drop_messages (GstElement *element);

/* A number of `stats`. */
guint64 get_stat (GstElement *element, const gchar *name);

/* The event alone, whatever becomes of it. */
void push_caps (GstHarness *h, const gchar *text);

GstBuffer *buffer_of (gconstpointer data, gsize size, GstClockTime pts);
/* Everything that waits in the harness, in one piece (transfer full). */
GByteArray *pull_bytes (GstHarness *h);

/* Bytes of a file; NAME is relative to the folder that the environment
 * variable DIRECTORY names. */
GBytes *read_file (const gchar *directory, const gchar *name);
gchar *file_path (const gchar *directory, const gchar *name);

/* Pushes all of `data`, `chunk` bytes at a time (0: at once). */
void push_chunks (GstHarness *h, gconstpointer data, gsize size, gsize chunk);

/* Signal to noise ratio, dB, of `n` samples. */
gdouble snr_f32 (const gfloat *is, const gfloat *should_be, gsize n);
