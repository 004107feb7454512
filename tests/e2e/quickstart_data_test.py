#!/usr/bin/env python3
"""The quickstart's questions and the check of its answers, on a FAQ and an archive that are made up here.

usage: quickstart_data_test.py LONGHAUL SOURCE_DIR [parts of case names]
"""
import collections
import json
import random

from scenario import SOURCE, call, case, expect, main

SECTIONS = ("games", "libdevel", "sound", "otherosfs")  # of otherosfs there are too few


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def archive(sources=1800, seed=7):
    """Lines of packages.tsv. Most sources have several packages, some of them in another section."""
    dice = random.Random(seed)
    made = []
    for i in range(sources):
        section = "otherosfs" if i % 60 == 0 else SECTIONS[i % 3]
        made.append((f"tool{i}", f"tool{i}", section, f'a "quoted" thing \\{i}, für {section}'))
        for k in range(dice.randrange(3)):
            made.append((f"tool{i}-part{k}", f"tool{i}", dice.choice(SECTIONS[:3]), f"part {k} of {i}"))
    return made


def faq(folder, questions=60):
    folder.mkdir()
    for language in ("en", "fr"):
        page = "".join(f'<h2 class="title"><a id="q{i}"></a>1.{i}. {language} question {i}?</h2>'
                       f"<p>The {language} answer, which is number {i} of the page.</p>" for i in range(questions))
        (folder / f"basics.{language}.html").write_text(page)


def make(here, name, packages):
    if not (here / "faq").exists():
        faq(here / "faq")
    (here / "packages.tsv").write_text("".join("\t".join(line) + "\n" for line in packages), encoding="utf-8")
    out = here / name
    done = call([SOURCE / "workflows/quickstart/make-questions", "faq", "packages.tsv", out], here)
    expect("it succeeds", done.code == 0, done)
    expect("it leaves five files and no other", len(list(out.iterdir())) == 5, list(out.iterdir()))
    return {file.stem: lines(file) for file in out.iterdir()}


def sources(*files):
    return {line["source"] for file in files for line in file if "source" in line}


@case
def nothing_of_a_held_out_source_is_trained_on(here):
    packages = archive()
    made = make(here, "out", packages)
    held = sources(made["heldout"], made["pairs-heldout"], made["choices"])
    trained = sources(made["train"], made["pairs-train"])
    expect("sources are held out", len(held) > 60, len(held))
    expect("and others trained on", len(trained) > 600, len(trained))
    expect("none is both", not held & trained, held & trained)
    source_of = {name: source for name, source, _, _ in packages}
    for file in made.values():
        expect("a line names its package's source", all(source_of[l["id"]] == l["source"] for l in file if "source" in l), file[:3])
    expect("a dozen of each section for SFT, and others for DPO", not sources(made["train"]) & sources(made["pairs-train"]))
    ids = [{line["id"] for line in made[split] if "source" not in line} for split in ("train", "heldout")]
    expect("the FAQ's questions are held out in all languages together", ids[0] and ids[1] and not ids[0] & ids[1], ids)
    # A package that comes to the archive moves none from one side to the other.
    later = make(here, "later", packages + [(f"new{i}", f"new{i}", "games", "new") for i in range(300)])
    both = held & sources(later["train"], later["pairs-train"])
    expect("what was held out stays so", not both, both)


