#!/usr/bin/env python3
"""What people need once runs are under way: orders, forks, messages, completion, garbage, support bundles.

usage: day_one_test.py LONGHAUL SOURCE_DIR
"""
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time

from scenario import (LONGHAUL, PATIENCE, Skip, call, case, events, expect, json_lines, longhaul, main, newest_run, runs, stage_status, status,
                      wait_for)
from tiny_inputs import write_pages
from webhook import Hook, make_certificate

TRAINING = """
[workflow]
name = "steered"
[stage.corpus]
kind = "curate"
inputs = { documents = "pages" }
heldout_bytes = 600
[stage.tokens]
kind = "tokenize"
inputs = { corpus = "@corpus" }
vocabulary = 300
[stage.pretrain]
kind = "pretrain"
inputs = { tokens = "@tokens" }
threads = 1
steps = %d
sequence_length = 32
micro_batch_size = 2
global_batch_size = 4
checkpoint = { every_steps = %d, keep_last = 50 }
model = { hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2, num_key_value_heads = 1, max_position_embeddings = 32 }
optimizer = { lr = 1e-2, warmup_steps = 5 }
"""
SECRET = "very-secret-path-0123456789"


def write_training(here, steps, every=0):
    if not (here / "pages").exists():
        write_pages(here / "pages", 20260301, pages=8, languages=("en",))
    (here / "train.toml").write_text(TRAINING % (steps, every))


def start(here, *arguments, **more):
    return subprocess.Popen([str(LONGHAUL), *map(str, arguments)], cwd=here, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, start_new_session=True, **more)


def command_workflow(here, name, script, notify="", more=""):
    """A workflow of one `command` stage and a site for it; returns the arguments of `run`."""
    (here / f"{name}.toml").write_text(f'[workflow]\nname = "{name}"\n[stage.a]\nkind = "command"\n{more}\nscript = """{script}"""\n')
    (here / "site.toml").write_text(f'name = "here"\n{notify}\n')
    return ["run", f"{name}.toml", "--site", "site.toml"]


def logged(run):
    facts = []
    for path in sorted((run / "log").glob("*.jsonl")):
        facts += json_lines(path)
    return facts


@case
def orders_steer_a_training_and_their_outcomes_are_known(here):
    write_training(here, 200000)
    (here / "train.toml").write_text((here / "train.toml").read_text().replace("global_batch_size = 4", "global_batch_size = 64"))
    process = start(here, "run", "train.toml")
    try:
        wait_for("the training runs", lambda: runs(here) and stage_status(here, "pretrain")["state"] == "running", 60)
        wait_for("it makes steps", lambda: events(runs(here)[0], "pretrain", "metric"), 30)
        run = runs(here)[0]
        longhaul(here, "tell", "latest", "checkpoint", code=0, says="pretrain: checkpoint: done at step")
        saved = events(run, "pretrain", "checkpoint")
        expect("one checkpoint was saved", len(saved) == 1, saved)
        longhaul(here, "tell", "latest", "set", "lr=5e-4", "checkpoint_interval=1000000", code=0, says="lr = 0.0005: done")
        longhaul(here, "tell", "latest", "set", "hidden_size=8", code=3, says="longhaul fork")
        longhaul(here, "tell", "latest", "checkpoint", "--stage", "tokens", code=3, says="takes no orders")
        longhaul(here, "tell", "latest", "stop-after", "200000", code=3, says="ends after step 200000 anyhow")
        step = int(stage_status(here, "pretrain")["progress"]["done"]) + 400
        longhaul(here, "tell", "latest", "stop-after", step, code=0, deadline_s=100, says="stop after step")
        out, _ = process.communicate(timeout=60 * PATIENCE)
        expect("the shortened run succeeds", process.returncode == 0, out)
        figures = stage_status(here, "pretrain")["figures"]
        expect("it ended where it was asked to", figures["steps"] == step and figures["steps_planned"] == 200000, figures)
        rates = [(e["step"], e["lr"]) for e in events(run, "pretrain", "metric") if "lr" in e]
        expect("the rate changed once, and held", rates[-1][1] < 5.1e-4 and rates[0][1] > 1e-3, rates[-1])
        expect("a checkpoint of the last step", (run / f"stages/pretrain/state/checkpoints/step-{step:08}/checkpoint.json").exists())
        reported = [f for f in logged(run) if f["fact"] in ("request", "order_ended")]
        expect("every order and its outcome is in the log", [f["fact"] for f in reported].count("order_ended") == 4, reported)
        expect("a refusal, too", any("anyhow" in f["with"].get("answer", "") for f in reported), reported)
        longhaul(here, "status", code=0, says=["order to pretrain: checkpoint: done", "order to pretrain: lr = 0.0005: done"])
        longhaul(here, "tell", "latest", "checkpoint", code=3, says="has ended")
        index = [p for p in (here / "runs/.artifacts").glob("*.json") if "/stages/pretrain/" in p.read_text()]
        expect("a steered artifact is not offered to other runs", not index, index)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            longhaul(here, "cancel")


