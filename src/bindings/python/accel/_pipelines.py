"""pipeline(): transformers' pipelines, with their arguments and the shapes and keys of their results."""
from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type, Union

from . import _types as T
from ._context import Context
from ._images import GeneratedImage
from ._model import Model, Placement
from ._pictures import split_messages
from ._tensors import _np, make
from ._truncation import tokenizer_options

Texts = Union[str, Sequence[str]]
ALIASES = {"sentiment-analysis": "text-classification", "ner": "token-classification", "embeddings": "feature-extraction", "text-to-audio": "text-to-speech"}
_UNSET: Any = object()


class Pipeline:
    """A task on a model.  Options given here are defaults of every call."""
    task = ""
    model_task: Optional[str] = ""  # what the model is opened for, where that is another task; None: its own

    def __init__(self, model: Union[str, Model], defaults: Dict[str, Any], **options: Any) -> None:
        self.model = model if isinstance(model, Model) else Model(model, task=self.task if self.model_task == "" else self.model_task, **options)
        self.defaults = defaults

    @property
    def placement(self) -> Placement:
        """Where the pipeline's model runs, and why."""
        return self.model.placement

    @property
    def device(self) -> str:
        """The device of the pipeline's model."""
        return self.model.device

    def close(self) -> None:
        """Frees the pipeline's model."""
        self.model.close()

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class FeatureExtractionPipeline(Pipeline):
    """[texts, dim] where the model says how to pool (sentence-transformers), one vector for a single text.  Where it does not,
    [1, tokens, dim] for each text, as transformers has it.  tokenize_kwargs: truncation and max_length."""
    task = "feature-extraction"

    def __call__(self, texts: Texts, **options: Any) -> Any:
        single, options = isinstance(texts, str), {**self.defaults, **options}
        cut = options.pop("tokenize_kwargs", None) or {}
        if cut.get("padding") == "max_length":
            raise ValueError('tokenize_kwargs: padding="max_length" is not supported: there are no rows for padding')
        if "truncation" in cut and "truncation" in options:
            raise ValueError("truncation is given twice, as an argument and in tokenize_kwargs")
        vectors = self.model.embed([texts] if single else list(texts), **options, **tokenizer_options(cut))  # type: ignore[list-item]
        if isinstance(vectors, list):
            vectors = [v[None] if _np is not None else [v.tolist()] for v in vectors]
        return vectors[0] if single else vectors


class TextClassificationPipeline(Pipeline):
    """[{"label", "score"}] for a text; with top_k a list of that many (None: all) for each text.  Pairs: {"text", "text_pair"}.  Other options
    are the tokenizer's: truncation, max_length, padding."""
    task = "text-classification"

    def __call__(self, inputs: Any, top_k: Any = _UNSET, function_to_apply: Optional[str] = None, **options: Any) -> Any:
        single = isinstance(inputs, (str, dict))
        items = [inputs] if single else list(inputs)
        pairs = [i.get("text_pair") if isinstance(i, dict) else None for i in items]
        wanted = self.defaults.get("top_k", _UNSET) if top_k is _UNSET else top_k
        function = function_to_apply or self.defaults.get("function_to_apply")
        cut = {**{name: value for name, value in self.defaults.items() if name not in ("top_k", "function_to_apply")}, **options}
        found = self.model.classify([i["text"] if isinstance(i, dict) else i for i in items], pairs if any(pairs) else None,
                                    top_k=1 if wanted is _UNSET else wanted or 0, function=function, **tokenizer_options(cut))
        rows: List[Any] = [row[0] for row in found] if wanted is _UNSET else list(found)
        result = rows[0] if single else rows
        return [result] if isinstance(inputs, str) and top_k is _UNSET else result


