#!/usr/bin/env python3
"""A second user against a training on two hosts of the Slurm cluster: what it leaves undone, and what of the training it changes.

usage: second_user_live_test.py LONGHAUL [CASE ...]

A training is run undisturbed, then once more while a second user on each of its hosts does what second_user.py knows, until it
ends. LONGHAUL_ATTACK_SECONDS says how long that is to take (default 40; scripts/test --all: 600); the steps are chosen by the speed
of a first, short training.
"""
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

from faults_live_test import SHAPE, Training
from slurm_cluster import PROGRAM
from slurm_runs import SMALL, Skipped, case_arguments, chosen_cases, expect, new_runs, play_cases

ATTACKER = 40001
SECONDS = float(os.environ.get("LONGHAUL_ATTACK_SECONDS", "40"))
LOG_BYTES_MAX = 1 << 20


def text(steps):
    return (f'[stage.s]\nkind = "pretrain"\ninputs = {{ tokens = "@tokens" }}\nprecision = "f32"\nsteps = {steps}\n'
            f"sequence_length = 64\nmicro_batch_size = 2\nglobal_batch_size = 8\n{SMALL}\nmodel = {{ {SHAPE} }}\n"
            f"parallel = {{ dp_shard = 4, zero = 1 }}\nnodes = 2\nretries = 0\n"
            f"checkpoint = {{ every_steps = {max(20, steps // 20)}, keep_last = 2 }}\n")


def weights(training):
    return hashlib.sha256((training.run.folder / "stages/s/out/model.safetensors").read_bytes()).hexdigest()


def attackers_below(folder):
    """What is the second user's of a folder in which leads may still write and remove."""
    found = []
    for place, folders, files in os.walk(folder):
        for path in (pathlib.Path(place, name) for name in [*folders, *files]):
            with contextlib.suppress(FileNotFoundError):
                found += [str(path)] if os.lstat(path).st_uid == ATTACKER else []
    return found


def log_bytes(training):
    folder = training.run.folder / "stages/s/attempts/1"
    return sum(p.stat().st_size for p in [*folder.glob("*.log"), *folder.glob("slurm-*.out"), *folder.glob("launches/*/*.log")])


def trained(cluster, runs, name, steps):
    begun = time.monotonic()
    training = Training(cluster, runs, name, text=text(steps))
    return training, begun


def attackers(cluster, training):
    hosts = sorted({e["host"] for e in training.events("launched")} | set(training.events("launched")[0]["hosts"]))
    script = pathlib.Path(__file__).with_name("second_user.py")
    command = ["setpriv", f"--reuid={ATTACKER}", f"--regid={ATTACKER}", "--clear-groups", sys.executable, "-I"]
    return {host: subprocess.Popen(
        [str(PROGRAM), "exec", "--state", str(cluster.state), host, "--", *command, "-c", script.read_text(),
         str(training.run.folder), str(SECONDS), str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for seed, host in enumerate(hosts)}


def same_bits_whatever_a_second_user_does(cluster, runs):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skipped("only root can act as a second user here, with setpriv")
    short, begun = trained(cluster, runs, "short", 200)
    short.run.wait("succeeded", 240)
    rate = 200 / (time.monotonic() - begun)
    steps = max(200, int(rate * SECONDS))
    alone, begun = trained(cluster, runs, "alone", steps)
    alone.run.wait("succeeded", 120 + 8 * SECONDS)
    alone_s, quiet_bytes = time.monotonic() - begun, log_bytes(alone)

    disturbed, begun = trained(cluster, runs, "disturbed", steps)
    against = attackers(cluster, disturbed)
    reports = []
    for host, process in against.items():
        out, err = process.communicate(timeout=120 + 8 * SECONDS)
        expect(f"the second user on {host} came to an end", process.returncode == 0, err[-2000:])
        reports.append(json.loads(out.splitlines()[-1]))
    disturbed.run.wait("succeeded", 120 + 8 * SECONDS)
    took_s, grown = time.monotonic() - begun, log_bytes(disturbed) - quiet_bytes
    for report in reports:
        print(f"  {report['host']}: uid {report['uid']}, {report['rounds']} rounds: " +
              ", ".join(f"{n} {what}" for what, n in sorted(report["tried"].items())), flush=True)
    print(f"  {steps} steps: {alone_s:.0f} s alone, {took_s:.0f} s beside the second user; logs {grown / 1024:+.0f} KiB, "
          f"bar {LOG_BYTES_MAX // 1024} KiB", flush=True)
    expect("it was another user", all(report["uid"] == ATTACKER for report in reports), reports)
    expect("it reached ports of ours", all(report["tried"].get("connections", 0) > 50 for report in reports), reports)
    expect("nothing succeeded that must not", not any(report["succeeded"] for report in reports), reports)
    strange = attackers_below(disturbed.run.folder)
    expect("nothing of the run is the second user's", not strange, strange)
    expect("one launch, no fault", disturbed.launches() == 1 and not disturbed.events("fault"), disturbed.log())
    expect("the same bits", weights(disturbed) == weights(alone), (weights(disturbed), weights(alone)))
    expect("logs of bounded size", grown <= LOG_BYTES_MAX, f"{grown} bytes\n{disturbed.log()}")


CASES = {f"trust_{same_bits_whatever_a_second_user_does.__name__}": same_bits_whatever_a_second_user_does}


def main():
    given = case_arguments(__doc__).parse_args()
    return play_cases(new_runs("second-user-live", given.longhaul, 20260306), chosen_cases(CASES, given.cases))


if __name__ == "__main__":
    sys.exit(main())
