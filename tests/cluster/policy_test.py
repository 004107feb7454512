#!/usr/bin/env python3
"""How a run ends when something goes wrong on a real Slurm: a table of what is done to it and what the policy makes of it.

usage: policy_test.py LONGHAUL [parts of scenario names]
LONGHAUL_SILENCE_S: how long slurmctld stays away (12; by hand 60).
"""
import concurrent.futures
import os
import pathlib
import shutil
import signal
import sys
import threading
import time
import traceback

from slurm_cluster import PATIENCE, ClusterError, attach, backends, wait_for
from slurm_runs import Runs, expect, stage

SILENCE_S = float(os.environ.get("LONGHAUL_SILENCE_S", "12"))
cluster = attach()
here = cluster.scratch / "policy"
runs = None  # Runs
_table = []


def scenario(phase, what, end, seconds):
    """A row of the table. Scenarios of phase "together" run at the same time and keep to their hosts; those of phase "alone",
    which take slurmctld away, one after the other. All have to be over within `seconds` of a machine that is fast and idle."""
    def add(function):
        _table.append((phase, what, end, seconds, function))
        return function
    return add


def small(more="", **job):
    """The keys of a stage of one CPU and no GPU; quiet scenarios keep to n1."""
    job = {"gpus_per_node": 0, "options": '["--nodelist=n1"]', **job}
    return f"threads = 1\n{more}\njob = {{ " + ", ".join(f"{k} = {v}" for k, v in job.items() if v is not None) + " }"


def once(name):
    """A line of shell that leaves a trace for each time that a stage is done."""
    return f"echo done >> {here}/{name}.done"


def done(name):
    path = here / f"{name}.done"
    return len(path.read_text().splitlines()) if path.exists() else 0


def lines(name):
    path = here / name
    return path.read_text().splitlines() if path.exists() else []


def attempts(run, stage_name):
    return [f["attempt"] for f in run.facts("submitted", stage_name)]


def only(run, kind, stage_name):
    found = run.facts(kind, stage_name)
    expect(f"one '{kind}' of {stage_name}", len(found) == 1, run.story())
    return found[0]["with"]


def fetch(run, script, name="job.sbatch"):
    return (run.folder / "stages" / script / name).read_text()


# ------------------------------------------------------------------------------------------------------------ the program
@scenario("together", "a stage fails by itself, retries = 1", "two attempts, then failed; nothing else is started", 60)
def application_budget():
    run = runs.start("budget", stage("bad", f"{once('budget')}; exit 3", "retries = 1\n" + small()) +
                     stage("next", "true", 'needs = ["bad"]\n' + small()), driver="lead")
    run.wait("failed", 50)
    expect("two attempts", attempts(run, "bad") == [1, 2] and done("budget") == 2, run.story())
    expect("its reason", "all 1 retries used" in only(run, "failed", "bad")["reason"], run.story())
    expect("the next never ran", run.stages()["next"] == "skipped" and not run.submissions("next"))


@scenario("together", 'on_failure = "stop"', "what had not started is skipped, the run failed", 60)
def on_failure_stop():
    check_on_failure("stop", {"bad": "failed", "behind": "skipped", "behind_slow": "skipped", "slow": "succeeded"}, "failed")


@scenario("together", 'on_failure = "skip-dependents"', "only what needs it is skipped, the run failed", 60)
def on_failure_skip():
    check_on_failure("skip-dependents", {"bad": "failed", "behind": "skipped", "behind_slow": "succeeded", "slow": "succeeded"},
                     "failed")


@scenario("together", 'on_failure = "continue"', "what needs it runs all the same, the run succeeded", 60)
def on_failure_continue():
    check_on_failure("continue", {"bad": "failed", "behind": "succeeded", "behind_slow": "succeeded", "slow": "succeeded"},
                     "succeeded")


def check_on_failure(policy, states, state):
    text = (stage("bad", "exit 3", f'retries = 0\non_failure = "{policy}"\n' + small()) +
            stage("behind", "true", 'needs = ["bad"]\n' + small()) + stage("slow", "sleep 6", small()) +
            stage("behind_slow", "echo behind_slow", 'needs = ["slow"]\n' + small()))
    run = runs.start(f"on-{policy}", text).wait(state, 50)
    expect("the stages", run.stages() == states, run.stages())


