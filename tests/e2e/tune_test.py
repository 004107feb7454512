#!/usr/bin/env python3
"""A layout found by trials on this machine: `longhaul tune`, an interruption, memory that is too small for one candidate.

usage: tune_test.py LONGHAUL SOURCE_DIR [parts of case names]
"""
import json
import os
import signal
import subprocess
import tomllib

from scenario import LONGHAUL, case, events, expect, knows_this_machine, longhaul, main, processes_holding, runs, stage_status, wait_for
from tiny_inputs import write_pages, write_questions
from trial_stages import TOKENS, claims, shape, trials_reported

PRETRAIN = f"""
[stage.pretrain]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
precision = "f32"
steps = 8
threads = 1
sequence_length = 64
micro_batch_size = 2
global_batch_size = 16
model = {shape(64, 4, 4)}
parallel = "@layout"
"""


def tune(candidates, more="", steps=10):
    return f'[stage.layout]\nkind = "tune"\nfor = "pretrain"\nsteps = {steps}\nwarmup_steps = 2\n' + more + \
        "candidates = [\n" + "".join(f"  {one},\n" for one in candidates) + "]\n"


def workflow(here, candidates, more="", steps=10):
    knows_this_machine(here)
    write_pages(here / "pages", 7, pages=8)
    (here / "w.toml").write_text(TOKENS + tune(candidates, more, steps) + PRETRAIN)


def stage_of(run):
    return run / "stages/layout"


ONE, TP2, DP2 = '{ name = "one", parallel = {} }', '{ name = "tp2", parallel = { tp = 2 } }', \
    '{ name = "dp2", parallel = { dp_shard = 2 }, micro_batch_size = 4 }'


@case
def tune_prints_candidates_then_what_they_showed_and_the_training_takes_the_winner(here):
    workflow(here, (ONE, TP2, DP2))
    longhaul(here, "tune", "w.toml", "--stage", "pretrain", "--dry-run", code=0,
             says=["up to 3 trials of 3 candidates, 10 steps", "dp2: { parallel = { dp_shard = 2 }, ranks = 2, micro_batch_size = 4 }"])
    longhaul(here, "tune", "w.toml", "--dry-run", code=0, says="up to 3 trials of 3 candidates, 10 steps")  # the only one
    expect("a dry run makes no run", not runs(here))
    words = longhaul(here, "completion", "words", "stages", "w.toml", code=0).out.split()
    expect("a shell completes the workflow's stages", {"layout", "pretrain"} <= set(words), words)
    longhaul(here, "tune", "w.toml", "--stage", "pretrain", code=0,
             says=["trials of layout", ": the fastest", "# The layout of stage pretrain: ", "layout: "])
    first = runs(here)[-1]
    expect("three jobs", len(claims(stage_of(first))) == 3, claims(stage_of(first)))
    longhaul(here, "report", first, "--output", first / "report", code=0)
    page = (first / "report/index.html").read_text()
    for drawn in ("predicted against measured step time", "where a step's time goes", "pipeline of a step"):
        expect(f"the report draws: {drawn}", f'aria-label="{drawn}"' in page.replace("&#39;", "'"))
    expect("and reports all candidates", all(f">{name}<" in page for name in ("one", "tp2", "dp2")))
    reported = next(one for one in json.loads((first / "report/report.json").read_text())["stages"] if one["id"] == "layout")["tuning"]
    expect("with what was predicted and measured", all(one["predicted_seconds"] > 0 for one in reported["candidates"]) and
           any(one["won"] and one["step_seconds"] > 0 for one in reported["candidates"]), reported)
    expect("no model is left of them", not list((stage_of(first) / "rounds").glob("*/stages/trial/*/out")))
    expect("and no checkpoint", not list((stage_of(first) / "rounds").rglob("checkpoint.json")))
    layout = tomllib.loads((stage_of(first) / "out/layout.toml").read_text())
    longhaul(here, "run", "w.toml", code=0)
    second = runs(here)[-1]
    expect("a cached stage shows its trials too", "<h2>Tuning</h2>" in (second / "report/index.html").read_text())
    expect("what was tuned is not tuned again", not (stage_of(second) / "rounds").exists())
    task = tomllib.loads((second / "stages/pretrain/task.toml").read_text())
    expect("the training has the winner's ranks", task["resources"]["ranks"] == layout["ranks"], task["resources"])
    pasted = (stage_of(first) / "out/layout.toml").read_text().split("\n# How it was found.")[0]
    bare = PRETRAIN.replace('parallel = "@layout"\n', "")
    if "micro_batch_size" in pasted:
        bare = bare.replace("micro_batch_size = 2\n", "")
    (here / "p.toml").write_text(TOKENS + bare + pasted)
    longhaul(here, "run", "p.toml", code=0)
    expect("with the layout pasted in it is the same training", stage_status(here, "pretrain")["state"] == "cached",
           stage_status(here, "pretrain"))
    expect("and trained with them", (second / "stages/pretrain/out/model.safetensors").exists(),
           sorted((second / "stages/pretrain/out").iterdir()))
    found = json.loads(longhaul(here, "tune", "w.toml", "--json", code=0).out)
    expect("what was found as JSON", found["file"] == "longhaul tune" and found["state"] in ("cached", "succeeded") and
           found["found"]["ranks"] == layout["ranks"] and found["found_path"].endswith("layout.toml"), found)


