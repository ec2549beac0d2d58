/* Protection domains, channels, completion queues, address handles, memory. */

#include "../checks.h"
#include "errors.h"

/* ---- Protection domains, channels, and what is in use */

static void pd_in_use(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_mr *mr = new_mr(pd, 4096, ALL_RIGHTS);
    say_error("by-mr", ibv_dealloc_pd(pd));
    NEED(!ibv_dereg_mr(mr));
    struct ibv_cq *cq = new_cq(16);
    struct ibv_qp *qp = new_qp(pd, cq, IBV_QPT_UD);
    say_error("by-qp", ibv_dealloc_pd(pd));
    NEED(!ibv_destroy_qp(qp));
    struct ibv_ah_attr attributes = to_state(IBV_QPS_RTR, 0).ah_attr;
    struct ibv_ah *ah = ibv_create_ah(pd, &attributes);
    NEED(ah);
    say_error("by-ah", ibv_dealloc_pd(pd));
    NEED(!ibv_destroy_ah(ah));
    say_error("by-nothing", ibv_dealloc_pd(pd));
}

static void cq_in_use(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *send = new_cq(16), *receive = new_cq(16);
    struct ibv_qp_init_attr attributes = qp_attributes(send, IBV_QPT_RC);
    struct ibv_qp *qp;
    attributes.recv_cq = receive;
    NEED(qp = ibv_create_qp(pd, &attributes));
    say_error("as-send", ibv_destroy_cq(send));
    say_error("as-receive", ibv_destroy_cq(receive));
    NEED(!ibv_destroy_qp(qp));
    say_error("send-then", ibv_destroy_cq(send));
    say_error("receive-then", ibv_destroy_cq(receive));
    say_error("pd-then", ibv_dealloc_pd(pd));
}

static void channel_in_use(void) {
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    need_context();
    NEED(channel = ibv_create_comp_channel(context));
    NEED(cq = ibv_create_cq(context, 16, NULL, channel, 0));
    say_error("by-cq", ibv_destroy_comp_channel(channel));
    NEED(!ibv_destroy_cq(cq));
    say_error("then", ibv_destroy_comp_channel(channel));
}

/* What was refused because it was in use works as before. */
static void works_after_refusal(void) {
    struct ibv_pd *pd = new_pd();
    struct pair pair = connected(pd, IBV_QPT_RC, IBV_QPS_RTS);
    struct ibv_mr *mr = new_mr(pd, 4096, ALL_RIGHTS);
    struct ibv_sge list = piece(mr, 64);
    say_error("pd", ibv_dealloc_pd(pd));
    say_error("cq", ibv_destroy_cq(pair.cq[0]));
    say_error("post", post(pair.qp[0], IBV_WR_RDMA_WRITE, &list, 1, (uintptr_t)mr->addr + 64, mr->rkey));
    say("%s", completed(pair.cq[0]));
}

static void multicast(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *cq = new_cq(16);
    struct ibv_qp *ud = new_qp(pd, cq, IBV_QPT_UD), *rc = new_qp(pd, cq, IBV_QPT_RC);
    union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 5}}, other = {.raw = {0xff, 0x0e, [15] = 6}};
    say_error("rc", ibv_attach_mcast(rc, &group, 0));
    say_error("no-group", ibv_attach_mcast(ud, &own_gid, 0));
    say_error("detach-before", ibv_detach_mcast(ud, &other, 0));
    say_error("attach", ibv_attach_mcast(ud, &group, 0));
    say_error("twice", ibv_attach_mcast(ud, &group, 0));
    int result = ibv_destroy_qp(ud);
    say_error("destroy-attached", result);
    if (!result) return;
    say_error("detach", ibv_detach_mcast(ud, &group, 0));
    say_error("detach-again", ibv_detach_mcast(ud, &group, 0));
    say_error("destroy", ibv_destroy_qp(ud));
}

/* ---- Completion queues */

static void create_cq(void) {
    need_context();
    const struct {
        const char *what;
        int entries, vector;
    } rows[] = {
        {"entries--1", -1, 0},
        {"entries-0", 0, 0},
        {"entries-1", 1, 0},
        {"entries-most", device.max_cqe, 0},
        {"entries-beyond", device.max_cqe + 1, 0},
        {"entries-int-max", INT_MAX, 0},
        {"vector--1", 16, -1},
        {"vector-beyond", 16, context->num_comp_vectors},
        {"vector-last", 16, context->num_comp_vectors - 1},
    };
    for (size_t at = 0; at < COUNT(rows); at++) {
        errno = 0;
        struct ibv_cq *cq = ibv_create_cq(context, rows[at].entries, NULL, NULL, rows[at].vector);
        say_made(rows[at].what, cq);
        if (cq && cq->cqe < rows[at].entries) say("(smaller than asked for)");
        if (cq) NEED(!ibv_destroy_cq(cq));
    }
}

