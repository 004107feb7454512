"""Who was named as the culprit, joined with what was injected: how often rightly, and with what 95 % interval.

The rule. A fault that was told of (event `fault`) is held against what had been injected into the same launch until then
and was not yet told of. It is right if it names the rank of one of those: of two that were hurt at the same moment either
is right, and if both are told of, each counts once. A fault that was told of where nothing had been injected counts as
wrong, unless it is a consequence: it names a rank that was hurt in this launch before. An injected fault that nothing was
told of counts as wrong, unless another one was told of that had come at the same moment (1.5 s; a disk that will be full is
one only at the next save, and its launch may end before), or the lead was killed with it.
"""
import collections

SAME_MOMENT_MS = 1500


def wilson(rightly, count, z=1.959964):
    """Wilson 1927: the interval of a share, 95 %."""
    share, spread = rightly / count, z * z / count
    middle = (share + spread / 2) / (1 + spread)
    half = z * ((share * (1 - share) + spread / 4) / count) ** 0.5 / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def wilson_text(rightly, count):
    if count == 0:
        return "rightly 0 of 0"
    low, high = wilson(rightly, count)
    return f"rightly {rightly} of {count}, 95 % interval {100 * low:.1f} to {100 * high:.1f} % (Wilson)"


class Joined:
    """What was injected and what was told of it. `events` are in the order of their files, each with its `attempt`;
    `harmless` are faults that need not be told of; `may_pass` those that may end by themselves (a frozen rank that went on)."""

    def __init__(self, events, harmless, may_pass=()):
        self.pairs, self.wrong, self.consequences, self.passed_over = [], [], 0, []
        self.injected = [e for e in events if e["kind"] == "injected" and e["fault"] not in harmless]
        launches = collections.defaultdict(list)
        for event in events:
            if event["kind"] in ("injected", "fault"):
                launches[event["attempt"], event["launch"]].append(event)
        self.alone = {e["attempt"] for e in events if e["kind"] == "injected" and e["fault"] == "dead_lead"}
        for (attempt, _), seen in launches.items():
            self._join(attempt, sorted(seen, key=lambda e: e["ms"]), harmless, may_pass)

    def _join(self, attempt, seen, harmless, may_pass):
        open_, told = [], []
        for event in seen:
            if event["kind"] == "injected":
                if event["fault"] not in harmless:
                    open_.append(event)
                continue
            match = next((e for e in open_ if e["rank"] == event.get("rank")), None)
            if match:
                open_.remove(match)
                told.append(match)
                self.pairs.append((match, event))
            elif any(e["rank"] == event.get("rank") for e in told):
                self.consequences += 1
            elif open_:
                self.wrong.append((open_.pop(0), event))
            else:
                self.wrong.append((None, event))
        for event in open_:
            beside = [e["ms"] - 1000 * e.get("detect_s", 0) - event["ms"] for e in seen if e["kind"] == "fault" and e["ms"] >= event["ms"]]
            moment = float("inf") if event["fault"] == "full_disk" else SAME_MOMENT_MS
            excused = any(ms <= moment for ms in beside) or attempt in self.alone or event["fault"] in may_pass
            if excused:
                self.passed_over.append(event)
            else:
                self.wrong.append((event, None))

    @property
    def count(self):
        return len(self.pairs) + len(self.wrong)

    def shown_wrong(self):
        def short(event):
            return {k: event[k] for k in ("fault", "rank", "step", "launch", "attempt", "ms", "class", "tier", "section", "cause") if k in event} if event else None
        return [f"injected {short(a)}, told {short(b)}" for a, b in self.wrong]
