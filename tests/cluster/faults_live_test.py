#!/usr/bin/env python3
"""Faults of a training over hosts of the Slurm cluster, made from outside: which is found within what time, who is named,
and when the next optimizer step is completed.

usage: faults_live_test.py LONGHAUL [CASE ...] [--times N]

Every case kills, freezes or cuts something of a running training and reads what its lead wrote: the events `fault` and
`recovered`. The clock runs from the fault as this script made it to the first step that rank 0's heartbeat shows as
completed after it. With --times the medians are printed beside the bars.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import sys
import time
import traceback

from slurm_cluster import ClusterError, attach, wait_for
from slurm_runs import SMALL, TOKENS, Runs, expect

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from tiny_inputs import write_pages  # noqa: E402

SHAPE = ("hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, "
         "max_position_embeddings = 64")
STEPS = 100_000


def pretrain(more="", nodes=2):
    return (f'[stage.s]\nkind = "pretrain"\ninputs = {{ tokens = "@tokens" }}\nprecision = "f32"\nsteps = {STEPS}\n'
            f"sequence_length = 64\nmicro_batch_size = 2\nglobal_batch_size = 8\n{SMALL}\nmodel = {{ {SHAPE} }}\n"
            f"parallel = {{ dp_shard = 4, zero = 1 }}\nnodes = {nodes}\n"
            f"checkpoint = {{ every_steps = 20, keep_last = 2 }}\n{more}")


class Training:
    """A run whose stage `s` trains; its events as they come, with the time at which a line was seen."""

    def __init__(self, cluster, runs, name, more="", nodes=2, options=(), driver="lead", text=None):
        self.cluster = cluster
        self.run = runs.start(name, TOKENS + (text or pretrain(more, nodes)), *options, driver=driver)
        self.file = self.run.folder / "stages/s/attempts/1/events.jsonl"
        self.wait(lambda: self.saved(1), "a checkpoint of the first launch", 90)

    def events(self, kind=None):
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return [e for e in found if kind in (None, e["kind"])]

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
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
                if not words[0].endswith(b"longhaul-engine"):
                    continue
                if not any(self.run.folder.name.encode() in w and f"/launches/{launch}/".encode() in w for w in words):
                    continue
                for variable in (entry / "environ").read_bytes().split(b"\0"):
                    if variable.startswith(b"SLURMD_NODENAME="):
                        found[int(entry.name)] = variable.split(b"=")[1].decode()
            except OSError:
                continue
        return found

    def recovery(self, begun, faults, seconds=30):
        """Waits for the `recovered` event number `faults`; (detected after, trained again after, both events)."""
        self.wait(lambda: len(self.events("recovered")) >= faults, f"recovery number {faults}", seconds)
        fault, recovered = self.events("fault")[-1], self.events("recovered")[-1]
        # Event times are of the lead's host, which is this machine's clock.
        again = recovered["ms"] / 1000 - begun
        detected = again - (recovered["total_s"] - recovered["detect_s"])
        return detected, again, fault, recovered

    def end(self, runs):
        runs.longhaul("cancel", self.run.folder)
        self.run.wait("cancelled", 60)


def print_times(what, times, bars):
    detected, again = [statistics.median(t[i] for t in times) for i in (0, 1)]
    parts = {part: statistics.median(t[3].get(part, 0) for t in times)
             for part in ("detect_s", "stop_s", "start_s", "load_s", "first_step_s")}
    print(f"  {what}: {len(times)} times, median detected after {detected:.2f} s (bar {bars[0]}), trained again after "
          f"{again:.2f} s (bar {bars[1]}), slowest {max(t[1] for t in times):.2f} s; "
          + ", ".join(f"{name} {value:.2f}" for name, value in parts.items()), flush=True)
    return detected, again


def rank_killed(cluster, runs, times):
    training = Training(cluster, runs, "rank-killed")
    seen = []
    for number in range(1, times + 1):
        ranks = training.ranks(training.launches())
        expect("four ranks on two hosts", len(ranks) == 4 and len(set(ranks.values())) == 2, ranks)
        victim = sorted(ranks)[number % 4]
        begun = time.time()
        os.kill(victim, signal.SIGKILL)
        killed_in = training.launches()
        seen.append(training.recovery(begun, number))
        # Open MPI 4.1 may crash while it connects ranks anew: a further fault, and a further launch.
        fault = next(e for e in training.events("fault") if e["launch"] == killed_in)
        expect("in-job", fault["tier"] == "in_job", fault)
        expect("the victim's host is named", fault["host"] == ranks[victim], (fault, ranks, victim))
        launch = training.launches()
        training.wait(lambda: training.saved(launch), f"a checkpoint of launch {launch}")
    training.end(runs)
    print_times("rank killed", seen, ("0.5 s", "5 s"))


def host_killed(cluster, runs, times):
    seen = []
    for number in range(times):
        training = Training(cluster, runs, f"host-killed-{number}", "resiliency = { spares = 1 }\n")
        ranks = training.ranks(1)
        lead = training.events("launched")[0]["host"]
        victim = next(host for host in set(ranks.values()) if host != lead)
        begun = time.time()
        cluster.play("kill-node", victim)
        try:
            seen.append(training.recovery(begun, 1))
            fault = seen[-1][2]
            expect("swap", fault["tier"] == "swap" and fault["host"] == victim, fault)
            hosts = training.events("launched")[-1]["hosts"]
            expect("the spare works in its place", victim not in hosts and len(hosts) == 2, hosts)
            expect("it goes on from the newest checkpoint", seen[-1][3]["lost_steps"] <= 41, seen[-1])
            training.end(runs)
        finally:
            cluster.play("start-node", victim)
    print_times("host killed, a spare there", seen, ("2 s", "8 s"))


def rank_frozen(cluster, runs, times):
    training = Training(cluster, runs, "rank-frozen", 'resiliency = { hang_floor = "3s", host_silent = "2s" }\n')
    seen, suspected = [], []
    for number in range(1, times + 1):
        ranks = training.ranks(training.launches())
        victim = sorted(ranks)[number % 4]
        launch = training.launches()
        # The timeouts are learned once the first steps are done.
        training.wait(lambda: len(training.saved(launch)) >= 2, f"two checkpoints of launch {launch}")
        begun = time.time()
        os.kill(victim, signal.SIGSTOP)
        seen.append(training.recovery(begun, number))
        fault = seen[-1][2]
        expect("a hang, restarted in the job", (fault["class"], fault["tier"]) == ("hang", "in_job"), fault)
        expect("the victim's host is named", fault["host"] == ranks[victim], (fault, ranks, victim))
        suspicion = [e for e in training.events("hang_suspected") if e["launch"] == launch]
        expect("suspected first", suspicion, fault)
        suspected.append(suspicion[0]["ms"] / 1000 - begun)
        training.wait(lambda: training.saved(launch + 1), f"a checkpoint of launch {launch + 1}")
    training.end(runs)
    print(f"  rank frozen: suspected after {statistics.median(suspected):.2f} s (bar 2 s)", flush=True)
    print_times("rank frozen", seen, ("the learned timeout, here 3 s", "8 s"))


def transient_error(cluster, runs, times):
    """An error inside a step of one rank; all processes stay, and go on in communicators of a new epoch."""
    plan = runs.folder / "transient.plan"
    plan.write_text("".join(f"engine_update error nth={200 * (n + 1)} rank={n % 4}\n" for n in range(times)))
    training = Training(cluster, runs, "transient", options=("--worker-fault-plan", plan), driver="here")
    ranks, seen = training.ranks(1), []
    for number in range(1, times + 1):
        training.wait(lambda: len(training.events("faulted")) >= number, f"fault number {number}", 60)
        training.recovery(time.time(), number)
        begun = training.events("faulted")[number - 1]["ms"] / 1000
        fault, recovered = training.events("fault")[number - 1], training.events("recovered")[number - 1]
        again = recovered["ms"] / 1000 - begun
        seen.append((fault["ms"] / 1000 - begun, again, fault, recovered))
        expect("in-process", fault["tier"] == "in_process" and fault["rank"] == (number - 1) % 4, fault)
    expect("nothing was started anew", training.ranks(1) == ranks and training.launches() == 1, training.events("launched"))
    training.end(runs)
    print_times("transient error, all ranks alive", seen, ("0.5 s", "2 s"))


def leads(run):
    """Process ids of the lead of this run, held or taken over, without the script's own process."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
        except OSError:
            continue
        if b"lead" in words and run.folder.name.encode() in b" ".join(words) and (b"--held" in words or b"--take-over" in words):
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
    training.end(runs)
    print_times("rank killed under the second lead", [seen], ("0.5 s", "5 s"))


