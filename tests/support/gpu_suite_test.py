#!/usr/bin/env python3
"""The suite's runner with programs that stand in for those of a GPU: what passes, fails, hangs or finds no GPU is reported
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


def check_bars_of_trainings(out):
    """Bars that programs report, the profile beside one that is missed, what was not measured and why."""
    slow = {"trainings": [{"name": "llama2-7b-bf16", "title": "Llama-2-7B shape, bf16", "said": "fits; 140 GB of 149 GB",
                           "layers": 32, "step_s": 8.0, "tokens_per_s": 8192.0, "mfu_of_product": 0.5,
                           "phases": {"forward": 2.5, "backward": 5.0}, "kernels": [{"name": "slow_kernel", "ns": 5, "count": 2}]}],
            "bars": [{"figure": "Llama-2-7B shape, bf16", "unit": "tokens/s", "bar": 9400, "value": 8192.0, "outcome": "missed"}]}
    shallow = {"trainings": [{"name": "llama2-7b-fp8", "title": "Llama-2-7B shape, fp8", "said": "does not fit; 18 layers do",
                              "layers": 18, "step_s": 2.0, "tokens_per_s": 30000.0, "mfu_of_product": 0.5, "phases": {},
                              "extrapolated": {"tokens_per_s": 15000.0}}],
               "bars": [{"figure": "Llama-2-7B shape, fp8", "outcome": "not measured", "why": "does not fit"}]}
    parts = [(name, shell(f"echo '{json.dumps(reported)}' > {out}/training-{name}.json; exit {code}"), 20)
             for name, reported, code in (("llama2-7b-bf16", slow, 1), ("llama2-7b-fp8", shallow, 0))]
    fits = {"trainings": [{"name": "llama2-7b-bf16", "title": "Llama-2-7B shape, bf16", "said": "it fits", "layers": 32,
                           "first_step_s": 9.5}], "bars": []}
    saved = {"trainings": [{"name": "checkpoint", "bytes": 1500000000, "steps": 9, "extra_s": 0.1, "stood_still_s": 0.05}],
             "bars": [{"figure": "checkpoint every 50 steps, GPT-2 124M, bf16", "unit": "of throughput", "bar": 0.02,
                       "value": 0.01, "outcome": "met"}]}
    parts += [(name, shell(f"echo '{json.dumps(reported)}' > {out}/training-{name}.json"), 20)
              for name, reported in (("fits", fits), ("checkpoint", saved))]
    code = gpu_suite.run([*parts, ("gpt2-124m", shell("echo no step could be timed; exit 1"), 20)], out)
    check(code == 1, f"a missed bar ends with {code}")
    bars = {bar["figure"]: bar for bar in json.loads((out / "suite.json").read_text())["bars"]}
    check(bars["Llama-2-7B shape, bf16"]["outcome"] == "missed", bars)
    check(bars["Llama-2-7B shape, fp8"] | {"outcome": "not measured", "why": "does not fit"} == bars["Llama-2-7B shape, fp8"],
          bars)
    check("no step could be timed" in bars["GPT-2 124M, bf16, MFU"]["why"], bars)
    table = (out / "table.txt").read_text()
    check("slow_kernel" in table and "forward 2.5000 s" in table and "MISSED" in table, table)
    check("EXTRAPOLATED" in table and "it fits; the first step of 32 layers: 9.50 s" in table and "1.50 GB; 9 steps" in table, table)
    check(bars["checkpoint every 50 steps, GPT-2 124M, bf16"]["outcome"] == "met", bars)


def check_nccl(out):
    """Which way two ranks were run: real NCCL, the trick for one GPU, by way of the host; and what fails or hangs."""
    def run(name, script, limit_s="5"):
        program = out / name
        program.write_text("#!/bin/sh\n" + script)
        program.chmod(0o755)
        begun = time.monotonic()
        done = subprocess.run([sys.executable, pathlib.Path(sys.argv[1]) / "scripts/gpu_nccl.py", program, limit_s],
                              capture_output=True, text=True, check=False)
        check(time.monotonic() - begun < 30, f"{name} was waited for")
        return done.returncode, done.stdout.strip().splitlines()[-1]

    code, last = run("two", "exit 0")
    check(code == 0 and "real NCCL" in last and "each rank its GPU" in last, last)
    code, last = run("trick", '[ -n "$NCCL_HOSTID" ] && exit 0; echo NCCL was refused, or refuses: Duplicate GPU; exit 3')
    check(code == 0 and "NCCL_HOSTID" in last, last)
    code, last = run("staged", '[ "$1" = --staged ] && exit 0; echo NCCL was refused, or refuses: Duplicate GPU; exit 3')
    check(code == 0 and "Duplicate GPU" in last and "by way of the host: the contract holds" in last, last)
    code, last = run("wrong", 'echo FAILED sums; exit 1')
    check(code == 1 and "does not hold" in last, last)
    code, last = run("hangs", 'exec sleep 100', "1")
    check(code == 1 and "no end" in last, last)
    code, last = run("none", 'echo skipped: no driver; exit 77')
    check(code == 77 and "no driver" in last, last)


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
        bars = {bar["figure"]: bar for bar in suite["bars"]}
        memory = bars["own memory-bound kernels, the worst"]
        check(memory["outcome"] == "missed" and "add" in memory["value"], memory)
        check(bars["Llama-2-7B shape, bf16"]["why"] == "the suite did not come to it", bars)
        table = (out / "table.txt").read_text()
        check("MISSED" in table and "broken" in table and "4000 GB/s" in table, table)

        check_bars_of_trainings(out / "trainings")
        (out / "nccl").mkdir()
        check_nccl(out / "nccl")
        whole = out / "whole"
        check(gpu_suite.run([("good", shell("true"), 20)], whole) == 0, "a suite that passed")
        none = out / "none"
        code = gpu_suite.run([("first", shell("echo skipped: no GPU; exit 77"), 20), ("never", shell("false"), 20)], none)
        check(code == 77, f"without a GPU: {code}")
        reported = json.loads((none / "suite.json").read_text())["parts"]
        check([part["name"] for part in reported] == ["first"] and "no GPU" in reported[0]["last"], reported)
        late = out / "late"
        check(gpu_suite.run([("slow", shell("sleep 2"), 20), ("after", shell("true"), 20)], late, budget_s=2) == 1, "late")
        folder = out / "carried/bin"
        reported = gpu_suite.environment_of(folder)
        code = gpu_suite.run([("where", shell('case "$LD_LIBRARY_PATH" in */carried/lib*) ;; *) exit 1 ;; esac'), 20)],
                             out / "where", environment=reported)
        check(code == 0, f"programs are not given where their libraries are: {reported}")
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
