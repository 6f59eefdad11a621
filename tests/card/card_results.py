"""What scripts/card finds, kept as it goes: lines of JSON, and a summary in Markdown; how it runs programs and reads what they print."""
import glob
import json
import os
import re
import selectors
import signal
import time

SCHEMA = "accel.card/1"
SMALL_MODELS = [("BERT", "tests/fixtures/models/bert", "encode", (1, 4), 0), ("LLaMA", "tests/fixtures/models/llama", "generate", (1,), 16),
                ("ViT", "tests/fixtures/models/vit", "encode", (1,), 0), ("Whisper", "tests/fixtures/speech/english", "transcribe", (1,), 0)]
# Of accel bench's report: field, unit, words.
RATES = {"encode": [("median_ms", "ms", "a run")],
         "generate": [("prefill_tokens_per_s", "tokens/s", "prompt"), ("decode_tokens_per_s", "tokens/s", "decoding")],
         "transcribe": [("encoder_ms", "ms", "encoder"), ("decoder_ms_per_token", "ms", "a token")]}


class Results:
    """DIR/card.jsonl, begun anew with a line about the day, and DIR/card.md."""

    def __init__(self, folder, day):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.day, self.facts = folder, day, []
        self.file = os.open(os.path.join(folder, "card.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        self.write({"schema": SCHEMA, "step": "day", **day})
        self.summarise()

    def write(self, fact):
        """One write a line: a line is there or not."""
        os.write(self.file, (json.dumps(fact) + "\n").encode())

    def add(self, step, **fields):
        fact = {"step": step, **{k: v for k, v in fields.items() if v is not None}}
        self.facts.append(fact)
        self.write(fact)
        if fact.get("result") in ("fail", "cut off", "not run"):
            print(f"{step}: {fact.get('device', '')} {fact.get('name', '')}: {fact['result']}: {fact.get('reason', '')[:300]}", flush=True)

    def finish(self):
        """Exit code."""
        self.add("end", name="end", result="pass")
        self.summarise()
        os.close(self.file)
        bad = sum(fact["result"] == "fail" for fact in self.facts)
        print(f"{os.path.join(self.folder, 'card.md')}: {bad} failed, {sum(f['result'] == 'cut off' for f in self.facts)} cut off")
        return 1 if bad else 0

    # ---- the summary ----

    def summarise(self):
        os.fsync(self.file)
        path = os.path.join(self.folder, "card.md")
        with open(path + ".part", "w", encoding="utf-8") as f:
            f.write("\n".join(self.lines()) + "\n")
            f.flush()
            os.fsync(f.fileno())
        os.replace(path + ".part", path)

    def lines(self):
        day = self.day
        yield "# A day with a card" + (", rehearsed on software devices" if day["rehearsal"] else "")
        yield f"\n{day['started']}, {day['processor']} with {day['cpus']} processors, commit {day['commit']}, {day['minutes']:g} minutes.\n"
        yield from self.devices()
        yield from self.counts()
        yield from self.numbers()
        yield from self.trouble()

    def of(self, *steps, results=("pass", "fail", "number")):
        return [f for f in self.facts if f["step"] in steps and f["result"] in results]

    def devices(self):
        found = [f for f in self.facts if f["step"] == "detect" and f.get("device")]
        if found:
            yield "| device | what | driver | memory | self-test |\n|---|---|---|---|---|"
        for f in found:
            memory = f"{f['memory_total'] / 2**30:.1f} GiB" if f.get("memory_total") else ""
            verdicts = ", ".join(f"{p} {v}" for p, v in f.get("self_test", {}).items()) or f.get("reason", "")
            yield f"| {f['device']} | {f.get('description', '')} {f.get('arch', '')} | {f.get('driver', '')} | {memory} | {verdicts} |"

    def counts(self):
        """Goldens and conformance: passed of all, by device and precision."""
        table = {}
        for f in self.of("conformance", results=("pass", "fail")):
            table[f["device"], "conformance", f["name"]] = f"{f['value']} of {f['of']}"
        tested = {}
        for f in self.of("goldens", "narrow", results=("pass", "fail")):
            tested.setdefault((f["device"], f["precision"]), []).append(f["result"] == "pass")
        for (device, precision), verdicts in tested.items():
            table[device, "goldens", precision] = f"{sum(verdicts)} of {len(verdicts)}"
        precisions = [p for p in ("fp32", "fp16", "bf16", "int8", "int4", "uint4", "fp8", "fp4") if any(key[2] == p for key in table)]
        if precisions:
            yield "\n| device | | " + " | ".join(precisions) + " |\n|---|---|" + "---|" * len(precisions)
        for device, what in sorted({key[:2] for key in table}):
            yield f"| {device} | {what} | " + " | ".join(table.get((device, what, p), "") for p in precisions) + " |"
        ranks = self.of("ranks", results=("pass", "fail"))
        if ranks:
            through_host = {f["reason"] for f in ranks if f.get("reason") and f["result"] == "pass"}
            yield f"\nModels over two ranks: {sum(f['result'] == 'pass' for f in ranks)} of {len(ranks)} goldens. {' '.join(through_host)}".rstrip()
        checked = self.of("checkers", results=("pass", "fail"))
        if checked:
            yield f"\nMemory and race checkers: {sum(f['result'] == 'pass' for f in checked)} of {len(checked)} runs clean."

    def numbers(self):
        for step, head, most in (("gemm", "Linear layers", "rate"), ("models", "Models", "bandwidth")):
            found = self.of(step, results=("number",))
            if found:
                yield f"\n## {head}\n\n| device | what | libaccel | PyTorch | ratio | of the card's {most} |\n|---|---|---|---|---|---|"
            for f in found:
                torch, ratio, share = f.get("torch"), f.get("ratio"), f.get(f"of_{most}")
                yield (f"| {f['device']} | {f['name']} | {f['value']:,} {f.get('unit', '')} | {'' if torch is None else f'{torch:,.6g}'} | "
                       f"{'' if ratio is None else ratio} | {'' if share is None else f'{100 * share:.0f} %'} |")

    def trouble(self):
        found = [f for f in self.facts if f["result"] in ("fail", "cut off", "not run")]
        if found:
            yield "\n## Failed, cut off, not run\n"
        for f in found:
            words = " ".join(str(f[k]) for k in ("device", "precision", "name") if f.get(k))
            reason = " ".join(str(f.get("reason") or f.get("failed") or "").split())
            yield f"- {f['step']}, {words}: {f['result']}" + (f": {reason[:400]}" if reason else "")


# ---- programs ----

def kill(process):
    """The process and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def watch(process, seconds, lines=None):
    """Reads a process until its end or `seconds`: (exit code or None, output, errors).  `lines` is called with each whole line of output."""
    end, text, rest = time.monotonic() + seconds, {process.stdout: [], process.stderr: []}, ""
    with selectors.DefaultSelector() as selector:
        for stream in text:
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() < end:
            for key, _ in selector.select(min(1, max(0, end - time.monotonic()))):
                data = os.read(key.fileobj.fileno(), 1 << 16).decode(errors="replace")
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                text[key.fileobj].append(data)
                if lines and key.fileobj is process.stdout:
                    *whole, rest = (rest + data).split("\n")
                    for line in whole:
                        lines(line)
        over = bool(selector.get_map())
    kill(process)
    code = process.wait()
    for stream in text:
        stream.close()
    return None if over else code, "".join(text[process.stdout]), "".join(text[process.stderr])


def conformance_counts(out):
    """(passed, failed, left out, names of failed cases); None: it did not come to its end."""
    last = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", out, re.M)
    return (*map(int, last[-1]), re.findall(r"^FAIL (\S+)", out, re.M)[:50]) if last else None


def gemm_rows(out):
    """(precision, rows, GFLOP/s) of gpu_gemm_bench's table."""
    found = re.findall(r"^\| \d+ x \d+ \| (\w+) \| (\d+) \| ([\d.,]+) \|", out, re.M)
    return [(precision, int(rows), float(rate.replace(",", ""))) for precision, rows, rate in found]


# ---- goldens ----

def goldens(models):
    """[model, golden, class or nothing] of tests/fixtures/models/goldens*.list."""
    lines = []
    for path in sorted(glob.glob(os.path.join(models, "goldens*.list"))):
        with open(path, encoding="utf-8") as f:
            lines += [line.split() for line in f if line.strip() and not line.startswith("#")]
    return lines


def one_of_each_class(lines):
    return list({line[2] if len(line) > 2 else line[0]: line for line in reversed(lines)}.values())[::-1]


def verify(day, step, device, precision, lines, end):
    """Each golden's verdict is noted as it comes.  One that ends the process is a failure of its own; the others are still tried."""
    models = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fixtures", "models")
    path, left = os.path.join(day.results.folder, "goldens.list"), list(lines)

    def take(text):
        if text.startswith("{"):
            model, golden, *_ = left.pop(0)
            report = json.loads(text)
            why = report.get("error") or ("" if report.get("pass") else json.dumps(report.get("outputs"))[:300])
            day.note(step, device=device, precision=precision, name=f"{model} {golden}", result="pass" if report.get("pass") else "fail", reason=why or None)

    while left and time.monotonic() < end:
        with open(path, "w", encoding="utf-8") as f:
            for model, golden, *rest in left:
                f.write(" ".join([os.path.join(models, model), os.path.join(models, model, golden), device, precision, *rest]) + "\n")
        code, out, err = day.run([day.tool, "verify", "--list", path, "--json"], end - time.monotonic(), lines=take)
        if code is None or not left:
            break
        model, golden, *_ = left.pop(0)
        day.failed(step, device, f"{model} {golden}, {precision}", code, "", err)
    if left:
        day.note(step, device=device, name=precision, result="cut off", reason=f"{len(left)} of {len(lines)} goldens were not tried in the time there was")


def checkers(plugin, root):
    """(name, what stands before a command, its environment) for a device's plugin; (name, None, why there is none)."""
    from shutil import which
    if plugin == "cuda":
        tool = which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda/bin/compute-sanitizer")), None)
        for check in ("memcheck", "racecheck", "synccheck"):
            yield check, tool and [tool, "--tool", check, "--error-exitcode", "99"], {} if tool else "compute-sanitizer is not installed"
    elif plugin == "vulkan":
        yield "validation layer", [os.path.join(root, "tests", "conformance", "validated.sh")], {}
    elif plugin == "hip-emulated":
        yield "emulator", ["env"], {}  # it checks every access by itself
    else:
        yield "memory", None, f"no checker is known for {plugin}"
