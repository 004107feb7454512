#!/usr/bin/env python3
"""A loss that is no number, once, that does not come again; the training goes back to its last checkpoint and leaves the
samples since out. Then a rank is killed before the next checkpoint, at different places: the next launch must neither
take the copies on the nodes that were made before the roll-back, nor read the samples that were left out, and its
weights must be those of the training that was not killed, bit for bit.

usage: roll_back.py --bin FOLDER [--ranks N] [--seed N]
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile
import time

import kill_training
from kill_training import Training, make_inputs

DEADLINE_S = kill_training.STEP_DEADLINE_S * 5
STEPS, EVERY, BAD = 30, 10, 17
# Killed at the n-th step that a launch begins: step BAD is its BAD-th, step EVERY + 1 of the new line the one after.
KILLS = {
    "before the first step after it": f"engine_step_begin kill nth={BAD + 1} rank=1",
    "with fewer copies after it than before it": f"engine_step_begin kill nth={BAD + 4} rank=1",
    "behind the step that was bad": f"engine_step_begin kill nth={BAD + 9} rank=1",
}


def roll_back_settings(wide):
    def settings(*values):
        table = wide(*values)
        table["micro_batch_size"] = 1
        table["batch_rampup"] = {}
        table["checkpoint"] |= {"every_steps": EVERY, "local_every_steps": 1, "keep_last": 3}
        table["on_spike"] = {"action": "rollback", "budget": 2}
        return table
    return settings


def events_of(training, kind):
    return [json.loads(line) for line in training.lines_with(f'"kind":"{kind}"')]


def launch(training, plan):
    """Once, with this plan of faults; how it ended, and what it said."""
    training.launch["fault_plan"] = str(training.folder / "plan")
    (training.folder / "plan").write_text(plan)
    log = training.start()
    return training.process.wait(timeout=DEADLINE_S), log.read_text()


def weights(training):
    return (training.folder / "out" / "model.safetensors").read_bytes()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    draw = random.Random(arguments.seed)
    engine = pathlib.Path(arguments.bin).resolve() / "longhaul-engine"
    kill_training.settings = roll_back_settings(kill_training.settings)
    wrong = []
    with tempfile.TemporaryDirectory(prefix="longhaul-roll-back-") as name:
        here = pathlib.Path(name)
        inputs = make_inputs(here, draw)

        def made(folder):
            return Training(here / folder, engine, arguments.ranks, STEPS, inputs, False, True)

        bad = f"engine_loss error nth={BAD} rank=0\n"
        whole = made("whole")
        code, log = launch(whole, bad)
        if code != 0:
            raise SystemExit(f"the training that nobody killed ended with {code}:\n{log}")
        spikes = events_of(whole, "spike")
        if [(e["step"], e["action"]) for e in spikes] != [(BAD, "rollback")]:
            raise SystemExit(f"step {BAD} was not rolled back from: {spikes}")
        untouched = made("untouched")
        code, log = launch(untouched, "")
        if code != 0 or weights(untouched) == weights(whole):
            raise SystemExit(f"the roll-back left nothing out: ended with {code}\n{log}")
        for number, (where, kill) in enumerate(KILLS.items()):
            killed = made(f"killed-{number}")
            code, log = launch(killed, bad + kill + "\n")
            if code == 0 or len(events_of(killed, "spike")) != 1:
                raise SystemExit(f"{where}: not killed after the roll-back ({code}):\n{log}")
            code, log = launch(killed, "")
            if code != 0:
                raise SystemExit(f"{where}: the next launch ended with {code}:\n{log}")
            ready = events_of(killed, "ready")[-1]
            same = weights(killed) == weights(whole)
            print(f"killed {where}: goes on from step {ready['step']} ({ready.get('from')}), "
                  f"{'the same bits' if same else 'OTHER WEIGHTS'}", flush=True)
            for why in ready.get("passed_over", []):
                print(f"    passed over: {why}", flush=True)
            if not same:
                wrong.append(where)
            if list(killed.folder.glob("node/*/rank-*/step-*")):
                raise SystemExit(f"{where}: copies are left on the node")
    if wrong:
        raise SystemExit(f"other weights than without the kill: {'; '.join(wrong)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
