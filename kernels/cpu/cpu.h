/* The CPU backend's data: what is shared, what a slot owns, how they meet.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The kernels (gemm.c, norm.c, attention.c, ...) are compiled once for each
 * instruction set; MIMI_CPU_ISA names the one that is being compiled, and
 * MIMI_CPU_NAME() gives a function its name there. backend.c picks one
 * MimiCpuKernels at run time.
 */
#pragma once

#include "../engine/backend.h"
#include "filter.h"

/* arena.c: many arrays in one allocation. Laid out twice by the same code: once
 * to find the size (base NULL: take() returns NULL), once to hand them out. */
typedef struct {
  gpointer memory; /* as allocated */
  gfloat *base;
  gsize used;      /* floats */
  gboolean failed; /* no memory for what fills it */
} MimiCpuArena;

/* n floats, zeroed, at a multiple of 64 bytes. */
gfloat *mimi_cpu_arena_take (MimiCpuArena *arena, gsize n);
/* Allocates what the first pass has counted; with huge_pages for what is used
 * whole and read in order. */
gboolean mimi_cpu_arena_open (MimiCpuArena *arena, gboolean huge_pages,
    const gchar *what, GError **error);
void mimi_cpu_arena_close (MimiCpuArena *arena);

/* Weights of a product y[n] = sum over k of x[k] w[n][k] + bias[n]. Panels of
 * some outputs lie one after the other, each [k][outputs], filled up with
 * zeros, so that a kernel reads them once and in order; see
 * mimi_cpu_few_index() for products of few positions. */
typedef struct {
  guint n, k;
  guint
      sixes; /* panels of `rows` outputs, see MimiCpuKernels; then panels of */
  guint fours;          /* 4 outputs, where that wastes less */
  gboolean few;         /* for products of one or two positions only */
  gboolean bf16;        /* panels are bfloat16, see pack.c; else float32 */
  MimiCpuFilter filter; /* a convolution's: k is [product][channel] */
  gpointer panels;
  gfloat *bias; /* a multiple of 16 long, or NULL */
} MimiCpuMatrix;

/* Sums of so many products are formed apart and then added. */
#define MIMI_CPU_BLOCK_K 256

/* Rows of a tile at most, of any instruction set. */
#define MIMI_CPU_MAX_ROWS 8

/* Products of few positions meet each weight once, as fast as memory gives
 * them. So that what they multiply with stays in the first cache meanwhile,
 * their panels are cut into blocks of k: [group of panels][block of k][panel]
 * [k in the block][16]. A group's sums are in the first cache too. */
#define MIMI_CPU_FEW_PANELS 32

/* Where the weights of a panel from k on, the start of a block, lie: an index
 * into m->panels. */
static inline gsize
mimi_cpu_few_index (const MimiCpuMatrix *m, guint panel, guint k)
{
  guint group = panel / MIMI_CPU_FEW_PANELS * MIMI_CPU_FEW_PANELS;
  guint panels = MIN (MIMI_CPU_FEW_PANELS, (m->n + 15) / 16 - group);
  guint block = MIN (MIMI_CPU_BLOCK_K, m->k - k);

  return ((gsize)group * m->k + (gsize)panels * k +
             (gsize)(panel - group) * block) *
         16;
}

typedef struct {
  gfloat *norm1_weight, *norm1_bias, *norm2_weight, *norm2_bias; /* [width] */
  gfloat *scale1, *scale2;                                       /* [width] */
  MimiCpuMatrix in_proj, out_proj, linear1, linear2;
} MimiCpuLayer;

typedef struct {
  MimiCpuMatrix up;   /* k: previous input, this input; n: [ratio][channel] */
  MimiCpuMatrix res1; /* k: [tap][channel] */
  MimiCpuMatrix res2;
} MimiCpuStage;

typedef struct _MimiCpuKernels MimiCpuKernels;

/* Immutable once open: shared by all slots and threads. */
typedef struct {
  MimiNetwork net;
  const MimiCpuKernels *kernels;
  gchar *device;
  gboolean wide; /* 16 positions a frame: [channel][16] up to stages[0].up */
  guint blocks;  /* of the ring, 16 positions each */

  MimiCpuArena arena;                /* every array below lies in it */
  gfloat *mean, *std;                /* [latent_dim], or NULL */
  MimiCpuMatrix latent_proj;         /* n 0: none */
  MimiCpuMatrix code_proj;           /* k: sum of book 0, sum of the others */
  gfloat *books[MIMI_MAX_CODEBOOKS]; /* [codebook_size][codebook_dim] */
  gfloat *upsample; /* [2 upsample][width]; wide: [width][2 upsample] */
  MimiCpuLayer *layers;
  MimiCpuMatrix first;
  MimiCpuStage stages[MIMI_MAX_STAGES];
  gfloat *last; /* [tap][channel] */
  gfloat last_bias;
  /* For wide networks: what scores may be at most, [key][query]: in the newest
   * block, in the oldest, in the one after that; and how many keys of the
   * oldest nobody sees, rounded down to a multiple of 4. */
  gfloat *masks;
  guint skip;
  gdouble *frequencies; /* [head_dim / 2] radians a position */
  gdouble *turns; /* [head_dim / 2][upsample]: cosine, sine of t of them */
} MimiCpu;

/* What the causal layers remember from one frame to the next, by name, and the
 * ring of keys and values. All zero is the fresh state. */
