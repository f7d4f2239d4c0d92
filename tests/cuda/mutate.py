#!/usr/bin/env python3
# Breaks the CUDA backend in one place after the other: tests must notice
# SPDX-License-Identifier: LGPL-2.1-or-later
"""mutate.py BUILD [--only WORDS]

BUILD  a folder to work in: a copy of the sources is built there, once for each
       mutant. Needs nvcc, but no GPU: the simulated one of tests/cudasim.
--only run the mutants whose names hold WORDS

Each mutant is one small mistake of a kind that has been made: a barrier, a
dependency wait or a zero left out, an index one off, two addresses swapped, a
copy too short, something that changes from step to step taken for constant. A
mutant that all tests pass is reported and makes the exit status 1. `nowhere`
is no mistake, and must pass.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

K = "kernels/cuda/"
BARRIER = "  __syncthreads ();\n"

# name, file, old, new, which of the places (0: the first), capability
MUTANTS = [
    ("nowhere", K + "gemm.cuh", "#pragma once", "#pragma once", 0, 90),
    # barriers
    ("no barrier before the norm's sums are read", K + "gemm.cuh",
     "    __syncthreads ();\n    if (active) {\n      float sum", "    if (active) {\n      float sum", 0, 90),
    ("no barrier after the norm's sums were read", K + "gemm.cuh",
     "  __syncthreads (); /* the sums", "  /* the sums", 0, 90),
    ("no barrier before the sums are stored", K + "gemm.cuh",
     "    product.leave (x);\n  __syncthreads ();", "    product.leave (x);", 0, 90),
    ("no warp barrier before staging", K + "gemm.cuh",
     "      __syncwarp ();\n      stage<", "      stage<", 0, 90),
    ("no warp barrier after staging", K + "gemm.cuh",
     "mean, scale, x);\n      __syncwarp ();", "mean, scale, x);", 0, 90),
    ("no barrier after the queries", K + "attention.cu", BARRIER, "", 0, 90),
    ("no barrier before softmax", K + "attention.cu", BARRIER, "", 1, 90),
    ("no barrier after softmax", K + "attention.cu", BARRIER, "", 2, 90),
    ("no barrier before the values' sum", K + "attention.cu", BARRIER, "", 3, 90),
    ("no barrier in the last convolution", K + "output.cu", BARRIER, "", 0, 90),
    # programmatic dependent launch
    ("no dependency wait in products", K + "gemm.cuh",
     "  wait_for_inputs ();\n", "", 0, 90),
    ("no dependency wait in attention", K + "attention.cu",
     "  wait_for_inputs ();\n", "", 0, 90),
    ("no dependency wait in the output", K + "output.cu",
     "  wait_for_inputs ();\n", "", 0, 90),
    ("no dependency wait in the front", K + "input.cu",
     "  wait_for_inputs ();\n", "", 1, 90),
    # what a stream sees of its past
    ("window one short", K + "attention.cu",
     "position + p.window > at", "position + p.window > at + 1", 0, 90),
    ("a position of the future is seen", K + "attention.cu",
     "position <= at &&", "position <= at + 1 &&", 0, 90),
    ("ring starts one block late", K + "attention.cu",
     "(block0 % p.ring_blocks)", "((block0 + 1) % p.ring_blocks)", 0, 90),
    ("history: same parity read and written", K + "common.cuh",
     "(~entry.frame & 1)", "(entry.frame & 1)", 0, 90),
    ("a fresh stream hears the one before", K + "gemm.cuh",
     "(tile > 0 || entry.frame > 0)", "true", 0, 90),
    ("a fresh stream's output hears the one before", K + "output.cu",
     "t >= 0 || entry.frame > 0", "true", 0, 90),
    ("history of the wrong tile", K + "gemm.cuh",
     "tile == p.tiles - 1", "tile == 0", 0, 90),
    ("history one column off", K + "gemm.cuh",
     "PAST + columns - H + j", "PAST + columns - H + j - 1", 0, 90),
    ("position of the first frame for all", K + "gemm.cuh",
     "position = entry.frame * p.times + t", "position = t", 0, 90),
    # arithmetic
    ("rotation the other way", K + "gemm.cuh", "d % 2 ? partner : -partner",
     "d % 2 ? -partner : partner", 0, 90),
    ("norm without its offset", K + "gemm.cuh",
     "gain + offset", "gain", 0, 90),
    ("ELU loses NaN", K + "common.cuh", "return x <= 0.0f ? below : x;",
     "return x > 0.0f ? x : below;", 0, 90),
    ("overflow is not reported", K + "gemm.cuh",
     "  if (overflows (y))\n    atomicOr (p.status + index, 1u);\n", "", 0, 90),
    ("status is not cleared", K + "input.cu",
     "    p.status[blockIdx.x] = 0;\n", "", 0, 90),
    ("low halves are left out", K + "matrix.cuh",
     "if (PRODUCTS > 2)\n                multiply", "if (PRODUCTS > 3)\n                multiply", 0, 90),
    ("fragment rows swapped", K + "matrix.cuh",
     "sums[(b * 16 + i / 2 * 8 + row)", "sums[(b * 16 + (1 - i / 2) * 8 + row)",
     0, 90),
    ("16 bits: rounded down", K + "output.cu", "__float2int_rn", "__float2int_rd",
     0, 90),
    ("fade-in forgets where it is", K + "output.cu",
     "entry.fade_position + sample", "(unsigned long long) sample", 0, 90),
    # the host
    ("padding keeps who sat there", K + "backend.c",
     "    batch->entries[i].state = 0; /*", "    (void)0; /*", 0, 90),
    ("frames are not counted", K + "backend.c", "    slot->frame++;\n", "", 0, 90),
    ("reset is forgotten", K + "backend.c", "    slot->frame = 0;\n  entry",
     "    (void)0;\n  entry", 0, 90),
    ("weights: the copy is short", K + "pack.c",
     "(self->memory, pack.bytes->data, self->size)",
     "(self->memory, pack.bytes->data, self->size / 2)", 0, 90),
    ("PCM: the copy is short", K + "backend.c", "MIMI_FRAME_SAMPLES * (items",
     "(MIMI_FRAME_SAMPLES - 1) * (items", 0, 90),
    ("state: the copy is short", K + "backend.c", "(s->state, own, size)",
     "(s->state, own, size / 2)", 0, 90),
    ("a graph keeps one entry's place", K + "frame.c",
     "args->n_entries = entries;", "args->n_entries = 1;", 0, 90),
    ("two histories in one place", K + "frame.c",
     "2 * n->channels[i + 1] * (n->residual_kernel - 1)", "32", 0, 90),
    ("scratch of a neighbour", K + "frame.c",
     "args->in_stride = args->out_stride = l->frame->scratch_length;",
     "args->in_stride = args->out_stride = l->frame->scratch_length - 32;", 0,
     90),
    ("a wait is left out", K + "backend.c",
     "&&\n       CHECK (cuda, error, StreamSynchronize, (self->stream));", ";",
     0, 90),
    # the portable way to multiply
    ("lanes: groups are not summed", K + "lanes.cuh",
     "    sum_groups<16> (acc, rows / 2, first, count);\n", "", 0, 75),
    ("lanes: a tap off", K + "lanes.cuh", "window[LEAD - H + tap + t]",
     "window[LEAD - H + (TAPS > 1 ? 1 - tap % 2 : 0) + t]", 0, 75),
    ("lanes: channels of a neighbour", K + "lanes.cuh", "r = r0 + group",
     "r = r0 + (group ^ 1)", 0, 75),
]

# Programs and what to run of them; the first that fails is enough.
TESTS = [
    ("test-cuda-oracle", ["-p", "/cuda/fp32/tiny-pocket"], "full"),
    ("test-cuda-batch", [], "fast"),
    ("test-state", [], "fast"),
    ("test-cuda-failures", ["-p", "/cuda/running/steady"], "fast"),
]
TARGETS = ["tests/cuda/test-cuda-oracle", "tests/cuda/test-cuda-batch",
           "tests/kernels/test-state", "tests/cuda/test-cuda-failures",
           "tests/cudasim/libcuda.so.1", "tests/cuda/tiny.oracle",
           "tests/kernels/tiny-pocket.safetensors",
           "tests/kernels/tinyfull-moshi.safetensors",
           "tests/kernels/pocket2m-pocket.safetensors"]


def find(text, old, which):
    at = -1
    for _ in range(which + 1):
        at = text.find(old, at + 1)
        if at < 0:
            return at
    return at


def build(folder):
    return subprocess.run(["ninja", "-C", folder, *TARGETS],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)


def first_failure(source, folder, capability):
    env = dict(os.environ, LD_LIBRARY_PATH=str(folder / "tests/cudasim"),
               CUDASIM_CC=str(capability), CUDASIM_QUIET="1", MIMI_TEST_CUDA="1",
               MIMI_TEST_CHECKPOINTS=str(folder / "tests/kernels"),
               MIMI_TEST_ORACLES=str(folder / "tests/cuda"),
               MIMI_TEST_GOLDENS=str(source / "tests/reference/goldens"))
    for program, arguments, check in TESTS:
        where = "kernels" if program == "test-state" else "cuda"
        try:
            result = subprocess.run(
                [folder / "tests" / where / program, *arguments], timeout=300,
                env=dict(env, CUDASIM_CHECK=check), stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return program + " (hangs)"
        if result.returncode:
            return program
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    top = pathlib.Path(__file__).resolve().parents[2]
    source = options.build.resolve() / "source"
    folder = options.build.resolve() / "build"

    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    files = subprocess.run(["git", "-C", top, "ls-files", "-z"], check=True,
                           capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, files):
        if (top / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(top / name, source / name)

    bad, ran, configured = [], 0, None
    for name, file, old, new, which, capability in MUTANTS:
        if options.only not in name:
            continue
        ran += 1
        begin = time.monotonic()
        if configured != capability:
            again = ["--reconfigure"] if folder.exists() else []
            subprocess.run(
                ["meson", "setup", folder, source, *again, "-Dcuda=enabled",
                 f"-Dcuda-architectures=ptx{capability}"], check=True,
                stdout=subprocess.DEVNULL)
            configured = capability
        text = (top / file).read_text()
        at = find(text, old, which)
        if at < 0:
            bad.append(name)
            print(f"{name}: {file} has no such place any more", flush=True)
            continue
        (source / file).write_text(text[:at] + new + text[at + len(old):])
        result = build(folder)
        if result.returncode:
            sys.exit(f"{name}: does not build\n{result.stdout[-3000:]}")
        failed = first_failure(source, folder, capability)
        (source / file).write_text(text)
        good = (failed is None) == (old == new)
        if not good:
            bad.append(name)
        print(f"{'ok' if good else 'NOT NOTICED' if old != new else 'FAILS'}: "
              f"{name}: {failed or 'all pass'}, "
              f"{time.monotonic() - begin:.0f} s", flush=True)
    print(f"{ran} mutants, {len(bad)} wrong" + "".join(f"\n  {b}" for b in bad))
    sys.exit(bool(bad) or not ran)


if __name__ == "__main__":
    main()
