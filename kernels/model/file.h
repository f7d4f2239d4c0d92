/* A file of weights, mapped into memory.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "../mimi.h"

G_BEGIN_DECLS

typedef struct {
  gchar *path; /* as it was given, for messages */
  const guint8 *data;
  guint64 size;
  /* Identifies the contents; all 0 for bytes in memory. */
  guint64 device, inode;
  gint64 mtime_s, mtime_ns;
  int fd; /* -1 for bytes in memory */
} MimiFile;

/* Maps the regular file `path`, following links. No page of it is read.
 * MIMI_ERROR_NOT_FOUND or _OPEN_READ (folder, FIFO, device, no permission). */
MimiFile *mimi_file_open (const gchar *path, GError **error);

/* A file that is `size` bytes at `data`, which the caller keeps. */
MimiFile *mimi_file_new_from_memory (
    const gchar *path, gconstpointer data, gsize size);

void mimi_file_free (MimiFile *file);

/* Whether the file is as long as when it was mapped: beyond its end the
 * mapping must not be touched. */
gboolean mimi_file_check_unchanged (const MimiFile *file, GError **error);

/* What these first bytes of a file that is not safetensors seem to be and
 * what to do about it, as the end of a sentence that begins with "it is"; NULL
 * if there is no telling. */
const gchar *mimi_file_guess_type (const MimiFile *file);

G_END_DECLS
