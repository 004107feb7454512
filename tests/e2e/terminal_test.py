#!/usr/bin/env python3
"""What strangers wrote reaches the terminal as visible text: a JSON field, Slurm's stderr, the log of a stage.

usage: terminal_test.py LONGHAUL
"""
import json
import os
import pathlib
import pty
import socket
import subprocess
import sys
import tempfile

longhaul = pathlib.Path(sys.argv[1])
failures = 0
ORDER = "\x1b]0;PWN\x07"
SHOWN = "\\u001b]0;PWN\\u0007"


def expect(what, condition, shown=""):
    global failures
    if not condition:
        failures += 1
        print(f"FAILED: {what}\n{shown!r}")


def call(*command, **options):
    done = subprocess.run(command, capture_output=True, timeout=60, **options)
    return (done.stdout + done.stderr).decode("utf-8", "surrogateescape")


def on_terminal(*command, cwd):
    """What a program writes when its output is a terminal."""
    ours, theirs = pty.openpty()
    program = subprocess.Popen(command, cwd=cwd, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    text = b""
    while True:
        try:
            got = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not got:
            break
        text += got
    os.close(ours)
    program.wait(timeout=60)
    return text.decode("utf-8", "surrogateescape")


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
    print(f"terminal: {failures} failures")
    return 1 if failures else 0


sys.exit(main())
