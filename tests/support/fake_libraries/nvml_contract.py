#!/usr/bin/env python3
"""Runs the contract suite of NVML against a library of that name: nvml_contract.py UNIT_RESILIENCY [LIBRARY].

Exit code 77, with the reason, where there is none (or no driver behind it); else that of the suite.
"""
import ctypes
import os
import subprocess
import sys


def why_not(library: str) -> str:
    try:
        nvml = ctypes.CDLL(library)
    except OSError as error:
        return f"there is no {library} here: {error}"
    answer = nvml.nvmlInit_v2()
    if answer != 0:
        return f"{library} does not start: error {answer}; is there a driver?"
    nvml.nvmlShutdown()
    return ""


def main() -> int:
    program = sys.argv[1]
    library = sys.argv[2] if len(sys.argv) > 2 else "libnvidia-ml.so.1"
    if reason := why_not(library):
        print(f"skipped: {reason}")
        return 77
    suite = [program, "--test-case=nvml contract:*", "--no-skip"]
    return subprocess.run(suite, env={**os.environ, "LONGHAUL_TEST_NVML": library}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
