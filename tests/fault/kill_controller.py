#!/usr/bin/env python3
"""Kills controllers at named fault points and counts from outside what the stages did.

A run has the nine stages of the quickstart's graph; each appends its name to a file that no part of Longhaul knows of. A
controller drives it and is killed (SIGKILL) at a point and passage drawn at random; another takes its place, until the run
is complete. Checked: every run completes; every stage's side effect happened exactly once; every artifact is whole
(digests read again); every controller point was hit at least --hits-min times over all runs.

Every third run has two controllers at once: the older one has to stop by itself, and nothing may be doubled.
One run again:  kill_controller.py --bin BIN --seed SEED --only RUN
"""
import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

GRAPH = [
    ("corpus", []), ("questions", []), ("tokens", ["corpus"]), ("pretrain", ["tokens"]), ("sft", ["pretrain", "questions"]),
    ("align", ["sft", "questions"]), ("evaluate", ["align", "tokens"]), ("quantize", ["align"]), ("deploy", ["quantize", "evaluate"]),
]
# How often a point is passed before the kill: once for what happens once a controller, more where rounds repeat.
PASSAGES = {"controller_epoch_claimed": 1, "controller_after_request": 1, "controller_end_of_tick": 40}
DEADLINE_S = 60


def points_of(bin_folder, prefix):
    """The names that the program itself knows: a new point is killed at without a change here."""
    listed = subprocess.run([os.path.join(bin_folder, "fault_drive"), "points", prefix], check=True, capture_output=True, text=True)
    if not listed.stdout.split():
        raise SystemExit(f"fault_drive knows no point of {prefix}")
    return listed.stdout.split()


def write_graph(folder):
    stages = []
    for name, needs in GRAPH:
        script = "".join(f'cat "$LONGHAUL_INPUT_{n.upper()}/text"\n' for n in needs)
        script = f'{{ {script or ":"}\n echo {name}; }} > "$LONGHAUL_OUT/text"\necho {name} >> {folder}/effects\n'
        stages.append({"id": name, "script": script, "needs": needs})
    path = os.path.join(folder, "stages.json")
    with open(path, "w") as file:
        json.dump(stages, file)
    return path


