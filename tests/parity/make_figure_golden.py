#!/usr/bin/env python3
"""Writes golden/figures.json: figures of routers, learning rates and evaluations by the code of other software.

Usage: make_figure_golden.py LM_EVAL MEGATRON     (the unpacked wheels of lm_eval and megatron-core, of which nothing but
                                                   the text is read; needs torch and transformers)

- routers: transformers' load_balancing_loss_func (Mixtral), Megatron-Core's switch_load_balancing_loss_func and
  z_loss_func, with their gradients by the logits; with padding and without, of one layer and of three.
- schedules: transformers' get_*_schedule of 100 steps.
- evaluation: log-likelihoods of golden/model-untied by transformers in f32, asked for and summed up as
  lm-evaluation-harness does it: rolling windows, bits_per_byte, byte_perplexity, acc, acc_norm. Two things are said in
  our own terms: a question is written in Longhaul's form of conversations, and byte_perplexity is of weights in bytes.
"""
import ast
import json
import math
import pathlib
import sys
import typing

import numpy as np
import torch
import transformers
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
START, END = 0, 4  # <|endoftext|>, <|end|>


def functions(path, names, space):
    """The functions `names` of a source file, without their decorators."""
    tree = ast.parse(pathlib.Path(path).read_text())
    found = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in names}
    assert set(found) == set(names), f"{path} has {sorted(found)} of {sorted(names)}"
    for node in found.values():
        node.decorator_list = []
        exec(compile(ast.fix_missing_locations(ast.Module([node], [])), str(path), "exec"), space)
    return [space[name] for name in names]


def rounded(tensor):
    return [float(f"{x:.8g}") for x in tensor.detach().reshape(-1).tolist()]


def router_cases(megatron):
    source = pathlib.Path(megatron) / "megatron/core/transformer/moe/moe_utils.py"
    switch_loss, z_loss = functions(source, ["switch_load_balancing_loss_func", "z_loss_func"],
                                    {"torch": torch, "Optional": typing.Optional})
    generator = torch.Generator().manual_seed(44)
    cases = []
    for experts, top_k, layers, tokens, padded in [(4, 1, 1, 24, 0), (4, 2, 1, 24, 9), (8, 2, 3, 20, 7), (6, 3, 1, 16, 0)]:
        logits = [(2 * torch.randn(tokens, experts, generator=generator)).requires_grad_() for _ in range(layers)]
        mask = torch.ones(tokens)
        mask[tokens - padded:] = 0
        case = {"experts": experts, "top_k": top_k, "tokens": tokens, "mask": [int(x) for x in mask.tolist()],
                "logits": [rounded(layer) for layer in logits]}

        def losses(name, loss):
            case[name] = {"loss": rounded(loss)[0], "gradients": [rounded(g) for g in torch.autograd.grad(loss, logits)]}

        attention = mask[None] if padded else None
        losses("hugging_face", load_balancing_loss_func(tuple(logits), experts, top_k, attention))
        switch, z = 0, 0
        for layer in logits:
            probabilities = torch.softmax(layer, -1)
            chosen = torch.nn.functional.one_hot(probabilities.topk(top_k, -1).indices, experts).sum(1) * mask[:, None]
            switch = switch + switch_loss(probabilities, chosen.sum(0), int(mask.sum()), top_k, experts, 1.0,
                                          padding_mask=mask.bool())
            z = z + z_loss(layer, 1.0, padding_mask=~mask.bool() if padded else None)
        losses("megatron", switch)  # sums over layers
        losses("z", z)
        cases.append(case)
    return cases


def schedule_cases():
    steps, cases = 100, []

    def add(schedule, warmup, make, **settings):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        scheduler, rates = make(optimizer), []
        for _ in range(steps):
            optimizer.step()
            scheduler.step()  # the rate after n steps is ours of step n, the update that is about to be made
            rates.append(scheduler.get_last_lr()[0])
        cases.append({"schedule": schedule, "warmup": warmup, "rates": rates} | settings)

    for warmup in (0, 1, 20):
        add("constant", warmup, lambda o: transformers.get_constant_schedule_with_warmup(o, warmup))
        add("linear", warmup, lambda o: transformers.get_linear_schedule_with_warmup(o, warmup, steps))
        add("cosine", warmup, lambda o: transformers.get_cosine_schedule_with_warmup(o, warmup, steps))
        add("cosine", warmup, lambda o: transformers.optimization.get_cosine_with_min_lr_schedule_with_warmup(
            o, warmup, steps, min_lr_rate=0.1), min=0.1)
        add("wsd", warmup, lambda o: transformers.get_wsd_schedule(o, warmup, steps - warmup - 30, 30, min_lr_ratio=0.05),
            min=0.05, decay=30)
        if warmup > 0:
            add("inverse_sqrt", warmup, lambda o: transformers.get_inverse_sqrt_schedule(o, warmup, timescale=warmup))
    return cases


