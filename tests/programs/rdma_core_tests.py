"""rdma-core's own tests of verbs, one process a module, judged by a list.

    rdma_core_tests.py PYTHON FOLDER DEVICE GID_INDEX LIST [--update] [-v] [TEST...]
    rdma_core_tests.py --module FOLDER DEVICE GID_INDEX DESCRIPTOR MODULE TEST...

The first starts the second by PYTHON, again and again until every test has a result, and
compares these with LIST, which has a line a test:

    ok NAME
    skip NAME REASON
    fail NAME REASON

REASON is one of REASONS with what it is about. FOLDER is the package of the tests; TEST limits the run
to those whose name begins so.
"""

import faulthandler
import gc
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import time
import unittest

# How a process ends.
WELL = "well"

# Those of the connection manager are two processes on one device, whose interface has its address.
WITH_CM = "E810_PYVERBS_CM" in os.environ

# Not generic: other vendors' interfaces, graphics cards.
LEFT_OUT = re.compile(r"test_(mlx5_.*|efa.*|cuda_.*" + ("" if WITH_CM else "|rdmacm") + ")$")

# Seconds for one test.
LIMIT = int(os.environ.get("E810_PYVERBS_SECONDS", "60"))

# Seconds that a process has beyond it to say where it hangs.
GRACE = 5

# What the tests draw depends on this and on their names.
SEED = os.environ.get("E810_SEED", "1")

REASONS = {
    "card": "the card has not got it: a row of docs/verbs.md",
    "host": "the kernel, a package or QEMU has not got it",
    "one-function": "it takes two ports or two processes",
    "program": "a bug of the test: where",
    "linux": "the same comes out with libirdma and irdma: why",
}


# ---- In Debian's Python: the tests of one module.


class Reporter(unittest.TestResult):
    """Tells the judge what begins and what came of it."""

    def __init__(self, descriptor):
        super().__init__()
        self.out = os.fdopen(descriptor, "w")

    def say(self, test, state, text=""):
        json.dump([name_of(test), state, str(text)], self.out)
        print(file=self.out, flush=True)

    def startTest(self, test):
        super().startTest(test)
        random.seed(f"{SEED} {name_of(test)}")
        self.said = None
        self.say(test, "began")
        # From a thread of its own, whatever the test hangs in.
        faulthandler.dump_traceback_later(LIMIT, exit=True)

    def stopTest(self, test):
        # What it has left is taken down now, and not in a test behind it.
        gc.collect()
        faulthandler.cancel_dump_traceback_later()
        state, text = self.said or ("fail", "it said nothing")
        self.say(test, state, text)
        super().stopTest(test)

    def addSuccess(self, _test):
        self.said = self.said or ("ok", "")

    def addSkip(self, _test, reason):
        self.said = self.said or ("skip", reason)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        # A second error is that of taking down what the first has left.
        if not (self.said and self.said[0] == "fail"):
            self.said = "fail", self.failures[-1][1]

    addError = addFailure

    def addSubTest(self, test, _subtest, outcome):
        if outcome:
            self.addFailure(test, outcome)


def name_of(test):
    return test.id().removeprefix("tests.")


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def run_module(folder, device, gid, descriptor, module, *names):
    """The tests of MODULE with these names; without names it only lists them."""
    faulthandler.enable()
    sys.path.insert(0, folder)
    sys.argv = ["run_tests.py", "-v", "--dev", device, "--port", "1", "--gid", gid]
    if WITH_CM:
        # What they ask first, before they ask `ls`, `rdma` and `ip`.
        exists = os.path.exists
        os.path.exists = lambda path: str(path).endswith(f"/{device}/device/net/") or exists(path)
    # As run_tests.py has it.
    import importlib.util

    spec = importlib.util.spec_from_file_location("tests", f"{folder}/__init__.py", submodule_search_locations=[folder])
    package = importlib.util.module_from_spec(spec)
    sys.modules["tests"] = package
    spec.loader.exec_module(package)
    from args_parser import parser

    parser.parse_args()
    reporter = Reporter(int(descriptor))
    for loaded in package.__test_modules__:
        if loaded.__name__ != f"tests.{module}":
            continue
        for test in tests_of(unittest.defaultTestLoader.loadTestsFromModule(loaded)):
            if not names:
                reporter.say(test, "there")
            elif name_of(test) in names:
                test.run(reporter)
    # Neither waits for threads nor runs destructors of what tests have left, as programs end that are killed.
    sys.stdout.flush()
    os._exit(0)


# ---- The judge.