@scenario("together", 'needs = ["afterany:…", "afternotok:…"]', "the first runs in any case, the second after a failure only", 60)
def edges():
    text = (stage("bad", "exit 3", 'retries = 0\non_failure = "skip-dependents"\n' + small()) + stage("good", "true", small()) +
            stage("any", "echo any", 'needs = ["afterany:bad", "afterany:good"]\n' + small()) +
            stage("rescue", "echo rescue", 'needs = ["afternotok:bad"]\n' + small()) +
            stage("needless", "echo needless", 'needs = ["afternotok:good"]\n' + small()))
    run = runs.start("edges", text).wait("failed", 50)
    expect("the stages", run.stages() == {"bad": "failed", "good": "succeeded", "any": "succeeded", "rescue": "succeeded",
                                          "needless": "skipped"}, run.stages())


# ------------------------------------------------------------------------------------------------------------- a person
@scenario("together", "`scancel` by a person, of a running job", "failed at once, not tried again; `resume` does", 60)
def cancelled_there():
    run = runs.start("scancel", stage("a", f'[ -e {here}/scancel.again ] || sleep 300; {once("scancel")}', "retries = 3\n" + small()))
    run.wait_stage_job("a")
    cluster.call("scancel", run.job("a"))
    run.wait("failed", 40)
    expect("its cause", "cancelled in the scheduler" in only(run, "failed", "a")["reason"], run.story())
    expect("one job", attempts(run, "a") == [1], run.story())
    (here / "scancel.again").touch()
    runs.longhaul("resume", run.folder)
    run.wait("succeeded", 40)
    expect("done once", done("scancel") == 1)


@scenario("together", "`scancel` of a waiting job", "failed, not tried again", 60)
def cancelled_while_it_waits():
    run = runs.start("scancel-waiting", stage("a", "true", "retries = 3\n" + small(options='["--nodelist=n1", "--begin=now+1hour"]')), driver="here")
    wait_for("its job", lambda: run.submissions("a"), 20, run.story)
    cluster.call("scancel", run.job("a"))
    run.wait("failed", 40)
    expect("one job", attempts(run, "a") == [1] and run.facts("failed", "a")[0]["with"]["fault"] == "cancelled_there", run.story())


@scenario("together", "a job held by a person (`scontrol hold`)", "stays held until the person lets it go", 60)
def held_by_a_person():
    run = runs.start("held", stage("a", once("held"), small(options='["--nodelist=n1", "--begin=now+1hour"]')), driver="here")
    wait_for("its job", lambda: run.submissions("a"), 20, run.story)
    cluster.call("scontrol", "hold", run.job("a"))
    cluster.call("scontrol", "update", f"JobId={run.job('a')}", "StartTime=now")  # nothing but the hold keeps it now
    time.sleep(8)
    expect("still held", cluster.job(run.job("a"))["state"] == "PENDING" and not run.facts("release_job"), run.story())
    cluster.call("scontrol", "release", run.job("a"))
    run.wait("succeeded", 40)


@scenario("together", "a job requeued and held by Slurm", "released by us, runs again", 90)
def requeued_held():
    run = runs.start("requeued-held", stage("a", f'[ "${{SLURM_RESTART_COUNT:-0}}" != 0 ] || sleep 300; {once("requeued-held")}',
                                            small(requeue='"yes"')), driver="here")
    run.wait_stage_job("a")
    cluster.call("scontrol", "requeuehold", run.job("a"))
    run.wait("succeeded", 80)
    expect("released", run.facts("released", "a") and attempts(run, "a") == [1] and done("requeued-held") == 1, run.story())


# ------------------------------------------------------------------------------------------------------------- the clock
@scenario("together", "a job over its time limit that cannot go on", "failed, with the time limit as the cause; no retry", 150)
def over_its_time():
    run = runs.start("over-time", stage("a", "sleep 400", "retries = 3\n" + small(**{"class": '"short"'})))
    run.wait("failed", 140)
    failed = only(run, "failed", "a")
    expect("the cause", "wall time" in failed["cause"] and "wall time" in failed["reason"], failed)
    expect("one job", attempts(run, "a") == [1], run.story())


