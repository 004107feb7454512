#!/usr/bin/env python3
"""The layout that the tuner chooses with at most five trials, against the best of all candidates by measuring each.

For three small models on one and two ranks: `longhaul tune` searches and confirms (max_runs = 5); then every candidate of the same
list is measured, without predictions, in --passes passes over the list, each in another order, so that a busy minute of the machine
meets other candidates each time. The three that look best and the chosen one then run --finals times more, each time as many steps as the tuner
may give a trial at a site that is disturbed: a few steps of a slow minute say nothing.

Other users of the same processors only ever add time: on a machine that is not one's own, steps of one candidate have two humps, half as
long again apart, and a pass lies in one or the other. So a candidate's time is its floor, the third fastest of all its measured steps (two
may be luck); the excess by medians is printed beside, with how far the floors of odd and even steps differ. Printed are the
chosen one's excess over the best, the trials that it took, how far the worst lies behind, the load of the machine, and how well the
constants of the time model predict the candidates. Bar: 5 % with at most 5 trials where the worst takes at least 1.3 times as long as
the best. Exit code 1: a bar is missed, or nothing counted.

usage: brute_force.py LONGHAUL [--site test-cluster] [--models 0 1 2] [--passes 3] [--finals 10] [--constants FILE] [--folder F [--evaluate | --ask-again]]

With --site test-cluster the trials are jobs of a real Slurm: start one with tests/cluster/cluster up 2 and take its environment.
--constants FILE: the tuner chooses a second time with the site's measured constants (`longhaul tune --calibrate`); the candidates of both
are measured together, so that the two are distinguished by nothing but their constants, and the bar holds for both.
--evaluate: nothing runs; what an earlier call left in F is judged again. --ask-again: the tuner chooses again first, and the finals
are run again with what it has chosen.
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
STEPS, FINAL_STEPS = 11, 60
FLOOR = 2  # faster steps that may be luck
WARM_UP_STEPS = 2
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


def tuned_workflow(model, question, candidates=None, steps=STEPS):
    """`question` changes the confidence by a hair: a tune stage that was answered once is not asked again."""
    stage = f'\n[stage.layout]\nkind = "tune"\nfor = "pretrain"\nsteps = {steps}\nwarmup_steps = {WARM_UP_STEPS}\nat_once = 1\n'
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
        self.constants = {"shipped": None}  # by the name under which they are printed
        if options.constants:
            self.constants["measured"] = str(pathlib.Path(options.constants).resolve())

    def call(self, folder, arguments, constants):
        arguments = [self.program, *arguments, "--site", self.site, "--runs-dir", str(folder / "runs")]
        if constants:
            arguments += ["--set", f"site.constants={json.dumps(constants)}"]
        done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=COMMAND_LIMIT_S)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def tune(self, folder, model, candidates=None, constants=None, steps=STEPS):
        runs = folder / "runs"
        before = set(runs.glob("*")) if runs.exists() else set()
        (folder / "w.toml").write_text(tuned_workflow(model, 1 + len(before), candidates, steps))
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
        reported = json.loads(self.call(folder, ["plan", "all.toml", "--json", "--no-queue"], constants))["predicted"]
        found = {one["stage"]: one.get("step_seconds", one.get("seconds")) for one in reported}
        return {one["name"]: found.get(f"c{number}") for number, one in enumerate(candidates)}


def trials_of(stage):
    return json.loads((stage / "trials.json").read_text())


def measured(stage):
    return {one["name"]: one["step_seconds"] for one in trials_of(stage)["trials"]
            if one.get("step_seconds") and one["outcome"] in ("measured", "stopped")}


def steps_of(folder):
    """Seconds of every measured step of each candidate, out of the runs that measured a written list."""
    steps = {}
    for stage in sorted((folder / "runs").glob("*/stages/layout")):
        if any(one["predicted_seconds"] > 0 for one in json.loads((stage / "candidates.json").read_text())):
            continue  # the tuner's own trials
        for events in stage.glob("rounds/*/stages/trial/*/attempts/*/events.jsonl"):
            for line in events.read_text().splitlines():
                event = json.loads(line)
                if event["kind"] == "metric" and event["rank"] == 0 and event["step"] > WARM_UP_STEPS and event.get("tokens_per_s"):
                    steps.setdefault(events.parents[2].name, []).append(1 / event["tokens_per_s"])
    return steps


def floor_of(steps):
    return sorted(steps)[min(FLOOR, len(steps) - 1)]


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


def measure_all(bench, folder, model, candidates, count, loads, steps=STEPS):
    """Seconds of a step of each candidate in each of `count` passes."""
    passes = {}
    for number in range(count):
        turn = number * len(candidates) // count  # each pass begins elsewhere in the list
        order = candidates[turn:] + candidates[:turn]
        if number % 2 == 1:
            order.reverse()
        for name, seconds in measured(bench.tune(folder, model, order, steps=steps)).items():
            passes.setdefault(name, []).append(seconds)
        loads.append(os.getloadavg()[0])
    return passes


def ask(bench, folder, model):
    """The tuner's choice with each constants, and the candidates of all."""
    choices, candidates = {}, []
    for name, constants in bench.constants.items():
        stage = bench.tune(folder, model, None, constants)
        trials = trials_of(stage)
        choices[name] = {"winner": trials["winner"], "trials": sum(one["outcome"] != "not run" for one in trials["trials"])}
        known = {one["name"] for one in candidates}
        candidates += [one for one in json.loads((stage / "candidates.json").read_text()) if one["name"] not in known]
    for name, choice in choices.items():
        choice["predicted"] = bench.predictions(folder, model, candidates, bench.constants[name])
    return choices, candidates


