"""scripts/check must turn red for every rule that it claims to hold. Each case plants one violation in a small tree of
its own and expects one finding of that rule, at that line; the same tree without it must be green."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check.py"
UNFINISHED = "TO" + "DO"
MACHINE_PATH = "/wo" + "rk/data"
TOLD = "to" + "ld"

DECISIONS = "# Decisions\n\n| house | a | 1 |\n\n## 1. A\n*2026-11-21, house*\n\nText\n"

CLEAN = {
    "docs/decisions.md": DECISIONS,
    ".clang-format": (CHECK.parents[1] / ".clang-format").read_text(),
    "base/text/text.h": '// Room base/text\n#pragma once\n#include <string>\n',
    "contracts/tasks/task.h": '// Room contracts/tasks\n#pragma once\n#include "base/text/text.h"\n',
    "engine/ops/linear/gemm.cc": '#include <mpi.h>\n\n#include "engine/core/tensor/tensor.h"\n',
    "engine/tasks/pretrain.cc": '#include "engine/infer/server.h"\n#include "engine/train/step/trainer.h"\n',
    "engine/main.cc": '#include "engine/tasks/pretrain.h"\n',
    "orchestrator/cli/run.cc": '#include <CLI/CLI.hpp>\n\n#include "orchestrator/controller/tick.h"\n',
    "worker/lead/lead.cc": '#include "resiliency/policy.h"\n#include "worker/launch/ranks.h"\n',
    "tests/unit/base/text/text_test.cc": '#include <doctest/doctest.h>\n\n#include "engine/ops/linear/gemm.h"\n',
    "scripts/run": "#!/usr/bin/env bash\necho ready\n",
}

# name, file, its text, the rule that must find it, the line
CASES = [
    ("files are opened in one place", "worker/lead/a.cc", 'int f() {\n  return ::open("/dev/shm/x", 0);\n}\n', "opens", 2),
    ("streams open by name", "worker/lead/a.cc", 'std::ofstream file("/tmp/x");\n', "opens", 1),
    ("folders are made in one place", "worker/lead/a.cc", 'int f() { return ::mkdir("/dev/shm/x", 0777); }\n', "opens", 1),
    ("an exception that is none any more", "worker/main.cc", "int a;\n", "opens", 1),
    ("a child is waited for until a deadline", "worker/lead/a.cc", "void f() {\n  ::waitpid(pid, &status, 0);\n}\n", "waits", 2),
    ("so is another thread", "worker/lead/a.cc", "void f() {\n  done.wait(lock, [] { return true; });\n}\n", "waits", 2),
    ("and a socket", "worker/lead/a.cc", "int f() { return ::poll(&one, 1, -1); }\n", "waits", 1),
    ("a wait that has gone is no exception", "base/process/fault_point.cc", "int a;\n", "waits", 1),
    ("base knows nobody", "base/a.cc", '\n#include "contracts/tasks/task.h"\n', "walls", 2),
    ("contracts know no program", "contracts/a.cc", '#include "engine/core/tensor/tensor.h"\n', "walls", 1),
    ("the engine does not know the orchestrator", "engine/tasks/a.cc", '#include "orchestrator/state/log.h"\n', "walls", 1),
    ("the engine does not know the worker", "engine/core/a.cc", '#include "worker/protocol/wire/wire.h"\n', "walls", 1),
    ("the orchestrator does not know the engine", "orchestrator/cli/a.cc", '#include "engine/core/tensor/tensor.h"\n', "walls", 1),
    ("the engine knows only the heartbeat of resiliency", "engine/train/a.cc", '#include "resiliency/policy.h"\n', "walls", 1),
    ("autotune does not know resiliency", "autotune/a.cc", '#include "resiliency/policy.h"\n', "walls", 1),
    ("the heartbeat does not know resiliency", "resiliency/beat/a.cc", '#include "resiliency/policy.h"\n', "walls", 1),
    ("arrows inside the engine go down", "engine/ops/a.cc", '#include "engine/model/llama.h"\n', "walls", 1),
    ("train does not know align", "engine/train/a.cc", '#include "engine/align/dpo.h"\n', "walls", 1),
    ("ops and comm stand beside each other", "engine/ops/a.cc", '#include "engine/comm/comm.h"\n', "walls", 1),
    ("curate needs no model", "engine/curate/a.cc", '#include "engine/model/llama.h"\n', "walls", 1),
    ("arrows inside the orchestrator go down", "orchestrator/state/a.cc", '#include "orchestrator/controller/tick.h"\n', "walls", 1),
    ("the slurm helper stands alone", "orchestrator/slurm_helper/a.cc", '#include "orchestrator/state/log.h"\n', "walls", 1),
    ("arrows inside the worker go down", "worker/launch/a.cc", '#include "worker/lead/lead.h"\n', "walls", 1),
    ("a new room needs a row", "base/misc/a.cc", "int a;\n", "walls", 1),
    ("rooms of a hall know what their row says", "base/text/a.cc", '#include "base/value/json.h"\n', "walls", 1),
    ("the root of a hall is a room, too", "contracts/plan/a.cc", '#include "contracts/records/launch.h"\n', "walls", 1),
    ("a room has an entry", "base/value/a.h", "#pragma once\n", "entries", 1),
    ("drawings are made by one canvas", "orchestrator/cli/a.cc", 'std::string bar(int x) {\n  return format("<rect x=\\"{}\\"/>", x);\n}\n',
     "drawings", 2),
    ("lines of pages are short", "docs/a.md", "# A\n\n" + "word " * 30 + "\n", "docs", 3),
    ("a decision has a number", "docs/decisions.md", DECISIONS.replace("## 1. A", "## A"), "decisions", 5),
    ("a decision has a day and a group", "docs/decisions.md", DECISIONS.replace("house*", "kitchen*"), "decisions", 5),
    ("a decision is in the table", "docs/decisions.md", DECISIONS.replace("| 1 |", "| 1, 2 |"), "decisions", 1),
    ("a decision is short", "docs/decisions.md", DECISIONS + "line\n" * 13, "decisions", 5),
    ("a decision is superseded by a later one", "docs/decisions.md",
     DECISIONS.replace("Text", "*Superseded by 1.* Text"), "decisions", 5),
    ("a new folder needs a row", "engine/misc/a.cc", "int a;\n", "walls", 1),
    ("includes start at the root", "base/a.cc", '#include "text.h"\n', "walls", 1),
    ("nlohmann only in its wrapper", "base/a.cc", "#include <nlohmann/json.hpp>\n", "headers", 1),
    ("toml++ only in its wrapper", "base/a.cc", "#include <toml++/toml.h>\n", "headers", 1),
    ("spdlog only in its wrapper", "worker/main.cc", "#include <spdlog/spdlog.h>\n", "headers", 1),
    ("Eigen only in its wrapper", "autotune/calibrate/a.cc", "#include <Eigen/Dense>\n", "headers", 1),
    ("CLI11 only in the command line", "orchestrator/state/a.cc", "#include <CLI/CLI.hpp>\n", "headers", 1),
    ("httplib only in the servers", "engine/infer/a.cc", "#include <httplib.h>\n", "headers", 1),
    ("oneDNN only in ops", "engine/model/a.cc", "#include <dnnl.hpp>\n", "headers", 1),
    ("ICU only where text is cleaned", "engine/model/a.cc", "#include <unicode/uchar.h>\n", "headers", 1),
    ("PCRE2 only in data", "engine/curate/a.cc", "#include <pcre2.h>\n", "headers", 1),
    ("SQLite only in state", "orchestrator/cli/a.cc", "#include <sqlite3.h>\n", "headers", 1),
    ("curl only in its wrapper", "orchestrator/notify/a.cc", "#include <curl/curl.h>\n", "headers", 1),
    ("doctest only in tests", "base/a.cc", "#include <doctest/doctest.h>\n", "headers", 1),
    ("MPI only in three rooms", "engine/train/a.cc", "#include <mpi.h>\n", "headers", 1),
    ("CUDA only in three rooms", "engine/train/a.cc", "#include <cuda_runtime.h>\n", "headers", 1),
    ("NCCL only in three rooms", "worker/agent/a.cc", "#include <nccl.h>\n", "headers", 1),
    ("libslurm only in the helper", "orchestrator/scheduler/a.cc", "#include <slurm/slurm.h>\n", "headers", 1),
    ("intrinsics only in guarded files", "engine/model/a.cc", "#include <immintrin.h>\n", "headers", 1),
    ("files fit a sitting", "base/a.cc", "int a;\n" * 601, "length", 601),
    ("nothing unfinished", "docs/a.md", f"# A\n\n{UNFINISHED}: later\n", "words", 3),
    ("no path of one machine", "workflows/a.toml", f'data = "{MACHINE_PATH}"\n', "words", 1),
    ("terms are the field's", "worker/lead/a.cc", f"int a;  // as the lead {TOLD} it\n", "words", 1),
    ("names, too", "engine/train/a.h", f"// Room engine/train\n#pragma once\nbool is_{TOLD}();\n", "words", 3),
    ("what is not a text has no words", "worker/lead/a.cc", "// The words of srun.\n", "words", 1),
    ("output passes one function", "orchestrator/render/a.cc", 'void f() {\n  std::printf("%s", "a");\n}\n', "output", 2),
    ("errors, too", "worker/lead/a.cc", 'void f() {\n  std::fputs("a", stderr);\n}\n', "output", 2),
    ("streams as well", "base/a.cc", "void f() {\n  std::cerr << 1;\n}\n", "output", 2),
    ("scripts parse", "scripts/broken", "#!/usr/bin/env bash\nif true; then\n", "shell", None),
    ("sources are formatted", "base/a.cc", "int   a ;\n", "format", 1),
]


def run_check(root, rules="walls,folders,entries,docs,decisions,headers,opens,waits,length,classes,words,output,shell,format"):
    return subprocess.run([sys.executable, str(CHECK), "--root", str(root), "--only", rules], capture_output=True,
                          text=True, timeout=60)


def plant(root, files):
    for name, text in files.items():
        path = pathlib.Path(root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def case_fails(name, file, text, rule, line):
    with tempfile.TemporaryDirectory() as root:
        plant(root, CLEAN | {file: text})
        done = run_check(root, rule)
        place = f"{file}:{line}: {rule}: " if line else f"{file}: {rule}: "
        findings = [found for found in done.stdout.splitlines() if f": {rule}: " in found]
        if done.returncode == 1 and findings and all(found.startswith(place.split(": ")[0]) for found in findings):
            return None
        return f"{name}: wanted '{place}...' and exit code 1, got {done.returncode}\n{done.stdout}{done.stderr}"


def folders_fail():
    """One source more than a folder may have."""
    with tempfile.TemporaryDirectory() as root:
        outcomes = []
        for count in (25, 26):
            plant(root, CLEAN | {f"base/value/a{i}.cc": "int a;\n" for i in range(count)})
            done = run_check(root, "folders")
            outcomes.append((done.returncode, done.stdout))
        (within, _), (above, said) = outcomes
        return None if within == 0 and above == 1 and "base/value/: folders: 26 sources" in said else f"folders: {outcomes}"


def circle_fails():
    """The table of rooms itself, with an arrow that closes a circle."""
    with tempfile.TemporaryDirectory() as root:
        scripts = pathlib.Path(root) / "scripts"
        plant(root, CLEAN)
        scripts.mkdir(exist_ok=True)
        for name in ("check.py", "check_rooms.py", "check_classes.py", "check_terms.py", "check_used.py", "check_waits.py"):
            (scripts / name).write_text((CHECK.parent / name).read_text())
        rooms = scripts / "check_rooms.py"
        rooms.write_text(rooms.read_text().replace('"base/text": [],', '"base/text": ["base/value"],'))
        done = subprocess.run([sys.executable, str(scripts / "check.py"), "--root", root, "--only", "walls"], capture_output=True, text=True,
                              timeout=60)
        if done.returncode == 1 and "a circle of rooms" in done.stdout:
            return None
        return f"a circle of rooms: {done.returncode}\n{done.stdout}{done.stderr}"


def lines_class(count):
    """A class of `count` lines: its definition in a header, and one function outside it."""
    body = "".join(f"  a_ += {i};\n" for i in range(count - 9))
    header = "// Room base/value\n#pragma once\nclass Big {\n public:\n  void f();\n\n private:\n  int a_ = 0;\n};\n"
    return {"base/value/big.h": header, "base/value/big.cc": '#include "base/value/big.h"\n\nvoid Big::f() {\n' + body + "}\n"}


def class_of(functions, members):
    lines = "".join(f"  int f{i}(int a = 0) const {{ return a; }}\n" for i in range(functions))
    return {"base/value/big.h": "// Room base/value\n#pragma once\nclass Big {\n public:\n  Big() = default;\n" + lines + "\n private:\n" +
            "  void hidden();\n  static constexpr int limit = 1;\n  struct Part {\n    int a, b;\n  };\n" +
            "".join(f"  std::function<void(int)> m{i}_;\n" for i in range(members)) + "};\n"}


def run_classes(files, exceptions):
    """What the rule says of `files` with a list of exceptions of its own."""
    with tempfile.TemporaryDirectory() as root:
        plant(root, CLEAN | files | {f"scripts/{name}": (CHECK.parent / name).read_text() for name in ("check.py", "check_rooms.py", "check_classes.py", "check_terms.py", "check_used.py", "check_waits.py")})
        rule = pathlib.Path(root) / "scripts/check_classes.py"
        head, end = re.split(r"^EXCEPTIONS = \{[^}]*\}$", rule.read_text(), flags=re.MULTILINE)
        rule.write_text(f"{head}EXCEPTIONS = {exceptions!r}{end}")
        done = subprocess.run([sys.executable, str(rule.parent / "check.py"), "--root", root, "--only", "classes"], capture_output=True, text=True,
                              timeout=60)
        return done.returncode, done.stdout + done.stderr


def classes_fail():
    """Each limit at its edge and one above it; then the list of exceptions, which only shrinks."""
    record = {"base/value/big.h": "#pragma once\nstruct Big {\n" + "".join(f"  int m{i} = 0;\n" for i in range(16)) + "};\n"}
    big = "base/value/big.h Big"
    wanted = [
        ("300 lines", lines_class(300), {}, None),
        ("301 lines", lines_class(301), {}, "base/value/big.h:3: classes: class Big has 301 lines"),
        ("25 functions and 15 members", class_of(25, 15), {}, None),
        ("26 functions", class_of(26, 15), {}, "base/value/big.h:3: classes: class Big has 26 public functions"),
        ("16 members", class_of(25, 16), {}, "base/value/big.h:3: classes: class Big has 16 data members"),
        ("the fields of a record", record, {}, None),
        ("an exception", lines_class(310), {big: (310, 1, 1)}, None),
        ("an exception that grows", lines_class(311), {big: (310, 1, 1)}, "class Big has grown to 311 lines (at most 310)"),
        ("an exception that is none any more", lines_class(300), {big: (310, 1, 1)}, "class Big is within the limits"),
        ("an exception of a class that is gone", {}, {big: (310, 1, 1)}, "there is no class base/value/big.h Big"),
    ]
    for name, files, exceptions, text in wanted:
        code, said = run_classes(files, exceptions)
        if code != (1 if text else 0) or (text and text not in said):
            return f"classes: {name}: wanted {text or 'nothing'}, got {code}\n{said}"
    return None


def used_fails():
    """What is declared in a header and named by tests alone is found; what another source, or its own, uses is not."""
    header = ("#pragma once\nnamespace a {\nint twice(int x);\nstruct Pair {\n  int first = 0;\n  bool same(int x) const;\n};\n"
              "inline constexpr int limit = 3;\n}  // namespace a\n")
    source = ('#include "base/value/pair.h"\n\nnamespace a {\nint twice(int x) {\n  return 2 * x;\n}\n'
              "bool Pair::same(int x) const {\n  return x == x;\n}\n}  // namespace a\n")
    files = {"base/value/pair.h": header, "base/value/pair.cc": source,
             "tests/unit/base/value/pair_test.cc": "int all = a::twice(a::limit) + a::Pair{1}.first + a::Pair().same(1);\n"}
    user = "int f(const a::Pair& pair) {{\n  return {};\n}}\n"
    all_used = user.format("pair.same(1) ? a::twice(a::limit) : pair.first")
    wanted = [
        ("only tests", {}, {}, ["3: used: no source of the product uses twice", "4: used: no source of the product uses Pair",
                                "5: used: no source of the product uses first", "6: used: no source of the product uses same",
                                "8: used: no source of the product uses limit"]),
        ("another source", {"base/value/user.cc": all_used}, {}, []),
        ("all but a function", {"base/value/user.cc": user.format("pair.same(1) ? a::limit : pair.first")}, {}, ["3: used: no source of the product uses twice"]),
        ("an exception", {"base/value/user.cc": user.format("pair.same(1) ? a::limit : pair.first")}, {"base/value/pair.h twice": "why"}, []),
        ("an exception of a whole file", {}, {"base/value/pair.h *": "why"}, []),
        ("an exception that is none any more", {"base/value/user.cc": all_used}, {"base/value/pair.h twice": "why"}, ["take it out of EXCEPTIONS"]),
        ("a word in a text or a comment", {"base/value/user.cc": user.format('pair.same(1) ? a::limit : pair.first, text("twice(1)")  // twice(2)')}, {},
         ["3: used: no source of the product uses twice"]),
    ]
    sys.path.insert(0, str(CHECK.parent))
    import check_used
    for name, more, exceptions, texts in wanted:
        product = {file: text for file, text in (files | more).items() if not file.startswith("tests/")}
        found = [f"{line}: used: {text}" for _, line, text in check_used.findings_of(product, exceptions)]
        if len(found) != len(texts) or not all(text in said for text, said in zip(texts, found)):
            return f"used: {name}: wanted {texts}, got {found}"
    with tempfile.TemporaryDirectory() as root:
        plant(root, CLEAN | files)
        done = subprocess.run([sys.executable, str(CHECK), "--root", root, "--only", "used"], capture_output=True, text=True, timeout=60)
        return None if done.returncode == 1 and "check: " in done.stdout and "5 findings" in done.stdout else f"used: {done.stdout}{done.stderr}"


def git(root, *words):
    subprocess.run(["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)


def alone_fails():
    """A source that lives off another one's includes, because a header that it includes has changed; then mended."""
    good, bad = '#pragma once\n#include <string>\nstd::string text();\n', '#pragma once\nstd::string text();\n'
    with tempfile.TemporaryDirectory() as root:
        plant(root, CLEAN | {"base/text/text.h": good, "base/text/text.cc": '#include "base/text/text.h"\n', "base/other.cc": "int other;\n"})
        commands = [{"directory": root, "file": f"base/{name}.cc", "command": f"c++ -std=c++20 -I. -Wall -Werror -o out.o -c base/{name}.cc"}
                    for name in ("text/text", "other")]
        (pathlib.Path(root) / "compile_commands.json").write_text(json.dumps(commands))
        git(root, "init", "-q")
        git(root, "add", ".")
        for _ in range(2):  # what a commit changed is compared with the one before
            git(root, "commit", "-q", "--allow-empty", "-m", "all")
        outcomes = []
        for text in (bad, good):
            (pathlib.Path(root) / "base/text/text.h").write_text(text)
            done = subprocess.run([sys.executable, str(CHECK), "--root", root, "--only", "alone", "--build", root], capture_output=True,
                                  text=True, timeout=60)
            outcomes.append((done.returncode, done.stdout + done.stderr))
        (code, said), mended = outcomes
        if code == 1 and "base/text/text.h:2: alone: base/text/text.cc does not compile by itself" in said and mended[0] == 0:
            return None
        return f"a changed header and who includes it: {outcomes}"


def main():
    failures = []
    for more in (alone_fails, folders_fail, circle_fails, classes_fail, used_fails):
        if problem := more():
            failures.append(problem)
    with tempfile.TemporaryDirectory() as root:
        plant(root, CLEAN)
        done = run_check(root)
        if done.returncode != 0:
            failures.append(f"a clean tree must be green\n{done.stdout}{done.stderr}")
    for case in CASES:
        if problem := case_fails(*case):
            failures.append(problem)
    for failure in failures:
        print("FAILED:", failure)
    total = len(CASES) + 6
    print(f"test cases: {total} | {total - len(failures)} passed | {len(failures)} failed | 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
