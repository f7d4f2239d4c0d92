#!/usr/bin/env python3
# From what the simulated GPU counted to microseconds on a card: a prediction
# SPDX-License-Identifier: LGPL-2.1-or-later
"""timemodel.py REPORT.json --frames N [--card H200|L4|RTX4060] [--weights MB]

REPORT  what tests/cudasim wrote to CUDASIM_REPORT while N frames (and one to
        warm up) of one stream were decoded:
          CUDASIM_CARD=H200 CUDASIM_TIMES=N CUDASIM_CHECK=off \\
            CUDASIM_REGISTERS=build/kernels/cuda/kernels.log \\
            CUDASIM_REPORT=report.json \\
            LD_LIBRARY_PATH=build/tests/cudasim build/kernels/bench/mimi-bench \\
            --backend cuda -i latents.f32 -o pcm.f32 model.safetensors

For each kernel, the time of one launch from: the longest chain of dependent
instructions; instructions over issue slots; tensor instructions over their
rate; sectors over the bandwidth of L2. The lower bound is the largest of them,
the upper their sum. What a kernel does before it waits for those before it
(`early`) costs nothing as long as it takes less time than the kernel before.
Then the edges between kernels, and the bus.

With CUDASIM_TIMES the simulator has played frame N on the card's processors,
and the estimate that it came to is printed too: for each launch the time from
the end of the one before (and the edge after that) to its own end, between low
and high, and what the warp that ended last had waited for. Nothing here was measured on a
card; docs/cuda.md says where each constant comes from.
"""
import argparse
import json
import math

# processors, MHz, cycles of a tf32 m16n8k8 in a quarter of a processor,
# L2 bytes a cycle, microseconds from a kernel to the next: low, high; the same
# with programmatic dependent launch
CARDS = {
    "H200": dict(sms=132, mhz=1980, mma=4 / 0.63, l2=2800, edge=(1.3, 1.4),
                 overlap=(0.35, 0.8), fits=50, dram=4800),
    "L4": dict(sms=58, mhz=2040, mma=16, l2=1100, edge=(0.94, 1.12), fits=48,
               dram=300),
    "RTX4060": dict(sms=24, mhz=2100, mma=32, l2=450, edge=(0.83, 1.12),
                    fits=24, dram=256),
}
# Microseconds for the row to come: a read across PCIe. An assumption.
BUS = (0.7, 1.5)


def measure(card, k):
    """What limits one launch, microseconds: after the wait, and before it."""
    one = 1 / k["launches"] / card["mhz"]
    blocks = k["blocks"] / k["launches"]
    # the share of the busiest processor: whole blocks
    share = math.ceil(blocks / card["sms"]) / blocks
    early = k["early"]
    # PTX names every move and parameter, machine code does without
    all_of_them = sum(k["instructions"].values())
    real = 1 - (k["instructions"]["move"] + k["instructions"]["param"]) / all_of_them
    late = dict(
        chain=k["chain"] * one,
        issue=(all_of_them - early["instructions"]) * real * share / 4 * one,
        tensor=k["instructions"]["mma"] * share / 4 * card["mma"] * one,
        l2=(k["sectors"] - early["sectors"]) * 32 / card["l2"] * one)
    before = max(early["chain"] * one, early["instructions"] * real * share / 4 * one,
                 early["sectors"] * 32 / card["l2"] * one)
    return late, before


