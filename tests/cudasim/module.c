/* A module: PTX parsed, its variables in memory, its kernels decoded
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "sim.h"

#include <string.h>

PtxVar *
sim_module_var (SimModule *module, const gchar *name)
{
  for (guint i = 0; i < module->ptx->vars->len; i++) {
    PtxVar *var = module->ptx->vars->pdata[i];
    if (strcmp (var->name, name) == 0)
      return var;
  }
  return NULL;
}

static gboolean
place_variables (SimModule *module, gchar **log)
{
  GPtrArray *vars = module->ptx->vars;
  for (guint i = 0; i < vars->len; i++) {
    PtxVar *var = vars->pdata[i];
    if (var->space == PTX_SPACE_SHARED)
      continue;
    if (var->is_extern) {
      *log = g_strdup_printf ("variable %s is external", var->name);
      return FALSE;
    }
    SimAllocation *a = sim_alloc (MAX (var->size, 1), FALSE);
    if (!a)
      return FALSE;
    a->is_module = TRUE;
    var->address = a->address;
    if (var->init)
      memcpy (sim_host (a->address), var->init, var->size);
    else
      memset (sim_host (a->address), 0, var->size);
    sim_host_write (a->address, var->size);
  }
  for (guint i = 0; i < vars->len; i++) {
    PtxVar *var = vars->pdata[i];
    for (guint j = 0; var->relocs && j < var->relocs->len; j++) {
      PtxReloc *r = &g_array_index (var->relocs, PtxReloc, j);
      PtxVar *to = sim_module_var (module, r->name);
      if (!to) {
        *log = g_strdup_printf (
            "variable %s points to %s, which is unknown", var->name, r->name);
        return FALSE;
      }
      guint64 value = to->address + (guint64)r->addend;
      memcpy (sim_host (var->address) + r->at, &value, 8);
    }
  }
  return TRUE;
}

SimModule *
sim_module_load (
    const void *image, guint capability, CUresult *result, gchar **log)
{
  gchar *other = NULL;
  if (sim_config.image &&
      !g_file_get_contents (sim_config.image, &other, NULL, NULL)) {
    *log = g_strdup_printf ("%s cannot be read", sim_config.image);
    return NULL;
  }
  gchar *text = sim_fatbin_ptx (other ? other : image, capability, result, log);
  g_free (other);
  if (!text)
    return NULL;
  if (sim_config.dump)
    g_file_set_contents (sim_config.dump, text, -1, NULL);
  SimModule *module = g_new0 (SimModule, 1);
  module->kernels =
      g_ptr_array_new_with_free_func ((GDestroyNotify)sim_kernel_free);
  module->ptx = ptx_parse (text, log);
  g_free (text);
  if (!module->ptx) {
    *result = CUDA_ERROR_INVALID_PTX;
    sim_module_free (module);
    return NULL;
  }
  if (module->ptx->target > capability) {
    *log = g_strdup_printf ("PTX for sm_%u on a card of capability %u",
        module->ptx->target, capability);
    *result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    sim_module_free (module);
    return NULL;
  }
  if (!place_variables (module, log)) {
    *result = *log ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_OUT_OF_MEMORY;
    sim_module_free (module);
    return NULL;
  }
  /* Every kernel is decoded now, so that an unknown form is known at once. */
  for (guint i = 0; i < module->ptx->functions->len; i++) {
    PtxFunction *f = module->ptx->functions->pdata[i];
    if (!f->is_entry || !f->has_body)
      continue;
    SimKernel *k = sim_decode (module, f);
    g_ptr_array_add (module->kernels, k);
    if (k->error) {
      *log = g_strdup (k->error);
      *result = CUDA_ERROR_INVALID_PTX;
      sim_module_free (module);
      return NULL;
    }
  }
  return module;
}

SimKernel *
sim_module_find (SimModule *module, const gchar *name)
{
  for (guint i = 0; i < module->kernels->len; i++) {
    SimKernel *k = module->kernels->pdata[i];
    if (strcmp (k->name, name) == 0)
      return k;
  }
  return NULL;
}

void
sim_module_free (SimModule *module)
{
  for (guint i = 0; module->ptx && i < module->ptx->vars->len; i++) {
    PtxVar *var = module->ptx->vars->pdata[i];
    if (var->space != PTX_SPACE_SHARED && var->address)
      sim_free (var->address);
  }
  g_ptr_array_unref (module->kernels);
  ptx_module_free (module->ptx);
  g_free (module);
}
