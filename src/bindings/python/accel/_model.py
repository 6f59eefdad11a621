"""Models (endpoints) and tokenizers."""
from __future__ import annotations

import ctypes as C
import json
import math
import os
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from . import _generate, _queue
from . import _types as T
from ._adapters import Adapter, Adapters, Path, adapter_specs, use_adapter
from ._chat import Chat
from ._context import Context, TestReport, default_context, take_report
from ._generate import Generation, GenerationTicket, Listener, Prompts, Session, Token
from ._native import Media, check, decode, encode, lib, media_array, string_list, strings_struct, take_string, text_array
from ._forecast import Forecast, forecast
from ._text_to_speech import Waveform, text_to_speech
from ._images import GeneratedImages, text_to_image
from ._pictures import Depth, Segmentation, answer_documents, document_json, estimate_depth, extract_image_features, generate_images, generate_regions, segment_images
from ._queue import Ticket, request
from ._speech import transcribe
from ._tensors import Inputs, ModelOutput, from_floats, take
from ._truncation import Truncation, use_truncation


@dataclass(frozen=True)
class PlacementPart:
    """One part of a model over several devices.  Layers are counted from 0; stages are those of the program (layer n is stage n + 1); `weights`: bytes."""
    device: str
    implementation_type: str
    first_layer: int
    last_layer: int
    first_stage: int
    last_stage: int
    weights: int
    streams: bool


@dataclass(frozen=True)
class PlacementCandidate:
    """A device at a precision that "auto" could have taken.  `value`, `low`, `high`: its figure of the metric with its interval (ms, items a second, bytes,
    joules), from `source`, "rows" (measured here) or "prediction"; None with source "".  `cosine`: the least that its goldens gave here, or None.
    `reason`: why it was not taken, "" of the one that was."""
    device: str
    precision: str
    source: str
    value: Optional[float]
    low: Optional[float]
    high: Optional[float]
    cosine: Optional[float]
    reason: str


@dataclass(frozen=True)
class Placement:
    """Where a model runs, and why.  `parts`: of a model over several devices, first layers first; else empty.  With a precision profile
    `precision_profile` is its file, and `precision_kinds` the kinds of layers of another precision, "attention=fp16"; else None.  Where "auto" had a
    choice `chosen_by` is "rows", "prediction" or "ladder", `chosen_why` says it in words, and `candidates` has what it saw; else None and empty."""
    model: str
    label: str
    device: str
    precision: str
    implementation_type: str
    is_amd: bool
    listed: bool
    wanted_device: str
    wanted_precision: str
    reasons: Tuple[str, ...]
    weights: str
    parts: Tuple[PlacementPart, ...] = ()
    precision_profile: Optional[str] = None
    precision_kinds: Optional[str] = None
    weight_bytes: int = 0
    chosen_by: Optional[str] = None
    chosen_why: Optional[str] = None
    metric: Optional[str] = None
    candidates: Tuple[PlacementCandidate, ...] = ()


def _number(value: float) -> Optional[float]:
    return None if math.isnan(value) else value


def init_params(device: str = "auto", precision: Optional[str] = None, task: Optional[str] = None, batch_size: int = 0, max_length: int = 0,
                queue_capacity: int = 0, random_weights: bool = False, seed: int = 0, architecture: Optional[str] = None,
                kv_cache: Optional[str] = None, precision_profile: Union[str, "os.PathLike[str]", Dict[str, Any], None] = None,
                metric: Optional[str] = None, min_cosine: float = 0.0,
                candidates: Union[str, "os.PathLike[str]", Dict[str, Any], None] = None,
                prefix_cache_bytes: Optional[int] = None, adapters: Optional[Adapters] = None, enable_adapters: bool = False,
                decoder: Optional[str] = None, safety_checker: Optional[bool] = True, variant: Optional[str] = None) -> Tuple[Any, List[Optional[bytes]]]:
    """An accel_init_params of Model's options, and the strings that it points to, which live as long."""
    how = lib.accel_init_params_default()
    profile, known = (json.dumps(v) if isinstance(v, dict) else v and os.fspath(v) for v in (precision_profile, candidates))
    keep = [encode(v) for v in (device, precision, task, architecture, kv_cache, profile, metric, known, decoder and os.fspath(decoder), variant)]
    (how.device, how.precision, how.task, how.architecture, how.kv_cache, how.precision_profile, how.metric, how.candidates, how.decoder,
     how.variant) = keep
    how.min_cosine = min_cosine
    how.batch_size, how.max_length, how.queue_capacity = batch_size, max_length, queue_capacity
    how.random_weights, how.seed = int(random_weights), seed
    how.without_safety_checker = int(not safety_checker)
    if prefix_cache_bytes is not None:
        how.prefix_cache_bytes = prefix_cache_bytes
    specs = adapter_specs(adapters)
    how.adapters, how.n_adapters, how.enable_adapters = specs, len(specs), int(enable_adapters)
    return how, keep


def queue_numbers(s: T.accel_queue_stats) -> Dict[str, Any]:
    """As Model.queue_stats has them."""
    numbers = ("waiting", "prompt_tokens", "cached_tokens", "cache_hits", "cache_prompts", "cache_bytes", "draft_tokens", "accepted_tokens")
    return {**{name: getattr(s, name) for name in numbers}, "no_cache": decode(s.no_cache) if s.no_cache else None}


