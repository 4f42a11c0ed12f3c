/* The binder's first half: every tensor is found and its name, type and shape are checked, filling a plan. Nothing is
 * allocated for weights until the checkpoint has been found to hold exactly what the blueprint names. */
#include "model/bind.h"
#include "base/memory.h"
#include "math/format_read.h"
#include "model/bind_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

int bind_vocab(const Binder *b) {
    return b->blueprint->vocab;
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

bool bind_mark_used(Binder *b, const Tensor *t) {
    if (!grow(b, (void **)&b->used, b->n_used, &b->used_capacity, sizeof *b->used)) return false;
    b->used[b->n_used++] = t;
    return true;
}

/* ---- tensors ---- */

static void shape_text(const Shape *s, char *out, size_t capacity) {
    size_t at = 0;
    for (int i = 0; i < s->n_dims; i++)
        at += (size_t)snprintf(out + at, capacity - at, "%s%lld", i ? ", " : "[", (long long)s->dims[i]);
    snprintf(out + at, capacity - at, "]");
}

static bool has_shape(const Tensor *t, const Shape *s) {
    if (t->n_dims != s->n_dims) return false;
    for (int i = 0; i < s->n_dims; i++)
        if (t->shape[i] != s->dims[i]) return false;
    return true;
}

const Tensor *bind_tensor(Binder *b, const char *name, const Shape *shape, unsigned allowed) {
    const Tensor *t = checkpoint_find(b->names->checkpoint, name);
    char expected[96], found[160];
    shape_text(shape, expected, sizeof expected);
    if (!t) {
        bind_fail(b, "%s: has no tensor \"%s\", expected with shape %s", checkpoint_folder(b->names->checkpoint), name,
                  expected);
        return NULL;
    }
    if (!has_shape(t, shape)) {
        tensor_shape_text(t, found, sizeof found);
        bind_fail(b, "%s: tensor \"%s\" has shape %s, config.json implies %s", t->file, name, found, expected);
        return NULL;
    }
    if (!(allowed >> t->dtype & 1)) {
        bind_fail(b, "%s: tensor \"%s\" has the type %s, which is not one it can have here", t->file, name,
                  dtype_name(t->dtype));
        return NULL;
    }
    return bind_mark_used(b, t) ? t : NULL;
}

static const unsigned BYTES = 1u << DTYPE_U8 | 1u << DTYPE_I8;

WeightFormat bind_float_format(DType t) {
    return t == DTYPE_F32 ? WEIGHT_F32 : t == DTYPE_F16 ? WEIGHT_F16 : WEIGHT_BF16;
}

static ScaleType scale_type(DType t) {
    return t == DTYPE_F32 ? SCALE_F32 : t == DTYPE_F16 ? SCALE_F16 : SCALE_BF16;
}

/* ---- a matrix ---- */

const Tensor *bind_part(Binder *b, const LinearPlan *plan, const char *module, const char *suffix, int64_t rows,
                        int64_t cols, unsigned allowed, const void **data) {
    char name[NAME_MAX_BYTES + 16];
    Shape matrix = {2, {rows, cols}}, stack = {3, {plan->n_slots, rows, cols}};
    snprintf(name, sizeof name, "%s%s", module, suffix);
    const Tensor *t = bind_tensor(b, name, plan->stacked ? &stack : &matrix, allowed);
    if (t) *data = t->data + t->bytes / (uint64_t)plan->n_slots * (uint64_t)plan->slot;
    return t;
}

/* The same with as many rows as the matrix. */
static const Tensor *want_part(Binder *b, const LinearPlan *plan, const char *module, const char *suffix, int64_t cols,
                               unsigned allowed, const void **data) {
    return bind_part(b, plan, module, suffix, plan->source.rows, cols, allowed, data);
}

static bool plan_float(Binder *b, const char *module, const char *suffix, LinearPlan *plan) {
    WeightSource *s = &plan->source;
    int64_t cols = s->cols;
    const Tensor *t = plan->parts[0] = want_part(b, plan, module, suffix, cols, FLOAT_TYPES, &s->codes);
    if (t) s->format = bind_float_format(t->dtype);
    return t != NULL;
}

/* Sub-scales, d and dmin of a K-quant; scales of a microscaling format; scales and biases of affine. */
static bool plan_scales(Binder *b, const char *module, LinearPlan *plan, const WeightRowBytes *bytes) {
    WeightSource *s = &plan->source;
    bool k = format_is_k(s->format), affine = s->format == WEIGHT_AFFINE, biased = format_has_bias(s->format);
    int64_t cols = affine ? s->cols / s->group : (int64_t)bytes->scales;
    const Tensor **p = plan->parts;
    if (!(p[1] = want_part(b, plan, module, ".scales", cols, affine ? FLOAT_TYPES : BYTES, &s->scales))) return false;
    if (affine && !(p[2] = want_part(b, plan, module, ".biases", cols, 1u << p[1]->dtype, &s->biases))) return false;
    if (k && !(p[3] = want_part(b, plan, module, ".d", s->cols / 256, 1u << DTYPE_F16, &s->d))) return false;
    if (k && biased && !(p[4] = want_part(b, plan, module, ".dmin", s->cols / 256, 1u << DTYPE_F16, &s->dmin)))
        return false;
    return true;
}

/* The entry of config.json's "modules" that is for this module, whose path begins inside the text model. */
static const JsonValue *packed_record(const Binder *b, const char *module) {
    const JsonValue *list = json_get_set(checkpoint_config(b->names->checkpoint), "modules");
    size_t length = strlen(module);
    for (uint32_t i = 0; list && list->type == JSON_ARRAY && i < list->length; i++) {
        const JsonValue *record = json_item(list, i);
        const char *path = json_string(json_get_set(record, "path"));
        size_t n = path ? strlen(path) : 0;
        if (path && n <= length && strcmp(module + length - n, path) == 0 &&
            (n == length || module[length - n - 1] == '.'))
            return record;
    }
    return NULL;
}

static bool are_signs(const Tensor *t, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float sign;
        memcpy(&sign, t->data + (size_t)i * sizeof sign, sizeof sign);
        if (sign != 1 && sign != -1) return false;
    }
    return true;
}

