"""Hostile peers: of the exchange over TCP, and of wires to other processes."""

import json
import os
import random
import socket
import threading
import time

import measure
from measure import Command, Row, Sim
from messages import healthy


def port(kind):
    """A port of loopback that nobody has now."""
    with socket.socket(socket.AF_INET, kind) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def pingpong(device, *more):
    words = ["--device", f"vfio-user:{device}", "--ddp", measure.path("pkg"), "--wait", "3"]
    return Command("pingpong", *words, *more)


def say(target, parts):
    """Says `parts` to a listener, with a pause after each."""
    end = time.monotonic() + measure.ANSWER
    while time.monotonic() < end:
        try:
            with socket.create_connection(("127.0.0.1", target), 1) as peer:
                for part in parts:
                    peer.sendall(part)
                    time.sleep(0.02)
                peer.settimeout(1)
                peer.recv(4096)
            return
        except ConnectionRefusedError:
            time.sleep(0.02)
        except OSError:
            return


def exchange():
    """What listens for another e810 gets something else."""
    row = Row("TCP exchange, garbage and hostile lines")
    sim = Sim("--package", measure.path("pkg"))
    device = sim.sockets[0]
    chance = random.Random(16)
    row.memory = (0, 0, 0)
    # Nobody comes: what a run takes that nobody disturbs.
    quiet = pingpong(device, "--listen", f"127.0.0.1:{port(socket.SOCK_STREAM)}")
    quiet.end()
    row.memory = (quiet.memory,) * 3
    fds = sim.calm_fds()
    said = [
        [chance.randbytes(4096)],
        [b""],
        [b"GET / HTTP/1.1\r\nHost: e810\r\n\r\n"],
        [b"x"] * 100,
        [b"x" * (1 << 20)] * 50,
        [b"\n" * 100000],
        [b"{}\n" * 10000],
        [b"[" * 100000 + b"\n"],
        [b'{"version":' + b"9" * 1000 + b"}\n"],
        [b'{"hello":"\\u001b[31m\\u202e"}\n'],
        [b"\xff\xfe\x00\n"],
        [json.dumps({"version": 1, "qpn": 0, "gid": "255.255.255.255"}).encode() + b"\n"] * 3,
    ]
    for parts in said:
        target = port(socket.SOCK_STREAM)
        command = pingpong(device, "--listen", f"127.0.0.1:{target}")
        peer = threading.Thread(target=say, args=(target, parts), daemon=True)
        peer.start()
        command.judge(row)
        peer.join(measure.END)
        if not healthy(device):
            row.hangs += 1
    row.fds = (fds, sim.settled_fds(fds))
    sim.stop(row)
    return row


def frame(chance, length):
    """Something like a frame: its header is right more often than not."""
    header = bytes.fromhex("02e810000000" + "02e811000000" + "0800")
    ip = bytes([0x45, 0, length >> 8 & 0xFF, length & 0xFF, 0, 0, 0x40, 0, 64, 17, 0, 0])
    ip += bytes([127, 0, 0, 1, 127, 0, 0, 2])
    udp = b"\xc0\x00\x12\xb7" + (length - 20 & 0xFFFF).to_bytes(2, "big") + b"\0\0"
    return header + ip + udp + chance.randbytes(max(0, min(length, 9000) - 28))


def strangers():
    """Datagrams of strangers, and of the peer's address that are no frames."""
    row = Row("UDP link, strangers and garbage")
    here, there = port(socket.SOCK_DGRAM), port(socket.SOCK_DGRAM)
    sim = Sim("--link", f"udp:127.0.0.1:{here},127.0.0.1:{there}")
    healthy(sim.sockets[0])
    sim.begin()
    chance = random.Random(16)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer,
    ):
        peer.bind(("127.0.0.1", there))
        for number in range(14000):
            row.inputs += 1
            sender = peer if number % 3 else stranger
            kind = chance.randrange(4)
            data = (
                chance.randbytes(chance.randrange(200)),
                frame(chance, chance.randrange(28, 1500)),
                frame(chance, chance.randrange(28, 1500))[: chance.randrange(80)],
                bytes(chance.choice((0, 14, 9724, 9725, 65507))),
            )[kind]
            try:
                sender.sendto(data, ("127.0.0.1", here))
            except OSError:
                pass
    if not healthy(sim.sockets[0]):
        row.hangs += 1
    sim.finish(row)
    return row


def group_of(name):
    """The multicast group and the port of a wire by name (docs/commands.md)."""
    number = 0xCBF29CE484222325
    for byte in name.encode():
        number = (number ^ byte) * 0x100000001B3 & (1 << 64) - 1
    folded = number >> 32 ^ number & 0xFFFFFFFF
    return f"239.{folded >> 16 & 127}.{folded >> 8 & 255}.{folded & 255}", 61000 + number % 4096


def exchange_on(sims, row, when):
    """Messages between two ends of a wire."""
    target = f"127.0.0.1:{port(socket.SOCK_STREAM)}"
    commands = [
        pingpong(sim.sockets[0], side, target, "--iters", "400", "--size", "1000")
        for sim, side in zip(sims, ("--listen", "--connect"))
    ]
    judged = Row("")
    judged.memory = (0, 0, 0)
    for command in commands:
        command.judge(judged)
        if command.process.returncode:
            row.fail(f"messages {when}: {command.text.strip()[:200]}")
    row.panics += judged.panics
    row.hangs += judged.hangs
    row.failures += judged.failures


