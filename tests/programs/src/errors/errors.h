/* The checks of the program, a file of them each. */

#pragma once

#include "../checks.h"

extern const struct check errors_of_device[];
extern const struct check errors_of_objects[];
extern const struct check errors_of_queue_pairs[];
extern const struct check errors_of_states[];
extern const struct check errors_of_posting[];
