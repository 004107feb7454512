#!/usr/bin/env python3
"""Edges of a job's lead on the Slurm cluster: nodes that come back and fail again, leads that follow leads, ranks that stop
before they have sent a message, a full disk in the moment of a takeover.

usage: lead_edges_live_test.py LONGHAUL [CASE ...]
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

from faults_live_test import Training, boot, leads, pretrain, processes_of, undisturbed
from restart_cases import expect_restart
from slurm_cluster import PROGRAM, wait_for
from slurm_runs import case_arguments, chosen_cases, expect, new_runs, play_cases
from verdicts_live_test import SilentFolder

GROWS = 'resiliency = { shrink = true, grow_after = "2s", host_silent = "2s", restarts = 1 }\n'


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


class ShrunkTraining(Training):
    """Four replicas on four hosts, of which one freezes; two go on. thaw() brings it back. Slurm's own processes there live on:
    else Slurm takes the host out of the job."""

    def __init__(self, cluster, runs, name, before=lambda training: None):
        super().__init__(cluster, runs, name, nodes=4, text=pretrain(GROWS, nodes=4))
        before(self)
        ranks = self.ranks(1)
        taken = self.events("taken_over")
        busy = {self.events("launched")[0]["host"]} | {e["host"] for e in taken}
        self.victim = next(host for host in sorted(set(ranks.values())) if host not in busy)
        self.frozen = processes_of(self.run, self.victim)
        expect("an agent and a rank", len(self.frozen) >= 2, self.frozen)
        signal_all(self.frozen, signal.SIGSTOP)
        self.wait(lambda: self.saved(2), "a checkpoint of fewer replicas", 30)
        expect("two replicas", self.events("launched")[-1]["ranks"] == 2, self.events("launched"))

    def thaw(self):
        signal_all(self.frozen, signal.SIGCONT)

    def grows_back(self):
        self.wait(lambda: self.events("grow_back"), "the lead reports the growth", 30)

    def of_two_ranks_again(self):
        """Goes on with what it had, from where the ranks had saved; the host is not asked back."""
        self.wait(lambda: self.events("launched")[-1]["ranks"] == 2 and self.launches() > 2 and self.saved(self.launches()),
                  "a checkpoint of fewer replicas again", 60)
        launched, reported = self.events("launched"), self.events("grow_back")
        expect("reported once", len(reported) == 1, reported)
        expect("no more than two launches with it", sum(e["ranks"] == 4 for e in launched) <= 3, launched)
        expect("it is not among the hosts any more", self.victim not in launched[-1]["hosts"], launched[-1])
        stopped, ready = self.events("stopped"), self.events("ready")
        expect("no step is lost", len(stopped) == 1 and ready[-1]["step"] == stopped[0]["step"], (stopped, ready))
        time.sleep(5)  # more than grow_after
        expect("it is not tried again", len(self.events("grow_back")) == 1 and self.launches() == len(launched), self.events("launched"))

    def has_its_restart(self):
        """What the growth cost was not the training's own: its one restart is still there."""
        launch, faults = self.launches(), len(self.events("fault"))
        os.kill(sorted(self.ranks(launch))[0], signal.SIGKILL)
        self.wait(lambda: len(self.events("fault")) > faults, "the next fault", 20)
        expect("it has its restart", self.events("fault")[faults]["tier"] == "in_job", self.events("fault"))
        self.wait(lambda: self.saved(launch + 1), "a checkpoint after that", 30)


def growing_host_killed_while_saving(cluster, runs):
    """The host dies again while the ranks that make room for it save (one of them is stopped, so that this takes a while):
    nobody is at fault, and no launch is tried with it."""
    training = ShrunkTraining(cluster, runs, "growth-gone-early")
    slow = sorted(training.ranks(2))[-1]
    try:
        training.thaw()
        time.sleep(1.5)
        os.kill(slow, signal.SIGSTOP)
        training.grows_back()
        cluster.play("kill-node", training.victim)
        time.sleep(1.5)
        os.kill(slow, signal.SIGCONT)
        training.of_two_ranks_again()
        expect("no launch was tried with it", [e["ranks"] for e in training.events("launched")] == [4, 2, 2], training.events("launched"))
        expect("nobody was at fault", len(training.events("fault")) == 1, training.events("fault"))
        training.has_its_restart()
        training.end(runs)
    finally:
        training.thaw()
        boot(cluster, training.victim)


def growing_host_killed_at_launch(cluster, runs):
    """The host dies again in the launch with it, before a step."""
    training = ShrunkTraining(cluster, runs, "growth-gone-late")
    try:
        training.thaw()
        training.wait(lambda: training.launches() > 2, "the larger launch", 30)
        cluster.play("kill-node", training.victim)
        training.of_two_ranks_again()
        print(f"  growing host killed: {[(f['class'], f['host'], f['tier']) for f in training.events('fault')]}", flush=True)
        training.has_its_restart()
        training.end(runs)
    finally:
        training.thaw()
        boot(cluster, training.victim)


