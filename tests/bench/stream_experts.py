"""A mixture of Mixtral's shape, 1.4 GB in bf16 (8 layers, 8 experts of which 2 are chosen), with less memory than its experts take: tokens, hits, misses and bytes
against a replay of the routers' choices.

    python3 stream_experts.py BUILD [WORK] [--precisions bf16,int8,int4] [--shares 0,0.15,0.3,0.7]

WORK keeps the checkpoint.  For each precision and so much memory more than the least (shares of what all experts take; 0 is one slot, less than what one token is
routed to): the tokens are those of the model in memory; hits,
misses and bytes of a prompt, of eight prompts together, and of 71 random tokens are those of an LRU cache, exactly.  Of the random tokens behind the first 24 the
share of hits is, within 5 points, that of an LRU cache under routers that choose all experts alike.  Exits 1 where one is not.
"""
import argparse
import os
import random
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "src", "bindings", "python"), os.path.join(ROOT, "tests", "python")]
from made_mixture import expected_hits, family, replay, steps_of, write_mixture  # noqa: E402

SIZES = {"hidden_size": 1024, "intermediate_size": 3584, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 64, "num_hidden_layers": 8, "vocab_size": 2000,
         "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 1024, "dtype": "bfloat16"}
EXPERTS = SIZES["num_hidden_layers"] * SIZES["num_local_experts"]
PROMPTS = [[[5, 6, 7, 100, 1999]], [[3 + i, 50 + 7 * i, 1900 - i] for i in range(8)]]
GREEDY = {"max_new_tokens": 8, "do_sample": False, "ignore_eos": True}


def generate(model):
    return [[g.ids for g in model.generate(prompts, **GREEDY)] for prompts in PROMPTS]


def open_streamed(accel, directory, context, precision, budget):
    os.environ["ACCEL_STREAM_WEIGHTS"] = str(budget)
    try:
        return accel.Model(directory, device="cpu", precision=precision, context=context)
    finally:
        del os.environ["ACCEL_STREAM_WEIGHTS"]


def feed_random(model):
    """Random tokens, one after the other: those that ran (a session keeps the newest back), what was found and read of them, and of those behind the first third."""
    chance = random.Random(5)
    tokens = [chance.randrange(SIZES["vocab_size"]) for _ in range(72)]
    seen = [model.streaming]
    with model.session() as session:
        for part in (tokens[:24], tokens[24:]):
            for token in part:
                session.feed([token])
            seen.append(model.streaming)
    counts = [(s["expert_hits"], s["expert_misses"]) for s in seen]
    return tokens[:seen[2]["runs"] - seen[0]["runs"]], subtract(counts[2], counts[0]), subtract(counts[2], counts[1])


def subtract(a, b):
    return tuple(x - y for x, y in zip(a, b))


def check(model, routed, slots, want):
    """What is wrong, a list; and the share of hits of random tokens."""
    wrong = []
    if generate(model) != want:
        wrong.append("other tokens")
    steps = [step for prompts, answers in zip(PROMPTS, want) for step in steps_of(prompts, answers)]
    now, expected = model.streaming, replay(routed, slots, steps)
    if (now["expert_hits"], now["expert_misses"]) != expected:
        wrong.append(f"hits and misses {now['expert_hits']}, {now['expert_misses']}, of the replay {expected}")
    if now["expert_bytes"] % now["expert_misses"]:
        wrong.append("bytes that are no experts")
    tokens, found, warm = feed_random(model)
    all_ = subtract(replay(routed, slots, steps + [[token] for token in tokens]), expected)
    if len(tokens) < 71 or found != all_:
        wrong.append(f"random tokens: hits and misses {found}, of the replay {all_}")
    return wrong, warm[0] / sum(warm)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("work", nargs="?")
    parser.add_argument("--precisions", default="bf16,int8,int4")
    parser.add_argument("--shares", default="0,0.15,0.3,0.7")
    options = parser.parse_args()
    os.environ["ACCEL_LIBRARY"] = os.path.join(options.build, "lib", "libaccel.so.0")
    import accel
    temporary, good = tempfile.TemporaryDirectory(), True
    directory = options.work or temporary.name
    os.makedirs(directory, exist_ok=True)
    routed, stored = write_mixture(directory, {**family(os.path.join(ROOT, "tests", "fixtures", "models"), "mixtral"), **SIZES}, SIZES["intermediate_size"])
    print(f"{os.path.getsize(os.path.join(directory, 'model.safetensors')) / 1e9:.2f} GB, an expert {stored / 1e6:.1f} MB", flush=True)
    for precision in options.precisions.split(","):
        with accel.Context(threads=2, no_cache=True) as context:
            want = generate(accel.Model(directory, device="cpu", precision=precision, context=context))
        with accel.Context(threads=2, cache_directory=os.path.join(temporary.name, "cache")) as context:
            least = open_streamed(accel, directory, context, precision, 1).streaming
            one = least["expert_memory"]  # there is always one slot
            for share in map(float, options.shares.split(",")):
                begin = time.monotonic()
                model = open_streamed(accel, directory, context, precision, 1 + int(share * EXPERTS * one))
                got = model.streaming["expert_memory"] // one
                wrong, hits = check(model, routed, got, want)
                now = model.streaming
                if abs(hits - expected_hits(SIZES, got)) > 0.05:
                    wrong.append("hits that were not expected")
                if precision == "bf16" and now["expert_bytes"] != now["expert_misses"] * stored:
                    wrong.append("bytes of an expert that are not the file's")
                good &= not wrong
                print(f"{precision}, {got} of {EXPERTS} experts in memory ({now['resident'] / 1e6:.0f} MB resident): {now['expert_hits']} hits, {now['expert_misses']} misses, "
                      f"{now['expert_bytes'] / 1e9:.2f} GB of experts read in {time.monotonic() - begin:.1f} s; of random tokens {100 * hits:.1f} % hits, "
                      f"expected {100 * expected_hits(SIZES, got):.1f} % (slots are {100 * got / EXPERTS:.1f} %); {'; '.join(wrong) or 'all as replayed'}", flush=True)
                model.close()
    temporary.cleanup()
    sys.exit(not good)


if __name__ == "__main__":
    main()
