#!/usr/bin/env python3
# Holds the CUDA backend, through mimi-bench, against the oracle and upstream's goldens
# SPDX-License-Identifier: LGPL-2.1-or-later
"""check_cuda.py BENCH gates NETWORK... [--frames 750] [--precision fp32,tf32,bf16] [--storage F32]
check_cuda.py BENCH goldens NAME... [--precision fp32,tf32,bf16]

gates    SNR against the float64 oracle over all frames: at least 100, 60 and 40 dB; and, of 100 frames and
         more, the last ten seconds (or the last half) within 1 dB of the first (full: 5, tinyfull: 2), so that no error grows
goldens  entries of tests/reference/goldens/manifest.json: what upstream's packages computed

NETWORK is one of make_checkpoint.py's, or demo (speech). Runs on whatever libcuda.so.1 is found: a GPU's,
or the simulated one of tests/cudasim, with CUDASIM_CC as the caller set it. --table prints Markdown.
--keep FOLDER holds checkpoints and oracles for the next run.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
REFERENCE = os.path.join(HERE, "..", "reference")
sys.path.insert(0, REFERENCE)
import check_cpu
import make_checkpoint as maker
import mimi_reference as oracle

GATES = {"fp32": 100, "tf32": 60, "bf16": 40}
FRAME = 1920
TEN_SECONDS = 125
FEWEST = 100
# dB between first and last. With two positions a frame the first ten seconds are those in which the windows fill,
# and attention over more keys rounds more, on a CPU too; then it stays: docs/testing.md.
LOSS = {"full": 5, "tinyfull": 2}
BOOKS = 8
failures = []
table = []


def check(good, text):
    print(("ok      " if good else "FAILED  ") + text, flush=True)
    if not good:
        failures.append(text)


def decode(bench, model, source, precision, books):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "pcm.f32")
        command = [bench, "--backend", "cuda", "--precision", precision, "-i", source, "-o", out, model]
        if books:
            command[1:1] = ["--codebooks", str(books)]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            check(False, f"{' '.join(command)}: status {run.returncode}\n{run.stderr}")
            return np.zeros(0)
        return np.fromfile(out, "<f4").astype(np.float64)


def prepare(folder, network, frames, storage):
    """The checkpoint, its input and what the oracle makes of it; made once."""
    base = os.path.join(folder, f"{network}-{storage}-{frames}")
    codes = network != "demo" and maker.MODELS[network]["books"]
    source, pcm = base + (".u16" if codes else ".f32"), base + ".npy"
    if network == "demo":
        model = os.path.join(check_cpu.DEMO, "mimi-demo.safetensors")
        m = dict(heads=2, window=250, gelu="erf")
    else:
        model, m = os.path.join(folder, f"{network}-{storage}", "model.safetensors"), maker.MODELS[network]
        if not os.path.exists(model):
            os.makedirs(os.path.dirname(model), exist_ok=True)
            os.replace(check_cpu.make(folder, network, "moshi" if codes else "pocket", dtype=storage), model)
            with open(os.path.join(os.path.dirname(model), "config.json"), "w") as f:
                json.dump(maker.config(network), f)
    if not os.path.exists(pcm):
        if codes:
            rng = np.random.default_rng(7)
            rng.integers(0, m["bins"], (frames, BOOKS)).astype("<u2").tofile(source)
        else:
            os.replace(check_cpu.make_input(folder, network, frames), source)
        tensors = oracle.canonical_names(oracle.read_safetensors(model))
        want = oracle.decode(tensors, oracle.read_frames(source, BOOKS), m["heads"], m["window"], form=m["gelu"])
        np.save(pcm, want)
    return model, source, BOOKS if codes else 0, np.load(pcm)


def gates(bench, folder, network, frames, storage, precisions):
    model, source, books, want = prepare(folder, network, frames, storage)
    n = min(TEN_SECONDS, frames // 2) * FRAME
    for precision in precisions:
        got = decode(bench, model, source, precision, books)
        if len(got) != len(want):
            check(False, f"{network} {precision}: {len(got)} samples, not {len(want)}")
            continue
        db = check_cpu.snr(got, want)
        head, tail = check_cpu.snr(got[:n], want[:n]), check_cpu.snr(got[-n:], want[-n:])
        name = network if storage == "F32" else f"{network} in {storage}"
        check(db >= GATES[precision], f"{name} {precision}: {db:.1f} dB over {frames} frames, gate {GATES[precision]}")
        if frames >= FEWEST:  # a few frames differ by more
            check(tail >= head - LOSS.get(network, 1),
                  f"{name} {precision}: the last {n // FRAME} frames {tail:.1f} dB, the first {head:.1f}")
        table.append((name, frames, precision, db, head, tail))


def goldens(bench, folder, names, precisions):
    with open(os.path.join(check_cpu.GOLDENS, "manifest.json")) as f:
        entries = {e["name"]: e for e in json.load(f)["entries"]}
    for name in names:
        e = entries[name]
        model = check_cpu.make(folder, e["model"], e["layout"], e.get("gelu"))
        source = os.path.join(check_cpu.GOLDENS, e["input"])
        want = np.fromfile(os.path.join(check_cpu.GOLDENS, e["pcm"]), "<f4").astype(np.float64)
        for precision in precisions:
            gate = e["snr_vs_oracle_db"] - 3 if precision == "fp32" else GATES[precision]
            db = check_cpu.snr(decode(bench, model, source, precision, e.get("codebooks", 0)), want)
            check(db >= gate, f"{name} {precision}: {db:.1f} dB against {e['source']}, gate {gate:.1f}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bench")
    p.add_argument("check", choices=("gates", "goldens"))
    p.add_argument("names", nargs="+")
    p.add_argument("--frames", type=int, default=750)
    p.add_argument("--precision", type=lambda t: t.split(","), default=list(GATES))
    p.add_argument("--storage", choices=("F32", "F16", "BF16"), default="F32")
    p.add_argument("--keep")
    p.add_argument("--table", action="store_true")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if a.keep:
            os.makedirs(a.keep, exist_ok=True)
        if a.check == "goldens":
            goldens(a.bench, folder, a.names, a.precision)
        else:
            for name in a.names:
                gates(a.bench, a.keep or folder, name, a.frames, a.storage, a.precision)
    if a.table:
        print("\n| network | frames | precision | dB | first 10 s | last 10 s |\n|---|--:|---|--:|--:|--:|")
        for name, frames, precision, *values in table:
            print(f"| {name} | {frames} | {precision} | " + " | ".join(f"{v:.1f}" for v in values) + " |")
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
