#!/usr/bin/env python3
"""Asks Calculon (Isaev et al. 2023, https://github.com/calculon-ai/calculon, Apache-2.0) for the rows of figures.csv
that it can express, with its own system files, and writes `id,seconds,note` for `published_figures --calculon FILE`.

  calculon_rows.py CHECKOUT > calculon.csv

CHECKOUT is a clone of that repository; nothing of it is part of this project. Left out, each with its reason on standard
error: shapes that it has no words for (fewer key-value heads, mixtures of experts), context parallelism, weights that
replicas share, GPUs without a system file. A gated feed-forward is given as one of as many weights. Where micro-batch or
virtual stages are open it may choose, as the time model may.
"""

import argparse
import copy
import csv
import logging
import pathlib
import sys

SYSTEMS = {"A100": "a100_80g.json", "H100": "h100_80g_nvl8.json"}
DATATYPES = {"bf16": "float16", "fp8": "float8"}
RECOMPUTE = {"": "none", "core": "attn_only", "block": "full"}


def why_not(row):
    """Why Calculon has no words for this row, or None."""
    if row["gpu"] not in SYSTEMS:
        return f"no system file for {row['gpu']}"
    if row["kv_heads"] != row["heads"]:
        return "fewer key-value heads than heads"
    if row["experts"]:
        return "mixture of experts"
    if int(row["cp"]) > 1:
        return "context parallelism"
    if row["zero"] in ("2", "3"):
        return f"ZeRO {row['zero']}"
    if row["recompute"] not in RECOMPUTE:
        return f"recomputation of {row['recompute']}"
    if not row["tp"] or not row["pp"]:
        return "layout not stated"
    if row["unit"] == "times" or row["relative_to"]:
        return "a ratio, or the same run as another row"
    return None


def executions(row):
    """Every execution that the row leaves open."""
    tp, pp, gpus, batch = int(row["tp"]), int(row["pp"]), int(row["gpus"]), int(row["batch"])
    dp, layers = gpus // (tp * pp), int(row["layers"])
    modern = row["framework"] not in ("megatron-2021", "megatron-2022")
    sharded = row["framework"] != "megatron-2021"
    for vp in [int(row["vp"])] if row["vp"] else range(1, 9):
        for size in [int(row["micro_batch"])] if row["micro_batch"] else [1, 2, 4, 8]:
            if batch % (dp * size) or layers % (pp * vp) or (pp == 1 and vp > 1):
                continue
            recompute = RECOMPUTE[row["recompute"]]
            sequence = sharded and tp > 1
            yield {
                "num_procs": gpus, "tensor_par": tp, "pipeline_par": pp, "data_par": dp,
                "tensor_par_net": 0, "pipeline_par_net": 0 if gpus <= 8 else 1,
                "data_par_net": 0 if tp * dp <= 8 else 1,
                "batch_size": batch, "microbatch_size": size, "datatype": DATATYPES[row["precision"]],
                "fused_activation": modern, "attention_type": "multihead", "activation_recompute": recompute,
                "pipeline_interleaving": vp, "optimizer_sharding": row["zero"] == "1" and dp > 1,
                "tensor_par_comm_type": "rs_ag" if sequence else "ar",
                "tensor_par_overlap": "ring" if modern and tp > 1 else "none",
                "seq_par_ag_redo": sequence and recompute != "full", "data_par_overlap": modern and dp > 1,
                "weight_offload": False, "activations_offload": False, "optimizer_offload": False, "training": True,
            }


def system_of(calculon, checkout, gpu):
    """Its own file, with room for whatever fitted in truth, and groups that may be smaller than a node."""
    described = copy.deepcopy(calculon.io.read_json_file(str(checkout / "systems" / SYSTEMS[gpu])))
    described["mem1"]["GiB"] = 80_000_000
    for network in described["networks"]:
        network["must_be_filled"] = False
    return described


def seconds_of(calculon, row, system, logger):
    """The fastest of what the row leaves open, or None with the reason."""
    from calculon.llm import Llm

    gated = row["architecture"] == "llama"
    shape = {"hidden": int(row["hidden"]), "feedforward": int(int(row["ffn"]) * (1.5 if gated else 1)),
             "seq_size": int(row["seq"]), "attn_heads": int(row["heads"]),
             "attn_size": int(row["hidden"]) // int(row["heads"]), "num_blocks": int(row["layers"])}
    best, reason = None, "no execution"
    for execution in executions(row):
        try:
            model = Llm(Llm.Application(shape), logger)
            model.compile(calculon.System(copy.deepcopy(system)), Llm.Execution.from_json(execution))
            model.run(calculon.System(copy.deepcopy(system)))
            seconds = model.get_stats_json(False)["total_time"]
        except (Llm.Error, AssertionError, KeyError) as error:
            reason = f"{type(error).__name__}: {error}"
            continue
        best = seconds if best is None else min(best, seconds)
    return best, reason


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--figures", type=pathlib.Path, default=pathlib.Path(__file__).parent / "figures.csv")
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.checkout))
    import calculon

    logger = logging.getLogger("calculon")
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["id", "seconds", "note"])
    for row in csv.DictReader(arguments.figures.open()):
        reason, seconds = why_not(row), None
        if reason is None:
            seconds, reason = seconds_of(calculon, row, system_of(calculon, arguments.checkout, row["gpu"]), logger)
        if seconds is None:
            print(f"{row['id']}: left out: {reason}", file=sys.stderr)
        else:
            out.writerow([row["id"], f"{seconds:.6g}", "gated feed-forward as one of as many weights"
                          if row["architecture"] == "llama" else ""])


if __name__ == "__main__":
    main()
