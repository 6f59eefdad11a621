"""PyTorch's side of scripts/card (card_torch.py) as one process: to import torch takes longer than most of what it is asked."""
import json
import os
import select
import subprocess
import sys
import tempfile
import time

NOT_INSTALLED = 3


class Peer:
    def __init__(self, environment):
        self.environment = environment
        self.installed = True
        self.process = None
        self.rest = b""  # of what it said, from the last whole line on

    def start(self):
        self.errors = tempfile.TemporaryFile()
        self.rest = b""
        self.process = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "card_torch.py")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, env=self.environment, start_new_session=True)

    def stop(self):
        """Returns the end of what it said on stderr."""
        if self.process is None:
            return ""
        self.process.kill()
        self.process.communicate()
        self.process = None
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        self.errors.close()
        return text.strip()[-300:]

    def line(self, end):
        """The next line; None when the time is over, b"" when the process is."""
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                return b""
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line + b"\n"

    def ask(self, arguments, seconds):
        """(lines of JSON, None), or ([], why there are none).  One that takes too long, or ends, is started anew for the next question."""
        if not self.installed:
            return [], "PyTorch is not installed"
        end = time.monotonic() + seconds
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps(arguments).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the next read says so
        found = []
        while True:
            line = self.line(end)
            if line is None:
                self.stop()
                return [], "its time was over"
            if not line:
                code = self.process.wait()
                self.installed = code != NOT_INSTALLED
                return [], self.stop() or f"it ended with {code}"
            if not line.startswith(b"{"):
                continue
            said = json.loads(line)
            if "answered" in said:
                return (found, None) if said["answered"] else ([], said["reason"])
            found.append(said)
