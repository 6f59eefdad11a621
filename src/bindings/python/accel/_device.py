"""Devices in hand: which are there, what they are, tensors in their memory.  The functions take a device's name, or an OpenDevice; without one
the best device of the default context is meant ("auto")."""
from __future__ import annotations

import ctypes as C
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple, Union

from . import _types as T
from ._context import Context, Device, _record, default_context
from ._errors import UnsupportedError
from ._native import check, decode, encode, lib, take_string
from ._tensors import Inputs, take


@dataclass(frozen=True)
class MemorySummary:
    """Bytes, as the driver tells now (0: it does not).  `tensors`, `tensor_bytes`: of to_device; `endpoints`: models of the context there."""
    total: int
    free: int
    budget: int
    shared_with_host: int
    tensors: int
    tensor_bytes: int
    endpoints: int


class OpenDevice:
    """A device that passed its self-test.  `name` is "rocm:0", `type` "rocm"; ends with its context at the latest."""

    def __init__(self, wanted: str = "auto", context: Optional[Context] = None) -> None:
        self.context = context or default_context()
        self._handle = C.c_void_p()
        self._stream: Optional[Stream] = None
        check(lib.accel_get_device(self.context.handle, encode(wanted), C.byref(self._handle)))
        self.context.endpoints.add(self)

    @property
    def handle(self) -> C.c_void_p:
        """The `accel_device *` of the C interface; a closed device raises."""
        if not self._handle:
            raise ValueError("this device is closed")
        return self._handle

    def close(self) -> None:
        """Does the stream's remaining copies and closes the device; its tensors stay valid."""
        if self._handle:
            lib.accel_device_close(C.byref(self._handle))

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and getattr(self.context, "_handle", None):
            self.close()

    def __enter__(self) -> "OpenDevice":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OpenDevice({self.name!r})"

    @property
    def info(self) -> Device:
        """What the device is."""
        return _record(Device, lib.accel_get_device_info(self.handle).contents)

    @property
    def name(self) -> str:
        """"cpu", "rocm:0" ..."""
        return self.info.name

    @property
    def type(self) -> str:
        """"cpu", "rocm", "cuda", "opencl", "vulkan" ..."""
        return decode(lib.accel_get_device_type(self.handle))

    def describe(self) -> str:
        """What print_device_info prints."""
        text = C.c_void_p()
        check(lib.accel_device_info_text(self.handle, C.byref(text)))
        return take_string(text)

    def memory_summary(self) -> MemorySummary:
        """The device's memory in bytes; 0: not known."""
        summary = lib.accel_memory_summary_default()
        check(lib.accel_device_memory(self.handle, C.byref(summary)))
        return _record(MemorySummary, summary)

    def why_not(self, precision: str) -> str:
        """Runs a small tensor at "fp16" or "bf16"; "" when its numbers are right, else the reason."""
        try:
            check(lib.accel_probe_precision(self.handle, encode(precision)))
        except UnsupportedError as error:
            return error.message
        return ""

    def synchronize(self) -> None:
        """Waits for queued requests of the context's models on the device and for the stream's copies."""
        check(lib.accel_synchronize(self.handle))
        if self._stream:
            self._stream.pending.clear()

    def empty_cache(self) -> int:
        """Gives back the scratch memory of the context's models on the device; the bytes."""
        return _empty_cache(self.context, self.handle)

    def to_device(self, value: Any) -> "DeviceTensor":
        """Copies an array into the device's memory."""
        return DeviceTensor(self, value)

    def stream(self) -> "Stream":
        """The device's one stream of copies."""
        if not self._stream:
            self._stream = Stream(self)
        return self._stream


class DeviceTensor:
    """A tensor in a device's memory, made by to_device."""

    def __init__(self, device: OpenDevice, value: Any, stream: Optional["Stream"] = None) -> None:
        self.device = device
        self._handle = C.c_void_p()
        inputs = Inputs({"tensor": value})
        if stream:
            check(lib.accel_stream_to_device(stream.handle, inputs.items, C.byref(self._handle)))
            stream.pending += [inputs, self]
        else:
            check(lib.accel_to_device(device.handle, inputs.items, C.byref(self._handle)))
        device.context.endpoints.add(self)

    @property
    def handle(self) -> C.c_void_p:
        """The `accel_device_tensor *` of the C interface; a closed tensor raises."""
        if not self._handle:
            raise ValueError("this tensor was given back")
        return self._handle

    @property
    def shape(self) -> Tuple[int, ...]:
        """Sizes, slowest dim first."""
        view = lib.accel_device_tensor_view(self.handle).contents
        return tuple(view.dim[: view.rank])

    def to_host(self) -> Any:
        """A numpy array, or an accel.Tensor without numpy."""
        pointer = C.POINTER(T.accel_tensors)()
        check(lib.accel_to_host(self.handle, C.byref(pointer)))
        return take(pointer)["tensor"]

    cpu = to_host

    def close(self) -> None:
        """Frees the device's memory."""
        if self._handle:
            lib.accel_device_tensor_free(C.byref(self._handle))

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and getattr(self.device.context, "_handle", None):
            self.close()


