"""Answers from documents: accel rag and the package's accel.rag on tiny models with random weights; what is judged is the index, not what a model says of it.

check_rag.py asks the real MiniLM ten questions about this tree's documents."""
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

from test_tasks import ACCEL, BUILD, ROOT

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
LIBRARY = os.path.join(BUILD, "lib", "libaccel.so.0")
from sanitized import run_under_sanitizer  # noqa: E402
if __name__ == "__main__":
    run_under_sanitizer(LIBRARY)
os.environ["ACCEL_LIBRARY"] = LIBRARY
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402
import chat_model  # noqa: E402

TASKS = os.path.join(ROOT, "tests", "fixtures", "tasks")
EMBEDDER = os.path.join(TASKS, "st_mean")
FILES = {
    "guide.md": "---\ntitle: \"The guide\"\n---\n# Ferry\n\nThe ferry leaves at noon.\n\n## Tickets\n\nA ticket costs four crowns.\n```sh\n# no heading\n```\n",
    "deep/page.html": "<html><head><title>A &amp; B</title><style>p { zebra }</style></head><body><h1>Lighthouse</h1>\n<p>The keeper lights\nthe lamp.</p>"
                      "<h2>Birds</h2><ul><li>a gannet<li>a puffin</ul><script>zebra()</script></body></html>",
    "notes.txt": "The harbour is deep.\n\nSeals sleep on the pier.\n",
    "picture.png": "no text",
    ".hidden.md": "The zebra hides.",
}


