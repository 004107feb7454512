"""What tests of the example workflows/examples/pytorch share, whatever script trains in it."""
import json
import os
import re
import signal
import subprocess

from scenario import LONGHAUL, SOURCE, expect, newest_run, runs

EXAMPLE = SOURCE / "workflows/examples/pytorch"


def start_example(here, python, script, more="", ranks=2, **settings):
    """The workflow as it is shipped, but for the script (a path) that it runs, its number of ranks and its parameters."""
    text = (EXAMPLE / "workflow.toml").read_text()
    (here / "workflow.toml").write_text(text.replace("ranks = 2", f"ranks = {ranks}") + more)
    (here / "longhaul_beat.py").write_text((EXAMPLE / "longhaul_beat.py").read_text())
    (here / script.name).write_text(script.read_text())
    settings = {"python": str(python), "script": script.name, **settings}
    words = [word for name, value in settings.items() for word in ("--set", f"params.{name}={json.dumps(value)}")]
    return subprocess.Popen([str(LONGHAUL), "run", "workflow.toml", *words], cwd=here, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def finish(process, seconds=90):
    try:
        out, _ = process.communicate(timeout=seconds)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    expect("the run ends well", process.returncode == 0, out)
    return out


def launches(here):
    if not runs(here):
        return []
    found = newest_run(here).glob("stages/train/attempts/*/launches/*")
    return sorted(found, key=lambda p: (int(p.parent.parent.name), int(p.name)))


def first_words(launch, rank):
    """(process, the step that it goes on after), once it has said so."""
    log = launch / f"rank-{rank}.log"
    said = re.search(r"process (\d+), goes on after step (\d+)", log.read_text() if log.exists() else "")
    return (int(said[1]), int(said[2])) if said else None


def figures(here):
    return json.loads((newest_run(here) / "stages/train/out/artifact.json").read_text())["figures"]


def hangs_suspected(launch):
    """The events of that name, of the attempt of a launch."""
    lines = (launch.parent.parent / "events.jsonl").read_text().splitlines()
    return [e for e in map(json.loads, lines) if e["kind"] == "hang_suspected"]
