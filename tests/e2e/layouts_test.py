#!/usr/bin/env python3
"""Trainings in several layouts through the real programs: `longhaul run`, MPI, one loss curve. And ranks of each kind of
group that are killed while they train.

usage: layouts_test.py LONGHAUL SOURCE_DIR [parts of case names]
"""
import os
import signal
import subprocess
import time

from scenario import (LONGHAUL, PATIENCE, case, events, expect, longhaul, main, newest_run, processes_holding, runs, stage_status,
                      wait_for)
from tiny_inputs import tokens_of_pages, write_pages, write_questions

SEED = 20260302
STEPS = 12
HEADER = tokens_of_pages("x")
SHAPE = "hidden_size = 32, num_hidden_layers = 4, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64"
DENSE = f"model = {{ {SHAPE} }}\n"
EXPERTS = f'model = {{ architecture = "mixtral", num_local_experts = 4, moe_intermediate_size = 32, {SHAPE} }}\n'
LAYOUTS = {
    "dense": (DENSE, {
        "tp": "{ tp = 2, sp = true }",
        "pp": "{ pp = 2, vp = 2 }",
        "cp": "{ cp = 2 }",
        "zero3": "{ dp_shard = 2, zero = 3 }",
        "tp-pp": "{ tp = 2, pp = 2 }"}),
    "experts": (EXPERTS, {
        "ep": "{ dp_shard = 2, ep = 2, zero = 1 }",
        "etp": "{ tp = 2, sp = true, etp = 2 }",
        "cp-ep": "{ cp = 2, ep = 2 }"}),
}


def pretrain(name, model, parallel, steps=STEPS, more=""):
    return (f'[stage.{name}]\nkind = "pretrain"\ninputs = {{ tokens = "@tokens" }}\nthreads = 1\nprecision = "f32"\n'
            f'steps = {steps}\nsequence_length = 64\nmicro_batch_size = 2\nglobal_batch_size = 8\n{model}' +
            (f"parallel = {parallel}\n" if parallel else "") + more)


def losses(run, stage):
    return {e["step"]: e["loss"] for e in events(run, stage, "metric") if "loss" in e}


@case
def every_layout_has_the_same_losses(here):
    write_pages(here / "pages", SEED, pages=8)
    text = HEADER
    for family, (model, layouts) in LAYOUTS.items():
        text += pretrain(f"{family}-one", model, None)
        for name, parallel in layouts.items():
            text += pretrain(f"{family}-{name}", model, parallel)
    # What comes after it takes a model of any layout.
    text += ('[stage.sft]\nkind = "sft"\ninputs = { model = "@dense-tp-pp", data = "questions/train.jsonl" }\nthreads = 1\n'
             'sequence_length = 64\nmicro_batch_size = 2\nglobal_batch_size = 4\nepochs = 1.0\nparallel = { tp = 2 }\n'
             '[stage.evaluate]\nkind = "evaluate"\ninputs = { model = "@experts-ep", tokens = "@tokens" }\ntasks = ["bits_per_byte"]\n')
    write_questions(here / "questions", SEED, questions=20)
    (here / "w.toml").write_text(text)
    longhaul(here, "run", "w.toml", "--allow", "cores", code=0, deadline_s=150)  # up to four ranks
    run = newest_run(here)
    for family, (_, layouts) in LAYOUTS.items():
        alone = losses(run, f"{family}-one")
        expect(f"{family}: as many losses as steps", list(alone) == list(range(1, STEPS + 1)), alone)
        expect(f"{family}: the loss falls", alone[STEPS] < alone[1] - 0.05, alone)
        for name in layouts:
            mine = losses(run, f"{family}-{name}")
            worst = max(abs(mine.get(step, 1e9) - loss) / loss for step, loss in alone.items())
            expect(f"{family} as {name}: the same losses within 1e-5", worst <= 1e-5, (worst, mine, alone))
            judged, heldout = (stage_status(here, f"{family}-{n}")["figures"]["heldout_loss"] for n in ("one", name))
            expect(f"{family} as {name}: the same held-out loss", abs(heldout - judged) <= 1e-5 * judged, (heldout, judged))
    figures = stage_status(here, "evaluate")["figures"]
    expect("a model trained by ranks with an expert each is evaluated by one", 0.5 < figures["bits_per_byte"] < 9, figures)


