/* The CUDA backend: memory, graphs, and who sits where in a batch.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A step is one launch and one wait: a graph of all kernels, captured once for
 * each batch size and replayed unchanged. Callers that come while a step is
 * under way wait for it together and share the next one, so many streams cost
 * few launches without anybody waiting for company.
 */
#include "../engine/backend.h"
#include "frame.h"
#include "state.h"

#include <string.h>

#define MAX_BATCH_LOG2 8
#define MAX_BATCH (1u << MAX_BATCH_LOG2)
/* States are allocated this many at a time: the driver hands out memory in
 * pieces of 2 MB. */
#define CHUNK 8

G_STATIC_ASSERT (MIMI_STEP_NORMALIZED == MIMI_CUDA_NORMALIZED);
G_STATIC_ASSERT (MIMI_STEP_LATENT == MIMI_CUDA_LATENT);
G_STATIC_ASSERT (MIMI_STEP_EMBEDDING == MIMI_CUDA_EMBEDDING);
G_STATIC_ASSERT (MIMI_STEP_CODES == MIMI_CUDA_CODES);

typedef struct {
  CUdeviceptr state;
  guint64 frame; /* since its state was fresh */
} Slot;

/* One batch size. */
typedef struct {
  MimiCudaBatch device;
  CUgraphExec graph;
  CUdeviceptr memory; /* activations, entries and status */
  guint8 *pinned;     /* entries, rows, overflow, PCM */
  MimiEntry *entries;
  guint8 *rows;
  guint32 *overflow;
  guint8 *pcm;
} Batch;

/* A caller of step(), on its own stack. */
typedef struct _Request {
  MimiStepItem *items;
  guint n_items, taken, finished;
  struct _Request *next;
} Request;

typedef struct {
  const MimiCuda *cuda;
  MimiCudaDevice device;
  CUcontext context;
  CUstream stream;
  MimiNetwork network;
  MimiCudaWeights weights;
  MimiCudaFrame frame;

  GMutex lock; /* of what follows */
  GCond changed;
  GPtrArray *free_slots; /* Slot */
  GArray *chunks;        /* CUdeviceptr */
  guint n_slots;
  Batch *batches[MAX_BATCH_LOG2 + 1]; /* by log2 of the size; NULL: not yet */
  Request *first, *last;
  gboolean busy; /* somebody runs a step */
  GError *failure;
} Cuda;

/* ---------------------------------------------------------------- memory - */

static gboolean
enter (Cuda *self, GError **error)
{
  return CHECK (self->cuda, error, CtxPushCurrent, (self->context));
}

static void
leave (Cuda *self)
{
  CUcontext context;

  self->cuda->CtxPopCurrent (&context);
}

static void
batch_free (Cuda *self, Batch *batch)
{
  if (batch->graph)
    self->cuda->GraphExecDestroy (batch->graph);
  if (batch->memory)
    self->cuda->MemFree (batch->memory);
  if (batch->pinned)
    self->cuda->MemFreeHost (batch->pinned);
  g_free (batch);
}

/* Buffers and graph for `entries` streams. Captured on a stream of its own,
 * so that others may be decoding meanwhile. */
