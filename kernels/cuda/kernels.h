/* What the host and the kernels agree on.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Included by C and by CUDA C. Every kernel takes one of these structs, all of
 * whose fields are frozen when a graph is captured: whatever changes from one
 * frame to the next is in a MimiEntry, which kernels read from memory.
 *
 * Words: an entry is one frame's place in a batch; entries side by side may be a
 * run: consecutive frames of one stream, oldest first. A tile is 16 consecutive
 * times of one entry; activations are [tile][channel][16 times] everywhere.
 * A layer with fewer than 16 times a frame fills the first columns of its only
 * tile.
 */
#pragma once

#define MIMI_CUDA_THREADS 256
#define MIMI_CUDA_TILE 16
/* K is summed in this many parts, or in a power of two times as many, whatever
 * the shape of a launch, so that the result does not depend on the batch. */
#define MIMI_CUDA_PARTS 8
/* Blocks of a cluster. */
#define MIMI_CUDA_RANKS 8
/* Latents that alone.cu can do. */
#define MIMI_CUDA_ALONE_LATENTS 32
/* Largest last stage that tail.cu can do, and partial sums of its samples. */
#define MIMI_CUDA_TAIL_CHANNELS 64
#define MIMI_CUDA_TAIL_HIDDEN 32
/* Its shared memory: see TailShared. */
#define MIMI_CUDA_TAIL_BYTES \
  (4 * (64 * 40 * 2 + 32 * 40 + 8 * 32 * 24 + 64 * 3))
#define MIMI_CUDA_SAMPLE_PARTS 16
/* Outputs x times of a block of split.cuh. */
#define MIMI_CUDA_SPLIT_SUMS 1024
/* Outputs of a block of split_up.cu that has 24 or 40 columns, and its shared
 * memory: sums, which take more than inputs of 256 channels. */
#define MIMI_CUDA_COLUMNS_ROWS(columns) ((columns) == 24 ? 64 : 32)
#define MIMI_CUDA_COLUMNS_BYTES(columns) \
  (4 * 8 * ((columns) == 24 ? 24 * 76 : 20 * 72))
/* Shared memory of a block of whole.cu that makes 16 or 32 columns: inputs and
 * sums in one place, hidden channels and outputs in another, biases. */
#define MIMI_CUDA_WHOLE_BYTES(columns) \
  (4 * (8 * 8 * ((columns) == 32 ? 144 : 136) + \
           2 * 1024 / (columns) * (8 + (columns)) + 3 * 1024 / (columns) + \
           ((columns) == 32 ? 196 : 4)))
/* Channels that a warp of split.cuh takes between two branches: a part has
 * a multiple of them. */
#define MIMI_CUDA_SPLIT_STEP(taps) ((taps) == 1 ? 4 : (taps) == 7 ? 1 : 2)
/* Threads, outputs and tiles of a block of many.cuh, channels that it has at
 * once, and its shared memory: see many(). */
#define MIMI_CUDA_MANY_THREADS 128
#define MIMI_CUDA_MANY_ROWS 64
#define MIMI_CUDA_MANY_TILES 4
#define MIMI_CUDA_MANY_SLAB 32
#define MIMI_CUDA_MANY_BYTES (4 * (2 * 4 * 32 * 24 + 64 * 64))
/* Of a block of block.cuh. */
#define MIMI_CUDA_MANY_BLOCK_BYTES(channels, hidden) \
  (4 * 4 * 32 * 24 * (((channels) + 31) / 32 + ((hidden) + 31) / 32))
/* Columns of a channel as pairs.cuh has it, H of them of the past. */
#define MIMI_CUDA_PAIRS_COLUMNS(h) \
  ((h) > 0 ? (MIMI_CUDA_TILE + (h)) | 1 : MIMI_CUDA_TILE)
/* Queries that a block of attention.cu handles, and the widest window that it
 * and attend.cu have room for. */
#define MIMI_CUDA_QUERIES 4
#define MIMI_CUDA_MAX_WINDOW 512
/* Blocks of 16 positions that a block of split_attention.cu has room for, and
 * how many blocks share a head at most; what each leaves for the last: sums,
 * largest scores, sums of weights. */
#define MIMI_CUDA_ATTENTION_SHARE 4
#define MIMI_CUDA_ATTENTION_RANKS 16
#define MIMI_CUDA_ATTENTION_SUMS(dim) (16 * ((dim) + 2))
/* The widest window that layer.cu has room for, and its shared memory apart from
 * scores and window. */
#define MIMI_CUDA_LAYERS_WINDOW 256
#define MIMI_CUDA_LAYERS_ROOM (47 * 1024)
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
  unsigned short kind; /* MimiStepKind: one for a run, as n_codes is */
  unsigned short n_codes;
  unsigned short s16;     /* PCM: 1 for S16, 0 for F32 */
  unsigned short follows; /* entries before this one that are of its run */
  unsigned short ends; /* 1 for the last of its run, which writes histories */
  unsigned short copy; /* of the histories, to be read: 0 or 1 */
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
  unsigned int usual_bytes; /* of a row, if it is of the usual kind */
  unsigned int latent, width, book_size, book_dim;
} MimiInputArgs;

