#!/usr/bin/env python3
"""Two ranks over NCCL, as processes of gpu_nccl: on two GPUs; where there is one, as if each were on a host of its own;
and where NCCL refuses that as well, on one GPU by way of the host. Says which it was and what NCCL answered.

usage: gpu_nccl.py PROGRAM [LIMIT_S]      PROGRAM: gpu_nccl, or what a test puts in its place
"""
import os
import subprocess
import sys
import tempfile
import time

REFUSED, SKIPPED = 3, 77
# Pages of heartbeats lie in memory, where a GPU can write them; a file of a disk it cannot.
IN_MEMORY = {"TMPDIR": "/dev/shm"} if os.path.isdir("/dev/shm") else {}
# A communicator whose ranks say that their hosts differ may have two on one GPU; they talk through sockets then.
EACH_ITS_HOST = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}


def run_ranks(program, limit_s, environments):
    """A process for each environment; their exit codes, None for one that had to be ended, and what each printed."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="longhaul-gpu-nccl-") as folder:
        ranks, logs = [], []
        for rank, environment in enumerate(environments):
            logs.append(open(os.path.join(folder, f"rank{rank}.log"), "w+", encoding="utf-8", errors="replace"))
            ranks.append(subprocess.Popen(
                [program, "--rank", str(rank), "--size", str(len(environments)), "--folder", os.path.join(folder, "store")],
                stdout=logs[-1], stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env={**os.environ, **IN_MEMORY, **environment}))
        codes = []
        for process in ranks:
            try:
                codes.append(process.wait(timeout=max(0.1, limit_s - (time.monotonic() - begun))))
            except subprocess.TimeoutExpired:
                codes.append(None)
        for process in ranks:
            if process.poll() is None:
                process.kill()
                process.wait()
        said = []
        for log in logs:
            log.seek(0)
            said.append(log.read())
            log.close()
    return codes, said


def main():
    program, limit_s = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    ways = [("each rank its GPU", [{}, {}]),
            ("one GPU, a NCCL_HOSTID for each rank",
             [{**EACH_ITS_HOST, "NCCL_HOSTID": f"longhaul-{rank}"} for rank in range(2)])]
    refusals = []
    for way, environments in ways:
        codes, said = run_ranks(program, limit_s, environments)
        print(f"== {way}: exit codes {codes}\n" + "".join(said), flush=True)
        if codes == [0, 0]:
            print(f"real NCCL with two ranks: {way}")
            return 0
        if SKIPPED in codes:
            print(next(text for code, text in zip(codes, said) if code == SKIPPED).strip().splitlines()[-1])
            return SKIPPED
        if REFUSED not in codes:
            print(f"{way}: the contract does not hold, or a rank came to no end: exit codes {codes}")
            return 1
        answers = [line for text in said for line in text.splitlines() if "NCCL was refused, or refuses" in line]
        refusals.append(f"{way}: {answers[0] if answers else 'no answer'}")
    code = subprocess.run([program, "--staged"], timeout=limit_s, check=False).returncode
    print(f"no NCCL with two ranks here ({'; '.join(refusals)}); two ranks on one GPU by way of the host: "
          f"{'the contract holds' if code == 0 else 'FAILED'}")
    return 0 if code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
