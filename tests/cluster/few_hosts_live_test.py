#!/usr/bin/env python3
"""Jobs of two hosts, and clusters of few: what happens where no majority is left, or no room without the hosts that a run
avoids. Nobody watches, and every training has to go on by itself.

usage: few_hosts_live_test.py LONGHAUL [CASE ...]
"""
import sys
import time

from faults_live_test import Training, boot, pretrain
from restart_cases import expect_restart
from slurm_cluster import wait_for
from slurm_runs import case_arguments, chosen_cases, expect, json_lines, new_runs, play_cases


class Driven:
    """Runs that are started with one driver."""

    def __init__(self, runs, driver):
        self.runs, self.driver = runs, driver

    def start(self, name, text, **options):
        return self.runs.start(name, text, driver=self.driver, **options)


def steps_of(run, attempt, since=0.0):
    """Events of completed steps of an attempt since that time."""
    events = json_lines(run.folder / f"stages/s/attempts/{attempt}/events.jsonl")
    return [e for e in events if e["kind"] == "metric" and "loss" in e and e["ms"] > since * 1000]


def until_steps(run, attempt, since, what, seconds=90):
    wait_for(what, lambda: steps_of(run, attempt, since), seconds, run.story)
    return steps_of(run, attempt, since)[0]["ms"] / 1000


def lead_of(training):
    return training.events("launched")[-1]["host"]


def one_host_and_a_spare(cluster, runs):
    """The host of the lead and of all ranks is lost: the spare alone is no majority, and leads once Slurm says so."""
    training = Training(cluster, runs, "one-and-a-spare", "resiliency = { spares = 1 }\n", nodes=1)
    victim = lead_of(training)
    begun = time.time()
    cluster.play("kill-node", victim)
    try:
        training.wait(lambda: training.events("taken_over"), "the spare leads", 60)
        seen = training.recovery(begun, 1, 60)
        expect_restart("lead_host_killed", seen[2], victim)
        expect("on the spare", training.events("launched")[-1]["hosts"] != [victim], training.events("launched"))
        expect("the same job", len(training.run.submissions("s")) == 1, training.run.story())
        print(f"  one host and a spare: training again after {seen[1]:.1f} s", flush=True)
        training.end(runs)
    finally:
        boot(cluster, victim)


def next_job_follows(cluster, runs, name, driver, more, requeue):
    training = Training(cluster, Driven(runs, driver), name, more, nodes=2, requeue=requeue)
    victim = lead_of(training)
    begun = time.time()
    cluster.play("kill-node", victim)
    try:
        again = until_steps(training.run, 2, begun, "a step of another job", 150)
        print(f"  {name}: training again in another job after {again - begun:.1f} s", flush=True)
        retry = training.run.facts("retry", "s")[-1]["with"]
        left = [retry.get("node"), *retry.get("nodes_left", [])]
        expect("the lost host is known", victim in left, retry)
        fault = training.events("fault")[-1]
        expect("it was lost when its host was", abs(fault["ms"] / 1000 - begun - fault["detect_s"]) < 2, (begun, fault))
        expect("two jobs", len(training.run.submissions("s")) == 2, training.run.story())
        status = runs.longhaul("status", training.run.folder, code=None)
        expect("status says what it cost", "new_job" in status, status)
        runs.longhaul("cancel", training.run.folder)
        training.run.wait("cancelled", 60)
    finally:
        boot(cluster, victim)


def two_hosts_without_an_end(cluster, runs):
    """--no-kill by the user: Slurm lets the job live, and nobody leads it."""
    next_job_follows(cluster, runs, "two-no-kill", "lead", "job.no_kill = true\n", "no")


def two_hosts_ended_by_slurm(cluster, runs):
    """No second start of the same job: who is left writes the record and asks for the next one before Slurm ends it."""
    cluster.play("configure", "--set", "KillWait=30")  # Slurm's own default
    try:
        next_job_follows(cluster, runs, "two-ended", "lead", "", "no")
    finally:
        cluster.play("configure", "--set", "KillWait=3")


def two_hosts_driven_from_here(cluster, runs):
    next_job_follows(cluster, runs, "two-here", "here", "", "no")


def two_hosts_driven_by_scrontab(cluster, runs):
    next_job_follows(cluster, runs, "two-scrontab", "scrontab", "", "no")


def two_hosts_driven_by_a_job(cluster, runs):
    next_job_follows(cluster, runs, "two-job", "job", "", "no")


def two_hosts_queued_again(cluster, runs):
    """Slurm starts the same job again: one job, two lives."""
    training = Training(cluster, runs, "two-requeued", "", nodes=2, requeue="yes")
    victim = lead_of(training)
    begun = time.time()
    cluster.play("kill-node", victim)
    try:
        wait_for("the same job again", lambda: len(training.events("launched")) > 1, 120, training.run.story)
        again = until_steps(training.run, 1, training.events("launched")[-1]["ms"] / 1000, "a step of its second life", 120)
        print(f"  two hosts, queued again: training again after {again - begun:.1f} s", flush=True)
        expect("one job", len(training.run.submissions("s")) == 1, training.run.story())
        training.end(runs)
    finally:
        boot(cluster, victim)


