"""Speech to text: accel_transcribe with transformers' names of arguments."""
import ctypes as C
import math
import struct
from typing import Any, Callable, Dict, List, Optional, Sequence

from . import _types as T
from ._generate import _params
from ._native import check, decode, encode, lib, media_array

RATE = 16000  # of samples that come without their rate, as the models of the pipeline take them
_THRESHOLDS = ("compression_ratio_threshold", "logprob_threshold", "no_speech_threshold")


def _wav(samples: Any, rate: int) -> bytes:
    """A WAV file of 32-bit floats; channels come first and are averaged, as transformers has it."""
    flat = memoryview(samples) if not hasattr(samples, "__array__") else None
    if flat is None:
        import numpy
        array = numpy.asarray(samples)
        if array.ndim == 2 and array.shape[0] <= 2:
            array = array.mean(axis=0)
        if array.ndim != 1:
            raise ValueError(f"samples of shape {array.shape}: expected [samples], or [channels, samples] with at most 2 channels")
        data = array.astype("<f4").tobytes()
    else:
        if flat.format != "f" or flat.ndim != 1:
            raise ValueError("samples must be one row of 32-bit floats")
        data = flat.tobytes()
    return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 3, 1, rate, 4 * rate, 4, 32) + b"data" + struct.pack("<I", len(data)) + data


def sound(given: Any) -> Any:
    """A path or a file's bytes as they are; samples (an array, or {"raw": array, "sampling_rate": n}) as the bytes of a file."""
    if isinstance(given, dict):
        samples = given.get("raw", given.get("array"))
        if samples is None or "sampling_rate" not in given:
            raise ValueError('a sound given as a dict needs "raw" (or "array") and "sampling_rate"')
        return _wav(samples, int(given["sampling_rate"]))
    return given if isinstance(given, (str, bytes, bytearray)) else _wav(given, RATE)


def _time(seconds: float) -> Optional[float]:
    return None if math.isnan(seconds) else seconds


def _strides(how: Any, stride: Any) -> None:
    how.stride_left, how.stride_right = stride if isinstance(stride, (tuple, list)) else (stride, stride)


def _settings(timestamps: Optional[str], options: Dict[str, Any]) -> Any:
    """The struct of accel_transcribe, and what must live as long; options beyond it are those of a generation."""
    how = lib.accel_transcribe_params_default()
    keep: List[Any] = [encode(timestamps), encode(options.pop("language", None)), encode(options.pop("task", None)), encode(options.pop("prompt", None))]
    how.timestamps, how.language, how.task, how.prompt = keep
    how.chunk_length = options.pop("chunk_length", None) or 0
    how.max_seconds = options.pop("max_seconds", None) or 0
    stride = options.pop("stride", None)
    if stride is not None:
        _strides(how, stride)
    for name in _THRESHOLDS:
        value = options.pop(name, None)
        if value is not None:
            setattr(how, name, value)
    condition = options.pop("condition_on_prev_tokens", None)
    how.condition_on_previous = -1 if condition is None else int(bool(condition))
    how.prompt_all_segments = int(options.pop("prompt_condition_type", None) == "all-segments")
    temperature = options.pop("temperature", None)
    if temperature is not None:
        values = list(temperature) if isinstance(temperature, (tuple, list)) else [temperature]
        keep.append((C.c_double * max(len(values), 1))(*values))
        how.temperature, how.n_temperature = C.cast(keep[-1], C.POINTER(C.c_double)), len(values)
    keep.append(_params(options))
    how.generate = C.pointer(keep[-1])
    return how, keep


def _chunks(first: Any, n: int) -> List[Dict[str, Any]]:
    return [{"text": decode(c.text), "timestamp": (_time(c.start), _time(c.end))} for c in (first[k] for k in range(n))]


def _transcript(found: Any, i: int, timestamps: Optional[str]) -> Dict[str, Any]:
    one: Dict[str, Any] = {"text": decode(found.text[i])}
    if timestamps:
        one["chunks"] = _chunks(found.chunk[i], found.count[i])
    one["seconds"] = found.seconds[i]
    if found.ids[i]:
        one["ids"] = [found.ids[i][k] for k in range(found.n_ids[i])]
        one["language"] = decode(found.language[i]) if found.language[i] else None
        one["segments"] = [{**_segment(s), **({"words": _chunks(s.words, s.n_words)} if timestamps == "word" else {})}
                           for s in (found.segment[i][k] for k in range(found.segments[i]))]
    return one


def _segment(s: Any) -> Dict[str, Any]:
    return {"text": decode(s.text), "start": s.start, "end": s.end, "ids": [s.ids[t] for t in range(s.n)], "temperature": s.temperature,
            "avg_logprob": _time(s.logprob), "compression_ratio": _time(s.compression_ratio), "no_speech_prob": _time(s.no_speech)}


def _listen(how: Any, on_segment: Callable[[int, Dict[str, Any]], Any]) -> List[BaseException]:
    """Calls it with each segment; the list gets what it raises, which ends the transcription."""
    failure: List[BaseException] = []

    def forward(_: Any, sound: int, index: int, segment: Any) -> int:
        try:
            return int(bool(on_segment(sound, {"index": index, **_segment(segment.contents)})))
        except BaseException as error:  # travels around the library
            failure.append(error)
            return 1

    how.on_segment = T.SegmentFunction(forward)
    return failure


def transcribe(handle: Any, sounds: Sequence[Any], timestamps: Optional[str], options: Dict[str, Any]) -> List[Dict[str, Any]]:
    """A Transcript for each sound (a path, bytes of a file, or samples)."""
    options = dict(options)
    on_segment = options.pop("on_segment", None)
    how, keep = _settings(timestamps, options)
    failure = _listen(how, on_segment) if on_segment is not None else []
    media, pointer = media_array([sound(s) for s in sounds]), C.POINTER(T.accel_transcripts)()
    status = lib.accel_transcribe(handle, media, len(sounds), C.byref(how), C.byref(pointer))
    if failure:
        raise failure[0]
    check(status)
    del keep
    result = [_transcript(pointer.contents, i, timestamps) for i in range(pointer.contents.n)]
    lib.accel_transcripts_free(C.byref(pointer))
    return result
