#!/usr/bin/env python3
"""The quickstart's bars, from the artifacts of one run, each figure beside its bar and its peer.

  tests/bench/quickstart_bars.py RUN_FOLDER

Reads what the stages published (manifest figures, files), measures xz on the same held-out text, and checks with code of its
own that no paragraph of the held-out text was trained on. Ends with 1 if a bar is missed.
"""
import json
import lzma
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

    gain = 100 * (evaluated["preference_accuracy"] - evaluated["baseline_preference_accuracy"])
    row("held-out pairs", int(evaluated["preference_pairs"]), ">= 400", evaluated["preference_pairs"] >= 400)
    row("pairs ranked right, gain over SFT, points", f"{gain:.1f}", ">= 10", gain >= 10,
        f"DPO {100 * evaluated['preference_accuracy']:.1f} % "
        f"[{100 * evaluated['preference_accuracy_low']:.1f}, {100 * evaluated['preference_accuracy_high']:.1f}], "
        f"SFT {100 * evaluated['baseline_preference_accuracy']:.1f} %, length only {100 * evaluated['length_only_accuracy']:.1f} %")

    aligned = figures(found["align"])
    print(f"{'  the same by the reward that DPO learns':<44} {100 * aligned['heldout_accuracy']:>11.1f}% {'(chance 50 %)':>16}  "
          f"{'':<7} log-ratio to the SFT model, mean margin {aligned['heldout_margin']:.2f} nats")

    loss = figures(found["quantize"])["perplexity_loss_pct"]
    row("int8: perplexity lost, %", f"{loss:.2f}", "<= 1", loss <= 1)
    print(f"{len(missed)} missed" + (": " + ", ".join(missed) if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
