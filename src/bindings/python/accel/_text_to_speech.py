"""Speech from texts."""
from __future__ import annotations

import ctypes as C
from typing import Any, List, Sequence

from . import _types as T
from ._native import check, lib
from ._tensors import make


class Waveform:
    """A sound: `samples` [n], fp32 with full scale -1 .. 1, and `sampling_rate`."""

    def __init__(self, item: Any, rate: int) -> None:
        self.samples = make(C.string_at(item.samples, 4 * item.n), T.F32, (item.n,))
        self.sampling_rate: int = rate


def text_to_speech(handle: Any, texts: Sequence[str], **options: Any) -> List[Waveform]:
    """accel_text_to_speech(); options are the fields of accel_text_to_speech_params."""
    how, pointer = lib.accel_text_to_speech_params_default(), C.POINTER(T.accel_waveforms)()
    for name, value in options.items():
        if name not in ("seed", "speaker", "speaking_rate", "noise_scale", "noise_scale_duration", "phonemes", "max_seconds"):
            raise TypeError(f"text_to_speech() has no option '{name}'")
        if value is not None:
            setattr(how, name, value)
    given = (C.c_char_p * max(len(texts), 1))(*(text.encode() for text in texts))
    check(lib.accel_text_to_speech(handle, given, len(texts), C.byref(how), C.byref(pointer)))
    found = pointer.contents
    result = [Waveform(found.item[i], found.rate) for i in range(found.n)]
    lib.accel_waveforms_free(C.byref(pointer))
    return result
