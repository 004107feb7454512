#!/usr/bin/env python3
"""What live runs on the Slurm cluster make of who is to blame: a mistake of the user, a host that fails again and again, a
standby that dies, a lead that is lost after it.

usage: verdicts_live_test.py LONGHAUL [CASE ...]
"""
import json
import os
import pathlib
import signal
import sys
import threading
import time

from faults_live_test import STEPS, Training, leads, pretrain, undisturbed
from restart_cases import expect_before, expect_kept, expect_restart, lasts
from slurm_cluster import PROGRAM, ClusterError, wait_for
from slurm_runs import Skipped, case_arguments, chosen_cases, expect, json_lines, new_runs, play_cases

LEMON_STEPS = 200

# Says its steps over the text socket, and fails at step 7, whenever it is started.
MISTAKE = """
import os, socket, time
beat = socket.socket(socket.AF_UNIX)
beat.connect(os.environ["LONGHAUL_BEAT_SOCKET"])
for step in range(1, 100):
    beat.sendall(f"step {step}\\n".encode())
    time.sleep(0.05)
    if step == 7:
        raise ValueError("shape mismatch in layer 3")
"""


def user_bug(cluster, runs):
    """Tried within its budget, then reported as the user's; no further job is spent on it."""
    (runs.folder / "mistake.py").write_text(MISTAKE)
    begun = time.monotonic()
    run = runs.start("user-bug", f'[stage.s]\nkind = "command"\nscript = "exec python3 {runs.folder}/mistake.py"\nthreads = 1\n'
                     'job = { gpus_per_node = 0 }\nretries = 1\nresiliency = { restarts = 2 }\n')
    run.wait("failed", 90)
    facts = [(a.name, e) for a in sorted((run.folder / "stages/s/attempts").iterdir())
             for e in Events(a / "events.jsonl").all("fault")]
    last = facts[-1][1]
    expect("the reason is reported", "shape mismatch in layer 3" in last["cause"], facts)
    expect_restart("user_bug", last)
    expect("as the user's", last["scope"] == "user", last)
    expect("and tried again before", len(facts) >= 3, facts)
    for _, fault in facts[:2]:
        expect_before("user_bug", fault)
    launches = sum(len(Events(a / "events.jsonl").all("launched")) for a in (run.folder / "stages/s/attempts").iterdir())
    expect("two restarts in the job, and one more job at most", launches <= 6 and len(run.submissions("s")) <= 2, facts)
    status = runs.longhaul("status", run.folder, code=None)
    expect("status says so", "shape mismatch in layer 3" in status, status)
    print(f"  {launches} launches in {len(run.submissions('s'))} jobs, {time.monotonic() - begun:.1f} s", flush=True)


def kill_on(training, host, ranks=None):
    """The rank of that host is killed; waits for a checkpoint of the launch that follows, and gives back the fault."""
    launch = training.launches()
    victim = next(pid for pid, of in sorted((ranks or training.ranks(launch)).items()) if of == host)
    reported = len(training.events("fault"))
    os.kill(victim, signal.SIGKILL)
    training.wait(lambda: training.launches() > launch and training.saved(training.launches()), f"a checkpoint after a fault on {host}")
    # A launcher may crash while it connects ranks anew: a further fault, of another launch.
    return next(e for e in training.events("fault")[reported:] if e["launch"] == launch)


