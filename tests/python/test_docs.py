"""Holds the documents to the tree, without running anything: links lead somewhere, lines are no longer than 100 columns, generated parts
are as their generators would write them now, and names of files and functions in docs/architecture.md exist."""
import glob
import importlib.machinery
import importlib.util
import os
import re
import sys
import unittest

from test_layering import ROOT, sources

PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
COLUMNS = 100
FENCE = re.compile(r"^```.*?^```", re.S | re.M)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def pages():
    found = glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True)
    return PAGES + sorted(os.path.relpath(p, ROOT) for p in found)


def load(path):
    """A Python file of the tree as a module, whatever its name ends with."""
    loader = importlib.machinery.SourceFileLoader(re.sub(r"\W", "_", path), os.path.join(ROOT, path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def anchors(text):
    """What GitHub calls the headings of a page."""
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M)}


def link_problems(path, text, read_page):
    """read_page(path): the text of a page, "" for another file, None where there is none."""
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        to = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        found = text if to == path else read_page(to)
        if found is None:
            yield f"{path}: ({target}) leads nowhere"
        elif anchor and anchor not in anchors(found):
            yield f"{path}: ({target}): no such heading"


def width_problems(path, text):
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        fenced ^= line.lstrip().startswith("```")
        if len(line) > COLUMNS and not fenced and not line.lstrip().startswith(("|", "```", "<!--")) and " " in line.strip()[:COLUMNS]:
            yield f"{path}:{number}: {len(line)} columns"


def named_problems(text, words, files, exists=lambda path: os.path.exists(os.path.join(ROOT, path))):
    """Names in backticks: functions and files that do not exist."""
    for name in re.findall(r"`([^`\n]+)`", FENCE.sub("", text)):
        if re.fullmatch(r"(accel|cli|cmd|kit|cpu|gpu|host)_\w+", name) and name not in words:
            yield f"`{name}` is in no source"
        elif re.fullmatch(r"[\w/]+\.(c|h|def)", name) and not (exists(name) or any(f.endswith("/" + name) for f in files)):
            yield f"`{name}`: no such file"


class Documents(unittest.TestCase):
    def none_of(self, problems):
        problems = list(problems)
        if problems:
            self.fail("\n" + "\n".join(problems))

    def page(self, path):
        whole = os.path.join(ROOT, path)
        return (read(path) if path.endswith(".md") else "") if os.path.exists(whole) else None

    def test_links(self):
        self.none_of(p for path in pages() for p in link_problems(path, read(path), self.page))

    def test_lines(self):
        self.none_of(p for path in pages() for p in width_problems(path, read(path)))

    def test_every_page_is_reached_from_the_readme(self):
        found, new = set(), ["README.md"]
        while new:
            path = new.pop()
            found.add(path)
            for target in re.findall(r"\]\(([^)#\s]+\.md)[^)]*\)", read(path)):
                to = os.path.normpath(os.path.join(os.path.dirname(path), target))
                if to not in found and os.path.exists(os.path.join(ROOT, to)):
                    new.append(to)
        self.assertEqual(set(pages()) - found, set())

    def test_support_table(self):
        """The table of docs/support.md is what its formatter makes of the counts, whose goldens are those of the tree."""
        maker, text = load("scripts/support-table"), read("docs/support.md")
        goldens, (runs, counts) = maker.read_goldens(), maker.read_counts()
        self.assertEqual(text, maker.page(text, goldens, runs, counts), "run scripts/support-table --format")
        for device in {line["device"] for line in counts}:
            self.assertEqual({line["model_type"] for line in counts if line["device"] == device}, {kind for kind, *_ in goldens}, "run scripts/support-table")
        self.assertNotEqual(text, maker.page(text, goldens, runs, [{**line, "passed": {p: n - 1 for p, n in line["passed"].items()}} for line in counts]))

    def test_picture(self):
        self.assertEqual(read("docs/architecture.svg"), load("tools/make_architecture_svg.py").picture(), "run tools/make_architecture_svg.py")

    def test_architecture_names_what_exists(self):
        files = dict(sources())
        words = set(re.findall(r"\w+", " ".join(files.values())))
        self.none_of(named_problems(read("docs/architecture.md"), words, files))

    def test_decisions_are_indexed(self):
        index = read("docs/decisions/README.md")
        for path in glob.glob(os.path.join(ROOT, "docs", "decisions", "[0-9]*.md")):
            self.assertIn(f"({os.path.basename(path)})", index)
            self.assertIn("## Decision", read(os.path.relpath(path, ROOT)))

    def test_performance_stays_a_page(self):
        self.assertLessEqual(read("docs/performance.md").count("\n"), 150, "figures that are no longer the newest go to docs/log")


class TheChecksThemselves(unittest.TestCase):
    def test_links(self):
        def found(text):
            return len(list(link_problems("docs/a.md", text, {"docs/b.md": "# Some Title, here\n", "x.c": ""}.get)))
        self.assertEqual(found("[x](b.md) [y](b.md#some-title-here) [z](../x.c) [w](https://x.y) `[v](no.md)`\n# T\n[t](#t)"), 0)
        self.assertEqual(found("[x](c.md)"), 1)
        self.assertEqual(found("[x](b.md#other)"), 1)
        self.assertEqual(found("[x](#t)"), 1)

    def test_lines(self):
        self.assertEqual(len(list(width_problems("a", "x " * 60))), 1)
        self.assertEqual(list(width_problems("a", "| " + "x " * 60 + "\n```sh\n" + "x " * 60 + "\n```")), [])

    def test_names(self):
        self.assertEqual(len(list(named_problems("`kit_gone` `no/file.c`", {"kit_here"}, ["src/a/file.h"]))), 2)
        self.assertEqual(list(named_problems("`kit_here` `a/file.h` `file.h` `BLIP`", {"kit_here"}, ["src/a/file.h"])), [])


if __name__ == "__main__":
    unittest.main()
