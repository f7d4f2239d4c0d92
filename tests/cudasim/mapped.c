/* What kernels read and write of mapped host memory: it crosses the bus
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The lanes of one instruction share what they ask for, so a byte counts once
 * however many of them want it; another instruction that wants it again, of
 * any block, counts again, and is counted as such. A cache may spare the second
 * crossing; a program should not need it to.
 */
#include "sim.h"

#include <string.h>

#define THIS 1 /* by this instruction */
#define READ 2 /* by this launch */
#define WRITTEN 4

/* The bytes of an allocation that the launch touched. */
static guint8 *
bytes_of (SimAllocation *a, const SimLaunch *launch)
{
  if (!a->crossed)
    a->crossed = g_malloc (a->size);
  else if (a->crossed_in == launch->serial)
    return a->crossed;
  memset (a->crossed, 0, a->size);
  a->crossed_in = launch->serial;
  return a->crossed;
}

void
sim_count_mapped (
    SimWarp *w, const guint64 *addresses, guint size, gboolean write)
{
  SimCounts *c = &w->launch->kernel->counts;
  guint8 bit = write ? WRITTEN : READ;
  guint64 n = 0, again = 0;
  SimAllocation *a = NULL;

  for (guint l = 0; l < SIM_LANES; l++) {
    guint64 at;
    guint8 *byte;

    if (!(w->mask >> l & 1))
      continue;
    if (!a || addresses[l] - a->address >= a->size)
      a = sim_find (addresses[l]);
    if (!a || !a->is_host)
      continue;
    at = addresses[l] - a->address;
    byte = bytes_of (a, w->launch) + at;
    for (guint i = 0; i < MIN (size, a->size - at); i++) {
      n += !(byte[i] & THIS);
      again += !(byte[i] & THIS) && byte[i] & bit;
      byte[i] |= THIS;
    }
  }
  if (!n)
    return;
  for (guint l = 0; l < SIM_LANES; l++)
    if (w->mask >> l & 1 && (a = sim_find (addresses[l])) && a->is_host) {
      guint64 at = addresses[l] - a->address;

      for (guint i = 0; i < MIN (size, a->size - at); i++)
        a->crossed[at + i] = (guint8)((a->crossed[at + i] & ~THIS) | bit);
    }
  if (write)
    c->mapped_written += n;
  else
    c->mapped_read += n;
  c->mapped_again += again;
  if (write)
    sim_stats.mapped_written += n;
  else
    sim_stats.mapped_read += n;
  sim_stats.mapped_again += again;
}
