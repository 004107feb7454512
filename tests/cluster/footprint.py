"""What processes of a run hold, looked at from outside while they work: memory, descriptors, children."""
import os
import pathlib


def command_of(entry):
    try:
        return (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
    except OSError:
        return []


def processes_of(folder):
    """{pid: arguments} of processes that name the folder, or something in it."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        arguments = command_of(entry)
        if any(f"{folder}/".encode() in argument for argument in arguments):
            found[int(entry.name)] = arguments
    return found


def look_at(pid):
    """Memory in MB, number of descriptors and of children; None where it is gone."""
    try:
        status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return {"rss_mb": int(status["VmRSS"].split()[0]) / 1024, "fds": len(os.listdir(f"/proc/{pid}/fd")), "children": len(children)}
    except (OSError, KeyError):
        return None


class Footprints:
    """Of every lead of a run and of its controller: at the first look after `settle` faults, and at the last one."""

    def __init__(self, folder, settle=5):
        self.folder, self.settle, self.seen = folder, settle, {}

    def look(self, faults, controller):
        pids = {pid: "lead" for pid, arguments in processes_of(self.folder).items() if arguments[0].endswith(b"longhaul-worker") and arguments[1:2] == [b"lead"]}
        for pid, name in [*pids.items(), (controller, "controller")]:
            now = look_at(pid)
            if not now:
                continue
            known = self.seen.setdefault(pid, {"name": name, "begun": faults, "first": None, "last": None, "faults": 0})
            known["faults"] = faults - known["begun"]
            if known["first"] is None and known["faults"] >= self.settle:
                known["first"] = now
            known["last"] = now

    def grown(self):
        """(name, faults that it has seen, first look, last look) of those that have lived through some."""
        return [(s["name"], s["faults"], s["first"], s["last"]) for s in self.seen.values() if s["first"]]


def files_in(folder):
    count = size = 0
    for root, _, names in os.walk(folder):
        for name in names:
            count += 1
            try:
                size += os.lstat(os.path.join(root, name)).st_size
            except OSError:
                pass
    return count, size
