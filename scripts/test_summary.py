#!/usr/bin/env python3
"""Adds up what ctest left in build/test-logs: test cases run, skipped and failed per label, beside their floors. The last
line is "N passed, N failed". A doctest program counts with its cases, any other test as one. What ran again (the results
in NAME-again.xml) counts as it ended then, and is named. The slowest tests are listed with the slowest of their cases, and the
seconds of the tests for each promise."""
import argparse
import itertools
import json
import pathlib
import re
import sys
import xml.etree.ElementTree

# doctest's own last lines, also printed by script tests that hold several cases.
CASES = re.compile(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed(?: \|\s*(\d+) skipped)?")


def labels_by_test(listing):
    labels = {}
    for test in json.loads(listing.read_text())["tests"]:
        labels[test["name"]] = []
        for field in test.get("properties", []):
            if field["name"] == "LABELS":
                labels[test["name"]] = field["value"]
    return labels


# A case that cannot run where it is says MESSAGE("skipped: why") and returns: doctest counts it as passed.
SKIPPED_CASE = re.compile(r"MESSAGE: skipped: (.+?)\s*$", re.MULTILINE)


def skipped_cases(test):
    """Why cases of one ctest entry did not run."""
    return SKIPPED_CASE.findall(test.findtext("system-out") or "")


def cases_of(test):
    """(passed, failed, skipped) of one ctest entry."""
    if test.get("status") == "notrun" or test.find("skipped") is not None:
        return 0, 0, 1
    failed_test = test.get("status") == "fail" or test.find("failure") is not None
    found = CASES.findall(test.findtext("system-out") or "")
    passed = sum(int(f[1]) for f in found)
    failed = sum(int(f[2]) for f in found)
    silent = min(passed, len(skipped_cases(test)))
    passed, skipped = passed - silent, silent + sum(int(f[3] or 0) for f in found)
    if not found:
        passed = 0 if failed_test else 1
    if failed_test:
        failed = max(failed, 1)  # a crash, a deadline or a sanitizer's report leaves no failed case behind
    return passed, failed, skipped


# What a test says where it fails: a check of doctest with its values, a case of a script, a sanitizer.
MATTERS = re.compile(r"ERROR|FAILED|FATAL|^TEST CASE|^\s+values:|Error:|timed out|expected")
# A case of a script that failed: what its programs said stands on the lines after it, up to the next case.
SCRIPT_FAILED, SCRIPT_NEXT, SCRIPT_LINES = re.compile(r"\(\d+\.\d+ s\): FAILED|^[\w ]+: FAILED: "), re.compile(r"\(\d+\.\d+ s\): |^$"), 6
LINES_SHOWN, LINE_MAX = 24, 300


def failing_lines(test):
    said = test.findtext("system-out") or ""
    lines = [line.rstrip() for line in said.splitlines()]
    # doctest also names cases that say something and pass: only the name right before an error reports something.
    shown = [i for i, line in enumerate(lines) if MATTERS.search(line)]
    shown = [i for k, i in enumerate(shown) if not lines[i].startswith("TEST CASE") or
            (k + 1 < len(shown) and not lines[shown[k + 1]].startswith("TEST CASE"))]
    for failed in [i for i in shown if SCRIPT_FAILED.search(lines[i])]:
        after = itertools.takewhile(lambda i: not SCRIPT_NEXT.search(lines[i]), range(failed + 1, min(failed + 1 + SCRIPT_LINES, len(lines))))
        shown.extend(after)
    return [lines[i][:LINE_MAX] for i in sorted(set(shown))[:LINES_SHOWN]]


AGAIN_MAX = 3
# "name  date  why" and "part of a reason  |  date  why", one a line; every line needs all three.
REMARK = re.compile(r"^(\S+)\s+(\d{4}-\d{2}-\d{2})\s+(\S.*)$")
EXCUSE = re.compile(r"^(\S.*?)\s+\|\s+(\d{4}-\d{2}-\d{2})\s+(\S.*)$")


def remarks(path, form):
    """{name: why} of a file of remarks, "#" begins a comment; refuses lines that lack the date or the reason."""
    found = {}
    for number, line in enumerate(path.read_text().splitlines() if path else [], 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = form.match(line)
        if not match:
            sys.exit(f"{path}:{number}: is not a name, a date and a reason")
        found[match[1]] = match[3]
    return found


def results_of(path, labels):
    return {test.get("name"): cases_of(test) for test in xml.etree.ElementTree.parse(path).getroot().iter("testcase")
            if test.get("name") in labels}


def to_try_again(results, allowed):
    """The tests of a run that failed, as a pattern for ctest -R, where all are allowed to and few; else None."""
    labels = labels_by_test(results.with_suffix(".json"))
    failed = [name for name, counts in results_of(results, labels).items() if counts[1]]
    if not 0 < len(failed) <= AGAIN_MAX or not all(name in allowed for name in failed):
        return None
    return "^(" + "|".join(re.escape(name) for name in failed) + ")$"


# Cases about other users of the machine lie with what they test, under names that begin so: counted as if they had a label.
GATHERED = re.compile(r"trust[: _]")


# Seconds and name of a case: doctest's with --duration, a table's row of a script, a script's line with seconds in brackets.
DURATION = re.compile(r"^\s*(\d+\.\d+) s:?\s+(\S.*?)\s*$|^(\S.*?) \((\d+\.\d+) s[,)]", re.MULTILINE)
SLOWEST, NAME_MAX = 20, 70


def slowest_tests(results):
    """[(seconds, build, test, slowest case or None)] of the files of results, the slowest first."""
    found = []
    for path in results:
        for test in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
            cases = [(float(m[0] or m[3]), m[1] or m[2]) for m in DURATION.findall(test.findtext("system-out") or "")]
            found.append((float(test.get("time") or 0), path.stem, test.get("name"), max(cases, default=None)))
    return sorted(found, key=lambda one: -one[0])[:SLOWEST]


def gathered_cases(path):
    return sum(bool(GATHERED.match(m[1] or m[2])) for test in xml.etree.ElementTree.parse(path).getroot().iter("testcase")
               for m in DURATION.findall(test.findtext("system-out") or ""))


def print_slowest(results):
    print(f"{'seconds':>7}  slowest tests, and their slowest case")
    for seconds, build, test, case in slowest_tests(results):
        slowest_case = f"  {case[0]:.1f} s: {case[1][:NAME_MAX]}" if case else ""
        print(f"{seconds:7.0f}  {build}: {test}{slowest_case}")
    print()


def read_promises(path):
    """[(promise, pattern of the tests that are for it)] of tests/promises.txt."""
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line[0].isspace():
            found.append((line.strip(), []))
        elif found:
            found[-1][1].extend(line.split())
    return [(promise, re.compile("|".join(f"(?:{one})" for one in patterns) or "(?!)")) for promise, patterns in found]


NO_PROMISE = "no promise of tests/promises.txt"


def print_promises(results, promises):
    """The seconds of the tests of each promise, a column for each build; they overlap where tests ran beside each other."""
    spent, homeless = {promise: {} for promise, _ in promises}, set()
    for path in results:
        for test in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
            name = test.get("name")
            promise = next((p for p, pattern in promises if pattern.fullmatch(name)), NO_PROMISE)
            if promise == NO_PROMISE:
                homeless.add(name)
            row = spent.setdefault(promise, {})
            row[path.stem] = row.get(path.stem, 0) + float(test.get("time") or 0)
    builds = [path.stem for path in results]
    print(" ".join(f"{build[:12]:>12}" for build in builds) + "  seconds of the tests for each promise")
    for promise, row in spent.items():
        if row:
            print(" ".join(f"{row.get(build, 0):12.0f}" for build in builds) + f"  {promise}")
    for name in sorted(homeless):
        print(f"test {name} is for no promise of tests/promises.txt")
    print()


def read_floors(path):
    floors = {}
    for line in path.read_text().splitlines():
        fields = line.split("#")[0].split()
        if fields:
            floors[fields[0]] = int(fields[1])
    return floors


def programs_short(path, ran):
    """What is missing of the test programs that must run, each with its least number of cases: [problem]."""
    short = []
    for line in path.read_text().splitlines():
        fields = line.split("#")[0].split()
        if not fields:
            continue
        name, least = fields[0], int(fields[1])
        if name not in ran:
            short.append(f"test {name} did not run, and stands in tests/programs.txt")
        elif ran[name] < least:
            short.append(f"test {name}: {ran[name]} cases ran, the floor in tests/programs.txt is {least}")
    return short


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=pathlib.Path, required=True)
    parser.add_argument("--floors", type=pathlib.Path)
    parser.add_argument("--programs", type=pathlib.Path, help="the tests of the release build that must run, with their cases")
    parser.add_argument("--promises", type=pathlib.Path, help="which promise each test is for")
    parser.add_argument("--no-skips", action="store_true")
    parser.add_argument("--over-time", action="store_true")
    parser.add_argument("--failed-phases", type=int, default=0)
    parser.add_argument("--to-try-again", metavar="BUILD", help="prints which tests of a build to try again, or fails")
    parser.add_argument("--retries", type=pathlib.Path, help="which tests may be tried again")
    parser.add_argument("--may-skip", type=pathlib.Path, help="reasons for which a case may be skipped in CI")
    arguments = parser.parse_args()
    may_skip = remarks(arguments.may_skip, EXCUSE)
    if arguments.to_try_again:
        pattern = to_try_again(arguments.logs / f"{arguments.to_try_again}.xml", remarks(arguments.retries, REMARK))
        if pattern:
            print(pattern)
        return 0 if pattern else 1

    # Tests of real data that is not part of the project: where it is absent they are skipped and say so, in CI too.
    def of_data(labels):
        return labels == ["data"]

    lines_of = {}  # test -> the lines that say why it failed
    said_why = {}  # test -> why cases of it were skipped
    ran = {}  # test of the release build -> cases that ran or were skipped with a reason
    rows = {}  # (build, label) -> [passed, failed, skipped]
    total = [0, 0, 0]
    failed_names, skipped_names, excused_names, again_names = [], [], [], []
    for results in sorted(p for p in arguments.logs.glob("*.xml") if not p.stem.endswith("-again")):
        labels = labels_by_test(results.with_suffix(".json"))
        again = results.with_name(results.stem + "-again.xml")
        second = results_of(again, labels) if again.exists() else {}
        for path in (results, again) if again.exists() else (results,):
            for test in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
                for why in skipped_cases(test):
                    said_why.setdefault(f"{results.stem}: {test.get('name')}", []).append(why)
                if cases_of(test)[1]:
                    lines_of.setdefault(f"{results.stem}: {test.get('name')}", []).extend(failing_lines(test))
        for test, counts in results_of(results, labels).items():
            name = f"{results.stem}: {test}"
            if counts[1] and test in second:
                counts = second[test]
                again_names.append(name)
            if results.stem == "release":
                ran[test] = sum(counts)
            if counts[1]:
                failed_names.append(name)
            if counts[2]:
                whys = said_why.get(name, [])
                excused = len(whys) == counts[2] and all(any(part in why for part in may_skip) for why in whys)
                (excused_names if excused or of_data(labels[test]) else skipped_names).append(name)
            for i in range(3):
                total[i] += counts[i]
            for label in labels[test] or ["(none)"]:
                row = rows.setdefault((results.stem, label), [0, 0, 0])
                for i in range(3):
                    row[i] += counts[i]

        if gathered := gathered_cases(results):
            rows[(results.stem, "trust")] = [gathered, 0, 0]

    floors = read_floors(arguments.floors) if arguments.floors else {}
    for label in floors:
        rows.setdefault(("release", label), [0, 0, 0])
    problems = []
    if total[0] + total[1] > 0:
        print_slowest(sorted(arguments.logs.glob("*.xml")))
        if arguments.promises:
            print_promises(sorted(arguments.logs.glob("*.xml")), read_promises(arguments.promises))
    print(f"{'build':14}{'label':10}{'run':>7}{'skipped':>9}{'failed':>8}{'floor':>7}")
    for (build, label), (passed, failed, skipped) in sorted(rows.items()):
        floor = floors.get(label) if build == "release" else None
        print(f"{build:14}{label:10}{passed + failed:7}{skipped:9}{failed:8}{'' if floor is None else floor:>7}")
        excused = of_data([label]) and excused_names
        if floor is not None and passed + failed < floor and not excused:
            problems.append(f"label {label}: {passed + failed} test cases ran, the floor in tests/floors.txt is {floor}")
    problems += programs_short(arguments.programs, ran) if arguments.programs else []
    problems += ["\n  ".join([f"failed: {name}", *lines_of[name]]) for name in failed_names]
    for name in again_names:
        print("\n  ".join([f"failed, and was tried again: {name}", *lines_of[name]]))
    def skips(name):
        return "\n  ".join([name, *sorted(set(said_why.get(name, [])))])

    for name in excused_names:
        print("skipped, which it may be: " + skips(name) if name in said_why else f"skipped, its data is not here: {name}")
    if arguments.no_skips:
        problems += ["skipped, which is a failure in CI: " + skips(name) for name in skipped_names]
    else:
        for name in skipped_names:
            print("skipped: " + skips(name))
    if arguments.over_time:
        problems.append("over the time limit")
    if arguments.failed_phases:
        problems.append(f"{arguments.failed_phases} phases failed")
    print()
    for problem in problems:
        print(problem)
    passed, failed = total[0], total[1]
    if arguments.no_skips:
        failed += len(skipped_names)
    if problems and failed == 0:
        failed = 1  # a build that broke, a floor, the clock: never "0 failed"
    print(f"{passed} passed, {failed} failed")
    return 1 if problems or failed else 0


if __name__ == "__main__":
    sys.exit(main())
