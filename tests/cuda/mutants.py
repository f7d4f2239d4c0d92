# The mistakes that mutate.py makes
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tables of changes to a source file, (name, file of kernels/, old, new[, which place]), and the kinds of changes to a
line of PTX. All are of a kind that has been made: something left out, one off, swapped, too short, kept too long."""
import re

BACKEND, GRAPH, STATE = "cuda/backend.c", "cuda/graph.c", "cuda/state.c"
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
    ("every stream has the first one's state", BACKEND, "Slot *slot = item->slot;", "static Slot *slot; if (i == 0) slot = item->slot;"),
    # what changes from step to step
    ("frames are not counted", BACKEND, "    slot->frame++;\n", ""),
    ("reset is forgotten", BACKEND, "    slot->frame = 0;\n  entry", "    (void)0;\n  entry"),
    ("always reset", BACKEND, "if (item->reset)\n", ""),
    ("the frame of the step before", BACKEND, "entry->frame = slot->frame;", "entry->frame = slot->frame ? slot->frame - 1 : 0;"),
    ("the kind of the first row for ever", BACKEND, "entry->kind = item->kind;", "static int kind = -1; if (kind < 0) kind = item->kind; entry->kind = kind;"),
    ("PCM is never 16 bits", BACKEND, "entry->s16 = item->format == MIMI_PCM_S16;", "entry->s16 = 0;"),
    ("fade-in forgets where it is", BACKEND, "entry->fade_position = item->position;", "entry->fade_position = 0;"),
    ("no fade-in", BACKEND, "entry->fade_in = item->fade_in;", "entry->fade_in = 0;"),
    ("one codebook less", BACKEND, "entry->n_codes = item->n_codes;", "entry->n_codes = item->n_codes - 1;"),
    # copies
    ("the row is short", BACKEND, "item->values,\n      size);", "item->values,\n      size - 4);"),
    ("the row of codes is short", BACKEND, "size = item->n_codes * sizeof *item->codes;", "size = item->n_codes * sizeof *item->codes / 2;"),
    ("PCM is short", BACKEND, "MIMI_CUDA_PCM_BYTES, size);", "MIMI_CUDA_PCM_BYTES, size - 4);"),
    ("state read is short", BACKEND, "(own, s->state, size)", "(own, s->state, size / 2)"),
    ("state written is short", BACKEND, "(s->state, own, size)", "(s->state, own, size / 2)"),
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
    ("scratch is not zeroed", GRAPH, "!CHECK (cuda, error, MemsetD32, (self->memory, 0, activations / 4))", "0"),
    ("scratch is short", GRAPH, "(&self->memory, activations + entries * sizeof (MimiEntry) +", "(&self->memory, activations / 2 + entries * sizeof (MimiEntry) +"),
    ("pinned memory is short", GRAPH, "gsize pinned = pcm_at + entries * MIMI_CUDA_PCM_BYTES;", "gsize pinned = pcm_at + (entries * MIMI_CUDA_PCM_BYTES + 1) / 2;"),
    ("a failed capture is used", GRAPH, "       ok && CHECK (cuda, error, GraphInstantiate", "       CHECK (cuda, error, GraphInstantiate"),
    ("a graph is not given back", GRAPH, "    cuda->MemFreeHost (self->pinned);", "    (void)cuda;"),
    # saving
    ("the other copy of the histories", STATE, "(m->frames & 1)", "(~m->frames & 1)"),
    ("histories backwards", STATE, "at + t * channels + c", "at + (times - 1 - t) * channels + c"),
    ("keys of the first layer for all", STATE, "m->frame->rings[layer]", "m->frame->rings[0]"),
    ("keys one position late", STATE, "guint64 p = position - back;", "guint64 p = position - back + 1;"),
    ("keys and values swapped", STATE, "keys + (block * dim + c % dim) * MIMI_CUDA_TILE + p % MIMI_CUDA_TILE,\n          k);", "keys + (block * dim + c % dim) * MIMI_CUDA_TILE + p % MIMI_CUDA_TILE,\n          v);"),
    ("the window is one short", STATE, "past = n->window - 1, i, c;", "past = n->window - 2, i, c;"),
    # the driver
    ("an old driver is good enough", "cuda/driver.c", "cuda.version < REQUIRED_VERSION", "0"),
    ("a missing symbol is not noticed", "cuda/driver.c", "} else if (missing) {", "} else if (0) {"),
    ("an old GPU is good enough", "cuda/driver.c", "device->major < MINIMUM_MAJOR ||", "0 ||"),
    ("out of memory is any failure", "cuda/driver.c", "result == CUDA_ERROR_OUT_OF_MEMORY ? MIMI_ERROR_NO_MEMORY", "0 ? MIMI_ERROR_NO_MEMORY"),
    # streams
    ("every frame is fresh", "engine/stream.c", "    stream->fresh = FALSE;\n    stream->position +=", "    stream->position +="),
    ("together: another's result", "engine/stream.c", "? &items[good++] : &items[n + i], ns", "? &items[i] : &items[n + i], ns"),
]

# Where things lie, and how kernels are launched.
LAYOUT = [
    ("weights: the copy is short", "cuda/pack.c", "(self->memory, pack.bytes->data, self->size)", "(self->memory, pack.bytes->data, self->size / 2)"),
    ("a graph keeps one entry's place", "cuda/frame.c", "args->n_entries = entries;", "args->n_entries = 1;"),
    ("two histories in one place", "cuda/frame.c", "2 * n->channels[i + 1] * (n->residual_kernel - 1)", "32"),
    ("scratch of a neighbour", "cuda/frame.c", "args->in_stride = args->out_stride = l->frame->scratch_length;", "args->in_stride = args->out_stride = l->frame->scratch_length - 32;"),
]

# Kernels, as they are written; what nvcc makes of them is broken by the kinds below.
DEVICE = [
    ("window one short", "cuda/attention.cu", "position + p.window > at", "position + p.window > at + 1"),
    ("a position of the future is seen", "cuda/attention.cu", "position <= at &&", "position <= at + 1 &&"),
    ("ring starts one block late", "cuda/attention.cu", "(block0 % p.ring_blocks)", "((block0 + 1) % p.ring_blocks)"),
    ("history: same parity read and written", "cuda/common.cuh", "(~entry.frame & 1)", "(entry.frame & 1)"),
    ("a fresh stream hears the one before", "cuda/gemm.cuh", "(tile > 0 || entry.frame > 0)", "true"),
    ("a fresh stream's output hears the one before", "cuda/output.cu", "t >= 0 || entry.frame > 0", "true"),
    ("history of the wrong tile", "cuda/gemm.cuh", "tile == p.tiles - 1", "tile == 0"),
    ("position of the first frame for all", "cuda/gemm.cuh", "position = entry.frame * p.times + t", "position = t"),
    ("rotation the other way", "cuda/gemm.cuh", "d % 2 ? partner : -partner", "d % 2 ? -partner : partner"),
    ("norm without its offset", "cuda/gemm.cuh", "gain + offset", "gain"),
    ("ELU loses NaN", "cuda/common.cuh", "return x <= 0.0f ? below : x;", "return x > 0.0f ? x : below;"),
    ("overflow is not reported", "cuda/gemm.cuh", "  if (overflows (y))\n    atomicOr (p.status + index, 1u);\n", ""),
    ("status is not cleared", "cuda/input.cu", "    p.status[blockIdx.x] = 0;\n", ""),
    ("low halves are left out", "cuda/matrix.cuh", "if (PRODUCTS > 2)\n                multiply", "if (PRODUCTS > 3)\n                multiply"),
    ("16 bits: rounded down", "cuda/output.cu", "__float2int_rn", "__float2int_rd"),
    ("fade-in forgets where it is", "cuda/output.cu", "entry.fade_position + sample", "(unsigned long long) sample"),
    ("no barrier in the last convolution", "cuda/output.cu", BARRIER, ""),
    ("no dependency wait in the output", "cuda/output.cu", "  wait_for_inputs ();\n", ""),
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