@case
def an_interrupted_tune_goes_on_and_runs_no_trial_twice(here):
    workflow(here, (ONE, TP2, DP2), "at_once = 1\n")
    process = subprocess.Popen([LONGHAUL, "tune", "w.toml", "--stage", "layout"], cwd=here, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for("the first trial", lambda: runs(here) and claims(stage_of(runs(here)[-1])), 60)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    longhaul(here, "report", runs(here)[-1], "--output", runs(here)[-1] / "report", code=0)
    half = (runs(here)[-1] / "report/index.html").read_text()
    expect("a report of what is known so far", "<h2>Tuning</h2>" in half and "tp2" in half)
    longhaul(here, "tune", "w.toml", "--stage", "layout", code=0, says=["going on with tiny-", ": the fastest"])
    expect("one run", len(runs(here)) == 1, runs(here))
    expect("each trial had one job", len(claims(stage_of(runs(here)[0]))) == 3, claims(stage_of(runs(here)[0])))


@case
def a_candidate_that_is_too_large_and_one_that_crashes_are_outcomes(here):
    huge = '{ name = "huge", parallel = {}, micro_batch_size = 64 }'
    crash = '{ name = "crash", parallel = {}, faults = { at = [{ name = "SEGFAULT", rank = 0, step = 2 }] } }'
    workflow(here, (huge, crash, ONE))
    (here / "w.toml").write_text((here / "w.toml").read_text().replace("global_batch_size = 16", "global_batch_size = 64"))
    environment = dict(os.environ, SLURM_MEM_PER_NODE="90")  # MiB, as a scheduler would grant them
    longhaul(here, "run", "w.toml", code=0, env=environment)
    seen = trials_reported(stage_of(runs(here)[-1]))
    expect("the engine's own check is out of memory", seen["huge"]["outcome"] == "out of memory", seen)
    expect("with what it needs", "too little memory" in seen["huge"]["why"], seen)
    expect("a signal is a crash", seen["crash"]["outcome"] == "crash", seen)
    layout = tomllib.loads((stage_of(runs(here)[-1]) / "out/layout.toml").read_text())
    expect("the one that is left wins", layout["found"]["winner"] == "one", layout)
    expect("no fault is in the layout", "faults" not in layout, layout)


@case
def what_was_measured_here_corrects_the_next_predictions(here):
    knows_this_machine(here)
    write_pages(here / "pages", 7, pages=8)
    two = PRETRAIN.replace("threads = 1\n", "threads = 1\nranks = 2\n").replace('parallel = "@layout"', "parallel = { dp_replicate = 2 }")
    (here / "w.toml").write_text(TOKENS + two)
    (here / "t.toml").write_text(TOKENS + '[stage.layout]\nkind = "tune"\nfor = "pretrain"\nsteps = 10\nwarmup_steps = 2\n'
                                 "max_runs = 2\nat_once = 1\n" + two.replace("{ dp_replicate = 2 }", '"@layout"'))

    def plan():
        reported = json.loads(longhaul(here, "plan", "w.toml", "--json", code=0).out)
        return next(one for one in reported["predicted"] if one["stage"] == "pretrain")

    before = plan()
    expect("nothing corrects it", "correction" not in before, before)
    longhaul(here, "tune", "t.toml", "--stage", "pretrain", code=0)
    kept = list((here / "runs/.measured").glob("*.json"))
    expect("the stage leaves what it measured", len(kept) == 1, kept)
    measured = json.loads(kept[0].read_text())["trainings"]
    expect("of both trials", len(measured) == 2, measured)
    after = plan()
    ratios = [one["seconds"] / one["predicted_seconds"] for one in measured]
    expect("predictions are corrected by about what was seen", 0.8 * min(ratios) < after["correction"] < 1.25 * max(ratios), (after, ratios))
    expect("of what constants alone say", abs(after["step_seconds"] / after["correction"] / before["step_seconds"] - 1) < 1e-6, (before, after))
    longhaul(here, "plan", "w.toml", code=0, says=["step times measured here: 2, the last by tiny-"])
    kept[0].write_text(kept[0].read_text()[:200])
    longhaul(here, "plan", "w.toml", code=0, says=["set aside: ", kept[0].name], never=["step times measured here"])


@case
def a_training_that_ended_well_is_a_measurement_too(here):
    write_pages(here / "pages", 7, pages=8)
    bare = PRETRAIN.replace('parallel = "@layout"', "")
    kept = lambda: sorted((here / "runs/.measured").glob("*.json"))  # noqa: E731
    (here / "w.toml").write_text(TOKENS + bare)
    longhaul(here, "run", "w.toml", code=0)
    expect("eight steps are too few to go by", not kept(), kept())
    longer = bare.replace("steps = 8", "steps = 24")
    # Ratios belong to the constants that predicted: those that this machine showed, from here on.
    longhaul(here, "plan", "w.toml", code=0, says=["measured in"])
    (here / "w.toml").write_text(TOKENS + longer + 'faults = { at = [{ name = "slow_rank", rank = 0, step = 3, lasts = "1s" }] }\n')
    longhaul(here, "run", "w.toml", code=0)
    expect("a training with injected faults is none", not kept(), kept())
    (here / "w.toml").write_text(TOKENS + longer.replace("global_batch_size = 16", "global_batch_size = 8"))
    longhaul(here, "run", "w.toml", code=0)
    expect("one of 24 steps is", len(kept()) == 1, kept())
    measured = json.loads(kept()[0].read_text())["trainings"]
    expect("one", len(measured) == 1, measured)
    steps = sorted(8 * 64 / one["tokens_per_s"] for one in events(runs(here)[-1], "pretrain", "metric") if one.get("tokens_per_s"))
    expect("with a step time that its steps had", steps[0] <= measured[0]["seconds"] <= steps[-1], (measured, steps))
    longhaul(here, "plan", "w.toml", code=0, says=["step times measured here: 1, the last by tiny-"])
    longhaul(here, "run", "w.toml", code=0)
    expect("what is not trained again is not measured again", len(kept()) == 1, kept())


@case
def a_training_in_phases_is_tuned_in_its_longest_and_what_builds_on_it_is_forecast(here):
    knows_this_machine(here)
    write_pages(here / "pages", 7, pages=8)
    phases = PRETRAIN.replace("steps = 8\n", "").replace("sequence_length = 64\n", "") + """
[stage.pretrain.phase.short]
steps = 4
sequence_length = 32
[stage.pretrain.phase.long]
steps = 8
sequence_length = 64
"""
    (here / "w.toml").write_text(TOKENS + tune((ONE, TP2)) + phases)
    longhaul(here, "tune", "w.toml", "--stage", "pretrain", code=0, says=["trials of layout", ": the fastest"])
    trial = next((stage_of(runs(here)[-1]) / "rounds").rglob("task.toml"))
    settings = tomllib.loads(trial.read_text())["settings"]
    expect("trials have the longest phase alone", settings["sequence_length"] == 64 and not settings.get("phase"), settings)
    (here / "s.toml").write_text(TOKENS + tune((ONE, TP2), 'phase = "short"\n') + phases)
    longhaul(here, "tune", "s.toml", "--stage", "pretrain", code=0)
    trial = next((stage_of(runs(here)[-1]) / "rounds").rglob("task.toml"))
    expect("or the one that is named", tomllib.loads(trial.read_text())["settings"]["sequence_length"] == 32, trial.read_text())
    (here / "t.toml").write_text(TOKENS + tune((ONE, TP2), 'phase = "middle"\n') + phases)
    longhaul(here, "tune", "t.toml", "--stage", "pretrain", code=3, says=["middle", "short", "long"])
    longhaul(here, "run", "w.toml", code=0)
    steps = [one["step"] for one in events(runs(here)[-1], "pretrain", "metric") if one.get("tokens_per_s")]
    expect("both phases are trained", steps == list(range(1, 13)), steps)
    write_questions(here / "questions", 7, questions=20)
    later = "".join(f"""
[stage.{kind}]
kind = "{kind}"
inputs = {{ model = "@{model}", data = "questions/{data}" }}
threads = 1
sequence_length = 64
micro_batch_size = 2
global_batch_size = 4
epochs = 1.0
""" for kind, model, data in (("sft", "pretrain", "train.jsonl"), ("align", "sft", "pairs-train.jsonl")))
    (here / "f.toml").write_text(TOKENS + tune((ONE, TP2)) + phases + later)
    reported = json.loads(longhaul(here, "plan", "f.toml", "--json", code=0).out)["predicted"]
    sft, align = (next(one for one in reported if one["stage"] == name) for name in ("sft", "align"))
    expect("sft is forecast with the model behind it", sft["step_seconds"] > 0 and "problem" not in sft, reported)
    # What is measured of larger products on a busy machine may be no better than of smaller ones.
    expect("align as well, with two sequences a pair", 1.7 < align["parts"]["products"] / sft["parts"]["products"] < 2.2, (sft, align))


@case
def candidates_that_hang_are_outcomes_and_the_others_go_on(here):
    # One rank stands still in its own code and the other waits for it; the only rank of another candidate is stopped. What
    # nobody has timed yet may take long on a machine that is busy, so the first steps are long over. A fault follows the
    # step that its agent has seen, which a step of 12 ms outruns: enough steps remain for an agent that looks late.
    hung = '{ name = "hung", parallel = { dp_shard = 2 }, faults = { at = [{ name = "hung_rank", rank = 1, step = 8 }] } }'
    stopped = '{ name = "stopped", parallel = {}, faults = { at = [{ name = "SIGSTOP", rank = 0, step = 8 }] } }'
    workflow(here, (hung, stopped, ONE, TP2),
             'at_once = 1\nresiliency = { hang_floor = "5s", hang_suspect = "2s", host_silent = "3s", startup = "45s" }\n',
             steps=150)
    longhaul(here, "run", "w.toml", code=0, deadline_s=180)
    run = runs(here)[-1]
    seen = trials_reported(stage_of(run))
    for name in ("hung", "stopped"):
        expect(f"{name}: standing still is a hang", seen[name]["outcome"] == "hang", seen)
    expect("and it says who stood still", "rank 1 stands" in seen["hung"]["why"] and "SIGSTOP" in seen["stopped"]["why"], seen)
    expect("the others are measured", all(seen[name]["outcome"] in ("measured", "stopped") for name in ("one", "tp2")), seen)
    expect("one job each", len(claims(stage_of(run))) == 4, claims(stage_of(run)))
    layout = tomllib.loads((stage_of(run) / "out/layout.toml").read_text())
    expect("one of those wins", layout["found"]["winner"] in ("one", "tp2"), layout)
    expect("the training was done with it", stage_status(here, "pretrain")["state"] == "succeeded", stage_status(here, "pretrain"))
    expect("nothing of them stands still any more", not processes_holding(run.name), processes_holding(run.name))


@case
def a_training_for_measurement_leaves_figures_alone_and_is_nobody_elses(here):
    knows_this_machine(here)
    write_pages(here / "pages", 7, pages=8)
    (here / "w.toml").write_text(TOKENS + PRETRAIN.replace('parallel = "@layout"', "checkpoint = { at_end = false }"))
    for _ in range(2):
        longhaul(here, "run", "w.toml", code=0, never=["heldout_loss"])
        stage = runs(here)[-1] / "stages/pretrain"
        expect("figures, and no model", sorted(p.name for p in (stage / "out").iterdir()) == ["artifact.json", "manifest.json"],
               list((stage / "out").iterdir()))
        expect("no checkpoint", not list(stage.rglob("checkpoint.json")), list(stage.rglob("checkpoint.json")))
        expect("it ran itself", len(events(runs(here)[-1], "pretrain", "metric")) == 8)
    (here / "w.toml").write_text(TOKENS + PRETRAIN.replace('parallel = "@layout"', ""))
    longhaul(here, "run", "w.toml", code=0, says="heldout_loss")
    expect("the same with a model has one", (runs(here)[-1] / "stages/pretrain/out/model.safetensors").exists())


if __name__ == "__main__":
    main()
