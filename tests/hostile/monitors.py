"""Hostile clients of `--monitor`, and hostile servers for `monitor --at`."""

import os
import random
import socket
import subprocess
import threading
import time

import measure
from measure import ANSWER, Command, Row, Sim


class Watched(Sim):
    """`e810 pingpong` that can be looked at, for as long as it is needed."""

    def __init__(self):
        # Not a Sim that serves: only what is measured is the same.
        self.sockets = [measure.path("look")]
        self.log = measure.path("look.log")
        words = [measure.E810, "pingpong", "--iters", "1000000000", "--monitor", self.sockets[0]]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )
        end = time.monotonic() + measure.END
        while not looks(self.sockets[0]):
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(open(self.log, encoding="utf-8", errors="replace").read())
            time.sleep(0.05)

    def settled_fds(self, wanted):
        """Those who went are seen off when the next one comes, at most 8 at a time."""
        end = time.monotonic() + ANSWER
        while self.fds() != wanted and time.monotonic() < end:
            looks(self.sockets[0])
            time.sleep(0.05)
        return self.fds()


def connected(path):
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(ANSWER)
    one.connect(path)
    return one


def looks(path):
    """Whether somebody who asks is answered, within the limit."""
    try:
        with connected(path) as one:
            one.sendall(b"look\n")
            line = b""
            while not line.endswith(b"\n"):
                more = one.recv(1 << 16)
                if not more:
                    return False
                line += more
            return True
    except OSError:
        return False


def looks_soon(path):
    """The same, once those who went have been seen off."""
    end = time.monotonic() + 2 * ANSWER
    while time.monotonic() < end:
        if looks(path):
            return True
        time.sleep(0.1)
    return False


def clients():
    """Random bytes, silence, and questions whose answers nobody reads."""
    row = Row("monitor socket, hostile clients")
    run = Watched()
    path = run.sockets[0]
    run.begin()
    chance = random.Random(16)
    for _ in range(200):
        row.inputs += 1
        try:
            with connected(path) as one:
                one.sendall(chance.randbytes(chance.randrange(1, 4096)))
        except OSError:
            pass
    row.hangs += not looks_soon(path)
    idle = []
    for _ in range(100):
        row.inputs += 1
        try:
            idle.append(connected(path))
        except OSError:
            pass
    for one in idle:
        one.close()
    row.hangs += not looks_soon(path)
    deaf = []
    for _ in range(8):
        row.inputs += 1
        try:
            one = connected(path)
            one.setblocking(False)
            deaf.append(one)
            for _ in range(2000):
                one.send(b"look\n")
        except OSError:
            pass
    time.sleep(3)
    for one in deaf:
        one.close()
    row.hangs += not looks_soon(path)
    run.finish(row)
    return row


def answer(path, parts, pause, ready):
    """Answers one client with `parts`, and a pause after each."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        listener.settimeout(measure.END)
        ready.set()
        try:
            client, _ = listener.accept()
            with client:
                for part in parts:
                    client.sendall(part)
                    time.sleep(pause)
        except OSError:
            pass


def hostile_server():
    """Answers that are none, too long, or do not come."""
    row = Row("hostile server, for the monitor")
    chance = random.Random(16)
    quiet = Command("--version")
    quiet.end()
    row.memory = (quiet.memory,) * 3
    for number, (parts, pause) in enumerate((
        ([], 0),
        ([b"\n"], 0.1),
        ([chance.randbytes(4096) + b"\n"], 0.1),
        ([b"x" * (1 << 20)] * 5, 0),
        ([b"[" * 200000 + b"\n"], 0.1),
        ([b"{}\n"] * 10, 0.1),
        ([b'{"functions":[' + b"{}," * 100000 + b"{}]}\n"], 0.1),
        ([b"\x1b[2J\n"], 0.1),
        ([b" "] * 16, 0.5),
        ([b""], 8),
    )):
        path = measure.path(f"at{number}")
        ready = threading.Event()
        server = threading.Thread(target=answer, args=(path, parts, pause, ready), daemon=True)
        server.start()
        ready.wait(ANSWER)
        Command("monitor", "--at", path, "--once").judge(row)
        server.join(measure.END)
        os.unlink(path)
    return row
