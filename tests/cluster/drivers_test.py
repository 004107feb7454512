#!/usr/bin/env python3
"""One workflow on a real Slurm under each driver: command stages (a matrix as an array, four ranks on two hosts) and the
whole pipeline, pretraining on two hosts. Then each script that the run wrote is submitted once more, by hand. And
several programs in one job: an actor on one host and a learner on two others, and both side by side on one.

usage: drivers_test.py LONGHAUL [here|lead|scrontab|job|steps ...]
"""
import json
import os
import pathlib
import shutil
import sys
import time
import traceback

from slurm_cluster import ClusterError, attach, wait_for
from slurm_runs import MODEL, SMALL, TOKENS, Runs, expect, files_below, snapshot, stage

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from tiny_inputs import write_pages, write_questions  # noqa: E402

LONGHAUL = pathlib.Path(sys.argv[1]).resolve()
DRIVERS = ["here", "lead", "scrontab", "job"]
RUN_SECONDS = 240
TRAINING = """threads = 1
sequence_length = 32
micro_batch_size = 2
global_batch_size = 4
"""

PIPELINE = TOKENS + f"""[stage.pretrain]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
ranks = 2
nodes = 2
steps = 20
checkpoint = {{ every_steps = 10 }}
{MODEL}
optimizer = {{ lr = 1e-2, warmup_steps = 5 }}
{TRAINING}
[stage.sft]
kind = "sft"
inputs = {{ model = "@pretrain", data = "questions/train.jsonl", heldout = "questions/heldout.jsonl" }}
epochs = 0.5
{TRAINING}
[stage.align]
kind = "align"
inputs = {{ model = "@sft", data = "questions/pairs-train.jsonl", heldout = "questions/pairs.jsonl" }}
{TRAINING}
[stage.evaluate]
kind = "evaluate"
inputs = {{ model = "@align", tokens = "@tokens", data = "questions" }}
tasks = ["bits_per_byte", "answer_loss", "preference"]
{SMALL}
[stage.quantize]
kind = "quantize"
inputs = {{ model = "@align", tokens = "@tokens" }}
{SMALL}
[stage.deploy]
kind = "deploy"
inputs = {{ model = "@quantize" }}
max_tokens = 4
prompts = ["Where is the server?"]
{SMALL}
"""
# The actor reports its address, serves until it is asked to end (SIGTERM), and says so; the learner's ranks ask it.
# A signal is for all processes of a step: `sleep` may die of it before its shell has heard of it, which then, as a script
# that ends at the first error, would not come to its trap.
ACTOR = """
trap 'echo ended > "$LONGHAUL_OUT/actor-ended"; exit 3' TERM
hostname > "$LONGHAUL_OUT/actor-host"; echo "$CUDA_VISIBLE_DEVICES" > "$LONGHAUL_OUT/actor-gpus"
echo "port 8000" > "$LONGHAUL_SHARED/port.new"; mv "$LONGHAUL_SHARED/port.new" "$LONGHAUL_SHARED/port"
while true; do sleep 0.05 || true; done
"""
LEARNER = """
until [ -e "$LONGHAUL_SHARED/port" ]; do sleep 0.05; done
echo "$LONGHAUL_RANK of $LONGHAUL_RANKS on $(hostname): $(cat "$LONGHAUL_SHARED/port") of $LONGHAUL_STEP_HOSTS_ACTOR" > "$LONGHAUL_OUT/learner-$LONGHAUL_RANK"
echo "$CUDA_VISIBLE_DEVICES" > "$LONGHAUL_OUT/learner-gpus-$LONGHAUL_RANK"
"""
TRAININGS = ("pretrain", "sft", "align")

cluster = attach()
here = cluster.scratch / "drivers"


