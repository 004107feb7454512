#!/usr/bin/env python3
"""Kills the controllers of runs on a real Slurm and counts from outside what came of it: exactly one job for every attempt.

A run has twelve stages: a matrix that is an array, a fan-in, one that fails, one that runs because of it and one that runs
whatever became of it. Each appends its name to a file that no part of Longhaul knows of. The real commands drive it, one
after the other or two at once, killed (SIGKILL) at a fault point and passage drawn at random, or at any instant, or standing
still just before a submission while another takes over; every fifth run is driven by the leads of its own jobs, whose ticks are alive at the same time; every sixth is cancelled.

Checked: slurmctld's own record has one job for each attempt, and no other of this run; every attempt had its side effect
once; no stage took a second attempt, but for the one that fails, where that was asked for (`resume`); every artifact has
the content that its graph says; requests are answered; nothing of the run is left in the queue. Every controller point
was hit at least --hits-min times over all runs.

usage: kill_controller_slurm.py LONGHAUL [--runs 30] [--seed N] [--only RUN] [--jobs 5]
"""
import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time

from slurm_cluster import ClusterError, attach, backends, wait_for

# name, inputs, edges without an artifact, ends well
GRAPH = [
    ("fetch", [], [], True), ("rules", [], [], True), ("tokens", ["fetch"], [], True),
    ("train", ["tokens"], [], True),  # three variants
    ("merge", ["train", "rules"], [], True), ("probe", ["rules"], [], False),
    ("rescue", [], ["afternotok:probe"], True), ("tidy", [], ["afterany:probe"], True),
    ("check", ["merge"], [], True), ("report", ["check"], ["rescue", "tidy"], True),
]
VARIANTS = {"train": [f"train/environment.X={n}" for n in (1, 2, 3)]}
ONCE = {"controller_epoch_claimed", "controller_after_request"}  # passed once a controller; others in every round with news
SUBMIT_DEADLINE_S = 4  # what gave no answer is believed lost after half as long again
SLOW_MS = 8_000  # longer than another controller waits before it believes that a job was never submitted
RUN_DEADLINE_S = 240
TAKEN_OVER, INTERRUPTED, KILLED = 9, 7, -9


def points_of(longhaul, prefix):
    """The names that the program itself knows: a new point is killed at without a change here."""
    tool = os.path.join(os.path.dirname(os.path.realpath(longhaul)), "fault_drive")
    listed = subprocess.run([tool, "points", prefix], check=True, capture_output=True, text=True).stdout.split()
    if not listed:
        raise SystemExit(f"fault_drive knows no point of {prefix}")
    return listed


def workflow_text(name, effects):
    text = f'[workflow]\nname = "{name}"\n'
    for stage, inputs, edges, well in GRAPH:
        label = f"{stage}$X" if stage in VARIANTS else stage
        script = "".join(f'cat "$LONGHAUL_INPUT_{i.upper()}"; ' for i in inputs)
        script = f'{{ {script}echo {label}; }} > "$LONGHAUL_OUT/text"; echo {label} >> {effects}'
        text += f'[stage.{stage}]\nkind = "command"\nthreads = 1\ntime_limit = "10min"\n'
        if stage in VARIANTS:
            text += 'matrix = { environment = { X = ["1", "2", "3"] } }\nbest = { metric = "n", mode = "max" }\n'
            script += '; echo "{\\"figures\\": {\\"n\\": $X}}" > "$LONGHAUL_OUT/artifact.json"'
        if not well:
            text += 'retries = 0\non_failure = "continue"\n'
            script += "; exit 3"
        if inputs:
            text += "inputs = { " + ", ".join(f'{i} = "@{i}/text"' for i in inputs) + " }\n"
        if edges:
            text += f"needs = {json.dumps(edges)}\n"
        text += f"script = '''{script}'''\n[stage.{stage}.job]\ngpus_per_node = 0\nexclusive = \"no\"\n"
    return text


def expected_stages():
    """{stage id: (label in the file of effects, text of its artifact or None)}"""
    best, found = {}, {}
    for stage, inputs, _, well in GRAPH:
        before = "".join(best[i] for i in inputs)
        for n, id in enumerate(VARIANTS.get(stage, [stage])):
            label = f"{stage}{n + 1}" if stage in VARIANTS else stage
            best[stage] = f"{before}{label}\n"  # of variants, the last is the best
            found[id] = (label, best[stage] if well else None)
    return found


