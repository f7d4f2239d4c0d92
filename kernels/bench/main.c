/* mimi-bench: measures a decoder, or decodes a file with it.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#ifdef __linux__
#define _GNU_SOURCE
#include <sched.h>
#endif
#include <locale.h>

#include "bench.h"

static void
pin_to_cpu (gint cpu)
{
#ifdef __linux__
  cpu_set_t set;

  CPU_ZERO (&set);
  CPU_SET (cpu, &set);
  if (sched_setaffinity (0, sizeof set, &set) != 0)
    g_printerr ("cannot stay on processor %d; going on without\n", cpu);
#else
  (void)cpu;
#endif
}

static gboolean
find_backend (const gchar *name, MimiBackend *backend, GError **error)
{
  static const struct {
    const gchar *name;
    MimiBackend backend;
  } backends[] = { { "auto", MIMI_BACKEND_AUTO }, { "cpu", MIMI_BACKEND_CPU },
    { "cuda", MIMI_BACKEND_CUDA } };

  for (guint i = 0; i < G_N_ELEMENTS (backends); i++)
    if (name == NULL || g_str_equal (name, backends[i].name)) {
      *backend = backends[i].backend;
      return TRUE;
    }
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_NO_DEVICE,
      "--backend %s: expected auto, cpu or cuda", name);
  return FALSE;
}

static gboolean
find_precision (const gchar *name, MimiPrecision *precision, GError **error)
{
  static const gchar *const names[] = { "fp32", "tf32", "bf16" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (name == NULL || g_str_equal (name, names[i])) {
      *precision = (MimiPrecision)i;
      return TRUE;
    }
  g_set_error (error, MIMI_ERROR, MIMI_ERROR_UNSUPPORTED,
      "--precision %s: expected fp32, tf32 or bf16", name);
  return FALSE;
}

static gboolean
run (const gchar *path, BenchOptions *options, GError **error)
{
  MimiModel *model;
  MimiDecoder *decoder;
  gboolean good;

  if ((options->input != NULL) != (options->output != NULL)) {
    g_set_error (error, MIMI_ERROR, MIMI_ERROR_INPUT,
        "--input and --output go together");
    return FALSE;
  }
  options->decoder.cuda_device = options->cuda_device;
  if (!find_backend (options->backend, &options->decoder.backend, error) ||
      !find_precision (
          options->precision, &options->decoder.precision, error) ||
      !bench_check_batches (options, error))
    return FALSE;
  model = mimi_model_open (path, options->config, error);
  if (model == NULL)
    return FALSE;
  g_print ("model        %s: %s\n", mimi_model_get_path (model),
      mimi_model_describe (model));
  if (mimi_model_get_warning (model))
    g_printerr ("warning: %s\n", mimi_model_get_warning (model));
  decoder = mimi_decoder_get (model, &options->decoder, error);
  good = decoder &&
         (options->input      ? bench_decode (options, decoder, error)
             : options->batch ? bench_batches (options, model, decoder, error)
                              : bench_measure (options, decoder, error));
  if (decoder)
    mimi_decoder_unref (decoder);
  mimi_model_unref (model);
  return good;
}

int
main (int argc, char **argv)
{
  BenchOptions o = {
    .threads = 1, .frames = 300, .chunk = 1, .cpu = -1, .cuda_device = -1
  };
  gchar **paths = NULL;
  const GOptionEntry entries[] = {
    { "backend", 'b', 0, G_OPTION_ARG_STRING, &o.backend,
        "auto (a usable GPU, else the CPU), cpu or cuda", "NAME" },
    { "cuda-device-id", 0, 0, G_OPTION_ARG_INT, &o.cuda_device,
        "which GPU, counted from 0 (-1: the first usable one)", "N" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &o.precision,
        "fp32, tf32 or bf16 (a GPU has all of them)", "NAME" },
    { "config", 0, 0, G_OPTION_ARG_FILENAME, &o.config,
        "config.json or pocket-tts YAML that says what shapes cannot", "FILE" },
    { "threads", 't', 0, G_OPTION_ARG_INT, &o.threads,
        "CPU threads that share a frame (1)", "N" },
    { "codebooks", 'k', 0, G_OPTION_ARG_INT, &o.codebooks,
        "codes a row (8, or as many as there are)", "N" },
    { "frames", 'n', 0, G_OPTION_ARG_INT, &o.frames,
        "measure so many frames (300)", "N" },
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &o.seconds,
        "with --batch: end each measurement after so long", "S" },
    { "batch", 0, 0, G_OPTION_ARG_STRING, &o.batch,
        "measure so many streams of one decoder, stepping together: 1 to 1024, "
        "or a list as 1,8,64",
        "N[,N...]" },
    { "apart", 0, 0, G_OPTION_ARG_NONE, &o.apart,
        "with --batch: each stream in a thread of its own, as elements are",
        NULL },
    { "cpu", 0, 0, G_OPTION_ARG_INT, &o.cpu, "stay on this processor", "N" },
    { "input", 'i', 0, G_OPTION_ARG_FILENAME, &o.input,
        "decode this file instead of measuring: rows of latents (.f32, .f16) "
        "or codes (.u16, .s32, .s64)",
        "FILE" },
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &o.output,
        "raw PCM, float32, 24 kHz, mono, as the network gives it", "FILE" },
    { "s16", 0, 0, G_OPTION_ARG_NONE, &o.s16,
        "write clipped 16-bit PCM instead", NULL },
    { "chunk", 'c', 0, G_OPTION_ARG_INT, &o.chunk,
        "rows a call, with --batch of each stream; the result is the same (1)",
        "N" },
    { "denormalized", 0, 0, G_OPTION_ARG_NONE, &o.denormalized,
        "the latents were already multiplied by emb_std", NULL },
    { "dims", 0, 0, G_OPTION_ARG_INT, &o.dims,
        "values a latent (the network's own; its width is also good)", "N" },
    { "state", 0, 0, G_OPTION_ARG_STRING, &o.state,
        "device (it stays where it is) or host: saved after every measured "
        "frame and restored before the next, as programs do that pass it in "
        "and out; with --batch also both: device,host",
        "WHERE" },
    { "trace", 0, 0, G_OPTION_ARG_FILENAME, &o.trace,
        "also write every stage's output into this folder", "DIR" },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &paths, NULL,
        "MODEL" },
    { NULL, 0, 0, 0, NULL, NULL, NULL }
  };
  GOptionContext *context = g_option_context_new (NULL);
  GError *error = NULL;
  gboolean good;

  setlocale (LC_ALL, "");
  g_option_context_set_summary (context,
      "Decodes made-up latents or codes with MODEL (a safetensors file or its "
      "folder)\nand says how long a frame of 80 ms takes, beside how fast this "
      "machine multiplies\nand reads memory in the same seconds. With --input "
      "and --output, decodes a file.");
  g_option_context_set_description (context,
      "Environment:\n  MIMIDEC_CPU=c|avx2|avx512|neon  use these instructions "
      "(default: the best here)\n\nExamples:\n  mimi-bench --frames 500 --cpu "
      "0 "
      "model.safetensors\n  mimi-bench --backend cuda --batch 1,8,64 --state "
      "device,host "
      "model.safetensors\n  mimi-bench -i sentence.f32 -o pcm.f32 "
      "model.safetensors\n");
  g_option_context_add_main_entries (context, entries, NULL);
  good = g_option_context_parse (context, &argc, &argv, &error);
  g_option_context_free (context);
  if (good && (paths == NULL || paths[0] == NULL || paths[1] != NULL)) {
    g_printerr ("mimi-bench: name one model (mimi-bench --help)\n");
    g_strfreev (paths);
    return 2;
  }
  if (good) {
    if (o.cpu >= 0)
      pin_to_cpu (o.cpu);
    good = run (paths[0], &o, &error);
  }
  if (!good)
    g_printerr ("mimi-bench: %s\n", error->message);
  g_clear_error (&error);
  g_strfreev (paths);
  g_free (o.config);
  g_free (o.backend);
  g_free (o.state);
  g_free (o.batch);
  g_free (o.precision);
  g_free (o.input);
  g_free (o.output);
  g_free (o.trace);
  return good ? 0 : 1;
}
