/* mimidec: the decoder of Mimi speech latents and codes
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The whole public face of kernels/: a model is a checkpoint's decoder, opened
 * and checked; a decoder is a model on one device, with its weights laid out
 * for it; a stream is one utterance in progress and its state.
 *
 *   model    immutable, cheap to open (no weight is read)
 *   decoder  shared by everyone who asks for the same file, backend, device and
 *            precision: a second user costs its state, not a copy of the weights
 *   stream   used by one thread at a time; different streams of one decoder
 *            may be used by different threads at the same time
 *
 * Nothing here prints, exits or asserts on bad input: errors are GErrors of
 * the domain MIMI_ERROR, each naming the file, tensor or value at fault, what
 * was expected, and what to do.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define MIMI_SAMPLE_RATE 24000
/* One frame is 80 ms: one latent vector or one row of codes in, 1920 samples
 * out. */
#define MIMI_FRAME_SAMPLES 1920

/* So many frames of one stream can go through a backend's layers side by side:
 * consecutive ones, a run. Each more costs every stream memory, and gains less
 * than the one before. */
#define MIMI_LONGEST_RUN 8

#define MIMI_MAX_STAGES 4
#define MIMI_MAX_CODEBOOKS 32

/* -------------------------------------------------------------- errors --- */

#define MIMI_ERROR (mimi_error_quark ())

typedef enum {
  MIMI_ERROR_NOT_FOUND,   /* no such file, or a folder without a checkpoint */
  MIMI_ERROR_OPEN_READ,   /* it exists and cannot be read */
  MIMI_ERROR_WRONG_TYPE,  /* not safetensors, or no Mimi decoder inside */
  MIMI_ERROR_CORRUPT,     /* safetensors, but truncated or inconsistent */
  MIMI_ERROR_TENSOR,      /* a tensor is missing, misshapen or not finite */
  MIMI_ERROR_CONFIG,      /* a configuration is bad or contradicts tensors */
  MIMI_ERROR_UNSUPPORTED, /* understood, but not something we decode */
  MIMI_ERROR_NO_MEMORY,   /* of the host or the device */
  MIMI_ERROR_NO_DEVICE,   /* the backend that was asked for is not there */
  MIMI_ERROR_DEVICE,      /* the device failed; the decoder is unusable */
  MIMI_ERROR_INPUT        /* the caller's rows do not fit the network */
} MimiError;

GQuark mimi_error_quark (void);

/* --------------------------------------------------------------- model --- */

typedef enum { MIMI_GELU_ERF, MIMI_GELU_TANH } MimiGelu;

/* What a network looks like. Everything is known once a model is open.
 * Positions are the time steps of the transformer: `upsample` of them a frame.
 */
typedef struct {
  guint latent_dim; /* 32: values in a latent; 0: the network takes codes */
  gboolean has_statistics; /* emb_mean, emb_std: normalised latents work */
  guint codebooks;         /* 0 without a quantizer, else up to 32 */
  guint codebook_size;     /* 2048 */
  guint codebook_dim;      /* 256 */

  guint width;    /* channels of the transformer: 512 or 128 */
  guint upsample; /* positions a frame: 16 or 2; 25 or 200 Hz */
  guint layers, heads, head_dim, ffn;
  guint window; /* positions that attention sees, itself included */
  MimiGelu gelu;
  gdouble norm_eps;   /* 1e-5 */
  gdouble rope_theta; /* 10000 */

  guint first_kernel;            /* taps of the first convolution: 7 or 3 */
  guint residual_kernel;         /* taps of a residual block's first: 3 */
  guint last_kernel;             /* taps of the last convolution: 3 */
  guint stages;                  /* 3 or 4 */
  guint ratios[MIMI_MAX_STAGES]; /* 6 5 4 or 8 6 5 4 */
  guint channels[MIMI_MAX_STAGES + 1]; /* after the first convolution, and
                                          after each stage */
  guint hidden[MIMI_MAX_STAGES];       /* of each stage's residual block */
} MimiNetwork;

typedef struct _MimiModel MimiModel;

/* Opens a checkpoint: reads its header, finds the decoder's tensors and works
 * out the network. No tensor is read, so the cost does not depend on the size
 * of the file.
 *
 * path    a safetensors file, or a folder that holds one (links are followed)
 * config  a config.json or a pocket-tts YAML that says what shapes cannot;
 *         NULL looks for one beside the file
 * Returns a reference, or NULL with `error` set.
 */