class Scores:
    """Log-likelihoods as lm_eval's HFLM._loglikelihood_tokens takes them: of the last tokens of context + continuation."""

    def __init__(self):
        self.model = transformers.LlamaForCausalLM.from_pretrained(GOLDEN / "model-untied").eval()
        self.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(GOLDEN / "model-untied" / "tokenizer.json"))

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False)

    def loglikelihood(self, context, continuation):
        with torch.no_grad():
            logits = self.model(torch.tensor([(context + continuation)[:-1]])).logits[0]
        of = torch.log_softmax(logits, -1)[-len(continuation):]
        return of.gather(1, torch.tensor(continuation)[:, None]).double().sum().item()


def rolling_cases(scores, lm_eval):
    windows, disjoint = functions(lm_eval / "lm_eval/utils.py", ["get_rolling_token_windows", "make_disjoint_window"],
                                  vars(typing).copy())
    _, bits, perplexity = functions(lm_eval / "lm_eval/api/metrics.py",
                                    ["weighted_mean", "bits_per_byte", "weighted_perplexity"], {"math": math})
    texts = json.loads((GOLDEN / "tokenizers.json").read_text())["training_texts"]
    documents = [texts[0], texts[1][:40], "é😀 x", " ".join(texts[2:10]), "a"]
    cases = []
    for length in (128, 24):
        for document in documents:
            ids = scores.encode(document)
            pairs = [disjoint(pair) for pair in windows(ids, START, length, 1)]
            total = sum(scores.loglikelihood(context, continuation) for context, continuation in pairs)
            size = len(document.encode())
            cases.append({"document": document, "context": length, "tokens": len(ids), "bytes": size,
                          "windows": [[len(context), len(continuation)] for context, continuation in pairs],
                          "loglikelihood": total, "bits_per_byte": bits([(total, size)]),
                          "byte_perplexity": perplexity([(total, size)])})
        rows = [(case["loglikelihood"], case["bytes"]) for case in cases if case["context"] == length]
        cases.append({"all": True, "context": length, "bits_per_byte": bits(rows), "byte_perplexity": perplexity(rows)})
    return cases


def choice_cases(scores):
    texts = json.loads((GOLDEN / "tokenizers.json").read_text())["training_texts"]
    plain, rows = [text for text in texts if text.isascii()], []
    for i in range(24):
        question = texts[i % len(texts)][:12 + i] + "?"
        of = plain if i % 3 else texts
        choices = [of[(i * 5 + j * 3 + 1) % len(of)][j * 2:j * 2 + 3 + (i * 7 + j * 11) % 20] for j in range(2 + i % 3)]
        context = scores.encode(f"<|user|>{question}<|end|><|assistant|>")
        lls = [scores.loglikelihood(context, scores.encode(choice) + [END]) for choice in choices]
        length = np.array([float(len(choice)) for choice in choices])  # as ConfigurableTask.process_results has it
        gold = (i // 3) % len(choices)
        rows.append({"question": question, "choices": choices, "answer": gold, "loglikelihoods": lls,
                     "acc": float(np.argmax(lls) == gold), "acc_norm": float(np.argmax(lls / length) == gold)})
    return rows


def main():
    lm_eval, megatron = (pathlib.Path(path) for path in sys.argv[1:3])
    torch.set_num_threads(1)
    scores = Scores()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    for path in (lm_eval, megatron):
        for wheel in path.glob("*.dist-info"):
            name, version = wheel.name.removesuffix(".dist-info").rsplit("-", 1)
            versions[name] = version
    golden = {"versions": versions, "routers": router_cases(megatron), "schedules": schedule_cases(),
              "rolling": rolling_cases(scores, lm_eval), "choices": choice_cases(scores)}
    (GOLDEN / "figures.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
