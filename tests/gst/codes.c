/* Codes of Moshi, CSM and Kyutai TTS: how they are written, and streams that
 * change
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * With the plugin and its CPU backend.
 */
#include "decoding.h"

#define BOOKS(n) "audio/x-mimi,rate=24000,channels=1,codebooks=" #n

GST_START_TEST (codes_of_any_width_are_the_same_codes)
{
  static const gchar *const caps[] = { CODES ",format=S32LE",
    CODES ",format=S64LE",
    "other/tensors,format=static,num_tensors=1,types=int32,"
    "dimensions=(string)8:1:1:1",
    "other/tensors,format=static,num_tensors=1,types=int64,"
    "dimensions=(string)1:8:1:1",
    "other/tensors,format=static,num_tensors=1,types=uint16,"
    "dimensions=(string)8:1" };
  GBytes *codes = read_file ("MIMI_GOLDENS", "tinyfull-8.u16");
  const guint16 *u16 = g_bytes_get_data (codes, NULL);
  gsize n = 20 * 8;
  gint32 *s32 = g_new (gint32, n);
  gint64 *s64 = g_new (gint64, n);
  GByteArray *expected =
      decode_alone ("tinyfull-moshi", CODES, F32, u16, n * 2, 0);

  for (gsize i = 0; i < n; i++)
    s32[i] = s64[i] = u16[i];
  for (guint i = 0; i < G_N_ELEMENTS (caps); i++) {
    gconstpointer data = i == 4  ? (gconstpointer)u16
                         : i % 2 ? (gconstpointer)s64
                                 : (gconstpointer)s32;
    GByteArray *pcm = decode_alone ("tinyfull-moshi", caps[i], F32, data,
        n * (i == 4     ? 2
                : i % 2 ? 8
                        : 4),
        37);

    expect_same_bytes (expected, pcm);
    g_byte_array_unref (pcm);
  }
  g_byte_array_unref (expected);
  g_free (s32);
  g_free (s64);
  g_bytes_unref (codes);
}
GST_END_TEST;

GST_START_TEST (rows_without_a_token_leave_no_trace)
{
  GBytes *codes = read_file ("MIMI_GOLDENS", "tinyfull-8.u16");
  const guint16 *u16 = g_bytes_get_data (codes, NULL);
  gint32 *delayed = g_new (gint32, 20 * 8);
  GstHarness *h = decoder_new ("tinyfull-moshi", CODES ",format=S32LE", F32);
  GByteArray *expected =
      decode_alone ("tinyfull-moshi", CODES, F32, u16, 18 * 8 * 2, 0);
  GByteArray *pcm;

  /* As in a model's acoustic delay: two rows are not complete yet. */
  for (guint i = 0; i < 20 * 8; i++)
    delayed[i] = i < 2 * 8 ? -1 : u16[i - 2 * 8];
  delayed[0] = u16[0];
  pcm = decode (h, delayed, 20 * 8 * 4, 100);
  expect_same_bytes (expected, pcm);
  fail_unless_equals_int (get_stat (h->element, "skipped"), 2);
  fail_unless_equals_int (get_stat (h->element, "frames"), 18);
  fail_unless_equals_int (get_stat (h->element, "concealed"), 0);
  g_byte_array_unref (pcm);
  g_byte_array_unref (expected);
  g_free (delayed);
  mimi_harness_free (h);
  g_bytes_unref (codes);
}
GST_END_TEST;

/* ------------------------------------------------- other codebooks --- */

/* The part of a golden that a stream plays: upstream's own PCM has to come out
 * of it, within 3 dB of upstream's distance from the oracle. */
typedef struct {
  const gchar *name, *caps;
  gsize row;
  gdouble snr;
} Part;

static const Part one = { "tinyfull-1", BOOKS (1), 2, 107.0 - 3 };
static const Part eight = { "tinyfull-8", BOOKS (8), 16, 111.4 - 3 };

static GBytes *
part_codes (const Part *part)
{
  gchar *name = g_strconcat (part->name, ".u16", NULL);
  GBytes *codes = read_file ("MIMI_GOLDENS", name);

  g_free (name);
  return codes;
}

