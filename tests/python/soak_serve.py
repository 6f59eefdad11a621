"""The server of `accel serve` for a long time: clients that behave beside others that vanish, are slow, idle or hostile.  Answers must be right,
and memory, threads and descriptors stay what they were.

    soak_serve.py [MINUTES]            default 30: the server without models' routes, with those of the tests
    soak_serve.py routes [MINUTES]     accel serve with thirteen tiny models in little memory, and three adapters
"""
import base64
import json
import os
import random
import re
import shutil
import socket
import sys
import threading
import time

import serving
import test_serve
import test_serve_core as core

CLIENTS = 8


class Soak:
    """The clients of a server; what they do are `actions`, chosen by their `weights`."""

    def __init__(self, server, until):
        self.server, self.until, self.done, self.wrong = server, until, {}, []
        self.actions, self.weights = [self.health, self.hostile, self.slow, self.idle], [5, 8, 1, 1]

    def health(self, chance):
        return self.server.get("/health").status == 200 and self.server.get("/metrics").status == 200

    def leave(self, path, body, read=0, wait=0.0):
        with self.server.connect() as s:
            s.sendall(core.post(path, body))
            if read:
                s.recv(read)
            time.sleep(wait)
        return True

    def hostile(self, chance):
        name, data, status = chance.choice(test_serve.HOSTILE)
        got = self.server.raw(data[:chance.randrange(len(data) + 1)] if chance.random() < 0.3 else data, finish=True, timeout=5)
        return b" 200 " not in got[:20] or b"GET /health" in data

    def slow(self, chance):
        with self.server.connect() as s:
            for byte in b"GET /health HTTP/1.1\r\nHost: localho":
                try:
                    s.send(bytes([byte]))
                except OSError:
                    break
                time.sleep(0.05)
        return True

    def idle(self, chance):
        many = [self.server.connect() for _ in range(chance.randrange(1, 60))]
        time.sleep(0.2)
        for s in many:
            s.close()
        return True

    def client(self, number):
        chance = random.Random(number)
        while time.monotonic() < self.until and not self.wrong:
            action = chance.choices(self.actions, self.weights)[0]
            try:
                if not action(chance):
                    self.wrong.append(action.__name__)
            except (ConnectionError, socket.timeout, json.JSONDecodeError) as error:
                # idle clients of others push out a connection before its head is sent, at worst
                self.done["refused"] = self.done.get("refused", 0) + 1
                if self.server.process.poll() is not None:
                    self.wrong.append(f"{action.__name__}: {error!r}")
            self.done[action.__name__] = self.done.get(action.__name__, 0) + 1


class Core(Soak):
    """Clients of the server of test_serve_core."""

    def __init__(self, server, until):
        super().__init__(server, until)
        self.tokens = server.events("/test/generate", {"new": 40, "stream": True})
        self.actions += [self.echo, self.whole, self.stream, self.form, self.leave_prompt, self.leave_tokens, self.leave_stream, self.leave_wait]
        self.weights += [10, 5, 5, 3, 1, 4, 4, 3]

    def echo(self, chance):
        body = {"n": chance.randrange(1 << 30), "text": "ä" * chance.randrange(2000)}
        return self.expect(self.server.post("/test/echo", body), body)

    def whole(self, chance):
        return self.expect(self.server.post("/test/generate", {"new": 40}), {"tokens": 40})

    def stream(self, chance):
        try:
            return self.server.events("/test/generate", {"new": 40, "stream": True}) == self.tokens
        except AssertionError as error:
            return "429" in str(error)

    def form(self, chance):
        body = b"--X\r\nContent-Disposition: form-data; name=f\r\n\r\n" + bytes(chance.randrange(200000)) + b"\r\n--X--"
        answer = self.server.post("/v1/audio/form", body, headers={"Content-Type": "multipart/form-data; boundary=X"})
        return answer.status == 429 or answer.json()[0]["n"] == len(body) - 54

    def expect(self, answer, body):
        return answer.status == 429 or (answer.status == 200 and answer.json() == body)

    def leave_prompt(self, chance):
        return self.leave("/test/generate", {"prompt": 20000, "new": 5}, wait=chance.random() * 0.05)

    def leave_tokens(self, chance):
        return self.leave("/test/generate", {"new": 900000}, wait=chance.random() * 0.05)

    def leave_stream(self, chance):
        return self.leave("/test/generate", {"new": 900000, "stream": True, "padding": 100}, read=chance.randrange(1, 5000))

    def leave_wait(self, chance):
        return self.leave("/test/wait", {"seconds": 60}, wait=chance.random() * 0.02)