@scenario("together", "a resumable stage longer than a job of its class may be", "a chain that goes on from saved state; one runs, one waits", 230)
def chain():
    script = f"""n=$(cat "$LONGHAUL_STATE/n" 2>/dev/null || echo 0); echo "$n" >> {here}/chain.from
while [ "$n" -lt 70 ]; do sleep 1; n=$((n + 1)); echo "$n" >> {here}/chain.steps; echo "$n" > "$LONGHAUL_STATE/new"
mv "$LONGHAUL_STATE/new" "$LONGHAUL_STATE/n"; done; echo "$n" > "$LONGHAUL_OUT/n" """
    run = runs.start("chain", stage("a", script, 'time_limit = "5min"\n' + small(**{"class": '"short"', "resumable": '"yes"'})))
    most = {"RUNNING": 0, "PENDING": 0}
    waited = []  # a predecessor ran while its successor was queued

    def watch():
        shown = cluster.call("squeue", "-h", "-o", "%T %j", check=False).stdout.splitlines()
        states = [line.split()[0] for line in shown if f"lh-{run.folder.name}-a" in line]
        for state in most:
            most[state] = max(most[state], states.count(state))
        if "RUNNING" in states and "PENDING" in states:
            waited.append(True)
        return run.state() != "running"
    wait_for("the end of the chain", watch, 220, run.story)
    expect("it succeeded", run.state() == "succeeded", run.story())
    begins, steps = [int(x) for x in lines("chain.from")], [int(x) for x in lines("chain.steps")]
    expect("two or more jobs", len(begins) >= 2 and begins[0] == 0, begins)
    expect("each goes on where the one before stopped", all(b > a for a, b in zip(begins, begins[1:])), begins)
    expect("hardly a step twice", len(steps) - len(set(steps)) <= len(begins) and max(steps) == 70, steps)
    expect("at most one runs and one waits", most["RUNNING"] <= 1 and most["PENDING"] <= 1, most)
    expect("the successor was queued before", waited and run.facts("go_on", "a"), run.story())


# --------------------------------------------------------------------------------------------------------------- others
def low_job(name, requeue):
    return runs.start(name, stage("a", f'echo life >> {here}/{name}.lives; [ "$(wc -l < {here}/{name}.lives)" -gt 1 ] || sleep 300; {once(name)}',
                                  "retries = 0\n" + small(options='["--nodelist=n4"]', requeue=f'"{requeue}"', **{"class": '"low"'})),
                      driver="here" if requeue == "yes" else "lead")


@scenario("together", "a preempted job, requeue = no", "another job, which no budget of the user pays for", 120)
def preempted():
    run = low_job("preempted", "no")
    other = low_job("preempted-requeue", "yes")
    for one in (run, other):
        one.wait_stage_job("a")
    high = cluster.submit("sleep 1", "-p", "high", "-w", "n4", "--exclusive")
    cluster.wait_job(high, "COMPLETED", 40)
    run.wait("succeeded", 60)
    retry = only(run, "retry", "a")
    expect("preempted", retry["fault"] == "preempted" and attempts(run, "a") == [1, 2] and done("preempted") == 1, run.story())
    other.wait("succeeded", 60)
    expect("requeue = yes: the same job again", attempts(other, "a") == [1] and done("preempted-requeue") == 1 and
           len(lines("preempted-requeue.lives")) == 2, other.story())