@case
def guessing_without_the_package_ranks_half_of_the_pairs(here):
    packages = archive()
    made = make(here, "out", packages)
    section_of = {name: section for name, _, section, _ in packages}
    for split in ("pairs-train", "pairs-heldout"):
        pairs = made[split]
        expect("there are pairs", len(pairs) >= 60, len(pairs))
        right, wrong = (collections.Counter(pair[side] for pair in pairs) for side in ("chosen", "rejected"))
        expect("every section is right as often as wrong", right == wrong, (split, right, wrong))
        expect("a section that few sources have takes no part", set(right) == {"games", "libdevel", "sound"}, right)
        for pair in pairs:
            expect("the chosen section is the package's", pair["chosen"] == section_of[pair["id"]], pair)
            expect("the rejected one is another", pair["chosen"] != pair["rejected"], pair)
        for one, other in zip(pairs[::2], pairs[1::2]):
            expect("a couple's pairs are neighbours", (one["chosen"], one["rejected"]) == (other["rejected"], other["chosen"]), (one, other))
    counts = collections.Counter(pair["chosen"] for pair in made["pairs-heldout"]).values()
    expect("as many of each section", max(counts) - min(counts) <= 4, counts)
    for question in made["choices"]:
        expect("the answer is the section", question["choices"][question["answer"]] == section_of[question["id"]], question)
        expect("all sections are there to choose", sorted(question["choices"]) == ["games", "libdevel", "sound"], question)
    asked = [line for line in made["heldout"] if line["id"].startswith("tool")]
    expect("a description comes through JSON as it was", all(f'({dict((p[0], p[3]) for p in packages)[l["id"]]})?' in l["input"] for l in asked))


@case
def what_is_missing_is_named(here):
    faq(here / "faq")
    maker = SOURCE / "workflows/quickstart/make-questions"
    done = call([maker, "faq", "packages.tsv", "out"], here)
    expect("no packages", done.code == 3 and "packages.tsv" in done.err and "fetch-corpus" in done.err, done)
    (here / "packages.tsv").write_text("one field\n")
    done = call([maker, "faq", "packages.tsv", "out"], here)
    expect("no package of four fields", done.code == 3 and "pairs-train.jsonl came out empty" in done.err, done)
    done = call([maker, "nothing", "packages.tsv", "out"], here)
    expect("no FAQ", done.code == 3 and "no folder nothing" in done.err, done)


@case
def right_answers_are_distinguished_from_wrong(here):
    asked = [("is a (\"x\")?", "games"), ("is b?", "net"), ("is c?", "net")]
    for folder in ("deployed", "evaluated", "questions"):
        (here / folder).mkdir()
    (here / "questions/heldout.jsonl").write_text("".join(json.dumps({"id": "p", "input": q, "output": a}, separators=(",", ":")) + "\n" for q, a in asked[:2]))
    answers = [{"prompt": q, "text": "games", "path": "/v1"} for q, _ in asked]
    (here / "deployed/samples.json").write_text(json.dumps(answers, indent=2))
    figures = {"preference_accuracy": 0.9, "preference_accuracy_low": 0.875, "preference_accuracy_high": 0.925, "preference_pairs": 800.0,
               "baseline_preference_accuracy": 0.75, "length_only_accuracy": 0.5, "choice_accuracy": 0.5, "choice_accuracy_low": 0.4,
               "choice_accuracy_high": 0.6, "baseline_choice_accuracy": 0.25, "choice_questions": 200}
    (here / "evaluated/manifest.json").write_text(json.dumps({"figures": figures}, indent=2))
    checker = SOURCE / "workflows/quickstart/check-answers"
    done = call([checker, "deployed", "evaluated", "questions", "out"], here)
    expect("it succeeds", done.code == 0, done)
    for part in ('right  is a ("x")?', "wrong  is b?", "games   (it is net)", "?      is c?", "not a held-out question", "1 of 3 right",
                 "800 held-out pairs: SFT 75.0 % -> DPO 90.0 % [87.5, 92.5]", "SFT 25.0 %, DPO 50.0 % [40.0, 60.0]"):
        expect(f"it says: {part}", part in done.out, done)
    expect("the digest is a file", (here / "out/digest.txt").read_text() == done.out)
    expect("figures", json.loads((here / "out/artifact.json").read_text()) == {"figures": {"questions": 3, "right": 1}})
    (here / "deployed/samples.json").unlink()
    done = call([checker, "deployed", "evaluated", "questions", "out"], here)
    expect("what is missing is named", done.code == 3 and "samples.json" in done.err, done)


if __name__ == "__main__":
    main()
