/* What the host and the kernels agree on.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Included by C and by CUDA C. Every kernel takes one of these structs, all of
 * whose fields are frozen when a graph is captured: whatever changes from one
 * frame to the next is in a MimiEntry, which kernels read from memory.
 *
 * Words: an entry is one stream's place in a batch; a tile is 16 consecutive
 * times of one entry; activations are [tile][channel][16 times] everywhere.
 * A layer with fewer than 16 times a frame fills the first columns of its only
 * tile.
 */
#pragma once

#define MIMI_CUDA_THREADS 256
#define MIMI_CUDA_TILE 16
/* K is summed in this many parts, whatever the shape of a launch, so that the
 * result does not depend on the batch. One warp sums a part, or all of them. */
#define MIMI_CUDA_PARTS 8
/* Queries an attention block handles, and the widest window it has room for. */
#define MIMI_CUDA_QUERIES 4
#define MIMI_CUDA_MAX_WINDOW 512
/* A layer's output beyond this counts as overflow: far above anything that is
 * sound, far enough below FLT_MAX for the next layer's sums to stay finite. */
#define MIMI_CUDA_HUGE 1e30f

/* MimiStepKind, in numbers that a kernel can see. */
#define MIMI_CUDA_NORMALIZED 0u
#define MIMI_CUDA_LATENT 1u
#define MIMI_CUDA_EMBEDDING 2u
#define MIMI_CUDA_CODES 3u

/* One frame of one stream. */
typedef struct {
  unsigned long long state; /* address of its state; 0: nobody sits here */
  unsigned long long frame; /* frames since its state was fresh */
  unsigned long long fade_in, fade_position; /* samples, see MimiStepItem */
  unsigned int kind;                         /* MimiStepKind */
  unsigned int n_codes;
  unsigned int s16; /* PCM: 1 for S16, 0 for F32 */
  unsigned int reserved;
} MimiEntry;

/* input.cu: a row as it came from the host -> the vector to be projected. */
typedef struct {
  const MimiEntry *from; /* mapped host memory */
  const void *rows;      /* mapped host memory, [entry][row_bytes] */
  MimiEntry *entries;
  unsigned int *status; /* [entry]: zeroed here, 1 once something overflowed */
  float *vector;        /* [entry][vector_stride] */
  const float *mean, *std; /* [latent], or NULL */
  const float *codebooks;  /* [book][size][dim], or NULL */
  unsigned int row_bytes, vector_stride;
  unsigned int latent, width, book_size, book_dim;
} MimiInputArgs;

/* front.cu: projection to the width, then the depthwise upsampling. */
typedef struct {
  const MimiEntry *entries;
  const float *vector;
  const float *projection; /* [width][length] */
  const float *upsample;   /* [width][2 times] */
  float *out;              /* [entry][width][16] */
  unsigned int vector_stride, out_stride;
  unsigned int width, length, times;
  unsigned int history; /* in the state, floats: [2 parities][width] */
} MimiFrontArgs;

/* gemm.cu: every dense layer. */
typedef struct {
  const MimiEntry *entries;
  unsigned int *status;
  const void *weights; /* see lanes.cuh, matrix.cuh */
  const float *bias;   /* [output channel]: of a convolution, or layer scale */
  const float *norm;   /* LayerNorm's gain[inputs], then offset[inputs] */
  const float *in;     /* [entry][in_stride] */
  float *out;          /* [entry][out_stride] */
  const unsigned long long *rope; /* [head_dim / 2]: turns a position, 2^-64 */
  unsigned int in_stride, out_stride;
  unsigned int n_entries;
  unsigned int inputs, outputs; /* channels; outputs: rows of the product */
  unsigned int stride;       /* outputs rounded up, as the weights have them */
  unsigned int part_rows;    /* inputs of each of the eight parts */
  unsigned int times, tiles; /* of the input, each frame */
  unsigned int history;      /* in the state: [2 parities][inputs][taps - 1] */
  unsigned int rows_log2;    /* outputs a block: 8..64, or 16 or 32 */
  unsigned int split;        /* warps that share a tile: 8, or 1 */
  unsigned int ratio;        /* of a transposed convolution */
  unsigned int ring, ring_blocks, head_dim; /* of keys and values */
  unsigned int gelu_tanh;
  float norm_eps;
} MimiGemmArgs;

/* attention.cu: softmax (q k) v over the window. */
typedef struct {
  const MimiEntry *entries;
  const float *query; /* [entry][stride]: [width][16] */
  float *out;         /* the same */
  unsigned int stride;
  unsigned int heads, times, window;
  unsigned int ring, ring_blocks;
} MimiAttentionArgs;

/* output.cu: the last convolution, fade-in and the PCM the host asked for. */
typedef struct {
  const MimiEntry *entries;
  const unsigned int *status;
  const float *in;        /* [entry][in_stride]: [120 tiles][inputs][16] */
  const float *weights;   /* [input][taps], then the bias */
  unsigned char *pcm;     /* mapped host memory, [entry][pcm_bytes] */
  unsigned int *overflow; /* mapped host memory, [entry] */
  unsigned int in_stride, pcm_bytes;
  unsigned int inputs;
  unsigned int history;
} MimiOutputArgs;
