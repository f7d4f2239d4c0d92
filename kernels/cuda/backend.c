/* The CUDA backend: memory, graphs, and who sits where in a batch.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A step is one launch and one wait: a graph of all kernels, captured once for
 * each batch size and replayed unchanged. Callers that come while a step is
 * under way wait for it together and share the next one, so many streams cost
 * few launches without anybody waiting for company. A stream's frames that have
 * come together share it too, as a run.
 */
#include "../engine/backend.h"
#include "graph.h"
#include "queue.h"
#include "state.h"

#include <string.h>

#define MAX_BATCH_LOG2 8
/* States are allocated this many at a time: the driver hands out memory in
 * pieces of 2 MB. */
#define CHUNK 8

G_STATIC_ASSERT (MIMI_CUDA_MAX_BATCH == 1 << MAX_BATCH_LOG2);
G_STATIC_ASSERT (MIMI_STEP_NORMALIZED == MIMI_CUDA_NORMALIZED);
G_STATIC_ASSERT (MIMI_STEP_LATENT == MIMI_CUDA_LATENT);
G_STATIC_ASSERT (MIMI_STEP_EMBEDDING == MIMI_CUDA_EMBEDDING);
G_STATIC_ASSERT (MIMI_STEP_CODES == MIMI_CUDA_CODES);

typedef struct {
  CUdeviceptr state;
  guint64 frame; /* since its state was fresh */
  guint copy;    /* of its histories, that the next launch reads */
} Slot;

/* See MimiDecoderInfo. */
typedef struct {
  guint64 launches, waits, bytes_up, bytes_down, device_ns;
} Counts;

