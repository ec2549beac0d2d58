"""groups.py ONE TWO: datagrams to IPv4 and IPv6 multicast groups that an interface has joined come
in, those to other groups and those after leaving do not."""

import socket
import struct
import sys

PORT = 7472
COUNT = 20


def index(name):
    return socket.if_nametoindex(name)


def receiver(family, group, name):
    end = socket.socket(family, socket.SOCK_DGRAM)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    end.bind((group, PORT))
    if family == socket.AF_INET:
        member = struct.pack("=4s4si", socket.inet_aton(group), b"\0" * 4, index(name))
        join, leave, level = socket.IP_ADD_MEMBERSHIP, socket.IP_DROP_MEMBERSHIP, socket.IPPROTO_IP
    else:
        member = socket.inet_pton(family, group) + struct.pack("=i", index(name))
        join, leave, level = socket.IPV6_JOIN_GROUP, socket.IPV6_LEAVE_GROUP, socket.IPPROTO_IPV6
    end.setsockopt(level, join, member)
    end.settimeout(1)
    return end, (level, leave, member)


def sender(family, name):
    end = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET:
        member = struct.pack("=4s4si", b"\0" * 4, b"\0" * 4, index(name))
        end.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, member)
        end.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
    else:
        end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index(name))
        end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
    return end


def counted(end):
    count = 0
    try:
        while True:
            end.recv(4096)
            count += 1
    except TimeoutError:
        return count


def main():
    one, two = sys.argv[1:3]
    for family, groups in ((socket.AF_INET, ("239.7.7.7", "239.7.7.8")), (socket.AF_INET6, ("ff05::77", "ff05::78"))):
        end, (level, leave, member) = receiver(family, groups[0], two)
        source = sender(family, one)
        # The driver takes a group over within a second.
        counted(end), counted(end)
        for number in range(COUNT):
            source.sendto(bytes(100 + number), (groups[0], PORT))
        got = counted(end)
        print(f"{groups[0]}: {got} of {COUNT}")
        if got != COUNT:
            sys.exit(1)
        for _ in range(COUNT):
            source.sendto(b"other", (groups[1], PORT))
        end.setsockopt(level, leave, member)
        if got := counted(end):
            sys.exit(f"{groups[1]}: {got} came")


main()