@case
def a_training_is_watched_while_it_runs(here):
    write_training(here, 3000)
    process = start(here, "run", "train.toml", "--quiet")
    watchers = []
    try:
        run = wait_for("a run", lambda: runs(here) and newest_run(here))
        wait_for("steps", lambda: list(run.glob("stages/pretrain/attempts/*/events.jsonl")) and len(events(run, "pretrain", "metric")) > 2)
        watchers = [start(here, "logs", "-f"), start(here, "status", "--watch", "--every", "200ms")]
        expect("the training was still running", process.poll() is None)
        quiet, _ = process.communicate(timeout=120 * PATIENCE)
        followed, watched = [one.communicate(timeout=60 * PATIENCE)[0] for one in watchers]
        expect("all end with the run", [one.returncode for one in (process, *watchers)] == [0, 0, 0], (quiet, followed, watched))
        expect("steps were followed to the last", "step 3000/3000  loss " in followed and "tokens/s" in followed, followed[-2000:])
        expect("running, then ended", "running" in watched and "succeeded" in watched.split("running")[-1], watched[-3000:])
        expect("--quiet leaves progress out", "%" not in quiet and " step " not in quiet, quiet)
    finally:
        for one in (process, *watchers):
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
        longhaul(here, "cancel")


@case
def a_fork_goes_on_from_a_checkpoint_with_other_settings(here):
    write_training(here, 60, every=20)
    longhaul(here, "run", "train.toml", code=0)
    old = newest_run(here)
    longhaul(here, "fork", "latest", "--from", "pretrain@30", code=4, says="there are: 20, 40, 60")
    longhaul(here, "fork", "latest", "--from", "tokens", code=4, says="has no checkpoint")
    longhaul(here, "fork", "latest", "--from", "pretrian", code=4, says="has no stage 'pretrian'")
    done = longhaul(here, "fork", "latest", "--from", "pretrain@40", "--set", "stage.pretrain.model.hidden_size=32", "--set",
                    "stage.pretrain.seed=9", "--set", "stage.tokens.vocabulary=280", "--set", "stage.pretrain.steps=40", code=3)
    for part in ("model's shape cannot change", "seed cannot change", "lies before", "ends before anything is left"):
        expect(f"all reasons together: {part}", part in done.text, done)
    expect("nothing was made", len(runs(here)) == 1, runs(here))
    longhaul(here, "fork", "latest", "--from", "pretrain@40", "--set", "stage.pretrain.optimizer.lr=1e-3", "--set",
             "stage.pretrain.steps=80", code=0, says="longhaul resume")
    fork = newest_run(here)
    expect("a run of its own", fork != old)
    longhaul(here, "resume", fork, code=0)
    expect("what lies before is taken as it is", all(stage_status(here, s)["state"] == "cached" for s in ("corpus", "tokens")))
    steps = [e["step"] for e in events(fork, "pretrain", "metric") if "lr" in e]
    expect("it went on from step 40", steps[0] == 41 and steps[-1] == 80, steps)
    longhaul(here, "status", code=0, says=["a fork: pretrain goes on from step 40", old.name, "optimizer.lr=1e-3"])
    expect("its origin is in resolved.toml", old.name in (fork / "resolved.toml").read_text())
    expect("and in its report", f"goes on from step 40 of run {old.name}" in (fork / "report" / "index.html").read_text())
    # A run of its own with the same settings is another training: it must not get the fork's artifact.
    (here / "train.toml").write_text((TRAINING % (80, 20)).replace("lr = 1e-2", "lr = 1e-3"))
    longhaul(here, "run", "train.toml", code=0)
    expect("trained from the start", stage_status(here, "pretrain")["state"] == "succeeded")
    steps = [e["step"] for e in events(newest_run(here), "pretrain", "metric") if "lr" in e]
    expect("all its steps", steps[0] == 1, steps)
    # Without --from it is the stage that --set changes, at its newest checkpoint; a step alone is one of that stage.
    longhaul(here, "fork", old, "--set", "stage.pretrain.steps=90", code=0, says=f"pretrain goes on from step 60 of run {old.name}")
    longhaul(here, "fork", old, "--from", "@20", code=0, says=f"pretrain goes on from step 20 of run {old.name}")
    longhaul(here, "fork", old, "--from", "@30", code=4, says="there are: 20, 40, 60")


