/* How an embedding model's rows become one vector: GGUF has a number for it, sentence-transformers a list of modules.
 * That the vector is normalised is not in the file; llama.cpp does it whatever the model, and so do nearly all.
 * EmbeddingGemma's two layers after pooling are in newer files, without an activation. */
#include "convert/gguf_sentence.h"
#include "base/memory.h"
#include "convert/gguf_blocks.h"
#include "file/safetensors.h"

#include <inttypes.h>
#include <stdio.h>

enum { POOLING_NONE, POOLING_MEAN, POOLING_CLS, POOLING_LAST, N_POOLING };

static uint64_t pooling_of(const GgufModel *m) {
    uint64_t n = POOLING_NONE;
    gguf_uint(gguf_model_find(m, "pooling_type"), &n);
    return n;
}

/* The dense layers, which are called so after their place in EmbeddingGemma's modules.json. */
static const char *const dense_names[] = {"dense_2", "dense_3"};
enum { N_DENSE = sizeof dense_names / sizeof *dense_names };

static const GgufTensor *find_dense(const GgufModel *m, int i) {
    char name[32];
    snprintf(name, sizeof name, "%s.weight", dense_names[i]);
    return gguf_find_tensor(m->file, name);
}

/* ---- modules.json ---- */

static void write_module(int n, const char *path, const char *type, Buffer *out) {
    buffer_printf(out, "%s\n  {\"idx\": %d, \"name\": \"%d\", \"path\": \"", n ? "," : "", n, n);
    if (*path) buffer_printf(out, "%d_%s", n, path);
    buffer_printf(out, "\", \"type\": \"sentence_transformers.models.%s\"}", type);
}

static void make_modules(const GgufModel *m, Buffer *out) {
    int n = 0;
    buffer_byte(out, '[');
    write_module(n++, "", "Transformer", out);
    write_module(n++, "Pooling", "Pooling", out);
    for (int i = 0; i < N_DENSE; i++)
        if (find_dense(m, i)) write_module(n++, "Dense", "Dense", out);
    write_module(n, "Normalize", "Normalize", out);
    buffer_text(out, "\n]\n");
}

static void make_pooling(const GgufModel *m, Buffer *out) {
    static const char *const modes[N_POOLING] = {NULL, "pooling_mode_mean_tokens", "pooling_mode_cls_token",
                                                 "pooling_mode_lasttoken"};
    buffer_printf(out, "{\n  \"word_embedding_dimension\": %" PRId64, m->size[SIZE_HIDDEN]);
    for (uint64_t i = 1; i < N_POOLING; i++)
        buffer_printf(out, ",\n  \"%s\": %s", modes[i], i == pooling_of(m) ? "true" : "false");
    buffer_text(out, "\n}\n");
}

/* ---- dense layers ---- */

static void make_dense(const GgufTensor *t, Buffer *out) {
    buffer_printf(out,
                  "{\n  \"in_features\": %" PRId64 ",\n  \"out_features\": %" PRId64 ",\n  \"bias\": false,\n"
                  "  \"activation_function\": \"torch.nn.modules.linear.Identity\"\n}\n",
                  t->shape[0], t->shape[1]);
}

/* Floats, since those of sentence-transformers are: each value of a block, once rounded to float32. */
static bool write_weights(const GgufTensor *t, const char *path, Error *err) {
    Tensor tensor = {.name = "linear.weight", .dtype = DTYPE_F32, .n_dims = 2, .shape = {t->shape[1], t->shape[0]}};
    size_t n = (size_t)t->shape[0];
    SafetensorsWriter *w = safetensors_create(path, &tensor, 1, err);
    if (!w) return false;
    float *row = mem_array(n, sizeof *row);
    bool ok = row || error_memory(err, "a row of weights");
    for (int64_t r = 0; ok && r < t->shape[1]; r++) {
        gguf_dequantize_row(t->type, t->data + t->bytes / (uint64_t)t->shape[1] * (uint64_t)r, t->shape[0], row);
        ok = safetensors_write(w, row, n * sizeof *row, err);
    }
    mem_free(row);
    if (ok) return safetensors_finish(w, err);
    safetensors_abandon(w);
    return false;
}

/* ---- the whole ---- */

static bool write_text(const OutputFolder *o, const char *name, Buffer *text, Error *err) {
    bool ok = text->failed ? error_memory(err, "a module's file") : output_file(o, name, text->data, text->length, err);
    buffer_clear(text);
    return ok;
}

/* Layer i as module n. */
static bool write_dense(const GgufModel *m, const OutputFolder *o, int i, int n, Error *err) {
    const GgufTensor *t = find_dense(m, i);
    Buffer text = {0}, path = {0};
    char name[40];
    snprintf(name, sizeof name, "%d_Dense/config.json", n);
    make_dense(t, &text);
    if (!write_text(o, name, &text, err)) return false;
    buffer_printf(&path, "%s/%d_Dense/model.safetensors", o->part.data, n);
    bool ok = path.failed ? error_memory(err, "a path") : write_weights(t, path.data, err);
    buffer_clear(&path);
    return ok;
}

bool gguf_sentence_write(const GgufModel *m, const OutputFolder *o, Error *err) {
    Buffer modules = {0}, pooling = {0};
    uint64_t rule = pooling_of(m);
    if (rule >= N_POOLING)
        return error_set(err, "pools its rows by rule %" PRIu64 ", which can not be imported; known: mean, cls, last",
                         rule);
    if (rule == POOLING_NONE) return true;
    make_modules(m, &modules);
    make_pooling(m, &pooling);
    bool ok = write_text(o, "modules.json", &modules, err);
    ok = write_text(o, "1_Pooling/config.json", &pooling, err) && ok;
    for (int i = 0, n = 2; ok && i < N_DENSE; i++)
        if (find_dense(m, i)) ok = write_dense(m, o, i, n++, err);
    return ok;
}