class Run:
    def __init__(self, args, number):
        self.args, self.number = args, number
        self.rng = random.Random(f"{args.seed}/{number}")
        self.folder = args.scratch / f"{number:03d}"
        self.folder.mkdir()
        self.effects, self.log = self.folder / "effects", self.folder / "controllers.log"
        (self.folder / "w.toml").write_text(workflow_text(f"k{number}", self.effects))
        self.backend = backends()[-1] if number % 4 == 1 else "cli"
        self.lead = number % 5 == 2
        self.two = number % 3 == 0
        self.cancel_at = self.rng.randint(0, 9) if number % 6 == 5 else None  # number of side effects
        self.points, self.random_kills = self.draw_points(), self.rng.randint(0, 2)
        self.controllers = self.kills = self.resumes = 0
        self.wrong, self.asked_cancel = [], False

    # ------------------------------------------------------------------------------------------------------ what is driven
    def path(self):
        """The run's folder, once there is one."""
        found = [p for p in (self.folder / "runs").glob("k*") if p.is_dir()] if (self.folder / "runs").exists() else []
        if len(found) > 1:
            raise ClusterError(f"more than one run was created: {found}")
        return found[0] if found else None

    def done_effects(self):
        return self.effects.read_text().split() if self.effects.exists() else []

    def state(self, run):
        done = self.args.cluster.call(self.args.longhaul, "status", run, "--json", check=False)
        return json.loads(done.stdout)["state"]

    def command(self, run, point):
        """The next controller; what it is asked for does not matter, all of them drive."""
        if run is None:
            arguments = ["submit", self.folder / "w.toml", "--driver", "lead"] if self.lead else ["run", self.folder / "w.toml"]
            return arguments + ["--runs-dir", self.folder / "runs", "--site", "test-cluster", "--set", 'site.poll_interval="0.5s"',
                            "--set", f'site.submit_deadline="{SUBMIT_DEADLINE_S}s"',
                            "--set", f'site.slurm_backend="{self.backend}"']
        if self.cancel_at is not None and len(self.done_effects()) >= self.cancel_at and \
                (not self.asked_cancel or self.rng.random() < 0.5):
            self.asked_cancel = True
            return ["cancel", run]
        if point == "controller_after_request" and not self.asked_cancel:
            return self.resume(run)
        if self.lead:
            return ["tick", run, "--until-quiet", "--patience", "30s"]
        if self.rng.random() < 0.3:
            return ["tick", run, "--until-quiet", "--patience", "5s"]
        return ["tick", run, "--for", "60s"] if self.asked_cancel or self.rng.random() < 0.5 else self.resume(run)

    def resume(self, run):
        """Has to be answered, and lets the stage that failed try again if it has done so by then."""
        self.resumes += 1
        return ["resume", run]

    def start(self, arguments, point=None, slow=False):
        if point or slow:
            passage = 1 if point in ONCE else self.rng.randint(1, 3)
            plan = self.folder / f"{'slow' if slow else 'plan'}{self.controllers}"
            plan.write_text(f"controller_before_submit delay_ms={SLOW_MS}\n" if slow else f"{point} kill nth={passage}\n")
            arguments = [*arguments, "--fault-plan", plan]
        self.controllers += 1
        with open(self.log, "ab") as log:
            log.write((" ".join(map(str, arguments)) + "\n").encode())
            log.flush()
            return subprocess.Popen([self.args.longhaul, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    env=self.args.cluster.environment, cwd=self.folder)

    def draw_points(self):
        """One by the run's number, so that none is left to chance alone."""
        points = [self.args.points[self.number % len(self.args.points)], *self.rng.choices(self.args.points, k=self.rng.randint(2, 4))]
        if points[0] == "controller_after_request":  # a new run has no requests
            points[:2] = points[1::-1]
        return points

    def next_point(self):
        return self.points.pop(0) if self.points else None

    def one_controller(self, run, deadline):
        """Starts the next one, with a rival or not, and waits for their ends."""
        two = run is not None and self.two and self.controllers in (1, 3, 5)
        slow = two and self.rng.random() < 0.5  # stands still when it is about to submit, and goes on as if nothing had been
        point = None if slow else self.next_point()
        processes = [self.start(self.command(run, point), point, slow)]
        if two:
            time.sleep(self.rng.random() * (1 if slow else 0.3))
            rival = ["tick", run, "--until-quiet"] if self.rng.random() < 0.3 else ["tick", run, "--for", "60s"]
            processes.append(self.start(rival, self.next_point()))
        if point is None and not slow and self.random_kills > 0:  # between the points, too: at any instruction
            self.random_kills -= 1
            try:
                processes[0].wait(timeout=self.rng.random() * 3)
            except subprocess.TimeoutExpired:
                processes[0].kill()
        elif self.cancel_at is not None and not self.asked_cancel:  # cancelled while it is driven
            while processes[0].poll() is None and len(self.done_effects()) < self.cancel_at and time.monotonic() < deadline:
                time.sleep(0.1)
            if (run := self.path()) and processes[0].poll() is None:
                self.asked_cancel = True
                processes.append(self.start(["cancel", run]))
        for process in processes:
            try:
                code = process.wait(timeout=max(1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                raise ClusterError(f"{' '.join(process.args)} did not end") from None
            self.kills += code == KILLED
            allowed = {0, KILLED, TAKEN_OVER} | ({INTERRUPTED} if self.cancel_at is not None else set())
            if code not in allowed:
                self.wrong.append(f"exit code {code}: {' '.join(process.args[1:])}")
            if code not in allowed and run is None and not self.path():
                raise ClusterError(f"no run was made\n{self.log.read_text()[-1000:]}")

    def drive(self):
        deadline = time.monotonic() + RUN_DEADLINE_S
        while True:
            run = self.path()
            if run and (state := self.state(run)) != "running":
                return run, state
            if time.monotonic() > deadline:
                raise ClusterError(f"not complete within {RUN_DEADLINE_S} s and {self.controllers} controllers")
            self.one_controller(run, deadline)
            if self.lead:
                time.sleep(self.rng.random() * 1.5)  # the leads' turn

    # ------------------------------------------------------------------------------------------------------ what came of it
    def queue(self, run):
        lines = self.args.cluster.call("squeue", "-h", "-o", "%i %T %j %Z").stdout.splitlines()
        return [line for line in lines if run.name in line]

    def check(self, run, state):
        wrong = self.wrong
        complete = state == "succeeded"
        if not complete and not (state == "cancelled" and self.asked_cancel):
            wrong.append(f"the run is {state}")
        try:
            wait_for("an empty queue", lambda: not self.queue(run), 60)
        except ClusterError:
            wrong.append(f"left in the queue: {self.queue(run)}")
        def open_requests():  # one that was killed before it had asked may leave a half-made file
            return [name for name in os.listdir(run / "requests") if name.endswith(".json")]
        if open_requests():  # whoever was to remove the last may have been killed over it
            self.args.cluster.call(self.args.longhaul, "tick", run, check=False)
        if left := open_requests():
            wrong.append(f"unanswered requests: {left}")
        self.check_stages(run, complete)
        self.check_records(run, complete)

    def attempts(self, run, id):
        folder = run / "stages" / id / "attempts"
        return sorted(os.listdir(folder)) if folder.is_dir() else []

    def check_stages(self, run, complete):
        effects = collections.Counter(self.done_effects())
        stages = expected_stages()
        if unknown := set(effects) - {label for label, _ in stages.values()}:
            self.wrong.append(f"side effects of nobody: {unknown}")
        for id, (label, text) in stages.items():
            attempts, most = self.attempts(run, id), 1 if text else 1 + self.resumes
            if len(attempts) > most or (complete and not attempts):
                self.wrong.append(f"{id} took attempts {attempts}")
            if effects[label] > len(attempts) or (complete and effects[label] != len(attempts)):
                self.wrong.append(f"the side effect of {id} happened {effects[label]} times in {len(attempts)} attempts")
            artifact = run / "stages" / id / "out"
            if artifact.exists() and not text or complete and text and not artifact.exists():
                self.wrong.append(f"{id} {'has an' if artifact.exists() else 'has no'} artifact")
            elif artifact.exists():
                files = {f["path"]: f["bytes"] for f in json.loads((artifact / "manifest.json").read_text())["files"]}
                there = {p.name: p.stat().st_size for p in artifact.iterdir() if p.name in files}
                if files != there or (artifact / "text").read_text() != text:
                    self.wrong.append(f"the artifact of {id} is not what its graph says: {files} {there}")

    def check_records(self, run, complete):
        """One line of slurmctld's own record for each attempt; each task of an array has one."""
        expected = {f"lh-{run.name}-{stage}": sum(len(self.attempts(run, id)) for id in VARIANTS.get(stage, [stage]))
                    for stage, _, _, _ in GRAPH}
        records = []

        def all_there():
            records[:] = [r for r in self.args.cluster.records() if run.name in r["Name"] or run.name in r["WorkDir"]]
            return not complete or len(records) >= sum(expected.values())
        try:
            wait_for("slurmctld's record of every job", all_there, 20)
        except ClusterError:
            pass  # reported below, job by job
        ids = collections.Counter(r["JobId"] for r in records)
        if twice := [id for id, n in ids.items() if n > 1]:
            self.wrong.append(f"jobs with more than one life: {twice}")
        jobs = collections.Counter(r["Name"].rsplit(".", 2)[0] for r in records)  # without attempt and digits of its key
        for name in sorted(set(jobs) | set(expected)):
            if jobs[name] > expected.get(name, 0) or (complete and jobs[name] != expected.get(name, 0)):
                ids = [(r["JobId"], r["JobState"], r["SubmitTime"]) for r in records if r["Name"].startswith(name + ".")]
                self.wrong.append(f"{jobs[name]} jobs {name} instead of {expected.get(name, 0)}: {ids}")

    def whole(self):
        started = time.monotonic()
        try:
            run, state = self.drive()
            self.check(run, state)
        except Exception as error:  # a broken test is a failed one
            self.wrong.append(f"{type(error).__name__}: {error}")
            state = "?"
        hits = collections.Counter()
        for path in self.folder.glob("*.hits"):
            hits.update("slow" if path.name.startswith("slow") else line.split()[0] for line in path.read_text().splitlines())
        if not self.wrong and not self.args.keep:
            shutil.rmtree(self.folder)
        return state, hits, time.monotonic() - started


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("longhaul", type=os.path.abspath)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--hits-min", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="also the folders of runs that went well")
    args = parser.parse_args()
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 32)
    args.points = points_of(args.longhaul, "controller_")
    args.cluster = attach()
    args.scratch = args.cluster.scratch / f"kill-{args.seed}-{os.getpid()}"
    args.scratch.mkdir()
    return args


def main():
    args = read_arguments()
    print(f"seed {args.seed}, {args.runs} runs in {args.scratch}", flush=True)
    started = time.monotonic()
    numbers = [args.only] if args.only is not None else list(range(args.runs))
    lock, hits, totals, longest = threading.Lock(), collections.Counter(), collections.Counter(), 0

    def work():
        nonlocal longest
        while True:
            with lock:
                if not numbers:
                    return
                run = Run(args, numbers.pop(0))
            state, mine, seconds = run.whole()
            with lock:
                hits.update(mine)
                longest = max(longest, seconds)
                totals.update({"runs": 1, state: 1, "controllers": run.controllers, "kills": run.kills, "problems": len(run.wrong),
                               "bad runs": int(bool(run.wrong))})
                for text in run.wrong:
                    print(f"run {run.number} (--seed {args.seed} --only {run.number}; {run.backend}"
                          f"{', lead' if run.lead else ''}{', two' if run.two else ''}; {run.folder}): {text}", flush=True)

    threads = [threading.Thread(target=work) for _ in range(args.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    problems = totals["problems"]
    print(f"{totals['runs']} runs: {totals['succeeded']} succeeded, {totals['cancelled']} cancelled; {totals['controllers']} "
          f"controllers, {totals['kills']} killed; {hits['slow']} stood still; "
          f"{time.monotonic() - started:.0f} s, longest run {longest:.0f} s")
    for point in args.points:
        few = args.only is None and hits[point] < args.hits_min
        problems += few
        print(f"{point:28} {hits[point]:4}{'   too few' if few else ''}")
    if problems == 0 and not args.keep:
        shutil.rmtree(args.scratch)
    failed = totals["bad runs"]
    print(f"test cases: {totals['runs']} | {totals['runs'] - failed} passed | {failed} failed | 0 skipped")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