def _labels(given: Any) -> List[str]:
    """candidate_labels: a list, or "one, two"."""
    return [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else list(given or [])


class ZeroShotClassificationPipeline(Pipeline):
    """{"sequence", "labels", "scores"} over candidate_labels for a text, best first, a list of them for several: how far a model of natural language
    inference takes each label, put into hypothesis_template, to follow from the text.  With multi_label each label has a probability of its own."""
    task = "zero-shot-classification"
    model_task = "text-classification"

    def __call__(self, sequences: Texts, candidate_labels: Any = None, hypothesis_template: Optional[str] = None, multi_label: Optional[bool] = None) -> Any:
        single = isinstance(sequences, str)
        texts: List[str] = [sequences] if single else list(sequences)  # type: ignore[list-item]
        labels = _labels(self.defaults.get("candidate_labels") if candidate_labels is None else candidate_labels)
        template = hypothesis_template or self.defaults.get("hypothesis_template")
        several = self.defaults.get("multi_label", False) if multi_label is None else multi_label
        if not labels or not texts:
            raise ValueError("zero-shot-classification needs candidate_labels and a text")
        rows = self.model.zero_shot(texts, labels, template, bool(several))
        found = [{"sequence": text, "labels": [r["label"] for r in row], "scores": [r["score"] for r in row]} for text, row in zip(texts, rows)]
        return found[0] if single else found


class TokenClassificationPipeline(Pipeline):
    """[{"entity", "score", "index", "word", "start", "end"}, ...] for a text, a list of such lists for several; under an
    aggregation_strategy other than "none" "entity_group" and no index."""
    task = "token-classification"

    def __call__(self, inputs: Texts, **options: Any) -> Any:
        options = {**self.defaults, **options}
        single = isinstance(inputs, str)
        found = self.model.token_labels([inputs] if single else list(inputs),  # type: ignore[list-item]
                                        aggregation=str(options.get("aggregation_strategy") or "none").lower(),
                                        ignore_labels=options.get("ignore_labels"), stride=options.get("stride") or 0)
        return found[0] if single else found


class QuestionAnsweringPipeline(Pipeline):
    """{"score", "start", "end", "answer"}; a list of them with top_k above 1, or for several questions."""
    task = "question-answering"

    def __call__(self, inputs: Any = None, question: Any = None, context: Any = None, **options: Any) -> Any:
        if isinstance(inputs, dict):
            question, context = inputs["question"], inputs["context"]
        elif inputs is not None:
            question, context = [i["question"] for i in inputs], [i["context"] for i in inputs]
        if question is None or context is None:
            raise ValueError("question-answering needs a question and a context")
        single = isinstance(question, str)
        questions = [question] if single else list(question)
        contexts = [context] * len(questions) if isinstance(context, str) else list(context)
        found = self.model.answer(questions, contexts, **{**self.defaults, **options})
        rows: List[Any] = [row[0] if len(row) == 1 else row for row in found]
        return rows[0] if len(rows) == 1 else rows


class FillMaskPipeline(Pipeline):
    """[{"score", "token", "token_str", "sequence"}, ...] for a text with one mask; a list of such lists for several masks or texts.
    tokenizer_kwargs: truncation, max_length, padding."""
    task = "fill-mask"

    def __call__(self, inputs: Texts, **options: Any) -> Any:
        options = {**self.defaults, **options}
        options.update(tokenizer_options(options.pop("tokenizer_kwargs", None) or {}))
        if isinstance(options.get("targets"), str):
            options["targets"] = [options["targets"]]
        found = self.model.fill_mask([inputs] if isinstance(inputs, str) else list(inputs), **options)
        rows: List[Any] = [row[0] if len(row) == 1 else row for row in found]
        return rows[0] if len(rows) == 1 else rows


class TextGenerationPipeline(Pipeline):
    """[{"generated_text"}] for a text, with the text in front unless return_full_text is False; a list of such lists for several.
    Options are those of Model.generate."""
    task = "text-generation"

    def __call__(self, texts: Texts, return_full_text: bool = True, **options: Any) -> Any:
        items = [texts] if isinstance(texts, str) else list(texts)
        if any(not isinstance(item, str) for item in items):
            raise ValueError("text-generation takes texts; apply the chat template to messages first")
        rows: List[List[Dict[str, Any]]] = [[] for _ in items]
        for g in self.model.generate(items, **{**self.defaults, **options}):
            rows[g.prompt].append({"generated_text": (items[g.prompt] if return_full_text else "") + g.text})
        return rows[0] if isinstance(texts, str) else rows


class Text2TextGenerationPipeline(Pipeline):
    """[{"generated_text"}] for a text; for several one such dict each, or, with num_return_sequences, a list of such lists.  Options are those
    of Model.generate, and truncation."""
    task = "text2text-generation"
    key = "generated_text"

    def __call__(self, texts: Texts, **options: Any) -> Any:
        items = [texts] if isinstance(texts, str) else list(texts)
        options = {**self.defaults, **options}
        source, target = options.pop("src_lang", None), options.pop("tgt_lang", None)
        rows: List[List[Dict[str, Any]]] = [[] for _ in items]
        for g in self.model.text2text(items, getattr(self, "pair", None) or self.task, source, target, **options):
            rows[g.prompt].append({self.key: g.text})
        if isinstance(texts, str):
            return rows[0]
        return [row[0] for row in rows] if all(len(row) == 1 for row in rows) else rows


class SummarizationPipeline(Text2TextGenerationPipeline):
    """The same with "summary_text"."""
    task = "summarization"
    key = "summary_text"


class TranslationPipeline(Text2TextGenerationPipeline):
    """The same with "translation_text".  src_lang and tgt_lang name languages as the model spells them."""
    task = "translation"
    key = "translation_text"
    pair: Optional[str] = None  # "translation_en_to_de"


def _files(inputs: Any) -> Tuple[List[Any], bool]:
    """A list of paths and files' bytes, and whether it was one alone."""
    single = isinstance(inputs, (str, bytes, os.PathLike))
    return [os.fspath(i) if isinstance(i, os.PathLike) else i for i in ([inputs] if single else list(inputs))], single


class ImageClassificationPipeline(Pipeline):
    """[{"label", "score"}, ...] for a picture (a path, or the bytes of a file), a list of such lists for several; five labels each."""
    task = "image-classification"

    def __call__(self, inputs: Any, top_k: Optional[int] = None, function_to_apply: Optional[str] = None) -> Any:
        files, single = _files(inputs)
        call = self.model.classify_sounds if self.task == "audio-classification" else self.model.classify_images
        found = call(files, top_k=top_k or self.defaults.get("top_k") or 5, function=function_to_apply or self.defaults.get("function_to_apply"))
        return found[0] if single else found


class ImageFeatureExtractionPipeline(Pipeline):
    """[1, tokens, dim] (of ResNet and ConvNeXt [1, channels, height, width]) for a picture, with `pool` the model's pooler_output, [1, dim]; a list of
    them for several.  Each picture goes through the model by itself; of a checkpoint with a head the class without one is taken."""
    task = "image-feature-extraction"

    def __call__(self, inputs: Any, pool: Optional[bool] = None) -> Any:
        files, single = _files(inputs)
        found = self.model.image_features(files, bool(self.defaults.get("pool") if pool is None else pool))
        if _np is None:
            found = [f.tolist() for f in found]
        return found[0] if single else found


class AudioClassificationPipeline(ImageClassificationPipeline):
    """The same for sounds."""
    task = "audio-classification"


class ZeroShotImageClassificationPipeline(Pipeline):
    """[{"score", "label"}, ...] over candidate_labels for a picture, a list of such lists for several."""
    task = "zero-shot-image-classification"

    def __call__(self, inputs: Any, candidate_labels: Any = None, hypothesis_template: Optional[str] = None) -> Any:
        files, single = _files(inputs)
        labels = _labels(self.defaults.get("candidate_labels") if candidate_labels is None else candidate_labels)
        if not labels:
            raise ValueError(f"{self.task} needs candidate_labels")
        call = self.model.zero_shot_audio if self.task == "zero-shot-audio-classification" else self.model.zero_shot_image
        found = call(files, labels, hypothesis_template or self.defaults.get("hypothesis_template"))
        return found[0] if single else found


class ZeroShotAudioClassificationPipeline(ZeroShotImageClassificationPipeline):
    """The same for sounds."""
    task = "zero-shot-audio-classification"


class ObjectDetectionPipeline(Pipeline):
    """[{"score", "label", "box": {"xmin", "ymin", "xmax", "ymax"}}, ...] for a picture, a list of such lists for several."""
    task = "object-detection"

    def __call__(self, inputs: Any, threshold: Optional[float] = None) -> Any:
        files, single = _files(inputs)
        found = self.model.detect_objects(files, self.defaults.get("threshold", 0.5) if threshold is None else threshold)
        return found[0] if single else found


class ImageToTextPipeline(Pipeline):
    """[{"generated_text"}] for a picture, a list of such lists for several (as transformers 4 had it); `prompt`: what the text begins with, or with
    LLaVA and Qwen2-VL the whole prompt with its image token; with Florence-2 a task token ("<OD>"), whose answers have "regions", too.  Other options are those of Model.generate."""
    task = "image-to-text"

    def __call__(self, inputs: Any, prompt: Optional[str] = None, generate_kwargs: Optional[Dict[str, Any]] = None, **options: Any) -> Any:
        files, single = _files(inputs)
        options = {**self.defaults, **(generate_kwargs or {}), **options}
        text = options.pop("prompt", None) if prompt is None else prompt
        rows: List[List[Dict[str, Any]]] = [[] for _ in files]
        if self.model.names_regions:
            for a in self.model.generate_regions([(text, [f]) for f in files], **options):
                rows[a["prompt"]].append({"generated_text": a["text"], "regions": a["regions"]})
            return rows[0] if single else rows
        for g in self.model.generate_images([(text, [f]) for f in files], **options):
            rows[g.prompt].append({"generated_text": g.text})
        return rows[0] if single else rows


class VisualQuestionAnsweringPipeline(Pipeline):
    """[{"answer"}] for a picture and a question, a list of such lists for several (as transformers 4 had it, for models that generate).  Also from
    {"image", "question"} or a list of them."""
    task = "visual-question-answering"

    def __call__(self, image: Any, question: Any = None, **options: Any) -> Any:
        single = isinstance(image, dict) or (question is not None and isinstance(image, (str, bytes, os.PathLike)) and isinstance(question, str))
        if question is None:
            items = [(i["image"], i["question"]) for i in ([image] if single else image)]
        else:
            files, one = _files(image)
            questions = [question] if isinstance(question, str) else list(question)
            items = [(f, q) for f in files for q in questions]
        rows: List[List[Dict[str, Any]]] = [[] for _ in items]
        for g in self.model.generate_images([(q, _files(f)[0]) for f, q in items], kind="question", **{**self.defaults, **options}):
            rows[g.prompt].append({"answer": g.text.strip()})
        return rows[0] if single else rows


class ImageTextToTextPipeline(Pipeline):
    """[{"input_text", "generated_text"}] for a text with its picture or pictures, or for a conversation (messages whose content parts
    {"type": "image"} have "image", "url" or "path"); a list of such lists for several.  The text is in front of generated_text, the conversation with
    the answer behind it is generated_text, unless return_full_text is False."""
    task = "image-text-to-text"

    def __call__(self, images: Any = None, text: Any = None, return_full_text: bool = True, generate_kwargs: Optional[Dict[str, Any]] = None,
                 **options: Any) -> Any:
        options = {**self.defaults, **(generate_kwargs or {}), **options}
        if text is None and images is not None and not isinstance(images, (str, bytes, os.PathLike)):
            images, text = None, images
        if isinstance(text, dict):
            images, text = text["images"] if "images" in text else text["image"], text["text"]
        if text is None:
            raise ValueError("image-text-to-text needs a text or messages")
        if not isinstance(text, str) and text and isinstance(text[0], (dict, list, tuple)):
            single = isinstance(text[0], dict)
            inputs = [list(text)] if single else [list(chat) for chat in text]
            found = self.model.generate_images([split_messages(chat) for chat in inputs], kind="messages", **options)
        else:
            single = isinstance(text, str)
            inputs = [text] if single else list(text)
            files = [_files(images)[0]] if single else [_files(i)[0] for i in images or []]
            if images is None:
                files = [[] for _ in inputs]
            if len(files) != len(inputs):
                raise ValueError(f"{len(inputs)} texts, but pictures for {len(files)}")
            found = self.model.generate_images(list(zip(inputs, files)), **options)
        rows: List[List[Dict[str, Any]]] = [[] for _ in inputs]
        for g in found:
            given: Any = inputs[g.prompt]
            whole = given + g.text if isinstance(given, str) else given + [{"role": "assistant", "content": g.text}]
            rows[g.prompt].append({"input_text": given, "generated_text": whole if return_full_text else g.text})
        return rows[0] if single else rows


def _mask(mask: bytes, height: int, width: int) -> Any:
    """As transformers gives it, where Pillow is there; else a uint8 array [height, width]."""
    try:
        from PIL import Image
    except ImportError:
        return make(mask, T.U8, (height, width))
    return Image.frombytes("L", (width, height), mask)


class ImageSegmentationPipeline(Pipeline):
    """[{"score", "label", "mask"}, ...] for a picture, a list of such lists for several.  The mask is a picture of Pillow's (without Pillow an
    array [height, width]), 255 where the label is; score is None where classes are told (subtask "semantic"), not objects ("panoptic", "instance")."""
    task = "image-segmentation"

    def __call__(self, inputs: Any, subtask: Optional[str] = None, threshold: Optional[float] = None, mask_threshold: Optional[float] = None,
                 overlap_mask_area_threshold: Optional[float] = None) -> Any:
        files, single = _files(inputs)
        given = {"subtask": subtask, "threshold": threshold, "mask_threshold": mask_threshold, "overlap_mask_area_threshold": overlap_mask_area_threshold}
        how = {**self.defaults, **{name: value for name, value in given.items() if value is not None}}
        if how.get("subtask") not in (None, "panoptic", "instance", "semantic"):
            raise ValueError(f"subtask '{how['subtask']}' is not supported; known: panoptic, instance, semantic")
        found = [[{"score": s["score"], "label": s["label"], "mask": _mask(m.mask(s["id"]), m.height, m.width)} for s in m.segments]
                 for m in self.model.segment_images(files, how.get("subtask"), how.get("threshold"), how.get("mask_threshold"),
                                                    how.get("overlap_mask_area_threshold"))]
        return found[0] if single else found


class DepthEstimationPipeline(Pipeline):
    """{"predicted_depth", "depth"} for a picture, a list of such dicts for several: an array [height, width], and a grey picture of Pillow's (without
    Pillow an array), black at the least value, white at the greatest."""
    task = "depth-estimation"

    def __call__(self, inputs: Any) -> Any:
        files, single = _files(inputs)
        found = [{"predicted_depth": d.predicted_depth, "depth": _mask(d.grey(), d.height, d.width)} for d in self.model.estimate_depth(files)]
        return found[0] if single else found


class DocumentQuestionAnsweringPipeline(Pipeline):
    """[{"score", "answer", "start", "end"}] for a page and a question (LayoutLMv3, which needs word_boxes: [(word, (left, top, right, bottom)), ...]
    in 1000ths of the page), [{"answer"}] of Donut; a list of such lists for several {"image", "question", "word_boxes"}.  Options as those of
    Model.answer_documents."""
    task = "document-question-answering"
    model_task = None

    def __call__(self, image: Any = None, question: Any = None, word_boxes: Any = None, **options: Any) -> Any:
        single = isinstance(question, str) or isinstance(image, dict)
        if isinstance(question, str):
            asked = [{"image": image, "question": question, "word_boxes": word_boxes}]
        else:
            asked = [image] if single else list(image)
        found = self.model.answer_documents(asked, **{**self.defaults, **options})
        return found[0] if single else found


class AutomaticSpeechRecognitionPipeline(Pipeline):
    """{"text"} for a sound (a path, a file's bytes, samples, or {"raw", "sampling_rate"}), a list of them for several.  With return_timestamps also
    "chunks": "word", "char" (CTC), True (Whisper: segments).  chunk_length_s and stride_length_s cut long sounds into overlapping windows;
    generate_kwargs are those of Whisper's generate (Model.transcribe)."""
    task = "automatic-speech-recognition"

    def __call__(self, inputs: Any, return_timestamps: Any = None, chunk_length_s: Optional[float] = None, stride_length_s: Any = None,
                 generate_kwargs: Optional[Dict[str, Any]] = None) -> Any:
        several = isinstance(inputs, (list, tuple)) and not (inputs and isinstance(inputs[0], (int, float)))
        sounds = [os.fspath(i) if isinstance(i, os.PathLike) else i for i in (inputs if several else [inputs])]
        stamps = self.defaults.get("return_timestamps") if return_timestamps is None else return_timestamps
        options = {**(self.defaults.get("generate_kwargs") or {}), **(generate_kwargs or {})}
        options["chunk_length"] = chunk_length_s or self.defaults.get("chunk_length_s")
        options["stride"] = self.defaults.get("stride_length_s") if stride_length_s is None else stride_length_s
        found = self.model.transcribe(sounds, "segment" if stamps is True else stamps or None, **options)
        found = [{k: r[k] for k in ("text", "chunks") if k in r} for r in found]
        return found if several else found[0]


class TextToImagePipeline(Pipeline):
    """`.images` for a prompt or a list of prompts: pictures of Pillow's (without Pillow arrays [height, width, 3]).  Arguments are those of diffusers'
    StableDiffusionPipeline, StableDiffusion3Pipeline and FluxPipeline and, with image (a path, or the bytes of a file) and strength, of StableDiffusionImg2ImgPipeline, with mask_image, too, of StableDiffusionInpaintPipeline; generator is a seed, a torch.Generator that nothing was drawn from, or a list with one for each picture.
    output_type "np" gives arrays."""
    task = "text-to-image"

    def __call__(self, prompt: Texts, height: Optional[int] = None, width: Optional[int] = None, num_inference_steps: Optional[int] = None,
                 guidance_scale: Optional[float] = None, negative_prompt: Optional[str] = None, num_images_per_prompt: Optional[int] = None,
                 eta: Optional[float] = None, generator: Any = None, guidance_rescale: Optional[float] = None, clip_skip: Optional[int] = None,
                 scheduler: Optional[str] = None, image: Any = None, strength: Optional[float] = None, output_type: str = "pil", on_step: Any = None,
                 max_sequence_length: Optional[int] = None, mask_image: Any = None, vae_tiling: Optional[bool] = None,
                 true_cfg_scale: Optional[float] = None, skip_guidance_layers: Optional[Sequence[int]] = None, skip_layer_guidance_scale: Optional[float] = None,
                 skip_layer_guidance_stop: Optional[float] = None, skip_layer_guidance_start: Optional[float] = None) -> Any:
        given = {"height": height, "width": width, "steps": num_inference_steps, "guidance_scale": guidance_scale, "negative_prompt": negative_prompt,
                 "images_per_prompt": num_images_per_prompt, "eta": eta, "guidance_rescale": guidance_rescale, "clip_skip": clip_skip, "scheduler": scheduler, "strength": strength, "vae_tiling": vae_tiling,
                 "max_sequence_length": max_sequence_length, "true_cfg_scale": true_cfg_scale, "skip_guidance_layers": skip_guidance_layers,
                 "skip_layer_guidance_scale": skip_layer_guidance_scale, "skip_layer_guidance_stop": skip_layer_guidance_stop,
                 "skip_layer_guidance_start": skip_layer_guidance_start}
        given.update((name, os.fspath(i) if isinstance(i, os.PathLike) else i) for name, i in (("image", image), ("mask_image", mask_image)))
        return _generated(self.model, [prompt] if isinstance(prompt, str) else list(prompt), generator, on_step, output_type,
                          {**self.defaults, **{name: value for name, value in given.items() if value is not None}})


class UnconditionalImageGenerationPipeline(Pipeline):
    """`.images` of noise alone, from pipelines without a text, under the arguments of diffusers' DDPMPipeline and DDIMPipeline; otherwise as TextToImagePipeline."""
    task = "unconditional-image-generation"

    def __call__(self, batch_size: Optional[int] = None, generator: Any = None, eta: Optional[float] = None, num_inference_steps: Optional[int] = None,
                 scheduler: Optional[str] = None, output_type: str = "pil", on_step: Any = None) -> Any:
        given = {"images_per_prompt": batch_size, "steps": num_inference_steps, "eta": eta, "scheduler": scheduler}
        return _generated(self.model, [], generator, on_step, output_type, {**self.defaults, **{name: value for name, value in given.items() if value is not None}})


def _generated(model: Model, prompts: List[str], generator: Any, on_step: Any, output_type: str, how: Dict[str, Any]) -> Any:
    if output_type not in ("pil", "np"):
        raise ValueError(f"output_type '{output_type}' is not supported; known: pil, np")
    made = model.text_to_image(prompts, generator, on_step, **how)
    return ImagePipelineOutput([_picture(i) if output_type == "pil" else i.array for i in made.images], made.nsfw_content_detected)


class TimeSeriesForecastingPipeline(Pipeline):
    """A dict with `mean`, `quantiles` (by level) and, of models that draw paths, `samples`, for a series of numbers, or a list of them for a list of series."""
    task = "time-series-forecasting"

    def __call__(self, series: Any, horizon: Optional[int] = None, quantiles: Optional[Sequence[float]] = None, **options: Any) -> Any:
        several = len(series) > 0 and hasattr(series[0], "__len__")
        given = {"horizon": horizon, "quantiles": quantiles, **options}
        how = {**self.defaults, **{name: value for name, value in given.items() if value is not None}}
        found = []
        for one in self.model.forecast(series if several else [series], **how):
            made = {"mean": one.mean}
            if one.quantiles is not None:
                made["quantiles"] = {level: one.at(level) for level in one.levels}
            if one.samples is not None:
                made["samples"] = one.samples
            found.append(made)
        return found if several else found[0]


class TextToSpeechPipeline(Pipeline):
    """A dict with `audio` [samples] and `sampling_rate` for a text, or a list of them for a list of texts.  forward_params: speaker_id and speaking_rate, as in
    transformers; other options as of Model.text_to_speech: seed, noise_scale ..."""
    task = "text-to-speech"

    def __call__(self, texts: Union[str, Sequence[str]], forward_params: Optional[Dict[str, Any]] = None, **options: Any) -> Any:
        how = {**self.defaults, **options}
        for name, value in (forward_params or {}).items():
            if name not in ("speaker_id", "speaking_rate"):
                raise TypeError(f"forward_params: '{name}' is not supported; known: speaker_id, speaking_rate")
            how["speaker" if name == "speaker_id" else name] = value
        found = [{"audio": sound.samples, "sampling_rate": sound.sampling_rate}
                 for sound in self.model.text_to_speech([texts] if isinstance(texts, str) else texts, **how)]
        return found[0] if isinstance(texts, str) else found


class ImagePipelineOutput:
    """What diffusers' pipelines return: `images`, and which of them the safety checker flagged (None: the pipeline has none)."""

    def __init__(self, images: List[Any], nsfw_content_detected: Optional[List[Optional[bool]]] = None) -> None:
        self.images, self.nsfw_content_detected = images, nsfw_content_detected


def _picture(image: GeneratedImage) -> Any:
    try:
        return image.pillow()
    except ImportError:
        return image.array


_TASKS: Dict[str, Type[Pipeline]] = {kind.task: kind for kind in (
    FeatureExtractionPipeline, TextClassificationPipeline, ZeroShotClassificationPipeline, TokenClassificationPipeline, QuestionAnsweringPipeline, FillMaskPipeline,
    TextGenerationPipeline, Text2TextGenerationPipeline, SummarizationPipeline, TranslationPipeline, ImageClassificationPipeline,
    ImageFeatureExtractionPipeline, AudioClassificationPipeline, ZeroShotAudioClassificationPipeline, ZeroShotImageClassificationPipeline, ObjectDetectionPipeline, ImageSegmentationPipeline, DepthEstimationPipeline, DocumentQuestionAnsweringPipeline, ImageToTextPipeline, VisualQuestionAnsweringPipeline, ImageTextToTextPipeline,
    TimeSeriesForecastingPipeline, TextToSpeechPipeline, TextToImagePipeline, UnconditionalImageGenerationPipeline, AutomaticSpeechRecognitionPipeline)}
_MODEL_OPTIONS = ("batch_size", "max_length", "queue_capacity", "random_weights", "seed", "architecture", "kv_cache", "precision_profile", "metric", "min_cosine", "candidates",
                  "prefix_cache_bytes", "adapters", "decoder", "safety_checker", "variant")


def pipeline(task: str, model: Union[str, Model], device: str = "auto", precision: Optional[str] = None, context: Optional[Context] = None,
             **options: Any) -> Any:
    """A pipeline for `task` ("feature-extraction", "text-classification", "zero-shot-classification", "token-classification", "question-answering", "fill-mask", "text-generation",
    "text2text-generation", "summarization", "translation" (or "translation_xx_to_yy"), "image-classification", "image-feature-extraction", "audio-classification", "zero-shot-audio-classification", "zero-shot-image-classification", "object-detection", "image-segmentation", "depth-estimation", "document-question-answering", "image-to-text",
    "visual-question-answering", "image-text-to-text", "text-to-image", "unconditional-image-generation", "automatic-speech-recognition", "time-series-forecasting", "text-to-speech", or the aliases "sentiment-analysis", "ner" and "text-to-audio").  `model` is a directory, an id, or a Model; nothing is downloaded.  `device` and
    `precision` name a demand ("auto" chooses).  Other options go to the model or become defaults of the calls."""
    kind = _TASKS.get(ALIASES.get(task, task))
    if kind is None and task.startswith("translation_") and task.count("_") == 3:  # "translation_en_to_de": the task of a pair
        kind = type("TranslationPipeline", (TranslationPipeline,), {"pair": task})
    if kind is None:
        raise ValueError(f"unknown task '{task}'; there are {', '.join(sorted(_TASKS))}")
    model_options = {name: options.pop(name) for name in _MODEL_OPTIONS if name in options}
    if isinstance(model, Model):
        if model_options:
            raise ValueError(f"{', '.join(model_options)}: the model is loaded already")
        return kind(model, options)
    return kind(model, options, device=device, precision=precision, context=context, **model_options)
