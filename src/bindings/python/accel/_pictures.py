"""Segments and depth of pictures, answers about documents, results drawn into them, and text about them."""
from __future__ import annotations

import ctypes as C
import json
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _generate
from . import _types as T
from ._native import Media, check, decode, encode, lib, media_array, take_string, text_array
from ._tensors import _np, make, take_list


class Segmentation:
    """What each pixel of a picture shows: `map` [height, width] holds ids (0 or -1 where there is no object), `segments` the ids that are there as
    {"id", "label_id", "label", "score", "pixels", "area"} (score None: semantic segmentation has none; area: share of the picture)."""

    def __init__(self, found: Any, i: int) -> None:
        self.height, self.width = found.height[i], found.width[i]
        self.segments: List[Dict[str, Any]] = [
            {"id": s.id, "label_id": s.label_id, "label": decode(s.label), "score": None if s.score != s.score else s.score, "pixels": s.pixels, "area": s.area}
            for s in (found.segment[i][k] for k in range(found.count[i]))]
        self._map = C.string_at(found.map[i], 4 * self.height * self.width)

    @property
    def map(self) -> Any:
        """int32 [height, width]: the id of each pixel's segment."""
        return make(self._map, T.I32, (self.height, self.width))

    def mask(self, id: int) -> bytes:
        """255 where a pixel belongs to `id`, else 0: height * width bytes, row by row."""
        if _np is not None:
            return ((self.map == id).astype(_np.uint8) * 255).tobytes()
        return bytes(255 if pixel == id else 0 for pixel in memoryview(self._map).cast("i"))

    def draw(self, path: str, image: Optional[Media] = None) -> None:
        """A PNG file of the classes' colours, over `image` (the picture segmented) where that is given, with a legend."""
        segments = (T.accel_segment * max(len(self.segments), 1))()
        for to, s in zip(segments, self.segments):
            to.id, to.label_id, to.label, to.pixels, to.area = s["id"], s["label_id"], encode(s["label"]), s["pixels"], s["area"]
            to.score = float("nan") if s["score"] is None else s["score"]
        pixels = C.create_string_buffer(self._map, len(self._map))
        found = T.accel_segmentations(
            1, C.pointer(C.c_uint32(len(self.segments))), C.pointer(C.cast(segments, C.POINTER(T.accel_segment))), C.pointer(C.c_int32(self.height)),
            C.pointer(C.c_int32(self.width)), C.pointer(C.cast(pixels, C.POINTER(C.c_int32))))
        media = None if image is None else media_array([image])
        check(lib.accel_draw_segments(media, C.byref(found), 0, encode(str(path))))


def segment_images(handle: Any, images: Sequence[Media], subtask: Optional[str], thresholds: Dict[str, Optional[float]]) -> List[Segmentation]:
    """A Segmentation for each picture (a path, or the bytes of a file)."""
    media, pointer, how = media_array(images), C.POINTER(T.accel_segmentations)(), lib.accel_segment_params_default()
    how.subtask = encode(subtask)
    for name, value in thresholds.items():
        if value is not None:
            setattr(how, name, value)
    check(lib.accel_segment_images(handle, media, len(images), C.byref(how), C.byref(pointer)))
    result = [Segmentation(pointer.contents, i) for i in range(pointer.contents.n)]
    lib.accel_segmentations_free(C.byref(pointer))
    return result


def draw_objects(image: Media, objects: Sequence[Dict[str, Any]], path: str) -> None:
    """A PNG file of the picture with what an object-detection pipeline found in it framed and named."""
    labels = sorted({o["label"] for o in objects})
    items = (T.accel_detection * max(len(objects), 1))()
    for to, o in zip(items, objects):
        to.score, to.id, to.label = o["score"], labels.index(o["label"]), encode(o["label"])
        to.xmin, to.ymin, to.xmax, to.ymax = (o["box"][side] for side in ("xmin", "ymin", "xmax", "ymax"))
    check(lib.accel_draw_objects(media_array([image]), items, len(objects), encode(str(path))))


class Depth:
    """How far away each pixel of a picture is: `predicted_depth` [height, width] as the model says it (metres of metric models; else larger where it
    is nearer), from `least` to `most`."""

    def __init__(self, found: Any, i: int) -> None:
        self.height, self.width, self.least, self.most = found.height[i], found.width[i], found.least[i], found.most[i]
        self._values = C.string_at(found.depth[i], 4 * self.height * self.width)

    @property
    def predicted_depth(self) -> Any:
        """float32 [height, width]."""
        return make(self._values, T.F32, (self.height, self.width))

    def grey(self) -> bytes:
        """Black at the least value, white at the greatest: height * width bytes, row by row."""
        if not self.most > self.least:
            return bytes(self.height * self.width)
        if _np is not None:
            least, most = _np.float32(self.least), _np.float32(self.most)
            return ((self.predicted_depth - least) / (most - least) * _np.float32(255)).astype(_np.uint8).tobytes()
        return bytes(int((v - self.least) / (self.most - self.least) * 255) for v in memoryview(self._values).cast("f"))

    def draw(self, path: str, bits: int = 8) -> None:
        """A grey PNG file of 8 or 16 bits."""
        values = C.create_string_buffer(self._values, len(self._values))
        found = T.accel_depths(1, C.pointer(C.c_int32(self.height)), C.pointer(C.c_int32(self.width)), C.pointer(C.cast(values, C.POINTER(C.c_float))),
                               C.pointer(C.c_float(self.least)), C.pointer(C.c_float(self.most)))
        check(lib.accel_draw_depth(C.byref(found), 0, bits, encode(str(path))))


