"""Counts the frames of a capture that passed between two Ethernet addresses, and the management datagrams
among them.

    between.py CAPTURE MAC MAC     exit status 1 unless there are some each way
"""

import sys

from icrc import frames, udp_of


def between(path, first, second):
    """Frames and datagrams of queue pair 1, by direction."""
    counts = {(first, second): [0, 0], (second, first): [0, 0]}
    with open(path, "rb") as file:
        data = file.read()
    for frame in frames(data):
        way = counts.get((frame[6:12], frame[0:6]))
        place = udp_of(frame)
        if way is None or place is None:
            continue
        start = place[1]
        way[0] += 1
        way[1] += frame[start + 13 : start + 16] == b"\0\0\1"
    return counts


if __name__ == "__main__":
    macs = [bytes.fromhex(mac.replace(":", "")) for mac in sys.argv[2:4]]
    counts = between(sys.argv[1], *macs)
    (there, mads), (back, mads_back) = counts[tuple(macs)], counts[tuple(reversed(macs))]
    print(f"{there} frames one way ({mads} of queue pair 1), {back} the other ({mads_back})")
    sys.exit(not (there and back))
