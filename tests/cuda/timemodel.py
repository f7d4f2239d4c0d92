#!/usr/bin/env python3
# From what the simulated GPU counted to microseconds on a card: a prediction
# SPDX-License-Identifier: LGPL-2.1-or-later
"""timemodel.py REPORT.json [--card H200|L4|RTX4060] [--frames N]

REPORT  what tests/cudasim wrote to CUDASIM_REPORT while N frames (and one to
        warm up) of one stream were decoded:
          CUDASIM_CC=90 CUDASIM_CHECK=off CUDASIM_REPORT=report.json \\
            LD_LIBRARY_PATH=build/tests/cudasim build/kernels/bench/mimi-bench \\
            --backend cuda -i latents.f32 -o pcm.f32 model.safetensors

For each kernel, the time of one launch from: the longest chain of dependent
instructions; instructions over issue slots; tensor instructions over their
rate; sectors over the bandwidth of L2. The lower bound is the largest of them,
the upper their sum. Then the edges between kernels. Nothing here was measured
on a card; docs/cuda.md says where each constant comes from.
"""
import argparse
import json
import math

# processors, MHz, cycles of a tf32 m16n8k8 in a quarter of a processor,
# L2 bytes a cycle, microseconds from a kernel to the next: low, high
CARDS = {
    "H200": dict(sms=132, mhz=1980, mma=8 / 0.63, l2=2800, edge=(0.35, 0.8),
                 fits=True, dram=4800),
    "L4": dict(sms=58, mhz=2040, mma=32, l2=1100, edge=(0.94, 1.12), fits=True,
               dram=300),
    "RTX4060": dict(sms=24, mhz=2100, mma=32, l2=450, edge=(0.83, 1.12),
                    fits=False, dram=256),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report")
    parser.add_argument("--card", choices=CARDS, default="H200")
    parser.add_argument("--frames", type=int, required=True)
    parser.add_argument("--weights", type=float, default=41.2, help="MB a frame")
    options = parser.parse_args()
    card = CARDS[options.card]
    with open(options.report) as f:
        kernels = json.load(f)["kernels"]

    low = high = launches = 0
    print(f"{'kernel':30s} a frame  chain  issue  tensor     L2    low   high us")
    for name, k in sorted(kernels.items()):
        if not k["launches"]:
            continue
        n = k["launches"] / (options.frames + 1)
        one = 1 / k["launches"] / card["mhz"]
        blocks = k["blocks"] / k["launches"]
        # the share of the busiest processor: whole blocks
        share = math.ceil(blocks / card["sms"]) / blocks
        chain = k["chain"] * one
        issue = sum(k["instructions"].values()) * share / 4 * one
        tensor = k["instructions"]["mma"] * share / 4 * card["mma"] * one
        l2 = k["sectors"] * 32 / card["l2"] * one
        parts = (chain, issue, tensor, l2)
        low += n * max(parts)
        high += n * sum(parts)
        launches += n
        print(f"{name:30s} {n:7.0f} {chain:6.2f} {issue:6.2f} {tensor:7.2f} "
              f"{l2:6.2f} {max(parts):6.2f} {sum(parts):6.2f}")
    edges = [launches * e for e in card["edge"]]
    print(f"{launches:.0f} kernels: {low:.0f} to {high:.0f} us, and edges of "
          f"{edges[0]:.0f} to {edges[1]:.0f} us")
    dram = 0 if card["fits"] else options.weights * 1e3 / card["dram"]
    if dram:
        print(f"the weights do not stay in L2: at least {dram:.0f} us to read them")
    print(f"{options.card}, one stream: {max(low + edges[0], dram):.0f} to "
          f"{max(high + edges[1], dram):.0f} us a frame (predicted)")


if __name__ == "__main__":
    main()
