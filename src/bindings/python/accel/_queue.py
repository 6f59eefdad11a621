"""Requests in a model's queue: `model.submit()`, `submit_embed()`, `submit_classify()`, `submit_rerank()`, `submit_generate()`."""
from __future__ import annotations

import ctypes as C
from typing import Any, Callable, Optional

from . import _types as T
from ._native import check, lib

RUN, EMBED, CLASSIFY, RERANK, GENERATE = range(5)  # accel_request_kind


def request(kind: int, priority: int = 0, deadline: Optional[float] = None) -> Any:
    """An accel_request without what it asks for.  `deadline`: seconds."""
    r = lib.accel_request_default(kind)
    r.priority = priority
    r.deadline_ms = 0 if deadline is None else max(1, int(1000 * deadline))
    return r


class Ticket:
    """A request in a model's queue."""

    def __init__(self, model: Any, what: Any, wait: Any, result: Any, take: Callable[[Any], Any]) -> None:
        """`wait`: the C function that waits for it, with a pointer to `result`, which `take` makes a value of."""
        self._model, self._handle, self._wait, self._result, self._take = model, C.c_void_p(), wait, result, take
        check(lib.accel_submit_request(model.queue, C.byref(what), C.byref(self._handle)))

    def wait(self, timeout: Optional[float] = None) -> Any:
        """What the request gives.  AccelTimeoutError after `timeout` seconds, the ticket stays valid; also when its deadline passed before it
        began.  CancelledError after cancel()."""
        if not self._handle:
            raise ValueError("this ticket was waited for already")
        pointer = C.POINTER(self._result)()
        check(self._wait(C.byref(self._handle), -1 if timeout is None else int(1000 * timeout), C.byref(pointer)))
        return self._take(pointer)

    def cancel(self) -> None:
        """Asks for its end: at once while it waits, else at the next step; a result that is there stays.  The ticket is waited for as ever."""
        lib.accel_ticket_cancel(self._handle)
