/* What librdmacm says of wrong calls, and of calls that come too early or too late: a line a row, on a function with itself.
 * See checks.h for the arguments; the address of GID_INDEX has to be an IPv4 one, and the function's own. */

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include "checks.h"

static struct rdma_event_channel *channel;

static struct sockaddr_in at(const char *ip, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, ip, &address.sin_addr);
    return address;
}

/* The function's. */
static struct sockaddr_in own(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    need_context();
    memcpy(&address.sin_addr, own_gid.raw + 12, 4);
    return address;
}

static struct rdma_cm_id *new_id(enum rdma_port_space space) {
    struct rdma_cm_id *id;
    if (!channel) NEED(channel = rdma_create_event_channel());
    NEED(!rdma_create_id(channel, &id, NULL, space));
    return id;
}

/* The next event, within some seconds: its name and what is wrong, in the row. */
static struct rdma_cm_event *next(void) {
    struct pollfd wait = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;
    if (poll(&wait, 1, 8000) != 1) return say("(no event)"), NULL;
    if (rdma_get_cm_event(channel, &event)) return say("(no event: %s)", error_name(errno)), NULL;
    return event;
}

static enum rdma_cm_event_type happens(const char *what) {
    if (*what) row("%s", what);
    struct rdma_cm_event *event = next();
    if (!event) return -1;
    enum rdma_cm_event_type type = event->event;
    say("%s %d", rdma_event_str(type), event->status);
    rdma_ack_cm_event(event);
    return type;
}

static void need_event(enum rdma_cm_event_type wanted) {
    struct rdma_cm_event *event;
    struct pollfd wait = {.fd = channel->fd, .events = POLLIN};
    NEED(poll(&wait, 1, 8000) == 1 && !rdma_get_cm_event(channel, &event));
    NEED(event->event == wanted);
    rdma_ack_cm_event(event);
}

/* An id that has resolved its way to the function itself. */
static struct rdma_cm_id *routed(enum rdma_port_space space, int port) {
    struct rdma_cm_id *id = new_id(space);
    struct sockaddr_in to = own(port);
    NEED(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000));
    need_event(RDMA_CM_EVENT_ADDR_RESOLVED);
    NEED(!rdma_resolve_route(id, 2000));
    need_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
}

