#!/usr/bin/env python3
"""Faults that take more than a signal, injected by their names into a training on the Slurm cluster: those of a GPU, said by simulated GPUs, and
those that only the site can make, made by its command.

usage: injected_live_test.py LONGHAUL [CASE ...]

The site's command is a script that asks whoever has power over the cluster, which is this test: the job itself has none.
"""
import sys
import threading
import time

from faults_live_test import Gpus, Training, pretrain, undisturbed
from restart_cases import expect_restart
from slurm_cluster import ClusterError, wait_for
from slurm_runs import TOKENS, case_arguments, chosen_cases, expect, new_runs, play_cases

ASK = """#!/bin/sh
# ask.sh WHAT HOST SECONDS: leaves a request for the operator, and waits until it is done.
folder=$(dirname "$0"); request="$folder/$$-$(cat /proc/sys/kernel/random/uuid)"
echo "$@" > "$request.writing"; mv "$request.writing" "$request.asked"
while [ ! -e "$request.done" ]; do sleep 0.1; done
cat "$request.done"; grep -q '^done' "$request.done"
"""


class Operator(threading.Thread):
    """Does to the cluster what the site's command has asked for, and undoes it when the time is over."""

    def __init__(self, cluster, folder):
        super().__init__(daemon=True)
        self.cluster, self.folder, self.done = cluster, folder, []
        folder.mkdir()
        (folder / "ask.sh").write_text(ASK)
        (folder / "ask.sh").chmod(0o755)
        self.over = threading.Event()

    def site(self, path):
        ask = self.folder / "ask.sh"
        path.write_text(f'inherits = "test-cluster"\n[faults]\ncut_network = "{ask} cut {{host}} {{seconds}}"\n'
                        f'slurmctld_down = "{ask} down - {{seconds}}"\ndeadline = "2min"\n')
        return path

    def run(self):
        while not self.over.wait(0.05):
            for asked in self.folder.glob("*.asked"):
                arguments = asked.read_text().split()
                asked.rename(asked.with_suffix(".taken"))
                try:
                    self.obey(*arguments)
                    answer = "done\n"
                except (ClusterError, TypeError, ValueError) as error:
                    answer = f"not done: {error}\n"
                asked.with_suffix(".writing").write_text(answer)
                asked.with_suffix(".writing").rename(asked.with_suffix(".done"))

    def requests(self):
        return {path.name: path.read_text() for path in self.folder.iterdir() if path.name != "ask.sh"}

    def obey(self, what, host, seconds):
        begin, undo = {"cut": (("cut-node", host), ("join-node", host)), "down": (("kill-controller",), ("start-controller",))}[what]
        self.cluster.play(*begin)
        if what == "down":
            wait_for("no controller", lambda: self.cluster.call("scontrol", "ping", check=False).returncode != 0, 2)
        self.done.append((what, host, float(seconds)))
        self.over.wait(float(seconds))
        self.cluster.play(*undo)


class InjectedTraining(Training):
    """Four ranks in blocks on two hosts, of which `rank` works on the one without the lead."""

    def __init__(self, cluster, runs, name, more="", site="test-cluster"):
        self.cluster = cluster
        self.run = runs.start(name, TOKENS + pretrain(f'resiliency = {{ spares = 1, health_interval = "1s" }}\n{more}', faults=True),
                              *runs.paced(), site=site, runs_dir=runs.together)
        self.file = self.run.folder / "stages/s/attempts/1/events.jsonl"
        self.wait(lambda: self.saved(1), "a checkpoint of the first launch", 90)
        launched = self.events("launched")[0]
        self.rank = 3 if launched["hosts"][0] == launched["host"] else 0
        self.host = next(host for host in launched["hosts"] if host != launched["host"])

    def inject(self, runs, *arguments):
        """The time at which the lead did it."""
        runs.longhaul("tell", self.run.folder, "fault", *arguments, f"rank={self.rank}", "--wait", 1)
        self.wait(lambda: self.events("injected"), "the injected fault", 20)
        injected = self.events("injected")[-1]
        expect("of the rank's host", injected["host"] == self.host, (injected, self.host))
        return injected["ms"] / 1000

    def swapped(self, begun, row, seconds=30):
        detected, again, fault, _ = self.recovery(begun, 1, seconds)
        expect_restart(row, fault, self.host)
        hosts = self.events("launched")[-1]["hosts"]
        expect("the spare works in its place", self.host not in hosts and len(hosts) == 2, hosts)
        print(f"  {self.run.folder.name[:-21]}: detected after {detected:.2f} s, trained again after {again:.2f} s", flush=True)
        return fault

    def not_injected(self):
        return [e["text"] for e in self.events("message") if "not injected" in e.get("text", "")]


