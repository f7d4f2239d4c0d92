/* Who waits for a launch, and who shares the next one.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * All of it under the backend's lock.
 */
#pragma once

#include "../engine/backend.h"

G_BEGIN_DECLS

#define MIMI_CUDA_MAX_BATCH 256

/* A caller of step(), on its own stack. */
typedef struct _MimiCudaRequest {
  MimiStepItem *items;
  guint n_items;
  guint finished; /* frames of it that were decoded */
  guint first;    /* all before it have been taken */
  struct _MimiCudaRequest *next;
} MimiCudaRequest;

typedef struct {
  MimiCudaRequest *first, *last;
} MimiCudaQueue;

/* What a launch is to decode. */
typedef struct {
  MimiStepItem *items[MIMI_CUDA_MAX_BATCH];
  guint follows[MIMI_CUDA_MAX_BATCH]; /* items before it that are of its run */
  MimiCudaRequest *owners[MIMI_CUDA_MAX_BATCH];
  guint n;
} MimiCudaTurn;

void mimi_cuda_queue_push (MimiCudaQueue *queue, MimiCudaRequest *request);

/* Takes what a launch can do, oldest first, `most` frames at most. A slot has one
 * run in it, see MIMI_LONGEST_RUN, of rows of one kind, and whoever is left waits
 * for the next; so does whoever comes after him in his request and is of the same
 * slot, but not others. A request of which nothing is left leaves the queue, so
 * that its caller may leave too. */
void mimi_cuda_queue_take (
    MimiCudaQueue *queue, MimiCudaTurn *turn, guint most);

/* Whether item `i` is the last of its run. */
gboolean mimi_cuda_turn_ends_run (const MimiCudaTurn *turn, guint i);

G_END_DECLS
