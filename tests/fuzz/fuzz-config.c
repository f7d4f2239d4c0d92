/* libFuzzer over configurations: any bytes describe a decoder, another thing
 * or nothing.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#define _GNU_SOURCE
#include "model/config.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static const MimiNetwork tiny = { .latent_dim = 32,
    .width = 64,
    .upsample = 16,
    .layers = 2,
    .ffn = 256,
    .first_kernel = 7,
    .residual_kernel = 3,
    .last_kernel = 3,
    .stages = 3,
    .ratios = { 6, 5, 4 },
    .channels = { 64, 32, 16, 8 } };
  int fd = memfd_create ("config", MFD_CLOEXEC);
  gchar *path = g_strdup_printf ("/proc/self/fd/%d", fd);
  guint named, says;

  g_assert (fd >= 0 && write (fd, data, size) == (gssize)size);
  for (named = 0; named < 2; named++) {
    MimiNetwork network = tiny;
    GError *error = NULL;
    MimiConfigResult result =
        mimi_config_apply (path, named, &network, &says, &error);

    g_assert ((error != NULL) == (result == MIMI_CONFIG_UNREADABLE ||
                                     result == MIMI_CONFIG_WRONG));
    if (result == MIMI_CONFIG_APPLIED && says & MIMI_SAYS_HEADS)
      g_assert (network.heads >= 1 && network.width % network.heads == 0);
    else if (result != MIMI_CONFIG_APPLIED)
      g_assert (memcmp (&network, &tiny, sizeof tiny) == 0);
    g_clear_error (&error);
  }
  g_free (path);
  close (fd);
  return 0;
}
