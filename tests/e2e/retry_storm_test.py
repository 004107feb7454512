#!/usr/bin/env python3
"""Budgets end a run that gets no further: a training that fails before it has saved anything, in every job.

usage: retry_storm_test.py LONGHAUL SOURCE_DIR [parts of case names]
"""
import json
import time

from scenario import case, expect, longhaul, main, newest_run
from tiny_inputs import tokens_of_pages, write_pages

OK, RUN_FAILED = 0, 5
TRAINING = tokens_of_pages("storm") + """[stage.train]
kind = "pretrain"
inputs = { tokens = "@tokens" }
threads = 1
precision = "f32"
steps = STEPS
retries = 1
sequence_length = 32
micro_batch_size = 1
global_batch_size = 2
checkpoint = { every_steps = EVERY }
resiliency = { restarts = 0 }
model = { hidden_size = 32, num_hidden_layers = 1, num_attention_heads = 2, num_key_value_heads = 2, max_position_embeddings = 32 }
"""


def run_training(here, steps, every_steps, code, slow=""):
    """Each launch ends with exit code 1 at its 40th step. The run, the folders of its attempts, and their records."""
    write_pages(here / "pages", 7, pages=20)
    (here / "w.toml").write_text(TRAINING.replace("EVERY", str(every_steps)).replace("STEPS", str(steps)))
    (here / "plan").write_text(slow + "engine_step_begin error nth=40 always\n")
    start = time.monotonic()
    longhaul(here, "run", "w.toml", "--worker-fault-plan", here / "plan", code=code, deadline_s=120)
    run = newest_run(here)
    attempts = sorted((run / "stages/train/attempts").iterdir(), key=lambda path: int(path.name))
    print(f"{len(attempts)} attempts in {time.monotonic() - start:.1f} s")
    return run, attempts, [json.loads((attempt / "record.json").read_text()) for attempt in attempts]


@case
def retry_storm(here):
    # Steps long enough that the lead learns how long they take, and writes it down.
    run, _, records = run_training(here, 400, 1000, RUN_FAILED, "engine_step_begin delay_ms=50 always\n")
    expect("two attempts: the first and its one retry", len(records) == 2, records)
    expect("neither has saved anything", [r["saved_step"] for r in records] == [-1, -1], records)
    facts = [json.loads(line) for log in sorted(run.glob("log/*.jsonl")) for line in log.read_text().splitlines()]
    ends = [f for f in facts if f.get("stage") == "train" and f["fact"] in ("retry", "failed")]
    expect("no progress is reported", [(f["fact"], f["with"]["progress"]) for f in ends] == [("retry", False), ("failed", False)], ends)
    expect("what leads have learned lies beside the saved state", (run / "stages/train/learned/section-times.json").exists())
    state = sorted(str(path.relative_to(run / "stages/train/state")) for path in (run / "stages/train/state").rglob("*"))
    expect("and nothing of it within", not any("section" in name for name in state), state)


@case
def what_gets_further_is_tried_again(here):
    """Each job saves at its 30th step and goes on from there, to the end of 120 steps."""
    _, attempts, records = run_training(here, 120, 30, OK)
    saved = [r["saved_step"] for r in records]
    expect("more attempts than retries, each further than the one before", len(saved) > 2 and saved == sorted(set(saved)), saved)
    floors = [(attempt / "launches/1/launch.toml").read_text() for attempt in attempts]
    reported = [int((text.split("at_least_step = ") + ["0"])[1].split()[0]) for text in floors]  # left out where it is 0
    expect("each launch is distinguished from where at least", reported == [0] + saved[:-1], (reported, saved))


if __name__ == "__main__":
    main()
