/* Modules, functions, launches
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "api.h"

/* ---- modules ---- */

static CUresult
load (CUmodule *module, const void *image)
{
  gchar *log = NULL;
  CUresult r = CUDA_ERROR_INVALID_IMAGE;
  if (!module || !image)
    return CUDA_ERROR_INVALID_VALUE;
  if (sim_fail.old_driver)
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  *module = sim_module_load (image, sim_config.capability, &r, &log);
  if (!*module) {
    api_log ("module not loaded: %s", log ? log : "out of memory");
    g_free (log);
    return r;
  }
  (*module)->device = api_context ()->device;
  g_ptr_array_add (api_context ()->modules, *module);
  sim_counts_watch (*module);
  return CUDA_SUCCESS;
}

API (cuModuleLoadData, CUmodule *module, const void *image)
{
  ENTER ();
  SYNCHRONOUS ();
  RETURN (load (module, image));
}

API (cuModuleLoadDataEx, CUmodule *module, const void *image, unsigned int n,
    int *options, void **values)
{
  ENTER ();
  SYNCHRONOUS ();
  (void)n;
  (void)options;
  (void)values;
  RETURN (load (module, image));
}

API (cuModuleLoadFatBinary, CUmodule *module, const void *image)
{
  ENTER ();
  SYNCHRONOUS ();
  RETURN (load (module, image));
}

API (cuModuleUnload, CUmodule module)
{
  CUresult r = api_enter (TRUE);
  if (r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_INVALID_CONTEXT)
    RETURN (r);
  if (!r)
    r = api_not_captured ();
  if (!r)
    r = streams_run_all (api_context ());
  if (!g_ptr_array_remove (api_context ()->modules, module))
    RETURN (CUDA_ERROR_INVALID_HANDLE);
  sim_counts_keep (module);
  sim_module_free (module);
  RETURN (r);
}