/* input.cu: projection to the width, then the depthwise upsampling. */
typedef struct {
  const MimiEntry *entries;
  const float *vector;
  const float *projection; /* [width][length] */
  const float *upsample;   /* [width][2 times] */
  float *out;              /* [entry][width][16] */
  float *moments;          /* [entry][slice][16][2], see moments.cuh */
  unsigned int vector_stride, out_stride;
  unsigned int width, length, times, slice_log2;
  unsigned int history; /* in the state, floats: [2 copies][width] */
} MimiFrontArgs;

/* Both at once. */
typedef struct {
  MimiInputArgs input;
  MimiFrontArgs front;
} MimiEnterArgs;

/* gemm.cu: every dense layer. */
typedef struct {
  const MimiEntry *entries;
  unsigned int *status;
  const void *weights; /* see lanes.cuh, mma.cuh */
  const float *bias;   /* [output channel]: of a convolution, or layer scale */
  const float *norm;   /* LayerNorm's gain[inputs], then offset[inputs] */
  const float *in;     /* [entry][in_stride] */
  float *out;          /* [entry][out_stride] */
  float *moments;      /* of `in` for LayerNorm, of `out` for a residual:
                             [entry][slice][16][2], see moments.cuh */
  float *partial;      /* split.cuh: [entry][in_stride]: [tiles][blocks]
                             [ranks][1024] */
  unsigned int *arrived; /* the same: [tiles][blocks], zero between launches */
  const unsigned long long *rope; /* [head_dim / 2]: turns a position, 2^-64 */
  unsigned int in_stride, out_stride;
  unsigned int n_entries;
  unsigned int inputs, outputs; /* channels; outputs: rows of the product */
  unsigned int stride;       /* outputs rounded up, as the weights have them */
  unsigned int part_rows;    /* inputs of each part */
  unsigned int ranks;        /* lanes.cuh: parts, over eight */
  unsigned int tiles_log2;   /* split.cuh: tiles a block */
  unsigned int subs_log2;    /* matrix.cuh: parts, over eight */
  unsigned int times, tiles; /* of the input, each frame */
  unsigned int history;      /* in the state: [2 copies][inputs][taps - 1] */
  unsigned int rows_log2;    /* outputs a block: 64, or 16 or 32 */
  unsigned int split;        /* warps that share a tile: 8, or 1 */
  unsigned int slice_log2;   /* channels of a slice of moments */
  unsigned int ratio;        /* of a transposed convolution */
  unsigned int elu_offset; /* from its outputs to ELU of them, or 0 for none */
  unsigned int ring, ring_blocks, head_dim; /* of keys and values */
  unsigned int gelu_tanh;
  unsigned int second; /* spread.cuh: the kernel in front makes the entries */
  float norm_eps;
} MimiGemmArgs;

/* block.cuh: a residual block. */
typedef struct {
  MimiGemmArgs residual, skip;
} MimiManyBlockArgs;

/* residual.cu: y = elu (x + skip (elu (residual (elu (x))))). */
typedef struct {
  const MimiEntry *entries;
  unsigned int *status;
  const void *weights1, *weights2;
  const float *bias1, *bias2;
  const float *in;  /* [entry][stride]: [tiles][channels][16] */
  const float *elu; /* what ELU makes of it; the same */
  float *out;       /* the same */
  unsigned int stride;
  unsigned int channels, hidden, tiles;
  unsigned int part_rows1, part_rows2;
  unsigned int ranks;   /* blocks of a cluster */
  unsigned int history; /* in the state: [2 copies][channels][2] */
} MimiResidualArgs;

/* attention.cu, attend.cu: softmax (q k) v over the window. */
typedef struct {
  const MimiEntry *entries;
  const float *query; /* [entry][stride]: [width][16] */
  float *out;         /* the same */
  float *partial;     /* split_attention.cu: [entry][stride]: [head][ranks], of
                         each what MIMI_CUDA_ATTENTION_SUMS says */
  unsigned int *arrived; /* the same: [head], zero between launches */
  unsigned int stride;
  unsigned int heads, times, window;
  unsigned int share; /* split_attention.cu: blocks of the ring of a block */
  unsigned int ring, ring_blocks;
} MimiAttentionArgs;

/* layer.cu: all layers at once. Weights and vectors are those of the first, as
 * MimiGemmArgs has them. */
typedef struct {
  const MimiEntry *entries;
  unsigned int *status;
  float *residual; /* [entry][stride]: [width][16], in and out */
  const void *qkv, *out, *ffn1, *ffn2;
  const float *norm1, *norm2, *scale1, *scale2;
  const unsigned long long *rope;
  unsigned long long layer_bytes; /* from one layer's to the next one's */
  unsigned int ring, ring_floats; /* in the state; to the next layer's */
  unsigned int ring_blocks, window;
  unsigned int n_layers, ffn, stride;
  unsigned int gelu_tanh;
  float norm_eps;
} MimiLayersArgs;

/* output.cu: the last convolution, fade-in and the PCM the host asked for. */
typedef struct {
  const MimiEntry *entries;
  const unsigned int *status;
  const float *in;        /* [entry][in_stride]: [120 tiles][inputs][16] */
  const float *weights;   /* [input][taps], then the bias */
  unsigned char *pcm;     /* mapped host memory, [entry][pcm_bytes] */
  unsigned int *overflow; /* mapped host memory, [entry]: the host clears it */
  unsigned int in_stride, pcm_bytes;
  unsigned int inputs;
  unsigned int history;
} MimiOutputArgs;

/* tail.cu: the last residual block, and the output. */
typedef struct {
  MimiResidualArgs block;
  MimiOutputArgs output;
} MimiTailArgs;
