"""Ranks of MPI that compare what they get with what it has to be.

Prints a line of the first rank; any difference ends all of them.
"""

import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()


def right(is_right, what):
    if not is_right:
        print(f"rank {rank}: {what} differs", flush=True)
        world.Abort(1)


def pattern(owner, length):
    """The bytes of one rank."""
    return bytes((owner * 89 + at * 31 + at // 251) % 256 for at in range(length))


right(size == int(sys.argv[1]), "the number of ranks")
messages = 0
for length in (1, 64, 4096, 65_537, 1_000_000):
    # Around the ring, both ways at once.
    for step in range(1, size):
        to, of = (rank + step) % size, (rank - step) % size
        got = bytearray(length)
        world.Sendrecv(bytearray(pattern(rank, length)), to, step, got, of, step)
        right(got == pattern(of, length), f"a message of {length} bytes from {of}")
        messages += size
    whole = bytearray(length * size)
    world.Allgather(bytearray(pattern(rank, length)), whole)
    right(whole == b"".join(pattern(owner, length) for owner in range(size)), f"all of {length} bytes")
for turn in range(200):
    total = world.allreduce((rank + 1) * turn)
    right(total == turn * size * (size + 1) // 2, f"sum {turn}")
world.Barrier()
if rank == 0:
    print(f"{size} ranks, {messages} messages around the ring, 5 gathered, 200 sums", flush=True)
