#!/usr/bin/env python3
"""Holds the sources to the rules of docs/architecture.md, section 2. Prints `file:line: rule: what; how to fix it`.

Exit code 0: nothing found. 1: something found. 2: a tool is missing, so a rule could not be checked.
"""
import argparse
import collections
import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

import check_classes
import check_terms
import check_used
import check_waits
from check_rooms import INSIDE

# ---------------------------------------------------------------------------------------------------------------------
# Walls: hall -> halls it may include. A hall may always include itself, as far as the rooms inside it allow (check_rooms.py). The longest
# matching row wins.
ENGINE_FLOOR = ["base", "contracts", "resiliency/beat"]
ENGINE_BELOW_TRAIN = ["engine/core", "engine/ops", "engine/comm", "engine/parallel", "engine/model", "engine/data",
                      "engine/checkpoint", "engine/interop"]
ENGINE_BELOW_TASKS = ENGINE_BELOW_TRAIN + ["engine/train"]
CONTROL_FLOOR = ["base", "contracts", "resiliency", "resiliency/beat", "autotune"]
CONTROL_STORE = ["orchestrator/" + room for room in ("notify", "site", "workflow", "scheduler", "state")]
CONTROL_BELOW = ["orchestrator/" + room for room in ("workflow", "site", "scheduler", "state", "index", "render", "notify")]
# From below: what a round decides; what arithmetic expects of a stage; a run's folder; its jobs; what is reused and why; what is
# looked at before a start; the rounds; the stages that rounds carry out themselves.
CONTROL_RUN = ["orchestrator/" + room for room in ("decide", "forecast", "runs", "job", "reuse", "preflight", "controller", "trials")]
WORKER_FLOOR = ["base", "contracts", "resiliency", "resiliency/beat"]

WALLS = {
    "base": [],
    "contracts": ["base"],
    "resiliency/beat": ["base"],
    "resiliency": ["base", "contracts", "resiliency/beat"],
    "autotune": ["base", "contracts"],
    # engine: tasks -> align infer quantize curate -> train -> model -> parallel -> ops comm -> core
    "engine/core": ENGINE_FLOOR,
    "engine/ops": ENGINE_FLOOR + ["engine/core"],
    "engine/comm": ENGINE_FLOOR + ["engine/core"],
    "engine/parallel": ENGINE_FLOOR + ["engine/core", "engine/ops", "engine/comm"],
    "engine/model": ENGINE_FLOOR + ["engine/core", "engine/ops", "engine/comm", "engine/parallel", "engine/interop"],
    # beside model
    "engine/data": ENGINE_FLOOR + ["engine/core"],
    "engine/interop": ENGINE_FLOOR + ["engine/core"],
    "engine/checkpoint": ENGINE_FLOOR + ["engine/core", "engine/ops", "engine/comm", "engine/parallel"],
    "engine/train": ENGINE_FLOOR + ENGINE_BELOW_TRAIN,
    "engine/align": ENGINE_FLOOR + ENGINE_BELOW_TASKS,
    "engine/infer": ENGINE_FLOOR + ENGINE_BELOW_TASKS,
    "engine/quantize": ENGINE_FLOOR + ENGINE_BELOW_TASKS,
    "engine/curate": ENGINE_FLOOR + ["engine/core"],
    "engine/tasks": ENGINE_FLOOR + ["engine"],
    "engine": ENGINE_FLOOR + ["engine"],  # main.cc
    # orchestrator: cli web -> fit -> trials -> controller -> preflight -> reuse -> job -> runs -> forecast -> decide -> render -> index
    # -> state scheduler -> workflow -> site -> notify
    "orchestrator/site": CONTROL_FLOOR + ["orchestrator/notify"],
    "orchestrator/workflow": CONTROL_FLOOR + ["orchestrator/site"],
    "orchestrator/scheduler": CONTROL_FLOOR + ["orchestrator/site", "orchestrator/workflow"],
    "orchestrator/state": CONTROL_FLOOR + ["orchestrator/notify", "orchestrator/site", "orchestrator/workflow"],
    "orchestrator/index": CONTROL_FLOOR + CONTROL_STORE,
    "orchestrator/render": CONTROL_FLOOR + CONTROL_STORE + ["orchestrator/index"],
    "orchestrator/notify": CONTROL_FLOOR,  # a site file says where messages go, so this room lies below it
    "orchestrator/decide": CONTROL_FLOOR + CONTROL_STORE,
    "orchestrator/forecast": CONTROL_FLOOR + CONTROL_STORE,
    "orchestrator/runs": CONTROL_FLOOR + CONTROL_STORE + ["orchestrator/decide"],
    "orchestrator/job": CONTROL_FLOOR + CONTROL_STORE + ["orchestrator/decide", "orchestrator/forecast"],
    "orchestrator/reuse": CONTROL_FLOOR + CONTROL_STORE + ["orchestrator/decide", "orchestrator/runs"],
    "orchestrator/preflight": CONTROL_FLOOR + CONTROL_STORE + CONTROL_RUN[:5],
    "orchestrator/controller": CONTROL_FLOOR + CONTROL_BELOW + CONTROL_RUN[:5],
    "orchestrator/trials": CONTROL_FLOOR + CONTROL_BELOW + CONTROL_RUN[:7],
    "orchestrator/fit": CONTROL_FLOOR + CONTROL_BELOW + CONTROL_RUN[:6],
    "orchestrator/cli": CONTROL_FLOOR + CONTROL_BELOW + CONTROL_RUN + ["orchestrator/fit"],
    "orchestrator/web": CONTROL_FLOOR + CONTROL_BELOW + CONTROL_RUN,
    "orchestrator/slurm_helper": ["base", "contracts"],
    "orchestrator": CONTROL_FLOOR + ["orchestrator"],
    # worker: lead agent doctor -> launch protocol stacks; starter, a program of its own -> launch
    "worker/launch": WORKER_FLOOR,
    "worker/protocol": WORKER_FLOOR,
    "worker/stacks": WORKER_FLOOR,
    "worker/lead": WORKER_FLOOR + ["worker/launch", "worker/protocol", "worker/stacks"],
    "worker/agent": WORKER_FLOOR + ["worker/launch", "worker/protocol", "worker/stacks"],
    "worker/doctor": WORKER_FLOOR + ["worker/launch", "worker/protocol", "worker/stacks"],
    "worker/starter": WORKER_FLOOR + ["worker/launch"],
    "worker": WORKER_FLOOR + ["worker"],
}
OUR_ROOTS = sorted({room.split("/")[0] for room in WALLS} | {"tests"})

