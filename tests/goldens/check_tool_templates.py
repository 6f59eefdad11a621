#!/usr/bin/env python3
"""Reads calls of tools back that published chat templates write.

    PYTHONPATH=src/bindings/python python tests/goldens/check_tool_templates.py DIRECTORY

DIRECTORY has templates as *.jinja, as llama.cpp's models/templates has (in the source of
llama-cpp-python, which PyPI has).  Each is given a conversation in which two functions were called; what
it writes is parsed by the family that its text shows.  A line a template: read, no family, or what went
wrong (exit 1).  Templates are rendered by this library.
"""
import ctypes as C
import glob
import json
import os
import sys
import tempfile

from accel import _native, _types

LIB = _native.lib
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "of a city", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "its name"}, "days": {"type": "integer", "description": "how many"}},
        "required": ["city"]}}},
    {"type": "function", "function": {"name": "now", "description": "the time", "parameters": {"type": "object", "properties": {}}}}]
ARGUMENTS = {"city": "Köln", "days": 2}


def conversations():
    """The same, as different templates want it."""
    for text in (False, True):
        for both in (True, False):
            for content in ("", None, "I look."):
                calls = [("get_weather", ARGUMENTS), ("now", {})][:1 + both]
                calls = [{"id": f"call{i:05}", "type": "function", "function": {"name": n, "arguments": json.dumps(a, ensure_ascii=False) if text else a}}
                         for i, (n, a) in enumerate(calls)]
                yield [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": content, "tool_calls": calls}], both


def error():
    return _native.lib.accel_last_error().decode()


def render(template, messages):
    how, text = LIB.accel_template_params_default(), C.c_void_p()
    how.tools, how.add_generation_prompt = json.dumps(TOOLS, ensure_ascii=False).encode(), 0
    if LIB.accel_template_render(template, json.dumps(messages, ensure_ascii=False).encode(), C.byref(how), C.byref(text)):
        return None
    out = C.cast(text, C.c_char_p).value.decode()
    LIB.accel_string_free(C.byref(text))
    return out


def parse(tools, text):
    calls = []

    def event(_, e):
        kind, piece = e.contents.kind, e.contents.text.decode()
        if kind == 1:
            calls.append([piece, ""])
        elif kind == 2:
            calls[-1][1] += piece
    function, parser = _types.ToolFunction(event), C.c_void_p()
    assert not LIB.accel_tool_parser_open(tools, C.byref(parser)), error()
    for at in range(0, len(text), 5):
        assert not LIB.accel_tool_parser_feed(parser, text[at:at + 5].encode(), function, None), error()
    assert not LIB.accel_tool_parser_end(parser, function, None), error()
    LIB.accel_tool_parser_close(C.byref(parser))
    return [(name, json.loads(arguments)) for name, arguments in calls]


def check(context, path):
    """(what to print, whether it is right)"""
    with tempfile.TemporaryDirectory() as directory, open(path, encoding="utf-8") as f:
        with open(os.path.join(directory, "chat_template.jinja"), "w", encoding="utf-8") as to:
            to.write(f.read())
        with open(os.path.join(directory, "tokenizer_config.json"), "w", encoding="utf-8") as to:
            json.dump({"bos_token": "<s>", "eos_token": "</s>"}, to)
        template, tools = C.c_void_p(), C.c_void_p()
        if LIB.accel_template_open(context, directory.encode(), C.byref(template)):
            return "not read: " + error(), False
        if LIB.accel_tools_open(template, json.dumps(TOOLS).encode(), None, C.byref(tools)):
            return "no family", True
        family = LIB.accel_tools_family(tools).decode()
        said = family + ": writes no call"
        for messages, both in conversations():
            text = render(template, messages)
            if text is None or "Köln" not in text:
                continue
            want = [("get_weather", ARGUMENTS), ("now", {})][:1 + both]
            begin, got = text.index("Hi"), None
            for at in range(text.index("Köln"), begin, -1):  # where the call begins
                try:
                    got = parse(tools, text[at:])
                except ValueError:
                    continue
                if got == want:
                    return f"{family}: read, {len(want)} calls", True
            said = f"{family}: {text[text.index('Köln') - 80:][:200]!r} is not read"
        return said, "not read" not in said or family == "harmony"


def main():
    context, params = C.c_void_p(), LIB.accel_params_default()
    assert not LIB.accel_create(C.byref(params), C.byref(context)), error()
    wrong = 0
    for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.jinja"))):
        said, right = check(context, path)
        wrong += not right
        print(os.path.basename(path)[:-6], "|", said)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
