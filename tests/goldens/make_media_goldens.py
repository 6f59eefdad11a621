#!/usr/bin/env python3
"""Makes tests/fixtures/media: tiny random-weight models with their processors, and what transformers' pipelines make of pictures and sounds.

    python3 tests/goldens/make_media_goldens.py        needs torchvision and soundfile beside requirements.txt

One directory per model with golden.json: {"command": sub-command of the accel tool, "cases": [{"args": [...], "files": [...], "want": [...]}]};
files are relative to tests/fixtures: pictures of make_image_goldens.py, sounds of make_audio_goldens.py.
"""
import json
import os
import pathlib
import shutil
import sys
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")
import soundfile
import torch
import transformers as T

from make_encoder_goldens import randomise

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
ROOT = FIXTURES / "media"
PICTURES = [f"image/pictures/{n}" for n in ("rgb.png", "turned_6.jpg", "grey_alpha.png", "colour_420.jpg")]
SOUNDS = [f"audio/sounds/{n}" for n in ("s16.wav", "f32.wav", "f64.wav")]
SMALL = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24)


def save(name, model, *processors, adjust=None):
    directory = ROOT / name
    randomise(model)
    if adjust is not None:
        with torch.no_grad():
            adjust(model)
    model.eval()
    model.save_pretrained(directory)
    for p in processors:
        p.save_pretrained(directory)
    return directory