MimiModel *mimi_model_open (
    const gchar *path, const gchar *config, GError **error);
MimiModel *mimi_model_ref (MimiModel *model);
void mimi_model_unref (MimiModel *model);

const MimiNetwork *mimi_model_get_network (const MimiModel *model);
/* The file that was opened, for messages. */
const gchar *mimi_model_get_path (const MimiModel *model);
/* One line for a log: the layout, the storage type, the size, and which rule
 * gave heads, window and GELU (config file, table of published decoders, or
 * the fallback). */
const gchar *mimi_model_describe (const MimiModel *model);
/* NULL, or why the answer to the above may be wrong: the documented fallback
 * was used. To be shown to the user as a warning. */
const gchar *mimi_model_get_warning (const MimiModel *model);

/* ------------------------------------------------------------- decoder --- */

typedef enum {
  MIMI_BACKEND_AUTO, /* a usable GPU, else the CPU */
  MIMI_BACKEND_CUDA,
  MIMI_BACKEND_CPU
} MimiBackend;

typedef enum {
  MIMI_PRECISION_FP32,
  MIMI_PRECISION_TF32,
  MIMI_PRECISION_BF16
} MimiPrecision;

typedef struct {
  MimiBackend backend;
  gint cuda_device; /* -1: the first usable one */
  MimiPrecision precision;
  /* Measures device_ns of MimiDecoderInfo, at a small cost. CUDA only. */
  gboolean timed;
} MimiDecoderOptions;

typedef struct {
  const gchar *backend;  /* "cpu", "cuda" */
  const gchar *device;   /* for people: "AVX2", "NVIDIA H200" */
  const gchar *note;     /* NULL, or why auto did not take the GPU */
  guint64 weights_bytes; /* once for all streams */
  guint64 state_bytes;   /* for each stream */
  guint streams;         /* now alive */
  /* What a GPU was asked to do since the decoder was opened: launches, each of
   * one frame or more; times that somebody waited for it; bytes that crossed
   * the bus (input, PCM, what describes them; state that was saved or
   * restored); nanoseconds that the launches took on the device, if it is
   * timed, see MimiDecoderOptions. */
  guint64 launches, waits, bytes_up, bytes_down, device_ns;
} MimiDecoderInfo;

typedef struct _MimiDecoder MimiDecoder;

/* Returns the decoder of `model` with these options: one that is alive, or a
 * new one with its weights checked (NaN and Inf are errors), laid out and
 * warmed up, so that the first frame pays for nothing. `model` may be
 * unreferenced afterwards. */
MimiDecoder *mimi_decoder_get (
    MimiModel *model, const MimiDecoderOptions *options, GError **error);
MimiDecoder *mimi_decoder_ref (MimiDecoder *decoder);
void mimi_decoder_unref (MimiDecoder *decoder);

const MimiNetwork *mimi_decoder_get_network (const MimiDecoder *decoder);
void mimi_decoder_get_info (MimiDecoder *decoder, MimiDecoderInfo *info);

/* -------------------------------------------------------------- stream --- */

/* How a row of input is written; all little-endian. */
typedef enum {
  MIMI_ROW_F32, /* latents */
  MIMI_ROW_F16,
  MIMI_ROW_U16, /* codes */
  MIMI_ROW_S32,
  MIMI_ROW_S64
} MimiRowFormat;

/* What the rows of a stream hold. */
typedef struct {
  MimiRowFormat format;
  /* Latents: the network's latent_dim, or its width (a vector as it leaves
   * the quantizer). Codes: codebooks a row, 1 to the network's. */
  guint length;
  /* Latents of latent_dim: TRUE if emb_mean and emb_std have still to be
   * applied. */
  gboolean normalized;
} MimiRows;

gsize mimi_rows_get_size (const MimiRows *rows); /* bytes a row */

typedef enum {
  MIMI_PCM_S16, /* clipped to [-1, 1], times 32767, rounded half to even */
  MIMI_PCM_F32  /* as the network gives it, not clipped */
} MimiPcm;