/* `pcm` is what `part` alone gives, and what upstream makes of it. */
static void
expect_part (const Part *part, const guint8 *pcm, gsize size)
{
  gchar *name = g_strconcat (part->name, ".pcm.f32", NULL);
  GBytes *golden = read_file ("MIMI_GOLDENS", name);
  GBytes *codes = part_codes (part);
  gsize n = size / (FRAME_SAMPLES * 4);
  GByteArray *alone = decode_alone ("tinyfull-moshi", part->caps, F32,
      g_bytes_get_data (codes, NULL), n * part->row, 0);
  gdouble snr =
      snr_f32 ((const gfloat *)pcm, g_bytes_get_data (golden, NULL), size / 4);

  fail_unless_equals_int (alone->len, size);
  fail_unless (memcmp (alone->data, pcm, size) == 0, "%s differs", part->name);
  fail_unless (snr >= part->snr, "%s: %.1f dB", part->name, snr);
  g_byte_array_unref (alone);
  g_bytes_unref (codes);
  g_bytes_unref (golden);
  g_free (name);
}

static const gsize chunks[] = { 0, 1, 7, 37, 4096 };

/* A, B, A: each to its last sample and as if it were alone, from zero; the
 * timestamps go on. */
GST_START_TEST (another_number_of_codebooks_is_another_utterance)
{
  const Part *const parts[] = { &eight, &one, &eight };
  const gsize frames[] = { 170, 40, 23 };
  GstHarness *h = decoder_new ("tinyfull-moshi", eight.caps, F32);
  GByteArray *all = g_byte_array_new ();
  GstClockTime end = 0;
  GstBuffer *buffer;
  gsize at = 0;

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++) {
    GBytes *codes = part_codes (parts[i]);

    gst_harness_set_src_caps_str (h, parts[i]->caps);
    push_chunks (h, g_bytes_get_data (codes, NULL), frames[i] * parts[i]->row,
        chunks[__i__]);
    g_bytes_unref (codes);
  }
  while ((buffer = gst_harness_try_pull (h)) != NULL) {
    GstMapInfo map;

    fail_unless_equals_uint64 (GST_BUFFER_PTS (buffer), end);
    end += GST_BUFFER_DURATION (buffer);
    gst_buffer_map (buffer, &map, GST_MAP_READ);
    g_byte_array_append (all, map.data, map.size);
    gst_buffer_unmap (buffer, &map);
    gst_buffer_unref (buffer);
  }
  fail_unless_equals_int (all->len, (170 + 40 + 23) * FRAME_SAMPLES * 4);
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++) {
    gsize size = frames[i] * FRAME_SAMPLES * 4;

    expect_part (parts[i], all->data + at, size);
    at += size;
  }
  fail_unless_equals_int (get_stat (h->element, "frames"), 170 + 40 + 23);
  g_byte_array_unref (all);
  mimi_harness_free (h);
}
GST_END_TEST;

/* What is left of an unfinished row is not taken for the next one's. */
GST_START_TEST (an_unfinished_row_does_not_reach_the_next_stream)
{
  GBytes *a = part_codes (&eight), *b = part_codes (&one);
  GstHarness *h = decoder_new ("tinyfull-moshi", eight.caps, F32);
  GByteArray *pcm =
      decode (h, g_bytes_get_data (a, NULL), 10 * eight.row + 9, 5);

  expect_part (&eight, pcm->data, pcm->len);
  fail_unless_equals_int (pcm->len, 10 * FRAME_SAMPLES * 4);
  g_byte_array_unref (pcm);
  gst_harness_set_src_caps_str (h, one.caps);
  expect_warning (
      h->element, GST_STREAM_ERROR, GST_STREAM_ERROR_DECODE, "9 bytes|16");
  pcm = decode (h, g_bytes_get_data (b, NULL), 20 * one.row, 3);
  fail_unless_equals_int (pcm->len, 20 * FRAME_SAMPLES * 4);
  expect_part (&one, pcm->data, pcm->len);
  g_byte_array_unref (pcm);
  mimi_harness_free (h);
  g_bytes_unref (a);
  g_bytes_unref (b);
}
GST_END_TEST;

/* More than the checkpoint has: an error, and what came before still decodes
 * after it. */
GST_START_TEST (too_many_codebooks_are_refused_and_forgotten)
{
  GBytes *codes = part_codes (&eight);
  GstHarness *h = decoder_new ("tinyfull-moshi", BOOKS (9), F32);
  GByteArray *pcm;

  expect_error (
      h->element, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, "9 codes|8");
  gst_harness_set_src_caps_str (h, eight.caps);
  pcm = decode (h, g_bytes_get_data (codes, NULL), 12 * eight.row, 0);
  expect_part (&eight, pcm->data, pcm->len);
  g_byte_array_unref (pcm);
  mimi_harness_free (h);
  g_bytes_unref (codes);
}
GST_END_TEST;

