"""Conversations: `accel generate --chat` and the package's Chat on the model of fixtures/pipelines/text, to which a chat template is given here.
An answer is what the same model generates from the rendered messages, whatever was kept of earlier turns."""
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

from sanitized import run_under_sanitizer

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
ACCEL = os.path.join(BUILD, "bin", "accel")
DEVICE = os.environ.get("ACCEL_TEST_DEVICES", "reference").split()[0]
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
TEMPLATE = "{% for m in messages %}<s>{{ m.role[0] }}:{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<s>a:{% endif %}"


def rendered(messages):
    return "".join(f"<s>{m['role'][0]}:{m['content']}\n" for m in messages) + "<s>a:"


class WithModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.work.name, "model")
        shutil.copytree(os.path.join(ROOT, "tests", "fixtures", "pipelines", "text"), cls.path)
        with open(os.path.join(cls.path, "chat_template.jinja"), "w", encoding="utf-8") as f:
            f.write(TEMPLATE)

    @classmethod
    def tearDownClass(cls):
        cls.work.cleanup()


class Tool(WithModel):
    def command(self, *arguments):
        return [ACCEL, "generate", self.path, "--chat", "--device", DEVICE, *arguments]

    def run_chat(self, *arguments, lines=None, expected=0):
        done = subprocess.run(self.command("--quiet", *arguments), input=lines, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, expected, done.stderr)
        return done.stdout.decode(), done.stderr.decode()

    def answer(self, messages, *arguments):
        done = subprocess.run([ACCEL, "generate", self.path, rendered(messages), "--no-special", "--quiet", "--device", DEVICE, "--json", *arguments],
                              stdout=subprocess.PIPE, check=True, timeout=120)
        return json.loads(done.stdout)["results"][0]["text"]

    def check(self, report):
        """Every answer is what its messages generate."""
        messages = report["messages"]
        for i, m in enumerate(messages):
            if m["role"] == "assistant":
                self.assertEqual(m["content"], self.answer(messages[:i], "--max-new-tokens", "6"))

    def test_turns_and_what_is_kept(self):
        for arguments, lines in ((("a cat", "the mat", "on"), None), ((), b"a cat\nthe mat\r\n\non")):
            report = json.loads(self.run_chat("--system", "s", "--max-new-tokens", "6", "--json", *arguments, lines=lines)[0])
            self.assertEqual(report["schema"], "accel.chat/1")
            self.assertEqual([m["content"] for m in report["messages"] if m["role"] == "user"], ["a cat", "the mat", "on"])
            self.check(report)
            turns = report["turns"]
            self.assertEqual(turns[0]["reused_tokens"], 0)
            for before, turn in zip(turns, turns[1:]):  # all of the prompt before was kept, if not the answer's own tokens
                self.assertGreaterEqual(turn["reused_tokens"], before["prompt_tokens"] - 1)
                self.assertLess(turn["reused_tokens"], turn["prompt_tokens"])

    def test_text_is_printed_as_it_comes(self):
        report = json.loads(self.run_chat("--max-new-tokens", "6", "--json", "a cat", "on")[0])
        out, _ = self.run_chat("--max-new-tokens", "6", lines=b"a cat\non\n")
        self.assertEqual(out, "".join(m["content"] + "\n" for m in report["messages"] if m["role"] == "assistant"))

    def test_commands(self):
        lines = b"one\n/undo\ntwo\nthree\n/forget\n//four\n/system x\n/nonsense\n"
        out, errors = self.run_chat("--max-new-tokens", "4", "--json", lines=lines)
        messages = json.loads(out)["messages"]
        self.assertEqual([m["content"] for m in messages if m["role"] != "assistant"], ["x", "three", "/four"])
        self.assertIn("no command /nonsense", errors)
        messages = json.loads(self.run_chat("--system", "s", "--json", lines=b"one\n/reset\n/exit\ntwo\n")[0])["messages"]
        self.assertEqual(messages, [{"role": "system", "content": "s"}])

    def test_what_was_said_before(self):
        before = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "world"}]
        path = os.path.join(self.work.name, "before.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(before, f)
        report = json.loads(self.run_chat("--messages", path, "--max-new-tokens", "6", "--json", "on")[0])
        self.assertEqual(report["messages"][:3], before + [{"role": "user", "content": "on"}])
        self.assertEqual(report["messages"][3]["content"], self.answer(report["messages"][:3], "--max-new-tokens", "6"))

    def test_a_full_context(self):
        _, errors = self.run_chat("--max-new-tokens", "6", "a cat", "the mat " * 60, expected=1)
        self.assertIn("context is 128", errors)
        self.assertIn("begin anew", errors)
        report = json.loads(self.run_chat("--max-new-tokens", "500", "--json", "--generation-config", '{"eos_token_id": 299}', "a")[0])
        self.assertEqual(report["turns"][0]["finish"], "length")
        self.assertEqual(report["turns"][0]["prompt_tokens"] + report["turns"][0]["new_tokens"], 128)

    def test_refusals(self):
        for arguments in (("--beams", "2"), ("--stream",), ("--logprobs", "1"), ("--messages", "-")):
            with self.subTest(arguments=arguments):
                self.assertIn("--", self.run_chat(*arguments, lines=b"", expected=2)[1])
        plain = os.path.join(ROOT, "tests", "fixtures", "pipelines", "text")
        done = subprocess.run([ACCEL, "generate", plain, "--chat", "a", "--device", DEVICE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"chat template", done.stderr)

    # ---- Ctrl-C: answers that wait for a full pipe ----

    def when_idle(self, process):
        """Waits until the process does nothing but wait."""
        def used():
            with open(f"/proc/{process.pid}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            return fields[11], fields[12], fields[0]
        for _ in range(200):
            before = used()
            time.sleep(0.3)
            if process.poll() is not None:
                self.fail(f"ended with {process.returncode}: {process.stderr.read()}")
            if used() == before and before[2] == "S":
                return
        self.fail("the process is never idle")

    def start(self, out, *arguments):
        return subprocess.Popen(self.command("--quiet", "--max-new-tokens", "60", "--generation-config", '{"eos_token_id": 299}', *arguments), stdin=subprocess.PIPE,
                                stdout=out, stderr=subprocess.PIPE)

    def full_pipe(self):
        read, write = os.pipe()
        fcntl.fcntl(write, getattr(fcntl, "F_SETPIPE_SZ", 1031), 4096)
        os.set_blocking(write, False)
        filled = 0
        try:
            while True:
                filled += os.write(write, b"." * 512)
        except BlockingIOError:
            pass
        os.set_blocking(write, True)
        return read, write, filled

    def cancelled(self, times, lines):
        read, write, filled = self.full_pipe()
        process = self.start(write)
        os.close(write)
        process.stdin.write(lines)
        process.stdin.flush()
        self.when_idle(process)  # in the first write of its answer
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        with os.fdopen(read, "rb") as f:
            process.stdin.close()
            out = f.read()[filled:]
        process.stdin = None
        _, errors = process.communicate(timeout=60)
        return process.returncode, out.decode(), errors.decode()

    def test_interrupt_cancels_the_answer(self):
        whole = self.answer([{"role": "user", "content": "a cat"}], "--max-new-tokens", "60", "--generation-config", '{"eos_token_id": 299}')
        code, out, errors = self.cancelled(1, b"a cat\n")
        self.assertEqual(code, 0, errors)
        self.assertTrue(whole.startswith(out[:-1]), out)
        self.assertLess(len(out), len(whole) // 2)

    def test_a_second_interrupt_ends(self):
        code, _, errors = self.cancelled(2, b"a cat\nnever answered\n")
        self.assertEqual(code, 130, errors)

    def test_interrupt_at_the_prompt_ends(self):
        with self.start(subprocess.PIPE) as process:
            self.when_idle(process)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60), 130)


class Terminal(WithModel):
    """The tool at a terminal of its own: Ctrl-C is typed, not sent."""

    @classmethod
    def setUpClass(cls):  # the shape of the model, larger, so that an answer takes seconds
        super().setUpClass()
        path = os.path.join(cls.path, "config.json")
        with open(path, encoding="utf-8") as f:
            config = json.load(f)
        config.update(hidden_size=512, intermediate_size=512, num_hidden_layers=8, max_position_embeddings=8192, head_dim=64, num_attention_heads=8, num_key_value_heads=8)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)

    def setUp(self):
        self.child, self.fd = pty.fork()
        if self.child == 0:
            os.execv(ACCEL, [ACCEL, "generate", self.path, "--chat", "--device", DEVICE, "--quiet", "--random-weights", "--max-new-tokens", "4000",
                             "--generation-config", '{"eos_token_id": 299}'])
        self.before = termios.tcgetattr(self.fd)
        self.heard = b""

    def tearDown(self):
        os.close(self.fd)  # hangs up what still runs

    def wait_for(self, text, more=0):
        """Reads until `text` is there, and so many bytes behind it; answers all that was read since the last time."""
        end = time.time() + 120
        while text not in self.heard or len(self.heard) < self.heard.index(text) + len(text) + more:
            self.assertLess(time.time(), end, self.heard[-400:])
            if select.select([self.fd], [], [], 1)[0]:
                self.heard += os.read(self.fd, 65536)
        heard, self.heard = self.heard, b""
        return heard

    def ends_with(self, code):
        end = time.time() + 60
        while True:  # what it still prints
            self.assertLess(time.time(), end, "it does not end")
            if not select.select([self.fd], [], [], 1)[0]:
                continue
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1]), code)

    def test_the_first_ctrl_c_ends_the_answer_and_the_next_the_session(self):
        self.wait_for(b"> ")
        for question in b"a cat\n", b"on the mat\n":  # twice: the session is alive and its signals are caught anew
            os.write(self.fd, question)
            self.wait_for(question.strip() + b"\r\n", more=8)  # echoed, then some of the answer
            os.write(self.fd, b"\x03")
            cut = self.wait_for(b"> ")
            self.assertIn(b"^C", cut)
            self.assertEqual(cut[-4:], b"\r\n> ")  # the prompt begins a line
        self.assertEqual(termios.tcgetattr(self.fd), self.before)
        os.write(self.fd, b"\x03")
        self.ends_with(130)

    def test_ctrl_c_twice_ends(self):
        self.wait_for(b"> ")
        os.write(self.fd, b"a cat\n")
        self.wait_for(b"a cat\r\n", more=8)
        os.write(self.fd, b"\x03")
        time.sleep(0.05)
        os.write(self.fd, b"\x03")  # while it leaves the answer, or at the prompt: the second ends it all the same
        self.ends_with(130)

    def test_end_of_input(self):
        self.wait_for(b"> ")
        os.write(self.fd, b"\x04")
        self.ends_with(0)