FIXTURES = serving.FIXTURES
MODELS = {"embedder": "tasks/st_prompts", "classes": "tasks/classify_many", "ranker": "tasks/rerank_bert", "tokens": "tasks/tokens_wordpiece",
          "answers": "tasks/qa_wordpiece", "masks": "tasks/fill_wordpiece", "writer": "pipelines/text", "t5": "pipelines/t5", "hearing": "speech/many",
          "labels": "media/vit", "boxes": "media/detr", "captions": "seeing/blip_caption"}
ADAPTERS = {"first": ("text_attention", 1), "half": ("text_attention", 0.5), "second": ("text_all_linear", 1)}
POOL = "13M"  # the largest takes 12.1 MiB while it is loaded: others are unloaded for it
TEXTS = ["the quick brown fox", "a lazy dog sleeps", "numbers 1 2 3"]
VOLATILE = re.compile(rb'"(id|created)": ?("[^"]*"|[0-9]+),?')


def wav_form():
    """Body and type of a transcription."""
    with open(os.path.join(FIXTURES, "speech", "short.wav"), "rb") as f:
        sound = f.read()
    parts = b"".join(b"--X\r\nContent-Disposition: form-data; name=%s\r\n\r\n%s\r\n" % part for part in ((b"model", b"hearing"), (b"response_format", b"verbose_json")))
    return parts + b"--X\r\nContent-Disposition: form-data; name=file; filename=a.wav\r\n\r\n" + sound + b"\r\n--X--\r\n", "multipart/form-data; boundary=X"


def requests():
    """(path, body, type) of one request for every kind of route."""
    with open(os.path.join(FIXTURES, "image", "pictures", "colour_420.jpg"), "rb") as f:
        picture = "data:image/jpeg;base64," + base64.b64encode(f.read()).decode()
    say = {"prompt": "Once upon a time", "max_tokens": 24, "seed": 5, "temperature": 1}
    for name in ("writer", "lora", "lora:first", "lora:half", "lora:second"):
        yield "/v1/completions", dict(say, model=name), None
        yield "/v1/completions", dict(say, model=name, stream=True), None
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    yield "/v1/completions", dict(say, model="writer", response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}), None
    yield "/v1/completions", dict(say, model="writer", n=3, logprobs=2), None
    yield "/v1/embeddings", {"model": "embedder", "input": TEXTS}, None
    yield "/embed", {"model": "embedder", "inputs": TEXTS}, None
    yield "/predict", {"model": "classes", "inputs": TEXTS[0]}, None
    yield "/v1/rerank", {"model": "ranker", "query": TEXTS[0], "documents": TEXTS}, None
    yield "/tokenize", {"model": "writer", "prompt": TEXTS[0]}, None
    yield "/accel/run/token-classification", {"model": "tokens", "inputs": TEXTS[0]}, None
    yield "/accel/run/question-answering", {"model": "answers", "inputs": {"question": "what", "context": TEXTS[0]}}, None
    yield "/accel/run/text2text-generation", {"model": "t5", "inputs": TEXTS[0], "max_new_tokens": 8}, None
    for name, task in (("labels", "image-classification"), ("boxes", "object-detection"), ("captions", "image-to-text")):
        yield "/accel/run/" + task, {"model": name, "inputs": picture}, None
    body, kind = wav_form()
    yield "/v1/audio/transcriptions", body, kind


