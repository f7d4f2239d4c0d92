#!/usr/bin/env python3
# The decoder's step in PyTorch, to be measured beside ours
# SPDX-License-Identifier: LGPL-2.1-or-later
"""torch_step.py CHECKPOINT [--device cuda] [--batch 1,64] [--modes eager,compiled,graphed] [--precision fp32]
torch_step.py CHECKPOINT --check [--modes eager] [--frames 40]

Written from tests/reference/mimi_reference.py: the same network and the same checkpoint, one frame at a time, with
the state in tensors that stay on the device. Nothing in a step waits for the host, so that it can be compiled and
captured in a CUDA graph as it stands.

  eager       plain calls
  host        eager, the state copied to the host and back at every frame, as programs do that pass it in and out
  compiled    torch.compile, all of the step in one graph of it
  graphed     eager, captured in a CUDA graph and replayed
  both        compiled, then captured

--precision tf32 lets PyTorch use TF32 in products and convolutions, bf16 stores weights and operands of both so (state,
norms and softmax stay float32, as in ours).
--check holds each of them against the float64 oracle, on any device: at least 100 dB. Else prints a Markdown table.
"""
import argparse
import contextlib
import json
import math
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "reference"))
import mimi_reference as oracle

FRAME = 1920
SECONDS = FRAME / 24000
MODES = ["eager", "host", "compiled", "graphed", "both"]


