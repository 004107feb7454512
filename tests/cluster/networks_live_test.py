#!/usr/bin/env python3
"""Networks and containers as sites have them, on three hosts of a Slurm cluster whose srun has a range of ports.

usage: networks_live_test.py LONGHAUL [CASE ...]

Hosts know no names of each other and let nothing through to ports outside of that range but slurmd's; containers are stand-ins
that enter a root without any library (container_stand_in).
"""
import json
import os
import pathlib
import shutil
import sys

from slurm_runs import Skipped, case_arguments, chosen_cases, expect, new_runs, play_cases, ranks_by_mpirun

HERE = pathlib.Path(__file__).resolve().parent
FIRST, LAST = 60001, 60100  # SrunPortRange of the cluster (CMakeLists.txt)
NODES = 3
# Of these ranks none calls MPI: srun starts them where it starts no ranks of MPI as well.
BY_SRUN = '[launcher]\nkind = "srun"\nmpi = "none"\n' if ranks_by_mpirun() else ""


def on_host(cluster, host, script):
    return cluster.play("exec", host, "--", "sh", "-euc", script)


def shut_hosts(cluster):
    """Names of hosts are gone, and a host begins no connection to another but to srun's ports and to slurmd's."""
    for host in cluster.nodes():
        network = on_host(cluster, host, "ip -4 -o address show dev eth0").split()[3]
        rules = [f"ip rule add pref 10 ipproto tcp sport {FIRST}-{LAST} lookup main",
                 f"ip rule add pref 11 ipproto tcp dport {FIRST}-{LAST} lookup main",
                 "ip rule add pref 12 ipproto tcp sport 6818 lookup main", "ip rule add pref 13 ipproto tcp dport 6818 lookup main",
                 f"ip rule add pref 14 ipproto tcp dport {17000 + int(network.split('.')[1])} lookup main",
                 f"ip rule add pref 20 ipproto tcp to {network} blackhole"]
        names = "grep -v -E ' n[0-9]+$' /etc/hosts >/tmp/hosts; cat /tmp/hosts >/etc/hosts"
        try:
            on_host(cluster, host, "; ".join(rules + [names]))
        except Exception as error:
            raise Skipped(f"this machine has no rules by port: {str(error).splitlines()[-1]}")


def open_hosts(cluster):
    names = cluster.state / "hosts"
    for host in cluster.nodes():
        on_host(cluster, host, f"for p in 10 11 12 13 14 20; do ip rule del pref $p 2>/dev/null || true; done; cat {names} >/etc/hosts")


def doctor(cluster, runs, name, *more, code=0):
    """The facts of a doctor's job by their names; what it found is written to NAME.toml, a site of its own."""
    site = runs.folder / f"{name}.toml"
    said = more or ('[launcher]\nmpi = "pmix"\n[can]\nsubmit_from_compute = "yes"\ninternet = "no"\n',)
    site.write_text('inherits = "test-cluster"\nunverified = ["launcher.mpi", "can.submit_from_compute", "can.internet"]\n' + "".join(said))
    done = cluster.call(runs.program, "doctor", "--site", f"./{name}.toml", "--job", "--json", "--runs-dir", runs.folder / "runs", check=False,
                        cwd=runs.folder, seconds=180)
    out = done.stdout + done.stderr
    expect(f"exit code {code}", done.returncode == code, out)
    found = json.loads(done.stdout)
    expect("no job is left", not cluster.call("squeue", "--noheader").stdout, cluster.call("squeue").stdout)
    return {fact["name"]: fact for fact in found["facts"]}, out


def a_doctors_job_says_what_is_there(cluster, runs):
    facts, out = doctor(cluster, runs, "mine")
    wanted = {"comment_kept": "yes", "scontrol_inside": "yes", "squeue_inside": "yes", "submit_from_compute": "yes",
              "agents_beside_ranks": "yes", "killed_agent": "yes", "mpi_starts_ranks": "yes", "gpus_seen_by_ranks": "4", "ports_both_ways": "yes",
              "exclusive_create": "yes", "exclusive_link": "yes", "whole_renames": "yes", "modes_survive": "yes", "stepmgr": "yes" if cluster.first_node_makes_steps() else "no",
              "srun_ports": f"{FIRST}-{LAST}", "no_kill": "yes"}
    wrong = {name: facts.get(name) for name, answer in wanted.items() if facts.get(name, {}).get("answer") != answer}
    expect("the facts of this cluster", not wrong, f"{wrong}\n{out}")
    seconds = int(facts["cancel_to_end"]["answer"].split()[0])
    expect("cancelled within KillWait (3 s) and a little", 2 <= seconds <= 40, facts["cancel_to_end"])
    text = (runs.folder / "mine.toml").read_text()
    tried = "can.submit_from_compute" if ranks_by_mpirun() else "launcher.mpi"
    expect("the site file has them, with release", f'[verified."{tried}"]' in text and 'slurm = "' in text, text)
    again = cluster.call(runs.program, "doctor", "--site", "./mine.toml", "--json", cwd=runs.folder, check=False)
    asked = [f["key"] for f in json.loads(again.stdout)["findings"] if f["kind"] == "ask"]
    expect("what was tried is asked about no more", tried not in asked and "can.submit_from_compute" not in asked
           and "can.internet" in asked, asked)


