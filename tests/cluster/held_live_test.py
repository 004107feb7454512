#!/usr/bin/env python3
"""What Slurm refuses, and how long a job is held after its last rank, on a real Slurm with accounting: QOS that refuse for good
and for a while, an sbatch that takes its time, and a slurmctld that is busy, stands still or is restarted while a stage ends;
an account that ends; and who has cancelled a job, which accounting alone shows. Needs a cluster of two hosts that was started with
`--accounting`.

usage: held_live_test.py LONGHAUL [--ends N] [parts of case names]
--ends: how many stage ends are played on such a slurmctld (3; 50 by label slow). By its name alone, a follower is played that queues
itself again, which it does after half a minute at the earliest.
"""
import argparse
import json
import os
import pwd
import shutil
import statistics
import sys
import threading
import time

from slurm_cluster import attach, wait_for
from slurm_runs import Runs, Skipped, expect, files_below, play_cases, stage

HELD_BAR_S = 15
GPU_MINUTES_BAR = 60
BUSY_S, AWAY_S = 6, 15  # away for longer than a job is held where somebody follows
SUBMIT_DEADLINE = 'submit_deadline = "6s"\n'  # what gave no answer is believed lost after 9 s; usually after 90 s
SLOW_SUBMISSION_S = 13  # longer than a lead waits before it gives nodes back
SMALL = 'threads = 1\njob = { gpus_per_node = 0, exclusive = "no" }\n'
TWO_HOSTS = "nodes = 2\nranks = 2\nthreads = 1\njob = { gpus_per_node = 4 }\n"  # eight GPUs: dear enough to be followed


def manage(cluster, *argv):
    cluster.call("sacctmgr", "-i", *argv)
    time.sleep(1.5)  # slurmdbd reports to slurmctld


def strict(cluster, **limits):
    """The QOS that refuses, with these limits and no others."""
    none = {"MaxTRESPerJob": "node=-1", "MaxSubmitJobsPerUser": "-1"}
    manage(cluster, "modify", "qos", "strict", "set", *(f"{k}={v}" for k, v in {**none, **limits}.items()))


def site(cluster, name="strict", text='[classes.prod]\nqos = "strict"\n'):
    """The test cluster's site; mostly with the QOS that refuses."""
    path = cluster.scratch / f"{name}.toml"
    path.write_text(f'inherits = "test-cluster"\naccount = "project"\n{SUBMIT_DEADLINE}{text}')
    return path


def held(run, name, attempt=1):
    """The event of a stage's job that says how long it was held; it is the job's last."""
    path = run.folder / f"stages/{name}/attempts/{attempt}/events.jsonl"

    def reported():
        lines = path.read_text().splitlines() if path.exists() else []
        return next((json.loads(line) for line in reversed(lines) if '"allocation_held"' in line), None)
    return wait_for(f"allocation_held of {name}", reported, 60, run.story)


def what_is_refused_for_good_fails(cluster, runs):
    """The limit comes while the run is under way: one that is there before may be known to `sbatch --test-only`, which does not take
    the job then, and no run is made."""
    strict(cluster)
    run = runs.start("never", stage("a", waits(runs, "never"), SMALL) + stage("b", "true", 'needs = ["a"]\n' + TWO_HOSTS), site=site(cluster))
    run.wait_stage_job("a")
    strict(cluster, MaxTRESPerJob="node=1")
    begin = time.monotonic()
    finish(runs, "never")
    run.wait("failed", 20)
    cause = run.facts("failed", "b")[-1]["with"]["cause"]
    expect("with Slurm's own argv", "QOSMaxNodePerJobLimit" in cause, cause)
    expect("at once", time.monotonic() - begin < 30, run.story())
    wait_for("an empty queue", lambda: not cluster.call("squeue", "-h").stdout.strip(), 30, lambda: cluster.call("squeue").stdout)