/* How the inputs of a packed module are turned. */
static bool plan_turn(Binder *b, const char *module, LinearPlan *plan) {
    WeightSource *s = &plan->source;
    const JsonValue *record = packed_record(b, module), *value = json_get_set(record, "block");
    char name[NAME_MAX_BYTES + 16];
    Shape shape = {1, {s->cols}};
    int64_t block = -1;
    if (!record) return bind_fail(b, "config.json: \"modules\" has no entry for the packed weights of \"%s\"", module);
    if (!json_int(value, &block) || (block != 0 && (block < 512 || block > 8192 || (block & (block - 1)))) ||
        (block && s->cols % block))
        return bind_fail(b,
                         "config.json: \"modules\" has a \"block\" for \"%s\" that is not 0, or a power of two from "
                         "512 to 8192 that divides its %lld inputs",
                         module, (long long)s->cols);
    if (block == 0) return true;
    snprintf(name, sizeof name, "%s.signs", module);
    const Tensor *signs = bind_tensor(b, name, &shape, 1u << DTYPE_F32);
    if (!signs) return false;
    if (!are_signs(signs, s->cols))
        return bind_fail(b, "%s: tensor \"%s\" has a value that is neither 1 nor -1", signs->file, name);
    s->signs = signs->data;
    s->turned = (int)block;
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
    int64_t words = (int64_t)(bytes.codes / 4);
    plan->parts[0] = want_part(b, plan, module, ".weight", words, 1u << DTYPE_U32, &s->codes);
    if (!plan->parts[0] || !plan_scales(b, module, plan, &bytes)) {
        char name[64];
        weight_format_name(s, name, sizeof name);
        return error_prefix(b->err, "read as %s", name);
    }
    return !b->blueprint->packed || plan_turn(b, module, plan);
}

/* The rows that the tensor must have, of which the matrix takes some. */
static bool plan_shape(Binder *b, const LinearSpec *spec, int64_t rows, int64_t cols, LinearPlan *plan) {
    const RowSlice *r = &spec->rows;
    bool sliced = r->total > 0;
    int64_t last = sliced && r->take > 0 ? r->from + (rows - 1) / r->take * r->period + (rows - 1) % r->take : 0;
    if (rows < 1 || cols < 1 || rows > CONFIG_MAX_SIZE || cols > CONFIG_MAX_SIZE || last >= (sliced ? r->total : 1) ||
        (sliced && (r->take < 1 || r->from < 0 || (rows > r->take && r->period < r->take))))
        return bind_fail(b, "config.json: \"%s\" cannot be a matrix of %lld by %lld", spec->name, (long long)rows,
                         (long long)cols);
    int64_t there = sliced ? r->total : rows;
    plan->rows = *r;
    plan->transposed = spec->transposed;
    plan->unit_rows = spec->unit_rows;
    plan->source.rows = spec->transposed ? (plan->n_inputs ? plan->n_inputs : cols) : there;
    plan->source.cols = spec->transposed ? there : cols;
    plan->n_inputs = cols;
    if (!sliced) plan->rows = (RowSlice){there, 0, there, 0};
    plan->rows.total = rows; /* from here on: how many are taken */
    return true;
}

