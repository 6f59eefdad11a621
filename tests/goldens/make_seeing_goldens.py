#!/usr/bin/env python3
"""Makes tests/fixtures/seeing: tiny random models that tell about pictures, with their processors and tokenizers, and what transformers makes of pictures.

    python3 tests/goldens/make_seeing_goldens.py [name ...]      needs torchvision and Pillow beside requirements.txt

One directory per model with golden.json; files are relative to tests/fixtures.
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
import numpy
import torch
import transformers as T
from safetensors.torch import save_file

import tiny_models
from make_encoder_goldens import randomise

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
ROOT = FIXTURES / "seeing"
PICTURES = [f"image/pictures/{n}" for n in ("rgb.png", "turned_6.jpg", "grey_alpha.png", "colour_420.jpg")]


def paths(files):
    return [str(FIXTURES / f) for f in files]


def write(directory, **golden):
    (directory / "golden.json").write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def save(name, model, *parts):
    directory = ROOT / name
    shutil.rmtree(directory, ignore_errors=True)
    randomise(model)
    model.eval()
    model.save_pretrained(directory)
    for part in parts:
        part.save_pretrained(directory)
    return directory


# ---- segments ----

def segment(name, **config):
    labels = ["wall", "sky", "tree", "road", "car"]
    model = T.SegformerForSemanticSegmentation(T.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 12], num_attention_heads=[1, 2], patch_sizes=[7, 3], strides=[4, 2],
        mlp_ratios=[2, 2], decoder_hidden_size=16, id2label=dict(enumerate(labels)), **config))
    directory = save(name, model, T.SegformerImageProcessor(size={"height": 64, "width": 64}))
    run = T.pipeline("image-segmentation", model=str(directory), device="cpu", model_kwargs={"attn_implementation": "eager"})
    maps, want = {}, []
    for f, path in zip(PICTURES, paths(PICTURES)):
        found = run(path)
        assert all(s["score"] is None for s in found)
        masks = [numpy.asarray(s["mask"]) for s in found]
        ids = numpy.zeros(masks[0].shape, numpy.uint8)
        for s, mask in zip(found, masks):
            ids[mask == 255] = labels.index(s["label"])
        maps[f] = torch.from_numpy(ids)
        want.append([{"label": s["label"], "pixels": int((m == 255).sum())} for s, m in zip(found, masks)])
    assert max(len(w) for w in want) > 2, want
    save_file(maps, directory / "maps.safetensors")
    write(directory, files=PICTURES, want=want)


SUBTASKS = [dict(), dict(subtask="instance"), dict(subtask="panoptic", mask_threshold=0.3, overlap_mask_area_threshold=0.05), dict(subtask="semantic")]


def tell_apart(model):
    """Features of about 1 in front of the decoder and the mask head, and queries that differ: with random weights as they are all would find the same."""
    g = torch.Generator().manual_seed(3)
    core, head, like = model.detr.model, model.mask_head, torch.rand(1, 3, 80, 96, generator=g)
    with torch.no_grad():
        core.query_position_embeddings.weight.normal_(generator=g).mul_(3)
        for name, w in core.decoder.named_parameters():
            if w.dim() == 2:
                w.normal_(generator=g).mul_(0.3)
        model.detr.class_labels_classifier.weight.normal_(generator=g).mul_(0.5)
        for part in (model.bbox_attention.q_proj, model.bbox_attention.k_proj):
            part.weight.normal_(generator=g).mul_(0.25)
            part.bias.zero_()
        for part in (core.input_projection, *(stage.fpn_adapter for stage in head.fpn_stages)):
            seen = []
            hook = part.register_forward_hook(lambda m, i, o: seen.append(o))
            model(like)
            hook.remove()
            part.weight.div_(seen[0].std() * (1 if part is core.input_projection else 8))
            part.bias.zero_()
        head.conv1.conv.weight[:, -8:].mul_(1000)
        head.output_conv.weight.normal_(generator=g)


def segment_objects(name):
    """DETR's three subtasks.  Its heads are made surer of themselves than random weights are, or nothing would be found."""
    labels = ["person", "dog", "sky", "grass"]
    config = T.DetrConfig(
        backbone_config=T.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12, 16, 20], depths=[1, 1, 1, 1], layer_type="basic",
                                       out_features=["stage1", "stage2", "stage3", "stage4"]),
        d_model=32, num_queries=9, encoder_layers=1, decoder_layers=1, encoder_attention_heads=8, decoder_attention_heads=4, encoder_ffn_dim=24,
        decoder_ffn_dim=24, id2label=dict(enumerate(labels)))
    model = T.DetrForSegmentation(config)
    directory = save(name, model, T.DetrImageProcessor(size={"shortest_edge": 80, "longest_edge": 128}))
    tell_apart(model)
    model.save_pretrained(directory)
    run = T.pipeline("image-segmentation", model=str(directory), device="cpu", model_kwargs={"attn_implementation": "eager"})
    maps, cases = {}, []
    for k, options in enumerate(SUBTASKS):
        options = dict(options) if options.get("subtask") == "semantic" else {"threshold": 0.4, "overlap_mask_area_threshold": 0.15, **options}
        want = []
        for f, path in zip(PICTURES, paths(PICTURES)):
            found = run(path, **options)
            masks = [numpy.asarray(s["mask"]) for s in found]
            ids = numpy.zeros(run.image_processor.fetch_images(path).size[::-1], numpy.uint8)
            for i, mask in enumerate(masks):
                ids[mask == 255] = i + 1
            maps[f"{k}.{f}"] = torch.from_numpy(ids)
            want.append([{"label": s["label"], "score": s["score"], "pixels": int((m == 255).sum())} for s, m in zip(found, masks)])
        assert max(len(w) for w in want) > 1, want
        cases.append({"options": options, "want": want})
    save_file(maps, directory / "maps.safetensors")
    write(directory, files=PICTURES, cases=cases)


