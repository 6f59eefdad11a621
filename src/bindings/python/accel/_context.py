"""The context: settings, threads, devices and registry of the library.  Most programs use the one that is made at first need."""
from __future__ import annotations

import atexit
import ctypes as C
import json
import logging
import re
import threading
import weakref
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _types as T
from ._errors import UnknownModelError
from ._native import check, decode, encode, lib, string_list, take_string, text_array

_log = logging.getLogger("accel")
_log.addHandler(logging.NullHandler())  # silent unless the application listens
_LEVELS = [logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG]
_MODES = ("latency", "throughput")


@dataclass(frozen=True)
class Device:
    """A device, or one kind of hardware that is not there, with the reason."""
    name: str
    hardware: str
    plugin: str
    implementation_type: str
    description: str
    arch: str
    driver: str
    id: str
    type: str
    compiled: Optional[bool]
    loaded: Optional[bool]
    found: Optional[bool]
    tested: Optional[bool]
    usable: bool
    is_amd: bool
    reason: str
    remedy: str
    memory_total: int
    memory_free: int


@dataclass(frozen=True)
class TestRecord:
    """One combination that really ran."""
    platform: str
    hardware: str
    precision: str
    device: str
    implementation_type: str
    input: str
    output: str
    passed: bool
    max_abs: float
    max_rel: float
    cosine: float
    ms: float
    weights: str


class TestReport(Dict[str, str]):
    """"<hardware>_<precision>_test" -> "Success", "Hardware not available", ...; `records` has what really ran."""
    records: List[TestRecord]