class Job:
    """A training of several ranks, in a process group of its own."""

    def __init__(self, here, name, model, parallel, ranks):
        write_pages(here / "pages", SEED, pages=8)
        (here / f"{name}.toml").write_text(
            HEADER.replace('"x"', f'"{name}"') +
            pretrain("s", model, parallel, steps=3000, more="retries = 1\ncheckpoint = { every_steps = 20, keep_last = 2 }\n"))
        self.count = ranks
        self.process = subprocess.Popen([LONGHAUL, "run", f"{name}.toml", "--allow", "cores"], cwd=here, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        self.run = wait_for("a run", lambda: next((r for r in runs(here) if r.name.startswith(name + "-")), None))
        self.attempt = self.run / "stages/s/attempts/1"
        wait_for("an attempt", (self.attempt / "claim.json").exists)
        text = (self.attempt / "attempt.toml").read_text().splitlines()
        key = next(line.split('"')[1] for line in text if line.startswith("key"))
        self.entry = f"LONGHAUL_ATTEMPT_KEY={key}"

    def ranks(self, launch):
        """Process ids by rank, once the launch trains and has saved."""
        def found():
            if not (self.attempt / "events.jsonl").exists():
                return None
            facts = events(self.run, "s")
            begun = [i for i, e in enumerate(facts) if e["kind"] == "launched" and e["launch"] == launch]
            if not begun or not any(e["kind"] == "checkpoint" for e in facts[begun[0]:]):
                return None
            ids = {}
            for pid in processes_holding(self.entry):
                try:
                    arguments = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
                    environment = open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
                except OSError:
                    continue
                if arguments[0].endswith(b"longhaul-engine") and any(f"launches/{launch}/".encode() in w for w in arguments):
                    rank = next((e.split(b"=")[1] for e in environment if e.startswith(b"OMPI_COMM_WORLD_RANK=")), None)
                    if rank is not None:
                        ids[int(rank)] = pid
            return ids if len(ids) == self.count else None
        return wait_for(f"{self.count} ranks of launch {launch}", found, 60)

    def end(self, here):
        try:
            longhaul(here, "cancel", self.run.name, deadline_s=60)
            self.process.communicate(timeout=60 * PATIENCE)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def killed(here, name, model, parallel, ranks, victim):
    job = Job(here, name, model, parallel, ranks)
    try:
        first = job.ranks(1)
        os.kill(first[victim], signal.SIGKILL)
        begun = time.monotonic()
        wait_for("no rank of the first launch is left", lambda: not any(os.path.exists(f"/proc/{p}/exe") for p in first.values()), 10)
        ended = time.monotonic() - begun
        again = job.ranks(2)
        expect("other processes", not set(first.values()) & set(again.values()))
        facts = events(job.run, "s")
        second = next(i for i, e in enumerate(facts) if e["kind"] == "launched" and e["launch"] == 2)
        saved = [e["step"] for e in facts[:second] if e["kind"] == "checkpoint"]
        steps = [e["step"] for e in facts[second:] if e["kind"] == "metric" and "loss" in e]
        expect("it goes on from the newest checkpoint", steps and steps[0] in (saved[-1] + 1, saved[-1] + 21), (steps[:1], saved))
        fault = next(e for e in facts if e["kind"] == "fault")
        # On a loaded machine mpirun may see ranks first that were ended because of it, and how this one ended is not known.
        expect("the cause names the signal or the rank", "signal 9" in fault["cause"] or f"rank {victim}" in fault["cause"], fault)
        expect("all ended within 10 s", ended <= 10, ended)
    finally:
        job.end(here)
    wait_for("no process of the attempt is left", lambda: not processes_holding(job.entry), 10)


@case
def a_rank_of_tensor_and_pipeline_groups_is_killed(here):
    killed(here, "tp-pp", DENSE, "{ tp = 2, pp = 2 }", 4, 3)


@case
def a_rank_that_holds_experts_is_killed(here):
    killed(here, "ep", EXPERTS, "{ dp_shard = 2, ep = 2, zero = 1 }", 2, 1)


if __name__ == "__main__":
    main()
