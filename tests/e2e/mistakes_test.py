#!/usr/bin/env python3
"""Mistakes of a newcomer (mistakes.py), each judged by following the remedy: the answer has the line and says what to write;
what is then written has no word that stands neither in the answer, nor in what was there, nor among the newcomer's own names;
and the workflow with it is valid. With --run it is run, too, and has to end well. Commands and options that do not exist are
answered with what is meant, and that is typed.

usage: mistakes_test.py LONGHAUL SOURCE_DIR [--run]
"""
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

from first_hour_test import write_texts
from mistakes import CHATS, MISTAKES, SCRIPT, TEXTS
from scenario import PATIENCE

LONGHAUL, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
RUNS = "--run" in sys.argv
REMEDIES_MIN = 48  # of the mistakes of workflows: so many lead to a run that works
WORD = re.compile(r"(?<!\w)[A-Za-z_][\w-]*")
# What a newcomer knows without an answer: names of their own stages, files and workflow.
OWN = {"mine", "my-texts", "texts", "corpus", "tokens", "model", "chats", "rows", "jsonl", "train", "py"}

# What is typed, what the answer says, and what is typed then. A run that has ended is there.
CHECK = "run" if RUNS else "validate"
COMMANDS = [
    (["ls"], "here it is: longhaul runs", ["runs"]),
    (["stop"], "longhaul cancel", ["cancel"]),
    (["restart"], "longhaul resume", ["resume"]),
    (["check", "w.toml"], "longhaul validate", ["validate", "w.toml"]),
    (["watch"], "longhaul status --watch", ["status", "--watch"]),
    (["version"], "longhaul --version", ["--version"]),
    (["stats"], "did you mean 'status'?", ["status"]),
    (["run", "w"], "did you mean w.toml?", [CHECK, "w.toml"]),
    (["run", "w.tml"], "did you mean w.toml?", [CHECK, "w.toml"]),
    (["run", "w.toml", "--steps", "3"], "--set stage.NAME.steps=VALUE", [CHECK, "w.toml", "--set", "stage.pretrain.steps=3"]),
    (["run", "w.toml", "--dry-run"], "longhaul plan WORKFLOW", ["plan", "w.toml"]),
    (["plan", "w.toml", "--sites", "local"], "did you mean '--site'?", ["plan", "w.toml", "--site", "local"]),
    (["plan", "w.toml", "--site", "leonardo"], "'leonardo-booster'",
     ["plan", "w.toml", "--site", "leonardo-booster", "--set", "site.account=me"]),
    (["plan", "w.toml", "--site", "mine"], "--site ./mine.toml", ["plan", "w.toml", "--site", "./mine.toml"]),
    (["plan", "w.toml", "--set", "steps=3"], "'stage.pretrain.steps'", ["plan", "w.toml", "--set", "stage.pretrain.steps=3"]),
    (["plan", "w.toml", "--set", "stage.pretrain.stesp=3"], "did you mean 'steps'?",
     ["plan", "w.toml", "--set", "stage.pretrain.steps=3"]),
]


def call(here, *words):
    done = subprocess.run([str(LONGHAUL), *words], cwd=here, capture_output=True, text=True, timeout=300 * PATIENCE)
    return done.returncode, done.stdout + done.stderr


def prepare(here):
    write_texts(here / "texts", 10, 10_000, random.Random(1))
    shutil.copytree(SOURCE / "tests/parity/golden/model-untied", here / "model")
    rows = [{"input": f"What is {i}?", "output": f"It is {i}."} for i in range(8)]
    (here / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.copy(here / "chats.jsonl", here / "rows.jsonl")  # what the jq of the answer would write
    (here / "list.json").write_text(json.dumps(rows, indent=1))
    (here / "table.csv").write_text("input,output\na,b\n")
    (here / "train.py").write_text("print('trained')\n")
    (here / "mine.toml").write_text('inherits = "slurm-generic"\n')


def foreign_words(mistake, said):
    """Words of the mended line that the answer did not give, and that were not there before."""
    known = set(WORD.findall(said)) | set(WORD.findall(mistake.wrong)) | OWN
    return [word for word in WORD.findall(re.sub(r"#.*", "", mistake.mended)) if word not in known]


def follow(here, mistake):
    """What went wrong with the answer or the mended workflow; "": nothing did."""
    assert mistake.right in mistake.workflow, mistake
    (here / "w.toml").write_text(mistake.workflow.replace(mistake.right, mistake.wrong, 1))
    code, said = call(here, "validate", "w.toml")
    place = f"w.toml:{mistake.line}:" if mistake.line else "w.toml"
    if code != 3 or place not in said or not all(one in said for one in mistake.says):
        return f"the answer (exit code {code}) does not have {place} and {mistake.says}:\n{said}"
    if foreign := foreign_words(mistake, said):
        return f"nobody could have written {foreign} from the answer:\n{said}"
    (here / "w.toml").write_text(mistake.workflow.replace(mistake.right, mistake.mended, 1))
    code, said = call(here, CHECK, "w.toml")
    return "" if code == 0 else f"the remedy was followed, and that ends with {code}:\n{said}"


def follow_command(here, typed, answer, meant):
    """The same of what was typed."""
    code, said = call(here, *typed)
    if code not in (2, 3, 4) or answer not in said:
        return f"the answer (exit code {code}) does not say {answer!r}:\n{said}"
    code, said = call(here, *meant)
    return "" if code == 0 else f"longhaul {' '.join(meant)} was typed then, and ends with {code}:\n{said}"


def main():
    wrong, wrong_commands = [], []
    with tempfile.TemporaryDirectory(prefix="longhaul-mistakes-") as folder:
        here = pathlib.Path(folder)
        prepare(here)
        for workflow in (TEXTS, CHATS, SCRIPT):
            (here / "w.toml").write_text(workflow)
            code, said = call(here, CHECK, "w.toml")
            assert code == 0, f"a workflow without a mistake ends with {code}\n{said}"
        for mistake in MISTAKES:
            if problem := follow(here, mistake):
                wrong.append(f"{mistake.wrong!r}: {problem}")
                print(f"FAILED: {wrong[-1]}", flush=True)
        (here / "w.toml").write_text(SCRIPT)
        code, said = call(here, "run", "w.toml")
        assert code == 0, f"the script ends with {code}\n{said}"
        (here / "w.toml").write_text(TEXTS)
        for typed, answer, meant in COMMANDS:
            if problem := follow_command(here, typed, answer, meant):
                wrong_commands.append(f"longhaul {' '.join(typed)}: {problem}")
                print(f"FAILED: {wrong_commands[-1]}", flush=True)
    print(f"{len(MISTAKES) - len(wrong)} of {len(MISTAKES)} mistakes of workflows lead to one that "
          f"{'has run to its end' if RUNS else 'is valid'}, {len(COMMANDS) - len(wrong_commands)} of {len(COMMANDS)} of commands to "
          "one that works")
    assert len(MISTAKES) >= 50 and len(MISTAKES) - len(wrong) >= REMEDIES_MIN
    return 1 if wrong or wrong_commands else 0


sys.exit(main())
