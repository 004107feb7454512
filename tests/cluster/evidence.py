"""Logs of every launch of a run, kept by hard links: a lead removes the folders of older launches."""
import os

LINES = 6


class Evidence:
    """`look` now and then, at least once in twenty launches; `of` afterwards."""

    def __init__(self, stage, folder):
        self.stage, self.folder = stage, folder

    def look(self):
        for log in self.stage.glob("attempts/*/launches/*/*.log"):
            launch = log.parent
            kept = self.folder / f"{launch.parents[1].name}-{launch.name}" / log.name
            if kept.exists():
                continue
            kept.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(log, kept)
            except OSError:
                continue  # removed meanwhile

    def of(self, attempt, launch):
        """The last lines of all logs of a launch, and what its lead and agents said of it."""
        said = []
        for log in sorted((self.folder / f"{attempt}-{launch}").glob("*.log")):
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            said += [f"{log.name}: {line[:300]}" for line in lines[-LINES:]]
        for log in sorted(self.stage.glob(f"attempts/{attempt}/lead*.log")):
            lines = log.read_text(errors="replace").splitlines()
            said += [f"{log.name}: {line[:300]}" for line in lines if f" launch={launch} " in line][-LINES:]
        return said