FILL = '''
import os, time
number = 0
while not os.path.exists("/dev/shm/stop"):
    try:
        with open(f"/dev/shm/full-{number}", "wb", buffering=0) as file:
            while file.write(b"0" * 4096):
                pass
    except OSError:
        pass
    number += 1
    time.sleep(0.005)
'''


def growing_host_cannot_start(cluster, runs):
    """The memory file system of the host that is back is full, so that no rank can have a page there."""
    training = ShrunkTraining(cluster, runs, "growth-no-room")
    cluster.play("exec", training.victim, "--", "mount", "-o", "remount,size=1m", "/dev/shm")
    filler = subprocess.Popen([str(PROGRAM), "exec", "--state", str(cluster.state), training.victim, "--", sys.executable, "-c", FILL])
    try:
        time.sleep(1)
        training.thaw()
        training.grows_back()
        training.of_two_ranks_again()
        print(f"  growing host without room: {[(f['class'], f['host'], f['tier']) for f in training.events('fault')]}", flush=True)
        training.has_its_restart()
        training.end(runs)
    finally:
        training.thaw()
        cluster.play("exec", training.victim, "--", "touch", "/dev/shm/stop")
        filler.wait(20)
        cluster.play("exec", training.victim, "--", "sh", "-c", "rm -f /dev/shm/full-* /dev/shm/stop; mount -o remount,size=50% /dev/shm")


def kill_lead(training, followers):
    before = leads(training.run)
    expect("one lead", len(before) == 1, before)
    os.kill(before[0], signal.SIGKILL)
    training.wait(lambda: len(training.events("taken_over")) >= followers, "another lead", 30)
    time.sleep(2)  # it informs a standby of its own


def grown_back_by_another_lead(cluster, runs):
    """The lead that shrinks and grows is the second one; after it a third one goes on."""
    training = ShrunkTraining(cluster, runs, "growth-other-lead", before=lambda t: kill_lead(t, 1))
    try:
        training.thaw()
        training.wait(lambda: training.saved(3), "a checkpoint of all replicas", 60)
        launched = training.events("launched")[-1]
        expect("four replicas on four hosts", launched["ranks"] == 4 and training.victim in launched["hosts"], launched)
        ranks = training.ranks(3)
        kill_lead(training, 2)
        faults = len(training.events("fault"))
        saved = len(training.events("checkpoint"))
        training.wait(lambda: len(training.events("checkpoint")) >= saved + 3, "the training goes on", 30)
        expect("nothing was ended", len(training.events("fault")) == faults and training.ranks(3) == ranks, training.events("fault"))
        training.end(runs)
    finally:
        training.thaw()


def short_cut_is_grown_back(cluster, runs):
    """A cut that Slurm does not notice (SlurmdTimeout is longer here), after a takeover: the host is lost and comes back."""
    cluster.play("configure", "--set", "SlurmdTimeout=120")
    training = Training(cluster, runs, "cut-grown", nodes=4, text=pretrain(GROWS, nodes=4))
    victim = None
    try:
        kill_lead(training, 1)
        busy = {training.events("launched")[0]["host"], training.events("taken_over")[-1]["host"]}
        victim = next(host for host in sorted(set(training.ranks(1).values())) if host not in busy)
        cluster.play("cut-node", victim)
        training.wait(lambda: training.saved(2), "a checkpoint of fewer replicas", 60)
        cluster.play("join-node", victim)
        training.wait(lambda: training.saved(3), "a checkpoint of all replicas", 60)
        launched = training.events("launched")[-1]
        expect("four replicas on four hosts", launched["ranks"] == 4 and victim in launched["hosts"], (launched, training.events("fault")))
        training.end(runs)
    finally:
        if victim:
            cluster.play("join-node", victim)
        cluster.play("configure", "--set", "SlurmdTimeout=5")


# Loaded into every process of the job: the wrapper of rank 1 stops itself before its first line, once, when FLAG is there.
STOP_AT_START = """
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void stop_at_start(void) {
  char text[64] = {0};
  const char* rank = getenv("PMIX_RANK");
  const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  char all[4096] = {0};
  const ssize_t n = read(fd, all, sizeof all - 1);
  close(fd);
  const size_t first = strlen(all) + 1;
  if (n > 0 && first < (size_t)n) strncpy(text, all + first, sizeof text - 1);
  if (strcmp(text, "rank") == 0 && rank && strcmp(rank, "1") == 0 && unlink("FLAG") == 0) raise(SIGSTOP);
}
"""


