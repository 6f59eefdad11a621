"""Makes tests/fixtures/weights/: safetensors files as the official Python package writes them.

Run with the packages of requirements.txt:  python3 tests/goldens/make_weights_fixtures.py
Element i of every tensor is value(i) below; tests/unit/weights_checkpoint_test.c knows the same rule.
"""
import json
import pathlib

import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "weights"


def value(i):
    return i % 7 + (i % 2) * 0.5


def tensor(dtype, *shape):
    n = 1
    for dim in shape:
        n *= dim
    return torch.tensor([value(i) for i in range(n)], dtype=torch.float64).to(dtype).reshape(shape)


def main():
    dtypes = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool",
              "float8_e4m3fn", "float8_e5m2", "complex64"]
    tensors = {f"t.{name}": tensor(getattr(torch, name), 3, 5) for name in dtypes}
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 4)
    tensors["a \"quoted\" näme\n"] = tensor(torch.float32, 2)
    save_file(tensors, HERE / "dtypes.safetensors", metadata={"format": "pt", "note": "line\nbreak \u00e9 \U0001f600"})
    shards = [{"a.weight": tensor(torch.float16, 4, 3), "b.weight": tensor(torch.float32, 2)}, {"c.weight": tensor(torch.bfloat16, 2, 2, 2)}]
    weight_map = {}
    for i, shard in enumerate(shards):
        name = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        save_file(shard, HERE / "sharded" / name, metadata={"format": "pt"})
        weight_map.update({tensor_name: name for tensor_name in shard})
    index = {"metadata": {"total_size": 48}, "weight_map": weight_map}
    (HERE / "sharded" / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


main()