def lemon_host(cluster, runs):
    """The second fault on a host, with new checkpoints in between: a spare takes its place, and the training ends there."""
    settings = "resiliency = { spares = 1, restarts = 9 }\n"
    training = Training(cluster, runs, "lemon", text=pretrain(settings).replace(f"steps = {STEPS}", f"steps = {LEMON_STEPS}"),
                        paced_ms=100)
    ranks = training.ranks(1)
    lead = training.events("launched")[0]["host"]
    lemon = next(host for host in sorted(set(ranks.values())) if host != lead)
    first = kill_on(training, lemon, ranks)
    expect_before("lemon_host", first)
    expect("its host is named at the first, too", first["host"] == lemon, first)
    expect("the same hosts again", lemon in training.events("launched")[-1]["hosts"], training.events("launched")[-1])
    second = kill_on(training, lemon)
    training.go_faster()
    expect_restart("lemon_host", second, lemon)
    expect("and the reason is reported", f"{lemon} is left after its second fault within" in second["reason"] and
           second["next"].endswith(f"without {lemon}"), second)
    expect_kept("lemon_host", training.events(), lemon)
    reported = runs.longhaul("faults", training.run.folder, code=None)
    expect("people are informed, too", f"{lemon} is left after its second fault" in " ".join(reported.split()), reported)
    training.run.wait("succeeded", 90)
    steps = [e["step"] for e in training.events("checkpoint")]
    expect("the training has come to its end", max(steps) == LEMON_STEPS, steps)
    record = json.loads((training.run.folder / "stages/s/attempts/1/record.json").read_text())
    expect("the job's record names it", record["nodes_left"] == [lemon], record)


def error_twice(cluster, runs):
    """An error that the program throws, twice on the same host: that costs no host."""
    training = Training(cluster, runs, "error-twice", "resiliency = { spares = 1, restarts = 9 }\n", faults=True, in_process=False)
    hosts = training.events("launched")[0]["hosts"]
    for number in (1, 2):
        launch = training.launches()
        runs.longhaul("tell", training.run.folder, "fault", "ASYNC_EXC", "rank=2", "--wait", 1)
        training.wait(lambda: training.launches() > launch and training.saved(training.launches()), f"a checkpoint after error {number}")
    for number, fault in enumerate(training.events("fault")):
        expect_restart("error_twice", fault) if number else expect_before("error_twice", fault)
        expect("tried again on the same hosts", "is left" not in fault["reason"], fault)
    expect("no host was left", training.events("launched")[-1]["hosts"] == hosts, training.events("launched"))
    training.end(runs)


def agents(run):
    """{host: pid} of the agents of a run."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
            if not arguments[0].endswith(b"longhaul-worker") or b"agent" not in arguments or run.folder.name.encode() not in b" ".join(arguments):
                continue
            for variable in (entry / "environ").read_bytes().split(b"\0"):
                if variable.startswith(b"SLURMD_NODENAME="):
                    found[variable.split(b"=")[1].decode()] = int(entry.name)
        except OSError:
            continue
    return found


def standby_killed(cluster, runs):
    """By the fault of that name; another agent becomes the standby, and follows the lead when that is killed. An agent comes back to
    the host that lost its own (faults_live_test.py, agent_killed), so the ranks there are seen again; nothing is ended meanwhile."""
    training = Training(cluster, runs, "standby-killed", 'resiliency = { spares = 1, hang_floor = "3s", host_silent = "2s" }\n', faults=True)
    ranks = training.ranks(1)
    before = agents(training.run)
    runs.longhaul("tell", training.run.folder, "fault", "dead_standby", "--wait", 1)
    training.wait(lambda: training.events("injected"), "the injected fault")
    host = training.events("injected")[-1]["host"]
    # Another one may be there before anybody looks: it is a process of its own.
    wait_for("its agent to be gone", lambda: agents(training.run).get(host) != before[host], 10, training.log)
    undisturbed(training, ranks)
    time.sleep(8)  # longer than a hang takes to be acted upon
    undisturbed(training, ranks)
    os.kill(leads(training.run)[0], signal.SIGKILL)
    training.wait(lambda: training.events("taken_over"), "another lead", 30)
    undisturbed(training, ranks)
    training.end(runs)


def rank_stopped_from_outside(cluster, runs):
    """Somebody sends SIGTERM to one rank that is not the first, in a job whose end is known: the ranks save and stop, that rank is
    named, and all are started again. Neither is the job's wall time over, nor was anybody killed."""
    training = Training(cluster, runs, "reported-from-outside", "resiliency = { restarts = 9 }\n")
    job = training.run.job("s")
    expect("the job has an end", cluster.call("squeue", "-h", "-j", job, "-o", "%e").stdout.strip() not in ("", "N/A", "NONE"), job)
    for number in range(1, 3):
        launch, ranks = training.launches(), training.ranks(training.launches())
        lead = training.events("launched")[-1]["host"]
        victim = next(pid for pid, host in sorted(ranks.items()) if host != lead)
        os.kill(victim, signal.SIGTERM)
        training.recovery(time.time(), number)
        fault = next(e for e in training.events("fault") if e["launch"] == launch)
        expect_restart("rank_stopped_from_outside", fault, ranks[victim])
        expect("by which signal", f"rank {fault['rank']}: asked to stop by SIGTERM: stopped after step" in fault["cause"], fault)
        stopped = training.events("stopped")[-1]
        expect("it had saved, and its time was not over", (stopped["why"], stopped["saved"]) == ("asked", True), stopped)
        training.wait(lambda: training.saved(training.launches()), f"a checkpoint after SIGTERM {number}")
    expect("no other job was needed", len(training.run.submissions("s")) == 1, training.run.submissions("s"))
    training.end(runs)


