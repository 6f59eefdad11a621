"""Runs Hugging Face models straight from their directories, on the hardware at hand.

    embed = accel.pipeline("feature-extraction", "sentence-transformers/all-MiniLM-L6-v2", device="auto")
    vectors = embed(["a sentence", "another"])           # numpy [2, 384]
    model = accel.AutoModel.from_pretrained("org/name")  # model(input_ids=..., attention_mask=...).last_hidden_state
"""
from __future__ import annotations

import ctypes as C
from typing import Any, Dict, Iterator, List, MutableMapping, Optional, Sequence

from . import _types, rag
from ._adapters import Adapter
from ._chat import Chat
from ._context import CacheEntry, Context, Device, Fit, FitPart, FitRun, TestRecord, TestReport, VerifyReport, default_context
from ._device import (DeviceTensor, MemorySummary, OpenDevice, Stream, empty_cache, get_device, get_device_stream, get_device_type, is_cuda_available,
                      is_half_precision_available, is_rocm_available, memory_summary, print_device_info, rocm_version, runtime_version, synchronize, to_device)
from ._errors import (AccelError, AccelTimeoutError, ArgumentError, CancelledError, DeviceError, DeviceUnavailableError, DoesNotFitError, FormatError,
                      NonfiniteError, NotFoundError, QueueFullError, UnknownModelError, UnsupportedError, VerifyError)
from ._forecast import Forecast
from ._generate import Generation, GenerationTicket, Session, Token
from ._images import GeneratedImage, GeneratedImages
from ._map import Mapped, Mapper, map  # noqa: A004
from ._model import Model, Placement, PlacementCandidate, PlacementPart, Tokenizer, preprocess
from ._pool import Pool, PooledModel
from ._queue import Ticket
from ._native import VERSION as __version__
from ._native import check, lib, string_list
from ._pictures import Depth, Segmentation, draw_objects
from ._pipelines import Pipeline, pipeline
from ._text_to_speech import Waveform
from ._tensors import ModelOutput, Tensor

AutoModel = Model
AutoTokenizer = Tokenizer


class ModelRegistry(MutableMapping[str, Dict[str, Any]]):
    """Model ids -> what is known of them.  Assigning an entry adds or overrides it in the default context; entries cannot be deleted."""

    def __getitem__(self, model: str) -> Dict[str, Any]:
        try:
            return default_context().registry_entry(model)
        except UnknownModelError:
            raise KeyError(model) from None

    def __setitem__(self, model: str, entry: Dict[str, Any]) -> None:
        default_context().registry_add({**entry, "id": model})

    def __delitem__(self, model: str) -> None:
        raise TypeError("registry entries cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(default_context().registry_models())

    def __len__(self) -> int:
        return len(default_context().registry_models())


MODEL_REGISTRY = ModelRegistry()


def detect_hardware(refresh: bool = False) -> Dict[str, Any]:
    """The capability dictionary: cpu, cuda, cuda_version, cuda_devices, mps, openvino, qualcomm, amd, amd_version, amd_devices, devices ..."""
    return default_context().detect_hardware(refresh)


def devices(refresh: bool = False) -> List[Device]:
    """Every device and every hardware that is not there, with reasons."""
    return default_context().devices(refresh)


def is_hardware_supported(model: str, hardware: str) -> bool:
    """What the registry lists; False for a model it does not know."""
    return default_context().is_hardware_supported(model, hardware)


def is_precision_supported(model: str, hardware: str, precision: str) -> bool:
    """What the registry lists; False for a model it does not know."""
    return default_context().is_precision_supported(model, hardware, precision)


def get_dependencies(model: str, hardware: Optional[str] = None, precision: Optional[str] = None) -> List[str]:
    """Needs of the model, then of the hardware, then of the precision; [] for a model the registry does not know."""
    return default_context().get_dependencies(model, hardware, precision)


def set_precision_profile(model: str, hardware: str, profile: Dict[str, bool], merge: bool = False) -> None:
    """Replaces the listed precisions (what is not named is false), or merges into them."""
    default_context().set_precision_profile(model, hardware, profile, merge)


def run_precision_tests(model: str, hardware: Optional[Sequence[str]] = None, precisions: Optional[Sequence[str]] = None) -> TestReport:
    """Loads and runs the model on each hardware at each precision, beside the reference plugin."""
    return default_context().run_precision_tests(model, hardware, precisions)


def verify(model: str, golden: str, device: str = "auto", precision: Optional[str] = None, architecture: Optional[str] = None) -> VerifyReport:
    """Compares a model's outputs with those of a golden file (docs/verify.md)."""
    return default_context().verify(model, golden, device, precision, architecture)


def fit(model: str, device: Optional[str] = None, precision: Optional[str] = None, batch: int = 0, seq: int = 0, new: int = 0) -> List[Fit]:
    """What a model takes on each device and precision, and whether it is there; nothing is loaded."""
    return default_context().fit(model, device, precision, batch, seq, new)


def architectures() -> List[str]:
    """The model classes that can be run: "BertModel", "BertForMaskedLM" ..."""
    pointer = C.POINTER(_types.accel_strings)()
    check(lib.accel_architectures(C.byref(pointer)))
    names = string_list(pointer)
    lib.accel_strings_free(C.byref(pointer))
    return names


def find_model(model: str) -> str:
    """The directory of a model id on this machine; NotFoundError with the download line where it is absent."""
    return default_context().find_model(model)


__all__ = [
    "AccelError", "AccelTimeoutError", "Adapter", "ArgumentError", "AutoModel", "AutoTokenizer", "CacheEntry", "CancelledError", "Context", "Device", "DeviceError",
    "Depth", "DeviceTensor", "DeviceUnavailableError", "DoesNotFitError", "Fit", "FitPart", "FitRun", "FormatError", "Generation", "MODEL_REGISTRY", "Mapped", "Mapper", "MemorySummary", "Model", "ModelOutput", "ModelRegistry", "NonfiniteError",
    "NotFoundError", "OpenDevice", "Pipeline", "Placement", "PlacementCandidate", "PlacementPart", "Pool", "PooledModel", "QueueFullError", "Segmentation", "Session", "Stream", "Tensor", "TestRecord", "TestReport", "Ticket", "Token", "Tokenizer", "UnknownModelError",
    "UnsupportedError", "VerifyError", "VerifyReport", "architectures", "default_context", "detect_hardware", "devices", "draw_objects", "empty_cache", "find_model", "fit", "get_dependencies",
    "get_device", "get_device_stream", "get_device_type", "is_cuda_available", "is_half_precision_available", "is_rocm_available", "memory_summary",
    "is_hardware_supported", "is_precision_supported", "map", "pipeline", "preprocess", "print_device_info", "rag", "rocm_version", "run_precision_tests",
    "runtime_version", "set_precision_profile", "synchronize", "to_device", "verify", "__version__",
]