# ---- depth ----

def depth(name, dpt=False):
    """Depth Anything (its processor keeps the shape of the picture) and DPT; heads that answer with a range."""
    neck = dict(neck_hidden_sizes=[8, 12, 16], reassemble_factors=[2, 1, 0.5], fusion_hidden_size=10)
    seen = dict(hidden_size=16, num_hidden_layers=3, num_attention_heads=2, image_size=28, patch_size=7)
    if dpt:
        config = T.DPTConfig(**{**seen, "intermediate_size": 31}, backbone_out_indices=[0, 1, 2], **neck)
        model, last = T.DPTForDepthEstimation(config), "head.head.4"
        processor = T.DPTImageProcessor(size={"height": 28, "width": 28})
    else:
        backbone = T.Dinov2Config(**seen, out_indices=[1, 2, 3], reshape_hidden_states=False)
        model, last = T.DepthAnythingForDepthEstimation(T.DepthAnythingConfig(backbone_config=backbone, patch_size=7, reassemble_hidden_size=16, head_hidden_size=9, **neck)), "head.conv3"
        processor = T.DPTImageProcessor(size={"height": 28, "width": 28}, keep_aspect_ratio=True, ensure_multiple_of=7)
    directory = save(name, model, processor)
    tiny_models.randomise(model)
    with torch.no_grad():
        model.get_parameter(last + ".weight").mul_(5)
        model.get_parameter(last + ".bias").fill_(2.0)
    model.save_pretrained(directory)
    run = T.pipeline("depth-estimation", model=str(directory), device="cpu", model_kwargs={"attn_implementation": "eager"})
    tensors, want = {}, []
    for f, path in zip(PICTURES, paths(PICTURES)):
        found = run(path)
        values = found["predicted_depth"]
        tensors[f"depth.{f}"] = values.contiguous()
        tensors[f"grey.{f}"] = torch.from_numpy(numpy.array(found["depth"]))
        want.append({"min": values.min().item(), "max": values.max().item()})
        assert want[-1]["max"] > want[-1]["min"] + 0.1, want
    save_file(tensors, directory / "maps.safetensors")
    write(directory, files=PICTURES, want=want)


# ---- text about pictures: ids as `accel verify` compares them, and what the tool prints ----

MARGIN = 1e-3
WORDS = ("<pad> <s> </s> <unk> <image> user assistant : ? . , what is this a an the of in on with and picture photo cat dog tree road sky sea car house "
         "red green blue grey white black big small old new one two three many people man woman child sits stands runs near far left right up down").split()
LONG = dict(max_new_tokens=32)
GREEDY, BEAM = dict(max_new_tokens=12), dict(max_new_tokens=8, num_beams=3, num_return_sequences=2)
TALK = ("{% for m in messages %}{{ m['role'] }}: {% for c in m['content'] if c['type'] == 'image' %}<image> {% endfor %}"
        "{% for c in m['content'] if c['type'] == 'text' %}{{ c['text'] }} {% endfor %}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}")
SEEN = dict(hidden_size=24, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3, image_size=20, patch_size=5)
SPEAKS = dict(vocab_size=len(WORDS), hidden_size=24, intermediate_size=27, num_hidden_layers=2, num_attention_heads=4, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def tokenizer(after="<s> $A", words=WORDS, special=("<image>",), names=None):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    t.normalizer = normalizers.Lowercase()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.TemplateProcessing(single=after, special_tokens=[("<s>", 1), ("</s>", 2)])
    return T.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>", padding_side="left",
                                     additional_special_tokens=list(special), extra_special_tokens=names or {f"{s.strip('<|>').split('_pad')[0]}_token": s for s in special})


