#!/usr/bin/env python3
# mimi-bench --batch: its table, and what it refuses
# SPDX-License-Identifier: LGPL-2.1-or-later
"""check_bench.py BENCH CHECKPOINT: a checkpoint of latents; the simulated GPU, or a real one."""
import subprocess
import sys

bench, checkpoint = sys.argv[1:3]
failures = 0


def check(good, text):
    global failures
    failures += not good
    print(("ok      " if good else "FAILED  ") + text, flush=True)


def run(*options):
    return subprocess.run([bench, *options, checkpoint], capture_output=True, text=True)


def refused(words, *options):
    r = run(*options)
    check(r.returncode == 1 and words in r.stderr and "|" not in r.stdout,
          f"{' '.join(options)}: refused, saying \"{words}\": {r.stderr.strip()[-160:]}")


def rows(*options):
    r = run(*options)
    check(r.returncode == 0, f"{' '.join(options)}: works {r.stderr.strip()[-200:] if r.returncode else ''}")
    lines = [line for line in r.stdout.splitlines() if line.startswith("|")]
    return [dict(zip(["streams", "state", "device", "device99", "wall", "wall99", "rate", "real", "launches", "waits",
                      "up", "down", "steps"], (c.strip() for c in line.strip("|").split("|")))) for line in lines[2:]]


for sizes in ("0", "1025", "", "1,", "1,x", "-3", "2.5"):
    refused("from 1 to 1024", "--batch", sizes)
refused("expected device, host", "--batch", "1", "--state", "up")
refused("need --batch", "--state", "device,host")
refused("needs --batch", "--apart")
refused("leaves the state", "--apart", "--batch", "2", "--state", "host")
refused("from 1 to 64 frames", "--batch", "1", "--chunk", "65")
refused("from 1 to 64 frames", "--batch", "1", "--chunk", "0")
refused("with --apart one", "--batch", "2", "--chunk", "2", "--apart")
refused("expected fp32, tf32 or bf16", "--precision", "fp64")
refused("expected auto, cpu or cuda", "--backend", "gpu")
refused("no CUDA device 7", "--backend", "cuda", "--cuda-device-id", "7")
refused("fp32", "--backend", "cpu", "--precision", "bf16")

ENTRY, ROW, F32, S16 = 48, 128, 7680, 3840
table = rows("--backend", "cuda", "--batch", "1,3", "--state", "device,host", "--frames", "2", "--seconds", "0.01")
check([(r["streams"], r["state"]) for r in table] == [(n, s) for n in "13" for s in ("device", "host")],
      "a row for each size and place")
for r in table:
    n, host = int(r["streams"]), r["state"] == "host"
    entries = {1: 1, 3: 4}[n]
    up, down = int(r["up"]), int(r["down"])
    check(float(r["launches"]) == 1 and float(r["waits"]) == 1 + 2 * n * host, f"{r['launches']} launches, {r['waits']} waits")
    if host:
        check(up - down == round(ENTRY * entries / n + ROW) - F32 and down > 100000, "and the state, both ways")
    else:
        check((up, down) == (round(ENTRY * entries / n + ROW), F32), f"{up} bytes up, {down} down")
    check(0 < float(r["device"]) <= float(r["device99"]) and 0 < float(r["wall"]) <= float(r["wall99"]), "times")
    check(int(r["steps"]) >= 1, f"{r['steps']} steps")
r = rows("--backend", "cuda", "--batch", "1", "--chunk", "8", "--frames", "2")[0]
check(float(r["launches"]) == 1, f"8 frames a step: {r['launches']} launches")
# all rows but the last of a run cross the bus twice, see input.cu
check((int(r["up"]), int(r["down"])) == (round(ENTRY + ROW * 15 / 8), F32), f"{r['up']} bytes up a frame, {r['down']} down")
for r in rows("--backend", "cuda", "--batch", "1,5", "--apart", "--frames", "3"):
    n = int(r["streams"])
    check(r["state"] == "threads" and int(r["steps"]) >= 1 and float(r["rate"]) > 0, f"{n} threads, {r['steps']} frames each")
    check(1 <= float(r["launches"]) <= n and r["launches"] == r["waits"], f"{r['launches']} launches for a frame of each")
    check(int(r["down"]) == F32, f"{r['down']} bytes down")
r = rows("--backend", "cuda", "--batch", "1", "--frames", "1", "--s16", "--precision", "bf16")[0]
check(int(r["down"]) == S16, "16 bits: half the PCM")
r = rows("--backend", "cpu", "--batch", "2", "--frames", "3", "--state", "host")[0]
check(r["device"] == "-" and r["launches"] == "0.00" and r["steps"] == "3" and float(r["rate"]) > 0,
      "on a CPU: the wall's time alone")
sys.exit(failures > 0)
