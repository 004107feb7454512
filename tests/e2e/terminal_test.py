#!/usr/bin/env python3
"""What strangers wrote reaches the terminal as visible text: a JSON field, Slurm's stderr, the log of a stage.

usage: terminal_test.py LONGHAUL
"""
import json
import os
import pathlib
import pty
import re
import select
import socket
import subprocess
import sys
import tempfile
import time

longhaul = pathlib.Path(sys.argv[1])
failures = 0
FACTOR = float(os.environ.get("LONGHAUL_TIME_FACTOR", "1"))  # a slow machine has so many times as long
ORDER = "\x1b]0;PWN\x07"
SHOWN = "\\u001b]0;PWN\\u0007"


def expect(what, condition, shown=""):
    global failures
    if not condition:
        failures += 1
        print(f"FAILED: {what}\n{shown!r}")


def call(*command, **options):
    done = subprocess.run(command, capture_output=True, timeout=60 * FACTOR, **options)
    return (done.stdout + done.stderr).decode("utf-8", "surrogateescape")


def on_terminal(*command, cwd):
    """What a program writes when its output is a terminal."""
    ours, theirs = pty.openpty()
    program = subprocess.Popen(command, cwd=cwd, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    text, end = b"", time.monotonic() + 60 * FACTOR
    while True:
        readable, _, _ = select.select([ours], [], [], max(0, end - time.monotonic()))
        if not readable:
            program.kill()
            text += b"\n(it was still running after a minute)"
            break
        try:
            got = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not got:
            break
        text += got
    os.close(ours)
    program.wait(timeout=60 * FACTOR)
    return text.decode("utf-8", "surrogateescape")


def progress_is_shown(here):
    """How far long work is, while it is at work: where `run` draws it, and to whoever watches its status beside it."""
    workflow = '''[workflow]
name = "p"
[stage.count]
kind = "command"
script = """
for n in 1 2 3 4 5 6 7; do
  echo '{"t":"x","ms":1,"kind":"progress","rank":0,"done":'$n',"total":8,"unit":"pages","rate":2,"eta_s":1}' >> "$LONGHAUL_EVENTS"
  sleep 0.5
done
"""
'''
    (here / "p.toml").write_text(workflow)
    (here / "again.toml").write_text(workflow.replace("done\n\"", "done\ntrue\n\""))  # another script: not the first one's artifact
    shown = re.compile(r"(\d)/8 pages")
    text = on_terminal(str(longhaul), "run", "p.toml", cwd=here)
    expect("run draws progress on a terminal", len(set(shown.findall(text))) >= 2, text)
    expect("with a bar", re.search(r"\[#+\.+\]", text), text)
    expect("in place", re.search(r"\r\x1b\[\d+A\x1b\[J", text), text)
    last = text.rfind("\x1b[J")
    expect("and takes it away in the end", last > 0 and not shown.search(text[last:]), text)

    def counting():
        return [events for events in (here / "runs").glob("p-*/stages/count/attempts/1/events.jsonl") if events.stat().st_size > 0]

    before, end = len(counting()), time.monotonic() + 30 * FACTOR
    run = subprocess.Popen([str(longhaul), "run", "again.toml"], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        while len(counting()) == before and time.monotonic() < end:
            time.sleep(0.05)
        text = on_terminal(str(longhaul), "status", "latest", "--watch", "--every", "300ms", cwd=here)
        expect("status --watch shows progress while it grows", len(set(shown.findall(text))) >= 2, text)
        expect("and ends with the run", "succeeded" in text.rsplit("\x1b[2J", 1)[-1], text)
    finally:
        plain = run.communicate(timeout=60 * FACTOR)[0].decode()
    expect("into a file it is plain lines", "count" in plain and "\x1b" not in plain and "[#" not in plain, plain)


def main():
    with tempfile.TemporaryDirectory() as name:
        here = pathlib.Path(name)
        (here / "endpoint.json").write_text(json.dumps({"host_name": ORDER}))
        text = call(longhaul.parent / "longhaul-engine", "stop-server", "--endpoint", here / "endpoint.json")
        expect("trust: a stranger's JSON field", SHOWN in text and "\x1b" not in text, text)

        sleeper = subprocess.Popen(["sleep", "60"])
        ticks = pathlib.Path(f"/proc/{sleeper.pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
        named = {"host_name": socket.gethostname(), "supervisor_pid": sleeper.pid, "supervisor_start_ticks": int(ticks)}
        (here / "endpoint.json").write_text(json.dumps(named))
        (here / "endpoint.json").chmod(0o666)
        text = call(longhaul.parent / "longhaul-engine", "stop-server", "--endpoint", here / "endpoint.json")
        expect("trust: a file that everybody may write ends no process", sleeper.poll() is None and "mode 0666" in text, text)
        if os.geteuid() == 0:
            (here / "endpoint.json").chmod(0o644)
            os.chown(here / "endpoint.json", 40001, 40001)
            text = call(longhaul.parent / "longhaul-engine", "stop-server", "--endpoint", here / "endpoint.json")
            expect("trust: somebody else's file ends no process", sleeper.poll() is None and "uid 40001" in text, text)
        else:
            print("skipped: trust: somebody else's file ends no process (needs root)")
        sleeper.kill()
        sleeper.wait()

        programs = here / "bin"
        programs.mkdir()
        for program in ("sbatch", "squeue", "scontrol", "sinfo", "scancel", "sacct"):
            (programs / program).write_text(f"#!/bin/sh\nprintf '\\033]0;PWN\\007 no controller\\n' >&2\nexit 1\n")
            (programs / program).chmod(0o755)
        text = call(longhaul, "sites", "probe", cwd=here, env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
        expect("trust: Slurm's stderr", SHOWN in text and "\x1b" not in text, text)

        (here / "open").mkdir(mode=0o777)
        (here / "open").chmod(0o777)
        text = call(longhaul, "doctor", cwd=here, env={**os.environ, "PATH": f".:{here}/open:{os.environ['PATH']}"})
        expect("trust: doctor names folders of PATH that others may write",
               "OTHERS DECIDE WHAT IS STARTED: '.' is the current folder" in text and f"{here}/open may be written by everybody" in text,
               text)
        expect("trust: doctor shows whose programs are started by name", "bash (owner root, mode" in text, text)

        (here / "w.toml").write_text('[workflow]\nname = "w"\n[stage.a]\nkind = "command"\n'
                                     "script = '''\nprintf '\\033]0;PWN\\007 said\\n'\nexit 3\n'''\n")
        text = call(longhaul, "run", "w.toml", cwd=here)
        expect("trust: the cause of a failed stage", "said" in text and "\x1b" not in text, text)
        text = call(longhaul, "status", cwd=here)
        expect("trust: a cause in status", "\x1b" not in text, text)
        logs = [str(longhaul), "logs", "latest", "a"]
        text = on_terminal(*logs, cwd=here)
        expect("trust: logs on a terminal are made visible", SHOWN + " said" in text and "\x1b" not in text, text)
        text = on_terminal(*logs, "--raw", cwd=here)
        expect("trust: logs --raw are the bytes", ORDER + " said" in text, text)
        text = call(*logs, cwd=here)
        expect("trust: logs into a pipe are the bytes", ORDER + " said" in text, text)
        progress_is_shown(here)
    print(f"terminal: {failures} failures")
    return 1 if failures else 0


sys.exit(main())
