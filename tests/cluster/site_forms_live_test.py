#!/usr/bin/env python3
"""Clusters that are set up in other ways than the test cluster's own: filters that sbatch asks on the command line, wrappers of
sbatch that answer wrongly, no default partition, addresses of IPv6 alone.

usage: site_forms_live_test.py LONGHAUL [CASE ...]

Without the name of a case, those that any cluster can play; ipv6_alone needs one of two hosts that was started with --ipv6.
"""
import json
import os
import pwd
import shutil
import sys
import time

from slurm_cluster import backends, wait_for
from slurm_runs import Skipped, case_arguments, chosen_cases, expect, new_runs, play_cases, ranks_by_mpirun, stage

SMALL = 'threads = 1\njob = { gpus_per_node = 0, exclusive = "no" }\n'
TWO_STAGES = stage("a", 'echo "$SLURM_JOB_PARTITION" > "$LONGHAUL_OUT/text"', SMALL) + stage("b", "true", 'needs = ["a"]\n' + SMALL)

# sbatch asks it before it submits. It says hello on standard output, as wrappers and filters do; `print` is Lua's own.
CLI_FILTER = """
function slurm_cli_setup_defaults(options, early_pass) return slurm.SUCCESS end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset)
  local name = options["job-name"] or ""
  if string.sub(name, 1, 3) ~= "lh-" then return slurm.SUCCESS end
  if string.find(name, "refused", 1, true) and io.open("%(refuses)s") then
    slurm.log_error("the projects of this year have ended, 42 of them")
    return slurm.ERROR
  end
  if options["type"] == "sbatch" then
    print("-- Welcome to the machine of 1975 --")
    options["partition"] = "high"
  end
  return slurm.SUCCESS
end
return slurm.SUCCESS
"""
# slurmctld asks it. A job that names no partition goes by what it wants of its nodes.
ROUTES = """
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end
function slurm_job_submit(job_desc, part_list, submit_uid)
  if job_desc.partition == nil and job_desc.features == "a100" then job_desc.partition = "main" end
  return slurm.SUCCESS
end
return slurm.SUCCESS
"""
# What a wrapper does with a submission, which the real sbatch takes each time.
WRONG_ANSWERS = {
    "silent": '"$sbatch" "$@" >/dev/null 2>&1',
    "endless": '"$sbatch" "$@" >/dev/null 2>&1; exec yes "one moment please"',
    "standing": '"$sbatch" "$@" >/dev/null 2>&1; exec sleep 600',
    "stranger": '"$sbatch" "$@" >/dev/null 2>&1; echo %(theirs)s',
}
SAID_OF = {"silent": "answered no number of a job", "endless": "wrote more than 64.0 MiB", "standing": "gave no answer within 3 s",
           "stranger": "answered with the number %(theirs)s"}


def put_script(cluster, name, text):
    """Beside slurm.conf. slurmctld reads one again whose time is later, in whole seconds."""
    path, new = cluster.state / name, cluster.state / f"{name}.new"
    new.write_text(text)
    when = max(time.time(), path.stat().st_mtime if path.exists() else 0) + 2
    os.utime(new, (when, when))
    os.replace(new, path)


def partitions(cluster, run):
    """{job's name: partition} of the run's ended jobs, from slurmctld's own record."""
    return {r["Name"]: r["Partition"] for r in cluster.records() if r["Name"].startswith(f"lh-{run.folder.name}-")}


def ended_with(cluster, runs, name, *options, **more):
    """A run of two stages, and the partitions of its two jobs."""
    run = runs.start(name, TWO_STAGES, *options, **more).wait("succeeded", 60)
    wait_for("slurmctld's record of both jobs", lambda: len(partitions(cluster, run)) == 2, 30, run.story)
    return run, set(partitions(cluster, run).values())


