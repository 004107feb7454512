#!/usr/bin/env python3
"""The layout that the tuner chooses with at most five trials, against the best of all candidates by measuring each.

For three small models on one and two ranks: `longhaul tune` searches and confirms (max_runs = 5); then every candidate of the same
list is measured, without predictions and without stopping early. Printed are the chosen one's excess over the best, the trials that it took,
and how far the worst lies behind. Bar: 5 % where the worst takes at least 1.3 times as long as the best.

usage: brute_force.py LONGHAUL [--site test-cluster] [--models 0 1 2] [--folder F]

With --site test-cluster the trials are jobs of a real Slurm: start one with tests/cluster/cluster up 2 and take its environment.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from tiny_inputs import write_pages  # noqa: E402

MODELS = [
    # (name, ranks, hidden, layers, heads, key-value heads, sequence, global batch, vocabulary)
    ("wide", 2, 512, 2, 8, 4, 128, 32, 1000),
    ("deep", 2, 128, 12, 4, 2, 256, 32, 300),
    ("one", 1, 256, 4, 4, 4, 128, 64, 2000),
]


def workflow(model, candidates=None):
    name, ranks, hidden, layers, heads, kv, sequence, batch, vocabulary = model
    tune = 'for = "pretrain"\nsteps = 16\nwarmup_steps = 4\n'
    if candidates is None:
        tune += "max_runs = 5\n"
    else:
        listed = ",\n  ".join(inline({"name": one["name"], **one["settings"]}) for one in candidates)
        tune += f"max_runs = {len(candidates)}\nat_once = 1\nconfidence = 0.999\ncandidates = [\n  {listed},\n]\n"
    return f"""[workflow]
name = "{name}"
[stage.corpus]
kind = "curate"
inputs = {{ documents = "pages" }}
heldout_bytes = 2000
threads = 1
job = {{ gpus_per_node = 0 }}
[stage.tokens]
kind = "tokenize"
inputs = {{ corpus = "@corpus" }}
vocabulary = {vocabulary}
threads = 1
job = {{ gpus_per_node = 0 }}
[stage.layout]
kind = "tune"
{tune}
[stage.pretrain]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
precision = "bf16"
steps = 20
ranks = {ranks}
threads = 1
sequence_length = {sequence}
micro_batch_size = 1
global_batch_size = {batch}
model = {{ hidden_size = {hidden}, num_hidden_layers = {layers}, num_attention_heads = {heads}, num_key_value_heads = {kv}, max_position_embeddings = {sequence}, vocab_size = {vocabulary} }}
parallel = "@layout"
job = {{ gpus_per_node = 0 }}
"""


def inline(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {inline(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(inline(one) for one in value) + "]"
    return json.dumps(value)


def tune(program, folder, text, site):
    (folder / "w.toml").write_text(text)
    runs = folder / "runs"
    before = set(runs.glob("*")) if runs.exists() else set()
    done = subprocess.run([program, "tune", "w.toml", "--stage", "pretrain", "--site", site, "--runs-dir", str(runs)], cwd=folder,
                          capture_output=True, text=True, timeout=3600)
    made = sorted(set(runs.glob("*")) - before) if runs.exists() else []
    if done.returncode != 0 or not made:
        raise SystemExit(f"longhaul tune ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return made[-1] / "stages/layout"


def measured(stage):
    trials = json.loads((stage / "trials.json").read_text())["trials"]
    return {one["name"]: one["step_seconds"] for one in trials if one.get("step_seconds") and one["outcome"] in ("measured", "stopped")}


def play(program, folder, model, site):
    folder.mkdir(parents=True)
    write_pages(folder / "pages", 7, pages=60)
    chosen = tune(program, folder, workflow(model), site)
    candidates = json.loads((chosen / "candidates.json").read_text())
    found = json.loads((chosen / "out/manifest.json").read_text())
    winner = next(one["name"] for one in json.loads((chosen / "trials.json").read_text())["trials"] if one["outcome"] == "measured"
                  and "the fastest" in one.get("why", ""))
    runs = len(measured(chosen))
    all_of_them = measured(tune(program, folder, workflow(model, candidates), site))
    if winner not in all_of_them:
        raise SystemExit(f"{model[0]}: the winner {winner} was not measured again: {sorted(all_of_them)}; {found.get('figures')}")
    best, worst = min(all_of_them.values()), max(all_of_them.values())
    return {"model": model[0], "candidates": len(candidates), "measured": len(all_of_them), "trials": runs, "winner": winner,
            "excess": all_of_them[winner] / best - 1, "spread": worst / best, "best": min(all_of_them, key=all_of_them.get)}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("longhaul")
    parser.add_argument("--site", default="local")
    parser.add_argument("--models", type=int, nargs="*", default=range(len(MODELS)))
    parser.add_argument("--folder")
    options = parser.parse_args()
    folder = pathlib.Path(options.folder or tempfile.mkdtemp(prefix="brute-force-"))
    missed = 0
    for index in options.models:
        shown = play(str(pathlib.Path(options.longhaul).resolve()), folder / MODELS[index][0], MODELS[index], options.site)
        counts = shown["spread"] >= 1.3
        met = shown["excess"] <= 0.05 and shown["trials"] <= 5
        missed += counts and not met
        print(f"{shown['model']:6} {shown['measured']} of {shown['candidates']} candidates measured, worst {shown['spread']:.2f} x the best; "
              f"chosen after {shown['trials']} trials: {100 * shown['excess']:.1f} % above the best   bar <= 5 %, 5 trials   "
              + ("does not count" if not counts else "met" if met else "MISSED"))
        print(f"       chosen {shown['winner']}\n       best   {shown['best']}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
