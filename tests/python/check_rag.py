"""Ten questions about this tree's documents (docs/*.md), with the real all-MiniLM-L6-v2: the right file must be among the three best passages
of each, and the best one of at least seven.  A tiny decoder with random weights answers, made to cite [1] by a regular expression: what it cites is judged.

Run by scripts/test-minilm (the model must be in the cache).  ACCEL_BUILD: the build tree, default build/release.
"""
import glob
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
os.environ["ACCEL_LIBRARY"] = os.path.join(BUILD, "lib", "libaccel.so.0")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
import accel  # noqa: E402
import chat_model  # noqa: E402

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
QUESTIONS = {
    "How do I run a model that is larger than memory?": "streaming.md",
    "How can generated text be forced to follow a JSON schema?": "constrained.md",
    "How is the HTTP server started and which routes does it have?": "serving.md",
    "How are LoRA adapters loaded?": "adapters.md",
    "How do I write a new backend plugin?": "adding.md",
    "Which quantised checkpoints can be read, such as GPTQ and AWQ?": "quantised.md",
    "How do I generate a picture from a prompt?": "images.md",
    "How do I find the cheapest precision that keeps the accuracy?": "tuning.md",
    "How are several models kept under one memory budget?": "pool.md",
    "How can one model be split over two devices?": "placement.md",
}


def main():
    first = failures = 0
    with tempfile.TemporaryDirectory() as work:
        generator = accel.Model(chat_model.make(work), device="cpu")
        with accel.rag.Index(os.path.join(work, "docs.sqlite"), MODEL, device="cpu", precision="int8") as index:
            changes = index.add(*sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))))
            print(f"{changes.added} documents, {changes.passages} passages")
            for question, file in QUESTIONS.items():
                found = [os.path.basename(p.path) for p in index.search(question, 3)]
                answer = index.answer(question, generator, 3, regex=r"See \[1\]\.", max_new_tokens=32)
                cited = [os.path.basename(answer.sources[n - 1].path) for n in answer.cited]
                first += cited == [file]
                if file not in found:
                    failures += 1
                print(f"{'ok' if cited == [file] else 'in the three' if file in found else 'FAILED'}: {question} -> {', '.join(found)}")
    print(f"{first} of {len(QUESTIONS)} cite the right file")
    return 1 if failures or first < 7 else 0


if __name__ == "__main__":
    sys.exit(main())
