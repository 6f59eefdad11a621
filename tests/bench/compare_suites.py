"""Does `accel bench --compare A.sqlite B.sqlite` cry wolf, and does it see a change?  Runs a suite of the same build into two databases, turn by turn: twenty
times as it is (A/A), where at most one run of all may name a changed case, and twenty times with each run of B made a tenth longer
(ACCEL_FAIL_AT=run_slow), which must be found, by name and exit code, in nineteen.  Exits 1 when it is not so.

    compare_suites.py [TIMES [ROUNDS]]         ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree
"""
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
ACCEL = os.path.join(os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release")), "bin", "accel")
SUITE = {"schema": "accel.suite/1", "models": [os.path.join(ROOT, "tests", "fixtures", "pipelines", name) for name in ("base", "classify")], "length": 40, "rounds": 1, "warmup": 5,
         "scenarios": [{"scenario": "single-stream", "iters": 200}, {"scenario": "offline", "batch": 16, "iters": 20}]}


def accel(*arguments, **environment):
    return subprocess.run([ACCEL, "bench", *arguments, "--quiet"], capture_output=True, text=True, env={**os.environ, **environment})


def add_round(suite, path, **environment):
    """One round of each cell; the database is made to forget which they were, so that the next call adds another."""
    done = accel("--suite", suite, "--db", path, "--threads", "1", **environment)
    if done.returncode:
        sys.exit(done.stderr)
    file = sqlite3.connect(path)
    file.execute("UPDATE run SET cell = NULL")
    file.commit()
    file.close()


def compare(folder, rounds, **environment):
    """The verdicts that are changes, and the exit code."""
    suite, a, b = (os.path.join(folder, name) for name in ("suite.json", "a.sqlite", "b.sqlite"))
    for path in (a, b):
        if os.path.exists(path):
            os.remove(path)
    with open(suite, "w", encoding="utf-8") as f:
        json.dump(SUITE, f)
    for k in range(rounds):
        for path in (a, b) if k % 2 else (b, a):
            add_round(suite, path, **(environment if path == b else {}))
    done = accel("--compare", a, b, "--json")
    if done.returncode not in (0, 6):
        sys.exit(done.stderr)
    found = json.loads(done.stdout)["changes"]
    changed = [c for c in found if c["verdict"] in ("slower", "faster")]
    print(f"  {len(changed)} of {len(found)} figures changed; ratios {', '.join('%.3f' % c['ratio'] for c in found)}; exit {done.returncode}", flush=True)
    return changed, done.returncode


def main():
    times, rounds = (int(sys.argv[i]) if len(sys.argv) > i else n for i, n in ((1, 20), (2, 12)))
    with tempfile.TemporaryDirectory() as folder:
        print("the same twice:")
        alarms = sum(len(compare(folder, rounds)[0]) for _ in range(times))
        print("B a tenth slower:")
        seen = 0
        for _ in range(times):
            changed, code = compare(folder, rounds, ACCEL_FAIL_AT="run_slow")
            seen += code == 6 and bool(changed) and all(c["verdict"] == "slower" for c in changed)
    print(f"{alarms} changed cases in {times} runs of the same; the slowdown was found in {seen} of {times}")
    return int(alarms > 1 or seen < times - 1)


if __name__ == "__main__":
    sys.exit(main())
