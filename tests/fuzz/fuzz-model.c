/* libFuzzer over the reader: any bytes are an error or a checkpoint.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "model/model.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);
gsize LLVMFuzzerCustomMutator (
    guint8 *data, gsize size, gsize max_size, guint seed);
gsize LLVMFuzzerMutate (guint8 *data, gsize size, gsize max_size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  GError *error = NULL;
  MimiModel *model = mimi_model_open_bytes ("fuzz", data, size, &error);

  g_assert ((model == NULL) == (error != NULL));
  if (error) {
    g_assert (error->domain == MIMI_ERROR);
    g_assert (g_str_has_prefix (error->message, "fuzz: "));
    g_error_free (error);
    return 0;
  }
  g_assert (mimi_model_describe (model) != NULL);
  mimi_model_check_values (model, NULL);
  mimi_model_unref (model);
  return 0;
}

/* Mostly changes the header alone and then says its right length: other
 * changes do not get far. */
gsize
LLVMFuzzerCustomMutator (guint8 *data, gsize size, gsize max_size, guint seed)
{
  guint64 header;
  gsize rest, room;
  guint8 *tail;

  if (size < 10 || seed % 8 == 0)
    return LLVMFuzzerMutate (data, size, max_size);
  memcpy (&header, data, 8);
  if (header > size - 8)
    return LLVMFuzzerMutate (data, size, max_size);

  rest = size - 8 - header;
  room = max_size - 8 - rest;
  tail = g_memdup2 (data + 8 + header, rest);
  header = LLVMFuzzerMutate (data + 8, header, room);
  memcpy (data, &header, 8);
  if (rest > 0)
    memcpy (data + 8 + header, tail, rest);
  g_free (tail);
  return 8 + header + rest;
}
