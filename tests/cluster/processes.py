"""Processes for tests/cluster/cluster: commands with a deadline, daemons that are known by a file with their PID, and
namespaces."""
import ctypes
import os
import pathlib
import shlex
import signal
import subprocess
import time

COMMAND_SECONDS = 30
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
HOST_NAMESPACES = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET


class Failure(Exception):
    """What went wrong and what to do about it."""


class Unavailable(Failure):
    """This machine cannot hold such a cluster."""


def run(*argv, check=True, seconds=COMMAND_SECONDS, **options):
    try:
        done = subprocess.run([str(argument) for argument in argv], capture_output=True, text=True, timeout=seconds, **options)
    except subprocess.TimeoutExpired:
        if check:
            raise Failure(f"`{shlex.join(map(str, argv))}` gave no answer in {seconds} s") from None
        return subprocess.CompletedProcess(argv, 124, "", "no answer")
    if check and done.returncode != 0:
        raise Failure(f"`{shlex.join(map(str, argv))}` failed: {(done.stderr or done.stdout).strip()}")
    return done


def wait_for(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(0.05)


def command_line(pid):
    """Empty for a zombie. A process that is becoming another program has none for a moment."""
    for _ in range(100):
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if command or state in "ZX":
            return command
        time.sleep(0.01)
    return ""


class Process:
    """A process known by the file that holds its PID. It counts as alive while its command line still names the file's
    cluster, so that a PID which now belongs to somebody else is never touched."""

    def __init__(self, pid_file, state):
        self.pid_file, self.state = pid_file, state

    def pid(self):
        try:
            pid = int(self.pid_file.read_text())
            command = command_line(pid)
        except (OSError, ValueError):
            return None
        return pid if f"{self.state}/" in command else None

    def send(self, number):
        pid = self.pid()
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def end(self, number=signal.SIGKILL, seconds=10):
        if self.send(number):
            try:
                wait_for(lambda: self.pid() is None, seconds, "")
            except Failure:
                self.send(signal.SIGKILL)
                wait_for(lambda: self.pid() is None, seconds, f"end of the process in {self.pid_file}")
        self.pid_file.unlink(missing_ok=True)


def daemon(argv, pid_file, log, namespaces=0, environment=None):
    """Starts argv detached, in new namespaces if asked for; returns when it has become argv. The process writes its own PID
    before that, so that none is ever lost."""
    reported, report = os.pipe()  # closed by exec, so that an empty answer means success
    middle = os.fork()
    if middle:
        os.close(report)
        os.waitpid(middle, 0)
        with os.fdopen(reported) as answer:
            if why := answer.read():
                raise Failure(f"{argv[0]} could not be started: {why}")
        return
    try:
        os.setsid()
        null, out = os.open("/dev/null", os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for target, source in ((0, null), (1, out), (2, out)):
            os.dup2(source, target)
        os.closerange(3, report)
        os.closerange(report + 1, 1024)
        if namespaces:
            unshare(namespaces)
        if os.fork() == 0:
            # /proc is still the machine's: the PID by which the machine knows this process.
            pid_file.write_text(os.readlink("/proc/self"))
            os.execvpe(argv[0], argv, environment or dict(os.environ))
    except BaseException as error:  # in a forked child nothing may return to the caller
        os.write(report, str(error).encode())
        os._exit(1)
    os._exit(0)


def unshare(namespaces):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(namespaces) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def last_lines(path, count=3):
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return " / ".join(lines[-count:]) or f"nothing in {path}"