# Heavy or delicate headers -> the only files that may include them (shell patterns). Tests may include all but doctest's
# rule is the other way round: only tests may.
HEADERS = [
    (r"nlohmann/", ["base/value/json.cc", "base/value/json_schema.cc"]),
    (r"valijson/", ["base/value/json_schema.cc"]),
    (r"toml\+\+/|toml\.hpp$", ["base/toml.cc"]),
    (r"yaml\.h$", ["base/yaml.cc"]),
    (r"spdlog/", ["base/process/log.cc"]),
    (r"xxhash\.h$", ["base/digest/hash.cc"]),
    (r"Eigen/", ["autotune/calibrate/least_squares.cc"]),
    (r"CLI/", ["orchestrator/cli/*", "base/options/command_options.cc"]),
    (r"httplib\.h$", ["engine/infer/http/*", "orchestrator/web/*"]),
    (r"(oneapi/)?dnnl", ["engine/ops/cpu/*", "engine/core/*"]),
    (r"unicode/|gumbo\.h$|cld2/", ["engine/curate/*", "engine/data/*"]),
    (r"pcre2\.h$", ["engine/data/*"]),
    (r"simdjson\.h$", ["engine/curate/*", "engine/data/*"]),
    (r"sqlite3\.h$", ["orchestrator/index/sqlite.cc"]),
    (r"curl/", ["base/http/http_post.cc"]),
    (r"doctest/", []),
    (r"elfutils/|dwarf\.h$", ["worker/stacks/native_stacks.cc"]),
    (r"slurm/", ["orchestrator/slurm_helper/*"]),
    (r"(mpi|nccl)\.h$|cuda|cublas|cudnn|curand|nvrtc|cub/|cooperative_groups|nvml\.h$",
     ["engine/ops/*", "engine/comm/*", "engine/core/*"]),
    (r"(immintrin|x86intrin|arm_neon|arm_sve)\.h$", ["engine/ops/cpu/*"]),
]

