"""Prints what a case came to, in the form that tests/guest/results reads."""

import sys
import traceback


def case(name, test):
    """Runs `test`; prints one line CASE RESULT NAME MESSAGE."""
    try:
        message = test() or ""
        result = "ok"
    except Exception as error:  # noqa: BLE001 (whatever a case raises is its result)
        traceback.print_exc(limit=4, file=sys.stdout)
        result, message = "FAILED", f"{type(error).__name__}: {error}"
    print(f"CASE {result} {name} {' '.join(str(message).split())}", flush=True)


def equal(what, found, should):
    if found != should:
        raise AssertionError(f"{what} is {found}, not {should}")
