#!/usr/bin/env python3
"""Makes src/hardware/selftest_ops_data.h: one case or two of each op, out of the goldens of the conformance suite (tests/fixtures/ops, made by
make_op_goldens.py with torch), as tables in C.

    python3 tests/goldens/hardware_selftest_ops.py > src/hardware/selftest_ops_data.h
"""
import json
import os
import re
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
OPS = os.path.join(HERE, "..", "fixtures", "ops")
DEFINITIONS = os.path.join(HERE, "..", "..", "include", "accel", "ops.def")
CASES = ["linear.glu_gate_last_silu", "matmul.trans_b_scale", "attention.plain", "rope.half", "norm.layer_plain", "norm.rms_gemma", "group_norm.plain",
         "conv.rows_causal", "conv.uneven_pads", "conv_transpose.sound", "gather.rows", "scatter_rows.add", "binary.add", "binary.div", "unary.gelu_large",
         "unary.silu_large", "unary.tanh_large", "unary.cos_large", "cast.f32_i32", "softmax.axis-1", "reduce.mean_fixed", "reduce.argmax_fixed", "topk.k4", "moe.plain",
         "selective_scan.mamba_bare", "gated_delta_rule.bare", "pool.sound", "resize.sound_linear_align0", "transpose.0213", "slice.middle", "broadcast.plain",
         "concat.last", "pad.zero"]


def read(op):
    with open(os.path.join(OPS, op + ".safetensors"), "rb") as f:
        blob = f.read()
    n = struct.unpack("<Q", blob[:8])[0]
    header = json.loads(blob[8:8 + n])
    return json.loads(header["__metadata__"]["cases"]), {k: v for k, v in header.items() if k != "__metadata__"}, blob[8 + n:]


def attributes():
    with open(DEFINITIONS) as f:
        found = re.findall(r'^ACCEL_ATTR\((\w+), *\d+, *"(\w+)", *(\w+)', f.read(), flags=re.M)
    return {key: (name, kind) for name, key, kind in found}


def number(value):
    if isinstance(value, int):
        return str(value)
    text = "%.9g" % value
    if text in ("inf", "-inf"):
        return ("-" if text[0] == "-" else "") + "INFINITY"
    return text + ("" if "." in text or "e" in text else ".0") + "f"


class Writer:
    def __init__(self, case, tensors, data):
        self.case, self.tensors, self.data, self.arrays, self.keys = case, tensors, data, [], attributes()
        self.symbol = re.sub(r"\W", "_", case["name"])

    def array(self, part, kind, values):
        name = "ops_%s_%s" % (self.symbol, part)
        lines, line = [], "   "
        for value in values:
            word = " " + value + ","
            if len(line) + len(word) > 118:
                lines.append(line)
                line = "   "
            line += word
        self.arrays.append("static const %s %s[] = {\n%s};" % (kind, name, "\n".join(lines + [line])))
        return name

    def tensor(self, run, part, role="i", use=0, space=-1):
        info = self.tensors["%s/%d/%s" % (self.case["name"], run, part)]
        begin, end = info["data_offsets"]
        raw = self.data[begin:end]
        real = info["dtype"] == "F32"
        values = struct.unpack("<%d%s" % (len(raw) // 4, "f" if real else "i"), raw)
        name = self.array(part, "float" if real else "int32_t", [number(v) for v in values])
        return "{'%s', ACCEL_PLUGIN_%s, %d, %d, %d, %d, {%s}, %s}" % (role, info["dtype"], len(info["shape"]), use, space, len(values),
                                                                   ", ".join(str(d) for d in info["shape"]) or "0", name)

    def attribute(self, key, value):
        name, kind = self.keys[key]
        if kind in ("IV", "D"):
            values = value["dims"] if kind == "D" else value
            return "{.key = ACCEL_PLUGIN_ATTR_%s, .type = ACCEL_PLUGIN_ATTR_%s, .n = %d, .v = %s}" % (
                name, kind, len(values), self.array("a_" + key, "int64_t", [str(int(v)) for v in values]))
        field = ".f = %r" % float(value) if kind == "F" else ".i = %d" % int(value)
        return "{.key = ACCEL_PLUGIN_ATTR_%s, .type = ACCEL_PLUGIN_ATTR_%s, %s}" % (name, kind, field)

    def struct(self):
        c = self.case
        assert c["runs"] == 1 and not c.get("state"), c["name"]
        operands = []
        for i, role in enumerate(c["roles"]):
            spaces = c.get("space") or []
            operands.append("{.role = '-'}" if role == "-" else
                            self.tensor(0, "in%d" % i, role, (c.get("uses") or [0] * 99)[i], spaces[i] if i < len(spaces) else -1))
        outs = [self.tensor(0, "out%d" % k) if wanted else "{.role = '-'}" for k, wanted in enumerate(c["outputs"])]
        spaces = []
        for s, space in enumerate(c.get("spaces") or []):
            if space.get("ragged"):
                spaces.append("{%s, 0, 0}" % self.tensor(0, "len%d" % s))
            else:
                spaces.append("{{.role = '-'}, %d, %d}" % (space["rows"], space["items"]))
        attrs = [self.attribute(k, v) for k, v in c["attrs"].items()]
        parts = [".name = \"%s\"" % c["name"], ".op = ACCEL_PLUGIN_OP_%s" % c["op"], ".n_operand = %d" % len(operands), ".n_out = %d" % len(outs),
                 ".n_space = %d" % len(spaces), ".n_attr = %d" % len(attrs), ".operand = {%s}" % ", ".join(operands), ".out = {%s}" % ", ".join(outs)]
        parts += [".space = {%s}" % ", ".join(spaces)] if spaces else []
        parts += [".attr = {%s}" % ", ".join(attrs)] if attrs else []
        return "    {" + ",\n     ".join(parts) + "},"


def main():
    print("/* selftest_ops_data.h - cases of every op with what they must give.  Made by tests/goldens/hardware_selftest_ops.py. */\n/* clang-format off */")
    structs = []
    for name in CASES:
        cases, tensors, data = read(name.split(".")[0])
        writer = Writer(next(c for c in cases if c["name"] == name), tensors, data)
        structs.append(writer.struct())
        print("\n".join(writer.arrays))
    print("static const selftest_op selftest_ops[] = {\n%s\n};\n/* clang-format on */" % "\n".join(structs))


if __name__ == "__main__":
    main()