/* ----------------------------------------------------------- in packets --- */

/* The state of what comes after it is from zero, as after any gap. */
GST_START_TEST (a_lost_packet_costs_its_frame_and_no_more)
{
  const guint rows = 40, lost = 20;
  gchar *path = model_path ("tinyfull-moshi");
  gchar *line = g_strdup_printf (
      "rtpgstdepay ! mimidec model=%s backend=cpu fade-in=0", path);
  GstElementFactory *factory = gst_element_factory_find ("rtpgstpay");
  GBytes *codes = part_codes (&eight);
  const guint8 *data = g_bytes_get_data (codes, NULL);
  GByteArray *before, *after, *pcm;
  GstHarness *here, *there;
  GstBuffer *packet;

  if (factory == NULL) {
    GST_WARNING ("left out, for want of rtpgstpay");
    return;
  }
  gst_object_unref (factory);
  here = gst_harness_new_parse ("mimiparse ! rtpgstpay config-interval=1");
  gst_harness_set_src_caps_str (here, eight.caps);
  there = gst_harness_new_parse (line);
  gst_harness_set_sink_caps_str (there, F32);
  gst_harness_set_src_caps_str (there,
      "application/x-rtp,media=application,clock-rate=90000,"
      "encoding-name=X-GST");
  push_chunks (here, data, rows * eight.row, 37);
  /* The first packet says that a stream begins. */
  for (guint i = 0; (packet = gst_harness_try_pull (here)) != NULL; i++) {
    if (i == lost + 1)
      gst_buffer_unref (packet);
    else
      fail_unless_equals_int (gst_harness_push (there, packet), GST_FLOW_OK);
  }

  pcm = pull_bytes (there);
  before = decode_alone (
      "tinyfull-moshi", eight.caps, F32, data, lost * eight.row, 0);
  after = decode_alone ("tinyfull-moshi", eight.caps, F32,
      data + (lost + 1) * eight.row, (rows - lost - 1) * eight.row, 0);
  g_byte_array_append (before, after->data, after->len);
  expect_same_bytes (before, pcm);
  g_byte_array_unref (pcm);
  g_byte_array_unref (before);
  g_byte_array_unref (after);
  gst_harness_teardown (here);
  gst_harness_teardown (there);
  g_bytes_unref (codes);
  g_free (line);
  g_free (path);
}
GST_END_TEST;

/* ------------------------------------------------------ anything at all --- */

/* A stream that is made up: what it says, and what should come of it. */
typedef struct {
  GRand *rand;
  GstHarness *h;
  GByteArray *good; /* rows since the state was zero, as U16 */
  guint books;
  GByteArray *expected;
  guint64 frames, skipped, concealed;
} Stream;

/* What the good rows so far give when they are all there is. */
static void
end_utterance (Stream *s)
{
  gchar *caps;
  GByteArray *pcm;

  if (s->good->len == 0)
    return;
  caps = g_strdup_printf (
      "audio/x-mimi,rate=24000,channels=1,codebooks=%u", s->books);
  pcm = decode_alone (
      "tinyfull-moshi", caps, F32, s->good->data, s->good->len, 0);
  g_byte_array_append (s->expected, pcm->data, pcm->len);
  g_byte_array_unref (pcm);
  g_byte_array_set_size (s->good, 0);
  g_free (caps);
}

/* A row of one kind or another, as 64 bit numbers. */
static void
make_row (Stream *s, gint64 *row)
{
  guint16 u16[8];
  guint kind = g_rand_int_range (s->rand, 0, 12);
  guint at = g_rand_int_range (s->rand, 0, s->books);

  for (guint i = 0; i < s->books; i++)
    row[i] = u16[i] = g_rand_int_range (s->rand, 0, 64);
  if (kind == 0) {
    row[at] = -1;
    s->skipped++;
  } else if (kind == 1) {
    row[at] = g_rand_int_range (s->rand, 64, 65535);
    end_utterance (s);
    g_byte_array_set_size (
        s->expected, s->expected->len + FRAME_SAMPLES * sizeof (gfloat));
    memset (s->expected->data + s->expected->len - FRAME_SAMPLES * 4, 0,
        FRAME_SAMPLES * 4);
    s->concealed++;
    s->frames++;
  } else {
    g_byte_array_append (s->good, (guint8 *)u16, s->books * 2);
    s->frames++;
  }
}

