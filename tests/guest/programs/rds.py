"""RDS over RDMA: a server that sends back what it gets, reversed, and a client that compares.

    rds.py server|client SERVER-ADDRESS CLIENT-ADDRESS
"""

import os
import socket
import sys

PORT = 4100
SIZES = [1, 64, 1000, 4096, 8192, 65536, 100_000] * 3


def main(role, server, client):
    end = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET, 0)
    end.settimeout(60)
    end.bind((server if role == "server" else client, PORT))
    for size in SIZES:
        if role == "server":
            data, peer = end.recvfrom(1 << 20)
            end.sendto(data[::-1], peer)
        else:
            sent = os.urandom(size)
            end.sendto(sent, (server, PORT))
            got, _ = end.recvfrom(1 << 20)
            assert got == sent[::-1], f"{size} bytes differ"
    print(role, len(SIZES), "datagrams")


main(*sys.argv[1:])
