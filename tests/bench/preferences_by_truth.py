#!/usr/bin/env python3
"""DPO, IPO and KTO beside the tuning that they begin with, on held-out questions whose answers are known: the share that is
right, and the difference to the tuning, question by question, with its interval of 95 % (mean and standard error of the
differences).

  tests/bench/preferences_by_truth.py build/release/bin [--seeds 1 2 3] [--runs FOLDER]

Runs workflows/examples/16-preferences-by-truth.toml for each seed, one after the other; with --runs a seed whose run lies
there already is read. The bar: every difference above 0 with its interval. Ends with 1 if one is not.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

WORKFLOW = pathlib.Path(__file__).resolve().parents[2] / "workflows/examples/16-preferences-by-truth.toml"
METHODS = ("dpo", "ipo", "kto")


def rewards(run, stage):
    return [json.loads(line)["reward"] for line in (run / "stages" / stage / "out/samples.jsonl").open()]


def run_of(programs, runs, seed):
    folder = runs / f"seed-{seed}"
    if not (found := next(folder.glob("*/stages/of_kto/out/samples.jsonl"), None)):
        subprocess.run([programs / "longhaul", "run", WORKFLOW, "--set", f"params.seed={seed}", "--runs-dir", folder], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        found = next(folder.glob("*/stages/of_kto/out/samples.jsonl"))
    return found.parents[3]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--runs", type=pathlib.Path)
    arguments = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="longhaul-preferences-") as folder:
        for seed in arguments.seeds:
            run = run_of(arguments.bin.resolve(), arguments.runs or pathlib.Path(folder), seed)
            before = rewards(run, "of_sft")
            print(f"seed {seed}: {len(before)} questions; sft {statistics.mean(before):.3f}")
            for method in METHODS:
                after = rewards(run, f"of_{method}")
                differences = [a - b for a, b in zip(after, before, strict=True)]
                mean, half = statistics.mean(differences), 1.96 * statistics.stdev(differences) / math.sqrt(len(differences))
                met = mean - half > 0
                missed += not met
                print(f"  {method} {statistics.mean(after):.3f}, {mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f}); "
                      f"bar: above 0: {'met' if met else 'missed'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
