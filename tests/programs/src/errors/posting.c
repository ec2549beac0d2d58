/* Posting requests and receives, and what completions say. */

#include "../checks.h"
#include "errors.h"

/* A queue pair in a state, and one SGE of memory of its domain. */
struct poster {
    struct pair pair;
    struct ibv_qp *qp;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_sge sge;
};

static struct poster poster(enum ibv_qp_type type, enum ibv_qp_state state) {
    struct poster made = {.pair = connected(new_pd(), type, state)};
    made.qp = made.pair.qp[0];
    made.cq = made.pair.cq[0];
    made.mr = new_mr(made.pair.pd, 8192, ALL_RIGHTS);
    made.sge = piece(made.mr, 64);
    return made;
}

static void post_states(void) {
    static const int states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR};
    for (size_t at = 0; at < COUNT(states); at++) {
        ROW("send-in-%s", state_name(states[at])) {
            struct poster on = poster(IBV_QPT_RC, states[at]);
            say_error("", post(on.qp, IBV_WR_RDMA_WRITE, &on.sge, 1, (uintptr_t)on.mr->addr + 4096, on.mr->rkey));
        }
        ROW("receive-in-%s", state_name(states[at])) {
            struct poster on = poster(IBV_QPT_RC, states[at]);
            say_error("", post_receive(on.qp, &on.sge, 1));
        }
    }
}

static void flushed(void) {
    struct poster on = poster(IBV_QPT_RC, IBV_QPS_RTS);
    say_error("to-err", go(on.qp, IBV_QPS_ERR, 0));
    say_error("send", post(on.qp, IBV_WR_SEND, &on.sge, 1, 0, 0));
    say("%s", completed(on.cq));
    say_error("receive", post_receive(on.qp, &on.sge, 1));
    say("%s", completed(on.cq));
}

static void post_sges(void) {
    struct poster on = poster(IBV_QPT_RC, IBV_QPS_RTS);
    struct ibv_qp_attr attributes;
    struct ibv_qp_init_attr init;
    struct ibv_sge list[64];
    uint64_t remote = (uintptr_t)on.mr->addr + 4096;
    NEED(!ibv_query_qp(on.qp, &attributes, IBV_QP_CAP, &init));
    NEED(init.cap.max_send_sge < 60 && init.cap.max_recv_sge < 60);
    for (size_t at = 0; at < COUNT(list); at++) list[at] = piece(on.mr, 8);
    say_error("send-granted", post(on.qp, IBV_WR_RDMA_WRITE, list, init.cap.max_send_sge, remote, on.mr->rkey));
    say_error("send-one-more", post(on.qp, IBV_WR_RDMA_WRITE, list, init.cap.max_send_sge + 1, remote, on.mr->rkey));
    say_error("send--1", post(on.qp, IBV_WR_RDMA_WRITE, list, -1, remote, on.mr->rkey));
    say_error("send-none", post(on.qp, IBV_WR_RDMA_WRITE, NULL, 0, remote, on.mr->rkey));
    say_error("receive-granted", post_receive(on.qp, list, init.cap.max_recv_sge));
    say_error("receive-one-more", post_receive(on.qp, list, init.cap.max_recv_sge + 1));
    say_error("receive--1", post_receive(on.qp, list, -1));
    say_error("receive-none", post_receive(on.qp, NULL, 0));
}

static void full_send_queue(void) {
    struct poster on = poster(IBV_QPT_RC, IBV_QPS_RTS);
    struct ibv_qp_attr attributes;
    struct ibv_qp_init_attr init;
    uint32_t count = 0;
    int result = 0;
    NEED(!ibv_query_qp(on.qp, &attributes, IBV_QP_CAP, &init));
    /* What nobody has polled takes room. */
    while (count < 100000 && !result) {
        result = post(on.qp, IBV_WR_RDMA_WRITE, &on.sge, 1, (uintptr_t)on.mr->addr + 4096, on.mr->rkey);
        count += !result;
    }
    row("requests"), say("%s", count >= init.cap.max_send_wr ? "as-many-as-granted" : "fewer-than-granted");
    say_error("then", result);
    say("%s", completed(on.cq));
}

