/* The lock, devices, contexts
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "api.h"
#include "timing.h"

#include <stdio.h>

static GRecMutex lock;
static gboolean initialised;
static struct SimContext *primary[16];
static GPrivate stacks = G_PRIVATE_INIT ((GDestroyNotify)g_ptr_array_unref);
static gboolean lost;

static GPtrArray *
stack (void)
{
  GPtrArray *s = g_private_get (&stacks);
  if (!s) {
    s = g_ptr_array_new ();
    g_private_set (&stacks, s);
  }
  return s;
}

void
api_log (const gchar *format, ...)
{
  if (sim_config.quiet)
    return;
  va_list args;
  va_start (args, format);
  fputs ("cudasim: ", stderr);
  vfprintf (stderr, format, args);
  fputc ('\n', stderr);
  va_end (args);
}

struct SimContext *
api_context (void)
{
  GPtrArray *s = stack ();
  return s->len ? s->pdata[s->len - 1] : NULL;
}

CUresult
api_enter (gboolean needs_context)
{
  sim_config_load ();
  g_rec_mutex_lock (&lock);
  if (lost)
    return CUDA_ERROR_UNKNOWN;
  if (!initialised)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (!needs_context)
    return CUDA_SUCCESS;
  struct SimContext *c = api_context ();
  if (!c)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!c->retained)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return c->sticky;
}

CUresult
api_leave (CUresult result)
{
  struct SimContext *c = api_context ();
  /* These leave a context in a state in which nothing works any more. */
  if (c && !c->sticky &&
      (result == CUDA_ERROR_ILLEGAL_ADDRESS ||
          result == CUDA_ERROR_MISALIGNED_ADDRESS ||
          result == CUDA_ERROR_LAUNCH_FAILED ||
          result == CUDA_ERROR_LAUNCH_TIMEOUT ||
          result == CUDA_ERROR_ILLEGAL_INSTRUCTION))
    c->sticky = result;
  if (result == CUDA_ERROR_UNKNOWN)
    lost = TRUE;
  g_rec_mutex_unlock (&lock);
  return result;
}

