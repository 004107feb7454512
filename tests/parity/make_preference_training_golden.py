#!/usr/bin/env python3
"""Writes golden/preference-training.json: ten AdamW steps of golden/train-llama-untied by each loss of preferences.

Usage: make_preference_training_golden.py TRL      (as make_preference_golden.py; needs torch, transformers and safetensors)

The model is transformers', the loss is TRL's (the statements that make_preference_golden.py and make_policy_golden.py take
out of its source), the optimizer is torch's. A step learns from three pairs, of which the mean counts, or by KTO from both
answers of each, chosen ones good and rejected ones bad, with the divergence of every answer behind the next pair's prompt.
The reference is the model before the first step. Of each step the loss and the gradient's norm, all in f32, from a fixed seed.
"""
import copy
import json
import pathlib
import random
import sys
import types

import torch
import torch.nn.functional as F
import transformers

import make_policy_golden as policies
import make_preference_golden as preferences
import make_training_golden as training

BASE = "train-llama-untied"
PAIRS, STEPS = 3, 10
CASES = [
    {"method": "dpo", "beta": 0.3}, {"method": "dpo", "beta": 0.3, "label_smoothing": 0.2},
    {"method": "dpo", "beta": 0.3, "sft_weight": 0.5}, {"method": "dpo", "beta": 0.5, "length_normalized": True},
    {"method": "dpo", "beta": 0.3, "divergence": "forward_kl"}, {"method": "dpo", "beta": 0.3, "divergence": "js"},
    {"method": "dpo", "beta": 0.3, "divergence": "alpha", "divergence_alpha": 0.5},
    {"method": "robust", "beta": 0.3, "label_smoothing": 0.1}, {"method": "ipo", "beta": 0.3, "length_normalized": True},
    {"method": "hinge", "beta": 0.3}, {"method": "simpo", "beta": 2.0, "reward_margin": 0.5, "length_normalized": True},
    {"method": "orpo", "beta": 0.5, "length_normalized": True},
]


def drawn_pairs(draw):
    def answer():
        return [draw.randrange(training.VOCABULARY) for _ in range(draw.randint(1, 6))]

    steps = []
    for _ in range(STEPS):
        pairs = []
        for _ in range(PAIRS):
            prompt = [draw.randrange(training.VOCABULARY) for _ in range(draw.randint(2, 5))]
            pairs.append({"prompt": prompt, "chosen": answer(), "rejected": answer()})
        steps.append(pairs)
    return steps


def log_probability(model, prompt, answer):
    """Of the answer's tokens behind the prompt, summed."""
    ids = torch.tensor([prompt + answer])
    log_probabilities = torch.log_softmax(model(ids).logits[0, :-1], -1)
    return log_probabilities.gather(-1, ids[0, 1:, None])[len(prompt) - 1:, 0].sum()


SIDES = ("chosen", "rejected")
KTO = {"method": "kto", "beta": 0.3, "desirable_weight": 1.0, "undesirable_weight": 1.3}


def behind_next(pairs):
    """Each answer with the prompt of the pair after its own."""
    return [(pairs[(i + 1) % len(pairs)]["prompt"], pair[side]) for i, pair in enumerate(pairs) for side in SIDES]


def mean_of_pairs(losses, settings, model, pairs):
    total = 0
    for pair in pairs:
        chosen, rejected = (log_probability(model, pair["prompt"], pair[side]) for side in SIDES)
        counts = {side + "_tokens": len(pair[side]) for side in SIDES}
        total = total + losses.of(settings, pair | counts, chosen, rejected)[0].mean() / len(pairs)
    return total


def mean_of_labels(statements, model, pairs):
    settings = {key: value for key, value in KTO.items() if key != "method"}
    with torch.no_grad():
        mismatched = torch.stack([log_probability(model, prompt, answer) for prompt, answer in behind_next(pairs)])
    answers = {side: torch.stack([log_probability(model, pair["prompt"], pair[side]) for pair in pairs]) for side in SIDES}
    references = {side: torch.tensor([pair[side + "_reference"] for pair in pairs]) for side in SIDES}
    accelerator = types.SimpleNamespace(device="cpu", gather_for_metrics=lambda x: x)
    space = {"torch": torch, "F": F, "chosen_logps": answers["chosen"], "rejected_logps": answers["rejected"],
             "ref_chosen_logps": references["chosen"], "ref_rejected_logps": references["rejected"], "KL_logps": mismatched,
             "ref_KL_logps": torch.tensor([reference for pair in pairs for reference in pair["behind_next"]]),
             "self": types.SimpleNamespace(calculate_KL=True, accelerator=accelerator, loss_type="kto", **settings)}
    exec(statements, space)
    return space["losses"].mean()


def train(loss_of, model, steps):
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": training.ADAMW["weight_decay"]},
         {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}],
        lr=training.ADAMW["lr"], betas=training.ADAMW["betas"], eps=training.ADAMW["eps"])
    rows = []
    for pairs in steps:
        optimizer.zero_grad()
        total = loss_of(model, pairs)
        total.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), training.ADAMW["clip_grad"])
        optimizer.step()
        rows.append({"loss": total.item(), "grad_norm": norm.item()})
    return rows


def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float32)  # make_policy_golden.py has another
    trl = sys.argv[1]
    version = next(pathlib.Path(trl).glob("trl-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    losses = preferences.Losses(trl)
    base = transformers.LlamaForCausalLM.from_pretrained(training.GOLDEN / BASE, attn_implementation="eager").train()
    steps = drawn_pairs(random.Random(20261130))
    with torch.no_grad():
        for pair in (pair for step in steps for pair in step):
            for side in SIDES:
                pair[side + "_reference"] = log_probability(base, pair["prompt"], pair[side]).item()
        for pairs in steps:
            for i, (prompt, answer) in enumerate(behind_next(pairs)):
                pairs[i // 2].setdefault("behind_next", []).append(log_probability(base, prompt, answer).item())
    cases = [{"settings": settings,
              "steps": train(lambda model, pairs, of=settings: mean_of_pairs(losses, of, model, pairs), copy.deepcopy(base), steps)}
             for settings in CASES]
    kto = policies.Trl(trl).kto
    cases.append({"settings": KTO, "steps": train(lambda model, pairs: mean_of_labels(kto, model, pairs), copy.deepcopy(base), steps)})
    path = training.GOLDEN / "preference-training.json"
    rows = ",\n  ".join(json.dumps(case) for case in cases)
    path.write_text(json.dumps({"versions": training.VERSIONS | {"trl": version}, "base": BASE, "adamw": training.ADAMW,
                                "pairs": steps})[:-1] + f',\n"cases": [\n  {rows}\n]}}\n')
    print(f"{path.name}: {len(cases)} losses, {STEPS} steps of {PAIRS} pairs; {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
