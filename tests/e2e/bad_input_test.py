#!/usr/bin/env python3
"""Bad input to the real programs: one clear error with place and remedy, a documented exit code, nothing earlier lost,
nothing hanging.

usage: bad_input_test.py LONGHAUL SOURCE_DIR [parts of case names]
"""
import gzip
import http.client
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

from scenario import (LONGHAUL, PATIENCE, SOURCE, Skip, call, case, events, expect, longhaul, main, newest_run, processes_holding, program,
                      runs, snapshot, stage_status, status, wait_for)
from tiny_inputs import page, write_pages, write_questions

# Exit codes as `longhaul run --help` lists them.
OK, USAGE, INVALID, NOT_FOUND, RUN_FAILED, SYSTEM = 0, 2, 3, 4, 5, 6
SEED = 7

HEADER = '[workflow]\nname = "x"\n'
TOKENS = '[stage.tokens]\nkind = "tokenize"\ninputs = { corpus = "corpus" }\nvocabulary = 400\n'
MODEL = ("model = { hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 2, num_key_value_heads = 1, "
         "max_position_embeddings = 64 }\n")


def refused(here, text, *says, code=INVALID, commands=("validate", "run"), arguments=()):
    """No command takes this workflow; each says all of `says`, and no run comes of it."""
    (here / "w.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    for command in commands:
        done = longhaul(here, command, "w.toml", *arguments, code=code, says=says, deadline_s=20)
        expect("no stack of exceptions, no crash", "terminate" not in done.text and "invariant" not in done.text, done)
    expect("nothing was created", not (here / "runs").exists())


def pretrain(**settings):
    """A workflow of tokens and a training with these settings; line 8 is the first of them."""
    lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
    return HEADER + TOKENS + '[stage.p]\nkind = "pretrain"\ninputs = { tokens = "@tokens" }\n' + lines


FIRST = 10  # line of the first setting of pretrain()


# --- what is known before anything is submitted ---


@case
def gpus_and_what_is_not_there_for_them(here):
    refused(here, pretrain(device='"tpu"'), f"w.toml:{FIRST}:", "device", "cpu, gpu")
    refused(here, pretrain(device='"gpu"', optimizer='{ offload = "node_local", offload_dir = "/tmp" }'),
            f"w.toml:{FIRST + 1}:", 'optimizer.offload = "node_local"', "stay in their memory")
    refused(here, pretrain(device='"gpu"', corruption='{ check = "replay" }'), f"w.toml:{FIRST + 1}:",
            "corruption.check", "processors only")
    refused(here, pretrain(communicator='"mpi"', device='"gpu"'), f"w.toml:{FIRST}:", "communicator", "nccl, staged")


@case
def exit_codes_are_documented(here):
    text = longhaul(here, "run", "--help", code=OK).text
    for code in (OK, USAGE, INVALID, NOT_FOUND, RUN_FAILED, SYSTEM):
        expect(f"exit code {code} is listed", f"\n  {code}  " in text, text)


@case
def several_errors_in_one_go(here):
    refused(here, HEADER + '[stage.a]\nkind = "comand"\n[stage.t]\nkind = "tokenize"\ninputs = { corpus = "nowhere" }\n'
            'vocabulary = "many"\nvocabularry = 3\n[stage.e]\nkind = "evaluate"\ninputs = { model = "@nobody" }\n'
            'tasks = ["bits", "preference"]\n',
            "w.toml:4:8: error: unknown stage kind 'comand'; did you mean 'command'?",
            "w.toml:7:21: error: stage.t.inputs.corpus", "nowhere does not exist",
            "w.toml:8:14: error: stage.t.vocabulary is text, expected integer; for example vocabulary = 8192",
            "w.toml:9:1: error: unknown key 'vocabularry' in [stage.t]; did you mean 'vocabulary'?",
            "w.toml:12:20: error: stage.e.inputs.model names the stage 'nobody', which does not exist",
            'w.toml:13:10: error: stage.e.tasks[0] = "bits" is not known; one of: bits_per_byte',
            "6 errors; nothing was started")


@case
def unknown_keys_at_every_depth(here):
    (here / "corpus").mkdir()
    refused(here, pretrain(micro_batch_sise=4), f"w.toml:{FIRST}:1: error: unknown key 'micro_batch_sise' in [stage.p]; "
            "did you mean 'micro_batch_size'?")
    refused(here, pretrain(model="{ hidden_sise = 32 }"), "did you mean 'hidden_size'?", f"w.toml:{FIRST}:11: error:")
    refused(here, pretrain(optimizer="{ lr_min_ration = 1 }"), "did you mean 'lr_min_ratio'?")
    refused(here, pretrain() + "[stagge.x]\n", "unknown section 'stagge'; did you mean 'stage'?")
    refused(here, '[workflow]\nname = "x"\nauthor = "me"\n' + TOKENS, "w.toml:3:1: error: unknown key 'author'")
    refused(here, pretrain(inputz="{}"), "did you mean 'inputs'?")


@case
def wrong_types_and_bounds(here):
    (here / "corpus").mkdir()
    refused(here, pretrain(ranks="true", model="3", steps='"many"', optimizer='{ lr = "high", beta1 = 1.5 }'),
            f"w.toml:{FIRST}:9: error: stage.p.ranks is yes/no, expected integer",
            f"w.toml:{FIRST + 1}:9: error: stage.p.model is integer, expected a table",
            f"w.toml:{FIRST + 2}:9: error: stage.p.steps is text, expected integer",
            f"w.toml:{FIRST + 3}:20: error: stage.p.optimizer.lr is text, expected number",
            "stage.p.optimizer.beta1 = 1.5 is out of bounds; expected between 0 and 1", "5 errors")
    for number in ("nan", "inf", "-inf", "-1.0"):
        refused(here, pretrain(optimizer=f"{{ lr = {number} }}"), f"stage.p.optimizer.lr = {number.removesuffix('.0')} is out of bounds",
                commands=("validate",))
    for settings in ({"ranks": 2147483647}, {"ranks": 4294967297}, {"ranks": 0}, {"sequence_length": 2**62},
                     {"micro_batch_size": 2**62}, {"epochs": "1e300"}, {"model": f"{{ hidden_size = {2**62} }}"},
                     {"model": f"{{ head_dim = {2**62} }}"}, {"model": f"{{ num_hidden_layers = {2**40} }}"},
                     {"model": "{ num_attention_heads = 0 }"}, {"parallel": "{ tp = 65536, pp = 65536 }"},
                     {"parallel": "{ pp = -1 }"}):
        refused(here, pretrain(**settings), f"w.toml:{FIRST}:", commands=("validate",))
    refused(here, HEADER + '[stage.a]\nkind = "command"\nargv = ["true"]\ntime_limit = "5 parsecs"\n',
            'w.toml:6:14: error: stage.a.time_limit = "5 parsecs" is not a duration; for example "45s"')


@case
def graphs_that_cannot_be(here):
    command = 'kind = "command"\nargv = ["true"]\n'
    refused(here, HEADER + f'[stage.a]\n{command}inputs = {{ b = "@b" }}\n[stage.b]\n{command}needs = ["a"]\n',
            "w.toml:3:1: error: stages wait for each other: a -> b -> a", "remove one of these inputs or needs")
    refused(here, HEADER + f'[stage.a]\n{command}inputs = {{ b = "@a" }}\n', "stages wait for each other: a -> a")
    refused(here, HEADER + f'[stage.tokens]\n{command}[stage.b]\n{command}inputs = {{ b = "@tokkens/x" }}\n',
            "w.toml:9:16: error: stage.b.inputs.b names the stage 'tokkens', which does not exist; did you mean 'tokens'?")
    refused(here, HEADER + f'[stage.a]\n{command}[stage.p]\nkind = "pretrain"\ninputs = {{ tokens = "@a" }}\n',
            "does not take the artifact of 'a', a command stage; it takes: tokenize")
    refused(here, HEADER + '[stage.a]\nkind = "tune"\n', "w.toml:3:1: error: stage.a.for names no stage", 'for = "NAME"')
    refused(here, HEADER, "the workflow has no stages; add at least one [stage.NAME]")


@case
def jobs_that_a_site_would_refuse(here):
    """What a cluster would refuse hours later, or run as something else, is refused here, with place and remedy."""
    (here / "my.toml").write_text(
        'inherits = "marenostrum5-acc"\naccount = "me"\npartitions = ["acc", "gpp"]\n[classes.prod]\nmax_nodes = 64\n'
        '[container]\nruntime = "pyxis"\n')
    own = ("--site", "./my.toml")
    def stage(text):
        return HEADER + f'[stage.a]\nkind = "command"\nargv = ["true"]\n{text}\n'
    refused(here, stage(""), "site 'marenostrum5-acc' takes no job without an account", "site.account=", "marenostrum5-acc.toml",
            "1 error; nothing was started", arguments=("--site", "marenostrum5-acc"))
    for text, *says in (
            ("ranks = 65\nnodes = 65", "w.toml:7:9: error: stage.a.nodes = 65: a job of the class 'prod' of site 'my' has at most 64"),
            ('time_limit = "4d"', "w.toml:6:14: error: stage.a.time_limit = 4-00:00:00", "ends after 3-00:00:00", 'job.resumable = "yes"'),
            ('job = { class = "prodd" }', "w.toml:6:17: error: site 'my' has no class 'prodd'; did you mean 'prod'?"),
            ('job = { partition = "acd" }', "w.toml:6:21: error: site 'my' has no partition 'acd'; did you mean 'acc'?"),
            ('job = { partition = "a\\nb" }', "--partition: 'a?b' holds a newline or a control character"),
            ('job = { qos = "a\\u0007" }', "w.toml:6:15: error: --qos: 'a?' holds a newline or a control character"),
            ('job = { memory = "10G" }', "w.toml:6:18: error: site 'my' refuses jobs with --mem; remove it"),
            ('job = { gpus_per_node = 5 }', "w.toml:6:25: error: stage.a.job.gpus_per_node = 5: nodes of site 'my' have 4"),
            ('threads = 81', "w.toml:6:11: error: 1 ranks x 81 CPUs on a node: nodes of site 'my' have 80"),
            ('job = { modules = ["no such"] }', "'no such' cannot name a module"),
            ('job = { container = "/no/image.sqsh" }', "w.toml:6:21: error: the image /no/image.sqsh does not exist"),
            ('job = { container = "../image.sqsh" }', "the image ../image.sqsh is a relative path"),
            ('job = { options = ["--comment=x"] }', "--comment cannot be set by options"),
            ('job = { options = ["-J x", "--array=0-9"] }', "'-J x' is not an sbatch option", "--array cannot be set by options"),
            ('job = { environment = { "A=B" = "x" } }', "'A=B' cannot name a variable"),
            ('job = { environment = { SLURM_JOB_ID = "1" } }', "the variable SLURM_JOB_ID cannot be set here"),
            ('job = { nodes = 3 }', "unknown key 'nodes' in [stage.a.job]"),
    ):
        refused(here, stage(text), *says, arguments=own)
    (here / "w.toml").write_text(stage(""))
    for set_text, says in (("site.account=m e", "text needs quotes"), ("site.node.gpus=many", "is text, expected integer"), ("site.acount='me'", "did you mean 'account'?"),
                           ("site.classes.prod.max_nodes='many'", "is text, expected integer")):
        longhaul(here, "validate", "w.toml", "--site", "./my.toml", "--set", set_text, code=INVALID, says=says)
    for text, says in (("[classes", "TOML syntax"), ("default_class = 'x'\n", "there is no class 'x'"), ("[classes]\nx = 3\n", "expected a table"),
                       ("[ask]\ngpu_request = 'all'\n", "one of: none, gres"), ("sources = 3\n", "expected a table"),
                       ("inherits = '../../etc/passwd'\n", "'../../etc/passwd' cannot name a site"),
                       ("inherits = '../x.toml'\n", "does not exist")):
        (here / "bad.toml").write_text(text)
        done = longhaul(here, "validate", "w.toml", "--site", "./bad.toml", says=says)
        expect("refused", done.code in (INVALID, NOT_FOUND), done)


@case
def timeouts_that_contradict_each_other(here):
    """All contradictions of the hierarchy in one go, of the stage and of its site, before anything is submitted."""
    (here / "my.toml").write_text('inherits = "slurm-generic"\nslurmd_timeout = "5s"\n[classes.prod]\npartition = "p"\nmax_wall = "1d"\n'
                                  '[network]\nsilence = "30s"\n')
    stage = HEADER + '[stage.a]\nkind = "command"\nargv = ["true"]\n'
    refused(here, stage + 'time_limit = "1h"\njob = { stop_before = "3s" }\n[stage.a.resiliency]\nhang_suspect = "30s"\nhang_act = "20s"\n'
            'host_silent = "6s"\nstartup = "2h"\n',
            "w.toml:7:23: error: stage.a: the job's grace (3 s) is shorter than stopping a launch (10 s): the job would end before its "
            "ranks have; raise stage.a.job.stop_before to 10 s or more",
            "w.toml:10:12: error: stage.a: act (20 s) is shorter than suspect (30 s)",
            "w.toml:10:12: error: stage.a: act (20 s) is shorter than the silence of the fabric (30 s)",
            "my.toml:2:18: error: stage.a: SlurmdTimeout of Slurm (5 s) is shorter than the silence of a host (6 s)",
            "w.toml:6:14: error: stage.a: the wall time (3600 s) is shorter than launch start-up and the job's grace (7203 s): a job "
            "could end without a step", "5 errors; nothing was started", arguments=("--site", "./my.toml"))
    refused(here, stage + 'resiliency = { hang_floor = "3s" }\n',
            "w.toml:6:29: error: stage.a: act (3 s) is shorter than the silence of a host (4.5 s)", "1 error; nothing was started")


@case
def values_of_jobs_are_data(here):
    """Values that look like shell are handed on as they are: the script of `plan --scripts` is run with a program in the
    worker's place that prints what it got."""
    odd = "a b \"q\" 'x' \\ $(touch pwned) `touch pwned` ; touch pwned # \u00f1 *"
    quoted = json.dumps(odd, ensure_ascii=False)
    runs_dir = here / "runs $(touch pwned) 'x' \u00f1"
    (here / "s.toml").write_text('inherits = "slurm-generic"\n')
    (here / "w.toml").write_text(HEADER + f'[stage.a]\nkind = "command"\nargv = ["true"]\n[stage.a.job]\nqos = {quoted}\n'
                                 f'partition = {quoted}\noptions = [{json.dumps("--wckey=" + odd, ensure_ascii=False)}]\n'
                                 f'[stage.a.job.environment]\nODD = {json.dumps(odd + chr(10) + "line", ensure_ascii=False)}\n')
    done = longhaul(here, "plan", "w.toml", "--site", "./s.toml", "--scripts", "--runs-dir", runs_dir, code=OK)
    script = here / "job.sbatch"
    script.write_text(done.text[done.text.index("#!/bin/bash"):])
    worker = runs_dir / "x-preview/bin/longhaul-worker"
    worker.parent.mkdir(parents=True)
    worker.write_text("#!/bin/bash\nprintf '%s\\n' \"$@\" \"$ODD\"\n")
    worker.chmod(0o755)
    got = call(["bash", script, odd], here)
    expect("argument and variable are what was meant", got.text == f"lead\n--attempt\n{odd}\n{odd}\nline\n", got)
    expect("nothing of them was run", not list(here.rglob("pwned")), list(here.rglob("*")))
    expect("they are quoted for sbatch", '#SBATCH --wckey="a b \\"q\\" \'x\' \\\\ $(touch pwned)' in done.text, done)


@case
def files_that_are_not_workflows(here):
    (here / "corpus").mkdir()
    longhaul(here, "run", "absent.toml", code=NOT_FOUND, says="absent.toml does not exist")
    longhaul(here, "run", "corpus", code=INVALID, says=("corpus is a folder, and no workflow", "longhaul init corpus writes one"))
    refused(here, "[workflow\n", "w.toml:1:10: error: TOML syntax")
    refused(here, HEADER + "[stage.a]\n[stage.a]\n", "w.toml:4:1: error: TOML syntax", "cannot redefine")
    refused(here, HEADER + "x = " + "[" * 20000 + "]" * 20000, "w.toml:3:", "nested")
    refused(here, random.Random(SEED).randbytes(5000), "w.toml:1:", "TOML syntax")
    refused(here, HEADER.encode() + b'description = "\xff\xfe"\n', "w.toml:3:", "TOML syntax")
    refused(here, "", "the workflow has no name")
    (here / "secret.toml").write_text(pretrain())
    (here / "secret.toml").chmod(0)
    done = call([*without_override(), LONGHAUL, "run", "secret.toml"], here)
    expect("an unreadable workflow is named", done.code == SYSTEM and "secret.toml" in done.err and "denied" in done.err, done)


@case
def what_a_newcomer_hands_over(here):
    """A sentence each that says what to do, before anything runs."""
    for name, text, says in (("w.yaml", "workflow:\n  name: x\n", "this is YAML; a workflow is TOML"),
                             ("w.json", '{"workflow": {"name": "x"}}\n', "this is JSON; a workflow is TOML"),
                             ("train.py", "import torch\nprint(1)\n", 'argv = ["python3", "train.py"]')):
        (here / name).write_text(text)
        longhaul(here, "run", name, code=INVALID, says=says)
    curate = HEADER + '[stage.c]\nkind = "curate"\ninputs = { documents = "%s" }\n'
    (here / "empty").mkdir()
    refused(here, curate % "empty", "w.toml:5:24: error:", "is empty: it holds no documents")
    (here / "images").mkdir()
    (here / "images/a.png").write_bytes(b"\x89PNG")
    refused(here, curate % "images", "w.toml:5:24: error:", "images holds no documents: 1 files of other kinds, such as a.png")
    shutil.copytree(SOURCE / "tests/parity/golden/model-untied", here / "model")
    (here / "model/tokenizer.json").unlink()
    (here / "rows.jsonl").write_text('{"input": "a", "output": "b"}\n')
    refused(here, HEADER + '[stage.s]\nkind = "sft"\ninputs = { model = "model", data = "rows.jsonl" }\n', "w.toml:5:20: error:",
            "model/tokenizer.json", "a model is a folder with")
    (here / "own.sh").write_text("true\n")
    refused(here, HEADER + '[stage.a]\nkind = "command"\nargv = ["./own.sh"]\n', "w.toml:5:", "may not be executed; chmod +x",
            'argv = ["bash", "./own.sh"]')


@case
def overrides_that_name_nothing(here):
    (here / "corpus").mkdir()
    (here / "corpus/documents.jsonl").write_text('{"text": "a"}\n')
    (here / "good.toml").write_text('[workflow]\nname = "x"\n[params]\nsize = 400\n' + TOKENS.replace("400", '"${params.size}"'))
    longhaul(here, "validate", "good.toml", code=OK)
    for argument, says in (("params.sise=1", "has no params.sise; did you mean 'params.size'?"), ("params.size", "params.size"),
                           ("params.size=[", "--set"), ("stage.token.vocabulary=300", "token"), ("=3", "--set"),
                           ('params.size="many"', "expected integer"), ("stage.tokens.vocabularry=300", "vocabularry")):
        for command in ("validate", "run"):
            done = longhaul(here, command, "good.toml", "--set", argument, says=says)
            expect("the workflow or the command line is refused", done.code in (USAGE, INVALID), done)
    expect("nothing was created", not (here / "runs").exists())


@case
def inputs_that_are_not_there(here):
    (here / "empty").mkdir()
    (here / "secret.html").write_text("<p>x")
    (here / "secret.html").chmod(0)
    refused(here, HEADER + '[stage.c]\nkind = "curate"\ninputs = { documents = ["nowhere", "empty/*.html"] }\n',
            "w.toml:5:24: error: stage.c.inputs.documents", "nowhere does not exist", "no file matches",
            "relative paths start at the workflow's folder")
    (here / "w.toml").write_text(HEADER + '[stage.c]\nkind = "curate"\ninputs = { documents = "secret.html" }\n')
    done = call([*without_override(), LONGHAUL, "run", "w.toml"], here)
    expect("an unreadable input is named", done.code == INVALID and "w.toml:5:24: error" in done.err and
           "secret.html cannot be read" in done.err, done)
    expect("nothing was created", not (here / "runs").exists())


@case
def layouts_that_cannot_be(here):
    (here / "corpus").mkdir()
    shape = "max_position_embeddings = 64"
    at = f"w.toml:{FIRST}:"
    for settings, says in (
            ({"parallel": "{ tp = 3 }", "ranks": 2}, (at, "does not divide the job's 2 ranks", "multiple of 3")),
            ({"parallel": "{ dp_replicate = 4 }", "ranks": 2}, (at, "= 4, but the job has 2 ranks; use dp_replicate = 2")),
            ({"parallel": "{ ep = 2 }", "ranks": 2, "sequence_length": 64}, (at, "parallel.ep = 2 distributes experts, and the model has none; leave ep out")),
            ({"parallel": "{ cp = 2 }", "ranks": 2, "sequence_length": 62}, (at, "2 * parallel.cp(2) = 4 does not divide sequence_length = 62", "use sequence_length = 60 or 64")),
            ({"nodes": 3, "ranks": 2}, (at, "2 ranks cannot be shared evenly by 3 nodes")),
            ({"global_batch_size": 15, "ranks": 2}, (at, "not a multiple of micro_batch_size(4) * dp(2) = 8; use 8 or 16")),
            ({"sequence_length": 128, "model": f"{{ {shape} }}"}, (at, "longer than model.max_position_embeddings = 64; use at most 64, or raise")),
            ({"model": f"{{ hidden_size = 33, num_attention_heads = 4 }}"}, (at, "does not divide hidden_size = 33; use hidden_size = 36")),
            ({"model": f"{{ num_attention_heads = 4, num_key_value_heads = 3 }}"}, (at, "num_key_value_heads = 3 does not divide")),
            ({"model": f"{{ hidden_size = 30, num_attention_heads = 2 }}"}, (at, "head_dim = 15 is odd", "use an even head_dim")),
            ({"epochs": 0.0}, (at, "nothing would be trained; give one of them"))):
        refused(here, pretrain(**settings), *says, commands=("validate",))
    refused(here, pretrain(sequence_length=64) + MODEL +
            '[stage.s]\nkind = "sft"\ninputs = { model = "@p", data = "corpus" }\nsequence_length = 512\n'
            '[stage.e]\nkind = "evaluate"\ninputs = { model = "@s", tokens = "@tokens" }\ncontext_length = 100\ntasks = ["preference"]\n'
            '[stage.d]\nkind = "deploy"\ninputs = { model = "@s" }\nhost = "0.0.0.0"\nrequire_token = false\n',
            "w.toml:15:19: error: stage.s: sequence_length = 512 is longer than the model's max_position_embeddings = 64; use at most 64",
            "w.toml:19:18: error: stage.e: context_length = 100 is longer than", "w.toml:20:9: error: stage.e: the task \"preference\" needs the input 'data'",
            "w.toml:25:17: error: stage.d: require_token = false with host", "4 errors; nothing was started")
    refused(here, HEADER + '[stage.c]\nkind = "curate"\ninputs = { documents = "corpus" }\nranks = 2\n',
            "w.toml:6:9: error: stage.c.ranks = 2, but the stage kind 'curate' runs on one rank; use threads")


# --- what only the stage can find out ---


def fails(here, text, *says, stage, code=RUN_FAILED, deadline_s=30):
    """The run fails in this stage, saying all of `says` there and in `status`; nothing is published for it."""
    (here / "w.toml").write_text(HEADER + text)
    done = longhaul(here, "run", "w.toml", code=code, says=says, deadline_s=deadline_s)
    run = newest_run(here)
    cause = stage_status(here, stage)["cause"]
    for part in says:
        expect(f"the record holds: {part}", part in cause, cause)
    expect("no signal: an error, not a crash", "signal" not in cause, cause)
    expect("nothing is published", not (run / "stages" / stage / "out").exists())
    expect("it says how to go on", "longhaul resume" in done.out, done)
    return run


def refused_before(here, text, *says):
    """Nothing is started: the input is looked at before, and all of `says` is said of it."""
    (here / "w.toml").write_text(HEADER + text)
    runs = len(list(here.glob("runs/*")))
    longhaul(here, "run", "w.toml", code=INVALID, says=says, deadline_s=20)
    expect("nothing was started", len(list(here.glob("runs/*"))) == runs)


def without_override():
    """Root reads everything: without these capabilities it is held to the files' modes like everybody."""
    if os.geteuid() != 0:
        return []
    expect("setpriv is installed", shutil.which("setpriv"))
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


CURATE = '[stage.c]\nkind = "curate"\ninputs = { documents = "pages" }\nheldout_bytes = 1000\n'


@case
def pages_that_are_not_pages(here):
    pages = here / "pages"
    write_pages(pages, SEED, pages=6)
    draw = random.Random(SEED)
    bad = {"random.html": draw.randbytes(200_000), "random.txt": draw.randbytes(50_000), "empty.html": b"", "empty.txt": b"",
           "zeros.html": b"\0" * 10_000, "nested.html": b"<div>" * 100_000 + b"deep" + b"</div>" * 100_000,
           "unclosed.html": b"<b><i><a href=x>" * 20_000, "tables.html": b"<table><tr><td>" * 30_000,
           "attribute.html": b"<p " + b"a" * 300_000 + b'="' + b"x" * 300_000, "entities.html": b"&#x110000;&#xD800;&nope;" * 5000,
           "cut.html.gz": gzip.compress(page(draw, "en", 1).encode())[:300], "secret.html": page(draw, "en", 2).encode()}
    for name, data in bad.items():
        (pages / name).write_bytes(data)
    (pages / "secret.html").chmod(0)
    (pages / "dangling.html").symlink_to("nowhere")
    os.mkfifo(pages / "fifo.html")  # opening it would wait for ever
    (pages / "invalid.html").write_bytes(page(draw, "en", 99).encode().replace(b"network", b"net\xff\xfe\xc3work"))
    (here / "w.toml").write_text(HEADER + CURATE)
    done = call([*without_override(), LONGHAUL, "run", "w.toml"], here, 60)
    expect("the run survives", done.code == OK, done)
    out = newest_run(here) / "stages/c/out"
    sources = {json.loads(line)["source"] for file in ("documents.jsonl", "heldout.jsonl") for line in (out / file).open()}
    good = {f"{language}/page-{n}.html" for language in ("en", "de", "es") for n in range(6)}
    expect("every good page is kept, also the one with broken bytes", good | {"invalid.html"} <= sources, good - sources)
    removed = {r["source"]: r for r in map(json.loads, (out / "removed.jsonl").open())}
    expect("every bad one is reported", set(bad) <= set(removed) | {"nested.html"}, set(bad) - set(removed))
    for name in ("cut.html.gz", "secret.html"):
        expect(f"{name} is counted as unreadable", removed[name]["reason"] == "unreadable" and name in removed[name]["detail"], removed[name])
    steps = json.loads((out / "waterfall.json").read_text())
    expect("the waterfall counts them", {"reason": "unreadable", "documents": 2}.items() <= steps[0]["reasons"][0].items(), steps[0])
    total = sum(s["documents_in"] - s["documents_out"] for s in steps if s["step"] != "split")
    expect("what went in is kept or removed", steps[0]["documents_in"] == total + len(sources), (steps, len(sources)))
    warnings = [e for e in events(newest_run(here), "c", "message") if e.get("level") == "warn"]
    expect("and it is warned of", any("2 files could not be read" in w["text"] for w in warnings), warnings)
    text = (out / "documents.jsonl").read_bytes() + (out / "heldout.jsonl").read_bytes()
    text.decode("utf-8")  # raises where that is not so


@case
def an_empty_corpus(here):
    (here / "pages").mkdir()
    (here / "pages/a.html").write_text("<p>Too short.</p>")
    fails(here, CURATE, "no document is left of 1", "removed 1", "look into removed.jsonl", stage="c")
    write_pages(here / "pages", SEED, pages=2, languages=("en",))
    fails(here, CURATE + 'languages = ["ja"]\n', "no document is left", "name the languages of the inputs in `languages`", stage="c")


class Made:
    """A small trained model, its tokens and its questions, made once for all cases that damage a copy."""
    folder = None

    @classmethod
    def copy(cls, here):
        if cls.folder is None:
            import atexit
            import tempfile
            keep = tempfile.TemporaryDirectory(prefix="longhaul-test-made-")
            atexit.register(keep.cleanup)
            cls.folder = pathlib.Path(os.path.realpath(keep.name))
            write_pages(cls.folder / "pages", SEED, pages=8)
            (cls.folder / "w.toml").write_text(
                HEADER + CURATE.replace("stage.c]", "stage.corpus]") + TOKENS.replace('"corpus"', '"@corpus"') +
                '[stage.p]\nkind = "pretrain"\ninputs = { tokens = "@tokens" }\nthreads = 1\nsteps = 5\nsequence_length = 64\n'
                'micro_batch_size = 4\nglobal_batch_size = 4\n' + MODEL)
            longhaul(cls.folder, "run", "w.toml", code=OK)
        stages = newest_run(cls.folder) / "stages"
        shutil.copytree(stages / "p/out", here / "model")
        shutil.copytree(stages / "tokens/out", here / "tokens")
        write_questions(here / "questions", SEED)
        return here / "model", here / "tokens", here / "questions"


CONVERT = '[stage.s]\nkind = "convert"\ninputs = { model = "model" }\n'
EVALUATE = '[stage.s]\nkind = "evaluate"\ninputs = { model = "model", data = "questions" }\ntasks = ["answer_loss"]\n'
SFT = '[stage.s]\nkind = "sft"\ninputs = { model = "model", data = "questions/train.jsonl" }\nthreads = 1\nsequence_length = 64\n'
DEPLOY = '[stage.s]\nkind = "deploy"\nretries = 0\ninputs = { model = "model" }\n'
QUANTIZE = '[stage.s]\nkind = "quantize"\ninputs = { model = "model" }\n'
PRETRAIN = ('[stage.s]\nkind = "pretrain"\ninputs = { tokens = "tokens" }\nthreads = 1\nsteps = 2\nsequence_length = 64\n'
            'micro_batch_size = 1\nglobal_batch_size = 2\n' + MODEL)


def edit_header(path, edit):
    """The safetensors file with another header."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    name = next(n for n in header if n != "__metadata__")
    text = (edit(header[name]) or json.dumps(header)).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length:])


def edit_json(path, edit):
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))


@case
def truncated_and_absurd_weights(here):
    model, _, _ = Made.copy(here)
    weights = model / "model.safetensors"
    whole = weights.read_bytes()
    for size, says in ((0, "0 bytes, the header's length alone has 8"), (8, "is cut off in the header"),
                       (len(whole) - 1, "is cut off in tensor 'model.norm.weight'")):
        weights.write_bytes(whole[:size])
        fails(here, CONVERT, "model.safetensors", says, "copy or download the file again", stage="s")
    for text in (SFT, EVALUATE, QUANTIZE):  # the same for all that load weights
        fails(here, text, "model.safetensors", "is cut off in tensor 'model.norm.weight'", "copy or download the file again", stage="s")
    fails(here, DEPLOY, "model.safetensors", "is cut off in tensor", "its whole log is", stage="s")
    for length in (2**63, 2**40, len(whole) * 2):
        weights.write_bytes(struct.pack("<Q", length) + whole[8:])
        fails(here, CONVERT, "model.safetensors", "header", stage="s")
    for edit, says in ((lambda t: t.update(shape=[2**62, 2**62]), "negative or absurd"), (lambda t: t.update(shape=[-1]), "negative or absurd"),
                       (lambda t: t.update(data_offsets=[0, 2**62]), "data_offsets"), (lambda t: t.update(dtype="F9"), "dtype F9 is not supported"),
                       (lambda t: "[" * 100_000, "not a safetensors file")):
        weights.write_bytes(whole)
        edit_header(weights, edit)
        fails(here, CONVERT, "model.safetensors", says, stage="s")


@case
def configs_of_other_models(here):
    model, _, _ = Made.copy(here)
    config = model / "config.json"
    whole = config.read_text()
    for change, says in (({"model_type": "bert"}, "model_type 'bert' is not supported; llama, mistral, mixtral and gpt2 are"),
                         ({"hidden_size": "big"}, "hidden_size is not a whole number"), ({"hidden_size": -32}, "hidden_size"),
                         ({"num_attention_heads": 0}, "num_attention_heads"), ({"num_hidden_layers": 10**9}, "num_hidden_layers = 1000000000 is absurd")):
        edit_json(config, lambda c: c.update(change))
        for text in (CONVERT, SFT, DEPLOY):  # nothing is started for them
            refused(here, HEADER + text, str(config), says)
        config.write_text(whole)
    config.write_text(whole[:100])
    refused(here, HEADER + CONVERT, f"{config}", "not valid JSON")
    config.unlink()
    refused(here, HEADER + CONVERT, f"there is no {config}; a model is a folder with")
    config.write_text(whole)
    for change, says in (({"hidden_size": 10**6, "head_dim": 16}, "parameters, but the weights beside it have only"),
                         ({"vocab_size": 500}, "has the shape [400, 32], config.json asks for [500, 32]")):
        edit_json(config, lambda c: c.update(change))
        fails(here, CONVERT, str(config) if "shape" not in says else "model", says, stage="s")
        config.write_text(whole)


@case
def tokenizers_that_do_not_fit(here):
    model, _, _ = Made.copy(here)
    file = model / "tokenizer.json"
    whole = file.read_text()
    for edit, says in ((lambda t: t["model"].update(type="WordPiece"), "'WordPiece' is not supported; byte-level BPE is"),
                       (lambda t: t["model"]["vocab"].update(zzz=2**40), "the id of 'zzz' is not a sensible number"),
                       (lambda t: t["model"]["vocab"].update(zzz=-1), "the id of 'zzz' is not a sensible number"),
                       (lambda t: t["model"].update(merges=[["no", "such"]]), "'no' is not in the vocabulary")):
        edit_json(file, edit)
        fails(here, EVALUATE, str(file), says, stage="s")
        file.write_text(whole)
    file.write_text(whole[:2000])
    fails(here, EVALUATE, str(file), "not valid JSON", stage="s")
    fails(here, DEPLOY, str(file), "not valid JSON", stage="s")
    file.write_text(whole)
    edit_json(file, lambda t: t["added_tokens"].append({**t["added_tokens"][0], "id": 400, "content": "<|more|>"}))
    for text in (EVALUATE, SFT, DEPLOY):
        fails(here, text, "the tokenizer has 401 tokens, the model 400; model and tokenizer.json do not belong together", stage="s")


@case
def damaged_token_files(here):
    _, tokens, _ = Made.copy(here)
    index, data = tokens / "train.idx", tokens / "train.bin"
    whole_index, whole_data = index.read_bytes(), data.read_bytes()
    counts = whole_index[:18] + struct.pack("<Q", 2**62) + whole_index[26:]
    for name, damaged, says in ((index, whole_index[:-9], "is cut off"), (index, b"x" * 100, "does not begin with MMIDIDX"),
                                (index, b"", "does not begin with MMIDIDX"), (index, counts, "4611686018427387904 sequences"),
                                (data, whole_data[:-10], "cut off"), (data, b"\xff" * len(whole_data), "token 65535 is outside the model's vocabulary of 400")):
        name.write_bytes(damaged)
        fails(here, PRETRAIN, says, str(name) if "token 65535" not in says else "same tokenizer", stage="s")
        index.write_bytes(whole_index)
        data.write_bytes(whole_data)
    fails(here, PRETRAIN.replace("{ hidden", "{ vocab_size = 100, hidden"), "model.vocab_size = 100 is smaller than the tokenizer's 400; leave vocab_size out", stage="s")
    for ending in ("bin", "idx"):
        shutil.copy(tokens / f"heldout.{ending}", tokens / f"train.{ending}")
    fails(here, PRETRAIN.replace("_length = 64", "_length = 16384").replace("embeddings = 64", "embeddings = 16384"),
          "less than one sample of sequence_length + 1 = 16385", "use a sequence_length of at most", stage="s")
    data.unlink()
    refused_before(here, PRETRAIN, f"{data} is missing; tokens are a folder as the stage kind tokenize makes it")


@case
def lines_that_are_not_json(here):
    _, _, questions = Made.copy(here)
    train, answers = questions / "train.jsonl", questions / "answers.jsonl"
    good = '{"input": "a", "output": "b"}\n'
    for file, text in ((train, SFT), (answers, EVALUATE)):
        for line, says in (('{"input": "c"\n', "not valid JSON"), ('{"input": "c", "output": 3}\n', "'output' is integer, expected a text"),
                           ('{"messages": [{"role": "user"}]}\n', "content")):
            file.write_text(good + line)
            if says == "not valid JSON":
                refused_before(here, text, f"{file}:2: error:", says)
            file.write_text(good * 25 + line)  # behind the rows that are looked at before
            fails(here, text, f"{file}:26: error:", says, stage="s")
        file.write_bytes(good.encode() * 25 + b'{"input": "\xff", "output": "b"}\n')
        fails(here, text, f"{file}:26: error:", "UTF-8", stage="s")
    answers.write_text("")
    refused_before(here, EVALUATE, f"{answers} has no examples; one JSON object per line is expected")
    train.write_text("")
    refused_before(here, SFT, f"{train} has no examples; one JSON object per line is expected")
    (questions / "pairs.jsonl").write_text('{"prompt": "a", "chosen": "b"}\n')
    refused_before(here, SFT.replace('"sft"', '"align"').replace("train.jsonl", "pairs.jsonl"), "pairs.jsonl:1: error: 'rejected' is missing")
    (here / "corpus").mkdir()
    refused_before(here, TOKENS, "corpus/documents.jsonl is missing; the corpus is a folder as the stage kind curate makes it")
    for text, says in (('{"text": "a"}\n{"text":\n', "documents.jsonl:2: error:"), ('{"text": "a"}\n{"txt": "b"}\n', "documents.jsonl:2: error: 'text' is missing"),
                       ("", "no text to learn a vocabulary from")):
        (here / "corpus/documents.jsonl").write_text(text)
        fails(here, TOKENS, says, stage="tokens")
    # Two ranks see the same: each ends, none waits for the other.
    train.write_text(good * 25 + "nonsense\n")
    fails(here, SFT + "ranks = 2\n", f"{train}:26: error:", stage="s")


# --- the machine refuses ---


class SmallDisk:
    """A file system of its own, `size_kb` large."""

    def __init__(self, folder, size_kb):
        self.folder = folder
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", folder], check=True, capture_output=True)

    def fill(self, leave_kb):
        space = os.statvfs(self.folder)
        with open(self.folder / "ballast", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, space.f_bavail * space.f_frsize - leave_kb * 1024))

    def make_room(self):
        (self.folder / "ballast").unlink()

    def close(self):
        subprocess.run(["umount", "-l", self.folder], check=False)


def full_disk_workflow(count, gate):
    """Something made, counted from outside; a gate that waits for `gate` where one is given; then what needs space."""
    wait = f"touch {gate}.reached; until test -e {gate}; do sleep 0.02; done" if gate else "true"
    return (HEADER + f'[stage.before]\nkind = "command"\nscript = "echo made > $LONGHAUL_OUT/made; echo once >> {count}"\n'
            f'[stage.gate]\nkind = "command"\nneeds = ["before"]\nscript = "{wait}"\n' + CURATE + 'needs = ["gate"]\n' +
            TOKENS.replace('"corpus"', '"@c"'))


def check_full_disk_recovery(here, run_dir, count, before):
    run = run_dir
    for stage in ("c", "tokens"):
        out = run / "stages" / stage / "out"
        if out.exists():  # published before the disk was full: whole
            listed = json.loads((out / "manifest.json").read_text())["files"]
            expect("what is published is whole", all((out / f["path"]).stat().st_size == f["bytes"] for f in listed), listed)
    expect("the earlier artifact is intact", snapshot(run / "stages/before/out") == before)
    longhaul(here, "resume", run, code=OK)
    expect("it was not made again", count.read_text() == "once\n")
    expect("nor touched", snapshot(run / "stages/before/out") == before)
    for stage in ("c", "tokens"):
        expect(f"{stage} is there now", (run / "stages" / stage / "out/manifest.json").exists())
    expect("nothing half-written is left beside them", not list(run.rglob("*.tmp.*")), list(run.rglob("*.tmp.*")))


@case
def full_disk(here):
    if os.environ.get("LONGHAUL_TEST_FULL_DISK") != "limit":
        inside = os.environ.get("LONGHAUL_TEST_FULL_DISK") == "inside"
        probe = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", here]
        may_mount = inside or (os.geteuid() == 0 and subprocess.run(probe, capture_output=True).returncode == 0)
        if may_mount and not inside:
            subprocess.run(["umount", here], check=True)
        if not may_mount:  # in a user namespace of its own everybody may
            command = ["unshare", "--user", "--map-root-user", "--mount"]
            if subprocess.run([*command, *probe], capture_output=True).returncode == 0:
                done = call([*command, sys.executable, __file__, *sys.argv[1:3], "full_disk"], here, 90,
                            env={**os.environ, "LONGHAUL_TEST_FULL_DISK": "inside"})
                return expect("the same in a namespace of its own", done.code == 0, done)
            print("no tmpfs may be mounted here: files are limited in size instead")
            return full_disk_as_limit(here)
        return full_disk_as_tmpfs(here)
    full_disk_as_limit(here)


def full_disk_as_tmpfs(here):
    programs_kb = sum(program(p).stat().st_size for p in ("longhaul", "longhaul-worker", "longhaul-engine")) // 1024
    write_pages(here / "pages", SEED, pages=20)
    disk = SmallDisk(here / "disk", programs_kb // 2)
    try:
        (here / "w.toml").write_text(HEADER + CURATE)
        done = longhaul(here, "run", "w.toml", "--runs-dir", disk.folder / "runs", code=SYSTEM,
                        says=("cannot create a run", "No space left on device", "free disk space"))
        expect("no half a run is left", not list((disk.folder / "runs").iterdir()), done)
        longhaul(here, "status", "--runs-dir", disk.folder / "runs", code=NOT_FOUND)
    finally:
        disk.close()
    for leave_kb in (0, 100, 240):
        place = here / f"leave-{leave_kb}"
        disk = SmallDisk(place, programs_kb + 20_000)
        try:
            count, gate = here / f"count-{leave_kb}", here / f"gate-{leave_kb}"
            (here / "w.toml").write_text(full_disk_workflow(count, gate))
            process = subprocess.Popen([LONGHAUL, "run", "w.toml", "--runs-dir", place / "runs"], cwd=here, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
            wait_for("the first stage is done", pathlib.Path(f"{gate}.reached").exists)
            run = next((place / "runs").glob("x-*"))
            before = snapshot(run / "stages/before/out")
            disk.fill(leave_kb)
            gate.write_text("")
            try:
                out, _ = process.communicate(timeout=60 * PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            expect(f"it fails with {leave_kb} KiB left", process.returncode in (RUN_FAILED, SYSTEM), (process.returncode, out))
            reported = "No space left on device" in out or "are free on the file system" in out
            expect("the cause is reported", reported, out)
            disk.make_room()
            check_full_disk_recovery(here, run, count, before)
        finally:
            disk.close()


def full_disk_as_limit(here):
    """Where nothing can be mounted: no file may grow beyond 100 KiB, and the write that would answers EFBIG."""
    # Beside the programs, which are then linked and not copied.
    place = pathlib.Path(os.path.realpath(LONGHAUL)).parent / f"limited-{os.getpid()}"
    place.mkdir()
    try:
        write_pages(here / "pages", SEED, pages=30)
        count = here / "count"
        (here / "w.toml").write_text(full_disk_workflow(count, None))
        done = call([LONGHAUL, "run", "w.toml", "--runs-dir", place / "runs"], here, 60, restore_signals=False,
                    preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                                        resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, 100 << 10))))
        expect("the cause is reported", done.code == RUN_FAILED and "File too large" in done.text and "free disk space" in done.text, done)
        run = next((place / "runs").glob("x-*"))
        check_full_disk_recovery(here, run, count, snapshot(run / "stages/before/out"))
    finally:
        shutil.rmtree(place)


class TwoRanks:
    """A training on two MPI ranks, in a process group of its own, whose ranks can be found."""

    def __init__(self, here, name, retries, *options, steps=2000):
        self.folder = here / name
        (here / f"{name}.toml").write_text(
            HEADER.replace('"x"', f'"{name}"') + PRETRAIN.replace("steps = 2", f"steps = {steps}").replace("_size = 2\n", "_size = 4\n") +
            f"ranks = 2\nretries = {retries}\nseed = {retries + 1}\ncheckpoint = {{ every_steps = 100 }}\n")
        self.process = subprocess.Popen([LONGHAUL, "run", f"{name}.toml", *options], cwd=here, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        self.run = wait_for("a run", lambda: next((r for r in runs(here) if r.name.startswith(name + "-")), None))
        self.attempt = self.run / "stages/s/attempts/1"
        wait_for("an attempt", (self.attempt / "claim.json").exists)
        key = next(line.split('"')[1] for line in (self.attempt / "attempt.toml").read_text().splitlines() if line.startswith("key"))
        self.entry = f"LONGHAUL_ATTEMPT_KEY={key}"

    def ranks(self, launch, saved=True):
        """Process ids of both ranks of this launch, once they have saved something; [] where the job has ended."""
        def found():
            if self.process.poll() is not None:
                return ["ended"]
            ids = [p for p in processes_holding(self.entry) if self.is_rank(p, launch)]
            return ids if len(ids) == 2 and (not saved or self.checkpoints(launch)) else None
        ids = wait_for(f"two ranks of launch {launch}", found, shown=self.story)
        return [] if ids == ["ended"] else ids

    def story(self):
        reported = [json.dumps(e) for e in events(self.run, "s") if e["kind"] != "metric"]
        alive = [(p, pathlib.Path(f"/proc/{p}/cmdline").read_bytes()[:300]) for p in processes_holding(self.entry)]
        return "\n".join(reported[-25:] + [(self.attempt / "lead.log").read_text()[-3000:], f"alive: {alive}"])

    @staticmethod
    def is_rank(pid, launch):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return words[0].endswith(b"longhaul-engine") and any(f"launches/{launch}/".encode() in w for w in words)

    def checkpoints(self, launch):
        """Has this launch saved one?"""
        facts = events(self.run, "s")
        begun = [i for i, e in enumerate(facts) if e["kind"] == "launched" and e["launch"] == launch]
        return begun and any(e["kind"] == "checkpoint" for e in facts[begun[0]:])

    def end(self):
        try:
            out, _ = self.process.communicate(timeout=180 * PATIENCE)
            return out
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    def record(self):
        return json.loads((self.attempt / "record.json").read_text())


def no_process_is_left(job):
    wait_for("no process of the attempt is left", lambda: not processes_holding(job.entry), 10, lambda: processes_holding(job.entry))


@case
def one_rank_is_killed(here):
    Made.copy(here)
    job = TwoRanks(here, "killed-once", retries=1, steps=1000)
    os.kill(job.ranks(1)[1], signal.SIGKILL)
    out = job.end()
    record = job.record()
    expect("the ranks are started again and end well", job.process.returncode == OK and record["launches"] == 2, (record, out))
    facts = events(job.run, "s")
    fault = next(e for e in facts if e["kind"] == "fault")
    expect("the cause names the signal or the rank", "signal 9" in fault["cause"] or "rank 1" in fault["cause"], fault)
    launched = next(i for i, e in enumerate(facts) if e["kind"] == "launched" and e["launch"] == 2)
    steps = [e["step"] for e in facts[launched:] if e["kind"] == "metric" and "loss" in e]
    expect("from its checkpoint, to its end", steps[0] > 100 and steps[0] % 100 == 1 and steps[-1] == 1000, (steps[0], steps[-1]))
    no_process_is_left(job)


@case
def one_rank_is_killed_every_time(here):
    Made.copy(here)
    job = TwoRanks(here, "killed-always", retries=0)
    kills = 0
    while kills < 8 and (ranks := job.ranks(kills + 1, saved=kills == 0)):  # afterwards it gets no further
        os.kill(ranks[0], signal.SIGKILL)
        kills += 1
    start = time.monotonic()
    out = job.end()
    record = job.record()
    expect("it fails, and soon", job.process.returncode == RUN_FAILED and time.monotonic() - start < 20, out)
    expect("it was started more than once, and not for ever", record["launches"] == kills < 8, (record, kills))
    expect("the cause is reported", "signal 9" in record["cause"] and "(all ranks, exit code 137)" in out, (record, out))
    expect("nothing is published", not (job.run / "stages/s/out").exists())
    no_process_is_left(job)


@case
def ranks_that_are_asked_to_stop_have_time_to_save(here):
    """A launcher that gets the signal itself gives its ranks a second: they get it first, and it waits for them."""
    Made.copy(here)
    plan = here / "plan"
    plan.write_text("follow\n")
    job = TwoRanks(here, "reported", 0, "--worker-fault-plan", str(plan))
    job.ranks(1)
    with open(plan, "a") as file:
        file.write("checkpoint_before_manifest delay_ms=3000\n")
    time.sleep(1)  # until it is read
    start = time.monotonic()
    longhaul(here, "cancel", job.run)
    job.end()
    expect("it took its time", 3 < time.monotonic() - start < 30, time.monotonic() - start)
    facts = events(job.run, "s")
    last = [e["step"] for e in facts if e["kind"] == "checkpoint"][-1]
    done = [e["step"] for e in facts if e["kind"] == "metric" and "loss" in e][-1]
    expect("the last step that was made is saved", last == done, (last, done, job.story()))
    no_process_is_left(job)


@case
def clients_of_a_real_model(here):
    """What server_test.py shows with a fake model holds for a deployed one: a client that drips is cut off while others are
    answered, a body too large is refused, and what is no request does not end the server."""
    Made.copy(here)
    (here / "w.toml").write_text(HEADER + DEPLOY + 'leave_running = true\nheader_deadline = "2s"\nbody_max = "4KiB"\nmax_tokens = 8\n')
    longhaul(here, "run", "w.toml", code=OK)
    file = newest_run(here) / "stages/s/out/endpoint.json"
    try:
        endpoint = json.loads(file.read_text())
        host, port = endpoint["url"].removeprefix("http://").split(":")
        token = pathlib.Path(endpoint["token_file"]).read_text().strip()

        def ask(body, deadline_s=10):
            client = http.client.HTTPConnection(host, int(port), timeout=deadline_s)
            client.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {token}"})
            answer = client.getresponse()
            return answer.status, answer.read().decode()

        good = json.dumps({"prompt": "The old", "max_tokens": 4, "temperature": 0})
        expect("it answers", ask(good)[0] == 200)
        drip = socket.create_connection((host, int(port)), timeout=10 * PATIENCE)
        drip.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 500\r\n\r\n{{".encode())
        start, longest, closed = time.monotonic(), 0.0, None
        drip.settimeout(0.05)
        while time.monotonic() - start < 8 and closed is None:
            asked = time.monotonic()
            expect("others are answered meanwhile", ask(good)[0] == 200)
            longest = max(longest, time.monotonic() - asked)
            try:
                drip.sendall(b" ")
                drip.recv(1000)  # an answer, or the end
                closed = time.monotonic() - start
            except socket.timeout:
                time.sleep(0.9)
            except OSError:
                closed = time.monotonic() - start
        drip.close()
        expect("the client that drips is cut off at its deadline", closed is not None and 1 < closed < 6, closed)
        expect("others did not wait for it", longest < 2, longest)
        code, text = ask(json.dumps({"prompt": "x" * 100_000}))
        expect("a large body is refused, with its bound", code == 413 and "error" in text, (code, text))
        for body, codes in (("{", (400,)), ('{"prompt": 3}', (400,)), ('{"prompt": "' + "long " * 500 + '", "max_tokens": 4}', (400,)),
                            ('{"prompt": "x", "max_tokens": -1}', (400,)), ('{"prompt": "x", "temperature": "hot"}', (400,)),
                            ("[" * 4000, (400,)), ("", (400,))):
            code, text = ask(body)
            expect(f"{body[:30]} is refused with a message", code in codes and json.loads(text)["error"]["message"], (code, text))
        expect("it still answers", ask(good)[0] == 200)
    finally:
        stopped = call([program("longhaul-engine"), "stop-server", "--endpoint", file], here)
    expect("it stops as asked", stopped.code == 0, stopped)


if __name__ == "__main__":
    main()
