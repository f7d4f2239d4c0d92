/* PTX as text becomes a tree: modules, functions, statements, operands
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The parser knows the grammar and nothing of what instructions do: an opcode
 * is a string here. Names are resolved where PTX resolves them, in the scope
 * that they are written in (registers, .local, .shared and call parameters of
 * a function); names of the module are left to the decoder.
 */
#pragma once

#include <glib.h>

typedef enum {
  PTX_SPACE_GENERIC,
  PTX_SPACE_GLOBAL,
  PTX_SPACE_CONST,
  PTX_SPACE_SHARED, /* of this block */
  PTX_SPACE_CLUSTER,
  PTX_SPACE_LOCAL,
  PTX_SPACE_PARAM
} PtxSpace;

/* A variable of a module or of a function, or a parameter. */
typedef struct {
  gchar *name;
  PtxSpace space;
  guint align;
  gsize size;     /* 0: `name[]`, dynamic shared memory */
  guint8 *init;   /* NULL or `size` bytes */
  GArray *relocs; /* NULL or PtxReloc: addresses in the initialiser */
  gboolean is_extern;
  gsize offset;    /* parameters: where in the buffer */
  guint64 address; /* set by the loader */
} PtxVar;

typedef struct {
  gsize at;
  gchar *name;
  gint64 addend;
} PtxReloc;

typedef struct {
  gchar *name;
  guint8 width; /* bytes: 4 (predicates and 8 and 16 bits too) or 8 */
} PtxReg;

typedef enum {
  PTX_REG,  /* reg, with `negate` for !p and `pair` for d|p */
  PTX_INT,  /* bits */
  PTX_F32,  /* bits */
  PTX_F64,  /* bits */
  PTX_NAME, /* a variable, function, label or special register, + offset */
  PTX_ADDR, /* [reg or name + offset] */
  PTX_LIST, /* {a, b} or (a, b) or [a, b] */
  PTX_SINK  /* _ */
} PtxKind;

typedef struct _PtxOperand PtxOperand;
struct _PtxOperand {
  PtxKind kind;
  gboolean negate;
  gint reg;  /* -1: none */
  gint pair; /* -1: none */
  gint var;  /* index of the function's variable, -1: none */
  gchar *name;
  gint64 bits; /* value, or offset */
  PtxOperand *items;
  guint n_items;
};

typedef struct {
  guint line;
  gint label; /* >= 0: the statement is this label */
  gint guard; /* -1, or the register of @p */
  gboolean guard_not;
  gchar *op; /* the whole opcode, "ld.global.v4.f32" */
  PtxOperand *operands;
  guint n_operands;
  guint scope;
} PtxStatement;

typedef struct {
  gchar *name;
  guint scope;
} PtxLabel;

typedef struct {
  gchar *name;
  guint line;
  gboolean is_entry, has_body;
  GPtrArray *params;  /* PtxVar */
  GPtrArray *results; /* PtxVar, of a .func */
  GArray *regs;       /* PtxReg */
  GPtrArray *vars;    /* PtxVar */
  GArray *labels;     /* PtxLabel */
  GArray *scopes;     /* guint, parent of each scope */
  GArray *body;       /* PtxStatement */
  guint max_threads, min_blocks, cluster[3];
  gboolean explicit_cluster;
} PtxFunction;

typedef struct {
  guint target; /* 90 for sm_90 */
  GPtrArray *vars;
  GPtrArray *functions;
  GStringChunk *strings;
} PtxModule;

/* Returns NULL with the reason, and the line it is about, in `error`. */
PtxModule *ptx_parse (const gchar *text, gchar **error);
void ptx_module_free (PtxModule *module);

/* ---- the lexer ---- */

typedef struct {
  const gchar *at;
  guint line;
  GStringChunk *strings;
  gchar *error;
} PtxLexer;

void ptx_skip (PtxLexer *lexer);                /* blanks, comments */
gboolean ptx_accept (PtxLexer *lexer, gchar c); /* skips c if it is next */
gboolean ptx_expect (PtxLexer *lexer, gchar c); /* or sets the error */
gchar ptx_peek (PtxLexer *lexer);
/* Names: letters, digits, _ $ % and ::, with dots if `dots`; NULL if there is
 * none. */
gchar *ptx_word (PtxLexer *lexer, gboolean dots);
gboolean ptx_number (PtxLexer *lexer, PtxKind *kind, gint64 *bits);
void ptx_fail (PtxLexer *lexer, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

/* ---- variables ---- */

guint ptx_type_size (const gchar *type); /* ".f32" is 4; 0: no type */
/* After the space: [.align n] [.ptr ...] .type name[n][m] [= init]. NULL after
 * an error. */
PtxVar *ptx_var_parse (PtxLexer *lexer, PtxSpace space);
void ptx_var_free (gpointer var);
void ptx_function_free (gpointer function);
