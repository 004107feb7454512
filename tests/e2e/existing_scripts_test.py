#!/usr/bin/env python3
"""Scripts of PyTorch, Accelerate and Lightning that know nothing of Longhaul, and torchrun: two processes find each other, one is
killed, and the training goes on from the checkpoint that the script itself has written.

usage: existing_scripts_test.py LONGHAUL SOURCE_DIR [parts of case names]
LONGHAUL_TORCH_PYTHON: a Python that has torch; cases of a framework that it lacks are not there.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

from scenario import LONGHAUL, SOURCE, call, case, expect, main, newest_run, processes_holding, runs, wait_for

EXAMPLE = SOURCE / "workflows/examples/existing-scripts"
PYTHON = os.environ.get("LONGHAUL_TORCH_PYTHON", sys.executable)
IMPORT_S = 240  # of torch, by several processes on a machine with other work
EPOCHS = 200
RESUMED = {"ddp": r"resuming from epoch (\d+)", "accelerate": r"resuming from epoch (\d+)", "torchrun": r"resuming from epoch (\d+)",
           "lightning": r"Restor\w+ (?:all )?states from the checkpoint"}


def launches(here, stage):
    if not runs(here):
        return []
    return sorted(newest_run(here).glob(f"stages/{stage}/attempts/*/launches/*"), key=lambda p: (int(p.parent.parent.name), int(p.name)))


def said(launch):
    return "".join(path.read_text(errors="replace") for path in sorted(launch.glob("rank-*.log")))


def epochs_done(here, stage):
    started = launches(here, stage)
    return max((int(n) for n in re.findall(r"epoch (\d+)(?:: loss| is done)", said(started[0]))), default=-1) if started else -1


def trainers(here, script):
    """{RANK: process} of the stage's Python programs; what torchrun or bash started them has other arguments."""
    found = {}
    for pid in processes_holding(f"LONGHAUL_STATE={newest_run(here)}/"):
        try:
            argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            environ = dict(e.split(b"=", 1) for e in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if b"=" in e)
        except OSError:
            continue
        if any(arg.endswith(script.encode()) for arg in argv) and b"-m" not in argv and not argv[0].endswith(b"bash"):
            found[int(environ.get(b"RANK", b"-1"))] = pid
    return found


def killed_goes_on(here, stage, script):
    shutil.copytree(EXAMPLE, here, dirs_exist_ok=True)
    head, *stages = re.split(r"(?m)^(?=\[stage\.)", (EXAMPLE / "workflow.toml").read_text())
    chosen = [text for text in stages if text.startswith(f"[stage.{stage}]")]
    expect("the example has the stage", len(chosen) == 1, stages)
    (here / "workflow.toml").write_text(head + chosen[0])
    settings = {"python": PYTHON, "epochs": EPOCHS}
    argv = [arg for name, value in settings.items() for arg in ("--set", f"params.{name}={json.dumps(value)}")]
    process = subprocess.Popen([str(LONGHAUL), "run", "workflow.toml", *argv], cwd=here, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        wait_for("three epochs", lambda: epochs_done(here, stage) >= 3 or process.poll() is not None, IMPORT_S,
                 lambda: "\n".join(map(said, launches(here, stage))))
        pids = trainers(here, script)
        expect("two processes train", sorted(pids) == [0, 1], f"{pids}\n{''.join(map(said, launches(here, stage)))}")
        os.kill(pids[1], signal.SIGKILL)
        out, _ = process.communicate(timeout=IMPORT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    expect("the run ends well", process.returncode == 0, out + "\n".join(map(said, launches(here, stage))))
    started = launches(here, stage)
    expect("it was started twice", len(started) == 2, [str(path) for path in started])
    resumed = re.search(RESUMED[stage], said(started[1]))
    expect("it went on from what the script had saved", resumed, said(started[1]))
    if resumed.groups():
        expect("not from the beginning, and not from the end", 3 <= int(resumed[1]) < EPOCHS, resumed[0])
    expect("it did not go on before", not re.search(RESUMED[stage], said(started[0])), said(started[0]))
    return newest_run(here) / "stages" / stage / "out"


def has(module):
    return call([PYTHON, "-c", f"import {module}"], SOURCE, IMPORT_S).code == 0


@case
def ddp_goes_on(here):
    out = killed_goes_on(here, "ddp", "ddp.py")
    expect("the last epoch is there", (out / "checkpoint.pt").exists(), list(out.iterdir()))


@case
def torchrun_goes_on(here):
    killed_goes_on(here, "torchrun", "ddp.py")


def accelerate_goes_on(here):
    out = killed_goes_on(here, "accelerate", "accelerate_train.py")
    expect("the last epoch is there", (out / "newest").read_text() == str(EPOCHS - 1), list(out.iterdir()))


def lightning_goes_on(here):
    out = killed_goes_on(here, "lightning", "lightning_train.py")
    expect("the last epoch is there", (out / "last.ckpt").exists(), list(out.iterdir()))


if __name__ == "__main__":
    for function, module in ((accelerate_goes_on, "accelerate"), (lightning_goes_on, "lightning")):
        if has(module):
            case(function)
    main()
