"""map() and Mapper: a task over many rows, window by window, where a row that fails is told apart and the others go on.

The tasks are those of `accel map`, by the same names; a Mapper is also what Ray's map_batches, Dask's map_partitions and Spark's mapInPandas call.
"""
from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._errors import AccelError
from ._model import Model

# Failures that are a row's own: what it holds, or a file that it names.
ROW_FAILURES = frozenset(("ERROR_ARGUMENT", "ERROR_UNSUPPORTED", "ERROR_LIMIT", "ERROR_NONFINITE", "ERROR_IO", "ERROR_NOT_FOUND", "ERROR_FORMAT"))
Column = Union[str, Sequence[str], None]


class Mapped(NamedTuple):
    """What became of a row: its result, or None and why."""
    row: Any
    result: Any
    error: Optional[str]


def _lists(found: Any) -> List[Any]:
    return [v.tolist() if hasattr(v, "tolist") else v for v in found]


def _classify(model: Model, columns: List[List[Any]], options: Dict[str, Any]) -> List[Any]:
    texts, pairs = columns
    return model.classify(texts, pairs if any(pair is not None for pair in pairs) else None, **options)


def _rerank(model: Model, columns: List[List[Any]], options: Dict[str, Any]) -> List[Any]:
    """The score of each (query, document); documents of one query that follow each other run together."""
    scores: List[Any] = []
    for query, rows in itertools.groupby(zip(*columns), key=lambda row: row[0]):
        ranked = model.rerank(query, [document for _, document in rows], **options)
        scores.extend(r["score"] for r in sorted(ranked, key=lambda r: r["corpus_id"]))
    return scores


def _texts(model: Model, call: Callable[..., Any], prompts: Any, options: Dict[str, Any]) -> List[Any]:
    """The text of each prompt, or a list where num_return_sequences asks for several."""
    rows: List[List[str]] = [[] for _ in prompts]
    for one in call(prompts, **options):
        rows[one.prompt].append(one.text)
    return [row[0] if len(row) == 1 else row for row in rows]


def _answers(model: Model, columns: List[List[Any]], options: Dict[str, Any]) -> List[Any]:
    prompts = [(question, [image]) for image, question in zip(*columns)]
    return _texts(model, lambda p, **o: model.generate_images(p, "question", **o), prompts, options)


def _captions(model: Model, columns: List[List[Any]], options: Dict[str, Any]) -> List[Any]:
    options = dict(options)
    prompt = options.pop("prompt", None)
    return _texts(model, lambda p, **o: model.generate_images(p, "question", **o), [(prompt, [image]) for image in columns[0]], options)


def _documents(model: Model, columns: List[List[Any]], options: Dict[str, Any]) -> List[Any]:
    asked = [dict(zip(("question", "image", "word_boxes"), row)) for row in zip(*columns)]
    return model.answer_documents(asked, **options)


class _Task(NamedTuple):
    fields: Tuple[str, ...]
    optional: bool  # a row may lack all fields but the first
    model_task: Optional[str]
    window: int
    call: Callable[[Model, List[List[Any]], Dict[str, Any]], Sequence[Any]]


