// Ranks of MPI that compare all that they get with what it has to be. The first prints what was done; any difference ends
// all of them. Run: ranks NUMBER-OF-RANKS [LARGEST-MESSAGE [ROUNDS]]. With ROUNDS, that often, and messages alone, of the
// largest length: libfabric sends short ones without asking for completions, and passes over those that fail.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
// What this rank has sent to each of the others by messages of its own choice; all ranks send as much.
static long sent;

static void *room(size_t bytes)
{
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) {
        perror("memory");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return memory;
}

static void right(int is_right, const char *what, int length, int of)
{
    if (is_right)
        return;
    printf("rank %d: %s of %d bytes, with rank %d, differs\n", rank, what, length, of);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

// The byte at a place of what one rank sends to another, in one kind of call.
static unsigned char byte(int owner, int to, int kind, int at)
{
    return (unsigned char)(owner * 89 + to * 57 + kind * 23 + at * 31 + at / 251);
}

static void fill(unsigned char *memory, int owner, int to, int kind, int length)
{
    for (int at = 0; at < length; at++)
        memory[at] = byte(owner, to, kind, at);
}

static int same(const unsigned char *memory, int owner, int to, int kind, int length)
{
    for (int at = 0; at < length; at++)
        if (memory[at] != byte(owner, to, kind, at))
            return 0;
    return 1;
}

enum { RING, BCAST, ALL, GATHER, PUT, GET };

// Around the ring, both ways at once.
static void ring(int length)
{
    unsigned char *out = room(length), *in = room(length);
    for (int step = 1; step < size; step++) {
        int to = (rank + step) % size, of = (rank - step + size) % size;
        fill(out, rank, to, RING, length);
        MPI_Sendrecv(out, length, MPI_BYTE, to, step, in, length, MPI_BYTE, of, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        right(same(in, of, rank, RING, length), "a message", length, of);
    }
    sent += length;
    free(out);
    free(in);
}

static void broadcasts(int length)
{
    unsigned char *memory = room(length);
    for (int root = 0; root < size; root++) {
        memset(memory, 0, length);
        if (rank == root)
            fill(memory, root, 0, BCAST, length);
        MPI_Bcast(memory, length, MPI_BYTE, root, MPI_COMM_WORLD);
        right(same(memory, root, 0, BCAST, length), "a broadcast", length, root);
    }
    free(memory);
}

// Each rank has a part for each; with counts of their own, the part of a lower rank is shorter.
static void all_to_all(int length)
{
    unsigned char *out = room((size_t)length * size), *in = room((size_t)length * size);
    int *counts = room(size * sizeof *counts), *mine = room(size * sizeof *mine), *starts = room(size * sizeof *starts);
    for (int to = 0; to < size; to++) {
        fill(out + (size_t)length * to, rank, to, ALL, length);
        counts[to] = length * (to + 1) / size;
        mine[to] = length * (rank + 1) / size;
        starts[to] = length * to;
    }
    MPI_Alltoall(out, length, MPI_BYTE, in, length, MPI_BYTE, MPI_COMM_WORLD);
    for (int of = 0; of < size; of++)
        right(same(in + (size_t)length * of, of, rank, ALL, length), "all to all", length, of);
    memset(in, 0, (size_t)length * size);
    MPI_Alltoallv(out, counts, starts, MPI_BYTE, in, mine, starts, MPI_BYTE, MPI_COMM_WORLD);
    for (int of = 0; of < size; of++)
        right(same(in + (size_t)length * of, of, rank, ALL, mine[of]), "parts to all", mine[of], of);
    memset(in, 0, (size_t)length * size);
    fill(out, rank, 0, GATHER, counts[rank]);
    MPI_Gatherv(out, counts[rank], MPI_BYTE, in, counts, starts, MPI_BYTE, size - 1, MPI_COMM_WORLD);
    for (int of = 0; rank == size - 1 && of < size; of++)
        right(same(in + (size_t)length * of, of, 0, GATHER, counts[of]), "gathered parts", counts[of], of);
    free(out);
    free(in);
    free(counts);
    free(mine);
    free(starts);
}

static void sums(int numbers)
{
    long *out = room(numbers * sizeof *out), *in = room(numbers * sizeof *in);
    for (int at = 0; at < numbers; at++)
        out[at] = (long)(rank + 1) * (at + 1);
    long ranks = (long)size * (size + 1) / 2, up_to_here = (long)(rank + 1) * (rank + 2) / 2;
    MPI_Allreduce(out, in, numbers, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; at < numbers; at++)
        right(in[at] == ranks * (at + 1), "a sum for all", numbers * 8, rank);
    memset(in, 0, numbers * sizeof *in);
    MPI_Reduce(out, in, numbers, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int at = 0; rank == 0 && at < numbers; at++)
        right(in[at] == (long)size * (at + 1), "a maximum", numbers * 8, rank);
    MPI_Scan(out, in, numbers, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; at < numbers; at++)
        right(in[at] == up_to_here * (at + 1), "a sum of those before", numbers * 8, rank);
    free(out);
    free(in);
}

// One-sided: into the next rank's memory, out of the one's before, and sums in the first one's.
static void windows(int length)
{
    unsigned char *memory, *in = room(length), *out = room(length);
    int next = (rank + 1) % size, before = (rank - 1 + size) % size;
    MPI_Win window;
    MPI_Win_allocate(2 * (MPI_Aint)length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    memset(memory, 0, length);
    fill(memory + length, rank, 0, GET, length);
    fill(out, rank, next, PUT, length);
    MPI_Win_fence(0, window);
    MPI_Put(out, length, MPI_BYTE, next, 0, length, MPI_BYTE, window);
    MPI_Get(in, length, MPI_BYTE, before, length, length, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    right(same(memory, before, rank, PUT, length), "what was put here", length, before);
    right(same(in, before, 0, GET, length), "what was got", length, before);
    MPI_Win_free(&window);
    long *total, one = rank + 1;
    MPI_Win_allocate(sizeof *total, sizeof *total, MPI_INFO_NULL, MPI_COMM_WORLD, &total, &window);
    *total = 0;
    MPI_Win_fence(0, window);
    for (int turn = 0; turn < 10; turn++)
        MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    right(rank != 0 || *total == 5L * size * (size + 1), "what was accumulated", 8, 0);
    MPI_Win_free(&window);
    free(in);
    free(out);
}

// Between the first two: half a round trip of 8 bytes in microseconds, and messages of 1 MiB in MiB/s. Told, not judged.
static void speeds(double *latency, double *bandwidth)
{
    enum { TURNS = 500, LARGE = 1 << 20, MESSAGES = 16 };
    unsigned char *memory = room(LARGE);
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (int turn = 0; turn < 2 * TURNS && rank < 2; turn++) {
        if (turn % 2 == rank)
            MPI_Send(memory, 8, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(memory, 8, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    *latency = (MPI_Wtime() - began) / (2 * TURNS) * 1e6;
    began = MPI_Wtime();
    for (int turn = 0; turn < MESSAGES && rank < 2; turn++) {
        if (rank == 0)
            MPI_Send(memory, LARGE, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        else
            MPI_Recv(memory, LARGE, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    *bandwidth = MESSAGES / (MPI_Wtime() - began);
    MPI_Barrier(MPI_COMM_WORLD);
    free(memory);
}

int main(int count, char **words)
{
    static const int lengths[] = {1, 64, 4096, 65537, 1 << 20, 4 << 20};
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int wanted = count > 1 ? atoi(words[1]) : 0, largest = count > 2 ? atoi(words[2]) : 4 << 20, done = 0;
    right(size == wanted, "the number of ranks", 0, size);
    int rounds = count > 3 ? atoi(words[3]) : 1;
    for (int round = 1; round <= rounds; round++) {
        done = 0;
        for (unsigned at = 0; at < sizeof lengths / sizeof *lengths && lengths[at] <= largest; at++) {
            done++;
            if (rounds > 1 && lengths[at] < largest)
                continue;
            ring(lengths[at]);
            if (rounds > 1)
                continue;
            broadcasts(lengths[at]);
            all_to_all(lengths[at]);
            sums(lengths[at] / 64 + 1);
            windows(lengths[at]);
        }
        if (rank == 0 && rounds > 1)
            printf("round %d\n", round);
        fflush(stdout);
    }
    double latency, bandwidth;
    speeds(&latency, &bandwidth);
    if (rank == 0)
        printf("%d ranks compared %d lengths up to %d; 8 bytes in %.1f us, 1 MiB at %.0f MiB/s\neach to each: %ld\n", size,
               done, lengths[done - 1], latency, bandwidth, sent);
    MPI_Finalize();
    return 0;
}
