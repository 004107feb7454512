#!/usr/bin/env python3
"""lm_eval itself against a server of ours. Usage: check_evaluation.py LONGHAUL_ENGINE

Serves golden/model-untied in f32, asks it the tasks of golden/evaluation by lm_eval's local-completions, and compares each
figure with golden.json, which lm_eval made with transformers (make_evaluation_golden.py). Needs lm_eval 0.4.9 with tenacity and
requests; loopback alone. Prints a line for each figure, and ends with 1 where one differs by more than 1e-5. Tasks whose contexts
fill the model's window are left out: over HTTP lm_eval cuts them a token shorter.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.update(HF_HOME=tempfile.mkdtemp(prefix="check-evaluation-"), HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1",
                  TOKENIZERS_PARALLELISM="false")

import lm_eval  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
TASKS = ["choices_plain", "contexts", "last_words", "sums"]


def serve(engine, folder):
    address, token = folder / "address.json", folder / "token"
    server = subprocess.Popen([engine, "serve", "--model", str(GOLDEN / "model-untied"), "--model-name", "model", "--precision", "f32",
                               "--token-file", str(token), "--address-file", str(address)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not address.exists():
        assert server.poll() is None and time.monotonic() < end, "the server did not start"
        time.sleep(0.05)
    time.sleep(1)  # it loads 60 kB
    return server, f"http://127.0.0.1:{json.loads(address.read_text())['port']}/v1/completions", token.read_text().strip()


def tokenizer_folder(folder):
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_bytes((GOLDEN / "model-untied/tokenizer.json").read_bytes())
    end = "<|endoftext|>"
    (tokenizer / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": end, "eos_token": end, "pad_token": end}))
    return tokenizer


def main():
    with tempfile.TemporaryDirectory() as name:
        server, url, token = serve(os.path.abspath(sys.argv[1]), pathlib.Path(name))
        os.environ["OPENAI_API_KEY"] = token
        os.chdir(GOLDEN / "evaluation")
        try:
            results = lm_eval.simple_evaluate(
                model="local-completions", tasks=TASKS, bootstrap_iters=100, log_samples=True,
                task_manager=TaskManager(include_path=str(GOLDEN / "evaluation"), include_defaults=False),
                model_args={"model": "model", "base_url": url, "tokenizer": str(tokenizer_folder(pathlib.Path(name))),
                            "max_length": 128, "batch_size": 1})
        finally:
            server.terminate()
            server.wait(20)
    golden, failed, count = json.loads((GOLDEN / "evaluation/golden.json").read_text())["tasks"], 0, 0
    for task in TASKS:
        for figure, wanted in golden[task]["figures"].items():
            seen = results["results"][task][figure]
            fits = abs(seen / wanted - 1) <= 1e-5 if wanted else seen == 0
            failed, count = failed + (not fits), count + 1
            print("ok  " if fits else "FAIL", task, figure, seen, "" if fits else f"is {wanted} with transformers")
    print(f"{count} figures, {failed} differ")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