class Model:
    """A model on a device.  Call it with named tensors as transformers' forward takes them, or use the tasks."""

    def __init__(self, model: str, device: str = "auto", precision: Optional[str] = None, task: Optional[str] = None, batch_size: int = 0,
                 max_length: int = 0, queue_capacity: int = 0, random_weights: bool = False, seed: int = 0,
                 architecture: Optional[str] = None, kv_cache: Optional[str] = None, context: Optional[Context] = None,
                 precision_profile: Union[str, "os.PathLike[str]", Dict[str, Any], None] = None, metric: Optional[str] = None,
                 min_cosine: float = 0.0, candidates: Union[str, "os.PathLike[str]", Dict[str, Any], None] = None,
                 prefix_cache_bytes: Optional[int] = None, adapters: Optional[Adapters] = None, enable_adapters: bool = False,
                 decoder: Optional[str] = None, safety_checker: Optional[bool] = True, variant: Optional[str] = None) -> None:
        """`precision_profile`: in the place of `precision`, a file that `accel tune` wrote, or what is in one.  `metric` ("latency", "throughput",
        "memory", "energy"), `min_cosine` (with precision "auto" the accuracy bound, from 0 to 1) and `candidates` (a file of `accel choose`, what is in
        one, or "" for none; None: what `accel choose --store` kept) are what "auto" goes by.  `prefix_cache_bytes`: of prompts that the queue keeps for
        prompts that begin alike; 0: none, None: 512 MiB.  `adapters`: LoRA adapters of PEFT that are merged into the weights while these are loaded: a
        directory, or a list of directories or of pairs of a directory and a scale.  `enable_adapters`: load_adapter() loads others beside them, for
        single requests.  `decoder`: directory of an autoencoder (AutoencoderTiny, AutoencoderKL) in the place of a picture pipeline's own.
        `safety_checker`: None leaves out the one that the pipeline's directory has, as in diffusers.  `variant`: of the files of weights, as
        transformers and diffusers take it: "fp16" reads model.fp16.safetensors."""
        self._handle = C.c_void_p()
        self.adapters: Dict[str, Adapter] = {}
        self.context = context or default_context()
        how, _strings = init_params(device, precision, task, batch_size, max_length, queue_capacity, random_weights, seed, architecture, kv_cache,
                                    precision_profile, metric, min_cosine, candidates, prefix_cache_bytes, adapters, enable_adapters, decoder, safety_checker, variant)
        check(lib.accel_init(self.context.handle, encode(str(model)), C.byref(how), C.byref(self._handle)))
        self.context.endpoints.add(self)

    @classmethod
    def from_pretrained(cls, model: str, **options: Any) -> "Model":
        """As transformers spells it; the options are those of the constructor.  Nothing is downloaded."""
        return cls(model, **options)

    def close(self) -> None:
        """Frees the model, once what waits in its queue is done."""
        for adapter in self.adapters.values():
            if self._handle:
                adapter.close()
        if self._handle:
            lib.accel_cleanup(C.byref(self._handle))

    def __del__(self) -> None:
        # A closed context has taken its models along.
        if getattr(self, "_handle", None) and getattr(self.context, "_handle", None):
            self.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def handle(self) -> C.c_void_p:
        """The `accel_endpoint *` of the C interface; a closed model raises."""
        if not self._handle:
            raise ValueError("this model is closed")
        return self._handle

    @property
    def queue(self) -> C.c_void_p:
        """Its `accel_queue *`."""
        return C.c_void_p(lib.accel_queue_of(self.handle))

    # ---- adapters ----

    def load_adapter(self, path: Path, adapter_name: Optional[str] = None) -> Adapter:
        """Loads a LoRA adapter of PEFT beside the weights of a model made with enable_adapters=True.  Requests name it with `adapter=`, the answer or
        its name (default: the last part of `path`), and may weaken or strengthen it with `adapter_scale=`."""
        name = adapter_name or os.path.basename(os.path.normpath(os.fspath(path)))
        if name in self.adapters:
            raise ValueError(f"there is an adapter called '{name}' already")
        self.adapters[name] = Adapter(self, path, name)
        return self.adapters[name]

    def delete_adapter(self, adapter_name: str) -> None:
        """Gives an adapter's memory back; no request may use it any more."""
        self.adapters.pop(adapter_name).close()

    def _adapter(self, adapter: Union[Adapter, str, None]) -> Optional[Adapter]:
        if isinstance(adapter, str):
            if adapter not in self.adapters:
                raise ValueError(f"no adapter is called '{adapter}'; there are {', '.join(sorted(self.adapters)) or 'none'}")
            return self.adapters[adapter]
        return adapter

    # ---- what it is ----

    @property
    def placement(self) -> Placement:
        """Where the model runs, and why."""
        p = lib.accel_placement(self.handle).contents
        parts = tuple(PlacementPart(decode(q.device), decode(q.implementation_type), q.first_layer, q.last_layer, q.first_stage, q.last_stage, q.weights,
                                    bool(q.streams)) for q in (p.part[i] for i in range(p.n_part)))
        candidates = tuple(PlacementCandidate(decode(q.device), decode(q.precision), decode(q.source), _number(q.value), _number(q.low), _number(q.high),
                                              _number(q.cosine), decode(q.reason)) for q in (p.candidate[i] for i in range(p.n_candidate)))
        return Placement(decode(p.model), decode(p.label), decode(p.device), decode(p.precision), decode(p.implementation_type), bool(p.is_amd),
                         bool(p.listed), decode(p.wanted_device), decode(p.wanted_precision), tuple(string_list(p.reasons)), decode(p.weights), parts,
                         decode(p.precision_profile) if p.precision_profile else None,
                         decode(p.precision_kinds) if p.precision_profile else None, p.weight_bytes,
                         decode(p.chosen_by) if p.chosen_by else None, decode(p.chosen_why) if p.chosen_why else None,
                         decode(p.metric) if p.chosen_by else None, candidates)

    @property
    def device(self) -> str:
        """The device that was taken, "rocm:0"."""
        return self.placement.device

    @property
    def precision(self) -> str:
        """The precision that was taken, "fp16"."""
        return self.placement.precision

    @property
    def task(self) -> str:
        """The pipeline's name of what the model does, "feature-extraction"."""
        return decode(lib.accel_processor_of(self.handle).contents.task)

    @property
    def labels(self) -> List[str]:
        """id2label of a classification head, else []."""
        return string_list(lib.accel_processor_of(self.handle).contents.labels)

    @property
    def vocab_size(self) -> int:
        """Tokens that the model knows."""
        return lib.accel_processor_of(self.handle).contents.vocab_size

    @property
    def max_length(self) -> int:
        """Tokens at which texts are cut."""
        return lib.accel_processor_of(self.handle).contents.max_length

    @property
    def batch_size(self) -> int:
        """Texts that a task puts into one run."""
        return lib.accel_batch_size_of(self.handle)

    def _io(self) -> Tuple[List[str], List[str]]:
        pointers = C.POINTER(T.accel_strings)(), C.POINTER(T.accel_strings)()
        check(lib.accel_endpoint_io(self.handle, C.byref(pointers[0]), C.byref(pointers[1])))
        names = string_list(pointers[0]), string_list(pointers[1])
        for pointer in pointers:
            lib.accel_strings_free(C.byref(pointer))
        return names

    @property
    def input_names(self) -> List[str]:
        """Names that run() takes."""
        return self._io()[0]

    @property
    def output_names(self) -> List[str]:
        """Names that run(outputs=...) can ask for."""
        return self._io()[1]

    def dump_program(self, format: str = "text") -> str:
        """The model's program: format "text", or "dot" for Graphviz."""
        text = C.c_void_p()
        check(lib.accel_program_dump(self.handle, encode(format), C.byref(text)))
        return take_string(text)

    def precision_profile(self) -> Dict[str, Any]:
        """What the model runs with, as a precision profile: its device, its precision, and that of each kind of layer."""
        text = C.c_void_p()
        check(lib.accel_precision_profile_json(self.handle, C.byref(text)))
        return json.loads(take_string(text))

    def self_test(self) -> TestReport:
        """Runs the model on seeded inputs and compares it with the reference plugin."""
        pointer = C.POINTER(T.accel_test_report)()
        check(lib.accel_self_test(self.handle, C.byref(pointer)))
        return take_report(pointer)

    def trim(self) -> None:
        """Gives the model's scratch memory back."""
        check(lib.accel_trim(self.handle))

    @property
    def streaming(self) -> Optional[Dict[str, Any]]:
        """How weights that do not fit in `Context(memory=...)` are read again in each run, and what was read so far, in bytes and seconds; None: all weights are in memory.
        `bytes_per_second` and `wait_share` (0 to 1: how much of their time runs waited for bytes) are of all runs so far.
        Experts of mixtures are read when they are routed: `expert_hits` of those that launches used were in their `expert_memory`, `expert_misses` were read,
        `expert_bytes` in all; `read_per_run` is what is expected of one row, if the router likes all experts alike.
        `host`: memory of the host from which a device's weights are copied in each run; what is counted are then copies, `disk` a run from files."""""
        s = T.accel_stream_stats(size=C.sizeof(T.accel_stream_stats))
        check(lib.accel_streaming(self.handle, C.byref(s)))
        if not s.streaming:
            return None
        names = ("resident", "staging", "read_per_run", "least_limit", "bytes", "wait_seconds", "load_bytes", "load_seconds", "runs", "run_seconds",
                 "bytes_per_second", "wait_share", "expert_memory", "expert_hits", "expert_misses", "expert_bytes", "host", "disk")
        return {**{name: getattr(s, name) for name in names}, "direct": bool(s.direct)}

    @property
    def replicas(self) -> List[Dict[str, Any]]:
        """The devices that share the model's work (device="all"), and what each has done: `standing` ("in", "out": it does not pay, or is not known to;
        "lost", with the `reason`), `runs`, `items` (texts, prompts, tensors), `units` (tokens), `failures`, `trials`, `seconds`.  One device: one row of
        zeros."""
        found = []
        for i in range(lib.accel_replica_count(self.handle)):
            s = T.accel_replica_stats(size=C.sizeof(T.accel_replica_stats))
            check(lib.accel_replica_statistics(self.handle, i, C.byref(s)))
            names = ("runs", "items", "units", "failures", "trials", "seconds")
            found.append({**{name: decode(getattr(s, name)) for name in ("device", "precision", "implementation_type", "reason")},
                          "standing": {1: "in", 0: "out", -1: "lost"}[s.standing], **{name: getattr(s, name) for name in names}})
        return found

    @property
    def queue_stats(self) -> Dict[str, Any]:
        """What the queue's generations have done: `waiting` requests; `prompt_tokens` of finished ones, of these `cached_tokens` that were kept of earlier
        prompts, for `cache_hits` prompts; `cache_prompts` and `cache_bytes` that are kept; `no_cache`: why nothing is (None: it is); of speculation
        `draft_tokens` and `accepted_tokens`, as in Generation."""
        s = T.accel_queue_stats(size=C.sizeof(T.accel_queue_stats))
        check(lib.accel_queue_statistics(self.queue, C.byref(s)))
        return queue_numbers(s)

    def stream_read(self) -> Tuple[int, float]:
        """Bytes and seconds of reading what a run reads, without computing: what the disk could give.  After two runs at least."""
        count, seconds = C.c_uint64(), C.c_double()
        check(lib.accel_stream_read(self.handle, C.byref(count), C.byref(seconds)))
        return count.value, seconds.value

    def profile(self, **inputs: Any) -> List[Dict[str, Any]]:
        """One run, step by step: `node`, `op`, `stage` (layer), `us`, `clock` ("device" or "host": whose time it is), `flop`, `bytes`, `limit_us` (what its instructions take at least; 0: not known) in the order of the program.  Not beside other runs of this model."""
        steps: List[Dict[str, Any]] = []

        def on_step(_: Any, pointer: Any) -> None:
            s = pointer.contents
            steps.append({"node": decode(s.node), "op": decode(s.op).lower(), "stage": s.stage, "us": s.end_us - s.begin_us, "flop": s.flop,
                          "bytes": s.bytes, "limit_us": s.limit_us, "clock": "device" if s.device_clock else "host"})

        function = T.ProfileFunction(on_step)
        check(lib.accel_set_profile(self.handle, function, None))
        try:
            self.run(**inputs)
        finally:
            lib.accel_set_profile(self.handle, T.ProfileFunction(), None)
        return steps

    # ---- raw tensors ----

    def run(self, outputs: Optional[Sequence[str]] = None, **inputs: Any) -> ModelOutput:
        """Named tensors in, named tensors out, as transformers' forward has them.  `outputs`: only these, in this order."""
        given, pointer = Inputs({k: v for k, v in inputs.items() if v is not None}), C.POINTER(T.accel_tensors)()
        if outputs is None:
            check(lib.accel_run(self.handle, C.byref(given.struct), C.byref(pointer)))
        else:
            check(lib.accel_run_named(self.handle, C.byref(given.struct), text_array(list(outputs)), len(outputs), C.byref(pointer)))
        return take(pointer)

    __call__ = run

    def submit(self, **inputs: Any) -> Ticket:
        """Puts a run() in the model's queue; QueueFullError when that is full."""
        given, what = Inputs(inputs), request(_queue.RUN)
        what.inputs = C.pointer(given.struct)
        return Ticket(self, what, lib.accel_wait, T.accel_tensors, take)

    # ---- generation ----

    def generate(self, prompts: Prompts, on_token: Optional[Listener] = None, adapter: Union[Adapter, str, None] = None, **options: Any) -> List[Generation]:
        """Goes on with a text or several, or with token ids.  Options are those of transformers' generate() and `seed`, `stop`, `logprobs`,
        `ignore_eos`, `keep_stop`, `keep_special_tokens`, `add_special_tokens`.  `on_token` hears each token; it ends the sequence by answering True.
        `adapter`: one of load_adapter(), times `adapter_scale`."""
        return _generate.generate(self.handle, prompts, on_token, {**options, "adapter": self._adapter(adapter)})

    def stream(self, prompt: Prompts, **options: Any) -> Iterator[Token]:
        """The same as an iterator over tokens, while they come: `for token in model.stream("Once"): print(token.text, end="")`."""
        return _generate.stream(lambda on_token: self.generate(prompt, on_token, **options))

    def submit_generate(self, prompt: Union[str, Sequence[int], None], on_token: Optional[Listener] = None, priority: int = 0,
                        deadline: Optional[float] = None, adapter: Union[Adapter, str, None] = None, images: Sequence[Media] = (),
                        kind: str = "text", **options: Any) -> GenerationTicket:
        """One prompt through the model's queue: requests that are there at the same time run together and give what they would give alone.
        `images`, `kind`: the prompt is about pictures, as in generate_images().  `on_token` is called from the queue's thread.  Larger priorities
        begin first; one that has not begun `deadline` seconds from now ends with AccelTimeoutError.  QueueFullError when the queue is full."""
        return GenerationTicket(self, prompt, on_token, request(_queue.GENERATE, priority, deadline),
                                {**options, "adapter": self._adapter(adapter)}, images, kind)

    def chat(self, system: Optional[str] = None, **options: Any) -> Chat:
        """A conversation by the model's chat template; options are those of Chat."""
        return Chat(self, system, **options)

    def text2text(self, texts: Union[str, Sequence[str]], task: Optional[str] = None, source: Optional[str] = None, target: Optional[str] = None,
                  truncation: bool = False, on_token: Optional[Callable[[Token], Any]] = None, **options: Any) -> List[Generation]:
        """What an encoder-decoder makes of a text or several.  `task`: "translation", "summarization", "text2text-generation" or another name in
        task_specific_params of config.json, where its prefix and settings are read from.  `source`, `target`: languages, as the model spells
        them.  `truncation`: texts are cut at the tokenizer's model_max_length.  Options are those of generate()."""
        return _generate.text2text(self.handle, [texts] if isinstance(texts, str) else list(texts), task, source, target, truncation, on_token, options)

    def translate(self, texts: Union[str, Sequence[str]], source: Optional[str] = None, target: Optional[str] = None, **options: Any) -> List[Generation]:
        """text2text() with the task "translation"; languages as the model spells them, None: as it is set up."""
        return self.text2text(texts, "translation", source, target, **options)

    def summarize(self, texts: Union[str, Sequence[str]], **options: Any) -> List[Generation]:
        """text2text() with the task "summarization"."""
        return self.text2text(texts, "summarization", **options)

    def session(self, path: Optional[str] = None) -> Session:
        """A conversation kept on the device; `path`: one that Session.save wrote.  Close it before the model."""
        return Session(self, path)

    # ---- tasks: one list of results for each text ----

    def embed(self, texts: Sequence[str], pooling: Optional[str] = None, normalize: Optional[bool] = None, prompt: Optional[str] = None,
              prompt_name: Optional[str] = None, adapter: Union[Adapter, str, None] = None, adapter_scale: Optional[float] = None,
              truncation: Truncation = None, max_length: Optional[int] = None) -> Any:
        """float32 [texts, dim]; a list of [tokens, dim] where the model does not say how to pool (or pooling="none").  `adapter`: one of
        load_adapter(), times `adapter_scale`, here and in the tasks below; so are `truncation` (transformers' words, False: longer texts are
        errors) and `max_length` (tokens)."""
        how, pointer = _embed_params(pooling, normalize, prompt, prompt_name), C.POINTER(T.accel_embeddings)()
        use_truncation(how, truncation, max_length)
        use_adapter(how, self._adapter(adapter), adapter_scale)
        check(lib.accel_embed_with(self.handle, text_array(texts), len(texts), C.byref(how), C.byref(pointer)))
        return _vectors(pointer)

    def submit_embed(self, texts: Sequence[str], pooling: Optional[str] = None, normalize: Optional[bool] = None, prompt: Optional[str] = None,
                     prompt_name: Optional[str] = None, priority: int = 0, deadline: Optional[float] = None,
                     adapter: Union[Adapter, str, None] = None, adapter_scale: Optional[float] = None) -> Ticket:
        """embed() through the model's queue: texts of requests that are there at the same time run together, with the same vectors.  `priority`,
        `deadline`: as submit_generate()."""
        how, what = _embed_params(pooling, normalize, prompt, prompt_name), request(_queue.EMBED, priority, deadline)
        use_adapter(how, self._adapter(adapter), adapter_scale)
        what.texts, what.n, what.embed = text_array(texts), len(texts), C.pointer(how)
        return Ticket(self, what, lib.accel_wait_embeddings, T.accel_embeddings, _vectors)

    def classify(self, texts: Sequence[str], pairs: Optional[Sequence[Optional[str]]] = None, top_k: int = 1,
                 function: Optional[str] = None, adapter: Union[Adapter, str, None] = None,
                 adapter_scale: Optional[float] = None, truncation: Truncation = None, max_length: Optional[int] = None) -> List[List[Dict[str, Any]]]:
        """[{"label", "score"}, ...] for each text, best first; top_k 0: all labels."""
        how, pointer = _classify_params(top_k, function), C.POINTER(T.accel_classifications)()
        use_truncation(how, truncation, max_length)
        use_adapter(how, self._adapter(adapter), adapter_scale)
        check(lib.accel_classify(self.handle, text_array(texts), text_array(pairs) if pairs else None, len(texts), C.byref(how), C.byref(pointer)))
        return _labels(pointer)

    def zero_shot(self, texts: Sequence[str], labels: Sequence[str], hypothesis: Optional[str] = None, multi_label: bool = False,
                  adapter: Union[Adapter, str, None] = None, adapter_scale: Optional[float] = None) -> List[List[Dict[str, Any]]]:
        """[{"label", "score"}, ...] over all labels for each text, best first, by a model of natural language inference.  hypothesis: the sentence
        around a label, with "{}" for it; multi_label: each label has a probability of its own."""
        how, pointer = lib.accel_zero_shot_params_default(), C.POINTER(T.accel_classifications)()
        how.keep = encode(hypothesis)
        how.hypothesis, how.multi_label = how.keep, int(multi_label)
        use_adapter(how, self._adapter(adapter), adapter_scale)
        check(lib.accel_zero_shot_classify(self.handle, text_array(texts), len(texts), text_array(labels), len(labels), C.byref(how), C.byref(pointer)))
        return _labels(pointer)

    def submit_classify(self, texts: Sequence[str], pairs: Optional[Sequence[Optional[str]]] = None, top_k: int = 1,
                        function: Optional[str] = None, priority: int = 0, deadline: Optional[float] = None,
                        adapter: Union[Adapter, str, None] = None, adapter_scale: Optional[float] = None) -> Ticket:
        """classify() through the model's queue, as submit_embed()."""
        how, what = _classify_params(top_k, function), request(_queue.CLASSIFY, priority, deadline)
        use_adapter(how, self._adapter(adapter), adapter_scale)
        what.texts, what.n, what.classify = text_array(texts), len(texts), C.pointer(how)
        if pairs:
            what.pairs = text_array(pairs)
        return Ticket(self, what, lib.accel_wait_classifications, T.accel_classifications, _labels)

    def rerank(self, query: str, documents: Sequence[str], top_k: Optional[int] = None, return_documents: bool = False,
               function: Optional[str] = None, instruction: Optional[str] = None, adapter: Union[Adapter, str, None] = None,
               adapter_scale: Optional[float] = None) -> List[Dict[str, Any]]:
        """[{"corpus_id", "score"}, ...], best first, as sentence-transformers' CrossEncoder.rank; with return_documents also "text".
        `instruction`: of language models of the Qwen3-Reranker kind, what makes a document relevant."""
        how, pointer = _rerank_params(top_k, function, instruction), C.POINTER(T.accel_ranking)()
        use_adapter(how, self._adapter(adapter), adapter_scale)
        check(lib.accel_rerank(self.handle, encode(query), text_array(documents), len(documents), C.byref(how), C.byref(pointer)))
        return _ranked(pointer, documents if return_documents else None)

    def submit_rerank(self, query: str, documents: Sequence[str], top_k: Optional[int] = None, return_documents: bool = False,
                      function: Optional[str] = None, instruction: Optional[str] = None, priority: int = 0,
                      deadline: Optional[float] = None, adapter: Union[Adapter, str, None] = None,
                      adapter_scale: Optional[float] = None) -> Ticket:
        """rerank() through the model's queue, as submit_embed()."""
        how, what = _rerank_params(top_k, function, instruction), request(_queue.RERANK, priority, deadline)
        use_adapter(how, self._adapter(adapter), adapter_scale)
        what.query, what.texts, what.n, what.rerank = encode(query), text_array(documents), len(documents), C.pointer(how)
        kept = list(documents) if return_documents else None
        return Ticket(self, what, lib.accel_wait_ranking, T.accel_ranking, lambda pointer: _ranked(pointer, kept))

    def _classify_media(self, call: Any, files: Sequence[Media], top_k: int, function: Optional[str]) -> List[List[Dict[str, Any]]]:
        how, media = _classify_params(top_k, function), media_array(files)
        pointer = C.POINTER(T.accel_classifications)()
        check(call(self.handle, media, len(files), C.byref(how), C.byref(pointer)))
        return _labels(pointer)

    def classify_images(self, images: Sequence[Media], top_k: int = 5, function: Optional[str] = None) -> List[List[Dict[str, Any]]]:
        """[{"label", "score"}, ...] for each picture (a path, or the bytes of a file), best first; top_k 0 is all."""
        return self._classify_media(lib.accel_classify_images, images, top_k, function)

    def classify_sounds(self, sounds: Sequence[Media], top_k: int = 5, function: Optional[str] = None) -> List[List[Dict[str, Any]]]:
        """[{"label", "score"}, ...] for each sound (a path, or the bytes of a file), best first; top_k 0 is all."""
        return self._classify_media(lib.accel_classify_sounds, sounds, top_k, function)

    def zero_shot_image(self, images: Sequence[Media], labels: Sequence[str], hypothesis: Optional[str] = None) -> List[List[Dict[str, Any]]]:
        """[{"label", "score"}, ...] over all labels for each picture, best first.  hypothesis: the sentence around a label, with "{}" for it."""
        media, pointer = media_array(images), C.POINTER(T.accel_classifications)()
        check(lib.accel_zero_shot_image(self.handle, media, len(images), text_array(labels), len(labels), encode(hypothesis), C.byref(pointer)))
        return _labels(pointer)

    def zero_shot_audio(self, sounds: Sequence[Media], labels: Sequence[str], hypothesis: Optional[str] = None) -> List[List[Dict[str, Any]]]:
        """[{"label", "score"}, ...] over all labels for each sound, best first.  hypothesis: as in zero_shot_image."""
        media, pointer = media_array(sounds), C.POINTER(T.accel_classifications)()
        check(lib.accel_zero_shot_audio(self.handle, media, len(sounds), text_array(labels), len(labels), encode(hypothesis), 0.0, C.byref(pointer)))
        return _labels(pointer)

    def detect_objects(self, images: Sequence[Media], threshold: float = 0.5) -> List[List[Dict[str, Any]]]:
        """[{"score", "label", "box": {"xmin", "ymin", "xmax", "ymax"}}, ...] for each picture; boxes in pixels."""
        how, media, pointer = lib.accel_detect_params_default(), media_array(images), C.POINTER(T.accel_detections)()
        how.threshold = threshold
        check(lib.accel_detect_objects(self.handle, media, len(images), C.byref(how), C.byref(pointer)))
        found = pointer.contents
        result = [[{"score": o.score, "label": decode(o.label), "box": {side: int(getattr(o, side)) for side in ("xmin", "ymin", "xmax", "ymax")}}
                   for o in (found.object[i][k] for k in range(found.count[i]))] for i in range(found.n)]
        lib.accel_detections_free(C.byref(pointer))
        return result

    def generate_images(self, prompts: Sequence[Tuple[Optional[str], Sequence[Media]]], kind: str = "text", **options: Any) -> List[Generation]:
        """Text about pictures for each (text, pictures), from models that caption, answer or talk about them.  kind: "text" as the model reads it
        (an image token for each picture; None: a caption from nothing), "question" written by the chat template, "messages" (JSON),
        "templated" what the chat template has written.  Options as for generate()."""
        return generate_images(self.handle, prompts, kind, options)

    def generate_regions(self, prompts: Sequence[Tuple[Optional[str], Sequence[Media]]], **options: Any) -> List[Dict[str, Any]]:
        """[{"text", "regions", "height", "width", "prompt"}] for each (task, [picture]), from Florence-2: a task is "<OD>", "<CAPTION>", "<OCR_WITH_REGION>"
        ..., or "<CAPTION_TO_PHRASE_GROUNDING>a red car".  Regions are {"label", "box": [xmin, ymin, xmax, ymax]}, {"label", "quad": [x, y, ...]} or
        {"label", "polygons": [[x, y, ...], ...]} in pixels, as transformers' post_process_generation has them.  Options as for generate()."""
        return generate_regions(self.handle, prompts, options)

    @property
    def names_regions(self) -> bool:
        """Is generate_regions() for it?"""
        return bool(lib.accel_names_regions(self.handle))

    def text_to_image(self, prompts: Sequence[str], generator: Any = None, on_step: Any = None, image: Optional[Media] = None, mask_image: Optional[Media] = None,
                      **options: Any) -> GeneratedImages:
        """Pictures of texts.  generator: a seed, or a seed for each picture (a torch.Generator that nothing was drawn from will do).  on_step(step, steps,
        latents) is called after each step; True ends the call.  image: a picture to begin with (a path, or the bytes of a file); mask_image: white where it is made anew, black where it is kept.  options: steps, width, height, images_per_prompt, clip_skip, guidance_scale,
        guidance_rescale, eta, strength, negative_prompt, vae_tiling, scheduler ("euler", or a class of diffusers), max_sequence_length, true_cfg_scale, skip_guidance_layers (a list), skip_layer_guidance_scale,
        skip_layer_guidance_start, skip_layer_guidance_stop."""
        return text_to_image(self.handle, prompts, generator, on_step, image, mask_image, **options)

    def forecast(self, series: Sequence[Any], horizon: Optional[int] = None, quantiles: Optional[Sequence[float]] = None, **options: Any) -> List[Forecast]:
        """Forecasts of series (sequences of numbers; None or NaN is a missing value).  horizon: values of each, default as many as the model gives at once.
        quantiles: levels, default 0.1 to 0.9 or the model's own.  options: samples, seed, temperature, top_p, top_k (Chronos), frequency (TimesFM)."""
        return forecast(self.handle, series, horizon, quantiles, **options)

    def text_to_speech(self, texts: Sequence[str], **options: Any) -> List[Waveform]:
        """The sounds of texts.  options: seed (as torch.manual_seed before the first), speaker, speaking_rate, noise_scale, noise_scale_duration, phonemes (texts
        are phonemes already), max_seconds."""
        return text_to_speech(self.handle, texts, **options)

    def segment_images(self, images: Sequence[Media], subtask: Optional[str] = None, threshold: Optional[float] = None, mask_threshold: Optional[float] = None,
                       overlap_threshold: Optional[float] = None) -> List[Segmentation]:
        """What each pixel of each picture (a path, or the bytes of a file) shows.  subtask: "panoptic", "instance" (objects) or "semantic" (classes);
        default: the first the model can do.  The thresholds are for objects: of their score (0.9), of mask times score (0.5), and of the share of their
        pixels that they must keep beside others (0.5)."""
        return segment_images(self.handle, images, subtask,
                              {"threshold": threshold, "mask_threshold": mask_threshold, "overlap_threshold": overlap_threshold})

    def estimate_depth(self, images: Sequence[Media]) -> List[Depth]:
        """How far away each pixel of each picture (a path, or the bytes of a file) is."""
        return estimate_depth(self.handle, images)

    def image_features(self, images: Sequence[Media], pool: bool = False) -> List[Any]:
        """The last hidden state of each picture (a path, or the bytes of a file), [1, tokens, dim] (of ResNet and ConvNeXt [1, channels, height, width]),
        or with `pool` the model's pooler_output."""
        return extract_image_features(self.handle, images, pool)

    def answer_documents(self, questions: Sequence[Dict[str, Any]], **options: Any) -> List[List[Dict[str, Any]]]:
        """Answers to questions about pages, a list each: {"question", "image", "word_boxes"}, where "image" is a path or the bytes of a file, and
        "word_boxes" (LayoutLMv3) [(word, (left, top, right, bottom)), ...] in 1000ths of the page.  options: top_k, max_answer_len, max_seq_len, doc_stride,
        handle_impossible_answer; look=True: LayoutLMv3 sees the picture, too; those of generate() for Donut."""
        return answer_documents(self.handle, questions, options)

    def document_json(self, text: str) -> Any:
        """What a text of Donut's with its marks says: DonutProcessor.token2json."""
        return document_json(self.handle, text)

    def transcribe(self, sounds: Sequence[Any], timestamps: Optional[str] = None, **options: Any) -> List[Dict[str, Any]]:
        """{"text", "seconds"} for each sound: a path, the bytes of a file, an array of samples (16000 a second), or {"raw": array, "sampling_rate": n}.
        With timestamps ("char", "word", "segment" or "auto") also "chunks": [{"text", "timestamp": (start, end)}, ...] in seconds.  Whisper adds "language",
        "ids" and "segments".  options: chunk_length and stride in seconds; for Whisper language, task, prompt, temperature (a number, or several to fall
        back on), compression_ratio_threshold, logprob_threshold, no_speech_threshold, condition_on_prev_tokens, prompt_condition_type; others as in generate.
        max_seconds: a longer sound is an error.  on_segment: called with the sound's number and each segment of Whisper's (with its "index", without words)
        as soon as it is final; what it answers true, or raises, ends the transcription."""
        return transcribe(self.handle, sounds, timestamps, options)

    def token_labels(self, texts: Sequence[str], aggregation: str = "none", ignore_labels: Optional[Iterable[str]] = None,
                     stride: int = 0) -> List[List[Dict[str, Any]]]:
        """[{"entity", "score", "index", "word", "start", "end"}, ...] for each text; under an aggregation "entity_group" and no index."""
        how = lib.accel_classify_tokens_params_default()
        keep = encode(aggregation), strings_struct(ignore_labels) if ignore_labels is not None else None
        how.aggregation, how.stride = keep[0], stride
        if keep[1] is not None:
            how.ignore_labels = C.pointer(keep[1])
        pointer = C.POINTER(T.accel_token_entities)()
        check(lib.accel_classify_tokens(self.handle, text_array(texts), len(texts), C.byref(how), C.byref(pointer)))
        found = pointer.contents
        result = [[_entity(found.entity[i][k]) for k in range(found.count[i])] for i in range(found.n)]
        lib.accel_token_entities_free(C.byref(pointer))
        return result

    def answer(self, questions: Sequence[str], contexts: Sequence[str], top_k: int = 1, doc_stride: int = 0, max_answer_len: int = 0,
               max_seq_len: int = 0, max_question_len: int = 0, handle_impossible_answer: bool = False,
               align_to_words: bool = True) -> List[List[Dict[str, Any]]]:
        """[{"score", "start", "end", "answer"}, ...] for each question, best first.  0: the default of transformers."""
        if len(questions) != len(contexts):
            raise ValueError("as many contexts as questions are needed")
        how = lib.accel_qa_params_default()
        how.top_k, how.handle_impossible_answer, how.align_to_words = top_k, int(handle_impossible_answer), int(align_to_words)
        for name, value in (("doc_stride", doc_stride), ("max_answer_len", max_answer_len), ("max_seq_len", max_seq_len),
                            ("max_question_len", max_question_len)):
            if value:
                setattr(how, name, value)
        pointer = C.POINTER(T.accel_answers)()
        check(lib.accel_qa(self.handle, text_array(questions), text_array(contexts), len(questions), C.byref(how), C.byref(pointer)))
        found = pointer.contents
        result = [[{"score": a.score, "start": a.start, "end": a.end, "answer": decode(a.answer)}
                   for a in (found.answer[i][k] for k in range(found.count[i]))] for i in range(found.n)]
        lib.accel_answers_free(C.byref(pointer))
        return result

    def fill_mask(self, texts: Sequence[str], top_k: int = 5, targets: Optional[Iterable[str]] = None, truncation: Truncation = None,
                  max_length: Optional[int] = None) -> List[List[List[Dict[str, Any]]]]:
        """[{"score", "token", "token_str", "sequence"}, ...] for each mask of each text."""
        how = use_truncation(lib.accel_fill_params_default(), truncation, max_length)
        how.top_k = top_k
        keep = strings_struct(targets) if targets is not None else None
        if keep is not None:
            how.targets = C.pointer(keep)
        pointer = C.POINTER(T.accel_fills)()
        check(lib.accel_fill_mask(self.handle, text_array(texts), len(texts), C.byref(how), C.byref(pointer)))
        found = pointer.contents
        result: List[List[List[Dict[str, Any]]]] = [[] for _ in texts]
        for i in range(found.n):
            result[found.text[i]].append([{"score": f.score, "token": f.token, "token_str": decode(f.token_str), "sequence": decode(f.sequence)}
                                          for f in (found.fill[i][k] for k in range(found.count[i]))])
        lib.accel_fills_free(C.byref(pointer))
        return result


