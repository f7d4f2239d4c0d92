#!/usr/bin/env python3
# Refuses kernels that spill registers or need a stack, on any architecture
# SPDX-License-Identifier: LGPL-2.1-or-later
"""resources.py LOG [-v]: reads what ptxas -v said of each kernel."""
import re
import sys

text = open(sys.argv[1]).read()
pattern = re.compile(
    r"Compiling entry function '(\w+)' for '(\w+)'.*?"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads.*?Used (\d+) registers", re.S)
found = pattern.findall(text)
bad = [f for f in found if any(int(n) for n in f[2:5])]
if "-v" in sys.argv[2:]:
    for name, arch, *_, registers in sorted(found):
        print(f"{name} {arch} {registers} registers")
for name, arch, stack, stores, loads, _ in bad:
    print(f"{name} for {arch}: {stack} bytes of stack, {stores} bytes stored "
          f"and {loads} loaded by spills; want none")
archs = sorted({f[1] for f in found})
print(f"{len(found)} kernels for {' '.join(archs)}: {len(bad)} at fault")
if not found or len(found) != text.count("Compiling entry function"):
    sys.exit("the log is not what ptxas -v writes")
sys.exit(bool(bad))