static Batch *
batch_new (Cuda *self, guint entries, GError **error)
{
  const MimiCuda *cuda = self->cuda;
  MimiCudaFrame *frame = &self->frame;
  Batch *batch = g_new0 (Batch, 1);
  gsize activations = (gsize)entries * frame->scratch_length * sizeof (gfloat);
  gsize rows_at = entries * sizeof (MimiEntry);
  gsize overflow_at = rows_at + (gsize)entries * frame->row_bytes;
  gsize pcm_at = (overflow_at + entries * sizeof (guint32) + 127) / 128 * 128;
  gsize pinned = pcm_at + entries * MIMI_CUDA_PCM_BYTES;
  CUdeviceptr host;
  CUstream stream = NULL;
  CUgraph graph = NULL;
  gboolean ok;

  ok =
      CHECK (cuda, error, MemAlloc,
          (&batch->memory, activations + entries * sizeof (MimiEntry) +
                               entries * sizeof (guint32))) &&
      CHECK (cuda, error, MemHostAlloc,
          ((gpointer *)&batch->pinned, pinned,
              CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)) &&
      CHECK (cuda, error, MemHostGetDevicePointer, (&host, batch->pinned, 0)) &&
      /* Columns that a small layer does not fill are read, if not used. */
      CHECK (cuda, error, MemsetD32, (batch->memory, 0, activations / 4));
  if (!ok)
    goto fail;
  memset (batch->pinned, 0, pinned);
  batch->entries = (MimiEntry *)batch->pinned;
  batch->rows = batch->pinned + rows_at;
  batch->overflow = (guint32 *)(batch->pinned + overflow_at);
  batch->pcm = batch->pinned + pcm_at;

  batch->device.entries = entries;
  batch->device.scratch = batch->memory;
  batch->device.device_entry = batch->memory + activations;
  batch->device.status =
      batch->device.device_entry + entries * sizeof (MimiEntry);
  batch->device.host_entry = host;
  batch->device.host_rows = host + rows_at;
  batch->device.host_overflow = host + overflow_at;
  batch->device.host_pcm = host + pcm_at;

  ok = CHECK (cuda, error, StreamCreate, (&stream, CU_STREAM_NON_BLOCKING)) &&
       CHECK (cuda, error, StreamBeginCapture,
           (stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  if (ok) {
    ok = mimi_cuda_frame_launch (frame, &batch->device, stream, error);
    /* A capture has to be ended even when it failed. */
    ok = CHECK (cuda, ok ? error : NULL, StreamEndCapture, (stream, &graph)) &&
         ok;
  }
  ok = ok && CHECK (cuda, error, GraphInstantiate, (&batch->graph, graph, 0));
  if (graph)
    cuda->GraphDestroy (graph);
  if (stream)
    cuda->StreamDestroy (stream);
  if (ok)
    return batch;

fail:
  batch_free (self, batch);
  return NULL;
}

/* Has ready, before they are needed, the batch sizes that `n` streams can fill:
 * a step never allocates. With the context current. */
static gboolean
prepare_batches (Cuda *self, guint n, GError **error)
{
  guint i;

  for (i = 0; i <= MAX_BATCH_LOG2 && (i == 0 || n > 1u << (i - 1)); i++) {
    Batch *batch = NULL;
    gboolean missing;

    g_mutex_lock (&self->lock);
    missing = !self->batches[i];
    g_mutex_unlock (&self->lock);
    if (!missing)
      continue;
    batch = batch_new (self, 1u << i, error);
    if (!batch)
      return FALSE;
    g_mutex_lock (&self->lock);
    if (!self->batches[i]) {
      self->batches[i] = batch;
      batch = NULL;
    }
    g_mutex_unlock (&self->lock);
    if (batch) /* another thread was faster */
      batch_free (self, batch);
  }
  return TRUE;
}

/* With the lock and the context. */
static gboolean
add_slots (Cuda *self, GError **error)
{
  gsize size = self->frame.state_length * sizeof (gfloat);
  CUdeviceptr memory;
  guint i;

  if (!CHECK (self->cuda, error, MemAlloc, (&memory, CHUNK * size)))
    return FALSE;
  g_array_append_val (self->chunks, memory);
  if (!CHECK (self->cuda, error, MemsetD32, (memory, 0, CHUNK * size / 4)))
    return FALSE;
  for (i = 0; i < CHUNK; i++) {
    Slot *slot = g_new0 (Slot, 1);
    slot->state = memory + i * size;
    g_ptr_array_add (self->free_slots, slot);
  }
  return TRUE;
}

static gpointer
cuda_slot_new (gpointer data, guint threads, GError **error)
{
  Cuda *self = data;
  Slot *slot = NULL;
  guint n = 0;

  (void)threads;
  if (!enter (self, error))
    return NULL;
  g_mutex_lock (&self->lock);
  if (self->free_slots->len > 0 || add_slots (self, error)) {
    slot = g_ptr_array_steal_index_fast (
        self->free_slots, self->free_slots->len - 1);
    slot->frame = 0;
    n = ++self->n_slots;
  }
  g_mutex_unlock (&self->lock);

  if (slot && !prepare_batches (self, MIN (n, MAX_BATCH), error)) {
    g_mutex_lock (&self->lock);
    g_ptr_array_add (self->free_slots, slot);
    self->n_slots--;
    g_mutex_unlock (&self->lock);
    slot = NULL;
  }
  leave (self);
  return slot;
}

static void
cuda_slot_free (gpointer data, gpointer slot)
{
  Cuda *self = data;

  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->free_slots, slot);
  self->n_slots--;
  g_mutex_unlock (&self->lock);
}

/* ---------------------------------------------------------------- steps -- */

static void
fill_entry (Cuda *self, Batch *batch, guint i, const MimiStepItem *item)
{
  MimiEntry *entry = &batch->entries[i];
  guint8 *row = batch->rows + (gsize)i * self->frame.row_bytes;
  Slot *slot = item->slot;

  if (item->reset)
    slot->frame = 0;
  entry->state = slot->state;
  entry->frame = slot->frame;
  entry->fade_in = item->fade_in;
  entry->fade_position = item->position;
  entry->kind = item->kind;
  entry->n_codes = item->n_codes;
  entry->s16 = item->format == MIMI_PCM_S16;
  if (item->kind == MIMI_STEP_CODES)
    memcpy (row, item->codes, item->n_codes * sizeof *item->codes);
  else
    memcpy (row, item->values,
        (item->kind == MIMI_STEP_EMBEDDING ? self->network.width
                                           : self->network.latent_dim) *
            sizeof *item->values);
}

/* One launch, one wait. Only one thread at a time is here. */
static gboolean
run (Cuda *self, Batch *batch, MimiStepItem **items, guint n, GError **error)
{
  const MimiCuda *cuda = self->cuda;
  guint i;
  gboolean ok;

  for (i = 0; i < n; i++)
    fill_entry (self, batch, i, items[i]);
  for (; i < batch->device.entries; i++)
    batch->entries[i].state = 0; /* padding: its blocks leave at once */

  if (!enter (self, error))
    return FALSE;
  ok = CHECK (cuda, error, GraphLaunch, (batch->graph, self->stream)) &&
       CHECK (cuda, error, StreamSynchronize, (self->stream));
  leave (self);
  if (!ok)
    return FALSE;

  for (i = 0; i < n; i++) {
    Slot *slot = items[i]->slot;

    memcpy (items[i]->pcm, batch->pcm + i * MIMI_CUDA_PCM_BYTES,
        MIMI_FRAME_SAMPLES * (items[i]->format == MIMI_PCM_S16
                                     ? sizeof (gint16)
                                     : sizeof (gfloat)));
    items[i]->finite = batch->overflow[i] == 0;
    slot->frame++;
  }
  return TRUE;
}

/* The smallest batch that is ready and holds `n`, or the largest there is. */
static Batch *
choose_batch (Cuda *self, guint n)
{
  Batch *best = NULL;
  guint i;

  for (i = 0; i <= MAX_BATCH_LOG2 && self->batches[i]; i++) {
    best = self->batches[i];
    if (best->device.entries >= n)
      break;
  }
  return best;
}

/* Takes what has been asked for, oldest first, and runs it; with the lock,
 * which is released meanwhile. */
static void
serve (Cuda *self)
{
  MimiStepItem *items[MAX_BATCH];
  Request *owners[MAX_BATCH], *request;
  GError *error = NULL;
  Batch *batch;
  guint waiting = 0, n = 0, i;

  for (request = self->first; request && waiting < MAX_BATCH;
       request = request->next)
    waiting += request->n_items - request->taken;
  batch = choose_batch (self, MIN (waiting, MAX_BATCH));
  while (self->first && n < batch->device.entries) {
    request = self->first;
    owners[n] = request;
    items[n++] = &request->items[request->taken++];
    if (request->taken == request->n_items)
      self->first = request->next;
  }

  self->busy = TRUE;
  g_mutex_unlock (&self->lock);
  if (!run (self, batch, items, n, &error) && !error)
    g_set_error (&error, MIMI_ERROR, MIMI_ERROR_DEVICE, "the step failed");
  g_mutex_lock (&self->lock);
  self->busy = FALSE;
  if (error)
    self->failure = error;
  for (i = 0; i < n; i++)
    owners[i]->finished++;
  g_cond_broadcast (&self->changed);
}

static gboolean
cuda_step (gpointer data, MimiStepItem *items, guint n_items, GError **error)
{
  Cuda *self = data;
  Request request = { items, n_items, 0, 0, NULL };
  gboolean ok;

  if (n_items == 0)
    return TRUE;
  g_mutex_lock (&self->lock);
  if (self->first)
    self->last->next = &request;
  else
    self->first = &request;
  self->last = &request;

  while (request.finished < n_items && !self->failure) {
    if (self->busy)
      g_cond_wait (&self->changed, &self->lock);
    else
      serve (self);
  }
  ok = !self->failure;
  if (!ok) {
    /* Requests are on their callers' stacks: nobody may find them now. */
    while (self->busy)
      g_cond_wait (&self->changed, &self->lock);
    self->first = self->last = NULL;
    if (error)
      *error = g_error_copy (self->failure);
  }
  g_mutex_unlock (&self->lock);
  return ok;
}

/* ----------------------------------------------------------------- state - */

static gboolean
cuda_state_read (gpointer data, gpointer slot, gfloat *values, GError **error)
{
  Cuda *self = data;
  Slot *s = slot;
  gsize size = self->frame.state_length * sizeof (gfloat);
  gfloat *own = g_malloc (size);
  gboolean ok = FALSE;

  if (enter (self, error)) {
    ok = CHECK (self->cuda, error, MemcpyDtoH, (own, s->state, size));
    leave (self);
  }
  if (ok)
    mimi_cuda_state_read (&self->frame, own, s->frame, values);
  g_free (own);
  return ok;
}

static gboolean
cuda_state_write (gpointer data, gpointer slot, guint64 frames,
    const gfloat *values, GError **error)
{
  Cuda *self = data;
  Slot *s = slot;
  gsize size = self->frame.state_length * sizeof (gfloat);
  gfloat *own = g_malloc (size);
  gboolean ok = FALSE;

  mimi_cuda_state_write (&self->frame, own, frames, values);
  if (enter (self, error)) {
    ok = CHECK (self->cuda, error, MemcpyHtoD, (s->state, own, size));
    leave (self);
  }
  if (ok)
    s->frame = frames;
  g_free (own);
  return ok;
}

/* ------------------------------------------------------------- lifetime -- */

static void
cuda_close (gpointer data)
{
  Cuda *self = data;
  const MimiCuda *cuda = self->cuda;
  guint i;

  if (self->context && enter (self, NULL)) {
    for (i = 0; i <= MAX_BATCH_LOG2; i++)
      if (self->batches[i])
        batch_free (self, self->batches[i]);
    for (i = 0; i < self->chunks->len; i++)
      cuda->MemFree (g_array_index (self->chunks, CUdeviceptr, i));
    mimi_cuda_frame_clear (&self->frame);
    mimi_cuda_weights_clear (&self->weights, cuda);
    if (self->stream)
      cuda->StreamDestroy (self->stream);
    leave (self);
  }
  if (self->context)
    cuda->DevicePrimaryCtxRelease (self->device.device);
  g_array_unref (self->chunks);
  g_ptr_array_unref (self->free_slots);
  g_clear_error (&self->failure);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  g_free (self);
}

/* One frame that nobody hears: the module's code reaches the device, clocks
 * rise, and a GPU that cannot do its work is found out now. */
static gboolean
warm_up (Cuda *self, GError **error)
{
  const MimiNetwork *n = &self->network;
  gfloat *values = g_new0 (gfloat, MAX (n->width, n->latent_dim));
  gfloat *pcm = g_new0 (gfloat, MIMI_FRAME_SAMPLES);
  guint16 codes[MIMI_MAX_CODEBOOKS] = { 0 };
  MimiStepItem item = {
    .slot = cuda_slot_new (self, 1, error),
    .reset = TRUE,
    .kind = n->codebooks ? MIMI_STEP_CODES : MIMI_STEP_LATENT,
    .values = values,
    .codes = codes,
    .n_codes = n->codebooks,
    .pcm = pcm,
    .format = MIMI_PCM_F32,
  };
  gboolean ok = item.slot && cuda_step (self, &item, 1, error);

  if (item.slot)
    cuda_slot_free (self, item.slot);
  g_free (pcm);
  g_free (values);
  return ok;
}

static gpointer
cuda_open (MimiModel *model, const MimiDecoderOptions *options, GError **error)
{
  const MimiNetwork *network = mimi_model_get_network (model);
  const MimiCuda *cuda;
  MimiCudaDevice device;
  Cuda *self;
  gboolean ok;

  if (!mimi_cuda_frame_check (network, error))
    return NULL;
  cuda = mimi_cuda_get (error);
  if (!cuda ||
      !mimi_cuda_find_device (cuda, options->cuda_device, &device, error))
    return NULL;

  self = g_new0 (Cuda, 1);
  self->cuda = cuda;
  self->device = device;
  self->network = *network;
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  self->free_slots = g_ptr_array_new_with_free_func (g_free);
  self->chunks = g_array_new (FALSE, FALSE, sizeof (CUdeviceptr));

  if (!CHECK (cuda, error, DevicePrimaryCtxRetain,
          (&self->context, device.device))) {
    self->context = NULL;
    cuda_close (self);
    return NULL;
  }
  ok = enter (self, error);
  if (ok) {
    ok =
        CHECK (cuda, error, StreamCreate,
            (&self->stream, CU_STREAM_NON_BLOCKING)) &&
        mimi_cuda_weights_init (&self->weights, cuda, model, options->precision,
            mimi_cuda_frame_wants_matrix (&device, options->precision),
            error) &&
        mimi_cuda_frame_init (&self->frame, cuda, &device, &self->network,
            &self->weights, options->precision, error);
    leave (self);
  }
  if (!ok || !warm_up (self, error)) {
    cuda_close (self);
    return NULL;
  }
  return self;
}

static void
cuda_get_info (gpointer data, MimiDecoderInfo *info)
{
  Cuda *self = data;

  info->backend = "cuda";
  info->device = self->device.name;
  info->weights_bytes = self->weights.size;
  info->state_bytes = self->frame.state_length * sizeof (gfloat);
}

const MimiBackendOps mimi_backend_cuda = {
  .name = "cuda",
  .open = cuda_open,
  .close = cuda_close,
  .get_info = cuda_get_info,
  .slot_new = cuda_slot_new,
  .slot_free = cuda_slot_free,
  .step = cuda_step,
  .state_read = cuda_state_read,
  .state_write = cuda_state_write,
};