def _embed_params(pooling: Optional[str], normalize: Optional[bool], prompt: Optional[str], prompt_name: Optional[str]) -> Any:
    how = lib.accel_embed_params_default()
    how.keep = [encode(v) for v in (pooling, prompt, prompt_name)]  # as long as the struct
    how.pooling, how.prompt, how.prompt_name = how.keep
    how.normalize = -1 if normalize is None else int(normalize)
    return how


def _classify_params(top_k: int, function: Optional[str]) -> Any:
    how = lib.accel_classify_params_default()
    how.keep = encode(function)
    how.top_k, how.function = top_k, how.keep
    return how


def _rerank_params(top_k: Optional[int], function: Optional[str], instruction: Optional[str]) -> Any:
    how = lib.accel_rerank_params_default()
    how.keep = encode(function), encode(instruction)
    how.top_k, how.function, how.instruction = top_k or 0, *how.keep
    return how


def _vectors(pointer: Any) -> Any:
    """Copies a POINTER(accel_embeddings), and frees it."""
    found = pointer.contents
    if found.per_token:
        base, row = C.cast(found.data, C.c_void_p).value or 0, 4 * found.dim
        vectors: Any = [from_floats(base + row * found.row_start[i], (found.row_start[i + 1] - found.row_start[i], found.dim))
                        for i in range(found.n)]
    else:
        vectors = from_floats(found.data, (found.n, found.dim))
    lib.accel_embeddings_free(C.byref(pointer))
    return vectors


