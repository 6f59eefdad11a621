#!/usr/bin/env python3
"""Makes the fixtures of models that hear: tiny random models of waveforms and spectrograms (tiny_models.py says how), listed in goldens_audio.list.

    python3 tests/goldens/make_audio_model_goldens.py [name prefix ...]      only the fixtures named so
"""
import json
import sys

import tiny_models
import torch
import transformers as T
from tiny_models import seed

HIDDEN = {"output_hidden_states": True}


def case(cls, name, inputs, **more):
    return {"cls": cls, "case": name, "inputs": inputs, **more}


# ---- AST ----

def ast_fixtures():
    base = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=37, patch_size=4, num_labels=5)
    seed("ast")
    sound = {"input_values": torch.randn(3, 23, 14)}
    yield "ast", dict(config=T.ASTConfig(**base, max_length=23, num_mel_bins=14, frequency_stride=3, time_stride=2),
                      cases=[case("ASTModel", "batch", sound, args=HIDDEN), case("ASTForAudioClassification", "batch", sound)])
    odd = T.ASTConfig(**base, max_length=23, num_mel_bins=14, qkv_bias=False, hidden_act="relu", layer_norm_eps=1e-4)
    yield "ast_fp16", dict(config=odd, cases=[case("ASTForAudioClassification", "batch", sound)], dtype=torch.float16)
    yield "ast_new_names", dict(config=odd, cases=[case("ASTForAudioClassification", "batch", sound)], hub=False)


# ---- Wav2Vec2, HuBERT ----

WAVE = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=37, conv_dim=[10, 8, 6], conv_kernel=[7, 3, 2], conv_stride=[4, 2, 2],
            num_conv_pos_embeddings=6, num_conv_pos_embedding_groups=3, vocab_size=13, num_labels=5, classifier_proj_size=9)
SPOKEN = {**WAVE, "conv_dim": [6] * 7, "conv_kernel": [10, 3, 3, 3, 3, 2, 2], "conv_stride": [5, 2, 2, 2, 2, 2, 2]}


def waves(name, batch, length, lengths=None):
    seed(name)
    inputs = {"input_values": torch.randn(batch, length)}
    if lengths is not None:
        mask = torch.zeros(batch, length, dtype=torch.long)
        for row, n in enumerate(lengths):
            mask[row, :n] = 1
            inputs["input_values"][row, n:] = 0
        inputs["attention_mask"] = mask
    return inputs


