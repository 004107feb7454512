#!/usr/bin/env python3
"""Reinforcement learning is ended by kill -9 at random times, between answers, rewards, steps and saves, and goes on: what
was drawn, losses and weights must be those of a training that nobody touched, bit for bit.

usage: kill_rollouts.py --bin FOLDER [--kills N] [--ranks N] [--minibatches N] [--seed N]
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile
import time

from kill_training import Training, kill_at_random_steps, require_same_bits, run_whole

MODEL = pathlib.Path(__file__).resolve().parents[1] / "parity" / "golden" / "model-untied"
SAME = ("loss", "grad_norm", "lr", "reward", "accuracy", "kl", "entropy", "answer_tokens", "equal_groups", "answers_cut",
        "clip_fraction")


class Rollouts(Training):
    kind = "align"
    zero = 0
    minibatches = 1

    def settings(self, steps, experts, local_dir, device):
        return {"method": "grpo", "precision": "f32", "device": "cpu", "seed": 5, "sequence_length": 64,
                "micro_batch_size": 8, "global_batch_size": 16 * self.ranks, "steps": steps, "beta": 0.05,
                "optimizer": {"lr": 0.002, "warmup_steps": 0}, "checkpoint": {"every_steps": 2, "keep_last": 3},
                "rollout": {"group_size": 8, "max_new_tokens": 8, "slots": 16, "minibatches": self.minibatches,
                            "epochs": self.minibatches},
                "reward": {"kind": "regex", "pattern": "[aeiou].*[aeiou]"}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--minibatches", type=int, default=1, help="and epochs: more than one learns several times from an answer")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    draw = random.Random(arguments.seed)
    steps = max(20, 6 * arguments.kills)
    Rollouts.minibatches = arguments.minibatches
    engine = pathlib.Path(arguments.bin).resolve() / "longhaul-engine"
    with tempfile.TemporaryDirectory(prefix="longhaul-kill-rollouts-") as name:
        here = pathlib.Path(name)
        prompts = here / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": f"what comes after {i}?", "answer": "it"}) + "\n" for i in range(40)))
        inputs = {"model": MODEL, "data": prompts}
        whole = Rollouts(here / "whole", engine, arguments.ranks, steps, inputs, False, False)
        curve = run_whole(whole)
        rewards = {m["reward"] for m in curve.values()}
        if len(rewards) < 3:
            raise SystemExit(f"rewards that hardly differ say nothing: {sorted(rewards)}")
        killed = Rollouts(here / "killed", engine, arguments.ranks, steps, inputs, False, False)
        kills = kill_at_random_steps(killed, arguments.kills, steps, draw)
        if kills < arguments.kills:
            raise SystemExit(f"only {kills} of {arguments.kills} kills before it was done")
        seen = require_same_bits(whole, curve, killed, SAME)
        print(f"{kills} kills of {arguments.ranks} rank(s) over {steps} steps ({len(seen) - len(curve)} made again): answers' "
              f"rewards, losses, gradients and weights are the same bits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
