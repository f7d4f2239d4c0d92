/* The grammar of PTX
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "ptx.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  PtxLexer lex;
  PtxModule *module;
  PtxFunction *function;
  guint scope;
  /* For each open scope a table from name to 1 + index, registers as they are
   * and variables with the top bit set. */
  GPtrArray *names;
  GHashTable *label_ids; /* "scope name" -> 1 + index */
} Parser;

#define IS_VAR 0x40000000u

static gboolean
word_is (const gchar *word, const gchar *what)
{
  return word && strcmp (word, what) == 0;
}

static void
name_add (Parser *p, const gchar *name, guint index)
{
  GHashTable *table = g_ptr_array_index (p->names, p->names->len - 1);
  g_hash_table_insert (table, (gpointer)name, GUINT_TO_POINTER (index + 1));
}

static guint
name_find (Parser *p, const gchar *name)
{
  for (guint i = p->names->len; i-- > 0;) {
    gpointer found =
        g_hash_table_lookup (g_ptr_array_index (p->names, i), name);
    if (found)
      return GPOINTER_TO_UINT (found);
  }
  return 0;
}

static void
scope_open (Parser *p)
{
  guint parent = p->scope;
  p->scope = p->function->scopes->len;
  g_array_append_val (p->function->scopes, parent);
  g_ptr_array_add (p->names, g_hash_table_new (g_str_hash, g_str_equal));
}

static void
scope_close (Parser *p)
{
  p->scope = g_array_index (p->function->scopes, guint, p->scope);
  g_ptr_array_remove_index (p->names, p->names->len - 1);
}

static void
add_reg (Parser *p, const gchar *name, guint size)
{
  PtxReg reg = { (gchar *)name, size > 4 ? 8 : 4 };
  name_add (p, name, p->function->regs->len);
  g_array_append_val (p->function->regs, reg);
}

/* .reg .type a, b, %r<100>; */
static void
parse_regs (Parser *p)
{
  gchar *type = ptx_word (&p->lex, TRUE);
  guint size = type ? ptx_type_size (type) : 0;
  if (!size) {
    ptx_fail (&p->lex, "registers of type %s", type ? type : "?");
    return;
  }
  do {
    gchar *name = ptx_word (&p->lex, FALSE);
    gint64 n;
    PtxKind kind;
    if (!name) {
      ptx_fail (&p->lex, "name of a register expected");
      return;
    }
    if (ptx_accept (&p->lex, '<')) {
      if (!ptx_number (&p->lex, &kind, &n) || n < 0 || n > 1000000) {
        ptx_fail (&p->lex, "number of registers not understood");
        return;
      }
      ptx_expect (&p->lex, '>');
      for (gint64 i = 0; i < n; i++) {
        gchar full[128];
        g_snprintf (full, sizeof full, "%s%" G_GINT64_FORMAT, name, i);
        add_reg (p, g_string_chunk_insert (p->lex.strings, full), size);
      }
    } else {
      add_reg (p, name, size);
    }
  } while (ptx_accept (&p->lex, ','));
  ptx_expect (&p->lex, ';');
}

static void parse_operand (Parser *p, PtxOperand *operand);

static void
parse_list (Parser *p, PtxOperand *operand, gchar end)
{
  GArray *items = g_array_new (FALSE, TRUE, sizeof (PtxOperand));
  if (ptx_peek (&p->lex) != end)
    do {
      PtxOperand item;
      parse_operand (p, &item);
      g_array_append_val (items, item);
    } while (!p->lex.error && ptx_accept (&p->lex, ','));
  ptx_expect (&p->lex, end);
  operand->kind = PTX_LIST;
  operand->n_items = items->len;
  operand->items = (PtxOperand *)(void *)g_array_free (items, FALSE);
}

