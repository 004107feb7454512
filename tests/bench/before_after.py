#!/usr/bin/env python3
"""What two states of this project cost, side by side and by turns: medians, with the range behind them.

    tests/bench/before_after.py run BEFORE_BIN AFTER_BIN [--turns 5] [--only step,decode,plan,round]
    tests/bench/before_after.py compile BEFORE_CHECKOUT AFTER_CHECKOUT [--sample 10] [--jobs 2] [--keep FOLDER]

`run` takes folders of programs: a step of a small training (f32, one thread; the median of its steps), decoding (long less
short answers of one model), planning a graph of many stages, and `longhaul tick` over a run of as many, of which the first one
runs and all others wait: the program's start and rounds until one changes nothing (states before tick_once: one round). Losses
and texts of both are compared.

`compile` takes checkouts: processor seconds of the product as the preset quickstart builds it, from nothing, without a
compiler cache, with the optimization of a release for both. It takes many minutes; `--sample N` compiles N files that stand
in both instead, drawn by the digest of their names, each by itself. Lines are those of what is compiled. With `--keep` the
builds stay as FOLDER/before and FOLDER/after, whose `bin` are programs for `run`.
"""
import argparse
import hashlib
import json
import os
import pathlib
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from tiny_inputs import tokens_of_pages, write_pages  # noqa: E402

SEED, STEPS, DEADLINE_S = 20261128, 60, 540
TRAINING = """[stage.train]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
threads = 1
precision = "f32"
seed = {seed}
steps = {steps}
sequence_length = 64
micro_batch_size = 8
global_batch_size = 8
model = {{ hidden_size = {hidden}, num_hidden_layers = {layers}, num_attention_heads = 8, num_key_value_heads = 8, max_position_embeddings = 512 }}
"""
LONG, SHORT = 400, 8  # tokens of an answer
WAITING = '[stage.s{0}]\nkind = "command"\nargv = ["true"]\nneeds = ["s{1}"]\n'
HALLS = ("base", "contracts", "resiliency", "autotune", "engine", "orchestrator", "worker")


def call(argv, folder, deadline_s=DEADLINE_S):
    """(seconds, what it printed) of a program that has to succeed."""
    begin = time.monotonic()
    done = subprocess.run([str(part) for part in argv], cwd=folder, capture_output=True, text=True, timeout=deadline_s, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, argv))}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.monotonic() - begin, done.stdout


