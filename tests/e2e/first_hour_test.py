#!/usr/bin/env python3
"""What a newcomer does first: a folder of small texts goes through all stages at the first try, with no key but the kinds, the
inputs and a recipe; what `init` writes for a folder runs; and what `validate` calls valid ends well, for corpora, recipes and
chains that are drawn.

  first_hour_test.py LONGHAUL SOURCE [--draws N] [--seed N] [--bytes-max N]
"""

import argparse
import math
import pathlib
import random
import shutil
import subprocess
import tempfile

WORDS = ("the river runs past an old town where people meet in the market each morning to speak about weather work harvest "
         "children and the price of bread while boats bring salt iron cloth letters and news from far cities across mountains").split()


def sentence(dice):
    return " ".join(dice.choice(WORDS) for _ in range(dice.randint(6, 16))).capitalize() + "."


def write_texts(folder, documents, size, dice):
    """`documents` files with `size` bytes together."""
    folder.mkdir()
    for i in range(documents):
        wanted, text = max(1, size // documents), ""
        while len(text) < wanted:
            text += sentence(dice) + ("\n\n" if dice.random() < 0.2 else " ")
        (folder / f"{i:03}.txt").write_text(text[:wanted] + "\n")


def workflow(chain, recipe, settings=""):
    text = '[workflow]\nname = "first"\n\n[stage.corpus]\nkind = "curate"\ninputs = { documents = "texts" }\n'
    text += '\n[stage.tokens]\nkind = "tokenize"\ninputs = { corpus = "@corpus" }\n'
    text += f'\n[stage.pretrain]\nkind = "pretrain"\ninputs = {{ tokens = "@tokens" }}\nrecipe = "{recipe}"\n{settings}'
    model = "pretrain"
    for kind in chain:
        tokens = "" if kind in ("deploy", "convert") else ', tokens = "@tokens"'
        text += f'\n[stage.{kind}]\nkind = "{kind}"\ninputs = {{ model = "@{model}"{tokens} }}\n'
        model = kind if kind == "quantize" else model
    return text


def call(longhaul, here, *words, seconds):
    done = subprocess.run([longhaul, *words], cwd=here, capture_output=True, text=True, timeout=seconds)
    return done.returncode, done.stdout + done.stderr


def ends_well(longhaul, here, text, what):
    """Whether it was valid; what is valid has to succeed."""
    (here / "my.toml").write_text(text)
    code, said = call(longhaul, here, "validate", "my.toml", seconds=60)
    if code == 3:
        return False
    assert code == 0, f"{what}: validate ended with {code}\n{said}"
    code, said = call(longhaul, here, "run", "my.toml", seconds=600)
    assert code == 0, f"{what}: valid, and then exit code {code}\n{text}\n{said}"
    return True


def ten_small_texts(longhaul):
    with tempfile.TemporaryDirectory(prefix="longhaul-first-") as folder:
        here = pathlib.Path(folder)
        write_texts(here / "texts", 10, 10_000, random.Random(1))
        text = workflow(("evaluate", "quantize", "deploy"), "quickstart-tiny")
        assert ends_well(longhaul, here, text, "ten small texts"), "ten small texts: not valid"
    print("ten small texts: six stages at the first try")


def init(longhaul, here, *says, code=0, words=()):
    done, said = call(longhaul, here, "init", *words, seconds=60)
    assert done == code, f"init ended with {done}, not {code}\n{said}"
    for one in says:
        assert one in said, f"init does not say {one!r}\n{said}"
    return said


def run_what_init_says(longhaul, here):
    """Types the command that `init` names, as it stands there."""
    said = init(longhaul, here, "next:\n  longhaul run workflow.toml")
    code, valid = call(longhaul, here, "validate", "workflow.toml", seconds=60)
    assert code == 0, f"what init wrote is not valid\n{valid}"
    words = said.split("next:\n  longhaul ")[1].splitlines()[0].split()
    code, ran = call(longhaul, here, *words, seconds=600)
    assert code == 0, f"what init wrote ended with {code}\n{(here / 'workflow.toml').read_text()}\n{ran}"
    return ran


def init_begins_with_what_is_there(longhaul):
    """Texts and chats, a model and chats, a script: each becomes a workflow that ends well, with the command that init names."""
    chat = '{"messages": [{"role": "user", "content": "What is bread?"}, {"role": "assistant", "content": "Dough."}], "id": 1}\n'
    with tempfile.TemporaryDirectory(prefix="longhaul-first-") as folder:
        here = pathlib.Path(folder)
        write_texts(here / "texts", 5, 10_000, random.Random(4))
        (here / "chats.jsonl").write_text(chat * 20)
        ran = run_what_init_says(longhaul, here)
        assert all(f"{stage} " in ran for stage in ("corpus", "pretrain", "chat", "evaluate", "quantize", "deploy")), ran
        init(longhaul, here, "workflow.toml is a workflow already, and stays as it is", code=3)
        model = next((here / "runs").glob("*/stages/pretrain/out"))
        (here / "second").mkdir()
        shutil.copytree(model, here / "second/my-model")
        (here / "second/chats.jsonl").write_text(chat * 20)
        run_what_init_says(longhaul, here / "second")
        (here / "third").mkdir()
        (here / "third/train.py").write_text("import os\nopen(os.environ['LONGHAUL_OUT'] + '/done', 'w').write('done')\n")
        run_what_init_says(longhaul, here / "third")
        assert list((here / "third/runs").glob("*/stages/train/out/done")), "the script's result"
        (here / "second/my-model/tokenizer.json").unlink()
        (here / "second/workflow.toml").unlink()
        init(longhaul, here / "second", "tokenizer.json", "no workflow was written", code=3)
        assert not (here / "second/workflow.toml").exists(), "a workflow that is not valid stays"
        (here / "empty").mkdir()
        init(longhaul, here, "is empty: there is nothing that a workflow could begin with", "put texts", code=4, words=["empty"])
        (here / "empty/a.png").write_bytes(b"x")
        init(longhaul, here, "holds 1 image (such as a.png) and no text", "images are not read", code=4, words=["empty"])
        assert sorted(one.name for one in (here / "empty").iterdir()) == ["a.png"], "something was written"
    print("init: texts and chats, a model and chats, a script; refused: a workflow, no tokenizer, an empty folder, images")


def one_long_text(longhaul):
    """A text of more words than a document may have is several documents, as somebody's one large file is."""
    with tempfile.TemporaryDirectory(prefix="longhaul-first-") as folder:
        here = pathlib.Path(folder)
        write_texts(here / "texts", 1, 700_000, random.Random(3))
        assert ends_well(longhaul, here, workflow(("evaluate",), "quickstart-tiny", "steps = 2\n"), "one long text")
    print("one text of 700 kB: trained and evaluated")


def drawn(longhaul, seed, bytes_max):
    dice = random.Random(seed)
    size = int(math.exp(dice.uniform(math.log(1000), math.log(bytes_max))))
    # Shorter texts are no documents to the rules of curate.
    documents = dice.choice((1, dice.randint(1, max(1, min(200, size // 1000)))))
    chain = [kind for kind in ("evaluate", "quantize", "convert", "deploy") if dice.random() < 0.6]
    settings = f"steps = {dice.randint(1, 30)}\n" if dice.random() < 0.9 else ""
    settings += dice.choice(("", "", "sequence_length = 64\n", "micro_batch_size = 2\n", "ranks = 2\n", "global_batch_size = 16\n"))
    what = f"seed {seed}: {documents} documents, {size} bytes, pretrain + {chain}, {settings!r}"
    with tempfile.TemporaryDirectory(prefix="longhaul-first-") as folder:
        here = pathlib.Path(folder)
        write_texts(here / "texts", documents, size, dice)
        valid = ends_well(longhaul, here, workflow(chain, "quickstart-tiny", settings), what)
    print(what + (": ended well" if valid else ": refused"), flush=True)
    return valid


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("longhaul")
    parser.add_argument("source")
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bytes-max", type=int, default=200_000)
    asked = parser.parse_args()
    asked.longhaul = str(pathlib.Path(asked.longhaul).resolve())
    ten_small_texts(asked.longhaul)
    one_long_text(asked.longhaul)
    init_begins_with_what_is_there(asked.longhaul)
    wrong = []
    valid = 0
    for seed in range(asked.seed, asked.seed + asked.draws):
        try:
            valid += drawn(asked.longhaul, seed, asked.bytes_max)
        except (AssertionError, subprocess.TimeoutExpired) as problem:
            wrong.append(str(problem))
            print(problem, flush=True)
    print(f"{asked.draws} drawn: {valid} valid, {len(wrong)} of them failed")
    assert not wrong, wrong[0]
    assert valid * 2 >= asked.draws, "most of what is drawn has to be valid"


if __name__ == "__main__":
    main()
