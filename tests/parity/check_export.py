#!/usr/bin/env python3
"""Loads a model that Longhaul trained in `transformers` and compares logits and greedy answers with Longhaul's own.

    python check_export.py MODEL_FOLDER [--engine build/release/bin/longhaul-engine] [--prompts FILE]

MODEL_FOLDER: the output of a pretrain, sft, align or convert stage, with its tokenizer. FILE: one prompt a line. Needs
torch and transformers (4.45 or later). Prints each figure beside its bar; exit code 1 if one is missed.
An answer that differs where the two best tokens are closer than the logits' bar is a tie and counts as equal; ties are
counted.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import torch
import transformers

LOGITS_BAR, PROMPTS, ANSWER_TOKENS = 1e-4, 20, 32
TEXTS = [
    "The ship leaves at nine,", "Water boils at", "In the beginning", "A short list of animals:", "Once upon a time",
    "The installation of the package", "To change the settings, open", "La nave parte", "Il sistema", "El sistema de",
    "Le fichier de configuration", "Das System", "Корабль отплывает", "船は九時に", "系统", "def main():\n",
    "<html>", "1, 2, 3, 4,", "Question: what is Linux?\nAnswer:", "Hello"]


def run_engine(engine, *arguments):
    return subprocess.run([engine, *arguments], capture_output=True, check=True, timeout=300).stdout.decode()


def their_logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


def compare_logits(engine, folder, model, sequences):
    worst = 0.0
    for ids in sequences:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(ids, file)
            file.flush()
            ours = json.loads(run_engine(engine, "logits", "--model", folder, "--tokens", file.name))["logits"]
        worst = max(worst, (torch.tensor(ours, dtype=torch.float32) - their_logits(model, ids)).abs().max().item())
    return worst


def their_answer(model, tokenizer, ids):
    out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False,
                         max_new_tokens=ANSWER_TOKENS)[0].tolist()
    two = their_logits(model, out[:-1])[len(ids) - 1:].topk(2).values
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    answer = out[len(ids):-1] if out[-1] in ends else out[len(ids):]
    return tokenizer.decode(answer, skip_special_tokens=True), (two[:, 0] - two[:, 1]).min().item(), len(answer)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--engine", default="build/release/bin/longhaul-engine")
    parser.add_argument("--prompts")
    options = parser.parse_args()
    texts = TEXTS
    if options.prompts:
        texts = [line for line in pathlib.Path(options.prompts).read_text().splitlines() if line][:PROMPTS]

    model = transformers.AutoModelForCausalLM.from_pretrained(options.model, torch_dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}: {type(model).__name__}, "
          f"{sum(p.numel() for p in model.parameters())} parameters, vocabulary {model.config.vocab_size}")

    prompts = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    joined = [i for ids in prompts for i in ids]
    long = (joined * (model.config.max_position_embeddings // len(joined) + 1))[:model.config.max_position_embeddings]
    worst = compare_logits(options.engine, options.model, model, prompts[:4] + [long])
    print(f"logits of 5 texts, the longest of {len(long)} tokens: largest difference {worst:.1e} "
          f"(bar {LOGITS_BAR:.0e})")

    equal = ties = tokens = 0
    closest = float("inf")
    for text, ids in zip(texts, prompts):
        answer, margin, length = their_answer(model, tokenizer, ids)
        ours = run_engine(options.engine, "generate", "--model", options.model, "--prompt", text, "--max-tokens",
                          str(ANSWER_TOKENS))[:-1]
        tokens, closest = tokens + length, min(closest, margin)
        tie = ours != answer and margin < LOGITS_BAR
        ties += tie
        equal += tie or ours == answer
        if ours != answer:
            print(f"{text!r}: {'a tie' if tie else 'differs'} (margin {margin:.1e})\n"
                  f"  theirs {answer!r}\n  ours   {ours!r}")
    print(f"greedy answers: {equal} of {len(texts)} equal (bar {len(texts)}), {ties} of them ties, {tokens} tokens; "
          f"the closest choice had a margin of {closest:.1e}")
    return 0 if worst <= LOGITS_BAR and equal == len(texts) else 1


raise SystemExit(main())
