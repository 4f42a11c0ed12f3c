/* Any vector can be cut; what is left is worth something only where training saw to it. So a size that no file names is
 * refused. */
#include "engine/matryoshka.h"
#include "base/memory.h"

#include <stdio.h>
#include <unistd.h>

enum { MAX_PATH_BYTES = 4096, MAX_SIZE = 1 << 24 };

static bool add_size(Matryoshka *m, const JsonValue *v, Error *err) {
    int64_t size;
    if (!json_int(v, &size) || size < 1 || size > MAX_SIZE) return true; /* not a size: then none is allowed by it */
    int *sizes = mem_resize(m->sizes, (size_t)m->n_sizes + 1, sizeof *sizes);
    if (!sizes) return error_memory(err, "the sizes of vectors");
    m->sizes = sizes;
    sizes[m->n_sizes++] = (int)size;
    return true;
}

static bool add_sizes(Matryoshka *m, const JsonValue *list, Error *err) {
    for (uint32_t i = 0; list && list->type == JSON_ARRAY && i < list->length; i++)
        if (!add_size(m, json_item(list, i), err)) return false;
    return true;
}

static bool read_keys(Matryoshka *m, const JsonValue *v, Error *err) {
    bool any = false;
    json_bool(json_get_set(v, "is_matryoshka"), &any);
    m->any = m->any || any;
    return add_sizes(m, json_get_set(v, "matryoshka_dimensions"), err) &&
           add_sizes(m, json_get_set(v, "matryoshka_dims"), err) && add_size(m, json_get_set(v, "truncate_dim"), err);
}

static bool read_config(Matryoshka *m, const char *folder, Error *err) {
    char path[MAX_PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/config.json", folder);
    if (n >= MAX_PATH_BYTES || access(path, F_OK) != 0) return true;
    JsonDoc *doc = json_parse_file(path, 0, err);
    bool ok = doc && read_keys(m, json_root(doc), err);
    json_free(doc);
    return ok;
}

bool matryoshka_read(const char *folder, const JsonValue *settings, Matryoshka *out, Error *err) {
    Matryoshka m = {0};
    if (!read_config(&m, folder, err) || !read_keys(&m, settings, err)) {
        matryoshka_clear(&m);
        return false;
    }
    *out = m;
    if (m.n_sizes > 0) out->any = false; /* those that are named, then */
    return true;
}

void matryoshka_clear(Matryoshka *m) {
    mem_free(m->sizes);
    *m = (Matryoshka){0};
}

bool matryoshka_allows(const Matryoshka *m, int size, int wanted, Error *err) {
    if (wanted == size || (m->any && wanted >= 1 && wanted < size)) return true;
    Buffer list = {0};
    for (int i = 0; i < m->n_sizes; i++) {
        if (m->sizes[i] == wanted && wanted < size) {
            buffer_clear(&list);
            return true;
        }
        buffer_printf(&list, "%s%d", i ? ", " : "", m->sizes[i]);
    }
    if (m->any)
        error_set(err, "this model's vectors have %d values: they can not have %d", size, wanted);
    else if (m->n_sizes > 0)
        error_set(err, "this model's vectors have %d values, and may be cut to %.200s, not to %d", size,
                  buffer_string(&list), wanted);
    else
        error_set(err, "this model's vectors have %d values, and no file of it says that they may be cut to %d", size,
                  wanted);
    buffer_clear(&list);
    return false;
}
