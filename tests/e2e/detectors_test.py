#!/usr/bin/env python3
"""What the lead notices of a training that goes on: a slow rank, a loss that is no number, ranks out of step, no progress.

usage: detectors_test.py LONGHAUL SOURCE_DIR [parts of case names]
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

from scenario import LONGHAUL, PATIENCE, SOURCE, Skip, case, expect, json_lines, longhaul, main, newest_run, processes_holding, runs, wait_for
from tiny_inputs import tokens_of_pages, write_pages

SEED = 20260402
STEPS_BAR = 20
# Of a rank that is slowed down: what a small cpu.max of a control group would do to it. On a machine that is busy anyway it
# had little more than a tenth of a core before.
RUNS_S, STANDS_S = 0.006, 0.094
BASELINE_STEPS = 110  # a rank of two has only its own past: five steps of warm-up and a block of 64
TRAINING = tokens_of_pages("slow") + """[stage.train]
kind = "pretrain"
inputs = { tokens = "@tokens" }
threads = 1
precision = "f32"
steps = 100000
sequence_length = 64
micro_batch_size = 2
global_batch_size = 112
model = { hidden_size = 64, num_hidden_layers = 4, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64 }
parallel = { dp_shard = 2, zero = 1 }
"""


class Foreground:
    """`longhaul run` in a session of its own."""

    def __init__(self, here, text, name="w.toml"):
        (here / name).write_text(text)
        self.here = here
        self.process = subprocess.Popen([LONGHAUL, "run", name], cwd=here, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def events(self, stage, kind=None):
        found = runs(self.here)
        path = found and found[-1] / "stages" / stage / "attempts/1/events.jsonl"
        facts = json_lines(path) if path else []  # Python reads NaN as it writes it
        return [e for e in facts if kind in (None, e["kind"])]

    def story(self):
        found = runs(self.here)
        logs = found[-1].glob("stages/*/attempts/1/lead.log") if found else []
        return "".join(p.read_text(errors="replace")[-3000:] for p in logs)

    def finish(self, seconds=60):
        try:
            out, _ = self.process.communicate(timeout=seconds)
        finally:
            self.kill()
        return self.process.returncode, out

    def kill(self):
        if self.process.poll() is None:
            # The stage's job has a session of its own, and goes on without us.
            subprocess.run([LONGHAUL, "cancel", "latest"], cwd=self.here, stdin=subprocess.DEVNULL, capture_output=True, timeout=60 * PATIENCE)
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def ranks_of(run):
    """Process ids of the training's ranks, by rank."""
    found = {}
    for pid in processes_holding("OMPI_COMM_WORLD_RANK="):
        try:
            arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if arguments.split(b"\0")[0].endswith(b"longhaul-engine") and run.name.encode() in arguments and b"/train/" in arguments:
            found[int(next(e.split(b"=")[1] for e in environment if e.startswith(b"OMPI_COMM_WORLD_RANK=")))] = pid
    return found


def pin(pid, core):
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def waited_for_a_core(pid):
    """Seconds that the process stood in the queue of its core, of all its threads, and its core in the queue of the
    hypervisor (a core of its own is what the process has here): what other programs cost it."""
    queued = sum(int((t / "schedstat").read_text().split()[1]) for t in pathlib.Path(f"/proc/{pid}/task").iterdir()) * 1e-9
    cores = os.sched_getaffinity(pid)
    lines = [line.split() for line in pathlib.Path("/proc/stat").read_text().splitlines() if line.startswith("cpu")]
    return queued + sum(int(arguments[8]) for arguments in lines if arguments[0][3:] in {str(c) for c in cores}) / os.sysconf("SC_CLK_TCK")


class Throttle:
    """Lets a process run for a small part of the time until it is closed."""

    def __init__(self, pid):
        self.pid, self.over = pid, threading.Event()
        self.thread = threading.Thread(target=self.throttle)
        self.thread.start()

    def throttle(self):
        try:
            while not self.over.wait(RUNS_S):
                os.kill(self.pid, signal.SIGSTOP)
                self.over.wait(STANDS_S)
                os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def close(self):
        self.over.set()
        self.thread.join()


def newest_step(job):
    steps = [e["step"] for e in job.events("train", "metric") if "loss" in e]
    return steps[-1] if steps else 0


