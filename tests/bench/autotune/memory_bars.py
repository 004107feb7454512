#!/usr/bin/env python3
"""Random trainings of the real engine on this machine: the planned memory of every rank beside what it held by its own
accounts and beside the resident set of the process as the kernel saw it.

usage: memory_bars.py --bin FOLDER [--runs N] [--seed N] [--only N] [--small] [--verbose]

What the kernel says is independent of the engine: RssAnon and RssShmem of /proc/<pid>/status, read from outside every
few milliseconds from the start of the process to its end; pages of files (programs, libraries, tokens) are no memory of
its own. On a busy machine a message comes and goes between two looks: VmHWM, the most that was resident at one time,
less the pages of files, is taken where it is more. The plan's category `process` (libraries, compiled products, what the
heap cannot give back) is nothing that the engine's accounts could hold: they are compared with the rest. Ends with 1
where a bar is missed: every rank within 5 %, never planned 3 % too little.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from training_files import write_dataset, write_toml  # noqa: E402

DEADLINE_S = 900
MB = 1e6


def made_up_documents(draw, tokens):
    documents = []
    while sum(map(len, documents)) < tokens:
        documents.append([draw.randrange(250) for _ in range(draw.randint(200, 2000))])
    return documents


LAYOUTS = [  # (weight, what differs from one rank)
    (4, {}),
    (2, {"tp": 2, "sp": True}),
    (1, {"tp": 2}),
    (2, {"pp": 2}),
    (1, {"pp": 2, "vp": 2}),
    (2, {"cp": 2}),
    (2, {"dp_replicate": 2}),
    (2, {"dp_shard": 2, "zero": 1}),
    (2, {"dp_shard": 2, "zero": 2}),
    (2, {"dp_shard": 2, "zero": 3}),
    (1, {"tp": 2, "sp": True, "pp": 2}),
    (1, {"tp": 2, "sp": True, "dp_shard": 2, "zero": 1}),
    (1, {"pp": 2, "dp_shard": 2, "zero": 2}),
    (1, {"dp_shard": 4, "zero": 3}),
    (1, {"cp": 2, "dp_shard": 2, "zero": 1}),
]
EXPERT_LAYOUTS = [
    (2, {}),
    (2, {"dp_shard": 2, "ep": 2, "zero": 1}),
    (1, {"tp": 2, "sp": True, "etp": 2}),
    (1, {"tp": 2, "sp": True, "ep": 2}),
    (1, {"cp": 2, "ep": 2}),
    (1, {"dp_replicate": 2, "ep": 2}),
    (1, {"pp": 2, "dp_shard": 2, "ep": 2, "zero": 1}),
]


def draw_model(draw):
    kind = draw.choice(["llama", "llama", "gqa", "gpt2", "mixtral"])
    head_dim = 64
    heads = draw.choice([4, 8, 12])
    model = {"hidden_size": head_dim * heads, "num_attention_heads": heads,
             "num_hidden_layers": draw.choice([4, 6, 8]), "tie_word_embeddings": draw.random() < 0.5,
             "vocab_size": draw.choice([4096, 8192, 16000, 32000])}
    if kind == "gqa":
        model["num_key_value_heads"] = heads // 2 if heads % 4 else heads // 4 * 2
    elif kind == "mixtral":
        model |= {"architecture": "mixtral", "num_local_experts": 4, "num_experts_per_tok": draw.choice([1, 2]),
                  "moe_intermediate_size": 64 * draw.choice([6, 10, 16])}
        model["hidden_size"], model["num_attention_heads"], model["num_hidden_layers"] = 256, 4, 4
    elif kind == "gpt2":
        model |= {"architecture": "gpt2", "tie_word_embeddings": True}
    return kind, model


def draw_run(draw):
    kind, model = draw_model(draw)
    layouts = EXPERT_LAYOUTS if kind == "mixtral" else LAYOUTS
    parallel = dict(draw.choices([l for _, l in layouts], [w for w, _ in layouts])[0])
    replicas = parallel.get("dp_shard", 1) * parallel.get("dp_replicate", 1)
    micro, length = draw.choice([1, 2, 4, 8]), draw.choice([128, 256, 512])
    while micro * length > 2048:
        micro //= 2
    model["max_position_embeddings"] = length
    batches = draw.choice([1, 2, 3, 4])
    if parallel.get("pp", 1) > 1:
        batches = draw.choice([2, 4])
    settings = {
        "model": model, "precision": draw.choice(["bf16", "f32"]), "seed": 3, "sequence_length": length,
        "micro_batch_size": micro, "global_batch_size": micro * batches * replicas, "steps": 3,
        "optimizer": {"moments": draw.choice(["f32", "f32", "mixed", "bf16"])},
        # The plan counts what a checkpoint takes: one is written. Copies for restarts in process need an agent.
        "checkpoint": {"every_steps": 2, "asynchronous": draw.random() < 0.5, "in_process": False},
        "deterministic": draw.random() < 0.7, "dropout": draw.choice([0.0, 0.0, 0.1]),
    }
    if again := draw.choice([[], [], ["attention"], ["activation"], ["feed_forward"], ["block"], ["norms"]]):
        settings["recompute"] = {"modules": again}
    if parallel.get("cp", 1) > 1 and not model.get("num_local_experts"):
        settings["cp_attention"] = draw.choice(["ring", "gather", "a2a"])
    if draw.random() < 0.15:
        settings["optimizer"]["offload"] = "node_local"
    return kind, settings, parallel


def made_small(settings, parallel):
    """Fewer tokens, as many micro-batches as a pipeline of two keeps, and one step beside a save: no more is held then."""
    micro, replicas = settings["micro_batch_size"], parallel.get("dp_shard", 1) * parallel.get("dp_replicate", 1)
    batches = min(2, settings["global_batch_size"] // (micro * replicas))
    while micro > 1 and micro * settings["sequence_length"] > 512:
        micro //= 2
    return settings | {"micro_batch_size": micro, "global_batch_size": micro * batches * replicas, "steps": 2,
                       "checkpoint": settings["checkpoint"] | {"every_steps": 1}}


def ranks_of(parallel):
    count = 1
    for name in ("tp", "cp", "pp", "dp_shard", "dp_replicate"):
        count *= parallel.get(name, 1)
    return count


def status_of(pid):
    """kB by name; empty once the process has gone."""
    found = {}
    try:
        for line in open(f"/proc/{pid}/status"):
            name, _, rest = line.partition(":")
            if name in ("VmHWM", "RssAnon", "RssShmem", "RssFile"):
                found[name] = int(rest.split()[0])
    except (OSError, ValueError):
        return {}
    return found


def rank_of(pid):
    """Of an engine's process; None of any other."""
    try:
        argv = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        if not argv[0].endswith(b"longhaul-engine"):
            return None
        for entry in open(f"/proc/{pid}/environ", "rb").read().split(b"\0"):
            if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                return int(entry.split(b"=")[1])
    except (OSError, ValueError):
        return None
    return 0


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            ids = [int(c) for c in task.read_text().split()]
        except OSError:
            continue
        for child in ids:
            found += [child, *children(child)]
    return found


