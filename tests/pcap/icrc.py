"""Checks the ICRC of every RoCEv2 frame of captures, by the architecture's rules and zlib's CRC-32.

    icrc.py CAPTURE...            exit status 1 when one is wrong, or a frame is none of RoCEv2
    icrc.py --others CAPTURE...   the same, beside frames of other protocols
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


def udp_of(frame):
    """Where the IP and UDP headers of a frame of RoCEv2 begin; nothing for other frames."""
    at = 18 if frame[12:14] == b"\x81\x00" else 14
    if frame[at - 2 : at] == b"\x08\x00":
        start, protocol = at + 20, frame[at + 9]
    elif frame[at - 2 : at] == b"\x86\xdd":
        start, protocol = at + 40, frame[at + 6]
    else:
        return None
    is_roce = protocol == 17 and struct.unpack_from(">H", frame, start + 2)[0] == PORT
    return (at, start) if is_roce else None


def icrc(frame):
    """What the packet has, and what it should have."""
    at, start = udp_of(frame)
    ipv6 = frame[at] >> 4 == 6
    udp = struct.unpack_from(">H", frame, start + 4)[0]
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


def check(path, others=False):
    """How many packets there are, how many of them are wrong, and how many frames of other protocols."""
    with open(path, "rb") as file:
        data = file.read()
    count, wrong, other = 0, 0, 0
    for frame in frames(data):
        if udp_of(frame) is None:
            other += 1
            if not others:
                wrong += 1
                print(f"{path}: a frame that is none of RoCEv2: {frame[:60].hex()}")
            continue
        count += 1
        has, should = icrc(frame)
        if has != should:
            wrong += 1
            print(f"{path}: frame {count}: ICRC {has.hex()}, should be {should.hex()}")
    return count, wrong, other


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


if __name__ == "__main__":
    if sys.argv[1:2] == ["--spoil"]:
        spoil(*sys.argv[2:4])
    else:
        others = sys.argv[1:2] == ["--others"]
        results = [check(path, others) for path in sys.argv[1 + others :]]
        packets, bad, rest = (sum(column) for column in zip(*results))
        print(f"ICRC: {packets} packets, {bad} wrong" + (f"; {rest} frames of other protocols" if others else ""))
        sys.exit(bad != 0 or packets == 0)
