#!/usr/bin/env python3
"""The PyTorch example with a stand-in for its training: a rank is killed, stopped, given an order, looked into.

usage: text_beat_test.py LONGHAUL SOURCE_DIR
"""
import json
import os
import pathlib
import signal
import sys

from beat_example import (facts_of, figures, finish, first_report, hangs_suspected, launches, save_and_stop_after, start_example,
                          goes_on_where_it_was_killed, went_on_from_checkpoint)
from scenario import SOURCE, case, expect, longhaul, main, wait_for

STEPS, EVERY = 200, 10
HANGS_ARE_ACTED_UPON = "on_hang" in (SOURCE / "docs/reference/workflow.md").read_text()


def start(here, more="", steps=STEPS, ranks=2):
    return start_example(here, sys.executable, SOURCE / "tests/e2e/stand_in_train.py", more, ranks, steps=steps, checkpoint_every=EVERY)


def process_past(here, rank, step):
    """The process of a rank in the first launch, once its checkpoint of `step` is there."""
    def found():
        saved = [p for p in here.glob(f"runs/*/stages/train/state/rank-{rank}.json")]
        return saved and launches(here) and json.loads(saved[0].read_text())["step"] >= step
    wait_for(f"rank {rank} saves step {step}", found)
    return first_report(launches(here)[0], rank)[0]


def went_on(here, least):
    made = went_on_from_checkpoint(here, least, STEPS, EVERY)
    expect("with the result of a training never interrupted", abs(made["slope"] - slope_after(STEPS)) < 1e-12, made)


def slope_after(steps):
    import random
    slope = 0.0
    for step in range(1, steps + 1):
        x = random.Random(step).uniform(-1, 1)
        slope -= 0.5 * (slope * x - 3 * x) * x
    return slope


@case
def a_killed_rank_goes_on_from_its_checkpoint(here):
    process = start(here)
    os.kill(process_past(here, 1, 30), signal.SIGKILL)
    finish(process)
    went_on(here, 30)
    goes_on_where_it_was_killed(here, 1, 30)


@case
def a_rank_that_is_stopped_is_shown_and_goes_on(here):
    process = start(here, steps=400)
    pid = process_past(here, 1, 20)
    os.kill(pid, signal.SIGSTOP)
    longhaul(here, "tell", "latest", "stacks", code=0, says="stacks of 2 ranks in ")
    # A suspected hang may have set these aside by now, and begun to look anew.
    stacks = next(p for p in sorted(launches(here)[0].glob("stacks*"), reverse=True) if (p / "rank-1.txt").exists())
    stopped, running = (stacks / "rank-1.txt").read_text(), (stacks / "rank-0.txt").read_text()
    expect("the stopped one is known", f"process {pid}" in stopped and "T (stopped by a signal)" in stopped, stopped)
    expect("with its program", "stand_in_train.py" in stopped, stopped)
    expect("the other one runs", "T (stopped" not in running and "stand_in_train.py" in running, running)
    state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    expect("looking at it leaves it stopped", state == "T", state)
    os.kill(pid, signal.SIGCONT)
    finish(process)
    expect("and nothing was started again", len(launches(here)) == 1, launches(here))


@case
def an_order_reaches_a_program_that_speaks_text(here):
    process = start(here, steps=100_000, ranks=1)  # the first rank hears of orders, and the stand-in does not pass them on
    process_past(here, 0, 10)
    last = save_and_stop_after(here, 250)
    finish(process)
    expect("it stopped where it was asked to", figures(here)["steps"] == last, figures(here))


def failures(here):
    return [e for e in facts_of(launches(here)[0]) if e["kind"] == "fault"]


def on_purpose(name):
    # Late enough that each section was seen: one that never was may take as long as a start.
    return f'resiliency = {{ hang_act = "5s", hang_suspect = "1s", restarts = 2 }}\n[stage.train.faults]\nat = [ {{ name = "{name}", rank = 1, step = 80 }} ]\n'


@case
def an_exception_out_of_a_signal_handler_ends_a_rank(here):
    finish(start(here, on_purpose("SIGNAL_EXC")))
    went_on(here, 20)
    log = (launches(here)[0] / "rank-1.log").read_text()
    expect("it was raised in the middle of the program", "Traceback" in log and "RuntimeError: SIGNAL_EXC" in log, log)
    expect("its rank is named", [e["rank"] for e in failures(here)] == [1], failures(here))


def a_rank_whose_interpreter_is_locked_is_found(here):
    finish(start(here, on_purpose("LOCK_GIL")))
    went_on(here, 20)
    expect("it is the one that stood still", [(e["class"], e["rank"]) for e in failures(here)] == [("hang", 1)], failures(here))


def a_hung_rank_is_found_and_goes_on_from_its_checkpoint(here):
    process = start(here, 'resiliency = { on_hang = "restart", hang_act = "5s", hang_suspect = "1s", restarts = 2 }\n')
    os.kill(process_past(here, 1, 30), signal.SIGSTOP)
    finish(process)
    went_on(here, 30)
    hung = launches(here)[0]
    suspected = hangs_suspected(hung)
    expect("the one that stood still is named, not the one that waits for it", suspected and suspected[0]["rank_of"] == 1, suspected)
    expect("its stacks were kept", "T (stopped by a signal)" in (hung / "stacks/rank-1.txt").read_text())


if HANGS_ARE_ACTED_UPON:
    case(a_hung_rank_is_found_and_goes_on_from_its_checkpoint)
    case(a_rank_whose_interpreter_is_locked_is_found)
if __name__ == "__main__":
    main()
