"""OpenAI's routes of `accel serve` over plain HTTP: answers are those of the library, streams say what whole answers say, and what is not
understood is refused by name."""
import base64
import concurrent.futures
import json
import os
import re
import struct
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import chat_model
from generating import BUILD, ROOT
from sanitized import run_under_sanitizer
from serving import WITH_SERVER, Server

os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
if __name__ == "__main__":
    run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

FIXTURES = os.path.join(ROOT, "tests", "fixtures")
EMBEDDER = os.path.join(FIXTURES, "tasks", "st_prompts")
MASKED = os.path.join(FIXTURES, "tasks", "st_of_mlm")  # the head of another task, with a pooling of its own
SEEING = os.path.join(FIXTURES, "seeing", "llava")
PICTURE = os.path.join(FIXTURES, "image", "pictures", "colour_420.jpg")
HELLO = [{"role": "user", "content": "Hello there"}]
UNIT = {"type": "object", "properties": {"unit": {"enum": ["C", "F"]}}, "required": ["unit"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "x", "parameters": UNIT, "strict": True}},
         {"type": "function", "function": {"name": "now"}}]


@unittest.skipUnless(WITH_SERVER, "built without libmicrohttpd")
class Openai(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder, cls.special = tempfile.TemporaryDirectory(), tempfile.TemporaryDirectory()
        cls.chat_model = chat_model.make(cls.folder.name)
        # Mistral's family, whose template takes arguments as text, as DeepSeek's do
        template = chat_model.TEMPLATE.replace("<tool_call>", "[TOOL_CALLS]").replace("c.function.arguments | tojson", "'' + c.function.arguments")
        chat_model.make(cls.special.name, template, "[TOOL_CALLS]")
        cls.server = Server("chat=" + cls.chat_model, "embedder=" + EMBEDDER, "seeing=" + SEEING, "masked=" + MASKED,
                            "special=" + cls.special.name)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()
        cls.special.cleanup()

    # ---- asking

    def open(self, path, **body):
        call = urllib.request.Request(self.server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return urllib.request.urlopen(call, timeout=60)

    def ask(self, path, **body):
        with self.open(path, **body) as answer:
            return json.load(answer)

    def chat(self, messages=HELLO, **body):
        return self.ask("/v1/chat/completions", **{"model": "chat", "messages": messages, "max_tokens": 12, "seed": 5, **body})

    def events(self, path, **body):
        """The events of a stream; its end is checked."""
        with self.open(path, stream=True, **body) as answer:
            self.assertEqual(answer.headers["Content-Type"].split(";")[0], "text/event-stream")
            text = answer.read().decode()
        parts = text.split("\n\n")
        self.assertEqual(parts[-2:], ["data: [DONE]", ""])
        self.assertTrue(all(p.startswith("data: ") for p in parts[:-1]))
        return [json.loads(p[6:]) for p in parts[:-2]]

    def stream(self, messages=HELLO, **body):
        return self.events("/v1/chat/completions", **{"model": "chat", "messages": messages, "max_tokens": 12, "seed": 5, **body})

    def refused(self, path, status, param, says, **body):
        with self.assertRaises(urllib.error.HTTPError) as raised:
            self.ask(path, **body)
        with raised.exception as answer:
            error = json.load(answer)["error"]
        self.assertEqual((answer.code, error["param"]), (status, param), error)
        self.assertIn(says, error["message"])
        return error

    def joined(self, events):
        """What the chunks of a stream say, as whole choices."""
        choices = {}
        for chunk in events:
            for choice in chunk["choices"]:
                c = choices.setdefault(choice["index"], {"content": "", "calls": [], "logprobs": [], "finish": None})
                self.assertIsNone(c["finish"])
                delta = choice["delta"]
                c["content"] += delta.get("content") or ""
                for call in delta.get("tool_calls", []):
                    if call["index"] == len(c["calls"]):
                        self.assertTrue(call["id"] and call["type"] == "function")
                        c["calls"].append({"name": call["function"]["name"], "arguments": ""})
                    else:
                        self.assertNotIn("name", call["function"])
                    c["calls"][call["index"]]["arguments"] += call["function"]["arguments"]
                if choice["logprobs"]:
                    c["logprobs"] += choice["logprobs"]["content"]
                c["finish"] = choice["finish_reason"]
        return [choices[i] for i in sorted(choices)]

    def same(self, whole, events):
        """The stream and the whole answer to the same request say the same."""
        self.assertEqual({e["object"] for e in events}, {"chat.completion.chunk"})
        self.assertEqual(len({e["id"] for e in events}), 1)
        got = self.joined(events)
        self.assertEqual(len(got), len(whole["choices"]))
        for own, choice in zip(got, whole["choices"]):
            message = choice["message"]
            self.assertEqual(own["content"], message["content"] or "")
            self.assertEqual(own["calls"], [c["function"] for c in message.get("tool_calls", [])])
            self.assertEqual(own["logprobs"], (choice["logprobs"] or {"content": []})["content"])
            self.assertEqual(own["finish"], choice["finish_reason"])

    # ---- chat

    def test_an_answer_is_the_librarys(self):
        got = self.chat(temperature=0)
        with accel.Model(self.chat_model, device="cpu") as model:
            want = model.generate(["user: Hello there\nassistant: "], max_new_tokens=12, temperature=0, add_special_tokens=False)[0]
        self.assertEqual(got["choices"][0]["message"]["content"], want.text)
        self.assertEqual(got["usage"]["completion_tokens"], len(want.ids))
        self.assertEqual(got["usage"]["total_tokens"], got["usage"]["prompt_tokens"] + len(want.ids))
        self.assertEqual((got["object"], got["model"], got["choices"][0]["finish_reason"]), ("chat.completion", "chat", "length"))

    def test_streams(self):
        for extra in ({"temperature": 0}, {"temperature": 1, "top_p": 0.9, "top_k": 50}, {"temperature": 1, "n": 3}, {"temperature": 1, "logprobs": True},
                      {"logprobs": True, "top_logprobs": 3, "temperature": 0}, {"stop": ["e", "a"], "temperature": 1}):
            with self.subTest(extra):
                whole = self.chat(**extra)
                self.same(whole, self.stream(**extra))
        events = self.stream(stream_options={"include_usage": True}, temperature=0)
        self.assertTrue(all(e["usage"] is None for e in events[:-1]))
        self.assertEqual((events[-1]["choices"], events[-1]["usage"]), ([], self.chat(temperature=0)["usage"]))

    def test_log_probabilities(self):
        for token in self.chat(logprobs=True, top_logprobs=2, temperature=0)["choices"][0]["logprobs"]["content"]:
            self.assertEqual(len(token["top_logprobs"]), 2)
            self.assertLessEqual(token["logprob"], token["top_logprobs"][0]["logprob"] + 1e-5)  # penalties may have chosen another
            if token["bytes"] is not None:
                self.assertEqual(bytes(token["bytes"]).decode(), token["token"])

    def test_seeds_and_stops(self):
        self.assertEqual(self.chat(temperature=1)["choices"][0]["message"], self.chat(temperature=1)["choices"][0]["message"])
        text = self.chat(temperature=0, max_tokens=24)["choices"][0]["message"]["content"]
        stop = text[4:6]
        got = self.chat(temperature=0, max_tokens=24, stop=stop)["choices"][0]
        self.assertEqual((got["message"]["content"], got["finish_reason"]), (text[:text.index(stop)], "stop"))

    def test_what_a_text_must_be(self):
        def text(**body):
            return self.chat(max_tokens=80, temperature=1, **body)["choices"][0]["message"]["content"]
        schema = {"type": "json_schema", "json_schema": {"name": "unit", "strict": True, "schema": UNIT}}
        self.assertIn(json.loads(text(response_format=schema))["unit"], ("C", "F"))
        self.same(self.chat(response_format=schema), self.stream(response_format=schema))
        self.assertIn(text(guided_choice=["yes", "no"]), ("yes", "no"))
        self.assertRegex(text(guided_regex="[a-c]{3}"), "^[a-c]{3}$")
        self.assertEqual(text(structured_outputs={"grammar": 'root ::= "x" "y"'}), "xy")
        self.assertEqual(text(response_format={"type": "structural_tag", "format": {"type": "const_string", "value": "same"}}), "same")
        self.assertTrue(self.chat(response_format={"type": "json_object"}, max_tokens=3)["choices"][0]["message"]["content"].startswith("{"))
        self.refused("/v1/chat/completions", 400, "response_format", "'not'", model="chat", messages=HELLO,
                     response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}})

    def test_pictures(self):
        with open(PICTURE, "rb") as f:
            url = "data:image/jpeg;base64," + base64.b64encode(f.read()).decode()
        ask = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "what"}]}]
        body = {"model": "seeing", "messages": ask, "temperature": 0, "max_tokens": 5}
        with accel.Model(SEEING, device="cpu") as model:
            want = model.generate_images([("what", [PICTURE])], kind="question", max_new_tokens=5, temperature=0)[0]
        whole = self.ask("/v1/chat/completions", **body)
        self.assertEqual(whole["choices"][0]["message"]["content"], want.text)
        self.same(whole, self.events("/v1/chat/completions", **body))
        # tools, variables of the template, a deadline and priorities as without pictures; beside each other as alone
        self.refused("/v1/chat/completions", 400, "tools", "tools", **body, tools=TOOLS)
        more = {**body, "chat_template_kwargs": {"x": 1}, "priority": 3, "deadline_ms": 60000, "stop": "zzz"}
        plain = {"model": "seeing", "messages": [{"role": "user", "content": [{"type": "text", "text": "what"}]}], "temperature": 0, "max_tokens": 5}
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda b: self.ask("/v1/chat/completions", **b)["choices"], [more, plain, body, more, plain, body]))
        self.assertEqual(answers[0], whole["choices"])
        self.assertEqual(answers[:3], answers[3:])
        self.assertEqual(answers[2], answers[0])
        # without max_tokens it goes on to what the context leaves
        whole = self.ask("/v1/chat/completions", **{**body, "max_tokens": None, "ignore_eos": True})
        self.assertEqual((whole["choices"][0]["finish_reason"], whole["usage"]["total_tokens"]), ("length", 512))
        ask[0]["content"][0]["image_url"]["url"] = "http://127.0.0.1/x.png"
        self.refused("/v1/chat/completions", 400, "messages", "data: URI", **body)
        bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 10000, 6000) + b"\x08\x02\0\0\0"
        ask[0]["content"][0]["image_url"]["url"] = "data:image/png;base64," + base64.b64encode(bomb).decode()
        self.refused("/v1/chat/completions", 400, "messages", "50 million pixels", **body)

    def test_clients_that_leave(self):
        """The generation ends with its client, streamed or not."""
        def cancelled():
            return self.server.figure("accel_requests_cancelled_total")
        body = {"model": "chat", "messages": HELLO, "max_tokens": 1900, "n": 32, "temperature": 1, "ignore_eos": True}
        for stream in (True, False):
            before, text = cancelled(), json.dumps({**body, "stream": stream}).encode()
            with self.server.connect() as client:
                client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                               b"Content-Length: %d\r\n\r\n" % len(text) + text)
                if stream:
                    self.assertIn(b"200", client.recv(64))
                else:
                    time.sleep(0.05)
            end = time.monotonic() + 30
            while cancelled() == before and time.monotonic() < end:
                time.sleep(0.02)
            self.assertEqual(cancelled(), before + 1, "stream" if stream else "whole")

    # ---- tools

    def test_tool_calls(self):
        named = {"type": "function", "function": {"name": "weather"}}
        for choice, finish in (("required", "tool_calls"), (named, "stop")):
            body = {"tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": False, "max_tokens": 200, "temperature": 1}
            whole = self.chat(**body)
            self.same(whole, self.stream(**body))
            message = whole["choices"][0]["message"]
            self.assertEqual((message["content"], whole["choices"][0]["finish_reason"], len(message["tool_calls"])), (None, finish, 1))
            call = message["tool_calls"][0]
            self.assertTrue(call["id"].startswith("call_"))
            want = {"weather": ({"unit": "C"}, {"unit": "F"}), "now": ({},)}[call["function"]["name"]]
            self.assertIn(json.loads(call["function"]["arguments"]), want)

    def test_calls_by_special_tokens(self):
        """Mistral's: a token that no text has begins the calls, and comes nowhere else."""
        first = set()
        for seed in range(12):
            body = {"model": "special", "tools": TOOLS[:1], "tool_choice": "required", "max_tokens": 200, "temperature": 2, "seed": seed, "logprobs": True}
            whole = self.chat(**body)
            self.same(whole, self.stream(**body))
            choice = whole["choices"][0]
            tokens = [t["token"] for t in choice["logprobs"]["content"]]
            first.add(tokens[0])
            self.assertNotIn("[TOOL_CALLS]", tokens[1:])
            if choice["finish_reason"] == "tool_calls":
                self.assertIsNone(choice["message"]["content"])
                self.assertTrue(all(json.loads(c["function"]["arguments"])["unit"] in "CF" for c in choice["message"]["tool_calls"]))
                self.assertTrue(all(re.fullmatch("[a-z0-9]{9}", c["id"]) for c in choice["message"]["tool_calls"]))
        self.assertIn("[TOOL_CALLS]", first)

    def test_tools_that_are_not_called(self):
        for choice in ("auto", "none"):
            body = {"tools": TOOLS, "tool_choice": choice, "temperature": 0}
            whole = self.chat(**body)
            self.same(whole, self.stream(**body))
            self.assertNotIn("tool_calls", whole["choices"][0]["message"])
        schema = {"type": "json_schema", "json_schema": {"name": "unit", "schema": UNIT}}
        message = self.chat(tools=TOOLS, response_format=schema, max_tokens=200, temperature=0)["choices"][0]["message"]
        self.assertTrue(message.get("tool_calls") or json.loads(message["content"])["unit"])

    def test_results_of_tools(self):
        messages = HELLO + [{"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"unit": "C"}'}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "20"}]
        # templates that write arguments as JSON, and those that put them between texts
        for name, folder, begin, arguments in (("chat", self.chat_model, "<tool_call>", '{"unit": "C"}'),
                                               ("special", self.special.name, "[TOOL_CALLS]", '{"unit":"C"}')):
            got = self.chat(messages, model=name, temperature=0)
            with accel.Model(folder, device="cpu") as model:
                text = f'user: Hello there\nassistant: {begin}{{"name": "weather", "arguments": {arguments}}}</tool_call>\ntool: 20\nassistant: '
                want = model.generate([text], max_new_tokens=12, temperature=0, add_special_tokens=False)[0]
            self.assertEqual(got["choices"][0]["message"]["content"], want.text)

    # ---- completions

    def test_prefixes_are_counted(self):
        for end in ("one", "two"):
            self.ask("/v1/completions", model="chat", prompt=8 * "What many prompts begin with is read only once. " + end, max_tokens=1)
        with urllib.request.urlopen(self.server.url + "/metrics", timeout=60) as answer:
            lines = "\n".join(line for line in answer.read().decode().splitlines() if "prefix" in line)
        for name in ("hits_total", "tokens_total", "bytes"):
            self.assertRegex(lines, rf'accel_prefix_cache_{name}\{{model="chat"\}} [1-9]')

    def test_completions(self):
        body = {"model": "chat", "prompt": ["Hello", "Two words"], "max_tokens": 6, "temperature": 0}
        got = self.ask("/v1/completions", **body)
        with accel.Model(self.chat_model, device="cpu") as model:
            want = model.generate(body["prompt"], max_new_tokens=6, temperature=0)
        self.assertEqual([(c["index"], c["text"]) for c in got["choices"]], [(i, w.text) for i, w in enumerate(want)])
        for extra in ({}, {"echo": True}, {"logprobs": 2}, {"n": 2, "temperature": 1, "seed": 3}, {"prompt": [5, 6, 7]}):
            with self.subTest(extra):
                whole = self.ask("/v1/completions", **{**body, **extra})
                chunks = [c for e in self.events("/v1/completions", **{**body, **extra}) for c in e["choices"]]
                for choice in whole["choices"]:
                    own = [c for c in chunks if c["index"] == choice["index"]]
                    self.assertEqual("".join(c["text"] for c in own), choice["text"])
                    self.assertEqual(own[-1]["finish_reason"], choice["finish_reason"])
                    for key in (choice["logprobs"] or {}):
                        self.assertEqual([x for c in own if c["logprobs"] for x in c["logprobs"][key]], choice["logprobs"][key])
        self.assertTrue(self.ask("/v1/completions", **body, echo=True)["choices"][1]["text"].startswith("Two words"))

    # ---- embeddings

    def test_embeddings(self):
        texts = ["the quick brown fox", "a lazy dog sleeps"]
        with accel.Model(EMBEDDER, device="cpu") as model:
            want = [struct.pack(f"<{len(v)}f", *v) for v in model.embed(texts)]
        got = self.ask("/v1/embeddings", model="embedder", input=texts, encoding_format="base64")
        self.assertEqual([base64.b64decode(d["embedding"]) for d in got["data"]], want)
        self.assertEqual([d["index"] for d in got["data"]], [0, 1])
        self.assertGreater(got["usage"]["prompt_tokens"], 8)
        numbers = self.ask("/v1/embeddings", model="embedder", input=texts[0])["data"][0]["embedding"]
        self.assertEqual(struct.pack(f"<{len(numbers)}f", *numbers), want[0])
        with accel.Model(MASKED, device="cpu") as model:
            want = struct.pack("<%df" % len(model.embed(texts)[0]), *model.embed(texts)[0])
        masked = self.ask("/v1/embeddings", model="masked", input=texts, encoding_format="base64")["data"][0]["embedding"]
        self.assertEqual(base64.b64decode(masked), want)
        self.refused("/v1/embeddings", 400, "pooling", "each token", model="embedder", input="x", pooling="none")
        self.refused("/v1/embeddings", 400, "pooling", "a vector for each token", model="chat", input="x")
        short = self.ask("/v1/embeddings", model="embedder", input=texts[0], dimensions=4)["data"][0]["embedding"]
        self.assertEqual(len(short), 4)
        self.refused("/v1/embeddings", 400, "dimensions", "dimensions", model="embedder", input="x", dimensions=100000)
        self.refused("/v1/embeddings", 400, "input", "vocabulary", model="embedder", input=[[99999999]])
        self.refused("/v1/embeddings", 400, "input", "empty", model="embedder", input=[])

    # ---- what is refused

    def test_fields(self):
        chat = "/v1/chat/completions"
        for param, value, says in (("temperature", 2.5, "between 0 and 2"), ("top_p", -0.1, "between"), ("n", 0, "between"), ("max_tokens", -5, "between"),
                                   ("seed", 1.5, "whole"), ("stream", "yes", "true or false"), ("logit_bias", {"1": 101}, "between"),
                                   ("logit_bias", {"x": 1}, "token ids"), ("stop", [""], "empty"), ("chat_template", "{{ 1 }}", "not supported"),
                                   ("top_logprobs", 3, "logprobs"), ("response_format", {"type": "xml"}, "xml"), ("tool_choice", "required", "no tools"),
                                   ("modalities", ["audio"], "texts"), ("tools", [{"type": "function", "function": {"name": "a b"}}], "name")):
            with self.subTest(param=param):
                self.refused(chat, 400, param, says, model="chat", messages=HELLO, **{param: value})
        self.refused(chat, 400, "messages", "role", model="chat", messages=[{"role": "boss", "content": "x"}])
        self.refused(chat, 400, "messages", "text and image_url", model="chat",
                     messages=[{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}])
        error = self.refused(chat, 400, None, "context", model="chat", messages=HELLO, max_tokens=100000)
        self.assertEqual(error["code"], "context_length_exceeded")
        with self.open(chat, model="chat", messages=HELLO, max_tokens=1, user="u", new_field=1, other=None) as answer:
            self.assertEqual(answer.headers["x-accel-ignored"], "new_field")


if __name__ == "__main__":
    unittest.main()
