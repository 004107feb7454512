"""What scripts/mutate does in a build folder that is finished: one source or header is compiled anew with its error, a test
program is linked with it, run and judged. Nothing of the build folder is written but bin/mutant_*; copies of its objects,
without what debuggers need, lie in build/mutate, so that a build may go on beside.

A source is first compiled alone, which takes a twentieth of the time of its batch, and stands before the old batch at the
link: its functions replace the old ones, but where the old batch has them inlined. So tests that fail by it have noticed the
error, if they pass with the same source without it. Only the tests nearest to the source are run so: those of its name, those
that include its header and those of its folder, where they are quick. What they do not notice is decided by whole programs
(scripts/mutate_groups.py).
"""
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time

COMPILE_LIMIT_S, LINK_LIMIT_S = 900, 300
# A test that runs this many times as long as without an error, and not more than ten minutes longer, is ended: that is noticed
# as well.
LEAST_LIMIT_S, SPREAD, MOST_BEYOND_S = 90, 8, 600
NEAR_S = 60  # tests of a source's folder that take longer are left to the run of the whole program
COMPILER = "the compiler"
HEADERS = ["algorithm", "array", "atomic", "chrono", "cmath", "condition_variable", "cstdint", "cstring", "functional",
           "limits", "map", "memory", "mutex", "numeric", "optional", "set", "span", "string", "string_view", "thread",
           "tuple", "unordered_map", "unordered_set", "utility", "variant", "vector"]
DID_NOT_END = "it did not end"
# Warnings that the compiler guesses from what it inlines: another batch, other guesses.
GUESSES_OFF = ["-Wno-" + one for one in ("restrict", "maybe-uninitialized", "array-bounds", "stringop-overflow", "stringop-overread")]
INCLUDED = re.compile(r'^#include "(.+)"$', re.MULTILINE)


class Broken(Exception):
    """Nothing can be tried: no finished build folder, or tests that fail without any error."""


def run(argv, limit_s, log, **more):
    """Exit code; None: it had to be ended. What it starts goes with it."""
    with open(log, "wb") as out:
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


def failed_cases(output):
    """The cases that failed in what doctest printed, in its order."""
    name, failed = "", []
    for line in output.splitlines():
        if line.startswith("TEST CASE:"):
            name = line[len("TEST CASE:"):].strip()
        elif "ERROR:" in line and name and name not in failed:
            failed.append(name)
    return failed


def program_of(test):
    """Of "PROGRAM" or "PROGRAM:FILE,FILE", which has the cases of those files alone."""
    return test.split(":")[0]


def files_filter(test):
    files = test.split(":")[1].split(",") if ":" in test else []
    return ["--source-file=" + ",".join(f"*/{file}" for file in files)] if files else []


def case_filter(*names):
    """doctest's filters are divided at commas, and a backslash is one of them."""
    return "--test-case=" + ",".join(re.sub(r"[,\\\[\]]", "?", name) for name in names)


