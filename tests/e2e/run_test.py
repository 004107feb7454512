#!/usr/bin/env python3
"""Runs of `command` stages with the real programs: the shipped examples, several programs in a job, a failure, signals, resume, cancel, the report.

usage: run_test.py LONGHAUL SOURCE_DIR
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

longhaul, source = sys.argv[1], pathlib.Path(sys.argv[2])
deadline_s = 90
failures = 0


def expect(what, condition, shown=""):
    global failures
    if not condition:
        failures += 1
        print(f"FAILED: {what}\n{shown}")


def call(*arguments, code=0, cwd=None):
    done = subprocess.run([longhaul, *arguments], cwd=cwd, capture_output=True, text=True, timeout=deadline_s)
    shown = f"exit code {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    expect(" ".join(map(str, arguments)), done.returncode == code, shown)
    return done.stdout + done.stderr


def status(here):
    done = subprocess.run([longhaul, "status", "--json"], cwd=here, capture_output=True, text=True, timeout=deadline_s)
    return json.loads(done.stdout)


def newest_run(here):
    return max((here / "runs").glob("*-*"), key=lambda path: path.stat().st_mtime_ns)


def start_and_wait_for_stage(here, workflow, stage):
    """Starts a run and returns once the stage has begun."""
    (here / "begun").unlink(missing_ok=True)
    process = subprocess.Popen([longhaul, "run", workflow], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end = time.monotonic() + deadline_s
    while not (here / "begun").exists() and time.monotonic() < end:
        time.sleep(0.05)
    expect(f"{stage} begins", (here / "begun").exists())
    return process


def examples(here):
    out = call("run", source / "workflows/examples/01-command.toml", cwd=here)
    expect("a table at the end", "count  command  succeeded" in out, out)
    expect("a file within an artifact is passed on", (newest_run(here) / "stages/count/out/words.txt").read_text() == "4\n")
    out = call("run", source / "workflows/examples/01-command.toml", cwd=here)
    expect("nothing is done twice", out.count("cached") >= 2 and "running" not in out, out)
    call("run", source / "workflows/examples/02-params.toml", "--set", "params.times=2", cwd=here)
    expect("params reach the program", (newest_run(here) / "stages/say/out/said.txt").read_text() == "hello on local\n" * 2)
    call("run", source / "workflows/examples/03-matrix.toml", cwd=here)
    expect("the best variant is passed on", (newest_run(here) / "stages/use/out/chosen.txt").read_text() == "3\n")
    report = newest_run(here) / "report"
    html = (report / "index.html").read_text()
    expect("the report has the graph", "<svg class=\"graph\"" in html)
    expect("the report fetches nothing", "http://" not in html and "https://" not in html and "<script" not in html)
    facts = json.loads((report / "report.json").read_text())
    expect("the report's facts", facts["missing"] == [] and len(facts["plan"]["stage"]) == 5, facts["missing"])


def steps(here):
    out = call("run", source / "workflows/examples/04-steps.toml", cwd=here)
    answers = [(newest_run(here) / f"stages/ask/out/answer-{rank}").read_text() for rank in range(2)]
    expect("two programs work together", answers == [f"QUESTION OF RANK {rank} OF 2\n" for rank in range(2)], answers)
    (here / "steps.toml").write_text('[workflow]\nname = "failing"\n[stage.a]\nkind = "command"\nretries = 0\n'
                                     '[stage.a.step.one]\nscript = "sleep 60"\n[stage.a.step.two]\nscript = "echo broken; exit 3"\n')
    out = call("run", "steps.toml", code=5, cwd=here)
    expect("the step that failed is named", "step two: broken (rank 0, exit code 3)" in out, out)
    expect("logs of steps", "steps/two/rank-0.log <==\nbroken" in (logs := call("logs", "latest", "a", cwd=here)), logs)


def beside(here):
    """What lies beside the workflow is found by its name, from wherever longhaul is called; a workdir is another folder."""
    (here / "flow/src").mkdir(parents=True)
    (here / "flow/beside.txt").write_text("beside\n")
    (here / "flow/src/own.sh").write_text("cat inner.txt > \"$LONGHAUL_OUT/got\"\n")
    (here / "flow/src/inner.txt").write_text("inner\n")
    text = ('[workflow]\nname = "beside"\n[stage.a]\nkind = "command"\nscript = "cat beside.txt > $LONGHAUL_OUT/got"\n'
            '[stage.b]\nkind = "command"\nworkdir = "src"\nargv = ["bash", "own.sh"]\n')
    (here / "flow/beside.toml").write_text(text)
    call("run", "flow/beside.toml", cwd=here)
    got = [(newest_run(here) / f"stages/{stage}/out/got").read_text() for stage in "ab"]
    expect("files beside the workflow and in its workdir", got == ["beside\n", "inner\n"], got)
    (here / "flow/beside.toml").write_text(text.replace('"bash", "own.sh"', '"./own.sh"'))
    out = call("run", "flow/beside.toml", code=3, cwd=here)
    expect("a script without execute bit is refused", 'may not be executed; chmod +x' in out and 'argv = ["bash", "./own.sh"]' in out, out)


def failure(here):
    (here / "fails.toml").write_text('[workflow]\nname = "fails"\n[stage.a]\nkind = "command"\nretries = 0\n'
                                     'script = "echo the trouble >&2; test -e go"\n'.replace("test -e go", f"test -e {here}/go"))
    out = call("run", "fails.toml", code=5, cwd=here)
    expect("the cause is reported", "the trouble" in out, out)
    call("status", code=5, cwd=here)
    expect("logs hold what was printed", "the trouble" in call("logs", "latest", "a", cwd=here))
    expect("an unknown stage is named", "has no stage 'aa'" in call("logs", "latest", "aa", code=4, cwd=here))
    (here / "go").write_text("")
    call("resume", cwd=here)
    expect("a failed run goes on", status(here)["state"] == "succeeded")


def signals(here):
    (here / "waits.toml").write_text('[workflow]\nname = "waits"\n[stage.a]\nkind = "command"\n'
                                     f'script = "touch {here}/begun; until test -e {here}/go-on; do sleep 0.1; done"\n')
    process = start_and_wait_for_stage(here, "waits.toml", "a")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=deadline_s)
    expect("SIGTERM leaves the run", process.returncode == 7 and "longhaul resume" in out, out)
    now = status(here)
    # As it was when the driver last looked: it may have ended before it saw the job begin.
    expect("the job goes on", now["state"] == "running" and now["stages"][0]["state"] in ("submitted", "running"), now)
    (here / "go-on").write_text("")
    call("resume", cwd=here)
    now = status(here)
    expect("the job was adopted, not started again", now["state"] == "succeeded" and now["stages"][0]["attempts"] == 1, now)

    (here / "sleeps.toml").write_text(f'[workflow]\nname = "sleeps"\n[stage.a]\nkind = "command"\nscript = "touch {here}/begun; sleep 300"\n')
    process = start_and_wait_for_stage(here, "sleeps.toml", "a")
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=deadline_s)
    expect("two ctrl-C cancel", process.returncode == 7 and "cancelled" in out, out)
    expect("the run is cancelled", status(here)["state"] == "cancelled")

    process = start_and_wait_for_stage(here, "sleeps.toml", "a")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=deadline_s)
    expect("cancel ends a run that nobody drives", "cancelled" in call("cancel", cwd=here))
    call("status", code=7, cwd=here)


def main():
    with tempfile.TemporaryDirectory() as name:
        here = pathlib.Path(os.path.realpath(name))
        examples(here)
        steps(here)
        beside(here)
        failure(here)
        signals(here)
    print("all as expected" if failures == 0 else f"{failures} failed")
    return 1 if failures else 0


sys.exit(main())
