/* How long frames took: a histogram of fixed size.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "stats.h"

#include <math.h>

/* One writer: loads and stores have to be whole, not ordered. */
#define LOAD(p) __atomic_load_n ((p), __ATOMIC_RELAXED)
#define STORE(p, v) __atomic_store_n ((p), (v), __ATOMIC_RELAXED)

/* Values below 32 have buckets of their own, then each octave has 32. */
static guint
get_bucket (guint64 ns)
{
  guint shift;

  ns = MIN (ns, (G_GUINT64_CONSTANT (1) << MIMI_TIMES_OCTAVES) - 1);
  if (ns < 32)
    return ns;
  shift = 63 - __builtin_clzll (ns) - 5;
  return 32 * shift + (ns >> shift);
}

static guint64
get_middle (guint bucket)
{
  guint shift = bucket < 64 ? 0 : bucket / 32 - 1;
  guint64 low = (guint64)(bucket - 32 * shift) << shift;

  return low + (((guint64)1 << shift) - 1) / 2;
}

void
mimi_times_add (MimiTimes *times, guint64 ns)
{
  guint64 *count = &times->counts[get_bucket (ns)];

  STORE (count, *count + 1);
  if (ns > times->max_ns)
    STORE (&times->max_ns, ns);
}

guint64
mimi_times_get_quantile (const MimiTimes *times, gdouble quantile)
{
  guint64 total = 0, wanted, seen = 0;
  guint i;

  for (i = 0; i < MIMI_TIMES_BUCKETS; i++)
    total += LOAD (&times->counts[i]);
  wanted = MAX (1, (guint64)ceil (quantile * total));
  for (i = 0; i < MIMI_TIMES_BUCKETS; i++) {
    seen += LOAD (&times->counts[i]);
    if (seen >= wanted)
      return MIN (get_middle (i), LOAD (&times->max_ns));
  }
  return 0;
}

guint64
mimi_times_get_max (const MimiTimes *times)
{
  return LOAD (&times->max_ns);
}
