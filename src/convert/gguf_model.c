/* From a GGUF file's metadata to the model it means. Nothing is guessed: a key of the architecture that is not known
 * here is refused, because a field that is silently dropped is a model that answers wrongly; so is a tensor without a
 * rule, or one whose shape is not the one that the metadata implies. */
#include "convert/gguf_model.h"
#include "convert/gguf_blocks.h"
#include "convert/gguf_rope.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SIZE = 1 << 30, MAX_LAYERS = 1 << 14, MAX_EXPERTS = 1 << 16, NAME = 256 };

/* ---- look-up ---- */

const GgufValue *gguf_model_find(const GgufModel *m, const char *key) {
    char full[NAME];
    snprintf(full, sizeof full, "%s.%s", m->arch->name, key);
    return gguf_find(m->file, full);
}

static bool is_text(const GgufValue *v, const char *text) {
    return v && v->kind == GGUF_STRING && v->count == strlen(text) && memcmp(v->data, text, v->count) == 0;
}

bool gguf_model_size(const GgufModel *m, const char *key, int64_t fallback, int64_t *out, Error *err) {
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

bool gguf_model_number(const GgufModel *m, const char *key, double fallback, double *out, Error *err) {
    const GgufValue *v = gguf_model_find(m, key);
    *out = fallback;
    if (!v) return true;
    return (gguf_number(v, out) && isfinite(*out)) || error_set(err, "metadata %s.%s is no number", m->arch->name, key);
}

double gguf_layer_value(const GgufModel *m, const char *key, int64_t layer, double absent) {
    const GgufValue *v = gguf_model_find(m, key);
    double n = absent;
    bool yes;
    if (v && v->kind == GGUF_ARRAY && v->item == GGUF_BOOL)
        return layer < (int64_t)v->count ? v->data[layer] != 0 : absent;
    if (v && v->kind == GGUF_ARRAY) return gguf_item_number(v, (uint64_t)layer, &n) ? n : absent;
    if (gguf_bool(v, &yes)) return yes;
    return gguf_number(v, &n) ? n : absent;
}

/* ---- tensors by name ---- */

const GgufTensor *gguf_layer_tensor(const GgufModel *m, int64_t layer, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "blk.%" PRId64 ".%s", layer, name);
    return gguf_find_tensor(m->file, full);
}

void gguf_rule_name(const char *pattern, int64_t layer, int64_t expert, const char *suffix, char *out,
                    size_t capacity) {
    size_t n = 0;
    for (const char *p = pattern; *p && n + 24 < capacity; p++) {
        if (*p == '*' || *p == '#')
            n += (size_t)snprintf(out + n, capacity - n, "%" PRId64, *p == '*' ? layer : expert);
        else
            out[n++] = *p;
    }
    snprintf(out + n, capacity - n, "%s", suffix);
}

/* A number of at most six digits without a leading zero, so that a name has one spelling. */
static bool read_index(const char **at, const char *end, int64_t *out) {
    const char *p = *at;
    int64_t n = 0;
    while (p < end && *p >= '0' && *p <= '9' && p - *at < 7) n = n * 10 + (*p++ - '0');
    if (p == *at || p - *at > 6 || (**at == '0' && p - *at > 1)) return false;
    *at = p;
    *out = n;
    return true;
}

/* "blk.12.attn_q" against "blk.*.attn_q". */
static bool match_rule(const char *pattern, const char *name, size_t length, TensorPlace *place) {
    const char *end = name + length;
    place->layer = place->expert = -1;
    for (; *pattern; pattern++) {
        if (*pattern == '*' || *pattern == '#') {
            if (!read_index(&name, end, *pattern == '*' ? &place->layer : &place->expert)) return false;
        } else if (name == end || *name++ != *pattern) {
            return false;
        }
    }
    return name == end;
}

static bool has_end(const char *name, size_t n, const char *end) {
    size_t m = strlen(end);
    return n > m && memcmp(name + n - m, end, m) == 0;
}

