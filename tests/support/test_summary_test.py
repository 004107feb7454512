"""scripts/test_summary.py adds up what it is given, and turns red for what it is there to find."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape

SUMMARY = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "test_summary.py"
DOCTEST = "[doctest] test cases: {} | {} passed | {} failed | {} skipped"


def one(name, seconds=1.0, said="", labels=("unit",), status="run"):
    return {"name": name, "seconds": seconds, "said": said, "labels": labels, "status": status}


def cases(passed, failed=0, skipped=0, more=""):
    return f"{more}\n" + DOCTEST.format(passed + failed, passed, failed, skipped)


def leave(logs, build, tests):
    """What ctest leaves behind."""
    inner = "".join(f'<testcase name="{t["name"]}" time="{t["seconds"]}" status="{t["status"]}">'
                    f'<system-out>{escape(t["said"])}</system-out></testcase>' for t in tests)
    (logs / f"{build}.xml").write_text(f"<testsuite>{inner}</testsuite>")
    (logs / f"{build}.json").write_text(json.dumps({"tests": [
        {"name": t["name"], "properties": [{"name": "LABELS", "value": list(t["labels"])}]} for t in tests]}))


def summary(builds, *options, again=()):
    with tempfile.TemporaryDirectory() as folder:
        logs = pathlib.Path(folder)
        for build, tests in builds.items():
            leave(logs, build, tests)
        if again:
            leave(logs, "release-again", again)
        (logs / "floors.txt").write_text("unit 5  # enough\n")
        (logs / "programs.txt").write_text("# name, cases\na 5\nb 1\n")
        (logs / "retries.txt").write_text("# may\na.b  2026-11-28  Slurm's timers\n" +
                                          "".join(f"a{i}  2026-11-28  the same\n" for i in range(4)))
        (logs / "promises.txt").write_text("# which\n1 one job\n  kill_.* once\n2 whole\n  saved kill_saved\n3 never\n  x\n")
        (logs / "undated.txt").write_text("a.b  because\n")
        (logs / "may_skip.txt").write_text("needs root  |  2026-11-28  containers\n")
        done = subprocess.run([sys.executable, str(SUMMARY), "--logs", folder, *(o.replace("LOGS", folder) for o in options)],
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr


def every_program_of_a_sanitizer_is_of_one_part():
    """Of those that a slow machine takes in turns."""
    root = SUMMARY.parents[1]
    parts = re.search(r"^sanitizer_parts=\(([^)]*) tsan\)$", (root / "scripts" / "test").read_text(), re.MULTILINE)
    said = [part.strip("'") for part in parts.group(1).split()]
    names = re.findall(r"^((?:unit|threads|fuzz)_(?!gpu_)\S+)", (root / "tests" / "programs.txt").read_text(), re.MULTILINE)
    other = {name: found for name in names if len(found := [one for one in said if re.match(f"[a-z]+_({one})", name)]) != 1}
    return len(said) == 3 and len(names) > 20 and not other, f"{said} {other}"


def cases_are_added_up():
    code, said = summary({"release": [one("a", said=cases(3)), one("b")], "asan": [one("a", said=cases(2))]})
    return code == 0 and said.endswith("6 passed, 0 failed\n"), said


def what_a_failed_case_of_a_script_printed_is_shown_and_no_more():
    code, said = summary({"release": [one("a", said="first (0.1 s): FAILED: exit code 3\nno room on the disk\nsecond (0.2 s): ok\nquiet\n",
                                          status="fail")]})
    return code == 1 and "first (0.1 s): FAILED: exit code 3\n  no room on the disk\n" in said and "quiet" not in said, said


def a_failed_case_is_named_with_its_reason():
    code, said = summary({"release": [one("a", said=cases(3, 1, more="a_test.cc:7: ERROR: CHECK( 1 == 2 )"), status="fail")]})
    return code == 1 and "failed: release: a\n  a_test.cc:7: ERROR" in said and said.endswith("3 passed, 1 failed\n"), said


def a_crash_without_a_failed_case_fails():
    code, said = summary({"release": [one("a", said=cases(3), status="fail")]})
    return code == 1 and said.endswith("3 passed, 1 failed\n"), said


def too_few_cases_fail():
    code, said = summary({"release": [one("a", said=cases(4))]}, "--floors", "LOGS/floors.txt")
    return code == 1 and "label unit: 4 test cases ran, the floor" in said, said


def a_program_that_is_gone_or_lost_cases_fails_though_another_has_more():
    ask = ("--programs", "LOGS/programs.txt")
    whole = summary({"release": [one("a", said=cases(4, skipped=1)), one("b", status="notrun")]}, *ask)
    short = summary({"release": [one("a", said=cases(4)), one("b", said=cases(9))]}, *ask)
    gone = summary({"release": [one("a", said=cases(50))]}, *ask)
    return (whole[0] == 0 and short[0] == 1 and "test a: 4 cases ran, the floor in tests/programs.txt is 5" in short[1] and
            gone[0] == 1 and "test b did not run, and stands in tests/programs.txt" in gone[1]), f"{whole} {short} {gone}"


def a_skip_fails_only_where_it_is_asked_for():
    skipped = {"release": [one("a", said=cases(5)), one("b", status="notrun")]}
    code, said = summary(skipped)
    strict, more = summary(skipped, "--no-skips")
    return code == 0 and strict == 1 and "skipped, which is a failure in CI: release: b" in more, said + more


def a_broken_phase_and_the_clock_fail():
    good = {"release": [one("a", said=cases(5))]}
    return all(summary(good, *options)[0] == 1 for options in (("--failed-phases", "1"), ("--over-time",))), ""


def cases_about_other_users_are_counted_by_their_names():
    said = "0.10 s: trust: a link\n0.20 s: a trust: b\ntrust_of_folders (0.3 s)\n"
    code, reported = summary({"release": [one("a", said=cases(5, more=said))]})
    return code == 0 and any(line.split()[:3] == ["release", "trust", "2"] for line in reported.splitlines()), reported


def what_passed_when_it_was_tried_again_counts_as_passed_and_is_named():
    code, said = summary({"release": [one("a", said="it FAILED here", labels=("cluster",), status="fail")]},
                         again=[one("a", labels=("cluster",))])
    return code == 0 and "failed, and was tried again: release: a\n  it FAILED here" in said, said


def only_few_named_tests_are_tried_again():
    live, other = one("a.b", labels=("cluster",), status="fail"), one("u", labels=("cluster",), status="fail")
    again = ("--to-try-again", "release", "--retries")
    few = summary({"release": [live]}, *again, "LOGS/retries.txt")
    with_other = summary({"release": [live, other]}, *again, "LOGS/retries.txt")
    many = summary({"release": [{**live, "name": f"a{i}"} for i in range(4)]}, *again, "LOGS/retries.txt")
    unnamed = summary({"release": [live]}, "--to-try-again", "release")
    undated = summary({"release": [live]}, *again, "LOGS/undated.txt")
    return (few == (0, "^(a\\.b)$\n") and with_other[0] == 1 and many[0] == 1 and unnamed[0] == 1 and undated[0] == 1 and
            "undated.txt:1: is not a name, a date and a reason" in undated[1]), f"{few} {with_other} {many} {unnamed} {undated}"


def a_case_that_says_it_was_skipped_did_not_pass():
    said = "x_test.cc:7: MESSAGE: skipped: {}\n"
    root, disk = one("a", said=cases(6, more=said.format("needs root"))), one("b", said=cases(6, more=said.format("no disk")))
    code, reported = summary({"release": [root, disk]})
    strict, more = summary({"release": [root, disk]}, "--no-skips", "--may-skip", "LOGS/may_skip.txt")
    excused, _ = summary({"release": [root]}, "--no-skips", "--may-skip", "LOGS/may_skip.txt")
    return (code == 0 and reported.endswith("10 passed, 0 failed\n") and "skipped: release: b\n  no disk" in reported and
            strict == 1 and "skipped, which is a failure in CI: release: b\n  no disk" in more and
            "skipped, which it may be: release: a\n  needs root" in more and excused == 0), reported + more


def the_slowest_twenty_are_listed_with_their_slowest_case():
    tests = [one(f"quick{i}", 2.0) for i in range(25)]
    tests.append(one("programs", 40.0, "0.250000 s: brief\n3.500000 s: long one\n" + cases(2)))
    tests.append(one("table", 30.0, "   1.5 s  edges: needs -> ok\n  12.5 s  frozen: slurmctld -> ok\n"))
    tests.append(one("script", 20.0, "xid (4.5 s): ok\ncut (9.0 s, at 12 s): ok\n"))
    code, said = summary({"release": tests})
    rows = [line for line in said.splitlines() if "  release: " in line]
    return (code == 0 and len(rows) == 20 and rows[0] == "     40  release: programs  3.5 s: long one" and
            rows[1].startswith("     30  release: table  12.5 s: frozen: ") and rows[2] == "     20  release: script  9.0 s: cut"), said


def seconds_are_added_up_for_each_promise_and_a_test_of_none_is_named():
    builds = {"asan": [one("saved", 8)], "release": [one("kill_saved", 2), one("once", 3), one("saved", 4), one("lost", 5)]}
    code, said = summary(builds, "--promises", "LOGS/promises.txt")
    rows = [line.split(None, 2) for line in said.splitlines() if re.match(r"^ +\d+ +\d+  ", line)]
    return (code == 0 and rows == [["0", "5", "1 one job"], ["8", "4", "2 whole"], ["0", "5", "no promise of tests/promises.txt"]] and
            "test lost is for no promise of tests/promises.txt\n" in said), said


# Whatever has a name in the build has a promise: tests/promises.txt.
def every_test_that_cmake_knows_is_for_a_promise():
    root = SUMMARY.parents[1]
    names = {line.split()[0] for line in (root / "tests" / "programs.txt").read_text().splitlines() if not line.startswith("#")}
    builds = {"release": [one(name) for name in sorted(names)]}
    code, said = summary(builds, "--promises", str(root / "tests" / "promises.txt"))
    return code == 0 and len(names) > 100 and "is for no promise" not in said, said


def main():
    tests = [cases_are_added_up, every_program_of_a_sanitizer_is_of_one_part,
             a_failed_case_is_named_with_its_reason,
             what_a_failed_case_of_a_script_printed_is_shown_and_no_more, a_crash_without_a_failed_case_fails, too_few_cases_fail,
             a_program_that_is_gone_or_lost_cases_fails_though_another_has_more,
             a_skip_fails_only_where_it_is_asked_for, a_broken_phase_and_the_clock_fail,
             cases_about_other_users_are_counted_by_their_names,
             what_passed_when_it_was_tried_again_counts_as_passed_and_is_named, only_few_named_tests_are_tried_again,
             a_case_that_says_it_was_skipped_did_not_pass,
             the_slowest_twenty_are_listed_with_their_slowest_case,
             seconds_are_added_up_for_each_promise_and_a_test_of_none_is_named, every_test_that_cmake_knows_is_for_a_promise]
    failed = 0
    for test in tests:
        good, said = test()
        if not good:
            failed += 1
            print(f"{test.__name__}: FAILED\n{said}")
    print(f"test cases: {len(tests)} | {len(tests) - failed} passed | {failed} failed | 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
