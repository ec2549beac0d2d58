/* What a program can get wrong with verbs: a line for each with what the functions answered. Values that depend on
 * the machine are compared, not printed. See checks.h for the arguments. */

#include "../checks.h"
#include "errors.h"

int main(int argc, char **argv) {
    static const struct check *const tables[] = {
        errors_of_device,
        errors_of_objects,
        errors_of_queue_pairs,
        errors_of_states,
        errors_of_posting,
        NULL,
    };
    return run_checks(argc, argv, tables);
}
