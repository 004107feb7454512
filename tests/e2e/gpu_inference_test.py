#!/usr/bin/env python3
"""What is done with a trained model, on an emulated GPU and on the processor, by the engine's own programs: the same
greedy text, the same figures of an evaluation, the same curve of an alignment, also where the model learns from its own
answers, the same answers of a server; what a GPU has no room for is refused with the numbers.

usage: gpu_inference_test.py BIN_FOLDER SOURCE_DIR
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

from scenario import PATIENCE

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from training_files import write_toml  # noqa: E402

BIN, SOURCE = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
CPU, GPU = ("longhaul-engine", "cpu"), ("longhaul-engine-emulated-gpu", "gpu")
GOLDEN = SOURCE / "tests/parity/golden/model-untied"


def expect(what, condition, *details):
    if not condition:
        sys.exit(f"{what}: {details}")
    print("ok", what)


def engine(program, *arguments, code=0, ranks=1):
    command = [str(part) for part in (BIN / program, *arguments)]
    if ranks > 1:
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                   *command]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280 * PATIENCE, env=environment)
    if done.returncode != code:
        sys.exit(f"{program} {arguments} ended with {done.returncode}, expected {code}:\n{done.stdout}{done.stderr}")
    return done.stdout if code == 0 else done.stderr


def stage(program, folder, kind, inputs, settings, code=0, ranks=1):
    """Runs one stage; returns its artifact's folder and its events, or what it said where it is to fail."""
    out = folder / "out"
    shutil.rmtree(folder, ignore_errors=True)
    out.mkdir(parents=True)
    parallel = {"dp_replicate": ranks} if ranks > 1 else {}
    write_toml(folder / "task.toml",
               {"file": "longhaul task", "format": 1, "run": "gpu", "stage": kind, "kind": kind, "kind_version": 1,
                "key": "k", "resources": {"ranks": ranks, "threads": 1, "nodes": 1}, "parallel": parallel,
                "inputs": {name: {"paths": [str(path)]} for name, path in inputs.items()}, "settings": settings})
    write_toml(folder / "launch.toml",
               {"file": "longhaul launch", "format": 1, "attempt_key": "k", "ranks": ranks, "hosts": ["here"],
                "rank_host": [0] * ranks, "launch_dir": str(folder), "events_path": str(folder / "events.jsonl"),
                "output_dir": str(out), "state_dir": str(folder / "state"), "parallel": parallel})
    said = engine(program, "run", "--task", folder / "task.toml", "--launch", folder / "launch.toml", code=code,
                  ranks=ranks)
    if code != 0:
        return said
    return out, [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def on_both(here, kind, inputs, settings):
    return [stage(program, here / f"{kind}-{device}", kind, inputs, {**settings, "device": device})
            for program, device in (CPU, GPU)]


def write_data(here):
    draw = random.Random(7)
    sentence = lambda: f"the {draw.choice(['cat', 'dog', 'king'])} {draw.choice(['eats', 'sees'])} a fish. "  # noqa: E731
    (here / "corpus").mkdir()
    for name, documents in (("documents", 30), ("heldout", 1)):
        (here / "corpus" / f"{name}.jsonl").write_text("".join(
            json.dumps({"id": str(i), "language": "en", "text": "".join(sentence() for _ in range(12))}) + "\n"
            for i in range(documents)))
    (here / "data").mkdir()
    colours = ["red", "blue", "green"]
    pairs = [{"prompt": f"which is {i}?", "chosen": f"maybe {colours[i % 3]}!", "rejected": f"it is {colours[i % 3]}."}
             for i in range(8)]
    (here / "data" / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))


def close(a, b, limit):
    return a.keys() == b.keys() and all(abs(a[k] - b[k]) <= limit * max(1.0, abs(a[k])) for k in a)


