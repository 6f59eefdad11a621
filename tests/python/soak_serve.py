"""The server of `accel serve` for a long time: clients that behave beside others that vanish, are slow, idle or hostile.  Answers must be right,
and memory, threads and descriptors stay what they were.

    soak_serve.py [MINUTES]        default 30
"""
import json
import random
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
    def __init__(self, server, until):
        self.server, self.until, self.done, self.wrong = server, until, {}, []
        self.tokens = server.events("/test/generate", {"new": 40, "stream": True})

    # ---- clients that behave ----

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

    def health(self, chance):
        return self.server.get("/health").status == 200 and self.server.get("/metrics").status == 200

    def expect(self, answer, body):
        return answer.status == 429 or (answer.status == 200 and answer.json() == body)

    # ---- and those that do not ----

    def leave(self, chance, path, body, read=0, wait=0.0):
        with self.server.connect() as s:
            s.sendall(core.post(path, body))
            if read:
                s.recv(read)
            time.sleep(wait)
        return True

    def leave_prompt(self, chance):
        return self.leave(chance, "/test/generate", {"prompt": 20000, "new": 5}, wait=chance.random() * 0.05)

    def leave_tokens(self, chance):
        return self.leave(chance, "/test/generate", {"new": 900000}, wait=chance.random() * 0.05)

    def leave_stream(self, chance):
        return self.leave(chance, "/test/generate", {"new": 900000, "stream": True, "padding": 100}, read=chance.randrange(1, 5000))

    def leave_wait(self, chance):
        return self.leave(chance, "/test/wait", {"seconds": 60}, wait=chance.random() * 0.02)

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
        actions = [self.echo, self.whole, self.stream, self.form, self.health, self.leave_prompt, self.leave_tokens, self.leave_stream, self.leave_wait,
                   self.hostile, self.slow, self.idle]
        weights = [10, 5, 5, 3, 5, 1, 4, 4, 3, 8, 1, 1]
        while time.monotonic() < self.until and not self.wrong:
            action = chance.choices(actions, weights)[0]
            try:
                if not action(chance):
                    self.wrong.append(action.__name__)
            except (ConnectionError, socket.timeout, json.JSONDecodeError) as error:
                # idle clients of others push out a connection before its head is sent, at worst
                self.done["refused"] = self.done.get("refused", 0) + 1
                if self.server.process.poll() is not None:
                    self.wrong.append(f"{action.__name__}: {error!r}")
            self.done[action.__name__] = self.done.get(action.__name__, 0) + 1


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 30
    core.MODEL = core.long_model()
    server = core.start(max_connections=128, header_timeout=2)
    try:
        soak = Soak(server, time.monotonic() + 60 * minutes)
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
        early = max(memory for at, memory, *_ in samples if at <= max(60, 12 * minutes) or len(samples) < 3)
        late = server.memory() / 2**20
        print(json.dumps(dict(sorted(soak.done.items()))), f"memory {early:.1f} MiB early, {late:.1f} MiB at the end,",
              f"{server.threads()} threads, {server.descriptors()} descriptors")
        assert not soak.wrong, soak.wrong
        assert core.SANITIZED or late < early + 32, "memory has grown"
        assert max(s[2] for s in samples) <= core.LIMITS["max_requests"] + 16, "threads have grown"
        assert server.descriptors() < 20, "descriptors were lost"
        assert server.figure("accel_http_requests_running") == 0
    finally:
        code = server.stop()
        shutil.rmtree(core.MODEL)
    assert code == 0, server.log()


if __name__ == "__main__":
    main()