def what_is_refused_for_a_while_waits(cluster, runs):
    """One job of the QOS at a time; the follower is of another class. The second is refused until the first has ended."""
    strict(cluster, MaxSubmitJobsPerUser="1")
    run = runs.start("limit", stage("a", "sleep 8", TWO_HOSTS) + stage("b", "true", 'needs = ["a"]\n' + TWO_HOSTS),
                     site=site(cluster))
    run.wait("succeeded", 90)
    reported = run.facts("held_up", "b")
    expect("why it waited is written down, once", [f["with"]["by"] for f in reported] == ["limit"], run.story())
    expect("with Slurm's argv", "QOSMaxSubmitJobPerUserLimit" in reported[0]["with"]["cause"], reported)
    expect("one job for each stage", [len(run.submissions(s)) for s in "ab"] == [1, 1], run.story())
    event = held(run, "a")
    expect("the first job was not held for it", event["held_s"] < HELD_BAR_S, event)
    wait_for("an empty queue", lambda: not cluster.call("squeue", "-h").stdout.strip(), 30,
             lambda: cluster.call("squeue").stdout)


def what_an_account_ends_for_fails(cluster, runs):
    """An account that is removed while a run is under way: what runs goes on, what needs the account fails with Slurm's argv."""
    for argv in (("add", "account", "closing"), ("add", "user", "root", "account=closing")):
        cluster.call("sacctmgr", "-i", *argv, check=False)
    time.sleep(1.5)
    run = runs.start("closing", stage("a", waits(runs, "closing"), SMALL) +
                     stage("b", "true", 'needs = ["a"]\nthreads = 1\njob = { gpus_per_node = 0, exclusive = "no", class = "high" }\n'),
                     site=site(cluster, "closing", '[classes.high]\naccount = "closing"\n'))
    run.wait_stage_job("a")
    manage(cluster, "delete", "account", "closing")
    finish(runs, "closing")
    run.wait("failed", 40)
    expect("what ran has succeeded", run.stages()["a"] == "succeeded", run.story())
    cause = run.facts("failed", "b")[-1]["with"]["cause"]
    expect("with Slurm's own argv", "Invalid account" in cause, cause)
    expect("no job of it came", not run.submissions("b"), run.story())
    wait_for("an empty queue", lambda: not cluster.call("squeue", "-h").stdout.strip(), 30, lambda: cluster.call("squeue").stdout)


def waits(runs, name):
    """A line of shell that ends when finish(runs, name) says so."""
    return f"until test -e {runs.folder}/end-{name}; do sleep 0.1; done"


def finish(runs, name):
    (runs.folder / f"end-{name}").touch()


def nodes_are_given_back(cluster, runs):
    """Where nobody follows (no nodes are shared) and the next submission takes longer than ten seconds, the lead keeps its own node
    alone, makes the round on it, and the run goes on."""
    slow, sbatch = runs.folder / "slow-now", runs.folder / "slow-sbatch"
    sbatch.write_text(f'#!/bin/sh\ncase " $* " in *" --version "*|*" --test-only "*) ;;\n*) [ ! -e {slow} ] || sleep {SLOW_SUBMISSION_S} ;;\nesac\n'
                      f'exec {shutil.which("sbatch")} "$@"\n')
    sbatch.chmod(0o755)
    alone = site(cluster, "unshared", f'slurm_backend = "cli"\n[programs]\nsbatch = "{sbatch}"\n[can]\nshared_nodes = "no"\n')
    run = runs.start("given", stage("a", waits(runs, "given"), TWO_HOSTS) + stage("b", "true", 'needs = ["a"]\nthreads = 1\n'),
                     "--set", 'site.submit_deadline="60s"', site=alone)
    run.wait_stage_job("a", 90)
    job = run.job("a")
    expect("nobody follows", not (run.folder / "driver/follower.json").exists(), run.story())
    slow.touch()
    finish(runs, "given")

    def nodes():
        return cluster.call("squeue", "-h", "-j", job, "-o", "%T %D %N", check=False).stdout.split()
    expect("two nodes are held at first", nodes()[1] == "2", nodes())
    kept = wait_for("one node alone is held", lambda: nodes()[:2] == ["RUNNING", "1"] and nodes(), 30, nodes)
    slow.unlink()
    event = held(run, "a")
    print(f"  kept {kept[2]}: {event['gpu_minutes']:.2f} GPU-minutes in {event['held_s']:.1f} s, "
          f"the other host given back after {event['gave_back_s']:.1f} s", flush=True)
    expect("after ten seconds", 9 <= event["gave_back_s"] <= 14, event)
    expect("and the round was made", event["left"] == "done" and event["held_s"] > event["gave_back_s"], event)
    expect("the other host costs nothing more", event["gpu_minutes"] < event["held_s"] * event["gpus"] / 60 - 0.05, event)
    run.wait("succeeded", 60)
    expect("one job for each stage", [len(run.submissions(s)) for s in "ab"] == [1, 1], run.story())
    expect("no script of Slurm's is left behind", not files_below(run.folder, "slurm_job_*_resize.*"), run.folder)