static void create_cq_ex(void) {
    need_context();
    const struct {
        const char *what;
        struct ibv_cq_init_attr_ex attributes;
    } rows[] = {
        {"plain", {.cqe = 16}},
        {"standard", {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS}},
        {"entries-0", {.cqe = 0}},
        {"entries-beyond", {.cqe = device.max_cqe + 1}},
        {"vector-beyond", {.cqe = 16, .comp_vector = context->num_comp_vectors}},
        {"timestamp", {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP}},
        {"cvlan", {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_CVLAN}},
        {"tag-matching", {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_TM_INFO}},
        {"unknown-wc-flag", {.cqe = 16, .wc_flags = 1ull << 40}},
        {"unknown-mask", {.cqe = 16, .comp_mask = 1u << 20}},
        {"single-threaded", {.cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED}},
        {"ignore-overrun", {.cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN}},
        {"unknown-flag", {.cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 1u << 20}},
    };
    for (size_t at = 0; at < COUNT(rows); at++) {
        struct ibv_cq_init_attr_ex attributes = rows[at].attributes;
        errno = 0;
        struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attributes);
        say_made(rows[at].what, cq);
        if (cq) NEED(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
    }
}

/* Sends on a pair whose completions nobody has polled. */
static struct pair unpolled(struct ibv_pd *pd, int count) {
    struct pair pair = connected(pd, IBV_QPT_RC, IBV_QPS_RTS);
    struct ibv_mr *mr = new_mr(pd, 4096, ALL_RIGHTS);
    struct ibv_sge list = piece(mr, 8);
    for (int at = 0; at < count; at++)
        NEED(!post(pair.qp[0], IBV_WR_RDMA_WRITE, &list, 1, (uintptr_t)mr->addr + 64, mr->rkey));
    /* They are done when one that is posted after them on the other side can be. */
    list = piece(mr, 8);
    NEED(!post(pair.qp[1], IBV_WR_RDMA_READ, &list, 1, (uintptr_t)mr->addr + 64, mr->rkey));
    NEED(!strcmp(completed(pair.cq[1]), "SUCCESS"));
    usleep(300000);
    return pair;
}

static void resize_cq(void) {
    struct ibv_cq *cq = new_cq(64);
    say_error("to--1", ibv_resize_cq(cq, -1));
    say_error("to-0", ibv_resize_cq(cq, 0));
    say_error("beyond", ibv_resize_cq(cq, device.max_cqe + 1));
    say_error("to-128", ibv_resize_cq(cq, 128));
    if (cq->cqe < 128) say("(smaller than asked for)");
    say_error("to-1", ibv_resize_cq(cq, 1));
    if (cq->cqe < 1) say("(smaller than asked for)");
}

static void resize_below_what_waits(void) {
    struct pair pair = unpolled(new_pd(), 12);
    int found = 0;
    struct ibv_wc wc;
    say_error("to-1", ibv_resize_cq(pair.cq[0], 1));
    while (found < 12 && completion(pair.cq[0], &wc)) found++;
    row("then"), say("%d of 12", found);
}

static void poll_cq(void) {
    struct pair pair = unpolled(new_pd(), 3);
    struct ibv_wc wc[8];
    row("0-entries"), say("%d", ibv_poll_cq(pair.cq[0], 0, wc));
    row("8-entries"), say("%d", ibv_poll_cq(pair.cq[0], 8, wc));
    row("again"), say("%d", ibv_poll_cq(pair.cq[0], 8, wc));
}

static void events_without_channel(void) {
    struct ibv_cq *cq = new_cq(16), *found;
    struct ibv_comp_channel *channel;
    void *of;
    say_error("arm", ibv_req_notify_cq(cq, 0));
    NEED(channel = ibv_create_comp_channel(context));
    NEED(!fcntl(channel->fd, F_SETFL, O_NONBLOCK));
    say_error("no-event", ibv_get_cq_event(channel, &found, &of));
}

/* ---- Address handles */

