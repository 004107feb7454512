#!/usr/bin/env python3
"""Models that a training publishes while it goes on: evaluated meanwhile, cached, forked, kept by gc, asked for too late.

usage: milestones_test.py LONGHAUL SOURCE_DIR
"""
import os
import signal
import subprocess

from scenario import LONGHAUL, PATIENCE, case, events, expect, json_lines, longhaul, main, newest_run, runs, stage_status, status, wait_for
from tiny_inputs import tokens_of_pages, write_pages, write_questions

SEED = 20260307

TRAINING = """[stage.pretrain]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
ranks = {ranks}
threads = 1
steps = {steps}
sequence_length = 32
micro_batch_size = 2
global_batch_size = {batch}
checkpoint = {{ every_steps = 20, keep_last = 9 }}
model = {{ hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2, num_key_value_heads = 1, max_position_embeddings = 32 }}
optimizer = {{ lr = 1e-2, warmup_steps = 5 }}
{more}
"""
EVALUATE = """
[stage.{name}]
kind = "evaluate"
inputs = {{ model = "{model}", tokens = "@tokens" }}
threads = 1
tasks = ["bits_per_byte"]
"""


def write_workflow(here, model, steps=60, every=20, batch=4, ranks=1, more=""):
    if not (here / "pages").exists():
        write_pages(here / "pages", SEED, pages=8, languages=("en",))
        write_questions(here / "questions", SEED)
    every = f"milestone_every = {every}" if every else ""
    text = tokens_of_pages("milestones", heldout_bytes=600, vocabulary=300) + TRAINING.format(steps=steps, batch=batch, ranks=ranks, more=every)
    if model:
        text += EVALUATE.format(name="evaluate", model=model)
    (here / "w.toml").write_text(text + more)


def states(here):
    return {s["id"]: s["state"] for s in status(here)["stages"]}


def losses(run):
    return [(e["step"], e["loss"]) for e in events(run, "pretrain", "metric") if "loss" in e]


def facts(run, kind):
    return [f for path in sorted((run / "log").glob("*.jsonl")) for f in json_lines(path) if f["fact"] == kind]