def _ranked(pointer: Any, documents: Optional[Sequence[str]]) -> List[Dict[str, Any]]:
    """Copies a POINTER(accel_ranking), and frees it.  `documents`: those to be given, too."""
    found = [(r.document, r.score) for r in pointer.contents.item[:pointer.contents.n]]
    lib.accel_ranking_free(C.byref(pointer))
    return [{"corpus_id": i, "score": score, **({"text": documents[i]} if documents is not None else {})} for i, score in found]


def _labels(pointer: Any) -> List[List[Dict[str, Any]]]:
    """Copies a POINTER(accel_classifications), and frees it."""
    found = pointer.contents
    result = [[{"label": decode(s.label), "score": s.score} for s in (found.score[i][k] for k in range(found.count[i]))] for i in range(found.n)]
    lib.accel_classifications_free(C.byref(pointer))
    return result


def preprocess(model: str, images: Sequence[Media] = (), sounds: Sequence[Media] = (), pillow: bool = False, seed: int = 0,
               context: Optional[Context] = None) -> ModelOutput:
    """The tensors that the model would be given for pictures or sounds (paths, or the bytes of files): pixel_values, input_features, ..."""
    how = lib.accel_preprocess_params_default()
    pictures, heard = media_array(images), media_array(sounds)
    how.images, how.n_images, how.sounds, how.n_sounds = pictures, len(images), heard, len(sounds)
    how.pillow, how.seed = int(pillow), seed
    pointer = C.POINTER(T.accel_tensors)()
    check(lib.accel_preprocess((context or default_context()).handle, encode(model), C.byref(how), C.byref(pointer)))
    return take(pointer)


