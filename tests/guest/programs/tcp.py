"""tcp.py A B MEBIBYTES: so much both ways at once over one TCP connection from address A to address
B of this kernel; each side compares what it got, by its hash, with what was sent."""

import hashlib
import random
import socket
import sys
import threading

PORT = 7471
LIMIT = 120


def content(seed, size):
    return random.Random(seed).randbytes(1 << 20) * (size >> 20)


def both_ways(end, to_send, name):
    """Sends all while it receives as much; the hash of what came."""

    def send():
        end.sendall(to_send)
        end.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    came, size = hashlib.sha256(), 0
    while data := end.recv(1 << 18):
        came.update(data)
        size += len(data)
    sender.join()
    print(f"{name}: {size} bytes came")
    return came.hexdigest()


def main():
    a, b, size = sys.argv[1], sys.argv[2], int(sys.argv[3]) << 20
    family = socket.AF_INET6 if ":" in a else socket.AF_INET
    there, here = content(1, size), content(2, size)
    results = {}
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((b, PORT))
    listener.listen()
    listener.settimeout(LIMIT)

    def answer():
        end, _ = listener.accept()
        with end:
            end.settimeout(LIMIT)
            results["b"] = both_ways(end, here, "b")

    server = threading.Thread(target=answer, daemon=True)
    server.start()
    with socket.socket(family) as end:
        end.settimeout(LIMIT)
        end.bind((a, 0))
        end.connect((b, PORT))
        results["a"] = both_ways(end, there, "a")
    server.join(LIMIT)
    for side, sent in (("a", here), ("b", there)):
        if results.get(side) != hashlib.sha256(sent).hexdigest():
            sys.exit(f"{side} got something else than was sent")


main()
