/* Who touched which word when, and whether anything put that in order
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Every warp has a clock, which ticks when it lets others go on: at barriers,
 * fences and releases. It keeps for each other warp the time up to which it
 * has, by such a chain, seen what that warp did (vector clocks): of the warps
 * of its cluster always, of the whole grid once it has met a flag. Every word
 * of shared and global memory has stamps: the last writer and the last two
 * readers, with launch, warp, lane and time. An access whose stamp is neither
 * the thread's own nor seen is a race, whatever order this run happened to
 * take. Atomics and volatile accesses do not race with each other.
 *
 * Between launches everything is in order, except under programmatic
 * dependent launch: then only what is known to be complete may be touched.
 */
#include "sim.h"
#include "ops-list.h"

#include <string.h>

/* Stamps: clock, launch, strong, warp, lane. 0: never; 1: the host; 2: a copy
 * is under way. */
#define LANE_BITS 5
#define AGENT_BITS 23
#define ID_BITS 16
#define STRONG ((guint64)1 << (LANE_BITS + AGENT_BITS))
#define ID_SHIFT (LANE_BITS + AGENT_BITS + 1)
#define CLOCK_SHIFT (ID_SHIFT + ID_BITS)
#define HOST 1
#define PENDING 2
#define THREAD_MASK (((guint64)1 << (LANE_BITS + AGENT_BITS)) - 1)
#define MAX_CLOCK ((1u << (64 - CLOCK_SHIFT)) - 1)

static guint last_id;

static inline guint
id_of (guint64 stamp)
{
  return (guint)(stamp >> ID_SHIFT) & ((1u << ID_BITS) - 1);
}

static inline guint
agent_of (guint64 stamp)
{
  return (guint)(stamp >> LANE_BITS) & ((1u << AGENT_BITS) - 1);
}

static inline guint
clock_of (guint64 stamp)
{
  return (guint)(stamp >> CLOCK_SHIFT);
}

static inline guint64
stamp_now (const SimWarp *w, guint lane, gboolean strong)
{
  return (guint64)MIN (w->clock, MAX_CLOCK) << CLOCK_SHIFT |
         (guint64)w->launch->id << ID_SHIFT | (strong ? STRONG : 0) |
         (guint64)w->agent << LANE_BITS | lane;
}

static void
forget (SimAllocation *a, gpointer data)
{
  (void)data;
  if (!a->shadow)
    return;
  for (gsize i = 0; i < a->size / 4 + 1; i++) {
    if (a->shadow[i].write)
      a->shadow[i].write = HOST;
    a->shadow[i].read = a->shadow[i].other = 0;
  }
}

void
sim_race_launch_begin (SimLaunch *launch)
{
  if (++last_id >= 1u << ID_BITS) { /* numbers start again */
    sim_memory_foreach (forget, NULL);
    last_id = 1;
  }
  launch->id = last_id;
  launch->objects =
      g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, g_free);
}

void
sim_race_launch_end (SimLaunch *launch)
{
  if (launch->objects)
    g_hash_table_unref (launch->objects);
  launch->objects = NULL;
}

void
sim_host_write (guint64 address, gsize size)
{
  SimAllocation *a = sim_find (address);
  if (!a || !a->shadow || !size)
    return;
  gsize first = (address - a->address) / 4;
  gsize last = (address - a->address + size - 1) / 4;
  for (gsize i = first; i <= last; i++) {
    a->shadow[i].write = HOST;
    a->shadow[i].read = a->shadow[i].other = 0;
  }
}

void
sim_race_init (SimWarp *w)
{
  w->clock = 1;
  memset (w->seen, 0, w->block->cluster->n_agents * sizeof (guint32));
  w->near = NULL;
  w->far = w->acquired = w->released = NULL;
}

void
sim_race_clear (SimWarp *w)
{
  g_clear_pointer (&w->far, g_free);
  g_clear_pointer (&w->acquired, g_free);
  g_clear_pointer (&w->released, g_free);
}

void
sim_race_warp (SimWarp *w)
{
  w->clock++;
}

static inline guint
first_agent (const SimWarp *w)
{
  return w->block->cluster->first * w->block->n_warps;
}

static gboolean
ordered (const SimWarp *w, guint lane, guint64 stamp)
{
  guint agent = agent_of (stamp), clock = clock_of (stamp);
  if (agent == w->agent)
    return (stamp & 31) == lane || clock < w->clock;
  guint at = agent - first_agent (w);
  if (at < w->block->cluster->n_agents)
    return w->seen[at] >= clock || (w->far && w->far[agent] >= clock);
  return w->far && w->far[agent] >= clock;
}