bool gguf_place(const Architecture *arch, const char *name, TensorPlace *place) {
    size_t n = strlen(name);
    bool bias = has_end(name, n, ".bias"), weight = has_end(name, n, ".weight");
    for (int i = 0; i < MAX_RULE_LISTS && arch->rules[i]; i++)
        for (const TensorRule *rule = arch->rules[i]; rule->from; rule++) {
            bool whole = rule->flags & RULE_WHOLE;
            const char *group = rule->bias_group ? arch->bias_keys[rule->bias_group] : "";
            if (!whole && !weight && !(bias && (!group || *group))) continue;
            if (!match_rule(rule->from, name, whole ? n : n - (bias ? 5 : 7), place)) continue;
            place->rule = rule;
            place->bias = bias && !whole;
            return true;
        }
    return false;
}

bool gguf_is_extra(const GgufModel *m, const char *name) {
    const char *at = name + 4, *end = name + strlen(name);
    int64_t layer;
    if (strncmp(name, "blk.", 4) != 0 || !read_index(&at, end, &layer) || *at != '.') return false;
    return layer >= m->n_layers && layer - m->n_layers < m->n_extra;
}

/* ---- checks before sizes ---- */

static bool name_architectures(const GgufValue *v, Error *err) {
    Buffer known = {0};
    const Architecture *const *a = gguf_architectures;
    for (int i = 0; a[i]; i++)
        if (i == 0 || strcmp(a[i]->name, a[i - 1]->name) != 0) buffer_printf(&known, "%s%s", i ? ", " : "", a[i]->name);
    error_set(err, "architecture \"%.*s\" can not be imported yet; known: %s", v->count < 60 ? (int)v->count : 60,
              (const char *)v->data, buffer_string(&known));
    buffer_clear(&known);
    return false;
}

static bool find_architecture(GgufModel *m, Error *err) {
    const GgufValue *v = gguf_find(m->file, "general.architecture");
    if (!v || v->kind != GGUF_STRING) return error_set(err, "does not say its architecture: not a model file");
    for (int i = 0; gguf_architectures[i]; i++) {
        m->arch = gguf_architectures[i];
        if (is_text(v, m->arch->name) && (!m->arch->fits || m->arch->fits(m))) return true;
    }
    return name_architectures(v, err);
}

static bool check_whole(const GgufModel *m, Error *err) {
    uint64_t n;
    const GgufValue *type = gguf_find(m->file, "general.type");
    if (type && !is_text(type, "model")) return error_set(err, "is not a model but an adapter or another part of one");
    if (gguf_uint(gguf_find(m->file, "split.count"), &n) && n > 1)
        return error_set(err, "is one of %" PRIu64 " parts; join them first (llama-gguf-split --merge)", n);
    return true;
}

/* Keys that every architecture may have: read here and in gguf_rope.c. */
static const char *const common_keys[] = {
    "vocab_size",
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.layer_norm_rms_epsilon",
    "attention.layer_norm_epsilon",
    "attention.key_length",
    "attention.value_length",
    "attention.causal",
    "expert_count",
    "expert_used_count",
    "nextn_predict_layers",
    "pooling_type",       /* gguf_sentence.c */
    "tensor_data_layout", /* where the converter got the rows from; they are the same in the file */
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_log_multiplier",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    NULL,
};

static bool is_known(const Architecture *arch, const char *key) {
    for (const char *const *k = common_keys; *k; k++)
        if (strcmp(*k, key) == 0) return true;
    for (const ConfigField *f = arch->fields; f && f->from; f++)
        if (strcmp(f->from, key) == 0) return true;
    return false;
}

static bool check_keys(const GgufModel *m, Error *err) {
    size_t prefix = strlen(m->arch->name);
    for (int i = 0; i < gguf_n_keys(m->file); i++) {
        const char *key = gguf_key(m->file, i);
        if (strncmp(key, m->arch->name, prefix) != 0 || key[prefix] != '.') continue;
        if (!is_known(m->arch, key + prefix + 1))
            return error_set(err, "metadata \"%.200s\" is not known here: the model may need it", key);
    }
    return true;
}

