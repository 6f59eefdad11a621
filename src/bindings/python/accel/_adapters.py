"""LoRA adapters of PEFT: merged while a model is loaded, or loaded beside it for the requests that name them."""
from __future__ import annotations

import ctypes as C
import os
from typing import Any, Optional, Sequence, Tuple, Union

from . import _types as T
from ._native import check, encode, lib

Path = Union[str, "os.PathLike[str]"]
Adapters = Union[Path, Sequence[Union[Path, Tuple[Path, float]]]]


def adapter_specs(adapters: Optional[Adapters]) -> Any:
    """An array of accel_adapter_spec: of one directory, or of a list of directories or pairs of a directory and a scale."""
    listed = [adapters] if isinstance(adapters, (str, os.PathLike)) else list(adapters or ())
    pairs = [(one, 1.0) if isinstance(one, (str, os.PathLike)) else one for one in listed]
    return (T.accel_adapter_spec * len(pairs))(*((encode(os.fspath(path)), scale) for path, scale in pairs))


class Adapter:
    """An adapter beside a model's weights: `model.load_adapter(path)`, then `adapter=` in generate(), embed() and the others."""

    def __init__(self, model: Any, path: Path, name: Optional[str] = None) -> None:
        self.model, self.path, self.name, self._handle = model, os.fspath(path), name, C.c_void_p()
        check(lib.accel_adapter_load(model.handle, encode(self.path), C.byref(self._handle)))

    @property
    def handle(self) -> C.c_void_p:
        """The `accel_adapter *` of the C interface; one that was deleted raises."""
        if not self._handle:
            raise ValueError("this adapter is deleted")
        return self._handle

    def close(self) -> None:
        """Gives its memory back; no request may use it any more."""
        lib.accel_adapter_free(C.byref(self._handle))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()


def use_adapter(how: Any, adapter: Optional[Adapter], scale: Optional[float]) -> Any:
    """Writes both into a struct of parameters, which keeps the adapter."""
    if adapter is not None:
        if not isinstance(adapter, Adapter):
            raise TypeError(f"adapter={adapter!r}: give what load_adapter() answered, or to a Model the name of one of its adapters")
        how.adapter, how.used_adapter = adapter.handle, adapter
    if scale is not None:
        how.adapter_scale = scale
    return how
