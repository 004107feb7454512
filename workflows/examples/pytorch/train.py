"""Trains a small network on a made-up function: what a training script of one's own needs to live under Longhaul.

It (1) says what it does, (2) saves checkpoints into $LONGHAUL_STATE, which outlives a crash, (3) goes on from the newest one, (4) obeys
orders, and (5) leaves its result in $LONGHAUL_OUT. The data of a step depend on the step alone, so a resumed run sees the same ones.
"""
import argparse
import json
import os
import pathlib
import signal
import sys
import time

import torch
import torch.distributed as dist

from longhaul_beat import Beat

rank, ranks = int(os.environ.get("LONGHAUL_RANK", 0)), int(os.environ.get("LONGHAUL_RANKS", 1))
state, out = (pathlib.Path(os.environ.get(name, ".")) for name in ("LONGHAUL_STATE", "LONGHAUL_OUT"))


def batch_of(step):
    """The inputs [64, 8] and targets [64, 1] of this rank."""
    generator = torch.Generator().manual_seed(step * ranks + rank)
    x = torch.rand(64, 8, generator=generator) * 2 - 1
    return x, torch.sin(3 * x).sum(1, keepdim=True)


def report(kind, **fields):
    if rank == 0 and "LONGHAUL_EVENTS" in os.environ:
        with open(os.environ["LONGHAUL_EVENTS"], "a") as events:
            events.write(json.dumps({"ms": int(time.time() * 1000), "kind": kind, "rank": 0, **fields}) + "\n")


def save(model, optimizer, step):
    """Written beside and renamed: a checkpoint is whole or absent."""
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, state / "writing.pt")
        os.replace(state / "writing.pt", state / "checkpoint.pt")
        report("checkpoint", step=step, path=str(state / "checkpoint.pt"))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=2000)
    options.add_argument("--checkpoint-every", type=int, default=100)
    options = options.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    asked_to_stop = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.append(True))
    beat = Beat()
    meeting = out / "meeting-point"  # this folder is empty at each start
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{meeting.resolve()}", rank=rank, world_size=ranks)

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    first = 0
    if (state / "checkpoint.pt").exists():
        saved = torch.load(state / "checkpoint.pt")  # of its own; weights_only=True of torch 1.13 refuses the learning rate
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    print(f"rank {rank} of {ranks}: process {os.getpid()}, goes on after step {first}", flush=True)

    last, loss = options.steps, None
    for step in range(first + 1, options.steps + 1):
        beat.section("forward")
        x, y = batch_of(step)
        loss = torch.nn.functional.mse_loss(model(x), y)
        beat.section("backward")
        optimizer.zero_grad()
        loss.backward()
        # All ranks have to take the same turn: what one of them was asked travels with the gradients.
        orders = beat.orders()
        asked = {what: value for _, what, value in orders}
        wish = torch.tensor([float(bool(asked_to_stop)), float("checkpoint" in asked), -asked.get("stop_after", last)])
        if ranks > 1:
            beat.section("all-reduce")
            flat = torch.cat([p.grad.flatten() for p in model.parameters()])
            for tensor, how in ((flat, dist.ReduceOp.SUM), (wish, dist.ReduceOp.MAX)):
                beat.enqueued("dp")
                beat.waits("dp")
                dist.all_reduce(tensor, op=how)
                beat.completed("dp")
                beat.waits()
            torch.nn.utils.vector_to_parameters(flat / ranks, [p.grad for p in model.parameters()])
        beat.section("optimizer")
        optimizer.step()
        stopping, last = bool(wish[0]), max(step, min(last, int(-wish[2])))
        beat.step(step)
        if step % 50 == 0:
            report("progress", done=step, total=last, unit="steps")
            report("metric", step=step, loss=loss.item())
        if step % options.checkpoint_every == 0 or wish[1] or stopping or step == last:
            beat.section("checkpoint")
            save(model, optimizer, step)
        for number, _, _ in orders:
            beat.done(number)
        if stopping and step < last:
            print(f"rank {rank}: asked to stop, saved after step {step}", flush=True)
            sys.exit(1)  # not an artifact yet
        if step == last:
            break

    beat.section("end")
    if rank == 0:
        meeting.unlink(missing_ok=True)
        torch.save(model.state_dict(), out / "model.pt")
        figures = {"steps": last, "first_step": first + 1, **({"loss": loss.item()} if loss is not None else {})}
        (out / "artifact.json").write_text(json.dumps({"figures": figures}))
    if ranks > 1:
        dist.destroy_process_group()


main()