def hook_site(here, hook, host="127.0.0.1", more=""):
    path = here / "hook-url"
    path.write_text(hook.address(SECRET, host) + "\n")
    path.chmod(0o600)
    return f'[notify]\nurl_file = "{path}"\n{more}\n'


def expect_no_secret(here, text=""):
    holders = [str(p) for p in here.rglob("*") if p.is_file() and p.name != "hook-url" and SECRET.encode() in p.read_bytes()]
    expect("the address stands nowhere else", not holders and SECRET not in text, holders)


@case
def messages_arrive_once_although_the_webhook_fails_first(here):
    hook = Hook(answers=[500, 503])
    arguments = command_workflow(here, "fails", "echo trouble >&2; exit 3", hook_site(here, hook), "retries = 1")
    done = longhaul(here, *arguments, code=5)
    reported = [(m["event"], m["stage"]) for m in hook.accepted]
    expect("start, restart, failure and end, each once",
           sorted(reported) == [("run_completed", ""), ("run_started", ""), ("stage_failed", "a"), ("stage_retried", "a")], hook.accepted)
    expect("each with an id of its own", len({m["id"] for m in hook.accepted}) == 4)
    expect("the address is used as it stands", all(path == "/" + SECRET for path, _, _ in hook.posts))
    expect("what was posted twice has the same id", len(hook.posts) == 6)
    longhaul(here, "notify", code=0, says="sent 0")
    hook.close()
    expect_no_secret(here, done.text)


@case
def a_webhook_that_is_down_or_slow_stops_nothing_and_a_later_command_sends(here):
    hook = Hook(delay_s=3)
    site = hook_site(here, hook, more='timeout = "500ms"\ntries = 2\nformat = "slack"\nevents = ["run_completed"]')
    done = longhaul(here, *command_workflow(here, "slow", "true", site), code=0, deadline_s=50)
    expect("the run does not wait for long", done.seconds < 40, done)
    longhaul(here, "status", "--json", code=0, says="could not be sent")
    hook.close()
    time.sleep(0.1)
    again = Hook()
    hook_site(here, again)
    longhaul(here, "notify", code=0, says="sent 1, waiting 0")
    expect("in Slack's words", list(again.accepted[0]) == ["text"] and "has ended: succeeded" in again.accepted[0]["text"], again.accepted)
    longhaul(here, "notify", "--test", code=0, says="sent 1")
    again.close()
    expect_no_secret(here, done.text)


