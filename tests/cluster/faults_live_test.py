#!/usr/bin/env python3
"""Faults of a training over hosts of the Slurm cluster, made from outside: which is found within what time, who is named,
and when the next optimizer step is completed.

usage: faults_live_test.py LONGHAUL [CASE ...] [--times N] [--table]

Every case kills, freezes or cuts something of a running training and reads what its lead wrote: the events `fault` and
`recovered`. The clock runs from the fault as this script made it to the first step that a rank's heartbeat shows as
completed after it. The medians are printed beside the bars; of --times 5 and more a median that misses its bar fails the test.
A wrong culprit ends its case; with --table it is counted, the other repetitions go on, and fewer than 99 % right names fail the
test (of fewer than 100 faults: any wrong one).
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import sys
import time

from fault_board import Board
from restart_cases import expect_kept, expect_restart, lasts
from slurm_cluster import PROGRAM, ClusterError, wait_for
from slurm_runs import SMALL, TOKENS, case_arguments, chosen_cases, expect, json_lines, new_runs, play_cases
from slurm_runs import write_pages  # noqa: F401

SHAPE = ("hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, "
         "max_position_embeddings = 64")
STEPS = 100_000


def pretrain(more="", nodes=2, faults=False, in_process=True, requeue="yes"):
    small = f'{SMALL}\njob.requeue = "{requeue}"'
    return (f'[stage.s]\nkind = "pretrain"\ninputs = {{ tokens = "@tokens" }}\nprecision = "f32"\nsteps = {STEPS}\n'
            f"sequence_length = 64\nmicro_batch_size = 2\nglobal_batch_size = 8\n{small}\nmodel = {{ {SHAPE} }}\n"
            f"parallel = {{ dp_shard = 4, zero = 1 }}\nnodes = {nodes}\n"
            f"checkpoint = {{ every_steps = 20, keep_last = 2{'' if in_process else ', in_process = false'} }}\n{more}"
            + ("[stage.s.faults]\n" if faults else ""))


BOARD = Board()


class Training:
    """A run whose stage `s` trains; its events as they come, with the time at which a line was seen."""

    seen, seen_of, seen_bytes = [], None, 0  # what was read of which file so far

    def __init__(self, cluster, runs, name, more="", nodes=2, faults=False, in_process=True, requeue="yes",
                 runs_dir=None, text=None, paced_ms=20):
        self.cluster, self.paced_ms = cluster, paced_ms
        self.torn_lines = False  # a disk without room leaves parts of lines, which readers pass over
        # One that comes to its end must not be found done by the next one: only those that are cancelled are together.
        runs_dir = runs_dir or (None if text else runs.together)
        text = TOKENS + (text or pretrain(more, nodes, faults, in_process, requeue))
        self.begin(runs, name, text, runs_dir)
        if any(f.get("section") == "start" and "Segmentation" in f["cause"] or "mpi/pmix" in f["cause"] for f in self.events("fault")):
            # Open MPI 4.1 may crash while it connects ranks, and Slurm's PMIx gives up on a host whose step starts late: the
            # training goes on by itself, but no case here is about these faults.
            print(f"  {name}: Slurm or Open MPI failed at the start, begun anew: {[f['cause'] for f in self.events('fault')]}", flush=True)
            self.end(runs)
            self.begin(runs, f"anew-{name}", text, runs_dir)

    def begin(self, runs, name, text, runs_dir):
        paced = runs.paced(self.paced_ms, name) if self.paced_ms else ()
        self.run = runs.start(name, text, *paced, runs_dir=runs_dir)
        self.pace = paced and paced[-1]
        self.file = self.run.folder / "stages/s/attempts/1/events.jsonl"
        self.wait(lambda: self.saved(1), "a checkpoint of the first launch", 90)

    def go_faster(self):
        """From here on as fast as others, where it was slow so that it would not end before something happened to it."""
        with open(self.pace, "a") as plan:
            plan.write("engine_step_begin delay_ms=20 always\n")

    def events(self, kind=None):
        self.read_new_lines()
        return [e for e in self.seen if kind in (None, e["kind"])]

    def read_new_lines(self):
        """Lines are appended, and asked for many times: each is parsed once."""
        if self.seen_of != self.file:
            self.seen, self.seen_of, self.seen_bytes = [], self.file, 0
        if not self.file.exists():
            return
        with open(self.file, "rb") as file:
            file.seek(self.seen_bytes)
            text = file.read()
        whole = text[:text.rfind(b"\n") + 1]
        self.seen_bytes += len(whole)
        found = [self.parsed(line) for line in whole.decode(errors="replace").splitlines() if line.endswith("}")]
        self.seen += [e for e in found if e]

    def parsed(self, line):
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            if self.torn_lines:
                return None
            raise

    def wait(self, condition, what, seconds=60):
        wait_for(what, condition, seconds, lambda: self.run.story() + self.log())

    def log(self):
        folder = self.run.folder / "stages/s/attempts/1"
        return "".join(f"\n{p.name}: {p.read_text(errors='replace')[-3000:]}"
                       for p in [*folder.glob("slurm-*.out"), *folder.glob("agent*.log")] if p.exists())

    def saved(self, launch):
        facts = self.events()
        begun = [i for i, e in enumerate(facts) if e["kind"] == "launched" and e["launch"] == launch]
        return begun and [e["step"] for e in facts[begun[-1]:] if e["kind"] == "checkpoint"]

    def launches(self):
        return len(self.events("launched"))

    def ranks(self, launch):
        """{pid: host} of the ranks of a launch: processes of this machine, which name their host."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                argv = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
                if not argv[0].endswith(b"longhaul-engine"):
                    continue
                if not any(self.run.folder.name.encode() in w and f"/launches/{launch}/".encode() in w for w in argv):
                    continue
                for variable in (entry / "environ").read_bytes().split(b"\0"):
                    if variable.startswith(b"SLURMD_NODENAME="):
                        found[int(entry.name)] = variable.split(b"=")[1].decode()
            except OSError:
                continue
        return found

    def recovery(self, begun, faults, seconds=30):
        """Waits for the `recovered` event number `faults`; (detected after, trained again after, both events). The fault is the first
        one since `begun`: Open MPI 4.1 may crash while it connects the ranks of the next launch, which is a further fault."""
        self.wait(lambda: len(self.events("recovered")) >= faults, f"recovery number {faults}", seconds)
        since = [e for e in self.events("fault") if e["ms"] / 1000 >= begun]
        fault, recovered = (since or self.events("fault")[-1:])[0], self.events("recovered")[-1]
        # Event times are of the lead's host, which is this machine's clock.
        again = recovered["ms"] / 1000 - begun
        detected = again - (recovered["total_s"] - recovered["detect_s"])
        return detected, again, fault, recovered

    def end(self, runs):
        runs.longhaul("cancel", self.run.folder)
        self.run.wait("cancelled", 60)


