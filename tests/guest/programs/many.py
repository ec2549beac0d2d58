"""1,000 memory regions and 200 queue pairs, all of them used, and all of them freed again.

    many.py DEVICE DEVICE
"""

import sys

from cases import case, equal
from endpoint import *  # noqa: F403

devices = sys.argv[1:3]
REGIONS, PAIRS = 1000, 200


def regions():
    a, b = pair(devices)
    held = [MR(b.pd, 4096, ALL) for _ in range(REGIONS)]
    equal("keys", len({mr.rkey for mr in held}), REGIONS)
    a.mr.write(b"regions!", 8)
    for mr in held:
        a.post(IBV_WR_RDMA_WRITE, 0, 8, remote=(mr.buf, mr.rkey))
        equal("status", a.poll().status, IBV_WC_SUCCESS)
        equal("bytes", mr.read(8, 0), b"regions!")
    for mr in held:
        mr.close()
    return f"{REGIONS} regions"


def pairs():
    made = [pair(devices, depth=4, bytes=4096) for _ in range(PAIRS // 2)]
    for number, (a, b) in enumerate(made):
        b.receive(0, 64)
        text = b"pair %04d" % number
        a.mr.write(text, 9)
        a.post(IBV_WR_SEND, 0, 9)
        equal("status", a.poll().status, IBV_WC_SUCCESS)
        equal("bytes received", b.poll().byte_len, 9)
        equal("bytes", b.mr.read(9, 0), text)
    return f"{PAIRS} queue pairs"


case("1000-regions", regions)
case("200-queue-pairs", pairs)
