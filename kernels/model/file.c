/* A file of weights.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void
set_errno_error (GError **error, const gchar *path, int err)
{
  gboolean missing = err == ENOENT || err == ENOTDIR || err == ELOOP;

  g_set_error (error, MIMI_ERROR,
      missing ? MIMI_ERROR_NOT_FOUND : MIMI_ERROR_OPEN_READ,
      "%s: cannot be opened: %s", path, g_strerror (err));
}

static gboolean
look_at (MimiFile *file, GError **error)
{
  struct stat st;

  if (fstat (file->fd, &st) != 0) {
    set_errno_error (error, file->path, errno);
    return FALSE;
  }
  if (!S_ISREG (st.st_mode)) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_OPEN_READ,
        "%s: is %s, expected a regular file", file->path,
        S_ISDIR (st.st_mode)    ? "a folder"
        : S_ISFIFO (st.st_mode) ? "a FIFO"
        : S_ISCHR (st.st_mode)  ? "a character device"
        : S_ISBLK (st.st_mode)  ? "a block device"
                                : "a special file");
    return FALSE;
  }
  file->size = st.st_size;
  file->device = st.st_dev;
  file->inode = st.st_ino;
  file->mtime_s = st.st_mtim.tv_sec;
  file->mtime_ns = st.st_mtim.tv_nsec;
  return TRUE;
}

MimiFile *
mimi_file_open (const gchar *path, GError **error)
{
  MimiFile *file = g_new0 (MimiFile, 1);

  file->path = g_strdup (path);
  /* O_NONBLOCK: opening a FIFO that nobody writes must not wait. */
  do {
    file->fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (file->fd < 0 && errno == EINTR);

  if (file->fd < 0)
    set_errno_error (error, path, errno);
  else if (look_at (file, error))
    return file;

  mimi_file_free (file);
  return NULL;
}

MimiFile *
mimi_file_new_from_memory (const gchar *path, gconstpointer data, gsize size)
{
  MimiFile *file = g_new0 (MimiFile, 1);

  file->path = g_strdup (path);
  file->memory = data;
  file->size = size;
  file->fd = -1;
  return file;
}

void
mimi_file_free (MimiFile *file)
{
  if (file->fd >= 0)
    close (file->fd);
  g_free (file->path);
  g_free (file);
}

gboolean
mimi_file_read (MimiFile *file, guint64 offset, gsize size, gpointer out)
{
  guint8 *to = out;
  gint damage = offset > file->size || size > file->size - offset ? -1 : 0;

  if (!damage && file->memory) {
    memcpy (to, file->memory + offset, size);
    size = 0;
  }
  while (size > 0 && !damage) {
    gssize n = pread (file->fd, to, size, offset);

    if (n > 0) {
      to += n;
      offset += n;
      size -= n;
    } else if (n == 0) {
      damage = -1;
    } else if (errno != EINTR) {
      damage = errno;
    }
  }
  if (!damage)
    return TRUE;
  memset (to, 0, size);
  g_atomic_int_set (&file->damaged, damage);
  return FALSE;
}

gchar *
mimi_file_read_all (MimiFile *file, GError **error)
{
  gchar *text = g_try_malloc (file->size + 1);

  if (!text) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY,
        "%s: no memory for its %" G_GUINT64_FORMAT " bytes", file->path,
        file->size);
    return NULL;
  }
  text[file->size] = '\0';
  mimi_file_read (file, 0, file->size, text);
  if (mimi_file_check_unchanged (file, error))
    return text;
  g_free (text);
  return NULL;
}

gboolean
mimi_file_check_unchanged (MimiFile *file, GError **error)
{
  gint damage = g_atomic_int_get (&file->damaged);
  struct stat st;

  if (damage > 0) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_OPEN_READ,
        "%s: cannot be read: %s", file->path, g_strerror (damage));
    return FALSE;
  }
  if (file->fd < 0)
    return TRUE;
  if (fstat (file->fd, &st) == 0) {
    if (!damage && (guint64)st.st_size == file->size &&
        st.st_mtim.tv_sec == file->mtime_s &&
        st.st_mtim.tv_nsec == file->mtime_ns)
      return TRUE;
    damage = damage || (guint64)st.st_size < file->size;
  }
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_CORRUPT,
      "%s: was %s while it was read (it had %" G_GUINT64_FORMAT
      " bytes); open it again once it is complete",
      file->path, damage ? "cut short" : "changed", file->size);
  return FALSE;
}

/* Beginnings of files that people pass by mistake. */
static const struct {
  guint offset;
  const gchar *magic;
  const gchar *what;
} types[] = {
  { 0, "version https://git-lfs",
      "a git-LFS pointer, not the file itself; "
      "fetch it with `git lfs pull`" },
  { 0, "GGUF", "a GGUF file; convert it or take the original safetensors" },
  { 0, "ggml", "a GGML file; take the original safetensors" },
  { 4, "ET1", "an ExecuTorch program (.pte); take the original safetensors" },
  { 4, "TFL3", "a TFLite model; take the original safetensors" },
  { 0, "PK\003\004",
      "a zip archive, as .pt, .npz and Core ML packages are; "
      "convert it to safetensors" },
  { 0, "\x93NUMPY", "a NumPy array (.npy), not a checkpoint" },
  { 0, "\x89HDF", "an HDF5 file; convert it to safetensors" },
  { 0, "\x1f\x8b", "compressed with gzip; unpack it first" },
  { 0, "\x28\xb5\x2f\xfd", "compressed with zstd; unpack it first" },
  { 0,
      "\xfd"
      "7zXZ",
      "compressed with xz; unpack it first" },
  { 0, "RIFF", "a RIFF file (WAV), not a checkpoint" },
  { 0, "<",
      "HTML or XML, perhaps an error page of a download; "
      "download it again" },
  { 0, "{",
      "JSON, perhaps a config.json or an index of shards; "
      "pass the safetensors file or its folder" },
  { 0, "\x80\x02",
      "a Python pickle (.pt, .pth, .bin); convert it to "
      "safetensors" },
  { 0, "\x80\x03",
      "a Python pickle (.pt, .pth, .bin); convert it to "
      "safetensors" },
  { 0, "\x80\x04",
      "a Python pickle (.pt, .pth, .bin); convert it to "
      "safetensors" },
  { 0, "\x80\x05",
      "a Python pickle (.pt, .pth, .bin); convert it to "
      "safetensors" },
};

/* An ONNX file is a protobuf message without a magic: field 1 (ir_version, a
 * small varint), then mostly field 2 (the producer's name), or one of 3 to 8. */
static gboolean
is_onnx (const guint8 *data, gsize size)
{
  return size > 4 && data[0] == 0x08 && data[1] >= 1 && data[1] < 32 &&
         (data[2] == 0x12 || data[2] == 0x1a || data[2] == 0x22 ||
             data[2] == 0x3a || data[2] == 0x42);
}

const gchar *
mimi_file_guess_type (MimiFile *file)
{
  guint8 head[64];
  gsize size = MIN (file->size, sizeof head);
  guint i;

  if (!mimi_file_read (file, 0, size, head))
    return NULL;
  for (i = 0; i < G_N_ELEMENTS (types); i++) {
    gsize length = strlen (types[i].magic);

    if (size >= types[i].offset + length &&
        memcmp (head + types[i].offset, types[i].magic, length) == 0)
      return types[i].what;
  }
  if (is_onnx (head, size))
    return "an ONNX model; take the original safetensors";
  return NULL;
}
