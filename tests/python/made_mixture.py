"""Mixtures of experts whose routers can be replayed: they look at 16 elements of the residual stream alone, which no layer writes, so a token's experts follow
from its embedding."""
import json
import os
import random

from made_checkpoint import bf16, random_bf16, write_checkpoint

SEEN = 16  # elements that routers look at
# names of an expert's matrices: two of [inner, hidden], one of [hidden, inner]; the router's; whether heads are normalised
FAMILIES = {"qwen3_moe": ("mlp.experts.{}.gate_proj", "mlp.experts.{}.up_proj", "mlp.experts.{}.down_proj", "mlp.gate", True),
            "mixtral": ("block_sparse_moe.experts.{}.w1", "block_sparse_moe.experts.{}.w3", "block_sparse_moe.experts.{}.w2", "block_sparse_moe.gate", False)}


def choice(router, row, k):
    """The experts of the k highest scores; None: it is a matter of rounding."""
    score = [sum(a * b for a, b in zip(expert, row)) for expert in router]
    order = sorted(range(len(score)), key=lambda e: -score[e])
    return order[:k] if score[order[k - 1]] - score[order[k]] >= 2 else None


def make_tokens(sizes, chance):
    """Routers [layer][expert][SEEN], embeddings' seen elements, and {(layer, token): experts}."""
    k = sizes["num_experts_per_tok"]
    routers = [[[chance.randrange(-60, 61) for _ in range(SEEN)] for _ in range(sizes["num_local_experts"])] for _ in range(sizes["num_hidden_layers"])]
    seen, routed = [], {}
    while len(seen) < sizes["vocab_size"]:  # those that leave no router in doubt
        row = [chance.choice((-1, 1)) for _ in range(SEEN)]
        chosen = [choice(router, row, k) for router in routers]
        if all(chosen):
            routed.update({(layer, len(seen)): experts for layer, experts in enumerate(chosen)})
            seen.append(row)
    return routers, seen, routed


def write_mixture(directory, config, inner):
    """Of a configuration of FAMILIES, whose experts are `inner` wide.  Answers {(layer, token): experts}, and the bytes of an expert."""
    gate_proj, up_proj, down_proj, gate, norms = FAMILIES[config["model_type"]]
    c, vocab, n, head = config["hidden_size"], config["vocab_size"], config["num_local_experts"], config["head_dim"]
    width, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    chance, tensors, given = random.Random(11), {}, {}
    routers, seen, routed = make_tokens(config, chance)

    def unseen(columns):
        """[c, columns] that writes nothing to what routers look at."""
        return bytes(2 * SEEN * columns) + random_bf16((c - SEEN) * columns, chance)

    for layer, router in enumerate(routers):
        at = f"model.layers.{layer}."
        given[f"{at}{gate}.weight"] = bf16(v for row in router for v in [x / 1024 for x in row] + (c - SEEN) * [0])
        tensors.update({f"{at}{gate}.weight": [n, c], at + "self_attn.q_proj.weight": [width, c], at + "self_attn.k_proj.weight": [kv, c],
                        at + "self_attn.v_proj.weight": [kv, c], at + "self_attn.o_proj.weight": [c, width]})
        given[at + "self_attn.o_proj.weight"] = lambda: unseen(width)
        for name, size in [("input_layernorm", c), ("post_attention_layernorm", c)] + norms * [("self_attn.q_norm", head), ("self_attn.k_norm", head)]:
            tensors[f"{at}{name}.weight"] = [size]
            given[f"{at}{name}.weight"] = bf16(size * [1])
        for e in range(n):
            tensors.update({f"{at}{name.format(e)}.weight": [inner, c] for name in (gate_proj, up_proj)})
            tensors[f"{at}{down_proj.format(e)}.weight"] = [c, inner]
            given[f"{at}{down_proj.format(e)}.weight"] = lambda: unseen(inner)
    tensors.update({"model.embed_tokens.weight": [vocab, c], "model.norm.weight": [c], "lm_head.weight": [vocab, c]})
    given["model.norm.weight"] = bf16(c * [1])
    given["model.embed_tokens.weight"] = lambda: b"".join(bf16(v / 32 for v in row) + random_bf16(c - SEEN, chance) for row in seen)
    given["lm_head.weight"] = lambda: b"".join(bytes(2 * SEEN) + random_bf16(c - SEEN, chance) for _ in range(vocab))
    write_checkpoint(directory, config, tensors, chance, given)
    return routed, 3 * 2 * c * inner


def family(models, name):
    """The configuration of a fixture."""
    with open(os.path.join(models, name, "config.json"), encoding="utf-8") as f:
        return json.load(f)


def replay(routed, slots, steps, rows=1024):
    """(found, read) of an LRU cache: steps are the tokens of each run, of which a pass takes so many rows.  Of a pass those that are there are used first."""
    layers = 1 + max(layer for layer, _ in routed)
    used, found, read = {}, 0, 0  # used: in order of last use
    for layer, tokens in ((layer, step[at:at + rows]) for step in steps for layer in range(layers) for at in range(0, len(step), rows)):
        chosen = sorted({(layer, e) for token in tokens for e in routed[layer, token]})
        there = [e for e in chosen if e in used]
        missing = [e for e in chosen if e not in used]
        for e in there + missing:
            if e not in used and len(used) == slots:
                used.pop(next(iter(used)))
            used.pop(e, None)
            used[e] = True
        found += len(there)
        read += len(missing)
    return found, read


def steps_of(prompts, answers):
    """The tokens of each run of a generation: answers are lists of ids."""
    yield [token for p in prompts for token in p]
    for i in range(len(answers[0]) - 1):
        yield [ids[i] for ids in answers]


def expected_hits(sizes, slots, rows=700, cold=100):
    """The share of experts that an LRU cache holds of rows, one after the other, whose routers choose all alike: a simulation, behind the first rows."""
    chance, layers = random.Random(7), range(sizes["num_hidden_layers"])
    alike = {(layer, row): chance.sample(range(sizes["num_local_experts"]), sizes["num_experts_per_tok"]) for row in range(rows) for layer in layers}
    (found_before, read_before), (found, read) = (replay(alike, slots, [[row] for row in range(n)]) for n in (cold, rows))
    return (found - found_before) / (found - found_before + read - read_before)
