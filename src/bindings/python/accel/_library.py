"""Finds and loads libaccel.so.0."""
from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator

FILE = "libaccel.so.0"


def _from_pkg_config() -> Iterator[str]:
    program = shutil.which("pkg-config") or shutil.which("pkgconf")
    if not program:
        return
    answer = subprocess.run([program, "--variable=libdir", "accel"], capture_output=True, text=True, check=False)
    if answer.returncode == 0 and answer.stdout.strip():
        yield str(Path(answer.stdout.strip()) / FILE)


def candidates() -> Iterator[str]:
    """Places to look, best first.  ACCEL_LIBRARY alone when it is set."""
    named = os.environ.get("ACCEL_LIBRARY")
    if named:
        yield named
        return
    here = Path(__file__).resolve().parent
    for directory in (here, here / "lib", Path(sys.prefix) / "lib"):
        if (directory / FILE).exists():
            yield str(directory / FILE)
    yield from _from_pkg_config()
    yield FILE  # the dynamic loader's own search


def load() -> ctypes.CDLL:
    reasons = []
    for path in candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
    raise ImportError("libaccel was not found: " + "; ".join(reasons)
                      + ".  Install it, or set ACCEL_LIBRARY to the path of " + FILE + ".")
