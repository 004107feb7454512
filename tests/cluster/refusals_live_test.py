#!/usr/bin/env python3
"""Runs driven by the leads of their jobs on a real Slurm that refuses submissions at random: for limits, for an administrator's
pause, in words that nobody knows, and by silence. No stage is lost, no job comes twice, and what waited was reported.

usage: refusals_live_test.py LONGHAUL [--runs N] [--at-once N] [--long N] [--seed N]

The seed that is printed draws which submissions are refused, how and how often, the small jobs that follow leads among them.
--at-once: how many runs are under way together. --long: how many of the runs have a stage that is refused for eleven minutes.
"""
import argparse
import collections
import os
import random
import sys
import time

from slurm_cluster import backends, wait_for
from slurm_runs import expect, files_below, new_runs, play_cases, stage

STAGES = ("a", "b", "c")
SMALL = 'threads = 1\njob = { gpus_per_node = 0, exclusive = "no" }\n'
KINDS = {"limit": "QOSMaxSubmitJobPerUserLimit", "busy": "System submissions disabled", "unknown": "lua: not today"}
LONG_S = 690  # what waits for ten minutes is reported to people
LEFT_ALONE_S = 20  # a run without a job, and without a controller, for so long: somebody has to ask for a round
SILENT_S, BETWEEN_SILENCES_S = 8, 45

# Counts how often it was asked for each name, and refuses the first times; after a restart of slurmctld its file of refusals shows it.
# Names of jobs end in a part of their key, so that no two submissions share one; what is asked for again after a lost answer does.
FILTER = """
local tries = {}
local kinds = { %(kinds)s }
local function draw(name, salt, below)
  local h = %(seed)d + salt
  for i = 1, #name do h = (h * 31 + string.byte(name, i)) %% 1000003 end
  return (h * 7919 + 13) %% 1000003 %% below
end
local function refused_before(name)
  local count = 0
  for line in io.lines("%(log)s") do
    if string.sub(line, 1, #name + 1) == name .. " " then count = count + 1 end
  end
  return count
end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end
function slurm_job_submit(job_desc, part_list, submit_uid)
  local name = job_desc.name or ""
  if string.sub(name, 1, 3) ~= "lh-" or string.find(name, "lh-question", 1, true) then return slurm.SUCCESS end  -- sbatch --test-only
  tries[name] = (tries[name] or refused_before(name)) + 1
  local long = string.find(name, "long", 1, true) and string.find(name, "-b.", 1, true)
  local refused = long and os.time() < %(long_until)d
  if not refused and not long then refused = tries[name] <= math.max(0, draw(name, 1, 5) - 1) end
  if not refused then return slurm.SUCCESS end
  local kind = kinds[1 + draw(name, long and 2 or 2 + tries[name], 3)]
  local file = io.open("%(log)s", "a")
  file:write(name, " ", kind[1], "\\n")
  file:close()
  slurm.log_user(kind[2])
  return slurm.ERROR
end
return slurm.SUCCESS
"""

