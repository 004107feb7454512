"""What is slow on a large machine and on none of these: steps of many seconds, saves of a minute, submissions and file systems
that stand still, ranks that take half a minute to go, a host whose clock is wrong. One place for all tests of the cluster.

Two things make it: fault points (base/process/fault_point.h), whose plan the run hands to its leads and ranks, and a library that
stands before the C library in the programs of jobs (tests/support/call_faults/call_plan.h), whose plan may get further lines
while they run.

    slowness = Slowness(cluster, folder, programs, steps_ms=8000, saves_ms=60_000, teardown_ms=30_000)
    site = slowness.site_file(folder)                    # a site whose jobs load the library
    run with: --site SITE, slowness.options()              # options of `longhaul run | submit | tick | resume`
    slowness.stall_file_system(90_000, folder)           # now, on every host, or on those named
    slowness.wrong_clock("n2", hours=20)
    slowness.check_acted("stall_ms=90000")               # that it was not in vain
"""
import os
import pathlib

from slurm_cluster import ClusterError

HOUR_MS = 3_600_000


class Slowness:
    """Of one run. All times in milliseconds, 0: as fast as it is."""

    def __init__(self, cluster, folder, programs, steps_ms=0, saves_ms=0, submissions_ms=0, teardown_ms=0):
        self.cluster, self.folder, self.programs = cluster, pathlib.Path(folder), pathlib.Path(programs)
        self.library = self.programs / "liblonghaul_call_faults.so"
        if not self.library.exists():
            raise ClusterError(f"{self.library} is not built: the target longhaul_call_faults")
        self.points, self.calls = self.folder / "points.plan", self.folder / "calls.plan"
        # The first is of ranks and leads, the second of who submits.
        self.controller_points = self.folder / "controller.plan"
        self.points.write_text("".join(f"{point} delay_ms={ms} always\n" for point, ms in
                                       (("engine_step_begin", steps_ms), ("checkpoint_half_shard", saves_ms)) if ms))
        self.controller_points.write_text(f"scheduler_in_flight delay_ms={submissions_ms} always\n" if submissions_ms else "")
        self.calls.write_text(f"kill - delay_ms={teardown_ms} program=longhaul-worker\n" if teardown_ms else "")

    # ------------------------------------------------------------------------------------------------------- how it begins
    def site_file(self, name="test-cluster"):
        """A site like `name`, in whose jobs every program loads the library; controllers on this machine do not."""
        path = self.folder / "slow-site.toml"
        path.write_text(f'description = "{name}, slow"\ninherits = "{name}"\n'
                        f'[environment]\nLD_PRELOAD = "{self.library}"\nCALL_FAULTS_PLAN = "{self.calls}"\n')
        return path

    def options(self):
        """Options of the commands that submit."""
        return [*(["--worker-fault-plan", str(self.points)] if self.points.read_text() else []),
                *(["--fault-plan", str(self.controller_points)] if self.controller_points.read_text() else [])]

    def environment(self):
        """Of a program on this machine that is to load the library as well."""
        return {**os.environ, "LD_PRELOAD": str(self.library), "CALL_FAULTS_PLAN": str(self.calls)}

    # -------------------------------------------------------------------------------------------------- while the run goes on
    def add(self, line):
        """A line of call_plan.h, from now on."""
        with open(self.calls, "a") as plan:
            plan.write(line + "\n")

    def stall_file_system(self, ms, below, hosts=()):
        """What lies below that folder answers nothing for so long, from the next call on: on these hosts, or on all of them."""
        for host in hosts or [None]:
            self.add(f"all {below} stall_ms={ms}" + (f" host={host}" if host else ""))

    def fail_once(self, call, path, error="EIO", host=None, times=1):
        self.add(f"{call} {path} error={error} times={times}" + (f" host={host}" if host else ""))

    def old_listings(self, below, ms, host):
        self.add(f"readdir {below} old_listing_ms={ms} host={host}")

    def wrong_clock(self, host, hours):
        self.add(f"clock - ahead_ms={round(hours * HOUR_MS)} host={host}")

    # ----------------------------------------------------------------------------------------------------------- what it did
    def done(self, action=""):
        """[(ms of the machine, host, program, call, action, path)] of what the library did, of one action or of all."""
        log = pathlib.Path(f"{self.calls}.log")
        found = []
        for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
            arguments = line.split(" ", 6)
            if len(arguments) == 7 and action in ("", arguments[5]):
                found.append((int(arguments[0]), arguments[1], arguments[2], arguments[4], arguments[5], arguments[6]))
        return found

    def check_acted(self, action):
        if not self.done(action):
            raise ClusterError(f"nothing was done of {action}: {self.calls}.log has no line of it")

    def check_stretched(self, run):
        """That ranks stood at the points of the plan: each writes what fires beside its launch's plan."""
        hits = [p for p in pathlib.Path(run).glob("stages/*/attempts/*/launches/*/faults.plan.hits")] + [
            p for p in (pathlib.Path(f"{self.points}.hits"),) if p.exists()]
        said = {line.split(" ")[0] for path in hits for line in path.read_text().splitlines()}
        for point in (line.split(" ")[0] for line in self.points.read_text().splitlines()):
            if point not in said:
                raise ClusterError(f"no rank has passed {point} of {self.points}")