static void
parse_name (Parser *p, PtxOperand *operand)
{
  operand->name = ptx_word (&p->lex, TRUE);
  if (!operand->name) {
    ptx_fail (&p->lex, "operand not understood: \"%.20s\"", p->lex.at);
    return;
  }
  if (strcmp (operand->name, "_") == 0) {
    operand->kind = PTX_SINK;
    return;
  }
  operand->kind = PTX_NAME;
  guint found = name_find (p, operand->name);
  if (found && (found - 1) & IS_VAR) {
    operand->var = (gint)((found - 1) & ~IS_VAR);
  } else if (found) {
    operand->kind = PTX_REG;
    operand->reg = (gint)found - 1;
    if (ptx_accept (&p->lex, '|')) {
      gchar *second = ptx_word (&p->lex, FALSE);
      found = second ? name_find (p, second) : 0;
      if (!found && !word_is (second, "_"))
        ptx_fail (&p->lex, "register expected after '|'");
      operand->pair = (gint)found - 1;
    }
  }
}

static void
parse_operand (Parser *p, PtxOperand *operand)
{
  PtxKind kind;
  gint64 bits;

  memset (operand, 0, sizeof *operand);
  operand->reg = operand->pair = operand->var = -1;
  if (ptx_accept (&p->lex, '{')) {
    parse_list (p, operand, '}');
  } else if (ptx_accept (&p->lex, '(')) {
    parse_list (p, operand, ')');
  } else if (ptx_accept (&p->lex, '[')) {
    PtxOperand inner;
    parse_operand (p, &inner);
    if (ptx_peek (&p->lex) == ',') { /* [tensor, {coordinates}] */
      ptx_fail (&p->lex, "address with several parts");
      return;
    }
    ptx_expect (&p->lex, ']');
    *operand = inner;
    operand->kind = PTX_ADDR;
  } else if (ptx_accept (&p->lex, '!')) {
    parse_name (p, operand);
    operand->negate = TRUE;
  } else if (ptx_number (&p->lex, &kind, &bits)) {
    operand->kind = kind;
    operand->bits = bits;
  } else {
    parse_name (p, operand);
  }
  if (operand->kind != PTX_LIST && ptx_peek (&p->lex) == '+') {
    ptx_accept (&p->lex, '+');
    if (ptx_number (&p->lex, &kind, &bits))
      operand->bits += bits;
    else
      ptx_fail (&p->lex, "offset expected after '+'");
  }
}

static guint
label_id (Parser *p, const gchar *name)
{
  gchar *key = g_strdup_printf ("%u %s", p->scope, name);
  guint id = GPOINTER_TO_UINT (g_hash_table_lookup (p->label_ids, key));
  if (id) {
    g_free (key);
    return id - 1;
  }
  PtxLabel label = { (gchar *)name, p->scope };
  g_array_append_val (p->function->labels, label);
  g_hash_table_insert (
      p->label_ids, key, GUINT_TO_POINTER (p->function->labels->len));
  return p->function->labels->len - 1;
}

static void
skip_line (Parser *p)
{
  while (*p->lex.at && *p->lex.at != '\n')
    p->lex.at++;
}

static void
skip_statement (Parser *p)
{
  while (*p->lex.at && *p->lex.at != ';') {
    p->lex.line += *p->lex.at == '\n';
    p->lex.at++;
  }
  ptx_accept (&p->lex, ';');
}

static gboolean
space_of (const gchar *word, PtxSpace *space)
{
  static const struct {
    const gchar *name;
    PtxSpace space;
  } spaces[] = { { ".global", PTX_SPACE_GLOBAL }, { ".const", PTX_SPACE_CONST },
    { ".shared", PTX_SPACE_SHARED }, { ".local", PTX_SPACE_LOCAL },
    { ".param", PTX_SPACE_PARAM } };
  for (guint i = 0; i < G_N_ELEMENTS (spaces); i++)
    if (word_is (word, spaces[i].name)) {
      *space = spaces[i].space;
      return TRUE;
    }
  return FALSE;
}

static void
parse_directive (Parser *p, const gchar *word)
{
  PtxSpace space;
  if (word_is (word, ".reg")) {
    parse_regs (p);
  } else if (word_is (word, ".loc") || word_is (word, ".file")) {
    skip_line (p);
  } else if (word_is (word, ".pragma")) {
    skip_statement (p);
  } else if (space_of (word, &space)) {
    do {
      PtxVar *var = ptx_var_parse (&p->lex, space);
      if (!var)
        return;
      name_add (p, var->name, p->function->vars->len | IS_VAR);
      g_ptr_array_add (p->function->vars, var);
    } while (ptx_accept (&p->lex, ','));
    ptx_expect (&p->lex, ';');
  } else {
    ptx_fail (&p->lex, "directive %s not understood", word);
  }
}