typedef struct {
  gfloat *memory; /* the convolutions' memories, one after the other: */
  gsize memory_length;
  gfloat *upsample;             /* [width]: the previous position */
  gfloat *first;                /* [first_kernel - 1][width] */
  gfloat *up[MIMI_MAX_STAGES];  /* [1][channels before]: ELU of the input */
  gfloat *res[MIMI_MAX_STAGES]; /* [residual_kernel - 1][channels], ELU */
  gfloat *last;                 /* [last_kernel - 1][channels], ELU */
  gfloat *keys, *values;        /* [layer][head][block][head_dim][16] */
  gsize ring_length;            /* floats of one of them */
  guint64 position;             /* of the transformer's next input */
} MimiCpuState;

/* What a frame is computed in; nothing here outlives it. The first part is
 * time-major, or [channel][16] in a wide network. */
typedef struct {
  gfloat *embedding;       /* [latent_dim], or two sums of codebook rows */
  gfloat *quantized;       /* [width] */
  gfloat *cosines, *sines; /* [upsample][head_dim / 2], wide: [..][upsample] */
  gfloat *x;               /* [first_kernel - 1 + upsample][width] */
  gfloat *normed;          /* [upsample][width]; one for each thread if wide */
  gfloat *qkv;             /* [upsample][3 width] */
  gfloat *mixed;           /* [upsample][width]: attention's result */
  gfloat *weights;         /* [thread][blocks * 16][16]: softmax */
  gfloat *hidden;          /* [upsample][ffn] */
  gfloat *first;           /* wide: [width][MIMI_CPU_STRIDE16] */
  gfloat *raised;          /* wide: [ratio][channel][16], of stage 0 */
  gfloat *up[MIMI_MAX_STAGES];      /* [1 + times][channels before] */
  gfloat *res[MIMI_MAX_STAGES];     /* [2 + times][channels], ELU */
  gfloat *res_raw[MIMI_MAX_STAGES]; /* [times][channels] */
  gfloat *res_mid[MIMI_MAX_STAGES]; /* [times][hidden], ELU */
  gfloat *last;                     /* [2 + 1920][channels], ELU */
  gfloat *tile; /* [thread][tile_length]: of the last stage */
  gsize tile_length;
  gfloat *raw;    /* for the trace: one stage's output */
  gfloat *turned; /* for the trace: [16][channel] */
  gfloat *pcm;    /* [1920] */
  gfloat *filter; /* [thread][filter_length]: what a tile's products take */
  gsize filter_length;
} MimiCpuScratch;

/* A row of 16 positions with what a convolution remembers before them: the
 * positions start at MIMI_CPU_HALO16. */
#define MIMI_CPU_HALO16 8
#define MIMI_CPU_STRIDE16 (MIMI_CPU_HALO16 + 16)

/* Positions of the last stage's input that go through all of it at a time, so
 * that what lies between its convolutions stays in the caches. */
#ifndef MIMI_CPU_TILE_TIMES
#define MIMI_CPU_TILE_TIMES 24
#endif

typedef struct _MimiCpuTeam MimiCpuTeam;

typedef struct {
  const MimiCpu *cpu;
  MimiCpuTeam *team; /* NULL: one thread */
  guint threads;
  MimiCpuArena arena; /* all arrays of state and scratch */
  MimiCpuState state;
  MimiCpuScratch scratch;
  guint bad; /* set by whoever meets NaN or Inf */
  MimiTraceFunc trace;
  gpointer trace_data;
} MimiCpuSlot;

struct _MimiCpuKernels {
  const gchar *name;
  guint rows16; /* outputs a panel in the layers of 16 positions: 16, 6 or 2 */
  /* One frame: called by every thread of the slot's team. */
  void (*frame) (MimiCpuSlot *slot, MimiStepItem *item, guint thread);
  /* For mimi-bench: spends about so many FLOPs on nothing but multiply-adds
   * and returns how many they were; reads n floats and returns their sum. */
  gdouble (*multiply) (guint64 flops);
  gfloat (*read) (const gfloat *data, gsize n);
};

extern const MimiCpuKernels mimi_cpu_kernels_c;
extern const MimiCpuKernels mimi_cpu_kernels_avx2;
extern const MimiCpuKernels mimi_cpu_kernels_avx512;
extern const MimiCpuKernels mimi_cpu_kernels_neon;

/* detect.c: the best that this machine has, or what MIMIDEC_CPU asks for. */
const MimiCpuKernels *mimi_cpu_detect (GError **error);

/* pack.c: lays the model's weights out in cpu->arena. */
gboolean mimi_cpu_pack (MimiCpu *cpu, MimiModel *model, GError **error);
void mimi_cpu_unpack (MimiCpu *cpu);

/* slot.c */
MimiCpuSlot *mimi_cpu_slot_new (
    const MimiCpu *cpu, guint threads, GError **error);
void mimi_cpu_slot_free (MimiCpuSlot *slot);
gsize mimi_cpu_state_size (const MimiCpu *cpu); /* bytes a stream */

/* state.c: see MimiStateLayout. */
void mimi_cpu_state_read (MimiCpuSlot *slot, gfloat *values);
void mimi_cpu_state_write (
    MimiCpuSlot *slot, guint64 frames, const gfloat *values);

/* team.c: threads that share the work of one frame. */
typedef void (*MimiCpuTeamFunc) (gpointer data, guint thread);
MimiCpuTeam *mimi_cpu_team_new (guint threads, GError **error);
void mimi_cpu_team_free (MimiCpuTeam *team);
/* Runs func (data, 0) here and func (data, 1..) on the others. */
void mimi_cpu_team_run (MimiCpuTeam *team, MimiCpuTeamFunc func, gpointer data);
/* To be called by all of them: nobody goes on before all are here. */
void mimi_cpu_team_wait (MimiCpuTeam *team);
