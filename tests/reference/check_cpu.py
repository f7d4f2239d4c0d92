#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Holds the CPU backend, through mimi-bench, against upstream's goldens and the float64 oracle.

    check_cpu.py BENCH goldens NAME...      entries of goldens/manifest.json
    check_cpu.py BENCH oracle NETWORK [--frames 300]
    check_cpu.py BENCH storage NETWORK      dtypes and layouts of the same numbers: the same PCM

NETWORK is one of make_checkpoint.py's, or demo. Everything is made in a temporary folder.
"""
import argparse, json, os, subprocess, sys, tempfile
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_checkpoint as maker
import mimi_reference as oracle

GOLDENS = os.path.join(HERE, "goldens")
DEMO = os.path.join(HERE, "..", "..", "pipelines", "demo")
FRAME = 1920
failures = []


def check(good, text):
    print(("ok      " if good else "FAILED  ") + text, flush=True)
    if not good:
        failures.append(text)


def snr(got, want):
    if got.shape != want.shape:
        return -np.inf
    noise = np.sum((got - want) ** 2)
    return 10 * np.log10(np.sum(want**2) / noise) if noise > 0 else np.inf


def instructions():
    """The instruction sets that can run here, the best last."""
    flags = open("/proc/cpuinfo").read().split() if os.path.exists("/proc/cpuinfo") else []
    out = ["c"]
    if os.uname().machine == "aarch64":
        out.append("neon")
    if "avx2" in flags and "fma" in flags:
        out.append("avx2")
    if all(f in flags for f in ("avx512f", "avx512dq", "avx512vl", "avx512bw")):
        out.append("avx512")
    return out


def decode(bench, model, source, books=None, isa=None, extra=()):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "pcm.f32")
        command = [bench, "--backend", "cpu", "-i", source, "-o", out, *extra, model]
        if books:
            command[1:1] = ["--codebooks", str(books)]
        env = dict(os.environ)
        if isa:
            env["MIMIDEC_CPU"] = isa
        run = subprocess.run(command, env=env, capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(f"{' '.join(command)}: status {run.returncode}\n{run.stderr}")
        return np.fromfile(out, "<f4").astype(np.float64)


def make(folder, network, layout, gelu=None, dtype="F32", tensors=None):
    """A folder with a checkpoint and its config.json."""
    folder = tempfile.mkdtemp(dir=folder)
    path = os.path.join(folder, "model.safetensors")
    tensors = tensors or maker.canonical(network, 1)
    maker.write_safetensors(path, maker.layout(network, layout, tensors), dtype)
    config = maker.config(network)
    if gelu:
        config["hidden_act"] = "gelu_pytorch_tanh" if gelu == "tanh" else "gelu"
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    return path


def goldens(bench, folder, names):
    entries = {e["name"]: e for e in json.load(open(os.path.join(GOLDENS, "manifest.json")))["entries"]}
    for name in names:
        e = entries[name]
        model = make(folder, e["model"], e["layout"], e["gelu"])
        want = np.fromfile(os.path.join(GOLDENS, e["pcm"]), "<f4").astype(np.float64)
        small = e["model"] in ("tiny", "tinyfull", "pocket2m")
        extra = [] if e.get("normalized", True) else ["--denormalized"]
        for isa in instructions() if small else instructions()[-1:]:
            got = decode(bench, model, os.path.join(GOLDENS, e["input"]), e.get("codebooks"), isa, extra)
            db, gate = snr(got, want), e["snr_vs_oracle_db"] - 3
            check(db >= gate, f"{name} {isa}: {db:.1f} dB against {e['source']}, gate {gate:.1f}")


def make_input(folder, network, frames):
    path = os.path.join(folder, "input.f32")
    if network == "demo":
        parts = [np.fromfile(os.path.join(DEMO, f"sentence-{i}.f32"), "<f4") for i in range(1, 9)]
        x = np.resize(np.concatenate(parts), frames * 32)
    else:
        x = np.random.default_rng(7).standard_normal(frames * 32) * 0.9
    x.astype("<f4").tofile(path)
    return path


def read_trace(folder):
    return {n.split("-", 1)[1][:-4]: np.fromfile(os.path.join(folder, n), "<f4").astype(np.float64)
            for n in os.listdir(folder)}


def check_oracle(bench, folder, network, frames):
    if network == "demo":
        model, m = os.path.join(DEMO, "mimi-demo.safetensors"), dict(heads=2, window=250, gelu="erf", latent=32)
    else:
        model, m = make(folder, network, "pocket"), maker.MODELS[network]
    source = make_input(folder, network, frames)
    tensors = oracle.canonical_names(oracle.read_safetensors(model))
    stages = {}

    def keep(name, x):
        rate = len(x) // frames
        stages[name] = x[: 40 * rate].ravel()  # later frames differ as much: the PCM says so

    want = oracle.decode(tensors, oracle.read_frames(source), m["heads"], m["window"], form=m["gelu"], trace=keep)
    first = None
    for isa in instructions():
        got = decode(bench, model, source, isa=isa)
        db = snr(got, want)
        head, tail = snr(got[: 40 * FRAME], want[: 40 * FRAME]), snr(got[-40 * FRAME :], want[-40 * FRAME :])
        check(db >= 100, f"{network} {isa}: {db:.1f} dB over {frames} frames, gate 100")
        check(tail >= head - 3, f"{network} {isa}: the last forty frames {tail:.1f} dB, the first {head:.1f}")
        first = got
    for name, extra in (("64 rows a call", ["--chunk", "64"]), ("7 rows a call", ["--chunk", "7"]),
                        ("two threads", ["--threads", "2"]), ("three threads", ["--threads", "3"])):
        check(np.array_equal(decode(bench, model, source, extra=extra), first), f"{network}: {name}, the same bits")

    short = os.path.join(folder, "short.f32")
    np.fromfile(source, "<f4")[: 40 * 32].tofile(short)
    for isa in instructions():
        trace = tempfile.mkdtemp(dir=folder)
        traced = decode(bench, model, short, isa=isa, extra=["--trace", trace])
        if isa == instructions()[-1]:
            check(np.array_equal(traced, first[: 40 * FRAME]), f"{network} {isa}: the same bits with a trace")
        got = read_trace(trace)
        check(set(got) == set(stages), f"{network} {isa}: a trace of every stage")
        worst, where = min((snr(got[k], stages[k]), k) for k in stages)
        check(worst >= 100, f"{network} {isa}: the worst stage, {where}, {worst:.1f} dB, gate 100")


def storage(bench, folder, network):
    """Numbers that bfloat16 and float16 both hold, so that every file says the same."""
    tensors = maker.canonical(network, 1)
    for k, v in tensors.items():
        bits = np.ascontiguousarray(v, "<f4").view(np.uint32)
        v = ((bits + 0x8000) & 0xFFFF0000).view(np.float32)
        tensors[k] = np.where(np.abs(v) < 2.0**-14, 0, v).astype(np.float32)  # float16 has no smaller one
    codes = maker.MODELS[network]["books"]
    if codes:
        source = os.path.join(GOLDENS, f"{network}-8.u16")
        layouts = ("moshi", "hf", "csm")
    else:
        source, layouts = os.path.join(GOLDENS, f"{network}.f32"), ("pocket", "phonon")
    for isa in instructions():
        want = None
        for layout in layouts:
            for dtype in ("F32", "BF16", "F16"):
                model = make(folder, network, layout, dtype=dtype, tensors=dict(tensors))
                got = decode(bench, model, source, 8 if codes else None, isa)
                want = got if want is None else want
                check(np.array_equal(got, want), f"{network} {isa}: {layout} in {dtype}, the same bits")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bench")
    p.add_argument("check", choices=("goldens", "oracle", "storage"))
    p.add_argument("names", nargs="+")
    p.add_argument("--frames", type=int, default=300)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if a.check == "goldens":
            goldens(a.bench, folder, a.names)
        for name in a.names:
            if a.check == "oracle":
                check_oracle(a.bench, folder, name, a.frames)
            elif a.check == "storage":
                storage(a.bench, folder, name)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
