"""The writer of WGSL (backends/gpu/spirv/wgsl.py) on kernels of GLSL: what it makes of control flow that the plugin's conformance does not show, what it
refuses and how it says so; and that the two sides of a page's ring of calls, in C and JavaScript, have the same lists.  Whether the text is right is
known by running it: tests/conformance with ACCEL_WEBGPU_SHADERS=wgsl, tests/python/browser_wasm.py.  Needs glslc."""
import os
import re
import shutil
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "backends", "gpu", "spirv"))
sys.dont_write_bytecode = True
from spirv_module import Module, Problem  # noqa: E402
from wgsl import number, write  # noqa: E402

HEAD = """#version 450
layout(set = 0, binding = 0) readonly buffer buffer_x { float x[]; };
layout(set = 0, binding = 1) buffer buffer_n { int n[]; };
layout(push_constant) uniform params_t { int at_x; int at_n; int rows; } params;
shared float part[64];
layout(local_size_x = 64) in;
void main() {
  int lane = int(gl_LocalInvocationID.x);
  %s
}
"""


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


@unittest.skipUnless(shutil.which("glslc"), "glslc is not installed")
class Writer(unittest.TestCase):
    def wgsl(self, body):
        run = subprocess.run(["glslc", "-O", "--target-env=vulkan1.1", "-fshader-stage=compute", "-o", "-", "-"], input=(HEAD % body).encode(),
                             capture_output=True, check=True)
        return write(Module(run.stdout), 2)

    def test_declarations(self):
        text = self.wgsl("n[params.at_n + lane] = int(x[params.at_x + lane]);").splitlines()
        self.assertEqual(text[:3], ["@group(0) @binding( 0) var<storage, read_write> Ba: array<u32>;", "@group(0) @binding( 1) var<storage, read_write> Bb: array<u32>;",
                                    "@group(0) @binding( 2) var<uniform> P: Params;"])
        self.assertIn("struct Params { m0: i32, m1: i32, m2: i32 }", text)

    def test_an_atomic_buffer(self):
        text = self.wgsl("atomicMin(n[0], lane); if (n[1] == 3) n[2] = 4;")
        self.assertIn("Bb: array<atomic<i32>>;", text)
        self.assertIn("atomicMin(&Bb[", text)
        self.assertIn("atomicLoad(&Bb[", text)
        self.assertIn("atomicStore(&Bb[", text)

    def test_a_barrier_that_memory_decides_about(self):
        """A loop whose length is in memory: WGSL is told, once, before the loop."""
        text = self.wgsl("int most = n[params.at_n]; for (int i = 0; i < most; i++) { part[lane] = x[i + lane]; barrier(); n[lane] = int(part[63 - lane]); barrier(); }")
        self.assertEqual(text.count("workgroupUniformLoad(&U)"), 1)
        self.assertLess(text.index("workgroupUniformLoad"), text.index("loop {"))
        self.assertNotIn("workgroupUniformLoad", self.wgsl("for (int i = 0; i < params.rows; i++) { part[lane] = x[i]; barrier(); n[lane] = int(part[63 - lane]); barrier(); }"))

    def test_a_way_without_statements_is_no_arm(self):
        """What a condition chooses is set before the `if`: SwiftShader does not compile dozens of arms in a row."""
        text = self.wgsl("int v = lane; for (int i = 0; i < params.rows; i++) { if (x[i] > 0.0) v += n[i]; if (x[i] > 1.0 && n[v] > 3) v -= n[v]; } n[lane] = v;")
        self.assertGreater(text.count("if ("), 3)
        self.assertNotIn("else", text)
        self.assertIn("else", self.wgsl("if (lane < params.rows) n[lane] = 1; else n[lane + 64] = 2;"))

    def test_what_is_refused(self):
        for body, wanted in (("if (lane < 3) { part[lane] = x[lane]; barrier(); } n[lane] = int(part[0]);", "a barrier under a condition that differs"),
                             ("n[lane] = bitfieldReverse(n[lane]);", "opcode 204: the WGSL writer .* has no word"),
                             ("n[lane] = int(tan(x[lane]));", "opcode 12 15: the WGSL writer")):
            with self.subTest(body=body):
                self.assertRaisesRegex(Problem, wanted, self.wgsl, body)
        self.assertRaisesRegex(Problem, "not SPIR-V", Module, b"\0" * 40)

    def test_a_test_for_nan_is_one_of_bits(self):
        self.assertIn("& 0x7fffffffu) > 0x7f800000u", self.wgsl("float v = x[lane]; n[lane] = v != v ? 1 : 0;"))

    def test_numbers(self):
        for bits, text in ((0x3f800000, "1.0f"), (0xbf000000, "(-0.5f)"), (0x00000001, "1e-45f"), (0x7f7fffff, "3.4028235e+38f"), (0x80000000, "(-0.0f)"), (0x3dcccccd, "0.1f")):
            self.assertEqual(number(bits), text)
        self.assertRaisesRegex(Problem, "infinite or NaN", number, 0x7f800000)


class Ring(unittest.TestCase):
    def test_lists(self):
        header, worker = text_of("backends/webgpu/wgp_page.h"), text_of("src/browser/accel-gpu.js")
        calls = re.findall(r"\bCALL\((\w+)\)", header[header.index("CALL(SKIP)"):header.index("typedef enum wgp_call")])
        self.assertEqual(calls, ["SKIP", *re.findall(r"^  (?:async )?function (\w+)\(", worker, re.M)])
        for name, word in (("WGP_RING", r"const RING = 1 << (\d+)"), ("WGP_MESSAGE", r"MESSAGE = (\d+)")):
            self.assertEqual(re.search(rf"{name} = (?:1 << )?(\d+)", header)[1], re.search(word, worker)[1])
        limits = re.search(r"const LIMITS = \[(.*?)\]", worker, re.S)[1].count('"') // 2
        self.assertEqual(str(limits), re.search(r"WGP_PAGE_LIMITS = (\d+)", header)[1])


if __name__ == "__main__":
    unittest.main()
