"""What tests on the Slurm cluster of tests/cluster/cluster share: jobs, waits with a deadline, faults, records.

The cluster is the one that $LONGHAUL_CLUSTER_STATE names (CTest sets it; by hand: eval "$(tests/cluster/cluster env)").
Hosts see the checkout but have a /tmp of their own: files that jobs share go to `cluster.scratch`.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

PROGRAM = pathlib.Path(__file__).resolve().parent / "cluster"
CALL_SECONDS = 60
# Waits are for what happens on a fast machine with nothing else to do; a busy one is given so many times as long, and a
# slow one in proportion to the speed that scripts/test measured. What has a bar is measured apart from how long it is
# waited for.
FACTOR = float(os.environ.get("LONGHAUL_TIME_FACTOR", "1"))
PATIENCE = 3 * FACTOR
# States in which a job has come to its end; Slurm may still requeue one that reached such a state.
ENDED = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"}


def backends():
    """How Slurm can be spoken to: with-slurm says where no longhaul-slurm was built for the release."""
    return ["cli"] if os.environ.get("LONGHAUL_TEST_COMMANDS_ALONE") else ["cli", "libslurm"]


class ClusterError(Exception):
    """A call that failed or a wait that was over its deadline."""


def wait_for(what, condition, seconds, shown=lambda: ""):
    """The first true value of condition(); past the deadline an error that says what was waited for."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise ClusterError(f"not within {seconds} s: {what}\n{shown()}")
        time.sleep(0.1)
    return value


