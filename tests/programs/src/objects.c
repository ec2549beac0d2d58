/* Objects of verbs with usual attributes. */

#include "checks.h"

struct ibv_context *context;
struct ibv_device_attr device;
struct ibv_port_attr port;
union ibv_gid own_gid;

struct ibv_context *opened(void) {
    int count;
    struct ibv_context *found = NULL;
    struct ibv_device **list = ibv_get_device_list(&count);
    for (int at = 0; list && list[at] && !found; at++)
        if (!device_name || !strcmp(ibv_get_device_name(list[at]), device_name)) found = ibv_open_device(list[at]);
    if (list) ibv_free_device_list(list);
    return found;
}

void need_context(void) {
    if (context) return;
    NEED(context = opened());
    NEED(!ibv_query_device(context, &device));
    NEED(!ibv_query_port(context, 1, &port));
    NEED(!ibv_query_gid(context, 1, gid_index, &own_gid));
}

struct ibv_pd *new_pd(void) {
    struct ibv_pd *pd;
    need_context();
    NEED(pd = ibv_alloc_pd(context));
    return pd;
}

struct ibv_cq *new_cq(int entries) {
    struct ibv_cq *cq;
    need_context();
    NEED(cq = ibv_create_cq(context, entries, NULL, NULL, 0));
    return cq;
}

void *new_memory(size_t length) {
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(memory != MAP_FAILED);
    return memory;
}

struct ibv_mr *new_mr(struct ibv_pd *pd, size_t length, int access) {
    struct ibv_mr *mr;
    NEED(mr = ibv_reg_mr(pd, new_memory(length), length, access));
    return mr;
}

struct ibv_qp_init_attr qp_attributes(struct ibv_cq *cq, enum ibv_qp_type type) {
    return (struct ibv_qp_init_attr){
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = type,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2},
    };
}

struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type) {
    struct ibv_qp *qp;
    struct ibv_qp_init_attr attributes = qp_attributes(cq, type);
    NEED(qp = ibv_create_qp(pd, &attributes));
    return qp;
}

struct ibv_qp_attr to_state(enum ibv_qp_state state, uint32_t peer) {
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

int mask_to(enum ibv_qp_type type, enum ibv_qp_state state) {
    switch (state) {
    case IBV_QPS_INIT: return type == IBV_QPT_UD ? UD_INIT : RC_INIT;
    case IBV_QPS_RTR: return type == IBV_QPT_UD ? UD_RTR : RC_RTR;
    case IBV_QPS_RTS: return type == IBV_QPT_UD ? UD_RTS : RC_RTS;
    default: return IBV_QP_STATE;
    }
}

int go(struct ibv_qp *qp, enum ibv_qp_state state, uint32_t peer) {
    struct ibv_qp_attr attributes = to_state(state, peer);
    return ibv_modify_qp(qp, &attributes, mask_to(qp->qp_type, state));
}

void need_state(struct ibv_qp *qp, enum ibv_qp_state last, uint32_t peer) {
    if (last == IBV_QPS_RESET) return;
    for (int state = IBV_QPS_INIT; state <= (last == IBV_QPS_ERR ? IBV_QPS_RTS : (int)last); state++) NEED(!go(qp, state, peer));
    if (last == IBV_QPS_ERR) NEED(!go(qp, IBV_QPS_ERR, peer));
}

/* ---- Pairs of queue pairs, and what moves over them */

struct pair connected(struct ibv_pd *pd, enum ibv_qp_type type, enum ibv_qp_state state) {
    struct pair pair = {.pd = pd};
    for (int side = 0; side < 2; side++) {
        pair.cq[side] = new_cq(64);
        pair.qp[side] = new_qp(pd, pair.cq[side], type);
    }
    for (int side = 0; side < 2; side++) need_state(pair.qp[side], state, pair.qp[1 - side]->qp_num);
    return pair;
}

void taken_down(struct pair *pair) {
    for (int side = 0; side < 2; side++) {
        ibv_destroy_qp(pair->qp[side]);
        ibv_destroy_cq(pair->cq[side]);
    }
}

bool completion(struct ibv_cq *cq, struct ibv_wc *wc) {
    struct timespec pause = {.tv_nsec = 200000};
    for (int turn = 0; turn < 50000; turn++) {
        int count = ibv_poll_cq(cq, 1, wc);
        if (count > 0) return true;
        if (count < 0) return false;
        nanosleep(&pause, NULL);
    }
    return false;
}

const char *status_name(enum ibv_wc_status status) {
    static const char *const names[] = {
        "SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "MW_BIND_ERR",
        "BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR",
        "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR", "REM_INV_RD_REQ_ERR", "REM_ABORT_ERR", "INV_EECN_ERR",
        "INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR",
    };
    return status < COUNT(names) ? names[status] : "?";
}

const char *completed(struct ibv_cq *cq) {
    struct ibv_wc wc;
    return completion(cq, &wc) ? status_name(wc.status) : "(no completion)";
}

struct ibv_sge piece(const struct ibv_mr *mr, uint32_t length) {
    return (struct ibv_sge){.addr = (uintptr_t)mr->addr, .length = length, .lkey = mr->lkey};
}

int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_sge *list, int count, uint64_t remote,
                       uint32_t rkey) {
    struct ibv_send_wr *bad, wr = {.opcode = opcode, .sg_list = list, .num_sge = count, .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = rkey;
    return ibv_post_send(qp, &wr, &bad);
}

int post_receive(struct ibv_qp *qp, struct ibv_sge *list, int count) {
    struct ibv_recv_wr *bad, wr = {.sg_list = list, .num_sge = count};
    return ibv_post_recv(qp, &wr, &bad);
}

const char *state_name(enum ibv_qp_state state) {
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return state < COUNT(names) ? names[state] : "?";
}