def heartbeat_dropped(cluster, runs):
    """An agent that says nothing for longer than a host may be silent, while ranks take steps: nothing is ended."""
    training = Training(cluster, runs, "heartbeat-dropped", 'resiliency = { spares = 1, host_silent = "2s" }\n', faults=True)
    ranks = training.ranks(1)
    runs.longhaul("tell", training.run.folder, "fault", "dropped_heartbeat", "rank=3", "lasts=6s", "--wait", 1)
    training.wait(lambda: training.events("injected"), "the injected fault")
    time.sleep(7)
    undisturbed(training, ranks)
    training.end(runs)


def host_frozen(cluster, runs):
    """Ranks and agent of a host are stopped: the host is named and left, the spare takes its place."""
    training = Training(cluster, runs, "host-frozen", 'resiliency = { spares = 1, hang_floor = "3s", host_silent = "2s" }\n', faults=True)
    lead = training.events("launched")[0]["host"]
    hosts = training.events("launched")[0]["hosts"]
    rank = next(2 * i for i, host in enumerate(hosts) if host != lead)
    runs.longhaul("tell", training.run.folder, "fault", "frozen_host", f"rank={rank}", "--wait", 1)
    training.wait(lambda: training.events("injected"), "the injected fault")
    injected = training.events("injected")[0]
    detected, again, fault, _ = training.recovery(injected["ms"] / 1000, 1, 60)
    print(f"  host frozen: detected after {detected:.2f} s, trained again after {again:.2f} s as {fault['class']}", flush=True)
    expect_restart("host_frozen", fault, injected["host"])
    expect_kept("host_frozen", training.events(), injected["host"])
    training.end(runs)


def flipped_bit(cluster, runs):
    """A bit of what a rank gives to the sums changes on its way: that rank is named, no update is made of it, and its host is left."""
    training = Training(cluster, runs, "flipped-bit", "resiliency = { spares = 1 }\n", faults=True)
    launched = training.events("launched")[0]
    place = next(i for i, host in enumerate(launched["hosts"]) if host != launched["host"])
    rank, host = 2 * place + 1, launched["hosts"][place]  # two ranks a host
    runs.longhaul("tell", training.run.folder, "fault", "flipped_bit", f"rank={rank}", "--wait", 1)
    training.wait(lambda: training.events("injected"), "the injected fault")
    _, again, fault, recovered = training.recovery(training.events("injected")[0]["ms"] / 1000, 1, 60)
    reported = [e for e in training.events("faulted") if e.get("class") == "silent_corruption"]
    expect("the rank says so itself", [e["culprit"] for e in reported] == [rank], reported)
    expect_restart("flipped_bit", fault, host, recovered)
    expect("the culprit is named", fault["rank"] == rank, fault)
    now = training.events("launched")[-1]
    expect("the spare works in its place", host not in now["hosts"] and len(now["hosts"]) == 2, now)
    print(f"  flipped bit: trained again after {again:.2f} s, {recovered['lost_steps']} steps done again", flush=True)
    launch = training.launches()
    training.wait(lambda: training.saved(launch), "a checkpoint of the next launch")
    faults = [(e["launch"], e["class"], e["host"]) for e in training.events("fault")]
    expect("found once", [f[1] for f in faults].count("silent_corruption") == 1, faults)
    training.end(runs)


