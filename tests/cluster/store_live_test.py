#!/usr/bin/env python3
"""Entries that ranks leave for each other, on four hosts of the Slurm cluster, each with a memory file system of its own.

usage: store_live_test.py LONGHAUL [CASE ...]

Eight ranks (store_ranks.cc) leave an entry each, round after round, and look for those of all others: every entry that crosses hosts goes
from its agent over the lead to the agent of whoever looks for it. Agents, leads and hosts are killed meanwhile.
"""
import os
import pathlib
import signal
import statistics
import sys
import time

from faults_live_test import agent_of, boot, leads
from slurm_cluster import wait_for
from slurm_runs import Skipped, case_arguments, chosen_cases, expect, files_below, json_lines, new_runs, play_cases

RANKS, HOSTS = 8, 4


class StoreRun:
    def __init__(self, runs, name, nodes=HOSTS, ranks=RANKS, more="resiliency = { restarts = 3 }\n"):
        program = pathlib.Path(runs.program).parent / "store_ranks"
        self.runs, self.ranks = runs, ranks
        self.run = runs.start(name, f'[stage.s]\nkind = "command"\nargv = ["{program}"]\nthreads = 1\nnodes = {nodes}\nranks = {ranks}\n'
                                    f'job = {{ gpus_per_node = 0 }}\nretries = 0\n{more}')
        self.folder = self.run.folder / "stages/s"

    def log(self):
        logs = [*self.folder.glob("attempts/1/slurm-*.out"), *self.folder.glob("attempts/1/agent*.log"), *self.folder.glob("attempts/1/launches/*/rank-*.log")]
        return self.run.story() + "".join(f"\n{p.name}: {p.read_text(errors='replace')[-1500:]}" for p in logs if p.exists())

    def wait(self, condition, what, seconds=60):
        wait_for(what, condition, seconds, self.log)

    def times(self, launch=1):
        """{rank: [(round, longest ms, median ms)]}, whole lines only."""
        found = {}
        for path in (self.folder / "state").glob(f"times-{launch}-rank-*"):
            lines = path.read_text().split("\n")[:-1]
            found[int(path.name.rsplit("-", 1)[1])] = [tuple(map(float, line.split())) for line in lines]
        return found

    def rounds(self, launch=1):
        """Those that every rank has been through."""
        times = self.times(launch)
        return min((len(t) for t in times.values()), default=0) if len(times) == self.ranks else 0

    def more_rounds(self, count, launch=1, seconds=60):
        before = self.rounds(launch)
        self.wait(lambda: self.rounds(launch) >= before + count, f"{count} more rounds after {before} of launch {launch}", seconds)

    def events(self, kind):
        return [e for e in json_lines(self.folder / "attempts/1/events.jsonl") if e["kind"] == kind]

    def ends_well(self):
        (self.folder / "state/stop").write_text("")
        self.run.wait("succeeded", 90)


def in_memory(cluster, host):
    return cluster.play("exec", host, "--", "sh", "-c", "ls -d /dev/shm/longhaul-*/store 2>/dev/null || true").split()


def all_see_all(cluster, runs):
    """Each entry is seen on every host soon; nothing of them lies on the shared file system, and nothing stays in memory."""
    store = StoreRun(runs, "store")
    store.more_rounds(40)
    expect("the entries lie in the memory of each host", all(len(in_memory(cluster, host)) == 1 for host in cluster.nodes()), store.log())
    shared = [p for p in files_below(store.folder) if "store" in p.relative_to(store.folder).parts or p.name.startswith("round")]
    expect("none lies on the shared file system", not shared, shared)
    store.ends_well()
    times = [t for of_rank in store.times().values() for t in of_rank[5:]]
    print(f"  {len(times)} rounds of ranks: an entry took {statistics.median(t[2] for t in times):.0f} ms (median), the last of a round "
          f"{statistics.median(t[1] for t in times):.0f} ms (median), {max(t[1] for t in times):.0f} ms (the longest)", flush=True)
    expect("a round's last entry within 0.2 s, in the median", statistics.median(t[1] for t in times) < 200, times[-20:])
    wait_for("the memory of the hosts is free again", lambda: not any(in_memory(cluster, host) for host in cluster.nodes()), 20)


