/* The device, its port, and what the card has not got. */

#include "../checks.h"
#include "errors.h"

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

const struct check errors_of_device[] = {
    {"device/close-in-use", close_in_use},
    {"device/import", import},
    {"device/no-event", no_event},
    {"device/offered", offered},
    {"device/query-gid", query_gid},
    {"device/query-gid-ex", query_gid_ex},
    {"device/query-gid-table", query_gid_table},
    {"device/query-pkey", query_pkey},
    {"device/query-port", query_port},
    {NULL, NULL},
};
