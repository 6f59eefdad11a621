"""A task as a deployment of Ray Serve: pip install accel[ray] 'ray[serve]'.

    import accel.ray_serve
    from ray import serve
    serve.run(accel.ray_serve.deployment("embed", "sentence-transformers/all-MiniLM-L6-v2", num_replicas=2, num_cpus=2), route_prefix="/embed")

    curl http://127.0.0.1:8000/embed -d '["a text", "another"]'

A request's body is a row or a list of rows, each a dict of the task's fields or the first field alone, as accel.Mapper takes them; the answer is
{"result": ..., "error": null} for each, in order.  Rows of requests that arrive together run together.  A replica computes on the CPUs and cards that Ray
gave it; one that dies is started again by Ray.  From other deployments: `await handle.rows.remote(row)`.
"""
from __future__ import annotations

import asyncio
from typing import Any, Dict, List, Optional

from ray import serve

from ._map import TASKS, Column
from .ray import Actor

JSON = Any


class Replica:
    """What a deployment runs: an Actor whose model takes the rows of many requests at once."""

    def __init__(self, task: str, model: str, column: Column, wait: float, options: Dict[str, Any]) -> None:
        self.mapper = Actor(task, model, column, **options)
        self.rows.set_max_batch_size(self.mapper.what.window)
        self.rows.set_batch_wait_timeout_s(wait)

    @serve.batch
    async def rows(self, rows: List[Any]) -> List[Dict[str, Any]]:
        """What became of a row: {"result": ..., "error": None or why}."""
        found = await asyncio.get_running_loop().run_in_executor(None, self.mapper.rows, rows)
        return [{"result": one.result, "error": one.error} for one in found]

    async def __call__(self, request: Any) -> JSON:
        try:
            body = await request.json()
        except ValueError as error:
            from starlette.responses import JSONResponse
            return JSONResponse({"error": f"the body is no JSON: {error}"}, status_code=400)
        if not isinstance(body, list):
            return await self.rows(body)
        return list(await asyncio.gather(*(self.rows(row) for row in body)))


def deployment(task: str, model: str, column: Column = None, *, name: Optional[str] = None, num_replicas: int = 1, num_cpus: float = 1, num_gpus: float = 0,
               wait: float = 0.002, max_ongoing_requests: Optional[int] = None, **options: Any) -> "serve.Application":
    """An application for serve.run().  num_cpus, num_gpus: of each replica.  wait: seconds that a row waits for others to run with.  max_ongoing_requests:
    of a replica, before others wait at the proxy; default: as many rows as run together.  options: as of accel.Mapper."""
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}; one of {', '.join(TASKS)}")
    made = serve.deployment(Replica, name=name or task, num_replicas=num_replicas, max_ongoing_requests=max_ongoing_requests or TASKS[task].window,
                            ray_actor_options={"num_cpus": num_cpus, "num_gpus": num_gpus})
    return made.bind(task, model, column, wait, options)


__all__ = ["Replica", "deployment"]
