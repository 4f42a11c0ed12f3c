/* From a GGUF file's metadata to the model it means. Nothing is guessed: a key of the architecture that is not known
 * here is refused, because a field that is silently dropped is a model that answers wrongly; so is a tensor without a
 * rule, or one whose shape is not the one that the metadata implies. */
#include "convert/gguf_model.h"
#include "base/decimal.h"
#include "base/json.h"
#include "convert/gguf_blocks.h"
#include "convert/gguf_llama.h"
#include "convert/gguf_rope.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const Architecture *const architectures[] = {&gguf_llama};

enum { MAX_SIZE = 1 << 30, MAX_LAYERS = 1 << 14, NAME = 256 };

/* ---- look-up ---- */

const GgufValue *gguf_model_find(const GgufModel *m, const char *key) {
    char full[NAME];
    snprintf(full, sizeof full, "%s.%s", m->arch->name, key);
    return gguf_find(m->file, full);
}

static bool is_text(const GgufValue *v, const char *text) {
    return v && v->kind == GGUF_STRING && v->count == strlen(text) && memcmp(v->data, text, v->count) == 0;
}

/* A size, or one per layer that are all the same; absent: the fallback, or an error when that is 0. */
static bool want_size(const GgufModel *m, const char *key, int64_t fallback, int64_t *out, Error *err) {
    const GgufValue *v = gguf_model_find(m, key);
    if (!v && fallback) {
        *out = fallback;
        return true;
    }
    if (!v) return error_set(err, "has no metadata %s.%s", m->arch->name, key);
    double n = 0, other;
    bool ok = v->kind == GGUF_ARRAY ? gguf_item_number(v, 0, &n) : gguf_number(v, &n);
    for (uint64_t i = 1; ok && v->kind == GGUF_ARRAY && i < v->count; i++)
        if (!gguf_item_number(v, i, &other) || other != n)
            return error_set(err, "metadata %s.%s differs from layer to layer, which can not be imported",
                             m->arch->name, key);
    if (!ok || !(n >= 1 && n <= MAX_SIZE) || floor(n) != n)
        return error_set(err, "metadata %s.%s is no size", m->arch->name, key);
    *out = (int64_t)n;
    return true;
}

void gguf_rule_name(const char *pattern, int64_t layer, const char *suffix, char *out, size_t capacity) {
    const char *star = strchr(pattern, '*');
    if (star)
        snprintf(out, capacity, "%.*s%" PRId64 "%s%s", (int)(star - pattern), pattern, layer, star + 1, suffix);
    else
        snprintf(out, capacity, "%s%s", pattern, suffix);
}

/* Matches "blk.12.attn_q" against "blk.*.attn_q"; a number has no leading zero, so a name has one spelling. */
static bool match_rule(const char *pattern, const char *name, size_t n, int64_t *layer) {
    const char *star = strchr(pattern, '*');
    *layer = -1;
    if (!star) return strlen(pattern) == n && memcmp(pattern, name, n) == 0;
    size_t before = (size_t)(star - pattern), after = strlen(star + 1);
    if (n <= before + after || memcmp(pattern, name, before) != 0) return false;
    if (memcmp(star + 1, name + n - after, after) != 0 || n - before - after > 6) return false;
    *layer = 0;
    for (size_t i = before; i < n - after; i++) {
        if (name[i] < '0' || name[i] > '9' || (name[i] == '0' && i == before && i + 1 < n - after)) return false;
        *layer = *layer * 10 + (name[i] - '0');
    }
    return true;
}

const TensorRule *gguf_rule(const Architecture *arch, const char *name, int64_t *layer, bool *bias) {
    size_t n = strlen(name);
    *bias = n > 5 && strcmp(name + n - 5, ".bias") == 0;
    if (!*bias && (n <= 7 || strcmp(name + n - 7, ".weight") != 0)) return NULL;
    n -= *bias ? 5 : 7;
    for (int i = 0; i < arch->n_rules; i++)
        if (match_rule(arch->rules[i].from, name, n, layer))
            return *bias && !arch->rules[i].bias_group ? NULL : &arch->rules[i];
    return NULL;
}

