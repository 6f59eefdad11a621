#!/usr/bin/env python3
"""Makes the fixtures of models that see: tiny random image and image-text models (tiny_models.py says how), listed in goldens_vision.list.

    python3 tests/goldens/make_vision_goldens.py [name prefix ...]      only the fixtures named so
"""
import sys

import tiny_models
import torch
import transformers as T
from tiny_models import seed

HIDDEN = {"output_hidden_states": True}
BIG = {"interpolate_pos_encoding": True}


def pixels(case, *shape):
    seed(case)
    return {"pixel_values": torch.randn(*shape)}


def case(cls, name, inputs, **more):
    return {"cls": cls, "case": name, "inputs": inputs, **more}


# ---- ViT and relatives ----

VIT = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=37, image_size=20, patch_size=5)


def vit_fixtures():
    for stem, lead in (("ViT", "vit"), ("DeiT", "deit")):
        config = getattr(T, f"{stem}Config")(**VIT, id2label={i: f"thing {i}" for i in range(5)})
        cases = [case(f"{stem}Model", "batch", pixels("a", 3, 3, 20, 20), args=HIDDEN), case(f"{stem}Model", "single", pixels("b", 1, 3, 20, 20)),
                 case(f"{stem}Model", "wide", pixels("c", 2, 3, 23, 41), args=BIG), case(f"{stem}ForImageClassification", "batch", pixels("a", 3, 3, 20, 20))]
        if stem == "DeiT":
            cases.append(case("DeiTForImageClassificationWithTeacher", "batch", pixels("a", 3, 3, 20, 20)))
        yield lead, dict(config=config, cases=cases)
        yield f"{lead}_new_names", dict(config=config, cases=cases[3:4], hub=False)
        masked = {**pixels("m", 2, 3, 20, 20), "bool_masked_pos": torch.rand(2, 16) > 0.5}
        yield f"{lead}_masked", dict(config=getattr(T, f"{stem}Config")(**VIT, encoder_stride=5), cases=[case(f"{stem}ForMaskedImageModeling", "batch", masked)])
    odd = T.ViTConfig(**{**VIT, "image_size": [21, 15], "patch_size": [7, 5], "num_channels": 1, "qkv_bias": False, "hidden_act": "gelu_new", "layer_norm_eps": 1e-3,
                         "pooler_output_size": 11, "pooler_act": "relu", "num_hidden_layers": 1})
    yield "vit_odd", dict(config=odd, cases=[case("ViTModel", "batch", pixels("a", 3, 1, 21, 15))], dtype=torch.float16)
    yield "vit_bf16", dict(config=T.ViTConfig(**VIT), cases=[case("ViTForImageClassification", "batch", pixels("a", 3, 3, 20, 20))], dtype=torch.bfloat16)

    def mask(model):
        model.embeddings.mask_token = torch.nn.Parameter(torch.zeros(1, 1, 24))

    def no_pooler(model):
        model.pooler = None

    yield "vit_no_pooler", dict(config=T.ViTConfig(**VIT), cases=[case("ViTModel", "batch", pixels("a", 2, 3, 20, 20), skip=("pooler_output",))], prepare=no_pooler,
                                prefixed=False, allow_missing=("pooler",))


# ---- CLIP, SigLIP ----

def texts(name, vocab, width, lengths, eos=None, pad=1, left=False, mask=True):
    """Ids with an end token where eos is given; padded to `width`."""
    seed(name)
    ids = torch.randint(3, vocab - 2, (len(lengths), width))
    attention = torch.ones_like(ids)
    for row, n in enumerate(lengths):
        hidden = slice(0, width - n) if left else slice(n, width)
        ids[row, hidden] = pad
        attention[row, hidden] = 0
        if eos is not None:
            ids[row, width - 1 if left else n - 1] = eos
    return {"input_ids": ids, "attention_mask": attention} if mask else {"input_ids": ids}


TEXT = dict(vocab_size=61, hidden_size=20, intermediate_size=27, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=12)
SEEN = dict(hidden_size=24, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3, image_size=20, patch_size=5)


def clip_config(eos=60, **more):
    text = {**TEXT, "projection_dim": 14, "eos_token_id": eos, "bos_token_id": 58, "pad_token_id": 1}
    return T.CLIPConfig(text_config=text, vision_config={**SEEN, "projection_dim": 14}, projection_dim=14, **more)


def clip_fixtures():
    text, image = texts("t", 61, 9, (9, 4, 6), eos=60), pixels("p", 2, 3, 20, 20)
    both = {**text, **image}
    cases = [case("CLIPModel", "both", both, args=HIDDEN), case("CLIPModel", "wide", {**texts("u", 61, 7, (7, 7), eos=60, mask=False), **pixels("w", 3, 3, 26, 17)}, args=BIG)]
    yield "clip", dict(config=clip_config(), cases=cases, prefixed=False)
    yield "clip_eos_2", dict(config=clip_config(eos=2), cases=[case("CLIPModel", "both", both)], dtype=torch.float16, prefixed=False)
    yield "clip_new_names", dict(config=clip_config(), cases=[case("CLIPModel", "both", both)], hub=False, prefixed=False)
    for part, inputs in (("Text", text), ("Vision", image)):
        config = getattr(clip_config(), f"{part.lower()}_config")
        yield f"clip_{part.lower()}", dict(config=config, prefixed=False, cases=[case(f"CLIP{part}Model", "batch", inputs, args=HIDDEN)])
        yield f"clip_{part.lower()}_bare", dict(config=config, prefixed=False, hub=False, cases=[case(f"CLIP{part}Model", "batch", inputs)])
        yield f"clip_{part.lower()}_projection", dict(config=config, prefixed=False, cases=[case(f"CLIP{part}ModelWithProjection", "batch", inputs, args=HIDDEN)])
    labels = clip_config(id2label={i: f"thing {i}" for i in range(5)})
    yield "clip_labels", dict(config=labels, cases=[case("CLIPForImageClassification", "batch", image)], dtype=torch.bfloat16)


def siglip_config(**more):
    return T.SiglipConfig(text_config={**TEXT, "hidden_size": 24, "projection_size": 24}, vision_config={**SEEN, **more})


def siglip_fixtures():
    text, image = texts("t", 61, 12, (12, 4, 6), mask=False), pixels("p", 2, 3, 20, 20)
    masked = {**texts("m", 61, 8, (8, 5, 3)), **pixels("w", 2, 3, 26, 17)}
    cases = [case("SiglipModel", "both", {**text, **image}, args=HIDDEN), case("SiglipModel", "masked", masked, args=BIG)]
    yield "siglip", dict(config=siglip_config(), cases=cases, prefixed=False)
    yield "siglip_no_head", dict(config=siglip_config(vision_use_head=False), prefixed=False, cases=[case("SiglipForImageClassification", "batch", image)], dtype=torch.float16)
    for part, inputs in (("Text", text), ("Vision", image)):
        config = getattr(siglip_config(), f"{part.lower()}_config")
        yield f"siglip_{part.lower()}", dict(config=config, prefixed=False, cases=[case(f"Siglip{part}Model", "batch", inputs, args=HIDDEN)])


# ---- ResNet, DETR, YOLOS, DINOv2 ----

def resnet(**more):
    return T.ResNetConfig(**{"embedding_size": 6, "hidden_sizes": [8, 12, 20], "depths": [1, 2, 1], "num_labels": 5, **more})


