"""SPIR-V of one kernel to WGSL, WebGPU's language, which browsers alone take.

Control flow is structured in both (loops and selections name where they meet again), so each construct becomes WGSL's.
What a block needs of another one that does not lie around it is kept in a variable of the function; a phi is a variable
that its predecessors set, read once at the block's begin.  Three things differ from Vulkan:

- parameters come in a uniform buffer, `P`, behind the kernel's buffers: pages have no immediate data;
- every buffer is an array of u32 under a name of two letters, `Ba` for binding 0: where two of them overlap, the plugin
  writes one name for both (backends/webgpu/wgp_wgsl.c), since WebGPU lets nothing be bound twice that is written;
- WGSL wants proof that a barrier is reached by all invocations.  What conditions around barriers are made of goes through
  workgroupUniformLoad where it depends on memory, outside of the loop that it bounds.
"""
import collections
import ctypes
import math
import struct

from spirv_module import BRANCH, BRANCH_IF, RETURN, SWITCH, UNKNOWN, UNREACHABLE, Problem

# opcode: sign, type that the operands are taken as (None: the result's)
BINARY = {128: ("+", None), 129: ("+", None), 130: ("-", None), 131: ("-", None), 132: ("*", None), 133: ("*", None),
          134: ("/", "u32"), 135: ("/", "i32"), 136: ("/", None), 137: ("%", "u32"), 138: ("%", "i32"), 139: ("%", "i32"),
          140: ("%", None), 197: ("|", None), 198: ("^", None), 199: ("&", None)}
SHIFT = {194: (">>", "u32"), 195: (">>", "i32"), 196: ("<<", None)}
COMPARE = {164: ("==", None), 165: ("!=", None), 170: ("==", None), 171: ("!=", None), 172: (">", "u32"), 173: (">", "i32"),
           174: (">=", "u32"), 175: (">=", "i32"), 176: ("<", "u32"), 177: ("<", "i32"), 178: ("<=", "u32"), 179: ("<=", "i32"),
           180: ("==", None), 184: ("<", None), 186: (">", None), 188: ("<=", None), 190: (">=", None),
           166: ("|", None), 167: ("&", None)}
CONVERT = {109: ("u32", "f32"), 110: ("i32", "f32"), 111: ("f32", "i32"), 112: ("f32", "u32")}  # to, from
EXTENDED = {1: "round", 2: "round", 3: "trunc", 4: "abs", 5: "abs", 8: "floor", 9: "ceil", 13: "sin", 14: "cos", 21: "tanh",
            26: "pow", 27: "exp", 28: "log", 29: "exp2", 30: "log2", 31: "sqrt", 32: "inverseSqrt", 37: "min", 38: "min",
            39: "min", 40: "max", 41: "max", 42: "max", 43: "clamp", 44: "clamp", 45: "clamp", 46: "mix", 50: "fma",
            58: "pack2x16float", 62: "unpack2x16float"}
ATOMIC = {234: "atomicAdd", 236: "atomicMin", 238: "atomicMax"}
BUILTIN = {24: "groups", 26: "group", 27: "lane"}  # NumWorkgroups, WorkgroupId, LocalInvocationId
BUILTIN_NAME = {"groups": "num_workgroups", "group": "workgroup_id", "lane": "local_invocation_id"}
ACCESS, LOAD, STORE, BARRIER, PHI = 65, 61, 62, 224, 245
DEEPEST = 12  # parentheses in one another


class Control:
    """What decides whether a statement is reached: a selection by its condition, a loop by all its exits."""

    def __init__(self, conditions, loop=False):
        self.conditions, self.loop = conditions, loop


