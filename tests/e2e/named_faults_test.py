#!/usr/bin/env python3
"""Faults by name that reach a training on this machine: what is injected is joined afterwards with what the lead, or the
engine, made of it.

usage: named_faults_test.py LONGHAUL SOURCE_DIR [parts of case names]
"""
import json

from scenario import case, expect, longhaul, main, newest_run
from tiny_inputs import tokens_of_pages, write_pages

SEED, STEPS, EVERY, AT_STEP = 20261122, 60, 10, 20


def training(more):
    return tokens_of_pages("named") + f"""[stage.train]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
threads = 1
precision = "f32"
steps = {STEPS}
sequence_length = 64
micro_batch_size = 2
global_batch_size = 8
checkpoint = {{ every_steps = {EVERY} }}
model = {{ hidden_size = 64, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64 }}
parallel = {{ dp_shard = 2, zero = 1 }}
{more}"""


def injected(here, name, more=""):
    """The events of a training that had this fault once, and has come to its end all the same."""
    write_pages(here / "pages", SEED, pages=4)
    (here / "w.toml").write_text(training(f'{more}faults = {{ at = [ {{ name = "{name}", rank = 1, step = {AT_STEP} }} ] }}\n'))
    longhaul(here, "run", "w.toml", code=0, deadline_s=240)
    run = newest_run(here)
    attempts = sorted(run.glob("stages/train/attempts/*"))
    expect("no other job was tried", len(attempts) == 1, attempts)
    facts = [json.loads(line) for line in (attempts[0] / "events.jsonl").read_text().splitlines()]
    reported = [e for e in facts if e["kind"] == "injected"]
    expect("it was injected, once", [(e["fault"], e["rank"]) for e in reported] == [(name, 1)], reported)
    steps = [e["step"] for e in facts if e["kind"] == "metric" and "loss" in e]
    expect("the training has gone on to its last step", steps and steps[-1] == STEPS, steps[-5:])
    after = [e for e in facts if e["ms"] >= reported[0]["ms"]]
    return facts, after


@case
def a_last_save_slower_than_the_hang_floor(here):
    write_pages(here / "pages", SEED, pages=4)
    (here / "w.toml").write_text(training('resiliency = { hang_floor = "3s", host_silent = "2s" }\n'))
    (here / "plan").write_text(f"checkpoint_half_shard delay_ms=8000 nth={STEPS // EVERY}\n")
    longhaul(here, "run", "w.toml", "--worker-fault-plan", here / "plan", code=0, deadline_s=240)
    attempts = sorted(newest_run(here).glob("stages/train/attempts/*"))
    expect("no other job was tried", len(attempts) == 1, attempts)
    facts = [json.loads(line) for line in (attempts[0] / "events.jsonl").read_text().splitlines()]
    saved = [e for e in facts if e["kind"] == "checkpoint"]
    expect("the last save took as long as the plan says", saved[-1]["step"] == STEPS and saved[-1]["write_s"] >= 8, saved)
    expect("the saves before it were quick", max(e["write_s"] for e in saved[:-1]) < 3, saved)
    expect("its ranks were started once", len([e for e in facts if e["kind"] == "launched"]) == 1, facts)
    bad = [e for e in facts if e["kind"] in ("fault", "no_progress")]
    expect("nobody took it for a hang", not bad, bad)


def asked_to_end(here, name):
    facts, after = injected(here, name)
    faults = [e for e in facts if e["kind"] == "fault"]
    reported = [(e["class"], e["tier"], e["rank"]) for e in faults]
    expect("one fault, after it, with its class, the cheapest tier that helps, and the rank that got the signal",
           reported == [("interrupted", "in_job", 1)] and faults[0] in after, faults)
    expect("and by which signal", f"rank 1: asked to stop by {name}: stopped after step" in faults[0]["cause"], faults)
    stopped = [e for e in facts if e["kind"] == "stopped"]
    expect("it is no end of the wall time", [(e["why"], e["saved"]) for e in stopped] == [("asked", True)], stopped)
    expect("the ranks were started again, once", len([e for e in facts if e["kind"] == "launched"]) == 2, facts)
    recovered = [e for e in after if e["kind"] == "recovered"]
    expect("and the recovery is reported", len(recovered) == 1, after)


@case
def sigterm_that_nobody_here_asked_for(here):
    asked_to_end(here, "SIGTERM")


@case
def sigint_that_nobody_here_asked_for(here):
    asked_to_end(here, "SIGINT")


@case
def a_loss_that_is_no_number_goes_back_to_the_copy_in_memory(here):
    facts, after = injected(here, "nan_loss")
    faults = [e for e in facts if e["kind"] == "fault"]
    expect("one fault, after it, with its class and tier",
           [(e["class"], e["tier"]) for e in faults] == [("loss_nan", "in_process")] and faults[0] in after, faults)
    expect("in the same processes", len([e for e in facts if e["kind"] == "launched"]) == 1, facts)
    expect("from memory", [e["from"] for e in after if e["kind"] == "ready"] == ["memory"], after)
    expect("and the recovery is reported", len([e for e in after if e["kind"] == "recovered"]) == 1, after)


@case
def a_loss_that_is_no_number_is_skipped_where_the_stage_says_so(here):
    facts, after = injected(here, "nan_loss", 'on_spike = { action = "skip" }\n')
    spikes = [e for e in facts if e["kind"] == "spike"]
    expect("the engine leaves the update out", [e["action"] for e in spikes] == ["skip"] and spikes[0] in after, spikes)
    faults = [(e["class"], e["tier"]) for e in facts if e["kind"] == "fault"]
    expect("nobody was ended for it", faults == [("loss_nan", "skip")], facts)
    expect("one launch", len([e for e in facts if e["kind"] == "launched"]) == 1, facts)
    longhaul(here, "status", "latest", code=0, says=["loss_nan", "skip"])


@case
def a_loss_that_is_no_number_is_rolled_back_where_the_stage_says_so(here):
    facts, after = injected(here, "nan_loss", 'on_spike = { action = "rollback" }\n')
    backs = [e for e in after if e["kind"] == "rolled_back"]
    expect("the engine goes back to its last checkpoint", len(backs) == 1 and backs[0]["to_step"] % 10 == 0 and
           backs[0]["lost_steps"] == backs[0]["step"] - 1 - backs[0]["to_step"], backs)
    faults = [e for e in facts if e["kind"] == "fault"]
    expect("one fault, with its class, tier and target", [(e["class"], e["tier"], e["step"], e.get("to_step")) for e in faults] ==
           [("loss_nan", "skip", backs[0]["step"], backs[0]["to_step"])], faults)
    recovered = [e for e in after if e["kind"] == "recovered"]
    expect("and its recovery, with what was lost", [e["lost_steps"] for e in recovered] == [backs[0]["lost_steps"]], recovered)
    expect("one launch", len([e for e in facts if e["kind"] == "launched"]) == 1, facts)
    longhaul(here, "faults", "latest", code=0, says=["loss_nan", f"skip: back to step {backs[0]['to_step']}", "done again"])
    longhaul(here, "status", "latest", code=0, says=["loss_nan", "skip"])


if __name__ == "__main__":
    main()