def wave_fixtures():
    plain, masked = waves("w", 2, 211), waves("m", 3, 190, (190, 77, 133))
    for stem, name in (("Wav2Vec2", "wav2vec2"), ("Hubert", "hubert")):
        make = getattr(T, f"{stem}Config")
        cases = [case(f"{stem}Model", "masked", masked, args=HIDDEN), case(f"{stem}Model", "plain", plain), case(f"{stem}ForCTC", "masked", masked),
                 case(f"{stem}ForSequenceClassification", "masked", masked), case(f"{stem}ForSequenceClassification", "plain", plain)]
        yield name, dict(config=make(**WAVE), cases=cases)
        stable = {**WAVE, "do_stable_layer_norm": True, "feat_extract_norm": "layer", "conv_bias": True, "num_conv_pos_embeddings": 5, "hidden_act": "relu",
                  "feat_extract_activation": "gelu_new", "layer_norm_eps": 1e-4, "use_weighted_layer_sum": True}
        yield f"{name}_stable", dict(config=make(**stable), cases=cases[:4], dtype=torch.float16)
        yield f"{name}_new_names", dict(config=make(**WAVE), cases=cases[2:3], hub=False)
    frames = [case("Wav2Vec2ForAudioFrameClassification", "masked", masked)]
    yield "wav2vec2_frames", dict(config=T.Wav2Vec2Config(**WAVE), cases=frames, dtype=torch.bfloat16)
    longer = waves("s", 3, 400, (400, 230, 311))
    speaks = {**WAVE, "tdnn_dim": [9, 7, 11], "tdnn_kernel": [3, 2, 1], "tdnn_dilation": [1, 3, 2], "xvector_output_dim": 10, "use_weighted_layer_sum": True}
    yield "wav2vec2_speaker", dict(config=T.Wav2Vec2Config(**speaks), cases=[case("Wav2Vec2ForXVector", "masked", longer), case("Wav2Vec2ForXVector", "plain", plain)])
    books = {**WAVE, "num_codevectors_per_group": 11, "num_codevector_groups": 3, "codevector_dim": 12, "proj_codevector_dim": 10}
    clear = waves("b49", 3, 190, (190, 77, 133)), waves("b24", 2, 211)  # no frame is nearly between two codevectors: the choice stands at every precision
    yield "wav2vec2_books", dict(config=T.Wav2Vec2Config(**books), cases=[case("Wav2Vec2ForPreTraining", "masked", clear[0]), case("Wav2Vec2ForPreTraining", "plain", clear[1])])
    adapted = {**WAVE, "add_adapter": True, "num_adapter_layers": 2, "output_hidden_size": 14}
    yield "wav2vec2_adapter", dict(config=T.Wav2Vec2Config(**adapted), cases=[case("Wav2Vec2Model", "masked", masked), case("Wav2Vec2ForCTC", "plain", plain)])
    deep = {**WAVE, "conv_dim": [6] * 7, "conv_kernel": [5, 3, 3, 3, 3, 2, 2], "conv_stride": [2, 2, 2, 2, 1, 1, 1]}  # 77 samples are too short for a frame
    yield "wav2vec2_deep", dict(config=T.Wav2Vec2Config(**deep), cases=[case("Wav2Vec2ForCTC", "masked", masked)], dtype=torch.float16)
    mms = {**WAVE, "do_stable_layer_norm": True, "adapter_attn_dim": 7}
    yield "wav2vec2_mms", dict(config=T.Wav2Vec2Config(**mms), cases=[case("Wav2Vec2ForCTC", "masked", masked)])
    other = {**WAVE, "feat_proj_layer_norm": False, "conv_pos_batch_norm": True}
    yield "hubert_batch_norm", dict(config=T.HubertConfig(**other), cases=[case("HubertModel", "masked", masked)])
    # the kernels and strides that checkpoints have; 2319 is one sample less than seven frames take, and rounds to them as a half
    spoken = waves("l", 2, 3280, (3280, 2319))
    yield "wav2vec2_long", dict(config=T.Wav2Vec2Config(**SPOKEN), cases=[case("Wav2Vec2ForCTC", "masked", spoken)])
    speaks = {**speaks, **SPOKEN}
    yield "wav2vec2_long_speaker", dict(config=T.Wav2Vec2Config(**speaks), cases=[case("Wav2Vec2ForXVector", "masked", spoken)])


def wavlm_fixtures():
    plain, masked = waves("w", 2, 211), waves("m", 3, 190, (190, 77, 133))
    near = {**WAVE, "num_buckets": 12, "max_bucket_distance": 9}  # distances of 11 frames fill them all
    cases = [case("WavLMModel", "masked", masked, args=HIDDEN), case("WavLMModel", "plain", plain), case("WavLMForCTC", "masked", masked),
             case("WavLMForSequenceClassification", "masked", masked)]
    yield "wavlm", dict(config=T.WavLMConfig(**near), cases=cases)
    yield "wavlm_frames", dict(config=T.WavLMConfig(**near), cases=[case("WavLMForAudioFrameClassification", "masked", masked)], dtype=torch.bfloat16)
    stable = {**WAVE, "do_stable_layer_norm": True, "feat_extract_norm": "layer", "conv_bias": True, "num_conv_pos_embeddings": 5, "hidden_act": "relu",
              "feat_extract_activation": "gelu_new", "layer_norm_eps": 1e-4, "use_weighted_layer_sum": True}
    yield "wavlm_stable", dict(config=T.WavLMConfig(**stable), cases=[cases[0], cases[3]], dtype=torch.float16)
    longer = waves("s", 3, 400, (400, 230, 311))
    speaks = {**near, "tdnn_dim": [9, 7, 11], "tdnn_kernel": [3, 2, 1], "tdnn_dilation": [1, 3, 2], "xvector_output_dim": 10, "use_weighted_layer_sum": True}
    yield "wavlm_speaker", dict(config=T.WavLMConfig(**speaks), cases=[case("WavLMForXVector", "masked", longer)])
    adapted = {**near, "add_adapter": True, "num_adapter_layers": 2, "output_hidden_size": 14}
    yield "wavlm_adapter", dict(config=T.WavLMConfig(**adapted), hub=False, cases=[case("WavLMModel", "masked", masked), case("WavLMForCTC", "plain", plain)])


# ---- Moonshine ----