@case
def a_server_without_a_trusted_certificate_gets_nothing(here):
    if not shutil.which("openssl"):
        raise Skip("no openssl to make a certificate")
    make_certificate(here, "localhost", "DNS:localhost")
    hook = Hook(certificate=here / "both")
    site = hook_site(here, hook, "localhost", 'events = ["run_completed"]')
    longhaul(here, *command_workflow(here, "tls", "true", site), code=0)
    expect("nothing was posted", not hook.posts, hook.posts)
    longhaul(here, "status", code=0, says=["could not be sent", "not trusted"])
    longhaul(here, *command_workflow(here, "tls", "true", hook_site(here, hook, "localhost", f'ca_file = "{here}/cert"')), code=0)
    expect("with its own authority it is trusted", len(hook.accepted) == 2, hook.posts)
    other = len(hook.posts)
    site = hook_site(here, hook, "127.0.0.1", f'ca_file = "{here}/cert"')
    longhaul(here, *command_workflow(here, "tls", "true", site), code=0)
    expect("another name than the certificate's is refused", len(hook.posts) == other, hook.posts)
    hook.close()


@case
def an_address_that_others_may_read_is_refused_and_the_variable_serves(here):
    hook = Hook()
    site = hook_site(here, hook)
    (here / "hook-url").chmod(0o644)
    longhaul(here, *command_workflow(here, "open", "true", site), code=0, says=["chmod 600"])
    expect("nothing was posted", not hook.posts)
    address = (here / "hook-url").read_text().strip()
    (here / "hook-url").unlink()
    # The rank's process list must not show the address either.
    script = f"for p in /proc/[0-9]*/cmdline; do tr '\\\\\\\\0' ' ' < $p || true; done > {here}/processes 2>/dev/null"
    longhaul(here, *command_workflow(here, "variable", script, '[notify]\nurl_env = "MY_HOOK"'), code=0,
             env={**os.environ, "MY_HOOK": address})
    expect("from the variable", len(hook.accepted) == 2, hook.posts)
    expect("processes were listed", "longhaul" in (here / "processes").read_text())
    expect_no_secret(here)
    hook.close()


@case
def a_stage_without_progress_is_reported_once(here):
    hook = Hook()
    site = hook_site(here, hook, more='no_progress_after = "2s"\nevents = ["no_progress"]')
    longhaul(here, *command_workflow(here, "silent", "sleep 6", site), code=0)
    expect("one message for one silence", [m["stage"] for m in hook.accepted] == ["a"], hook.accepted)
    expect("with its length", "no progress for" in hook.accepted[0]["text"], hook.accepted)
    hook.close()


