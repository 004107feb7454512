#!/usr/bin/env python3
"""The layout that the tuner chooses with at most five trials, against the best of all candidates by measuring each.

For three small models on one and two ranks: `longhaul tune` searches and confirms (max_runs = 5); then every candidate of the same
list is measured, without predictions, in --passes passes over the list, each in another order, so that a busy minute of the machine
meets other candidates each time; a candidate's time is the median of its passes. The three that look best and the chosen one then run
--finals times more, and only those times say how much they differ: the least of many noisy times is less than the true one. Printed are
the chosen one's excess over the best, the trials that it took, how far the worst lies behind, the load of the machine, and how well the
constants of the time model predict the candidates. Bar: 5 % with at most 5 trials where the worst takes at least 1.3 times as long as the best. Exit code 1: a bar is
missed, or nothing counted.

usage: brute_force.py LONGHAUL [--site test-cluster] [--models 0 1 2] [--passes 3] [--finals 5] [--constants FILE] [--folder F]

With --site test-cluster the trials are jobs of a real Slurm: start one with tests/cluster/cluster up 2 and take its environment.
--constants FILE: the tuner chooses a second time with the site's measured constants (`longhaul tune --calibrate`); the candidates of both
are measured together, so that the two are told apart by nothing but their constants, and the bar holds for both.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

for shared in ("e2e", "support"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / shared))
from tiny_inputs import write_pages  # noqa: E402
from training_files import toml  # noqa: E402

MODELS = [
    # One trial at a time: the hosts of the test cluster are one machine, and two trials would measure each other.
    # (name, ranks, hidden, layers, heads, key-value heads, sequence, global batch, vocabulary)
    ("wide", 2, 256, 2, 4, 2, 128, 16, 1000),
    ("deep", 2, 64, 10, 4, 2, 128, 16, 300),
    ("one", 1, 192, 3, 4, 4, 64, 32, 2000),
]
EXCESS_MAX, TRIALS_MAX, SPREAD_COUNTS = 0.05, 5, 1.3
FINALISTS = 3
COMMAND_LIMIT_S = 3600

HEAD = """[workflow]
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
"""
TRAINING = """
[stage.{stage}]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
precision = "bf16"
steps = 20
ranks = {ranks}
threads = 1
sequence_length = {sequence}
global_batch_size = {batch}
model = {{ hidden_size = {hidden}, num_hidden_layers = {layers}, num_attention_heads = {heads}, num_key_value_heads = {kv}, max_position_embeddings = {sequence}, vocab_size = {vocabulary} }}
job = {{ gpus_per_node = 0 }}
{more}
"""


def keys_of(model):
    return dict(zip(("name", "ranks", "hidden", "layers", "heads", "kv", "sequence", "batch", "vocabulary"), model))


def tuned_workflow(model, question, candidates=None):
    """`question` changes the confidence by a hair: a tune stage that was answered once is not asked again."""
    stage = '\n[stage.layout]\nkind = "tune"\nfor = "pretrain"\nsteps = 11\nwarmup_steps = 2\nat_once = 1\n'
    if candidates is None:
        stage += f"max_runs = {TRIALS_MAX}\nconfidence = {0.95 - 1e-6 * question}\n"
    else:
        listed = ",\n  ".join(toml({"name": one["name"], **one["settings"]}) for one in candidates)
        stage += f"max_runs = {len(candidates)}\nconfidence = {0.999 - 1e-6 * question}\ncandidates = [\n  {listed},\n]\n"
    keys = keys_of(model)
    return HEAD.format(**keys) + stage + TRAINING.format(stage="pretrain", more='micro_batch_size = 1\nparallel = "@layout"', **keys)


class Bench:
    def __init__(self, options):
        self.program = str(pathlib.Path(options.longhaul).resolve())
        self.site, self.passes, self.finals = options.site, options.passes, options.finals
        self.questions = 0
        self.constants = {"shipped": None}  # by the name under which they are printed
        if options.constants:
            self.constants["measured"] = str(pathlib.Path(options.constants).resolve())

    def call(self, folder, words, constants):
        words = [self.program, *words, "--site", self.site, "--runs-dir", str(folder / "runs")]
        if constants:
            words += ["--set", f"site.constants={json.dumps(constants)}"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=COMMAND_LIMIT_S)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def tune(self, folder, model, candidates=None, constants=None):
        self.questions += 1
        (folder / "w.toml").write_text(tuned_workflow(model, self.questions, candidates))
        runs = folder / "runs"
        before = set(runs.glob("*")) if runs.exists() else set()
        self.call(folder, ["tune", "w.toml", "--stage", "pretrain"], constants)
        made = sorted(set(runs.glob("*")) - before)
        if not made:
            raise SystemExit("longhaul tune made no run")
        return made[-1] / "stages/layout"

    def predictions(self, folder, model, candidates, constants):
        """By `longhaul plan`, of one workflow with a training for each candidate."""
        keys = keys_of(model)
        text = HEAD.format(**keys)
        for number, one in enumerate(candidates):
            more = "\n".join(f"{key} = {toml(value)}" for key, value in one["settings"].items())
            text += TRAINING.format(stage=f"c{number}", more=more, **keys)
        (folder / "all.toml").write_text(text)
        told = json.loads(self.call(folder, ["plan", "all.toml", "--json", "--no-queue"], constants))["predicted"]
        found = {one["stage"]: one.get("step_seconds", one.get("seconds")) for one in told}
        return {one["name"]: found.get(f"c{number}") for number, one in enumerate(candidates)}


def trials_of(stage):
    return json.loads((stage / "trials.json").read_text())


def measured(stage):
    return {one["name"]: one["step_seconds"] for one in trials_of(stage)["trials"]
            if one.get("step_seconds") and one["outcome"] in ("measured", "stopped")}


def rank_correlation(xs, ys):
    """Spearman's."""
    def ranks(values):
        order = sorted(range(len(values)), key=lambda i: values[i])
        places = [0.0] * len(values)
        for place, i in enumerate(order):
            places[i] = place
        return places
    a, b = ranks(xs), ranks(ys)
    mean = (len(xs) - 1) / 2
    over = sum((x - mean) * (y - mean) for x, y in zip(a, b))
    under = sum((x - mean) ** 2 for x in a)
    return over / under if under else 1.0


