"""The server of `accel serve` under handlers that take their time (tests/serve/serve_test_server.c): clients that leave at each phase, that are
slow, that are many; bodies of all kinds; what is refused when there is too much; how it ends."""
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
import unittest

import serving
from serving import BUILD, Server, TEXT

PROGRAM = [os.path.join(BUILD, "tests", "serve_test_server")]
HOST = b"Host: localhost\r\n"
SANITIZED = "ACCEL_TEST_FEWER" in os.environ  # memory that is freed is kept there
LIMITS = {"max_requests": 4, "max_waiting": 2, "header_timeout": 1, "max_body": 100000, "max_audio_body": 300000, "max_connections": 64}


def long_model():
    """The tiny llama with room for a million tokens."""
    folder = tempfile.mkdtemp()
    for name in os.listdir(TEXT):
        shutil.copy(os.path.join(TEXT, name), folder)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    config["max_position_embeddings"] = 1000000
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    return folder


def setUpModule():
    if not os.path.exists(PROGRAM[0]):
        raise unittest.SkipTest("built without libmicrohttpd")
    global MODEL
    MODEL = long_model()
    unittest.addModuleCleanup(shutil.rmtree, MODEL)


def start(**config):
    return Server(MODEL, config={**LIMITS, **config}, program=PROGRAM)


def post(path, body):
    text = json.dumps(body).encode()
    return b"POST " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(text) + text


class Shared(unittest.TestCase):
    """Tests that share a server; each leaves it as it was."""
    server = None

    @classmethod
    def setUpClass(cls):
        cls.server = start()

    @classmethod
    def tearDownClass(cls):
        if cls.server:
            assert cls.server.stop() == 0, cls.server.log()

    def counts(self):
        return self.server.get("/test/counts").json()

    def until(self, reached, seconds=15):
        end = time.monotonic() + seconds
        while not reached():
            self.assertLess(time.monotonic(), end, self.server.get("/test/counts"))
            time.sleep(0.01)

    def idle(self):
        self.until(lambda: self.server.figure("accel_http_requests_running") == 0 and self.server.figure("accel_http_requests_waiting") == 0)

    def send(self, path, body):
        s = self.server.connect()
        s.sendall(post(path, body))
        return s


class Leaving(Shared):
    """A client vanishes: what it asked for ends, soon."""

    def test_in_the_queue(self):
        busy = [self.send("/test/wait", {"seconds": 30}) for _ in range(4)]
        self.until(lambda: self.counts()["running"] == 4)
        waiting = self.send("/test/wait", {"seconds": 30})
        self.until(lambda: self.server.figure("accel_http_requests_waiting") == 1)
        before = self.counts()["left"]
        waiting.close()
        self.until(lambda: self.server.figure("accel_http_requests_waiting") == 0, 2)
        self.assertEqual(self.counts()["left"], before, "it never began")
        for s in busy:
            s.close()
        self.until(lambda: self.counts()["left"] == before + 4, 2)
        self.idle()

    def test_before_the_answer(self):
        before = self.counts()["left"]

        def some_had_begun():  # those that close before that are dropped
            for _ in range(8):
                self.send("/test/wait", {"seconds": 30}).close()
            return self.counts()["left"] > before

        self.until(some_had_begun)
        self.until(lambda: self.counts()["running"] == 0 and self.server.figure("accel_http_requests_waiting") == 0, 5)
        self.idle()

    def leaves(self, body, after, seconds):
        cancelled = self.counts()["cancelled"]
        s = self.send("/test/generate", body)
        self.until(lambda: self.counts()["running"] == 1)
        after(s)
        s.close()
        begin = time.monotonic()
        self.until(lambda: self.counts()["cancelled"] == cancelled + 1, 60)
        self.assertLess(time.monotonic() - begin, seconds)
        self.idle()

    def test_in_the_prompt(self):
        self.leaves({"prompt": 60000, "new": 10}, lambda s: time.sleep(0.2), 5)

    def test_between_tokens(self):
        self.leaves({"new": 900000}, lambda s: time.sleep(0.2), 5)

    def test_in_a_stream(self):
        self.leaves({"new": 900000, "stream": True}, lambda s: self.assertIn(b"200", s.recv(100)), 5)

    def test_reading_too_slowly(self):
        """More than a buffer's worth waits: the stream is cut, without its end."""
        cancelled = self.counts()["cancelled"]
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(30)
        s.connect(("127.0.0.1", self.server.port))
        s.sendall(post("/test/generate", {"new": 900000, "stream": True, "padding": 20000}))
        self.until(lambda: self.counts()["cancelled"] == cancelled + 1, 60)
        got = b""
        try:
            for piece in iter(lambda: s.recv(1 << 20), b""):
                got = (got + piece)[-100:]
        except ConnectionResetError:
            pass
        self.assertFalse(got.endswith(b"0\r\n\r\n"))
        s.close()
        self.idle()

    def test_nothing_is_lost(self):
        """Many of each: threads, descriptors and memory stay, and another client sees nothing of it."""
        stop, failures = threading.Event(), []

        def other():
            while not stop.is_set():
                answer = self.server.post("/test/echo", {"a": [1, 2, 3]})
                if answer.status not in (200, 429) or answer.status == 200 and answer.json() != {"a": [1, 2, 3]}:
                    failures.append(answer)

        def round_of(n):
            for i in range(n):
                s = self.send("/test/generate", {"new": 900000, "stream": i % 2 == 0})
                if i % 3 == 0 and i % 2 == 0:
                    s.recv(100)
                elif i % 3 == 0:
                    time.sleep(0.002)
                s.close()
            self.until(lambda: self.counts()["running"] == 0)
            self.idle()

        round_of(20)
        threads, descriptors, memory = self.server.threads(), self.server.descriptors(), self.server.memory()
        client = threading.Thread(target=other)
        client.start()
        round_of(100)
        stop.set()
        client.join()
        self.assertEqual(failures, [])
        self.assertEqual(self.server.threads(), threads)
        self.until(lambda: self.server.descriptors() <= descriptors)
        if not SANITIZED:
            self.assertLess(self.server.memory() - memory, 16 << 20)


