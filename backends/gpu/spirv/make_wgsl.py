"""The kernels' SPIR-V as WGSL, deflated, in C, run at build:

    make_wgsl.py IN MODULES OUT

IN: the folder of modules.cmake, with each kernel's GLSL (.comp) and SPIR-V (.spv); MODULES: its C file, which lists them;
OUT defines gpu_wgsl[].  A kernel whose SPIR-V did not change, nor these scripts, is not translated again.  Kernels that need
more than a compute shader of WebGPU has (sub-groups, packed dot products, matrix units) are left out: their plain ones serve.
"""
import os
import re
import sys
import zlib

from spirv_module import Module, Problem
from wgsl import write

SHADER = 1  # the capability of every module
OTHERS = {61, 63, 6018, 6019, 5345, 5357, 9, 39}  # sub-groups, dot products, cooperative matrices and their small types


def read(path):
    with open(path, "rb") as file:
        return file.read()


def translate(folder, name):
    """WGSL as bytes; b"": the kernel is for other APIs."""
    module = Module(read(f"{folder}/{name}.spv"))
    if module.capabilities & OTHERS:
        return b""
    if module.capabilities != {SHADER}:
        raise Problem(f"capabilities {sorted(module.capabilities)}")
    buffers = len(re.findall(r"\bbinding = \d+\)", read(f"{folder}/{name}.comp").decode()))
    return write(module, buffers).encode()


def main(folder, modules, out):
    newest = max(os.path.getmtime(path) for path in (__file__, *(f"{os.path.dirname(os.path.abspath(__file__))}/{n}.py" for n in ("spirv_module", "wgsl"))))
    text, table = ["/* made by make_wgsl.py */", '#include "gpu/spirv/gpu_spirv.h"'], []
    for kernel, name in re.findall(r"\[(GPU_K_[^\]]+)\] = \{deflated_(\w+),", read(modules).decode()):
        kept = f"{folder}/{name}.wgsl"
        if not os.path.exists(kept) or os.path.getmtime(kept) < max(newest, os.path.getmtime(f"{folder}/{name}.spv")):
            try:
                made = translate(folder, name)
            except Problem as problem:
                sys.exit(f"kernel {name}: {problem}")
            with open(kept, "wb") as file:
                file.write(made)
        body = read(kept)
        if body:
            packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
            data = packer.compress(body) + packer.flush()
            text.append(f"static const uint8_t wgsl_{name}[] = {{{','.join(map(str, data))}}};")
            table.append(f"  [{kernel}] = {{wgsl_{name}, sizeof wgsl_{name}, {len(body)}}},")
    with open(out, "w") as file:
        file.write("\n".join([*text, "const gpu_shader gpu_wgsl[GPU_KERNELS] = {", *table, "};", ""]))


if __name__ == "__main__":
    main(*sys.argv[1:])