def resnet_fixtures():
    image = pixels("r", 3, 3, 37, 45)
    yield "resnet", dict(config=resnet(), cases=[case("ResNetModel", "batch", image, args=HIDDEN), case("ResNetForImageClassification", "batch", image)])
    basic = resnet(layer_type="basic", downsample_in_first_stage=True, hidden_act="gelu", num_channels=1)
    yield "resnet_basic", dict(config=basic, cases=[case("ResNetForImageClassification", "batch", pixels("s", 2, 1, 40, 33))], dtype=torch.float16)
    yield "resnet_bottleneck", dict(config=resnet(downsample_in_bottleneck=True), cases=[case("ResNetModel", "single", pixels("q", 1, 3, 32, 32))], dtype=torch.bfloat16)


def timm_names(key):
    """The backbone as timm calls its parts."""
    import re
    key = key.replace("embedder.embedder.convolution", "conv1").replace("embedder.embedder.normalization", "bn1")
    key = re.sub(r"encoder\.stages\.(\d)\.layers\.(\d+)\.", lambda m: f"layer{int(m[1]) + 1}.{m[2]}.", key)
    key = re.sub(r"\.layer\.(\d)\.convolution", lambda m: f".conv{int(m[1]) + 1}", key)
    key = re.sub(r"\.layer\.(\d)\.normalization", lambda m: f".bn{int(m[1]) + 1}", key)
    return key.replace("shortcut.convolution", "downsample.0").replace("shortcut.normalization", "downsample.1")


def detr(**more):
    return T.DetrConfig(**{"backbone_config": resnet(out_features=["stage2", "stage3"]), "d_model": 16, "num_queries": 7, "encoder_layers": 2, "decoder_layers": 2,
                           "encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 19, "decoder_ffn_dim": 23, "num_labels": 4, **more})


def apart(model):
    """Queries whose masks and classes differ: a loud attention map beside the features that all queries share."""
    model.detr.model.query_position_embeddings.weight.mul_(8)
    model.bbox_attention.q_proj.weight.mul_(8)
    model.mask_head.conv1.conv.weight[:, model.config.d_model:].mul_(60)
    for layer in model.detr.model.decoder.layers:
        layer.encoder_attn.q_proj.weight.mul_(6)
        layer.encoder_attn.o_proj.weight.mul_(3)
    model.detr.class_labels_classifier.weight.mul_(2)


def detr_fixtures():
    image = pixels("d", 3, 3, 42, 51)
    mask = torch.zeros(3, 42, 51, dtype=torch.long)
    for i, (h, w) in enumerate(((42, 34), (25, 51), (42, 51))):
        mask[i, :h, :w] = 1
    masked = {**image, "pixel_mask": mask}
    yield "detr", dict(config=detr(), cases=[case("DetrModel", "masked", masked, args=HIDDEN), case("DetrForObjectDetection", "masked", masked),
                                             case("DetrForObjectDetection", "plain", pixels("e", 1, 3, 33, 40))])
    learned = detr(position_embedding_type="learned", activation_function="gelu", auxiliary_loss=True)
    yield "detr_learned", dict(config=learned, cases=[case("DetrModel", "masked", masked, args=HIDDEN)], dtype=torch.float16)
    yield "detr_timm_names", dict(config=detr(backbone_config=resnet(out_features=["stage3"], layer_type="basic")), stored_as=timm_names,
                                  cases=[case("DetrForObjectDetection", "masked", masked)])
    four = resnet(hidden_sizes=[8, 12, 16, 20], depths=[1, 1, 1, 1], out_features=["stage1", "stage2", "stage3", "stage4"])
    shaped = dict(config=detr(backbone_config=four, d_model=32, encoder_attention_heads=8), adjust=apart, cases=[case("DetrForSegmentation", "masked", masked)])
    yield "detr_masks", shaped
    yield "detr_masks_new_names", {**shaped, "hub": False, "dtype": torch.bfloat16}
    yield "detr_new_names", dict(config=detr(), cases=[case("DetrForObjectDetection", "masked", masked)], hub=False)


def table_fixtures():
    image = pixels("d", 3, 3, 42, 51)
    mask = torch.zeros(3, 42, 51, dtype=torch.long)
    for i, (h, w) in enumerate(((42, 34), (25, 51), (42, 51))):
        mask[i, :h, :w] = 1
    base = dict(backbone_config=resnet(out_features=["stage2", "stage3"]), d_model=16, num_queries=7, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                decoder_attention_heads=2, encoder_ffn_dim=19, decoder_ffn_dim=23, num_labels=4)
    masked = {**image, "pixel_mask": mask}
    yield "table_transformer", dict(config=T.TableTransformerConfig(**base), cases=[
        case("TableTransformerModel", "masked", masked, args=HIDDEN), case("TableTransformerForObjectDetection", "masked", masked),
        case("TableTransformerForObjectDetection", "plain", pixels("e", 1, 3, 33, 40))])
    learned = T.TableTransformerConfig(**{**base, "position_embedding_type": "learned", "activation_function": "gelu", "auxiliary_loss": True})
    yield "table_transformer_learned", dict(config=learned, cases=[case("TableTransformerModel", "masked", masked, args=HIDDEN)], dtype=torch.float16)


def even_points(model):
    """What the class fills this buffer with: random numbers there would be another model."""
    for name, p in model.named_buffers():
        if name.endswith("n_points_scale"):
            p.fill_(1 / model.config.decoder_n_points)


def clear_pixels(cls, config, *shape):
    """Pictures whose best pixels are apart: of close ones rounding would change which queries begin where."""
    model = getattr(T, cls)(config)
    tiny_models.randomise(model)
    model.eval()
    far, chosen = 0, None
    for attempt in range(250):
        found = pixels(f"{cls} {attempt}", *shape)
        spot = found["pixel_values"].mul_(0.3)  # and spots that stand out
        for item in spot:
            for _ in range(3):
                y, x = (int(torch.randint(0, n - 16, (1,))) for n in shape[2:])
                item[:, y:y + 16, x:x + 16] += 4 * torch.randn(3, 1, 1)
        with torch.no_grad():
            best = model(**found).enc_outputs_class.max(-1).values.sort(-1, descending=True).values[:, :config.num_queries + 1]
        apart = (best[:, :-1] - best[:, 1:]).min().item()
        if apart > far:
            far, chosen = apart, found
    assert far > 0.05, far
    return chosen


def rt_detr_fixtures():
    def config(kind, resnet_more={}, **more):
        back = T.RTDetrResNetConfig(**{"embedding_size": 8, "hidden_sizes": [8, 12, 16, 20], "depths": [1, 2, 1, 1], "layer_type": "basic", "out_features": ["stage2", "stage3", "stage4"], **resnet_more})
        return getattr(T, kind)(**{"backbone_config": back, "encoder_hidden_dim": 16, "encoder_in_channels": [12, 16, 20], "encoder_ffn_dim": 19, "encoder_attention_heads": 2, "d_model": 16, "num_queries": 2,
                                   "decoder_in_channels": [16, 16, 16], "decoder_ffn_dim": 23, "decoder_n_points": 3, "decoder_layers": 2, "decoder_attention_heads": 4, "num_labels": 5,
                                   "num_denoising": 2, **more})

    plain = ("decoder_hidden_states", "encoder_hidden_states")
    far = ("enc_outputs_coord_logits",)  # holds the largest number where there is no anchor
    one = config("RTDetrConfig")
    yield "rt_detr", dict(config=one, cases=[case("RTDetrForObjectDetection", name, clear_pixels("RTDetrForObjectDetection", one, *shape), skip=plain + far)
                                             for name, shape in (("batch", (2, 3, 96, 64)), ("wide", (1, 3, 64, 128)))])
    base = config("RTDetrConfig", {"layer_type": "bottleneck", "hidden_sizes": [16, 24, 32, 40], "downsample_in_bottleneck": True}, num_feature_levels=4, normalize_before=True,
                  hidden_expansion=0.5, eval_size=4, activation_function="gelu", encode_proj_layers=[1, 2], encoder_layers=2)
    yield "rt_detr_base", dict(config=base, dtype=torch.float16, cases=[case("RTDetrModel", "batch", clear_pixels("RTDetrModel", base, 1, 3, 96, 64), skip=plain + far)])
    two = config("RTDetrV2Config", decoder_offset_scale=0.7, layer_norm_eps=1e-4, batch_norm_eps=1e-4)
    yield "rt_detr_v2", dict(config=two, adjust=even_points, hub=False, dtype=torch.bfloat16,
                             cases=[case("RTDetrV2ForObjectDetection", "batch", clear_pixels("RTDetrV2ForObjectDetection", two, 1, 3, 96, 64), skip=plain + far)])
    # 189 pixels with 16 heads: rows of values have numbers beyond 2048, where halves have every second one
    many = config("RTDetrConfig", d_model=32, decoder_attention_heads=16, hidden_expansion=0.5)
    yield "rt_detr_heads", dict(config=many, dtype=torch.float16, cases=[case("RTDetrForObjectDetection", "square", clear_pixels("RTDetrForObjectDetection", many, 1, 3, 96, 96), skip=plain + far)])


def yolos(**more):
    return T.YolosConfig(**{**VIT, "image_size": [20, 30], "num_detection_tokens": 4, "num_labels": 3, "num_hidden_layers": 3, **more})


def yolos_fixtures():
    same, other = pixels("y", 3, 3, 20, 30), pixels("z", 2, 3, 41, 27)
    yield "yolos", dict(config=yolos(), cases=[case("YolosModel", "same", same, args=HIDDEN), case("YolosForObjectDetection", "other", other)])
    yield "yolos_plain", dict(config=yolos(use_mid_position_embeddings=False), cases=[case("YolosForObjectDetection", "same", same)], dtype=torch.bfloat16)


def dinov2_fixtures():
    same, other = pixels("y", 3, 3, 20, 20), pixels("z", 2, 3, 41, 27)
    base = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, image_size=20, patch_size=5, num_labels=4)
    for stem, name, more in (("Dinov2", "dinov2", {}), ("Dinov2WithRegisters", "dinov2_registers", {"num_register_tokens": 3})):
        make = getattr(T, f"{stem}Config")
        yield name, dict(config=make(**base, **more), cases=[case(f"{stem}Model", "same", same, args=HIDDEN), case(f"{stem}Model", "other", other),
                                                            case(f"{stem}ForImageClassification", "other", other)])
        swiglu = make(**{**base, "use_swiglu_ffn": True, "mlp_ratio": 3, "qkv_bias": False}, **more)
        yield f"{name}_swiglu", dict(config=swiglu, cases=[case(f"{stem}ForImageClassification", "same", same)], dtype=torch.float16)
        yield f"{name}_new_names", dict(config=swiglu, cases=[case(f"{stem}ForImageClassification", "same", same)], hub=False)


def dinov3_fixtures():
    base = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=29, image_size=20, patch_size=5)
    same, other = pixels("y", 3, 3, 20, 20), pixels("z", 2, 3, 41, 27)
    masked = {**same, "bool_masked_pos": torch.arange(48).view(3, 16) % 5 == 0}
    yield "dinov3", dict(config=T.DINOv3ViTConfig(**base, num_register_tokens=2), prefixed=False, cases=[
        case("DINOv3ViTModel", "same", same, args=HIDDEN), case("DINOv3ViTModel", "other", other), case("DINOv3ViTModel", "masked", masked)])
    odd = dict(use_gated_mlp=True, query_bias=False, key_bias=True, value_bias=False, proj_bias=False, mlp_bias=False, rope_theta=30.0, hidden_act="silu", layer_norm_eps=1e-3, num_channels=1)
    yield "dinov3_new_names", dict(config=T.DINOv3ViTConfig(**{**base, **odd}), prefixed=False, hub=False, dtype=torch.float16, cases=[case("DINOv3ViTModel", "other", pixels("o", 2, 1, 23, 36))])
    convs = dict(hidden_sizes=[6, 10, 12], depths=[1, 2, 1])
    wide = pixels("c", 3, 3, 41, 35)
    yield "dinov3_convnext", dict(config=T.DINOv3ConvNextConfig(**convs), prefixed=False, cases=[case("DINOv3ConvNextModel", "batch", wide, args=HIDDEN)])
    yield "dinov3_convnext_new_names", dict(config=T.DINOv3ConvNextConfig(**{**convs, "layer_norm_eps": 1e-3, "hidden_act": "relu"}), prefixed=False, hub=False, dtype=torch.bfloat16,
                                            cases=[case("DINOv3ConvNextModel", "batch", wide)])