static void full_receive_queue(void) {
    struct poster on = poster(IBV_QPT_RC, IBV_QPS_INIT);
    struct ibv_qp_attr attributes;
    struct ibv_qp_init_attr init;
    uint32_t count = 0;
    int result = 0;
    NEED(!ibv_query_qp(on.qp, &attributes, IBV_QP_CAP, &init));
    while (count < 100000 && !result) {
        result = post_receive(on.qp, &on.sge, 1);
        count += !result;
    }
    row("receives"), say("%s", count >= init.cap.max_recv_wr ? "as-many-as-granted" : "fewer-than-granted");
    say_error("then", result);
}

/* Of three the second is wrong. */
static void lists(void) {
    struct poster on = poster(IBV_QPT_RC, IBV_QPS_RTS);
    struct ibv_send_wr wr[3], *bad = NULL;
    struct ibv_recv_wr receive[3], *bad_receive = NULL;
    struct ibv_wc wc;
    int result, done = 0;
    for (int at = 0; at < 3; at++) {
        wr[at] = (struct ibv_send_wr){
            .wr_id = at,
            .next = at < 2 ? &wr[at + 1] : NULL,
            .sg_list = &on.sge,
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_WRITE,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {(uintptr_t)on.mr->addr + 4096, on.mr->rkey},
        };
        receive[at] = (struct ibv_recv_wr){.wr_id = at, .next = at < 2 ? &receive[at + 1] : NULL, .sg_list = &on.sge, .num_sge = 1};
    }
    wr[1].num_sge = 1000;
    receive[1].num_sge = 1000;
    result = ibv_post_send(on.qp, wr, &bad);
    say_error("send", result);
    say("at the %s", bad == &wr[1] ? "second" : "another");
    while (done < 1 && completion(on.cq, &wc)) done++;
    row("done"), say("%d", done);
    say("and %d", ibv_poll_cq(on.cq, 1, &wc));
    result = ibv_post_recv(on.qp, receive, &bad_receive);
    say_error("receive", result);
    say("at the %s", bad_receive == &receive[1] ? "second" : "another");
}

static void opcodes(enum ibv_qp_type type) {
    static const struct {
        const char *name;
        int opcode;
    } rows[] = {
        {"SEND", IBV_WR_SEND},
        {"SEND_WITH_IMM", IBV_WR_SEND_WITH_IMM},
        {"RDMA_WRITE", IBV_WR_RDMA_WRITE},
        {"RDMA_WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM},
        {"RDMA_READ", IBV_WR_RDMA_READ},
        {"ATOMIC_CMP_AND_SWP", IBV_WR_ATOMIC_CMP_AND_SWP},
        {"ATOMIC_FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD},
        {"SEND_WITH_INV", IBV_WR_SEND_WITH_INV},
        {"LOCAL_INV", IBV_WR_LOCAL_INV},
        {"TSO", IBV_WR_TSO},
        {"DRIVER1", IBV_WR_DRIVER1},
        {"99", 99},
    };
    for (size_t at = 0; at < COUNT(rows); at++) ROW("%s", rows[at].name) {
        struct poster on = poster(type, IBV_QPS_RTS);
        struct ibv_send_wr *bad, wr = {.opcode = rows[at].opcode, .sg_list = &on.sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
        if (type == IBV_QPT_UD) {
            struct ibv_ah_attr attributes = to_state(IBV_QPS_RTR, 0).ah_attr;
            NEED(wr.wr.ud.ah = ibv_create_ah(on.pair.pd, &attributes));
            wr.wr.ud.remote_qpn = on.pair.qp[1]->qp_num;
            wr.wr.ud.remote_qkey = QKEY;
        } else {
            wr.wr.rdma.remote_addr = (uintptr_t)on.mr->addr + 4096;
            wr.wr.rdma.rkey = on.mr->rkey;
        }
        say_error("", ibv_post_send(on.qp, &wr, &bad));
    }
}
static void rc_opcodes(void) { opcodes(IBV_QPT_RC); }
static void ud_opcodes(void) { opcodes(IBV_QPT_UD); }

static void bind_nothing(void) {
    struct poster on = poster(IBV_QPT_RC, IBV_QPS_RTS);
    say_error("", post(on.qp, IBV_WR_BIND_MW, NULL, 0, 0, 0));
}

static void unknown_send_flag(void) {
    struct poster on = poster(IBV_QPT_RC, IBV_QPS_RTS);
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &on.sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED | 1 << 20,
                                   .wr.rdma = {(uintptr_t)on.mr->addr + 4096, on.mr->rkey}};
    say_error("unknown", ibv_post_send(on.qp, &wr, &bad));
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM;
    say_error("ip-csum", ibv_post_send(on.qp, &wr, &bad));
}

static void inline_lengths(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *cq = new_cq(64);
    struct ibv_qp_init_attr init = qp_attributes(cq, IBV_QPT_RC);
    struct ibv_qp *qp;
    static char bytes[8192];
    init.cap.max_inline_data = 64;
    NEED(qp = ibv_create_qp(pd, &init));
    need_state(qp, IBV_QPS_RTS, qp->qp_num);
    for (int number = 0; number < 3; number++) {
        static const char *const names[] = {"granted", "one-more", "5000"};
        struct ibv_mr *mr = new_mr(pd, 16384, ALL_RIGHTS);
        uint32_t length = number == 0 ? init.cap.max_inline_data : number == 1 ? init.cap.max_inline_data + 1 : 5000;
        /* Inline data needs no key. */
        struct ibv_sge list = {.addr = (uintptr_t)bytes, .length = length, .lkey = 0xdeadbeef};
        struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &list, .num_sge = 1,
                                       .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE, .wr.rdma = {(uintptr_t)mr->addr, mr->rkey}};
        int result = ibv_post_send(qp, &wr, &bad);
        say_error(names[number], result);
        if (!result) say("%s", completed(cq));
    }
}

static void inline_read(void) {
    struct poster on = poster(IBV_QPT_RC, IBV_QPS_RTS);
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_RDMA_READ, .sg_list = &on.sge, .num_sge = 1,
                                   .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
                                   .wr.rdma = {(uintptr_t)on.mr->addr + 4096, on.mr->rkey}};
    say_error("", ibv_post_send(on.qp, &wr, &bad));
}

