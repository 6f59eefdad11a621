"""Arguments of transformers' tokenizers that say where texts are cut."""
from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Union

from ._native import encode

Truncation = Union[bool, str, None]


def use_truncation(how: Any, truncation: Truncation, max_length: Optional[int]) -> Any:
    """Writes both into a struct of parameters.  truncation: None and True are "longest_first", False is "do_not_truncate"."""
    how.keep_truncation = encode({True: None, False: "do_not_truncate"}.get(truncation, truncation))  # type: ignore[call-overload]
    how.truncation, how.max_length = how.keep_truncation, max_length or 0
    return how


def tokenizer_options(given: Mapping[str, Any]) -> Dict[str, Any]:
    """truncation and max_length of a tokenizer's arguments.  padding is taken and changes nothing, since each text is run by itself; beside
    padding="max_length" alone, max_length cuts nothing, as in transformers."""
    for name in given:
        if name not in ("truncation", "max_length", "padding"):
            raise TypeError(f"the tokenizer's argument '{name}' is not supported; known: truncation, max_length, padding")
    truncation, most = given.get("truncation"), given.get("max_length")
    if truncation is None and given.get("padding") == "max_length":
        most = None
    return {name: value for name, value in (("truncation", truncation), ("max_length", most)) if value is not None}
