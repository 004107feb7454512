#!/usr/bin/env python3
"""The bar of the search for hyperparameters, on real trainings: successive halving finds a learning rate within 2 % of the
best held-out loss of a full grid, for at most 25 % of the grid's steps. Both are trained in the same run: the grid whole,
from nothing, and the search by its own trainings, which go on from their checkpoints.

  tests/bench/autotune/hyper_bars.py BIN_FOLDER DATA_FOLDER [--method rounds|asha] [--rates 16] [--steps 960] [--folder F]

BIN_FOLDER holds longhaul, longhaul-engine and hyper_step, DATA_FOLDER text/wikitext-2-*.txt. Two trainings run at a time,
each on one core; a few minutes. Ends with 1 if a bar is missed, with 77 where there is no data.
"""
import argparse
import concurrent.futures
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time

PARALLEL = 2
WORKFLOW = """[workflow]
name = "hyper"
[stage.tokens]
kind = "tokenize"
inputs = { corpus = "corpus" }
vocabulary = 1024
[stage.train]
kind = "pretrain"
inputs = { tokens = "@tokens" }
threads = 1
precision = "f32"
steps = 1
sequence_length = 64
micro_batch_size = 8
global_batch_size = 8
model = { hidden_size = 64, num_hidden_layers = 2, num_attention_heads = 2, max_position_embeddings = 64 }
optimizer = { lr = 1e-3, lr_schedule = "constant", warmup_steps = 20 }
"""


def write_corpus(data, folder):
    """Articles, every fifteenth of them held out."""
    text = "".join((data / "text" / f"wikitext-2-{part}.txt").read_text(encoding="utf-8") for part in ("valid", "test"))
    articles = re.split(r"(?m)^(?= = [^=].* = $)", text)
    folder.mkdir()
    with (folder / "documents.jsonl").open("w") as train, (folder / "heldout.jsonl").open("w") as heldout:
        for number, article in enumerate(articles):
            (heldout if number % 15 == 7 else train).write(json.dumps({"text": article}) + "\n")


class Trainings:
    """Trainings of one stage with other settings, by the engine itself."""

    def __init__(self, bin_folder, here):
        self.bin, self.here = bin_folder, here
        (here / "workflow.toml").write_text(WORKFLOW)
        done = subprocess.run([bin_folder / "longhaul", "run", "workflow.toml"], cwd=here, capture_output=True, text=True,
                              timeout=300)
        if done.returncode:
            sys.exit("the workflow that prepares the tokens failed:\n" + done.stdout + done.stderr)
        stage = next((here / "runs").glob("*/stages/train"))
        self.task = (stage / "task.toml").read_text()
        self.launch = (stage / "attempts/1/launches/1/launch.toml").read_text()

    def train(self, name, rate, to_step):
        """Trains `name` to a step, from its newest checkpoint where it has one: (held-out loss or None, steps
        done, what went wrong)."""
        folder = self.here / name
        launch_dir = folder / f"to-{to_step}"
        launch_dir.mkdir(parents=True)
        (folder / "state").mkdir(exist_ok=True)
        task = put(put(self.task, "lr", repr(float(rate))), "steps", to_step)
        launch = self.launch
        for key, path in {"launch_dir": launch_dir, "events_path": launch_dir / "events.jsonl",
                          "output_dir": launch_dir / "out", "state_dir": folder / "state",
                          "milestones_dir": ""}.items():
            launch = put(launch, key, json.dumps(str(path)))
        (launch_dir / "task.toml").write_text(task)
        (launch_dir / "launch.toml").write_text(launch)
        done = subprocess.run([self.bin / "longhaul-engine", "run", "--task", launch_dir / "task.toml", "--launch",
                               launch_dir / "launch.toml"], capture_output=True, text=True, timeout=600)
        events = [json.loads(line) for line in (launch_dir / "events.jsonl").open()]
        trained = sum(event["kind"] == "metric" and "loss" in event for event in events)  # one event a step
        loss = next((e["value"] for e in events if e["kind"] == "figure" and e["name"] == "heldout_loss"), None)
        if done.returncode or loss is None or not math.isfinite(loss):
            return None, trained, done.stderr.strip()
        return loss, trained, ""


def put(toml, key, value):
    """The first `key = ...` of a TOML text, with another value."""
    changed, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", toml, count=1)
    assert count == 1, f"no {key} in the template"
    return changed


def decide(bin_folder, search, history, slots):
    asked = json.dumps({"search": search, "slots": slots, "history": {"trials": history}})
    done = subprocess.run([bin_folder / "hyper_step"], input=asked, capture_output=True, text=True, timeout=60)
    if done.returncode:
        sys.exit(done.stderr)
    answer = json.loads(done.stdout)
    assert not answer["set_aside"], answer["set_aside"]
    return answer


