"""Masks of libaccel and of llguidance (pip install llguidance==1.9.1) over the same tokens, position by position.

  grammar_peers.py BUILD [SCHEMAS]     BUILD: where tests/bench/grammar_masks is; SCHEMAS made schemas (default 60) and the expressions below, each
                                       with three tokenizers, eight texts of at most 60 tokens that both allow

llguidance is told to write JSON as libaccel does (no spaces) and that objects have no other properties.  Prints the positions, those whose masks
are equal, and for the others why they are not (docs/constrained.md says what the reasons mean) and examples of what no reason explains.
"""
import collections
import json
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from made_schemas import made_schema  # noqa: E402
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper  # noqa: E402

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "tokenizers")
TOKENIZERS = ("bpe_roberta", "bpe_prefix_space", "bpe_llama")
EXPRESSIONS = ("[0-9]+", "(ab|cd)*x?", "[A-Z][a-z]{2,8}( [A-Z][a-z]*)*", "[^a-z]{1,10}", "(yes|no|maybe)", "[a-z0-9._-]+@[a-z]+\\.(com|org)", "(\\+|-)?[0-9]{1,3}(,[0-9]{3})*")


class Ours:
    def __init__(self, program, tokenizer):
        self.process = subprocess.Popen([program, os.path.join(FIXTURES, tokenizer + ".json")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.tokens = []
        while (line := self.process.stdout.readline().strip()) != "end":
            self.tokens.append(bytes.fromhex(line))

    def ask(self, line):
        """(allowed tokens, may end), or a message."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if answer[0] == "error":
            return " ".join(answer[1:])
        words = [int(answer[1][i:i + 16], 16) for i in range(0, len(answer[1]), 16)]
        return {64 * w + b for w, word in enumerate(words) for b in range(64) if word >> b & 1}, answer[0] == "1"


class Tokens:
    """What llguidance wants of a tokenizer; the last token ends a text."""

    def __init__(self, tokens):
        self.tokens = [t or b"\xff<%d>" % i for i, t in enumerate(tokens)] + [b"\xff<end>"]
        self.special_token_ids = [i for i, t in enumerate(self.tokens) if t[:2] == b"\xff<"]
        self.eos_token_id = len(tokens)
        self.bos_token_id = None
        self.number = {t: i for i, t in enumerate(tokens) if t}

    def __call__(self, text):
        """The longest token at each place."""
        out, at = [], 0
        while at < len(text):
            n = next(n for n in range(min(40, len(text) - at), 0, -1) if text[at:at + n] in self.number)
            out.append(self.number[text[at:at + n]])
            at += n
        return out


def closed(schema):
    """No other properties where the schema says nothing: what libaccel takes it for."""
    if isinstance(schema, list):
        return [closed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: closed(v) if k not in ("const", "enum") else v for k, v in schema.items()}
    if "properties" in out and isinstance(out["properties"], dict) and "type" in out:
        out.setdefault("additionalProperties", False)
    return out


def theirs(tokenizer, kind, source):
    if kind == "regex":
        grammar = LLMatcher.grammar_from_regex(source)
    else:
        schema = dict(source, **{"x-guidance": {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}})
        grammar = LLMatcher.grammar_from_json_schema(schema)
    return LLMatcher(tokenizer, grammar)


def allowed_by(matcher, n):
    mask = matcher.compute_bitmask()
    found = {i for i in range(n + 1) if mask[i // 8] >> (i % 8) & 1}
    return found - {n}, n in found


def inside_string(text):
    return len(re.findall(rb'(?<!\\)(?:\\\\)*"', text)) % 2 == 1


def reason(tokens, mine, other, may_end, they_end, text, source, position):
    """Why the masks of one place differ; None: not known."""
    known = json.dumps(source)
    only = [tokens[t] for t in mine ^ other]
    if len(other) == 1 and other <= mine and may_end == they_end:
        forced = tokens[min(other)]
        if all(forced.startswith(t) or t.startswith(forced) for t in map(tokens.__getitem__, mine)):
            return "forced"  # llguidance allows the tokenizer's own token alone where only one text can follow
    if position == 0 and any(t.startswith(b" ") for t in only) and all(t[:1] in (b" ", b"\0") for t in only):
        return "first space"
    if all(b"\\" in t or b"\0" in t for t in only) and may_end == they_end:
        return "escapes and U+0000"
    if re.search(rb'\\(u[0-9a-fA-F]{0,3})?$', text):
        return "escapes and U+0000"
    if '"format"' in known and inside_string(text):
        return "formats"
    if re.search(rb"-0(\.0*)?$", text) or re.search(rb"-$", text):
        return "-0"
    if re.search(rb"\.[0-9]{5,}$", text) or all(re.search(rb"[0-9]{2,}", t) for t in only) and re.search(rb"\.[0-9]+$", text):
        return "digits of fractions"
    if "exclusive" in known and not only and they_end:
        return "llguidance takes the open bound itself"
    if "-300.0" in known and re.search(rb"-300?(\.0?)?$|-3$", text):
        return "numbers as the schema has them"
    return None


def walk(ours, tokenizer, kind, source, seed, count, examples):
    """One text; False: one of both refuses the grammar."""
    r = random.Random(seed)
    answer = ours.ask(kind + " " + (json.dumps(source) if kind == "schema" else source))
    matcher = theirs(tokenizer, kind, source)
    if isinstance(answer, str) or matcher.is_error():
        count["refused by " + ("libaccel" if isinstance(answer, str) else "llguidance: " + matcher.get_error()[:60])] += 1
        return False
    text = b""
    for position in range(60):
        mine, may_end = answer
        other, they_end = allowed_by(matcher, len(ours.tokens))
        same = mine == other and may_end == they_end
        count["positions"] += 1
        count["equal"] += same
        count["decisions"] += len(ours.tokens) + 1
        count["different decisions"] += len(mine ^ other) + (may_end != they_end)
        why = None if same else reason(ours.tokens, mine, other, may_end, they_end, text, source, position)
        if why:
            count[why] += 1
        elif not same:
            count["not explained"] += 1
            for side, only in (("libaccel", mine - other), ("llguidance", other - mine)):
                for token in sorted(only)[:3]:
                    examples.setdefault((side, ours.tokens[token]), (json.dumps(source)[:110], text[-30:], position))
            if not same and not why and may_end != they_end:
                examples.setdefault(("end", may_end), (json.dumps(source)[:110], text[-30:], position))
        both = sorted(mine & other)
        if not both or (may_end and r.random() < 0.3):
            break
        token = r.choice(both)
        text += ours.tokens[token]
        matcher.consume_token(token)
        answer = ours.ask(str(token))
    return True


def main():
    program = os.path.join(sys.argv[1], "tests", "bench", "grammar_masks")
    schemas = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    for name in TOKENIZERS:
        ours = Ours(program, name)
        tokenizer = LLTokenizer(TokenizerWrapper(Tokens(ours.tokens)))
        sources = [("schema", closed(made_schema(i))) for i in range(schemas)] + [("regex", e) for e in EXPRESSIONS]
        count, examples = collections.Counter(), {}
        for kind, source in sources:
            for seed in range(8):
                if not walk(ours, tokenizer, kind, source, seed, count, examples):
                    break
        print(name, dict(count), f"equal: {100 * count['equal'] / count['positions']:.2f} % of positions, "
              f"{100 - 100 * count['different decisions'] / count['decisions']:.4f} % of decisions")
        for what, where in list(examples.items())[:40]:
            print("   only", *what, *where)


if __name__ == "__main__":
    main()