def segment():
    """Garbage, stolen and invented addresses on a wire with any number of ends; messages go on after it."""
    row = Row("segment, garbage and wrong addresses")
    name = f"hostile-{os.getpid()}"
    macs = ["02:00:00:00:00:0a", "02:00:00:00:00:0b"]
    sims = [
        Sim("--wire", name, "--mac", mac, "--package", measure.path("pkg"), sockets=(one,))
        for mac, one in zip(macs, "ab")
    ]
    # The two ends make a ring each way when they first send each other a frame, and keep it.
    exchange_on(sims, row, "before it")
    for sim in sims:
        sim.begin()
    chance = random.Random(16)
    group = group_of(name)
    stolen = [bytes.fromhex(mac.replace(":", "")) for mac in macs]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.bind(("127.0.0.1", 0))
        for _ in range(14000):
            row.inputs += 1
            good = frame(chance, chance.randrange(28, 1500))
            invented = bytes([2]) + chance.randbytes(5)
            source = chance.choice((*stolen, invented, invented, invented))
            target = chance.choice((*stolen, b"\xff" * 6, bytes.fromhex("01005e010203"), invented))
            announcement = bytes.fromhex("88b5") + b"e810 joins this wire" + bytes(26)
            data = (
                chance.randbytes(chance.randrange(200)),
                target + source + good[12:],
                target + source + good[12 : chance.randrange(12, 80)],
                target + source + announcement,
                bytes(chance.choice((0, 14, 9724, 9725, 65507))),
            )[chance.randrange(5)]
            try:
                here.sendto(data, group)
            except OSError:
                pass
    for sim in sims:
        if not healthy(sim.sockets[0]):
            row.hangs += 1
    # What was taken for the ends' addresses is put right by what they send themselves.
    exchange_on(sims, row, "after it")
    for sim in sims:
        sim.finish(row)
    return row


class Relay(threading.Thread):
    """Passes frames on between two servers, and spoils one of them now and then."""

    def __init__(self, ends, seed):
        super().__init__(daemon=True)
        self.ends = ends
        self.chance = random.Random(seed)
        self.stop = threading.Event()
        self.spoiled = 0
        self.last = b""

    def run(self):
        here, there = self.ends
        sockets = []
        for own, _ in self.ends:
            one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            one.bind(("127.0.0.1", own))
            one.settimeout(0.01)
            sockets.append(one)
        ways = [(sockets[0], sockets[1], there[1]), (sockets[1], sockets[0], here[1])]
        threads = [threading.Thread(target=self.one_way, args=way, daemon=True) for way in ways]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one in sockets:
            one.close()

    def one_way(self, source, target, to):
        while not self.stop.is_set():
            try:
                data = source.recv(1 << 16)
            except OSError:
                continue
            for data in self.spoil(data):
                try:
                    target.sendto(data, ("127.0.0.1", to))
                except OSError:
                    pass

    def spoil(self, data):
        kind = self.chance.randrange(100)
        self.last, before = data, self.last
        if kind > 5:
            return [data]
        self.spoiled += 1
        flipped = bytearray(data)
        flipped[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        return (
            [],
            [bytes(flipped)],
            [data, before or data],
            [self.chance.randbytes(100), data],
            [data[: self.chance.randrange(len(data))]],
            [bytes(flipped), data],
        )[kind]


def relay():
    """Live traffic on a wire that loses, spoils and invents frames."""
    row = Row("UDP link, faults on live traffic")
    ports = [port(socket.SOCK_DGRAM) for _ in range(4)]
    one, other, near, far = ports
    sims = [
        Sim("--link", f"udp:127.0.0.1:{one},127.0.0.1:{near}", "--package", measure.path("pkg")),
        Sim("--link", f"udp:127.0.0.1:{other},127.0.0.1:{far}", sockets=("b",)),
    ]
    relay = Relay(((near, one), (far, other)), 16)
    relay.start()
    for sim in sims:
        healthy(sim.sockets[0])
        sim.begin()
    judged = Row("")
    judged.memory = (0, 0, 0)
    for op in ("send", "write", "read"):
        target = f"127.0.0.1:{port(socket.SOCK_STREAM)}"
        common = ("--op", op, "--iters", "400", "--size", "1000", "--wait", "10")
        commands = [
            Command("pingpong", "--device", f"vfio-user:{sim.sockets[0]}", "--ddp", measure.path("pkg"), side, target, *common)
            for sim, side in zip(sims, ("--listen", "--connect"))
        ]
        for command in commands:
            command.judge(judged)
            if command.process.returncode:
                row.fail(f"{op}: {command.text.strip()[:200]}")
    relay.stop.set()
    relay.join(measure.END)
    row.inputs = relay.spoiled
    row.panics, row.hangs, row.failures = judged.panics, judged.hangs, row.failures + judged.failures
    for sim in sims:
        sim.finish(row)
    return row
