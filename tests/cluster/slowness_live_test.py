#!/usr/bin/env python3
"""What small steps and fast disks hide, one case for each thing that is slow on a large machine and that must end nothing: a step, a
last save, a file system, ranks that go, a clock. Each training is of four ranks on two hosts, and completes in its first job.

usage: slowness_live_test.py LONGHAUL [CASE ...]
"""
import collections
import json
import sys
import time

from chaos_test import make_tokens
from faults_live_test import no_control
from slowness import Slowness
from slurm_cluster import ClusterError, wait_for
from slurm_runs import case_arguments, chosen_cases, expect, json_lines, new_runs, play_cases

CUT_S = 12
OPENS_MAX = 40  # of one agent in that time; ten times a second, as it once was, makes more than a hundred
TRAINING = """
[stage.s]
kind = "pretrain"
inputs = {{ tokens = "{tokens}" }}
precision = "f32"
deterministic = true
steps = {steps}
sequence_length = 32
micro_batch_size = 2
global_batch_size = 8
threads = 1
nodes = 2
job = {{ gpus_per_node = 0 }}
model = {{ hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64 }}
parallel = {{ dp_shard = 4, zero = 1 }}
checkpoint = {{ every_steps = {every}, keep_last = 3 }}
{more}
"""


class Played:
    """A training that was slow, and what its lead said of it."""

    def __init__(self, cluster, runs, name, tokens, steps, every, more="", points="", calls=(), at_step=None, then=None, seconds=150, **slow):
        folder = runs.folder / f"{name}-slow"
        folder.mkdir()
        self.slowness = Slowness(cluster, folder, runs.program.parent, **slow)
        if points:
            self.slowness.points.write_text(self.slowness.points.read_text() + points)
        for line in calls:
            self.slowness.add(line)
        self.run = runs.start(name, TRAINING.format(tokens=tokens, steps=steps, every=every, more=more), *self.slowness.options(),
                              site=self.slowness.site_file(), driver="here")
        if at_step:
            self.wait_step(at_step, seconds)
            then(self)
        self.run.wait(seconds=seconds)

    def wait_step(self, step, seconds):
        wait_for(f"step {step}", lambda: any(e.get("step", 0) >= step for e in self.events("metric")), seconds, self.run.story)

    def events(self, *kinds):
        found = []
        for path in sorted(self.run.folder.glob("stages/s/attempts/*/events.jsonl")):
            for event in json_lines(path):
                if not kinds or event.get("kind") in kinds:
                    found.append({**event, "attempt": int(path.parent.name)})
        return found

    def reported(self):
        return "\n".join(json.dumps(e) for e in self.events("fault", "recovered", "launched", "injected", "hang_suspected", "ranks_ended", "message"))

    def check_undisturbed(self):
        """One job, one launch, no fault."""
        expect("no fault is reported", not self.events("fault"), self.reported())
        expect("one launch", len(self.events("launched")) == 1, self.reported())
        expect("one job", len(self.run.submissions("s")) == 1, self.run.story())


def tokens_of(runs):
    folder = runs.folder / "data"
    if not folder.exists():
        folder.mkdir()
        make_tokens(folder)
    return folder / "tokens"


def long_steps_and_a_silent_agent(cluster, runs):
    """A management network that is silent for less than a step."""
    fault = '[stage.s.faults]\nat = [ { name = "dropped_heartbeat", rank = 3, step = 3, lasts = "7s" } ]'
    played = Played(cluster, runs, "silent", tokens_of(runs), 7, 5, more=fault, steps_ms=8000)
    expect("the agent was silent", played.events("injected"), played.reported())
    played.check_undisturbed()
    played.slowness.check_stretched(played.run.folder)


def a_last_save_that_is_slow(cluster, runs):
    """Slower than any save before it, and than the floor of hangs: with 60 s of a large machine's save, scaled."""
    played = Played(cluster, runs, "lastsave", tokens_of(runs), 40, 10, more='resiliency = { hang_floor = "5s" }',
                    points="checkpoint_half_shard delay_ms=20000 nth=4\n")
    played.check_undisturbed()
    played.slowness.check_stretched(played.run.folder)


def a_file_system_that_stands_still(cluster, runs):
    """For longer than the floor of hangs, on every host: ranks wait for data and saves in state D."""
    stall_ms = 75_000
    played = Played(cluster, runs, "standstill", tokens_of(runs), 30, 10, steps_ms=500, at_step=5, seconds=200,
                    then=lambda p: p.slowness.stall_file_system(stall_ms, p.run.folder / "stages"))
    played.slowness.check_acted(f"stall_ms={stall_ms}")
    expect("ranks stood still", any("engine" in program for _, _, program, *_ in played.slowness.done(f"stall_ms={stall_ms}")), played.reported())
    expect("no host is left, and no job", not [e for e in played.events("fault") if e.get("tier") in ("swap", "shrink", "new_job", "stop")], played.reported())
    expect("one job", len(played.run.submissions("s")) == 1, played.run.story())


