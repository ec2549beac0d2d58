"""Hostile users of `e810 sim` and of `e810 proxy`."""

import contextlib
import json
import os
import random
import socket
import struct

from measure import ANSWER, Proxy, Row, Sim
from measure import path as path_of
from messages import (
    BODIES, DMA_MAP, DMA_UNMAP, READ, RESET, SET_IRQS, VERSION, WRITE, User, healthy, memory,
    message,
)


# What the users connect to.
SERVER = Sim


def started(*more):
    sim = SERVER(*more)
    if not healthy(sim.sockets[0]):
        raise SystemExit("the server does not serve")
    sim.begin()
    return sim, sim.sockets[0]


def alone(row, path, data, fds=()):
    """A connection of its own for some bytes; it must come to an end."""
    row.inputs += 1
    try:
        with User(path) as user:
            user.send(data, fds)
            user.rest()
    except TimeoutError:
        row.hangs += 1
    except OSError:
        pass


@contextlib.contextmanager
def session(row, path):
    """A user whose messages are all answered, or else it is a hang or a failure."""
    try:
        with User(path) as user:
            user.ask(VERSION)
            yield user
    except TimeoutError:
        row.hangs += 1
    except OSError as error:
        row.fail(f"a session ended: {error}")


def behind_proxy(users):
    """The same class of users, of a proxy."""

    def proxied():
        global SERVER
        SERVER = Proxy
        try:
            row = users()
        finally:
            SERVER = Sim
        row.name = f"proxy: {row.name}"
        return row

    return proxied


def seen(row, key, least):
    """Holds a number of the server's report, if it has one, to what the class is about."""
    if SERVER is Proxy:
        return
    with open(path_of("report"), encoding="utf-8") as report:
        number = json.load(report)["functions"][0][key]
    if number < least:
        row.fail(f"{key} is {number}, not {least}: the class did not do what it should")


def check(row, path):
    if not healthy(path):
        row.hangs += 1


