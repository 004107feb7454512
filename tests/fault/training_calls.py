#!/usr/bin/env python3
"""Bad answers of a file system at every call that a training makes of its data, its state, its artifact and its events:
a full disk at each write, a folder that is read-only from then on for a while, a stale handle at each listing, each
file that is opened and each that is looked for.

A training is killed after it has saved. First one launch shows which calls it makes when it goes on from there; then
one launch for each of them (or for as many as --runs says, drawn from a seed) has this call fail, once or for a while.
It comes to its end, or it stops and says why, and the next launch finishes it. Whichever it is, no step below the
newest checkpoint is made again, least of all step 1; losses, weights and the held-out loss are those of a training that
nobody touched, bit for bit.

usage: training_calls.py --bin FOLDER [--runs N] [--seed N] [--only CALL:PATH] [--beside N]
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import kill_training
from every_call import ANSWERS, CHANGES, LOOKS, stable
from kill_training import Training, make_inputs, write_dataset

STEPS, KILLED_AT = 18, 12
DEADLINE_S = kill_training.STEP_DEADLINE_S * 2
ENGINE = "longhaul-engine"
# Of a launch itself: who starts it makes these.
OWN = re.compile(r"^/(launch-|launch\.toml|task\.toml|plan|calls)")


class Rig:
    """A training that was killed, in a folder of its own; `killed`: the one that it is a copy of."""

    def __init__(self, programs, folder, inputs, killed=None):
        self.library = programs / "liblonghaul_call_faults.so"
        self.training = Training(folder, programs / ENGINE, 1, STEPS, inputs, False, False)
        self.calls, self.roots = folder / "calls", {"inputs": inputs["tokens"].parent, "training": folder}
        if killed:
            shutil.copytree(killed.training.folder / "state", folder / "state", symlinks=True)
            shutil.copy(killed.training.events, self.training.events)
            self.training.launches = killed.training.launches

    def newest_checkpoint(self):
        manifests = self.training.folder.glob("state/checkpoints/step-*/checkpoint.json")
        return max((int(path.parent.name[5:]) for path in manifests), default=0)

    def launch(self, points="", calls=""):
        """How it ended, and what it said."""
        folder = self.training.folder
        (folder / "plan").write_text(points)
        self.calls.write_text(calls)
        self.training.launch |= {"fault_plan": str(folder / "plan"), "at_least_step": self.newest_checkpoint()}
        self.training.environment = {}
        if calls:
            self.training.environment = {"LD_PRELOAD": str(self.library), "CALL_FAULTS_PLAN": str(self.calls)}
        log = self.training.start()
        try:
            code = self.training.process.wait(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.training.kill()
            code = None
        return code, self.training.events.read_text(errors="replace") + log.read_text(errors="replace")

    def acted(self):
        log = pathlib.Path(f"{self.calls}.log")
        return [line.split(" ", 6) for line in log.read_text().splitlines()] if log.exists() else []


def heldout_of(training):
    """Of the end; what was evaluated twice says the same."""
    return {json.loads(line)["heldout_loss"] for line in training.lines_with('"heldout_loss"') if '"metric"' in line}


def calls_of(rig):
    """Of a launch that goes on: [(call, path below one of the roots)]."""
    code, said = rig.launch(calls="".join(f"{','.join(CHANGES + LOOKS)} {root} delay_ms=1 times=0 program={ENGINE}\n"
                                          for root in rig.roots.values()))
    if code != 0:
        raise SystemExit(f"the untouched launch ended with {code}:\n{said[-3000:]}")
    found = {}
    for _, _, _, _, call, _, path in rig.acted():
        for name, root in rig.roots.items():
            below = stable(path[len(str(root)):]) if path.startswith(f"{root}/") else ""
            if below and not OWN.match(below):
                found[call, name + below] = None
    return list(found)


def one_launch(rig, curve, weights, heldout, call, path, answer):
    """How often the call was made, and what is wrong."""
    _, _, action, words = answer
    saved = rig.newest_checkpoint()
    before = len(rig.training.metrics())
    root, below = path.split("/", 1)
    code, said = rig.launch(calls=f"{call} {rig.roots[root]}/{below} {action} program={ENGINE}\n")
    hits = len(rig.acted())
    wrong = []
    if code is None:
        return hits, [f"not done after {DEADLINE_S} s: {said[-1500:]}"]
    if code != 0:
        if words not in said:
            wrong.append(f"ended with {code}, and nobody says '{words}': {said[-1500:]}")
        code, said = rig.launch()
        if code != 0:
            wrong.append(f"the next launch, with a good file system, ended with {code}: {said[-1500:]}")
    for metric in rig.training.metrics()[before:]:
        if metric["step"] <= saved:
            wrong.append(f"step {metric['step']} was made again, though that of {saved} was saved")
        if metric["loss"] != curve.get(metric["step"]):
            wrong.append(f"step {metric['step']}: loss {metric['loss']!r}, untouched {curve.get(metric['step'])!r}")
    if code == 0 and (rig.training.folder / "out/model.safetensors").read_bytes() != weights:
        wrong.append("other weights")
    reported = heldout_of(rig.training)
    if code == 0 and reported != heldout and not path.endswith("events.jsonl"):
        wrong.append(f"held-out losses {reported}, untouched {heldout}")
    return hits, wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--runs", type=int, default=0, help="so many, drawn; 0: all")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only")
    parser.add_argument("--beside", type=int, default=1, help="cases at the same time")
    given = parser.parse_args()
    programs = pathlib.Path(given.bin).resolve()
    print(f"seed {given.seed}", flush=True)
    draw = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="longhaul-training-calls-") as name:
        here = pathlib.Path(name)
        (here / "inputs").mkdir()
        inputs = make_inputs(here / "inputs", draw)
        write_dataset(inputs["tokens"] / "heldout", [[draw.randrange(250) for _ in range(40)] for _ in range(20)])
        whole = Rig(programs, here / "whole", inputs)
        code, said = whole.launch()
        if code != 0:
            raise SystemExit(f"the untouched training ended with {code}:\n{said[-3000:]}")
        curve = {metric["step"]: metric["loss"] for metric in whole.training.metrics()}
        weights = (whole.training.folder / "out/model.safetensors").read_bytes()
        heldout = heldout_of(whole.training)
        if len(heldout) != 1:
            raise SystemExit(f"the untouched training has held-out losses {heldout}")
        killed = Rig(programs, here / "killed", inputs)
        killed.launch(points=f"engine_step_begin kill nth={KILLED_AT}\n")
        if killed.newest_checkpoint() == 0:
            raise SystemExit("nothing was saved before the kill")
        calls = calls_of(Rig(programs, here / "calls", inputs, killed))
        cases = [(*one, answer) for one in calls for answer in ANSWERS if one[0] in answer[1]]
        if given.only:
            cases = [case for case in cases if ":".join(case[:2]) == given.only]
        total = len(cases)
        if given.runs and given.runs < total:
            cases = draw.sample(cases, given.runs)
        print(f"{len(calls)} calls of a training; {len(cases)} of {total} cases", flush=True)

        def play(numbered):
            number, case = numbered
            rig = Rig(programs, here / f"case-{number}", inputs, killed)
            try:
                return one_launch(rig, curve, weights, heldout, *case)
            finally:
                shutil.rmtree(rig.training.folder, ignore_errors=True)
        failed = missed = 0
        with concurrent.futures.ThreadPoolExecutor(given.beside) as players:
            for (call, path, answer), (hits, wrong) in zip(cases, players.map(play, enumerate(cases))):
                missed += hits == 0
                failed += bool(wrong)
                for line in wrong:
                    print(f"FAILED {call}:{path}, {answer[0]}: {line}", flush=True)
        if missed > len(cases) // 3:
            failed += 1
            print(f"{missed} of {len(cases)} calls were not made again")
        print(f"{failed} of {len(cases)} failed, {missed} calls were not made again")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
