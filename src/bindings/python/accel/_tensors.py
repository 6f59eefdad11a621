"""Tensors between Python and libaccel: numpy arrays where numpy is installed, any buffer or nested lists otherwise."""
from __future__ import annotations

import array
import ctypes as C
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from . import _types as T
from ._native import decode, encode, lib

try:
    import numpy as _np
except ImportError:  # optional
    _np = None

# dtype -> (name, bytes of an element, format character of memoryview, "" where there is none)
_KINDS = {
    T.F32: ("float32", 4, "f"), T.F64: ("float64", 8, "d"), T.F16: ("float16", 2, ""), T.BF16: ("bfloat16", 2, ""),
    T.I64: ("int64", 8, "q"), T.I32: ("int32", 4, "i"), T.I8: ("int8", 1, "b"), T.U8: ("uint8", 1, "B"), T.BOOL: ("bool", 1, "?"),
}
_BY_NAME = {name: dtype for dtype, (name, _, _) in _KINDS.items()}
_BY_FORMAT = {"f": T.F32, "d": T.F64, "b": T.I8, "B": T.U8, "?": T.BOOL, "e": T.F16, "i": T.I32, "q": T.I64}
if C.sizeof(C.c_long) == 8:
    _BY_FORMAT["l"] = T.I64


class Tensor:
    """A result without numpy: `shape`, `dtype`, `tolist()` and the buffer protocol through `memoryview`."""

    def __init__(self, data: bytes, dtype: int, shape: Tuple[int, ...]) -> None:
        self._data, self._dtype, self.shape = data, dtype, shape

    @property
    def dtype(self) -> str:
        """The dtype's name, "float32"."""
        return _KINDS[self._dtype][0]

    @property
    def memoryview(self) -> memoryview:
        """The elements, in `shape`; raw bytes for float16 and bfloat16, empty tensors and scalars."""
        view, letter = memoryview(self._data), _KINDS[self._dtype][2]
        return view.cast(letter, shape=self.shape) if letter and self._data and self.shape else view  # type: ignore[call-overload]

    def tolist(self) -> Any:
        """The elements as nested lists."""
        if not _KINDS[self._dtype][2]:
            raise TypeError(f"{self.dtype} has no Python type; install numpy, or use .memoryview")
        if not self._data:
            return _empty(self.shape)
        return self.memoryview.tolist() if self.shape else memoryview(self._data).cast(_KINDS[self._dtype][2])[0]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int) -> Any:
        """A row (a number of a one-dimensional tensor)."""
        if not isinstance(index, int) or not -len(self) <= index < len(self):
            raise IndexError(f"{index!r} is no row of {self!r}")
        size = len(self._data) // len(self)
        index %= len(self)
        row = Tensor(self._data[index * size:(index + 1) * size], self._dtype, self.shape[1:])
        return row if row.shape else row.tolist()

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, dtype={self.dtype})"


def _empty(shape: Sequence[int]) -> Any:
    return [_empty(shape[1:]) for _ in range(shape[0])] if shape and shape[0] else []


def make(data: bytes, dtype: int, shape: Tuple[int, ...]) -> Any:
    """A numpy array, or a Tensor.  bfloat16 becomes float32 in numpy, which has no such type."""
    if _np is None:
        return Tensor(data, dtype, shape)
    if dtype == T.BF16:
        wide = _np.frombuffer(data, _np.uint16).astype(_np.uint32) << 16
        return wide.view(_np.float32).reshape(shape)
    return _np.frombuffer(bytearray(data), _np.dtype(_KINDS[dtype][0])).reshape(shape)


def from_floats(pointer: Any, shape: Tuple[int, ...]) -> Any:
    """Copies float32 values that the library owns."""
    count = 1
    for dim in shape:
        count *= dim
    return make(C.string_at(pointer, 4 * count) if count else b"", T.F32, shape)


# ---- into C ----