def shrunk(cluster, runs, times):
    """No spare is left: fewer replicas go on, and come to the very weights of a training that nothing happened to."""
    steps = 600
    def text(resiliency):
        return (pretrain(resiliency, nodes=4).replace(f"steps = {STEPS}", f"steps = {steps}", 1))
    whole = runs.start("whole", TOKENS + text(""))
    whole.wait("succeeded", 180)
    seen = []
    for number in range(times):
        training = Training(cluster, runs, f"shrunk-{number}", nodes=4, text=text("resiliency = { shrink = true }\n"))
        ranks = training.ranks(1)
        expect("four ranks on four hosts", len(ranks) == 4 and len(set(ranks.values())) == 4, ranks)
        lead = training.events("launched")[0]["host"]
        # Every second time the lead's own host: the standby decides then.
        victim = lead if number % 2 else next(host for host in sorted(set(ranks.values())) if host != lead)
        begun = time.time()
        cluster.play("kill-node", victim)
        try:
            seen.append(training.recovery(begun, 1))
            fault = seen[-1][2]
            expect("shrink", fault["tier"] == "shrink" and fault["host"] == victim, fault)
            launched = training.events("launched")[-1]
            expect("two replicas on two hosts", launched["ranks"] == 2 and len(launched["hosts"]) == 2
                   and victim not in launched["hosts"] and launched["layout"] == "dp=2 zero=1", launched)
            training.run.wait("succeeded", 180)
        finally:
            cluster.play("start-node", victim)
            cluster.wait_nodes("idle")
        expect("the weights are those of the undisturbed run, bit for bit", weights(training.run) == weights(whole),
               (weights(training.run), weights(whole)))
    print_times("host killed, no spare, shrink", seen, ("2 s", "8 s"))


