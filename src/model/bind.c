/* The binder. Its first half finds every tensor and checks name, type and shape, filling a plan; nothing is allocated
 * for weights until the checkpoint has been found to hold exactly what the blueprint names. The second half carries the
 * plan out. */
#include "model/bind.h"
#include "base/log.h"
#include "base/memory.h"
#include "math/format_read.h"
#include "model/mechanism.h"
#include "model/quantization.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 256 };

typedef struct LinearPlan {
    WeightSource source;
    const Tensor
        *parts[5]; /* weight, scales, biases, d, dmin: what may be released once an integer weight is laid out */
    const Tensor *bias;
    const Linear **out;
} LinearPlan;

typedef struct VectorPlan {
    const Tensor *tensor;
    const float **out;
} VectorPlan;

struct Binder {
    const Checkpoint *checkpoint;
    const Blueprint *blueprint;
    const Family *family;
    Quantization quantization;
    LinearPlan *linears;
    VectorPlan *vectors;
    const Tensor **used;
    int n_linears, n_vectors, n_used;
    int linear_capacity, vector_capacity, used_capacity;
    bool head_warned;
    Error *err;
};

/* ---- finding and checking ---- */

bool bind_fail(Binder *b, const char *format, ...) {
    char text[sizeof b->err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(b->err, "%s", text);
}

int bind_hidden(const Binder *b) {
    return b->blueprint->hidden;
}

/* Room for one more in a growing array. */
static bool grow(Binder *b, void **array, int n, int *capacity, size_t size) {
    if (n < *capacity) return true;
    int more = *capacity ? 2 * *capacity : 256;
    void *p = mem_resize(*array, (size_t)more, size);
    if (!p) return error_memory(b->err, "the list of weights");
    *array = p;
    *capacity = more;
    return true;
}

static bool mark_used(Binder *b, const Tensor *t) {
    if (!grow(b, (void **)&b->used, b->n_used, &b->used_capacity, sizeof *b->used)) return false;
    b->used[b->n_used++] = t;
    return true;
}

/* "model.layers.*.norm" with the layer's number and a suffix. */
static void expand_name(const char *name, int layer, const char *suffix, char out[NAME_MAX_BYTES]) {
    const char *star = strchr(name, '*');
    if (star)
        snprintf(out, NAME_MAX_BYTES, "%.*s%d%s%s", (int)(star - name), name, layer, star + 1, suffix);
    else
        snprintf(out, NAME_MAX_BYTES, "%s%s", name, suffix);
}

static void shape_text(int n_dims, const int64_t shape[2], char *out, size_t capacity) {
    if (n_dims == 1)
        snprintf(out, capacity, "[%lld]", (long long)shape[0]);
    else
        snprintf(out, capacity, "[%lld, %lld]", (long long)shape[0], (long long)shape[1]);
}

/* The tensor, of one of the dtypes in `allowed` and of exactly this shape. */
static const Tensor *want_tensor(Binder *b, const char *name, int n_dims, int64_t rows, int64_t cols,
                                 unsigned allowed) {
    const Tensor *t = checkpoint_find(b->checkpoint, name);
    char expected[64], found[160];
    int64_t shape[2] = {rows, cols};
    shape_text(n_dims, shape, expected, sizeof expected);
    if (!t) {
        bind_fail(b, "%s: has no tensor \"%s\", expected with shape %s", checkpoint_folder(b->checkpoint), name,
                  expected);
        return NULL;
    }
    if (t->n_dims != n_dims || t->shape[0] != rows || (n_dims == 2 && t->shape[1] != cols)) {
        tensor_shape_text(t, found, sizeof found);
        bind_fail(b, "%s: tensor \"%s\" has shape %s, config.json implies %s", t->file, name, found, expected);
        return NULL;
    }
    if (!(allowed >> t->dtype & 1)) {
        bind_fail(b, "%s: tensor \"%s\" has the type %s, which is not one it can have here", t->file, name,
                  dtype_name(t->dtype));
        return NULL;
    }
    return mark_used(b, t) ? t : NULL;
}

static const unsigned FLOATS = 1u << DTYPE_F32 | 1u << DTYPE_F16 | 1u << DTYPE_BF16;
static const unsigned BYTES = 1u << DTYPE_U8 | 1u << DTYPE_I8;

static WeightFormat float_format(DType t) {
    return t == DTYPE_F32 ? WEIGHT_F32 : t == DTYPE_F16 ? WEIGHT_F16 : WEIGHT_BF16;
}

static ScaleType scale_type(DType t) {
    return t == DTYPE_F32 ? SCALE_F32 : t == DTYPE_F16 ? SCALE_F16 : SCALE_BF16;
}

static const Tensor *want_part(Binder *b, const char *module, const char *suffix, int64_t rows, int64_t cols,
                               unsigned allowed) {
    char name[NAME_MAX_BYTES + 16];
    snprintf(name, sizeof name, "%s%s", module, suffix);
    return want_tensor(b, name, 2, rows, cols, allowed);
}

static bool plan_float(Binder *b, const char *module, LinearPlan *plan) {
    const Tensor *t = want_part(b, module, ".weight", plan->source.rows, plan->source.cols, FLOATS);
    if (!t) return false;
    plan->parts[0] = t;
    plan->source.format = float_format(t->dtype);
    plan->source.codes = t->data;
    return true;
}

/* Sub-scales, d and dmin of a K-quant; scales of a microscaling format; scales and biases of affine. */
static bool plan_scales(Binder *b, const char *module, LinearPlan *plan, const WeightRowBytes *bytes) {
    WeightSource *s = &plan->source;
    bool k = format_is_k(s->format), affine = s->format == WEIGHT_AFFINE, biased = format_has_bias(s->format);
    int64_t cols = affine ? s->cols / s->group : (int64_t)bytes->scales;
    const Tensor **p = plan->parts;
    if (!(p[1] = want_part(b, module, ".scales", s->rows, cols, affine ? FLOATS : BYTES))) return false;
    s->scales = p[1]->data;
    if (affine) {
        if (!(p[2] = want_part(b, module, ".biases", s->rows, cols, 1u << p[1]->dtype))) return false;
        s->biases = p[2]->data;
    }
    if (k && !(p[3] = want_part(b, module, ".d", s->rows, s->cols / 256, 1u << DTYPE_F16))) return false;
    if (k && biased && !(p[4] = want_part(b, module, ".dmin", s->rows, s->cols / 256, 1u << DTYPE_F16))) return false;
    if (k) s->d = p[3]->data;
    if (p[4]) s->dmin = p[4]->data;
    return true;
}

static bool plan_quantized(Binder *b, const char *module, const Tensor *scales, LinearPlan *plan) {
    WeightSource *s = &plan->source;
    WeightRowBytes bytes;
    if (!b->quantization.object)
        return bind_fail(b, "%s: tensor \"%s.scales\" is there, but config.json has no \"quantization\"", scales->file,
                         module);
    QuantSpec spec = quantization_of(&b->quantization, module);
    if (spec.off)
        return bind_fail(b, "%s: tensor \"%s.scales\" is there, but config.json says the module is not quantised",
                         scales->file, module);
    s->format = spec.format;
    s->bits = spec.bits;
    s->group = spec.group;
    if (s->format == WEIGHT_AFFINE) s->scale_type = scale_type(scales->dtype);
    if (!weight_row_bytes(s, &bytes, b->err)) return error_prefix(b->err, "%s: \"%s\"", scales->file, module);
    plan->parts[0] = want_part(b, module, ".weight", s->rows, (int64_t)(bytes.codes / 4), 1u << DTYPE_U32);
    if (!plan->parts[0] || !plan_scales(b, module, plan, &bytes)) {
        char name[64];
        weight_format_name(s, name, sizeof name);
        return error_prefix(b->err, "read as %s", name);
    }
    s->codes = plan->parts[0]->data;
    return true;
}

/* A module is quantised exactly when it has scales: layers whose inputs do not divide into groups are left as floats.
 */
static bool plan_weight(Binder *b, const char *module, int64_t rows, int64_t cols, LinearPlan *plan) {
    char name[NAME_MAX_BYTES + 16];
    snprintf(name, sizeof name, "%s.scales", module);
    const Tensor *scales = checkpoint_find(b->checkpoint, name);
    *plan = (LinearPlan){.source = {.rows = rows, .cols = cols}};
    return scales ? plan_quantized(b, module, scales, plan) : plan_float(b, module, plan);
}

static bool add_linear(Binder *b, const LinearPlan *plan) {
    if (!grow(b, (void **)&b->linears, b->n_linears, &b->linear_capacity, sizeof *b->linears)) return false;
    b->linears[b->n_linears++] = *plan;
    return true;
}

bool bind_linear(Binder *b, LinearSpec spec, int layer, int64_t rows, int64_t cols, const Linear **out) {
    char module[NAME_MAX_BYTES], bias[NAME_MAX_BYTES];
    LinearPlan plan;
    expand_name(spec.name, layer, "", module);
    expand_name(spec.name, layer, ".bias", bias);
    if (!plan_weight(b, module, rows, cols, &plan)) return false;
    if (spec.bias && !(plan.bias = want_tensor(b, bias, 1, rows, 0, FLOATS))) return false;
    plan.out = out;
    return add_linear(b, &plan);
}

bool bind_vector(Binder *b, const char *name, int layer, int64_t n, const float **out) {
    char full[NAME_MAX_BYTES];
    expand_name(name, layer, "", full);
    const Tensor *t = want_tensor(b, full, 1, n, 0, FLOATS);
    if (!t || !grow(b, (void **)&b->vectors, b->n_vectors, &b->vector_capacity, sizeof *b->vectors)) return false;
    b->vectors[b->n_vectors++] = (VectorPlan){t, out};
    return true;
}

/* ---- the head ---- */

static bool same_tensor(const Tensor *a, const Tensor *b) {
    if (!a || !b) return a == b;
    return a->dtype == b->dtype && a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

static bool same_weight(const LinearPlan *a, const LinearPlan *b) {
    bool same =
        a->source.format == b->source.format && a->source.bits == b->source.bits && a->source.group == b->source.group;
    for (int i = 0; i < 5; i++) same = same && same_tensor(a->parts[i], b->parts[i]);
    return same;
}

/* A head beside tied embeddings: an equal copy ties, a different one is used, as in transformers 5 (mlx-lm drops it).
 */
static bool bind_head(Binder *b, Weights *w) {
    const Blueprint *p = b->blueprint;
    LinearPlan embedding = b->linears[0], head;
    char name[NAME_MAX_BYTES];
    expand_name(p->head.name, -1, ".weight", name);
    bool present = checkpoint_find(b->checkpoint, name) != NULL;
    if (!present && p->tie == TIE_NO)
        return bind_fail(b, "%s: has no tensor \"%s\", though config.json says that it is not tied to the embedding",
                         checkpoint_folder(b->checkpoint), name);
    if (!present) return true;
    expand_name(p->head.name, -1, "", name);
    if (!plan_weight(b, name, p->vocab, p->hidden, &head)) return false;
    if (p->tie == TIE_YES && same_weight(&embedding, &head)) return true;
    b->head_warned = p->tie == TIE_YES;
    head.out = &w->head;
    return add_linear(b, &head);
}

/* ---- what is left over ---- */

static int compare_pointers(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (const Tensor *const *)a, y = (uintptr_t) * (const Tensor *const *)b;
    return x < y ? -1 : x > y;
}

/* '*' stands for any run of characters. */
static bool name_matches(const char *pattern, const char *name) {
    if (*pattern == '*') return name_matches(pattern + 1, name) || (*name && name_matches(pattern, name + 1));
    return *pattern == *name && (!*name || name_matches(pattern + 1, name + 1));
}

static bool is_skipped(const Family *family, const char *name) {
    for (const char *const *p = family->skipped_tensors; p && *p; p++)
        if (name_matches(*p, name)) return true;
    return false;
}

static bool add_skipped(Binder *b, Weights *w, const char *name) {
    char **list = mem_resize(w->skipped, (size_t)w->n_skipped + 1, sizeof *list);
    if (!list) return error_memory(b->err, "the list of tensors");
    w->skipped = list;
    if (!(list[w->n_skipped] = mem_string(name, strlen(name)))) return error_memory(b->err, "the list of tensors");
    w->n_skipped++;
    return true;
}

/* Every tensor of the checkpoint must have been asked for, or be one that the family skips. */
static bool check_leftovers(Binder *b, Weights *w) {
    const Tensor *extra = NULL;
    int n_extra = 0;
    if (b->n_used) qsort(b->used, (size_t)b->n_used, sizeof *b->used, compare_pointers);
    for (int i = 0; i < checkpoint_count(b->checkpoint); i++) {
        const Tensor *t = checkpoint_tensor(b->checkpoint, i);
        if (b->n_used && bsearch(&t, b->used, (size_t)b->n_used, sizeof t, compare_pointers)) continue;
        if (is_skipped(b->family, t->name)) {
            if (!add_skipped(b, w, t->name)) return false;
        } else if (n_extra++ == 0) {
            extra = t;
        }
    }
    if (!extra) return true;
    char found[160];
    tensor_shape_text(extra, found, sizeof found);
    if (n_extra == 1)
        return bind_fail(b, "%s: tensor \"%.200s\" %s has no place in this %s model as config.json describes it",
                         extra->file, extra->name, found, b->family->name);
    return bind_fail(
        b, "%s: tensor \"%.200s\" %s and %d others have no place in this %s model as config.json describes it",
        extra->file, extra->name, found, n_extra - 1, b->family->name);
}

static bool plan_layer(Binder *b, int i, LayerWeights *w) {
    const LayerSpec *spec = &b->blueprint->layers[i];
    int hidden = b->blueprint->hidden;
    return bind_vector(b, spec->mixer_norm, i, hidden, &w->mixer_norm) &&
           bind_vector(b, spec->ffn_norm, i, hidden, &w->ffn_norm) && spec->mixer->bind(b, spec, i, w) &&
           spec->ffn->bind(b, spec, i, w);
}

static bool plan_all(Binder *b, Weights *w) {
    const Blueprint *p = b->blueprint;
    if (!bind_linear(b, p->embedding, -1, p->vocab, p->hidden, &w->embedding)) return false;
    if (!bind_vector(b, p->final_norm, -1, p->hidden, &w->final_norm)) return false;
    for (int i = 0; i < p->n_layers; i++)
        if (!plan_layer(b, i, &w->layers[i])) return false;
    return bind_head(b, w) && check_leftovers(b, w);
}

/* ---- taking memory ---- */

static float *read_vector(const Tensor *t) {
    WeightSource source = {.format = float_format(t->dtype), .rows = 1, .cols = t->shape[0], .codes = t->data};
    float *values = mem_array((size_t)t->shape[0], sizeof *values);
    if (values) weight_row(&source, 0, values);
    return values;
}

static bool load_linear(const LinearPlan *plan, Weights *w, Pool *pool, Error *err) {
    char format[64];
    float *bias = plan->bias ? read_vector(plan->bias) : NULL;
    if (plan->bias && !bias) return error_memory(err, "a bias");
    Linear *linear = linear_new(&plan->source, bias, pool, err);
    mem_free(bias);
    if (!linear) return error_prefix(err, "%s", plan->parts[0]->name);
    w->linears[w->n_linears] = linear;
    weight_format_name(&plan->source, format, sizeof format);
    w->formats[w->n_linears++] = mem_string(format, strlen(format));
    if (!w->formats[w->n_linears - 1]) return error_memory(err, "a name");
    *plan->out = linear;
    for (int i = 0; i < 5 && linear_is_integer(linear); i++)
        if (plan->parts[i]) mapping_release(plan->parts[i]->data, plan->parts[i]->bytes);
    return true;
}

static bool load_all(const Binder *b, Weights *w, Pool *pool, Error *err) {
    w->linears = mem_zeroed((size_t)b->n_linears, sizeof *w->linears);
    w->formats = mem_zeroed((size_t)b->n_linears, sizeof *w->formats);
    w->vectors = mem_zeroed((size_t)b->n_vectors, sizeof *w->vectors);
    if (!w->linears || !w->formats || !w->vectors) return error_memory(err, "the list of weights");
    for (int i = 0; i < b->n_vectors; i++) {
        if (!(w->vectors[i] = read_vector(b->vectors[i].tensor))) return error_memory(err, "a norm");
        *b->vectors[i].out = w->vectors[w->n_vectors++];
    }
    for (int i = 0; i < b->n_linears; i++)
        if (!load_linear(&b->linears[i], w, pool, err)) return false;
    if (!w->head) w->head = w->embedding;
    return true;
}

void weights_clear(Weights *w) {
    for (int i = 0; i < w->n_linears; i++) {
        linear_free(w->linears[i]);
        mem_free(w->formats[i]);
    }
    for (int i = 0; i < w->n_vectors; i++) mem_free(w->vectors[i]);
    for (int i = 0; i < w->n_skipped; i++) mem_free(w->skipped[i]);
    mem_free(w->linears);
    mem_free(w->formats);
    mem_free(w->vectors);
    mem_free(w->skipped);
    mem_free(w->layers);
    *w = (Weights){0};
}

bool weights_bind(const Checkpoint *checkpoint, const Blueprint *blueprint, const Family *family, Pool *pool,
                  Weights *out, Error *err) {
    Error local;
    Binder b = {.checkpoint = checkpoint, .blueprint = blueprint, .family = family, .err = err ? err : &local};
    Weights w = {0};
    w.layers = mem_zeroed((size_t)blueprint->n_layers, sizeof *w.layers);
    bool ok = w.layers || error_memory(err, "the layers");
    ok = ok && quantization_read(checkpoint_config(checkpoint), &b.quantization, b.err) && plan_all(&b, &w) &&
         load_all(&b, &w, pool, b.err);
    if (ok && b.head_warned)
        log_warn("%s.weight differs from the embedding although config.json ties them; it is used",
                 blueprint->head.name);
    mem_free(b.linears);
    mem_free(b.vectors);
    mem_free(b.used);
    if (ok)
        *out = w;
    else
        weights_clear(&w);
    return ok;
}
