#!/usr/bin/env python3
"""What people need once runs are under way, on a real Slurm: messages from compute hosts, orders, a fork, a cancellation.
Every run is driven by the leads of its jobs; the session that submitted it is killed.

usage: day_one_slurm_test.py LONGHAUL [CASE ...]
"""
import json
import os
import pathlib
import shutil
import sys
import time

from slurm_cluster import attach, wait_for
from slurm_runs import (MODEL, SMALL, TOKENS, Run, bytes_of, case_arguments, chosen_cases, expect, files_below, json_lines, new_runs,
                        play_cases, stage)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from webhook import Hook, make_certificate  # noqa: E402

REQUEUED = 'threads = 1\njob = { gpus_per_node = 0, requeue = "yes" }'
SECRET = "very-secret-path-0123456789"
TRAINING = TOKENS + f"""[stage.pretrain]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
ranks = 2
nodes = 2
threads = 1
sequence_length = 32
micro_batch_size = 2
global_batch_size = 64
steps = %d
checkpoint = {{ every_steps = %d, keep_last = 50 }}
{MODEL}
optimizer = {{ lr = 1e-2, warmup_steps = 5 }}
"""
ALL_EVENTS = 'events = ["run_started", "stage_failed", "stage_retried", "run_completed"]'

cluster = attach()
here = cluster.scratch / "day-one"
address = f"10.{json.loads((cluster.state / 'cluster.json').read_text())['net']}.0.1"  # of the machine, as hosts see it
runs = None  # Runs
_cases = []


def case(function):
    _cases.append(function)
    return function


class Webhook:
    """On the bridge, with a certificate of its own, and sites that know it."""

    def __init__(self, name):
        self.folder = here / name
        self.folder.mkdir()
        make_certificate(self.folder, "webhook", f"IP:{address}")
        self.hook = Hook(certificate=self.folder / "both", address=address)
        url = self.folder / "url"
        url.write_text(f"https://{address}:{self.hook.port}/{SECRET}\n")
        url.chmod(0o600)

    def site(self, name, internet="yes", trusted=True):
        path = self.folder / f"{name}.toml"
        ca = f'ca_file = "{self.folder}/cert"\n' if trusted else ""
        path.write_text(f'inherits = "test-cluster"\n[can]\ninternet = "{internet}"\n[notify]\nurl_file = "{self.folder}/url"\n'
                        f"{ca}{ALL_EVENTS}\n")
        return path

    def reported(self, run):
        return sorted((m["event"], m["stage"]) for m in self.hook.accepted if m["run"] == run.folder.name)

    def expect_messages(self, run, wanted):
        """All of it, and in the end none twice."""
        wait_for(f"the messages of {run.folder.name}", lambda: len(self.reported(run)) >= len(wanted), 30,
                 lambda: f"{self.reported(run)}\n{run.story()}")
        expect("each message once", self.reported(run) == sorted(wanted), self.reported(run))
        mine = [m for m in self.hook.accepted if m["run"] == run.folder.name]
        expect("each with an id of its own", len({m["id"] for m in mine}) == len(mine), mine)
        holders = [str(p) for p in files_below(run.folder) if SECRET.encode() in bytes_of(p)]
        expect("the address is not in the run", not holders, holders)


def start_alone(name, text, **more):
    """Driven by its leads only: the session that submitted it is gone with its first job."""
    run = runs.start(name, text, driver="lead", **more)
    wait_for("the first job", run.submissions, 30, run.story)
    # A message whose sender is killed on the way is sent again by a later round only when it is surely not on its way.
    wait_for("no message is on its way", lambda: not list(run.folder.glob("notify/sending/*")), 30, run.story)
    run.kill_session()
    return run


def metrics(run, stage_name="pretrain"):
    """What ranks said of their steps, of all attempts."""
    return [e for p in sorted((run.folder / "stages" / stage_name / "attempts").glob("*/events.jsonl"))
            for e in json_lines(p) if e.get("kind") == "metric" and "lr" in e]


def expect_nothing_left(run):
    wait_for("no job of it in the queue", lambda: run.folder.name not in cluster.call("squeue", "-h", "-o", "%j %o").stdout, 20,
             lambda: cluster.call("squeue", "-o", "%i %j %T %r").stdout)
    mine = f"{run.folder}/".encode()

    def left():
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if mine in pathlib.Path(f"/proc/{name}/environ").read_bytes() + pathlib.Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(name)
            except OSError:
                pass  # ended meanwhile
        return found
    wait_for("no process of it on any host", lambda: not left(), 20, left)


@case
def messages_come_from_compute_hosts_each_once():
    hook = Webhook("hook")
    again = 'test -e "$LONGHAUL_STATE/tried" || { touch "$LONGHAUL_STATE/tried"; exit 3; }'
    run = start_alone("reported", stage("a", again, f"retries = 1\n{SMALL}") +
                      stage("b", "exit 4", f'needs = ["a"]\nretries = 0\non_failure = "continue"\n{SMALL}') +
                      stage("c", "true", f'needs = ["a"]\n{SMALL}'), site=hook.site("online"))
    run.wait("succeeded", 60)
    hook.expect_messages(run, [("run_started", ""), ("stage_retried", "a"), ("stage_failed", "b"), ("run_completed", "")])
    expect("nothing waits", "sent 0, waiting 0" in runs.longhaul("notify", run.folder))
    hook.hook.close()


