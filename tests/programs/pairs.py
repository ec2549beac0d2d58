"""Programs between two processes, judged by a list.

    pairs.py E810 FOLDER LIST VERSION [-v] [--long] [--no-host] -- [WORD...]

LIST has paragraphs, each a command, what comes of it, and why:

    ok [long] [one] [own|shared] [host] [12|13] [VARIABLE=VALUE...] PROGRAM OPTION...
        server: ...

The first word is `ok`, `fail`, `stopped` (it goes on until it is stopped, and that is right) or `skip` (it is not
run, because what comes of it is chance). `long`: only with --long. `one`: no peer, one process. `own`: only where each
process has a function, `shared`: only on a shared one. `host`: in a network namespace whose host has the address of `to:`, too, for those who
connect there by TCP as well; not run with --no-host, which is said. 12, 13: only that Debian's. What follows is what both processes are started with; the port and the address of the server are added.
Indented lines:

    server: OPTION...   what only the server has
    client: OPTION...   what only the client has
    run: OPTION...      for e810 run
    to: ADDRESS         the server's, if it is not 127.0.0.1: that of its function, 10.8.1.1, for those who meet by the
                        connection manager
    says: REGEX         in what one of the two prints; several lines, each has to be there
    never: REGEX        in what neither prints
    REASON: TEXT        why it fails: one of REASONS, and it has to be there for `fail` and `skip`

PROGRAM may be several, `ib_{send,write}_bw`. A line `covers: PROGRAM...` asks that every option of their --help is
in some row of theirs. Words that are no options: `*` stands for all of them, where a program cannot run at all; SMALL is
-I 64 where a program asks for more inline data than the card has; MPI is what keeps UCX 1.18 from looking for MPI; ROW
in a word is the program's name.
"""

import concurrent.futures
import contextlib
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

# How a pair is run: the server's exit status and the client's are what it prints last.
SCRIPT = r"""
SERVER >"$OUT.server" 2>&1 &
server=$!
listens() { grep -qE ":$HEXPORT [0-9A-F:]+ 0A" /proc/net/tcp /proc/net/tcp6; }
for _ in $(seq 200); do listens && break; kill -0 $server 2>/dev/null || break; sleep 0.05; done
CLIENT >"$OUT.client" 2>&1 &
client=$!
wait -n -p ended $server $client; first=$?
[[ $first == 0 ]] || { for _ in $(seq 6); do kill -0 $server $client 2>/dev/null || break; sleep 0.1; done
    if [[ $ended == "$server" ]]; then kill $client 2>/dev/null; else kill $server 2>/dev/null; fi; }
wait $server; server=$?
wait $client; client=$?
echo "$server $client" >"$OUT.status"
"""

# The same for those who meet by the connection manager, where nothing shows that the server listens: a client that comes
# too early is refused, and tries again.
MEETING = r"""
SERVER >"$OUT.server" 2>&1 &
server=$! client=1
for _ in $(seq 8); do
    sleep 1
    kill -0 $server 2>/dev/null || break
    CLIENT >"$OUT.client" 2>&1
    client=$?
    ((client)) && grep -qiE 'reject|refused|unreachable|event: 8|no route' "$OUT.client" || break
done
((client)) && kill $server 2>/dev/null
wait $server; server=$?
echo "$server $client" >"$OUT.status"
"""

# Programs with ports of their own choice: one at a time where all share a function.
FIXED = ("mckey", "rdma_client", "rdma_xclient", "ucmatose", "udaddy")
TURN = threading.Lock()

# Rows at a time. They mostly wait.
AT_ONCE = 4

# Ports of servers, each of one row.
PORTS = set()

# Seconds for a row.
LIMIT = int(os.environ.get("E810_PAIRS_SECONDS", "60"))

# The socket of the function that all rows share, if they do.
SERVED = os.environ.get("E810_PAIRS_AT")

# perftest measures the processor's clock, and gives up where others take its time. It gets two more turns.
UNLUCKY = "Correlation coefficient r"

# Seconds that a row still goes on when it has said what it should.
STOPPED_AFTER = 1

