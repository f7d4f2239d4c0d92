/* Settings from the environment
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "timing.h"

#include <stdlib.h>
#include <string.h>

SimConfig sim_config;
SimFail sim_fail;

static gboolean
check_level (const gchar *text, SimConfig *config)
{
  if (strcmp (text, "off") == 0)
    config->check = SIM_CHECK_OFF;
  else if (strcmp (text, "fast") == 0)
    config->check = SIM_CHECK_FAST;
  else if (strcmp (text, "full") == 0)
    config->check = SIM_CHECK_FULL;
  else
    return FALSE;
  return TRUE;
}

gboolean
sim_config_check (const gchar *text)
{
  return check_level (text, &sim_config);
}

/* "9.0" and "90" are the same. */
gboolean
sim_config_capability (const gchar *text)
{
  gchar *end;
  guint64 major = g_ascii_strtoull (text, &end, 10), minor = 0;
  if (*end == '.') {
    minor = g_ascii_strtoull (end + 1, &end, 10);
  } else {
    minor = major % 10;
    major /= 10;
  }
  if (*end || major < 5 || major > 20 || minor > 9)
    return FALSE;
  sim_config.capability = (guint)(major * 10 + minor);
  return TRUE;
}

/* "alloc:3" is the third only, "alloc:3+" it and all that follow. */
static gboolean
number (const gchar *text, SimNth *nth)
{
  gchar *end;
  nth->n = g_ascii_strtoull (text, &end, 10);
  nth->and_after = *end == '+';
  nth->seen = 0;
  return nth->n > 0 && (*end == 0 || strcmp (end, "+") == 0);
}

gboolean
sim_config_fail (const gchar *text)
{
  gboolean ok = TRUE;
  g_clear_pointer (&sim_fail.symbols, g_strfreev);
  sim_fail = (SimFail){ 0 };
  if (!text || !*text)
    return TRUE;
  gchar **items = g_strsplit (text, ",", -1);
  GPtrArray *symbols = g_ptr_array_new ();
  for (guint i = 0; items[i]; i++) {
    const gchar *item = items[i];
    if (strcmp (item, "no-device") == 0)
      sim_fail.no_device = TRUE;
    else if (strcmp (item, "old-driver") == 0)
      sim_fail.old_driver = TRUE;
    else if (g_str_has_prefix (item, "symbol:"))
      g_ptr_array_add (symbols, g_strdup (item + 7));
    else if (g_str_has_prefix (item, "alloc:"))
      ok &= number (item + 6, &sim_fail.alloc);
    else if (g_str_has_prefix (item, "launch:"))
      ok &= number (item + 7, &sim_fail.launch);
    else if (g_str_has_prefix (item, "sticky:"))
      ok &= number (item + 7, &sim_fail.sticky);
    else if (g_str_has_prefix (item, "lost:"))
      ok &= number (item + 5, &sim_fail.lost);
    else if (g_str_has_prefix (item, "sync:"))
      ok &= number (item + 5, &sim_fail.sync);
    else
      ok = FALSE;
  }
  g_ptr_array_add (symbols, NULL);
  sim_fail.symbols = (gchar **)g_ptr_array_free (symbols, FALSE);
  g_strfreev (items);
  return ok;
}

gboolean
sim_fails (SimNth *nth)
{
  if (!nth->n)
    return FALSE;
  nth->seen++;
  return nth->seen == nth->n || (nth->and_after && nth->seen > nth->n);
}

static guint64
number_of (const gchar *name, guint64 otherwise)
{
  const gchar *text = g_getenv (name);
  return text && *text ? g_ascii_strtoull (text, NULL, 0) : otherwise;
}

static void
complain (const gchar *name, gboolean ok)
{
  if (!ok) {
    g_printerr ("cudasim: %s=%s is not understood\n", name, g_getenv (name));
    abort ();
  }
}

void
sim_config_load (void)
{
  static gsize once;
  if (!g_once_init_enter (&once))
    return;
  const gchar *text;
  sim_config = (SimConfig){
    .capability = 90, .check = SIM_CHECK_FULL, .races_fail = TRUE
  };
  if ((text = g_getenv ("CUDASIM_CC")))
    complain ("CUDASIM_CC", sim_config_capability (text));
  if ((text = g_getenv ("CUDASIM_CHECK")))
    complain ("CUDASIM_CHECK", sim_config_check (text));
  if ((text = g_getenv ("CUDASIM_FAIL")))
    complain ("CUDASIM_FAIL", sim_config_fail (text));
  if ((text = g_getenv ("CUDASIM_RACES")))
    sim_config.races_fail = strcmp (text, "count") != 0;
  if ((text = g_getenv ("CUDASIM_UNINIT")))
    sim_config.shared_init = strcmp (text, "fail") == 0;
  if ((text = g_getenv ("CUDASIM_MMA")))
    sim_config.mma_truncates = strcmp (text, "truncate") == 0;
  sim_config.seed = number_of ("CUDASIM_SEED", 1);
  sim_config.budget = number_of ("CUDASIM_BUDGET", 256u * 1024 * 1024);
  sim_config.devices = (guint)number_of ("CUDASIM_DEVICES", 1);
  sim_config.processors = (guint)number_of ("CUDASIM_PROCESSORS", 0);
  sim_config.memory =
      (gsize)number_of ("CUDASIM_MEMORY", 8) * 1024 * 1024 * 1024;
  sim_config.quiet = number_of ("CUDASIM_QUIET", 0) != 0;
  sim_config.registers = g_getenv ("CUDASIM_REGISTERS");
  sim_config.report = g_getenv ("CUDASIM_REPORT");
  sim_config.dump = g_getenv ("CUDASIM_DUMP");
  sim_config.lines = g_getenv ("CUDASIM_LINES");
  sim_config.image = g_getenv ("CUDASIM_IMAGE");
  sim_config.times = sim_config.times_left = number_of ("CUDASIM_TIMES", 0);
  sim_config.times_no_edge = number_of ("CUDASIM_NO_EDGE", 0) != 0;
  sim_config.times_apart = number_of ("CUDASIM_APART", 0) != 0;
  sim_config.times_late_trigger = number_of ("CUDASIM_LATE_TRIGGER", 0) != 0;
  sim_config.times_as_written = number_of ("CUDASIM_AS_WRITTEN", 0) != 0;
  sim_config.count = sim_config.report != NULL;
  if ((text = g_getenv ("CUDASIM_CARD"))) {
    const SimCard *card = sim_card_find (text);
    complain ("CUDASIM_CARD", card != NULL);
    sim_config.card = card;
    sim_config.capability = card->capability;
  }
  g_once_init_leave (&once, 1);
}

gsize
sim_shared_limit (void)
{
  switch (sim_config.capability) {
    case 75:
      return 64 * 1024;
    case 80:
    case 87:
      return 163 * 1024;
    case 90:
    case 100:
    case 103:
      return SIM_SHARED_MAX;
    default:
      return 99 * 1024;
  }
}
