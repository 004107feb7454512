#!/usr/bin/env python3
"""Chaos: trainings of four ranks, each with faults by name drawn from a seed, several at once. Every one must complete, and
its weights must be those of a training that nothing happened to, bit for bit.

usage: chaos_test.py LONGHAUL [--runs N] [--faults N] [--at-once N] [--seed N] [--only I] [--hosts] [--keep]

Faults are injected by the run itself ([stage.x.faults]); what is held against them is outside: the weights, the losses of
every step, and what the run says of its faults. With --hosts the ranks are on two hosts of the Slurm cluster, a third is a
spare, and faults of agents, of the lead and of its standby are drawn as well. The first case is a planted error, a
checkpoint that says another number of samples than it was made after: the comparison has to find it.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fault"))
from kill_training import write_dataset  # noqa: E402

RUN_SECONDS = 150
STEPS = 120
# What a rank survives or not, and nobody's weights are the worse for.
RANK_FAULTS = ["SIGKILL", "SEGFAULT", "OS_ABORT", "SIGSTOP", "WORKLOAD_EXC", "ASYNC_EXC", "full_disk", "corrupted_shard",
               "slow_rank", "dead_lead"]
HOST_FAULTS = RANK_FAULTS + ["dropped_heartbeat", "dead_standby", "frozen_host"]
# After these the training need not start again.
HARMLESS = {"slow_rank", "corrupted_shard", "dropped_heartbeat", "dead_standby", "dead_lead"}


class Wrong(Exception):
    pass


def drawn_faults(draw, names, count):
    """Ordered by step. Two in three runs have a pair at the same time. One of each that takes a host or a lead for good."""
    faults, steps = [], sorted(draw.sample(range(5, STEPS - 15), count))
    if count > 1 and draw.random() < 2 / 3:
        steps[-1] = steps[-2]
    once = set()
    for step in steps:
        # A damaged checkpoint is survived where a second one is there: the third one of the run may be half written at step 31.
        name = draw.choice([n for n in names if n not in once and (n != "corrupted_shard" or step > 32)])
        if name in ("frozen_host", "dead_lead", "dead_standby"):
            once |= {"frozen_host", "dead_lead", "dead_standby"}
        faults.append({"name": name, "rank": draw.randrange(4), "step": step, "lasts": "2s"})
    return faults


def workflow(tokens, faults, hosts):
    at = ",\n  ".join("{ " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in fault.items()) + " }" for fault in faults)
    return f"""[workflow]
name = "chaos"
[stage.s]
kind = "pretrain"
inputs = {{ tokens = "{tokens}" }}
precision = "f32"
deterministic = true
dropout = 0.1
steps = {STEPS}
sequence_length = 32
micro_batch_size = 2
global_batch_size = 8
threads = 1
model = {{ hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64 }}
parallel = {{ dp_shard = 4, zero = 1 }}
checkpoint = {{ every_steps = 10, keep_last = 3 }}
resiliency = {{ restarts = 30, hang_floor = "3s", host_silent = "2s", host_suspicion = false{', spares = 1' if hosts else ''} }}
{'nodes = 2' + chr(10) + 'job = { gpus_per_node = 0 }' if hosts else ''}
""" + (f"[stage.s.faults]\nat = [ {at} ]\n" if faults else "")


class Training:
    """One run in a folder of its own."""

    def __init__(self, folder, longhaul, tokens, faults, cluster):
        self.folder, self.longhaul, self.faults, self.cluster = folder, longhaul, faults, cluster
        folder.mkdir(parents=True)
        (folder / "w.toml").write_text(workflow(tokens, faults, cluster is not None))
        self.begun = time.monotonic()
        self.process = self.start("run", "w.toml") if cluster is None else self.start(
            "submit", "w.toml", "--site", "test-cluster", "--driver", "here")

    def start(self, *words):
        environment = self.cluster.environment if self.cluster else os.environ
        with open(self.folder / "out.txt", "a") as out:
            return subprocess.Popen([str(self.longhaul), *words, "--runs-dir", str(self.folder / "runs")], cwd=self.folder, stdin=subprocess.DEVNULL,
                                    stdout=out, stderr=out, start_new_session=True, env={**environment, "OMP_NUM_THREADS": "1"})

    @property
    def run(self):
        return next(iter((self.folder / "runs").glob("chaos-*")), None)

    def over(self):
        if self.process.poll() is not None:
            return True
        if time.monotonic() - self.begun > RUN_SECONDS:
            self.end()
            return True
        return False

    def end(self):
        """The controller, and the lead and the ranks, which outlive it."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.cluster:
            self.cluster.cancel_all()
            return
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"{self.folder}/".encode() in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue

    def events(self, kind=None):
        found = []
        for file in sorted(self.run.glob("stages/s/attempts/*/events.jsonl"), key=lambda p: int(p.parent.name)):
            for line in file.read_text(errors="replace").splitlines():
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if kind in (None, event["kind"]):
                    found.append(event)
        return found

    def losses(self):
        """{step: losses that were told of it}."""
        losses = collections.defaultdict(set)
        for event in self.events("metric"):
            if "loss" in event:
                losses[event["step"]].add((event["loss"], event["grad_norm"], event["lr"]))
        return losses

    def weights(self):
        path = (self.run or self.folder) / "stages/s/out/model.safetensors"
        if self.process.returncode != 0 or not path.exists():
            raise Wrong(f"did not complete (exit code {self.process.returncode})\n{self.story()}")
        return path.read_bytes()

    def story(self):
        lines = [f"  {json.dumps(e)}" for e in self.events() if e["kind"] in ("injected", "fault", "recovered", "launched", "taken_over", "hang_suspected", "message")
                 ] if self.run else []
        return "\n".join([str(self.folder), *lines[-40:], (self.folder / "out.txt").read_text()[-1500:]])


