#!/usr/bin/env python3
"""The programs answer as `transformers` did: `longhaul-engine serve`, `generate` and `logits` against golden/model-*/.

usage: programs_test.py LONGHAUL_ENGINE GOLDEN_FOLDER
"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

engine, golden_folder = sys.argv[1], pathlib.Path(sys.argv[2])
ANSWER_TOKENS, LOGITS_BAR = 24, 1e-4
failures = 0


def expect(what, got, expected):
    global failures
    if got != expected:
        failures += 1
        print(f"FAILED: {what}\n  got      {got!r}\n  expected {expected!r}")


class Server:
    def __init__(self, model, folder):
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [engine, "serve", "--model", str(model), "--precision", "f32", "--threads", "1", "--no-token", "--host", "127.0.0.1",
             "--address-file", str(folder / "address.json")], stdout=self.log.open("w"), stderr=subprocess.STDOUT)
        self.url, deadline = "", time.monotonic() + 30
        while not self.is_ready(folder / "address.json"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                sys.exit("the server does not answer:\n" + self.log.read_text())
            time.sleep(0.02)

    def is_ready(self, address):
        try:
            self.url = "http://127.0.0.1:%d" % json.loads(address.read_text())["port"]
            return urllib.request.urlopen(self.url + "/health", timeout=5).status == 200
        except (OSError, ValueError):  # no file yet, or the model loads
            return False

    def complete(self, prompt):
        body = {"prompt": prompt, "temperature": 0, "max_tokens": ANSWER_TOKENS}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        answer = json.load(urllib.request.urlopen(request, timeout=20))
        choice, usage = answer["choices"][0], answer["usage"]
        return {"text": choice["text"], "finish_reason": choice["finish_reason"],
                "prompt_tokens": usage["prompt_tokens"]}

    def end(self):
        self.process.terminate()
        expect("the server's exit code", self.process.wait(20), 0)


def check_server(model, answers):
    with tempfile.TemporaryDirectory() as folder:
        server = Server(model, pathlib.Path(folder))
        expected = [{"text": a["text"], "finish_reason": a["finish_reason"], "prompt_tokens": len(a["prompt_ids"])}
                    for a in answers]
        for answer, wanted in zip(answers, expected):
            expect(f"the server's answer to {answer['prompt']!r}", server.complete(answer["prompt"]), wanted)
            expect(f"its answer to the ids of {answer['prompt']!r}", server.complete(answer["prompt_ids"]), wanted)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:  # batched with others: still the same
            together = list(pool.map(server.complete, [a["prompt"] for a in answers]))
        expect("answers asked for all at once", together, expected)
        server.end()


def check_generate(model, answers):
    for answer in answers:
        out = subprocess.run([engine, "generate", "--model", str(model), "--prompt", answer["prompt"], "--max-tokens",
                              str(ANSWER_TOKENS)], capture_output=True, timeout=20, check=True).stdout
        expect(f"generate {answer['prompt']!r}", out.decode(), answer["text"] + "\n")


def check_logits(model, sequence):
    with tempfile.TemporaryDirectory() as folder:
        tokens = pathlib.Path(folder) / "ids.json"
        tokens.write_text(json.dumps(sequence["ids"]))
        ours = json.loads(subprocess.run([engine, "logits", "--model", str(model), "--tokens", str(tokens)],
                                         capture_output=True, timeout=20, check=True).stdout)["logits"]
    largest = max(abs(a - b) for position, row in zip(sequence["positions"], sequence["logits"])
                  for a, b in zip(ours[position], row, strict=True))
    print(f"{model.name}: logits of {len(ours)} tokens differ by at most {largest:.1e} (bar {LOGITS_BAR:.0e})")
    expect("logits are within the bar", largest <= LOGITS_BAR, True)


def main():
    models = sorted(golden_folder.glob("model-*"))
    expect("golden models", len(models), 3)
    for model in models:
        golden = json.loads((model / "golden.json").read_text())
        answers = golden["answers"]
        expect("prompts", len(answers), 20)
        check_server(model, answers)
        check_generate(model, answers)
        check_logits(model, golden["sequences"][1])
        print(f"{model.name}: {len(answers)} greedy answers of the server and of generate compared with those of "
              f"transformers {golden['versions']['transformers']}")
    print("all as expected" if failures == 0 else f"{failures} failed")
    return 1 if failures else 0


sys.exit(main())
