"""Vectors of texts by two replicas of Ray Serve, asked over HTTP by several clients: python with_ray_serve.py MODEL TEXTS.jsonl"""
import json
import socket
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import ray
from ray import serve

import accel.ray_serve

with open(sys.argv[2], encoding="utf-8") as f:
    rows = [json.loads(line) for line in f]
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
ray.init(num_cpus=3, include_dashboard=False, logging_level="error")
serve.start(http_options={"host": "127.0.0.1", "port": port})
serve.run(accel.ray_serve.deployment("embed", sys.argv[1], num_replicas=2, num_cpus=1), route_prefix="/embed")


def ask(some):
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/embed", json.dumps(some).encode()), timeout=120) as answer:
        return json.load(answer)


parts = [rows[i:i + 7] for i in range(0, len(rows), 7)]
with ThreadPoolExecutor(8) as clients:
    for some, answers in zip(parts, clients.map(ask, parts)):
        for row, answer in zip(some, answers):
            print(json.dumps({"id": row["id"], **answer}))
serve.shutdown()
