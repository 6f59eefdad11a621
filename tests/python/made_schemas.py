"""JSON Schemas of every kind that docs/constrained.md lists, made from a number."""
import random

WORDS = ["name", "age", "kind", "id", "tags", "a", "ab", "size", "größe", "x y", "on/off", "in\"out"]
FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "duration", "hostname", "ipv6", "uri"]
PATTERNS = ["^[a-z]{1,6}$", "^(ab|cd)+[0-9]?$", "^\\d{3}-\\d{2}$", "b", "^[^\"]{2,5}$", "^.{1,4}$", "^\\w+\\s\\w+$", "^#[0-9a-fA-F]{6}$"]


def string(r):
    kind = r.randrange(6)
    if kind == 0:
        return {"type": "string", "format": r.choice(FORMATS)}
    if kind == 1:
        return {"type": "string", "pattern": r.choice(PATTERNS)}
    if kind == 2:
        return {"type": "string", "pattern": "^[a-z]*$", "minLength": r.randrange(3), "maxLength": 3 + r.randrange(4)}
    if kind == 3:
        return {"enum": r.sample(["red", "green", "x\"y", "ä\n", ""], 3)}
    low = r.randrange(4)
    return {"type": "string", "minLength": low, "maxLength": low + r.randrange(8)}


def number(r):
    kind = r.randrange(10)
    low = r.randrange(-200, 200)
    high = low + r.randrange(1, 300)
    if kind == 0:
        return {"type": "integer", "minimum": low, "maximum": high}
    if kind == 1:
        return {"type": "integer", "exclusiveMinimum": low, "exclusiveMaximum": high + 2}
    if kind == 2:
        return {"type": "number", "minimum": low / 8, "maximum": high / 4 + 30}
    if kind == 3:
        return {"type": "number", "exclusiveMinimum": low / 4, "exclusiveMaximum": low / 4 + 0.5}
    if kind == 4:
        return {"type": "integer", "minimum": 0, "maximum": 10 ** r.randrange(1, 5)}
    if kind == 5:
        return {"type": "number", "maximum": low / 2, "minimum": low / 2 - 7.25}
    if kind == 6:
        return {"type": "integer", "multipleOf": r.choice([2, 5, 7, 60, 0.5]), "minimum": low, "maximum": low + 1000}
    if kind == 7:
        return {"type": "number", "multipleOf": r.choice([0.25, 0.5, 3, 2.5]), "minimum": low, "exclusiveMaximum": high + 20}
    if kind == 8:
        return {"type": "integer", "format": r.choice(["int32", "uint8"])}
    return {"enum": [1, 2.5, -3e2]}


def array(r, depth):
    kind = r.randrange(5)
    if kind == 4:
        return {"type": "array", "items": {"enum": r.sample(["a", "b", "c", 1, 2.5, None, [1], {"x": 1}], 1 + r.randrange(6))}, "uniqueItems": True,
                "minItems": r.randrange(2), "maxItems": 1 + r.randrange(4)}
    if kind == 0:
        return {"type": "array", "items": schema(r, depth - 1), "maxItems": 1 + r.randrange(3)}
    if kind == 1:
        return {"type": "array", "items": schema(r, depth - 1), "minItems": 1, "maxItems": 2}
    if kind == 2:
        return {"type": "array", "prefixItems": [schema(r, depth - 1) for _ in range(1 + r.randrange(2))], "items": False}
    return {"type": "array", "prefixItems": [schema(r, 0)], "items": schema(r, 0), "maxItems": 3}


def an_object(r, depth):
    names = r.sample(WORDS, 1 + r.randrange(4))
    made = {"type": "object", "properties": {n: schema(r, depth - 1) for n in names}, "required": r.sample(names, r.randrange(len(names) + 1))}
    kind = r.randrange(7)
    if kind in (3, 4):
        # of names that none of WORDS is: what a pattern and a property say may exclude each other
        made["patternProperties"] = {"^p[a-z]?$": {"type": ["integer", "null"], "minimum": 3, "maximum": 400}, r.choice(["[0-9]", "^[pq]{1,2}$", "^\\w{1,3}#"]):
                                     r.choice([{"type": ["boolean", "integer"], "multipleOf": 5}, {"type": "integer", "maximum": 99}])}
        if kind == 4:
            made["additionalProperties"] = {"type": ["null", "string"], "maxLength": 3}
    if kind == 0:
        made["additionalProperties"] = False
    if kind == 1:
        made["additionalProperties"] = {"type": ["integer", "null"], "minimum": 0, "maximum": 9}
    if kind == 2:
        made = {"allOf": [made, {"properties": {names[0]: {"description": "any"}, "more": {"type": "boolean"}}, "required": ["more"]}]}
    return made


def union(r, depth):
    if r.randrange(2):
        return {"anyOf": [schema(r, depth - 1), {"type": "null"}]}
    return {"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "v": schema(r, 0)}, "required": ["kind"]},
                      {"type": "object", "properties": {"kind": {"const": "b"}, "w": schema(r, depth - 1)}, "required": ["kind", "w"]}, {"type": "boolean"}]}


def schema(r, depth):
    if depth <= 0:
        return r.choice([string, string, number, number, lambda _: {"type": "boolean"}, lambda _: {"const": None}])(r)
    return r.choice([string, number, lambda x: array(x, depth), lambda x: an_object(x, depth), lambda x: an_object(x, depth), lambda x: union(x, depth)])(r)


def recursive(r):
    return {"$ref": "#/$defs/node", "$defs": {"node": {
        "type": "object", "properties": {"v": schema(r, 0), "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}}, "required": ["v", "next"],
        "additionalProperties": False}}}


def made_schema(number_of):
    r = random.Random(number_of)
    return recursive(r) if number_of % 20 == 7 else schema(r, 1 + number_of % 3)
