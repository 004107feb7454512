#!/usr/bin/env python3
"""Hyperparameters found by a search stage on this machine: rungs, the winner in the training, interruptions, outcomes.

usage: search_test.py LONGHAUL SOURCE_DIR [parts of case names]
"""
import collections
import json
import os
import shutil
import signal
import subprocess
import tomllib

from scenario import LONGHAUL, case, expect, longhaul, main, runs, stage_status, wait_for
from tiny_inputs import write_pages
from trial_stages import TOKENS, checkpoints, claims, each_step_once, shape, starts, steps_trained, trials_reported

SHAPE = shape(32, 2, 2)
RATES = [1e-4, 1e-3, 4e-3, 1e-2]
CONSTANT = 'optimizer = { lr = 7e-4, lr_schedule = "constant", warmup_steps = 2 }\n'
COSINE = 'optimizer = { lr = 7e-4, warmup_steps = 2 }\n'


def pretrain(optimizer=COSINE, more='hyperparameters = "@search"\n'):
    return f"""
[stage.pretrain]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
precision = "f32"
steps = 16
threads = 1
sequence_length = 64
micro_batch_size = 2
global_batch_size = 4
model = {SHAPE}
{optimizer}{more}"""


def search(space=f'[stage.search.space."optimizer.lr"]\nvalues = {RATES}\n', more="", keys="trials = 4\neta = 2\nmin_steps = 4\n"):
    return ('[stage.search]\nkind = "search"\nfor = "pretrain"\n' + keys + more +
            '[stage.search.trial]\noptimizer = { lr_schedule = "constant" }\n' + space)


def workflow(here, text):
    if not (here / "pages").exists():
        write_pages(here / "pages", 7, pages=8)
    (here / "w.toml").write_text(TOKENS + text)


def stage_of(run):
    return run / "stages/search"


def found(run):
    return tomllib.loads((stage_of(run) / "out/hyperparameters.toml").read_text())


def expect_nothing_twice(run):
    steps = steps_trained(stage_of(run))
    expect("every trial trained each of its steps once", each_step_once(steps), dict(steps))
    return {trial: len(done) for trial, done in steps.items()}


@case
def rungs_find_the_rate_that_the_training_takes(here):
    workflow(here, search() + pretrain())
    longhaul(here, "plan", "w.toml", code=0,
             says=["for pretrain: 4 trials in 3 rungs of 4, 8 and 16 steps on 1 rank, 1 node each", "optimizer.lr: { values = ["])
    longhaul(here, "run", "w.toml", code=0)
    run = runs(here)[-1]
    lengths = collections.Counter(expect_nothing_twice(run).values())
    expect("four begin, two go on, and two to the end", lengths == {4: 2, 16: 2}, lengths)
    expect("one run for each rung", [number for number, _ in starts(stage_of(run))] == [1] * 4 + [2] * 2 + [3] * 2, starts(stage_of(run)))
    result = found(run)
    rate = result["optimizer"]["lr"]
    expect("the rate is one of the list", rate in RATES, result)
    expect("and trained whole", result["found"]["whole"] and result["found"]["steps"] == 16, result)
    task = tomllib.loads((run / "stages/pretrain/task.toml").read_text())
    expect("the training has it, and its own schedule",
           (task["settings"]["optimizer"]["lr"], task["settings"]["optimizer"]["lr_schedule"]) == (rate, "cosine"), task["settings"])
    expect("no checkpoint and no model of a trial is left",
           not list(stage_of(run).rglob("checkpoint.json")) and not list(stage_of(run).rglob("model.safetensors")))
    longhaul(here, "status", code=0, says=["trials of search", "configuration", "heldout_loss", "won", "not among the best of rung 0"])
    longhaul(here, "report", "--output", run / "report", code=0)
    page = next((run / "report").glob("*.html")).read_text()
    expect("the report has the table", "<h2>Trials</h2>" in page and "not among the best of rung 0" in page)

    # Pasted, it is the same training; and a finalist is the one that was never stopped, to the last bit.
    pasted = f"optimizer = {{ lr = {rate!r}, warmup_steps = 2 }}\n"
    workflow(here, pretrain(pasted, ""))
    longhaul(here, "run", "w.toml", code=0)
    stage = stage_status(here, "pretrain")
    expect("with the rate pasted in it is the same training, which is there already", stage["state"] == "cached", stage)
    whole = f'optimizer = {{ lr = {rate!r}, lr_schedule = "constant", warmup_steps = 2 }}\n'
    workflow(here, pretrain(whole, ""))
    longhaul(here, "run", "w.toml", code=0)
    never_stopped = json.loads((runs(here)[-1] / "stages/pretrain/out/manifest.json").read_text())["figures"]["heldout_loss"]
    expect("the winner's loss is the never-stopped training's, to the last bit", result["found"]["value"] == never_stopped,
           (result["found"]["value"], never_stopped))