def one_host_whose_file_system_stands_still(cluster, runs):
    """Its ranks stand in state D, and all others wait for them: longer than the floor of hangs, and no rank's fault."""
    stall_ms = 60_000
    played = Played(cluster, runs, "oneclient", tokens_of(runs), 30, 10, steps_ms=500, at_step=5, seconds=200,
                    then=lambda p: p.slowness.stall_file_system(stall_ms, p.run.folder / "stages", ["n2"]))
    played.slowness.check_acted(f"stall_ms={stall_ms}")
    expect("the others' lead went on", {host for _, host, *_ in played.slowness.done(f"stall_ms={stall_ms}")} == {"n2"}, played.reported())
    expect("nobody is reported to be at fault", not [e for e in played.events("fault") if e.get("host") or e.get("rank", -1) >= 0], played.reported())
    expect("one job", len(played.run.submissions("s")) == 1, played.run.story())


def ranks_that_take_their_time_to_go(cluster, runs):
    """After SIGKILL, as memory of a GPU and pinned pages do; longer than the 10 s that were once given to them."""
    fault = '[stage.s.faults]\nat = [ { name = "SIGSTOP", rank = 1, step = 5 } ]\n'
    played = Played(cluster, runs, "teardown", tokens_of(runs), 30, 10, steps_ms=300, teardown_ms=20_000, seconds=200,
                    more='resiliency = { hang_floor = "5s" }\n' + fault)
    played.slowness.check_acted("delay_ms=20000")
    expect("the frozen rank is reported", any(e.get("rank") == 1 for e in played.events("fault")), played.reported())
    expect("its host is kept", all(e.get("tier") in ("in_process", "in_job") for e in played.events("fault")), played.reported())
    expect("one job", len(played.run.submissions("s")) == 1, played.run.story())


def a_clock_that_is_ahead(cluster, runs):
    """By more than the job has left: of a host of ranks, and of the one with the lead. Nobody takes it for time that has passed."""
    for host in ("n2", "n1"):
        played = Played(cluster, runs, f"clock-{host}", tokens_of(runs), 20, 10, steps_ms=200, more='time_limit = "10h"',
                        calls=[f"clock - ahead_ms=72000000 host={host}"])
        played.slowness.check_acted("ahead_ms=72000000")
        played.check_undisturbed()
        begun = played.run.facts("started", "s")[-1]["with"]["started_ms"]
        ended = played.run.facts("succeeded", "s")[-1]["with"]["ended_ms"]
        took = (ended - begun) / 1000
        expect("the stage took what it took, and ended now", 0 < took < 600 and abs(ended / 1000 - time.time()) < 600, (begun, ended))
        said = runs.longhaul("status", played.run.folder)
        expect("no status says otherwise", "20h" not in said, said)
        print(f"  the clock of {host} was 20 h ahead: the stage took {took:.0f} s", flush=True)


def agents_without_a_lead(cluster, runs):
    """While agents hear nothing of a lead they look for it in the folder that all share: ever more seldom, not ten times a second."""
    opened = {}

    def cut(played):
        attempt = played.run.folder / "stages/s/attempts/1"
        lead = played.events("launched")[0]["host"]
        begun = 1000 * time.monotonic()
        with no_control(cluster, attempt):
            time.sleep(CUT_S)
        for ms, host, _, call, _, path in played.slowness.done("delay_ms=1"):
            if begun <= ms <= begun + 1000 * CUT_S and host != lead and call == "open" and "/lead-" in path:
                opened[host] = opened.get(host, 0) + 1
    played = Played(cluster, runs, "herd", tokens_of(runs), 60, 30, steps_ms=500, at_step=5, then=cut,
                    calls=[f"open {runs.folder}/runs delay_ms=1 program=longhaul-worker"])
    print(f"  files of the lead that agents opened in {CUT_S} s without it: {opened}", flush=True)
    expect("they have looked", opened, played.reported())
    expect("and not all the time", max(opened.values()) <= OPENS_MAX, opened)
    played.check_undisturbed()


def one_error_of_every_kind(cluster, runs):
    """A client of a file system that says EIO or ESTALE once, wherever, and is well again: the training completes, and nothing of it is lost."""
    calls = [f"{call} {runs.folder}/runs/errors error={error} program=longhaul-engine" for call, error in
             (("readdir", "ESTALE"), ("fsync", "EIO"), ("open", "ESTALE"), ("rename", "EIO"))]
    played = Played(cluster, runs, "errors", tokens_of(runs), 40, 10, calls=calls)
    steps = collections.Counter(e["step"] for e in played.events("metric") if "loss" in e)
    expect("it never began again from the first step once a checkpoint was there", steps[1] <= 1 + len(calls), steps)
    for call in calls:
        played.slowness.check_acted(call.split(" ")[2])


CASES = {case.__name__: case for case in (long_steps_and_a_silent_agent, a_last_save_that_is_slow, a_file_system_that_stands_still,
                                          one_host_whose_file_system_stands_still, ranks_that_take_their_time_to_go, a_clock_that_is_ahead, agents_without_a_lead,
                                          one_error_of_every_kind)}


def main():
    given = case_arguments(__doc__).parse_args()
    runs = new_runs("slowness", given.longhaul)
    try:
        return play_cases(runs, chosen_cases(CASES, given.cases))
    except ClusterError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    sys.exit(main())