def prediction_text(predicted, times):
    names = [name for name in times if predicted.get(name)]
    if len(names) < 2:
        return "none"
    errors = [predicted[name] / times[name] - 1 for name in names]
    scale = statistics.median(times[name] / predicted[name] for name in names)
    rest = statistics.mean(abs(scale * predicted[name] / times[name] - 1) for name in names)
    first = min(names, key=lambda name: predicted[name])
    return (f"mean error {100 * statistics.mean(map(abs, errors)):5.1f} % ({100 * rest:4.1f} % after one common factor), rank correlation "
            f"{rank_correlation([predicted[n] for n in names], [times[n] for n in names]):.2f}, the first is "
            f"{100 * (times[first] / min(times.values()) - 1):.1f} % above the best")


def measure_all(bench, folder, model, candidates, count, loads):
    """Seconds of a step of each candidate in each of `count` passes."""
    passes = {}
    for number in range(count):
        turn = number * len(candidates) // count  # each pass begins elsewhere in the list
        order = candidates[turn:] + candidates[:turn]
        if number % 2 == 1:
            order.reverse()
        for name, seconds in measured(bench.tune(folder, model, order)).items():
            passes.setdefault(name, []).append(seconds)
        loads.append(os.getloadavg()[0])
    return passes


def play_final(bench, folder, model, candidates, times, choices, loads):
    """Those that look best, and the chosen ones, measured again; a candidate that fails here says so by being absent."""
    wanted = set(sorted(times, key=times.get)[:FINALISTS]) | {choice["winner"] for choice in choices.values()}
    finalists = [one for one in candidates if one["name"] in wanted]
    again = measure_all(bench, folder, model, finalists, bench.finals, loads)
    final = {name: statistics.median(seconds) for name, seconds in again.items()}
    for choice in choices.values():
        choice["excess"] = final[choice["winner"]] / min(final.values()) - 1
    return final


def play(bench, folder, model):
    folder.mkdir(parents=True)
    write_pages(folder / "pages", 7, pages=60)
    loads, choices, candidates = [os.getloadavg()[0]], {}, []
    for name, constants in bench.constants.items():
        stage = bench.tune(folder, model, None, constants)
        trials = trials_of(stage)
        choices[name] = {"winner": trials["winner"], "trials": sum(one["outcome"] != "not run" for one in trials["trials"])}
        known = {one["name"] for one in candidates}
        candidates += [one for one in json.loads((stage / "candidates.json").read_text()) if one["name"] not in known]
    passes = measure_all(bench, folder, model, candidates, bench.passes, loads)
    times = {name: statistics.median(seconds) for name, seconds in passes.items()}
    for name, choice in choices.items():
        if choice["winner"] not in times:
            raise SystemExit(f"{model[0]}: the winner {choice['winner']} was not measured again: {sorted(times)}")
        choice["predicted"] = bench.predictions(folder, model, candidates, bench.constants[name])
    final = play_final(bench, folder, model, candidates, times, choices, loads)
    return {"model": model[0], "candidates": len(candidates), "spread": max(times.values()) / min(times.values()),
            "best": min(final, key=final.get), "times": times, "final": final, "passes": passes, "load": loads, "choices": choices,
            "scatter": statistics.median(max(seconds) / min(seconds) - 1 for seconds in passes.values())}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("longhaul")
    parser.add_argument("--site", default="local")
    parser.add_argument("--models", type=int, nargs="*", default=range(len(MODELS)))
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--finals", type=int, default=5)
    parser.add_argument("--constants")
    parser.add_argument("--folder")
    options = parser.parse_args()
    folder = pathlib.Path(options.folder or tempfile.mkdtemp(prefix="brute-force-"))
    bench = Bench(options)
    missed = counted = 0
    for index in options.models:
        shown = play(bench, folder / MODELS[index][0], MODELS[index])
        (folder / f"{shown['model']}.json").write_text(json.dumps(shown, indent=1))
        counts = shown["spread"] >= SPREAD_COUNTS
        counted += counts
        print(f"{shown['model']:6} {len(shown['times'])} of {shown['candidates']} candidates measured in {bench.passes} passes, worst "
              f"{shown['spread']:.2f} x the best ({SPREAD_COUNTS} to count); load {min(shown['load']):.1f} to {max(shown['load']):.1f}; two passes of "
              f"one candidate differ by {100 * shown['scatter']:.1f} %\n       best {shown['best']}")
        for name, choice in shown["choices"].items():
            met = choice["excess"] <= EXCESS_MAX and choice["trials"] <= TRIALS_MAX
            missed += counts and not met
            print(f"       constants {name}: {choice['trials']} trials (bar {TRIALS_MAX}), {100 * choice['excess']:.1f} % above the best (bar "
                  f"{100 * EXCESS_MAX:.0f} %)   " + ("does not count" if not counts else "met" if met else "MISSED") + f"\n         chose {choice['winner']}")
            print(f"         predictions: {prediction_text(choice['predicted'], shown['times'])}")
        sys.stdout.flush()
    print(f"{counted} of {len(options.models)} models count, {missed} missed; folder {folder}")
    return 1 if missed or not counted else 0


if __name__ == "__main__":
    sys.exit(main())