static void
parse_body (Parser *p)
{
  guint depth = 1;
  scope_open (p);
  while (depth && !p->lex.error) {
    gchar c = ptx_peek (&p->lex);
    if (!c) {
      ptx_fail (&p->lex, "the text ends inside %s", p->function->name);
    } else if (c == '{') {
      p->lex.at++;
      scope_open (p);
      depth++;
    } else if (c == '}') {
      p->lex.at++;
      scope_close (p);
      depth--;
    } else if (c == ';') {
      p->lex.at++;
    } else if (c == '.') {
      parse_directive (p, ptx_word (&p->lex, TRUE));
    } else {
      PtxStatement s = { p->lex.line, -1, -1, FALSE, NULL, NULL, 0, p->scope };
      if (ptx_accept (&p->lex, '@')) {
        s.guard_not = ptx_accept (&p->lex, '!');
        gchar *name = ptx_word (&p->lex, FALSE);
        s.guard = name ? (gint)name_find (p, name) - 1 : -1;
        if (s.guard < 0)
          ptx_fail (&p->lex, "guard %s not understood", name ? name : "?");
      }
      s.op = ptx_word (&p->lex, TRUE);
      if (!s.op) {
        ptx_fail (&p->lex, "statement not understood: \"%.20s\"", p->lex.at);
        return;
      }
      if (s.guard < 0 && ptx_peek (&p->lex) == ':') {
        p->lex.at++;
        s.label = (gint)label_id (p, s.op);
        s.op = NULL;
      } else {
        GArray *operands = g_array_new (FALSE, TRUE, sizeof (PtxOperand));
        if (ptx_peek (&p->lex) != ';')
          do {
            PtxOperand operand;
            parse_operand (p, &operand);
            g_array_append_val (operands, operand);
          } while (!p->lex.error && ptx_accept (&p->lex, ','));
        ptx_expect (&p->lex, ';');
        s.n_operands = operands->len;
        s.operands = (PtxOperand *)(void *)g_array_free (operands, FALSE);
      }
      g_array_append_val (p->function->body, s);
    }
  }
}

static void
parse_params (Parser *p, GPtrArray *into)
{
  gsize offset = 0;
  if (ptx_accept (&p->lex, ')'))
    return;
  do {
    gchar *word = ptx_word (&p->lex, TRUE);
    if (!word_is (word, ".param")) {
      ptx_fail (&p->lex, "parameters in %s", word ? word : "?");
      return;
    }
    PtxVar *var = ptx_var_parse (&p->lex, PTX_SPACE_PARAM);
    if (!var)
      return;
    offset = (offset + var->align - 1) / var->align * var->align;
    var->offset = offset;
    offset += var->size;
    g_ptr_array_add (into, var);
  } while (ptx_accept (&p->lex, ','));
  ptx_expect (&p->lex, ')');
}

static PtxFunction *
function_new (Parser *p)
{
  PtxFunction *f = g_new0 (PtxFunction, 1);
  f->line = p->lex.line;
  f->params = g_ptr_array_new_with_free_func (ptx_var_free);
  f->results = g_ptr_array_new_with_free_func (ptx_var_free);
  f->vars = g_ptr_array_new_with_free_func (ptx_var_free);
  f->regs = g_array_new (FALSE, TRUE, sizeof (PtxReg));
  f->labels = g_array_new (FALSE, TRUE, sizeof (PtxLabel));
  f->scopes = g_array_new (FALSE, TRUE, sizeof (guint));
  f->body = g_array_new (FALSE, TRUE, sizeof (PtxStatement));
  return f;
}