/* A module is quantised exactly when it has scales: layers whose inputs do not divide into groups are left as floats.
 */
bool bind_plan_weight(Binder *b, const LinearSpec *spec, int layer, int expert, int64_t rows, int64_t cols,
                      LinearPlan *plan) {
    char module[NAME_MAX_BYTES], name[NAME_MAX_BYTES + 16];
    const char *suffix = spec->bare ? "" : ".weight";
    if (plan->n_slots == 0) plan->n_slots = 1;
    if (!plan_shape(b, spec, rows, cols, plan)) return false;
    names_expand(b->names, spec->name, layer, expert, suffix, module);
    if (b->quantization.published.method) {
        bool found;
        if (!bind_plan_published(b, spec, module, plan, &found)) return false;
        return found || (plan_float(b, module, suffix, plan) && bind_plan_online(b, spec, module, plan));
    }
    if (names_published(b->names, module, name))
        return bind_fail(b, "%s: has \"%s\", but config.json has no quantization_config that says how it is meant",
                         checkpoint_folder(b->names->checkpoint), name);
    snprintf(name, sizeof name, "%s.scales", module);
    const Tensor *scales = checkpoint_find(b->names->checkpoint, name);
    if (scales) return plan_quantized(b, module, scales, plan);
    plan->origin = quantization_widened(&b->quantization, module);
    return plan_float(b, module, suffix, plan);
}

bool bind_plan_bias(Binder *b, const LinearSpec *spec, int layer, int expert, LinearPlan *plan) {
    char module[NAME_MAX_BYTES], name[NAME_MAX_BYTES + 16];
    int64_t there = plan->transposed ? plan->source.cols : plan->source.rows;
    Shape vector = {1, {there}}, stack = {2, {plan->n_slots, there}};
    if (!spec->bias) return true;
    names_expand(b->names, spec->name, layer, expert, spec->bare ? "" : ".weight", module);
    snprintf(name, sizeof name, "%s%s", module, spec->bare ? "_bias" : ".bias");
    plan->bias = bind_tensor(b, name, plan->stacked ? &stack : &vector, FLOAT_TYPES);
    return plan->bias != NULL;
}

static bool same_matrix(const LinearPlan *x, const LinearPlan *y) {
    const RowSlice *r = &x->rows, *s = &y->rows;
    return x->parts[0] == y->parts[0] && x->bias == y->bias && x->slot == y->slot && x->transposed == y->transposed &&
           x->first_input == y->first_input && x->n_inputs == y->n_inputs && r->total == s->total &&
           r->from == s->from && r->take == s->take && r->period == s->period;
}

/* A layer that runs again has its matrices once in memory. */
static int find_same(const Binder *b, const LinearPlan *plan) {
    for (int i = 0; i < b->n_linears; i++)
        if (b->linears[i].same_as == 0 && same_matrix(&b->linears[i], plan)) return i + 1;
    return 0;
}

bool bind_add_linear(Binder *b, const LinearPlan *plan) {
    if (!grow(b, (void **)&b->linears, b->n_linears, &b->linear_capacity, sizeof *b->linears)) return false;
    int same_as = b->repeats ? find_same(b, plan) : 0;
    b->linears[b->n_linears] = *plan;
    b->linears[b->n_linears++].same_as = same_as;
    return true;
}

static bool plan_module(Binder *b, const LinearSpec *spec, int layer, int number, int64_t rows, int64_t cols,
                        const Linear **out) {
    LinearPlan plan = {.out = out};
    if (!spec->name) return true;
    return bind_plan_weight(b, spec, layer, number, rows, cols, &plan) &&
           bind_plan_bias(b, spec, layer, number, &plan) && bind_add_linear(b, &plan);
}

bool bind_linear(Binder *b, const LinearSpec *spec, int layer, int64_t rows, int64_t cols, const Linear **out) {
    return plan_module(b, spec, layer, -1, rows, cols, out);
}

bool bind_numbered(Binder *b, const LinearSpec *spec, int number, int64_t rows, int64_t cols, const Linear **out) {
    return plan_module(b, spec, -1, number, rows, cols, out);
}

