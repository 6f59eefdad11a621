"""Vectors of texts by workers of Dask: python with_dask.py MODEL TEXTS.jsonl"""
import functools
import json
import sys

import dask
import dask.dataframe as dd
import pandas as pd

import accel


@functools.lru_cache(maxsize=1)
def mapper(model: str) -> accel.Mapper:
    """Once in each process of a worker."""
    return accel.Mapper("embed", model, load={"device": "cpu"})


def embed(part: pd.DataFrame, model: str) -> pd.DataFrame:
    return mapper(model)(part)


if __name__ == "__main__":
    dask.config.set({"dataframe.convert-string": False})  # results are lists, not texts
    texts = dd.from_pandas(pd.read_json(sys.argv[2], lines=True), npartitions=4)
    found = texts.map_partitions(embed, sys.argv[1], meta={"id": "int64", "text": "object", "result": "object", "error": "object"})
    for row in found.compute(scheduler="processes", num_workers=2).to_dict("records"):
        print(json.dumps({"id": row["id"], "result": row["result"], "error": row["error"]}))
