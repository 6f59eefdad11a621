"""Several models under one memory budget: `accel.Pool`."""
from __future__ import annotations

import ctypes as C
import json
import weakref
from typing import Any, Dict, Optional, Union

from . import _types as T
from ._context import Context, byte_count, default_context
from ._model import Model, init_params, queue_numbers
from ._native import check, encode, lib, take_string

PINNED, PRELOAD = 1, 2  # accel_pool_flags


class PooledModel(Model):
    """A model of a pool in use: all that a Model does.  close(), or the end of a `with` block, gives it back to the pool."""

    def __init__(self, pool: "Pool", name: str, ref: C.c_void_p) -> None:
        self._handle = C.c_void_p()  # for __del__, should what follows fail
        self.adapters = {}
        self.pool, self.name, self.context, self._ref = pool, name, pool.context, ref
        self._handle = C.c_void_p(lib.accel_pool_ref_endpoint(ref))

    @property
    def queue(self) -> C.c_void_p:
        """The name's own `accel_queue *`."""
        return C.c_void_p(lib.accel_pool_ref_queue(self._ref)) if self.handle else C.c_void_p()

    def close(self) -> None:
        """Releases the reference; the model may be unloaded from then on."""
        if self._handle:
            self._handle = C.c_void_p()
            lib.accel_pool_release(C.byref(self._ref))

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and getattr(self.pool, "_handle", None):
            self.close()


class Pool:
    """Models under one memory budget: loaded when they are asked for, the one used longest ago unloaded when another needs its memory.

    `memory`: bytes (or "4G") of all of them together; None: what the planner sees on each device.  `max_wait`: seconds that model() waits where it is
    not told; None: for ever."""

    def __init__(self, memory: Union[int, str, None] = None, max_wait: Optional[float] = None, context: Optional[Context] = None) -> None:
        self._handle = C.c_void_p()
        self.context = context or default_context()
        params = lib.accel_pool_params_default()
        params.memory_limit = 0 if memory is None else byte_count(memory)
        params.max_wait_ms = 0 if max_wait is None else max(1, int(1000 * max_wait))
        check(lib.accel_pool_open(self.context.handle, C.byref(params), C.byref(self._handle)))
        self._used: "weakref.WeakSet[PooledModel]" = weakref.WeakSet()
        self.context.endpoints.add(self)  # ends before its context

    @property
    def handle(self) -> C.c_void_p:
        """The `accel_pool *` of the C interface; a closed pool raises."""
        if not self._handle:
            raise ValueError("this pool is closed")
        return self._handle

    def add(self, name: str, model: str, pinned: bool = False, preload: bool = False, **options: Any) -> None:
        """Adds a model under a name; the options are those of Model.  `pinned`: it is never unloaded once it is loaded; `preload`: it is loaded at
        once."""
        how, _strings = init_params(**options)
        check(lib.accel_pool_add(self.handle, encode(name), encode(str(model)), C.byref(how), PINNED * pinned | PRELOAD * preload))

    def model(self, name: str, timeout: Optional[float] = None) -> PooledModel:
        """The model of that name, loaded if it is not, to be closed when it is not used any more:  `with pool.model("x") as model: ...`.
        `timeout`: seconds to wait for memory that others use, or for another's load; None: the pool's max_wait.  AccelTimeoutError,
        DoesNotFitError."""
        ref = C.c_void_p()
        check(lib.accel_pool_acquire(self.handle, encode(name), -1 if timeout is None else int(1000 * timeout), C.byref(ref)))
        model = PooledModel(self, name, ref)
        self._used.add(model)
        return model

    def pin(self, name: str, pinned: bool = True) -> None:
        """Whether the model is never unloaded."""
        check(lib.accel_pool_pin(self.handle, encode(name), int(pinned)))

    def move(self, name: str, device: str) -> None:
        """Loads the model on another device and hands that one out from then on; who uses the old one goes on with it."""
        check(lib.accel_pool_move(self.handle, encode(name), encode(device)))

    def stats(self, name: Optional[str] = None) -> Dict[str, Any]:
        """What the pool, or one of its models, has done and holds: loads, hits, evictions, bytes, load_seconds, wait_seconds ..."""
        found = T.accel_pool_stats(size=C.sizeof(T.accel_pool_stats))
        check(lib.accel_pool_stats_of(self.handle, encode(name), C.byref(found)))
        return {field[0]: getattr(found, field[0]) for field in found._fields_[1:]}

    def queue_stats(self, name: str) -> Dict[str, Any]:
        """Model.queue_stats of a name, without loading its model: all 0 while it is not loaded."""
        found = T.accel_queue_stats(size=C.sizeof(T.accel_queue_stats))
        check(lib.accel_pool_queue_statistics(self.handle, encode(name), C.byref(found)))
        return queue_numbers(found)

    def describe(self) -> Dict[str, Any]:
        """The same of the pool and of each model, in "models", with where it is."""
        text = C.c_void_p()
        check(lib.accel_pool_json(self.handle, C.byref(text)))
        found: Dict[str, Any] = json.loads(take_string(text))
        return found

    def close(self) -> None:
        """Unloads all models; those in use are closed before."""
        if self._handle:
            for model in list(self._used):
                model.close()
            lib.accel_pool_close(C.byref(self._handle))

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and getattr(self.context, "_handle", None):
            self.close()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