TASKS: Dict[str, _Task] = {
    "embed": _Task(("text",), False, "feature-extraction", 2048, lambda m, c, o: _lists(m.embed(c[0], **o))),
    "classify": _Task(("text", "text_pair"), True, "text-classification", 2048, _classify),
    "classify-images": _Task(("image",), False, "image-classification", 32, lambda m, c, o: m.classify_images(c[0], **o)),
    "audio-classify": _Task(("audio",), False, "audio-classification", 16, lambda m, c, o: m.classify_sounds(c[0], **o)),
    "tokens": _Task(("text",), False, "token-classification", 2048, lambda m, c, o: m.token_labels(c[0], **o)),
    "qa": _Task(("question", "context"), False, "question-answering", 512, lambda m, c, o: m.answer(c[0], c[1], **o)),
    "fill-mask": _Task(("text",), False, "fill-mask", 1024, lambda m, c, o: m.fill_mask(c[0], **o)),
    "rerank": _Task(("query", "document"), False, "text-ranking", 2048, _rerank),
    "generate": _Task(("text",), False, None, 256, lambda m, c, o: _texts(m, m.generate, c[0], o)),
    "translate": _Task(("text",), False, None, 256, lambda m, c, o: _texts(m, m.translate, c[0], o)),
    "summarize": _Task(("text",), False, None, 256, lambda m, c, o: _texts(m, m.summarize, c[0], o)),
    "caption": _Task(("image",), False, None, 16, _captions),
    "vqa": _Task(("image", "question"), False, None, 16, _answers),
    "document-qa": _Task(("question", "image", "word_boxes"), True, None, 16, _documents),
    "transcribe": _Task(("audio",), False, "automatic-speech-recognition", 8, lambda m, c, o: m.transcribe(c[0], **o)),
    "detect-objects": _Task(("image",), False, "object-detection", 16, lambda m, c, o: m.detect_objects(c[0], **o)),
    "image-features": _Task(("image",), False, "image-feature-extraction", 16, lambda m, c, o: _lists(m.image_features(c[0], **o))),
    "zero-shot": _Task(("text",), False, "text-classification", 512, lambda m, c, o: m.zero_shot(c[0], **o)),
    "zero-shot-audio": _Task(("audio",), False, "zero-shot-audio-classification", 16, lambda m, c, o: m.zero_shot_audio(c[0], **o)),
    "zero-shot-image": _Task(("image",), False, "zero-shot-image-classification", 32, lambda m, c, o: m.zero_shot_image(c[0], **o)),
}


