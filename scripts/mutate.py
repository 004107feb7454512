#!/usr/bin/env python3
"""Puts small errors (mutants) into the decisive sources, one at a time, builds what each must, runs the tests that cover its
place, and prints which mutants no test noticed.

    scripts/mutate                         20 mutants at random, over all decisive rooms
    scripts/mutate --count 200 --seed 7    more of them, the same ones for the same seed and sources
    scripts/mutate --file F [--file G]     only in these files
    scripts/mutate --changed REV           only in lines that differ from REV
    scripts/mutate --chosen [NUMBER...]    the chosen ones of tests/mutants/chosen.json
    scripts/mutate --minutes 10            stops to begin new ones after ten minutes
    scripts/mutate --tried FILE            leaves out what FILE has, and adds what was tried to it: a stretch goes on there
    scripts/mutate --again FILE            tries those of FILE again that no test had noticed

It works in a finished build folder (--build, build/release), whose programs it first brings up to date; the checkout is not
touched (scripts/mutate_build.py). Mutants that change nothing a test could see stand in tests/mutants/equivalent.json with the
reason; they are not tried. Exit code 0: every one was noticed; 1: some survived; 2: it could not be tried at all.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import queue
import random
import re
import subprocess
import sys
import time

from mutate_build import COMPILER, Bench, Broken, BuildFolder, program_of
from mutate_groups import decided, groups_of

CHECKOUT = pathlib.Path(__file__).resolve().parents[1]
WORK = CHECKOUT / "build" / "mutate"
CHOSEN = CHECKOUT / "tests" / "mutants" / "chosen.json"
EQUIVALENT = CHECKOUT / "tests" / "mutants" / "equivalent.json"

# Which programs of tests cover a file, the quickest and likeliest first: the longest matching row says it. After a colon stand
# the files whose cases are wanted, where not all are.
COVERED_BY = {
    "autotune/search": ["unit_autotune"],
    "contracts/layout": ["unit_contracts", "unit_autotune", "unit_orchestrator"],
    "engine/align": ["unit_engine_align", "unit_engine_tasks"],
    "engine/checkpoint": ["unit_engine_checkpoint", "threads_engine_checkpoint"],
    "engine/curate": ["unit_engine_curate", "threads_engine_curate"],
    "engine/data": ["unit_engine_data", "unit_engine_tasks"],
    "engine/infer": ["unit_engine_infer"],
    "engine/ops/cpu": ["unit_engine_ops", "unit_engine_train"],
    "engine/train": ["unit_engine_train", "unit_engine_tasks",
                     "parallel_ranks:training_threads_test.cc,practices_test.cc,corruption_test.cc,moments_test.cc"],
    "orchestrator": ["unit_orchestrator"],
    "resiliency": ["unit_resiliency", "unit_worker:monitor/*,recovery/*"],
    "worker/lead": ["unit_worker"],
    "worker/lead/recovery": ["unit_worker:recovery/*,monitor/*,failover/*"],
}

# Where one wrong line costs a run; mutants at random are drawn here: a room first, then a line of it.
DECISIVE = [
    "contracts/layout",  # the planner's checks of layouts
    "engine/checkpoint/global",  # store, fences, retention
    "engine/checkpoint/local",
    "engine/curate/dedup",
    "engine/data/samples",
    "engine/data/tokenizer",
    "engine/infer/generate/sampling.cc",
    "engine/ops/cpu/pointwise/adamw.cc",
    "engine/train/optimizer",
    "engine/train/step",  # sums of gradients
    "orchestrator/decide",
    "orchestrator/scheduler/slurm",  # submissions exactly once
    "orchestrator/workflow/layout",
    "resiliency/detect",  # hangs and culprits
    "resiliency/retry_policy.cc",
    "resiliency/taxonomy",  # tiers of restarts, hosts at fault
    "worker/lead/recovery",
]


@dataclasses.dataclass
class Mutant:
    file: str
    line: int  # from 1
    old: str  # of the line, or text that occurs once in the file
    new: str
    what: str
    tests: list

    def place(self):
        return f"{self.file}:{self.line}"


# ---------------------------------------------------------------------------------------------------------------------
# What may be changed: lines of code, without comments, texts, includes and declarations.

OPERATORS = [
    (r" < ", " <= ", "< to <="),
    (r" <= ", " < ", "<= to <"),
    (r" > ", " >= ", "> to >="),
    (r" >= ", " > ", ">= to >"),
    (r" == ", " != ", "== to !="),
    (r" != ", " == ", "!= to =="),
    (r" && ", " || ", "&& to ||"),
    (r" \|\| ", " && ", "|| to &&"),
    (r"(?<=[\w)\]]) \+ (?=[\w(])", " - ", "+ to -"),
    (r"(?<=[\w)\]]) - (?=[\w(])", " + ", "- to +"),
    (r"(?<=[\w)\]]) \* (?=[\w(])", " / ", "* to /"),
    (r"(?<=[\w)\]]) / (?=[\w(])", " * ", "/ to *"),
    (r" \+= ", " -= ", "+= to -="),
    (r"\btrue\b", "false", "true to false"),
    (r"\bfalse\b", "true", "false to true"),
    (r"\bstd::max\b", "std::min", "max to min"),
    (r"\bstd::min\b", "std::max", "min to max"),
    (r"\bif \(!", "if (", "a condition turned over"),
    (r"\bif \((?!auto|const|!)(?=[\w.:>\-()]+\) )", "if (!", "a condition turned over"),
    (r"\bcontinue;", ";", "continue dropped"),
    (r"\bbreak;", ";", "break dropped"),
]
NUMBER = re.compile(r"(?<![\w.'\"])(\d+)(?![\w.'\"])")
CALL = re.compile(r"^\s+(?!return\b|const\b|auto\b|if\b|for\b|while\b|else\b|case\b|delete\b|throw\b|using\b)"
                  r"[\w.:>\-\[\]]+\([^{}]*\);\s*(//.*)?$")
DECLARES = re.compile(r"LH_TRY\((?:const |auto |\[\[|[\w:<>]+ \w+,)")
CHECKS = re.compile(r"^\s*(?:LH_CHECK\()?(?:\w+::)*check_")  # one after the other: which comes first decides the words alone
NOTHING_TO_SEE = re.compile(r"\b(LH_ASSERT|static_assert|check_size)\b|\.reserve\(|shrink_to_fit")  # no test could tell
NOT_CODE = re.compile(r"^\s*(//|#|\}|\{|using |namespace |template|static_assert|friend |public:|private:|class |struct |enum )")


def hidden(line):
    """The line with texts and its comment blanked, of the same length."""
    blank = re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'', lambda m: '"' + "_" * (len(m.group()) - 2) + '"', line)
    return re.sub(r"//.*", lambda m: " " * len(m.group()), blank)


def mutants_of(file, lines, wanted_lines=None):
    tests = tests_of(file)
    for at, line in enumerate(lines):
        if wanted_lines is not None and at + 1 not in wanted_lines:
            continue
        code = hidden(line)
        if NOTHING_TO_SEE.search(code):
            continue
        if NOT_CODE.match(code) or not line.startswith(" ") or 'R"' in line or not code.strip():
            if not re.match(r"^(inline )?constexpr ", line):
                continue
        for pattern, put, what in OPERATORS:
            for found in re.finditer(pattern, code):
                if "template" in code or "<<" in code or ">>" in code or "operator" in code:
                    continue
                new = line[:found.start()] + put + line[found.end():]
                yield Mutant(file, at + 1, line, new, what, tests)
        for found in NUMBER.finditer(code):
            if "format" in code and "{" in line:
                continue
            new = line[:found.start()] + str(int(found.group()) + 1) + line[found.end():]
            yield Mutant(file, at + 1, line, new, f"{found.group()} to {int(found.group()) + 1}", tests)
        before = lines[at - 1].split("//")[0].rstrip() if at > 0 else ";"
        if CALL.match(code) and not DECLARES.search(code) and (not before or before[-1] in ";{}:)" or before.endswith("else")):
            new = re.match(r"\s*", line).group() + ";"
            yield Mutant(file, at + 1, line, new, "a call dropped", tests)
            after = lines[at + 1] if at + 1 < len(lines) else ""
            both_check = CHECKS.match(code) and CHECKS.match(hidden(after))
            if before[-1:] != ")" and CALL.match(hidden(after)) and after != line and not both_check:
                yield Mutant(file, at + 1, line + "\n" + after, after + "\n" + line, "two calls in the other order", tests)


def tests_of(file):
    rows = [room for room in COVERED_BY if file == room or file.startswith(room + "/")]
    return COVERED_BY[max(rows, key=len)] if rows else []


# ---------------------------------------------------------------------------------------------------------------------
# Which ones.

def git(*args):
    return subprocess.run(["git", "-C", str(CHECKOUT), *args], check=True, capture_output=True, text=True).stdout


def changed_lines(revision):
    found, file = {}, None
    for line in git("diff", "-U0", revision, "HEAD", "--", "*.cc").splitlines():
        if line.startswith("+++ "):
            file = line[6:] if line != "+++ /dev/null" else None
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk.group(1)), int(hunk.group(2) or 1)
            if file:
                found.setdefault(file, set()).update(range(first, first + count))
    return found


def within(file, row):
    return file == row or file.startswith(row + "/")


def key_of(mutant):
    return (mutant["file"], mutant["old"].strip(), mutant["new"].strip())


def drawn(args, tried):
    """The same ones for the same seed and sources, whatever was tried or found to be equivalent before."""
    chosen_lines = changed_lines(args.changed) if args.changed else None
    files = args.file or git("ls-files", "*.cc").splitlines()
    if chosen_lines is not None:
        files = [f for f in files if f in chosen_lines and tests_of(f)]
    rooms = {}
    for file in files:
        if not tests_of(file):
            if not args.file:
                continue
            raise Broken(f"{file} lies in no room of the table COVERED_BY (scripts/mutate.py): say there which tests cover it")
        room = next((row for row in DECISIVE if within(file, row)), file if args.file or args.changed else None)
        if room is None:
            continue
        lines = (CHECKOUT / file).read_text().split("\n")
        rooms.setdefault(room, []).extend(mutants_of(file, lines, None if chosen_lines is None else chosen_lines[file]))
    rooms = {room: every for room, every in rooms.items() if every}
    print(f"seed {args.seed}: of {sum(map(len, rooms.values()))} mutants in {len(rooms)} rooms", flush=True)
    # A room first, then a line of it: a long file is no likelier than a short room.
    draw = random.Random(args.seed)
    for every in rooms.values():
        draw.shuffle(every)
    known = {key_of(one) for one in json.loads(EQUIVALENT.read_text())} | tried
    picked = 0
    while rooms and picked < args.count:
        room = draw.choice(sorted(rooms))
        one = rooms[room].pop()
        if not rooms[room]:
            del rooms[room]
        if args.within and not any(one.file.startswith(row) for row in args.within):
            continue
        if key_of(dataclasses.asdict(one)) not in known:
            picked += 1
            yield one


def chosen(numbers):
    found = []
    for number, one in enumerate(json.loads(CHOSEN.read_text()), 1):
        if numbers and number not in numbers:
            continue
        text = (CHECKOUT / one["file"]).read_text()
        if text.count(one["old"]) != 1:
            raise Broken(f"{CHOSEN.name}, number {number}: its text occurs {text.count(one['old'])} times in {one['file']}, not once: "
                         "write it anew as it reads there now")
        line = text[:text.index(one["old"])].count("\n") + 1
        found.append(Mutant(one["file"], line, one["old"], one["new"], one["why"], one["tests"]))
    return found


def again(path):
    return [Mutant(one["file"], one["line"], one["old"], one["new"], one["what"], tests_of(one["file"]))
            for one in json.loads(path.read_text()) if not one["noticed_by"]]


# ---------------------------------------------------------------------------------------------------------------------
# Trying them.

def changed_text(mutant, text):
    lines = text.split("\n")
    if lines[mutant.line - 1] == mutant.old:
        lines[mutant.line - 1] = mutant.new
        return "\n".join(lines)
    if mutant.old not in text:
        raise Broken(f"{mutant.place()} no longer reads {mutant.old.strip()!r}")
    return text.replace(mutant.old, mutant.new, 1)


class Outcomes:
    """What came of each, in a file from the moment it is known."""

    def __init__(self, path, seed):
        self.path, self.seed, self.rows, self.not_tried = path, seed, [], 0
        self.before = json.loads(path.read_text()) if path and path.exists() else []

    def add(self, mutant, noticed_by):
        row = {"seed": self.seed, "file": mutant.file, "line": mutant.line, "old": mutant.old, "new": mutant.new,
               "what": mutant.what, "noticed_by": noticed_by}
        self.rows.append(row)
        if self.path:
            known = {key_of(row) for row in self.rows}
            rows = [old for old in self.before if key_of(old) not in known] + self.rows
            beside = self.path.with_suffix(".new")
            beside.write_text("[\n" + ",\n".join(" " + json.dumps(one, ensure_ascii=False) for one in rows) + "\n]\n")
            beside.replace(self.path)

    def report(self):
        tried = [row for row in self.rows if row["noticed_by"] != COMPILER]
        survivors = [row for row in tried if not row["noticed_by"]]
        for row in survivors:
            print(f"\n{row['file']}:{row['line']}: {row['what']}")
            for sign, text in (("-", row["old"]), ("+", row["new"])):
                for line in text.split("\n"):
                    print(f"  {sign} {line.strip()}")
        share = 100 * (len(tried) - len(survivors)) / len(tried) if tried else 100
        print(f"\n{len(tried) - len(survivors)} of {len(tried)} mutants noticed ({share:.1f} %); "
              f"{len(self.rows) - len(tried)} were refused by the compiler and count for nothing")
        return len(survivors)


class Benches:
    """`jobs` benches, lent to whatever is tried; what cannot be tried is said and counted."""

    def __init__(self, build, jobs, outcomes):
        self.jobs, self.outcomes, self.free = jobs, outcomes, queue.SimpleQueue()
        for number in range(jobs):
            self.free.put(Bench(build, number))

    def lent(self, what, place):
        """(what(bench), seconds); what() is None where it could not be tried."""
        bench, from_s = self.free.get(), time.monotonic()
        try:
            return what(bench), time.monotonic() - from_s
        except Broken as error:
            self.outcomes.not_tried += 1
            print(f"could not be tried: {place}: {error}", file=sys.stderr, flush=True)
            return None, 0
        finally:
            self.free.put(bench)

    def close(self):
        for _ in range(self.jobs):
            self.free.get().close()


def play(args, build, mutants, outcomes):
    """The tests nearest to each mutant first; those that they do not notice are decided together by the whole programs."""
    started, benches, left, too_late = time.monotonic(), Benches(build, args.jobs, outcomes), [], 0

    def near(mutant):
        if args.minutes and time.monotonic() - started > 60 * args.minutes:
            return mutant, None, None
        before = (CHECKOUT / mutant.file).read_text()
        found, took_s = benches.lent(
            lambda bench: bench.near(mutant.file, before, changed_text(mutant, before), mutant.tests), mutant.place())
        return mutant, found, took_s

    def group(members):
        texts = [(one, (CHECKOUT / one.file).read_text()) for one in members]
        return benches.lent(lambda bench: decided(bench, [(one, text, changed_text(one, text)) for one, text in texts]),
                            ", ".join(one.place() for one in members))

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for mutant, found, took_s in pool.map(near, mutants):
            too_late += took_s is None
            if found is None:
                continue
            if found or args.near:
                outcomes.add(mutant, found)
            else:
                left.append(mutant)
            print(f"{len(outcomes.rows) + len(left):4d} {took_s:5.0f} s  {mutant.place()}: {mutant.what}: "
                  f"{'noticed by ' + found if found else 'not noticed by the tests beside it'}", flush=True)
        for rows, took_s in pool.map(group, groups_of(left)):
            print(f"     {took_s:5.0f} s  {len(rows or [])} mutants together", flush=True)
            for mutant, found in rows or []:
                outcomes.add(mutant, found)
                print(f"                {mutant.place()}: {mutant.what}: "
                      f"{'noticed by ' + found if found else 'SURVIVED'}", flush=True)
    if too_late:
        print(f"{args.minutes:g} minutes are over; {too_late} were not begun")
    benches.close()


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--count", type=int, default=20)
    parse.add_argument("--seed", type=int, default=int(time.time()))
    parse.add_argument("--minutes", type=float, default=0)
    parse.add_argument("--file", action="append", default=[])
    parse.add_argument("--within", action="append", default=[], help="of what is drawn only what lies below this folder")
    parse.add_argument("--changed")
    parse.add_argument("--chosen", type=int, nargs="*")
    parse.add_argument("--again", type=pathlib.Path)
    parse.add_argument("--build", type=pathlib.Path, default=CHECKOUT / "build" / "release")
    parse.add_argument("--as-built", action="store_true", help="the programs are up to date: nothing is built first")
    parse.add_argument("--near", action="store_true",
                       help="only the tests nearest to each mutant; --again decides those that they do not notice")
    parse.add_argument("--jobs", type=int, default=os.cpu_count())
    parse.add_argument("--tried", type=pathlib.Path)
    args = parse.parse_args()
    try:
        outcomes = Outcomes(args.again or args.tried, None if args.chosen is not None else args.seed)
        tried = {key_of(row) for row in outcomes.before} if args.tried else set()
        mutants = (again(args.again) if args.again else chosen(args.chosen) if args.chosen is not None
                   else list(drawn(args, tried)))
        WORK.mkdir(parents=True, exist_ok=True)
        build = BuildFolder(CHECKOUT, args.build.resolve(), WORK)
        programs = sorted({program_of(test) for one in mutants for test in one.tests})
        if not args.as_built:
            build.bring_up_to_date(programs, args.jobs)
        build.learn(programs)
        play(args, build, mutants, outcomes)
    except (Broken, subprocess.CalledProcessError) as error:
        print(f"scripts/mutate: {error}", file=sys.stderr)
        return 2
    survivors = outcomes.report()
    return 2 if outcomes.not_tried else 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