def write(directory, command, cases):
    (directory / "golden.json").write_text(json.dumps({"command": command, "cases": cases}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def pipeline(task, directory):
    return T.pipeline(task, model=str(directory), device="cpu", model_kwargs={"attn_implementation": "eager"})


def paths(files):
    return [str(FIXTURES / f) for f in files]


def classify(name, config, processor, **labels):
    config.num_labels = 7
    for key, value in labels.items():
        setattr(config, key, value)
    directory = save(name, T.AutoModelForImageClassification.from_config(config), processor)
    run = pipeline("image-classification", directory)
    cases = [{"args": args, "files": PICTURES, "want": [run(p, **how) for p in paths(PICTURES)]}
             for args, how in (([], {}), (["--top-k", "2"], dict(top_k=2)), (["--function", "sigmoid"], dict(function_to_apply="sigmoid")))]
    write(directory, "classify", cases)


def detect(name, config, processor):
    config.num_labels = 4
    config.id2label = {0: "cat", 1: "dog", 2: "tree", 3: "sea"}
    directory = save(name, T.AutoModelForObjectDetection.from_config(config), processor)
    run = pipeline("object-detection", directory)
    cases = [{"args": ["--threshold", str(x)], "files": PICTURES, "want": [run(p, threshold=x) for p in paths(PICTURES)]} for x in (0.25, 0.45)]
    assert any(cases[0]["want"]), name
    write(directory, "detect-objects", cases)


def loud(model):
    """Labels and what they are padded with must show in the scores."""
    for name in ("logit_scale", "logit_scale_a"):  # CLAP's is that of sounds
        if hasattr(model, name):
            getattr(model, name).fill_(2.5)
    for name, p in model.text_model.named_parameters():
        if p.dim() > 1:
            p.mul_(10 if "embedding" in name else 3)


def zero_shot(name):
    siglip = name == "siglip"
    text = dict(vocab_size=120, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=64 if siglip else 32, projection_dim=12)
    tokenizer = word_tokenizer(**(dict(pad_token="</s>", padding_side="left", model_input_names=["input_ids"]) if siglip else {}))
    text.update(vocab_size=len(tokenizer), bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    config = T.CLIPConfig(text_config=text, vision_config={**SMALL, "image_size": 20, "patch_size": 5, "projection_dim": 12}, projection_dim=12)
    processor = T.CLIPImageProcessor(size={"shortest_edge": 20}, crop_size={"height": 20, "width": 20})
    if siglip:
        config = T.SiglipConfig(text_config={**text, "projection_size": 16, "pad_token_id": 5}, vision_config={**SMALL, "hidden_size": 16, "image_size": 20, "patch_size": 5})
        processor = T.SiglipImageProcessor(size={"height": 20, "width": 20})
    directory = save(name, (T.SiglipModel if siglip else T.CLIPModel)(config), processor, tokenizer, adjust=loud if siglip else None)
    run = pipeline("zero-shot-image-classification", directory)
    labels = ["a cat", "dog", "the wide sea", "tree"]
    cases = [{"args": ["--labels", ",".join(labels), *args], "files": PICTURES, "want": [run(p, candidate_labels=labels, **how) for p in paths(PICTURES)]}
             for args, how in (([], {}), (["--hypothesis", "photo: {}"], dict(hypothesis_template="photo: {}")))]
    write(directory, "zero-shot-image", cases)


def zero_shot_audio():
    tokenizer = word_tokenizer()
    text = dict(vocab_size=len(tokenizer), hidden_size=20, intermediate_size=27, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=34, pad_token_id=tokenizer.pad_token_id)
    heard = dict(window_size=4, num_mel_bins=16, spec_size=64, patch_size=4, patch_stride=[4, 4], hidden_size=12, depths=[2, 2], num_attention_heads=[2, 3], patch_embeds_hidden_size=6,
                 aff_block_r=2)
    extractor = T.ClapFeatureExtractor(feature_size=16, sampling_rate=16000, hop_length=320, max_length_s=2, fft_window_size=512, frequency_min=20, frequency_max=7000,
                                       truncation="rand_trunc", padding="repeatpad")
    directory = save("clap", T.ClapModel(T.ClapConfig(text_config=text, audio_config=heard, projection_dim=9)), extractor, tokenizer, adjust=loud)
    run = pipeline("zero-shot-audio-classification", directory)
    labels, want = ["a cat", "dog", "the wide sea", "tree"], []
    for f in SOUNDS:
        x, rate = soundfile.read(FIXTURES / f, dtype="float32")
        assert rate == extractor.sampling_rate
        want.append([run(x.copy(), candidate_labels=labels, **how) for how in ({}, dict(hypothesis_template="sound: {}"))])
    cases = [{"args": ["--labels", ",".join(labels), *args], "files": SOUNDS, "want": [w[i] for w in want]} for i, args in enumerate(([], ["--hypothesis", "sound: {}"]))]
    write(directory, "zero-shot-audio", cases)


def features(name):
    """tests/fixtures/features: what the pipeline image-feature-extraction makes of pictures; features.json has {"files", "want", "pooled"}."""
    directory = FIXTURES / "features" / name
    shutil.rmtree(directory, ignore_errors=True)
    config = T.Dinov2Config(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=20, patch_size=5)
    model = T.Dinov2Model(config)
    randomise(model)
    model.eval().save_pretrained(directory)
    T.BitImageProcessor(size={"shortest_edge": 22}, crop_size={"height": 20, "width": 20}).save_pretrained(directory)
    write_features(directory, PICTURES[:2])


def write_features(directory, files, pools=True):
    """Of a checkpoint with a head the pipeline takes the class without one; pools: its pooler has weights."""
    run = pipeline("image-feature-extraction", directory)
    golden = {"files": files, "want": [run(p) for p in paths(files)], **({"pooled": [run(p, pool=True) for p in paths(files)]} if pools else {})}
    (directory / "features.json").write_text(json.dumps(golden) + "\n")


def features_below_heads(name):
    """media/vit and media/resnet."""
    for model, pools in (("vit", False), ("resnet", True)):
        write_features(ROOT / model, PICTURES[2:], pools)


def word_tokenizer(**more):
    """Words and single letters, between <s> and </s>."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    words = ["<pad>", "<s>", "</s>", "<unk>", "this", "is", "a", "photo", "of", "cat", "dog", "tree", "the", "wide", "sea", ".", ":"]
    t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    t.normalizer = normalizers.Lowercase()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return T.PreTrainedTokenizerFast(tokenizer_object=t, unk_token="<unk>", model_max_length=32, **{"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", **more})


def hear(name, config, extractor, cls):
    config.num_labels = 6
    directory = save(name, getattr(T, cls)(config), extractor)
    run = pipeline("audio-classification", directory)
    want = []
    for f in SOUNDS:
        x, rate = soundfile.read(FIXTURES / f, dtype="float32")
        assert rate == extractor.sampling_rate
        want.append([[{"label": r["label"], "score": r["score"]} for r in run(x.copy(), top_k=k)] for k in (5, 2)])
    cases = [{"args": args, "files": SOUNDS, "want": [w[i] for w in want]} for i, args in enumerate(([], ["--top-k", "2"]))]
    write(directory, "audio-classify", cases)


def speak(name, cls, config, **more):
    """A CTC model over a dozen letters; its head is scaled so that labels change from frame to frame."""
    directory = ROOT / name
    directory.mkdir(parents=True)
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", "E", "T", "A", "O", "N", "\u00c4", "'"]
    (directory / "vocab.json").write_text(json.dumps({c: i for i, c in enumerate(letters)}))
    tokenizer = T.Wav2Vec2CTCTokenizer(str(directory / "vocab.json"), **more)
    model = getattr(T, cls)(config(vocab_size=len(letters), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, conv_dim=[8, 8, 8],
                                   conv_kernel=[10, 3, 3], conv_stride=[5, 2, 2], num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, pad_token_id=0))
    randomise(model)
    with torch.no_grad():
        model.lm_head.weight *= 8
    model.eval()
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    T.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=False).save_pretrained(directory)
    run = pipeline("automatic-speech-recognition", directory)
    cases = []
    for args, how in (([], {}), (["--timestamps", "char"], dict(return_timestamps="char")), (["--timestamps", "word"], dict(return_timestamps="word"))):
        want = []
        for f in SOUNDS:
            x, _ = soundfile.read(FIXTURES / f, dtype="float32")
            r = run(x.copy(), **how)
            want.append({"text": r["text"], **({"chunks": [{"text": c["text"], "timestamp": [float(t) for t in c["timestamp"]]} for c in r["chunks"]]} if how else {})})
        cases.append({"args": args, "files": SOUNDS, "want": want})
    assert len(set(cases[0]["want"][0]["text"])) > 4, cases[0]["want"]
    write(directory, "transcribe", cases)


def tables(name):
    backbone = T.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic", out_features=["stage2"])
    detect(name, T.TableTransformerConfig(backbone_config=backbone, d_model=16, num_queries=7, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                                          decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16), T.DetrImageProcessor(size={"shortest_edge": 40, "longest_edge": 64}))


def at_once(name):
    """RT-DETR, whose queries begin where random weights promise most."""
    backbone = T.RTDetrResNetConfig(embedding_size=8, hidden_sizes=[8, 12, 16, 20], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage3", "stage4"])
    detect(name, T.RTDetrConfig(backbone_config=backbone, encoder_hidden_dim=16, encoder_in_channels=[16, 20], encoder_ffn_dim=16, encoder_attention_heads=2, d_model=16, num_queries=5,
                                encode_proj_layers=[1], num_feature_levels=2, decoder_in_channels=[16, 16], decoder_ffn_dim=16, decoder_layers=2, decoder_attention_heads=2, num_denoising=0),
           T.RTDetrImageProcessor(size={"height": 64, "width": 96}))


def main():
    more = {"table_transformer": tables, "rt_detr": at_once, "clap": lambda name: zero_shot_audio(), "dinov2": features}
    for name in sys.argv[1:]:  # these alone
        if name == "heads":
            features_below_heads(name)
            continue
        shutil.rmtree(ROOT / name, ignore_errors=True)
        more[name](name)
    if sys.argv[1:]:
        return
    shutil.rmtree(ROOT, ignore_errors=True)
    for name, make in more.items():
        make(name)
    classify("vit", T.ViTConfig(**SMALL, image_size=20, patch_size=5), T.ViTImageProcessor(size={"height": 20, "width": 20}))
    classify("resnet", T.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic"),
             T.ConvNextImageProcessor(size={"shortest_edge": 32}, crop_pct=0.875), problem_type="multi_label_classification")
    features_below_heads("heads")
    backbone = T.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic", out_features=["stage2"])
    detect("detr", T.DetrConfig(backbone_config=backbone, d_model=16, num_queries=7, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                                decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16), T.DetrImageProcessor(size={"shortest_edge": 40, "longest_edge": 64}))
    detect("yolos", T.YolosConfig(**SMALL, image_size=[32, 48], patch_size=8, num_detection_tokens=5), T.YolosImageProcessor(size={"shortest_edge": 32, "longest_edge": 64}))
    zero_shot("clip")
    zero_shot("siglip")
    hear("ast", T.ASTConfig(**SMALL, patch_size=8, frequency_stride=6, time_stride=6, max_length=30, num_mel_bins=24), T.ASTFeatureExtractor(max_length=30, num_mel_bins=24), "ASTForAudioClassification")
    speak("wav2vec2", "Wav2Vec2ForCTC", T.Wav2Vec2Config)
    speak("hubert", "HubertForCTC", T.HubertConfig, do_lower_case=True)


if __name__ == "__main__":
    main()
