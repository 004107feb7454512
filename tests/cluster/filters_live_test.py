"""Sites whose submit filter changes what jobs are known by: exactly one job for each stage by slurmctld's own record, a
cancellation leaves none, and the user is informed once.

usage: filters_live_test.py LONGHAUL [CASE...]

One job_submit.lua plays all sites at the same time: it takes the job's name for the site. Some are what sites do; twenty
more are put together at random, from the seed that is printed (LONGHAUL_FILTER_SEED plays it again).
"""
import os
import random
import signal
import sys
import time

from slurm_cluster import backends, wait_for
from slurm_runs import case_arguments, chosen_cases, expect, new_runs, play_cases, stage

SMALL = 'threads = 1\njob.gpus_per_node = 0\njob.exclusive = "no"'
RANDOM_SITES = 20
SCRIPT = """
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end
function slurm_job_submit(job_desc, part_list, submit_uid)
  local name = job_desc.name or ""
%s  return slurm.SUCCESS
end
return slurm.SUCCESS
"""
COMMENTS = {
    "kept": "",
    "rewritten": 'job_desc.comment = "x"',
    "prefixed": 'job_desc.comment = "p:" .. (job_desc.comment or "")',
    "cleared": 'job_desc.comment = ""',
    "set from the name": 'job_desc.comment = job_desc.name .. " " .. os.time()',
}
NAMES = {"kept": "", "prefixed": 'job_desc.name = "site-" .. job_desc.name', "replaced": 'job_desc.name = "job"'}
MORE = {"nothing": "", "a partition": 'job_desc.partition = "high"', "an account": 'job_desc.account = "added"',
        "a time limit": "job_desc.time_limit = 30"}
FORBIDDEN = """if job_desc.comment ~= nil and job_desc.comment ~= "" then
      slurm.log_user("comments are not allowed here")
      return slurm.ERROR
    end"""


class Site:
    def __init__(self, name, what, lines, reported, options=(), driver="lead", killed=False):
        self.name, self.what, self.lines, self.reported, self.options = name, what, lines, reported, options
        self.driver, self.killed = driver, killed  # killed: the controller that submits dies before it writes the number down
        self.run = None

    def branch(self):
        body = "".join(f"    {line}\n" for line in self.lines if line)
        return f'  if string.find(name, "lh-{self.name}-", 1, true) then\n{body}  end\n'


def known_sites():
    """What sites do."""
    sites = [Site("comment" + str(i), f"comment {word}", [line], 0 if word == "kept" else 1)
             for i, (word, line) in enumerate(COMMENTS.items())]
    sites.append(Site("driven", "comment cleared, driven by jobs", [COMMENTS["cleared"]], 1, driver="job"))
    return [*sites, Site("forbidden", "comments forbidden", [FORBIDDEN], 0, ["--set", 'site.identity="name"'])]


def random_sites():
    seed = int(os.environ.get("LONGHAUL_FILTER_SEED") or random.SystemRandom().randrange(1 << 30))
    print(f"seed {seed}", flush=True)
    dice = random.Random(seed)
    sites = []
    for i in range(RANDOM_SITES):
        comment, name, more = (dice.choice(list(table)) for table in (COMMENTS, NAMES, MORE))
        backend, killed = dice.choice(backends()), dice.random() < 0.5
        sites.append(Site(f"random{i}", f"comment {comment}, name {name}, adds {more}, by {backend}{', killed' * killed}",
                          [COMMENTS[comment], NAMES[name], MORE[more]], 0 if comment == "kept" else 1,
                          ["--set", f'site.slurm_backend="{backend}"'], killed=killed))
    return sites


def set_filters(cluster, sites):
    """slurmctld reads the script again when its time is a later one, in whole seconds."""
    path, new = cluster.state / "job_submit.lua", cluster.state / "job_submit.lua.new"
    new.write_text(SCRIPT % "".join(site.branch() for site in sites))
    when = max(time.time(), path.stat().st_mtime if path.exists() else 0) + 2
    os.utime(new, (when, when))
    os.replace(new, path)


def jobs_of(cluster, sites):
    """{site's name: {id: state}} of all jobs of their runs, waiting, running or ended, as slurmctld reports it."""
    shown = [line.split(" ", 2) for line in cluster.call("squeue", "-h", "-t", "all", "-o", "%A %T %Z").stdout.splitlines()]
    return {s.name: {job: state for job, state, folder in shown if folder == str(s.run.folder)} for s in sites}


