#!/usr/bin/env python3
"""Makes what transformers generates with tiny encoder-decoders: the directories tests/fixtures/models/generate_* (as save_pretrained writes them,
generation_config.json included), golden.<Class>.<case>.safetensors of mode "generate" in each, and goldens_seq2seq.list, which names them all.

    python3 tests/goldens/make_seq2seq_goldens.py [name ...]      only the named fixtures

Every model has the cases greedy (32 tokens), batch (3 inputs of different lengths, padded at the right) and beam (4 beams, the two best); fields of the
generation configuration are tried on the models that use them in public.  Inputs where two tokens are within 1e-3, or where noise of 1e-4 makes other beams,
are not taken, nor such that do not show what a case is about (an end before the last step, a token that would have come otherwise).
"""
import json
import shutil
import sys

import torch
import transformers as T
from safetensors.torch import save_file

import make_encoder_goldens as common
import make_generate_goldens as decoders

ROOT, MARGIN, NOISE, VOCAB = common.ROOT, decoders.MARGIN, 1e-4, 33
ONE, BATCH = (7,), (9, 4, 6)
BASE = {
    "greedy": (ONE, dict(max_new_tokens=32)),
    "batch": (BATCH, dict(max_new_tokens=16)),
    "beam": (ONE, dict(max_new_tokens=12, num_beams=4, num_return_sequences=2)),
}
T5_CASES = {
    "suppress": (ONE, dict(max_new_tokens=12, suppress_tokens=[5, 6, 7, 8, 9, 10], begin_suppress_tokens=[11, 12, 13, 14, 15, 1])),
    "ngrams": (BATCH, dict(max_new_tokens=20, no_repeat_ngram_size=2, encoder_no_repeat_ngram_size=1)),
    "encoder_ngrams": (BATCH, dict(max_new_tokens=14, num_beams=3, encoder_no_repeat_ngram_size=2, no_repeat_ngram_size=3)),
    "encoder_penalty": (ONE, dict(max_new_tokens=16, encoder_repetition_penalty=3.0, repetition_penalty=1.3)),
    "encoder_penalty_beam": (ONE, dict(max_new_tokens=10, num_beams=3, encoder_repetition_penalty=1.5)),
    "bad_words": (ONE, dict(max_new_tokens=16, bad_words_ids=[[4], [7, 8], [1], [20]])),
    "min_length": (ONE, dict(max_length=18, min_length=9, num_beams=2)),
    "never": (BATCH, dict(max_new_tokens=12, num_beams=3, early_stopping="never", length_penalty=0.3)),
    "early": (BATCH, dict(max_new_tokens=12, num_beams=4, early_stopping=True, length_penalty=0.5, num_return_sequences=4)),
    "late": (BATCH, dict(max_new_tokens=12, num_beams=4, early_stopping=False, length_penalty=-1.0, num_return_sequences=3)),
}

ENDS = {"model", "early", "late"}  # some sequence has to end early


def t5(**more):
    return dict(vocab_size=VOCAB, d_model=20, d_kv=6, d_ff=29, num_layers=2, num_decoder_layers=2, num_heads=3, relative_attention_num_buckets=8,
                relative_attention_max_distance=10, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, **more)


def bart(**more):
    return dict(dict(vocab_size=VOCAB, d_model=18, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=25, decoder_ffn_dim=23, encoder_attention_heads=3,
                     decoder_attention_heads=2, max_position_embeddings=48, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2), **more)