def cancelled_with_a_lost_host(cluster, runs):
    """A host is lost, and the run is cancelled within moments: it ends as cancelled, and nothing follows."""
    for moments in (0.2, 1.5):
        training = Training(cluster, runs, f"cancelled-{int(10 * moments)}", "", nodes=2, requeue="yes")
        lead = lead_of(training)
        victim = next(host for host in sorted(set(training.ranks(1).values())) if host != lead)
        cluster.play("kill-node", victim)
        try:
            time.sleep(moments)
            runs.longhaul("cancel", training.run.folder, code=None, seconds=90)
            training.run.wait("cancelled", 90)
            expect("no other job, and none was decided on", len(training.run.submissions("s")) == 1 and not training.run.facts("retry", "s"),
                   training.run.story())
            expect("nor reported", not [e for e in training.events("fault") if e["tier"] == "new_job"], training.events("fault"))
            wait_for("an empty queue", lambda: not cluster.call("squeue", "-h", "-j", training.run.job("s"), check=False).stdout.strip(), 90)
        finally:
            boot(cluster, victim)


def no_room_without_suspects(cluster, runs):
    """Three of four hosts are needed. One is lost, comes back under suspicion, and another one is lost: the first is used all
    the same, for otherwise the third job would wait for ever."""
    text = pretrain("infrastructure_retries = 9\n", nodes=3, requeue="no")
    text = text.replace("dp_shard = 4", "dp_shard = 3").replace("global_batch_size = 8", "global_batch_size = 12")
    training = Training(cluster, runs, "no-room", nodes=3, text=text)
    run, killed = training.run, []
    try:
        for attempt in (1, 2):
            events = json_lines(run.folder / f"stages/s/attempts/{attempt}/events.jsonl")
            launched = [e for e in events if e["kind"] == "launched"][-1]
            victim = next(host for host in sorted(launched["hosts"]) if host != launched["host"])
            begun = time.time()
            cluster.play("kill-node", victim)
            killed.append(victim)
            until_steps(run, attempt + 1, begun, f"a step of job {attempt + 1} after {victim} was lost", 150)
            if attempt == 1:
                cluster.play("start-node", victim)
                cluster.wait_nodes("idle", [victim], 90)
        submit = [f["with"] for f in run.facts("submit", "s")]
        expect("the first was left out", submit[1]["exclude"] == [killed[0]] and "used_all_the_same" not in submit[1], submit)
        expect("and is used all the same", killed[0] in submit[2]["used_all_the_same"] and killed[0] not in submit[2].get("exclude", []), submit)
        for said in (runs.longhaul("status", run.folder, code=None), runs.longhaul("faults", run.folder)):
            expect("it is reported", "under suspicion" in said or "all the same" in said, said)
        runs.longhaul("cancel", run.folder)
        run.wait("cancelled", 60)
    finally:
        for host in killed[-1:]:
            boot(cluster, host)


def what_slurm_says(cluster, runs):
    """What this Slurm makes of a job that leaves no room, when it is submitted and while it waits: exclusions.h rests on it."""
    refused = cluster.call("sbatch", "-N3", "--exclude=n1,n2", "--output=/dev/null", "--wrap=true", check=False)
    print(f"  3 of 4 hosts, 2 excluded: exit code {refused.returncode}, '{refused.stderr.strip()}'", flush=True)
    expect("refused", refused.returncode != 0 and "node configuration is not available" in refused.stderr, refused.stderr)
    cluster.play("drain-node", "n3")
    try:
        job = cluster.submit("true", "-N3", "--exclude=n1")
        time.sleep(3)
        waiting = cluster.job(job)
        print(f"  3 of 4 hosts, 1 excluded and 1 drained: {waiting['state']}, {waiting['reason']}", flush=True)
        expect("it waits", waiting["state"] == "PENDING", waiting)
        cluster.call("scontrol", "update", f"JobId={job}", "ExcNodeList=")
        expect("and starts once it excludes nobody", cluster.wait_job(job, "COMPLETED", 30))
    finally:
        cluster.play("resume-node", "n3")


CASES = {case.__name__: case for case in (
    what_slurm_says, no_room_without_suspects, one_host_and_a_spare, two_hosts_without_an_end, two_hosts_ended_by_slurm,
    two_hosts_queued_again, two_hosts_driven_from_here, two_hosts_driven_by_scrontab, two_hosts_driven_by_a_job, cancelled_with_a_lost_host)}


def main():
    given = case_arguments(__doc__).parse_args()
    return play_cases(new_runs("few-hosts", given.longhaul), chosen_cases(CASES, given.cases))


if __name__ == "__main__":
    sys.exit(main())
