/* What a program can get wrong with verbs: a line for each with what the functions answered. Values that depend on
 * the machine are compared, not printed. See checks.h for the arguments. */

#include "checks.h"

/* ---- Device and port */

static void query_port(void) {
    struct ibv_port_attr attributes;
    need_context();
    for (int number = 0; number <= 3; number++) {
        char what[16];
        snprintf(what, sizeof what, "%d", number);
        say_error(what, ibv_query_port(context, number, &attributes));
    }
}

static void query_gid(void) {
    union ibv_gid gid;
    need_context();
    say_error("port-0", ibv_query_gid(context, 0, 0, &gid));
    say_error("port-2", ibv_query_gid(context, 2, 0, &gid));
    say_error("index--1", ibv_query_gid(context, 1, -1, &gid));
    say_error("index-beyond", ibv_query_gid(context, 1, port.gid_tbl_len, &gid));
    say_error("last", ibv_query_gid(context, 1, port.gid_tbl_len - 1, &gid));
}

static void query_gid_ex(void) {
    struct ibv_gid_entry entry;
    need_context();
    say_error("port-0", ibv_query_gid_ex(context, 0, 0, &entry, 0));
    say_error("port-2", ibv_query_gid_ex(context, 2, 0, &entry, 0));
    say_error("without-entry", ibv_query_gid_ex(context, 1, port.gid_tbl_len - 1, &entry, 0));
    say_error("index-beyond", ibv_query_gid_ex(context, 1, port.gid_tbl_len, &entry, 0));
    say_error("flags", ibv_query_gid_ex(context, 1, 0, &entry, 1));
}

static void query_gid_table(void) {
    struct ibv_gid_entry entries[256];
    ssize_t all;
    need_context();
    all = ibv_query_gid_table(context, entries, COUNT(entries), 0);
    NEED(all > 0);
    for (int which = 0; which < 2; which++) {
        ssize_t count = which ? ibv_query_gid_table(context, entries, COUNT(entries), 1)
                              : ibv_query_gid_table(context, entries, all - 1, 0);
        row("%s", which ? "flags" : "too-few");
        say("%s", count >= 0 ? "ok" : error_name(-count));
    }
}

static void query_pkey(void) {
    __be16 key;
    need_context();
    say_error("first", ibv_query_pkey(context, 1, 0, &key));
    say_error("beyond", ibv_query_pkey(context, 1, port.pkey_tbl_len, &key));
    say_error("index--1", ibv_query_pkey(context, 1, -1, &key));
    say_error("port-2", ibv_query_pkey(context, 2, 0, &key));
    row("index-of-0xffff"), say("%d", ibv_get_pkey_index(context, 1, htobe16(0xffff)));
    row("index-of-0x1234"), say("%d", ibv_get_pkey_index(context, 1, htobe16(0x1234)));
}

static void no_event(void) {
    struct ibv_async_event event;
    need_context();
    NEED(!fcntl(context->async_fd, F_SETFL, O_NONBLOCK));
    say_error("", ibv_get_async_event(context, &event));
}

static void close_in_use(void) {
    struct ibv_pd *pd = new_pd();
    new_mr(pd, 4096, ALL_RIGHTS);
    connected(pd, IBV_QPT_RC, IBV_QPS_RTS);
    say_error("", ibv_close_device(context));
}

static void import(void) {
    struct ibv_pd *pd = new_pd();
    say_made("device-of--1", ibv_import_device(-1));
    say_made("pd-of-unknown", ibv_import_pd(context, 12345));
    say_made("mr-of-unknown", ibv_import_mr(pd, 12345));
    say_made("dm-of-unknown", ibv_import_dm(context, 12345));
}

/* ---- What the card has not got */

