"""SMC-R: a server that sends back what it gets, reversed, and a client that compares. Both ask the kernel
whether the connection is one of RDMA or has fallen back to TCP.

    smc.py server|client SERVER-ADDRESS CLIENT-ADDRESS
"""

import os
import socket
import struct
import sys

IPPROTO_SMC = 256
PORT = 4200
SIZES = [1, 64, 4096, 100_000, 3_000_000]
# Of linux/netlink.h, linux/sock_diag.h and linux/smc_diag.h.
AF_SMC, SOCK_DIAG, BY_FAMILY, REQUEST_DUMP, DONE, FALLBACK = 43, 4, 20, 0x301, 3, 5
MODES = ["SMC-R", "TCP", "SMC-D"]
# Of linux/netlink.h, linux/genetlink.h and linux/smc.h: families by name, and an enterprise id.
GENERIC, GET_FAMILY, FAMILY_ID, FAMILY_NAME, ADD_UEID, UEID = 16, 3, 1, 2, 10, 1


def ask_generic(family, command, attribute, text):
    """Asks a family of generic netlink with one attribute; what it answers, behind its header."""
    end = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, GENERIC)
    data = struct.pack("=HH", 4 + len(text), attribute) + text
    data = struct.pack("=BBH", command, 1, 0) + data.ljust(len(data) + 3 & ~3, b"\0")
    # With an acknowledgement.
    end.send(struct.pack("=IHHII", 16 + len(data), family, 5, 1, 0) + data)
    return end.recv(1 << 16)[16:]


def add_enterprise_id():
    """SMC-R version 2, the only one for RoCEv2, is proposed where there is such an id, the same at both ends."""
    answer, family = ask_generic(16, GET_FAMILY, FAMILY_NAME, b"SMC_GEN_NETLINK\0")[4:], None
    while answer and family is None:
        size, attribute = struct.unpack_from("=HH", answer)
        if attribute == FAMILY_ID:
            family = struct.unpack_from("=H", answer, 4)[0]
        answer = answer[size + 3 & ~3:]
    error = struct.unpack_from("=i", ask_generic(family, ADD_UEID, UEID, b"E810".ljust(32) + b"\0"))[0]
    assert error in (0, -17), f"error {error} for the enterprise id"


def reason_of(attributes):
    """Why it fell back here and there (`SMC_CLC_DECL_` of net/smc), if it did."""
    while len(attributes) >= 4:
        size, attribute = struct.unpack_from("=HH", attributes)
        if attribute == FALLBACK and any(attributes[4:size]):
            return " for the reasons %#010x, %#010x" % struct.unpack_from("=II", attributes, 4)
        attributes = attributes[size + 3 & ~3:]
    return ""


def mode_of(port):
    """Mode of the connected socket with that local port."""
    ask = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG)
    request = struct.pack("=BBBB48x", AF_SMC, 0, 0, 1 << FALLBACK - 1)
    ask.send(struct.pack("=IHHII", 16 + len(request), BY_FAMILY, REQUEST_DUMP, 1, 0) + request)
    found = "no such socket"
    while True:
        data = ask.recv(1 << 16)
        while data:
            length, kind = struct.unpack_from("=IH", data)
            if kind == DONE:
                return found
            message, data = data[16:length], data[length + 3 & ~3:]
            mode, here, there = struct.unpack_from("!xxBxHH", message)
            if here == port and there != 0:
                found = MODES[mode] + reason_of(message[64:])


def receive(end, size):
    data = bytearray()
    while len(data) < size:
        part = end.recv(size - len(data))
        assert part, "the peer has gone"
        data += part
    return bytes(data)


def main(role, server, client):
    add_enterprise_id()
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SMC)
    end.settimeout(60)
    if role == "server":
        end.bind((server, PORT))
        end.listen(1)
        print("ready", flush=True)
        end, _ = end.accept()
        end.settimeout(60)
    else:
        end.bind((client, 0))
        end.connect((server, PORT))
    for size in SIZES:
        if role == "server":
            end.sendall(receive(end, size)[::-1])
        else:
            sent = os.urandom(size)
            end.sendall(sent)
            assert receive(end, size) == sent[::-1], f"{size} bytes differ"
    mode = mode_of(end.getsockname()[1])
    print(role, len(SIZES), "messages by", mode)
    assert mode.startswith("SMC-R"), "an error: it is not a connection of RDMA"
    if role == "client":
        end.shutdown(socket.SHUT_WR)
    assert end.recv(1) == b"", "more than was sent"


main(*sys.argv[1:])