/* ---- checks before sizes ---- */

static bool find_architecture(GgufModel *m, Error *err) {
    const GgufValue *v = gguf_find(m->file, "general.architecture");
    if (!v || v->kind != GGUF_STRING) return error_set(err, "does not say its architecture: not a model file");
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (is_text(v, architectures[i]->name)) {
            m->arch = architectures[i];
            return true;
        }
    return error_set(err, "architecture \"%.*s\" can not be imported yet; known: llama",
                     v->count < 60 ? (int)v->count : 60, (const char *)v->data);
}

static bool check_whole(const GgufModel *m, Error *err) {
    uint64_t n;
    const GgufValue *type = gguf_find(m->file, "general.type");
    if (type && !is_text(type, "model")) return error_set(err, "is not a model but an adapter or another part of one");
    if (gguf_uint(gguf_find(m->file, "split.count"), &n) && n > 1)
        return error_set(err, "is one of %" PRIu64 " parts; join them first (llama-gguf-split --merge)", n);
    return true;
}

static bool check_keys(const GgufModel *m, Error *err) {
    size_t prefix = strlen(m->arch->name);
    for (int i = 0; i < gguf_n_keys(m->file); i++) {
        const char *key = gguf_key(m->file, i);
        if (strncmp(key, m->arch->name, prefix) != 0 || key[prefix] != '.') continue;
        const char *const *known = m->arch->known_keys;
        while (*known && strcmp(*known, key + prefix + 1) != 0) known++;
        if (!*known) return error_set(err, "metadata \"%.200s\" is not known here: the model may need it", key);
    }
    return true;
}

static bool check_meaning(const GgufModel *m, Error *err) {
    uint64_t n;
    bool causal;
    if (gguf_uint(gguf_model_find(m, "expert_count"), &n) && n > 0)
        return error_set(err, "has %" PRIu64 " experts per layer; mixtures of experts can not be imported yet", n);
    if (gguf_bool(gguf_model_find(m, "attention.causal"), &causal) && !causal)
        return error_set(err, "has attention that is not causal, which can not be imported");
    return true;
}

/* ---- sizes ---- */

static bool read_heads(GgufModel *m, Error *err) {
    int64_t hidden = m->size[SIZE_HIDDEN], value, rotated;
    if (!want_size(m, "attention.head_count", 0, &m->n_heads, err) ||
        !want_size(m, "attention.head_count_kv", m->n_heads, &m->n_kv_heads, err))
        return false;
    int64_t from_hidden = m->n_heads > 0 && hidden % m->n_heads == 0 ? hidden / m->n_heads : 0;
    if (!want_size(m, "attention.key_length", from_hidden, &m->head_dim, err) ||
        !want_size(m, "attention.value_length", m->head_dim, &value, err) ||
        !want_size(m, "rope.dimension_count", m->head_dim, &rotated, err))
        return false;
    if (value != m->head_dim) return error_set(err, "has keys and values of different length, which llama has not");
    if (rotated != m->head_dim)
        return error_set(err, "rotates %" PRId64 " of %" PRId64 " values per head, which can not be imported", rotated,
                         m->head_dim);
    if (m->head_dim % 2 || m->head_dim > 65536 || m->n_heads > 65536 || m->n_kv_heads > m->n_heads)
        return error_set(err, "has impossible heads: %" PRId64 " and %" PRId64 " of %" PRId64, m->n_heads,
                         m->n_kv_heads, m->head_dim);
    m->size[SIZE_QUERY] = m->n_heads * m->head_dim;
    m->size[SIZE_KEY] = m->n_kv_heads * m->head_dim;
    return true;
}

