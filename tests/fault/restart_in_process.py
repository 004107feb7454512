#!/usr/bin/env python3
"""MPI ranks of one training have faults that their processes survive; a stand-in for the lead, which looks at the
heartbeat pages ten times a second, orders restarts in-process. The processes stay the same, the training ends, and its
losses, gradients, sample counts and weights are those of a training that nothing happened to, bit for bit. Prints how
long it took from each fault to the first step completed after it.

usage: restart_in_process.py --bin FOLDER [--faults N] [--ranks N] [--seed N] [--zero N] [--hidden N]
                             [--bar SECONDS]
"""
import argparse
import mmap
import pathlib
import random
import statistics
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import kill_training  # noqa: E402
from json_lines import json_lines  # noqa: E402
from kill_training import Training, make_inputs  # noqa: E402

MAGIC = 0x313054414542484C
EPOCH, SECTION, NAMES, NAME_BYTES = 24, 48, 104, 32  # resiliency/beat/heartbeat_page.h
RESTART_EPOCH, RESTART_WAIT_MS = 2048 + 40, 2048 + 48
LOOK_EVERY_S = 0.1
# Where, and how often a rank passes there in a step at least; steps that the spike policy skips make no update.
POINTS = {"engine_step_begin": 1, "engine_backward": 2, "engine_update": 0.6, "engine_step_done": 1}


class Page:
    def __init__(self, path):
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 4096)

    def word(self, at):
        return struct.unpack_from("<q", self.memory, at)[0]

    def order(self, at, value):
        struct.pack_into("<q", self.memory, at, value)

    def section(self):
        index = struct.unpack_from("<i", self.memory, SECTION)[0]
        return self.memory[NAMES + index * NAME_BYTES:NAMES + (index + 1) * NAME_BYTES].split(b"\0")[0].decode()


class Lead(threading.Thread):
    """Orders a restart when a rank has a fault and all are where the last order wanted them."""

    def __init__(self, folder, ranks):
        super().__init__(daemon=True)
        self.folder, self.ranks, self.pages, self.orders = folder, ranks, {}, []
        self.epoch, self.ended = 1, False

    def offer(self):
        """Before the ranks are there: a fault may come sooner than the first look. They keep what a page has."""
        self.folder.mkdir()
        for rank in range(self.ranks):
            (self.folder / f"beat-{rank}").write_bytes(bytes(4096))
            Page(self.folder / f"beat-{rank}").order(RESTART_WAIT_MS, 20_000)

    def run(self):
        while not self.ended:
            self.look()
            time.sleep(LOOK_EVERY_S)

    def look(self):
        for rank in range(self.ranks):
            path = self.folder / f"beat-{rank}"
            if rank in self.pages or not path.exists() or path.stat().st_size < 4096:
                continue
            page = Page(path)
            if page.word(0) != MAGIC:
                continue
            self.pages[rank] = page
        if len(self.pages) < self.ranks or any(page.word(EPOCH) != self.epoch for page in self.pages.values()):
            return
        faulted = [rank for rank, page in self.pages.items() if page.section() == "faulted"]
        if not faulted:
            return
        self.epoch += 1
        self.orders.append(faulted)
        for page in self.pages.values():
            page.order(RESTART_EPOCH, self.epoch)


class Restarted(Training):
    """One launch with a fault plan, watched."""

    def start_watched(self, plan):
        folder = self.folder / "launch-1"
        self.launch["fault_plan"] = str(self.folder / "plan")
        (self.folder / "plan").write_text(plan)
        self.launch["epoch"] = 1
        self.lead = Lead(folder, self.ranks)
        self.lead.offer()
        log = self.start()
        self.lead.start()
        return log


def events_of(training):
    return json_lines(training.events)


