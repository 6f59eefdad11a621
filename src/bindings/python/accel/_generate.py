"""Text generation: transformers' arguments, results as dataclasses, and an iterator over tokens as they come."""
from __future__ import annotations

import ctypes as C
import json
import math
import queue
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from . import _types as T
from ._adapters import use_adapter
from ._native import Media, check, decode, encode, lib, media_array, strings_struct, text_array
from ._queue import Ticket

Prompts = Union[str, Sequence[str], Sequence[int], Sequence[Sequence[int]]]
_NUMBERS = ("max_new_tokens", "min_new_tokens", "temperature", "top_p", "min_p", "typical_p", "top_k", "repetition_penalty", "presence_penalty",
            "frequency_penalty", "no_repeat_ngram_size", "num_beams", "num_return_sequences", "seed", "logprobs",
            "prompt_lookup_num_tokens", "max_matching_ngram_size", "num_assistant_tokens")
_FLAGS = ("ignore_eos", "keep_stop", "keep_special_tokens", "continue_on_error")
_GRAMMARS = {"json_schema": 1, "regex": 2, "grammar": 3, "choices": 4, "any_json": 5}  # accel_grammar_kind


@dataclass(frozen=True)
class Token:
    """One token of a sequence, told as soon as it is chosen.  The texts of a sequence's tokens are its text."""
    id: int
    text: str
    logprob: Optional[float] = None
    finish: Optional[str] = None
    prompt: int = 0
    sequence: int = 0


@dataclass(frozen=True)
class Generation:
    """One generated sequence.  `finish`: "eos", "stop", "length", "time" or "cancelled"; `score`: of beam search, as transformers'
    sequences_scores; `top_logprobs`: for each token the likeliest as {id: logprob}; `error`: with continue_on_error=True why a prompt has no tokens (finish "error");
    `cached_tokens`: of `prompt_tokens`, those that the queue had kept of an earlier prompt;
    `draft_tokens` and `accepted_tokens`: of speculation, tokens that were guessed and those of them that were right."""
    text: str
    ids: List[int]
    finish: str
    score: float = 0.0
    prompt: int = 0
    sequence: int = 0
    prompt_tokens: int = 0
    first_ms: float = 0.0
    token_ms: List[float] = field(default_factory=list)
    logprobs: Optional[List[float]] = None
    top_logprobs: Optional[List[Dict[int, float]]] = None
    error: Optional[str] = None
    cached_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0


def _grammar(name: str, value: Any) -> Optional[str]:
    """What a generated text must be, as the library reads it: schemas may be given as dicts or as JSON, choices as a list of texts."""
    if name == "any_json":
        return None
    if name == "choices":
        return json.dumps([str(choice) for choice in value])
    if name == "json_schema" and not isinstance(value, str):
        return json.dumps(value)
    return str(value)


def _params(options: Dict[str, Any]) -> Any:
    """The struct for transformers' keyword arguments; what it has no field for goes into its `config`."""
    how = lib.accel_generate_params_default()
    rest, keep = {}, []
    for name, value in options.items():
        if value is None:
            continue
        if name in _NUMBERS:
            setattr(how, name, value)
        elif name in _FLAGS:
            setattr(how, name, int(bool(value)))
        elif name == "adapter":
            use_adapter(how, value, None)
        elif name == "adapter_scale":
            how.adapter_scale = value
        elif name == "do_sample":
            how.do_sample = int(bool(value))
        elif name == "add_special_tokens":
            how.no_special_tokens = int(not value)
        elif name in ("stop", "stop_strings"):
            struct = strings_struct([value] if isinstance(value, str) else value)
            keep.append(struct)
            how.stop = C.pointer(struct)
        elif name in _GRAMMARS:
            if how.grammar_kind:
                raise ValueError("json_schema, regex, grammar, choices, any_json: one of them")
            if name != "any_json" or value:
                how.grammar_kind = _GRAMMARS[name]
                source = _grammar(name, value)
                if source is not None:
                    text = encode(source)
                    keep.append(text)
                    how.grammar = text
        elif name == "assistant_model":
            keep.append(value)
            how.assistant_model = value.handle
        elif name == "sequence_bias" and isinstance(value, dict):
            rest[name] = [[list(ids), float(bias)] for ids, bias in value.items()]
        else:
            rest[name] = value
    if rest:
        text = encode(json.dumps(rest))
        keep.append(text)
        how.config = text
    how.keep = keep  # as long as the struct
    return how