# Opening and making files: only here, because elsewhere somebody forgets that a name in /dev/shm, /tmp or a shared folder may be
# a link, a FIFO or another user's file (base/files/owned_files.h). Each exception says why it cannot go wrong there. Tests may.
OPENS = re.compile(r"(?<![\w>.])(?:std)?::(?:open|openat|openat2|creat|mkfifo|mknod|mkdir|mkdirat|mkdtemp|mkstemp|mkostemp|fopen|freopen|"
                   r"shm_open)\s*\(|\bstd::[io]?fstream\b|\bcreate_director(?:y|ies)\s*\(")
OPENS_ALLOWED = {
    "base/files/owned_files.cc": "the room of it",
    "base/files/owned_folder.cc": "the room of it",
    "base/files/folder_access.cc": "folders that a run is shared in: made for their owner alone, opened without a link, then given",
    "base/files/files.cc": "syncs what it has made; makes folders, which follow the umask and are no private ones",
    "base/process/confined_program.cc": "files of /proc and devices in mounts of its own, between fork and exec",
    "base/process/process.cc": "/dev/null, between fork and exec",
    "resiliency/health/file_system_probe.cc": "folders that the site names, to look at; in a process that may hang",
    "engine/interop/safetensors.cc": "a folder, to sync it",
    "engine/checkpoint/state/file_state_place.cc": "files without a name (O_TMPFILE), mode 0600",
    "engine/checkpoint/format/shard_file.cc": "direct I/O; O_EXCL and O_NOFOLLOW",
    "orchestrator/runs/artifact_index.cc": "files and folders: O_NOFOLLOW and O_NONBLOCK, owner and mode from the descriptor",
    "orchestrator/state/access/run_access.cc": "a folder, to look at what is in it (O_PATH)",
    "orchestrator/slurm_helper/main.cc": "its own stderr, by its descriptor in /proc",
    "worker/protocol/ranks/process_watch.cc": "/proc",
    "worker/main.cc": "/dev/null",
    "worker/doctor/node_look.cc": "devices of GPUs below /dev, which only root makes",
}

SOURCES_MAX = 25  # of a folder
DOCS_COLUMNS = 120
GENERATED_DOCS = ("docs/reference/", "docs/compatibility.md")
LINES_MAX = 600
LONG_FILES = []  # exceptions to LINES_MAX; meant to stay empty

# Written in pieces so that this file passes its own rule.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]) + r")\b")
MACHINE_PATH = re.compile(r"(?<![\w.}\-/])/(" + "|".join(["wo" + "rk", "ro" + "ot"]) + r")/")

SOURCE_SUFFIXES = (".cc", ".h", ".cu")
TIDY_FILES_MAX = 24
TIDY_SECONDS_MAX = 240
ALONE_SECONDS_MAX = 180
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# Elements of drawings, as they begin in a text of a program.
SVG_ELEMENT = re.compile(r"<(?:svg|rect|circle|ellipse|line|polyline|polygon|path|text|g)[ {]")
SVG_CANVAS = "orchestrator/render/draw/svg_canvas.cc"

# Ways to the standard streams that pass by base/text/print.h, and the files that may take them. The helper that links libslurm
# prints its own version alone; die() runs when nothing can be relied on.
OUTPUT = re.compile(r"\b(?:printf|vprintf|puts|putchar)\(|\b(?:fprintf|vfprintf)\((?:stdout|stderr)\b|"
                    r"\bf(?:puts|putc|write)\(.*\bstd(?:out|err)\)|\bstd::c(?:out|err|log)\b")
OUTPUT_FILES = ["base/text/print.cc", "base/error/result.cc", "orchestrator/slurm_helper/main.cc"]


class Findings:
    def __init__(self):
        self.found = 0
        self.unchecked = 0

    def add(self, place, rule, text):
        self.found += 1
        print(f"{place}: {rule}: {text}")

    def not_checked(self, rule, why):
        self.unchecked += 1
        print(f"check: {rule}: NOT CHECKED: {why}")


def git(root, *arguments):
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else None


