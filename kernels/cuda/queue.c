/* Who waits for a launch, and who shares the next one.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "queue.h"

void
mimi_cuda_queue_push (MimiCudaQueue *self, MimiCudaRequest *request)
{
  if (self->first)
    self->last->next = request;
  else
    self->first = request;
  self->last = request;
}

gboolean
mimi_cuda_turn_ends_run (const MimiCudaTurn *self, guint i)
{
  return i + 1 == self->n || self->follows[i + 1] == 0;
}

/* Whether item `i` of a request can be the next, and with how many before it of
 * its run. */
static gboolean
fits (const MimiCudaTurn *turn, const MimiCudaRequest *request, guint i,
    guint *follows)
{
  const MimiStepItem *item = &request->items[i], *before = item - 1;

  *follows = 0;
  if (item->taken)
    return FALSE;
  if (i == 0 || before->slot != item->slot)
    return TRUE;
  if (turn->n == 0 || turn->items[turn->n - 1] != before)
    return before->taken; /* for an earlier launch */
  *follows = turn->follows[turn->n - 1] + 1;
  return *follows < MIMI_LONGEST_RUN && !item->reset &&
         item->kind == before->kind && item->n_codes == before->n_codes;
}

static void
fill (const MimiCudaQueue *self, MimiCudaTurn *turn, guint most)
{
  MimiCudaRequest *request;
  guint i;

  turn->n = 0;
  for (request = self->first; request; request = request->next)
    for (i = request->first; i < request->n_items; i++) {
      if (turn->n == most)
        return;
      if (!fits (turn, request, i, &turn->follows[turn->n]))
        continue;
      turn->owners[turn->n] = request;
      turn->items[turn->n++] = &request->items[i];
      request->items[i].taken = TRUE;
    }
}

static void
tidy (MimiCudaQueue *self)
{
  MimiCudaRequest **link = &self->first, *request;

  self->last = NULL;
  while ((request = *link)) {
    while (request->first < request->n_items &&
           request->items[request->first].taken)
      request->first++;
    if (request->first == request->n_items) {
      *link = request->next;
    } else {
      self->last = request;
      link = &request->next;
    }
  }
}

void
mimi_cuda_queue_take (MimiCudaQueue *self, MimiCudaTurn *turn, guint most)
{
  fill (self, turn, most);
  tidy (self);
}
