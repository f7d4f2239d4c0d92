/* The device's memory
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One reserved range of addresses, of which allocations take pages, with a gap
 * that faults after each. Fresh memory is filled with NaN. Addresses are not
 * used again, so that a pointer kept too long is found out.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define GAP (64 * 1024u)
#define POISON 0xff /* 0xffffffff is a NaN */

gint64 sim_bias;
static guint64 next;      /* address of the next allocation */
static GPtrArray *sorted; /* SimAllocation by address */
static guint64 reserved;  /* bytes of addresses */
static gsize used;

static gboolean
reserve (void)
{
  if (sorted)
    return TRUE;
  void *range = MAP_FAILED;
  /* valgrind and limits allow less */
  for (reserved = SIM_GLOBAL_SIZE; reserved >= 1 << 28; reserved /= 2) {
    range = mmap (NULL, reserved, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range != MAP_FAILED)
      break;
  }
  if (range == MAP_FAILED)
    return FALSE;
  sim_bias = (gint64)(gintptr)range - (gint64)SIM_GLOBAL_BASE;
  next = SIM_GLOBAL_BASE + GAP;
  sorted = g_ptr_array_new ();
  return TRUE;
}

SimAllocation *
sim_alloc (gsize size, gboolean is_host)
{
  gsize mapped = (size + PAGE - 1) / PAGE * PAGE;
  if (!reserve () || size == 0 || size > reserved / 2 ||
      next + mapped + GAP > SIM_GLOBAL_BASE + reserved)
    return NULL;
  if (!is_host && used + size > sim_config.memory)
    return NULL;
  if (mprotect (sim_host (next), mapped, PROT_READ | PROT_WRITE) != 0)
    return NULL;
  SimAllocation *a = g_new0 (SimAllocation, 1);
  a->address = next;
  a->size = size;
  a->mapped = mapped;
  a->is_host = is_host;
  memset (sim_host (next), is_host ? 0 : POISON, size);
  next += mapped + GAP;
  g_ptr_array_add (sorted, a);
  if (!is_host)
    used += size;
  if (sim_config.check != SIM_CHECK_OFF) {
    gsize bytes = (size / 4 + 1) * sizeof (SimShadow);
    a->shadow = mmap (NULL, bytes, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a->shadow == MAP_FAILED)
      a->shadow = NULL;
    if (is_host && a->shadow)
      sim_host_write (a->address, size);
  }
  return a;
}