class Step:
    """One frame of `batch` streams. Activations are [batch, channel, time]."""

    def __init__(self, tensors, batch, device, heads, window, form, dtype=torch.float32):
        self.t = {}
        for k, v in tensors.items():
            matrix = v.ndim > 1 and "embedding" not in k
            self.t[k] = torch.tensor(v, dtype=dtype if matrix else torch.float32, device=device)
        self.codes = "emb_mean" not in tensors
        self.heads, self.window, self.form, self.dtype = heads, window, form, dtype
        self.batch, self.device, self.state = batch, device, {}
        self.up = tensors["upsample.convtr.weight"].shape[2] // 2
        self.layers = sum(k.endswith("linear1.weight") for k in tensors)
        self.width = tensors["upsample.convtr.weight"].shape[0]
        # All keys that this frame's queries may see, this frame's own among them, in whole frames.
        self.ring = -(-(window - 1 + self.up) // self.up) * self.up
        if self.codes:
            self.find_books()
        half = torch.arange(self.width // heads // 2, dtype=torch.float64, device=device)
        self.rates = 10000.0 ** (-2 * half / (self.width // heads))
        self.slots = torch.arange(self.ring, device=device)
        self.times = torch.arange(self.up, device=device)
        self.keep("position", torch.zeros((), dtype=torch.int64, device=device))

    def find_books(self):
        self.books = []
        for group in ("first", "rest"):
            found = []
            while True:
                p = f"quantizer.rvq_{group}.vq.layers.{len(found)}._codebook."
                if p + "embedding_sum" not in self.t:
                    break
                usage = self.t[p + "cluster_usage"].clamp(min=1e-5)
                found.append(self.t[p + "embedding_sum"] / usage[:, None])
            self.books.append(torch.stack(found))

    def keep(self, name, initial):
        """A part of the state, in place for good."""
        if name not in self.state:
            self.state[name] = initial
        return self.state[name]

    def reset(self):
        for v in self.state.values():
            v.zero_()

    # Products and convolutions take operands of `dtype` and give float32.
    def linear(self, x, name):
        return F.linear(x.to(self.dtype), self.t[name]).float()

    def past(self, name, x, length):
        """x with the `length` times before it, which it leaves for the next frame."""
        old = self.keep(name, torch.zeros(x.shape[0], x.shape[1], length, device=x.device))
        joined = torch.cat([old, x], 2)
        old.copy_(joined[:, :, -length:])
        return joined

    def conv(self, x, name):
        w = self.t[name + ".weight"]
        if w.shape[2] > 1:
            x = self.past(name, x, w.shape[2] - 1)
        return F.conv1d(x.to(self.dtype), w).float() + self.t[name + ".bias"][:, None]

    def conv_transpose(self, x, name, groups=1):
        """Taps are twice the stride: an output sees this input and the one before."""
        w = self.t[name + ".weight"]
        stride, n = w.shape[2] // 2, x.shape[2]
        y = F.conv_transpose1d(self.past(name, x, 1).to(self.dtype), w, stride=stride, groups=groups).float()
        y = y[:, :, stride : stride + n * stride]
        bias = self.t.get(name + ".bias")
        return y if bias is None else y + bias[:, None]

    def rope(self, x, angle):
        """x [batch, head, time, dim], neighbouring pairs rotated."""
        re, im = x[..., 0::2], x[..., 1::2]
        c, s = torch.cos(angle).float(), torch.sin(angle).float()
        return torch.stack([re * c - im * s, re * s + im * c], -1).flatten(-2)

    def attention(self, x, p, i):
        b, n, d = x.shape
        position = self.state["position"]
        at = position + self.times
        q, k, v = self.linear(x, p + "self_attn.in_proj.weight").view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        angle = at[:, None] * self.rates
        q, k = self.rope(q, angle), self.rope(k, angle)
        empty = torch.zeros(b, self.heads, self.ring, d // self.heads, device=x.device)
        keys, values = self.keep(f"keys{i}", empty), self.keep(f"values{i}", empty.clone())
        keys.index_copy_(2, at % self.ring, k)
        values.index_copy_(2, at % self.ring, v)
        last = position + n - 1  # the position that lies in a slot is the newest one that fits there
        where = last - (last - self.slots) % self.ring
        delta = at[:, None] - where[None]
        mask = (delta >= 0) & (delta < self.window) & (where >= 0)[None]
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return self.linear(y.transpose(1, 2).reshape(b, n, d), p + "self_attn.out_proj.weight")

    def transformer(self, x):
        for i in range(self.layers):
            p = f"decoder_transformer.transformer.layers.{i}."
            norm = lambda x, n: F.layer_norm(x, x.shape[-1:], self.t[p + n + ".weight"], self.t[p + n + ".bias"], 1e-5)
            x = x + self.t[p + "layer_scale_1.scale"] * self.attention(norm(x, "norm1"), p, i)
            y = self.linear(norm(x, "norm2"), p + "linear1.weight")
            y = F.gelu(y, approximate="tanh" if self.form == "tanh" else "none")
            x = x + self.t[p + "layer_scale_2.scale"] * self.linear(y, p + "linear2.weight")
        self.state["position"].add_(self.up)
        return x

    def front(self, row):
        if not self.codes:
            x = row * self.t["emb_std"] + self.t["emb_mean"]
            return self.linear(x, "projection")
        total = 0
        for books, codes, group in ((self.books[0], row[:, :1], "first"), (self.books[1], row[:, 1:], "rest")):
            s = books[torch.arange(codes.shape[1], device=row.device), codes].sum(1)
            total = total + self.linear(s, group)
        return total

    def __call__(self, row):
        """row [batch, 32] latents, or [batch, books] codes -> PCM [batch, 1920]."""
        x = self.front(row)[:, :, None]
        x = self.conv_transpose(x, "upsample.convtr", groups=self.width)
        x = self.transformer(x.transpose(1, 2)).transpose(1, 2)
        x = self.conv(x, "decoder.model.0.conv")
        n = 2
        while f"decoder.model.{n}.convtr.weight" in self.t:
            x = self.conv_transpose(F.elu(x), f"decoder.model.{n}.convtr")
            y = self.conv(F.elu(x), f"decoder.model.{n + 1}.block.1.conv")
            x = x + self.conv(F.elu(y), f"decoder.model.{n + 1}.block.3.conv")
            n += 3
        return self.conv(F.elu(x), f"decoder.model.{n}.conv")[:, 0]


def load(path):
    """Tensors under canonical names, with the 1x1 convolutions of the quantizer as matrices."""
    t = oracle.canonical_names(oracle.read_safetensors(path))
    out = {}
    for k, v in t.items():
        if k.endswith("output_proj.weight"):
            name = "projection" if "rvq" not in k else "first" if "rvq_first" in k else "rest"
            out[name] = v[:, :, 0]
        elif k.startswith(("emb_", "quantizer.rvq", "upsample", "decoder.", "decoder_transformer")):
            out[k] = v
    return t, out


def settle(path, tensors):
    """Heads, window and GELU, which no shape tells: the config.json beside the file, or what the width says."""
    width = tensors["upsample.convtr.weight"].shape[0]
    config = os.path.join(os.path.dirname(path), "config.json")
    if os.path.exists(config):
        with open(config) as f:
            c = json.load(f)
        if "num_attention_heads" in c:
            return c["num_attention_heads"], c["sliding_window"], "tanh" if "tanh" in c["hidden_act"] else "erf"
    small = width == 128
    form = "tanh" if "emb_mean" in tensors else "erf"
    return (4, 50, form) if small else (max(width // 64, 1), 250, form)


def make_rows(tensors, frames, batch):
    rng = np.random.default_rng(7)
    if "emb_mean" in tensors:
        return (rng.standard_normal((frames, batch, 32)) * 0.9).astype(np.float32)
    bins = tensors["quantizer.rvq_first.vq.layers.0._codebook.embedding_sum"].shape[0]
    return rng.integers(0, bins, (frames, batch, 8))


# ---------------------------------------------------------------- measuring


def quantiles(values):
    v = sorted(values)
    return v[len(v) // 2], v[min(int(len(v) * 0.99), len(v) - 1)]


class Clock:
    """Device time by events, wall time by a wait after each step."""

    def __init__(self, device):
        self.cuda = torch.device(device).type == "cuda"

    def measure(self, call, steps, seconds):
        wall, device, end = [], [], time.monotonic() + seconds
        if self.cuda:
            begin, done = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
        while len(wall) < steps and time.monotonic() < end:
            start = time.perf_counter()
            call()
            if self.cuda:
                torch.cuda.synchronize()
            wall.append(time.perf_counter() - start)
        # apart from that: an event before the launch times the launch as well, unless the device is busy meanwhile
        while self.cuda and len(device) < len(wall) and time.monotonic() < end + seconds:
            torch.cuda._sleep(1_000_000)
            begin.record()
            call()
            done.record()
            torch.cuda.synchronize()
            device.append(begin.elapsed_time(done) * 1e-3)
        return wall, device


def prepare(mode, step, row, out):
    """A function that decodes the next frame: row, already on the device, into out."""
    assert mode in MODES, mode

    def eager():
        out.copy_(step(row))

    if mode == "eager":
        return eager
    if mode == "host":

        def through_host():
            kept = {k: v.cpu() for k, v in step.state.items()}
            for k, v in step.state.items():
                v.copy_(kept[k])
            eager()
        return through_host
    call = eager
    if mode in ("compiled", "both"):
        compiled = torch.compile(step, fullgraph=True, dynamic=False)

        def call():
            out.copy_(compiled(row))
    for _ in range(3):
        call()
    if mode == "compiled":
        return call
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def measure(path, options):
    _, tensors = load(path)
    heads, window, form = settle(path, tensors)
    tf32 = options.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    clock = Clock(options.device)
    end = time.monotonic() + options.budget
    print(f"PyTorch {torch.__version__}, {options.precision}, {os.path.basename(path)}\n")
    print("| streams | how | device ms | p99 | wall ms | p99 | frames/s | in real time | steps |")
    print("|--:|---|--:|--:|--:|--:|--:|--:|--:|")
    good = True
    for batch in options.batch:
        for mode in options.modes:
            if time.monotonic() > end:
                print(f"| {batch} | {mode} | no time left |", flush=True)
                continue
            try:
                with torch.no_grad() if mode in ("compiled", "both") else torch.inference_mode():
                    step = Step(tensors, batch, options.device, heads, window, form, dtype)
                    row = torch.from_numpy(make_rows(tensors, 1, batch)[0]).to(options.device)
                    out = torch.empty(batch, FRAME, device=options.device)
                    step(row)  # makes the state
                    call = prepare(mode, step, row, out)
                    for _ in range(8):
                        call()
                    wall, device = clock.measure(call, options.steps, options.seconds)
            except Exception as e:  # one way that this PyTorch cannot go is no reason not to try the others
                text = str(e).strip().split("\n")[0][:100]
                print(f"| {batch} | {mode} | {type(e).__name__}: {text} |", flush=True)
                good = False
                continue
            w, d = quantiles(wall), quantiles(device) if device else None
            times = f"{d[0] * 1e3:.4f} | {d[1] * 1e3:.4f}" if d else "- | -"
            rate = batch * len(wall) / sum(wall)
            print(f"| {batch} | {mode} | {times} | {w[0] * 1e3:.4f} | {w[1] * 1e3:.4f} | {rate:.0f} | "
                  f"{rate * SECONDS:.0f} | {len(wall)} |", flush=True)
    return good


def check(path, options):
    """Two utterances of two streams, the second after a reset, in each of the modes."""
    canonical, tensors = load(path)
    heads, window, form = settle(path, tensors)
    rows = make_rows(tensors, options.frames, 2)
    want = [oracle.decode(canonical, rows[:, s].astype(np.float64) if rows.dtype.kind == "f" else rows[:, s],
                          heads, window, form=form) for s in range(2)]
    good = True
    for mode in options.modes:
        step = Step(tensors, 2, options.device, heads, window, form)
        row = torch.from_numpy(rows[0].copy()).to(options.device)
        out = torch.empty(2, FRAME, device=options.device)
        step(row)  # makes the state
        call = prepare(mode, step, row, out)
        worst = math.inf
        for _ in range(2):
            step.reset()
            frames = []
            for r in rows:
                row.copy_(torch.from_numpy(r))
                call()
                frames.append(out.cpu().double().numpy())
            got = np.concatenate(frames, 1)
            for s in range(2):
                worst = min(worst, 10 * math.log10(np.sum(want[s] ** 2) / np.sum((want[s] - got[s]) ** 2)))
        print(f"{os.path.basename(path)}, {mode}: {worst:.1f} dB over {options.frames} frames to the float64 oracle, "
              "gate 100", flush=True)
        good = good and worst >= 100
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checkpoint")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--batch", type=lambda t: [int(n) for n in t.split(",")], default=[1])
    p.add_argument("--modes", type=lambda t: t.split(","), default=MODES)
    p.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--seconds", type=float, default=3, help="at most so long for each row, and for its device times")
    p.add_argument("--budget", type=float, default=1e9, help="begin no row after so many seconds")
    p.add_argument("--check", action="store_true")
    p.add_argument("--frames", type=int, default=40)
    a = p.parse_args()
    torch.set_grad_enabled(False)
    with contextlib.suppress(AttributeError):
        torch.set_float32_matmul_precision("high" if a.precision == "tf32" else "highest")
    return 0 if (check if a.check else measure)(a.checkpoint, a) else 1


if __name__ == "__main__":
    sys.exit(main())
