#!/usr/bin/env python3
"""TensorBoard reads a stage's curves as the stage's own events have them.

usage: check_tensorboard.py TENSORBOARD_FOLDER EVENTS_JSONL...     (events of all attempts, oldest first; needs tensorboard)
"""
import json
import math
import sys

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

folder, event_files = sys.argv[1], sys.argv[2:]
expected = {}
for path in event_files:
    for line in open(path):
        event = json.loads(line)
        if event["kind"] != "metric":
            continue
        if "lr" in event:  # what an interrupted launch did after its last checkpoint is done again
            for curve in expected.values():
                for step in [step for step in curve if step > event["step"]]:
                    del curve[step]
        for name, value in event.items():
            if name not in ("t", "ms", "kind", "rank", "step") and isinstance(value, (int, float)):
                expected.setdefault(name, {})[event["step"]] = float(numpy.float32(value))

accumulator = EventAccumulator(folder, size_guidance={"scalars": 0})
accumulator.Reload()
wrong = sorted(set(expected) ^ set(accumulator.Tags()["scalars"]))
for name in sorted(set(expected) & set(accumulator.Tags()["scalars"])):
    read = [(e.step, e.value) for e in accumulator.Scalars(name)]
    same = len(read) == len(expected[name]) and dict(read).keys() == expected[name].keys() and all(
        value == expected[name][step] or math.isnan(value) and math.isnan(expected[name][step]) for step, value in read)
    print(f"{name}: {len(read)} points, {'as in the events' if same else 'NOT as in the events'}")
    wrong += [] if same else [name]
print(f"{len(expected)} curves compared" if not wrong else f"wrong or missing: {', '.join(wrong)}")
sys.exit(1 if wrong or not expected else 0)