/* Whether the function has survived what was asked of it: another pair works. */
static void works_still(void) {
    struct ibv_mr *mr = NULL;
    struct ibv_pd *pd = ibv_alloc_pd(context);
    if (pd) mr = ibv_reg_mr(pd, new_memory(4096), 4096, ALL_RIGHTS);
    if (!mr) {
        say("(nothing works any more: %s)", error_name(errno));
        return;
    }
    struct pair pair = connected(pd, IBV_QPT_RC, IBV_QPS_RTS);
    struct ibv_sge list = piece(mr, 64);
    NEED(!post(pair.qp[0], IBV_WR_RDMA_WRITE, &list, 1, (uintptr_t)mr->addr + 64, mr->rkey));
    const char *came = completed(pair.cq[0]);
    if (strcmp(came, "SUCCESS")) say("(another pair: %s)", came);
}

/* Keys are wrong in their low byte, in the number above it, and with a number that no region can have. */
static const struct {
    const char *name;
    uint32_t bits;
} wrong_keys[] = {{"low-byte", 0x55}, {"number", 0x5500}, {"number-beyond", 0x80000000}, {"zero", 0}};

static void wrong_key(void) {
    for (size_t number = 0; number < 2 * COUNT(wrong_keys); number++) {
        const size_t which = number / 2;
        const bool local = number % 2 == 0;
        ROW("%s-%s", local ? "local" : "remote", wrong_keys[which].name) {
            struct poster on = poster(IBV_QPT_RC, IBV_QPS_RTS);
            struct ibv_sge list = on.sge;
            uint32_t *key = local ? &list.lkey : &on.mr->rkey;
            *key = wrong_keys[which].bits ? *key ^ wrong_keys[which].bits : 0;
            int result = post(on.qp, IBV_WR_RDMA_WRITE, &list, 1, (uintptr_t)on.mr->addr + 4096, on.mr->rkey);
            say_error("", result);
            if (!result) say("%s", completed(on.cq));
            works_still();
        }
    }
}

