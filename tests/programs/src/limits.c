/* Limits that registrations run into: a line a row. Values that depend on the machine are compared, not printed.
 * See checks.h for the arguments. The names of the checks are also the set-ups that they want:
 *
 *   locked/…   RLIMIT_MEMLOCK so low that 64 MiB are too many, and a process without CAP_IPC_LOCK
 *   many/…     no such limit */

#include "checks.h"

#define PAGE 4096

/* More than may be locked; then what may, so that nothing was lost. */
static void locked(void) {
    struct ibv_pd *pd = new_pd();
    size_t most = 64 << 20;
    errno = 0;
    say_made("too-much", ibv_reg_mr(pd, new_memory(most), most, ALL_RIGHTS));
    errno = 0;
    struct ibv_mr *mr = ibv_reg_mr(pd, new_memory(PAGE), PAGE, ALL_RIGHTS);
    say_made("a-page-then", mr);
    if (mr) say_error("dereg", ibv_dereg_mr(mr));
}

/* Regions of a page that nobody frees. Objects of what is made behind them work all the same. */
static void never_freed(void) {
    const int wanted = 70000;
    struct ibv_pd *pd = new_pd();
    unsigned char *memory = new_memory((size_t)wanted * PAGE);
    struct ibv_mr *last = NULL, *mr = NULL;
    int count = 0;
    errno = 0;
    while (count < wanted && (mr = ibv_reg_mr(pd, memory + (size_t)count * PAGE, PAGE, ALL_RIGHTS))) count++, last = mr;
    say_made("end", mr);
    row("max_mr"), say("%s", count > device.max_mr ? "more" : count < device.max_mr - 2 ? "fewer" : "as many");
    fprintf(stderr, "%d regions, max_mr %d\n", count, device.max_mr);
    if (!last) return;
    say_error("dereg-one", ibv_dereg_mr(last));
    say_made("another", ibv_reg_mr(pd, memory, PAGE, ALL_RIGHTS));
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    say_made("cq", cq);
}

static const struct check checks[] = {
    {"locked/memory", locked},
    {"many/never-freed", never_freed},
    {NULL, NULL},
};

int main(int argc, char **argv) {
    static const struct check *const tables[] = {checks, NULL};
    return run_checks(argc, argv, tables);
}