def rank_ended(cluster, runs, times, row, number_of_signal):
    training = Training(cluster, runs, row.replace("_", "-"), "resiliency = { restarts = 1000 }\n")
    for number in range(1, times + 1):
        ranks = training.ranks(training.launches())
        expect("four ranks on two hosts", len(ranks) == 4 and len(set(ranks.values())) == 2, ranks)
        victim = sorted(ranks)[number % 4]
        killed_in = training.launches()
        reported = len(training.events("fault"))
        begun = time.time()
        os.kill(victim, number_of_signal)
        seen = training.recovery(begun, len(training.events("recovered")) + 1)
        # Open MPI 4.1 may crash while it connects ranks anew: a further fault, and a further launch.
        fault = next(e for e in training.events("fault")[reported:] if e["launch"] == killed_in)
        BOARD.time(row.replace("_", " "), 0.5, 5, (*seen[:2], fault, seen[3]))
        expect_restart(row, fault, recovered=seen[3])
        BOARD.named(row, fault["host"] == ranks[victim], (fault, ranks, victim))
        launch = training.launches()
        training.wait(lambda: training.saved(launch), f"a checkpoint of launch {launch}")
    training.end(runs)


def rank_killed(cluster, runs, times):
    rank_ended(cluster, runs, times, "rank_killed", signal.SIGKILL)


def rank_aborts(cluster, runs, times):
    rank_ended(cluster, runs, times, "rank_aborts", signal.SIGABRT)


def rank_throws(cluster, runs, times):
    """An error that the rank does not survive. The clock begins with the order to the rank, half a step before the fault."""
    training = Training(cluster, runs, "rank-throws", "resiliency = { restarts = 1000 }\n", faults=True, in_process=False)
    for number in range(times):
        killed_in, reported, rank = training.launches(), len(training.events("fault")), number % 4
        runs.longhaul("tell", training.run.folder, "fault", "ASYNC_EXC", f"rank={rank}", "--wait", 1)
        training.wait(lambda: len(training.events("injected")) > number, "the injected fault", 20)
        injected = training.events("injected")[-1]
        seen = training.recovery(injected["ms"] / 1000, len(training.events("recovered")) + 1)
        fault = next(e for e in training.events("fault")[reported:] if e["launch"] == killed_in)
        BOARD.time("rank throws", 0.5, 5, (*seen[:2], fault, seen[3]))
        expect_restart("rank_throws", fault, recovered=seen[3])
        BOARD.named("rank throws", fault["rank"] == rank, (fault["rank"], rank, fault["cause"]))
        launch = training.launches()
        training.wait(lambda: training.saved(launch), f"a checkpoint of launch {launch}")
    training.end(runs)


def boot(cluster, host):
    """A host that was killed is there again, and the next training finds all of them free. Slurm believes in a job's processes
    until it notices that the host was down, which may take over a minute: it is reported."""
    cluster.call("scontrol", "update", f"NodeName={host}", "State=DOWN", "Reason=killed")
    cluster.play("start-node", host)
    cluster.cancel_all(90)
    cluster.play("heal")
    cluster.wait_nodes("idle")


def host_killed(cluster, runs, times):
    for number in range(times):
        training = Training(cluster, runs, f"host-killed-{number}", "resiliency = { spares = 1 }\n")
        ranks = training.ranks(1)
        lead = training.events("launched")[0]["host"]
        victim = next(host for host in set(ranks.values()) if host != lead)
        begun = time.time()
        cluster.play("kill-node", victim)
        try:
            seen = training.recovery(begun, 1)
            fault = seen[2]
            BOARD.time("host killed, a spare there", 2, 8, seen)
            BOARD.named("host killed", fault["host"] == victim, (fault, victim))
            expect_restart("host_killed", fault, recovered=seen[3])
            expect_kept("host_killed", training.events(), victim)
            expect("the spare works in its place", len(training.events("launched")[-1]["hosts"]) == 2, training.events("launched"))
            training.end(runs)
        finally:
            boot(cluster, victim)


def rank_frozen(cluster, runs, times):
    training = Training(cluster, runs, "rank-frozen", 'resiliency = { hang_floor = "3s", host_silent = "2s", restarts = 1000 }\n')
    for number in range(1, times + 1):
        ranks = training.ranks(training.launches())
        victim = sorted(ranks)[number % 4]
        launch = training.launches()
        # The timeouts are learned once the first steps are done.
        training.wait(lambda: len(training.saved(launch)) >= 2, f"two checkpoints of launch {launch}")
        begun = time.time()
        os.kill(victim, signal.SIGSTOP)
        seen = training.recovery(begun, len(training.events("recovered")) + 1)
        fault = next(e for e in training.events("fault") if e["launch"] == launch)
        expect_restart("rank_frozen", fault, recovered=seen[3])
        BOARD.time("rank frozen (act: 3 s)", 3.5, 8, (*seen[:2], fault, seen[3]))
        BOARD.named("rank frozen", fault["host"] == ranks[victim], (fault, ranks, victim))
        suspicion = [e for e in training.events("hang_suspected") if e["launch"] == launch]
        expect("suspected first", suspicion, fault)
        BOARD.notice("rank frozen: suspected", 2, suspicion[0]["ms"] / 1000 - begun)
        training.wait(lambda: training.saved(training.launches()), "a checkpoint of the next launch")
    training.end(runs)