class Slow(Shared):
    def gone(self, s):
        """The server has closed it."""
        try:
            while True:
                if not s.recv(4096):
                    return True
        except ConnectionResetError:
            return True
        except socket.timeout:
            return False

    def drip(self, first, seconds):
        """Connections that send a byte now and then: how many are left when `seconds` have passed."""
        slow = [self.server.connect() for _ in range(20)]
        for s in slow:
            s.sendall(first)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for s in slow:
                try:
                    s.send(b"a")
                except OSError:
                    pass
            self.assertEqual(self.server.get("/health").status, 200)
            time.sleep(0.1)
        for s in slow:
            s.settimeout(0.1)
        left = sum(not self.gone(s) for s in slow)
        for s in slow:
            s.close()
        return left

    def test_heads(self):
        self.assertEqual(self.drip(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ", 2), 0)

    def test_bodies(self):
        self.assertEqual(self.drip(b"POST /test/echo HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n{", 2), 0)

    def test_answers_that_nobody_reads(self):
        with self.server.connect(5) as s:
            s.setblocking(False)
            begin = time.monotonic()
            while True:
                try:
                    s.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
                except BlockingIOError:
                    time.sleep(0.01)
                except OSError:
                    break  # it was closed
                self.assertLess(time.monotonic() - begin, 20, "it goes on for ever")

    def test_idle_after_an_answer(self):
        with self.server.connect(5) as s:
            s.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
            self.assertTrue(self.gone(s))

    def test_hundreds_of_idle_connections(self):
        """More than there may be: each new client takes the place of the one that has been idle for longest."""
        self.server.get("/health")
        memory = self.server.memory()
        idle = [self.server.connect() for _ in range(400)]
        for _ in range(20):
            self.assertEqual(self.server.post("/test/echo", {"a": 1}).json(), {"a": 1})
            self.assertLessEqual(self.server.figure("accel_http_connections"), LIMITS["max_connections"] + 64)
        self.assertGreater(self.server.figure("accel_http_connections_refused_total"), 300)
        if not SANITIZED:
            self.assertLess(self.server.memory() - memory, 16 << 20)
        for s in idle:
            s.close()
        self.until(lambda: self.server.figure("accel_http_connections") < 5)


class Bodies(Shared):
    def refused(self, status, pattern, body, headers=None):
        answer = self.server.post("/test/echo", body, headers=headers)
        self.assertEqual(answer.status, status, answer)
        self.assertRegex(answer.json()["error"]["message"], pattern)

    def test_json(self):
        self.assertEqual(self.server.post("/test/echo", {"a": "ä\n", "b": [None, 1.5]}).json(), {"a": "ä\n", "b": [None, 1.5]})
        self.refused(400, "no JSON, from byte 5", b'{"a":}')
        self.refused(400, "no JSON", b'{"a":1} x')
        self.refused(400, "no JSON", b"")
        self.refused(400, "no object", b"[1]")
        self.refused(400, "no UTF-8", b'{"a":"\xff"}')
        self.refused(400, "no UTF-8", b'{"a":1}\x00')
        self.refused(400, "holds .u0000", b'{"a":"\\u0000"}')
        self.assertEqual(self.server.post("/test/echo", b'{"a":"\\\\u0000"}').json(), {"a": "\\u0000"})
        self.refused(400, "no JSON", b'{"a":' + b"[" * 50000 + b"}")

    def test_sizes(self):
        self.assertEqual(self.server.post("/test/echo", b'{"a":"' + b"x" * 99990 + b'"}').status, 200)
        head = b"POST /test/echo HTTP/1.1\r\n" + HOST
        self.assertRegex(self.server.raw(head + b"Content-Length: 100001\r\n\r\n"), rb"^HTTP/1.1 413")
        self.assertRegex(self.server.raw(b"POST /v1/audio/form HTTP/1.1\r\n" + HOST + b"Content-Length: 300001\r\n\r\n"), rb"^HTTP/1.1 413")

    def test_chunked(self):
        head = b"POST /test/echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
        got = self.server.raw(head + b'7\r\n{"a":1}\r\n0\r\n\r\n' + b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
        self.assertRegex(got, rb"(?s)^HTTP/1.1 200.*\{\"a\":1\}$")
        self.assertRegex(got, rb"(?i)connection: close")
        self.assertEqual(got.count(b"HTTP/1.1"), 1, "what comes behind a chunked body is not read")
        # a bare line feed ends a chunk's size for libmicrohttpd, and not for other servers: nothing may follow on this connection
        got = self.server.raw(head + b'7\n{"a":1}\r\n0\r\n\r\n' + b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
        self.assertEqual((got.count(b"HTTP/1.1 "), got.count(b'"ok"')), (1, 0))
        for chunk in (b"xyz\r\n", b"-1\r\n{}\r\n", b"ffffffffffffffffffff\r\n"):
            self.assertRegex(self.server.raw(head + chunk, finish=True), rb"^(HTTP/1.1 [45]\d\d|$)")
        piece = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
        self.assertRegex(self.server.raw(head + 4 * piece + b"0\r\n\r\n"), rb"^HTTP/1.1 413")
        self.assertEqual(self.server.raw(head + 40 * piece + b"0\r\n\r\n")[:12].replace(b"HTTP/1.1 413", b""), b"", "closed, or refused")

    def test_forms(self):
        body = (b"--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n" + bytes(range(256)) * 1000 +
                b"\r\n--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--XX--\r\n")
        sum_of = 0
        for byte in bytes(range(256)) * 1000:
            sum_of = (sum_of * 31 + byte) & 0xFFFFFFFF
        answer = self.server.post("/v1/audio/form", body, headers={"Content-Type": "multipart/form-data; boundary=XX"})
        self.assertEqual(answer.json(), [{"name": "file", "file_name": "a.wav", "type": "audio/wav", "n": 256000, "sum": sum_of},
                                         {"name": "model", "n": 1, "sum": ord("m")}])
        self.assertEqual(self.server.post("/test/form", b"a=1&b=2", headers={"Content-Type": "application/x-www-form-urlencoded"}).json()[1]["name"], "b")
        bad = self.server.post("/test/form", b"--XX\r\n", headers={"Content-Type": "multipart/form-data; boundary=XX"})
        self.assertEqual((bad.status, bad.json()["error"]["type"]), (400, "invalid_request_error"))
        self.assertEqual(self.server.post("/test/form", {}).status, 400)

    def test_a_handler_without_an_answer(self):
        answer = self.server.post("/test/silent", {})
        self.assertEqual((answer.status, answer.json()["error"]["type"]), (500, "server_error"))

    def test_streams(self):
        events = self.server.events("/test/generate", {"new": 50, "stream": True})
        self.assertEqual(len(events), 50)
        self.assertEqual(events, self.server.events("/test/generate", {"new": 50, "stream": True}))
        self.assertEqual(self.server.post("/test/generate", {"new": 50}).json(), {"tokens": 50})
        self.assertGreaterEqual(self.server.figure("accel_requests_total"), 3)
        got = self.server.raw(post("/test/generate", {"new": 5, "stream": True}).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        self.assertEqual(got.count(b"data: "), 5, "HTTP/1.0 has no chunks: the end is the connection's")

    def test_errors_of_the_library(self):
        answer = self.server.post("/test/generate", {"prompt": 999999, "new": 5})
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (400, "context_length_exceeded"))
        answer = self.server.post("/test/chat", {})  # the model has no chat template
        self.assertEqual((answer.status, answer.json()["error"]["param"]), (404, "messages"))
        self.assertRegex(answer.json()["error"]["message"], "chat template")
        self.assertNotIn(MODEL, answer.json()["error"]["message"], "where models lie is not told")
        self.assertIn(os.path.basename(MODEL), answer.json()["error"]["message"])


class Load(Shared):
    def test_too_many(self):
        busy = [self.send("/test/wait", {"seconds": 30}) for _ in range(4)]
        self.until(lambda: self.counts()["running"] == 4)
        waiting = [self.send("/test/wait", {"seconds": 30}) for _ in range(2)]
        self.until(lambda: self.server.figure("accel_http_requests_waiting") == 2)
        answer = self.server.post("/test/echo", {})
        self.assertEqual((answer.status, answer.headers["Retry-After"], answer.json()["error"]["type"]), (429, "1", "rate_limit_error"))
        self.assertEqual(self.server.get("/health").status, 200)
        for s in busy + waiting:
            s.close()
        self.idle()
        self.assertEqual(self.server.post("/test/echo", {}).status, 200)

    def test_many_at_once(self):
        """Keep-alive connections of several threads; streams and others beside each other."""
        wrong = []

        def client(number):
            for i in range(15):
                answer = self.server.post("/test/echo", {"n": [number, i]})
                while answer.status == 429:
                    answer = self.server.post("/test/echo", {"n": [number, i]})
                if answer.json() != {"n": [number, i]}:
                    wrong.append(answer)
        threads = [threading.Thread(target=client, args=(n,)) for n in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_other_machines(self):
        """Eight connections for each address that is not this machine's loopback."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            try:
                s.connect(("192.0.2.1", 9))
                address = s.getsockname()[0]
            except OSError:
                self.skipTest("no other address here")
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("0123456789abcdef\n")
            f.flush()
            server = start(host="0.0.0.0", api_key_file=f.name, header_timeout=30)
        try:
            mine = [socket.create_connection((address, server.port), 5) for _ in range(8)]
            for s in mine:
                s.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
                self.assertIn(b"200", s.recv(4096))
            with socket.create_connection((address, server.port), 5) as s:
                s.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
                try:
                    self.assertEqual(s.recv(4096), b"")
                except ConnectionResetError:
                    pass
            self.assertEqual(server.get("/health").status, 200)
            for s in mine:
                s.close()
        finally:
            self.assertEqual(server.stop(), 0)


class End(unittest.TestCase):
    def sent(self, server, body, running=1):
        s = server.connect()
        s.sendall(post("/test/wait", body))
        end = time.monotonic() + 10
        while server.get("/test/counts").json()["running"] < running:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return s

    def test_running_requests_are_finished(self):
        server = start()
        s = self.sent(server, {"seconds": 1})
        server.process.send_signal(signal.SIGTERM)
        server.wait_for("stopping: 1 requests run", 10)
        with self.assertRaises(OSError):
            server.connect(1).close()
        self.assertRegex(s.recv(65536), rb"(?is)^HTTP/1.1 200.*connection: close")
        s.close()
        self.assertEqual(server.stop(), 0)

    def test_until_the_time_is_over(self):
        server = start(drain=1)
        s = self.sent(server, {"seconds": 60})
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        self.assertRegex(s.recv(65536), rb"^HTTP/1.1 503")
        s.close()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 10)

    def test_a_second_signal_ends_the_patience(self):
        server = start(drain=600)
        s = self.sent(server, {"seconds": 600})
        server.process.send_signal(signal.SIGINT)
        server.wait_for("stopping", 10)
        server.process.send_signal(signal.SIGINT)
        self.assertRegex(s.recv(65536), rb"^HTTP/1.1 503")
        s.close()
        self.assertEqual(server.stop(), 0)

    def test_requests_have_a_time(self):
        server = start(request_timeout=1, max_requests=1)
        try:
            s = self.sent(server, {"seconds": 60})
            waiting = server.connect()
            waiting.sendall(post("/test/wait", {"seconds": 60}))
            for each in (s, waiting):
                self.assertRegex(each.recv(65536), rb"(?s)^HTTP/1.1 504.*\"timeout\"")
                each.close()
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