API (cuModuleGetFunction, CUfunction *function, CUmodule module,
    const char *name)
{
  ENTER ();
  if (!function || !name ||
      !g_ptr_array_find (api_context ()->modules, module, NULL))
    RETURN (CUDA_ERROR_INVALID_VALUE);
  *function = sim_module_find (module, name);
  RETURN (*function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}

API (cuModuleGetGlobal_v2, CUdeviceptr *address, size_t *size, CUmodule module,
    const char *name)
{
  ENTER ();
  if (!name || !g_ptr_array_find (api_context ()->modules, module, NULL))
    RETURN (CUDA_ERROR_INVALID_VALUE);
  PtxVar *var = sim_module_var (module, name);
  if (!var || var->space == PTX_SPACE_SHARED)
    RETURN (CUDA_ERROR_NOT_FOUND);
  if (address)
    *address = var->address;
  if (size)
    *size = var->size;
  RETURN (CUDA_SUCCESS);
}

/* ---- functions ---- */

API (cuFuncSetAttribute, CUfunction function, int which, int value)
{
  ENTER ();
  if (!function)
    RETURN (CUDA_ERROR_INVALID_VALUE);
  switch (which) {
    case 8:
      if (value < 0 ||
          (gsize)value + function->shared_bytes > sim_shared_limit ())
        RETURN (CUDA_ERROR_INVALID_VALUE);
      function->max_dynamic = (gsize)value;
      RETURN (CUDA_SUCCESS);
    case 9: /* a preference */
    case 15:
      RETURN (CUDA_SUCCESS);
    case 14:
      function->nonportable_cluster = value != 0;
      RETURN (CUDA_SUCCESS);
    default:
      RETURN (CUDA_ERROR_INVALID_VALUE);
  }
}

API (cuFuncGetAttribute, int *value, int which, CUfunction function)
{
  ENTER ();
  if (!value || !function)
    RETURN (CUDA_ERROR_INVALID_VALUE);
  const guint *c = function->function->cluster;
  switch (which) {
    case 0:
      *value = (int)function->max_threads;
      break;
    case 1:
      *value = (int)function->shared_bytes;
      break;
    case 3:
      *value = (int)function->local_bytes;
      break;
    case 4: /* what ptxas would need is not known here */
      *value = 32;
      break;
    case 5:
      *value = (int)function->module->ptx->target;
      break;
    case 6:
      *value = (int)sim_config.capability;
      break;
    case 8:
      *value = (int)MAX (function->max_dynamic,
          48 * 1024 - MIN (function->shared_bytes, 48 * 1024));
      break;
    case 11:
    case 12:
    case 13:
      *value = (int)c[which - 11];
      break;
    case 14:
      *value = function->nonportable_cluster;
      break;
    default:
      *value = 0;
  }
  RETURN (CUDA_SUCCESS);
}

API (cuFuncSetCacheConfig, CUfunction function, int config)
{
  ENTER ();
  (void)config;
  RETURN (function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUresult
occupancy (int *blocks, SimKernel *k, int threads, gsize dynamic)
{
  if (!blocks || !k || threads <= 0 || (guint)threads > k->max_threads)
    return CUDA_ERROR_INVALID_VALUE;
  gsize shared = k->shared_bytes + dynamic + 1024;
  gsize all = sim_shared_limit () + 1024;
  guint per = sim_config.capability == 75 ? 1024
              : sim_config.capability == 80 || sim_config.capability == 90
                  ? 2048
                  : 1536;
  *blocks = (int)MIN (MIN (per / (guint)threads, 32u), all / shared);
  return CUDA_SUCCESS;
}

API (cuOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks,
    CUfunction function, int threads, size_t dynamic)
{
  ENTER ();
  RETURN (occupancy (blocks, function, threads, dynamic));
}

API (cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *blocks,
    CUfunction function, int threads, size_t dynamic, unsigned int flags)
{
  ENTER ();
  (void)flags;
  RETURN (occupancy (blocks, function, threads, dynamic));
}

API (cuOccupancyMaxActiveClusters, int *clusters, CUfunction function,
    const CUlaunchConfig *config)
{
  ENTER ();
  int blocks = 0;
  guint size = 1;
  for (guint i = 0; i < config->n_attributes; i++)
    if (config->attributes[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      size = config->attributes[i].value.cluster.x *
             config->attributes[i].value.cluster.y *
             config->attributes[i].value.cluster.z;
  CUresult r = occupancy (&blocks, function,
      (int)(config->block[0] * config->block[1] * config->block[2]),
      config->shared);
  if (!r && (!clusters || !size))
    r = CUDA_ERROR_INVALID_VALUE;
  if (!r)
    *clusters = (int)((guint)blocks * 132 / size);
  RETURN (r);
}

/* ---- launches ---- */

static CUresult
refuse (SimKernel *k, CUresult result, const gchar *why)
{
  api_log ("%s is not launched: %s", k ? k->name : "a kernel", why);
  return result;
}

static CUresult
read_attributes (SimKernel *k, const CUlaunchConfig *config, SimLaunch *l)
{
  const guint *fixed = k->function->cluster;
  for (guint i = 0; i < 3; i++)
    l->cluster[i] = fixed[i] ? fixed[i] : 1;
  for (guint i = 0; i < config->n_attributes; i++) {
    const CUlaunchAttribute *a = &config->attributes[i];
    switch (a->id) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        l->cooperative = a->value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        l->cluster[0] = a->value.cluster.x;
        l->cluster[1] = a->value.cluster.y;
        l->cluster[2] = a->value.cluster.z;
        if (fixed[0] &&
            (fixed[0] != l->cluster[0] || fixed[1] != l->cluster[1] ||
                fixed[2] != l->cluster[2]))
          return refuse (k, CUDA_ERROR_INVALID_VALUE,
              "the cluster differs from the one it was compiled for");
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        l->programmatic = a->value.programmatic != 0;
        if (l->programmatic && sim_config.capability < 90)
          return refuse (k, CUDA_ERROR_NOT_SUPPORTED,
              "programmatic dependent launch needs capability 9.0");
        break;
      case 0: /* ignored */
      case 1: /* hints */
      case 3:
      case 5:
      case 8:
      case 9:
      case 10:
        break;
      default:
        return refuse (k, CUDA_ERROR_NOT_SUPPORTED,
            "an attribute that the simulator does not know");
    }
  }
  return CUDA_SUCCESS;
}

static CUresult
read_arguments (SimKernel *k, void **arguments, void **extra, guint8 *into)
{
  const GPtrArray *params = k->function->params;
  if (arguments) {
    for (guint i = 0; i < params->len; i++) {
      PtxVar *var = params->pdata[i];
      if (!arguments[i])
        return refuse (k, CUDA_ERROR_INVALID_VALUE, "an argument is missing");
      memcpy (into + var->offset, arguments[i], var->size);
    }
  } else if (extra) {
    const void *buffer = NULL;
    gsize size = 0;
    for (guint i = 0; extra[i]; i += 2) {
      if (extra[i] == (void *)1)
        buffer = extra[i + 1];
      else if (extra[i] == (void *)2)
        size = *(const gsize *)extra[i + 1];
    }
    if (!buffer || size < k->param_bytes)
      return refuse (k, CUDA_ERROR_INVALID_VALUE, "arguments are missing");
    memcpy (into, buffer, k->param_bytes);
  } else if (params->len) {
    return refuse (k, CUDA_ERROR_INVALID_VALUE, "arguments are missing");
  }
  return CUDA_SUCCESS;
}

CUresult
launch_node (SimKernel *k, const CUlaunchConfig *config, void **arguments,
    void **extra, SimNode **node)
{
  guint64 threads = 1, blocks = 1, size;
  SimLaunch l = { .kernel = k, .dynamic = config->shared };
  if (!k)
    return CUDA_ERROR_INVALID_HANDLE;
  for (guint i = 0; i < 3; i++) {
    l.grid[i] = config->grid[i];
    l.block[i] = config->block[i];
    threads *= config->block[i];
    blocks *= config->grid[i];
  }
  if (!threads || !blocks || config->grid[1] > 65535 ||
      config->grid[2] > 65535 || config->block[2] > 64)
    return refuse (k, CUDA_ERROR_INVALID_VALUE, "grid or block is impossible");
  if (threads > k->max_threads)
    return refuse (k, CUDA_ERROR_INVALID_VALUE,
        "more threads than __launch_bounds__ allows");
  gsize limit =
      MAX (k->max_dynamic, 48 * 1024 - MIN (k->shared_bytes, 48 * 1024));
  if (l.dynamic > limit)
    return refuse (k, CUDA_ERROR_INVALID_VALUE,
        "more dynamic shared memory than was asked for with "
        "cuFuncSetAttribute");
  CUresult r = read_attributes (k, config, &l);
  if (r)
    return r;
  size = (guint64)l.cluster[0] * l.cluster[1] * l.cluster[2];
  if (!size || (size > 1 && sim_config.capability < 90) ||
      size > (k->nonportable_cluster ? 16 : 8))
    return refuse (k, CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster size");
  for (guint i = 0; i < 3; i++)
    if (l.grid[i] % l.cluster[i])
      return refuse (k, CUDA_ERROR_INVALID_VALUE,
          "the grid is no multiple of the cluster");
  int per = 0;
  occupancy (&per, k, (int)threads, l.dynamic);
  if (l.cooperative && blocks > (guint64)per * 132)
    return refuse (k, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        "more blocks than can be resident");
  l.params = g_malloc0 (MAX (k->param_bytes, 1));
  r = read_arguments (k, arguments, extra, l.params);
  if (r) {
    g_free (l.params);
    return r;
  }
  *node = node_new (NODE_KERNEL);
  (*node)->launch = l;
  return CUDA_SUCCESS;
}

static CUresult
launch (
    SimKernel *k, const CUlaunchConfig *config, void **arguments, void **extra)
{
  SimNode *node;
  SimStream *s = stream_of (config->stream);
  if (!stream_valid (s))
    return CUDA_ERROR_INVALID_HANDLE;
  CUresult r = launch_node (k, config, arguments, extra, &node);
  if (r)
    return r;
  if (sim_fails (&sim_fail.launch)) {
    api_log ("launch of %s fails, on demand", k->name);
    node_unref (node);
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  return stream_add (s, node);
}

API (cuLaunchKernel, CUfunction function, unsigned int gx, unsigned int gy,
    unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
    unsigned int shared, CUstream stream, void **arguments, void **extra)
{
  ENTER ();
  CUlaunchConfig config = { { gx, gy, gz }, { bx, by, bz }, shared, stream,
    NULL, 0 };
  RETURN (launch (function, &config, arguments, extra));
}

API (cuLaunchKernelEx, const CUlaunchConfig *config, CUfunction function,
    void **arguments, void **extra)
{
  ENTER ();
  RETURN (config ? launch (function, config, arguments, extra)
                 : CUDA_ERROR_INVALID_VALUE);
}

API (cuLaunchCooperativeKernel, CUfunction function, unsigned int gx,
    unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
    unsigned int bz, unsigned int shared, CUstream stream, void **arguments)
{
  ENTER ();
  CUlaunchAttribute attribute = { .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
    .value = { .cooperative = 1 } };
  CUlaunchConfig config = { { gx, gy, gz }, { bx, by, bz }, shared, stream,
    &attribute, 1 };
  RETURN (launch (function, &config, arguments, NULL));
}

API (cuLaunchHostFunc, CUstream stream, void (*func) (void *), void *data)
{
  ENTER ();
  SimStream *s = stream_of (stream);
  if (!func || !stream_valid (s))
    RETURN (CUDA_ERROR_INVALID_VALUE);
  SimNode *n = node_new (NODE_HOST);
  n->func = func;
  n->data = data;
  RETURN (stream_add (s, n));
}
