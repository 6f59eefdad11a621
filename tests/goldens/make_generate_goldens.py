#!/usr/bin/env python3
"""Makes what transformers generates with the language models of tests/fixtures/models: golden.<Class>.<case>.safetensors of mode "generate", beside the
forward goldens of the same directories, and goldens_generate.list, which names them all.

    python3 tests/goldens/make_generate_goldens.py [name ...]      only the named fixtures ("logits": the processors)

Cases: greedy (32 tokens), batch (3 prompts, padded at the left - encoder-decoders: at the right), beam (4 beams, with sequences_scores), pads (of WITH_PADS).  Where two
tokens, or two beams, are within 1e-3 of each other, rounding could decide; such prompts are not taken.
"""
import json
import re
import sys

import torch
import transformers
from safetensors.torch import save_file

import make_encoder_goldens as common

ROOT = common.ROOT
MARGIN = 1e-3
GENERATES = re.compile(r"(ForCausalLM|LMHeadModel|ForConditionalGeneration)$")
CASES = {"greedy": dict(max_new_tokens=32), "batch": dict(max_new_tokens=16), "beam": dict(max_new_tokens=12, num_beams=4, num_return_sequences=2),
         "pads": dict(max_new_tokens=27, no_repeat_ngram_size=1)}
PAD = 0
ATTENTION = {"falcon_alibi": "sdpa"}  # eager adds ALiBi twice in transformers 5.23
EXPERTS = {cls: {"experts_implementation": "eager"} for cls in ("MixtralForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM", "GraniteMoeForCausalLM",
                                                                        "GptOssForCausalLM")}  # others want rows of 16 bytes


def fixtures():
    """(directory, class) of every model that generates text."""
    seen = []
    for line in (ROOT / "goldens.list").read_text().splitlines():
        name, _, *cls = line.split()
        if cls and name not in LEFT_OUT + ALIKE and GENERATES.search(cls[0]) and (name, cls[0]) not in seen:
            seen.append((name, cls[0]))
    return seen


# A step of one token leaves time_step_limit out in transformers 5.23 (selective_state_update), a prompt does not: what comes of it would depend on how it is fed.
LEFT_OUT = ("mamba2_limits",)
# Whose steps differ from those of another fixture in nothing that a state or a position has to do with.
ALIKE = ("olmo3_old", "granite_plain", "smollm3_sliding", "cohere_plus", "cohere2_old", "glm4_whole", "ministral3_silent", "stablelm_parallel", "starcoder2_plain",
         "phi_norms", "gptj_tied", "gpt_neo_local", "mpt_clip", "internlm3", "gpt_oss_silent", "gpt_oss_mxfp4",
         "granitemoeshared", "qwen3_5_moe", "qwen3_5_text")
# Rotations that follow the longest of a padded batch: there a row depends on its company, here it never does.
ALONE = ("llama_rope_dynamic", "llama_rope_longrope", "phi3_long")
LENGTHS = {"greedy": (7,), "batch": (9, 4, 6), "beam": (7,), "pads": (1, 2)}
WITH_PADS = ("m2m_100",)  # the padding token generated, too: it has a place of its own
TRIED = 24  # prompts at once


def clear_prompt(model, case, length):
    """The first of many prompts whose likeliest tokens are never within MARGIN of the next ones."""
    text = model.config.get_text_config()
    for attempt in range(40):
        common.seed(f"{case} {length} {attempt}")
        ids = torch.randint(3, min(text.vocab_size, 60), (TRIED, length))
        with torch.no_grad():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), **CASES[case], do_sample=False, return_dict_in_generate=True, output_scores=True)
        two = torch.stack([s.float().topk(2, dim=-1).values for s in out.scores])  # [steps, TRIED, 2]
        live = lives(model, out.sequences, 1 if model.config.is_encoder_decoder else length)
        for row in range(TRIED):
            if (two[:live[row], row, 0] - two[:live[row], row, 1]).min() > MARGIN:
                return ids[row]
    raise SystemExit(f"{case}: no prompt of {length} whose tokens are clear")


def make_inputs(model, case, attempt):
    if case == "beam":
        common.seed(f"{case} {attempt}")
        text = model.config.get_text_config()
        rows = [torch.randint(3, min(text.vocab_size, 60), (LENGTHS[case][0],))]
    else:
        rows = [clear_prompt(model, case, length) for length in LENGTHS[case]]
    longest = max(LENGTHS[case])
    ids, mask = torch.full((len(rows), longest), PAD), torch.zeros((len(rows), longest), dtype=torch.long)
    for row, prompt in enumerate(rows):
        place = slice(0, len(prompt)) if model.config.is_encoder_decoder else slice(longest - len(prompt), longest)
        ids[row, place], mask[row, place] = prompt, 1
    return {"input_ids": ids, "attention_mask": mask}