/* ---- experts ---- */

static bool is_each(const LinearSpec *form) {
    return strchr(form->name, '#') != NULL;
}

/* The form in which the checkpoint has the experts; when it has none, the first, whose absence is then the error. */
static const LinearSpec *find_form(Binder *b, const LinearSpec *forms, int layer) {
    char module[NAME_MAX_BYTES];
    for (const LinearSpec *f = forms; f->name; f++)
        if (names_expand(b->names, f->name, layer, is_each(f) ? 0 : -1, f->bare ? "" : ".weight", module)) return f;
    return forms;
}

/* Block i of a tensor of many: rows of it, or for a transposed one inputs. */
static bool choose_block(Binder *b, const LinearSpec *form, int i, int64_t rows, int64_t cols, LinearSpec *spec,
                         LinearPlan *plan) {
    const RowBlocks *k = &form->blocks;
    int64_t first = k->from + k->stride * i;
    if (k->stride < 0 || first < 0 || first + (form->transposed ? cols : rows) > k->total)
        return bind_fail(b, "config.json: \"%s\" has %lld rows, too few for block %d", form->name, (long long)k->total,
                         i);
    if (form->transposed) {
        plan->first_input = first;
        plan->n_inputs = k->total;
    } else {
        spec->rows = (RowSlice){k->total, first, rows, rows};
    }
    return true;
}

bool bind_experts(Binder *b, const LinearSpec *forms, int layer, int n, int64_t rows, int64_t cols,
                  const Linear ***out) {
    enum { MAX_EXPERTS = 1 << 16 };
    const LinearSpec *form = find_form(b, forms, layer);
    if (!form->name) return true;
    bool each = is_each(form);
    if (n < 1 || n > MAX_EXPERTS) return bind_fail(b, "config.json: %d experts are more than any model has", n);
    const Linear **list = arena_array(&b->weights->arena, (size_t)n, sizeof *list);
    if (!list) return error_memory(b->err, "the experts");
    for (int i = 0; i < n; i++) {
        bool stacked = !each && form->blocks.total == 0;
        LinearPlan plan = {.out = &list[i], .stacked = stacked, .slot = stacked ? i : 0, .n_slots = stacked ? n : 1};
        LinearSpec spec = *form;
        if (form->blocks.total && !choose_block(b, form, i, rows, cols, &spec, &plan)) return false;
        if (!bind_plan_weight(b, &spec, layer, each ? i : -1, rows, cols, &plan) ||
            !bind_plan_bias(b, &spec, layer, each ? i : -1, &plan) || !bind_add_linear(b, &plan))
            return false;
    }
    *out = list;
    return true;
}

/* ---- vectors ---- */

float *bind_floats(Binder *b, int n) {
    float *room = arena_array(&b->weights->arena, (size_t)n, sizeof *room);
    if (!room) error_memory(b->err, "numbers of a layer");
    return room;
}

/* Any shape with n values. */
static bool holds(const Tensor *t, int64_t n) {
    int64_t count = 1;
    for (int i = 0; i < t->n_dims; i++) {
        if (t->shape[i] < 0 || (t->shape[i] > 0 && count > INT64_MAX / t->shape[i])) return false;
        count *= t->shape[i];
    }
    return count == n;
}

static bool add_vector(Binder *b, const VectorPlan *plan) {
    if (!grow(b, (void **)&b->vectors, b->n_vectors, &b->vector_capacity, sizeof *b->vectors)) return false;
    b->vectors[b->n_vectors++] = *plan;
    return true;
}

/* A tensor of one of these types that holds n values in any shape: [heads, dims] or [1, n] for n of them. head: -1
 * without '#'. */
static const Tensor *want_values(Binder *b, const char *name, int layer, int head, int64_t n, unsigned allowed) {
    char full[NAME_MAX_BYTES];
    Shape shape = {1, {n}};
    names_expand(b->names, name, layer, head, "", full);
    const Tensor *t = checkpoint_find(b->names->checkpoint, full);
    if (t && holds(t, n)) {
        shape.n_dims = t->n_dims;
        memcpy(shape.dims, t->shape, (size_t)shape.n_dims * sizeof *shape.dims);
    }
    return bind_tensor(b, full, &shape, allowed);
}

bool bind_vector(Binder *b, const char *name, int layer, int64_t n, float plus, const float **out) {
    if (!name) return true;
    const Tensor *t = want_values(b, name, layer, -1, n, FLOAT_TYPES);
    return t && add_vector(b, &(VectorPlan){.tensor = t, .plus = plus, .n = n, .out = out});
}

