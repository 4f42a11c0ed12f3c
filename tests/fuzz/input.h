/* Fuzz inputs as files: readers take paths, so an input lives in an anonymous file of memory, named through /proc.
 * Include first, with _GNU_SOURCE defined for memfd_create. */
#ifndef LOCKSTEP_TESTS_FUZZ_INPUT_H
#define LOCKSTEP_TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file with these bytes; its path goes to `path`. Returns a descriptor to close, -1 on failure. */
static inline int input_open(const uint8_t *data, size_t size, char *path, size_t capacity) {
    int fd = memfd_create("input", 0);
    if (fd < 0) return -1;
    if (write(fd, data, size) != (ssize_t)size) {
        close(fd);
        return -1;
    }
    snprintf(path, capacity, "/proc/self/fd/%d", fd);
    return fd;
}

#endif
