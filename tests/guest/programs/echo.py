"""Sends back what comes on a port of the loopback.

    echo.py PORT
"""

import socket
import sys

with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(4096):
                connection.sendall(data)