# ----------------------------------------------------------------------------------------------------------------- hosts
def lose_host(name, play, host, feature, driver, beside=lambda: None):
    """A stage on `host`, which is lost; only there and on n4 it may run. What `beside` starts comes to `host` first."""
    cluster.call("scontrol", "update", f"NodeName={host}", f"AvailableFeatures=a100,{feature}", f"ActiveFeatures=a100,{feature}")
    beside()
    script = f'hostname >> {here}/{name}.hosts; [ "$(hostname)" = n4 ] || sleep 300; {once(name)}'
    run = runs.start(name, stage("a", script, "retries = 0\n" + small(options=None, exclude='"n1"', constraint=f'"{feature}"')),
                     driver=driver)
    run.wait_stage_job("a")
    wait_for("its program", lambda: lines(f"{name}.hosts"), 20, run.story)
    expect("it runs there", lines(f"{name}.hosts") == [host], lines(f"{name}.hosts"))
    with features:
        known = cluster.call("sinfo", "-h", "-n", "n4", "-p", "main", "-o", "%f").stdout.strip() + f",{feature}"
        cluster.call("scontrol", "update", "NodeName=n4", f"AvailableFeatures={known}", f"ActiveFeatures={known}")
    cluster.play(play, host)
    run.wait("succeeded", 90)
    retry = only(run, "retry", "a")
    expect("a fault of the machine", retry["fault"] == "node_fail" and retry["node"] == host, retry)
    expect("not the user's budget, elsewhere", attempts(run, "a") == [1, 2] and lines(f"{name}.hosts") == [host, "n4"] and
           done(name) == 1, run.story())
    script = fetch(run, "a/attempts/2")
    expect("the lost host is excluded, beside the one that the user excludes", f"#SBATCH --exclude=n1,{host} " in script, script)


features = threading.Lock()


@scenario("together", "a killed host", "another job elsewhere, the host excluded; the budget for infrastructure pays. Driven by leads: the same job "
          "elsewhere", 150)
def killed_host():
    alone = stage("a", f'hostname >> {here}/lead-lost.hosts; [ "$(hostname)" = n4 ] || sleep 300; {once("lead-lost")}',
                  "retries = 0\n" + small(options=None, constraint='"killed"'))
    after = stage("b", once("lead-lost"), small(options=None) + '\nneeds = ["a"]')
    driven = []

    def beside():
        driven.append(runs.start("lead-lost", alone + after, driver="lead"))
        wait_for("the lead's program", lambda: lines("lead-lost.hosts"), 30, driven[0].story)
    lose_host("killed", "kill-node", "n2", "killed", "here", beside)
    # Nobody has looked at the other run: its only job was on the host, and its lead the only driver.
    wait_for("the leads drive the run to its end", lambda: done("lead-lost") == 2, 60, driven[0].story)
    driven[0].wait("succeeded", 30)
    expect("the same job once more, elsewhere", attempts(driven[0], "a") == [1] and lines("lead-lost.hosts") == ["n2", "n4"],
           driven[0].story())


@scenario("together", "a host cut off the network", "the same", 120)
def cut_host():
    lose_host("cut", "cut-node", "n3", "cut", "scrontab")


@scenario("together", "a drained host", "its job goes on to its end", 60)
def drained_host():
    run = runs.start("drained", stage("a", f"sleep 8; {once('drained')}", "retries = 0\n" + small(options='["--nodelist=n4"]')))
    run.wait_stage_job("a")
    cluster.play("drain-node", "n4")
    try:
        run.wait("succeeded", 40)
        expect("one job", attempts(run, "a") == [1] and done("drained") == 1, run.story())
    finally:
        cluster.play("resume-node", "n4")


# ----------------------------------------------------------------------------------------------------------------- disks
KEPT_PROGRAMS = ("longhaul", "longhaul-engine", "longhaul-rank", "longhaul-slurm", "longhaul-worker")  # of which a run has copies


