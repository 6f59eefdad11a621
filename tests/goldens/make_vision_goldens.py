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


def main():
    groups = [vit_fixtures]
    tiny_models.run(groups, "goldens_vision.list", sys.argv[1:])


if __name__ == "__main__":
    main()