def moonshine(**more):
    return T.MoonshineConfig(**{"vocab_size": 53, "hidden_size": 24, "intermediate_size": 31, "encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2,
                                "encoder_num_attention_heads": 2, "decoder_num_attention_heads": 2, "max_position_embeddings": 40, "bos_token_id": 1,
                                "eos_token_id": 2, "decoder_start_token_id": 1, **more})


def moonshine_fixtures():
    sounds = waves("said", 2, 2101)
    padded = waves("padded", 3, 1800, (1800, 500, 1311))
    seed("said")
    ids, mask = torch.randint(3, 53, (3, 7)), torch.ones(3, 7, dtype=torch.long)
    mask[1, 4:] = 0
    said, both = {**sounds, "decoder_input_ids": ids[:2]}, {**padded, "decoder_input_ids": ids, "decoder_attention_mask": mask}
    yield "moonshine", dict(config=moonshine(), cases=[
        case("MoonshineForConditionalGeneration", "plain", said, args=HIDDEN), case("MoonshineModel", "plain", said),
        case("MoonshineForConditionalGeneration", "padded", both, mask={"logits": mask}),
        case("MoonshineForConditionalGeneration", "greedy", sounds, generate={"max_new_tokens": 9}),
        case("MoonshineForConditionalGeneration", "beams", sounds, generate={"max_new_tokens": 7, "num_beams": 3})])
    odd = moonshine(hidden_size=36, encoder_num_attention_heads=3, decoder_num_attention_heads=3, attention_bias=True, pad_head_dim_to_multiple_of=8, encoder_hidden_act="relu",
                    decoder_hidden_act="gelu_pytorch_tanh", tie_word_embeddings=False, encoder_num_hidden_layers=1, decoder_num_hidden_layers=3,
                    rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5})
    yield "moonshine_odd", dict(config=odd, cases=[case("MoonshineForConditionalGeneration", "plain", said), case("MoonshineModel", "padded", both, mask={"last_hidden_state": mask})],
                                dtype=torch.float16)


# ---- CLAP ----

TEXT = dict(vocab_size=61, hidden_size=20, intermediate_size=27, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=16, pad_token_id=1)
HEARD = dict(window_size=4, num_mel_bins=16, spec_size=64, patch_size=4, patch_stride=[4, 4], hidden_size=12, depths=[2, 2], num_attention_heads=[2, 3],
             patch_embeds_hidden_size=6, aff_block_r=2)


def clap_config(**more):
    return T.ClapConfig(text_config=TEXT, audio_config={**HEARD, **more}, projection_dim=9)


def texts(name, lengths, width):
    seed(name)
    ids, mask = torch.randint(3, 60, (len(lengths), width)), torch.zeros(len(lengths), width, dtype=torch.long)
    for row, n in enumerate(lengths):
        ids[row, n:] = 1
        mask[row, :n] = 1
    return {"input_ids": ids, "attention_mask": mask}


def spectrograms(name, batch, channels, frames, longer=None):
    seed(name)
    inputs = {"input_features": torch.randn(batch, channels, frames, 16)}
    return inputs if longer is None else {**inputs, "is_longer": torch.tensor(longer)[:, None]}


def clap_fixtures():
    words = texts("t", (9, 4, 6), 9)
    plain, fused = spectrograms("p", 2, 1, 201), spectrograms("f", 3, 4, 256, [True, False, True])
    longer = {**words, **plain, "is_longer": torch.tensor([[True], [False]])}  # as the extractor gives it; read with enable_fusion alone
    yield "clap", dict(config=clap_config(), prefixed=False, cases=[case("ClapModel", "both", {**words, **plain}), case("ClapModel", "longer", longer)])
    yield "clap_fusion", dict(config=clap_config(enable_fusion=True), prefixed=False, cases=[case("ClapModel", "both", {**words, **fused})])
    odd = clap_config(qkv_bias=False, mlp_ratio=2.0, enable_patch_layer_norm=False, hidden_act="relu", patch_size=6)
    yield "clap_fp16", dict(config=odd, prefixed=False, cases=[case("ClapModel", "both", {**words, **plain})], dtype=torch.float16)
    config = clap_config()
    audio, text = config.audio_config, config.text_config
    yield "clap_audio", dict(config=audio, prefixed=False, cases=[case("ClapAudioModel", "batch", plain, args=HIDDEN)])
    yield "clap_audio_projection", dict(config=audio, prefixed=False, cases=[case("ClapAudioModelWithProjection", "batch", plain)])
    yield "clap_text", dict(config=text, prefixed=False, cases=[case("ClapTextModel", "batch", words, args=HIDDEN)])
    yield "clap_text_projection", dict(config=text, prefixed=False, cases=[case("ClapTextModelWithProjection", "batch", words)], dtype=torch.bfloat16)


