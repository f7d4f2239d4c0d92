/* The container: every way in which a file can be damaged.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "checkpoint.h"
#include "model/safetensors.h"

#include <string.h>

/* A file of `json` and `size` bytes of data. */
static GBytes *
make (const gchar *json, gsize size)
{
  GByteArray *out = g_byte_array_new ();
  guint64 length = strlen (json);

  g_byte_array_append (out, (guint8 *)&length, 8);
  g_byte_array_append (out, (const guint8 *)json, length);
  g_byte_array_set_size (out, 8 + length + size);
  memset (out->data + 8 + length, 0, size);
  return g_byte_array_free_to_bytes (out);
}

static gboolean
read_bytes (
    gconstpointer data, gsize size, GHashTable **entries, GError **error)
{
  gpointer copy = g_memdup2 (data, size);
  MimiFile *file = mimi_file_new_from_memory ("test", copy, size);
  GHashTable *table = mimi_safetensors_new_table ();
  gboolean ok = mimi_safetensors_read (file, table, error);

  if (ok && entries)
    *entries = table;
  else
    g_hash_table_unref (table);
  mimi_file_free (file);
  g_free (copy);
  return ok;
}

static void
assert_bad (const gchar *json, gsize size, gint code, const gchar *says)
{
  GBytes *bytes = make (json, size);
  GError *error = NULL;
  gsize length;
  gconstpointer data = g_bytes_get_data (bytes, &length);

  g_assert_false (read_bytes (data, length, NULL, &error));
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
  g_assert_cmpuint (strlen (error->message), <, 2000);
  error_assert (error, code, "test: ", says, NULL);
  g_bytes_unref (bytes);
}

static void
assert_good (const gchar *json, gsize size, guint n)
{
  GBytes *bytes = make (json, size);
  GHashTable *entries = NULL;
  GError *error = NULL;
  gsize length;
  gconstpointer data = g_bytes_get_data (bytes, &length);

  read_bytes (data, length, &entries, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_hash_table_size (entries), ==, n);
  g_hash_table_unref (entries);
  g_bytes_unref (bytes);
}

#define T(dtype, shape, offsets) \
  "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define CORRUPT MIMI_ERROR_CORRUPT

static void
test_good (void)
{
  assert_good ("{}", 0, 0);
  assert_good ("{\"a\":" T ("F32", "[2,3]", "[0,24]") "}", 24, 1);
  /* padding, metadata, an empty tensor, a scalar, order, a hole, what follows,
   * a dtype that nobody knows yet */
  assert_good ("{\"__metadata__\":{\"format\":\"pt\",\"x\":\"[{\"},"
               "\"a\":" T ("F32", "[0,3]",
                   "[0,0]") ","
                            "\"b\":" T ("F64", "[]",
                                "[8,16]") ","
                                          "\"c\":" T ("F6_E9", "[7]",
                                              "[2,7]") "}        ",
      32, 3);
}

static void
test_offsets (void)
{
  assert_bad ("{\"a\":" T ("F32", "[2]", "[0,8]") "}", 7, CORRUPT,
      "tensor 'a' lies at bytes 0 to 8 of 7 bytes of data");
  assert_bad ("{\"a\":" T ("F32", "[2]", "[8,0]") "}", 8, CORRUPT,
      "tensor 'a' lies at bytes 8 to 0");
  assert_bad ("{\"a\":" T ("F32", "[2]", "[-8,0]") "}", 8, CORRUPT,
      "tensor 'a': its data_offsets");
  assert_bad ("{\"a\":" T ("F32", "[2]",
                  "[9223372036854775800,9223372036854775807]") "}",
      8, CORRUPT, "tensor 'a'");
  assert_bad ("{\"a\":" T ("F32", "[2]",
                  "[18446744073709551608,18446744073709551615]") "}",
      8, CORRUPT, "tensor 'a': its data_offsets");
  assert_bad ("{\"a\":" T ("F32", "[2]", "[0,1e400]") "}", 8, CORRUPT, "");
  assert_bad ("{\"a\":" T ("F32", "[2]", "[0,8.0]") "}", 8, CORRUPT,
      "tensor 'a': its data_offsets");
  assert_bad ("{\"a\":" T ("F32", "[2]", "[0]") "}", 8, CORRUPT,
      "tensor 'a': its data_offsets");
  assert_bad ("{\"a\":" T ("F32", "[2]", "[0,8,16]") "}", 16, CORRUPT,
      "tensor 'a': its data_offsets");
  assert_bad ("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, CORRUPT,
      "tensor 'a': its data_offsets");
  assert_bad ("{\"a\":" T ("F32", "[2]", "[0,8]") ",\"b\":" T (
                  "F32", "[2]", "[4,12]") "}",
      16, CORRUPT, "'a' and 'b' overlap");
  /* one inside the other, not next to each other in order of their starts */
  assert_bad ("{\"a\":" T ("U8", "[16]", "[0,16]") ",\"b\":" T (
                  "U8", "[2]", "[2,4]") ",\"c\":" T ("U8", "[2]", "[6,8]") "}",
      16, CORRUPT, "overlap");
}

