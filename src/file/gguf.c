/* The GGUF reader. The format is a byte stream without an index: a value's length is known only by walking it, so open
 * walks everything once with a cursor that refuses to pass the end of the file, and keeps (key, pointer) pairs sorted
 * for look-up. Counts are bounded before they size an allocation. Tensor types are named for all of ggml's, so that an
 * unsupported one can be refused by name by whoever wants the tensor; a number that ggml does not have has no size and
 * is refused here. */
#include "file/gguf.h"
#include "base/arena.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "file/mapping.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 1 << 20, MAX_NAME = 1024, DEFAULT_ALIGNMENT = 32 };

typedef struct GgufEntry {
    const char *key;
    GgufValue value;
} GgufEntry;

struct Gguf {
    Mapping file;
    char *path;
    Arena names;
    GgufEntry *entries; /* sorted by key */
    GgufTensor *tensors;
    GgufTensor **by_name; /* sorted */
    uint32_t version;
    int n_entries, n_tensors;
};

static const struct {
    const char *name;
    uint16_t values, bytes;
} types[] = {
    {"F32", 1, 4},      {"F16", 1, 2},        {"Q4_0", 32, 18},     {"Q4_1", 32, 20},     {"Q4_2", 0, 0},
    {"Q4_3", 0, 0},     {"Q5_0", 32, 22},     {"Q5_1", 32, 24},     {"Q8_0", 32, 34},     {"Q8_1", 32, 40},
    {"Q2_K", 256, 84},  {"Q3_K", 256, 110},   {"Q4_K", 256, 144},   {"Q5_K", 256, 176},   {"Q6_K", 256, 210},
    {"Q8_K", 256, 292}, {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74},  {"IQ3_XXS", 256, 98}, {"IQ1_S", 256, 50},
    {"IQ4_NL", 32, 18}, {"IQ3_S", 256, 110},  {"IQ2_S", 256, 82},   {"IQ4_XS", 256, 136}, {"I8", 1, 1},
    {"I16", 1, 2},      {"I32", 1, 4},        {"I64", 1, 8},        {"F64", 1, 8},        {"IQ1_M", 256, 56},
    {"BF16", 1, 2},     {"Q4_0_4_4", 0, 0},   {"Q4_0_4_8", 0, 0},   {"Q4_0_8_8", 0, 0},   {"TQ1_0", 256, 54},
    {"TQ2_0", 256, 66}, {"IQ4_NL_4_4", 0, 0}, {"IQ4_NL_4_8", 0, 0}, {"IQ4_NL_8_8", 0, 0}, {"MXFP4", 32, 17},
    {"NVFP4", 64, 36},  {"Q1_0", 128, 18},    {"Q2_0", 64, 18},
};

static const uint8_t kind_bytes[GGUF_KIND_COUNT] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8, /* STRING, ARRAY: 0 */
};

const char *ggml_type_name(uint32_t type) {
    return type < sizeof types / sizeof *types ? types[type].name : NULL;
}

uint32_t ggml_block_values(uint32_t type) {
    return type < sizeof types / sizeof *types ? types[type].values : 0;
}

uint32_t ggml_block_bytes(uint32_t type) {
    return type < sizeof types / sizeof *types ? types[type].bytes : 0;
}

/* ---- the cursor ---- */

typedef struct Cursor {
    const uint8_t *at, *end;
} Cursor;

static uint64_t little(const uint8_t *p, int n) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static bool take(Cursor *c, uint64_t n, const uint8_t **out) {
    if ((uint64_t)(c->end - c->at) < n) return false;
    *out = c->at;
    c->at += n;
    return true;
}

static bool take_u32(Cursor *c, uint32_t *out) {
    const uint8_t *p;
    if (!take(c, 4, &p)) return false;
    *out = (uint32_t)little(p, 4);
    return true;
}

static bool take_u64(Cursor *c, uint64_t *out) {
    const uint8_t *p;
    if (!take(c, 8, &p)) return false;
    *out = little(p, 8);
    return true;
}

static bool take_string(Cursor *c, const uint8_t **text, uint64_t *n) {
    return take_u64(c, n) && take(c, *n, text);
}

static bool truncated(Error *err, const char *where) {
    return error_set(err, "ends within %s: truncated, get it again", where);
}

/* A key or tensor name as a C string that lives with the file. */
static bool take_name(Gguf *g, Cursor *c, const char *what, const char **out, Error *err) {
    const uint8_t *text;
    uint64_t n;
    if (!take_string(c, &text, &n)) return truncated(err, what);
    if (n == 0 || n > MAX_NAME) return error_set(err, "%s has a name of %" PRIu64 " bytes", what, n);
    if (memchr(text, 0, n) || utf8_valid((const char *)text, n) != n)
        return error_set(err, "%s has a name that is no text", what);
    char *name = arena_array(&g->names, n + 1, 1);
    if (!name) return error_memory(err, "names of a GGUF file");
    memcpy(name, text, n);
    name[n] = 0;
    *out = name;
    return true;
}

