/* Finds the PTX in what cuModuleLoadData is given
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A fat binary is a header and entries, each PTX or a cubin for one
 * architecture. Cubins are passed over, as if there were none for this card;
 * of the PTX the newest that the card can run is taken. Plain PTX is text.
 */
#include "sim.h"

#include <string.h>

#define MAGIC 0xba55ed50u
#define WRAPPER 0x466243b1u /* what nvcc puts around it in an object file */

static guint32
u32_at (const guint8 *p)
{
  guint32 v;
  memcpy (&v, p, 4);
  return v;
}

static guint64
u64_at (const guint8 *p)
{
  guint64 v;
  memcpy (&v, p, 8);
  return v;
}

static guint16
u16_at (const guint8 *p)
{
  guint16 v;
  memcpy (&v, p, 2);
  return v;
}

gchar *
sim_fatbin_ptx (
    const void *image, guint capability, CUresult *result, gchar **log)
{
  const guint8 *p = image;
  if (u32_at (p) == WRAPPER) {
    const void *inner;
    memcpy (&inner, p + 8, sizeof inner);
    return sim_fatbin_ptx (inner, capability, result, log);
  }
  if (u32_at (p) != MAGIC) {
    if (memcmp (p, "\177ELF", 4) == 0) {
      *log = g_strdup ("a cubin alone: no PTX to interpret");
      *result = CUDA_ERROR_NO_BINARY_FOR_GPU;
      return NULL;
    }
    if (!strstr (image, ".version")) {
      *log = g_strdup ("neither a fat binary nor PTX");
      *result = CUDA_ERROR_INVALID_IMAGE;
      return NULL;
    }
    return g_strdup (image);
  }
  const guint8 *entry = p + u16_at (p + 6);
  const guint8 *end = entry + u64_at (p + 8);
  const guint8 *best = NULL;
  GString *seen = g_string_new (NULL);
  gboolean compressed = FALSE;
  while (entry + 64 <= end) {
    guint kind = u16_at (entry), header = u32_at (entry + 4);
    guint64 body = u64_at (entry + 8), flags = u64_at (entry + 40);
    guint arch = u32_at (entry + 28);
    if (header < 64 || entry + header + body > end) {
      *log = g_strdup ("the fat binary is damaged");
      *result = CUDA_ERROR_INVALID_IMAGE;
      g_string_free (seen, TRUE);
      return NULL;
    }
    g_string_append_printf (seen, " %s %u", kind == 1 ? "PTX" : "cubin", arch);
    /* Architecture-specific code (sm_90a) runs on that one only. */
    gboolean specific = flags >> 20 & 1;
    if (kind == 1 && (specific ? arch == capability : arch <= capability)) {
      if (u64_at (entry + 56) != 0 || u32_at (entry + 16) != 0)
        compressed = TRUE;
      else if (!best || arch > u32_at (best + 28))
        best = entry;
    }
    entry += header + body;
  }
  gchar *text = NULL;
  if (best) {
    text = g_strndup (
        (const gchar *)best + u32_at (best + 4), (gsize)u64_at (best + 8));
  } else {
    *log =
        g_strdup_printf ("no PTX for capability %u%s; there is:%s", capability,
            compressed ? " that is not compressed (--compress-mode=none)" : "",
            seen->str);
    *result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  g_string_free (seen, TRUE);
  return text;
}