class Programs:
    """One build, with a folder of its own."""

    def __init__(self, name, programs, folder, pages, stages):
        self.name, self.programs, self.folder, self.stages = name, programs.resolve(), folder, stages
        folder.mkdir()
        (folder / "pages").symlink_to(pages)
        self.longhaul = self.programs / "longhaul"
        graph = '[stage.s0]\nkind = "command"\nargv = ["sleep", "3000"]\n' + "".join(WAITING.format(i, i - 1 if i % 10 else 0) for i in range(1, stages))
        (folder / "graph.toml").write_text('[workflow]\nname = "graph"\n' + graph)
        self.run = None

    def train(self, seed, steps, hidden, layers):
        """The folder of a training's run."""
        (self.folder / "w.toml").write_text(tokens_of_pages("cost") + TRAINING.format(seed=seed, steps=steps, hidden=hidden, layers=layers))
        runs = self.folder / "runs"
        before = set(runs.glob("cost-*"))
        call([self.longhaul, "run", "w.toml", "--runs-dir", runs], self.folder)
        return next(iter(set(runs.glob("cost-*")) - before))

    def step(self, turn):
        """(milliseconds a step, losses)"""
        run = self.train(SEED + turn, STEPS, 256, 6)
        lines = [json.loads(line) for path in (run / "stages/train").rglob("events.jsonl") for line in path.open()]
        metrics = [line for line in lines if line["kind"] == "metric" and "loss" in line]
        gaps = [after["ms"] - before["ms"] for before, after in zip(metrics, metrics[1:])]
        return statistics.median(gaps), [line["loss"] for line in metrics]

    def decode(self, model):
        """(milliseconds a token, the text)"""
        ask = [self.programs / "longhaul-engine", "generate", "--model", model, "--prompt", "the old garden", "--precision", "f32"]
        short, _ = call([*ask, "--max-tokens", SHORT], self.folder)
        long, text = call([*ask, "--max-tokens", LONG], self.folder)
        return (long - short) * 1e3 / (LONG - SHORT), text

    def plan(self):
        return call([self.longhaul, "validate", "graph.toml"], self.folder)[0] * 1e3, None

    def round(self):
        if self.run is None:
            self.begin_run()
        return call([self.longhaul, "tick", self.run], self.folder)[0] * 1e3, None

    def begin_run(self):
        """A run whose first stage goes on by itself and whose controller is gone."""
        runs = self.folder / "waiting"
        with subprocess.Popen([str(self.longhaul), "run", "graph.toml", "--runs-dir", str(runs)], cwd=self.folder, start_new_session=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as controller:
            end = time.monotonic() + DEADLINE_S
            while not list(runs.glob("graph-*/stages/s0/attempts/*/claim.json")):
                if time.monotonic() > end or controller.poll() is not None:
                    sys.exit(f"{self.longhaul} did not start the first stage of {self.folder}/graph.toml")
                time.sleep(0.05)
            controller.send_signal(signal.SIGKILL)
        self.run = next(runs.glob("graph-*"))

    def end_run(self):
        if self.run is not None:
            call([self.longhaul, "cancel", self.run], self.folder)


def by_turns(what, builds, turns, measure):
    """Prints a row; measure(build, turn) gives (figure, what has to be the same for both)."""
    figures, said = [[] for _ in builds], [[] for _ in builds]
    for turn in range(turns):
        for i in range(len(builds)) if turn % 2 == 0 else reversed(range(len(builds))):
            figure, shown = measure(builds[i], turn)
            figures[i].append(figure)
            said[i].append(shown)
    medians = [statistics.median(each) for each in figures]
    same = "" if said[0][0] is None else "; the same output" if said[0] == said[1] else "; OTHER output"
    ranges = "   ".join(f"{median:9.2f} ({min(each):.2f} to {max(each):.2f})" for median, each in zip(medians, figures))
    print(f"{what:34} {ranges}   {100 * (medians[1] / medians[0] - 1):+.1f} %{same}", flush=True)


def compare_programs(asked):
    with tempfile.TemporaryDirectory(prefix="longhaul-before-after-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        write_pages(folder / "pages", SEED, pages=24)
        builds = [Programs(side, path, folder / side, folder / "pages", asked.stages) for side, path in (("before", asked.before), ("after", asked.after))]
        print(f"{'medians (range), ' + str(asked.turns) + ' turns each':34} before, after, difference; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        if "step" in asked.only:
            by_turns("a training step, ms", builds, asked.turns, lambda build, turn: build.step(turn))
        if "decode" in asked.only:
            model = builds[0].train(SEED, 1, 512, 8) / "stages/train/out"
            by_turns("decoding, ms a token", builds, asked.turns, lambda build, turn: build.decode(model))
        if "plan" in asked.only:
            by_turns(f"planning {asked.stages} stages, ms", builds, asked.turns, lambda build, turn: build.plan())
        if "round" in asked.only:
            try:
                by_turns(f"a round over {asked.stages} stages, ms", builds, asked.turns, lambda build, turn: build.round())
            finally:
                for build in builds:
                    build.end_run()


def without_cache():
    return {**{key: value for key, value in os.environ.items() if not key.endswith("_COMPILER_LAUNCHER")}, "CCACHE_DISABLE": "1"}


def configured(checkout, folder, *more):
    """The build folder of the product, nothing built yet."""
    subprocess.run(["cmake", "--preset", "quickstart", "-B", folder, "-DCMAKE_BUILD_TYPE=Release", *more], cwd=checkout, env=without_cache(),
                   check=True, capture_output=True, timeout=DEADLINE_S)
    return folder


def processor_seconds(argv, folder):
    """Of a program and all that it waited for."""
    process = subprocess.Popen(argv, cwd=folder, env=without_cache(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, argv))}: exit code {process.returncode}")
    return used.ru_utime + used.ru_stime


def sources(checkout):
    """The product's files: {path: its lines}."""
    listed = subprocess.run(["git", "ls-files", *HALLS], cwd=checkout, check=True, capture_output=True, text=True, timeout=60).stdout.split()
    return {name: len((checkout / name).read_bytes().splitlines()) for name in listed if name.endswith((".cc", ".h", ".inc"))}


def compile_whole(asked):
    with tempfile.TemporaryDirectory(prefix="longhaul-build-") as made:
        for side, checkout in (("before", asked.before.resolve()), ("after", asked.after.resolve())):
            folder = (asked.keep.resolve() if asked.keep else pathlib.Path(made)) / side
            if folder.exists():
                sys.exit(f"{folder} is there already, and what is built would not be all; remove it")
            configured(checkout, folder)
            begin = time.monotonic()
            seconds = processor_seconds(["nice", "cmake", "--build", folder, "-j", str(asked.jobs)], checkout)
            wall = time.monotonic() - begin
            lines = sum(sources(checkout).values())
            print(f"{side:7} {seconds:8.1f} s of processor time, {wall:.0f} s on the clock; {lines} lines: {1e3 * seconds / lines:.2f} s for 1,000",
                  flush=True)


def compile_sample(asked):
    checkouts = [asked.before.resolve(), asked.after.resolve()]
    with tempfile.TemporaryDirectory(prefix="longhaul-build-") as name:
        folders = [configured(checkout, pathlib.Path(name) / str(i), "-DCMAKE_UNITY_BUILD=OFF") for i, checkout in enumerate(checkouts)]
        commands = []
        for checkout, folder in zip(checkouts, folders):
            known = {}
            for entry in json.loads((folder / "compile_commands.json").read_text()):
                path = pathlib.Path(entry["file"])
                if path.is_relative_to(checkout) and path.relative_to(checkout).parts[0] in HALLS:
                    known.setdefault(path.name, []).append(entry)
            commands.append({base: each[0] for base, each in known.items() if len(each) == 1})
        both = sorted(set(commands[0]) & set(commands[1]), key=lambda base: hashlib.sha256(base.encode()).hexdigest())[:asked.sample]
        print(f"{'processor s, median of ' + str(asked.turns):34} {'before':>8} {'after':>8} {'lines':>12}")
        sums = [0.0, 0.0]
        for base in both:
            figures = [[], []]
            for turn in range(asked.turns):
                for i in (0, 1) if turn % 2 == 0 else (1, 0):
                    argv = shlex.split(commands[i][base]["command"])
                    argv[argv.index("-o") + 1] = "/dev/null"
                    figures[i].append(processor_seconds(["nice", *argv], commands[i][base]["directory"]))
            medians = [statistics.median(each) for each in figures]
            sums = [total + median for total, median in zip(sums, medians)]
            lines = [len(pathlib.Path(each[base]["file"]).read_bytes().splitlines()) for each in commands]
            print(f"{base:34} {medians[0]:8.2f} {medians[1]:8.2f} {lines[0]:5} {lines[1]:6}", flush=True)
        print(f"{'together':34} {sums[0]:8.2f} {sums[1]:8.2f}   {100 * (sums[1] / sums[0] - 1):+.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("run", "compile"):
        one = commands.add_parser(name)
        one.add_argument("before", type=pathlib.Path)
        one.add_argument("after", type=pathlib.Path)
        one.add_argument("--turns", type=int, default=5 if name == "run" else 3)
    commands.choices["run"].add_argument("--only", type=lambda text: text.split(","), default=["step", "decode", "plan", "round"])
    commands.choices["run"].add_argument("--stages", type=int, default=5000)
    commands.choices["compile"].add_argument("--sample", type=int, default=0)
    commands.choices["compile"].add_argument("--jobs", type=int, default=2)
    commands.choices["compile"].add_argument("--keep", type=pathlib.Path)
    asked = parser.parse_args()
    if asked.command == "run":
        compare_programs(asked)
    elif asked.sample > 0:
        compile_sample(asked)
    else:
        compile_whole(asked)


if __name__ == "__main__":
    main()
