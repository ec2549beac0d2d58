"""What 1,000 messages cost, as a table: the differences of the rows of tests/guest/run programs-compared.

    programs_compared.py FOLDER
"""

import json
import os
import sys

KINDS = ["ours", "irdma", "rxe"]
PROGRAMS = ["rc-pingpong", "rc-pingpong-events", "write-bw"]
# Of work requests, and of frames where Linux' network device sends and receives them.
DOORBELLS = ("DB_WQE_ALLOC", "PFPE_WQEALLOC", "QTX_COMM_DBELL", "QRX_TAIL")


def counts(folder, row):
    """Sums over all functions by name."""
    with open(os.path.join(folder, row + ".json"), encoding="utf-8") as file:
        report = json.load(file)
    sums = {}
    for function in report["functions"]:
        for name, value in function.items():
            if isinstance(value, int):
                sums[name] = sums.get(name, 0) + value
            elif name in ("reads_of", "writes_of"):
                for register, number in value.items():
                    sums[name + " " + register] = sums.get(name + " " + register, 0) + number
    return sums


def grown(folder, row):
    before, after = counts(folder, row + "-before"), counts(folder, row + "-after")
    with open(os.path.join(folder, row + ".syscalls"), encoding="utf-8") as file:
        calls = int(file.read())
    return {name: after[name] - before.get(name, 0) for name in after} | {"syscalls": calls}


def cost(folder, kind, program):
    once, twice = (grown(folder, f"{kind}-{program}-{messages}") for messages in (1000, 2000))
    return {name: twice.get(name, 0) - once.get(name, 0) for name in set(once) | set(twice)}


def doorbells(of):
    return sum(number for name, number in of.items() if name.startswith("writes_of") and name.split()[1].startswith(DOORBELLS))


def main(folder):
    print("| for 1,000 messages | " + " | ".join(KINDS) + " |")
    print("| --- |" + " ---: |" * len(KINDS))
    rows = {
        "doorbells": doorbells,
        # Reads are statistics of Linux' network device, and questions whether something is done.
        "other writes of registers": lambda of: of["register_writes"] - doorbells(of),
        "interrupts": lambda of: of["interrupts"],
        "system calls": lambda of: of["syscalls"],
        "frames": lambda of: of["frames_sent"],
    }
    for program in PROGRAMS:
        costs = [cost(folder, kind, program) for kind in KINDS]
        for name, value in rows.items():
            print(f"| {program}: {name} | " + " | ".join(f"{value(of):,}" for of in costs) + " |")
        for kind, of in zip(KINDS, costs):
            accesses = sorted((name, number) for name, number in of.items() if number and name.startswith(("reads_of", "writes_of")))
            print(f"    {kind}:", ", ".join(f"{name} {number}" for name, number in accesses), file=sys.stderr)


main(sys.argv[1])