def what_root_cancels_goes_on(cluster, runs):
    """A user's job that somebody else has cancelled, "CANCELLED by 0" as sacct says: that ends no run. Nobody is asked again about
    jobs of another user, so accounting is all that can know."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skipped("only root can be another user, with setpriv")
    user = pwd.getpwnam("daemon")
    cluster.call("sacctmgr", "-i", "add", "user", user.pw_name, "account=project", check=False)
    folder = cluster.scratch / "held-of-daemon"
    shutil.rmtree(folder, ignore_errors=True)
    theirs = Runs(cluster, runs.program, folder, ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups",
                                                  "env", f"HOME={folder}"])
    os.chown(folder, user.pw_uid, user.pw_gid)
    begun = folder / "begun"
    run = theirs.start("theirs", stage("a", f"[ ! -e {begun} ] || exit 0; touch {begun}; sleep 300",
                                       'threads = 1\nretries = 1\njob = { gpus_per_node = 0, exclusive = "no" }\n'),
                       driver="here", site=site(cluster, "plain", ""))
    try:
        wait_for("its program", begun.exists, 60, run.story)
        expect("it is the other user's", begun.stat().st_uid == user.pw_uid, begun.stat())
        job = run.job("a")
        cluster.call("scancel", job)
        run.wait("succeeded", 90)
        expect("two jobs", len(run.submissions("a")) == 2, run.story())
        expect("stopped from outside, and tried again", [f["with"]["fault"] for f in run.facts("retry", "a")] == ["interrupted"], run.story())
        said = cluster.call("sacct", "-n", "-X", "-P", "-j", job, "-o", "State").stdout.strip()
        expect("accounting has said by whom", said == "CANCELLED by 0", said)
    finally:
        theirs.end_all()


def a_follower_queues_itself_again(cluster, runs):
    """Its time is over while Slurm takes neither the next stage's job nor another follower: it is the same job once more."""
    def at_most(jobs):
        manage(cluster, "modify", "qos", "few", "set", f"MaxSubmitJobsPerUser={jobs}")
    for argv in (("add", "qos", "few"), ("modify", "qos", "few", "set", "Flags=DenyOnLimit"), ("modify", "user", "root", "set", "qos+=few")):
        cluster.call("sacctmgr", "-i", *argv, check=False)
    at_most(2)
    few = site(cluster, "few", '[classes.prod]\nqos = "few"\n[classes.driver]\nqos = "few"\nmax_wall = "150s"\n')
    run = runs.start("again", stage("a", waits(runs, "again"), TWO_HOSTS) + stage("b", "true", 'needs = ["a"]\n' + TWO_HOSTS), site=few)
    run.wait_stage_job("a", 90)
    file = run.folder / "driver/follower.json"
    wait_for("a follower", file.exists, 40, run.story)
    follower = json.loads(file.read_text())["job"]
    at_most(1)
    finish(runs, "again")
    log = run.folder / "controller.log"

    def shown():
        return run.story() + log.read_text()
    wait_for("the follower is queued again", lambda: (cluster.job(follower) or {}).get("restarts") == 1, 90, shown)
    expect("and says so", "event=follower_queued_again" in log.read_text(), shown())
    expect("nothing else was taken", [len(run.submissions(s)) for s in "ab"] == [1, 0], shown())
    at_most(-1)
    run.wait("succeeded", 90)
    expect("one job for each stage", [len(run.submissions(s)) for s in "ab"] == [1, 1], shown())
    followers = {r["JobId"] for r in cluster.records() if r["Name"].startswith(f"lh-follower-{run.folder.name}")}
    expect("the same follower went on", int(follower) in followers, (follower, followers))


