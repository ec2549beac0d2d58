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


class Result(unittest.TestResult):
    def case(self, test, result, message=""):
        name = test.id().removeprefix("tests.")
        lines = [line for line in str(message).splitlines() if line.strip()]
        print(f"CASE {result} {name} {lines[-1].strip() if lines else ''}", flush=True)

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
        text = self._exc_info_to_string(error, test)
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


chosen = unittest.TestSuite(
    test for test in each(suite) if not wanted or test.id().removeprefix("tests.").split(".")[0] in wanted)
result = Result()
for test in chosen:
    why = RACY.get(test.id().removeprefix("tests."))
    for again in range(1, TRIES if why else 1):
        quiet = unittest.TestResult()
        signal.alarm(LIMIT)
        test.run(quiet)
        signal.alarm(0)
        if quiet.wasSuccessful():
            break
        print(f"{test.id()} failed, try {again} of {TRIES}: {why}")
        test = type(test)(test.id().rsplit(".", 1)[1])
    else:
        test.run(result)
        continue
    # It was right: that is its case.
    result.testsRun += 1
    result.addSuccess(test) if not quiet.skipped else result.addSkip(test, quiet.skipped[0][1])
print(f"{result.testsRun} tests")
sys.exit(0 if result.testsRun else 1)
