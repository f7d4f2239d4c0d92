/* The properties of mimidec
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "gstmimidec.h"

G_BEGIN_DECLS

/* Sets get_property and set_property and installs the properties. */
void gst_mimi_dec_install_properties (GObjectClass *klass);

void gst_mimi_settings_init (GstMimiSettings *settings);
void gst_mimi_settings_copy (GstMimiSettings *to, const GstMimiSettings *from);
void gst_mimi_settings_clear (GstMimiSettings *settings);

/* Tells the application that `active-backend` has changed. */
void gst_mimi_dec_notify_active_backend (GstMimiDec *self);

G_END_DECLS
