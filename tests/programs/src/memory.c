/* Memory of every kind that programs register, with every kind of rights: what came of it, and of what was moved
 * to and from it. A row has
 *
 *   KIND: what the registration said
 *   send, receive, write, read, sink: a SEND out of it, a SEND into it, a peer's RDMA WRITE to it, a peer's RDMA
 *       READ of it, an own RDMA READ into it: ok, or the completion's error; "other bytes" if they differ
 *
 * each on a pair of queue pairs of its own. See checks.h for the arguments. */

#include "checks.h"

#define PAGE 4096
#define LOCAL IBV_ACCESS_LOCAL_WRITE
#define OPTIONAL_BIT(n) (1 << (20 + (n)))

static unsigned char pattern(size_t at, int seed) { return (unsigned char)(at * 7 + at / 251 + seed * 31 + 1); }

/* Writes or compares the pattern; memory that cannot be written is left as it is. */
static void filled(unsigned char *memory, size_t length, int seed) {
    for (size_t at = 0; at < length; at++) memory[at] = pattern(at, seed);
}

static bool same(const unsigned char *memory, size_t length, int seed) {
    for (size_t at = 0; at < length; at++)
        if (memory[at] != pattern(at, seed)) return false;
    return true;
}

enum { SEND = 1, RECEIVE = 2, WRITE = 4, READ = 8, SINK = 16, ALL = 31 };

/* What a program may do with the memory itself. */
enum { READABLE = 1, WRITABLE = 2 };

/* Moves LENGTH bytes at AT of a region. ADDRESS is where the program sees them, or NULL if it cannot. */
static void moved(struct ibv_mr *mr, uint64_t at, unsigned char *address, uint32_t length, int mode, int operations) {
    static const struct {
        const char *name;
        int bit;
    } rows[] = {{"send", SEND}, {"receive", RECEIVE}, {"write", WRITE}, {"read", READ}, {"sink", SINK}};
    for (size_t number = 0; number < COUNT(rows); number++) {
        int bit = rows[number].bit, seed = (int)number + 1;
        bool out = bit == SEND || bit == READ, local = bit == SEND || bit == RECEIVE || bit == SINK;
        if (!(operations & bit)) continue;
        struct pair pair = connected(mr->pd, IBV_QPT_RC, IBV_QPS_RTS);
        struct ibv_mr *other = new_mr(mr->pd, length, ALL_RIGHTS);
        struct ibv_sge own = {.addr = at, .length = length, .lkey = mr->lkey}, peer = piece(other, length);
        const char *came;
        int result = 0;
        /* What leaves read-only memory is what is in it. */
        if (out && (mode & WRITABLE)) filled(address, length, seed);
        if (!out) filled(other->addr, length, seed);
        if (!out && (mode & WRITABLE)) memset(address, 0, length);
        switch (bit) {
        case SEND:
            NEED(!post_receive(pair.qp[1], &peer, 1));
            result = post(pair.qp[0], IBV_WR_SEND, &own, 1, 0, 0);
            break;
        case RECEIVE:
            result = post_receive(pair.qp[0], &own, 1);
            if (!result) NEED(!post(pair.qp[1], IBV_WR_SEND, &peer, 1, 0, 0));
            break;
        case WRITE: result = post(pair.qp[1], IBV_WR_RDMA_WRITE, &peer, 1, at, mr->rkey); break;
        case READ: result = post(pair.qp[1], IBV_WR_RDMA_READ, &peer, 1, at, mr->rkey); break;
        case SINK: result = post(pair.qp[0], IBV_WR_RDMA_READ, &own, 1, (uintptr_t)other->addr, other->rkey); break;
        }
        came = result ? error_name(result) : completed(pair.cq[local ? 0 : 1]);
        /* A SEND has arrived when the other side says so. */
        if (bit == SEND && !strcmp(came, "SUCCESS")) came = completed(pair.cq[1]);
        say("%s %s", rows[number].name, strcmp(came, "SUCCESS") ? came : "ok");
        if (!strcmp(came, "SUCCESS")) {
            const unsigned char *to = out ? other->addr : address;
            if (out && !(mode & WRITABLE) && (mode & READABLE) && memcmp(to, address, length)) say("(other bytes)");
            if (out && (mode & WRITABLE) && !same(to, length, seed)) say("(other bytes)");
            if (!out && (mode & READABLE) && !same(to, length, seed)) say("(other bytes)");
        }
        taken_down(&pair);
        ibv_dereg_mr(other);
    }
}

