/* What the programs of this folder share: checks, each in a process of its own with fresh objects, a line each.
 *
 *   PROGRAM [-1] [DEVICE [GID_INDEX [CHECK...]]]
 *
 * DEVICE is the first one if none is named (or -), CHECK a name or its beginning. The lines are sorted. A check
 * that ends by a signal or takes too long (PATIENCE times a minute) says so on its line; with -1 the one that is
 * named runs in this process, for a debugger. Only libibverbs' public interface is used, so they run on any
 * device. A check has one row or several, each a line of its own: CHECK[ ROW]: WHAT CAME OF IT. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct check {
    const char *name;
    void (*run)(void);
};

/* The rows of the check that runs, in memory that is shared with it. */
#define ROOM 65536
static char *text;
static const char *device_name;
static int gid_index;

static void add(const char *format, va_list list) {
    size_t at = strlen(text);
    vsnprintf(text + at, ROOM - at, format, list);
}

/* More about the row. */
UNUSED __attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    size_t at = strlen(text);
    va_list list;
    if (at > 0 && text[at - 1] != '\n' && at + 1 < ROOM) text[at] = ' ';
    va_start(list, format);
    add(format, list);
    va_end(list);
}

/* Another row. */
UNUSED __attribute__((format(printf, 1, 2))) static void row(const char *format, ...) {
    size_t at = strlen(text);
    va_list list;
    if (at + 1 < ROOM) text[at] = '\n';
    va_start(list, format);
    add(format, list);
    va_end(list);
    at = strlen(text);
    if (at + 1 < ROOM) text[at] = ':';
}

UNUSED static const char *error_name(int error) {
    static char number[16];
    const char *name = strerrorname_np(error);
    if (error == 0) return "ok";
    /* Of the kernel's own: no program should see it. */
    if (error == 524) return "ENOTSUPP";
    snprintf(number, sizeof number, "%d", error);
    return name ? name : number;
}

/* A function that returns an error number, in a row of its own if it has a name. Some return -1 with errno, and some a negative number. */
UNUSED static void say_error(const char *what, int result) {
    if (*what) row("%s", what);
    if (result == 0) say("ok");
    else if (result > 0) say("%s", error_name(result));
    else say("%d %s", result, error_name(errno));
}

/* A function that makes an object. */
UNUSED static void say_made(const char *what, const void *object) {
    int error = errno;
    if (*what) row("%s", what);
    say("%s", object ? "made" : error_name(error));
}

/* Ends the check: nothing of the library is called any more. */
UNUSED __attribute__((noreturn)) static void finish(void) { _exit(0); }