def clear(out, start, eos):
    """No step of a row that still runs has two tokens within MARGIN."""
    for row, ids in enumerate(out.sequences):
        new = ids[start:].tolist()
        live = new.index(eos) + 1 if eos in new else len(new)
        for s in out.scores[:live]:
            two = s[row].float().topk(2).values
            if (two[0] - two[1]).item() <= MARGIN:
                return False
    return True


def talk(model, head, inputs, how, eos):
    """The result of generate, or None where rounding could decide."""
    with torch.no_grad():
        out = model.generate(**{k: v.clone() for k, v in inputs.items()}, **how, do_sample=False, return_dict_in_generate=True, output_scores=True)
        if "num_beams" not in how:
            return out if clear(out, out.sequences.shape[1] - len(out.scores), eos) else None
        noise = head.register_forward_hook(lambda m, i, o: o + MARGIN * torch.randn(o.shape, generator=torch.Generator().manual_seed(1)))
        again = model.generate(**{k: v.clone() for k, v in inputs.items()}, **how, do_sample=False)
        noise.remove()
        return out if torch.equal(again, out.sequences) else None


def ids_goldens(directory, model, head, make_inputs, eos, greedy=GREEDY, prefix="", beam=True):
    """golden.<Class>.<case>.safetensors of the first inputs whose tokens are clear."""
    lines = []
    for case, how in (("greedy", greedy), ("beam", BEAM))[:2 if beam else 1]:
        for attempt in range(200):
            torch.manual_seed(1000 + attempt)
            inputs = make_inputs()
            out = talk(model, head, inputs, how, eos)
            if out is not None:
                break
        else:
            raise SystemExit(f"{directory.name} {case}: nothing is clear")
        tensors = {f"in.{k}": v for k, v in inputs.items()} | {"out.sequences": out.sequences}
        if case == "beam":
            tensors["out.sequences_scores"] = out.sequences_scores
        args = dict(how) | {"pad_token_id": 0}
        file = f"golden.{type(model).__name__}.{prefix}{case}.safetensors"
        save_file({k: v.contiguous().clone() for k, v in tensors.items()}, directory / file,
                  metadata={"mode": "generate", "max_new_tokens": str(args.pop("max_new_tokens")), "args": json.dumps(args)})
        lines.append(f"../seeing/{directory.name} {file} {type(model).__name__}")
    return lines


def load(directory, cls):
    return cls.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()


def answers(model, processor, cases, eos, kind, how=GREEDY):
    """What the model says to each (text, files); those that rounding could decide are left out."""
    from PIL import Image
    from transformers.image_utils import load_image
    kept = []
    for text, files in cases:
        images = [load_image(p) for p in paths(files)]
        if kind == "question" and hasattr(processor, "chat_template") and processor.chat_template:
            content = [{"type": "image", "image": i} for i in images] + [{"type": "text", "text": text}]
            inputs = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt")
        else:
            inputs = processor(images=images, **({"text": text} if text else {}), return_tensors="pt")
        inputs = {k: v for k, v in inputs.items() if k != "labels" and (k != "token_type_ids" or isinstance(processor, BLOCKS))}
        out = talk(model, None, inputs, how, eos)
        if out is None:
            continue
        new = out.sequences[0, out.sequences.shape[1] - len(out.scores):]
        whole = kind == "caption"  # the tool prints the prompt's words, too
        kept.append({"text": text, "files": files, "want": processor.tokenizer.decode(out.sequences[0] if whole else new, skip_special_tokens=True), "ids": new.tolist(),
                     "prompt_tokens": int(inputs["input_ids"].shape[1]) if "input_ids" in inputs else 1})
    assert len(kept) > len(cases) // 2, kept
    return kept


def blip(name, cls):
    asks = cls is T.BlipForQuestionAnswering
    config = T.BlipConfig(text_config={**SPEAKS, "hidden_size": 24 if asks else 20, "max_position_embeddings": 40, "sep_token_id": 2, "encoder_hidden_size": 24},
                          vision_config={**SEEN, "image_size": 24, "patch_size": 6}, projection_dim=14, image_text_hidden_size=11)
    processor = T.BlipProcessor(T.BlipImageProcessor(size={"height": 24, "width": 24}), tokenizer("<s> $A </s>"))
    directory = save(name, cls(config), processor)
    model = load(directory, cls)

    def inputs():
        ids = torch.randint(5, len(WORDS), (2, 6))
        ids[:, 0], ids[:, -1] = 1, 2
        return {"input_ids": ids, "pixel_values": torch.randn(2, 3, 24, 24)}

    lines = ids_goldens(directory, model, model.text_decoder.cls, inputs, 2)
    texts = ["what is this ?", "is the cat red ?"] if asks else [None, "a photo of"]
    cases = answers(model, processor, [(t, [f]) for t in texts for f in PICTURES], 2, "question" if asks else "caption")
    write(directory, cases=cases)
    return lines


SEEN_WIDE = dict(hidden_size=24, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3, image_size=[24, 36], patch_size=6)