static bool check_meaning(const GgufModel *m, Error *err) {
    bool causal;
    if (gguf_bool(gguf_model_find(m, "attention.causal"), &causal) && causal == m->arch->encoder)
        return m->arch->encoder ? error_set(err, "is an encoder with attention to the past alone, which it can not be")
                                : error_set(err, "has attention that is not causal, which can not be imported");
    return true;
}

/* ---- sizes ---- */

/* The one size of the layers that have any, of a model whose layers differ. */
static bool read_some(const GgufModel *m, const char *key, int64_t fallback, int64_t *out, Error *err) {
    const GgufValue *v = gguf_model_find(m, key);
    if (!m->arch->mixed || !v || v->kind != GGUF_ARRAY) return gguf_model_size(m, key, fallback, out, err);
    int64_t found = 0;
    for (int64_t i = 0; i < m->n_layers; i++) {
        double n = gguf_layer_value(m, key, i, -1);
        if (!(n >= 0 && n <= MAX_SIZE) || floor(n) != n || (n > 0 && found && (int64_t)n != found))
            return error_set(err, "metadata %s.%s is no size for layer %" PRId64, m->arch->name, key, i);
        if (n > 0) found = (int64_t)n;
    }
    *out = found;
    return found > 0 || error_set(err, "has no layer with any of metadata %s.%s", m->arch->name, key);
}

static bool read_heads(GgufModel *m, Error *err) {
    int64_t hidden = m->size[SIZE_HIDDEN], value;
    if (!gguf_model_size(m, "attention.head_count", 0, &m->n_heads, err) ||
        !read_some(m, "attention.head_count_kv", m->n_heads, &m->n_kv_heads, err))
        return false;
    int64_t from_hidden = m->n_heads > 0 && hidden % m->n_heads == 0 ? hidden / m->n_heads : 0;
    if (!gguf_model_size(m, "attention.key_length", from_hidden, &m->head_dim, err) ||
        !gguf_model_size(m, "attention.value_length", m->head_dim, &value, err) ||
        !gguf_model_size(m, "rope.dimension_count", m->head_dim, &m->rotated, err))
        return false;
    if (value != m->head_dim)
        return error_set(err, "has keys and values of different length, which %s has not", m->arch->name);
    if (m->rotated > m->head_dim || (m->rotated != m->head_dim && !m->arch->partial))
        return error_set(err, "rotates %" PRId64 " of %" PRId64 " values per head, which can not be imported",
                         m->rotated, m->head_dim);
    if (m->head_dim % 2 || m->head_dim > 65536 || m->n_heads > 65536 || m->n_kv_heads > m->n_heads)
        return error_set(err, "has impossible heads: %" PRId64 " and %" PRId64 " of %" PRId64, m->n_heads,
                         m->n_kv_heads, m->head_dim);
    m->size[SIZE_QUERY] = m->n_heads * m->head_dim;
    m->size[SIZE_KEY] = m->n_kv_heads * m->head_dim;
    m->size[SIZE_HEAD] = m->head_dim;
    return true;
}

static bool read_vocab(GgufModel *m, Error *err) {
    const GgufTensor *t = gguf_find_tensor(m->file, "token_embd.weight");
    if (!t || t->n_dims != 2) return error_set(err, "has no tensor \"token_embd.weight\" with two dimensions");
    int64_t said;
    if (!gguf_model_size(m, "vocab_size", t->shape[1], &said, err)) return false;
    m->size[SIZE_VOCAB] = t->shape[1];
    return said == t->shape[1] ||
           error_set(err, "says %" PRId64 " tokens, but token_embd.weight has %" PRId64 " rows", said, t->shape[1]);
}

static bool read_eps(GgufModel *m, Error *err) {
    const GgufValue *rms = gguf_model_find(m, "attention.layer_norm_rms_epsilon");
    const GgufValue *eps = rms ? rms : gguf_model_find(m, "attention.layer_norm_epsilon");
    return (gguf_number(eps, &m->norm_eps) && m->norm_eps > 0 && m->norm_eps < 1) ||
           error_set(err, "has no usable metadata %s.attention.layer_norm_rms_epsilon", m->arch->name);
}

