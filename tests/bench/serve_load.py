#!/usr/bin/env python3
"""Load on a server with OpenAI's interface: tokens a second, time to the first token, embeddings a second, by number of clients.

usage: serve_load.py URL --model NAME [--what completions|chat|embeddings] [--clients 1 4 16 64] [--peer URL --peer-model NAME] [--rounds 3] ...

Each client sends one request after another.  With --peer both servers are measured in turns, round by round, so that what else the machine does hits
both; medians over the rounds are compared.  Prompts are made words, none like another unless --shared says how many of their words are; as many tokens
as the server's tokenizer makes of them, which `usage` tells.  A request that fails ends the program: rates with failures in them mean nothing.
"""
import argparse
import asyncio
import json
import random
import statistics
import sys
import time
import urllib.parse


def words(n, seed):
    chance = random.Random(seed)
    return " ".join("".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(chance.randint(2, 4))) for _ in range(n))


class Answer(Exception):
    """What a server answered instead of what was asked for."""


async def bytes_of(reader, headers):
    """The body bit by bit."""
    if "chunked" in headers.get("transfer-encoding", ""):
        while True:
            size = int((await reader.readline()).split(b";")[0], 16)
            if not size:
                await reader.readline()
                return
            yield await reader.readexactly(size)
            await reader.readexactly(2)
    elif "content-length" in headers:
        yield await reader.readexactly(int(headers["content-length"]))
    else:
        yield await reader.read()


async def post(target, path, body):
    """The pieces of the answer to one request on a connection of its own."""
    url = urllib.parse.urlsplit(target)
    reader, writer = await asyncio.open_connection(url.hostname, url.port or 80)
    try:
        data = json.dumps(body).encode()
        writer.write(f"POST {url.path.rstrip('/')}{path} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(data)}\r\nAuthorization: Bearer none\r\nConnection: close\r\n\r\n".encode() + data)
        await writer.drain()
        status = int((await reader.readline()).split()[1])
        headers = {}
        while True:
            line = (await reader.readline()).decode("latin-1").strip()
            if not line:
                break
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip().lower()
        if status != 200:
            raise Answer(f"{target}: {status} {b''.join([piece async for piece in bytes_of(reader, headers)])[:500]!r}")
        async for piece in bytes_of(reader, headers):
            yield piece
    finally:
        writer.close()


async def one_generation(target, model, how, number):
    """(seconds to the first token, seconds to the end, tokens) of one stream."""
    prompt = words(how.shared, 0) + " " + words(how.prompt_words - how.shared, number + 1)
    body = {"model": model, "max_tokens": how.new_tokens, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True}
    body.update({"messages": [{"role": "user", "content": prompt}]} if how.what == "chat" else {"prompt": prompt})
    begin, first, tokens, rest = time.perf_counter(), None, 0, b""
    async for piece in post(target, "/v1/chat/completions" if how.what == "chat" else "/v1/completions", body):
        rest += piece
        *lines, rest = rest.split(b"\n")
        for line in lines:
            if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise Answer(f"{target}: {event['error']}")
            if event.get("usage"):
                tokens = event["usage"]["completion_tokens"]
            choice = (event.get("choices") or [{}])[0]
            if first is None and (choice.get("text") or (choice.get("delta") or {}).get("content")):
                first = time.perf_counter() - begin
    if first is None or not tokens:
        raise Answer(f"{target}: a stream without tokens or without usage")
    return first, time.perf_counter() - begin, tokens


async def one_embedding(target, model, how, number):
    texts = [words(how.prompt_words, number * how.batch + i) for i in range(how.batch)]
    begin = time.perf_counter()
    data = b"".join([piece async for piece in post(target, "/v1/embeddings", {"model": model, "input": texts, "encoding_format": "base64"})])
    seconds = time.perf_counter() - begin
    if len(json.loads(data)["data"]) != how.batch:
        raise Answer(f"{target}: not {how.batch} embeddings")
    return seconds, seconds, how.batch


async def cell(target, model, how, clients, seed):
    """Rate and times of `clients` clients, each with how.requests requests."""
    one = one_embedding if how.what == "embeddings" else one_generation
    found = []

    async def client(k):
        for i in range(how.requests):
            found.append(await one(target, model, how, seed + k * how.requests + i))
    begin = time.perf_counter()
    await asyncio.gather(*(client(k) for k in range(clients)))
    seconds = time.perf_counter() - begin
    firsts, ends = sorted(f[0] for f in found), sorted(f[1] for f in found)

    def at(list_, share):
        return list_[min(len(list_) - 1, int(share * len(list_)))]
    return {"rate": sum(f[2] for f in found) / seconds, "first_p50": at(firsts, 0.5), "first_p99": at(firsts, 0.99), "end_p50": at(ends, 0.5),
            "end_p99": at(ends, 0.99), "requests": len(found), "seconds": seconds, "tokens": sum(f[2] for f in found) / len(found)}


async def measure(how):
    targets = [("server", how.url, how.model)] + ([("peer", how.peer, how.peer_model or how.model)] if how.peer else [])
    unit = "embeddings/s" if how.what == "embeddings" else "tokens/s"
    results = []
    for _, target, model in targets:  # weights are read, caches are warm
        await cell(target, model, argparse.Namespace(**{**vars(how), "requests": 1}), 1, 10**6)
    for clients in how.clients:
        rows = {name: [] for name, _, _ in targets}
        for turn in range(how.rounds):
            for name, target, model in targets if turn % 2 == 0 else targets[::-1]:
                rows[name].append(await cell(target, model, how, clients, 1000 * (turn + 1) + 100000 * clients))
        for name, _, _ in targets:
            row = {"what": how.what, "clients": clients, "server": name,
                   **{key: statistics.median(r[key] for r in rows[name]) for key in rows[name][0]}, "rates": [r["rate"] for r in rows[name]]}
            results.append(row)
            print(f"{clients:4} clients  {name:6}  {row['rate']:10.2f} {unit}   first token p50 {1000 * row['first_p50']:8.1f} ms  p99 {1000 * row['first_p99']:8.1f} ms"
                  f"   whole p50 {1000 * row['end_p50']:8.1f} ms  p99 {1000 * row['end_p99']:8.1f} ms", flush=True)
        if how.peer and abs(results[-1]["tokens"] / results[-2]["tokens"] - 1) > 0.01:
            print(f"{clients:4} clients  an answer has {results[-2]['tokens']:.1f} tokens here and {results[-1]['tokens']:.1f} there: no fair comparison", flush=True)
        if how.peer:
            pairs = sorted(a["rate"] / b["rate"] for a, b in zip(rows["server"], rows["peer"]))
            print(f"{clients:4} clients  server over peer: {statistics.median(pairs):.2f} ({pairs[0]:.2f} to {pairs[-1]:.2f} in {len(pairs)} rounds)", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer"), parser.add_argument("--peer-model")
    parser.add_argument("--what", choices=("completions", "chat", "embeddings"), default="completions")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--requests", type=int, default=4, help="of each client in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt-words", type=int, default=32)
    parser.add_argument("--shared", type=int, default=0, help="words that all prompts begin with")
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--batch", type=int, default=1, help="texts in a request for embeddings")
    parser.add_argument("--json", help="a file for the results")
    how = parser.parse_args()
    if how.shared > how.prompt_words:
        parser.error("--shared is more than --prompt-words")
    try:
        results = asyncio.run(measure(how))
    except (Answer, OSError, asyncio.IncompleteReadError) as e:
        sys.exit(f"serve_load.py: {e}")
    if how.json:
        with open(how.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
