#!/usr/bin/env python3
"""The programs that need a GPU: packed here, run there (scripts/gpu-suite)."""
import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
HOME = ROOT / "build/gpu-suite"
PACK = HOME / "pack.tar.xz"
PACK_BYTES_MAX = 60 << 20
PROGRAMS = ["gpu_operations", "gpu_nccl", "gpu_training", "gpu_bench", "gpu_training_bench", "longhaul-engine"]
# Of the host with the GPU: its C library and driver, and CUDA's own large libraries.
NOT_PACKED = re.compile(r"^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|util|resolv)\.so|libcuda|libcublas|libnccl|libcudnn|libcupti)")
CUDA_FOLDERS = ["/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64"]
SKIPPED = 77
BUDGET_S = 480


def said(command, **options):
    print("+", " ".join(map(str, command)), flush=True)
    subprocess.run(command, check=True, **options)


def build(architectures):
    """The programs, by CMake; returns their folder."""
    folder = HOME / "build"
    said(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DLONGHAUL_CUDA=ON",
          f"-DLONGHAUL_CUDA_ARCHITECTURES={architectures}", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=32",
          "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON", "-DCMAKE_INSTALL_RPATH=$ORIGIN/../lib"])
    said(["cmake", "--build", folder, "-j", str(os.cpu_count()), "--target", *PROGRAMS])
    return folder / "bin"


def environment_of(folder, cuda=True):
    """Where the programs of a folder find libraries. Those of the pack by this as well as by the programs' RUNPATH, which
    does not hold for what a library needs in turn; CUDA's where it usually lies, and where Python's packages have it."""
    folders = [folder.parent / "lib"] + [given for given in [os.environ.get("LD_LIBRARY_PATH")] if given]
    if cuda:
        folders += filter(os.path.isdir, CUDA_FOLDERS)
        folders += [lib for place in sys.path if place for lib in sorted(pathlib.Path(place).glob("nvidia/*/lib"))]
    return {"LD_LIBRARY_PATH": ":".join(map(str, folders))}


def check_alone(folder):
    """The programs of an unpacked pack take nothing from this host but what is not packed."""
    for program in sorted(folder.iterdir()):
        out = subprocess.run(["ldd", program], check=True, capture_output=True, text=True,
                             env={**os.environ, **environment_of(folder, cuda=False)}).stdout
        for name, path in re.findall(r"^\s*(\S+) => (.+?)(?: \(|$)", out, re.M):
            if not NOT_PACKED.match(name) and pathlib.Path(path).resolve().parent != (folder.parent / "lib").resolve():
                sys.exit(f"the pack is not whole: {program.name} takes {name} from {path}")


def libraries_of(program):
    """Paths of the shared libraries that travel with it."""
    out = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    found = dict(re.findall(r"^\s*(\S+) => (\S+) ", out, re.M))
    missing = re.findall(r"^\s*(\S+) => not found", out, re.M)
    if missing:
        sys.exit(f"{program}: not found: {', '.join(missing)}")
    return {name: pathlib.Path(path) for name, path in found.items() if not NOT_PACKED.match(name)}


def pack(architectures):
    built = [build(architectures) / name for name in PROGRAMS]
    libraries = {}
    for program in built:
        libraries.update(libraries_of(program))
    stripped = HOME / "stripped"  # debug information is three quarters of a program
    stripped.mkdir(exist_ok=True)
    programs = [stripped / program.name for program in built]
    for program, small in zip(built, programs):
        said(["strip", "-o", small, program])
    beside = PACK.with_suffix(".new")
    with tarfile.open(beside, "w:xz", preset=9) as archive:  # its window spans programs, which have most code in common
        for program in programs:
            archive.add(program, f"bin/{program.name}")
        for name, path in sorted(libraries.items()):
            archive.add(path.resolve(), f"lib/{name}")
    size = beside.stat().st_size
    print(f"{PACK}: {size / 2**20:.1f} MiB, at most {PACK_BYTES_MAX >> 20}")
    if size > PACK_BYTES_MAX:
        beside.unlink()
        sys.exit("the pack is too large to be carried")
    beside.rename(PACK)
    check_alone(unpack())
    return 0