def commands(done):
    """What each does once it writes to `done`; what it makes is the same whenever and wherever it runs."""
    return (stage("first", f'echo first >> {done}; echo "$((6 * 7))" > "$LONGHAUL_OUT/number"',
                  SMALL + '\njob.environment = { OF_FIRST = "1" }') +
            stage("spread", f'echo spread-$NUMBER >> {done}; echo "$NUMBER" > "$LONGHAUL_OUT/number"',
                  f'needs = ["first"]\nmatrix = {{ "environment.NUMBER" = ["1", "2", "3"] }}\n{SMALL}') +
            stage("wide", f'echo "wide-$LONGHAUL_RANK $(hostname)" >> {done}; '
                          'echo "$LONGHAUL_RANK of $LONGHAUL_RANKS" > "$LONGHAUL_OUT/rank-$LONGHAUL_RANK"',
                  f'needs = ["first"]\nranks = 4\nnodes = 2\n{SMALL}') +
            stage("last", f'echo last >> {done}; cat "$LONGHAUL_INPUT_N/number" > "$LONGHAUL_OUT/number"; '
                          'echo "${OF_FIRST:-none} ${OF_SHELL:-none}" > "$LONGHAUL_OUT/inherited"',
                  f'needs = ["spread", "wide"]\ninputs = {{ n = "@first" }}\n{SMALL}'))


def start(runs, driver):
    done = here / f"{driver}.done"
    cluster.environment["OF_SHELL"] = driver  # of the one who asks for the run; the jobs' own submissions have none such
    try:
        return runs.start(driver, commands(done) + PIPELINE, driver=driver)
    finally:
        del cluster.environment["OF_SHELL"]


def done_lines(driver):
    return sorted((here / f"{driver}.done").read_text().splitlines())


def check_run(driver, run):
    states = run.stages()
    expect("every stage has ended well", len(states) == 14 and set(states.values()) == {"succeeded"}, states)
    # A training without a time limit has a successor queued while it runs, which ends with its stage.
    submitted = {s: [f["attempt"] for f in run.submissions(s)] for s in states}
    expect("one job for each", all(a == [1] or (a == [1, 2] and s in TRAININGS) for s, a in submitted.items()), f"{submitted}\n{run.story()}")
    arrays = {f["with"]["job"].split("_")[0] for s in states if s.startswith("spread/") for f in run.submissions(s)}
    expect("the matrix was one array", len(arrays) == 1 and "_" in run.job("spread/" + variants(run)[0]), arrays)
    lines = done_lines(driver)
    expect("each stage was done once", [line.split()[0] for line in lines] ==
           ["first", "last", "spread-1", "spread-2", "spread-3", "wide-0", "wide-1", "wide-2", "wide-3"], lines)
    expect("four ranks on two hosts", len({line.split()[1] for line in lines if line.startswith("wide")}) == 2, lines)
    # Whoever submits a later stage, it has the environment of the shell that made the run, and nothing of another job's.
    expect("one environment for every stage", run.out("last", "inherited") == f"none {driver}\n", run.out("last", "inherited"))
    model = run.folder / "stages/pretrain/out/model.safetensors"
    expect("a model from two hosts", model.stat().st_size > 1000)
    first = int(run.submissions("pretrain")[0]["with"]["job"])
    counts = [r["NodeCnt"] for r in cluster.records() if r["JobId"] == first]
    expect("pretraining on two hosts", counts == ["2"], counts)


def variants(run):
    return sorted(p.name for p in (run.folder / "stages/spread").iterdir() if "=" in p.name)


def check_nothing_left(driver, run):
    """Neither in the queue nor in scrontab; a driver that saw the end may be at its last lines."""
    wait_for("no job of it in the queue", lambda: run.folder.name not in cluster.call("squeue", "-h", "-o", "%j %o").stdout, 20,
             lambda: cluster.call("squeue", "-o", "%i %j %T %r").stdout)
    table = cluster.call("scrontab", "-l", check=False).stdout
    expect("no line of it in scrontab", run.folder.name not in table, table)


