#!/usr/bin/env python3
# The kernels through the compiler of another CUDA, taken from wheels
# SPDX-License-Identifier: LGPL-2.1-or-later
"""nvrtc.py FOLDER OUT.ptx [--arch 90] [--assemble 90,86] [--log OUT.log]

FOLDER  what pip installed there (--no-deps --target FOLDER), with the same version of each:
          nvidia-cuda-nvrtc-cu12 nvidia-cuda-nvcc-cu12
        PyPI has no nvcc of CUDA 12 (its package holds ptxas alone), but the same
        compiler as a library, NVRTC; the kernels need no header of the toolkit.
OUT.ptx for CUDASIM_IMAGE: the plugin's tests then run what that compiler made
--assemble  machine code by that CUDA's ptxas as well; what it says of registers,
        stack and spills goes to OUT.log, for kernels/cuda/resources.py
"""
import argparse
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "kernels/cuda"


def find(folder, name):
    found = sorted(pathlib.Path(folder).rglob(name))
    if not found:
        sys.exit(f"{folder}: no {name} there (see --help)")
    return found[0]


class Compiler:
    def __init__(self, folder):
        find(folder, "libnvrtc-builtins.so.*")
        self.lib = ctypes.CDLL(str(find(folder, "libnvrtc.so.*")))

    def version(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code and name != "nvrtcCompileProgram":
            sys.exit(f"{name}: error {code}")
        return code

    def text(self, program, what):
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, buffer)
        return buffer.value

    def compile(self, source, arch):
        program = ctypes.c_void_p()
        options = [f"--gpu-architecture=compute_{arch}", "--std=c++17", "--fmad=false", f"-I{KERNELS}", "--device-as-default-execution-space",
                   "-DINFINITY=__int_as_float(0x7f800000)"]  # which nvcc has from math.h
        array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        text = source.read_bytes()
        self.call("nvrtcCreateProgram", ctypes.byref(program), text, source.name.encode(), 0, None, None)
        if self.call("nvrtcCompileProgram", program, len(options), array):
            sys.exit(self.text(program, "ProgramLog").decode())
        log = self.text(program, "ProgramLog").decode().strip()
        if log:
            print(log)
        return self.text(program, "PTX")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--arch", default="90")
    p.add_argument("--assemble", type=lambda t: t.split(","), default=[])
    p.add_argument("--log", type=pathlib.Path)
    a = p.parse_args()
    compiler = Compiler(a.folder)
    ptx = compiler.compile(KERNELS / "kernels.cu", a.arch)
    a.out.write_bytes(ptx)
    print(f"CUDA {compiler.version()}: {ptx.count(b'.entry')} kernels for compute_{a.arch}")
    logs = []
    for arch in a.assemble:
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([find(a.folder, "ptxas"), "-v", f"-arch=sm_{arch}", a.out, "-o",
                                  os.path.join(folder, "cubin")], capture_output=True, text=True)
        logs.append(run.stdout + run.stderr)
        if run.returncode:
            sys.exit(logs[-1])
    if a.log:
        a.log.write_text("".join(logs))


if __name__ == "__main__":
    main()
