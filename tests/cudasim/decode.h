/* From statements to instructions
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <string.h>

#include "ops-list.h"

/* A function being written out, the kernel or an inlined call. */
typedef struct _Frame Frame;
struct _Frame {
  const PtxFunction *function;
  Frame *caller;
  guint reg_base;
  gint64 *vars;   /* offsets of the function's variables in their spaces */
  gint64 *params; /* of a call: where in local memory they are */
  gint64 *results;
  gint *labels; /* program counter of each, -1 not seen yet */
  gint end;     /* fixup: label of the end of the call */
};

typedef struct {
  guint ins;
  Frame *frame;
  gint label; /* -1: the end of the frame's call */
} Fixup;

typedef struct {
  SimKernel *kernel;
  GArray *code;      /* SimIns */
  GArray *widths;    /* guint8, of each register */
  GArray *constants; /* Constant */
  GHashTable *constant_ids;
  GArray *fixups;
  GPtrArray *frames;
  GArray *ends;           /* gint: pc of the end of each frame, by Frame.end */
  gint special[SIM_N_SR]; /* their registers, -1 */
  gsize local, shared;
  const PtxStatement *at;
  Frame *frame;
  gchar **parts; /* of the opcode, n of them */
  guint n_parts;
  gchar *error;
} Decoder;

typedef struct {
  guint8 width;
  guint64 bits;
} Constant;

void decode_fail (Decoder *d, const gchar *format, ...) G_GNUC_PRINTF (2, 3);
gint32 decode_reg (Decoder *d, gint reg);
gint32 decode_temp (Decoder *d, guint width);
gint32 decode_const (Decoder *d, guint width, guint64 bits);
/* The code of an operand as a source of `width` bytes, or as a result. */
gint32 decode_src (Decoder *d, const PtxOperand *operand, guint width);
/* A predicate: a number that is not 0 is true. */
gint32 decode_pred (Decoder *d, const PtxOperand *operand);
gint32 decode_dst (Decoder *d, const PtxOperand *operand, guint width);
guint decode_width (Decoder *d, const PtxOperand *operand);
SimIns *decode_emit (Decoder *d, gint op);
void decode_emit1 (Decoder *d, gint op, gint32 out, gint32 a);
void decode_emit2 (Decoder *d, gint op, gint32 out, gint32 a, gint32 b);
gint32 *decode_array (Decoder *d, guint n);
gboolean decode_has (Decoder *d, const gchar *part);
/* [base + offset] of a space. Fills o[1], imm, wide, space. */
void decode_address (
    Decoder *d, SimIns *ins, const PtxOperand *operand, PtxSpace space);
gboolean decode_symbol (
    Decoder *d, const PtxOperand *operand, guint64 *value, PtxSpace *space);
const PtxOperand *decode_operand (Decoder *d, guint index);

typedef struct {
  guint size; /* bytes */
  gboolean is_signed, is_float;
} Type;
gboolean decode_type (const gchar *part, Type *type);

/* Each says whether the opcode is its own. */
gboolean decode_memory (Decoder *d, const gchar *base);
gboolean decode_control (Decoder *d, const gchar *base);
gboolean decode_matrix (Decoder *d, const gchar *base);
gboolean decode_register (Decoder *d, const gchar *base);
void decode_call (Decoder *d);
void decode_branch (Decoder *d, gint32 pred, gboolean negate,
    const PtxOperand *label, gboolean uniform);

/* sub of atom */
enum {
  SIM_ATOM_ADD,
  SIM_ATOM_MIN,
  SIM_ATOM_MAX,
  SIM_ATOM_AND,
  SIM_ATOM_OR,
  SIM_ATOM_XOR,
  SIM_ATOM_EXCH,
  SIM_ATOM_CAS,
  SIM_ATOM_INC,
  SIM_ATOM_DEC
};