def completions(here, line, script):
    text = f"""source {script}
COMP_LINE={json.dumps(line)}; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({LONGHAUL} x); COMP_CWORD=1
_longhaul; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = call(["bash", "-c", text], here)
    expect("bash says nothing on its own", done.code == 0 and not done.err, done)
    return done.out.split()


@case
def the_shell_completes_commands_options_runs_stages_and_keys(here):
    script = here / "completion.bash"
    script.write_text(longhaul(here, "completion", "bash", code=0).out)
    write_training(here, 5)
    longhaul(here, *command_workflow(here, "done", "true"), code=0)
    run = newest_run(here).name
    for line, has, hasnt in [("longhaul ", ["run", "tell", "gc", "completion"], []), ("longhaul st", ["status"], ["run"]),
                             ("longhaul status ", ["latest", run], []), ("longhaul status --j", ["--json"], ["--runs-dir"]),
                             ("longhaul logs latest ", ["a"], []), ("longhaul tell latest ", ["checkpoint", "stop-after", "set"], ["a"]),
                             ("longhaul tell latest set ", ["lr=", "checkpoint_interval="], ["checkpoint"]),
                             ("longhaul run ", ["train.toml", "done.toml"], ["completion.bash"]),
                             ("longhaul run train.toml --site ", ["local"], []),
                             ("longhaul run train.toml --set stage.pretrain.opt", ["stage.pretrain.optimizer.lr="], ["stage.tokens.vocabulary="]),
                             ("longhaul run --json train.toml --set stage.pretrain.precision=", ['"bf16"'], []),
                             ("longhaul serving recipe=x g", ["gpus=", "goal="], ["days="]),
                             ("longhaul serving goal=", ["latency"], ["goal="]),
                             ("longhaul size --json d", ["days="], ["goal="]),
                             ("longhaul completion ", ["bash", "zsh", "fish"], []), ("longhaul nonsense ", [], ["run"])]:
        found = completions(here, line, script)
        expect(f"'{line}' gives {has}, not {hasnt}", set(has) <= set(found) and not set(hasnt) & set(found), found)
    longhaul(here, "completion", "tcsh", code=2, says="bash, zsh and fish")
    done = longhaul(here, "completion", "fish", code=0)
    expect("fish knows the commands", "-a support-bundle" in done.out and "-l runs-dir" in done.out, done.out[:2000])
    expect("zsh has its own", "compdef _longhaul longhaul" in longhaul(here, "completion", "zsh", code=0).out)
    if shutil.which("shellcheck"):
        done = call(["shellcheck", "-s", "bash", "-S", "error", script], here)
        expect("shellcheck finds no error", done.code == 0, done)


@case
def gc_deletes_what_nobody_needs_and_nothing_else(here):
    write_training(here, 40, every=10)
    longhaul(here, "run", "train.toml", code=0)
    first = newest_run(here)
    longhaul(here, "run", "train.toml", "--set", "stage.pretrain.steps=20", code=0)  # refers to the first one's tokens
    second = newest_run(here)
    state = first / "stages/pretrain/state"
    before = sorted(str(p) for p in first.rglob("*"))
    longhaul(here, "gc", code=0, says=["checkpoints of a stage that succeeded", str(state), "nothing was deleted", "a day"])
    expect("looking changes nothing", sorted(str(p) for p in first.rglob("*")) == before)
    longhaul(here, "gc", "--pin", f"{first.name}/pretrain", code=0)
    longhaul(here, "gc", "--pin", f"{first.name}/none", code=4, says="has no stage 'none'")
    longhaul(here, "gc", "--delete", code=0, says=["pinned: pretrain", "deleted:"])
    expect("what is pinned stays", state.exists())
    expect("what is not goes", not (second / "stages/pretrain/state").exists())
    expect("artifacts stay without --keep-last", (first / "stages/pretrain/out/manifest.json").exists())
    longhaul(here, "gc", "--unpin", f"{first.name}/pretrain", code=0)
    document = json.loads(longhaul(here, "gc", "--keep-last", "1", "--json", code=0).out)
    garbage = [item["path"] for one in document["runs"] for item in one["garbage"]]
    expect("the old model may go", str(first / "stages/pretrain/out") in garbage, garbage)
    expect("what the newer run took from it may not", str(first / "stages/tokens/out") not in garbage, garbage)
    longhaul(here, "gc", "--keep-last", "1", "--delete", code=0)
    expect("gone", not (first / "stages/pretrain/out").exists() and not state.exists() and not (first / ".trash").exists())
    expect("its log is still there", (first / "log/000001.jsonl").exists())
    longhaul(here, "run", "train.toml", "--set", "stage.pretrain.steps=20", code=0)
    expect("the newer run's artifacts are whole", all(s["state"] == "cached" for s in status(here)["stages"]), status(here)["stages"])

    process = start(here, *command_workflow(here, "goes-on", f"touch {here}/begun; sleep 60"))
    wait_for("it runs", (here / "begun").exists, 30)
    running = newest_run(here)
    done = longhaul(here, "gc", "--keep-last", "0", "--delete", code=0, says="it has not ended")
    expect("a run that has not ended keeps everything", (running / "stages/a/attempts/1/staging").exists(), done)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=30 * PATIENCE)
    longhaul(here, "cancel", code=0)


@case
def a_killed_gc_leaves_nothing_half_and_the_next_one_goes_on(here):
    longhaul(here, *command_workflow(here, "many", "for i in $(seq 3000); do echo x > $LONGHAUL_STATE/f$i; done"), code=0)
    run = newest_run(here)
    process = start(here, "gc", "--delete")
    wait_for("it has begun", lambda: (run / ".trash").exists() or process.poll() is not None, 20)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    state = run / "stages/a/state"
    expect("whole or gone", not state.exists() or len(list(state.iterdir())) == 3000)
    longhaul(here, "gc", "--delete", code=0)
    expect("all gone", not state.exists() and not (run / ".trash").exists())
    longhaul(here, "status", code=0)


@case
def a_support_bundle_explains_a_run_and_holds_no_secret(here):
    hook = Hook()
    script = (f"echo HF_TOKEN=hidden-0123 >&2; echo 'password: hidden-4567'; echo https://ana:hidden-89@example.org/; "
              f"cat {here}/hook-url; yes filler | head -c 3000000; exit 3")
    arguments = command_workflow(here, "trouble", script, hook_site(here, hook),
                                 'retries = 0\n[stage.a.environment]\nWANDB_API_KEY = "hidden-abc"\n[stage.b]\nkind = "command"\n')
    text = (here / "trouble.toml").read_text().replace("[stage.b]\nkind", "[stage.b]\nneeds = [\"a\"]\nkind")
    (here / "trouble.toml").write_text(text.replace('retries = 0\n[stage.a.environment]\nWANDB_API_KEY = "hidden-abc"\n',
                                                    'retries = 0\nenvironment = { WANDB_API_KEY = "hidden-abc" }\n')
                               .replace('[stage.b]\nneeds = ["a"]\nkind = "command"\n', ""))
    longhaul(here, *arguments, code=5)
    longhaul(here, "support-bundle", "--output", "b.tar.gz", code=0, says="b.tar.gz",
             env={**os.environ, "SLURM_JOB_TOKEN": "hidden-env", "SLURM_JOB_ID": "7"})
    hook.close()
    expect("only for its maker", (here / "b.tar.gz").stat().st_mode & 0o777 == 0o600)
    with tarfile.open(here / "b.tar.gz") as tar:
        files = {m.name.split("/", 1)[1]: tar.extractfile(m).read().decode() for m in tar.getmembers() if m.isfile()}
    for name in ("resolved.toml", "site.toml", "log/000001.jsonl", "stages/a/task.toml", "stages/a/attempts/1/record.json",
                 "stages/a/attempts/1/launches/1/rank-0.log", "doctor.txt", "status.json", "environment.txt", "MANIFEST.txt"):
        expect(f"it has {name}", name in files, sorted(files))
    whole = "".join(files.values())
    expect("nothing secret", "hidden-" not in whole and SECRET not in whole,
           [(n, line) for n, t in files.items() for line in t.splitlines() if "hidden-" in line or SECRET in line][:5])
    expect("long logs are cut", len(files["stages/a/attempts/1/launches/1/rank-0.log"]) < 1_500_000 and "cut here" in whole)
    expect("the job's variables are reported", "SLURM_JOB_ID=7" in files["environment.txt"] and "SLURM_JOB_TOKEN=[redacted]" in files["environment.txt"])
    expect("nothing is left beside it", not list(here.glob("b.tar.gz.*")))
    longhaul(here, "support-bundle", "--size-max", "0.01", "--output", "small.tar.gz", code=0)
    expect("the limit holds", (here / "small.tar.gz").stat().st_size < 40_000)


@case
def trust_in_a_support_bundle_ends_at_links_and_environments(here):
    longhaul(here, *command_workflow(here, "linked", "echo done > $LONGHAUL_OUT/x", more='environment = { PLAIN_NAME = "hidden-plain" }'), code=0)
    run = newest_run(here)
    mine = here / "mine"
    mine.mkdir()
    (mine / "secrets.toml").write_text('word = "hidden-mine"\n')
    (run / "stages/a/notes.toml").symlink_to(mine / "secrets.toml")
    (run / "stages/a/folder").symlink_to(mine)
    os.link(mine / "secrets.toml", run / "stages/a/second.toml")
    os.mkfifo(run / "stages/a/pipe.log")
    longhaul(here, "support-bundle", "--output", "b.tar.gz", code=0)
    with tarfile.open(here / "b.tar.gz") as tar:
        files = {m.name.split("/", 1)[1]: tar.extractfile(m).read().decode() for m in tar.getmembers() if m.isfile()}
    whole = "".join(files.values())
    expect("nothing of mine", "hidden-" not in whole, [(n, line) for n, t in files.items() for line in t.splitlines() if "hidden-" in line][:5])
    expect("what was left out is named", all(f"left out  stages/a/{name}" in files["MANIFEST.txt"] for name in ("notes.toml", "second.toml")),
           files["MANIFEST.txt"])
    expect("the name of the variable stays", 'PLAIN_NAME = "[redacted]"' in whole or '"PLAIN_NAME": "[redacted]"' in whole, sorted(files))
    expect("nothing is left beside it", not list(here.glob("b.tar.gz.*")))


def as_user(uid, gid):
    def change():
        os.setgroups([gid])
        os.setgid(uid)
        os.setuid(uid)
        os.umask(0o077)
    return change


@case
def a_colleague_of_the_group_sees_steers_and_takes_over_a_run(here):
    if os.geteuid() != 0:
        raise Skip("needs root to become two other users")
    import grp
    group = grp.getgrnam("users")
    here.chmod(0o755)
    programs = here / "bin"
    programs.mkdir()
    for name in ("longhaul", "longhaul-worker", "longhaul-engine"):
        shutil.copy(LONGHAUL.parent / name, programs / name)
    programs.chmod(0o755)
    shared = here / "shared"
    shared.mkdir()
    os.chown(shared, 0, group.gr_gid)
    shared.chmod(0o2770)
    def program(uid, *arguments):
        return subprocess.run([programs / "longhaul", *arguments], cwd=shared, capture_output=True, text=True, timeout=60 * PATIENCE,
                              preexec_fn=as_user(uid, group.gr_gid))
    (shared / "w.toml").write_text(f'[workflow]\nname = "ours"\n[stage.a]\nkind = "command"\nscript = "true"\n[stage.b]\n'
                                   f'kind = "command"\nneeds = ["a"]\nretries = 0\nscript = "test -e {here}/go"\n')
    (shared / "site.toml").write_text('name = "ours"\ngroup = "users"\n')
    (sites := here / "share/longhaul/site-configs").mkdir(parents=True)
    (sites / "ours.toml").write_text('group = "users"\n')  # the installation's: what a run says of itself counts for nothing
    for path in shared.iterdir():
        path.chmod(0o644)
    first = program(40001, "run", "w.toml", "--site", "site.toml")
    expect("the maker's run fails, as it should", first.returncode == 5, first.stdout + first.stderr)
    run = next(p for p in (shared / "runs").iterdir() if p.name.startswith("ours-"))
    expect("it is the group's", run.stat().st_mode & 0o2070 == 0o2070 and run.stat().st_gid == group.gr_gid, oct(run.stat().st_mode))
    (here / "go").touch()
    seen = program(40002, "status", str(run))
    expect("a colleague sees it", seen.returncode == 5 and "b failed" in seen.stdout, seen.stdout + seen.stderr)
    taken = program(40002, "resume", str(run))
    expect("and takes it over", taken.returncode == 0, taken.stdout + taken.stderr)
    expect("the second attempt is the colleague's", (run / "stages/b/attempts/2").stat().st_uid == 40002)
    again = program(40001, "status", str(run))
    expect("the maker still sees all of it", again.returncode == 0 and "succeeded" in again.stdout, again.stdout + again.stderr)
    outside = subprocess.run([programs / "longhaul", "status", str(run)], cwd="/", capture_output=True, text=True, timeout=60 * PATIENCE,
                             preexec_fn=as_user(40003, 40003))
    expect("nobody else does", outside.returncode != 0, outside.stdout + outside.stderr)
    (shared / "other.toml").write_text('group = "no-such-group"\n')
    (shared / "other.toml").chmod(0o644)
    nowhere = program(40001, "run", "w.toml", "--site", "other.toml")
    expect("an unknown group is refused", nowhere.returncode != 0 and "no group" in nowhere.stderr, nowhere.stdout + nowhere.stderr)


main()
