#!/usr/bin/env python3
"""What looking and launching cost, by turns with the programs of another build where one is given:

    tests/bench/command_costs.py build/release/bin [OTHER_BIN] [--turns 30]

`status` of a run of one stage that has ended, and the whole of `run` for a workflow of one `command` stage, in
milliseconds: median and range. What a save costs is `gpt2_speed save`, which trains beside it.
"""
import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

WORKFLOW = '[workflow]\nname = "cost"\n[stage.one]\nkind = "command"\nscript = "echo done >\\"$LONGHAUL_OUT/file\\""\n'


def timed(command, folder):
    begin = time.monotonic()
    subprocess.run([str(part) for part in command], cwd=folder, check=True, capture_output=True, timeout=120)
    return (time.monotonic() - begin) * 1e3


class Programs:
    """One build's programs, with a folder of runs of their own."""

    def __init__(self, folder, programs):
        self.longhaul, self.folder = programs / "longhaul", folder
        folder.mkdir()
        self.workflow = folder / "cost.toml"
        self.workflow.write_text(WORKFLOW)
        self.launches, self.looks = 0, []
        self.launch()
        self.run = next(path for path in (folder / "runs").iterdir() if path.name.startswith("cost-"))

    def launch(self):
        self.launches += 1  # another script each time: a stage that did not change is not run again
        self.workflow.write_text(WORKFLOW.replace("done", f"done {self.launches}"))
        return timed([self.longhaul, "run", self.workflow], self.folder)

    def look(self):
        return timed([self.longhaul, "status", self.run], self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", type=pathlib.Path, help="folders of programs; the first is what is asked about")
    parser.add_argument("--turns", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="longhaul-costs-") as folder:
        builds = [Programs(pathlib.Path(folder) / str(i), path.resolve()) for i, path in enumerate(options.programs)]
        for name, turns, measure in (("status", options.turns, Programs.look),
                                     ("run of one stage", max(1, options.turns // 5), Programs.launch)):
            figures = [[] for _ in builds]
            for _ in range(turns):
                for build, values in zip(builds, figures):
                    values.append(measure(build))
            for path, values in zip(options.programs, figures):
                print(f"{name:18} {statistics.median(values):8.1f} ms, {min(values):.1f} to {max(values):.1f}, "
                      f"{turns} times: {path}")


if __name__ == "__main__":
    main()
