/* The system's monotonic clock, in a file of its own because it needs more than C11 offers. */
#define _POSIX_C_SOURCE 199309L
#include "engine/clock.h"

#include <time.h>

double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