def hang_settled(training):
    """The timeouts of the newest launch are learned once its first steps are done."""
    launch = training.launches()
    training.wait(lambda: len(training.saved(launch)) >= 2, f"two checkpoints of launch {launch}")
    return launch


def rank_hung(cluster, runs, times):
    """One rank stands still in its own code, its process alive, and the others wait for it in a collective. Suspected after 2 s,
    acted upon after the learned timeout (here its floor, 3 s), and trained again within 5 s more."""
    training = Training(cluster, runs, "rank-hung", 'resiliency = { hang_floor = "3s", host_silent = "2s", restarts = 1000 }\n', faults=True)
    for number in range(times):
        rank, launch = number % 4, hang_settled(training)
        runs.longhaul("tell", training.run.folder, "fault", "hung_rank", f"rank={rank}", "--wait", 1)
        training.wait(lambda: len(training.events("injected")) > number, "the injected fault", 20)
        injected = training.events("injected")[-1]
        begun = injected["ms"] / 1000
        seen = training.recovery(begun, len(training.events("recovered")) + 1)
        fault = next(e for e in training.events("fault") if e["launch"] == launch)
        expect_restart("rank_hung", fault, recovered=seen[3])
        BOARD.time("rank hung outside a collective (act: 3 s)", 3.5, 8, (*seen[:2], fault, seen[3]))
        BOARD.named("rank hung", (fault["rank"], fault["host"]) == (rank, injected["host"]), (fault, injected))
        suspicion = [e for e in training.events("hang_suspected") if e["launch"] == launch]
        expect("suspected first, with the culprit", suspicion and suspicion[0]["rank_of"] == rank, (suspicion, fault))
        BOARD.notice("rank hung outside a collective: suspected", 2, suspicion[0]["ms"] / 1000 - begun)
        training.wait(lambda: training.saved(training.launches()), "a checkpoint of the next launch")
    training.end(runs)


def mpi_connections(pids):
    """Pairs of TCP ports over which the ranks of these processes talk to each other, in either order: both ends are theirs."""
    ends = []
    for pid in pids:
        sockets = set()
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(fd)
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
        for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            argv = line.split()
            if argv[3] == "01" and argv[9] in sockets:
                ends.append((argv[1], argv[2]))
    return sorted({tuple(int(end.split(":")[1], 16) for end in pair) for pair in ends if pair[::-1] in ends})


def stuck_collective(cluster, runs, times):
    """What the ranks of two hosts say to each other is lost, and nothing else: all live, all wait in a collective, and agents are
    heard. New communicators would share the dead connections: a new launch with new ones follows at once."""
    training = Training(cluster, runs, "stuck", 'resiliency = { hang_floor = "3s", host_silent = "2s", restarts = 1000 }\n')
    for number in range(times):
        launch = hang_settled(training)
        ranks = training.ranks(launch)
        pairs = mpi_connections(ranks)
        expect("connections between the ranks", pairs, ranks)
        # By both ends: a port alone may be one of the next launch, which would be refused its connections.
        rules = [("pref", str(100 + i), "ipproto", "tcp", "sport", str(own), "dport", str(other), "blackhole")
                 for i, (own, other) in enumerate(pairs)]
        hosts, reported = sorted(set(ranks.values())), len(training.events("fault"))
        again = len(training.events("recovered")) + 1
        try:
            begun = time.time()
            for host in hosts:
                for rule in rules:
                    cluster.play("exec", host, "--", "ip", "rule", "add", *rule)
            seen = training.recovery(begun, again)
        finally:
            for host in hosts:
                for rule in rules:
                    cluster.call(PROGRAM, "exec", "--state", cluster.state, host, "--", "ip", "rule", "del", *rule, check=False)
        faults = training.events("fault")[reported:]
        # Where a message came through before the cut some are in the next collective already: that looks like ranks out of step.
        expect("one fault", [(f["tier"], f["class"]) for f in faults] in ([("in_job", "stuck_collective")], [("in_job", "desynchronised")]), faults)
        if faults[0]["class"] == "stuck_collective":
            expect_restart("stuck_collective", faults[0], recovered=seen[3])
            BOARD.time("stuck in a collective (act: 3 s)", 3.5, 8, seen)
        training.wait(lambda: training.saved(training.launches()), "a checkpoint of the next launch")
    training.end(runs)


def step_skipped(cluster, runs, times):
    """A loss that is no number: the engine leaves the step out, and that is a fault of tier skip. Nobody is ended or started."""
    training = Training(cluster, runs, "skipped", text=pretrain('on_spike = { action = "skip", budget = 1000 }\nresiliency = { restarts = 1 }\n', faults=True))
    ranks = training.ranks(1)
    for number in range(max(3, times)):
        runs.longhaul("tell", training.run.folder, "fault", "nan_loss", f"rank={number % 4}", "--wait", 1)
        training.wait(lambda: len(training.events("recovered")) > number, "the step after the one that was left out", 30)
        spike, fault, recovered = (training.events(kind)[number] for kind in ("spike", "fault", "recovered"))
        expect_restart("step_skipped", fault, recovered=recovered)
        expect("one fault for the step", (fault["step"], fault["launch"], spike["action"]) == (spike["step"], 1, "skip"), (fault, spike))
        expect("nothing is lost but the step", recovered["detect_s"] == recovered["stop_s"] == 0, recovered)
        print(f"  step skipped: reported {(fault['ms'] - spike['ms']) / 1000:.2f} s after it, the next step was done {recovered['total_s']:.2f} s after it", flush=True)
    expect("nothing was ended", training.ranks(1) == ranks and training.launches() == 1, training.events("launched"))
    said = runs.longhaul("faults", training.run.folder)
    expect("faults shows them", said.count("loss_nan (job)") == number + 1 and "skip: the training goes on" in said, said)
    status = json.loads(runs.longhaul("status", training.run.folder, "--json"))
    expect("status shows them", json.dumps(status).count('"tier": "skip"') >= number + 1, status)
    # It has used up nothing: a rank that is killed then is started again as ever.
    os.kill(sorted(ranks)[0], signal.SIGKILL)
    training.wait(lambda: training.launches() == 2, "another launch", 30)
    expect("in the job", training.events("fault")[-1]["tier"] == "in_job", training.events("fault"))
    training.end(runs)