def _take(pointer: Any) -> List[Generation]:
    result = []
    for k in range(pointer.contents.n):
        g = pointer.contents.item[k]
        width = g.alternatives
        top = [{a.id: a.logprob for a in g.alternative[t * width:(t + 1) * width] if a.id >= 0} for t in range(g.n)] if width else None
        result.append(Generation(decode(g.text), g.ids[:g.n], decode(g.finish), g.score, g.prompt, g.sequence, g.prompt_tokens, g.first_ms,
                                 g.token_ms[:g.n] if g.token_ms else [], g.logprob[:g.n] if g.logprob else None, top, decode(g.error) if g.error else None,
                                 g.cached_tokens, g.draft_tokens, g.accepted_tokens))
    lib.accel_generations_free(C.byref(pointer))
    return result


def _rows(prompts: Prompts) -> Any:
    """(texts, None), or (None, rows of ids)."""
    if isinstance(prompts, str):
        return [prompts], None
    items = list(prompts)
    if all(isinstance(i, str) for i in items):
        return items, None
    if items and not hasattr(items[0], "__len__"):
        items = [items]
    return None, [[int(i) for i in row] for row in items]


Listener = Callable[[Token], Any]


def run(call: Callable[[Any, Any], int], on_token: Optional[Listener], options: Dict[str, Any]) -> List[Generation]:
    """What call(params, result pointer) generates; `on_token` hears the tokens."""
    how, pointer = _params(options), C.POINTER(T.accel_generations)()
    failure = listen(how, on_token)
    status = call(C.byref(how), C.byref(pointer))
    if failure:
        if pointer:
            lib.accel_generations_free(C.byref(pointer))
        raise failure[0]
    check(status)
    return _take(pointer)


def listen(how: Any, on_token: Optional[Listener]) -> List[BaseException]:
    """Sets the params' listener; what it raises will be in the list, and ends the generation."""
    failure: List[BaseException] = []

    def forward(_: Any, event: Any) -> int:
        e = event.contents
        try:
            return int(bool(on_token(Token(e.id, decode(e.text), None if math.isnan(e.logprob) else e.logprob, decode(e.finish) or None, e.prompt,
                                       e.sequence))))
        except BaseException as error:  # travels around the library
            failure.append(error)
            return 1

    if on_token is not None:
        how.on_token = T.TokenFunction(forward)
    return failure


def _id_array(ids: Sequence[int]) -> Any:
    return (C.c_int32 * max(len(ids), 1))(*ids)


def generate(handle: Any, prompts: Prompts, on_token: Optional[Listener], options: Dict[str, Any]) -> List[Generation]:
    texts, ids = _rows(prompts)
    if texts is not None:
        return run(lambda how, out: lib.accel_generate(handle, text_array(texts), len(texts), how, out), on_token, options)
    arrays = [_id_array(row) for row in ids]
    rows = (C.POINTER(C.c_int32) * max(len(ids), 1))(*[C.cast(a, C.POINTER(C.c_int32)) for a in arrays])
    count = (C.c_uint32 * max(len(ids), 1))(*[len(row) for row in ids])
    return run(lambda how, out: lib.accel_generate_ids(handle, rows, count, len(ids), how, out), on_token, options)


def text2text(handle: Any, texts: Sequence[str], task: Optional[str], source: Optional[str], target: Optional[str], truncation: bool,
              on_token: Optional[Listener], options: Dict[str, Any]) -> List[Generation]:
    how = lib.accel_text2text_params_default()
    keep = encode(task), encode(source), encode(target)
    how.task, how.source, how.target = keep
    how.truncate = int(bool(truncation))

    def call(generate_params: Any, out: Any) -> int:
        how.generate = C.cast(generate_params, C.POINTER(T.accel_generate_params))
        return lib.accel_text2text(handle, text_array(texts), len(texts), C.byref(how), out)
    return run(call, on_token, options)


_PROMPT_KINDS = {"text": 0, "question": 1, "messages": 2, "templated": 3}  # accel_prompt_kind


def image_prompts(prompts: Sequence[Tuple[Optional[str], Sequence[Media]]], kind: str) -> Any:
    """An array of accel_image_prompt for (text, pictures), which keeps what it points to."""
    if kind not in _PROMPT_KINDS:
        raise ValueError(f"kind '{kind}' is none of {', '.join(_PROMPT_KINDS)}")
    array = (T.accel_image_prompt * max(len(prompts), 1))()
    array.keep = []
    for to, (text, images) in zip(array, prompts):
        media, words = media_array(images), encode(text)
        array.keep.append((media, words))
        to.kind, to.text, to.images, to.n_images = _PROMPT_KINDS[kind], words, media, len(images)
    return array