def filters_of_the_command_line(cluster, runs):
    """Jobs pass the filter that a user's own would pass, whoever submits them; its greeting is not taken for a job's number, and
    what it refuses is reported with its message and tried again."""
    refuses = runs.folder / "refuses"
    put_script(cluster, "cli_filter.lua", CLI_FILTER % {"refuses": refuses})
    cluster.play("configure", "--set", "CliFilterPlugins=lua")
    try:
        by_hand = cluster.call("sbatch", "--job-name=lh-by-hand", "--output=/dev/null", "--wrap=true", "-n1")
        expect("the filter greets", "Welcome to the machine of 1975" in by_hand.stdout, by_hand.stdout + by_hand.stderr)
        for driver in ("lead", "here"):
            run, where = ended_with(cluster, runs, f"filtered-{driver}", driver=driver)
            expect(f"{driver}: where the filter sends them", where == {"high"}, (where, run.story()))
            expect(f"{driver}: one job for each stage", [len(run.submissions(s)) for s in "ab"] == [1, 1], run.story())
        said = json.loads(cluster.call(runs.program, "doctor", "--site", "test-cluster", "--json", check=False, cwd=runs.folder).stdout)
        why = "CliFilterPlugins=lua" if "libslurm" in backends() else "cannot read the configuration"  # its library does not fit
        expect("the doctor says why the commands are used", why in json.dumps(said), said)
        refuses.touch()
        run = runs.start("refused", stage("a", "true", SMALL), driver="here")
        wait_for("the filter's message", lambda: run.facts("held_up", "a"), 30, run.story)
        expect("as it said them", "42 of them" in run.facts("held_up", "a")[0]["with"]["cause"], run.story())
        expect("nothing is in the queue", not cluster.call("squeue", "-h").stdout.strip())
        refuses.unlink()
        run.wait("succeeded", 60)
        expect("one job in the end", len(run.submissions("a")) == 1, run.story())
    finally:
        cluster.play("configure", "--set", "CliFilterPlugins=")


