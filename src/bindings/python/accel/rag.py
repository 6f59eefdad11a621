"""Answers from documents: an index of texts, search by meaning and by words, and answers that cite what was found (docs/rag.md).

    index = accel.rag.Index("docs.sqlite", "sentence-transformers/all-MiniLM-L6-v2")
    index.add("docs")                                                    # again later: only what changed
    for passage in index.search("How is a model placed?"):
        print(passage.path, passage.first_line, passage.heading)
    print(index.answer("How is a model placed?", generator).text)        # "... [1]"
"""
from __future__ import annotations

import ctypes as C
import math
import os
from dataclasses import dataclass
from typing import Any, Iterator, List, Optional, Tuple, Union

from . import _types as T
from ._context import Context, default_context
from ._generate import Listener, Token, _params, listen, stream
from ._model import Model
from ._native import check, decode, encode, lib, string_list, text_array

Path = Union[str, "os.PathLike[str]"]
_MODES = {"hybrid": 0, "vectors": 1, "words": 2}  # accel_rag_mode
_FORMATS = {"text": 0, "markdown": 1, "html": 2}  # accel_rag_format
_OVERLAP_DEFAULT = 0xFFFFFFFF


@dataclass(frozen=True)
class Passage:
    """A part of a document.  `score`: what passages are ordered by; `similarity`: the cosine with the query, None where it was not compared;
    `vector_rank` and `words_rank`: its place by each, from 1, None where it was not among the candidates."""
    path: str
    title: str
    heading: str
    text: str
    first_line: int
    last_line: int
    score: float
    similarity: Optional[float]
    vector_rank: Optional[int]
    words_rank: Optional[int]


@dataclass(frozen=True)
class Changes:
    """What Index.add() did: how many documents are new, were read anew, are as they were, were removed; files of no kind that is read; passages
    that were written; tokens that the embedder read; and for each document that failed its path and why."""
    added: int
    changed: int
    unchanged: int
    removed: int
    skipped: int
    passages: int
    tokens: int
    problems: Tuple[Tuple[str, str], ...]


@dataclass(frozen=True)
class Answer:
    """`text` cites `sources[n - 1]` as [n]; `cited` has these numbers, `left_out` counts passages that the model's context had no room for."""
    text: str
    finish: str
    sources: Tuple[Passage, ...]
    cited: Tuple[int, ...]
    left_out: int
    prompt_tokens: int
    new_tokens: int
    prefill_ms: float
    decode_ms: float


@dataclass(frozen=True)
class Info:
    """What an index holds, and what it was made with."""
    embedder: str
    dim: int
    chunk_tokens: int
    overlap: int
    document_prompt: str
    query_prompt: str
    passages: int
    documents: Tuple[str, ...]


def _passages(found: Any) -> List[Passage]:
    items = (found.item[i] for i in range(found.n))
    return [Passage(decode(p.path), decode(p.title), decode(p.heading), decode(p.text), p.first_line, p.last_line, p.score,
                    None if math.isnan(p.similarity) else p.similarity, p.vector_rank or None, p.words_rank or None) for p in items]


def _handle_of(model: Optional[Model]) -> Any:
    return None if model is None else model.handle


