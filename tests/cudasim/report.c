/* Counters for tests, and the report at the end
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "api.h"
#include "cudasim.h"
#include "timing.h"

#include <stdio.h>

static GHashTable *lines; /* of the PTX -> how often */

typedef struct {
  SimCounts counts;
  guint64 executed[SIM_N_KINDS];
  /* What the machine code should be long, by pipe: to compare with what it is.
   */
  guint slots[SIM_N_PIPES];
} Kept;

static GHashTable *kept;   /* name -> Kept, of modules that are gone */
static GPtrArray *modules; /* SimModule, loaded */

static const gchar *const kind_names[SIM_N_KINDS] = { "alu", "fma", "sfu",
  "f64", "control", "move", "load_global", "store_global", "load_shared",
  "store_shared", "remote", "local", "param", "atomic", "async", "shuffle",
  "mma", "barrier", "fence" };
static const gchar *const space_names[] = { "generic", "global", "const",
  "shared", "cluster", "local", "param" };

void
sim_counts_watch (SimModule *module)
{
  if (!modules)
    modules = g_ptr_array_new ();
  g_ptr_array_add (modules, module);
}

static void
add (Kept *to, const SimKernel *k)
{
  guint64 *into = (guint64 *)(void *)&to->counts;
  const guint64 *from = (const guint64 *)(const void *)&k->counts;
  for (gsize i = 0; i < sizeof (SimCounts) / sizeof (guint64); i++)
    into[i] += from[i];
  to->counts.max_chain =
      MAX (to->counts.max_chain - k->counts.max_chain, k->counts.max_chain);
  for (guint i = 0; i < k->n_code; i++)
    to->executed[k->code[i].kind] += k->executed[i];
  memset (to->slots, 0, sizeof to->slots);
  for (guint i = 0; i < k->n_code; i++) {
    SimCost cost = sim_cost (&k->code[i], sim_card ());
    to->slots[cost.pipe] += cost.is_free ? 0 : cost.slots;
  }
}

static Kept *
kept_of (GHashTable *table, const gchar *name)
{
  Kept *v = g_hash_table_lookup (table, name);
  if (!v) {
    v = g_new0 (Kept, 1);
    g_hash_table_insert (table, g_strdup (name), v);
  }
  return v;
}

static void
keep_lines (const SimKernel *k)
{
  if (!lines)
    lines = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  for (guint i = 0; i < k->n_code; i++) {
    gpointer line = GUINT_TO_POINTER (k->code[i].line);
    guint64 *n = g_hash_table_lookup (lines, line);
    if (!n)
      g_hash_table_insert (lines, line, n = g_new0 (guint64, 1));
    *n = MAX (*n, k->executed[i]);
  }
}

/* LINE COUNT, for every line that is an instruction. */
static void
write_lines (void)
{
  FILE *f = fopen (sim_config.lines, "w");
  for (guint m = 0; modules && m < modules->len; m++) {
    SimModule *module = modules->pdata[m];
    for (guint i = 0; i < module->kernels->len; i++)
      keep_lines (module->kernels->pdata[i]);
  }
  GList *keys = lines ? g_hash_table_get_keys (lines) : NULL;
  for (GList *l = keys; f && l; l = l->next)
    fprintf (f, "%u %llu\n", GPOINTER_TO_UINT (l->data),
        *(unsigned long long *)g_hash_table_lookup (lines, l->data));
  g_list_free (keys);
  if (f)
    fclose (f);
}

void
sim_counts_keep (SimModule *module)
{
  for (guint i = 0; sim_config.lines && i < module->kernels->len; i++)
    keep_lines (module->kernels->pdata[i]);
  if (!kept)
    kept = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  for (guint i = 0; i < module->kernels->len; i++) {
    SimKernel *k = module->kernels->pdata[i];
    add (kept_of (kept, k->name), k);
  }
  if (modules)
    g_ptr_array_remove (modules, module);
}

/* All kernels, of modules that are loaded and that were. */
static GHashTable *
collect (void)
{
  GHashTable *all =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  GHashTableIter iter;
  gpointer name, value;
  if (kept) {
    g_hash_table_iter_init (&iter, kept);
    while (g_hash_table_iter_next (&iter, &name, &value))
      g_hash_table_insert (
          all, g_strdup (name), g_memdup2 (value, sizeof (Kept)));
  }
  for (guint m = 0; modules && m < modules->len; m++) {
    SimModule *module = modules->pdata[m];
    for (guint i = 0; i < module->kernels->len; i++) {
      SimKernel *k = module->kernels->pdata[i];
      add (kept_of (all, k->name), k);
    }
  }
  return all;
}

