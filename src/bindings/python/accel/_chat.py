"""Conversations: `chat = model.chat(system="...")`, then `chat.send("Hello").text`, or token by token with `chat.stream("Hello")`."""
from __future__ import annotations

import ctypes as C
import json
from typing import Any, Dict, Iterator, List, Optional, Sequence

from . import _types as T
from ._generate import Generation, Listener, Token, run, stream
from ._native import check, encode, lib, take_string

Message = Dict[str, Any]


def _json(value: Any) -> Optional[bytes]:
    return None if value is None else encode(json.dumps(value, ensure_ascii=False))


class Chat:
    """Messages, the model's chat template, and what the model has read of them: an answer costs what is new.  Close it before the model."""

    def __init__(self, model: Any, system: Optional[str] = None, messages: Optional[Sequence[Message]] = None,
                 tools: Optional[Sequence[Message]] = None, documents: Optional[Sequence[Message]] = None, chat_template: Optional[str] = None,
                 **variables: Any) -> None:
        """`chat_template` names one of several; other keywords are variables of the template, such as enable_thinking=False."""
        self.model, self._handle = model, C.c_void_p()
        how = lib.accel_chat_params_default()
        keep = [encode(system), _json(messages), encode(chat_template), _json(tools), _json(documents), _json(variables or None)]
        how.system, how.messages, how.template_name, how.tools, how.documents, how.variables = keep
        check(lib.accel_chat_open(model.handle, C.byref(how), C.byref(self._handle)))

    def close(self) -> None:
        """Ends the conversation and gives its memory back."""
        if self._handle and getattr(self.model, "_handle", None):
            lib.accel_chat_close(C.byref(self._handle))

    def __enter__(self) -> "Chat":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __len__(self) -> int:
        """Tokens of the last prompt and its answer."""
        return lib.accel_chat_length(self._handle)

    @property
    def reused(self) -> int:
        """Tokens of the last prompt that had been read before."""
        return lib.accel_chat_reused(self._handle)

    @property
    def messages(self) -> List[Message]:
        """A copy; assign a list to change them."""
        text = C.c_void_p()
        check(lib.accel_chat_messages(self._handle, C.byref(text)))
        return json.loads(take_string(text))

    @messages.setter
    def messages(self, messages: Sequence[Message]) -> None:
        check(lib.accel_chat_set_messages(self._handle, _json(list(messages))))

    def send(self, text: str, on_token: Optional[Listener] = None, **options: Any) -> Generation:
        """Adds a user's message and its answer.  Options as for Model.generate; `on_token` ends the answer by answering True."""
        return run(lambda how, out: lib.accel_chat_send(self._handle, encode(text), how, out), on_token, options)[0]

    def generate(self, on_token: Optional[Listener] = None, **options: Any) -> Generation:
        """Answers the messages as they are."""
        return run(lambda how, out: lib.accel_chat_generate(self._handle, how, out), on_token, options)[0]

    def stream(self, text: str, **options: Any) -> Iterator[Token]:
        """send() as an iterator over tokens, while they come.  Leaving the loop ends the answer, which stays as far as it came."""
        return stream(lambda on_token: self.send(text, on_token, **options))