def trocr(name, cls=None):
    """ViT under TrOCR's decoder; with `cls` DeiT, whose width is another one than the decoder's."""
    encoder = T.DeiTConfig(**{**SEEN_WIDE, "image_size": 24}) if cls else T.ViTConfig(**SEEN_WIDE)
    decoder = T.TrOCRConfig(vocab_size=len(WORDS), d_model=20 if cls else 16, decoder_layers=2, decoder_attention_heads=4 if cls else 2, decoder_ffn_dim=27, max_position_embeddings=40,
                            cross_attention_hidden_size=None if cls else 24, is_decoder=True, add_cross_attention=True, bos_token_id=1, eos_token_id=2, pad_token_id=0,
                            decoder_start_token_id=1, scale_embedding=bool(cls), layernorm_embedding=not cls, activation_function="relu" if cls else "gelu")
    return composite(name, encoder, decoder, {"height": 24, "width": 24 if cls else 36}, cls, lambda m: m.decoder.output_projection)


def vit_gpt2(name, same=False):
    """ViT under GPT-2; with `same` of one width, with the options that its attention has."""
    more = dict(n_embd=24, n_head=3, n_inner=29, scale_attn_by_inverse_layer_idx=True, activation_function="relu") if same else dict(n_embd=20, n_head=4)
    decoder = T.GPT2Config(vocab_size=len(WORDS), n_layer=2, n_positions=40, is_decoder=True, add_cross_attention=True, bos_token_id=1, eos_token_id=2, **more)
    return composite(name, T.ViTConfig(**SEEN_WIDE), decoder, {"height": 24, "width": 36}, None, lambda m: m.decoder.lm_head)


def composite(name, encoder, decoder, size, cls, head):
    model = T.VisionEncoderDecoderModel(T.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder))
    model.generation_config = T.GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=0, decoder_start_token_id=1)
    processor = T.TrOCRProcessor(T.DeiTImageProcessor(size=size, crop_size=size) if cls else T.ViTImageProcessor(size=size), tokenizer("<s> $A </s>"))
    directory = save(name, model, processor)
    model = load(directory, T.VisionEncoderDecoderModel)
    lines = ids_goldens(directory, model, head(model), lambda: {"pixel_values": torch.randn(3, 3, size["height"], size["width"])}, 2)
    inputs = {"pixel_values": torch.randn(3, 3, size["height"], size["width"], generator=torch.Generator().manual_seed(5)), "decoder_input_ids": torch.arange(18).view(3, 6) + 5,
              "decoder_attention_mask": torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [1] * 6])}
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True)
    tensors = {f"in.{k}": v for k, v in inputs.items()} | {"out.logits": out.logits, "out.encoder_last_hidden_state": out.encoder_last_hidden_state, "mask.logits": inputs["decoder_attention_mask"]}
    tensors |= {f"out.encoder_hidden_states.{i}": x for i, x in enumerate(out.encoder_hidden_states)}
    file = "golden.VisionEncoderDecoderModel.forward.safetensors"
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, directory / file, metadata={"mode": "forward", "args": json.dumps({"output_hidden_states": True})})
    write(directory, cases=answers(model, processor, [(None, [f]) for f in PICTURES], 2, "caption"))
    return [*lines, f"../seeing/{name} {file} VisionEncoderDecoderModel"]


def llava(name, tiles=False):
    vision = {"model_type": "clip_vision_model", **SEEN}
    text = {"model_type": "llama", **SPEAKS, "num_key_value_heads": 2, "max_position_embeddings": 512}
    size = dict(size={"shortest_edge": 20}, crop_size={"height": 20, "width": 20})
    how = dict(patch_size=5, vision_feature_select_strategy="default", num_additional_image_tokens=1, image_token="<image>", chat_template=TALK)
    if tiles:
        pins = [[20, 40], [40, 20], [40, 40]]
        cls, config = T.LlavaNextForConditionalGeneration, T.LlavaNextConfig(text_config=text, vision_config=vision, image_token_index=4, image_grid_pinpoints=pins)
        processor = T.LlavaNextProcessor(T.LlavaNextImageProcessor(image_grid_pinpoints=pins, **size), tokenizer(), **how)
    else:
        cls, config = T.LlavaForConditionalGeneration, T.LlavaConfig(text_config=text, vision_config=vision, image_token_index=4)
        processor = T.LlavaProcessor(T.CLIPImageProcessor(**size), tokenizer(), **how)
    model = cls(config)
    model.generation_config = T.GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=0)
    directory = save(name, model, processor)
    model = load(directory, cls)

    def inputs(*texts):
        from PIL import Image
        import numpy as np
        noise = np.random.default_rng(int(torch.randint(1 << 30, (1,))))
        sides, texts = iter([(15, 37), (50, 22), (30, 31)]), texts or ("{} <image> {} <image> {}", "<image> {}")
        images = [[Image.fromarray(noise.integers(0, 255, (*next(sides), 3), dtype=np.uint8)) for _ in range(t.count("<image>"))] for t in texts]
        word = lambda: " ".join(WORDS[i] for i in torch.randint(11, len(WORDS), (3,)))
        made = processor(images=images, text=[t.format(*(word() for _ in range(3))) for t in texts], padding=True, return_tensors="pt")
        return {k: v for k, v in made.items() if k != "token_type_ids"}

    lines = ids_goldens(directory, model, model.lm_head, inputs, 2) + ids_goldens(directory, model, model.lm_head, lambda: inputs("what {} <image>", "{} <image> <image>"), 2, prefix="end.")
    questions = answers(model, processor, [("what is this ?", PICTURES[:1]), ("is the cat red ?", PICTURES[1:2]), ("how many ?", PICTURES[2:4]), ("what is the sea ?", PICTURES[3:])], 2, "question")
    plain = answers(model, processor, [("a <image> photo of", PICTURES[:1]), ("<image> and <image> : the", PICTURES[1:3]), ("the cat sits", [])][:2], 2, "text")
    write(directory, cases=questions, plain=plain)
    return lines