static struct ibv_qp_init_attr queues(struct rdma_cm_id *id, enum ibv_qp_type type) {
    struct ibv_cq *cq = id->verbs ? ibv_create_cq(id->verbs, 16, NULL, NULL, 0) : NULL;
    return (struct ibv_qp_init_attr){.send_cq = cq, .recv_cq = cq, .qp_type = type,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
}

static void need_queues(struct rdma_cm_id *id, enum ibv_qp_type type) {
    struct ibv_qp_init_attr wanted = queues(id, type);
    NEED(!rdma_create_qp(id, NULL, &wanted));
}

static struct rdma_cm_id *listening(enum rdma_port_space space, int port) {
    struct rdma_cm_id *id = new_id(space);
    struct sockaddr_in here = own(port);
    NEED(!rdma_bind_addr(id, (struct sockaddr *)&here));
    NEED(!rdma_listen(id, 4));
    return id;
}

/* Both ends of a connection on the function: `passive` has a request. */
struct ends {
    struct rdma_cm_id *listener, *active, *passive;
};

static struct ends requested(int port) {
    struct ends ends = {.listener = listening(RDMA_PS_TCP, port), .active = routed(RDMA_PS_TCP, port)};
    struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7, .responder_resources = 1, .initiator_depth = 1};
    struct rdma_cm_event *event;
    need_queues(ends.active, IBV_QPT_RC);
    NEED(!rdma_connect(ends.active, &param));
    NEED(event = next());
    NEED(event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
    ends.passive = event->id;
    rdma_ack_cm_event(event);
    return ends;
}

static struct ends established(int port) {
    struct ends ends = requested(port);
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    need_queues(ends.passive, IBV_QPT_RC);
    NEED(!rdma_accept(ends.passive, &param));
    need_event(RDMA_CM_EVENT_ESTABLISHED);
    need_event(RDMA_CM_EVENT_ESTABLISHED);
    return ends;
}

/* ---- Ids and addresses */

static void create(void) {
    static const struct { const char *name; int space; } spaces[] = {
        {"tcp", RDMA_PS_TCP}, {"udp", RDMA_PS_UDP}, {"ipoib", RDMA_PS_IPOIB}, {"ib", RDMA_PS_IB}, {"0", 0}, {"99", 99}};
    NEED(channel = rdma_create_event_channel());
    for (size_t n = 0; n < COUNT(spaces); n++) {
        struct rdma_cm_id *id = NULL;
        say_error(spaces[n].name, rdma_create_id(channel, &id, NULL, spaces[n].space));
    }
    struct rdma_cm_id *id = NULL;
    say_error("without-channel", rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
}

static void bind_addr(void) {
    struct sockaddr_in here = own(0), there = at("192.0.2.99", 0), any = at("0.0.0.0", 0), fixed = own(23451);
    struct sockaddr_in unknown = own(0);
    unknown.sin_family = 99;
    say_error("own", rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&here));
    say_error("foreign", rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&there));
    say_error("any", rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&any));
    say_error("family-99", rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&unknown));
    struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
    say_error("port", rdma_bind_addr(id, (struct sockaddr *)&fixed));
    say_error("twice", rdma_bind_addr(id, (struct sockaddr *)&fixed));
    say_error("port-in-use", rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&fixed));
    say_error("port-in-other-space", rdma_bind_addr(new_id(RDMA_PS_UDP), (struct sockaddr *)&fixed));
    int yes = 1;
    struct rdma_cm_id *again = new_id(RDMA_PS_TCP);
    say_error("reuse-asked", rdma_set_option(again, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
    say_error("port-in-use-of-one-who-does-not", rdma_bind_addr(again, (struct sockaddr *)&fixed));
    struct sockaddr_in any_fixed = at("0.0.0.0", 23457), here_fixed = own(23457), any_used = at("0.0.0.0", 23451);
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(23457)};
    say_error("any-where-one-has-the-port", rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&any_used));
    say_error("any-with-a-port", rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&any_fixed));
    say_error("any-has-the-port", rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&here_fixed));
    say_error("any-of-both-families", rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&any6));
    struct rdma_cm_id *only = new_id(RDMA_PS_TCP);
    say_error("only-IPv6", rdma_set_option(only, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)));
    say_error("any-of-the-other-family", rdma_bind_addr(only, (struct sockaddr *)&any6));
    say_error("which-listens", rdma_listen(only, 1));
    row("device-of-any"), say("%s", new_id(RDMA_PS_TCP)->verbs ? "there" : "none");
    say_error("after-its-end", (rdma_destroy_id(id), rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&fixed)));
}

static void resolve(void) {
    struct sockaddr_in to = own(7), foreign = at("192.0.2.99", 0);
    struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
    say_error("own", rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000));
    happens("own-event");
    say_error("again", rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000));
    say_error("route", rdma_resolve_route(id, 2000));
    happens("route-event");
    say_error("route-again", rdma_resolve_route(id, 2000));
    say_error("bind-then", rdma_bind_addr(id, (struct sockaddr *)&to));
    say_error("listen-then", rdma_listen(id, 1));
    // Nobody has it.
    struct sockaddr_in nobody = own(7);
    nobody.sin_addr.s_addr = htonl(ntohl(nobody.sin_addr.s_addr) ^ 0x40);
    id = new_id(RDMA_PS_TCP);
    say_error("nobody", rdma_resolve_addr(id, NULL, (struct sockaddr *)&nobody, 500));
    happens("nobody-event");
    say_error("nobody-again", rdma_resolve_addr(id, NULL, (struct sockaddr *)&nobody, 4000));
    happens("nobody-later-event");
    say_error("then-own", rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000));
    happens("then-own-event");
    say_error("from-foreign", rdma_resolve_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&foreign, (struct sockaddr *)&to, 2000));
    struct rdma_cm_id *listener = listening(RDMA_PS_TCP, 23452);
    say_error("by-a-listener", rdma_resolve_addr(listener, NULL, (struct sockaddr *)&to, 2000));
}