def one_run(args, number, hits):
    """Returns a list of what is wrong, and how many controllers it took."""
    rng = random.Random(f"{args.seed}/{number}")
    folder = tempfile.mkdtemp(prefix=f"kill{number:03d}-", dir=args.scratch)
    tool = os.path.join(args.bin, "fault_drive")
    graph = write_graph(folder)
    run = subprocess.run([tool, "create", f"{folder}/runs", f"{folder}/artifacts", graph], check=True, capture_output=True,
                         text=True).stdout.strip()
    started, controllers, wrong, fired = time.monotonic(), 0, [], 0
    kills_left = rng.randint(2, 6)
    random_kills = rng.randint(0, 3)
    # The run-independent order of points makes sure that none is left to chance alone.
    first = args.points[number % len(args.points)]
    while True:
        command = [tool, "drive", run, "--slots", "2"]
        point = None
        if kills_left > 0:
            point = first if controllers == 0 else rng.choice(args.points)
            passage = rng.randint(1, PASSAGES.get(point, 6))
            plan = f"{folder}/plan{controllers}"
            with open(plan, "w") as file:
                file.write(f"{point} kill nth={passage}\n")
            command += ["--plan", plan]
            kills_left -= 1
        if point == "controller_after_request":
            subprocess.run([tool, "request", run, "resume"], check=True)  # changes nothing, but has to be answered
        errors = open(f"{folder}/controller.log", "ab")
        rival = number % 3 == 0 and controllers == 1
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        if rival:
            time.sleep(rng.random() * 0.05)
            second = subprocess.Popen([tool, "drive", run, "--slots", "2"], stdout=subprocess.DEVNULL, stderr=errors)
        controllers += 1
        if point is None and random_kills > 0:  # between the points, too: at any instruction
            random_kills -= 1
            try:
                process.wait(timeout=rng.random() * 0.08)
            except subprocess.TimeoutExpired:
                process.kill()
        try:
            code = process.wait(timeout=DEADLINE_S)
            if rival:
                # One of them goes on; the other was killed by its plan, or noticed the newer epoch, or found the run ended.
                code2 = second.wait(timeout=DEADLINE_S)
                if code2 not in (0, 4) or code not in (0, 4, -9):
                    wrong.append(f"two controllers ended with {code} and {code2}")
                if 0 in (code, code2):
                    code = 0
        except subprocess.TimeoutExpired:
            process.kill()
            wrong.append(f"controller {controllers} did not end within {DEADLINE_S} s")
            break
        if point and os.path.exists(f"{plan}.hits"):
            fired += 1
            with open(f"{plan}.hits") as file:
                for line in file:
                    hits[line.split()[0]] += 1
        if code == 0:
            break
        if code not in (-9, 4):
            wrong.append(f"a controller ended with {code}")
            break
        if controllers > 60:
            wrong.append("60 controllers did not complete the run")
            break
    effects = collections.Counter()
    if os.path.exists(f"{folder}/effects"):
        with open(f"{folder}/effects") as file:
            effects.update(file.read().split())
    for name, _ in GRAPH:
        if effects[name] != 1:
            wrong.append(f"side effect of {name} happened {effects[name]} times")
        if not os.path.exists(f"{run}/stages/{name}/out/manifest.json"):
            wrong.append(f"no artifact of {name}")
        folder_of_attempts = f"{run}/stages/{name}/attempts"
        attempts = os.listdir(folder_of_attempts) if os.path.isdir(folder_of_attempts) else []
        if attempts != ["1"]:
            wrong.append(f"{name} took attempts {attempts}")
    verified = subprocess.run([tool, "verify", run], capture_output=True, text=True)
    if verified.returncode != 0:
        wrong.append(verified.stdout + verified.stderr)
    status = json.loads(subprocess.run([tool, "status", run], check=True, capture_output=True, text=True).stdout)
    if status["state"] != "succeeded":
        wrong.append(f"the run is {status['state']}")
    if os.listdir(f"{run}/requests"):
        wrong.append("unanswered requests are left")
    if wrong:
        print(f"run {number} (seed {args.seed}) is kept in {folder}", flush=True)
    else:
        shutil.rmtree(folder)
    return wrong, controllers, fired, time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--hits-min", type=int, default=3)
    parser.add_argument("--scratch", default="/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())
    args = parser.parse_args()
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {args.seed}, {args.runs} runs", flush=True)
    args.points = points_of(args.bin, "controller_")
    args.scratch = tempfile.mkdtemp(prefix="longhaul-kill-", dir=args.scratch)
    started = time.monotonic()
    numbers = [args.only] if args.only is not None else list(range(args.runs))
    hits, lock, results = collections.Counter(), threading.Lock(), []

    def work():
        while True:
            with lock:
                if not numbers:
                    return
                number = numbers.pop(0)
            mine = collections.Counter()
            try:
                result = one_run(args, number, mine)
            except Exception as error:  # a broken test is a failed one
                result = ([f"{type(error).__name__}: {error}"], 0, 0, 0)
            with lock:
                hits.update(mine)
                results.append((number, *result))

    threads = [threading.Thread(target=work) for _ in range(args.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = 0
    for number, wrong, _, _, _ in sorted(results):
        for text in wrong:
            failed += 1
            print(f"run {number}: {text}")
    total = sum(r[2] for r in results)
    print(f"{len(results)} runs, {total} controllers, {sum(hits.values())} kills, {time.monotonic() - started:.1f} s, "
          f"longest run {max(r[4] for r in results):.1f} s")
    print(f"{'fault point':28} hits")
    for point in args.points:
        short = args.only is None and hits[point] < args.hits_min
        failed += short
        print(f"{point:28} {hits[point]:4}{'   too few' if short else ''}")
    if failed == 0:
        shutil.rmtree(args.scratch)
    print("ok" if failed == 0 else f"{failed} problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
