#!/usr/bin/env python3
"""Makes golden/policies.json: losses and advantages of learning from rewards, and KTO's losses, by TRL's own code.

Usage: make_policy_golden.py TRL      (TRL: the unpacked wheel of trl, of which nothing but the text is read; needs torch)

TRL computes them inside trainers that need a model. Their statements are taken out of its source and run on
log-probabilities and rewards that are drawn here, in f64: of GRPOTrainer._compute_loss those from the log-ratios to the
mean over a step, of GRPOTrainer and RLOOTrainer those that make advantages of grouped rewards, of KTOTrainer those from
the divergence to the losses of all answers.
"""
import ast
import json
import pathlib
import random
import sys
import types

import torch
import torch.nn.functional as F

from make_preference_golden import compiled, function, source

HERE = pathlib.Path(__file__).parent
ANSWERS, GROUPS = 6, 5
torch.set_default_dtype(torch.float64)


def assigns(node, name):
    return isinstance(node, ast.Assign) and any(name in (getattr(t, "id", ""), getattr(t, "attr", "")) for t in node.targets)


def between(body, first, last, file):
    """The statements of a list from the one for which first() holds to the one for which last() does."""
    places = [[number for number, node in enumerate(body) if holds(node)] for holds in (first, last)]
    assert places[0] and places[1] and places[0][0] < places[1][-1], f"TRL's {file} has changed"
    return compiled(body[places[0][0]:places[1][-1] + 1], file)


def bodies(node):
    for one in ast.walk(node):
        for field in ("body", "orelse"):
            if isinstance(getattr(one, field, None), list):
                yield getattr(one, field)


def body_with(tree, name):
    found = [body for body in bodies(tree) if any(assigns(node, name) for node in body)]
    assert found, f"TRL assigns {name} nowhere"
    return found[0]


def mentions(node, text):
    return text in ast.unparse(node)


class Trl:
    def __init__(self, trl):
        grpo, rloo, kto = (source(trl, f"trl/trainer/{name}_trainer.py") for name in ("grpo", "rloo", "kto"))
        loss = function(grpo, "_compute_loss").body
        self.policy = between(loss, lambda n: assigns(n, "log_ratio"),
                              lambda n: isinstance(n, ast.If) and mentions(n.test, "['grpo', 'sapo']"), "grpo_trainer.py")
        grouped = body_with(grpo, "mean_grouped_rewards")
        self.grpo = between(grouped, lambda n: assigns(n, "mean_grouped_rewards"),
                            lambda n: isinstance(n, ast.If) and mentions(n, "advantages / (std_rewards"), "grpo_trainer.py")
        alone = body_with(rloo, "grouped_rewards")
        self.rloo = between(alone, lambda n: assigns(n, "grouped_rewards"),
                            lambda n: isinstance(n, ast.If) and mentions(n, "rewards - baselines"), "rloo_trainer.py")
        labels = body_with(kto, "losses")
        self.kto = between(labels, lambda n: isinstance(n, ast.If) and mentions(n.test, "calculate_KL"),
                           lambda n: assigns(n, "losses"), "kto_trainer.py")
        space = {"torch": torch}
        exec(compiled([function(source(trl, "trl/trainer/utils.py"), "nanstd")], "utils.py"), space)
        self.nanstd = space["nanstd"]

    def loss(self, case, rows):
        """The mean of a step, and its slopes by the log-probabilities of the model, for rows of one answer each."""
        longest = max(len(row["model"]) for row in rows)
        padded = lambda name: torch.tensor([row[name] + [-0.7] * (longest - len(row["model"])) for row in rows])
        mask = torch.tensor([[1.0] * len(row["model"]) + [0.0] * (longest - len(row["model"])) for row in rows])
        model = padded("model").requires_grad_()
        rollout = case["rollout"]
        high = rollout.get("clip_high", 0.2)
        kind = "cispo" if rollout.get("surrogate") == "cispo" else {"answer": "grpo", "token": "bnpo", "longest": "dr_grpo"}[rollout["average"]]
        trainer = types.SimpleNamespace(
            importance_sampling_level=rollout["ratio"], beta=case["beta"], loss_type=kind, epsilon_low=rollout.get("clip_low", 0.2),
            epsilon_high=1 + high if kind == "cispo" else high, off_policy_mask_threshold=None, use_vllm=False,
            current_gradient_accumulation_steps=1, max_completion_length=rollout["max_new_tokens"],
            model=types.SimpleNamespace(training=True), accelerator=types.SimpleNamespace(num_processes=1),
            args=types.SimpleNamespace(use_bias_correction_kl=False, delta=rollout.get("dual_clip") or None, steps_per_generation=1))
        space = {"torch": torch, "self": trainer, "mask": mask, "entropy_mask": None, "per_token_logps": model,
                 "old_per_token_logps": padded("drawn"), "advantages": torch.tensor([[row["advantage"]] for row in rows]),
                 "inputs": {"ref_per_token_logps": padded("reference"), "num_items_in_batch": mask.sum()}}
        exec(self.policy, space)
        space["loss"].backward()
        for row, slopes in zip(rows, model.grad):
            row["slopes"] = slopes[:len(row["model"])].tolist()
        return float(space["loss"].detach())

    def advantages(self, method, scale, rewards, group):
        space = {"torch": torch, "nanstd": self.nanstd, "rewards": torch.tensor(rewards), "num_generations": group,
                 "self": types.SimpleNamespace(scale_rewards=scale)}
        exec(self.grpo if method == "grpo" else self.rloo, space)
        return torch.nan_to_num(space["advantages"], nan=0.0).tolist()

    def labels(self, case, ratios, good, mismatched):
        chosen, rejected = (torch.tensor([r for r, g in zip(ratios, good) if g is side], requires_grad=True) for side in (True, False))
        accelerator = types.SimpleNamespace(device="cpu", gather_for_metrics=lambda x: x)
        space = {"torch": torch, "F": F, "chosen_logps": chosen, "rejected_logps": rejected, "ref_chosen_logps": torch.zeros(len(chosen)),
                 "ref_rejected_logps": torch.zeros(len(rejected)), "KL_logps": torch.tensor(mismatched),
                 "ref_KL_logps": torch.zeros(len(mismatched)),
                 "self": types.SimpleNamespace(calculate_KL=True, accelerator=accelerator, loss_type="kto", **case)}
        exec(self.kto, space)
        space["losses"].sum().backward()
        losses, slopes = space["losses"].detach().tolist(), chosen.grad.tolist() + rejected.grad.tolist()
        order = [i for i, g in enumerate(good) if g] + [i for i, g in enumerate(good) if not g]
        answers = [{"ratio": ratios[i], "desirable": good[i], "loss": loss, "slope": slope} for i, loss, slope in zip(order, losses, slopes)]
        return {"settings": {"method": "kto", **case}, "mismatched": mismatched, "divergence": float(space["kl"]), "answers": answers}


