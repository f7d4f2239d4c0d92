/* A model's weights, laid out for the kernels, on the device.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "../model/weights.h"
#include "driver.h"

G_BEGIN_DECLS

/* How the weights of dense layers are stored; everything else is float32. */
typedef enum {
  MIMI_CUDA_F32,
  MIMI_CUDA_TF32, /* float32 of 11 significant bits: one product less */
  MIMI_CUDA_BF16
} MimiCudaStorage;

/* Addresses on the device; 0 where a network has no such thing. */
typedef struct {
  CUdeviceptr weights; /* as lanes.cuh or matrix.cuh read them */
  CUdeviceptr bias;    /* [output]: bias of a convolution, or layer scale */
} MimiCudaDense;

typedef struct {
  CUdeviceptr norm1, norm2; /* [2][width]: gain, offset */
  MimiCudaDense qkv, out, ffn1, ffn2;
} MimiCudaLayer;

typedef struct {
  MimiCudaDense up, res1, res2;
} MimiCudaStage;

typedef struct {
  MimiCudaStorage transformer, convolutions;
  gboolean matrix; /* laid out for tensor cores */
  CUdeviceptr memory;
  gsize size;

  CUdeviceptr mean, std, codebooks, projection, upsample, rope;
  MimiCudaLayer *layers; /* all laid out alike, layer_bytes apart */
  gsize layer_bytes;
  MimiCudaDense first;
  MimiCudaStage stages[MIMI_MAX_STAGES];
  CUdeviceptr last; /* [input][tap], then the bias */
} MimiCudaWeights;

/* Lays out and uploads all weights, in the context that is current, for
 * matrix.cuh or lanes.cuh. Those that the checkpoint has as bf16 stay so: exact,
 * at half the bytes. Of the others `precision` rounds the convolutions' alone:
 * what rounding does to a query or a key, the layers after it amplify, by more
 * than the gates of tf32 and bf16 have room for. */
gboolean mimi_cuda_weights_init (MimiCudaWeights *self, const MimiCuda *cuda,
    const MimiModel *model, MimiPrecision precision, gboolean matrix,
    GError **error);
void mimi_cuda_weights_clear (MimiCudaWeights *self, const MimiCuda *cuda);

G_END_DECLS