def unpack():
    folder = HOME / "unpacked"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(PACK) as archive:
        archive.extractall(folder)
    return folder / "bin"


def programs_here(architectures):
    """The folder of programs: unpacked where there is a pack, else built."""
    if not PACK.exists():
        return build(architectures)
    return unpack()


def run_part(name, command, limit_s, log, environment=None):
    """One program in a process group of its own; what became of it."""
    begun = time.monotonic()
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True, env={**os.environ, **(environment or {})})
        try:
            code = process.wait(timeout=limit_s)
            outcome = {0: "passed", SKIPPED: "skipped"}.get(code, "failed")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code, outcome = process.wait(), "too long"
    text = pathlib.Path(log).read_text(errors="replace")
    return {"name": name, "outcome": outcome, "code": code, "seconds": round(time.monotonic() - begun, 1),
            "last": text.strip().splitlines()[-1][:400] if text.strip() else ""}


def parts_of(folder, out):
    """(name, command, limit in s): what has to be known first comes first. The limits add up to more than the suite may
    take, as most parts need less than theirs."""
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    attention = ["--source-file=*attention_test*"]
    # Each with the time that it may take for itself, and a few seconds to end and say so.
    trainings = [(name, [folder / "gpu_training_bench", "--case", name, "--limit-s", str(limit_s), "--folder", out,
                         "--json", out / f"training-{name}.json"], limit_s + 15)
                 for name, limit_s in (("llama2-7b-bf16", 45), ("llama2-7b-fp8", 40), ("gpt2-124m", 15), ("gpt2-1.5b", 25),
                                       ("checkpoint", 25))]
    parts = [("attention", [folder / "gpu_operations", *attention], 45),
             ("nccl", [sys.executable, ROOT / "scripts/gpu_nccl.py", folder / "gpu_nccl", "25"], 80),
             ("fits", [folder / "gpu_training_bench", "--fits", "--case", "llama2-7b-bf16", "--limit-s", "40",
                       "--json", out / "training-fits.json"], 50),
             ("operations", [folder / "gpu_operations"], 120),
             ("training", [folder / "gpu_training"], 90),
             ("bench", [folder / "gpu_bench", "--json", out / "bench.json"], 120), *trainings]
    if pathlib.Path(sanitizer).exists():
        few = ["--test-case=*rope*,*quantise*,*rmsnorm*"]
        # Kernels with memory that a block shares, at sizes that a tool a hundred times slower than the GPU comes through.
        races = ["--test-case=*slices of a fused QKV*,*one new token against a cache*,*rmsnorm*,*layernorm*"]
        for tool in ("memcheck", "racecheck"):
            parts.append((tool, [sanitizer, "--tool", tool, "--error-exitcode", "1", folder / "gpu_operations",
                                 "--each-alone", *(races if tool == "racecheck" else few)], 90))
    return parts


# What the project promises of GPUs. `figure` is that of a program's own bars (tests/gpu/bench/bar.h); else: `passes`, a part
# that has to pass, or `least`, the bar of those entries of gpu_bench whose worst share counts.
BARS = [
    {"figure": "operations within tolerance of the f64 reference", "part": "operations", "passes": True},
    {"figure": "20 steps: f32 1e-4, bf16 2e-2; the same bits twice", "part": "training", "passes": True},
    {"figure": "Llama-2-7B shape, bf16", "part": "llama2-7b-bf16", "bar": "at least 9,400 tokens/s",
     "peer": "NeMo publishes 16,913 tokens/s"},
    {"figure": "Llama-2-7B shape, fp8", "part": "llama2-7b-fp8", "bar": "at least 14,000 tokens/s",
     "peer": "NeMo publishes 16,913 tokens/s"},
    {"figure": "GPT-2 124M, bf16, MFU", "part": "gpt2-124m", "bar": "", "peer": "llm.c publishes 46-56 % MFU"},
    {"figure": "GPT-2 1.5B, bf16, MFU", "part": "gpt2-1.5b", "bar": "", "peer": "llm.c publishes 46-56 % MFU"},
    {"figure": "own memory-bound kernels, the worst", "part": "bench", "least": 0.85, "of": "the measured copy bandwidth"},
    {"figure": "decode of an 8B shape, batch 1, bf16", "part": "bench", "least": 0.75, "of": "the bandwidth limit"},
    {"figure": "checkpoint every 50 steps, GPT-2 124M, bf16", "part": "checkpoint", "bar": "at most 0.02 of throughput"},
]