REASONS = {
    "card": "the card has not got it: a row of docs/verbs.md",
    "host": "the kernel, a package or QEMU has not got it",
    "one-function": "it takes two ports of a process",
    "program": "a bug of the program: where",
    "linux": "the same comes out with libirdma and irdma: why",
}


class Row:
    def __init__(self, line, number):
        self.number, self.line = number, line
        words = shlex.split(line)
        self.wanted = words.pop(0)
        self.long = self.one = self.own = self.shared = self.host = False
        self.version = None
        while words[0] in ("long", "one", "own", "shared", "host", "12", "13"):
            word = words.pop(0)
            if word.isdigit():
                self.version = word
            else:
                setattr(self, word, True)
        self.variables = []
        while re.match(r"[A-Z0-9_]+=", words[0]):
            self.variables.append(words.pop(0))
        self.program, self.options = words[0], words[1:]
        self.server, self.client, self.run, self.to = [], [], [], ["127.0.0.1"]
        self.says, self.never, self.reasons = [], [], []

    def add(self, key, text):
        if key in ("server", "client", "run", "to"):
            setattr(self, key, shlex.split(text))
        elif key in ("says", "never"):
            getattr(self, key).append(text)
        elif key in REASONS:
            self.reasons.append((key, text))
        else:
            return False
        return True

    def all_options(self):
        return self.options + self.server + self.client


def each_program(line):
    """A line for each of ib_{send,write}_bw."""
    braces = re.search(r"(?<=\S)\{(.*?)\}", line)
    if not braces:
        return [line]
    lines = [line[: braces.start()] + word + line[braces.end() :] for word in braces[1].split(",")]
    return [each for line in lines for each in each_program(line)]


def read(path):
    rows, covered, wrong, group = [], [], [], []
    for number, line in enumerate(open(path), 1):
        line = line.rstrip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("covers:"):
            covered += [program for word in line.split()[1:] for program in each_program(word)]
        elif line.startswith(" "):
            key, _, text = line.strip().partition(": ")
            if not group or not all([row.add(key, text) for row in group]):
                wrong.append(f"{path}:{number}: {line.strip()}")
        else:
            rows += (group := [Row(one, number) for one in each_program(line)])
    # What the card has not got stands before the tables of counterparts.
    page = open("docs/verbs.md").read().partition("\n## From libibverbs")[0]
    verbs = [row for row in page.splitlines() if row.startswith("|")]
    for row in rows:
        if row.wanted not in ("ok", "fail", "stopped", "skip"):
            wrong.append(f"{path}:{row.number}: {row.wanted} is neither ok, fail, stopped nor skip")
        if (row.wanted in ("fail", "skip")) != bool(row.reasons):
            wrong.append(f"{path}:{row.number}: what fails has a reason, and what does not has none")
        for reason, text in row.reasons:
            named = text.split(";")[0]
            if reason == "card" and not any(named in verbs_row for verbs_row in verbs):
                wrong.append(f"{path}:{row.number}: docs/verbs.md has no row with '{named}'")
    return rows, covered, wrong


def free_port():
    """A port that no other row has, and that no program's connection gets by itself until the server listens there."""
    first = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
    while True:
        port = random.randrange(10000, first if first > 20000 else 65536)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        if port not in PORTS:
            PORTS.add(port)
            return port


