#!/usr/bin/env python3
"""The rule by which culprits are judged (culprits.py), on stories of a few events."""
import sys

from culprits import Joined, share_missed, wilson
from rule_cases import case, main


def injected(ms, fault, rank, launch=1, host="n1"):
    return {"kind": "injected", "ms": ms, "fault": fault, "rank": rank, "launch": launch, "attempt": 1, "host": host}


def reported(ms, rank, launch=1, host="n1", detect_s=0.1):
    return {"kind": "fault", "ms": ms, "rank": rank, "launch": launch, "attempt": 1, "host": host, "detect_s": detect_s, "class": "killed",
            "tier": "in_job"}


def record(ms, kind="launched", launch=2, attempt=1):
    """Of a training that goes on."""
    return {"kind": kind, "ms": ms, "launch": launch, "attempt": attempt}


def judged(*events, **more):
    joined = Joined(list(events), **more)
    return len(joined.pairs), len(joined.wrong), len(joined.absorbed), len(joined.consequences)


@case
def the_rank_that_was_hurt_is_right_and_another_one_is_wrong():
    assert judged(injected(0, "SIGKILL", 1), reported(100, 1)) == (1, 0, 0, 0)
    assert judged(injected(0, "SIGKILL", 1), reported(100, 2)) == (0, 1, 0, 0)
    assert judged(injected(0, "SIGKILL", 1), reported(100, -1)) == (0, 1, 0, 0)


@case
def of_a_host_that_nobody_hears_its_rank_is_named_by_the_host():
    silent, stopped = injected(0, "dropped_heartbeat", 2, host="n2"), injected(1, "SIGSTOP", 2, host="n2")
    assert judged(silent, stopped, reported(4600, -1, host="n2")) == (1, 0, 0, 0)
    assert judged(silent, stopped, reported(4600, -1, host="n1")) == (0, 1, 0, 0)
    assert judged(silent, stopped, reported(4600, 1, host="n2")) == (0, 1, 0, 0)  # another rank of it
    assert judged(stopped, reported(4600, -1, host="n2")) == (0, 1, 0, 0)  # heard of
    assert judged(silent, injected(60_000, "SIGSTOP", 2, host="n2"), reported(64_600, -1, host="n2")) == (0, 1, 0, 0)  # again
    assert judged(silent, reported(4600, -1, host="n2")) == (0, 1, 0, 0)  # nothing else was hurt
    killed, late = injected(0, "dead_standby", 2, host="n2"), reported(46_300, -1, host="n2")
    assert judged(killed, stopped, late) == (0, 1, 0, 0)
    assert judged(killed, stopped, late, ends_ms=30_000) == (1, 0, 0, 0)  # processes take so long to end
    assert judged(killed, stopped, reported(55_100, -1, host="n2"), ends_ms=30_000) == (0, 1, 0, 0)


@case
def a_crash_at_a_start_that_nobody_injected_is_shown_apart_where_the_ranks_log_has_it():
    words = "the ranks ended: exit code 139: [n1:00916] Signal: Segmentation fault (11)"
    crash = {**reported(100, 0), "class": "crash", "section": "start", "cause": words}
    assert judged(crash) == (0, 0, 0, 0) and Joined([crash]).by_themselves == [crash]
    for other in ({"section": "micro_batch"}, {"host": "n2"}, {"class": "killed"}, {"rank": -1}, {"cause": "the ranks ended: exit code 139"}):
        assert judged({**crash, **other}) == (0, 1, 0, 0)
    assert judged(injected(0, "SIGKILL", 3), crash) == (0, 1, 0, 0)  # that one is what was to be named


@case
def a_launch_that_does_not_start_is_shown_apart_where_nobody_is_named_for_it():
    hang = {**reported(100, -1), "class": "hang", "section": "start", "cause": "no rank has come past its start for 300 s"}
    assert judged(hang) == (0, 0, 0, 0)
    assert judged({**hang, "rank": 0}) == (0, 1, 0, 0)
    assert judged(injected(0, "SIGSTOP", 1), hang) == (0, 1, 0, 0)