def all_files(root):
    if (root / ".git").exists():
        names = git(root, "ls-files", "--cached", "--others", "--exclude-standard")
        if names is not None:
            return [name for name in sorted(names) if (root / name).is_file()]
    names = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in (".git", "build")]
        names += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(names)


def changed_files(root, base):
    """Files that differ from where this branch left `base`; on `base` itself, what the last commit changed."""
    start = git(root, "merge-base", "HEAD", base)
    head = git(root, "rev-parse", "HEAD")
    if not start or start == head:
        start = git(root, "rev-parse", "HEAD~1") or None
    committed = git(root, "diff", "--name-only", start[0] if start else "HEAD") or []
    untracked = git(root, "ls-files", "--others", "--exclude-standard") or []
    return sorted(name for name in set(committed + untracked) if (root / name).is_file())


def is_source(name):
    return name.endswith(SOURCE_SUFFIXES)


def lines_of(root, name):
    return (root / name).read_text(encoding="utf-8", errors="replace").split("\n")


def longest(path, rows):
    """The longest of `rows` that holds `path`, or None."""
    parts = path.split("/")
    for length in range(len(parts), 0, -1):
        row = "/".join(parts[:length])
        if row in rows:
            return row
    return None


def may_include(room, target):
    """Inside a hall the rows of INSIDE say it. Between halls WALLS does, where a row that names a whole program (`engine`) allows all
    its halls and one that names a hall allows that hall."""
    hall, target_hall = longest(room, WALLS), longest(target, WALLS)
    if room == target:
        return True
    if hall == target_hall:
        return target in INSIDE.get(room, [])
    return any(target_hall == allowed or (allowed in ("engine", "orchestrator", "worker") and target_hall.startswith(allowed + "/"))
               for allowed in WALLS[hall])


def circle_of_rooms():
    """Rooms of INSIDE that lead back to the first of them, or None."""
    done = set()

    def search(room, path):
        if room in path:
            return path[path.index(room):] + [room]
        if room in done:
            return None
        for below in INSIDE.get(room, []):
            if found := search(below, path + [room]):
                return found
        done.add(room)
        return None

    return next((found for room in INSIDE if (found := search(room, []))), None)


def check_walls(root, names, findings):
    if circle := circle_of_rooms():
        findings.add("scripts/check_rooms.py:1", "walls", "a circle of rooms: " + " -> ".join(circle))
    halls_with_rooms = {longest(room, WALLS) for room in INSIDE}
    for name in filter(is_source, names):
        if name.startswith("tests/"):
            continue
        folder, top = os.path.dirname(name), name.split("/")[0]
        hall = longest(folder, WALLS)
        if hall is None:
            if "/" in name:
                findings.add(f"{name}:1", "walls", f"folder '{top}' is no room; see WALLS in scripts/check.py")
            continue
        if hall == top and name.count("/") > 1 and top in ("engine", "orchestrator", "worker"):
            inner = "/".join(name.split("/")[:2])
            findings.add(f"{name}:1", "walls", f"'{inner}' is no room of {top}; see WALLS in scripts/check.py")
        elif folder != hall and (folder not in INSIDE if hall in halls_with_rooms else True):
            findings.add(f"{name}:1", "walls", f"'{folder}' is no room of {hall}; see INSIDE in scripts/check_rooms.py")
        for number, line in enumerate(lines_of(root, name), 1):
            match = INCLUDE.match(line)
            if not match or match.group(1) == "<":
                continue
            included = match.group(2)
            if included.split("/")[0] not in OUR_ROOTS or "/" not in included:
                findings.add(f"{name}:{number}", "walls",
                             f'"{included}" is not written from the project\'s root; use <...> for what is not ours')
                continue
            target = os.path.dirname(included)
            if longest(target, WALLS) is None or not may_include(folder, target):
                allowed = ", ".join(INSIDE.get(folder, []) + WALLS[hall]) or "only itself"
                findings.add(f"{name}:{number}", "walls", f"{folder} may not include {included}; it may: {allowed}")


