/* What PyTorch does with Gloo: processes that connect to each other, compute together, and take everything down.
 *
 *   gloo FOLDER RANK SIZE     FOLDER is where they meet; each has a device of its own
 *
 * The results are known numbers. Exit status: 1 one is wrong; Gloo ends the process for what it does not expect. */

#include <gloo/allgather_ring.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

using Numbers = std::vector<float>;

static int wrong;

static void all_are(const char *what, const Numbers &numbers, float expected) {
    for (size_t i = 0; i < numbers.size(); i++)
        if (numbers[i] != expected) {
            std::printf("%s: number %zu is %g, not %g\n", what, i, numbers[i], expected);
            wrong = 1;
            return;
        }
}

/* The processes of one life of the queue pairs. */
struct Group {
    std::shared_ptr<gloo::rendezvous::Context> context;
    gloo::rendezvous::PrefixStore store;
    int meetings;
};

/* All have sent and received all: Gloo ends a process that takes down what it still sends from. A message to each, which
 * completes behind what was sent before; then nobody waits for an answer of another's. */
static void settle(Group &group) {
    struct Peer {
        char sent = 1, received = 0;
        std::unique_ptr<gloo::transport::Buffer> to, from;
    };
    auto &context = group.context;
    auto slot = context->nextSlot();
    std::vector<Peer> peers(context->size);
    for (int rank = 0; rank < context->size; rank++) {
        if (rank == context->rank) continue;
        auto &peer = peers[rank];
        peer.to = context->getPair(rank)->createSendBuffer(slot, &peer.sent, 1);
        peer.from = context->getPair(rank)->createRecvBuffer(slot, &peer.received, 1);
    }
    for (auto &peer : peers)
        if (peer.to) peer.to->send();
    for (auto &peer : peers)
        if (peer.to) peer.from->waitRecv(), peer.to->waitSend();
    auto name = [](int meeting, int rank) { return std::to_string(meeting) + "-" + std::to_string(rank); };
    group.store.set(name(group.meetings, context->rank), {1});
    std::vector<std::string> all;
    for (int rank = 0; rank < context->size; rank++) all.push_back(name(group.meetings, rank));
    group.store.wait(all);
    group.meetings++;
}

/* A number of each rank, summed up by all: 1 + 2 + ... */
template <typename Algorithm>
static void sum(const char *what, Group &group, size_t count) {
    int size = group.context->size;
    Numbers numbers(count);
    Algorithm algorithm(group.context, {numbers.data()}, static_cast<int>(count));
    for (int round = 0; round < 5; round++) {
        numbers.assign(count, static_cast<float>(group.context->rank + 1));
        algorithm.run();
        all_are(what, numbers, static_cast<float>(size * (size + 1) / 2));
    }
    settle(group);
}

static void from_the_first(Group &group, size_t count) {
    Numbers numbers(count, group.context->rank == 0 ? 7.F : 0.F);
    gloo::BroadcastOneToAll<float> broadcast(group.context, {numbers.data()}, static_cast<int>(count));
    broadcast.run();
    all_are("broadcast", numbers, 7.F);
    settle(group);
}

static void from_all(Group &group, size_t count) {
    int size = group.context->size;
    Numbers mine(count, static_cast<float>(group.context->rank)), all(count * size);
    gloo::AllgatherRing<float> gather(group.context, {mine.data()}, all.data(), static_cast<int>(count));
    gather.run();
    for (int rank = 0; rank < size; rank++)
        all_are("allgather", {all.begin() + rank * count, all.begin() + (rank + 1) * count}, static_cast<float>(rank));
    settle(group);
}

static Group joined(const std::string &name, int rank, int size, gloo::rendezvous::Store &files,
                    std::shared_ptr<gloo::transport::Device> &device) {
    Group group{std::make_shared<gloo::rendezvous::Context>(rank, size), {name, files}, 0};
    gloo::rendezvous::PrefixStore addresses(name + "-addresses", files);
    group.context->connectFullMesh(addresses, device);
    return group;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int rank = std::atoi(argv[2]), size = std::atoi(argv[3]);
    auto device = gloo::transport::ibverbs::CreateDevice({"", 1, 1});
    gloo::rendezvous::FileStore files(argv[1]);
    /* Gloo's thread uses a queue pair after its end, if an event of it was still to be handled. All events come through one
     * channel: those of this group are handled behind those of the others. */
    Group last = joined("last", rank, size, files, device);
    for (int life = 0; life < 3; life++) {
        Group group = joined("life" + std::to_string(life), rank, size, files, device);
        for (size_t count : {1, 1000, 1 << 18}) {
            sum<gloo::AllreduceRingChunked<float>>("ring", group, count);
            sum<gloo::AllreduceHalvingDoubling<float>>("halving and doubling", group, count);
            from_the_first(group, count);
            from_all(group, count);
        }
        settle(last);
    }
    std::printf("rank %d of %d: %s\n", rank, size, wrong ? "WRONG" : "right");
    std::fflush(stdout);
    /* Without an end of the last group. */
    std::_Exit(wrong);
}