def by_hand(driver, run):
    """Every job.sbatch, submitted with plain sbatch beside the run, does the same work and leaves the run as it is."""
    before = snapshot(run.folder, without=("by-hand",))
    jobs = {}
    for script in files_below(run.folder / "stages", "job.sbatch"):
        if "by-hand" in script.parts or script.parent.name == "2":
            continue
        options = ["--array=0-2"] if "arrays" in script.parts else []
        answer = cluster.call("sbatch", "--parsable", *options, "job.sbatch", cwd=script.parent).stdout
        jobs[script] = answer.strip().split(";")[0]
    expect("all scripts", len(jobs) == 12, list(jobs))
    for script, job in jobs.items():
        tasks = [f"{job}_{i}" for i in range(3)] if "arrays" in script.parts else [job]
        folders = [run.folder / "stages/spread" / v for v in variants(run)] if "arrays" in script.parts else [script.parents[2]]
        for task, folder in zip(tasks, folders):
            check_same(folder, task)
    after = snapshot(run.folder, without=("by-hand",))
    expect("what was there is untouched", {p: after.get(p) for p in before} == before)
    new = [pathlib.Path(p).name for p in after.keys() - before.keys()]
    expect("new is what Slurm wrote for these jobs", all(n.startswith("slurm-") and n[6:].split(".")[0].split("_")[0] in jobs.values()
                                                          for n in new), new)
    expect("every command was done once more", len(done_lines(driver)) == 2 * 9, done_lines(driver))


def check_same(folder, job, but=()):
    out = folder / "by-hand" / f"{job}-0" / "out"
    said = folder / "attempts/1" / f"slurm-{job}.out"
    wait_for(f"{out}", (out / "manifest.json").exists, 120,
             lambda: (said.read_text(errors="replace") if said.exists() else "no output") + cluster.call("squeue").stdout)
    files = {p.relative_to(out) for p in out.rglob("*") if p.is_file()}
    expect(f"{folder.name}: the same files", files == {p.relative_to(folder / "out") for p in (folder / "out").rglob("*") if p.is_file()},
           files)
    # Times, ports, secrets; and the shell that submits by hand is another one.
    times = {"manifest.json", "artifact.json", "waterfall.json", "endpoint.json", "samples.json", "token", "inherited"}
    for file in files:
        if file.name not in times and file.name not in but:
            expect(f"{folder.name}/{file} has the same content", (out / file).read_bytes() == (folder / "out" / file).read_bytes())


MILESTONES = TOKENS + f"""[stage.long]
kind = "pretrain"
inputs = {{ tokens = "@tokens" }}
threads = 1
sequence_length = 32
micro_batch_size = 2
global_batch_size = 64
steps = 200000
milestone_every = 400
{MODEL}
[stage.early]
kind = "evaluate"
inputs = {{ model = "@long@400", tokens = "@tokens" }}
tasks = ["bits_per_byte"]
{SMALL}
"""


def a_milestone_starts_its_evaluation(runs):
    """Nobody but the lead of the training is there to see it: the session is gone, and no job ends before it is needed."""
    run = runs.start("milestones", MILESTONES, driver="lead")
    wait_for("the first job", run.submissions, 30, run.story)
    run.kill_session()
    run.wait_stage("early", "succeeded", 120)
    expect("while the training goes on", run.stages()["long"] == "running", run.story())
    expect("of a milestone in the log", [f["with"]["step"] for f in run.facts("milestone", "long")][:1] == [400], run.story())
    runs.longhaul("tell", run.folder, "stop-after", 401, code=None, seconds=90)  # at once: the stage may end before it answers
    run.wait("succeeded", 90)