# ---- DPT, Depth Anything ----

NECK = dict(neck_hidden_sizes=[8, 12, 16], reassemble_factors=[2, 1, 0.5], fusion_hidden_size=10)


def louder(model):
    """Depth that differs from pixel to pixel: of random weights the last relu would pass little."""
    for name, p in model.named_parameters():
        if name in ("head.head.4.weight", "head.conv3.weight"):
            p.abs_()


def dpt_fixtures():
    same, other = pixels("y", 3, 3, 20, 20), pixels("z", 2, 3, 33, 30)
    base = {**VIT, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 19, "num_hidden_layers": 3, "backbone_out_indices": [1, 0, 2], **NECK, "num_labels": 4}
    yield "dpt", dict(config=T.DPTConfig(**base), adjust=louder, cases=[
        case("DPTForDepthEstimation", "batch", same, args=HIDDEN), case("DPTForDepthEstimation", "other", other), case("DPTModel", "batch", same, args=HIDDEN)])
    yield "dpt_segments", dict(config=T.DPTConfig(**base), cases=[case("DPTForSemanticSegmentation", "batch", same)], dtype=torch.float16)
    odd = T.DPTConfig(**{**base, "readout_type": "add", "use_batch_norm_in_fusion_residual": True, "qkv_bias": False, "hidden_act": "gelu_new", "layer_norm_eps": 1e-3,
                         "head_in_index": 1, "num_channels": 1, "reassemble_factors": [4, 1, 0.25]})
    yield "dpt_add", dict(config=odd, adjust=louder, cases=[case("DPTForDepthEstimation", "other", pixels("o", 2, 1, 41, 43))], dtype=torch.float16)
    plain = T.DPTConfig(**{**base, "readout_type": "ignore", "use_batch_norm_in_fusion_residual": True, "use_bias_in_fusion_residual": True, "backbone_out_indices": [2],
                           "neck_hidden_sizes": [16], "reassemble_factors": [0.5], "use_auxiliary_head": False})
    yield "dpt_ignore", dict(config=plain, adjust=louder, cases=[case("DPTForDepthEstimation", "batch", same)], dtype=torch.bfloat16)
    seen = dict(hidden_size=16, num_hidden_layers=3, num_attention_heads=2, image_size=20, patch_size=5, out_features=["stem", "stage2", "stage3"], reshape_hidden_states=False)
    wide, tall = pixels("w", 2, 3, 26, 41), pixels("t", 1, 3, 50, 15)
    behind = T.DPTConfig(backbone_config=T.Dinov2Config(**{**seen, "apply_layernorm": False}), **NECK)
    yield "dpt_dinov2", dict(config=behind, adjust=louder, cases=[case("DPTForDepthEstimation", "wide", wide), case("DPTForDepthEstimation", "tall", tall, args=HIDDEN)], dtype=torch.float16)
    anything = dict(backbone_config=T.Dinov2Config(**seen), patch_size=5, reassemble_hidden_size=16, head_hidden_size=7, **NECK)
    yield "depth_anything", dict(config=T.DepthAnythingConfig(**anything), adjust=louder, cases=[
        case("DepthAnythingForDepthEstimation", "batch", same, args=HIDDEN), case("DepthAnythingForDepthEstimation", "wide", wide),
        case("DepthAnythingForDepthEstimation", "tall", tall)])
    # wide enough for convolutions at int8, and for codes through the resize of the head and ReLUs between them
    coded = T.DepthAnythingConfig(**{**anything, "backbone_config": T.Dinov2Config(**{**seen, "out_features": ["stage3"]}), "neck_hidden_sizes": [12],
                                     "reassemble_factors": [1], "fusion_hidden_size": 44, "head_hidden_size": 20})
    yield "depth_anything_coded", dict(config=coded, adjust=louder, cases=[case("DepthAnythingForDepthEstimation", "wide", wide)], dtype=torch.float16)
    metric = T.DepthAnythingConfig(**{**anything, "depth_estimation_type": "metric", "max_depth": 80, "head_in_index": -2})
    yield "depth_anything_metric", dict(config=metric, cases=[case("DepthAnythingForDepthEstimation", "wide", wide)], dtype=torch.float16)


