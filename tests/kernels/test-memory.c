/* Memory that is not there: every large allocation fails once.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * How large arrays are says the checkpoint, so that they may be larger than what
 * is left: an error, and nothing lost. (GLib's small ones end the process, as
 * everywhere.) The C library's functions are replaced by those of this program.
 */
#define _GNU_SOURCE
#include "checkpoint.h"
#include "mimi.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifdef __has_feature /* clang's way to say so */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define __SANITIZE_ADDRESS__
#endif
#endif

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#include <execinfo.h>

#define LARGE (32 << 10) /* bytes */
#define REPLACES __attribute__ ((visibility ("default")))

void *__libc_malloc (size_t size);
void *__libc_calloc (size_t n, size_t size);
void *__libc_realloc (void *memory, size_t size);
void *__libc_memalign (size_t alignment, size_t size);

static gint left = -1; /* large allocations until one fails; -1: none will */

/* A simulated GPU asks too, and would have memory of its own. */
static gboolean
is_for_gpu (void)
{
  gpointer callers[12];
  gint n = backtrace (callers, G_N_ELEMENTS (callers)), i;
  Dl_info info;

  for (i = 0; i < n; i++)
    if (dladdr (callers[i], &info) && strstr (info.dli_fname, "libcuda"))
      return TRUE;
  return FALSE;
}

static gboolean
refuse (gsize size)
{
  return left >= 0 && size >= LARGE && !is_for_gpu () && left-- == 0;
}

REPLACES void *
malloc (size_t size)
{
  return refuse (size) ? NULL : __libc_malloc (size);
}

REPLACES void *
calloc (size_t n, size_t size)
{
  return refuse (n * size) ? NULL : __libc_calloc (n, size);
}

REPLACES void *
realloc (void *memory, size_t size)
{
  return refuse (size) ? NULL : __libc_realloc (memory, size);
}

REPLACES int
posix_memalign (void **memory, size_t alignment, size_t size)
{
  *memory = refuse (size) ? NULL : __libc_memalign (alignment, size);
  return *memory ? 0 : ENOMEM;
}

/* Opens, decodes a frame, saves and restores. */
static gboolean
work (const gchar *path, GError **error)
{
  MimiDecoderOptions options = { g_getenv ("MIMI_TEST_CUDA") ? MIMI_BACKEND_CUDA
                                                             : MIMI_BACKEND_CPU,
    -1, MIMI_PRECISION_FP32, FALSE };
  MimiModel *model = mimi_model_open (path, NULL, error);
  MimiDecoder *decoder = NULL;
  MimiStream *stream = NULL;
  gboolean ok = FALSE;

  if (model)
    decoder = mimi_decoder_get (model, &options, error);
  if (decoder)
    stream = mimi_stream_new (decoder, 2, error);
  if (stream) {
    const MimiNetwork *net = mimi_decoder_get_network (decoder);
    MimiRows rows = { net->codebooks ? MIMI_ROW_U16 : MIMI_ROW_F32,
      net->codebooks ? 1 : net->latent_dim, FALSE };
    static gfloat row[64], pcm[MIMI_FRAME_SAMPLES];
    static guint64 blob[1 << 18];
    gsize size = mimi_stream_get_state_size (stream);
    MimiResult result;

    g_assert_cmpuint (size, <=, sizeof blob);
    ok = mimi_stream_set_rows (stream, &rows, error) &&
         mimi_stream_decode (stream, row, 1, pcm, &result, error) &&
         mimi_stream_save (stream, blob, error) &&
         mimi_stream_restore (stream, blob, size, error);
    mimi_stream_free (stream);
  }
  if (decoder)
    mimi_decoder_unref (decoder);
  if (model)
    mimi_model_unref (model);
  return ok;
}

static void
test_each (gconstpointer name)
{
  gchar *path = checkpoint_path (name);
  guint n, failed = 0;
  gint unused;

  for (n = 0, unused = -1; unused < 0; n++) {
    GError *error = NULL;
    gboolean ok;

    left = n;
    ok = work (path, &error);
    unused = left;
    left = -1;
    g_assert_true (ok == (error == NULL));
    if (ok) /* none was left to fail, or one that could be done without */
      continue;
    g_assert_error (error, MIMI_ERROR, MIMI_ERROR_NO_MEMORY);
    g_assert_nonnull (strstr (error->message, "no memory"));
    g_assert_cmpint (unused, ==, -1);
    g_error_free (error);
    failed++;
  }
  g_test_message ("%u allocations, %u of them needed", n - 1, failed);
  g_assert_cmpuint (failed, >, 5);
  g_free (path);
}

int
main (int argc, char **argv)
{
  static const gchar *const names[] = { "pocket2m-pocket", "pocket2m-rawnorm",
    "tiny-pocket-BF16", "tinyfull-hf" };
  gpointer caller;
  guint i;

  g_test_init (&argc, &argv, NULL);
  backtrace (&caller, 1); /* loads what it needs, which allocates */
  for (i = 0; i < G_N_ELEMENTS (names); i++) {
    gchar *test = g_strdup_printf ("/memory/%s", names[i]);

    g_test_add_data_func (test, names[i], test_each);
    g_free (test);
  }
  return g_test_run ();
}

#else

int
main (void)
{
  puts ("1..0 # SKIP the C library's functions cannot be replaced here");
  return 0;
}

#endif
