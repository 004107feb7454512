"""Who was named as the culprit, joined with what was injected: how often rightly, and with what 95 % interval.

The rule. Kinds in WITHOUT_CULPRIT end no rank, so nobody is to be named for them; they are left out by kind, whatever came
of them. Every other injected fault counts, in one of these ways:

- A fault that was reported (event `fault`) is held against what had been injected into the same launch until then and was not
  yet reported. It is right if it names the rank of one of those, or, for kinds in OF_HOST, the host: of two that were hurt at the
  same moment either is right, and if both are reported, each counts once.
- Of a host whose agent was made silent, or killed, just before (HIDDEN_MS), nobody hears of ranks: there the host is right for a
  rank of it that was hurt meanwhile. Where processes take longer to end than ENDS_MS (`ends_ms`), that much later twice: a killed
  agent keeps its connection open until it is gone, and what is reported comes when the killed ranks are gone.
- A fault that was reported where nothing is left that had been injected counts as wrong, unless it is a consequence: it names a
  rank that was hurt in this launch before, at most CONSEQUENCE_MS ago. Consequences are counted apart, neither rightly nor wrongly.
- So is a fault that is reported again, of the same rank and in the same words, because the order to go on in-process came to nothing.
- So are crashes at a start that nobody injected and that happened all the same: into a launch nothing had been injected, and what is
  reported quotes the signal from the log of a rank of the host that it names. They are shown, for their reason is to be looked for.
  So are launches into which nothing had been injected and of which no rank comes past its start, where nobody is named for it.
- An injected fault of which nothing was reported counts as wrong, unless it was absorbed: its launch was restarted for another one at
  the same moment (SAME_MOMENT_MS, by when that one was injected where that is known, for what is reported may come seconds later; the
  lead's death is one, too; a disk that will be full is one only at the next save, and any restart of its launch may come before),
  and the record of that restart is there; or a frozen rank was let go on by the other half of a slow_rank of the same rank.

Every injected fault leaves a record: it is reported, or absorbed by a restart that has one. What has none is `unrecorded`, and so is
the death of a lead after which no lead is heard of, and that of a standby whose agent is not missed. The other kinds of
WITHOUT_CULPRIT end nothing: their injection is all there is.
"""
import collections

SAME_MOMENT_MS, CONSEQUENCE_MS, SLOW_MS = 1500, 15_000, 5_000
ENDS_MS = 10_000
HIDDEN_MS = 15_000  # from the injection until it is reported: an agent is silent for 8 s at most, and a slow machine takes 10 s to end one
# A rank that is slow for 2 s, a file that nobody reads unless there is none newer, an agent that is silent or dead, a lead whose place is taken, a
# controller that is down:
# no rank ends, and nothing is restarted for it.
WITHOUT_CULPRIT = {"slow_rank", "corrupted_shard", "dropped_heartbeat", "dead_standby", "dead_lead", "slurmctld_down"}
OF_AGENT = {"dropped_heartbeat", "dead_standby"}
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


# How many have to be named rightly: of many this share, of fewer all.
RIGHTLY_AT_LEAST, MANY = 0.99, 100


def share_missed(rightly, count):
    """What is wrong with so many right names; "" where nothing is."""
    if count >= MANY and rightly < RIGHTLY_AT_LEAST * count:
        return f"the culprit was named rightly in {rightly} of {count} faults, bar: {100 * RIGHTLY_AT_LEAST:g} %"
    if count < MANY and rightly < count:
        return f"the culprit was named rightly in {rightly} of {count} faults, bar: all of fewer than {MANY}"
    return ""


# An injected fault that another one hid: `by` is what was reported or injected then, `restart` the record of the launch, or of the step,
# with which the training went on (None where a frozen rank was let go on: nothing was restarted).
Absorbed = collections.namedtuple("Absorbed", "injected by restart")


