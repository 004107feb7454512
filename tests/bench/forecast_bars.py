#!/usr/bin/env python3
"""Forecasts of a workflow's trainings beside what they then take on this machine.

  tests/bench/forecast_bars.py LONGHAUL WORKFLOW [--runs FOLDER] [--site SITE] [--set KEY=VALUE]...

Asks `longhaul plan`, which measures the processor where it was not measured yet, runs the workflow up to its trainings (what
evaluates, quantizes and serves is left out), and prints tokens/s of each as forecast and as reached. Ends with 1 if one is
further off than 20 %. The folder of runs is a new one below build/, unless --runs names one: earlier pretrainings there
correct forecasts, as the last column says, and what is cached there is refused, for nothing would be trained.
"""
import argparse
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

BAR = 0.20


def longhaul(program, *arguments, **more):
    done = subprocess.run([program, *arguments], text=True, stdout=subprocess.PIPE, timeout=3600, **more)
    if done.returncode != 0:
        sys.exit(f"longhaul {' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def without_what_follows(workflow):
    """The workflow's text without stages of kinds that come after trainings."""
    stages = re.split(r"(?m)^(?=\[stage\.)", workflow.read_text())
    after = re.compile(r'(?m)^kind = "(evaluate|quantize|convert|deploy)"')
    while True:  # nor those that need one of these
        out = [stage for stage in stages if after.search(stage)]
        if not out:
            return "".join(stages)
        stages = [stage for stage in stages if stage not in out]
        names = "|".join(re.match(r"\[stage\.([\w-]+)", stage).group(1) for stage in out)
        after = re.compile(rf'"@({names})["/]')


def newest_run(runs):
    return max((p for p in runs.iterdir() if (p / "resolved.toml").exists()), key=lambda p: p.stat().st_mtime)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("longhaul")
    parser.add_argument("workflow")
    parser.add_argument("--runs")
    parser.add_argument("--site")
    parser.add_argument("--set", action="append", default=[])
    asked = parser.parse_args()
    pathlib.Path("build").mkdir(exist_ok=True)
    runs = pathlib.Path(asked.runs or tempfile.mkdtemp(prefix="forecast-runs-", dir="build")).resolve()
    runs.mkdir(parents=True, exist_ok=True)
    whole = pathlib.Path(asked.workflow)
    trainings = whole.with_name(f".forecast-{whole.name}")  # its paths start at its folder
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # that the file goes in any case
    trainings.write_text(without_what_follows(whole))
    try:
        return compare(asked, trainings, runs)
    finally:
        trainings.unlink()


def compare(asked, workflow, runs):
    arguments = [str(workflow), "--runs-dir", str(runs)] + (["--site", asked.site] if asked.site else [])
    for one in asked.set:
        arguments += ["--set", one]
    plan = json.loads(longhaul(asked.longhaul, "plan", *arguments, "--json"))
    for line in plan.get("predicted_from", []):
        print(line)
    longhaul(asked.longhaul, "run", *arguments)
    run = newest_run(runs)
    status = json.loads(longhaul(asked.longhaul, "status", str(run), "--json"))
    figures = {s["id"]: json.loads((pathlib.Path(s["artifact"]) / "manifest.json").read_text())["figures"]
               for s in status["stages"] if s.get("artifact")}
    cached = [s["id"] for s in status["stages"] if s["state"] == "cached"]
    if any(one["stage"] in cached for one in plan["predicted"]):
        sys.exit(f"{runs} has these stages already: {', '.join(cached)}; name another folder with --runs")
    missed = 0
    print(f"{'training':<16} {'forecast':>12} {'reached':>12} {'off by':>8} {'bar':>6}")
    for one in plan["predicted"]:
        stage = one["stage"]
        if "problem" in one:
            print(f"{stage:<16} no forecast: {one['problem']}")
            missed += 1
            continue
        # A forecast counts every token of a sequence, padding included.
        reached = figures[stage].get("computed_tokens_per_s", figures[stage]["tokens_per_s"])
        off = one["tokens_per_second"] / reached - 1
        missed += abs(off) > BAR
        print(f"{stage:<16} {one['tokens_per_second']:>10.0f}/s {reached:>10.0f}/s {100 * off:>+7.1f}% {100 * BAR:>5.0f}%"
              f"  {'ok' if abs(off) <= BAR else 'MISSED'}  corrected by {one.get('correction', 1):.2f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
