#!/usr/bin/env python3
"""Hyperparameters found on the Slurm cluster: each rung is an array of jobs, controllers are killed, a run is
cancelled and goes on, a host is lost.

usage: search_live_test.py LONGHAUL [CASE ...]
"""
import collections
import json
import signal
import subprocess
import sys
import time
import tomllib

from faults_live_test import boot
from slurm_cluster import wait_for
from slurm_runs import TOKENS, case_arguments, chosen_cases, expect, new_runs, play_cases
from trial_stages import claims, each_step_once, facts_of_rounds, shape, starts, steps_trained

RATES = [1e-4, 1e-3, 4e-3, 1e-2]
LR = f'[stage.search.space."optimizer.lr"]\nvalues = {RATES}\n'


def search(steps, more="", keys="trials = 4\neta = 2\n", space=LR, exclusive="no"):
    return f"""
[stage.search]
kind = "search"
for = "pretrain"
min_steps = {steps // 4}
time_limit = "5min"
{keys}
{space}
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
model = {shape(32, 2, 2)}
optimizer = {{ warmup_steps = 2 }}
hyperparameters = "@search"
job = {{ gpus_per_node = 0, exclusive = "{exclusive}" }}
{more}"""


def stage_of(run):
    return run.folder / "stages/search"


def rounds(run):
    """{round: its starts}, in order."""
    found = collections.defaultdict(list)
    for number, start in starts(stage_of(run)):
        found[number].append(start)
    return found


def facts_of_round(run, number, kind):
    return [fact for of_round, fact in facts_of_rounds(stage_of(run), kind) if of_round == number]


def expect_nothing_twice(run):
    steps = steps_trained(stage_of(run))
    expect("every trial trained each of its steps once", each_step_once(steps), dict(steps))
    return collections.Counter(len(done) for done in steps.values())


def expect_winner(run):
    found = tomllib.loads(run.out("search", "hyperparameters.toml"))
    task = tomllib.loads((run.folder / "stages/pretrain/task.toml").read_text())["settings"]
    expect("the training has the winner's rate", task["optimizer"]["lr"] == found["optimizer"]["lr"], (task["optimizer"], found))
    expect("and its own schedule", task["optimizer"]["lr_schedule"] == "cosine", task["optimizer"])
    expect("the winner has trained to the end", found["found"]["whole"], found)


def each_rung_is_one_array_of_jobs(cluster, runs):
    run = runs.start("rungs", TOKENS + search(16), driver="lead").wait("succeeded", 120)
    expect("4, 2 and 2 trials", [len(starts) for starts in rounds(run).values()] == [4, 2, 2], rounds(run))
    for number, starts in rounds(run).items():
        jobs = [fact["with"]["job"] for fact in facts_of_round(run, number, "submitted")]
        arrays, tasks = {job.split("_")[0] for job in jobs}, sorted(job.split("_")[1] for job in jobs)
        expect(f"round {number} is one array", len(arrays) == 1 and tasks == [str(i) for i in range(len(starts))], jobs)
    expect("4 of 4 steps, 2 of 16", expect_nothing_twice(run) == {4: 2, 16: 2}, dict(steps_trained(stage_of(run))))
    expect_winner(run)
    said = runs.longhaul("status", run.folder)
    expect("status shows the trials", "not among the best of rung 0" in said and "won" in said, said)
    ended = run.ended_jobs(11)
    expect("slurmctld knows of no other job: curate, tokenize, eight of trials, the training", sum(ended.values()) == 11, ended)


def kill_controllers(cluster, runs, run, pauses):
    """Of a run that is driven from here, once a trial is submitted: one after the other, each after its pause. How many were killed."""
    wait_for("a job of the first rung", lambda: rounds(run) and facts_of_round(run, 1, "submitted"), 60, run.story)
    run.kill_session()
    kills = 1
    for pause in pauses:
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
    return kills


