#!/usr/bin/env python3
"""A stage whose answers are drawn by a rank of its own (rollout.ranks), under `longhaul run`: the rank that draws is killed,
or frozen, and the one that trains is killed; each time the lead names the rank and starts the launch anew, by the same tier, and
the weights at the end are the bits of a stage that nobody touched. The same where answers are conversations with a program
(rollout.turns) that two ranks draw together (rollout.tp), and one of them is killed while that program is asked; and for a
fork from a checkpoint that draws by a thread in place of the rank, with the answers that lie beside the checkpoint.

usage: drawing_ranks.py --bin FOLDER
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from json_lines import json_lines  # noqa: E402

MODEL = pathlib.Path(__file__).resolve().parents[1] / "parity" / "golden" / "model-untied"
DEADLINE_S = 120 * float(os.environ.get("LONGHAUL_TIME_FACTOR", "1"))
STEPS = 12
WORKFLOW = """
[workflow]
name = "drawn"
[stage.learn]
kind = "align"
device = "cpu"
inputs = {{ model = "{model}", data = "{folder}/prompts.jsonl" }}
method = "grpo"
precision = "f32"
seed = 5
ranks = {ranks}
threads = 1
steps = {steps}
sequence_length = 96
micro_batch_size = 8
global_batch_size = 32
beta = 0.05
optimizer = {{ lr = 0.002, warmup_steps = 0 }}
checkpoint = {{ every_steps = 2, keep_last = 9 }}
resiliency = {{ hang_floor = "3s", host_silent = "2s", restarts = 5 }}
rollout = {{ group_size = 8, max_new_tokens = 12, slots = 32, ahead = true, ranks = {drawing}{turns} }}
reward = {{ kind = "regex", pattern = "[aeiou].*[aeiou]" }}
"""
TURNS = ', tp = 2, turns = 3, environment = ["/bin/sh", "{folder}/environment"]'
# Replies to the first turn, ends the conversation behind the second; notes that it was asked, and takes its time.
ENVIRONMENT = """while read -r line; do
  case "$line" in
    *'"turn":1'*) echo '{"content": "and then?"}';;
    *) echo '{"done": true}';;
  esac
