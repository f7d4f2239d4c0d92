/* A file of weights.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * It is read, never mapped: whoever overwrites or shortens a mapped file takes
 * its pages away, and with them the process.
 */
#pragma once

#include "../mimi.h"

G_BEGIN_DECLS

typedef struct _MimiFile {
  gchar *path; /* as it was given, for messages */
  guint64 size;
  /* Identifies the contents; all 0 for bytes in memory. */
  guint64 device, inode;
  gint64 mtime_s, mtime_ns;
  int fd; /* -1 for bytes in memory: */
  const guint8 *memory;
  gint damaged; /* atomic: an errno, or -1: something was not there any more */
} MimiFile;

/* Opens the regular file `path`, following links, and reads none of it.
 * MIMI_ERROR_NOT_FOUND or _OPEN_READ (folder, FIFO, device, no permission). */
MimiFile *mimi_file_open (const gchar *path, GError **error);

/* A file that is `size` bytes at `data`, which the caller keeps. */
MimiFile *mimi_file_new_from_memory (
    const gchar *path, gconstpointer data, gsize size);

void mimi_file_free (MimiFile *file);

/* `size` bytes from `offset` on to `out`. Where they cannot be read (any more)
 * `out` gets zeros, and mimi_file_check_unchanged() fails from then on: whoever
 * reads much asks once, at the end. Any thread may. */
gboolean mimi_file_read (
    MimiFile *file, guint64 offset, gsize size, gpointer out);

/* All of it, and a NUL behind; free it. For small files. */
gchar *mimi_file_read_all (MimiFile *file, GError **error);

/* Whether all that was read came from one and the same file: nothing was missing,
 * and nobody has written to it since it was opened. */
gboolean mimi_file_check_unchanged (MimiFile *file, GError **error);

/* What these first bytes of a file that is not safetensors seem to be and
 * what to do about it, as the end of a sentence that begins with "it is"; NULL
 * if there is no telling. */
const gchar *mimi_file_guess_type (MimiFile *file);

G_END_DECLS