/* What a check needs and does not get: nothing is to be said about what it is for. */
#define NEED(condition) \
    do { \
        errno = 0; \
        if (!(condition)) { \
            say("(could not begin: %s: %s)", #condition, error_name(errno)); \
            finish(); \
        } \
    } while (0)


/* ---- Processes */

static bool in_one_process, all_ended = true;
static int seconds = 60;

/* What runs in the child of this begins with no device open; in the parent it waits for its end. */
static bool forked(void) {
    int status;
    pid_t child;
    if (in_one_process) return true;
    fflush(stdout);
    if ((child = fork()) < 0) {
        say("(no process for it: %s)", error_name(errno));
        return false;
    }
    if (child == 0) {
        alarm(seconds);
        return true;
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) say("(did not end)");
    else if (WIFSIGNALED(status)) say("(ended by SIG%s)", sigabbrev_np(WTERMSIG(status)));
    all_ended = all_ended && !WIFSIGNALED(status);
    return false;
}

static bool forked_end(void) {
    if (!in_one_process) finish();
    return false;
}

/* A row whose statement runs in a process of its own. Nothing of the device may be open yet. */
#define ROW(...) for (bool inside = (row(__VA_ARGS__), forked()); inside; inside = forked_end())

/* ---- Objects */

static struct ibv_context *context;
static struct ibv_device_attr device;
static struct ibv_port_attr port;
static union ibv_gid own_gid;

UNUSED static struct ibv_context *opened(void) {
    int count;
    struct ibv_context *found = NULL;
    struct ibv_device **list = ibv_get_device_list(&count);
    for (int at = 0; list && list[at] && !found; at++)
        if (!device_name || !strcmp(ibv_get_device_name(list[at]), device_name)) found = ibv_open_device(list[at]);
    if (list) ibv_free_device_list(list);
    return found;
}

/* The device, its attributes and its address. */
UNUSED static void need_context(void) {
    if (context) return;
    NEED(context = opened());
    NEED(!ibv_query_device(context, &device));
    NEED(!ibv_query_port(context, 1, &port));
    NEED(!ibv_query_gid(context, 1, gid_index, &own_gid));
}

UNUSED static struct ibv_pd *new_pd(void) {
    struct ibv_pd *pd;
    need_context();
    NEED(pd = ibv_alloc_pd(context));
    return pd;
}

UNUSED static struct ibv_cq *new_cq(int entries) {
    struct ibv_cq *cq;
    need_context();
    NEED(cq = ibv_create_cq(context, entries, NULL, NULL, 0));
    return cq;
}

UNUSED static void *new_memory(size_t length) {
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(memory != MAP_FAILED);
    return memory;
}

#define ALL_RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

UNUSED static struct ibv_mr *new_mr(struct ibv_pd *pd, size_t length, int access) {
    struct ibv_mr *mr;
    NEED(mr = ibv_reg_mr(pd, new_memory(length), length, access));
    return mr;
}

UNUSED static struct ibv_qp_init_attr qp_attributes(struct ibv_cq *cq, enum ibv_qp_type type) {
    return (struct ibv_qp_init_attr){
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = type,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2},
    };
}

UNUSED static struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type) {
    struct ibv_qp *qp;
    struct ibv_qp_init_attr attributes = qp_attributes(cq, type);
    NEED(qp = ibv_create_qp(pd, &attributes));
    return qp;
}

#define QKEY 0x11111111
#define PSN 0x123456

#define RC_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RC_RTR \
    (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | \
     IBV_QP_MIN_RNR_TIMER)
#define RC_RTS \
    (IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
#define UD_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define UD_RTR IBV_QP_STATE
#define UD_RTS (IBV_QP_STATE | IBV_QP_SQ_PSN)

/* Attributes for every change of state, to a queue pair of the same function. */
UNUSED static struct ibv_qp_attr to_state(enum ibv_qp_state state, uint32_t peer) {
    return (struct ibv_qp_attr){
        .qp_state = state,
        .port_num = 1,
        .qkey = QKEY,
        .qp_access_flags = ALL_RIGHTS,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer,
        .rq_psn = PSN,
        .sq_psn = PSN,
        .max_dest_rd_atomic = 1,
        .max_rd_atomic = 1,
        .min_rnr_timer = 12,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = own_gid, .sgid_index = gid_index, .hop_limit = 64}},
    };
}

UNUSED static int mask_to(enum ibv_qp_type type, enum ibv_qp_state state) {
    switch (state) {
    case IBV_QPS_INIT: return type == IBV_QPT_UD ? UD_INIT : RC_INIT;
    case IBV_QPS_RTR: return type == IBV_QPT_UD ? UD_RTR : RC_RTR;
    case IBV_QPS_RTS: return type == IBV_QPT_UD ? UD_RTS : RC_RTS;
    default: return IBV_QP_STATE;
    }
}

UNUSED static int go(struct ibv_qp *qp, enum ibv_qp_state state, uint32_t peer) {
    struct ibv_qp_attr attributes = to_state(state, peer);
    return ibv_modify_qp(qp, &attributes, mask_to(qp->qp_type, state));
}

/* Through the states up to the last one: RESET, INIT, RTR, RTS, SQD or ERR. */
UNUSED static void need_state(struct ibv_qp *qp, enum ibv_qp_state last, uint32_t peer) {
    if (last == IBV_QPS_RESET) return;
    for (int state = IBV_QPS_INIT; state <= (last == IBV_QPS_ERR ? IBV_QPS_RTS : (int)last); state++) NEED(!go(qp, state, peer));
    if (last == IBV_QPS_ERR) NEED(!go(qp, IBV_QPS_ERR, peer));
}