def nothing_is_trained_twice_though_controllers_are_killed(cluster, runs):
    run = runs.start("killed", TOKENS + search(400), driver="here")
    kills = kill_controllers(cluster, runs, run, (0.3, 0.7, 1.3, 2.1, 0.5, 3.1))
    expect("a quarter and all of the steps", expect_nothing_twice(run) == {100: 2, 400: 2}, dict(steps_trained(stage_of(run))))
    for number, starts in rounds(run).items():
        submitted = [fact["stage"] for fact in facts_of_round(run, number, "submitted")]
        expect(f"each trial of round {number} was submitted once", sorted(submitted) == sorted(
            "trial/" + start["trial"] for start in starts), submitted)
    expect_winner(run)
    print(f"  controllers killed: {kills}; starts of trials: {sum(map(len, rounds(run).values()))}")


def a_cancelled_search_goes_on_from_the_checkpoints_of_its_trials(cluster, runs):
    run = runs.start("cancelled", TOKENS + search(4000, "checkpoint = { every_steps = 20 }\n"), *runs.paced(), driver="lead")
    wait_for("steps beyond the second checkpoint", lambda: any(len(done) > 45 for done in steps_trained(stage_of(run)).values()), 90,
             run.story)
    runs.longhaul("cancel", run.folder)
    run.wait("cancelled", 60)
    wait_for("no job is left", lambda: not cluster.call("squeue", "-h").stdout.strip(), 30, lambda: cluster.call("squeue").stdout)
    before = {trial: len(done) for trial, done in steps_trained(stage_of(run)).items()}
    runs.longhaul("resume", run.folder)
    wait_for("trials that go on", lambda: sum(len(done) > before.get(trial, 0) for trial, done in steps_trained(stage_of(run)).items()) >= 2,
             90, run.story)
    runs.longhaul("cancel", run.folder)
    run.wait("cancelled", 60)
    for trial, done in steps_trained(stage_of(run)).items():
        twice = [step for step, times in collections.Counter(done).items() if times > 1]
        # At most what follows the newest complete checkpoint: the one behind it may have been on its way to the disk.
        expect(f"{trial} goes on from a checkpoint, not from the beginning", len(twice) < 40, (before, done[:10], twice))
    expect("nothing is published", not (run.folder / "stages/search/out").exists(), run.folder)


