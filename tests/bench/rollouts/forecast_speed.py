#!/usr/bin/env python3
"""What `longhaul plan` forecasts of a step of GRPO beside what it takes, for each way to draw the answers.

  tests/bench/rollouts/forecast_speed.py build/release/bin [--steps 10] [--rounds 1] [--bar 0.2]

A small Llama of random weights, made by `longhaul run` itself, answers pieces of docs/ that nearly fill sequence_length,
8 prompts a step, 8 answers to each, judged by a rule: in turn with the steps on two ranks of a thread each; by a thread
beside the steps; and by a rank of its own beside one that trains. The forecast comes from what two seconds of measuring
showed of this machine, once a round and use of it; of each run the first two steps are not counted, nor the last one, beside
which nothing is drawn. Ends with 1 where the median of a way's rounds is further off than the bar.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from ahead_speed import DOCS, MODEL, run

ALIGN = """
[workflow]
name = "forecast"
[stage.grpo]
kind = "align"
device = "cpu"
inputs = {{ model = "{model}", data = "{folder}/prompts.jsonl" }}
method = "grpo"
precision = "f32"
ranks = {ranks}
threads = 1
steps = {steps}
sequence_length = 160
micro_batch_size = 8
global_batch_size = 64
beta = 0.04
rollout = {{ group_size = 8, max_new_tokens = 48{rollout} }}
reward = {{ kind = "regex", pattern = "[aeiou]" }}
optimizer = {{ lr = 1e-6, warmup_steps = 0 }}
"""
WAYS = [("in turn, 2 ranks", 2, ""), ("by a thread beside 1 rank", 1, ", ahead = true"),
        ("by 1 rank beside 1 rank", 2, ", ahead = true, ranks = 1")]


def forecast(programs, folder, plans, text):
    """Of a step, as `plan` has it."""
    file = folder / "plan.toml"
    file.write_text(text)
    said = subprocess.run([programs / "longhaul", "plan", file, "--json", "--runs-dir", plans], check=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    one = json.loads(said.stdout)["predicted"][0]
    if "problem" in one:
        raise SystemExit(f"no forecast: {one['problem']}")
    return one


def measured(programs, folder, text):
    """Of the steps behind the first two, without the last one."""
    events = next(run(programs, folder, "grpo", text).glob("stages/grpo/attempts/1/events.jsonl"))
    metrics = [m for m in map(json.loads, events.open()) if m["kind"] == "metric" and "generate_s" in m][2:-1]
    return {name: statistics.median(m[name] for m in metrics) for name in metrics[0] if name.endswith("_s")}


def compare(programs, folder, plans, model, steps, way):
    name, ranks, rollout = way
    text = ALIGN.format(folder=folder, model=model, ranks=ranks, steps=steps, rollout=rollout)
    planned, took = forecast(programs, folder, plans, text), measured(programs, folder, text)
    parts = planned["rollout"]
    off = planned["step_seconds"] / took["step_s"] - 1
    print(f"answers {name}: forecast {planned['step_seconds']:.2f} s a step (train {parts['train_seconds']:.2f}, generate "
          f"{parts['generate_seconds']:.2f}, reference {parts['reference_seconds']:.2f}, weights {parts['weights_seconds']:.3f}), "
          f"measured {took['step_s']:.2f} s (train {took['train_s']:.2f}, generate {took['generate_s']:.2f}, reference "
          f"{took['reference_s']:.2f}, weights {took['reshard_s']:.3f}): {100 * off:+.0f} %", flush=True)
    return off


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--bar", type=float, default=0.2)
    options = parser.parse_args()
    programs, folder = options.bin.resolve(), pathlib.Path(tempfile.mkdtemp())
    texts = [part.strip() for page in sorted(DOCS.glob("*.md")) for part in page.read_text().split("\n\n") if len(part) > 360]
    (folder / "corpus").mkdir()
    (folder / "corpus" / "documents.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    # Those that do not fit are left out: the others nearly fill what there is.
    (folder / "prompts.jsonl").write_text(
        "".join(json.dumps({"prompt": text[:length], "answer": ""}) + "\n" for text in texts for length in (300, 330, 360)))
    model = next(run(programs, folder, "model", MODEL.format(folder=folder)).glob("stages/model/out"))
    off = {name: [] for name, _, _ in WAYS}
    for _ in range(options.rounds):
        plans = pathlib.Path(tempfile.mkdtemp(dir=folder))
        for way in WAYS:
            off[way[0]].append(compare(programs, folder, plans, model, options.steps, way))
    middle = {name: statistics.median(of) for name, of in off.items()}
    for name, one in middle.items():
        print(f"answers {name}: {100 * one:+.0f} % in the median of {options.rounds}")
    met = all(abs(one) <= options.bar for one in middle.values())
    print(f"bar {100 * options.bar:.0f} %: {'met' if met else 'MISSED'}")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
