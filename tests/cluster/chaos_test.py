#!/usr/bin/env python3
"""Chaos: trainings of four ranks, each with faults by name drawn from a seed, several at once. Every one must complete, and
its weights must be those of a training that nothing happened to, bit for bit.

usage: chaos_test.py LONGHAUL [--runs N] [--faults N] [--steps N] [--pairs N] [--at-once N] [--seed N] [--only I] [--hosts] [--keep]

Two faults a training unless --faults says another number: `--runs 1 --faults 200` is one training with two hundred, some of them two or
three at the same moment. --pairs adds so many trainings of two faults. Last come, for every kind, how many were injected, reported and
named rightly (the rule stands in culprits.py), and what the lead and the controller held after the first faults and at the end.
A fault that has no record, neither of itself nor of the restart that absorbed it, fails its training; so do, over all trainings, wrong
names: any of fewer than 100, and more than one in a hundred of more.

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

for shared in ("fault", "support"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / shared))
from json_lines import json_lines  # noqa: E402
from kill_training import write_dataset  # noqa: E402

from culprits import ENDS_MS, WITHOUT_CULPRIT, Joined, share_missed, short, wilson_text  # noqa: E402
from evidence import Evidence  # noqa: E402
from footprint import Footprints, files_in, processes_of  # noqa: E402

RUN_SECONDS, FAULT_SECONDS, STEP_SECONDS = 150, 12, 0.2
STEPS = 120
JOB_ENDS_SECONDS = 10
MANY = 4  # faults of a training that has room for them: every moment is followed by steps, and by a checkpoint mostly
FDS_MORE, MB_MORE = 4, 8  # what a lead may hold more after its last fault than after its fifth
# What a rank survives or not, and nobody's weights are the worse for.
RANK_FAULTS = ["SIGKILL", "SEGFAULT", "OS_ABORT", "SIGSTOP", "WORKLOAD_EXC", "ASYNC_EXC", "full_disk", "corrupted_shard",
               "slow_rank", "dead_lead"]
HOST_FAULTS = RANK_FAULTS + ["dropped_heartbeat", "dead_standby", "frozen_host"]


class Wrong(Exception):
    pass


def moments_of(draw, count, steps):
    """Steps, one for each fault, ordered: every moment has one, two or three. Of a few faults two in three have company, of many one
    in four; many are spread evenly, for three faults of the same cause without progress in between end a training."""
    moments = [0]
    for _ in range(count - 1):
        alone = moments.count(moments[-1]) >= 3 or draw.random() >= (2 / 3 if count < MANY else 1 / 4)
        moments.append(moments[-1] + alone)
    if count < MANY:
        at = sorted(draw.sample(range(5, steps - 15), moments[-1] + 1))
    else:
        apart = (steps - 25) / (moments[-1] + 1)
        at = [round(5 + apart * (i + draw.uniform(0, 0.4))) for i in range(moments[-1] + 1)]
    return [at[moment] for moment in moments]


def drawn_faults(draw, names, count, steps, hosts):
    """Ordered by step. On hosts one of each that takes a host or a lead for good. Leads die in the first half of many faults: the last
    one lives through the other half, and what it holds then is looked at."""
    faults, once, damaged = [], set(), -100
    for step in moments_of(draw, count, steps):
        # A damaged checkpoint is survived where a second one is there: the third one of the run may be half written at step 31.
        left = [n for n in names if n not in once and (n != "corrupted_shard" or step > max(32, damaged + 30))
                and not (n == "dead_lead" and count >= MANY and step > steps / 2)]
        name = draw.choice(left)
        if name == "corrupted_shard":
            damaged = step
        if hosts and name in ("frozen_host", "dead_lead", "dead_standby") or name == "dead_lead" and count < MANY:
            once |= {"frozen_host", "dead_lead", "dead_standby"}
        faults.append({"name": name, "rank": draw.randrange(4), "step": step, "lasts": "2s"})
    return faults


def workflow(tokens, steps, faults, hosts):
    at = ",\n  ".join("{ " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in fault.items()) + " }" for fault in faults)
    return f"""[workflow]
