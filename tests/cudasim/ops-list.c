/* The table of instructions
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "ops-list.h"

#include <string.h>

#define W_f32 4
#define W_u32 4
#define W_s32 4
#define W_pred 4
#define W_f64 8
#define W_u64 8
#define W_s64 8
#define P_f32 FALSE
#define P_u32 FALSE
#define P_s32 FALSE
#define P_f64 FALSE
#define P_u64 FALSE
#define P_s64 FALSE
#define P_pred TRUE

const SimOp sim_ops[SIM_N_OPS] = {
#define OP1(name, kind, D, A, e) \
  { #name, SIM_KIND_##kind, 1, { W_##D, W_##A }, P_##D },
#define OP2(name, kind, D, A, B, e) \
  { #name, SIM_KIND_##kind, 2, { W_##D, W_##A, W_##B }, P_##D },
#define OP3(name, kind, D, A, B, C, e) \
  { #name, SIM_KIND_##kind, 3, { W_##D, W_##A, W_##B, W_##C }, P_##D },
#include "ops.h"
#define OPX(name, kind) { #name, SIM_KIND_##kind, 0, { 0 }, FALSE },
#include "ops-special.h"
};

gint
sim_op_find (const gchar *name)
{
  static GHashTable *table;
  if (!table) {
    table = g_hash_table_new (g_str_hash, g_str_equal);
    for (guint i = 0; i < SIM_N_OPS; i++)
      g_hash_table_insert (
          table, (gpointer)sim_ops[i].name, GUINT_TO_POINTER (i + 1));
  }
  return GPOINTER_TO_INT (g_hash_table_lookup (table, name)) - 1;
}

const SimExec *
sim_exec_table (void)
{
#ifdef __x86_64__
  if (__builtin_cpu_supports ("x86-64-v3"))
    return sim_exec_v3;
#endif
  return sim_exec_v1;
}