static void offered(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *cq = new_cq(16);
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 16, .max_sge = 1}};
    struct ibv_srq_init_attr_ex srq_ex = {
        .attr = {.max_wr = 16, .max_sge = 1}, .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, .pd = pd};
    struct ibv_xrcd_init_attr xrcd = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    struct ibv_td_init_attr td = {0};
    struct ibv_parent_domain_init_attr parent = {.pd = pd};
    struct ibv_alloc_dm_attr dm = {.length = 4096};
    struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 1, .pd = pd, .cq = cq};
    struct ibv_counters_init_attr counters = {0};
    struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
    struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {1, 1}};
    struct ibv_qp *qp = new_qp(pd, cq, IBV_QPT_RC);
    struct ibv_ece ece = {0};
    struct ibv_flow_attr flow = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof flow, .port = 1};
    struct ibv_sge list = {0};
    errno = 0, say_made("srq", ibv_create_srq(pd, &srq));
    errno = 0, say_made("srq-ex", ibv_create_srq_ex(context, &srq_ex));
    errno = 0, say_made("xrcd", ibv_open_xrcd(context, &xrcd));
    errno = 0, say_made("mw-1", ibv_alloc_mw(pd, IBV_MW_TYPE_1));
    errno = 0, say_made("mw-2", ibv_alloc_mw(pd, IBV_MW_TYPE_2));
    errno = 0, say_made("td", ibv_alloc_td(context, &td));
    errno = 0, say_made("parent-domain", ibv_alloc_parent_domain(context, &parent));
    errno = 0, say_made("dm", ibv_alloc_dm(context, &dm));
    errno = 0, say_made("wq", ibv_create_wq(context, &wq));
    errno = 0, say_made("counters", ibv_create_counters(context, &counters));
    errno = 0, say_made("null-mr", ibv_alloc_null_mr(pd));
    errno = 0, say_made("dmabuf-mr", ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
    errno = 0, say_made("flow", ibv_create_flow(qp, &flow));
    say_error("advise-mr", ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &list, 0));
    say_error("clock", ibv_query_rt_values_ex(context, &values));
    say_error("moderation", ibv_modify_cq(cq, &moderate));
    say_error("query-ece", ibv_query_ece(qp, &ece));
    say_error("set-ece", ibv_set_ece(qp, &ece));
}

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

/* ---- Making queue pairs */

static void create_qp_type(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *cq = new_cq(16);
    const struct {
        const char *what;
        int type;
    } rows[] = {
        {"rc", IBV_QPT_RC},
        {"uc", IBV_QPT_UC},
        {"ud", IBV_QPT_UD},
        {"raw", IBV_QPT_RAW_PACKET},
        {"xrc-send", IBV_QPT_XRC_SEND},
        {"xrc-receive", IBV_QPT_XRC_RECV},
        {"driver", IBV_QPT_DRIVER},
        {"0", 0},
        {"99", 99},
    };
    for (size_t at = 0; at < COUNT(rows); at++) {
        struct ibv_qp_init_attr attributes = qp_attributes(cq, rows[at].type);
        errno = 0;
        struct ibv_qp *qp = ibv_create_qp(pd, &attributes);
        say_made(rows[at].what, qp);
        if (qp) NEED(!ibv_destroy_qp(qp));
    }
}

