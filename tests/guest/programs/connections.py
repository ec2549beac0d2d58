"""Reliable connections between two devices, each with a message, on one CQ and one memory region a device.

    connections.py DEVICE DEVICE COUNT [hold]

hold: they are there from when there is a file /tmp/held until there is one /tmp/go.
"""

import os
import sys
import time

from endpoint import *  # noqa: F403

devices, count = sys.argv[1:3], int(sys.argv[3])
# As `e810 perf` makes them.
DEPTH = 128

sides = [Endpoint(device, depth=DEPTH, sge=1, queue_pairs=count) for device in devices]
for number in range(count):
    for side, peer in (sides, reversed(sides)):
        side.connect(peer.gid, peer.qps[number].qp_num, qp=side.qps[number])
a, b = sides
for number in range(count):
    b.receive(0, 64, qp=b.qps[number])
    a.post(IBV_WR_SEND, 0, 64, qp=a.qps[number])
    for side in sides:
        if side.poll().status != IBV_WC_SUCCESS:
            raise SystemExit(f"{side.device}: the message did not arrive")
if sys.argv[4:] == ["hold"]:
    open("/tmp/held", "w").close()
    while not os.path.exists("/tmp/go"):
        time.sleep(0.1)
for side in sides:
    side.context.close()
