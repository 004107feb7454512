#!/usr/bin/env python3
"""Rollouts of GRPO beside TRL's on one model, with the same prompts, group size, longest answer and threads, in one run.

  tests/bench/rollouts/rollout_speed.py build/release/bin VENV/bin/python [--folder DIR] [--steps 4] [--mean-answer 64]

VENV has torch 2.6.0, trl 1.16.0 and transformers 5.24.0 (pip install trl==1.16.0 transformers==5.24.0 torch==2.6.0). A
Llama of random weights (make_model.py) answers pieces of docs/: 16 prompts a step, 8 answers to each, at temperature 1, f32,
beta 0.04. Ours is the stage `align` as `longhaul run` runs it, two ranks with a thread each, by its own metrics; TRL's is
GRPOTrainer, one process with two threads (trl_steps.py). Beside them the engine draws by reading the whole text again for
each token (generation_speed), and, with a second model whose tokens stand in rings of eight, each followed by the next of
its ring with a probability of 0.98 (make_model.py --period) until an answer has its greatest length, with guesses and
without, one answer after the other and sixteen at a time. Of both trainings the first step is not counted. Ends with 1 if a
bar is missed.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parents[2] / "docs"
ANSWERS, GROUP, BETA = 128, 8, 0.04
WORKFLOW = """
[workflow]
name = "rollout-speed"
[stage.grpo]
kind = "align"
device = "cpu"
inputs = {{ model = "{folder}/model", data = "{folder}/prompts.jsonl" }}
method = "grpo"
precision = "f32"
ranks = 2
threads = 1
steps = {steps}
sequence_length = {length}
micro_batch_size = 8
global_batch_size = {answers}
beta = {beta}
rollout = {{ group_size = {group}, max_new_tokens = {longest} }}
reward = {{ kind = "regex", pattern = "e" }}
optimizer = {{ lr = 1e-6, warmup_steps = 0 }}
"""


def output(*command, **more):
    print("$", *command, file=sys.stderr, flush=True)
    return subprocess.run([str(part) for part in command], check=True, text=True, stdout=subprocess.PIPE, **more).stdout


def our_steps(bin_folder, folder, steps, longest):
    """The metrics of all steps but the first."""
    file = folder / "grpo.toml"
    file.write_text(WORKFLOW.format(folder=folder, steps=steps, length=256 + longest, answers=ANSWERS, group=GROUP,
                                    longest=longest, beta=BETA))
    with tempfile.TemporaryDirectory(dir=folder) as runs:
        output(bin_folder / "longhaul", "run", file, "--runs-dir", runs, stdin=subprocess.DEVNULL)
        found = next(pathlib.Path(runs).glob("*/stages/grpo/attempts/1/events.jsonl"))
        events = [json.loads(line) for line in found.open()]
    return [event for event in events if event["kind"] == "metric" and "generate_s" in event][1:]


def mean(values):
    return statistics.mean(list(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("python", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, help="keeps model and prompts there")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--longest", type=int, default=128)
    parser.add_argument("--mean-answer", type=int, default=64)
    options = parser.parse_args()
    kept = options.folder or pathlib.Path(tempfile.mkdtemp())
    folder = kept.resolve()
    if not (folder / "prompts.jsonl").exists():
        output(options.python, HERE / "make_model.py", folder, DOCS, "--mean-answer", options.mean_answer)
    program = [options.bin.resolve() / "generation_speed", folder / "model", folder / "prompts.jsonl"]
    whole = json.loads(output(*program, "--way", "whole", "--answers", 16, "--longest", options.longest))
    ours = our_steps(options.bin.resolve(), folder, options.steps, options.longest)
    trl = json.loads(output(options.python, HERE / "trl_steps.py", folder, "--steps", options.steps, "--longest",
                            options.longest, "--beta", BETA).splitlines()[-1])
    report(whole, ours, trl, repeating(options, folder))


def repeating(options, folder):
    """Tokens a second with guesses and without, of texts that repeat themselves: {answers at a time: (plain, guessed)}."""
    folder = folder / "repeating"
    if not (folder / "prompts.jsonl").exists():
        output(options.python, HERE / "make_model.py", folder, DOCS, "--mean-answer", 0, "--period", 8)
    rates = {}
    for slots, answers in ((1, 16), (16, 64)):
        said = [json.loads(output(options.bin.resolve() / "generation_speed", folder / "model", folder / "prompts.jsonl",
                                  "--slots", slots, "--answers", answers, "--longest", options.longest, "--draft", draft))
                for draft in (0, 8)]
        rates[slots] = tuple(each["tokens"] / each["seconds"] for each in said)
        print(f"guesses, {slots} at a time: {said[1]['drafted']} tokens guessed, {said[1]['accepted']} of them drawn, "
              f"{said[1]['tokens']} tokens in {said[1]['decode_steps']} steps")
    return rates


def report(whole, ours, trl, repeated):
    rate = sum(s["answer_tokens"] for s in ours) * ANSWERS / sum(s["reshard_s"] + s["generate_s"] for s in ours)
    peer = sum(g["tokens"] for g in trl["generate"]) / sum(g["seconds"] for g in trl["generate"])
    slow = whole["tokens"] / whole["seconds"]
    step, peer_step = mean(s["step_s"] for s in ours), mean(trl["steps"])
    named = ("reshard_s", "generate_s", "reward_s", "reference_s", "train_s", "other_s")
    phases = {name: mean(s[name] for s in ours) for name in named}
    print(f"{trl['versions']}; tokens of an answer: {mean(s['answer_tokens'] for s in ours):.1f}, TRL "
          f"{sum(g['tokens'] for g in trl['generate']) / sum(g['answers'] for g in trl['generate']):.1f}")
    print(f"seconds a step: {step:.2f} (" + ", ".join(f"{name[:-2]} {seconds:.3f}" for name, seconds in phases.items())
          + f"); TRL {peer_step:.2f}, of them generate {mean(g['seconds'] for g in trl['generate']):.2f}")
    bars = [("rollouts, tokens/s, times reading the whole text", rate, slow, rate / slow, 5.6),
            ("rollouts, tokens/s, times TRL's generate", rate, peer, rate / peer, 2.0),
            ("GRPO, steps an hour, times TRL", 3600 / step, 3600 / peer_step, peer_step / step, None)]
    for slots, (plain, guessed) in repeated.items():
        bars.append((f"guesses, repeating texts, {slots} at a time, times none", guessed, plain, guessed / plain,
                     1.8 if slots == 1 else None))
    missed = False
    for name, own, other, times, bar in bars:
        said = "" if bar is None else f"  bar {bar}: {'met' if times >= bar else 'MISSED'}"
        print(f"{name:52} {own:9.1f} {other:9.1f} {times:6.2f}{said}")
        missed |= bar is not None and times < bar
    share = phases["other_s"] / step
    print(f"share of a step's time that is not generation, scoring or training: {share:.2%}  bar 5 %: "
          f"{'met' if share <= 0.05 else 'MISSED'}")
    missed |= share > 0.05
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
