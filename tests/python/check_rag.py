"""Fifty questions about this tree's documents (docs/*.md), with the real all-MiniLM-L6-v2: how many must have the right file among the three best
passages, and cite it, is in CHECKS.  A tiny decoder with random weights answers, made to cite [1] by a regular expression: what it cites is judged.

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
    "How do I transcribe a recording of speech?": "speech.md",
    "How do I see which GPUs can be used, and why one can not?": "detect.md",
    "Which packages can be built, for Debian and as a wheel?": "packages.md",
    "How do I call a model from Python?": "python.md",
    "How can a model run inside a web browser?": "browser.md",
    "How is a golden file compared with the outputs of a model?": "verify.md",
    "How does speculative decoding guess the next tokens?": "generation.md",
    "How do I forecast a time series?": "forecast.md",
    "How do I ask a question about a scanned page?": "documents.md",
    "How are files cut into passages and searched by words and vectors?": "rag.md",
    "What does the term row space mean, and what do others call it?": "glossary.md",
    "What happens in the source code when accel embed is called?": "architecture.md",
    "How do I benchmark many models and compare two databases of results?": "benchmarks.md",
    "Which compute capabilities does the NVIDIA plugin hold code for?": "cuda.md",
    "How do I run a model on an AMD card with HIP?": "rocm.md",
    "Which Vulkan version does a driver need?": "vulkan.md",
    "How do I use Qualcomm's NPU?": "onnxruntime.md",
    "Which version of OpenCL must a device have?": "opencl.md",
    "How do I add a model to those that are known before they are opened?": "registry.md",
    "How do I process many rows on several machines with MPI?": "scale.md",
}
# Written with their files before any answer was looked at, and no setting of the search was chosen by them.
HELD_OUT = {
    "How long may a request's head be, and what protects the server from hostile clients?": "serving.md",
    "Which schema keywords are supported when output is constrained to JSON?": "constrained.md",
    "How are the wheel and the Debian package made?": "packages.md",
    "How can a running voice be turned into words with timestamps?": "speech.md",
    "What is the inpainting mask and how is it drawn?": "images.md",
    "How do I tell the tool to use at most 4 GB?": "streaming.md",
    "Does ROCm need BLAS or any of AMD's libraries to build?": "rocm.md",
    "Where does a plugin look for libcuda?": "cuda.md",
    "How are GPTQ's act order and groups read?": "quantised.md",
    "Which command prints the hardware as JSON?": "detect.md",
    "How do I record what PyTorch gives for my model, to check numbers later?": "verify.md",
    "Which errors are common and what mends them?": "troubleshooting.md",
    "How do I merge a LoRA into the weights when loading?": "adapters.md",
    "What do I do with a freshly cloned repository to see a first model run?": "tutorial.md",
    "How do two GPUs share the layers of one network?": "placement.md",
    "How is the next value of a series of numbers predicted?": "forecast.md",
    "Does the web page need cross-origin isolation headers?": "browser.md",
    "What does the library wgpu-native do?": "webgpu.md",
    "What is tried first on a bare machine with a GPU and no network?": "card.md",
    "What tokens per second does libaccel reach beside llama.cpp?": "performance.md",
}

# questions, how many of them must have the right file among the three, and how many must cite it
CHECKS = ((dict(list(QUESTIONS.items())[:10]), 10, 10), (dict(list(QUESTIONS.items())[10:]), 18, 17), (HELD_OUT, 15, 13))


def ask(index, generator, questions):
    found_by = cited_by = 0
    for question, file in questions.items():
        found = [os.path.basename(p.path) for p in index.search(question, 3)]
        answer = index.answer(question, generator, 3, regex=r"See \[1\]\.", max_new_tokens=32)
        cited = [os.path.basename(answer.sources[n - 1].path) for n in answer.cited]
        found_by += file in found
        cited_by += cited == [file]
        print(f"{'ok' if cited == [file] else 'in the three' if file in found else 'missed'}: {question} -> {', '.join(found)}")
    return found_by, cited_by


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as work:
        generator = accel.Model(chat_model.make(work), device="cpu")
        with accel.rag.Index(os.path.join(work, "docs.sqlite"), MODEL, device="cpu", precision="int8") as index:
            changes = index.add(*sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))))
            print(f"{changes.added} documents, {changes.passages} passages")
            for questions, least_found, least_cited in CHECKS:
                found, cited = ask(index, generator, questions)
                failures += found < least_found or cited < least_cited
                print(f"of {len(questions)} questions {found} find the right file, at least {least_found}; {cited} cite it, at least {least_cited}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