def why_not(suite, name):
    part = next((part for part in suite["parts"] if part["name"] == name), None)
    if part is None:
        return "the suite did not come to it"
    if part["outcome"] == "passed":
        return f"{name} reported no such figure"
    return f"{name} {part['outcome']}" + (f": {part['last'][:200]}" if part["last"] else "")


def bars_of(suite):
    """A row for each promise: figure, value, bar, peer, outcome; why it was not measured."""
    reported = {bar["figure"]: bar for training in suite["trainings"].values() for bar in training["bars"]}
    rows = []
    for bar in BARS:
        row = {"figure": bar["figure"], "value": "", "bar": bar.get("bar", ""), "peer": bar.get("peer", ""),
               "outcome": "not measured", "why": ""}
        part = next((part for part in suite["parts"] if part["name"] == bar["part"]), None)
        own = reported.get(bar["figure"])
        if bar.get("passes"):
            row["bar"] = "passes"
            if part and part["outcome"] in ("passed", "failed"):
                row["outcome"] = "met" if part["outcome"] == "passed" else "missed"
        elif "least" in bar:
            row["bar"] = f"at least {100 * bar['least']:.0f} % of {bar['of']}"
            entries = [e for e in suite.get("bench", {}).get("entries", []) if e["bar"] == bar["least"]]
            if entries:
                worst = min(entries, key=lambda entry: entry["share"])
                row["value"] = f"{100 * worst['share']:.1f} % ({worst['name']})"
                row["outcome"] = "missed" if worst["missed"] else "met"
        elif own:
            row["outcome"] = own["outcome"]
            if "value" in own:
                row["value"] = f"{own['value']:.4g} {own['unit']}"
            row["why"] = own.get("why", "")
        if row["outcome"] == "not measured" and not row["why"]:
            row["why"] = why_not(suite, bar["part"])
        rows.append(row)
    return rows


def lines_of_training(training):
    """Of one case of gpu_training_bench; its kernels where it missed a bar."""
    if "error" in training:
        return [f"{training.get('title', training['name'])}: {training['error']}"]
    if training["name"] == "checkpoint":
        return [f"checkpoint: {1e-9 * training['bytes']:.2f} GB; {training['steps']} steps with it took {training['extra_s']:.4f} s "
                f"longer, {training['stood_still_s']:.4f} s stood still"]
    if "step_s" not in training:  # only whether it fits
        first = f"; the first step of {training['layers']} layers: {training['first_step_s']:.2f} s" if "first_step_s" in training else ""
        return [training["said"] + first]
    lines = [f"{training['said']}",
             f"  {training['layers']} layers: {training['step_s']:.4f} s a step, {training['tokens_per_s']:.0f} tokens/s, MFU "
             f"{100 * training['mfu_of_product']:.1f} % of the measured product"
             + (f", {100 * training['mfu_of_peak']:.1f} % of the peak" if "mfu_of_peak" in training else "")]
    if "extrapolated" in training:
        lines.append(f"  EXTRAPOLATED to all layers, held against no bar: {training['extrapolated']['tokens_per_s']:.0f} tokens/s")
    if training.get("phases"):
        lines.append("  " + ", ".join(f"{name} {seconds:.4f} s" for name, seconds in training["phases"].items()))
    return lines