@scenario("together", "a full folder of runs", "the cause is named; `resume` goes on when there is room", 120)
def full_folder():
    """A small file system that n1 alone has; the foreground drives the run from there."""
    small_disk = here / "disk"
    small_disk.mkdir()
    first = int((cluster.state / "run" / "n1.started").read_text())
    seen = pathlib.Path(f"/proc/{first}/root{small_disk}")
    # Room for the programs, which a run keeps, and for little more.
    programs = sum((runs.program.parent / name).stat().st_size for name in KEPT_PROGRAMS)
    cluster.play("exec", "n1", "--", "mount", "-t", "tmpfs", "-o", f"size={programs + 60_000_000}", "tmpfs", small_disk)
    fill = stage("a", 'head -c 90000000 /dev/zero > "$LONGHAUL_OUT/zeros"', "retries = 0\n" + small())
    (here / "full.toml").write_text('[workflow]\nname = "full"\n' + fill.replace("90000000", f"$(cat {here}/bytes)"))
    (here / "bytes").write_text("90000000")
    on_n1 = lambda *arguments: cluster.call(cluster_program(), "exec", "--state", cluster.state, "n1", "--", runs.program, *arguments,  # noqa: E731
                                        check=False, cwd=here, seconds=60)
    answer = on_n1("submit", "full.toml", "--site", "test-cluster", "--driver", "here", "--runs-dir", small_disk)
    expect("it ends, and says why", answer.returncode != 0 and "No space left on device" in answer.stdout + answer.stderr,
           f"exit code {answer.returncode}\n{answer.stdout}{answer.stderr}")
    folder = next(seen.glob("full-*"))
    (here / "bytes").write_text("1000")
    for zeros in folder.glob("stages/a/attempts/*/staging/*/zeros"):
        zeros.unlink()
    answer = on_n1("resume", small_disk / folder.name)
    expect("resume completes it", answer.returncode == 0, answer.stdout + answer.stderr)
    expect("the artifact", (folder / "stages/a/out/zeros").stat().st_size == 1000)
    cluster.play("exec", "n1", "--", "umount", "-l", small_disk)


def cluster_program():
    from slurm_cluster import PROGRAM
    return PROGRAM


# -------------------------------------------------------------------------------------------------------------- slurmctld
def work(name, first="sleep 4"):
    """Two stages one after the other, the second of which is submitted while slurmctld is away."""
    return (stage("a", f"{first}; {once(name + '-a')}", small(options=None)) +
            stage("b", once(name + "-b"), 'needs = ["a"]\n' + small(options=None)))


def check_work(run, name):
    expect("each was done once, by one job", attempts(run, "a") == [1] and attempts(run, "b") == [1] and
           done(name + "-a") == 1 and done(name + "-b") == 1, run.story())


@scenario("alone", "slurmctld is restarted while jobs run", "nothing is lost, nothing done twice", 60)
def restart():
    started = [runs.start(f"restart-{d}", work(f"restart-{d}"), driver=d) for d in ("here", "lead")]
    for run in started:
        run.wait_stage_job("a")
    cluster.play("restart-controller")
    for run, driver in zip(started, ("here", "lead")):
        check_work(run.wait("succeeded", 50), f"restart-{driver}")


@scenario("alone", f"slurmctld is stopped for {SILENCE_S:.0f} s", "drivers wait for it; nothing is lost, nothing done twice",
          SILENCE_S + 90)
def stopped():
    gone = here / "slurmctld.gone"
    until_then = f"for _ in $(seq 1000); do [ ! -e {gone} ] || break; sleep 0.2; done"
    started = [runs.start(f"stopped-{d}", work(f"stopped-{d}", until_then), driver=d) for d in ("here", "lead")]
    for run in started:
        run.wait_stage_job("a")
    cluster.play("stop-controller")
    try:
        gone.touch()
        time.sleep(SILENCE_S)
        for run in started:
            expect("still under way", run.state() == "running" and "failed" not in run.stages().values(), run.story())
    finally:
        cluster.play("start-controller")
    for run, driver in zip(started, ("here", "lead")):
        check_work(run.wait("succeeded", 80), f"stopped-{driver}")


@scenario("alone", "the answer to a submission is lost (slurmctld frozen)", "found when it is back: exactly one job", 90)
def frozen():
    cluster.play("freeze-controller")
    started = {}
    try:
        for backend in backends():
            name = f"frozen-{backend}"
            started[name] = runs.start(name, work(name, "true"), "--set", f'site.slurm_backend="{backend}"', driver="lead")
        for run in started.values():
            wait_for("an intent without outcome", lambda run=run: run.facts("submit"), 40, run.story)
        time.sleep(11)  # MessageTimeout: those who ask have given up
    finally:
        cluster.play("thaw-controller")
    for name, run in started.items():
        check_work(run.wait("succeeded", 60), name)
        # The run ends by its artifacts; slurmctld writes its record a moment later, and then forgets the job when it likes.
        wait_for("slurmctld's record of the last job", lambda run=run: int(run.job("b")) in records_of(run), 30, run.story)
        jobs = records_of(run)
        expect("one job for each stage, by slurmctld's own record", len(jobs) == 2, jobs)