def transient_error(cluster, runs, times):
    """An error inside a step of one rank; all processes stay, and go on in communicators of a new epoch."""
    training = Training(cluster, runs, "transient", "resiliency = { restarts = 1000 }\n", faults=True)
    ranks = training.ranks(1)
    for number in range(times):
        rank = number % 4
        runs.longhaul("tell", training.run.folder, "fault", "ASYNC_EXC", f"rank={rank}", "--wait", 1)
        training.wait(lambda: len(training.events("faulted")) > number, f"fault number {number}", 60)
        seen = training.recovery(training.events("faulted")[number]["ms"] / 1000, number + 1)
        BOARD.time("transient error, all ranks alive", 0.5, 2, seen)
        BOARD.named("transient error", seen[2]["rank"] == rank, seen[2])
        expect_restart("transient_error", seen[2], recovered=seen[3])
        saved = len(training.events("checkpoint"))
        training.wait(lambda: len(training.events("checkpoint")) > saved, "a checkpoint between two faults")
    expect("nothing was started anew", training.ranks(1) == ranks and training.launches() == 1, training.events("launched"))
    training.end(runs)


def leads(run):
    """Process ids of the lead of this run, held or taken over, without the script's own process."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
        except OSError:
            continue
        if b"lead" in argv and run.folder.name.encode() in b" ".join(argv) and (b"--held" in argv or b"--take-over" in argv):
            found.append(int(entry.name))
    return found


def lead_killed(cluster, runs, times):
    """Losing control alone never stops training: the standby takes over ranks that never stood still."""
    training = Training(cluster, runs, "lead-killed", "resiliency = { spares = 1 }\n")
    ranks = training.ranks(1)
    for number in range(1, times + 1):
        before = leads(training.run)
        expect("one lead", len(before) == 1, before)
        begun = time.time()
        os.kill(before[0], signal.SIGKILL)
        training.wait(lambda: len(training.events("taken_over")) >= number, "another lead", 30)
        taken = training.events("taken_over")[-1]
        print(f"  lead killed: another one after {taken['ms'] / 1000 - begun:.2f} s (epoch {taken['epoch']} on {taken['host']})", flush=True)
        saved = len(training.events("checkpoint"))
        training.wait(lambda: len(training.events("checkpoint")) >= saved + 3, "the training goes on", 30)
        expect("no rank was ended", training.ranks(1) == ranks and training.launches() == 1, training.ranks(1))
    victim = sorted(training.ranks(1))[0]
    begun = time.time()
    os.kill(victim, signal.SIGKILL)
    seen = training.recovery(begun, 1)
    expect("the new lead restarts in the job", seen[2]["tier"] == "in_job", seen)
    BOARD.time("rank killed under another lead", 0.5, 5, seen)
    training.end(runs)


def agent_of(run, host):
    """The agent of this run on that host; None: there is none."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if (len(argv) > 2 and argv[0].endswith(b"longhaul-worker") and argv[1] == b"agent" and run.folder.name.encode() in b" ".join(argv)
                    and f"SLURMD_NODENAME={host}".encode() in (entry / "environ").read_bytes().split(b"\0")):
                return int(entry.name)
        except OSError:
            continue
    return None


def agent_killed(cluster, runs, times):
    """An agent alone dies: its ranks go on, another agent comes, and what happens on its host is found as fast as ever."""
    training = Training(cluster, runs, "agent-killed", "resiliency = { spares = 1, restarts = 1000, host_suspicion = false }\n")
    lead = training.events("launched")[0]["host"]
    for number in range(times):
        ranks, launches = training.ranks(training.launches()), training.launches()
        # The standby's host, and every second time the lead's own.
        victim = lead if number % 2 else next(host for host in sorted(set(ranks.values())) if host != lead)
        agent = agent_of(training.run, victim)
        expect("an agent on every host", all(agent_of(training.run, host) for host in training.events("launched")[0]["hosts"]), training.log())
        begun, faults = time.time(), len(training.events("fault"))
        os.kill(agent, signal.SIGKILL)
        training.wait(lambda: agent_of(training.run, victim) not in (None, agent), "another agent", 20)
        training.wait(lambda: len(training.events("agent_lost_over")) > number, "it is reported", 20)
        back = training.events("agent_lost_over")[-1]
        expect("events name the host", back["host"] == training.events("agent_lost")[-1]["host"] == victim, back)
        print(f"  agent killed: another one reports after {back['ms'] / 1000 - begun:.2f} s", flush=True)
        saved = len(training.events("checkpoint"))
        training.wait(lambda: len(training.events("checkpoint")) >= saved + 3, "the training goes on", 30)
        expect("nothing was ended", len(training.events("fault")) == faults and training.launches() == launches
               and training.ranks(launches) == ranks, training.events("fault"))
        said = runs.longhaul("status", training.run.folder)
        expect("status reports it", "agent_lost" in said and victim in said, said)
        BOARD.stopped_nothing("agent killed")

        dies = next(pid for pid, host in sorted(ranks.items()) if host == victim)
        begun = time.time()
        os.kill(dies, signal.SIGKILL)
        seen = training.recovery(begun, len(training.events("recovered")) + 1)
        fault = next(e for e in training.events("fault")[faults:] if e["launch"] == launches)
        BOARD.time("rank killed beside a new agent", 0.5, 5, (*seen[:2], fault, seen[3]))
        expect_restart("rank_beside_a_new_agent", fault, recovered=seen[3])
        BOARD.named("rank beside a new agent", fault["host"] == victim, (fault, victim))
        launch = training.launches()
        training.wait(lambda: training.saved(launch), f"a checkpoint of launch {launch}")
    training.end(runs)