def _entity(e: Any) -> Dict[str, Any]:
    if e.index < 0:
        return {"entity_group": decode(e.entity), "score": e.score, "word": decode(e.word), "start": e.start, "end": e.end}
    return {"entity": decode(e.entity), "score": e.score, "index": e.index, "word": decode(e.word), "start": e.start, "end": e.end}


class Tokenizer:
    """A tokenizer.json, or that of a model directory or id."""

    def __init__(self, path_or_model: str, context: Optional[Context] = None) -> None:
        self._handle, self._template = C.c_void_p(), C.c_void_p()
        self._path = str(path_or_model)
        self.context = context or default_context()
        check(lib.accel_tokenizer_open(self.context.handle, encode(str(path_or_model)), C.byref(self._handle)))

    @classmethod
    def from_pretrained(cls, path_or_model: str, **options: Any) -> "Tokenizer":
        """A tokenizer.json, a model's directory, or its id."""
        return cls(path_or_model, **options)

    def close(self) -> None:
        """Frees the tokenizer."""
        if self._handle:
            lib.accel_tokenizer_close(C.byref(self._handle))
        if self._template:
            lib.accel_template_close(C.byref(self._template))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def _encode(self, texts: Sequence[str], add_special_tokens: bool) -> List[Tuple[List[int], List[str], List[Tuple[int, int]]]]:
        pointer = C.POINTER(T.accel_token_ids)()
        check(lib.accel_tokenize(self._handle, text_array(texts), len(texts), int(add_special_tokens), C.byref(pointer)))
        f = pointer.contents
        rows = [(f.ids[i][:f.count[i]], [decode(t) for t in f.tokens[i][:f.count[i]]], list(zip(f.start[i][:f.count[i]], f.end[i][:f.count[i]])))
                for i in range(f.n)]
        lib.accel_token_ids_free(C.byref(pointer))
        return rows

    def __call__(self, texts: Union[str, Sequence[str]], add_special_tokens: bool = True, padding: bool = False, pad_id: int = 0,
                 return_offsets_mapping: bool = False) -> Dict[str, Any]:
        """{"input_ids", "attention_mask"} as lists (of lists for several texts), padded at the right when asked; ready for Model.run."""
        rows = self._encode([texts] if isinstance(texts, str) else list(texts), add_special_tokens)
        longest = max((len(ids) for ids, _, _ in rows), default=0)
        fill = [longest - len(ids) if padding else 0 for ids, _, _ in rows]
        result: Dict[str, Any] = {"input_ids": [ids + [pad_id] * n for (ids, _, _), n in zip(rows, fill)],
                                  "attention_mask": [[1] * len(ids) + [0] * n for (ids, _, _), n in zip(rows, fill)]}
        if return_offsets_mapping:
            result["offset_mapping"] = [spans + [(0, 0)] * n for (_, _, spans), n in zip(rows, fill)]
        return {k: v[0] for k, v in result.items()} if isinstance(texts, str) else result

    def encode(self, text: str, add_special_tokens: bool = True) -> List[int]:
        """Ids of a text."""
        return self._encode([text], add_special_tokens)[0][0]

    def tokenize(self, text: str, add_special_tokens: bool = False) -> List[str]:
        """Tokens of a text as the vocabulary spells them."""
        return self._encode([text], add_special_tokens)[0][1]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of ids."""
        text = C.c_void_p()
        check(lib.accel_detokenize(self._handle, (C.c_int32 * max(len(ids), 1))(*ids), len(ids), int(skip_special_tokens), C.byref(text)))
        return take_string(text)

    def batch_decode(self, rows: Sequence[Sequence[int]], skip_special_tokens: bool = False) -> List[str]:
        """The texts of rows of ids."""
        return [self.decode(ids, skip_special_tokens) for ids in rows]

    def apply_chat_template(self, conversation: Sequence[Dict[str, Any]], tools: Optional[Sequence[Dict[str, Any]]] = None,
                            documents: Optional[Sequence[Dict[str, Any]]] = None, chat_template: Optional[str] = None,
                            add_generation_prompt: bool = False, continue_final_message: bool = False, tokenize: bool = True,
                            **variables: Any) -> Union[str, List[int]]:
        """The conversation as the model's chat template writes it: ids, or the text with tokenize=False.

        `chat_template` names one of several templates; other keywords are variables of the template."""
        if not self._template:
            check(lib.accel_template_open(self.context.handle, encode(self._path), C.byref(self._template)))

        def as_json(value: Any) -> Optional[bytes]:
            return None if value is None else encode(json.dumps(value, ensure_ascii=False))

        how = lib.accel_template_params_default()
        how.name, how.tools, how.documents = (None if chat_template is None else encode(chat_template)), as_json(tools), as_json(documents)
        how.variables = as_json(variables) if variables else None
        how.add_generation_prompt, how.continue_final_message = int(add_generation_prompt), int(continue_final_message)
        text = C.c_void_p()
        check(lib.accel_template_render(self._template, as_json(list(conversation)), C.byref(how), C.byref(text)))
        rendered = take_string(text)
        return self.encode(rendered, add_special_tokens=False) if tokenize else rendered
