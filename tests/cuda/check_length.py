#!/usr/bin/env python3
# How long the machine code of kernels is, beside what the model takes it to be
# SPDX-License-Identifier: LGPL-2.1-or-later
"""check_length.py REPORT.json SASS

REPORT.json  of a run with CUDASIM_TIMES (docs/cudasim.md): instructions of each
             kernel's PTX by the pipe that they are taken to need, without those
             that are taken to vanish
SASS         what `nvdisasm -c` makes of the cubin of the same kernels
"""
import collections
import json
import re
import sys

PIPES = {
    "fma": "FFMA FADD FMUL IMAD",
    "alu": "LOP3 VIADD IADD3 ISETP FSETP SEL FSEL SHF LEA VIMNMX VIADDMNMX FMNMX "
           "PRMT PLOP3 I2FP MOV CS2R F2FP IABS LOP ISETP P2R R2P SGXT BMSK",
    "xu": "MUFU FRND F2I I2F F2F POPC FLO",
    "tensor": "HMMA",
    "lsu": "LDG LDS STS STG LD ST ATOM ATOMG ATOMS RED LDGSTS SHFL LDSM STAS "
           "LDGDEPBAR REDUX LDL STL",
}
PIPE = {name: pipe for pipe, names in PIPES.items() for name in names.split()}


def read(path):
    kernels = collections.defaultdict(collections.Counter)
    name = None
    for line in open(path):
        section = re.match(r"\s*\.section\s+\.text\.(\w+)", line)
        if section:
            name = section.group(1)
        found = re.match(
            r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]+)", line)
        if found and name and found.group(1) != "NOP":
            kernels[name][found.group(1)] += 1
    return kernels


def main():
    with open(sys.argv[1]) as f:
        report = json.load(f)["kernels"]
    machine = read(sys.argv[2])
    print(f"{'kernel':28s} {'model':>6s} {'SASS':>6s}  ratio   "
          "of them, model/SASS: fma+alu, xu, tensor, lsu, other")
    all_model = all_machine = 0
    for name, k in sorted(report.items()):
        if name not in machine:
            continue
        model = k["length"]
        model["alu"] += model.pop("either")
        real = collections.Counter()
        for op, n in machine[name].items():
            real[PIPE.get(op, "none")] += n
        total, of = sum(model.values()), sum(real.values())
        all_model += total
        all_machine += of
        parts = [f"{model['fma'] + model['alu']}/{real['fma'] + real['alu']}"]
        parts += [f"{model[p]}/{real[p]}" for p in ("xu", "tensor", "lsu", "none")]
        print(f"{name:28s} {total:6d} {of:6d} {total / of:6.2f}   " +
              " ".join(f"{p:>9s}" for p in parts))
    print(f"all: {all_model / all_machine:.2f}")


if __name__ == "__main__":
    main()
