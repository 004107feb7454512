"""Stands in for workflows/examples/pytorch/train.py where there is no torch: the same life, with a training that fits a line.

A checkpoint per rank; ranks do not meet. With a file `slow` in $LONGHAUL_STATE each step takes longer.
"""
import argparse
import json
import os
import pathlib
import random
import time

from longhaul_beat import Beat

rank = int(os.environ["LONGHAUL_RANK"])
state, out = pathlib.Path(os.environ["LONGHAUL_STATE"]), pathlib.Path(os.environ["LONGHAUL_OUT"])
options = argparse.ArgumentParser()
options.add_argument("--steps", type=int, required=True)
options.add_argument("--checkpoint-every", type=int, required=True)
options = options.parse_args()

checkpoint = state / f"rank-{rank}.json"
saved = json.loads(checkpoint.read_text()) if checkpoint.exists() else {"step": 0, "slope": 0.0}
first, slope, loss = saved["step"], saved["slope"], None
print(f"rank {rank}: process {os.getpid()}, goes on after step {first}", flush=True)

beat, last = Beat(), options.steps
for step in range(first + 1, options.steps + 1):
    beat.section("forward")
    x = random.Random(step).uniform(-1, 1)
    error = slope * x - 3 * x
    time.sleep(0.02)
    beat.section("backward")
    slope, loss = slope - 0.5 * error * x, error * error
    beat.enqueued("dp")
    beat.waits("dp")
    beat.completed("dp")
    beat.waits()
    beat.step(step)
    orders = beat.orders()
    for number, what, value in orders:
        last = min(last, max(step, int(value))) if what == "stop_after" else last
    if step % options.checkpoint_every == 0 or step == last or any(what == "checkpoint" for _, what, _ in orders):
        beat.section("checkpoint")
        (state / f"writing-{rank}").write_text(json.dumps({"step": step, "slope": slope}))
        os.replace(state / f"writing-{rank}", checkpoint)
    for number, what, value in orders:
        beat.done(number)
    if step == last:
        break
beat.section("end")
if rank == 0:
    figures = {"steps": last, "first_step": first + 1, "slope": slope}
    (out / "artifact.json").write_text(json.dumps({"figures": figures}))
time.sleep(0.3)  # so that the last words are heard before this process is gone