@case
def what_was_not_noticed_is_wrong():
    assert judged(injected(0, "SIGKILL", 1)) == (0, 1, 0, 0)
    assert judged(injected(0, "SIGKILL", 1), injected(9000, "SEGFAULT", 2), reported(9100, 2)) == (1, 1, 0, 0)


@case
def of_two_at_the_same_moment_one_is_enough_and_each_counts_once():
    both = injected(0, "SIGKILL", 1), injected(1, "SEGFAULT", 2), record(300)
    assert judged(*both, reported(100, 2)) == (1, 0, 1, 0)
    assert judged(*both, reported(100, 2), reported(200, 1)) == (2, 0, 0, 0)
    assert judged(*both, reported(100, 3)) == (0, 1, 1, 0)


@case
def the_same_moment_is_that_of_the_injection():
    late = reported(5000, 2, detect_s=3), record(5001)  # stopped for 3 s, and then its stacks were written
    assert judged(injected(0, "WORKLOAD_EXC", 1), injected(5, "SIGSTOP", 2), *late) == (1, 0, 1, 0)
    assert judged(injected(0, "WORKLOAD_EXC", 1), injected(1900, "SIGSTOP", 2), *late) == (1, 1, 0, 0)


@case
def reported_with_nothing_injected_is_wrong_unless_that_rank_was_hurt_just_before():
    assert judged(reported(100, 1)) == (0, 1, 0, 0)
    assert judged(injected(0, "ASYNC_EXC", 1), reported(100, 1), reported(9000, 1)) == (1, 0, 0, 1)
    assert judged(injected(0, "ASYNC_EXC", 1), reported(100, 1), reported(90_000, 1)) == (1, 1, 0, 0)
    assert judged(injected(0, "ASYNC_EXC", 1), reported(100, 1), reported(9000, 2)) == (1, 1, 0, 0)
    assert judged(injected(0, "ASYNC_EXC", 1), reported(100, 1), injected(5000, "SIGKILL", 2), reported(5100, 1)) == (1, 1, 0, 0)
    assert judged(injected(0, "SIGKILL", 1, launch=1), reported(100, 1, launch=2)) == (0, 2, 0, 0)


@case
def a_fault_whose_order_came_to_nothing_is_reported_again_in_the_same_words():
    first, words = injected(0, "WORKLOAD_EXC", 1), "rank 1 has a fault at step 129 that all processes survived: what"
    again = words + "; the order to go on in-process was not passed on: node n2 was not heard of for 3.5 s"
    assert judged(first, {**reported(100, 1), "cause": words}, {**reported(90_000, 1), "cause": again}) == (1, 0, 0, 1)
    assert judged(first, {**reported(100, 1), "cause": words}, {**reported(90_000, 2), "cause": again}) == (1, 1, 0, 0)
    assert judged(first, {**reported(100, 1), "cause": words}, {**reported(90_000, 1), "cause": "another"}) == (1, 1, 0, 0)
    assert judged(first, {**reported(100, 2), "cause": words}, {**reported(90_000, 1), "cause": again}) == (0, 2, 0, 0)


@case
def kinds_without_culprit_are_left_out_and_hide_nothing():
    assert judged(injected(0, "slow_rank", 1)) == (0, 0, 0, 0)
    assert judged(injected(0, "slow_rank", 1), reported(100, 1)) == (0, 1, 0, 0)


@case
def a_frozen_rank_may_go_on_only_where_something_let_it():
    assert judged(injected(0, "SIGSTOP", 1)) == (0, 1, 0, 0)
    assert judged(injected(0, "SIGSTOP", 1), injected(50, "slow_rank", 1)) == (0, 0, 1, 0)
    assert judged(injected(0, "SIGSTOP", 1), injected(50, "slow_rank", 2)) == (0, 1, 0, 0)


@case
def a_lead_that_dies_takes_what_came_with_it_and_no_more():
    assert judged(injected(0, "SIGKILL", 1), injected(5, "dead_lead", 0), record(100)) == (0, 0, 1, 0)
    assert judged(injected(0, "SIGKILL", 1), injected(9000, "dead_lead", 0), record(9100)) == (0, 1, 0, 0)


