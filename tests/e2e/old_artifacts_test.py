#!/usr/bin/env python3
"""What the programs of commit 057de77b left is read by the programs of today: workflow, site file, run, checkpoint, model.

The files and how they were made: tests/golden/of_057de77b/README.md.

usage: old_artifacts_test.py LONGHAUL SOURCE_DIR
"""
import http.client
import json
import os
import re
import shutil
import subprocess

from scenario import LONGHAUL, PATIENCE, SOURCE, call, case, events, expect, longhaul, main, program, snapshot, wait_for

KEPT = SOURCE / "tests" / "golden" / "of_057de77b"
RUN = "runs/kept-20261127-120000-057d"
EMPTY_FOLDERS = ["requests", "stages/corpus/state", "stages/tokens/state", "stages/second/attempts/1/staging"]


def unpack(here):
    """The kept folder at a new place; programs of today stand where the run kept its own."""
    for entry in KEPT.iterdir():
        if entry.is_dir():
            shutil.copytree(entry, here / entry.name)
        elif entry.name != "README.md":
            shutil.copy(entry, here)
    for file in here.rglob("*"):
        if file.is_file() and b"@HERE@" in (text := file.read_bytes()):
            file.write_bytes(text.replace(b"@HERE@", str(here).encode()))
    run = here / RUN
    for folder in EMPTY_FOLDERS:
        (run / folder).mkdir(parents=True, exist_ok=True)
    (run / "bin").mkdir()
    for name in ("longhaul", "longhaul-worker", "longhaul-engine"):
        os.symlink(LONGHAUL.parent / name, run / "bin" / name)
    return run


def engine(here, *arguments):
    done = call([program("longhaul-engine"), *arguments], here)
    expect("the engine reads it", done.code == 0, done)
    return done.out


@case
def workflow_and_site_are_planned(here):
    unpack(here)
    longhaul(here, "validate", "workflow.toml", "--site", "site.toml", code=0, says="valid, 4 stages", never="unknown")
    longhaul(here, "plan", "workflow.toml", "--site", "site.toml", "--runs-dir", "runs", "--allow", "memory", code=0,
             says=["664 parameters beside the embedding", "kept-20261127-120000-057d"])


@case
def run_is_shown(here):
    run = unpack(here)
    before = snapshot(run)
    shown = longhaul(here, "status", run, code=7,
                     says=["cancelled on request", "heldout_loss 4.728", "documents 2", "1 fault", "longhaul resume"])
    expect("each stage has its state", re.search(r"first +pretrain +succeeded", shown.out), shown)
    longhaul(here, "logs", run, "second", code=0, says=["event=fault", "stopped after step 26 of 120"])
    longhaul(here, "faults", run, code=0, says=["killed (rank)", "rank 0 ended: killed by signal 9", "1 recovered within their job"])
    listed = longhaul(here, "runs", "--runs-dir", "runs", code=0)
    expect("the list of runs knows its stage and step", re.search(r"kept-\S+ +cancelled +second +26/120", listed.out), listed)
    longhaul(here, "report", run, "--output", "report", code=0)
    report = json.loads((here / "report" / "report.json").read_text())
    text = json.dumps(report)
    expect("the report holds its stages and its fault", "heldout_loss" in text and "killed" in text, text[:2000])
    expect("looking changed nothing", snapshot(run) == before, set(snapshot(run).items()) ^ set(before.items()))


@case
def training_goes_on_from_its_checkpoint(here):
    run = unpack(here)
    longhaul(here, "resume", run, code=0, says="second  succeeded")
    messages = [e for e in events(run, "second", "metric") if "step" in e]
    expect("it begins behind the step of the checkpoint", messages[0]["step"] == 27, messages[0])
    expect("it ends at the last step", messages[-1]["step"] == 120, messages[-1])
    before = [json.loads(line) for line in (run / "stages/second/attempts/1/events.jsonl").read_text().splitlines()]
    last = [e["loss"] for e in before if e["kind"] == "metric" and "loss" in e][-1]
    expect("the loss goes on where it was", abs(messages[0]["loss"] - last) < 0.3, (messages[0], last))
    for stage in ("corpus", "tokens", "first"):
        expect(f"{stage} is not run again", len(list((run / "stages" / stage / "attempts").iterdir())) == 1)
    manifest = json.loads((run / "stages/second/out/manifest.json").read_text())
    expect("its artifact is whole", {"config.json", "model.safetensors"} <= {f["path"] for f in manifest["files"]}, manifest)


@case
def checkpoint_is_read(here):
    run = unpack(here)
    checkpoints = run / "stages" / "second" / "state" / "checkpoints"
    expect("it holds the step", "step-00000026 is whole" in engine(here, "verify", checkpoints))
    expect("it is described", "33 tensors" in engine(here, "inspect", checkpoints))
    engine(here, "export", checkpoints, "--output", here / "exported", "--tokenizer", run / "stages/first/out")
    expect("its model answers", engine(here, "generate", "--model", here / "exported", "--prompt", "The", "--max-tokens", "4"))


@case
def model_is_served(here):
    run = unpack(here)
    address = here / "address.json"
    with open(here / "log", "w") as log:
        server = subprocess.Popen([program("longhaul-engine"), "serve", "--model", run / "stages/first/out", "--no-token", "--host",
                                   "127.0.0.1", "--address-file", address], stdout=log, stderr=log)
        try:
            wait_for("its address is known", lambda: address.exists() or server.poll() is not None, 20,
                     lambda: (here / "log").read_text())
            port = json.loads(address.read_text())["port"]

            def ask():
                client = http.client.HTTPConnection("127.0.0.1", port, timeout=20 * PATIENCE)
                client.request("POST", "/v1/completions", json.dumps({"prompt": "The", "max_tokens": 4, "temperature": 0}),
                               {"Content-Type": "application/json"})
                answer = client.getresponse()
                return answer.status == 200 and json.loads(answer.read())

            answer = wait_for("a completion", ask, 20, lambda: (here / "log").read_text())
            expect("it has the tokens asked for", answer["usage"]["completion_tokens"] == 4, answer)
        finally:
            server.terminate()
            server.wait(20 * PATIENCE)


main()
