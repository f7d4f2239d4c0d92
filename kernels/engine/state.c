/* A stream's state outside of its backend.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "state.h"

#include <math.h>
#include <string.h>

#define MAGIC "MIMISTAT"
#define VERSION 1
#define HEADER 128

/* All that decides where a float belongs. */
typedef struct {
  gchar magic[8];
  guint32 version, header;
  guint64 size, frames;
  guint32 width, upsample, layers, heads, window;
  guint32 first_kernel, residual_kernel, last_kernel, stages;
  guint16 ratios[MIMI_MAX_STAGES], channels[MIMI_MAX_STAGES + 1];
  guint16 reserved;
} Header;

G_STATIC_ASSERT (sizeof (Header) <= HEADER);
G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN);

static gsize
take (gsize *length, gsize n)
{
  gsize offset = *length;

  *length += n;
  return offset;
}

void
mimi_state_lay_out (MimiStateLayout *layout, const MimiNetwork *n)
{
  gsize *length = &layout->length, past;
  guint i;

  memset (layout, 0, sizeof *layout);
  layout->front = take (length, n->width);
  layout->first = take (length, (gsize)(n->first_kernel - 1) * n->width);
  for (i = 0; i < n->stages; i++) {
    layout->up[i] = take (length, n->channels[i]);
    layout->res[i] =
        take (length, (gsize)(n->residual_kernel - 1) * n->channels[i + 1]);
  }
  layout->last =
      take (length, (gsize)(n->last_kernel - 1) * n->channels[n->stages]);
  past = (gsize)n->layers * (n->window - 1) * n->width;
  layout->keys = take (length, past);
  layout->values = take (length, past);
}

gsize
mimi_state_blob_size (const MimiNetwork *network)
{
  MimiStateLayout layout;

  mimi_state_lay_out (&layout, network);
  return HEADER + layout.length * sizeof (gfloat);
}

static void
describe (Header *header, const MimiNetwork *n, guint64 frames)
{
  guint i;

  memset (header, 0, sizeof *header);
  memcpy (header->magic, MAGIC, sizeof header->magic);
  header->version = VERSION;
  header->header = HEADER;
  header->size = mimi_state_blob_size (n);
  header->frames = frames;
  header->width = n->width;
  header->upsample = n->upsample;
  header->layers = n->layers;
  header->heads = n->heads;
  header->window = n->window;
  header->first_kernel = n->first_kernel;
  header->residual_kernel = n->residual_kernel;
  header->last_kernel = n->last_kernel;
  header->stages = n->stages;
  for (i = 0; i < n->stages; i++)
    header->ratios[i] = n->ratios[i];
  for (i = 0; i <= n->stages; i++)
    header->channels[i] = n->channels[i];
}

void
mimi_state_blob_write_header (
    gpointer blob, const MimiNetwork *network, guint64 frames)
{
  Header header;

  describe (&header, network, frames);
  memset (blob, 0, HEADER);
  memcpy (blob, &header, sizeof header);
}

gfloat *
mimi_state_blob_get_values (gpointer blob)
{
  return (gfloat *)((guint8 *)blob + HEADER);
}

gboolean
mimi_state_blob_check (gconstpointer blob, gsize size,
    const MimiNetwork *network, guint64 *frames, GError **error)
{
  Header have, want;
  gsize i, n;

  describe (&want, network, 0);
  memset (&have, 0, sizeof have);
  memcpy (&have, blob, MIN (size, sizeof have));
  if (size < HEADER || memcmp (have.magic, MAGIC, sizeof have.magic)) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "these %" G_GSIZE_FORMAT
        " bytes are not a saved stream: it begins with " MAGIC,
        size);
    return FALSE;
  }
  if (have.version != VERSION || have.header != HEADER) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "the saved stream has version %u and this is version %u: start a new "
        "utterance, or restore it with the version that saved it",
        have.version, VERSION);
    return FALSE;
  }
  *frames = have.frames;
  have.frames = 0;
  if (memcmp (&have, &want, sizeof have)) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "the saved stream is another network's (%u layers of width %u, window "
        "%u, %u channels; this one has %u of %u, %u, %u): open the model that "
        "it was saved with",
        have.layers, have.width, have.window, have.channels[0], want.layers,
        want.width, want.window, want.channels[0]);
    return FALSE;
  }
  if (size != want.size) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "the saved stream has %" G_GSIZE_FORMAT
        " bytes and should have %" G_GUINT64_FORMAT ": it was cut",
        size, want.size);
    return FALSE;
  }
  n = (size - HEADER) / sizeof (gfloat);
  for (i = 0; i < n; i++) {
    gfloat x;

    memcpy (&x, (const guint8 *)blob + HEADER + i * sizeof x, sizeof x);
    if (!isfinite (x)) {
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
          "value %" G_GSIZE_FORMAT
          " of the saved stream is not finite: it was damaged",
          i);
      return FALSE;
    }
  }
  return TRUE;
}
