#!/usr/bin/env python3
"""Compares registry entries with the configuration classes of transformers whose documentation names the same checkpoint.

    python3 tests/goldens/registry_defaults.py

Defaults of a class are often, but not always, that checkpoint's own; a field that differs is printed with both values, to be judged by hand.
"""
import json
import os
import pathlib
import re
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")
import transformers

REGISTRY = pathlib.Path(__file__).resolve().parents[2] / "registry" / "models"
NAMED = re.compile(r'auto_docstring\(checkpoint="([^"]+)"\).{0,200}?class (\w+Config)\b', re.S)


def differences(fields, defaults, path=""):
    for key, value in fields.items():
        have = defaults.get(key, "(absent)")
        have = have.to_dict() if hasattr(have, "to_dict") else have
        if isinstance(value, dict) and isinstance(have, dict):
            yield from differences(value, have, f"{path}{key}.")
        elif value != (list(have) if isinstance(have, tuple) else have):
            yield f"{path}{key}: {value}, default {have}"


def main():
    classes = {}
    for file in (pathlib.Path(transformers.__file__).parent / "models").glob("*/configuration_*.py"):
        for checkpoint, name in NAMED.findall(file.read_text(encoding="utf-8")):
            classes.setdefault(checkpoint.lower(), []).append(name)
    entries = [(file.name, entry) for file in sorted(REGISTRY.glob("*.json")) for entry in json.loads(file.read_text(encoding="utf-8"))["models"]]
    same = other = 0
    for file, entry in entries:
        found = []
        for name in classes.get(entry["id"].lower(), []):
            if hasattr(transformers, name):
                found.append((name, list(differences(entry.get("config", {}), getattr(transformers, name)().to_dict()))))
        if not found:
            continue
        name, lines = min(found, key=lambda f: len(f[1]))  # of a composite the whole one, not its parts
        same, other = same + (not lines), other + bool(lines)
        for line in lines:
            print(f"{file}: {entry['id']} ({name}): {line}")
    print(f"{len(entries)} entries; {same} are as the class of their name has it, {other} differ")


if __name__ == "__main__":
    main()
