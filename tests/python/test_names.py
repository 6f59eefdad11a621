"""Holds the rules on names: file names are unique, a header is the header of one source file, and the words of
tests/python/retired_words.txt are gone from the sources.  Looks at the text only: needs no build."""
import os
import re
import unittest

from test_layering import ROOT, code_of, quoted_includes

RETIRED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "retired_words.txt")
TOPS = ("src", "backends", "include", "tests", "tools", "examples")
C_FILES = (".c", ".h", ".def", ".inc", ".k", ".cpp", ".hpp")
# Files that a build system or a package looks for by this name, wherever they lie.
SAME_NAME_ALLOWED = {"CMakeLists.txt", "README.md", "__init__.py", "requirements.txt"}
# Headers that are named like a source elsewhere in the tree, with what the header belongs to.
OTHER_FOLDERS_SOURCE = {
    "backends/cpu/kernels/ops.h": "the kernels' own; src/program/ops.c has program_internal.h",
    "backends/hip/hip.h": "the plugin's own; src/hardware/probe/hip.c has probe.h",
}
# The other way round: X.c whose X.h beside it is not its header.
NOT_ITS_HEADER = {"backends/hip/hip_emulated.c": "hip_emulated.h is C++ that the emulator's kernels are compiled with"}
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def tree():
    """Paths relative to ROOT of all files below TOPS, fixtures and what is generated left out."""
    for top in TOPS:
        for directory, folders, files in os.walk(os.path.join(ROOT, top)):
            folders[:] = sorted(f for f in folders if f not in ("fixtures", "corpus", "stubs", "consumers", "__pycache__", "build") and not f.endswith(".egg-info"))
            for name in sorted(files):
                if not name.endswith((".pyc", ".so")):
                    yield os.path.relpath(os.path.join(directory, name), ROOT)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def retired_words(text):
    """[(scope, pattern, now)]"""
    words = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.startswith("#"):
            fields = line.split(None, 2)
            if len(fields) != 3:
                raise ValueError(f"retired_words.txt:{number}: a line has SCOPE RETIRED NOW")
            words.append(("" if fields[0] == "." else fields[0], re.compile(fields[1]), fields[2]))
    return words


def retired_problems(path, text, words):
    words = [w for w in words if path.startswith(w[0])]
    code = code_of(text)
    known = {}  # identifier -> what to write instead, or None
    for match in IDENTIFIER.finditer(code):
        name = match.group(0)
        if name not in known:
            known[name] = next((now for _, pattern, now in words if pattern.fullmatch(name)), None)
        if known[name]:
            line = code.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: `{name}` is retired: {known[name]}"


def duplicate_problems(paths):
    seen = {}
    for path in paths:
        name = os.path.basename(path)
        if name in SAME_NAME_ALLOWED:
            continue
        if name in seen:
            yield f"{path}: there is a {seen[name]}; file names are unique in the tree"
        seen.setdefault(name, path)


def pairing_problems(files):
    """files: {path: text} of src and backends.  X.c includes X.h of its folder before any other file of ours; an X.h whose X.c lies
    in another folder would be taken for its header."""
    by_name = {os.path.basename(path): path for path in files}
    for path, text in files.items():
        stem, end = os.path.splitext(path)
        if end == ".c" and stem + ".h" in files:
            own, names = os.path.basename(stem) + ".h", [name for _, name in quoted_includes(text)]
            if names and os.path.basename(names[0]) != own and path not in NOT_ITS_HEADER:
                yield f"{path}: its own header {own} is not the first that it includes"
        elif end == ".h":
            source = by_name.get(os.path.basename(stem) + ".c")
            if source and os.path.dirname(source) != os.path.dirname(path) and path not in OTHER_FOLDERS_SOURCE:
                yield f"{path}: looks like the header of {source}, in another folder"


class Names(unittest.TestCase):
    def setUp(self):
        self.paths = list(tree())
        self.assertGreater(len(self.paths), 100, "sources not found below " + ROOT)
        with open(RETIRED, encoding="utf-8") as f:
            self.words = retired_words(f.read())

    def none_of(self, problems):
        problems = list(problems)
        if problems:
            self.fail("\n" + "\n".join(problems))

    def test_file_names_are_unique(self):
        self.none_of(duplicate_problems(self.paths))

    def test_headers_belong_to_one_source(self):
        self.none_of(pairing_problems({p: read(p) for p in self.paths if p.startswith(("src/", "backends/")) and p.endswith((".c", ".h"))}))

    def test_exceptions_are_needed(self):
        names = {os.path.basename(p): p for p in self.paths}
        for header in OTHER_FOLDERS_SOURCE:
            self.assertIn(header, self.paths)
            self.assertIn(os.path.basename(header)[:-2] + ".c", names, f"{header} needs no entry in OTHER_FOLDERS_SOURCE any more")

        for source in NOT_ITS_HEADER:
            self.assertIn(source[:-2] + ".h", self.paths, f"{source} needs no entry in NOT_ITS_HEADER any more")

    def test_retired_words_are_gone(self):
        self.none_of(p for path in self.paths if path.endswith(C_FILES) for p in retired_problems(path, read(path), self.words))

    def test_the_glossary_names_what_is_retired(self):
        """docs/glossary.md tells a reader every replacement, so that an old word is found there, too."""
        self.assertIn("retired_words.txt", read("docs/glossary.md"))


class TheChecksThemselves(unittest.TestCase):
    """Each rule finds its breach in made-up files and leaves good ones alone."""

    def test_retired(self):
        words = retired_words("# x\n.  accel__room(_\\w+)?  accel__block_alloc\nsrc/generate/ held past_len\n")
        found = lambda path, text: len(list(retired_problems(path, text, words)))
        self.assertEqual(found("src/core/a.c", "x = accel__room(1);\naccel__room_free(x);"), 2)
        self.assertEqual(found("src/generate/a.c", "s->held = 1;"), 1)
        self.assertEqual(found("src/core/a.c", "s->held = 1;"), 0)
        self.assertEqual(found("src/generate/a.c", '/* held */ x = "held"; withheld = 1; // accel__room'), 0)
        with self.assertRaises(ValueError):
            retired_words("src/ held\n")

    def test_duplicates(self):
        self.assertEqual(len(list(duplicate_problems(["src/a/x.c", "backends/b/x.c", "src/a/x.h"]))), 1)
        self.assertEqual(list(duplicate_problems(["src/a/README.md", "src/b/README.md", "src/a/x.c", "src/a/x.h"])), [])

    def test_pairs(self):
        found = lambda **texts: len(list(pairing_problems({k.replace("__", "/").replace("_", "."): v for k, v in texts.items()})))
        self.assertEqual(found(src__a__x_c='/* x */\n#include "a/x.h"\n#include "b/y.h"\n', src__a__x_h=""), 0)
        self.assertEqual(found(src__a__x_c='#include <stdio.h>\n#include "a/x.h"\n', src__a__x_h=""), 0)
        self.assertEqual(found(src__a__x_c='#include "b/y.h"\n#include "a/x.h"\n', src__a__x_h=""), 1)
        self.assertEqual(found(src__a__x_c='#include "b/y.h"\n', src__a__x_h=""), 1)
        self.assertEqual(found(src__a__x_h="", src__b__x_c=""), 1)
        self.assertEqual(found(src__a__only_h="", src__a__z_c='#include "a/only.h"\n'), 0)


if __name__ == "__main__":
    unittest.main()
