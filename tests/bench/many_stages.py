#!/usr/bin/env python3
"""10,000 single-job stages on the real Slurm, beside the plain loop over libslurm; and a graph of 100,000 stages.

  tests/bench/many_stages.py build/release/bin [--count 10000]     (after building slurm_submit_raw; as root)

On a cluster of its own, where nothing starts meanwhile: the partition is down. The plain loop submits half of its jobs before the controller and half after
it, for slurmctld slows down as its queue grows. Ends with 1 if a bar is missed.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from slurm_cluster import PROGRAM, SlurmCluster

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
GRAPH = 100_000
WATCHED_S, INTERVAL_S = 20, 2
STEP = '[stage.s{0}]\nkind = "command"\nargv = ["true"]\n'
MODES = {"later": "that begin tomorrow", "free": "free to start"}
LATER = 'job = { options = ["--begin=now+1day"] }\n'


def timed(argv, **options):
    """(seconds, CPU seconds, {program: largest resident MiB} of it and its children), of a program that has to succeed."""
    begin = time.monotonic()
    process = subprocess.Popen([str(argument) for argument in argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **options)
    resident = {}

    def look():
        for pid in [process.pid, *children(process.pid)]:
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue  # it has ended
            peak = re.search(r"VmHWM:\s+(\d+)", status)
            if peak:
                name = re.search(r"Name:\s+(\S+)", status)[1]
                resident[name] = max(resident.get(name, 0), int(peak[1]) / 1024)
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        look()
        time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, argv))}: exit code {process.returncode}")
    return time.monotonic() - begin, used.ru_utime + used.ru_stime, resident


def children(pid):
    try:
        tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def sizes(resident):
    return ", ".join(f"{name} {size:.0f} MiB" for name, size in sorted(resident.items()))


def submission_seconds(run):
    """From the first intent to the last answer, as the run's log has them; and how many were submitted."""
    facts = [json.loads(line) for path in sorted((run / "log").glob("*.jsonl")) for line in path.open()]
    answers = [fact["ms"] for fact in facts if fact["fact"] == "submitted"]
    return (max(answers) - min(fact["ms"] for fact in facts if fact["fact"] == "submit")) / 1e3, len(answers)


def lists_asked(cluster):
    return sum(int(count) for count in re.findall(r"REQUEST_JOB_(?:USER_)?INFO\s.*?count:(\d+)", cluster.call("sdiag").stdout))


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("programs", type=pathlib.Path)
    asked.add_argument("--count", type=int, default=10_000)
    asked = asked.parse_args()
    state = CHECKOUT / "build/cluster/many"
    with_state = ["--state", state]
    subprocess.run([PROGRAM, "up", "2", "--replace", "--max-jobs", "50000", *with_state], check=True, timeout=120)
    try:
        return measure(SlurmCluster(state), asked.programs.resolve(), asked.count)
    finally:
        subprocess.run([PROGRAM, "down", *with_state], check=True, timeout=120)


def measure(cluster, programs, count):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="many-", dir=cluster.scratch))
    longhaul = programs / "longhaul"
    missed = []

    def row(name, value, bar, fine, peer=""):
        print(f"{name:<62} {value:>12} {bar:>10}  {'ok' if fine else 'MISSED':<7} {peer}", flush=True)
        if not fine:
            missed.append(name)

    def plain_loop(jobs, mode):
        done = cluster.call(programs / "slurm_submit_raw", jobs, folder / "job.sbatch", folder, mode, seconds=300)
        return float(done.stdout)

    print(f"{'what':<62} {'figure':>12} {'bar':>10}")
    (folder / "many.toml").write_text('[workflow]\nname = "many"\n' + "".join(STEP.format(i) for i in range(count)))
    (folder / "graph.toml").write_text('[workflow]\nname = "graph"\n' + "".join(
        STEP.format(i) + (f'needs = ["s{i - 1000}", "s{i - 999}"]\n' if i >= 1000 else "") for i in range(GRAPH)))
    for name, file, bar in ((f"validate of {GRAPH:,} stages, s", "graph.toml", 2), (f"expansion of {count:,} stages, s", "many.toml", 1)):
        rounds = [timed([longhaul, "validate", file, "--site", "test-cluster"], cwd=folder) for _ in range(5)]
        seconds = sorted(used[0] for used in rounds)
        row(name, f"{seconds[2]:.2f}", f"<= {bar}", seconds[2] <= bar,
            f"median of 5, {seconds[0]:.2f} to {seconds[4]:.2f}; {sizes(rounds[0][2])}")

    cluster.call("scontrol", "update", "partitionname=main", "state=down")
    (folder / "job.sbatch").write_text("#!/bin/bash\n#SBATCH --nodes=1 --time=10 --output=/dev/null\nexec sleep 1\n")
    for mode in ("later", "free"):  # slurmctld looks at once for a place for a job that is free to start
        workflow = f"many-{mode}.toml"
        (folder / workflow).write_text(f'[workflow]\nname = "many-{mode}"\n' + "".join(
            STEP.format(i) + (LATER if mode == "later" else "") for i in range(count)))
        plain = plain_loop(count // 2, mode)
        whole, _, resident = timed([longhaul, "submit", workflow, "--site", "test-cluster", "--driver", "lead", "--set",
                                    f"site.poll_interval=\"{INTERVAL_S}s\"", "--runs-dir", folder / "runs"], cwd=folder,
                                   env=cluster.environment, stderr=subprocess.DEVNULL)
        plain += plain_loop(count - count // 2, mode)
        run = next((folder / "runs").glob(f"many-{mode}-*"))
        seconds, submitted = submission_seconds(run)
        if submitted != count:
            sys.exit(f"{submitted} of {count} were submitted: {run}")
        share = plain / seconds
        row(f"jobs {MODES[mode]}: share of the plain libslurm loop's rate", f"{share:.2f}", ">= 0.80", share >= 0.8,
            f"{count / seconds:.0f} jobs/s, plain loop {count / plain:.0f}; the whole command {whole:.1f} s")
        most = resident["longhaul"]
        row("controller, largest resident size, MiB", f"{most:.0f}", "<= 150", most <= 150, sizes(resident))
    before = lists_asked(cluster)
    _, cpu, resident = timed([longhaul, "tick", run, "--for", f"{WATCHED_S}s"], cwd=folder,
                             env=cluster.environment, stderr=subprocess.DEVNULL)
    asked_lists = lists_asked(cluster) - before
    most = WATCHED_S // INTERVAL_S + 1
    row(f"lists of jobs asked for in {WATCHED_S} s of waiting", asked_lists, f"<= {most}", 1 <= asked_lists <= most,
        f"{cpu:.1f} s of CPU, {sizes(resident)}")
    print(f"{len(missed)} missed" + (": " + ", ".join(missed) if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