typedef struct {
  const MimiCuda *cuda;
  MimiCudaDevice device;
  CUcontext context;
  CUstream stream;
  MimiNetwork network;
  MimiCudaWeights weights;
  MimiCudaFrame frame;
  gboolean timed;

  GMutex lock; /* of what follows */
  GCond changed;
  GPtrArray *free_slots; /* Slot */
  GArray *chunks;        /* CUdeviceptr */
  guint n_slots;
  /* By log2 of the size; NULL: not yet. */
  MimiCudaGraph *graphs[MAX_BATCH_LOG2 + 1];
  MimiCudaQueue queue;
  gboolean busy; /* somebody runs a step */
  Counts counts;
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

/* Has ready, before they are needed, the batch sizes that `n` streams can fill
 * with a frame each, or one with a run: a step never allocates. With the context
 * current. */
static gboolean
prepare_graphs (Cuda *self, guint n, GError **error)
{
  guint i;

  n = CLAMP (n, MIMI_LONGEST_RUN, MIMI_CUDA_MAX_BATCH);
  for (i = 0; i <= MAX_BATCH_LOG2 && (i == 0 || n > 1u << (i - 1)); i++) {
    MimiCudaGraph *graph = NULL;
    gboolean missing;

    g_mutex_lock (&self->lock);
    missing = !self->graphs[i];
    g_mutex_unlock (&self->lock);
    if (!missing)
      continue;
    graph = mimi_cuda_graph_new (&self->frame, 1u << i, self->timed, error);
    if (!graph)
      return FALSE;
    g_mutex_lock (&self->lock);
    if (!self->graphs[i]) {
      self->graphs[i] = graph;
      graph = NULL;
    }
    g_mutex_unlock (&self->lock);
    if (graph) /* another thread was faster */
      mimi_cuda_graph_free (graph, self->cuda);
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
  if (!mimi_cuda_clear (self->cuda, memory, CHUNK * size / 4, error))
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

  if (slot && !prepare_graphs (self, n, error)) {
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

/* Returns the bytes of the row. */
static gsize
fill_entry (Cuda *self, MimiCudaGraph *graph, const MimiCudaTurn *turn, guint i)
{
  const MimiStepItem *item = turn->items[i];
  MimiEntry *entry = &graph->entries[i];
  guint8 *row = graph->rows + (gsize)i * self->frame.row_bytes;
  Slot *slot = item->slot;
  gsize size;

  if (item->reset)
    slot->frame = 0;
  entry->state = slot->state;
  entry->frame = slot->frame + turn->follows[i];
  entry->follows = turn->follows[i];
  entry->ends = mimi_cuda_turn_ends_run (turn, i);
  entry->copy = slot->copy;
  entry->fade_in = item->fade_in;
  entry->fade_position = item->position;
  entry->kind = item->kind;
  entry->n_codes = item->n_codes;
  entry->s16 = item->format == MIMI_PCM_S16;
  if (item->kind == MIMI_STEP_CODES)
    size = item->n_codes * sizeof *item->codes;
  else
    size = (item->kind == MIMI_STEP_EMBEDDING ? self->network.width
                                              : self->network.latent_dim) *
           sizeof *item->values;
  memcpy (row,
      item->kind == MIMI_STEP_CODES ? (gconstpointer)item->codes : item->values,
      size);
  return size;
}

/* One launch, one wait. Only one thread at a time is here. */
static gboolean
run (Cuda *self, MimiCudaGraph *graph, const MimiCudaTurn *turn, Counts *counts,
    GError **error)
{
  guint entries = graph->device.entries, n = turn->n, i;
  gboolean ok;

  *counts = (Counts){
    .launches = 1, .waits = 1, .bytes_up = (guint64)entries * sizeof (MimiEntry)
  };
  for (i = 0; i < n; i++) {
    gsize size = fill_entry (self, graph, turn, i);

    /* mimi_enter reads the row before once more: see input.cu. */
    counts->bytes_up += size;
    if ((self->frame.spread || self->frame.alone) && turn->follows[i])
      counts->bytes_up += size;
    graph->overflow[i] = 0;
  }
  for (; i < entries; i++)
    graph->entries[i].state = 0; /* padding: its blocks leave at once */

  if (!enter (self, error))
    return FALSE;
  ok = mimi_cuda_graph_run (
      graph, self->cuda, self->stream, &counts->device_ns, error);
  leave (self);
  if (!ok)
    return FALSE;

  for (i = 0; i < n; i++) {
    MimiStepItem *item = turn->items[i];
    Slot *slot = item->slot;
    gsize size =
        MIMI_FRAME_SAMPLES *
        (item->format == MIMI_PCM_S16 ? sizeof (gint16) : sizeof (gfloat));

    memcpy (item->pcm, graph->pcm + i * MIMI_CUDA_PCM_BYTES, size);
    /* Written only by kernels that have something to say. */
    item->finite = graph->overflow[i] == 0;
    counts->bytes_down += size;
    slot->frame++;
    if (mimi_cuda_turn_ends_run (turn, i))
      slot->copy ^= 1;
  }
  return TRUE;
}

/* The smallest batch that is ready and holds `n`, or the largest there is. */
static MimiCudaGraph *
choose_graph (Cuda *self, guint n)
{
  MimiCudaGraph *best = NULL;
  guint i;

  for (i = 0; i <= MAX_BATCH_LOG2 && self->graphs[i]; i++) {
    best = self->graphs[i];
    if (best->device.entries >= n)
      break;
  }
  return best;
}

/* With the lock. */
static void
add_counts (Cuda *self, const Counts *counts)
{
  self->counts.launches += counts->launches;
  self->counts.waits += counts->waits;
  self->counts.bytes_up += counts->bytes_up;
  self->counts.bytes_down += counts->bytes_down;
  self->counts.device_ns += counts->device_ns;
}

/* Runs what a launch can take; with the lock, which is released meanwhile. */
static void
serve (Cuda *self)
{
  MimiCudaTurn turn;
  GError *error = NULL;
  MimiCudaGraph *graph;
  Counts counts;
  guint i;

  mimi_cuda_queue_take (&self->queue, &turn,
      choose_graph (self, MIMI_CUDA_MAX_BATCH)->device.entries);
  graph = choose_graph (self, turn.n);

  self->busy = TRUE;
  g_mutex_unlock (&self->lock);
  if (!run (self, graph, &turn, &counts, &error) && !error)
    g_set_error (&error, MIMI_ERROR, MIMI_ERROR_DEVICE, "the step failed");
  g_mutex_lock (&self->lock);
  self->busy = FALSE;
  if (error)
    self->failure = error;
  add_counts (self, &counts);
  for (i = 0; i < turn.n; i++)
    turn.owners[i]->finished++;
  g_cond_broadcast (&self->changed);
}

static gboolean
cuda_step (gpointer data, MimiStepItem *items, guint n_items, GError **error)
{
  Cuda *self = data;
  MimiCudaRequest request = { items, n_items, 0, 0, NULL };
  gboolean ok;
  guint i;

  if (n_items == 0)
    return TRUE;
  for (i = 0; i < n_items; i++)
    items[i].taken = FALSE;
  g_mutex_lock (&self->lock);
  mimi_cuda_queue_push (&self->queue, &request);
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
    self->queue = (MimiCudaQueue){ NULL, NULL };
    if (error)
      *error = g_error_copy (self->failure);
  }
  g_mutex_unlock (&self->lock);
  return ok;
}

/* ----------------------------------------------------------------- state - */

static gfloat *
new_state (const Cuda *self, GError **error)
{
  gsize size = self->frame.state_length * sizeof (gfloat);
  gfloat *values = g_try_malloc (size);

  if (!values)
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY,
        "no memory for a stream's state of %" G_GSIZE_FORMAT " bytes", size);
  return values;
}

static void
count_copy (Cuda *self, gsize up, gsize down)
{
  Counts counts = { .waits = 1, .bytes_up = up, .bytes_down = down };

  g_mutex_lock (&self->lock);
  add_counts (self, &counts);
  g_mutex_unlock (&self->lock);
}

static gboolean
cuda_state_read (gpointer data, gpointer slot, gfloat *values, GError **error)
{
  Cuda *self = data;
  Slot *s = slot;
  gsize size = self->frame.state_length * sizeof (gfloat);
  gfloat *own = new_state (self, error);
  gboolean ok = FALSE;

  if (own && enter (self, error)) {
    ok = CHECK (self->cuda, error, MemcpyDtoH, (own, s->state, size));
    leave (self);
    count_copy (self, 0, size);
  }
  if (ok)
    mimi_cuda_state_read (&self->frame, own, s->frame, s->copy, values);
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
  gfloat *own = new_state (self, error);
  gboolean ok = FALSE;

  if (!own)
    return FALSE;
  mimi_cuda_state_write (&self->frame, own, frames, s->copy, values);
  if (enter (self, error)) {
    ok = mimi_cuda_upload (self->cuda, s->state, own, size, error);
    leave (self);
    count_copy (self, size, 0);
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
      if (self->graphs[i])
        mimi_cuda_graph_free (self->graphs[i], cuda);
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
  self->timed = options->timed;
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
        mimi_cuda_frame_init (
            &self->frame, cuda, &device, &self->network, &self->weights, error);
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
  g_mutex_lock (&self->lock);
  info->launches = self->counts.launches;
  info->waits = self->counts.waits;
  info->bytes_up = self->counts.bytes_up;
  info->bytes_down = self->counts.bytes_down;
  info->device_ns = self->counts.device_ns;
  g_mutex_unlock (&self->lock);
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
