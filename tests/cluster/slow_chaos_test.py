#!/usr/bin/env python3
"""Chaos on a machine as slow as a large one: a training over four hosts whose steps take seconds and whose saves take a minute,
whose file system stands still for a minute and a half now and then, whose leads are lost, one host of which is 20 h ahead, and
for which two controllers submit at the same time. It must complete with the weights of a training that nothing happened to,
bit for bit.

usage: slow_chaos_test.py LONGHAUL [--faults N] [--seed N] [--seeds N] [--step-ms N] [--save-ms N] [--submission-ms N]
                          [--teardown-ms N] [--stall-ms N] [--stalls N] [--beside N] [--only NUMBER...] [--clusters STATE...] [--keep]

A training mostly waits: for steps that are slow on purpose, for ranks that take their time to go. `--beside 4` plays the faults of a
seed in four trainings on the same four hosts at the same time, a fourth of them in each; every training has its standstills, its
lost leads and its rival controllers. A host that freezes would take all of them: that fault comes last, in a training alone.
A host has room for four. `--clusters A B C --beside 8` distributes the trainings over clusters whose folders these are: the last one has
the training with the host that freezes, at the same time, the others four of the eight each.

After each training stand the figures of all until then. SIGTERM ends the programs, and what they have been through until then is
counted: of a training that is cut off, all faults up to its last launch, without its weights.

By default three seeds of 200 faults each, steps of 8 s, saves of 60 s, submissions of 40 s, ranks that take 30 s to go, ten
standstills of 90 s: five to six hours a seed. `--faults 8 --seeds 1 --step-ms 1500 --save-ms 8000 --stall-ms 60000 --stalls 1`
is the short form, some ten minutes.

What is looked at from outside at the end:
  weights      the same bits as undisturbed, and the loss of every step
  culprits     named rightly in 99 % (culprits.py)
  standstills  no host and no rank is reported to be at fault for one
  one writer   no two launches of the stage at the same time, whichever jobs they are of
  jobs         each that Slurm's own record has is one that the run's log knows, or never launched anything; and the other way round
"""
import argparse
import collections
import concurrent.futures
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

from chaos_test import RANK_FAULTS, Tally, Training, Whole, Wrong, compare, make_tokens, workflow
from culprits import Joined, share_missed, short, wilson_text
from evidence import Evidence
from slowness import Slowness
from slurm_cluster import SlurmCluster, attach

STEPS_APART, EVERY_STEPS = 12, 10  # between faults, and between checkpoints
# None of them takes a host for good; of those that do, one.
FAULTS = [*RANK_FAULTS, "dropped_heartbeat", "dead_standby"]
AHEAD_HOURS, AHEAD_HOST, LIMIT_HOURS = 20, "n2", 15
SILENCE = "8s"  # of an agent: longer than a control network is quick, shorter than a step and its save
ALONE = 4  # faults of the training whose host freezes, where others are played side by side
TRAININGS_OF_A_CLUSTER = 4  # its hosts have room for so many
AGAIN_MAX_S = 600  # from a fault to a step that is further: longer waits are for something that will not come
AFTER_STALL_S = 30  # in which what was reported for a standstill would be reported
DRIVER_AGAIN_S, RIVAL_S = 3, 60


def drawn_faults(draw, count, frozen=-1):
    """One every STEPS_APART steps or so, some two at the same moment; that of number `frozen` is a host that freezes."""
    faults, damaged, step = [], -100, EVERY_STEPS + 2
    for number in range(count):
        left = [n for n in FAULTS if n != "corrupted_shard" or step > max(3 * EVERY_STEPS, damaged + 3 * EVERY_STEPS)]
        name = "frozen_host" if number == frozen else draw.choice(left)
        if name == "corrupted_shard":
            damaged = step
        faults.append({"name": name, "rank": draw.randrange(4), "step": step, "lasts": SILENCE if name == "dropped_heartbeat" else "2s"})
        if draw.random() < 0.75:
            step += STEPS_APART + draw.randrange(3)
    # A fault of a rank goes through its host's agent: one that is killed at the same step is killed after that.
    return sorted(faults, key=lambda fault: (fault["step"], fault["name"] == "dead_standby"))


