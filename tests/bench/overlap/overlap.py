#!/usr/bin/env python3
"""How much of the communication between two hosts is hidden behind computation.

Two hosts of the test cluster (network namespaces) with their cables limited to 1 Gbit/s by tc's token bucket; one rank of
one thread on each. Every layout runs its steps with communication in its turn and beside computation, by turns in one
process, and alone. Exposed communication is the step's time beyond that of the same work alone; what ranks spent in
waiting is printed beside it. Messages that take longer than all computation cannot be hidden: `bound` is what they need
beyond it, waiting in its turn less the time alone. Needs root, Slurm, iproute2:

    python3 tests/bench/overlap/overlap.py build/release/bin/overlap_step [--rate 1gbit] [--only tp]
"""
import argparse
import json
import os
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
CLUSTER = os.path.join(ROOT, "tests/cluster/cluster")
BAR = 0.60
LAYOUTS = [["--zero", "0"], ["--zero", "1"], ["--zero", "2"], ["--zero", "3"], ["--zero", "0", "--pp", "2"],
           ["--tp", "2", "--sequences", "2"], ["--tp", "2", "--sp", "1", "--sequences", "2"],
           ["--tp", "2", "--sp", "1", "--ep", "2", "--sequences", "2"]]
LAYOUTS += [layout + ["--hidden", "2048"] for layout in LAYOUTS if "--tp" in layout]  # twice the products to a byte


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--steps", default="5")
    parser.add_argument("--only", default="", help="layouts with this option")
    parser.add_argument("--state", default=os.path.join(ROOT, "build/cluster/overlap"))
    args = parser.parse_args()
    state = ["--state", args.state]
    subprocess.run([CLUSTER, "up", "2", *state], check=True, stdout=subprocess.DEVNULL)
    try:
        return measure(args, state)
    finally:
        subprocess.run([CLUSTER, "down", *state], check=True, stdout=subprocess.DEVNULL)


def measure(args, state):
    for host in ("n1", "n2"):
        subprocess.run([CLUSTER, "exec", *state, host, "--", "tc", "qdisc", "add", "dev", "eth0", "root", "tbf",
                        "rate", args.rate, "burst", "256kb", "latency", "100ms"], check=True)
    shell = subprocess.run([CLUSTER, "env", *state], check=True, capture_output=True, text=True).stdout
    env = dict(os.environ, OMP_NUM_THREADS="1", OMPI_MCA_btl="tcp,self", OMPI_MCA_mpi_yield_when_idle="1")
    print(f"two hosts, {args.rate} between them; seconds of a step, medians; bar: exposed falls by {BAR:.0%}")
    print(f"{'layout':25} {'alone':>7} {'in turn':>8} {'beside':>7} {'exposed':>8} {'then':>7} {'falls by':>9}"
          f" {'waited':>8} {'then':>7} {'falls by':>9} {'bound':>6}")
    good = True
    for layout in LAYOUTS:
        if args.only and "--" + args.only not in layout:
            continue
        command = ["srun", "--mpi=pmix", "-N2", "--ntasks-per-node=1", "--cpus-per-task=1",
                   os.path.abspath(args.program), *layout, "--steps", args.steps]
        done = subprocess.run(["bash", "-c", shell + "\nexec " + shlex.join(command)], env=env, capture_output=True,
                              text=True, timeout=600)
        if done.returncode != 0:
            print(f"{' '.join(layout)}: {done.stderr.strip()}")
            good = False
            continue
        r = json.loads(done.stdout.strip().splitlines()[-1])
        # Ranks of a pipeline or a tp group have half of the model each: alone takes twice as long as theirs.
        alone = r["step_alone_s"] / (2 if "--pp" in layout or "--tp" in layout else 1)
        before, after = r["step_in_turn_s"] - alone, r["step_beside_s"] - alone
        falls = 1 - after / before if before > 0 else 0.0
        waited = 1 - r["waited_beside_s"] / r["waited_in_turn_s"] if r["waited_in_turn_s"] > 0 else 0.0
        if "--pp" not in layout:
            good = good and waited >= BAR
        bound = max(0.0, r["waited_in_turn_s"] - alone)
        name = r["layout"] + (" h=" + layout[-1] if "--hidden" in layout else "")
        print(f"{name:25} {alone:7.3f} {r['step_in_turn_s']:8.3f} {r['step_beside_s']:7.3f} {before:8.3f}"
              f" {after:7.3f} {falls:9.0%} {r['waited_in_turn_s']:8.3f} {r['waited_beside_s']:7.3f} {waited:9.0%}"
              f" {bound:6.3f}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
