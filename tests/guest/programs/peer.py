"""The other side of `e810 pingpong --listen|--connect`, on any RDMA device of Linux.

    peer.py DEVICE [--connect HOST:PORT | --listen PORT] [--op send|write|read|send-inv] [--transport rc|ud]
            [--group ADDR] [--size N] [--iters N] [--seed N] [--kind ipv4|ipv6]
            [--vlan ID] [--slow MS] [--mtu BYTES] [--no-keys]

The exchange before the messages and the messages themselves are those of vfio-host/src/handshake and
vfio-host/src/measure/pingpong, written a second time. Every message is compared, byte for byte, with what
seed, number and direction say.

--slow posts the receive of each message so many milliseconds late, so that the sender meets "receiver not ready".

With send-inv each message invalidates a key of its receiver's, here of a memory window of type 2. The region below is
then deregistered, which a window that is bound still would not allow: so each message shows that the invalidation was
carried out. With --no-keys this side has none, and gets plain SENDs.
"""

import argparse
import ipaddress
import json
import os
import socket
import struct
import time

from endpoint import *  # noqa: F403
from pyverbs.addr import GID
from pyverbs.mr import MW, MWBindInfo

MASK = (1 << 64) - 1
REQUEST, RESPONSE = 0x5155455354494F4E, 0x00414E5357455221
QKEY = 0x11111111
ATTACH_MCAST = 30
GRH = 40
# rdma_rxe gives programs the kernel's bit (IB_WC_WITH_INVALIDATE), which is IBV_WC_IP_CSUM_OK in theirs.
RXE_WITH_INV = 1 << 2
MTUS = {256: IBV_MTU_256, 512: IBV_MTU_512, 1024: IBV_MTU_1024, 2048: IBV_MTU_2048, 4096: IBV_MTU_4096}


def payload(size, seed, number, side):
    """The bytes of a message."""
    state = (seed * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03) & MASK ^ side
    words = bytearray()
    while len(words) < size:
        state = state + 0x9E3779B97F4A7C15 & MASK
        word = state
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & MASK
        word = (word ^ word >> 27) * 0x94D049BB133111EB & MASK
        words += (word ^ word >> 31).to_bytes(8, "little")
    return bytes(words[:size])


class Link:
    """Lines of JSON."""

    def __init__(self, args):
        if args.connect:
            host, port = args.connect.rsplit(":", 1)
            end = time.monotonic() + 40
            while True:
                try:
                    self.socket = socket.create_connection((host, int(port)), 40)
                    break
                except OSError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.2)
        else:
            with socket.create_server(("", args.listen)) as server:
                print("listening", flush=True)
                self.socket = server.accept()[0]
        self.socket.settimeout(60)
        self.file = self.socket.makefile("rwb")

    def say(self, **message):
        self.file.write(json.dumps(message).encode() + b"\n")
        self.file.flush()

    def hear(self, step):
        line = self.file.readline()
        message = json.loads(line) if line else {"step": "nothing"}
        if message["step"] != step:
            raise SystemExit(f"the other side said {message}, not {step}")
        return message