def train(folder, engine, tokens, settings, parallel, environment=None):
    """Events of the run and, rank by rank, the largest RssAnon + RssShmem in bytes."""
    folder.mkdir(parents=True)
    ranks = ranks_of(parallel)
    if settings["optimizer"].get("offload"):
        settings = settings | {"optimizer": settings["optimizer"] | {"offload_dir": str(folder)}}
    (folder / "out").mkdir()
    write_toml(folder / "launch.toml",
               {"file": "longhaul launch", "format": 1, "attempt_key": "k", "ranks": ranks, "hosts": ["here"],
                "rank_host": [0] * ranks, "launch_dir": str(folder), "events_path": str(folder / "events.jsonl"),
                "output_dir": str(folder / "out"), "state_dir": str(folder / "state"), "parallel": parallel, "launch": 1})
    write_toml(folder / "task.toml",
               {"file": "longhaul task", "format": 1, "run": "memory", "stage": "pretrain", "kind": "pretrain",
                "kind_version": 1, "key": "k", "resources": {"ranks": ranks, "threads": 1, "nodes": 1},
                "parallel": parallel, "inputs": {"tokens": {"paths": [str(tokens)]}}, "settings": settings})
    command = [engine, "run", "--task", folder / "task.toml", "--launch", folder / "launch.toml"]
    if ranks > 1:
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle",
                   "1"] + command
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1",
           **(environment or {})}
    peaks, pids = [{} for _ in range(ranks)], {}
    with open(folder / "log", "w") as log:
        process = subprocess.Popen([str(c) for c in command], stdout=log, stderr=log, start_new_session=True, env=env)
        end = time.monotonic() + DEADLINE_S
        while process.poll() is None and time.monotonic() < end:
            if len(pids) < ranks:
                pids = {pid: rank for pid in [process.pid, *children(process.pid)] if (rank := rank_of(pid)) is not None}
            for pid, rank in pids.items():
                now = status_of(pid)
                if not now:
                    continue
                seen = peaks[rank]
                both = now.get("RssAnon", 0) + now.get("RssShmem", 0)
                if both > seen.get("both", 0):
                    seen.update(both=both, anon=now.get("RssAnon", 0), shmem=now.get("RssShmem", 0))
                seen["hwm"], seen["file"] = now.get("VmHWM", 0), max(now.get("RssFile", 0), seen.get("file", 0))
            time.sleep(0.004)
        if process.poll() is None:
            for pid in [process.pid, *children(process.pid)]:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass
            process.wait()
    if process.returncode != 0:
        raise SystemExit(f"{folder}: the training ended with {process.returncode}\n{(folder / 'log').read_text()[-3000:]}")
    events = [json.loads(line) for line in open(folder / "events.jsonl") if line.endswith("}\n")]
    memory = next(e for e in events if e["kind"] == "memory")
    return memory, [1024 * max(p["both"], p["hwm"] - p["file"]) for p in peaks], peaks


