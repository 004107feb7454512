#!/usr/bin/env python3
"""Every block of code in README and docs is run, or parsed, or marked as shown only (docs_blocks.py); their numbers are printed.

What is run is typed as it stands there, page by page, in a folder that has what the page says: texts, rows, a model, a script.
Of what is parsed every command has the options that are shown, and every key of a stage is one.

usage: docs_blocks_test.py LONGHAUL SOURCE_DIR [parts of case names]
"""
import collections
import json
import os
import re
import shutil
import subprocess

from docs_blocks import all_blocks, command_lines, form_of
from scenario import LONGHAUL, PATIENCE, SOURCE, call, case, expect, longhaul, main

RUN_DEADLINE_S = 240
WORDS = ("the river runs past an old town where people meet in the market each morning to speak about weather work harvest "
         "children and the price of bread while boats bring salt iron cloth letters and news from far cities").split()
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")


def texts(folder, count=10):
    folder.mkdir(parents=True)
    for i in range(count):
        lines = [" ".join(WORDS[(i * 7 + j * 3 + k * (1 + j % 5)) % len(WORDS)] for k in range(7 + j % 6)).capitalize() + "." for j in range(30)]
        (folder / f"{i}.txt").write_text("\n\n".join(" ".join(lines[at:at + 5]) for at in range(0, 30, 5)) + "\n")


def own_data(here, blocks):
    texts(here / "texts")
    row = next(block.text.splitlines()[0] for block in blocks if form_of(block) == "json")
    (here / "chats.jsonl").write_text((row + "\n") * 20)


def own_model(here, _):
    shutil.copytree(SOURCE / "tests/parity/golden/model-untied", here / "path/to/model")
    rows = "".join(json.dumps({"input": f"What is {i}?", "output": f"It is {i}."}) + "\n" for i in range(8))
    for name in ("chats.jsonl", "chats-heldout.jsonl", "answers.jsonl"):
        (here / name).write_text(rows)


def own_script(here, _):
    (here / "train.py").write_text("import os, sys\nassert sys.argv[1] == '--output_dir' and os.environ['WORLD_SIZE'] == '2'\n"
                                   "open(f\"{sys.argv[2]}/checkpoint.pt\", 'a').write('trained')\n")


def a_failed_run(here, _):
    (here / "w.toml").write_text('[workflow]\nname = "fails"\n[stage.a]\nkind = "command"\nscript = "exit 7"\n')
    longhaul(here, "run", "w.toml", code=5)


# What a page takes for granted, and the workflow that its blocks of TOML are.
PAGES = {
    "README.md": (lambda here, _: texts(here / "my-texts"), None),
    "docs/your-own-data.md": (own_data, "my.toml"),
    "docs/your-own-model.md": (own_model, "my-model.toml"),
    "docs/your-own-pytorch-script.md": (own_script, "my-script.toml"),
    "docs/when-something-fails.md": (a_failed_run, None),
}


def typed(block, here):
    """A block of commands in a shell, as somebody pastes it. `status` and `logs` of a run that failed end with 5."""
    path = {**os.environ, "PATH": f"{LONGHAUL.parent}:{os.environ['PATH']}"}
    others = "trap 'code=$?; [ $code = 5 ] || exit $code' ERR\n" if PAGES[block.page][0] is a_failed_run else "set -e\n"
    done = call(["bash", "-uo", "pipefail", "-c", others + block.text], here, RUN_DEADLINE_S, env=path)
    expect(f"{block} runs", done.code == 0, done)


@case
def blocks_that_are_marked_run(here):
    chosen = [block for block in all_blocks(SOURCE) if block.mark == "run"]
    expect("there are some", len(chosen) >= 8, chosen)
    for page in sorted({block.page for block in chosen}):
        expect("the page says what it takes", page in PAGES, page)
        prepare, name = PAGES[page]
        folder = here / page.replace("/", "-")
        folder.mkdir()
        prepare(folder, [block for block in all_blocks(SOURCE) if block.page == page])
        written = ran = ""
        for block in (block for block in chosen if block.page == page):
            if form_of(block) == "toml":
                written += block.text + "\n"
                (folder / name).write_text(written)
            elif form_of(block) == "commands":
                typed(block, folder)
                ran = written
        if written != ran:
            longhaul(folder, "run", name, code=0, deadline_s=RUN_DEADLINE_S)
    print(f"{len(chosen)} blocks of {len({block.page for block in chosen})} pages run")