# ---- Whisper ----

def whisper(**more):
    return T.WhisperConfig(**{"vocab_size": 53, "num_mel_bins": 10, "d_model": 24, "max_source_positions": 17, "max_target_positions": 12, "encoder_layers": 2,
                              "decoder_layers": 2, "encoder_attention_heads": 3, "decoder_attention_heads": 4, "encoder_ffn_dim": 31, "decoder_ffn_dim": 29,
                              "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3, "begin_suppress_tokens": None, "num_labels": 5,
                              "classifier_proj_size": 9, **more})


def whisper_fixtures():
    seed("heard")
    heard = {"input_features": torch.randn(3, 10, 34)}
    said = {**heard, "decoder_input_ids": torch.randint(4, 53, (3, 7))}
    mask = torch.ones(3, 7, dtype=torch.long)
    mask[1, 4:] = 0
    padded = {**said, "decoder_attention_mask": mask}
    yield "whisper", dict(config=whisper(), cases=[case("WhisperForConditionalGeneration", "plain", said, args=HIDDEN), case("WhisperModel", "plain", said, args=HIDDEN),
                                                   case("WhisperModel", "padded", padded, mask={"last_hidden_state": mask}),
                                                   case("WhisperForConditionalGeneration", "padded", padded, mask={"logits": mask})])
    odd = whisper(activation_function="relu", encoder_layers=1, decoder_layers=3, num_mel_bins=10, use_weighted_layer_sum=True)
    yield "whisper_fp16", dict(config=odd, cases=[case("WhisperForConditionalGeneration", "plain", said)], dtype=torch.float16)
    more = {**said, "attention_mask": torch.ones(3, 34, dtype=torch.long)}  # the class takes both and reads neither
    yield "whisper_classes", dict(config=whisper(), cases=[case("WhisperForAudioClassification", "batch", heard), case("WhisperForAudioClassification", "unread", more)],
                                  dtype=torch.bfloat16)
    yield "whisper_weighted", dict(config=odd, cases=[case("WhisperForAudioClassification", "batch", heard)])


def write_heard():
    """moonshine/heard.json: a sound through transformers' pipeline, at most 6.5 tokens a second as the models' card has it."""
    import numpy
    import wave
    from tokenizers import Tokenizer, models, pre_tokenizers
    directory = tiny_models.ROOT / "moonshine"
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"word{i}": i for i in range(3, 53)}}
    words = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = T.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.save_pretrained(directory)
    extractor = T.Wav2Vec2FeatureExtractor(do_normalize=False, return_attention_mask=True)
    extractor.save_pretrained(directory)
    with wave.open(str(tiny_models.ROOT.parent / "speech" / "long.wav")) as file:
        assert file.getframerate() == 16000 and file.getsampwidth() == 2 and file.getnchannels() == 1
        samples = numpy.frombuffer(file.readframes(file.getnframes()), dtype="<i2").astype("float32") / 32768
    model = T.MoonshineForConditionalGeneration.from_pretrained(directory, attn_implementation="eager")
    pipe = T.pipeline("automatic-speech-recognition", model=model, tokenizer=tokenizer, feature_extractor=extractor)
    cases = []
    for seconds in (1.0, 2.5):
        part = samples[:int(16000 * seconds)]
        for more in ({"max_length": int(6.5 * len(part) / 16000)}, {"max_new_tokens": 4}):
            found = pipe({"raw": part.copy(), "sampling_rate": 16000}, generate_kwargs={"num_beams": 1, **more})
            cases.append({"samples": len(part), "max_new_tokens": more.get("max_new_tokens"), "text": found["text"]})
    (directory / "heard.json").write_text(json.dumps(cases, indent=1) + "\n")


def main():
    tiny_models.run([ast_fixtures, wave_fixtures, wavlm_fixtures, moonshine_fixtures, clap_fixtures, whisper_fixtures], "goldens_audio.list", sys.argv[1:])
    if not sys.argv[1:] or any("moonshine".startswith(name) for name in sys.argv[1:]):
        write_heard()


if __name__ == "__main__":
    main()
