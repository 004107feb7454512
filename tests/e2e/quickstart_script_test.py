#!/usr/bin/env python3
"""scripts/quickstart itself, from its first line to its last, in a checkout where what takes long is played: packages, build,
corpus and the program write down how they were called and leave what the real ones leave.

usage: quickstart_script_test.py LONGHAUL SOURCE_DIR [words of case names]
"""
import os
import pathlib
import shutil
import stat
import time

from scenario import SOURCE, call, case, expect, main

CALLED = '#!/usr/bin/env bash\necho "$(basename "$0") $*" >>"$CALLS"\n'
LONGHAUL = CALLED + """
run=runs/quickstart-20261128-1
if [ "$1" = run ]; then
  mkdir -p "$run/report" "$run/stages/deploy" "$run/artifacts/digest"
  [ -n "${NO_REPORT:-}" ] || echo ok >"$run/report/index.html"
  echo "3 of 4 answers are right" >"$run/artifacts/digest/digest.txt"
  echo '{"kind": "endpoint", "url": "http://127.0.0.1:8123", "token_file": "/run/token"}' >"$run/stages/deploy/events.jsonl"
  exit "${RUN_ENDS:-0}"
fi
printf '{"stages": [\\n{"id": "digest",\\n"artifact": "%s"\\n}]}\\n' "$run/artifacts/digest"
"""


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def checkout(here):
    """A folder with the script, and programs that stand in for what it calls."""
    root = here / "checkout"
    (root / "scripts").mkdir(parents=True)
    shutil.copy(SOURCE / "scripts/quickstart", root / "scripts/quickstart")
    program(root / "scripts/install-packages", CALLED)
    program(root / "scripts/fetch-corpus", CALLED + '[ -z "${NO_NETWORK:-}" ] || { echo "no mirror answers"; exit 1; }\n'
            'mkdir -p "$1"; [ -z "${SLOW_NETWORK:-}" ] || { sleep 600 & echo $! >fetching; wait; }\n')
    (root / "workflows").mkdir()
    shutil.copy(SOURCE / "workflows/quickstart.toml", root / "workflows/quickstart.toml")
    program(here / "bin/cmake", CALLED + 'case "$*" in --build*)\n'
            'until [ -z "${SLOW_NETWORK:-}" ] || [ -s fetching ]; do sleep 0.05; done\n'
            '[ -z "${NO_BUILD:-}" ] || exit 1\n'
            'mkdir -p build/quickstart/bin; cp "$PLAYED" build/quickstart/bin/longhaul ;; esac\n')
    program(here / "bin/nvidia-smi", CALLED + '[ -n "${A_GPU:-}" ] && echo "GPU 0: played"\n')
    program(here / "played", LONGHAUL)
    return root


def alive(pid):
    """Whether a process is there that has not ended; an ended one is given ten seconds to go."""
    for _ in range(200):
        try:
            if (pathlib.Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return False
        except OSError:
            return False
        time.sleep(0.05)
    return True


def start(here, root, *arguments, **more):
    calls = here / "calls"
    calls.unlink(missing_ok=True)
    environment = {**os.environ, "PATH": f"{here / 'bin'}:{os.environ['PATH']}", "CALLS": str(calls),
                   "PLAYED": str(here / "played"), **more}
    done = call([root / "scripts/quickstart", *arguments], here, env=environment)
    return done, calls.read_text().splitlines() if calls.exists() else []


@case
def it_goes_from_packages_to_a_server_and_says_where_everything_is(here):
    root = checkout(here)
    done, calls = start(here, root, "--set", "params.pretrain_steps=7")
    expect("it succeeds", done.code == 0, done)
    calls = [one for one in calls if not one.startswith("nvidia-smi")]
    names = [one.split()[0] for one in calls]
    expect("packages, configuration, build and corpus side by side, run, in this order",
           names[:2] + sorted(names[2:4]) + names[4:] ==
           ["install-packages", "cmake", "cmake", "fetch-corpus", "longhaul", "longhaul"], calls)
    expect("packages to build and to run", calls[0] == "install-packages build runtime", calls[0])
    expect("no CUDA where no GPU answers", "-DLONGHAUL_CUDA=OFF" in calls[1], calls[1])
    run = calls[4]
    expect("the workflow, and the user's settings last", run.startswith("longhaul run workflows/quickstart.toml ")
           and run.endswith("--set params.pretrain_steps=7"), run)
    expect("a precision that this processor has", 'params.precision="bf16"' in run or 'params.precision="f32"' in run, run)
    expect("two ranks, or one on one core", f"params.ranks={min(2, len(os.sched_getaffinity(0)))}" in run, run)
    for said in ("3 of 4 answers are right", "run:     runs/quickstart-20261128-1",
                 f"report:  {root}/runs/quickstart-20261128-1/report/index.html",
                 "server:  http://127.0.0.1:8123   token: /run/token"):
        expect(said, said in done.out, done)
    table = [line.split()[0] for line in done.out.splitlines() if line.split() and line.split()[-1].isdigit()]
    expect("a table of phases", table == ["pieces", "packages", "configure", "build", "corpus", "run", "total"], done)


@case
def a_gpu_that_answers_is_built_for(here):
    done, calls = start(here, checkout(here), A_GPU="yes")
    expect("with CUDA", done.code == 0 and any("-DLONGHAUL_CUDA=ON" in one for one in calls), done)


@case
def what_fails_is_named_and_nothing_comes_after_it(here):
    root = checkout(here)
    done, calls = start(here, root, NO_NETWORK="yes")
    expect("the corpus: its own message, its phase, and no run", done.code != 0 and "no mirror answers" in done.out
           and "quickstart: failed in: corpus" in done.err and not any("longhaul" in one.split()[0] for one in calls), done)
    done, calls = start(here, root, NO_BUILD="yes", SLOW_NETWORK="yes")
    expect("a build that fails waits for no corpus", done.code != 0 and "quickstart: failed in: build" in done.err, done)
    expect("and ends its fetching", not alive(int((root / "fetching").read_text())), done)
    for more, phase, last in (({"NO_BUILD": "yes"}, "build", None), ({"RUN_ENDS": "5"}, "run", "longhaul"),
                              ({"NO_REPORT": "yes"}, None, "longhaul")):
        shutil.rmtree(root / "runs", ignore_errors=True)
        done, calls = start(here, root, **more)
        expect("it fails", done.code != 0, done)
        if last:
            expect("what was last", calls[-1].split()[0] == last, calls)
        else:
            expect("nothing was run", not any(one.startswith("longhaul ") for one in calls), calls)
        if phase:
            expect("the phase", f"quickstart: failed in: {phase}" in done.err, done)
        else:
            expect("what is missing", "has no report/index.html" in done.err, done)
    (root / "workflows/quickstart.toml").unlink()
    done, calls = start(here, root)
    expect("a piece that is missing is said before anything is installed",
           done.code == 1 and not calls and "workflows/quickstart.toml is missing from this checkout" in done.err, done)


@case
def help_does_nothing(here):
    done, calls = start(here, checkout(here), "--help")
    expect("help", done.code == 0 and not calls and "From a bare Debian 12" in done.out, done)


if __name__ == "__main__":
    main()
