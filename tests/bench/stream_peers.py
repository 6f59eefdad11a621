"""Streaming beside airllm and llama.cpp: seconds a token and peak memory, in turn, of one LLaMA shape of random bf16 weights.

    python3 stream_peers.py BUILD WORK [--peers airllm,llama.cpp] [--python VENV/bin/python] [--rounds 3] [--tokens 6] [--share 0.45]

BUILD has bin/accel and tests/bench/make_checkpoint.  WORK is kept, and used again: the checkpoint (TinyLlama's shape, 2.2 GB), airllm's copy of it by layers,
GGUF files and the cache of packed weights, 7 GB together.  PYTHON: a venv with what the peers need (python3 -m venv; pip install airllm==4.0.0 torch
transformers accelerate; llama-cpp-python gguf); by default this one.

airllm: bf16 on the CPU.  What it took at its peak (VmHWM, Python and torch among it) in the first round is the limit of libaccel in all: --memory is 64 MiB less,
and the process has to stay under it.  int8 and int4 of libaccel are held to the same run of airllm, whose own compression needs CUDA.  airllm finds its files in
the page cache, since the machine has memory for them; libaccel reads around it.

llama.cpp, which maps its file: under `prlimit --as` of the limit, which counts mappings; and without one, for there is no group of processes here that may be given
less memory.  In its place the worker has the kernel take the file's pages (MADV_PAGEOUT) before each token, all but as many bytes as the limit has: what the best
choice of pages could have kept; and all of them, which is what a cache that drops the pages used longest ago keeps of a file that is read from end to end and does
not fit.  Either way the token is one of llama.cpp, with the faults that it has; what the kernel's own search for pages would cost is left out.  The limit is a share
of the weights (--share), the same for both.

Exits 1 when libaccel is less than 5 times (bf16) or 12 times (int4) as fast as airllm, takes more memory, writes a second copy at bf16, or is behind llama.cpp.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIXTURES = os.path.join(ROOT, "tests", "fixtures")
SHAPE = {"hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 4, "num_hidden_layers": 22, "head_dim": 64,
         "vocab_size": 32000, "max_position_embeddings": 2048, "dtype": "bfloat16"}
PROMPT = [5, 6, 7, 100, 2000, 31000]
MIB = 1 << 20
LEAST = {"bf16": 5, "int8": 5, "int4": 12}  # times airllm
GGUF = {"bf16": "BF16", "int4": "Q4_0"}  # what llama.cpp has beside a precision


def peak():
    with open("/proc/self/status", encoding="ascii") as f:
        return 1024 * int(next(line for line in f if line.startswith("VmHWM:")).split()[1])


def cached(path):
    done = subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", path], stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout)


# ---- workers: a process each, one line of JSON ----


def airllm_worker(model, tokens, shards):
    """Seconds between the tokens that a streamer of transformers is given; the first `put` is the prompt."""
    import torch
    from airllm import AutoModel
    torch.set_num_threads(2)
    at = []

    class Times:
        def put(self, value):
            at.append(time.perf_counter())
            ids.extend(value.flatten().tolist())

        def end(self):
            pass

    ids = []
    begin = time.perf_counter()
    found = AutoModel.from_pretrained(model, device="cpu", layer_shards_saving_path=shards)
    load = time.perf_counter() - begin
    found.generate(torch.tensor([PROMPT]), attention_mask=torch.ones(1, len(PROMPT), dtype=torch.long), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False,
                   use_cache=True, streamer=Times())
    return {"load": load, "first": at[1] - at[0], "tokens": [b - a for a, b in zip(at[1:], at[2:])], "ids": ids[len(PROMPT):], "peak": peak()}


def page_out(libc, path, keep):
    """The kernel takes the pages of the mapped file behind so many bytes."""
    import ctypes
    with open("/proc/self/maps", encoding="ascii") as f:
        for line in f:
            fields = line.split()
            if fields[-1] != path:
                continue
            begin, end = (int(part, 16) for part in fields[0].split("-"))
            first = max(begin, begin + keep - int(fields[2], 16)) // 4096 * 4096
            if first < end and libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), 21):
                raise OSError(ctypes.get_errno(), "MADV_PAGEOUT")
    with open(path, "rb") as f:  # pages that were read ahead and are not mapped yet
        os.posix_fadvise(f.fileno(), keep, 0, os.POSIX_FADV_DONTNEED)


def llama_worker(path, tokens, keep):
    """One token after the other through llama.cpp's C interface; the file is mapped, as it is by default.  keep: bytes of the file that stay in memory between two
    tokens; -1: all."""
    import ctypes
    import llama_cpp as lib
    silent = lib.llama_log_callback(lambda level, text, user: None)
    lib.llama_log_set(silent, ctypes.c_void_p(0))
    lib.llama_backend_init()
    begin = time.perf_counter()
    model_params = lib.llama_model_default_params()
    model_params.use_extra_bufts = False  # else Q4_0 is packed anew into memory of its own, as large as the file
    model = lib.llama_model_load_from_file(path.encode(), model_params)
    if not model:
        return {"failed": "the model is not loaded"}
    how = lib.llama_context_default_params()
    how.n_ctx, how.n_batch, how.n_threads, how.n_threads_batch = 256, 64, 2, 2
    context = lib.llama_init_from_model(model, how)
    if not context:
        return {"failed": "no context"}
    load = time.perf_counter() - begin
    libc = ctypes.CDLL(None, use_errno=True)
    seconds, ids, kept, feed = [], [], [], list(PROMPT)
    vocab = SHAPE["vocab_size"]
    for _ in range(tokens):
        array = (lib.llama_token * len(feed))(*feed)
        if keep >= 0:
            page_out(libc, path, keep)
            kept.append(cached(path))
        begin = time.perf_counter()
        if lib.llama_decode(context, lib.llama_batch_get_one(array, len(feed))):
            return {"failed": "llama_decode"}
        logits = lib.llama_get_logits_ith(context, -1)
        row = logits[:vocab]
        seconds.append(time.perf_counter() - begin)
        feed = [max(range(vocab), key=row.__getitem__)]
        ids += feed
    return {"load": load, "first": seconds[0], "tokens": seconds[1:], "ids": ids, "kept": max(kept, default=0), "peak": peak()}


def gguf_worker(model, kind, out):
    """The same weights as a GGUF file, without a vocabulary: tokens are fed as numbers."""
    import gguf
    import numpy as np
    from safetensors import safe_open
    import torch
    c, heads, kv = SHAPE["hidden_size"], SHAPE["num_attention_heads"], SHAPE["num_key_value_heads"]
    with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    writer = gguf.GGUFWriter(out + ".part", "llama")
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(c)
    writer.add_block_count(SHAPE["num_hidden_layers"])
    writer.add_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv)
    writer.add_rope_dimension_count(SHAPE["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(SHAPE["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    inner = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
             "post_attention_layernorm": "ffn_norm"}
    for i in range(SHAPE["num_hidden_layers"]):
        names.update({f"model.layers.{i}.{ours}": f"blk.{i}.{theirs}" for ours, theirs in inner.items()})
    types = gguf.GGMLQuantizationType
    with safe_open(os.path.join(model, "model.safetensors"), "pt") as file:
        for ours, theirs in names.items():
            tensor = file.get_tensor(ours + ".weight")
            if theirs.endswith(("attn_q", "attn_k")):  # halves of a head are pairs there
                n = heads if theirs.endswith("attn_q") else kv
                tensor = tensor.reshape(n, 2, tensor.shape[0] // n // 2, c).swapaxes(1, 2).reshape(tensor.shape)
            if tensor.dim() == 1:
                writer.add_tensor(theirs + ".weight", tensor.float().numpy())
            elif kind == "BF16":
                writer.add_tensor(theirs + ".weight", tensor.contiguous().view(torch.int16).numpy().view(np.uint8), raw_dtype=types.BF16)
            else:
                writer.add_tensor(theirs + ".weight", gguf.quants.quantize(tensor.float().numpy(), types[kind]), raw_dtype=types[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.rename(out + ".part", out)
    return {}


# ---- runs ----


class Run:
    def __init__(self, options):
        self.options = options
        self.model, self.shards, self.cache = (os.path.join(options.work, name) for name in ("model", "airllm", "cache"))
        self.file = os.path.join(self.model, "model.safetensors")
        self.rows, self.good = [], True

    def prepare(self):
        os.makedirs(self.model, exist_ok=True)
        with open(os.path.join(FIXTURES, "models", "llama", "config.json"), encoding="utf-8") as f:
            config = {**json.load(f), **SHAPE}
        with open(os.path.join(self.model, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        if not os.path.exists(self.file):
            subprocess.run([os.path.join(self.options.build, "tests", "bench", "make_checkpoint"), self.model], check=True)
        # airllm opens a tokenizer, which is given none of the text
        shutil.copy(os.path.join(FIXTURES, "tokenizers", "bpe_llama.json"), os.path.join(self.model, "tokenizer.json"))
        with open(os.path.join(self.model, "tokenizer_config.json"), "w", encoding="utf-8") as f:
            json.dump({"tokenizer_class": "PreTrainedTokenizerFast"}, f)

    def worker(self, *arguments, before=()):
        done = subprocess.run([*before, self.options.python, os.path.abspath(__file__), "--worker", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=dict(os.environ, HF_HUB_OFFLINE="1", OMP_NUM_THREADS="2"))
        last = done.stdout.strip().splitlines()[-1:]
        if done.returncode or not last:
            return {"failed": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]}
        return json.loads(last[0])

    def accel(self, precision, memory):
        with tempfile.TemporaryDirectory() as work:
            with open(work + "/ids.json", "w", encoding="utf-8") as f:
                json.dump([PROMPT], f)
            command = ["/usr/bin/time", "-f", "%M", "-o", work + "/peak", os.path.join(self.options.build, "bin", "accel"), "generate", self.model, "--ids",
                       work + "/ids.json", "--device", "cpu", "--precision", precision, "--memory", str(memory // MIB) + "M", "--max-new-tokens",
                       str(self.options.tokens), "--min-new-tokens", str(self.options.tokens), "--cache-dir", self.cache, "--quiet", "--json=" + work + "/run.json"]
            subprocess.run(command, check=True)
            with open(work + "/run.json", encoding="utf-8") as f:
                run = json.load(f)
            with open(work + "/peak", encoding="utf-8") as f:
                most = 1024 * int(f.read())
        streaming = run.get("streaming") or {}
        return {"token": run["decode_ms"] / 1e3 / (run["new_tokens"] - 1), "first": run["prefill_ms"] / 1e3, "peak": most, "ids": run["results"][0]["ids"],
                "read": streaming.get("read_bytes_per_run", 0)}

    def check(self, holds, line):
        self.good &= bool(holds)
        print(line + ("" if holds else "  <- FAILED"), flush=True)

    def in_turn(self, runs):
        """{name: [results]} of runs {name: function}, round by round."""
        found = {name: [] for name in runs}
        for _ in range(self.options.rounds):
            for name, one in runs.items():
                found[name].append(one())
        return found

    # ---- airllm ----

    def airllm(self):
        os.makedirs(self.shards, exist_ok=True)
        first = self.worker("airllm", self.model, self.options.tokens, self.shards)
        if "failed" in first:
            return self.check(False, "airllm: " + first["failed"])
        memory = first["peak"] - 64 * MIB
        for precision in ("int8", "int4"):
            self.accel(precision, memory)  # quantises into the cache
        runs = {precision: lambda precision=precision: self.accel(precision, memory) for precision in LEAST}
        runs["airllm"] = lambda: self.worker("airllm", self.model, self.options.tokens, self.shards)
        found = self.in_turn(runs)
        theirs = statistics.median(statistics.median(r["tokens"]) for r in found["airllm"])
        print(f"airllm, bf16: {theirs:.2f} s a token (rounds {', '.join('%.2f' % statistics.median(r['tokens']) for r in found['airllm'])}), the first "
              f"{statistics.median(r['first'] for r in found['airllm']):.2f} s, peak {first['peak'] / MIB:.0f} MiB, its copy of the checkpoint "
              f"{self.size(self.shards) / 1e9:.2f} GB beside {os.path.getsize(self.file) / 1e9:.2f} GB; {cached(self.file) / 1e9:.2f} GB of the checkpoint in the page cache")
        for precision, least in LEAST.items():
            ours = statistics.median(r["token"] for r in found[precision])
            most = max(r["peak"] for r in found[precision])
            self.check(theirs >= least * ours and most <= first["peak"],
                       f"libaccel, {precision}, --memory {memory // MIB}M: {ours:.4f} s a token (rounds {', '.join('%.4f' % r['token'] for r in found[precision])}), "
                       f"{theirs / ours:.1f} times airllm, peak {most / MIB:.0f} MiB, {found[precision][0]['read'] / 1e6:.0f} MB read a token")
        self.check(not [name for name in os.listdir(self.cache) if "bf16" in name], f"libaccel's cache: {self.size(self.cache) / 1e9:.2f} GB, of int8 and int4")
        return self.compare_tokens("airllm", found["airllm"][0]["ids"], memory)

    def compare_tokens(self, peer, ids, memory):
        """Of random weights the best tokens are close to each other, so at bf16 rounding may decide: those at fp32 are told beside a peer's."""
        same = [a == b for a, b in zip(ids, self.accel("fp32", memory)["ids"])]
        print(f"tokens of libaccel at fp32 that are {peer}'s: {sum(same)} of {len(same)}")

    def size(self, directory):
        return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(directory) for f in files)

    # ---- llama.cpp ----

    def llama(self, precision):
        path = os.path.join(self.options.work, precision + ".gguf")
        if not os.path.exists(path):
            made = self.worker("gguf", self.model, GGUF[precision], path)
            if "failed" in made:
                return self.check(False, "GGUF: " + made["failed"])
        size = os.path.getsize(path)
        memory = int(self.options.share * size) // MIB * MIB
        self.accel(precision, memory)

        def theirs(keep):
            return lambda: self.worker("llama", path, self.options.tokens, keep)

        found = self.in_turn({"all": theirs(-1), "limit": theirs(memory), "none": theirs(0), "ours": lambda: self.accel(precision, memory)})
        failed = [r["failed"] for name in ("all", "limit", "none") for r in found[name] if "failed" in r]
        if failed:
            return self.check(False, "llama.cpp: " + failed[0])
        ours = statistics.median(r["token"] for r in found["ours"])
        token = {name: statistics.median(statistics.median(r["tokens"]) for r in found[name]) for name in ("all", "limit", "none")}
        limited = self.worker("llama", path, 2, -1, before=("prlimit", f"--as={memory + 512 * MIB}"))
        for name, what in (("all", "all of its file in memory"), ("limit", "as much as the limit has"), ("none", "none of it")):
            print(f"llama.cpp, {GGUF[precision]}, {size / 1e9:.2f} GB mapped, {what}: {token[name]:.4f} s a token (rounds "
                  f"{', '.join('%.4f' % statistics.median(r['tokens']) for r in found[name])})" + ("" if name == "all" else f", {max(r['kept'] for r in found[name]) / 1e9:.2f} GB "
                  f"were there; {token[name] / ours:.2f} times libaccel's"))
        print(f"llama.cpp under prlimit --as of the limit and 512 MiB: {limited.get('failed', 'runs')}")
        if precision == "bf16":
            self.compare_tokens("llama.cpp", found["all"][0]["ids"], memory)
        return self.check(ours < token["limit"],
                          f"libaccel, {precision}, --memory {memory // MIB}M: {ours:.4f} s a token (rounds {', '.join('%.4f' % r['token'] for r in found['ours'])}); "
                          f"peak {max(r['peak'] for r in found['ours']) / MIB:.0f} MiB, {found['ours'][0]['read'] / 1e6:.0f} MB read a token")


def main():
    if sys.argv[1:2] == ["--worker"]:
        kind, *rest = sys.argv[2:]
        answer = {"airllm": lambda: airllm_worker(rest[0], int(rest[1]), rest[2]), "llama": lambda: llama_worker(rest[0], int(rest[1]), int(rest[2])),
                  "gguf": lambda: gguf_worker(*rest)}[kind]()
        print("\n" + json.dumps(answer), flush=True)
        os._exit(0)
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("work")
    parser.add_argument("--peers", default="airllm,llama.cpp")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=6)
    parser.add_argument("--precisions", default="bf16,int4", help="beside llama.cpp")
    parser.add_argument("--share", type=float, default=0.45, help="of the GGUF file, which both may keep in memory")
    run = Run(parser.parse_args())
    run.prepare()
    if "airllm" in run.options.peers:
        run.airllm()
    if "llama.cpp" in run.options.peers:
        for precision in run.options.precisions.split(","):
            run.llama(precision)
    sys.exit(not run.good)


if __name__ == "__main__":
    main()