class Pingpong:
    def __init__(self, args):
        self.args = args
        self.ud = args.transport == "ud"
        transport = IBV_QPT_UD if self.ud else IBV_QPT_RC
        # First what is sent, then what arrives.
        self.slot = args.size + (GRH if self.ud else 0)
        kind = "vlan" if args.vlan else args.kind
        self.end = Endpoint(args.device, transport, kind, bytes=args.size + 4 * self.slot)
        self.sent = 0
        self.arrived = []
        self.inv = args.op == "send-inv"
        self.with_inv = RXE_WITH_INV if args.device.startswith("rxe") else IBV_WC_WITH_INV
        self.keys = Keys(self.end) if self.inv and not args.no_keys else None

    def offer(self):
        args = self.args
        place = {"qpn": self.end.qp.qp_num, "psn": 0x123456, "qkey": QKEY, "rkey": self.end.mr.rkey,
                 "address": self.end.mr.buf}
        if self.keys:
            place["invalidate"] = self.keys.key
        return {
            "e810": 3,
            "terms": {
                "command": "pingpong", "--transport": args.transport, "--op": args.op, "--size": args.size,
                "--iters": args.iters, "--duration": None, "--seed": args.seed, "--group": args.group,
                "addresses of": "IPv4" if args.kind == "ipv4" else "IPv6", "--vlan": args.vlan,
            },
            "mac": self.mac(),
            "gid": str(address_of(self.end.gid)),
            "mtu": args.mtu,
            "places": [place],
        }

    def mac(self):
        """The Ethernet address of the interface."""
        with open(f"/sys/class/net/{netdev_of(self.args.device, self.end.index)}/address") as file:
            return file.read().strip()

    def meet(self, link):
        mine = self.offer()
        link.say(step="hello", **mine)
        theirs = link.hear("hello")
        if theirs["terms"] != mine["terms"]:
            raise SystemExit(f"the other side was asked for {theirs['terms']}")
        self.peer = theirs["places"][0]
        gid = gid_of(theirs["gid"])
        mtu = MTUS[min(self.args.mtu, theirs["mtu"])]
        if self.ud:
            self.to = (self.peer["qpn"], gid)
            if self.args.group:
                group = gid_of(self.args.group)
                if self.args.connect:
                    self.to = (0xFFFFFF, group)
                else:
                    attach(self.end.context.cmd_fd, self.args.group)
            self.ah = AH(self.end.pd, attr=self.end.route(self.to[1]))
        else:
            self.end.connect(gid, self.peer["qpn"], psn=0x123456, peer_psn=self.peer["psn"], mtu=mtu, timeout=18)
        self.theirs = self.peer["invalidate"] if self.inv else None
        self.post_receives(4 if not self.args.slow else 0)
        if self.keys:
            self.keys.bind()
            self.until(1, 0)
        link.say(step="ready")
        link.hear("ready")

    def post_receives(self, count):
        for slot in range(count):
            self.post_receive(slot)

    def post_receive(self, slot=0):
        offset = slot * self.slot if self.ud else 0
        self.end.receive(self.args.size + offset, self.slot, wr_id=slot)

    def until(self, sent, arrived):
        """Takes completions until so many requests are done and messages are there; those."""
        if arrived and self.args.slow:
            time.sleep(self.args.slow / 1000)
            self.post_receive()
        taken = []
        while self.sent < sent or len(self.arrived) < arrived:
            wc = self.end.poll()
            if wc.status != IBV_WC_SUCCESS:
                raise SystemExit(f"wr_id {wc.wr_id}: status {wc.status}, vendor error {wc.vendor_err:#x}")
            if wc.opcode & IBV_WC_RECV:
                self.arrived.append(wc)
            else:
                self.sent += 1
        self.sent -= sent
        for _ in range(arrived):
            wc = self.arrived.pop(0)
            taken.append(wc)
            if not self.ud and not self.args.slow:
                self.post_receive()
        return taken

    def fill(self, number, side):
        content = payload(self.args.size, self.args.seed, number, side)
        if self.keys:
            content = struct.pack("<I", self.keys.key) + content[4:]
        self.end.mr.write(content, self.args.size)

    def right(self, number, side, offset=0, wc=None):
        got = self.end.mr.read(self.args.size, self.args.size + offset)
        key = 4 if self.inv else 0
        if got[key:] != payload(self.args.size, self.args.seed, number, side)[key:]:
            raise SystemExit(f"message {number} differs from what was sent")
        if self.inv:
            self.theirs = struct.unpack("<I", got[:4])[0]
        if self.inv and not self.keys and wc.wc_flags & self.with_inv:
            raise SystemExit(f"message {number} invalidated {wc.imm_data:#x}, and there are no keys")
        if self.keys:
            if not wc.wc_flags & self.with_inv or wc.imm_data != self.keys.key:
                raise SystemExit(f"message {number} invalidated {wc.imm_data:#x}, flags {wc.wc_flags:#x}, and not "
                                 f"{self.keys.key:#x}")
            self.keys.renew()
            self.keys.bind()
            self.until(1, 0)

    def message(self, number):
        """Sends what is filled in."""
        if self.args.op == "write":
            remote = (self.peer["address"] + self.args.size, self.peer["rkey"])
            self.end.post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, self.args.size, wr_id=number, remote=remote,
                          imm=socket.htonl(number))
        elif self.inv:
            # A union in C: the key stands where immediate data does, as a number.
            self.end.post(IBV_WR_SEND_WITH_INV, 0, self.args.size, wr_id=number, imm=self.theirs)
        else:
            self.end.post(IBV_WR_SEND, 0, self.args.size, wr_id=number)

    def sign(self, number):
        """A message without payload (pyverbs wants an element all the same)."""
        sge = SGE(self.end.mr.buf, 0, self.end.mr.lkey)
        self.end.qp.post_send(SendWR(wr_id=number, opcode=IBV_WR_SEND, num_sge=1, sg=[sge],
                                     send_flags=IBV_SEND_SIGNALED))

    def ask(self, number):
        """The side that connected."""
        if self.args.op == "read":
            self.until(0, 1)
            self.end.post(IBV_WR_RDMA_READ, self.args.size, self.args.size, wr_id=number,
                          remote=(self.peer["address"], self.peer["rkey"]))
            self.until(1, 0)
            self.right(number, RESPONSE)
            self.sign(number)
            self.until(1, 0)
            return
        self.fill(number, REQUEST)
        self.message(number)
        wc = self.until(1, 1)[0]
        self.right(number, RESPONSE, wc=wc)

    def answer(self, number):
        """The side that was connected to."""
        if self.args.op == "read":
            self.fill(number, RESPONSE)
            self.sign(number)
            self.until(1, 1)
            return
        wc = self.until(0, 1)[0]
        if self.args.op != "write" and wc.byte_len != self.args.size:
            raise SystemExit(f"{wc.byte_len} bytes arrived where {self.args.size} were sent")
        if self.args.op == "write" and socket.ntohl(wc.imm_data) != number:
            raise SystemExit(f"immediate data {socket.ntohl(wc.imm_data)} and not {number}")
        self.right(number, REQUEST, wc=wc)
        self.fill(number, RESPONSE)
        self.message(number)
        self.until(1, 0)

    def datagram(self, number):
        sge = SGE(self.end.mr.buf, self.args.size, self.end.mr.lkey)
        wr = SendWR(wr_id=number, opcode=IBV_WR_SEND_WITH_IMM, num_sge=1, sg=[sge], send_flags=IBV_SEND_SIGNALED,
                    imm_data=socket.htonl(number))
        wr.set_wr_ud(self.ah, self.to[0], self.peer["qkey"])
        self.end.qp.post_send(wr)

    def next_datagram(self, seconds):
        """The next one that arrives: its number and slot, or nothing in this time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                wc = self.end.poll(0.05)
            except TimeoutError:
                continue
            if wc.status != IBV_WC_SUCCESS:
                raise SystemExit(f"status {wc.status}")
            if wc.opcode & IBV_WC_RECV:
                if wc.byte_len != GRH + self.args.size:
                    raise SystemExit(f"{wc.byte_len} bytes arrived, with the GRH")
                return socket.ntohl(wc.imm_data), wc.wr_id
        return None

    def ask_datagrams(self):
        for number in range(self.args.iters):
            self.fill(number, REQUEST)
            for _ in range(40):
                self.datagram(number)
                got = self.next_datagram(0.5)
                while got and got[0] != number:
                    self.post_receive(got[1])
                    got = self.next_datagram(0.5)
                if got:
                    self.right(number, RESPONSE, got[1] * self.slot + GRH)
                    self.post_receive(got[1])
                    break
            else:
                raise SystemExit(f"datagram {number} has no answer")

    def answer_datagrams(self, link):
        """Until the other side has all."""
        link.socket.setblocking(False)
        while True:
            try:
                if link.socket.recv(1, socket.MSG_PEEK):
                    break
            except BlockingIOError:
                pass
            got = self.next_datagram(0.2)
            if got:
                number, slot = got
                self.right(number, REQUEST, slot * self.slot + GRH)
                self.post_receive(slot)
                self.fill(number, RESPONSE)
                self.datagram(number)
        link.socket.setblocking(True)


class Keys:
    """Keys of memory windows of type 2, one after the other: pyverbs cannot bind a window a second time, because it
    keeps the key that ibv_alloc_mw gave."""

    def __init__(self, end):
        self.end = end
        self.mr = None
        self.renew()

    def renew(self):
        """The next key, which is chosen before it is bound."""
        if self.mr:
            # Refused while a window is bound to the region (InfiniBand 10.6.7.2.6).
            self.mr.close()
            self.mw.close()
        self.mr = MR(self.end.pd, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND)
        self.mw = MW(self.end.pd, IBV_MW_TYPE_2)
        self.request = SendWR(wr_id=MASK, opcode=IBV_WR_BIND_MW, num_sge=0, send_flags=IBV_SEND_SIGNALED)
        self.request.set_bind_wr(self.mw, MWBindInfo(self.mr, self.mr.buf, 4096, IBV_ACCESS_REMOTE_READ))
        self.key = self.request.rkey

    def bind(self):
        self.end.qp.post_send(self.request)

    def close(self):
        """At the end, with the last key bound."""
        self.mw.close()
        self.mr.close()


def attach(uverbs, group):
    """ibv_attach_mcast, which pyverbs has not got: the kernel's command (rdma/ib_user_verbs.h). Of the handles of
    this process the kernel takes only the one of the queue pair."""
    for handle in range(16):
        command = struct.pack("<IHH16sIHH", ATTACH_MCAST, 8, 0, number_of(group).to_bytes(16, "big"), handle, 0, 0)
        try:
            os.write(uverbs, command)
            return
        except OSError as error:
            refused = error
    raise refused


def number_of(text):
    address = ipaddress.ip_address(text)
    return int(address) + (0xFFFF00000000 if address.version == 4 else 0)


def gid_of(text):
    number = number_of(text)
    return GID(":".join(f"{number >> shift & 0xFFFF:04x}" for shift in range(112, -1, -16)))


def address_of(gid):
    address = ipaddress.ip_address(gid)
    return address.ipv4_mapped or address


parser = argparse.ArgumentParser()
parser.add_argument("device")
parser.add_argument("--connect")
parser.add_argument("--listen", type=int)
parser.add_argument("--op", default="send")
parser.add_argument("--transport", default="rc")
parser.add_argument("--group")
parser.add_argument("--size", type=int, default=64)
parser.add_argument("--iters", type=int, default=20)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--kind", default="ipv4")
parser.add_argument("--slow", type=int, default=0)
parser.add_argument("--mtu", type=int, default=1024)
parser.add_argument("--vlan", type=int)
parser.add_argument("--no-keys", action="store_true")
args = parser.parse_args()
pingpong = Pingpong(args)
link = Link(args)
pingpong.meet(link)
if pingpong.ud:
    pingpong.ask_datagrams() if args.connect else pingpong.answer_datagrams(link)
else:
    for number in range(args.iters):
        (pingpong.ask if args.connect else pingpong.answer)(number)
link.say(step="done", verified=args.iters, errors=0)
link.hear("done")
if pingpong.keys:
    pingpong.keys.close()
print(f"{args.iters} messages, each as it was sent")
