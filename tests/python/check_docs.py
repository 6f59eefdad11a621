#!/usr/bin/env python3
"""Runs what the documentation says: the `sh` blocks of each file in one shell, its `python` blocks in one Python, and each whole C or C++
program of it, from the top of the tree.

    check_docs.py [FILE...]          default: README.md docs/cli.md docs/python.md docs/rag.md docs/verify.md

The README's own commands set a machine up and run the suite: they are not run again here.  docs/adding.md and docs/tutorial.md change the tree
and have scripts of their own (scripts/test-adding, scripts/test-tutorial).  Run with the real MiniLM in the cache.  ACCEL_BUILD: the build tree
whose tool and library are used, default build/release.
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
PAGES = ["README.md", "docs/cli.md", "docs/python.md", "docs/rag.md", "docs/verify.md"]
LIB = os.path.join(BUILD, "lib")


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.S | re.M)


def run(command, script=""):
    environment = dict(os.environ, PATH=os.path.join(BUILD, "bin") + ":" + os.environ["PATH"], ACCEL_LIBRARY=os.path.join(LIB, "libaccel.so.0"),
                       PYTHONPATH=os.path.join(ROOT, "src", "bindings", "python"), PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run(command, input=script, text=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run_program(compiler, language, source):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program")
        done = run([*compiler, "-Wall", "-Werror", "-Iinclude", "-x", language, "-", "-o", path, "-L" + LIB, "-laccel", "-Wl,-rpath," + LIB], source)
        return done if done.returncode else run([path])


def runs_of(name, text):
    """(what, function that runs it) of all that a page says."""
    for command, language in ((["bash", "-e"], "sh"), ([sys.executable, "-"], "python")):
        script = "\n".join(blocks(text, language))
        if script and (name, language) != ("README.md", "sh"):
            yield language, lambda: run(command, script)
    for compiler, block, language in ((["cc", "-std=c11"], "c", "c"), (["c++", "-std=c++17"], "cpp", "c++")):
        for source in blocks(text, block):
            if "int main(" in source:
                yield block, lambda: run_program(compiler, language, source)


def main():
    failures = ran = 0
    for name in sys.argv[1:] or PAGES:
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            text = f.read()
        for what, work in runs_of(name, text):
            done, ran = work(), ran + 1
            print(f"{name}, {what}: {'ok' if done.returncode == 0 else 'FAILED'}")
            if done.returncode:
                failures += 1
                print(done.stdout[-4000:])
    if not ran:
        print("nothing to run")
    return 1 if failures or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