def busy(cluster, seconds):
    """slurmctld has a tenth of its time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        cluster.play("freeze-controller")
        time.sleep(0.9)
        cluster.play("thaw-controller")
        time.sleep(0.1)


def frozen(cluster, seconds):
    cluster.play("freeze-controller")
    time.sleep(seconds)
    cluster.play("thaw-controller")


def restarting(cluster, seconds):
    cluster.play("stop-controller")
    time.sleep(seconds)
    cluster.play("start-controller")


def stage_ends_are_short(cluster, runs, ends):
    """Each stage's ranks end while slurmctld is away, in another way each time. Two ends are the short form: it does not wait for the
    stage behind the last one, which begins a minute later, when Slurm has sent its order to end the job to the hosts again."""
    strict(cluster)
    ways = [(busy, BUSY_S), (restarting, AWAY_S), (frozen, AWAY_S)]
    names = [f"s{i}" for i in range(ends + 1)]
    text = ""
    for i, name in enumerate(names):
        text += stage(name, waits(runs, name), TWO_HOSTS + (f'needs = ["{names[i - 1]}"]\n' if i else ""))
    run = runs.start("ends", text, site=site(cluster))
    found = []
    short = ends <= 2
    for i, name in enumerate(names[:ends] if short else names):
        run.wait_stage_job(name, 90)
        wait_for(f"a follower behind {name}", lambda name=name: (run.folder / "driver/follower.json").exists() and run.job(name) in
                 json.loads((run.folder / "driver/follower.json").read_text())["behind"], 40, run.story)
        if i == ends:
            finish(runs, name)
            break
        way, seconds = ways[i % len(ways)]
        away = threading.Thread(target=way, args=(cluster, seconds))
        away.start()
        time.sleep(1)
        finish(runs, name)
        found.append(held(run, name))
        away.join()
        print(f"  {name}, slurmctld {way.__name__}: held {found[-1]['held_s']:.1f} s, "
              f"{found[-1]['gpu_minutes']:.2f} GPU-minutes, left: {found[-1]['left']}", flush=True)
    if short:
        runs.longhaul("cancel", run.folder, seconds=120)
        run.wait("cancelled", 120)
    else:
        run.wait("succeeded", 120)
    expect("one job for each stage", all(len(run.submissions(n)) == 1 for n in (names[:ends] if short else names)), run.story())
    seconds = sorted(f["held_s"] for f in found)
    print(f"  {len(found)} ends: p50 {statistics.median(seconds):.1f} s, longest {seconds[-1]:.1f} s, "
          f"at most {max(f['gpu_minutes'] for f in found):.2f} GPU-minutes", flush=True)
    expect(f"never longer than {HELD_BAR_S} s", seconds[-1] <= HELD_BAR_S, found)
    expect(f"never dearer than {GPU_MINUTES_BAR} GPU-minutes", all(f["gpu_minutes"] <= GPU_MINUTES_BAR for f in found), found)


CASES = {"refused for good": what_is_refused_for_good_fails, "refused for a while": what_is_refused_for_a_while_waits,
         "given back": nodes_are_given_back, "cancelled by root": what_root_cancels_goes_on,
         "account that ends": what_an_account_ends_for_fails}
LONG = {"follower again": a_follower_queues_itself_again}


def main():
    parser = argparse.ArgumentParser(usage=__doc__[__doc__.index("usage: ") + 7:].splitlines()[0])
    parser.add_argument("longhaul")
    parser.add_argument("--ends", type=int, default=3)
    parser.add_argument("cases", nargs="*", default=[])
    arguments = parser.parse_intermixed_args()
    cluster = attach()
    folder = cluster.scratch / "held"
    shutil.rmtree(folder, ignore_errors=True)
    runs = Runs(cluster, arguments.longhaul, folder)
    cluster.play("configure", "--set", "AccountingStorageEnforce=associations,limits,qos")
    cluster.play("restart-controller")
    for argv in (("add", "qos", "strict"), ("modify", "qos", "strict", "set", "Flags=DenyOnLimit"),
                  ("modify", "user", "root", "set", "qos+=strict")):
        cluster.call("sacctmgr", "-i", *argv, check=False)
    cases = {**CASES, **LONG, "stage ends": lambda cluster, runs: stage_ends_are_short(cluster, runs, arguments.ends)}
    skipped = {} if arguments.cases else LONG
    chosen = {name: case for name, case in cases.items()
              if name not in skipped and (not arguments.cases or any(w in name for w in arguments.cases))}
    return play_cases(runs, chosen)


if __name__ == "__main__":
    sys.exit(main())
