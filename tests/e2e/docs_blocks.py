"""Blocks of code in README and docs: where each stands, what it is, and what stands before it for the test.

A block is run by docs_blocks_test.py where `<!-- run -->` stands before it, parsed where its form is known (TOML, JSON, commands,
Python), and otherwise has to be marked: `<!-- shown: why it is not run -->`.
"""
import ast
import json
import re
import tomllib
from typing import NamedTuple

# What begins a line of a shell, beside programs of this repository.
SYSTEM = {"cd", "export", "eval", "for", "do", "done", "touch", "cp", "mkdir", "ln", "module", "zstd", "tar", "curl", "srun", "sbatch",
          "cmake", "ctest", "mpirun", "python3", "url=$(jq", "git"}
OURS = re.compile(r"(?:build/release/bin/\w+|(?:[\w.~/$\"-]*/)?(?:longhaul(?:-engine|-worker|-slurm)?|(?:scripts|tests/cluster|tests/bench|tests/e2e)/[\w./-]+))$")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
MARK = re.compile(r"<!-- (run|shown)(?:: ([^>]+?))? -->$")


class Block(NamedTuple):
    page: str   # below the sources
    line: int   # of its first line
    language: str  # that the fence names; "": none, or it is indented
    text: str
    mark: str   # "run", "shown" or ""
    why: str

    def __str__(self):
        return f"{self.page}:{self.line}"


def mark_before(lines, at):
    """What the last line of text before `at` says to this test."""
    before = next((line for line in reversed(lines[:at]) if line.strip()), "")
    found = MARK.match(before.strip())
    return (found[1], found[2] or "") if found else ("", "")


def blocks_of(page, text):
    """Fenced blocks, and those that are indented by four behind an empty line."""
    lines, at = text.splitlines(), 0
    while at < len(lines):
        fence = re.match(r"\s*```(\w*)$", lines[at])
        begins = lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip())
        if not fence and not begins:
            at += 1
            continue
        end = at + 1
        if fence:
            while not lines[end].strip().startswith("```"):
                end += 1
            inside, last = lines[at + 1:end], end + 1
        else:
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            inside, last = [line[4:] for line in lines[at:end]], end
        yield Block(page, at + 1, fence[1] if fence else "", "\n".join(inside).rstrip() + "\n", *mark_before(lines, at))
        at = last


def pages_of(source):
    """Pages that people read: not the generated ones, nor decisions.md, which also shows what was rejected."""
    found = [source / "README.md", *sorted((source / "docs").glob("*.md")), *sorted((source / "docs/formats").glob("*.md"))]
    return [page for page in found if page.name not in ("decisions.md", "compatibility.md")]


def all_blocks(source):
    return [block for page in pages_of(source) for block in blocks_of(str(page.relative_to(source)), page.read_text())]


# --- what a block is ---


def is_toml(text):
    """Whole lines that leave something out, "...", are no part of it."""
    try:
        return bool(tomllib.loads("\n".join(line for line in text.splitlines() if line.strip() not in ("…", "..."))))
    except tomllib.TOMLDecodeError:
        return False


def is_json(text):
    """A document in each line; what is left out ("...", `, ...}`) counts as nothing."""
    for line in text.splitlines():
        try:
            json.loads(re.sub(r":\s*\.\.\.", ": 0", re.sub(r",\s*\.\.\.(?=\s*[}\]])", "", line)).replace("[...]", "[]"))
        except json.JSONDecodeError:
            return False
    return bool(text.strip())


def is_python(text):
    try:
        return bool(ast.parse(text).body)
    except SyntaxError:
        return False


def command_lines(text):
    """Lines as a shell takes them: continued ones are one, comments and the prompt "$ " go."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        line = re.sub(r"(^|\s)#.*$", "", line).strip().removeprefix("$ ")
        if line:
            yield line


def is_commands(text):
    lines = list(command_lines(text))
    return bool(lines) and all(
        OURS.fullmatch(line.split()[0]) or line.split()[0] in SYSTEM or ASSIGNMENT.match(line) for line in lines)


def form_of(block):
    """"toml", "json", "python", "commands" or "": none that can be parsed."""
    if block.language == "python":
        return "python" if is_python(block.text) else ""
    if block.language == "json":
        return "json" if is_json(block.text) else ""
    if block.language == "toml" or (not block.language and is_toml(block.text)):
        return "toml" if is_toml(block.text) else ""
    if not block.language and is_json(block.text):
        return "json"
    return "commands" if block.language in ("", "sh", "bash") and is_commands(block.text) else ""
