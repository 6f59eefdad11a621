#!/usr/bin/env python3
"""Rates of decoders of each family beside a LLaMA with as many weights: prompts and single tokens, on the CPU, with random weights.

    family_rates.py [--precisions int8,bf16] [--threads 2] [--families NAMES] [--rounds 20] [--seq 128] [--new 17]

All have 4 layers of width 1024, 16 heads of keys and values, 8192 words with a head of their own (tied where a family always ties them) and as many weights in
their feed-forwards: inner 2048 where there is a gate, else 3072.  qwen3_next has three layers of gated DeltaNet in four, and gpt_oss two experts as wide as the
model, as its own are, of which every token takes both; gpt_oss-4 has four of half that width.  In each round a LLaMA and the family run in turn in one process
(rates_bench.c); figures are means of the fastest quarter of the rounds.  The family llama shows what the method is worth.  Prints a table; below 0.95 is marked.
Use a quiet machine; ACCEL_ISA chooses the instruction set.
"""
import argparse
import json
import os
import subprocess
import tempfile

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
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
    "gpt_oss": decoder("GptOss", intermediate_size=GATED // 2, num_local_experts=2, num_experts_per_tok=2, sliding_window=1024),
    "gpt_oss-4": decoder("GptOss", intermediate_size=GATED // 4, num_local_experts=4, num_experts_per_tok=4, sliding_window=1024),
}


# Feed-forwards of the LLaMA that has as many weights in a layer, where the family's class leaves no choice: MPT's is 4 times as wide as the model; Qwen3-Next's layers
# have one square matrix more (z of DeltaNet, the gate of attention).
INNER = {"mpt": 8 * H // 3, "qwen3_next": GATED + H // 3}


def write(work, name, config):
    directory = os.path.join(work, name)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "config.json"), "w") as f:
        json.dump({"model_type": name.split("-")[0], **config}, f)
    return directory


def rates(pairs, precision, threads, how):
    """What rates_bench tells of each pair of directories."""
    program = os.path.join(BUILD, "tests", "bench", "rates_bench")
    done = subprocess.run([program, precision, str(threads), str(how.seq), str(how.new), str(how.rounds), *(d for pair in pairs for d in pair)], capture_output=True, text=True,
                          env={"ACCEL_PLUGIN_PATH": os.path.join(BUILD, "lib", "accel", "0"), **os.environ})
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precisions", default="int8,bf16")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--new", type=int, default=17)
    how = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        pairs = []
        for name in how.families.split(","):
            inner = INNER.get(name, GATED) // 32 * 32
            pairs.append((write(work, f"llama-{inner}", {**FAMILIES["llama"], "intermediate_size": inner}), write(work, name, FAMILIES[name])))
        print("| family | precision | threads | prompt, tokens/s | by LLaMA's | decoding, tokens/s | by LLaMA's |\n|---|---|---|---|---|---|---|", flush=True)
        for precision in how.precisions.split(","):
            for threads in how.threads.split(","):
                for found in rates(pairs, precision, threads, how):
                    cells = [os.path.basename(found["model"]), precision, threads]
                    for what in ("prompt", "decode"):
                        ratio = found[f"{what}_ratio"]
                        cells += [f"{found[what]:.0f}", f"{ratio:.2f}{' !' if ratio < 0.95 else ''}"]
                    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
