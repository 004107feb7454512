"""Reports to Longhaul what a program does, and takes its orders: copy this file beside your own. It needs nothing but Python 3.

    beat = Beat()                      # outside of Longhaul it does nothing
    beat.section("forward")            # what it does now
    beat.step(12)                      # the newest completed step
    beat.enqueued("dp"); beat.waits("dp"); ...; beat.completed("dp"); beat.waits()      # a collective of a communicator
    for number, what, value in beat.orders():             # ("checkpoint", None), ("stop_after", 500.0), ...
        ...
        beat.done(number)

Nothing here blocks or raises: what cannot be said now is said a moment later, or dropped when nobody listens. Call it from the main thread.
Only a stage that is marked as a test can be given a fault (`longhaul tell RUN fault LOCK_GIL`), and orders() then makes it.
The lines are described in docs/contracts.md, "The heartbeat as text".
"""
import ctypes
import os
import signal
import socket
import time

RETRY_S = 1.0  # the worker may open its socket after the program has started, or start again
UNSENT_MAX = 65536


class Beat:
    def __init__(self, path=None):
        self.path = path or os.environ.get("LONGHAUL_BEAT_SOCKET", "")
        self.socket, self.next_try, self.unsent, self.heard, self.standing = None, 0.0, b"", b"", {}

    def step(self, number):
        self._say("step", int(number), standing=True)

    def section(self, name):
        self._say("section", name, standing=True)

    def epoch(self, number):
        self._say("epoch", int(number), standing=True)

    def enqueued(self, communicator):
        self._say("enqueued", communicator)

    def completed(self, communicator):
        self._say("completed", communicator)

    def waits(self, communicator=""):
        """It waits for others in this communicator; without a name: it does not any more."""
        self._say("waits", communicator)

    def progress(self):
        self._say("progress")

    def done(self, number):
        self._say("done", number)

    def orders(self):
        """What was ordered since the last call: (number, word, value or None)."""
        self._connect()
        while self.socket:
            try:
                got = self.socket.recv(4096)
            except BlockingIOError:
                break
            except OSError:
                got = b""
            if not got:
                self._lose()
            self.heard += got
        *lines, self.heard = self.heard.split(b"\n")
        words = [line.decode(errors="replace").split() for line in lines]
        for fault in [w[1] for w in words if len(w) == 2 and w[0] == "fault"]:
            self._suffer(fault)
        return [(int(w[1]), w[2], float(w[3]) if len(w) > 3 else None) for w in words if len(w) > 2 and w[0] == "order"]

    @staticmethod
    def _suffer(fault):
        while fault == "LOCK_GIL":
            ctypes.PyDLL(None).sleep(3600)  # a PyDLL is called with the interpreter's lock held, so no thread goes on
        if fault == "SIGNAL_EXC":
            def raised(*_):
                raise RuntimeError("SIGNAL_EXC, as a test of this stage has asked for")
            signal.signal(signal.SIGALRM, raised)
            signal.setitimer(signal.ITIMER_REAL, 0.01)

    def _say(self, word, value=None, standing=False):
        line = (word if value is None else f"{word} {value}").encode() + b"\n"
        if standing:
            self.standing[word] = line  # said again to a worker that is started anew
        self._connect()
        if self.socket and len(self.unsent) + len(line) <= UNSENT_MAX:
            self.unsent += line
        try:
            while self.socket and self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent):]
        except BlockingIOError:
            pass
        except OSError:
            self._lose()

    def _connect(self):
        if self.socket or not self.path or time.monotonic() < self.next_try:
            return
        self.next_try = time.monotonic() + RETRY_S
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            connection.connect(self.path)
        except OSError:
            connection.close()
            return
        self.socket, self.unsent, self.heard = connection, b"".join(self.standing.values()), b""

    def _lose(self):
        self.socket.close()
        self.socket, self.unsent = None, b""
