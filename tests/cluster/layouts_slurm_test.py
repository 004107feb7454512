#!/usr/bin/env python3
"""Layouts over two hosts of the Slurm cluster: the losses of one rank, and a rank of the second host that is killed.

usage: layouts_slurm_test.py LONGHAUL [CASE ...]
"""
import os
import pathlib
import re
import signal
import sys
import time
import tomllib

from slurm_cluster import wait_for
from slurm_runs import SMALL, TOKENS, case_arguments, chosen_cases, expect, json_lines, new_runs, play_cases

SHAPE = ("hidden_size = 32, num_hidden_layers = 4, num_attention_heads = 4, num_key_value_heads = 2, "
         "max_position_embeddings = 64")
MODELS = {"dense": f"model = {{ {SHAPE} }}",
          "experts": f'model = {{ architecture = "mixtral", num_local_experts = 4, moe_intermediate_size = 32, {SHAPE} }}'}
LAYOUTS = {"dense": {"tp-pp": "{ tp = 2, pp = 2 }", "cp": "{ cp = 2 }"},
           "experts": {"ep": "{ dp_shard = 4, ep = 4, zero = 3 }"}}
STEPS = 12


def pretrain(name, model, parallel, steps=STEPS, more=""):
    return (f'[stage.{name}]\nkind = "pretrain"\ninputs = {{ tokens = "@tokens" }}\nprecision = "f32"\nsteps = {steps}\n'
            f"sequence_length = 64\nmicro_batch_size = 2\nglobal_batch_size = 8\n{SMALL}\n{MODELS[model]}\n" +
            (f"parallel = {parallel}\nnodes = 2\n" if parallel else "") + more)


def events(run, stage):
    return json_lines(run.folder / "stages" / stage / "attempts/1/events.jsonl")


def losses(run, stage):
    return {e["step"]: e["loss"] for e in events(run, stage) if e["kind"] == "metric" and "loss" in e}


def layouts_over_two_hosts_have_the_losses_of_one_rank(cluster, runs):
    text = TOKENS
    for model, layouts in LAYOUTS.items():
        text += pretrain(f"{model}-one", model, None)
        text += "".join(pretrain(f"{model}-{name}", model, parallel) for name, parallel in layouts.items())
    run = runs.start("curves", text).wait("succeeded", 120)
    for model, layouts in LAYOUTS.items():
        alone = losses(run, f"{model}-one")
        expect(f"{model}: as many losses as steps", list(alone) == list(range(1, STEPS + 1)), alone)
        for name in layouts:
            hosts = next(e for e in events(run, f"{model}-{name}") if e["kind"] == "launched")
            mine = losses(run, f"{model}-{name}")
            worst = max(abs(mine.get(step, 1e9) - loss) / loss for step, loss in alone.items())
            expect(f"{model} as {name}: the same losses within 1e-5", worst <= 1e-5, (worst, hosts, mine, alone))
            launch = tomllib.loads((run.folder / "stages" / f"{model}-{name}" / "attempts/1/launches/1/launch.toml").read_text())
            ranks = 2 if name == "cp" else 4
            expect(f"{model} as {name}: the launch names both hosts",
                   len(launch["hosts"]) == 2 and launch["rank_host"] == [r * 2 // ranks for r in range(ranks)], launch)
            said = [e["text"] for e in events(run, f"{model}-{name}") if e["kind"] == "message" and "memory planned" in e["text"]]
            expect(f"{model} as {name}: ranks are counted where they are",
                   len(said) == 1 and f"of {ranks} ranks on 2 nodes" in said[0], said)


def ranks_of(run, launch):
    """Process ids of the ranks of a launch on all hosts of the cluster, which are processes of this machine."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
        except OSError:
            continue
        if arguments[0].endswith(b"longhaul-engine") and any(f"{run.folder.name}/".encode() in w and f"/launches/{launch}/".encode() in w
                                                          for w in arguments):
            found.append(int(entry.name))
    return found


def host_of(pid):
    for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if entry.startswith(b"SLURMD_NODENAME="):
            return entry.split(b"=")[1].decode()
    return ""


def pages_on(cluster, host):
    return {name for name in cluster.play("exec", host, "--", "ls", "/dev/shm").split() if name.startswith("longhaul-")}


def a_rank_of_the_second_host_is_killed(cluster, runs):
    others = {host: pages_on(cluster, host) for host in cluster.nodes()}  # of jobs that tests before this one have ended by force
    run = runs.start("killed", TOKENS + pretrain("s", "dense", "{ tp = 2, pp = 2 }", 4000,
                                                 "retries = 1\ncheckpoint = { every_steps = 20, keep_last = 2 }\n"))
    def saved(launch):
        facts = events(run, "s")
        begun = [i for i, e in enumerate(facts) if e["kind"] == "launched" and e["launch"] == launch]
        return begun and [e["step"] for e in facts[begun[0]:] if e["kind"] == "checkpoint"]
    wait_for("a checkpoint", lambda: saved(1), 60, run.story)
    ranks = ranks_of(run, 1)
    hosts = {pid: host_of(pid) for pid in ranks}
    expect("four ranks on two hosts", len(ranks) == 4 and len(set(hosts.values())) == 2, hosts)
    os.kill(max(ranks, key=lambda pid: hosts[pid]), signal.SIGKILL)
    begun = time.monotonic()
    wait_for("no rank of the first launch is left", lambda: not ranks_of(run, 1), 10, lambda: ranks_of(run, 1))
    ended = time.monotonic() - begun
    wait_for("a checkpoint of the second launch", lambda: saved(2), 60, run.story)
    facts = events(run, "s")
    second = next(i for i, e in enumerate(facts) if e["kind"] == "launched" and e["launch"] == 2)
    before = [e["step"] for e in facts[:second] if e["kind"] == "checkpoint"][-1]
    first = next(e["step"] for e in facts[second:] if e["kind"] == "metric" and "loss" in e)
    expect("it goes on from the newest checkpoint", first in (before + 1, before + 21), (first, before))
    print(f"  all ranks had ended after {ended:.1f} s (bar: 10 s)")
    log = "".join(file.read_text() for file in (run.folder / "stages/s/attempts/1").glob("slurm-*.out"))
    for host in set(hosts.values()):
        expect(f"the lead heard of the agent on {host}", f"event=agent_connected host={host}" in log, log)
    expect("the lead knows in what section and step the ranks were", re.search(r"in section \w+ at step \d+", log), log)
    runs.longhaul("cancel", run.folder)
    run.wait("cancelled", 60)
    left = lambda host: sorted(pages_on(cluster, host) - others[host])
    wait_for("no heartbeat page is left in a host's memory", lambda: not any(left(h) for h in set(hosts.values())), 20,
             lambda: [left(h) for h in set(hosts.values())])


CASES = {case.__name__: case for case in (layouts_over_two_hosts_have_the_losses_of_one_rank, a_rank_of_the_second_host_is_killed)}


def main():
    given = case_arguments(__doc__).parse_args()
    return play_cases(new_runs("layouts", given.longhaul), chosen_cases(CASES, given.cases))


if __name__ == "__main__":
    sys.exit(main())