def check_entries(root, names, findings):
    """Each room has a header that a newcomer opens first: it begins with the room's name and what the room is for."""
    headers = collections.defaultdict(list)
    for name in all_files(root):
        if name.endswith(".h"):
            headers[os.path.dirname(name)].append(name)
    for room in sorted({os.path.dirname(name) for name in names} & set(INSIDE)):
        entries = [name for name in headers[room] if lines_of(root, name)[0] == f"// Room {room}"]
        if headers[room] and len(entries) != 1:
            findings.add(f"{headers[room][0]}:1", "entries", f"{len(entries)} headers begin with '// Room {room}'; the one to start with does, and says "
                         "what the room is for, where to start and what it must not know")


def check_docs(root, names, findings):
    """Lines of pages are short enough for a diff; tables, code and what generates itself are left alone."""
    for name in names:
        if not name.endswith(".md") or not (name.startswith("docs/") or "/" not in name) or name.startswith(GENERATED_DOCS):
            continue
        fenced = False
        for number, line in enumerate(lines_of(root, name), 1):
            fenced ^= line.lstrip().startswith("```")
            if len(line) > DOCS_COLUMNS and not fenced and not line.startswith(("|", "    ")):
                findings.add(f"{name}:{number}", "docs", f"{len(line)} characters; the limit is {DOCS_COLUMNS}")


DECISION_GROUPS = ["house", "controller", "scheduler", "worker", "engine", "gpu", "data", "tuning", "trust"]
DECISION_LINES_MAX = 12


def check_decisions(root, names, findings):
    """docs/decisions.md: numbered in order, dated, in a group that the table at its top lists, short, replaced ones marked."""
    page = "docs/decisions.md"
    if page not in names:
        return
    lines = [line.rstrip("\n") for line in lines_of(root, page)]
    heads = [at for at, line in enumerate(lines) if line.startswith("## ")]
    listed = {row[1]: row[2].split(", ") for line in lines[:heads[0] if heads else None]
              if (row := re.match(r"\| (\w+) \| [^|]+ \| ([\d, ]+) \|$", line))}
    of_group = collections.defaultdict(list)
    for number, (at, end) in enumerate(zip(heads, heads[1:] + [len(lines)]), 1):
        where = f"{page}:{at + 1}"
        if not lines[at].startswith(f"## {number}. "):
            findings.add(where, "decisions", f"decisions are numbered in order: this one begins with '## {number}. '")
        body = lines[at + 1:end]
        day = re.match(r"\*\d{4}-\d\d-\d\d, (\w+)\*$", body[0] if body else "")
        if not day or day[1] not in DECISION_GROUPS:
            findings.add(where, "decisions", f"the line below the title is '*YYYY-MM-DD, GROUP*', GROUP one of {', '.join(DECISION_GROUPS)}")
        else:
            of_group[day[1]].append(str(number))
        text = "\n".join(body[1:]).strip().splitlines()
        if len(text) > DECISION_LINES_MAX:
            findings.add(where, "decisions", f"{len(text)} lines; the limit is {DECISION_LINES_MAX}: keep context, choice, what was rejected")
        if text and (by := re.match(r"\*Superseded by (\d+)\.\*", text[0])) and not number < int(by[1]) <= len(heads):
            findings.add(where, "decisions", f"superseded by {by[1]}, which is no later decision")
    for group in DECISION_GROUPS if sum(map(len, of_group.values())) == len(heads) else []:
        if of_group[group] != listed.get(group, []):
            findings.add(f"{page}:1", "decisions", f"the table's row of {group} lists {', '.join(of_group[group]) or 'none'}")


def check_folders(root, names, findings):
    """A folder shows a reader no more sources than one look takes in."""
    touched = {os.path.dirname(name) for name in names if is_source(name)}
    counts = collections.Counter(os.path.dirname(name) for name in all_files(root) if is_source(name))
    for folder in sorted(touched):
        if counts[folder] > SOURCES_MAX:
            findings.add(f"{folder}/", "folders", f"{counts[folder]} sources; make rooms inside it, the limit is {SOURCES_MAX}")


