#!/usr/bin/env python3
"""The rule by which measured faults are held against their bars (fault_board.py, slurm_runs.play_cases), without a cluster."""
import contextlib
import io
import sys

import slurm_runs
from fault_board import FAR, JUDGED_FROM, Board
from rule_cases import case, main
from slurm_cluster import ClusterError


def board(seconds, times, wrong=0, right=0, table=True):
    made = Board()
    made.table = table
    for _ in range(times):
        made.time("rank killed", 0.5, 5, (0.1, seconds, {}, {"detect_s": 0.1}))
    for _ in range(right):
        made.named("rank killed", True, "n1")
    for _ in range(wrong):
        made.named("rank killed", False, "n2")
    return made


def printed(made):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        made.print()
    return said.getvalue()


@case
def a_median_is_judged_from_five_on():
    assert Board().missed() is None
    assert board(6, JUDGED_FROM - 1).missed() == []
    assert "MISSED; fewer than 5" in printed(board(6, JUDGED_FROM - 1))
    missed, = board(6, JUDGED_FROM).missed()
    assert missed == "rank killed: training again after 6.00 s, median of 5, bar 5 s", missed
    assert printed(board(6, JUDGED_FROM)).count("| MISSED\n") == 1
    assert board(5, JUDGED_FROM).missed() == [] and "| met\n" in printed(board(5, JUDGED_FROM))


@case
def one_alone_is_judged_where_it_is_far_beyond_its_bar():
    assert FAR >= 5
    assert board(5 * FAR, 1).missed() == []
    missed, = board(5 * FAR + 1, 1).missed()
    assert missed == f"rank killed: training again after {5 * FAR + 1:.2f} s, median of 1, bar {5 * FAR:g} s", missed
    made = Board()
    made.notice("suspected", 2.5, 2.5 * FAR + 0.1)
    assert len(made.missed()) == 1, made.missed()


@case
def what_is_only_noticed_has_a_bar_too():
    made = Board()
    for seconds in (2.1, 2.2, 2.6, 2.7, 9):
        made.notice("suspected", 2.5, seconds)
    assert made.missed() == ["suspected: noticed after 2.60 s, median of 5, bar 2.5 s"], made.missed()
    assert "MISSED" in printed(made)


@case
def wrong_names_are_a_miss():
    assert board(1, 1, right=3).missed() == []
    assert "3 of 4" in board(1, 1, wrong=1, right=3).missed()[0]
    assert board(1, 1, wrong=1, right=99).missed() == []
    assert "98 of 100" in board(1, 1, wrong=2, right=98).missed()[0]
    try:
        board(1, 1, wrong=1, table=False)
    except ClusterError:
        return
    raise AssertionError("a wrong name ends its case")


class NoCluster:
    """Counts how often it was cleaned."""

    def __init__(self):
        self.cluster, self.cleaned, self.broken = self, 0, False

    def end_all(self):
        self.cleaned += 1

    def play(self, *_):
        if self.broken:
            raise ClusterError("no answer")

    def call(self, *_, **__):
        pass

    def cancel_all(self, _):
        pass


def played(cases, **options):
    runs, said = NoCluster(), io.StringIO()
    runs.broken = options.pop("broken", False)
    with contextlib.redirect_stdout(said):
        code = slurm_runs.play_cases(runs, cases, **options)
    return code, runs.cleaned, said.getvalue().splitlines()


def good(cluster, runs, *more):
    assert more in ((), (7,))


def bad(cluster, runs):
    raise ClusterError("not within 3 s")


def mistaken(cluster, runs):
    runs.nothing_of_that_name()


def passed_by(cluster, runs):
    raise slurm_runs.Skipped("no room")


@case
def cases_are_counted_and_each_is_reported():
    code, cleaned, said = played({"good": good, "bad": bad, "mistaken": mistaken, "passed_by": passed_by})
    assert code == 1 and cleaned == 3, (code, cleaned)  # after both that failed, and in the end
    assert said[-1] == "test cases: 4 | 1 passed | 2 failed | 1 skipped", said
    assert said[0].startswith("good (0.0 s): ok") and "FAILED: not within 3 s" in said[1] and "passed_by (0.0 s): skipped: no room" in said, said
    assert any("nothing_of_that_name" in line for line in said), said
    assert played({"good": good}, more=(7,))[0] == 0
    assert played({"good": good, "too": good}, each_alone=True)[1] == 3


@case
def a_missed_bar_fails_the_test():
    code, _, said = played({"good": good}, judged=lambda: ["too late"])
    assert code == 1 and said[-2:] == ["bars: FAILED: too late", "test cases: 2 | 1 passed | 1 failed | 0 skipped"], said
    code, _, said = played({"good": good}, judged=lambda: [])
    assert code == 0 and said[-2:] == ["bars: ok", "test cases: 2 | 2 passed | 0 failed | 0 skipped"], said


@case
def a_cluster_that_cannot_be_cleaned_fails_the_test():
    code, _, said = played({"good": good}, broken=True)
    assert code == 1 and "no answer" in said[-2], said


@case
def cases_are_chosen_by_name_or_part_of_it():
    cases, more = {"rank_killed": 1, "host_killed": 2, "host_cut": 3}, {"grown_back": 4}
    assert slurm_runs.chosen_cases(cases, [], more) == cases
    assert list(slurm_runs.chosen_cases(cases, ["grown_back", "killed"], more)) == ["grown_back", "rank_killed", "host_killed"]
    assert list(slurm_runs.chosen_cases({**cases, "host": 5}, ["host"])) == ["host"]
    try:
        slurm_runs.chosen_cases(cases, ["frozen"])
    except SystemExit as error:
        assert "frozen" in str(error) and "host_cut" in str(error), error
        return
    raise AssertionError("a case that is not there is refused")


if __name__ == "__main__":
    sys.exit(main())