/* ---- metadata ---- */

static bool take_array(Cursor *c, GgufValue *v, Error *err) {
    uint32_t item;
    if (!take_u32(c, &item) || !take_u64(c, &v->count)) return truncated(err, "an array");
    if (item >= GGUF_KIND_COUNT || item == GGUF_ARRAY) return error_set(err, "array of unknown type %u", item);
    v->item = (GgufKind)item;
    v->data = c->at;
    const uint8_t *skipped;
    uint64_t n;
    if (item == GGUF_STRING) {
        for (uint64_t i = 0; i < v->count; i++)
            if (!take_string(c, &skipped, &n)) return truncated(err, "an array of strings");
    } else if (!mem_product(v->count, kind_bytes[item], &n) || !take(c, n, &skipped)) {
        return truncated(err, "an array");
    }
    v->bytes = (uint64_t)(c->at - v->data);
    return true;
}

static bool take_value(Cursor *c, GgufValue *v, Error *err) {
    uint32_t kind;
    if (!take_u32(c, &kind)) return truncated(err, "a metadata value");
    if (kind >= GGUF_KIND_COUNT) return error_set(err, "unknown value type %u", kind);
    *v = (GgufValue){.kind = (GgufKind)kind, .count = 1};
    if (kind == GGUF_ARRAY) return take_array(c, v, err);
    if (kind == GGUF_STRING) {
        if (!take_string(c, &v->data, &v->count)) return truncated(err, "a string");
        v->bytes = v->count;
        return true;
    }
    v->bytes = kind_bytes[kind];
    return take(c, v->bytes, &v->data) || truncated(err, "a metadata value");
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const GgufEntry *)a)->key, ((const GgufEntry *)b)->key);
}

static bool read_metadata(Gguf *g, Cursor *c, uint64_t n, Error *err) {
    if (n > MAX_ENTRIES) return error_set(err, "has %" PRIu64 " metadata entries, more than any model", n);
    g->entries = mem_array((size_t)n, sizeof *g->entries);
    if (!g->entries) return error_memory(err, "the metadata of a GGUF file");
    for (uint64_t i = 0; i < n; i++, g->n_entries++) {
        GgufEntry *e = &g->entries[i];
        if (!take_name(g, c, "a metadata entry", &e->key, err)) return false;
        if (!take_value(c, &e->value, err)) return error_prefix(err, "metadata \"%.200s\"", e->key);
    }
    qsort(g->entries, (size_t)n, sizeof *g->entries, by_key);
    for (uint64_t i = 1; i < n; i++)
        if (strcmp(g->entries[i - 1].key, g->entries[i].key) == 0)
            return error_set(err, "metadata \"%.200s\" is there twice", g->entries[i].key);
    return true;
}

/* ---- tensors ---- */

static bool tensor_size(GgufTensor *t, Error *err) {
    uint64_t values = 1;
    for (int i = 0; i < GGUF_MAX_DIMS; i++)
        if (t->shape[i] < 1 || !mem_product(values, (uint64_t)t->shape[i], &values))
            return error_set(err, "dimension %d is no size", i);
    uint32_t block = ggml_block_values(t->type);
    if (block == 0) {
        const char *name = ggml_type_name(t->type);
        return error_set(err, "has tensor type %s%s%u%s, which lockstep does not read", name ? name : "",
                         name ? " (" : "", t->type, name ? ")" : "");
    }
    if (t->shape[0] % block)
        return error_set(err, "rows of %" PRId64 " values are no whole blocks of %s", t->shape[0],
                         ggml_type_name(t->type));
    if (!mem_product(values / block, ggml_block_bytes(t->type), &t->bytes))
        return error_set(err, "its shape overflows");
    return true;
}

static bool take_tensor(Gguf *g, Cursor *c, GgufTensor *t, uint64_t *offset, Error *err) {
    *t = (GgufTensor){.shape = {1, 1, 1, 1}};
    if (!take_name(g, c, "a tensor", &t->name, err)) return false;
    uint32_t n_dims;
    if (!take_u32(c, &n_dims)) return truncated(err, "the tensor list");
    if (n_dims > GGUF_MAX_DIMS) {
        error_set(err, "has %u dimensions", n_dims);
        return error_prefix(err, "tensor \"%.200s\"", t->name);
    }
    t->n_dims = (int)n_dims;
    for (uint32_t i = 0; i < n_dims; i++) {
        uint64_t d;
        if (!take_u64(c, &d)) return truncated(err, "the tensor list");
        t->shape[i] = d > INT64_MAX ? -1 : (int64_t)d;
    }
    if (!take_u32(c, &t->type) || !take_u64(c, offset)) return truncated(err, "the tensor list");
    return tensor_size(t, err) || error_prefix(err, "tensor \"%.200s\"", t->name);
}