def check_headers(root, names, findings):
    for name in filter(is_source, names):
        for number, line in enumerate(lines_of(root, name), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            for pattern, homes in HEADERS:
                if not re.match(pattern, match.group(2)) or name.startswith("tests/"):
                    continue
                if not any(fnmatch.fnmatch(name, home) for home in homes):
                    where = " or ".join(homes) if homes else "files under tests/"
                    findings.add(f"{name}:{number}", "headers",
                                 f"<{match.group(2)}> belongs into {where}; include our wrapper instead")


def check_opens(root, names, findings):
    for name in filter(is_source, names):
        if name.startswith("tests/") or name in OPENS_ALLOWED:
            continue
        for number, line in enumerate(lines_of(root, name), 1):
            if match := OPENS.search(line.split("//")[0]):
                findings.add(f"{name}:{number}", "opens",
                             f"{match.group(0).rstrip('( ')} may meet what another user has put there; use base/files/owned_files.h, "
                             "owned_folder.h or files.h, or say in OPENS_ALLOWED of scripts/check.py why it cannot go wrong")
    for name in OPENS_ALLOWED:
        if name in names and not any(OPENS.search(line.split("//")[0]) for line in lines_of(root, name)):
            findings.add(f"{name}:1", "opens", "opens nothing any more; take it out of OPENS_ALLOWED in scripts/check.py")


def check_waits_of(root, names, findings):
    for name in filter(is_source, names):
        if not name.startswith("tests/"):
            for number, text in check_waits.findings_of(name, lines_of(root, name)):
                findings.add(f"{name}:{number}", "waits", text)


def check_length(root, names, findings):
    for name in filter(is_source, names):
        count = len(lines_of(root, name)) - 1
        if count > LINES_MAX and name not in LONG_FILES:
            findings.add(f"{name}:{LINES_MAX + 1}", "length", f"{count} lines; split it, the limit is {LINES_MAX}")


def check_classes_of(root, names, findings):
    """A class has one reason to change, which its size shows best: all its files are read, whichever of them has changed."""
    texts = {name: (root / name).read_text(encoding="utf-8", errors="replace") for name in all_files(root)
             if is_source(name) and not name.startswith("tests/")}
    exceptions = check_classes.EXCEPTIONS if (root / "scripts/check_classes.py").is_file() else {}
    for one, text in check_classes.findings_of(texts, exceptions):
        if one.files & set(names) or "scripts/check_classes.py" in names:
            findings.add(one.place, "classes", text)


def check_used_of(root, names, findings):
    """What only tests use is no part of the product: all sources of it are read, whichever has changed."""
    is_product = [name for name in all_files(root) if is_source(name) and not name.startswith("tests/")]
    if not set(names) & {*is_product, "scripts/check_used.py"}:
        return
    texts = {name: (root / name).read_text(encoding="utf-8", errors="replace") for name in is_product}
    exceptions = check_used.EXCEPTIONS if (root / "scripts/check_used.py").is_file() else {}
    for file, line, text in check_used.findings_of(texts, exceptions):
        findings.add(f"{file}:{line}", "used", text)


def check_drawings(root, names, findings):
    """A drawing is made by one canvas, which escapes what others have named."""
    for name in filter(is_source, names):
        if name.startswith("tests/") or name == SVG_CANVAS:
            continue
        for number, line in enumerate(lines_of(root, name), 1):
            if match := SVG_ELEMENT.search(line.split("//")[0]):
                findings.add(f"{name}:{number}", "drawings", f"'{match.group(0)}'; draw with {SVG_CANVAS.replace('.cc', '.h')}")


def check_output(root, names, findings):
    """What reaches a terminal passes base/text/print.h, which makes the control characters of strangers visible."""
    for name in filter(is_source, names):
        if name.startswith("tests/") or name in OUTPUT_FILES:
            continue
        for number, line in enumerate(lines_of(root, name), 1):
            if match := OUTPUT.search(line.split("//")[0]):
                findings.add(f"{name}:{number}", "output", f"'{match.group(0)}'; use print() of base/text/print.h")


def check_words(root, names, findings):
    for name in names:
        data = (root / name).read_bytes()
        if b"\0" in data[:4096] or len(data) > 4_000_000 or name.startswith(("tests/data/", "tests/golden/")):
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            if match := UNFINISHED.search(line):
                findings.add(f"{name}:{number}", "words", f"'{match.group(0)}' marks unfinished work; finish it")
            if match := MACHINE_PATH.search(line):
                findings.add(f"{name}:{number}", "words",
                             f"'{match.group(0)}' is a path of one machine; use a relative path or a setting")
            for problem in check_terms.problems(name, line):
                findings.add(f"{name}:{number}", "words", problem)


def is_shell(root, name):
    if name.endswith((".sh", ".bash")):
        return True
    if not name.startswith(("scripts/", ".ci/", "tests/")) or "." in pathlib.Path(name).name:
        return False
    with open(root / name, "rb") as file:
        first = file.readline(100)
    return first.startswith(b"#!") and (b"bash" in first or b"/sh" in first)


def check_shell(root, names, findings):
    scripts = [name for name in names if is_shell(root, name)]
    for name in scripts:
        done = subprocess.run(["bash", "-n", name], cwd=root, capture_output=True, text=True)
        for line in done.stderr.splitlines():
            findings.add(name, "shell", line)
    if scripts and shutil.which("shellcheck"):
        done = subprocess.run(["shellcheck", "-f", "gcc", "-S", "warning", *scripts], cwd=root, capture_output=True,
                              text=True)
        for line in done.stdout.splitlines():
            place, _, text = line.partition(": ")
            findings.add(place, "shell", text)


def check_format(root, names, findings):
    tool = shutil.which("clang-format-19") or shutil.which("clang-format")
    if not tool:
        return findings.not_checked("format", "no clang-format-19; scripts/install-packages test")
    sources = list(filter(is_source, names))
    for start in range(0, len(sources), 200):
        done = subprocess.run([tool, "--dry-run", "-Werror", *sources[start:start + 200]], cwd=root,
                              capture_output=True, text=True)
        places = {}
        for line in done.stderr.splitlines():
            if match := re.match(r"(.+?):(\d+):\d+: error: .*clang-format", line):
                places.setdefault(match.group(1), match.group(2))
        for name, number in places.items():
            findings.add(f"{name}:{number}", "format", f"clang-format-19 -i {name}")
        if done.returncode != 0 and not places:
            findings.add("clang-format", "format", done.stderr.strip())


def includers(root, headers, names):
    """Those of `names` that include one of `headers`."""
    wanted = {f'"{header}"' for header in headers}
    return [name for name in names if any(line.startswith("#include ") and line[9:].strip() in wanted for line in lines_of(root, name))]


def check_alone(root, names, findings, database):
    """The other builds take files in batches, where one may live off the includes of another. So each changed source, and each that
    includes a changed header, is read by the compiler by itself, with all warnings."""
    if not (database / "compile_commands.json").is_file():
        return findings.not_checked("alone", f"no {database}/compile_commands.json; scripts/test --only check makes it")
    commands = {os.path.relpath(os.path.join(c["directory"], c["file"]), root): c
                for c in json.loads((database / "compile_commands.json").read_text())}
    known = [name for name in commands if name.endswith(".cc") and not name.startswith("..") and (root / name).is_file()]
    changed = [name for name in names if name in known]
    todo = changed + sorted(set(includers(root, [name for name in names if name.endswith(".h")], known)) - set(changed))
    queue, running, started = list(todo), {}, time.monotonic()
    while queue or running:
        while queue and len(running) < (os.cpu_count() or 1) and time.monotonic() - started < ALONE_SECONDS_MAX:
            name = queue.pop(0)
            command = shlex.split(commands[name]["command"])
            command = command[1:] if os.path.basename(command[0]) == "ccache" else command
            at = command.index("-o")
            running[name] = subprocess.Popen([*command[:at], *command[at + 2:], "-fsyntax-only"], cwd=commands[name]["directory"], text=True,
                                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if not running:
            break
        name = next(iter(running))
        _, said = running[name].communicate()
        if running.pop(name).returncode != 0:
            found = re.search(r"^(.+?):(\d+):\d+: (?:fatal )?error: (.*)", said, re.MULTILINE)
            place = os.path.relpath(os.path.join(commands[name]["directory"], found.group(1)), root) + ":" + found.group(2) if found else name
            findings.add(place, "alone", f"{name} does not compile by itself: {found.group(3) if found else said.strip()[:300]}")
    if queue:
        print(f"check: alone: {len(queue)} of {len(todo)} files were beyond the limit of {ALONE_SECONDS_MAX} s and are not checked: {' '.join(queue)}")
    return None


def check_tidy(root, names, findings, database):
    tool = shutil.which("clang-tidy-19") or shutil.which("clang-tidy")
    sources = [name for name in names if name.endswith(".cc")]
    if not sources:
        return None
    if not tool:
        return findings.not_checked("tidy", "no clang-tidy-19; scripts/install-packages test")
    if not (database / "compile_commands.json").is_file():
        return findings.not_checked("tidy", f"no {database}/compile_commands.json; cmake --preset release")
    commands = json.loads((database / "compile_commands.json").read_text())
    known = {os.path.relpath(os.path.join(c["directory"], c["file"]), root) for c in commands}
    # Test sources are compiled in unity batches, so the database does not know them one by one.
    todo = [name for name in sources if name in known]
    queue, left = todo[:TIDY_FILES_MAX], todo[TIDY_FILES_MAX:]
    started = time.monotonic()
    running, seen = {}, set()
    while queue or running:
        while queue and len(running) < (os.cpu_count() or 1) and time.monotonic() - started < TIDY_SECONDS_MAX:
            name = queue.pop(0)
            running[name] = subprocess.Popen([tool, "--quiet", "--extra-arg=-Wno-deprecated-declarations",
                                              "--extra-arg=-Wno-unknown-pragmas",
                                              "--extra-arg=-Wno-unused-command-line-argument",  # GCC's parameters
                                              "-p", str(database), name], cwd=root, text=True,
                                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if not running:
            break
        name = next(iter(running))
        output, _ = running[name].communicate()
        failed = running.pop(name).returncode != 0
        explained = False
        for line in output.splitlines():
            if match := re.match(r"(.+?):(\d+):\d+: (error|warning): (.*)", line):
                path = os.path.relpath(match.group(1), root)
                if path.startswith("..") and match.group(3) == "warning":
                    continue  # not ours
                explained = True
                finding = (f"{path}:{match.group(2)}", "tidy", match.group(4))
                if finding not in seen:
                    findings.add(*finding)
                seen.add(finding)
        if failed and not explained:
            findings.add(name, "tidy", "clang-tidy could not read it; run: " + f"{tool} -p {database} {name}")
    left += queue
    if left:
        print(f"check: tidy: {len(left)} of {len(todo)} changed files were beyond the limit of {TIDY_FILES_MAX} files or "
              f"{TIDY_SECONDS_MAX} s and are not checked: {' '.join(left)}")
    return None


def main():
    rules = {"walls": check_walls, "folders": check_folders, "entries": check_entries, "docs": check_docs, "decisions": check_decisions, "headers": check_headers, "opens": check_opens, "waits": check_waits_of, "length": check_length, "classes": check_classes_of, "used": check_used_of, "drawings": check_drawings, "words": check_words,
             "output": check_output, "shell": check_shell, "format": check_format}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--changed", action="store_true", help="only files that differ from the base")
    parser.add_argument("--base", default="origin/main", help="what --changed and the compilers' rules compare with")
    parser.add_argument("--build", type=pathlib.Path, help="folder of compile_commands.json (build/release)")
    of_compiler = {"alone": check_alone, "tidy": check_tidy}  # of what changed only
    parser.add_argument("--only", help="comma-separated rules: " + ",".join([*rules, *of_compiler]))
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    chosen = arguments.only.split(",") if arguments.only else [*rules, *of_compiler]
    if unknown := set(chosen) - {*rules, *of_compiler}:
        parser.error(f"unknown rules: {', '.join(sorted(unknown))}")

    findings = Findings()
    names = changed_files(root, arguments.base) if arguments.changed else all_files(root)
    database = (arguments.build or root / "build/release").resolve()
    for rule in chosen:
        if rule in rules:
            rules[rule](root, names, findings)
        else:
            of_compiler[rule](root, changed_files(root, arguments.base), findings, database)
    print(f"check: {len(names)} files, {findings.found} findings" +
          (f", {findings.unchecked} rules not checked" if findings.unchecked else ""))
    return 1 if findings.found else 2 if findings.unchecked else 0


if __name__ == "__main__":
    sys.exit(main())
