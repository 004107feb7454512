#!/usr/bin/env python3
"""Trains with the `tokenizers` package on the same documents as Longhaul did and compares vocabulary and merges.

    python check_trainer.py TOKENIZER_JSON DOCUMENTS_JSONL VOCABULARY MIN_FREQUENCY

The pre-tokenizer and the special tokens are taken from TOKENIZER_JSON. Exit 1 at a difference.
"""
import json
import sys
import time

from tokenizers import Tokenizer, models, pre_tokenizers, trainers


def main():
    path, documents, vocabulary, min_frequency = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with open(path, encoding="utf8") as file:
        ours = json.load(file)
    with open(documents, encoding="utf8") as file:
        texts = [json.loads(line)["text"] for line in file if line.strip()]
    reference = Tokenizer(models.BPE())
    reference.pre_tokenizer = Tokenizer.from_file(path).pre_tokenizer
    begin = time.perf_counter()
    reference.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocabulary, min_frequency=min_frequency, special_tokens=[t["content"] for t in ours["added_tokens"]],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    seconds = time.perf_counter() - begin
    theirs = json.loads(reference.to_str())["model"]
    same_vocabulary = theirs["vocab"] == ours["model"]["vocab"]
    same_merges = list(map(tuple, theirs["merges"])) == list(map(tuple, ours["model"]["merges"]))
    print(f"vocabulary {'equal' if same_vocabulary else 'DIFFERENT'} ({len(theirs['vocab'])}), "
          f"merges {'equal' if same_merges else 'DIFFERENT'} ({len(theirs['merges'])}); reference took {seconds:.2f} s")
    sys.exit(0 if same_vocabulary and same_merges else 1)


main()
