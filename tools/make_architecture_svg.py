#!/usr/bin/env python3
"""Draws docs/architecture.svg: the rooms of src from the list of layers in tests/python/test_layering.py, and the plugins beside them.

    tools/make_architecture_svg.py            writes the file
    tests/python/test_docs.py compares it, so a new room is drawn, too.
"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
from test_layering import LAYERS, OVER_GPU  # noqa: E402

SAYS = {
    "cli": "the accel tool", "bench": "benchmark runs", "serve": "the HTTP server", "browser": "WebAssembly", "api": "public entry points", "verify": "goldens, self-tests",
    "tasks": "text and picture tasks", "speech": "Whisper, CTC", "generate": "the generation loop", "processing": "texts to runs",
    "dispatch": "placement, runs, queue", "hardware": "detection, plugin loading", "registry": "what is known",
    "models": "one file an architecture", "modeling": "what they share", "adapters": "LoRA adapters", "program": "the op graph", "text": "tokenizers, templates",
    "vision": "pictures", "audio": "sounds", "weights": "safetensors, quantising", "core": "status, threads, files",
    "formats": "small floats", "shared": "dims, hashes", "rag": "answers from documents", "tool": "what both tools share",
}
ROW, STEP, LEFT, WIDTH = 30, 36, 10, 400


def box(x, y, w, name, says, fill):
    return (f'<rect x="{x}" y="{y}" width="{w}" height="{ROW}" rx="4" fill="{fill}" stroke="#555"/>'
            f'<text x="{x + 8}" y="{y + 19}"><tspan font-weight="bold">{name}</tspan> <tspan fill="#444">{says}</tspan></text>')


def arrow(x1, y1, x2, y2):
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#555" stroke-width="1.5" marker-end="url(#a)"/>'


def label(x, y, text, anchor="start"):
    return f'<text x="{x}" y="{y}" fill="#222" text-anchor="{anchor}">{text}</text>'


def picture():
    out, y, at = [label(LEFT, 20, "src: arrows go down only; rooms of one row do not see each other")], 30, {}
    for names in LAYERS:
        w = (WIDTH - 6 * (len(names) - 1)) / len(names)
        for i, name in enumerate(names):
            fill = {"cli": "#fff3d6", "bench": "#fff3d6", "serve": "#fff3d6", "browser": "#fff3d6"}.get(name, "#eaf1fb")
            out.append(box(LEFT + i * (w + 6), y, w, name, SAYS[name] if len(names) < 3 else "", fill))
            at[name] = y
        y += STEP
    right = 560
    out.append(label(right, 20, "backends: plugins, loaded at run time"))
    out.append(box(right, at["bench"] + 6, 330, "include/accel", "accel.h &#183; plugin.h &#183; ops.def", "#fff"))
    kit = at["models"]
    rows = [("cpu", "kernels an ISA"), ("reference", "plain C")]
    for i, (name, says) in enumerate(rows):
        out.append(box(right, kit - 4 * STEP + i * STEP, 160, name, says, "#e6f5e6"))
    for i, name in enumerate(sorted(OVER_GPU)):
        out.append(box(right + 180, kit - 5 * STEP + i * STEP, 150, name, {"hip": "ROCm, CUDA"}.get(name, ""), "#e6f5e6"))
    out.append(box(right + 180, kit - STEP, 150, "gpu", "ops, kernels", "#d3ebd3"))
    out.append(box(right, kit + STEP, 330, "kit", "plan, run, sessions, scalar ops", "#d3ebd3"))
    out.append(box(right, at["formats"], 330, "src/formats", "the one room both sides include", "#eaf1fb"))
    out += [arrow(right + 255, kit - 3 * STEP + ROW, right + 255, kit - STEP - 2), arrow(right + 255, kit - STEP + ROW, right + 255, kit + STEP - 2),
            arrow(right + 80, kit - 3 * STEP + ROW, right + 80, kit + STEP - 2), arrow(right + 165, kit + STEP + ROW, right + 165, at["formats"] - 2)]
    y1 = at["dispatch"] + 10
    out += [arrow(LEFT + WIDTH, y1, right - 4, y1), label((LEFT + WIDTH + right) / 2, y1 - 6, "plugin table: init, handler", "middle"),
            arrow(right, y1 + 14, LEFT + WIDTH + 4, y1 + 14), label((LEFT + WIDTH + right) / 2, y1 + 30, "host services: threads,", "middle"),
            label((LEFT + WIDTH + right) / 2, y1 + 45, "weights, log, cache", "middle")]
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 %d" width="900" height="%d" font-family="sans-serif" font-size="12">'
            '<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>'
            '<rect width="100%%" height="100%%" fill="#fff"/>\n%s\n</svg>\n') % (y + 4, y + 4, "\n".join(out))


if __name__ == "__main__":
    with open(os.path.join(ROOT, "docs", "architecture.svg"), "w", encoding="utf-8") as f:
        f.write(picture())
