"""A tiny model that holds conversations: the one of fixtures/pipelines/text with a longer context and a chat template of the Hermes family."""
import json
import os
import shutil

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TEXT = os.path.join(ROOT, "tests", "fixtures", "pipelines", "text")
# What it is given of the tools is their names; results of tools come as messages of their own.
TEMPLATE = (
    "{% if tools %}{% for t in tools %}{{ t.function.name }} {% endfor %}<tool_call>{{ '\\n' }}{% endif %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}"
    '{% for c in m.tool_calls or [] %}<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}'
    "{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}")


def make(folder, template=TEMPLATE, special=None):
    """The model's directory, made in `folder`.  special: what the last token of the vocabulary becomes, a special one."""
    for name in os.listdir(TEXT):
        if name != "config.json":
            shutil.copy(os.path.join(TEXT, name), folder)
    with open(os.path.join(TEXT, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    config["max_position_embeddings"] = 2048  # rotary: no weights depend on it
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    if special:
        path = os.path.join(folder, "tokenizer.json")
        with open(path, encoding="utf-8") as f:
            tokenizer = json.load(f)
        vocab = tokenizer["model"]["vocab"]
        last = max(vocab, key=vocab.get)
        tokenizer["model"]["merges"].pop()  # the one that makes it
        vocab[special] = vocab.pop(last)
        tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": vocab[special], "content": special})
        with open(path, "w", encoding="utf-8") as f:
            json.dump(tokenizer, f)
    with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as f:
        f.write(template)
    return folder
