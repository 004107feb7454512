"""Every key of the JSON documents that commands print is documented in docs/reference/json.md, with its format.

    json_keys_test.py LONGHAUL SOURCE
"""
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from scenario import PATIENCE

longhaul, source = sys.argv[1], pathlib.Path(sys.argv[2])
failures = 0


def expect(what, holds, seen=""):
    global failures
    failures += not holds
    if not holds:
        print(f"FAILED: {what}\n  seen: {str(seen)[:2000]}")


def documented():
    """Patterns of keys, by command."""
    keys, command = {}, None
    for line in (source / "docs/reference/json.md").read_text().splitlines():
        if line.startswith("## "):
            command = line[3:]
            keys[command] = []
        elif command and line.startswith("| `"):
            keys[command].append(line.split("`")[1])
    return keys


@functools.cache
def expression(pattern):
    text = ""
    for part in re.split(r"(\[\]|\.\*$|\bNAME\b)", pattern):
        text += {"[]": r"\[\]", ".*": r"(\..*|\[\].*)?", "NAME": r".+"}.get(part, re.escape(part))
    return re.compile(text)


def paths(value, at=""):
    if isinstance(value, dict):
        for key, below in value.items():
            yield from paths(below, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        yield at  # which says what its elements are, where they have no keys
        for below in value:
            if isinstance(below, (dict, list)):
                yield from paths(below, at + "[]")
    else:
        yield at


def call(*arguments, cwd, code=0):
    done = subprocess.run([longhaul, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120 * PATIENCE,
                          env={**os.environ, "XDG_CACHE_HOME": str(cwd / "cache")})
    expect(f"{arguments[0]} ends with {code}", done.returncode == code, done.stderr + done.stdout)
    return json.loads(done.stdout)


def compare(command, document, file):
    keys = KEYS.get(command, [])
    expect(f"{command} is documented", keys)
    expect(f"{command} says what it is", document.get("file") == file and isinstance(document.get("format"), int), document)
    unknown = sorted(path for path in set(paths(document)) if not any(expression(pattern).fullmatch(path) for pattern in keys))
    expect(f"all keys of {command} are documented", not unknown, unknown)


def commands(here, name):
    """Documents of few keys."""
    compare("validate", call("validate", "w.toml", "--json", cwd=here), "longhaul validate")
    logs = call("logs", name, "b", "--json", cwd=here)
    compare("logs", logs, "longhaul logs")
    expect("what the programs printed, and events", logs["logs"] and {"launched", "ranks_ended"} <= {e["kind"] for e in logs["events"]}, logs)
    compare("support-bundle", call("support-bundle", name, "--json", "--output", "b.tar.gz", cwd=here), "longhaul support-bundle")
    found = call("explain", "HELDOUT_BYTES", "--json", cwd=here)
    compare("explain", found, "longhaul explain")
    expect("the key and its page", found["found"][0]["where"] == ["stage-kinds.md, curate"], found)
    (here / "tuned.toml").write_text('[workflow]\nname = "tuned"\n[stage.t]\nkind = "tokenize"\ninputs = { corpus = "corpus" }\n'
                                     '[stage.p]\nkind = "pretrain"\ninputs = { tokens = "@t" }\nrecipe = "quickstart-tiny"\nsteps = 2\n')
    (here / "corpus").mkdir()
    (here / "corpus/documents.jsonl").write_text('{"text": "a"}\n')
    tuned = call("tune", "tuned.toml", "--dry-run", "--json", cwd=here)
    compare("tune", tuned, "longhaul tune")
    expect("the only training is tuned", (tuned["run"], tuned["stage"]) == (None, "p-layout"), tuned)
    compare("docs", call("docs", "exit-codes", "--json", cwd=here), "longhaul docs")
    compare("docs", call("docs", "--output", "pages", "--json", cwd=here), "longhaul docs")
    (here / "new").mkdir()
    (here / "new/train.sh").write_text("true\n")
    made = call("init", "new", "--json", cwd=here)
    compare("init", made, "longhaul init")
    expect("what is typed next", made["next"][0] == "longhaul run new/workflow.toml", made)


def machines(here, name, scenario):
    compare("faults", call("faults", "--json", cwd=here), "longhaul faults")
    compare("faults", call("faults", name, "--json", cwd=here), "longhaul faults")
    compare("gc", call("gc", "--json", cwd=here), "longhaul gc")
    compare("sites", call("sites", "--json", cwd=here), "longhaul sites")
    compare("sites", call("sites", "vista", "--json", cwd=here), "longhaul sites")
    compare("doctor", call("doctor", "--json", cwd=here), "longhaul doctor")
    compare("doctor --site", call("doctor", "--site", "local", "--json", cwd=here), "longhaul doctor --site")
    compare("simulate", call("simulate", str(scenario), "--trials", "4", "--json", cwd=here), "longhaul simulate")
    compare("size", call("size", "parameters=8B", "tokens=1T", "days=30", "gpus=256", "--json", cwd=here), "longhaul size")
    compare("serving", call("serving", "recipe=llama3-8b", "model.vocab_size=128256", "gpus=4", "gpu=H100", "--json", cwd=here), "longhaul serving")


def failures_of_all(here):
    """Each command that takes --json says with it why it did nothing, in the same document."""
    (here / "bad.toml").write_text('[workflow]\nname = "w"\n[stage.a]\nkind = "comand"\n')
    for arguments, code in ((("run", "no.toml"), 4), (("run", "bad.toml"), 3), (("validate", "bad.toml"), 3), (("plan", "bad.toml"), 3),
                        (("submit", "w.toml"), 3), (("status", "nowhere"), 4), (("resume", "nowhere"), 4), (("cancel", "nowhere"), 4),
                        (("tick", "nowhere"), 4), (("logs", "nowhere"), 4), (("logs", "--follow"), 3), (("tell", "nowhere", "stacks"), 4),
                        (("notify", "nowhere"), 4), (("fork", "nowhere", "--from", "a"), 4), (("support-bundle", "nowhere"), 4),
                        (("explain", "xyzzy"), 4), (("docs", "xyzzy"), 4), (("init", "nowhere"), 4), (("report", "nowhere"), 4),
                        (("checkpoints", "nowhere"), 4), (("faults", "nowhere"), 4), (("sites", "nowhere"), 4), (("size", "gpus=x"), 3),
                        (("simulate", "no.toml"), 4), (("tune", "no.toml", "--stage", "p"), 4), (("tune", "w.toml"), 3), (("run",), 2), (("nonsense",), 2), (("logs", "--no-such-option"), 2)):
        said = call(*arguments, "--json", cwd=here, code=code)
        compare("errors", said, "longhaul errors")
        expect(f"{arguments} says what is wrong", said["exit_code"] == code and said["errors"][0]["what"], said)
    place = call("run", "bad.toml", "--json", cwd=here, code=3)["errors"][0]
    expect("place and remedy", (place["line"], place["column"], place["hint"]) == (4, 8, "did you mean 'command'?"), place)


KEYS = documented()
with tempfile.TemporaryDirectory() as folder:
    here = pathlib.Path(folder)
    (here / "w.toml").write_text('[workflow]\nname = "w"\n[stage.a]\nkind = "command"\nscript = "true"\n'
                                 '[stage.b]\nkind = "command"\nneeds = ["a"]\nscript = "exit 3"\nretries = 0\n')
    ran = call("run", "w.toml", "--json", cwd=here, code=5)
    compare("status", ran, "longhaul status")
    expect("the run fails as it has to", ran["state"] == "failed" and ran["stages"][1]["cause"], ran)
    runs = call("runs", "--json", cwd=here)
    compare("runs", runs, "longhaul runs")
    expect("one run, with what it came to", [(r["state"], r["stage"]["id"], r["stage"]["state"]) for r in runs["runs"]] ==
           [("failed", "b", "failed")], runs)
    stages = call("runs", "--stage", "*", "--json", cwd=here)
    compare("runs", stages, "longhaul runs")
    expect("two stages", [s["stage"]["id"] for s in stages["stages"]] == ["a", "b"], stages)

    plan = call("plan", "w.toml", "--json", cwd=here)
    compare("plan", plan, "longhaul plan")
    why = {one["stage"]: one for one in plan["reasons"]}
    name = runs["runs"][0]["name"]
    expect("what is done is cached, and from which run", why["a"]["cached"] and why["a"]["run"] == name, why)
    expect("what failed runs again, and says so", not why["b"]["cached"] and "was not done in " + name in why["b"]["why"], why)
    changed = call("plan", "w.toml", "--set", 'stage.a.script="true # again"', "--json", cwd=here)
    change = changed["reasons"][0]["changes"]
    expect("a change is named", [(c["what"], c["name"], c["from"], c["to"]) for c in change] ==
           [("setting", "script", '"true"', '"true # again"')], changed["reasons"])
    subprocess.run([longhaul, "run", "w.toml", "--set", 'stage.a.script="true # again"'], cwd=here, capture_output=True, timeout=120 * PATIENCE)
    logs = "".join(path.read_text() for path in (here / "runs").glob("w-*/log/*.jsonl"))
    expect("the same reason stands in the run's log", changed["reasons"][0]["why"] in logs.replace('\\"', '"'), logs)
    shipped = sorted((source / "workflows").glob("*.toml")) + sorted((source / "workflows/examples").glob("*.toml"))
    planned = unsited = 0
    for workflow in shipped:
        for site in ([], ["--site", "leonardo-booster", "--no-queue", "--set", 'site.account="a"']):
            done = subprocess.run([longhaul, "plan", str(workflow), "--json", *site], cwd=here, capture_output=True, text=True, timeout=120 * PATIENCE)
            document = json.loads(done.stdout) if done.stdout else {}
            if document.get("file") == "longhaul plan":
                planned += 1
                compare("plan", document, "longhaul plan")
                expect("without a site there is neither driver nor deadline", "no_site" not in document or
                       not site and "driver" not in document and "deadlines" not in document, document)
                unsited += "no_site" in document
    expect("some of them are for several nodes", unsited > 0)
    expect("some shipped workflows could be planned", planned > 3, planned)
    (here / "rows.jsonl").write_text('{"input": "2+2?", "output": "4"}\n{"text": "as it stands"}\n{"input": "a", "output": "b", "id": 7}\n')
    model = source / "tests/parity/golden/model-untied"
    data = call("data", "check", "rows.jsonl", "--model", str(model), "--sequence-length", "4", "--json", cwd=here, code=3)
    compare("data check", data, "longhaul data check")
    expect("two rows are taken, the third is named", (data["accepted"], [p["line"] for p in data["problems"]]) == (2, [3]), data)
    expect("what is learnt is marked", [p["text"] for p in data["shown"][0]["parts"] if p["trained"]] == ["4<|end|>"], data)
    data = call("data", "check", "rows.jsonl", "--ignore", "id", "--json", cwd=here)
    expect("a key that is ignored; no lengths without a model", data["accepted"] == 3 and data["lengths"] is None, data)
    one = call("status", name, "--json", cwd=here, code=5)
    compare("status", one, "longhaul status")
    first = one["stages"][0]
    expect("what has not happened is null", first["cause"] is None and one["ended_ms"] > 0, one)
    report = call("report", name, "--json", cwd=here)
    compare("report", report, "longhaul report")
    for arguments in (("resume", name), ("tick", name)):
        compare("status", call(*arguments, "--json", cwd=here, code=5), "longhaul status")
    compare("status", call("cancel", name, "--json", cwd=here), "longhaul status")
    commands(here, name)
    machines(here, name, source / "workflows/simulations/published-bloom-176b.toml")
    failures_of_all(here)
    compare("checkpoints", call("checkpoints", name, "--json", cwd=here), "longhaul checkpoints")
    several = call("status", name, "runs/" + name, "--json", cwd=here, code=5)
    compare("runs", several, "longhaul runs")
sys.exit(1 if failures else 0)
