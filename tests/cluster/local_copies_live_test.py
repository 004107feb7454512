#!/usr/bin/env python3
"""What a restart goes on from, on hosts of the Slurm cluster: copies in the hosts' own memory (checkpoint.local_dir in a memory file
system) that are newer than the last checkpoint.

usage: local_copies_live_test.py LONGHAUL

Every host of the cluster has a /dev/shm of its own, which ends with it: the copies of a host that is killed are gone, and its
shares come from their partners' copies. Seen by the events `ready` and `recovered`.
"""
import os
import signal
import sys
import time

from faults_live_test import Training, boot, pretrain
from restart_cases import expect_restart
from slurm_runs import TOKENS, case_arguments, chosen_cases, expect, new_runs, play_cases

# Steps between checkpoints, and between copies. A fault is played in the first quarter of the way to the next checkpoint, so that
# it comes before that one: pulling a host's plug took four seconds, 55 steps, on a busy machine.
EVERY, COPY_EVERY = 240, 10
MEMORY = "/dev/shm"


def text():
    whole = pretrain("resiliency = { spares = 1 }\n")
    return whole.replace("every_steps = 20", f'every_steps = {EVERY}, local_every_steps = {COPY_EVERY}, local_dir = "{MEMORY}"')


def copies_in_memory(cluster, host):
    """Folders of ranks with copies in that host's memory; pages of ranks and of agents lie there as well."""
    return cluster.play("exec", host, "--", "sh", "-c", f"ls -d {MEMORY}/longhaul-*/rank-* 2>/dev/null || true").split()


def newest(training, kind):
    return max((e["step"] for e in training.events(kind)), default=-1)


def between_checkpoints(training):
    """Waits until copies are well ahead of the checkpoints; the newest of both as reported."""
    def ahead():
        return COPY_EVERY * 4 <= newest(training, "local_copy") - newest(training, "checkpoint") <= EVERY // 4
    training.wait(ahead, "copies newer than the last checkpoint", 120)
    return newest(training, "checkpoint"), newest(training, "local_copy")


def resumed(training, launch):
    begun = [i for i, e in enumerate(training.events()) if e["kind"] == "launched" and e["launch"] == launch]
    return [e for e in training.events()[begun[-1]:] if e["kind"] == "ready"][0]


def expect_copies(training, saved, copied, own, partner):
    ready = resumed(training, training.launches())
    expect("it goes on from copies", ready.get("from") == "copies", (ready, training.log()))
    expect("newer than the last checkpoint", ready["step"] >= copied > saved, (ready, copied, saved))
    # Of a set that was made after the one that was reported, a victim's own share may not have been whole when it died; then its
    # partner's serves. Every share is there once in any case.
    shares = ready["own_copies"], ready["partner_copies"]
    newer = ready["step"] > copied and shares == (own - 1, partner + 1)
    expect("shares of owners and of partners", shares == (own, partner) or newer, (ready, copied))
    # A copy that was being written when the ranks were ended is reported, and nothing else is.
    for why in ready.get("passed_over", []):
        expect("no whole copy was refused", "no node has" in why, ready)
    return ready


def host_killed(cluster, runs):
    """A rank is killed: all shares are the owners' own. Then its host, for good: two of four are their partners'."""
    training = Training(cluster, runs, "copies", text=text())
    hosts = training.events("launched")[0]["hosts"]
    folders = {host: copies_in_memory(cluster, host) for host in cluster.nodes()}
    expect("copies on the two hosts of the ranks alone", all(bool(found) == (host in hosts) for host, found in folders.items()), folders)

    saved, copied = between_checkpoints(training)
    os.kill(sorted(training.ranks(1))[1], signal.SIGKILL)
    training.wait(lambda: training.events("recovered"), "recovery", 30)
    expect_restart("rank_killed", training.events("fault")[0])
    ready = expect_copies(training, saved, copied, own=4, partner=0)
    print(f"  rank killed: from step {ready['step']}, checkpoint {saved}, loaded in {ready['load_s']:.3f} s", flush=True)

    launch = training.launches()
    training.wait(lambda: newest(training, "checkpoint") > saved, "another checkpoint", 120)
    saved, copied = between_checkpoints(training)
    ranks = training.ranks(launch)
    lead = training.events("launched")[0]["host"]
    victim = next(host for host in sorted(set(ranks.values())) if host != lead)
    recoveries, begun = len(training.events("recovered")), time.time()
    cluster.play("kill-node", victim)
    try:
        seen = training.recovery(begun, recoveries + 1)
        expect_restart("host_killed", seen[2], victim)
        hosts = training.events("launched")[-1]["hosts"]
        expect("the spare works in its place", victim not in hosts and len(hosts) == 2, hosts)
        ready = expect_copies(training, saved, copied, own=2, partner=2)
        print(f"  host killed: from step {ready['step']}, checkpoint {saved}, loaded in {ready['load_s']:.3f} s, "
              f"{seen[3]['lost_steps']} steps lost, again after {seen[1]:.2f} s", flush=True)
        training.end(runs)
    finally:
        boot(cluster, victim)
    expect("its own copies were gone with the host", not copies_in_memory(cluster, victim), copies_in_memory(cluster, victim))
    for host in hosts:
        for path in copies_in_memory(cluster, host):
            cluster.play("exec", host, "--", "rm", "-r", path)


CASES = {host_killed.__name__: host_killed}


def main():
    given = case_arguments(__doc__).parse_args()
    return play_cases(new_runs("local-copies-live", given.longhaul, 20260303), chosen_cases(CASES, given.cases))


if __name__ == "__main__":
    sys.exit(main())
