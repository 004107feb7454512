#!/usr/bin/env python3
"""Puts small errors (mutants) into the decisive sources, one at a time, builds what each must, runs the tests that cover its
place, and prints which mutants no test noticed.

    scripts/mutate                         20 mutants at random, over all decisive rooms
    scripts/mutate --count 200 --seed 7    more of them, the same ones for the same seed and sources
    scripts/mutate --file F [--file G]     only in these files
    scripts/mutate --changed REV           only in lines that differ from REV
    scripts/mutate --chosen [NUMBER...]    the chosen ones of tests/mutants/chosen.json
    scripts/mutate --minutes 10            stops to begin new ones after ten minutes

The sources are those of HEAD, in a worktree of their own (build/mutate/tree) with a build folder of their own: the checkout is
not touched. Mutants that change nothing a test could see stand in tests/mutants/equivalent.json with the reason; they are not
tried. Exit code 0: every one was noticed; 1: some survived; 2: it could not be tried at all.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

CHECKOUT = pathlib.Path(__file__).resolve().parents[1]
WORK = CHECKOUT / "build" / "mutate"
TREE = WORK / "tree"
BUILD = WORK / "build"
CHOSEN = CHECKOUT / "tests" / "mutants" / "chosen.json"
EQUIVALENT = CHECKOUT / "tests" / "mutants" / "equivalent.json"
BUILD_LIMIT_S, TEST_LIMIT_S = 900, 300
SPREAD = 10  # a test that runs this many times as long as without an error is ended, and that counts as noticed

# Decisive rooms: where one wrong line costs a run. The longest matching row says which programs of tests cover a file, the
# quickest and likeliest first.
COVERED_BY = {
    "orchestrator/decide": ["unit_orchestrator"],
    "orchestrator/scheduler": ["unit_orchestrator"],
    "orchestrator/controller": ["unit_orchestrator"],
    "orchestrator/state": ["unit_orchestrator"],
    "resiliency": ["unit_resiliency", "unit_worker"],
    "worker/lead": ["unit_worker"],
    "autotune/search": ["unit_autotune"],
    "contracts/layout": ["unit_contracts", "unit_autotune", "unit_orchestrator"],
    "engine/checkpoint": ["unit_engine_checkpoint", "threads_engine_checkpoint"],
    "engine/train": ["unit_engine_train", "unit_engine_tasks"],
    "engine/ops/cpu": ["unit_engine_ops", "unit_engine_train"],
    "engine/align": ["unit_engine_align", "unit_engine_tasks"],
    "engine/data": ["unit_engine_data", "unit_engine_tasks"],
    "engine/infer": ["unit_engine_infer"],
    "engine/curate": ["unit_engine_curate", "threads_engine_curate"],
}


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


class Broken(Exception):
    """Nothing can be tried: no tree, no build, tests that fail without any mutant."""


def run(argv, limit_s, log, **more):
    """Exit code; None: it had to be ended. What it starts goes with it."""
    with open(log, "ab") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                                   **more)
        try:
            return process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


# ---------------------------------------------------------------------------------------------------------------------
# What may be changed: lines of code, without comments, texts, includes and declarations.

OPERATORS = [
    (r"(?<![<>=!\-])<(?![<=])(?= )", " <=", "< to <="),
    (r" <= ", " < ", "<= to <"),
    (r"(?<![>\-=])>(?![>=])(?= )", ">=", "> to >="),
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
        if CALL.match(code):
            new = re.match(r"\s*", line).group() + ";"
            yield Mutant(file, at + 1, line, new, "a call dropped", tests)
            after = lines[at + 1] if at + 1 < len(lines) else ""
            if CALL.match(hidden(after)) and after != line:
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


def drawn(args):
    chosen_lines = changed_lines(args.changed) if args.changed else None
    files = args.file or [f for f in git("ls-files", "*.cc").splitlines() if tests_of(f)]
    if chosen_lines is not None:
        files = [f for f in files if f in chosen_lines]
    known = {(one["file"], one["old"].strip(), one["new"].strip()) for one in json.loads(EQUIVALENT.read_text())}
    every = []
    for file in files:
        if not tests_of(file):
            raise Broken(f"{file} lies in no room of the table COVERED_BY (scripts/mutate.py): say there which tests cover it")
        lines = (TREE / file).read_text().split("\n")
        for one in mutants_of(file, lines, None if chosen_lines is None else chosen_lines[file]):
            if (one.file, one.old.strip(), one.new.strip()) not in known:
                every.append(one)
    # A room first, then a line of it: a long file is no likelier than a short room.
    draw = random.Random(args.seed)
    rooms = {}
    for one in every:
        rooms.setdefault(next(r for r in sorted(COVERED_BY, key=len, reverse=True) if one.file.startswith(r + "/")), []).append(one)
    for one in rooms.values():
        draw.shuffle(one)
    picked = []
    while rooms and len(picked) < args.count:
        room = draw.choice(sorted(rooms))
        picked.append(rooms[room].pop())
        if not rooms[room]:
            del rooms[room]
    print(f"seed {args.seed}: {len(picked)} of {len(every)} mutants in {len(files)} files", flush=True)
    return picked


def chosen(numbers):
    found = []
    for number, one in enumerate(json.loads(CHOSEN.read_text()), 1):
        if numbers and number not in numbers:
            continue
        text = (TREE / one["file"]).read_text()
        if text.count(one["old"]) != 1:
            raise Broken(f"{CHOSEN.name}, number {number}: its text occurs {text.count(one['old'])} times in {one['file']}, not once: "
                         "write it anew as it reads there now")
        line = text[:text.index(one["old"])].count("\n") + 1
        found.append(Mutant(one["file"], line, one["old"], one["new"], one["why"], one["tests"]))
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Trying them.

class Bench:
    def __init__(self, jobs):
        self.jobs = jobs
        self.usual_s = {}
        self.log = WORK / "log.txt"

    def make_tree(self):
        WORK.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")
        head = git("rev-parse", "HEAD").strip()
        if not (TREE / ".git").exists():
            git("worktree", "prune")
            git("worktree", "add", "--detach", "--force", str(TREE), head)
        for argv in (["checkout", "--quiet", "--detach", head], ["reset", "--quiet", "--hard", head]):
            subprocess.run(["git", "-C", str(TREE), *argv], check=True)
        argv = ["cmake", "--preset", "release", "-B", str(BUILD), "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=12"]
        if run(argv, BUILD_LIMIT_S, self.log, cwd=TREE, env=self.environment()) != 0:
            raise Broken(f"the build folder could not be made: {self.log}")

    def environment(self):
        return {**os.environ, "CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1"}

    def build(self, programs):
        argv = ["cmake", "--build", str(BUILD), "-j", str(self.jobs), "--target", *programs]
        return run(argv, BUILD_LIMIT_S, self.log, cwd=TREE, env=self.environment())

    def test(self, program, limit_s):
        return run(["ctest", "--test-dir", str(BUILD), "--no-tests=error", "--stop-on-failure", "-R", f"^{program}$"], limit_s, self.log)

    def measure(self, programs):
        """How long each takes without an error; they have to pass."""
        missing = [p for p in programs if p not in self.usual_s]
        if not missing:
            return
        print(f"building {' '.join(missing)} without an error", flush=True)
        if self.build(programs_of(missing)) != 0:
            raise Broken(f"without any mutant the build fails: {self.log}")
        for program in missing:
            from_s = time.monotonic()
            if self.test(program, TEST_LIMIT_S) != 0:
                raise Broken(f"{program} fails without any mutant: {self.log}")
            self.usual_s[program] = time.monotonic() - from_s

    def try_one(self, mutant):
        """What noticed it; None: it survived."""
        path = TREE / mutant.file
        before = path.read_text()
        if "\n" not in mutant.old and before.split("\n")[mutant.line - 1] == mutant.old:
            lines = before.split("\n")
            lines[mutant.line - 1] = mutant.new
            after = "\n".join(lines)
        else:
            after = before.replace(mutant.old, mutant.new, 1)
        path.write_text(after)
        try:
            ended = self.build(programs_of(mutant.tests))
            if ended is None:
                return "the build (it did not end)"
            if ended != 0:
                return "the compiler"
            for program in mutant.tests:
                ended = self.test(program, min(TEST_LIMIT_S, max(30, SPREAD * self.usual_s[program])))
                if ended is None:
                    return f"{program} (it did not end)"
                if ended != 0:
                    return program
            return None
        finally:
            path.write_text(before)


def programs_of(tests):
    """Targets that the tests need: a unit test is a program of its name."""
    return list(tests)


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--count", type=int, default=20)
    parse.add_argument("--seed", type=int, default=int(time.time()))
    parse.add_argument("--minutes", type=float, default=0)
    parse.add_argument("--file", action="append", default=[])
    parse.add_argument("--changed")
    parse.add_argument("--chosen", type=int, nargs="*")
    parse.add_argument("--jobs", type=int, default=os.cpu_count())
    parse.add_argument("--json", help="also writes what came of each here")
    args = parse.parse_args()
    bench = Bench(args.jobs)
    started = time.monotonic()
    try:
        bench.make_tree()
        mutants = chosen(args.chosen) if args.chosen is not None else drawn(args)
        bench.measure(sorted({t for one in mutants for t in one.tests}))
    except (Broken, subprocess.CalledProcessError) as error:
        print(f"scripts/mutate: {error}", file=sys.stderr)
        return 2
    outcomes = []
    for number, one in enumerate(mutants, 1):
        if args.minutes and time.monotonic() - started > 60 * args.minutes:
            print(f"{args.minutes:g} minutes are over: {len(mutants) - number + 1} were not tried")
            break
        from_s = time.monotonic()
        noticed_by = bench.try_one(one)
        outcomes.append((one, noticed_by))
        print(f"{number:4d} {time.monotonic() - from_s:5.0f} s  {one.place()}: {one.what}: "
              f"{'noticed by ' + noticed_by if noticed_by else 'SURVIVED'}", flush=True)
    report(outcomes, args.json)
    return 1 if any(by is None for _, by in outcomes) else 0


def report(outcomes, json_path):
    tried = [(one, by) for one, by in outcomes if by != "the compiler"]
    survivors = [one for one, by in tried if by is None]
    for one in survivors:
        print(f"\n{one.place()}: {one.what}")
        for sign, text in (("-", one.old), ("+", one.new)):
            for line in text.split("\n"):
                print(f"  {sign} {line.strip()}")
    share = 100 * (len(tried) - len(survivors)) / len(tried) if tried else 100
    print(f"\n{len(tried) - len(survivors)} of {len(tried)} mutants noticed ({share:.1f} %); "
          f"{len(outcomes) - len(tried)} were refused by the compiler and count for nothing")
    if json_path:
        rows = [{**dataclasses.asdict(one), "noticed_by": by} for one, by in outcomes]
        pathlib.Path(json_path).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