def in_order(kernels):
    """Names, as a frame launches them: only the counts are in the report."""
    names = sorted(kernels)
    find = lambda word: [n for n in names if word in n]
    per = {n: kernels[n]["launches"] for n in names}
    frames = min(per.values())
    # layer.cu has all layers in one
    layers = per[find("qkv")[0]] // frames if find("qkv") else 1
    layer = find("layers")[:1]
    for word in ("qkv", "attention", "project", "expand", "project"):
        layer += find(word)[:1]
    begin = find("enter") or find("input") + find("front")
    rest = [n for n in names if n not in layer + begin]
    order = begin + layer * layers + find("first")
    left = {n: per[n] // frames for n in rest if "first" not in n}
    while sum(left.values()):
        before = len(order)
        for word in ("_up", "residual", "skip", "block", "output", "tail"):
            some = [n for n in sorted(left) if word in n and left[n]
                    and (word not in ("output", "tail") or
                         not any(left[m] for m in left if m != n))]
            if some:
                order.append(some[0])
                left[some[0]] -= 1
        if len(order) == before:
            raise SystemExit(f"where does {sorted(n for n in left if left[n])} belong?")
    return order


# What a warp waits for, in the report's words.
CAUSES = {
    "latency": ("math", "sfu", "shuffle", "mma", "shared", "l2", "fence"),
    "issue": ("issue", "pipe"),
    "tensor": ("tensor",),
    "lsu": ("conflict",),
    "L2": ("bandwidth",),
    "cluster": ("remote", "cluster"),
    "barrier": ("barrier",),
    "early": ("early",),
}


def print_scheduled(played, times):
    mhz = played["mhz"]
    print(f"\n{'launch, in order':28s} blocks    low  sched   high  early   "
          "where its last warp spent it, %")
    for launch in played["launches"]:
        name = launch["kernel"]
        late = times[name][0]
        took = (launch["end"] - launch["release"]) / mhz
        spent = {group: 100 * sum(launch["spent"][c] for c in causes)
                 for group, causes in CAUSES.items()}
        total = max(launch["end"] - launch["release"], 1)
        # a block that had to wait for a place
        spent["place"] = max(100 * total - sum(spent.values()), 0)
        print(f"{name:28s} {launch['blocks']:6d} {max(late.values()):6.2f} "
              f"{took:6.2f} {sum(late.values()):6.2f} "
              f"{launch['early'] / mhz:6.2f}   " +
              " ".join(f"{group} {v / total:.0f}" for group, v in
                       sorted(spent.items(), key=lambda x: -x[1])
                       if v / total >= 5))
    low, high = (cycles / mhz for cycles in played["total"])
    work = sum(k["end"] - k["release"] for k in played["launches"]) / mhz
    print(f"scheduled: {work:.1f} us of kernels, with edges {low:.1f} to {high:.1f}")
    print(f"{played['card']}, one stream: scheduled {low + BUS[0]:.0f} to "
          f"{high + BUS[1]:.0f} us a frame (predicted)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report")
    parser.add_argument("--card", choices=CARDS, default="H200")
    parser.add_argument("--frames", type=int, required=True)
    parser.add_argument("--weights", type=float, default=41.2, help="MB a frame")
    options = parser.parse_args()
    card = CARDS[options.card]
    with open(options.report) as f:
        report = json.load(f)
    kernels = {n: k for n, k in report["kernels"].items()
               if k["launches"] > options.frames}
    played = report.get("scheduled")
    if played and played["card"] != options.card:
        parser.error(f"the simulator played it on {played['card']}, with "
                     "CUDASIM_CARD")

    times = {n: measure(card, k) for n, k in kernels.items()}
    print(f"{'kernel':28s} a frame  chain  issue tensor     L2    low   high  early us")
    for name, (late, before) in sorted(times.items()):
        a_frame = kernels[name]["launches"] / (options.frames + 1)
        print(f"{name:28s} {a_frame:7.0f} " +
              " ".join(f"{v:6.2f}" for v in late.values()) +
              f" {max(late.values()):6.2f} {sum(late.values()):6.2f} {before:6.2f}")

    order = in_order(kernels)
    overlaps = any(before for _, before in times.values())
    low = high = 0
    for i, name in enumerate(order):
        late, _ = times[name]
        next_early = times[order[i + 1]][1] if i + 1 < len(order) else 0
        low += max(max(late.values()), next_early)
        high += max(sum(late.values()), next_early)
    programmatic = len(order) - 1 if overlaps else 0
    edges = [(len(order) - 1 - programmatic) * plain + programmatic * fast
             for plain, fast in zip(card["edge"], card.get("overlap", card["edge"]))]
    print(f"{len(order)} kernels: {low:.1f} to {high:.1f} us, edges of "
          f"{edges[0]:.1f} to {edges[1]:.1f}, the bus {BUS[0]} to {BUS[1]}")
    total = [low + edges[0] + BUS[0], high + edges[1] + BUS[1]]
    if options.weights > card["fits"]:
        dram = options.weights * 1e3 / card["dram"]
        print(f"the weights do not stay in L2: at least {dram:.0f} us to read them")
        total = [max(t, dram) for t in total]
    print(f"{options.card}, one stream: {total[0]:.0f} to {total[1]:.0f} us a frame "
          f"(predicted)")
    if played:
        print_scheduled(played, times)


if __name__ == "__main__":
    main()
