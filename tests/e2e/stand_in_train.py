"""Stands in for workflows/examples/pytorch/train.py where there is no torch: the same life, with a training that fits a line.

Each rank has its checkpoint. After every step all ranks meet, through files in $LONGHAUL_OUT, which is empty at each start.
"""
import argparse
import json
import os
import pathlib
import random
import time

from longhaul_beat import Beat

rank, ranks = int(os.environ["LONGHAUL_RANK"]), int(os.environ["LONGHAUL_RANKS"])
state, out = pathlib.Path(os.environ["LONGHAUL_STATE"]), pathlib.Path(os.environ["LONGHAUL_OUT"])
options = argparse.ArgumentParser()
options.add_argument("--steps", type=int, required=True)
options.add_argument("--checkpoint-every", type=int, required=True)
options = options.parse_args()

checkpoint = state / f"rank-{rank}.json"
saved = json.loads(checkpoint.read_text()) if checkpoint.exists() else {"step": 0, "slope": 0.0}
first, slope = saved["step"], saved["slope"]
print(f"rank {rank}: process {os.getpid()}, goes on after step {first}", flush=True)



def meet(step):
    """Returns once every rank has come as far as this step."""
    (out / f"coming-{rank}").write_text(str(step))
    os.replace(out / f"coming-{rank}", out / f"came-{rank}")
    for other in range(ranks):
        while not (out / f"came-{other}").exists() or int((out / f"came-{other}").read_text()) < step:
            time.sleep(0.002)


beat, last = Beat(), options.steps
for step in range(first + 1, options.steps + 1):
    beat.section("forward")
    x = random.Random(step).uniform(-1, 1)
    error = slope * x - 3 * x
    time.sleep(0.01)
    beat.section("backward")
    time.sleep(0.01)
    slope -= 0.5 * error * x
    beat.enqueued("dp")
    beat.waits("dp")
    meet(step)
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