def a_doctor_names_what_the_file_has_wrong(cluster, runs):
    facts, out = doctor(cluster, runs, "wrong", '[launcher]\nmpi = "pmi2"\n[can]\nsubmit_from_compute = "no"\n', code=3)
    expect("sbatch takes jobs inside", facts["submit_from_compute"]["answer"] == "yes", out)
    text = runs.longhaul("sites", "./wrong.toml")
    expect("the file still counts", 'submit_from_compute' in text, text)


def leads_and_agents_meet_through_a_firewall_without_names(cluster, runs):
    shut_hosts(cluster)
    site = runs.folder / "site-shut.toml"
    site.write_text('inherits = "test-cluster"\n' + BY_SRUN)
    try:
        run = runs.start("shut", f'[stage.s]\nkind = "command"\nscript = "sleep 3"\nthreads = 1\nnodes = {NODES}\nranks = {NODES}\n'
                                 'job = { gpus_per_node = 0 }\nretries = 0\nresiliency = { spares = 0 }\n', site=site)
        run.wait("succeeded", 60)
        logs = "".join(p.read_text() for p in sorted(run.folder.glob("stages/s/attempts/1/slurm-*.out")))
        came = {line.split("host=")[1].split()[0] for line in logs.splitlines() if "event=agent_connected" in line}
        expect("all agents came", came == set(cluster.nodes()), logs)
        dropped = {line.split("host=")[1].split()[0] for line in logs.splitlines() if "event=host_drops_knocks" in line}
        expect("hosts that answer nobody are known as such", dropped >= came - {"n1"}, logs)
        facts, out = doctor(cluster, runs, "shut")
        expect("the doctor finds the ways open, none by name", facts["ports_both_ways"]["answer"] == "yes"
               and ", 0 by the node's name" in facts["ports_both_ways"]["detail"], out)
    finally:
        open_hosts(cluster)


def containers(cluster, runs):
    """Each runtime on two hosts, in a root that has the probe and nothing else."""
    probe = runs.program.parent / "container_probe"
    if not probe.exists():
        raise Skipped("no static libraries on this machine, so no program for a root without any")
    image, tools = runs.folder / "image", runs.folder / "tools"
    for folder in (image, tools):
        folder.mkdir(exist_ok=True)
    shutil.copy2(probe, image / "probe")
    shutil.copy2(HERE / "container_stand_in", tools / "stand_in")
    for name in ("srun", "apptainer", "podman-hpc", "shifter"):
        (tools / name).unlink(missing_ok=True)
        (tools / name).symlink_to("stand_in")
    data = cluster.scratch / "networks-data"
    data.mkdir(exist_ok=True)
    (data / "one.txt").write_text("an input\n")
    edf = runs.folder / "env.toml"
    path = cluster.environment["PATH"]
    cluster.environment["PATH"] = f"{tools}:{path}"
    try:
        for kind in ("pyxis", "apptainer", "podman-hpc", "shifter", "cscs-edf"):
            in_container(cluster, runs, kind, edf if kind == "cscs-edf" else image, data)
    finally:
        cluster.environment["PATH"] = path
        shutil.rmtree(data, ignore_errors=True)


def in_container(cluster, runs, kind, image, data):
    name = kind.replace("-", "")
    site = runs.folder / f"site-{name}.toml"
    site.write_text(f'inherits = "test-cluster"\n{BY_SRUN}[container]\nruntime = "{kind}"\n')
    text = (f'[stage.s]\nkind = "command"\nargv = ["/probe"]\ninputs = {{ data = "{data}/one.txt" }}\nthreads = 1\nnodes = 2\nranks = 4\n'
            f'job = {{ gpus_per_node = 0, container = "{image}" }}\nretries = 0\n')
    runs_dir = runs.folder / "runs" / name
    runs_dir.mkdir(parents=True, exist_ok=True)
    if kind == "cscs-edf":
        image.write_text(f'image = "{runs.folder}/image"\nmounts = ["/nowhere:/nowhere"]\n')
        (runs.folder / "w.toml").write_text(f'[workflow]\nname = "w"\n{text}')
        refused = runs.longhaul("plan", "w.toml", "--site", site, "--runs-dir", runs_dir, code=3)
        expect("an environment file without our mounts is refused with them", f'"{runs_dir}:{runs_dir}"' in refused
               and '"/dev/shm:/dev/shm"' in refused, refused)
        mounts = json.dumps([f"{p}:{p}" for p in (runs_dir, data, "/dev/shm")])
        image.write_text(f'image = "{runs.folder}/image"\nmounts = {mounts}\nworkdir = "/"\n')
    run = runs.start(name, text, runs_dir=runs_dir, site=site)
    run.wait("succeeded", 60)
    for rank in range(4):
        seen = run.out("s", f"seen-{rank}").split()
        wanted = ["host_files=no", "input=yes", "page=yes", "beats=yes"] + ([] if kind == "cscs-edf" else ["in_out=yes"])
        expect(f"{kind}, rank {rank}", all(word in seen for word in wanted), seen)
        log = run.folder / f"stages/s/attempts/1/launches/1/rank-{rank}.log"
        expect(f"{kind}: output of rank {rank} is in its file", "a line of the container's program" in log.read_text(), log)


CASES = {case.__name__: case for case in (a_doctors_job_says_what_is_there, a_doctor_names_what_the_file_has_wrong,
                                          leads_and_agents_meet_through_a_firewall_without_names, containers)}


def main():
    arguments = case_arguments(__doc__).parse_args()
    runs = new_runs("networks", os.path.abspath(arguments.longhaul))
    return play_cases(runs, chosen_cases(CASES, arguments.cases))


if __name__ == "__main__":
    sys.exit(main())
