/* Values that go from lane to lane
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "exec.h"

static u32
first (SimWarp *w, gint32 code)
{
  return ((const u32 *)sim_row (w, code))[__builtin_ctz (w->mask)];
}

/* All lanes that the mask names have to arrive, with the same mask. */
static gboolean
members (SimWarp *w, const SimIns *i, gint32 code)
{
  const u32 *m = sim_row (w, code);
  u32 mask = first (w, code);
  if (!sim_gather (w, i, mask))
    return FALSE;
  LANES
  {
    if (sim_on (w, l) && !(m[l] >> l & 1)) {
      sim_fault (w, i, (gint)l, 0, CUDA_ERROR_LAUNCH_FAILED,
          "the lane is not in its own member mask %08x", m[l]);
      return FALSE;
    }
  }
  return TRUE;
}

void
DO (shfl) (SimWarp *w, const SimIns *i)
{
  guint at = i->x_out;
  const u32 *a = sim_row (w, i->x[at]), *b = sim_row (w, i->x[at + 1]);
  const u32 *c = sim_row (w, i->x[at + 2]);
  u32 value[SIM_LANES] __attribute__ ((aligned (64)));
  u32 valid[SIM_LANES];

  if (!members (w, i, i->x[at + 3]))
    return;
  if (i->sub == 2 && i->x[at + 1] & 1 && i->x[at + 2] & 1 && IS_FULL (w) &&
      c[0] == 31) {
    u32 flip = b[0] & 31;
    LANES value[l] = a[l ^ flip];
    memset (valid, 255, sizeof valid);
  } else {
    LANES
    {
      u32 clamp = c[l] & 31, segment = c[l] >> 8 & 31, lane = b[l] & 31;
      u32 low = l & segment, high = low | (clamp & ~segment);
      s32 from;
      gboolean ok;
      switch (i->sub) {
        case 0:
          from = (s32)l - (s32)lane;
          ok = from >= (s32)high;
          break;
        case 1:
          from = (s32)(l + lane);
          ok = from <= (s32)high;
          break;
        case 2:
          from = (s32)(l ^ lane);
          ok = from <= (s32)high;
          break;
        default:
          from = (s32)(low | (lane & ~segment));
          ok = from <= (s32)high;
      }
      if (!ok)
        from = (s32)l;
      value[l] = a[from & 31];
      valid[l] = ok ? ~0u : 0;
      if (sim_on (w, l) && !(w->mask >> (from & 31) & 1)) {
        sim_fault (w, i, (gint)l, 0, CUDA_ERROR_LAUNCH_FAILED,
            "shuffle reads lane %d, which does not take part", from);
        return;
      }
    }
  }
  sim_put32 (w, i->o[0], value);
  if (i->x_out)
    sim_put32 (w, i->x[0], valid);
}

void
DO (vote) (SimWarp *w, const SimIns *i)
{
  if (!members (w, i, i->o[2]))
    return;
  u32 bits = sim_bits_of (sim_row (w, i->o[1])) & w->mask;
  u32 result = bits, value[SIM_LANES];
  switch (i->sub) {
    case 1:
      result = bits == w->mask ? ~0u : 0;
      break;
    case 2:
      result = bits ? ~0u : 0;
      break;
    case 3:
      result = bits == w->mask || !bits ? ~0u : 0;
      break;
  }
  LANES value[l] = result;
  sim_put32 (w, i->o[0], value);
}

void
DO (match) (SimWarp *w, const SimIns *i)
{
  if (!members (w, i, i->o[2]))
    return;
  u32 value[SIM_LANES];
  LANES
  {
    value[l] = 0;
    for (guint k = 0; k < SIM_LANES; k++) {
      gboolean same = i->size == 8 ? ((const u64 *)sim_row (w, i->o[1]))[l] ==
                                         ((const u64 *)sim_row (w, i->o[1]))[k]
                                   : ((const u32 *)sim_row (w, i->o[1]))[l] ==
                                         ((const u32 *)sim_row (w, i->o[1]))[k];
      if (same && sim_on (w, k))
        value[l] |= 1u << k;
    }
  }
  sim_put32 (w, i->o[0], value);
}

void
DO (redux) (SimWarp *w, const SimIns *i)
{
  if (!members (w, i, i->o[2]))
    return;
  const u32 *a = sim_row (w, i->o[1]);
  u32 r = first (w, i->o[1]), value[SIM_LANES];
  gboolean begun = FALSE;
  LANES
  {
    if (!sim_on (w, l))
      continue;
    if (!begun) {
      begun = TRUE;
      continue;
    }
    switch (i->sub) {
      case 0:
        r += a[l];
        break;
      case 1:
        r = i->wide ? (u32)MIN ((s32)r, (s32)a[l]) : MIN (r, a[l]);
        break;
      case 2:
        r = i->wide ? (u32)MAX ((s32)r, (s32)a[l]) : MAX (r, a[l]);
        break;
      case 3:
        r &= a[l];
        break;
      case 4:
        r |= a[l];
        break;
      default:
        r ^= a[l];
    }
  }
  LANES value[l] = r;
  sim_put32 (w, i->o[0], value);
}

void
DO (activemask) (SimWarp *w, const SimIns *i)
{
  u32 value[SIM_LANES];
  LANES value[l] = w->mask;
  sim_put32 (w, i->o[0], value);
}

void
DO (elect) (SimWarp *w, const SimIns *i)
{
  if (!members (w, i, i->x[1]))
    return;
  u32 leader = (u32)__builtin_ctz (w->mask);
  u32 value[SIM_LANES], is[SIM_LANES];
  LANES
  {
    value[l] = leader;
    is[l] = l == leader ? ~0u : 0;
  }
  sim_put32 (w, i->o[0], value);
  sim_put32 (w, i->x[0], is);
}
