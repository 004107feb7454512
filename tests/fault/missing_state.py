#!/usr/bin/env python3
"""A training goes on while its file system does not show what it has saved: an error of a listing is asked again, and
one that is known to have saved a step does not begin below it. Neither makes step 1 again.

usage: missing_state.py --bin FOLDER [--seed N]
"""
import argparse
import pathlib
import random
import shutil
import sys
import tempfile
import time

import kill_training
from kill_training import Training, write_dataset

DEADLINE_S = kill_training.STEP_DEADLINE_S * 2
STEPS = 12


def launch(training, plan, **keys):
    """Once, with this plan of faults and these keys of launch.toml; how it ended, and what it said."""
    (training.folder / "plan").write_text(plan)
    training.launch |= {"fault_plan": str(training.folder / "plan"), **keys}
    log = training.start()
    return training.process.wait(timeout=DEADLINE_S), log.read_text()


def expect(what, right, found):
    if not right:
        raise SystemExit(f"{what}: {found}")
    print(what, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    draw = random.Random(arguments.seed)
    engine = pathlib.Path(arguments.bin).resolve() / "longhaul-engine"
    with tempfile.TemporaryDirectory(prefix="longhaul-missing-state-") as name:
        here = pathlib.Path(name)
        source = pathlib.Path(__file__).resolve().parents[1] / "parity" / "golden" / "model-untied" / "tokenizer.json"
        inputs = {}
        for input_name in ("tokens", "code"):
            inputs[input_name] = here / input_name
            inputs[input_name].mkdir()
            shutil.copy(source, inputs[input_name] / "tokenizer.json")
            write_dataset(inputs[input_name] / "train", [[draw.randrange(250) for _ in range(40)] for _ in range(60)])
        training = Training(here / "training", engine, 1, STEPS, inputs, False, False)
        code, log = launch(training, "engine_step_begin kill nth=8\n")
        expect("killed after checkpoints", code != 0 and training.lines_with('"kind":"checkpoint"'), log)
        steps = len(training.metrics())

        code, log = launch(training, "engine_step_begin kill nth=2\n", at_least_step=1000)
        expect("below the step that is known it does not begin, and both steps are named",
               code != 0 and len(training.metrics()) == steps and "would begin at step" in log and "of step 1000" in log, log)

        # Once of the time line, once of the folder, once of a checkpoint in it.
        for nth in (1, 2, 3):
            code, log = launch(training, f"checkpoint_list error nth={nth}\nengine_step_begin kill nth=1\n", at_least_step=0)
            last = training.lines_with("goes on from step")
            expect(f"error {nth} of a listing is asked again", code != 0 and len(last) == nth, log)
        code, log = launch(training, "")
        expect("and it comes to its end", code == 0, log)
        expect("step 1 was made once", [m["step"] for m in training.metrics()].count(1) == 1, training.metrics())
    return 0


if __name__ == "__main__":
    sys.exit(main())