/* Pushes `size` bytes in buffers of any size, the first one marked or not. */
static void
push_anyhow (Stream *s, const guint8 *data, gsize size, gboolean discont)
{
  while (size > 0) {
    gsize most = g_rand_int_range (s->rand, 1, 200), n = MIN (size, most);
    GstBuffer *buffer = buffer_of (data, n, GST_CLOCK_TIME_NONE);

    if (discont)
      GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
    discont = FALSE;
    fail_unless_equals_int (gst_harness_push (s->h, buffer), GST_FLOW_OK);
    data += n;
    size -= n;
  }
}

/* Rows of new caps, or of the same after a DISCONT, and perhaps a part of a row
 * that is never finished. */
static void
push_part (Stream *s, gboolean begin)
{
  static const gchar *const formats[] = { "U16LE", "S32LE", "S64LE" };
  static const gsize sizes[] = { 2, 4, 8 };
  static guint format;
  gboolean other = begin || g_rand_boolean (s->rand);
  guint n = g_rand_int_range (s->rand, 1, 20), old = s->books;
  GByteArray *bytes = g_byte_array_new ();

  end_utterance (s);
  if (other) {
    gchar *caps;

    /* Not the caps that it has: they would change nothing. */
    s->books = 1 + (old + g_rand_int_range (s->rand, 0, 7)) % 8;
    format = g_rand_int_range (s->rand, 0, 3);
    caps = g_strdup_printf (
        "audio/x-mimi,rate=24000,channels=1,codebooks=%u,format=%s", s->books,
        formats[format]);
    gst_harness_set_src_caps_str (s->h, caps);
    g_free (caps);
  }
  for (guint i = 0; i < n; i++) {
    gint64 row[8];

    make_row (s, row);
    for (guint k = 0; k < s->books; k++)
      g_byte_array_append (bytes, (guint8 *)(row + k), sizes[format]);
  }
  g_byte_array_append (bytes, (const guint8 *)"unfinished?",
      g_rand_int_range (s->rand, 0, MIN (s->books * sizes[format], 12)));
  push_anyhow (s, bytes->data, bytes->len, !other);
  g_byte_array_unref (bytes);
}

GST_START_TEST (a_made_up_stream_gives_what_its_parts_give)
{
  Stream s = { .rand = g_rand_new_with_seed (__i__),
    .good = g_byte_array_new (),
    .expected = g_byte_array_new () };
  GByteArray *pcm;

  s.h = decoder_new ("tinyfull-moshi", BOOKS (8), F32);
  s.books = 8;
  for (guint i = 0; i < 12; i++)
    push_part (&s, i == 0);
  end_utterance (&s);
  pcm = pull_bytes (s.h);
  expect_same_bytes (s.expected, pcm);
  fail_unless_equals_int (get_stat (s.h->element, "frames"), s.frames);
  fail_unless_equals_int (get_stat (s.h->element, "skipped"), s.skipped);
  fail_unless_equals_int (get_stat (s.h->element, "concealed"), s.concealed);
  drop_messages (s.h->element);
  g_byte_array_unref (pcm);
  g_byte_array_unref (s.good);
  g_byte_array_unref (s.expected);
  g_rand_free (s.rand);
  mimi_harness_free (s.h);
}
GST_END_TEST;

static Suite *
codes_suite (void)
{
  Suite *suite = suite_create ("codes");
  TCase *tcase = tcase_create ("all");

  suite_add_tcase (suite, tcase);
  tcase_add_test (tcase, codes_of_any_width_are_the_same_codes);
  tcase_add_test (tcase, rows_without_a_token_leave_no_trace);
  tcase_add_loop_test (tcase, another_number_of_codebooks_is_another_utterance,
      0, G_N_ELEMENTS (chunks));
  tcase_add_test (tcase, an_unfinished_row_does_not_reach_the_next_stream);
  tcase_add_test (tcase, too_many_codebooks_are_refused_and_forgotten);
  tcase_add_test (tcase, a_lost_packet_costs_its_frame_and_no_more);
  tcase_add_loop_test (
      tcase, a_made_up_stream_gives_what_its_parts_give, 0, 10);
  return suite;
}

GST_CHECK_MAIN (codes);
