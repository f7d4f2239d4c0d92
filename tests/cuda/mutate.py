#!/usr/bin/env python3
# Breaks the CUDA backend in one place after the other: a test has to notice
# SPDX-License-Identifier: LGPL-2.1-or-later
"""mutate.py BUILD [--only KIND,...] [--sample N] [--seed N] [--name WORDS] [--capability 90] [--list]

BUILD is a build of the project with its tests; no GPU is needed but the simulated one of tests/cudasim.
Each mutant is one small mistake (mutants.py has them), and is caught when a test fails, crashes or hangs:

  host     slots, batches, graphs, saving, driver, streams: one C file compiled anew, tests linked with it
  layout   where weights and state lie, how kernels are launched: the same
  device   the kernels' sources, what includes the change compiled anew to PTX (needs nvcc), which the
           simulator takes in place of the program's own
  barrier, fence, index, lane, sum, bound, value
           one instruction of the PTX that the plugin loads, among those that ran

--sample takes so many of each group (host, layout, device; the kinds of PTX together), the same ones for
the same seed; without it, or with 0, all. Exit status 1 when a mutant of a source is not caught, or its place is
not there any more; when less than --least percent (90) of those of the PTX are caught (some are
without effect); or when a test fails unchanged.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

import mutants

TOP = pathlib.Path(__file__).resolve().parents[2]
KERNELS = TOP / "kernels"
SOURCES = {"host": mutants.HOST, "layout": mutants.LAYOUT, "device": mutants.DEVICE}
# Of test-cuda-run: what is quick, and all networks' kinds of kernels.
RUNS = ["-p", "/cuda/run/together", "-p", "/cuda/run/state", "-p", "/cuda/run/items/fp32", "-p", "/cuda/run/bad"]
# Program, arguments, thoroughness of the simulator; the first that fails is enough, so the quick ones come first.
TESTS = [
    ("tests/kernels/test-stream", [], "off"),
    ("tests/cuda/test-cuda-oracle", ["-p", "/cuda/fp32/tiny-pocket"], "fast"),
    ("tests/cuda/test-cuda-bus", ["-p", "/cuda/bus/codes"], "fast"),
    ("tests/cuda/test-cuda-bus", [], "off"),
    ("tests/cuda/test-cuda-run", RUNS, "off"),
    ("tests/cuda/test-cuda-batch", [], "off"),
    ("tests/kernels/test-state", ["-p", "/state/cuda"], "off"),
    ("tests/cuda/test-cuda-failures", [], "off"),
]
# Which of them comes first, where that is not the first one.
NEAREST = {"cuda/state.c": "test-state", "cuda/driver.c": "test-cuda-failures"}
# Of kernels: one test with every check, what crosses the bus, an odd number of codes, a network whose clusters are not
# full, the one that is as large as ours are, one with two times a frame, then what batches are.
KERNEL_TESTS = [
    ("tests/cuda/test-cuda-oracle", ["-p", "/cuda/fp32/tiny-pocket"], "full"),
    ("tests/cuda/test-cuda-bus", ["-p", "/cuda/bus/latents", "-p", "/cuda/bus/codes"], "fast"),
    ("tests/cuda/test-cuda-oracle", ["-p", "/cuda/fp32/five-codes"], "fast"),
    ("tests/cuda/test-cuda-oracle", ["-p", "/cuda/window", "-p", "/cuda/broad"], "fast"),
    ("tests/cuda/test-cuda-oracle", ["-p", "/cuda/fp32/pocket2m-pocket"], "fast"),
    ("tests/cuda/test-cuda-oracle", ["-p", "/cuda/fp32/pocket-pocket"], "off"),
    ("tests/cuda/test-cuda-oracle", ["-p", "/cuda/fp32/tinyfull-moshi"], "off"),
    ("tests/cuda/test-cuda-run", RUNS, "fast"),
    ("tests/cuda/test-cuda-batch", [], "off"),
]


class Bench:
    """A build, and running its tests with something changed."""

    def __init__(self, build, capability, timeout):
        self.build, self.capability, self.timeout = build, capability, timeout
        self.took = {}  # of a test that passed with nothing changed, seconds
        with open(build / "compile_commands.json") as f:
            self.compile = {(build / c["file"]).resolve(): c["command"] for c in json.load(f)}
        self.link = {}
        self.own = {}  # of a capability, the PTX that the programs bring along
        self.nvcc = nvcc_of(build)

    def environment(self, check, **more):
        build = self.build
        own = {"LD_LIBRARY_PATH": str(build / "tests/cudasim"), "CUDASIM_CC": str(self.capability),
               "CUDASIM_QUIET": "1", "CUDASIM_CHECK": check, "MIMI_TEST_CUDA": "1",
               "MIMI_TEST_CHECKPOINTS": str(build / "tests/kernels"), "MIMI_TEST_ORACLES": str(build / "tests/cuda"),
               "MIMI_TEST_GOLDENS": str(TOP / "tests/reference/goldens")}
        return {**os.environ, **own, **more}

    def run(self, program, arguments, check, **more):
        """None if the test passes, else what it did; it hangs if it takes ten times as long as it did unchanged."""
        name, begin = (os.path.basename(program), *arguments, check), time.monotonic()
        limit = min(self.timeout, 30 + 10 * self.took.get(name, self.timeout))
        try:
            code = subprocess.run([program, *arguments], env=self.environment(check, **more), timeout=limit,
                                  cwd=self.build, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL).returncode
        except subprocess.TimeoutExpired:
            return "hangs"
        if code == 0:
            self.took.setdefault(name, time.monotonic() - begin)
        return None if code == 0 else "fails" if code > 0 else "crashes"

    def first_failure(self, tests, programs=None, **more):
        for program, arguments, check in tests:
            path = (programs or {}).get(program, self.build / program)
            what = self.run(path, arguments, check, **more)
            if what:
                return f"{os.path.basename(program)} {what}"
        return None

    def links(self, program):
        """The command that links a program."""
        if program not in self.link:
            text = subprocess.run(["ninja", "-C", self.build, "-t", "commands", "-s", program], check=True,
                                  capture_output=True, text=True).stdout
            self.link[program] = text.strip().split("\n")[-1]
        return shlex.split(self.link[program])

    def rebuild(self, file, text, folder):
        """Programs whose copy of one C file is this text: its object comes before the library's."""
        source = folder / file.name
        source.write_text(text)
        command = shlex.split(self.compile[file])
        drop = {"-MD", "-Werror"}
        out, skip = [], False
        for word in command:
            if skip or word in drop:
                skip = False
            elif word in ("-MQ", "-MF", "-o", "-c"):
                skip = True
            else:
                out.append(word)
        subprocess.run([*out, "-w", "-iquote", str(file.parent), "-o", str(folder / "changed.o"), "-c", str(source)],
                       check=True, cwd=self.build)
        programs = {}
        for program in {t[0] for t in TESTS}:
            words = self.links(program)
            target = folder / os.path.basename(program)
            words[words.index("-o") + 1] = str(target)
            words.insert(words.index("-o") + 2, str(folder / "changed.o"))
            subprocess.run(words, check=True, cwd=self.build)
            programs[program] = target
        return programs

    def own_ptx(self, capability):
        """What the programs bring along for this capability."""
        if capability not in self.own:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "image.ptx")
                program, arguments, _ = KERNEL_TESTS[0]
                if self.run(self.build / program, arguments, "off", CUDASIM_CC=str(capability), CUDASIM_DUMP=path):
                    sys.exit(f"{program} fails with nothing changed")
                self.own[capability] = pathlib.Path(path).read_text()
        return self.own[capability]

    def ptx(self, file, text, folder, capability):
        """The kernels with one file changed, for CUDASIM_IMAGE: only what includes it is compiled, and only for
        float32, which is what the tests use; all other kernels are the program's own."""
        sources = folder / "cuda"
        sources.mkdir()
        for path in file.parent.iterdir():
            if path.suffix in (".cu", ".cuh", ".h"):
                source = text if path == file else path.read_text()
                (sources / path.name).write_text(OTHER_TYPES.sub(r"\1", source) if path.suffix == ".cu" else source)
        ptx = self.own_ptx(capability)
        for unit in units(sources / "kernels.cu", capability):
            if file.name not in included(sources / unit):
                continue
            out = folder / (unit + ".ptx")
            subprocess.run([self.nvcc, "-ptx", "-std=c++17", "-fmad=false", f"-arch=compute_{capability}", "-o", out, sources / unit],
                           check=True)
            ptx = put_kernels(ptx, out.read_text())
        path = folder / "kernels.ptx"
        path.write_text(ptx)
        return path