def driver_jobs_of(cluster, site):
    shown = cluster.call("squeue", "-h", "-o", "%A %T %o").stdout.splitlines()
    return [line for line in shown if line.endswith(f" {site.run.folder}/driver/driver.sbatch")]


def living(jobs):
    return [job for job, state in jobs.items() if state not in ("CANCELLED", "COMPLETED", "FAILED", "TIMEOUT")]


def play(cluster, runs, sites):
    """Two stages each, the second of which is cancelled while it runs."""
    set_filters(cluster, sites)
    text = stage("a", 'echo done > "$LONGHAUL_OUT/text"', SMALL) + stage("b", "sleep 300", 'needs = ["a"]\n' + SMALL)
    plan = runs.folder / "killed"
    plan.write_text("controller_after_submit kill nth=1\n")
    for site in sites:
        fault = ["--fault-plan", plan] if site.killed else []
        site.run = runs.start(site.name, text, "--set", 'site.poll_interval="1s"', *site.options, *fault, driver=site.driver)
    for site in sites:
        if site.killed:
            expect(f"{site.what}: the controller is killed", site.run.process.wait(30) == -signal.SIGKILL, site.run.story())
    for site in sites:
        def second_runs(site=site):
            # Until what the killed controller left is found. Then its leads drive the run: one that is overtaken while
            # it submits is waited for, and rounds that end at once never wait long enough.
            if site.killed and not site.run.submissions("a"):
                runs.longhaul("tick", site.run.folder, code=None)
            jobs = site.run.submissions("b") and jobs_of(cluster, [site])[site.name]
            return jobs and jobs.get(site.run.job("b")) == "RUNNING"
        wait_for(f"{site.what}: the second stage's job runs", second_runs, 40, site.run.story)
    for _ in range(3):  # rounds in which a job could be missed
        for site in sites:
            runs.longhaul("tick", site.run.folder)
    for site, jobs in zip(sites, jobs_of(cluster, sites).values()):
        expect(f"{site.what}: one job for each stage", len(jobs) == 2 and len(site.run.submissions()) == 2,
               f"{jobs}\n{site.run.story()}")
        drivers = driver_jobs_of(cluster, site)
        expect(f"{site.what}: a driver job and the next one at the most", len(drivers) <= 2, drivers)
        runs.longhaul("cancel", site.run.folder, code=None)
    for site in sites:
        def nothing_left(site=site):
            runs.longhaul("tick", site.run.folder, code=None)
            return site.run.state() != "running" and not living(jobs_of(cluster, [site])[site.name])
        wait_for(f"{site.what}: no job is left", nothing_left, 30, site.run.story)
        expect(f"{site.what}: the run is cancelled", site.run.state() == "cancelled", site.run.story())
        reported = [f["with"]["id"] for f in site.run.facts("noticed")].count("comment_changed")
        expect(f"{site.what}: the change of comments is reported {site.reported} times", reported == site.reported, site.run.story())
        if reported:
            shown = runs.longhaul("status", site.run.folder, code=None)
            expect(f"{site.what}: status reports it", "changes --comment" in shown, shown)
    for site, jobs in zip(sites, jobs_of(cluster, sites).values()):
        expect(f"{site.what}: no other job came", len(jobs) == 2, f"{jobs}\n{site.run.story()}")
        wait_for(f"{site.what}: no driver job is left", lambda site=site: not driver_jobs_of(cluster, site), 30)


CASES = {
    "sites": lambda cluster, runs: play(cluster, runs, known_sites()),
    "random": lambda cluster, runs: play(cluster, runs, random_sites()),
}


def main():
    arguments = case_arguments(__doc__).parse_args()
    runs = new_runs("filters", arguments.longhaul)
    set_filters(runs.cluster, [])
    runs.cluster.play("configure", "--set", "JobSubmitPlugins=lua")
    runs.cluster.play("restart-controller")
    try:
        return play_cases(runs, chosen_cases(CASES, arguments.cases))
    finally:
        set_filters(runs.cluster, [])  # which leaves all jobs as they are


if __name__ == "__main__":
    sys.exit(main())
