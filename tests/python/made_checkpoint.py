"""Checkpoints in bf16 that tests write: random values of +-2^-7 .. 2^-6, so that nothing grows, but for tensors that are given."""
import json
import os
import struct


def write_checkpoint(directory, config, tensors, chance, given=None):
    """config.json, and model.safetensors of tensors {name: shape}; given: {name: bytes}.  Answers the bytes of all tensors."""
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    header, at = {}, 0
    for name, shape in tensors.items():
        n = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = bytearray(chance.getrandbits(8 * at).to_bytes(at, "little"))
    data[1::2] = bytes(data[1::2]).translate(bytes(0x3C if b & 1 else 0xBC for b in range(256)))
    for name, values in (given or {}).items():
        begin, end = header[name]["data_offsets"]
        assert len(values) == end - begin, name
        data[begin:end] = values
    with open(os.path.join(directory, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.write(data)
    return at


def bf16(values):
    """Bytes of numbers that bf16 holds."""
    return b"".join(struct.pack("<f", v)[2:] for v in values)
