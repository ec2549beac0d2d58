/* Rows, processes, and the running of checks. */

#include "checks.h"

/* The rows of the check that runs, in memory that is shared with it. */
#define ROOM 65536
static char *text;
const char *device_name;
int gid_index;

static void add(const char *format, va_list list) {
    size_t at = strlen(text);
    vsnprintf(text + at, ROOM - at, format, list);
}

void say(const char *format, ...) {
    size_t at = strlen(text);
    va_list list;
    if (at > 0 && text[at - 1] != '\n' && at + 1 < ROOM) text[at] = ' ';
    va_start(list, format);
    add(format, list);
    va_end(list);
}

void row(const char *format, ...) {
    size_t at = strlen(text);
    va_list list;
    if (at + 1 < ROOM) text[at] = '\n';
    va_start(list, format);
    add(format, list);
    va_end(list);
    at = strlen(text);
    if (at + 1 < ROOM) text[at] = ':';
}

const char *error_name(int error) {
    static char number[16];
    const char *name = strerrorname_np(error);
    if (error == 0) return "ok";
    /* Of the kernel's own: no program should see it. */
    if (error == 524) return "ENOTSUPP";
    snprintf(number, sizeof number, "%d", error);
    return name ? name : number;
}

void say_error(const char *what, int result) {
    if (*what) row("%s", what);
    if (result == 0) say("ok");
    else if (result > 0) say("%s", error_name(result));
    else say("%d %s", result, error_name(errno));
}

void say_made(const char *what, const void *object) {
    int error = errno;
    if (*what) row("%s", what);
    say("%s", object ? "made" : error_name(error));
}

void finish(void) { _exit(0); }

/* ---- Processes */

static bool in_one_process, all_ended = true;
static int seconds = 60;

bool forked(void) {
    int status;
    pid_t child;
    if (in_one_process) return true;
    fflush(stdout);
    if ((child = fork()) < 0) {
        say("(no process for it: %s)", error_name(errno));
        return false;
    }
    if (child == 0) {
        alarm(seconds);
        return true;
    }
    /* Its time is its own, not that of the check whose row it is. */
    unsigned left = alarm(0);
    waitpid(child, &status, 0);
    alarm(left);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) say("(did not end)");
    else if (WIFSIGNALED(status)) say("(ended by SIG%s)", sigabbrev_np(WTERMSIG(status)));
    all_ended = all_ended && !WIFSIGNALED(status);
    return false;
}

bool forked_end(void) {
    if (!in_one_process) finish();
    return false;
}

/* ---- The checks of a program */

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct check *)a)->name, ((const struct check *)b)->name);
}

static bool chosen(const char *name, int count, char **begins) {
    if (count == 0) return true;
    for (int at = 0; at < count; at++)
        if (!strncmp(name, begins[at], strlen(begins[at]))) return true;
    return false;
}

int run_checks(int argc, char **argv, const struct check *const *tables) {
    static struct check checks[256];
    size_t count = 0;
    const char *patience = getenv("PATIENCE");
    in_one_process = argc > 1 && !strcmp(argv[1], "-1");
    argc -= in_one_process;
    argv += in_one_process;
    if (patience) seconds *= atoi(patience);
    if (argc > 1 && strcmp(argv[1], "-")) device_name = argv[1];
    if (argc > 2) gid_index = atoi(argv[2]);
    text = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (text == MAP_FAILED) return 1;
    for (; *tables; tables++)
        for (const struct check *check = *tables; check->name; check++) {
            if (count == COUNT(checks)) return 1;
            checks[count++] = *check;
        }
    qsort(checks, count, sizeof checks[0], by_name);
    for (size_t at = 0; at < count; at++) {
        if (!chosen(checks[at].name, argc > 3 ? argc - 3 : 0, argv + 3)) continue;
        memset(text, 0, ROOM);
        for (bool inside = forked(); inside; inside = forked_end()) checks[at].run();
        char *rest = text, *one = strsep(&rest, "\n");
        if (*one || !rest) printf("%s: %s\n", checks[at].name, one);
        while ((one = strsep(&rest, "\n"))) printf("%s %s\n", checks[at].name, one);
        fflush(stdout);
    }
    return all_ended ? 0 : 1;
}