def ask_again(bench, folder, model, shown):
    """In a folder of its own: what was measured before would correct its predictions."""
    again = pathlib.Path(tempfile.mkdtemp(prefix="again-", dir=folder))
    write_pages(again / "pages", 7, pages=60)
    choices, candidates = ask(bench, again, model)
    loads = [os.getloadavg()[0]]
    play_finals(bench, folder, model, candidates, choices, loads)
    return {**shown, "choices": choices, "load": shown["load"] + loads}


def play_finals(bench, folder, model, candidates, choices, loads):
    """Of the three that look best and the chosen ones."""
    floors = {name: floor_of(steps) for name, steps in steps_of(folder).items()}
    wanted = set(sorted(floors, key=floors.get)[:FINALISTS]) | {choice["winner"] for choice in choices.values()}
    measure_all(bench, folder, model, [one for one in candidates if one["name"] in wanted], bench.finals, loads, FINAL_STEPS)


def play(bench, folder, model):
    folder.mkdir(parents=True)
    write_pages(folder / "pages", 7, pages=60)
    loads = [os.getloadavg()[0]]
    choices, candidates = ask(bench, folder, model)
    passes = measure_all(bench, folder, model, candidates, bench.passes, loads)
    play_finals(bench, folder, model, candidates, choices, loads)
    return {"model": model[0], "candidates": len(candidates), "passes": passes, "load": loads, "choices": choices}


def show(shown, steps):
    """Prints one model's outcome; returns whether it counts and how many bars are missed."""
    # Tokens of a step are the same for all candidates: one over tokens/s is a time.
    floors = {name: floor_of(some) for name, some in steps.items()}
    medians = {name: statistics.median(some) for name, some in steps.items()}
    best = min(floors, key=floors.get)
    spread = max(floors.values()) / floors[best]
    halves = statistics.median(abs(floor_of(some[::2]) / floor_of(some[1::2]) - 1) for some in steps.values())
    scatter = statistics.median(max(seconds) / min(seconds) - 1 for seconds in shown["passes"].values())
    counts, missed = spread >= SPREAD_COUNTS, 0
    print(f"{shown['model']:6} {len(floors)} of {shown['candidates']} candidates measured, worst {spread:.2f} x the best ({SPREAD_COUNTS} to "
          f"count); load {min(shown['load']):.1f} to {max(shown['load']):.1f}; two passes of one candidate differ by {100 * scatter:.1f} %, "
          f"floors of odd and even steps by {100 * halves:.1f} %\n       best {best}")
    for name, choice in shown["choices"].items():
        if choice["winner"] not in floors:
            raise SystemExit(f"{shown['model']}: the winner {choice['winner']} was not measured again: {sorted(floors)}")
        excess, by_median = (times[choice["winner"]] / min(times.values()) - 1 for times in (floors, medians))
        met = excess <= EXCESS_MAX and choice["trials"] <= TRIALS_MAX
        missed += counts and not met
        print(f"       constants {name}: {choice['trials']} trials (bar {TRIALS_MAX}), {100 * excess:.1f} % above the best (bar "
              f"{100 * EXCESS_MAX:.0f} %; by medians {100 * by_median:.1f} %)   " + ("does not count" if not counts else "met" if met else "MISSED") +
              f"\n         chose {choice['winner']}")
        print(f"         predictions: {prediction_text(choice['predicted'], medians_in_seconds(shown, floors))}")
    sys.stdout.flush()
    return counts, missed


def medians_in_seconds(shown, floors):
    """Floors as seconds, by the scale that the tune stages' own step times have."""
    scale = statistics.median(min(shown["passes"][name]) / floors[name] for name in floors if name in shown["passes"])
    return {name: scale * floor for name, floor in floors.items()}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("longhaul")
    parser.add_argument("--site", default="local")
    parser.add_argument("--models", type=int, nargs="*", default=range(len(MODELS)))
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--finals", type=int, default=4)
    parser.add_argument("--constants")
    parser.add_argument("--folder")
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--ask-again", action="store_true")
    options = parser.parse_args()
    # Hosts of the test cluster have a /tmp of their own.
    here = None if options.site == "local" else pathlib.Path(__file__).resolve().parents[3] / "build"
    folder = pathlib.Path(options.folder or tempfile.mkdtemp(prefix="brute-force-", dir=here))
    bench = Bench(options)
    missed = counted = 0
    for index in options.models:
        place = folder / MODELS[index][0]
        kept = folder / f"{MODELS[index][0]}.json"
        if options.ask_again:
            kept.write_text(json.dumps(ask_again(bench, place, MODELS[index], json.loads(kept.read_text())), indent=1))
        elif not options.evaluate:
            kept.write_text(json.dumps(play(bench, place, MODELS[index]), indent=1))
        counts, wrong = show(json.loads(kept.read_text()), steps_of(place))
        counted, missed = counted + counts, missed + wrong
    print(f"{counted} of {len(options.models)} models count, {missed} missed; folder {folder}")
    return 1 if missed or not counted else 0


if __name__ == "__main__":
    sys.exit(main())