static void create_ah(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_ah_attr good = to_state(IBV_QPS_RTR, 0).ah_attr;
    for (int number = 0; number < 11; number++) {
        struct ibv_ah_attr attributes = good;
        const char *what = "";
        switch (number) {
        case 0: what = "good"; break;
        case 1: what = "without-grh", attributes.is_global = 0; break;
        case 2: what = "port-0", attributes.port_num = 0; break;
        case 3: what = "port-2", attributes.port_num = 2; break;
        case 4: what = "gid-index-without-entry", attributes.grh.sgid_index = port.gid_tbl_len - 1; break;
        case 5: what = "gid-index-beyond", attributes.grh.sgid_index = 200; break;
        case 6: what = "to-zero", memset(&attributes.grh.dgid, 0, 16); break;
        case 7: what = "dlid", attributes.dlid = 5; break;
        case 8: what = "static-rate-99", attributes.static_rate = 99; break;
        case 9: what = "sl-7", attributes.sl = 7; break;
        case 10: what = "hop-limit-0", attributes.grh.hop_limit = 0; break;
        }
        errno = 0;
        say_made(what, ibv_create_ah(pd, &attributes));
    }
}

static void ah_from_wc(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV};
    struct ibv_grh grh = {0};
    struct ibv_ah_attr attributes;
    errno = 0, say_made("without-grh", ibv_create_ah_from_wc(pd, &wc, &grh, 1));
    wc.wc_flags = IBV_WC_GRH;
    errno = 0, say_made("zeroes", ibv_create_ah_from_wc(pd, &wc, &grh, 1));
    say_error("init-zeroes", ibv_init_ah_from_wc(context, 1, &wc, &grh, &attributes));
    /* A header from our own address to nobody's. */
    grh.version_tclass_flow = htobe32(6u << 28);
    grh.next_hdr = 27;
    grh.sgid = grh.dgid = own_gid;
    grh.dgid.raw[15] ^= 0x55;
    errno = 0, say_made("to-nobody", ibv_create_ah_from_wc(pd, &wc, &grh, 1));
    grh.dgid = own_gid;
    errno = 0, say_made("port-2", ibv_create_ah_from_wc(pd, &wc, &grh, 2));
}

/* ---- Memory */

static void rereg_mr(void) {
    struct ibv_pd *pd = new_pd(), *other = new_pd();
    void *memory = new_memory(8192);
    for (int number = 0; number < 10; number++) {
        struct ibv_mr *mr = new_mr(pd, 4096, ALL_RIGHTS);
        uint32_t lkey = mr->lkey, rkey = mr->rkey;
        int result = 0;
        const char *what = "";
        errno = 0;
        switch (number) {
        case 0: what = "nothing", result = ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0); break;
        case 1: what = "unknown-flag", result = ibv_rereg_mr(mr, 1 << 10, NULL, NULL, 0, 0); break;
        case 2: what = "access", result = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE); break;
        case 3: what = "remote-write-only", result = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE); break;
        case 4: what = "unknown-access", result = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1 << 15); break;
        case 5: what = "pd", result = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0); break;
        case 6: what = "memory", result = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 8192, 0); break;
        case 7: what = "length-0", result = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 0, 0); break;
        case 8: what = "no-address", result = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 4096, 0); break;
        case 9: what = "unmapped", result = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)0x10000, 4096, 0); break;
        }
        say_error(what, result);
        if (lkey != mr->lkey || rkey != mr->rkey) say("(other keys)");
        if (number == 5 && mr->pd != other) say("(pd not told)");
        if (number == 6 && (mr->addr != memory || mr->length != 8192)) say("(memory not told)");
        result = ibv_dereg_mr(mr);
        if (result) say("(dereg %s)", error_name(result));
    }
}

static void rereg_mr_without_pd(void) {
    struct ibv_mr *mr = new_mr(new_pd(), 4096, ALL_RIGHTS);
    say_error("", ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0));
}

const struct check errors_of_objects[] = {
    {"ah/create", create_ah},
    {"ah/from-wc", ah_from_wc},
    {"cq/create", create_cq},
    {"cq/create-ex", create_cq_ex},
    {"cq/events-without-channel", events_without_channel},
    {"cq/poll", poll_cq},
    {"cq/resize", resize_cq},
    {"cq/resize-below-what-waits", resize_below_what_waits},
    {"in-use/channel", channel_in_use},
    {"in-use/cq", cq_in_use},
    {"in-use/pd", pd_in_use},
    {"in-use/works-after-refusal", works_after_refusal},
    {"mr/rereg", rereg_mr},
    {"mr/rereg-without-pd", rereg_mr_without_pd},
    {"multicast", multicast},
    {NULL, NULL},
};
