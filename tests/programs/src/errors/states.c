/* Changes of a queue pair's state. */

#include "../checks.h"
#include "errors.h"

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

/* RESET and ERR take no other attribute. */
static void ending(enum ibv_qp_type type, enum ibv_qp_state to) {
    struct ibv_pd *pd = new_pd();
    struct ibv_cq *cq = new_cq(16);
    for (size_t at = 0; at < COUNT(attributes_by_name); at++) {
        struct ibv_qp *qp = new_qp(pd, cq, type);
        struct ibv_qp_attr attributes = to_state(to, qp->qp_num);
        need_state(qp, IBV_QPS_RTR, qp->qp_num);
        attributes.cur_qp_state = IBV_QPS_RTR;
        int result = ibv_modify_qp(qp, &attributes, IBV_QP_STATE | attributes_by_name[at].bit);
        say_error(attributes_by_name[at].name, result);
        if (qp->state != (result ? IBV_QPS_RTR : to)) say("(state %d)", qp->state);
        NEED(!ibv_destroy_qp(qp));
    }
}
static void rc_reset_extra(void) { ending(IBV_QPT_RC, IBV_QPS_RESET); }
static void ud_reset_extra(void) { ending(IBV_QPT_UD, IBV_QPS_RESET); }
static void rc_err_extra(void) { ending(IBV_QPT_RC, IBV_QPS_ERR); }

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
            row("%s-to-%s", state_name(from[at]), state_name(to));
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

const struct check errors_of_states[] = {
    {"modify/init-values", init_values},
    {"modify/masks", modify_masks},
    {"modify/rc-err-extra", rc_err_extra},
    {"modify/rc-init-extra", rc_init_extra},
    {"modify/rc-init-missing", rc_init_missing},
    {"modify/rc-reset-extra", rc_reset_extra},
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
    {"modify/ud-reset-extra", ud_reset_extra},
    {"modify/ud-rtr-extra", ud_rtr_extra},
    {"modify/ud-rts-extra", ud_rts_extra},
    {"modify/ud-rts-missing", ud_rts_missing},
    {"modify/ud-transitions", ud_transitions},
    {NULL, NULL},
};