class Throttle:
    """Lets a process run for a small part of the time until it is closed or gone."""

    def __init__(self, pid, runs_s=0.006, stands_s=0.094):
        self.pid, self.runs_s, self.stands_s, self.over = pid, runs_s, stands_s, threading.Event()
        self.thread = threading.Thread(target=self.throttle)
        self.thread.start()

    def throttle(self):
        try:
            while not self.over.wait(self.runs_s):
                os.kill(self.pid, signal.SIGSTOP)
                self.over.wait(self.stands_s)
                os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def close(self):
        self.over.set()
        self.thread.join()


def straggler_swapped(cluster, runs):
    """A rank that is slowed down for good: it is named, a checkpoint is made, and its host is left for the spare. On cores that are
    shared another rank may really be slow before it, and takes the only spare: then once more, three times at most."""
    if not any(straggler_tried(cluster, runs, number) for number in range(3)):
        raise ClusterError("three times another rank than the one that was slowed down was reported first")


def straggler_tried(cluster, runs, number):
    training = Training(cluster, runs, f"straggler-{number}", 'resiliency = { spares = 1, on_straggler = "swap" }\n', paced_ms=0)
    ranks = training.ranks(1)
    lead = training.events("launched")[0]["host"]
    victim, host = next((pid, host) for pid, host in sorted(ranks.items()) if host != lead)
    training.wait(lambda: len(training.saved(1)) >= 8, "steps to compare with")
    begun = time.time()
    throttle = Throttle(victim)
    try:
        detected, again, fault, recovered = training.recovery(begun, 1, 120)
    finally:
        throttle.close()
    slow = [e for e in training.events("straggler") if e.get("host") == host]
    if not slow and fault["class"] == "slow_rank":
        print(f"  another one was slow first: {training.events('straggler')[-1]['text']}", flush=True)
        training.end(runs)
        return False
    expect("reported with rank and host", slow and slow[-1]["rank_of"] >= 0 and slow[-1]["slowdown"] > 1.08, training.events("straggler"))
    expect_restart("straggler_swapped", fault, host)
    now = training.events("launched")[-1]
    expect("the spare works in its place", host not in now["hosts"] and len(now["hosts"]) == 2, now)
    saved = [e for e in training.events("checkpoint") if e["step"] >= slow[0]["step"]]
    expect("a checkpoint was made first", saved and saved[0]["ms"] <= fault["ms"], (saved, fault))
    print(f"  straggler: reported {slow[0]['ms'] / 1000 - begun:.2f} s after the onset, left after {detected:.2f} s, trained again after "
          f"{again:.2f} s, {recovered['lost_steps']} steps done again", flush=True)
    training.end(runs)
    return True


