#!/usr/bin/env python3
"""A controller whose every write may meet an error or a full disk goes on by itself: rounds are made again, nothing is
done twice.

For each point of a round a run of four stages is driven by one process, which meets an error there at its first and third
passage, and then a full disk. Checked: it comes to the run's end by itself; each stage's side effect happened once.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

GRAPH = [("a", []), ("b", ["a"]), ("c", ["a"]), ("d", ["b", "c"])]
POINTS = [
    "controller_epoch_claimed", "controller_before_intent", "controller_after_intent", "controller_before_submit",
    "controller_after_submit", "controller_before_outcome", "controller_after_outcome", "controller_before_messages",
    "controller_end_of_tick",
]
DEADLINE_S = 60


def write_graph(folder):
    stages = [{"id": name, "needs": needs, "script": f'echo {name} > "$LONGHAUL_OUT/text"; echo {name} >> {folder}/effects'}
              for name, needs in GRAPH]
    path = folder / "stages.json"
    path.write_text(json.dumps(stages))
    return path


def one_run(tool, folder, point, action):
    """What is wrong."""
    graph = write_graph(folder)
    run = subprocess.run([tool, "create", f"{folder}/runs", f"{folder}/artifacts", graph], check=True, capture_output=True,
                         text=True).stdout.strip()
    plan = folder / "plan"
    plan.write_text(f"{point} {action} nth=1\n{point} {action} nth=3\n")
    try:
        driven = subprocess.run([tool, "drive", run, "--slots", "2", "--plan", str(plan)], capture_output=True, text=True,
                                timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        return [f"not done after {DEADLINE_S} s"]
    wrong = [] if driven.returncode == 0 else [f"the controller ended with {driven.returncode}: {driven.stderr[-2000:]}"]
    hits = pathlib.Path(f"{plan}.hits")
    if not hits.exists():
        wrong.append("the point was never passed")
    effects = collections.Counter((folder / "effects").read_text().split() if (folder / "effects").exists() else [])
    wrong += [f"side effect of {name} happened {effects[name]} times" for name, _ in GRAPH if effects[name] != 1]
    for name, _ in GRAPH:
        attempts = os.listdir(f"{run}/stages/{name}/attempts") if os.path.isdir(f"{run}/stages/{name}/attempts") else []
        if attempts != ["1"]:
            wrong.append(f"{name} took attempts {attempts}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    args = parser.parse_args()
    tool = os.path.join(args.bin, "fault_drive")
    failed = 0
    for action in ("error", "disk_full"):
        for point in POINTS:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="refused-"))
            wrong = one_run(tool, folder, point, action)
            print(f"{'ok    ' if not wrong else 'FAILED'} {point} {action}", flush=True)
            for what in wrong:
                print(f"       {what}; kept in {folder}")
            failed += bool(wrong)
            if not wrong:
                shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
