#!/usr/bin/env python3
"""A training is ended by kill -9 at random steps, again and again, and goes on: losses, weights and the order of samples
must be those of a training that nobody touched, bit for bit. It has everything that a training may have: phases with
other mixes and lengths, a growing batch, blended inputs, documents kept apart, dropout, experts, steps that are skipped.

usage: kill_training.py --bin FOLDER [--kills N] [--ranks N] [--seed N] [--dense] [--local] [--gpu]
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from json_lines import whole_lines  # noqa: E402
from training_files import write_dataset, write_toml  # noqa: E402

STEP_DEADLINE_S = 120


def settings(steps, experts, local_dir, device="cpu"):
    third = steps // 3
    model = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    if experts:
        model |= {"architecture": "mixtral", "num_local_experts": 4, "moe_intermediate_size": 32}
    return {
        "model": model, "precision": "bf16", "device": device, "communicator": "staged", "seed": 3,
        "sequence_length": 32, "micro_batch_size": 2,
        # An emulated GPU takes half a second for what a processor does in a moment.
        "global_batch_size": 8 if device == "gpu" else 16,
        "batch_rampup": {"start": 4, "increment": 4, "samples": 12 * third // 2},
        "optimizer": {"lr": 0.01, "no_decay": ["norms", "embeddings"]},
        # Nearly every restart finds copies on the node that are newer than the newest checkpoint.
        "checkpoint": {"every_steps": 7, "local_every_steps": 1, "local_dir": str(local_dir)} if local_dir else
                      {"every_steps": 2, "keep_last": 3},
        "blend": ["tokens", "code"], "blend_weights": [0.7, 0.3],
        "phase": {"warmup": {"steps": third, "lr_shape": "linear"},
                  "main": {"steps": third, "blend": ["tokens", "code"], "blend_weights": [0.4, 0.6]},
                  "long": {"steps": steps - 2 * third, "sequence_length": 64, "lr": 0.001, "lr_shape": "cosine"}},
        "document_mask": True, "reset_positions": True, "dropout": 0.1,
        "on_spike": {"action": "skip", "sigma": 2.5, "window": 16, "budget": 1000},
    }


def descendants(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(c) for c in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


class Training:
    """One training in a folder of its own, started as often as needed."""

    kind = "pretrain"
    zero = 1
    environment = {}  # of the ranks, beside that of this process

    def __init__(self, folder, engine, ranks, steps, inputs, experts, local, device="cpu"):
        self.folder, self.engine, self.ranks, self.local, self.launches = folder, engine, ranks, local, 0
        folder.mkdir()
        local_dir = folder / "node" if local else None
        if local:
            local_dir.mkdir()
        self.events = folder / "events.jsonl"
        parallel = {"dp_shard": ranks, "zero": self.zero} if self.zero else {"dp_replicate": ranks}
        if ranks == 1:
            parallel = {}
        self.launch = {"file": "longhaul launch", "format": 1, "attempt_key": "k", "ranks": ranks,
                       "hosts": ["here"], "rank_host": [0] * ranks, "launch_dir": "",
                       "events_path": str(self.events), "output_dir": str(folder / "out"),
                       "state_dir": str(folder / "state"), "parallel": parallel}
        write_toml(folder / "task.toml",
                   {"file": "longhaul task", "format": 1, "run": "kill", "stage": self.kind, "kind": self.kind,
                    "kind_version": 1, "key": "k", "resources": {"ranks": ranks, "threads": 1, "nodes": 1},
                    "parallel": parallel,
                    "inputs": {name: {"paths": [str(path)]} for name, path in inputs.items()},
                    "settings": self.settings(steps, experts, local_dir, device)})

    def settings(self, steps, experts, local_dir, device):
        return settings(steps, experts, local_dir, device)

    def start(self):
        self.launches += 1
        folder = self.folder / f"launch-{self.launches}"
        folder.mkdir(exist_ok=True)
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        (self.folder / "out").mkdir()
        write_toml(self.folder / "launch.toml", {**self.launch, "launch": self.launches, "launch_dir": str(folder)})
        command = [self.engine, "run", "--task", self.folder / "task.toml", "--launch", self.folder / "launch.toml"]
        if self.ranks > 1:
            command = ["mpirun", "-n", str(self.ranks), "--oversubscribe", "--bind-to", "none", "--mca",
                       "mpi_yield_when_idle", "1"] + command
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMP_NUM_THREADS": "1", **self.environment}
        with open(folder / "log", "w") as log:
            self.process = subprocess.Popen([str(c) for c in command], stdout=log, stderr=log, start_new_session=True,
                                            env=environment)
        return folder / "log"

    def metrics(self):
        """Of every launch, in the order written. A torn last line of a killed program is passed over."""
        found = []
        if self.events.exists():
            for line in self.events.read_text(errors="replace").splitlines():
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if event.get("kind") == "metric" and "loss" in event:
                    found.append(event)
        return found

    def lines_with(self, text):
        """Of the events, those that were written whole."""
        return [line for line in whole_lines(self.events) if text in line]

    def kill(self):
        """The launcher and the ranks that it started, none of which can do anything about it."""
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def wait_for_step(self, step):
        """True once the step's numbers are there, False if the program has ended."""
        deadline = time.monotonic() + STEP_DEADLINE_S
        size = -1
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            now = self.events.stat().st_size if self.events.exists() else 0
            if now != size:
                size = now
                done = [m["step"] for m in self.metrics()]
                if done and done[-1] >= step:
                    return not ended
            if ended:
                return False
            time.sleep(0.002)
        self.kill()
        raise SystemExit(f"step {step} was not reached within {STEP_DEADLINE_S} s")


    def wait_for_copy(self, step):
        """True once the node has a copy of a step after this one, so that the restart must find it; at once without copies."""
        deadline = time.monotonic() + STEP_DEADLINE_S
        while self.local and time.monotonic() < deadline:
            copied = [json.loads(line)["step"] for line in self.lines_with('"local_copy"')]
            if any(c > step for c in copied):
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.002)
        return not self.local


