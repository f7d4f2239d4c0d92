# The mistakes that mutate.py makes
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tables of changes to a source file, (name, file of kernels/, old, new[, which place]), and the kinds of changes to a
line of PTX. All are of a kind that has been made: something left out, one off, swapped, too short, kept too long."""
import re

BACKEND, GRAPH, STATE, QUEUE = "cuda/backend.c", "cuda/graph.c", "cuda/state.c", "cuda/queue.c"
LAUNCH, FRAME, SHAPE = "cuda/launch.c", "cuda/frame.c", "cuda/shape.c"
SPREAD, PAIRS, STAGING, EPILOGUE = "cuda/spread.cuh", "cuda/pairs.cuh", "cuda/staging.cuh", "cuda/epilogue.cuh"
RESIDUAL, TAIL, INPUT, ATTENTION = "cuda/residual.cu", "cuda/tail.cu", "cuda/input.cu", "cuda/attention.cu"
ATTEND, ATTEND_KERNELS = "cuda/attend.cuh", "cuda/attend.cu"
LAYER, LAYER_BLOCK = "cuda/layer.cu", "cuda/layer.cuh"
SPLIT, PART, LAST, WHOLE, ALONE = "cuda/split.cuh", "cuda/part.cuh", "cuda/last.cuh", "cuda/whole.cu", "cuda/alone.cu"
UP, SHARE = "cuda/split_up.cu", "cuda/split_attention.cu"
OLD = {"capability": 75}
MANY, FEED, BATCH, LEAVE, BLOCK = "cuda/many.cuh", "cuda/feed.cuh", "cuda/batch.cuh", "cuda/leave.cuh", "cuda/block.cuh"
FEW = {"processors": 3}  # so few that one stream fills them
BARRIER = "  __syncthreads ();\n"

# Slots, batches, buffers, saving: what is the same whatever the kernels are.
HOST = [
    # who sits where
    ("padding keeps who sat there", BACKEND, "    graph->entries[i].state = 0; /*", "    (void)0; /*"),
    ("two slots share a state", BACKEND, "slot->state = memory + i * size;", "slot->state = memory + (i & ~1u) * size;"),
    ("a slot is half as long", BACKEND, "slot->state = memory + i * size;", "slot->state = memory + i * size / 2;"),
    ("every row goes to the first place", BACKEND, "graph->rows + (gsize)i * self->frame.row_bytes", "graph->rows"),
    ("every PCM comes from the first place", BACKEND, "graph->pcm + i * MIMI_CUDA_PCM_BYTES", "graph->pcm"),
    ("every overflow is the first one's", BACKEND, "graph->overflow[i] == 0", "graph->overflow[0] == 0"),
    ("overflow is never told", BACKEND, "graph->overflow[i] == 0", "TRUE"),
    ("every stream has the first one's state", BACKEND, "entry->state = slot->state;", "static CUdeviceptr state; if (i == 0) state = slot->state; entry->state = state;"),
    # what changes from step to step
    ("frames are not counted", BACKEND, "    slot->frame++;\n", ""),
    ("reset is forgotten", BACKEND, "    slot->frame = 0;\n  entry", "    (void)0;\n  entry"),
    ("always reset", BACKEND, "if (item->reset)\n", ""),
    ("the frame of the step before", BACKEND, "entry->frame = slot->frame + turn->follows[i];", "entry->frame = slot->frame ? slot->frame - 1 + turn->follows[i] : 0;"),
    ("the kind of the first row for ever", BACKEND, "entry->kind = item->kind;", "static int kind = -1; if (kind < 0) kind = item->kind; entry->kind = kind;"),
    ("PCM is never 16 bits", BACKEND, "entry->s16 = item->format == MIMI_PCM_S16;", "entry->s16 = 0;"),
    ("fade-in forgets where it is", BACKEND, "entry->fade_position = item->position;", "entry->fade_position = 0;"),
    ("no fade-in", BACKEND, "entry->fade_in = item->fade_in;", "entry->fade_in = 0;"),
    ("one codebook less", BACKEND, "entry->n_codes = item->n_codes;", "entry->n_codes = item->n_codes - 1;"),
    # runs
    ("a run is one too long", QUEUE, "*follows < MIMI_LONGEST_RUN &&", "*follows <= MIMI_LONGEST_RUN &&"),
    ("an utterance ends inside a run", QUEUE, "!item->reset &&", "TRUE &&"),
    ("a run of two kinds of rows", QUEUE, "item->kind == before->kind &&", "TRUE &&"),
    ("a frame is not waited for", QUEUE, "return before->taken;", "return TRUE;"),
    ("who waits for nothing stays in the queue", QUEUE, "      *link = request->next;\n", "      link = &request->next;\n"),
    ("a run is many runs of one", QUEUE, "turn->follows[turn->n - 1] + 1;", "0;"),
    ("the copies take no turns", BACKEND, "      slot->copy ^= 1;\n", "      (void)0;\n"),
    ("the copies take turns with frames", BACKEND, "    if (mimi_cuda_turn_ends_run (turn, i))\n      slot", "    slot"),
    ("a run ends nowhere", BACKEND, "entry->ends = mimi_cuda_turn_ends_run (turn, i);", "entry->ends = 0;"),
    ("what follows an overflow is kept", "engine/stream.c", "      return i + 1;\n", "      (void)0;\n"),
    ("what follows a bad row goes with what was before", "engine/stream.c", "run->states[run->n - 1] == MIMI_ROW_BAD)", "0)"),
    ("all rows of a run are the first", "engine/stream.c", "stream->values + run->good * stream->values_length", "stream->values"),
    # copies
    ("the row is short", BACKEND, "item->values,\n      size);", "item->values,\n      size - 4);"),
    ("the row of codes is short", BACKEND, "size = item->n_codes * sizeof *item->codes;", "size = item->n_codes * sizeof *item->codes / 2;"),
    ("PCM is short", BACKEND, "MIMI_CUDA_PCM_BYTES, size);", "MIMI_CUDA_PCM_BYTES, size - 4);"),
    ("state read is short", BACKEND, "(own, s->state, size)", "(own, s->state, size / 2)"),
    ("state written is short", BACKEND, "s->state, own, size, error)", "s->state, own, size / 2, error)"),
    ("state written, its age not", BACKEND, "    s->frame = frames;", "    (void)frames;"),
    # batches and waits
    ("a launch too many", BACKEND, "if (best->device.entries >= n)", "if (best->device.entries >= (n + 1) / 2)"),
    ("always the largest batch", BACKEND, "if (best->device.entries >= n)", "if (0)"),
    ("graphs of half the size", BACKEND, "mimi_cuda_graph_new (&self->frame, 1u << i", "mimi_cuda_graph_new (&self->frame, 1u << i / 2"),
    ("memory is not given back", BACKEND, "cuda->MemFree (g_array_index (self->chunks, CUdeviceptr, i));", "(void)cuda;"),
    ("a failure is forgotten", BACKEND, "    self->failure = error;\n", "    g_error_free (error);\n"),
    ("copies are not counted", BACKEND, "count_copy (self, 0, size);", "(void)0;"),
    ("a wait is left out", GRAPH, " ||\n      !CHECK (cuda, error, StreamSynchronize, (stream)))", ")"),
    ("launched twice", GRAPH, "  if (!CHECK (cuda, error, GraphLaunch, (self->exec, stream)) ||", "  if (!CHECK (cuda, error, GraphLaunch, (self->exec, stream)) || !CHECK (cuda, error, GraphLaunch, (self->exec, stream)) ||"),
    ("nobody times the device", GRAPH, "(guint64)(ms * 1e6)", "0"),
    ("the device's time in other units", GRAPH, "(guint64)(ms * 1e6)", "(guint64)(ms * 1e9)"),
    # what a graph keeps
    ("a graph for one entry only", GRAPH, "device->entries = entries;", "device->entries = 1;"),
    ("a graph keeps another's rows", GRAPH, "device->host_rows = host + rows_at;", "static CUdeviceptr first; if (!first) first = host + rows_at; device->host_rows = first;"),
    ("a graph writes PCM over its rows", GRAPH, "device->host_pcm = host + pcm_at;", "device->host_pcm = host + rows_at;"),
    ("status lies on entries", GRAPH, "device->status = device->device_entry + entries * sizeof (MimiEntry);", "device->status = device->device_entry;"),
    ("scratch is not zeroed", GRAPH, "!mimi_cuda_clear (cuda, self->memory, activations / 4, error)", "0"),
    ("scratch is short", GRAPH, "(&self->memory, activations + entries * sizeof (MimiEntry) +", "(&self->memory, activations / 2 + entries * sizeof (MimiEntry) +"),
    ("pinned memory is short", GRAPH, "gsize pinned = pcm_at + entries * MIMI_CUDA_PCM_BYTES;", "gsize pinned = pcm_at + (entries * MIMI_CUDA_PCM_BYTES + 1) / 2;"),
    ("a failed capture is used", GRAPH, "       ok && CHECK (cuda, error, GraphInstantiate", "       CHECK (cuda, error, GraphInstantiate"),
    ("a graph is not given back", GRAPH, "    cuda->MemFreeHost (self->pinned);", "    (void)cuda;"),
    # saving
    ("the other copy of the histories", STATE, "(gsize)m->copy *", "(gsize)!m->copy *"),
    ("histories backwards", STATE, "at + t * channels + c", "at + (times - 1 - t) * channels + c"),
    ("keys of the first layer for all", STATE, "m->frame->rings[layer]", "m->frame->rings[0]"),
    ("keys one position late", STATE, "guint64 p = position - back;", "guint64 p = position - back + 1;"),
    ("keys and values swapped", STATE, "keys + (block * dim + c % dim) * MIMI_CUDA_TILE + p % MIMI_CUDA_TILE,\n          k);", "keys + (block * dim + c % dim) * MIMI_CUDA_TILE + p % MIMI_CUDA_TILE,\n          v);"),
    ("the window is one short", STATE, "past = n->window - 1, i, c;", "past = n->window - 2, i, c;"),
    # the driver
    ("an old driver is good enough", "cuda/driver.c", "cuda.version < REQUIRED_VERSION", "0"),
    ("a missing symbol is not noticed", "cuda/driver.c", "} else if (missing) {", "} else if (0) {"),
    ("an old GPU is good enough", "cuda/driver.c", "device->major < MINIMUM_MAJOR ||", "0 ||"),
    ("copies are not waited for", "cuda/driver.c", "MemcpyHtoD, (to, from, size)) &&\n         CHECK (self, error, StreamSynchronize, (NULL))", "MemcpyHtoD, (to, from, size))"),
    ("fills are not waited for", "cuda/driver.c", "MemsetD32, (to, 0, n)) &&\n         CHECK (self, error, StreamSynchronize, (NULL))", "MemsetD32, (to, 0, n))"),
    ("out of memory is any failure", "cuda/driver.c", "result == CUDA_ERROR_OUT_OF_MEMORY ? MIMI_ERROR_NO_MEMORY", "0 ? MIMI_ERROR_NO_MEMORY"),
    # streams
    ("every frame is fresh", "engine/stream.c", "    stream->fresh = FALSE;\n    stream->position +=", "    stream->position +="),
    ("together: another's result", "engine/stream.c", "results + i + next[r], 1)", "results + next[r], 1)"),
]

# Where things lie, and how kernels are launched. Not here, since nothing comes out differently: longer parts than
# mimi_cuda_choose_subs () thinks of, as long as host and kernels agree (the last ones are empty, a warp loads its weights in turns).
LAYOUT = [
    ("weights: the copy is short", "cuda/pack.c", "self->memory, pack.bytes, self->size, error)", "self->memory, pack.bytes, self->size / 2, error)"),
    # frame.c
    ("two histories in one place", FRAME, "2 * n->channels[i + 1] * (n->residual_kernel - 1)", "32"),
    ("a history has one copy", FRAME, "take (length, 2 * n->channels[i]);", "take (length, n->channels[i]);"),
    ("the ring has no room for a run", FRAME, "count_blocks (n, MIMI_LONGEST_RUN * n->upsample);", "count_blocks (n, n->upsample);"),
    ("the ring is a block short", FRAME, "count_blocks (n, MIMI_LONGEST_RUN * n->upsample);", "count_blocks (n, MIMI_LONGEST_RUN * n->upsample) - 1;"),
    ("layers share a ring", FRAME, "take (length, 2 * n->width * self->ring_blocks * MIMI_CUDA_TILE);", "i > 0 ? self->rings[0] : take (length, 2 * n->width * self->ring_blocks * MIMI_CUDA_TILE);"),
    ("no room for moments", FRAME, "length, (((n->width - 1) >> self->slice_log2) + 1) * MIMI_CUDA_TILE * 2);", "length, 0);"),
    ("both buffers of the stages are one", FRAME, "self->wide[1] = take (length, wide * MIMI_CUDA_TILE);", "self->wide[1] = self->wide[0];"),
    # launch.c
    ("a graph keeps one entry's place", LAUNCH, "args->n_entries = l->batch->entries;", "args->n_entries = 1;"),
    ("scratch of a neighbour", LAUNCH, "args->in_stride = args->out_stride = f->scratch_length;", "args->in_stride = args->out_stride = f->scratch_length - 32;"),
    ("every kernel overlaps the first", LAUNCH, "(l->frame->spread && kernel != MIMI_CUDA_LAYERS &&\n                                  kernel != MIMI_CUDA_SPREAD_QKV\n                              ? 1\n                              : 0)", "0"),
    ("layers: for runs too, whose frames need each other's keys", LAUNCH, "self->layers_shared && batch->entries == 1", "self->layers_shared"),
    ("layers: a little apart", "cuda/pack.c", "to->norm1 - self->layers[i - 1].norm1", "to->norm1 - self->layers[i - 1].norm1 + 256"),
    ("clusters of half the size", LAUNCH, "shape.cluster = MIMI_CUDA_RANKS;", "shape.cluster = MIMI_CUDA_RANKS / 2;"),
    ("parts of a batch, not of a single stream", LAUNCH, "complete_matrix_args (args, mimi_cuda_choose_subs (spread, args->inputs));", "complete_matrix_args (args, mimi_cuda_choose_subs (l->batch->entries > 2 ? MIMI_CUDA_N_KERNELS : spread, args->inputs));"),
    ("a block of outputs too few", LAUNCH, "shape.x = divide_up (args->outputs, block.rows);", "shape.x = MAX (args->outputs / block.rows, 2) - 1;"),
    ("shared memory without the sums", SHAPE, "block->shared = pairs * 2 * sizeof (gfloat);", "block->shared = pairs * sizeof (gfloat);"),
    ("a residual block's shared memory ends early", LAUNCH, "      8 * 32 * 20 * sizeof (gfloat);", "      8 * 32 * 16 * sizeof (gfloat);"),
    ("the row has no place after the vector", LAUNCH, "2 * (both.input.vector_stride * sizeof (gfloat) + f->row_bytes) },", "2 * both.input.vector_stride * sizeof (gfloat) },"),
    ("a larger batch takes what it has not looked at", LAUNCH, "if (entries == 1 && !n->codebooks)", "if (!n->codebooks)"),
    ("the stages do not take turns", LAUNCH, "*from = is_tail ? 0 : other; /*", "*from = is_tail ? 0 : *from; /*"),
    ("the last stage's PCM is made twice", LAUNCH, "*from = is_tail ? 0 : other; /*", "*from = is_tail ? *from : other; /*"),
    ("the block's memory is the convolution's", LAUNCH, "      .history = f->res_history[i],", "      .history = f->up_history[i],"),
    ("no blocks for the last tile of a residual", LAUNCH, "(Shape){ b.ranks, tiles, 1,", "(Shape){ b.ranks, tiles - 1, 1,"),
    ("no blocks for the second halves of a residual", LAUNCH, "      b.shape.y *= 2;\n", ""),
    ("ELU of the residual's input is left out", LAUNCH, "    up.elu_offset = f->hidden - to;\n", "    up.elu_offset = 0;\n"),
    ("ELU of the residual's input is where its output goes", LAUNCH, ".elu = scratch (l, f->hidden)", ".elu = scratch (l, other)"),
]

# Kernels, as they are written; what nvcc makes of them is broken by the kinds below. Not here, since nothing comes out
# differently: keys of columns that do not exist are read (they are masked), or stored (the ring has them in columns that
# no window reaches any more, until the right ones come).
DEVICE = [
    # spread.cuh: barriers of blocks and clusters, the dependency wait
    ("cluster: the first sums are sent to blocks that have not begun", SPREAD, "  /* Every sum to whoever finishes it. */\n  cluster_wait ();\n", ""),
    ("cluster: added sums are sent to blocks that have not begun", SPREAD, "  if (CLUSTER)\n    cluster_wait ();\n\n", "\n"),
    ("cluster: nobody arrives at the beginning", SPREAD, "  if (CLUSTER)\n    cluster_begin ();\n", ""),
    ("cluster: sums are read as they come", SPREAD, "n, t);\n  cluster_wait ();\n", "n, t);\n"),
    ("cluster: added sums are read as they come", SPREAD, "  cluster_arrive ();\n  keep ();\n  cluster_wait ();\n", "  keep ();\n"),
    ("cluster: arrival does not release", "cuda/cluster.cuh", "barrier.cluster.arrive.release.aligned", "barrier.cluster.arrive.relaxed.aligned"),
    ("spread: no barrier after staging", SPREAD, BARRIER + "\n  const unsigned step0", "\n  const unsigned step0"),
    ("spread: no barrier after staging of several taps", SPREAD, "    before.store (true, x);\n  " + BARRIER, "    before.store (true, x);\n"),
    ("spread: a warp reads its inputs too soon", SPREAD, "  __syncwarp ();\n", "", 1),
    ("spread: no barrier before a block's sums", SPREAD, "  product.leave_pairs (sums + left, stride);\n" + BARRIER, "  product.leave_pairs (sums + left, stride);\n"),
    ("spread: no dependency wait", SPREAD, "  wait_for_inputs ();\n", ""),
    ("spread: who follows the second kernel reads entries that are not there yet", SPREAD, "  hold (product.mix (), p.n_entries == 0, p.status);\n", "  launch_dependents ();\n"),
    ("spread: the second kernel reads its entry before the wait", SPREAD, "EPILOGUE == QKV && p.second", "false"),
    ("spread: inputs are read before the wait", SPREAD, "  wait_for_inputs ();\n", "  unit.v[0][0] = *(const volatile float *)share;\n  wait_for_inputs ();\n"),
    ("spread: padding takes part", SPREAD, "  if (entry.state == 0) {\n    if (CLUSTER)", "  if (false) {\n    if (CLUSTER)"),
    ("spread: padding is normalised", SPREAD, "p.n_entries > 1 && entry.state == 0", "false"),
    # spread.cuh: who has what
    ("spread: the residual is left out", SPREAD, "    old = *place.to;\n", "    old = 0.0f;\n"),
    ("spread: moments of another slice", SPREAD, "[block * TILE + 2 * rank + warp]", "[2 * rank + warp]"),
    ("spread: moments of another time", SPREAD, "[block * TILE + 2 * rank + warp]", "[block * TILE + rank + 8 * warp]"),
    ("spread: sums go to another block", SPREAD, "h * 4 + lane % 4, rank,", "lane % 4 * 2 + h, rank,"),
    ("spread: added sums go to another block", SPREAD, "remote (to, warp)", "remote (to, warp ^ 1)"),
    ("spread: a block's own sums are lost", SPREAD, "        *to = sum;", "        to = NULL;"),
    ("cluster: a block's own sums go to another", "cuda/cluster.cuh", "@!mine st.shared::cluster", "@mine st.shared::cluster"),
    ("spread: a block's parts in another order", SPREAD, "v[i] = from[i * stride];", "v[i] = from[(i ^ 1) % N * stride];"),
    ("spread: every warp has a cluster's first part", SPREAD, "+ warp % (1u << subs_log2);", "+ 0 * warp;"),
    ("spread: parts in another order", SPREAD, "return s * WARPS;", "return (s ^ 1) * WARPS;"),
    ("spread: channels without the parts of parts", SPREAD, "channel0 = rank * p.part_rows << subs_log2;", "channel0 = rank * p.part_rows;"),
    ("spread: as many parts as warps", SPREAD, "s0 < PARTS << subs_log2; s0 += PARTS", "s0 < PARTS; s0 += PARTS"),
    ("spread: rotates with another's sum", SPREAD, "along ? 1 : 2)", "along ? 1 : 1)"),
    ("spread: only eight times", SPREAD, "columns > 8 ? 2 : 1);", "1);"),
    ("spread: a tile without the one before", SPREAD, "  past.store (true, x);\n", ""),
    ("spread: a run without the frame before", SPREAD, "    before.store (true, x);\n", ""),
    ("spread: the first tile is remembered", SPREAD, "block == 0 && tile == p.tiles - 1", "block == 0 && tile == 0"),
    ("pairs: a fresh stream hears the one before", PAIRS, "        kept (remembers (entry)", "        kept (true"),
    ("pairs: history of one column earlier", PAIRS, "x.whole (k, columns + j)", "x.whole (k, columns + j - 1)"),
    ("pairs: history without its low half", PAIRS, "return v.x + v.y;", "return v.x;"),
    ("pairs: low halves of a unit are left out", PAIRS, "in.high[0], in.low[0],", "in.high[0], 0.0f,"),
    ("pairs: norm without its offset", PAIRS, "gain[i], offset[i])", "gain[i], 0.0f)"),
    ("pairs: columns of the frame before last", "cuda/common.cuh", "- entries * stride + columns - 1 -", "+ columns - 1 -"),
    # staging.cuh, moments.cuh, product.cuh, mma.cuh
    ("staging: a fresh stream hears the one before", STAGING, "first + k < inputs && remembers (entry)", "first + k < inputs"),
    ("staging: history of one column earlier", STAGING, "x[k * STAGED_STRIDE + STAGED_PAST + columns - H + j];", "x[k * STAGED_STRIDE + STAGED_PAST + columns - H + j - 1];"),
    ("staging: norm without its offset", STAGING, "gain[i], offset[i])", "gain[i], 0.0f)"),
    ("history: same copy read and written", "cuda/common.cuh", "(entry.copy ^ 1)", "entry.copy"),
    ("ELU loses NaN", "cuda/common.cuh", "return x <= 0.0f ? low > -1.0f ? near : far : x;", "return x > 0.0f ? x : low > -1.0f ? near : far;"),
    ("moments: slices as if they had one mean", "cuda/moments.cuh", "fmaf (d * d, count[i], m[i].y)", "m[i].y"),
    ("moments: a slice counts twice", "cuda/moments.cuh", "first + lane / TILE + 2 * i", "first + lane / TILE + i"),
    ("moments: of the next time", "cuda/moments.cuh", "middle, threadIdx.x % 4 * 4 + j)", "middle, (threadIdx.x % 4 * 4 + j + 1) % 16)"),
    ("moments: halves as if they had one mean", "cuda/moments.cuh", "fmaf (d * (na * nb * share), d, m.y + other.y)", "m.y + other.y"),
    ("moments: slices that are not full count as if", "cuda/moments.cuh", "      if (full)\n", "      if (true)\n"),
    ("low halves are left out", "cuda/mma.cuh", "multiply (sums[h].small, w.a, x[h].low);", ";"),
    ("low halves of weights are left out", "cuda/mma.cuh", "multiply (sums.small, a, b);", ";"),
    ("residual: low halves of weights are left out", "cuda/mma.cuh", "multiply (sums.least, a, b);", ";"),
    ("product: a tap too few", "cuda/product.cuh", "load_from (0, begin_tap, end_tap);", "load_from (0, begin_tap, end_tap - 1);"),
    # epilogue.cuh
    ("position of the first frame for all", EPILOGUE, "position = entry.frame * p.times + t;", "position = t;"),
    ("rotation the other way", EPILOGUE, "d % 2 ? place.sine : -place.sine", "d % 2 ? -place.sine : place.sine"),
    ("values lie where keys do", EPILOGUE, "(which == 2 ? width * p.ring_blocks * TILE : 0)", "0"),
    ("phases in the wrong order", EPILOGUE, "* p.ratio + n % p.ratio;", "* p.ratio + (p.ratio - 1 - n % p.ratio);"),
    ("overflow is not reported", EPILOGUE, "  if (overflows (y.before))\n    atomicOr (p.status + index, 1u);\n", ""),
    ("split: overflow is not reported", SPLIT, "  if (overflow)\n    atomicOr (p.status + index, 1u);\n", "", OLD),
    # residual.cu
    ("residual: no barrier after staging", RESIDUAL, "  wait_for_copies ();\n" + BARRIER, "  wait_for_copies ();\n"),
    ("residual: copies are not waited for", RESIDUAL, "  wait_for_copies ();\n" + BARRIER, BARRIER),
    ("residual: the second half's past is that of the first", RESIDUAL, "column0 > 0 ? from - H : past.tile", "false ? from - H : past.tile"),
    ("residual: ELU of the first half alone", RESIDUAL, "*from = p.elu + place0;", "*from = p.elu + place0 - column0;"),
    ("residual: ELU is added, not what it is of", RESIDUAL, "*in = p.in + place0,", "*in = p.elu + place0,"),
    ("residual: sums overwritten as they are read", RESIDUAL, "      __syncthreads (); /* the sums have been read */\n", ""),
    ("residual: no barrier before the first sums", RESIDUAL, "partial, 16, warp);\n  " + BARRIER, "partial, 16, warp);\n"),
    ("residual: no barrier before the second sums", RESIDUAL, "OUTPUTS, warp);\n  " + BARRIER, "OUTPUTS, warp);\n"),
    ("residual: who has no work leaves", RESIDUAL, "  cluster_wait ();\n  for (unsigned row0", "  if (rank * OUTPUTS >= p.channels)\n    return;\n  cluster_wait ();\n  for (unsigned row0"),
    ("residual: hidden channels are read as they come", RESIDUAL, "  cluster_wait ();\n  for (unsigned row0", "  for (unsigned row0"),
    ("residual: hidden channels to blocks that have not begun", RESIDUAL, "  cluster_wait ();\n  for (unsigned group", "  for (unsigned group"),
    ("residual: hidden channels stay at home", RESIDUAL, "remote (place, rank ^ i)", "remote (place, rank)"),
    ("residual: hidden channels leave home", RESIDUAL, "        *place = y;\n", ""),
    ("residual: no dependency wait", RESIDUAL, "  wait_for_inputs ();\n", ""),
    ("residual: the first tile is remembered", RESIDUAL, "rank == 0 && tile == p.tiles - 1", "rank == 0 && tile == 0"),
    ("residual: the first half is remembered", RESIDUAL, "column0 + COLUMNS == TILE", "column0 == 0"),
    # tail.cu
    *[(f"tail: barrier {i + 1} of 6", TAIL, BARRIER, "", i) for i in range(6)],
    ("tail: no dependency wait", TAIL, "  wait_for_inputs ();\n", ""),
    ("tail: a fresh stream hears the one before", TAIL, "entry.state != 0 && remembers (entry);", "entry.state != 0;"),
    ("tail: the block's past is one early", TAIL, "make_float4 (0, 0, past[i].x, past[i].y)", "make_float4 (0, past[i].x, past[i].y, 0)"),
    ("tail: the past is made anew, not remembered", TAIL, "    if (made || column2 + i >= 8)\n", ""),
    ("tail: hidden channels are half of them", TAIL, "  other.load (1);\n", "  other.load (0);\n"),
    ("tail: the last convolution forgets the frame before", TAIL, "  if (!made && tid < length)\n", "  if (false)\n"),
    ("tail: overflow is not told", TAIL, "    o.overflow[index] = 1;", "    o.overflow[index] = 0;"),
    ("tail: channels that do not exist are heard", TAIL, "tid < o.inputs * LAST_TAPS ? weight : 0.0f", "weight"),
    # input.cu
    ("enter: no barrier before the entry is looked at", INPUT, "  " + BARRIER + "    const MimiEntry &entry", "    const MimiEntry &entry"),
    ("enter: the entry is looked at before it came", INPUT, "  cluster_arrive ();\n  cluster_wait ();\n", ""),
    ("enter: the row goes to blocks that have not begun", INPUT, "    cluster_wait ();\n    if (tid", "    if (tid"),
    ("enter: no barrier after the vector", INPUT, "last_row, last);\n    __syncthreads ();\n", "last_row, last);\n"),
    ("enter: latents stay normalised", INPUT, "entry.kind == MIMI_CUDA_NORMALIZED ? fmaf (x, std, mean) : x", "x"),
    ("enter: the last block gets no entry", INPUT, "for (unsigned other = 1; other < MIMI_CUDA_RANKS; other++)", "for (unsigned other = 1; other < MIMI_CUDA_RANKS - 1; other++)"),
    ("enter: an odd code is lost", INPUT, "? (entry.n_codes + 1) / 2", "? entry.n_codes / 2"),
    ("enter: the row crosses the bus again", INPUT, "      if (i >= usual)\n", ""),
    ("enter: status is not cleared", INPUT, "    if (tid == 0)\n      p.status[index] = 0;\n", ""),
    ("front: no barrier before moments", INPUT, BARRIER + "    if (row < n) {", "if (row < n) {"),
    ("front: a fresh stream hears the one before", INPUT, "!entry.follows && remembers (entry)", "!entry.follows"),
    ("front: moments of the first slice", INPUT, "moments[(slice0 + slice) * TILE", "moments[slice * TILE"),
    # attention.cu
    *[(f"attention: barrier {i + 1} of 4", ATTENTION, BARRIER, "", i) for i in range(4)],
    ("attention: window one short", ATTENTION, "position + p.window > at", "position + p.window > at + 1"),
    ("attention: window one long", ATTENTION, "position + p.window > at", "position + p.window >= at"),
    ("attention: a position of the future is seen", ATTENTION, "position <= at &&", "position <= at + 1 &&"),
    ("attention: ring starts one block late", ATTENTION, "(block0 % p.ring_blocks)", "((block0 + 1) % p.ring_blocks)"),
    ("attention: the ring does not come round", ATTENTION, "return ring0 + b < p.ring_blocks ? ring0 + b : ring0 + b - p.ring_blocks;", "return ring0 + b;"),
    ("attention: not in the order of layer.cu", ATTENTION, "begin - block0 * TILE) + warp; i0", "begin - block0 * TILE) + (warp ^ 1); i0"),
    # attend.cuh, attend.cu: what they look at
    ("attend: window one short", ATTEND, "back - i + j < p.window", "back - i + j + 1 < p.window"),
    ("attend: window one long", ATTEND, "back - i + j < p.window", "back - i + j <= p.window"),
    ("attend: a position of the future is seen", ATTEND, "back - i + j < p.window", "back - i + j + 1 <= p.window"),
    ("attend: the oldest block is left out", ATTEND, "(n_old + N - rank) / N", "(n_old + N - 1 - rank) / N"),
    ("attend: a rank skips a block", ATTEND, "rank + i * (MIMI_CUDA_RANKS - 1)", "rank + i * MIMI_CUDA_RANKS"),
    ("attend: the ring does not come round", ATTEND, "newest >= age ? newest - age : newest - age + p.ring_blocks", "newest - age % (newest + 1)"),
    ("attend: the first eight queries twice", ATTEND, "first (half * ATTEND_QUERIES)", "first (0)"),
    ("attend: values of a fourth block are those of the first", ATTEND, "      if (b >= ATTEND_AHEAD) {", "      if (false) {"),
    ("attend: a fifth block has no scores", ATTEND_KERNELS, "i = warp + KEY_WARPS; i < n;", "i = warp + KEY_WARPS; i < 0;"),
    ("attend: a block's second half of dim", ATTEND_KERNELS, "to + i / PIECE * TILE * ATTEND_QUERIES", "to"),
    # how ranks are joined
    ("attend: a rank that sees nothing", ATTEND, "all == -INFINITY ? 0.0f : -UNIT * all", "-UNIT * all"),
    ("attend: largest score in another unit", ATTEND, "return { UNIT * all, total };", "return { all, total };"),
    ("attend: all ranks weigh the same", ATTEND, "power (f[r].most - most[0])", "1.0f"),
    ("attend: joined in another order", ATTEND_KERNELS, "found[lane / 4][warp] = own;", "found[lane / 4][warp ^ 1] = own;"),
    ("attend: a neighbour's query", ATTEND_KERNELS, "lane % 4 * 2 + j);", "lane % 4 * 2 + 1 - j);"),
    ("attend: a rank that has nothing leaves nothing", ATTEND_KERNELS, "*(float2 *)&sums[warp][q + j][d + lane / 4 * 2] = make_float2 (0, 0);", ";"),
    # who waits for what
    ("attend: no barrier before the weights", ATTEND_KERNELS, BARRIER + "\n  if (has_values) {", "\n  if (has_values) {"),
    ("attend: no barrier before warps are joined", ATTEND_KERNELS, BARRIER + "\n  const unsigned i", "\n  const unsigned i"),
    ("attend: no dependency wait", ATTEND_KERNELS, "  wait_for_inputs ();\n  /* Who", "  /* Who"),
    ("attend: sent to blocks that have not begun", ATTEND_KERNELS, "    cluster_wait ();\n#pragma unroll", "#pragma unroll"),
    ("attend: joined before all have come", ATTEND_KERNELS, "  settle (out);\n  cluster_wait ();\n", "  settle (out);\n"),
    ("attend: the newest block is looked at before the wait", ATTEND_KERNELS, "  wait_for_inputs ();\n  /* Who", "  if (rank == 0 && has_values)\n    attend.load_values (newest, 0, (Pair *)ring), settle (ring[0].a[0]);\n  wait_for_inputs ();\n  /* Who"),
    # runs
    ("run: the first tile of the frame before", "cuda/common.cuh", "in - entry_stride + (size_t)(tiles - 1) * inputs * TILE)", "in - entry_stride)"),
    ("run: the frame's own last tile", "cuda/common.cuh", "in - entry_stride + (size_t)(tiles - 1)", "in + (size_t)(tiles - 1)"),
    ("run: more taps than columns, and all of one frame", "cuda/common.cuh", "        row -= stride;\n", ""),
    ("run: more taps than columns, and nothing in the state", "cuda/common.cuh", "(int)(entry.follows * columns)", "(int)(entry.follows * TILE)"),
    ("run: everybody leaves a history", STAGING, "  if (!entry.ends)\n    return;\n", ""),
    ("run: attend fetches before the wait what the run makes", ATTEND, "n_run = (unsigned)(block - (entry.frame - entry.follows) * p.times / TILE);", "n_run = 0;"),
    ("run: attend leaves out what the run made", ATTEND_KERNELS, "    if (rank <= attend.n_run)\n      load (true);\n", ""),
    ("run: enter takes its row for the one before", INPUT, "(older ? from_row - p.row_bytes / 4 : from_row)[k]", "from_row[k]"),
    ("run: front keeps every frame", INPUT, "lane % 4 == 0 && entry.ends", "lane % 4 == 0"),
    ("run: tail keeps every frame", TAIL, "tile == SAMPLES / TILE - 1 && entry.ends", "tile == SAMPLES / TILE - 1"),
    ("run: tail looks at its own tile twice", TAIL, "piece < 4 && made ? before.tile", "false ? before.tile"),
    ("run: front takes its row for the one before", INPUT, "vector - p.vector_stride", "vector", {"capability": 75}),
    ("run: output takes the state for the frame before", "cuda/output.cu", "tile > 0 || entry.follows > 0", "tile > 0", {"capability": 75}),
    ("run: output keeps every frame", "cuda/output.cu", "gridDim.x - 1 && entry.ends", "gridDim.x - 1", {"capability": 75}),
    # layer.cu: barriers, in the order of the file and of a layer
    *[(f"layers: barrier {i + 1} of 5", LAYER_BLOCK, BARRIER, "", i) for i in range(5)],
    *[(f"layers: barrier of a product {i + 1} of 2", LAYER, BARRIER, "", i) for i in range(2)],
    *[(f"layers: cluster barrier {i + 1} of 5", LAYER, f"    cluster_arrive ();\n{between}    cluster_wait ();\n", between)
      for i, between in enumerate((
          "    this->load_norm (p.norm2, layer);\n    this->load_scale (p.scale1, layer);\n    if (layer > 0)\n      load_out (layer);\n",
          "    load_ffn1 (layer);\n    this->keep (layer, value);\n",
          "    load_ffn2 (layer);\n    if (more)\n      this->load_window (layer + 1);\n",
          "    this->load_scale (p.scale2, layer);\n    if (more)\n      this->load_norm (p.norm1, layer + 1);\n",
          "    if (more)\n      load_qkv (layer + 1);\n"))],
    ("layers: sent to blocks that have not begun", LAYER, "  cluster_wait ();\n#pragma unroll 1", "#pragma unroll 1"),
    ("layers: no dependency wait", LAYER, "  wait_for_inputs ();\n", ""),
    ("layers: who follows reads entries that are not there yet", LAYER, "  cluster_begin ();\n", "  launch_dependents ();\n  cluster_begin ();\n"),
    ("layers: copies are not waited for", LAYER, "    wait_for_copies ();\n", ""),
    # who has what
    ("layers: the last block gets no input", LAYER_BLOCK, "        if (other < n)\n", "        if (other + 1 < n)\n"),
    ("layers: keys stay at home", LAYER, "rank0 + (rank + j) % SHARE), value[i][0],", "rank), value[i][0],"),
    ("layers: sums go to another block", LAYER_BLOCK, "t / 2)", "t / 2 ^ 1)"),
    ("layers: sums of another rank", LAYER, "send (sum[h], rank,", "send (sum[h], rank ^ 1,"),
    ("layers: weights of the first layer for all", LAYER_BLOCK, "+ layer * p.layer_bytes)", "+ 0 * layer * p.layer_bytes)"),
    ("layers: the other half first", LAYER, "      if (!pair.last)\n        add_parts", "      if (pair.last)\n        add_parts"),
    ("layers: values are summed from the block's first on", LAYER_BLOCK, "(residue - from) % WARPS", "residue % WARPS"),
    ("layers: window one long", LAYER_BLOCK, ">= p.window) /*", "> p.window) /*"),
    ("layers: the ring does not come round", LAYER_BLOCK, "ring0 + i < p.ring_blocks ? ring0 + i : ring0 + i - p.ring_blocks", "ring0 + i"),
    ("layers: keys of the layer before", LAYER, "load_window (layer + 1);", "load_window (layer);"),
    ("layers: overflow is not told", LAYER, "  if (all.overflow)\n", "  if (false)\n"),
    # what is for many streams, or for older GPUs
    ("lanes: a fresh stream hears the one before", "cuda/gemm.cuh", "(made || remembers (entry))", "true", {"capability": 75}),
    ("lanes: history of the wrong tile", "cuda/gemm.cuh", "tile == p.tiles - 1", "tile == 0", {"capability": 75}),
    ("lanes: norm without its offset", "cuda/gemm.cuh", "gain, offset)", "gain, 0.0f)", {"capability": 75}),
    ("matrix: no barrier before the sums", "cuda/gemm.cuh", "    product.leave (x + Product::SUMS);\n" + BARRIER, "    product.leave (x + Product::SUMS);\n"),
    ("matrix: ranks' sums in one go", "cuda/gemm.cuh", "(part + 1) % (1u << p.subs_log2) == 0", "(part + 1) % (2u << p.subs_log2) == 0"),
    # many.cuh, and what it is made of
    ("many: no dependency wait", MANY, "  wait_for_inputs ();\n", "", FEW),
    ("many: no barrier before the first slab", MANY, "    feed.put (shared, norms);\n    __syncthreads ();\n", "    feed.put (shared, norms);\n", FEW),
    ("many: no barrier between slabs", MANY, "        feed.put (other, norms);\n      __syncthreads ();\n", "        feed.put (other, norms);\n", FEW),
    ("many: one slab for all", MANY, "float *other = x == shared ? shared + MANY_BUFFER : shared;", "float *other = shared;", FEW),
    ("many: no barrier after the norms", MANY, "      make_norms (p, tiles, norms);\n      __syncwarp ();\n", "      make_norms (p, tiles, norms);\n", FEW),
    ("many: no barrier after the angles", MANY, "    make_angles (p, tiles, (float2 *)shared);\n    __syncthreads ();\n", "    make_angles (p, tiles, (float2 *)shared);\n", FEW),
    ("many: the tiles are not waited for", FEED, "ManyTile (p, threadIdx.x);\n" + BARRIER, "ManyTile (p, threadIdx.x);\n", FEW),
    ("many: no barrier before phases and moments", LEAVE, "  if (EPILOGUE == RESIDUAL || EPILOGUE == UP)\n    __syncthreads ();\n", "", FEW),
    ("many: parts of a rank are not summed first", BATCH, "(--subs == 0 || is_last)", "true", FEW),
    ("many: ranks are as long as all", BATCH, "(--subs == 0 || is_last)", "is_last", FEW),
    ("many: a rank begins with the one before", BATCH, "        held[q] = make_float4 (0, 0, 0, 0);\n", "        (void)0;\n", FEW),
    ("many: a part ends late", BATCH, "left (p.part_rows / 8)", "left (p.part_rows / 8 + 1)", FEW),
    ("many: the second outputs have the first one's weights", BATCH, "min (row0 / 16 + g, p.stride / 16 - 1)", "min (row0 / 16, p.stride / 16 - 1)", FEW),
    ("many: weights of the step before", BATCH, "(at + DEPTH) * 32", "(at + DEPTH - 1) * 32", FEW),
    ("many: copies are not waited for", FEED, "    wait_for_copies ();\n", "", FEW),
    ("many: what is not there is brought", FEED, "          at.active && k0 + channel + 8 * i < p.inputs);", "          at.active);", FEW),
    ("many: a fresh stream hears the one before", FEED, "k < p.inputs && (remembered || step > 1)", "k < p.inputs", FEW),
    ("many: a fresh stream hears older ones", FEED, "k < p.inputs && (made || remembered)", "k < p.inputs", FEW),
    ("many: the state for the frame before", FEED, "one = before.reach ? before.tile + before.columns - 1 : kept;", "one = kept;", FEW),
    ("many: past without ELU", FEED, "past (x)[j] = elu (past (x)[j]);", "(void)0;", FEW),
    ("many: history of the wrong tile", FEED, "at.tile != p.tiles - 1", "at.tile != 0", FEW),
    ("many: every frame of a run is kept", FEED, "if (!entry.ends)", "if (false)", FEW),
    ("many: angle of another time", LEAVE, "d / 2 * MANY_COLUMNS + local * TILE + t0", "d / 2 * MANY_COLUMNS + local * TILE", FEW),
    ("many: a phase late", LEAVE, "(u + j) * by_ratio >> 16", "(u + j + 1) * by_ratio >> 16", FEW),
    ("many: moments of the tile before", LEAVE, "column % TILE;\n#pragma unroll\n      for (int j = 0; j < 4; j++)\n        if (column", "(column ^ 4) % TILE;\n#pragma unroll\n      for (int j = 0; j < 4; j++)\n        if (column", FEW),
    ("block: no dependency wait", BLOCK, "  wait_for_inputs ();\n", "", FEW),
    ("block: no barrier behind the inputs", BLOCK, "      feed.put (shared + i * MANY_BUFFER, NULL);\n" + BARRIER.replace("  ", "    "), "      feed.put (shared + i * MANY_BUFFER, NULL);\n", FEW),
    ("block: no barrier behind the hidden channels", BLOCK, BARRIER + "\n#pragma unroll 1\n  for (unsigned row0 = first; row0 < q.outputs", "\n#pragma unroll 1\n  for (unsigned row0 = first; row0 < q.outputs", FEW),
    ("block: half of the outputs", BLOCK, "row0 < q.outputs; row0 += 32", "row0 < q.outputs; row0 += 64", FEW),
    ("block: no history", BLOCK, "      feed.keep (shared + i * MANY_BUFFER, i * MANY_SLAB);\n", "      (void)0;\n", FEW),
    ("block: the residual is forgotten", BLOCK, "old[i][j] + v[i][j] + bias[i]", "v[i][j] + bias[i]", FEW),
    ("output: no barrier before the sums", "cuda/output.cu", "(sums[0], sums[1], sums[2], sums[3]);\n" + BARRIER, "(sums[0], sums[1], sums[2], sums[3]);\n", {"capability": 75}),
    ("output: every quarter has the past of the first", "cuda/output.cu", "quarter ? near : past[i].y", "past[i].y", {"capability": 75}),
    ("output: a fresh stream hears the one before", "cuda/output.cu", "quarter == 0 && (made || remembers (entry))", "quarter == 0", {"capability": 75}),
    # last.cuh, split.cuh, part.cuh, whole.cu: few streams without tensor cores
    ("last: no fence before the count", LAST, "      __threadfence ();\n      before =", "      before =", OLD),
    ("last: no fence after the count", LAST, "      __threadfence ();\n      last =", "      last =", OLD),
    ("last: no barrier before the count", LAST, "    __syncthreads ();\n    if (threadIdx.x == 0) {", "    if (threadIdx.x == 0) {", OLD),
    ("last: the counter is not reset", LAST, "atomicInc (arrived, n - 1)", "atomicAdd (arrived, 1u)", OLD),
    ("last: the one before the last goes on", LAST, "== n - 1;", "== n - 2;", OLD),
    ("split: the blocks' sums in another order", SPLIT, "(r0 + r) * SPLIT_SUMS", "(p.ranks - 1 - r0 - r) * SPLIT_SUMS", OLD),
    ("split: a block's sums are left out", SPLIT, "r0 + r < p.ranks", "r0 + r < p.ranks - 1", OLD),
    ("split: every block has the first channels", SPLIT, "channel0 = rank * PARTS * p.part_rows;", "channel0 = 0;", OLD),
    ("split: sums overwrite inputs", SPLIT, "  __syncthreads (); /* the sums take the place of the inputs */\n", "", OLD),
    ("split: sums are read as they come", SPLIT, "* SPLIT_WARP);\n" + BARRIER, "* SPLIT_WARP);\n", OLD),
    ("split: the first tile of a pair twice", SPLIT, "shared + half / 2 * room", "shared + half / 4 * room", OLD),
    ("split: padding takes part", SPLIT, "    if (entry.state == 0)\n      return;\n", "", OLD),
    ("split: rotates with another's sum", SPLIT, "sum[i], 4)", "sum[i], 8)", OLD),
    ("split: a fresh stream hears the one before", SPLIT, "(made || remembers (entry))", "true", OLD),
    ("split: a tile does not hear the one before", SPLIT, "i + 1 < n_tiles && threadIdx.x % 4 == 3", "false", OLD),
    ("split: moments of the first slice", SPLIT, "to[(row0 / 32 + slice) * TILE", "to[slice * TILE", OLD),
    ("lanes: parts of a batch in another order", "cuda/lanes.cuh", "part % PARTS != PARTS - 1", "part + 1 < PARTS * p.ranks", OLD),
    ("part: weights of one channel too few", PART, "      if (k0 < n)\n", "      if (k0 + STEP < n)\n", OLD),
    *[(f"whole: barrier {i + 1} of 7", WHOLE, BARRIER, "", i, OLD) for i in range(7)],
    ("whole: a fresh stream hears the one before", WHOLE, "if (column == -4 && remembers (entry))", "if (column == -4)", OLD),
    ("whole: the past is made anew, not remembered", WHOLE, "start < 0 && entry.follows == 0 && tid < length", "false", OLD),
    ("whole: what is not there goes through ELU", WHOLE, "    if (column >= 0 || entry.follows > 0) /* the", "    if (true) /* the", OLD),
    ("whole: outputs' biases are the hidden ones'", WHOLE, "s.bias2[n0 + i * APART]", "s.bias1[n0 + i % VALUES * APART]", OLD),
    ("whole: added to the column before", WHOLE, "? place (0, column) : in;", "? place (0, column) - (column % 16 != 0) : in;", OLD),
    ("whole: overflow of kernels before is not told", WHOLE, "    status = p.status[index];\n", "    status = 0;\n", OLD),
    ("whole: overflow is not told", WHOLE, "    o.overflow[index] = 1;", "    o.overflow[index] = 0;", OLD),
    # split_up.cu, split_attention.cu
    *[(f"up: barrier {i + 1} of 2", UP, BARRIER, "", i, OLD) for i in range(2)],
    ("up: zeros may come after the past", UP, "    __syncthreads (); /* zeros were there */\n", "", OLD),
    ("up: sums overwrite inputs", UP, "  __syncthreads (); /* sums take the place of inputs */\n", "", OLD),
    ("up: a fresh stream hears the one before", UP, ": remembers (entry) ? kept[k]", ": true ? kept[k]", OLD),
    ("up: a run does not hear the frame before", UP, "entry.follows > 0", "false", OLD),
    ("up: the past is a column late", UP, "shared[k * C::STRIDE + C::BEFORE - 1] =", "shared[k * C::STRIDE + C::BEFORE - 2] =", OLD),
    ("up: every frame of a run is kept", UP, " && entry.ends)", ")", OLD),
    ("up: the last column but one is kept", UP, "C::STRIDE + C::STRIDE - 1]", "C::STRIDE + C::STRIDE - 2]", OLD),
    ("up: a phase late", UP, "t * p.ratio + phase,", "t * p.ratio + (phase + 1) % p.ratio,", OLD),
    ("up: another lane's sums", UP, "(shared, other, output, pair)", "(shared, other ^ 1, output, pair)", OLD),
    ("up: overflow is not told", UP, "    atomicOr (p.status + index, 1u);\n", "    ;\n", OLD),
    *[(f"share: barrier {i + 1} of 4", SHARE, BARRIER, "", i, OLD) for i in range(4)],
    ("share: window one short", SHARE, "position + p.window > at &&", "position + p.window > at + 1 &&", OLD),
    ("share: window one long", SHARE, "position + p.window > at &&", "position + p.window >= at &&", OLD),
    ("share: a position of the future is seen", SHARE, "position <= at &&", "position <= at + 1 &&", OLD),
    ("share: ring starts one block late", SHARE, "begin / TILE % p.ring_blocks", "(begin / TILE + 1) % p.ring_blocks", OLD),
    ("share: the ring does not come round", SHARE, "return ring0 + b < ring_blocks ? ring0 + b : ring0 + b - ring_blocks;", "return ring0 + b;", OLD),
    ("share: every block has the first positions", SHARE, "first = rank * p.share;", "first = 0;", OLD),
    ("share: values of the block before", SHARE, "first + min (b, p.share - 1)", "first + min (b, p.share - 1) - (b > 0)", OLD),
    ("share: a rank is left out", SHARE, "ranks = view.last / p.share + 1;", "ranks = max (view.last / p.share, 1u);", OLD),
    ("share: ranks count the same", SHARE, "m[r] = exp2f (m[r] - highest);", "m[r] = exp2f (0.0f * highest);", OLD),
    ("share: who sees nothing is not asked for", SHARE, "(most[i] == -INFINITY ? 0.0f : most[i])", "most[i]", OLD),
    ("share: padding takes part", SHARE, "  if (entry.state == 0)\n    return;\n", "", OLD),
    ("share: another entry's sums", SHARE, "p.partial + (size_t)index * p.stride", "p.partial", OLD),
    ("output: a fresh stream hears the one before", "cuda/output.cu", "made || remembers (entry)", "true", {"capability": 75}),
    ("output: no barrier", "cuda/output.cu", BARRIER, "", {"capability": 75}),
    *[(f"alone: barrier {i + 1} of 2", ALONE, BARRIER, "", i, OLD) for i in range(2)],
    ("alone: status is not cleared", ALONE, "    p.status[index] = 0;\n", "    ;\n", OLD),
    ("alone: a fresh stream hears the one before", ALONE, "entry.follows == 0 && remembers (entry)", "entry.follows == 0", OLD),
    ("alone: a run does not hear the frame before", ALONE, "    if (projected && entry.follows)\n", "    if (false)\n", OLD),
    ("alone: moments of the first slice", ALONE, "(first / 32 + j) * TILE", "j * TILE", OLD),
    ("alone: latents as they come", ALONE, "exists && entry.kind == MIMI_CUDA_NORMALIZED", "false", OLD),
    ("16 bits: rounded down", "cuda/sample.cuh", "__float2int_rn", "__float2int_rd"),
    ("fade-in forgets where it is", "cuda/sample.cuh", "entry.fade_position + sample", "(unsigned long long) sample"),
]


# ---------------------------------------------------------------- lines of PTX
# barrier   a barrier of a block, warp or cluster, or a dependency wait is gone
# fence     a fence is gone
# index     a load or store is one element off
# lane      a shuffle gives each lane its own value
# sum       a multiply-add forgets what it adds to
# bound     a comparison includes its end, or no longer does
# value     an addition of integers adds one more
# The last two are often without effect, where nvcc has made a loop's bound or a
# guard that sizes never come near to; those before hardly ever are.


def barrier(line):
    if re.search(r"\b(bar\.sync|barrier\.sync|barrier\.cta|bar\.warp\.sync|"
                 r"barrier\.cluster|griddepcontrol\.wait)", line):
        yield ""


def fence(line):
    if re.search(r"\b(membar|fence)\.", line):
        yield ""


def index(line):
    m = re.search(r"\b(ld|st)\.(volatile\.|relaxed\.\w+\.)?(shared|global)"
                  r"(\.\w+|\.\w+::\w+)*?(\.v([24]))?\.[a-z]+(\d+)\b", line)
    if not m:
        return
    step = int(m.group(7)) // 8 * int(m.group(6) or 1)
    yield re.sub(r"\[(%\w+)(\+(-?\d+))?\]",
                 lambda a: f"[{a.group(1)}+{int(a.group(3) or 0) + step}]",
                 line, count=1)


def bound(line):
    swap = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}
    m = re.search(r"\bsetp\.(lt|le|gt|ge)\.[su](32|64)", line)
    if m:
        yield line[:m.start(1)] + swap[m.group(1)] + line[m.end(1):]


def lane(line):
    m = re.search(r"shfl\.sync\.\w+\.b32(\s+)(%\w+)(?:\|%\w+)?, (%\w+),.*;", line)
    if m:
        yield line[:m.start()] + f"mov.b32{m.group(1)}{m.group(2)}, {m.group(3)};"


def total(line):
    m = re.search(r"\bfma\.rn\.f32(\s+)(%\w+), (\S+), (\S+), (%\w+);", line)
    if m:
        yield line[:m.start()] + f"mul.rn.f32{m.group(1)}{m.group(2)}, {m.group(3)}, {m.group(4)};"


def value(line):
    m = re.search(r"\badd\.s(32|64)\s+%\w+, %\w+, (-?\d+);", line)
    if m:
        yield line[:m.start(2)] + str(int(m.group(2)) + 1) + line[m.end(2):]


PTX = {"barrier": barrier, "fence": fence, "index": index, "lane": lane, "sum": total, "bound": bound, "value": value}


def find_in_ptx(lines, ran):
    """(kind, number of the line, its new text, kernel) of every change to a line that ran."""
    kernel = "?"
    for number, line in enumerate(lines, 1):
        m = re.search(r"\.entry (\w+)", line)
        if m:
            kernel = m.group(1)
        if ran.get(number):
            for kind, func in PTX.items():
                for text in func(line):
                    yield kind, number, text, kernel