def run(python, folder, device, gid, module, names):
    """Runs these tests of a module in a process of its own; what it says, and how it ended."""
    read, write = os.pipe()
    child = subprocess.Popen(
        [python, __file__, "--module", folder, device, gid, str(write), module, *names],
        pass_fds=[write],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(write)
    said, rest, last, ended = [], b"", time.monotonic(), False
    while True:
        if select.select([read], [], [], 0.2)[0]:
            more = os.read(read, 65536)
            if not more:
                break
            last = time.monotonic()
            *lines, rest = (rest + more).split(b"\n")
            said += [json.loads(line) for line in lines]
        elif ended:
            # Something that it has started has the pipe still.
            break
        else:
            ended = child.poll() is not None
        # The process ends by itself when a test takes too long, but for one that is stopped.
        if time.monotonic() > last + LIMIT + GRACE:
            break
    late = time.monotonic() > last + LIMIT - 0.5
    os.close(read)
    # Also what its tests have started.
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    status = child.wait()
    if status == 0:
        return said, WELL
    if late:
        return said, f"not done within {LIMIT} s"
    return said, "the process died: " + (f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}")


def results(python, folder, device, gid, wanted):
    """Name, state and text of each test, as they come."""
    modules = [file.removesuffix(".py") for file in sorted(os.listdir(folder)) if re.match(r"test_.*\.py$", file)]
    for module in modules:
        if LEFT_OUT.match(module):
            continue
        if wanted and not any(module.startswith(begin) or begin.startswith(f"{module}.") for begin in wanted):
            continue
        said, ended = run(python, folder, device, gid, module, [])
        left = [name for name, state, _ in said if state == "there"]
        if not left:
            yield f"{module}.*", "fail", f"the tests could not be loaded ({ended})"
        if wanted:
            left = [name for name in left if any(name.startswith(begin) for begin in wanted)]
        while left:
            began = last = None
            said, ended = run(python, folder, device, gid, module, left)
            for name, state, text in said:
                last = name
                if state == "began":
                    began = name
                else:
                    began = None
                    left.remove(name)
                    yield name, state, text
            if began:
                left.remove(began)
                yield began, "fail", ended
            elif ended != WELL:
                # Between two of them, or at its end.
                yield last or f"{module}.*", "fail", f"behind it: {ended}"
            if ended == WELL or not said:
                for name in left:
                    yield name, "fail", "it was not run"
                left = []


def read_list(path):
    """The lines of a list: text of those that are comments, or [state, name, reason]."""
    lines, faults = [], []
    rows = features_without()
    with open(path, encoding="utf-8") as file:
        for text in file.read().splitlines():
            if not text or text.startswith("#"):
                lines.append(text)
                continue
            state, name, *reason = text.split(" ", 2)
            reason = reason[0] if reason else ""
            word, _, about = reason.partition(" ")
            if state not in ("ok", "skip", "fail"):
                faults.append(f"{name}: the list has neither ok nor skip nor fail: {text}")
            elif state != "ok" and (word not in REASONS or not about):
                faults.append(f"{name}: the list has no reason: {text}")
            elif word == "card" and not any(about.startswith(row) for row in rows):
                faults.append(f"{name}: docs/verbs.md has no row for: {about}")
            lines.append([state, name, reason])
    return lines, faults


def features_without():
    """The first cells, and their parts, of docs/verbs.md's table of what is not on this device."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/verbs.md")
    with open(page, encoding="utf-8") as file:
        section = file.read().partition("\n## Not on this device\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| ([^|]+) \|", section, re.M)
    return [part.strip() for cell in cells for part in [cell, *cell.split(",")]]


def judge(python, folder, device, gid, list_of, *options):
    update, verbose = "--update" in options, "-v" in options
    wanted = [option for option in options if option not in ("--update", "-v")]
    lines, faults = read_list(list_of)
    listed = {line[1]: line for line in lines if isinstance(line, list)}
    print(f"E810_SEED={SEED}", flush=True)
    count = {"ok": 0, "skip": 0, "fail": 0}
    seen, changed = set(), False
    for name, state, text in results(python, folder, device, gid, wanted):
        last = ([line.strip() for line in text.splitlines() if line.strip()] or [""])[-1]
        if verbose:
            print(f"{state} {name} {last}".rstrip(), flush=True)
        seen.add(name)
        was, reason = (listed[name][0], listed[name][2]) if name in listed else ("", "")
        if update and name in listed and was != state:
            listed[name][0], changed = state, True
            if state == "ok":
                listed[name][2] = ""
        elif update and name not in listed:
            # Reasons are written by hand: without one the list is refused.
            lines.append([state, name, ""])
            changed = True
        elif was == state:
            count[state] += 1
        elif state == "ok":
            faults.append(f"{name}: it passes: " + (f"take it off the list ({was}, {reason})" if was else "add it to the list"))
        else:
            faults.append(f"{name}: {state}, and the list has {was or 'nothing'}: {last}")
            if verbose:
                print("".join(f"    {line}\n" for line in text.splitlines()), end="")
    if not wanted:
        gone = [name for name in listed if name not in seen and not LEFT_OUT.match(name.split(".")[0])]
        if update:
            lines = [line for line in lines if not (isinstance(line, list) and line[1] in gone)]
            changed = changed or bool(gone)
        else:
            faults += [f"{name}: the list has it, and there is no such test" for name in gone]
    if changed:
        with open(list_of, "w", encoding="utf-8") as file:
            file.writelines((line if isinstance(line, str) else " ".join(line).rstrip()) + "\n" for line in lines)
        print(f"{list_of} is another one now")
    for fault in faults:
        print(f"FAILED {fault}")
    expected = f", {count['fail']} fail as listed" if count["fail"] else ""
    print(f"{count['ok']} pass, {count['skip']} skip{expected}, {len(faults)} fail")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    if sys.argv[1] == "--module":
        run_module(*sys.argv[2:])
    judge(*sys.argv[1:])
