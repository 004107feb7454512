#!/usr/bin/env python3
"""The whole pipeline, tiny, with the real programs: pages made here go in, a served model comes out.

usage: pipeline_test.py LONGHAUL SOURCE_DIR
"""
import http.client
import json
import math
import pathlib
import re
import subprocess

from scenario import PATIENCE, SOURCE, call, case, events, expect, longhaul, main, newest_run, program, runs, snapshot, status
from tiny_inputs import write_pages, write_questions

SEED = 20260301

WORKFLOW = """
[workflow]
name = "tiny"
[params]
sft_epochs = 2.0
[stage.corpus]
kind = "curate"
inputs = { documents = "pages" }
heldout_bytes = 6000
[stage.tokens]
kind = "tokenize"
inputs = { corpus = "@corpus" }
vocabulary = 400
[stage.pretrain]
kind = "pretrain"
inputs = { tokens = "@tokens" }
ranks = 2
threads = 1
steps = 60
sequence_length = 64
micro_batch_size = 4
global_batch_size = 16
checkpoint = { every_steps = 20 }
model = { hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 2, num_key_value_heads = 1, max_position_embeddings = 64 }
optimizer = { lr = 1e-2, warmup_steps = 5 }
[stage.sft]
kind = "sft"
inputs = { model = "@pretrain", data = "questions/train.jsonl", heldout = "questions/heldout.jsonl" }
threads = 1
epochs = "${params.sft_epochs}"
sequence_length = 64
micro_batch_size = 4
global_batch_size = 8
optimizer = { lr = 3e-3 }
[stage.align]
kind = "align"
inputs = { model = "@sft", data = "questions/pairs-train.jsonl", heldout = "questions/pairs.jsonl" }
threads = 1
sequence_length = 64
micro_batch_size = 4
global_batch_size = 8
optimizer = { lr = 1e-3 }
[stage.evaluate]
kind = "evaluate"
inputs = { model = "@align", tokens = "@tokens", data = "questions", baseline = "@sft" }
tasks = ["bits_per_byte", "answer_loss", "preference"]
prompts = ["The old server"]
prompt_tokens = 8
[stage.quantize]
kind = "quantize"
inputs = { model = "@align", tokens = "@tokens" }
[stage.deploy]
kind = "deploy"
inputs = { model = "@quantize" }
model_name = "tiny"
max_tokens = 16
prompts = ["Where is the server?"]
leave_running = true
[stage.export]
kind = "convert"
inputs = { model = "@align" }
dtype = "f32"
"""
STAGES = ["corpus", "tokens", "pretrain", "sft", "align", "evaluate", "quantize", "deploy", "export"]
# What the artifact of each stage must hold besides its manifest.
FILES = {
    "corpus": ["documents.jsonl", "heldout.jsonl", "waterfall.json", "languages.json", "removed.jsonl"],
    "tokens": ["tokenizer.json", "train.bin", "train.idx", "heldout.bin", "heldout.idx", "heldout.txt"],
    "pretrain": ["config.json", "model.safetensors", "tokenizer.json"],
    "sft": ["config.json", "model.safetensors", "tokenizer.json"],
    "align": ["config.json", "model.safetensors", "tokenizer.json"],
    "evaluate": ["artifact.json"],
    "quantize": ["config.json", "model.safetensors", "tokenizer.json"],
    "deploy": ["endpoint.json", "samples.json"],
    "export": ["config.json", "model.safetensors", "tokenizer.json"],
}


def figures_of(here):
    return {s["id"]: s["figures"] for s in status(here)["stages"]}


def check_artifacts(run):
    for stage, files in FILES.items():
        out = run / "stages" / stage / "out"
        manifest = json.loads((out / "manifest.json").read_text())
        listed = {f["path"] for f in manifest["files"]}
        for file in files:
            expect(f"{stage} has {file}, listed in its manifest", (out / file).is_file() and file in listed, listed)


def figures_of_the_reference():
    """(figure, kind of stage, "step" or "end") of docs/reference/figures.md, which is written from the code's table."""
    known = set()
    for line in (SOURCE / "docs/reference/figures.md").read_text().splitlines():
        if line.startswith("| `"):
            name, _, kinds, when = [cell.strip() for cell in line.split("|")[1:5]]
            known |= {(name.strip("`"), kind, at) for kind in kinds.split() for at in when.split()}
    return known


