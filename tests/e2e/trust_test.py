#!/usr/bin/env python3
"""Runs of other people: looking at one never acts, acting upon one is refused, and a shared one keeps what is private.

usage: trust_test.py LONGHAUL SOURCE_DIR [CASE...]

The users are uids that nobody has; only root can become them.
"""
import grp
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import time

from scenario import LONGHAUL, PATIENCE, Skip, call, case, expect, longhaul, main, newest_run, wait_for

# Of this run alone: what these users have left is ended, and another run may be under way on the host.
ANA, BEN, EVE = (41000 + 4 * (os.getpid() % 4096) + number for number in range(3))
LOOKING = (["status"], ["status", "--json"], ["status", "--metrics"], ["logs"], ["faults"], ["report"], ["support-bundle"])
ACTING = (["resume"], ["cancel"], ["tick"], ["tell"], ["notify"], ["fork"])


class People:
    """An installation that all can use, and folders of several users."""

    def __init__(self, here, group=""):
        if os.geteuid() != 0:
            raise Skip("needs root to become other users")
        self.here = here
        here.chmod(0o755)
        self.programs = here / "bin"
        self.programs.mkdir()
        for name in ("longhaul", "longhaul-worker", "longhaul-engine"):
            if (LONGHAUL.parent / name).exists():
                shutil.copy(LONGHAUL.parent / name, self.programs / name)
        sites = here / "share/longhaul/site-configs"
        sites.mkdir(parents=True)
        (sites / "ours.toml").write_text('name = "ours"\n' + (f'group = "{group}"\n' if group else ""))

    def folder(self, name, uid, mode=0o755):
        path = self.here / name
        path.mkdir()
        os.chown(path, uid, uid)
        path.chmod(mode)
        return path

    def start(self, uid, cwd, *arguments, gid=None, umask=0o022, program=None, **more):
        def become():
            os.setgroups([gid] if gid else [])
            os.setgid(gid or uid)
            os.setuid(uid)
            os.umask(umask)
        return subprocess.Popen([str(program or self.programs / "longhaul"), *map(str, arguments)], cwd=cwd, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=become, start_new_session=True, **more)

    def call(self, uid, cwd, *arguments, code=None, says=(), **more):
        process = self.start(uid, cwd, *arguments, **more)
        out, _ = process.communicate(timeout=120 * PATIENCE)
        for part in [says] if isinstance(says, str) else says:
            expect(f"{' '.join(map(str, arguments))} as {uid} says: {part}", part in out, out)
        expect(f"{' '.join(map(str, arguments))} as {uid}: exit code {code}", code is None or process.returncode == code,
               f"exit code {process.returncode}\n{out}")
        return out