static void listen_(void) {
    struct sockaddr_in here = own(23453);
    say_error("unbound", rdma_listen(new_id(RDMA_PS_TCP), 1));
    struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
    NEED(!rdma_bind_addr(id, (struct sockaddr *)&here));
    say_error("backlog-0", rdma_listen(id, 0));
    say_error("again", rdma_listen(id, 1));
    here = own(23454);
    id = new_id(RDMA_PS_TCP);
    NEED(!rdma_bind_addr(id, (struct sockaddr *)&here));
    say_error("backlog--1", rdma_listen(id, -1));
    say_error("route-by-a-listener", rdma_resolve_route(id, 100));
    struct rdma_conn_param param = {0};
    say_error("connect-by-a-listener", rdma_connect(id, &param));
    say_error("accept-by-a-listener", rdma_accept(id, &param));
    say_error("reject-by-a-listener", rdma_reject(id, NULL, 0));
    say_error("disconnect-by-a-listener", rdma_disconnect(id));
    row("port"), say("%d", ntohs(rdma_get_src_port(id)));
}

/* ---- Connections */

static void idle(void) {
    struct rdma_conn_param param = {0};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    int mask;
    /* Linux' library looks at the device of an id that has none. */
    ROW("connect") say_error("", rdma_connect(new_id(RDMA_PS_TCP), &param));
    ROW("accept") say_error("", rdma_accept(new_id(RDMA_PS_TCP), &param));
    ROW("reject") say_error("", rdma_reject(new_id(RDMA_PS_TCP), NULL, 0));
    ROW("disconnect") say_error("", rdma_disconnect(new_id(RDMA_PS_TCP)));
    ROW("establish") say_error("", rdma_establish(new_id(RDMA_PS_TCP)));
    ROW("notify") say_error("", rdma_notify(new_id(RDMA_PS_TCP), IBV_EVENT_COMM_EST));
    ROW("init-attr") say_error("", rdma_init_qp_attr(new_id(RDMA_PS_TCP), &attr, &mask));
    ROW("resolve-route") say_error("", rdma_resolve_route(new_id(RDMA_PS_TCP), 2000));
    ROW("create-qp") {
        struct rdma_cm_id *idle = new_id(RDMA_PS_TCP);
        struct ibv_qp_init_attr wanted = queues(idle, IBV_QPT_RC);
        say_error("", rdma_create_qp(idle, NULL, &wanted));
    }
    struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
    row("peer"), say("%d", rdma_get_peer_addr(id)->sa_family);
    row("ports"), say("%d %d", ntohs(rdma_get_src_port(id)), ntohs(rdma_get_dst_port(id)));
}

static void queue_pairs(void) {
    struct rdma_cm_id *id = routed(RDMA_PS_TCP, 7);
    struct ibv_qp_init_attr wanted = queues(id, IBV_QPT_UD);
    say_error("ud-on-tcp", rdma_create_qp(id, NULL, &wanted));
    if (id->qp) rdma_destroy_qp(id);
    wanted = queues(id, IBV_QPT_RC);
    say_error("rc", rdma_create_qp(id, NULL, &wanted));
    say_error("again", rdma_create_qp(id, NULL, &wanted));
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    NEED(!ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init));
    row("state"), say("%s", state_name(attr.qp_state));
    rdma_destroy_qp(id);
    row("after-destroy"), say("%s", id->qp ? "there" : "none");
    wanted = queues(id, IBV_QPT_RC);
    wanted.cap.max_send_wr = 1 << 30;
    say_error("too-many", rdma_create_qp(id, NULL, &wanted));
    wanted.cap.max_send_wr = 4;
    wanted.send_cq = NULL;
    say_error("without-a-send-cq", rdma_create_qp(id, NULL, &wanted));
    struct rdma_cm_id *ud = routed(RDMA_PS_UDP, 7);
    wanted = queues(ud, IBV_QPT_UD);
    say_error("ud", rdma_create_qp(ud, NULL, &wanted));
    NEED(!ibv_query_qp(ud->qp, &attr, IBV_QP_STATE, &init));
    row("ud-state"), say("%s", state_name(attr.qp_state));
}

static void its_attributes(const char *whose, struct rdma_cm_id *id) {
    static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR};
    for (size_t n = 0; n < COUNT(states); n++) {
        struct ibv_qp_attr attr = {.qp_state = states[n]};
        int mask = 0;
        row("%s-%s", whose, state_name(states[n]));
        say_error("", rdma_init_qp_attr(id, &attr, &mask)), say(" %#x", mask);
    }
}

static void attributes(void) {
    its_attributes("rc", routed(RDMA_PS_TCP, 7));
    its_attributes("ud", routed(RDMA_PS_UDP, 7));
    struct ends ends = requested(23463);
    its_attributes("asking", ends.active);
    its_attributes("asked", ends.passive);
    ends = established(23464);
    its_attributes("active", ends.active);
    its_attributes("passive", ends.passive);
    NEED(!rdma_disconnect(ends.active));
    need_event(RDMA_CM_EVENT_DISCONNECTED);
    its_attributes("disconnected", ends.active);
}