def lives(model, sequences, start):
    """Steps of each row up to its end-of-sequence token."""
    eos = model.generation_config.eos_token_id
    eos = {eos} if isinstance(eos, int) else set(eos or [])
    return [next((k + 1 for k, t in enumerate(row[start:].tolist()) if t in eos), row.shape[0] - start) for row in sequences]


def margin_of(scores, live):
    """The least distance of the two best scores over the steps of rows that still run."""
    least = float("inf")
    for step, s in enumerate(scores):
        two = s.float().topk(2, dim=-1).values
        for row in range(s.shape[0]):
            if live[row] > step:
                least = min(least, (two[row, 0] - two[row, 1]).item())
    return least


def generate(model, case, attempt):
    inputs, how = make_inputs(model, case, attempt), CASES[case]
    with torch.no_grad():
        out = model.generate(**inputs, **how, do_sample=False, return_dict_in_generate=True, output_scores=True)
    start = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
    if case == "beam":  # the same search with a little noise must find the same
        head = model.get_output_embeddings()
        noise = head.register_forward_hook(lambda m, i, o: o + MARGIN * torch.randn(o.shape, generator=torch.Generator().manual_seed(attempt)))
        with torch.no_grad():
            again = model.generate(**inputs, **how, do_sample=False)
        noise.remove()
        return inputs, out, torch.equal(again, out.sequences)
    live = lives(model, out.sequences, start)
    return inputs, out, margin_of(out.scores, live) > MARGIN


def make(name, cls):
    directory = ROOT / name
    model = getattr(transformers, cls).from_pretrained(directory, dtype=torch.float32, attn_implementation=ATTENTION.get(name, "eager"), **EXPERTS.get(cls, {})).eval()
    if model.generation_config.pad_token_id is None:
        model.generation_config.pad_token_id = PAD
    lines = []
    for case, how in CASES.items():
        if (case == "batch" and name.startswith(ALONE)) or (case == "pads" and name not in WITH_PADS):
            continue
        for attempt in range(400):
            inputs, out, clear = generate(model, case, attempt)
            if clear and (case != "pads" or (out.sequences[:, 2:-9] == model.generation_config.pad_token_id).any()):
                break
        else:
            raise SystemExit(f"{name} {cls} {case}: no prompt whose tokens are clear")
        tensors = {f"in.{k}": v for k, v in inputs.items()} | {"out.sequences": out.sequences}
        if case == "beam":
            tensors["out.sequences_scores"] = out.sequences_scores
        args = dict(how) | {"pad_token_id": model.generation_config.pad_token_id}
        file = f"golden.{cls}.{case}.safetensors"
        save_file({k: v.contiguous().clone() for k, v in tensors.items()}, directory / file,
                  metadata={"mode": "generate", "max_new_tokens": str(args.pop("max_new_tokens")), "args": json.dumps(args)})
        lines.append(f"{name} {file} {cls}")
    return lines


# ---- processors and warpers on fixed scores ----

LOGITS = ROOT.parent / "tasks" / "logits.safetensors"
PROMPT, VOCAB, MAX_LENGTH = 6, 97, 13
PROCESSORS = [
    dict(repetition_penalty=1.7), dict(repetition_penalty=0.6), dict(encoder_repetition_penalty=1.8), dict(no_repeat_ngram_size=1),
    dict(no_repeat_ngram_size=2), dict(no_repeat_ngram_size=3), dict(encoder_no_repeat_ngram_size=2), dict(bad_words_ids=[[5], [9, 4], [7, 8, 9], [2]]),
    dict(sequence_bias=[[[3], 2.5], [[9, 4], -3.0], [[8, 9, 50], 1.5]]), dict(min_length=20), dict(min_new_tokens=8), dict(min_new_tokens=5),
    dict(forced_eos_token_id=[2, 11]), dict(suppress_tokens=[1, 2, 3]), dict(begin_suppress_tokens=[60, 61]),
    dict(exponential_decay_length_penalty=[2, 1.5]), dict(remove_invalid_values=True, suppress_tokens=[4]), dict(renormalize_logits=True),
]
WARPERS = [
    dict(temperature=0.7), dict(temperature=3.0), dict(top_k=5), dict(top_k=1), dict(top_k=500), dict(top_p=0.9), dict(top_p=0.1), dict(top_p=0.999),
    dict(min_p=0.05), dict(min_p=0.9), dict(typical_p=0.8), dict(typical_p=0.2), dict(typical_p=0.99), dict(epsilon_cutoff=0.01),
    dict(epsilon_cutoff=0.9), dict(eta_cutoff=0.02), dict(top_h=0.4), dict(top_h=1.0), dict(top_k=20, top_p=0.8, min_p=0.02, temperature=1.3),
    dict(top_p=0.2, num_beams=2), dict(top_k=1, num_beams=3), dict(min_p=1.0, num_beams=2), dict(typical_p=0.05, num_beams=4),
    dict(epsilon_cutoff=0.9, num_beams=2), dict(eta_cutoff=0.9, num_beams=2),
    dict(repetition_penalty=1.4, no_repeat_ngram_size=2, suppress_tokens=[40], temperature=0.8, top_k=30, top_p=0.95, renormalize_logits=True),
]


