#!/usr/bin/env python3
"""Bad answers of a file system at every call of a controller and of a lead: a full disk at each write, a folder that is
read-only from then on for a while, a stale handle at each listing, each file that is opened and each that is looked for,
and a clock that jumps.

First a run of two stages shows which calls its controller and its leads make below its folder, and of which files. Then
one run for each of them (or for as many as --runs says, drawn from a seed) has this call fail, once or for a while. It
must come to its end by itself, having done each stage's work once; or it stops and says why, and a resume finishes it.
Nothing is begun again that was done.

usage: every_call.py --bin FOLDER [--runs N] [--seed N] [--only PROGRAM:CALL:PATH] [--beside N]

A case mostly waits: `--beside 4` plays four of them at the same time.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

DEADLINE_S = 90
STAGES = ("a", "b")
CONTROLLER, LEAD = "fault_drive", "longhaul-worker"
CHANGES = ("write", "fsync", "rename", "link", "mkdir")
LOOKS = ("readdir", "open", "stat")
# What the file system answers, of which calls, how often, and the text in which it is reported.
ANSWERS = [("full disk, once", CHANGES, "error=ENOSPC times=1", "No space left"),
           ("full disk, a while", CHANGES, "error=ENOSPC for_ms=2000", "No space left"),
           ("read-only, a while", CHANGES, "error=EROFS for_ms=2000", "Read-only file system"),
           ("stale handle, once", LOOKS, "error=ESTALE times=1", "Stale file handle"),
           ("stale handle, a while", LOOKS, "error=ESTALE for_ms=2000", "Stale file handle")]


class CannotBegin(Exception):
    """Of one case: the others are played all the same."""


class Rig:
    def __init__(self, programs, folder):
        self.tool, self.library, self.folder = programs / "fault_drive", programs / "liblonghaul_call_faults.so", folder
        folder.mkdir(parents=True)
        stages = [{"id": name, "needs": [STAGES[i - 1]] if i else [],
                   "script": f'echo {name} > "$LONGHAUL_OUT/text"; echo {name} >> {folder}/effects; sleep 0.1'}
                  for i, name in enumerate(STAGES)]
        (folder / "stages.json").write_text(json.dumps(stages))
        made = subprocess.run([self.tool, "create", folder / "runs", folder / "artifacts", folder / "stages.json"],
                              capture_output=True, text=True)
        if made.returncode != 0:
            raise CannotBegin(f"no run could be made ({made.returncode}): {made.stdout}{made.stderr}")
        self.run = made.stdout.strip()
        self.plan = folder / "calls.plan"

    def drive(self, *lines, meanwhile=None):
        """Exit code and what was said; None: it did not end."""
        self.plan.write_text("".join(f"{line}\n" for line in lines))
        environment = {**os.environ, "LD_PRELOAD": str(self.library), "CALL_FAULTS_PLAN": str(self.plan)}
        driver = subprocess.Popen([self.tool, "drive", self.run, "--slots", "2"], env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        helper = threading.Thread(target=meanwhile or (lambda: None))
        helper.start()
        try:
            said = driver.communicate(timeout=DEADLINE_S)[0]
        except subprocess.TimeoutExpired:
            driver.kill()
            return None, driver.communicate()[0]
        finally:
            helper.join()
        return driver.returncode, said

    def acted(self):
        log = pathlib.Path(f"{self.plan}.log")
        return [line.split(" ", 6) for line in log.read_text().splitlines()] if log.exists() else []

    def effects(self):
        path = self.folder / "effects"
        return collections.Counter(path.read_text().split() if path.exists() else [])

    def reported(self):
        """Why, as whoever said it put it: the run's log, its jobs' records."""
        paths = [*pathlib.Path(self.run).glob("log/*.jsonl"), *pathlib.Path(self.run).glob("stages/*/attempts/*/*record*.json"),
                 *pathlib.Path(self.run).glob("stages/*/attempts/*/*.log")]
        return "\n".join(path.read_text(errors="replace") for path in paths)

    def attempts(self, stage):
        path = pathlib.Path(self.run) / "stages" / stage / "attempts"
        return len(os.listdir(path)) if path.is_dir() else 0


def stable(path):
    """Without what is drawn: the part of a temporary file's name that no other run has."""
    return re.split(r"\.tmp|[.-][0-9a-f]{8,}", path)[0]