def make_inputs(here, draw):
    """Two tokenized corpora, by the names of the task's inputs."""
    source = pathlib.Path(__file__).resolve().parents[1] / "parity" / "golden" / "model-untied" / "tokenizer.json"
    inputs = {}
    for input_name, amount in (("tokens", 4000), ("code", 1500)):
        inputs[input_name] = here / input_name
        inputs[input_name].mkdir()
        shutil.copy(source, inputs[input_name] / "tokenizer.json")
        documents = []
        while sum(map(len, documents)) < amount:
            start, stride = draw.randrange(250), draw.randint(1, 7)
            documents.append([(start + stride * i) % 250 for i in range(draw.randint(3, 60))])
        write_dataset(inputs[input_name] / "train", documents)
    return inputs


def kill_at_random_steps(training, kills, steps, draw):
    killed = 0
    while True:
        log = training.start()
        before = training.metrics()
        at = before[-1]["step"] if before else 0
        target = at + draw.randint(0, max(1, steps // max(1, 2 * kills)))
        if killed < kills and training.wait_for_step(min(target, steps - 1)) and training.wait_for_copy(at):
            time.sleep(draw.random() * 0.02)  # anywhere in a step or a save
            training.kill()
            killed += 1
            continue
        if training.process.wait(timeout=STEP_DEADLINE_S * 5) != 0:
            raise SystemExit(f"the training ended with {training.process.returncode}:\n{log.read_text()}")
        return killed


def run_whole(training):
    """The training that nobody touches; its numbers by step."""
    log = training.start()
    if training.process.wait(timeout=STEP_DEADLINE_S * 5) != 0:
        raise SystemExit(f"the untouched training ended with {training.process.returncode}:\n{log.read_text()}")
    return {m["step"]: m for m in training.metrics()}


def require_same_bits(whole, curve, killed, keys):
    """Every number of every launch, and the model at the end; the numbers that were seen."""
    seen = killed.metrics()
    for metric in seen:
        for key in keys:
            if metric[key] != curve[metric["step"]][key]:
                raise SystemExit(f"step {metric['step']}: {key} = {metric[key]!r}, untouched {curve[metric['step']][key]!r}")
    if {m["step"] for m in seen} != set(curve):
        raise SystemExit("other steps were made than without kills")
    for file in ("model.safetensors", "config.json"):
        if (whole.folder / "out" / file).read_bytes() != (killed.folder / "out" / file).read_bytes():
            raise SystemExit(f"{file} differs")
    return seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--dense", action="store_true", help="a model without experts")
    parser.add_argument("--local", action="store_true", help="with copies on the node after every step")
    parser.add_argument("--gpu", action="store_true", help="on GPUs that the processor emulates; a dense model")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    draw = random.Random(arguments.seed)
    steps = 6 * arguments.kills if arguments.gpu else max(40, 15 * arguments.kills)
    arguments.dense |= arguments.gpu
    device = "gpu" if arguments.gpu else "cpu"
    engine = pathlib.Path(arguments.bin).resolve() / f"longhaul-engine{'-emulated-gpu' if arguments.gpu else ''}"
    with tempfile.TemporaryDirectory(prefix="longhaul-kill-training-") as name:
        here = pathlib.Path(name)
        inputs = make_inputs(here, draw)
        whole = Training(here / "whole", engine, arguments.ranks, steps, inputs, not arguments.dense, arguments.local,
                         device)
        curve = run_whole(whole)
        killed = Training(here / "killed", engine, arguments.ranks, steps, inputs, not arguments.dense, arguments.local,
                         device)
        kills = kill_at_random_steps(killed, arguments.kills, steps, draw)
        if kills < arguments.kills:
            raise SystemExit(f"only {kills} of {arguments.kills} kills before it was done")
        seen = require_same_bits(whole, curve, killed, ("loss", "grad_norm", "lr", "consumed_samples"))
        if arguments.local:
            messages = killed.lines_with("goes on from step")
            copies = [m for m in messages if "copies of step" in m]
            if len(copies) < kills / 2:
                raise SystemExit(f"only {len(copies)} of {len(messages)} restarts used the copies on the node")
            print(f"{len(copies)} of {len(messages)} restarts from the node's copies")
        skipped = steps - len(curve)
        print(f"{kills} kills of {arguments.ranks} rank(s) over {steps} steps ({skipped} skipped by the spike policy, "
              f"{len(seen) - len(curve)} made again): losses, gradients, sample counts and weights are the same bits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
