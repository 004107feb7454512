#!/usr/bin/env python3
"""Compares Longhaul's token ids with those of the `tokenizers` package, page by page.

    python check_tokenizer.py TOKENIZER_JSON HELDOUT_JSONL IDS_JSONL

HELDOUT_JSONL: one {"text": ...} per line. IDS_JSONL: our ids, one list per line (a plain list, or {"ids": [...]}), with or
without the end-of-text token at the end. Prints the first differences and how long the reference took; exit 1 if any.
"""
import json
import sys
import time

from tokenizers import Tokenizer


def main():
    tokenizer = Tokenizer.from_file(sys.argv[1])
    tokenizer.encode_special_tokens = True  # special tokens written in a document are text
    with open(sys.argv[2], encoding="utf8") as file:
        texts = [json.loads(line)["text"] for line in file if line.strip()]
    with open(sys.argv[3], encoding="utf8") as file:
        rows = [json.loads(line) for line in file if line.strip()]
    ours = [row["ids"] if isinstance(row, dict) else row for row in rows]
    if len(ours) != len(texts):
        sys.exit(f"{len(texts)} pages, but {len(ours)} rows of ids")

    begin = time.perf_counter()
    theirs = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    seconds = time.perf_counter() - begin
    end_of_text = tokenizer.token_to_id("<|endoftext|>")
    differing = 0
    for page, (a, b) in enumerate(zip(theirs, ours)):
        if len(b) == len(a) + 1 and b[-1] == end_of_text:
            b = b[:-1]
        if a == b:
            continue
        differing += 1
        if differing <= 5:
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            show = lambda ids: [tokenizer.id_to_token(i) for i in ids[max(0, at - 2):at + 6]]
            print(f"page {page}, token {at}: reference {show(a)}, Longhaul {show(b)}")
    mib = sum(len(text.encode()) for text in texts) / 2**20
    print(f"{len(texts)} pages, {mib:.2f} MiB, {sum(map(len, theirs))} tokens: {differing} pages differ; "
          f"the reference encodes {mib / max(seconds, 1e-9):.1f} MiB/s")
    sys.exit(1 if differing else 0)


main()