static struct ibv_mr *registered(struct ibv_pd *pd, void *address, size_t length, int access) {
    errno = 0;
    struct ibv_mr *mr = ibv_reg_mr(pd, address, length, access);
    say_made("", mr);
    if (mr && (mr->addr != address || mr->length != length)) say("(another range)");
    return mr;
}

/* Registers, moves, deregisters. */
static void tried(void *address, size_t length, int access, int mode, int operations) {
    struct ibv_mr *mr = registered(new_pd(), address, length, access);
    if (!mr) return;
    moved(mr, (uintptr_t)address, address, length < 65536 ? length : 65536, mode, operations);
    if (ibv_dereg_mr(mr)) say("(deregistration failed)");
}

/* ---- Kinds of memory */

static unsigned char in_data[3 * PAGE] = {1}, in_bss[3 * PAGE];

static void heap(void) {
    unsigned char *small = malloc(100), *large = malloc(1 << 20);
    NEED(small && large);
    ROW("small") tried(small, 100, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    ROW("large") tried(large, 1 << 20, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    ROW("odd") tried(large + 12345, 54321, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    ROW("one-byte") tried(large + 4095, 1, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    ROW("across-pages") tried(large + PAGE - 3, 6, ALL_RIGHTS, READABLE | WRITABLE, ALL);
}

static void program(void) {
    unsigned char on_stack[3 * PAGE];
    ROW("stack") tried(on_stack + 5, sizeof on_stack - 10, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    ROW("data") tried(in_data, sizeof in_data, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    ROW("bss") tried(in_bss, sizeof in_bss, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    /* Of the file of the program, private and never to be written. */
    ROW("constants") tried((void *)(uintptr_t)"a constant that is long enough", 30, IBV_ACCESS_REMOTE_READ, READABLE, SEND | READ);
    ROW("constants-to-write") tried((void *)(uintptr_t)"a constant that is long enough", 30, ALL_RIGHTS, READABLE, SEND | READ);
    ROW("code") tried((void *)(uintptr_t)&run_checks, 64, IBV_ACCESS_REMOTE_READ, READABLE, SEND | READ);
}

/* Pages that nobody has touched before the registration, and their neighbours. */
static void untouched(void) {
    ROW("1-MiB") tried(new_memory(1 << 20), 1 << 20, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    ROW("64-MiB") tried(new_memory(64 << 20), 64 << 20, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    /* Without LOCAL_WRITE: what is read is zero, and the program's later bytes are seen all the same. */
    unsigned char *memory = new_memory(PAGE);
    ROW("read-only-then-written") tried(memory, PAGE, IBV_ACCESS_REMOTE_READ, READABLE | WRITABLE, SEND | READ);
}

static void overlapping(void) {
    unsigned char *memory = new_memory(4 * PAGE);
    struct ibv_pd *pd = new_pd();
    struct ibv_mr *first, *second;
    row("first"), first = registered(pd, memory, 3 * PAGE, ALL_RIGHTS);
    row("second"), second = registered(pd, memory + PAGE, 3 * PAGE, ALL_RIGHTS);
    if (!first || !second) return;
    row("through-first"), moved(first, (uintptr_t)memory + PAGE, memory + PAGE, 2 * PAGE, READABLE | WRITABLE, ALL);
    row("through-second"), moved(second, (uintptr_t)memory + PAGE, memory + PAGE, 2 * PAGE, READABLE | WRITABLE, ALL);
    row("first-gone"), say_error("", ibv_dereg_mr(first));
    row("second-then"), moved(second, (uintptr_t)memory + PAGE, memory + PAGE, 3 * PAGE, READABLE | WRITABLE, ALL);
}

static void same_page(void) {
    unsigned char *memory = new_memory(PAGE);
    struct ibv_pd *pd = new_pd();
    struct ibv_mr *all[64];
    int count = 0;
    while (count < 64 && (all[count] = ibv_reg_mr(pd, memory, PAGE, ALL_RIGHTS))) count++;
    row("times"), say("%d", count);
    if (count == 0) return;
    row("first"), moved(all[0], (uintptr_t)memory, memory, PAGE, READABLE | WRITABLE, ALL);
    row("last"), moved(all[count - 1], (uintptr_t)memory, memory, PAGE, READABLE | WRITABLE, ALL);
    for (int at = 0; at + 1 < count; at++) NEED(!ibv_dereg_mr(all[at]));
    row("last-alone"), moved(all[count - 1], (uintptr_t)memory, memory, PAGE, READABLE | WRITABLE, ALL);
}

static void two_rights(void) {
    unsigned char *memory = new_memory(PAGE);
    struct ibv_pd *pd = new_pd();
    struct ibv_mr *full, *local;
    row("all"), full = registered(pd, memory, PAGE, ALL_RIGHTS);
    row("none"), local = registered(pd, memory, PAGE, 0);
    if (!full || !local) return;
    row("through-all"), moved(full, (uintptr_t)memory, memory, PAGE, READABLE | WRITABLE, ALL);
    row("through-none"), moved(local, (uintptr_t)memory, memory, PAGE, READABLE | WRITABLE, ALL);
}

static void protection(void) {
    unsigned char *memory = new_memory(3 * PAGE);
    memory[0] = 1;
    NEED(!mprotect(memory, 3 * PAGE, PROT_READ));
    ROW("read-only") tried(memory, PAGE, IBV_ACCESS_REMOTE_READ, READABLE, SEND | READ);
    ROW("read-only-to-write") tried(memory, PAGE, ALL_RIGHTS, READABLE, ALL);
    NEED(!mprotect(memory, 3 * PAGE, PROT_NONE));
    ROW("none") tried(memory, PAGE, IBV_ACCESS_REMOTE_READ, 0, SEND | READ);
    ROW("none-to-write") tried(memory, PAGE, ALL_RIGHTS, 0, ALL);
    NEED(!mprotect(memory, PAGE, PROT_READ | PROT_WRITE));
    ROW("half-none") tried(memory, 2 * PAGE, ALL_RIGHTS, 0, ALL);
    /* The rights of the process are looked at when memory is registered, and not again. */
    NEED(!mprotect(memory, 3 * PAGE, PROT_READ | PROT_WRITE));
    ROW("none-later") {
        struct ibv_mr *mr = registered(new_pd(), memory, PAGE, ALL_RIGHTS);
        NEED(!mprotect(memory, PAGE, PROT_NONE));
        if (mr) moved(mr, (uintptr_t)memory, memory, PAGE, 0, ALL);
    }
}

/* The second and third of three pages are not there. What opening the device maps must not take their place. */
static unsigned char *one_of_three(void) {
    need_context();
    unsigned char *memory = new_memory(3 * PAGE);
    NEED(!munmap(memory + PAGE, 2 * PAGE));
    return memory;
}

static void unmapped(void) {
    ROW("whole") tried(one_of_three() + PAGE, PAGE, ALL_RIGHTS, 0, ALL);
    ROW("second-page") tried(one_of_three(), 2 * PAGE, ALL_RIGHTS, 0, ALL);
    ROW("null") tried(NULL, PAGE, ALL_RIGHTS, 0, ALL);
    ROW("kernel") tried((void *)0xffff800000000000ull, PAGE, ALL_RIGHTS, 0, ALL);
    unsigned char *memory = new_memory(PAGE);
    ROW("to-the-end") tried(memory, SIZE_MAX - (uintptr_t)memory, ALL_RIGHTS, 0, 0);
    ROW("beyond-the-end") tried(memory, SIZE_MAX, ALL_RIGHTS, 0, 0);
    ROW("length-0") tried(memory, 0, ALL_RIGHTS, 0, 0);
    ROW("null-length-0") tried(NULL, 0, ALL_RIGHTS, 0, 0);
}

static void unmapped_later(void) {
    unsigned char *memory = new_memory(PAGE);
    struct ibv_mr *mr = registered(new_pd(), memory, PAGE, ALL_RIGHTS);
    if (!mr) return;
    NEED(!munmap(memory, PAGE));
    moved(mr, (uintptr_t)memory, memory, PAGE, 0, ALL);
    say_error("dereg", ibv_dereg_mr(mr));
}

/* Another mapping has taken the place: the region is what it was, and the program does not see it. */
static void replaced_later(void) {
    unsigned char *memory = new_memory(PAGE);
    struct ibv_mr *mr = registered(new_pd(), memory, PAGE, ALL_RIGHTS);
    if (!mr) return;
    NEED(mmap(memory, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
    memset(memory, 0x5a, PAGE);
    moved(mr, (uintptr_t)memory, memory, PAGE, 0, ALL);
    for (int at = 0; at < PAGE; at++)
        if (memory[at] != 0x5a) {
            say("(the new mapping was written)");
            break;
        }
    say_error("dereg", ibv_dereg_mr(mr));
}

/* The same address, mapped anew and registered again: each region has the memory that was there when it was made. */
static void registered_again(void) {
    unsigned char *memory = new_memory(PAGE);
    struct ibv_pd *pd = new_pd();
    struct ibv_mr *old, *again;
    row("old"), old = registered(pd, memory, PAGE, ALL_RIGHTS);
    if (!old) return;
    NEED(!munmap(memory, PAGE));
    NEED(mmap(memory, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == memory);
    row("again"), again = registered(pd, memory, PAGE, ALL_RIGHTS);
    if (!again) return;
    row("through-again"), moved(again, (uintptr_t)memory, memory, PAGE, READABLE | WRITABLE, ALL);
    memset(memory, 0x5a, PAGE);
    row("through-old"), moved(old, (uintptr_t)memory, memory, PAGE, 0, ALL);
    row("new-memory"), say("%s", memory[0] == 0x5a && !memcmp(memory, memory + 1, PAGE - 1) ? "untouched" : "written");
    row("old-gone"), say_error("", ibv_dereg_mr(old));
    row("again-then"), moved(again, (uintptr_t)memory, memory, PAGE, READABLE | WRITABLE, ALL);
}

static void files(void) {
    int file = memfd_create("memory", 0), short_file = memfd_create("short", 0);
    NEED(file >= 0 && short_file >= 0 && !ftruncate(file, 4 * PAGE) && !ftruncate(short_file, PAGE));
    unsigned char *shared = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    unsigned char *private = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    unsigned char *read_only = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, file, 0);
    unsigned char *beyond = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, short_file, 0);
    unsigned char *zero, *anonymous = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int zeroes = open("/dev/zero", O_RDWR);
    NEED(shared != MAP_FAILED && private != MAP_FAILED && read_only != MAP_FAILED && beyond != MAP_FAILED && anonymous != MAP_FAILED);
    ROW("shared") tried(shared, 4 * PAGE, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    ROW("shared-anonymous") tried(anonymous, PAGE, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    ROW("private") tried(private, 4 * PAGE, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    ROW("shared-read-only") tried(read_only, 4 * PAGE, IBV_ACCESS_REMOTE_READ, READABLE, SEND | READ);
    ROW("shared-read-only-to-write") tried(read_only, 4 * PAGE, ALL_RIGHTS, READABLE, ALL);
    ROW("to-its-end") tried(beyond, PAGE, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    ROW("beyond-its-end") tried(beyond + PAGE, PAGE, ALL_RIGHTS, 0, ALL);
    ROW("half-beyond-its-end") tried(beyond, 2 * PAGE, ALL_RIGHTS, 0, ALL);
    zero = zeroes < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, zeroes, 0);
    ROW("dev-zero") {
        if (zero == MAP_FAILED) say("(not here)");
        else tried(zero, PAGE, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    }
    /* Both mappings are one file: what comes through one is seen through the other. */
    ROW("shared-seen-elsewhere") {
        struct ibv_mr *mr = registered(new_pd(), shared, PAGE, ALL_RIGHTS);
        if (mr) moved(mr, (uintptr_t)shared, shared, PAGE, READABLE | WRITABLE, RECEIVE);
        if (mr) say("%s", memcmp(read_only, shared, PAGE) ? "differs" : "same");
    }
    /* A file that becomes shorter keeps what was registered. */
    ROW("shortened-later") {
        struct ibv_mr *mr = registered(new_pd(), shared, PAGE, ALL_RIGHTS);
        NEED(!ftruncate(file, 0));
        if (mr) moved(mr, (uintptr_t)shared, shared, PAGE, 0, ALL);
    }
}

static void huge_pages(void) {
    const size_t size = 2 << 20;
    unsigned char *memory = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    unsigned char *anywhere = new_memory(4 * size), *aligned = (void *)(((uintptr_t)anywhere + size - 1) & ~(size - 1));
    ROW("reserved") {
        if (memory == MAP_FAILED) say("(not here)");
        else tried(memory, 2 * size, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    }
    ROW("reserved-odd") {
        if (memory == MAP_FAILED) say("(not here)");
        else tried(memory + size - 77, 154, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    }
    madvise(aligned, 2 * size, MADV_HUGEPAGE);
    memset(aligned, 1, 2 * size);
    ROW("transparent") tried(aligned, 2 * size, ALL_RIGHTS, READABLE | WRITABLE, ALL);
    ROW("transparent-odd") tried(aligned + size - 77, 154, ALL_RIGHTS, READABLE | WRITABLE, ALL);
}

/* ---- Another address for the region */

static void at_iova(const char *name, unsigned char *memory, size_t length, uint64_t iova, int access) {
    ROW("%s", name) {
        struct ibv_pd *pd = new_pd();
        errno = 0;
        struct ibv_mr *mr = ibv_reg_mr_iova2(pd, memory, length, iova, access);
        say_made("", mr);
        if (mr && (mr->addr != memory || mr->length != length)) say("(another range)");
        if (mr) moved(mr, iova, memory, length, READABLE | WRITABLE, ALL);
    }
}

static void iova(void) {
    unsigned char *memory = new_memory(16 * PAGE);
    at_iova("itself", memory, PAGE, (uintptr_t)memory, ALL_RIGHTS);
    at_iova("zero", memory, PAGE, 0, ALL_RIGHTS);
    at_iova("high", memory, 3 * PAGE, 0x123456789000, ALL_RIGHTS);
    at_iova("higher-than-addresses", memory, 3 * PAGE, 0xfedcba9876543000, ALL_RIGHTS);
    at_iova("same-offset", memory + 100, PAGE, 0x10000064, ALL_RIGHTS);
    at_iova("other-offset", memory + 100, PAGE, 0x10000000, ALL_RIGHTS);
    at_iova("across-the-end", memory, 2 * PAGE, 0xfffffffffffff000, ALL_RIGHTS);
}

static void zero_based(void) {
    unsigned char *memory = new_memory(4 * PAGE);
    for (int own = 0; own < 2; own++) {
        ROW("%s", own ? "at-its-address" : "at-0") {
            struct ibv_mr *mr = registered(new_pd(), memory, PAGE, ALL_RIGHTS | IBV_ACCESS_ZERO_BASED);
            if (mr) moved(mr, own ? (uintptr_t)memory : 0, memory, PAGE, READABLE | WRITABLE, ALL);
        }
    }
    at_iova("iova-0", memory, PAGE, 0, ALL_RIGHTS | IBV_ACCESS_ZERO_BASED);
}

/* ---- Rights */

static void rights(void) {
    static const struct {
        const char *name;
        int access;
    } rows[] = {
        {"none", 0},
        {"local-write", LOCAL},
        {"remote-read", IBV_ACCESS_REMOTE_READ},
        {"local-write-remote-read", LOCAL | IBV_ACCESS_REMOTE_READ},
        {"local-write-remote-write", LOCAL | IBV_ACCESS_REMOTE_WRITE},
        {"all", ALL_RIGHTS},
        {"remote-write", IBV_ACCESS_REMOTE_WRITE},
        {"remote-atomic", IBV_ACCESS_REMOTE_ATOMIC},
        {"local-write-remote-atomic", LOCAL | IBV_ACCESS_REMOTE_ATOMIC},
        {"all-and-atomic", ALL_RIGHTS | IBV_ACCESS_REMOTE_ATOMIC},
        {"mw-bind", LOCAL | IBV_ACCESS_MW_BIND},
        {"on-demand", LOCAL | IBV_ACCESS_ON_DEMAND},
        {"huge-pages", LOCAL | IBV_ACCESS_HUGETLB},
        {"flush-global", LOCAL | 1 << 8},
        {"flush-persistent", LOCAL | 1 << 9},
        {"relaxed-ordering", ALL_RIGHTS | IBV_ACCESS_RELAXED_ORDERING},
        {"relaxed-ordering-alone", IBV_ACCESS_RELAXED_ORDERING},
        {"unknown-bit-15", LOCAL | 1 << 15},
        {"unknown-optional-bit", LOCAL | OPTIONAL_BIT(5)},
        {"last-optional-bit", LOCAL | OPTIONAL_BIT(9)},
        {"unknown-bit-30", LOCAL | 1 << 30},
    };
    for (size_t at = 0; at < COUNT(rows); at++) {
        unsigned char *memory = new_memory(PAGE);
        memory[0] = 1;
        ROW("%s", rows[at].name) tried(memory, PAGE, rows[at].access, READABLE | WRITABLE, ALL);
    }
}

/* Two lengths of one message: all of a region, and one byte beyond. */
static void bounds(void) {
    unsigned char *memory = new_memory(4 * PAGE);
    struct ibv_mr *mr;
    row("inside"), mr = registered(new_pd(), memory + 10, PAGE, ALL_RIGHTS);
    if (!mr) return;
    moved(mr, (uintptr_t)memory + 10, memory + 10, PAGE, READABLE | WRITABLE, ALL);
    row("before"), moved(mr, (uintptr_t)memory + 9, memory + 9, 2, 0, ALL);
    row("behind"), moved(mr, (uintptr_t)memory + 10 + PAGE - 1, memory + 10 + PAGE - 1, 2, 0, ALL);
}

/* The kernel writes nothing that the program has written meanwhile: what a process that was forked writes is its
 * own, and the region stays that of its parent. */
static void after_fork(void) {
    unsigned char *memory = new_memory(PAGE);
    struct ibv_mr *mr;
    int status, ends[2];
    char byte;
    memory[0] = 1;
    NEED(!ibv_fork_init());
    mr = registered(new_pd(), memory, PAGE, ALL_RIGHTS);
    if (!mr) return;
    NEED(!pipe(ends));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        /* Lives on while the parent writes to its pages. */
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) != 0);
    }
    close(ends[0]);
    moved(mr, (uintptr_t)memory, memory, PAGE, READABLE | WRITABLE, ALL);
    close(ends[1]);
    waitpid(child, &status, 0);
}

static const struct check checks[] = {
    {"bounds", bounds},
    {"files", files},
    {"fork", after_fork},
    {"heap", heap},
    {"huge-pages", huge_pages},
    {"iova", iova},
    {"overlapping", overlapping},
    {"program", program},
    {"protection", protection},
    {"registered-again", registered_again},
    {"replaced-later", replaced_later},
    {"rights", rights},
    {"same-page", same_page},
    {"two-rights", two_rights},
    {"unmapped", unmapped},
    {"unmapped-later", unmapped_later},
    {"untouched", untouched},
    {"zero-based", zero_based},
    {NULL, NULL},
};

int main(int argc, char **argv) {
    static const struct check *const tables[] = {checks, NULL};
    return run_checks(argc, argv, tables);
}
