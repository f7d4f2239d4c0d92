/* Declarations of variables and parameters, with their initial values
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "ptx.h"

#include <string.h>

static gboolean
word_is (const gchar *word, const gchar *what)
{
  return word && strcmp (word, what) == 0;
}

guint
ptx_type_size (const gchar *type)
{
  static const struct {
    const gchar *name;
    guint size;
  } types[] = { { ".pred", 4 }, { ".b8", 1 }, { ".u8", 1 }, { ".s8", 1 },
    { ".b16", 2 }, { ".u16", 2 }, { ".s16", 2 }, { ".f16", 2 }, { ".bf16", 2 },
    { ".b32", 4 }, { ".u32", 4 }, { ".s32", 4 }, { ".f32", 4 }, { ".f16x2", 4 },
    { ".bf16x2", 4 }, { ".b64", 8 }, { ".u64", 8 }, { ".s64", 8 },
    { ".f64", 8 } };
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (strcmp (types[i].name, type) == 0)
      return types[i].size;
  return 0;
}

/* `{1, 2, name+4}`, nested braces flattened. */
static void
parse_init (PtxLexer *lex, PtxVar *var, guint size, gsize *at)
{
  if (ptx_accept (lex, '{')) {
    do
      parse_init (lex, var, size, at);
    while (ptx_accept (lex, ','));
    ptx_expect (lex, '}');
    return;
  }
  PtxKind kind;
  gint64 bits = 0;
  if (*at + size > var->size) {
    ptx_fail (lex, "%s has too many initial values", var->name);
    return;
  }
  if (ptx_number (lex, &kind, &bits)) {
    memcpy (var->init + *at, &bits, size);
  } else {
    PtxReloc reloc = { *at, ptx_word (lex, FALSE), 0 };
    if (word_is (reloc.name, "generic") && ptx_accept (lex, '(')) {
      reloc.name = ptx_word (lex, FALSE);
      ptx_expect (lex, ')');
    }
    if (!reloc.name) {
      ptx_fail (lex, "initial value of %s not understood", var->name);
      return;
    }
    if (ptx_accept (lex, '+'))
      ptx_number (lex, &kind, &reloc.addend);
    if (!var->relocs)
      var->relocs = g_array_new (FALSE, TRUE, sizeof (PtxReloc));
    g_array_append_val (var->relocs, reloc);
  }
  *at += size;
}

/* After the space: [.align n] [.ptr ...] .type name[n][m] [= init]. */
PtxVar *
ptx_var_parse (PtxLexer *lex, PtxSpace space)
{
  PtxVar *var = g_new0 (PtxVar, 1);
  guint size = 0, vector = 1;
  gint64 bits;
  PtxKind kind;
  var->space = space;
  while (ptx_peek (lex) == '.') {
    gchar *word = ptx_word (lex, TRUE);
    if (word_is (word, ".align")) {
      ptx_number (lex, &kind, &bits);
      var->align = (guint)bits;
    } else if (word_is (word, ".v2") || word_is (word, ".v4")) {
      vector = (guint)(word[2] - '0');
    } else if (word_is (word, ".ptr")) {
      /* .ptr .space .align n: a remark about what it points to */
      while (ptx_peek (lex) == '.')
        if (word_is (ptx_word (lex, TRUE), ".align")) {
          ptx_number (lex, &kind, &bits);
          break;
        }
    } else if (ptx_type_size (word)) {
      size = ptx_type_size (word);
    }
  }
  var->name = ptx_word (lex, FALSE);
  if (!var->name || !size) {
    ptx_fail (lex, "declaration not understood");
    g_free (var);
    return NULL;
  }
  size *= vector;
  var->size = size;
  while (ptx_accept (lex, '[')) {
    bits = 0;
    ptx_number (lex, &kind, &bits);
    var->size *= (gsize)bits;
    ptx_expect (lex, ']');
  }
  var->align = MAX (var->align, size);
  if (ptx_accept (lex, '=')) {
    gsize at = 0;
    var->init = g_malloc0 (MAX (var->size, 1));
    parse_init (lex, var, size / vector, &at);
  }
  return var;
}

void
ptx_var_free (gpointer data)
{
  PtxVar *var = data;
  g_free (var->init);
  if (var->relocs)
    g_array_unref (var->relocs);
  g_free (var);
}

/* ---- and freeing it all ---- */

static void
operands_free (PtxOperand *operands, guint n)
{
  for (guint i = 0; i < n; i++)
    operands_free (operands[i].items, operands[i].n_items);
  g_free (operands);
}

void
ptx_function_free (gpointer data)
{
  PtxFunction *f = data;
  for (guint i = 0; i < f->body->len; i++) {
    PtxStatement *s = &g_array_index (f->body, PtxStatement, i);
    operands_free (s->operands, s->n_operands);
  }
  g_ptr_array_unref (f->params);
  g_ptr_array_unref (f->results);
  g_ptr_array_unref (f->vars);
  g_array_unref (f->regs);
  g_array_unref (f->labels);
  g_array_unref (f->scopes);
  g_array_unref (f->body);
  g_free (f);
}

void
ptx_module_free (PtxModule *module)
{
  if (!module)
    return;
  g_ptr_array_unref (module->vars);
  g_ptr_array_unref (module->functions);
  g_string_chunk_free (module->strings);
  g_free (module);
}