LETS_PASS = """
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end
function slurm_job_submit(job_desc, part_list, submit_uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""


class Play:
    def __init__(self, cluster, runs, given):
        self.cluster, self.runs, self.given = cluster, runs, given
        self.log = runs.folder / "refused"
        self.log.touch()
        self.lines = runs.folder / "lines"
        self.active, self.ended, self.quiet_since = {}, [], {}
        self.asked_for, self.silences, self.reported, self.unreported = 0, 0, 0, []
        self.dice = random.Random(given.seed)
        self.next_silence = time.monotonic() + BETWEEN_SILENCES_S

    def start(self, number):
        name = f"{'long' if number < self.given.long else 'r'}{number:03}"
        text = "".join(stage(s, f"sleep 0.{self.dice.randrange(1, 9)}; echo {name}-{s} >> {self.lines}",
                             SMALL + (f'needs = ["{STAGES[i - 1]}"]\n' if i else "")) for i, s in enumerate(STAGES))
        backend = self.given.backend or self.dice.choice(backends())
        self.active[name] = self.runs.start(name, text, "--set", 'site.poll_interval="1s"', "--set", 'site.submit_deadline="6s"',
                                            "--set", f'site.slurm_backend="{backend}"')

    def be_silent(self):
        """slurmctld takes no calls for a while, or is ended in order and begun again."""
        if time.monotonic() < self.next_silence:
            return
        self.silences += 1
        away, back = self.dice.choice([("freeze-controller", "thaw-controller"), ("stop-controller", "start-controller")])
        self.cluster.play(away)
        time.sleep(SILENT_S)
        self.cluster.play(back)
        self.next_silence = time.monotonic() + BETWEEN_SILENCES_S

    def folders_with_jobs(self):
        done = self.cluster.call("squeue", "-h", "-o", "%Z", check=False)
        return set(done.stdout.split()) if done.returncode == 0 else None

    def look(self):
        live = self.folders_with_jobs()
        for name, run in list(self.active.items()):
            if run.state() != "running":
                self.ended.append(run)
                del self.active[name]
                if len(self.ended) % 25 == 0:
                    print(f"  {len(self.ended)} ended, {len(self.active)} under way", flush=True)
            elif live is None or str(run.folder) in live or run.process.poll() is None:
                self.quiet_since.pop(name, None)
            elif time.monotonic() - self.quiet_since.setdefault(name, time.monotonic()) > LEFT_ALONE_S:
                self.quiet_since.pop(name)
                self.asked_for += 1
                self.runs.longhaul("tick", run.folder, "--until-quiet", code=None, seconds=1000)

    def judge(self, run):
        expect(f"{run.folder.name} has succeeded", run.state() == "succeeded", run.story())
        expect(f"{run.folder.name}: one job for each stage", [len(run.submissions(s)) for s in STAGES] == [1] * len(STAGES), run.story())
        expect(f"{run.folder.name}: nothing was tried again", not run.facts("retry"), run.story())
        if run.folder.name.startswith("long"):
            reported = [line for path in files_below(run.folder, "*.log") for line in path.read_text(errors="replace").splitlines()
                    if " warn " in line and "event=held_up stage=b " in line]
            expect(f"{run.folder.name}: what waited for ten minutes was reported", reported, run.story())

    def judge_refusals(self, seen):
        """Whatever was refused has a fact with Slurm's words, of the kind that it was; but where the answer came to nobody: it was
        lost, or another controller had taken over meanwhile."""
        for name, kinds in seen.items():
            run = next((r for r in self.ended if name.startswith(f"lh-{r.folder.name.rsplit('-', 3)[0]}-")), None)
            if run is None:
                continue  # a follower's
            facts = [f["with"] for f in run.facts("held_up") if f"-{f['stage']}." in name]
            if not facts:
                self.unreported.append((name, kinds))
                continue
            expect(f"{name}: in Slurm's own words", all(KINDS[f["by"]] in f["cause"] for f in facts), (facts, kinds))
            self.reported += 1

    def play(self):
        numbers = collections.deque(range(self.given.runs))
        begun = time.monotonic()
        while numbers or self.active:
            while numbers and len(self.active) < self.given.at_once:
                self.start(numbers.popleft())
            self.be_silent()
            self.look()
            time.sleep(0.3)
        for run in self.ended:
            self.judge(run)
        wait_for("an empty queue", lambda: not self.cluster.call("squeue", "-h").stdout.strip(), 60, lambda: self.cluster.call("squeue").stdout)
        lines = collections.Counter(self.lines.read_text().split())
        wanted = {f"{run.folder.name.rsplit('-', 3)[0]}-{s}" for run in self.ended for s in STAGES}
        expect("each stage's program ran once", lines == collections.Counter(wanted), lines - collections.Counter(wanted))
        names = collections.Counter(r["Name"] for r in self.cluster.records() if not r["Name"].startswith("lh-follower"))
        twice = [n for n, count in names.items() if count > 1 and n.startswith("lh-")]
        expect("no job twice, by slurmctld's own record", not twice, twice)
        seen = collections.defaultdict(list)
        for line in self.log.read_text().splitlines():
            seen[line.split()[0]].append(line.split()[1])
        self.judge_refusals(seen)
        followers = sum(len(kinds) for name, kinds in seen.items() if name.startswith("lh-follower"))
        print(f"  {len(self.ended)} runs, {len(wanted)} stages in {time.monotonic() - begun:.0f} s; {sum(map(len, seen.values()))} refusals, "
              f"{followers} of them of followers; slurmctld silent {self.silences} times; {self.reported} stages that were refused have a "
              f"fact of it, {len(self.unreported)} have none; {self.asked_for} times a person asked for a round", flush=True)
        expect("few answers come to nobody", len(self.unreported) <= self.silences * self.given.at_once // 8,
               self.unreported)
        expect("leads go on by themselves", self.asked_for <= max(1, self.given.runs // 100), self.asked_for)


def refused_at_random(given):
    def case(cluster, runs):
        new, path = cluster.state / "job_submit.lua.new", cluster.state / "job_submit.lua"
        kinds = ", ".join(f'{{"{kind}", "{words}"}}' for kind, words in KINDS.items())
        new.write_text(FILTER % {"seed": given.seed, "long_until": time.time() + LONG_S, "log": runs.folder / "refused", "kinds": kinds})
        new.replace(path)
        cluster.play("configure", "--set", "JobSubmitPlugins=lua")
        cluster.play("restart-controller")
        try:
            Play(cluster, runs, given).play()
        finally:  # slurmctld reads a script again whose time is later, in whole seconds
            path.write_text(LETS_PASS)
            os.utime(path, (time.time() + 2,) * 2)
    return case


def main():
    parser = argparse.ArgumentParser(usage=__doc__[__doc__.index("usage: ") + 7:].splitlines()[0])
    parser.add_argument("longhaul")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--long", type=int, default=0)
    parser.add_argument("--backend", default="", help="cli or libslurm; each run draws its own where nothing is said")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 20))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    return play_cases(new_runs("refusals", given.longhaul), {"refused at random": refused_at_random(given)})


if __name__ == "__main__":
    sys.exit(main())
