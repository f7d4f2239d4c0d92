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

/* Zeroed memory at a multiple of 64 bytes. calloc(): pages that nobody touches
 * are never there, and a slot has many that only a trace uses. */
static gboolean
open_small (MimiCpuArena *arena, gsize size)
{
  arena->memory = calloc (1, size + 64);
  if (arena->memory == NULL)
    return FALSE;
  arena->base = (gfloat *)(((guintptr)arena->memory + 63) & ~(guintptr)63);
  return TRUE;
}

/* The same with fewer address translations while weights stream by. */
static gboolean
open_huge (MimiCpuArena *arena, gsize size)
{
  size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  if (posix_memalign (&arena->memory, HUGE_PAGE, size) != 0)
    return FALSE;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  /* Advice only: a kernel without huge pages refuses, and that does not
   * matter. */
  (void)madvise (arena->memory, size, MADV_HUGEPAGE);
#endif
  memset (arena->memory, 0, size);
  arena->base = arena->memory;
  return TRUE;
}

gboolean
mimi_cpu_arena_open (
    MimiCpuArena *arena, gboolean huge_pages, const gchar *what, GError **error)
{
  gsize size = arena->used * sizeof (gfloat);

  if (!(huge_pages && size >= HUGE_PAGE ? open_huge (arena, size)
                                        : open_small (arena, size))) {
    arena->memory = NULL;
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY,
        "no memory for %s: %" G_GSIZE_FORMAT " bytes were needed", what, size);
    return FALSE;
  }
  arena->used = 0;
  return TRUE;
}

void
mimi_cpu_arena_close (MimiCpuArena *arena)
{
  free (arena->memory);
  arena->memory = NULL;
  arena->base = NULL;
}
