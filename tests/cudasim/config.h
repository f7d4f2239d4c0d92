/* Settings and failures on demand
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "sim.h"

typedef struct {
  guint64 n, seen;
  gboolean and_after;
} SimNth;

typedef struct {
  gboolean no_device, old_driver;
  gchar **symbols; /* that dlsym() shall not find */
  SimNth alloc, launch, sticky, lost, sync;
} SimFail;

extern SimFail sim_fail;

void sim_config_load (void); /* once, from the environment */
gboolean sim_config_check (const gchar *text);
gboolean sim_config_capability (const gchar *text);
gboolean sim_config_fail (const gchar *text);
/* Counts, and says whether this one is to fail. */
gboolean sim_fails (SimNth *nth);
/* Dynamic shared memory that a block may ask for. */
gsize sim_shared_limit (void);
