#!/usr/bin/env python3
"""Copies that a training keeps on its node outlive it when it is killed. Whoever comes next there (longhaul-worker
health --clean, as agents and leads start it) leaves them while the training lives, and while a job may go on from
them, and removes them once the training has gone further elsewhere.

usage: left_copies.py --bin FOLDER
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from kill_training import Training, make_inputs  # noqa: E402

DEADLINE_S = 60


def steps_in(folder):
    return [int(path.parent.name.split("-")[1]) for path in folder.glob("**/step-*/*.json")]


class NextJob:
    """What the next job on the node runs, until it has looked at it twice."""

    def __init__(self, worker, node):
        self.command = [worker, "health", "--watch", "1", "--nvml", "none", "--clean", node, "--training", "/another"]

    def removed(self):
        with subprocess.Popen(list(map(str, self.command)), stdout=subprocess.PIPE, text=True) as watch:
            found, looks = [], 0
            for line in watch.stdout:
                news = json.loads(line)
                found += news.get("removed", [])
                looks += news.get("look", False)
                if looks == 3:
                    break
            watch.kill()
        return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    programs = pathlib.Path(parser.parse_args().bin).resolve()
    with tempfile.TemporaryDirectory(prefix="longhaul-left-copies-") as name:
        here = pathlib.Path(name)
        inputs = make_inputs(here, random.Random(1))
        training = Training(here / "training", programs / "longhaul-engine", 1, 100_000, inputs, False, True)
        node, checkpoints = training.folder / "node", training.folder / "state" / "checkpoints"
        job = NextJob(programs / "longhaul-worker", node)
        training.start()
        try:
            assert training.wait_for_step(8) and training.wait_for_copy(8), "the training has ended"
            assert job.removed() == [], "copies of a living training were removed"
        finally:
            training.kill()
        copy = max(steps_in(node))
        (folder,) = node.glob("longhaul-*")
        assert (folder / "training").read_text() == str(training.folder / "state")

        for path in checkpoints.glob("step-*"):  # as if the newest had not been written yet
            if int(path.name.split("-")[1]) >= copy:
                path.rename(path.with_name("suspect-" + path.name))
        assert job.removed() == [], "copies that a job may go on from were removed"

        further = checkpoints / f"step-{copy:08d}"  # as if another job had gone on elsewhere
        further.mkdir(parents=True)
        (further / "checkpoint.json").write_text("{}")
        (gone,) = job.removed()
        assert gone["path"] == str(folder) and "error" not in gone and f"checkpoint of step {copy}" in gone["why"], gone
        assert not list(node.iterdir()), list(node.iterdir())
        print(f"removed {gone['bytes']} bytes: {gone['why']}")


if __name__ == "__main__":
    main()