def table_of(suite):
    lines = [f"{p['name']:<24} {p['outcome']:<10} {p['seconds']:>7.1f} s  "
             f"{p['last'][:200] if p['outcome'] != 'passed' or p['name'] == 'nccl' else ''}" for p in suite["parts"]]
    bench = suite.get("bench")
    if bench:
        lines += ["", f"{bench['device']}: copy {bench['copy_bytes_per_s'] / 1e9:.0f} GB/s, product "
                      f"{bench['product_flops'] / 1e12:.0f} TFLOP/s"]
        lines += [f"{e['name']:<52} {1e6 * e['seconds']:>10.1f} us {100 * e['share']:>6.1f} %"
                  f" {('bar ' + format(100 * e['bar'], '.0f') + ' %') if e['bar'] else ''}"
                  f"{' MISSED' if e['missed'] else ''}" for e in bench["entries"]]
    for report in suite["trainings"].values():
        missed = any(bar["outcome"] == "missed" for bar in report["bars"])
        for training in report["trainings"]:
            lines += ["", *lines_of_training(training)]
            if missed:
                lines += [f"    {1e-6 * k['ns']:>9.3f} ms {k['count']:>6} x {k['name'][:100]}" for k in training.get("kernels", [])]
    lines += ["", "bars"]
    for r in suite["bars"]:
        outcome = "MISSED" if r["outcome"] == "missed" else r["outcome"]
        lines.append(f"{r['figure']:<52} {r['value']:<28} {r['bar']:<44} {r['peer']:<32} {outcome}"
                     f"{': ' + r['why'] if r['why'] else ''}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def write(path, text):
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.rename(path)


def run(parts, out, budget_s=BUDGET_S, environment=None):
    """All parts, what became of each; suite.json and table.txt are whole after every one."""
    out.mkdir(parents=True, exist_ok=True)
    suite = {"begun": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "parts": [], "trainings": {}}
    begun = time.monotonic()
    for name, command, limit_s in parts:
        left = budget_s - (time.monotonic() - begun)
        if left < 1:
            suite["parts"].append({"name": name, "outcome": "no time", "code": None, "seconds": 0.0,
                                   "last": f"the suite takes {budget_s} s at most"})
        else:
            suite["parts"].append(run_part(name, command, min(limit_s, left), out / f"{name}.log", environment))
        if (out / "bench.json").exists():
            suite["bench"] = json.loads((out / "bench.json").read_text())
        if (out / f"training-{name}.json").exists():
            suite["trainings"][name] = json.loads((out / f"training-{name}.json").read_text())
        suite["bars"] = bars_of(suite)
        write(out / "suite.json", json.dumps(suite, indent=1) + "\n")
        write(out / "table.txt", table_of(suite))
        if suite["parts"][-1]["outcome"] == "skipped":
            print(suite["parts"][-1]["last"])
            return SKIPPED
    print((out / "table.txt").read_text(), end="")
    return 0 if all(part["outcome"] == "passed" for part in suite["parts"]) else 1


def main():
    arguments = argparse.ArgumentParser(prog="scripts/gpu-suite", description=__doc__)
    arguments.add_argument("--pack", action="store_true", help="build, and pack for another host")
    arguments.add_argument("--architectures", default="90a", help='GPUs to compile for: "80", "90a", "90a;100"')
    arguments.add_argument("--out", type=pathlib.Path, default=HOME / "out", help="folder of suite.json and table.txt")
    given = arguments.parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    if given.pack:
        return pack(given.architectures)
    out = given.out.resolve()
    for old in [out / "bench.json", *out.glob("training-*.json")]:
        old.unlink(missing_ok=True)
    folder = programs_here(given.architectures)
    return run(parts_of(folder, out), out, environment=environment_of(folder))


if __name__ == "__main__":
    sys.exit(main())
