"""Forecasts of time series."""
from __future__ import annotations

import ctypes as C
from array import array
from typing import Any, List, Optional, Sequence

from . import _types as T
from ._native import check, lib
from ._tensors import make


class Forecast:
    """Of one series: `mean` [horizon], `quantiles` [horizon, levels] with their `levels`, `samples` [n, horizon]; None where the model gives none."""

    def __init__(self, found: Any, item: Any) -> None:
        def floats(pointer: Any, *shape: int) -> Any:
            n = 4
            for dim in shape:
                n *= dim
            return make(C.string_at(pointer, n), T.F32, shape) if pointer and n else None
        self.levels: List[float] = found.levels[:found.n_quantiles]
        self.mean = floats(item.mean, found.horizon)
        self.quantiles = floats(item.quantiles, found.horizon, found.n_quantiles)
        self.samples = floats(item.samples, found.n_samples, found.horizon)

    def at(self, level: float) -> Any:
        """The quantile of one level: [horizon]."""
        column = array("f", (float(row[self.levels.index(level)]) for row in self.quantiles))
        return make(column.tobytes(), T.F32, (len(column),))


def _floats(values: Any) -> Any:
    """A series as floats; None is a missing value."""
    numbers = values.tolist() if hasattr(values, "tolist") else list(values)
    return (C.c_float * len(numbers))(*(float("nan") if value is None else value for value in numbers))


def forecast(handle: Any, series: Sequence[Any], horizon: Optional[int] = None, quantiles: Optional[Sequence[float]] = None, **options: Any) -> List[Forecast]:
    """accel_forecast_series(); options are the fields of accel_forecast_params."""
    how, pointer = lib.accel_forecast_params_default(), C.POINTER(T.accel_forecasts)()
    for name, value in options.items():
        if name not in ("samples", "seed", "temperature", "top_p", "top_k", "frequency"):
            raise TypeError(f"forecast() has no option '{name}'")
        if value is not None:
            setattr(how, name, value)
    if horizon is not None:
        how.horizon = horizon
    if quantiles is not None:
        levels = (C.c_double * max(len(quantiles), 1))(*quantiles)
        how.quantiles, how.n_quantiles = levels, len(quantiles)
    rows = [_floats(values) for values in series]
    given = (T.accel_series * max(len(rows), 1))(*(T.accel_series(row, len(row)) for row in rows))
    check(lib.accel_forecast_series(handle, given, len(rows), C.byref(how), C.byref(pointer)))
    found = pointer.contents
    result = [Forecast(found, found.item[i]) for i in range(found.n)]
    lib.accel_forecasts_free(C.byref(pointer))
    return result