@case
def every_block_is_run_or_parsed_or_marked(_):
    counts, wrong = collections.Counter(), []
    for block in all_blocks(SOURCE):
        form = form_of(block)
        if block.mark == "shown" and not block.why:
            wrong.append(f"{block}: `shown` without a reason; write <!-- shown: why -->")
        if block.mark == "run" and form not in ("toml", "commands", "json"):
            wrong.append(f"{block}: marked as run, and is neither TOML nor commands")
        if not block.mark and not form:
            wrong.append(f"{block}: is no TOML, JSON, Python or command; correct it, or mark it: <!-- shown: why it is not run -->")
        counts[block.mark if block.mark else "parsed"] += 1
    print(f"{sum(counts.values())} blocks: {counts['run']} run, {counts['parsed']} parsed, {counts['shown']} marked as shown only")
    expect("every block", not wrong, "\n".join(wrong))
    expect("few are only shown", counts["shown"] * 2 < counts["run"] + counts["parsed"], counts)


@case
def shells_take_every_command(_):
    for block in all_blocks(SOURCE):
        if form_of(block) != "commands" or block.mark == "shown":
            continue
        # What stands for something, FOLDER|FOLDER or [--json], is no shell's.
        text = re.sub(r"\[[^]\"]*\]|\.\.\.|(?<=[a-z])\|(?=[a-z])| \| (?=[a-z]+ [|#])| \| (?=[a-z]+ *(?:#|$))", " ", block.text)
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, timeout=60 * PATIENCE)
        expect(f"a shell takes {block}", done.returncode == 0, done.stderr + text)


@case
def programs_beside_longhaul_have_the_options_that_are_shown(_):
    """Those of longhaul itself: docs_commands_test.py."""
    wrong, checked = [], 0
    for block in all_blocks(SOURCE):
        for line in command_lines(block.text) if form_of(block) == "commands" else ():
            found = re.search(r"(?:^|[\s/])longhaul-(engine|worker) ([a-z][a-z-]*)(.*)", line)
            if not found:
                continue
            checked += 1
            done = subprocess.run([str(LONGHAUL.parent / f"longhaul-{found[1]}"), found[2], "--help"], capture_output=True, text=True,
                                  timeout=60 * PATIENCE)
            wrong += [f"{block}: {line}: no {option}" for option in OPTION.findall(found[3].split(">")[0])
                      if not re.search(rf"(?<![\w-]){option}(?![\w-])", done.stdout + done.stderr)]
    expect("all of them exist", not wrong, "\n".join(wrong))
    expect("there are some", checked >= 8, checked)


@case
def stages_that_are_shown_have_the_keys_that_are_shown(here):
    """Parts of workflows: what they take is elsewhere, their kinds, keys and types are ours. Whole ones are valid, which a test
    of the planner holds."""
    looked_at = 0
    for block in all_blocks(SOURCE):
        if form_of(block) != "toml" or not re.search(r"^\[stage\.", block.text, re.MULTILINE):
            continue
        looked_at += 1
        text = "\n".join(line for line in block.text.splitlines() if line.strip() not in ("…", "..."))
        header = "" if "[workflow]" in text else '[workflow]\nname = "shown"\n'
        (here / "shown.toml").write_text(header + text + "\n")
        said = longhaul(here, "validate", "shown.toml").text
        wrong = [line for line in said.splitlines() if "unknown" in line or ", expected" in line or "TOML syntax" in line]
        expect(f"{block} has known keys of the right types", not wrong, "\n".join(wrong) + "\n" + text)
    expect("there are some", looked_at > 15, looked_at)


if __name__ == "__main__":
    main()
