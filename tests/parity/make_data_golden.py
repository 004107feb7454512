#!/usr/bin/env python3
"""Writes golden/data_order.json: what Megatron-LM makes of small inputs, with its own code.

    python make_data_golden.py     # needs numpy and megatron-core (pip install --no-deps megatron-core)

megatron-core's package imports torch; the functions used here do not need it. They are taken out of its files one by one,
and its compiled helpers are loaded by path.
"""
import ast
import importlib.metadata
import importlib.util
import json
import logging
import math
import pathlib
import sys

import numpy

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
CORE = pathlib.Path(importlib.util.find_spec("megatron").submodule_search_locations[0]) / "core"
VERSIONS = {"python": sys.version.split()[0], "numpy": numpy.__version__,
            "megatron-core": importlib.metadata.version("megatron-core")}


def taken_from(file, *names):
    """Functions and classes of one file, without running its imports."""
    tree = ast.parse((CORE / file).read_text())
    kept = [node for node in tree.body if getattr(node, "name", None) in names]
    for node in ast.walk(ast.Module(kept, [])):
        if isinstance(node, (ast.FunctionDef, ast.arg)):
            node.annotation = node.returns = None
    scope = {"numpy": numpy, "math": math, "logger": logging.getLogger(), "logging": logging,
             "log_single_rank": lambda *_: None, "List": list}
    exec(compile(ast.Module(kept, []), file, "exec"), scope)
    return [scope[name] for name in names]