def cases():
    for average in ("answer", "token", "longest"):
        for ratio in ("token", "sequence"):
            yield {"beta": 0.04 if ratio == "token" else 0.0, "rollout": {"average": average, "ratio": ratio, "max_new_tokens": 16}}
    yield {"beta": 0.0, "rollout": {"average": "token", "ratio": "token", "max_new_tokens": 16, "clip_low": 0.1, "clip_high": 0.28}}
    yield {"beta": 0.1, "rollout": {"average": "answer", "ratio": "token", "max_new_tokens": 16, "dual_clip": 1.5}}
    yield {"beta": 0.0, "rollout": {"average": "token", "ratio": "token", "max_new_tokens": 16, "surrogate": "cispo"}}
    yield {"beta": 0.02, "rollout": {"average": "token", "ratio": "sequence", "max_new_tokens": 16, "surrogate": "cispo", "clip_high": 0.5}}


def main():
    trl, draw = Trl(sys.argv[1]), random.Random(20240607)
    version = next(pathlib.Path(sys.argv[1]).glob("trl-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    policy, groups, labels = [], [], []
    for case in cases():
        rows = []
        for _ in range(ANSWERS):
            model = [-draw.uniform(0.05, 3.0) for _ in range(draw.randint(1, 12))]
            near = lambda width: [value + draw.uniform(-width, width) for value in model]
            rows.append({"model": model, "drawn": near(0.6), "reference": near(1.0), "advantage": draw.uniform(-2, 2)})
        policy.append({"settings": {"method": "grpo", **case}, "loss": trl.loss(case, rows), "answers": rows})
    for method, scale in (("grpo", "group"), ("grpo", "none"), ("rloo", "group")):
        group = 4
        rewards = [draw.choice([0.0, 1.0, draw.uniform(-2, 2)]) for _ in range(GROUPS * group)]
        for reward in range(group):
            rewards[reward] = 0.25 if method == "grpo" else rewards[reward]  # a group whose rewards are all equal
        rewards[2 * group] = float("nan")  # an answer that no reward judges
        groups.append({"method": method, "advantage": "scaled" if scale == "group" else "centered", "group": group,
                       "rewards": [None if reward != reward else reward for reward in rewards],
                       "advantages": trl.advantages(method, scale, rewards, group)})
    for case in ({"beta": 0.1, "desirable_weight": 1.0, "undesirable_weight": 1.0}, {"beta": 0.5, "desirable_weight": 1.33, "undesirable_weight": 0.7}):
        good = [draw.random() < 0.5 for _ in range(8)]
        good[0], good[1] = True, False
        for shift in (1.0, -4.0):  # the divergence is held at 0 from below
            labels.append(trl.labels(case, [draw.uniform(-6, 6) for _ in good], good, [draw.uniform(-1, 1) + shift for _ in good]))
    out = {"made_by": f"make_policy_golden.py with TRL {version} and torch {torch.__version__.split('+')[0]}",
           "policy": policy, "groups": groups, "labels": labels}
    (HERE / "golden/policies.json").write_text(json.dumps(out, indent=None, separators=(",", ":")) + "\n")
    print(f"{len(policy)} losses, {len(groups)} lists of rewards, {len(labels)} batches of labels")


if __name__ == "__main__":
    main()
