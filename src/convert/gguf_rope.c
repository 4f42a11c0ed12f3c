/* How a GGUF file says that rotary frequencies are scaled. Llama 3's rule is not named there at all: the converter
 * stores the resulting factor of every frequency in rope_freqs.weight, so the rule is recognised by computing the
 * factors of the published settings and comparing. The converter computes in float32, others may in double: a factor
 * has to equal either. */
#include "convert/gguf_rope.h"
#include "convert/gguf_config.h"

#include <math.h>
#include <string.h>

/* Keys that change the rotation in a way config.json can not say: refused unless they hold the neutral value. */
static bool check_neutral(const GgufModel *m, Error *err) {
    static const struct {
        const char *key;
        double neutral;
    } keys[] = {
        {"rope.scaling.attn_factor", 1}, {"rope.scaling.yarn_log_multiplier", 0}, {"rope.scaling.yarn_ext_factor", 1}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double v;
        if (i == 0 && m->rope == ROPE_LONG) continue; /* read with the factors */
        if (i == 1 && m->arch->mscale != 0) continue;
        if (!gguf_model_number(m, keys[i].key, keys[i].neutral, &v, err)) return false;
        if (v != keys[i].neutral)
            return error_set(err, "metadata %s.%s is %g, which can not be imported yet", m->arch->name, keys[i].key, v);
    }
    return true;
}

static bool read_type(GgufModel *m, Error *err) {
    const GgufValue *v = gguf_model_find(m, "rope.scaling.type");
    bool scaled = m->rope_factor != 1;
    m->rope = scaled ? ROPE_LINEAR : ROPE_PLAIN;
    if (!v) return true;
    if (v->kind != GGUF_STRING) return error_set(err, "metadata %s.rope.scaling.type is no text", m->arch->name);
    const char *text = (const char *)v->data;
    int n = v->count < 40 ? (int)v->count : 40;
    if (v->count == 4 && memcmp(text, "none", 4) == 0)
        m->rope = ROPE_PLAIN;
    else if (v->count == 4 && memcmp(text, "yarn", 4) == 0)
        m->rope = ROPE_YARN;
    else if (v->count == 8 && memcmp(text, "longrope", 8) == 0)
        m->rope = ROPE_LONG;
    else if (v->count != 6 || memcmp(text, "linear", 6) != 0)
        return error_set(err, "rope scaling \"%.*s\" can not be imported; known: none, linear, yarn, longrope", n,
                         text);
    return true;
}

typedef struct Llama3Rule {
    double factor, low, high, original;
} Llama3Rule;

static const Llama3Rule llama3_rules[] = {{8, 1, 4, 8192}, {32, 1, 4, 8192}};

static double llama3_factor(const Llama3Rule *r, double wavelength) {
    if (wavelength < r->original / r->high) return 1;
    if (wavelength > r->original / r->low) return r->factor;
    double smooth = (r->original / wavelength - r->low) / (r->high - r->low);
    return 1 / ((1 - smooth) / r->factor + smooth);
}

/* The same with the converter's float32 tensors. */
static float llama3_factor_f32(const Llama3Rule *r, float frequency) {
    float wavelength = (float)(2 * 3.141592653589793) / frequency;
    if ((double)wavelength < r->original / r->high) return 1;
    if ((double)wavelength > r->original / r->low) return (float)r->factor;
    float smooth = ((float)r->original / wavelength - (float)r->low) / (float)(r->high - r->low);
    return 1.0f / ((1.0f - smooth) / (float)r->factor + smooth);
}

static bool matches(const Llama3Rule *r, const GgufModel *m, const float *factors) {
    for (int64_t i = 0; i < m->rotated / 2; i++) {
        double power = pow(m->rope_theta, (double)(2 * i) / (double)m->rotated), f = (double)factors[i];
        double exact = llama3_factor(r, 2 * 3.141592653589793 * power);
        double rounded = (double)llama3_factor_f32(r, 1.0f / (float)power);
        if (!(fabs(f - exact) <= 1e-6 * exact) && !(fabs(f - rounded) <= 1e-6 * rounded)) return false;
    }
    return true;
}

enum { MAX_FACTORS = 512 };

static bool check_factors(const GgufModel *m, const GgufTensor *t, Error *err) {
    if (t && t->type == GGML_F32 && t->n_dims == 1 && t->shape[0] == m->rotated / 2 && t->shape[0] <= MAX_FACTORS)
        return true;
    return error_set(err, "%s does not hold one F32 per rotated pair", t ? t->name : "a tensor of rope factors");
}

/* Factors that no published rule gives are kept one by one: longrope with one list for all lengths. */
static bool read_factors(GgufModel *m, const GgufTensor *t, Error *err) {
    float factors[MAX_FACTORS];
    if (!check_factors(m, t, err)) return false;
    if (m->rope != ROPE_PLAIN) return error_set(err, "has both rope_freqs.weight and rope scaling in its metadata");
    memcpy(factors, t->data, (size_t)t->shape[0] * sizeof *factors);
    m->rope = ROPE_LONG;
    m->short_factors = m->long_factors = t;
    m->attention_factor = 1;
    for (size_t i = 0; i < sizeof llama3_rules / sizeof *llama3_rules; i++) {
        const Llama3Rule *r = &llama3_rules[i];
        if (!matches(r, m, factors)) continue;
        m->rope = ROPE_LLAMA3;
        m->rope_factor = r->factor;
        m->rope_low = r->low;
        m->rope_high = r->high;
        m->rope_original = (int64_t)r->original;
        return true;
    }
    for (int64_t i = 0; i < t->shape[0]; i++)
        if (!(factors[i] > 0 && isfinite(factors[i])))
            return error_set(err, "rope_freqs.weight holds a factor that is not above 0");
    return true;
}