static void connects(void) {
    struct rdma_cm_id *id = routed(RDMA_PS_TCP, 23455);
    char data[256] = {0};
    need_queues(id, IBV_QPT_RC);
    struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7, .private_data = data, .private_data_len = 57};
    say_error("57-bytes", rdma_connect(id, &param));
    param.private_data_len = 56;
    say_error("to-nobody", rdma_connect(id, &param));
    happens("to-nobody-event");
    say_error("again", rdma_connect(id, &param));
    say_error("disconnect-then", rdma_disconnect(id));
    id = routed(RDMA_PS_UDP, 23455);
    need_queues(id, IBV_QPT_UD);
    param.private_data_len = 181;
    say_error("udp-181-bytes", rdma_connect(id, &param));
    param.private_data_len = 180;
    say_error("udp-to-nobody", rdma_connect(id, &param));
    happens("udp-to-nobody-event");
    id = routed(RDMA_PS_TCP, 23455);
    need_queues(id, IBV_QPT_RC);
    param = (struct rdma_conn_param){.retry_count = 15, .rnr_retry_count = 15, .responder_resources = 255, .initiator_depth = 255};
    say_error("large-values", rdma_connect(id, &param));
    say_error("twice", rdma_connect(id, &param));
    happens("large-values-event");
}

static void accepts(void) {
    char data[256] = {0};
    struct ends ends = requested(23456);
    struct rdma_conn_param param = {.private_data = data, .private_data_len = 197};
    say_error("accept-without-queue-pair", rdma_accept(ends.passive, &(struct rdma_conn_param){.private_data_len = 0, .qp_num = 0}));
    happens("its-event");
    happens("its-event-2");
    ends = requested(23457);
    need_queues(ends.passive, IBV_QPT_RC);
    say_error("197-bytes", rdma_accept(ends.passive, &param));
    say_error("reject-149-bytes", rdma_reject(ends.passive, data, 149));
    say_error("connect-a-request", rdma_connect(ends.passive, &param));
    say_error("listen-a-request", rdma_listen(ends.passive, 1));
    say_error("reject", rdma_reject(ends.passive, data, 148));
    happens("reject-event");
    say_error("accept-then", rdma_accept(ends.passive, &(struct rdma_conn_param){0}));
    say_error("reject-again", rdma_reject(ends.passive, NULL, 0));
}

static void ends_(void) {
    struct ends ends = established(23458);
    struct rdma_conn_param param = {0};
    say_error("connect", rdma_connect(ends.active, &param));
    say_error("accept", rdma_accept(ends.passive, &param));
    say_error("reject", rdma_reject(ends.passive, NULL, 0));
    say_error("notify-established", rdma_notify(ends.passive, IBV_EVENT_COMM_EST));
    say_error("notify-other", rdma_notify(ends.passive, IBV_EVENT_QP_FATAL));
    say_error("disconnect", rdma_disconnect(ends.active));
    happens("first-event");
    say_error("again", rdma_disconnect(ends.active));
    say_error("by-the-other", rdma_disconnect(ends.passive));
    happens("second-event");
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    NEED(!ibv_query_qp(ends.active->qp, &attr, IBV_QP_STATE, &init));
    row("state"), say("%s", state_name(attr.qp_state));
}

/* An id that is destroyed in each state: what the other side hears. */
static void destroys(void) {
    struct ends ends = requested(23459);
    rdma_destroy_qp(ends.active);
    say_error("active-that-waits", rdma_destroy_id(ends.active));
    happens("its-event");
    ends = requested(23460);
    say_error("passive-unanswered", rdma_destroy_id(ends.passive));
    happens("its-event-2");
    ends = established(23461);
    rdma_destroy_qp(ends.passive);
    say_error("passive-connected", rdma_destroy_id(ends.passive));
    happens("its-event-3");
    ends = requested(23462);
    say_error("listener-with-a-request", rdma_destroy_id(ends.listener));
    need_queues(ends.passive, IBV_QPT_RC);
    say_error("accept-then", rdma_accept(ends.passive, &(struct rdma_conn_param){0}));
    happens("its-event-4");
}

/* ---- The rest */