class SlurmCluster:
    def __init__(self, state):
        self.state = pathlib.Path(state)
        self.jobcomp = self.state / "jobcomp.txt"
        self.options = json.loads((self.state / "cluster.json").read_text())
        self.hosts = self.options["hosts"]
        self.scratch = self.state / "scratch"
        self.scratch.mkdir(exist_ok=True)
        # For commands started by a test; what a job of another cluster had set would mislead them.
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_", "PMIX_", "OMPI_"))}
        self.environment.update(SLURM_CONF=str(self.state / "slurm.conf"), LONGHAUL_CLUSTER_STATE=str(self.state))

    def nodes(self):
        return [f"n{i + 1}" for i in range(self.hosts)]

    def call(self, *argv, seconds=CALL_SECONDS, check=True, env=None, **options):
        """Any command against this cluster: CompletedProcess with stdout and stderr as text; `seconds`: on a fast machine."""
        seconds *= FACTOR
        options.setdefault("cwd", self.scratch)
        argv = [str(argument) for argument in argv]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds, env={**self.environment, **(env or {})},
                                  stdin=subprocess.DEVNULL, **options)
        except subprocess.TimeoutExpired:
            raise ClusterError(f"no answer within {seconds} s: {' '.join(argv)}") from None
        if check and done.returncode != 0:
            raise ClusterError(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def play(self, *arguments, seconds=120):
        """A sub-command of tests/cluster/cluster: play("kill-node", "n2")."""
        return self.call(PROGRAM, arguments[0], "--state", self.state, *arguments[1:], seconds=seconds).stdout

    def release(self):
        """Slurm's: (22, 5)."""
        return tuple(map(int, self.options["release"].split(".")[:2]))

    def first_node_makes_steps(self):
        """stepmgr, since 24.05: with its first node a job loses what starts its steps."""
        return "enable_stepmgr" in self.call("scontrol", "show", "config").stdout

    # -------------------------------------------------------------------------------------------------------------- jobs
    def submit(self, script, *options):
        """sbatch of the lines of a script; the job's id. Its output goes to scratch/<id>.out."""
        with tempfile.NamedTemporaryFile("w", suffix=".sbatch", dir=self.scratch) as file:
            file.write("#!/bin/bash\n" + script + "\n")
            file.flush()
            done = self.call("sbatch", "--parsable", "--job-name=test", f"--output={self.scratch}/%j.out", *options, file.name)
        return int(done.stdout.split(";")[0])

    def output(self, job):
        path = self.scratch / f"{job}.out"
        return path.read_text() if path.exists() else ""

    def job(self, job):
        """{state, reason, nodes, restarts}, or None for a job that slurmctld does not know (any more)."""
        done = self.call("squeue", "-h", "-t", "all", "-j", job, "-O", "State:30,Reason:60,NodeList:60,RestartCnt:10",
                         check=False)
        if done.returncode != 0 and "Invalid job id" not in done.stderr:
            raise ClusterError(f"squeue: {done.stderr}")
        if not done.stdout.strip():
            return None
        line = done.stdout.splitlines()[0]
        return {"state": line[:30].strip(), "reason": line[30:90].strip(), "nodes": line[90:150].strip(),
                "restarts": int(line[150:].strip() or 0)}

    def job_or_record(self, job):
        """job(job), also of a job that slurmctld has forgotten (MinJobAge): then what it wrote of the job's end."""
        known = self.job(job)
        if known is not None:
            return known
        lives = [r for r in self.records() if r["JobId"] == int(job)]
        return lives and {"state": lives[-1]["JobState"], "reason": "", "nodes": lives[-1].get("NodeList", ""),
                          "restarts": len(lives) - 1} or None

    def wait_job(self, job, states=ENDED, seconds=30):
        """Waits until the job's state is one of `states`, and returns job_or_record(job)."""
        wanted = {states} if isinstance(states, str) else states
        last = None

        def reached():
            nonlocal last
            last = self.job_or_record(job)
            return last is not None and last["state"] in wanted
        wait_for(f"job {job} {'/'.join(sorted(wanted))}", reached, seconds, lambda: f"it is {last}")
        return last

    def cancel_all(self, seconds=30):
        """No job is left, and every living host is free."""
        self.call("scancel", f"--user={os.getuid()}")
        wait_for("an empty queue", lambda: not self.call("squeue", "-h").stdout.strip(), seconds,
                 lambda: self.call("squeue").stdout)

    # ------------------------------------------------------------------------------------------------------------- nodes
    def node_states(self):
        """{node: state} in Slurm's arguments, lower case; a `*` behind it: the host does not answer."""
        return dict(line.split() for line in self.call("sinfo", "-h", "-N", "-p", "main", "-o", "%N %T").stdout.splitlines())

    def wait_nodes(self, state, nodes=None, seconds=60):
        nodes = nodes or self.nodes()
        wait_for(f"{' '.join(nodes)} {state}", lambda: all(self.node_states()[n].rstrip("*") == state for n in nodes),
                 seconds, self.node_states)

    def steps_on_hosts(self, job=None):
        """Living hosts on which steps run, of one job or of any, whether slurmctld knows those or not."""
        of = ["-f", rf"^slurmstepd: \[{job}\."] if job else ["slurmstepd"]

        def asked(node):
            return self.call(PROGRAM, "exec", "--state", self.state, node, "--", "pgrep", *of, check=False)
        return [node for node in self.nodes() if asked(node).returncode == 0]

    def wait_saved(self, job):
        """slurmctld has saved the jobs as they are now. It does so 5 s after a change, or later on a busy machine; of what it has
        not saved it knows nothing after kill -9: a job that it forgets is started once more, or ended."""
        mark = f"saved-{time.time_ns()}"
        self.call("scontrol", "update", f"JobId={job}", f"Comment={mark}")
        file = self.state / "ctld" / "job_state"
        wait_for("slurmctld's saved state", lambda: file.exists() and mark.encode() in file.read_bytes(), 30)

    # ----------------------------------------------------------------------------------------------------------- records
    def records(self):
        """What slurmctld wrote when a job came to an end (jobcomp/filetxt), oldest first: {JobId: int, JobState, ...}. A job
        that was requeued has one record for each of its lives, and the state of a life ended by `scontrol requeue` is
        PENDING. After a kill -9 of slurmctld an id may appear again: for the same job, or for another that was given it."""
        found = []
        for line in self.jobcomp.read_text().splitlines():
            fields = dict(argument.partition("=")[::2] for argument in line.split(" ") if "=" in argument)
            found.append({**fields, "JobId": int(fields["JobId"])})
        return found

    def final_states(self):
        """{job id: [JobState of each record]}."""
        states = {}
        for record in self.records():
            states.setdefault(record["JobId"], []).append(record["JobState"])
        return states


def attach():
    """The cluster of the environment; ends the test as skipped where none is up."""
    state = os.environ.get("LONGHAUL_CLUSTER_STATE") or PROGRAM.parents[2] / "build" / "cluster" / "default"
    if not (pathlib.Path(state) / "cluster.json").exists():
        print(f"skipped: no cluster is up in {state}; tests/cluster/cluster up 4 starts one")
        sys.exit(77)
    return SlurmCluster(state)
