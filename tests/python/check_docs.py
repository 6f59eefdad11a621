#!/usr/bin/env python3
"""Runs what the documentation says: the `sh` blocks of each file in one shell, its `python` blocks in one Python, from the top of the tree.

    check_docs.py [FILE...]          default: docs/cli.md docs/verify.md docs/python.md

Run with the real MiniLM in the cache.  ACCEL_BUILD: the build tree whose tool and library are used, default build/release.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.S | re.M)


def run(command, script):
    environment = dict(os.environ, PATH=os.path.join(BUILD, "bin") + ":" + os.environ["PATH"], ACCEL_LIBRARY=os.path.join(BUILD, "lib", "libaccel.so.0"),
                       PYTHONPATH=os.path.join(ROOT, "src", "bindings", "python"), PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run(command, input=script, text=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main():
    failures = ran = 0
    for name in sys.argv[1:] or ["docs/cli.md", "docs/verify.md", "docs/python.md"]:
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            text = f.read()
        for command, language in ((["bash", "-e"], "sh"), ([sys.executable, "-"], "python")):
            script = "\n".join(blocks(text, language))
            if not script:
                continue
            done, ran = run(command, script), ran + 1
            print(f"{name}, {language}: {'ok' if done.returncode == 0 else 'FAILED'}")
            if done.returncode:
                failures += 1
                print(done.stdout[-4000:])
    if not ran:
        print("nothing to run")
    return 1 if failures or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
