"""What tests of faults in live trainings measured, held against its bars: times by row, and how often the culprit was named."""
import os
import statistics

from culprits import share_missed, wilson_text
from slurm_cluster import ClusterError

JUDGED_FROM = 5  # the median of fewer says more of the machine at that moment than of what was measured
# Fewer are held to so many times their bar, on a slow machine to more (scripts/machine_speed.py): what was lost by a factor is
# noticed in every run of scripts/test.
FAR = 5 * float(os.environ.get("LONGHAUL_TIME_FACTOR", "1"))
PARTS = ("detect_s", "stop_s", "start_s", "load_s", "first_step_s")


class Board:
    """Of one test. `table`: a wrong culprit is counted instead of ending its case."""

    def __init__(self):
        self.rows, self.noticed, self.quiet, self.named_rightly, self.named_wrongly, self.table = {}, {}, {}, 0, [], False

    def time(self, row, detect_bar, again_bar, seen):
        """`seen`: detected after, trained again after, event `fault`, event `recovered`; bars in seconds."""
        self.rows.setdefault(row, (detect_bar, again_bar, []))[2].append(seen)

    def notice(self, row, bar, seconds):
        """Something that is only noticed, and ends nothing yet."""
        self.noticed.setdefault(row, (bar, []))[1].append(seconds)

    def stopped_nothing(self, row):
        self.quiet[row] = self.quiet.get(row, 0) + 1

    def named(self, what, rightly, shown):
        """The culprit, joined with what the test did."""
        if rightly:
            self.named_rightly += 1
        elif self.table:
            self.named_wrongly.append((what, shown))
        else:
            raise ClusterError(f"{what}: the culprit is named\n{shown}")

    def _medians(self):
        """(row, what, how often, median, bar) of all that has a bar."""
        for row, (detect_bar, again_bar, seen) in self.rows.items():
            yield row, "detected", len(seen), statistics.median(s[0] for s in seen), detect_bar
            yield row, "training again", len(seen), statistics.median(s[1] for s in seen), again_bar
        for row, (bar, seen) in self.noticed.items():
            yield row, "noticed", len(seen), statistics.median(seen), bar

    def missed(self):
        """What did not meet its bar, or is far beyond it where few were measured; None where nothing was to be judged."""
        judged = [(row, what, n, median, bar if n >= JUDGED_FROM else FAR * bar) for row, what, n, median, bar in self._medians()]
        count = self.named_rightly + len(self.named_wrongly)
        if not judged and not count:
            return None
        names = share_missed(self.named_rightly, count)
        return [f"{row}: {what} after {median:.2f} s, median of {n}, bar {bar:g} s" for row, what, n, median, bar in judged
                if median > bar] + [names] * bool(names)

    def _verdict(self, row):
        of_row = [(n, median <= bar) for named, _, n, median, bar in self._medians() if named == row]
        outcome = "met" if all(within for _, within in of_row) else "MISSED"
        return outcome if of_row[0][0] >= JUDGED_FROM else f"{outcome}; fewer than {JUDGED_FROM}: judged at {FAR:g} times the bar"

    def print(self):
        def spread(values):
            ordered = sorted(values)
            at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]  # noqa: E731
            return f"{statistics.median(ordered):5.2f} {at(0.9):5.2f} {ordered[-1]:5.2f}"
        print(f"\n{'fault':34}  n | detected: median, 90 %, worst | bar | again: median, 90 %, worst |  bar | "
              "detect stop start load step (medians) |")
        for row, (detect_bar, again_bar, seen) in self.rows.items():
            detected, again = ([s[i] for s in seen] for i in (0, 1))
            broken = " ".join(f"{statistics.median(s[3].get(part, 0) for s in seen):5.2f}" for part in PARTS)
            print(f"{row:34} {len(seen):2} | {spread(detected):>30} | {detect_bar:3g} | {spread(again):>27} | {again_bar:4g} | {broken:>37} | "
                  f"{self._verdict(row)}")
        for row, (bar, seen) in self.noticed.items():
            print(f"{row:34} {len(seen):2} | {spread(seen):>30} | {bar:3g} | {'':27} | {'':4} | {'':37} | {self._verdict(row)}")
        for row, times in self.quiet.items():
            print(f"{row:34} {times:2} | ended nothing")
        count = self.named_rightly + len(self.named_wrongly)
        if count:
            print(f"culprit: {wilson_text(self.named_rightly, count)}")
        for what, shown in self.named_wrongly:
            print(f"  wrongly: {what}: {shown}")
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