def calls_of(programs, folder):
    rig = Rig(programs, folder)
    code, said = rig.drive(*(f"{','.join(CHANGES + LOOKS)} {rig.run} delay_ms=1 times=0 program={program}"
                             for program in (CONTROLLER, LEAD)))
    if code != 0:
        raise SystemExit(f"the untouched run ended with {code}:\n{said}")
    found = {}
    for _, _, program, _, call, _, path in rig.acted():
        found[program, call, stable(path[len(rig.run):])] = None
    return list(found)


def one_run(programs, folder, program, call, path, answer):
    """What is wrong; "" where the call was not made this time."""
    name, _, action, text = answer
    rig = Rig(programs, folder)
    code, said = rig.drive(f"{call} {rig.run}{path} {action} program={program}")
    hits = len(rig.acted())
    wrong = []
    if code is None:
        return hits, [f"not done after {DEADLINE_S} s: {said[-1500:]}"]
    if code != 0:
        if text not in said + rig.reported():
            wrong.append(f"ended with {code}, and nobody says '{text}': {said[-1500:]}")
        subprocess.run([rig.tool, "request", rig.run, "resume"], check=True)
        code, said = rig.drive()
        if code != 0:
            wrong.append(f"a resume with a good file system ended with {code}: {said[-1500:]}")
    effects = rig.effects()
    for stage in STAGES:
        if not 1 <= effects[stage] <= rig.attempts(stage):
            wrong.append(f"{stage} was done {effects[stage]} times in {rig.attempts(stage)} attempts")
    bad = subprocess.run([rig.tool, "verify", rig.run], capture_output=True, text=True)
    if bad.returncode != 0:
        wrong.append(f"artifacts: {bad.stdout}{bad.stderr}")
    return hits, wrong


def play(programs, here, number, case):
    folder = here / str(number)
    try:
        return one_run(programs, folder, *case)
    except CannotBegin as error:
        return 0, [str(error)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clock_jumps(programs, folder):
    """Twenty hours ahead in the midst of a run, and back."""
    rig = Rig(programs, folder)

    def jump():
        for hours in (20, -20, 0):
            time.sleep(0.15)
            with open(rig.plan, "a") as plan:
                plan.write(f"clock - ahead_ms={hours * 3_600_000}\n")
    code, said = rig.drive(meanwhile=jump)
    effects = rig.effects()
    if code != 0 or any(effects[stage] != 1 for stage in STAGES):
        return [f"ended with {code}, done {dict(effects)}: {said[-1500:]}"]
    return []


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
    failed = 0
    with tempfile.TemporaryDirectory(prefix="longhaul-calls-") as name:
        here = pathlib.Path(name)
        calls = calls_of(programs, here / "untouched")
        cases = [(*call, answer) for call in calls for answer in ANSWERS if call[1] in answer[1]]
        if given.only:
            cases = [case for case in cases if ":".join(case[:3]) == given.only]
        total = len(cases)
        if given.runs and given.runs < total:
            cases = random.Random(given.seed).sample(cases, given.runs)
        print(f"{len(calls)} calls of {CONTROLLER} and {LEAD}; {len(cases)} of {total} cases", flush=True)
        missed = 0
        with concurrent.futures.ThreadPoolExecutor(given.beside) as players:
            played = players.map(lambda numbered: play(programs, here, *numbered), enumerate(cases))
            for (program, call, path, answer), (hits, wrong) in zip(cases, played):
                missed += hits == 0
                failed += bool(wrong)
                for line in wrong:
                    print(f"FAILED {program}:{call}:{path}, {answer[0]}: {line}", flush=True)
        wrong = clock_jumps(programs, here / "clock")
        failed += bool(wrong)
        for line in wrong:
            print(f"FAILED a clock that jumps: {line}")
        if missed > len(cases) // 4:
            failed += 1
            print(f"FAILED: {missed} of {len(cases)} calls were not made again")
    count = len(cases) + 1
    print(f"test cases: {count} | {count - failed} passed | {failed} failed | 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
