#!/usr/bin/env python3
"""The real program from outside: exit codes, messages and JSON of the commands that start nothing.

usage: cli_test.py LONGHAUL SOURCE_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from scenario import PATIENCE

longhaul, source = sys.argv[1], pathlib.Path(sys.argv[2])
failures = 0


def call(*arguments, cwd):
    done = subprocess.run([longhaul, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60 * PATIENCE)
    return done.returncode, done.stdout, done.stderr


def expect(what, condition, shown=""):
    global failures
    if not condition:
        failures += 1
        print(f"FAILED: {what}\n{shown}")


def expect_call(what, arguments, code, out="", err="", cwd="."):
    rc, stdout, stderr = call(*arguments, cwd=cwd)
    shown = f"  longhaul {' '.join(arguments)}\n  exit code {rc}, expected {code}\n  stdout: {stdout}\n  stderr: {stderr}"
    expect(what, rc == code and out in stdout and err in stderr, shown)
    return stdout, stderr


def what_does_not_fit_is_refused_alike(here):
    """validate, plan, run and submit end with 3 and the same lines, all of what does not fit together, and make nothing."""
    (here / "tokens").mkdir()
    for name in ("tokenizer.json", "train.bin", "train.idx"):
        (here / "tokens" / name).write_text("{}")
    (here / "wide.toml").write_text(
        '[workflow]\nname = "wide"\n[stage.pretrain]\nkind = "pretrain"\ninputs = { tokens = "tokens" }\nrecipe = "quickstart-tiny"\n'
        'model = { vocab_size = 512 }\nranks = 8\nthreads = 64\nglobal_batch_size = 32\nmicro_batch_size = 4\nsteps = 100\n'
        '[stage.deploy]\nkind = "deploy"\ninputs = { model = "@pretrain" }\nmax_tokens = 4000\n')
    cores = ["--set", "site.cpu_slots=2"]
    said = {}
    for command in ("validate", "plan", "run", "submit"):
        site = ["--site", "local"] if command == "submit" else []
        _, err = expect_call(f"{command} of what does not fit", [command, "wide.toml", *site, *cores], 3, err="--allow cores", cwd=here)
        said[command] = [line for line in err.splitlines() if line.startswith("wide.toml:")]
    expect("the same lines", len(said["validate"]) == 2 and all(lines == said["validate"] for lines in said.values()), said)
    expect("place, figure, what would fit", said["validate"][0].startswith(
        "wide.toml:8:9: error: stage.pretrain: 8 ranks of 64 threads need 512 cores, and this machine has 2")
        and "ranks = 2 with threads = 1 fit" in said["validate"][0] and said["validate"][1].startswith("wide.toml:16:14: error: stage.deploy: max_tokens = 4000")
        and "max_tokens = 127 fits" in said["validate"][1], said)
    expect("no run was made", not (here / "runs").exists() or not list((here / "runs").glob("wide*")))
    out, err = expect_call("what was allowed warns", ["validate", "wide.toml", *cores, "--allow", "cores,context"], 0, out="valid", err="warning: ", cwd=here)
    out, _ = expect_call("in JSON", ["validate", "wide.toml", *cores, "--allow", "cores", "--json"], 3, cwd=here)
    answer = json.loads(out)
    expect("errors and warnings", [e["line"] for e in answer["errors"]] == [16] and len(answer["warnings"]) == 1 and answer["warnings"][0].startswith("wide.toml:8:9: "), out)


def main():
    with tempfile.TemporaryDirectory() as name:
        here = pathlib.Path(name)
        (here / "good.toml").write_text('[workflow]\nname = "good"\n[params]\nn = 1\n[stage.a]\nkind = "command"\nargv = ["true"]\n'
                                        '[stage.b]\nkind = "command"\ninputs = { a = "@a" }\nscript = "echo ${params.n}"\n')
        (here / "bad.toml").write_text('[workflow]\nname = "bad"\n[stage.a]\nkind = "comand"\n[stage.t]\nkind = "tokenize"\n'
                                       'inputs = { corpus = "nothing-here" }\nvocabulary = "many"\n')
        (here / "syntax.toml").write_text("[workflow\n")
        (here / "slurm.toml").write_text('name = "big"\nscheduler = "slurm"\n')

        expect_call("no command shows them by what a person wants", [], 2, out="look at runs:\n  status ", err="longhaul --help", cwd=here)
        out, _ = expect_call("help is plain text", ["status", "--help"], 0, out="metrics.prom", cwd=here)
        expect("no Markdown", "](" not in out and "`" not in out, out)
        expect_call("submit without a site trains nowhere", ["submit", "good.toml"], 3, err="nobody said to which site", cwd=here)
        expect_call("a misspelt command is named", ["pln", "good.toml"], 2, err="did you mean 'plan'?", cwd=here)
        expect_call("an unknown option is a usage error", ["plan", "good.toml", "--nope"], 2, err="see: longhaul plan --help", cwd=here)
        expect_call("a missing argument is a usage error", ["plan"], 2, err="WORKFLOW", cwd=here)
        expect_call("--help lists the commands", ["--help"], 0, out="validate", cwd=here)
        expect_call("--version", ["--version"], 0, out="longhaul 0.", cwd=here)
        for command in ("run", "validate", "plan", "status", "logs", "cancel", "resume", "tick", "report", "docs", "doctor",
                        "sites", "simulate", "faults", "runs"):
            out, _ = expect_call(f"help of {command}", [command, "--help"], 0, out=f"Usage: longhaul {command}", cwd=here)
            expect(f"help of {command} has examples and exit codes", "Examples:" in out and "Exit codes:" in out, out)
            expect("hidden options stay hidden", "fault-plan" not in out, out)

        expect_call("a good workflow", ["validate", "good.toml"], 0, out="good.toml: valid, 2 stages", cwd=here)
        expect_call("plan shows the graph", ["plan", "good.toml"], 0, out="workflow good: 2 stages", cwd=here)
        expect_call("plan with settings", ["plan", "good.toml", "--settings", "--set", "params.n=77"], 0, out='LONGHAUL_PARAMS_n = "77"', cwd=here)
        expect_call("--set that names nothing", ["validate", "good.toml", "--set", "params.m=1"], 3, err="has no params.m", cwd=here)
        (here / "wide.toml").write_text('[workflow]\nname = "wide"\n[stage.a]\nkind = "command"\nargv = ["true"]\nnodes = 2\nranks = 2\n')
        out, _ = expect_call("several nodes without a site", ["plan", "wide.toml"], 0, out="none was given: --site NAME", cwd=here)
        expect("nothing of this machine", "driver:" not in out and "deadlines of" not in out, out)
        expect_call("one node runs here", ["plan", "good.toml"], 0, out="driver: here", cwd=here)
        expect_call("no such workflow", ["validate", "none.toml"], 4, err="none.toml does not exist", cwd=here)
        expect_call("no such site", ["validate", "good.toml", "--site", "mars"], 4, err="there is no site 'mars'", cwd=here)
        expect_call("a Slurm site is understood", ["validate", "good.toml", "--site", "./slurm.toml"], 0, cwd=here)
        out, _ = expect_call("its jobs", ["plan", "good.toml", "--site", "./slurm.toml", "--scripts"], 0, out="jobs at big", cwd=here)
        expect("directives with their origin, and the script", "--nodes=1" in out and "default: stage.a.nodes" in out
               and "==> a/job.sbatch <==\n#!/bin/bash\n" in out, out)
        out, _ = expect_call("its jobs as JSON", ["plan", "good.toml", "--site", "./slurm.toml", "--json"], 0, cwd=here)
        expect("one for each stage", [job["stage"] for job in json.loads(out)["jobs"]] == ["a", "b"], out)
        expect_call("a local site has no scripts", ["plan", "good.toml", "--scripts"], 0, out="without scripts", cwd=here)
        out, _ = expect_call("the sites", ["sites"], 0, out="marenostrum5-acc", cwd=here)
        expect("one line each", len(out.splitlines()) >= 20 and "CANNOT" not in out, out)
        out, _ = expect_call("a site", ["sites", "vista", "--set", "site.node.gpus=2"], 0, out="UNVERIFIED", cwd=here)
        expect("values with their origin", "TACC/TACC-Docs" in out and "--set" in out and "slurm-generic" in out, out)
        out, _ = expect_call("a site as JSON", ["sites", "vista", "--json"], 0, cwd=here)
        expect("values in JSON", any(v["key"] == "classes.prod.max_wall" and v["site"] == "vista" for v in json.loads(out)["values"]), out)
        expect_call("no such site to show", ["sites", "visa"], 4, err="did you mean 'vista'?", cwd=here)
        expect_call("a site that is not right", ["sites", "local", "--set", "site.cpu_slts=3"], 3, err="did you mean 'cpu_slots'?", cwd=here)
        expect_call("a local site has no cluster", ["doctor", "--site", "local"], 0, out="no cluster to compare with", cwd=here)
        expect_call("a syntax error has its place", ["validate", "syntax.toml"], 3, err="syntax.toml:1:10: error: TOML syntax", cwd=here)
        for command in ("validate", "plan", "run"):
            _, err = expect_call(f"{command} reports all problems", [command, "bad.toml"], 3, err="3 errors; nothing was started", cwd=here)
            for part in ("bad.toml:4:8: error: unknown stage kind 'comand'; did you mean 'command'?", "bad.toml:7:21: error: ",
                         "bad.toml:8:14: error: stage.t.vocabulary is text, expected integer"):
                expect(f"{command} says: {part}", part in err, err)
        expect("a refused run leaves nothing", not (here / "runs").exists())

        out, _ = expect_call("errors as JSON", ["validate", "bad.toml", "--json"], 3, cwd=here)
        document = json.loads(out)
        expect("three errors in JSON", document["ok"] is False and sorted(e["line"] for e in document["errors"]) == [4, 7, 8], out)
        out, _ = expect_call("the plan as JSON", ["plan", "good.toml", "--json"], 0, cwd=here)
        expect("stages in JSON", list(json.loads(out)["stage"]) == ["a", "b"], out)
        expect("planning is deterministic", call("plan", "good.toml", "--json", cwd=here)[1] == out)

        for command in (["faults", "x"], ["status"], ["status", "x"], ["logs", "x", "a"], ["report", "x"], ["resume", "x"], ["cancel", "x"], ["tick", "x"]):
            expect_call(f"{command[0]} of no run", command, 4, cwd=here)

        expect_call("no runs yet", ["runs"], 0, err="there are no runs in", cwd=here)
        expect_call("no such folder of runs", ["runs", "--runs-dir", "nowhere"], 4, err="there is no folder", cwd=here)
        expect_call("no such state", ["runs", "--state", "pending"], 3, err="there are: running, succeeded", cwd=here)
        expect_call("a figure without a bound", ["runs", "--figure", "loss"], 3, err="'heldout_loss<3'", cwd=here)
        expect_call("no such time", ["runs", "--since", "yesterday"], 3, err="2026-11-01", cwd=here)
        expect_call("no such key to sort by", ["runs", "--sort", "size"], 3, err="there are: created, name", cwd=here)
        expect_call("no such user", ["runs", "--user", "nobody-of-this-name"], 4, err="there is no user", cwd=here)

        simulations = source / "workflows/simulations"
        out, _ = expect_call("a simulation", ["simulate", str(simulations / "published-bloom-176b.toml"), "--trials", "4", "--html", "page.html"], 0,
                             out="effective training time", cwd=here)
        expect("a published figure comes out, and what is assumed is said", " met" in out and "assumed, not measured" in out, out)
        expect("the page has plots", (here / "page.html").read_text().count("<svg") >= 3)
        again = ["simulate", str(simulations / "published-bloom-176b.toml"), "--trials", "4", "--json", "--seed", "5"]
        out, _ = expect_call("a simulation as JSON", again, 0, cwd=here)
        expect("bounds in JSON", json.loads(out)["effective"]["half_width_95"] > 0, out)
        expect("the same seed gives the same", call(*again, cwd=here)[1] == out)
        wrong = (simulations / "published-bloom-176b.toml").read_text().replace("percent = 0.37", "percent = 3.7")
        (here / "wrong.toml").write_text(wrong)
        expect_call("a figure that does not come out", ["simulate", "wrong.toml", "--trials", "2"], 5, out="NOT MET", cwd=here)
        (here / "odd.toml").write_text("[scenario]\nname = 1\n[cluster]\ngpus = 8\n[training]\nlength = \"1d\"\nstepp = 1\n")
        expect_call("a scenario with problems", ["simulate", "odd.toml"], 3, err="odd.toml:7:1: error: unknown key 'stepp'", cwd=here)
        expect_call("no such scenario", ["simulate", "none.toml"], 4, err="none.toml does not exist", cwd=here)

        expect_call("the fault classes", ["faults"], 0, out="gpu_lost", cwd=here)
        out, _ = expect_call("the fault classes as JSON", ["faults", "--json"], 0, cwd=here)
        classes = {row["class"]: row for row in json.loads(out)["classes"]}
        expect("each with what it leads to", classes["gpu_lost"]["tier"] == "swap" and classes["no_retry"]["severity"] == "fatal"
               and all(row["remedy"] for row in classes.values()), out)

        expect_call("docs", ["docs", "--output", "reference"], 0, out="exit-codes.md", cwd=here)
        for page in (here / "reference").iterdir():
            expect(f"docs/reference/{page.name} is not stale", page.read_text() == (source / "docs/reference" / page.name).read_text())
        (here / "file").write_text("")
        expect_call("a folder that cannot be made", ["docs", "--output", "file/below"], 6, cwd=here)
        out, _ = expect_call("doctor", ["doctor", "--json"], 0, cwd=here)
        expect("doctor in JSON", "cores" in json.loads(out), out)
        expect("doctor asks the engine", "operations: cpu" in json.loads(out)["engine_build"], out)
        expect("doctor says what bf16 costs here", "products in bf16: " in json.loads(out)["engine_build"], out)
        for example in sorted((source / "workflows/examples").glob("*.toml")):
            there = ["--site", "alps-clariden", "--set", 'site.account="a-x01"', "--allow", "device"] if "64-nodes" in example.name else []
            expect_call(f"example {example.name}", ["validate", str(example), *there], 0, cwd=here)
        what_does_not_fit_is_refused_alike(here)
        large = [str(source / "workflows/examples/8b-64-nodes.toml"), "--site", "alps-clariden", "--set", 'site.account="a-x01"',
                 "--allow", "device"]  # of a build without CUDA, too
        for command in (["validate"], ["plan"]):
            expect_call(f"{command[0]} of one for a cluster that nobody named", [*command, large[0]], 0,
                        err="note: no site was given, and stage.pretrain asks for 64 nodes", cwd=here)
        expect_call("a large training fits where it is meant to run", ["plan", *large, "--no-queue"], 0, out="of 86.7 GiB", cwd=here)
        large += ["--set", "stage.pretrain.parallel={dp_replicate=256}"]
        unfit = "stage.pretrain does not fit: a rank needs"
        _, said = expect_call("one that does not ends plan with 3", ["plan", *large, "--no-queue"], 3, out="predicted", err=unfit, cwd=here)
        expect("the layout that fits, and what goes on all the same", "parallel = { dp_shard" in said and "--allow memory" in said, said)
        expect_call("validate says the same", ["validate", *large], 3, err=unfit, cwd=here)
        out, _ = expect_call("also as JSON", ["plan", *large, "--no-queue", "--json"], 3, cwd=here)
        expect("with the errors", not json.loads(out)["ok"] and unfit in json.loads(out)["errors"][0]["what"], out)
        expect_call("submit starts nothing", ["submit", *large], 3, err=unfit, cwd=here)
        made = [p.name for p in (here / "runs").glob("*") if p.name != ".machine"]  # how fast this machine is may be kept there
        expect("no run was made", not made, made)
        expect_call("who knows better", ["plan", *large, "--no-queue", "--allow", "memory"], 0, out="predicted", cwd=here)
        _, said = expect_call("as the option was called", ["plan", *large, "--no-queue", "--ignore-memory"], 0, out="predicted", cwd=here)
        expect("the new one is said once", said.count("--ignore-memory is called --allow memory now") == 1, said)
        expect_call("who runs it here means this machine", ["run", large[0]], 3, err="--set params.ranks=", cwd=here)
        expect_call("what nobody checks", ["validate", *large, "--allow", "memroy"], 2, err="memroy", cwd=here)
    print("all as expected" if failures == 0 else f"{failures} failed")
    return 1 if failures else 0


sys.exit(main())
