"""The main of the MPI tests must be red when any rank fails, and must end a hang itself and name the test case.
Usage: mpi_main_test.py PROBE MPIRUN"""
import os
import subprocess
import sys
import time


def run(probe, mpirun, case, deadline_s=60):
    command = [mpirun, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-n", "2", probe,
               f"-tc={case}", f"--deadline-s={deadline_s}"]
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    started = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
    return done.returncode, done.stdout + done.stderr, time.monotonic() - started


def main():
    probe, mpirun = sys.argv[1:3]
    failures = []

    def expect(condition, what, output):
        if not condition:
            failures.append(f"{what}\n{output}")

    code, output, _ = run(probe, mpirun, "all is well")
    expect(code == 0, "a good run must end with 0", output)
    expect(output.count("test cases:") == 1, "rank 0 alone must report", output)

    code, output, _ = run(probe, mpirun, "only the last rank fails")
    expect(code != 0, "a failure on one rank must fail the run", output)
    expect("rank 1 failed" in output and "own_rank()" in output, "the failed rank must say what failed", output)

    code, output, seconds = run(probe, mpirun, "one rank leaves*", deadline_s=3)
    expect(code != 0 and seconds < 30, f"a hang must be ended, not after {seconds:.0f} s", output)
    expect("rank 0: still in test case 'one rank leaves, the others wait' after 3 s" in output,
           "the watchdog must name rank and test case", output)

    for failure in failures:
        print("FAILED:", failure)
    print(f"test cases: 5 | {5 - len(failures)} passed | {len(failures)} failed | 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
