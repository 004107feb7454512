#!/usr/bin/env python3
"""GPUs of jobs on a cluster that keeps steps from the devices they did not ask for (cgroups): what agents see of them, what each
launch of ranks gets, after the loss of hosts too, and what a preemption and a first node that makes the steps do to a job.

usage: gpus_live_test.py LONGHAUL [CASE ...]

Device files stand for the GPUs: a process that may open one has that GPU. The simulated NVML shows those alone, as a real driver does.
"""
import json
import pathlib
import sys
import time

from faults_live_test import pretrain
from restart_cases import expect_restart
from slurm_cluster import wait_for
from slurm_runs import TOKENS, Skipped, case_arguments, chosen_cases, expect, json_lines, new_runs, play_cases, ranks_by_mpirun, stage

GPUS = 4
REQUESTS = ("gpus", "gpus_per_node", "gpus_per_task", "gres")


class Site:
    """The test cluster's site in a form of its own: how GPUs are asked for, and what jobs have in their environment."""

    def __init__(self, cluster, runs, name, request="gres", environment=None):
        self.folder = runs.folder / f"{name}-site"
        self.folder.mkdir()
        (self.folder / "libnvidia-ml.so.1").symlink_to(runs.program.parent / "liblonghaul_fake_nvml.so")
        devices = cluster.state / "dev" / "nvidia"
        for node in cluster.nodes():
            (self.folder / f"{node}.script").write_text(f"at 0 devices {GPUS}\nat 0 files {devices}\n")
        variables = {"LD_LIBRARY_PATH": self.folder, "FAKE_NVML_SCRIPT": f"{self.folder}/%h.script", **(environment or {})}
        self.path = self.folder / f"{name}.toml"
        # Ranks that call no MPI are started by srun where it starts none of MPI as well.
        launcher = '[launcher]\nkind = "srun"\nmpi = "none"\n' if ranks_by_mpirun() else ""
        self.path.write_text(f'name = "{name}"\ninherits = "test-cluster"\n{launcher}[ask]\ngpu_request = "{request}"\n[environment]\n' +
                             "".join(f'{key} = "{value}"\n' for key, value in variables.items()))

    def say(self, node, line):
        with open(self.folder / f"{node}.script", "a") as script:
            script.write(line + "\n")


def seen_gpus(cluster):
    """A line of shell: which GPUs a rank may open, in a file for each launch and rank."""
    return (f'open=; for i in 0 1 2 3; do (exec 3<{cluster.state}/dev/nvidia$i) 2>/dev/null && open=$open$i; done; '
            'echo "$open $(hostname)" >> "$LONGHAUL_STATE/gpus.$SLURM_STEP_ID.$LONGHAUL_RANK"')


class Job:
    """A run whose stage `s` is of ranks on two hosts that end when the test says so, or as `text` says."""

    def __init__(self, cluster, runs, name, site, keys="", ranks=2, text=None):
        self.cluster = cluster
        work = f'{seen_gpus(cluster)}; until [ -e "$LONGHAUL_STATE/end" ]; do sleep 0.1; done'
        text = text or stage("s", work, f'threads = 1\nranks = {ranks}\njob.requeue = "no"\n{keys}')
        self.run = runs.start(name, text, site=site.path)
        self.folder = self.run.folder / "stages/s"
        self.wait(lambda: self.events("launched"), "the first launch", 90)

    def events(self, kind=None, attempt=1):
        found = json_lines(self.folder / f"attempts/{attempt}/events.jsonl")
        return [e for e in found if kind in (None, e["kind"])]

    def wait(self, condition, what, seconds=30):
        wait_for(what, condition, seconds, self.log)

    def log(self):
        folder = self.folder / "attempts/1"
        logs = [*folder.glob("slurm-*.out"), *folder.glob("agent*.log"), *folder.glob("launches/*/*.log"), *folder.glob("events.jsonl")]
        return self.run.story() + "".join(f"\n{p.name}: {p.read_text(errors='replace')[-3000:]}" for p in logs if p.exists())

    def gpus(self):
        """[(GPUs that may be opened, host)] of all ranks of all launches so far."""
        return [tuple(line.split(" ")) for file in sorted((self.folder / "state").glob("gpus.*")) for line in file.read_text().splitlines()]

    def end(self, state="succeeded", seconds=60):
        (self.folder / "state/end").touch()
        self.run.wait(state, seconds)
        self.cluster.cancel_all()


def faults_seen(cluster, runs):
    """In a job of two hosts the checks beside each agent see the GPUs of its host, and what is wrong with them; ranks have all four."""
    site = Site(cluster, runs, "seen")
    job = Job(cluster, runs, "seen", site, 'nodes = 2\nresiliency = { health_interval = "1s" }\njob.gpus_per_node = 4')
    job.wait(lambda: len(job.gpus()) == 2, "both ranks")
    expect("every rank may open every GPU", {gpus for gpus, _ in job.gpus()} == {"0123"}, job.gpus())
    hosts = job.events("launched")[0]["hosts"]
    for number, host in enumerate(hosts):
        site.say(host, f"on {time.time()} device {number} xid 79")
    job.wait(lambda: len([e for e in job.events("health") if e.get("xid") == 79]) == 2, "both XIDs")
    reported = sorted((e["host"], e["device"], e["class"]) for e in job.events("health") if e.get("xid") == 79)
    expect("host and device of each", reported == [(host, f"GPU {number}", "gpu_lost") for number, host in enumerate(hosts)], reported)
    expect("nothing was taken for hidden", not job.events("gpus_not_watched"), job.events())
    job.end()


