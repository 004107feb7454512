#!/usr/bin/env python3
"""A site's constants measured by real short runs: `longhaul tune --calibrate`, killed and gone on with, what it writes, who uses it,
and results that are broken.

usage: calibrate_test.py LONGHAUL SOURCE_DIR [parts of case names]
"""
import json
import os
import signal
import subprocess
import tomllib

from scenario import LONGHAUL, case, expect, longhaul, main, runs, wait_for

SITE = 'name = "here"\nscheduler = "local"\ncpu_slots = 1\n'
CALIBRATE = ("tune", "--calibrate", "--site", "here.toml", "--steps", "5", "--ranks", "1")
DEADLINE_S = 400
TRAINING = """[workflow]
name = "tiny"
[stage.tokens]
kind = "tokenize"
inputs = { corpus = "pages" }
vocabulary = 300
[stage.pretrain]
kind = "pretrain"
inputs = { tokens = "@tokens" }
steps = 8
threads = 1
sequence_length = 64
micro_batch_size = 2
global_batch_size = 64
model = { hidden_size = 256, num_hidden_layers = 4, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64 }
"""


def jobs(run):
    return list((run / "stages").glob("*/rounds/*/stages/trial/*/attempts/*/claim.json"))


def predicted(here):
    done = longhaul(here, "plan", "w.toml", "--site", "here.toml", "--json", code=0)
    return json.loads(done.out)["predicted"][0]["step_seconds"]


@case
def a_killed_calibration_goes_on_and_its_constants_are_used_from_then_on(here):
    (here / "here.toml").write_text(SITE)
    (here / "pages").mkdir()
    (here / "pages/documents.jsonl").write_text('{"id": "1", "language": "en", "text": "a step, a layer and a rank"}\n')
    (here / "w.toml").write_text(TRAINING)
    before = predicted(here)
    longhaul(here, *CALIBRATE, "--dry-run", code=0, says=["wide-steps", "deep-steps", "within"])
    expect("a dry run makes no run", not runs(here))
    process = subprocess.Popen([LONGHAUL, *CALIBRATE], cwd=here, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for("the second training", lambda: runs(here) and len(jobs(runs(here)[-1])) >= 2, 150)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    expect("nothing is written before the end", not (here / "constants").exists() or not list((here / "constants").iterdir()))
    longhaul(here, *CALIBRATE, code=0, deadline_s=DEADLINE_S,
             says=["going on with calibrate-here-", "steps of trainings, measured and predicted", "each by constants fitted without it",
                   "these runs do not determine it", "constants: "])
    expect("one run", len(runs(here)) == 1, runs(here))
    shown = json.loads((runs(here)[0] / "calibration.json").read_text())
    expect("nine trainings, none twice", len(shown["trainings"]) == 9 and len(jobs(runs(here)[0])) == 9, shown["trainings"])
    expect("products are among the parts", any("product bf16" in one["name"] for one in shown["parts"]), shown["parts"])
    expect("messages cannot be known from one rank", any(one["unknown"] and "link_share" in one["path"] for one in shown["constants"]))
    written = tomllib.loads((here / "constants/here.toml").read_text())
    for section in written["common-cpu"], written["gpu"]["cpu-core"]:
        for name, constant in section.items():
            expect(f"{name} has unit and source", constant["unit"] and "measured on here, 20" in constant["source"], constant)
    longhaul(here, "plan", "w.toml", "--site", "here.toml", code=0, says="predicted with constants measured at the site: ")
    # By how much, chance decides: without a calibration this machine's processor is measured as well.
    expect("forecasts change", predicted(here) != before, (before, predicted(here)))
    # What is broken is named and left out; an earlier file is kept.
    (runs(here)[0] / "calibration.json").unlink()
    trials = runs(here)[0] / "stages/deep-steps/trials.json"
    damaged = json.loads(trials.read_text())
    name = damaged["trials"][0]["name"]
    damaged["trials"][0]["step_seconds"] = -1
    trials.write_text(json.dumps(damaged))
    (runs(here)[0] / "stages/within/out/benchmark.json").write_text('{"format": 1')
    longhaul(here, *CALIBRATE, code=0, deadline_s=DEADLINE_S,
             says=["set aside", f"deep: {name}: ", "within: ", "benchmark.json", "is replaced; what it said lies in "])
    expect("no job more", len(jobs(runs(here)[0])) == 9)
    expect("the file before", (here / "constants/here.toml.before").exists())
    # A file that says nonsense is refused where it stands, by plan and before a run is made.
    (here / "constants/here.toml").write_text('[common-cpu]\nmemory_shore = { value = 1, unit = "", source = "x" }\n')
    longhaul(here, "plan", "w.toml", "--site", "here.toml", code=0, says=["nothing is predicted: ", "memory_shore"])
    longhaul(here, "run", "w.toml", "--site", "here.toml", code=3, says="memory_shore")
    expect("no run was made", len(runs(here)) == 1, runs(here))


@case
def what_cannot_be_measured_is_refused_before_anything_is_started(here):
    (here / "here.toml").write_text(SITE)
    (here / "gpus.toml").write_text(SITE + '[node]\ngpus = 4\ngpu = "NVIDIA H100"\n')
    longhaul(here, *CALIBRATE[:-1], "3", code=3, says=["3 ranks", "1, 2 or 4"])
    longhaul(here, *CALIBRATE, "--nodes", "4", code=3, says="cannot be divided among 4 nodes")
    longhaul(here, "tune", "w.toml", "--calibrate", "--site", "here.toml", code=3, says="has its own trainings")
    longhaul(here, "tune", "--calibrate", "--site", "gpus.toml", code=3, says=["NVIDIA H100", "processors only", "--processors"])
    longhaul(here, "tune", "--calibrate", "--site", "gpus.toml", "--processors", "--ranks", "1", "--dry-run", code=0, says="wide-steps")
    longhaul(here, *CALIBRATE, "--output", "here.toml/below/file", code=6, says="cannot be written")
    longhaul(here, "tune", "--site", "here.toml", code=2, says="WORKFLOW")
    longhaul(here, "tune", "w.toml", code=4, says="w.toml does not exist")
    longhaul(here, "tune", "w.toml", "--stage", "pretrain", "--ranks", "2", code=2, says="--calibrate")
    expect("no run was made", not runs(here), runs(here))


if __name__ == "__main__":
    main()