static void create_qp_caps(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *cq = new_cq(16);
    const struct {
        const char *what;
        struct ibv_qp_cap cap;
    } rows[] = {
        {"all-0", {0, 0, 0, 0, 0}},
        {"one-of-each", {1, 1, 1, 1, 0}},
        {"send-wr-beyond", {device.max_qp_wr + 1, 1, 1, 1, 0}},
        {"receive-wr-beyond", {1, device.max_qp_wr + 1, 1, 1, 0}},
        {"send-wr-uint-max", {UINT_MAX, 1, 1, 1, 0}},
        {"send-sge-most", {1, 1, device.max_sge, 1, 0}},
        {"send-sge-beyond", {1, 1, device.max_sge + 1, 1, 0}},
        {"receive-sge-most", {1, 1, 1, device.max_sge, 0}},
        {"receive-sge-beyond", {1, 1, 1, device.max_sge + 1, 0}},
        {"inline-96", {1, 1, 1, 1, 96}},
        {"inline-1000", {1, 1, 1, 1, 1000}},
        {"inline-uint-max", {1, 1, 1, 1, UINT_MAX}},
    };
    for (size_t at = 0; at < COUNT(rows); at++) {
        struct ibv_qp_init_attr attributes = qp_attributes(cq, IBV_QPT_RC);
        const struct ibv_qp_cap *asked = &rows[at].cap, *granted = &attributes.cap;
        attributes.cap = rows[at].cap;
        errno = 0;
        struct ibv_qp *qp = ibv_create_qp(pd, &attributes);
        say_made(rows[at].what, qp);
        if (!qp) continue;
        if (granted->max_send_wr < asked->max_send_wr || granted->max_recv_wr < asked->max_recv_wr ||
            granted->max_send_sge < asked->max_send_sge || granted->max_recv_sge < asked->max_recv_sge ||
            granted->max_inline_data < asked->max_inline_data)
            say("(less than asked for)");
        NEED(!ibv_destroy_qp(qp));
    }
}

static void create_qp_objects(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *cq = new_cq(16), *foreign;
    struct ibv_context *other = opened();
    struct ibv_pd *foreign_pd;
    NEED(other);
    NEED(foreign = ibv_create_cq(other, 16, NULL, NULL, 0));
    NEED(foreign_pd = ibv_alloc_pd(other));
    /* The kernel knows objects by numbers, a context's own: with more of them here they are others' there. */
    for (int more = 0; more < 8; more++) new_cq(16), new_pd();
    struct ibv_cq *later = new_cq(16);
    struct ibv_pd *later_pd = new_pd();
    struct ibv_qp_init_attr attributes = qp_attributes(later, IBV_QPT_RC);
    attributes.send_cq = foreign;
    errno = 0, say_made("cq-of-another-context", ibv_create_qp(later_pd, &attributes));
    attributes = qp_attributes(cq, IBV_QPT_RC);
    errno = 0, say_made("pd-of-another-context", ibv_create_qp(foreign_pd, &attributes));
    NEED(pd);
}

static void create_qp_without_send_cq(void) {
    struct ibv_qp_init_attr attributes = qp_attributes(NULL, IBV_QPT_RC);
    struct ibv_pd *pd = new_pd();
    attributes.recv_cq = new_cq(16);
    errno = 0, say_made("", ibv_create_qp(pd, &attributes));
}

static void create_qp_without_receive_cq(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_qp_init_attr attributes = qp_attributes(new_cq(16), IBV_QPT_RC);
    attributes.recv_cq = NULL;
    errno = 0, say_made("", ibv_create_qp(pd, &attributes));
}

static void create_qp_ex(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *cq = new_cq(16);
    for (int number = 0; number < 11; number++) {
        struct ibv_qp_init_attr_ex attributes = {
            .send_cq = cq,
            .recv_cq = cq,
            .qp_type = IBV_QPT_RC,
            .cap = {16, 16, 1, 1, 0},
            .comp_mask = IBV_QP_INIT_ATTR_PD,
            .pd = pd,
        };
        const char *what = "";
        switch (number) {
        case 0: what = "plain"; break;
        case 1: what = "without-pd", attributes.comp_mask = 0; break;
        case 2: what = "unknown-mask", attributes.comp_mask |= 1u << 20; break;
        case 3: what = "no-create-flags", attributes.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS; break;
        case 4: what = "create-flags", attributes.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS, attributes.create_flags = 1 << 20; break;
        case 5: what = "uc", attributes.qp_type = IBV_QPT_UC; break;
        case 6: what = "send-ops", attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, attributes.send_ops_flags = IBV_QP_EX_WITH_SEND; break;
        case 7: what = "atomic-ops", attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, attributes.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD; break;
        case 8: what = "bind-ops", attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, attributes.send_ops_flags = IBV_QP_EX_WITH_BIND_MW; break;
        case 9: what = "write-ops-of-ud", attributes.qp_type = IBV_QPT_UD, attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, attributes.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE; break;
        case 10: what = "unknown-ops", attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, attributes.send_ops_flags = 1ull << 40; break;
        }
        errno = 0;
        struct ibv_qp *qp = ibv_create_qp_ex(context, &attributes);
        say_made(what, qp);
        if (qp) NEED(!ibv_destroy_qp(qp));
    }
}

