"""rdma-core's own tests of verbs, each one a case.

    rdma_core_tests.py FOLDER DEVICE GID_INDEX [MODULE...]

FOLDER is the package of the tests; MODULE limits the run to some of them (test_mr).
"""

import importlib.util
import os
import random
import signal
import sys
import unittest

# Seconds for one test, on an emulated processor.
LIMIT = 60 * int(os.environ.get("PATIENCE", "1"))

# Tests that fail by themselves when this machine is slow, and why: tried up to three times.
RACY = {
    "test_rdmacm.CMTestCase.test_rdmacm_async_traffic_external_qp":
        "rdmacm_utils.py _ext_qp_client_traffic posts its receive when its own message is done, and by then the other "
        "side has answered: RNR retries of 0.64 ms, five of them",
}
TRIES = 3

folder, device, index, *wanted = sys.argv[1:]
sys.path.insert(0, folder)
sys.argv = ["run_tests.py", "--dev", device, "--port", "1", "--gid", index]

spec = importlib.util.spec_from_file_location("tests", f"{folder}/__init__.py", submodule_search_locations=[folder])
tests = importlib.util.module_from_spec(spec)
sys.modules["tests"] = tests
spec.loader.exec_module(tests)
from args_parser import parser  # noqa: E402 (of the tests' own folder)

parser.parse_args()


def name_of(test):
    return test.id().removeprefix("tests.")


class Result(unittest.TestResult):
    """Prints the case of a test; of one that failed only if that was its last try."""

    def __init__(self, last):
        super().__init__()
        self.last = last

    def case(self, test, result, message=""):
        lines = [line for line in str(message).splitlines() if line.strip()]
        print(f"CASE {result} {name_of(test)} {lines[-1].strip() if lines else ''}", flush=True)

    def startTest(self, test):
        super().startTest(test)
        # Some draw what they ask for: the same in each run.
        random.seed(test.id())
        signal.alarm(LIMIT)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test):
        self.case(test, "ok")

    def addSkip(self, test, reason):
        self.case(test, "skipped", reason)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        if self.last:
            text = self.failures[-1][1]
            print(text)
            self.case(test, "FAILED", text)

    addError = addFailure

    def addSubTest(self, test, subtest, outcome):
        if outcome:
            self.addFailure(test, outcome)


def late(*_):
    raise TimeoutError(f"not done within {LIMIT} s")


signal.signal(signal.SIGALRM, late)
suite = tests.load_tests(unittest.defaultTestLoader, unittest.TestSuite(), None) if hasattr(
    tests, "load_tests") else unittest.defaultTestLoader.loadTestsFromModule(tests)


def each(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


chosen = [test for test in each(suite) if not wanted or name_of(test).split(".")[0] in wanted]
for test in chosen:
    why = RACY.get(name_of(test))
    tries = TRIES if why else 1
    for number in range(1, tries + 1):
        result = Result(last=number == tries)
        test.run(result)
        if result.wasSuccessful() or result.last:
            break
        print(f"{test.id()} failed, try {number} of {tries}: {why}")
        # A new object, without what this try has left in the old one.
        test = type(test)(test.id().rsplit(".", 1)[1])
print(f"{len(chosen)} tests")
sys.exit(0 if chosen else 1)