def tool(*words, expected=0):
    done = subprocess.run([ACCEL, "rag", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    if done.returncode != expected:
        raise AssertionError(f"accel rag {' '.join(words)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class Documents(unittest.TestCase):
    """A folder of documents, and what indexes of it are asked; no test of its own."""

    def setUp(self):
        self.work = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.work)
        self.docs = os.path.join(self.work, "docs")
        self.index = os.path.join(self.work, "index.sqlite")
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name, text):
        path = os.path.join(self.docs, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def add(self, *paths, expected=0, **options):
        words = [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]
        done = tool("index", *(paths or [self.docs]), "--index", self.index, "--model", EMBEDDER, "-q", "--json", *words, expected=expected)
        return json.loads(done.stdout)

    def query(self, text, *words):
        return json.loads(tool("query", text, "--index", self.index, "-q", "--json", *words).stdout)["sources"]

    def database(self):
        """Whether all parts of the file belong together; its documents and passages."""
        db = sqlite3.connect(self.index)
        self.assertEqual(db.execute("PRAGMA integrity_check").fetchone()[0], "ok")
        db.execute("INSERT INTO word(word, rank) VALUES ('integrity-check', 1)")  # fails where words and passages differ
        db.rollback()
        self.assertEqual(db.execute("SELECT count(*) FROM passage LEFT JOIN vector ON vector.passage = passage.id LEFT JOIN file ON file.id = passage.file "
                                    "WHERE vector.passage IS NULL OR file.id IS NULL OR file.id != vector.file").fetchone()[0], 0)
        counts = [db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("file", "passage", "vector")]
        db.close()
        self.assertEqual(counts[1], counts[2])
        return counts[:2]


class Tool(Documents):
    # ---- what is in an index ----

    def test_documents_come_change_and_go(self):
        first = self.add()
        self.assertEqual([first[k] for k in ("added", "changed", "unchanged", "removed", "skipped")], [3, 0, 0, 0, 1])
        self.assertEqual(self.database()[0], 3)
        again = self.add()
        self.assertEqual([again[k] for k in ("added", "changed", "unchanged", "removed", "passages", "tokens")], [0, 0, 3, 0, 0, 0])
        os.utime(os.path.join(self.docs, "notes.txt"), (1, 1))  # another time, the same content
        self.assertEqual(self.add()["unchanged"], 3)
        self.write("notes.txt", "The harbour froze.\n")
        os.remove(os.path.join(self.docs, "guide.md"))
        changed = self.add()
        self.assertEqual([changed[k] for k in ("added", "changed", "unchanged", "removed")], [0, 1, 1, 1])
        self.assertEqual([s["text"] for s in self.query("harbour", "--by", "words")], ["The harbour froze."])
        self.assertEqual(self.query("seals crowns", "--by", "words"), [])
        self.database()
        gone = os.path.join(self.docs, "notes.txt")
        os.remove(gone)
        self.assertEqual(self.add(gone)["removed"], 1)
        tool("index", gone, "--index", self.index, "-q", expected=1)
        shutil.rmtree(self.docs)
        self.assertEqual(self.add(self.docs)["removed"], 1)
        self.assertEqual(self.database(), [0, 0])

    def test_where_passages_are(self):
        self.add()
        found = {s["path"][len(self.docs) + 1:]: s for s in self.query("ferry ticket lamp gannet seals", "--by", "words", "--top", "20")}
        self.assertEqual(sorted(found), ["deep/page.html", "guide.md", "notes.txt"])
        ticket, = self.query("crowns", "--by", "words")
        self.assertEqual([ticket[k] for k in ("title", "heading", "first_line", "last_line")], ["The guide", "Ferry > Tickets", 10, 13])
        self.assertTrue(ticket["text"].startswith("A ticket costs four crowns.\n```sh\n# no heading"))
        lamp, = self.query("lamps", "--by", "words")  # by its stem
        self.assertEqual([lamp[k] for k in ("title", "heading", "text", "first_line", "last_line")], ["A & B", "Lighthouse", "The keeper lights the lamp.", 2, 3])
        birds, = self.query("puffin", "--by", "words")
        self.assertEqual([birds["heading"], birds["text"]], ["Lighthouse > Birds", "- a gannet\n- a puffin"])
        self.assertEqual(self.query("zebra", "--by", "words"), [])
        self.assertEqual([s["path"] for s in self.query("harbour lamp", "--by", "words", "--paths", "*/deep/*")], [os.path.join(self.docs, "deep/page.html")])
        self.assertEqual([s["path"] for s in self.query("harbour lamp", "--by", "vectors", "--paths", "*.txt")], [os.path.join(self.docs, "notes.txt")])

    def test_documents_that_are_none(self):
        self.write("wide.txt", "The heron.".encode("utf-16"))
        self.write("nul.md", b"a\0b")
        self.write("latin.txt", "Der Müller und der Bär, harbour".encode("latin-1"))
        self.write("empty.md", "")
        self.write("spaces.html", " \n \n<p> </p>")
        report = self.add(expected=1)
        self.assertEqual([report["added"], len(report["problems"])], [6, 2])
        problems = {os.path.basename(p["path"]): p["message"] for p in report["problems"]}
        self.assertIn("iconv -f UTF-16", problems["wide.txt"])
        self.assertIn("U+0000", problems["nul.md"])
        latin = self.query("bär und harbour", "--by", "words", "--paths", "*latin*")
        self.assertEqual(latin[0]["text"], "Der M\ufffdller und der B\ufffdr, harbour")
        self.assertEqual(self.database()[0], 6)
        self.write("nul.md", "It is text now.")
        os.remove(os.path.join(self.docs, "wide.txt"))
        self.assertEqual(self.add()["added"], 1)

    def test_hostile_sizes(self):
        long = {"line.txt": "x" * 300000, "words.md": "# " + "w " * 90000, "tags.html": "<div " * 30000 + "<b>" * 30000, "marks.txt": "\u0301" * 20000,
                "entities.html": "&#" * 40000 + "&amp" * 20000 + "<!--" * 9000, "wide.txt": "語" * 60000}
        for name, text in long.items():
            self.write(name, text)
        self.add(chunk_tokens=64, overlap=8)
        db = sqlite3.connect(self.index)
        for name, in db.execute("SELECT path FROM file").fetchall():
            passages = [text for text, in db.execute("SELECT text FROM passage JOIN file ON file.id = file WHERE path = ?", (name,))]
            self.assertLessEqual(max([len(p.encode()) for p in passages] or [0]), 64 * 128, name)
        self.assertGreaterEqual(db.execute("SELECT sum(length(text)) FROM passage JOIN file ON file.id = file WHERE path LIKE '%line.txt'").fetchone()[0], 300000)
        db.close()

    # ---- files that are no index, and models that are not its own ----

    def test_what_is_no_index(self):
        for content in (b"some text, longer than a page" * 300, b"SQLite format 3\0" + b"\xff" * 5000):
            path = self.write("broken.sqlite", content)
            for words in (["query", "x"], ["index", self.docs, "--model", EMBEDDER], ["info"]):
                self.assertIn("broken.sqlite", tool(*words, "--index", path, expected=1).stderr)
            with open(path, "rb") as f:
                self.assertEqual(f.read(), content)
        other = os.path.join(self.work, "other.sqlite")
        with sqlite3.connect(other) as db:
            db.execute("CREATE TABLE t (x)")
        self.assertIn("no index", tool("query", "x", "--index", other, expected=1).stderr)
        self.assertIn("no such index", tool("query", "x", "--index", os.path.join(self.work, "absent"), expected=1).stderr)
        self.assertFalse(os.path.exists(os.path.join(self.work, "absent")))
        self.add()
        with sqlite3.connect(self.index) as db:
            db.execute("PRAGMA user_version = 99")
        self.assertIn("newer", tool("query", "x", "--index", self.index, expected=1).stderr)

    def changed(self, sql):
        """A copy of the index after sql, in a folder of its own."""
        path = os.path.join(tempfile.mkdtemp(dir=self.work), "hostile.sqlite")
        shutil.copy(self.index, path)
        db = sqlite3.connect(path)
        db.executescript(sql)
        db.close()
        return path

    def test_indexes_from_strangers(self):
        """What an index is made of is looked at before anything of it runs."""
        self.add()
        bad = {"a trigger": ("harm", "CREATE TRIGGER harm AFTER INSERT ON file BEGIN DELETE FROM passage; END"),
               "a trigger of its own, changed": ("passage_added", "DROP TRIGGER passage_added; CREATE TRIGGER passage_added AFTER INSERT ON passage BEGIN SELECT load_extension('x'); END"),
               "a view in the place of a table": ("kept", "ALTER TABLE passage RENAME TO kept; CREATE VIEW passage AS SELECT id, file, first_line, last_line, heading, text FROM kept"),
               "a table more": ("hidden", "CREATE TABLE hidden (x)"), "a column that computes": ("file", "ALTER TABLE file ADD COLUMN y GENERATED ALWAYS AS (hex(path))"),
               "a table less": ("vector", "DROP TABLE vector"), "words that are no FTS5": ("word", "DROP TABLE word; CREATE TABLE word (heading, text)")}
        for what, (name, sql) in bad.items():
            path = self.changed(sql)
            with open(path, "rb") as f:
                before = f.read()
            for words in (["query", "ferry"], ["info"], ["index", self.docs, "--model", EMBEDDER]):
                said = tool(*words, "--index", path, expected=1).stderr
                self.assertRegex(said, f"hostile.sqlite: (the|it lacks the) [a-z]+ '{name}", what)
            with open(path, "rb") as f:
                self.assertEqual(f.read(), before, what)

    def test_values_from_strangers(self):
        """Numbers and texts of other kinds and sizes than an index's, in tables as they should be."""
        self.add()
        for sql in ("UPDATE vector SET data = zeroblob(7)", "UPDATE vector SET data = 'text'", "UPDATE passage SET text = x'00ff', heading = 5", "UPDATE passage SET first_line = -9223372036854775808",
                    "UPDATE setting SET value = -1 WHERE name = 'dim'", "UPDATE setting SET value = x'ff' WHERE name = 'embedder'", "DELETE FROM setting", "DELETE FROM vector",
                    "UPDATE vector SET data = (SELECT group_concat(x'ffffffff', '') FROM passage)", "UPDATE passage SET file = 99",
                    "INSERT INTO passage SELECT id + 1000, file, 1, 1, '', printf('%.*c', 70000000, 'x') FROM passage LIMIT 1"):
            path = self.changed(sql)
            for words in (["query", "ferry"], ["query", "ferry", "--by", "words"], ["info"]):
                run = subprocess.run([ACCEL, "rag", *words, "--index", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
                self.assertIn(run.returncode, (0, 1, 2), (sql, words, run.stderr))

    def test_another_model(self):
        self.add()
        other = os.path.join(TASKS, "st_max")
        done = tool("index", self.docs, "--index", self.index, "--model", other, "-q", expected=2)
        self.assertIn(EMBEDDER, done.stderr)
        self.assertIn(other, done.stderr)
        moved = os.path.join(self.work, "moved")
        shutil.copytree(EMBEDDER, moved)
        self.assertTrue(self.query("harbour", "--embedder", moved))
        self.assertIn("chunk_tokens", tool("index", self.docs, "--index", self.index, "--chunk-tokens", "40", "-q", expected=2).stderr)
        self.assertIn("--model", tool("index", self.docs, "--index", self.index + "2", "-q", expected=2).stderr)
        for words in (["--chunk-tokens", "500"], ["--chunk-tokens", "20", "--overlap", "10"]):
            tool("index", self.docs, "--index", self.index + "2", "--model", EMBEDDER, "-q", *words, expected=2)

    # ---- other processes ----

    def many(self, n, name="many"):
        for i in range(n):
            self.write(f"{name}/{i}.md", f"# Page {name} {i}\n\n" + "".join(f"The number of this line is {i * 100 + k}.\n\n" for k in range(12)))
        return os.path.join(self.docs, name)

    def test_killed_while_it_writes(self):
        folder = self.many(40)
        command = [ACCEL, "rag", "index", folder, "--index", self.index, "--model", EMBEDDER, "-q"]
        counts = []
        for wanted in (1, 12, 25):
            with subprocess.Popen(command) as process:
                until = time.monotonic() + 60
                while process.poll() is None and time.monotonic() < until:
                    try:
                        db = sqlite3.connect(f"file:{self.index}?mode=ro", uri=True, timeout=0.01)
                        n = db.execute("SELECT count(*) FROM file").fetchone()[0]
                        db.close()
                    except sqlite3.Error:
                        n = 0
                    if n >= wanted:
                        process.send_signal(signal.SIGKILL)
                        break
                process.wait()
            counts.append(self.database()[0])
        self.assertEqual(counts, sorted(counts))
        self.assertGreaterEqual(counts[0], 1)
        report = self.add(folder)
        self.assertEqual([report["added"], report["unchanged"]], [40 - counts[-1], counts[-1]])
        written, self.index = self.database(), os.path.join(self.work, "whole.sqlite")
        self.add(folder)  # by a process that nobody killed
        self.assertEqual(written, self.database())

    def test_two_writers(self):
        folders = [self.many(12, "one"), self.many(12, "two")]
        command = [ACCEL, "rag", "index", "--index", self.index, "--model", EMBEDDER, "-q"]
        writers = [subprocess.Popen(command + [a, b], stdout=subprocess.DEVNULL) for a, b in (folders, folders[::-1])]
        self.assertEqual([w.wait(timeout=120) for w in writers], [0, 0])
        self.assertEqual(self.database()[0], 24)
        self.assertEqual(self.add(*folders)["unchanged"], 24)


class Package(Documents):
    def setUp(self):
        super().setUp()
        self.model = accel.Model(EMBEDDER, device="cpu")
        self.addCleanup(self.model.close)

    def test_vectors_are_compared_exactly(self):
        with accel.rag.Index(self.index, self.model, chunk_tokens=24, overlap=4) as index:
            texts = [f"the old cat number {i} sat on the mat" for i in range(60)]
            for i, text in enumerate(texts):
                index.add_text(f"t{i:02}", text)
            vectors = [list(map(float, v)) for v in self.model.embed(texts + ["cat number 7"])]
            cosines = [accel._native.lib.accel_cosine(*[(accel._types.C.c_float * len(v))(*v) for v in (row, vectors[-1])], len(row)) for row in vectors[:-1]]
            best = sorted(range(60), key=lambda i: -cosines[i])[:10]
            found = index.search("cat number 7", top_k=10, mode="vectors")
            self.assertEqual([round(p.similarity, 5) for p in found], [round(cosines[i], 5) for i in best])
            self.assertEqual([p.vector_rank for p in found], list(range(1, 11)))
            index.add_text("t07", "the mat")  # in the place of the other
            self.assertEqual(len(index.info.documents), 60)
            self.assertEqual(index.search("number 7", mode="words", paths="t07"), [])
            self.assertEqual(index.remove("t01", "t02"), 2)
            with self.assertRaises(accel.NotFoundError):
                index.remove("t01")
            self.assertNotIn("t01", [p.path for p in index.search("cat", top_k=100, mode="vectors")])

    def test_another_connection_is_seen(self):
        with accel.rag.Index(self.index, self.model) as index, accel.rag.Index(self.index, self.model) as writer:
            self.assertEqual(index.search("harbour"), [])
            self.assertEqual(writer.add(self.docs).added, 3)
            self.assertEqual(index.search("harbour", 1, mode="words")[0].path, os.path.join(self.docs, "notes.txt"))
            self.assertGreaterEqual(len(index.search("harbour", 10, mode="vectors")), 3)
            writer.remove(self.docs)
            self.assertEqual(index.search("harbour"), [])

    def test_ranks_are_fused(self):
        with accel.rag.Index(self.index, self.model) as index:
            index.add(self.docs)
            found = index.search("a ticket for the ferry", 60)  # all passages that either list has
            own = [sum(1 / (60 + r) for r in (p.vector_rank, p.words_rank) if r) for p in found]
            for passage, score in zip(found, own):
                document = sorted((other for p, other in zip(found, own) if p.path == passage.path), reverse=True)[:3]
                self.assertAlmostEqual(passage.score, score + 0.1 * sum(document))
            with accel.Model(os.path.join(TASKS, "rerank_bert"), device="cpu") as reranker:
                found = index.search("a ticket for the ferry", 3, reranker=reranker)
                texts = [f"{p.heading}\n{p.text}" if p.heading else p.text for p in found]
                ranked = reranker.rerank("a ticket for the ferry", texts)
                self.assertEqual([round(p.score, 5) for p in found], [round(r["score"], 5) for r in ranked])

    def test_words_without_an_embedder(self):
        with accel.rag.Index(self.index, self.model) as index:
            index.add(self.docs)
        with accel.rag.Index(self.index, "") as index:
            self.assertEqual(index.search("harbour")[0].words_rank, 1)
            with self.assertRaises(accel.ArgumentError):
                index.search("harbour", mode="vectors")
            with self.assertRaises(accel.ArgumentError):
                index.add(self.docs)
        with accel.rag.Index(self.index, device="cpu") as index:
            self.assertEqual(index.info.embedder, EMBEDDER)
            self.assertEqual(index.info.query_prompt, "")

    def test_prompts_are_the_models(self):
        prompts = accel.Model(os.path.join(TASKS, "st_prompts"), device="cpu")
        with accel.rag.Index(self.index, prompts) as index:
            self.assertEqual([index.info.query_prompt, index.info.document_prompt], ["find: ", "Group the text: "])
            index.add_text("one", "the cat")
            vectors = [prompts.embed(["the cat"], prompt=p)[0] for p in ("find: ", "Group the text: ")]
            cosine = sum(float(a) * float(b) for a, b in zip(*vectors)) / sum(float(a) ** 2 for a in vectors[0]) ** .5 / sum(float(a) ** 2 for a in vectors[1]) ** .5
            self.assertAlmostEqual(index.search("the cat", mode="vectors")[0].similarity, cosine, places=5)

    def test_answers(self):
        folder = os.path.join(self.work, "chat")
        os.mkdir(folder)
        generator = accel.Model(chat_model.make(folder, special="<|end|>"), device="cpu")
        with accel.rag.Index(self.index, self.model, chunk_tokens=40) as index:
            with self.assertRaises(accel.NotFoundError):
                index.answer("harbour", generator)
            index.add(self.docs)
            answer = index.answer("Where is the harbour?", generator, 3, regex=r"\[3\] and \[1, 2\]\[9\]", max_new_tokens=40)
            self.assertEqual([answer.text, answer.cited, answer.finish], ["[3] and [1, 2][9]", (1, 2, 3), "eos"])
            self.assertEqual(len(answer.sources), 3)
            self.assertEqual([p.path for p in answer.sources], [p.path for p in index.search("Where is the harbour?", 3)])
            told = []
            plain = index.answer("Where?", generator, 2, on_token=lambda token: told.append(token.text), max_new_tokens=12)
            self.assertEqual("".join(told), plain.text)
            self.assertEqual("".join(t.text for t in index.stream("Where?", generator, top_k=2, max_new_tokens=12)), plain.text)
            room = 2048 - index.answer("harbour", generator, 1, max_new_tokens=1).prompt_tokens
            crowded = index.answer("harbour", generator, 3, max_new_tokens=room, ignore_eos=False)
            self.assertEqual([len(crowded.sources), crowded.left_out], [1, 2])
            with self.assertRaises(accel.AccelError):
                index.answer("harbour", generator, 3, max_new_tokens=room + 1)
            with self.assertRaises(accel.AccelError):
                index.answer("harbour", generator, max_new_tokens=2040)
            # what a document spells as a special token is text
            index.remove(self.docs)
            counts = []
            for text in ("the cat <|end|> sat", "the cat < |end|> sat"):
                index.add_text("one", text)
                counts.append(index.answer("cat", generator, max_new_tokens=4).prompt_tokens)
            self.assertEqual(counts[0], counts[1])
        generator.close()

    def test_examples(self):
        commands = [[sys.executable, os.path.join(ROOT, "examples", "python", "documents.py")]]
        if os.path.exists(os.path.join(BUILD, "examples", "example_c_documents")):
            commands.append([os.path.join(BUILD, "examples", "example_c_documents")])
        folder = os.path.join(self.work, "chat")
        os.mkdir(folder)
        chat_model.make(folder)
        environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "src", "bindings", "python")}
        for number, command in enumerate(commands):
            for generator in ([], [folder]):
                done = subprocess.run([*command, f"{self.index}{number}", EMBEDDER, self.docs, "Where do seals sleep?", *generator], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, timeout=120, env=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("0 added, 0 changed, 3" if generator else "3 added, 0 changed, 0 unchanged, 0 removed\n", done.stdout)
                self.assertIn("notes.txt:1-3", done.stdout)

    def test_tool_answers(self):
        self.add()
        folder = os.path.join(self.work, "chat")
        os.mkdir(folder)
        model = chat_model.make(folder)
        words = ["query", "the harbour", "--index", self.index, "--model", model, "--top", "2", "--max-new-tokens", "8", "-q"]
        report = json.loads(tool(*words, "--json").stdout)
        self.assertEqual([report["schema"], len(report["sources"]), report["cited"]], ["accel.rag.query/1", 2, []])
        self.assertIn(report["new_tokens"], range(1, 9))
        for more in ([], ["--stream"]):
            out = tool(*words, *more).stdout
            self.assertTrue(out.startswith(report["answer"]))
            self.assertIn("\nSources:\n[1] ", out)
        plain = json.loads(tool("query", "the harbour", "--index", self.index, "--model", os.path.join(ROOT, "tests", "fixtures", "pipelines", "text"), "--top", "1",
                                "--max-new-tokens", "4", "-q", "--json", expected=1).stdout or "null")
        self.assertIsNone(plain)  # 128 positions: no room for a source
        info = json.loads(tool("info", "--index", self.index, "--json").stdout)
        self.assertEqual([len(info["documents"]), info["embedder"], info["dim"]], [3, EMBEDDER, 16])
        self.assertIn("3 documents", tool("info", "--index", self.index).stdout)


if __name__ == "__main__":
    unittest.main()
