/* The safetensors reader. A file comes from strangers, so the order is: sizes against the file, JSON, each entry by
 * itself (dtype, shape, product, range), then all ranges together (sorted: each begins where the one before ends, the
 * last at the end of the file). After safetensors_open every Tensor may be read over its whole `bytes` without a check.
 * Names point into the JSON document, which lives as long as the file. */
#include "file/safetensors.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_LIMIT = 100 * 1000 * 1000 }; /* the reference implementation's */

static const struct {
    const char *name;
    size_t bytes;
} dtypes[DTYPE_COUNT] = {
    [DTYPE_BOOL] = {"BOOL", 1},       [DTYPE_U8] = {"U8", 1},           [DTYPE_I8] = {"I8", 1},
    [DTYPE_F8_E4M3] = {"F8_E4M3", 1}, [DTYPE_F8_E5M2] = {"F8_E5M2", 1}, [DTYPE_F8_E8M0] = {"F8_E8M0", 1},
    [DTYPE_U16] = {"U16", 2},         [DTYPE_I16] = {"I16", 2},         [DTYPE_F16] = {"F16", 2},
    [DTYPE_BF16] = {"BF16", 2},       [DTYPE_U32] = {"U32", 4},         [DTYPE_I32] = {"I32", 4},
    [DTYPE_F32] = {"F32", 4},         [DTYPE_U64] = {"U64", 8},         [DTYPE_I64] = {"I64", 8},
    [DTYPE_F64] = {"F64", 8},
};

size_t dtype_bytes(DType t) {
    return dtypes[t].bytes;
}

const char *dtype_name(DType t) {
    return dtypes[t].name;
}

void tensor_shape_text(const Tensor *t, char *out, size_t capacity) {
    size_t used = 0;
    for (int i = 0; i < t->n_dims && used < capacity; i++)
        used += (size_t)snprintf(out + used, capacity - used, "%s%" PRId64, i ? ", " : "[", t->shape[i]);
    if (used < capacity) snprintf(out + used, capacity - used, t->n_dims ? "]" : "[]");
}

struct Safetensors {
    Mapping file;
    char *path;
    JsonDoc *header;
    const JsonValue *metadata;
    Tensor *tensors;
    int n;
    const uint8_t *data; /* what offsets count from */
    uint64_t data_bytes;
};

static bool dtype_parse(const JsonValue *v, DType *out) {
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (json_equals(v, dtypes[t].name)) {
            *out = (DType)t;
            return true;
        }
    return false;
}

/* Item i of an array as a size: a whole number written as one, not negative. */
static bool size_item(const JsonValue *array, uint32_t i, int64_t *out) {
    const JsonValue *v = json_item(array, i);
    return v && v->type == JSON_INT && json_int(v, out) && *out >= 0;
}

static bool shape_parse(const JsonValue *v, Tensor *t, Error *err) {
    if (!v || v->type != JSON_ARRAY) return error_set(err, "shape is not a list");
    if (v->length > TENSOR_MAX_DIMS)
        return error_set(err, "has %u dimensions, at most %d are supported", v->length, TENSOR_MAX_DIMS);
    t->n_dims = (int)v->length;
    t->bytes = dtype_bytes(t->dtype);
    for (uint32_t i = 0; i < v->length; i++) {
        if (!size_item(v, i, &t->shape[i])) return error_set(err, "dimension %u of its shape is no size", i);
        if (!mem_product(t->bytes, (uint64_t)t->shape[i], &t->bytes)) return error_set(err, "its shape overflows");
    }
    return true;
}

static bool range_parse(const Safetensors *s, const JsonValue *v, Tensor *t, Error *err) {
    int64_t begin, end;
    if (!v || v->type != JSON_ARRAY || v->length != 2 || !size_item(v, 0, &begin) || !size_item(v, 1, &end))
        return error_set(err, "data_offsets is not a pair of sizes");
    if (begin > end) return error_set(err, "data_offsets run backwards: [%" PRId64 ", %" PRId64 "]", begin, end);
    if ((uint64_t)end > s->data_bytes)
        return error_set(err, "ends at byte %" PRId64 " of its data, the file has %" PRIu64 ": truncated, get it again",
                         end, s->data_bytes);
    if ((uint64_t)(end - begin) != t->bytes) {
        char shape[200];
        tensor_shape_text(t, shape, sizeof shape);
        return error_set(err, "%s %s needs %" PRIu64 " bytes, data_offsets give %" PRId64, dtype_name(t->dtype), shape,
                         t->bytes, end - begin);
    }
    t->data = s->data + begin;
    return true;
}

