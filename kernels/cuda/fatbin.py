#!/usr/bin/env python3
# Compiles the kernels for every architecture and wraps the image for the linker
# SPDX-License-Identifier: LGPL-2.1-or-later
"""fatbin.py NVCC KERNELS.cu OUT.fatbin OUT.S OUT.log OUT.d [ARCHITECTURE...]

Machine code for the given architectures, or all of ARCHITECTURES, as far as
this nvcc knows them, and PTX of the lowest, of 90 and of the last: the driver
compiles what has no machine code.
"ptx90" is PTX alone.
Nothing is compressed, so that tests/cudasim can read the PTX. The log holds
what ptxas says of each kernel's registers, stack and spills.
"""
import os
import subprocess
import sys

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)


def known(nvcc, wanted):
    text = subprocess.run([nvcc, "--list-gpu-arch"], check=True,
                          capture_output=True, text=True).stdout
    names = {int(w.removeprefix("compute_")) for w in text.split()
             if w.removeprefix("compute_").isdigit()}
    found = [a for a in wanted if a in names]
    if not found:
        sys.exit(f"{nvcc} knows none of the architectures {wanted}")
    return found


def supports(nvcc, option):
    text = subprocess.run([nvcc, "--help"], capture_output=True,
                          text=True).stdout
    return option in text


def main():
    nvcc, source, image, wrapper, log, depfile = sys.argv[1:7]
    only_ptx = [int(a[3:]) for a in sys.argv[7:] if a.startswith("ptx")]
    wanted = [int(a) for a in sys.argv[7:] if not a.startswith("ptx")]
    archs = known(nvcc, sorted(wanted + only_ptx) or ARCHITECTURES)
    # Which products are rounded is written in the sources, with fmaf(): kernels
    # that may take each other's place have the same bits, whatever compiles them.
    command = [nvcc, "-fatbin", "-std=c++17", "-fmad=false", "-Xptxas", "-v",
               "-MD", "-MF", depfile, "-o", image]
    command.append("--compress-mode=none" if supports(nvcc, "compress-mode")
                   else "--no-compress")
    for a in archs:
        code = [] if a in only_ptx else [f"sm_{a}"]
        if not code or a in (archs[0], 90, archs[-1]):
            code.append(f"compute_{a}")
        command += ["-gencode", f"arch=compute_{a},code=[{','.join(code)}]"]
    result = subprocess.run(command + [source], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    with open(log, "w") as f:
        f.write(result.stdout)
    if result.returncode:
        sys.exit(result.stdout)
    for line in result.stdout.splitlines():
        if "warning" in line:
            print(line)
    with open(wrapper, "w") as f:
        f.write(f"""/* made by fatbin.py */
  .section .rodata
  .balign 16
  .globl mimi_cuda_image
  .hidden mimi_cuda_image
  .type mimi_cuda_image, %object
mimi_cuda_image:
  .incbin "{os.path.abspath(image)}"
  .size mimi_cuda_image, . - mimi_cuda_image
  .section .note.GNU-stack, "", %progbits
""")


if __name__ == "__main__":
    main()