@dataclass(frozen=True)
class VerifyReport:
    """The outcome of Context.verify; `passed`: every output is within its bound."""
    passed: bool
    architecture: str
    device: str
    precision: str
    outputs: List[Dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class FitPart:
    """The share of one of several devices, in bytes; layers are counted from 0."""
    device: str
    first_layer: int
    last_layer: int
    fits: bool
    streams: bool
    weights: int
    total: int
    available: int


@dataclass(frozen=True)
class FitRun:
    """One run of a part of a pipeline that makes pictures, which a call makes so many times; `scratch` in bytes, `seconds` of one (0: not known, or not asked for)."""
    entry: str
    output: str
    times: int
    scratch: int
    seconds: float = 0.0


@dataclass(frozen=True)
class Fit:
    """What a model takes on one device at one precision, in bytes; `runs`: of a pipeline that makes pictures; `parts`: where `device` is several, "vulkan:0+cpu", the share of each.  `fits`: True or False; None: it cannot run there, and `reason` says why."""
    device: str
    precision: str
    fits: Optional[bool]
    reason: str
    advice: str
    weights: int
    weights_in_file: int
    state_per_token: int
    state: int
    scratch: int
    total: int
    peak: int
    memory: int
    available: int
    tokenizer: int
    resident: int
    streams: bool
    stream_least: int
    stream_resident: int
    stream_staging: int
    stream_read: int
    at_once: int
    disk_bytes_per_second: float
    compute_seconds: float
    seconds_per_token: float
    seconds_to_first: float
    stream_host: int
    copy_bytes_per_second: float
    stream_disk: int
    parts: Tuple[FitPart, ...] = ()
    runs: Tuple[FitRun, ...] = ()


@dataclass(frozen=True)
class CacheEntry:
    """One entry of the cache of packed weights; `used`: last use, seconds since 1970."""
    file: str
    label: str
    bytes: int
    used: int


def _record(kind: Any, struct: Any) -> Any:
    """A dataclass from the struct's fields of the same names."""
    values = {}
    for name, declared in kind.__annotations__.items():
        if name == "parts":
            values[name] = tuple(_record(FitPart, struct.part[i]) for i in range(struct.n_part))
            continue
        if name == "runs":
            values[name] = tuple(_record(FitRun, struct.run[i]) for i in range(struct.n_run))
            continue
        value = getattr(struct, name)
        if isinstance(value, bytes) or value is None:
            value = decode(value)
        elif "bool" in str(declared):
            value = None if value < 0 else bool(value)
        values[name] = value
    return kind(**values)


def take_report(pointer: Any) -> TestReport:
    r = pointer.contents
    report = TestReport((decode(r.key[i]), decode(r.value[i])) for i in range(r.n))
    report.records = [_record(TestRecord, r.record[i]) for i in range(r.n_records)]
    lib.accel_test_report_free(C.byref(pointer))
    return report


def _names(values: Any) -> List[str]:
    return [values] if isinstance(values, str) else list(values or [])


def byte_count(size: Union[int, str]) -> int:
    """4 << 30, "4G", "512M", "900K"."""
    if isinstance(size, int):
        return size
    found = re.fullmatch(r"(\d+)([KMG]?)", size.strip().upper())
    if not found:
        raise ValueError(f"memory is {size!r}; it takes bytes, or a size such as '4G'")
    return int(found.group(1)) << {"": 0, "K": 10, "M": 20, "G": 30}[found.group(2)]


class Context:
    """What `accel_create` makes.  Messages go to `logging.getLogger("accel")`.

    `memory`: bytes (or "4G") that a model may use; of one that needs more, weights are read again in each run (Model.streaming).

    `mode`: "latency" lets one call use all threads, and calls at once share them; "throughput" keeps each call to its own thread.

    `rank`, `world`, `transport`, `job`: one of several processes that compute each model together (docs/scale.md).  Rank 0 is used as any other
    context; the others call `follow()`."""

    def __init__(self, threads: int = 0, plugin_path: Optional[str] = None, registry_path: Optional[str] = None,
                 cache_directory: Optional[str] = None, allow_software: bool = False, log_level: int = logging.WARNING,
                 progress: Optional[Callable[[str, int, int], None]] = None, cancel: Optional[Callable[[], bool]] = None,
                 mode: str = "latency", no_cache: bool = False, cache_limit: int = 0, memory_limit: int = 0,
                 memory: Union[int, str, None] = None, rank: int = 0, world: int = 0, transport: Optional[str] = None,
                 job: Optional[str] = None) -> None:
        if mode not in _MODES:
            raise ValueError(f"mode is {mode!r}; it takes {' or '.join(_MODES)}")
        params = lib.accel_params_default()
        params.mode = _MODES.index(mode)
        params.no_cache, params.cache_limit, params.memory_limit = int(no_cache), cache_limit, memory_limit if memory is None else byte_count(memory)
        keep = [encode(plugin_path), encode(registry_path), encode(cache_directory), encode(transport), encode(job)]
        params.threads, params.allow_software = threads, int(allow_software)
        params.plugin_path, params.registry_path, params.cache_directory, params.transport, params.job = keep
        params.rank, params.world = rank, world
        params.log_level = sum(1 for level in _LEVELS[1:] if level >= log_level)
        params.log = T.LogFunction(lambda _, level, message: _log.log(_LEVELS[level], "%s", decode(message)))
        if progress:
            params.progress = T.ProgressFunction(lambda _, what, done, all_: progress(decode(what), done, all_))
        if cancel:  # called often, and each call takes Python's lock: keep it short
            params.cancel = T.CancelFunction(lambda _: int(bool(cancel())))
        self._params = params  # keeps the callbacks alive
        self._handle = C.c_void_p()
        self.endpoints: "weakref.WeakSet[Any]" = weakref.WeakSet()
        check(lib.accel_create(C.byref(params), C.byref(self._handle)))
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the context and its models."""
        for endpoint in list(self.endpoints):
            endpoint.close()
        if self._handle:
            lib.accel_destroy(C.byref(self._handle))
        atexit.unregister(self.close)

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def handle(self) -> C.c_void_p:
        """The `accel *` of the C interface; a closed context raises."""
        if not self._handle:
            raise ValueError("this context is closed")
        return self._handle

    @property
    def threads(self) -> int:
        """Threads that may compute at once."""
        return lib.accel_thread_count(self.handle)

    def follow(self) -> None:
        """Ranks behind 0: does what rank 0 does, until it ends its context.  DeviceLostError when a rank is gone."""
        check(lib.accel_follow(self.handle))

    # ---- detection ----

    def devices(self, refresh: bool = False) -> List[Device]:
        """Every device a user could have, usable or not, with the reason; `refresh` looks again."""
        pointer = C.POINTER(T.accel_devices)()
        check(lib.accel_detect(self.handle, int(refresh), C.byref(pointer)))
        found = [_record(Device, pointer.contents.item[i]) for i in range(pointer.contents.n)]
        lib.accel_devices_free(C.byref(pointer))
        return found

    def detect_hardware(self, refresh: bool = False) -> Dict[str, Any]:
        """The capability dictionary of `accel detect --json` (docs/detect.md)."""
        text = C.c_void_p()
        check(lib.accel_detect_json(self.handle, int(refresh), C.byref(text)))
        return json.loads(take_string(text))

    # ---- registry ----

    def registry_entry(self, model: str) -> Dict[str, Any]:
        """The registry's whole entry of a model; UnknownModelError when there is none."""
        text = C.c_void_p()
        check(lib.accel_registry_json(self.handle, encode(model), C.byref(text)))
        return json.loads(take_string(text))

    def registry_models(self, family: Optional[str] = None, hardware: Optional[str] = None, precision: Optional[str] = None,
                        text: Optional[str] = None) -> List[str]:
        """Ids of the models that the registry lists, all or those that pass the filters."""
        wanted = lib.accel_registry_filter_default()
        keep = [encode(v) for v in (family, hardware, precision, text)]
        wanted.family, wanted.hardware, wanted.precision, wanted.text = keep
        pointer = C.POINTER(T.accel_strings)()
        check(lib.accel_registry_list(self.handle, C.byref(wanted), C.byref(pointer)))
        found = string_list(pointer)
        lib.accel_strings_free(C.byref(pointer))
        return found

    def registry_add(self, entry: Dict[str, Any]) -> None:
        """Adds an entry, or overrides that of the same id."""
        check(lib.accel_registry_add(self.handle, encode(json.dumps(entry))))

    def is_hardware_supported(self, model: str, hardware: str) -> bool:
        """Whether the registry lists the model for a hardware; False for models it does not know."""
        found = C.c_int()
        try:
            check(lib.accel_is_hardware_supported(self.handle, encode(model), encode(hardware), C.byref(found)))
        except UnknownModelError:
            return False
        return bool(found.value)

    def is_precision_supported(self, model: str, hardware: str, precision: str) -> bool:
        """Whether the registry lists the model for a precision on a hardware; False for models it does not know."""
        found = C.c_int()
        try:
            check(lib.accel_is_precision_supported(self.handle, encode(model), encode(hardware), encode(precision), C.byref(found)))
        except UnknownModelError:
            return False
        return bool(found.value)

    def get_dependencies(self, model: str, hardware: Optional[str] = None, precision: Optional[str] = None) -> List[str]:
        """Packages of the model, then of the hardware, then of the precision, each once; [] for models the registry does not know."""
        pointer = C.POINTER(T.accel_strings)()
        try:
            check(lib.accel_get_dependencies(self.handle, encode(model), encode(hardware), encode(precision), C.byref(pointer)))
        except UnknownModelError:
            return []
        found = string_list(pointer)
        lib.accel_strings_free(C.byref(pointer))
        return found

    def set_precision_profile(self, model: str, hardware: str, profile: Dict[str, bool], merge: bool = False) -> None:
        """Says for which precisions a model is listed on a hardware; with `merge` those that are not named stay."""
        flags = (C.c_int * max(len(profile), 1))(*[int(v) for v in profile.values()])
        check(lib.accel_set_precision_profile(self.handle, encode(model), encode(hardware), text_array(list(profile)), flags, len(profile), int(merge)))

    def matrix(self, model: Optional[str] = None) -> Dict[str, Any]:
        """What every device here can run of a model (None: of all), beside what the registry lists."""
        text = C.c_void_p()
        check(lib.accel_matrix_json(self.handle, encode(model), C.byref(text)))
        return json.loads(take_string(text))

    def find_model(self, model: str) -> str:
        """The directory of a model on this machine; NotFoundError with the download command as remedy."""
        text = C.c_void_p()
        check(lib.accel_find_model(self.handle, encode(model), C.byref(text)))
        return take_string(text)

    def check_model(self, model: str) -> None:
        """Raises what is wrong with a model's files: config.json, checkpoint headers and tensors, tokenizer.  Reads no weights, asks no device."""
        check(lib.accel_check_model(self.handle, encode(model), None))

    # ---- memory ----

    def fit(self, model: str, device: Optional[str] = None, precision: Optional[str] = None, batch: int = 0, seq: int = 0, new: int = 0,
            times: bool = False, width: int = 0, height: int = 0, steps: int = 0, vae_tiling: bool = False) -> List[Fit]:
        """A dry run of the planner: every device and precision, unless one is named; `new` tokens are generated.  Loads nothing.
        width, height, steps, vae_tiling: of pipelines, of which a call for `batch` pictures is planned.  `times`: also foretells seconds (0: not known), for which disk and device are measured."""
        params = lib.accel_fit_params_default()
        keep = [encode(device), encode(precision)]
        params.device, params.precision = keep
        params.batch, params.seq, params.new_tokens, params.times = batch, seq, new, int(times)
        params.width, params.height, params.steps, params.vae_tiling = width, height, steps, int(vae_tiling)
        pointer = C.POINTER(T.accel_fit_report)()
        check(lib.accel_fit(self.handle, encode(str(model)), C.byref(params), C.byref(pointer)))
        records = [_record(Fit, pointer.contents.record[i]) for i in range(pointer.contents.n)]
        lib.accel_fit_report_free(C.byref(pointer))
        return records

    def cache(self) -> List[CacheEntry]:
        """The packed weights that are kept, latest use first."""
        pointer = C.POINTER(T.accel_cache_list)()
        check(lib.accel_cache_ls(self.handle, C.byref(pointer)))
        entries = [_record(CacheEntry, pointer.contents.entry[i]) for i in range(pointer.contents.n)]
        lib.accel_cache_list_free(C.byref(pointer))
        return entries

    def cache_prune(self, keep: int = 0) -> int:
        """Removes damaged entries, then those used longest ago until at most `keep` bytes are left; the bytes that were freed."""
        freed = C.c_uint64()
        check(lib.accel_cache_prune(self.handle, keep, None, C.byref(freed)))
        return freed.value

    # ---- tests ----

    def run_precision_tests(self, model: str, hardware: Optional[Sequence[str]] = None, precisions: Optional[Sequence[str]] = None) -> TestReport:
        """Loads and runs each combination and compares it with the reference plugin."""
        hardware, precisions = _names(hardware), _names(precisions)
        pointer = C.POINTER(T.accel_test_report)()
        check(lib.accel_run_precision_tests(self.handle, encode(model), text_array(hardware) if hardware else None, len(hardware),
                                            text_array(precisions) if precisions else None, len(precisions), C.byref(pointer)))
        return take_report(pointer)

    def verify(self, model: str, golden: str, device: str = "auto", precision: Optional[str] = None,
               architecture: Optional[str] = None) -> VerifyReport:
        """Runs a golden file.  Outputs outside their bounds are `passed == False`, not an exception."""
        how = lib.accel_init_params_default()
        keep = [encode(device), encode(precision), encode(architecture)]
        how.device, how.precision, how.architecture = keep
        pointer = C.POINTER(T.accel_verify_report)()
        status = lib.accel_verify(self.handle, encode(str(model)), C.byref(how), encode(str(golden)), C.byref(pointer))
        if not pointer:
            check(status)
        r = pointer.contents
        outputs = [{"name": decode(o.name), "max_abs": o.max_abs, "max_rel": o.max_rel, "cosine": o.cosine, "bound": o.bound,
                    "compared": o.compared, "pass": bool(o.passed), "note": decode(o.note)} for o in (r.output[i] for i in range(r.n))]
        report = VerifyReport(bool(r.passed), decode(r.architecture), decode(r.device), decode(r.precision), outputs)
        lib.accel_verify_report_free(C.byref(pointer))
        return report


_lock = threading.Lock()
_default: Optional[Context] = None


def default_context() -> Context:
    """The context of functions and models that are given none."""
    global _default
    with _lock:
        if _default is None or not _default._handle:
            _default = Context()
        return _default
