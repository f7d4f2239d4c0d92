/* From a path to a checkpoint: folders, links, shards, and what is no file.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "checkpoint.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void
assert_opens (const gchar *path, const gchar *as)
{
  GError *error = NULL;
  MimiModel *model = mimi_model_open (path, NULL, &error);

  g_assert_no_error (error);
  if (!g_str_has_suffix (mimi_model_get_path (model), as))
    g_error ("opened %s, expected %s", mimi_model_get_path (model), as);
  mimi_model_check_values (model, &error);
  g_assert_no_error (error);
  mimi_model_unref (model);
}

static void
assert_fails (const gchar *path, gint code, const gchar *says)
{
  GError *error = NULL;

  g_assert_null (mimi_model_open (path, NULL, &error));
  error_assert (error, code, says, NULL);
}

static gchar *
in (const gchar *folder, const gchar *name)
{
  return g_build_filename (folder, name, NULL);
}

/* Saves one of the build's checkpoints as `name` in `folder`; without the
 * tensors that begin with one of `without`, and with one of a language model. */
static void
put (const gchar *checkpoint, const gchar *folder, const gchar *name,
    const gchar *without)
{
  Checkpoint *c = checkpoint_load (checkpoint);
  GList *names = json_object_get_members (c->header), *l;
  gchar *path = in (folder, name);

  checkpoint_add (c, "lm.weight", "BF16", 10, 2);
  for (l = names; l; l = l->next) {
    if (without && g_str_has_prefix (l->data, without))
      json_object_remove_member (c->header, l->data);
  }
  checkpoint_save (c, path);
  g_free (path);
  g_list_free (names);
  checkpoint_free (c);
}

/* ------------------------------------------------------------- folders --- */

static void
test_folder (void)
{
  gchar *folder = folder_new (), *inner = in (folder, "x.safetensors");

  assert_fails (folder, MIMI_ERROR_NOT_FOUND, "a folder without a checkpoint");
  /* one file of any name */
  put ("tinyfull-moshi", folder, "tokenizer-e351.safetensors", NULL);
  assert_opens (folder, "/tokenizer-e351.safetensors");
  /* beside a language model without a decoder, as moshi's repositories are */
  put ("tiny-pocket", folder, "model.safetensors", "mimi.");
  assert_opens (folder, "/tokenizer-e351.safetensors");
  /* model.safetensors goes first if it has a decoder */
  put ("tiny-pocket", folder, "model.safetensors", NULL);
  assert_opens (folder, "/model.safetensors");
  /* two of which none goes first */
  put ("tiny-pocket", folder, "model.safetensors", "mimi.");
  put ("tiny-pocket", folder, "another.safetensors", NULL);
  assert_fails (folder, MIMI_ERROR_WRONG_TYPE, "several Mimi decoders");
  /* a damaged model.safetensors is not passed over */
  file_write (folder, "model.safetensors", "\x40\1\1\1\1\1\1\1{\"a\":");
  assert_fails (folder, MIMI_ERROR_CORRUPT, "model.safetensors: ");
  folder_remove (folder);

  /* a folder where a file should be */
  folder = folder_new ();
  g_free (inner);
  inner = in (folder, "model.safetensors");
  g_mkdir (inner, 0755);
  assert_fails (folder, MIMI_ERROR_OPEN_READ, "is a folder");
  assert_fails (inner, MIMI_ERROR_NOT_FOUND, "a folder without a checkpoint");
  g_free (inner);
  folder_remove (folder);

  /* no decoder in any of them */
  folder = folder_new ();
  put ("tiny-pocket", folder, "a.safetensors", "mimi.");
  assert_fails (folder, MIMI_ERROR_WRONG_TYPE, "no Mimi decoder");
  folder_remove (folder);
}

static void
make_link (const gchar *target, const gchar *folder, const gchar *name)
{
  gchar *path = in (folder, name);

  g_assert_cmpint (symlink (target, path), ==, 0);
  g_free (path);
}