class Index:
    """An index of documents in one file.  Close it before its embedder."""

    def __init__(self, path: Path, embedder: Union[Model, str, None] = None, *, create: bool = True, chunk_tokens: int = 0, overlap: Optional[int] = None,
                 document_prompt: Optional[str] = None, query_prompt: Optional[str] = None, context: Optional[Context] = None, **options: Any) -> None:
        """`embedder`: a Model, or the name of one, which is opened with `options` (device, precision ...).  None: the one that the index names; an index
        that is to be searched by words alone is opened with embedder="".  `create`: make the file where it is not there."""
        self._handle, file = C.c_void_p(), encode(os.fspath(path))
        self.context = embedder.context if isinstance(embedder, Model) else context or default_context()
        if embedder is None:
            embedder = self._named(file)
        if isinstance(embedder, str):
            embedder = Model(embedder, task="feature-extraction", context=self.context, **options) if embedder else None
        elif options:
            raise TypeError(f"Index() opens no model here: {', '.join(options)}")
        self.embedder = embedder
        how, keep = lib.accel_rag_params_default(), (encode(document_prompt), encode(query_prompt))
        how.create, how.chunk_tokens = int(create), chunk_tokens
        how.overlap = _OVERLAP_DEFAULT if overlap is None else overlap
        how.document_prompt, how.query_prompt = keep
        check(lib.accel_rag_open(self.context.handle, file, _handle_of(self.embedder), C.byref(how), C.byref(self._handle)))

    def _named(self, file: Any) -> str:
        """The embedder that an index names."""
        check(lib.accel_rag_open(self.context.handle, file, None, None, C.byref(self._handle)))
        name = self.info.embedder
        self.close()
        return name

    @property
    def handle(self) -> C.c_void_p:
        """The `accel_rag *` of the C interface; a closed index raises."""
        if not self._handle:
            raise ValueError("this index is closed")
        return self._handle

    def close(self) -> None:
        """Closes the file; the embedder stays."""
        lib.accel_rag_close(C.byref(self._handle))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def info(self) -> Info:
        """What it holds now."""
        pointer = C.POINTER(T.accel_rag_info)()
        check(lib.accel_rag_describe(self.handle, C.byref(pointer)))
        i = pointer.contents
        info = Info(decode(i.embedder), i.dim, i.chunk_tokens, i.overlap, decode(i.document_prompt), decode(i.query_prompt), i.passages,
                    tuple(string_list(i.documents)))
        lib.accel_rag_info_free(C.byref(pointer))
        return info

    def add(self, *paths: Path) -> Changes:
        """Brings the index up to date with files and folders: what is new or changed is read, what is gone is removed."""
        names, pointer = [os.fspath(p) for p in paths], C.POINTER(T.accel_rag_changes)()
        check(lib.accel_rag_add(self.handle, text_array(names), len(names), C.byref(pointer)))
        c = pointer.contents
        changes = Changes(c.added, c.changed, c.unchanged, c.removed, c.skipped, c.passages, c.tokens,
                          tuple((decode(c.problem[i].path), decode(c.problem[i].message)) for i in range(c.n_problem)))
        lib.accel_rag_changes_free(C.byref(pointer))
        return changes

    def add_text(self, name: str, text: str, format: str = "text") -> None:
        """Adds a text that is no file, or puts it in the place of the one of that name.  `format`: "text", "markdown" or "html"."""
        if format not in _FORMATS:
            raise ValueError(f"format={format!r}: one of {', '.join(_FORMATS)}")
        check(lib.accel_rag_add_text(self.handle, encode(name), encode(text), _FORMATS[format]))

    def remove(self, *paths: Path) -> int:
        """Removes documents, and all below a folder; answers how many there were."""
        names, removed = [os.fspath(p) for p in paths], C.c_uint32()
        check(lib.accel_rag_remove(self.handle, text_array(names), len(names), C.byref(removed)))
        return removed.value

    def _search_params(self, top_k: int, mode: str, candidates: int, reranker: Optional[Model], paths: Optional[str]) -> Any:
        if mode not in _MODES:
            raise ValueError(f"mode={mode!r}: one of {', '.join(_MODES)}")
        how = lib.accel_rag_search_params_default()
        how.keep = encode(paths)
        how.top_k, how.mode, how.candidates, how.reranker, how.path_pattern = top_k, _MODES[mode], candidates, _handle_of(reranker), how.keep
        return how

    def search(self, query: str, top_k: int = 5, *, mode: str = "hybrid", candidates: int = 0, reranker: Optional[Model] = None,
               paths: Optional[str] = None) -> List[Passage]:
        """The passages that fit best.  `mode`: "hybrid", "vectors" or "words"; `candidates`: what each of these proposes and the reranker reads;
        `paths`: a pattern of whole paths, in which * is any text and ? one character."""
        how, pointer = self._search_params(top_k, mode, candidates, reranker, paths), C.POINTER(T.accel_rag_passages)()
        check(lib.accel_rag_search(self.handle, encode(query), C.byref(how), C.byref(pointer)))
        found = _passages(pointer.contents)
        lib.accel_rag_passages_free(C.byref(pointer))
        return found

    def answer(self, question: str, generator: Model, top_k: int = 5, *, mode: str = "hybrid", candidates: int = 0, reranker: Optional[Model] = None,
               paths: Optional[str] = None, on_token: Optional[Listener] = None, **options: Any) -> Answer:
        """An answer from what search() finds.  Options as for Model.generate; `on_token` ends the answer by answering True."""
        search, how = self._search_params(top_k, mode, candidates, reranker, paths), _params(options)
        failure, pointer = listen(how, on_token), C.POINTER(T.accel_rag_answer)()
        status = lib.accel_rag_answer_query(self.handle, generator.handle, encode(question), C.byref(search), C.byref(how), C.byref(pointer))
        if failure:
            lib.accel_rag_answer_free(C.byref(pointer))
            raise failure[0]
        check(status)
        a = pointer.contents
        answer = Answer(decode(a.text), decode(a.finish), tuple(_passages(a.sources.contents)), tuple(a.cited[:a.n_cited]), a.n_left_out,
                        a.prompt_tokens, a.new_tokens, a.prefill_ms, a.decode_ms)
        lib.accel_rag_answer_free(C.byref(pointer))
        return answer

    def stream(self, question: str, generator: Model, **options: Any) -> Iterator[Token]:
        """answer() as an iterator over its tokens, while they come.  Leaving the loop ends the answer."""
        return stream(lambda on_token: self.answer(question, generator, on_token=on_token, **options))