VL_SPECIAL = "<|image_pad|> <|vision_start|> <|vision_end|> <|video_pad|> <|im_start|> <|im_end|>".split()
VL_WORDS = [VL_SPECIAL[0] if w == "<image>" else w for w in WORDS] + VL_SPECIAL[1:]
VL_TALK = ("{% for m in messages %}<|im_start|>{{ m['role'] }} {% for c in m['content'] %}{% if c['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
           "{% elif c['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>{% elif 'text' in c %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|> "
           "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant {% endif %}")


def qwen2_vl(name, newer=False, third=False):
    at = {w: i for i, w in enumerate(VL_WORDS)}
    cls, make = (T.Qwen2_5_VLForConditionalGeneration, T.Qwen2_5_VLConfig) if newer else (T.Qwen2VLForConditionalGeneration, T.Qwen2VLConfig)
    if third:
        cls, make = T.Qwen3VLForConditionalGeneration, T.Qwen3VLConfig
    config = make(
        vision_config=dict(depth=3, hidden_size=24, out_hidden_size=32, num_heads=2, intermediate_size=29, patch_size=4, window_size=16, fullatt_block_indexes=[1]) if newer
        else dict(depth=3, hidden_size=24, out_hidden_size=32, num_heads=2, intermediate_size=29, patch_size=4, num_position_embeddings=36, deepstack_visual_indexes=[0, 1]) if third
        else dict(depth=2, embed_dim=24, num_heads=2, hidden_size=32, mlp_ratio=2, patch_size=4),
        text_config={**SPEAKS, "vocab_size": len(VL_WORDS), "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "eos_token_id": at["<|im_end|>"],
                     "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [1, 2, 1]}, **({"head_dim": 8} if third else {})},
        image_token_id=4, video_token_id=at["<|video_pad|>"], vision_start_token_id=at["<|vision_start|>"], vision_end_token_id=at["<|vision_end|>"])
    size = dict(size={"shortest_edge": 256, "longest_edge": 1000}, patch_size=4)
    kind = T.Qwen3VLProcessor if third else T.Qwen2_5_VLProcessor if newer else T.Qwen2VLProcessor
    processor = kind(T.Qwen2VLImageProcessor(**size), tokenizer("$A", VL_WORDS, VL_SPECIAL), (T.Qwen3VLVideoProcessor if third else T.Qwen2VLVideoProcessor)(**size), chat_template=VL_TALK)
    model = cls(config)
    model.generation_config = T.GenerationConfig(bos_token_id=1, eos_token_id=[at["<|im_end|>"], 2], pad_token_id=0)
    directory = save(name, model, processor)
    model = load(directory, cls)

    def inputs():
        from PIL import Image
        import numpy as np
        noise = np.random.default_rng(int(torch.randint(1 << 30, (1,))))
        sides = [(15, 37), (50, 22), (30, 31)]
        images = [[Image.fromarray(noise.integers(0, 255, (*sides[i], 3), dtype=np.uint8)) for i in row] for row in ((0, 1), (2,))]
        word, picture = lambda: " ".join(VL_WORDS[i] for i in torch.randint(11, len(WORDS), (3,))), "<|vision_start|><|image_pad|><|vision_end|>"
        made = processor(images=images, text=[f"{word()} {picture} {word()} {picture} {word()}", f"{picture} {word()}"], padding=True, return_tensors="pt")
        return {k: v for k, v in made.items() if k != "token_type_ids"}

    lines = ids_goldens(directory, model, model.lm_head, inputs, at["<|im_end|>"], LONG)
    questions = answers(model, processor, [("what is this ?", PICTURES[:1]), ("is the cat red ?", PICTURES[1:2]), ("how many ?", PICTURES[2:4]), ("what is the sea ?", PICTURES[3:])],
                        at["<|im_end|>"], "question", LONG)
    picture = "<|vision_start|><|image_pad|><|vision_end|>"
    plain = answers(model, processor, [(f"{picture} and {picture} : the", PICTURES[1:3]), (f"{picture} small old cat", PICTURES[:1]), (f"one child {picture} runs far , a {picture} :", PICTURES[2:]),
                                       (f"{picture} the road is grey", PICTURES[3:])], at["<|im_end|>"], "text", LONG)
    write(directory, cases=questions, plain=plain)
    return lines


# ---- pictures that take more than their rows in the text: Gemma 3, PaliGemma, Idefics3, InternVL ----

BLOCKS = (T.Gemma3Processor, T.PaliGemmaProcessor)


def words_with(*special):
    return [special[0] if w == "<image>" else w for w in WORDS] + list(special[1:])


def shows(name, cls, config, processor, words, place, talks=True, beam=True):
    """One model: generate's ids for prompts with several pictures, answers, and plain prompts; place: what stands for a picture."""
    model = cls(config)
    model.generation_config = T.GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=0)
    directory = save(name, model, processor)
    model = load(directory, cls)

    def inputs():
        from PIL import Image
        import numpy as np
        noise = np.random.default_rng(int(torch.randint(1 << 30, (1,))))
        images = [[Image.fromarray(noise.integers(0, 255, (*side, 3), dtype=np.uint8)) for side in row] for row in (((15, 37), (50, 22)), ((30, 31),))]
        word = lambda: " ".join(words[i] for i in torch.randint(11, len(WORDS), (3,)))
        made = processor(images=images, text=[f"{place} {place} {word()}" if not talks else f"{word()} {place} {word()} {place} {word()}", f"{place} {word()}"], padding=True, return_tensors="pt")
        return {k: v for k, v in made.items() if k != "labels" and (k != "token_type_ids" or isinstance(processor, BLOCKS))}

    lines = ids_goldens(directory, model, model.lm_head, inputs, 2, beam=beam)
    asked = [("what is this ?", PICTURES[:1]), ("is the cat red ?", PICTURES[1:2]), ("how many ?", PICTURES[2:4]), ("what is the sea ?", PICTURES[3:])]
    questions = answers(model, processor, asked if talks else [(t, f[:1]) for t, f in asked], 2, "question")
    plain = answers(model, processor, [(f"{place} and the", PICTURES[:1]), (f"{place} {place} small old cat", PICTURES[1:3]), (f"{place} the road", PICTURES[3:])], 2, "text")
    write(directory, cases=questions, plain=plain)
    return lines