static bool read_experts(GgufModel *m, Error *err) {
    uint64_t n = 0;
    m->size[SIZE_EXPERT_FFN] = m->size[SIZE_FFN];
    if (!gguf_model_find(m, "expert_count") || (gguf_uint(gguf_model_find(m, "expert_count"), &n) && n == 0))
        return true;
    return gguf_model_size(m, "expert_count", 0, &m->size[SIZE_EXPERTS], err) &&
           gguf_model_size(m, "expert_feed_forward_length", m->size[SIZE_FFN], &m->size[SIZE_EXPERT_FFN], err) &&
           gguf_model_size(m, "expert_shared_feed_forward_length", m->size[SIZE_EXPERT_FFN], &m->size[SIZE_SHARED_FFN],
                           err) &&
           (m->size[SIZE_EXPERTS] <= MAX_EXPERTS ||
            error_set(err, "has %" PRId64 " experts per layer", m->size[SIZE_EXPERTS]));
}

static bool read_sizes(GgufModel *m, Error *err) {
    m->size[SIZE_ONE] = 1;
    if (!gguf_model_size(m, "block_count", 0, &m->n_layers, err) ||
        !gguf_model_size(m, "embedding_length", 0, &m->size[SIZE_HIDDEN], err) ||
        !gguf_model_size(m, "context_length", 0, &m->context, err) || !read_vocab(m, err) || !read_eps(m, err))
        return false;
    double extra = gguf_layer_value(m, "nextn_predict_layers", 0, 0);
    if (m->n_layers > MAX_LAYERS || !(extra >= 0 && extra < (double)m->n_layers))
        return error_set(err, "has %" PRId64 " layers, of which %g predict further tokens", m->n_layers, extra);
    m->n_extra = (int64_t)extra;
    m->n_layers -= m->n_extra;
    if (m->arch->own_heads) return true;
    const GgufValue *mlp = gguf_model_find(m, "feed_forward_length"); /* not there where all is experts */
    if (!mlp && gguf_model_find(m, "expert_feed_forward_length")) return read_experts(m, err) && read_heads(m, err);
    return read_some(m, "feed_forward_length", 0, &m->size[SIZE_FFN], err) && read_experts(m, err) &&
           read_heads(m, err);
}

/* ---- tensors ---- */

static bool check_type(const GgufTensor *t, bool vector, Error *err) {
    bool is_float = t->type == GGML_F32 || t->type == GGML_F16 || t->type == GGML_BF16;
    if (is_float || (!vector && block_format(t->type))) return true;
    return error_set(
        err, "tensor \"%s\" has the type %s (%u), which can not be imported %s", t->name, ggml_type_name(t->type),
        t->type,
        vector
            ? "here; known: F32, F16, BF16"
            : "yet; known: F32, F16, BF16, Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ1 to IQ4, TQ1_0, "
              "TQ2_0, MXFP4");
}

static int64_t count_values(const GgufTensor *t) {
    int64_t n = 1; /* gguf_open has checked the product */
    for (int i = 0; i < t->n_dims; i++) n *= t->shape[i];
    return n;
}

static bool check_shape(const GgufModel *m, const TensorRule *rule, const GgufTensor *t, bool vector, Error *err) {
    int64_t out = m->size[rule->out], in = m->size[rule->in],
            n = rule->flags & RULE_STACKED ? m->size[SIZE_EXPERTS] : 1;
    if (t->n_dims > 3 && !vector) return error_set(err, "tensor \"%s\" has %d dimensions", t->name, t->n_dims);
    if (rule->out == SIZE_ANY || (!vector && rule->in == SIZE_ANY)) return true;
    if (vector && count_values(t) != n * out)
        return error_set(err, "tensor \"%s\" does not have the %" PRId64 " values that the metadata implies", t->name,
                         n * out);
    if (vector || (t->shape[0] == in && t->shape[1] == out && t->shape[2] == n)) return true;
    char stack[40] = "";
    if (n > 1) snprintf(stack, sizeof stack, " %" PRId64 " times", n);
    return error_set(err,
                     "tensor \"%s\" is %" PRId64 " by %" PRId64 ", the metadata implies %" PRId64 " by %" PRId64 "%s",
                     t->name, t->shape[1], t->shape[0], out, in, stack);
}

