#!/usr/bin/env python3
"""Hyperparameters found on the Slurm cluster: each rung is an array of jobs, controllers are killed, a run is cancelled and goes on.

usage: search_live_test.py LONGHAUL [CASE ...]
"""
import collections
import json
import signal
import subprocess
import sys
import tomllib

from slurm_cluster import wait_for
from slurm_runs import TOKENS, case_arguments, chosen_cases, expect, new_runs, play_cases

SHAPE = ("hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 2, num_key_value_heads = 2, "
         "max_position_embeddings = 64")
RATES = [1e-4, 1e-3, 4e-3, 1e-2]


def search(steps, more="", keys="eta = 2\n"):
    return f"""
[stage.search]
kind = "search"
for = "pretrain"
trials = 4
min_steps = {steps // 4}
time_limit = "5min"
{keys}
[stage.search.space."optimizer.lr"]
values = {RATES}
[stage.search.trial]
optimizer = {{ lr_schedule = "constant" }}
[stage.pretrain]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
precision = "f32"
steps = {steps}
sequence_length = 64
micro_batch_size = 2
global_batch_size = 4
threads = 1
model = {{ {SHAPE} }}
optimizer = {{ warmup_steps = 2 }}
hyperparameters = "@search"
job = {{ gpus_per_node = 0, exclusive = "no" }}
{more}"""


def rounds(run):
    """{round: its starts}, in order."""
    files = sorted((run.folder / "stages/search").glob("rounds/[0-9]*/starts.json"), key=lambda p: int(p.parts[-2]))
    return {int(file.parts[-2]): json.loads(file.read_text())["starts"] for file in files}


def facts_of_round(run, number, kind):
    found = []
    for log in sorted((run.folder / f"stages/search/rounds/{number}/log").glob("*.jsonl")):
        for line in log.read_text().splitlines():
            fact = json.loads(line) if line.endswith("}") else {}
            if fact.get("fact") == kind:
                found.append(fact)
    return found


def steps_trained(run):
    """{trial: every step that a job of it did, in the order of its jobs}."""
    steps = collections.defaultdict(list)
    logs = sorted((run.folder / "stages/search").glob("rounds/[0-9]*/stages/trial/*/attempts/*/events.jsonl"),
                  key=lambda p: (int(p.parts[-7]), int(p.parts[-2])))
    for log in logs:
        for line in log.read_text().splitlines():
            event = json.loads(line) if line.endswith("}") else {}
            if event.get("kind") == "metric" and "loss" in event:
                steps[log.parts[-4]].append(event["step"])
    return steps


def expect_nothing_twice(run):
    steps = steps_trained(run)
    expect("every trial trained each of its steps once",
           all(done == list(range(1, len(done) + 1)) for done in steps.values()), dict(steps))
    return collections.Counter(len(done) for done in steps.values())


def expect_winner(run):
    found = tomllib.loads(run.out("search", "hyperparameters.toml"))
    task = tomllib.loads((run.folder / "stages/pretrain/task.toml").read_text())["settings"]
    expect("the training has the winner's rate", task["optimizer"]["lr"] == found["optimizer"]["lr"], (task["optimizer"], found))
    expect("and its own schedule", task["optimizer"]["lr_schedule"] == "cosine", task["optimizer"])
    expect("the winner has trained to the end", found["found"]["whole"], found)


def each_rung_is_one_array_of_jobs(cluster, runs):
    before = len(cluster.records())
    run = runs.start("rungs", TOKENS + search(16), driver="lead").wait("succeeded", 120)
    expect("4, 2 and 2 trials", [len(starts) for starts in rounds(run).values()] == [4, 2, 2], rounds(run))
    for number, starts in rounds(run).items():
        jobs = [fact["with"]["job"] for fact in facts_of_round(run, number, "submitted")]
        arrays, tasks = {job.split("_")[0] for job in jobs}, sorted(job.split("_")[1] for job in jobs)
        expect(f"round {number} is one array", len(arrays) == 1 and tasks == [str(i) for i in range(len(starts))], jobs)
    expect("4 of 4 steps, 2 of 16", expect_nothing_twice(run) == {4: 2, 16: 2}, dict(steps_trained(run)))
    expect_winner(run)
    said = runs.longhaul("status", run.folder)
    expect("status shows the trials", "not among the best of rung 0" in said and "won" in said, said)
    ended = collections.Counter(record["JobId"] for record in cluster.records()[before:])
    expect("slurmctld knows of no other job: curate, tokenize, eight of trials, the training", sum(ended.values()) == 11, ended)


def nothing_is_trained_twice_though_controllers_are_killed(cluster, runs):
    run = runs.start("killed", TOKENS + search(400), driver="here")
    wait_for("a job of the first rung", lambda: rounds(run) and facts_of_round(run, 1, "submitted"), 60, run.story)
    run.kill_session()
    kills = 1
    for pause in (0.3, 0.7, 1.3, 2.1, 0.5, 3.1):
        again = subprocess.Popen([str(runs.program), "resume", str(run.folder)], cwd=runs.folder, env=cluster.environment,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 start_new_session=True)
        try:
            again.wait(pause)
        except subprocess.TimeoutExpired:
            again.send_signal(signal.SIGKILL)
            again.wait()
            kills += 1
    runs.longhaul("resume", run.folder, code=None, seconds=120)
    run.wait("succeeded", 10)
    expect("a quarter and all of the steps", expect_nothing_twice(run) == {100: 2, 400: 2}, dict(steps_trained(run)))
    for number, starts in rounds(run).items():
        submitted = [fact["stage"] for fact in facts_of_round(run, number, "submitted")]
        expect(f"each trial of round {number} was submitted once", sorted(submitted) == sorted(
            "trial/" + start["trial"] for start in starts), submitted)
    expect_winner(run)
    print(f"  controllers killed: {kills}; starts of trials: {sum(map(len, rounds(run).values()))}")


def a_cancelled_search_goes_on_from_the_checkpoints_of_its_trials(cluster, runs):
    run = runs.start("cancelled", TOKENS + search(4000, "checkpoint = { every_steps = 20 }\n"), driver="lead")
    wait_for("steps beyond the first checkpoint", lambda: any(len(done) > 40 for done in steps_trained(run).values()), 90,
             run.story)
    runs.longhaul("cancel", run.folder)
    run.wait("cancelled", 60)
    wait_for("no job is left", lambda: not cluster.call("squeue", "-h").stdout.strip(), 30, lambda: cluster.call("squeue").stdout)
    before = {trial: len(done) for trial, done in steps_trained(run).items()}
    runs.longhaul("resume", run.folder)
    wait_for("trials that go on", lambda: sum(len(done) > before.get(trial, 0) for trial, done in steps_trained(run).items()) >= 2,
             90, run.story)
    runs.longhaul("cancel", run.folder)
    run.wait("cancelled", 60)
    for trial, done in steps_trained(run).items():
        twice = [step for step, times in collections.Counter(done).items() if times > 1]
        expect(f"{trial} goes on from a checkpoint, not from the beginning", len(twice) < 20, (before, done[:10], twice))
    expect("nothing is published", not (run.folder / "stages/search/out").exists(), run.folder)


CASES = {case.__name__: case for case in (each_rung_is_one_array_of_jobs,
                                          nothing_is_trained_twice_though_controllers_are_killed,
                                          a_cancelled_search_goes_on_from_the_checkpoints_of_its_trials)}


def main():
    given = case_arguments(__doc__).parse_args()
    return play_cases(new_runs("search", given.longhaul), chosen_cases(CASES, given.cases))


if __name__ == "__main__":
    sys.exit(main())
