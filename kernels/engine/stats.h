/* How long frames took: a histogram of fixed size.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* 32 buckets an octave: a bucket's middle is within 1.6 % of all its values.
 * 2^40 ns are 18 minutes; longer ones count as that. */
#define MIMI_TIMES_OCTAVES 40
#define MIMI_TIMES_BUCKETS (32 * (MIMI_TIMES_OCTAVES - 4))

/* Written by one thread, read by any; all zero to begin with. */
typedef struct {
  guint64 max_ns;
  guint64 counts[MIMI_TIMES_BUCKETS];
} MimiTimes;

void mimi_times_add (MimiTimes *times, guint64 ns);

/* The least time that a share `quantile` of all took at most, within 1.6 %; 0
 * if there are none. */
guint64 mimi_times_get_quantile (const MimiTimes *times, gdouble quantile);
guint64 mimi_times_get_max (const MimiTimes *times);

G_END_DECLS