def carry_out(trainings, search, pool):
    """The search, its trials two at a time; returns the history and the last answer."""
    history, running = [], {}
    while True:
        answer = decide(trainings.bin, search, history, PARALLEL - len(running))
        for start in answer["starts"]:
            trial = next((t for t in history if t["name"] == start["trial"]), None)
            if trial is None:
                trial = {"name": start["trial"], "settings": start["settings"], "results": []}
                history.append(trial)
            trial["results"].append({"rung": start["rung"], "end": "running", "steps": 0})
            rate = start["settings"]["optimizer.lr"]
            running[pool.submit(trainings.train, f"search/{start['trial']}", rate, start["to_step"])] = trial
            print(f"  {start['trial']}  lr {rate:.3e}  rung {start['rung']}  steps {start['from_step']:>5} to "
                  f"{start['to_step']:>5}  {start['why']}", flush=True)
        if not running:
            return history, answer
        done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
        for future in done:
            loss, trained, wrong = future.result()
            result = running.pop(future)["results"][-1]
            if loss is None:
                print(f"  diverged or failed: {wrong[-200:]}")
            result.update({"end": "diverged" if loss is None else "done", "steps": trained})
            if loss is not None:
                result["metric"] = loss


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("bin", type=pathlib.Path)
    arguments.add_argument("data", type=pathlib.Path)
    arguments.add_argument("--method", default="rounds", choices=["rounds", "asha"])
    arguments.add_argument("--rates", type=int, default=16)
    arguments.add_argument("--steps", type=int, default=960)
    arguments.add_argument("--folder", type=pathlib.Path, help="kept; otherwise a scratch folder")
    args = arguments.parse_args()
    if not (args.data / "text/wikitext-2-valid.txt").exists():
        print("skipped: no shared data")
        return 77
    scratch = None if args.folder else tempfile.TemporaryDirectory(prefix="hyper-bars-")
    here = args.folder.resolve() if args.folder else pathlib.Path(scratch.name)
    here.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    write_corpus(args.data, here / "corpus")
    trainings = Trainings(args.bin.resolve(), here)
    rates = [1e-5 * 10 ** (4 * i / (args.rates - 1)) for i in range(args.rates)]
    search = {"method": args.method, "trials": args.rates, "max_steps": args.steps,
              "space": {"optimizer.lr": {"values": rates}}}
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        print(f"search: {args.method}, {args.rates} rates from {rates[0]:g} to {rates[-1]:g}, {args.steps} steps")
        history, answer = carry_out(trainings, search, pool)
        searched_s = time.monotonic() - began
        print("grid: all of them trained whole, from nothing", flush=True)
        grid = list(pool.map(lambda i: trainings.train(f"grid/{i}", rates[i], args.steps), range(args.rates)))
    whole_s = time.monotonic() - began
    search_steps = sum(r["steps"] for t in history for r in t["results"])
    grid_steps = sum(trained for _, trained, _ in grid)
    losses = {rate: loss for rate, (loss, _, _) in zip(rates, grid)}
    found = answer["best"]
    rate = found["settings"]["optimizer.lr"]
    best = min(loss for loss in losses.values() if loss is not None)
    # A trial that was promoted is the training that was never stopped, to the last bit.
    finalists = [t for t in history if sum(r["steps"] for r in t["results"]) == args.steps]
    exact = bool(finalists) and all(t["results"][-1].get("metric") == losses[t["settings"]["optimizer.lr"]]
                                    for t in finalists)

    print(f"\n{'lr':>10} {'grid: held-out loss':>20} {'search: steps':>14}")
    by_rate = {t["settings"]["optimizer.lr"]: t for t in history}
    for r in rates:
        loss = "diverged" if losses[r] is None else f"{losses[r]:.4f}"
        print(f"{r:>10.2e} {loss:>20} {sum(x['steps'] for x in by_rate[r]['results']):>14}"
              + ("   <- best of the grid" if losses[r] == best else "") + ("   <- found" if r == rate else ""))
    missed = []

    def row(name, value, bar, ok, peer):
        print(f"{name:<50} {value:>10} {bar:>10}  {'ok' if ok else 'MISSED':<7} {peer}")
        if not ok:
            missed.append(name)

    print(f"\n{'what':<50} {'figure':>10} {'bar':>10}")
    excess = 100 * (losses[rate] / best - 1)
    row("loss of the found rate above the grid's best, %", f"{excess:.2f}", "<= 2", excess <= 2,
        f"{losses[rate]:.4f} at {rate:.2e}, full grid {best:.4f}")
    share = 100 * search_steps / grid_steps
    row("steps of the search, % of the grid's", f"{share:.1f}", "<= 25", share <= 25,
        f"{search_steps} steps, full grid {grid_steps}")
    row("finalists equal to never-stopped trainings", "yes" if exact else "no", "yes", exact, f"{len(finalists)}, compared bit by bit")
    print(f"search {searched_s:.0f} s, everything {whole_s:.0f} s, {PARALLEL} trainings at a time")
    print(f"{len(missed)} missed" + (": " + ", ".join(missed) if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
