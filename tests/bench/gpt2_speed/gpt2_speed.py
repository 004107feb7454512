#!/usr/bin/env python3
"""Training speed of GPT-2 124M: Longhaul in bf16 and f32 beside the ceiling of its own matrix products, llm.c and
PyTorch, in one run.

    python3 tests/bench/gpt2_speed/gpt2_speed.py build/release/bin/gpt2_speed \\
        [--llmc FOLDER_OF_LLM.C] [--torch PYTHON_WITH_TORCH] [--threads 2] [--steps 5] [--case 4x64] [--level avx2]

A step is forward, backward, clipping and AdamW (llm.c: f32, it has no other), on made-up tokens; the first steps are
not counted, the median is shown (--turns 3: of the quickest of three turns). FLOPs are 6 * weights in matrix products
(tied output counted, attention apart). The ceiling is those products alone in oneDNN, each in the better format and
layout. --level holds everything down to an
older processor's instructions: oneDNN and PyTorch by the variables that they read, Longhaul by its own levels.
llm.c is built here from its unchanged source with its own flags. Numbers of a machine with neighbours say little: the
load is printed first, and with --threads 1 the rates are per second of processor time.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CASES = [(8, 512), (4, 64)]
LLMC_FLAGS = ["-Ofast", "-Wno-unused-result", "-Wno-ignored-pragmas", "-Wno-unknown-attributes", "-march=native",
              "-fopenmp", "-DOMP"]  # of its Makefile
WEIGHTS, LAYERS, WIDTH = 123_532_032, 12, 768  # in matrix products
BARS = {  # of the case: share of the ceiling, times llm.c, times PyTorch
    (8, 512): (0.80, None, 1.2), (4, 64): (0.70, 6.0, 1.2)}
HELD = {  # what oneDNN (PyTorch has one of its own) and PyTorch's kernels read
    "avx2": ("AVX2", "avx2"), "avx512": ("AVX512_CORE", "avx512"), "best": (None, None)}


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    def __init__(self, options):
        self.options = options
        self.environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
        for name, held in zip(("ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"), HELD[options.level]):
            if held:
                self.environment[name] = held

    def run(self, *command):
        say("$ " + " ".join(str(part) for part in command))
        return subprocess.run([str(part) for part in command], check=True, env=self.environment, text=True,
                              stdout=subprocess.PIPE).stdout

    def ours(self, mode, batch, length, *more):
        out = self.run(self.options.program, mode, "--batch", batch, "--length", length, *more)
        return json.loads(out.splitlines()[-1])

    def seconds(self, row):
        return statistics.median(row["processor_seconds" if self.options.threads == 1 else "seconds"])

    def longhaul(self, batch, length, threads=None, ranks=1, precision="bf16"):
        row = self.ours("train", batch, length, "--threads", threads or self.options.threads, "--ranks", ranks,
                        "--steps", self.options.steps, "--precision", precision, "--level", self.options.level)
        if row["last_loss"] >= row["first_loss"]:
            sys.exit("the training does not learn: its time says nothing")
        return statistics.median(row["seconds"]) if ranks > 1 else self.seconds(row)

    def torch(self, batch, length, *more):
        if self.options.level != "best" and "--f32" not in more:
            more += ("--warm", 0, "--seconds", 0.01)  # emulated bf16: one step takes it minutes
        out = self.run(self.options.torch, HERE / "torch_step.py", "--batch", batch, "--length", length, "--threads",
                       self.options.threads, "--steps", self.options.steps, *more)
        return self.seconds(json.loads(out.splitlines()[-1]))

    def llmc(self, batch, length):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "llmc_step"
            self.run("gcc", *LLMC_FLAGS, "-I", self.options.llmc, HERE / "llmc_step.c", "-o", program, "-lm", "-lgomp")
            out = self.run(program, pathlib.Path(folder) / "weights.bin", batch, length, 3)
        rows = [line.split() for line in out.splitlines() if line.startswith("seconds")]
        return self.seconds({"seconds": [float(row[1]) for row in rows],
                             "processor_seconds": [float(row[3]) for row in rows]})

    def measured(self, batch, length):
        """{name: seconds} of every row, each measured --turns times by turns; its quickest turn counts, for neighbours
        of a virtual machine only ever take time away."""
        ceiling = {}

        def alone():
            ceiling.update(self.ours("ceiling", batch, length, "--threads", self.options.threads, "--rounds", 3))
            return ceiling["seconds"]

        rows = {"ceiling": alone}
        rows |= {p: lambda p=p: self.longhaul(batch, length, precision=p) for p in ("bf16", "f32")}
        if self.options.torch:
            rows |= {f"PyTorch {name} {how}": lambda more=(*flags, *more): self.torch(batch, length, *more)
                     for name, flags in (("bf16", []), ("f32", ["--f32"]))
                     for how, more in (("eager", []), ("compiled", ["--compile"]))
                     if self.options.level == "best" or name == "f32" or (how == "eager" and batch * length < 1024)}
        turns = [{name: measure() for name, measure in rows.items()} for _ in range(self.options.turns)]
        return {name: [turn[name] for turn in turns] for name in rows}, ceiling["bf16_share"]

    def case(self, batch, length):
        tokens, (share, llmc_bar, torch_bar) = batch * length, BARS[(batch, length)]
        turns, bf16_share = self.measured(batch, length)
        quickest = {name: min(seconds) for name, seconds in turns.items()}
        ceiling, ours = quickest["ceiling"], quickest["bf16"]
        flop = 6 * WEIGHTS * tokens
        attention = 6 * LAYERS * WIDTH * length * tokens
        rows = [("its matrix products alone (ceiling)", ceiling, f"{bf16_share:.0%} of it in bf16"),
                ("Longhaul bf16", ours, f"{ceiling / ours:.0%} of the ceiling, bar {share:.0%}"),
                ("Longhaul f32", quickest["f32"], f"bf16 takes {ours / quickest['f32']:.2f} times as long, bar 1.00")]
        peers = {name: seconds for name, seconds in quickest.items() if name.startswith("PyTorch")}
        rows += [(name, seconds, f"Longhaul is {seconds / ours:.2f}x" + (
            f", bar {torch_bar}x" if seconds == min(peers.values()) else "")) for name, seconds in peers.items()]
        if self.options.llmc and llmc_bar:
            seconds = self.llmc(batch, length)
            rows.append(("llm.c", seconds, f"Longhaul is {seconds / ours:.2f}x, bar {llmc_bar:.0f}x"))
        print(f"\nB={batch} T={length}, {self.options.threads} threads; attention would add "
              f"{attention / flop:.1%} to the FLOPs")
        print(f"{'':38}{'ms/step':>9}{'tokens/s':>10}{'GFLOP/s':>9}")
        for name, seconds, note in rows:
            print(f"{name:38}{seconds * 1e3:9.0f}{tokens / seconds:10.0f}{flop / seconds * 1e-9:9.0f}  {note}")
        if self.options.turns > 1:
            print("all turns, ms: " + "; ".join(f"{name} " + ", ".join(f"{s * 1e3:.0f}" for s in seconds)
                                                for name, seconds in turns.items()))
        sys.stdout.flush()

    def ranks(self):
        """By turns: what the machine does to its neighbours changes from minute to minute."""
        batch, length = CASES[0]
        seconds = [(self.longhaul(batch, length, 2, 1), self.longhaul(batch, length, 1, 2)) for _ in range(3)]
        one, two = (statistics.median(column) for column in zip(*seconds))
        print(f"\nB={batch} T={length}, medians of three turns: 1 rank x 2 threads {batch * length / one:.0f} tokens/s, "
              f"2 ranks x 1 thread with ZeRO-1 {batch * length / two:.0f} tokens/s: {abs(one / two - 1):.1%} apart, bar 10 %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/.../bin/gpt2_speed")
    parser.add_argument("--llmc", help="a checkout of llm.c")
    parser.add_argument("--torch", help="a Python interpreter that has torch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--turns", type=int, default=1, help="measure every row so often by turns; the quickest counts")
    parser.add_argument("--level", choices=HELD, default="best")
    parser.add_argument("--case", action="append", help="such as 4x64; default: all")
    bench = Bench(parser.parse_args())
    wanted = [tuple(int(n) for n in case.split("x")) for case in bench.options.case or []] or CASES
    print(f"load before: {os.getloadavg()[0]:.2f}")
    for batch, length in wanted:
        bench.case(batch, length)
    if bench.options.threads == 2 and CASES[0] in wanted and bench.options.level == "best":
        bench.ranks()
    print(f"load after: {os.getloadavg()[0]:.2f} (this run is part of it)")


if __name__ == "__main__":
    main()