# ---- Swin ----

def swin_fixtures():
    base = dict(image_size=32, patch_size=2, embed_dim=6, depths=[2, 2], num_heads=[2, 3], window_size=4, num_labels=5)
    image = pixels("s", 3, 3, 32, 32)
    yield "swin", dict(config=T.SwinConfig(**base), cases=[case("SwinModel", "batch", image, args=HIDDEN), case("SwinForImageClassification", "batch", image),
                                                           case("SwinModel", "wide", pixels("q", 2, 3, 33, 55), args=HIDDEN), case("SwinModel", "least", pixels("p", 1, 3, 15, 40))])
    odd = T.SwinConfig(**{**base, "image_size": 27, "window_size": 3, "mlp_ratio": 2.5, "qkv_bias": False, "hidden_act": "relu", "layer_norm_eps": 1e-3, "depths": [2, 1, 2],
                          "num_heads": [1, 2, 4]})
    yield "swin_odd", dict(config=odd, cases=[case("SwinForImageClassification", "batch", pixels("o", 2, 3, 27, 27))], dtype=torch.float16)
    places = T.SwinConfig(**{**base, "use_absolute_embeddings": True})
    larger = case("SwinForImageClassification", "larger", pixels("n", 2, 3, 40, 24), args={"interpolate_pos_encoding": True})
    yield "swin_places", dict(config=places, cases=[case("SwinForImageClassification", "batch", image), larger], dtype=torch.bfloat16)
    seed("hidden")
    masked = {**image, "bool_masked_pos": torch.rand(3, 256) > 0.5}
    yield "swin_masked", dict(config=T.SwinConfig(**{**base, "encoder_stride": 4}), cases=[case("SwinForMaskedImageModeling", "batch", masked)], dtype=torch.float16)
    yield "swin_new_names", dict(config=T.SwinConfig(**base), cases=[case("SwinForImageClassification", "batch", image)], hub=False)


# ---- X-CLIP, ConvNeXt, SegFormer ----

def xclip_fixtures():
    seen = {**SEEN, "num_frames": 3, "mit_hidden_size": 14, "mit_intermediate_size": 19, "mit_num_hidden_layers": 2, "mit_num_attention_heads": 2}
    config = T.XCLIPConfig(text_config={**TEXT, "eos_token_id": 60}, vision_config=seen, projection_dim=14, prompt_layers=2, prompt_num_attention_heads=2)
    text, video = texts("t", 61, 9, (9, 4, 6), eos=60), pixels("v", 2, 3, 3, 20, 20)
    cases = [case("XCLIPModel", "both", {**text, **video}, args=HIDDEN), case("XCLIPModel", "wide", {**text, **pixels("w", 1, 3, 3, 26, 17)}, args=BIG)]
    yield "xclip", dict(config=config, cases=cases, prefixed=False)
    yield "xclip_fp16", dict(config=config, cases=cases[:1], prefixed=False, dtype=torch.float16)
    yield "xclip_text", dict(config=config.text_config, prefixed=False, cases=[case("XCLIPTextModel", "batch", text, args=HIDDEN)])
    yield "xclip_vision", dict(config=config.vision_config, prefixed=False, cases=[case("XCLIPVisionModel", "batch", pixels("p", 6, 3, 20, 20), args=HIDDEN)])


def convnext_fixtures():
    base = dict(hidden_sizes=[6, 10, 12], depths=[1, 2, 1], num_stages=3, patch_size=4, num_labels=5)
    image = pixels("c", 3, 3, 41, 35)
    yield "convnext", dict(config=T.ConvNextConfig(**base), cases=[case("ConvNextModel", "batch", image, args=HIDDEN), case("ConvNextForImageClassification", "batch", image)])
    odd = T.ConvNextConfig(**{**base, "hidden_sizes": [6, 6, 12], "layer_scale_init_value": 0.0, "hidden_act": "relu", "num_channels": 1, "patch_size": 3, "layer_norm_eps": 1e-3})
    yield "convnext_odd", dict(config=odd, cases=[case("ConvNextForImageClassification", "batch", pixels("o", 2, 1, 36, 40))], dtype=torch.float16)


def segformer_fixtures():
    base = dict(num_encoder_blocks=3, depths=[1, 2, 1], sr_ratios=[4, 2, 1], hidden_sizes=[8, 12, 16], patch_sizes=[7, 3, 3], strides=[4, 2, 2], num_attention_heads=[1, 2, 4],
                mlp_ratios=[2, 3, 2], decoder_hidden_size=10, num_labels=5)
    image = pixels("g", 3, 3, 43, 37)
    yield "segformer", dict(config=T.SegformerConfig(**base), cases=[case("SegformerModel", "batch", image, args=HIDDEN), case("SegformerForImageClassification", "batch", image),
                                                                    case("SegformerForSemanticSegmentation", "batch", image)])
    rows = T.SegformerConfig(**{**base, "reshape_last_stage": False, "hidden_act": "relu"})
    yield "segformer_rows", dict(config=rows, cases=[case("SegformerModel", "batch", image), case("SegformerForImageClassification", "batch", image)], dtype=torch.bfloat16)
    yield "segformer_new_names", dict(config=T.SegformerConfig(**base), cases=[case("SegformerForSemanticSegmentation", "batch", image)], hub=False)


# ---- BLIP ----

def blip_config(hidden=24):
    text = dict(vocab_size=61, hidden_size=hidden, intermediate_size=27, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=12, bos_token_id=58, pad_token_id=0,
                eos_token_id=2, sep_token_id=2, projection_dim=14)
    return T.BlipConfig(text_config=text, vision_config={**SEEN, "hidden_size": 24, "projection_dim": 14}, projection_dim=14, image_text_hidden_size=11)