def slow_now(job):
    """Ranks reported as slow and not yet as fast again."""
    ranks = set()
    for event in job.events("train"):
        if event["kind"] == "straggler":
            ranks.add(event["rank_of"])
        elif event["kind"] == "straggler_over":
            ranks.discard(event["rank_of"])
    return ranks


class Undisturbed:
    """Steps in which nothing is done to the ranks, and how much other programs of this machine did all the same."""

    def __init__(self, job, ranks, steps):
        begun, before = time.monotonic(), {r: waited_for_a_core(p) for r, p in ranks.items()}
        first = newest_step(job)
        wait_for(f"{steps} steps", lambda: newest_step(job) >= first + steps, 240, job.story)
        seconds = time.monotonic() - begun
        self.share = max((waited_for_a_core(p) - before[r]) / seconds for r, p in ranks.items())
        self.step_s = seconds / (newest_step(job) - first)
        self.findings = [e for e in job.events("train", "straggler") if e["rank_of"] >= 0]  # all at once: the machine


@case
def a_slowed_rank_is_found_within_20_steps_and_nobody_before(here):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise Skip("two cores are needed")
    write_pages(here / "pages", SEED, pages=8)
    job, throttle = Foreground(here, TRAINING), None
    try:
        wait_for("the training's first steps", lambda: newest_step(job) >= 3, 120, job.story)
        ranks = wait_for("two ranks", lambda: (lambda r: r if len(r) == 2 else None)(ranks_of(newest_run(here))))
        for rank, pid in ranks.items():
            pin(pid, cores[rank])
        calm = Undisturbed(job, ranks, BASELINE_STEPS)
        print(f"  undisturbed: {BASELINE_STEPS} steps of {calm.step_s:.3f} s, {len(calm.findings)} findings (bar: none); other "
              f"programs held a rank's core for at most {100 * calm.share:.1f} % of the time", flush=True)
        expect("an undisturbed rank is no straggler, unless other programs of this machine slowed it down",
               not calm.findings or calm.share > 0.05, calm.findings)
        # One that other programs do not slow down anyway; where they slow both it may be over in a while.
        victim = wait_for("a rank that is not slow yet", lambda: next((str(r) for r in (1, 0) if r not in slow_now(job)), None), 120, job.story)
        known, victim = len(job.events("train", "straggler")), int(victim)
        onset = newest_step(job) + 1
        throttle = Throttle(ranks[victim])
        def found():
            return next((e for e in job.events("train", "straggler")[known:] if e["rank_of"] == victim), None)
        slow = wait_for("the slow rank is found", found, 120, lambda: f"{job.events('train', 'straggler')}\n{job.story()}")
        steps = slow["step"] - onset
        print(f"  slowed from outside: found {steps} steps after the onset (bar: {STEPS_BAR}), it took {slow['slowdown']:.2f} times "
              f"as long; the onset is reported as step {slow['since_step']}, it was {onset}", flush=True)
        expect(f"found within {STEPS_BAR} steps", steps <= STEPS_BAR, slow)
        expect("slower than it was", slow["slowdown"] >= 1.15, slow)
        # Medians over the last 15 looks, of which most were before the onset where steps of noise let it be found sooner.
        expect("slower than the other one", slow["relative_score"] <= 0.9 or steps < 8, slow)
        expect("since the onset, or a few steps of noise before it", onset - 15 <= slow["since_step"] <= onset + STEPS_BAR, (onset, slow))
        expect("its host is named", slow["host"], slow)
        expect("the other one is not", not [e for e in job.events("train", "straggler")[known:] if e["rank_of"] == 1 - victim])
        # There is no other host to go to, and it may be over soon: people are not informed yet.
        longhaul(here, "status", "latest", code=0, never="straggler")
        throttle.close()
        wait_for("its end is reported", lambda: [e for e in job.events("train", "straggler_over") if e["step"] > slow["step"]], 120, job.story)
        expect("nobody was ended for it", not job.events("train", "fault"))
        longhaul(here, "cancel", "latest", deadline_s=60)
        job.finish()
    finally:
        if throttle:
            throttle.close()
        job.kill()


def command(script, more="", ranks=1):
    return (f'[workflow]\nname = "reported"\n[stage.train]\nkind = "command"\nranks = {ranks}\n'
            f'inputs = {{ client = "longhaul_beat.py" }}\n{more}script = \'\'\'\n'
            f'export PYTHONPATH="$(dirname "$LONGHAUL_INPUT_CLIENT")"\n"{sys.executable}" - <<"END"\n{script}\nEND\n\'\'\'\n')