@case
def what_is_absorbed_is_so_by_a_restart_that_has_a_record():
    both = injected(0, "SIGKILL", 1), injected(1, "SEGFAULT", 2), reported(100, 2)
    assert judged(*both) == (1, 1, 0, 0)
    assert judged(*both, record(50)) == (1, 1, 0, 0)  # the launch that they were injected into
    assert judged(*both, record(60_000, launch=1, attempt=2)) == (1, 0, 1, 0)
    assert judged(*both, record(200, "recovered", launch=1)) == (1, 0, 1, 0)
    joined = Joined([*both, record(300)])
    assert [(a.injected["rank"], a.by["rank"], a.restart["launch"]) for a in joined.absorbed] == [(1, 2, 2)]
    shown, = joined.shown_absorbed()
    assert "SIGKILL of rank 1 (attempt 1, launch 1)" in shown and "killed, in_job of rank 2: launched launch 2 of attempt 1" in shown, shown
    taken_over = injected(0, "SIGKILL", 1), injected(5, "dead_lead", 0), record(100, "taken_over")
    assert judged(*taken_over) == (0, 1, 0, 0)  # the ranks went on, without the one that was killed


@case
def what_has_no_record_is_known():
    def unrecorded(*events):
        return [e["fault"] for e in Joined(list(events)).unrecorded]
    assert unrecorded(injected(0, "SIGKILL", 1)) == ["SIGKILL"]
    assert unrecorded(injected(0, "SIGKILL", 1), reported(100, 2)) == []  # reported, and wrongly named
    assert unrecorded(injected(0, "dead_lead", 0)) == ["dead_lead"]
    assert unrecorded(injected(0, "dead_lead", 0), record(-1)) == ["dead_lead"]
    assert unrecorded(injected(0, "dead_lead", 0), record(500, "taken_over")) == []
    assert unrecorded(injected(0, "dead_lead", 0), record(500, attempt=2)) == []
    assert unrecorded(injected(0, "slow_rank", 0)) == []
    assert unrecorded(injected(0, "dead_standby", 0)) == ["dead_standby"]
    assert unrecorded(injected(0, "dead_standby", 0, host="n2"), {**record(500, "agent_lost"), "host": "n1"}) == ["dead_standby"]
    assert unrecorded(injected(0, "dead_standby", 0, host="n2"), {**record(500, "agent_lost"), "host": "n2"}) == []
    assert unrecorded(injected(0, "dead_standby", 0), record(500, "ranks_ended")) == []


@case
def a_full_disk_waits_for_the_next_save():
    assert judged(injected(0, "full_disk", 1), injected(5000, "SIGKILL", 2), reported(5100, 2), record(5200)) == (1, 0, 1, 0)
    assert judged(injected(0, "full_disk", 1)) == (0, 1, 0, 0)


@case
def a_frozen_host_is_named_by_its_host():
    assert judged(injected(0, "frozen_host", 2, host="n2"), reported(5000, -1, host="n2", detect_s=5)) == (1, 0, 0, 0)
    assert judged(injected(0, "frozen_host", 2, host="n2"), reported(5000, -1, host="n1", detect_s=5)) == (0, 1, 0, 0)


@case
def the_interval_is_wilsons():
    # Of 121 of 121: 121 / (121 + z^2) = 0.9692.
    low, high = wilson(121, 121)
    assert abs(low - 0.9692) < 1e-4 and abs(high - 1) < 1e-12, (low, high)


@case
def of_a_hundred_one_name_may_be_wrong_and_of_fewer_none():
    assert not share_missed(0, 0) and not share_missed(99, 99) and not share_missed(99, 100) and not share_missed(198, 200)
    assert "98 of 99" in share_missed(98, 99) and "98 of 100" in share_missed(98, 100) and "197 of 200" in share_missed(197, 200)


if __name__ == "__main__":
    sys.exit(main())
