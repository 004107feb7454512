#!/usr/bin/env python3
"""Ranks that mpirun starts on two hosts of the Slurm cluster, a third one as a spare: the same tiers as below srun.

usage: mpirun_live_test.py LONGHAUL [CASE ...]
"""
import os
import signal
import sys
import time

from faults_live_test import Training, boot, pretrain
from restart_cases import expect_restart
from slurm_runs import Skipped, TOKENS, case_arguments, chosen_cases, expect, new_runs, play_cases

SITE = 'inherits = "test-cluster"\n[launcher]\nkind = "mpirun"\n'


class MpirunTraining(Training):
    def __init__(self, cluster, runs, name, more):
        site = runs.folder / "mpirun-cluster.toml"
        site.write_text(SITE)
        self.cluster = cluster
        self.run = runs.start(name, TOKENS + pretrain(more, faults=True), *runs.paced(), site=site, runs_dir=runs.together)
        self.file = self.run.folder / "stages/s/attempts/1/events.jsonl"
        self.wait(lambda: self.saved(1), "a checkpoint of the first launch", 60)

    def next_launch(self):
        launch = self.launches()
        self.wait(lambda: self.saved(launch), f"a checkpoint of launch {launch}")


def under_mpirun(cluster, runs):
    # Slurm's own default: on busy cores ranks need longer than this cluster's 3 s to end a step, and to save it.
    cluster.play("configure", "--set", "KillWait=30")
    try:
        tiers_under_mpirun(cluster, runs)
    finally:
        cluster.play("configure", "--set", "KillWait=3")


def tiers_under_mpirun(cluster, runs):
    training = MpirunTraining(cluster, runs, "by-mpirun", "resiliency = { spares = 1, restarts = 9 }\n")
    ranks = training.ranks(1)
    first = training.events("launched")[0]
    expect("four ranks, in blocks on two hosts", len(ranks) == 4 and sorted(ranks.values()) == sorted(first["hosts"] * 2), (ranks, first))

    begun = time.time()
    victim = next(pid for pid, host in ranks.items() if host != first["host"])
    os.kill(victim, signal.SIGKILL)
    detected, again, fault, _ = training.recovery(begun, 1)
    expect("a rank killed on the other host: its host is named",
           fault["host"] == ranks[victim], fault)
    expect_restart("rank_killed", fault)
    print(f"  rank killed: detected after {detected:.2f} s, trained again after {again:.2f} s", flush=True)
    training.next_launch()

    # mpirun reports signal 9 of ranks that are ended after it, which is no verdict.
    stopped_in, ranks = training.launches(), training.ranks(training.launches())
    victim = next(pid for pid, host in ranks.items() if host != first["host"])
    os.kill(victim, signal.SIGTERM)
    training.recovery(time.time(), 2)
    fault = next(e for e in training.events("fault") if e["launch"] == stopped_in)
    expect_restart("rank_stopped_from_outside", fault, ranks[victim])
    training.next_launch()

    runs.longhaul("tell", training.run.folder, "fault", "ASYNC_EXC", "rank=3", "--wait", 1)
    training.wait(lambda: training.events("faulted"), "the fault")
    detected, again, fault, _ = training.recovery(training.events("faulted")[-1]["ms"] / 1000, 3)
    expect_restart("transient_error", fault)
    expect("of that rank", fault["rank"] == 3, fault)
    print(f"  transient error: detected after {detected:.2f} s, trained again after {again:.2f} s", flush=True)

    launch = training.launches()
    lost = next(host for host in training.events("launched")[-1]["hosts"] if host != first["host"])
    begun = time.time()
    cluster.play("kill-node", lost)
    try:
        detected, again, fault, _ = training.recovery(begun, 4)
        hosts = training.events("launched")[-1]["hosts"]
        expect_restart("host_killed", fault, lost)
        expect("a host killed: the spare in its place", lost not in hosts, (fault, hosts))
        print(f"  host killed: detected after {detected:.2f} s, trained again after {again:.2f} s", flush=True)
        training.wait(lambda: training.launches() > launch and training.saved(training.launches()), "a checkpoint on the spare")
        training.end(runs)
        facts = training.events()
        saved = [e["step"] for e in facts if e["kind"] == "checkpoint"][-1]
        done = [e["step"] for e in facts if e["kind"] == "metric" and "loss" in e][-1]
        expect("cancelled, its ranks saved their last step", saved == done, (saved, done, training.log()))
        wrong = [pid for pid in training.ranks(training.launches())]
        expect("no rank is left", not wrong, wrong)
    finally:
        boot(cluster, lost)


def lead_host_killed(cluster, runs):
    """mpirun is gone with it, and so are the ranks that it had started elsewhere: another lead starts them anew."""
    if cluster.first_node_makes_steps():
        raise Skipped("a job ends with its first node here, which makes its steps (stepmgr): lead_host_killed of faults_live_test.py")
    training = MpirunTraining(cluster, runs, "lead-by-mpirun", "resiliency = { spares = 1, restarts = 9 }\n")
    lead = training.events("launched")[0]["host"]
    begun = time.time()
    cluster.play("kill-node", lead)
    try:
        detected, again, fault, _ = training.recovery(begun, 1)
        taken = training.events("taken_over")
        expect("another one leads", taken and taken[-1]["host"] != lead, taken)
        hosts = training.events("launched")[-1]["hosts"]
        expect("the spare in its place", lead not in hosts and len(hosts) == 2, (fault, hosts))
        print(f"  host of the lead killed: detected after {detected:.2f} s, trained again after {again:.2f} s, reported as {fault['class']} of {fault['host']}", flush=True)
        training.end(runs)
    finally:
        boot(cluster, lead)


CASES = {case.__name__: case for case in (under_mpirun, lead_host_killed)}


def main():
    given = case_arguments(__doc__).parse_args()
    return play_cases(new_runs("mpirun-live", given.longhaul, seed=20260304), chosen_cases(CASES, given.cases))


if __name__ == "__main__":
    sys.exit(main())
