#!/usr/bin/env python3
"""Makes golden/preferences.json: losses of preferences, their gradients and rewards, by TRL's own code.

Usage: make_preference_golden.py TRL      (TRL: the unpacked wheel of trl, of which nothing but the text is read; needs torch)

TRL computes its losses inside trainers that need a model. Their statements are taken out of its source and run on
log-probabilities that are drawn here, a pair at a time in f32: of DPOTrainer._compute_loss those from the log-ratios to
the loss, of CPOTrainer and ORPOTrainer the methods cpo_loss and odds_ratio_loss. What their callers add is written
here: ORPO's cross-entropy of the chosen answer, and the averages per token. DPO with label smoothing is no loss of
TRL's DPOTrainer any more; cpo_loss of the log-ratios is the same formula.
"""
import ast
import json
import math
import pathlib
import random
import sys
import types

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
PAIRS = 12


def source(trl, name):
    return ast.parse((pathlib.Path(trl) / name).read_text())


def function(tree, name):
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    assert len(found) == 1, f"TRL has {len(found)} functions {name}"
    found[0].returns, found[0].decorator_list = None, []
    for argument in found[0].args.args:
        argument.annotation = None
    return found[0]


def compiled(nodes, name):
    return compile(ast.fix_missing_locations(ast.Module(nodes, [])), name, "exec")


def dpo_statements(trl):
    """From the assignment of chosen_logratios to the loop over loss types."""
    body = function(source(trl, "trl/trainer/dpo_trainer.py"), "_compute_loss").body
    assigned = [isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "chosen_logratios" for node in body]
    loops = [isinstance(node, ast.For) for node in body]
    assert sum(assigned) == 1 and sum(loops) == 1, "TRL's DPOTrainer has changed"
    return compiled(body[assigned.index(True):loops.index(True) + 1], "dpo_trainer.py")


class Losses:
    def __init__(self, trl):
        self.dpo = dpo_statements(trl)
        space = {"torch": torch, "F": F}
        cpo, orpo = source(trl, "trl/experimental/cpo/cpo_trainer.py"), source(trl, "trl/experimental/orpo/orpo_trainer.py")
        exec(compiled([function(cpo, "cpo_loss")], "cpo_trainer.py"), space)
        exec(compiled([function(orpo, "log1mexp"), function(orpo, "odds_ratio_loss")], "orpo_trainer.py"), space)
        self.cpo_loss, self.odds_ratio_loss = space["cpo_loss"], space["odds_ratio_loss"]

    @staticmethod
    def trainer(settings, **more):
        return types.SimpleNamespace(beta=settings["beta"], label_smoothing=settings.get("label_smoothing", 0.0), alpha=0.0,
                                     accelerator=types.SimpleNamespace(device="cpu"), **more)

    def of_dpo(self, settings, types_, pair, chosen, rejected):
        divergence = settings.get("divergence", "reverse_kl")
        trainer = self.trainer(
            settings, loss_types=types_, loss_weights=[1.0, settings.get("sft_weight", 0.0)][:len(types_)], use_weighting=False,
            f_divergence_type={"js": "js_divergence", "alpha": "alpha_divergence"}.get(divergence, divergence),
            f_alpha_divergence_coef=settings.get("divergence_alpha", 0.5))
        lengths = pair["chosen_tokens"], pair["rejected_tokens"]
        mask = torch.zeros(2, max(lengths) + 1)
        for row, length in enumerate(lengths):
            mask[row, 1:length + 1] = 1
        # Log-probabilities of tokens: equal shares of the answer's, of which the cross-entropy is the mean.
        tokens = torch.stack([(whole / length).expand(max(lengths)) for whole, length in zip((chosen, rejected), lengths)])
        space = {"torch": torch, "F": F, "math": math, "self": trainer, "device": "cpu", "completion_mask": mask,
                 "shift_completion_mask": mask[:, 1:], "per_token_logps": tokens,
                 "chosen_logps": chosen[None], "rejected_logps": rejected[None],
                 "ref_chosen_logps": torch.tensor([pair["chosen_reference"]]),
                 "ref_rejected_logps": torch.tensor([pair["rejected_reference"]])}
        exec(self.dpo, space)
        return space["loss"], settings["beta"] * space["chosen_logratios"], settings["beta"] * space["rejected_logratios"]

    def of(self, settings, pair, chosen, rejected):
        """Loss and rewards of a pair whose log-probabilities are sums over the answers' tokens."""
        method, lengths = settings["method"], (pair["chosen_tokens"], pair["rejected_tokens"])
        if method == "simpo":
            trainer = self.trainer(settings, loss_type="simpo", simpo_gamma=settings.get("reward_margin", 0.0))
            return self.cpo_loss(trainer, chosen / lengths[0], rejected / lengths[1])
        if method == "orpo":
            chosen, rejected = chosen / lengths[0], rejected / lengths[1]
            losses, *rewards = self.odds_ratio_loss(self.trainer(settings), chosen, rejected)[:3]
            return -chosen - losses, *rewards
        if method == "dpo" and settings.get("label_smoothing"):
            ratios = chosen - pair["chosen_reference"], rejected - pair["rejected_reference"]
            return self.cpo_loss(self.trainer(settings, loss_type="sigmoid"), *ratios)
        name = {"dpo": "sigmoid", "ipo": "ipo", "hinge": "hinge", "robust": "robust"}[method]
        if method == "dpo" and settings.get("length_normalized"):
            name = "sigmoid_norm"
        return self.of_dpo(settings, [name] + (["sft"] if settings.get("sft_weight") else []), pair, chosen, rejected)