def shrunk(cluster, runs, times):
    """No spare is left: fewer replicas go on, and come to the very weights of a training that nothing happened to."""
    steps = 200
    def text(resiliency):
        return (pretrain(resiliency, nodes=4).replace(f"steps = {STEPS}", f"steps = {steps}", 1))
    whole = runs.start("whole", TOKENS + text(""))
    whole.wait("succeeded", 180)
    for number in range(times):
        training = Training(cluster, runs, f"shrunk-{number}", nodes=4, text=text("resiliency = { shrink = true }\n"), paced_ms=200)
        ranks = training.ranks(1)
        expect("four ranks on four hosts", len(ranks) == 4 and len(set(ranks.values())) == 4, ranks)
        lead = training.events("launched")[0]["host"]
        # Every second time the lead's own host: the standby decides then.
        victim = lead if number % 2 else next(host for host in sorted(set(ranks.values())) if host != lead)
        begun = time.time()
        cluster.play("kill-node", victim)
        training.go_faster()
        try:
            seen = training.recovery(begun, 1)
            fault = seen[2]
            expect_restart("shrunk", fault, victim, seen[3])
            launched = training.events("launched")[-1]
            expect("two replicas on two hosts", launched["ranks"] == 2 and len(launched["hosts"]) == 2
                   and victim not in launched["hosts"] and launched["layout"] == "dp=2 zero=1", launched)
            BOARD.time("host killed, no spare: shrink", 2, 8, seen)
            BOARD.named("shrunk", fault["host"] == victim, (fault, victim))
            training.run.wait("succeeded", 180)
        finally:
            boot(cluster, victim)
        expect("the weights are those of the undisturbed run, bit for bit", weights(training.run) == weights(whole),
               (weights(training.run), weights(whole)))


def processes_of(run, host):
    """Everything of a run on a host but Slurm's own: its agent with its checks, and its ranks."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
            ours = argv[0].endswith((b"longhaul-engine", b"longhaul-worker")) and run.folder.name.encode() in b" ".join(argv)
            if ours and f"SLURMD_NODENAME={host}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def grown_back(cluster, runs, times):
    """A host that has frozen is lost, and the training shrinks; it thaws, and all replicas work again, to the very weights of a
    training that nothing happened to. Slurm's own processes of that host live on: else Slurm takes it out of the job."""
    steps = 450

    def text(resiliency):
        return pretrain(resiliency, nodes=4).replace(f"steps = {STEPS}", f"steps = {steps}", 1)
    for number in range(times):
        training = Training(cluster, runs, f"grown-back-{number}", nodes=4,
                            text=text('resiliency = { shrink = true, grow_after = "2s", host_silent = "2s" }\n'), paced_ms=100)  # it still trains when the host is there again
        ranks = training.ranks(1)
        lead = training.events("launched")[0]["host"]
        victim = next(host for host in sorted(set(ranks.values())) if host != lead)
        frozen = processes_of(training.run, victim)
        expect("an agent and a rank", len(frozen) >= 2, frozen)
        try:
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            training.wait(lambda: training.saved(2), "a checkpoint of fewer replicas", 30)
            expect("two replicas", training.events("launched")[-1]["ranks"] == 2, training.events("launched"))
        finally:
            for pid in frozen:
                try:
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    pass
        thawed = time.time()
        training.wait(lambda: training.saved(3), "a checkpoint of all replicas", 30)
        training.go_faster()
        reported = training.events("grow_back")
        expect("reported once, with the host", [e["nodes_back"] for e in reported] == [[victim]], reported)
        launched = training.events("launched")[-1]
        expect("four replicas on four hosts", launched["ranks"] == 4 and victim in launched["hosts"] and "layout" not in launched, launched)
        ready = [e for e in training.events("ready")]
        stopped = training.events("stopped")
        expect("no step is done again", len(stopped) == 1 and stopped[0]["step"] == ready[-1]["step"], (stopped, ready))
        # Open MPI 4.1 may crash while it connects ranks anew: a further fault, and a further launch on the same hosts.
        expect("one host was lost", [e["tier"] for e in training.events("fault") if e["class"] != "crash"] == ["shrink"], training.events("fault"))
        ended = next(e for e in training.events("ranks_ended") if e["launch"] == 2)["ms"] / 1000
        print(f"  grown back: reported {reported[0]['ms'] / 1000 - thawed:.2f} s after the host was there again, saved and ended "
              f"{ended - reported[0]['ms'] / 1000:.2f} s after that, ready after {ready[-1]['ms'] / 1000 - ended:.2f} s more", flush=True)
        status = runs.longhaul("status", training.run.folder, code=None)
        expect("status says so", "grow_back" in status and f"{victim} is back" in status, status)
        training.run.wait("succeeded", 180)
    whole = runs.start("whole-too", TOKENS + text(""))
    whole.wait("succeeded", 180)
    expect("the weights are those of the undisturbed run, bit for bit", weights(training.run) == weights(whole),
           (weights(training.run), weights(whole)))


def weights(run):
    """Digests of the model that a run has published, by file."""
    manifest = json.loads((run.folder / "stages/s/out/manifest.json").read_text())
    found = {f["path"]: f["xxh3"] for f in manifest["files"] if f["path"].endswith(".safetensors")}
    expect("a model is published", found, manifest)
    return found