static void
parse_function (Parser *p, gboolean entry)
{
  PtxFunction *f = p->function = function_new (p);
  gint64 bits;
  PtxKind kind;

  f->is_entry = entry;
  g_ptr_array_add (p->module->functions, f);
  p->scope = 0;
  guint none = 0;
  g_array_append_val (f->scopes, none);
  if (ptx_accept (&p->lex, '('))
    parse_params (p, f->results);
  f->name = ptx_word (&p->lex, FALSE);
  if (!f->name) {
    ptx_fail (&p->lex, "name of a function expected");
    return;
  }
  if (ptx_accept (&p->lex, '('))
    parse_params (p, f->params);
  while (!p->lex.error && ptx_peek (&p->lex) == '.') {
    gchar *word = ptx_word (&p->lex, TRUE);
    guint values[3] = { 1, 1, 1 };
    guint n = 0;
    while (n < 3 && ptx_number (&p->lex, &kind, &bits)) {
      values[n++] = (guint)bits;
      if (!ptx_accept (&p->lex, ','))
        break;
    }
    if (word_is (word, ".maxntid") || word_is (word, ".reqntid"))
      f->max_threads = values[0] * values[1] * values[2];
    else if (word_is (word, ".minnctapersm"))
      f->min_blocks = values[0];
    else if (word_is (word, ".reqnctapercluster"))
      memcpy (f->cluster, values, sizeof values);
    else if (word_is (word, ".explicitcluster"))
      f->explicit_cluster = TRUE;
    else if (word_is (word, ".pragma"))
      skip_statement (p);
  }
  if (ptx_accept (&p->lex, ';'))
    return;
  if (!ptx_expect (&p->lex, '{'))
    return;
  f->has_body = TRUE;
  g_hash_table_remove_all (p->label_ids);
  parse_body (p);
}

static void
parse_module (Parser *p)
{
  gboolean is_extern = FALSE;
  while (!p->lex.error && ptx_peek (&p->lex)) {
    PtxSpace space;
    gchar *word = ptx_word (&p->lex, TRUE);
    if (!word || word[0] != '.') {
      ptx_fail (&p->lex, "\"%.20s\" outside a function", p->lex.at);
    } else if (word_is (word, ".version") || word_is (word, ".address_size") ||
               word_is (word, ".file") || word_is (word, ".loc")) {
      skip_line (p);
    } else if (word_is (word, ".target")) {
      gchar *target = ptx_word (&p->lex, FALSE);
      if (target && g_str_has_prefix (target, "sm_"))
        p->module->target = (guint)atoi (target + 3);
      skip_line (p);
    } else if (word_is (word, ".section")) {
      while (*p->lex.at && *p->lex.at != '}')
        p->lex.line += *p->lex.at++ == '\n';
      ptx_accept (&p->lex, '}');
    } else if (word_is (word, ".pragma") || word_is (word, ".alias")) {
      skip_statement (p);
    } else if (word_is (word, ".extern")) {
      is_extern = TRUE;
      continue;
    } else if (word_is (word, ".visible") || word_is (word, ".weak") ||
               word_is (word, ".common")) {
      continue;
    } else if (word_is (word, ".entry") || word_is (word, ".func")) {
      parse_function (p, word[1] == 'e');
    } else if (space_of (word, &space)) {
      do {
        PtxVar *var = ptx_var_parse (&p->lex, space);
        if (!var)
          return;
        var->is_extern = is_extern;
        g_ptr_array_add (p->module->vars, var);
      } while (ptx_accept (&p->lex, ','));
      ptx_expect (&p->lex, ';');
    } else {
      ptx_fail (&p->lex, "directive %s not understood", word);
    }
    is_extern = FALSE;
  }
}

PtxModule *
ptx_parse (const gchar *text, gchar **error)
{
  Parser p = { 0 };
  p.module = g_new0 (PtxModule, 1);
  p.module->strings = g_string_chunk_new (65536);
  p.module->vars = g_ptr_array_new_with_free_func (ptx_var_free);
  p.module->functions = g_ptr_array_new_with_free_func (ptx_function_free);
  p.lex = (PtxLexer){ text, 1, p.module->strings, NULL };
  p.names = g_ptr_array_new_with_free_func ((GDestroyNotify)g_hash_table_unref);
  p.label_ids = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  parse_module (&p);
  g_ptr_array_unref (p.names);
  g_hash_table_unref (p.label_ids);
  if (p.lex.error) {
    *error = p.lex.error;
    ptx_module_free (p.module);
    return NULL;
  }
  return p.module;
}