def commands(here):
    for prompt in ("the cat", "a"):
        texts = [engine(program, "generate", "--model", GOLDEN, "--prompt", prompt, "--max-tokens", 24, "--device",
                        device) for program, device in (CPU, GPU)]
        expect(f"the same text after {prompt!r}", texts[0] == texts[1] and len(texts[0]) > 1, texts)
    tokens = here / "tokens.json"
    tokens.write_text(json.dumps([5, 9, 100, 31, 7]))
    logits = [json.loads(engine(program, "logits", "--model", GOLDEN, "--tokens", tokens, "--device", device))["logits"]
              for program, device in (CPU, GPU)]
    worst = max(abs(a - b) for rows in zip(*logits) for a, b in zip(*rows))
    expect(f"logits differ by {worst:.1e}", worst < 1e-4)

    large = here / "large"
    shutil.copytree(GOLDEN, large)
    config = json.loads((large / "config.json").read_text())
    config["max_position_embeddings"] = 10**8
    (large / "config.json").write_text(json.dumps(config))
    said = engine(GPU[0], "generate", "--model", large, "--prompt", "a", "--max-tokens", 10**8, "--device", "gpu", code=11)
    expect("too large is refused with the numbers", "too little memory on a GPU emulated" in said and "caches of 1 sequences" in said
           and "shorter context" in said, said)
    said = engine(GPU[0], "serve", "--model", large, "--no-token", "--host", "127.0.0.1", "--slots", 4, "--device", "gpu", code=2)
    expect("a server refuses it too", "caches of 1 sequences" in said and "a shorter context" in said, said)
    said = stage(GPU[0], here / "too-long", "evaluate", {"model": large, "tokens": here}, {"device": "gpu"}, code=11)
    expect("and so does an evaluation", "activations of 100000000 tokens" in said and "context_length" in said, said)
    said = engine(CPU[0], "generate", "--model", GOLDEN, "--prompt", "a", "--device", "tpu", code=3)
    expect("an unknown device is refused", "use cpu or gpu" in said, said)


def learns_from_answers(here, base, aligned):
    """Rollouts: tokens, rewards, divergences and what is learnt from them, of one device and the other."""
    prompts = here / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"which is {i}?", "answer": "a"}) + "\n" for i in range(6)))
    settings = {"method": "grpo", "sequence_length": 48, "micro_batch_size": 4, "global_batch_size": 8, "steps": 3,
                "beta": 0.1, "precision": "f32", "optimizer": {"lr": 0.003, "warmup_steps": 0},
                "rollout": {"group_size": 4, "max_new_tokens": 8, "slots": 3},
                "reward": {"kind": "regex", "pattern": "[a-e]"}}
    sources = {"model": base, "data": prompts}
    names = ("loss", "grad_norm", "reward", "kl", "clip_fraction", "entropy", "answer_tokens")

    def steps_of(events):
        return [{name: e[name] for name in names if name in e} for e in events
                if e.get("kind") == "metric" and "clip_fraction" in e]

    def compare(what, runs):
        ran = [steps_of(events) for _, events in runs]
        expect(what, ran[0] and all(len(steps) == len(ran[0]) and all(map(close, ran[0], steps, [2e-4] * len(steps)))
                                    for steps in ran[1:]), ran)
        return ran[0]

    runs = on_both(here, "align", {**sources, "heldout": prompts}, settings)
    steps = compare("the same answers of a model in training, and the same steps by them", runs)
    expect("steps learn, and later answers are others", steps[0]["grad_norm"] > 0
           and abs(steps[2]["entropy"] - steps[0]["entropy"]) > 1e-3 and steps[0]["kl"] < 1e-5 < steps[2]["kl"], steps)
    figures = [json.loads((out / "artifact.json").read_text())["figures"] for out, _ in runs]
    held = [{k: f[k] for k in f if k.startswith("heldout_")} for f in figures]
    expect("the same likeliest answers to held-out prompts", close(*held, 2e-4) and "heldout_reward" in held[0], held)
    memory = next(e for e in runs[1][1] if e.get("kind") == "memory")
    expect("what answers take of the GPU is planned",
           0 < memory["held"]["answers"] <= memory["planned"]["answers"], memory)
    runs[1:] = [stage(GPU[0], here / "grpo-ranks", "align", sources,
                      {**settings, "device": "gpu", "communicator": "staged"}, ranks=2)]
    compare("the same of two ranks on GPUs", runs)

    said = stage(GPU[0], here / "ahead", "align", sources,
                 {**settings, "device": "gpu", "rollout": {**settings["rollout"], "ahead": True}}, code=5)
    expect("answers ahead are refused by name", "rollout.ahead and without rollout.ranks: a GPU does what one thread asks for" in said, said)

    few = {**settings, "steps": 2}
    compare("the same with an adapter", on_both(here, "align", sources, {**few, "adapter": {"kind": "lora", "rank": 4}}))
    judge, _ = stage(CPU[0], here / "reward", "reward", {"model": base, "data": here / "data"},
                     {"sequence_length": 48, "micro_batch_size": 2, "global_batch_size": 4, "steps": 2,
                      "precision": "f32", "optimizer": {"lr": 0.003, "warmup_steps": 0}})
    compare("the same by a reward model", on_both(here, "align", {**sources, "reward": judge},
                                                  {**few, "reward": {"kind": "model"}}))
    compare("the same with a critic", on_both(here, "align", sources, {**few, "method": "ppo", "rollout": {
        **settings["rollout"], "group_size": 1, "epochs": 2}}))
    of_teacher = {key: few[key] for key in few if key not in ("beta", "reward")}
    compare("the same by a teacher", on_both(here, "align", {**sources, "teacher": aligned},
                                             {**of_teacher, "method": "distill"}))