static void query_qp(void) {
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *cq = new_cq(16);
    struct ibv_qp_init_attr made = qp_attributes(cq, IBV_QPT_RC), init;
    struct ibv_qp_attr attributes;
    struct ibv_qp *qp;
    NEED(qp = ibv_create_qp(pd, &made));
    say_error("no-mask", ibv_query_qp(qp, &attributes, 0, &init));
    say_error("all", ibv_query_qp(qp, &attributes, 0x1ffffff, &init));
    if (attributes.qp_state != IBV_QPS_RESET) say("(state %d)", attributes.qp_state);
    if (memcmp(&init.cap, &made.cap, sizeof made.cap) || memcmp(&attributes.cap, &made.cap, sizeof made.cap))
        say("(other capacities than were granted)");
    if (init.send_cq != cq || init.recv_cq != cq || init.qp_type != IBV_QPT_RC || init.srq) say("(other objects)");
    need_state(qp, IBV_QPS_ERR, qp->qp_num);
    say_error("in-err", ibv_query_qp(qp, &attributes, IBV_QP_STATE, &init));
    if (attributes.qp_state != IBV_QPS_ERR || qp->state != IBV_QPS_ERR) say("(state %d)", attributes.qp_state);
}

/* ---- Changes of state */

static const struct {
    const char *name;
    int bit;
} attributes_by_name[] = {
    {"PKEY_INDEX", IBV_QP_PKEY_INDEX},
    {"PORT", IBV_QP_PORT},
    {"ACCESS_FLAGS", IBV_QP_ACCESS_FLAGS},
    {"QKEY", IBV_QP_QKEY},
    {"AV", IBV_QP_AV},
    {"PATH_MTU", IBV_QP_PATH_MTU},
    {"DEST_QPN", IBV_QP_DEST_QPN},
    {"RQ_PSN", IBV_QP_RQ_PSN},
    {"MAX_DEST_RD_ATOMIC", IBV_QP_MAX_DEST_RD_ATOMIC},
    {"MIN_RNR_TIMER", IBV_QP_MIN_RNR_TIMER},
    {"SQ_PSN", IBV_QP_SQ_PSN},
    {"TIMEOUT", IBV_QP_TIMEOUT},
    {"RETRY_CNT", IBV_QP_RETRY_CNT},
    {"RNR_RETRY", IBV_QP_RNR_RETRY},
    {"MAX_QP_RD_ATOMIC", IBV_QP_MAX_QP_RD_ATOMIC},
    {"ALT_PATH", IBV_QP_ALT_PATH},
    {"PATH_MIG_STATE", IBV_QP_PATH_MIG_STATE},
    {"CAP", IBV_QP_CAP},
    {"RATE_LIMIT", IBV_QP_RATE_LIMIT},
    {"EN_SQD_ASYNC_NOTIFY", IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {"CUR_STATE", IBV_QP_CUR_STATE},
};

/* A change to a state with a mask, of a queue pair that is in the state before it. */
static int changed(enum ibv_qp_type type, enum ibv_qp_state to, int mask) {
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *cq = new_cq(16);
    struct ibv_qp *qp = new_qp(pd, cq, type);
    struct ibv_qp_attr attributes = to_state(to, qp->qp_num);
    need_state(qp, to - 1, qp->qp_num);
    attributes.cur_qp_state = to - 1;
    int result = ibv_modify_qp(qp, &attributes, mask);
    if (result && qp->state != to - 1) say("(state %d)", qp->state);
    NEED(!ibv_destroy_qp(qp));
    NEED(!ibv_destroy_cq(cq));
    NEED(!ibv_dealloc_pd(pd));
    return result;
}

static void modify(enum ibv_qp_type type, enum ibv_qp_state to, bool missing) {
    int mask = mask_to(type, to);
    if (missing) say_error("none", changed(type, to, mask));
    for (size_t at = 0; at < COUNT(attributes_by_name); at++) {
        int bit = attributes_by_name[at].bit;
        if (missing == ((mask & bit) != 0)) say_error(attributes_by_name[at].name, changed(type, to, mask ^ bit));
    }
}

static void rc_init_missing(void) { modify(IBV_QPT_RC, IBV_QPS_INIT, true); }
static void rc_rtr_missing(void) { modify(IBV_QPT_RC, IBV_QPS_RTR, true); }
static void rc_rts_missing(void) { modify(IBV_QPT_RC, IBV_QPS_RTS, true); }
static void ud_init_missing(void) { modify(IBV_QPT_UD, IBV_QPS_INIT, true); }
static void ud_rts_missing(void) { modify(IBV_QPT_UD, IBV_QPS_RTS, true); }
static void rc_init_extra(void) { modify(IBV_QPT_RC, IBV_QPS_INIT, false); }
static void rc_rtr_extra(void) { modify(IBV_QPT_RC, IBV_QPS_RTR, false); }
static void rc_rts_extra(void) { modify(IBV_QPT_RC, IBV_QPS_RTS, false); }
static void ud_init_extra(void) { modify(IBV_QPT_UD, IBV_QPS_INIT, false); }
static void ud_rtr_extra(void) { modify(IBV_QPT_UD, IBV_QPS_RTR, false); }
static void ud_rts_extra(void) { modify(IBV_QPT_UD, IBV_QPS_RTS, false); }

static const char *const state_names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

/* Every change of state, with the attributes that the new state takes. */
static void transitions(enum ibv_qp_type type) {
    static const int from[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR};
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *cq = new_cq(16);
    for (size_t at = 0; at < COUNT(from); at++) {
        for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++) {
            struct ibv_qp *qp = new_qp(pd, cq, type);
            struct ibv_qp_attr attributes = to_state(to, qp->qp_num);
            need_state(qp, from[at], qp->qp_num);
            int mask = to == IBV_QPS_RTS && from[at] != IBV_QPS_RTR ? IBV_QP_STATE : mask_to(type, to);
            int result = ibv_modify_qp(qp, &attributes, mask);
            row("%s-to-%s", state_names[from[at]], state_names[to]);
            say_error("", result);
            if ((int)qp->state != (result ? from[at] : to)) say("(state %d)", qp->state);
            NEED(!ibv_destroy_qp(qp));
        }
    }
}
static void rc_transitions(void) { transitions(IBV_QPT_RC); }
static void ud_transitions(void) { transitions(IBV_QPT_UD); }

