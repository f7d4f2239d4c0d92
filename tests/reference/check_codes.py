#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Codes through the element itself, as gst-launch-1.0 reads and writes them, against upstream's goldens and the float64
oracle. GST_PLUGIN_PATH says where the plugin is.

    check_codes.py full                the full network: goldens, and 170 frames of 1, 8, 16 and 32 codebooks
    check_codes.py layouts [--seeds N] [--network tinyfull]
                                       every layout, integer and chunk size: the same bits; the oracle's PCM
    check_codes.py drift [--frames N] [--network tinyfull]
                                       noise over time, in dB below full scale

Everything is made in a temporary folder; the full network takes 500 MB there.
"""
import argparse, json, os, subprocess, sys, tempfile
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_checkpoint as maker
import mimi_reference as oracle
from check_cpu import FRAME, GOLDENS, check, failures, snr

FORMATS = {"U16LE": "<u2", "S32LE": "<i4", "S64LE": "<i8"}
GATE = 100  # dB, against the oracle


def element(model, codes, form="U16LE", chunk=4096):
    """What mimidec makes of the rows of codes, which reach it `chunk` bytes at a time."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = os.path.join(folder, "codes"), os.path.join(folder, "pcm")
        codes.astype(FORMATS[form]).tofile(source)
        caps = f"audio/x-mimi,rate=24000,channels=1,codebooks={codes.shape[1]},format={form}"
        command = ["gst-launch-1.0", "-q", "filesrc", f"location={source}", f"blocksize={chunk}", "!", caps, "!",
                   "mimidec", f"model={model}", "backend=cpu", "fade-in=0", "!", "audio/x-raw,format=F32LE", "!",
                   "filesink", f"location={out}"]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode or run.stderr:
            raise SystemExit(f"{' '.join(command)}: status {run.returncode}\n{run.stderr}{run.stdout}")
        return np.fromfile(out, "<f4").astype(np.float64)


def some_codes(network, frames, books, seed):
    return np.random.default_rng(seed).integers(0, maker.MODELS[network]["bins"], (frames, books))


def expected(network, tensors, codes):
    m = maker.MODELS[network]
    return oracle.decode({k: v.astype(np.float64) for k, v in tensors.items()}, codes, m["heads"], m["window"], form=m["gelu"])


def write(folder, network, layout, tensors, dtype="F32"):
    """A folder with a checkpoint and its config.json; returns the folder. `sharded` is hf in three files and an index, as
    transformers cuts it; csm has a language model around it."""
    folder = os.path.join(folder, f"{network}-{layout}-{dtype}")
    os.mkdir(folder)
    named = maker.layout(network, "hf" if layout == "sharded" else layout, dict(tensors))
    if layout == "csm":
        for i in range(4):
            named[f"backbone_model.layers.{i}.self_attn.q_proj.weight"] = np.full((64, 64), np.nan, np.float32)
    files = {"model.safetensors": named}
    if layout == "sharded":
        names = sorted(named)
        files = {f"model-0000{i + 1}-of-00003.safetensors": {k: named[k] for k in names[i::3]} for i in range(3)}
        index = {"metadata": {}, "weight_map": {k: f for f, part in files.items() for k in part}}
        with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
            json.dump(index, f)
    for name, part in files.items():
        maker.write_safetensors(os.path.join(folder, name), part, dtype)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(maker.config(network), f)
    return folder


def full(folder):
    tensors = maker.canonical("full", 1)
    model = write(folder, "full", "moshi", tensors)
    entries = json.load(open(os.path.join(GOLDENS, "manifest.json")))["entries"]
    for e in (e for e in entries if e["model"] == "full"):
        codes = oracle.read_frames(os.path.join(GOLDENS, e["input"]), e["codebooks"])
        want = np.fromfile(os.path.join(GOLDENS, e["pcm"]), "<f4").astype(np.float64)
        db, gate = snr(element(model, codes), want), e["snr_vs_oracle_db"] - 3
        check(db >= gate, f"{e['name']}: {db:.1f} dB against {e['source']}, {e['frames']} frames, gate {gate:.1f}")
    for books in (1, 8, 16, 32):
        codes = some_codes("full", 170, books, books)
        db = snr(element(model, codes, "S64LE", 37), expected("full", tensors, codes))
        check(db >= GATE, f"full, {books} codebooks: {db:.1f} dB against the oracle, 170 frames, gate {GATE}")


def layouts(folder, network, seeds):
    for seed in seeds:
        with tempfile.TemporaryDirectory(dir=folder) as here:
            tensors = maker.canonical(network, seed)
            codes = some_codes(network, 170, maker.MODELS[network]["books"], seed)
            first = None
            for layout in ("moshi", "hf", "csm", "sharded"):
                got = element(write(here, network, layout, tensors), codes)
                if first is None:
                    first, db = got, snr(got, expected(network, tensors, codes))
                    check(db >= GATE, f"{network} seed {seed}: {db:.1f} dB against the oracle, gate {GATE}")
                check(np.array_equal(got, first), f"{network} seed {seed}: {layout}, the same bits")
            # Weight norm is undone in float32, so these are other numbers.
            db = snr(element(write(here, network, "rawnorm", tensors), codes), first)
            check(db >= GATE, f"{network} seed {seed}: the training form, {db:.1f} dB, gate {GATE}")
            for form in FORMATS:
                for chunk in (1, 7, codes.shape[1] * 5 + 3, 100000):
                    got = element(os.path.join(here, f"{network}-hf-F32"), codes, form, chunk)
                    check(np.array_equal(got, first), f"{network} seed {seed}: {form}, {chunk} bytes at a time, the same bits")


def level(x):
    return 10 * np.log10(np.mean(x**2))


def drift(folder, network, frames):
    """Noise over time, a window at a time. It rises while the first window fills, by 3 to 5 dB, since attention over one key
    rounds nothing and over 250 it does. After that it must not."""
    m = maker.MODELS[network]
    step = m["window"] // m["up"]
    tensors, codes = maker.canonical(network, 1), some_codes(network, frames, 8, 8)
    got, want = element(write(folder, network, "moshi", tensors), codes), expected(network, tensors, codes)
    db = snr(got, want)
    check(db >= GATE, f"{network}: {db:.1f} dB over {frames} frames, gate {GATE}")
    noise = []
    for at in range(0, frames - step + 1, step):
        part = slice(at * FRAME, (at + step) * FRAME)
        noise.append(level(got[part] - want[part]))
        print(f"from frame {at}: signal {level(want[part]):.1f} dB, noise {noise[-1]:.1f} dB")
    check(noise[-1] <= noise[1] + 3, f"{network}: noise {noise[1]:.1f} dB in the second window, {noise[-1]:.1f} in the last")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("check", choices=("full", "layouts", "drift"))
    p.add_argument("--network", choices=("tinyfull", "full"), default="tinyfull")
    p.add_argument("--seeds", type=int, default=2)
    p.add_argument("--frames", type=int, default=1000)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if a.check == "full":
            full(folder)
        elif a.check == "layouts":
            layouts(folder, a.network, range(11, 11 + a.seeds))
        else:
            drift(folder, a.network, a.frames)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
