"""What tests of whole runs on the Slurm cluster share: workflows, drivers, what the log says, how often something was done.

A run is watched through its log, and moved on by who is asked to: `longhaul status` only looks.
"""
import argparse
import collections
import fnmatch
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import traceback

from slurm_cluster import ClusterError, attach, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from json_lines import json_lines  # noqa: E402, F401 (for those that use these runs)
from tiny_inputs import write_pages  # noqa: E402

FINAL = {"succeeded", "cached", "failed", "cancelled", "skipped"}
# The state of a stage after a fact of its log.
STATE_AFTER = {"ready": "ready", "cached": "cached", "submit": "submitted", "started": "running", "requeued": "submitted",
               "succeeded": "succeeded", "retry": "ready", "go_on": "submitted", "failed": "failed", "cancelled": "cancelled",
               "skipped": "skipped", "reset": "waiting"}


# The beginning of a tiny pipeline, and the model that it trains.
SMALL = "threads = 1\njob.gpus_per_node = 0"
MODEL = "model = { hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2, num_key_value_heads = 1, max_position_embeddings = 32 }"
TOKENS = f"""
[stage.corpus]
kind = "curate"
inputs = {{ documents = "pages" }}
heldout_bytes = 2000
{SMALL}
[stage.tokens]
kind = "tokenize"
inputs = {{ corpus = "@corpus" }}
vocabulary = 300
{SMALL}
"""


def ranks_by_mpirun():
    """Whether the test cluster's site starts ranks by mpirun: where Slurm has no plugin for PMIx (with-slurm)."""
    site = pathlib.Path(__file__).resolve().parents[2] / "site-configs/test-cluster.toml"
    return 'kind = "mpirun"' in site.read_text()


class Skipped(Exception):
    """A case that cannot be played here, for the reason given."""


def expect(what, condition, shown=""):
    if not condition:
        raise ClusterError(f"{what}\n{shown}")


def stage(name, script, more=""):
    """A `command` stage. $DONE is appended to by what must be done once."""
    text = script.replace("\\", "\\\\").replace('"', '\\"')
    return f'[stage.{name}]\nkind = "command"\nscript = """{text}"""\n{more}\n'


