#!/usr/bin/env python3
"""Bits change in what MPI ranks give to the sums of their gradients; a stand-in for the lead orders restarts. With the
check the rank to blame says so, no update is made of it, and the training ends with the weights of one that nothing
happened to, bit for bit; without the check the weights are others. With nobody to order a restart the rank ends with 17.
So also for gradients that are computed wrongly, with replay.

usage: flip_contribution.py --bin FOLDER [--flips N] [--ranks N] [--seed N] [--zero N]
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
from restart_in_process import Page, Restarted, events_of

DEADLINE_S = kill_training.STEP_DEADLINE_S * 5


def corruption_settings(wide, check):
    def settings(*values):
        table = wide(*values)
        table["micro_batch_size"] = 1  # which the growing batch divides by all ranks
        table["corruption"] = {"check": check, "replay_every": 1}
        del table["on_spike"]  # a flipped exponent is no spike to be skipped
        return table
    return settings


def made(here, name, engine, ranks, steps, inputs, wide, check, plan, watched=True):
    """The training, how it ended, what was said of corruption, and its log."""
    kill_training.settings = corruption_settings(wide, check)
    training = Restarted(here / name, engine, ranks, steps, inputs, False, False)
    if watched:
        log = training.start_watched(plan)
    else:
        training.launch["fault_plan"] = str(training.folder / "plan")
        (training.folder / "plan").write_text(plan)
        log = training.start()
    code = training.process.wait(timeout=DEADLINE_S)
    if watched:
        training.lead.ended = True
    reported = [e for e in events_of(training) if e["kind"] == "faulted" and e.get("class") == "silent_corruption"]
    return training, code, reported, log.read_text()


def ended_as(training, rank):
    return Page(training.folder / "launch-1" / f"beat-{rank}").section()


def weights(training):
    path = training.folder / "out" / "model.safetensors"
    return path.read_bytes() if path.exists() else b""


def doubtful(training, whole, wrong):
    """Gradients are computed wrongly, and noticed some steps later; a rank is killed before it removes the copies of the
    steps between. The next launch takes none of them, wherever they lie."""
    training.launch["fault_plan"] = str(training.folder / "plan")
    (training.folder / "plan").write_text(f"engine_gradient flip={32 * 5 + 22} nth=7 rank={wrong} always\n"
                                          "local_copy_removing kill rank=1\n")
    log = training.start()
    code = training.process.wait(timeout=DEADLINE_S)
    line = training.folder / "state" / "checkpoints" / "time-line.json"
    if code == 0 or not line.exists():
        raise SystemExit(f"noticed too late: ended with {code}, and no time line says what is sound:\n{log.read_text()}")
    sound = json.loads(line.read_text())["roll_backs"][-1]["to_step"]
    left = {int(path.name.split("-")[1]) for path in training.folder.glob("node/*/rank-*/step-*")}
    if not any(step > sound for step in left):
        raise SystemExit(f"no copy after step {sound} was left: {sorted(left)}")
    (training.folder / "plan").write_text("")
    log = training.start()
    code = training.process.wait(timeout=DEADLINE_S)
    begun = [event["step"] for event in events_of(training) if event["kind"] == "ready"][-1]
    if code != 0 or begun > sound or weights(training) != weights(whole):
        raise SystemExit(f"sound is step {sound}, copies were left of {sorted(left)}: ended with {code}, begun at {begun}, "
                         f"or other weights:\n{log.read_text()}")
    print(f"copies of steps {sorted(left)} were left where {sound} is sound: goes on from {begun}, the same bits")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--flips", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--zero", type=int, default=1)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    draw = random.Random(arguments.seed)
    Training.zero = arguments.zero
    engine = pathlib.Path(arguments.bin).resolve() / "longhaul-engine"
    steps = 3 * (arguments.flips + 1)
    culprits = [draw.randrange(arguments.ranks) for _ in range(arguments.flips)]
    # A step that is made again passes once more: the number of the passage grows with every flip before.
    when = sorted(draw.sample(range(2, steps), arguments.flips))
    plan = "".join(f"engine_contribution flip={draw.randrange(1 << 20)} nth={step + number} rank={rank}\n"
                   for number, (step, rank) in enumerate(zip(when, culprits)))
    with tempfile.TemporaryDirectory(prefix="longhaul-flip-") as name:
        here = pathlib.Path(name)
        inputs = make_inputs(here, draw)
        wide = kill_training.settings

        def run(name, check, plan, watched=True):
            return made(here, name, engine, arguments.ranks, steps, inputs, wide, check, plan, watched)

        whole, code, reported, log = run("whole", "replay", "")
        if code != 0 or reported:
            raise SystemExit(f"the untouched training ended with {code} and reported {reported}:\n{log}")
        checked, code, reported, log = run("checked", "contributions", plan)
        if code != 0:
            raise SystemExit(f"the training ended with {code}:\n{log}")
        named = [event["culprit"] for event in reported]
        if named != culprits or any(event["rank"] != event["culprit"] for event in reported):
            raise SystemExit(f"bits changed in ranks {culprits}, named were {named}")
        if weights(checked) != weights(whole):
            raise SystemExit("the weights differ from those of the untouched training")
        # The highest bit of a fraction, in many places: some gradients are 0.
        spoiler = "".join(f"engine_contribution flip={32 * element + 22} nth={number + 2} rank=1\n"
                          for number, element in enumerate((3, 101, 501, 1001, 2003, 4001)))
        spoilt, code, reported, log = run("spoilt", "off", spoiler)
        if code != 0 or reported or weights(spoilt) == weights(whole):
            raise SystemExit(f"without the check: ended with {code}, reported {reported}, or the weights are right:\n{log}")
        alone, code, reported, log = run("alone", "contributions", f"engine_contribution flip=5 nth=3 rank={culprits[0]}\n", False)
        said = [line for line in log.splitlines() if "silent corruption: " in line]
        if code == 0 or ended_as(alone, culprits[0]) != "failed 17" or len(reported) != 1 or reported[0]["culprit"] != culprits[0] or len(said) != 1 or \
                f"rank {culprits[0]}:" not in said[0]:
            raise SystemExit(f"with nobody to order a restart: ended with {code}, reported {reported}:\n{log}")
        if arguments.ranks > 2:
            wrong = arguments.ranks - 1
            replayed, code, reported, log = run("replayed", "replay",
                                            f"engine_gradient flip={32 * 5 + 22} nth=4 rank={wrong} always\n", False)
            if code == 0 or ended_as(replayed, wrong) != "failed 17" or [event["culprit"] for event in reported] != [wrong]:
                raise SystemExit(f"computed wrongly by rank {wrong}: ended with {code}, reported {reported}:\n{log}")
        if arguments.ranks > 2 and arguments.zero:
            def seldom(*values):
                table = corruption_settings(wide, "replay")(*values)
                table["corruption"]["replay_every"] = 5
                return table
            kill_training.settings = seldom
            doubtful(Restarted(here / "doubtful", engine, arguments.ranks, steps, inputs, False, True), whole, arguments.ranks - 1)
        print(f"{len(reported) + len(named)} faults reported, their ranks named rightly; {arguments.flips} flips in contributions "
              f"of {arguments.ranks} ranks over {steps} steps: the same bits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
