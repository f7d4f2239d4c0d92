/* Words, numbers and signs of PTX
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "ptx.h"

#include <stdlib.h>
#include <string.h>

void
ptx_fail (PtxLexer *lexer, const gchar *format, ...)
{
  if (lexer->error)
    return;
  va_list args;
  va_start (args, format);
  gchar *text = g_strdup_vprintf (format, args);
  va_end (args);
  lexer->error = g_strdup_printf ("PTX line %u: %s", lexer->line, text);
  g_free (text);
}

void
ptx_skip (PtxLexer *lexer)
{
  const gchar *p = lexer->at;
  for (;;) {
    if (*p == '\n') {
      lexer->line++;
      p++;
    } else if (*p == ' ' || *p == '\t' || *p == '\r') {
      p++;
    } else if (p[0] == '/' && p[1] == '/') {
      while (*p && *p != '\n')
        p++;
    } else if (p[0] == '/' && p[1] == '*') {
      for (p += 2; *p && !(p[0] == '*' && p[1] == '/'); p++)
        lexer->line += *p == '\n';
      p += *p ? 2 : 0;
    } else {
      break;
    }
  }
  lexer->at = p;
}

gchar
ptx_peek (PtxLexer *lexer)
{
  ptx_skip (lexer);
  return *lexer->at;
}

gboolean
ptx_accept (PtxLexer *lexer, gchar c)
{
  if (ptx_peek (lexer) != c)
    return FALSE;
  lexer->at++;
  return TRUE;
}

gboolean
ptx_expect (PtxLexer *lexer, gchar c)
{
  if (ptx_accept (lexer, c))
    return TRUE;
  ptx_fail (lexer, "'%c' expected before \"%.20s\"", c, lexer->at);
  return FALSE;
}

static gboolean
is_word (gchar c)
{
  return g_ascii_isalnum (c) || c == '_' || c == '$' || c == '%';
}

gchar *
ptx_word (PtxLexer *lexer, gboolean dots)
{
  ptx_skip (lexer);
  const gchar *p = lexer->at;
  if (g_ascii_isdigit (*p) || (*p == '.' && !dots))
    return NULL;
  for (;;) {
    if (is_word (*p) || (dots && *p == '.'))
      p++;
    else if (p[0] == ':' && p[1] == ':')
      p += 2;
    else
      break;
  }
  if (p == lexer->at)
    return NULL;
  gchar *word =
      g_string_chunk_insert_len (lexer->strings, lexer->at, p - lexer->at);
  lexer->at = p;
  return word;
}

/* 0f and 0d are the bits of a float and a double in hexadecimal. */
gboolean
ptx_number (PtxLexer *lexer, PtxKind *kind, gint64 *bits)
{
  ptx_skip (lexer);
  const gchar *p = lexer->at;
  gboolean minus = *p == '-';
  if (minus)
    p++;
  if (!g_ascii_isdigit (*p))
    return FALSE;
  gchar *end;
  *kind = PTX_INT;
  if (p[0] == '0' && (p[1] == 'f' || p[1] == 'F')) {
    *kind = PTX_F32;
    *bits = (gint64)g_ascii_strtoull (p + 2, &end, 16);
  } else if (p[0] == '0' && (p[1] == 'd' || p[1] == 'D')) {
    *kind = PTX_F64;
    *bits = (gint64)g_ascii_strtoull (p + 2, &end, 16);
  } else if (p[0] == '0' && (p[1] == 'b' || p[1] == 'B')) {
    *bits = (gint64)g_ascii_strtoull (p + 2, &end, 2);
  } else {
    const gchar *q = p;
    while (g_ascii_isdigit (*q))
      q++;
    if (*q == '.' && g_ascii_isdigit (q[1])) {
      gdouble value = g_ascii_strtod (p, &end);
      *kind = PTX_F64;
      memcpy (bits, &value, 8);
    } else {
      *bits = (gint64)g_ascii_strtoull (p, &end, 0);
    }
  }
  if (*end == 'U')
    end++;
  lexer->at = end;
  if (minus) {
    if (*kind == PTX_INT)
      *bits = -*bits;
    else
      *bits ^= *kind == PTX_F32 ? (gint64)0x80000000 : G_MININT64;
  }
  return TRUE;
}
