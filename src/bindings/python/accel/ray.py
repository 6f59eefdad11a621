"""Tasks over datasets of Ray: pip install accel[ray].

    import accel.ray, ray
    vectors = accel.ray.map(ray.data.read_parquet("texts/"), "embed", "sentence-transformers/all-MiniLM-L6-v2", column="text", concurrency=4, num_cpus=2)
    vectors.write_parquet("vectors/")

Each of `concurrency` actors loads the model once.  It computes on as many threads as it has CPUs of Ray, and, with num_gpus, on the cards that Ray gave
it.  A batch gets two columns, "result" and "error"; rows that fail have no result, and the others go on.  An actor that dies is started again by Ray,
which gives its batches to it or another: the rows are the same.
"""
from __future__ import annotations

from typing import Any, Dict, Optional

import ray

from ._context import Context
from ._map import TASKS, Column, Mapper


class Actor(Mapper):
    """What `map_batches` of a dataset of dicts of numpy columns calls: a Mapper with the threads and cards that Ray has assigned."""

    def __init__(self, task: str, model: str, column: Column = None, *, load: Optional[Dict[str, Any]] = None, **options: Any) -> None:
        resources = ray.get_runtime_context().get_assigned_resources()
        self.context = Context(threads=max(1, int(resources.get("CPU", 1))))
        # Ray hides the cards of other actors, so that auto sees this one's alone, and all:gpu its several; without one it is the processor.
        device = "all:gpu" if resources.get("GPU", 0) > 1 else "auto" if resources.get("GPU") else "cpu"
        super().__init__(task, model, column, load={"device": device, "context": self.context, **(load or {})}, **options)


def map(dataset: Any, task: str, model: str, column: Column = None, *, concurrency: Any = 1, num_cpus: float = 1, num_gpus: float = 0,
        batch_size: Optional[int] = None, **options: Any) -> Any:
    """A dataset with the columns "result" and "error" added.  concurrency: actors, or (least, most) of them.  num_cpus, num_gpus: of each actor.
    batch_size: rows that run together; default: by the task.  options: as of accel.Mapper."""
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}; one of {', '.join(TASKS)}")
    return dataset.map_batches(Actor, fn_constructor_args=(task, model, column), fn_constructor_kwargs=options, batch_format="numpy", concurrency=concurrency,
                               num_cpus=num_cpus, num_gpus=num_gpus, batch_size=batch_size or TASKS[task].window)


__all__ = ["Actor", "map"]