/* ---- A queue pair that is connected with itself's neighbour, and what moves over it */

struct pair {
    struct ibv_pd *pd;
    struct ibv_cq *cq[2];
    struct ibv_qp *qp[2];
};

UNUSED static struct pair connected(struct ibv_pd *pd, enum ibv_qp_type type, enum ibv_qp_state state) {
    struct pair pair = {.pd = pd};
    for (int side = 0; side < 2; side++) {
        pair.cq[side] = new_cq(64);
        pair.qp[side] = new_qp(pd, pair.cq[side], type);
    }
    for (int side = 0; side < 2; side++) need_state(pair.qp[side], state, pair.qp[1 - side]->qp_num);
    return pair;
}

UNUSED static void taken_down(struct pair *pair) {
    for (int side = 0; side < 2; side++) {
        ibv_destroy_qp(pair->qp[side]);
        ibv_destroy_cq(pair->cq[side]);
    }
}

/* One completion, within some seconds. */
UNUSED static bool completion(struct ibv_cq *cq, struct ibv_wc *wc) {
    struct timespec pause = {.tv_nsec = 200000};
    for (int turn = 0; turn < 50000; turn++) {
        int count = ibv_poll_cq(cq, 1, wc);
        if (count > 0) return true;
        if (count < 0) return false;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* The names of its completions' states are the constants' ones. */
UNUSED static const char *status_name(enum ibv_wc_status status) {
    static const char *const names[] = {
        "SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "MW_BIND_ERR",
        "BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR",
        "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR", "REM_INV_RD_REQ_ERR", "REM_ABORT_ERR", "INV_EECN_ERR",
        "INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR",
    };
    return status < COUNT(names) ? names[status] : "?";
}

UNUSED static const char *completed(struct ibv_cq *cq) {
    struct ibv_wc wc;
    return completion(cq, &wc) ? status_name(wc.status) : "(no completion)";
}

UNUSED static struct ibv_sge piece(const struct ibv_mr *mr, uint32_t length) {
    return (struct ibv_sge){.addr = (uintptr_t)mr->addr, .length = length, .lkey = mr->lkey};
}

UNUSED static int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_sge *list, int count, uint64_t remote,
                       uint32_t rkey) {
    struct ibv_send_wr *bad, wr = {.opcode = opcode, .sg_list = list, .num_sge = count, .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = rkey;
    return ibv_post_send(qp, &wr, &bad);
}

UNUSED static int post_receive(struct ibv_qp *qp, struct ibv_sge *list, int count) {
    struct ibv_recv_wr *bad, wr = {.sg_list = list, .num_sge = count};
    return ibv_post_recv(qp, &wr, &bad);
}

/* ---- The checks of a program */

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct check *)a)->name, ((const struct check *)b)->name);
}

static bool chosen(const char *name, int count, char **begins) {
    if (count == 0) return true;
    for (int at = 0; at < count; at++)
        if (!strncmp(name, begins[at], strlen(begins[at]))) return true;
    return false;
}

static int run_checks(int argc, char **argv, struct check *checks, size_t count) {
    const char *patience = getenv("PATIENCE");
    in_one_process = argc > 1 && !strcmp(argv[1], "-1");
    argc -= in_one_process;
    argv += in_one_process;
    if (patience) seconds *= atoi(patience);
    if (argc > 1 && strcmp(argv[1], "-")) device_name = argv[1];
    if (argc > 2) gid_index = atoi(argv[2]);
    text = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (text == MAP_FAILED) return 1;
    qsort(checks, count, sizeof checks[0], by_name);
    for (size_t at = 0; at < count; at++) {
        if (!chosen(checks[at].name, argc > 3 ? argc - 3 : 0, argv + 3)) continue;
        memset(text, 0, ROOM);
        for (bool inside = forked(); inside; inside = forked_end()) checks[at].run();
        char *rest = text, *one = strsep(&rest, "\n");
        if (*one || !rest) printf("%s: %s\n", checks[at].name, one);
        while ((one = strsep(&rest, "\n"))) printf("%s %s\n", checks[at].name, one);
        fflush(stdout);
    }
    return all_ended ? 0 : 1;
}
