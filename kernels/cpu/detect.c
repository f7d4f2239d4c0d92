/* Which instruction set to use, found when a decoder is opened.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <string.h>

#include "cpu.h"

typedef struct {
  const MimiCpuKernels *kernels;
  gboolean usable;
} Candidate;

/* The best first. MIMIDEC_CPU=c|neon|avx2|avx512 forces one, for tests and
 * comparisons. */
const MimiCpuKernels *
mimi_cpu_detect (GError **error)
{
  const gchar *wanted = g_getenv ("MIMIDEC_CPU");
  const Candidate candidates[] = {
#if defined(__x86_64__)
    /* all that meson.build lets the compiler use */
    { &mimi_cpu_kernels_avx512, __builtin_cpu_supports ("avx512f") &&
                                    __builtin_cpu_supports ("avx512dq") &&
                                    __builtin_cpu_supports ("avx512bw") &&
                                    __builtin_cpu_supports ("avx512vl") &&
                                    __builtin_cpu_supports ("fma") },
    { &mimi_cpu_kernels_avx2,
        __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma") },
#elif defined(__aarch64__)
    { &mimi_cpu_kernels_neon, TRUE },
#endif
    { &mimi_cpu_kernels_c, TRUE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (candidates); i++) {
    const Candidate *c = &candidates[i];

    if (wanted == NULL || *wanted == '\0') {
      if (c->usable)
        return c->kernels;
    } else if (strcmp (wanted, c->kernels->name) == 0) {
      if (c->usable)
        return c->kernels;
      g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE,
          "MIMIDEC_CPU=%s: this processor does not have these instructions; "
          "unset MIMIDEC_CPU to let mimidec choose",
          wanted);
      return NULL;
    }
  }
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE,
      "MIMIDEC_CPU=%s: expected c, "
#if defined(__x86_64__)
      "avx2 or avx512"
#elif defined(__aarch64__)
      "or neon"
#else
      "the only one built for this processor"
#endif
      "; unset it to let mimidec choose",
      wanted);
  return NULL;
}
