/* From the network's samples to the caller's.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "backend.h"

#include <string.h>

/* Clipped, times 32767, rounded half to even. Adding 1.5 * 2^23 leaves the
 * rounded integer in the low bits of the sum, in plain arithmetic that every
 * compiler turns into vectors. */
static void
write_s16 (gint16 *out, const gfloat *samples)
{
  guint i;

  for (i = 0; i < MIMI_FRAME_SAMPLES; i++) {
    gfloat x = samples[i];
    gint32 bits;

    x = x > 1.0f ? 1.0f : x;
    x = x < -1.0f ? -1.0f : x;
    x = x * 32767.0f + 12582912.0f;
    memcpy (&bits, &x, 4);
    out[i] = (gint16)bits;
  }
}

void
mimi_pcm_write (const MimiStepItem *item, const gfloat *samples)
{
  gfloat faded[MIMI_FRAME_SAMPLES];

  if (item->position < item->fade_in) {
    guint64 left = item->fade_in - item->position;
    guint n = MIN (left, MIMI_FRAME_SAMPLES), i;
    /* as linspace (0, 1, fade_in) has it */
    gdouble step = item->fade_in > 1 ? 1.0 / (item->fade_in - 1) : 0;

    memcpy (faded, samples, sizeof faded);
    for (i = 0; i < n; i++)
      faded[i] *= (gfloat)((item->position + i) * step);
    samples = faded;
  }
  if (item->format == MIMI_PCM_S16)
    write_s16 (item->pcm, samples);
  else
    memcpy (item->pcm, samples, MIMI_FRAME_SAMPLES * sizeof *samples);
}