def _flatten(value: Any) -> Tuple[List[Any], Tuple[int, ...]]:
    if not isinstance(value, (list, tuple)):
        return [value], ()
    flat: List[Any] = []
    inner: Tuple[int, ...] = ()
    for k, item in enumerate(value):
        part, shape = _flatten(item)
        if k and shape != inner:
            raise ValueError("nested lists must have the same length in every row; pad them")
        inner = shape
        flat += part
    return flat, (len(value),) + inner


def _from_lists(value: Any) -> Tuple[Any, int, Tuple[int, ...]]:
    flat, shape = _flatten(value)
    if all(isinstance(v, bool) for v in flat):
        return array.array("b", flat), T.BOOL, shape
    if all(isinstance(v, int) for v in flat):
        return array.array("q", flat), T.I64, shape
    return array.array("f", flat), T.F32, shape


def _from_buffer(value: Any) -> Tuple[Any, int, Tuple[int, ...]]:
    view = memoryview(value)
    dtype = _BY_FORMAT.get(view.format.lstrip("=<@"))
    if dtype is None:
        raise TypeError(f"libaccel has no dtype for elements of format '{view.format}'")
    return view if view.c_contiguous and not view.readonly else bytearray(view.tobytes()), dtype, tuple(view.shape or ())


def _lower(value: Any) -> Tuple[Any, int, Tuple[int, ...]]:
    """(an object whose writable buffer holds the elements, dtype, shape)"""
    if isinstance(value, Tensor):
        return bytearray(value._data), value._dtype, value.shape
    if _np is not None and not isinstance(value, (list, tuple, int, float)):
        contiguous = _np.ascontiguousarray(value)
        if contiguous.dtype.name not in _BY_NAME:
            raise TypeError(f"libaccel has no dtype for {contiguous.dtype}")
        shape = tuple(_np.shape(value))
        return bytearray(contiguous.tobytes()) if not contiguous.flags.writeable else contiguous, _BY_NAME[contiguous.dtype.name], shape
    if isinstance(value, (list, tuple, int, float)):
        return _from_lists(value)
    return _from_buffer(value)


class Inputs:
    """An accel_tensors over Python's memory; keep it alive during the call."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self.items = (T.accel_tensor * max(len(named), 1))()
        self._keep: List[Any] = []
        for item, (name, value) in zip(self.items, named.items()):
            owner, dtype, shape = _lower(value)
            if len(shape) > T.MAX_RANK:
                raise ValueError(f"{name}: rank {len(shape)} is more than {T.MAX_RANK}")
            size = memoryview(owner).nbytes
            buffer = (C.c_char * size).from_buffer(owner) if size else (C.c_char * 1)()
            label = encode(name)
            self._keep += [owner, buffer, label]
            item.name, item.dtype, item.rank = label, dtype, len(shape)
            for d, dim in enumerate(shape):
                item.dim[d] = dim
            item.data = C.cast(buffer, C.c_void_p)
        self.struct = T.accel_tensors(len(named), C.cast(self.items, C.POINTER(T.accel_tensor)))


# ---- out of C ----

class ModelOutput(Dict[str, Any]):
    """Outputs by name, in the model's order; also as attributes, and by number."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, key: Any) -> Any:
        return list(self.values())[key] if isinstance(key, (int, slice)) else super().__getitem__(key)


def _copy(t: Any) -> Any:
    shape = tuple(t.dim[d] for d in range(t.rank))
    count = 1
    for dim in shape:
        count *= dim
    size = count * _KINDS[t.dtype][1]
    return make(C.string_at(t.data, size) if size else b"", t.dtype, shape)


def take_list(pointer: Any) -> List[Any]:
    """Copies the tensors of a POINTER(accel_tensors) that the library hands out, in their order, and frees it."""
    found = [_copy(pointer.contents.item[k]) for k in range(pointer.contents.n)]
    lib.accel_tensors_free(C.byref(pointer))
    return found


def take(pointer: Any) -> ModelOutput:
    """Copies a POINTER(accel_tensors) that the library hands out, by their names, and frees it."""
    names = [decode(pointer.contents.item[k].name) for k in range(pointer.contents.n)]
    result = ModelOutput()
    for name, tensor in zip(names, take_list(pointer)):
        result[name] = tensor
    return result