# Instances of a kernel for other weights than float32: a macro each, of one line or two.
OTHER_TYPES = re.compile(r"^ *(?:KERNEL\w*|MANY|SPREAD|LAYERS|SPLIT|COLUMNS|WHOLE) \([^\n]*?(?:tf32|bf16)(?:[^\n]*, \\\n)?[^\n]*?(\\?)$", re.MULTILINE)
ENTRY = re.compile(r"^\.visible \.entry (\w+)\(.*?^}$", re.MULTILINE | re.DOTALL)


def units(kernels, capability):
    """The sources that kernels.cu is made of; those in its #if are for 9.0 and later."""
    always, _, later = kernels.read_text().partition("#if")
    return re.findall(r'#include "(\w+\.cu)"', always + (later if capability >= 90 else ""))


def included(path):
    """Names of a file and all that it includes."""
    names = {path.name}
    for name in re.findall(r'#include "(\w+\.\w+)"', path.read_text()):
        names |= included(path.parent / name)
    return names


def put_kernels(ptx, piece):
    """ptx, with kernels replaced by those of a piece."""
    bodies = {m.group(1): m.group(0) for m in ENTRY.finditer(piece)}
    return ENTRY.sub(lambda m: bodies.get(m.group(1), m.group(0)), ptx)


def nvcc_of(build):
    options = json.loads(subprocess.run(["meson", "introspect", "--buildoptions", build], check=True,
                                        capture_output=True, text=True).stdout)
    named = next((o["value"] for o in options if o["name"] == "nvcc"), "")
    return named or ("nvcc" if not os.path.exists("/usr/local/cuda/bin/nvcc") else "/usr/local/cuda/bin/nvcc")