def check_every_figure_is_documented(run, figures):
    known = figures_of_the_reference()
    kinds = {stage: json.loads((run / "stages" / stage / "out/manifest.json").read_text())["kind"] for stage in STAGES}
    for stage, found in figures.items():
        for name in found:
            plain = re.sub("^baseline_|(?:(?<=accuracy)|(?<=per_token)|(?<=difference))_(low|high)$", "", name)
            expect(f"{stage}.{name} is in the reference", (plain, kinds[stage], "end") in known)
    for stage in ("pretrain", "sft", "align"):
        names = {name for e in events(run, stage, "metric") for name in e} - {"ms", "t", "rank", "kind", "step"}
        for name in names:
            plain = re.sub("^sent_.*_bytes$", "sent_AXIS_bytes", name)
            expect(f"{stage}: {name} of a step is in the reference", (plain, kinds[stage], "step") in known, sorted(names))


def check_figures(here, run):
    figures = figures_of(here)
    check_every_figure_is_documented(run, figures)
    for stage, found in figures.items():
        for name, value in found.items():
            expect(f"{stage}.{name} is finite", math.isfinite(value), found)
    languages = {e["language"] for e in json.loads((run / "stages/corpus/out/languages.json").read_text())}
    expect("three languages are recognised", languages == {"en", "de", "es"}, languages)
    expect("the vocabulary has the size asked for", figures["tokens"]["vocab_size"] == 400)
    for stage, fall in (("pretrain", 1.0), ("sft", 0.3), ("align", 0.05)):
        losses = [e["loss"] for e in events(run, stage, "metric") if "loss" in e]
        expect(f"{stage}: losses are finite", losses and all(map(math.isfinite, losses)), losses)
        expect(f"{stage}: the loss falls", losses[-1] < losses[0] - fall, losses)
    steps = [e for e in events(run, "pretrain", "metric") if "loss" in e]
    expect("as many losses as steps", [e["step"] for e in steps] == list(range(1, 61)), steps)
    expect("the first loss is that of chance", abs(steps[0]["loss"] - math.log(400)) < 0.3)
    expect("the bits per byte are between nothing and chance", 0.5 < figures["evaluate"]["bits_per_byte"] < 8, figures)
    expect("the baseline is measured too", any("baseline" in name for name in figures["evaluate"]), figures["evaluate"])
    expect("int8 is less than half of f32", figures["quantize"]["bytes_after"] < figures["quantize"]["bytes_before"] / 1.9)
    weights = run / "stages/export/out/model.safetensors"
    expect("the export holds f32", weights.stat().st_size > 4 * figures["pretrain"]["parameters"])


def check_report(run):
    html = (run / "report/index.html").read_text()
    expect("the graph", '<svg class="graph"' in html)
    expect("loss curves", html.count('aria-label="loss over steps"') >= 3)
    expect("every stage", all(f">{stage}<" in html for stage in STAGES))
    expect("nothing is fetched", not re.search(r'(src|href)="?https?://|<script|<link', html))
    facts = json.loads((run / "report/report.json").read_text())
    expect("nothing is missing", facts["missing"] == [], facts["missing"])


class Server:
    """The endpoint that a deploy stage left."""

    def __init__(self, run):
        self.file = run / "stages/deploy/out/endpoint.json"
        self.endpoint = json.loads(self.file.read_text())
        self.address = self.endpoint["url"].removeprefix("http://")
        self.token = pathlib.Path(self.endpoint["token_file"]).read_text().strip()

    def ask(self, path, body=None, token=None):
        client = http.client.HTTPConnection(self.address, timeout=20 * PATIENCE)
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        client.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
        answer = client.getresponse()
        text = answer.read().decode()
        client.close()
        return answer.status, text

    def alive(self):
        try:
            return self.ask("/health")[0] == 200
        except OSError:
            return False

    def stop(self, here):
        return call([program("longhaul-engine"), "stop-server", "--endpoint", self.file], here)


def check_server(server):
    code, text = server.ask("/v1/models")
    expect("the model is named", code == 200 and json.loads(text)["data"][0]["id"] == "tiny", text)
    expect("no token, no answer", server.ask("/v1/models", token="wrong")[0] == 401)
    question = {"messages": [{"role": "user", "content": "Where is the river?"}], "max_tokens": 12, "temperature": 0}
    code, text = server.ask("/v1/chat/completions", question)
    expect("a chat is answered", code == 200, text)
    whole = json.loads(text)["choices"][0]["message"]["content"]
    code, text = server.ask("/v1/chat/completions", {**question, "stream": True})
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    expect("the stream ends as it should", code == 200 and lines[-1] == "[DONE]", text)
    deltas = [json.loads(line)["choices"][0]["delta"].get("content", "") for line in lines[:-1]]
    expect("the stream says the same as the whole answer", "".join(deltas) == whole, (whole, deltas))
    code, text = server.ask("/v1/completions", {"prompt": "The old server", "max_tokens": 12, "temperature": 0})
    answer = json.loads(text)
    expect("a completion of at most the tokens asked for", code == 200 and 1 <= answer["usage"]["completion_tokens"] <= 12, text)


