"""The accel tool of the wheel: the program beside the library, in place of this process."""
import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).resolve().parent / "bin" / "accel"
    if not program.exists():
        sys.exit("accel: this installation has the Python package alone; install the wheel that scripts/wheel makes, "
                 "or use the accel tool of the library's own installation")
    os.execv(program, [str(program), *sys.argv[1:]])