# name: (config, class, generation_config.json beyond the special tokens, cases)
MODELS = {
    "generate_t5": (T.T5Config(**t5()), "T5ForConditionalGeneration", {}, {**BASE, **T5_CASES}),
    "generate_t5_gated": (T.T5Config(**t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)), "T5ForConditionalGeneration", {}, {
        **BASE, "decoder": (BATCH, dict(max_new_tokens=6)), "decoder_start": (ONE, dict(max_new_tokens=8, num_beams=3))}),
    "generate_mt5": (T.MT5Config(**t5(tie_word_embeddings=False)), "MT5ForConditionalGeneration", {}, BASE),
    # as facebook/bart-large-cnn has it: beam search is what the model asks for
    "generate_bart": (T.BartConfig(**bart(forced_eos_token_id=None)), "BartForConditionalGeneration",
                      dict(forced_bos_token_id=0, forced_eos_token_id=2, no_repeat_ngram_size=3, num_beams=4, early_stopping=True, length_penalty=2.0,
                           min_length=6, max_length=20),
                      {"model": (ONE, {}), "batch": (BATCH, {}), "greedy": (ONE, dict(max_new_tokens=32, num_beams=1, forced_eos_token_id=None)),
                       "beam": (ONE, dict(max_new_tokens=12, num_return_sequences=2))}),
    # decoding begins with EOS, and the target language is forced
    "generate_mbart": (T.MBartConfig(**bart(scale_embedding=True)), "MBartForConditionalGeneration", dict(forced_eos_token_id=2, max_length=34), {
        **BASE, "language": (ONE, dict(max_new_tokens=16, forced_bos_token_id=31)), "language_beam": (BATCH, dict(max_new_tokens=9, num_beams=5, forced_bos_token_id=30)),
        "start": (ONE, dict(max_new_tokens=12, decoder_start_token_id=31))}),
    # decoding begins with the padding token, which may not come
    "generate_marian": (T.MarianConfig(**bart(pad_token_id=32, decoder_start_token_id=32, bos_token_id=None, eos_token_id=0, scale_embedding=True, activation_function="swish")),
                        "MarianMTModel", dict(bad_words_ids=[[32]], forced_eos_token_id=0, num_beams=6, max_length=24, renormalize_logits=True),
                        {"model": (ONE, {}), "batch": (BATCH, {}), "greedy": (ONE, dict(max_new_tokens=32, num_beams=1)),
                         "beam": (ONE, dict(max_new_tokens=12, num_beams=4, num_return_sequences=2))}),
    "generate_marian_apart": (T.MarianConfig(**bart(pad_token_id=27, decoder_start_token_id=27, bos_token_id=None, eos_token_id=0, share_encoder_decoder_embeddings=False,
                                                    decoder_vocab_size=28)), "MarianMTModel", dict(bad_words_ids=[[27]]), BASE),
    # as facebook/nllb-200-distilled-600M has it
    "generate_m2m_100": (T.M2M100Config(**bart(scale_embedding=True, activation_function="relu")), "M2M100ForConditionalGeneration", dict(max_length=30), {
        **BASE, "language": (BATCH, dict(max_new_tokens=12, forced_bos_token_id=31, num_beams=4))}),
    "generate_pegasus": (T.PegasusConfig(**bart(pad_token_id=0, decoder_start_token_id=0, eos_token_id=1, activation_function="relu", scale_embedding=True)),
                         "PegasusForConditionalGeneration", dict(forced_eos_token_id=1, length_penalty=0.8, num_beams=8, max_length=20),
                         {"model": (ONE, {}), "batch": (BATCH, {}), "greedy": (ONE, dict(max_new_tokens=32, num_beams=1)),
                          "beam": (ONE, dict(max_new_tokens=12, num_beams=4, num_return_sequences=2))}),
}


