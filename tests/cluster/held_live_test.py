#!/usr/bin/env python3
"""What Slurm refuses, and how long a job is held after its last rank, on a real Slurm with accounting: QOS that refuse for good
and for a while, and a slurmctld that is busy, stands still or is restarted while a stage ends. Needs a cluster of two hosts that
was started with `--accounting`.

usage: held_live_test.py LONGHAUL [--ends N] [words of case names]
--ends: how many stage ends are played on such a slurmctld (3; 50 by hand).
"""
import argparse
import json
import shutil
import statistics
import sys
import threading
import time

from slurm_cluster import attach, wait_for
from slurm_runs import Runs, expect, play_cases, stage

HELD_BAR_S = 15
GPU_MINUTES_BAR = 60
TWO_HOSTS = "nodes = 2\nranks = 2\nthreads = 1\njob = { gpus_per_node = 4 }\n"  # eight GPUs: dear enough to be followed


def manage(cluster, *words):
    cluster.call("sacctmgr", "-i", *words)
    time.sleep(1.5)  # slurmdbd tells slurmctld


def strict(cluster, **limits):
    """The QOS that refuses, with these limits and no others."""
    none = {"MaxTRESPerJob": "node=-1", "MaxSubmitJobsPerUser": "-1"}
    manage(cluster, "modify", "qos", "strict", "set", *(f"{k}={v}" for k, v in {**none, **limits}.items()))


def site(cluster):
    """The test cluster's site, with the QOS that refuses."""
    path = cluster.scratch / "strict.toml"
    path.write_text('inherits = "test-cluster"\naccount = "project"\n[classes.prod]\nqos = "strict"\n')
    return path


def held(run, name, attempt=1):
    """The event of a stage's job that says how long it was held; it is the job's last."""
    path = run.folder / f"stages/{name}/attempts/{attempt}/events.jsonl"

    def told():
        lines = path.read_text().splitlines() if path.exists() else []
        return next((json.loads(line) for line in reversed(lines) if '"allocation_held"' in line), None)
    return wait_for(f"allocation_held of {name}", told, 60, run.story)


def what_is_refused_for_good_fails(cluster, runs):
    strict(cluster, MaxTRESPerJob="node=1")
    begin = time.monotonic()
    run = runs.start("never", stage("a", "true", TWO_HOSTS), site=site(cluster))
    run.wait("failed", 20)
    cause = run.facts("failed", "a")[-1]["with"]["cause"]
    expect("with Slurm's own words", "QOSMaxNodePerJobLimit" in cause, cause)
    expect("at once", time.monotonic() - begin < 30, run.story())
    expect("nothing is in the queue", not cluster.call("squeue", "-h").stdout.strip())


def what_is_refused_for_a_while_waits(cluster, runs):
    """One job of the QOS at a time; the follower is of another class. The second is refused until the first has ended."""
    strict(cluster, MaxSubmitJobsPerUser="1")
    run = runs.start("limit", stage("a", "sleep 8", TWO_HOSTS) + stage("b", "true", 'needs = ["a"]\n' + TWO_HOSTS),
                     site=site(cluster))
    run.wait("succeeded", 90)
    told = run.facts("held_up", "b")
    expect("why it waited is written down, once", [f["with"]["by"] for f in told] == ["limit"], run.story())
    expect("with Slurm's words", "QOSMaxSubmitJobPerUserLimit" in told[0]["with"]["cause"], told)
    expect("one job for each stage", [len(run.submissions(s)) for s in "ab"] == [1, 1], run.story())
    event = held(run, "a")
    expect("the first job was not held for it", event["held_s"] < HELD_BAR_S, event)
    wait_for("an empty queue", lambda: not cluster.call("squeue", "-h").stdout.strip(), 30,
             lambda: cluster.call("squeue").stdout)


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
    """Each stage's ranks end while slurmctld is away, in another way each time."""
    strict(cluster)
    ways = [busy, frozen, restarting]
    names = [f"s{i}" for i in range(ends + 1)]
    text = ""
    for i, name in enumerate(names):
        wait = f"until test -e {runs.folder}/end-{name}; do sleep 0.1; done"
        text += stage(name, wait, TWO_HOSTS + (f'needs = ["{names[i - 1]}"]\n' if i else ""))
    run = runs.start("ends", text, site=site(cluster))
    found = []
    for i, name in enumerate(names):
        run.wait_stage_job(name, 90)
        wait_for(f"a follower behind {name}", lambda name=name: (run.folder / "driver/follower.json").exists() and run.job(name) in
                 json.loads((run.folder / "driver/follower.json").read_text())["behind"], 40, run.story)
        if i == ends:
            (runs.folder / f"end-{name}").touch()
            break
        away = threading.Thread(target=ways[i % len(ways)], args=(cluster, 20))
        away.start()
        time.sleep(1)
        (runs.folder / f"end-{name}").touch()
        found.append(held(run, name))
        away.join()
        print(f"  {name}, slurmctld {ways[i % len(ways)].__name__}: held {found[-1]['held_s']:.1f} s, "
              f"{found[-1]['gpu_minutes']:.2f} GPU-minutes, left: {found[-1]['left']}", flush=True)
    run.wait("succeeded", 120)
    expect("one job for each stage", all(len(run.submissions(n)) == 1 for n in names), run.story())
    seconds = sorted(f["held_s"] for f in found)
    print(f"  {len(found)} ends: p50 {statistics.median(seconds):.1f} s, longest {seconds[-1]:.1f} s, "
          f"at most {max(f['gpu_minutes'] for f in found):.2f} GPU-minutes", flush=True)
    expect(f"never longer than {HELD_BAR_S} s", seconds[-1] <= HELD_BAR_S, found)
    expect(f"never dearer than {GPU_MINUTES_BAR} GPU-minutes", all(f["gpu_minutes"] <= GPU_MINUTES_BAR for f in found), found)


CASES = {"refused for good": what_is_refused_for_good_fails, "refused for a while": what_is_refused_for_a_while_waits}


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
    for words in (("add", "qos", "strict"), ("modify", "qos", "strict", "set", "Flags=DenyOnLimit"),
                  ("modify", "user", "root", "set", "qos+=strict")):
        cluster.call("sacctmgr", "-i", *words, check=False)
    cases = {**CASES, "stage ends": lambda cluster, runs: stage_ends_are_short(cluster, runs, arguments.ends)}
    chosen = {name: case for name, case in cases.items() if not arguments.cases or any(w in name for w in arguments.cases)}
    return play_cases(runs, chosen)


if __name__ == "__main__":
    sys.exit(main())