static void options(void) {
    struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
    uint8_t byte = 8;
    uint32_t word = 1;
    say_error("tos", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1));
    say_error("tos-4-bytes", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &word, 4));
    say_error("reuseaddr", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &word, 4));
    say_error("reuseaddr-1-byte", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &byte, 1));
    say_error("afonly", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &word, 4));
    byte = 19;
    say_error("ack-timeout", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1));
    byte = 32;
    say_error("ack-timeout-32", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1));
    say_error("unknown", rdma_set_option(id, RDMA_OPTION_ID, 99, &word, 4));
    say_error("level-99", rdma_set_option(id, 99, 0, &word, 4));
    struct sockaddr_in here = own(23463);
    NEED(!rdma_bind_addr(id, (struct sockaddr *)&here));
    say_error("afonly-bound", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &word, 4));
    say_error("reuseaddr-bound", rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &word, 4));
}

static void channels(void) {
    struct rdma_cm_event *event;
    struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
    NEED(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
    say_error("nothing", rdma_get_cm_event(channel, &event));
    struct rdma_event_channel *other = rdma_create_event_channel();
    say_error("migrate", rdma_migrate_id(id, other));
    struct sockaddr_in to = own(7);
    NEED(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000));
    struct pollfd wait[2] = {{.fd = channel->fd, .events = POLLIN}, {.fd = other->fd, .events = POLLIN}};
    poll(wait, 2, 8000);
    row("event-where"), say("%s", wait[0].revents ? "old" : wait[1].revents ? "new" : "nowhere");
    say_error("migrate-with-an-event", rdma_migrate_id(id, channel));
    wait[0].revents = wait[1].revents = 0;
    poll(wait, 2, 8000);
    row("event-then"), say("%s%s", wait[0].revents ? "old" : "", wait[1].revents ? "new" : "");
    static const int numbers[] = {-1, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_TIMEWAIT_EXIT, 99};
    for (size_t n = 0; n < COUNT(numbers); n++) row("name-%d", numbers[n]), say("%s", rdma_event_str(numbers[n]));
}

static void multicast(void) {
    struct sockaddr_in group = at("239.1.2.3", 0), no_group = at("192.0.2.1", 0), here = own(0);
    struct rdma_cm_id *id = new_id(RDMA_PS_UDP);
    say_error("idle", rdma_join_multicast(id, (struct sockaddr *)&group, NULL));
    say_error("leave-nothing", rdma_leave_multicast(id, (struct sockaddr *)&group));
    NEED(!rdma_bind_addr(id, (struct sockaddr *)&here));
    say_error("bound", rdma_join_multicast(id, (struct sockaddr *)&group, NULL));
    happens("bound-event");
    say_error("again", rdma_join_multicast(id, (struct sockaddr *)&group, NULL));
    say_error("leave", rdma_leave_multicast(id, (struct sockaddr *)&group));
    say_error("no-group", rdma_join_multicast(id, (struct sockaddr *)&no_group, NULL));
    struct rdma_cm_id *tcp = new_id(RDMA_PS_TCP);
    NEED(!rdma_bind_addr(tcp, (struct sockaddr *)&here));
    say_error("tcp", rdma_join_multicast(tcp, (struct sockaddr *)&group, NULL));
}

static void names(void) {
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found = NULL;
    char ip[INET_ADDRSTRLEN];
    struct sockaddr_in here = own(0);
    inet_ntop(AF_INET, &here.sin_addr, ip, sizeof(ip));
    say_error("address", rdma_getaddrinfo(ip, "7471", &hints, &found));
    row("qp-type"), say("%d", found ? found->ai_qp_type : -1);
    hints.ai_flags = RAI_NUMERICHOST;
    row("not-an-address"), say("%s", rdma_getaddrinfo("no.such.name", "7471", &hints, &found) ? "refused" : "found");
    hints = (struct rdma_addrinfo){.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE};
    say_error("passive-any", rdma_getaddrinfo(NULL, "7471", &hints, &found));
    say_error("nothing", rdma_getaddrinfo(NULL, NULL, NULL, &found));
    struct rdma_cm_id *id = NULL;
    NEED(!rdma_getaddrinfo(NULL, "23464", &hints, &found));
    say_error("ep-passive", rdma_create_ep(&id, found, NULL, NULL));
    say_error("ep-listen", rdma_listen(id, 1));
    struct rdma_cm_id *request = NULL;
    say_error("ep-request-of-an-active-one", rdma_get_request(new_id(RDMA_PS_TCP), &request));
}

