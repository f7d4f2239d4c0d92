/* Tensor cores, ldmatrix, asynchronous copies
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include <stdint.h>

__device__ static unsigned
address (const void *p)
{
  return (unsigned)__cvta_generic_to_shared (p);
}

/* D = A B + C: A [16][8], B [8][8], tf32; row, column major. */
extern "C" __global__ void
tf32 (const float *a, const float *b, const float *c, float *d)
{
  int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  unsigned A[4], B[2];
  float D[4];
  const float x[6] = { a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4],
    a[(g + 8) * 8 + t + 4], b[t * 8 + g], b[(t + 4) * 8 + g] };
  for (int i = 0; i < 4; i++)
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(A[i]) : "f"(x[i]));
  for (int i = 0; i < 2; i++)
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(B[i]) : "f"(x[4 + i]));
  for (int i = 0; i < 4; i++)
    D[i] = c[(g + i / 2 * 8) * 8 + 2 * t + (i & 1)];
  asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
      : "r"(A[0]), "r"(A[1]), "r"(B[0]));
  for (int i = 0; i < 4; i++)
    d[128 + (g + i / 2 * 8) * 8 + 2 * t + (i & 1)] = D[i];
  for (int i = 0; i < 4; i++)
    D[i] = c[(g + i / 2 * 8) * 8 + 2 * t + (i & 1)];
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
      : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]));
  for (int i = 0; i < 4; i++)
    d[(g + i / 2 * 8) * 8 + 2 * t + (i & 1)] = D[i];
}

/* A [16][16] row major and B [16][8] row major, both bf16, through shared
 * memory with cp.async and ldmatrix. */
extern "C" __global__ void
bf16 (const uint16_t *a, const uint16_t *b, float *d)
{
  __shared__ __align__ (16) uint16_t sa[16 * 16], sb[16 * 8];
  int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  unsigned A[4], B[2];
  float D[4] = { 0, 0, 0, 0 };
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   address (sa + lane * 8)),
      "l"(a + lane * 8));
  asm volatile("cp.async.commit_group;");
  if (lane < 16)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(
                     address (sb + lane * 8)),
        "l"(b + lane * 8), "r"(16));
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.wait_group 1;" ::: "memory");
  __syncwarp ();
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(A[0]), "=r"(A[1]), "=r"(A[2]), "=r"(A[3])
      : "r"(address (sa + (lane % 16) * 16 + lane / 16 * 8)));
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncwarp ();
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(B[0]), "=r"(B[1])
               : "r"(address (sb + (lane % 16) * 8)));
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
      : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]));
  for (int i = 0; i < 4; i++)
    d[(g + i / 2 * 8) * 8 + 2 * t + (i & 1)] = D[i];
  for (int i = 0; i < 4; i++)
    D[i] = 0;
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
      : "r"(A[0]), "r"(A[1]), "r"(B[0]));
  for (int i = 0; i < 4; i++)
    d[128 + (g + i / 2 * 8) * 8 + 2 * t + (i & 1)] = D[i];
}