def goes_on_in_another_job(training, runs, victim):
    """Where a job's first node makes its steps, the job ends with that node, and the next one does without it."""
    wait_for("another job", lambda: len(training.run.submissions("s")) > 1, 90, training.run.story)
    retry = training.run.facts("retry", "s")[-1]["with"]
    expect("the host is named", retry["fault"] == "host_unreachable" and victim in retry["cause"], retry)
    training.file = training.run.folder / "stages/s/attempts/2/events.jsonl"
    training.wait(lambda: training.saved(1), "a checkpoint of the next job", 90)
    expect("without the host", victim not in training.events("launched")[-1]["hosts"], training.events("launched"))
    expect("from where the first one was", training.events("ready")[-1]["step"] >= retry["saved_step"], (training.events("ready"), retry))
    training.end(runs)


def lead_host_killed(cluster, runs, times):
    for number in range(times):
        training = Training(cluster, runs, f"lead-host-killed-{number}", "resiliency = { spares = 1 }\n")
        victim = training.events("launched")[0]["host"]
        begun = time.time()
        cluster.play("kill-node", victim)
        try:
            if cluster.first_node_makes_steps():
                goes_on_in_another_job(training, runs, victim)
                continue
            seen = training.recovery(begun, 1)
            fault = seen[2]
            BOARD.time("host of the lead killed", 2, 10, seen)
            BOARD.named("host of the lead killed", fault["host"] == victim, (fault, victim))
            expect_restart("lead_host_killed", fault, recovered=seen[3])
            expect_kept("lead_host_killed", training.events(), victim)
            training.end(runs)
        finally:
            boot(cluster, victim)


def host_cut(cluster, runs, times):
    for number in range(times):
        training = Training(cluster, runs, f"host-cut-{number}", "resiliency = { spares = 1 }\n")
        ranks = training.ranks(1)
        lead = training.events("launched")[0]["host"]
        victim = next(host for host in set(ranks.values()) if host != lead)
        begun = time.time()
        cluster.play("cut-node", victim)
        try:
            seen = training.recovery(begun, 1, 60)
            BOARD.time("host cut for good", 5, 12, seen)
            BOARD.named("host cut", seen[2]["host"] == victim, (seen[2], victim))
            expect_restart("host_cut", seen[2], recovered=seen[3])
            expect_kept("host_cut", training.events(), victim)
            training.end(runs)
        finally:
            cluster.play("join-node", victim)
            for pid, host in ranks.items():
                if host == victim:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            cluster.wait_nodes("idle")


def undisturbed(training, ranks):
    """It goes on, and nothing was ended."""
    saved = len(training.events("checkpoint"))
    training.wait(lambda: len(training.events("checkpoint")) >= saved + 3, "the training goes on", 30)
    expect("nothing was ended", not training.events("fault") and training.ranks(1) == ranks, training.events("fault"))


def host_cut_for_three_seconds(cluster, runs, times):
    training = Training(cluster, runs, "short-cut", "resiliency = { spares = 1 }\n")
    ranks = training.ranks(1)
    lead = training.events("launched")[0]["host"]
    victim = next(host for host in set(ranks.values()) if host != lead)
    for _ in range(times):
        cluster.play("cut-node", victim, "--seconds", str(lasts("host_cut_for_three_seconds")))  # one command: another may take seconds until it is at work
        undisturbed(training, ranks)
        BOARD.stopped_nothing("host cut for 3 s")
    training.end(runs)


class Gpus:
    """Simulated GPUs of every host: the agents' health checks load this library as NVIDIA's, one script for each host."""

    def __init__(self, cluster, runs, name):
        self.folder = runs.folder / f"{name}-gpus"
        self.folder.mkdir()
        library = runs.program.parent / "liblonghaul_fake_nvml.so"
        (self.folder / "libnvidia-ml.so.1").symlink_to(library)
        for node in cluster.nodes():
            (self.folder / f"{node}.script").write_text("at 0 devices 2\n")

    def job(self):
        return (f'job.environment = {{ LD_LIBRARY_PATH = "{self.folder}", FAKE_NVML_SCRIPT = "{self.folder}/%h.script" }}\n')

    def say(self, node, line):
        with open(self.folder / f"{node}.script", "a") as script:
            script.write(line + "\n")


def gpu_lost(cluster, runs, times):
    """A warning of a GPU is reported and stops nothing; XID 79 while the ranks still work: the host is left for the spare."""
    for number in range(times):
        gpus = Gpus(cluster, runs, f"gpu-lost-{number}")
        training = Training(cluster, runs, f"gpu-lost-{number}",
                            'resiliency = { spares = 1, health_interval = "1s" }\n' + gpus.job())
        ranks = training.ranks(1)
        lead = training.events("launched")[0]["host"]
        victim = next(host for host in sorted(set(ranks.values())) if host != lead)
        other = next(host for host in ranks.values() if host != victim)

        gpus.say(other, "at 0 device 0 remapped 3\nat 0 device 0 pending 1")
        training.wait(lambda: any(e["class"] == "gpu_remap_pending" for e in training.events("health")), "the warning", 10)
        warning = next(e for e in training.events("health") if e["class"] == "gpu_remap_pending")
        expect("it names host and severity", (warning["host"], warning["severity"]) == (other, "warning"), warning)
        saved = len(training.events("checkpoint"))
        training.wait(lambda: len(training.events("checkpoint")) >= saved + 3, "the training goes on", 30)
        expect("nothing was ended for a warning", not training.events("fault") and training.ranks(1) == ranks, training.events("fault"))

        begun = time.time()
        gpus.say(victim, "at 0 device 1 xid 79")
        seen = training.recovery(begun, 1)
        reported = [e for e in training.events("health") if e.get("xid") == 79]
        expect("one event names host, device and XID", [(e["host"], e["device"], e["class"]) for e in reported] == [(victim, "GPU 1", "gpu_lost")], reported)
        fault = seen[2]
        expect_restart("gpu_lost", fault, victim, seen[3])
        expect("for what was found", "XID 79" in fault["cause"], fault)
        expect_kept("gpu_lost", training.events(), victim)
        expect("the spare works in its place", len(training.events("launched")[-1]["hosts"]) == 2, training.events("launched"))
        BOARD.time("XID 79 while the ranks work, a spare there", 2, 8, seen)
        BOARD.named("XID 79", fault["host"] == victim, (fault, victim))
        training.end(runs)