class Joined:
    """What was injected and what was reported of it. `events` are in the order of their files, each with its `attempt`."""

    def __init__(self, events, ends_ms=ENDS_MS):
        self.hidden_ms = HIDDEN_MS + 2 * max(0, ends_ms - ENDS_MS)
        self.pairs, self.wrong, self.consequences, self.absorbed, self.by_themselves = [], [], [], [], []
        self.restarts = sorted((e for e in events if e["kind"] in ("launched", "recovered", "taken_over")), key=lambda e: e["ms"])
        launches = collections.defaultdict(list)
        for event in events:
            if event["kind"] in ("injected", "fault"):
                launches[event["attempt"], event["launch"]].append(event)
        for seen in launches.values():
            self._join(sorted(seen, key=lambda e: e["ms"]))
        self.unrecorded = [injected for injected, reported in self.wrong if reported is None]
        self.unrecorded += [e for e in events if e["kind"] == "injected" and (
            (e["fault"] == "dead_lead" and not self._restart_after(e, ("taken_over", "launched"))) or
            (e["fault"] == "dead_standby" and not any(is_missed(e, other) for other in events)))]

    def _join(self, seen):
        open_, reported, causes = [], {}, set()  # reported: rank -> when last; causes: of faults that were reported, with their ranks
        for event in seen:
            if event["kind"] == "injected":
                if event["fault"] not in WITHOUT_CULPRIT:
                    open_.append(event)
                continue
            rank, cause = event.get("rank", -1), event.get("cause", "")
            if any(rank == of and cause.startswith(f"{before}; ") for of, before in causes):
                self.consequences.append(event)
                continue
            causes.add((rank, cause))
            match = next((e for e in open_ if is_named(e, event) or is_hidden(e, event, seen, self.hidden_ms)), None)
            if match:
                open_.remove(match)
                reported[match["rank"]] = event["ms"]
                self.pairs.append((match, event))
            elif open_:
                self.wrong.append((open_.pop(0), event))
            elif rank in reported and event["ms"] - reported[rank] <= CONSEQUENCE_MS:
                self.consequences.append(event)
            elif (crashed_by_itself(event) or hung_at_its_start(event)) and not any(e["kind"] == "injected" for e in seen):
                self.by_themselves.append(event)
            else:
                self.wrong.append((None, event))
        begun = {id(fault): injected["ms"] for injected, fault in self.pairs}
        for event in open_:
            absorbed = self._absorbed(event, seen, begun)
            if absorbed:
                self.absorbed.append(absorbed)
            else:
                self.wrong.append((event, None))

    def _restart_after(self, event, kinds):
        """The first record of these kinds after an event, in its attempt; a launch of a later attempt is one, too."""
        return next((e for e in self.restarts if e["ms"] >= event["ms"] and
                     (e["kind"] in kinds if e["attempt"] == event["attempt"] else e["attempt"] > event["attempt"])), None)

    def _absorbed(self, event, seen, begun):
        """`begun`: when what was reported rightly had been injected. None: nothing hid it, or what did left no record."""
        def is_of(other, name):
            return other["kind"] == "injected" and other["fault"] == name
        moment = float("inf") if event["fault"] == "full_disk" else SAME_MOMENT_MS
        for other in seen:
            if is_of(other, "slow_rank") and event["fault"] == "SIGSTOP" and other["rank"] == event["rank"] and abs(other["ms"] - event["ms"]) <= SLOW_MS:
                return Absorbed(event, other, None)
            if other["kind"] == "fault" and other["ms"] >= event["ms"]:
                end = begun.get(id(other), other["ms"] - 1000 * max(0, other.get("detect_s", 0)))
                restart = self._restart_after(other, ("launched", "recovered"))
            elif is_of(other, "dead_lead") and other["ms"] >= event["ms"] - SAME_MOMENT_MS:
                end, restart = other["ms"], self._restart_after(other, ("launched",))
            else:
                continue
            if restart and end - event["ms"] <= moment:
                return Absorbed(event, other, restart)
        return None

    @property
    def count(self):
        return len(self.pairs) + len(self.wrong)

    def shown_wrong(self):
        return [f"injected {short(a)}, reported {short(b)}" for a, b in self.wrong]

    def shown_absorbed(self):
        def one(absorbed):
            injected, by, restart = absorbed
            name = by.get("fault") or f"{by['class']}, {by['tier']}"
            went_on = f"{restart['kind']} launch {restart.get('launch', '?')} of attempt {restart['attempt']}" if restart else "let go on"
            return (f"{injected['fault']} of rank {injected['rank']} (attempt {injected['attempt']}, launch {injected['launch']}), "
                    f"{(by['ms'] - injected['ms']) / 1000:+.2f} s: {name} of rank {by.get('rank', -1)}: {went_on}")
        return [one(absorbed) for absorbed in self.absorbed]


def short(event):
    return {k: event[k] for k in ("fault", "rank", "step", "launch", "attempt", "ms", "class", "tier", "section", "cause") if k in event} if event else None


def is_missed(injected, event):
    """An agent that has ended is missed, unless all were done a moment later."""
    if event["attempt"] != injected["attempt"] or event["ms"] < injected["ms"]:
        return False
    return (event["kind"] == "agent_lost" and event["host"] == injected["host"]) or (
        event["kind"] == "ranks_ended" and event["ms"] - injected["ms"] <= SAME_MOMENT_MS)


def is_named(injected, fault):
    if injected["fault"] in OF_HOST and fault.get("host"):
        return injected["host"] == fault["host"]
    return injected["rank"] == fault.get("rank", -1)


def is_hidden(injected, fault, seen, hidden_ms):
    """The host is reported, whose agent was struck as well, and no rank: of those nobody could hear."""
    if fault.get("rank", -1) >= 0 or not fault.get("host") or injected.get("host") != fault["host"]:
        return False
    return any(other["kind"] == "injected" and other["fault"] in OF_AGENT and other["host"] == fault["host"] and
               0 <= fault["ms"] - other["ms"] <= hidden_ms for other in seen)


def crashed_by_itself(fault):
    """At a start, by the words of the rank's own log: "[n2:00916] Signal: Segmentation fault (11)"."""
    return (fault.get("class") == "crash" and fault.get("section") == "start" and fault.get("rank", -1) >= 0 and
            f"[{fault.get('host')}:" in fault.get("cause", "") and "Signal: " in fault["cause"])


def hung_at_its_start(fault):
    return fault.get("class") == "hang" and fault.get("rank", -1) < 0 and "no rank has come past its start" in fault.get("cause", "")
