/* Many arrays in one allocation.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "cpu.h"

#define LINE 16             /* floats */
#define HUGE_PAGE (2 << 20) /* bytes */

gfloat *
mimi_cpu_arena_take (MimiCpuArena *arena, gsize n)
{
  gfloat *p = arena->base ? arena->base + arena->used : NULL;

  arena->used += (n + LINE - 1) / LINE * LINE;
  return p;
}

gboolean
mimi_cpu_arena_open (MimiCpuArena *arena, const gchar *what, GError **error)
{
  gsize size = arena->used * sizeof (gfloat);
  gpointer p = NULL;
  gboolean huge = size >= HUGE_PAGE;

  if (huge)
    size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  if (posix_memalign (&p, huge ? HUGE_PAGE : 64, MAX (size, 64)) != 0) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY,
        "no memory for %s: %" G_GSIZE_FORMAT " bytes were needed", what, size);
    return FALSE;
  }
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  /* Fewer address translations while weights stream by. Advice only: a kernel
   * without huge pages refuses, and that does not matter. */
  if (huge)
    (void)madvise (p, size, MADV_HUGEPAGE);
#endif
  memset (p, 0, size);
  arena->base = p;
  arena->used = 0;
  return TRUE;
}

void
mimi_cpu_arena_close (MimiCpuArena *arena)
{
  free (arena->base);
  arena->base = NULL;
}