/* One value that is wrong, in a change to a state with all its attributes. */
static void value(enum ibv_qp_state to, const char *what, void (*set)(struct ibv_qp_attr *)) {
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *cq = new_cq(16);
    struct ibv_qp *qp = new_qp(pd, cq, IBV_QPT_RC);
    struct ibv_qp_attr attributes;
    need_state(qp, to - 1, qp->qp_num);
    attributes = to_state(to, qp->qp_num);
    set(&attributes);
    say_error(what, ibv_modify_qp(qp, &attributes, mask_to(IBV_QPT_RC, to)));
    NEED(!ibv_destroy_qp(qp));
    NEED(!ibv_destroy_cq(cq));
    NEED(!ibv_dealloc_pd(pd));
}

static void set_port_0(struct ibv_qp_attr *a) { a->port_num = 0; }
static void set_port_2(struct ibv_qp_attr *a) { a->port_num = 2; }
static void set_pkey_1(struct ibv_qp_attr *a) { a->pkey_index = 1; }
static void set_pkey_max(struct ibv_qp_attr *a) { a->pkey_index = 0xffff; }
static void set_atomic(struct ibv_qp_attr *a) { a->qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC; }
static void set_flush(struct ibv_qp_attr *a) { a->qp_access_flags |= 3 << 8; }
static void set_unknown_access(struct ibv_qp_attr *a) { a->qp_access_flags |= 1u << 30; }
static void set_no_access(struct ibv_qp_attr *a) { a->qp_access_flags = 0; }