def weights(run):
    """Digests of the model that a run has published, by file."""
    manifest = json.loads((run.folder / "stages/s/out/manifest.json").read_text())
    found = {f["path"]: f["xxh3"] for f in manifest["files"] if f["path"].endswith(".safetensors")}
    expect("a model is published", found, manifest)
    return found


def lead_host_killed(cluster, runs, times):
    seen = []
    for number in range(times):
        training = Training(cluster, runs, f"lead-host-killed-{number}", "resiliency = { spares = 1 }\n")
        victim = training.events("launched")[0]["host"]
        begun = time.time()
        cluster.play("kill-node", victim)
        try:
            seen.append(training.recovery(begun, 1))
            fault = seen[-1][2]
            expect("swap", fault["tier"] == "swap" and fault["host"] == victim, fault)
            expect("the spare works in its place", victim not in training.events("launched")[-1]["hosts"], fault)
            training.end(runs)
        finally:
            cluster.play("start-node", victim)
    print_times("host of the lead killed", seen, ("2 s", "10 s"))


def host_cut(cluster, runs, times):
    seen = []
    for number in range(times):
        training = Training(cluster, runs, f"host-cut-{number}", "resiliency = { spares = 1 }\n")
        ranks = training.ranks(1)
        lead = training.events("launched")[0]["host"]
        victim = next(host for host in set(ranks.values()) if host != lead)
        begun = time.time()
        cluster.play("cut-node", victim)
        try:
            seen.append(training.recovery(begun, 1, 60))
            fault = seen[-1][2]
            expect("swap", fault["tier"] == "swap" and fault["host"] == victim, fault)
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
    print_times("host cut from the network, a spare there", seen, ("5 s", "12 s"))


def host_cut_for_three_seconds(cluster, runs, times):
    training = Training(cluster, runs, "short-cut", "resiliency = { spares = 1 }\n")
    ranks = training.ranks(1)
    lead = training.events("launched")[0]["host"]
    victim = next(host for host in set(ranks.values()) if host != lead)
    for _ in range(times):
        cluster.play("cut-node", victim)
        time.sleep(3)
        cluster.play("join-node", victim)
        saved = len(training.events("checkpoint"))
        training.wait(lambda: len(training.events("checkpoint")) >= saved + 3, "the training goes on", 30)
    expect("nothing was ended", not training.events("fault") and training.ranks(1) == ranks, training.events("fault"))
    training.end(runs)


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
    """Told 40 s before the end of its time, a program needs 14 s to save: longer than the grace after a cancellation."""
    run = runs.start("slow-save", "[stage.s]\n" + SLOW_SAVE)
    run.wait("succeeded", 180)
    records = [json.loads(p.read_text()) for p in sorted(run.folder.glob("stages/s/attempts/*/record*.json"))]
    expect("the first job ended with its wall time, and the second had what it saved",
           [(r["outcome"], r.get("ended_by", "")) for r in records] == [("failed", "wall_time"), ("succeeded", "")], records)


CASES = {"transient_error": transient_error, "host_cut": host_cut, "host_cut_for_three_seconds": host_cut_for_three_seconds, "rank_frozen": rank_frozen, "rank_killed": rank_killed, "host_killed": host_killed, "lead_killed": lead_killed, "shrunk": shrunk,
         "lead_host_killed": lead_host_killed,
         "last_save": a_last_save_has_the_time_that_is_left}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("longhaul")
    arguments.add_argument("cases", nargs="*", default=[])
    arguments.add_argument("--times", type=int, default=1)
    given = arguments.parse_args()
    cluster = attach()
    folder = cluster.scratch / "faults-live"
    shutil.rmtree(folder, ignore_errors=True)
    runs = Runs(cluster, given.longhaul, folder)
    write_pages(folder / "pages", 20260303, pages=8)
    failed = 0
    names = given.cases or list(CASES)
    for name in names:
        start = time.monotonic()
        try:
            CASES[name](cluster, runs, given.times)
            outcome = "ok"
        except ClusterError as error:
            failed, outcome = failed + 1, f"FAILED: {error}"
            cluster.cancel_all()
        except Exception:  # a mistake in one case must not hide the others
            failed, outcome = failed + 1, f"FAILED: {traceback.format_exc()}"
            cluster.cancel_all()
        print(f"{name} ({time.monotonic() - start:.1f} s): {outcome}", flush=True)
    runs.end_all()
    cluster.cancel_all()
    print(f"test cases: {len(names)} | {len(names) - failed} passed | {failed} failed | 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