def rank_stopped_before_its_page(cluster, runs):
    """The rank's wrapper is stopped before it has made a page: no page, no message."""
    flag, source, library = (runs.folder / name for name in ("stop-now", "stop_at_start.c", "stop_at_start.so"))
    source.write_text(STOP_AT_START.replace("FLAG", str(flag)))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True, timeout=60)
    training = Training(cluster, runs, "stopped-early", 'resiliency = { hang_floor = "3s", host_silent = "2s", restarts = 9 }\n'
                        f'job.environment = {{ LD_PRELOAD = "{library}" }}\n')
    logs = training.run.folder / "stages/s/attempts/1/launches/2"
    flag.touch()
    os.kill(sorted(training.ranks(1))[0], signal.SIGKILL)

    def wrapper():
        for entry in pathlib.Path("/proc").iterdir():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
                if (len(arguments) > 5 and arguments[0].endswith(b"longhaul-worker") and arguments[1] == b"rank" and str(logs).encode() in arguments
                        and b"PMIX_RANK=1" in (entry / "environ").read_bytes().split(b"\0")):
                    return int(entry.name)
            except OSError:
                continue
        return None
    wait_for("the rank's wrapper", wrapper, 20)
    begun = time.time()
    training.wait(lambda: training.saved(3), "a checkpoint of the launch after that", 30)
    fault = next(e for e in training.events("fault") if e["launch"] == 2)
    expect("it is found as a stopped rank", (fault["class"], fault["rank"]) == ("frozen", 1), fault)
    expect_restart("rank_frozen", fault)
    print(f"  rank stopped before its page: found after {fault['ms'] / 1000 - begun:.2f} s (hang_floor is 3 s)", flush=True)
    training.end(runs)


def full_disk_at_a_takeover(cluster, runs):
    """The file system of the run has no room when the lead dies, nor when its follower has to launch: it leads all the same, and
    waits for room."""
    small = SilentFolder(cluster, runs.folder / "full")
    filler = small.folder / "filler"
    try:
        # No save falls due while it is full.
        text = pretrain("resiliency = { spares = 1, restarts = 9 }\n").replace("every_steps = 20", "every_steps = 1200")
        training = Training(cluster, runs, "full-takeover", text=text, runs_dir=small.folder / "runs")
        training.torn_lines = True
        ranks = training.ranks(1)
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(b"\0" * (1 << 20)):
                    pass
            except OSError:
                pass
            try:
                while file.write(b"\0" * 512):
                    pass
            except OSError:
                pass
        before = leads(training.run)
        os.kill(before[0], signal.SIGKILL)
        training.wait(lambda: any(b"--take-over" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in leads(training.run)),
                      "another lead", 20)
        time.sleep(3)
        follower = leads(training.run)
        expect("it leads on", len(follower) == 1 and follower[0] not in before, follower)
        expect("no rank was ended", training.ranks(1) == ranks, (training.ranks(1), ranks))
        os.kill(sorted(ranks)[0], signal.SIGKILL)
        time.sleep(6)
        expect("it waits for room", leads(training.run) == follower and not training.ranks(2), (leads(training.run), training.ranks(2)))
        filler.unlink()
        training.wait(lambda: training.ranks(2), "the next launch", 30)
        training.wait(lambda: training.saved(training.launches()), "a checkpoint of it", 60)
        expect("the same lead", leads(training.run) == follower, leads(training.run))
        training.end(runs)
    finally:
        filler.unlink(missing_ok=True)
        cluster.cancel_all()
        small.remove()


def silent_disk_at_a_takeover(cluster, runs):
    """The file system of the run takes no writes for 15 s, in which the lead dies: nothing is ended, and somebody leads after it."""
    silent = SilentFolder(cluster, runs.folder / "silent")
    try:
        training = Training(cluster, runs, "silent-takeover", "resiliency = { spares = 1 }\n", runs_dir=silent.folder / "runs")
        ranks = training.ranks(1)
        before = leads(training.run)
        cluster.call("fsfreeze", "-f", silent.folder)
        try:
            os.kill(before[0], signal.SIGKILL)
            time.sleep(15)
        finally:
            cluster.call("fsfreeze", "-u", silent.folder)
        training.wait(lambda: training.events("taken_over"), "another lead", 30)
        undisturbed(training, ranks)
        training.end(runs)
    finally:
        cluster.cancel_all()
        silent.remove()


CASES = {case.__name__: case for case in (
    growing_host_killed_while_saving, growing_host_killed_at_launch, growing_host_cannot_start, grown_back_by_another_lead,
    short_cut_is_grown_back, rank_stopped_before_its_page, full_disk_at_a_takeover, silent_disk_at_a_takeover)}


def main():
    given = case_arguments(__doc__).parse_args()
    return play_cases(new_runs("lead-edges", given.longhaul, seed=20260305), chosen_cases(CASES, given.cases))


if __name__ == "__main__":
    sys.exit(main())