done
echo asked >> "$(dirname "$0")/asked"
sleep 0.3
"""


class Failed(Exception):
    pass


def expect(what, condition, shown=""):
    if not condition:
        raise Failed(f"{what}\n{shown}")


class Stage:
    """`longhaul run` in a session of its own."""

    def __init__(self, programs, folder, name, turns):
        self.runs, self.name = folder / name, name
        self.runs.mkdir()
        file = folder / f"{name}.toml"
        drawing = 2 if turns else 1
        file.write_text(WORKFLOW.format(model=MODEL, folder=folder, steps=STEPS, ranks=1 + drawing, drawing=drawing,
                                        turns=TURNS.format(folder=folder) if turns else ""))
        self.log = folder / f"{name}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([programs / "longhaul", "run", file, "--allow", "cores", "--runs-dir", self.runs], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)
        self.programs = programs

    def stage(self):
        return next(self.runs.glob("*/stages/learn"), None)

    def events(self, kind):
        path = self.stage() and self.stage() / "attempts/1/events.jsonl"
        return [e for e in json_lines(path) if e["kind"] == kind] if path else []

    def step(self):
        return max((e["step"] for e in self.events("metric") if "loss" in e), default=0)

    def wait_for(self, what, found):
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failed(f"{self.name}: it ended before {what}\n{self.log.read_text()}")
            if value := found():
                return value
            time.sleep(0.01)
        raise Failed(f"{self.name}: {what} did not come\n{self.log.read_text()}")

    def pid_of(self, rank):
        """Of the launch that runs now."""
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
                arguments = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"OMPI_COMM_WORLD_RANK={rank}".encode() in environment and str(self.runs).encode() in arguments and \
                    arguments.split(b"\0")[0].endswith(b"longhaul-engine"):
                return int(entry.name)
        return None

    def end(self):
        try:
            code = self.process.wait(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name}: it did not end\n{self.log.read_text()}") from None
        expect(f"{self.name}: it ends well", code == 0, self.log.read_text())
        return (self.stage() / "out/model.safetensors").read_bytes()

    def stop(self):
        if self.process.poll() is None:
            subprocess.run([self.programs / "longhaul", "cancel", "latest", "--runs-dir", self.runs], stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=60, check=False)
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def undisturbed(programs, folder, name, turns):
    stage = Stage(programs, folder, name, turns)
    try:
        weights = stage.end()
        rewards = {e["reward"] for e in stage.events("metric") if "loss" in e}
        expect("rewards that differ", len(rewards) > 2, rewards)
        expect("nothing was wrong", not stage.events("fault"), stage.events("fault"))
        return weights, {e["step"]: e["loss"] for e in stage.events("metric") if "loss" in e}
    finally:
        stage.stop()


def disturbed(programs, folder, name, whole, rank, number, turns=False):
    """The event of the fault, of a stage to whose rank a signal is sent."""
    asked = folder / "asked"
    stage = Stage(programs, folder, name, turns)
    try:
        stage.wait_for("step 4", lambda: stage.step() >= 4)
        if turns:  # while the program is asked
            before = asked.stat().st_size
            stage.wait_for("a question to the environment", lambda: asked.stat().st_size > before)
        at = stage.step()
        os.kill(stage.wait_for(f"rank {rank}", lambda: stage.pid_of(rank)), number)
        weights = stage.end()
        faults = stage.events("fault")
        expect(f"{name}: one fault", len(faults) == 1, faults)
        expect(f"{name}: the rank is named", faults[0].get("rank") == rank, faults[0])
        losses = [(e["step"], e["loss"]) for e in stage.events("metric") if "loss" in e]
        expect(f"{name}: the same losses, of every launch", all(whole[1][step] == loss for step, loss in losses), losses)
        expect(f"{name}: the same weights", weights == whole[0])
        print(f"{name}: signal {number} to rank {rank} at step {at}: {faults[0]['class']}, {faults[0]['tier']}; "
              f"{len(losses) - len(whole[1])} steps made again, the same bits", flush=True)
        return faults[0]
    finally:
        stage.stop()


def forked(programs, folder, whole):
    """From step 6 of the undisturbed run, without the rank that draws."""
    def longhaul(*arguments):
        ended = subprocess.run([programs / "longhaul", *arguments, "--runs-dir", folder / "whole"], stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        expect(f"{arguments[0]} ends well", ended.returncode == 0, ended.stdout + ended.stderr)

    longhaul("fork", "latest", "--from", "learn@6", "--set", "stage.learn.rollout.ranks=0")
    longhaul("resume", "latest")
    runs = sorted((folder / "whole").glob("*/stages/learn/out/model.safetensors"), key=lambda path: path.stat().st_mtime)
    expect("the fork is another run", len(runs) == 2, runs)
    expect("the fork ends with the same weights", runs[-1].read_bytes() == whole[0])
    print("forked from step 6 without the rank that draws: the same bits", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    programs = pathlib.Path(parser.parse_args().bin).resolve()
    with tempfile.TemporaryDirectory(prefix="longhaul-drawing-ranks-") as name:
        folder = pathlib.Path(name)
        (folder / "prompts.jsonl").write_text(
            "".join(json.dumps({"prompt": f"what comes after {i}?", "answer": "it"}) + "\n" for i in range(40)))
        (folder / "environment").write_text(ENVIRONMENT)
        (folder / "asked").touch()
        try:
            whole = undisturbed(programs, folder, "whole", False)
            forked(programs, folder, whole)
            trains = disturbed(programs, folder, "killed-training", whole, 0, signal.SIGKILL)
            draws = disturbed(programs, folder, "killed-drawing", whole, 1, signal.SIGKILL)
            for key in ("class", "tier"):
                expect(f"the same {key} whichever rank is killed", trains[key] == draws[key], (trains, draws))
            frozen = disturbed(programs, folder, "frozen-drawing", whole, 1, signal.SIGSTOP)
            expect("a frozen rank is named as one, with the same tier", (frozen["class"], frozen["tier"]) == ("frozen", draws["tier"]), frozen)
            talked = undisturbed(programs, folder, "turns", True)
            expect("the environment was asked", (folder / "asked").stat().st_size > 0)
            expect("conversations are other answers", talked[0] != whole[0])
            disturbed(programs, folder, "killed-in-turns", talked, 2, signal.SIGKILL, turns=True)
        except Failed as problem:
            print(problem, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
