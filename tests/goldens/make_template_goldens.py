#!/usr/bin/env python3
"""Writes tests/fixtures/templates/cases.json: chat templates, what they are given, and what transformers renders.

    pip install transformers==5.23.0 jinja2==3.1.6
    python3 tests/goldens/make_template_goldens.py

The templates are our own, written in the style of published ones.  Where transformers raises an error, so must we: those cases hold
"error": true.  strftime_now reads 2024-07-26 13:05.
"""
import datetime
import json
import os

import transformers.utils.chat_template_utils as chat_template_utils

from chat_templates import CONVERSATIONS, DOCUMENTS, TEMPLATES, TOOLS
from template_snippets import SNIPPETS

HERE = os.path.dirname(os.path.abspath(__file__))
# What jinja2 knows and we do not, on purpose: these must be refused or differ, so they are no cases.
NOT_OURS = ["(1).real", "self is defined"]


class Fixed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26, 13, 5)


def render(case):
    """As apply_chat_template does it; None when it raises."""
    messages = [{k: v for k, v in m.items() if v is not None} for m in json.loads(json.dumps(case["messages"]))]
    try:
        text, _ = chat_template_utils.render_jinja_template(
            [messages], tools=case.get("tools"), documents=case.get("documents"), chat_template=case["template"],
            add_generation_prompt=case.get("add_generation_prompt", False), continue_final_message=case.get("continue_final_message", False),
            **case.get("variables", {}))
        return text[0]
    except Exception:
        return None


def cases():
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    for template in TEMPLATES.values():
        for name, messages in CONVERSATIONS.items():
            yield {"template": template, "messages": messages, "variables": tokens, "add_generation_prompt": True,
                   "tools": TOOLS if "tool" in name or name == "plain" else None}
            yield {"template": template, "messages": messages, "variables": dict(tokens, enable_thinking=False, tools_in_user_message=False, add_vision_id=True,
                                                                                  controls={"length": "short"}),
                   "documents": DOCUMENTS, "continue_final_message": name in ("plain", "blocks", "tools")}
    for snippet in SNIPPETS:
        if any(text in snippet for text in NOT_OURS):
            continue
        for tools in None, TOOLS:
            if tools is None or "tools" in snippet:
                yield {"template": snippet, "messages": CONVERSATIONS["plain"], "tools": tools, "variables": tokens, "add_generation_prompt": True}


def main():
    chat_template_utils.datetime = Fixed
    texts, out = [], []
    for case in cases():
        expected = render(case)
        case["expected" if expected is not None else "error"] = True if expected is None else expected
        for key in "template", "messages", "tools", "documents", "variables":  # shared parts are kept once
            if case.get(key) is None:
                case.pop(key, None)
                continue
            if case[key] not in texts:
                texts.append(case[key])
            case[key] = texts.index(case[key])
        out.append(case)
    folder = os.path.join(HERE, "..", "fixtures", "templates")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as f:
        f.write('{"parts": [\n' + ",\n".join(json.dumps(t, ensure_ascii=False) for t in texts) + '\n], "cases": [\n')
        f.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in out) + "\n]}\n")
    print(len(out), "cases,", sum("error" in c for c in out), "errors")


if __name__ == "__main__":
    main()