class Mapper:
    """A task on a model, for rows and for batches of columns.

    task: one of TASKS.  model: a name, a directory, or a Model, which stays open at close().  column: what is read of a row, instead of the task's own
    field; two names for tasks with two fields.  result, error: the columns that a batch gets.  load: options of Model.  options: those of the Model's
    method for the task.
    """

    def __init__(self, task: str, model: Union[str, Model], column: Column = None, *, result: str = "result", error: str = "error",
                 load: Optional[Dict[str, Any]] = None, **options: Any) -> None:
        if task not in TASKS:
            raise ValueError(f"unknown task {task!r}; one of {', '.join(TASKS)}")
        self.task, self.what = task, TASKS[task]
        given = [column] if isinstance(column, str) else list(column or ())
        if len(given) > len(self.what.fields):
            raise ValueError(f"a row of {task} has {len(self.what.fields)} fields, not {len(given)}")
        self.columns = given + list(self.what.fields[len(given):])
        self.result, self.error, self.options = result, error, options
        self.owned = not isinstance(model, Model)
        self.model = model if isinstance(model, Model) else Model(model, task=self.what.model_task, **(load or {}))

    def close(self) -> None:
        """Frees the model, unless it was given as one."""
        if self.owned:
            self.model.close()

    def __enter__(self) -> "Mapper":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # ---- rows ----

    def _fields(self, row: Any) -> Tuple[Optional[List[Any]], Optional[str]]:
        """The fields of a row, or why it has none.  A row is a dict, or its first field alone."""
        values = [row.get(name) for name in self.columns] if isinstance(row, dict) else [row] + [None] * (len(self.columns) - 1)
        for i, (name, value) in enumerate(zip(self.columns, values)):
            if value is None and not (i and self.what.optional):
                return None, f"field '{name}' is missing"
            if value is not None and not isinstance(value, (str, bytes)) and self.what.fields[i] not in ("audio", "image", "word_boxes"):
                return None, f"field '{name}' is no text"
        return values, None

    def _run(self, rows: List[List[Any]]) -> List[Tuple[Any, Optional[str]]]:
        """Results of good rows; where they fail together, each half by itself, down to the row whose fault it is."""
        if not rows:
            return []
        try:
            return [(found, None) for found in self.what.call(self.model, [list(column) for column in zip(*rows)], self.options)]
        except AccelError as error:
            if error.status not in ROW_FAILURES:
                raise
            if len(rows) == 1:
                return [(None, error.message)]
        half = len(rows) // 2
        return self._run(rows[:half]) + self._run(rows[half:])

    def rows(self, rows: Iterable[Any]) -> List[Mapped]:
        """What became of each row, in order; all of them are given to the model at once."""
        given = list(rows)
        fields = [self._fields(row) for row in given]
        good = iter(self._run([values for values, why in fields if values is not None and why is None]))
        return [Mapped(row, *(next(good) if why is None else (None, why))) for row, (_, why) in zip(given, fields)]

    # ---- batches ----

    def __call__(self, batch: Any) -> Any:
        """A batch with the columns `result` and `error` added: a dict of columns, a pyarrow Table or RecordBatch, or a pandas DataFrame."""
        if isinstance(batch, dict):
            names = self._present(batch)
            rows = [dict(zip(names, row)) for row in zip(*(list(batch[name]) for name in names))]
            results, errors = self._columns(rows)
            return {**batch, self.result: _objects(results), self.error: _objects(errors)}
        if hasattr(batch, "append_column"):
            return self._arrow(batch)
        if hasattr(batch, "assign"):
            self._present(batch.columns)
            results, errors = self._columns(batch.reindex(columns=self.columns).astype(object).where(lambda f: f.notna(), None).to_dict("records"))
            column = type(batch[self.columns[0]])
            return batch.assign(**{name: column(values, index=batch.index, dtype=object) for name, values in ((self.result, results), (self.error, errors))})
        raise TypeError(f"neither a dict of columns, nor a table of pyarrow, nor a DataFrame: {type(batch).__name__}")

    def _present(self, names: Any) -> List[str]:
        """Those of the columns that a batch has, which may lack an optional one alone."""
        for i, name in enumerate(self.columns):
            if name not in names and not (i and self.what.optional):
                raise KeyError(f"the batch has no column '{name}'; say which with column=")
        return [name for name in self.columns if name in names]

    def _columns(self, rows: List[Dict[str, Any]]) -> Tuple[List[Any], List[Optional[str]]]:
        mapped = [m for first in range(0, len(rows), self.what.window) for m in self.rows(rows[first:first + self.what.window])]
        return [m.result for m in mapped], [m.error for m in mapped]

    def _arrow(self, batch: Any) -> Any:
        import pyarrow as pa
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        names = self._present(table.column_names)
        results, errors = self._columns(table.select(names).to_pylist())
        kind = pa.list_(pa.float32()) if self.task == "embed" and self.options.get("pooling") != "none" else None
        table = table.append_column(self.result, pa.array(results, kind)).append_column(self.error, pa.array(errors, pa.string()))
        return table.combine_chunks().to_batches()[0] if isinstance(batch, pa.RecordBatch) and table.num_rows else table


def _objects(values: List[Any]) -> Any:
    """A column: an array of objects where there is numpy, else the list."""
    try:
        import numpy as np
    except ImportError:
        return values
    column = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        column[i] = value
    return column


def map(task: str, model: Union[str, Model], rows: Any, column: Column = None, *, window: Optional[int] = None, **options: Any) -> Any:
    """A task with every row.  rows: an iterable of texts or dicts, of which an iterator of Mapped comes, in order, as it is read; or a table of pyarrow,
    of which a table with the columns "result" and "error" comes.  window: rows that run together.  options: as of Mapper.

        for row, vector, error in accel.map("embed", "sentence-transformers/all-MiniLM-L6-v2", open("texts.txt")): ...
        table = accel.map("classify", model, pyarrow.parquet.read_table("reviews.parquet"), column="review")
    """
    mapper = Mapper(task, model, column, **options)
    if hasattr(rows, "append_column"):
        with mapper:
            return mapper(rows)
    return _iterate(mapper, iter(rows), window or mapper.what.window)


def _iterate(mapper: Mapper, rows: Iterator[Any], window: int) -> Iterator[Mapped]:
    with mapper:
        while True:
            some = list(itertools.islice(rows, window))
            if not some:
                return
            yield from mapper.rows(some)
