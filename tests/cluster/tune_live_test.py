#!/usr/bin/env python3
"""A layout found by trials on the Slurm cluster: outcomes of every kind, the winner trained with, and controllers that are killed.

usage: tune_live_test.py LONGHAUL [CASE ...]
"""
import collections
import json
import signal
import subprocess
import sys
import tomllib

from slurm_cluster import wait_for
from slurm_runs import TOKENS, case_arguments, chosen_cases, expect, new_runs, play_cases
from trial_stages import claims, facts_of_rounds, shape, trials_reported

PRETRAIN = f"""
[stage.pretrain]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
precision = "f32"
steps = 6
sequence_length = 64
micro_batch_size = 2
global_batch_size = 64
threads = 1
model = {shape(64, 4, 4)}
parallel = "@layout"
job = {{ gpus_per_node = 0, memory = "90M", exclusive = "no" }}
"""
CANDIDATES = {
    "one": "{ name = \"one\", parallel = {} }",
    "dp2": "{ name = \"dp2\", parallel = { dp_shard = 2 }, micro_batch_size = 8 }",
    "tp2": "{ name = \"tp2\", parallel = { tp = 2 } }",
    "crash": "{ name = \"crash\", parallel = {}, micro_batch_size = 4, faults = { at = [{ name = \"SEGFAULT\", rank = 0, step = 3 }] } }",
    "huge": "{ name = \"huge\", parallel = {}, micro_batch_size = 64 }",
    "huge-tp2": "{ name = \"huge-tp2\", parallel = { dp_shard = 2 }, micro_batch_size = 32, recompute = { modules = [] } }",
}


def tune(names, steps=12, more=""):
    listed = ",\n  ".join(CANDIDATES[name] for name in names)
    return f"""
[stage.layout]
kind = "tune"
for = "pretrain"
steps = {steps}
warmup_steps = 2
max_runs = 6
time_limit = "5min"
candidates = [
  {listed},
]
{more}
"""


def stage_of(run):
    return run.folder / "stages/layout"


def submitted_trials(run):
    """[(round, stage)] of all rounds."""
    return [(number, fact["stage"]) for number, fact in facts_of_rounds(stage_of(run), "submitted")]


def jobs_of_trials(run):
    """{(round, trial): ids of its jobs on Slurm}."""
    ids = collections.defaultdict(set)
    for claim in claims(stage_of(run)):
        ids[(claim.parts[-7], claim.parts[-4])].add(json.loads(claim.read_text())["scheduler_job"])
    return ids


def expect_layout(run, winners):
    layout = tomllib.loads(run.out("layout", "layout.toml"))
    expect("the winner is one that can be measured", layout["found"]["winner"] in winners, layout)
    task = tomllib.loads((run.folder / "stages/pretrain/task.toml").read_text())
    wanted = {"tp": 1, "dp_shard": 1, **layout["parallel"]}
    expect("the training has that layout", all(task["parallel"][key] == value for key, value in wanted.items()), task["parallel"])
    expect("and its ranks", task["resources"]["ranks"] == layout["ranks"], task["resources"])
    expect("and its micro-batch", task["settings"]["micro_batch_size"] == layout.get("micro_batch_size", 2), task["settings"])
    return layout


def every_outcome_is_recorded_and_the_winner_is_trained_with(cluster, runs):
    names = ("huge", "huge-tp2", "crash", "one", "dp2", "tp2")
    run = runs.start("outcomes", TOKENS + tune(names) + PRETRAIN, driver="lead").wait("succeeded", 80)
    seen = trials_reported(stage_of(run))
    expect("too large for its job's memory", seen["huge"]["outcome"] == "out of memory", seen)
    expect("and it says how large", "too little memory" in seen["huge"]["why"], seen)
    expect("one that needs less is judged by itself", seen["huge-tp2"]["outcome"] in ("out of memory", "measured"), seen)
    expect("a crash is one", seen["crash"]["outcome"] == "crash", seen)
    expect("and names its signal", "11" in seen["crash"]["why"] or "SEGV" in seen["crash"]["why"], seen)
    expect("the others are measured", all(seen[name]["outcome"] in ("measured", "stopped") for name in ("one", "dp2", "tp2")), seen)
    layout = expect_layout(run, ("one", "dp2", "tp2"))
    expect("every candidate is in the artifact, with a reason",
           sorted(one["name"] for one in layout["found"]["candidates"] if one["why"]) == sorted(names), layout)
    said = runs.longhaul("status", run.folder)
    expect("status shows the trials", all(f"  {name} " in said for name in names), said)
    submitted = submitted_trials(run)
    expect("each trial was submitted once", len(submitted) == len(set(submitted)), submitted)
    expect("nothing of a trial is left to save", not list((stage_of(run) / "rounds").glob("*/stages/trial/*/out")),
           "a trial's model is still there")


def no_trial_runs_twice_though_the_controller_is_killed(cluster, runs):
    run = runs.start("killed", TOKENS + tune(("one", "dp2", "tp2"), steps=40) + PRETRAIN, driver="here")
    wait_for("a job of the first round", lambda: submitted_trials(run), 40, run.story)
    run.kill_session()
    kills = 1
    # Again and again, at whatever instant, until one comes to the end.
    for pause in (0.3, 0.7, 1.3, 2.1):
        again = subprocess.Popen([str(runs.program), "resume", str(run.folder)], cwd=runs.folder, env=cluster.environment,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            again.wait(pause)
        except subprocess.TimeoutExpired:
            again.send_signal(signal.SIGKILL)
            again.wait()
            kills += 1
    runs.longhaul("resume", run.folder, code=None, seconds=80)
    run.wait("succeeded", 10)
    expect_layout(run, ("one", "dp2", "tp2"))
    jobs = jobs_of_trials(run)
    expect("three trials", len(jobs) == 3, dict(jobs))
    expect("each of one job", all(len(ids) == 1 for ids in jobs.values()), dict(jobs))
    submitted = submitted_trials(run)
    expect("each submitted once", len(submitted) == 3, submitted)
    ended = run.ended_jobs(6)
    expect("slurmctld knows of no other job: curate, tokenize, three trials, the training",
           sum(ended.values()) == 6 and len(ended) == 6, ended)
    print(f"  controllers killed: {kills}; jobs of trials on Slurm's record: 3")


def cancelling_the_run_cancels_its_trials(cluster, runs):
    text = TOKENS + tune(("one", "dp2"), steps=5000) + PRETRAIN
    run = runs.start("cancelled", text, driver="lead")
    events = lambda: (stage_of(run) / "rounds").glob("*/stages/trial/*/attempts/*/events.jsonl")
    wait_for("a trial that trains", lambda: any("metric" in file.read_text() for file in events()), 60, run.story)
    runs.longhaul("cancel", run.folder)
    run.wait("cancelled", 60)
    wait_for("no job is left", lambda: not cluster.call("squeue", "-h").stdout.strip(), 30, lambda: cluster.call("squeue").stdout)
    expect("nothing is published", not (run.folder / "stages/layout/out").exists(), run.folder)


CASES = {case.__name__: case for case in (every_outcome_is_recorded_and_the_winner_is_trained_with,
                                          no_trial_runs_twice_though_the_controller_is_killed,
                                          cancelling_the_run_cancels_its_trials)}


def main():
    given = case_arguments(__doc__).parse_args()
    return play_cases(new_runs("tune", given.longhaul), chosen_cases(CASES, given.cases))


if __name__ == "__main__":
    sys.exit(main())