class BuildFolder:
    """Who is compiled how into which program. Threads share one."""

    def __init__(self, checkout, folder, work):
        self.checkout, self.folder, self.work = checkout, folder, work
        self.lock = threading.Lock()
        self.linker = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []
        self.programs, self.usual_s, self.tests, self.deps = {}, {}, {}, None  # usual_s: by program and its arguments
        self.texts = {}  # of files of tests
        database = folder / "compile_commands.json"
        if not database.exists():
            raise Broken(f"{folder} is no build folder: cmake --preset release, or name one with --build")
        self.commands, self.objects_of = {}, {}
        for entry in json.loads(database.read_text()):
            argv = shlex.split(entry["command"])
            built = argv[argv.index("-o") + 1]
            source = pathlib.Path(entry["file"])
            self.commands[built] = (argv, source)
            files = [source]
            if "/Unity/" in entry["file"]:
                files = [pathlib.Path(name) for name in INCLUDED.findall(source.read_text())]
            for file in files:
                if file.is_relative_to(checkout):
                    self.objects_of.setdefault(str(file.relative_to(checkout)), []).append(built)

    def ninja(self, *args):
        return subprocess.run(["ninja", "-C", str(self.folder), *args], check=True, capture_output=True, text=True).stdout

    def bring_up_to_date(self, programs, jobs):
        log = self.work / "build.log"
        if run(["cmake", "--build", str(self.folder), "-j", str(jobs), "--target", *programs], 4 * COMPILE_LIMIT_S, log) != 0:
            raise Broken(f"without any error the build fails: {log}")

    def learn(self, programs):
        """How the programs are linked and run."""
        costs = self.folder / "Testing" / "Temporary" / "CTestCostData.txt"
        usual = {}
        for line in costs.read_text().splitlines() if costs.exists() else []:
            if len(line.split()) == 3:
                usual[line.split()[0]] = float(line.split()[2])
        shown = subprocess.run(["ctest", "--test-dir", str(self.folder), "--show-only=json-v1"], check=True, capture_output=True,
                               text=True).stdout
        for test in json.loads(shown)["tests"]:
            program = os.path.basename(test.get("command", [""])[0])
            if program in programs and program not in self.tests:
                self.tests[program] = {p["name"]: p["value"] for p in test["properties"]}
        measured = self.work / "usual_s.json"
        for program, arguments, seconds in json.loads(measured.read_text()) if measured.exists() else []:
            self.usual_s[program, tuple(arguments)] = seconds
        for program in programs:
            if program not in self.tests:
                raise Broken(f"there is no test of {program}")
            self.usual_s[program, ()] = usual.get(program) or 30
            self.programs[program] = self.link_line(program)

    def link_line(self, program):
        """(argv, objects that it names, objects within its archives)."""
        argv = shlex.split(self.ninja("-t", "commands", f"bin/{program}").splitlines()[-1])
        argv = argv[argv.index("&&") + 1:-2]  # ": && c++ ... && :"
        named, archived = [t for t in argv if t.endswith(".o")], []
        for archive in (t for t in argv if t.endswith(".a") and not t.startswith("/")):
            for line in self.ninja("-t", "query", archive).splitlines():
                if line.strip().endswith(".o"):
                    archived.append(line.strip().lstrip("| "))
        return argv, named, archived

    def without_debug(self, path):
        """A copy of an object or archive, made once for each state of it."""
        source, copy = self.folder / path, self.work / "objects" / path
        with self.lock:
            if not copy.exists() or copy.stat().st_mtime_ns != source.stat().st_mtime_ns:
                copy.parent.mkdir(parents=True, exist_ok=True)
                beside, made = copy.with_suffix(f".{os.getpid()}"), source.stat()
                subprocess.run(["strip", "--strip-debug", "-o", str(beside), str(source)], check=True, capture_output=True)
                os.utime(beside, ns=(made.st_atime_ns, made.st_mtime_ns))
                beside.replace(copy)
        return str(copy)

    def compile(self, built, source, made, log, more=()):
        argv, _ = self.commands[built]
        argv = [*argv[:argv.index("-o")], *more, "-o", str(made), "-c", str(source), "-g0", *GUESSES_OFF]
        return run(argv, COMPILE_LIMIT_S, log, cwd=self.folder)

    def headers_first(self, built):
        """Arguments that read the standard headers from a precompiled one, which takes a third of the time away. It stays there
        for the next stretch; a compiler of another version reads the header itself."""
        argv, _ = self.commands[built]
        flags = [*argv[:argv.index("-o")], "-O1", "-g0"]
        header = self.work / f"headers-{hashlib.sha256(shlex.join(flags).encode()).hexdigest()[:12]}.h"
        with self.lock:
            if not header.with_suffix(".h.gch").exists():
                header.write_text("".join(f"#include <{name}>\n" for name in HEADERS))
                run([*flags, "-x", "c++-header", str(header), "-o", f"{header}.gch"], COMPILE_LIMIT_S,
                    self.work / "headers.log", cwd=self.folder)
        return ["-include", str(header)]

    def link(self, program, made, name, log):
        """`made`: new objects by the names of the old ones, or by any other name to stand before all."""
        argv, named, _ = self.programs[program]
        output, line = self.folder / "bin" / name, []
        for before, token in zip(["", *argv], argv):
            if before == "-o":
                line.append(str(output))
            elif token in named:
                line.append(made[token] if token in made else self.without_debug(token))
            elif token.endswith(".a") and not token.startswith("/"):
                line.append(self.without_debug(token))
            else:
                line.append(token)
        line[1:1] = [*self.linker, "-Wl,--allow-multiple-definition", "-Wl,-S",
                     *(path for old, path in made.items() if old not in named)]
        if run(line, LINK_LIMIT_S, log, cwd=self.folder) != 0:
            raise Broken(f"{program} could not be linked: {log}")
        return output

    def nearest_of(self, file, tests):
        """The same by the programs that have them."""
        for files in self.nearest(file):
            for program in map(program_of, tests):
                own = [one for one in files if any(f"/{program}.dir/" in built for built in self.objects_of.get(one, []))]
                if own:
                    yield program, own

    def remember(self, program, arguments, seconds):
        """In a file as well, since tests of a folder are timed once, not in each stretch of mutants."""
        with self.lock:
            self.usual_s[program, tuple(arguments)] = seconds
            measured = [[*key, round(value, 1)] for key, value in self.usual_s.items() if key[1]]
            (self.work / "usual_s.json").write_text(json.dumps(measured, indent=0))

    def nearest(self, file):
        """Lists of files of tests: those of the source's name, others that include its header, and others of its folder."""
        tests, stem = self.checkout / "tests" / "unit", pathlib.Path(file).stem
        with self.lock:
            if not self.texts:
                self.texts = {str(path.relative_to(self.checkout)): path.read_text() for path in tests.rglob("*_test.cc")}
        own = {path for path in self.texts if pathlib.Path(path).name.startswith(stem + "_")}
        including = {path for path, text in self.texts.items() if f'/{stem}.h"' in text} - own
        beside = {path for path in self.texts if os.path.dirname(path) == f"tests/unit/{os.path.dirname(file)}"}
        return [sorted(files) for files in (own, including, beside - own - including) if files]

    def limit_s(self, program, arguments):
        usual = self.usual_s.get((program, tuple(arguments)), 0)
        return max(LEAST_LIMIT_S, min(SPREAD * usual, usual + MOST_BEYOND_S))

    def includers(self, program, header):
        """Objects of a program that are made of a header."""
        _, named, archived = self.programs[program]
        wanted, found, built = set(named) | set(archived), [], None
        with self.lock:
            if self.deps is None:
                self.deps = self.ninja("-t", "deps")
        for line in self.deps.splitlines():
            if line and not line.startswith(" "):
                built = line.split(":")[0]
            elif line.endswith(header) and built in wanted:  # ccache has paths that begin in the build folder
                if os.path.normpath(self.folder / line.strip()) == str(self.checkout / header):
                    found.append(built)
        return found