static void init_values(void) {
    value(IBV_QPS_INIT, "port-0", set_port_0);
    value(IBV_QPS_INIT, "port-2", set_port_2);
    value(IBV_QPS_INIT, "pkey-index-1", set_pkey_1);
    value(IBV_QPS_INIT, "pkey-index-65535", set_pkey_max);
    value(IBV_QPS_INIT, "access-none", set_no_access);
    value(IBV_QPS_INIT, "access-atomic", set_atomic);
    value(IBV_QPS_INIT, "access-flush", set_flush);
    value(IBV_QPS_INIT, "access-unknown", set_unknown_access);
}

static void set_mtu_0(struct ibv_qp_attr *a) { a->path_mtu = 0; }
static void set_mtu_beyond(struct ibv_qp_attr *a) { a->path_mtu = port.active_mtu + 1; }
static void set_mtu_6(struct ibv_qp_attr *a) { a->path_mtu = 6; }
static void set_mtu_99(struct ibv_qp_attr *a) { a->path_mtu = 99; }
static void set_qpn_0(struct ibv_qp_attr *a) { a->dest_qp_num = 0; }
static void set_qpn_25(struct ibv_qp_attr *a) { a->dest_qp_num |= 1 << 24; }
static void set_rq_psn(struct ibv_qp_attr *a) { a->rq_psn |= 1 << 24; }
static void set_dest_rd_most(struct ibv_qp_attr *a) { a->max_dest_rd_atomic = device.max_qp_rd_atom; }
static void set_dest_rd_255(struct ibv_qp_attr *a) { a->max_dest_rd_atomic = 255; }
static void set_rnr_timer(struct ibv_qp_attr *a) { a->min_rnr_timer = 32; }
static void set_not_global(struct ibv_qp_attr *a) { a->ah_attr.is_global = 0; }
static void set_sgid_empty(struct ibv_qp_attr *a) { a->ah_attr.grh.sgid_index = port.gid_tbl_len - 1; }
static void set_sgid_200(struct ibv_qp_attr *a) { a->ah_attr.grh.sgid_index = 200; }
static void set_av_port_0(struct ibv_qp_attr *a) { a->ah_attr.port_num = 0; }
static void set_av_port_2(struct ibv_qp_attr *a) { a->ah_attr.port_num = 2; }
static void set_dgid_zero(struct ibv_qp_attr *a) { memset(&a->ah_attr.grh.dgid, 0, 16); }
static void set_dgid_group(struct ibv_qp_attr *a) { a->ah_attr.grh.dgid = (union ibv_gid){.raw = {0xff, 0x0e, [15] = 5}}; }
static void set_dlid(struct ibv_qp_attr *a) { a->ah_attr.dlid = 5; }
static void set_rate(struct ibv_qp_attr *a) { a->ah_attr.static_rate = 99; }
static void set_flow_label(struct ibv_qp_attr *a) { a->ah_attr.grh.flow_label = 1 << 20; }

