/* Contexts, streams, graphs
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Work that is given to a stream waits in its queue until something
 * synchronises: a program that forgets to has not got its results yet.
 */
#pragma once

#include "config.h"

#include <string.h>

/* Declares and defines an entry point. */
#define API(name, ...) \
  CUDASIM_EXPORT CUresult name (__VA_ARGS__); \
  CUresult name (__VA_ARGS__)

struct SimContext {
  CUdevice device;
  guint retained;
  CUresult sticky; /* an error that stays */
  GPtrArray *streams;
  struct _SimStream *legacy; /* the default stream */
  GPtrArray *modules;
};

typedef enum {
  NODE_KERNEL,
  NODE_COPY,
  NODE_SET,
  NODE_RECORD,
  NODE_WAIT,
  NODE_HOST,
  NODE_GRAPH,
  NODE_EMPTY
} NodeType;

typedef enum { COPY_UP, COPY_DOWN, COPY_ACROSS } CopyKind;

typedef struct _SimNode SimNode;
struct _SimNode {
  gint refs;
  NodeType type;
  SimLaunch launch; /* KERNEL: what to run; params is its own */
  CopyKind copy;
  guint64 device; /* COPY up and down, SET */
  guint64 source; /* COPY across */
  void *host;
  gsize size;
  guint8 *staged; /* COPY up of memory that may change: taken at the call */
  guint32 value;  /* SET */
  guint width;
  struct _SimEvent *event;
  guint64 sequence; /* of the record that is waited for, or made */
  void (*func) (void *);
  void *data;
  GPtrArray *graph; /* GRAPH: SimNode, in a legal order */
};

typedef struct _SimStream SimStream;
struct _SimStream {
  struct SimContext *context;
  guint flags;
  GQueue *queue;      /* SimNode */
  GPtrArray *capture; /* NULL, or SimNode */
  SimStream *origin;  /* whose capture it takes part in */
  GThread *capture_thread;
  gint capture_mode;
  gboolean invalid; /* the capture is */
  gboolean joined;  /* what was forked has come back */
  /* The launch before, for programmatic dependent launch. */
  guint64 last_serial, last_floor, last_done;
  gboolean in_graph; /* a graph runs */
  gboolean last_is_kernel, last_early;
};

typedef struct _SimEvent SimEvent;
struct _SimEvent {
  guint flags;
  SimStream *stream; /* that it was recorded in last */
  guint64 recorded, done;
  gint64 time;
  SimStream *captured; /* recorded in a capture: its stream */
  GPtrArray *capture;
};

struct _SimGraph {
  GPtrArray *nodes;
};

struct _SimGraphExec {
  GPtrArray *nodes;
};

/* The lock that every entry point holds, and what it refuses. */
CUresult api_enter (gboolean needs_context);
CUresult api_leave (CUresult result);
struct SimContext *api_context (void);
/* The call may not be made while this thread captures: CUDA_ERROR_STREAM_
 * CAPTURE_UNSUPPORTED, and the capture is spoilt. */
CUresult api_not_captured (void);
void api_log (const gchar *format, ...) G_GNUC_PRINTF (1, 2);

#define ENTER() \
  do { \
    CUresult entered = api_enter (TRUE); \
    if (entered) \
      return api_leave (entered); \
  } while (0)
#define RETURN(result) return api_leave (result)
#define SYNCHRONOUS() \
  do { \
    CUresult captured = api_not_captured (); \
    if (captured) \
      RETURN (captured); \
  } while (0)

SimNode *node_new (NodeType type);
SimNode *node_ref (SimNode *node);
void node_unref (gpointer node);
SimNode *node_copy (const SimNode *node);
GPtrArray *nodes_new (void);

/* Takes the node; into the capture if there is one. */
CUresult stream_add (SimStream *stream, SimNode *node);
SimStream *stream_of (CUstream handle); /* NULL and the special ones too */
gboolean stream_valid (SimStream *stream);
CUresult stream_run (SimStream *stream);
CUresult stream_run_until (SimEvent *event, guint64 sequence);
CUresult streams_run_all (struct SimContext *context);
CUresult streams_run_blocking (struct SimContext *context);
/* Runs one thing, for those who poll. */
CUresult stream_step (SimStream *stream);
SimStream *stream_new (struct SimContext *context, guint flags);
void stream_free (SimStream *stream);

/* Checks a launch and fills a node with it. */
CUresult launch_node (SimKernel *kernel, const CUlaunchConfig *config,
    void **arguments, void **extra, SimNode **node);
