#!/usr/bin/env python3
"""What the time model lacks where it chooses a layout that is not the fastest: vTrain's table of one node, test half.

  tests/bench/autotune/choice_regret.py BUILD/bin/time_bars DATA

Asks `time_bars --rows` for its predictions and prints how far the chosen layout is behind the best (regret, mean over
the groups of layouts of one training):
- where the layouts that are predicted to be the fastest are run and the fastest of them is taken, as a tune stage does;
- where a correction knows exactly what all runs of one width, tp or micro-batch, and of pairs of these, have in common;
and the measured time of a layer by width, tp and micro-batch, in which the reason can be read.
"""
import collections
import math
import re
import statistics
import subprocess
import sys

Run = collections.namedtuple("Run", "gpus batch micro width layers tp dp pp seconds predicted")


def table(path):
    """Rows of the table: their numbers."""
    with open(path, encoding="utf-8-sig") as lines:
        return [[float(x) for x in line.split(",")] for line in lines if line[0].isdigit()]


def test_half(rows):
    """Every second number of layers of a width, as split_by_model of published_runs.cc has it."""
    layers = collections.defaultdict(set)
    for row in rows:
        layers[row[3]].add(row[5])
    widths, layers = sorted(layers), {width: sorted(all_) for width, all_ in layers.items()}
    return [row for row in rows if (layers[row[3]].index(row[5]) + widths.index(row[3])) % 2 == 1]


def runs(program, data):
    rows = test_half(table(f"{data}/vtrain_single_node.csv"))
    out = subprocess.run([program, "--data", data, "--rows"], text=True, stdout=subprocess.PIPE, timeout=600).stdout
    printed = re.findall(r"(?m)^ +([+-][\d.]+) % +([\d.]+) s ", out)[-len(rows):]  # the test half is printed last
    all_ = []
    for (error, seconds), (gpus, batch, micro, width, _, layers, _, tp, dp, pp, ms) in zip(printed, rows, strict=True):
        if abs(float(seconds) - ms / 1e3) > 1e-3:
            sys.exit(f"{program} prints another row than the table has: {seconds} s instead of {ms / 1e3}")
        all_.append(Run(gpus, batch, micro, width, layers, tp, dp, pp, ms / 1e3, ms / 1e3 * (1 + float(error) / 100)))
    return all_


def regret(all_, predicted, tried=1):
    groups = collections.defaultdict(list)
    for run in all_:
        groups[run.width, run.layers, run.gpus, run.batch].append(run)
    behind = []
    for group in groups.values():
        chosen = min(run.seconds for run in sorted(group, key=predicted)[:tried])
        behind.append(chosen / min(run.seconds for run in group) - 1)
    return f"{100 * statistics.mean(behind):4.1f} %"


def corrected_by(all_, key):
    """Predictions times what the runs of one key have in common."""
    ratios = collections.defaultdict(list)
    for run in all_:
        ratios[key(run)].append(math.log(run.seconds / run.predicted))
    common = {one: math.exp(statistics.mean(of)) for one, of in ratios.items()}
    return len(common), lambda run: run.predicted * common[key(run)]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    all_ = runs(*sys.argv[1:])
    for tried in (1, 2, 3, 5):
        print(f"the {tried} predicted to be fastest are run: regret",
              regret(all_, lambda run: run.predicted, tried))
    for name, key in (("tp", lambda r: r.tp), ("width and tp", lambda r: (r.width, r.tp)),
                      ("width and micro-batch", lambda r: (r.width, r.micro)),
                      ("tp and micro-batch", lambda r: (r.tp, r.micro)),
                      ("width, tp and micro-batch", lambda r: (r.width, r.tp, r.micro))):
        count, predicted = corrected_by(all_, key)
        print(f"by {count} factors that are known, of {name}: regret", regret(all_, predicted))
    print("ms of a layer and micro-batch as measured (median, pp = 1) with 1, 2, 4, 8 sequences")
    for width in sorted({run.width for run in all_}):
        for tp in (1, 2, 4, 8):
            cells = [[1e3 * r.seconds / (r.batch / r.micro / r.dp) / r.layers for r in all_
                      if (r.width, r.tp, r.micro, r.pp) == (width, tp, micro, 1)] for micro in (1, 2, 4, 8)]
            texts = [f"{statistics.median(c):6.2f}" if c else "     –" for c in cells]
            print(f"  width {width:.0f}, tp {tp}: " + "  ".join(texts))


main()
