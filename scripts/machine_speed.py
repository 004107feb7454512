#!/usr/bin/env python3
"""How many times as long as on the machine for which the limits of tests were chosen the same work takes here, now: a whole
number from 1 to 8. All cores work at the same time, for about a second; what else the machine does counts, too."""
import math
import multiprocessing
import os
import time

ROUNDS = 10_000_000
REFERENCE_S = 0.80  # a core of AMD Zen 4 with Python 3.11, while the other one does the same
FACTOR_MAX = 8


def seconds(_):
    begun, x = time.monotonic(), 1
    for i in range(ROUNDS):
        x = (x * 1664525 + i) & 0xFFFFFFFF
    return time.monotonic() - begun


def factor(took):
    """A tenth more is noise, not a slower machine."""
    return min(FACTOR_MAX, max(1, math.ceil(took / REFERENCE_S - 0.1)))


if __name__ == "__main__":
    cores = len(os.sched_getaffinity(0))
    with multiprocessing.Pool(cores) as pool:
        print(factor(max(pool.map(seconds, range(cores)))))
