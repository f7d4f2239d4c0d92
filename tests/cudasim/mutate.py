#!/usr/bin/env python3
# Breaks the plugin's kernels, one instruction at a time, and runs a test
# SPDX-License-Identifier: LGPL-2.1-or-later
"""mutate.py [--sample N] [--seed N] [--only KIND,KIND] [--least PERCENT] -- TEST...

Runs TEST on the simulated GPU (LD_LIBRARY_PATH is the caller's), takes the PTX
that it loaded and the lines that it ran, and for each mutation runs TEST again
with the PTX changed: CUDASIM_IMAGE puts it in place of the program's own. A
mutation is caught when TEST fails. What survives is listed: either nothing
depends on the instruction, or the test has a gap. Exit status 1 when less
than PERCENT (default 90) are caught, or when TEST fails unchanged.

  barrier   a barrier of a block, warp or cluster, or a dependency wait is gone
  fence     a fence is gone
  index     a load or store is one element off
  lane      a shuffle gives each lane its own value
  sum       a multiply-add forgets what it adds to
  bound     a comparison includes its end, or no longer does
  value     an addition of integers adds one more

The last two are often without effect, where nvcc has made a loop's bound or a
guard that sizes never come near to; those before hardly ever are.
"""
import argparse
import collections
import concurrent.futures
import os
import random
import re
import subprocess
import sys
import tempfile


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
    m = re.search(r"shfl\.sync\.\w+\.b32(\s+)(%\w+)(?:\|%\w+)?, (%\w+),.*;",
                  line)
    if m:
        yield (line[:m.start()] +
               f"mov.b32{m.group(1)}{m.group(2)}, {m.group(3)};")


def total(line):
    m = re.search(r"\bfma\.rn\.f32(\s+)(%\w+), (\S+), (\S+), (%\w+);", line)
    if m:
        yield line[:m.start()] + (f"mul.rn.f32{m.group(1)}{m.group(2)}, "
                                  f"{m.group(3)}, {m.group(4)};")


def value(line):
    m = re.search(r"\badd\.s(32|64)\s+%\w+, %\w+, (-?\d+);", line)
    if m:
        yield (line[:m.start(2)] + str(int(m.group(2)) + 1) +
               line[m.end(2):])


KINDS = {"barrier": barrier, "fence": fence, "index": index, "bound": bound,
         "lane": lane, "sum": total, "value": value}


def find(lines, ran):
    """(kind, number of the line, its new text, kernel) of every mutation."""
    kernel = "?"
    for number, line in enumerate(lines, 1):
        m = re.search(r"\.entry (\w+)", line)
        if m:
            kernel = m.group(1)
        if not ran.get(number):
            continue
        for kind, func in KINDS.items():
            for text in func(line):
                yield kind, number, text, kernel


def run(test, timeout, **settings):
    env = dict(os.environ, CUDASIM_QUIET="1", **settings)
    try:
        return subprocess.run(test, env=env, timeout=timeout,
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def choose(mutations, sample, seed):
    """As many of each kind as of the others, while there are some."""
    piles = collections.defaultdict(list)
    for m in mutations:
        piles[m[0]].append(m)
    rng = random.Random(seed)
    for pile in piles.values():
        rng.shuffle(pile)
    chosen = []
    while len(chosen) < sample and any(piles.values()):
        for pile in piles.values():
            if pile and len(chosen) < sample:
                chosen.append(pile.pop())
    return chosen


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--sample", type=int, default=10 ** 9)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", default=",".join(KINDS),
                   type=lambda text: text.split(","))
    p.add_argument("--least", type=float, default=90)
    p.add_argument("--timeout", type=int, default=300)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("test", nargs="+")
    o = p.parse_args()
    unknown = [k for k in o.only if k not in KINDS]
    if unknown:
        p.error(f"no such kind: {unknown[0]}")

    with tempfile.TemporaryDirectory() as folder:
        dump = os.path.join(folder, "image.ptx")
        ran_file = os.path.join(folder, "lines")
        if not run(o.test, o.timeout, CUDASIM_DUMP=dump,
                   CUDASIM_LINES=ran_file):
            sys.exit("the test fails with nothing changed")
        with open(dump) as f:
            lines = f.read().split("\n")
        with open(ran_file) as f:
            ran = {int(n): int(c) for n, c in (r.split() for r in f)}
        every = [m for m in find(lines, ran) if m[0] in o.only]
        chosen = choose(every, o.sample, o.seed)
        print(f"{len(every)} mutations possible, {len(chosen)} tried",
              flush=True)

        def attempt(m):
            kind, number, text, kernel = m
            path = os.path.join(folder, f"{kind}-{number}.ptx")
            with open(path, "w") as f:
                f.write("\n".join(lines[:number - 1] + [text] +
                                  lines[number:]))
            survived = run(o.test, o.timeout, CUDASIM_IMAGE=path)
            os.unlink(path)
            return m, survived

        count = collections.Counter()
        caught = collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
            for m, survived in pool.map(attempt, chosen):
                kind, number, text, kernel = m
                count[kind] += 1
                caught[kind] += not survived
                if survived:
                    print(f"survived: {kind}, {kernel}, line {number}: "
                          f"{lines[number - 1].strip()} -> "
                          f"{text.strip() or '(nothing)'}", flush=True)
    for kind in KINDS:
        if count[kind]:
            print(f"{kind}: {caught[kind]} of {count[kind]} caught")
    n = sum(count.values())
    share = 100 * sum(caught.values()) / n if n else 0
    print(f"all: {sum(caught.values())} of {n} caught, {share:.0f} %")
    sys.exit(share < o.least)


if __name__ == "__main__":
    main()
