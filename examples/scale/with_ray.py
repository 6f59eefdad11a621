"""Vectors of texts by several actors of Ray: python with_ray.py MODEL TEXTS.jsonl"""
import json
import sys

import ray

import accel.ray

with open(sys.argv[2], encoding="utf-8") as f:
    rows = [json.loads(line) for line in f]
ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
ray.data.DataContext.get_current().enable_progress_bars = False
found = accel.ray.map(ray.data.from_items(rows), "embed", sys.argv[1], concurrency=2, num_cpus=1, batch_size=64)
for row in sorted(found.take_all(), key=lambda row: row["id"]):
    print(json.dumps({"id": int(row["id"]), "result": None if row["result"] is None else [float(x) for x in row["result"]], "error": row["error"]}))