def with_client(here):
    shutil.copy(SOURCE / "workflows/examples/pytorch/longhaul_beat.py", here / "longhaul_beat.py")


LOSSES = """import json, os, time
reported = open(os.environ["LONGHAUL_EVENTS"], "a")
for step in range(1, 61):
    loss = float("nan") if step > 40 else 30.0 if step == 30 else 2 + 0.01 * (step % 3)
    reported.write(json.dumps({"ms": int(time.time() * 1000), "kind": "metric", "rank": 0, "step": step, "loss": loss}) + "\\n")
    reported.flush()
    time.sleep(0.05)
open(os.environ["LONGHAUL_OUT"] + "/done", "w").write("x")
"""


@case
def a_loss_that_is_no_number_is_reported_and_ends_the_stage_where_it_should(here):
    with_client(here)
    job = Foreground(here, command(LOSSES))
    code, out = job.finish()
    expect("it is only reported", code == 0, out)
    reported = [(e["kind"], e["step"]) for e in job.events("train") if e["kind"].startswith("loss_")]
    expect("the spike, its end, and the first NaN", reported == [("loss_spike", 30), ("loss_spike_over", 31), ("loss_nan", 41)], reported)
    longhaul(here, "status", "latest", code=0, says=["loss_nan", "step 41: the loss is not a number"])
    job = Foreground(here, command(LOSSES + "# again\n", 'retries = 2\nresiliency = { on_nan = "stop", restarts = 2 }\n'), "stop.toml")
    code, out = job.finish()
    expect("it is ended", code != 0 and "the loss is not a number" in out, out)
    fault = job.events("train", "fault")
    expect("for good, with its class", len(fault) == 1 and (fault[0]["class"], fault[0]["tier"]) == ("loss_nan", "stop"), fault)
    attempts = list((newest_run(here) / "stages/train/attempts").iterdir())
    expect("no other job was tried", len(attempts) == 1, attempts)


OUT_OF_STEP = """import os, time
from longhaul_beat import Beat
rank, beat = int(os.environ["LONGHAUL_RANK"]), Beat()
for step in range(1, 21):
    beat.section("forward"); time.sleep(0.05)
    beat.enqueued("dp"); beat.completed("dp")
    beat.step(step)
if rank == 0:
    beat.enqueued("dp")  # one that the other rank leaves out
    beat.completed("dp")
beat.section("all-reduce")
beat.enqueued("dp"); beat.waits("dp")
time.sleep(600)
"""


@case
def ranks_out_of_step_are_found_before_the_hang(here):
    with_client(here)
    job = Foreground(here, command(OUT_OF_STEP, 'resiliency = { on_hang = "restart", restarts = 0, hang_floor = "60s" }\n', ranks=2))
    code, out = job.finish()
    expect("it is ended", code != 0, out)
    reported, fault = job.events("train", "desynchronised"), job.events("train", "fault")
    expect("reported with who is behind", reported and reported[0]["rank_of"] == 1, job.events("train"))
    expect("and acted upon", fault and fault[0]["class"] == "desynchronised" and fault[0]["detect_s"] < 10, fault)
    expect("the counts are named", "started 21 collectives" in fault[0]["cause"] and "rank 0 22" in fault[0]["cause"], fault)


NO_STEPS = """import time
from longhaul_beat import Beat
beat = Beat()
for step in range(1, 31):
    beat.section("read"); time.sleep(0.02)
    beat.section("compute"); time.sleep(0.02)
    beat.step(step)
for _ in range(100):
    beat.section("read"); time.sleep(0.02)
    beat.section("compute"); time.sleep(0.02)
beat.step(31)
"""


@case
def a_program_that_beats_and_completes_no_step_is_reported(here):
    with_client(here)
    job = Foreground(here, command(NO_STEPS, 'resiliency = { no_progress = "2s", hang_suspect = "1s", hang_act = "30s" }\n'))
    code, out = job.finish()
    reported = job.events("train", "no_progress")
    expect("it goes on to its end", code == 0 and not job.events("train", "fault"), out)
    expect("reported once, with the step", len(reported) == 1 and reported[0]["step"] == 30, reported)


if __name__ == "__main__":
    main()