/* Calls in states where only some of them are allowed. */
static void states(void) {
    int yes = 1, no = 0;
    struct rdma_cm_id *listener = listening(RDMA_PS_TCP, 23480), *bound = new_id(RDMA_PS_TCP);
    struct sockaddr_in here = own(23481);
    NEED(!rdma_bind_addr(bound, (struct sockaddr *)&here));
    say_error("reuseaddr-listening", rdma_set_option(listener, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
    say_error("reuseaddr-off-bound", rdma_set_option(bound, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &no, sizeof(no)));
    say_error("reuseaddr-on-bound", rdma_set_option(bound, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
    struct rdma_cm_id *two[2];
    struct sockaddr_in shared = own(23482);
    for (int n = 0; n < 2; n++) {
        two[n] = new_id(RDMA_PS_TCP);
        NEED(!rdma_set_option(two[n], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
        say_error(n ? "reuse-second" : "reuse-first", rdma_bind_addr(two[n], (struct sockaddr *)&shared));
    }
    say_error("listen-beside-another", rdma_listen(two[0], 1));
    say_error("listen-alone", (rdma_destroy_id(two[1]), rdma_listen(two[0], 1)));
    struct rdma_cm_id *four = new_id(RDMA_PS_TCP), *six = new_id(RDMA_PS_TCP);
    struct sockaddr_in any = at("0.0.0.0", 23483);
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(23483)};
    NEED(!rdma_set_option(four, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &no, sizeof(no)));
    NEED(!rdma_set_option(six, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)));
    say_error("only-IPv6", rdma_bind_addr(six, (struct sockaddr *)&any6));
    say_error("IPv4-for-all", rdma_bind_addr(four, (struct sockaddr *)&any));
    struct sockaddr_in group = at("239.1.2.3", 0), datagrams = own(23484);
    struct rdma_cm_id *udp = listening(RDMA_PS_UDP, 23484), *ipoib = new_id(RDMA_PS_IPOIB);
    say_error("group-listening", rdma_join_multicast(udp, (struct sockaddr *)&group, NULL));
    say_error("group-routed", rdma_join_multicast(routed(RDMA_PS_UDP, 7), (struct sockaddr *)&group, NULL));
    say_error("ipoib-bound", rdma_bind_addr(ipoib, (struct sockaddr *)&datagrams));
    say_error("ipoib-resolved", rdma_resolve_addr(ipoib, NULL, (struct sockaddr *)&datagrams, 2000));
    happens("ipoib-resolved-event");
}

/* Ends of connections that are none yet. */
static void early(void) {
    struct ends ends = requested(23485);
    say_error("disconnect-asked", rdma_disconnect(ends.active));
    say_error("disconnect-requested", rdma_disconnect(ends.passive));
    ends = requested(23486);
    say_error("reject-asked", rdma_reject(ends.active, NULL, 0));
    listening(RDMA_PS_UDP, 23487);
    struct rdma_cm_id *active = routed(RDMA_PS_UDP, 23487);
    struct rdma_conn_param param = {0};
    struct rdma_cm_event *event;
    static const char data[137];
    NEED(!rdma_connect(active, &param));
    NEED(event = next());
    NEED(event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *passive = event->id;
    rdma_ack_cm_event(event);
    need_queues(passive, IBV_QPT_UD);
    param = (struct rdma_conn_param){.private_data = data, .private_data_len = sizeof(data)};
    say_error("answer-137-bytes", rdma_accept(passive, &param));
    happens("which-is-refused");
}

static const struct check checks[] = {
    {"id/create", create},
    {"id/bind", bind_addr},
    {"id/resolve", resolve},
    {"id/listen", listen_},
    {"id/options", options},
    {"id/channels", channels},
    {"id/multicast", multicast},
    {"id/names", names},
    {"id/states", states},
    {"connect/idle", idle},
    {"connect/queue-pairs", queue_pairs},
    {"connect/attributes", attributes},
    {"connect/connect", connects},
    {"connect/accept", accepts},
    {"connect/end", ends_},
    {"connect/early", early},
    {"connect/destroy", destroys},
    {NULL, NULL},
};

int main(int argc, char **argv) {
    static const struct check *const tables[] = {checks, NULL};
    return run_checks(argc, argv, tables);
}