class Writer:
    """One walk over the module.  The first learns where values are made and used; the second has, from it, the values that
    need a variable (`kept`), those that WGSL must be told to be the same in the whole workgroup (`told`), and those that
    are written where they are used (`within`)."""

    def __init__(self, module, kept=frozenset(), told=frozenset(), within=frozenset()):
        self.m, self.kept, self.told, self.within = module, kept, told, within
        self.lines, self.depth, self.scope, self.scopes = [], 1, (), 0
        self.texts, self.nested = {}, {}  # of values that are no variables; how deep they are nested
        self.controls, self.written = (), set()
        self.loop = self.switch = None  # the innermost: (merge block, continue target, Control); (merge block, Control)
        self.made, self.used, self.uses, self.loads, self.barriers, self.sets = {}, [], collections.Counter(), {}, [], {}
        self.atomic = {self.root(i.args[0]) for i in module.defs.values() if i.op in ATOMIC}

    # ---- text ----

    def put(self, text):
        self.lines.append(" " * self.depth + text)

    def open(self, text, *controls):
        self.put(text)
        self.depth += 1
        self.scopes += 1
        before = (self.scope, self.controls)
        self.scope, self.controls = self.scope + (self.scopes,), self.controls + controls
        return before

    def close(self, before):
        self.scope, self.controls = before
        self.depth -= 1
        self.put("}")

    # ---- values ----

    def type_of(self, value):
        found = self.m.constants.get(value) or self.m.defs.get(value)
        return self.m.scalar(found.type)

    def value(self, value, kind=None):
        """An id as an expression; as one of the type `kind`, of the same bits."""
        c = self.m.constants.get(value)
        if c is None:
            self.used.append((value, self.scope))
            self.uses[value] += 1
            text = self.texts.get(value, f"v{value}")
        else:
            text = self.constant(c)
        return text if kind in (None, self.type_of(value)) else f"bitcast<{kind}>({text})"

    def constant(self, c):
        kind = self.m.scalar(c.type)
        if c.op in (41, 42):
            return "true" if c.op == 41 else "false"
        if c.op in (1, 46):
            return f"{kind}()"
        if c.op == 44:
            return f"{kind}({', '.join(self.value(a) for a in c.args)})"
        bits = c.args[0]
        if kind == "u32":
            return f"{bits}u"
        if kind == "i32":
            return f"i32({bits - (1 << 32) if bits >> 31 else bits})"
        return number(bits)

    def root(self, pointer):
        while pointer not in self.m.variables:
            pointer = self.m.defs[pointer].args[0]
        return pointer

    def place(self, pointer):
        """(storage class, expression) of what a pointer points to; for a buffer the expression is its element."""
        path, at = [], pointer
        while at not in self.m.variables:
            chain = self.m.defs[at]
            if chain.op != ACCESS:
                raise Problem(f"a pointer made by opcode {chain.op}: {UNKNOWN}")
            path = chain.args[1:] + path
            at = chain.args[0]
        variable = self.m.variables[at]
        storage, kind = self.m.pointee(variable)
        if storage == "StorageBuffer":
            return storage, f"{buffer_name(self.m.binding[at])}[{self.value(path[1])}]"
        if storage == "PushConstant":
            return storage, f"P.m{self.m.constants[path[0]].args[0]}"
        if storage == "Input":
            if self.m.builtin.get(at) not in BUILTIN:
                raise Problem(f"builtin {self.m.builtin.get(at)}: {UNKNOWN}")
            part = "." + "xyz"[self.m.constants[path[0]].args[0]] if path else ""
            return storage, BUILTIN[self.m.builtin[at]] + part
        return storage, f"a{at}" + "".join(f"[{self.value(p)}]" for p in path)

    # ---- instructions ----

    def define(self, i, text):
        self.made[i.id] = (self.scope, self.controls)
        nested = 1 + max((self.nested.get(a, 0) for a in i.args), default=0)
        if i.id in self.within and nested < DEEPEST:
            self.texts[i.id], self.nested[i.id] = f"({text})", nested
            return
        if i.id in self.told:
            kind = self.m.scalar(i.type)
            word = {"bool": f"select(0u, 1u, {text})", "u32": text}.get(kind, f"bitcast<u32>({text})")
            self.put(f"if (lane.x == 0u) {{ U = {word}; }}")
            text = {"bool": "workgroupUniformLoad(&U) != 0u", "u32": "workgroupUniformLoad(&U)"}.get(kind, f"bitcast<{kind}>(workgroupUniformLoad(&U))")
        self.put(f"v{i.id} = {text};" if i.id in self.kept else f"let v{i.id} = {text};")

    def instruction(self, i):
        op, a = i.op, i.args
        if op in (ACCESS, 59) or op in (8, 317):  # pointers are written where they are used; lines of source
            return
        if op == LOAD:
            self.load(i)
        elif op == STORE:
            self.store(a[0], a[1])
        elif op == BARRIER:
            self.barriers.append(self.controls)
            self.put("workgroupBarrier();")
        elif op in ATOMIC:
            self.define(i, f"{ATOMIC[op]}(&{self.place(a[0])[1]}, {self.value(a[3], 'i32')})")
        else:
            self.define(i, self.expression(i))

    def load(self, i):
        pointer, kind = i.args[0], self.m.scalar(i.type)
        storage, text = self.place(pointer)
        self.loads[i.id] = (storage, pointer)
        if storage in ("PushConstant", "Input"):
            self.texts[i.id], self.made[i.id] = text, ((), ())
            return
        if storage == "StorageBuffer":
            has = "u32"
            if self.root(pointer) in self.atomic:
                has, text = "i32", f"atomicLoad(&{text})"
            text = text if kind == has else f"bitcast<{kind}>({text})"
        self.define(i, text)

    def store(self, pointer, value):
        storage, text = self.place(pointer)
        if storage != "StorageBuffer":
            self.put(f"{text} = {self.value(value)};")
        elif self.root(pointer) in self.atomic:
            self.put(f"atomicStore(&{text}, {self.value(value, 'i32')});")
        else:
            self.put(f"{text} = {self.value(value, 'u32')};")

    def expression(self, i):
        op, a, kind = i.op, i.args, self.m.scalar(i.type)
        if op in BINARY:
            sign, of = BINARY[op]
            of = of or kind
            text = f"{self.value(a[0], of)} {sign} {self.value(a[1], of)}"
            return text if of == kind else f"bitcast<{kind}>({text})"
        if op in SHIFT:
            sign, of = SHIFT[op]
            of = of or kind
            text = f"{self.value(a[0], of)} {sign} {self.value(a[1], 'u32')}"
            return text if of == kind else f"bitcast<{kind}>({text})"
        if op in COMPARE:
            sign, of = COMPARE[op]
            of = of or self.type_of(a[0])
            return f"{self.value(a[0], of)} {sign} {self.value(a[1], of)}"
        if op in (182, 183) and a[0] == a[1]:  # a test for NaN, which comparisons may be taken never to see
            return self.is_beyond(a[0], ">" if op == 183 else "<=")
        if op in (182, 183):
            return f"{self.value(a[0])} != {self.value(a[1])}"
        if op in CONVERT:
            to, of = CONVERT[op]
            text = f"{to}({self.value(a[0], of)})"
            return text if to == kind else f"bitcast<{kind}>({text})"
        if op == 12 and a[0] == self.m.extended and a[1] in EXTENDED:
            return f"{EXTENDED[a[1]]}({', '.join(self.value(x) for x in a[2:])})"
        if op == 124:
            return self.value(a[0], kind)
        if op in (126, 127):
            return f"-({self.value(a[0], kind)})"
        if op == 168:
            return f"!{self.value(a[0])}"
        if op == 200:
            return f"~{self.value(a[0], kind)}"
        if op in (156, 157):  # IsNan, IsInf
            return self.is_beyond(a[0], ">" if op == 156 else "==")
        if op == 169:
            return f"select({self.value(a[2])}, {self.value(a[1])}, {self.value(a[0])})"
        if op == 80:
            return f"{kind}({', '.join(self.value(x) for x in a)})"
        if op == 81 and len(a) == 2:
            return f"{self.value(a[0])}.{'xyzw'[a[1]]}"
        raise Problem(f"opcode {op}{f' {a[1]}' if op == 12 else ''}: {UNKNOWN}")

    def is_beyond(self, value, sign):
        return f"(bitcast<u32>({self.value(value)}) & 0x7fffffffu) {sign} 0x7f800000u"

    # ---- control flow ----

    def block(self, label, stop):
        """A block and what follows it up to the block `stop`, which comes behind the statements that are being written."""
        while label is not None and label != stop:
            b = self.m.blocks[label]
            label = self.loop_of(b, stop) if b.loop else self.straight(b, stop)

    def contents(self, b):
        if b.label in self.written:
            raise Problem("a block that two ways lead to: " + UNKNOWN)
        self.written.add(b.label)
        for phi in b.phis:
            self.define(phi, f"p{phi.id}")
        for i in b.body:
            self.instruction(i)

    def pass_on(self, source, target):
        """What the phis of `target` get from the block `source`."""
        for phi in self.m.blocks[target].phis:
            for value, label in zip(phi.args[::2], phi.args[1::2]):
                if label == source:
                    self.sets.setdefault(phi.id, []).append((value, self.controls))
                    if self.m.constants.get(value) is None or self.m.constants[value].op != 1:
                        self.put(f"p{phi.id} = {self.value(value)};")

    def arrive(self, target, stop):
        """The way to a block: a jump or nothing, and None; or the block, which is to be written here."""
        if target == stop:
            return None
        if self.loop and target == self.loop[1]:
            self.put("continue;")
        elif self.switch and target == self.switch[0]:
            self.put("break;")
        elif self.loop and target == self.loop[0]:
            if self.switch:
                raise Problem("a loop that is left from within a switch: " + UNKNOWN)
            self.put("break;")
        else:
            return target
        return None

    def is_exit(self, target, stop):
        return target == stop or target in (self.switch or ()) or target in (self.loop or ())

    def go(self, source, target, stop):
        self.pass_on(source, target)
        return self.arrive(target, stop)

    def straight(self, b, stop):
        self.contents(b)
        return self.end(b, stop)

    def arm(self, b, head, target, stop, *controls):
        before = self.open(head, *controls)
        self.block(self.go(b.label, target, stop), stop)
        self.close(before)

    def end(self, b, stop):
        end = b.end
        if end.op == BRANCH:
            return self.go(b.label, end.args[0], stop)
        if end.op == BRANCH_IF:
            return self.branch(b, stop)
        if end.op == SWITCH:
            return self.switch_of(b, stop)
        if end.op == RETURN:
            if self.depth > 1:
                self.put("return;")
            return None
        if end.op == UNREACHABLE:
            return None
        raise Problem(f"opcode {end.op}: {UNKNOWN}")

    def is_bare(self, label, merge):
        """Whether nothing is done on the way to `merge` that begins with this block."""
        b = self.m.blocks[label]
        return label == merge or (b.end.op == BRANCH and b.end.args[0] == merge and not b.phis and not b.body and not b.loop)

    def fork(self, b, text, yes, no, merge, control):
        """The two ways from b to where they meet.  One on which nothing is done is no arm: what it passes on is set before.  A
        search of SwiftShader, the software device of browsers, takes twice as long for each two arms that lie behind others."""
        if self.is_bare(yes, merge):
            yes, no, text = no, yes, f"!{text}"
        bare = self.is_bare(no, merge)
        if bare:
            self.pass_on(b.label if no == merge else no, merge)
        self.arm(b, f"if ({text}) {{", yes, merge, control)
        if not bare:
            mark = self.lines.pop() + " else {"
            self.arm(b, mark.strip(), no, merge, control)

    def branch(self, b, stop):
        condition, yes, no = b.end.args[:3]
        text, control = self.value(condition), Control([condition])
        if b.selection is not None:
            self.fork(b, text, yes, no, b.selection, control)
            return self.arrive(b.selection, stop)
        for around in filter(None, (self.loop, self.switch)):  # leaving early decides who gets to the rest of it
            around[-1].conditions.append(condition)
        ways = ((yes, no, text), (no, yes, f"!{text}"))
        for target, other, when in sorted(ways, key=lambda way: not self.loop or way[0] != self.loop[0]):
            if self.is_exit(target, stop) and (target != stop or (self.loop and target == self.loop[1])):
                before = self.open(f"if ({when}) {{", control)
                self.pass_on(b.label, target)
                self.arrive(target, None)
                self.close(before)
                return self.go(b.label, other, stop)
        if stop not in (yes, no):
            raise Problem("a condition whose ways do not meet: " + UNKNOWN)
        self.fork(b, text, yes, no, stop, control)
        return None

    def switch_of(self, b, stop):
        selector, default, cases = b.end.args[0], b.end.args[1], b.end.args[2:]
        kind, merge, targets = self.type_of(selector), b.selection, {}
        for literal, target in zip(cases[::2], cases[1::2]):
            targets.setdefault(target, []).append(f"{literal}u" if kind == "u32" else f"{literal - (1 << 32) if literal >> 31 else literal}i")
        targets.setdefault(default, []).append("default")
        control, before = Control([selector]), self.switch
        whole = self.open(f"switch ({self.value(selector)}) {{", control)
        self.switch = (merge, control)
        for target, labels in targets.items():
            self.arm(b, f"case {', '.join(labels)}: {{" if labels != ["default"] else "default: {", target, merge)
        self.switch = before
        self.close(whole)
        return self.arrive(merge, stop)

    def loop_of(self, b, stop):
        merge, continues = b.loop
        control, before_loop, before_switch = Control([], True), self.loop, self.switch
        before = self.open("loop {", control)
        self.loop, self.switch = (merge, continues, control), None
        self.contents(b)
        if continues == b.label:
            self.turn(b, merge)
        else:
            self.block(self.end(b, continues), continues)
            inner = self.open("continuing {")
            self.continuing(continues, b.label, merge)
            self.close(inner)
        self.loop, self.switch = before_loop, before_switch
        self.close(before)
        return self.arrive(merge, stop)

    def turn(self, b, merge):
        """The end of a loop of one block."""
        if b.end.op != BRANCH_IF:
            raise Problem("a loop without an end: " + UNKNOWN)
        condition, yes, no = b.end.args[:3]
        if {yes, no} != {b.label, merge}:
            raise Problem("a loop that goes on at its head: " + UNKNOWN)
        self.loop[2].conditions.append(condition)
        self.pass_on(b.label, b.label)
        self.pass_on(b.label, merge)
        self.put(f"if ({'!' if yes == b.label else ''}{self.value(condition)}) {{ break; }}")

    def continuing(self, label, header, merge):
        while label != header:
            b = self.m.blocks[label]
            if b.end.op == BRANCH_IF and set(b.end.args[1:3]) == {header, merge}:
                self.contents(b)
                self.loop[2].conditions.append(b.end.args[0])
                self.pass_on(label, header)
                self.pass_on(label, merge)
                self.put(f"break if {'!' if b.end.args[1] == header else ''}{self.value(b.end.args[0])};")
                return
            label = self.loop_of(b, header) if b.loop else self.straight(b, header)
            if label is None:
                return