def interval_online(cluster, runs):
    """The interval between checkpoints that is chosen while the training runs is the one that ranks on other hosts keep, also
    after a restart. (With so short a stall and two hosts it is far longer than the 20 steps that the stage asks for.)"""
    training = Training(cluster, runs, "interval-online", 'resiliency = { checkpoint_interval = "online" }\n', paced_ms=0)

    def newest():
        return max([e["step"] for e in training.events("metric") if "loss" in e], default=0)

    def keeps_it(what):
        # The order may come while a save of the old interval is due.
        training.wait(lambda: newest() > training.events("checkpoint")[-1]["step"] + 100, f"no save for 100 steps, {what}", 60)
    training.wait(lambda: training.events("checkpoint_interval"), "the chosen interval", 60)
    reported = training.events("checkpoint_interval")[0]
    expect("with its reasons", reported["steps"] > 20 and reported["interval_s"] > 0 and reported["stall_s"] >= 0 and reported["mtbf_s"] > 3600, reported)
    keeps_it("as ordered")
    os.kill(sorted(training.ranks(1))[-1], signal.SIGKILL)
    training.recovery(time.time(), 1)
    keeps_it("also in the next launch")
    last = training.events("checkpoint_interval")[-1]
    print(f"  interval online: {reported['steps']} steps ({reported['interval_s']:.0f} s) for a stall of {reported['stall_s']:.3f} s, "
          f"{last['steps']} after a fault", flush=True)
    training.end(runs)


def refused(cluster, runs):
    """A training that is not marked as a test takes no fault, whoever asks."""
    training = Training(cluster, runs, "refused")
    said = runs.longhaul("tell", training.run.folder, "fault", "SIGKILL", "rank=1", code=3)
    expect("and says why", "allow_fault_injection" in said, said)
    undisturbed(training, training.ranks(1))
    expect("nothing was injected", not training.events("injected"), training.events("injected"))
    training.end(runs)


class SilentFolder:
    """A file system of its own, on all hosts, that can stop to take writes: whoever writes waits, in the kernel."""

    def __init__(self, cluster, folder):
        self.cluster, self.folder, self.hosts, self.device = cluster, folder, [], None
        image = folder.with_suffix(".img")
        with open(image, "wb") as file:
            file.truncate(256 << 20)
        folder.mkdir()
        try:
            cluster.call("mkfs.ext4", "-q", "-F", image)
            self.device = cluster.call("losetup", "--find", "--show", image).stdout.strip()
            cluster.call("mount", self.device, folder)
            self.hosts.append(None)
            for host in cluster.nodes():
                cluster.play("exec", host, "--", "mount", self.device, str(folder))
                self.hosts.append(host)
        except ClusterError as error:
            self.remove()
            raise Skipped(f"no file system can be made here: {error}") from None

    def freeze(self, seconds):
        self.cluster.call("fsfreeze", "-f", self.folder)
        try:
            time.sleep(seconds)
        finally:
            self.cluster.call("fsfreeze", "-u", self.folder)

    def remove(self):
        for host in reversed(self.hosts):
            if host is None:
                self.cluster.call("umount", "-l", self.folder, check=False)
            else:
                self.cluster.call(PROGRAM, "exec", "--state", self.cluster.state, host, "--", "umount", "-l", str(self.folder), check=False)
        if self.device:
            self.cluster.call("losetup", "-d", self.device, check=False)


def storage_silent(cluster, runs):
    """The file system of the run takes no writes for 20 s, while checkpoints are due: everything waits, nothing is ended."""
    silent = SilentFolder(cluster, runs.folder / "silent")
    try:
        training = Training(cluster, runs, "storage-silent", "resiliency = { spares = 1 }\n", runs_dir=silent.folder / "runs")
        ranks = training.ranks(1)
        silent.freeze(lasts("storage_silent"))
        undisturbed(training, ranks)
        expect("nothing was launched again", training.launches() == 1, training.events("launched"))
        training.end(runs)
    finally:
        cluster.cancel_all()
        silent.remove()


class Events:
    def __init__(self, path):
        self.path = path

    def all(self, kind):
        return [e for e in json_lines(self.path) if e["kind"] == kind]


CASES = {case.__name__: case for case in (refused, user_bug, lemon_host, error_twice, rank_stopped_from_outside, standby_killed, heartbeat_dropped,
                                           host_frozen, flipped_bit, straggler_swapped, interval_online, storage_silent)}


def main():
    given = case_arguments(__doc__).parse_args()
    return play_cases(new_runs("verdicts-live", given.longhaul), chosen_cases(CASES, given.cases))


if __name__ == "__main__":
    sys.exit(main())