class Bench:
    """Tries one error after the other, in files of its own."""

    def __init__(self, build, number):
        self.build, self.number = build, f"{os.getpid()}_{number}"
        self.here = build.work / f"bench{os.getpid()}-{number}"
        shutil.rmtree(self.here, ignore_errors=True)
        self.here.mkdir(parents=True)
        self.log = self.here / "log"
        self.without, self.without_binary, self.made = None, None, {}

    def play(self, program, binary, arguments):
        """"" when the tests pass, else what failed: a case, or why there is none."""
        found = self.play_once(program, binary, arguments)
        if found == DID_NOT_END:
            # A machine that is busy with other things is no endless loop.
            before = self.build.limit_s(program, arguments)
            if self.usual(program, arguments) == DID_NOT_END:
                raise Broken(f"{program} does not end without any error: {self.log}")
            if self.build.limit_s(program, arguments) > before:
                return self.play_once(program, binary, arguments)
        return found

    def usual(self, program, arguments, limit_s=None):
        """How long the tests take without any error is found out; DID_NOT_END where that is longer than the limit."""
        from_s = time.monotonic()
        found = self.play_once(program, self.build.folder / "bin" / program, arguments, limit_s or LEAST_LIMIT_S * SPREAD)
        self.build.remember(program, arguments, time.monotonic() - from_s)
        return found

    def play_once(self, program, binary, arguments, limit_s=None):
        ended = self.run_tests(program, binary, arguments, limit_s)
        if ended == 0:
            return ""
        if ended is None:
            return DID_NOT_END
        return next(iter(failed_cases(self.output())), f"it ended with {ended}")

    def run_tests(self, program, binary, arguments, limit_s=None):
        """Exit code; None: it had to be ended."""
        properties = self.build.tests[program]
        environment = {**os.environ, **dict(line.split("=", 1) for line in properties.get("ENVIRONMENT", []))}
        return run([str(binary), *arguments], limit_s or self.build.limit_s(program, arguments), self.log,
                   cwd=properties["WORKING_DIRECTORY"], env=environment)

    def output(self):
        return self.log.read_text(errors="replace")

    def objects_with(self, program, texts):
        """New objects of a program by the names of the old ones, with `texts` by files; None: the compiler refuses."""
        overlay, (_, named, archived) = self.here / "overlay", self.build.programs[program]
        shutil.rmtree(overlay, ignore_errors=True)
        files_of = {}
        for file, text in texts.items():
            changed = overlay / file
            changed.parent.mkdir(parents=True, exist_ok=True)
            changed.write_text(text)
            built = self.build.includers(program, file) if file.endswith(".h") else self.build.objects_of.get(file, [])
            wanted = [one for one in built if one in named or one in archived]
            if not wanted:
                raise Broken(f"{program} has nothing of {file}")
            for one in wanted:
                files_of.setdefault(one, []).append(file)
        made = {}
        for one, files in files_of.items():
            key = (one, tuple((file, texts[file]) for file in files))
            if key not in self.made:
                self.made[key] = self.here / f"batch{len(self.made)}.o"
                if not self.compiled_with(one, overlay, files, self.made[key]):
                    self.made.pop(key)
                    return None
            made[one] = str(self.made[key])
        return made

    def compiled_with(self, built, overlay, files, made):
        source = self.build.commands[built][1]
        alone = [file for file in files if source == self.build.checkout / file]
        if alone:
            source = overlay / alone[0]
        elif any(file.endswith(".cc") for file in files):
            text = source.read_text()
            for file in files:
                text = text.replace(f'"{self.build.checkout / file}"', f'"{overlay / file}"')
            source = made.with_suffix(".cxx")
            source.write_text(text)
        return self.build.compile(built, source, made, self.log, ["-iquote", str(overlay)]) == 0

    def single(self, file, text, name):
        """The source alone as an object; None: the compiler refuses."""
        source, made = self.here / name / pathlib.Path(file).name, self.here / f"{name}.o"
        source.parent.mkdir(exist_ok=True)
        source.write_text(text)
        built = self.build.objects_of[file][0]
        more = [*self.build.headers_first(built), "-O1"]  # half of the time of -O2
        return str(made) if self.build.compile(built, source, made, self.log, more) == 0 else None

    def singles(self, texts):
        """Objects of (file, text), each compiled alone, by names of their own; those that the compiler refuses are left out."""
        made = {}
        for number, (file, text) in enumerate(texts):
            one = self.single(file, text, f"with{number}") if file.endswith(".cc") else None
            if one:
                made[f"alone{number}"] = one
        return made

    def single_without(self, file, text):
        """The source alone without any error, compiled once for each state of its batch."""
        state = (self.build.folder / self.build.objects_of[file][0]).stat().st_mtime_ns
        kept = self.build.work / "alone" / f"{file}.{state}.o"
        if not kept.exists():
            made = self.single(file, text, "without")
            if made is None:
                return None
            kept.parent.mkdir(parents=True, exist_ok=True)
            os.replace(made, kept)
        return str(kept)

    def passes_without(self, program, file, text, case):
        """Whether the case passes where the same source is compiled alone without an error."""
        name = f"mutant_{self.number}_without_{program}"
        key = (program, file)
        if self.without != key:
            alone = self.single_without(file, text)
            if alone is None:
                return False
            self.without_binary = self.build.link(program, {"alone": alone}, name, self.log)
            self.without = key
        return self.play(program, self.without_binary, [case_filter(case)] if case else ["--count"]) == ""

    def near(self, file, before, after, tests):
        """What of the tests nearest to the source noticed the error with the source compiled alone, the compiler, or "" when
        nothing did or it is doubtful."""
        if not file.endswith(".cc"):
            return ""
        made = self.single(file, after, "with")
        if made is None:  # or the source cannot be compiled by itself
            return COMPILER if self.single_without(file, before) else ""
        binaries = {}
        for program, files in self.build.nearest_of(file, tests):
            chosen = ["--source-file=" + ",".join(f"*/{one}" for one in files), "--abort-after=1"]
            if self.is_slow(program, chosen):
                continue
            if program not in binaries:
                name = f"mutant_{self.number}_{program}"
                binaries[program] = self.build.link(program, {"alone": made}, name, self.log)
            binary = binaries[program]
            case = self.play_once(program, binary, chosen, NEAR_S)
            if case == DID_NOT_END:
                self.usual(program, chosen, NEAR_S)
                if self.is_slow(program, chosen):
                    continue
                case = self.play(program, binary, chosen)
            if case:
                return self.noticed_alone(program, file, before, case)
        return ""

    def is_slow(self, program, arguments):
        return self.build.usual_s.get((program, tuple(arguments)), 0) >= NEAR_S

    def noticed_alone(self, program, file, before, case):
        """What is reported of a case that failed with the source compiled alone: "" if it fails without the error as well."""
        if case == DID_NOT_END:
            return f"{program} ({case})"
        known = not case.startswith("it ended with")
        return f"{program}: {case}" if self.passes_without(program, file, before, case if known else "") else ""

    def of_cases(self, program, file, before, after, cases):
        """Which of some cases noticed the error with the source compiled alone."""
        made = self.single(file, after, "with")
        if made is None:
            return ""
        binary = self.build.link(program, {"alone": made}, f"mutant_{self.number}_{program}", self.log)
        case = self.play(program, binary, [case_filter(*cases), "--abort-after=1"])
        return self.noticed_alone(program, file, before, case) if case else ""

    def whole(self, file, after, tests, cases=()):
        """What noticed it with all that is made of the file compiled anew; of `cases`, where there are any."""
        for test in tests:
            program = program_of(test)
            made = self.objects_with(program, {file: after})
            if made is None:
                return COMPILER
            binary = self.build.link(program, made, f"mutant_{self.number}_{program}", self.log)
            near = [f"--source-file=*/tests/unit/{os.path.dirname(file)}/*", "--abort-after=1"]
            case = self.play(program, binary, near) if file.endswith(".h") and not cases else ""
            wanted = [case_filter(*cases)] if cases else files_filter(test)
            case = case or self.play(program, binary, [*wanted, "--abort-after=1"])
            if case == "":
                continue
            if case == DID_NOT_END:
                return f"{program} (it did not end)"
            known = not case.startswith("it ended with")
            old = self.build.folder / "bin" / program
            if not known or self.play(program, old, [case_filter(case)]) == "":
                return f"{program}: {case}"
            raise Broken(f"{program} fails without any error: {case}")
        return ""

    def close(self):
        for program in self.build.programs:
            for name in (f"mutant_{self.number}_{program}", f"mutant_{self.number}_without_{program}"):
                (self.build.folder / "bin" / name).unlink(missing_ok=True)
        shutil.rmtree(self.here, ignore_errors=True)