static void rtr_values(void) {
    value(IBV_QPS_RTR, "mtu-0", set_mtu_0);
    value(IBV_QPS_RTR, "mtu-beyond", set_mtu_beyond);
    value(IBV_QPS_RTR, "mtu-6", set_mtu_6);
    value(IBV_QPS_RTR, "mtu-99", set_mtu_99);
    value(IBV_QPS_RTR, "dest-qpn-0", set_qpn_0);
    value(IBV_QPS_RTR, "dest-qpn-25-bits", set_qpn_25);
    value(IBV_QPS_RTR, "rq-psn-25-bits", set_rq_psn);
    value(IBV_QPS_RTR, "max-dest-rd-most", set_dest_rd_most);
    value(IBV_QPS_RTR, "max-dest-rd-255", set_dest_rd_255);
    value(IBV_QPS_RTR, "min-rnr-timer-32", set_rnr_timer);
    value(IBV_QPS_RTR, "not-global", set_not_global);
    value(IBV_QPS_RTR, "gid-index-without-entry", set_sgid_empty);
    value(IBV_QPS_RTR, "gid-index-beyond", set_sgid_200);
    value(IBV_QPS_RTR, "av-port-0", set_av_port_0);
    value(IBV_QPS_RTR, "av-port-2", set_av_port_2);
    value(IBV_QPS_RTR, "to-zero", set_dgid_zero);
    value(IBV_QPS_RTR, "to-group", set_dgid_group);
    value(IBV_QPS_RTR, "dlid", set_dlid);
    value(IBV_QPS_RTR, "static-rate-99", set_rate);
    value(IBV_QPS_RTR, "flow-label-21-bits", set_flow_label);
}

static void set_sq_psn(struct ibv_qp_attr *a) { a->sq_psn |= 1 << 24; }
static void set_timeout(struct ibv_qp_attr *a) { a->timeout = 32; }
static void set_retry(struct ibv_qp_attr *a) { a->retry_cnt = 8; }
static void set_rnr_retry(struct ibv_qp_attr *a) { a->rnr_retry = 8; }
static void set_rd_most(struct ibv_qp_attr *a) { a->max_rd_atomic = device.max_qp_init_rd_atom; }
static void set_rd_255(struct ibv_qp_attr *a) { a->max_rd_atomic = 255; }
static void set_rd_0(struct ibv_qp_attr *a) { a->max_rd_atomic = 0; }

static void rts_values(void) {
    value(IBV_QPS_RTS, "sq-psn-25-bits", set_sq_psn);
    value(IBV_QPS_RTS, "timeout-32", set_timeout);
    value(IBV_QPS_RTS, "retry-cnt-8", set_retry);
    value(IBV_QPS_RTS, "rnr-retry-8", set_rnr_retry);
    value(IBV_QPS_RTS, "max-rd-0", set_rd_0);
    value(IBV_QPS_RTS, "max-rd-most", set_rd_most);
    value(IBV_QPS_RTS, "max-rd-255", set_rd_255);
}

static void modify_masks(void) {
    struct ibv_qp *qp = connected(new_pd(), IBV_QPT_RC, IBV_QPS_RTS).qp[0];
    struct ibv_qp_attr attributes = to_state(IBV_QPS_RTS, qp->qp_num);
    say_error("nothing", ibv_modify_qp(qp, &attributes, 0));
    say_error("unknown-bit", ibv_modify_qp(qp, &attributes, 1 << 30));
    attributes.cur_qp_state = IBV_QPS_INIT;
    say_error("other-current-state", ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_CUR_STATE));
    attributes.qp_state = 99;
    say_error("state-99", ibv_modify_qp(qp, &attributes, IBV_QP_STATE));
    say_error("min-rnr-timer-in-rts", ibv_modify_qp(qp, &attributes, IBV_QP_MIN_RNR_TIMER));
    say_error("av-in-rts", ibv_modify_qp(qp, &attributes, IBV_QP_AV));
    if (qp->state != IBV_QPS_RTS) say("(state %d)", qp->state);
}