static bool read_vocab(GgufModel *m, Error *err) {
    const GgufTensor *t = gguf_find_tensor(m->file, "token_embd.weight");
    if (!t || t->n_dims != 2) return error_set(err, "has no tensor \"token_embd.weight\" with two dimensions");
    int64_t said;
    if (!want_size(m, "vocab_size", t->shape[1], &said, err)) return false;
    m->size[SIZE_VOCAB] = t->shape[1];
    return said == t->shape[1] ||
           error_set(err, "says %" PRId64 " tokens, but token_embd.weight has %" PRId64 " rows", said, t->shape[1]);
}

static bool read_sizes(GgufModel *m, Error *err) {
    const GgufValue *eps = gguf_model_find(m, "attention.layer_norm_rms_epsilon");
    if (!want_size(m, "block_count", 0, &m->n_layers, err) ||
        !want_size(m, "embedding_length", 0, &m->size[SIZE_HIDDEN], err) ||
        !want_size(m, "feed_forward_length", 0, &m->size[SIZE_FFN], err) ||
        !want_size(m, "context_length", 0, &m->context, err) || !read_heads(m, err) || !read_vocab(m, err))
        return false;
    if (m->n_layers > MAX_LAYERS) return error_set(err, "has %" PRId64 " layers", m->n_layers);
    if (!gguf_number(eps, &m->norm_eps) || !(m->norm_eps > 0 && m->norm_eps < 1))
        return error_set(err, "has no usable metadata %s.attention.layer_norm_rms_epsilon", m->arch->name);
    return true;
}

/* ---- tensors ---- */

static bool is_expert(const char *name) {
    static const char *const marks[] = {"_exps.", "_shexp.", "ffn_gate_inp", "exp_probs"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(name, marks[i])) return true;
    const char *ffn = strstr(name, ".ffn_"); /* blk.0.ffn_gate.3.weight of old files */
    const char *dot = ffn ? strchr(ffn + 1, '.') : NULL;
    return dot && dot[1] >= '0' && dot[1] <= '9';
}

static bool check_type(const GgufTensor *t, bool vector, Error *err) {
    bool is_float = t->type == GGML_F32 || t->type == GGML_F16 || t->type == GGML_BF16;
    if (is_float || (!vector && block_format(t->type))) return true;
    return error_set(err, "tensor \"%s\" has the type %s (%u), which can not be imported %s", t->name,
                     ggml_type_name(t->type), t->type,
                     vector ? "here; known: F32, F16, BF16"
                            : "yet; known: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K");
}

static bool check_shape(const GgufModel *m, const TensorRule *rule, const GgufTensor *t, bool vector, Error *err) {
    int64_t out = m->size[rule->out], in = m->size[rule->in];
    if (vector && (t->n_dims != 1 || t->shape[0] != out))
        return error_set(err, "tensor \"%s\" does not have the %" PRId64 " values that the metadata implies", t->name,
                         out);
    if (!vector && (t->n_dims != 2 || t->shape[0] != in || t->shape[1] != out))
        return error_set(err,
                         "tensor \"%s\" is %" PRId64 " by %" PRId64 ", the metadata implies %" PRId64 " by %" PRId64,
                         t->name, t->shape[1], t->shape[0], out, in);
    return true;
}

static bool check_tensor(GgufModel *m, const GgufTensor *t, Error *err) {
    int64_t layer;
    bool bias;
    if (strcmp(t->name, "rope_freqs.weight") == 0) return true; /* read with the metadata */
    if (is_expert(t->name))
        return error_set(err, "tensor \"%.200s\" belongs to experts, which can not be imported yet", t->name);
    const TensorRule *rule = gguf_rule(m->arch, t->name, &layer, &bias);
    if (!rule || layer >= m->n_layers)
        return error_set(err, "tensor \"%.200s\" has no place in the %s architecture", t->name, m->arch->name);
    bool vector = bias || rule->in == SIZE_NONE;
    if (bias) m->biases[rule->bias_group] = true;
    return check_shape(m, rule, t, vector, err) && check_type(t, vector, err);
}

