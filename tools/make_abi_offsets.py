"""Writes tests/unit/abi_offsets.def: the offset and size of every field of plugin.h's structs on this machine (64-bit).

Run it only when the ABI changes on purpose (append-only within a major, see docs/decisions/): python3 tools/make_abi_offsets.py
"""
import os
import re
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def structs(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for name, body in re.findall(r"typedef struct (accel_plugin\w*) \{(.*?)\n\} \1;", text, flags=re.S):
        body = re.sub(r"^#.*$", "", body, flags=re.M)
        body = re.sub(r"\(\*(\w+)\)\s*\([^;]*\)", r"\1", body)  # function pointers
        fields = []
        for declaration in body.split(";"):
            parts = [re.sub(r"\[.*?\]", "", p).strip() for p in declaration.split(",")]
            fields += [re.findall(r"(\w+)$", p)[0] for p in parts if p]
        yield name, fields


def main():
    with open(os.path.join(ROOT, "include/accel/plugin.h")) as f:
        found = list(structs(f.read()))
    lines = ["#include <stdio.h>", "#include <accel/plugin.h>", "int main(void) {"]
    for name, fields in found:
        lines.append(f'printf("PIN_SIZE({name}, %zu)\\n", sizeof({name}));')
        for field in fields:
            lines.append(f'printf("PIN({name}, {field}, %zu, %zu)\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
    lines.append("return 0; }")
    with tempfile.TemporaryDirectory() as work:
        source, program = os.path.join(work, "offsets.c"), os.path.join(work, "offsets")
        with open(source, "w") as f:
            f.write("\n".join(lines))
        subprocess.run(["cc", "-I", os.path.join(ROOT, "include"), source, "-o", program], check=True)
        table = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
    with open(os.path.join(ROOT, "tests/unit/abi_offsets.def"), "w") as f:
        f.write("/* Offsets and sizes of plugin.h's structs on 64-bit machines.  Made by tools/make_abi_offsets.py; see abi_test.c. */\n" + table)


if __name__ == "__main__":
    main()