/* Nobody has the address: the kernel or the library looks for a neighbour. */
static void modify_to_nobody(void) {
    struct ibv_qp *qp = new_qp(new_pd(), new_cq(16), IBV_QPT_RC);
    struct ibv_qp_attr attributes;
    need_state(qp, IBV_QPS_INIT, 0);
    attributes = to_state(IBV_QPS_RTR, qp->qp_num);
    /* 10.255.255.77, that is in no network of the test's. */
    attributes.ah_attr.grh.dgid = (union ibv_gid){.raw = {[10] = 0xff, 0xff, 10, 255, 255, 77}};
    say_error("", ibv_modify_qp(qp, &attributes, RC_RTR));
}

/* ---- Posting */

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
        ROW("send-in-%s", state_names[states[at]]) {
            struct poster on = poster(IBV_QPT_RC, states[at]);
            say_error("", post(on.qp, IBV_WR_RDMA_WRITE, &on.sge, 1, (uintptr_t)on.mr->addr + 4096, on.mr->rkey));
        }
        ROW("receive-in-%s", state_names[states[at]]) {
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

static struct check checks[] = {
    {"ah/create", create_ah},
    {"ah/from-wc", ah_from_wc},
    {"completions/errors", completion_errors},
    {"completions/wrong-key", wrong_key},
    {"completions/flushed", flushed},
    {"completions/receive-not-ready", receive_not_ready},
    {"cq/create", create_cq},
    {"cq/create-ex", create_cq_ex},
    {"cq/events-without-channel", events_without_channel},
    {"cq/poll", poll_cq},
    {"cq/resize", resize_cq},
    {"cq/resize-below-what-waits", resize_below_what_waits},
    {"device/close-in-use", close_in_use},
    {"device/import", import},
    {"device/no-event", no_event},
    {"device/offered", offered},
    {"device/query-gid", query_gid},
    {"device/query-gid-ex", query_gid_ex},
    {"device/query-gid-table", query_gid_table},
    {"device/query-pkey", query_pkey},
    {"device/query-port", query_port},
    {"in-use/channel", channel_in_use},
    {"in-use/cq", cq_in_use},
    {"in-use/pd", pd_in_use},
    {"in-use/works-after-refusal", works_after_refusal},
    {"modify/init-values", init_values},
    {"modify/masks", modify_masks},
    {"modify/rc-init-extra", rc_init_extra},
    {"modify/rc-init-missing", rc_init_missing},
    {"modify/rc-rtr-extra", rc_rtr_extra},
    {"modify/rc-rtr-missing", rc_rtr_missing},
    {"modify/rc-rts-extra", rc_rts_extra},
    {"modify/rc-rts-missing", rc_rts_missing},
    {"modify/rc-transitions", rc_transitions},
    {"modify/rtr-values", rtr_values},
    {"modify/rts-values", rts_values},
    {"modify/to-nobody", modify_to_nobody},
    {"modify/ud-init-extra", ud_init_extra},
    {"modify/ud-init-missing", ud_init_missing},
    {"modify/ud-rtr-extra", ud_rtr_extra},
    {"modify/ud-rts-extra", ud_rts_extra},
    {"modify/ud-rts-missing", ud_rts_missing},
    {"modify/ud-transitions", ud_transitions},
    {"mr/rereg", rereg_mr},
    {"mr/rereg-without-pd", rereg_mr_without_pd},
    {"multicast", multicast},
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
    {"qp/capacities", create_qp_caps},
    {"qp/ex", create_qp_ex},
    {"qp/objects", create_qp_objects},
    {"qp/query", query_qp},
    {"qp/types", create_qp_type},
    {"qp/without-receive-cq", create_qp_without_receive_cq},
    {"qp/without-send-cq", create_qp_without_send_cq},
};

int main(int argc, char **argv) { return run_checks(argc, argv, checks, COUNT(checks)); }
