#!/usr/bin/env python3
"""The PyTorch example as it is shipped, with its own script: a rank is killed, hangs, is given an order. Each training has to end
with the very weights of one that nothing happened to.

usage: pytorch_test.py LONGHAUL SOURCE_DIR [parts of case names]
LONGHAUL_TORCH_PYTHON: a Python that has torch; otherwise the one that runs this.
"""
import functools
import os
import pathlib
import signal
import sys
import tempfile

from beat_example import (EXAMPLE, figures, finish, first_report, hangs_suspected, launches, save_and_stop_after, start_example,
                          goes_on_where_it_was_killed, went_on_from_checkpoint)
from scenario import call, case, events, expect, main, newest_run, wait_for

PYTHON = os.environ.get("LONGHAUL_TORCH_PYTHON", sys.executable)
STEPS, EVERY = 3000, 50
IMPORT_S = 240  # of torch, by several processes on a machine with other work


def start(here, more="", **settings):
    return start_example(here, PYTHON, EXAMPLE / "train.py", more, **{"steps": STEPS, "checkpoint_every": EVERY, **settings})


def weights(here):
    """A digest of the bytes of every parameter that the stage has published."""
    model = newest_run(here) / "stages/train/out/model.pt"
    digest = ("import hashlib, sys, torch; d = hashlib.sha256(); "
              "[d.update(k.encode() + bytes(v.contiguous().view(-1).view(torch.uint8).tolist())) for k, v in "
              "sorted(torch.load(sys.argv[1]).items())]; print(d.hexdigest())")
    done = call([PYTHON, "-c", digest, model], here, IMPORT_S)
    expect("the model can be loaded", done.code == 0, done)
    return done.out.strip()


@functools.cache
def untouched(steps=STEPS):
    with tempfile.TemporaryDirectory(prefix="longhaul-test-") as name:
        here = pathlib.Path(os.path.realpath(name))
        finish(start(here, steps=steps), IMPORT_S)
        expect("one launch", len(launches(here)) == 1, launches(here))
        return weights(here)


def saved(here):
    """The newest step of which the stage's events report a checkpoint; 0: none yet."""
    if not launches(here) or not (launches(here)[0].parent.parent / "events.jsonl").exists():
        return 0
    return max((e["step"] for e in events(newest_run(here), "train", "checkpoint")), default=0)


def process_past(here, rank, step):
    wait_for(f"a checkpoint of step {step}", lambda: saved(here) >= step, IMPORT_S)
    return first_report(launches(here)[0], rank)[0]


def went_on(here, least):
    went_on_from_checkpoint(here, least, STEPS, EVERY)
    expect("with the weights of a training never interrupted", weights(here) == untouched())


@case
def a_killed_rank_goes_on_from_its_checkpoint(here):
    process = start(here)
    os.kill(process_past(here, 1, 2 * EVERY), signal.SIGKILL)
    finish(process, IMPORT_S)
    went_on(here, 2 * EVERY)
    goes_on_where_it_was_killed(here, 1, 2 * EVERY)


@case
def a_hung_rank_is_found_and_goes_on_from_its_checkpoint(here):
    process = start(here, 'resiliency = { on_hang = "restart", hang_act = "5s", hang_suspect = "1s", restarts = 2 }\n')
    os.kill(process_past(here, 1, 2 * EVERY), signal.SIGSTOP)
    finish(process, IMPORT_S)
    went_on(here, 2 * EVERY)
    suspected = hangs_suspected(launches(here)[0])
    expect("the one that stood still is named, not the one that waits for it", suspected and suspected[0]["rank_of"] == 1, suspected)


@case
def orders_reach_all_ranks(here):
    process = start(here, steps=1_000_000)
    process_past(here, 0, EVERY)
    last = save_and_stop_after(here, 2000)
    finish(process, IMPORT_S)
    expect("it stopped where it was asked to", figures(here)["steps"] == last, figures(here))
    expect("nothing was started again", len(launches(here)) == 1, launches(here))
    expect("with the weights of a training of so many steps", weights(here) == untouched(last))


if __name__ == "__main__":
    main()
