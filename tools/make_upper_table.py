#!/usr/bin/env python3
"""Writes unicode_upper.c: str.upper() of Python, for chat templates (which Python would run).

    python3 tools/make_upper_table.py src/text/unicode_upper.c
"""
import sys

HEAD = """/* unicode_upper.c - upper case as Python has it.  Written by tools/make_upper_table.py; do not edit. */
#include "text/unicode.h"

/* Every `step`-th code point of [first, last] has its upper case `delta` further on. */
static const struct {
  uint32_t first, last;
  int32_t step, delta;
} runs[] = {
%s};

/* Those with several. */
static const struct {
  uint32_t from, to[3];
} several[] = {
%s};

size_t accel__unicode_upper(uint32_t c, uint32_t out[3]) {
  out[0] = c;
  for (size_t i = 0; i < sizeof several / sizeof *several; ++i) {
    if (several[i].from != c) continue;
    for (int k = 0; k < 3; ++k) out[k] = several[i].to[k];
    return out[2] ? 3 : 2;
  }
  size_t low = 0, high = sizeof runs / sizeof *runs;
  while (low < high) { /* the first run that does not end before c */
    size_t middle = (low + high) / 2;
    if (runs[middle].last < c)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < sizeof runs / sizeof *runs && c >= runs[low].first && (c - runs[low].first) %% (uint32_t)runs[low].step == 0)
    out[0] = (uint32_t)((int32_t)c + runs[low].delta);
  return 1;
}
"""


def main():
    runs, several = [], []
    for c in range(0x80, 0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        upper = chr(c).upper()
        if len(upper) > 1:
            several.append((c, [ord(u) for u in upper] + [0] * (3 - len(upper))))
        elif ord(upper) != c:
            delta = ord(upper) - c
            if runs and runs[-1][3] == delta and c - runs[-1][1] in (1, 2) and runs[-1][2] in (0, c - runs[-1][1]):
                runs[-1][1], runs[-1][2] = c, c - runs[-1][1]
            else:
                runs.append([c, c, 0, delta])
    with open(sys.argv[1], "w", encoding="ascii") as f:
        f.write(HEAD % ("".join("    {0x%X, 0x%X, %d, %d},\n" % (a, b, step or 1, d) for a, b, step, d in runs),
                        "".join("    {0x%X, {0x%X, 0x%X, 0x%X}},\n" % (c, *to) for c, to in several)))


if __name__ == "__main__":
    main()