def blip_fixtures():
    text, image = texts("t", 61, 9, (9, 4, 6), pad=0), pixels("p", 3, 3, 20, 20)
    both, wide = {**text, **image}, {**texts("u", 61, 7, (7, 7), mask=False), **pixels("w", 2, 3, 26, 17)}
    rows = {"logits": text["attention_mask"]}
    cases = [case("BlipForConditionalGeneration", "both", both, mask=rows, args=HIDDEN), case("BlipForConditionalGeneration", "wide", wide, args=BIG)]
    yield "blip_caption", dict(config=blip_config(20), prefixed=False, cases=cases)
    asked = {**both, "decoder_input_ids": texts("v", 61, 3, (3, 3, 3))["input_ids"]}
    yield "blip_vqa", dict(config=blip_config(), prefixed=False, cases=[case("BlipForQuestionAnswering", "both", asked)], dtype=torch.float16)
    yield "blip_itm", dict(config=blip_config(), prefixed=False, cases=[case("BlipForImageTextRetrieval", "both", both), case("BlipForImageTextRetrieval", "apart", both, args={"use_itm_head": False})], dtype=torch.bfloat16)
    yield "blip", dict(config=blip_config(), prefixed=False, cases=[case("BlipModel", "both", both)])
    yield "blip_vision", dict(config=blip_config().vision_config, prefixed=False, cases=[case("BlipVisionModel", "batch", image, args=HIDDEN)])


# ---- LLaVA ----

