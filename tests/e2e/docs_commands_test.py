#!/usr/bin/env python3
"""Every command of `longhaul` that README, docs (but decisions.md) and the comments of shipped workflows show exists, with the options that it is shown
with; scripts that are named exist.

usage: docs_commands_test.py LONGHAUL SOURCE_DIR
"""
import functools
import os
import re
import shutil
import subprocess
import sys

from scenario import LONGHAUL, PATIENCE, SOURCE, case, expect, main

SPAN = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"(?:^|[\s/;(|&'\"])longhaul ((?:[a-z][a-z-]*)(?: .*)?)$")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*|-[a-z](?![\w-]))")
SCRIPT = re.compile(r"(?<![\w/.-])(scripts/[\w.-]+[\w])")


@functools.cache
def help_of(*command):
    done = subprocess.run([str(LONGHAUL), *command, "--help"], capture_output=True, text=True, timeout=60 * PATIENCE)
    return done.stdout if done.returncode == 0 else ""


@functools.cache
def commands():
    return set(re.findall(r"^  ([a-z][a-z-]*)(?: |,|$)", help_of(), re.MULTILINE))


def shown(path):
    """(line number, text) of what a page shows as code: spans, indented lines, fenced blocks; comments of a workflow."""
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if path.suffix == ".toml":
            if line.startswith("#"):
                yield number, line.lstrip("# ")
        elif line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield number, line.strip()
        else:
            for span in SPAN.findall(line):
                yield number, span


def pages():
    """But docs/decisions.md, which also reports what was rejected."""
    return sorted(page for page in [SOURCE / "README.md", *(SOURCE / "docs").rglob("*.md"), *(SOURCE / "workflows").rglob("*.toml")]
                  if page.name != "decisions.md")


@case
def every_command_that_is_shown_exists(_):
    expect("the help lists commands", len(commands()) > 15, help_of())
    checked, wrong = 0, []
    for page in pages():
        for number, text in shown(page):
            text = re.sub(r"\s+#.*$", "", text)  # what a comment says of it
            found = COMMAND.search(text)
            if not found:
                continue
            arguments = re.split(r"\s*(?:[;|<>]|&&)\s*", found[1])[0].split()
            place = f"{page.relative_to(SOURCE)}:{number}: longhaul {' '.join(arguments)}"
            if arguments[0] not in commands():
                if len(arguments) > 1 and any(OPTION.fullmatch(argument.split("=")[0]) for argument in arguments[1:]) or len(arguments) == 1:
                    wrong.append(f"{place}: there is no command {arguments[0]}")
                continue
            checked += 1
            sub = [arguments[0], arguments[1]] if len(arguments) > 1 and re.fullmatch(r"[a-z][a-z-]*", arguments[1]) and help_of(arguments[0], arguments[1]) else [arguments[0]]
            known = help_of(arguments[0]) + help_of(*sub)
            for option in OPTION.findall(re.sub(r"'[^']*'|\"[^\"]*\"", "", " ".join(arguments[1:]))):
                if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", known):
                    wrong.append(f"{place}: {arguments[0]} has no option {option}")
    print(f"{checked} commands in {len(pages())} pages")
    expect("all of them exist", not wrong, "\n".join(wrong))
    expect("there are some", checked > 60, checked)


@case
def every_script_that_is_named_exists(_):
    wrong, named = [], set()
    for page in pages():
        for number, text in shown(page):
            for script in SCRIPT.findall(text):
                named.add(script)
                if not (SOURCE / script).exists():
                    wrong.append(f"{page.relative_to(SOURCE)}:{number}: {script}")
    expect("all of them exist", not wrong, "\n".join(wrong))
    expect("there are some", len(named) >= 8, sorted(named))


@case
def manual_pages_are_written_and_a_formatter_takes_them(here):
    done = subprocess.run([str(LONGHAUL), "docs", "--man", "man1"], cwd=here, capture_output=True, text=True, timeout=60 * PATIENCE)
    expect("they are written", done.returncode == 0, done.stdout + done.stderr)
    written = {page.name.removesuffix(".1"): page for page in (here / "man1").iterdir()}
    expect("one for each command", set(written) == {"longhaul"} | {f"longhaul-{name}" for name in commands()}, sorted(written))
    for lint in (["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-man", "-ww", "-z", "-Tascii"]):
        if not shutil.which(lint[0]):
            continue
        for page in written.values():
            done = subprocess.run([*lint, str(page)], capture_output=True, text=True, timeout=60 * PATIENCE)
            expect(f"{lint[0]} has nothing to say of {page.name}", done.returncode == 0 and not done.stderr + done.stdout,
                   done.stdout + done.stderr)
    if shutil.which("man"):
        done = subprocess.run(["man", "-l", str(written["longhaul-run"])], capture_output=True, text=True, timeout=60 * PATIENCE,
                              env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "80", "LC_ALL": "C"})
        text = re.sub(".\b", "", done.stdout)
        # A minimized system has a stand-in for man, which says so.
        expect("man shows it", "start a workflow here and stay with it to its end" in text or "minimized" in text, done.stdout + done.stderr)
    refused = subprocess.run([str(LONGHAUL), "docs", "run", "--man", "man1"], cwd=here, capture_output=True, text=True, timeout=60 * PATIENCE)
    expect("a page by itself is no manual page", refused.returncode == 2 and "PAGE" in refused.stderr, refused.stderr)


if __name__ == "__main__":
    main()
