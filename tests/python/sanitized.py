"""Python tests that load the library themselves."""
import os
import re
import sys


def environment_for(library):
    """Variables under which Python can load it: built with AddressSanitizer it needs the runtime before everything else.  Python leaks by design."""
    with open(library, "rb") as f:
        runtime = re.search(rb"libasan\.so\.\d+", f.read())
    if not runtime or "libasan" in os.environ.get("LD_PRELOAD", ""):
        return {}
    return {"LD_PRELOAD": runtime.group().decode(), "ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))}


def run_under_sanitizer(library):
    """Starts the program again where it needs that."""
    more = environment_for(library)
    if more:
        os.execve(sys.executable, [sys.executable, *sys.argv], dict(os.environ, **more))