static bool check_tensor(GgufModel *m, const GgufTensor *t, Error *err) {
    TensorPlace p;
    if (strcmp(t->name, "rope_freqs.weight") == 0) return true; /* read with the metadata */
    if (t == m->short_factors || t == m->long_factors || gguf_is_extra(m, t->name)) return true;
    bool placed = gguf_place(m->arch, t->name, &p);
    if (!placed || p.layer >= m->n_layers || p.expert >= m->size[SIZE_EXPERTS])
        return error_set(err, "tensor \"%.200s\" has no place in the %s architecture", t->name, m->arch->name);
    const TensorRule *rule = p.rule;
    bool vector = p.bias || rule->in == SIZE_NONE;
    if (p.bias) m->biases[rule->bias_group] = true;
    return check_shape(m, rule, t, vector, err) &&
           check_type(t, vector || rule->flags & (RULE_WHOLE | RULE_MINUS_ONE), err);
}

static bool has_tensor(const GgufModel *m, const TensorRule *rule, int64_t layer, int64_t expert, Error *err) {
    char name[NAME];
    gguf_rule_name(rule->from, layer, expert, rule->flags & RULE_WHOLE ? "" : ".weight", name, sizeof name);
    return gguf_find_tensor(m->file, name) || error_set(err, "has no tensor \"%s\"", name);
}

static bool check_complete(const GgufModel *m, Error *err) {
    for (int list = 0; list < MAX_RULE_LISTS && m->arch->rules[list]; list++)
        for (const TensorRule *rule = m->arch->rules[list]; rule->from; rule++) {
            bool each = strchr(rule->from, '*') != NULL;
            if (rule->flags & RULE_OPTIONAL || (each && m->arch->mixed)) continue;
            for (int64_t layer = 0; layer < (each ? m->n_layers : 1); layer++)
                if (!has_tensor(m, rule, layer, 0, err)) return false;
        }
    return true;
}

bool gguf_model_read(GgufModel *out, const Gguf *file, Error *err) {
    GgufModel m = {.file = file};
    if (!find_architecture(&m, err) || !check_whole(&m, err) || !check_meaning(&m, err) || !check_keys(&m, err) ||
        !read_sizes(&m, err) || (!m.arch->own_rope && !gguf_rope_read(&m, err)) ||
        (m.arch->read && !m.arch->read(&m, err)))
        return false;
    for (int i = 1; i < N_BIAS_GROUPS; i++) m.biases[i] = m.arch->bias_keys[i] == NULL;
    for (int i = 0; i < gguf_count(file); i++)
        if (!check_tensor(&m, gguf_tensor(file, i), err)) return false;
    if (!check_complete(&m, err)) return false;
    m.tied = !gguf_find_tensor(file, "output.weight");
    *out = m;
    return true;
}

/* How many of a row's values are one group at least, whose heads can not be parted. */
static int64_t group_of(const BlockFormat *f, bool mlx) {
    if (!f || f->floats || (mlx && f->sub_bytes && f->group == 16)) return 1;
    return f->sub_bytes && !mlx ? f->values : f->group;
}

void gguf_model_turn(GgufModel *m, bool mlx) {
    bool differ = m->groups > 1 && m->value_heads > m->groups, whole = true;
    for (int i = 0; i < gguf_count(m->file); i++) {
        TensorPlace at;
        const GgufTensor *t = gguf_tensor(m->file, i);
        if (!gguf_place(m->arch, t->name, &at) || at.rule->order != COLUMNS_OF_VALUES) continue;
        whole = whole && m->value_dim % group_of(block_format(t->type), mlx) == 0;
    }
    m->turned = differ && whole;
    m->tiled = differ && !whole;
}
