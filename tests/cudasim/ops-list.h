/* The numbers and the table of all instructions
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "sim.h"

enum {
#define OP1(name, ...) OP_##name,
#define OP2(name, ...) OP_##name,
#define OP3(name, ...) OP_##name,
#include "ops.h"
#define OPX(name, ...) OP_##name,
#include "ops-special.h"
  SIM_N_OPS
};

typedef struct {
  const gchar *name;
  guint8 kind;
  guint8 n;        /* operands besides the result; 0: special */
  guint8 width[4]; /* bytes of a lane: result, operands */
  gboolean is_pred;
} SimOp;

extern const SimOp sim_ops[SIM_N_OPS];
/* By the opcode with '.' as '_'; -1 if there is none. */
gint sim_op_find (const gchar *name);