def agents_killed(cluster, runs):
    """Every agent once, the lead's own last; while one is gone entries wait, and none is lost."""
    store = StoreRun(runs, "agents")
    store.more_rounds(5)
    lead = store.events("launched")[0]["host"]
    for host in sorted(cluster.nodes(), key=lambda host: host == lead):
        agent = agent_of(store.run, host)
        expect(f"an agent on {host}", agent, store.log())
        os.kill(agent, signal.SIGKILL)
        begun = time.time()
        store.more_rounds(5)
        print(f"  agent of {host} killed: five more rounds after {time.time() - begun:.1f} s", flush=True)
    expect("one launch", len(store.events("launched")) == 1, store.log())
    store.ends_well()


def lead_killed(cluster, runs):
    """The standby's lead knows no entry when it takes over: the agents send it theirs."""
    store = StoreRun(runs, "lead")
    store.more_rounds(5)
    for number in (1, 2):
        before = leads(store.run)
        expect("one lead", len(before) == 1, before)
        os.kill(before[0], signal.SIGKILL)
        begun = time.time()
        store.wait(lambda: len(store.events("taken_over")) == number, "another lead", 30)
        store.more_rounds(5)
        print(f"  lead killed: five more rounds after {time.time() - begun:.1f} s", flush=True)
        store.more_rounds(40)  # until that lead has a standby of its own
    expect("one launch", len(store.events("launched")) == 1, store.log())
    store.ends_well()


def old_launch(cluster, runs):
    """A rank is killed: the next launch leaves entries under the names of the one before, and reads none of its."""
    store = StoreRun(runs, "old-launch")
    store.more_rounds(10)
    victim = [int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and runs_store_rank(p, store.run)][0]
    os.kill(victim, signal.SIGKILL)
    store.wait(lambda: len(store.events("launched")) == 2, "the next launch")
    store.more_rounds(10, launch=2)
    store.ends_well()


def runs_store_rank(process, run):
    try:
        return ((process / "cmdline").read_bytes().split(b"\0")[0].endswith(b"store_ranks")
                and run.folder.name.encode() in (process / "environ").read_bytes())
    except OSError:
        return False


def host_killed(cluster, runs):
    """The lead's own host is lost: the standby takes over, a spare works in its place, and entries go on among those that are left."""
    if cluster.first_node_makes_steps():
        raise Skipped("a job ends with its first node here, which makes its steps (stepmgr): lead_host_killed of faults_live_test.py")
    store = StoreRun(runs, "host", nodes=3, ranks=6, more="resiliency = { spares = 1, restarts = 3 }\n")
    store.more_rounds(10)
    victim = store.events("launched")[0]["host"]
    cluster.play("kill-node", victim)
    try:
        store.wait(lambda: len(store.events("launched")) == 2, "the next launch")
        store.more_rounds(10, launch=2)
        store.ends_well()
    finally:
        boot(cluster, victim)


def two_values(cluster, runs):
    """Ranks of two hosts leave different values under one name: the job ends, and its reason names both hosts."""
    store = StoreRun(runs, "two-values", ranks=HOSTS, more='environment = { TWO_VALUES = "yes" }\nresiliency = { restarts = 0 }\n')
    record = store.folder / "record.json"
    store.wait(lambda: record.exists() or list(store.folder.glob("attempts/1/record*.json")), "the end of the job")
    causes = [e["cause"] for e in store.events("fault")]
    expect("the reason names both hosts", any("have left different ones" in cause for cause in causes), (causes, store.log()))
    print(f"  {causes[-1]}", flush=True)
    runs.longhaul("cancel", store.run.folder)


def one_host_alone(cluster, runs):
    """Without agents: ranks of one host, whose entries lie in the launch's folder."""
    store = StoreRun(runs, "alone", nodes=1, ranks=2, more='')
    store.more_rounds(10)
    store.ends_well()


CASES = {case.__name__: case for case in (all_see_all, agents_killed, lead_killed, old_launch, host_killed, two_values, one_host_alone)}

if __name__ == "__main__":
    asked = case_arguments(__doc__).parse_args()
    sys.exit(play_cases(new_runs("store", asked.longhaul), chosen_cases(CASES, asked.cases)))