def xid(cluster, runs):
    gpus = Gpus(cluster, runs, "xid")
    training = InjectedTraining(cluster, runs, "xid", gpus.job())
    fault = training.swapped(training.inject(runs, "xid", "xid=79"), "xid")
    expect("by its number", "XID 79" in fault["cause"], fault)
    reported = [e for e in training.events("health") if e.get("xid") == 79]
    device = training.events("injected")[0]["device"]
    expect("one event names host and device", [(e["host"], e["device"]) for e in reported] == [(training.host, device)], reported)
    training.end(runs)


def ecc_storm(cluster, runs):
    gpus = Gpus(cluster, runs, "ecc-storm")
    training = InjectedTraining(cluster, runs, "ecc-storm", gpus.job())
    training.swapped(training.inject(runs, "ecc_storm", "lasts=5s"), "ecc_storm")
    training.wait(lambda: any("new uncorrected memory errors" in e["what"] for e in training.events("health")), "counters that grow", 20)
    training.end(runs)


def refused_without_simulated_gpus(cluster, runs):
    training = InjectedTraining(cluster, runs, "no-gpus")
    ranks = training.ranks(1)
    runs.longhaul("tell", training.run.folder, "fault", "xid", "xid=79", "--wait", 1)
    training.wait(training.not_injected, "the refusal", 20)
    expect("it says why", "has no simulated GPUs" in training.not_injected()[0], training.not_injected())
    said = runs.longhaul("tell", training.run.folder, "fault", "cut_network", "--wait", 10, code=None)
    expect("no command, no cut", "[faults] cut_network" in said, said)
    expect("nothing was injected", not training.events("injected"), training.events("injected"))
    undisturbed(training, ranks)
    training.end(runs)


def network_cut_by_the_site(cluster, runs):
    """Cut for 20 s, which is longer than a host may be silent: the spare goes on. Then it is joined again."""
    operator = Operator(cluster, runs.folder / "operator-cut")
    operator.start()
    training = InjectedTraining(cluster, runs, "cut", site=operator.site(runs.folder / "cut-site.toml"))
    begun = training.inject(runs, "cut_network", "lasts=20s")
    training.swapped(begun, "network_cut_by_the_site", 60)
    expect("the operator did it once", operator.done == [("cut", training.host, 20.0)], operator.done)
    training.wait(lambda: list(operator.folder.glob("*.done")), "the command's end", 60)
    expect("and it counts as done", not training.not_injected(), training.not_injected())
    training.end(runs)
    operator.over.set()
    cluster.cancel_all()
    cluster.wait_nodes("idle")


def controller_down_by_the_site(cluster, runs):
    """Losing control never stops training."""
    operator = Operator(cluster, runs.folder / "operator-down")
    operator.start()
    training = InjectedTraining(cluster, runs, "down", site=operator.site(runs.folder / "down-site.toml"))
    ranks = training.ranks(1)
    cluster.wait_saved(training.run.submissions("s")[-1]["with"]["job"])
    training.inject(runs, "slurmctld_down", "lasts=8s")
    # The operator looks whether it is down: `longhaul tell` itself may wait for a controller, until it is there again.
    wait_for("the operator's answer that there is no controller", lambda: operator.done, 10,
             lambda: f"asked: {operator.requests()}\nnot injected: {training.not_injected()}")
    undisturbed(training, ranks)
    training.wait(lambda: list(operator.folder.glob("*.done")), "the command's end", 60)
    wait_for("a controller", lambda: cluster.call("scontrol", "ping", check=False).returncode == 0, 20)
    expect("it counts as done", operator.done == [("down", "-", 8.0)] and not training.not_injected(), training.not_injected())
    undisturbed(training, ranks)
    training.end(runs)
    operator.over.set()
    # A slurmctld that was killed gives the number of a job that it had not saved to the next one: a host that still has
    # steps of the old job refuses the new one and is drained.
    wait_for("hosts without steps", lambda: not cluster.steps_on_hosts(), 60, cluster.steps_on_hosts)
    cluster.play("heal")


CASES = {case.__name__: case for case in (xid, ecc_storm, refused_without_simulated_gpus, network_cut_by_the_site, controller_down_by_the_site)}


def main():
    given = case_arguments(__doc__).parse_args()
    return play_cases(new_runs("injected-live", given.longhaul, 20261122), chosen_cases(CASES, given.cases))


if __name__ == "__main__":
    sys.exit(main())