@case
def a_job_that_slurm_queues_again_is_a_restart_that_is_reported():
    hook = Webhook("requeue-hook")
    run = start_alone("requeued", stage("a", 'test "${SLURM_RESTART_COUNT:-0}" -gt 0 || sleep 300', REQUEUED), site=hook.site("online"))
    run.wait_stage_job("a")
    cluster.call("scontrol", "requeue", run.job("a"))
    run.wait("succeeded", 60)
    hook.expect_messages(run, [("run_started", ""), ("stage_retried", "a"), ("run_completed", "")])
    hook.hook.close()


@case
def a_webhook_that_is_not_trusted_gets_nothing_from_any_host():
    hook = Webhook("untrusted-hook")
    run = start_alone("untrusted", stage("a", "true", SMALL), site=hook.site("untrusted", trusted=False)).wait("succeeded", 60)
    # The message is sent while the run ends, and beyond.
    wait_for("status says that it could not be sent", lambda: "could not be sent" in runs.longhaul("status", run.folder), 30)
    said = runs.longhaul("status", run.folder)
    expect("status says why", "not trusted" in said, said)
    expect("nothing was posted", not hook.hook.posts, hook.hook.posts)
    hook.hook.close()


@case
def hosts_without_internet_leave_their_messages_to_the_login_node():
    hook = Webhook("relayed-hook")
    run = start_alone("relayed", stage("a", "true", SMALL) + stage("b", "true", f'needs = ["a"]\n{SMALL}'),
                      site=hook.site("offline", internet="no")).wait("succeeded", 60)
    expect("no lead has sent", ("run_completed", "") not in hook.reported(run), hook.reported(run))
    runs.longhaul("notify", run.folder)
    hook.expect_messages(run, [("run_started", ""), ("run_completed", "")])
    runs.longhaul("notify", run.folder)
    hook.expect_messages(run, [("run_started", ""), ("run_completed", "")])
    hook.hook.close()


@case
def orders_reach_the_lead_on_a_compute_host_and_a_fork_goes_on_there():
    run = start_alone("steered", TRAINING % (200000, 0))
    wait_for("steps", lambda: metrics(run), 60, run.story)
    said = runs.longhaul("tell", run.folder, "checkpoint")
    expect("saved", "pretrain: checkpoint: done at step" in said, said)
    said = runs.longhaul("tell", run.folder, "set", "lr=5e-4")
    expect("set", "lr = 0.0005: done" in said, said)
    expect("refused with the reason", "longhaul fork" in runs.longhaul("tell", run.folder, "set", "hidden_size=8", code=3))
    step = metrics(run)[-1]["step"] + 1500
    said = runs.longhaul("tell", run.folder, "stop-after", step, seconds=120)
    expect("stop", "stop after step" in said, said)
    run.wait("succeeded", 90)
    rates = [(e["step"], e["lr"]) for e in metrics(run)]
    expect("it ended where it was asked to", rates[-1][0] == step, rates[-1])
    expect("the rate changed, and held", rates[-1][1] < 5.1e-4 and max(lr for _, lr in rates) > 5e-3, rates[-1])
    expect_nothing_left(run)
    fork_of(run, step)


def fork_of(run, step):
    before = set(run.folder.parent.glob("*"))
    runs.longhaul("fork", run.folder, "--from", f"pretrain@{step}", "--set", "stage.pretrain.optimizer.lr=1e-3", "--set",
                  f"stage.pretrain.steps={step + 40}")
    made = [p for p in run.folder.parent.glob("steered-*") if p not in before]
    expect("one run is made", len(made) == 1, made)
    jobs_before = len(cluster.records())
    runs.longhaul("resume", made[0])  # its leads drive it, as they did the other one
    fork = Run(runs, made[0], run.process).wait("succeeded", 60)
    expect("what lies before is taken as it is", {s: fork.stages()[s] for s in ("corpus", "tokens")} ==
           {"corpus": "cached", "tokens": "cached"}, fork.stages())
    steps = [e["step"] for e in metrics(fork)]
    expect("it went on from there, to its own end", (steps[0], steps[-1]) == (step + 1, step + 40), steps)
    expect("with the changed rate", metrics(fork)[-1]["lr"] < 1.1e-3, metrics(fork)[-1])
    # The run has ended when the lead says so, Slurm's record comes when its job has.
    wait_for("a job of Slurm's on two hosts", lambda: "2" in [r["NodeCnt"] for r in cluster.records()[jobs_before:]], 30)
    said = runs.longhaul("status", made[0])
    expect("its origin is reported", f"goes on from step {step}" in said and run.folder.name in said, said)
    expect_nothing_left(fork)


@case
def a_cancelled_training_leaves_nothing_and_says_so_once():
    hook = Webhook("cancel-hook")
    run = start_alone("cancelled", TRAINING % (200000, 0), site=hook.site("online"))
    wait_for("steps", lambda: metrics(run), 60, run.story)
    begin = time.monotonic()
    runs.longhaul("cancel", run.folder, code=None)
    run.wait("cancelled", 60)
    expect("nobody waited for a lead that has left", time.monotonic() - begin < 20, time.monotonic() - begin)
    expect_nothing_left(run)
    hook.expect_messages(run, [("run_started", ""), ("run_completed", "")])
    hook.hook.close()


def main():
    global runs
    given = case_arguments(__doc__).parse_args()
    runs = new_runs("day-one", given.longhaul, seed=20260301, languages=("en",))
    cases = {function.__name__: lambda *_, function=function: function() for function in _cases}
    code = play_cases(runs, chosen_cases(cases, given.cases), each_alone=True)
    if code == 0:
        shutil.rmtree(here, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