/* LongRoPE: one list of factors for prefixes up to the original context, one for longer ones. */
static bool read_long(GgufModel *m, Error *err) {
    m->short_factors = gguf_find_tensor(m->file, "rope_factors_short.weight");
    m->long_factors = gguf_find_tensor(m->file, "rope_factors_long.weight");
    if (!m->short_factors && !m->long_factors)
        return m->rope != ROPE_LONG || error_set(err, "says longrope, but has no tensors with its factors");
    m->rope = ROPE_LONG;
    double grown = (double)m->context / (double)m->rope_original;
    double usual = grown <= 1 ? 1 : sqrt(1 + log(grown) / log((double)m->rope_original));
    if (!gguf_model_number(m, "rope.scaling.attn_factor", 0, &m->attention_factor, err)) return false;
    if (fabs(m->attention_factor / usual - 1) < 1e-6) m->attention_factor = 0; /* what a reader computes */
    return check_factors(m, m->short_factors, err) && check_factors(m, m->long_factors, err);
}

bool gguf_rope_read(GgufModel *m, Error *err) {
    double linear, original, log_multiplier;
    if (!gguf_model_number(m, "rope.freq_base", 10000, &m->rope_theta, err) ||
        !gguf_model_number(m, "rope.scale_linear", 1, &linear, err) ||
        !gguf_model_number(m, "rope.scaling.factor", linear, &m->rope_factor, err) ||
        !gguf_model_number(m, "rope.scaling.yarn_beta_fast", 0, &m->beta_fast, err) ||
        !gguf_model_number(m, "rope.scaling.yarn_beta_slow", 0, &m->beta_slow, err) ||
        !gguf_model_number(m, "rope.scaling.yarn_attn_factor", 0, &m->attention_factor, err) ||
        !gguf_model_number(m, "rope.scaling.yarn_log_multiplier", 0, &log_multiplier, err) ||
        !gguf_model_number(m, "rope.scaling.original_context_length", (double)m->context, &original, err))
        return false;
    if (m->rope_factor == 0) m->rope_factor = 1; /* ggml reads 0 as "none" */
    if (m->rope_theta <= 0 || m->rope_factor < 0 || original < 1 || original > 1e9)
        return error_set(err, "metadata of the rotary embedding is out of range");
    m->rope_original = (int64_t)original;
    m->mscale = gguf_shortest(log_multiplier) * m->arch->mscale;
    const GgufTensor *factors = gguf_find_tensor(m->file, "rope_freqs.weight");
    return read_type(m, err) && read_long(m, err) && check_neutral(m, err) &&
           (!factors || read_factors(m, factors, err));
}

static void write_number(Buffer *out, const char *key, double value) {
    buffer_printf(out, ", \"%s\": ", key);
    gguf_number_repr(value, out);
}

static void write_factors(Buffer *out, const char *key, const GgufTensor *t) {
    buffer_printf(out, ", \"%s\": [", key);
    for (int64_t i = 0; i < t->shape[0]; i++) {
        float factor;
        memcpy(&factor, t->data + 4 * i, 4);
        if (i) buffer_text(out, ", ");
        gguf_number_repr((double)factor, out);
    }
    buffer_byte(out, ']');
}

static void write_yarn(const GgufModel *m, Buffer *out) {
    if (m->beta_fast > 0) write_number(out, "beta_fast", m->beta_fast);
    if (m->beta_slow > 0) write_number(out, "beta_slow", m->beta_slow);
    if (m->attention_factor > 0) write_number(out, "attention_factor", m->attention_factor);
    if (m->mscale != 0) {
        write_number(out, "mscale", m->mscale);
        write_number(out, "mscale_all_dim", m->mscale);
    }
    if (m->arch->yarn_exact) buffer_text(out, ", \"truncate\": false");
}

void gguf_rope_members(const GgufModel *m, Buffer *out) {
    static const char *const names[] = {[ROPE_PLAIN] = "default",
                                        [ROPE_LINEAR] = "linear",
                                        [ROPE_YARN] = "yarn",
                                        [ROPE_LLAMA3] = "llama3",
                                        [ROPE_LONG] = "longrope"};
    buffer_printf(out, "\"rope_type\": \"%s\"", names[m->rope]);
    if (m->rope == ROPE_PLAIN) return;
    if (m->rope != ROPE_LONG) write_number(out, "factor", m->rope_factor);
    if (m->rope == ROPE_LLAMA3) {
        write_number(out, "low_freq_factor", m->rope_low);
        write_number(out, "high_freq_factor", m->rope_high);
    }
    if (m->rope == ROPE_YARN) write_yarn(m, out);
    if (m->rope == ROPE_LONG) {
        write_factors(out, "short_factor", m->short_factors);
        write_factors(out, "long_factor", m->long_factors);
        if (m->attention_factor > 0) write_number(out, "attention_factor", m->attention_factor);
    }
    if (m->rope != ROPE_LINEAR)
        buffer_printf(out, ", \"original_max_position_embeddings\": %lld", (long long)m->rope_original);
}

void gguf_rope_write(const GgufModel *m, Buffer *out) {
    if (m->rope == ROPE_PLAIN) return;
    buffer_byte(out, '{');
    gguf_rope_members(m, out);
    buffer_byte(out, '}');
}
