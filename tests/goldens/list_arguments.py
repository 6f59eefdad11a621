#!/usr/bin/env python3
"""Writes tests/fixtures/arguments.json: of the classes that the fixtures of tests/fixtures/models show, what their processors write and their forward takes.

    python3 tests/goldens/list_arguments.py

What a tokenizer, an image processor, a feature extractor or a processor of a model type returns (model_input_names) is handed to the model as it is:
model(**processor(...)).  tests/python/test_arguments.py holds accel_run to taking all of it.  "other": what forward takes beside that and this library's program
does not, for whoever looks for what is left.
"""
import glob
import inspect
import json
import os
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
import transformers
from transformers.models.auto import feature_extraction_auto, image_processing_auto, processing_auto, tokenization_auto, video_processing_auto

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
TABLES = (tokenization_auto.TOKENIZER_MAPPING_NAMES, image_processing_auto.IMAGE_PROCESSOR_MAPPING_NAMES, feature_extraction_auto.FEATURE_EXTRACTOR_MAPPING_NAMES,
          processing_auto.PROCESSOR_MAPPING_NAMES, video_processing_auto.VIDEO_PROCESSOR_MAPPING_NAMES)
# Not tensors of the input, or of training, or a cache.
ASIDE = ("self", "kwargs", "labels", "inputs_embeds", "past_key_values", "use_cache", "cache_params", "encoder_outputs", "return_dict", "return_loss",
         "output_attentions", "output_hidden_states", "logits_to_keep", "start_positions", "end_positions", "future_values", "next_sentence_label",
         "sentence_order_label", "encoder_hidden_states", "encoder_attention_mask", "decoder_inputs_embeds")


def flat(names):
    if isinstance(names, dict):
        names = list(names.values())
    return [n for name in (names if isinstance(names, (list, tuple)) else [names]) if name for n in (flat(name) if isinstance(name, (list, tuple)) else [name])]


def written(kind):
    """model_input_names of everything that prepares inputs for a model type."""
    names = []
    for table in TABLES:
        for name in flat(table.get(kind)):
            made = getattr(getattr(transformers, name, None), "model_input_names", None)
            names += [n for n in made or [] if n not in names] if isinstance(made, (list, tuple)) else []
    return names


def main():
    found = {}
    for listing in sorted(glob.glob(str(FIXTURES / "models" / "goldens*.list"))):
        for line in open(listing):
            directory, golden, *_ = line.split()
            name = golden.split(".")[1]
            kind = json.loads((FIXTURES / "models" / directory / "config.json").read_text()).get("model_type")
            cls = getattr(transformers, name, None)
            if cls is None or kind is None or name in found:
                continue
            takes = [p for p in inspect.signature(cls.forward).parameters if p not in ASIDE]
            made = written(kind)
            found[name] = {"model": directory, "made": [n for n in made if n in takes], "other": [n for n in takes if n not in made]}
    text = ",\n".join(f" {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    (FIXTURES / "arguments.json").write_text("{\n" + text + "\n}\n")
    print(f"{len(found)} classes", file=sys.stderr)


if __name__ == "__main__":
    os.chdir(FIXTURES)
    main()