def compare(disturbed, whole):
    """Weights first, then where the losses part."""
    same = disturbed.weights() == whole.weights()
    curve = whole.losses()
    for step, losses in sorted(disturbed.losses().items()):
        if losses != curve[step]:
            raise Wrong(f"step {step}: {sorted(losses)}, untouched {sorted(curve[step])}\n{disturbed.story()}")
    if not same:
        raise Wrong(f"the weights differ, and no loss does\n{disturbed.story()}")
    if set(disturbed.losses()) != set(curve):
        raise Wrong(f"other steps were made than without faults\n{disturbed.story()}")


def check_story(disturbed):
    """Every injected fault is told of, and each that ended something has a verdict, a tier and where the time went."""
    injected, faults, recovered = (disturbed.events(kind) for kind in ("injected", "fault", "recovered"))
    late = [e for e in disturbed.events("message") if "not injected" in e.get("text", "")]
    if late:
        raise Wrong(f"could not be injected: {late}\n{disturbed.story()}")
    # Ranks that have lost their lead may be done before another one is there to hurt them.
    alone = any(e["fault"] == "dead_lead" for e in injected)
    if len(injected) > len(disturbed.faults) or (len(injected) < len(disturbed.faults) and not alone):
        raise Wrong(f"{len(injected)} of {len(disturbed.faults)} faults were injected\n{disturbed.story()}")
    for fault in faults:
        if not fault.get("class") or not fault.get("tier") or not fault.get("cause"):
            raise Wrong(f"a fault without verdict: {fault}\n{disturbed.story()}")
    for event in recovered:
        if any(event.get(part, -1) < 0 for part in ("detect_s", "stop_s", "start_s", "load_s", "first_step_s", "total_s")):
            raise Wrong(f"a recovery without its breakdown: {event}\n{disturbed.story()}")
    if any(e["fault"] not in HARMLESS for e in injected) and not faults and len(disturbed.events("launched")) < 2:
        raise Wrong(f"a fault that ends ranks was not noticed\n{disturbed.story()}")
    return injected, faults, recovered