def change(text, old, new, which=0):
    at = -1
    for _ in range(which + 1):
        at = text.find(old, at + 1)
        if at < 0:
            return None
    return text[:at] + new + text[at + len(old):]


def changed(mutant):
    """The file, and its text with the mistake in it, or None if there is no such place any more."""
    _, file, old, new, *more = mutant
    path = (KERNELS / file).resolve()
    return path, change(path.read_text(), old, new, *[m for m in more if isinstance(m, int)])


def try_source(bench, kind, mutant):
    """(whether it was caught, what happened)"""
    options = next((m for m in mutant[4:] if isinstance(m, dict)), {})
    capability = options.get("capability", bench.capability)
    card = {"CUDASIM_CC": str(capability)}
    if "processors" in options:
        card["CUDASIM_PROCESSORS"] = str(options["processors"])
    path, text = changed(mutant)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        try:
            if kind == "device":
                failure = bench.first_failure(KERNEL_TESTS, **card,
                                              CUDASIM_IMAGE=str(bench.ptx(path, text, folder, capability)))
            else:
                tests = sorted(TESTS, key=lambda t: not t[0].endswith(NEAREST.get(mutant[1], "/")))
                failure = bench.first_failure(tests, bench.rebuild(path, text, folder))
        except subprocess.CalledProcessError as e:
            return False, f"does not build ({e})"
    return failure is not None, failure or "all pass"


def choose(piles, sample, seed):
    """As many from each pile as from the others, while there are some."""
    rng = random.Random(seed)
    piles = [list(p) for p in piles]
    for pile in piles:
        rng.shuffle(pile)
    chosen = []
    while len(chosen) < sample and any(piles):
        for pile in piles:
            if pile and len(chosen) < sample:
                chosen.append(pile.pop())
    return chosen


def run_sources(bench, o):
    wrong = []
    for kind, table in SOURCES.items():
        if kind not in o.only:
            continue
        table = [m for m in table if o.name in m[0]]
        chosen = choose([table], o.sample or len(table), o.seed)

        def attempt(m):
            begin = time.monotonic()
            return m, *try_source(bench, kind, m), time.monotonic() - begin

        with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
            for done in concurrent.futures.as_completed([pool.submit(attempt, m) for m in chosen]):
                m, caught, what, took = done.result()
                print(f"{'caught' if caught else 'NOT CAUGHT'}: {kind}, {m[0]}: {what}, {took:.0f} s", flush=True)
                if not caught:
                    wrong.append(m[0])
        print(f"{kind}: {len(chosen)} of {len(table)} tried", flush=True)
    return wrong