def gpu_lost_and_only_reported(cluster, runs, times):
    """The same where nobody is to act, and where no spare is there: it is reported, and the training goes on."""
    for name, settings in (("watch", 'spares = 1, health = "watch"'), ("no-spare", "spares = 0")):
        gpus = Gpus(cluster, runs, f"gpu-reported-{name}")
        training = Training(cluster, runs, f"gpu-reported-{name}", f'resiliency = {{ {settings}, health_interval = "1s" }}\n' + gpus.job())
        ranks = training.ranks(1)
        gpus.say(sorted(set(ranks.values()))[0], "at 0 device 1 xid 79")
        training.wait(lambda: any(e.get("xid") == 79 for e in training.events("health")), "the event", 10)
        saved = len(training.events("checkpoint"))
        training.wait(lambda: len(training.events("checkpoint")) >= saved + 3, "the training goes on", 30)
        expect("nothing was ended", not training.events("fault") and training.ranks(1) == ranks, training.events("fault"))
        training.end(runs)


def refused_by_check(cluster, runs, times):
    """A site's own check refuses a host before the first launch: it gets no ranks, the spare does."""
    check = runs.folder / "check.sh"
    check.write_text("#!/bin/sh\necho looking at $SLURMD_NODENAME\n[ $SLURMD_NODENAME != n2 ] || { echo fan 3 stands still; exit 4; }\n")
    check.chmod(0o755)
    for number in range(times):
        cluster.wait_nodes("idle")  # the job has n2 among its three hosts
        training = Training(cluster, runs, f"refused-{number}",
                            f'resiliency = {{ spares = 1, preflight_floor = 0.1, health_command = "{check} --all" }}\n')
        launched = training.events("launched")[0]
        expect("two other hosts work", "n2" not in launched["hosts"] and len(launched["hosts"]) == 2, launched)
        reported = [e for e in training.events("health") if e["class"] == "site_check"]
        expect("one event with the check's last line", len(reported) == 1 and reported[0]["host"] == "n2" and "fan 3 stands still" in reported[0]["what"]
               and "looking at" not in reported[0]["what"], reported)
        looked = training.events("preflight")[0]
        expect("every host was looked at", looked["left"] == ["n2"] and looked["unfit"] == ["n2"] and not looked["not_looked_at"], looked)
        print(f"  pre-flight: the first launch waited {looked['waited_s']:.2f} s", flush=True)
        expect("nothing was ended", not training.events("fault"), training.events("fault"))
        training.end(runs)
    # A check that refuses every host is itself wrong: it is reported, and the job works with what it has.
    check.write_text("#!/bin/sh\nexit 1\n")
    training = Training(cluster, runs, "all-refused", f'resiliency = {{ spares = 1, health_command = "{check}" }}\n')
    expect("reported for every host", len([e for e in training.events("health") if e["class"] == "site_check"]) == 3, training.events("health"))
    expect("no host is set aside", training.events("preflight")[0]["left"] == [], training.events("preflight"))
    training.end(runs)


def slow_beside(figures, host):
    """Whether the network of one of three hosts is slow beside that of the others (docs/resiliency.md, the checks of nodes): on cores
    that are shared these may be so slow themselves, or so different, that none is."""
    if len(figures) < 3:
        return False  # one had no time to say its figure
    own, middle = figures[host], statistics.median(figures.values())
    return own < 0.1 * middle and middle - own > 3 * 1.4826 * statistics.median(abs(of - middle) for of in figures.values())


def slow_network(cluster, runs, times):
    """A host whose network sends slowly, to whomever: it is named with its figure before the first launch, and the spare works
    in its place."""
    for number in range(times):
        if not any(slow_network_tried(cluster, runs, f"{number}-{attempt}") for attempt in range(4)):
            raise ClusterError("four times it was not slow beside the other hosts")


