"""What tests of the example workflows/examples/pytorch share, whatever script trains in it."""
import json
import os
import re
import signal
import subprocess

from scenario import LONGHAUL, SOURCE, expect, json_lines, longhaul, newest_run, runs

EXAMPLE = SOURCE / "workflows/examples/pytorch"


def start_example(here, python, script, more="", ranks=2, **settings):
    """The workflow as it is shipped, but for the script (a path) that it runs, its number of ranks and its parameters."""
    text = (EXAMPLE / "workflow.toml").read_text()
    (here / "workflow.toml").write_text(text.replace("ranks = 2", f"ranks = {ranks}") + more)
    (here / "longhaul_beat.py").write_text((EXAMPLE / "longhaul_beat.py").read_text())
    (here / script.name).write_text(script.read_text())
    settings = {"python": str(python), "script": script.name, **settings}
    arguments = [argument for name, value in settings.items() for argument in ("--set", f"params.{name}={json.dumps(value)}")]
    return subprocess.Popen([str(LONGHAUL), "run", "workflow.toml", *arguments], cwd=here, stdin=subprocess.DEVNULL,
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


def first_report(launch, rank):
    """(process, the step that it goes on after), once it has said so."""
    log = launch / f"rank-{rank}.log"
    said = re.search(r"process (\d+), goes on after step (\d+)", log.read_text() if log.exists() else "")
    return (int(said[1]), int(said[2])) if said else None


def figures(here):
    return json.loads((newest_run(here) / "stages/train/out/artifact.json").read_text())["figures"]


def hangs_suspected(launch):
    """The events of that name, of the attempt of a launch."""
    return [e for e in facts_of(launch) if e["kind"] == "hang_suspected"]


def facts_of(launch):
    """The events of the attempt of a launch, whichever it is."""
    return json_lines(launch.parent.parent / "events.jsonl")


def went_on_from_checkpoint(here, least, steps, every):
    """Both ranks, in a second launch, from a checkpoint of step `least` or later to the last step; the figures of the stage."""
    expect("a second launch", len(launches(here)) == 2, launches(here))
    for rank in (0, 1):
        expect("it began at the start", first_report(launches(here)[0], rank)[1] == 0)
        after = first_report(launches(here)[1], rank)[1]
        expect("it went on from its checkpoint", least <= after < steps and after % every == 0, after)
    made = figures(here)
    expect("to the last step", made["steps"] == steps and made["first_step"] > least, made)
    return made


def goes_on_where_it_was_killed(here, rank, least):
    """The cause names rank, signal, and section and step that the program itself has said."""
    facts = "".join(path.read_text() for path in newest_run(here).glob("log/*.jsonl"))
    facts += "".join(path.read_text() for path in newest_run(here).glob("stages/train/attempts/*/events.jsonl"))
    cause = re.search(rf"rank {rank} ended: killed by signal 9 \(Killed\), in section ([\w-]+) at step (\d+)", facts)
    expect("where it was killed is known from what it said", cause and int(cause[2]) >= least, facts)


def save_and_stop_after(here, more):
    """Orders a checkpoint, and the end `more` steps after it, which it returns."""
    reported = longhaul(here, "tell", "latest", "checkpoint", code=0, says="done at step ").out
    last = int(re.search(r"done at step (\d+)", reported)[1]) + more
    longhaul(here, "tell", "latest", "stop-after", last, code=0, says="done at step ")
    return last