def talk_with(place):
    return TALK.replace("<image>", place)


def gemma3(name):
    special = ("<image_soft_token>", "<start_of_image>", "<end_of_image>")
    words = words_with(*special)
    text = {**SPEAKS, "vocab_size": len(words), "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512, "sliding_window": 11, "query_pre_attn_scalar": 8,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
    config = T.Gemma3Config(text_config=text, vision_config={**SEEN, "image_size": 20, "vision_use_head": False}, mm_tokens_per_image=4, image_token_index=4, boi_token_index=words.index(special[1]),
                            eoi_token_index=words.index(special[2]))
    names = dict(zip(("image_token", "boi_token", "eoi_token"), special))
    processor = T.Gemma3Processor(T.Gemma3ImageProcessor(size={"height": 20, "width": 20}, do_pan_and_scan=True, pan_and_scan_min_crop_size=4), tokenizer("<s> $A", words, special, names),
                                  chat_template=talk_with(special[1]), image_seq_length=4)
    # scores are small differences of large logits, which narrow precisions do not keep
    return shows(name, T.Gemma3ForConditionalGeneration, config, processor, words, special[1], beam=False)


def paligemma(name):
    text = {"model_type": "gemma2", **SPEAKS, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512, "sliding_window": 6, "query_pre_attn_scalar": 8}
    config = T.PaliGemmaConfig(text_config=text, vision_config={**SEEN, "vision_use_head": False}, image_token_index=4, projection_dim=24, hidden_size=24)
    looks = T.SiglipImageProcessor(size={"height": 20, "width": 20}, image_seq_length=16)
    processor = T.PaliGemmaProcessor(looks, tokenizer("$A", names={"image_token": "<image>"}))
    return shows(name, T.PaliGemmaForConditionalGeneration, config, processor, WORDS, "<image>", False)


def idefics3(name):
    special = ("<image>", "<fake_token_around_image>", "<global-img>", *(f"<row_{r}_col_{c}>" for r in (1, 2, 3) for c in (1, 2, 3)))
    words = words_with(*special) + ["<end_of_utterance>"]
    text = {"model_type": "llama", **SPEAKS, "vocab_size": len(words), "num_key_value_heads": 2, "max_position_embeddings": 512}
    config = T.Idefics3Config(text_config=text, vision_config={**SEEN, "image_size": 20, "patch_size": 5}, image_token_id=4, scale_factor=2)
    looks = T.Idefics3ImageProcessor(size={"longest_edge": 44}, max_image_size={"longest_edge": 20}, resample=3)
    processor = T.Idefics3Processor(looks, tokenizer("<s> $A", words, special), image_seq_len=4, chat_template=TALK)
    return shows(name, T.Idefics3ForConditionalGeneration, config, processor, words, "<image>", beam=False)  # its pixels are many


def internvl(name):
    special = ("<IMG_CONTEXT>", "<img>", "</img>", "<video>")
    words = words_with(*special)
    text = {"model_type": "qwen2", **SPEAKS, "vocab_size": len(words), "num_key_value_heads": 2, "max_position_embeddings": 512}
    vision = dict(hidden_size=24, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3, image_size=[20, 20], patch_size=[5, 5])
    config = T.InternVLConfig(text_config=text, vision_config=vision, image_token_id=4, image_seq_length=4)
    names = dict(zip(("context_image_token", "start_image_token", "end_image_token", "video_token"), special))
    processor = T.InternVLProcessor(T.GotOcr2ImageProcessor(size={"height": 20, "width": 20}, max_patches=4), tokenizer("<s> $A", words, special, names), T.InternVLVideoProcessor(), image_seq_length=4,
                                    chat_template=talk_with(special[0]))
    return shows(name, T.InternVLForConditionalGeneration, config, processor, words, special[0])


FLORENCE_TASKS = ("<OD>", "<CAPTION>", "<OCR_WITH_REGION>", "<DENSE_REGION_CAPTION>", "<REGION_PROPOSAL>", "<CAPTION_TO_PHRASE_GROUNDING>the red cat", "<REFERRING_EXPRESSION_SEGMENTATION> a car ",
                  "<REGION_TO_SEGMENTATION><loc_25><loc_50>", "<OPEN_VOCABULARY_DETECTION>cat", "<REGION_TO_OCR><loc_0><loc_999>", "what is this ?")
PARSE_TASKS = ("ocr", "phrase_grounding", "pure_text", "description_with_bboxes", "description_with_polygons", "polygons", "bboxes", "description_with_bboxes_or_polygons")


def task_of(prompt):
    return prompt[:prompt.index(">") + 1] if prompt.startswith("<") else "<CAPTION>"


def said(processor, text, prompt, size):
    return processor.post_process_generation(text=text, task=task_of(prompt), image_size=size)[task_of(prompt)]


def florence_texts(count):
    """Answers as they come and as they should not: words, places, marks and ends of lines in any order."""
    import random
    pick = random.Random(5)
    places = lambda n: "".join(f"<loc_{pick.choice((0, 7, 499, 512, 998, 999, pick.randrange(1000)))}>" for _ in range(n))
    words = ("cat", " a small dog", "it", "\u00e9t\u00e9 caf\u00e9", "\u3000road\u00a0", "two\nlines", "\n", " ", "x<y", "<", "od>", "\x1fcar\x1c", "<obj>", "<ground>it")
    marks = ("<sep>", "<poly>", "</poly>", "<poly>", "</poly>", "<s>", "</s>", "<pad>", "<od>", "<loc_>", "<loc_1", "<loc_1a>", "<loc_00012>", "<loc_1500>")
    for i in range(count):
        parts = []
        for _ in range(pick.randrange(1, 9)):
            kind = pick.random()
            parts.append(pick.choice(words) if kind < 0.35 else pick.choice(marks) if kind < 0.5 else places(pick.choice((1, 2, 3, 4, 4, 4, 5, 8, 8, 9, 16))))
            if kind > 0.9:
                parts.append(f"{pick.choice(words)}<poly>{places(pick.choice((1, 4, 6, 7)))}<sep>{places(6)}</poly>")
        yield "".join(parts)


def florence(name):
    """Florence-2 whose answers hold places; answers.json: what the processor reads out of texts of any kind."""
    from tokenizers import decoders
    places = [f"<loc_{i}>" for i in (0, 25, 50, 125, 333, 499, 500, 640, 777, 850, 998, 999)]
    special = ["<image>", *places, "<sep>", "<poly>", "</poly>"]
    words = WORDS + special[1:]
    words.append("<mask>")
    config = T.Florence2Config(
        vision_config=dict(depths=[1, 1], patch_size=[7, 3], patch_stride=[4, 2], patch_padding=[3, 1], patch_prenorm=[False, True], embed_dim=[8, 12], num_heads=[2, 3], num_groups=[2, 3],
                           window_size=3, projection_dim=24, max_position_embeddings=8),
        text_config=dict(model_type="bart", vocab_size=len(words), d_model=24, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=27, decoder_ffn_dim=23, encoder_attention_heads=4, decoder_attention_heads=4,
                         max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None), image_token_id=4)
    parts = tokenizer("<s> $A </s>", words, special, {"image_token": "<image>"})
    parts.backend_tokenizer.decoder = decoders.ByteLevel()
    rules = {task: {} for task in PARSE_TASKS}
    rules["ocr"] = {"PATTERN": "(.+?)" + r"<loc_(\d+)>" * 8, "AREA_THRESHOLD": 0.01}
    rules["phrase_grounding"] = {"banned_grounding_tokens": ["it", "the"]}
    looks = T.CLIPImageProcessor(size={"height": 32, "width": 32}, crop_size={"height": 32, "width": 32}, do_center_crop=False)
    looks.image_seq_length = 17
    processor = T.Florence2Processor(looks, parts, post_processor_config=rules)
    model = T.Florence2ForConditionalGeneration(config)
    model.generation_config = T.GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=0, decoder_start_token_id=2, no_repeat_ngram_size=3)
    directory = save(name, model, processor)
    with torch.no_grad():  # places come often, ends seldom
        model.get_output_embeddings().weight[words.index(places[0]):] *= 1.6
        model.get_output_embeddings().weight[2] *= 0.5
    model.save_pretrained(directory)
    model = load(directory, T.Florence2ForConditionalGeneration)
    processor = T.AutoProcessor.from_pretrained(directory)

    def inputs():
        from PIL import Image
        noise = numpy.random.default_rng(int(torch.randint(1 << 30, (1,))))
        images = [Image.fromarray(noise.integers(0, 255, (*side, 3), dtype=numpy.uint8)) for side in ((15, 37), (50, 22))]
        made = processor(images=images, text=["<OD>", "<CAPTION_TO_PHRASE_GROUNDING>the cat"], padding=True, padding_side="right", return_tensors="pt")
        return {k: made[k] for k in ("input_ids", "attention_mask", "pixel_values")}

    lines = ids_goldens(directory, model, model.lm_head, inputs, 2)
    from PIL import Image, ImageOps
    cases = []
    for i, prompt in enumerate(FLORENCE_TASKS):
        file = PICTURES[i % len(PICTURES)]
        image = ImageOps.exif_transpose(Image.open(FIXTURES / file)).convert("RGB")
        made = processor(images=[image], text=[prompt], return_tensors="pt")
        out = talk(model, None, {k: made[k] for k in ("input_ids", "attention_mask", "pixel_values")}, LONG, 2)
        if out is None:
            continue
        text = processor.batch_decode(out.sequences[:, 1:], skip_special_tokens=False)[0]
        cases.append({"prompt": prompt, "file": file, "ids": out.sequences[0, 1:].tolist(), "prompt_ids": made["input_ids"][0].tolist(), "text": text, "want": said(processor, text, prompt, image.size)})
    assert sum(bool(c["want"]) and not isinstance(c["want"], str) and any(c["want"].values()) for c in cases) > 3, cases
    write(directory, cases=cases)
    texts = [{"prompt": p, "text": t, "size": [640 + 37 * i % 911, 480 - i], "want": said(processor, t, p, (640 + 37 * i % 911, 480 - i))}
             for i, t in enumerate(florence_texts(160)) for p in (FLORENCE_TASKS[(3 * i) % 9], FLORENCE_TASKS[(3 * i + 5) % 9])]
    (directory / "answers.json").write_text(json.dumps(texts, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    return lines


def main(wanted):
    torch.set_num_threads(1)
    T.logging.disable_progress_bar()
    kinds = {"segformer": segment, "detr_panoptic": segment_objects, "depth_anything": depth, "dpt": lambda n: depth(n, True), "blip_caption": lambda n: blip(n, T.BlipForConditionalGeneration), "blip_vqa": lambda n: blip(n, T.BlipForQuestionAnswering),
             "trocr": trocr, "trocr_deit": lambda n: trocr(n, True), "vit_gpt2": vit_gpt2, "vit_gpt2_same": lambda n: vit_gpt2(n, True), "llava": llava, "llava_next": lambda n: llava(n, True), "qwen2_vl": qwen2_vl, "qwen2_5_vl": lambda n: qwen2_vl(n, True), "qwen3_vl": lambda n: qwen2_vl(n, third=True), "gemma3": gemma3, "paligemma": paligemma,
             "idefics3": idefics3, "internvl": internvl, "florence2": florence}
    listing = FIXTURES / "models" / "goldens_seeing.list"
    lines = listing.read_text().splitlines() if listing.exists() else []
    for name, make in kinds.items():
        if not wanted or name in wanted:
            lines = [l for l in lines if l and l.split()[0] != f"../seeing/{name}"] + (make(name) or [])
            listing.write_text("\n".join(sorted(lines)) + "\n")
            print(name, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
