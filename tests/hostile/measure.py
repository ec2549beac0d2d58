"""Processes of `e810`, what they take, and the row of a class."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

E810 = None
FOLDER = None

# Seconds for an answer, and for the end of a command whose own limits are 5 s each.
ANSWER = 5.0
END = 30.0
MOST_MORE = 64 << 20
# Of the log, whatever is said to a process.
MOST_LOG = 64 << 10
MOST_LINES = 100

HEADINGS = (
    f"{'class':<44} {'inputs':>7} {'panics':>6} {'hangs':>5} "
    f"{'MiB start':>9} {'end':>6} {'most':>6} {'fds':>9} {'s':>5}"
)


def path(name):
    return os.path.join(FOLDER, name)


def mib(count):
    return f"{count / 2**20:.1f}"


class Row:
    """What became of a class of inputs."""

    def __init__(self, name):
        self.name = name
        self.inputs = 0
        self.panics = 0
        self.hangs = 0
        self.memory = None
        self.fds = None
        self.failures = []

    def fail(self, what):
        """Something that the goals do not name and that must not be either."""
        self.failures.append(what)

    def line(self, seconds):
        memory = [mib(count) for count in self.memory] if self.memory else ["-"] * 3
        fds = f"{self.fds[0]}->{self.fds[1]}" if self.fds else "-"
        return (
            f"{self.name:<44} {self.inputs:>7} {self.panics:>6} {self.hangs:>5} "
            f"{memory[0]:>9} {memory[1]:>6} {memory[2]:>6} {fds:>9} {seconds:>5.0f}"
        )

    def missed(self):
        missed = list(self.failures)
        if self.panics:
            missed.append(f"{self.panics} panics")
        if self.hangs:
            missed.append(f"{self.hangs} hangs")
        if self.memory and max(self.memory[1:]) - self.memory[0] > MOST_MORE:
            missed.append("more than 64 MiB above the start")
        if self.fds and self.fds[0] != self.fds[1]:
            missed.append("descriptors are left over")
        return missed


def status_of(pid, key):
    """Bytes that the kernel tells of a process; 0 when it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) << 10
    return 0


def panics_in(text):
    return text.count("panicked at")


class Sim:
    """`e810 sim`, whose memory and descriptors are looked at."""

    def __init__(self, *more, sockets=("a",)):
        self.sockets = [path(name) for name in sockets]
        words = self.words(*more)
        for name in self.sockets:
            words += ["--socket", name]
        self.log = path(f"{sockets[0]}.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )
        end = time.monotonic() + END
        while not all(self.answers(name) for name in self.sockets):
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(Path(self.log).read_text(errors="replace"))
            time.sleep(0.05)

    @staticmethod
    def words(*more):
        return [E810, "sim", "--profile", "small", *more]

    @staticmethod
    def answers(name):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(name)
            except OSError:
                return False
            return True

    def alive(self):
        return self.process.poll() is None

    def status(self, key):
        return status_of(self.process.pid, key)

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def settled_fds(self, wanted):
        """Descriptors once the last user was seen off."""
        end = time.monotonic() + ANSWER
        while self.fds() != wanted and time.monotonic() < end:
            time.sleep(0.05)
        return self.fds()

    def maps(self):
        with open(f"/proc/{self.process.pid}/maps", encoding="ascii", errors="replace") as maps:
            return sum(1 for _ in maps)

    def calm_fds(self):
        """Descriptors when there is no change for a while."""
        end = time.monotonic() + ANSWER
        count, since = self.fds(), time.monotonic()
        while time.monotonic() < min(end, since + 0.4):
            time.sleep(0.05)
            if self.fds() != count:
                count, since = self.fds(), time.monotonic()
        return count

    def begin(self):
        fds = self.calm_fds()
        self.before = (self.status("VmRSS"), fds)

    def finish(self, row):
        """Fills in the row, and ends the server; a finding is no failure here."""
        if self.alive():
            start, fds = self.before
            fds = (fds, self.settled_fds(fds))
            memory = (start, self.status("VmRSS"), self.status("VmHWM"))
            row.fds = row.fds or fds
            row.memory = row.memory or memory
        else:
            row.fail(f"the server ended with {self.process.returncode}")
        self.stop(row)

    def stop(self, row):
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(END)
            except subprocess.TimeoutExpired:
                row.hangs += 1
                self.process.kill()
                self.process.wait()
        text = Path(self.log).read_text(errors="replace")
        row.panics += panics_in(text)
        lines = text.count("\n")
        if len(text) > MOST_LOG or lines > MOST_LINES:
            row.fail(f"a log of {lines} lines and {len(text)} bytes")


class Proxy(Sim):
    """`e810 proxy` on a simulated function of its own."""

    @staticmethod
    def words(*_):
        return [E810, "proxy", "--device", "sim", "--trace", path("trace")]


class Command:
    """A command that ends by itself; what it said and took."""

    def __init__(self, *words):
        self.err = open(path(f"err-{time.monotonic_ns()}"), "w+b")
        self.process = subprocess.Popen(
            [E810, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.err
        )
        self.memory = status_of(self.process.pid, "VmHWM")
        self.hung = False

    def end(self, limit=END):
        """Waits for the end; gives the exit code."""
        until = time.monotonic() + limit
        while True:
            # What is reported of an ended process has what it was forked from in it.
            self.memory = max(self.memory, status_of(self.process.pid, "VmHWM"))
            if self.process.poll() is not None:
                break
            if time.monotonic() > until:
                self.hung = True
                self.process.kill()
                self.process.wait()
                break
            time.sleep(0.005)
        self.err.seek(0)
        self.text = self.err.read().decode(errors="replace")
        self.err.close()
        return self.process.returncode

    def judge(self, row):
        """Counts one run: refusing is right, dying is not."""
        code = self.end()
        row.inputs += 1
        row.hangs += self.hung
        row.panics += panics_in(self.text)
        if code < 0 and not self.hung:
            row.fail(f"signal {-code}: {self.text[:200]}")
        start, end, most = row.memory
        row.memory = (start, self.memory, max(most, self.memory))
