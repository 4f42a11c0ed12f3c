/* config.json from a GGUF file's metadata: what all architectures share, then the fields of the architecture's row, its
 * constants (what the format leaves to the reader of the architecture) and what its own function adds. */
#include "convert/gguf_config.h"
#include "base/decimal.h"
#include "base/json.h"
#include "convert/gguf_rope.h"
#include "convert/gguf_weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* GGUF keeps float32; its shortest decimal is what the author wrote: 1e-05, not 9.999999747378752e-06. */
double gguf_shortest(double value) {
    for (int digits = 1; digits <= 9; digits++) {
        char text[40];
        int n = snprintf(text, sizeof text, "%.*e", digits - 1, value);
        if (digits > 1) text[value < 0 ? 2 : 1] = '.'; /* whatever the locale writes there */
        double d = decimal_parse(text, (size_t)n);
        if ((float)d == (float)value) return d;
    }
    return value;
}

void gguf_number_repr(double value, Buffer *out) {
    json_write_double(out, gguf_shortest(value));
}

void gguf_config_number(Buffer *out, const char *name, double value) {
    buffer_printf(out, "  \"%s\": ", name);
    gguf_number_repr(value, out);
    buffer_text(out, ",\n");
}

void gguf_config_count(Buffer *out, const char *name, int64_t value) {
    buffer_printf(out, "  \"%s\": %" PRId64 ",\n", name, value);
}

void gguf_config_layer_vocabulary(const GgufModel *m, Buffer *out) {
    const GgufTensor *t = gguf_find_tensor(m->file, "per_layer_token_embd.weight");
    if (t) gguf_config_count(out, "vocab_size_per_layer_input", gguf_rows_before_padding(t));
}

bool gguf_config_ssm_head(const GgufModel *m, const char *name, Buffer *out, Error *err) {
    int64_t inner, heads;
    if (!gguf_model_size(m, "ssm.inner_size", 0, &inner, err) ||
        !gguf_model_size(m, "ssm.time_step_rank", 0, &heads, err))
        return false;
    if (inner % heads)
        return error_set(err, "has %" PRId64 " heads of mamba, which do not divide %" PRId64, heads, inner);
    gguf_config_count(out, name, inner / heads);
    return true;
}

void gguf_config_layer_types(const GgufModel *m, const char *key, int period, const char *yes, const char *no,
                             Buffer *out) {
    const GgufValue *v = gguf_model_find(m, key);
    uint64_t said;
    if (gguf_uint(v, &said) && said < 1 << 16) period = (int)said;
    buffer_text(out, "  \"layer_types\": [");
    for (int64_t i = 0; i < m->n_layers; i++) {
        bool last = period > 0 && (i + 1) % period == 0;
        bool is = v && v->kind == GGUF_ARRAY ? gguf_layer_value(m, key, i, 0) != 0 : period > 0 && !last;
        buffer_printf(out, "%s\"%s\"", i ? ", " : "", is ? yes : no);
    }
    buffer_text(out, "],\n");
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
        if (sizes[i].value) gguf_config_count(out, sizes[i].key, sizes[i].value);
    if (m->arch->expert_width) gguf_config_count(out, m->arch->expert_width, m->size[SIZE_EXPERT_FFN]);
    gguf_config_number(out, m->arch->eps_name ? m->arch->eps_name : "rms_norm_eps", m->norm_eps);
}

static bool write_field(const GgufModel *m, const ConfigField *f, Buffer *out, Error *err) {
    const GgufValue *v = gguf_model_find(m, f->from);
    double n;
    bool yes;
    if (!v) return !f->required || error_set(err, "has no metadata %s.%s", m->arch->name, f->from);
    if (f->kind == FIELD_KNOWN) return true;
    if (f->kind == FIELD_BOOL && gguf_bool(v, &yes)) {
        buffer_printf(out, "  \"%s\": %s,\n", f->to, yes ? "true" : "false");
        return true;
    }
    if (f->kind != FIELD_BOOL && gguf_number(v, &n) && isfinite(n)) {
        bool whole = floor(n) == n && n >= (f->kind == FIELD_SIZE ? 1 : 0) && n <= 1 << 30;
        if (f->kind == FIELD_NUMBER) gguf_config_number(out, f->to, n);
        if (f->kind != FIELD_NUMBER && whole) gguf_config_count(out, f->to, (int64_t)n);
        if (f->kind == FIELD_NUMBER || whole) return true;
    }
    return error_set(err, "metadata %s.%s is not of the kind expected", m->arch->name, f->from);
}

/* Names as in newer files of transformers. */
static void write_nested_rope(const GgufModel *m, Buffer *out) {
    buffer_text(out, "  \"rope_parameters\": {\"rope_theta\": ");
    gguf_number_repr(m->rope_theta, out);
    buffer_text(out, ", \"partial_rotary_factor\": ");
    gguf_number_repr((double)m->rotated / (double)m->head_dim, out);
    buffer_text(out, ", ");
    gguf_rope_members(m, out);
    buffer_text(out, "},\n");
}

static void write_rope(const GgufModel *m, Buffer *out) {
    if (m->arch->own_rope) return;
    if (m->arch->nested_rope) {
        write_nested_rope(m, out);
        return;
    }
    gguf_config_number(out, "rope_theta", m->rope_theta);
    if (m->head_dim && m->arch->partial) /* also all of it: families differ in what absence means */
        gguf_config_number(out, "partial_rotary_factor", (double)m->rotated / (double)m->head_dim);
    if (m->rope == ROPE_PLAIN) return;
    buffer_text(out, "  \"rope_scaling\": ");
    gguf_rope_write(m, out);
    buffer_text(out, ",\n");
}

bool gguf_config(const GgufModel *m, const char *quantization, Buffer *out, Error *err) {
    const Architecture *arch = m->arch;
    buffer_printf(out, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n", arch->class_name,
                  arch->model_type);
    write_sizes(m, out);
    if (arch->constants) buffer_text(out, arch->constants);
    write_rope(m, out);
    for (const ConfigField *f = arch->fields; f && f->from; f++)
        if (!write_field(m, f, out, err)) return false;
    if (arch->write && !arch->write(m, out, err)) return false;
    write_id(m, "tokenizer.ggml.bos_token_id", "bos_token_id", out);
    write_id(m, "tokenizer.ggml.eos_token_id", "eos_token_id", out);
    for (int i = 1; i < N_BIAS_GROUPS; i++)
        if (arch->bias_keys[i] && *arch->bias_keys[i])
            buffer_printf(out, "  \"%s\": %s,\n", arch->bias_keys[i], m->biases[i] ? "true" : "false");
    if (quantization) buffer_printf(out, "  \"quantization\": %s,\n", quantization);
    buffer_printf(out, "  \"tie_word_embeddings\": %s\n}\n", m->tied ? "true" : "false");
    return !out->failed || error_memory(err, "config.json");
}