def lines_that_slurm_disabled_are_enabled_again(runs):
    """As after a maintenance: the job of the scrontab is gone, its lines are commented out, and nothing would drive the run."""
    run = runs.start("disabled", stage("wait", "sleep 600", SMALL), driver="scrontab")
    name = run.folder.name

    def cron_job():
        lines = [line.split() for line in cluster.call("squeue", "-h", "-o", "%i %j").stdout.splitlines()]
        return next((options[0] for options in lines if options[1] == f"lh-tick-{name}"), None)

    def table():
        return cluster.call("scrontab", "-l", check=False).stdout
    wait_for("the job of the scrontab", cron_job, 30, lambda: cluster.call("squeue").stdout + table())
    run.process.wait(30)
    if cluster.call("scancel", cron_job(), check=False).returncode != 0 or cron_job():
        cluster.call("scancel", "--cron", cron_job(), check=False)  # newer releases want it said
    wait_for("the lines are disabled", lambda: "#DISABLED: " in table(), 20, table)
    reported = runs.longhaul("status", run.folder)
    expect("status says so, and the command", "are disabled" in reported and f"longhaul tick {run.folder} --until-quiet" in reported, reported)
    expect("and changes nothing", "#DISABLED: " in table(), table())
    runs.longhaul("tick", run.folder, "--until-quiet")
    expect("enabled again", "#DISABLED" not in table() and f"{run.folder}/driver/tick.sh\n" in table(), table())
    wait_for("a job of the scrontab again", cron_job, 30, lambda: cluster.call("squeue").stdout)
    runs.longhaul("cancel", run.folder)
    runs.longhaul("tick", run.folder, "--until-quiet", code=None)
    check_nothing_left("scrontab", run)


def steps_workflow():
    def two(stage_name, actor, learner):
        return (f"[stage.{stage_name}]\nkind = \"command\"\nenvironment = {{ STAGE = \"{stage_name}\" }}\n"
                f"[stage.{stage_name}.step.actor]\nservice = true\nthreads = 1\n{actor}\nscript = '''{ACTOR}'''\n"
                f"[stage.{stage_name}.step.learner]\nranks = 2\nthreads = 1\n{learner}\nscript = '''{LEARNER}'''\n")
    failing = ("[stage.failing]\nkind = \"command\"\nretries = 0\non_failure = \"continue\"\n"
               "[stage.failing.step.other]\nnodes = 1\nthreads = 1\nscript = '''\n"
               "trap 'date > \"$LONGHAUL_STATE/reported\"; exit 1' TERM\ntouch \"$LONGHAUL_SHARED/other\"; "
               "while true; do sleep 0.05 || true; done\n'''\n"
               "[stage.failing.step.learner]\nnodes = 1\nthreads = 1\nscript = '''\n"
               "until [ -e \"$LONGHAUL_SHARED/other\" ]; do sleep 0.05; done; echo 'loss is NaN'; exit 5\n'''\n")
    every = ("[stage.every]\nkind = \"command\"\nnodes = 2\n" + "".join(
        f"[stage.every.step.{name}]\nranks = {ranks}\nthreads = 1\n"
        f"script = 'hostname > \"$LONGHAUL_OUT/{name}-$LONGHAUL_RANK\"'\n" for name, ranks in (("few", 2), ("many", 4))))
    return (two("apart", "nodes = 1", "nodes = 2") +
            two("beside", "gpus_per_node = 1", "gpus_per_node = 3") + failing + every)