static gint
index_of (guint64 address)
{
  gint low = 0, high = sorted ? (gint)sorted->len - 1 : -1, best = -1;
  while (low <= high) {
    gint middle = (low + high) / 2;
    SimAllocation *a = sorted->pdata[middle];
    if (a->address <= address) {
      best = middle;
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return best;
}

SimAllocation *
sim_find (guint64 address)
{
  gint i = index_of (address);
  if (i < 0)
    return NULL;
  SimAllocation *a = sorted->pdata[i];
  return address < a->address + a->size ? a : NULL;
}

SimAllocation *
sim_find_host (const void *pointer)
{
  if (!sorted)
    return NULL;
  SimAllocation *a = sim_find ((guint64)((gint64)(gintptr)pointer - sim_bias));
  return a && a->is_host ? a : NULL;
}

gboolean
sim_range_ok (guint64 address, gsize size)
{
  SimAllocation *a = sim_find (address);
  return a && size <= a->size - (address - a->address);
}

gboolean
sim_free (guint64 address)
{
  gint i = index_of (address);
  if (i < 0)
    return FALSE;
  SimAllocation *a = sorted->pdata[i];
  if (a->address != address)
    return FALSE;
  /* The pages go back; the addresses stay reserved and fault. */
  madvise (sim_host (address), a->mapped, MADV_DONTNEED);
  mprotect (sim_host (address), a->mapped, PROT_NONE);
  if (a->shadow)
    munmap (a->shadow, (a->size / 4 + 1) * sizeof (SimShadow));
  if (!a->is_host)
    used -= a->size;
  g_free (a->crossed);
  g_ptr_array_remove_index (sorted, (guint)i);
  g_free (a);
  return TRUE;
}

gsize
sim_memory_used (void)
{
  return used;
}

void
sim_memory_foreach (void (*func) (SimAllocation *, gpointer), gpointer data)
{
  for (guint i = 0; sorted && i < sorted->len; i++)
    func (sorted->pdata[i], data);
}

/* ---- one lane's access, looked at closely ---- */

static CUresult
wrong_alignment (guint64 address, guint size)
{
  return address & (size - 1) ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_SUCCESS;
}

static guint8 *
resolve_shared (SimWarp *w, const SimIns *ins, guint lane, guint64 address,
    guint size, gboolean cluster)
{
  guint rank = (guint)(address >> SIM_RANK_SHIFT);
  guint64 offset = address & ((1u << SIM_RANK_SHIFT) - 1);
  SimBlock *b = w->block;
  if (address >> 32 || (rank && !cluster && rank - 1 != b->rank)) {
    sim_fault (w, ins, (gint)lane, address, CUDA_ERROR_ILLEGAL_ADDRESS,
        "not an address of this block's shared memory");
    return NULL;
  }
  if (rank) {
    if (rank > b->cluster->n_blocks) {
      sim_fault (w, ins, (gint)lane, address, CUDA_ERROR_ILLEGAL_ADDRESS,
          "shared memory of a block that is not in the cluster");
      return NULL;
    }
    b = &b->cluster->blocks[rank - 1];
    if (b->n_done == b->n_warps) {
      sim_fault (w, ins, (gint)lane, address, CUDA_ERROR_ILLEGAL_ADDRESS,
          "shared memory of block %u of the cluster, which has ended",
          rank - 1);
      return NULL;
    }
  }
  if (offset + size > b->shared_size) {
    sim_fault (w, ins, (gint)lane, offset, CUDA_ERROR_ILLEGAL_ADDRESS,
        "%u bytes beyond the %u bytes of shared memory", size, b->shared_size);
    return NULL;
  }
  return b->shared + offset;
}

guint8 *
sim_resolve (SimWarp *w, const SimIns *ins, guint lane, guint64 address,
    PtxSpace space, guint size, gboolean write)
{
  if (wrong_alignment (address, size)) {
    sim_fault (w, ins, (gint)lane, address, CUDA_ERROR_MISALIGNED_ADDRESS,
        "%s of %u bytes is not aligned", write ? "store" : "load", size);
    return NULL;
  }
  if (space == PTX_SPACE_GENERIC || space == PTX_SPACE_PARAM) {
    guint64 window = address >> 40;
    if (window == SIM_SHARED_BASE >> 40) {
      space = PTX_SPACE_CLUSTER;
      address -= SIM_SHARED_BASE;
    } else if (window == SIM_LOCAL_BASE >> 40) {
      space = PTX_SPACE_LOCAL;
      address -= SIM_LOCAL_BASE;
    } else if (window == SIM_PARAM_BASE >> 40) {
      space = PTX_SPACE_PARAM;
      address -= SIM_PARAM_BASE;
    } else if (space == PTX_SPACE_GENERIC) {
      space = PTX_SPACE_GLOBAL;
    }
  }
  switch (space) {
    case PTX_SPACE_SHARED:
    case PTX_SPACE_CLUSTER:
      return resolve_shared (
          w, ins, lane, address, size, space == PTX_SPACE_CLUSTER);
    case PTX_SPACE_LOCAL:
      if (address + size <= w->launch->kernel->local_bytes &&
          address < address + size)
        return w->local + lane * w->launch->kernel->local_bytes + address;
      sim_fault (w, ins, (gint)lane, address, CUDA_ERROR_ILLEGAL_ADDRESS,
          "beyond the %" G_GSIZE_FORMAT " bytes of local memory",
          w->launch->kernel->local_bytes);
      return NULL;
    case PTX_SPACE_PARAM:
      if (!write && address + size <= w->launch->kernel->param_bytes)
        return w->launch->params + address;
      sim_fault (w, ins, (gint)lane, address, CUDA_ERROR_ILLEGAL_ADDRESS,
          "not in the kernel's parameters");
      return NULL;
    default:
      break;
  }
  SimAllocation *a = sim_find (address);
  if (a && size <= a->size - (address - a->address))
    return sim_host (address);
  gint before = index_of (address);
  SimAllocation *b = before >= 0 ? sorted->pdata[before] : NULL;
  if (b && address - b->address < b->size + GAP)
    sim_fault (w, ins, (gint)lane, address, CUDA_ERROR_ILLEGAL_ADDRESS,
        "%s of %u bytes at %" G_GUINT64_FORMAT
        " of an allocation of %" G_GSIZE_FORMAT " bytes",
        write ? "store" : "load", size, address - b->address, b->size);
  else
    sim_fault (w, ins, (gint)lane, address, CUDA_ERROR_ILLEGAL_ADDRESS,
        "%s of %u bytes in no live allocation%s", write ? "store" : "load",
        size,
        address - SIM_GLOBAL_BASE >= SIM_GLOBAL_SIZE
            ? " (is it a host address?)"
            : "");
  return NULL;
}