def processes_of(uid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == uid and (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def end_all_of(uid):
    for pid in processes_of(uid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    wait_for(f"nothing of uid {uid} is left", lambda: not processes_of(uid), 20)


def tree(folder):
    """Everything below, links and pipes too, with what would change if somebody wrote."""
    found = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        found[str(path.relative_to(folder))] = (info.st_mode, info.st_uid, info.st_gid, info.st_size, info.st_mtime_ns)
    return found


def left_run(people, driver="lead"):
    """A run of Ana's whose driver and job have died, as if its own jobs were to drive it; whoever drives it runs her script."""
    home = people.folder("ana", ANA)
    (home / "w.toml").write_text(f'[workflow]\nname = "trap"\n[stage.a]\nkind = "command"\nscript = "id -u >> {home}/ran-as; touch {home}/begun; sleep 300"\n')
    process = people.start(ANA, home, "run", "w.toml", "--site", "ours")
    wait_for("the job has begun", lambda: (home / "begun").exists() or process.poll() is not None, 60)
    expect("the run goes on", process.poll() is None, process.communicate()[0] if process.poll() is not None else "")
    end_all_of(ANA)
    process.wait()
    process.stdout.close()
    run = newest_run(home)
    frozen = (run / "resolved.toml").read_text()
    (run / "resolved.toml").write_text(frozen.replace('driver = "here"', f'driver = "{driver}"'))
    (run / "log/pulse").unlink(missing_ok=True)
    worker = run / "bin/longhaul-worker"
    worker.unlink()
    worker.write_text(f"#!/bin/sh\nid -u >> {home}/ran-as\n")
    worker.chmod(0o755)
    (home / "ran-as").unlink()
    for path in [home, *home.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o666 | (0o111 if path.is_dir() else 0))
    return home, run


def arguments_of(words, run):
    return {"logs": ["logs", run, "a"], "tell": ["tell", run, "checkpoint"],
            "fork": ["fork", run, "--from", "a"]}.get(words[0], [words[0], run, *words[1:]])


@case
def trust_looking_at_anothers_run_never_acts(here):
    people = People(here)
    home, run = left_run(people)
    ben = people.folder("ben", BEN)
    before = tree(home)
    for words in LOOKING:
        out = people.call(BEN, ben, *arguments_of(words, run))
        expect(f"{words} changes nothing below the run", tree(home) == before,
               [(k, before.get(k), v) for k, v in tree(home).items() if before.get(k) != v][:5] + [out])
    said = people.call(BEN, ben, "status", run, code=0, says=[f"a run of uid {ANA}", "its jobs drive this run on", f"longhaul tick {run} --until-quiet"])
    expect("nothing was submitted", "attempt 2" not in said, said)
    people.call(BEN, ben, "completion", "words", "stages", run, code=0)
    people.call(0, here, "status", run, code=0)
    time.sleep(0.5)
    expect("nothing ran", not (home / "ran-as").exists() and not processes_of(BEN), processes_of(BEN))
    expect("what was made lies with the one who looked", (ben / f"{run.name}-report/index.html").exists() and (ben / f"{run.name}.tar.gz").exists())


@case
def trust_acting_upon_anothers_run_is_refused(here):
    people = People(here)
    home, run = left_run(people)
    ben = people.folder("ben", BEN)
    # What its own site file says counts for nothing.
    (run / "site.toml").write_text((run / "site.toml").read_text() + '\ngroup = "users"\n')
    before = tree(home)
    for words in ACTING:
        people.call(BEN, ben, *arguments_of(words, run), code=3, says=[f"{run}/bin is a folder of uid {ANA}", "mode 0777", "its owner can"])
        people.call(0, here, *arguments_of(words, run), code=3, says=["root acts upon its own runs only"])
    expect("nothing changed", tree(home) == before)
    # Nor where everybody may change what she executes.
    people.call(ANA, home, "cancel", run, code=3, says="chmod -R o-w")
    for path in [run, *(run / name for name in ("log", "bin", "resolved.toml", "site.toml"))]:
        path.chmod(path.stat().st_mode & ~0o002)
    people.call(BEN, ben, "cancel", run, code=3, says=f"uid {ANA}")
    expect("nothing ran", not (home / "ran-as").exists())


@case
def trust_the_newest_run_is_ones_own(here):
    people = People(here)
    shared = people.folder("shared", 0, 0o1777)
    for uid, name in ((ANA, "mine"), (BEN, "theirs")):
        (shared / f"{name}.toml").write_text(f'[workflow]\nname = "{name}"\n[stage.a]\nkind = "command"\nscript = "true"\n')
    (shared / "runs").mkdir()
    (shared / "runs").chmod(0o1777)
    people.call(ANA, shared, "run", "mine.toml", "--site", "ours", code=0)
    (forged := shared / "runs/zz-99991231-235959-ffff").mkdir()
    (forged / "resolved.toml").write_text("broken")
    for path in (forged, forged / "resolved.toml"):
        os.chown(path, BEN, BEN)
    people.call(ANA, shared, "status", code=0, says=["run mine-", "succeeded"])
    people.call(ANA, shared, "status", "latest", code=0, says="run mine-")
    people.call(EVE, shared, "status", code=4, says=["none of the runs", "is yours"])


@case
def trust_names_are_data_to_the_shell_that_completes(here):
    """In real shells: a folder and a stage whose names are commands are not executed, and not offered."""
    runs = here / "runs"
    for name in ("x$(touch${IFS}f)", "y`touch${IFS}f`", "z;touch${IFS}f", "good"):
        run = runs / f"{name}-20260101-000000-abcd"
        run.mkdir(parents=True)
        (run / "resolved.toml").write_text('file = "longhaul run"\nformat = 1\n[run]\nname = "r"\n')
    (here / "e$(touch f).toml").touch()
    for kind in ("runs", "stages"):
        words = longhaul(here, "completion", "words", kind, code=0).out
        expect(f"{kind}: only plain names", not set(words) & set("$`;{(' "), words)
    (script := here / "completion.bash").write_text(longhaul(here, "completion", "bash", code=0).out)
    for line in script.read_text().splitlines():
        if "compgen -W" in line and not line.startswith("#"):
            words = line.split('compgen -W "', 1)[1].split('"', 1)[0]
            expect("compgen -W gets literals alone", "$" not in words and "`" not in words, line)
    for line in ("longhaul status ", "longhaul logs ", "longhaul logs latest ", "longhaul status x", "longhaul gc --pin ", "longhaul run ",
                 "longhaul run e", "longhaul run w.toml --site ", "longhaul report --output "):
        done = call(["bash", "-c", f"""source {script}
COMP_LINE={json.dumps(line)}; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({LONGHAUL} x); COMP_CWORD=1
_longhaul; printf '%s\\n' "${{COMPREPLY[@]}}" """], here)
        expect(f"'{line}' says nothing on its own", done.code == 0 and not done.err, done)
        if line == "longhaul status ":
            expect("the honest one is offered", set(done.out.split()) == {"latest", "good-20260101-000000-abcd"}, done)
        expect(f"'{line}' executes nothing", not [p for p in here.rglob("f") if p.is_file()], done)
    if shutil.which("fish"):
        (fish := here / "completion.fish").write_text(longhaul(here, "completion", "fish", code=0).out)
        done = call(["fish", "-c", f"set -x PATH {LONGHAUL.parent} $PATH; source {fish}; complete -C 'longhaul status '"], here,
                    env={**os.environ, "HOME": str(here)})
        expect("fish offers the honest one", "good-2026" in done.out and "touch" not in done.out, done)
        expect("fish executes nothing", not [p for p in here.rglob("f") if p.is_file()], done)
    if shutil.which("zsh"):
        (here / "completion.zsh").write_text(longhaul(here, "completion", "zsh", code=0).out)
        (here / "play.zsh").write_text(f"""PATH={LONGHAUL.parent}:$PATH; zmodload zsh/zpty; zpty z zsh -f -i
zpty -w z "PS1=; source completion.zsh; echo rea''dy"; zpty -r -m z out '*ready*'
zpty -w -n z $'longhaul status \\t\\t'; all=
repeat 100; do while zpty -r -t z out; do all+=$out; done; [[ $all == *good-2026* ]] && break; sleep 0.5; done
print -r -- "$all"; zpty -d z
""")
        done = call(["zsh", "-f", "play.zsh"], here, deadline_s=60, env={**os.environ, "HOME": str(here), "TERM": "dumb", "ZDOTDIR": str(here)})
        expect("zsh offers the honest one", "good-2026" in done.out and "touch" not in done.out, done)
        expect("zsh executes nothing", not [p for p in here.rglob("f") if p.is_file()], done)


@case
def trust_a_run_of_a_group_is_the_groups_alone_under_any_umask(here):
    """Ana's umask is 022 and Ben's 077; Eve is in no group of theirs."""
    people = People(here, group="users")
    group = grp.getgrnam("users").gr_gid
    for path in ("bin", "share"):
        subprocess.run(["chmod", "-R", "go+rX", here / path], check=True)
    work = people.folder("work", ANA)
    os.chown(work, ANA, group)
    homes = {uid: people.folder(f"home-{uid}", uid) for uid in (ANA, BEN)}
    (work / "w.toml").write_text(f'[workflow]\nname = "ours"\n[stage.a]\nkind = "command"\nscript = "echo x > $LONGHAUL_OUT/made; touch $HOME/by-a"\n'
                                 f'[stage.b]\nkind = "command"\nneeds = ["a"]\nretries = 0\nscript = "touch $HOME/by-b; umask > {here}/umask; test -e {here}/go"\n')
    (work / "w.toml").chmod(0o644)
    here.chmod(0o777)
    homes_env = {uid: {**os.environ, "HOME": str(path)} for uid, path in homes.items()}
    people.call(ANA, work, "run", "w.toml", "--site", "ours", gid=group, code=5, env=homes_env[ANA])
    run = newest_run(work)
    for path in [run, *run.rglob("*")]:
        info = path.lstat()
        linked = stat.S_ISREG(info.st_mode) and (info.st_nlink > 1 or run / "bin" in path.parents)  # programs of the installation
        expect(f"{path.relative_to(run)} is not for others", linked or info.st_mode & 0o007 == 0, oct(info.st_mode))
    expect("what the script wrote elsewhere has the user's umask", (homes[ANA] / "by-a").stat().st_mode & 0o777 == 0o644)
    expect("and what it ran under", (here / "umask").read_text().strip() == "0022", (here / "umask").read_text())
    people.call(EVE, here, "status", run, code=4)
    # Never by the run's own programs, whatever they are by now.
    (run / "bin/longhaul-worker").unlink()
    (run / "bin/longhaul-worker").write_text(f"#!/bin/sh\nid -u >> {here}/evil\n")
    (run / "bin/longhaul-worker").chmod(0o755)
    (here / "go").touch()
    (here / "umask").unlink()
    people.call(BEN, here, "status", run, gid=group, umask=0o077, code=5, says=f"a run of uid {ANA}")
    refused = people.call(BEN, here, "resume", run, gid=group, umask=0o077, code=3, program=run / "bin/longhaul")
    expect("not with the run's own longhaul", "never driven by its own" in refused, refused)
    people.call(BEN, here, "resume", run, gid=group, umask=0o077, code=0, env=homes_env[BEN])
    expect("the installation's worker did it", not (here / "evil").exists() and (run / "stages/b/attempts/2").stat().st_uid == BEN)
    attempt = (run / "stages/b/attempts/2/attempt.toml").read_text()
    expect("and its engine", str(people.programs / "longhaul-engine") in attempt, attempt)
    expect("Ben's umask stays his", (here / "umask").read_text().strip() == "0077" and (homes[BEN] / "by-b").stat().st_mode & 0o777 == 0o600)
    said = people.call(ANA, work, "status", run, gid=group, code=0, says=["asked: resume", f"by uid {BEN}", f"last driven by uid {BEN}"])
    expect("Ana reads all of it", "succeeded" in said, said)
    for path in (run / "stages/b/attempts/2").rglob("*.log"):
        expect("also the logs", path.stat().st_gid == group and path.stat().st_mode & 0o044 == 0o040, oct(path.stat().st_mode))


@case
def trust_readers_look_and_a_private_run_is_nobody_elses(here):
    people = People(here)
    group = grp.getgrnam("users").gr_gid
    sites = here / "share/longhaul/site-configs"
    (sites / "read.toml").write_text('name = "read"\nreaders = "users"\n')
    (sites / "shut.toml").write_text('name = "shut"\nprivate = true\n')
    (sites / "both.toml").write_text('name = "both"\nprivate = true\nreaders = "users"\n')
    work = people.folder("work", ANA)
    (work / "w.toml").write_text('[workflow]\nname = "mine"\n[stage.a]\nkind = "command"\nscript = "echo x > $LONGHAUL_OUT/made"\n')
    people.call(ANA, work, "run", "w.toml", "--site", "read", gid=group, umask=0o077, code=0)
    run = newest_run(work)
    people.call(BEN, here, "status", run, gid=group, code=0, says=f"a run of uid {ANA}")
    people.call(BEN, here, "logs", run, "a", gid=group, code=0)
    people.call(BEN, here, "cancel", run, gid=group, code=3, says=f"uid {ANA}")
    expect("a reader writes nowhere", not [p for p in [run, *run.rglob("*")] if p.is_dir() and p.lstat().st_mode & 0o022])
    people.call(EVE, here, "status", run, code=4)
    people.call(ANA, work, "run", "w.toml", "--site", "shut", "--runs-dir", work / "shut", umask=0o000, code=0)
    shut = next(p for p in (work / "shut").iterdir() if p.name.startswith("mine-"))
    expect("0700", shut.stat().st_mode & 0o7777 == 0o700, oct(shut.stat().st_mode))
    made = shut / "stages/a/out/made"
    expect("0600", made.stat().st_mode & 0o777 == 0o600, oct(made.stat().st_mode))
    people.call(BEN, here, "status", shut, gid=group, code=4)
    people.call(ANA, work, "run", "w.toml", "--site", "both", code=3, says=["both.toml:2", "leave one of the two out"])
    people.call(ANA, work, "doctor", umask=0o022, says=["others can read", "private = true"])


@case
def trust_artifacts_are_taken_from_oneself_and_from_the_sites_group(here):
    people = People(here, group="users")
    group = grp.getgrnam("users").gr_gid
    (here / "share/longhaul/site-configs/plain.toml").write_text('name = "plain"\n')
    work = people.folder("work", ANA)
    os.chown(work, ANA, group)
    work.chmod(0o2770)
    (work / "w.toml").write_text('[workflow]\nname = "made"\n[stage.a]\nkind = "command"\nscript = "echo x > $LONGHAUL_OUT/made"\n')
    os.chown(work / "w.toml", ANA, group)
    people.call(ANA, work, "run", "w.toml", "--site", "ours", gid=group, umask=0o077, code=0)
    first = newest_run(work)
    people.call(ANA, work, "plan", "w.toml", "--site", "ours", gid=group, code=0, says=f"a is cached: {first}/stages/a/out, yours")
    before = tree(work)
    people.call(BEN, work, "plan", "w.toml", "--site", "ours", gid=group, code=0,
                says=f"a is cached: {first}/stages/a/out, of uid {ANA}, not verified yet")
    expect("plan writes nothing", tree(work) == before)
    people.call(BEN, work, "run", "w.toml", "--site", "ours", gid=group, umask=0o077, code=0)
    people.call(BEN, work, "status", gid=group, code=0, says=f"a is cached: {first}/stages/a/out, of uid {ANA}, verified")
    people.call(BEN, work, "plan", "w.toml", "--site", "ours", gid=group, code=0, says=f"of uid {ANA}, verified")
    # Whose site names no group takes nothing of the two, and says so.
    people.call(EVE, work, "plan", "w.toml", "--site", "plain", gid=group, code=0, says=["not taken: a:", f"uid {ANA}", "mode 0640"])
    people.call(EVE, work, "run", "w.toml", "--site", "plain", gid=group, code=0)
    hers = newest_run(work)
    expect("Eve ran it", (hers / "stages/a/attempts/1").exists())
    expect("the log says why", "event=artifact_not_believed stage=a" in (hers / "controller.log").read_text(), (hers / "controller.log").read_text())


main()
