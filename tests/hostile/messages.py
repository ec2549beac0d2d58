"""Messages of vfio-user, right and wrong, and a user who sends them."""

import array
import os
import socket
import struct

import measure

VERSION, DMA_MAP, DMA_UNMAP, INFO, REGION, IRQ = 1, 2, 3, 4, 5, 7
SET_IRQS, READ, WRITE, RESET = 8, 9, 10, 13
TEXT = b'{"capabilities":{}}\0'

# A right body of each command.
BODIES = {
    VERSION: struct.pack("=HH", 0, 1) + TEXT,
    DMA_MAP: struct.pack("=IIQQQ", 32, 3, 0, 0x100000, 4096),
    DMA_UNMAP: struct.pack("=IIQQ", 24, 0, 0x100000, 4096),
    INFO: struct.pack("=IIII", 16, 0, 0, 0),
    REGION: struct.pack("=IIIIQQ", 32, 0, 7, 0, 0, 0),
    IRQ: struct.pack("=IIII", 16, 0, 2, 0),
    SET_IRQS: struct.pack("=IIIII", 20, 0x21, 2, 0, 0),
    READ: struct.pack("=QII", 0, 7, 4),
    WRITE: struct.pack("=QII", 4, 7, 4) + b"\6\0\0\0",
    RESET: b"",
}


def message(command, body=b"", size=None, flags=0, number=1):
    size = 16 + len(body) if size is None else size
    return struct.pack("=HHIII", number, command, size & 0xFFFFFFFF, flags, 0) + body


def memory(size):
    fd = os.memfd_create("hostile")
    os.ftruncate(fd, size)
    return fd


class User:
    """A user that keeps to the protocol, as far as it is told to."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(measure.ANSWER)
        self.socket.connect(path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data, fds=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self.socket.sendmsg([data], rights)
        self.socket.sendall(data[sent:])

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("closed")
            data += more
        return data

    def reply(self):
        header = self.exactly(16)
        size, flags, error = struct.unpack("=III", header[4:])
        return flags, error, self.exactly(size - 16)

    def ask(self, command, body=None, fds=()):
        self.send(message(command, BODIES[command] if body is None else body), fds)
        return self.reply()

    def rest(self):
        """Everything up to the end of the connection."""
        self.socket.shutdown(socket.SHUT_WR)
        while self.socket.recv(1 << 16):
            pass


def healthy(path):
    """Whether a user who keeps to the protocol is served, within the limit."""
    try:
        with User(path) as user:
            user.ask(VERSION)
            _, _, body = user.ask(READ)
            return body[16:] == b"\x86\x80\x92\x15"
    except OSError:
        return False
