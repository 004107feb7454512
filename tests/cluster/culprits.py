"""Who was named as the culprit, joined with what was injected: how often rightly, and with what 95 % interval.

The rule. Kinds in WITHOUT_CULPRIT end no rank, so nobody is to be named for them; they are left out by kind, whatever came
of them. Every other injected fault counts, in one of these ways:

- A fault that was told of (event `fault`) is held against what had been injected into the same launch until then and was not
  yet told of. It is right if it names the rank of one of those, or, for kinds in OF_HOST, the host: of two that were hurt at the
  same moment either is right, and if both are told of, each counts once.
- A fault that was told of where nothing is left that had been injected counts as wrong, unless it is a consequence: it names a
  rank that was hurt in this launch before, at most CONSEQUENCE_MS ago. Consequences are counted apart, neither rightly nor wrongly.
- An injected fault that nothing was told of counts as wrong, unless its launch was ended by another one at the same moment
  (SAME_MOMENT_MS, by when that one was injected where that is known, for what is told may come seconds later; the lead's death is
  one, too; a disk that will be full is one only at the next save, and any end of its launch
  may come before), or a frozen rank was let go on by the other half of a slow_rank of the same rank.
"""
import collections

SAME_MOMENT_MS, CONSEQUENCE_MS, SLOW_MS = 1500, 15_000, 5_000
# A rank that is slow for 2 s, a file that nobody reads unless there is none newer, an agent that is silent or dead, a lead whose place is taken, a
# controller that is down:
# no rank ends, and nothing is restarted for it.
WITHOUT_CULPRIT = {"slow_rank", "corrupted_shard", "dropped_heartbeat", "dead_standby", "dead_lead", "slurmctld_down"}
OF_HOST = {"frozen_host", "cut_network", "xid", "ecc_storm"}


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
    """What was injected and what was told of it. `events` are in the order of their files, each with its `attempt`."""

    def __init__(self, events):
        self.pairs, self.wrong, self.consequences, self.passed_over = [], [], [], []
        launches = collections.defaultdict(list)
        for event in events:
            if event["kind"] in ("injected", "fault"):
                launches[event["attempt"], event["launch"]].append(event)
        for seen in launches.values():
            self._join(sorted(seen, key=lambda e: e["ms"]))

    def _join(self, seen):
        open_, told = [], {}  # told: rank -> when last
        for event in seen:
            if event["kind"] == "injected":
                if event["fault"] not in WITHOUT_CULPRIT:
                    open_.append(event)
                continue
            rank = event.get("rank", -1)
            match = next((e for e in open_ if is_named(e, event)), None)
            if match:
                open_.remove(match)
                told[match["rank"]] = event["ms"]
                self.pairs.append((match, event))
            elif open_:
                self.wrong.append((open_.pop(0), event))
            elif rank in told and event["ms"] - told[rank] <= CONSEQUENCE_MS:
                self.consequences.append(event)
            else:
                self.wrong.append((None, event))
        begun = {id(fault): injected["ms"] for injected, fault in self.pairs}
        for event in open_:
            if self._is_passed_over(event, seen, begun):
                self.passed_over.append(event)
            else:
                self.wrong.append((event, None))

    @staticmethod
    def _is_passed_over(event, seen, begun):
        """`begun`: when what was told of rightly had been injected."""
        def is_of(other, name):
            return other["kind"] == "injected" and other["fault"] == name
        ends = [begun.get(id(e), e["ms"] - 1000 * max(0, e.get("detect_s", 0))) for e in seen if e["kind"] == "fault" and e["ms"] >= event["ms"]]
        ends += [e["ms"] for e in seen if is_of(e, "dead_lead") and e["ms"] >= event["ms"] - SAME_MOMENT_MS]
        moment = float("inf") if event["fault"] == "full_disk" else SAME_MOMENT_MS
        let_go = event["fault"] == "SIGSTOP" and any(
            is_of(e, "slow_rank") and e["rank"] == event["rank"] and abs(e["ms"] - event["ms"]) <= SLOW_MS for e in seen)
        return let_go or any(end - event["ms"] <= moment for end in ends)

    @property
    def count(self):
        return len(self.pairs) + len(self.wrong)

    def shown_wrong(self):
        def short(event):
            return {k: event[k] for k in ("fault", "rank", "step", "launch", "attempt", "ms", "class", "tier", "section", "cause") if k in event} if event else None
        return [f"injected {short(a)}, told {short(b)}" for a, b in self.wrong]


def is_named(injected, fault):
    if injected["fault"] in OF_HOST and fault.get("host"):
        return injected["host"] == fault["host"]
    return injected["rank"] == fault.get("rank", -1)
