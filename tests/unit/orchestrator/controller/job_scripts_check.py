#!/usr/bin/env python3
"""The golden job scripts, read by the programs that will read them: shellcheck finds nothing, and sbatch takes from the #SBATCH
lines exactly the values that were meant (no cluster is needed: it prints what it read before it looks for one).

usage: job_scripts_check.py FOLDER      exit code 77: shellcheck or sbatch is missing
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CONF = """ClusterName=none
SlurmctldHost=nobody(127.0.0.1)
SlurmctldPort=17
AuthType=auth/none
CredType=cred/none
MessageTimeout=1
NodeName=n1 CPUs=1
PartitionName=main Nodes=n1
"""
# What `sbatch -vv` prints in another form.
OTHERWISE = {"open-mode": "a", "exclusive": "exclusive", "no-requeue": "no-requeue", "requeue": "requeue"}


def meant(script):
    """option -> value as the writer of the script quoted it."""
    values = {}
    for line in script.read_text().splitlines():
        if match := re.match(r'#SBATCH --([a-z-]+)(?:=("(?:[^"\\]|\\.)*"|\S+))?\s+# ', line):
            text = match.group(2) or ""
            if text.startswith('"'):
                text = re.sub(r"\\(.)", r"\1", text[1:-1])
            values[match.group(1)] = text
    return values


def read_by_sbatch(script, folder):
    """option -> value, as sbatch says that it understood the script."""
    done = subprocess.run(["sbatch", "-vv", "--test-only", str(script)], capture_output=True, text=True, timeout=60, cwd=folder,
                          env={**{k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH"))},
                               "SLURM_CONF": str(folder / "slurm.conf")})
    return dict(re.findall(r"^sbatch: ([a-z-]+) +: (.*)$", done.stderr, re.M)), done.stderr


def main():
    scripts = sorted(pathlib.Path(sys.argv[1]).resolve().rglob("*.sbatch"))
    if len(scripts) < 50:
        sys.exit(f"only {len(scripts)} scripts below {sys.argv[1]}")
    for tool in ("shellcheck", "sbatch"):
        if not shutil.which(tool):
            print(f"skipped: no {tool}")
            return 77
    done = subprocess.run(["shellcheck", "-S", "style", *map(str, scripts)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout)
    print(f"shellcheck finds nothing in {len(scripts)} scripts")

    compared = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "slurm.conf").write_text(CONF)
        chosen = [s for s in scripts if s.name == "odd-values.sbatch" or s.parent.name in ("leonardo-booster", "jean-zay-h100")]
        for script in chosen:
            found, output = read_by_sbatch(script, folder)
            if not found:
                sys.exit(f"{script}: sbatch read nothing:\n{output}")
            for option, value in meant(script).items():
                if option == "signal":
                    value = value.removesuffix("@60")  # the default, which it does not print
                if option == "mem":
                    value = value.removesuffix("M")
                if found.get(option, "").removeprefix("gres:") != OTHERWISE.get(option, value):
                    sys.exit(f"{script}: --{option} was meant as {value!r}, sbatch read {found.get(option)!r}\n{output}")
                compared += 1
    if compared < 80:
        sys.exit(f"only {compared} values were compared")
    print(f"sbatch read {compared} values as they were meant")
    return 0


if __name__ == "__main__":
    sys.exit(main())
