#!/usr/bin/env python3
"""device = "gpu" with the engine's own programs: on an emulated GPU a training gives the curve of the processor, goes on
from a checkpoint that the other kind of device wrote, and says what it holds where; an engine without a usable GPU says
so before anything begins. Several ranks, started by mpirun or by the lead, have the losses of one, go on from each
other's checkpoints in other layouts, and survive a fault of one of them; over NCCL (a library that stands in for it) no MPI is needed.

usage: gpu_test.py BIN_FOLDER SOURCE_DIR
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from scenario import PATIENCE

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from training_files import write_dataset, write_toml  # noqa: E402

BIN, SOURCE = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
SETTINGS = {
    "model": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "max_position_embeddings": 64},
    "seed": 3, "sequence_length": 32, "micro_batch_size": 2, "global_batch_size": 4, "steps": 8,
    "optimizer": {"lr": 0.01, "lr_schedule": "constant", "warmup_steps": 0}, "checkpoint": {"every_steps": 4},
}


def mpirun(ranks):
    return ["mpirun", "-n", ranks, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", 1]


def write_task(path, tokens, ranks, parallel, start_model=None, **changes):
    """With a start model, `model` is not set: it is that one's."""
    inputs = {"tokens": {"paths": [str(tokens)]}}
    settings = {**SETTINGS, **changes}
    if start_model:
        inputs["model"] = {"paths": [str(start_model)]}
        del settings["model"]
    write_toml(path,
               {"file": "longhaul task", "format": 1, "run": "gpu", "stage": "pretrain", "kind": "pretrain",
                "kind_version": 1, "key": "k", "resources": {"ranks": ranks, "threads": 1, "nodes": 1},
                "parallel": parallel, "inputs": inputs, "settings": settings})


