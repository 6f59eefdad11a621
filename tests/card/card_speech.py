"""A folder from which `accel bench --task transcribe --random-weights` times a Whisper of a true shape where no model can be downloaded."""
import json
import os
import shutil

SMALL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fixtures", "speech", "english")


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        return json.load(f)


def make(folder, config):
    """`config` (sizes alone count) with the tokens, and the tokenizer, of a small model of the tests; sounds of 30 seconds."""
    small, audio, generation = (read(SMALL, name) for name in ("config.json", "preprocessor_config.json", "generation_config.json"))
    tokens = {key: value for key, value in small.items() if "token" in key}
    audio.update(chunk_length=30, n_samples=480000, nb_max_frames=3000, feature_size=config["num_mel_bins"])
    generation.update(max_length=config["max_target_positions"])
    del generation["alignment_heads"]  # of other layers
    os.makedirs(folder, exist_ok=True)
    for name, content in (("config.json", {**config, **tokens}), ("preprocessor_config.json", audio), ("generation_config.json", generation)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(content, f)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(SMALL, name), folder)
    return folder