def asha_goes_on_when_a_host_is_lost_in_the_middle_of_a_rung(cluster, runs):
    """Four trials on four hosts, in one array. The host of the best one is lost: it has to go on from its checkpoint to win."""
    best, every, steps = 3e-3, 10, 400
    run = runs.start("asha", TOKENS + search(
        steps, f"checkpoint = {{ every_steps = {every} }}\n", 'method = "asha"\ntrials = 4\nat_once = 4\neta = 2\nfinalists = 1\n',
        f'[stage.search.space."optimizer.lr"]\nvalues = [1e-7, 1e-6, 1e-5, {best}]\n', exclusive="yes"),
                     *runs.paced(40), driver="here")
    stage, begun = stage_of(run), time.monotonic()
    wait_for("the first trials", lambda: starts(stage), 60, run.story)
    trial = next(start["trial"] for _, start in starts(stage) if start["settings"]["optimizer.lr"] == best)
    wait_for("the best one is beyond its second checkpoint", lambda: len(steps_trained(stage)[trial]) > 2.5 * every, 60, run.story)
    hosts = {path.parts[-4]: json.loads(path.read_text())["host"] for path in claims(stage)}
    expect("each has a host of its own", len(hosts) == len(set(hosts.values())) == 4, hosts)
    cluster.play("kill-node", hosts[trial])
    try:
        done = len(steps_trained(stage)[trial])
        expect("it was in the middle of its rung", done < steps // 4, done)
        run.wait("succeeded", 180)
        print(f"  search and training with a lost host: {time.monotonic() - begun:.0f} s", flush=True)
    finally:
        boot(cluster, hosts[trial])
    arrays = {fact["with"]["job"].split("_")[0] for fact in facts_of_round(run, 1, "submitted")}
    expect("the first rung is one array", len(arrays) == 1 and len(rounds(run)[1]) == 4, facts_of_round(run, 1, "submitted"))
    again = [(start["rung"], start["why"]) for _, start in starts(stage) if start["trial"] == trial]
    expect("it was lost once and begun again at its rung", [rung for rung, _ in again] == [0, 0, 1, 2] and again[1][1] == "lost 1 times", again)
    found = tomllib.loads(run.out("search", "hyperparameters.toml"))
    expect("the right one wins", found["optimizer"]["lr"] == best and found["found"]["winner"] == trial, found)
    expect_winner(run)
    trained = steps_trained(stage)
    expect("nobody began twice", all(done.count(1) == 1 for done in trained.values()), {name: done.count(1) for name, done in trained.items()})
    twice = len(trained[trial]) - len(set(trained[trial]))
    expect("it went on from its newest checkpoint", len(set(trained[trial])) == steps and twice <= 2 * every, twice)
    others = {name: done for name, done in trained.items() if name != trial}
    expect("the others trained each step once", each_step_once(others), others)


def tpe_proposes_the_same_though_controllers_are_killed(cluster, runs):
    text = TOKENS + search(20, keys='proposals = "tpe"\nbrackets = 2\ntrials = 8\nfirst = 4\neta = 4\nfinalists = 1\n', space=(
        '[stage.search.space."optimizer.lr"]\nmin = 1e-4\nmax = 1e-2\nscale = "log"\n'
        '[stage.search.space."optimizer.weight_decay"]\nmin = 0.0\nmax = 0.3\n'))
    calm = runs.start("calm", text, driver="lead")
    killed = runs.start("restless", text, driver="here")
    kills = kill_controllers(cluster, runs, killed, (0.4, 0.9, 1.7, 0.6, 2.3))
    calm.wait("succeeded", 60)
    proposals = [{start["trial"]: (start["settings"], start["why"]) for _, start in starts(stage_of(run)) if start["rung"] == 0}
                 for run in (calm, killed)]
    expect("the model proposed in the second bracket", sum("tpe: " in why for _, why in proposals[0].values()) == 4, proposals[0])
    expect("the same, to the last bit", proposals[0] == proposals[1], proposals)
    found = [tomllib.loads(run.out("search", "hyperparameters.toml")) for run in (calm, killed)]
    expect("and the same won with the same loss", found[0]["optimizer"] == found[1]["optimizer"] and
           found[0]["found"]["value"] == found[1]["found"]["value"], found)
    expect_nothing_twice(killed)
    print(f"  controllers killed: {kills}")


def a_trial_that_scancel_ends_is_no_bad_configuration(cluster, runs):
    run = runs.start("scancel", TOKENS + search(120, keys="trials = 4\neta = 4\n"), *runs.paced(80), driver="here")  # its rung takes seconds
    stage = stage_of(run)
    wait_for("steps of the first trial", lambda: any(len(done) > 5 for done in steps_trained(stage).values()), 60, run.story)
    trial = next(name for name, done in steps_trained(stage).items() if len(done) > 5)
    job = next(fact["with"]["job"] for fact in facts_of_round(run, 1, "submitted") if fact["stage"] == "trial/" + trial)
    cluster.call("scancel", job)
    run.wait("succeeded", 180)
    reported = json.loads((stage / "trials.json").read_text())["trials"]
    ended = {one["name"]: one["outcome"] for one in reported}
    expect("it was stopped, the others were not", [name for name, outcome in ended.items() if outcome == "stopped"] == [trial] and
           "crashed" not in ended.values(), reported)
    expect("it was not tried again", sum(start["trial"] == trial for _, start in starts(stage)) == 1, starts(stage))
    expect_winner(run)


CASES = {case.__name__: case for case in (each_rung_is_one_array_of_jobs,
                                          nothing_is_trained_twice_though_controllers_are_killed,
                                          a_cancelled_search_goes_on_from_the_checkpoints_of_its_trials,
                                          tpe_proposes_the_same_though_controllers_are_killed,
                                          a_trial_that_scancel_ends_is_no_bad_configuration,
                                          asha_goes_on_when_a_host_is_lost_in_the_middle_of_a_rung)}


def main():
    given = case_arguments(__doc__).parse_args()
    return play_cases(new_runs("search", given.longhaul), chosen_cases(CASES, given.cases))


if __name__ == "__main__":
    sys.exit(main())
