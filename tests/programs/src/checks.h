/* What the programs of this folder share: checks, each in a process of its own with fresh objects, a line each.
 *
 *   PROGRAM [-1] [DEVICE [GID_INDEX [CHECK...]]]
 *
 * DEVICE is the first one if none is named (or -), CHECK a name or its beginning. The lines are sorted. A check
 * that ends by a signal or takes too long (PATIENCE times a minute) says so on its line; with -1 the one that is
 * named runs in this process, for a debugger. Only libibverbs' public interface is used, so they run on any
 * device. A check has one row or several, each a line of its own: CHECK[ ROW]: WHAT CAME OF IT. */

#pragma once

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

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- The checks of a program */

struct check {
    const char *name;
    void (*run)(void);
};

/* Runs those that the arguments name. Each table ends with a check without a name, and the list of them with NULL. */
int run_checks(int argc, char **argv, const struct check *const *tables);

/* ---- What a check says */

/* More about the row. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
/* Another row. */
__attribute__((format(printf, 1, 2))) void row(const char *format, ...);
const char *error_name(int error);
/* A function that returns an error number, in a row of its own if it has a name. Some return -1 with errno, and some a
 * negative number. */
void say_error(const char *what, int result);
/* A function that makes an object. */
void say_made(const char *what, const void *object);
/* Ends the check: nothing of the library is called any more. */
__attribute__((noreturn)) void finish(void);

/* What a check needs and does not get: nothing is to be said about what it is for. */
#define NEED(condition) \
    do { \
        errno = 0; \
        if (!(condition)) { \
            say("(could not begin: %s: %s)", #condition, error_name(errno)); \
            finish(); \
        } \
    } while (0)

/* What runs in the child of this begins with no device open; in the parent it waits for its end. */
bool forked(void);
bool forked_end(void);

/* A row whose statement runs in a process of its own. Nothing of the device may be open yet. */
#define ROW(...) for (bool inside = (row(__VA_ARGS__), forked()); inside; inside = forked_end())

/* ---- Objects */

/* Of the arguments; no name is the first device. */
extern const char *device_name;
extern int gid_index;

/* The device, its attributes and its address, after need_context. */
extern struct ibv_context *context;
extern struct ibv_device_attr device;
extern struct ibv_port_attr port;
extern union ibv_gid own_gid;

/* Another context of the device. */
struct ibv_context *opened(void);
void need_context(void);

#define ALL_RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

struct ibv_pd *new_pd(void);
struct ibv_cq *new_cq(int entries);
void *new_memory(size_t length);
struct ibv_mr *new_mr(struct ibv_pd *pd, size_t length, int access);
struct ibv_qp_init_attr qp_attributes(struct ibv_cq *cq, enum ibv_qp_type type);
struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type);

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

/* As in its constant. */
const char *state_name(enum ibv_qp_state state);
/* Attributes for every change of state, to a queue pair of the same function. */
struct ibv_qp_attr to_state(enum ibv_qp_state state, uint32_t peer);
/* The attributes that a change to the state has to have. */
int mask_to(enum ibv_qp_type type, enum ibv_qp_state state);
int go(struct ibv_qp *qp, enum ibv_qp_state state, uint32_t peer);
/* Through the states up to the last one: RESET, INIT, RTR, RTS, SQD or ERR. */
void need_state(struct ibv_qp *qp, enum ibv_qp_state last, uint32_t peer);

/* Two queue pairs that are connected with each other, each with a completion queue. */
struct pair {
    struct ibv_pd *pd;
    struct ibv_cq *cq[2];
    struct ibv_qp *qp[2];
};

struct pair connected(struct ibv_pd *pd, enum ibv_qp_type type, enum ibv_qp_state state);
void taken_down(struct pair *pair);

/* ---- What moves over a pair */

/* One completion, within some seconds. */
bool completion(struct ibv_cq *cq, struct ibv_wc *wc);
/* The status of one, as in its constant. */
const char *completed(struct ibv_cq *cq);
const char *status_name(enum ibv_wc_status status);
struct ibv_sge piece(const struct ibv_mr *mr, uint32_t length);
/* A signaled request. */
int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_sge *list, int count, uint64_t remote, uint32_t rkey);
int post_receive(struct ibv_qp *qp, struct ibv_sge *list, int count);
