#!/usr/bin/env python3
"""Search in the vectors of a rag_bench index beside other ways to do it: sqlite-vec, usearch (exact and HNSW) and numpy.

    rag_bench EMBEDDER --index big.sqlite
    rag_peers.py big.sqlite [QUERIES]          needs numpy, and sqlite-vec and usearch where they are to be compared (pip)

Reads big.sqlite.vectors.  Printed: CPU and wall milliseconds of a query (medians), of making the index, and how many of the 30 nearest each finds.
"""
import statistics
import sys
import time

import numpy as np

try:
    import pysqlite3 as sqlite3  # where Python's own loads no extensions (pysqlite3-binary)
except ImportError:
    import sqlite3

K = 30


def read(path):
    with open(path + ".vectors", "rb") as f:
        head = f.read(64)
    dim, n = np.frombuffer(head[8:16], np.uint32)
    data = np.memmap(path + ".vectors", np.float32, "r", 64 + 16 * int(n), (int(n), int(dim)))
    return np.array(data)


def told(name, make_s, search, queries, exact):
    cpu, wall, found = [], [], 0
    for query, best in zip(queries, exact):
        begin, began = time.process_time(), time.perf_counter()
        got = search(query)
        cpu.append(1e3 * (time.process_time() - begin))
        wall.append(1e3 * (time.perf_counter() - began))
        found += len(set(int(i) for i in got) & best)
    print(f"{name:24} CPU {statistics.median(cpu):8.2f} ms, wall {statistics.median(wall):8.2f} ms, made in {make_s:6.1f} s, "
          f"found {100 * found / (K * len(queries)):.1f} %")


def main():
    data = read(sys.argv[1])
    n_queries = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    random = np.random.default_rng(1)
    queries = random.random((n_queries, data.shape[1]), np.float32) - 0.5
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    print(f"{data.shape[0]} vectors of {data.shape[1]}, the {K} nearest")

    def by_numpy(query):
        scores = data @ query
        return np.argpartition(-scores, K)[:K]
    exact = [set(int(i) for i in by_numpy(q)) for q in queries]
    told("numpy", 0, by_numpy, queries, exact)
    try:
        import sqlite_vec
        db = sqlite3.connect(":memory:")
        db.enable_load_extension(True)
        sqlite_vec.load(db)
        begin = time.process_time()
        db.execute(f"CREATE VIRTUAL TABLE v USING vec0(e float[{data.shape[1]}] distance_metric=cosine)")
        db.executemany("INSERT INTO v (rowid, e) VALUES (?, ?)", ((i, row.tobytes()) for i, row in enumerate(data)))
        told(f"sqlite-vec {sqlite_vec.__version__}", time.process_time() - begin,
             lambda q: [i for i, in db.execute(f"SELECT rowid FROM v WHERE e MATCH ? AND k = {K}", (q.tobytes(),))], queries, exact)
    except ImportError as error:
        print(error)
    try:
        import usearch
        from usearch.index import Index, search
        told(f"usearch {usearch.__version__} exact", 0, lambda q: search(data, q, K, "ip", exact=True, threads=1).keys, queries, exact)
        begin = time.process_time()
        index = Index(ndim=data.shape[1], metric="ip", dtype="f32")
        index.add(np.arange(len(data)), data)
        told(f"usearch {usearch.__version__} HNSW", time.process_time() - begin, lambda q: index.search(q, K).keys, queries, exact)
    except ImportError as error:
        print(error)


if __name__ == "__main__":
    main()
