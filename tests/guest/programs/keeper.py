"""A service manager that keeps the descriptors of its only service, as systemd does (FDSTORE=1), and starts it again when
a signal has ended it.

    keeper.py PIDFILE COMMAND...

Says in a line each what it keeps (`keeps NAME`), what it no longer keeps (`drops NAME`), each start (`starts with NAMES`)
and each end (`ended STATUS`). Ends with the service, if that ends by itself.
"""

import os
import socket
import sys

FIRST = 3
MOST = 3


def say(*words):
    print(*words, flush=True)


def start(command, kept, address):
    """The service, with what is kept as its descriptors from 3 on."""
    say("starts with", *kept)
    child = os.fork()
    if child:
        return child
    # Above all numbers that are wanted.
    copies = [os.dup2(kept[name], 100 + at) for at, name in enumerate(kept)]
    for at, copy in enumerate(copies):
        os.dup2(copy, FIRST + at)
        os.set_inheritable(FIRST + at, True)
        os.close(copy)
    os.environ["NOTIFY_SOCKET"] = address
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ["LISTEN_FDS"] = str(len(kept))
    os.environ["LISTEN_FDNAMES"] = ":".join(kept)
    os.execvp(command[0], command)


def obey(kept, message, files):
    """Carries out what the service says."""
    told = dict(line.split("=", 1) for line in message.decode().splitlines())
    name = told.get("FDNAME")
    if "FDSTORE" in told and len(files) == 1 and len(kept) < MOST:
        kept[name] = files.pop()
        say("keeps", name)
    elif "FDSTOREREMOVE" in told and name in kept:
        os.close(kept.pop(name))
        say("drops", name)
    for file in files:
        os.close(file)


def main(pidfile, *command):
    kept = {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        address = f"@keeper-{os.getpid()}"
        notified.bind("\0" + address[1:])
        notified.settimeout(0.05)
        while True:
            child = start(command, kept, address)
            with open(pidfile, "w", encoding="ascii") as file:
                file.write(str(child))
            status = None
            # What it has said before its end is obeyed.
            while True:
                try:
                    message, files, _, _ = socket.recv_fds(notified, 4096, 1)
                    obey(kept, message, files)
                    continue
                except TimeoutError:
                    pass
                if status is not None:
                    break
                done, status_now = os.waitpid(child, os.WNOHANG)
                status = os.waitstatus_to_exitcode(status_now) if done else None
            say("ended", status)
            if status >= 0:
                return


main(*sys.argv[1:])