def run_ptx(bench, o):
    """The share that was caught, in percent."""
    kinds = [k for k in mutants.PTX if k in o.only]
    program, arguments, check = KERNEL_TESTS[0]
    with tempfile.TemporaryDirectory() as folder:
        dump, ran_file = os.path.join(folder, "image.ptx"), os.path.join(folder, "lines")
        if bench.run(bench.build / program, arguments, check, CUDASIM_DUMP=dump, CUDASIM_LINES=ran_file):
            sys.exit(f"{program} fails with nothing changed")
        with open(dump) as f:
            lines = f.read().split("\n")
        with open(ran_file) as f:
            ran = {int(n): int(c) for n, c in (r.split() for r in f)}
        piles = collections.defaultdict(list)
        for m in mutants.find_in_ptx(lines, ran):
            if m[0] in kinds:
                piles[m[0]].append(m)
        every = sum(map(len, piles.values()))
        chosen = choose(piles.values(), o.sample or every, o.seed)
        print(f"PTX: {len(chosen)} of {every} tried", flush=True)

        def attempt(m):
            kind, number, text, _ = m
            path = os.path.join(folder, f"{kind}-{number}.ptx")
            with open(path, "w") as f:
                f.write("\n".join(lines[:number - 1] + [text] + lines[number:]))
            failure = bench.first_failure(KERNEL_TESTS[:1], CUDASIM_IMAGE=path)
            os.unlink(path)
            return m, failure

        count, caught = collections.Counter(), collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
            for (kind, number, text, kernel), failure in pool.map(attempt, chosen):
                count[kind] += 1
                caught[kind] += failure is not None
                if not failure:
                    print(f"survived: {kind}, {kernel}, line {number}: {lines[number - 1].strip()} -> "
                          f"{text.strip() or '(nothing)'}", flush=True)
    for kind in kinds:
        if count[kind]:
            print(f"{kind}: {caught[kind]} of {count[kind]} caught")
    n = sum(count.values())
    return 100 * sum(caught.values()) / n if n else 100


def main():
    every = [*SOURCES, *mutants.PTX]
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=pathlib.Path)
    p.add_argument("--only", type=lambda t: t.split(","), default=every)
    p.add_argument("--sample", type=int)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--name", default="", help="of those of sources: whose names hold this")
    p.add_argument("--capability", type=int, default=90)
    p.add_argument("--least", type=float, default=90)
    p.add_argument("--timeout", type=int, default=600)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--trust", action="store_true", help="the tests pass with nothing changed: do not run them first")
    p.add_argument("--list", action="store_true")
    o = p.parse_args()
    unknown = [k for k in o.only if k not in every]
    if unknown:
        p.error(f"no such kind: {unknown[0]}")
    if o.list:
        for kind, table in SOURCES.items():
            for name, file, *_ in table:
                print(f"{kind}: {name} ({file})")
        return 0

    gone = [f"{m[0]} ({m[1]})" for table in SOURCES.values() for m in table if changed(m)[1] is None]
    if gone:
        sys.exit("mutants whose place in the source is gone:\n  " + "\n  ".join(gone))
    bench = Bench(o.build.resolve(), o.capability, o.timeout)
    used = ([] if o.trust else TESTS * bool({"host", "layout"} & set(o.only)) + KERNEL_TESTS * ("device" in o.only))
    failure = bench.first_failure(used)
    if failure:
        sys.exit(f"{failure} with nothing changed")
    wrong = run_sources(bench, o)
    share = 100.0
    if any(k in o.only for k in mutants.PTX):
        share = run_ptx(bench, o)
        print(f"PTX: {share:.0f} % caught, at least {o.least:.0f} are wanted")
    print(f"{len(wrong)} mutants of sources not caught" + "".join(f"\n  {w}" for w in wrong))
    return 1 if wrong or share < o.least else 0


if __name__ == "__main__":
    sys.exit(main())
