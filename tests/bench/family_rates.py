#!/usr/bin/env python3
"""Rates of decoders of each family beside a LLaMA of the same size: prompts and single tokens, on the CPU, with random weights.

    family_rates.py [--precisions fp32,int8] [--threads 1,2] [--families NAMES] [--rounds 2] [--seq 128] [--new 17]

All have 4 layers of width 1024, 16 heads of keys and values, 8192 words with a head of their own (tied where a family always ties them) and as many weights in
their feed-forwards: inner 2048 where there is a gate, else 3072.  qwen3_next has three layers of gated DeltaNet in four, and gpt_oss four experts that every
token takes all of.  In each round a LLaMA is timed in front of each family; figures are medians over the rounds of the family's best rate by that LLaMA's.
Prints a table; below 0.95 is marked.  Use a quiet machine.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
ACCEL = os.path.join(os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release")), "bin", "accel")
H, LAYERS, HEADS, GATED, PLAIN, VOCAB, LENGTH = 1024, 4, 16, 2048, 3072, 8192, 2048


def decoder(name, **more):
    return {"architectures": [f"{name}ForCausalLM"], "vocab_size": VOCAB, "hidden_size": H, "intermediate_size": GATED, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS, "head_dim": H // HEADS, "max_position_embeddings": LENGTH, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, **more}


def gpt(name, **more):
    return {"architectures": [f"{name}ForCausalLM"], "vocab_size": VOCAB, "n_positions": LENGTH, "n_embd": H, "n_layer": LAYERS, "n_head": HEADS, "n_inner": PLAIN, "bos_token_id": 1, "eos_token_id": 2,
            "tie_word_embeddings": False, **more}


FAMILIES = {
    "llama": decoder("Llama"),
    "olmo2": decoder("Olmo2"),
    "olmo3": decoder("Olmo3", sliding_window=1024),
    "granite": decoder("Granite", embedding_multiplier=12.0, attention_multiplier=0.015625, residual_multiplier=0.22, logits_scaling=8.0),
    "smollm3": decoder("SmolLM3"),
    "cohere": decoder("Cohere", tie_word_embeddings=True),
    "cohere2": decoder("Cohere2", tie_word_embeddings=True, sliding_window=1024),
    "starcoder2": decoder("Starcoder2", intermediate_size=PLAIN),
    "phi": decoder("Phi", intermediate_size=PLAIN),
    "glm4": decoder("Glm4", partial_rotary_factor=0.5, pad_token_id=0),
    "ministral": decoder("Ministral", sliding_window=1024),
    "gptj": gpt("GPTJ", rotary_dim=64),
    "gpt_neo": {"architectures": ["GPTNeoForCausalLM"], "vocab_size": VOCAB, "hidden_size": H, "num_layers": LAYERS, "num_heads": HEADS, "intermediate_size": PLAIN, "max_position_embeddings": LENGTH,
                "window_size": 256, "attention_types": [[["global", "local"], LAYERS // 2]], "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False},
    "mpt": {"architectures": ["MptForCausalLM"], "vocab_size": VOCAB, "d_model": H, "n_layers": LAYERS, "n_heads": HEADS, "expansion_ratio": PLAIN // H, "max_seq_len": LENGTH},
    "stablelm": decoder("StableLm"),
    "internlm3": decoder("InternLM3"),
    "qwen3_next": decoder("Qwen3Next", linear_num_key_heads=8, linear_num_value_heads=8, linear_key_head_dim=128, linear_value_head_dim=128, mlp_only_layers=list(range(LAYERS))),
    "gpt_oss": decoder("GptOss", intermediate_size=GATED // 4, num_local_experts=4, num_experts_per_tok=4, sliding_window=1024),
}


def rates(directory, precision, threads, seq, new):
    """Tokens a second: of the prompt, and of decoding."""
    done = subprocess.run([ACCEL, "bench", directory, "--task", "generate", "--random-weights", "--device", "cpu", "--precision", precision, "--threads", str(threads), "--seq", str(seq), "--new",
                           str(new), "--iters", "4", "--warmup", "1", "--json", "-", "--quiet"], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{directory}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    return 1e3 * seq / min(found["prefill_samples_ms"]), 1e3 * (new - 1) / min(found["decode_samples_ms"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precisions", default="fp32,int8")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--families", default=",".join(n for n in FAMILIES if n != "llama"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--new", type=int, default=17)
    how = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        for name, config in FAMILIES.items():
            os.mkdir(os.path.join(work, name))
            with open(os.path.join(work, name, "config.json"), "w") as f:
                json.dump({"model_type": name, **config}, f)
        print("| family | precision | threads | prompt, tokens/s | by LLaMA's | decoding, tokens/s | by LLaMA's |\n|---|---|---|---|---|---|---|", flush=True)
        for precision in how.precisions.split(","):
            for threads in how.threads.split(","):
                for family in how.families.split(","):
                    run = lambda name: rates(os.path.join(work, name), precision, threads, how.seq, how.new)
                    pairs = [(run("llama"), run(family)) for _ in range(how.rounds)]
                    cells = []
                    for k in range(2):
                        ratio = statistics.median(mine[k] / llama[k] for llama, mine in pairs)
                        cells += [f"{statistics.median(mine[k] for _, mine in pairs):.0f}", f"{ratio:.2f}{' !' if ratio < 0.95 else ''}"]
                    print(f"| {family} | {precision} | {threads} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
