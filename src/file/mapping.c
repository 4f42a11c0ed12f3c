/* Files as read-only memory. Opened without blocking and only when regular, so that a pipe or a device named by mistake
 * is an error and not a hang. An empty file maps to a valid pointer of size 0: mmap itself refuses length 0. */
#define _GNU_SOURCE
#include "file/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t nothing[1];

static bool map_descriptor(Mapping *m, int fd, const char *path, Error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return error_set(err, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode)) return error_set(err, "%s: is a folder, a file is wanted", path);
    if (!S_ISREG(st.st_mode)) return error_set(err, "%s: is not a regular file", path);
    if ((uint64_t)st.st_size > SIZE_MAX / 2) return error_set(err, "%s: too large to map", path);
    if (st.st_size == 0) {
        *m = (Mapping){nothing, 0};
        return true;
    }
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return error_set(err, "%s: cannot be mapped: %s", path, strerror(errno));
    *m = (Mapping){data, (size_t)st.st_size};
    return true;
}

bool mapping_open(Mapping *m, const char *path, Error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return error_set(err, "%s: %s", path, strerror(errno));
    bool ok = map_descriptor(m, fd, path, err);
    close(fd); /* the mapping holds the file */
    return ok;
}

void mapping_close(Mapping *m) {
    if (m->size) munmap((void *)m->data, m->size);
    *m = (Mapping){NULL, 0};
}

/* Rounds [data, data + bytes) to whole pages, inwards or outwards, and advises the system. Advice may be refused
 * (locked memory, odd file systems); nothing depends on it. */
static void advise(const void *data, size_t bytes, bool inwards, int advice) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)data, to = from + bytes;
    from = inwards ? (from + page - 1) / page * page : from / page * page;
    to = inwards ? to / page * page : to;
    if (bytes && from < to) madvise((void *)from, to - from, advice);
}

void mapping_release(const void *data, size_t bytes) {
    advise(data, bytes, true, MADV_DONTNEED);
}

void mapping_want(const void *data, size_t bytes) {
    advise(data, bytes, false, MADV_WILLNEED);
}