def loaded(file):
    path = next((CORE / file).parent.glob(pathlib.Path(file).name + "*"))
    spec = importlib.util.spec_from_file_location(pathlib.Path(file).name.split(".")[0], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


document_index_of, shuffle_index_of = taken_from("datasets/gpt_dataset.py", "_build_document_index",
                                                 "_build_shuffle_index")
normalize, = taken_from("datasets/utils.py", "normalize")
Scheduler, = taken_from("optimizer_param_scheduler.py", "OptimizerParamScheduler")
helpers = loaded("datasets/helpers_cpp")
calculator = loaded("num_microbatches_calculator.py")


def checksum(values):
    """Depends on every value and its place; for arrays too long to be kept."""
    total = 0
    for i, value in enumerate(values):
        total = (total + (i + 1) * (int(value) + 1)) % 2**64
    return format(total, "x")


def numpy_golden():
    shuffles = []
    for seed in (0, 1, 1234, 2**32 - 1):
        for n in (1, 2, 3, 10, 64, 65):
            state = numpy.random.RandomState(seed)
            order, again = numpy.arange(n, dtype=numpy.int32), numpy.arange(n, dtype=numpy.uint32)
            state.shuffle(order)
            state.shuffle(again)
            shuffles.append({"seed": seed, "n": n, "first": order.tolist(), "second": again.tolist()})
    long = numpy.arange(100_000, dtype=numpy.uint32)
    numpy.random.RandomState(77).shuffle(long)
    state, wide = numpy.random.RandomState(9), []
    for largest in (2**32, 2**40 + 12345, 2**52 - 1, 2**62):  # inclusive
        wide += [{"max": largest, "value": int(state.randint(0, largest + 1, dtype=numpy.int64))} for _ in range(4)]
    return {"shuffles": shuffles, "long": {"seed": 77, "n": 100_000, "checksum": checksum(long)}, "wide_seed": 9,
            "wide": wide}


def index_of(lengths, s, samples, seed):
    """GPTDataset._build_document_sample_shuffle_indices, with its functions where it has them."""
    tokens, epochs = sum(lengths), 1
    while epochs * tokens < samples * s + 1:
        epochs += 1
    apart = False
    if epochs > 1:
        before_last = ((epochs - 1) * tokens - 1) // s
        apart = samples - before_last < int(0.80 * ((tokens - 1) // s))
    state = numpy.random.RandomState(seed)
    documents = document_index_of(numpy.arange(len(lengths), dtype=numpy.int32), epochs, state, apart)
    places = helpers.build_sample_idx_int32(numpy.array(lengths, dtype=numpy.int32), documents, s, epochs, tokens, True, 1)
    total = places.shape[0] - 1
    shuffle = shuffle_index_of(before_last if apart else total, total, state)
    return epochs, apart, documents, places, shuffle


def index_golden():
    r, rows = numpy.random.default_rng(8), []
    lists = {"even": [10] * 12, "mixed": r.integers(1, 40, 30).tolist(), "short": r.integers(1, 4, 50).tolist(),
             "empty": [0, 7, 0, 0, 12, 3, 0, 30, 1, 0], "long": r.integers(200, 900, 4).tolist()}
    for name, lengths in lists.items():
        tokens = sum(lengths)
        for s in (2, 5, 16):
            per_epoch = (tokens - 1) // s
            # Within one epoch; just over it; a last epoch on each side of 80 %; many.
            for samples in {max(1, per_epoch // 2), per_epoch, per_epoch + 1, per_epoch + int(0.8 * per_epoch) - 1,
                            per_epoch + int(0.8 * per_epoch) + 1, 3 * per_epoch + 2}:
                epochs, apart, documents, places, shuffle = index_of(lengths, s, samples, 1234 + s)
                row = {"name": name, "lengths": lengths, "sequence_length": s, "samples": samples, "seed": 1234 + s,
                       "epochs": epochs, "last_epoch_apart": bool(apart), "built": len(shuffle),
                       "documents_checksum": checksum(documents), "places_checksum": checksum(places.flatten()),
                       "shuffle_checksum": checksum(shuffle)}
                if len(shuffle) < 40:
                    row |= {"documents": documents.tolist(), "places": places.flatten().tolist(),
                            "shuffle": shuffle.tolist()}
                rows.append(row)
    # Large enough for every digit of the random numbers to count; its lengths are a formula.
    lengths = [17 + i * i * 7919 % 501 for i in range(20_000)]
    for samples in (300_000, 550_000):
        epochs, apart, documents, places, shuffle = index_of(lengths, 32, samples, 20_000)
        rows.append({"name": "large", "lengths": [], "sequence_length": 32, "samples": samples, "seed": 20_000,
                     "epochs": epochs, "last_epoch_apart": bool(apart), "built": len(shuffle),
                     "documents_checksum": checksum(documents), "places_checksum": checksum(places.flatten()),
                     "shuffle_checksum": checksum(shuffle)})
    assert {row["last_epoch_apart"] for row in rows} == {True, False}
    return rows


def blend_golden():
    r, rows = numpy.random.default_rng(4), []
    for weights in ([1.0], [0.5, 0.5], [0.7, 0.3], [3, 1, 2], [0.1] * 7, [0.98, 0.01, 0.01], r.random(8).tolist(),
                    r.random(12).tolist(), r.random(130).tolist(), r.random(300).tolist()):
        normal = normalize(normalize(weights))  # the builder does, and BlendedDataset again
        size = 20_000
        index, sample = numpy.zeros(size, numpy.int16), numpy.zeros(size, numpy.int64)
        helpers.build_blending_indices(index, sample, numpy.array(normal), len(normal), size, False)
        rows.append({"weights": [float(w) for w in weights], "normalized": normal, "size": size,
                     "first": index[:60].tolist(), "sources_checksum": checksum(index),
                     "samples_checksum": checksum(sample)})
    return rows


class OneGroup:
    """All of an optimizer that the scheduler touches."""
    def __init__(self):
        self.param_groups = [{}]


def learning_rate_golden():
    rows = []
    for style, shape in (("constant", None), ("linear", None), ("cosine", None), ("inverse-square-root", None),
                         ("WSD", "linear"), ("WSD", "cosine"), ("WSD", "exponential"), ("WSD", "minus_sqrt")):
        for warmup, start in ((0, 0.0), (10, 0.0), (10, 2e-5)):
            scheduler = Scheduler(OneGroup(), start, 1e-3, 1e-4, warmup, 100, style, 0.1, 0.1, 0, "constant",
                                  wsd_decay_steps=25, lr_wsd_decay_style=shape)
            rates = []
            for _ in range(100):
                scheduler.step(1)
                rates.append(scheduler.optimizer.param_groups[0]["lr"])
            rows.append({"schedule": style, "shape": shape, "warmup": warmup, "start": start, "lr": 1e-3, "min": 1e-4,
                         "steps": 100, "decay_steps": 25, "rates": rates})
    return rows


def rampup_golden():
    rows = []
    for start, increment, samples, full in ((8, 8, 1000, 64), (32, 32, 977, 128), (1, 1, 50, 11), (16, 16, 30, 48),
                                            (4, 3, 1001, 25)):
        rule = calculator.RampupBatchsizeNumMicroBatchesCalculator(full, 1, 1, False, 1, start, increment, samples)
        consumed, batches = 0, []
        while len(batches) < 3 or batches[-3] != full:
            rule.update(consumed, True)
            batches.append(rule.get_current_global_batch_size())
            consumed += batches[-1]
        rows.append({"start": start, "increment": increment, "samples": samples, "full": full, "batches": batches})
    return rows


if __name__ == "__main__":
    golden = {"versions": VERSIONS, "numpy": numpy_golden(), "index": index_golden(), "blend": blend_golden(),
              "learning_rate": learning_rate_golden(), "batch_rampup": rampup_golden()}
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / "data_order.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print("data_order.json", (GOLDEN / "data_order.json").stat().st_size, "bytes")
