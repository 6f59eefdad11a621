"""A SPIR-V module as wgsl.py needs it: types, constants, variables, and the blocks of its one function.

Words are those of the SPIR-V specification 1.3; what the kernels' compiler never makes is refused by name.
"""
import struct

UNKNOWN = "the WGSL writer (backends/gpu/spirv) has no word for it"


class Problem(Exception):
    """Something in a module that has no translation."""


class Instruction:
    """op: the opcode; type and id: of the result, 0 where there is none; args: the words that follow."""

    def __init__(self, op, kind, result, args):
        self.op, self.type, self.id, self.args = op, kind, result, args


class Block:
    def __init__(self, label):
        self.label, self.phis, self.body, self.end = label, [], [], None
        self.selection = self.loop = None  # the merge block; (merge block, continue target)


# Opcodes without a result, and those with an id but no type; all others have both.
NO_RESULT = {3, 4, 5, 6, 8, 10, 14, 15, 16, 17, 56, 62, 71, 72, 224, 225, 246, 247, 249, 250, 251, 253, 254, 255}
ONLY_ID = {11, 19, 20, 21, 22, 23, 24, 28, 29, 30, 32, 33, 248}
TERMINATORS = {249, 250, 251, 253, 255}
BRANCH, BRANCH_IF, SWITCH, RETURN, UNREACHABLE = 249, 250, 251, 253, 255
STORAGE = {1: "Input", 4: "Workgroup", 7: "Function", 9: "PushConstant", 12: "StorageBuffer"}


class Module:
    def __init__(self, data):
        words = struct.unpack(f"<{len(data) // 4}I", data)
        if len(words) < 5 or words[0] != 0x07230203:
            raise Problem("not SPIR-V")
        self.capabilities, self.types, self.constants, self.variables = set(), {}, {}, {}
        self.binding, self.builtin, self.local_size, self.defs = {}, {}, None, {}
        self.blocks, self.functions, self.extended = {}, 0, None
        block, at = None, 5
        while at < len(words):
            op, length = words[at] & 0xFFFF, words[at] >> 16
            if not length or at + length > len(words):
                raise Problem("not SPIR-V")
            block = self.take(decode(op, list(words[at + 1:at + length])), block)
            at += length

    def take(self, i, block):
        """One instruction; returns the block that is open behind it."""
        op, a = i.op, i.args
        if op == 17:
            self.capabilities.add(a[0])
        elif op == 16 and a[1] == 17:  # ExecutionMode LocalSize
            self.local_size = a[2]
        elif op == 71 and a[1] == 33:
            self.binding[a[0]] = a[2]
        elif op == 71 and a[1] == 11:
            self.builtin[a[0]] = a[2]
        elif op == 11:
            self.extended = i.id
        elif 19 <= op <= 33:
            self.types[i.id] = (op, a)
        elif op in (41, 42, 43, 44, 46, 1):  # true, false, a number, a composite, null, undefined
            self.constants[i.id] = i
        elif op == 59:
            self.variables[i.id] = i
        elif op == 54:
            self.functions += 1
            if self.functions > 1:
                raise Problem("a second function: " + UNKNOWN)
        elif op == 248:
            block = self.blocks[i.id] = Block(i.id)
            self.entry = getattr(self, "entry", i.id)
        elif op == 246:
            block.loop = (a[0], a[1])
        elif op == 247:
            block.selection = a[0]
        elif op == 245:
            block.phis.append(i)
            self.defs[i.id] = i
        elif op in TERMINATORS:
            block.end, block = i, None
        elif block:
            block.body.append(i)
            self.defs[i.id] = i
        return block

    def scalar(self, kind):
        """WGSL's name of a scalar or vector type."""
        op, a = self.types[kind]
        if op == 20:
            return "bool"
        if op == 21 and a[0] == 32:
            return "i32" if a[1] else "u32"
        if op == 22 and a[0] == 32:
            return "f32"
        if op == 23:
            return f"vec{a[1]}<{self.scalar(a[0])}>"
        raise Problem(f"type {op} {a}: {UNKNOWN}")

    def pointee(self, variable):
        """Storage class, and the type that a variable holds."""
        _, (storage, kind) = self.types[variable.type]
        if storage not in STORAGE:
            raise Problem(f"storage class {storage}: {UNKNOWN}")
        return STORAGE[storage], kind

    def array(self, kind):
        """WGSL's name of a type that a variable of a function or workgroup has."""
        op, a = self.types[kind]
        return f"array<{self.array(a[0])}, {self.constants[a[1]].args[0]}>" if op == 28 else self.scalar(kind)


def decode(op, words):
    if op in NO_RESULT:
        return Instruction(op, 0, 0, words)
    if op in ONLY_ID:
        return Instruction(op, 0, words[0], words[1:])
    return Instruction(op, words[0], words[1], words[2:])
