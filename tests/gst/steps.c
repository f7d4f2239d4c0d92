/* Frames of the fake decoder, in and out
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "steps.h"

GstBuffer *
rows_new (guint n, GstClockTime pts)
{
  gfloat *rows = g_new0 (gfloat, n * 32);
  GstBuffer *buffer = gst_buffer_new_wrapped (rows, n * 32 * sizeof *rows);

  GST_BUFFER_PTS (buffer) = pts;
  return buffer;
}

void
push_rows (GstHarness *h, guint n, GstClockTime pts)
{
  fail_unless_equals_int (gst_harness_push (h, rows_new (n, pts)), GST_FLOW_OK);
}

void
push_discont (GstHarness *h, guint n, GstClockTime pts)
{
  GstBuffer *buffer = rows_new (n, pts);

  GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
  fail_unless_equals_int (gst_harness_push (h, buffer), GST_FLOW_OK);
}

void
push_bytes (GstHarness *h, gsize size)
{
  GstBuffer *buffer = gst_buffer_new_allocate (NULL, size, NULL);

  gst_buffer_memset (buffer, 0, 0, size);
  fail_unless_equals_int (gst_harness_push (h, buffer), GST_FLOW_OK);
}

guint
pull_frames (GstHarness *h, guint n, gint first, GstClockTime pts)
{
  GstBuffer *buffer = gst_harness_try_pull (h);
  GstMapInfo map;
  const gint16 *samples;
  guint flags;

  fail_unless (buffer != NULL, "no buffer, expected frame %d", first);
  fail_unless (gst_buffer_map (buffer, &map, GST_MAP_READ));
  fail_unless_equals_int (map.size, n * FRAME_SAMPLES * sizeof *samples);
  samples = (const gint16 *)map.data;
  for (guint i = 0; i < n * FRAME_SAMPLES; i++)
    fail_unless (samples[i] == first + (gint)(i / FRAME_SAMPLES),
        "sample %u is %d; frames from %d on are expected", i, samples[i],
        first);
  gst_buffer_unmap (buffer, &map);
  fail_unless_equals_uint64 (GST_BUFFER_PTS (buffer), pts);
  fail_unless_equals_uint64 (GST_BUFFER_DURATION (buffer), n * FRAME);
  flags = GST_BUFFER_FLAGS (buffer);
  gst_buffer_unref (buffer);
  return flags;
}

void
pull_nothing (GstHarness *h)
{
  fail_unless_equals_int (gst_harness_buffers_in_queue (h), 0);
}

void
drop_events (GstHarness *h)
{
  GstEvent *event;

  while ((event = gst_harness_try_pull_event (h)) != NULL)
    gst_event_unref (event);
}

GstEvent *
pull_event_of (GstHarness *h, GstEventType type)
{
  GstEvent *event;

  while ((event = gst_harness_try_pull_event (h)) != NULL) {
    if (GST_EVENT_TYPE (event) == type)
      return event;
    gst_event_unref (event);
  }
  fail ("no %s event came out", gst_event_type_get_name (type));
  return NULL;
}

void
push_segment (GstHarness *h, GstFormat format, gdouble rate,
    GstSegmentFlags flags, guint64 start)
{
  GstSegment segment;

  gst_segment_init (&segment, format);
  segment.rate = rate;
  segment.flags = flags;
  segment.start = start;
  segment.time = start;
  segment.position = start;
  if (rate < 0)
    segment.stop = 100 * GST_SECOND;
  fail_unless (gst_harness_push_event (h, gst_event_new_segment (&segment)));
}