def estimate_depth(handle: Any, images: Sequence[Media]) -> List[Depth]:
    """A Depth for each picture (a path, or the bytes of a file)."""
    media, pointer = media_array(images), C.POINTER(T.accel_depths)()
    check(lib.accel_estimate_depth(handle, media, len(images), C.byref(pointer)))
    result = [Depth(pointer.contents, i) for i in range(pointer.contents.n)]
    lib.accel_depths_free(C.byref(pointer))
    return result


def extract_image_features(handle: Any, images: Sequence[Media], pool: bool) -> List[Any]:
    """A tensor for each picture (a path, or the bytes of a file)."""
    media, pointer = media_array(images), C.POINTER(T.accel_tensors)()
    check(lib.accel_extract_image_features(handle, media, len(images), int(pool), C.byref(pointer)))
    return take_list(pointer)


# ---- documents ----

def answer_documents(handle: Any, questions: Sequence[Dict[str, Any]], options: Dict[str, Any]) -> List[List[Dict[str, Any]]]:
    """Answers to {"question", "image", "word_boxes"}, one list each."""
    how, array, kept = lib.accel_document_params_default(), (T.accel_document_question * max(len(questions), 1))(), []
    for name in ("top_k", "max_answer_len", "max_seq_len", "doc_stride", "handle_impossible_answer", "look"):
        value = options.pop(name, None)
        if value is not None:
            setattr(how, name, int(value))
    if options:
        how.generate = C.pointer(_generate._params(options))
    for to, asked in zip(array, questions):
        image, words = asked.get("image"), asked.get("word_boxes") or []
        media = media_array([image]) if image is not None else None
        boxes = (T.i32 * max(4 * len(words), 1))(*[int(edge) for _, box in words for edge in box])
        if len(words) * 4 != sum(len(box) for _, box in words):
            raise ValueError("word_boxes: each box has four edges")
        kept.append((encode(asked["question"]), media, text_array([w for w, _ in words]), boxes))
        to.question, to.n_words, to.boxes = kept[-1][0], len(words), boxes
        to.words = C.cast(kept[-1][2], C.POINTER(T.text))
        if media is not None:
            to.image = C.cast(media, C.POINTER(T.accel_media))
    pointer = C.POINTER(T.accel_document_answers)()
    check(lib.accel_answer_documents(handle, array, len(questions), C.byref(how), C.byref(pointer)))
    found = pointer.contents
    rows = [[_answer(found.answer[i][k]) for k in range(found.count[i])] for i in range(found.n)]
    lib.accel_document_answers_free(C.byref(pointer))
    return rows


def _answer(a: Any) -> Dict[str, Any]:
    text = decode(a.answer) if a.answer is not None else None
    return {"answer": text} if a.start < 0 else {"score": a.score, "answer": text, "start": a.start, "end": a.end}


def document_json(handle: Any, text: str) -> Any:
    """What Donut's marks say, as token2json has it."""
    pointer = C.c_void_p()
    check(lib.accel_document_json(handle, encode(text), C.byref(pointer)))
    return json.loads(take_string(pointer))


# ---- text about pictures ----

def split_messages(messages: Sequence[Dict[str, Any]]) -> Tuple[str, List[Media]]:
    """The JSON that a chat template reads, and the pictures in their order: parts {"type": "image"} with "image", "url" or "path"."""
    images: List[Media] = []
    plain = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, (list, tuple)):
            parts = []
            for part in content:
                if part.get("type") == "image":
                    source = next((part[k] for k in ("image", "url", "path") if part.get(k) is not None), None)
                    if source is None:
                        raise ValueError('a part {"type": "image"} needs "image", "url" or "path": a path, or the bytes of a file')
                    images.append(os.fspath(source) if isinstance(source, os.PathLike) else source)
                    part = {"type": "image"}
                parts.append(part)
            message = {**message, "content": parts}
        plain.append(message)
    return json.dumps(plain, ensure_ascii=False), images


def generate_images(handle: Any, prompts: Sequence[Tuple[Optional[str], Sequence[Media]]], kind: str, options: Dict[str, Any]) -> List[Any]:
    """Captions and answers about pictures; prompts are (text, pictures)."""
    how, pointer, array = _generate._params(options), C.POINTER(T.accel_generations)(), _generate.image_prompts(prompts, kind)
    check(lib.accel_generate_images(handle, array, len(prompts), C.byref(how), C.byref(pointer)))
    return _generate._take(pointer)


def _region(r: Any) -> Dict[str, Any]:
    outlines = [[r.outline[i][k] for k in range(r.count[i])] for i in range(r.n)]
    key = {1: "box", 2: "quad", 3: "polygons"}[r.kind]
    return {"label": decode(r.label), key: outlines if key == "polygons" else outlines[0]}


def generate_regions(handle: Any, prompts: Sequence[Tuple[Optional[str], Sequence[Media]]], options: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Answers of a model that names places in pictures, with these places; prompts are (task, pictures)."""
    how, pointer, array = _generate._params(options), C.POINTER(T.accel_region_answers)(), _generate.image_prompts(prompts, "text")
    check(lib.accel_generate_regions(handle, array, len(prompts), C.byref(how), C.byref(pointer)))
    found = pointer.contents
    result = [{"prompt": a.prompt, "text": decode(a.text), "height": a.height, "width": a.width, "regions": [_region(a.region[k]) for k in range(a.n)]}
              for a in (found.item[i] for i in range(found.n))]
    lib.accel_region_answers_free(C.byref(pointer))
    return result