typedef struct {
  guint64 n, bytes, hosts;
} Live;

static void
count_live (SimAllocation *a, gpointer data)
{
  Live *live = data;
  if (a->is_module)
    return;
  if (a->is_host) {
    live->hosts++;
  } else {
    live->n++;
    live->bytes += a->size;
  }
}

CUDASIM_EXPORT void
cudasim_counters (CudasimCounters *c)
{
  Live live = { 0 };
  const SimStats *s = &sim_stats;
  sim_memory_foreach (count_live, &live);
  *c = (CudasimCounters){ s->bytes_up, s->bytes_down, s->bytes_across,
    s->copies_up, s->copies_down, s->copies_across, s->memsets, s->launches,
    s->graph_launches, s->waits, s->allocations, live.n, live.bytes, live.hosts,
    s->faults, s->races, s->uninitialised, s->early_reads, s->leaks,
    s->mapped_read, s->mapped_written, s->mapped_again };
}

CUDASIM_EXPORT void
cudasim_reset (void)
{
  memset (&sim_stats, 0, sizeof sim_stats);
  g_clear_pointer (&kept, g_hash_table_unref);
  for (guint m = 0; modules && m < modules->len; m++) {
    SimModule *module = modules->pdata[m];
    for (guint i = 0; i < module->kernels->len; i++) {
      SimKernel *k = module->kernels->pdata[i];
      memset (&k->counts, 0, sizeof k->counts);
      memset (k->executed, 0, k->n_code * sizeof *k->executed);
    }
  }
}

CUDASIM_EXPORT int
cudasim_times (unsigned int launch, CudasimTimes *out)
{
  if (launch >= sim_played.n)
    return -1;
  const SimTimes *t = &sim_played.times[launch];
  *out = (CudasimTimes){ t->begin, t->release, t->end, t->early, t->exposed };
  return 0;
}

CUDASIM_EXPORT int
cudasim_kernel (const char *name, CudasimKernel *out)
{
  GHashTable *all = collect ();
  const Kept *v = g_hash_table_lookup (all, name);
  if (v) {
    const SimCounts *c = &v->counts;
    guint64 total = 0;
    for (guint i = 0; i < SIM_N_KINDS; i++)
      total += v->executed[i];
    *out = (CudasimKernel){ c->launches, c->blocks, c->warps, total,
      v->executed[SIM_KIND_FMA], v->executed[SIM_KIND_MMA],
      v->executed[SIM_KIND_LOAD_SHARED], v->executed[SIM_KIND_STORE_SHARED],
      v->executed[SIM_KIND_LOAD_GLOBAL], v->executed[SIM_KIND_STORE_GLOBAL],
      v->executed[SIM_KIND_BARRIER], c->bytes_in[PTX_SPACE_GLOBAL],
      c->bytes_out[PTX_SPACE_GLOBAL], c->sectors, c->conflicts, c->chain,
      c->mapped_read, c->mapped_written, c->mapped_again };
  }
  g_hash_table_unref (all);
  return v ? 0 : -1;
}

static gboolean
set (const char *name, const char *value)
{
  guint64 number = g_ascii_strtoull (value, NULL, 0);
  if (strcmp (name, "cc") == 0)
    return sim_config_capability (value);
  if (strcmp (name, "check") == 0)
    return sim_config_check (value);
  if (strcmp (name, "fail") == 0)
    return sim_config_fail (value);
  if (strcmp (name, "seed") == 0)
    sim_config.seed = number;
  else if (strcmp (name, "count") == 0)
    sim_config.count = number != 0;
  else if (strcmp (name, "races") == 0)
    sim_config.races_fail = strcmp (value, "count") != 0;
  else if (strcmp (name, "mma") == 0)
    sim_config.mma_truncates = strcmp (value, "truncate") == 0;
  else if (strcmp (name, "budget") == 0)
    sim_config.budget = number;
  else if (strcmp (name, "quiet") == 0)
    sim_config.quiet = number != 0;
  else if (strcmp (name, "times") == 0)
    sim_config.times = sim_config.times_left = number;
  else if (strcmp (name, "card") == 0)
    sim_config.card = sim_card_find (value);
  else if (strcmp (name, "memory") == 0)
    sim_config.memory = (gsize)number << 30;
  else
    return FALSE;
  return TRUE;
}

CUDASIM_EXPORT int
cudasim_set (const char *name, const char *value)
{
  sim_config_load ();
  return set (name, value) ? 0 : -1;
}

