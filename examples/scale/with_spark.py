"""Vectors of texts by Spark: python with_spark.py MODEL TEXTS.jsonl"""
import json
import os
import sys
from typing import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf

model = sys.argv[1]
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers run by this Python, too
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).config("spark.log.level", "ERROR").getOrCreate()


@pandas_udf("struct<result: array<float>, error: string>")
def embed(batches: Iterator[pd.Series]) -> Iterator[pd.DataFrame]:
    import accel
    with accel.Mapper("embed", model, load={"device": "cpu"}) as mapper:  # once for each partition
        for texts in batches:
            yield mapper(pd.DataFrame({"text": texts}))[["result", "error"]]


found = spark.read.json(sys.argv[2]).select("id", embed("text").alias("found")).orderBy("id")
for row in found.collect():
    result = row.found.result
    print(json.dumps({"id": row.id, "result": None if result is None else list(result), "error": row.found.error}))
spark.stop()
