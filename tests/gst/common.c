/* What the tests of the element share
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "common.h"

#include <math.h>

static GstElement *
element_new (const gchar *first_property, va_list properties)
{
  GstElement *element = gst_element_factory_make ("mimidec", NULL);
  GstBus *bus = gst_bus_new ();

  fail_unless (element != NULL, "there is no mimidec");
  gst_object_ref_sink (element);
  gst_element_set_bus (element, bus);
  gst_object_unref (bus);
  if (first_property != NULL)
    g_object_set_valist (G_OBJECT (element), first_property, properties);
  return element;
}

GstElement *
mimi_element_new (const gchar *first_property, ...)
{
  GstElement *element;
  va_list properties;

  va_start (properties, first_property);
  element = element_new (first_property, properties);
  va_end (properties);
  return element;
}

void
mimi_element_free (GstElement *element)
{
  fail_unless_equals_int (gst_element_set_state (element, GST_STATE_NULL),
      GST_STATE_CHANGE_SUCCESS);
  expect_no_message (element);
  gst_element_set_bus (element, NULL);
  ASSERT_OBJECT_REFCOUNT (element, "mimidec", 1);
  gst_object_unref (element);
}

GstHarness *
mimi_harness_new (const gchar *first_property, ...)
{
  GstElement *element;
  GstHarness *h;
  va_list properties;

  va_start (properties, first_property);
  element = element_new (first_property, properties);
  va_end (properties);
  h = gst_harness_new_with_element (element, "sink", "src");
  gst_object_unref (element);
  return h;
}

void
mimi_harness_free (GstHarness *h)
{
  GstElement *element = gst_object_ref (h->element);

  expect_no_message (element);
  gst_element_set_state (element, GST_STATE_NULL);
  expect_no_message (element);
  gst_element_set_bus (element, NULL);
  gst_harness_teardown (h);
  ASSERT_OBJECT_REFCOUNT (element, "mimidec", 1);
  gst_object_unref (element);
}

static GstMessage *
pop_message (GstElement *element)
{
  GstBus *bus = gst_element_get_bus (element);
  GstMessage *message =
      gst_bus_pop_filtered (bus, GST_MESSAGE_ERROR | GST_MESSAGE_WARNING);

  gst_object_unref (bus);
  return message;
}

void
expect_message (GstElement *element, GstMessageType type, GQuark domain,
    gint code, const gchar *text)
{
  GstMessage *message = pop_message (element);
  GError *error = NULL;
  gchar *debug = NULL;

  fail_unless (message != NULL, "nothing was posted, expected: %s", text);
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR)
    gst_message_parse_error (message, &error, &debug);
  else
    gst_message_parse_warning (message, &error, &debug);
  fail_unless (GST_MESSAGE_TYPE (message) == type, "%s: %s (%s)",
      GST_MESSAGE_TYPE_NAME (message), error->message, debug);
  fail_unless (error->domain == domain && error->code == code,
      "%s %d instead of %s %d: %s (%s)", g_quark_to_string (error->domain),
      error->code, g_quark_to_string (domain), code, error->message, debug);
  if (text != NULL) {
    gchar **words = g_strsplit (text, "|", -1);

    for (guint i = 0; words[i] != NULL; i++)
      fail_unless (strstr (error->message, words[i]) != NULL,
          "\"%s\" is not in: %s (%s)", words[i], error->message, debug);
    g_strfreev (words);
  }
  g_error_free (error);
  g_free (debug);
  gst_message_unref (message);
}

void
expect_error (GstElement *element, GQuark domain, gint code, const gchar *text)
{
  expect_message (element, GST_MESSAGE_ERROR, domain, code, text);
}

void
expect_warning (
    GstElement *element, GQuark domain, gint code, const gchar *text)
{
  expect_message (element, GST_MESSAGE_WARNING, domain, code, text);
}

void
expect_no_message (GstElement *element)
{
  GstMessage *message = pop_message (element);
  gchar *text;

  if (message == NULL)
    return;
  text = gst_structure_to_string (gst_message_get_structure (message));
  fail ("unexpected %s", text);
}

void
drop_messages (GstElement *element)
{
  GstMessage *message;

  while ((message = pop_message (element)) != NULL)
    gst_message_unref (message);
}

guint64
get_stat (GstElement *element, const gchar *name)
{
  GstStructure *stats = NULL;
  guint64 value = 0;

  g_object_get (element, "stats", &stats, NULL);
  fail_unless (gst_structure_has_name (stats, "application/x-mimidec-stats"));
  fail_unless (gst_structure_get_uint64 (stats, name, &value), "%s", name);
  gst_structure_free (stats);
  return value;
}

void
push_caps (GstHarness *h, const gchar *text)
{
  GstCaps *caps = gst_caps_from_string (text);

  gst_harness_push_event (h, gst_event_new_caps (caps));
  gst_caps_unref (caps);
}

GstBuffer *
buffer_of (gconstpointer data, gsize size, GstClockTime pts)
{
  GstBuffer *buffer = gst_buffer_new_memdup (data, size);

  GST_BUFFER_PTS (buffer) = pts;
  return buffer;
}

GByteArray *
pull_bytes (GstHarness *h)
{
  GByteArray *bytes = g_byte_array_new ();
  GstBuffer *buffer;

  while ((buffer = gst_harness_try_pull (h)) != NULL) {
    GstMapInfo map;

    fail_unless (gst_buffer_map (buffer, &map, GST_MAP_READ));
    g_byte_array_append (bytes, map.data, map.size);
    gst_buffer_unmap (buffer, &map);
    gst_buffer_unref (buffer);
  }
  return bytes;
}

gchar *
file_path (const gchar *directory, const gchar *name)
{
  const gchar *top = g_getenv (directory);

  fail_unless (top != NULL, "set %s", directory);
  return g_build_filename (top, name, NULL);
}

GBytes *
read_file (const gchar *directory, const gchar *name)
{
  gchar *path = file_path (directory, name);
  gchar *data;
  gsize size;
  GError *error = NULL;

  fail_unless (g_file_get_contents (path, &data, &size, &error), "%s",
      error != NULL ? error->message : path);
  g_free (path);
  return g_bytes_new_take (data, size);
}

void
push_chunks (GstHarness *h, gconstpointer data, gsize size, gsize chunk)
{
  const guint8 *bytes = data;

  if (chunk == 0)
    chunk = size;
  for (gsize at = 0; at < size; at += chunk) {
    GstBuffer *buffer =
        buffer_of (bytes + at, MIN (chunk, size - at), GST_CLOCK_TIME_NONE);

    fail_unless_equals_int (gst_harness_push (h, buffer), GST_FLOW_OK);
  }
}

gdouble
snr_f32 (const gfloat *is, const gfloat *should_be, gsize n)
{
  gdouble signal = 0, noise = 0;

  for (gsize i = 0; i < n; i++) {
    gdouble difference = (gdouble)is[i] - should_be[i];

    signal += (gdouble)should_be[i] * should_be[i];
    noise += difference * difference;
  }
  if (noise == 0)
    return 999;
  return 10 * log10 (signal / noise);
}