def hidden(cluster, runs):
    """Agents without GPUs (a Slurm that refuses to share them) see none of the faults, and that is reported: once, after a minute."""
    site = Site(cluster, runs, "hidden")
    folder = runs.folder / "hidden-bin"
    folder.mkdir()
    # An srun that knows of no sharing: it refuses the agents' step the GPUs.
    (folder / "srun").write_text('#!/bin/bash\ncase " $* " in *" --job-name=agents "*" --gres=gpu:"*) echo "srun: error: no sharing" >&2; exit 1;;\n'
                                 'esac\nexec /usr/bin/srun "$@"\n')
    (folder / "srun").chmod(0o755)
    with open(site.path, "a") as more:
        more.write(f'PATH = "{folder}:/usr/local/bin:/usr/bin:/bin"\n')
    job = Job(cluster, runs, "hidden", site, 'nodes = 2\nresiliency = { health_interval = "1s" }\njob.gpus_per_node = 4')
    expect("agents have come all the same", not job.events("no_agents"), job.log())
    job.wait(lambda: job.events("gpus_not_watched"), "the warning", 90)
    warning = job.events("gpus_not_watched")
    expect("one for both hosts", len(warning) == 1 and sorted(warning[0]["host"].split(",")) == sorted(job.events("launched")[0]["hosts"]), warning)
    said = runs.longhaul("status", job.run.folder)
    expect("status says so", "gpus_not_watched" in said and "nobody watches the 4 GPUs of each of 2 hosts" in said, said)
    job.end()


def all_requests(request):
    """The job's GPUs asked for in this form, with a spare: a host is lost, then no spare is left; every launch has its GPUs."""
    def case(cluster, runs):
        site = Site(cluster, runs, request, request)
        job = Job(cluster, runs, request, site, 'nodes = 2\njob.gpus_per_node = 4\njob.ranks_per_node = 4\n'
                  'resiliency = { spares = 1, restarts = 3, host_silent = "3s" }', ranks=8)
        job.wait(lambda: len(job.gpus()) == 8, "eight ranks")
        expect("agents are there", not job.events("no_agents"), job.log())
        launched = job.events("launched")[0]
        expect("two hosts work, a spare waits", len(launched["hosts"]) == 2 and launched["spares"] == 1, launched)
        victim = next(host for host in launched["hosts"] if host != launched["host"])
        cluster.play("kill-node", victim)
        try:
            job.wait(lambda: len(job.gpus()) == 16, "eight ranks again", 40)
            launched = job.events("launched")[-1]
            expect("the spare works in its place", victim not in launched["hosts"] and len(launched["hosts"]) == 2, launched)
            expect("every rank of both launches may open every GPU", {gpus for gpus, _ in job.gpus()} == {"0123"}, job.gpus())
            job.end()
        finally:
            cluster.play("heal")
    return case


