/* The safetensors writer. The header needs every shape before the first byte of data, so tensors are declared first and
 * their bytes follow in that order, in pieces as small as the caller likes: an import never holds more than a few rows.
 * Bytes are gathered into large writes; running out of space is an ordinary error. */
#define _GNU_SOURCE
#include "base/memory.h"
#include "file/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { GATHER = 1 << 20 };

struct SafetensorsWriter {
    int fd;
    char *path;
    uint64_t *left; /* bytes of each tensor not yet given */
    int n, current;
    uint64_t *places; /* where each tensor begins in the file; NULL: bytes follow each other */
    uint8_t *gather;
    size_t gathered;
};

static bool write_all(SafetensorsWriter *w, const uint8_t *bytes, size_t n, Error *err) {
    while (n > 0) {
        ssize_t done = write(w->fd, bytes, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return error_set(err, "%s: cannot be written: %s", w->path, strerror(done < 0 ? errno : ENOSPC));
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

static bool gather_flush(SafetensorsWriter *w, Error *err) {
    bool ok = write_all(w, w->gather, w->gathered, err);
    w->gathered = 0;
    return ok;
}

static bool gather_append(SafetensorsWriter *w, const uint8_t *bytes, size_t n, Error *err) {
    if (n > GATHER - w->gathered && !gather_flush(w, err)) return false;
    if (n >= GATHER) return write_all(w, bytes, n, err);
    memcpy(w->gather + w->gathered, bytes, n);
    w->gathered += n;
    return true;
}

static bool tensor_bytes(const Tensor *t, uint64_t *bytes) {
    *bytes = dtype_bytes(t->dtype);
    for (int i = 0; i < t->n_dims; i++)
        if (t->shape[i] < 0 || !mem_product(*bytes, (uint64_t)t->shape[i], bytes)) return false;
    return true;
}

/* The header's JSON, padded with spaces so that data begins at a multiple of 8. */
static bool header_build(Buffer *b, const Tensor *tensors, int n, const SafetensorsNote *notes, int n_notes,
                         uint64_t *sizes, Error *err) {
    uint64_t at = 0;
    buffer_text(b, "{\"__metadata__\":{\"format\":\"mlx\"");
    for (int i = 0; i < n_notes; i++) {
        buffer_byte(b, ',');
        json_write_string(b, notes[i].key, strlen(notes[i].key), false);
        buffer_byte(b, ':');
        json_write_string(b, notes[i].value, strlen(notes[i].value), false);
    }
    buffer_byte(b, '}');
    for (int i = 0; i < n; i++) {
        const Tensor *t = &tensors[i];
        if (!tensor_bytes(t, &sizes[i]) || __builtin_add_overflow(at, sizes[i], &at))
            return error_set(err, "tensor \"%s\": its shape overflows", t->name);
        buffer_byte(b, ',');
        json_write_string(b, t->name, strlen(t->name), false);
        buffer_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", dtype_name(t->dtype));
        for (int d = 0; d < t->n_dims; d++) buffer_printf(b, "%s%" PRId64, d ? "," : "", t->shape[d]);
        buffer_printf(b, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at - sizes[i], at);
    }
    buffer_byte(b, '}');
    for (size_t pad = (8 - b->length % 8) % 8; pad > 0; pad--) buffer_byte(b, ' ');
    return !b->failed || error_memory(err, "a safetensors header");
}

static void skip_full(SafetensorsWriter *w) {
    while (w->current < w->n && w->left[w->current] == 0) w->current++;
}

/* Room for all of a file whose bytes are placed; what is in it is kept. */
static bool set_places(SafetensorsWriter *w, uint64_t header, Error *err) {
    uint64_t at = header;
    if (!w->places) return true;
    for (int i = 0; i < w->n; i++) {
        w->places[i] = at;
        at += w->left[i];
    }
    return ftruncate(w->fd, (off_t)at) == 0 || error_set(err, "%s: cannot be written: %s", w->path, strerror(errno));
}

static bool writer_begin(SafetensorsWriter *w, const Tensor *tensors, const SafetensorsNote *notes, int n_notes,
                         int how, Error *err) {
    Buffer header = {0};
    bool ok = header_build(&header, tensors, w->n, notes, n_notes, w->left, err);
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)header.length >> 8 * i);
    if (ok) {
        w->fd = open(w->path, O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
        if (w->fd < 0) ok = error_set(err, "%s: cannot be created: %s", w->path, strerror(errno));
    }
    ok = ok && gather_append(w, length, 8, err) && gather_append(w, (const uint8_t *)header.data, header.length, err);
    ok = ok && (!w->places || gather_flush(w, err)) && set_places(w, 8 + header.length, err);
    buffer_clear(&header);
    skip_full(w);
    return ok;
}

static void writer_free(SafetensorsWriter *w) {
    if (w->fd >= 0) close(w->fd);
    mem_free(w->gather);
    mem_free(w->left);
    mem_free(w->places);
    mem_free(w->path);
    mem_free(w);
}

static SafetensorsWriter *writer_new(const char *path, int n_tensors, bool placed, Error *err) {
    SafetensorsWriter *w = mem_zeroed(1, sizeof *w);
    if (w) {
        w->fd = -1;
        w->n = n_tensors;
        w->path = mem_string(path, strlen(path));
        w->left = mem_array((size_t)n_tensors, sizeof *w->left);
        w->places = placed ? mem_array((size_t)n_tensors, sizeof *w->places) : NULL;
        w->gather = mem_array(GATHER, 1);
        if (w->path && w->left && w->gather && (w->places || !placed)) return w;
        writer_free(w);
    }
    error_memory(err, "writing a safetensors file");
    return NULL;
}

SafetensorsWriter *safetensors_create_noted(const char *path, const Tensor *tensors, int n_tensors,
                                            const SafetensorsNote *notes, int n_notes, Error *err) {
    SafetensorsWriter *w = writer_new(path, n_tensors, false, err);
    if (!w || writer_begin(w, tensors, notes, n_notes, O_TRUNC, err)) return w;
    if (w->fd >= 0) unlink(path);
    writer_free(w);
    return NULL;
}

SafetensorsWriter *safetensors_create_placed(const char *path, const Tensor *tensors, int n_tensors, bool resume,
                                             Error *err) {
    SafetensorsWriter *w = writer_new(path, n_tensors, true, err);
    if (!w || writer_begin(w, tensors, NULL, 0, resume ? 0 : O_TRUNC, err)) return w;
    writer_free(w);
    return NULL;
}

SafetensorsWriter *safetensors_create(const char *path, const Tensor *tensors, int n_tensors, Error *err) {
    return safetensors_create_noted(path, tensors, n_tensors, NULL, 0, err);
}

bool safetensors_write(SafetensorsWriter *w, const void *bytes, size_t n, Error *err) {
    const uint8_t *p = bytes;
    while (n > 0) {
        if (w->current == w->n) return error_set(err, "%s: more bytes written than its tensors hold", w->path);
        uint64_t *left = &w->left[w->current];
        size_t part = n < *left ? n : (size_t)*left;
        if (!gather_append(w, p, part, err)) return false;
        *left -= part;
        p += part;
        n -= part;
        skip_full(w);
    }
    return true;
}

bool safetensors_place(SafetensorsWriter *w, int tensor, uint64_t at, const void *bytes, size_t n, Error *err) {
    const uint8_t *p = bytes;
    uint64_t place = w->places[tensor] + at;
    for (size_t left = n; left > 0;) {
        ssize_t done = pwrite(w->fd, p, left, (off_t)place);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return error_set(err, "%s: cannot be written: %s", w->path, strerror(done < 0 ? errno : ENOSPC));
        p += done;
        place += (uint64_t)done;
        left -= (size_t)done;
    }
    __atomic_sub_fetch(&w->left[tensor], n, __ATOMIC_RELAXED);
    return true;
}

void safetensors_place_skip(SafetensorsWriter *w, int tensor) {
    w->left[tensor] = 0;
}

void safetensors_pause(SafetensorsWriter *w) {
    if (w) writer_free(w);
}

bool safetensors_finish(SafetensorsWriter *w, Error *err) {
    skip_full(w);
    bool ok = w->current == w->n || error_set(err, "%s: bytes of tensor %d are missing", w->path, w->current);
    ok = ok && gather_flush(w, err);
    if (ok && !w->places && fsync(w->fd) != 0 &&
        errno != EINVAL) /* EINVAL: a place that cannot be synced, as /dev/stdout */
        ok = error_set(err, "%s: cannot be written: %s", w->path, strerror(errno));
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 && ok) ok = error_set(err, "%s: cannot be written: %s", w->path, strerror(errno));
    writer_free(w);
    return ok;
}

void safetensors_abandon(SafetensorsWriter *w) {
    if (!w) return;
    unlink(w->path);
    writer_free(w);
}