def check_requests_as_sent(server):
    """Requests of tests/cases/requests: each is answered, and as its `why` says."""
    for path, name in (("/v1/chat/completions", "chat"), ("/v1/completions", "completions")):
        for line in (pathlib.Path(__file__).parents[1] / "cases/requests" / f"{name}.jsonl").read_text().splitlines():
            one = json.loads(line)
            code, text = server.ask(path, {**one["body"], "model": "tiny"})
            expect(one["why"], code == 200, text)
            choice = json.loads(text)["choices"][0]
            if "special tokens are named" in one["why"]:
                expect(one["why"], all(choice["logprobs"]["tokens"]), choice)
            if "text_offset" in one["why"]:
                expect(one["why"], choice["logprobs"]["text_offset"][0] == 10, choice)
    # An answer that is begun costs the tokens of its beginning alone: no second turn is opened, the first is not closed.
    body = {"max_tokens": 1, "temperature": 0, "messages": [{"role": "user", "content": "Name a colour"}]}
    tokens = []
    for more in ([], [{"role": "assistant", "content": "The"}], [{"role": "assistant", "content": "The"}, {"role": "user", "content": "a"}]):
        code, text = server.ask("/v1/chat/completions", {**body, "messages": body["messages"] + more})
        tokens.append(json.loads(text)["usage"]["prompt_tokens"])
    code, text = server.ask("/v1/completions", {"prompt": "The", "max_tokens": 0})
    begun = json.loads(text)["usage"]["prompt_tokens"]
    expect("the beginning goes on", tokens[1] == tokens[0] + begun and tokens[2] > tokens[1] + 3, (tokens, begun))


def states_of(here):
    return {s["id"]: s["state"] for s in status(here)["stages"]}


@case
def from_pages_to_an_answer(here):
    write_pages(here / "pages", SEED)
    write_questions(here / "questions", SEED + 1)
    (here / "tiny.toml").write_text(WORKFLOW)
    try:
        longhaul(here, "run", "tiny.toml", code=0, says=("server of deploy: http://127.0.0.1:", "  curl ", "report: "))
        first = newest_run(here)
        server = Server(first)
        check_artifacts(first)
        check_figures(here, first)
        check_report(first)
        check_server(server)
        check_requests_as_sent(server)
        before = snapshot(first / "stages/pretrain/out")

        # Nothing changed: nothing is done again, but the server, which is asked for anew each time.
        longhaul(here, "run", "tiny.toml", code=0)
        states = states_of(here)
        expect("all cached", all(states[s] == "cached" for s in STAGES if s != "deploy"), states)
        second = Server(newest_run(here))
        expect("each run's server answers", second.alive() and server.alive())
        shown = longhaul(here, "status", code=0, says="server of deploy: http://127.0.0.1:").out
        asked = subprocess.run(["bash", "-c", next(line for line in shown.splitlines() if line.startswith("  curl "))],
                               capture_output=True, text=True, timeout=60 * PATIENCE)
        expect("the line that status prints asks it", '"choices"' in asked.stdout, asked.stdout + asked.stderr)
        longhaul(here, "cancel", "--server", code=0, says="server of deploy: stopped")
        expect("cancel --server ends that of its run alone", not second.alive() and server.alive())
        shown = longhaul(here, "status", code=0).out
        expect("and status lists it no more", "server of deploy" not in shown, shown)
        longhaul(here, "cancel", "--server", code=0, says="has left no server running")

        # One setting changed: what depends on it, and nothing else.
        longhaul(here, "run", "tiny.toml", "--set", "params.sft_epochs=1.0", code=0)
        third = Server(newest_run(here))
        third.stop(here)
        states = states_of(here)
        expected = {s: "cached" if s in ("corpus", "tokens", "pretrain") else "succeeded" for s in STAGES}
        expect("only what depends on it runs again", states == expected, states)
        expect("the first artifact is untouched", snapshot(first / "stages/pretrain/out") == before)
        expect("the server that was left still answers", server.alive())
    finally:
        for run in runs(here):
            if (run / "stages/deploy/out/endpoint.json").exists():
                Server(run).stop(here)
    expect("a stopped server is gone", not server.alive())


if __name__ == "__main__":
    main()
