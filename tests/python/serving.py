"""A running `accel serve` for tests: starts it at a free port, speaks HTTP to it with the standard library alone, raw bytes too."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
ACCEL = os.path.join(BUILD, "bin", "accel")
FIXTURES = os.path.join(ROOT, "tests", "fixtures")
TEXT = os.path.join(FIXTURES, "pipelines", "text")          # a tiny llama
SENTENCE = os.path.join(FIXTURES, "pipelines", "sentence")  # a tiny sentence-transformer
# A build without libmicrohttpd has no server: its tests are skipped.
WITH_SERVER = os.path.exists(os.path.join(BUILD, "serve_page_data.c"))
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("ACCEL_") or k in ("ACCEL_CACHE_DIR", "ACCEL_ISA")}


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Server:
    """models: as --model takes them.  config: fields of --config.  program: with its arguments, in the place of the tool's."""

    def __init__(self, *models, config=None, options=(), program=None, ready=True, environment=None, descriptors=()):
        self.lines, self.url, self.port, self.socket = [], None, None, None
        self.folder = tempfile.TemporaryDirectory()
        command = list(program or [ACCEL, "serve"])
        config = {"port": 0, **(config or {})}
        path = os.path.join(self.folder.name, "serve.json")
        if program:
            config["models"] = [{"path": m, "device": "cpu"} for m in models]
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        command += [path] if program else ["--config", path, "--device", "cpu", *(a for m in models for a in ("--model", m)), *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, errors="replace",
                                        env={**ENVIRONMENT, **(environment or {})}, pass_fds=descriptors)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.wait_for(r"listening at (\S+),", 60)
        if ready:
            self.wait_for(r"ready: ", 120)

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def log(self):
        return "\n".join(self.lines)

    def wait_for(self, pattern, seconds):
        """The match of a line of the log."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in list(self.lines):
                match = re.search(pattern, line)
                if match:
                    if "listening" in pattern:
                        self.url = match.group(1)
                        if self.url.startswith("unix:"):
                            self.socket = self.url[5:]
                        else:
                            self.port = int(self.url.rsplit(":", 1)[1])
                    return match
            if self.process.poll() is not None:
                self.reader.join(5)
                if any(re.search(pattern, line) for line in self.lines):
                    continue
                break
            time.sleep(0.005)
        log = self.log()
        self.kill()
        raise AssertionError(f"no line {pattern!r} in the log:\n{log}")

    # ---- HTTP ----

    def connect(self, timeout=30):
        if self.socket:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(timeout)
            s.connect(self.socket)
            return s
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def request(self, method, path, body=None, headers=None, timeout=60):
        """One request on a connection of its own; a body that is no bytes goes as JSON."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port or 80, timeout=timeout)
        if self.socket:
            connection.sock = self.connect(timeout)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body, **options):
        return self.request("POST", path, body, **options)

    def events(self, path, body, timeout=60):
        """The data of each server-sent event; "[DONE]" is left out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise AssertionError(f"{answer.status} {answer.read()!r}")
            data = answer.read().decode()
        finally:
            connection.close()
        lines = [line[6:] for line in data.split("\n") if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    def raw(self, data, timeout=10, finish=False):
        """Sends bytes and reads until the server closes or `timeout`; finish: nothing more comes from here."""
        with self.connect(timeout) as s:
            try:
                s.sendall(data)
                if finish:
                    s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has answered and closed already
            got = b""
            try:
                while True:
                    piece = s.recv(65536)
                    if not piece:
                        break
                    got += piece
            except (socket.timeout, ConnectionResetError):
                pass
            return got

    # ---- the process ----

    def figure(self, name):
        """One number of /metrics, of its first line."""
        match = re.search(rf"(?m)^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics").body.decode())
        if not match:
            raise AssertionError(f"no {name} in /metrics")
        return float(match.group(1))

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self):
        """Bytes of the process."""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def stop(self, number=signal.SIGTERM, seconds=60):
        """Its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("it did not stop:\n" + self.log()) from None
        self.reader.join(5)
        self.process.stderr.close()
        self.folder.cleanup()
        return code

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(5)
        self.process.stderr.close()
        self.folder.cleanup()
