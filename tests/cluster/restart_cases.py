"""The table of faults and of the restart that follows each, tests/cases/restarts.toml: live tests hold what happened against their row,
and the simulator is held against the same rows (tests/unit/resiliency/simulate/restart_cases_test.cc)."""
import pathlib
import tomllib

from slurm_runs import expect

TABLE = pathlib.Path(__file__).resolve().parents[1] / "cases/restarts.toml"
CASES = tomllib.loads(TABLE.read_text())["case"]
PARTS = {"detect_s": "detected", "stop_s": "stop", "start_s": "start", "load_s": "load", "first_step_s": "first_step"}


def expect_restart(name, fault, victim=None, recovered=None):
    """The event `fault` is the one of that row. `victim`: the host that was hurt."""
    row = CASES[name]
    shown = (name, row, fault)
    expect("the tier of the table", fault["tier"] == row["tier"], shown)
    expect("a class of the table", fault["class"] in row["class"], shown)
    if row["accused"] == "nobody":
        expect("nobody is accused", "host" not in fault and fault.get("rank", -1) < 0, shown)
    elif victim is not None:
        expect("its host is named", fault.get("host") == victim, shown)
    if recovered:
        expect_way_back(name, recovered)


def expect_before(name, fault):
    """One of the faults that come before the row's."""
    expect("the tier of the table, before the last", fault["tier"] == CASES[name]["before_tier"], (name, fault))


def expect_way_back(name, recovered):
    """How many steps were done again: those since the newest checkpoint, or none."""
    lost, source = recovered["lost_steps"], CASES[name]["from"]
    expect("steps that are done again", lost <= (0 if source == "here" else 41), (name, recovered))
    parts = ", ".join(f"{short} = {recovered.get(part, 0):.2f}" for part, short in PARTS.items())
    print(f"  {name}: {lost} steps done again; {parts}, again = {recovered['total_s']:.2f}", flush=True)


def expect_kept(name, events, victim):
    """Whether the host of the victim works in the newest launch."""
    hosts = [e for e in events if e["kind"] == "launched"][-1]["hosts"]
    leaves = CASES[name].get("leaves", False)
    expect("the host is left, or is not, as the table says", (victim not in hosts) == leaves, (name, victim, hosts))


def lasts(name):
    """Seconds after which it passes by itself."""
    expect("nothing is ended for it, by the table", CASES[name]["tier"] == "nothing", CASES[name])
    return CASES[name]["lasts_s"]
