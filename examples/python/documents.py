#!/usr/bin/env python3
"""Answers from documents: documents.py INDEX EMBEDDER FOLDER QUESTION [GENERATOR].  Without GENERATOR the passages that fit best are printed."""
import sys

import accel


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    path, embedder, folder, question, *generator = sys.argv[1:]
    with accel.rag.Index(path, embedder, device="cpu") as index:
        changes = index.add(folder)
        print(f"{changes.added} added, {changes.changed} changed, {changes.unchanged} unchanged, {changes.removed} removed")
        if not generator:
            for number, p in enumerate(index.search(question, 3), 1):
                print(f"[{number}] {p.path}:{p.first_line}-{p.last_line} {p.heading}\n{p.text}\n")
            return
        answer = index.answer(question, accel.Model(generator[0], device="cpu"), 3, on_token=lambda token: print(token.text, end="", flush=True))
        print()
        for number, p in enumerate(answer.sources, 1):
            print(f"[{number}] {p.path}:{p.first_line}-{p.last_line}{' (cited)' if number in answer.cited else ''}")


if __name__ == "__main__":
    main()