class Runs:
    """Runs of one test, in a folder of their own below the cluster's scratch."""

    def __init__(self, cluster, program, folder, before=()):
        """`before`: arguments before the program, such as those that make it another user's."""
        self.cluster, self.program, self.folder, self.before = cluster, pathlib.Path(program).resolve(), folder, [*before]
        folder.mkdir(parents=True)
        self.started = []
        self.together = folder / "runs" / "together"  # a folder for runs whose first stages are those of others: cached

    def start(self, name, text, *options, driver="lead", runs_dir=None, site="test-cluster"):
        """`longhaul submit`, in a session of its own; the run is there when it returns."""
        (self.folder / f"{name}.toml").write_text(f'[workflow]\nname = "{name}"\n{text}')
        runs_dir = runs_dir or self.folder / "runs" / name
        log = open(self.folder / f"{name}.out", "a")
        process = subprocess.Popen([*self.before, str(self.program), "submit", f"{name}.toml", "--site", str(site), "--driver", driver,
                                    "--runs-dir", str(runs_dir), *map(str, options)], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, env=self.cluster.environment, start_new_session=True)
        made = []

        def there():
            made[:] = [p.parent for p in pathlib.Path(runs_dir).glob(f"{name}-*/resolved.toml")]
            return made or process.poll() not in (None, 0)
        wait_for(f"the run {name}", there, 30, lambda: (self.folder / f"{name}.out").read_text())
        expect(f"submit makes the run {name}", made, (self.folder / f"{name}.out").read_text())
        self.started.append(Run(self, made[-1], process))
        return self.started[-1]

    def paced(self, ms=20, plan="pace"):
        """Options of a run whose ranks train until something happens to them: they wait so long before each step, for the cores
        would be full of steps that no case looks at."""
        path = self.folder / f"{plan}-{ms}.plan"
        path.write_text(f"follow\nengine_step_begin delay_ms={ms} always\n")
        return ["--worker-fault-plan", path]

    def end_all(self):
        """No process of ours drives a run any more."""
        for run in self.started:
            if run.process.poll() is None:
                run.kill_session()

    def longhaul(self, *arguments, code=0, seconds=60):
        done = self.cluster.call(*self.before, self.program, *arguments, check=False, cwd=self.folder, seconds=seconds)
        expect(f"longhaul {' '.join(map(str, arguments))}: exit code {code}", code is None or done.returncode == code,
               f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr


class Run:
    def __init__(self, runs, folder, process):
        self.runs, self.folder, self.process = runs, folder, process

    def facts(self, kind=None, stage=None):
        """What the log says, oldest epoch first; what a later epoch did not believe of an earlier one is left out."""
        logs = sorted((self.folder / "log").glob("*.jsonl"), key=lambda p: int(p.stem))
        texts = {int(p.stem): p.read_bytes() for p in logs}
        texts = {epoch: text[:text.rfind(b"\n") + 1] for epoch, text in texts.items()}  # the rest is being written
        for epoch in sorted(texts):
            for line in texts[epoch].splitlines():
                fact = json.loads(line) if line.endswith(b"}") else {}
                for earlier, length in (fact.get("with") or {}).get("lengths", {}).items() if fact.get("fact") == "adopted" else ():
                    texts[int(earlier)] = texts[int(earlier)][:length]
        found = []
        for epoch in sorted(texts):
            for line in texts[epoch].splitlines():
                if not line.endswith(b"}"):
                    continue  # of a disk without room
                fact = json.loads(line)
                fact["with"] = fact.get("with") or {}
                if kind in (None, fact["fact"]) and stage in (None, fact.get("stage")):
                    found.append(fact)
        return found

    def state(self):
        ends = [f for f in self.facts() if f["fact"] in ("run_ended", "reset")]
        return ends[-1]["with"]["state"] if ends and ends[-1]["fact"] == "run_ended" else "running"

    def stages(self):
        """{stage: state}, of those that the log has something of."""
        states = {}
        for fact in self.facts():
            if fact.get("stage") and fact["fact"] in STATE_AFTER:
                states[fact["stage"]] = STATE_AFTER[fact["fact"]]
        return states

    def ended_jobs(self, count):
        """Slurm's records of this run's jobs, {id: how many}, once there are so many: the last one comes when its job has ended,
        which is after its lead has said that the run has."""
        def records():
            return [r for r in self.runs.cluster.records() if r["Name"].startswith(f"lh-{self.folder.name}")]
        wait_for(f"{count} records of jobs", lambda: len(records()) >= count, 30, lambda: [r["Name"] for r in records()])
        return collections.Counter(record["JobId"] for record in records())

    def submissions(self, stage=None):
        return self.facts("submitted", stage)

    def story(self):
        lines = [f"{f['fact']} {f.get('stage', '')} {f.get('attempt', '')} {json.dumps(f['with'])}" for f in self.facts()]
        out = self.runs.folder / f"{self.folder.name[:-21]}.out"
        ends = [f"{p}: {p.read_text(errors='replace')[-600:]}" for p in files_below(self.folder / "stages", "controller.log")]
        return "\n".join([str(self.folder), *lines, out.read_text()[-1500:] if out.exists() else "", *ends[-3:]])

    def wait(self, state="succeeded", seconds=60):
        """Waits for the run's end and holds it to `state`."""
        try:
            wait_for(f"the end of {self.folder.name}", lambda: self.state() != "running", seconds, self.story)
        finally:
            self.process.poll()
        expect(f"{self.folder.name} has {state}", self.state() == state, self.story())
        return self

    def wait_stage(self, stage, state, seconds=30):
        wait_for(f"{stage} {state} in {self.folder.name}", lambda: self.stages().get(stage) == state, seconds, self.story)

    def wait_stage_job(self, stage, seconds=40):
        """Waits until the program of a stage's newest job has been started; the lead says so in its events."""
        def launched():
            found = sorted((self.folder / "stages" / stage / "attempts").glob("*/events.jsonl"))
            return found and "launched" in found[-1].read_text()
        wait_for(f"the start of {stage} in {self.folder.name}", launched, seconds, self.story)

    def job(self, stage):
        """The id of the newest job of a stage."""
        return self.submissions(stage)[-1]["with"]["job"]

    def kill_session(self):
        """What a lost login does to the processes below it."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def out(self, stage, file):
        return (self.folder / "stages" / stage / "out" / file).read_text()


def files_below(folder, name="*"):
    """Every file below whose name fits, sorted, while others may write and remove there: the walk of pathlib fails where a folder goes
    that it is about to look into."""
    found = [pathlib.Path(place, file) for place, _, files in os.walk(folder) for file in fnmatch.filter(files, name)]
    return sorted(path for path in found if path.is_file())


def bytes_of(path):
    """A file's, none where it has gone meanwhile."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def snapshot(folder, without=()):
    """Every file below with its size, to see that nothing changed."""
    return {str(p.relative_to(folder)): p.stat().st_size for p in files_below(folder)
            if not any(part in without for part in p.relative_to(folder).parts)}


def case_arguments(usage):
    """The command line that tests of cases have in common."""
    parser = argparse.ArgumentParser(usage=usage[usage.index("usage: ") + 7:].splitlines()[0])
    parser.add_argument("longhaul")
    parser.add_argument("cases", nargs="*", default=[], help="names of cases, or parts of them; all where none is given")
    return parser


def new_runs(name, program, seed=20260303, **pages):
    """Runs in an empty folder of the cluster that is up, beside documents to train on."""
    cluster = attach()
    folder = cluster.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    runs = Runs(cluster, program, folder)
    write_pages(folder / "pages", seed, pages=8, **pages)
    return runs


def chosen_cases(cases, argv, by_name=None):
    """{name: function}: those of that name, or with that part in theirs; all where none is given. `by_name`: only when asked for."""
    found = {} if argv else dict(cases)
    for arg in argv:
        every = {**cases, **(by_name or {})}
        of_word = {arg: every[arg]} if arg in every else {name: case for name, case in cases.items() if arg in name}
        if not of_word:
            sys.exit(f"no case is named so: {arg}; there are: {' '.join(every)}")
        found |= of_word
    return found


def leave_cluster_clean(runs):
    """Healed, its queue empty, nothing that submits again; what is wrong with that, or ''."""
    try:
        runs.end_all()
        runs.cluster.play("heal")
        if shutil.which("scrontab"):
            runs.cluster.call("scrontab", "-r", check=False)
        runs.cluster.cancel_all(90)
    except Exception as error:  # reported once, and the next case may still find what it needs
        return f"the cluster is not left as it was found: {error}"
    return ""


def play_cases(runs, cases, more=(), judged=lambda: None, each_alone=False):
    """Plays {name: function(cluster, runs, *more)} one after the other, and says of each how it ended and after what time. After one
    that failed, or after each, the cluster is healed and its queue emptied. `judged` comes last: what was measured over all cases and
    missed its bar, or None where nothing was; it counts as a case. The test's exit code."""
    count, failed, skipped = len(cases), 0, 0
    for name, case in cases.items():
        start = time.monotonic()
        try:
            case(runs.cluster, runs, *more)
            outcome = "ok"
        except Skipped as why:
            skipped, outcome = skipped + 1, f"skipped: {why}"
        except Exception as error:  # a mistake in one case must not hide the others
            failed += 1
            outcome = f"FAILED: {error if isinstance(error, ClusterError) else traceback.format_exc()}"
        print(f"{name} ({time.monotonic() - start:.1f} s): {outcome}", flush=True)
        unclean = leave_cluster_clean(runs) if outcome.startswith("FAILED") or each_alone else ""
        if unclean:
            print(unclean, flush=True)
    unclean = leave_cluster_clean(runs)
    missed = judged()
    if missed is not None:
        count, failed = count + 1, failed + bool(missed)
        print("bars: " + ("FAILED: " + "\n  ".join(missed) if missed else "ok"))
    if unclean:
        print(unclean)
    # The line of doctest, which scripts/test counts.
    print(f"test cases: {count} | {count - failed - skipped} passed | {failed} failed | {skipped} skipped")
    return 1 if failed or unclean else 0