def main():
    with tempfile.TemporaryDirectory(prefix="longhaul-gpu-") as name:
        here = pathlib.Path(name)
        commands(here)
        write_data(here)
        tokens, _ = stage(CPU[0], here / "tokenize", "tokenize", {"corpus": here / "corpus"}, {"vocabulary": 320})
        shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
                 "num_key_value_heads": 2, "max_position_embeddings": 64}
        base, _ = stage(CPU[0], here / "pretrain", "pretrain", {"tokens": tokens},
                        {"model": shape, "sequence_length": 32, "micro_batch_size": 4, "global_batch_size": 4,
                         "steps": 30, "precision": "f32", "optimizer": {"lr": 0.01, "warmup_steps": 2}})

        runs = on_both(here, "evaluate", {"model": base, "tokens": tokens, "data": here / "data"},
                       {"tasks": ["bits_per_byte", "preference"], "precision": "f32", "context_length": 32,
                        "prompts": ["the cat", "a"], "prompt_tokens": 8})
        figures = [json.loads((out / "artifact.json").read_text())["figures"] for out, _ in runs]
        expect("the same figures of an evaluation", close(*figures, 1e-4) and "bits_per_byte" in figures[0], figures)
        samples = [[e["text"] for e in events if e.get("kind") == "sample"] for _, events in runs]
        expect("the same continuations", samples[0] == samples[1] and len(samples[0]) == 2, samples)

        alignment = {"sequence_length": 32, "micro_batch_size": 2, "global_batch_size": 4, "steps": 5, "beta": 0.3,
                     "precision": "f32", "optimizer": {"lr": 0.003, "warmup_steps": 0}}
        sources = {"model": base, "data": here / "data"}
        runs = on_both(here, "align", sources, alignment)
        runs.append(stage(GPU[0], here / "align-ranks", "align", sources,
                          {**alignment, "device": "gpu", "communicator": "staged"}, ranks=2))
        curves = [{e["step"]: e["loss"] for e in events if e.get("kind") == "metric" and "loss" in e}
                  for _, events in runs]
        expect("the same curve of an alignment", close(*curves[:2], 1e-4) and len(curves[0]) == 5, curves)
        expect("the same of two ranks on GPUs", close(curves[0], curves[2], 1e-4), curves)
        expect("something was learnt", curves[0][5] < curves[0][1], curves)

        aligned = here / "aligned"
        shutil.copytree(runs[0][0], aligned)
        learns_from_answers(here, base, aligned)

        runs = on_both(here, "deploy", {"model": base},
                       {"precision": "f32", "prompts": ["the cat"], "max_tokens": 8, "slots": 2})
        answers = [json.loads((out / "samples.json").read_text()) for out, _ in runs]
        texts = [[a["text"] if "text" in a else a["answer"] for a in (s["samples"] if isinstance(s, dict) else s)]
                 for s in answers]
        expect("the same answers of a server", texts[0] == texts[1] and texts[0] and texts[0][0], answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
