#!/usr/bin/env python3
"""The rule by which culprits are judged (culprits.py), on stories of a few events."""
import sys

from culprits import Joined, wilson

CASES = []


def case(function):
    CASES.append(function)
    return function


def injected(ms, fault, rank, launch=1, host="n1"):
    return {"kind": "injected", "ms": ms, "fault": fault, "rank": rank, "launch": launch, "attempt": 1, "host": host}


def told(ms, rank, launch=1, host="n1", detect_s=0.1):
    return {"kind": "fault", "ms": ms, "rank": rank, "launch": launch, "attempt": 1, "host": host, "detect_s": detect_s, "class": "killed"}


def judged(*events):
    joined = Joined(list(events))
    return len(joined.pairs), len(joined.wrong), len(joined.passed_over), len(joined.consequences)


@case
def the_rank_that_was_hurt_is_right_and_another_one_is_wrong():
    assert judged(injected(0, "SIGKILL", 1), told(100, 1)) == (1, 0, 0, 0)
    assert judged(injected(0, "SIGKILL", 1), told(100, 2)) == (0, 1, 0, 0)
    assert judged(injected(0, "SIGKILL", 1), told(100, -1)) == (0, 1, 0, 0)


@case
def what_was_not_noticed_is_wrong():
    assert judged(injected(0, "SIGKILL", 1)) == (0, 1, 0, 0)
    assert judged(injected(0, "SIGKILL", 1), injected(9000, "SEGFAULT", 2), told(9100, 2)) == (1, 1, 0, 0)


@case
def of_two_at_the_same_moment_one_is_enough_and_each_counts_once():
    both = injected(0, "SIGKILL", 1), injected(1, "SEGFAULT", 2)
    assert judged(*both, told(100, 2)) == (1, 0, 1, 0)
    assert judged(*both, told(100, 2), told(200, 1)) == (2, 0, 0, 0)
    assert judged(*both, told(100, 3)) == (0, 1, 1, 0)


@case
def the_same_moment_is_that_of_the_injection():
    late = told(5000, 2, detect_s=3)  # stopped for 3 s, and then its stacks were written
    assert judged(injected(0, "WORKLOAD_EXC", 1), injected(5, "SIGSTOP", 2), late) == (1, 0, 1, 0)
    assert judged(injected(0, "WORKLOAD_EXC", 1), injected(1900, "SIGSTOP", 2), late) == (1, 1, 0, 0)


@case
def told_with_nothing_injected_is_wrong_unless_that_rank_was_hurt_just_before():
    assert judged(told(100, 1)) == (0, 1, 0, 0)
    assert judged(injected(0, "ASYNC_EXC", 1), told(100, 1), told(9000, 1)) == (1, 0, 0, 1)
    assert judged(injected(0, "ASYNC_EXC", 1), told(100, 1), told(90_000, 1)) == (1, 1, 0, 0)
    assert judged(injected(0, "ASYNC_EXC", 1), told(100, 1), told(9000, 2)) == (1, 1, 0, 0)
    assert judged(injected(0, "ASYNC_EXC", 1), told(100, 1), injected(5000, "SIGKILL", 2), told(5100, 1)) == (1, 1, 0, 0)
    assert judged(injected(0, "SIGKILL", 1, launch=1), told(100, 1, launch=2)) == (0, 2, 0, 0)


@case
def kinds_without_culprit_are_left_out_and_hide_nothing():
    assert judged(injected(0, "slow_rank", 1)) == (0, 0, 0, 0)
    assert judged(injected(0, "slow_rank", 1), told(100, 1)) == (0, 1, 0, 0)


@case
def a_frozen_rank_may_go_on_only_where_something_let_it():
    assert judged(injected(0, "SIGSTOP", 1)) == (0, 1, 0, 0)
    assert judged(injected(0, "SIGSTOP", 1), injected(50, "slow_rank", 1)) == (0, 0, 1, 0)
    assert judged(injected(0, "SIGSTOP", 1), injected(50, "slow_rank", 2)) == (0, 1, 0, 0)


@case
def a_lead_that_dies_takes_what_came_with_it_and_no_more():
    assert judged(injected(0, "SIGKILL", 1), injected(5, "dead_lead", 0)) == (0, 0, 1, 0)
    assert judged(injected(0, "SIGKILL", 1), injected(9000, "dead_lead", 0)) == (0, 1, 0, 0)


@case
def a_full_disk_waits_for_the_next_save():
    assert judged(injected(0, "full_disk", 1), injected(5000, "SIGKILL", 2), told(5100, 2)) == (1, 0, 1, 0)
    assert judged(injected(0, "full_disk", 1)) == (0, 1, 0, 0)


@case
def a_frozen_host_is_named_by_its_host():
    assert judged(injected(0, "frozen_host", 2, host="n2"), told(5000, -1, host="n2", detect_s=5)) == (1, 0, 0, 0)
    assert judged(injected(0, "frozen_host", 2, host="n2"), told(5000, -1, host="n1", detect_s=5)) == (0, 1, 0, 0)


@case
def the_interval_is_wilsons():
    # Of 121 of 121: 121 / (121 + z^2) = 0.9692.
    low, high = wilson(121, 121)
    assert abs(low - 0.9692) < 1e-4 and abs(high - 1) < 1e-12, (low, high)


def main():
    failed = 0
    for function in CASES:
        try:
            function()
        except AssertionError as error:
            failed += 1
            print(f"{function.__name__}: FAILED at line {error.__traceback__.tb_next.tb_lineno}: {error}")
    print(f"test cases: {len(CASES)} | {len(CASES) - failed} passed | {failed} failed | 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