def ranks_of(job, launch):
    """{pid: CUDA_VISIBLE_DEVICES} of the engine's ranks of a launch."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
            if argv[0].endswith(b"longhaul-engine") and f"{job.folder}/attempts/1/launches/{launch}/".encode() in b" ".join(argv):
                variables = dict(v.split(b"=", 1) for v in (entry / "environ").read_bytes().split(b"\0") if b"=" in v)
                found[int(entry.name)] = variables.get(b"CUDA_VISIBLE_DEVICES", b"none").decode()
        except OSError:
            continue
    return found


def shrinks(request):
    """No spare is there: one of four hosts is lost, and the training goes on with two ranks on two hosts, each with the GPUs there."""
    def case(cluster, runs):
        if ranks_by_mpirun():
            raise Skipped("srun starts no ranks of MPI here")
        site = Site(cluster, runs, f"shrinks-{request}", request)
        training = pretrain('resiliency = { shrink = true, host_silent = "3s" }\n', nodes=4).replace("job.gpus_per_node = 0", "job.gpus_per_node = 4")
        job = Job(cluster, runs, f"shrinks-{request}", site, text=TOKENS + training)
        job.wait(lambda: job.events("checkpoint"), "a checkpoint", 60)
        expect("four ranks with four GPUs each", list(ranks_of(job, 1).values()) == ["0,1,2,3"] * 4, ranks_of(job, 1))
        launched = job.events("launched")[0]
        victim = next(host for host in launched["hosts"] if host != launched["host"])
        cluster.play("kill-node", victim)
        try:
            job.wait(lambda: job.events("recovered"), "the training goes on", 40)
            fault, launched = job.events("fault")[-1], job.events("launched")[-1]
            expect_restart("shrunk", fault, victim)
            expect("it has shrunk", launched["ranks"] == 2 and victim not in launched["hosts"], (fault, launched))
            expect("two ranks with four GPUs each", list(ranks_of(job, launched["launch"]).values()) == ["0,1,2,3"] * 2, ranks_of(job, launched["launch"]))
            runs.longhaul("cancel", job.run.folder, code=None)
        finally:
            cluster.play("heal")
            cluster.cancel_all()
    return case


def preempted(signal):
    """A job of two hosts gives way within its grace time: its ranks save and end, nothing is started in it any more, and it goes on in
    another job. With and without a signal to the lead (PreemptParameters=send_user_signal)."""
    def case(cluster, runs):
        notice_by = "preempt_send_user_signal" if signal else "idle_on_node_suspend"  # 23.11 and later: PreemptParameters=send_user_signal
        cluster.play("configure", "--set", f"SlurmctldParameters={notice_by}", "--partition", "low GraceTime=20")
        site = Site(cluster, runs, f"preempted-{signal}")
        job = Job(cluster, runs, f"preempted-{signal}", site,
                  'nodes = 2\njob.class = "low"\njob.resumable = "yes"\njob.gpus_per_node = 4\nresiliency = { restarts = 3 }')
        job.wait(lambda: len(job.gpus()) == 2, "both ranks")
        hosts = job.events("launched")[0]["hosts"]
        begun = time.monotonic()
        high = cluster.submit("sleep 1", "-p", "high", "-w", ",".join(hosts), "--exclusive")
        cluster.wait_job(high, {"RUNNING", "COMPLETED"}, 40)
        expect("within the grace time", time.monotonic() - begun < 20, time.monotonic() - begun)
        record = json.loads((job.folder / "attempts/1/record.json").read_text())
        expect("the record says so", record["ended_by"] == "preempted", record)
        expect("no other launch was made in it", len(job.events("launched")) == 1, job.log())
        cluster.wait_job(high, "COMPLETED", 40)
        job.wait(lambda: job.events("launched", attempt=2), "the next job", 60)
        expect("no budget of the user pays", [f["with"]["fault"] for f in job.run.facts("retry", "s")] == ["preempted"], job.run.story())
        job.end()
    return case


def first_node_makes_steps(cluster, runs):
    """Where the first node makes a job's steps (enable_stepmgr of 24.05, LONGHAUL_CLUSTER_SET; before, a task prolog says so to the
    lead), its loss ends the job: though a spare is there no launch is tried, the nodes are given back, and another job goes on."""
    if not cluster.first_node_makes_steps():
        if cluster.release() >= (24, 5):
            raise Skipped('srun asks the node that is named: LONGHAUL_CLUSTER_SET="SlurmctldParameters=enable_stepmgr PrologFlags=Contain"')
        prolog = runs.folder / "prolog"
        prolog.write_text('#!/bin/sh\necho "export SLURM_STEPMGR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"\n')
        prolog.chmod(0o755)
        cluster.play("configure", "--set", f"TaskProlog={prolog}")
    site = Site(cluster, runs, "stepmgr")
    job = Job(cluster, runs, "stepmgr", site, 'nodes = 2\njob.gpus_per_node = 4\njob.resumable = "yes"\n'
              'resiliency = { spares = 1, restarts = 3, host_silent = "3s" }')
    job.wait(lambda: len(job.gpus()) == 2, "both ranks")
    first = job.events("first_node")
    expect("the lead says on which node the job depends", [e["host"] for e in first] == [job.events("launched")[0]["host"]], job.events())
    begun = time.monotonic()
    cluster.play("kill-node", first[0]["host"])
    try:
        job.wait(lambda: job.events("fault"), "the fault", 40)
        fault = job.events("fault")[0]
        expect("another job, for want of steps", fault["tier"] == "new_job" and "stepmgr" in fault["reason"], fault)
        expect("no launch was tried", len(job.events("launched")) == 1, job.log())
        number = job.run.submissions("s")[0]["with"]["job"]  # the next job may begin on them before anybody looks
        wait_for("the nodes are given back", lambda: not cluster.steps_on_hosts(number), 40, job.log)
        print(f"  the nodes were given back {time.monotonic() - begun:.1f} s after the host was killed", flush=True)
    finally:
        cluster.play("heal")
        if cluster.release() < (24, 5):
            cluster.play("configure", "--set", "TaskProlog=/bin/true")
    job.wait(lambda: job.events("launched", attempt=2), "the next job", 60)
    job.end()


CASES = {"faults-seen": faults_seen, "hidden": hidden, "preempted-reported": preempted(True), "preempted-unreported": preempted(False),
         "first-node-makes-steps": first_node_makes_steps,
         **{f"request-{request}": all_requests(request) for request in REQUESTS},
         **{f"shrinks-{request}": shrinks(request) for request in REQUESTS}}


def main():
    arguments = case_arguments(__doc__).parse_args()
    runs = new_runs("gpus", arguments.longhaul)
    return play_cases(runs, chosen_cases(CASES, arguments.cases))


if __name__ == "__main__":
    sys.exit(main())