CUresult
api_not_captured (void)
{
  struct SimContext *c = api_context ();
  for (guint i = 0; c && i < c->streams->len; i++) {
    SimStream *s = c->streams->pdata[i];
    if (s->capture && s->capture_mode != 2 &&
        (s->capture_mode == 0 || s->capture_thread == g_thread_self ())) {
      s->invalid = TRUE;
      api_log ("a call that may wait was made during capture");
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

API (cuInit, unsigned int flags)
{
  sim_config_load ();
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  g_rec_mutex_lock (&lock);
  if (sim_fail.no_device || !sim_config.devices)
    return api_leave (CUDA_ERROR_NO_DEVICE);
  initialised = TRUE;
  return api_leave (lost ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
}

API (cuDriverGetVersion, int *version)
{
  sim_config_load ();
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  *version = sim_fail.old_driver ? 11040 : 13000;
  return CUDA_SUCCESS;
}

API (cuDeviceGetCount, int *count)
{
  CUresult r = api_enter (FALSE);
  if (!r && !count)
    r = CUDA_ERROR_INVALID_VALUE;
  if (!r)
    *count = (int)sim_config.devices;
  RETURN (r);
}

static CUresult
check_device (CUdevice device)
{
  return device >= 0 && (guint)device < MIN (sim_config.devices, 16)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_DEVICE;
}

API (cuDeviceGet, CUdevice *device, int ordinal)
{
  CUresult r = api_enter (FALSE);
  if (!r)
    r = device ? check_device (ordinal) : CUDA_ERROR_INVALID_VALUE;
  if (!r)
    *device = ordinal;
  RETURN (r);
}

API (cuDeviceGetName, char *name, int length, CUdevice device)
{
  CUresult r = api_enter (FALSE);
  if (!r)
    r = name && length > 0 ? check_device (device) : CUDA_ERROR_INVALID_VALUE;
  if (!r)
    g_snprintf (name, (gulong)length, "cudasim sm_%u", sim_config.capability);
  RETURN (r);
}

static CUresult
get_uuid (CUuuid *uuid, CUdevice device)
{
  CUresult r = api_enter (FALSE);
  if (!r)
    r = check_device (device);
  if (!r)
    memset (uuid, device + 1, sizeof *uuid);
  RETURN (r);
}

API (cuDeviceGetUuid, CUuuid *uuid, CUdevice device)
{
  return get_uuid (uuid, device);
}

API (cuDeviceGetUuid_v2, CUuuid *uuid, CUdevice device)
{
  return get_uuid (uuid, device);
}

API (cuDeviceTotalMem_v2, size_t *bytes, CUdevice device)
{
  CUresult r = api_enter (FALSE);
  if (!r)
    r = check_device (device);
  if (!r)
    *bytes = sim_config.memory;
  RETURN (r);
}

static int
attribute (int which)
{
  guint cc = sim_config.capability;
  switch (which) {
    case 1: /* threads a block */
    case 2:
    case 3:
      return 1024;
    case 4:
      return 64;
    case 5: /* the grid */
      return G_MAXINT;
    case 6:
    case 7:
      return 65535;
    case 8: /* shared memory a block */
      return 48 * 1024;
    case 9: /* constant memory */
      return 64 * 1024;
    case 10:
      return SIM_LANES;
    case 11: /* pitch */
      return G_MAXINT;
    case 12: /* registers a block */
    case 82: /* and a processor */
      return 65536;
    case 13: /* kHz */
      return 1980000;
    case 14: /* texture alignment */
      return 512;
    case 16: /* processors */
      if (sim_config.processors)
        return (int)sim_config.processors;
      if (sim_config.card)
        return (int)sim_card ()->processors;
      return cc == 90 ? 132 : cc == 80 ? 108 : cc == 75 ? 40 : 84;
    case 19: /* mapped memory */
    case 31: /* kernels side by side */
    case 41: /* one address space */
    case 78: /* priorities */
    case 95: /* cooperative launch */
      return 1;
    case 36:
      return 2619000;
    case 37:
      return 5120;
    case 38: /* L2 */
      return 50 * 1024 * 1024;
    case 39: /* threads a processor */
      return cc == 75 ? 1024 : cc == 80 || cc == 90 ? 2048 : 1536;
    case 40: /* copy engines */
      return 3;
    case 75:
      return (int)cc / 10;
    case 76:
      return (int)cc % 10;
    case 81: /* shared memory a processor */
      return (int)sim_shared_limit () + 1024;
    case 97: /* shared memory a block, on demand */
      return (int)sim_shared_limit ();
    case 106: /* blocks a processor */
      return cc == 75 ? 16 : 32;
    case 111:
      return 1024;
    case 120: /* clusters */
      return cc >= 90;
    default:
      return 0;
  }
}

API (cuDeviceGetAttribute, int *value, int which, CUdevice device)
{
  CUresult r = api_enter (FALSE);
  if (!r)
    r = value ? check_device (device) : CUDA_ERROR_INVALID_VALUE;
  if (!r)
    *value = attribute (which);
  RETURN (r);
}

API (cuDevicePrimaryCtxRetain, CUcontext *context, CUdevice device)
{
  CUresult r = api_enter (FALSE);
  if (!r)
    r = context ? check_device (device) : CUDA_ERROR_INVALID_VALUE;
  if (r)
    RETURN (r);
  struct SimContext *c = primary[device];
  if (!c) {
    c = primary[device] = g_new0 (struct SimContext, 1);
    c->device = device;
    c->streams = g_ptr_array_new ();
    c->modules = g_ptr_array_new ();
    c->legacy = stream_new (c, 0);
  }
  c->retained++;
  *context = c;
  RETURN (CUDA_SUCCESS);
}

static void
find_leak (SimAllocation *a, gpointer data)
{
  if (!a->is_module)
    g_array_append_val ((GArray *)data, a->address);
}

/* With its last user a context goes, and all that was left in it: that is
 * counted, since it should not have been there. */
static void
reset (struct SimContext *c)
{
  GArray *left = g_array_new (FALSE, FALSE, sizeof (guint64));
  if (!c->sticky)
    streams_run_all (c);
  c->sticky = CUDA_SUCCESS;
  sim_stats.leaks += c->modules->len + c->streams->len - 1;
  while (c->modules->len) {
    SimModule *module = c->modules->pdata[0];
    g_ptr_array_remove_index (c->modules, 0);
    sim_counts_keep (module);
    sim_module_free (module);
  }
  for (guint i = c->streams->len; i-- > 0;)
    if (c->streams->pdata[i] != c->legacy)
      stream_free (c->streams->pdata[i]);
  g_queue_clear_full (c->legacy->queue, node_unref);
  sim_memory_foreach (find_leak, left);
  sim_stats.leaks += left->len;
  for (guint i = 0; i < left->len; i++)
    sim_free (g_array_index (left, guint64, i));
  g_array_unref (left);
}

API (cuDevicePrimaryCtxRelease_v2, CUdevice device)
{
  CUresult r = api_enter (FALSE);
  if (r == CUDA_ERROR_UNKNOWN)
    r = CUDA_SUCCESS; /* letting go works with a lost device too */
  if (!r)
    r = check_device (device);
  if (r)
    RETURN (r);
  struct SimContext *c = primary[device];
  if (!c || !c->retained)
    RETURN (CUDA_ERROR_INVALID_CONTEXT);
  if (--c->retained == 0)
    reset (c);
  RETURN (CUDA_SUCCESS);
}

API (cuDevicePrimaryCtxSetFlags_v2, CUdevice device, unsigned int flags)
{
  CUresult r = api_enter (FALSE);
  (void)flags;
  RETURN (r ? r : check_device (device));
}

API (cuDevicePrimaryCtxGetState, CUdevice device, unsigned int *flags,
    int *active)
{
  CUresult r = api_enter (FALSE);
  if (!r)
    r = check_device (device);
  if (!r) {
    *flags = 0;
    *active = primary[device] && primary[device]->retained;
  }
  RETURN (r);
}

API (cuCtxPushCurrent_v2, CUcontext context)
{
  CUresult r = api_enter (FALSE);
  if (r == CUDA_ERROR_UNKNOWN)
    r = CUDA_SUCCESS;
  if (!r && (!context || !context->retained))
    r = CUDA_ERROR_INVALID_CONTEXT;
  if (!r)
    g_ptr_array_add (stack (), context);
  RETURN (r);
}

API (cuCtxPopCurrent_v2, CUcontext *context)
{
  CUresult r = api_enter (FALSE);
  if (r == CUDA_ERROR_UNKNOWN)
    r = CUDA_SUCCESS;
  if (!r && !stack ()->len)
    r = CUDA_ERROR_INVALID_CONTEXT;
  if (!r) {
    if (context)
      *context = api_context ();
    g_ptr_array_remove_index (stack (), stack ()->len - 1);
  }
  RETURN (r);
}

API (cuCtxSetCurrent, CUcontext context)
{
  CUresult r = api_enter (FALSE);
  if (r)
    RETURN (r);
  if (stack ()->len)
    g_ptr_array_remove_index (stack (), stack ()->len - 1);
  if (context)
    g_ptr_array_add (stack (), context);
  RETURN (CUDA_SUCCESS);
}

API (cuCtxGetCurrent, CUcontext *context)
{
  CUresult r = api_enter (FALSE);
  if (!r)
    *context = api_context ();
  RETURN (r);
}

API (cuCtxGetDevice, CUdevice *device)
{
  ENTER ();
  *device = api_context ()->device;
  RETURN (CUDA_SUCCESS);
}

API (cuCtxSynchronize, void)
{
  ENTER ();
  SYNCHRONOUS ();
  sim_stats.waits++;
  RETURN (streams_run_all (api_context ()));
}

API (cuCtxGetStreamPriorityRange, int *least, int *greatest)
{
  ENTER ();
  if (least)
    *least = 0;
  if (greatest)
    *greatest = -5;
  RETURN (CUDA_SUCCESS);
}
