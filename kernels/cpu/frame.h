/* A frame on its way: what its steps share.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A step is called by every thread of a team and does its share; steps wait
 * for each other where one reads what another thread wrote.
 */
#pragma once

#include "kernels.h"
#include "simd.h"

typedef struct {
  MimiCpuSlot *slot;
  const MimiCpu *cpu;
  const MimiNetwork *net;
  MimiCpuState *state;
  MimiCpuScratch *scratch;
  MimiCpuShare share;
} MimiCpuFrame;

static inline void
mimi_cpu_wait (const MimiCpuFrame *f)
{
  if (f->share.threads > 1)
    mimi_cpu_team_wait (f->slot->team);
}

static inline void
mimi_cpu_copy (gfloat *to, const gfloat *from, gsize n)
{
  memcpy (to, from, n * sizeof (gfloat));
}

/* Notes that a sum of mimi_cpu_check() and the like is not 0. */
static inline void
mimi_cpu_judge (const MimiCpuFrame *f, gfloat bad)
{
  if (!(bad == 0))
    g_atomic_int_set (&f->slot->bad, TRUE);
}

#define mimi_cpu_trace MIMI_CPU_NAME (mimi_cpu_trace)
/* Shows x, [time][channel], to the trace function: NAME, or NAME NUMBER SUFFIX
 * if number is not negative. */
void mimi_cpu_trace (const MimiCpuFrame *f, const gchar *name, gint number,
    const gchar *suffix, const gfloat *x, guint times, guint channels);

#define mimi_cpu_trace16 MIMI_CPU_NAME (mimi_cpu_trace16)
/* The same for x of [channel][16]. */
void mimi_cpu_trace16 (const MimiCpuFrame *f, const gchar *name, gint number,
    const gchar *suffix, const gfloat *x, guint channels);

/* memory.c: before and after a frame, by one thread. */
#define mimi_cpu_recall MIMI_CPU_NAME (mimi_cpu_recall)
void mimi_cpu_recall (const MimiCpuFrame *f);
#define mimi_cpu_remember MIMI_CPU_NAME (mimi_cpu_remember)
void mimi_cpu_remember (const MimiCpuFrame *f);

/* layers.c, time-major: from scratch->quantized to ELU of the first
 * convolution in scratch->up[0]. */
#define mimi_cpu_layers MIMI_CPU_NAME (mimi_cpu_layers)
void mimi_cpu_layers (const MimiCpuFrame *f);

/* layers16.c, [channel][16]: the same, and on through the first transposed
 * convolution, to scratch->res[0] and res_raw[0]. */
#define mimi_cpu_layers16 MIMI_CPU_NAME (mimi_cpu_layers16)
void mimi_cpu_layers16 (const MimiCpuFrame *f);

/* seanet.c: from there to PCM. */
#define mimi_cpu_stages MIMI_CPU_NAME (mimi_cpu_stages)
void mimi_cpu_stages (const MimiCpuFrame *f);