def latencies(events):
    """From the first word of each fault to the first step after it, and of that from the order to ready, seconds."""
    found, fault, ready = [], None, None
    for event in events:
        if event["kind"] == "faulted" and fault is None:
            fault = event["ms"]
        elif event["kind"] == "ready":
            ready = event["load_s"]
        elif event["kind"] == "metric" and "loss" in event and fault is not None and ready is not None:
            found.append(((event["ms"] - fault) / 1e3, ready))
            fault, ready = None, None
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--faults", type=int, default=6)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--zero", type=int, default=3, help="3: ranks stand in collectives all through a step")
    parser.add_argument("--hidden", type=int, default=32, help="of the model: how long a step takes")
    parser.add_argument("--bar", type=float, default=0, help="seconds that the median may take")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    draw = random.Random(arguments.seed)
    Training.zero = arguments.zero
    steps = 6 * (arguments.faults + 1)
    engine = pathlib.Path(arguments.bin).resolve() / "longhaul-engine"
    plan, when = "", 2
    for number in range(arguments.faults):
        # A passage is counted on every way through, also of a step that is made again: the later ones come earlier.
        point = list(POINTS)[number % len(POINTS)]
        plan += f"{point} error nth={max(2, int(when * POINTS[point]))} rank={draw.randrange(arguments.ranks)}\n"
        when += draw.randint(3, 5)
    with tempfile.TemporaryDirectory(prefix="longhaul-restart-") as name:
        here = pathlib.Path(name)
        inputs = make_inputs(here, draw)
        wide = kill_training.settings

        def settings(*values):
            table = wide(*values)
            table["micro_batch_size"] = 1  # which the growing batch divides by all ranks
            table["model"] |= {"hidden_size": arguments.hidden, "intermediate_size": 2 * arguments.hidden}
            return table

        kill_training.settings = settings
        whole = Training(here / "whole", engine, arguments.ranks, steps, inputs, True, False)
        log = whole.start()
        if whole.process.wait(timeout=kill_training.STEP_DEADLINE_S * 5) != 0:
            raise SystemExit(f"the untouched training ended with {whole.process.returncode}:\n{log.read_text()}")
        curve = {m["step"]: m for m in whole.metrics()}
        disturbed = Restarted(here / "disturbed", engine, arguments.ranks, steps, inputs, True, False)
        log = disturbed.start_watched(plan)
        code = disturbed.process.wait(timeout=kill_training.STEP_DEADLINE_S * 5)
        disturbed.lead.ended = True
        if code != 0:
            raise SystemExit(f"the training ended with {code}:\n{log.read_text()}")
        hits = (disturbed.folder / "plan.hits").read_text().split("\n")[:-1]
        if len(hits) != arguments.faults:
            raise SystemExit(f"{len(hits)} of {arguments.faults} faults happened")
        events = events_of(disturbed)
        orders = len(disturbed.lead.orders)
        if len([e for e in events if e["kind"] == "ready" and e.get("from") == "memory"]) != orders or orders == 0:
            raise SystemExit(f"{orders} orders, and other restarts than those")
        seen = disturbed.metrics()
        for metric in seen:
            for key in ("loss", "grad_norm", "lr", "consumed_samples"):
                if metric[key] != curve[metric["step"]][key]:
                    raise SystemExit(f"step {metric['step']}: {key} = {metric[key]!r}, untouched {curve[metric['step']][key]!r}")
        if {m["step"] for m in seen} != set(curve):
            raise SystemExit("other steps were made than without faults")
        for file in ("model.safetensors", "config.json"):
            if (whole.folder / "out" / file).read_bytes() != (disturbed.folder / "out" / file).read_bytes():
                raise SystemExit(f"{file} differs")
        times = [m["ms"] for m in whole.metrics()]
        step_s = statistics.median(b - a for a, b in zip(times, times[1:])) / 1e3
        took = latencies(events)
        median = statistics.median(total for total, _ in took)
        print(f"{len(hits)} faults in {arguments.ranks} ranks over {steps} steps of {step_s:.3f} s, {orders} restarts "
              f"in-process: the same bits")
        print(f"fault to the first step after it: median {median:.3f} s, worst {max(t for t, _ in took):.3f} s; of it "
              f"from the order to ready: median {statistics.median(r for _, r in took):.3f} s")
        for event in events:
            if "a copy of the training" in event.get("text", ""):
                print(event["text"])
        if arguments.bar and median > arguments.bar:
            raise SystemExit(f"the bar is {arguments.bar} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