def text_of(kind, settings, parallel):
    model = settings["model"]
    layout = " ".join(f"{k}={v}" for k, v in parallel.items()) or "one rank"
    argv = [kind, f"h={model['hidden_size']}", f"V={model['vocab_size']}", layout, settings["precision"],
             f"{settings['micro_batch_size']}x{settings['sequence_length']}",
             "moments=" + settings["optimizer"]["moments"]]
    if settings.get("recompute"):
        argv.append("again=" + "+".join(settings["recompute"]["modules"]))
    if settings.get("cp_attention"):
        argv.append(settings["cp_attention"])
    if settings["optimizer"].get("offload"):
        argv.append("offload")
    return " ".join(argv)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--only", type=int, help="this run alone")
    parser.add_argument("--small", action="store_true", help="models with small vocabularies, on one or two ranks")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    engine = pathlib.Path(arguments.bin).resolve() / "longhaul-engine"
    print(f"seed {arguments.seed}", flush=True)
    draw = random.Random(arguments.seed)
    runs = []
    while len(runs) < arguments.runs:
        kind, settings, parallel = draw_run(draw)
        if not arguments.small:
            runs.append((kind, settings, parallel))
        elif settings["model"]["vocab_size"] <= 8192 and ranks_of(parallel) <= 2:
            runs.append((kind, made_small(settings, parallel), parallel))
    print(f"{'run':>3} {'rank':>4} {'planned':>9} {'held':>9} {'error':>7} {'process':>9} {'resident':>9} {'error':>7}   MB; training")
    to_held, to_grown = [], []
    with tempfile.TemporaryDirectory(prefix="longhaul-memory-") as name:
        here = pathlib.Path(name)
        tokens = here / "tokens"
        tokens.mkdir()
        shutil.copy(pathlib.Path(__file__).resolve().parents[2] / "parity/golden/model-untied/tokenizer.json", tokens)
        write_dataset(tokens / "train", made_up_documents(random.Random(1), 400_000))
        for i, (kind, settings, parallel) in enumerate(runs):
            if arguments.only is not None and i != arguments.only:
                continue
            memory, resident, peaks = train(here / f"run-{i}", engine, tokens, settings, parallel)
            for rank, mine in enumerate(memory["ranks"]):
                planned, held = mine["planned_bytes"], mine["held_bytes"]
                accounted = planned - mine["of_process"]
                errors = accounted / held - 1, planned / resident[rank] - 1
                to_held.append(errors[0])
                to_grown.append(errors[1])
                print(f"{i:>3} {rank:>4} {accounted / MB:>9.1f} {held / MB:>9.1f} "
                      f"{100 * errors[0]:>+6.1f}% {planned / MB:>9.1f} {resident[rank] / MB:>9.1f} {100 * errors[1]:>+6.1f}%   "
                      f"{text_of(kind, settings, parallel) if rank == 0 else ''}", flush=True)
                if arguments.verbose:
                    print("      ", peaks[rank])
            if arguments.verbose:
                for category in sorted({*memory["planned"], *memory["held"]}):
                    print(f"       {category:<18} {memory['planned'].get(category, 0) / MB:>9.2f} "
                          f"{memory['held'].get(category, 0) / MB:>9.2f}")
            shutil.rmtree(here / f"run-{i}")
    missed = False
    # How many messages are on their way at once is chance (contracts/plan/memory_plan.h): a few small models feel it more.
    # What oneDNN's compiled products take depends on the processor: for a model with experts 16 MB are planned, and 4 MB
    # were found on one processor, a tenth of the smallest model here. That is too much; too little is as it was.
    bars = {"what the engine held": (0.08, 0.06), "the resident set": (0.12, 0.06)} if arguments.small else {}
    for what, errors in (("what the engine held", to_held), ("the resident set", to_grown)):
        bar, bar_below = bars.get(what, (0.05, 0.03))
        worst, least = max(abs(e) for e in errors), min(errors)
        ok = worst <= bar and least >= -bar_below
        missed |= not ok
        print(f"planned against {what}: mean error {100 * statistics.fmean(map(abs, errors)):.1f} %, largest "
              f"{100 * worst:.1f} % (bar {100 * bar:.0f} %), most too little {100 * -min(0, least):.1f} % (bar {100 * bar_below:.0f} %) "
              f"{'ok' if ok else 'MISSED'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
