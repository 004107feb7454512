#!/usr/bin/env python3
"""The suite's runner with programs that stand in for those of a GPU: what passes, fails, hangs or finds no GPU is told
apart, in suite.json and table.txt, also after a part that failed.

usage: gpu_suite_test.py SOURCE_DIR
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "scripts"))
import gpu_suite  # noqa: E402


def check(condition, what):
    if not condition:
        sys.exit(f"gpu_suite: {what}")


def shell(text):
    return ["/bin/sh", "-c", text]


def main():
    with tempfile.TemporaryDirectory(prefix="longhaul-gpu-suite-") as name:
        out = pathlib.Path(name)
        bench = {"device": "a GPU", "copy_bytes_per_s": 4e12, "product_flops": 7e14, "entries": [
            {"name": "add", "seconds": 1e-5, "bytes": 1, "flops": 0, "share": 0.5, "bar": 0.85, "missed": True}]}
        begun = time.monotonic()
        code = gpu_suite.run([("good", shell("echo fine"), 20), ("bad", shell("echo broken; exit 3"), 20),
                              ("hangs", shell("sleep 100 & wait"), 1),
                              ("bench", shell(f"echo '{json.dumps(bench)}' > {out}/bench.json"), 20)], out)
        check(code == 1, f"a failed suite ends with {code}")
        check(time.monotonic() - begun < 30, "a part that hangs was waited for")
        suite = json.loads((out / "suite.json").read_text())
        outcomes = {part["name"]: part["outcome"] for part in suite["parts"]}
        check(outcomes == {"good": "passed", "bad": "failed", "hangs": "too long", "bench": "passed"}, outcomes)
        check(suite["parts"][1]["last"] == "broken" and suite["parts"][1]["code"] == 3, suite["parts"][1])
        table = (out / "table.txt").read_text()
        check("MISSED" in table and "broken" in table and "4000 GB/s" in table, table)

        whole = out / "whole"
        check(gpu_suite.run([("good", shell("true"), 20)], whole) == 0, "a suite that passed")
        none = out / "none"
        code = gpu_suite.run([("first", shell("echo skipped: no GPU; exit 77"), 20), ("never", shell("false"), 20)], none)
        check(code == 77, f"without a GPU: {code}")
        told = json.loads((none / "suite.json").read_text())["parts"]
        check([part["name"] for part in told] == ["first"] and "no GPU" in told[0]["last"], told)
        late = out / "late"
        check(gpu_suite.run([("slow", shell("sleep 2"), 20), ("after", shell("true"), 20)], late, budget_s=2) == 1, "late")
        folder = out / "carried/bin"
        told = gpu_suite.environment_of(folder)
        code = gpu_suite.run([("where", shell('case "$LD_LIBRARY_PATH" in */carried/lib*) ;; *) exit 1 ;; esac'), 20)],
                             out / "where", environment=told)
        check(code == 0, f"programs are not told where their libraries are: {told}")
        folder.mkdir(parents=True)
        shutil.copy(shutil.which("python3", path="/usr/bin:/bin") or sys.executable, folder / "program")
        # Libraries that lie where the host has them, and not in the pack, are found out.
        host = subprocess.run(["ldd", folder / "program"], capture_output=True, text=True, check=True).stdout
        packable = [name for name in re.findall(r"(\S+) => /", host) if not gpu_suite.NOT_PACKED.match(name)]
        try:
            gpu_suite.check_alone(folder)
            check(not packable, f"a pack without {packable} was taken for whole")
        except SystemExit as refused:
            check(packable and packable[0] in str(refused), refused)
        check(json.loads((late / "suite.json").read_text())["parts"][1]["outcome"] == "no time", "a part after the end")
    print("gpu_suite: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