static int by_tensor_name(const void *a, const void *b) {
    return strcmp((*(GgufTensor *const *)a)->name, (*(GgufTensor *const *)b)->name);
}

static int by_data(const void *a, const void *b) {
    const GgufTensor *x = *(GgufTensor *const *)a, *y = *(GgufTensor *const *)b;
    return x->data < y->data ? -1 : x->data > y->data;
}

static bool read_alignment(const Gguf *g, uint64_t *alignment, Error *err) {
    const GgufValue *v = gguf_find(g, "general.alignment");
    *alignment = DEFAULT_ALIGNMENT;
    if (!v) return true;
    return (gguf_uint(v, alignment) && *alignment > 0 && *alignment <= 1 << 30 &&
            (*alignment & (*alignment - 1)) == 0) ||
           error_set(err, "general.alignment is no power of two");
}

/* Offsets, known only now that the list has ended, become pointers. */
static bool place_tensors(Gguf *g, const Cursor *c, const uint64_t *offsets, Error *err) {
    uint64_t alignment;
    if (!read_alignment(g, &alignment, err)) return false;
    uint64_t start = (uint64_t)(c->at - g->file.data);
    start = (start + alignment - 1) / alignment * alignment;
    uint64_t available = start < g->file.size ? g->file.size - start : 0;
    for (int i = 0; i < g->n_tensors; i++) {
        GgufTensor *t = &g->tensors[i];
        if (offsets[i] % alignment)
            return error_set(err, "tensor \"%.200s\" is not aligned to %" PRIu64 " bytes", t->name, alignment);
        if (offsets[i] > available || t->bytes > available - offsets[i])
            return error_set(err, "tensor \"%.200s\" reaches past the end of the file: truncated, get it again",
                             t->name);
        t->data = g->file.data + start + offsets[i];
        g->by_name[i] = t;
    }
    qsort(g->by_name, (size_t)g->n_tensors, sizeof *g->by_name, by_data);
    for (int i = 1; i < g->n_tensors; i++)
        if (g->by_name[i - 1]->data + g->by_name[i - 1]->bytes > g->by_name[i]->data)
            return error_set(err, "tensors \"%.200s\" and \"%.200s\" overlap", g->by_name[i - 1]->name,
                             g->by_name[i]->name);
    qsort(g->by_name, (size_t)g->n_tensors, sizeof *g->by_name, by_tensor_name);
    for (int i = 1; i < g->n_tensors; i++)
        if (strcmp(g->by_name[i - 1]->name, g->by_name[i]->name) == 0)
            return error_set(err, "tensor \"%.200s\" is there twice", g->by_name[i]->name);
    return true;
}

static bool read_tensors(Gguf *g, Cursor *c, uint64_t n, Error *err) {
    if (n > MAX_ENTRIES) return error_set(err, "has %" PRIu64 " tensors, more than any model", n);
    g->tensors = mem_array((size_t)n, sizeof *g->tensors);
    g->by_name = mem_array((size_t)n, sizeof *g->by_name);
    uint64_t *offsets = mem_array((size_t)n, sizeof *offsets);
    bool ok = (g->tensors && g->by_name && offsets) || error_memory(err, "the tensor list of a GGUF file");
    for (uint64_t i = 0; ok && i < n; i++, g->n_tensors++) ok = take_tensor(g, c, &g->tensors[i], &offsets[i], err);
    ok = ok && place_tensors(g, c, offsets, err);
    mem_free(offsets);
    return ok;
}

static bool read_all(Gguf *g, Error *err) {
    Cursor c = {g->file.data, g->file.data + g->file.size};
    const uint8_t *magic;
    uint64_t n_tensors, n_entries;
    if (!take(&c, 4, &magic) || memcmp(magic, "GGUF", 4) != 0) return error_set(err, "is not a GGUF file");
    if (!take_u32(&c, &g->version)) return truncated(err, "its header");
    if ((g->version & 0xFFFF) == 0)
        return error_set(err, "is a big-endian GGUF file, only little-endian ones are read");
    if (g->version != 2 && g->version != 3)
        return error_set(err, "is GGUF version %u, versions 2 and 3 are read: convert the model anew", g->version);
    if (!take_u64(&c, &n_tensors) || !take_u64(&c, &n_entries)) return truncated(err, "its header");
    return read_metadata(g, &c, n_entries, err) && read_tensors(g, &c, n_tensors, err);
}

