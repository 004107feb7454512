"""What scripts/mutate does in a build folder that is finished: one source or header is compiled anew with its error, a test
program is linked with it, run and judged. Nothing of the build folder is written but bin/mutant_*; copies of its objects,
without what debuggers need, lie in build/mutate, so that a build may go on beside.

A source is first compiled alone, which takes a tenth of the time of its batch of twelve, and stands before the old batch at the
link: its functions replace the old ones, but where the old batch has them inlined. So tests that fail by it have noticed the
error, if they pass with the same source without it; where none fails the whole batch is compiled, and that decides.
"""
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
LEAST_LIMIT_S, SPREAD = 90, 8  # a test that runs this many times as long as without an error is ended: that is noticed as well
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


def failed_case(output):
    """The first case that failed in what doctest printed, or ""."""
    name = ""
    for line in output.splitlines():
        if line.startswith("TEST CASE:"):
            name = line[len("TEST CASE:"):].strip()
        elif "ERROR:" in line:
            return name
    return ""


def program_of(test):
    """Of "PROGRAM" or "PROGRAM:FILE,FILE", which has the cases of those files alone."""
    return test.split(":")[0]


def files_filter(test):
    files = test.split(":")[1].split(",") if ":" in test else []
    return ["--source-file=" + ",".join(f"*/{file}" for file in files)] if files else []


def case_filter(name):
    """doctest's filters are divided at commas, and a backslash is one of them."""
    return "--test-case=" + re.sub(r"[,\\\[\]]", "?", name)


class BuildFolder:
    """Who is compiled how into which program. Threads share one."""

    def __init__(self, checkout, folder, work):
        self.checkout, self.folder, self.work = checkout, folder, work
        self.lock = threading.Lock()
        self.linker = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []
        self.programs, self.usual_s, self.tests, self.deps = {}, {}, {}, None
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
        for program in programs:
            if program not in self.tests:
                raise Broken(f"there is no test of {program}")
            self.usual_s[program] = usual.get(program) or 30
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
        argv = [*argv[:argv.index("-o")], "-o", str(made), "-c", str(source), "-g0", *GUESSES_OFF]
        argv[1:1] = more
        return run(argv, COMPILE_LIMIT_S, log, cwd=self.folder)

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
        self.without, self.without_binary = None, None

    def play(self, program, binary, arguments):
        """"" when the tests pass, else what failed: a case, or why there is none."""
        found = self.play_once(program, binary, arguments)
        old = self.build.folder / "bin" / program
        if found == DID_NOT_END and binary != old:
            # A machine that is busy with other things is no endless loop.
            from_s = time.monotonic()
            if self.play_once(program, old, arguments) == DID_NOT_END:
                raise Broken(f"{program} does not end without any error: {self.log}")
            usual_s = time.monotonic() - from_s
            if SPREAD * usual_s > max(LEAST_LIMIT_S, SPREAD * self.build.usual_s[program]):
                self.build.usual_s[program] = usual_s
                return self.play_once(program, binary, arguments)
        return found

    def play_once(self, program, binary, arguments):
        properties = self.build.tests[program]
        environment = {**os.environ, **dict(line.split("=", 1) for line in properties.get("ENVIRONMENT", []))}
        limit_s = max(LEAST_LIMIT_S, SPREAD * self.build.usual_s[program])
        ended = run([str(binary), *arguments], limit_s, self.log, cwd=properties["WORKING_DIRECTORY"], env=environment)
        if ended == 0:
            return ""
        if ended is None:
            return DID_NOT_END
        return failed_case(self.log.read_text(errors="replace")) or f"it ended with {ended}"

    def objects_with(self, program, file, text):
        """New objects of a program by the names of the old ones; None: the compiler refuses."""
        overlay = self.here / "overlay"
        shutil.rmtree(overlay, ignore_errors=True)
        changed = overlay / file
        changed.parent.mkdir(parents=True)
        changed.write_text(text)
        _, named, archived = self.build.programs[program]
        is_header = file.endswith(".h")
        built = self.build.includers(program, file) if is_header else self.build.objects_of.get(file, [])
        made = {}
        for number, one in enumerate(b for b in built if b in named or b in archived):
            source = self.build.commands[one][1]
            if not is_header:
                unity = source.read_text().replace(f'"{self.build.checkout / file}"', f'"{changed}"')
                source = changed if source == self.build.checkout / file else self.here / f"batch{number}.cxx"
                if source != changed:
                    source.write_text(unity)
            made[one] = str(self.here / f"batch{number}.o")
            if self.build.compile(one, source, made[one], self.log, ["-iquote", str(overlay)]) != 0:
                return None
        if not made:
            raise Broken(f"{program} has nothing of {file}")
        return made

    def single(self, file, text, name):
        """The source alone as an object; None: the compiler refuses."""
        source, made = self.here / name / pathlib.Path(file).name, self.here / f"{name}.o"
        source.parent.mkdir(exist_ok=True)
        source.write_text(text)
        built = self.build.objects_of[file][0]
        return str(made) if self.build.compile(built, source, made, self.log) == 0 else None

    def passes_without(self, program, file, text, case):
        """Whether the case passes where the same source is compiled alone without an error."""
        name = f"mutant_{self.number}_without_{program}"
        key = (program, file)
        if self.without != key:
            alone = self.single(file, text, "without")
            if alone is None:
                return False
            self.without_binary = self.build.link(program, {"alone": alone}, name, self.log)
            self.without = key
        return self.play(program, self.without_binary, [case_filter(case)] if case else ["--count"]) == ""

    def alone(self, file, before, after, tests):
        """What noticed the error with the source compiled alone, "the compiler", or "" when nothing did or it is doubtful."""
        made = self.single(file, after, "with")
        if made is None:  # or the source cannot be compiled by itself
            return "the compiler" if self.single(file, before, "without") else ""
        for test in tests:
            program, asked = program_of(test), files_filter(test)
            binary = self.build.link(program, {"alone": made}, f"mutant_{self.number}_{program}", self.log)
            near = [] if asked else [[f"--source-file=*/tests/unit/{os.path.dirname(file)}/*"]]
            for chosen in (*near, asked):
                case = self.play(program, binary, [*chosen, "--abort-after=1"])
                if case == "":
                    continue
                if case == DID_NOT_END:
                    return f"{program} (it did not end)"
                known = not case.startswith("it ended with")
                if self.passes_without(program, file, before, case if known else ""):
                    return f"{program}: {case}"
                return ""
        return ""

    def whole(self, file, after, tests):
        """The same with all that is made of the file compiled anew."""
        for test in tests:
            program = program_of(test)
            made = self.objects_with(program, file, after)
            if made is None:
                return "the compiler"
            binary = self.build.link(program, made, f"mutant_{self.number}_{program}", self.log)
            near = [f"--source-file=*/tests/unit/{os.path.dirname(file)}/*", "--abort-after=1"]
            case = self.play(program, binary, near) if file.endswith(".h") else ""
            case = case or self.play(program, binary, [*files_filter(test), "--abort-after=1"])
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

    def noticed_by(self, file, before, after, tests):
        """What noticed it; "the compiler": it is no program; "": it survived."""
        if file.endswith(".cc"):
            found = self.alone(file, before, after, tests)
            if found:
                return found
        return self.whole(file, after, tests)

    def close(self):
        for program in self.build.programs:
            for name in (f"mutant_{self.number}_{program}", f"mutant_{self.number}_without_{program}"):
                (self.build.folder / "bin" / name).unlink(missing_ok=True)
        shutil.rmtree(self.here, ignore_errors=True)