def planted_error(folder, longhaul, tokens, whole):
    """A checkpoint that says a wrong number of samples: the comparison must find the difference."""
    training = Training(folder, longhaul, tokens, [], None)
    deadline = time.monotonic() + 60
    while not training.run or not any(e["step"] >= 30 for e in training.events("checkpoint")):
        if time.monotonic() > deadline or training.process.poll() is not None:
            raise Wrong(f"no checkpoint to damage\n{training.story()}")
        time.sleep(0.02)
    training.end()
    for manifest in training.run.glob("stages/s/state/checkpoints/step-*/checkpoint.json"):
        table = json.loads(manifest.read_text())
        table["consumed_samples"] += 8
        manifest.write_text(json.dumps(table))
    training.process = training.start("resume")
    training.begun = time.monotonic()
    while not training.over():
        time.sleep(0.05)
    training.weights()  # it must have completed
    try:
        compare(training, whole)
    except Wrong as wrong:
        print(f"planted error found: {str(wrong).splitlines()[0][:100]}", flush=True)
        return
    raise Wrong("a training that left out a batch was taken for an untouched one")


def quantiles(values):
    values = sorted(values)
    return (f"median {statistics.median(values):.2f} s, 90 % {values[int(0.9 * (len(values) - 1))]:.2f} s, worst {values[-1]:.2f} s"
            if values else "none")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("longhaul")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--faults", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", type=int, help="this run alone")
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    cluster = None
    if given.hosts:
        from slurm_cluster import attach
        cluster = attach()
    longhaul = pathlib.Path(given.longhaul).resolve()
    here = pathlib.Path(tempfile.mkdtemp(prefix="chaos-", dir=cluster.scratch if cluster else None))
    tokens = here / "tokens"
    tokens.mkdir()
    shutil.copy(pathlib.Path(__file__).resolve().parents[1] / "parity/golden/model-untied/tokenizer.json", tokens / "tokenizer.json")
    draw = random.Random(20260302)
    write_dataset(tokens / "train", [[(draw.randrange(250) + 3 * i) % 250 for i in range(draw.randint(3, 60))] for _ in range(400)])
    begun, failed, cases, skipped = time.monotonic(), 0, 0, 0
    whole = Training(here / "whole", longhaul, tokens, [], None)
    while not whole.over():
        time.sleep(0.05)
    whole.weights()
    print(f"untouched: {time.monotonic() - begun:.1f} s", flush=True)
    names = HOST_FAULTS if cluster else RANK_FAULTS
    waiting = []
    for number in range(given.runs):
        chosen = random.Random(given.seed * 1000 + number)
        faults = drawn_faults(chosen, names, given.faults)
        if given.only in (None, number):
            waiting.append((number, faults))
    running, injected_names, tiers, totals = [], collections.Counter(), collections.Counter(), []
    if given.only is None:
        cases += 1
        try:
            planted_error(here / "planted", longhaul, tokens, whole)
        except Wrong as wrong:
            failed += 1
            print(f"planted error: FAILED: {wrong}", flush=True)
    while waiting or running:
        while waiting and len(running) < given.at_once:
            number, faults = waiting.pop(0)
            running.append((number, Training(here / f"run-{number}", longhaul, tokens, faults, cluster)))
        for entry in [e for e in running if e[1].over()]:
            running.remove(entry)
            number, training = entry
            cases += 1
            what = ", ".join(f"{f['name']} of {f['rank']} at {f['step']}" for f in training.faults)
            try:
                compare(training, whole)
                injected, faults, recovered = check_story(training)
                injected_names.update(e["fault"] for e in injected)
                tiers.update(e["tier"] for e in faults)
                totals += [e["total_s"] for e in recovered]
                outcome = f"same bits; {len(training.events('launched'))} launches, tiers {' '.join(e['tier'] for e in faults) or 'none'}"
                if not given.keep:
                    shutil.rmtree(training.folder)
            except Wrong as wrong:
                failed, outcome = failed + 1, f"FAILED: {wrong}"
            print(f"run {number} ({time.monotonic() - training.begun:.1f} s; {what}): {outcome}", flush=True)
        time.sleep(0.2)
    print(f"injected: {dict(sorted(injected_names.items()))}")
    print(f"tiers: {dict(sorted(tiers.items()))}; training again: {quantiles(totals)}")
    print(f"{time.monotonic() - begun:.1f} s in all, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if failed == 0 and not given.keep:
        shutil.rmtree(here)
    else:
        print(f"kept: {here}")
    print(f"test cases: {cases} | {cases - failed} passed | {failed} failed | {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
