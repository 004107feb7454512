#!/usr/bin/env python3
"""The quickstart's bars, from the artifacts of one run, each figure beside its bar and its peer.

  tests/bench/quickstart_bars.py RUN_FOLDER

Reads what the stages published (manifest figures, files), measures xz on the same held-out text, and checks with code of its
own that no paragraph of the held-out text and no source of a held-out package was trained on, and what guessing would rank
of the held-out pairs. Ends with 1 if a bar is missed.
"""
import collections
import json
import lzma
import math
import pathlib
import re
import subprocess
import sys


def artifacts(run):
    """Where each stage's artifact lies: a cached stage's is in an earlier run."""
    said = subprocess.run([run / "bin/longhaul", "status", run, "--json"], capture_output=True, text=True, timeout=60)
    return {stage["id"]: pathlib.Path(stage["artifact"]) for stage in json.loads(said.stdout)["stages"]}


def figures(folder):
    return json.loads((folder / "manifest.json").read_text())["figures"]


def xz_bytes(data):
    return len(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def paragraphs(path):
    for line in path.open(encoding="utf-8"):
        for paragraph in json.loads(line)["text"].split("\n"):
            words = re.sub(r"\s+", " ", paragraph).strip()
            if len(words) >= 40:
                yield words


def lines(path):
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def by_frequency(trained, held):
    """Pairs ranked right by taking the section that more of the trained pairs chose; a draw counts a half."""
    often = collections.Counter(pair["chosen"] for pair in trained)
    return sum(0.5 if often[p["chosen"]] == often[p["rejected"]] else often[p["chosen"]] > often[p["rejected"]] for p in held) / len(held)


def by_naive_bayes(trained, held):
    """Pairs ranked right by a naive Bayes classifier on the pieces (3 to 5 letters of the name, words of the description)
    of the trained pairs: what those pairs can teach somebody who counts."""
    def features(prompt):
        name, _, description = prompt.removeprefix("In which section of Debian is ").partition(" ")
        name = f"^{name}$"
        return {name[i:i + k] for k in (3, 4, 5) for i in range(len(name) - k + 1)} | {"w " + w for w in re.findall("[a-z+]+", description.lower())}

    sizes, counts = collections.Counter(), collections.defaultdict(collections.Counter)
    for pair in trained:
        sizes[pair["chosen"]] += 1
        for feature in features(pair["prompt"]):
            counts[feature][pair["chosen"]] += 1

    def score(found, section):
        return sum(math.log((counts[f][section] + 0.3) / (sizes[section] + 0.6)) for f in found if f in counts)

    found = [features(pair["prompt"]) for pair in held]
    return sum(score(f, p["chosen"]) > score(f, p["rejected"]) for f, p in zip(found, held)) / len(held)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = artifacts(pathlib.Path(sys.argv[1]).resolve())
    missed = []

    def row(name, value, bar, ok, peer=""):
        print(f"{name:<44} {value:>12} {bar:>16}  {'ok' if ok else 'MISSED':<7} {peer}")
        if not ok:
            missed.append(name)

    print(f"{'what':<44} {'figure':>12} {'bar':>16}")
    corpus, tokens = found["corpus"], found["tokens"]
    held = (tokens / "heldout.txt").read_bytes()
    train = "\n\n".join(json.loads(l)["text"] for l in (corpus / "documents.jsonl").open(encoding="utf-8")).encode()
    row("held-out text, bytes", len(held), ">= 500000", len(held) >= 500_000)
    trained = set(paragraphs(corpus / "documents.jsonl"))
    shared = sum(p in trained for p in paragraphs(corpus / "heldout.jsonl"))
    row("held-out paragraphs also trained on", shared, "0", shared == 0, f"of {sum(1 for _ in paragraphs(corpus / 'heldout.jsonl'))}")

    evaluated = figures(found["evaluate"])
    plain = 8 * xz_bytes(held) / len(held)
    primed = 8 * (xz_bytes(train + held) - xz_bytes(train)) / len(held)
    untuned = figures(found["evaluate_base"])
    base = untuned["bits_per_byte"]
    row("bits per byte, held-out", f"{base:.3f}", f"< {plain:.3f}", base < plain, f"xz -9e {plain:.3f}, xz primed with the training text {primed:.3f}")

    before, after = untuned["answer_loss"], evaluated["baseline_answer_loss"]
    row("held-out answer loss after SFT, nats", f"{after:.3f}", f"< {before:.3f}", after < before, "before SFT")

    asked = {split: lines(found["questions"] / f"{split}.jsonl") for split in ("train", "heldout", "pairs-train", "pairs-heldout", "choices")}
    sources = {split: {line["source"] for line in asked[split] if "source" in line} for split in asked}
    names = {split: {line["id"] for line in asked[split] if "source" in line} for split in asked}
    held_out, trained_on = ("heldout", "pairs-heldout", "choices"), ("train", "pairs-train")
    both = [sum(len(what[h] & what[t]) for h in held_out for t in trained_on) for what in (sources, names)]
    row("sources, packages held out and trained on", f"{both[0]}, {both[1]}", "0, 0", not any(both),
        f"{len(sources['pairs-heldout'])} sources held out, {len(set.union(*(sources[t] for t in trained_on)))} trained on")

    gain = 100 * (evaluated["preference_accuracy"] - evaluated["baseline_preference_accuracy"])
    row("held-out pairs", int(evaluated["preference_pairs"]), ">= 400", evaluated["preference_pairs"] >= 400)
    row("pairs ranked right, gain over SFT, points", f"{gain:.1f}", ">= 10", gain >= 10,
        f"DPO {100 * evaluated['preference_accuracy']:.1f} % "
        f"[{100 * evaluated['preference_accuracy_low']:.1f}, {100 * evaluated['preference_accuracy_high']:.1f}], "
        f"SFT {100 * evaluated['baseline_preference_accuracy']:.1f} %, length only {100 * evaluated['length_only_accuracy']:.1f} %")

    for name, ranks in (("the section that training chose more often", by_frequency), ("a naive Bayes classifier of the same pairs", by_naive_bayes)):
        print(f"{'  by ' + name:<60} {100 * ranks(asked['pairs-train'], asked['pairs-heldout']):.1f} % of the pairs ranked right")

    aligned = figures(found["align"])
    print(f"{'  the same by the reward that DPO learns':<44} {100 * aligned['heldout_accuracy']:>11.1f}% {'(chance 50 %)':>16}  "
          f"{'':<7} log-ratio to the SFT model, mean margin {aligned['heldout_margin']:.2f} nats")

    print(f"{'  the likeliest of all sections is right':<44} {100 * evaluated['choice_accuracy']:>11.1f}% {'':>16}  {'':<7} "
          f"[{100 * evaluated['choice_accuracy_low']:.1f}, {100 * evaluated['choice_accuracy_high']:.1f}], "
          f"SFT {100 * evaluated['baseline_choice_accuracy']:.1f} %, {int(evaluated['choice_questions'])} questions, "
          f"{len(asked['choices'][0]['choices'])} sections")

    digest = figures(found["digest"])
    row("served answers to held-out questions, right", int(digest["right"]), f"{int(digest['questions'])}", digest["right"] == digest["questions"])

    loss = figures(found["quantize"])["perplexity_loss_pct"]
    row("int8: perplexity lost, %", f"{loss:.2f}", "<= 1", loss <= 1)
    print(f"{len(missed)} missed" + (": " + ", ".join(missed) if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