static bool check_complete(const GgufModel *m, Error *err) {
    char name[NAME];
    for (int i = 0; i < m->arch->n_rules; i++) {
        const TensorRule *rule = &m->arch->rules[i];
        int64_t n = strchr(rule->from, '*') ? m->n_layers : 1;
        for (int64_t layer = 0; !rule->optional && layer < n; layer++) {
            gguf_rule_name(rule->from, layer, ".weight", name, sizeof name);
            if (!gguf_find_tensor(m->file, name)) return error_set(err, "has no tensor \"%s\"", name);
        }
    }
    return true;
}

bool gguf_model_read(GgufModel *out, const Gguf *file, Error *err) {
    GgufModel m = {.file = file};
    if (!find_architecture(&m, err) || !check_whole(&m, err) || !check_meaning(&m, err) || !check_keys(&m, err) ||
        !read_sizes(&m, err) || !gguf_rope_read(&m, err))
        return false;
    for (int i = 0; i < gguf_count(file); i++)
        if (!check_tensor(&m, gguf_tensor(file, i), err)) return false;
    if (!check_complete(&m, err)) return false;
    m.tied = !gguf_find_tensor(file, "output.weight");
    *out = m;
    return true;
}

/* ---- config.json ---- */

/* GGUF keeps float32; its shortest decimal is what the author wrote: 1e-05, not 9.999999747378752e-06. */
void gguf_number_repr(double value, Buffer *out) {
    for (int digits = 1; digits <= 9; digits++) {
        char text[40];
        int n = snprintf(text, sizeof text, "%.*e", digits - 1, value);
        if (digits > 1) text[value < 0 ? 2 : 1] = '.'; /* whatever the locale writes there */
        double d = decimal_parse(text, (size_t)n);
        if ((float)d != (float)value) continue;
        json_write_double(out, d);
        return;
    }
    json_write_double(out, value);
}

static void write_id(const GgufModel *m, const char *key, const char *name, Buffer *out) {
    uint64_t id;
    if (gguf_uint(gguf_find(m->file, key), &id)) buffer_printf(out, "  \"%s\": %" PRIu64 ",\n", name, id);
}

static void write_sizes(const GgufModel *m, Buffer *out) {
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {
        {"hidden_size", m->size[SIZE_HIDDEN]},  {"intermediate_size", m->size[SIZE_FFN]},
        {"num_hidden_layers", m->n_layers},     {"num_attention_heads", m->n_heads},
        {"num_key_value_heads", m->n_kv_heads}, {"head_dim", m->head_dim},
        {"vocab_size", m->size[SIZE_VOCAB]},    {"max_position_embeddings", m->context},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        buffer_printf(out, "  \"%s\": %" PRId64 ",\n", sizes[i].key, sizes[i].value);
}

bool gguf_model_config(const GgufModel *m, const char *quantization, Buffer *out, Error *err) {
    buffer_printf(out, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n", m->arch->class_name,
                  m->arch->model_type);
    write_sizes(m, out);
    buffer_text(out, "  \"hidden_act\": \"silu\",\n  \"rms_norm_eps\": ");
    gguf_number_repr(m->norm_eps, out);
    buffer_text(out, ",\n  \"rope_theta\": ");
    gguf_number_repr(m->rope_theta, out);
    if (m->rope != ROPE_PLAIN) {
        buffer_text(out, ",\n  \"rope_scaling\": ");
        gguf_rope_write(m, out);
    }
    buffer_text(out, ",\n");
    write_id(m, "tokenizer.ggml.bos_token_id", "bos_token_id", out);
    write_id(m, "tokenizer.ggml.eos_token_id", "eos_token_id", out);
    buffer_printf(out, "  \"attention_bias\": %s,\n  \"mlp_bias\": %s,\n",
                  m->biases[BIASES_ATTENTION] ? "true" : "false", m->biases[BIASES_MLP] ? "true" : "false");
    if (quantization) buffer_printf(out, "  \"quantization\": %s,\n", quantization);
    buffer_printf(out, "  \"tie_word_embeddings\": %s\n}\n", m->tied ? "true" : "false");
    return !out->failed || error_memory(err, "config.json");
}