def number(bits):
    """The shortest literal of a float of these bits."""
    x = struct.unpack("<f", struct.pack("<I", bits))[0]
    if math.isnan(x) or math.isinf(x):
        raise Problem("a constant that is infinite or NaN, which WGSL has not: write it as the dialect's INF")
    text = next(t for t in (f"{x:.{digits}g}" for digits in range(1, 18)) if ctypes.c_float(float(t)).value == x)
    if not any(c in text for c in ".e"):
        text += ".0"
    return f"({text}f)" if bits >> 31 else f"{text}f"


def buffer_name(binding):
    return "B" + "abcdefghijklmnop"[binding]


class Uniformity:
    """The values that may differ between the invocations of a workgroup: for all that WGSL's rules know, or, hopeful, if
    memory is taken to hold the same for all who read the same place."""

    def __init__(self, w, kept, told, hopeful):
        self.w, self.m, self.kept, self.told, self.hopeful, self.differ = w, w.m, kept, told, hopeful, set()
        grown = True
        while grown:
            new = {v for v in w.made if v not in self.differ and self.differs(v)}
            self.differ |= new
            grown = bool(new)

    def reached_apart(self, controls):
        return any(c in self.differ for control in controls for c in control.conditions)

    def index_differs(self, pointer):
        while pointer not in self.m.variables:
            chain = self.m.defs[pointer]
            if any(a in self.differ for a in chain.args[1:]):
                return True
            pointer = chain.args[0]
        return False

    def differs(self, value):
        i, (_, controls) = self.m.defs[value], self.w.made[value]
        if value in self.told:
            return False
        if value in self.kept and self.reached_apart(controls):
            return True
        if i.op == PHI:
            if controls and controls[-1].loop and self.reached_apart(controls[-1:]):
                return True
            return any(source in self.differ or self.reached_apart([c for c in at if c not in controls])
                       for source, at in self.w.sets.get(value, []))
        if i.op == LOAD:
            storage, pointer = self.w.loads[value]
            if storage == "Input":
                return self.m.builtin[self.w.root(pointer)] == 27
            if storage in ("StorageBuffer", "Workgroup"):
                return not self.hopeful or self.index_differs(pointer)
            return storage != "PushConstant"
        return i.op in ATOMIC or any(a in self.differ for a in i.args)