def command(row, start, port, client):
    """The words of one process."""
    words = ["env", *row.variables, start, row.program]
    if row.one:
        return shlex.join(words + row.options)
    options = row.options + (row.client if client else row.server)
    options = [word for word in options if word not in ("*", "SMALL", "MPI")]
    options = [word.replace("ROW", row.program) for word in options]
    # UCX 1.18 looks for other processes by MPI if it is not asked not to.
    if "MPI" in row.options and start.endswith("13"):
        options += ["-P", "0"]
    # Debian 12's perftest asks for more inline data than the card has.
    if "SMALL" in row.options and re.fullmatch("ib_(send|write)_lat", row.program) and start.endswith("12"):
        options += ["-I", "64"]
    if row.program == "qperf":
        # Its tests stand behind the options and the host.
        words += ["-lp", str(port)] + ([*row.to, *options] if client else [])
    elif row.program == "fi_pingpong":
        words += [*options, "-P" if client else "-B", str(port)] + (row.to if client else [])
    elif row.program == "rping":
        words += ["-c" if client else "-s", "-a", row.to[0], "-p", str(port), *options]
    elif row.program == "cmtime":
        words += ["-p", str(port), *options] + (["-s", row.to[0]] if client else [])
    elif row.program == "fio":
        side = ["--rw=write", f"--hostname={row.to[0]}"] if client else ["--rw=read"]
        words += [f"--name={'client' if client else 'server'}", "--ioengine=rdma", f"--port={port}", *side, *options]
    elif row.program == "mckey":
        words += ["-b", "10.8.1.1" if SERVED or not client else "10.8.1.2", *options] + (["-s"] if client else [])
    elif row.program in ("rdma_client", "rdma_xclient"):
        words[-1] = row.program if client else row.program.replace("client", "server")
        words += options + (["-s", row.to[0]] if client else [])
    elif row.program in FIXED:
        words += options + (["-s", row.to[0]] if client else [])
    elif row.program.startswith("raw_ethernet"):
        # Neither ports nor hosts.
        words += options
    else:
        words += ["-p", str(port), *options] + (row.to if client else [])
    return shlex.join(words)


def printed(out):
    """What a row's processes have printed."""
    texts = []
    for ending in ("run", "server", "client"):
        if os.path.exists(f"{out}.{ending}"):
            text = open(f"{out}.{ending}", errors="replace").read()
            texts.append(f"[{ending}]\n{text}" if text else "")
    return "".join(texts)


def until_it_says(row, child, out, limit):
    """Waits until it has printed all that it should, or has ended."""
    end = time.monotonic() + limit
    while time.monotonic() < end and child.poll() is None:
        if all(re.search(regex, printed(out), re.M) for regex in row.says):
            return
        time.sleep(0.2)


