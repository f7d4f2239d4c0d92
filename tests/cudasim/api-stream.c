/* Streams, events, capture
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "api.h"

static CUresult
create (CUstream *stream, unsigned int flags)
{
  if (!stream || flags > 1)
    return CUDA_ERROR_INVALID_VALUE;
  *stream = stream_new (api_context (), flags);
  return CUDA_SUCCESS;
}

API (cuStreamCreate, CUstream *stream, unsigned int flags)
{
  ENTER ();
  RETURN (create (stream, flags));
}

API (cuStreamCreateWithPriority, CUstream *stream, unsigned int flags,
    int priority)
{
  ENTER ();
  (void)priority;
  RETURN (create (stream, flags));
}

API (cuStreamDestroy_v2, CUstream stream)
{
  CUresult r = api_enter (TRUE);
  if (r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_INVALID_CONTEXT)
    RETURN (r);
  if (!stream_valid (stream) || stream == api_context ()->legacy)
    RETURN (CUDA_ERROR_INVALID_HANDLE);
  if (!r) /* what is queued still happens */
    r = stream_run (stream);
  stream_free (stream);
  RETURN (r);
}

API (cuStreamSynchronize, CUstream stream)
{
  ENTER ();
  SimStream *s = stream_of (stream);
  if (!stream_valid (s))
    RETURN (CUDA_ERROR_INVALID_HANDLE);
  SYNCHRONOUS ();
  sim_stats.waits++;
  if (sim_fails (&sim_fail.sync)) {
    api_log ("synchronising fails, on demand");
    RETURN (CUDA_ERROR_LAUNCH_FAILED);
  }
  RETURN (s == s->context->legacy ? streams_run_blocking (s->context)
                                  : stream_run (s));
}

API (cuStreamQuery, CUstream stream)
{
  ENTER ();
  SimStream *s = stream_of (stream);
  if (!stream_valid (s))
    RETURN (CUDA_ERROR_INVALID_HANDLE);
  SYNCHRONOUS ();
  if (g_queue_is_empty (s->queue))
    RETURN (CUDA_SUCCESS);
  CUresult r = stream_step (s);
  RETURN (r ? r : CUDA_ERROR_NOT_READY);
}

API (cuStreamGetFlags, CUstream stream, unsigned int *flags)
{
  ENTER ();
  *flags = stream_of (stream)->flags;
  RETURN (CUDA_SUCCESS);
}

/* ---- events ---- */

API (cuEventCreate, CUevent *event, unsigned int flags)
{
  ENTER ();
  if (!event)
    RETURN (CUDA_ERROR_INVALID_VALUE);
  *event = g_new0 (SimEvent, 1);
  (*event)->flags = flags;
  RETURN (CUDA_SUCCESS);
}

API (cuEventDestroy_v2, CUevent event)
{
  CUresult r = api_enter (TRUE);
  if (r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_INVALID_CONTEXT)
    RETURN (r);
  if (!event)
    RETURN (CUDA_ERROR_INVALID_HANDLE);
  if (!r) /* nodes in queues point to it */
    r = stream_run_until (event, event->recorded);
  g_free (event);
  RETURN (r);
}

/* 1: CU_EVENT_RECORD_EXTERNAL, which makes it a node of what is captured. */
static CUresult
record (CUevent event, CUstream stream, unsigned int flags)
{
  SimStream *s = stream_of (stream);
  if (!event || !stream_valid (s))
    return CUDA_ERROR_INVALID_HANDLE;
  if (flags > 1)
    return CUDA_ERROR_INVALID_VALUE;
  SimStream *origin = s->origin ? s->origin : s;
  if (origin->capture && flags) {
    SimNode *node = node_new (NODE_RECORD);
    node->event = event;
    return stream_add (s, node);
  }
  if (origin->capture) {
    event->captured = s;
    event->capture = origin->capture;
    return CUDA_SUCCESS;
  }
  event->captured = NULL;
  event->capture = NULL;
  event->stream = s;
  SimNode *n = node_new (NODE_RECORD);
  n->event = event;
  n->sequence = ++event->recorded;
  return stream_add (s, n);
}

API (cuEventRecord, CUevent event, CUstream stream)
{
  ENTER ();
  RETURN (record (event, stream, 0));
}

API (cuEventRecordWithFlags, CUevent event, CUstream stream, unsigned int flags)
{
  ENTER ();
  RETURN (record (event, stream, flags));
}

API (cuEventSynchronize, CUevent event)
{
  ENTER ();
  if (!event)
    RETURN (CUDA_ERROR_INVALID_HANDLE);
  if (event->captured)
    RETURN (CUDA_ERROR_CAPTURED_EVENT);
  SYNCHRONOUS ();
  sim_stats.waits++;
  RETURN (stream_run_until (event, event->recorded));
}

