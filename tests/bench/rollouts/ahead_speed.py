#!/usr/bin/env python3
"""GRPO with the answers of the next step drawn beside this one (rollout.ahead), and one after the other, in one run.

  tests/bench/rollouts/ahead_speed.py build/release/bin [--steps 14] [--rounds 2] [--judge-share 0.33] [--bar 1.26]

A small Llama of random weights, made by `longhaul run` itself, answers pieces of docs/: 8 prompts a step, 8 answers to
each, two ranks with a thread each. The judge is a command that answers at once, or after --judge-share of the step that
was measured with the first one. Meanwhile it computes nothing: it is somebody else's machine. Both ways take turns, round
after round, and the first two steps of each are not counted. The bar is NeMo-RL's figure for one step ahead, and is held to
the second judge: where two ranks compute all the time there is nothing to win on the same cores. Ends with 1 if it is missed.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"
MODEL = """
[workflow]
name = "model"
[stage.tokens]
kind = "tokenize"
inputs = {{ corpus = "{folder}/corpus" }}
vocabulary = 2000
[stage.model]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
device = "cpu"
threads = 2
steps = 20
sequence_length = 128
micro_batch_size = 8
global_batch_size = 16
model = {{ hidden_size = 128, num_hidden_layers = 4, num_attention_heads = 4, max_position_embeddings = 512 }}
"""
ALIGN = """
[workflow]
name = "ahead"
[stage.grpo]
kind = "align"
device = "cpu"
inputs = {{ model = "{model}", data = "{folder}/prompts.jsonl" }}
method = "grpo"
precision = "f32"
ranks = 2
threads = 1
steps = {steps}
sequence_length = 160
micro_batch_size = 8
global_batch_size = 64
beta = 0.04
rollout = {{ group_size = 8, max_new_tokens = 48, ahead = {ahead} }}
reward = {{ kind = "command", command = ["{folder}/judge", "{seconds}"] }}
optimizer = {{ lr = 1e-6, warmup_steps = 0 }}
"""
JUDGE = """#!/bin/sh
sleep "$1"
exec awk '{ print length($0) % 7 / 7 }'
"""


def run(bin_folder, folder, name, text):
    """The folder of the run."""
    file = folder / f"{name}.toml"
    file.write_text(text)
    runs = pathlib.Path(tempfile.mkdtemp(dir=folder))
    subprocess.run([bin_folder / "longhaul", "run", file, "--runs-dir", runs], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL)
    return next(runs.glob("*/stages")).parent


def steps_of(bin_folder, folder, model, steps, ahead, seconds):
    text = ALIGN.format(folder=folder, model=model, steps=steps, ahead=str(ahead).lower(), seconds=seconds)
    events = next(run(bin_folder, folder, "grpo", text).glob("stages/grpo/attempts/1/events.jsonl"))
    metrics = [json.loads(line) for line in events.open()]
    return [m for m in metrics if m["kind"] == "metric" and "generate_s" in m][2:]


def compare(programs, folder, model, options, seconds):
    """Seconds of a step that draws its own answers, and how many times that is of one with answers ahead."""
    found = {False: [], True: []}
    for _ in range(options.rounds):
        for ahead in (False, True):
            found[ahead] += steps_of(programs, folder, model, options.steps, ahead, seconds)
    plain, ahead = (statistics.median(m["step_s"] for m in found[way]) for way in (False, True))
    phases = ", ".join(f"{name[:-2]} {statistics.median(m[name] for m in found[False]):.2f}"
                       for name in ("generate_s", "reward_s", "reference_s", "train_s"))
    wait = statistics.median(m["wait_s"] for m in found[True])
    print(f"judge of {seconds:.2f} s: {plain:.2f} s a step ({phases}), ahead {ahead:.2f} s (waits {wait:.2f}): "
          f"{plain / ahead:.2f} times", flush=True)
    return plain, plain / ahead


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--judge-share", type=float, default=0.33)
    parser.add_argument("--bar", type=float, default=1.26)
    options = parser.parse_args()
    programs, folder = options.bin.resolve(), pathlib.Path(tempfile.mkdtemp())
    texts = [part.strip() for page in sorted(DOCS.glob("*.md")) for part in page.read_text().split("\n\n") if len(part) > 80]
    (folder / "corpus").mkdir()
    (folder / "corpus" / "documents.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt": text[:80]}) + "\n" for text in texts[:512]))
    (folder / "judge").write_text(JUDGE)
    (folder / "judge").chmod(0o755)
    model = next(run(programs, folder, "model", MODEL.format(folder=folder)).glob("stages/model/out"))
    instant, _ = compare(programs, folder, model, options, 0.0)
    _, times = compare(programs, folder, model, options, options.judge_share * instant)
    print(f"bar {options.bar}: {'met' if times >= options.bar else 'MISSED'}")
    sys.exit(0 if times >= options.bar else 1)


if __name__ == "__main__":
    main()