/* Requests that are taken and end in an error; both sides' queue pairs are in ERR then. */
static void completion_errors(void) {
    static const char *const names[] = {
        "beyond-local",
        "local-of-another-pd",
        "beyond-remote",
        "remote-of-another-pd",
        "write-of-read-only",
        "read-of-local-only",
        "receive-too-small",
    };
    for (size_t number = 0; number < COUNT(names); number++) ROW("%s", names[number]) {
        struct poster on = poster(IBV_QPT_RC, IBV_QPS_RTS);
        struct ibv_mr *mr = on.mr, *read_only = new_mr(on.pair.pd, 4096, 0);
        struct ibv_mr *elsewhere = new_mr(new_pd(), 4096, ALL_RIGHTS);
        uint64_t remote = (uintptr_t)mr->addr + 4096;
        struct ibv_sge list = piece(mr, 64), wrong;
        int result = 0;
        switch (number) {
        case 0:
            wrong = piece(mr, 8192), wrong.addr += 64;
            result = post(on.qp, IBV_WR_SEND, &wrong, 1, 0, 0);
            break;
        case 1:
            wrong = piece(elsewhere, 64);
            result = post(on.qp, IBV_WR_RDMA_WRITE, &wrong, 1, remote, mr->rkey);
            break;
        case 2: result = post(on.qp, IBV_WR_RDMA_WRITE, &list, 1, remote + 4096 - 8, mr->rkey); break;
        case 3: result = post(on.qp, IBV_WR_RDMA_WRITE, &list, 1, (uintptr_t)elsewhere->addr, elsewhere->rkey); break;
        case 4: result = post(on.qp, IBV_WR_RDMA_WRITE, &list, 1, (uintptr_t)read_only->addr, read_only->rkey); break;
        case 5: result = post(on.qp, IBV_WR_RDMA_READ, &list, 1, (uintptr_t)read_only->addr, read_only->rkey); break;
        case 6:
            wrong = piece(mr, 8);
            NEED(!post_receive(on.pair.qp[1], &wrong, 1));
            result = post(on.qp, IBV_WR_SEND, &list, 1, 0, 0);
            break;
        }
        say_error("", result);
        if (!result) say("%s", completed(on.cq));
        if (number == 6) say("and %s", completed(on.pair.cq[1]));
        taken_down(&on.pair);
    }
}

static void receive_not_ready(void) {
    struct pair pair = {.pd = new_pd()};
    struct ibv_mr *mr = new_mr(pair.pd, 4096, ALL_RIGHTS);
    struct ibv_sge list = piece(mr, 64);
    for (int side = 0; side < 2; side++) pair.qp[side] = new_qp(pair.pd, pair.cq[side] = new_cq(16), IBV_QPT_RC);
    for (int side = 0; side < 2; side++) {
        struct ibv_qp_attr attributes;
        need_state(pair.qp[side], IBV_QPS_RTR, pair.qp[1 - side]->qp_num);
        attributes = to_state(IBV_QPS_RTS, 0);
        attributes.rnr_retry = 0;
        NEED(!ibv_modify_qp(pair.qp[side], &attributes, RC_RTS));
    }
    say_error("", post(pair.qp[0], IBV_WR_SEND, &list, 1, 0, 0));
    say("%s", completed(pair.cq[0]));
}

static void long_messages(void) {
    struct poster on = poster(IBV_QPT_RC, IBV_QPS_RTS);
    struct ibv_sge list = on.sge;
    list.length = 0x80000000;
    say_error("2-GiB", post(on.qp, IBV_WR_SEND, &list, 1, 0, 0));
    list.length = UINT_MAX;
    say_error("4-GiB", post(on.qp, IBV_WR_SEND, &list, 1, 0, 0));
    struct poster ud = poster(IBV_QPT_UD, IBV_QPS_RTS);
    struct ibv_ah_attr attributes = to_state(IBV_QPS_RTR, 0).ah_attr;
    list = piece(ud.mr, 8000);
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .sg_list = &list, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
    NEED(wr.wr.ud.ah = ibv_create_ah(ud.pair.pd, &attributes));
    wr.wr.ud.remote_qpn = ud.pair.qp[1]->qp_num;
    wr.wr.ud.remote_qkey = QKEY;
    int result = ibv_post_send(ud.qp, &wr, &bad);
    say_error("ud-8000", result);
    if (!result) say("%s", completed(ud.cq));
}

const struct check errors_of_posting[] = {
    {"completions/errors", completion_errors},
    {"completions/wrong-key", wrong_key},
    {"completions/flushed", flushed},
    {"completions/receive-not-ready", receive_not_ready},
    {"post/bind-nothing", bind_nothing},
    {"post/full-receive-queue", full_receive_queue},
    {"post/full-send-queue", full_send_queue},
    {"post/inline", inline_lengths},
    {"post/inline-read", inline_read},
    {"post/lists", lists},
    {"post/long-messages", long_messages},
    {"post/rc-opcodes", rc_opcodes},
    {"post/sges", post_sges},
    {"post/states", post_states},
    {"post/ud-opcodes", ud_opcodes},
    {"post/unknown-flag", unknown_send_flag},
    {NULL, NULL},
};