class Package(WithModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import accel
        cls.accel = accel
        cls.model = accel.Model(cls.path, device=DEVICE)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        super().tearDownClass()

    def expected(self, messages, **options):
        return self.model.generate(rendered(messages), add_special_tokens=False, **options)[0].text

    def test_say_and_stream(self):
        with self.model.chat(system="be brief") as chat:
            first = chat.send("a cat", max_new_tokens=8)
            self.assertEqual(first.text, self.expected(chat.messages[:2], max_new_tokens=8))
            self.assertEqual(chat.reused, 0)
            second = "".join(t.text for t in chat.stream("the mat", max_new_tokens=8))
            self.assertEqual(second, self.expected(chat.messages[:4], max_new_tokens=8))
            self.assertGreater(chat.reused, 0)
            self.assertEqual([m["role"] for m in chat.messages], ["system", "user", "assistant", "user", "assistant"])

    def test_an_answer_that_is_left(self):
        with self.model.chat() as chat:
            heard = []
            left = chat.send("a cat", on_token=lambda t: heard.append(t.text) or len(heard) == 5, max_new_tokens=60, ignore_eos=True)
            kept = chat.messages[1]["content"]
            self.assertEqual((left.finish, left.text, "".join(heard)), ("cancelled", kept, kept))
            whole = self.expected(chat.messages[:1], max_new_tokens=60, ignore_eos=True)
            self.assertTrue(whole.startswith(kept) and len(kept) < len(whole), (kept, whole))
            after = chat.send("on", max_new_tokens=6)
            self.assertEqual(after.text, self.expected(chat.messages[:3], max_new_tokens=6))

    def test_messages_can_be_changed(self):
        with self.model.chat() as chat:
            chat.send("a cat", max_new_tokens=4)
            chat.messages = [{"role": "user", "content": "a dog"}]
            self.assertEqual(chat.generate(max_new_tokens=6).text, self.expected([{"role": "user", "content": "a dog"}], max_new_tokens=6))
            for wrong in ([1], [{"content": "x"}]):
                with self.assertRaises(self.accel.ArgumentError):
                    chat.messages = wrong
            self.assertEqual(chat.messages[0]["content"], "a dog")

    def test_a_failed_turn_changes_nothing(self):
        with self.model.chat() as chat:
            chat.send("a cat", max_new_tokens=4)
            before = chat.messages
            with self.assertRaises(self.accel.AccelError):
                chat.send("the mat " * 80)
            with self.assertRaises(self.accel.AccelError):
                chat.send("x", guidance_scale=2.0)
            self.assertEqual(chat.messages, before)
            self.assertEqual(chat.send("on", max_new_tokens=4).text, self.expected(before + [{"role": "user", "content": "on"}], max_new_tokens=4))

    def test_templates_that_fail(self):
        for template, error in (("{{ raise_exception('no system here') }}", self.accel.ArgumentError),
                                ("{% for i in range(100000000) %}x{% endfor %}", self.accel.AccelError)):
            path = os.path.join(self.work.name, f"template{len(template)}")
            shutil.copytree(self.path, path)
            with open(os.path.join(path, "chat_template.jinja"), "w", encoding="utf-8") as f:
                f.write(template)
            with self.accel.Model(path, device=DEVICE) as model, model.chat() as chat:
                with self.assertRaises(error):
                    chat.send("a")
                self.assertEqual(chat.messages, [])

    def test_submit_generate(self):
        prompts = ["Once upon a time", "The cat sat on", [0, 40, 41]]
        alone = [self.model.generate(p, max_new_tokens=9)[0].ids for p in prompts]
        heard = []
        tickets = [self.model.submit_generate(p, on_token=(lambda t: heard.append(t.id) and None) if i == 0 else None, max_new_tokens=9) for i, p in enumerate(prompts)]
        self.assertEqual([t.wait()[0].ids for t in tickets], alone)
        self.assertEqual(heard, alone[0])
        with self.assertRaises(ValueError):
            tickets[0].wait()

        def on_token(token):
            raise KeyError(token.id)
        with self.assertRaises(KeyError):
            self.model.submit_generate("a", on_token=on_token).wait()
        with self.assertRaises(self.accel.AccelError):
            self.model.submit_generate("a " * 400)
        self.model.submit_generate("a", max_new_tokens=3)  # a ticket nobody waits for

    def test_cancel_and_deadline(self):
        """While the queue stands at a token: what is cancelled ends at once, what is late at the next step, others as ever."""
        begun, go_on = threading.Event(), threading.Event()

        def stand(_):
            begun.set()
            go_on.wait(60)
        first = self.model.submit_generate("Once", on_token=stand, max_new_tokens=3)
        self.assertTrue(begun.wait(60))
        gone, late, kept = (self.model.submit_generate("Once", max_new_tokens=3, **how) for how in ({}, {"deadline": 0.001}, {"priority": -1}))
        gone.cancel()
        with self.assertRaises(self.accel.CancelledError):
            gone.wait(0)
        time.sleep(0.01)
        go_on.set()
        with self.assertRaisesRegex(self.accel.AccelTimeoutError, "had not begun"):
            late.wait()
        self.assertEqual(kept.wait()[0].ids, first.wait()[0].ids)
        kept.cancel()  # of no effect: it was waited for

    def test_examples(self):
        """An urgent request and one that is withdrawn, in C and in Python."""
        commands = [[sys.executable, os.path.join(ROOT, "examples", "python", "queued.py"), self.path]]
        if os.path.exists(os.path.join(BUILD, "examples", "example_c_queued")):
            commands.append([os.path.join(BUILD, "examples", "example_c_queued"), self.path])
        want = self.model.generate("Once upon a time", max_new_tokens=16)[0].text
        for command in commands:
            with self.subTest(command=command[0]):
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                                      env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "src", "bindings", "python")))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertGreaterEqual(done.stdout.count(want), 3, done.stdout)


if __name__ == "__main__":
    run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
    unittest.main()