static void
test_shapes (void)
{
  assert_bad ("{\"a\":" T ("F32", "[3]", "[0,8]") "}", 8, CORRUPT,
      "tensor 'a' has 8 bytes of data, which does not fit 3 elements of F32");
  assert_bad ("{\"a\":" T ("BF16", "[3]", "[0,8]") "}", 8, CORRUPT, "'a'");
  assert_bad ("{\"a\":" T ("F4", "[3]", "[0,1]") "}", 8, CORRUPT, "'a'");
  assert_bad ("{\"a\":" T ("F32", "[4294967296,4294967296]", "[0,0]") "}", 8,
      CORRUPT, "tensor 'a': the product of its shape overflows");
  assert_bad ("{\"a\":" T ("F32", "[4611686018427387905]", "[0,4]") "}", 8,
      CORRUPT, "tensor 'a'");
  assert_bad ("{\"a\":" T ("F32", "[-1]", "[0,4]") "}", 8, CORRUPT, "'a'");
  assert_bad ("{\"a\":" T ("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 8,
      CORRUPT, "tensor 'a': its shape");
  assert_bad ("{\"a\":" T ("F32", "\"2\"", "[0,8]") "}", 8, CORRUPT,
      "tensor 'a': its shape");
  assert_bad ("{\"a\":" T ("F32", "[[2]]", "[0,8]") "}", 8, CORRUPT,
      "tensor 'a': its shape");
  assert_bad ("{\"a\":" T ("F32", "[null]", "[0,8]") "}", 8, CORRUPT,
      "tensor 'a': its shape");
}

static void
test_json (void)
{
  GString *deep = g_string_new ("{\"__metadata__\":");
  GString *giant = g_string_new ("{\"__metadata__\":{\"x\":\"");
  guint i;

  assert_bad ("{\"a\":", 0, CORRUPT, "header is damaged");
  assert_bad ("{\"a\":}", 0, CORRUPT, "header is damaged");
  assert_bad ("{\"a\" 1}", 0, CORRUPT, "header is damaged");
  assert_bad ("{\"a\":1} {", 0, CORRUPT, "follows after its end");
  assert_bad ("{}{}", 0, CORRUPT, "follows after its end");
  assert_bad ("{}]", 0, CORRUPT, "follows after its end");
  assert_bad ("{\"a\":1}", 0, CORRUPT, "tensor 'a' is not described");
  assert_bad ("{\"a\":null}", 0, CORRUPT, "tensor 'a' is not described");
  assert_bad ("{\"a\":{}}", 0, CORRUPT, "tensor 'a' has no dtype");
  assert_bad ("{\"a\":{\"dtype\":7,\"shape\":[],\"data_offsets\":[0,0]}}", 0,
      CORRUPT, "tensor 'a' has no dtype");
  assert_bad ("{\"\xff\":1}", 0, CORRUPT, "UTF-8");

  /* the last of two would win unnoticed */
  assert_bad ("{\"a\":" T ("F32", "[2]", "[0,8]") ",\"b\":" T ("F32", "[2]",
                  "[8,16]") ",\"a\":" T ("F32", "[2]", "[16,24]") "}",
      24, CORRUPT, "'a' is there twice");
  assert_bad ("{\"a\":" T ("F32", "[2]", "[0,8]") ",\"\\u0061\":" T (
                  "F32", "[2]", "[8,16]") "}",
      24, CORRUPT, "'a' is there twice");
  assert_bad ("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[2],"
              "\"data_offsets\":[0,8]}}",
      8, CORRUPT, "'dtype' is there twice");
  /* also around an object that is empty */
  assert_bad (
      "{\"a\":" T ("F32", "[2]", "[0,8]") ",\"__metadata__\":{},\"a\":" T (
          "F32", "[2]", "[8,16]") "}",
      16, CORRUPT, "'a' is there twice");
  assert_good ("{\"shape\":" T ("F32", "[2]", "[0,8]") ",\"dtype\":" T (
                   "F32", "[2]", "[8,16]") "}",
      16, 2);

  for (i = 0; i < 1000000; i++)
    g_string_append_c (deep, '[');
  assert_bad (deep->str, 0, CORRUPT, "nested too deep");
  /* what json-glib takes for a comment or a string, hiding the same */
  g_string_insert (deep, 1, "/*\"*/");
  assert_bad (deep->str, 0, CORRUPT, "not JSON");
  memcpy (deep->str + 1, "'\"':1", 5);
  assert_bad (deep->str, 0, CORRUPT, "not JSON");
  memcpy (deep->str + 1, "#\"  \n", 5);
  assert_bad (deep->str, 0, CORRUPT, "not JSON");
  for (i = 0; i < MIMI_MAX_HEADER; i++)
    g_string_append_c (giant, 'x');
  g_string_append (giant, "\"}}");
  assert_bad (giant->str, 0, CORRUPT, "at most");
  g_string_free (deep, TRUE);
  g_string_free (giant, TRUE);
}

static void
test_many (void)
{
  GString *json = g_string_new ("{");
  guint i;

  for (i = 0; i <= MIMI_MAX_TENSORS; i++)
    g_string_append_printf (json, "%s\"t%u\":" T ("F32", "[]", "[%u,%u]"),
        i ? "," : "", i, 4 * i, 4 * i + 4);
  g_string_append_c (json, '}');
  assert_bad (json->str, 4 * MIMI_MAX_TENSORS + 4, CORRUPT, "at most 200000");
  g_string_free (json, TRUE);
}

/* Few bytes that would become much memory: what is counted before it is
 * parsed. */
static void
test_bombs (void)
{
  static const struct {
    const gchar *part, *says;
  } bombs[] = { { "{},", "too many objects" }, { "[],", "too many objects" },
    { "0,", "too many values" } };
  guint i, j;

  for (i = 0; i < G_N_ELEMENTS (bombs); i++) {
    GString *json = g_string_new ("{\"__metadata__\":{\"x\":[");

    for (j = 0; j < 4000000; j++)
      g_string_append (json, bombs[i].part);
    g_string_append (json, "0]}}");
    assert_bad (json->str, 0, CORRUPT, bombs[i].says);
    g_string_free (json, TRUE);
  }
}

/* Names that one hash function puts into one place: all letters of "Ez" and
 * "FY" do, in any order. */
static void
test_alike (void)
{
  static const gchar *const words[] = { "Ez", "FY", "\\u0045z" };
  guint i, j, escaped;

  for (escaped = 0; escaped < 2; escaped++) {
    GString *json = g_string_new ("{");

    for (i = 0; i < 1 << 17; i++) {
      g_string_append (json, i ? ",\"" : "\"");
      for (j = 0; j < 17; j++)
        g_string_append (json, words[i >> j & 1 ? 1 : 2 * escaped]);
      g_string_append (json, "\":0");
    }
    g_string_append_c (json, '}');
    assert_bad (json->str, 0, CORRUPT, "names with one hash");
    g_string_free (json, TRUE);
  }
}

/* What is in a message has a sensible length and is UTF-8. */
static void
test_names (void)
{
  gchar *name = g_strnfill (100000, 'n');
  gchar *json = g_strdup_printf ("{\"%s\":" T ("F32", "[]", "[0,4]") "}", name);

  assert_bad (json, 4, CORRUPT, "a tensor's name has 100000 bytes");
  g_free (json);
  json = g_strdup_printf ("{\"%s\":1,\"%s\":1}", name, name);
  assert_bad (json, 4, CORRUPT, "nnn' is there twice");
  assert_bad ("{\"a\":" T ("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
                           "\xc3\xa9\xc3\xa9\xc3\xa9",
                  "[]", "[0,4]") "}",
      4, CORRUPT, "tensor 'a' has a dtype that is none");
  g_free (json);
  g_free (name);
}

static void
test_length (void)
{
  static const gchar good[] = "\2\0\0\0\0\0\0\0{}";
  GError *error = NULL;
  gsize n;

  g_assert_true (read_bytes (good, 10, NULL, &error));
  for (n = 1; n < 10; n++) {
    g_assert_false (read_bytes (good, n, NULL, &error));
    error_assert (error, CORRUPT, "test: ", "bytes", NULL);
    error = NULL;
  }
  g_assert_false (read_bytes ("\3\0\0\0\0\0\0\0{}", 10, NULL, &error));
  error_assert (error, CORRUPT, "header should have 3 bytes",
      "the file ends after 2", NULL);
  error = NULL;
  g_assert_false (
      read_bytes ("\377\377\377\377\377\377\377\377{}", 10, NULL, &error));
  error_assert (
      error, CORRUPT, "header should have 18446744073709551615", NULL);
  error = NULL;
  g_assert_false (
      read_bytes ("\370\377\377\377\377\377\377\377{}", 10, NULL, &error));
  error_assert (error, CORRUPT, "header should have", NULL);
}

/* Files that people pass by mistake. */
static void
test_types (void)
{
  static const struct {
    const gchar *begin;
    gsize length;
    const gchar *says;
  } types[] = {
#define BEGINS(text) text, sizeof (text) - 1
    { BEGINS ("version https://git-lfs.github.com/spec/v1\noid sha256:58aa"),
        "git-LFS pointer" },
    { BEGINS ("GGUF\3\0\0\0\1\0\0\0\0\0\0\0"), "GGUF" },
    { BEGINS ("PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0"), "zip archive" },
    { BEGINS ("\x80\2c__builtin__\nset"), "pickle" },
    { BEGINS ("\x80\4\x95\0\1\0\0\0\0\0\0\0"), "pickle" },
    { BEGINS ("\x28\0\0\0ET12eh00\x18\0\0\0"), "ExecuTorch" },
    { BEGINS ("\x1c\0\0\0TFL3\x14\0\x20\0"), "TFLite" },
    { BEGINS ("\x08\x07\x12\x07pytorch\x1a\0052.1.0:\x80"), "ONNX" },
    { BEGINS ("\x08\x0a:\xff\xff\xff\x07\n\x1d\n\x06"), "ONNX" },
    { BEGINS ("\x93NUMPY\1\0v\0{'descr': '<f4'"), "NumPy" },
    { BEGINS ("RIFF\x24\x80\0\0WAVEfmt "), "WAV" },
    { BEGINS ("{\"model_type\": \"mimi\", \"hidden_size\": 512}"), "JSON" },
    { BEGINS ("<!DOCTYPE html><html><head>"), "HTML" },
    { BEGINS ("\x1f\x8b\x08\0\0\0\0\0\0\3"), "gzip" },
    { BEGINS ("\x28\xb5\x2f\xfd\4\0\0\0\0\0\0\0"), "zstd" },
    { BEGINS ("\xfd"
              "7zXZ\0\0\4\0\0\0\0\0"),
        "xz" },
    { BEGINS ("\x89HDF\r\n\x1a\n\0\0\0\0"), "HDF5" },
    { BEGINS ("0123456789abcdef"), "no JSON header" },
#undef BEGINS
  };
  guint i;

  for (i = 0; i < G_N_ELEMENTS (types); i++) {
    GError *error = NULL;

    g_assert_false (read_bytes (types[i].begin, types[i].length, NULL, &error));
    error_assert (error, MIMI_ERROR_WRONG_TYPE,
        "test: is not a safetensors file", types[i].says, NULL);
  }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/safetensors/good", test_good);
  g_test_add_func ("/safetensors/offsets", test_offsets);
  g_test_add_func ("/safetensors/shapes", test_shapes);
  g_test_add_func ("/safetensors/json", test_json);
  g_test_add_func ("/safetensors/many", test_many);
  g_test_add_func ("/safetensors/bombs", test_bombs);
  g_test_add_func ("/safetensors/alike", test_alike);
  g_test_add_func ("/safetensors/names", test_names);
  g_test_add_func ("/safetensors/length", test_length);
  g_test_add_func ("/safetensors/types", test_types);
  return g_test_run ();
}
