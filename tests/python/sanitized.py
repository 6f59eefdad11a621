"""Python tests that load the library themselves."""
import os
import re
import sys


def run_under_sanitizer(library):
    """A library built with AddressSanitizer needs its runtime loaded before everything else: starts again with it.  Python leaks by design."""
    with open(library, "rb") as f:
        runtime = re.search(rb"libasan\.so\.\d+", f.read())
    if runtime and "libasan" not in os.environ.get("LD_PRELOAD", ""):
        options = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))
        os.execve(sys.executable, [sys.executable, *sys.argv], dict(os.environ, LD_PRELOAD=runtime.group().decode(), ASAN_OPTIONS=options))
