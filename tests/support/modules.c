/* What a sentence-transformers folder has beside its model, from a few words. */
#include "support/modules.h"
#include "base/buffer.h"
#include "file/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { MAX_TENSORS = 4 };

void modules_list(const TestFolder *f, const char *types) {
    Buffer text = {0};
    buffer_text(&text, "[{\"idx\": 0, \"name\": \"0\", \"path\": \"\", \"type\": \"x.Transformer\"}");
    for (int i = 1; *types; i++) {
        int n = (int)strcspn(types, " ");
        buffer_printf(&text, ", {\"idx\": %d, \"name\": \"%d\", \"path\": \"%d_%.*s\", \"type\": \"x.models.%.*s\"}", i,
                      i, i, n, types, n, types);
        types += n + (types[n] == ' ');
    }
    buffer_text(&text, "]");
    test_write(f, "modules.json", text.data, text.length);
    buffer_clear(&text);
}

static const char *in_folder(const TestFolder *f, const char *path, const char *name, char out[256]) {
    mkdir(test_path(f, path), 0777); /* where that fails, so does the file */
    snprintf(out, 256, "%s/%s", path, name);
    return out;
}

void modules_config(const TestFolder *f, const char *path, const char *json) {
    char name[256];
    test_write_text(f, in_folder(f, path, "config.json", name), json);
}

void modules_weights(const TestFolder *f, const char *path, const ModuleTensor *tensors, int n) {
    Tensor list[MAX_TENSORS] = {0};
    Error err = {""};
    char name[256];
    assert_true(n <= MAX_TENSORS);
    for (int i = 0; i < n; i++) {
        const ModuleTensor *t = &tensors[i];
        list[i] = (Tensor){.name = t->name, .dtype = DTYPE_F32, .n_dims = t->rows ? 2 : 1, .shape = {t->cols}};
        if (t->rows) memcpy(list[i].shape, (int64_t[]){t->rows, t->cols}, 2 * sizeof(int64_t));
    }
    SafetensorsWriter *w =
        safetensors_create(test_path(f, in_folder(f, path, "model.safetensors", name)), list, n, &err);
    if (!w) fail_msg("%s", err.text);
    for (int i = 0; i < n; i++)
        if (!safetensors_write(w, tensors[i].values,
                               (size_t)(tensors[i].rows ? tensors[i].rows : 1) * (size_t)tensors[i].cols * 4, &err))
            fail_msg("%s", err.text);
    if (!safetensors_finish(w, &err)) fail_msg("%s", err.text);
}