/* The launch that made the stamp is known to be complete. */
static gboolean
complete (const SimWarp *w, guint64 stamp)
{
  const SimLaunch *l = w->launch;
  guint id = id_of (stamp);
  if (id == 0 || !l->programmatic)
    return TRUE;
  guint64 age = (l->id - id) & ((1u << ID_BITS) - 1);
  guint64 serial = l->serial - age;
  if (age > l->serial || serial <= l->floor)
    return TRUE;
  return w->at_wait && (serial == l->previous || serial <= l->floor_after);
}

static void
who (const SimWarp *w, guint64 stamp, gchar *text, gsize size)
{
  if (stamp <= PENDING) {
    g_snprintf (text, size, "this block");
    return;
  }
  guint agent = agent_of (stamp), per = w->block->n_warps;
  if (id_of (stamp) == w->launch->id)
    g_snprintf (text, size, "thread %u of block %u",
        agent % per * SIM_LANES + (guint)(stamp & 31), agent / per);
  else
    g_snprintf (text, size, "an earlier kernel");
}

static void
race (SimWarp *w, const SimIns *ins, guint lane, guint64 address,
    const gchar *what, guint64 stamp)
{
  gchar other[64];
  sim_stats.races++;
  who (w, stamp, other, sizeof other);
  gint stop = w->stop;
  CUresult error = w->launch->error;
  sim_fault (w, ins, (gint)lane, address, CUDA_ERROR_LAUNCH_FAILED,
      "race: %s %s, and nothing puts them in order", what, other);
  if (!sim_config.races_fail) {
    w->stop = stop;
    w->launch->error = error;
  }
}

static void
early (SimWarp *w, const SimIns *ins, guint lane, guint64 address,
    const gchar *what)
{
  sim_stats.early_reads++;
  sim_fault (w, ins, (gint)lane, address, CUDA_ERROR_LAUNCH_FAILED,
      "%s a kernel that may still run: griddepcontrol.wait %s", what,
      w->at_wait ? "of that kernel is missing" : "comes later");
}

/* One word. `same`: it already holds what is being written. */
static void
check_word (SimWarp *w, const SimIns *ins, SimShadow *s, guint lane,
    guint64 address, SimAccess access, gboolean same, gboolean is_shared)
{
  gboolean strong = access == SIM_ATOMIC || ins->sem & SIM_SEM_STRONG;
  guint64 write = s->write;

  /* A kernel may load shared memory that it does not use, a row's padding: it
   * is NaN, and seen where it matters. */
  if ((access == SIM_READ || access == SIM_ATOMIC) && write == 0) {
    sim_stats.uninitialised++;
    if (is_shared && !sim_config.shared_init)
      return;
    sim_fault (w, ins, (gint)lane, address, CUDA_ERROR_LAUNCH_FAILED,
        "reads memory that nothing was written to");
    return;
  }
  if (access == SIM_LAND) {
    s->write = stamp_now (w, lane, FALSE);
    return;
  }
  if (write == PENDING) {
    race (w, ins, lane, address,
        access == SIM_READ
            ? "reads what a copy that nobody waited for brings to"
            : "writes where a copy is still under way to",
        write);
    return;
  }
  if (write > PENDING) {
    if (id_of (write) == w->launch->id) {
      if (!(strong && write & STRONG) && !ordered (w, lane, write) && !same)
        race (w, ins, lane, address,
            access == SIM_READ ? "reads what was written by"
                               : "writes what was written by",
            write);
      else if (ins->sem & SIM_SEM_NC)
        race (w, ins, lane, address,
            "ld.global.nc of memory written in the same launch by", write);
    } else if (!complete (w, write)) {
      early (w, ins, lane, address,
          access == SIM_READ ? "reads what was written by"
                             : "writes what was written by");
    }
  }
  if (access != SIM_READ) {
    const guint64 readers[2] = { s->read, s->other };
    for (guint i = 0; i < 2; i++) {
      if (!readers[i])
        continue;
      if (id_of (readers[i]) == w->launch->id) {
        if (!(strong && readers[i] & STRONG) &&
            !ordered (w, lane, readers[i]) && !same)
          race (w, ins, lane, address, "writes what was read by", readers[i]);
      } else if (!complete (w, readers[i])) {
        early (w, ins, lane, address, "writes what was read by");
      }
    }
    s->write = access == SIM_ISSUE ? PENDING : stamp_now (w, lane, strong);
  } else {
    guint64 now = stamp_now (w, lane, strong);
    if ((s->read & THREAD_MASK) != (now & THREAD_MASK) ||
        id_of (s->read) != w->launch->id)
      s->other = s->read;
    s->read = now;
  }
}

void
sim_race_shared (SimWarp *w, const SimIns *ins, SimBlock *owner, guint lane,
    guint32 offset, guint size, SimAccess access, const void *value)
{
  if (!owner->shadow || !w->checked || !owner->checked)
    return;
  offset &= (1u << SIM_RANK_SHIFT) - 1;
  guint first = offset / 4, last = (offset + size - 1) / 4;
  gboolean same = value && memcmp (owner->shared + offset, value, size) == 0;
  for (guint i = first; i <= last; i++)
    check_word (
        w, ins, &owner->shadow[i], lane, 4 * (guint64)i, access, same, TRUE);
}