def steps_share_a_job(runs):
    """An actor and a learner in one job: on hosts of their own, then on one host; one that fails ends the other."""
    run = runs.start("steps", steps_workflow(), driver="here")
    run.wait("succeeded", 60)  # `continue` forgives the stage
    states = run.stages()
    expect("one stage fails, as it was made to", states == {**dict.fromkeys(("apart", "beside", "every"), "succeeded"), "failing": "failed"}, states)
    actor = run.out("apart", "actor-host").strip()
    learners = [run.out("apart", f"learner-{rank}").split() for rank in range(2)]
    hosts = [options[4].rstrip(":") for options in learners]
    expect("three hosts, one for the actor, two for the learner", len({actor, *hosts}) == 3, [actor, hosts])
    expect("ranks are counted within a step; the actor's address is known",
           [" ".join(w[:3]) for w in learners] == ["0 of 2", "1 of 2"] and all(w[5:] == ["port", "8000", "of", actor] for w in learners), learners)
    for name, gpus in (("apart", (1, 1)), ("beside", (1, 3))):
        expect(f"{name}: the service was asked to end", run.out(name, "actor-ended") == "ended\n")
        seen = [run.out(name, file).strip().split(",") for file in ("actor-gpus", "learner-gpus-0")]
        expect(f"{name}: each step has its GPUs", tuple(map(len, seen)) == gpus, seen)
    expect("side by side they share no GPU", not set(seen[0]) & set(seen[1]), seen)
    expect("side by side they share one host",
           {run.out("beside", "actor-host").strip()} == {run.out("beside", f"learner-{r}").split()[4].rstrip(":") for r in range(2)})
    few, many = ([run.out("every", f"{name}-{rank}") for rank in range(ranks)] for name, ranks in (("few", 2), ("many", 4)))
    expect("steps without nodes are on every node", len(set(few)) == 2 and sorted(many) == sorted(few * 2), [few, many])
    record = json.loads((run.folder / "stages/failing/attempts/1/record.json").read_text())
    expect("the step that failed is named, with the last line of its log",
           record["cause"].startswith("step learner: the ranks ended: exit code 5") and record["cause"].endswith("loss is NaN"), record["cause"])
    attempt = run.folder / "stages/failing/attempts/1"
    logs = [p for p in files_below(attempt) if p.suffix in (".log", ".out", ".jsonl")]
    expect("the other one was asked to end", (run.folder / "stages/failing/state/reported").exists(),
           "\n".join(f"{p.relative_to(attempt)}: {p.read_text(errors='replace')[-2000:]}" for p in logs))
    jobs = {int(run.job(s)) for s in ("apart", "beside")}
    wait_for("Slurm's record of both", lambda: jobs <= {r["JobId"] for r in cluster.records()}, 30)  # comes when a job has ended
    sizes = {r["JobId"]: (r["NodeCnt"], r["ProcCnt"]) for r in cluster.records()}
    expect("one job of three hosts, one of one", [sizes[int(run.job(s))][0] for s in ("apart", "beside")] == ["3", "1"], sizes)
    job = cluster.call("sbatch", "--parsable", "job.sbatch", cwd=run.folder / "stages/apart/attempts/1").stdout.strip()
    gpus = {"actor-gpus", "learner-gpus-0", "learner-gpus-1"}  # other hosts and other GPUs, as many
    check_same(run.folder / "stages/apart", job, {"actor-host", "learner-0", "learner-1"} | gpus)
    again = run.folder / "stages/apart/by-hand" / f"{job}-0" / "out"
    for name in gpus:
        expect(f"{name}: as many by hand", (again / name).read_text().count(",") == run.out("apart", name).count(","))


def steps_end_with_their_job(runs):
    """`cancel` reaches every step: those that listen get the signal, those that do not are gone with the job."""
    wait_loop = "echo up > \"$LONGHAUL_STATE/$LONGHAUL_STEP\"; while true; do sleep 0.05 || true; done"
    steps = {"polite": "trap 'echo reported > \"$LONGHAUL_STATE/reported\"; exit 0' TERM; " + wait_loop, "deaf": "trap '' TERM; " + wait_loop}
    run = runs.start("cancelled", "[stage.both]\nkind = \"command\"\n" + "".join(
        f"[stage.both.step.{name}]\nnodes = 1\nthreads = 1\nscript = '''{script}'''\n" for name, script in steps.items()))
    state = run.folder / "stages/both/state"
    wait_for("both steps", lambda: all((state / name).exists() for name in steps), 30, run.story)
    job = run.job("both")
    shown = cluster.call("squeue", "-h", "-s", "-j", job, "-o", "%j %N").stdout.split("\n")
    shown = sorted(line.split() for line in shown if line.split()[:1] in (["polite"], ["deaf"]))
    expect("Slurm shows them by name, on hosts of their own", [s[0] for s in shown] == ["deaf", "polite"] and shown[0][1] != shown[1][1], shown)
    runs.longhaul("cancel", run.folder, code=None)
    run.wait("cancelled", 30)
    # The run does not wait for what its jobs still do; Slurm gives them KillWait seconds for it.
    wait_for("the polite one's file that says that it got the signal", (state / "reported").exists, 10, run.story)
    wait_for("the end of the job", lambda: job not in cluster.call("squeue", "-h", "-o", "%i").stdout.split(), 20,
             lambda: cluster.call("squeue", "-s").stdout)
    left = [name for name in os.listdir("/proc") if name.isdigit() and run_key(name, str(run.folder))]
    expect("no process of it is left", not left, left)