def crafted():
    """Every command with wrong sizes and flags; regions, vectors and descriptors."""
    row = Row("crafted messages")
    sim, path = started()
    for command in [*range(16), 99, 0xFFFF]:
        body = BODIES.get(command, b"")
        whole = 16 + len(body)
        for flags in (0, 1, 1 << 4, 1 << 5, 0xFFFFFFFF):
            for size in (whole, 0, 15, 16, whole - 1, whole + 1, 4113, 1 << 20, 1 << 31, 0xFFFFFFFF):
                alone(row, path, message(command, body, size, flags))
            for cut in (1, len(body) // 2 + 8):
                alone(row, path, message(command, body, whole, flags)[:cut])
        check(row, path)
    numbers = (0, 1, 4, 4095, 4096, 1 << 20, (32 << 20) - 4, 32 << 20, 1 << 40, 2**64 - 4, 2**64 - 1)
    with session(row, path) as user:
        user.ask(WRITE)
        for region in (0, 1, 3, 7, 8, 9, 0xFFFFFFFF):
            for offset in numbers:
                for count in (0, 1, 4, 8, 4096, 1 << 20, 1 << 21):
                    row.inputs += 2
                    user.ask(READ, struct.pack("=QII", offset, region, count))
                    user.ask(WRITE, struct.pack("=QII", offset, region, count) + b"\0" * min(count, 8))
    null = os.open("/dev/null", os.O_RDWR)
    folder = os.open("/", os.O_RDONLY)
    place = os.open("/", os.O_PATH)
    reader, writer = os.pipe()
    event = os.eventfd(0, os.EFD_NONBLOCK)
    kinds = (null, folder, place, reader, writer, event)
    with session(row, path) as user:
        user.ask(WRITE)
        for fd in kinds:
            for flags in (0, 0x21, 0x22, 0x24, 0x0C, 0x14, 0xFFFFFFFF):
                for start, count in ((0, 1), (63, 1), (63, 2), (0, 64), (2**32 - 1, 2**32 - 1)):
                    row.inputs += 1
                    user.ask(SET_IRQS, struct.pack("=IIIII", 20, flags, 2, start, count), [fd])
            for address, size in ((0, 4096), (1, 1), (2**64 - 4096, 4096), (2**64 - 1, 2**64 - 1)):
                row.inputs += 1
                user.ask(DMA_MAP, struct.pack("=IIQQQ", 32, 3, 0, address, size), [fd])
                user.ask(DMA_UNMAP, struct.pack("=IIQQ", 24, 0, address, size))
        row.inputs += 1
        user.ask(RESET, b"", [event] * 16)
    alone(row, path, message(RESET), [event] * 17)
    for fd in kinds:
        os.close(fd)
    check(row, path)
    sim.finish(row)
    return row


def many_maps():
    """Thousands of mappings of as many files, and of one."""
    row = Row("many mappings")
    sim, path = started("--report", path_of("report"))
    maps = sim.maps()
    with session(row, path) as user:
        for number in range(5000):
            fd = memory(4096)
            user.ask(DMA_MAP, struct.pack("=IIQQQ", 32, 3, 0, number << 12, 4096), [fd])
            os.close(fd)
        if sim.maps() < maps + 4096:
            row.fail("the files were not mapped")
    with session(row, path) as user:
        one = memory(4096)
        for number in range(70000):
            user.ask(DMA_MAP, struct.pack("=IIQQQ", 32, 3, 0, (1 << 40) + (number << 12), 4096), [one])
        for number in range(2000):
            # Holes, each of which makes two pieces of one.
            user.ask(DMA_UNMAP, struct.pack("=IIQQ", 24, 0, (1 << 40) + (number << 12) + 64, 64))
        os.close(one)
        row.inputs = 77000
    check(row, path)
    if sim.maps() > maps + 8:
        row.fail(f"{sim.maps() - maps} mappings of the process are left over")
    sim.finish(row)
    seen(row, "most_dma_maps", 65535)
    return row


def random_sessions():
    """Sessions of messages with random commands, numbers and descriptors."""
    row = Row("random sessions")
    sim, path = started()
    chance = random.Random(16)
    null = os.open("/dev/null", os.O_RDWR)
    file = memory(1 << 20)
    for _ in range(300):
        try:
            with User(path) as user:
                for _ in range(chance.randrange(1, 20)):
                    words = [
                        chance.choice((0, 1, 2, 7, 4096, chance.getrandbits(20), chance.getrandbits(32)))
                        for _ in range(chance.randrange(12))
                    ]
                    body = struct.pack(f"={len(words)}I", *words)
                    size = chance.choice((None, None, None, None, chance.getrandbits(12), chance.getrandbits(32)))
                    flags = chance.choice((0, 0, 0, 1 << 4, chance.getrandbits(32)))
                    fds = [chance.choice((null, file))] * chance.choice((0, 0, 1, 1, 3, 16))
                    row.inputs += 1
                    user.send(message(chance.choice((*range(16), 99)), body, size, flags), fds)
                user.rest()
        except TimeoutError:
            row.hangs += 1
        except OSError:
            pass
    os.close(null)
    os.close(file)
    check(row, path)
    sim.finish(row)
    return row


def connections():
    """Connections that say nothing, or part of something."""
    row = Row("connections")
    sim, path = started()
    for number in range(4000):
        row.inputs += 1
        with socket.socket(socket.AF_UNIX) as user:
            user.settimeout(ANSWER)
            try:
                user.connect(path)
                if number >= 2000:
                    user.sendall(message(VERSION, BODIES[VERSION])[: number % 40])
            except TimeoutError:
                row.hangs += 1
            except OSError:
                pass
    check(row, path)
    sim.finish(row)
    return row


def fetch(user, ring):
    """Has the function's firmware fetch a command from `ring`."""
    for register, value in (
        (0x80300, 0), (0x80400, 0), (0x80000, ring), (0x80100, 0), (0x80200, 1 << 31 | 8), (0x80400, 1),
    ):
        user.ask(WRITE, struct.pack("=QIII", register, 0, 4, value))


def giant():
    """Messages of gigabytes, and files that are cut while the device has them."""
    row = Row("giant messages, and files that are cut")
    sim, path = started("--report", path_of("report"))
    for count in (1 << 21, 1 << 28, 1 << 30, 0xFFFFFFFF):
        access = struct.pack("=QII", 0, 0, count)
        alone(row, path, message(READ, access))
        alone(row, path, message(WRITE, access))
        alone(row, path, message(WRITE, access, 32 + count))
        alone(row, path, message(VERSION, b"\0" * 4, count))
    alone(row, path, message(VERSION, b"\xff" * (8 << 20)))
    for bytes_left in (0, 1, 4096):
        for number in range(10):
            row.inputs += 1
            file = memory(64 << 10)
            try:
                with User(path) as user:
                    user.ask(VERSION)
                    user.ask(WRITE)
                    user.ask(DMA_MAP, struct.pack("=IIQQQ", 32, 3, 0, 0x100000, 64 << 10), [file])
                    if number % 2:
                        fetch(user, 0x100000 + 0x2000)
                        user.ask(RESET)
                        user.ask(WRITE)
                    os.ftruncate(file, bytes_left)
                    fetch(user, 0x100000 + 0x2000)
                    # Sent away for it.
                    user.socket.recv(1)
            except TimeoutError:
                row.hangs += 1
            except OSError:
                pass
            os.close(file)
            check(row, path)
    sim.finish(row)
    if sim.process.returncode == 0:
        seen(row, "cut_files", 30)
    return row