def processors(config):
    """What generate() makes of the configuration."""
    full = transformers.GenerationConfig(**transformers.GenerationConfig._get_default_generation_params(), eos_token_id=[2, 11])
    full.update(**{"top_k": 0, **config}, max_length=MAX_LENGTH)
    full._eos_token_tensor = torch.tensor([2, 11])
    shell = type("Shell", (transformers.GenerationMixin,), {"config": transformers.PretrainedConfig(is_encoder_decoder=False)})()
    prompt = torch.tensor([IDS[:PROMPT]])
    return shell._get_logits_processor(full, input_ids_seq_length=PROMPT, encoder_input_ids=prompt, device="cpu", model_kwargs={})


IDS = [7, 8, 9, 4, 5, 9, 60, 12, 7, 8, 3, 9]  # prompt, then generated tokens


def make_logits():
    common.seed("logits")
    scores = 2.5 * torch.randn(1, VOCAB)
    cases = [dict(do_sample=False, **c) for c in PROCESSORS] + [dict(do_sample=True, **c) for c in WARPERS]
    tensors = {"ids": torch.tensor(IDS), "scores": scores}
    for i, case in enumerate(cases):
        tensors[f"out.{i}"] = processors(case)(torch.tensor([IDS]), scores.clone())
    meta = {"cases": json.dumps([{"top_k": 0, "eos_token_id": [2, 11], **c} for c in cases]), "prompt": str(PROMPT), "max_length": str(MAX_LENGTH)}
    save_file({k: v.contiguous() for k, v in tensors.items()}, LOGITS, metadata=meta)


# ---- a model with a tokenizer, for the tool and the package ----

TEXT = ROOT.parent / "pipelines" / "text"
TEXTS = ["Once upon a time", "The cat sat on", "Zwölf Boxkämpfer \U0001F98A"]


def make_text():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    TEXT.mkdir(parents=True, exist_ok=True)
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    corpus = [" ".join(TEXTS), "once upon a time the cat sat on the mat", "the other time the other cat was there"]
    tok.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok.save(str(TEXT / "tokenizer.json"))
    (TEXT / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast"}))
    config = transformers.LlamaConfig(vocab_size=tok.get_vocab_size(), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                      intermediate_size=48, max_position_embeddings=128, bos_token_id=0, eos_token_id=1, architectures=["LlamaForCausalLM"])
    model = transformers.LlamaForCausalLM(config)
    common.randomise(model)
    model.generation_config = transformers.GenerationConfig(bos_token_id=0, eos_token_id=1, repetition_penalty=1.2, max_new_tokens=24)
    model.save_pretrained(TEXT)
    pipe = transformers.pipeline("text-generation", model=str(TEXT), dtype=torch.float32)
    results = []
    for how in (dict(), dict(max_new_tokens=12), dict(num_beams=3, max_new_tokens=10), dict(no_repeat_ngram_size=1, max_new_tokens=40)):
        found = [pipe(text, return_full_text=False, do_sample=False, temperature=None, **how)[0]["generated_text"] for text in TEXTS]
        results.append({"options": how, "texts": found})
    (TEXT / "expected.json").write_text(json.dumps({"prompts": TEXTS, "results": results}, indent=1) + "\n")


def main(wanted):
    if not wanted or "logits" in wanted:
        make_logits()
    if not wanted or "text" in wanted:
        make_text()
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    listing = ROOT / "goldens_generate.list"
    lines = listing.read_text().splitlines() if listing.exists() else []
    for name, cls in fixtures():
        if not wanted or name in wanted:
            lines = [l for l in lines if l.split()[::2] != [name, cls]] + make(name, cls)
            listing.write_text("\n".join(sorted(lines)) + "\n")
            print(name, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
