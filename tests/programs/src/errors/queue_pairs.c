/* Making queue pairs, and asking them. */

#include "../checks.h"
#include "errors.h"

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

const struct check errors_of_queue_pairs[] = {
    {"qp/capacities", create_qp_caps},
    {"qp/ex", create_qp_ex},
    {"qp/objects", create_qp_objects},
    {"qp/query", query_qp},
    {"qp/types", create_qp_type},
    {"qp/without-receive-cq", create_qp_without_receive_cq},
    {"qp/without-send-cq", create_qp_without_send_cq},
    {NULL, NULL},
};