def loops(controls):
    return sum(c.loop for c in controls)


def to_tell(w, kept, told):
    """Values of `told` and more, so that barriers are reached together by WGSL's rules; the same: they are already."""
    if not w.barriers:
        return told
    now, found, open_, seen = Uniformity(w, kept, told, False), set(told), [], set()
    for controls in w.barriers + [w.made[v][1] for v in told]:
        for k, control in enumerate(controls):
            limit = loops(controls[:k + 1]) if control.loop else len(controls) + 1
            open_ += [(c, limit) for c in control.conditions if c in now.differ]
    if open_ and not Uniformity(w, kept, told, True).differ.isdisjoint(c for c, _ in open_):
        raise Problem("a barrier under a condition that differs between the invocations of a workgroup")
    while open_:
        value, limit = open_.pop()
        if value in seen or value not in now.differ:
            continue
        seen.add(value)
        i = w.m.defs[value]
        if loops(w.made[value][1]) < limit or i.op == LOAD:
            found.add(value)
        elif i.op == PHI:
            for source, at in w.sets.get(value, []):
                open_ += [(source, limit)] + [(c, limit) for control in at for c in control.conditions]
        else:
            open_ += [(a, limit) for a in i.args]
    return frozenset(found)


def declarations(w, module, buffers):
    """buffers: how many the kernel binds, those that it does not use among them."""
    out, params = [], None
    atomic = {module.binding[v] for v in w.atomic}
    for b in range(buffers):  # the plugin rewrites these lines: they are all of one form
        out.append(f"@group(0) @binding({b:2}) var<storage, read_write> {buffer_name(b)}: array<{'atomic<i32>' if b in atomic else 'u32'}>;")
    for v, i in module.variables.items():
        storage, kind = module.pointee(i)
        if storage == "PushConstant":
            params = [module.scalar(t) for t in module.types[kind][1]]
        elif storage == "Workgroup":
            out.append(f"var<workgroup> a{v}: {module.array(kind)};")
    if w.told:
        out.append("var<workgroup> U: u32;")
    if params is not None:
        out.insert(buffers, f"@group(0) @binding({buffers:2}) var<uniform> P: Params;")
        out.append(f"struct Params {{ {', '.join(f'm{k}: {t}' for k, t in enumerate(params))} }}")
    inputs = ", ".join(f"@builtin({BUILTIN_NAME[n]}) {n}: vec3<u32>" for n in BUILTIN.values())
    out.append(f"@compute @workgroup_size({module.local_size}) fn main({inputs}) {{")
    for v, i in module.variables.items():
        storage, kind = module.pointee(i)
        if storage == "Function":
            out.append(f" var a{v}: {module.array(kind)};")
    out += [f" var v{v}: {module.scalar(module.defs[v].type)};" for v in sorted(w.kept)]
    out += [f" var p{v}: {module.scalar(module.defs[v].type)};" for v in sorted(w.sets)]
    return out


def write(module, buffers):
    """The module's WGSL; `buffers` is how many the kernel binds."""
    w = Writer(module)
    w.block(module.entry, None)
    kept = frozenset(v for v, scope in w.used if w.made[v][0] != scope[:len(w.made[v][0])])
    told, more = None, frozenset()
    while more != told:
        told, more = more, to_tell(w, kept, more)
    within = frozenset(v for v, scope in w.used if w.uses[v] == 1 and w.made[v][0] == scope and module.defs[v].op not in (LOAD, PHI, *ATOMIC)) - told
    w = Writer(module, kept, told, within)
    w.block(module.entry, None)
    return "\n".join(declarations(w, module, buffers) + w.lines + ["}", ""])
