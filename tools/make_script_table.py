#!/usr/bin/env python3
"""Writes unicode_scripts.c: the classes of code points by which the `tokenizers` package's UnicodeScripts cuts texts.

    pip install tokenizers==0.23.3
    python3 tools/make_script_table.py src/text/unicode_scripts.c

The package is asked itself, as its table is of a Unicode version of its own: two code points that stay in one piece are of one class (a script;
Hiragana and Katakana go with Han).  Class 0, which spaces and unassigned code points have, stays with anything in front of it.
"""
import sys

import tokenizers
from tokenizers import pre_tokenizers

HEAD = """/* unicode_scripts.c - scripts as UnicodeScripts of `tokenizers` %s has them.  Written by tools/make_script_table.py; do not edit. */
#include "text/unicode.h"

/* Runs of code points of one class, by their first ones: first << 8 | class. */
static const uint32_t runs[] = {
"""
TAIL = """};

uint32_t accel__unicode_script(uint32_t c) {
  size_t low = 0, high = sizeof runs / sizeof *runs;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    if (runs[middle] >> 8 <= c)
      low = middle;
    else
      high = middle;
  }
  return runs[low] & 0xFF;
}
"""
WIDTH = 12  # runs in a line


def classes():
    cut = pre_tokenizers.UnicodeScripts()
    together = lambda a, b: len(cut.pre_tokenize_str(chr(a) + chr(b))) == 1
    members = [ord("a"), 0x410]  # the first code point of each class
    last, of = 0, {}
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            of[c] = 0
        elif together(ord("a"), c) and together(0x410, c):
            of[c] = 0
        else:
            order = [last] + [k for k in range(len(members)) if k != last]
            last = next((k for k in order if together(members[k], c)), len(members))
            if last == len(members):
                members.append(c)
            of[c] = last + 1
    return of


def main():
    of = classes()
    assert max(of.values()) < 256
    runs = [c << 8 | k for c, k in of.items() if c == 0 or of[c - 1] != k]
    with open(sys.argv[1], "w") as f:
        f.write(HEAD % tokenizers.__version__)
        for i in range(0, len(runs), WIDTH):
            f.write("    " + ", ".join("0x%X" % r for r in runs[i:i + WIDTH]) + ",\n")
        f.write(TAIL)
    print("%d runs, %d classes" % (len(runs), max(of.values())))


if __name__ == "__main__":
    main()