@case
def a_milestone_is_evaluated_before_the_training_ends(here):
    late = EVALUATE.format(name="late", model="@pretrain@199600")
    write_workflow(here, "@pretrain@200", steps=200000, every=200, batch=64, more=late)
    process = subprocess.Popen([str(LONGHAUL), "run", "w.toml"], cwd=here, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        wait_for("the milestone is evaluated", lambda: runs(here) and stage_status(here, "evaluate")["state"] == "succeeded", 60)
        now = stage_status(here, "pretrain")
        expect("while the training goes on", now["state"] == "running" and now["progress"]["done"] < 200000, now)
        expect("its milestones are reported", 200 in now["milestones"], now)
        longhaul(here, "status", says="waits for milestone 199600 of pretrain")
        run = runs(here)[0]
        out = run / "stages/pretrain/milestones/200"
        task = (run / "stages/evaluate/task.toml").read_text()
        expect("it was the milestone's model", str(out) in task and "pretrain@200" in task, task)
        longhaul(here, "gc", "--delete", "--keep-last", "0", code=0, says="it has not ended")
        expect("gc leaves it alone", (out / "model.safetensors").exists())
        longhaul(here, "gc", code=0, says="its checkpoints and milestones hold at most")
        longhaul(here, "tell", "latest", "stop-after", int(now["progress"]["done"]) + 400, code=0)
        text, _ = process.communicate(timeout=60 * PATIENCE)
        expect("the shortened run ends well", process.returncode == 0, text)
        end = stage_status(here, "late")
        expect("what it no longer reaches is skipped", end["state"] == "skipped" and "ended after step" in end["cause"], end)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            longhaul(here, "cancel")


@case
def every_milestone_is_a_variant_and_all_of_it_is_cached(here):
    write_workflow(here, "", every=0, ranks=2)
    longhaul(here, "run", "w.toml", code=0)
    without = newest_run(here)
    # Asked for afterwards: the training is the same and is not done again, so they cannot be had.
    write_workflow(here, "@pretrain@every", ranks=2)
    longhaul(here, "plan", "w.toml", code=0, says=["evaluate/step=20", "pretrain@20", "pretrain@40", "2 milestones"])
    longhaul(here, "run", "w.toml", code=5, says=["skipped: evaluate/step=20: it needs the milestone of step 20", "site.artifacts"])
    expect("the training was cached", states(here)["pretrain"] == "cached", states(here))
    # Another root of artifacts: trained again, to the same bits on two ranks.
    other = ["run", "w.toml", "--set", f'site.artifacts="{here}/artifacts"']
    longhaul(here, *other, code=0)
    run = newest_run(here)
    expect("all ended well", set(states(here).values()) == {"succeeded"}, states(here))
    expect("the loss curve is that of before", losses(run) == losses(without) and len(losses(run)) == 60, losses(run))
    model = "stages/pretrain/out/model.safetensors"
    expect("and so is the model", (run / model).read_bytes() == (without / model).read_bytes())
    bits = [stage_status(here, f"evaluate/step={step}")["figures"]["bits_per_byte"] for step in (20, 40)]
    expect("a later model is better", bits[1] < bits[0], bits)
    expect("each is in the log", [f["with"]["step"] for f in facts(run, "milestone")] == [20, 40], facts(run, "milestone"))
    longhaul(here, *other, code=0)
    expect("nothing is done again", set(states(here).values()) == {"cached"}, states(here))
    # The milestones of the older run are in use by the newer one; without that they go.
    longhaul(here, "gc", "--delete", "--keep-last", "1", code=0)
    expect("an artifact that another run took stays", (run / "stages/pretrain/milestones/40/model.safetensors").exists())
    longhaul(here, "gc", "--delete", "--keep-last", "0", code=0, says="milestone of an older run that nobody refers to")
    expect("old ones go", not (run / "stages/pretrain/milestones/40").exists())


@case
def a_fork_keeps_the_milestones_of_before(here):
    write_workflow(here, "@pretrain@every", steps=80)
    longhaul(here, "run", "w.toml", code=0)
    old = newest_run(here)
    longhaul(here, "fork", "latest", "--from", "pretrain@40", "--set", "stage.pretrain.milestone_every=30", code=3,
             says="evaluate/step=20 takes its milestone of step 20, which it would no longer publish")
    longhaul(here, "fork", "latest", "--from", "pretrain@40", "--set", "stage.pretrain.optimizer.lr=1e-3", code=0)
    fork = newest_run(here)
    longhaul(here, "resume", fork, code=0)
    now = states(here)
    expect("those of before are evaluated already", [now[f"evaluate/step={s}"] for s in (20, 40, 60)] ==
           ["cached", "cached", "succeeded"], now)
    model = "stages/pretrain/milestones/{}/model.safetensors"
    expect("the same model", (fork / model.format(40)).read_bytes() == (old / model.format(40)).read_bytes())
    expect("another one after it", (fork / model.format(60)).read_bytes() != (old / model.format(60)).read_bytes())


@case
def every_stage_that_takes_a_model_takes_a_milestone(here):
    more = """
[stage.export]
kind = "convert"
inputs = { model = "@pretrain@40" }
dtype = "bf16"
[stage.small]
kind = "quantize"
inputs = { model = "@pretrain@40" }
[stage.sft]
kind = "sft"
inputs = { model = "@pretrain@20", data = "questions/train.jsonl" }
threads = 1
steps = 4
sequence_length = 32
[stage.config]
kind = "command"
inputs = { config = "@pretrain@20/config.json" }
script = 'cp "$LONGHAUL_INPUT_CONFIG" "$LONGHAUL_OUT"'
[stage.serve]
kind = "deploy"
inputs = { model = "@pretrain@40" }
prompts = ["The"]
max_tokens = 4
"""
    write_workflow(here, "", more=more)
    longhaul(here, "run", "w.toml", code=0)
    expect("all ended well", set(states(here).values()) == {"succeeded"}, states(here))


if __name__ == "__main__":
    main()
