"""Checks the ICRC of every RoCEv2 frame of captures, by the architecture's rules and zlib's CRC-32.

    icrc.py CAPTURE...            exit status 1 when one is wrong
    icrc.py --spoil FROM TO       a copy whose first packet ends in the middle of its BTH
"""

import struct
import sys
import zlib

HEADER = 24
# Destination port of RoCEv2.
PORT = 4791


def frames(data):
    assert data[:4] == bytes.fromhex("4d3cb2a1") and data[20:24] == b"\1\0\0\0", "no capture of Ethernet"
    at = HEADER
    while at < len(data):
        _, _, kept, length = struct.unpack_from("<4I", data, at)
        assert kept == length, "a frame was cut"
        at += 16
        yield data[at : at + length]
        at += length


def icrc(frame):
    """What the packet has, and what it should have."""
    at = 18 if frame[12:14] == b"\x81\x00" else 14
    ipv6 = frame[at] >> 4 == 6
    start = at + (40 if ipv6 else 20)
    udp = struct.unpack_from(">H", frame, start + 4)[0]
    assert struct.unpack_from(">H", frame, start + 2)[0] == PORT
    packet = bytearray(frame[at : start + udp])
    inside = start - at
    # Fields that change on the way count as ones: traffic class, flow label and hop limit, or TOS, TTL and sum;
    # the sum of UDP; the byte of the BTH with the congestion bits.
    if ipv6:
        packet[0] |= 0x0F
        variant = [1, 2, 3, 7]
    else:
        variant = [1, 8, 10, 11]
    for n in variant + [inside + 6, inside + 7, inside + 12]:
        packet[n] = 0xFF
    # In place of the local routing header of InfiniBand.
    return bytes(packet[-4:]), struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(packet[:-4])))


def check(path):
    with open(path, "rb") as file:
        data = file.read()
    count, wrong = 0, 0
    for frame in frames(data):
        count += 1
        has, should = icrc(frame)
        if has != should:
            wrong += 1
            print(f"{path}: frame {count}: ICRC {has.hex()}, should be {should.hex()}")
    return count, wrong


def spoil(source, target):
    with open(source, "rb") as file:
        data = bytearray(file.read())
    frame = next(frames(data))
    # The lengths of IP and UDP with 6 bytes of BTH.
    body = bytearray(frame[: 14 + 20 + 8 + 6])
    struct.pack_into(">H", body, 16, 20 + 8 + 6)
    struct.pack_into(">H", body, 38, 8 + 6)
    with open(target, "wb") as file:
        file.write(data[:HEADER] + struct.pack("<4I", 0, 0, len(body), len(body)) + body)


if sys.argv[1:2] == ["--spoil"]:
    spoil(*sys.argv[2:4])
else:
    results = [check(path) for path in sys.argv[1:]]
    packets, bad = (sum(column) for column in zip(*results))
    print(f"ICRC: {packets} packets, {bad} wrong")
    sys.exit(bad != 0 or packets == 0)
