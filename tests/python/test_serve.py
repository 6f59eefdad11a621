"""`accel serve` itself: start and end, options, keys, its own routes, hostile requests; test_serve_core.py has what needs slow handlers."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import serving
from serving import ACCEL, ENVIRONMENT, SENTENCE, Server, TEXT


def tearDownModule():
    if Running.server:
        assert Running.server.stop() == 0, Running.server.log()


class Running(unittest.TestCase):
    """Tests that share one server."""
    server = None

    @classmethod
    def setUpClass(cls):
        if not serving.WITH_SERVER:
            raise unittest.SkipTest("built without libmicrohttpd")
        if not Running.server:
            Running.server = Server(f"small={SENTENCE}", TEXT, config={"allow_host": ["models.example"], "allow_origin": ["https://app.example"]})

    def get(self, path, status=200, **options):
        answer = self.server.get(path, **options)
        self.assertEqual(answer.status, status, answer)
        return answer


class Routes(Running):
    def test_health(self):
        self.assertEqual(self.get("/health").json(), {"status": "ok"})
        self.assertEqual(self.get("/ready").json(), {"status": "ready"})
        self.assertRegex(self.get("/version").json()["version"], r"^\d+\.\d+")
        head = self.server.request("HEAD", "/health")
        self.assertEqual((head.status, head.body), (200, b""))

    def test_models(self):
        listed = self.get("/v1/models").json()
        self.assertEqual(listed["object"], "list")
        self.assertEqual([(m["id"], m["object"], m["task"]) for m in listed["data"]],
                         [("small", "model", "feature-extraction"), ("text", "model", "text-generation")])
        self.assertLess(abs(listed["data"][0]["created"] - time.time()), 600)
        self.assertEqual(self.get("/v1/models/small").json(), listed["data"][0])
        self.assertEqual(self.get("/v1/models/" + TEXT.replace("/", "%2F")).json(), listed["data"][1])
        error = self.get("/v1/models/other%20one", 404).json()["error"]
        self.assertEqual((error["code"], error["param"], error["type"]), ("model_not_found", "model", "not_found_error"))
        self.assertIn("other one", error["message"])

    def test_openapi(self):
        text = self.get("/openapi.json").json()
        self.assertEqual(text["openapi"], "3.1.0")
        with open(os.path.join(serving.ROOT, "src", "serve", "routes.def"), encoding="utf-8") as f:
            routes = re.findall(r'(?m)^ROUTE\("(\w+)",\s*"([^"]+)"', f.read())
        self.assertGreater(len(routes), 8)
        self.assertEqual({(m, p.replace("*", "{rest}")) for m, p in routes},
                         {(method.upper(), path) for path, item in text["paths"].items() for method in item})

    def test_metrics(self):
        text = self.get("/metrics").body.decode()
        for line in text.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"]*",?)+\})? [-+0-9.e]+)$')
        names = re.findall(r"(?m)^# TYPE (\w+) (\w+)$", text)
        self.assertEqual(len(names), len(set(names)))
        for name in ("accel_requests_running", "accel_requests_waiting", "accel_time_to_first_token_seconds", "accel_prompt_tokens_total"):
            self.assertIn(name, dict(names))
            self.assertIn(f'{name}{"_count" if "seconds" in name else ""}{{model="small"}} 0', text)
        self.assertIn('accel_http_responses_total{method="GET",route="/health",status="200"}', self.get("/metrics").body.decode())

    def test_page(self):
        page = self.get("/")
        self.assertIn("default-src 'self'", page.headers["Content-Security-Policy"])
        self.assertEqual(page.headers["Content-Type"], "text/html; charset=utf-8")
        used = re.findall(r'(?:src|href)="([^"]+)"', page.body.decode())
        self.assertEqual(sorted(used), ["/page/icon.svg", "/page/page.css", "/page/page.js"])
        self.assertNotRegex(page.body.decode(), r"https?://|<style|<script>|style=| on\w+=")
        for path in used:
            self.assertGreater(len(self.get(path).body), 100)
            self.assertNotIn(b"://", self.get(path).body.replace(b'xmlns="http://www.w3.org/2000/svg"', b""))
        self.get("/page/other.js", 404)
        self.get("/page/../page.js", 404)

    def test_no_such_route(self):
        error = self.get("/v1/nothing", 404).json()["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.get("/healthx", 404)
        self.get("/v1/models/", 404)
        answer = self.server.post("/health", {})
        self.assertEqual((answer.status, answer.headers["Allow"]), (405, "GET, HEAD"))
        self.assertEqual(self.server.request("DELETE", "/v1/models").status, 405)
        self.assertEqual(self.server.request("OPTIONS", "/v1/models").status, 405)

    def test_one_connection_many_requests(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        numbers = set()
        for path in ["/health", "/v1/nothing", "/v1/models"] * 20:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            numbers.add(answer.headers["X-Request-Id"])
            self.assertEqual(answer.status, 404 if "nothing" in path else 200)
        connection.close()
        self.assertEqual(len(numbers), 60)

    def test_pipelined(self):
        got = self.server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4 +
                              b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertEqual((got.count(b"HTTP/1.1 200"), got.count(b'"ok"'), got.count(b'"ready"')), (5, 4, 1))


# What is sent, and the status; None: the connection is closed without an answer.
HOST = b"Host: 127.0.0.1\r\n"
HOSTILE = [
    ("length and chunked", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("chunked and length", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    ("two lengths", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
    ("the same length twice", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
    ("length 5x", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length: 5x\r\n\r\nabcde", 400),
    ("length -1", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400),
    ("length +3", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length: +3\r\n\r\nabc", 400),
    ("length 3, 3", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length: 3, 3\r\n\r\nabc", 400),
    ("length beyond 64 bits", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length: 18446744073709551616\r\n\r\nabc", (400, 413)),
    ("no host", b"GET /health HTTP/1.1\r\n\r\n", 400),
    ("two hosts", b"GET /health HTTP/1.1\r\n" + HOST + b"Host: localhost\r\n\r\n", 400),
    ("a host for rebinding", b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
    ("a host that looks local", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", 403),
    ("a malformed host", b"GET /health HTTP/1.1\r\nHost: a@localhost\r\n\r\n", 400),
    ("a space before the colon", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length : 3\r\n\r\nabc", 400),
    ("a name that is no token", b"GET /health HTTP/1.1\r\n" + HOST + b"X(Y): 1\r\n\r\n", 400),
    ("a header of 64 KiB", b"GET /health HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 65536 + b"\r\n\r\n", (431, 400)),
    ("200 headers", b"GET /health HTTP/1.1\r\n" + HOST + b"".join(b"X-%d: 1\r\n" % i for i in range(200)) + b"\r\n", 431),
    ("a target of 20 KiB", b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", (400, 414)),
    ("an absolute target", b"GET http://127.0.0.1/health HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("a NUL in the path", b"GET /health%00x HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("a broken escape", b"GET /health%zz HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("gzip and chunked", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", (400, 501)),
    ("chunked twice", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("chunked in HTTP/1.0", b"POST /v1/models HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("a body of GET", b"GET /health HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc", 400),
    ("a compressed body", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", 415),
    ("HTTP/2 in clear", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (None, 400, 505)),
    ("HTTP/3.7", b"GET /health HTTP/3.7\r\n" + HOST + b"\r\n", (None, 400, 505)),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n", (None, 400)),
    ("a page of another origin", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Origin: https://evil.example\r\nContent-Length: 2\r\n\r\n{}", 403),
    ("an unknown expectation", b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}", 417),
    ("a Host in two lines", b"GET /health HTTP/1.1\r\nHost: local\r\n host\r\n\r\n", 400),
    ("a line without a colon", b"GET /health HTTP/1.1\r\n" + HOST + b"nonsense\r\n\r\n", 400),
    ("a space in front of a name", b"GET /health HTTP/1.1\r\n Host: localhost\r\n\r\n", 400),
    ("a carriage return in a value", b"GET /health HTTP/1.1\r\n" + HOST + b"X: a\rHost: b\r\n\r\n", 400),
    ("a control character in a value", b"GET /health HTTP/1.1\r\n" + HOST + b"X: a\x01b\r\n\r\n", 400),
]


class Hostile(Running):
    def status_of(self, got):
        match = re.match(rb"HTTP/1\.[01] (\d{3}) ", got)
        return int(match.group(1)) if match else None

    def test_heads(self):
        for name, data, status in HOSTILE:
            with self.subTest(name):
                got = self.server.raw(data, finish=True)
                self.assertIn(self.status_of(got), status if isinstance(status, tuple) else (status,), got[:300])
                # libmicrohttpd 0.9.75 writes the head of its own refusals twice
                self.assertLessEqual(len(set(re.findall(rb"HTTP/1\.[01] \d{3} ", got))), 1, "one answer, whatever else was sent")
        self.assertEqual(self.get("/health").json(), {"status": "ok"})

    def test_nothing_is_smuggled(self):
        """Behind a head that two servers may read in two ways, what follows is no request."""
        hidden = b"GET /version HTTP/1.1\r\n" + HOST + b"\r\n"
        for head in (b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: 4\r\nContent-Length: %d\r\n" % len(hidden),
                     b"Content-Length : %d\r\n" % len(hidden)):
            got = self.server.raw(b"POST /v1/models HTTP/1.1\r\n" + HOST + head + b"\r\n" + hidden)
            self.assertNotIn(b'"version"', got)
            self.assertRegex(got, rb"(?i)connection: close")

    def test_large_bodies_are_refused_unread(self):
        with self.server.connect() as s:
            s.sendall(b"POST /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999\r\n\r\n")
            self.assertRegex(s.recv(4096), rb"^HTTP/1.1 413")

    def test_browsers(self):
        allowed = {"Origin": "https://app.example"}
        self.assertEqual(self.get("/health", headers=allowed).headers["Access-Control-Allow-Origin"], "https://app.example")
        preflight = self.server.request("OPTIONS", "/v1/models", headers={**allowed, "Access-Control-Request-Headers": "authorization, x-stainless-os"})
        self.assertEqual((preflight.status, preflight.headers["Access-Control-Allow-Methods"], preflight.headers["Access-Control-Allow-Headers"]),
                         (204, "GET, HEAD, POST", "authorization, x-stainless-os"))
        self.assertIsNone(self.get("/health").headers["Access-Control-Allow-Origin"])
        same = self.get("/health", headers={"Origin": f"http://127.0.0.1:{self.server.port}"})
        self.assertIsNone(same.headers["Access-Control-Allow-Origin"])
        self.get("/health", headers={"Host": "models.example:80"})

    def test_log_holds_no_requests(self):
        self.get("/secret-path?secret-argument", 404)
        self.assertNotIn("secret", self.server.log())


class StartAndEnd(unittest.TestCase):
    def setUp(self):
        if not serving.WITH_SERVER:
            self.skipTest("built without libmicrohttpd")

    def run_to_end(self, *arguments, config=None):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            if config is not None:
                f.write(config if isinstance(config, str) else json.dumps(config))
                f.flush()
                arguments = (*arguments, "--config", f.name)
            done = subprocess.run([ACCEL, "serve", "--port", "0", *arguments], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
        return done.returncode, done.stderr

    def refused(self, code, pattern, *arguments, config=None):
        found, errors = self.run_to_end(*arguments, config=config)
        self.assertEqual(found, code, errors)
        self.assertRegex(errors, pattern)

    def test_what_is_refused(self):
        self.refused(2, "which model")
        self.refused(2, "takes PATH or NAME=PATH", "--model", "x=")
        self.refused(2, "two models are called 'text'", "--model", TEXT, "--model", TEXT)
        self.refused(2, "can be reached by other machines.*--api-key-file", "--model", TEXT, "--host", "0.0.0.0")
        self.refused(2, "can be reached by other machines", "--model", TEXT, config={"host": "::"})
        self.refused(2, "No such file", "--model", TEXT, "--api-key-file", "/nowhere/keys.txt")
        self.refused(1, "no such model|not on this machine|/nowhere/model", "--model", "/nowhere/model")
        self.refused(1, "serve.json: No such file", "--config", "/nowhere/serve.json")
        self.refused(1, "it is no JSON object", config="[1]")
        self.refused(1, "line 2: it is no JSON object", config='{"port": 1,\n nothing}')
        self.refused(2, "there is no field prot", config={"prot": 1})
        self.refused(2, "there is no field pth", config={"models": [{"pth": "x"}]})
        self.refused(2, "path takes a directory or an id; it is missing", config={"models": [{"name": "x"}]})
        self.refused(2, "port takes a whole number from 0 to 65535", config={"port": 65536})
        self.refused(2, "max_requests takes a whole number from 1", config={"max_requests": 1.5})
        self.refused(2, "max_body takes a number of bytes", config={"max_body": "much"})
        self.refused(2, "allow_host takes an array of texts", config={"allow_host": "x"})
        self.refused(2, "no_cache takes true or false", config={"no_cache": 1})
        self.refused(2, 'mode takes "latency" or "throughput"', config={"mode": "fast"})
        self.refused(2, "random_weights takes true or false", config={"models": [{"path": "x", "random_weights": 1}]})

    def test_keys(self):
        key = "0123456789abcdef0123456789abcdef"
        with tempfile.NamedTemporaryFile("w") as f:
            f.write(f"# one\n{key}\n")
            f.flush()
            server = Server(SENTENCE, config={"host": "0"}, options=("--api-key-file", f.name))
        try:
            for path in ("/health", "/ready", "/", "/page/page.js"):
                self.assertEqual(server.get(path).status, 200)
            self.assertEqual(server.get("/health", headers={"Host": "0"}).status, 200, "what --host says")
            self.assertEqual(server.get("/health", headers={"Host": "1"}).status, 403)
            for wrong in ({}, {"Authorization": "Bearer " + key[:-1]}, {"Authorization": "Bearer " + key + "0"}, {"Authorization": key}):
                answer = server.get("/v1/models", headers=wrong)
                self.assertEqual((answer.status, answer.json()["error"]["code"]), (401, "invalid_api_key"))
                self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")
            self.assertEqual(server.get("/metrics").status, 401)
            for path in [p for p, item in server.get("/openapi.json", headers={"Authorization": "Bearer " + key}).json()["paths"].items() if "post" in item]:
                self.assertEqual(server.post(path, {}).status, 401, path)
            self.assertEqual(server.get("/v1/models", headers={"Authorization": "Bearer " + key}).status, 200)
            self.assertNotIn(key, server.log())
        finally:
            self.assertEqual(server.stop(), 0)

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "serve.sock")
            stale = socket.socket(socket.AF_UNIX)
            stale.bind(path)
            stale.close()
            server = Server(SENTENCE, options=("--socket", path))
            try:
                self.assertEqual(server.url, "unix:" + path)
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o660)
                self.assertEqual(server.get("/v1/models").json()["data"][0]["id"], "sentence")
                self.assertEqual(server.get("/health", headers={"Host": "whatever"}).status, 200)
                code, errors = self.run_to_end("--model", SENTENCE, "--socket", path)
                self.assertEqual(code, 1)
                self.assertIn("Address already in use", errors)
            finally:
                self.assertEqual(server.stop(signal.SIGINT), 0)
            self.assertFalse(os.path.exists(path))

    def test_socket_activation(self):
        listener = socket.create_server(("127.0.0.1", 0))
        # systemd hands over descriptor 3 and says for which process
        program = ("import os,sys; os.dup2(int(sys.argv[1]), 3); os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid())); "
                   "os.execv(sys.argv[2], sys.argv[2:])")
        process = subprocess.Popen([sys.executable, "-c", program, str(listener.fileno()), ACCEL, "serve", "--model", SENTENCE],
                                   pass_fds=[listener.fileno()], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        try:
            connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=60)
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
            connection.close()
        finally:
            process.terminate()
            errors = process.communicate(timeout=60)[1]
            listener.close()
        self.assertEqual(process.returncode, 0, errors)

    def test_ended_while_loading(self):
        server = Server(TEXT, ready=False)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
