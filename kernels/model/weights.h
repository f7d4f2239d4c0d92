/* The decoder's weights under one set of names, whatever the file's layout.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "../mimi.h"

G_BEGIN_DECLS

typedef enum { MIMI_DTYPE_F32, MIMI_DTYPE_F16, MIMI_DTYPE_BF16 } MimiDtype;

/* One tensor, row-major, in the file's own precision: in a file, or made of
 * others and in memory, or neither: the checkpoint does not have it. */
typedef struct {
  struct _MimiFile *file;
  guint64 offset; /* of the file, bytes */
  gconstpointer made;
  MimiDtype dtype;
  guint n_dims;
  guint64 shape[3];
} MimiTensor;

gboolean mimi_tensor_exists (const MimiTensor *tensor);

guint64 mimi_tensor_get_length (const MimiTensor *tensor); /* elements */

/* Converts `n` elements from index `first` on to float32 (exact). What cannot be
 * read is zero: mimi_model_check_unchanged() tells, after the last of them. */
void mimi_tensor_read (
    const MimiTensor *tensor, guint64 first, guint64 n, gfloat *out);

typedef struct {
  MimiTensor weight, bias; /* there may be no bias */
} MimiConv;

typedef struct {
  MimiTensor norm1_weight, norm1_bias; /* [width] */
  MimiTensor in_proj; /* [3 width][width]: q, k, v; head h is rows h*head_dim..;
                          interleaved rotary pairs (Kyutai's order) */
  MimiTensor out_proj;                 /* [width][width] */
  MimiTensor norm2_weight, norm2_bias; /* [width] */
  MimiTensor linear1;                  /* [ffn][width] */
  MimiTensor linear2;                  /* [width][ffn] */
  MimiTensor scale1, scale2;           /* [width]: layer scales */
} MimiLayerWeights;

typedef struct {
  MimiConv up;   /* weight [in][out][2 ratio]: transposed convolution */
  MimiConv res1; /* weight [hidden][channels][3] */
  MimiConv res2; /* weight [channels][hidden][1] */
} MimiStageWeights;

typedef struct {
  MimiTensor sum;   /* [codebook_size][codebook_dim] */
  MimiTensor usage; /* [codebook_size]: embedding = sum / max (usage, 1e-5) */
} MimiCodebook;

typedef struct {
  /* Those of latents or of codes may be missing. */
  MimiTensor emb_mean, emb_std;               /* [latent_dim] */
  MimiTensor latent_proj;                     /* [width][latent_dim] */
  MimiTensor first_proj, rest_proj;           /* [width][codebook_dim] */
  MimiCodebook codebooks[MIMI_MAX_CODEBOOKS]; /* 0: semantic, then acoustic */
  MimiTensor upsample;                        /* [width][1][2 upsample] */
  MimiLayerWeights *layers;                   /* network->layers of them */
  MimiConv first; /* weight [channels[0]][width][first_kernel] */
  MimiStageWeights stages[MIMI_MAX_STAGES];
  MimiConv last; /* weight [1][channels[stages]][last_kernel] */
} MimiWeights;

/* Valid as long as the model is. */
const MimiWeights *mimi_model_get_weights (const MimiModel *model);

/* Reads every tensor of the decoder once and refuses NaN and Inf, naming the
 * tensor and the element. */
gboolean mimi_model_check_values (const MimiModel *model, GError **error);

/* Whether everything that was read of the files came from what was opened, see
 * mimi_file_check_unchanged(). To be asked once the weights are laid out. */
gboolean mimi_model_check_unchanged (const MimiModel *model, GError **error);

G_END_DECLS
