/* Finding entry points, and the names of errors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#define _GNU_SOURCE
#include "api.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>

static const struct {
  CUresult code;
  const gchar *name, *text;
} errors[] = {
  { CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
  { CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
  { CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
  { CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED",
      "initialization error" },
  { CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED",
      "driver shutting down" },
  { CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE",
      "no CUDA-capable device is detected" },
  { CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE",
      "invalid device ordinal" },
  { CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE",
      "device kernel image is invalid" },
  { CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT",
      "invalid device context" },
  { CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
      "no kernel image is available for execution on the device" },
  { CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX",
      "a PTX JIT compilation failed" },
  { CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
      "the provided PTX was compiled with an unsupported toolchain." },
  { CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE",
      "invalid resource handle" },
  { CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE",
      "the operation cannot be performed in the present state" },
  { CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
  { CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
  { CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
      "an illegal memory access was encountered" },
  { CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
      "too many resources requested for launch" },
  { CUDA_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT",
      "the launch timed out and was terminated" },
  { CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED",
      "context is destroyed" },
  { CUDA_ERROR_ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered" },
  { CUDA_ERROR_ILLEGAL_INSTRUCTION, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
      "an illegal instruction was encountered" },
  { CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS",
      "misaligned address" },
  { CUDA_ERROR_INVALID_ADDRESS_SPACE, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
      "operation not supported on global/shared address space" },
  { CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED",
      "unspecified launch failure" },
  { CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
      "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
      "too many blocks in cooperative launch" },
  { CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED",
      "operation not permitted" },
  { CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED",
      "operation not supported" },
  { CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
      "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
      "operation not permitted when stream is capturing" },
  { CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
      "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
      "operation failed due to a previous error during capture" },
  { CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
      "operation would result in a merge of separate capture sequences" },
  { CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
      "capture was not ended in the same stream as it began" },
  { CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
      "capturing stream has unjoined work" },
  { CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
      "dependency created on uncaptured work in another stream" },
  { CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
      "operation would make the legacy stream depend on a capturing blocking "
      "stream" },
  { CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
      "operation not permitted on an event last recorded in a capturing "
      "stream" },
  { CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
      "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
      "attempt to terminate a thread-local capture sequence from another "
      "thread" },
  { CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
      "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
      "the graph update was not performed because it included changes which "
      "violated constraints specific to instantiated graph update" },
  { CUDA_ERROR_INVALID_CLUSTER_SIZE, "CUDA_ERROR_INVALID_CLUSTER_SIZE",
      "invalid cluster size" },
  { CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

API (cuGetErrorName, CUresult code, const char **name)
{
  if (!name)
    return CUDA_ERROR_INVALID_VALUE;
  for (guint i = 0; i < G_N_ELEMENTS (errors); i++)
    if (errors[i].code == code) {
      *name = errors[i].name;
      return CUDA_SUCCESS;
    }
  *name = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}

API (cuGetErrorString, CUresult code, const char **text)
{
  if (!text)
    return CUDA_ERROR_INVALID_VALUE;
  for (guint i = 0; i < G_N_ELEMENTS (errors); i++)
    if (errors[i].code == code) {
      *text = errors[i].text;
      return CUDA_SUCCESS;
    }
  *text = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}

static gboolean
hidden (const char *symbol)
{
  return sim_fail.symbols &&
         g_strv_contains ((const gchar *const *)sim_fail.symbols, symbol);
}

/* The newest version of a name, as the driver gives it. */
static CUresult
get_address (const char *symbol, void **address, int *status)
{
  sim_config_load ();
  if (!symbol || !address)
    return CUDA_ERROR_INVALID_VALUE;
  Dl_info self;
  *address = NULL;
  if (g_str_has_prefix (symbol, "cu") &&
      dladdr ((void *)(gintptr)get_address, &self)) {
    void *library = dlopen (self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    gchar *v2 = g_strdup_printf ("%s_v2", symbol);
    if (library && !hidden (symbol) && !hidden (v2)) {
      *address = dlsym (library, v2);
      if (!*address)
        *address = dlsym (library, symbol);
    }
    g_free (v2);
    if (library)
      dlclose (library);
  }
  if (status)
    *status = *address ? 0 : 1;
  return *address ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

API (cuGetProcAddress, const char *symbol, void **address, int version,
    uint64_t flags)
{
  (void)version;
  (void)flags;
  return get_address (symbol, address, NULL);
}

API (cuGetProcAddress_v2, const char *symbol, void **address, int version,
    uint64_t flags, int *status)
{
  (void)version;
  (void)flags;
  return get_address (symbol, address, status);
}

/* ---- symbols that dlsym() shall not find ----
 * The library takes them out of its own table of symbols, when it is loaded:
 * what has no section is not defined. */

static const ElfW (Dyn) * dynamic_of (const struct dl_phdr_info *info)
{
  for (guint i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      return (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  return NULL;
}

static int
hide_in (struct dl_phdr_info *info, size_t size, void *data)
{
  const gchar *name = data;
  gboolean mine = FALSE;
  (void)size;
  for (guint i = 0; i < info->dlpi_phnum; i++) {
    const ElfW (Phdr) *p = &info->dlpi_phdr[i];
    guintptr low = info->dlpi_addr + p->p_vaddr, at = (guintptr)hide_in;
    mine |= p->p_type == PT_LOAD && at >= low && at < low + p->p_memsz;
  }
  const ElfW (Dyn) *d = dynamic_of (info);
  if (!mine || !d)
    return 0;
  ElfW (Sym) *symbols = NULL;
  const gchar *strings = NULL;
  for (; d->d_tag != DT_NULL; d++) {
    if (d->d_tag == DT_SYMTAB)
      symbols = (void *)d->d_un.d_ptr;
    else if (d->d_tag == DT_STRTAB)
      strings = (const gchar *)d->d_un.d_ptr;
  }
  /* The strings follow the symbols: that is where the table ends. */
  for (ElfW (Sym) *s = symbols; symbols && (const gchar *)s < strings; s++) {
    if (strcmp (strings + s->st_name, name) != 0)
      continue;
    guintptr page = (guintptr)s & ~(guintptr)4095;
    if (mprotect ((void *)page, 8192, PROT_READ | PROT_WRITE) == 0)
      s->st_value = s->st_shndx = s->st_name = 0;
    mprotect ((void *)page, 8192, PROT_READ);
  }
  return 1;
}

__attribute__ ((constructor)) static void
hide_symbols (void)
{
  sim_config_load ();
  for (guint i = 0; sim_fail.symbols && sim_fail.symbols[i]; i++)
    dl_iterate_phdr (hide_in, sim_fail.symbols[i]);
}