/* models--kyutai--mimi/{blobs,refs,snapshots}, all files links to blobs. */
static void
test_hugging_face (void)
{
  gchar *folder = folder_new ();
  gchar *blobs = in (folder, "blobs"), *refs = in (folder, "refs");
  gchar *snapshot = in (folder, "snapshots/0123abcd");
  gchar *file = in (snapshot, "model.safetensors");
  GError *error = NULL;
  MimiModel *model;

  g_mkdir_with_parents (blobs, 0755);
  g_mkdir_with_parents (refs, 0755);
  g_mkdir_with_parents (snapshot, 0755);
  put ("tinyfull-hf", blobs, "58aa704a", NULL);
  file_write (blobs, "11223344",
      "{\"model_type\":\"mimi\",\"num_attention_heads\":2,"
      "\"sliding_window\":99}");
  file_write (refs, "main", "0123abcd\n");
  make_link ("../../blobs/58aa704a", snapshot, "model.safetensors");
  make_link ("../../blobs/11223344", snapshot, "config.json");

  assert_opens (file, "snapshots/0123abcd/model.safetensors");
  assert_opens (snapshot, "snapshots/0123abcd/model.safetensors");
  assert_opens (folder, "snapshots/0123abcd/model.safetensors");
  /* config.json lies beside the link, not beside what it leads to */
  model = mimi_model_open (folder, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (mimi_model_get_network (model)->window, ==, 99);
  mimi_model_unref (model);

  /* a link from elsewhere: beside its target */
  {
    gchar *other = folder_new (), *link = in (other, "my.safetensors");

    make_link (file, other, "my.safetensors");
    model = mimi_model_open (link, NULL, &error);
    g_assert_no_error (error);
    g_assert_cmpuint (mimi_model_get_network (model)->window, ==, 250);
    mimi_model_unref (model);
    g_free (link);
    folder_remove (other);
  }
  file_write (refs, "main", "../../etc");
  assert_fails (folder, MIMI_ERROR_NOT_FOUND, "without a checkpoint");
  g_free (blobs);
  g_free (refs);
  g_free (snapshot);
  g_free (file);
  folder_remove (folder);
}

/* A tensor in one shard, the next in the other. */
static void
test_shards (void)
{
  gchar *folder = folder_new ();
  Checkpoint *a = checkpoint_load ("tinyfull-csm");
  Checkpoint *b = checkpoint_load ("tinyfull-csm");
  GList *names = json_object_get_members (a->header), *l;
  gchar *path_a = in (folder, "x-00001-of-00003.safetensors");
  gchar *path_b = in (folder, "x-00002-of-00003.safetensors");
  GError *error = NULL;
  guint i = 0;

  for (l = names; l; l = l->next)
    json_object_remove_member (
        i++ % 2 ? a->header : b->header, g_intern_string (l->data));
  checkpoint_save (a, path_a);
  checkpoint_save (b, path_b);
  file_write (folder, "x.safetensors.index.json",
      "{\"metadata\":{},\"weight_map\":{"
      "\"a\":\"x-00001-of-00003.safetensors\","
      "\"b\":\"x-00002-of-00003.safetensors\","
      "\"c\":\"x-00003-of-00003.safetensors\",\"d\":\"../x\",\"e\":7}}");
  assert_opens (folder, "/x-00001-of-00003.safetensors");

  /* the same tensors in two shards; a shard that is damaged; one missing */
  checkpoint_save (a, path_b);
  assert_fails (folder, MIMI_ERROR_CORRUPT, "also in another shard");
  g_assert_true (g_file_set_contents (path_b, "\2\0", 2, NULL));
  assert_fails (folder, MIMI_ERROR_CORRUPT, "x-00002-of-00003.safetensors");
  g_remove (path_b);
  g_assert_null (mimi_model_open (folder, NULL, &error));
  error_assert (error, MIMI_ERROR_TENSOR, "is missing", NULL);

  /* an index that is none */
  file_write (folder, "x.safetensors.index.json", "[");
  g_remove (path_a);
  assert_fails (folder, MIMI_ERROR_NOT_FOUND, "without a checkpoint");
  g_list_free (names);
  g_free (path_a);
  g_free (path_b);
  checkpoint_free (a);
  checkpoint_free (b);
  folder_remove (folder);
}

/* ------------------------------------------------------------- no files --- */

static void
test_no_file (void)
{
  gchar *folder = folder_new (), *path = in (folder, "model.safetensors");
  gchar *below = in (path, "x");
  Checkpoint *c = checkpoint_load ("tiny-pocket");

  assert_fails (path, MIMI_ERROR_NOT_FOUND, path);
  assert_fails ("", MIMI_ERROR_NOT_FOUND, "cannot be opened");
  /* nobody ever writes into it: this must not wait */
  g_assert_cmpint (mkfifo (path, 0644), ==, 0);
  assert_fails (path, MIMI_ERROR_OPEN_READ, "is a FIFO");
  assert_fails (folder, MIMI_ERROR_OPEN_READ, "is a FIFO");
  g_remove (path);
  assert_fails ("/dev/zero", MIMI_ERROR_OPEN_READ, "a character device");
  file_write (folder, "model.safetensors", "");
  assert_fails (path, MIMI_ERROR_WRONG_TYPE, "is empty");
  assert_fails (below, MIMI_ERROR_NOT_FOUND, below);
  make_link ("loop", folder, "loop");
  {
    gchar *loop = in (folder, "loop");

    assert_fails (loop, MIMI_ERROR_NOT_FOUND, loop);
    g_free (loop);
  }
  checkpoint_save (c, path);
  if (geteuid () != 0) {
    g_chmod (path, 0);
    assert_fails (path, MIMI_ERROR_OPEN_READ, "Permission denied");
  }
  checkpoint_free (c);
  g_free (below);
  g_free (path);
  folder_remove (folder);
}

/* ------------------------------------------------------- changing files --- */

typedef void (*Change) (const gchar *path);

static void
cut (const gchar *path)
{
  g_assert_cmpint (truncate (path, 100000), ==, 0);
}

static void
cut_header (const gchar *path)
{
  g_assert_cmpint (truncate (path, 4), ==, 0);
}

/* Other weights in the same place. */
static void
overwrite (const gchar *path)
{
  int fd = g_open (path, O_WRONLY, 0);

  g_usleep (20000); /* for the clock of the file system */
  g_assert_cmpint (pwrite (fd, "other", 5, 100000), ==, 5);
  close (fd);
}

/* A file that is written to after it was opened, or after its values were found
 * sound: what was read is worth nothing, and nothing of it decodes. */
static void
check_change (Change change, gboolean late, const gchar *says)
{
  gchar *folder = folder_new (), *path = in (folder, "model.safetensors");
  Checkpoint *c = checkpoint_load ("tiny-pocket");
  MimiDecoderOptions options = { .backend = MIMI_BACKEND_CPU };
  GError *error = NULL;
  MimiModel *model;

  checkpoint_save (c, path);
  model = mimi_model_open (path, NULL, &error);
  g_assert_no_error (error);
  if (late) {
    g_assert_true (mimi_model_check_values (model, &error));
    g_assert_no_error (error);
    change (path);
    g_assert_null (mimi_decoder_get (model, &options, &error));
  } else {
    change (path);
    g_assert_false (mimi_model_check_values (model, &error));
  }
  error_assert (error, MIMI_ERROR_CORRUPT, path, says, NULL);
  mimi_model_unref (model);
  checkpoint_free (c);
  g_free (path);
  folder_remove (folder);
}

static void
test_change (void)
{
  guint late;

  for (late = 0; late < 2; late++) {
    check_change (cut, late, "cut short");
    check_change (cut_header, late, "cut short");
    check_change (overwrite, late, "changed");
  }
}

typedef struct {
  const gchar *path;
  gint size, stop;
} Shaking;

static gpointer
shake (gpointer data)
{
  Shaking *s = data;

  while (!g_atomic_int_get (&s->stop)) {
    g_assert_cmpint (truncate (s->path, s->size / 2), ==, 0);
    g_assert_cmpint (truncate (s->path, s->size), ==, 0);
  }
  return NULL;
}

/* Cut short and lengthened all the while: errors, or other numbers. */
static void
test_shake (void)
{
  gchar *folder = folder_new (), *path = in (folder, "model.safetensors");
  Checkpoint *c = checkpoint_load ("tiny-hfpocket");
  GBytes *bytes = checkpoint_write (c);
  Shaking s = { path, g_bytes_get_size (bytes), 0 };
  MimiDecoderOptions options = { .backend = MIMI_BACKEND_CPU };
  GThread *thread;
  guint i;

  checkpoint_save (c, path);
  thread = g_thread_new ("shake", shake, &s);
  for (i = 0; i < 200; i++) {
    GError *error = NULL;
    MimiModel *model = mimi_model_open (path, NULL, &error);
    MimiDecoder *decoder =
        model ? mimi_decoder_get (model, &options, &error) : NULL;

    g_assert_true (!decoder == !!error);
    g_clear_pointer (&decoder, mimi_decoder_unref);
    g_clear_pointer (&model, mimi_model_unref);
    g_clear_error (&error);
  }
  g_atomic_int_set (&s.stop, 1);
  g_thread_join (thread);
  g_bytes_unref (bytes);
  checkpoint_free (c);
  g_free (path);
  folder_remove (folder);
}

/* ---------------------------------------------------------- large files --- */

static gsize
count_resident (int fd, gsize size)
{
  gsize pages = (size + 4095) / 4096, i, n = 0;
  guchar *resident = g_malloc (pages);
  void *map = mmap (NULL, size, PROT_READ, MAP_SHARED, fd, 0);

  g_assert_true (map != MAP_FAILED);
  g_assert_cmpint (mincore (map, size, resident), ==, 0);
  for (i = 0; i < pages; i++)
    n += resident[i] & 1;
  munmap (map, size);
  g_free (resident);
  return n * 4096;
}

/* 400 MB of a language model before the decoder: opening reads the header
 * alone, and decoding the decoder alone. The file has holes, which are pages
 * only where somebody read them. */
static void
test_large (void)
{
  const guint64 large = 400000000;
  gchar *folder = folder_new (), *path = in (folder, "model.safetensors");
  Checkpoint *c = checkpoint_load ("tiny-pocket");
  GList *names = json_object_get_members (c->header), *l;
  GBytes *bytes;
  const guint8 *data;
  gsize size, before, opened;
  GError *error = NULL;
  MimiModel *model;
  guint64 header;
  int fd;

  for (l = names; l; l = l->next) {
    JsonArray *old, *offsets;

    if (strcmp (l->data, "__metadata__") == 0)
      continue;
    old = json_object_get_array_member (
        checkpoint_get (c, l->data), "data_offsets");
    offsets = json_array_new ();
    json_array_add_int_element (
        offsets, json_array_get_int_element (old, 0) + large);
    json_array_add_int_element (
        offsets, json_array_get_int_element (old, 1) + large);
    json_object_set_array_member (
        checkpoint_get (c, l->data), "data_offsets", offsets);
  }
  checkpoint_add (c, "flow_lm.weight", "U8", 0, 1);
  {
    JsonObject *lm = checkpoint_get (c, "flow_lm.weight");
    JsonArray *offsets = json_array_new ();
    guint64 shape[1] = { large };

    json_array_add_int_element (offsets, 0);
    json_array_add_int_element (offsets, large);
    json_object_set_array_member (lm, "data_offsets", offsets);
    checkpoint_set_shape (c, "flow_lm.weight", 1, shape);
  }
  bytes = checkpoint_write (c);
  data = g_bytes_get_data (bytes, &size);
  memcpy (&header, data, 8);

  fd = g_open (path, O_RDWR | O_CREAT, 0644);
  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (pwrite (fd, data, 8 + header, 0), ==, 8 + header);
  g_assert_cmpint (
      pwrite (fd, data + 8 + header, size - 8 - header, 8 + header + large), ==,
      size - 8 - header);
  size += large;

  before = count_resident (fd, size);
  model = mimi_model_open (path, NULL, &error);
  g_assert_no_error (error);
  opened = count_resident (fd, size);
  g_test_message ("resident: %" G_GSIZE_FORMAT " kB written, %" G_GSIZE_FORMAT
                  " kB opened",
      before / 1024, opened / 1024);
  g_assert_cmpuint (opened - before, <, 1000000);
  mimi_model_check_values (model, &error);
  g_assert_no_error (error);
  opened = count_resident (fd, size);
  g_test_message ("%" G_GSIZE_FORMAT " kB read", opened / 1024);
  g_assert_cmpuint (opened - before, <, 3000000);

  mimi_model_unref (model);
  close (fd);
  g_bytes_unref (bytes);
  g_list_free (names);
  checkpoint_free (c);
  g_free (path);
  folder_remove (folder);
}

/* A network 256 times as wide, all of it holes: each size is within the limits,
 * and reading it would take for ever. */
static void
test_immense (void)
{
  gchar *folder = folder_new (), *path = in (folder, "model.safetensors");
  Checkpoint *c = checkpoint_load ("tiny-pocket");
  GList *names = json_object_get_members (c->header), *l;
  guint64 offset = 0, header;
  GBytes *bytes;
  int fd;

  for (l = names; l; l = l->next) {
    JsonObject *tensor = checkpoint_get (c, l->data);
    JsonArray *shape, *offsets = json_array_new ();
    guint64 dims[3], size = 4;
    guint n, i;

    if (strcmp (l->data, "__metadata__") == 0) {
      json_array_unref (offsets);
      continue;
    }
    shape = json_object_get_array_member (tensor, "shape");
    n = json_array_get_length (shape);
    for (i = 0; i < n; i++) {
      dims[i] = json_array_get_int_element (shape, i);
      if (dims[i] % 64 == 0) /* width, q k v, FFN; the first channels */
        dims[i] *= 256;
      size *= dims[i];
    }
    checkpoint_set_shape (c, l->data, n, dims);
    json_array_add_int_element (offsets, offset);
    json_array_add_int_element (offsets, offset += size);
    json_object_set_array_member (tensor, "data_offsets", offsets);
  }
  bytes = checkpoint_write (c);
  memcpy (&header, g_bytes_get_data (bytes, NULL), 8);
  fd = g_open (path, O_RDWR | O_CREAT, 0644);
  g_assert_cmpint (pwrite (fd, g_bytes_get_data (bytes, NULL), 8 + header, 0),
      ==, 8 + header);
  if (ftruncate (fd, 8 + header + offset) == 0)
    assert_fails (path, MIMI_ERROR_UNSUPPORTED, "bytes of weights");
  else
    g_test_skip ("no files with holes here");
  close (fd);
  g_bytes_unref (bytes);
  g_list_free (names);
  checkpoint_free (c);
  g_free (path);
  folder_remove (folder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/paths/folder", test_folder);
  g_test_add_func ("/paths/hugging-face", test_hugging_face);
  g_test_add_func ("/paths/shards", test_shards);
  g_test_add_func ("/paths/no-file", test_no_file);
  g_test_add_func ("/paths/change", test_change);
  g_test_add_func ("/paths/shake", test_shake);
  g_test_add_func ("/paths/large", test_large);
  g_test_add_func ("/paths/immense", test_immense);
  return g_test_run ();
}
