/* The CPU backend: what the engine sees of kernels/cpu.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <string.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "cpu.h"

#define MAX_THREADS 64

/* Denormal numbers are taken for 0 while a frame is decoded: silence decays
 * into them, and each costs a hundred cycles. The caller's setting comes back
 * afterwards. */
#if defined(__SSE__)
#define FLUSH_DENORMALS 0x8040 /* FTZ, DAZ */

typedef guint FloatMode;

static FloatMode
float_mode_enter (void)
{
  FloatMode old = _mm_getcsr ();

  _mm_setcsr (old | FLUSH_DENORMALS);
  return old;
}

static void
float_mode_leave (FloatMode old)
{
  _mm_setcsr (old);
}
#elif defined(__aarch64__)
#define FLUSH_DENORMALS (1 << 24) /* FPCR.FZ */

typedef guint64 FloatMode;

static FloatMode
float_mode_enter (void)
{
  FloatMode old;

  __asm__ volatile("mrs %0, fpcr" : "=r"(old));
  __asm__ volatile("msr fpcr, %0" : : "r"(old | FLUSH_DENORMALS));
  return old;
}

static void
float_mode_leave (FloatMode old)
{
  __asm__ volatile("msr fpcr, %0" : : "r"(old));
}
#else
typedef gint FloatMode;

static FloatMode
float_mode_enter (void)
{
  return 0;
}

static void
float_mode_leave (FloatMode old)
{
  (void)old;
}
#endif

typedef struct {
  MimiCpuSlot *slot;
  MimiStepItem *item;
} Job;

static void
run_job (gpointer data, guint thread)
{
  Job *job = data;
  FloatMode old = float_mode_enter ();

  job->slot->cpu->kernels->frame (job->slot, job->item, thread);
  float_mode_leave (old);
}

static void
decode (MimiCpuSlot *slot, MimiStepItem *item)
{
  Job job = { slot, item };

  if (item->reset) {
    memset (slot->state.memory, 0, slot->state.memory_length * sizeof (gfloat));
    slot->state.position = 0;
  }
  slot->bad = FALSE;
  if (slot->team)
    mimi_cpu_team_run (slot->team, run_job, &job);
  else
    run_job (&job, 0);
  item->finite = !slot->bad;
  mimi_pcm_write (item, slot->scratch.pcm);
}

static void
cpu_close (gpointer self)
{
  MimiCpu *cpu = self;

  mimi_cpu_unpack (cpu);
  g_free (cpu->device);
  g_free (cpu);
}

/* The ring holds the window of the first new position and all new ones. A
 * block is 16 positions from a multiple of 16 on. */
static guint
count_blocks (const MimiNetwork *net)
{
  guint new_blocks = 16 % net->upsample == 0 ? 1 : (net->upsample + 30) / 16;

  return (net->window - 1 + 15) / 16 + new_blocks;
}

static gpointer
cpu_open (MimiModel *model, const MimiDecoderOptions *options, GError **error)
{
  MimiCpu *cpu = g_new0 (MimiCpu, 1);

  cpu->net = *mimi_model_get_network (model);
  cpu->wide =
      cpu->net.upsample == 16 && cpu->net.first_kernel <= MIMI_CPU_HALO16 + 1;
  cpu->blocks = count_blocks (&cpu->net);
  if (options->precision != MIMI_PRECISION_FP32) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_UNSUPPORTED,
        "the CPU backend decodes in fp32 only; ask for precision fp32");
    goto failed;
  }
  cpu->kernels = mimi_cpu_detect (error);
  if (cpu->kernels == NULL)
    goto failed;
  cpu->device = g_ascii_strup (cpu->kernels->name, -1);
  if (!mimi_cpu_pack (cpu, model, error))
    goto failed;
  return cpu;

failed:
  cpu_close (cpu);
  return NULL;
}

static void
cpu_get_info (gpointer self, MimiDecoderInfo *info)
{
  MimiCpu *cpu = self;

  info->backend = mimi_backend_cpu.name;
  info->device = cpu->device;
  info->weights_bytes = cpu->arena.used * sizeof (gfloat);
  info->state_bytes = mimi_cpu_state_size (cpu);
}

/* Every page that a frame touches is touched here, so that the first frame is
 * as fast as the others. */
static void
warm_up (MimiCpuSlot *slot)
{
  const MimiNetwork *net = &slot->cpu->net;
  gfloat *values = g_new0 (gfloat, net->width);
  gfloat *pcm = g_new0 (gfloat, MIMI_FRAME_SAMPLES);
  MimiStepItem item = { .reset = TRUE,
    .kind = MIMI_STEP_EMBEDDING,
    .values = values,
    .pcm = pcm,
    .format = MIMI_PCM_F32 };

  for (guint i = 0; i < 2; i++)
    decode (slot, &item);
  g_free (values);
  g_free (pcm);
  memset (slot->state.memory, 0, slot->state.memory_length * sizeof (gfloat));
  slot->state.position = 0;
}

static gpointer
cpu_slot_new (gpointer self, guint threads, GError **error)
{
  MimiCpuSlot *slot;

  slot = mimi_cpu_slot_new (self, CLAMP (threads, 1, MAX_THREADS), error);
  if (slot)
    warm_up (slot);
  return slot;
}

static void
cpu_slot_free (gpointer self, gpointer slot)
{
  (void)self;
  mimi_cpu_slot_free (slot);
}

static gboolean
cpu_step (gpointer self, MimiStepItem *items, guint n_items, GError **error)
{
  (void)self;
  (void)error;
  for (guint i = 0; i < n_items; i++) {
    gboolean follows = i > 0 && items[i].slot == items[i - 1].slot;

    if (follows && !items[i - 1].finite && !items[i].reset)
      items[i].finite = FALSE; /* nobody wants it */
    else
      decode (items[i].slot, &items[i]);
  }
  return TRUE;
}

static gboolean
cpu_state_read (gpointer self, gpointer slot, gfloat *values, GError **error)
{
  (void)self;
  (void)error;
  mimi_cpu_state_read (slot, values);
  return TRUE;
}

static gboolean
cpu_state_write (gpointer self, gpointer slot, guint64 frames,
    const gfloat *values, GError **error)
{
  (void)self;
  (void)error;
  mimi_cpu_state_write (slot, frames, values);
  return TRUE;
}

static void
cpu_set_trace (
    gpointer self, gpointer slot, MimiTraceFunc func, gpointer user_data)
{
  MimiCpuSlot *s = slot;

  (void)self;
  s->trace = func;
  s->trace_data = user_data;
}

const MimiBackendOps mimi_backend_cpu = {
  .name = "cpu",
  .open = cpu_open,
  .close = cpu_close,
  .get_info = cpu_get_info,
  .slot_new = cpu_slot_new,
  .slot_free = cpu_slot_free,
  .step = cpu_step,
  .state_read = cpu_state_read,
  .state_write = cpu_state_write,
  .set_trace = cpu_set_trace,
};
