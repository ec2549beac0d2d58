"""A man in the middle of an honest client and an honest server of vfio-user."""

import array
import os
import random
import socket
import struct
import threading

import measure
from measure import Command, Row, Sim
from messages import healthy


class Middle(threading.Thread):
    """Passes messages on, and does something to one of them."""

    def __init__(self, name, server, change):
        super().__init__(daemon=True)
        self.path = measure.path(name)
        self.server = server
        # change(number, is_reply, bytes): the bytes to pass on, and whether to go on.
        self.change = change
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.listener.settimeout(measure.END)
        self.messages = 0

    def run(self):
        try:
            client, _ = self.listener.accept()
        except OSError:
            return
        with client, self.listener, socket.socket(socket.AF_UNIX) as server:
            for end in (client, server):
                end.settimeout(measure.END)
            server.connect(self.server)
            ends = (client, server)
            back = threading.Thread(target=self.pass_on, args=(server, client, True), daemon=True)
            back.start()
            self.pass_on(client, server, False)
            for end in ends:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            back.join(measure.END)

    def pass_on(self, source, target, is_reply):
        number = 0
        try:
            while True:
                data, fds = whole(source)
                if not data:
                    break
                number += 1
                if not is_reply:
                    self.messages = number
                data, goes_on = self.change(number, is_reply, data)
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
                if data:
                    sent = target.sendmsg([data], rights)
                    target.sendall(data[sent:])
                for fd in fds:
                    os.close(fd)
                if not goes_on:
                    break
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def whole(source):
    """A message and its descriptors; nothing at the end."""
    fds = array.array("i")
    data, rights, _, _ = source.recvmsg(16, socket.CMSG_SPACE(16 * fds.itemsize))
    for _, _, more in rights:
        fds.frombytes(more[: len(more) // fds.itemsize * fds.itemsize])
    while data and len(data) < 16:
        data += source.recv(16 - len(data))
    size = struct.unpack("=I", data[4:8])[0] if data else 0
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            break
        data += more
    return data, list(fds)


def stat(row, number, server, change):
    """`e810 stat` through a man in the middle, judged; gives the messages passed on."""
    middle = Middle(f"m{number}", server, change)
    middle.start()
    command = Command("stat", "--device", f"vfio-user:{middle.path}", "--ddp", measure.path("pkg"))
    command.judge(row)
    middle.join(measure.END)
    row.hangs += middle.is_alive()
    return middle.messages, command


def honest(row, server):
    """An undisturbed run, against which the others are measured."""
    row.memory = (0, 0, 0)
    messages, command = stat(row, "honest", server, lambda number, is_reply, data: (data, True))
    if command.process.returncode:
        raise SystemExit(command.text)
    if messages < 200:
        row.fail(f"a bring-up of {messages} messages is too short to be cut in the middle")
    row.inputs = 0
    row.memory = (command.memory, command.memory, command.memory)
    return messages


def client_cut():
    """Clients that die in the middle of a bring-up; the next one is served each time."""
    row = Row("client gone in mid bring-up")
    sim = Sim("--package", measure.path("pkg"))
    path = sim.sockets[0]
    honest_row = Row("")
    messages = honest(honest_row, path)
    row.failures += honest_row.failures
    healthy(path)
    sim.begin()
    counted = Row("")
    counted.memory = (0, 0, 0)
    for turn in range(78):
        last = 1 + turn * messages // 78

        def change(number, is_reply, data, last=last):
            return data, is_reply or number < last

        stat(counted, turn, path, change)
        if not healthy(path):
            row.hangs += 1
    row.inputs = counted.inputs
    row.panics, row.hangs = counted.panics, row.hangs + counted.hangs
    row.failures += counted.failures
    sim.finish(row)
    return row


def hostile_server():
    """Servers that cut, change and invent their replies."""
    row = Row("hostile server, for the client")
    sim = Sim("--package", measure.path("pkg"))
    path = sim.sockets[0]
    messages = honest(row, path)
    healthy(path)
    fds = sim.calm_fds()
    chance = random.Random(16)

    def flip(data):
        data = bytearray(data)
        bit = chance.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        return bytes(data), True

    def size(data):
        wrong = chance.choice((0, 15, 17, len(data) + 1, 1 << 16, 1 << 31, 0xFFFFFFFF))
        return data[:4] + struct.pack("=I", wrong) + data[8:], True

    ways = [
        lambda data: (b"", False),
        lambda data: (data[: len(data) // 2], False),
        flip,
        lambda data: (data[:16] + chance.randbytes(len(data) - 16), True),
        lambda data: (data[:16] + bytes([chance.choice((0, 0x55, 0xFF))]) * (len(data) - 16), True),
        size,
        lambda data: (chance.randbytes(chance.randrange(1, 4096)), False),
    ]
    for turn in range(126):
        way = ways[turn % len(ways)]
        # Early replies are questions of the client, late ones registers.
        which = 1 + turn // len(ways) if turn % 2 else chance.randrange(1, messages // 2)

        def change(number, is_reply, data, way=way, which=which):
            return way(data) if is_reply and number == which else (data, True)

        stat(row, turn, path, change)
        if not healthy(path):
            row.hangs += 1
    row.fds = (fds, sim.settled_fds(fds))
    sim.stop(row)
    return row