class Stream:
    """Copies to a device in order, beside the program; they are done after synchronize()."""

    def __init__(self, device: OpenDevice) -> None:
        self.device = device
        self.handle = C.c_void_p()
        self.pending: List[Any] = []  # what the copies still read
        check(lib.accel_get_device_stream(device.handle, C.byref(self.handle)))

    def to_device(self, value: Any) -> DeviceTensor:
        """Copies an array to the device later, in order; the array must live until synchronize()."""
        return DeviceTensor(self.device, value, self)

    def synchronize(self) -> None:
        """Waits for the copies."""
        self.device.synchronize()


Named = Union[str, OpenDevice, None]


def _empty_cache(context: Context, device: Optional[C.c_void_p]) -> int:
    released = C.c_uint64()
    check(lib.accel_empty_cache(context.handle, device, C.byref(released)))
    return released.value


def _available(call: Any) -> bool:
    found = C.c_int()
    check(call(default_context().handle, C.byref(found)))
    return bool(found.value)


def is_rocm_available() -> bool:
    """A real AMD GPU is there, its runtime answers, its self-test passed."""
    return _available(lib.accel_is_rocm_available)


def is_cuda_available() -> bool:
    """The same for an NVIDIA GPU."""
    return _available(lib.accel_is_cuda_available)


def get_device(wanted: Named = None) -> OpenDevice:
    """The first device of `wanted` ("auto", "rocm:0", "gpu", "cpu" ...) that passes its self-test; DeviceUnavailableError lists why none does."""
    if isinstance(wanted, OpenDevice):
        return wanted
    context = default_context()
    known = context.__dict__.setdefault("open_devices", {})
    name = wanted or "auto"
    if name not in known or not known[name]._handle:
        known[name] = OpenDevice(name, context)
    return known[name]


def get_device_type(device: Named = None) -> str:
    """"cpu", "rocm", "cuda", "opencl", "vulkan" ..."""
    return get_device(device).type


def print_device_info(device: Named = None) -> None:
    """Prints what a device is, its memory, runtime and driver, and whether halves compute there."""
    print(get_device(device).describe(), end="")


def to_device(value: Any, device: Named = None) -> DeviceTensor:
    """Copies an array into a device's memory; `.to_host()` brings it back.  Models take arrays in host memory and move them themselves."""
    return get_device(device).to_device(value)


def empty_cache(device: Named = None) -> int:
    """Gives back the scratch memory of the default context's models, on one device or on all; the bytes."""
    if device is None:
        return _empty_cache(default_context(), None)
    return get_device(device).empty_cache()


def synchronize(device: Named = None) -> None:
    """Waits for queued requests of models on the device and for its stream's copies."""
    get_device(device).synchronize()


def get_device_stream(device: Named = None) -> Stream:
    """The device's stream: copies in order, beside the program."""
    return get_device(device).stream()


def memory_summary(device: Named = None) -> MemorySummary:
    """Memory of a device in bytes; None: of the best one."""
    return get_device(device).memory_summary()


def is_half_precision_available(device: Named = None, precision: str = "fp16") -> bool:
    """Runs a small tensor at "fp16" or "bf16" and compares the numbers."""
    return not get_device(device).why_not(precision)


def runtime_version(hardware: str) -> Tuple[str, str]:
    """(version of the runtime, version of the driver under it) of "amd", "cuda", "opencl" or "vulkan"; "" what is not known or not there."""
    version, driver = C.c_void_p(), C.c_void_p()
    check(lib.accel_runtime_version(default_context().handle, encode(hardware), C.byref(version), C.byref(driver)))
    return take_string(version), take_string(driver)


def rocm_version() -> Optional[str]:
    """ROCm's version, None where there is none."""
    return runtime_version("amd")[0] or None