def records_of(run):
    return {r["JobId"] for r in cluster.records() if r["Name"].startswith(f"lh-{run.folder.name}"[:40])}


@scenario("alone", "kill -9 of slurmctld right after a submission", "a forgotten job is submitted again, its id not mistaken", 120)
def forgotten():
    time.sleep(6)  # what came before is saved
    name = "forgotten"
    (here / "forgotten.go").unlink(missing_ok=True)
    text = stage("a", once(name + "-a"), small(options='["--begin=now+5"]')) + stage("b", once(name + "-b"), 'needs = ["a"]\n' +
                                                                                   small(options=None))
    run = runs.start(name, text, driver="here")
    wait_for("its job", lambda: run.submissions("a"), 20, run.story)
    os.killpg(run.process.pid, signal.SIGSTOP)  # or it may be the run itself that gets the id again
    try:
        cluster.play("kill-controller")
        job = run.job("a")
        cluster.play("start-controller")
        known = cluster.job(job) is not None
        others = []
        while not known and len(others) < 8 and (not others or int(others[-1]) < int(job)):  # questions to Slurm took ids
            others.append(cluster.submit("sleep 20", "-w", "n3"))
        expect("the id is given out again", not others or int(others[-1]) == int(job), (others, job))
    finally:
        os.killpg(run.process.pid, signal.SIGCONT)
    run.wait("succeeded", 100)
    expect("nothing was done twice", done(name + "-a") == 1 and done(name + "-b") == 1, run.story())
    for other in others:
        left = cluster.job_or_record(other)
        expect("another's job is left alone", left is not None and left["state"] in ("PENDING", "RUNNING", "COMPLETED"), left)
        cluster.call("scancel", other)


# ------------------------------------------------------------------------------------------------------------------- main
def play(row):
    phase, what, end, seconds, function = row
    begin = time.monotonic()
    try:
        function()
        problem = None
    except Exception as error:  # a scenario that ends in any way but well is reported, and the others go on
        problem = str(error) if isinstance(error, ClusterError) else traceback.format_exc()
    took = time.monotonic() - begin
    if problem is None and took > seconds * PATIENCE:
        problem = f"it took longer than {seconds * PATIENCE:.0f} s"
    print(f"{took:6.1f} s  {function.__name__}: {what} -> {end}: {'ok' if problem is None else 'FAILED: ' + problem}", flush=True)
    return problem is None


def main():
    global runs
    shutil.rmtree(here, ignore_errors=True)
    runs = Runs(cluster, sys.argv[1], here)
    cluster.play("heal")
    chosen = [row for row in _table if not sys.argv[2:] or any(argument == row[4].__name__ for argument in sys.argv[2:])]
    together = [row for row in chosen if row[0] == "together"]
    try:
        with concurrent.futures.ThreadPoolExecutor(max(1, len(together))) as pool:
            results = list(pool.map(play, together))
        cluster.play("heal", seconds=120)
        results += [play(row) for row in chosen if row[0] == "alone"]
    finally:
        runs.end_all()
        cluster.play("heal", seconds=120)
        for n in (2, 3, 4):
            rack = f"a100,rack{(n + 1) // 2}"
            cluster.call("scontrol", "update", f"NodeName=n{n}", f"AvailableFeatures={rack}", f"ActiveFeatures={rack}")
        cluster.call("scrontab", "-r", check=False)
        cluster.cancel_all()
    failed = results.count(False)
    if not failed:
        shutil.rmtree(here, ignore_errors=True)
    print(f"test cases: {len(results)} | {len(results) - failed} passed | {failed} failed | 0 skipped")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