def train(folder, tokens, engine, code=0, ranks=1, parallel=None, launcher=None, **changes):
    """Runs the engine; returns its events and what it wrote to the terminal."""
    parallel = parallel or {}
    folder.mkdir(exist_ok=True)
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    write_task(folder / "task.toml", tokens, ranks, parallel, **changes)
    write_toml(folder / "launch.toml",
               {"file": "longhaul launch", "format": 1, "attempt_key": "k", "ranks": ranks, "hosts": ["here"],
                "rank_host": [0] * ranks, "launch_dir": str(folder), "events_path": str(folder / "events.jsonl"),
                "output_dir": str(out), "state_dir": str(folder / "state"), "parallel": parallel})
    command = [BIN / engine, "run", "--task", folder / "task.toml", "--launch", folder / "launch.toml"]
    if ranks > 1:
        command = launcher(ranks) + command if launcher else command[:1] + [ranks] + command[1:]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMP_NUM_THREADS": "1"}
    done = subprocess.run([str(argument) for argument in command], capture_output=True, text=True, timeout=200 * PATIENCE,
                          env=environment)
    if done.returncode not in (code if isinstance(code, tuple) else (code,)):
        sys.exit(f"{engine} ended with {done.returncode}, expected {code}:\n{done.stdout}{done.stderr}")
    events = folder / "events.jsonl"
    return [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else [], done.stderr


def losses(events):
    return {e["step"]: e["loss"] for e in events if e.get("kind") == "metric" and "loss" in e}


def tensors(path):
    """{name: values} of a file of f32 tensors."""
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    found = {}
    for name, of in json.loads(raw[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = of["data_offsets"]
            found[name] = struct.unpack(f"<{(end - begin) // 4}f", raw[8 + length + begin:8 + length + end])
    return found


def check_same(cpu, gpu, limit, what):
    if not cpu or cpu.keys() != gpu.keys():
        sys.exit(f"{what}: steps {sorted(cpu)} and {sorted(gpu)}")
    worst = max(abs(gpu[step] - cpu[step]) / cpu[step] for step in cpu)
    print(f"{what}: losses differ by {worst:.1e} at most, allowed {limit:.0e}")
    if worst > limit:
        sys.exit(f"{what}: {cpu} and {gpu}")


def ranks_with_gpus(here, tokens, alone):
    """Losses of one rank, whatever the layout and whoever carries the messages."""
    staged = {"engine": "longhaul-engine-emulated-gpu", "launcher": mpirun, "ranks": 2, "device": "gpu",
              "communicator": "staged", "precision": "f32"}
    # A checkpoint of one layout, gone on from in another, and by one rank.
    whole, _ = train(here / "ranks-whole", tokens, "longhaul-engine", precision="f32", steps=12)
    for first, then in (({"dp_shard": 2, "zero": 3}, {"tp": 2, "sp": True}), ({"pp": 2}, {"cp": 2})):
        folder = here / f"ranks-{'-'.join(first)}"
        events, _ = train(folder, tokens, parallel=first, **staged)
        check_same(alone, losses(events), 1e-4, f"2 ranks, {first}")
        shutil.rmtree(folder / "out")
        events, _ = train(folder, tokens, parallel=then, steps=12, **staged)
        check_same(losses(whole), losses(events), 1e-3, f"8 steps with {first}, 4 with {then}")
    over_nccl = BIN / "longhaul-engine-emulated-nccl"
    if over_nccl.exists():
        events, _ = train(here / "nccl", tokens, over_nccl.name, ranks=2, parallel={"tp": 2}, device="gpu",
                          precision="f32")
        check_same(alone, losses(events), 1e-4, "2 ranks over NCCL")
        if not list((here / "nccl" / "store").iterdir()):
            sys.exit("the ranks left no entry for each other")
    # Who one is has to be said where there is no MPI; and a build without NCCL says so.
    for engine, arguments in (("longhaul-engine-emulated-gpu", ("built without NCCL",)),
                          ("longhaul-engine", ("built without NCCL", "nothing says which of them this process is"))):
        _, said = train(here / "unnamed", tokens, engine, code=(3, 5), launcher=lambda ranks: [], ranks=2,
                        parallel={"tp": 2}, device="gpu")
        if not any(argument in said for argument in arguments):
            sys.exit(f"a rank that nobody named: {said}")


def through_the_lead(here, tokens, alone):
    """Ranks that the lead starts, and a fault of one of them that all survive: new communicators, of a later epoch."""
    stage = here / "lead"
    attempt = stage / "attempts/1"
    attempt.mkdir(parents=True)
    parallel = {"dp_shard": 2, "zero": 2}
    write_task(stage / "task.toml", tokens, 2, parallel, device="gpu", communicator="staged", precision="f32")
    plan = here / "plan"
    plan.write_text("engine_backward error nth=9 rank=1\n")
    write_toml(attempt / "attempt.toml",
               {"file": "longhaul attempt", "format": 1, "key": "k", "run": "gpu", "stage": "pretrain",
                "task": str(stage / "task.toml"), "attempt_dir": str(attempt), "stage_dir": str(stage),
                "engine": str(BIN / "longhaul-engine-emulated-gpu"), "run_dir": str(here), "fault_plan": str(plan)})
    done = subprocess.run([BIN / "longhaul-worker", "lead", "--attempt", attempt], capture_output=True, text=True,
                          timeout=200 * PATIENCE)
    events = [json.loads(line) for line in (attempt / "events.jsonl").read_text().splitlines()]
    if done.returncode != 0 or not (stage / "out/artifact.json").exists():
        sys.exit(f"the lead ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    check_same(alone, losses(events), 1e-4, "2 ranks with GPUs, started by the lead")
    again = [e for e in events if e.get("kind") == "ready" and e.get("from") == "memory"]
    launches = list((attempt / "launches").iterdir())
    if len(again) != 1 or len(launches) != 1:
        sys.exit(f"an in-process restart within one launch: {again}, {launches}")


def adapter_of_a_model(here, tokens, model):
    """DoRA, which is LoRA and more, has the processor's curve on a GPU; what it leaves, the adapter and the model with
    it, is nearly the same."""
    left = {}
    for device, engine in (("cpu", "longhaul-engine"), ("gpu", "longhaul-engine-emulated-gpu")):
        folder = here / f"adapter-{device}"
        events, _ = train(folder, tokens, engine, precision="f32", device=device, start_model=model,
                          adapter={"kind": "dora", "rank": 4})
        left[device] = (losses(events), {name: tensors(folder / "out" / name) for name in
                                         ("adapter/adapter_model.safetensors", "model.safetensors")})
    check_same(left["cpu"][0], left["gpu"][0], 1e-4, "8 steps of an adapter")
    for name, of_cpu in left["cpu"][1].items():
        of_gpu = left["gpu"][1][name]
        if of_cpu.keys() != of_gpu.keys():
            sys.exit(f"{name}: {sorted(of_cpu.keys() ^ of_gpu.keys())}")
        apart = max(abs(a - b) for tensor in of_cpu for a, b in zip(of_cpu[tensor], of_gpu[tensor]))
        moved = max(abs(value) for tensor in of_cpu for value in of_cpu[tensor])
        if apart > 1e-2 * moved:
            sys.exit(f"{name}: up to {apart} apart, where the largest is {moved}")
        print(f"{name} of an adapter: up to {apart:.2g} apart, the largest value is {moved:.2g}")


def main():
    with tempfile.TemporaryDirectory(prefix="longhaul-gpu-") as name:
        here = pathlib.Path(name)
        tokens = here / "tokens"
        tokens.mkdir()
        shutil.copy(SOURCE / "tests/parity/golden/model-untied/tokenizer.json", tokens / "tokenizer.json")
        write_dataset(tokens / "train", [[(7 * d + 3 * i) % 250 for i in range(40)] for d in range(60)])
        on_cpu, on_gpu = ("longhaul-engine", {"device": "cpu"}), ("longhaul-engine-emulated-gpu", {"device": "gpu"})

        for precision, limit in (("f32", 1e-4), ("bf16", 2e-2)):
            curves = [losses(train(here / f"{precision}-{settings['device']}", tokens, engine, precision=precision,
                                   **settings)[0]) for engine, settings in (on_cpu, on_gpu)]
            check_same(*curves, limit, f"8 steps in {precision}")
            if precision == "f32":
                losses_of_f32 = dict(zip(("cpu", "gpu"), curves))

        ranks_with_gpus(here, tokens, losses_of_f32["cpu"])
        through_the_lead(here, tokens, losses_of_f32["cpu"])

        adapter_of_a_model(here, tokens, here / "f32-cpu/out")

        # Kernels are timed where that was asked for, and it changes nothing; where there is no GPU that is said.
        events, _ = train(here / "timed", tokens, on_gpu[0], precision="f32", trace={"kernels": True}, **on_gpu[1])
        reported = [e for e in events if e.get("kind") == "kernels"]
        steps = [e for e in events if e.get("kind") == "metric" and "gpu_compute_s" in e]
        if len(reported) != 1 or len(steps) != 8 or losses(events) != losses_of_f32["gpu"]:
            sys.exit(f"kernel times: {reported}, {len(steps)} steps")
        names = [kernel["name"] for kernel in reported[0]["longest"]]
        inside = sum(e["gpu_compute_s"] for e in steps)
        if not any("attention" in n for n in names) or abs(reported[0]["compute_s"] - inside) > 1e-6 * inside:
            sys.exit(f"kernel times: {reported}, in steps {inside}")
        attentions = [e for e in events if e.get("kind") == "attention"]
        if [e["of"].split()[0] for e in attentions] != ["forward", "backward"] or any(
                e["by"] != "own, f32 arithmetic" or "cuDNN" not in e["reason"] for e in attentions):
            sys.exit(f"which attentions were taken: {attentions}")
        _, said = train(here / "cudnn", tokens, on_gpu[0], code=5, attention_backend="cudnn", **on_gpu[1])
        if "attention_backend is cudnn" not in said:
            sys.exit(f"a GPU without cuDNN, which was named: {said}")
        print(f"kernels took {inside:.2f} s, the longest is {names[0]}")
        events, _ = train(here / "untimed", tokens, on_cpu[0], precision="f32", trace={"kernels": True}, **on_cpu[1])
        if not any("no GPU" in e.get("text", "") for e in events if e.get("kind") == "message"):
            sys.exit("kernel times without a GPU: nothing was said")

        # Each goes on from the other's checkpoint, as the processor alone would.
        whole, _ = train(here / "whole", tokens, on_cpu[0], precision="f32", steps=12, **on_cpu[1])
        for first, then in ((on_cpu, on_gpu), (on_gpu, on_cpu)):
            folder = here / f"{first[1]['device']}-first"
            train(folder, tokens, first[0], precision="f32", **first[1])
            shutil.rmtree(folder / "out")
            events, _ = train(folder, tokens, then[0], precision="f32", steps=12, **then[1])
            check_same(losses(whole), losses(events), 1e-3, f"8 steps on {first[1]['device']}, 4 on the other")

        # Experts: their bias is state, and the routing lies with the model.
        experts = {"model": {**SETTINGS["model"], "architecture": "mixtral", "num_local_experts": 4,
                             "num_experts_per_tok": 2, "intermediate_size": 32, "n_shared_experts": 1,
                             "router_score": "sigmoid", "router_bias": True},
                   "moe": {"balance": "bias", "bias_rate": 0.01, "z_loss_coef": 1e-3}, "precision": "f32"}
        whole, _ = train(here / "experts", tokens, on_gpu[0], **experts, **on_gpu[1])
        for then in (on_gpu, on_cpu):
            folder = here / f"experts-then-{then[1]['device']}"
            train(folder, tokens, on_gpu[0], **experts, **{**on_gpu[1], "steps": 4})
            shutil.rmtree(folder / "out")
            events, _ = train(folder, tokens, then[0], **experts, **then[1])
            check_same(losses(whole), losses(events), 0 if then is on_gpu else 1e-3,
                       f"experts: 4 steps on gpu, 4 on {then[1]['device']}")

        # Too little memory, and no GPU: said before anything begins.
        big = {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 8, "num_attention_heads": 64,
               "num_key_value_heads": 8, "max_position_embeddings": 64}
        events, said = train(here / "big", tokens, on_gpu[0], code=11, model=big, **on_gpu[1],
                             checkpoint={"every_steps": 4, "asynchronous": False, "snapshot_every": 0})
        if "too little memory on a GPU emulated on the processor" not in said or "free" not in said:
            sys.exit(f"too large a model: {said}")
        # What the engine says of itself, a training that needs a GPU says as well.
        info = subprocess.run([BIN / "longhaul-engine", "info"], capture_output=True, text=True, timeout=60 * PATIENCE).stdout
        cuda = next(line for line in info.splitlines() if line.startswith("cuda operations: "))
        print(cuda)
        if "not usable here: " in cuda or cuda.endswith(": none"):
            why = cuda.split("not usable here: ")[1] if "not usable" in cuda else "built without CUDA"
            events, said = train(here / "none", tokens, "longhaul-engine", code=(3, 5, 11), **on_gpu[1])
            if losses(events) or why not in said:
                sys.exit(f"no GPU: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