def write_model(name):
    config, cls, generation, _ = MODELS[name]
    shutil.rmtree(ROOT / name, ignore_errors=True)
    model = getattr(T, cls)(config)
    common.randomise(model)
    if hasattr(model, "final_logits_bias"):
        common.seed("final_logits_bias")
        model.final_logits_bias.copy_(0.3 * torch.randn_like(model.final_logits_bias))
    with torch.no_grad():  # ends that come before the last step
        model.get_output_embeddings().weight[config.eos_token_id] *= 4
    tokens = {key: getattr(config, key) for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id") if getattr(config, key) is not None}
    model.generation_config = T.GenerationConfig(**{**tokens, **generation})
    model.save_pretrained(ROOT / name)


def make_inputs(model, lengths, attempt, case=""):
    common.seed(f"seq2seq {attempt}")
    ids = torch.randint(3, VOCAB - 6, (len(lengths), max(lengths)))
    mask = torch.ones_like(ids)
    for row, kept in enumerate(lengths):
        mask[row, kept:] = 0
        ids[row, kept:] = model.generation_config.pad_token_id
    inputs = {"input_ids": ids, "attention_mask": mask}
    if case.startswith("decoder"):  # what the decoder begins with; generate puts the start token in front where no row has it
        inputs["decoder_input_ids"] = torch.randint(3, VOCAB - 6, (len(lengths), 3))
    if case == "decoder_start":
        inputs["decoder_input_ids"][:, 0] = model.config.decoder_start_token_id
    return inputs


def clear(model, inputs, how, out, attempt):
    """Does a little noise change nothing?"""
    if out.get("sequences_scores") is None:
        eos = model.generation_config.eos_token_id
        live = [next((k + 1 for k, t in enumerate(row[1:].tolist()) if t == eos), row.shape[0]) for row in out.sequences]
        return decoders.margin_of(out.scores, live) > MARGIN
    for k in range(2):
        generator = torch.Generator().manual_seed(1000 * k + attempt)
        noise = model.get_output_embeddings().register_forward_hook(lambda m, i, o: o + NOISE * torch.randn(o.shape, generator=generator))
        again = model.generate(**inputs, **how, do_sample=False)
        noise.remove()
        if not torch.equal(again, out.sequences):
            return False
    return True


def shows(model, case, how, out, plain):
    """Does the input show what the case is about?"""
    eos = model.generation_config.eos_token_id
    full = 1 + how["max_new_tokens"] if "max_new_tokens" in how else how.get("max_length", model.generation_config.max_length)
    if case in ENDS and out.sequences.shape[1] == full and not (out.sequences[:, 1:-1] == eos).any():
        return False  # no sequence ends early
    return case in ENDS or case.startswith("decoder") or case in decoders.CASES or plain is None or not torch.equal(plain, out.sequences)


def make(name):
    _, cls, _, cases = MODELS[name]
    directory = ROOT / name
    model = getattr(T, cls).from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    lines = []
    for case, (lengths, how) in cases.items():
        lengths_only = {k: v for k, v in how.items() if k in ("max_new_tokens", "max_length", "num_beams", "num_return_sequences")}
        for attempt in range(300):
            inputs = make_inputs(model, lengths, attempt, case)
            with torch.no_grad():
                out = model.generate(**inputs, **how, do_sample=False, return_dict_in_generate=True, output_scores=True)
                plain = model.generate(**inputs, **lengths_only, do_sample=False) if lengths_only != how else None
                if shows(model, case, how, out, plain) and clear(model, inputs, how, out, attempt):
                    break
        else:
            raise SystemExit(f"{name} {case}: no input that is clear")
        tensors = {f"in.{k}": v for k, v in inputs.items()} | {"out.sequences": out.sequences}
        if out.get("sequences_scores") is not None:
            tensors["out.sequences_scores"] = out.sequences_scores
        metadata = {"mode": "generate", "args": json.dumps({k: v for k, v in how.items() if k != "max_new_tokens"})}
        if "max_new_tokens" in how:
            metadata["max_new_tokens"] = str(how["max_new_tokens"])
        file = f"golden.{cls}.{case}.safetensors"
        save_file({k: v.contiguous().clone() for k, v in tensors.items()}, directory / file, metadata=metadata)
        lines.append(f"{name} {file} {cls}")
        print(name, case, attempt, file=sys.stderr)
    return lines


def main(wanted):
    torch.set_num_threads(1)
    T.logging.disable_progress_bar()
    T.logging.set_verbosity_error()
    listing = ROOT / "goldens_seq2seq.list"
    lines = listing.read_text().splitlines() if listing.exists() else []
    for name in wanted or MODELS:
        write_model(name)
        lines = [line for line in lines if line.split()[0] != name] + make(name)
        listing.write_text("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