static void
write_kernel (FILE *f, const gchar *name, const Kept *v)
{
  const SimCounts *c = &v->counts;
#define N(x) (unsigned long long)(x)
  fprintf (f,
      "    \"%s\": {\"launches\": %llu, \"blocks\": %llu, \"warps\": %llu,\n"
      "      \"instructions\": {",
      name, N (c->launches), N (c->blocks), N (c->warps));
  for (guint i = 0; i < SIM_N_KINDS; i++)
    fprintf (
        f, "%s\"%s\": %llu", i ? ", " : "", kind_names[i], N (v->executed[i]));
  fprintf (f, "},\n      \"length\": {");
  for (guint i = 0; i < SIM_N_PIPES; i++)
    fprintf (f, "%s\"%s\": %u", i ? ", " : "", sim_pipe_names[i], v->slots[i]);
  fprintf (f, "},\n      \"bytes_read\": {");
  for (guint i = 1; i < G_N_ELEMENTS (space_names); i++)
    fprintf (f, "%s\"%s\": %llu", i > 1 ? ", " : "", space_names[i],
        N (c->bytes_in[i]));
  fprintf (f, "},\n      \"bytes_written\": {");
  for (guint i = 1; i < G_N_ELEMENTS (space_names); i++)
    fprintf (f, "%s\"%s\": %llu", i > 1 ? ", " : "", space_names[i],
        N (c->bytes_out[i]));
  fprintf (f,
      "},\n      \"requests\": %llu, \"sectors\": %llu, "
      "\"bank_conflicts\": %llu,\n      \"mapped_read\": %llu, "
      "\"mapped_written\": %llu, \"mapped_again\": %llu,\n"
      "      \"lane_slots\": %llu, \"lanes\": %llu, "
      "\"chain\": %llu, \"max_chain\": %llu,\n      \"early\": "
      "{\"instructions\": %llu, \"sectors\": %llu, \"chain\": %llu}}",
      N (c->requests), N (c->sectors), N (c->conflicts), N (c->mapped_read),
      N (c->mapped_written), N (c->mapped_again), N (c->lane_slots),
      N (c->lanes), N (c->chain), N (c->max_chain), N (c->early_runs),
      N (c->early_sectors), N (c->early_chain));
}

CUDASIM_EXPORT int
cudasim_report (const char *path)
{
  FILE *f = fopen (path, "w");
  if (!f)
    return -1;
  CudasimCounters c;
  cudasim_counters (&c);
  fprintf (f,
      "{\n  \"capability\": %u, \"seed\": %llu,\n"
      "  \"copies_up\": %llu, \"bytes_up\": %llu,\n"
      "  \"copies_down\": %llu, \"bytes_down\": %llu,\n"
      "  \"copies_across\": %llu, \"bytes_across\": %llu, \"memsets\": %llu,\n"
      "  \"launches\": %llu, \"graph_launches\": %llu, \"waits\": %llu,\n"
      "  \"allocations\": %llu, \"live_allocations\": %llu, "
      "\"live_bytes\": %llu,\n"
      "  \"faults\": %llu, \"races\": %llu, \"uninitialised\": %llu, "
      "\"early_reads\": %llu, \"leaks\": %llu,\n"
      "  \"mapped_read\": %llu, \"mapped_written\": %llu, "
      "\"mapped_again\": %llu,\n  \"kernels\": {\n",
      sim_config.capability, N (sim_config.seed), N (c.copies_up),
      N (c.bytes_up), N (c.copies_down), N (c.bytes_down), N (c.copies_across),
      N (c.bytes_across), N (c.memsets), N (c.launches), N (c.graph_launches),
      N (c.waits), N (c.allocations), N (c.live_allocations), N (c.live_bytes),
      N (c.faults), N (c.races), N (c.uninitialised), N (c.early_reads),
      N (c.leaks), N (c.mapped_read), N (c.mapped_written), N (c.mapped_again));
  GHashTable *all = collect ();
  GList *names =
      g_list_sort (g_hash_table_get_keys (all), (GCompareFunc)strcmp);
  gboolean first = TRUE;
  for (GList *n = names; n; n = n->next) {
    const Kept *v = g_hash_table_lookup (all, n->data);
    if (!v->counts.launches)
      continue;
    fprintf (f, "%s", first ? "" : ",\n");
    first = FALSE;
    write_kernel (f, n->data, v);
  }
  fprintf (f, "\n  }");
  if (sim_played.n) {
    sim_times_write (f);
  }
  fprintf (f, "\n}\n");
  g_list_free (names);
  g_hash_table_unref (all);
  return fclose (f);
}

__attribute__ ((destructor)) static void
at_exit (void)
{
  if (sim_config.lines)
    write_lines ();
  if (sim_config.report && cudasim_report (sim_config.report) != 0)
    api_log ("%s cannot be written", sim_config.report);
}
