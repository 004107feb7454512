#!/usr/bin/env python3
"""A tiny pipeline twice: with this machine's engine, and with Arm's under emulation; both times this machine's longhaul and
worker. Text, vocabulary and tokens have to be the same bytes; losses may differ in the last bits of f32. Then each engine serves
the model: a deploy stage would start its own program, which this machine's kernel cannot without the emulator.

usage: arm_pipeline.py HOST_PROGRAMS ARM_ENGINE SYSROOT FOLDER
"""
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/e2e"))
from tiny_inputs import tokens_of_pages, write_pages  # noqa: E402

SEED = 20261126
LOSS_DIFFERENCE_MAX = 1e-3  # of about 5, after 20 steps: sums in another order
WORKFLOW = tokens_of_pages("tiny", heldout_bytes=6000) + """[stage.pretrain]
kind = "pretrain"
inputs = { tokens = "@tokens" }
threads = 1
steps = 20
sequence_length = 64
micro_batch_size = 4
global_batch_size = 8
checkpoint = { every_steps = 10 }
model = { hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 2, num_key_value_heads = 1, max_position_embeddings = 64 }
optimizer = { lr = 3e-3, warmup_steps = 5 }
[stage.quantize]
kind = "quantize"
inputs = { model = "@pretrain", tokens = "@tokens" }
"""
TOKEN = "a token of this test"
SERVER_SECONDS = 300  # until it answers, emulated on a busy machine


def install(folder, programs, engine_script):
    """A prefix whose engine is another program."""
    (folder / "bin").mkdir(parents=True)
    for name in ("longhaul", "longhaul-worker"):
        shutil.copy(programs / name, folder / "bin" / name)
    if engine_script is None:
        shutil.copy(programs / "longhaul-engine", folder / "bin/longhaul-engine")
    else:
        (folder / "bin/longhaul-engine").write_text(engine_script)
        (folder / "bin/longhaul-engine").chmod(0o755)
    share = folder / "share/longhaul"
    share.mkdir(parents=True)
    for name in ("site-configs", "workflows", "autotune"):
        (share / name).symlink_to(SOURCE / name)
    return folder / "bin/longhaul"


def run(longhaul, folder):
    folder.mkdir(parents=True)
    write_pages(folder / "pages", SEED)
    (folder / "tiny.toml").write_text(WORKFLOW)
    subprocess.run([longhaul, "run", "tiny.toml"], cwd=folder, check=True, timeout=3000)
    found = sorted((folder / "runs").glob("tiny-*"))
    return found[-1] / "stages"


def losses(stages):
    found = {}
    for path in sorted((stages / "pretrain").rglob("events.jsonl")):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if "loss" in event and "step" in event:
                found[event["step"]] = event["loss"]
    return found


def ask(port, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body and json.dumps(body).encode(),
                                     {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SERVER_SECONDS) as answer:
        return json.load(answer)


def served(engine, folder, stages):
    """How many tokens the prompt and the answer of a server have."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = folder / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    with open(folder / "server.log", "w") as log:
        server = subprocess.Popen([engine, "serve", "--model", stages / "quantize/out", "--token-file", token, "--port", str(port)],
                                  stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + SERVER_SECONDS
        while True:
            assert server.poll() is None and time.monotonic() < deadline, (folder / "server.log").read_text()
            try:
                ask(port, "/health")
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        usage = ask(port, "/v1/completions", {"prompt": "The old server", "max_tokens": 8, "temperature": 0})["usage"]
        return usage["prompt_tokens"], usage["completion_tokens"]
    finally:
        server.terminate()
        server.wait()


def same_files(left, right, pattern):
    names = sorted(path.relative_to(left) for path in left.glob(pattern))
    assert names, f"nothing matches {left}/{pattern}"
    for name in names:
        assert (left / name).read_bytes() == (right / name).read_bytes(), f"{name} differs between processors"
    return names


def main(programs, engine, sysroot, folder):
    shutil.rmtree(folder, ignore_errors=True)
    script = f'#!/bin/sh\nexec qemu-aarch64 -L "{sysroot}" -E LD_LIBRARY_PATH="{sysroot}/usr/local/lib" "{engine}" "$@"\n'
    print(subprocess.run(["sh", "-c", script.split("\n")[1], "engine", "info"], capture_output=True, text=True, check=True).stdout)
    host = run(install(folder / "host", programs, None), folder / "host-run")
    arm = run(install(folder / "arm", programs, script), folder / "arm-run")
    for stage, pattern in (("corpus/out", "documents.jsonl"), ("corpus/out", "heldout.jsonl"), ("tokens/out", "*.bin"),
                           ("tokens/out", "*.idx"), ("tokens/out", "tokenizer.json")):
        print("same bytes:", ", ".join(map(str, same_files(host / stage, arm / stage, pattern))))
    left, right = losses(host), losses(arm)
    assert left and left.keys() == right.keys(), f"steps differ: {sorted(left)} and {sorted(right)}"
    worst = max(abs(left[step] - right[step]) for step in left)
    print(f"losses of {len(left)} steps: largest difference {worst:.2g}; last {left[max(left)]} and {right[max(right)]}")
    assert worst <= LOSS_DIFFERENCE_MAX, "losses differ by more than the order of sums explains"
    ours, theirs = (served(folder / name / "bin/longhaul-engine", folder, stages) for name, stages in (("host", host), ("arm", arm)))
    print(f"served, tokens of prompt and answer: {ours} and {theirs}")
    assert ours[0] == theirs[0] > 0 and theirs[1] > 0, "the server of Arm does not answer like this machine's"
    print("arm pipeline: works")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4]).resolve())