def wrappers_that_answer_wrongly(cluster, runs):
    """An sbatch that takes the job and prints nothing, or for ever, or never returns, or prints the number of another user's job: one
    job for each stage, a cancellation leaves none, and the other user's job is left alone."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skipped("only root can be another user, with setpriv")
    user = pwd.getpwnam("daemon")
    theirs = cluster.call("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "sbatch", "--parsable", "-n1",
                          "--chdir=/tmp", "--output=/dev/null", "--wrap=sleep 600", cwd="/").stdout.strip()
    started = {}
    try:
        for name, does in WRONG_ANSWERS.items():
            wrapper, site = runs.folder / f"{name}-sbatch", runs.folder / f"{name}-site.toml"
            wrapper.write_text(f'#!/bin/sh\nsbatch={shutil.which("sbatch")}\ncase " $* " in *" --version "*|*" --test-only "*) exec "$sbatch" "$@" ;; esac\n'
                               + does % {"theirs": theirs} + "\n")
            wrapper.chmod(0o755)
            site.write_text(f'inherits = "test-cluster"\nsubmit_deadline = "3s"\nslurm_backend = "cli"\n[programs]\nsbatch = "{wrapper}"\n')
            text = stage("a", "true", SMALL) + stage("b", "sleep 300", 'needs = ["a"]\n' + SMALL)
            started[name] = runs.start(f"wrong-{name}", text, site=site)

        def jobs_of(run):
            shown = [line.split(" ", 2) for line in cluster.call("squeue", "-h", "-t", "all", "-o", "%A %T %Z").stdout.splitlines()]
            return {job: state for job, state, folder in shown if folder == str(run.folder)}
        for name, run in started.items():
            def second_runs(run=run):
                jobs = jobs_of(run)
                return len(jobs) > 1 and list(jobs.values()).count("RUNNING") == 1 and run.stages().get("a") == "succeeded"
            wait_for(f"{name}: the second stage's job runs", second_runs, 60, run.story)
            expect(f"{name}: one job for each stage", len(jobs_of(run)) == 2, f"{jobs_of(run)}\n{run.story()}")
            if name == "stranger":  # whoever looks next sees it; the others say it themselves, unless somebody overtakes them
                runs.longhaul("tick", run.folder, code=None)

            def said(run=run):
                logs = [run.folder / "controller.log", *run.folder.glob("stages/*/attempts/*/controller.log")]
                return run.story() + "".join(p.read_text() for p in logs if p.exists())
            wait_for(f"{name}: what is wrong is named", lambda name=name, said=said: SAID_OF[name] % {"theirs": theirs} in said(), 10, said)
            runs.longhaul("cancel", run.folder, code=None, seconds=120)
        for name, run in started.items():
            wait_for(f"{name}: no job is left", lambda run=run: "RUNNING" not in jobs_of(run).values(), 60, run.story)
            run.wait("cancelled", 60)
            expect(f"{name}: no other job came", len(jobs_of(run)) == 2, f"{jobs_of(run)}\n{run.story()}")
        expect("the other user's job goes on", cluster.job(theirs)["state"] == "RUNNING", cluster.call("squeue").stdout)
    finally:
        cluster.call("scancel", theirs)


def no_default_partition(cluster, runs):
    """A site that routes by what a job wants of its nodes has none; without a route the run is refused before anything is made."""
    put_script(cluster, "job_submit.lua", ROUTES)
    cluster.play("configure", "--set", "JobSubmitPlugins=lua", "--partition", "main Default=NO")
    cluster.play("restart-controller")
    try:
        for name, constraint in (("routed", "a100"), ("lost", "rack1")):
            (runs.folder / f"{name}-site.toml").write_text(
                f'inherits = "test-cluster"\n[classes.prod]\npartition = ""\nconstraint = "{constraint}"\n'
                '[classes.driver]\npartition = ""\nconstraint = "a100"\n')
        run, where = ended_with(cluster, runs, "routed", site=runs.folder / "routed-site.toml")
        expect("where the filter sends them", where == {"main"}, (where, run.story()))
        (runs.folder / "lost.toml").write_text(f'[workflow]\nname = "lost"\n{TWO_STAGES}')
        said = runs.longhaul("submit", "lost.toml", "--site", runs.folder / "lost-site.toml", "--runs-dir", runs.folder / "none", code=3)
        expect("Slurm's own message", "default partition" in said and "nothing was started" in said, said)
        expect("no run is made", not list(runs.folder.glob("none/lost-*")), said)
        (runs.folder / "probed.toml").write_text(cluster.call(runs.program, "sites", "probe", "--name", "probed", cwd=runs.folder).stdout)
        found = json.loads(cluster.call(runs.program, "doctor", "--site", "./probed.toml", "--json", check=False, cwd=runs.folder).stdout)
        wrong = [f for f in found["findings"] if f["kind"] != "ask" and not (f["key"] == "launcher.mpi" and ranks_by_mpirun())]
        expect("a probed file fits", not wrong, wrong)
        jobs = json.loads(runs.longhaul("plan", "lost.toml", "--site", "./probed.toml", "--runs-dir", runs.folder / "none", "--json"))["jobs"]
        asked = [{d["option"]: d["value"] for d in job["directives"]}.get("partition") for job in jobs]
        expect("and names a partition", asked and all(asked), asked)
    finally:
        put_script(cluster, "job_submit.lua", ROUTES.replace('job_desc.partition = "main"', ""))
        cluster.play("configure", "--partition", "main Default=YES")


def ipv6_alone(cluster, runs):
    """No host has an address of IPv4 but its own loop: lead and agents meet, and ranks come to their end."""
    for host in cluster.nodes():
        addresses = cluster.play("exec", host, "--", "ip", "-4", "-o", "address", "show", "dev", "eth0")
        if addresses.strip():
            raise Skipped("the cluster was not started with --ipv6")
    run = runs.start("six", stage("a", f"until test -e {runs.folder}/end; do sleep 0.1; done; hostname > \"$LONGHAUL_OUT/rank-$LONGHAUL_RANK\"",
                                  "threads = 1\nnodes = 2\nranks = 2\njob.gpus_per_node = 0\nretries = 0\n") +
                     stage("b", "true", 'needs = ["a"]\n' + SMALL))
    run.wait_stage_job("a", 60)
    attempt = run.folder / "stages/a/attempts/1"

    def log():
        return run.story() + "".join(p.read_text(errors="replace")[-3000:] for p in [*attempt.glob("slurm-*.out"), *attempt.glob("agent*.log")])
    wait_for("both agents", lambda: log().count("event=agent_connected") >= 2, 30, log)
    expect("ranks are not started without them", "no_agents" not in (attempt / "events.jsonl").read_text(), log())
    lead = json.loads((attempt / "lead-address").read_text())
    print(f"  the lead is at {lead['host']}, port {lead['port']}", flush=True)
    (runs.folder / "end").touch()
    run.wait("succeeded", 60)
    expect("a rank on each host", {run.out("a", f"rank-{n}").strip() for n in (0, 1)} == {"n1", "n2"}, log())


CASES = {case.__name__: case for case in (filters_of_the_command_line, wrappers_that_answer_wrongly, no_default_partition)}


def main():
    given = case_arguments(__doc__).parse_args()
    runs = new_runs("site-forms", os.path.abspath(given.longhaul))
    return play_cases(runs, chosen_cases(CASES, given.cases, {ipv6_alone.__name__: ipv6_alone}))


if __name__ == "__main__":
    sys.exit(main())