@case
def a_search_that_is_killed_goes_on_and_trains_nothing_twice(here):
    # Checkpoints at every step: what a kill interrupts is one job, and that is adopted.
    workflow(here, search() + pretrain())
    kills = 0
    for rung in range(1, 4):
        process = subprocess.Popen([LONGHAUL, "tune", "w.toml", "--stage", "search"], cwd=here, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            wait_for(f"a job of round {rung}",
                     lambda: process.poll() is not None or runs(here) and list(stage_of(runs(here)[-1]).glob(
                         f"rounds/{rung}/stages/trial/*/attempts/*/claim.json")), 60)
        finally:
            kills += process.poll() is None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    expect("controllers were killed", kills >= 2, kills)
    longhaul(here, "tune", "w.toml", "--stage", "search", code=0, says=["going on with tiny-", "hyperparameters: ", "optimizer.lr = "])
    expect("one run", len(runs(here)) == 1, runs(here))
    expect_nothing_twice(runs(here)[0])
    expect("each start had one job", len(claims(stage_of(runs(here)[0]))) == len(starts(stage_of(runs(here)[0]))) == 8, claims(stage_of(runs(here)[0])))


@case
def a_search_that_is_cancelled_goes_on_from_its_checkpoints(here):
    workflow(here, search() + pretrain() + "checkpoint = { every_steps = 1 }\n")
    process = subprocess.Popen([LONGHAUL, "run", "w.toml"], cwd=here, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for("a job of the second rung", lambda: runs(here) and list(stage_of(runs(here)[-1]).glob(
            "rounds/2/stages/trial/*/attempts/*/claim.json")), 60)
        longhaul(here, "cancel", code=0)
        process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    run = runs(here)[-1]
    done = {start["trial"] for number, start in starts(stage_of(run)) if number == 1}
    expect("the first rung was done", len(done) == 4, done)
    longhaul(here, "resume", code=0)
    expect("no trial of the first rung ran again", sum(start["rung"] == 0 for _, start in starts(stage_of(run))) == 4, starts(stage_of(run)))
    # Where the disk takes longer than a cancelled job has left, the step that it was in has no checkpoint.
    steps = steps_trained(stage_of(run))
    expect("no trial trained more than the step again in which it was cancelled",
           all(sorted(set(done)) == list(range(1, len(set(done)) + 1)) and len(done) <= len(set(done)) + 1 and done == sorted(done)
               for done in steps.values()), dict(steps))


@case
def what_diverges_or_is_too_large_is_an_outcome(here):
    values = "[1e-3, 1e38]"
    workflow(here, search(f'[stage.search.space."optimizer.lr"]\nvalues = {values}\n'
                          '[stage.search.space.micro_batch_size]\nvalues = [2, 64]\n',
                          keys="trials = 4\neta = 4\nmin_steps = 4\nfinalists = 1\n") +
             pretrain().replace("global_batch_size = 4", "global_batch_size = 64"))
    environment = dict(os.environ, SLURM_MEM_PER_NODE="40")  # MiB, as a scheduler would grant them
    longhaul(here, "tune", "w.toml", "--stage", "search", code=0, env=environment)
    run = runs(here)[-1]
    seen = {one["settings"]: one for one in trials_reported(stage_of(run)).values()}
    ends = collections.Counter(one["outcome"] for one in seen.values())
    expect("one trains, one diverges, two are too large", ends == {"done": 1, "diverged": 1, "out_of_memory": 2}, seen)
    expect("with what it needs", any("too little memory" in one["why"] for one in seen.values()), seen)
    expect("the one that is left wins", found(run)["optimizer"]["lr"] == 1e-3 and found(run)["micro_batch_size"] == 2, found(run))


@case
def a_search_without_a_single_result_fails_and_says_so(here):
    workflow(here, search('[stage.search.space."optimizer.lr"]\nvalues = [1e37, 1e38]\n') + pretrain())
    longhaul(here, "run", "w.toml", code=5, says=["none has a heldout_loss", "diverged"])
    expect("the training did not begin", not (runs(here)[-1] / "stages/pretrain/attempts").exists())


@case
def damaged_results_are_set_aside_named_and_made_again(here):
    workflow(here, search() + pretrain())
    process = subprocess.Popen([LONGHAUL, "tune", "w.toml", "--stage", "search"], cwd=here, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for("the second rung", lambda: runs(here) and (stage_of(runs(here)[-1]) / "rounds/2/starts.json").exists(), 60)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    run = runs(here)[-1]
    (stage_of(run) / "rounds/2/starts.json").write_text('{"starts": [{"trial"')
    lost = next(start["trial"] for number, start in starts(stage_of(run), skip=2))
    shutil.rmtree(stage_of(run) / f"rounds/1/stages/trial/{lost}/state")
    longhaul(here, "tune", "w.toml", "--stage", "search", code=0, says=["set aside: round 2: ", "optimizer.lr = "])
    expect("the rung was done again", [start["rung"] for number, start in starts(stage_of(run), skip=2) if number == 3][0] == 1, trials_reported(stage_of(run)))
    expect("what is damaged is in the artifact", any("round 2" in what for what in found(run)["found"]["set_aside"]), found(run))


@case
def trials_that_lost_give_their_checkpoints_back_while_others_go_on(here):
    # One finalist: of four trials two go on, and the second of them stays in reserve until the first is done.
    keys = "trials = 4\neta = 2\nmin_steps = 60\nfinalists = 1\n"
    workflow(here, search(keys=keys) + pretrain().replace("steps = 16", "steps = 240"))
    process = subprocess.Popen([LONGHAUL, "tune", "w.toml", "--stage", "search"], cwd=here, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for("the first rung", lambda: runs(here) and (stage_of(runs(here)[-1]) / "rounds/2/starts.json").exists(), 60)
        stage = stage_of(runs(here)[-1])
        seen = []  # as the last rung trains
        wait_for("the last rung trains, and holds what may go on", lambda: process.poll() is not None or (
            [start["rung"] for _, start in starts(stage)][-1] == 2 and seen.append(checkpoints(stage)) or
            seen and {number for number, _ in seen[-1]} == {2, 3}), 60, lambda: seen[-3:])
        expect("it had not ended", process.poll() is None and not (stage / "out").exists(), seen[-3:])
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    second = {start["trial"] for number, start in starts(stage) if number == 2}
    finalist = {start["trial"] for number, start in starts(stage) if number == 3}
    expect("two of four went on, one of them to the end", len(second) == 2 and len(finalist) == 1, starts(stage))
    kept = {(2, trial) for trial in second} | {(3, trial) for trial in finalist}
    expect("theirs are there, and no others", checkpoints(stage) == kept, checkpoints(stage))
    # Killed while it removed one: what is left of it goes, whatever it looks like.
    (stage / "rounds/1/.trash/left/checkpoints/step-00000060").mkdir(parents=True)
    longhaul(here, "tune", "w.toml", "--stage", "search", code=0, says=["going on with tiny-", "optimizer.lr = "])
    lengths = collections.Counter(expect_nothing_twice(runs(here)[0]).values())
    expect("no step was lost by it", lengths == {60: 2, 120: 1, 240: 1}, lengths)
    expect("nothing is left in the end", not checkpoints(stage) and not list(stage.glob("rounds/*/.trash")), checkpoints(stage))


@case
def asha_starts_trials_as_places_become_free(here):
    workflow(here, search(keys='method = "asha"\ntrials = 4\neta = 2\nmin_steps = 4\nat_once = 2\n') + pretrain())
    longhaul(here, "tune", "w.toml", "--stage", "search", code=0)
    run = runs(here)[-1]
    expect_nothing_twice(run)
    expect("some trained to the end", any(start["to_step"] == 16 for _, start in starts(stage_of(run))), starts(stage_of(run)))
    sizes = collections.Counter(number for number, _ in starts(stage_of(run)))
    expect("no more begin at a time than there are places", len(sizes) > 3 and max(sizes.values()) <= 2, starts(stage_of(run)))


@case
def tpe_learns_from_the_first_bracket_and_params_stand_for_settings(here):
    space = ('[stage.search.space."params.rate"]\nmin = 1e-4\nmax = 1e-2\nscale = "log"\n'
             '[stage.search.space."optimizer.weight_decay"]\nvalues = [0.0, 0.1]\n')
    text = search(space, keys='proposals = "tpe"\nbrackets = 2\ntrials = 6\nfirst = 3\neta = 3\nmin_steps = 5\n')
    workflow(here, "[params]\nrate = 1e-3\n" + text +
             pretrain('optimizer = { lr = "${params.rate}", warmup_steps = 2 }\n'))
    longhaul(here, "run", "w.toml", code=0)
    run = runs(here)[-1]
    expect_nothing_twice(run)
    expect("the model proposes in the second bracket", any("tpe: " in start["why"] for _, start in starts(stage_of(run))), starts(stage_of(run)))
    result = found(run)
    task = tomllib.loads((run / "stages/pretrain/task.toml").read_text())["settings"]["optimizer"]
    expect("the param's value is the rate of the training", task["lr"] == result["optimizer"]["lr"], (task, result))
    expect("beside the other", task["weight_decay"] == result["optimizer"]["weight_decay"], (task, result))


@case
def everything_that_is_wrong_is_said_at_once(here):
    workflow(here, '[params]\nrate = 1e-3\nvocabulary = 300\n[stage.search]\nkind = "search"\nfor = "pretrain"\nmin_steps = 40\n'
             '[stage.search.space."optimizer.lr"]\nmin = 0.0\nmax = 1e-2\nscale = "log"\n'
             '[stage.search.space."optimiser.beta1"]\nvalues = [0.9, 0.8]\n'
             '[stage.search.space.steps]\nvalues = [10, 20]\n'
             '[stage.other]\nkind = "search"\nfor = "pretrain"\n'
             '[stage.other.space."params.vocabulary"]\nvalues = [300, 400]\n'
             '[stage.other.space."params.rate"]\nvalues = [1e-3, 2e-3]\n'
             '[stage.third]\nkind = "search"\nfor = "tokens"\n[stage.third.space.vocabulary]\nvalues = [300, 400]\n' +
             pretrain().replace('"@search"', '"@tokens"'))
    (here / "w.toml").write_text((here / "w.toml").read_text().replace("vocabulary = 300\nthreads", 'vocabulary = "${params.vocabulary}"\nthreads'))
    longhaul(here, "run", "w.toml", code=3, says=[
        'stage.search.space."optimizer.lr": scale = "log" with min = 0',
        'stage.other.space."params.vocabulary": stage.tokens.vocabulary uses it',
        'stage.other.space."params.rate": nothing uses it',
        "stage.third.for names 'tokens', a tokenize stage",
        "stage.pretrain.hyperparameters names 'tokens', a tokenize stage"])
    expect("nothing was started", not runs(here))
    # Without what was wrong in writing, what does not fit the stage comes: the place is the parameter's.
    workflow(here, search('[stage.search.space."optimiser.beta1"]\nvalues = [0.9, 0.8]\n'
                          '[stage.search.space.steps]\nvalues = [10, 20]\n'
                          '[stage.search.space.global_batch_size]\nvalues = [4, 5]\n').replace(
                              'optimizer = { lr_schedule = "constant" }', 'ranks = 2') + pretrain())
    done = longhaul(here, "run", "w.toml", code=3, says=[
        'stage.search.space."optimiser.beta1" is no setting of the stage', "did you mean optimizer.beta1?",
        'stage.search.space."steps": how long a trial trains', "stage.search.trial.ranks: trials have that of the stage"])
    line = (here / "w.toml").read_text().splitlines().index("values = [0.9, 0.8]")
    expect("with its place", f"w.toml:{line}:1:" in done.text, done)
    workflow(here, search('[stage.search.space.global_batch_size]\nvalues = [4, 5]\n').replace(
        'optimizer = { lr_schedule = "constant" }', "") + pretrain())
    longhaul(here, "run", "w.toml", code=3, says=['stage.search.space."global_batch_size" = 5: '])
    workflow(here, search().replace('optimizer = { lr_schedule = "constant" }', "") + pretrain())
    longhaul(here, "run", "w.toml", code=3, says=['lr_schedule = "cosine" depends on the number of steps',
                                                  "[stage.search.trial] optimizer = { lr_schedule"])


if __name__ == "__main__":
    main()