/* Item i of a tensor of integers. */
static int64_t whole_number(const Tensor *t, int64_t i) {
    int32_t small;
    int64_t large;
    memcpy(&small, t->data + (size_t)i * dtype_bytes(t->dtype), sizeof small);
    if (t->dtype == DTYPE_I32) return small;
    memcpy(&large, t->data + (size_t)i * sizeof large, sizeof large);
    return large;
}

bool bind_ids(Binder *b, const char *name, int layer, int64_t n, int limit, const int32_t **out) {
    if (!name) return true;
    const Tensor *t = want_values(b, name, layer, -1, n, 1u << DTYPE_I32 | 1u << DTYPE_I64);
    for (int64_t i = 0; t && i < n; i++) {
        int64_t id = whole_number(t, i);
        if (id < 0 || id >= limit)
            return bind_fail(b, "%s: tensor \"%s\" has %lld at item %lld, expected 0 to %d", t->file, t->name,
                             (long long)id, (long long)i, limit - 1);
    }
    return t && add_vector(b, &(VectorPlan){.tensor = t, .n = n, .ids = out});
}

bool bind_rates(Binder *b, RateForm form, const char *name, int layer, int channels, int dims, const float **out) {
    if (channels < 1 || dims < 1 || dims > 1024 || (int64_t)channels * dims > CONFIG_MAX_SIZE)
        return bind_fail(b, "config.json: \"%s\" cannot be rates of %d channels with states of %d", name, channels,
                         dims);
    int64_t n = (int64_t)channels * dims;
    const Tensor *t = want_values(b, name, layer, -1, n, FLOAT_TYPES);
    VectorPlan plan = {.tensor = t, .n = n, .channels = channels, .each = 1, .kernel = dims, .rates = form, .out = out};
    return t && add_vector(b, &plan);
}

bool bind_conv(Binder *b, const ConvSpec *spec, int layer, int channels, int kernel, Conv *out) {
    if (!spec->name) return true;
    int each = spec->each ? spec->each : 1, filters = channels / each;
    if (spec->from < 0 || spec->from + filters > spec->total || spec->total > CONFIG_MAX_SIZE || kernel < 1 ||
        kernel > 1024 || channels % each)
        return bind_fail(b, "config.json: \"%s\" cannot be a convolution of %d channels over %d positions", spec->name,
                         channels, kernel);
    const Tensor *t = want_values(b, spec->name, layer, -1, spec->total * kernel, FLOAT_TYPES);
    VectorPlan plan = {.tensor = t,
                       .from = spec->from * kernel,
                       .n = (int64_t)filters * kernel,
                       .channels = channels,
                       .each = each,
                       .kernel = kernel,
                       .out = &out->weights};
    if (!t || !add_vector(b, &plan)) return false;
    if (!spec->bias) return true;
    t = want_values(b, spec->bias, layer, -1, spec->total, FLOAT_TYPES);
    return t && add_vector(b, &(VectorPlan){.tensor = t, .from = spec->from, .n = channels, .out = &out->bias});
}

bool bind_norm(Binder *b, const NormSpec *spec, int layer, int64_t n, Norm *out) {
    if (spec->kind == NORM_NONE) return true;
    if (spec->kind == NORM_GAIN) n = 1;
    return bind_vector(b, spec->weight, layer, n, spec->plus, &out->weight) &&
           bind_vector(b, spec->bias, layer, n, 0, &out->bias);
}

/* A weight or a bias of every head. */
static bool bind_heads(Binder *b, const char *name, int layer, int heads, int64_t dim, float plus, const float **out) {
    if (!name || !strchr(name, '#')) return bind_vector(b, name, layer, heads * dim, plus, out);
    for (int head = 0; head < heads; head++) {
        const Tensor *t = want_values(b, name, layer, head, dim, FLOAT_TYPES);
        VectorPlan plan = {.tensor = t, .plus = plus, .n = dim, .at = head * dim, .total = heads * dim, .out = out};
        if (!t || !add_vector(b, &plan)) return false;
    }
    return true;
}

bool bind_head_norms(Binder *b, const NormSpec *spec, int layer, int n, int64_t dim, Norm *out) {
    if (spec->kind == NORM_NONE) return true;
    return bind_heads(b, spec->weight, layer, n, dim, spec->plus, &out->weight) &&
           bind_heads(b, spec->bias, layer, n, dim, 0, &out->bias);
}