def trainings_of(seed, count, beside):
    """[(name, draw, faults)] that are played at the same time, and those of one that is played after them."""
    if beside == 1:
        draw = random.Random(seed)
        return [(f"seed-{seed}", draw, drawn_faults(draw, count, draw.randrange(count // 3, count) if count >= 20 else -1))], []
    alone = ALONE if count >= 20 else 0
    draws = [random.Random(f"{seed} {number}") for number in range(beside + 1)]
    shares = [(count - alone) // beside + (number < (count - alone) % beside) for number in range(beside)]
    together = [(f"seed-{seed}-{number}", draws[number], drawn_faults(draws[number], share)) for number, share in enumerate(shares) if share]
    return together, [(f"seed-{seed}-alone", draws[beside], drawn_faults(draws[beside], alone, alone // 2))] if alone else []


def slow_workflow(tokens, steps, faults):
    """The defaults of resiliency, for they are what is tried here; two hosts that work and two that wait."""
    text = workflow(tokens, steps, faults, True)
    lines = []
    for line in text.splitlines():
        if line.startswith("resiliency"):
            line = "resiliency = { restarts = 30, spares = 2 }"
        if line.startswith("checkpoint ="):
            line = f"checkpoint = {{ every_steps = {EVERY_STEPS}, keep_last = 3 }}"
        if line.startswith("kind ="):
            line += f'\ntime_limit = "{LIMIT_HOURS}h"'  # of which the clock that is ahead leaves nothing
        lines.append(line)
    return "\n".join(lines) + "\n"


class SlowTraining(Training):
    """One run on the cluster, driven by a process that is started again whenever another controller has taken over."""

    def __init__(self, folder, longhaul, tokens, steps, faults, cluster, given, draw):
        self.folder, self.longhaul, self.steps, self.faults, self.cluster, self.given = folder, longhaul, steps, faults, cluster, given
        self.ends_ms = given.teardown_ms
        folder.mkdir(parents=True)
        self.slowness = Slowness(cluster, folder, longhaul.parent, given.step_ms, given.save_ms, given.submission_ms, given.teardown_ms)
        self.slowness.wrong_clock(AHEAD_HOST, AHEAD_HOURS)
        self.site = self.slowness.site_file()
        self.stalls_due = sorted(draw.sample(range(4, max(5 + given.stalls, steps - 5)), given.stalls))
        self.stalls, self.rivals, self.rival_processes = [], 0, []
        self.evidence, self.next_look, self.known_intents, self.next_rival = None, 0, set(), 0
        self.counts_until_ms = float("inf")
        self.jobs_before = {record["JobId"] for record in cluster.records()} if cluster.jobcomp.exists() else set()
        (folder / "w.toml").write_text(slow_workflow(tokens, steps, faults))
        self.begun = self.driver_begun = time.monotonic()
        self.process = self.start("submit", "w.toml", "--site", self.site, "--driver", "here", "--runs-dir", folder / "runs")

    def start(self, *argv):
        with open(self.folder / "out.txt", "a") as out:
            return subprocess.Popen([str(self.longhaul), *map(str, argv), *self.slowness.options()], cwd=self.folder, stdin=subprocess.DEVNULL,
                                    stdout=out, stderr=out, start_new_session=True, env={**self.cluster.environment, "OMP_NUM_THREADS": "1"})

    def events(self, kind=None):
        """In the time of this machine, whichever host's lead wrote them."""
        found = super().events(kind)
        for event in found:
            if event["ms"] > time.time() * 1000 + AHEAD_HOURS * 1_800_000:
                event["ms"] -= AHEAD_HOURS * 3_600_000
        return [event for event in found if event["ms"] <= self.counts_until_ms]

    def facts(self, kind=None):
        found = []
        for log in sorted(self.run.glob("log/*.jsonl"), key=lambda p: int(p.stem) if p.stem.isdigit() else 0) if self.run else ():
            for line in log.read_text(errors="replace").splitlines():
                try:
                    fact = json.loads(line)
                except ValueError:
                    continue
                if kind in (None, fact.get("fact")):
                    found.append(fact)
        return found

    def patience(self):
        """For as long as every fault costs a restart with all that is slow in it."""
        fault_s = 2 * (self.given.step_ms + self.given.teardown_ms) / 1000 + 60
        alone = 300 + (len(self.faults) + 2) * fault_s + self.steps * (self.given.step_ms / 1000 + 1) + self.given.stalls * (self.given.stall_ms / 1000 + 120)
        return alone * (1 + (self.given.beside - 1) / 4)

    def over(self):
        if self.run and self.facts("run_ended"):
            self.process.poll()
            return True
        if time.monotonic() - self.begun > self.patience():
            return True
        if self.process.poll() is not None and time.monotonic() - self.driver_begun > DRIVER_AGAIN_S:
            if not self.run:
                return True
            self.driver_begun = time.monotonic()
            self.process = self.start("tick", self.run, "--for", "12h")
        if time.monotonic() > self.next_look and self.run:
            self.look()
            self.next_look = time.monotonic() + 2
        return False

    def newest_step(self):
        return max((e["step"] for e in self.events("metric") if "loss" in e), default=0)

    def look(self):
        self.evidence = self.evidence or Evidence(self.run / "stages/s", self.folder / "evidence")
        self.evidence.look()
        self.rival()
        if self.stalls_due and self.newest_step() >= self.stalls_due[0]:
            self.stalls_due.pop(0)
            self.stalls.append(time.time() * 1000)
            self.slowness.stall_file_system(self.given.stall_ms, self.run / "stages")

    def rival(self):
        """A second controller while a submission is in flight, as another job's end or a colleague would be."""
        self.rival_processes = [p for p in self.rival_processes if p.poll() is None]
        intents = {fact["with"].get("key") for fact in self.facts("submit")}
        new = intents - self.known_intents
        if (new or time.monotonic() > self.next_rival) and not self.rival_processes:
            self.known_intents, self.next_rival = intents, time.monotonic() + RIVAL_S
            self.rivals += bool(new)
            self.rival_processes.append(self.start("tick", self.run, "--until-quiet", "--patience", "120s"))

    def cut_off(self):
        """Ended before it was over: what came after its last launch may not have been reported yet."""
        self.end()
        self.counts_until_ms = max((e["ms"] for e in self.events("launched")), default=0) if self.run else 0

    def weights(self):
        ends = self.facts("run_ended")
        path = (self.run or self.folder) / "stages/s/out/model.safetensors"
        if not ends or ends[-1]["with"].get("state") != "succeeded" or not path.exists():
            raise Wrong(f"did not complete: {ends[-1:] or 'no end'}\n{self.story()}")
        return path.read_bytes()

    def end(self):
        for process in (self.process, *self.rival_processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.cancel_jobs()

    def cancel_jobs(self):
        """Its own, for others may be at work; those that its log does not know as well."""
        deadline = time.monotonic() + 120
        while self.run and time.monotonic() < deadline:
            lines = self.cluster.call("squeue", "--noheader", "--format=%i %Z").stdout.splitlines()
            jobs = [line.split(" ", 1)[0] for line in lines if line.split(" ", 1)[1].strip() == str(self.run)]
            if not jobs:
                return
            self.cluster.call("scancel", *jobs, check=False)
            time.sleep(1)

    # ------------------------------------------------------------------------------------------------------------ what is held
    def launches(self):
        """[(begin, end, attempt, launch)] in the events' own times; the end of one that nobody reported is the next launch's begin."""
        found = []
        events = sorted((e for e in self.events() if e["kind"] in ("launched", "ranks_ended", "published")), key=lambda e: (e["attempt"], e["ms"]))
        for event in events:
            if event["kind"] == "launched":
                found.append([event["ms"], None, event["attempt"], event.get("launch", 0)])
            elif found and found[-1][2] == event["attempt"]:
                found[-1][1] = event["ms"]
        return found

    def check_one_writer(self):
        """No launch of one attempt begins before the last one of another has ended. Clocks of hosts differ here: attempts are ordered
        by Slurm's record of their jobs."""
        job_of = {fact["with"].get("key"): str(fact["with"].get("job")) for fact in self.facts("submitted")}
        lives = collections.defaultdict(list)
        for record in self.new_records():
            if record.get("StartTime", "Unknown") != "Unknown" and record.get("NodeList", "(null)") not in ("(null)", ""):
                lives[str(record["JobId"])].append((record["StartTime"], record["EndTime"]))
        led = sorted(life for job in set(job_of.values()) for life in lives[job])
        for (_, end), (begin, _) in zip(led, led[1:]):
            if begin < end:
                raise Wrong(f"two jobs of the stage at the same time: {led}\n{self.story()}")

    def new_records(self):
        return [r for r in self.cluster.records() if r["JobId"] not in self.jobs_before and r.get("WorkDir") == str(self.run)]

    def check_jobs(self):
        reported = {str(fact["with"].get("job")) for fact in self.facts("submitted")}
        recorded = {str(record["JobId"]) for record in self.new_records()}
        if reported - recorded:
            raise Wrong(f"submitted, by the log, and not in Slurm's record: {sorted(reported - recorded)}; its record: {sorted(recorded)}")
        claims = {json.loads(p.read_text()).get("scheduler_job") for p in self.run.glob("stages/s/attempts/*/claim*.json")}
        strangers = recorded - reported
        if strangers & claims:
            raise Wrong(f"jobs that led and that the log does not know: {sorted(strangers & claims)}\n{self.story()}")
        return len(recorded), len(strangers)

    def reported_in_stalls(self):
        """Faults that were reported while the file system stood still, or right after, and that nothing was injected for."""
        wrong = [reported for injected, reported in Joined(self.events(), self.ends_ms).wrong if reported is not None]
        if not self.run:
            return []
        return [short(e) for e in wrong for begun in self.stalls if begun <= e["ms"] <= begun + self.given.stall_ms + 1000 * AFTER_STALL_S]


def judge(training, whole, sum_):
    training.look()
    training.end()
    sum_.take(training)
    problems = []

    def held(what):
        try:
            return what()
        except Wrong as wrong:
            problems.append(str(wrong))
        return None
    held(lambda: compare(training, whole))
    held(training.check_one_writer)
    jobs = held(training.check_jobs)
    accused = training.reported_in_stalls()
    if accused:
        problems.append(f"reported for a standstill of the file system: {accused}")
    late = [e for e in training.events("message") if "not injected" in e.get("text", "")]
    if late:
        problems.append(f"could not be injected: {late}")
    held(lambda: check_slowness(training))
    for begin, launches in sorted(collections.Counter(e["attempt"] for e in training.events("launched")).items()):
        print(f"  attempt {begin}: {launches} launches", flush=True)
    if problems:
        raise Wrong("\n".join(problems))
    return (f"same bits; {len(training.events('injected'))} injected, {len(training.events('fault'))} reported, {len(training.stalls)} standstills, "
            f"{training.rivals} submissions with a rival, {jobs[0]} jobs in Slurm's record, {jobs[1]} of them never led")


def check_slowness(training):
    """That what was to be slow was, and the clock wrong."""
    try:
        training.slowness.check_stretched(training.run)
        if training.stalls:
            training.slowness.check_acted(f"stall_ms={training.given.stall_ms}")
        training.slowness.check_acted(f"ahead_ms={AHEAD_HOURS * 3_600_000}")
    except Exception as error:
        raise Wrong(str(error)) from None


class Sum:
    """Of all trainings until now."""

    def __init__(self):
        self.tally, self.accused, self.standstills, self.begun = Tally(), 0, 0, time.monotonic()

    def take(self, training):
        if not training.run:
            return
        self.tally.take(training)
        self.accused += len(training.reported_in_stalls())
        self.standstills += len(training.stalls)

    def text(self):
        injected = sum(kind["injected"] for kind in self.tally.kinds.values())
        return (f"so far: {injected} faults injected, {wilson_text(self.tally.rightly, self.tally.count)}, {len(self.tally.absorbed)} absorbed, "
                f"{self.standstills} standstills, {self.accused} reported for one; {time.monotonic() - self.begun:.0f} s, load {os.getloadavg()[0]:.1f}")


class CutOff(Exception):
    """SIGTERM."""


def cut_off(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise CutOff


def clusters_of(given):
    if not given.clusters:
        return [attach()]
    clusters = [SlurmCluster(pathlib.Path(state).resolve()) for state in given.clusters]
    room = TRAININGS_OF_A_CLUSTER * max(1, len(clusters) - 1)
    if given.beside > room:
        raise SystemExit(f"--beside {given.beside}: the trainings of {len(clusters)} clusters are at most {room}, for one has a host that freezes")
    return clusters


def groups_of(seed, given, clusters):
    """[[(name, draw, faults, cluster)]]: groups one after the other, the trainings of a group at the same time."""
    together, alone = trainings_of(seed, given.faults, given.beside)
    if given.only:  # the same faults as in a whole round: what one training has shown, again
        names = [f"seed-{seed}-{number}" for number in given.only]
        together, alone = [one for one in together if one[0] in names], []
    many = clusters[:-1] or clusters
    assigned = [(*training, many[number % len(many)]) for number, training in enumerate(together)]
    last = [(*training, clusters[-1]) for training in alone]
    return [assigned + last] if len(clusters) > 1 else [group for group in (assigned, last) if group]


def play(group, given, longhaul, tokens, here, whole, sum_):
    """(cases, failed) of a group."""
    going = {}
    pool = concurrent.futures.ThreadPoolExecutor(1)  # undisturbed trainings, one after the other while the others are played
    for name, draw, faults, cluster in group:
        steps = faults[-1]["step"] + 2 * STEPS_APART
        going[SlowTraining(here / name, longhaul, tokens, steps, faults, cluster, given, draw)] = pool.submit(whole.of, steps)
    cases, failed = 0, 0
    try:
        while going:
            time.sleep(0.5)
            for training in [t for t in going if t.over()]:
                untouched = going.pop(training)
                cases += 1
                try:
                    outcome = judge(training, untouched.result(), sum_)
                except Wrong as wrong:
                    failed, outcome = failed + 1, f"FAILED: {wrong}"
                print(f"{training.folder.name} ({time.monotonic() - training.begun:.0f} s, {training.steps} steps): {outcome}", flush=True)
                print(f"  {sum_.text()}", flush=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for training in going:
            training.cut_off()
            sum_.take(training)
            print(f"{training.folder.name} ({time.monotonic() - training.begun:.0f} s): cut off at step {training.newest_step() if training.run else 0}", flush=True)
    return cases, failed


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("longhaul")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seeds", type=int, default=3, help="as many trainings, of this seed and those after it")
    parser.add_argument("--step-ms", type=int, default=8000)
    parser.add_argument("--save-ms", type=int, default=60_000)
    parser.add_argument("--submission-ms", type=int, default=40_000)
    parser.add_argument("--teardown-ms", type=int, default=30_000)
    parser.add_argument("--stall-ms", type=int, default=90_000)
    parser.add_argument("--stalls", type=int, default=10)
    parser.add_argument("--beside", type=int, default=1, help="trainings that share the faults of a seed, at the same time")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="of those of --beside, these alone")
    parser.add_argument("--clusters", nargs="+", metavar="STATE", help="their folders, where one cluster has too little room")
    parser.add_argument("--keep", action="store_true")
    return parser.parse_args()


def main():
    given = arguments()
    print(f"seed {given.seed}, {given.seeds} of them", flush=True)
    clusters = clusters_of(given)
    longhaul = pathlib.Path(given.longhaul).resolve()
    here = pathlib.Path(tempfile.mkdtemp(prefix="slow-chaos-", dir=clusters[0].scratch))
    tokens = make_tokens(here)
    whole, sum_, failed, cases = Whole(here, longhaul, tokens), Sum(), 0, 0
    signal.signal(signal.SIGTERM, cut_off)
    try:
        for seed in range(given.seed, given.seed + given.seeds):
            for group in groups_of(seed, given, clusters):
                played, wrong = play(group, given, longhaul, tokens, here, whole, sum_)
                cases, failed = cases + played, failed + wrong
                for cluster in clusters:
                    cluster.play("heal")
    except CutOff:
        print("cut off", flush=True)
        cases, failed = cases + 1, failed + 1
    tally = sum_.tally
    tally.print()
    print(sum_.text())
    if tally.count:
        cases += 1
        missed = share_missed(tally.rightly, tally.count)
        failed += 1 if missed else 0
        print(f"names: FAILED: {missed}" if missed else "names: ok")
        late = [seconds for seconds in tally.totals if seconds > AGAIN_MAX_S]
        cases, failed = cases + 1, failed + (1 if late else 0)
        print(f"training again within {AGAIN_MAX_S} s: " + (f"FAILED: {late}" if late else "ok"))
    if failed == 0 and not given.keep:
        shutil.rmtree(here)
    else:
        print(f"kept: {here}")
    print(f"test cases: {cases} | {cases - failed} passed | {failed} failed | 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