class GenerationTicket(Ticket):
    """A generation in a model's queue: `model.submit_generate()`."""

    def __init__(self, model: Any, prompt: Union[str, Sequence[int], None], on_token: Optional[Listener], what: Any, options: Dict[str, Any],
                 images: Sequence[Media] = (), kind: str = "text") -> None:
        self._how = _params(options)
        self._failure = listen(self._how, on_token)
        pictured = image_prompts([(prompt, images)], kind) if len(images) or kind != "text" else None  # type: ignore[list-item]
        if pictured is not None:
            what.image_prompt = pictured
        elif isinstance(prompt, str):
            what.prompt = encode(prompt)
        else:
            ids = [int(i) for i in prompt or ()]
            what.ids, what.n = _id_array(ids), len(ids)
        what.generate = C.pointer(self._how)
        super().__init__(model, what, lib.accel_wait_generations, T.accel_generations, _take)

    def wait(self, timeout: Optional[float] = None) -> List[Generation]:
        """Its sequences; errors as Ticket.wait()."""
        try:
            return super().wait(timeout)
        finally:
            if self._failure and not self._handle:
                raise self._failure[0]

    def __del__(self) -> None:
        # The queue's thread may still tell tokens to functions that live in this object.
        if getattr(self, "_handle", None) and getattr(self._model, "_handle", None):
            try:
                self.wait()
            except Exception:
                pass


class Session:
    """Tokens that a decoder has read, kept on the device, so that going on costs what is new alone: `model.session()`."""

    def __init__(self, model: Any, path: Optional[str] = None, handle: Optional[C.c_void_p] = None) -> None:
        self.model, self._handle = model, handle or C.c_void_p()
        if path is not None:
            check(lib.accel_session_load(model.handle, encode(str(path)), C.byref(self._handle)))
        elif handle is None:
            check(lib.accel_session_open(model.handle, C.byref(self._handle)))

    def close(self) -> None:
        """Ends the session and gives its memory back."""
        if self._handle and getattr(self.model, "_handle", None):
            lib.accel_session_close(C.byref(self._handle))

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __len__(self) -> int:
        return lib.accel_session_length(self._handle)

    @property
    def ids(self) -> List[int]:
        """The tokens in the session, fed and generated."""
        return lib.accel_session_ids(self._handle)[:len(self)] if len(self) else []

    def feed(self, text_or_ids: Union[str, Sequence[int]], add_special_tokens: bool = False) -> None:
        """Reads a text, or token ids, after what the session has."""
        if isinstance(text_or_ids, str):
            check(lib.accel_session_feed(self._handle, encode(text_or_ids), int(add_special_tokens)))
        else:
            ids = [int(i) for i in text_or_ids]
            check(lib.accel_session_feed_ids(self._handle, _id_array(ids), len(ids)))

    def generate(self, on_token: Optional[Listener] = None, **options: Any) -> Generation:
        """Goes on from what was fed; what is generated becomes part of the session.  Options as for Model.generate."""
        return run(lambda how, out: lib.accel_session_generate(self._handle, how, out), on_token, options)[0]

    def truncate(self, tokens: int) -> None:
        """Keeps the first tokens; 0 begins anew."""
        check(lib.accel_session_truncate(self._handle, tokens))

    def fork(self) -> "Session":
        """A session of its own with the same tokens; memory is shared until one goes on."""
        handle = C.c_void_p()
        check(lib.accel_session_fork(self._handle, C.byref(handle)))
        return Session(self.model, handle=handle)

    def save(self, path: str) -> None:
        """Writes tokens and state to a file, which Model.session(path) reads."""
        check(lib.accel_session_save(self._handle, encode(str(path))))


def stream(work: Callable[[Listener], Any]) -> Iterator[Token]:
    """Tokens as they come from work(on_token), which runs in a thread of its own; leaving the loop ends the generation."""
    waiting: "queue.Queue[Any]" = queue.Queue()
    left = threading.Event()

    def on_token(token: Token) -> bool:
        waiting.put(token)
        return left.is_set()

    def target() -> None:
        try:
            work(on_token)
            waiting.put(None)
        except BaseException as error:
            waiting.put(error)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    try:
        while True:
            item = waiting.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        left.set()
        thread.join()
