"""Checkpoints in bf16 that tests write: random values of +-2^-7 .. 2^-5, so that nothing grows, but for tensors that are given."""
import json
import os
import struct

SIGNS = bytes(0x3C if b & 1 else 0xBC for b in range(256))


def random_bf16(n, chance):
    """Bytes of n values."""
    data = bytearray(chance.getrandbits(16 * n).to_bytes(2 * n, "little"))
    data[1::2] = bytes(data[1::2]).translate(SIGNS)
    return data


def write_checkpoint(directory, config, tensors, chance, given=None):
    """config.json, and model.safetensors of tensors {name: shape}; given: {name: bytes, or a function that answers them}.  Answers the bytes of all tensors."""
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    header, at = {}, 0
    for name, shape in tensors.items():
        n = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(directory, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, entry in header.items():
            n = entry["data_offsets"][1] - entry["data_offsets"][0]
            values = (given or {}).get(name)
            if values is None:
                values = random_bf16(n // 2, chance)
            elif callable(values):
                values = values()
            assert len(values) == n, name
            f.write(values)
    return at


def bf16(values):
    """Bytes of numbers that bf16 holds."""
    return b"".join(struct.pack("<f", v)[2:] for v in values)