def slow_network_tried(cluster, runs, name):
    limit = ("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "40mbit", "burst", "64kbit", "latency", "50ms")
    cluster.wait_nodes("idle")  # the job has n2 among its three hosts
    cluster.play("exec", "n2", "--", *limit)
    try:
        training = Training(cluster, runs, f"slow-network-{name}", "resiliency = { spares = 1, preflight_floor = 0.1 }\n")
    finally:
        cluster.play("exec", "n2", "--", "tc", "qdisc", "del", "dev", "eth0", "root")
    launched, looked = training.events("launched")[0], training.events("preflight")[0]
    expect("figures of each host", sorted(looked["figures"]) == ["n1", "n2", "n3"], looked)
    network = {host: of["network_mb_per_s"] for host, of in looked["figures"].items() if "network_mb_per_s" in of}
    expect("the host that sends slowly is known for it", network.get("n2", 0) < 10, looked)
    reported = [e for e in training.events("health") if e["class"] == "slow_host"]
    slow = slow_beside(network, "n2")
    if slow:
        expect("one event with host and figure", [e["host"] for e in reported] == ["n2"] and "MB/s of network" in reported[0]["what"], reported)
        expect("it is set aside", looked["slow"] == ["n2"] and looked["left"] == ["n2"], looked)
        expect("two other hosts work", "n2" not in launched["hosts"] and len(launched["hosts"]) == 2, launched)
        print(f"  slow network: {reported[0]['what']}; the first launch waited {looked['waited_s']:.2f} s", flush=True)
    else:
        print(f"  slow network: {network} MB/s, none is slow beside the others", flush=True)
        expect("none is named", not any("network" in e["what"] for e in reported), reported)
    expect("nothing was ended", not training.events("fault"), training.events("fault"))
    training.end(runs)
    return slow


@contextlib.contextmanager
def no_control(cluster, attempt):
    """What agents and lead of an attempt say to each other is lost: in every direction, by the ports of lead and standby."""
    ports = []
    for file in attempt.glob("*address*"):
        ports += [int(arg) for arg in re.findall(r"port\W+(\d+)", file.read_text())]
    expect("ports of the lead and of the standby", ports, "no address files")
    rules = [("pref", str(100 + i), "ipproto", "tcp", end, str(port), "blackhole") for i, (port, end) in
             enumerate((p, e) for p in ports for e in ("dport", "sport"))]
    try:
        for host in cluster.nodes():
            cluster.play("exec", host, "--", "sh", "-e", "-c", "; ".join("ip rule add " + " ".join(rule) for rule in rules))
        yield
        said = cluster.play("exec", cluster.nodes()[-1], "--", "ip", "rule")
        expect("the cut was there", "blackhole" in said, said)
    finally:
        for host in cluster.nodes():
            cluster.call(PROGRAM, "exec", "--state", cluster.state, host, "--", "sh", "-c",
                         "; ".join("ip rule del " + " ".join(rule) for rule in rules), check=False)


def control_cut(cluster, runs, times):
    """For longer than a host may be silent."""
    training = Training(cluster, runs, "control-cut", "resiliency = { spares = 1 }\n")
    ranks = training.ranks(1)
    for _ in range(times):
        with no_control(cluster, training.run.folder / "stages/s/attempts/1"):
            time.sleep(20 if BOARD.table else 8)
        expect("agents have lost their lead", "event=lead_lost" in training.log(), training.log())
        undisturbed(training, ranks)
        BOARD.stopped_nothing("control plane cut")
    training.end(runs)


def allocation_lost(cluster, runs, times):
    """A host of a job that does not outlive it. Slurm's state of it ends the job, and another one follows without that host:
    detected is from Slurm's end of the job to the next submission, again from Slurm's start of that to its first step."""
    for number in range(times):
        training = Training(cluster, runs, f"allocation-lost-{number}", requeue="no")
        first = training.run.job("s")
        victim = sorted(set(training.ranks(training.launches()).values()))[-1]
        cluster.play("kill-node", victim)
        try:
            wait_for("another job", lambda: len(training.run.submissions("s")) > 1, 90, training.run.story)
            second = training.run.job("s")
            events = training.run.folder / "stages/s/attempts/2/events.jsonl"

            def steps():
                return [e for e in json_lines(events) if e["kind"] == "metric" and "loss" in e]
            wait_for("its first step", steps, 60, training.run.story)
            ended, started = slurm_time(cluster, first, "EndTime"), slurm_time(cluster, second, "StartTime")
            submitted = training.run.submissions("s")[-1]
            again = steps()[0]["ms"] / 1000 - started
            retry = [f for f in training.run.facts("retry", "s")][-1]["with"]
            BOARD.time("allocation lost", 2, 5, (submitted["ms"] / 1000 - ended, again, retry, {}))
            reported = training.events("fault")
            BOARD.named("allocation lost", retry.get("node") == victim and reported and reported[-1]["host"] == victim, (retry, reported, victim))
            expect_restart("allocation_lost", reported[-1], victim)
            runs.longhaul("cancel", training.run.folder)
            training.run.wait("cancelled", 60)
        finally:
            boot(cluster, victim)


def slurm_time(cluster, job, field):
    """Whole seconds, as slurmctld has it."""
    said = cluster.call("scontrol", "show", "job", job).stdout
    return time.mktime(time.strptime(re.search(rf"{field}=(\S+)", said).group(1), "%Y-%m-%dT%H:%M:%S"))


SLOW_SAVE = """
kind = "command"
job = { gpus_per_node = 0, class = "short", resumable = "yes", stop_before = "40s" }
script = '''
if [ -f "$LONGHAUL_STATE/saved" ]; then echo done > "$LONGHAUL_OUT/text"; exit 0; fi
trap 'sleep 14; echo all > "$LONGHAUL_STATE/saved"; exit 1' TERM
touch "$LONGHAUL_STATE/ready"
sleep 100 & wait
'''
"""


def a_last_save_has_the_time_that_is_left(cluster, runs, times):
    """Asked to stop 40 s before the end of its time, a program needs 14 s to save: longer than the grace after a cancellation."""
    run = runs.start("slow-save", "[stage.s]\n" + SLOW_SAVE)
    run.wait("succeeded", 180)
    records = [json.loads(p.read_text()) for p in sorted(run.folder.glob("stages/s/attempts/*/record*.json"))]
    expect("the first job ended with its wall time, and the second had what it saved",
           [(r["outcome"], r.get("ended_by", "")) for r in records] == [("failed", "wall_time"), ("succeeded", "")], records)


CASES = {case.__name__: case for case in (
    gpu_lost, gpu_lost_and_only_reported, refused_by_check, slow_network, transient_error, host_cut, host_cut_for_three_seconds, control_cut, rank_frozen, rank_hung, step_skipped, rank_killed, rank_aborts, rank_throws,
    host_killed, agent_killed, lead_killed, shrunk, lead_host_killed, allocation_lost)}
# Only when asked for: the first takes a minute, and unit_worker has it, too; the second trains twice to the end.
BY_NAME = {case.__name__: case for case in (a_last_save_has_the_time_that_is_left, grown_back, stuck_collective)}


def main():
    arguments = case_arguments(__doc__)
    arguments.add_argument("--times", type=int, default=1)
    arguments.add_argument("--table", action="store_true")
    given = arguments.parse_args()
    BOARD.table = given.table

    def judged():
        BOARD.print()
        return BOARD.missed()
    return play_cases(new_runs("faults-live", given.longhaul), chosen_cases(CASES, given.cases, BY_NAME), (given.times,), judged)


if __name__ == "__main__":
    sys.exit(main())
