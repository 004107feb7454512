#!/usr/bin/env python3
"""What site files say against a real Slurm: the probe, the comparison, and job scripts that sbatch and srun take as they are.

usage: sites_test.py LONGHAUL SOURCE_DIR
"""
import json
import os
import pathlib
import re
import shutil
import sys
import time
import traceback

from slurm_cluster import ClusterError, attach, backends, wait_for

LONGHAUL, SOURCE = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
cluster = attach()
here = cluster.scratch / "sites $(touch pwned) 'x' ñ"
ODD = "a b \"q\" 'x' \\ $(touch pwned) `touch pwned` ; touch pwned # ñ *"


def expect(what, condition, shown=""):
    if not condition:
        raise ClusterError(f"{what}\n{shown}")


def longhaul(*arguments, code=0):
    done = cluster.call(LONGHAUL, *arguments, check=False, cwd=here)
    expect(f"longhaul {' '.join(map(str, arguments))}: exit code {code}", done.returncode == code, done.stdout + done.stderr)
    return done.stdout


def workflow(stage):
    (here / "w.toml").write_text('[workflow]\nname = "jobs"\n[stage.a]\nkind = "command"\nargv = ["true"]\n' + stage)


def preview(site, run_dir, worker, stage_lines=""):
    """The script that `plan --scripts` prints, with `worker` in the worker's place; its path."""
    workflow(stage_lines)
    out = longhaul("plan", "w.toml", "--site", site, "--scripts", "--runs-dir", run_dir)
    programs = pathlib.Path(run_dir) / "jobs-preview/bin"
    programs.mkdir(parents=True, exist_ok=True)
    (programs / "longhaul-worker").write_text(worker)
    (programs / "longhaul-worker").chmod(0o755)
    script = here / "job.sbatch"
    script.write_text(out[out.index("#!/bin/bash"):])
    return script


def test_cluster_is_described_as_it_is():
    out = longhaul("doctor", "--site", "test-cluster")
    expect("nothing to change, nothing unverified of its own", "nothing that the cluster says speaks against" in out, out)
    for backend in backends():
        (here / "b.toml").write_text(f'inherits = "test-cluster"\nslurm_backend = "{backend}"\n')
        out = longhaul("doctor", "--site", "./b.toml", "--json")
        expect(f"{backend} sees the same", not [f for f in json.loads(out)["findings"] if f["kind"] == "change"], out)


def a_probed_file_fits_its_cluster():
    (here / "probed.toml").write_text(longhaul("sites", "probe", "--name", "probed"))
    findings = json.loads(longhaul("doctor", "--site", "./probed.toml", "--json"))["findings"]
    expect("nothing to change, and something to ask", findings and all(f["kind"] == "ask" for f in findings), findings)
    workflow("ranks = 8\nnodes = 2\n")
    jobs = json.loads(longhaul("plan", "w.toml", "--site", "./probed.toml", "--json"))["jobs"]
    asked = {d["option"]: d["value"] for d in jobs[0]["directives"]}
    expect("four GPUs of each node", asked["gres"] == "gpu:a100:4" and asked["partition"] == "main", asked)


def a_file_of_another_cluster_learns_what_to_change():
    (here / "other.toml").write_text('inherits = "test-cluster"\n[node]\ngpus = 8\n[ask]\ngpu_type = "h100"\n[classes.debug]\nmax_wall = "2h"\n')
    found = {f["key"]: f["remedy"] for f in json.loads(longhaul("doctor", "--site", "./other.toml", "--json", code=3))["findings"]}
    expect("three values", found.get("node.gpus") == "write 4" and found.get("ask.gpu_type") == 'write gpu_type = "a100"'
           and found.get("classes.debug.max_wall") == 'write max_wall = "10min"', found)


def a_script_runs_by_hand_with_its_values_as_data():
    """Folder, variable and argument look like shell; sbatch and bash hand them on as they are."""
    run_dir = here / "runs $(touch pwned) 50% ñ"
    script = preview("test-cluster", run_dir, "#!/bin/bash\nprintf '%s\\n' \"$@\" \"$ODD\" \"$PWD\" \"$SLURM_JOB_NAME\" \"$SLURM_NTASKS\"\n",
                     f"ranks = 2\n[stage.a.job]\noptions = [{json.dumps('--wckey=' + ODD, ensure_ascii=False)}]\n"
                     f"environment = {{ ODD = {json.dumps(ODD, ensure_ascii=False)} }}\n")
    attempt = run_dir / "jobs-preview/stages/a/attempts/1"
    attempt.mkdir(parents=True)
    for parts, says in (((), f"lead\n--by-hand\n{attempt}\n"), ((ODD,), f"lead\n--attempt\n{ODD}\n")):
        job = cluster.call("sbatch", "--parsable", script, *parts).stdout.strip()
        output = attempt / f"slurm-{job}.out"
        text = f"{says}{ODD}\n{run_dir}/jobs-preview\nlh-jobs-preview-a\n2\n"
        wait_for("the job's output, where the script says", lambda: output.exists() and output.read_text() == text, 30,
                 lambda: output.read_text() if output.exists() else list(attempt.iterdir()))
    expect("nothing of the values was run", not list(here.rglob("pwned")) and not (cluster.scratch / "pwned").exists())


