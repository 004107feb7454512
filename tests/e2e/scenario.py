"""What tests of the real programs share: cases that are counted, commands with a deadline, runs and what they left.

usage of a test: NAME_test.py LONGHAUL SOURCE_DIR [parts of case names]
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from json_lines import json_lines  # noqa: E402

LONGHAUL = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
SOURCE = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
CALL_DEADLINE_S = 60
# Deadlines are those of a fast machine; a slow one has so many times as long (scripts/test measures it).
PATIENCE = float(os.environ.get("LONGHAUL_TIME_FACTOR", "1"))

_cases = []


class Skip(Exception):
    """The case cannot run here, for the reason given."""


class Failed(Exception):
    pass


def case(function):
    """A test case: called with a new folder of its own."""
    _cases.append(function)
    return function


def expect(what, condition, shown=""):
    if not condition:
        raise Failed(f"{what}\n{shown}")


class Done:
    """How a program ended."""

    def __init__(self, arguments, code, out, err, seconds):
        self.arguments, self.code, self.out, self.err, self.seconds = arguments, code, out, err, seconds
        self.text = out + err

    def __str__(self):
        return f"  {' '.join(map(str, self.arguments))}\n  exit code {self.code} after {self.seconds:.1f} s\n{self.out}{self.err}"


def program(name):
    return LONGHAUL.parent / name


def call(arguments, here, deadline_s=CALL_DEADLINE_S, **more):
    """Runs a program in a session of its own; past its deadline that session is killed and the case fails."""
    start, deadline_s = time.monotonic(), deadline_s * PATIENCE
    process = subprocess.Popen([str(a) for a in arguments], cwd=here, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True, **more)
    try:
        out, err = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise Failed(f"hangs: {' '.join(map(str, arguments))}\nnot done after {deadline_s} s\n{out}{err}")
    return Done(arguments, process.returncode, out, err, time.monotonic() - start)


def longhaul(here, *arguments, code=None, says=(), never=(), deadline_s=CALL_DEADLINE_S, **more):
    """`longhaul ARGUMENTS`, with what is expected of its exit code and text."""
    done = call([LONGHAUL, *arguments], here, deadline_s, **more)
    if code is not None:
        expect(f"exit code {code}", done.code == code, done)
    for part in [says] if isinstance(says, str) else says:
        expect(f"it says: {part}", part in done.text, done)
    for part in [never] if isinstance(never, str) else never:
        expect(f"it never says: {part}", part not in done.text, done)
    return done


def runs(here):
    folder = here / "runs"
    return sorted((p for p in folder.glob("[!.]*-*") if p.is_dir()), key=lambda p: p.stat().st_mtime_ns) if folder.exists() else []


def newest_run(here):
    found = runs(here)
    expect("there is a run", found)
    return found[-1]


def status(here):
    done = call([LONGHAUL, "status", "--json"], here)
    return json.loads(done.out)


def stage_status(here, stage):
    return next(s for s in status(here)["stages"] if s["id"] == stage)


def events(run, stage, kind=None):
    """The events of a stage's newest attempt, or those of one kind."""
    attempts = sorted((run / "stages" / stage / "attempts").iterdir(), key=lambda p: int(p.name))
    return [e for e in json_lines(attempts[-1] / "events.jsonl") if kind in (None, e["kind"])]


def snapshot(folder):
    """Every file below, with its bytes and time: to see that nothing changed."""
    return {str(p.relative_to(folder)): (p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(folder.rglob("*")) if p.is_file()}


_measured = {}  # by name: files in which earlier cases have kept how fast this machine is


def knows_this_machine(here):
    """Forecasts time the processor once for each folder of runs, which takes seconds: what an earlier case found counts."""
    for name, content in _measured.items():
        (here / "runs/.machine").mkdir(parents=True, exist_ok=True)
        (here / "runs/.machine" / name).write_bytes(content)


def wait_for(what, condition, seconds=60, shown=lambda: ""):
    seconds *= PATIENCE
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise Failed(f"not within {seconds} s: {what}\n{shown()}")


def processes_holding(text):
    """Ids of processes whose environment holds this text; zombies have none."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if text.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


def main():
    asked = sys.argv[3:]
    chosen = [c for c in _cases if not asked or any(w in c.__name__ for w in asked)]
    passed = failed = skipped = 0
    for function in chosen:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="longhaul-test-") as name:
            try:
                function(pathlib.Path(os.path.realpath(name)))
                passed, outcome = passed + 1, "ok"
            except Skip as reason:
                skipped, outcome = skipped + 1, f"SKIPPED: {reason}"
            except Failed as failure:
                failed, outcome = failed + 1, f"FAILED: {failure}"
            except Exception:  # a mistake in one case must not hide the others
                failed, outcome = failed + 1, f"FAILED: {traceback.format_exc()}"
            for kept in pathlib.Path(name).glob("runs/.machine/*.json"):
                _measured.setdefault(kept.name, kept.read_bytes())
        print(f"{function.__name__} ({time.monotonic() - start:.1f} s): {outcome}", flush=True)
    # The line of doctest, which scripts/test counts.
    print(f"test cases: {len(chosen)} | {passed} passed | {failed} failed | {skipped} skipped")
    sys.exit(1 if failed or not chosen else 77 if skipped and not passed else 0)