CASES = [
    {"method": "dpo", "beta": 0.1}, {"method": "dpo", "beta": 0.7}, {"method": "dpo", "beta": 0.3, "label_smoothing": 0.2},
    {"method": "dpo", "beta": 0.2, "sft_weight": 0.5}, {"method": "dpo", "beta": 0.5, "length_normalized": True},
    {"method": "dpo", "beta": 0.1, "divergence": "forward_kl"}, {"method": "dpo", "beta": 0.4, "divergence": "js"},
    {"method": "dpo", "beta": 0.3, "divergence": "alpha", "divergence_alpha": 0.5},
    {"method": "dpo", "beta": 0.3, "divergence": "alpha", "divergence_alpha": 1.5},
    {"method": "dpo", "beta": 0.3, "divergence": "alpha", "divergence_alpha": 1.0},
    {"method": "robust", "beta": 0.2, "label_smoothing": 0.1}, {"method": "robust", "beta": 0.2, "divergence": "js", "label_smoothing": 0.3},
    {"method": "ipo", "beta": 0.1, "length_normalized": True}, {"method": "ipo", "beta": 0.5, "length_normalized": True},
    {"method": "hinge", "beta": 0.3}, {"method": "hinge", "beta": 0.2, "divergence": "alpha", "divergence_alpha": 0.8},
    {"method": "simpo", "beta": 2.0, "reward_margin": 0.5, "length_normalized": True},
    {"method": "simpo", "beta": 2.5, "reward_margin": 1.2, "label_smoothing": 0.1, "length_normalized": True},
    {"method": "orpo", "beta": 0.1, "length_normalized": True}, {"method": "orpo", "beta": 1.0, "length_normalized": True},
]


def main():
    trl, draw = sys.argv[1], random.Random(20240607)
    version = next(pathlib.Path(trl).glob("trl-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    losses, f32, out = Losses(trl), lambda x: float(torch.tensor(x, dtype=torch.float32)), []
    for settings in CASES:
        pairs = []
        for _ in range(PAIRS):
            lengths = draw.randint(1, 12), draw.randint(1, 12)
            pair = {"chosen_tokens": lengths[0], "rejected_tokens": lengths[1]}
            for side, length in zip(("chosen", "rejected"), lengths):
                pair[side] = f32(-length * draw.uniform(0.05, 3.0))
                pair[side + "_reference"] = f32(pair[side] + draw.uniform(-2.5, 2.5))
            chosen, rejected = (torch.tensor(pair[side], requires_grad=True) for side in ("chosen", "rejected"))
            loss, *rewards = losses.of(settings, pair, chosen, rejected)
            loss.sum().backward()
            pair |= {"loss": float(loss.detach()), "d_chosen": float(chosen.grad), "d_rejected": float(rejected.grad),
                     "chosen_reward": float(rewards[0]), "rejected_reward": float(rewards[1])}
            pairs.append(pair)
        out.append({"settings": settings, "pairs": pairs})
    path = HERE / "golden/preferences.json"
    rows = ",\n".join("  {\"settings\": %s, \"pairs\": [\n    %s]}" %
                      (json.dumps(one["settings"]), ",\n    ".join(json.dumps(pair) for pair in one["pairs"])) for one in out)
    path.write_text("{\"made_by\": \"trl %s, torch %s\", \"cases\": [\n%s\n]}\n" % (version, torch.__version__, rows))
    print(f"{path.name}: {len(out)} cases of {PAIRS} pairs, trl {version}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