def the_launcher_is_taken_by_srun():
    """The arguments that the lead puts before a rank's program, on two hosts."""
    run_dir = here / "launch"
    stage = "ranks = 4\nnodes = 2\nthreads = 2\n"
    workflow(stage)
    launcher = json.loads(longhaul("plan", "w.toml", "--site", "test-cluster", "--json"))["jobs"][0]["launcher"]
    if launcher[0] != "srun":
        print("left out: ranks that srun starts, for this site's are started by mpirun")
        return
    script = preview("test-cluster", run_dir, f"#!/bin/bash\nexec {' '.join(launcher)} sh -c 'echo $(hostname) $SLURM_CPUS_PER_TASK'\n", stage)
    attempt = run_dir / "jobs-preview/stages/a/attempts/1"
    attempt.mkdir(parents=True)
    job = cluster.call("sbatch", "--parsable", script).stdout.strip()
    output = attempt / f"slurm-{job}.out"
    def lines():
        return sorted(output.read_text().split("\n")[:-1]) if output.exists() else []
    ranks = wait_for("four ranks", lambda: lines() if len(lines()) >= 4 else None, 30, lines)
    expect("two on each host, with the CPUs of their GPU", len(set(ranks)) == 2 and [ranks.count(r) for r in sorted(set(ranks))] == [2, 2], ranks)
    expect("nothing was asked that srun did not understand", all(r.split()[1] == "2" for r in ranks), ranks)


def the_queue_is_asked_without_a_job():
    """Slurm's will-run answer for each stage, through both backends; what it would not take is reported with its message."""
    (here / "w.toml").write_text('[workflow]\nname = "jobs"\n[stage.a]\nkind = "command"\nargv = ["true"]\nranks = 8\nnodes = 2\n'
                                 '[stage.b]\nkind = "command"\nargv = ["true"]\njob = { constraint = "nowhere" }\n')
    wait_for("the hosts of earlier jobs are free again", lambda: not cluster.call("squeue", "--noheader").stdout, 60)
    for backend in backends():
        queue = json.loads(longhaul("plan", "w.toml", "--site", "test-cluster", "--set", f'site.slurm_backend="{backend}"', "--json"))["queue"]
        a, b = queue["answers"]
        now = time.time()
        expect(f"{backend}: a starts now on two hosts", now - 60 < a["start_s"] < now + 60 and re.fullmatch(r"n\[\d[-,]\d\]", a["nodes"])
               and a["partition"] == "main" and not a["refused"], queue)
        expect(f"{backend}: b is not taken", "nvalid feature" in b["refused"] and "/proc" not in b["refused"], queue)
    out = longhaul("plan", "w.toml", "--site", "test-cluster")
    expect("people read it", "a      now" in out and "b      NOT TAKEN: Invalid feature" in out, out)
    expect("nothing was submitted", not cluster.call("squeue", "--noheader").stdout)


def what_the_machine_lacks_is_refused_before_a_run_is_made():
    def refused(said, *parts, **more):
        workflow(more.pop("stage", ""))
        done = cluster.call(LONGHAUL, "submit", "w.toml", "--site", "./live.toml", "--runs-dir", here / "none", *parts, check=False,
                            cwd=here, **more)
        expect(f"refused: {said}", done.returncode == 3 and said in done.stderr and "nothing was started" in done.stderr, done.stderr)
        expect("no run", not list(here.glob("none/jobs-*")), list(here.glob("none/*")))
    (here / "live.toml").write_text('inherits = "slurm-generic"\n')
    refused("w.toml:6:21: error: the cluster has no partition 'mian' (from workflow: stage.a.job.partition); did you mean 'main'?",
            stage='job = { partition = "mian" }\n')
    refused("5 nodes are more than the 4 of partition main", stage="ranks = 5\nnodes = 5\n")
    refused("a wall time of 00:11:00 is longer than the 00:10:00 of partition debug", stage='time_limit = "11min"\njob = { partition = "debug", resumable = "no" }\n')
    refused("the cluster has no reservation 'school'", stage='job = { reservation = "school" }\n')
    refused("error: Slurm would not take the job: Invalid feature specification", stage='job = { constraint = "nowhere" }\n')
    modules = {"BASH_FUNC_module%%": '() { [ "$2" != gone/1 ]; }'}
    refused("w.toml:6:19: error: `module load gone/1` fails on", stage='job = { modules = ["there/1", "gone/1"] }\n',
            env=modules)


def main():
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    failed = 0
    for case in (test_cluster_is_described_as_it_is, a_probed_file_fits_its_cluster, a_file_of_another_cluster_learns_what_to_change,
                 a_script_runs_by_hand_with_its_values_as_data, the_launcher_is_taken_by_srun, the_queue_is_asked_without_a_job,
                 what_the_machine_lacks_is_refused_before_a_run_is_made):
        try:
            case()
            print(f"{case.__name__}: ok")
        except Exception as error:  # a case that ends in any way but well is reported, and the others go on
            failed += 1
            print(f"{case.__name__}: FAILED: {error}" if isinstance(error, ClusterError) else f"{case.__name__}: {traceback.format_exc()}")
    cluster.call("scancel", "--user=root")
    shutil.rmtree(here, ignore_errors=True)
    print(f"test cases: 7 | {7 - failed} passed | {failed} failed | 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
