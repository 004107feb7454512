#!/usr/bin/env python3
"""Writes golden/model-*/: tiny Llama and Mistral models of `transformers`, and what `transformers` computes with them.

    python make_model_golden.py     # needs torch, transformers (4.43 or later), tokenizers, safetensors

Each folder is a Hugging Face folder (config.json, model.safetensors in f32, tokenizer.json) with a golden.json: logits,
losses and the greedy answers to 20 prompts. All from fixed seeds; the versions used stand in golden.json.
"""
import json
import pathlib
import sys

import safetensors
import tokenizers
import torch
import transformers
from tokenizers import Tokenizer

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
VERSIONS = {"python": sys.version.split()[0]} | {
    m.__name__: m.__version__ for m in (torch, transformers, tokenizers, safetensors)}
VOCABULARY, ENDS = 320, [4, 0]  # <|end|>, <|endoftext|>
PROMPTS, ANSWER_TOKENS, MARGIN = 20, 24, 1e-2
LONGEST = 128
VARIANTS = {
    "model-untied": {"tie_word_embeddings": False, "rope_theta": 10000.0},
    "model-tied-llama3": {
        "tie_word_embeddings": True, "rope_theta": 500000.0,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 64}},
    "model-mistral": {"tie_word_embeddings": False, "sliding_window": 24},  # prompts and sequences grow beyond it
}


def small_tokenizer():
    """The reference tokenizer with its first merges only, so that the embedding stays small."""
    file = json.loads((GOLDEN / "reference_tokenizer.json").read_text())["tokenizer"]
    vocab = sorted(file["model"]["vocab"].items(), key=lambda item: item[1])
    merges = file["model"]["merges"][:VOCABULARY - (len(vocab) - len(file["model"]["merges"]))]
    file["model"]["vocab"] = dict(vocab[:VOCABULARY])
    file["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in merges]  # old readers know this form
    return Tokenizer.from_str(json.dumps(file))


def make_model(overrides, tokenizer, seed):
    mistral = "sliding_window" in overrides
    config = (transformers.MistralConfig if mistral else transformers.LlamaConfig)(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=LONGEST, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=ENDS,
        pad_token_id=0, torch_dtype="float32", **overrides)
    model = (transformers.MistralForCausalLM if mistral else transformers.LlamaForCausalLM)(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.2 * noise if "norm" in name else 0.3 * noise)
        # Rarely half of a character: so the answers are text, and not mainly replacement characters.
        output = model.lm_head.weight
        for token in range(VOCABULARY):
            if "\ufffd" in tokenizer.decode([token]):
                output[token] *= 0.2
    return model


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


def sequence_goldens(model):
    generator = torch.Generator().manual_seed(5)
    rows = []
    for length, positions in [(1, [0]), (9, range(9)), (LONGEST, [0, 31, 63, 64, 100, LONGEST - 1])]:
        ids = torch.randint(0, VOCABULARY, (length,), generator=generator).tolist()
        logits = logits_of(model, ids)
        exact = logits_of(model.double(), ids)
        model.float()
        print(f"  {length} tokens: their f32 is within {(logits - exact).abs().max():.1e} of their f64")
        row = {"ids": ids, "positions": list(positions),
               "logits": [[round(x, 7) for x in logits[p].tolist()] for p in positions]}
        if length > 1:
            with torch.no_grad():
                row["loss"] = round(model(torch.tensor([ids]), labels=torch.tensor([ids])).loss.item(), 7)
        rows.append(row)
    return rows


def greedy_answer(model, tokenizer, prompt):
    prompt_ids = tokenizer.encode(prompt, add_special_tokens=False).ids
    with torch.no_grad():
        out = model.generate(torch.tensor([prompt_ids]), attention_mask=torch.ones(1, len(prompt_ids)),
                             do_sample=False, max_new_tokens=ANSWER_TOKENS)[0].tolist()
    # How far the chosen token is ahead of the next one, at its closest: rounding must not decide.
    two = logits_of(model, out[:-1])[len(prompt_ids) - 1:].topk(2).values
    answer = out[len(prompt_ids):]
    stopped = answer[-1] in ENDS
    ids = answer[:-1] if stopped else answer
    return {"prompt": prompt, "prompt_ids": prompt_ids, "ids": ids, "finish_reason": "stop" if stopped else "length",
            "text": tokenizer.decode(ids, skip_special_tokens=True),
            "margin": round((two[:, 0] - two[:, 1]).min().item(), 4)}


def answer_goldens(model, tokenizer):
    sentences = json.loads((GOLDEN / "tokenizers.json").read_text())["training_texts"][:16]
    rows, answers = [], set()
    for length in (5, 9, 14, 20, 27, 35):
        for sentence in sentences:
            row = greedy_answer(model, tokenizer, sentence[:length])
            if row["margin"] < MARGIN or tuple(row["ids"]) in answers:
                continue
            answers.add(tuple(row["ids"]))
            rows.append(row)
            if len(rows) == PROMPTS:
                return rows
    sys.exit("too few prompts whose answers have a margin")


def main():
    torch.set_num_threads(1)
    tokenizer = small_tokenizer()
    for seed, (name, overrides) in enumerate(VARIANTS.items()):
        print(name)
        folder = GOLDEN / name
        model = make_model(overrides, tokenizer, 20 + seed)
        model.save_pretrained(folder, safe_serialization=True)
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        answers = answer_goldens(model, tokenizer)
        (folder / "golden.json").write_text(json.dumps(
            {"versions": VERSIONS, "sequences": sequence_goldens(model), "answers": answers},
            separators=(",", ":")) + "\n")
        print(f"  smallest margin {min(row['margin'] for row in answers)}, "
              f"{sum(row['finish_reason'] == 'stop' for row in answers)} of {len(answers)} answers end by themselves")
        for path in sorted(folder.iterdir()):
            print(f"  {path.name} {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