typedef struct {
  guint written;     /* frames of PCM written, silent ones included */
  guint concealed;   /* of these, silent ones in the place of a bad row */
  guint skipped;     /* rows of codes that say "no token yet": no PCM */
  guint runs;        /* times that a bad row followed a good one or a reset */
  guint longest;     /* bad rows in a row, those of earlier calls included */
  gchar reason[160]; /* why the first concealed one was */
} MimiResult;

typedef struct {
  guint64 frames, concealed, skipped, resets;
  /* Time spent decoding a frame, nanoseconds; 0 before the first. */
  guint64 median_ns, p99_ns, max_ns;
} MimiStreamStats;

typedef struct _MimiStream MimiStream;

/* threads: CPU threads that share the work of one frame; 0 is 1. The result
 * does not depend on it. */
MimiStream *mimi_stream_new (
    MimiDecoder *decoder, guint threads, GError **error);
void mimi_stream_free (MimiStream *stream);

/* Fails with MIMI_ERROR_INPUT, naming both numbers, when the network cannot
 * take such rows. Does not reset. */
gboolean mimi_stream_set_rows (
    MimiStream *stream, const MimiRows *rows, GError **error);
void mimi_stream_set_pcm (MimiStream *stream, MimiPcm format);
/* The first `samples` after every fresh state are faded in linearly, the
 * first one being 0 and the last unchanged; 0: not at all. */
void mimi_stream_set_fade_in (MimiStream *stream, guint64 samples);

/* The next frame starts from zero. Cheap, idempotent. */
void mimi_stream_reset (MimiStream *stream);

/* Decodes `n` rows into PCM; the result is the same for any split of the rows
 * into calls, and on a GPU up to eight of a call share a launch, which takes less
 * time than one by one. A row that cannot be decoded (NaN, Inf, a code
 * out of range, values so large that the network overflows) becomes a frame of
 * silence and resets the state: it is counted in `result` and is no error.
 *
 * rows    n rows, any alignment
 * pcm     room for n * 1920 samples; result->written * 1920 are written
 * Returns FALSE with `error` set only when the device failed; result->written
 * frames are there then too.
 */
gboolean mimi_stream_decode (MimiStream *stream, gconstpointer rows, guint n,
    gpointer pcm, MimiResult *result, GError **error);

/* Decodes one row of each of `n` streams of one decoder as n calls of
 * mimi_stream_decode() would: the same PCM, in as few launches as the device
 * can. A stream may be there several times in a row, with rows that follow each
 * other. For a program that serves many streams from one thread; streams of
 * several threads find each other without it.
 *
 * rows     a row of each stream
 * pcm      room for a frame of each
 * results  of each row
 * Returns FALSE with `error` set when the device failed, or the streams do not
 * belong together (MIMI_ERROR_INPUT; nothing was done).
 */
gboolean mimi_streams_decode (MimiStream *const *streams, guint n,
    gconstpointer const *rows, gpointer const *pcm, MimiResult *results,
    GError **error);

/* From any thread, as long as the stream lives. */
void mimi_stream_get_stats (MimiStream *stream, MimiStreamStats *stats);

/* A stream's whole state as one blob, to go on elsewhere: in any stream of a
 * decoder of the same network, whatever its device. The next frame is the same,
 * bit for bit on the same backend. Settings (rows, PCM, fade-in) are not in it.
 *
 * blob    mimi_stream_get_state_size() bytes, aligned for a float
 * Saving fails only when the device or the host's memory does. Restoring refuses a blob of another
 * version, network or size with MIMI_ERROR_INPUT and leaves the stream alone.
 */
gsize mimi_stream_get_state_size (MimiStream *stream);
gboolean mimi_stream_save (MimiStream *stream, gpointer blob, GError **error);
gboolean mimi_stream_restore (
    MimiStream *stream, gconstpointer blob, gsize size, GError **error);

/* Called after each stage of each frame with its output, [time][channel]; the
 * names are those of tests/reference/mimi_reference.py. For tests; slow. CPU
 * only: FALSE where the backend has no trace. */
typedef void (*MimiTraceFunc) (const gchar *stage, const gfloat *values,
    guint times, guint channels, gpointer user_data);
gboolean mimi_stream_set_trace (
    MimiStream *stream, MimiTraceFunc func, gpointer user_data);

G_END_DECLS