def run_key(pid, folder):
    try:
        return f"LONGHAUL_STATE={folder}/".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def a_slurm_that_is_not_there_is_refused(runs):
    (runs.folder / "nowhere.toml").write_text('[workflow]\nname = "nowhere"\n' + stage("a", "true", SMALL))
    (runs.folder / "slurm.conf").write_text("")
    done = cluster.call("env", f"SLURM_CONF={runs.folder}/slurm.conf", LONGHAUL, "submit", "nowhere.toml", "--site", "test-cluster",
                        "--runs-dir", runs.folder / "nowhere", check=False, cwd=runs.folder, seconds=60)
    expect("refused before a run is made", done.returncode != 0 and not list((runs.folder / "nowhere").glob("nowhere-*")),
           done.stdout + done.stderr)


def main():
    shutil.rmtree(here, ignore_errors=True)
    runs = Runs(cluster, LONGHAUL, here)
    write_pages(here / "pages", 20260301, pages=8, languages=("en",))
    write_questions(here / "questions", 20260302, questions=20)
    chosen = [d for d in DRIVERS if d in sys.argv[2:] or not sys.argv[2:]]
    begin, failed, cases = time.monotonic(), 0, 0
    cluster.call("scrontab", "-r", check=False)
    started = {}

    def attempt(name, function, *arguments):
        nonlocal failed, cases
        cases += 1
        case_begin = time.monotonic()
        try:
            result = function(*arguments)
            print(f"{name} ({time.monotonic() - case_begin:.1f} s, at {time.monotonic() - begin:.0f} s): ok", flush=True)
            return result
        except Exception as error:  # a case that ends in any way but well is reported, and the others go on
            failed += 1
            print(f"{name}: FAILED: {error if isinstance(error, ClusterError) else traceback.format_exc()}", flush=True)
        return None

    def submit_and_lose_session(driver):
        run = started[driver] = start(runs, driver)
        if driver != "here":  # the foreground is the only one that ends with its session
            wait_for("the first job", run.submissions, 30, run.story)
            run.kill_session()

    def ends(driver):
        run = started[driver].wait("succeeded", RUN_SECONDS)
        check_run(driver, run)
        check_nothing_left(driver, run)

    for driver in chosen:
        attempt(f"{driver}: submitted, its session killed", submit_and_lose_session, driver)
    attempt("no Slurm, no run", a_slurm_that_is_not_there_is_refused, runs)
    if "lead" in chosen:
        attempt("lead: a milestone is evaluated while its training goes on", a_milestone_starts_its_evaluation, runs)
    if "scrontab" in chosen:
        attempt("scrontab: lines that Slurm disabled are enabled again", lines_that_slurm_disabled_are_enabled_again, runs)
    site = (pathlib.Path(__file__).resolve().parents[2] / "site-configs" / "test-cluster.toml").read_text()
    if 'kind = "mpirun"' in site:  # tests/cluster/with-slurm
        print("left out: several programs in one job, which srun starts, for this site has mpirun")
    elif "steps" in sys.argv[2:] or not sys.argv[2:]:
        attempt("several programs in one job", steps_share_a_job, runs)
        attempt("several programs, cancelled", steps_end_with_their_job, runs)
    for driver in chosen:
        if driver in started:
            attempt(f"{driver}: completes, nothing is left behind", ends, driver)
    whole = [d for d in chosen if d in started and started[d].state() == "succeeded"]
    if whole:
        attempt(f"{whole[-1]}: its scripts by hand", by_hand, whole[-1], started[whole[-1]])
    for run in started.values():
        if run.process.poll() is None:
            run.kill_session()
    cluster.call("scrontab", "-r", check=False)
    cluster.cancel_all()
    if not failed:
        shutil.rmtree(here, ignore_errors=True)
    print(f"test cases: {cases} | {cases - failed} passed | {failed} failed | 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
