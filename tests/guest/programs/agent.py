"""Runs commands for the machine that the guest runs on.

One command a TCP connection: a line comes in; its output goes out as it comes, and at the end a line
`EXIT STATUS`. A connection that is closed before ends its command. The line `poweroff` ends the guest.
"""

import os
import selectors
import signal
import socketserver
import subprocess

PORT = 7000


class Command(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline().decode().rstrip("\n")
        if line == "poweroff":
            print("GUEST END", flush=True)
            os.sync()
            subprocess.run(["poweroff", "-f"], check=False)
        if not line:
            return
        command = subprocess.Popen(
            ["sh", "-c", ". /common; . /common-linux; . /common-programs; " + line],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        events = selectors.DefaultSelector()
        events.register(command.stdout, selectors.EVENT_READ)
        events.register(self.connection, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in events.select()]
            if self.connection in ready:
                # Nothing more is said: that is the end of it.
                os.killpg(command.pid, signal.SIGTERM)
                events.unregister(self.connection)
            if command.stdout in ready:
                output = os.read(command.stdout.fileno(), 65536)
                if not output:
                    break
                self.send(output)
        self.send(f"EXIT {command.wait()}\n".encode())

    def send(self, output):
        try:
            self.connection.sendall(output)
        except OSError:
            pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


with Server(("", PORT), Command) as server:
    print("GUEST AGENT", flush=True)
    server.serve_forever()
