#!/usr/bin/env python3
"""What another user of a node can try against a training there. tests/cluster/second_user_live_test.py runs it on each host.

usage: second_user.py RUN_FOLDER SECONDS SEED

Over and over: floods the ports of the lead and its standby, knocks at its sockets, plants links, pipes, files and folders
of names that could be those of a run in /dev/shm and /tmp and exchanges them for each other, tries to open for writing and to read
what is private of the run, and to signal its processes. Prints one JSON line: what was tried how often, and what succeeded that
must not.
"""
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import sys
import time

SHARED = [pathlib.Path("/dev/shm"), pathlib.Path("/tmp")]
tried = {}
succeeded = []  # what must not


def count(what):
    tried[what] = tried.get(what, 0) + 1


def programs():
    """{pid: command line} of Longhaul's programs on this host."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
        except OSError:
            continue
        if re.search(rb"longhaul-(worker|engine)$", arguments[0]):
            found[int(entry.name)] = arguments
    return found


def addresses():
    """Where the lead and its standby listen, as the run's folder shows to everybody. Ports of Slurm's and MPI's own are not ours to judge."""
    found = set()
    for path in run.glob("stages/*/attempts/*/lead-address*"):
        try:
            said = json.loads(path.read_text())
            found |= {(said["host"], said["port"])}
        except (OSError, ValueError, KeyError):
            continue
    return sorted(found)


def repeated_keys():
    keys = ["%x" % i for i in range(256, 57_000)]
    body = ("{" + ",".join(f'"{key}":0' for key in keys + keys) + "}").encode()
    return b"LHW1" + struct.pack("<HHIIqQ", 2, 2, len(body), 0, 1, 0) + b"\0" * 32 + body + b"\0" * 32


GREETINGS = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"", b"LHW1" + b"\xff" * 60, b"\0" * 4096, repeated_keys()]


def flood(chance, open_sockets):
    for address in addresses():
        for _ in range(16):
            try:
                link = socket.create_connection(address, timeout=0.5)
                link.setblocking(False)
                link.send(chance.choice(GREETINGS))
            except OSError:
                count("not connected")
            else:
                open_sockets.append(link)
                count("connections")
    while len(open_sockets) > 400:  # the oldest goes, the others stay as silent as they are
        open_sockets.pop(chance.randrange(200)).close()


def knock_at_sockets():
    for line in open("/proc/net/unix"):
        path = line.split()[-1]
        if "longhaul" not in path:
            continue
        count("sockets knocked at")
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(0.5)
        try:
            link.connect("\0" + path[1:] if path.startswith("@") else path)
            link.send(b"x" * 100_000)
            answer = link.recv(1)
            if answer:
                succeeded.append(f"{path} answers a stranger")
        except OSError:
            pass
        finally:
            link.close()


def plant_one(path, chance):
    victim = chance.choice(["/etc/hostname", str(run), str(run / "resolved.toml")])
    ways = [lambda: os.symlink(victim, path), lambda: os.mkfifo(path, 0o666), lambda: os.mkdir(path, 0o777),
            lambda: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)), lambda: os.link(victim, path)]
    try:
        chance.choice(ways)()
        count("planted")
    except OSError:
        count("not planted")


def plant(chance):
    """Names that a run may want next, names beside those that it has, and then one exchanged for another."""
    names = [f"longhaul-standby-{pid}" for pid in programs()] + [f"longhaul-{chance.getrandbits(64):016x}" for _ in range(4)]
    for folder in SHARED:
        for name in names:
            plant_one(folder / name, chance)
            plant_one(folder / f"{name}.tmp.{chance.choice(list(programs()) or [1])}.{chance.randrange(4)}", chance)
        ours = [p for p in folder.iterdir() if p.name.startswith("longhaul-") and os.lstat(p).st_uid == os.getuid()]
        for one in chance.sample(ours, min(8, len(ours))):
            try:
                os.rename(one, chance.choice(ours))
            except OSError:
                pass
        for theirs in [p for p in folder.iterdir() if p.name.startswith("longhaul-") and p not in ours]:
            count("entered")
            try:
                if theirs.is_dir() and not theirs.is_symlink():
                    os.listdir(theirs)
                    succeeded.append(f"{theirs} can be entered")
            except OSError:
                pass
        for one in ours[200:]:
            try:
                os.rmdir(one) if one.is_dir() and not one.is_symlink() else os.unlink(one)
            except OSError:
                pass


PRIVATE = re.compile(r"(^|/)(secret|.*-secret|lead-secret.*|training-id|beat-\d+|token)$")


def reach_into(chance):
    paths = [pathlib.Path(place, name) for place, folders, files in os.walk(run) for name in [*folders, *files]]
    for path in paths:
        count("of the run")
        try:
            info = os.lstat(path)
        except OSError:
            continue
        if os.path.islink(path):
            continue
        if os.path.isdir(path):
            try:
                os.symlink("/etc/hostname", path / f"planted-{chance.getrandbits(32):08x}")
                succeeded.append(f"a link could be made in {path}")
            except OSError:
                pass
            continue
        for flags, what in ((os.O_WRONLY, "written"), (os.O_RDONLY, "read")):
            try:
                os.close(os.open(path, flags | os.O_NONBLOCK))
            except OSError:
                continue
            if what == "written":
                succeeded.append(f"{path} (mode {info.st_mode:o}) could be written")
            elif PRIVATE.search(str(path)):
                succeeded.append(f"{path} (mode {info.st_mode:o}) could be read")


def send_signals():
    for pid in programs():
        for number in (signal.SIGSTOP, signal.SIGTERM):
            count("signals")
            try:
                os.kill(pid, number)
                succeeded.append(f"{pid} took signal {number}")
            except OSError:
                pass


def main():
    chance, open_sockets, until = random.Random(int(sys.argv[3])), [], time.monotonic() + float(sys.argv[2])
    rounds = 0
    while time.monotonic() < until:
        rounds += 1
        for step in (lambda: flood(chance, open_sockets), knock_at_sockets, lambda: plant(chance), send_signals):
            step()
        if rounds % 5 == 1:
            reach_into(chance)
        time.sleep(0.2)
    for link in open_sockets:
        link.close()
    for folder in SHARED:
        for one in folder.iterdir():
            try:
                if os.lstat(one).st_uid == os.getuid():
                    os.rmdir(one) if one.is_dir() and not one.is_symlink() else os.unlink(one)
            except OSError:
                pass
    print(json.dumps({"host": socket.gethostname(), "uid": os.getuid(), "rounds": rounds, "tried": tried,
                      "succeeded": sorted(set(succeeded))[:20]}), flush=True)


if __name__ == "__main__":
    run = pathlib.Path(sys.argv[1])
    main()