name = "chaos"
[stage.s]
kind = "pretrain"
inputs = {{ tokens = "{tokens}" }}
precision = "f32"
deterministic = true
dropout = 0.1
steps = {steps}
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

    ends_ms = ENDS_MS  # how long a killed process may take to end

    def __init__(self, folder, longhaul, tokens, steps, faults, cluster):
        self.folder, self.longhaul, self.steps, self.faults, self.cluster = folder, longhaul, steps, faults, cluster
        self.footprints, self.evidence, self.next_look = Footprints(folder), None, 0
        folder.mkdir(parents=True)
        (folder / "w.toml").write_text(workflow(tokens, steps, faults, cluster is not None))
        self.begun = time.monotonic()
        self.process = self.start("run", "w.toml", "--allow", "cores") if cluster is None else self.start(
            "submit", "w.toml", "--site", "test-cluster", "--driver", "here")

    def start(self, *argv):
        environment = self.cluster.environment if self.cluster else os.environ
        with open(self.folder / "out.txt", "a") as out:
            return subprocess.Popen([str(self.longhaul), *argv, "--runs-dir", str(self.folder / "runs")], cwd=self.folder, stdin=subprocess.DEVNULL,
                                    stdout=out, stderr=out, start_new_session=True, env={**environment, "OMP_NUM_THREADS": "1"})

    @property
    def run(self):
        return next(iter((self.folder / "runs").glob("chaos-*")), None)

    def over(self):
        if self.process.poll() is not None:
            return True
        if time.monotonic() - self.begun > RUN_SECONDS + FAULT_SECONDS * len(self.faults) + STEP_SECONDS * self.steps:
            self.end()
            return True
        if self.faults and time.monotonic() > self.next_look and self.run:
            self.look()
            self.next_look = time.monotonic() + 2
        return False

    def look(self):
        if len(self.faults) >= MANY and not self.events("published"):  # then the controller writes the report, once
            self.footprints.look(len(self.events("fault")), self.process.pid)
        self.evidence = self.evidence or Evidence(self.run / "stages/s", self.folder / "evidence")
        self.evidence.look()

    def end(self):
        """The controller, and the lead and the ranks, which outlive it."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.cluster:
            self.cluster.cancel_all()
            return
        for pid in processes_of(self.folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue

    def release(self):
        """Jobs end a moment after their work is done, and look at their folders until then; one whose lead was frozen never does."""
        if self.cluster is None or not self.run:
            return
        facts = [fact for log in sorted(self.run.glob("log/*.jsonl")) for fact in json_lines(log)]
        jobs = [fact["with"]["job"] for fact in facts if fact.get("fact") == "submitted"]
        deadline = time.monotonic() + JOB_ENDS_SECONDS
        while jobs and time.monotonic() < deadline:
            there = self.cluster.call("squeue", "--noheader", "--format=%i").stdout.split()
            jobs = [job for job in jobs if job in there]
            time.sleep(0.2)
        for job in jobs:
            self.cluster.call("scancel", job, check=False)

    def events(self, kind=None):
        found = []
        for file in sorted(self.run.glob("stages/s/attempts/*/events.jsonl"), key=lambda p: int(p.parent.name)):
            for line in file.read_text(errors="replace").splitlines():
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if kind in (None, event["kind"]):
                    found.append({**event, "attempt": int(file.parent.name)})
        return found

    def said(self, event):
        """What was said in the launch of an event, and what was injected and reported around it."""
        around = [e for e in self.events() if e["attempt"] == event["attempt"] and -6000 < e["ms"] - event["ms"] < 1000 and
                  e["kind"] in ("injected", "fault", "launched", "ranks_ended", "hang_suspected", "taken_over", "faulted", "ready")]
        return [json.dumps({k: v for k, v in e.items() if k not in ("t", "attempt", "means", "fingerprint")})[:300] for e in around] + (self.evidence.of(event["attempt"], event["launch"]) if self.evidence else [])

    def losses(self):
        """{step: losses that were reported for it}."""
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
    """Every injected fault is reported, and each that ended something has a verdict, a tier and where the time went."""
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
    unrecorded = Joined(disturbed.events()).unrecorded
    if unrecorded:
        raise Wrong(f"without a record: {[short(event) for event in unrecorded]}\n{disturbed.story()}")
    return injected, faults, recovered


class Tally:
    """What became of all injected faults, over all trainings."""

    def __init__(self):
        self.kinds = collections.defaultdict(collections.Counter)
        self.tiers, self.totals, self.rightly, self.count, self.consequences, self.wrong, self.absorbed = collections.Counter(), [], 0, 0, 0, [], []
        self.by_themselves = []

    def take(self, training):
        events = training.events()
        recovered = collections.defaultdict(list)
        for event in events:
            if event["kind"] == "injected":
                self.kinds[event["fault"]]["injected"] += 1
            if event["kind"] == "recovered":
                recovered[event["attempt"]].append(event["ms"])
                self.totals.append(event["total_s"])
            if event["kind"] == "fault":
                self.tiers[event["tier"]] += 1
        joined = Joined(events, training.ends_ms)
        for injected, fault in joined.pairs:
            kind = self.kinds[injected["fault"]]
            kind["named"] += 1
            kind["broken_down"] += any(ms >= fault["ms"] for ms in recovered[fault["attempt"]])
            kind[fault["tier"]] += 1
        for absorbed in joined.absorbed:
            self.kinds[absorbed.injected["fault"]]["absorbed"] += 1
        for injected, reported in joined.wrong:
            self.kinds[injected["fault"] if injected else "(nothing)"]["wrong" if reported else "no record"] += 1
        self.absorbed += joined.shown_absorbed()
        self.by_themselves += [str(short(event)) for event in joined.by_themselves]
        self.rightly += len(joined.pairs)
        self.count += joined.count
        self.consequences += len(joined.consequences)
        for shown, event in zip(joined.shown_wrong(), (reported or injected for injected, reported in joined.wrong)):
            self.wrong.append("\n    ".join([shown, *training.said(event)]))

    def print(self):
        print(f"\n{'kind':18} injected | named rightly | wrongly | no record | absorbed | with breakdown | tiers")
        for name, kind in sorted(self.kinds.items()):
            tiers = " ".join(f"{tier} {kind[tier]}" for tier in ("in_process", "in_job", "swap", "shrink", "new_job", "stop") if kind[tier])
            print(f"{name:18} {kind['injected']:8} | {kind['named']:13} | {kind['wrong']:7} | {kind['no record']:9} | {kind['absorbed']:8} | {kind['broken_down']:14} | "
                  f"{tiers or ('ends nothing' if name in WITHOUT_CULPRIT else '')}")
        print(f"culprit: {wilson_text(self.rightly, self.count)}; reported for a rank that had been hurt before: {self.consequences}")
        for line in self.wrong:
            print(f"  wrongly: {line}")
        for line in self.absorbed:
            print(f"  absorbed: {line}")
        for line in self.by_themselves:
            print(f"  not injected, and happened: {line}")
        print(f"tiers: {dict(sorted(self.tiers.items()))}; training again: {quantiles(self.totals)}")


def check_footprint(training, tally):
    """What grows with every fault ends a training of weeks."""
    for name, faults, first, last in training.footprints.grown():
        print(f"{name}: over {faults} faults {first['rss_mb']:.1f} to {last['rss_mb']:.1f} MB, {first['fds']} to {last['fds']} descriptors, "
              f"{first['children']} to {last['children']} children", flush=True)
        if last["fds"] > first["fds"] + FDS_MORE or last["rss_mb"] > first["rss_mb"] + MB_MORE:
            raise Wrong(f"the {name} holds more and more: {first}, after {faults} faults {last}")
    if training.footprints.seen:
        count, size = files_in(training.run / "stages/s/attempts")
        print(f"attempts: {count} files, {size / 2**20:.1f} MB in {len(training.events('launched'))} launches", flush=True)


def planted_error(folder, longhaul, tokens, whole):
    """A checkpoint that says a wrong number of samples: the comparison must find the difference."""
    training = Training(folder, longhaul, tokens, STEPS, [], None)
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


class Whole:
    """Trainings that nothing happens to, one for each number of steps."""

    def __init__(self, folder, longhaul, tokens):
        self.folder, self.longhaul, self.tokens, self.made = folder, longhaul, tokens, {}

    def of(self, steps):
        if steps not in self.made:
            training = Training(self.folder / f"whole-{steps}", self.longhaul, self.tokens, steps, [], None)
            while not training.over():
                time.sleep(0.05)
            training.weights()
            print(f"untouched, {steps} steps: {time.monotonic() - training.begun:.1f} s", flush=True)
            self.made[steps] = training
        return self.made[steps]


def trainings_asked_for(given, names):
    """(number, steps, faults)."""
    many = STEPS if given.faults < MANY else 40 + 15 * given.faults
    wanted = [(given.faults, given.steps or many)] * given.runs + [(2, STEPS)] * given.pairs
    return [(number, steps, drawn_faults(random.Random(given.seed * 1000 + number), names, count, steps, given.hosts))
            for number, (count, steps) in enumerate(wanted) if given.only in (None, number)]


def judge(training, whole, tally, keep):
    """What is printed of a training that has ended; Wrong where it is not as it would have been."""
    if training.run:
        training.look()
    training.release()
    tally.take(training)
    compare(training, whole)
    injected, faults, _ = check_story(training)
    check_footprint(training, tally)
    reported = " ".join(e["tier"] for e in faults) or "none"
    outcome = f"same bits; {len(training.events('launched'))} launches, tiers {reported}"
    if len(training.faults) >= MANY:
        outcome = f"same bits; {len(injected)} injected, {len(faults)} reported, {len(training.events('launched'))} launches"
    if not keep:
        shutil.rmtree(training.folder)
    return outcome


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("longhaul")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--faults", type=int, default=2, help="of each of these trainings")
    parser.add_argument("--steps", type=int, help="of each; enough for its faults unless said")
    parser.add_argument("--pairs", type=int, default=0, help="further trainings of two faults")
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", type=int, help="this training alone")
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("--keep", action="store_true")
    return parser.parse_args()


def make_tokens(here):
    tokens = here / "tokens"
    tokens.mkdir()
    shutil.copy(pathlib.Path(__file__).resolve().parents[1] / "parity/golden/model-untied/tokenizer.json", tokens / "tokenizer.json")
    draw = random.Random(20260302)
    write_dataset(tokens / "train", [[(draw.randrange(250) + 3 * i) % 250 for i in range(draw.randint(3, 60))] for _ in range(400)])
    return tokens


def main():
    given = arguments()
    print(f"seed {given.seed}", flush=True)
    cluster = None
    if given.hosts:
        from slurm_cluster import attach
        cluster = attach()
    longhaul = pathlib.Path(given.longhaul).resolve()
    here = pathlib.Path(tempfile.mkdtemp(prefix="chaos-", dir=cluster.scratch if cluster else None))
    tokens = make_tokens(here)
    begun, failed, cases = time.monotonic(), 0, 0
    whole = Whole(here, longhaul, tokens)
    waiting = trainings_asked_for(given, HOST_FAULTS if cluster else RANK_FAULTS)
    if given.only is None:
        cases += 1
        try:
            planted_error(here / "planted", longhaul, tokens, whole.of(STEPS))
        except Wrong as wrong:
            failed += 1
            print(f"planted error: FAILED: {wrong}", flush=True)
    for _, steps, _ in waiting:
        whole.of(steps)
    tally, running = Tally(), []
    while waiting or running:
        while waiting and len(running) < given.at_once:
            number, steps, faults = waiting.pop(0)
            running.append((number, Training(here / f"run-{number}", longhaul, tokens, steps, faults, cluster)))
        for entry in [e for e in running if e[1].over()]:
            running.remove(entry)
            number, training = entry
            cases += 1
            what = ", ".join(f"{f['name']} of {f['rank']} at {f['step']}" for f in training.faults[:MANY]) + (", ..." if len(training.faults) > MANY else "")
            try:
                outcome = judge(training, whole.of(training.steps), tally, given.keep)
            except Wrong as wrong:
                failed, outcome = failed + 1, f"FAILED: {wrong}"
            print(f"run {number} ({time.monotonic() - training.begun:.1f} s; {what}): {outcome}", flush=True)
        time.sleep(0.2)
    tally.print()
    if tally.count:
        cases += 1
        missed = share_missed(tally.rightly, tally.count)
        failed += 1 if missed else 0
        print(f"names: FAILED: {missed}" if missed else "names: ok")
    print(f"{time.monotonic() - begun:.1f} s in all, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if failed == 0 and not given.keep:
        shutil.rmtree(here)
    else:
        print(f"kept: {here}")
    print(f"test cases: {cases} | {cases - failed} passed | {failed} failed | 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