def outcome(row, e810, folder, start):
    """What came of a row: `ok`, `fail` or `stopped`, what was printed, and how both ended."""
    out = f"{folder}/row-{row.number}-{row.program}"
    port = free_port()
    wire = f"pairs-{os.getpid()}-{row.number}-{row.program}"
    run = [e810, "run", "--quiet", *row.run]
    if SERVED:
        run += ["--at", SERVED]
    else:
        for end in (1, 2):
            run += ["--device", f"sim:wire={wire},mac=02:00:00:00:0{end}:00@10.8.1.{end},fd00:8::{end}"]
    if row.one:
        script = command(row, start, port, False) + ' >"$OUT.server" 2>&1; echo "$? 0" >"$OUT.status"'
    else:
        script = MEETING if row.to != ["127.0.0.1"] else SCRIPT
        script = script.replace("SERVER", command(row, start, port, False))
        script = script.replace("CLIENT", command(row, start, port, True))
    environment = dict(os.environ, XDG_RUNTIME_DIR=folder, OUT=out, HEXPORT=f"{port:04X}")
    # What is mapped, each time with nothing in it.
    for option in row.all_options():
        if option.startswith("--mmap="):
            with open(f"{folder}/{option[7:].replace('ROW', row.program)}", "wb") as file:
                file.truncate(16 << 20)
    for ending in ("server", "client", "status"):
        if os.path.exists(f"{out}.{ending}"):
            os.remove(f"{out}.{ending}")
    if row.host:
        own = f"ip link set lo up && ip addr add {row.to[0]} dev lo"
        run = ["unshare", "-rn", "sh", "-c", f'{own} && exec "$0" "$@"', *run]
    child = subprocess.Popen(
        run + ["--", "bash", "-c", script], env=environment, start_new_session=True, cwd=folder,
        stdin=subprocess.DEVNULL, stdout=open(f"{out}.run", "w"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    limit = LIMIT * (3 if row.long else 1)
    try:
        if row.wanted == "stopped":
            until_it_says(row, child, out, limit)
        child.wait(STOPPED_AFTER if row.wanted == "stopped" else limit)
        came = "fail"
    except subprocess.TimeoutExpired:
        came = "stopped"
    # What is left of its session.
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()
    text = printed(out)
    status = open(f"{out}.status").read().strip() if os.path.exists(f"{out}.status") else "none"
    if came != "stopped" and status == "0 0":
        came = "ok"
    return came, text, status


def judge(row, came, text):
    """What is not as the list has it."""
    wrong = [] if came == row.wanted else [f"{came} and not {row.wanted}"]
    wrong += [f"no line with {regex}" for regex in row.says if not re.search(regex, text, re.M)]
    wrong += [f"a line with {regex}" for regex in row.never if re.search(regex, text, re.M)]
    if "panicked" in text:
        wrong.append("a panic")
    return wrong


def not_covered(program, rows, start, e810, folder):
    """The options of a program's --help that no row of it has."""
    environment = dict(os.environ, XDG_RUNTIME_DIR=folder)
    help_text = subprocess.run(
        [e810, "run", "--quiet", "--", start, program, "--help"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ).stdout  # fmt: skip
    has = {"-p"} | {word.split("=")[0] for row in rows if row.program == program for word in row.all_options()}
    missing = []
    for line in help_text.splitlines():
        found = re.match(r"\s+(?:(-\w), ?)?(--?[\w-]+)", line)
        if found and not {found[1], found[2], "*"} & has:
            missing.append(found[2])
    return missing if "-" in help_text else ["--help"]


def main():
    e810, folder, path, version, *rest = sys.argv[1:]
    options, words = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    rows, covered, wrong = read(path)
    rows = [row for row in rows if row.version in (None, version) and not (row.own if SERVED else row.shared)]
    name = f"{os.path.basename(path)}-{version}"
    start = f"{folder}/start-{version}"
    for program in covered:
        missing = not_covered(program, rows, start, e810, folder)
        wrong += [f"{name}: no row of {program} has {option}" for option in missing]
    skipped = sum(row.wanted == "skip" for row in rows)
    rows = [row for row in rows if row.wanted != "skip"]
    rows = [row for row in rows if (not row.long or "--long" in options)]
    rows = [row for row in rows if all(word in f"{row.line} {row.server} {row.client}".split() for word in words)]
    if "--no-host" in options:
        for row in [row for row in rows if row.host]:
            print(f"NOT RUN  {name}:{row.number} {row.line}: this user has no network namespaces")
        rows = [row for row in rows if not row.host]
    began = time.monotonic()

    def one(row):
        at = time.monotonic()
        for turn in range(3):
            with TURN if SERVED and row.program in FIXED else contextlib.nullcontext():
                came, text, status = outcome(row, e810, folder, start)
            problems = judge(row, came, text)
            # It may be that a busy machine loses frames, which are resent half a second later: one more turn, which is said.
            is_late = turn == 0 and came == "stopped"
            if not problems or not (is_late or re.search(UNLUCKY, text)):
                break
            if is_late:
                print(f"again    {name}:{row.number} {row.line}: still there after {LIMIT} s")
        if problems and came == "stopped" and row.wanted != "stopped":
            problems.append(f"still there after {LIMIT} s")
        return row, came, text, status, problems, time.monotonic() - at

    counts = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for row, came, text, status, problems, took in pool.map(one, rows):
            counts[came] = counts.get(came, 0) + 1
            if "-v" in options or problems:
                said = "" if not problems else f": {'; '.join(problems)} (exit {status})"
                print(f"{'FAILED' if problems else came:8} {name}:{row.number} {row.line}{said}, {took:.1f} s")
            if problems:
                wrong.append(f"{name}:{row.number}: {'; '.join(problems)}")
                lines = text.splitlines()
                print("".join(f"| {line}\n" for line in (lines if "-v" in options else lines[-60:])))
    for line in wrong:
        print(line)
    works = counts.get("ok", 0) + counts.get("stopped", 0)
    print(
        f"{name}: {works} work, {counts.get('fail', 0)} cannot, {skipped} are chance, {len(wrong)} not as listed, "
        f"{time.monotonic() - began:.0f} s"
    )
    sys.exit(1 if wrong else 0)


main()