API (cuEventQuery, CUevent event)
{
  ENTER ();
  if (!event)
    RETURN (CUDA_ERROR_INVALID_HANDLE);
  if (event->captured)
    RETURN (CUDA_ERROR_CAPTURED_EVENT);
  SYNCHRONOUS ();
  if (event->done >= event->recorded)
    RETURN (CUDA_SUCCESS);
  CUresult r = stream_step (event->stream);
  RETURN (r ? r : CUDA_ERROR_NOT_READY);
}

static CUresult
elapsed (float *ms, CUevent start, CUevent end)
{
  if (!ms || !start || !end || (start->flags | end->flags) & 2 ||
      !start->recorded || !end->recorded)
    return CUDA_ERROR_INVALID_HANDLE;
  if (start->done < start->recorded || end->done < end->recorded)
    return CUDA_ERROR_NOT_READY;
  *ms = (float)(end->time - start->time) / 1000.0f;
  return CUDA_SUCCESS;
}

API (cuEventElapsedTime, float *ms, CUevent start, CUevent end)
{
  ENTER ();
  RETURN (elapsed (ms, start, end));
}

API (cuEventElapsedTime_v2, float *ms, CUevent start, CUevent end)
{
  ENTER ();
  RETURN (elapsed (ms, start, end));
}

API (cuStreamWaitEvent, CUstream stream, CUevent event, unsigned int flags)
{
  ENTER ();
  SimStream *s = stream_of (stream);
  (void)flags;
  if (!event || !stream_valid (s))
    RETURN (CUDA_ERROR_INVALID_HANDLE);
  if (event->captured) {
    SimStream *from = event->captured;
    SimStream *origin = from->origin ? from->origin : from;
    SimStream *mine = s->origin ? s->origin : s;
    if (origin->capture != event->capture)
      RETURN (CUDA_ERROR_CAPTURED_EVENT);
    if (mine->capture && mine != origin)
      RETURN (CUDA_ERROR_STREAM_CAPTURE_MERGE);
    if (!mine->capture) { /* this stream takes part from now on */
      s->origin = origin;
      s->joined = FALSE;
    }
    from->joined = TRUE;
    RETURN (CUDA_SUCCESS);
  }
  if ((s->origin ? s->origin : s)->capture)
    RETURN (CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  if (!event->recorded)
    RETURN (CUDA_SUCCESS);
  SimNode *n = node_new (NODE_WAIT);
  n->event = event;
  n->sequence = event->recorded;
  RETURN (stream_add (s, n));
}

/* ---- capture ---- */

API (cuStreamBeginCapture_v2, CUstream stream, int mode)
{
  ENTER ();
  if (mode < 0 || mode > 2)
    RETURN (CUDA_ERROR_INVALID_VALUE);
  SimStream *s = stream_of (stream);
  if (!stream_valid (s))
    RETURN (CUDA_ERROR_INVALID_HANDLE);
  if (s == s->context->legacy)
    RETURN (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (s->capture || s->origin)
    RETURN (CUDA_ERROR_ILLEGAL_STATE);
  s->capture = nodes_new ();
  s->capture_mode = mode;
  s->capture_thread = g_thread_self ();
  s->invalid = FALSE;
  RETURN (CUDA_SUCCESS);
}

API (cuStreamEndCapture, CUstream stream, CUgraph *graph)
{
  ENTER ();
  SimStream *s = stream_of (stream);
  if (!graph || !stream_valid (s))
    RETURN (CUDA_ERROR_INVALID_VALUE);
  *graph = NULL;
  if (s->origin)
    RETURN (CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (!s->capture)
    RETURN (CUDA_ERROR_ILLEGAL_STATE);
  if (s->capture_mode != 2 && s->capture_thread != g_thread_self ())
    RETURN (CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  gboolean joined = TRUE;
  for (guint i = 0; i < s->context->streams->len; i++) {
    SimStream *other = s->context->streams->pdata[i];
    if (other->origin == s) {
      joined &= other->joined;
      other->origin = NULL;
    }
  }
  GPtrArray *nodes = s->capture;
  s->capture = NULL;
  if (s->invalid || !joined) {
    g_ptr_array_unref (nodes);
    RETURN (s->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                       : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  }
  *graph = g_new0 (struct _SimGraph, 1);
  (*graph)->nodes = nodes;
  RETURN (CUDA_SUCCESS);
}

API (cuStreamIsCapturing, CUstream stream, int *status)
{
  ENTER ();
  SimStream *s = stream_of (stream);
  if (!status || !stream_valid (s))
    RETURN (CUDA_ERROR_INVALID_VALUE);
  SimStream *origin = s->origin ? s->origin : s;
  *status = !origin->capture ? 0 : origin->invalid ? 2 : 1;
  RETURN (CUDA_SUCCESS);
}

API (cuThreadExchangeStreamCaptureMode, int *mode)
{
  ENTER ();
  static GPrivate current;
  int before = GPOINTER_TO_INT (g_private_get (&current));
  if (!mode)
    RETURN (CUDA_ERROR_INVALID_VALUE);
  g_private_set (&current, GINT_TO_POINTER (*mode));
  *mode = before;
  RETURN (CUDA_SUCCESS);
}