static bool entry_parse(const Safetensors *s, const JsonMember *m, Tensor *t, Error *err) {
    *t = (Tensor){.name = m->key, .file = s->path};
    if (strlen(m->key) != m->key_length) return error_set(err, "its name holds a NUL");
    if (m->value.type != JSON_OBJECT) return error_set(err, "its entry is not an object");
    const JsonValue *dtype = json_get(&m->value, "dtype");
    if (!dtype_parse(dtype, &t->dtype))
        return error_set(err, "unknown dtype \"%s\"", json_string(dtype) ? json_string(dtype) : "");
    return shape_parse(json_get(&m->value, "shape"), t, err) &&
           range_parse(s, json_get(&m->value, "data_offsets"), t, err);
}

static int by_position(const void *a, const void *b) {
    const Tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1; /* an empty one may share its neighbour's start */
    return strcmp(x->name, y->name);
}

static bool check_layout(const Safetensors *s, Error *err) {
    const uint8_t *at = s->data;
    for (int i = 0; i < s->n; i++) {
        const Tensor *t = &s->tensors[i];
        if (t->data < at)
            return error_set(err, "tensor \"%s\" overlaps \"%s\"", t->name, i ? s->tensors[i - 1].name : "");
        if (t->data > at)
            return error_set(err, "%" PRIu64 " bytes before tensor \"%s\" belong to no tensor",
                             (uint64_t)(t->data - at), t->name);
        at += t->bytes;
    }
    uint64_t used = (uint64_t)(at - s->data);
    if (used != s->data_bytes)
        return error_set(err, "%" PRIu64 " bytes at the end belong to no tensor", s->data_bytes - used);
    return true;
}

static bool metadata_check(const JsonValue *v, Error *err) {
    bool ok = v->type == JSON_OBJECT;
    for (uint32_t i = 0; ok && i < v->length; i++) ok = v->members[i].value.type == JSON_STRING;
    return ok || error_set(err, "__metadata__ is not an object of strings");
}

static bool header_parse(Safetensors *s, Error *err) {
    const JsonValue *root = json_root(s->header);
    if (root->type != JSON_OBJECT) return error_set(err, "the header is not an object");
    s->tensors = mem_array(root->length, sizeof *s->tensors);
    if (!s->tensors) return error_memory(err, "the tensor list");
    for (uint32_t i = 0; i < root->length; i++) {
        const JsonMember *m = &root->members[i];
        if (strcmp(m->key, "__metadata__") == 0) {
            if (m->value.type == JSON_NULL) continue; /* mlx.core.save_safetensors writes it so when it is given none */
            s->metadata = &m->value;
            if (!metadata_check(s->metadata, err)) return false;
            continue;
        }
        if (!entry_parse(s, m, &s->tensors[s->n], err)) return error_prefix(err, "tensor \"%.200s\"", m->key);
        s->n++;
    }
    qsort(s->tensors, (size_t)s->n, sizeof *s->tensors, by_position);
    return check_layout(s, err);
}

static bool header_find(Safetensors *s, Error *err) {
    if (s->file.size < 8)
        return error_set(err, "%zu bytes are too few for a safetensors file: get it again", s->file.size);
    uint64_t length = 0;
    for (int i = 0; i < 8; i++) length |= (uint64_t)s->file.data[i] << 8 * i;
    if (length > HEADER_LIMIT)
        return error_set(err, "not a safetensors file: its header would have %" PRIu64 " bytes", length);
    if (length > s->file.size - 8)
        return error_set(err, "the header has %" PRIu64 " bytes, the file %zu: truncated, get it again", length,
                         s->file.size);
    const char *text = (const char *)s->file.data + 8;
    if (length == 0 || *text != '{') return error_set(err, "not a safetensors file: the header is not a JSON object");
    s->data = s->file.data + 8 + length;
    s->data_bytes = s->file.size - 8 - length;
    s->header = json_parse(text, (size_t)length, JSON_UNIQUE_KEYS, err);
    return s->header || error_prefix(err, "header");
}

Safetensors *safetensors_open(const char *path, Error *err) {
    Safetensors *s = mem_zeroed(1, sizeof *s);
    if (!s || !(s->path = mem_string(path, strlen(path)))) {
        error_memory(err, "opening a safetensors file");
        goto fail;
    }
    if (!mapping_open(&s->file, path, err)) goto fail; /* names the path itself */
    if (!header_find(s, err) || !header_parse(s, err)) {
        error_prefix(err, "%s", path);
        goto fail;
    }
    return s;
fail:
    safetensors_close(s);
    return NULL;
}

void safetensors_close(Safetensors *s) {
    if (!s) return;
    mem_free(s->tensors);
    json_free(s->header);
    mapping_close(&s->file);
    mem_free(s->path);
    mem_free(s);
}

int safetensors_count(const Safetensors *s) {
    return s->n;
}

const Tensor *safetensors_tensor(const Safetensors *s, int i) {
    return &s->tensors[i];
}

const JsonValue *safetensors_metadata(const Safetensors *s) {
    return s->metadata;
}