Gguf *gguf_open(const char *path, Error *err) {
    Gguf *g = mem_zeroed(1, sizeof *g);
    if (!g) {
        error_memory(err, "opening a GGUF file");
        return NULL;
    }
    arena_init(&g->names);
    if (!(g->path = mem_string(path, strlen(path)))) {
        error_memory(err, "opening a GGUF file");
        goto fail;
    }
    if (!mapping_open(&g->file, path, err)) goto fail; /* names the path itself */
    if (!read_all(g, err)) {
        error_prefix(err, "%s", path);
        goto fail;
    }
    return g;
fail:
    gguf_close(g);
    return NULL;
}

void gguf_close(Gguf *g) {
    if (!g) return;
    arena_clear(&g->names);
    mem_free(g->entries);
    mem_free(g->tensors);
    mem_free(g->by_name);
    mapping_close(&g->file);
    mem_free(g->path);
    mem_free(g);
}

const char *gguf_path(const Gguf *g) {
    return g->path;
}

/* ---- looking up ---- */

const GgufValue *gguf_find(const Gguf *g, const char *key) {
    GgufEntry wanted = {.key = key};
    const GgufEntry *e = bsearch(&wanted, g->entries, (size_t)g->n_entries, sizeof wanted, by_key);
    return e ? &e->value : NULL;
}

int gguf_n_keys(const Gguf *g) {
    return g->n_entries;
}

const char *gguf_key(const Gguf *g, int i) {
    return g->entries[i].key;
}

int gguf_count(const Gguf *g) {
    return g->n_tensors;
}

const GgufTensor *gguf_tensor(const Gguf *g, int i) {
    return &g->tensors[i];
}

const GgufTensor *gguf_find_tensor(const Gguf *g, const char *name) {
    GgufTensor tensor = {.name = name}, *wanted = &tensor;
    GgufTensor **t = bsearch(&wanted, g->by_name, (size_t)g->n_tensors, sizeof wanted, by_tensor_name);
    return t ? *t : NULL;
}

/* A number of the file as int64 (integers; a U64 past that range is refused) or double. */
static bool read_integer(GgufKind kind, const uint8_t *p, int64_t *out) {
    switch (kind) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
    case GGUF_I64: *out = (int64_t)little(p, kind_bytes[kind]); return kind != GGUF_U64 || *out >= 0;
    case GGUF_I8: *out = (int8_t)p[0]; return true;
    case GGUF_I16: *out = (int16_t)little(p, 2); return true;
    case GGUF_I32: *out = (int32_t)little(p, 4); return true;
    default: return false;
    }
}

static bool read_number(GgufKind kind, const uint8_t *p, double *out) {
    int64_t i;
    float f;
    if (kind == GGUF_F32) {
        memcpy(&f, p, 4);
        *out = (double)f;
        return true;
    }
    if (kind == GGUF_F64) {
        memcpy(out, p, 8);
        return true;
    }
    if (!read_integer(kind, p, &i)) return false;
    *out = (double)i;
    return true;
}

bool gguf_uint(const GgufValue *v, uint64_t *out) {
    int64_t i;
    if (!v || !read_integer(v->kind, v->data, &i) || i < 0) return false;
    *out = (uint64_t)i;
    return true;
}

bool gguf_number(const GgufValue *v, double *out) {
    return v && read_number(v->kind, v->data, out);
}

bool gguf_bool(const GgufValue *v, bool *out) {
    if (!v || v->kind != GGUF_BOOL) return false;
    *out = v->data[0] != 0;
    return true;
}

bool gguf_item_number(const GgufValue *v, uint64_t i, double *out) {
    return v && v->kind == GGUF_ARRAY && i < v->count && kind_bytes[v->item] &&
           read_number(v->item, v->data + i * kind_bytes[v->item], out);
}

bool gguf_next_string(const GgufValue *v, uint64_t *at, const char **text, size_t *length) {
    if (!v || v->kind != GGUF_ARRAY || v->item != GGUF_STRING || *at >= v->bytes) return false;
    uint64_t n = little(v->data + *at, 8);
    *text = (const char *)v->data + *at + 8;
    *length = (size_t)n;
    *at += 8 + n;
    return true;
}

void gguf_release(const GgufTensor *t) {
    mapping_release(t->data, t->bytes);
}

/* ---- GGUF where a checkpoint is wanted ---- */

bool gguf_is_path(const char *path) {
    size_t n = strlen(path);
    if (n > 5 && strcmp(path + n - 5, ".gguf") == 0) return true;
    Mapping m;
    if (!mapping_open(&m, path, NULL)) return false;
    bool is = m.size >= 4 && memcmp(m.data, "GGUF", 4) == 0;
    mapping_close(&m);
    return is;
}

bool gguf_import_hint(const char *path, Error *err) {
    return error_set(err, "%s: is a GGUF file; make a checkpoint of it first: lockstep import %s -o FOLDER", path,
                     path);
}
