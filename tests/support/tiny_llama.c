/* Writing the tiny checkpoint: one list of names and shapes, values from the counter-based generator keyed by the
 * tensor's name, so that leaving one out does not change the others. */
#include "support/tiny_llama.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_TENSORS = 32, HEADS_DIM = 32, KV_DIM = 16, MLP = 48 };

typedef struct TinyList {
    Tensor tensors[MAX_TENSORS];
    char names[MAX_TENSORS][96];
    int n;
} TinyList;

static void add(TinyList *l, const TinyLlama *t, const char *name, int64_t rows, int64_t cols) {
    if (t->omit && strcmp(t->omit, name) == 0) return;
    if (t->reshape && strcmp(t->reshape, name) == 0) rows--;
    snprintf(l->names[l->n], sizeof l->names[0], "%s", name);
    l->tensors[l->n] =
        (Tensor){.name = l->names[l->n], .dtype = DTYPE_F32, .n_dims = cols ? 2 : 1, .shape = {rows, cols}};
    l->n++;
}

static void add_layer(TinyList *l, const TinyLlama *t, int layer) {
    static const struct {
        const char *name;
        int rows, cols;
    } parts[] = {{"input_layernorm", TINY_HIDDEN, 0},          {"self_attn.q_proj", HEADS_DIM, TINY_HIDDEN},
                 {"self_attn.k_proj", KV_DIM, TINY_HIDDEN},    {"self_attn.v_proj", KV_DIM, TINY_HIDDEN},
                 {"self_attn.o_proj", TINY_HIDDEN, HEADS_DIM}, {"post_attention_layernorm", TINY_HIDDEN, 0},
                 {"mlp.gate_proj", MLP, TINY_HIDDEN},          {"mlp.up_proj", MLP, TINY_HIDDEN},
                 {"mlp.down_proj", TINY_HIDDEN, MLP}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, parts[i].name);
        add(l, t, name, parts[i].rows, parts[i].cols);
    }
}

/* Norms near 1, matrices around 0; a head that is a copy draws under the embedding's name. */
static void write_values(SafetensorsWriter *w, const Tensor *tensor, const TinyLlama *t) {
    const char *key = t->head == TINY_HEAD_COPY && strcmp(tensor->name, "lm_head.weight") == 0
                          ? "model.embed_tokens.weight"
                          : tensor->name;
    uint64_t seed = 1469598103934665603u;
    for (const char *c = key; *c; c++) seed = (seed ^ (unsigned char)*c) * 1099511628211u;
    int64_t n = tensor->shape[0] * (tensor->n_dims == 2 ? tensor->shape[1] : 1);
    for (int64_t i = 0; i < n; i++) {
        float uniform = (float)(rng_uniform(seed, 0, (uint64_t)i) - 0.5);
        float value = tensor->n_dims == 1 ? 1 + 0.2f * uniform : 0.6f * uniform;
        if (t->poison && strcmp(t->poison, tensor->name) == 0 && i == t->poison_at) value = t->poison_value;
        if (!safetensors_write(w, &value, sizeof value, NULL)) fail_msg("cannot write the tiny checkpoint");
    }
}

static void write_config(const TestFolder *folder, const TinyLlama *t) {
    static const char *const base[][2] = {
        {"model_type", "\"llama\""}, {"hidden_size", "32"},        {"intermediate_size", "48"},
        {"num_hidden_layers", "2"},  {"num_attention_heads", "2"}, {"num_key_value_heads", "1"},
        {"vocab_size", "40"},        {"rms_norm_eps", "1e-5"},     {"max_position_embeddings", "600"}};
    Buffer text = {0};
    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
        if (!t->replaced || strcmp(t->replaced, base[i][0]) != 0)
            buffer_printf(&text, "%s\"%s\": %s", text.length ? ", " : "{", base[i][0], base[i][1]);
    buffer_printf(&text, "%s}", t->config ? t->config : "");
    test_write(folder, "config.json", text.data, text.length);
    buffer_clear(&text);
}

void tiny_write(const TestFolder *folder, const TinyLlama *t) {
    static TinyList l;
    Error err = {""};
    l.n = 0;
    add(&l, t, "model.embed_tokens.weight", TINY_VOCAB, TINY_HIDDEN);
    for (int i = 0; i < 2; i++) add_layer(&l, t, i);
    add(&l, t, "model.norm.weight", TINY_HIDDEN, 0);
    if (t->head != TINY_HEAD_NONE) add(&l, t, "lm_head.weight", TINY_VOCAB, TINY_HIDDEN);
    if (t->extra) add(&l, t, t->extra, 3, 0);
    SafetensorsWriter *w = safetensors_create(test_path(folder, "model.safetensors"), l.tensors, l.n, &err);
    if (!w) fail_msg("%s", err.text);
    for (int i = 0; i < l.n; i++) write_values(w, &l.tensors[i], t);
    if (!safetensors_finish(w, &err)) fail_msg("%s", err.text);
    write_config(folder, t);
}

bool tiny_open(TinyModel *m, const TestFolder *folder, const ModelOptions *o, Error *err) {
    ModelOptions plain = {.numeric = {KV_F32, 16}};
    *m = (TinyModel){0};
    m->pool = pool_new(2, err);
    m->checkpoint = m->pool ? checkpoint_open(folder->path, err) : NULL;
    m->model = m->checkpoint ? model_load(m->checkpoint, o ? o : &plain, m->pool, err) : NULL;
    if (!m->model) tiny_close(m);
    return m->model != NULL;
}

void tiny_make(TinyModel *m, const TinyLlama *t, const ModelOptions *o) {
    TestFolder folder;
    Error err = {""};
    test_folder_make(&folder);
    tiny_write(&folder, t);
    if (!tiny_open(m, &folder, o, &err)) fail_msg("%s", err.text);
    test_folder_remove(&folder);
}

void tiny_close(TinyModel *m) {
    model_free(m->model);
    checkpoint_close(m->checkpoint);
    pool_free(m->pool);
    *m = (TinyModel){0};
}
