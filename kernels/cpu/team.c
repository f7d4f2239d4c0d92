/* A small team of threads that share the work of one frame.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Between two steps of a frame the threads meet at a barrier some forty times
 * a millisecond, so they spin there; only when somebody is late by much (the
 * machine is busy elsewhere) and between two frames do they sleep.
 */
#include <stdatomic.h>

#include "cpu.h"

/* About 20 us before a barrier gives up spinning. */
#define SPINS 4000

struct _MimiCpuTeam {
  guint threads;
  GThread **others; /* threads - 1 */

  GMutex lock;
  GCond wake; /* `turn` or `generation` has changed */
  /* A turn is one call of mimi_cpu_team_run(). */
  atomic_uint turn;
  atomic_bool quit;
  MimiCpuTeamFunc func;
  gpointer data;

  _Alignas(64) atomic_uint arrived;
  _Alignas(64) atomic_uint generation;
};

typedef struct {
  MimiCpuTeam *team;
  guint index;
} Member;

static inline void
relax (void)
{
#if defined(__x86_64__)
  __builtin_ia32_pause ();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Returns when *value is no longer `old`. */
static void
wait_change (MimiCpuTeam *team, atomic_uint *value, guint old)
{
  for (guint i = 0; i < SPINS; i++) {
    if (atomic_load_explicit (value, memory_order_acquire) != old)
      return;
    relax ();
  }
  g_mutex_lock (&team->lock);
  while (atomic_load_explicit (value, memory_order_acquire) == old)
    g_cond_wait (&team->wake, &team->lock);
  g_mutex_unlock (&team->lock);
}

static void
change (MimiCpuTeam *team, atomic_uint *value)
{
  /* under the lock, so that nobody falls asleep in between */
  g_mutex_lock (&team->lock);
  atomic_fetch_add_explicit (value, 1, memory_order_release);
  g_cond_broadcast (&team->wake);
  g_mutex_unlock (&team->lock);
}

void
mimi_cpu_team_wait (MimiCpuTeam *team)
{
  guint generation =
      atomic_load_explicit (&team->generation, memory_order_acquire);

  if (atomic_fetch_add_explicit (&team->arrived, 1, memory_order_acq_rel) + 1 ==
      team->threads) {
    atomic_store_explicit (&team->arrived, 0, memory_order_relaxed);
    change (team, &team->generation);
  } else {
    wait_change (team, &team->generation, generation);
  }
}

static gpointer
work (gpointer data)
{
  Member member = *(Member *)data;
  MimiCpuTeam *team = member.team;
  guint turn = 0;

  g_free (data);
  for (;;) {
    wait_change (team, &team->turn, turn++);
    if (atomic_load_explicit (&team->quit, memory_order_acquire))
      return NULL;
    team->func (team->data, member.index);
    mimi_cpu_team_wait (team);
  }
}

void
mimi_cpu_team_run (MimiCpuTeam *team, MimiCpuTeamFunc func, gpointer data)
{
  team->func = func;
  team->data = data;
  change (team, &team->turn);
  func (data, 0);
  mimi_cpu_team_wait (team);
}

void
mimi_cpu_team_free (MimiCpuTeam *team)
{
  if (team == NULL)
    return;
  atomic_store (&team->quit, TRUE);
  change (team, &team->turn);
  for (guint i = 0; i + 1 < team->threads; i++)
    if (team->others[i])
      g_thread_join (team->others[i]);
  g_free (team->others);
  g_mutex_clear (&team->lock);
  g_cond_clear (&team->wake);
  g_aligned_free (team);
}

MimiCpuTeam *
mimi_cpu_team_new (guint threads, GError **error)
{
  GError *reason = NULL;
  MimiCpuTeam *team = g_aligned_alloc0 (1, sizeof (MimiCpuTeam), 64);

  team->threads = threads;
  team->others = g_new0 (GThread *, threads);
  g_mutex_init (&team->lock);
  g_cond_init (&team->wake);
  for (guint i = 0; i + 1 < threads; i++) {
    Member *member = g_new (Member, 1);

    *member = (Member){ team, i + 1 };
    team->others[i] = g_thread_try_new ("mimi-cpu", work, member, &reason);
    if (team->others[i] == NULL) {
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY,
          "cannot start %u CPU threads for a stream: %s; ask for fewer",
          threads, reason->message);
      g_error_free (reason);
      g_free (member);
      mimi_cpu_team_free (team);
      return NULL;
    }
  }
  return team;
}