def llava_fixtures():
    speak = dict(vocab_size=61, hidden_size=24, intermediate_size=27, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                 pad_token_id=0)
    seed("llava")
    ids = torch.randint(3, 55, (2, 40))
    ids[0, 5:21] = 59
    ids[1, 9:25] = 59
    mask = torch.ones_like(ids)
    mask[1, :6] = 0
    both = {"input_ids": ids, "attention_mask": mask, **pixels("p", 2, 3, 20, 20)}
    rows = {"logits": mask, "last_hidden_state": mask}
    def config(text, vision=None, **more):
        return T.LlavaConfig(text_config={"model_type": text, **speak}, vision_config={"model_type": "clip_vision_model", **SEEN, **(vision or {})}, image_token_index=59, **more)
    cases = [case("LlavaForConditionalGeneration", "both", both, mask={"logits": mask}, args=HIDDEN), case("LlavaModel", "both", both, mask={"last_hidden_state": mask})]
    yield "llava", dict(config=config("llama"), prefixed=False, cases=cases[:1], stored_as=lambda k: k.replace("vision_tower.", "vision_tower.vision_model."))
    yield "llava_base", dict(config=config("llama"), prefixed=False, cases=cases[1:], dtype=torch.float16)
    yield "llava_new_names", dict(config=config("mistral", vision_feature_layer=-1), prefixed=False, hub=False, cases=cases[:1])
    for name in ("phi3", "gemma2"):
        yield f"llava_{name}", dict(config=config(name), prefixed=False, cases=[case("LlavaForConditionalGeneration", "both", both, mask={"logits": mask})], dtype=torch.float16)
    factors = {"model_type": "granite", **speak, "embedding_multiplier": 3.0, "logits_scaling": 5.0, "residual_multiplier": 0.4, "attention_multiplier": 0.3}
    granite = T.LlavaConfig(text_config=factors, vision_config={"model_type": "clip_vision_model", **SEEN}, image_token_index=59)
    yield "llava_granite", dict(config=granite, prefixed=False, cases=[case("LlavaForConditionalGeneration", "both", both, mask={"logits": mask})], dtype=torch.float16)
    # decoders of GPT-2's kind; transformers has no way to tie their heads inside a LLaVA
    kin = {"gpt_neox": dict(intermediate_size=27, rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.7}), "gpt2": {}, "opt": dict(ffn_dim=27, word_embed_proj_dim=24), "bloom": {}, "falcon": dict(bias=True), "gemma": dict(head_dim=8, num_key_value_heads=1, intermediate_size=27)}
    base = {k: speak[k] for k in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")}
    for name, own in kin.items():
        text = {"model_type": name, **base, **own, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
        made = T.LlavaConfig(text_config=text, vision_config={"model_type": "clip_vision_model", **SEEN}, image_token_index=59)
        yield f"llava_{name}", dict(config=made, prefixed=False, cases=[case("LlavaForConditionalGeneration", "both", both, mask={"logits": mask})], dtype=torch.float16)
    full = config("qwen2", {"model_type": "siglip_vision_model"}, vision_feature_select_strategy="full", vision_feature_layer=[-1, 0], projector_hidden_act="relu",
                  multimodal_projector_bias=False)
    # tiles of 20 pixels: a wide and a tall picture, which leave padding on two sides
    tiled = T.LlavaNextConfig(text_config={"model_type": "llama", **speak}, vision_config={"model_type": "clip_vision_model", **SEEN}, image_token_index=59,
                              image_grid_pinpoints=[[20, 40], [40, 20], [40, 40]])
    model = T.LlavaNextForConditionalGeneration(tiled).eval()
    seen = {**pixels("n", 2, 5, 3, 20, 20), "image_sizes": torch.tensor([[15, 37], [50, 22]])}
    with torch.no_grad():
        counts = [f.shape[0] for f in model.model.get_image_features(**seen).pooler_output]
    ids = torch.full((2, max(counts) + 7), 7)
    mask = torch.zeros_like(ids)
    for row, n in enumerate(counts):
        ids[row, -n - 3:-3] = 59
        mask[row, -n - 5:] = 1
    tiled_cases = [case("LlavaNextForConditionalGeneration", "both", {"input_ids": ids, "attention_mask": mask, **seen}, mask={"logits": mask})]
    whole = T.LlavaNextConfig(text_config={"model_type": "qwen2", **speak}, vision_config={"model_type": "siglip_vision_model", **SEEN}, image_token_index=59,
                              image_grid_pinpoints=[[20, 40], [40, 20], [40, 40]], vision_feature_select_strategy="full")
    yield "llava_next_siglip", dict(config=whole, prefixed=False, cases=tiled_cases, dtype=torch.float16)
    yield "llava_next", dict(config=tiled, prefixed=False, cases=tiled_cases)
    yield "llava_next_new_names", dict(config=tiled, prefixed=False, cases=tiled_cases, hub=False, dtype=torch.bfloat16)
    yield "llava_siglip", dict(config=full, prefixed=False, cases=cases[:1], dtype=torch.bfloat16)


# ---- Qwen2-VL ----

IMAGE, VIDEO, BEGIN, END = 59, 58, 57, 56
LOOKS = dict(depth=2, embed_dim=24, num_heads=2, hidden_size=32, mlp_ratio=2, patch_size=4)
SAYS = dict(vocab_size=61, hidden_size=32, intermediate_size=37, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=128,
            rms_norm_eps=1e-6, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def qwen_config(sections, vision=None, kind=T.Qwen2VLConfig, **text):
    root = {"tie_word_embeddings": text.pop("tie_word_embeddings", False)}
    return kind(vision_config={**(LOOKS if kind is T.Qwen2VLConfig else {}), **(vision or {})}, image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=BEGIN, vision_end_token_id=END, **root,
                           text_config={**SAYS, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": sections}, **text})


def qwen_inputs(name, vision, rows, left=()):
    """rows: for each sequence the grids of its pictures (height, width in patches) and videos (frames, height, width); text of 2 to 4 tokens around them, and around each frame
    where `vision` has deepstack_visual_indexes (Qwen3-VL).  Rows in `left` are padded there, others at the right."""
    seed(name)
    v = {"temporal_patch_size": 2, "spatial_merge_size": 2, "in_channels": 3, **LOOKS, **vision}
    texts, merge = [], v["spatial_merge_size"]
    for n, grids in enumerate(rows):
        ids = torch.randint(3, 50, (2 + n,)).tolist()
        for *t, h, w in grids:
            shown = [VIDEO if t else IMAGE] * (h * w // merge ** 2)
            for frame in ([shown] * t[0] if "deepstack_visual_indexes" in vision else [shown * t[0]]) if t else [shown]:
                ids += [BEGIN] + frame + [END] + torch.randint(3, 50, (2,)).tolist()
        texts.append(ids)
    width = max(len(t) for t in texts)
    ids, mask = torch.zeros(len(rows), width, dtype=torch.long), torch.zeros(len(rows), width, dtype=torch.long)
    for n, t in enumerate(texts):
        at = width - len(t) if n in left else 0
        ids[n, at:at + len(t)] = torch.tensor(t)
        mask[n, at:at + len(t)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask}
    for pixels, grid, shown in (("pixel_values", "image_grid_thw", 2), ("pixel_values_videos", "video_grid_thw", 3)):
        sizes = torch.tensor([[1, *g][-3:] for grids in rows for g in grids if len(g) == shown])
        if len(sizes):
            inputs[pixels] = torch.randn(int(sizes.prod(-1).sum()), v["in_channels"] * v["temporal_patch_size"] * v["patch_size"] ** 2)
            inputs[grid] = sizes
    return {**inputs, "mm_token_type_ids": (ids == IMAGE).long() + 2 * (ids == VIDEO).long()}


def seconds(inputs, row, each):
    """The inputs with second_per_grid_ts; of one row alone, whose pictures and videos are the last."""
    more = {} if each is None else {"second_per_grid_ts": torch.tensor(each)}
    if row is None:
        return {**inputs, **more}
    kept = {k: inputs[k][row:row + 1] for k in ("input_ids", "attention_mask", "mm_token_type_ids")}
    attended = kept["attention_mask"][0].bool()
    kept = {k: v[:, attended] for k, v in kept.items()}
    assert not (kept["input_ids"] == IMAGE).any()
    tokens, n, grid = int((kept["input_ids"] == VIDEO).sum()), 0, inputs["video_grid_thw"]
    while int(grid[len(grid) - n:].prod(-1).sum()) // 4 < tokens:
        n += 1
    last = grid[len(grid) - n:]
    return {**kept, "pixel_values_videos": inputs["pixel_values_videos"][-int(last.prod(-1).sum()):], "video_grid_thw": last, **more}


def flat(config):
    """config.json as the hub has it: no text_config, M-RoPE by its old name."""
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    text.pop("model_type")
    text["rope_scaling"] = {"type": "mrope", "mrope_section": rope["mrope_section"]}
    text["rope_theta"] = rope["rope_theta"]
    config.update({k: v for k, v in text.items() if k not in config})
    vision = config["vision_config"]
    vision.pop("rope_parameters", None)
    vision["model_type"], vision["in_chans"] = "qwen2_vl", 3


def qwen2_vl_fixtures():
    cls = "Qwen2VLForConditionalGeneration"

    def told(name, inputs, **more):
        return case(more.pop("cls", cls), name, inputs, mask={more.pop("rows", "logits"): inputs["attention_mask"]}, **more)

    two = qwen_inputs("two", {}, [[(4, 6), (2, 2)], [(6, 4)]], left=(1,))
    one = qwen_inputs("one", {}, [[(2, 10)]])
    given = {k: v for k, v in two.items() if k != "mm_token_type_ids"}
    seed("places")
    given["position_ids"] = torch.randint(0, 40, (3, *two["input_ids"].shape))
    moving = qwen_inputs("moving", {}, [[(3, 4, 2), (2, 6)], [(2, 2, 4), (5, 2, 2)]], left=(1,))
    yield "qwen2_vl", dict(config=qwen_config([2, 3, 3]), prefixed=False, cases=[
        told("both", two, args=HIDDEN), told("wide", one), told("placed", given), told("videos", moving), case(cls, "videos_greedy", seconds(moving, 1, None), generate=dict(max_new_tokens=8))])
    yield "qwen2_vl_base", dict(config=qwen_config([4, 2, 2]), prefixed=False, dtype=torch.float16, cases=[told("both", two, cls="Qwen2VLModel", rows="last_hidden_state", args=HIDDEN)])
    yield "qwen2_vl_flat", dict(config=qwen_config([2, 1, 1], num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True), prefixed=False, dtype=torch.bfloat16,
                                config_edit=flat, cases=[told("both", two)])
    odd = dict(depth=1, embed_dim=40, num_heads=5, mlp_ratio=3, patch_size=3, temporal_patch_size=1, spatial_merge_size=3, in_channels=1, hidden_act="gelu_pytorch_tanh")
    three = qwen_inputs("three", odd, [[(3, 9)], [(6, 3), (3, 3), (9, 6)], [(3, 6)]], left=(0,))
    yield "qwen2_vl_new_names", dict(config=qwen_config([1, 0, 7], odd, use_sliding_window=True, sliding_window=6, max_window_layers=1, num_hidden_layers=3), prefixed=False, hub=False,
                                     cases=[told("three", three, args=HIDDEN)])
    # windows of 2 x 2 rows of the text; pictures that fill them, do not, and are narrower than one
    near = dict(depth=3, hidden_size=24, out_hidden_size=32, num_heads=2, intermediate_size=29, patch_size=4, window_size=16, fullatt_block_indexes=[1])
    cls = "Qwen2_5_VLForConditionalGeneration"
    some = qwen_inputs("windows", near, [[(8, 8), (2, 10)], [(6, 10)]], left=(1,))
    newer = T.Qwen2_5_VLConfig
    moving = qwen_inputs("moving windows", near, [[(3, 8, 10), (6, 6)], [(2, 10, 2), (4, 2, 4)]], left=(0,))
    yield "qwen2_5_vl", dict(config=qwen_config([2, 3, 3], {**near, "tokens_per_second": 3}, newer), prefixed=False, cases=[
        told("both", some, cls=cls, args=HIDDEN), told("videos", seconds(moving, None, [0.83, 2.0, 0.0]), cls=cls), told("frames", moving, cls=cls),
        case(cls, "videos_greedy", seconds(moving, 1, [1.7, 0.4]), generate=dict(max_new_tokens=8))])
    yield "qwen2_5_vl_base", dict(config=qwen_config([2, 3, 3], near, newer), prefixed=False, dtype=torch.float16,
                                  cases=[told("both", some, cls="Qwen2_5_VLModel", rows="last_hidden_state")])
    wide = {**near, "window_size": 35, "patch_size": 5, "num_heads": 3, "hidden_act": "gelu_pytorch_tanh", "fullatt_block_indexes": []}  # 35 // 2 // 5: 3 rows
    yield "qwen2_5_vl_new_names", dict(config=qwen_config([6, 1, 1], wide, newer, tie_word_embeddings=True), prefixed=False, dtype=torch.bfloat16, hub=False,
                                       cases=[told("both", qwen_inputs("wide", wide, [[(8, 14)], [(4, 4), (2, 2)]]), cls=cls)])


# ---- Qwen3-VL ----

STACKS = dict(depth=3, hidden_size=24, out_hidden_size=32, num_heads=2, intermediate_size=29, patch_size=4, num_position_embeddings=30, deepstack_visual_indexes=[0, 2])


def qwen3_config(sections, vision=None, kind=T.Qwen3VLConfig, **text):
    root = {"tie_word_embeddings": text.pop("tie_word_embeddings", False)}
    rope = {"rope_type": "default", "rope_theta": 10000.0, **({"mrope_section": sections, "mrope_interleaved": True} if sections else {})}
    return kind(vision_config={**STACKS, **(vision or {})}, image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=BEGIN, vision_end_token_id=END, **root,
                text_config={**SAYS, "head_dim": 16, "rope_parameters": rope, **text})


def qwen3_vl_fixtures():
    def told(name, inputs, cls="Qwen3VLForConditionalGeneration", rows="logits", **more):
        return case(cls, name, inputs, mask={rows: inputs["attention_mask"]}, **more)

    two = qwen_inputs("deep", STACKS, [[(4, 6), (2, 2)], [(6, 4)]], left=(1,))
    given = {k: v for k, v in two.items() if k != "mm_token_type_ids"}
    seed("interleaved")
    given["position_ids"] = torch.randint(0, 40, (3, *two["input_ids"].shape))
    moving = qwen_inputs("moving stacks", STACKS, [[(3, 4, 2), (2, 6)], [(2, 2, 4), (4, 2, 2)]], left=(1,))
    yield "qwen3_vl", dict(config=qwen3_config([3, 3, 2]), prefixed=False, cases=[
        told("both", two, args=HIDDEN), told("wide", qwen_inputs("thin", STACKS, [[(2, 10)]])), told("placed", given), told("videos", moving),
        case("Qwen3VLForConditionalGeneration", "videos_greedy", seconds(moving, 1, None), generate=dict(max_new_tokens=8))])
    yield "qwen3_vl_base", dict(config=qwen3_config([4, 3, 1]), prefixed=False, dtype=torch.float16, cases=[told("both", two, "Qwen3VLModel", "last_hidden_state", args=HIDDEN)])
    odd = {**STACKS, "depth": 2, "hidden_size": 12, "num_heads": 3, "patch_size": 3, "temporal_patch_size": 1, "spatial_merge_size": 3, "in_channels": 1, "hidden_act": "gelu",
           "num_position_embeddings": 4, "deepstack_visual_indexes": [1, 0]}
    three = qwen_inputs("deeper", odd, [[(3, 9)], [(6, 3), (3, 3), (9, 6)], [(3, 6)]], left=(0,))
    yield "qwen3_vl_new_names", dict(config=qwen3_config(None, odd, attention_bias=True, tie_word_embeddings=True, num_hidden_layers=3, head_dim=20), prefixed=False, hub=False, cases=[told("three", three, args=HIDDEN)])
    experts = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=8, mlp_only_layers=[1], num_hidden_layers=3)
    for name, hub in (("qwen3_vl_moe", True), ("qwen3_vl_moe_new_names", False)):
        yield name, dict(config=qwen3_config([3, 3, 2], None, T.Qwen3VLMoeConfig, **experts), prefixed=False, hub=hub, dtype=torch.bfloat16,
                         cases=[told("both", two, "Qwen3VLMoeForConditionalGeneration")])


# ---- Gemma 3, PaliGemma ----

def rows_of(name, rows, width, left=(), low=3, high=50):
    """input_ids and attention_mask; rows: for each sequence numbers of text tokens, and of image tokens as negative numbers."""
    seed(name)
    ids, mask = torch.zeros(len(rows), width, dtype=torch.long), torch.zeros(len(rows), width, dtype=torch.long)
    for n, row in enumerate(rows):
        text = torch.cat([torch.randint(low, high, (k,)) if k > 0 else torch.full((-k,), IMAGE) for k in row])
        at = width - len(text) if n in left else 0
        ids[n, at:at + len(text)] = text
        mask[n, at:at + len(text)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def gemma_fixtures():
    speak = dict(vocab_size=61, hidden_size=24, intermediate_size=27, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=128, pad_token_id=0)
    seen = {**SEEN, "image_size": 30, "vision_use_head": False}  # 6 x 6 patches

    def told(cls, name, inputs, rows="logits", **more):
        return case(cls, name, inputs, mask={rows: inputs["attention_mask"]}, **more)

    def gemma3(window, tokens, vision=None, **text):
        return T.Gemma3Config(text_config={**speak, "sliding_window": window, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "query_pre_attn_scalar": 8, **text},
                              vision_config={**seen, **(vision or {})}, mm_tokens_per_image=tokens, image_token_index=IMAGE, boi_token_index=57, eoi_token_index=56)

    shown = rows_of("gemma", [[5, -9, 3], [2, -9, 1, -9, 2]], 25, left=(0,))
    shown["token_type_ids"] = (shown["input_ids"] == IMAGE).long()
    shown |= pixels("gemma", 3, 3, 30, 30)
    plain = {k: v for k, v in shown.items() if k != "token_type_ids"}
    cls = "Gemma3ForConditionalGeneration"
    yield "gemma3_pictures", dict(config=gemma3(7, 9), prefixed=False, cases=[told(cls, "both", shown, args=HIDDEN), told(cls, "causal", plain)],
                                  stored_as=lambda k: k.replace("vision_tower.", "vision_tower.vision_model."))
    yield "gemma3_pictures_wide", dict(config=gemma3(40, 9), prefixed=False, dtype=torch.float16, cases=[told("Gemma3Model", "both", shown, "last_hidden_state")])
    five = rows_of("five", [[1, -4, -4, 2]], 11)  # 5 x 5 patches: the last line and column are left out; two pictures without a token between them
    five["token_type_ids"] = (five["input_ids"] == IMAGE).long()
    five |= pixels("five", 2, 3, 25, 25)
    yield "gemma3_pictures_new_names", dict(config=gemma3(3, 5, {"image_size": 25}, final_logit_softcapping=2.0), prefixed=False, hub=False, dtype=torch.bfloat16, cases=[told(cls, "both", five)])

    def paligemma(text, vision=None, **root):
        return T.PaliGemmaConfig(text_config={"model_type": text, **speak}, vision_config={**SEEN, "vision_use_head": False, **(vision or {})}, image_token_index=IMAGE, projection_dim=24, hidden_size=24, **root)

    asked = rows_of("pali", [[-16, 4], [-16, 9]], 25, left=(0,))
    asked |= {"token_type_ids": torch.zeros_like(asked["input_ids"]), **pixels("pali", 2, 3, 20, 20)}
    answered = {**asked, "token_type_ids": (torch.arange(25) >= 21).long().expand(2, 25).clone()}
    cls = "PaliGemmaForConditionalGeneration"
    yield "paligemma", dict(config=paligemma("gemma"), prefixed=False, stored_as=lambda k: k.replace("vision_tower.", "vision_tower.vision_model."),
                            cases=[told(cls, "prompt", asked, args=HIDDEN), told(cls, "answered", answered), told(cls, "causal", {k: v for k, v in asked.items() if k != "token_type_ids"})])
    two = paligemma("gemma2")
    two.text_config.sliding_window = 6
    two.text_config.query_pre_attn_scalar = 8
    yield "paligemma2", dict(config=two, prefixed=False, dtype=torch.float16, cases=[told(cls, "prompt", asked), told(cls, "answered", answered)])
    # the image token lies behind the vocabulary
    beyond = paligemma("gemma")
    beyond.text_config.vocab_size = 58
    yield "paligemma_new_names", dict(config=beyond, prefixed=False, hub=False, dtype=torch.bfloat16,
                                      cases=[told(cls, "prompt", asked), case(cls, "greedy", asked, generate={"max_new_tokens": 9, "do_sample": False})])


# ---- Idefics3, SmolVLM, InternVL ----

def tile_fixtures():
    speak = dict(vocab_size=61, hidden_size=24, intermediate_size=27, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0)
    sees = dict(hidden_size=24, intermediate_size=31, num_hidden_layers=2, num_attention_heads=3)

    def told(cls, name, inputs, rows="logits", **more):
        return case(cls, name, inputs, mask={rows: inputs["attention_mask"]}, **more)

    def idefics(kind, side, patch, scale, text="llama", **more):
        return getattr(T, f"{kind}Config")(text_config={"model_type": text, **speak}, vision_config={**sees, "image_size": side, "patch_size": patch}, image_token_id=IMAGE, scale_factor=scale, **more)

    # 6 x 6 patches of which 3 x 3 join: 4 rows an image; the first prompt has one image and one of padding, in whose mask a part is hidden
    inputs = rows_of("idefics", [[3, -4, 2], [1, -4, 2, -4, 1]], 13, left=(0,))
    inputs |= {"pixel_values": torch.randn(2, 2, 3, 30, 30), "pixel_attention_mask": torch.ones(2, 2, 30, 30, dtype=torch.long)}
    inputs["pixel_values"][0, 1] = 0
    inputs["pixel_attention_mask"][0, 1] = 0
    inputs["pixel_attention_mask"][1, 0, 21:, :] = 0
    inputs["pixel_attention_mask"][1, 1, :, 10:] = 0
    bare = {k: v for k, v in inputs.items() if k != "pixel_attention_mask"}
    cls = "Idefics3ForConditionalGeneration"
    yield "idefics3", dict(config=idefics("Idefics3", 30, 5, 3), prefixed=False, cases=[told(cls, "both", inputs, args=HIDDEN), told(cls, "bare", bare)])
    yield "idefics3_base", dict(config=idefics("Idefics3", 40, 5, 3), prefixed=False, dtype=torch.float16, cases=[told("Idefics3Model", "smaller", inputs, "last_hidden_state")])
    # tables of 25 lines, where torch's single precision gives ten of them their neighbours' rows
    fine = rows_of("fine", [[2, -25, 3]], 30)
    fine |= pixels("fine", 1, 1, 3, 50, 50)
    fine["pixel_values"] = fine["pixel_values"].half().float()
    yield "idefics3_fine", dict(config=idefics("Idefics3", 50, 2, 5), prefixed=False, dtype=torch.bfloat16, cases=[told(cls, "one", fine, skip=("image_hidden_states",))])
    smol = rows_of("smol", [[2, -4, 3]], 9)
    smol |= pixels("smol", 1, 1, 3, 28, 28)
    yield "smolvlm", dict(config=idefics("SmolVLM", 28, 7, 2, tie_word_embeddings=True), prefixed=False, dtype=torch.bfloat16, cases=[told("SmolVLMForConditionalGeneration", "one", smol, skip=("image_hidden_states",))])

    def internvl(text="qwen2", **more):
        vision = {**sees, "image_size": [20, 20], "patch_size": [5, 5], **more.pop("vision", {})}
        return T.InternVLConfig(text_config={"model_type": text, **speak}, vision_config=vision, image_token_id=IMAGE, image_seq_length=4, **more)

    tiles = rows_of("tiles", [[3, -8, 2], [1, -4, 2]], 13, left=(0,))
    tiles |= pixels("tiles", 3, 3, 20, 20)
    cls = "InternVLForConditionalGeneration"
    yield "internvl", dict(config=internvl(), prefixed=False, cases=[told(cls, "both", tiles, args=HIDDEN)])
    more = dict(attention_bias=True, use_qk_norm=True, norm_type="rms_norm", use_mean_pooling=False, hidden_act="gelu_new", layer_norm_eps=1e-4)
    yield "internvl_base", dict(config=internvl("llama", vision=more, projector_hidden_act="relu"), prefixed=False, dtype=torch.float16, cases=[told("InternVLModel", "both", tiles, "last_hidden_state")])
    large = rows_of("large", [[3, -9, 2]], 14)
    large |= pixels("large", 1, 3, 30, 30)
    yield "internvl_new_names", dict(config=internvl(vision={"use_mean_pooling": False}, vision_feature_layer=1, tie_word_embeddings=False), prefixed=False, hub=False, dtype=torch.bfloat16,
                                     cases=[told(cls, "large", large)])
    yield "internvl_quarter", dict(config=internvl(downsample_ratio=0.25, vision={"use_absolute_position_embeddings": False, "image_size": 40, "use_mask_token": True}), prefixed=False,
                                   dtype=torch.float16, cases=[told(cls, "both", {**rows_of("quarter", [[2, -4, 1]], 7), **pixels("q", 1, 3, 40, 40)})])


# ---- Florence-2 ----

def florence(vision=None, text=None, **more):
    seen = dict(depths=[1, 2, 1], patch_size=[7, 3, 3], patch_stride=[4, 2, 2], patch_padding=[3, 1, 1], patch_prenorm=[False, True, True], embed_dim=[8, 12, 16], num_heads=[2, 3, 4],
                num_groups=[2, 3, 4], window_size=3, projection_dim=20, max_position_embeddings=6, max_temporal_embeddings=5)
    speak = dict(model_type="bart", vocab_size=61, d_model=20, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=27, decoder_ffn_dim=23, encoder_attention_heads=4, decoder_attention_heads=2,
                 max_position_embeddings=48, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None)
    return T.Florence2Config(vision_config={**seen, **(vision or {})}, text_config={**speak, **(text or {})}, image_token_id=IMAGE, **more)


def florence_fixtures():
    base, cls = "Florence2Model", "Florence2ForConditionalGeneration"
    # windows of 3 x 3 fill no stage of these pictures; 13 rows each in the last stage
    seen = rows_of("florence", [[-13, 3], [-13, 6], [-13, 4]], 19) | pixels("f", 3, 3, 52, 37)
    told = rows_of("told", [[2], [4], [3]], 4)
    both = {**seen, "decoder_input_ids": told["input_ids"], "decoder_attention_mask": told["attention_mask"]}
    rows = dict(mask={"logits": told["attention_mask"]}, skip=("decoder_hidden_states",))
    wide = rows_of("wide", [[1, -19, 1], [-19, 4]], 23) | pixels("w", 2, 3, 41, 96)
    yield "florence2", dict(config=florence(), cases=[
        case(base, "alone", seen, args=HIDDEN, mask={}, skip=("decoder_hidden_states",)), case(cls, "both", both, args=HIDDEN, **rows), case(cls, "wide", wide),
        case(cls, "greedy", seen, generate=dict(max_new_tokens=9)), case(cls, "beam", wide, generate=dict(max_new_tokens=7, num_beams=3))])
    odd = florence(dict(in_channels=1, depths=[2, 1], patch_size=[5, 2], patch_stride=[3, 2], patch_padding=[2, 0], patch_prenorm=[True, False], embed_dim=[6, 10], num_heads=[3, 5], num_groups=[1, 2],
                        window_size=4, mlp_ratio=2.5, qkv_bias=False, activation_function="relu", projection_dim=18, drop_path_rate=0.0),
                   dict(d_model=18, encoder_attention_heads=3, scale_embedding=True, activation_function="gelu_new", encoder_layers=1, tie_word_embeddings=False), tie_word_embeddings=False)
    one = rows_of("odd", [[1, -13, 1]], 15) | pixels("o", 1, 1, 17, 26)
    yield "florence2_odd", dict(config=odd, cases=[case(cls, "one", {**one, "decoder_input_ids": told["input_ids"][1:2]})], dtype=torch.float16)
    yield "florence2_tied", dict(config=florence(dict(depths=[0, 1, 1])), cases=[case(cls, "wide", wide)], hub=False, dtype=torch.bfloat16)


def main():
    groups = [vit_fixtures, clip_fixtures, siglip_fixtures, resnet_fixtures, detr_fixtures, table_fixtures, rt_detr_fixtures, yolos_fixtures, dinov2_fixtures, dinov3_fixtures, dpt_fixtures, swin_fixtures, xclip_fixtures, convnext_fixtures, segformer_fixtures, blip_fixtures, llava_fixtures,
              qwen2_vl_fixtures, qwen3_vl_fixtures, gemma_fixtures, tile_fixtures, florence_fixtures]
    tiny_models.run(groups, "goldens_vision.list", sys.argv[1:])


if __name__ == "__main__":
    main()