class Routes(Soak):
    """Clients of `accel serve` with models: each answer is the one that was given when nothing else ran."""

    def __init__(self, server, until):
        super().__init__(server, until)
        self.requests = list(requests())
        self.answers = [self.ask(*r) for r in self.requests]
        for request, (status, body) in zip(self.requests, self.answers):
            assert status == 200, (request[0], status, body)
        self.actions += [self.answer, self.leave_stream, self.leave_whole]
        self.weights += [60, 6, 3]

    def ask(self, path, body, kind):
        got = self.server.post(path, body, headers={"Content-Type": kind} if kind else {})
        return got.status, VOLATILE.sub(b"", got.body)

    def answer(self, chance):
        at = chance.randrange(len(self.requests))
        path = self.requests[at][0]
        got = self.ask(*self.requests[at])
        self.done[path] = self.done.get(path, 0) + 1
        if got != self.answers[at] and got[0] not in (429, 503):
            self.wrong.append(f"{path}: {got} for {self.answers[at]}")
        return True

    def leave_stream(self, chance):
        body = {"model": chance.choice(["writer", "lora:first"]), "prompt": "a", "max_tokens": 60, "ignore_eos": True, "stream": True}
        return self.leave("/v1/completions", body, read=chance.randrange(1, 2000))

    def leave_whole(self, chance):
        return self.leave("/v1/completions", {"model": "writer", "prompt": "a", "max_tokens": 60, "n": 8, "temperature": 1}, wait=chance.random() * 0.02)


def start_routes():
    models = [{"name": name, "path": os.path.join(FIXTURES, path)} for name, path in MODELS.items()]
    adapters = [{"name": name, "path": os.path.join(FIXTURES, "adapters", path), "scale": scale} for name, (path, scale) in ADAPTERS.items()]
    models.append({"name": "lora", "path": os.path.join(FIXTURES, MODELS["writer"]), "adapters": adapters})
    return serving.Server(config={"models": models, "pool_memory": POOL, "max_connections": 128, "connections_per_address": 128, "header_timeout": 2})


def run(server, soak, minutes):
    """Samples of (seconds, MiB, threads, descriptors) while the clients work."""
    clients = [threading.Thread(target=soak.client, args=(n,)) for n in range(CLIENTS)]
    for c in clients:
        c.start()
    begin, samples = time.monotonic(), []
    while any(c.is_alive() for c in clients):
        time.sleep(min(10, 6 * minutes))
        samples.append((time.monotonic() - begin, server.memory() / 2**20, server.threads(), server.descriptors()))
        if len(samples) % 6 == 1:
            print("%5.0f s: %.1f MiB, %d threads, %d descriptors" % samples[-1], flush=True)
    for c in clients:
        c.join()
    time.sleep(4)
    return samples


def check(server, soak, minutes, routes):
    samples = run(server, soak, minutes)
    early = max(memory for at, memory, *_ in samples if at <= max(60, 12 * minutes) or len(samples) < 3)
    late = server.memory() / 2**20
    print(json.dumps(dict(sorted(soak.done.items()))), f"memory {early:.1f} MiB early, {late:.1f} MiB at the end,",
          f"{server.threads()} threads, {server.descriptors()} descriptors")
    assert not soak.wrong, soak.wrong
    assert core.SANITIZED or late < early + 32, "memory has grown"
    assert server.figure("accel_http_requests_running") == 0
    if routes:
        print({name: server.figure(name) for name in ("accel_model_loads_total", "accel_model_evictions_total", "accel_models_loaded", "accel_models_bytes")})
        assert server.figure("accel_model_evictions_total") > 0
        assert server.figure("accel_models_bytes") <= server.figure("accel_models_limit_bytes")
        return  # threads and files of models come and go
    assert max(s[2] for s in samples) <= core.LIMITS["max_requests"] + 16, "threads have grown"
    assert server.descriptors() < 20, "descriptors were lost"


def main():
    arguments = sys.argv[1:]
    routes = arguments[:1] == ["routes"]
    minutes = float(arguments[routes]) if len(arguments) > routes else 30
    core.MODEL = core.long_model()
    server = start_routes() if routes else core.start(max_connections=128, header_timeout=2)
    try:
        until = time.monotonic() + 60 * minutes
        check(server, (Routes if routes else Core)(server, until), minutes, routes)
    finally:
        code = server.stop()
        shutil.rmtree(core.MODEL)
    assert code == 0, server.log()


if __name__ == "__main__":
    main()