void
sim_race_global (SimWarp *w, const SimIns *ins, guint lane, guint64 address,
    guint size, SimAccess access, const void *value)
{
  SimAllocation *a = w->near;
  if (!w->checked && access == SIM_READ)
    return;
  if (!a || address - a->address >= a->size)
    a = w->near = sim_find (address);
  if (!a || !a->shadow)
    return;
  gsize first = (address - a->address) / 4;
  gsize last = (address - a->address + size - 1) / 4;
  gboolean same = value && memcmp (sim_host (address), value, size) == 0;
  for (gsize i = first; i <= last; i++)
    check_word (
        w, ins, &a->shadow[i], lane, a->address + 4 * i, access, same, FALSE);
}

/* The block whose shared memory a shared or generic address names, or NULL
 * for global memory; *address becomes an offset. */
static SimBlock *
owner_of (SimWarp *w, PtxSpace space, guint64 *address, gboolean *other)
{
  *other = FALSE;
  if (space == PTX_SPACE_GENERIC) {
    guint64 window = *address >> 40;
    if (window == SIM_SHARED_BASE >> 40)
      *address -= SIM_SHARED_BASE;
    else {
      *other = window < SIM_GLOBAL_BASE >> 40;
      return NULL;
    }
  } else if (space != PTX_SPACE_SHARED && space != PTX_SPACE_CLUSTER) {
    *other = space == PTX_SPACE_LOCAL || space == PTX_SPACE_PARAM;
    return NULL;
  }
  guint rank = (guint)(*address >> SIM_RANK_SHIFT);
  *address &= (1u << SIM_RANK_SHIFT) - 1;
  return rank ? &w->block->cluster->blocks[rank - 1] : w->block;
}

void
sim_race (SimWarp *w, const SimIns *ins, guint lane, guint64 address,
    PtxSpace space, guint size, SimAccess access, const void *value)
{
  gboolean other;
  SimBlock *owner = owner_of (w, space, &address, &other);
  if (owner)
    sim_race_shared (
        w, ins, owner, lane, (guint32)address, size, access, value);
  else if (!other)
    sim_race_global (w, ins, lane, address, size, access, value);
}

/* ---- flags and fences ---- */

static guint32 *
knowledge (SimWarp *w)
{
  guint n = w->launch->n_agents, first = first_agent (w);
  guint32 *all = g_new0 (guint32, n);
  if (w->far)
    memcpy (all, w->far, n * sizeof *all);
  for (guint i = 0; i < w->block->cluster->n_agents; i++)
    all[first + i] = MAX (all[first + i], w->seen[i]);
  all[w->agent] = w->clock;
  return all;
}

static void
join (guint32 **into, const guint32 *from, guint n)
{
  if (!*into)
    *into = g_new0 (guint32, n);
  for (guint i = 0; i < n; i++)
    (*into)[i] = MAX ((*into)[i], from[i]);
}

static void
acquire (SimWarp *w, const guint32 *from)
{
  join (&w->far, from, w->launch->n_agents);
}

void
sim_race_fence (SimWarp *w, const SimIns *ins)
{
  if (ins->sem & SIM_SEM_BLOCK)
    return;
  if (w->acquired) {
    acquire (w, w->acquired);
    g_clear_pointer (&w->acquired, g_free);
  }
  g_free (w->released);
  w->released = knowledge (w);
  w->clock++;
}

void
sim_race_sync (SimWarp *w, const SimIns *ins, guint lane, guint64 address)
{
  guint n = w->launch->n_agents;
  gboolean other;
  SimBlock *owner = owner_of (w, ins->space, &address, &other);
  (void)lane;
  if (ins->sem & SIM_SEM_BLOCK || other || !w->launch->objects)
    return;
  if (owner)
    address |= (guint64)(owner->linear + 1) << 44;
  gint64 key = (gint64)address;
  guint32 *object = g_hash_table_lookup (w->launch->objects, &key);
  if (ins->op != OP_st && object) {
    if (ins->sem & SIM_SEM_ACQUIRE)
      acquire (w, object);
    else
      join (&w->acquired, object, n);
  }
  if (ins->op != OP_ld) {
    guint32 *out = NULL;
    if (ins->sem & SIM_SEM_RELEASE) {
      out = knowledge (w);
      w->clock++;
    } else if (w->released) {
      out = g_memdup2 (w->released, n * sizeof *out);
    }
    if (!out)
      return;
    if (object) {
      join (&object, out, n);
      g_free (out);
    } else {
      g_hash_table_insert (
          w->launch->objects, g_memdup2 (&key, sizeof key), out);
    }
  }
}
